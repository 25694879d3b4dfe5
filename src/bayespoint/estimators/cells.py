"""Expectation propagation by cells: when a classifier uses it, and with which settings."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.parameters import Parameters
from bayespoint.inference.engines import cells_of_rows, outputs_in_cells
from bayespoint.inference.ep.cells.landmarks import landmarks_of, own_features
from bayespoint.inference.ep.cells.memory import Memory, needed_bytes
from bayespoint.inference.ep.cells.method import CellSettings, cell_problem
from bayespoint.inference.ep.cells.prediction import CellModel, Cellwise
from bayespoint.inference.ep.cells.problem import Sweeping
from bayespoint.inference.ep.cells.sweeps import fit_cells
from bayespoint.inference.ep.cells.tree import NO_TREE, grow
from bayespoint.space.kernels import LostDistancesError
from bayespoint.space.links import VOTES_USUAL, fit_steepness, probabilities, vote_outputs
from bayespoint.space.merging import contested

# Rows of a cell, landmarks, and trees, where that is "auto"; fewer landmarks, and one tree of them,
# with many machines, each of which has a matrix of them, and of which some are asked whether they
# are worth it; more trees where all of them together have no more rows of all machines than that;
# small cells where all is in the features, but not more columns than rows.
CELL_SIZE, LINEAR_CELL_SIZE = 1000, 200
LANDMARKS, MANY_MACHINES, FEW_LANDMARKS, ASKED_MACHINES = 700, 4, 300, 3
TREES, TREES_WITH_LANDMARKS = 3, 2
MOST_TREES, ROWS_OF_TREES = 6, 48_000

# One cell, which is exact, where its sweeps take at most so many operations: some seconds.
EXACT_WORK = 9e10
SWEEPS = 12

# Settings are chosen on whole cells, so many that all machines have this number of rows, but on
# four at least. Choosing may solve as many cells as the fit itself, or as take a minute.
CHOOSING_ROWS, LEAST_CELLS = 6_000, 4
MINUTE_CELLS = 400

# One row of so many is left out. EP's own leave-one-out, which costs nothing, is too sure of itself
# with little softness, and would choose less and less of it.
FOLDS = 5

# Steps of the search, as factors: of width and softness in turn. A step must be worth something in
# the log-probability of a label left out, or nearly separable data would never end it. With less
# softness than the least, sweeps need double precision, and a fit takes twice as long.
STEPS = (("gamma", 4.0), ("softness", 4.0), ("gamma", 2.0), ("softness", 2.0))
MOST_STEPS = 8
LEAST_GAIN = 5e-4
LEAST_SOFTNESS = 1e-3

# Visits of cells around landmarks, and changes of sites, that are enough to compare.
TRIED_VISITS = 8
TRIED_CHANGE = 0.05

# Landmarks are used where they are worth so much in the log-probability of a label left out.
WORTH = 1e-3


def cells_wanted(parameters: Parameters, data: TrainingData, needed: float) -> CellSettings | None:
    """Cells that EP divides the rows into; None: one cell with all of them, which is exact.

    Parameters
    ----------
    parameters : Parameters
    data : TrainingData
    needed : float
        Memory of exact EP, in MB.

    Returns
    -------
    CellSettings or None
        -1 landmarks, and trees, where held-out labels are to choose.
    """
    n_points, size = data.inputs.shape[0], parameters.cell_size
    if isinstance(size, str):
        work = data.n_machines * SWEEPS * 2 / 3 * n_points**3
        exact = work <= EXACT_WORK and needed <= parameters.cache_size
        if parameters.precomputed or exact or n_points <= CELL_SIZE:
            return None
        size = CELL_SIZE
    elif size >= n_points:
        return None
    n_landmarks, n_trees = (
        -1 if isinstance(value, str) else int(value)
        for value in (parameters.n_landmarks, parameters.n_trees)
    )
    n_landmarks = min(n_landmarks, n_points)
    own = own_features(parameters.kernel, data.inputs.shape[1])
    if n_landmarks < 0 and own is not None:  # these are exact, whatever the cells
        if isinstance(parameters.cell_size, str):
            size = min(size, max(LINEAR_CELL_SIZE, own))
        exact_cells = CellSettings(int(size), own, max(n_trees, 1))
        if _memory(exact_cells, data.n_machines, parameters.cache_bytes).at_once:
            return exact_cells
        size = CELL_SIZE if isinstance(parameters.cell_size, str) else size
    return _with_trees(CellSettings(int(size), n_landmarks, n_trees), data)


def fits_cells(parameters: Parameters, data: TrainingData, cells: CellSettings) -> bool:
    """Whether there is memory for a cell."""
    return _memory(cells, data.n_machines, parameters.cache_bytes).at_once > 0


def check_cells(parameters: Parameters, data: TrainingData, cells: CellSettings) -> None:
    """Refuse cells that there is no memory for."""
    if fits_cells(parameters, data, cells):
        return
    needed = needed_bytes(cells.cell_size, max(cells.n_landmarks, 0), data.n_machines) / 1e6
    fewer = "cell_size or n_landmarks" if cells.n_landmarks > 0 else "cell_size"
    raise ValueError(
        f"EP by cells needs {needed:.1f} MB for a cell of {cells.cell_size} rows with "
        f"{max(cells.n_landmarks, 0)} landmarks and {data.n_machines} machines; got "
        f"cache_size={parameters.cache_size}. Raise cache_size, or lower {fewer}."
    )


def _memory(cells: CellSettings, n_machines: int, n_bytes: float) -> Memory:
    return Memory.of(n_bytes, cells.cell_size, max(cells.n_landmarks, 0), n_machines)


def _with_trees(cells: CellSettings, data: TrainingData) -> CellSettings:
    """Set the number of trees, once that of landmarks is known."""
    if cells.n_trees > 0 or cells.n_landmarks < 0:
        return cells
    few = 1 if data.n_machines >= MANY_MACHINES else TREES_WITH_LANDMARKS
    n_trees = few if cells.n_landmarks else TREES
    return cells._replace(n_trees=max(n_trees, _more_trees(data)))


def _more_trees(data: TrainingData) -> int:
    return min(ROWS_OF_TREES // (data.inputs.shape[0] * data.n_machines), MOST_TREES)


def most_trees(cells: CellSettings, data: TrainingData) -> int:
    """Most trees of a fit whose number of landmarks is open; no fewer than the usual ones."""
    return max(TREES, cells.n_trees if cells.n_trees > 0 else _more_trees(data))


class CellTrials:
    """Compares settings by labels left out, on some whole cells of the final size.

    Parameters
    ----------
    cells : CellSettings
    data : TrainingData
    problem_with : callable
        From settings and the numbers of rows to their kernel and `Problem`.
    noise : float
        Share of wrong labels.
    threads : Threads
    late : callable
        Whether the time for choosing is over.
    cache_bytes : float
    division : Division
        Rows that cells are trained with, and rows whose labels are left out.
    machines : sequence of int, optional
        Of which classes, where not all of many are compared: each is told from the rest.

    Attributes
    ----------
    rows : ndarray of int
        Whose labels are left out.
    """

    def __init__(
        self, cells: CellSettings, data: TrainingData, problem_with: Callable, noise: float,
        threads: Threads, late: Callable[[], bool], cache_bytes: float, division: "Division",
        machines: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self._cells, self._data, self._problem_with = cells, data, problem_with
        self._noise, self._threads, self._out_of_time = noise, threads, late
        self._cache_bytes = cache_bytes
        self._alone = ~contested(data.distinct)
        self._trained, self._begin, self.rows, self._asked_begin = division
        self._machines, self._found = machines, dict[Any, float]()
        # Sites of the best settings so far, without landmarks: those of others are near.
        self._start: tuple[float, Any] = (-np.inf, None)
        of_fit = data.inputs.shape[0] // cells.cell_size * most_trees(cells, data)
        self._cells_left = max(of_fit * data.n_machines, MINUTE_CELLS)

    def _late(self) -> bool:
        """Whether choosing has taken as long as it may: counted, the same for any ``n_jobs``."""
        return self._cells_left <= 0 or self._out_of_time()

    def as_they_are(self, settings: Any) -> Any:
        """Return settings without more landmarks than are given, and with trees."""
        cells = self._cells._replace(n_landmarks=max(self._cells.n_landmarks, 0))
        return replace(settings, cells=_with_trees(cells, self._data))

    def best(
        self, settings: Any, names: Sequence[str], biases: Sequence[float], enough: float = np.inf
    ) -> Any:
        """Return settings, with the number of landmarks, that suit labels left out best.

        Landmarks, which take the longest to try, are not tried once the log-probability is
        above ``enough``.
        """
        settings = self.climbed(settings, names)
        for bias in biases:
            if bias != settings.bias and not self._late():
                settings = self._better(settings, replace(settings, bias=bias))
        n_landmarks = self._cells.n_landmarks
        if n_landmarks < 0:
            settings, n_landmarks = self._with_landmarks(settings, names, enough)
        cells = self._cells._replace(n_landmarks=n_landmarks)
        return replace(settings, cells=_with_trees(cells, self._data))

    def climbed(self, settings: Any, names: Sequence[str], steps: Any = STEPS) -> Any:
        """Return settings with the width and softness that suit labels left out best."""
        for name, factor in steps:
            if name in names:
                settings = self._climb(settings, name, factor)
        return settings

    def _memory(self, n_landmarks: int) -> Memory:
        cells = self._cells._replace(n_landmarks=n_landmarks)
        return _memory(cells, self._data.n_machines, self._cache_bytes)

    def _with_landmarks(
        self, settings: Any, names: Sequence[str], enough: float
    ) -> tuple[Any, int]:
        few = self._data.n_machines >= MANY_MACHINES
        number = min(FEW_LANDMARKS if few else LANDMARKS, len(self._trained) // 2)
        if not self._memory(number).at_once:
            return settings, 0
        if (reached := self.value(settings)) > enough:
            return settings, 0
        trials = self._of_largest() if few else self
        best, most, tried = settings, trials.value(settings) + WORTH, [settings]
        if "gamma" in names:
            tried.append(replace(settings, gamma=settings.gamma / 4))
        if "softness" in names:
            tried.append(replace(tried[-1], softness=settings.softness * 4))
        chosen = 0
        for one in tried:
            # Where landmarks are worth nothing, others are not worth the time.
            if trials._late() or reached > enough or (one is not settings and not chosen):
                break
            if (value := trials.value(one, number)) > most:
                best, most, reached, chosen = one, value, value, number
        return best, chosen

    def _of_largest(self) -> "CellTrials":
        """Return the same trials of the largest classes, each against the rest."""
        other = copy(self)
        other._machines = self._data.largest_classes(ASKED_MACHINES)
        other._found, other._start = {}, (-np.inf, None)
        return other

    def _climb(self, settings: Any, name: str, factor: float) -> Any:
        """Multiply or divide a setting by a factor as long as that is better."""
        for direction in (factor, 1 / factor):
            for _ in range(MOST_STEPS):
                other = replace(settings, **{name: getattr(settings, name) * direction})
                if name == "softness" and other.softness < LEAST_SOFTNESS:
                    break
                if self._late() or self._better(settings, other) is settings:
                    break
                settings = other
        return settings

    def _better(self, settings: Any, other: Any) -> Any:
        first, second = (self.value(one) for one in (settings, other))
        return other if second > first + LEAST_GAIN else settings

    def value(self, settings: Any, n_landmarks: int | None = None) -> float:
        """Mean log-probability of labels left out; with so many landmarks, or as settings have."""
        if n_landmarks is None:
            n_landmarks = max(settings.cells.n_landmarks, 0)
        key = settings.gamma, settings.softness, settings.bias, n_landmarks
        if key not in self._found:
            self._found[key] = self._value(settings, n_landmarks)
            n_machines = self._data.n_machines if self._machines is None else len(self._machines)
            solved = (len(self._begin) - 1) * n_machines
            self._cells_left -= solved * (TRIED_VISITS // 2 if n_landmarks else 1)
        return self._found[key]

    def _value(self, settings: Any, n_landmarks: int) -> float:
        try:
            z, sites = self._outputs(settings, n_landmarks)
        except LostDistancesError:
            return -np.inf
        weight = self._data.distinct.weight[self.rows]
        value = float(np.average(self._log_proba(z), weights=weight))
        if not n_landmarks and value > self._start[0]:
            self._start = value, sites
        return value

    def log_proba(self, settings: Any) -> Array:
        """Log-probability of each label left out, in the order of ``rows``."""
        try:
            z, _ = self._outputs(settings, max(settings.cells.n_landmarks, 0))
        except LostDistancesError:  # as improbable as can be
            return np.full(len(self.rows), np.log(np.finfo(float).tiny))
        return self._log_proba(z)

    def _log_proba(self, z: Array) -> Array:
        """Log-probabilities, by the steepness that suits them; sums over some of many machines."""
        label, weight = (
            values[self.rows] for values in (self._data.distinct.label, self._data.distinct.weight)
        )
        if self._machines is None:
            return log_proba_of(vote_outputs(z), label, weight, self._noise)
        found = (
            log_proba_of(vote_outputs(z[k : k + 1]), (label == c).astype(int), weight, self._noise)
            for k, c in enumerate(self._machines)
        )
        return np.sum(list(found), axis=0)

    def _outputs(self, settings: Any, n_landmarks: int) -> tuple[Array, Any]:
        """Means over standard deviations at rows left out, and the sites."""
        rows, own = self._trained, self._data.own_copies
        kernel, problem = self._problem_with(settings, rows)
        inputs = self._data.inputs.take(rows)
        part = cell_problem(problem, kernel, inputs, self._alone[rows], own[rows])
        if self._machines is not None:
            part = part.of_machines(self._machines)
        # Those of the fit.
        landmarks = landmarks_of(kernel, self._data.inputs.matrix(), n_landmarks)
        order = np.arange(len(rows))
        how = Sweeping(
            threads=self._threads, visits=TRIED_VISITS, memory=self._memory(n_landmarks),
            stop=self._out_of_time, tol=TRIED_CHANGE,
        )  # fmt: skip
        start = None if n_landmarks else self._start[1]
        fit: Any = fit_cells(part, NO_TREE, order, self._begin, landmarks, how, start)
        model = CellModel.of([fit], part.copies, landmarks)
        cellwise = Cellwise(model, kernel, self._data.inputs.matrix()[rows])
        return self._asked(cellwise, settings.softness), (fit.tau, fit.nu)

    def _asked(self, cellwise: Cellwise, softness: float) -> Array:
        """Means over standard deviations at the rows left out, by the cells that they lie in."""
        inputs = self._data.inputs
        asked = np.split(self.rows, self._asked_begin[1:-1])
        mean, variance = outputs_in_cells(inputs, cellwise, self._trained, asked, self._threads)
        length = cellwise.kernel.prepare(inputs.matrix()[self.rows].astype(np.float64)).length
        ridge = softness * np.where(length > 0, length, 1.0) ** 2
        return mean / np.sqrt(variance + ridge)


def log_proba_of(outputs: Array, label: Array, weight: Array, noise: float) -> Array:
    """Log-probability of each label, by the steepness that suits all of them."""
    steepness, _ = fit_steepness(outputs, label, weight, noise=noise, usual=VOTES_USUAL)
    proba = probabilities(steepness * outputs)
    right = proba[np.arange(len(label)), label]
    others = noise * (1 - right) / (proba.shape[1] - 1)
    return np.log(np.maximum((1 - noise) * right + others, np.finfo(float).tiny))


class Division(NamedTuple):
    """Rows of cells, cell after cell, and where each begins; likewise those left out."""

    trained: Array
    begin: Array
    asked: Array
    asked_begin: Array


def some_cells(
    cells: CellSettings, data: TrainingData, scale: Array | None, entropy: int,
    sample: Array | None = None,
) -> Division:  # fmt: skip
    """Choose some whole cells, and leave some of their rows out.

    Parameters
    ----------
    cells : CellSettings
    data : TrainingData
    scale : ndarray of shape (n_features,) or None
        As for `grow`.
    entropy : int
    sample : ndarray of int, optional
        Rows that cells are made of, where these are not all.
    """
    seed = np.random.SeedSequence(entropy, spawn_key=(0, 7))
    inputs = data.inputs
    sample = np.arange(inputs.shape[0]) if sample is None else np.sort(sample)
    tree = grow(inputs.matrix(), cells.cell_size, seed, scale, sample)
    all_rows = len(sample) == inputs.shape[0]
    cell_of = cells_of_rows(tree, inputs) if all_rows else tree.route(inputs.matrix()[sample])
    wanted = CHOOSING_ROWS // (cells.cell_size * data.n_machines)
    n_cells = min(max(wanted, LEAST_CELLS), tree.n_cells)
    numbers = np.random.default_rng(seed).permutation(tree.n_cells)[:n_cells]
    rows = [sample[cell_of == number] for number in numbers]
    left_out = [np.arange(len(part)) % FOLDS == 0 for part in rows]
    return divided(rows, left_out)


def divided(rows: list[Array], left_out: list[Array]) -> Division:
    """Return a division, given the rows of cells and which of them are left out."""
    found: list[Array] = []
    for kept in ([~out for out in left_out], left_out):
        parts = [part[mask] for part, mask in zip(rows, kept, strict=True)]
        found += [np.concatenate(parts), np.cumsum([0, *map(len, parts)])]
    return Division(*found)
