"""A model whose rows and sites stay on the cluster: its answers, and how it comes back."""

import uuid
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.blocks import known_sizes, partitions, parts_of, place_of_fault
from bayespoint.distributed.inference import ClusterCells
from bayespoint.distributed.ordering import stacked
from bayespoint.distributed.parts import Part, PartedTree, rows_of_part, without_rows
from bayespoint.distributed.session import Session
from bayespoint.distributed.tasks import computing, item, memory_limit
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.data import TrainingData
from bayespoint.inference.ep.cells.method import Cells, no_draws
from bayespoint.inference.ep.cells.prediction import BLOCK, CellModel, bound_cache
from bayespoint.inference.ep.cells.problem import TreeFit
from bayespoint.inference.ep.cells.tree import Tree
from bayespoint.space import decisions
from bayespoint.space.host import Host
from bayespoint.space.inputs import Inputs, same_precision

# Bytes of new rows that are answered together: what cells need for that is computed once for all
# of them. Partitions whose sizes are not known are answered by so many.
TOGETHER_BYTES, UNKNOWN_TOGETHER = 64_000_000, 4

# Share of a worker's memory for factors of cells.
CACHED_SHARE = 0.05


class Points(NamedTuple):
    """New rows that fall into a part of the model."""

    X: Matrix
    rows: Array
    cell: Array  # counted from the first of the part


def checked_points(X: Any, number: int, estimator: Any, empty: Matrix) -> Matrix:
    """Check new rows as `predict` does; errors say which partition is at fault."""
    if not X.shape[0]:
        return empty
    try:
        return same_precision(Host().new_points(estimator, X, precomputed=False), empty.dtype)
    except ValueError as error:
        raise ValueError(f"partition {number} of X: {error}{place_of_fault(X)}") from None


def answered_together(X: Any, n_parts: int, n_features: int) -> list[Array]:
    """Return the numbers of partitions that are answered at a time."""
    sizes = known_sizes(X)
    if sizes is None:
        group = np.arange(n_parts) // UNKNOWN_TOGETHER
    else:
        group = 8 * n_features * np.cumsum([0, *sizes[:-1]]) // TOGETHER_BYTES
    return np.split(np.arange(n_parts), np.flatnonzero(np.diff(group)) + 1)


def points_together(parts: list[Matrix]) -> Matrix:
    """New rows of some partitions, one below the other; empty ones may be of another kind."""
    return stacked([part for part in parts if part.shape[0]] or parts[:1])


def ends_of(parts: list[Matrix]) -> Array:
    """Where each of some partitions ends, one below the other."""
    return np.cumsum([0, *(part.shape[0] for part in parts)])


def split_points(X: Matrix, tree: Tree, together: int) -> list[Points]:
    """Divide new rows by the parts of the model that have their cells."""
    cell_of = tree.route(X)
    n_parts = -(-tree.n_cells // together)
    found = []
    for number in range(n_parts):
        rows = np.flatnonzero(cell_of // together == number)
        found.append(Points(X[rows], rows, cell_of[rows] - number * together))
    return found


@computing
def scores_in(points: Points, part: Part, softness: float) -> tuple[Array, Array]:
    """Means over standard deviations, softness added, of rows that fall into a part."""
    bound_cache(CACHED_SHARE * memory_limit())
    cellwise, n_machines = part.cellwise, len(part.tau)
    z = np.empty((n_machines, len(points.rows)))
    for cell in np.unique(points.cell):
        rows = np.flatnonzero(points.cell == cell)
        for here in (rows[first : first + BLOCK] for first in range(0, len(rows), BLOCK)):
            X = points.X[here]
            mean, variance = cellwise.in_cell(0, int(cell), X)
            length = cellwise.kernel.prepare(X).length.astype(np.float64)
            ridge = softness * np.where(length > 0, length, 1.0) ** 2
            z[:, here] = mean / np.sqrt(np.maximum(variance + ridge, np.finfo(float).tiny))
    return points.rows, z


def scores_of(X: Matrix, by_trees: list[list[tuple[Array, Array]]]) -> Array:
    """Scores of new rows, the mean over trees."""
    total = np.zeros((len(by_trees[0][0][1]), X.shape[0]))
    for parts in by_trees:
        for rows, z in parts:
            total[:, rows] += z
    return total / len(by_trees)


def rows_between(answers: Array, ends: Array, place: int) -> Array:
    """Answers to one of several partitions."""
    return answers[ends[place] : ends[place + 1]]


def answer_of(z: Array, predictor: CellsPredictor, classes: Array, method: str) -> Array:
    """What a method of the classifier says, from scores."""
    outputs = predictor.outputs_of_scores(z)
    if method == "decision_function":
        return outputs
    if method == "predict":
        return classes[decisions.winners(outputs)]
    return predictor.proba_of(outputs)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterModel:
    """A model on a cluster.

    Attributes
    ----------
    trees : list of PartedTree
    cells : ClusterCells
        Without its chunks.
    data : TrainingData
        Without rows.
    predictor : CellsPredictor
        Without rows and cells: it has the link.
    checker : BayesPointClassifier
        Not fitted: it knows the columns.
    empty : ndarray or csr_matrix of shape (0, n_features)
        What rows look like.
    """

    trees: list[PartedTree]
    cells: ClusterCells
    data: TrainingData
    predictor: CellsPredictor
    checker: Any
    empty: Matrix

    @property
    def classes(self) -> Array:
        """Classes, in order."""
        return self.data.classes

    def answers(self, X: Any, method: str) -> list[Any]:
        """Return delayed answers of a method, one per partition of X."""
        name = Names()
        predictor, checker = (delayed_value(value) for value in (self.predictor, self.checker))
        parts, found = partitions(X, "X"), []
        for numbers in answered_together(X, len(parts), self.empty.shape[1]):
            checked = [
                name("check-points", checked_points)(parts[k], k, checker, self.empty)
                for k in numbers.tolist()
            ]
            rows = name("points-together", points_together)(checked)
            z = name("mean-over-trees", scores_of)(
                rows, [self._by_tree(rows, tree, name) for tree in self.trees]
            )
            answers = name(method, answer_of)(z, predictor, self.data.classes, method)
            ends = name("count-points", ends_of)(checked)
            found += [
                name("answers-of-partition", rows_between)(answers, ends, place)
                for place in range(len(checked))
            ]
        return found

    def _by_tree(self, rows: Any, tree: PartedTree, name: "Names") -> list[Any]:
        split = name("split-points", split_points)(rows, tree.held, tree.together)
        return [
            name("outputs-in-cells", scores_in)(
                name("points-of-part", item)(split, number), part, self.predictor.softness
            )
            for number, part in enumerate(tree.parts)
        ]

    def inferred(self, session: Session) -> tuple[TrainingData, Cells]:
        """Fetch rows and sites; what inference on one machine would have found."""
        found = [
            session.results(session.map("sites-of-part", without_rows, tree.parts))
            for tree in self.trees
        ]
        m, n_machines = len(self.data.distinct.label), len(self.cells.z)
        X = stacked(session.results(session.map("rows-of-part", rows_of_part, self.trees[0].parts)))
        place = np.argsort(np.concatenate([part.number for part in found[0]]))
        data = replace(self.data, inputs=Inputs(X[place]))
        scores = np.zeros((3, n_machines, m))
        fits = []
        for tree, parts in zip(self.trees, found, strict=True):
            order = np.concatenate([part.number for part in parts])
            fits.append(_tree_fit(tree, parts, order))
            for part in parts:
                scores[..., part.number] += part.scores
        weight, work = data.distinct.weight, self.cells.work
        copies = weight if work.settings.softness else np.ones_like(weight)
        model = CellModel.of(fits, copies, work.landmarks)
        draws, n_trees = no_draws(fits, self.cells.info), len(fits)
        return data, Cells(draws, model, scores / n_trees, self.cells.log_evidence)


def _tree_fit(tree: PartedTree, parts: list[Part], order: Array) -> TreeFit:
    """Put the parts of a tree together."""
    sizes = np.cumsum([0, *(len(part.number) for part in parts)])
    begin = np.concatenate(
        [[0], *(part.begin[1:] + first for part, first in zip(parts, sizes, strict=False))]
    )
    tau, nu, coef = (
        np.concatenate([getattr(part, name) for part in parts], axis=1)[:, np.argsort(order)]
        for name in ("tau", "nu", "coef")
    )
    none = np.empty((len(tau), 0))
    return TreeFit(
        tree.tree, order, begin, tau, nu, coef, none, tree.mean, tree.factor,
        np.zeros(len(tau)), 0, np.ones(tree.tree.n_cells, dtype=bool),
    )  # fmt: skip


class LocalModel(NamedTuple):
    """A plain classifier that answers on the workers, each of which gets a copy."""

    checker: Any

    @property
    def classes(self) -> Array:
        """Classes, in order."""
        return self.checker.classes_

    def answers(self, X: Any, method: str) -> list[Any]:
        """Return delayed answers of a method, one per partition of X."""
        name, model = Names(), delayed_value(self.checker)
        return [
            name(method, local_answer)(part, number, model, method)
            for number, part in enumerate(partitions(X, "X"))
        ]


def local_answer(X: Any, number: int, model: Any, method: str) -> Array:
    """What a plain classifier says of the rows of a partition."""
    if not X.shape[0]:
        some = np.zeros((1, model.n_features_in_))
        return getattr(holding_no_names(model), method)(some)[:0]
    try:
        return getattr(model, method)(X)
    except ValueError as error:
        raise ValueError(f"partition {number} of X: {error}{place_of_fault(X)}") from None


def holding_no_names(model: Any) -> Any:
    """Return a copy of a classifier that does not know the names of its columns."""
    other = copy(model)
    vars(other).pop("feature_names_in_", None)
    return other


def joined(parts: list[Any], X: Any, classes: Array, method: str) -> Any:
    """Return answers to the partitions of X as one Dask array."""
    import dask.array as da

    sizes = getattr(X, "chunks", [[np.nan] * len(parts)])[0]
    wide = method == "predict_proba" or (method == "decision_function" and len(classes) > 2)
    more = (len(classes),) if wide else ()
    dtype = classes.dtype if method == "predict" else np.dtype(np.float64)
    arrays = [
        da.from_delayed(part, shape=(size, *more), dtype=dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def right_of(parts: list[Any], X: Any, y: Any, weight: Any) -> list[Any]:
    """Return delayed sums of the weights of labels that are predicted, and of all, by partition."""
    name = Names()
    of_each = zip(parts, parts_of(X, y, weight), strict=True)
    return [
        name("right", right)(part, *given[1:], number)
        for number, (part, given) in enumerate(of_each)
    ]


def right(predicted: Array, y: Any, weight: Any, number: int) -> Array:
    """Sum of the weights of labels that are predicted, and of all."""
    copies = np.ones(len(predicted)) if weight is None else np.asarray(weight, dtype=np.float64)
    if not len(predicted) == len(y) == len(copies):
        raise ValueError(
            f"partition {number}: X has {len(predicted)} rows, y has {len(y)} and sample_weight "
            f"{len(copies)}. Divide them alike."
        )
    return np.array([np.sum(copies[predicted == np.asarray(y)]), np.sum(copies)])


class Names:
    """Delayed functions whose tasks have names that people can read."""

    def __init__(self) -> None:
        self._token, self._count = uuid.uuid4().hex, 0

    def __call__(self, name: str, function: Callable) -> Callable:
        """Return a function that is called later, in a task of this name."""
        from dask import delayed

        self._count += 1
        return partial(
            delayed(function, pure=False), dask_key_name=f"{name}-{self._count}-{self._token}"
        )


def delayed_value(value: Any) -> Any:
    """Return a value that tasks share."""
    from dask import delayed

    return delayed(value, pure=False)
