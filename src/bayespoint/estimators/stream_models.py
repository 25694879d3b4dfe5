"""Models of EP by cells that go on learning: see `streams` for what they remember of their rows."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from bayespoint._support.checks import entropy_of
from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.base import Trained
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.cells import CELL_SIZE, LINEAR_CELL_SIZE, TREES
from bayespoint.estimators.data import TrainingData, origin_error, training_data
from bayespoint.estimators.fitting import Fitted
from bayespoint.estimators.parameters import Parameters, by_evidence, class_noise
from bayespoint.estimators.settings import Settings, settings_to_begin
from bayespoint.estimators.streams import (
    ANEW,
    ROWS_SHARE,
    Batch,
    Stream,
    begun,
    kept_rows,
)
from bayespoint.estimators.trials import problem_of
from bayespoint.inference.draws import Plan
from bayespoint.inference.ep.cells.growing import (
    GrowingTree,
    forgotten,
    grown,
    nothing_lost,
    trees_of,
)
from bayespoint.inference.ep.cells.landmarks import Landmarks, landmarks_of, own_features
from bayespoint.inference.ep.cells.method import Cells, CellSettings, cell_problem
from bayespoint.inference.ep.cells.problem import CellProblem
from bayespoint.inference.problem import Problem, machines_of
from bayespoint.space.host import Place
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel
from bayespoint.space.merging import contested, contradictions, last_of
from bayespoint.space.version_space import EmptyVersionSpaceError


def cells_for(parameters: Parameters, cells: CellSettings | None, n_features: int) -> CellSettings:
    """Cells of a stream, where the fit that it began with had one."""
    if cells is not None:
        return cells
    own = own_features(parameters.kernel, n_features)
    auto = [isinstance(v, str) for v in (parameters.cell_size, parameters.n_landmarks)]
    size = CELL_SIZE if auto[0] else int(parameters.cell_size)
    if auto[0] and own is not None:
        size = min(size, max(LINEAR_CELL_SIZE, own))
    n_landmarks = own or 0 if auto[1] else int(parameters.n_landmarks)
    n_trees = (1 if own else TREES) if isinstance(parameters.n_trees, str) else parameters.n_trees
    return CellSettings(size, n_landmarks, int(n_trees))


def most_rows(parameters: Parameters, X: Matrix, n_trees: int, n_machines: int) -> int:
    """Rows that may be held: see ``ROWS_SHARE``."""
    n_rows = max(X.shape[0], 1)
    own = X.data.nbytes * 1.5 / n_rows if sp.issparse(X) else X.shape[1] * X.dtype.itemsize
    # A model has a place, sites as single and a coefficient and precision as double numbers, of
    # each tree; labels, weights and numbers.
    each = own + n_trees * (9 + 24 * n_machines) + 24
    return int(ROWS_SHARE * parameters.cache_bytes / (2 * each))


def machines_from(old: Array, new: Array) -> list[tuple[int | None, float]]:
    """For each machine of the new classes: the machine of the old ones that it was, and its sign.

    Two classes have one machine, of the second.
    """
    place = {label: k for k, label in enumerate(old.tolist())}
    numbers = [place.get(label) for label in new.tolist()]
    if len(new) == 2:
        numbers = numbers[1:]
    if len(old) > 2:
        return [(number, 1.0) for number in numbers]
    return [(None if k is None else 0, -1.0 if k == 0 else 1.0) for k in numbers]


def joined(parts: list[Matrix]) -> Matrix:
    """Rows one after the other, in the form of the first ones."""
    if sp.issparse(parts[0]):
        return sp.vstack([sp.csr_matrix(part) for part in parts], format="csr")
    return np.concatenate([part.toarray() if sp.issparse(part) else part for part in parts])


@dataclass(frozen=True, eq=False, repr=False)
class Known:
    """A model that can go on.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    settings : Settings
        With cells.
    kernel : Kernel
        Its layout is fitted.
    X : ndarray or csr_matrix of shape (m, n_features)
        Rows that are held.
    trees : list of GrowingTree
        Over these rows.
    landmarks : Landmarks or None
    stream : Stream
    trained : Trained
        Of the last fit: its seed stays, and parameters are held to it.
    """

    classes: Array
    settings: Settings
    kernel: Kernel
    X: Matrix
    trees: list[GrowingTree]
    landmarks: Landmarks | None
    stream: Stream
    trained: Trained

    @property
    def n_machines(self) -> int:
        """Binary problems."""
        return len(machines_of(len(self.classes)))

    @property
    def cells(self) -> CellSettings:
        """How rows are divided."""
        assert self.settings.cells is not None
        return self.settings.cells

    def all_rows(self) -> tuple[Matrix, Array, Array, Array]:
        """Rows that are held or wait, their labels, weights and numbers."""
        stream, batches = self.stream, self.stream.pending
        X = joined([self.X, *(batch.X for batch in batches)])
        label = np.concatenate([stream.label, *(batch.label for batch in batches)])
        weight = np.concatenate([stream.weight, *(batch.weight for batch in batches)])
        first_new = stream.seen - stream.n_pending
        number = np.append(stream.number, first_new + np.arange(stream.n_pending))
        return X, label, weight, number

    def of_classes(self, classes: Array, label_noise: Any) -> "Known":
        """Return the same with more classes, which start at the prior.

        ``label_noise``: the parameter; a rate that was chosen stays.
        """
        chosen = by_evidence(label_noise)
        rate = float(self.settings.class_noise[0]) if chosen else label_noise
        noise = class_noise(rate, classes)
        if np.array_equal(classes, self.classes):
            return self
        source = machines_from(self.classes, classes)
        trees = [tree.of_machines(source) for tree in self.trees]
        place = np.searchsorted(classes, self.classes)
        stream, none = self.stream, np.empty(0)
        stream = replace(
            stream, label=place[stream.label], waiting=np.array([t.waiting for t in trees]),
            pending=tuple(b._replace(label=place[b.label]) for b in stream.pending),
            z=np.empty((len(source), 0), dtype=np.float32), z_label=none.astype(np.int64),
            z_weight=none,
        ).with_lost([tree.lost for tree in trees])  # fmt: skip
        settings = replace(self.settings, class_noise=noise)
        return replace(self, classes=classes, settings=settings, trees=trees, stream=stream)


def stream_of(fitted: Fitted) -> Stream:
    """Return what a model goes on with; refuse one that cannot."""
    if fitted.stream is None:
        raise ValueError(
            f"partial_fit can continue only fits by EP with votes; this fit used inference="
            f"{fitted.settings.inference!r} and decision={fitted.settings.decision!r}, or is from "
            f"an older file. Set inference='ep' and decision='auto' and call fit, or partial_fit "
            f"of a new classifier."
        )
    return fitted.stream


def known_of(fitted: Fitted, parameters: Parameters) -> Known:
    """Return the model of a fit: by cells, or one cell whose sites are to be found again."""
    classes, settings, X = fitted.classes, fitted.settings, fitted.support_vectors
    stream, kernel = stream_of(fitted), fitted.predictor.support.kernel
    if isinstance(fitted.predictor, CellsPredictor):
        model = fitted.predictor.model
        landmarks = None
        if model.landmarks is not None and model.projection is not None:
            landmarks = Landmarks(model.landmarks, model.projection)
        lost = stream.lost(len(model.roots))
        if landmarks is not None and lost[0] is None:
            n_common = landmarks.projection.shape[1]
            lost = [nothing_lost(len(model.tau), n_common)] * len(model.roots)
        trees = trees_of(model, fitted.draws.resume.sites, lost, stream.waiting)
        return Known(classes, settings, kernel, X, trees, landmarks, stream, fitted.trained)
    cells = cells_for(replace(parameters, kernel=kernel.name), settings.cells, X.shape[1])
    landmarks = landmarks_of(kernel, X, min(cells.n_landmarks, X.shape[0] + X.shape[1]))
    tree = GrowingTree.empty(X.shape[1], len(machines_of(len(classes))), landmarks)
    tree = tree.over(np.zeros(0, dtype=np.int64), X.shape[0])
    settings = replace(settings, cells=cells, log_evidence=None)
    stream = replace(stream, waiting=tree.waiting[None])
    return Known(classes, settings, kernel, X, [tree], landmarks, stream, fitted.trained)


def begun_with_one_class(
    parameters: Parameters, inputs: Inputs, y: Array, weight: Array, classes: Array
) -> Known:
    """Return a model without rows, and the rows of one class waiting, of which nothing is chosen.

    Parameters
    ----------
    parameters : Parameters
    inputs : Inputs
        Rows.
    y : ndarray of shape (n_rows,)
    weight : ndarray of shape (n_rows,)
    classes : ndarray of shape (n_classes,)
        All that may turn up.
    """
    data = training_data(
        inputs, np.searchsorted(classes, y), weight, class_weight=parameters.class_weight,
        precomputed=False, classes=classes,
    )  # fmt: skip
    cells = cells_for(parameters, None, inputs.shape[1])
    settings = replace(settings_to_begin(parameters, data), cells=cells)
    kernel = data.inputs.fit_layout(parameters.kernel_with(settings.gamma, settings.bias))
    X, none = data.inputs.matrix(), np.zeros(0)
    landmarks = landmarks_of(kernel, X, cells.n_landmarks)
    tree = GrowingTree.empty(X.shape[1], data.n_machines, landmarks)
    stream = begun(
        none.astype(np.int64), none, 1, np.empty((data.n_machines, 0)), 0, data.distinct.fingerprint
    )
    batch = Batch(X, data.distinct.label, data.distinct.weight)
    stream = replace(stream, pending=(batch,), seen=int(np.sum(weight > 0)), settled=1)
    stream = stream.told(len(y), np.nan)
    trained = Trained(0, none, entropy_of(parameters.random_state), parameters.asked)
    return Known(classes, settings, kernel, X[:0], [tree], landmarks, stream, trained)


class Learnt(NamedTuple):
    """What absorbing rows gives."""

    known: Known
    cells: Cells
    problem: Problem
    data: TrainingData


def absorbed(known: Known, parameters: Parameters, place: Place, plan: Plan, due: float) -> Learnt:
    """Let rows that wait join the model, and sweep cells that have grown by ``due``."""
    known, anew = _without_old(known, parameters, place, plan)
    stream = known.stream
    X, label, weight, number = known.all_rows()
    data = _data(known, X, label, weight, parameters, place)
    problem, cell_problem_ = _problem(known, data, plan)
    member, m = data.distinct.member, len(data.distinct.row)
    trees = [tree.over(member[: len(stream.label)], m) for tree in known.trees]
    if np.any(again := np.isin(np.arange(m), member[len(stream.label) :])):  # equal rows, too
        trees = [replace(tree, waiting=tree.waiting | again) for tree in trees]
    if anew:
        trees = [replace(tree, waiting=np.ones(m, dtype=bool)) for tree in trees]
    cells, trees = grown(
        cell_problem_, known.cells, trees, known.landmarks, plan, parameters.cache_bytes,
        0.0 if anew else due,
    )  # fmt: skip
    stream = replace(
        stream, label=data.distinct.label, weight=data.distinct.weight,
        number=last_of(data.distinct, number), pending=(),
        waiting=np.array([tree.waiting for tree in trees]),
        anew=stream.seen if anew else stream.anew,
    ).with_lost([tree.lost for tree in trees])  # fmt: skip
    known = replace(known, X=data.inputs.matrix(), trees=trees, stream=stream)
    return Learnt(known, cells, problem, data)


def _data(
    known: Known, X: Matrix, label: Array, weight: Array, parameters: Parameters, place: Place
) -> TrainingData:
    inputs, label = place.training_inputs(BaseEstimator(), X, label, precomputed=False)
    return training_data(
        inputs, label, weight, class_weight=parameters.class_weight, precomputed=False,
        classes=known.classes,
    )  # fmt: skip


def check_newest(known: Known, parameters: Parameters, place: Place) -> None:
    """Refuse the newest rows that wait where they could never be learnt."""
    batch = known.stream.pending[-1]
    at_origin = known.kernel.prepare(batch.X).length == 0
    if np.any(at_origin):
        raise origin_error(at_origin, np.arange(len(at_origin)))
    if known.settings.softness == 0:
        X, label, weight, _ = known.all_rows()
        distinct = _data(known, X, label, weight, parameters, place).distinct
        found = contradictions(distinct, known.settings.class_noise[distinct.label] == 0)
        newest = found - (len(label) - len(batch.label))
        if np.any(newest >= 0):
            raise EmptyVersionSpaceError(
                newest[newest >= 0], " (earlier rows are equal, with other labels)",
                "leave them out",
            )  # fmt: skip


def _problem(known: Known, data: TrainingData, plan: Plan) -> tuple[Problem, CellProblem]:
    problem = problem_of(
        known.kernel, data.inputs, data.distinct, known.settings, known.classes.tolist(),
        cache_bytes=0, threads=plan.threads,
    )  # fmt: skip
    problem.rows.release()
    alone = ~contested(data.distinct)
    return problem, cell_problem(problem, known.kernel, data.inputs, alone, data.own_copies)


def _without_old(
    known: Known, parameters: Parameters, place: Place, plan: Plan
) -> tuple[Known, bool]:
    """Drop rows that count no more, or that there is no memory for.

    And whether all cells are to be swept: rows were dropped, or all count less than they did.
    """
    stream, half_life = known.stream, parameters.half_life
    anew = half_life is not None and stream.seen - stream.anew > ANEW * half_life
    kept = kept_rows(
        stream, most_held(known, parameters), stream.n_pending, half_life if anew else None
    )
    if np.all(kept):
        return known, anew
    trees = known.trees
    if known.landmarks is not None:
        data = _data(known, known.X, stream.label, stream.weight, parameters, place)
        order = data.distinct.member
        _, problem = _problem(known, data, plan)
        kept_there = np.empty_like(kept)
        kept_there[order] = kept
        trees = [
            replace(
                tree,
                lost=forgotten(
                    problem, tree.over(order, len(kept)), kept_there, known.landmarks, known.cells,
                    plan, parameters.cache_bytes,
                ),
            )
            for tree in trees
        ]  # fmt: skip
    rows = np.flatnonzero(kept)
    trees = [tree.take(rows) for tree in trees]
    stream = replace(
        stream, label=stream.label[rows], weight=stream.weight[rows], number=stream.number[rows],
        waiting=stream.waiting[:, rows], dropped=stream.dropped + int(np.sum(~kept)),
    )  # fmt: skip
    return replace(known, X=known.X[rows], trees=trees, stream=stream), True


def most_held(known: Known, parameters: Parameters) -> int:
    """Rows that there is memory for."""
    return most_rows(parameters, known.X, known.cells.n_trees, known.n_machines)
