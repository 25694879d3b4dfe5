"""Widths of features, learnt by the evidence on whole cells of the data.

In rounds: cells are made anew in the scaled columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.estimators.cells import LEAST_SOFTNESS
from bayespoint.inference.engines import cells_of_rows, engines_of
from bayespoint.inference.ep.cells.tree import grow
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.widths import STEPS, TRIED_STEPS, WidthCell, WidthCells, best_widths
from bayespoint.inference.problem import Problem, machines_of
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel

if TYPE_CHECKING:
    from bayespoint.estimators.trials import CellSearch

# A column's unit is its deviation, but at least this share of its range: rare words would reach too
# far. Columns have comparable spread if their ranges are at least this share of the largest. Those
# that hardly ever vary, like pixels at the border of images, may have smaller ones: they have their
# least or their largest value in so many of the rows, of which some thousands tell.
LEAST_UNIT = 0.1
COMPARABLE = 0.05
MOSTLY, ROWS_SEEN = 0.9, 5_000
ROUNDING = 4.0

# Rows of a cell that widths are learnt on, of one with all rows, such cells at most and at least,
# and work (operations) of a step.
LEARNT_SIZE, WHOLE_SIZE, LEARNT_CELLS, LEAST_LEARNT = 700, 1_000, 16, 3
LEARNING_WORK = 6e9
MANY_SHARE = 0.7  # of these sizes, with more than two classes
ROUNDS = 2
LAST_STEPS = 25  # from all rows, where these are few

# The second start is so many times wider, where there are more than few columns: steps from either
# may end in the lesser of two optima.
WIDER, FEW_COLUMNS = 3.0, 3
LEARNT_CLASSES = 3


@dataclass(frozen=True, eq=False)
class Columns:
    """Spread of the columns.

    Attributes
    ----------
    unit : ndarray of shape (n_features,)
        Infinite for constant columns.
    comparable : bool
        Whether one width may suit all of them as they are.
    two_valued : bool
        Whether none has more than two values.
    """

    unit: Array
    comparable: bool
    two_valued: bool

    @classmethod
    def of(cls, inputs: Inputs) -> "Columns":
        """Look at all rows."""
        deviation, least, most, two_valued = inputs.spread()
        reach = np.subtract(most, least, dtype=np.float64)
        # A value and the next one, say, differ by rounding.
        size = np.maximum(np.abs(least), np.abs(most)).astype(np.float64)
        moving = reach > ROUNDING * np.finfo(inputs.dtype).eps * size
        unit = np.where(moving, np.maximum(deviation, LEAST_UNIT * reach), np.inf)
        narrow = np.flatnonzero(moving & (reach < COMPARABLE * np.max(reach, initial=0.0)))
        comparable = not len(narrow) or _hardly_vary(inputs, narrow, least, most)
        return cls(unit, comparable, two_valued)

    def grouped(self, group: Array) -> "Columns":
        """Return one unit for all columns of a group, constant ones apart: their mean square's."""
        moving = np.isfinite(self.unit)
        squares = np.where(moving, self.unit, 0.0) ** 2
        mean = np.bincount(group, squares) / np.maximum(np.bincount(group, moving), 1)
        return replace(self, unit=np.where(moving, np.sqrt(mean)[group], np.inf))


def _hardly_vary(inputs: Inputs, columns: Array, least: Array, most: Array) -> bool:
    """Whether each of these columns has one of its ends in most rows."""
    n_rows = inputs.shape[0]
    X = inputs.array(np.arange(0, n_rows, -(-n_rows // ROWS_SEEN)))[:, columns]
    X = X.toarray() if sp.issparse(X) else X
    share = [np.mean(end[columns] == X, axis=0) for end in (least, most)]
    return bool(np.all(np.maximum(*share) >= MOSTLY))


class WidthLearner:
    """Learns widths for the kernel of a search.

    Parameters
    ----------
    search : CellSearch
    columns : Columns
    group : ndarray of int, shape (n_features,)
        Columns of a group have one width.

    Attributes
    ----------
    power : int
        Of differences in the kernel.
    machines : list of int
        Classes that are told from the rest: the largest.
    """

    def __init__(self, search: "CellSearch", columns: Columns, group: Array) -> None:
        self._search, self._data, self._group = search, search.data, group
        self._X: Any = self._data.inputs.matrix()
        self.power = 2 if search.parameters.kernel == "rbf" else 1
        self._unit = np.where(np.isfinite(columns.unit), columns.unit, 1.0)
        self.machines = self._data.largest_classes(LEARNT_CLASSES)

    def learnt(
        self, base: Array, settings: Any, rows: Array, begin: Array | None = None,
        threads: Threads | None = None,
    ) -> Array:  # fmt: skip
        """Widths in units of the common one, from some rows.

        Parameters
        ----------
        base : ndarray of shape (n_features,)
            Widths that the prior is about.
        settings : Settings
        rows : ndarray of int
        begin : ndarray of shape (n_features,), optional
            Widths that are nearly right already, for one round; ``base`` by default.
        threads : Threads, optional
        """
        threads = threads or self._search.threads
        widths = settings.gamma * (base if begin is None else begin)
        kernel, unit = self._kernel(settings), self._unit**self.power
        once = begin is not None or len(rows) <= self._sized(WHOLE_SIZE)
        for number in range(1 if once else ROUNDS):
            if self._search.late():
                break
            parts = self._parts(widths, kernel, rows, number)
            cells = self._cells(parts, settings, threads)
            begins = [widths * unit]
            if not number and begin is None and np.sum(base > 0) > FEW_COLUMNS:
                begins.append(begins[0] / WIDER)
            widths = self._best(cells, begins, settings, base, STEPS)
        return widths / settings.gamma

    def from_all(self, base: Array, learnt: Sequence[Array], settings: Any) -> Array:
        """Go on from what a fold has learnt: the one with the largest evidence of all rows."""
        rows = np.arange(len(self._data.distinct.label))
        kernel, unit = self._kernel(settings), self._unit**self.power
        begins = [settings.gamma * widths for widths in learnt]
        parts = self._parts(begins[0], kernel, rows, 0)
        cells = self._cells(parts, settings, self._search.threads)
        best = max(begins, key=lambda w: cells.log_evidence(w * unit, kernel))
        found = self._best(cells, [best * unit], settings, base, LAST_STEPS)
        return found / settings.gamma

    def _best(
        self, cells: WidthCells, begins: list[Array], settings: Any, base: Array, steps: int
    ) -> Array:
        unit = self._unit**self.power
        found = best_widths(
            cells, begins, self._kernel(settings), origin=settings.gamma * base * unit,
            group=self._group, steps=steps, stop=self._search.late,
        )  # fmt: skip
        return found / unit

    def _kernel(self, settings: Any) -> Kernel:
        return self._search.parameters.kernel_with(1.0, settings.bias)

    def _parts(self, widths: Array, kernel: Kernel, rows: Array, number: int) -> list[Array]:
        """Rows of some cells, in columns scaled by widths; all of few."""
        if len(rows) <= self._sized(WHOLE_SIZE):
            return [rows]
        scale = replace(kernel, gamma=widths).column_scale
        seed = np.random.SeedSequence(self._search.entropy, spawn_key=(0, 9, number))
        n = self._sized(LEARNT_SIZE)
        tree = grow(self._X, n, seed, scale, rows)
        cell_of = cells_of_rows(tree, self._data.inputs)[rows]
        n_cells = min(self._n_cells(n), tree.n_cells)
        numbers = np.random.default_rng(seed).permutation(tree.n_cells)[:n_cells]
        parts = [rows[cell_of == k] for k in numbers]
        return [part for part in parts if len(part) > 1]

    def work(self, n_rows: int) -> float:
        """Operations of learning from so many rows, about."""
        if n_rows <= self._sized(WHOLE_SIZE):
            return (STEPS + 2 * TRIED_STEPS) * self._work_of(n_rows)
        n = self._sized(LEARNT_SIZE)
        n_cells = min(self._n_cells(n), -(-n_rows // n))
        return (ROUNDS * STEPS + 2 * TRIED_STEPS) * n_cells * self._work_of(n)

    def _n_cells(self, n_rows: int) -> int:
        """Cells of so many rows that are learnt from, where there are more."""
        return min(max(int(LEARNING_WORK / self._work_of(n_rows)), LEAST_LEARNT), LEARNT_CELLS)

    def _work_of(self, n_rows: int) -> float:
        """Operations of a step of one cell."""
        return (n_rows**3 + 4 * n_rows**2 * self._X.shape[1]) * len(self.machines)

    def _sized(self, size: int) -> int:
        return size if self._data.n_machines == 1 else int(MANY_SHARE * size)

    def _cells(self, parts: list[Array], settings: Any, threads: Threads) -> WidthCells:
        """Cells of such rows, in units of the columns, with the likelihoods of their labels."""
        # Labels do not depend on the width, and the common one by itself may lose distances.
        soft = replace(settings, gamma=0.0, softness=max(settings.softness, LEAST_SOFTNESS))
        _, problem = self._search.problem_with(soft, np.concatenate(parts))
        at = {c: k for k, c in enumerate(machines_of(len(self._data.classes)))}
        labels = [labels_of(problem, at[c]) for c in self.machines]
        ends = np.cumsum([len(part) for part in parts])
        cells = [
            WidthCell(
                self._in_units(part), [one.take(slice(end - len(part), end)) for one in labels]
            )
            for part, end in zip(parts, ends, strict=True)
        ]
        return engines_of(problem.rows).width_cells(problem.rows, cells, threads)

    def _in_units(self, rows: Array) -> Array:
        X = self._X[rows].astype(np.float64)
        X = X.toarray() if sp.issparse(X) else X
        return ((X - X.mean(axis=0)) / self._unit).astype(np.float32)


def labels_of(problem: Problem, machine: int) -> Likelihood:
    """Return the likelihood of the labels of a machine."""
    copies = problem.weight if problem.softness else np.ones_like(problem.weight)
    odds, log_right = problem.odds[machine] / copies, problem.log_right[machine] / copies
    targets = problem.targets[machine].astype(np.float64)
    return Likelihood(targets, problem.ridge, odds, log_right, copies)
