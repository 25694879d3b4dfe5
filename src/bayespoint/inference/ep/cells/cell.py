"""Formulas of one cell: sites, what they make of its prior, and its message to all other cells.

Outputs of the cell are f = Phi w + u: w ~ N(0, I) is common to all cells, Phi = K(X, Z) W are the
features of landmarks Z, and u ~ N(0, R), R = K - Phi Phi', is the cell's own. The sites of a cell,
tau and nu, tell of w what a message says: the precision U'U and the vector Phi'g, where

    B = I + T^1/2 R T^1/2 = L L',  U = L^-1 T^1/2 Phi,  g = nu - T^1/2 B^-1 T^1/2 R nu.

Given what all other cells say, w ~ N(m, A^-1), the prior of the cell's outputs is N(Phi m, C),
C = R + Phi A^-1 Phi': expectation propagation in the cell begins there. Without landmarks C = K.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support import lapack
from bayespoint._support.types import Array
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import Sites, next_sites

# Sites with tau times the variance below this have their variance from another formula: the usual
# one loses digits in single precision.
WEAK = 1e-2

# Share of weak sites from which the variances of all at once take less time than each by itself,
# and the tau of a site that says so little that its part of a product may be lost.
MANY_WEAK, SILENT = 0.4, 1e-20

# Steps that are not damped, and then the share of a step; halved where the change grows.
FULL_STEPS = 3
DAMPING, DAMPING_GROWTH, LEAST_DAMPING = 0.7, 1.3, 0.02

# Largest tau times prior variance: an output known to a ten-thousandth of what it was before.
MOST_KNOWN = 1e8

# Share of the largest entry below which entries in single precision are 0: far less than their
# rounding.
NOT_FELT = 1e-12

# Columns of an inverse that are summed at a time.
TILE = 128

# Rounding of B, times its trace: an inverse is then off by a hundredth at most, as measured.
MOST_ROUNDING = 0.1


def precision(tau: Array, diagonal: Array, dtype: Any) -> Any:
    """Return the precision that I + T^1/2 C T^1/2 needs, given the diagonal of C: this or double.

    With very little softness its eigenvalues reach from 1 to more than single precision tells
    apart.
    """
    felt = np.finfo(dtype).eps * (len(tau) + float(tau @ diagonal)) > MOST_ROUNDING
    return np.dtype(np.float64 if felt else dtype)


def without_tiny(C: Array, largest: float) -> Array:
    """Set to 0 what is too small to be felt in single precision, and return the matrix.

    Products of such numbers are subnormal, with which processors are many times slower.
    """
    if C.dtype == np.float32:
        C[np.abs(C) < NOT_FELT * largest] = 0
    return C


def in_precision(C: Array, dtype: Any) -> Array:
    """Return a covariance in a precision."""
    if C.dtype == dtype:
        return C
    return without_tiny(C.astype(dtype), float(np.max(C.diagonal(), initial=0.0)))


class Factor:
    """Cholesky factor L of B = I + T^1/2 C T^1/2, in single or double precision.

    In double precision, too, where rounding in single precision would be felt.

    Parameters
    ----------
    C : ndarray of shape (n, n)
        What is below the diagonal is not looked at.
    tau : ndarray of shape (n,)
    dtype : dtype
    rounded : ndarray of shape (n, n), optional
        C with this dtype.
    """

    def __init__(self, C: Array, tau: Array, dtype: Any, rounded: Array | None = None) -> None:
        self.root = np.sqrt(tau)
        for tried in (precision(tau, C.diagonal(), dtype), np.dtype(np.float64)):
            held = rounded is not None and rounded.dtype == tried
            matrix: Any = rounded if held else in_precision(C, tried)
            root = self.root.astype(tried)
            B = np.multiply(matrix, root, order="C")
            B *= root[:, None]
            B[np.diag_indices_from(B)] += 1
            self.lower = B.T
            if lapack.factorise(self.lower):
                return
        raise np.linalg.LinAlgError("the covariance of a cell is not positive definite")

    @property
    def log_determinant(self) -> float:
        """Of L."""
        return float(np.sum(np.log(self.lower.diagonal().astype(np.float64))))

    def half(self, values: Array) -> Array:
        """Return L^-1 T^1/2 values, of a matrix."""
        scaled = np.asfortranarray(self.root[:, None] * values, dtype=self.lower.dtype)
        largest = float(np.max(np.abs(scaled), initial=0.0))
        return lapack.solve(self.lower, without_tiny(scaled, largest))

    def solve(self, values: Array) -> Array:
        """Return T^1/2 B^-1 T^1/2 values = (C + T^-1)^-1 values, of a vector or a matrix."""
        columns = values[:, None] if values.ndim == 1 else values
        solved = lapack.solve(self.lower, self.half(columns), transposed=True)
        solved = self.root[:, None] * solved
        return solved[:, 0] if values.ndim == 1 else solved

    def inverse_diagonal(self) -> Array:
        """Diagonal of B^-1."""
        columns = self._inverse.T  # rows of it: only what is to the right
        found = np.empty(len(columns))
        for first in range(0, len(found), TILE):
            tile = slice(first, first + TILE)
            columns[tile, tile] = np.triu(columns[tile, tile])
            part = columns[tile, first:]
            found[tile] = np.einsum("ij,ij->i", part, part)
        return found

    def variances(self, C: Array) -> Array:
        """Diagonal of (C^-1 + T)^-1 = T^-1/2 B^-1 T^1/2 C; NaN where tau is 0."""
        inverse = self._inverse.copy(order="F")
        lapack.transposed_product(inverse)
        upper = np.triu(inverse.T * C)
        total = upper @ self.root + self.root @ upper - upper.diagonal() * self.root
        with np.errstate(divide="ignore", invalid="ignore"):
            return total / self.root

    @cached_property
    def _inverse(self) -> Array:
        """L^-1; what is above the diagonal is not to be looked at."""
        inverse = self.lower.copy(order="F")
        lapack.invert(inverse)
        return inverse


class CellGaussian(NamedTuple):
    """What sites make of a cell's prior."""

    eps: float  # of the precision that it was computed in

    coef: Array  # (n,), g: the mean is that of the prior and C g
    mean: Array  # (n,)
    variance: Array  # (n,)
    log_determinant: float


def combine(
    C: Array, prior_mean: Array, sites: Sites, copies: Array, dtype: Any,
    rounded: Array | None = None,
) -> CellGaussian:  # fmt: skip
    """Return marginals of prior and sites, ``copies`` of each site."""
    tau, nu = copies * sites.tau, copies * sites.nu
    factor = Factor(C, tau, dtype, rounded)
    pull = nu - tau * prior_mean
    coef = pull - factor.solve(C @ pull)
    beta = factor.inverse_diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1 - beta) / tau
    is_weak = ~(1 - beta > WEAK)
    if np.mean(is_weak) > MANY_WEAK:
        told = is_weak & (tau > SILENT)
        variance[told] = factor.variances(C)[told]
        is_weak &= ~told
    weak = np.flatnonzero(is_weak)
    if len(weak):
        known = factor.half(C[:, weak]).astype(np.float64)
        variance[weak] = C.diagonal()[weak] - np.einsum("ij,ij->j", known, known)
    eps = float(np.finfo(factor.lower.dtype).eps)
    variance = np.maximum(variance, eps * C.diagonal())
    return CellGaussian(eps, coef, prior_mean + C @ coef, variance, factor.log_determinant)


def cavities(gaussian: CellGaussian, sites: Sites, left_out: Any = 1.0) -> tuple[Array, Array]:
    """Means and variances without one copy of each point's own site, or more."""
    tau, nu = left_out * sites.tau, left_out * sites.nu
    share = np.maximum(1 - tau * gaussian.variance, gaussian.eps)
    return (gaussian.mean - gaussian.variance * nu) / share, gaussian.variance / share


class CellState(NamedTuple):
    """Sites of a cell, and how they came to be."""

    sites: Sites
    gaussian: CellGaussian
    moved: float  # the change that the first sweep asked for
    change: float  # and the last one
    sweeps: int
    log_evidence: float  # of the cell's labels, given its prior
    by_sites: float  # the part of it that each site has by itself


def propagate_cell(
    C: Array, prior_mean: Array, likelihood: Likelihood, start: Sites | None, *, tol: float,
    max_sweeps: int, dtype: Any, damping: float = 1.0,
) -> CellState:  # fmt: skip
    """Change the sites of a cell until they stay, or for so many sweeps.

    ``damping``: the share of a step that is taken, to begin with.
    """
    diagonal = C.diagonal()
    copies = np.broadcast_to(likelihood.copies, len(C))
    bounds = (0.0, MOST_KNOWN / diagonal)
    if start is None:  # as if the others had said nothing
        start, _ = next_sites(likelihood, prior_mean, diagonal, bounds)
    sites, before, moved = start, np.inf, np.inf
    rounded = in_precision(C, dtype)
    for sweep in range(1, max_sweeps + 1):
        gaussian = combine(C, prior_mean, sites, copies, dtype, rounded)
        mean, variance = cavities(gaussian, sites, np.minimum(copies, 1.0))
        proposed, log_z = next_sites(likelihood, mean, variance, bounds)
        change = _change(gaussian, sites, proposed)
        moved = change if sweep == 1 else moved
        if change <= tol or sweep == max_sweeps:
            break
        if change > before:
            damping = max(damping / 2, LEAST_DAMPING)
        elif sweep > FULL_STEPS:
            damping = min(damping * DAMPING_GROWTH, 1.0)
        if sweep == FULL_STEPS:
            damping = min(damping, DAMPING)
        before = change
        sites = Sites(*(o + damping * (p - o) for o, p in zip(sites, proposed, strict=True)))
    by_sites = _by_sites(sites, copies, log_z, mean, variance)
    evidence = by_sites + _log_integral(gaussian, prior_mean, sites, copies)
    return CellState(sites, gaussian, moved, change, sweep, evidence, by_sites)


def _change(gaussian: CellGaussian, sites: Sites, proposed: Sites) -> float:
    """Of means, in standard deviations, or of variances, as a share: the largest."""
    tau, nu = proposed.tau - sites.tau, proposed.nu - sites.nu
    spread = np.abs(tau) * gaussian.variance
    shift = np.abs(nu - tau * gaussian.mean) * np.sqrt(gaussian.variance)
    return float(np.max(np.maximum(spread, shift), initial=0.0))


def _log_integral(gaussian: CellGaussian, prior_mean: Array, sites: Sites, copies: Array) -> float:
    """Of prior and sites."""
    tau, nu = copies * sites.tau, copies * sites.nu
    total = nu @ prior_mean - 0.5 * tau @ prior_mean**2
    total += 0.5 * (nu - tau * prior_mean) @ (gaussian.mean - prior_mean)
    return float(total - gaussian.log_determinant)


def _by_sites(sites: Sites, copies: Array, log_z: Array, mean: Array, variance: Array) -> float:
    """Logs of the labels' probabilities, less those of the sites' integrals in their cavities."""
    spread = 1 + sites.tau * variance
    own = sites.nu * (mean + 0.5 * variance * sites.nu) - 0.5 * sites.tau * mean**2
    return float(np.sum(copies * (log_z - own / spread + 0.5 * np.log(spread))))


class Message(NamedTuple):
    """What the sites of a cell, or of several, say of w."""

    precision: Array  # (n_landmarks, n_landmarks)
    shift: Array  # (n_landmarks,)


class TreeSum:
    """Sum of messages two by two: the same, to the last digit, however they were grouped before.

    A group is a power of 2 of them, in a row, which was summed in the same way. None says nothing.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, Message | None]] = []  # numbers of messages, and their sums

    def add(self, message: Message | None) -> None:
        """Add the next message."""
        size = 1
        while self._held and self._held[-1][0] == size:
            message, size = united(self._held.pop()[1], message), 2 * size
        self._held.append((size, message))

    def total(self) -> Message | None:
        """Return the sum of all."""
        total = None
        for _, message in reversed(self._held):
            total = united(message, total)
        return total


def united(left: Message | None, right: Message | None) -> Message | None:
    """Return what two messages say."""
    if left is None or right is None:
        return left or right
    return Message(left.precision + right.precision, left.shift + right.shift)


class OwnPart(NamedTuple):
    """The cell's own part of the prior, with its sites: for messages and predictions."""

    factor: Factor  # of I + T^1/2 R T^1/2
    coef: Array  # (n,), g
    spread: Array  # (n, n_landmarks), U


def own_part(R: Array, features: Array, sites: Sites, copies: Array, dtype: Any) -> OwnPart:
    """Factorise the cell's own part."""
    tau, nu = copies * sites.tau, copies * sites.nu
    factor = Factor(R, tau, dtype)
    return OwnPart(factor, nu - factor.solve(R @ nu), factor.half(features))


def message_of(part: OwnPart, features: Array) -> Message:
    """Message of a cell; in double precision, as it is added to and taken from sums."""
    spread = part.spread.astype(np.float64)
    return Message(spread.T @ spread, features.T @ part.coef)
