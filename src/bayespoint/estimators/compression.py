"""Fewer support points for the same decisions."""

from dataclasses import replace

import numpy as np
import scipy.linalg
from joblib import effective_n_jobs
from scipy.optimize import minimize
from scipy.special import log_softmax

from bayespoint._support.checks import check_number, check_positive_integer
from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.predictors import BayesPointPredictor, Predictor
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.links import Link
from bayespoint.space.rows import apply_kernel, kernel_rows

# Points added between two looks at the residual.
BLOCK = 32

# Pull of a least-squares fit towards the projection, which keeps it unique, as a share of the mean
# square of its features; from 1e-7 to 1e-3 errors on MNIST are the same.
PULL = 1e-5

# Probabilities that few points keep are those of a link this much less steep: at training points
# the link's own are nearly 0 or 1, and say little of the outputs. From 0.15 to 0.35, and from 30 to
# 150 steps, errors on MNIST are about the same.
STEEPNESS = 0.25
STEPS = 60

# Rows of features that are summed over at a time.
PART = 4096

# A candidate whose squared distance to the span is below this share adds nothing but rounding.
# For single-precision models it is larger: coefficients must stay small beside its rounding.
INDEPENDENCE_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}


def compressed(
    predictor: Predictor, tol: float, n_points: int | None, *, cache_bytes: int, n_jobs: int | None
) -> tuple[BayesPointPredictor, Array]:
    """Return a predictor with fewer support points, and which of them it keeps."""
    check_number("tol", tol, above=0)
    if n_points is not None:
        check_positive_integer("n_points", n_points)
    support = predictor.support
    if isinstance(predictor, CellsPredictor):
        raise ValueError(
            "compress needs one Bayes point, which EP by cells does not have. Fit with "
            "inference='perceptron'."
        )
    if not isinstance(predictor, BayesPointPredictor) or support.columns is not None:
        raise ValueError(
            "compress needs decision='bayes_point' and a kernel that can be evaluated (not "
            "'precomputed'): votes and given Gram matrices depend on all training points."
        )
    with open_threads(effective_n_jobs(n_jobs)) as threads:
        kept, coef = compress_machines(
            support.kernel, support.points, predictor.bayes_points, predictor.link, tol, n_points,
            cache_bytes=cache_bytes, threads=threads,
        )  # fmt: skip
    small = replace(
        predictor, support=support.take(kept), bayes_points=coef, committee=None,
        used=predictor.used[kept],
    )  # fmt: skip
    return small, kept


def compress_machines(
    kernel: Kernel, points: Points, coef: Array, link: Link, tol: float,
    n_points: int | None, *, cache_bytes: int, threads: Threads,
) -> tuple[Array, Array]:  # fmt: skip
    """Approximate w_c = sum_j coef[c, j] phi(x_j) by fewer points, within ``tol``.

    Greedy projection: the points at which the residuals are largest join the basis, block by
    block, by an incomplete Cholesky factor L of the Gram matrix. ||w_c - w'_c|| <= tol bounds
    the change of the output at every point of unit length.

    Where ``n_points`` end it earlier, the projection is not the best that they can do: it spreads
    what is left over all of feature space. Coefficients then fit the outputs at all of the points,
    and from there the probabilities.

    Parameters
    ----------
    kernel : Kernel
    points : Points
        The support points.
    coef : ndarray of shape (n_machines, n_points)
    link : Link
        From outputs to scores.
    tol : float
    n_points : int, optional
        Points to keep at most.
    cache_bytes : int
        Memory for the factor.
    threads : Threads

    Returns
    -------
    kept : ndarray of int
    coef : ndarray of shape (n_machines, len(kept))
    """
    tolerance = INDEPENDENCE_TOLERANCE[points.X.dtype]
    points = points.astype(np.float64)
    outputs = apply_kernel(kernel, points, points, coef.T, threads)
    residual = outputs.copy()
    left = np.einsum("cj,jc->c", coef, outputs)  # squared length of each residual
    distance = points.length**2  # squared distance of each point to the span
    floor = tolerance * distance
    factor = _Factor(len(points), cache_bytes)
    most = len(points) if n_points is None else n_points
    while np.any(left > tol**2) and len(factor.kept) < most:
        gain = np.where(distance > floor, np.sum(residual**2, axis=1), 0.0)
        gain /= np.maximum(distance, floor)
        chosen = np.argsort(-gain, kind="stable")[: min(BLOCK, most - len(factor.kept))]
        chosen = chosen[gain[chosen] > 0]
        if not len(chosen):
            break
        rows = kernel_rows(kernel, points, chosen, threads)
        new, chosen = factor.next_columns(rows, chosen, floor)
        amount = scipy.linalg.solve_triangular(new[chosen], residual[chosen], lower=True)
        residual -= new @ amount
        left -= np.sum(amount**2, axis=0)
        distance -= np.sum(new**2, axis=1)
        distance[factor.kept] = 0.0
    if n_points is not None and np.any(left > tol**2) and len(factor.kept) == most < len(points):
        order = np.argsort(factor.kept)
        return factor.kept[order], _fitted(points, outputs, factor, link, threads)[:, order]
    return _project(kernel, points, coef, outputs, factor, tol, threads)


class _Factor:
    """Incomplete Cholesky factor L, K ≈ L Lᵀ, that grows by columns."""

    def __init__(self, n_points: int, cache_bytes: int) -> None:
        self._buffer = np.empty((n_points, 4 * BLOCK), order="F")
        self._most = cache_bytes // (8 * n_points)
        self.kept = np.empty(0, dtype=np.int64)

    @property
    def columns(self) -> Array:
        """The columns so far."""
        return self._buffer[:, : len(self.kept)]

    def next_columns(self, rows: Array, chosen: Array, floor: Array) -> tuple[Array, Array]:
        """Append the columns of the chosen points, given their kernel rows.

        Points that depend on earlier ones are left out. Returns the columns and their points.
        """
        columns = rows.T - self.columns @ self.columns[chosen].T
        new = np.empty((len(columns), 0))
        independent = []
        for k, j in enumerate(chosen):
            column = columns[:, k] - new @ new[j]
            if column[j] > floor[j]:
                new = np.column_stack([new, column / np.sqrt(column[j])])
                independent.append(j)
        self._append(new, np.array(independent, dtype=np.int64))
        return new, np.array(independent, dtype=np.int64)

    def _append(self, new: Array, points: Array) -> None:
        start, stop = len(self.kept), len(self.kept) + len(points)
        if stop > self._most:
            raise ValueError(
                f"compress needs more than cache_size for a factor of {stop} × "
                f"{len(new)} numbers: raise cache_size or tol, or lower n_points."
            )
        if stop > self._buffer.shape[1]:
            grown = np.empty((len(new), max(stop, min(2 * start, self._most))), order="F")
            grown[:, :start] = self.columns
            self._buffer = grown
        self._buffer[:, start:stop] = new
        self.kept = np.append(self.kept, points)


def _fitted(
    points: Points, outputs: Array, factor: _Factor, link: Link, threads: Threads
) -> Array:  # fmt: skip
    """Coefficients of the kept points that give nearly the same cosines and probabilities."""
    projected, corner = _projected(outputs, factor)
    weight = np.divide(1, points.length, where=points.length > 0, out=0 * points.length)
    gram, right = np.zeros((len(corner), len(corner))), np.zeros_like(projected)
    for start in range(0, len(outputs), PART):
        part = slice(start, start + PART)
        features = weight[part, None] * factor.columns[part]
        gram += features.T @ features
        right += features.T @ (weight[part, None] * outputs[part])
    pull = PULL * np.trace(gram) / len(gram)
    gram[np.diag_indices_from(gram)] += pull
    best = scipy.linalg.solve(gram, right + pull * projected, assume_a="pos")
    best = _likeliest(best, outputs, factor.columns, weight[:, None], link, threads)
    return scipy.linalg.solve_triangular(corner.T, best, lower=False).T


def _likeliest(
    start: Array, outputs: Array, columns: Array, weight: Array, link: Link, threads: Threads
) -> Array:
    """From a start, go to where labels drawn by the old probabilities are most likely.

    Least squares of outputs care as much for points that no error can move to another class.
    """
    flat, offset = STEEPNESS * link.weights, STEEPNESS * link.offset

    def log_proba(cosines: Array) -> Array:
        scores = cosines @ flat.T + offset
        if scores.shape[1] == 1:  # of the second class
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return log_softmax(scores, axis=1)

    wanted = np.exp(log_proba(weight * outputs))

    def loss(flattened: Array) -> tuple[float, Array]:
        moved = flattened.reshape(start.shape)

        def of_part(first: int) -> tuple[float, Array]:
            part = slice(first, first + PART)
            log_p = log_proba(weight[part] * (columns[part] @ moved))
            slope = (np.exp(log_p) - wanted[part])[:, -len(offset) :] @ flat
            return -float(np.sum(wanted[part] * log_p)), columns[part].T @ (weight[part] * slope)

        values, slopes = zip(*threads.each(of_part, range(0, len(columns), PART)), strict=True)
        return sum(values) / len(columns), np.ravel(sum(slopes)) / len(columns)

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return found.x.reshape(start.shape)


def _projected(outputs: Array, factor: _Factor) -> tuple[Array, Array]:
    """Projections in an orthonormal basis of the kept points' span, and these points in it."""
    corner = factor.columns[factor.kept]
    return scipy.linalg.solve_triangular(corner, outputs[factor.kept], lower=True), corner


def _project(
    kernel: Kernel, points: Points, coef: Array, outputs: Array, factor: _Factor, tol: float,
    threads: Threads,
) -> tuple[Array, Array]:  # fmt: skip
    """Coefficients of the projections, and proof that they are near enough."""
    kept = factor.kept
    projected, corner = _projected(outputs, factor)
    small = scipy.linalg.solve_triangular(corner.T, projected, lower=False).T
    difference = coef.copy()
    difference[:, kept] -= small
    change = apply_kernel(kernel, points, points, difference.T, threads)
    squared = np.einsum("cj,jc->c", difference, change)
    if np.any(squared > tol**2) or len(kept) >= len(points):
        return np.arange(len(points)), coef
    order = np.argsort(kept)
    return kept[order], small[:, order]
