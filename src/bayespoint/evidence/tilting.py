"""Minimax tilting (Botev 2017): the probability that all of m Gaussian margins are positive.

With G = L Lᵀ and d = L x, x ~ N(0, I), the conditions d_k > 0 bound one x_k after the other from
below. Sampling each from its truncated normal gives weights whose mean is the probability; shifting
the k-th by mu_k first, with mu at the saddle point of the largest log-weight, makes the weights
nearly equal. Draws are independent, so that the error of their mean is known.
"""

import numpy as np
from scipy.optimize import root
from scipy.special import log_ndtr, ndtri_exp

from bayespoint._support.budget import Budget
from bayespoint._support.types import Array

# Numbers held for the draws of one batch.
BATCH_NUMBERS = 4_000_000

LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


def log_orthant_batches(
    G: Array, n_draws: int, n_least: int, rng: np.random.Generator, budget: Budget
) -> Array:
    """Log-weights of independent draws, whose mean weight is P(d > 0) for d ~ N(0, G).

    Parameters
    ----------
    G : ndarray of shape (m, m)
        Positive definite.
    n_draws, n_least : int
        Number of draws, and how many are made whatever the time.
    rng : Generator
    budget : Budget

    Returns
    -------
    ndarray
        Fewer than ``n_draws`` if time was up.
    """
    L = _ordered_factor(G)
    below = L / L.diagonal()[:, None]
    below[np.diag_indices_from(below)] = 0.0
    tilt = _saddle_point(below, budget)
    size = max(1, min(n_draws, BATCH_NUMBERS // len(G)))
    parts: list[Array] = []
    done = 0
    while done < n_draws and (done < n_least or not budget.spent()):
        parts.append(_log_weights(below, tilt, min(size, n_draws - done), rng))
        done += len(parts[-1])
        budget.show(done, n_draws, "draws,")
    budget.close()
    return np.concatenate(parts)


def _ordered_factor(G: Array) -> Array:
    """Cholesky factor with the margins in order: the least probable one next, given the others."""
    m = len(G)
    G, L = G.copy(), np.zeros((m, m))
    mean_x = np.zeros(m)
    for k in range(m):
        left = slice(k, m)
        variance = G.diagonal()[left] - np.sum(L[left, :k] ** 2, axis=1)
        variance = np.maximum(variance, np.finfo(float).tiny)
        bound = -(L[left, :k] @ mean_x[:k]) / np.sqrt(variance)
        best = k + int(np.argmin(log_ndtr(-bound)))
        for matrix in (G, L):
            matrix[[k, best]] = matrix[[best, k]]
        G[:, [k, best]] = G[:, [best, k]]
        L[k, k] = np.sqrt(variance[best - k])
        L[k + 1 :, k] = (G[k + 1 :, k] - L[k + 1 :, :k] @ L[k, :k]) / L[k, k]
        bound = bound[best - k]
        mean_x[k] = _hazard(bound)
    return L


def _hazard(bound: Array) -> Array:
    """Mean of a standard normal number above a bound."""
    return np.exp(-0.5 * bound**2 - LOG_ROOT_2PI - log_ndtr(-bound))


def _saddle_point(below: Array, budget: Budget) -> Array:
    """Shifts mu at the saddle point of the log-weight psi(x, mu): least in mu, largest in x."""
    m = len(below)
    if m == 1:
        return np.zeros(1)
    free = slice(0, m - 1)

    def gradient(point: Array) -> tuple[Array, Array]:
        budget.raise_if_interrupted()
        x, mu = np.append(point[: m - 1], 0.0), np.append(point[m - 1 :], 0.0)
        bound = -below @ x - mu
        hazard = _hazard(bound)
        by_x = -mu + below.T @ hazard
        by_mu = mu - x + hazard
        slope = hazard * (hazard - bound)  # of the hazard in the bound
        weighted = slope[:, None] * below
        jacobian = np.block([
            [-(below.T @ weighted)[free, free], -(weighted.T + np.eye(m))[free, free]],
            [(-weighted - np.eye(m))[free, free], np.diag(1 - slope)[free, free]],
        ])  # fmt: skip
        return np.append(by_x[free], by_mu[free]), jacobian

    found = root(gradient, np.zeros(2 * (m - 1)), jac=True, method="hybr")
    if not found.success:
        found = root(gradient, found.x, jac=True, method="lm")
    if not np.all(np.isfinite(found.x)):  # any tilt is right; none is the plainest
        return np.zeros(m)
    return np.append(found.x[m - 1 :], 0.0)


def _log_weights(below: Array, tilt: Array, n: int, rng: np.random.Generator) -> Array:
    m = len(below)
    x, log_weight = np.empty((m, n)), np.zeros(n)
    for k in range(m):
        bound = -(below[k, :k] @ x[:k]) - tilt[k]
        log_tail = log_ndtr(-bound)
        x[k] = tilt[k] - ndtri_exp(log_tail + np.log(rng.random(n)))
        log_weight += log_tail + 0.5 * tilt[k] ** 2 - tilt[k] * x[k]
    return log_weight
