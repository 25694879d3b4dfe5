"""Fewer support points for the same decisions."""

import numpy as np
import scipy.linalg

from bayespoint.gram import apply_kernel

# Points added between two looks at the residual.
BLOCK = 32

# A candidate whose squared distance to the span is below this share adds nothing but rounding.
# For single-precision models it is larger: coefficients must stay small beside its rounding.
INDEPENDENCE_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}


def compress_machines(kernel, points, coef, tol, threads):
    """Approximate w_c = sum_j coef[c, j] phi(x_j) by fewer points, within ``tol``.

    Greedy projection: the points at which the residuals are largest join the basis, block by
    block, by an incomplete Cholesky factor L of the Gram matrix. ||w_c - w'_c|| <= tol bounds
    the change of the output at every point of unit length.

    Parameters
    ----------
    kernel : Kernel
    points : Points
        The support points.
    coef : ndarray of shape (n_machines, n_points)
    tol : float
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
    diagonal = points.length**2
    floor = tolerance * diagonal
    distance = diagonal.copy()  # squared distance of each point to the span
    L = np.empty((len(points), 0))
    kept = np.empty(0, dtype=np.int64)
    while np.any(left > tol**2) and np.any(distance > floor):
        gain = np.where(distance > floor, np.sum(residual**2, axis=1), -1)
        gain /= np.maximum(distance, floor)
        chosen = np.argsort(-gain, kind="stable")[:BLOCK]
        chosen = chosen[gain[chosen] > 0]
        if not len(chosen):
            break
        new, chosen = _cholesky_columns(kernel, points, L, chosen, floor, threads)
        amount = scipy.linalg.solve_triangular(new[chosen], residual[chosen], lower=True)
        residual -= new @ amount
        left -= np.sum(amount**2, axis=0)
        distance -= np.sum(new**2, axis=1)
        distance[chosen] = 0.0
        L = np.hstack([L, new])
        kept = np.append(kept, chosen)
    return _project(kernel, points, coef, outputs, kept, L, tol, threads)


def _cholesky_columns(kernel, points, L, chosen, floor, threads):
    """Next columns of the factor, for the chosen points; dependent ones are left out."""
    unit = np.zeros((len(points), len(chosen)))
    unit[chosen, np.arange(len(chosen))] = 1.0
    columns = apply_kernel(kernel, points, points, unit, threads) - L @ L[chosen].T
    new = np.empty((len(points), 0))
    independent = []
    for k, j in enumerate(chosen):
        column = columns[:, k] - new @ new[j]
        if column[j] <= floor[j]:
            continue
        new = np.hstack([new, (column / np.sqrt(column[j]))[:, None]])
        independent.append(j)
    return new, np.array(independent, dtype=np.int64)


def _project(kernel, points, coef, outputs, kept, L, tol, threads):
    """Coefficients of the projections, and proof that they are near enough."""
    order = np.argsort(kept)
    projected = scipy.linalg.solve_triangular(L[kept], outputs[kept], lower=True)
    small = scipy.linalg.solve_triangular(L[kept].T, projected, lower=False).T[:, order]
    kept = kept[order]
    difference = coef.copy()
    difference[:, kept] -= small
    change = apply_kernel(kernel, points, points, difference.T, threads)
    squared = np.einsum("cj,jc->c", difference, change)
    if np.any(squared > tol**2) or len(kept) >= len(points):
        return np.arange(len(points)), coef
    return kept, small
