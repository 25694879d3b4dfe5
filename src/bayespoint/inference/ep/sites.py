"""Expectation propagation: a Gaussian factor ("site") in place of each label's likelihood.

Latent outputs f ~ N(0, K) at the training points; the label of point i has probability

    l_i(f_i) = a_i (rho_i + (1 - rho_i) Phi(y_i f_i / sqrt(s_i))),

s_i the variance that softness adds (0: a step) and rho_i / (1 + rho_i) the rate of wrong labels. A
site exp(nu_i f_i - tau_i f_i² / 2) is right when, with the others as they are, it gives f_i the
mean and the variance that l_i would give it (Minka 2001; Opper & Winther 2000).

With R = (K + T^-1)^-1, T = diag(tau), the distribution of f_i without its own site, the *cavity*,
has variance 1/R_ii - 1/tau_i and mean nu_i/tau_i - a_i/R_ii, where a = R T^-1 nu are the
coefficients of the mean, f = K a. R_ii and a come without cancellation from the Cholesky factor of
B = I + T^1/2 K T^1/2, m³/3 operations, and the diagonal of B^-1, as many. All sites change at once.
Labels that may be wrong can make tau_i negative; these few sites are added to the others by a
low-rank step (`_add_few`). Where sites do not converge, a second run keeps tau_i >= 0: sites at
the bound give the mean alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotri

from bayespoint._support.types import Array
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.space.blocks import Block

# Sites with tau_i K_ii below this share no digits with the others: they are added apart.
FEW = 1e-6

# Variance of a point with its label, as a share of that without, at least: rounding can take it
# below zero for labels that contradict all others.
LEAST_SHARE = 1e-12

# A step that does not bring sites closer to their fixed point is halved, down to this share, and
# grows again by this factor while all goes well.
LEAST_DAMPING = 0.02
DAMPING_GROWTH = 1.3

# Largest tau_i K_ii: a label that knows its output to a ten-thousandth of what it was before.
# Contradictions without softness, which nothing can satisfy, would make it infinite.
MOST_KNOWN = 1e8

# A probability has no logarithm above 0, and by symmetry that of labels is far below.
MOST_EVIDENCE = 0.0


class Sites(NamedTuple):
    """Parameters of the Gaussian factors, one per point; its copies have equal ones."""

    tau: Array
    nu: Array


class SiteGaussian(NamedTuple):
    """What sites make of the prior N(0, K)."""

    coef: Array  # (m,), of the mean, f = K coef
    cavity_mean: Array  # (m,), of each point without its own site (of one copy)
    cavity_variance: Array  # (m,)
    log_ratio: float  # log-integral of prior and sites, less those of each site in its cavity
    many: Array  # points with tau > 0
    block: Any  # `Block` of B over these: its Cholesky factor
    root: Array  # their sqrt(tau)
    few: Array  # all other points
    spread: Array  # (many, few), R K between these and those, without the sites of those
    inverse: Array  # (few, few), the block of R of those

    @property
    def lower(self) -> Array:
        """Cholesky factor of B."""
        return self.block.lower

    def reducer(self) -> tuple[Array, Array]:
        """Matrix P and signs s with R = Pᵀ diag(s) P."""
        m = len(self.coef)
        P, sign = np.zeros((m, m)), np.ones(m)
        n = len(self.many)
        rows = self.block.inverse_triangle() * self.root
        if not len(self.few):
            return rows, sign
        P[:n, self.many] = rows
        values, vectors = np.linalg.eigh(self.inverse)
        scaled = (vectors * np.sqrt(np.abs(values))).T
        P[n:, self.many], P[n:, self.few] = -scaled @ self.spread.T, scaled
        sign[n:] = np.where(values < 0, -1.0, 1.0)
        return P, sign

    def inverse_matrix(self) -> Array:
        """Return the matrix R."""
        block = np.zeros((0, 0))
        if len(self.many):
            upper, _ = dpotri(self.lower.T, lower=0)
            block = np.triu(upper) + np.triu(upper, 1).T
        block *= self.root
        block *= self.root[:, None]
        if not len(self.few):
            return block
        m = len(self.coef)
        R, cross = np.empty((m, m)), self.spread @ self.inverse
        R[np.ix_(self.many, self.many)] = block + cross @ self.spread.T
        R[np.ix_(self.many, self.few)] = -cross
        R[np.ix_(self.few, self.many)] = -cross.T
        R[np.ix_(self.few, self.few)] = self.inverse
        return R

    def noise(
        self, coef: Array, outputs: Array, ridge: Array, tau: Array, rng: np.random.Generator
    ) -> Array:
        """Deviations from the mean, in coefficients, from draws of the prior with softness.

        A draw of the prior is pulled towards data that were drawn with it (Matheron's rule), so
        that their covariance falls by that of what the data tell. Negative sites add theirs.

        Parameters
        ----------
        coef, outputs : ndarray of shape (n_draws, m)
            Of draws of the prior.
        ridge : ndarray of shape (m,)
            What softness adds to the diagonal of K.
        tau : ndarray of shape (m,)
            Of all copies of a point together.
        rng : Generator
        """
        many, few = self.many, self.few
        # Sites of softened outputs: what softness adds is part of the output, not of the noise.
        variance = np.maximum(1 / tau[many] - ridge[many], 0.0)
        seen = outputs[:, many] + rng.standard_normal((len(coef), len(many))) * np.sqrt(variance)
        half = _solve(self.lower, (self.root * seen).T)
        result = coef.copy()
        result[:, many] -= (_solve(self.lower, half, transposed=True).T) * self.root
        if len(few):
            values, vectors = np.linalg.eigh(self.inverse)
            white = rng.standard_normal((len(coef), len(few)))
            added = white * np.sqrt(np.maximum(-values, 0.0)) @ vectors.T
            result[:, few] += added
            result[:, many] -= added @ self.spread.T
        return result


class FixedPoint(NamedTuple):
    """Sites, what they make of the prior, and how far they are from where they would stay."""

    sites: Sites
    gaussian: SiteGaussian
    log_evidence: float
    change: float
    sweeps: int
    converged: bool
    bounded: bool = False  # found in the second run only, with tau >= 0


def propagate(
    K: Array, likelihood: Likelihood, *, start: Sites | None = None, tol: float = 1e-6,
    max_sweeps: int = 200, stop: Callable[[], bool] | None = None, make: Callable = Block.make,
) -> FixedPoint:  # fmt: skip
    """Change sites until they stay.

    Parameters
    ----------
    K : ndarray of shape (m, m)
    likelihood : Likelihood
    start : Sites, optional
        To begin with, as those of a similar problem.
    tol : float
        Largest change of the mean (in standard deviations) and of the variance (as a share) of an
        output by a site's next step.
    max_sweeps : int
    stop : callable, optional
        Asked after each sweep; says whether to end with the sites so far.
    make : callable
        `Block.make`, or what factorises elsewhere: from K, points and roots to a `Block`.

    Returns
    -------
    FixedPoint
    """
    most = MOST_KNOWN / K.diagonal()
    found = _sweep(K, likelihood, start, (-np.inf, most), tol, max_sweeps, stop, make)
    if found.converged or not np.any(np.isfinite(likelihood.odds)):
        return found
    # Labels that may be wrong can lead sites astray; those that take nothing away are tamer.
    tamer = _sweep(K, likelihood, None, (0.0, most), tol, max_sweeps, stop, make)
    worse = found.log_evidence > 0 or not np.isfinite(found.log_evidence)
    best = tamer if tamer.converged or worse or tamer.change < found.change else found
    return best._replace(sweeps=found.sweeps + tamer.sweeps, bounded=best is tamer)


def _sweep(
    K: Array, likelihood: Likelihood, start: Sites | None, bounds: tuple, tol: float,
    max_sweeps: int, stop: Callable[[], bool] | None, make: Callable,
) -> FixedPoint:  # fmt: skip
    """Return the `FixedPoint` of sites whose tau is within bounds."""
    current = None if start is None else _look(K, likelihood, start, bounds, make)
    if current is None:  # the prior is the cavity of each point whose neighbours say nothing
        mean, variance = np.zeros(len(K)), K.diagonal().copy()
        first, _ = next_sites(likelihood, mean, variance, bounds)
        current = _look(K, likelihood, first, bounds, make)
        if current is None:  # weak labels of points that know all of each other
            current = _look(K, likelihood, Sites(0.0 * mean, 0.0 * mean), bounds, make)
        if current is None:
            raise ValueError(
                "expectation propagation finds no Gaussian for these labels: the kernel values are "
                "not those of inner products, or overflow. Scale the features (for example with "
                "StandardScaler), or use a kernel that is an inner product."
            )
    damping, sweeps = 1.0, 1
    while current.change > tol and sweeps < max_sweeps and not (stop is not None and stop()):
        sites = Sites(*(
            old + damping * (new - old)
            for old, new in zip(current.sites, current.proposed, strict=True)
        ))  # fmt: skip
        moved, sweeps = _look(K, likelihood, sites, bounds, make), sweeps + 1
        if moved is None or moved.log_evidence > MOST_EVIDENCE:  # no distribution: not so far
            damping /= 2
            if damping < LEAST_DAMPING / 100:
                break
            continue
        if moved.change > current.change:
            damping = max(damping / 2, LEAST_DAMPING)
        else:
            damping = min(damping * DAMPING_GROWTH, 1.0)
        current = moved
    return FixedPoint(
        current.sites, current.gaussian, current.log_evidence, current.change, sweeps,
        current.change <= tol,
    )  # fmt: skip


class _Look(NamedTuple):
    sites: Sites
    gaussian: SiteGaussian
    proposed: Sites
    change: float
    log_evidence: float


def _look(K: Array, likelihood: Likelihood, sites: Sites, bounds: tuple, make: Callable) -> Any:
    """Where sites are, and where they want to be; None where they are no distribution."""
    gaussian = combined(K, sites, likelihood.copies, make)
    if gaussian is None:
        return None
    mean, variance = gaussian.cavity_mean, gaussian.cavity_variance
    # Without its own site a point may have no distribution, if others are negative: it waits.
    proper = variance > 0
    usable = np.where(proper, variance, K.diagonal())
    proposed, log_z = next_sites(likelihood, mean, usable, bounds)
    proposed = Sites(
        *(np.where(proper, new, old) for new, old in zip(proposed, sites, strict=True))
    )
    marginal = variance / (1 + sites.tau * variance)
    moved = np.abs(proposed.tau - sites.tau) * marginal
    shifted = np.abs(
        (proposed.nu - sites.nu) - (proposed.tau - sites.tau) * (mean + variance * sites.nu)
        / (1 + sites.tau * variance)
    ) * np.sqrt(np.abs(marginal))  # fmt: skip
    change = float(np.max(np.where(proper, np.maximum(moved, shifted), np.inf)))
    log_evidence = (
        float(np.sum(likelihood.copies * log_z) + gaussian.log_ratio) if np.all(proper) else np.nan
    )
    return _Look(sites, gaussian, proposed, change, log_evidence)


def next_sites(
    likelihood: Likelihood, mean: Array, variance: Array, bounds: tuple
) -> tuple[Sites, Array]:
    """Sites that give the moments the labels would give, and logs of the labels' probabilities.

    Where tau would be out of bounds, only the mean is given.
    """
    log_z, slope, curvature = likelihood.moments(mean, variance)
    share = np.maximum(1 + variance * curvature, LEAST_SHARE)
    wanted = -curvature / share
    tau = np.clip(wanted, *bounds)
    nu = (slope - mean * curvature) / share
    return Sites(tau, np.where(tau == wanted, nu, slope + tau * (mean + variance * slope))), log_z


def combined(
    K: Array, sites: Sites, copies: Any, make: Callable = Block.make
) -> SiteGaussian | None:
    """Return the `SiteGaussian` of prior and sites, or None where there is none."""
    tau, nu = (copies * values for values in sites)  # of all copies of a point together
    m = len(K)
    strong = tau * K.diagonal() > FEW
    many, few = np.flatnonzero(strong), np.flatnonzero(~strong)
    root = np.sqrt(tau[many])
    block = make(K, many, root)
    if block is None:
        return None
    half, solved, diagonal, log_determinant = block.sweep(nu[many] / root)
    coef, R = np.zeros(m), np.empty(m)
    coef[many] = root * solved
    R[many] = tau[many] * diagonal
    log_ratio = -0.5 * (half @ half) - log_determinant
    spread, inverse = np.zeros((len(many), 0)), np.zeros((0, 0))
    mean, variance = np.empty(m), np.empty(m)
    if len(few):
        added = _add_few(K, Sites(tau, nu), many, few, block.lower, root, coef[many])
        if added is None:
            return None
        coef[few], moved, spread, inverse, few_mean, few_covariance, few_log = added
        coef[many] -= moved
        R[many] += np.einsum("ij,ij->i", spread @ inverse, spread)
        log_ratio += few_log
        mean[few], variance[few] = cavities(few_mean, few_covariance.diagonal(), tau[few], nu[few])
        log_ratio -= np.sum(_log_integral(mean[few], variance[few], tau[few], nu[few]))
    if np.any(R[many] <= 0):
        return None
    variance[many] = 1 / R[many] - 1 / tau[many]
    mean[many] = nu[many] / tau[many] - coef[many] / R[many]
    log_ratio += 0.5 * np.sum(coef[many] ** 2 / R[many] - np.log(R[many] / tau[many]))
    if np.any(np.asarray(copies) != 1):
        # So far all copies of a point are left out: all but one of them come back.
        log_ratio += np.sum(_log_integral(mean, variance, tau, nu))
        back = np.maximum(np.asarray(copies) - 1, 0.0)  # of less than one copy, none
        mean, variance = cavities(mean, variance, *(-back * values for values in sites))
        log_ratio -= np.sum(copies * _log_integral(mean, variance, *sites))
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(variance)) and np.isfinite(log_ratio)):
        return None
    return SiteGaussian(
        coef, mean, variance, float(log_ratio), many, block, root, few, spread, inverse
    )  # fmt: skip


def _add_few(
    K: Array, sites: Sites, many: Array, few: Array, lower: Array, root: Array, coef: Array
) -> Any:
    """Add the sites of a few points, of either sign, to a Gaussian that has those of the others.

    With S the covariance of the few under the sites of the others, their block of R is
    (T^-1 + S)^-1 = T - T S' T, where S' = (S^-1 + T)^-1 is their covariance with all sites.

    Returns
    -------
    tuple or None
        Coefficients of the few, what they take from those of the others, R K between others and
        few, their block of R, their mean and covariance, and the log-integral of their sites.
    """
    tau, nu = sites.tau[few], sites.nu[few]
    cross = K[np.ix_(many, few)]
    half = _solve(lower, root[:, None] * cross)
    left = K[np.ix_(few, few)] - half.T @ half
    if not np.all(np.isfinite(left)):
        return None
    eigenvalues, vectors = np.linalg.eigh(left)
    square_root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    C = square_root.T @ (tau[:, None] * square_root)
    C[np.diag_indices_from(C)] += 1.0
    try:
        C = np.linalg.cholesky(C)
    except np.linalg.LinAlgError:
        return None
    inner = _solve(C, square_root.T)
    covariance = inner.T @ inner
    mean = coef @ cross
    pull = nu - tau * mean
    shift = covariance @ pull
    log_integral = (nu - 0.5 * tau * mean) @ mean + 0.5 * pull @ shift
    log_integral -= np.sum(np.log(C.diagonal()))
    mean = mean + shift
    own = nu - tau * mean
    spread = root[:, None] * _solve(lower, half, transposed=True)
    inverse = np.diag(tau) - tau[:, None] * covariance * tau
    return own, spread @ own, spread, inverse, mean, covariance, log_integral


def cavities(mean: Array, variance: Array, tau: Array, nu: Array) -> tuple[Array, Array]:
    """Means and variances of points without sites of theirs; negative where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = 1 / variance - tau
        return (mean / variance - nu) / precision, 1 / precision


def evidence_slopes(
    gaussian: SiteGaussian, likelihood: Likelihood, changes: dict[str, Array], softness: float
) -> tuple[dict[str, float], float]:
    """Derivatives of the log evidence at a fixed point.

    Parameters
    ----------
    gaussian : SiteGaussian
    likelihood : Likelihood
        Whose variances are ``softness`` times the diagonal of K.
    changes : dict of str to ndarray of shape (m, m)
        Derivatives of K.
    softness : float

    Returns
    -------
    slopes : dict of str to float
        One for each of the changes.
    by_softness : float
        In the logarithm of the softness.
    """
    by_variance = likelihood.copies * likelihood.variance_slope(
        gaussian.cavity_mean, gaussian.cavity_variance
    )
    inverse, slopes = gaussian.inverse_matrix() if changes else None, {}
    for name, dK in changes.items():
        value = 0.5 * (gaussian.coef @ dK @ gaussian.coef - np.vdot(inverse, dK))
        slopes[name] = float(value + softness * (by_variance @ dK.diagonal()))
    return slopes, float(by_variance @ likelihood.variance)


def held_out_scores(found: FixedPoint, likelihood: Likelihood, alone: Any, own: Any = 1.0) -> Array:
    """Mean over standard deviation, softness added, of each output; as `held_out_moments`."""
    mean, variance = held_out_moments(found, likelihood, alone, own)
    return mean / np.sqrt(np.maximum(variance, 0.0) + likelihood.variance)


def held_out_moments(
    found: FixedPoint, likelihood: Likelihood, alone: Any, own: Any
) -> tuple[Array, Array]:
    """Mean and variance of each output given other labels.

    The copies of one row are left out, as a new row may be equal to old ones; but all of a point
    where it is ``alone``, for then copies tell no more than its label, which they would give away.

    Parameters
    ----------
    found : FixedPoint
    likelihood : Likelihood
    alone : ndarray of bool or bool
        Whether no equal row has another label.
    own : ndarray of shape (m,) or float
        Copies that one row is.
    """
    gaussian, (tau, nu) = found.gaussian, found.sites
    # One copy, or less where there is no more, has been left out already.
    others = removed_copies(likelihood, alone, own) - np.minimum(likelihood.copies, 1.0)
    return cavities(gaussian.cavity_mean, gaussian.cavity_variance, others * tau, others * nu)


def removed_copies(likelihood: Likelihood, alone: Any, own: Any) -> Array:
    """Copies of each point that are left out with a row; parameters as for `held_out_moments`."""
    copies = np.broadcast_to(likelihood.copies, len(likelihood.y))
    return np.where(alone, copies, np.minimum(np.maximum(own, 1.0), copies))


def _log_integral(mean: Array, variance: Array, tau: Array, nu: Array) -> Array:
    """Log-integral of exp(nu f - tau f² / 2) under N(mean, variance), for each of several f."""
    with np.errstate(invalid="ignore"):
        total = 1 + tau * variance
        return (nu * (mean + 0.5 * variance * nu) - 0.5 * tau * mean**2) / total - 0.5 * np.log(
            total
        )


def _solve(lower: Array, values: Array, *, transposed: bool = False) -> Array:
    return scipy.linalg.solve_triangular(
        lower, values, lower=True, trans=int(transposed), check_finite=False
    )
