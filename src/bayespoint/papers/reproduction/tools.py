"""What several items compute."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint._support.types import Array, ArrayLike
from bayespoint.papers import datasets
from bayespoint.papers.reproduction.item import Data


def stderr(values: ArrayLike, axis: int = 0) -> Any:
    """Return the standard error of the mean."""
    values = np.asarray(values, dtype=float)
    return np.std(values, axis=axis, ddof=1) / np.sqrt(values.shape[axis])


def means(**columns: Array) -> Data:
    """Return means over the first axis and their standard errors, as NAME and NAME_error."""
    found: Data = {}
    for name, values in columns.items():
        found |= {name: np.mean(values, axis=0), f"{name}_error": stderr(values)}
    return found


def degrees_between(a: Array, b: Array) -> float:
    """Return the angle between two unit vectors."""
    return float(np.degrees(np.arccos(np.clip(a @ b, -1, 1))))


def rbf(A: Array, B: Array, sigma: float) -> Array:
    """Return the Gaussian kernel of width sigma between rows of A and B."""
    return rbf_kernel(A, B, gamma=1 / (2 * sigma**2))


def max_margin(Z: Array) -> Array:
    """Return the unit vector of largest margin: along the shortest w with Z w >= 1.

    Rows of Z are points times labels; there is no bias but one that is a column. Lawson and Hanson
    reduce the problem to non-negative least squares.
    """
    system = np.vstack([Z.T, np.ones(len(Z))])
    target = np.append(np.zeros(Z.shape[1]), 1.0)
    a, _ = nnls(system, target, maxiter=20 * len(Z))
    residual = target - system @ a
    w = -residual[:-1] / residual[-1]
    return w / np.linalg.norm(w)


def max_margin_coef(space: VersionSpace) -> Array:
    """Return coefficients of the unit vector of largest margin in a VersionSpace."""
    gram = space.rows.store + np.diag(space.ridge)
    L = np.linalg.cholesky(gram)
    return np.linalg.solve(L.T, max_margin(space.y[:, None] * L))


def error_rate(outputs: ArrayLike, y: ArrayLike) -> float:
    """Return the share of wrong labels, in per cent; an output of zero is wrong."""
    return 100 * float(np.mean(np.asarray(y) * np.asarray(outputs) <= 0))


def split_of(name: str, split: int) -> datasets.Arrays:
    """Return a split of a set of JMLR's table 1: Rätsch's, or 60:40 where there are none."""
    if name not in ("sonar", "ionosphere"):
        return datasets.raetsch(name, split)
    X, y = datasets.load(name)
    order = np.random.default_rng(20010000 + split).permutation(len(y))
    cut = int(0.6 * len(y))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def origins(names: Iterable[str]) -> dict[str, str]:
    """Say where the splits of sets of JMLR's table 1 come from."""
    made = "rows from UCI; 60:40 splits made here by a seed"
    return {n: datasets.raetsch_origin(n) if n in datasets.RAETSCH else made for n in names}


def distinct(X: Array, y: Array) -> tuple[Array, Array]:
    """Return the rows without repetitions: equal rows with equal labels are one wall."""
    rows = np.unique(np.column_stack([X, y]), axis=0)
    return rows[:, :-1], rows[:, -1]


def bare_axes(axes: Any) -> Any:
    """Make axes for a map: one scale for both directions, no frame; return them."""
    axes.set_aspect("equal")
    axes.set_axis_off()
    return axes
