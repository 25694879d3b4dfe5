"""Models that learn elsewhere and are merged: see `fresh` and `merge` of the classifier."""

from dataclasses import replace
from typing import Any

import numpy as np

from bayespoint.estimators.base import Trained
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.fitting import Fitted
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.stream_models import Known, known_of
from bayespoint.estimators.stream_steps import absorb
from bayespoint.estimators.streams import Batch, begun, faded_stream
from bayespoint.inference.ep.cells.cell import united
from bayespoint.inference.ep.cells.growing import fit_of, nothing_lost
from bayespoint.inference.ep.cells.method import HeldCells
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.space.host import Place


def fresh(fitted: Fitted, parameters: Parameters, place: Place) -> Fitted:
    """Return the model with the same settings, cells and landmarks, and without rows."""
    if not isinstance(fitted.predictor, CellsPredictor):
        fitted = absorb(known_of(fitted, parameters), parameters, place)
    known, model = _emptied(known_of(fitted, parameters))
    predictor: Any = fitted.predictor
    X, none = known.X, known.stream.label
    support = replace(predictor.support, points=known.kernel.prepare(X))
    sites = np.empty((len(known.trees), 2, known.n_machines, 0), dtype=np.float32)
    return replace(
        fitted,
        predictor=replace(predictor, support=support, X=X, model=model, used=none),
        draws=replace(fitted.draws, resume=HeldCells(sites)),
        trained=Trained(0, none, fitted.trained.entropy, fitted.trained.drawn_with),
        support=none, support_vectors=X, stream=known.stream, given=None,
    )  # fmt: skip


def merge(fitted: Fitted, other: Fitted, parameters: Parameters, place: Place) -> Fitted:
    """Learn all that another model was fed, which `fresh` of this one has made."""
    left, right = known_of(fitted, parameters), known_of(other, parameters)
    reason = _why_not_merged(left, right)
    if reason is not None:
        raise ValueError(f"these two cannot be merged: {reason}.")
    if not right.stream.seen:
        return fitted
    return absorb(_merged(left, right, parameters.half_life), parameters, place)


def _why_not_merged(left: Known, right: Known) -> str | None:
    """Return why two models cannot be merged; None if they can."""
    if left.stream is right.stream:
        return "they are one and the same"
    if not right.stream.fresh:
        return "the other was not made by fresh(), so that rows might count twice"
    if right.stream.token in left.stream.merged.split():
        return "it was merged before, so that rows would count twice; feed a new fresh()"
    if left.stream.origin != right.stream.origin:
        return "the other was made by fresh() of another model, or before new settings were chosen"
    if not np.array_equal(left.classes, right.classes):
        return (
            f"their classes differ: {left.classes[:10].tolist()} and "
            f"{right.classes[:10].tolist()}. Name all of them at first, with classes="
        )
    mine, others = left.settings, right.settings
    same = all(
        np.array_equal(getattr(mine, name), getattr(others, name))
        for name in ("kernel_name", "gamma", "bias", "softness", "class_noise", "cells")
    )
    return None if same else "their settings differ"


def _emptied(known: Known) -> tuple[Known, CellModel]:
    """Return the model without its rows, and what decides then: the prior."""
    none = np.zeros(0, dtype=np.int64)
    trees = []
    for tree in known.trees:
        lost = tree.lost and nothing_lost(*tree.lost.shift.shape)
        mean = np.zeros_like(tree.common_mean)
        factor = np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1]))
        some = replace(tree.take(none), lost=lost, common_mean=mean, common_factor=factor)
        trees.append(some)
    stream = begun(
        none, np.zeros(0), len(trees), np.empty((known.n_machines, 0)), 0, known.stream.origin
    )
    fits = [fit_of(tree, none) for tree in trees]
    model = CellModel.of(fits, np.zeros(0), known.landmarks)
    stream = replace(stream, fresh=True)
    return replace(known, X=known.X[:0], trees=trees, stream=stream), model


def _merged(left: Known, right: Known, half_life: float | None) -> Known:
    """Return the first model, with the rows of the second waiting, as if they had come now."""
    others = right.stream
    mine = faded_stream(left.stream, others.seen, half_life)
    order = np.argsort(others.number, kind="stable")
    batch = Batch(right.X[order], others.label[order], others.weight[order])
    n_trees = len(left.trees)
    theirs = others.lost(len(right.trees)) * n_trees  # while a tree has one cell, it stands for all
    lost = [united(*pair) for pair in zip(mine.lost(n_trees), theirs[:n_trees], strict=True)]
    stream = replace(
        mine, pending=(batch,), seen=mine.seen + others.seen, dropped=mine.dropped + others.dropped,
        history=np.concatenate([mine.history, others.history]),
        merged=f"{mine.merged} {others.token}",
    ).predicted(others.z, others.z_label, others.z_weight)  # fmt: skip
    trees = [
        replace(tree, lost=tree.lost if one is None else one)
        for tree, one in zip(left.trees, lost, strict=True)
    ]
    trained, learnt = left.trained, right.trained.hashes
    trained = trained if learnt is None else trained.knowing(learnt)  # also rows dropped there
    return replace(left, stream=stream.with_lost(lost), trees=trees, trained=trained)
