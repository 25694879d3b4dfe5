"""How long a fit may take, from counts of operations and the speed of this machine."""

import time

import numpy as np
from joblib import effective_n_jobs

from bayespoint._support import lapack
from bayespoint._support.threads import open_threads
from bayespoint.estimators.cells import MINUTE_CELLS, SWEEPS, most_trees
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.selection import EVIDENCE_POINTS
from bayespoint.estimators.settings import FIT_SWEEPS, SEARCH_SWEEPS, choose_method
from bayespoint.inference.ep.cells.method import CellSettings
from bayespoint.space.host import Place

# Seconds from which on work is long: people want to know before it begins.
LONG = 30.0

# Work of the search for widths of features and a kernel, in times of that for one width: 25 seconds
# of 1,000 rows with 13 features, where a factorisation does 2.6e10 operations a second.
WIDTHS_TIMES = 11

# Points of the matrix that is factorised to see how fast that is.
PROBED_POINTS = 600


def about_seconds(parameters: Parameters, place: Place, data: TrainingData) -> float:
    """Return about how long a fit takes, without limits of time; 0 where that is not known."""
    if place.own_memory:  # a GPU, whose speed no probe here tells
        return 0.0
    settings, _ = choose_method(parameters, data, place)
    if settings.inference != "ep":
        return 0.0
    n_threads = effective_n_jobs(parameters.n_jobs)
    if settings.cells is None:
        return _at_once(data) / operations_per_second(min(n_threads, data.n_machines))
    return _by_cells(data, settings.cells) / operations_per_second(n_threads)


def _at_once(data: TrainingData) -> float:
    n_points = data.inputs.shape[0]
    sweeps = FIT_SWEEPS * n_points**3 + SEARCH_SWEEPS * min(n_points, EVIDENCE_POINTS) ** 3
    return data.n_machines * 2 / 3 * sweeps * WIDTHS_TIMES


def _by_cells(data: TrainingData, cells: CellSettings) -> float:
    """Operations of the search for settings, whose work is limited, and of the fit."""
    n_cells = data.n_machines * data.inputs.shape[0] / cells.cell_size
    of_fit = n_cells * most_trees(cells, data)
    chosen_with = max(of_fit, MINUTE_CELLS)
    return (of_fit + chosen_with) * SWEEPS * 2 / 3 * cells.cell_size**3


def what_is_done(parameters: Parameters, place: Place, data: TrainingData, first: int) -> str:
    """Say in a sentence what a fit does, and that one on some rows comes first."""
    settings, rival = choose_method(parameters, data, place)
    n_points = data.inputs.shape[0]
    how = "in one piece"
    if settings.cells is not None:
        how = f"in cells of {settings.cells.cell_size:,}"
    before = f"a fit on {first:,} rows first, then " if first else ""
    against = ", and compared with perceptrons" if rival is not None else ""
    one = f", {data.n_machines} classes one by one" if data.n_machines > 1 else ""
    return (
        f"{before}settings are chosen by labels left out and {n_points:,} rows are fitted "
        f"{how}{one}{against}"
    )


def operations_per_second(n_threads: int) -> float:
    """Operations of factorisations, as most of the work is, in a second of all threads at work.

    Threads that share a core are no faster than one.
    """
    K, seconds = np.eye(PROBED_POINTS) + 0.5, []
    with open_threads(n_threads) as threads:
        for _ in range(3):
            matrices = [K.copy(order="F") for _ in range(n_threads)]
            start = time.perf_counter()
            threads.each(lapack.factorise, matrices)
            seconds.append(time.perf_counter() - start)
    return n_threads * PROBED_POINTS**3 / 3 / min(seconds)
