"""Which features matter: what labels left out lose without each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs

from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array
from bayespoint.estimators.cells import (
    CELL_SIZE,
    CHOOSING_ROWS,
    LEAST_CELLS,
    log_proba_of,
    some_cells,
)
from bayespoint.estimators.data import TrainingData, training_data
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.trials import mean_noise, problem_of
from bayespoint.inference.ep.cells.method import CellSettings, cell_problem
from bayespoint.inference.ep.cells.problem import Sweeping
from bayespoint.inference.ep.cells.sweeps import fit_cells
from bayespoint.inference.ep.cells.tree import NO_TREE
from bayespoint.space.host import Host
from bayespoint.space.inputs import Inputs
from bayespoint.space.links import vote_outputs
from bayespoint.space.merging import contested

if TYPE_CHECKING:
    from bayespoint.estimators.settings import Settings

# Softness is no less than this: without any, one row says all.
LEAST_SOFTNESS = 1e-3

# Changes of sites that are small enough, as differences count.
TOLERANCE = 1e-3


class Importances(NamedTuple):
    """Mean loss of log-probability without each feature, and its standard error."""

    mean: Array
    error: Array


def work_of(n_rows: int, n_groups: int, n_machines: int) -> float:
    """Operations that importances take, about: cubes of the rows of cells."""
    wanted = max(CHOOSING_ROWS // (CELL_SIZE * n_machines), LEAST_CELLS)
    n_cells = min(wanted, -(-n_rows // CELL_SIZE))
    return float(min(n_rows, CELL_SIZE) ** 3) * n_cells * (n_groups + 1) * n_machines


class Ranked(NamedTuple):
    """Figure of a feature, or of a group of them."""

    name: str
    mean: float
    error: float


def ranked(found: Importances, names: Sequence[str], groups: Any = None) -> list[Ranked]:
    """Return the features by their importance, the largest first.

    Parameters
    ----------
    found : Importances
    names : sequence of str
        One for each feature.
    groups : sequence of int or str, optional
        Labels of the features. A group is there once, under its label; a group of one feature that
        has a number for a label, under the name of the feature.
    """
    columns: dict[Any, list[int]] = {}
    for column, label in enumerate(range(len(names)) if groups is None else groups):
        columns.setdefault(label, []).append(column)
    figures = []
    for label, (first, *others) in columns.items():
        name = label if isinstance(label, str) else f"Group {label}" if others else names[first]
        figures.append(Ranked(str(name), float(found.mean[first]), float(found.error[first])))
    return sorted(figures, key=lambda figure: -figure.mean)


def data_again(
    estimator: Any, parameters: Parameters, fingerprint: str, classes: Array, X: Any, y: Any,
    sample_weight: Any,
) -> TrainingData:  # fmt: skip
    """Return the data of a fit, once more; refuse others, by their fingerprint."""
    if parameters.precomputed:
        raise AttributeError("feature_importances_ needs features: kernel='precomputed' has none.")
    changed = AttributeError(
        "feature_importances_ is computed from the data given to fit, which have changed since "
        "then: fit again."
    )
    inputs, y = Host().training_inputs(estimator, X, y, precomputed=False)
    if not np.all(np.isin(y, classes)):
        raise changed
    data = training_data(
        inputs, np.searchsorted(classes, y), sample_weight, class_weight=parameters.class_weight,
        precomputed=False, classes=classes,
    )  # fmt: skip
    if data.distinct.fingerprint != fingerprint:
        raise changed
    return data


def importances_of(
    parameters: Parameters, data: TrainingData, settings: "Settings", entropy: int, group: Array
) -> Importances:
    """Compare the log-probability of each label given all others, with and without each group.

    By expectation propagation, whatever the method of the fit, with its settings: on all rows up
    to a thousand, on some whole cells where there are more. Features are left out by giving all
    rows their mean.

    Parameters
    ----------
    parameters : Parameters
    data : TrainingData
    settings : Settings
        As they were chosen.
    entropy : int
    group : ndarray of int, shape (n_features,)
        Columns of a group are left out together, and hold the figures of their group.
    """
    settings = replace(settings, softness=max(settings.softness, LEAST_SOFTNESS))
    work = _LeaveOneOut(parameters, data, settings, entropy)
    whole, start = work.log_proba(work.X, None, Threads(1))
    takes_part = (np.ptp(work.X, axis=0) > 0) & (np.asarray(settings.gamma) > 0)

    def lost(number: int) -> tuple[float, float]:
        X, columns = work.X.copy(), group == number
        if not np.any(columns & takes_part):
            return 0.0, 0.0
        X[:, columns] = X[:, columns].mean(axis=0)
        found, _ = work.log_proba(X, start, Threads(1))
        loss, weight = whole - found, work.weight
        mean = np.average(loss, weights=weight)
        # Rows are not independent: a probability of all labels e times as high is chance.
        error = np.hypot(np.linalg.norm(weight * (loss - mean)), 1.0) / np.sum(weight)
        return mean, error

    with open_threads(effective_n_jobs(parameters.n_jobs)) as threads:
        found = np.array(threads.each(lost, range(int(group.max()) + 1)))[group]
    return Importances(found[:, 0].copy(), found[:, 1].copy())


class _LeaveOneOut:
    """Log-probabilities of labels given all others, as columns change."""

    def __init__(
        self, parameters: Parameters, data: TrainingData, settings: "Settings", entropy: int
    ) -> None:
        self._parameters, self._data, self._settings = parameters, data, settings
        kernel = parameters.kernel_with(settings.gamma, settings.bias)
        size = len(data.distinct.label)
        cells = CellSettings(size if size <= CELL_SIZE else CELL_SIZE, 0, 1)
        chosen = some_cells(cells, data, kernel.column_scale, entropy)
        parts = zip(
            np.split(chosen.trained, chosen.begin[1:-1]),
            np.split(chosen.asked, chosen.asked_begin[1:-1]),
            strict=True,
        )
        cells_ = [np.concatenate(part) for part in parts]
        self._rows, self._begin = np.concatenate(cells_), np.cumsum([0, *map(len, cells_)])
        X: Any = data.inputs.matrix()[self._rows].astype(np.float64)
        self.X: Array = X.toarray() if sp.issparse(X) else X
        self.weight = data.distinct.weight[self._rows]
        self._alone, self._own = ~contested(data.distinct), data.own_copies

    def log_proba(self, X: Array, start: Any, threads: Threads) -> tuple[Array, Any]:
        """Log-probability of each label, and the sites."""
        settings, distinct, rows = self._settings, self._data.distinct, self._rows
        inputs = Inputs(X)
        kernel = inputs.fit_layout(self._parameters.kernel_with(settings.gamma, settings.bias))
        problem = problem_of(
            kernel, inputs, distinct, settings, self._data.classes.tolist(), cache_bytes=0,
            threads=threads, chosen=rows,
        )  # fmt: skip
        part = cell_problem(problem, kernel, inputs, self._alone[rows], self._own[rows])
        how = Sweeping(tol=TOLERANCE, threads=threads)
        fit: Any = fit_cells(part, NO_TREE, np.arange(len(rows)), self._begin, None, how, start)
        outputs, label = vote_outputs(fit.scores[0]), distinct.label[rows]
        noise = mean_noise(settings, self._data)
        return log_proba_of(outputs, label, self.weight, noise), (fit.tau, fit.nu)
