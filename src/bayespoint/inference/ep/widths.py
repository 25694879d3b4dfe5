"""A width for each feature by the evidence of expectation propagation (docs/theory/widths.md).

With its sites held, the log evidence of a cell changes by half of sum(M * dK), where

    M = b b' - (K + T^-1)^-1,  b the coefficients of the mean,

if K changes by dK. For k = exp(-sum_j g_j |x_j - x'_j|^q), q = 2 (RBF) or 1 (Laplacian), dK in the
logarithm of g_j is minus k times the distances in column j: with N = M * k (elementwise), the slope
of the RBF kernel is -((z_j^2)' N 1 - z_j' N z_j), z_j = sqrt(g_j) x_j: one matrix, and a product of
it for each column. Sites follow by a sweep a step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from bayespoint._support import lapack
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.inference.ep.cells.cell import MOST_KNOWN, NOT_FELT, propagate_cell
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import Sites, next_sites
from bayespoint.space.kernels import Kernel, city_block_distances

# Steps (Adam's, in the logarithms), of several starts before one of them goes on, and their sizes,
# sweeps before the first one, and the share of a sweep's change that sites take.
STEPS, TRIED_STEPS, FIRST_SWEEPS = 60, 16, 8
RATE, LAST_RATE = 0.2, 0.1
DAMPING = 0.7
MEMORY, SQUARED_MEMORY = 0.9, 0.99  # of slopes

# Prior deviation of a logarithm from the mean of all: keeps idle features from drifting away.
DEVIATION = 3.0

# Sites that say less than this say nothing.
LEAST_TAU = 1e-12

# Logarithms may go so far from those of the prior.
FARTHEST = 12.0

# Features are idle below this share of the largest width; so many at most, if the evidence seems to
# gain so much by each, are tried as narrow ones.
IDLE, MOST_LOST, LEAST_LOST = 0.1, 3, 5.0

# Change of sites that leaves the evidence as it is, nearly.
AT_REST = 1e-2


class WidthCells(Protocol):
    """Cells that widths are learnt on: `HostCells`, or what does the same on a GPU."""

    def slopes(self, widths: Array, kernel: Kernel, sweeps: int = 1) -> Array:
        """Sweep all machines of all cells: as `WidthCell.slopes`, the sum."""

    def gains(self, widths: Array, others: Array, kernel: Kernel) -> Array:
        """As `WidthCell.gains`, the sum."""

    def log_evidence(self, widths: Array, kernel: Kernel) -> float:
        """Sum over machines and cells, with the sites as they are after some more sweeps."""

    def fresh(self) -> "WidthCells":
        """Return the same cells without sites."""


@dataclass(frozen=True, eq=False, repr=False)
class HostCells:
    """Cells on the host, each in a thread."""

    cells: "Sequence[WidthCell]"
    threads: Threads

    def slopes(self, widths: Array, kernel: Kernel, sweeps: int = 1) -> Array:
        """Sweep all machines of all cells: as `WidthCell.slopes`, the sum."""
        found = self.threads.each(lambda cell: cell.slopes(widths, kernel, sweeps), self.cells)
        return np.sum(found, axis=0)

    def gains(self, widths: Array, others: Array, kernel: Kernel) -> Array:
        """As `WidthCell.gains`, the sum."""
        found = self.threads.each(lambda cell: cell.gains(widths, others, kernel), self.cells)
        return np.sum(found, axis=0)

    def log_evidence(self, widths: Array, kernel: Kernel) -> float:
        """Sum over machines and cells, with the sites as they are after some more sweeps."""
        return sum(self.threads.each(lambda cell: cell.log_evidence(widths, kernel), self.cells))

    def fresh(self) -> "HostCells":
        """Return the same cells without sites."""
        return replace(self, cells=[WidthCell(cell.X, cell.likelihoods) for cell in self.cells])


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
    sites: list[Sites | None] = field(init=False)

    def __post_init__(self) -> None:
        self.sites = [None] * len(self.likelihoods)

    def slopes(self, widths: Array, kernel: Kernel, sweeps: int = 1) -> Array:
        """Sweep all machines, and return the slopes of their log evidence in log widths.

        Parameters
        ----------
        widths : ndarray of shape (n_features,)
        kernel : Kernel
            "rbf" or "laplacian", with its bias and normalisation.
        sweeps : int
        """
        pull = self._pull(widths, kernel, sweeps)
        return -0.5 * distance_sums(kernel.name, self.X, widths, pull)

    def gains(self, widths: Array, others: Array, kernel: Kernel) -> Array:
        """What the log evidence gains if each feature by itself has another width: to first order.

        Half of sum(M * (K' - K)), which finds what slopes do not: a wide feature that would matter
        if it were narrow.

        Parameters
        ----------
        widths, others : ndarray of shape (n_features,)
        kernel : Kernel
        """
        pull, found = np.tril(self._pull(widths, kernel, 1), -1), np.zeros(len(widths))
        for j in np.flatnonzero(widths != others):
            away = np.abs(self.X[:, j, None] - self.X[:, j])
            away = away if kernel.name == "laplacian" else np.square(away, out=away)
            away *= widths[j] - others[j]
            found[j] = np.vdot(pull, np.expm1(away, out=away))
        return found

    def _pull(self, widths: Array, kernel: Kernel, sweeps: int) -> Array:
        """Sweep all machines; M times the part of K that changes with widths, below the diagonal.

        The sum over machines.
        """
        try:
            return self._pull_now(widths, kernel, sweeps)
        except np.linalg.LinAlgError:
            if self.X.dtype == np.float64:
                raise
            self.X = self.X.astype(np.float64)  # single precision is too coarse, from here on
            return self._pull_now(widths, kernel, sweeps)

    def _pull_now(self, widths: Array, kernel: Kernel, sweeps: int) -> Array:
        """`_pull`, in the precision that X has."""
        values = kernel_values(kernel.name, self.X, widths)
        # K = (k + c) / (1 + c), or k + c: what changes with widths is a multiple of k.
        share = 1 / (1 + kernel.bias) if kernel.normalize else 1.0
        K = (values + values.dtype.type(kernel.bias)) * values.dtype.type(share)
        total = np.zeros_like(K, order="F")  # of all machines, below the diagonal
        for machine, likelihood in enumerate(self.likelihoods):
            coef, inverse = self._sweep(machine, likelihood, K, sweeps)
            total += np.multiply.outer(coef, coef).T  # in the order of `total`, as are values below
            total -= inverse
        total *= values.T
        total *= values.dtype.type(share)
        return total

    def log_evidence(self, widths: Array, kernel: Kernel) -> float:
        """Sum over machines, with the sites as they are after some more sweeps."""
        share = 1 / (1 + kernel.bias) if kernel.normalize else 1.0
        K = (kernel_values(kernel.name, self.X.astype(np.float64), widths) + kernel.bias) * share
        found = [
            propagate_cell(
                K, np.zeros(len(K)), likelihood, sites, tol=AT_REST, max_sweeps=FIRST_SWEEPS,
                dtype=self.X.dtype,
            ).log_evidence
            for likelihood, sites in zip(self.likelihoods, self.sites, strict=True)
        ]  # fmt: skip
        return float(np.sum(found))

    def _sweep(
        self, machine: int, likelihood: Likelihood, K: Array, sweeps: int
    ) -> tuple[Array, Array]:
        """Change sites; coefficients of the mean, and (K + T^-1)^-1, of those before the last.

        Of the latter, the lower triangle.
        """
        diagonal = K.diagonal().astype(np.float64)
        bounds = (0.0, MOST_KNOWN / diagonal)
        sites = self.sites[machine]
        if sites is None:
            sites, _ = next_sites(likelihood, np.zeros(len(K)), diagonal, bounds)
        copies = np.broadcast_to(likelihood.copies, len(K))
        for sweep in range(sweeps):
            tau, nu = copies * sites.tau, copies * sites.nu
            inverse, beta = _inverse(K, tau)
            means = (nu / np.maximum(tau, LEAST_TAU)).astype(K.dtype)
            coef = lapack.symmetric_product(inverse, means[:, None])[:, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                variance = np.where(tau > 0, (1 - beta) / tau, diagonal)
            variance = np.clip(variance, np.finfo(K.dtype).eps * diagonal, diagonal)
            out = np.minimum(copies, 1.0)
            left = np.maximum(1 - out * sites.tau * variance, np.finfo(K.dtype).eps)
            mean = (K @ coef).astype(np.float64)
            mean = (mean - variance * out * sites.nu) / left
            wanted, _ = next_sites(likelihood, mean, variance / left, bounds)
            step = DAMPING if sweep or self.sites[machine] is not None else 1.0
            changed = (o + step * (w - o) for o, w in zip(sites, wanted, strict=True))
            sites = Sites(*changed)
        self.sites[machine] = sites
        return coef, inverse


def _inverse(K: Array, tau: Array) -> tuple[Array, Array]:
    """(K + T^-1)^-1 = T^1/2 B^-1 T^1/2, B = I + T^1/2 K T^1/2, and the diagonal of B^-1.

    Of the first, the lower triangle.
    """
    root = np.sqrt(tau).astype(K.dtype)
    B = K * root
    B *= root[:, None]
    B[np.diag_indices_from(B)] += 1
    lower = B.T
    if not lapack.factorise(lower):
        raise np.linalg.LinAlgError("the covariance of a cell is not positive definite")
    lapack.inverse_of(lower)
    beta = lower.diagonal().astype(np.float64)
    lower *= root
    lower *= root[:, None]
    return lower, beta


def kernel_values(name: str, X: Array, widths: Array) -> Array:
    """Return k of all pairs of rows, 0 where it is too small to be felt."""
    found = _exponents(name, X, widths)
    np.exp(found, out=found)
    found[found < NOT_FELT] = 0
    return found


def _exponents(name: str, X: Array, widths: Array) -> Array:
    if name == "laplacian":
        Z = X * widths.astype(X.dtype)
        found = city_block_distances(Z, Z)
        return np.negative(found, out=found)
    Z = X * np.sqrt(widths).astype(X.dtype)
    squared = np.einsum("ij,ij->i", Z, Z)
    found = Z @ Z.T
    found *= 2
    found -= squared
    found -= squared[:, None]
    return np.minimum(found, 0, out=found)


def distance_sums(name: str, X: Array, widths: Array, N: Array) -> Array:
    """Sums of N times each column's part of the distances, g_j |x_j - x'_j|^q.

    ``N`` is symmetric, of which the lower triangle is read.
    """
    if name == "laplacian":
        from bayespoint._loops.city_block import city_block_sums

        sums = np.empty(len(widths))
        city_block_sums(np.ascontiguousarray(X), np.ascontiguousarray(N.T), sums)
        return 2 * widths * sums
    Z = np.asfortranarray(X * np.sqrt(widths).astype(X.dtype))
    sides = np.column_stack([Z, np.ones(len(Z), dtype=Z.dtype)])
    found = lapack.symmetric_product(N, np.asfortranarray(sides))
    squares = (Z**2).T @ found[:, -1]
    products = np.einsum("ij,ij->j", Z, found[:, :-1])
    return 2 * (squares - products).astype(np.float64)


def best_widths(
    cells: WidthCells, begins: Sequence[Array], kernel: Kernel, *, steps: int = STEPS,
    stop: Callable[[], bool] = lambda: False, **options: Any,
) -> Array:  # fmt: skip
    """Learn widths from several starts: that with the largest evidence after some steps goes on.

    Slopes of a wide feature that acts both ways lead nowhere: those that may have been lost are
    given a second chance.

    Parameters as for `learn_widths`.
    """
    found, options = [], {**options, "stop": stop}
    for begin in begins if len(begins) > 1 else ():
        fresh = cells.fresh()
        widths = learn_widths(fresh, begin, kernel, steps=TRIED_STEPS, last_rate=RATE, **options)
        found.append((fresh.log_evidence(widths, kernel), widths))
    best = max(found, key=lambda pair: pair[0])[1] if found else begins[0]
    widths = learn_widths(cells, best, kernel, steps=steps, **options)
    with_lost = None if stop() else _with_lost(cells, widths, kernel, options["group"])
    if with_lost is None:
        return widths
    again = learn_widths(fresh := cells.fresh(), with_lost, kernel, **options)
    better = fresh.log_evidence(again, kernel) > cells.log_evidence(widths, kernel)
    return again if better else widths


def _with_lost(cells: WidthCells, widths: Array, kernel: Kernel, group: Array) -> Array | None:
    """Widths with some idle features as narrow as the narrowest; None if none seems worth it."""
    narrow = float(widths.max())
    idle = (widths > 0) & (widths < IDLE * narrow)
    gain = cells.gains(widths, np.where(idle, narrow, widths), kernel)
    of_group: Array = np.bincount(group, weights=gain)
    lost = [g for g in np.argsort(-of_group)[:MOST_LOST] if of_group[g] > LEAST_LOST]
    return np.where(idle & np.isin(group, lost), narrow, widths) if lost else None


def learn_widths(
    cells: WidthCells, begin: Array, kernel: Kernel, *, origin: Array, group: Array,
    steps: int = STEPS, last_rate: float = LAST_RATE, deviation: float = DEVIATION,
    stop: Callable[[], bool] = lambda: False,
) -> Array:  # fmt: skip
    """Raise the evidence of cells by steps in the logarithms of widths.

    Parameters
    ----------
    cells : WidthCells
    begin : ndarray of shape (n_features,)
        Widths to begin with.
    kernel : Kernel
    origin : ndarray of shape (n_features,)
        Widths that the prior is about: all of them times a common factor.
    group : ndarray of int, shape (n_features,)
        Columns of a group change together.
    steps : int
    last_rate : float
        Size of the last step; the first has ``RATE``.
    deviation : float
        Of the prior.
    stop : callable
        Whether time is up.
    """
    there = origin > 0
    n_there = np.bincount(group, weights=there)
    moving = n_there > 0
    away = np.log(np.divide(begin, origin, out=np.ones(len(origin)), where=there))
    log = np.bincount(group, weights=away) / np.maximum(n_there, 1)
    slope, square = np.zeros_like(log), np.zeros_like(log)
    for step in range(1, steps + 1):
        if stop():
            break
        widths = origin * np.exp(log)[group]
        found = cells.slopes(widths, kernel, FIRST_SWEEPS if step == 1 else 1)
        total: Array = np.bincount(group, weights=found)
        total -= np.where(moving, log - log[moving].mean(), 0.0) / deviation**2
        slope += (1 - MEMORY) * (total - slope)
        square += (1 - SQUARED_MEMORY) * (total**2 - square)
        mean, spread = slope / (1 - MEMORY**step), square / (1 - SQUARED_MEMORY**step)
        rate = RATE * (last_rate / RATE) ** (step / steps)
        log += rate * mean / (np.sqrt(spread) + 1e-8)
        np.clip(log, -FARTHEST, FARTHEST, out=log)
    return origin * np.exp(log)[group]
