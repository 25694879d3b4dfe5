"""Steps of a stream, from what a classifier holds to what it holds next: see `partial_fit`.

A step that fails or is interrupted raises, and leaves what there was.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator

from bayespoint._support.threads import open_threads
from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.base import Trained
from bayespoint.estimators.calibration import LINK_SHARE
from bayespoint.estimators.data import TrainingData, naming_rows
from bayespoint.estimators.fitting import SAME_DATA, Fitted, data_of, fit, fitted_of
from bayespoint.estimators.making import predictor_of
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.predictors import Asked
from bayespoint.estimators.stream_models import (
    Known,
    absorbed,
    begun_with_one_class,
    check_newest,
    known_of,
    most_held,
    stream_of,
)
from bayespoint.estimators.streams import (
    DUE,
    JOINING,
    Batch,
    Stream,
    faded_stream,
    faded_weights,
    log_proba_of,
    may_settle_again,
    of_present,
    rows_asked,
    token_of,
    wider_classes,
)
from bayespoint.inference.draws import Plan
from bayespoint.space.host import Place
from bayespoint.space.inputs import Inputs


def check_goes_on(fitted: Fitted, parameters: Parameters) -> None:
    """Refuse models that cannot go on, and parameters that are not those they were made with."""
    stream_of(fitted)
    before = fitted.trained.drawn_with
    changed = [name for name, v in parameters.asked.items() if before.get(name, v) != v]
    if changed:
        raise ValueError(
            f"partial_fit continues the fitted model, but {changed} changed since "
            f"then. Set them back, or call fit to start again."
        )


def begin(
    parameters: Parameters, place: Place, inputs: Inputs, y: Array, weight: Array, classes: Any
) -> Fitted:
    """Fit the first rows; ``classes`` may name some that have not come yet."""
    there = np.unique(y[weight > 0])
    named = there if classes is None else wider_classes(there, classes)
    if len(named) < 2:
        raise ValueError(
            f"y must hold at least 2 classes with positive weight in the first call of "
            f"partial_fit; got {there.tolist()}. Name all classes that may come with classes=."
        )
    if len(there) < 2:
        known = begun_with_one_class(parameters, inputs, y, weight, named)
        return absorb(known, parameters, place)
    present = of_present(parameters, named, there)
    data = data_of(present, inputs, y, weight)
    with naming_rows(data):
        fitted = _fit(present, place, data)
    fitted = replace(fitted, stream=stream_of(fitted).told(len(y), np.nan))
    return _of_classes(fitted, named, parameters, place)


def learn(
    fitted: Fitted, parameters: Parameters, place: Place, X: Matrix, y: Array, weight: Array,
    classes: Any,
) -> Fitted:  # fmt: skip
    """Take more rows: predict them, and learn them, or let them wait where they are few."""
    wider = wider_classes(fitted.classes, classes, y if len(y) else None)
    new_class = len(wider) > len(fitted.classes)
    fitted = replace(fitted, stream=_predicted(fitted, place, X, y, weight))
    if not len(y) and not new_class:
        return fitted
    known = known_of(fitted, parameters).of_classes(wider, parameters.label_noise)
    batch = Batch(X, np.searchsorted(wider, y), weight)
    stream = _with_batch(known.stream, batch, parameters.half_life)
    known = replace(known, stream=stream)
    check_newest(known, parameters, place)
    if may_settle_again(stream, parameters, most_held(known, parameters)):
        return _settle_again(known, parameters, place)
    if new_class or stream.n_pending > JOINING * len(stream.label):
        return absorb(known, parameters, place, DUE)
    waiting = stream_of(fitted).waiting  # the model knows what it knew
    return replace(fitted, stream=replace(stream, waiting=waiting))


def absorb(known: Known, parameters: Parameters, place: Place, due: float = 0.0) -> Fitted:
    """Let rows that wait join the model, and sweep cells that have grown by ``due``."""
    budget, trained = parameters.budget(), known.trained
    with (
        budget.catching_interrupts(),
        open_threads(effective_n_jobs(parameters.n_jobs)) as threads,
    ):
        plan = Plan(0, parameters.tol, trained.entropy, budget, threads)
        known, cells, problem, data = absorbed(known, parameters, place, plan, due)
        predictor: Any = predictor_of(cells, problem, data, known.settings, known.kernel)
        if known.settings.decision == "calibrated":
            link = known.stream.link(predictor.noise, len(known.classes))
            predictor = replace(predictor, link=link)
    budget.raise_if_interrupted()
    rows = np.arange(len(known.stream.label))
    drawn_with = trained.drawn_with | {SAME_DATA: data.distinct.fingerprint}
    hashes = trained.hashes
    trained = Trained(known.stream.seen, rows, trained.entropy, drawn_with, hashes=hashes)
    fitted = fitted_of(place, data, known.settings, cells, predictor, trained)
    return _with_stream(replace(fitted, support=rows), known.stream)


def _fit(parameters: Parameters, place: Place, data: TrainingData) -> Fitted:
    budget = parameters.budget(1 - LINK_SHARE)
    fitted = fit(parameters, place, data, budget)
    budget.raise_if_interrupted()
    return fitted


def _settle_again(known: Known, parameters: Parameters, place: Place) -> Fitted:
    """Fit all rows that are held anew."""
    X, label, weight, number = known.all_rows()
    present = of_present(parameters, known.classes, known.classes[np.unique(label)])
    inputs, y = place.training_inputs(BaseEstimator(), X, known.classes[label], precomputed=False)
    data = data_of(present, inputs, y, weight)
    del X, inputs  # the memory of all rows: data have the distinct ones
    fitted = _fit(present, place, data)
    before, stream = known.stream, stream_of(fitted)
    stream = replace(
        stream, number=number[stream.number], seen=before.seen, anew=before.seen,
        settled=len(label), history=before.history, merged=before.merged,
    )  # fmt: skip
    return _of_classes(_with_stream(fitted, stream), known.classes, parameters, place)


def _of_classes(fitted: Fitted, classes: Array, parameters: Parameters, place: Place) -> Fitted:
    """Return the model with classes that have not come yet, too."""
    if len(classes) == len(fitted.classes):
        return fitted
    known = known_of(fitted, parameters).of_classes(classes, parameters.label_noise)
    return absorb(known, parameters, place)


def _with_stream(fitted: Fitted, stream: Stream) -> Fitted:
    """Return the model with a stream, whose rows importances are computed from."""
    given = fitted.support_vectors, fitted.classes[stream.label], stream.weight
    return replace(fitted, stream=stream, given=given)


def _with_batch(stream: Stream, batch: Batch, half_life: float | None) -> Stream:
    """Return the stream with more rows that wait; older ones count less."""
    stream = faded_stream(stream, len(batch.label), half_life)
    batch = batch._replace(weight=faded_weights(batch.weight, half_life))
    if stream.fresh and not stream.seen:
        stream = replace(stream, token=token_of(batch))
    return replace(stream, pending=(*stream.pending, batch), seen=stream.seen + len(batch.label))


def _predicted(fitted: Fitted, place: Place, X: Matrix, y: Array, weight: Array) -> Stream:
    """Predict rows that are not learnt yet."""
    stream = stream_of(fitted)
    if not len(y) or not stream.seen:  # or a model that has seen nothing, which says nothing
        return stream.told(len(y), np.nan)
    predictor: Any = fitted.predictor
    some = rows_asked(predictor, X, stream.seen)
    z = predictor.scores(Asked(X[some], place))
    there = np.isin(y[some], fitted.classes)
    label = np.where(there, np.searchsorted(fitted.classes, y[some]), -1)
    proba = predictor.proba_of_scores(z)
    told = stream.told(len(y), log_proba_of(proba, label, weight[some]))
    # A link has nothing to learn from rows of a class that the model has not learnt yet.
    learnt = np.isin(label, stream.label[~np.all(stream.waiting, axis=0)])
    return told.predicted(z[:, learnt], label[learnt], weight[some][learnt])
