"""A width for each feature by the evidence of expectation propagation (mathematics.md 14).

With its sites held, the log evidence of a cell changes by half of sum(M * dK), where

    M = b b' - (K + T^-1)^-1,  b the coefficients of the mean,

if K changes by dK. For k = exp(-sum_j g_j |x_j - x'_j|^q), q = 2 (RBF) or 1 (Laplacian), dK in the
logarithm of g_j is minus k times the distances in column j: with N = M * k (elementwise), the slope
of the RBF kernel is -((z_j^2)' N 1 - z_j' N z_j), z_j = sqrt(g_j) x_j: one matrix, and a product of
it for each column. Sites follow by a sweep a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespoint._support import lapack
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.inference.ep.cells.cell import MOST_KNOWN, propagate_cell
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import Sites, next_sites

# Steps (Adam's, in the logarithms) and their size, sweeps before the first one, and the share of a
# sweep's change that sites take.
STEPS, RATE, FIRST_SWEEPS = 60, 0.1, 8
DAMPING = 0.7
MEMORY, SQUARED_MEMORY = 0.9, 0.99  # of slopes

# Prior deviation of a logarithm from the mean of all: keeps idle features from drifting away.
DEVIATION = 3.0

# Sites that say less than this say nothing.
LEAST_TAU = 1e-12

# Logarithms may go so far from where they begin.
FARTHEST = 12.0


@dataclass(eq=False, repr=False)
class WidthCell:
    """Rows of a cell, and the sites of its machines.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
        In units in which widths begin equal.
    likelihoods : list of Likelihood
        Of each machine.
    sites : list of Sites
        As the last sweep left them.
    """

    X: Array
    likelihoods: list[Likelihood]
    sites: list[Sites | None]

    def slopes(
        self, widths: Array, kernel: Any, sweeps: int = 1, damping: float = DAMPING
    ) -> Array:
        """Sweep all machines, and return the slopes of their log evidence in log widths.

        Parameters
        ----------
        widths : ndarray of shape (n_features,)
        kernel : Kernel
            "rbf" or "laplacian", with its bias and normalisation.
        sweeps : int
        damping : float
        """
        values = kernel_values(kernel.name, self.X, widths)
        # K = (k + c) / (1 + c), or k + c: what changes with widths is a multiple of k.
        share = 1 / (1 + kernel.bias) if kernel.normalize else 1.0
        K = (values + values.dtype.type(kernel.bias)) * values.dtype.type(share)
        total = np.zeros(len(widths))
        for machine, likelihood in enumerate(self.likelihoods):
            coef, inverse = self._sweep(machine, likelihood, K, sweeps, damping)
            N = np.multiply.outer(coef, coef)
            N -= inverse
            N *= values
            total += share * distance_sums(kernel.name, self.X, widths, N)
        return -0.5 * total

    def log_evidence(self, widths: Array, kernel: Any) -> float:
        """Sum over machines, with the sites as they are after some more sweeps."""
        share = 1 / (1 + kernel.bias) if kernel.normalize else 1.0
        K = (kernel_values(kernel.name, self.X, widths).astype(np.float64) + kernel.bias) * share
        found = [
            propagate_cell(
                K, np.zeros(len(K)), likelihood, sites, tol=1e-2, max_sweeps=FIRST_SWEEPS,
                dtype=self.X.dtype,
            ).log_evidence
            for likelihood, sites in zip(self.likelihoods, self.sites, strict=True)
        ]  # fmt: skip
        return float(np.sum(found))

    def _sweep(
        self, machine: int, likelihood: Likelihood, K: Array, sweeps: int, damping: float
    ) -> tuple[Array, Array]:
        """Change sites; coefficients of the mean, and (K + T^-1)^-1, of those before the last."""
        diagonal = K.diagonal().astype(np.float64)
        bounds = (0.0, MOST_KNOWN / diagonal)
        sites = self.sites[machine]
        if sites is None:
            sites, _ = next_sites(likelihood, np.zeros(len(K)), diagonal, bounds)
        copies = np.broadcast_to(likelihood.copies, len(K))
        for sweep in range(sweeps):
            tau, nu = copies * sites.tau, copies * sites.nu
            inverse, beta = _inverse(K, tau)
            coef = inverse @ (nu / np.maximum(tau, LEAST_TAU)).astype(K.dtype)
            with np.errstate(divide="ignore", invalid="ignore"):
                variance = np.where(tau > 0, (1 - beta) / tau, diagonal)
            variance = np.clip(variance, np.finfo(K.dtype).eps * diagonal, diagonal)
            out = np.minimum(copies, 1.0)
            left = np.maximum(1 - out * sites.tau * variance, np.finfo(K.dtype).eps)
            mean = (K @ coef).astype(np.float64)
            mean = (mean - variance * out * sites.nu) / left
            wanted, _ = next_sites(likelihood, mean, variance / left, bounds)
            step = damping if sweep or self.sites[machine] is not None else 1.0
            changed = (o + step * (w - o) for o, w in zip(sites, wanted, strict=True))
            sites = Sites(*changed)
        self.sites[machine] = sites
        return coef, inverse


def _inverse(K: Array, tau: Array) -> tuple[Array, Array]:
    """(K + T^-1)^-1 = T^1/2 B^-1 T^1/2, B = I + T^1/2 K T^1/2, and the diagonal of B^-1."""
    for dtype in (K.dtype, np.dtype(np.float64)):
        root = np.sqrt(tau).astype(dtype)
        B = K.astype(dtype) * root
        B *= root[:, None]
        B[np.diag_indices_from(B)] += 1
        lower = B.T
        if lapack.factorise(lower):
            break
    else:
        raise np.linalg.LinAlgError("the covariance of a cell is not positive definite")
    inverse = lapack.inverse_of(lower)
    beta = inverse.diagonal().astype(np.float64)
    inverse *= root
    inverse *= root[:, None]
    return inverse.astype(K.dtype, copy=False), beta


def kernel_values(name: str, X: Array, widths: Array) -> Array:
    """Return k of all pairs of rows."""
    if name == "laplacian":
        from scipy.spatial.distance import cdist

        Z = X * widths
        return np.exp(-cdist(Z, Z, "cityblock")).astype(X.dtype)
    Z = X * np.sqrt(widths).astype(X.dtype)
    squared = np.einsum("ij,ij->i", Z, Z)
    found = Z @ Z.T
    found *= 2
    found -= squared
    found -= squared[:, None]
    np.minimum(found, 0, out=found)
    return np.exp(found, out=found)


def distance_sums(name: str, X: Array, widths: Array, N: Array) -> Array:
    """Sums of N times each column's part of the distances, g_j |x_j - x'_j|^q."""
    if name == "laplacian":
        columns = (np.abs(x[:, None] - x) for x in X.T)
        sums = np.array([np.vdot(N, away) for away in columns])
        return widths * sums
    Z = X * np.sqrt(widths).astype(X.dtype)
    squares = (Z**2).T @ N.sum(axis=1)
    products = np.einsum("ij,ij->j", Z, N @ Z)
    return 2 * (squares - products).astype(np.float64)


def best_widths(
    cells: Sequence[WidthCell], begins: Sequence[Array], kernel: Any, *, threads: Threads,
    **options: Any,
) -> Array:  # fmt: skip
    """Learn widths from several starts, and return those with the largest evidence.

    Parameters as for `learn_widths`.
    """
    found = []
    for begin in begins:
        fresh = [replace(cell, sites=[None] * len(cell.sites)) for cell in cells]
        widths = learn_widths(fresh, begin, kernel, threads=threads, **options)
        found.append((evidence_of(fresh, widths, kernel, threads), widths))
    return max(found, key=lambda pair: pair[0])[1]


def evidence_of(cells: Sequence[WidthCell], widths: Array, kernel: Any, threads: Threads) -> float:
    """Log evidence of all cells."""
    return sum(threads.each(lambda cell: cell.log_evidence(widths, kernel), cells))


def learn_widths(
    cells: Sequence[WidthCell], begin: Array, kernel: Any, *, threads: Threads,
    group: Array, steps: int = STEPS, deviation: float = DEVIATION,
    stop: Any = lambda: False,
) -> Array:  # fmt: skip
    """Raise the evidence of cells by steps in the logarithms of widths.

    Parameters
    ----------
    cells : sequence of WidthCell
    begin : ndarray of shape (n_features,)
        Widths to begin with.
    kernel : Kernel
    threads : Threads
    group : ndarray of int, shape (n_features,)
        Columns of a group change together.
    steps : int
    deviation : float
        Of the prior.
    stop : callable
        Whether time is up.
    """
    n_groups = int(group.max()) + 1
    there = np.bincount(group, weights=begin > 0, minlength=n_groups) > 0
    log = np.zeros(n_groups)
    slope, square = np.zeros(n_groups), np.zeros(n_groups)

    def swept(cell: WidthCell, widths: Array, sweeps: int) -> Array:
        return cell.slopes(widths, kernel, sweeps)

    for step in range(1, steps + 1):
        if stop():
            break
        widths = begin * np.exp(log)[group]
        sweeps = FIRST_SWEEPS if step == 1 else 1
        found = threads.each(lambda c: swept(c, widths, sweeps), cells)  # noqa: B023
        total: Any = np.bincount(group, weights=np.sum(found, axis=0), minlength=n_groups)
        total -= np.where(there, log - log[there].mean(), 0.0) / deviation**2
        slope += (1 - MEMORY) * (total - slope)
        square += (1 - SQUARED_MEMORY) * (total**2 - square)
        mean, spread = slope / (1 - MEMORY**step), square / (1 - SQUARED_MEMORY**step)
        log += RATE * mean / (np.sqrt(spread) + 1e-8)
        np.clip(log, -FARTHEST, FARTHEST, out=log)
    return begin * np.exp(log)[group]
