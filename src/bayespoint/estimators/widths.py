"""One width, or a width for each feature: learnt by the evidence, chosen by labels left out.

Widths are learnt on whole cells of the data, in rounds: cells are made anew in the scaled columns.
Labels of rows that had no part in it say whether they are better than one width, or half the way to
them is. Other settings are then chosen as ever, with the columns scaled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from bayespoint._support.checks import warn
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.calibration import folds_of, link_points
from bayespoint.estimators.cells import FOLDS, CellTrials, Division, divided
from bayespoint.estimators.trials import CellSearch
from bayespoint.inference.engines import cells_of_rows, engines_of
from bayespoint.inference.ep.cells.method import CellSettings
from bayespoint.inference.ep.cells.tree import grow
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.widths import WidthCell, WidthCells, best_widths
from bayespoint.inference.problem import Problem, machines_of
from bayespoint.space.kernels import Kernel

if TYPE_CHECKING:
    from bayespoint.estimators.settings import Settings

# Columns that may have widths of their own.
MOST_COLUMNS = 1_000

# A column's unit is its deviation, but at least this share of its range: rare words would reach too
# far. Columns have comparable spread if all but a quarter have a tenth of the largest range.
LEAST_UNIT = 0.1
COMPARABLE, MOST_NARROW = 0.1, 0.25

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

# Rows that candidates are compared on, by the size of cells there, and how many labels are left out
# at least: of few rows, by several folds; of many, by one that is larger.
COMPARED_SIZE, COMPARED_CELLS, LEAST_COMPARED = 1_000, 6, 4
LEAST_ASKED = 500
MANY_ROWS, LARGE_FOLDS = 2_500, 3

# Steps of the search with one width, and then with others.
FIRST_STEPS = (("gamma", 4.0), ("softness", 4.0), ("gamma", 2.0))
NEXT_STEPS = (("softness", 4.0), ("gamma", 2.0))

# Rows that are too few to tell features apart by themselves.
LEAST_ROWS = 50

# Standard errors by which others must be better than one width, and between which more rows are
# asked, if there are any.
CHANCE = 1.5
LEAST_DOUBT, MOST_DOUBT = -1.0, 3.0

# Softness is no less than this while widths are learnt.
LEAST_SOFTNESS = 1e-3

# What candidates are called.
NAMES = {
    "given": "one width", "standard": "one width, columns scaled", "shrunk": "shrunk widths",
    "full": "full widths",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Columns:
    """Spread of the columns.

    Attributes
    ----------
    unit : ndarray of shape (n_features,)
        Infinite for constant columns.
    comparable : bool
        Whether one width may suit all of them as they are.
    """

    unit: Array
    comparable: bool

    @classmethod
    def of(cls, X: Matrix) -> "Columns":
        """Look at all rows."""
        if sp.issparse(X):
            deviation = np.sqrt(mean_variance_axis(X.astype(np.float64), axis=0)[1])
            least, most = min_max_axis(X, axis=0)
        else:
            deviation = np.std(X, axis=0, dtype=np.float64)
            least, most = X.min(axis=0), X.max(axis=0)
        reach = np.subtract(most, least, dtype=np.float64)
        moving = reach > 0
        unit = np.where(moving, np.maximum(deviation, LEAST_UNIT * reach), np.inf)
        narrow = reach[moving] < COMPARABLE * np.max(reach, initial=0.0)
        return cls(unit, bool(np.mean(narrow) <= MOST_NARROW if np.any(moving) else True))

    def grouped(self, group: Array) -> "Columns":
        """Return one unit for all columns of a group, constant ones apart: their mean square's."""
        moving = np.isfinite(self.unit)
        squares = np.where(moving, self.unit, 0.0) ** 2
        mean = np.bincount(group, squares) / np.maximum(np.bincount(group, moving), 1)
        return replace(self, unit=np.where(moving, np.sqrt(mean)[group], np.inf))


@dataclass(frozen=True, eq=False)
class Widths:
    """What was chosen.

    Attributes
    ----------
    relative : ndarray of shape (n_features,) or None
        Widths in units of the common one.
    gamma, softness : float
        The common width and softness that suit them, to begin with.
    figures : dict
        "chosen" of the candidates, on how many "rows", mean "log_proba" of labels left out with
        each, and its "gain" over the first, with the standard error.
    """

    relative: Array | None
    gamma: float
    softness: float
    figures: dict[str, Any] | None


class Candidate(NamedTuple):
    """Widths that are compared."""

    kind: str  # of NAMES
    widths: list[Array | None]  # of each fold, in units of the common one
    settings: Any
    values: list[Array]  # log-probabilities of the labels of each fold, in the order of rows


def why_not(kernel: Any, n_columns: int) -> str | None:
    """Why features cannot have widths of their own; None if they can."""
    if not (isinstance(kernel, str) and kernel in ("rbf", "laplacian")):
        return f"kernel={kernel!r} has none: use 'rbf' or 'laplacian'"
    if n_columns > MOST_COLUMNS:
        return f"X has {n_columns} columns, more than {MOST_COLUMNS}: select or project them"
    return None


class WidthSearch:
    """Learns widths, and compares them with one width.

    Parameters
    ----------
    search : CellSearch
        With what is given.
    settings : Settings
        To begin with.
    group : ndarray of int, shape (n_features,)
        Columns of a group have one width.
    """

    def __init__(self, search: CellSearch, settings: "Settings", group: Array) -> None:
        self._search, self._data, self._group = search, search.data, group
        self._X: Any = self._data.inputs.matrix()
        self.columns = Columns.of(self._X).grouped(group)
        self._power = 2 if search.parameters.kernel == "rbf" else 1
        n_machines = self._data.n_machines
        n_cells = max(COMPARED_CELLS // n_machines, LEAST_COMPARED)
        label = self._data.distinct.label
        self._sample = np.arange(len(label))
        if len(label) > n_cells * COMPARED_SIZE:
            self._sample = np.sort(link_points(label, search.entropy, n_cells * COMPARED_SIZE))
        n_folds = LARGE_FOLDS if len(self._sample) >= MANY_ROWS else FOLDS
        group = self._data.distinct.group[self._sample]
        self._fold = folds_of(label[self._sample], n_folds, group)
        one = len(self._sample) <= COMPARED_SIZE * FOLDS / (FOLDS - 1)
        size = len(self._sample) if one else COMPARED_SIZE
        cells = CellSettings(size, 0, 1)
        self._settings = replace(settings, inference="ep", decision="vote", cells=cells)
        asked_once = len(self._sample) // n_folds
        self._folds = range(min(n_folds, max(1, -(-LEAST_ASKED // max(asked_once, 1)))))

    # ------------------------------------------------------------------------- candidates

    def standard(self) -> Array:
        """Widths of equal columns, once these are scaled."""
        return 1 / self.columns.unit**self._power

    def chosen(self, scale: float, only: str | None = None) -> Widths:
        """Return the best candidate, or the one asked for.

        Parameters
        ----------
        scale : float
            Width to begin with in given units.
        only : {"full"}, optional
        """
        relative = self.standard()
        n_moving = int(np.sum(relative > 0))
        if not n_moving:
            return Widths(None, scale, self._settings.softness, None)
        folds = self._folds[:1] if only else self._folds
        bases = self._bases(relative, n_moving, folds, only)
        first = self._better(bases)
        few = np.ptp(self._group[relative > 0]) == 0 or len(self._sample) < LEAST_ROWS
        if (few and only is None) or self._search.late():
            if only is not None:
                warn("gamma='ard' had no time to learn widths: raise max_time.")
            return self._result(bases, first, first.widths[0])
        base = np.ones(len(relative)) if first.widths[0] is None else first.widths[0]
        base = np.where(relative > 0, base, 0.0)
        learn = partial(self._learnt, base, first.settings)
        learnt = self._each_fold(learn, folds)
        others = [self._climbed("full", learnt, first.settings, NEXT_STEPS)]
        if only is None:
            halves = [np.sqrt(base * full) for full in learnt]
            others.append(self._climbed("shrunk", halves, first.settings, NEXT_STEPS))
        while only is None and self._in_doubt([first, *others]) and not self._search.late():
            self._next_fold([*bases, *others], learn, base)
        best = self._better([first, *others]) if only is None else others[0]
        if best is first:
            return self._result([*bases, *others], first, first.widths[0])
        final = best.widths[0]
        if len(others[0].widths) > 1 or len(self._sample) == self._X.shape[0]:  # from all rows
            final = self._learnt_from_all(base, others[0].widths, first.settings)
            final = np.sqrt(base * final) if best.kind == "shrunk" else final
        return self._result([*bases, *others], best, final)

    def _bases(
        self, relative: Array, n_moving: int, folds: Sequence[int], only: str | None
    ) -> "list[Candidate]":
        """One width: in given units, where these may do, and of columns that are scaled."""
        found, spread = [], self.columns.unit[relative > 0]
        if self.columns.comparable and only is None:
            begin = replace(self._settings, gamma=1 / np.sum(spread**self._power))
            found.append(self._climbed("given", [None] * len(folds), begin, FIRST_STEPS))
        if not found or np.ptp(np.log(spread)) > np.log(1.5):
            begin = replace(self._settings, gamma=1 / n_moving)
            found.append(self._climbed("standard", [relative] * len(folds), begin, FIRST_STEPS))
        return found

    def _better(self, candidates: "Sequence[Candidate]") -> "Candidate":
        """Return the first, or the best of those that are better by more than chance."""
        best, most = candidates[0], 0.0
        for one in candidates[1:]:
            mean, error = self._gain(one, candidates[0])
            if mean > CHANCE * error and mean > most:
                best, most = one, mean
        return best

    def _in_doubt(self, candidates: "Sequence[Candidate]") -> bool:
        """Whether labels of more rows may tell which is best."""
        if len(candidates[0].values) > int(self._fold.max()):
            return False
        gains = [self._gain(one, candidates[0]) for one in candidates[1:]]
        mean, error = max(gains)
        return LEAST_DOUBT * error < mean < MOST_DOUBT * error

    def _next_fold(
        self, candidates: "Sequence[Candidate]", learn: Callable[[int], Array], base: Array
    ) -> None:
        """Ask all candidates for the labels of one more fold."""
        fold = len(candidates[0].values)
        learnt = learn(fold)
        widths = {"full": learnt, "shrunk": np.sqrt(base * learnt)}
        for one in candidates:
            one.widths.append(widths.get(one.kind, one.widths[0]))
            trials = self._trials(one.widths[fold], fold)
            one.values.append(self._log_proba(trials, one.settings, fold))

    def _gain(self, one: "Candidate", other: "Candidate") -> tuple[float, float]:
        """Mean difference of log-probabilities, and its standard error."""
        gain = np.concatenate(one.values) - np.concatenate(other.values)
        weight = self._weights(len(one.values))
        mean = np.average(gain, weights=weight)
        error = np.sqrt(np.sum(weight**2 * (gain - mean) ** 2)) / np.sum(weight)
        return float(mean), float(error)

    def _weights(self, n_folds: int) -> Array:
        parts = [self._sample[self._fold == fold] for fold in range(n_folds)]
        return self._data.distinct.weight[np.concatenate(parts)]

    def _result(
        self, candidates: "Sequence[Candidate]", best: "Candidate", relative: Array | None
    ) -> Widths:
        weight = self._weights(len(best.values))
        figures = {
            "chosen": NAMES[best.kind], "rows": len(weight),
            "log_proba": {
                NAMES[one.kind]: float(np.average(np.concatenate(one.values), weights=weight))
                for one in candidates
            },
            "gain": {NAMES[one.kind]: list(self._gain(one, candidates[0])) for one in candidates},
        }  # fmt: skip
        settings = best.settings
        return Widths(relative, float(settings.gamma), settings.softness, figures)

    # ------------------------------------------------------------------------- comparison

    def _trials(self, relative: Array | None, fold: int) -> CellTrials:
        parameters = replace(self._search.parameters, relative=relative)
        search = replace(self._search, parameters=parameters)
        machines = self._machines() if len(self._data.classes) > LEARNT_CLASSES else None
        return search.trials(self._settings, self._division(search, fold), machines)

    def _division(self, search: CellSearch, fold: int) -> Division:
        """Cells of the sample, in scaled columns; without the rows of a fold."""
        out = self._fold == fold
        cells = self._settings.cells
        assert cells is not None
        if cells.cell_size >= len(self._sample):
            return divided([self._sample], [out])
        scale = search.parameters.kernel_with(1.0, 0.0).column_scale
        seed = np.random.SeedSequence(self._search.entropy, spawn_key=(0, 8))
        X = self._X[self._sample]
        cell_of = (tree := grow(X, cells.cell_size, seed, scale)).route(X)
        masks = [cell_of == number for number in range(tree.n_cells)]
        rows = [(self._sample[m], out[m]) for m in masks if np.any(m & ~out)]
        return divided([r for r, _ in rows], [o for _, o in rows])

    def _climbed(
        self, kind: str, widths: Sequence[Array | None], settings: Any, steps: Any
    ) -> "Candidate":
        """Candidate with the settings that suit the labels of the first fold.

        ``widths``: of each fold.
        """
        trials = self._trials(widths[0], 0)
        settings = trials.climbed(settings, self._search.names, steps)
        found = [trials, *(self._trials(widths[k], k) for k in range(1, len(widths)))]
        values = [self._log_proba(one, settings, fold) for fold, one in enumerate(found)]
        return Candidate(kind, list(widths), settings, values)

    def _log_proba(self, trials: CellTrials, settings: Any, fold: int) -> Array:
        value = np.full(len(self._data.distinct.label), np.nan)
        value[trials.rows] = trials.log_proba(settings)
        return value[self._sample[self._fold == fold]]

    # --------------------------------------------------------------------------- learning

    def _each_fold(self, learn: Callable[..., Array], folds: Sequence[int]) -> list[Array]:
        """Learn without each fold: where there are several, each in a thread."""
        if len(folds) == 1:
            return [learn(folds[0])]
        return self._search.threads.each(partial(learn, threads=Threads(1)), folds)

    def _learnt(
        self, base: Array, settings: Any, fold: int, threads: Threads | None = None
    ) -> Array:
        """Widths in units of the common one, from rows that are not of a fold."""
        threads = threads or self._search.threads
        gamma, begin = settings.gamma, settings.gamma * base
        allowed = np.ones(len(self._data.distinct.label), dtype=bool)
        allowed[self._sample[self._fold == fold]] = False
        widths, rows = begin, np.flatnonzero(allowed)
        kernel = self._search.parameters.kernel_with(1.0, settings.bias)
        unit = self._units() ** self._power
        for number in range(1 if len(rows) <= self._sized(WHOLE_SIZE) else ROUNDS):
            if self._search.late():
                break
            parts = self._parts(widths, kernel, rows, number)
            cells = self._cells(parts, settings, threads)
            begins = [widths * unit]
            if not number and np.sum(base > 0) > FEW_COLUMNS:
                begins.append(begins[0] / WIDER)
            found = best_widths(
                cells, begins, kernel, origin=begin * unit, group=self._group,
                stop=self._search.late,
            )  # fmt: skip
            widths = found / unit
        return widths / gamma

    def _learnt_from_all(self, base: Array, learnt: list[Any], settings: Any) -> Array:
        """Go on from what a fold has learnt: the one with the largest evidence of all rows."""
        rows = np.arange(len(self._data.distinct.label))
        kernel = self._search.parameters.kernel_with(1.0, settings.bias)
        gamma, unit = settings.gamma, self._units() ** self._power
        begins = [gamma * widths for widths in learnt]
        parts = self._parts(begins[0], kernel, rows, 0)
        cells = self._cells(parts, settings, self._search.threads)
        best = max(begins, key=lambda w: cells.log_evidence(w * unit, kernel))
        found = best_widths(
            cells, [best * unit], kernel, origin=gamma * base * unit, group=self._group,
            steps=LAST_STEPS, stop=self._search.late,
        )  # fmt: skip
        return found / unit / gamma

    def _parts(self, widths: Array, kernel: Kernel, rows: Array, number: int) -> list[Array]:
        """Rows of some cells, in columns scaled by widths; all of few."""
        if len(rows) <= self._sized(WHOLE_SIZE):
            return [rows]
        scale = replace(kernel, gamma=widths).column_scale
        seed = np.random.SeedSequence(self._search.entropy, spawn_key=(0, 9, number))
        X = self._X if len(rows) == self._X.shape[0] else self._X[rows]
        n, p = self._sized(LEARNT_SIZE), self._X.shape[1]
        tree = grow(X, n, seed, scale)
        cell_of = cells_of_rows(tree, self._data.inputs)[rows]
        work = (n**3 + 4 * n**2 * p) * len(self._machines())
        n_cells = min(max(int(LEARNING_WORK / work), LEAST_LEARNT), LEARNT_CELLS, tree.n_cells)
        numbers = np.random.default_rng(seed).permutation(tree.n_cells)[:n_cells]
        parts = [rows[cell_of == k] for k in numbers]
        return [part for part in parts if len(part) > 1]

    def _sized(self, size: int) -> int:
        return size if self._data.n_machines == 1 else int(MANY_SHARE * size)

    def _machines(self) -> list[int]:
        """Classes that are told from the rest: the largest."""
        share = self._data.class_share
        if len(share) == 2:
            return [1]
        return np.argsort(-share, kind="stable")[:LEARNT_CLASSES].tolist()

    def _cells(self, parts: list[Array], settings: Any, threads: Threads) -> WidthCells:
        """Cells of such rows, in units of the columns, with the likelihoods of their labels."""
        soft = replace(settings, softness=max(settings.softness, LEAST_SOFTNESS))
        _, problem = self._search.problem_with(soft, np.concatenate(parts))
        at = {c: k for k, c in enumerate(machines_of(len(self._data.classes)))}
        labels = [labels_of(problem, at[c]) for c in self._machines()]
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
        return ((X - X.mean(axis=0)) / self._units()).astype(np.float32)

    def _units(self) -> Array:
        return np.where(np.isfinite(self.columns.unit), self.columns.unit, 1.0)


def labels_of(problem: Problem, machine: int) -> Likelihood:
    """Return the likelihood of the labels of a machine."""
    copies = problem.weight if problem.softness else np.ones_like(problem.weight)
    odds, log_right = problem.odds[machine] / copies, problem.log_right[machine] / copies
    targets = problem.targets[machine].astype(np.float64)
    return Likelihood(targets, problem.ridge, odds, log_right, copies)
