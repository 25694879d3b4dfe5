"""What expectation propagation would say of each point without it, once other sites have answered.

A cavity leaves the sites of all other points as they were found with the point's label. In a fit
without the point they would change: its neighbours would say more, since it does not speak for them
any longer. So cavities know too little of a point, which matters with few rows of a class.

Here the other sites take `STEPS` steps of EP without the point, for all points at once. With S the
covariance of outputs f given all sites, s_i = S_ii and v_i the variance of the cavity of i, outputs
without (r_i copies of) the site of i have, for any j,

    covariance  C_ij = S_ij v_i / s_i
    mean        f_j + C_ij r_i (tau_i f_i - nu_i)
    variance    s_j + C_ij S_ij r_i tau_i

and changes d of the sites of others move them, to first order, by

    mean        sum_k C_jk (d nu_k - f_k d tau_k)
    variance    - sum_k C_jk² d tau_k

(with S instead of C for the outputs of other points, which is as good).

Cavities of the other points move as well where a point is left out, which links are to know. For
that sites stay as they are, as they do for the cavities themselves.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import (
    MOST_KNOWN,
    FixedPoint,
    Sites,
    cavities,
    held_out_moments,
    held_out_scores,
    next_sites,
    removed_copies,
)

# The first step goes too far, as all sites answer at once; the second takes that back. Further ones
# change less than what is left out in first order.
STEPS = 2

# A score moves by no more than this: changes that large are no longer of first order.
FARTHEST = 0.2

# Points that are left out at a time.
BLOCK = 256


def left_out_scores(
    K: Array, found: FixedPoint, likelihood: Likelihood, alone: Any = True, own: Any = 1.0
) -> Array:
    """Mean over standard deviation, softness added, of each output in a fit without it, nearly.

    Parameters
    ----------
    K : ndarray of shape (m, m)
    found : FixedPoint
        Where sites did not converge, or labels are sure (no softness), so that no change is
        small, the scores of their cavities are returned.
    likelihood : Likelihood
    alone, own
        As for `bayespoint.inference.ep.sites.held_out_moments`.

    Returns
    -------
    ndarray of shape (m,)
    """
    scores = held_out_scores(found, likelihood, alone, own)
    if not _moves_are_known(found, likelihood):
        return scores
    model = _Model.of(K, found, likelihood, alone, own)
    for rows in _blocks(len(K)):
        with np.errstate(all="ignore"):
            scores[rows] += _bounded(_answered(model, rows) - scores[rows])
    return scores


def moves_of_others(
    K: Array, found: FixedPoint, likelihood: Likelihood, alone: Any = True, own: Any = 1.0
) -> Iterator[tuple[Array, Array]]:
    """Yield how scores of points held out move where one more row is left out; sites stay.

    Parameters
    ----------
    K, found, likelihood, own
        As for `left_out_scores`, where nothing is yielded if cavities are all that is known.
    alone
        Of the points that are held out, as for `bayespoint.inference.ep.sites.held_out_scores`; of
        the other point the copies of one row are left out.

    Yields
    ------
    rows : ndarray of shape (n_rows,)
        Points that are left out, each by itself.
    moves : ndarray of shape (n_rows, m)
        Of the scores of all points; 0 for the points themselves.
    """
    if not _moves_are_known(found, likelihood):
        return
    scores = held_out_scores(found, likelihood, alone, own)
    model = _Model.of(K, found, likelihood, False, own)
    held = removed_copies(likelihood, alone, own)
    held_sites = [held * values for values in found.sites]
    for rows in _blocks(len(K)):
        with np.errstate(all="ignore"):
            mean, variance = cavities(*_without(model, rows)[:2], *held_sites)
            total = np.where(variance > 0, variance + likelihood.variance, np.nan)
            moves = _bounded(mean / np.sqrt(total) - scores)
        moves[np.arange(len(rows)), rows] = 0.0
        yield rows, moves


def _moves_are_known(found: FixedPoint, likelihood: Likelihood) -> bool:
    """Whether moves to first order tell anything: sites have converged, and no label is sure."""
    return found.converged and bool(np.all(likelihood.variance > 0))


def _blocks(m: int) -> Iterator[Array]:
    for first in range(0, m, BLOCK):
        yield np.arange(first, min(first + BLOCK, m))


def _bounded(moves: Array) -> Array:
    """Moves of scores, which are of first order only; 0 where they come from no distribution."""
    return np.clip(np.where(np.isfinite(moves), moves, 0.0), -FARTHEST, FARTHEST)


class _Model(NamedTuple):
    """Outputs given all sites, and without those of one point each."""

    likelihood: Likelihood
    sites: Sites
    bounds: tuple[Any, Any]  # of tau
    copies: Array  # (m,)
    removed: Array  # (m,), copies that are left out
    mean: Array  # (m,), given all sites
    variance: Array  # (m,)
    cavity_mean: Array  # (m,), of each point without its removed copies
    cavity_variance: Array  # (m,)
    left: Array  # (m, m), covariances given all sites

    @classmethod
    def of(
        cls, K: Array, found: FixedPoint, likelihood: Likelihood, alone: Any, own: Any
    ) -> "_Model":
        """Return the outputs that sites make of the prior."""
        mean, variance = held_out_moments(found, likelihood, alone, own)
        removed = removed_copies(likelihood, alone, own)
        tau, nu = (removed * values for values in found.sites)
        total = 1 + tau * variance
        left = _covariance(K, found, likelihood)
        return cls(
            likelihood, found.sites, (0.0 if found.bounded else -np.inf, MOST_KNOWN / K.diagonal()),
            np.broadcast_to(likelihood.copies, len(K)), removed, (mean + variance * nu) / total,
            variance / total, mean, variance, left,
        )  # fmt: skip


def _covariance(K: Array, found: FixedPoint, likelihood: Likelihood) -> Array:
    """Covariance of outputs given all sites, K - K R K.

    Of points with T = diag(tau) that is T^-1 - T^-1 R T^-1, since (K + T^-1) R = 1, without
    products of matrices. Where tau is too small for that (`sites.FEW`), products are taken.
    """
    R, few = found.gaussian.inverse_matrix(), found.gaussian.few
    tau = np.broadcast_to(likelihood.copies, len(K)) * found.sites.tau
    tau[few] = 1.0
    left = -R / tau
    left /= tau[:, None]
    left[np.diag_indices(len(K))] += 1 / tau
    if len(few):
        left[few] = K[few] - (K[few] @ R) @ K
        left[:, few] = left[few].T
    return left


def _without(model: _Model, rows: Array) -> tuple[Array, Array, Array]:
    """Means and variances of all outputs without some points, one each; covariance with its own."""
    tau, nu = model.sites
    gain = model.cavity_variance / model.variance
    apart = gain[rows, None] * model.left[rows]  # covariance with others, without the point
    removed = model.removed[rows]
    shift = removed * (tau * model.mean - nu)[rows]
    mean = model.mean + shift[:, None] * apart
    variance = model.variance + (removed * tau[rows])[:, None] * apart * model.left[rows]
    return mean, variance, apart


def _answered(model: _Model, rows: Array) -> Array:
    """Scores of some points, each without itself; NaN where they are none."""
    mean, variance, apart = _without(model, rows)
    stays = np.tile(model.copies, (len(rows), 1))  # copies of each site that are there still
    stays[np.arange(len(rows)), rows] -= model.removed[rows]
    change = _changes(model, mean, variance, stays)
    for _ in range(STEPS - 1):
        told_mean, told_variance = _told(model, change.nu - mean * change.tau, change.tau)
        change = _changes(model, mean + told_mean, variance + told_variance, stays)
    push = change.nu - mean * change.tau
    own_mean = model.cavity_mean[rows] + np.sum(apart * push, axis=1)
    own_variance = model.cavity_variance[rows] - np.sum(apart**2 * change.tau, axis=1)
    total = own_variance + model.likelihood.variance[rows]
    return own_mean / np.sqrt(np.where(own_variance > 0, total, np.nan))


def _told(model: _Model, push: Array, tau: Array) -> tuple[Array, Array]:
    """How changes of sites move means and variances of the outputs of other points."""
    own = model.left.diagonal()
    return push @ model.left - push * own, tau * own**2 - tau @ model.left**2


def _changes(model: _Model, mean: Array, variance: Array, stays: Array) -> Sites:
    """How sites change, all copies together, with these moments of their outputs."""
    tau, nu = model.sites
    one = np.minimum(model.copies, 1.0)
    precision = 1 / variance - one * tau
    proper = (variance > 0) & (precision > 0) & (stays > 0)
    without = np.where(proper, (mean / variance - one * nu) / precision, 0.0)
    spread = np.where(proper, 1 / precision, 1.0)
    new, _ = next_sites(model.likelihood, without, spread, model.bounds)
    weight = np.where(proper, stays, 0.0)
    return Sites(weight * (new.tau - tau), weight * (new.nu - nu))
