"""Models for expectation propagation, and the same Gaussian from matrices as in the formulas."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.inference import expectation_propagation
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import Sites
from bayespoint.space.decisions import label_odds
from helpers.version_spaces import labels, skewed, with_both_labels

# Sites are followed to here; what is computed from them differs by about as much.
PRECISE = 1e-9
# Two ways to the same sites: their tolerance times the condition of the problem.
SAME = 1e-6


class Model(NamedTuple):
    """A version space and its rate of label noise."""

    space: VersionSpace
    noise: object = 0.0

    @property
    def K(self):  # noqa: N802
        return self.space.rows.store

    @property
    def rates(self):
        return np.broadcast_to(self.noise, len(self.space))

    def propagate(self, **settings):
        return expectation_propagation(self.space, label_noise=self.noise, **settings)


def of(problem, softness=0.0):
    return Model(VersionSpace(problem.K, problem.y, softness), problem.noise)


def clouds(m=14, noise=0.0, softness=0.2, seed=0, spread=1.0, wrong=()):
    """Two overlapping clouds in the plane, points of unequal length; some labels turned round."""
    rng = np.random.default_rng(seed)
    y = labels(m, seed)
    X = spread * rng.normal(size=(m, 2)) + 0.8 * y[:, None]
    y[list(wrong)] *= -1
    length = np.exp(0.3 * rng.normal(size=m))
    return Model(
        VersionSpace(rbf_kernel(X, gamma=0.7) * np.outer(length, length), y, softness), noise
    )


def contradicted(softness=0.0):
    """Tight clouds, each with one wrong label: their sites are negative."""
    return clouds(12, 0.1, softness, seed=2, spread=0.2, wrong=(3, 7))


MODELS = {
    "sure labels": clouds(softness=0.0),
    "softness": clouds(softness=0.5),
    "noise": clouds(softness=0.0, noise=0.1),
    "a rate a point": clouds(noise=np.linspace(0, 0.3, 14)),
    "negative sites": contradicted(),
    "negative sites, softness": contradicted(softness=0.1),
    "both labels": of(with_both_labels(3, 0, 0.1)),
    "singular": of(skewed(6, 2, dim=2), softness=0.3),
    "singular, sure": of(skewed(6, 2, dim=2)),
}
every_model = pytest.mark.parametrize("name", MODELS)


@cache
def propagated(name):
    """Sites of one of the models, followed closely: for all tests, none may change it."""
    return MODELS[name].propagate(tol=PRECISE)


class Plain(NamedTuple):
    """A Gaussian with its sites, from matrices as in the formulas."""

    mean: np.ndarray
    covariance: np.ndarray
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    R: np.ndarray
    log_evidence: float


def log_integral(K, tau, nu):
    """Log of the integral of N(0, K) times exp(nu f - tau f² / 2)."""
    inner = np.eye(len(K)) + K * tau
    return 0.5 * nu @ np.linalg.solve(inner, K) @ nu - 0.5 * np.linalg.slogdet(inner)[1]


def plain(model, sites):
    """Sigma = (K^-1 + T)^-1 = (I + K T)^-1 K, and all else from it."""
    K, (tau, nu) = model.K, sites
    covariance = np.linalg.solve(np.eye(len(K)) + K * tau, K)
    mean, variance = covariance @ nu, covariance.diagonal()
    cavity_variance = 1 / (1 / variance - tau)
    cavity_mean = cavity_variance * (mean / variance - nu)
    own = (nu * (cavity_mean + 0.5 * cavity_variance * nu) - 0.5 * tau * cavity_mean**2) / (
        1 + tau * cavity_variance
    ) - 0.5 * np.log1p(tau * cavity_variance)
    evidence = log_integral(K, tau, nu) - np.sum(own)
    evidence += np.sum(np.log(label_probability(model, cavity_mean, cavity_variance)[0]))
    R = np.diag(tau) - tau[:, None] * covariance * tau
    return Plain(mean, covariance, cavity_mean, cavity_variance, R, evidence)


def label_probability(model, mean, variance):
    """Probability of each label for an output N(mean, variance), and its z."""
    z = model.space.y * mean / np.sqrt(variance + model.space.ridge)
    return model.rates + (1 - 2 * model.rates) * ndtr(z), z


def plain_propagation(model, n_sweeps=400, damping=0.5):
    """One site after the other, with all matrices computed anew for each."""
    K, y, rates, ridge = model.K, model.space.y, model.rates, model.space.ridge
    tau, nu = np.zeros((2, len(K)))
    for _ in range(n_sweeps):
        before = np.append(tau, nu)
        for i in range(len(K)):
            covariance = np.linalg.solve(np.eye(len(K)) + K * tau, K[:, i])
            marginal = covariance[i]
            variance = 1 / (1 / marginal - tau[i])
            mean = variance * (covariance @ nu / marginal - nu[i])
            width = np.sqrt(variance + ridge[i])
            z = y[i] * mean / width
            p = rates[i] + (1 - 2 * rates[i]) * ndtr(z)
            peak = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
            slope = y[i] * (1 - 2 * rates[i]) * peak / width / p
            curvature = -slope * (slope + y[i] * z / width)
            wanted = variance + variance**2 * curvature
            tau[i] += damping * (1 / wanted - 1 / variance - tau[i])
            nu[i] += damping * ((mean + variance * slope) / wanted - mean / variance - nu[i])
        if np.abs(np.append(tau, nu) - before).max() < 1e-11:
            break
    return Sites(tau, nu)


def likelihood_of(model, copies=1.0):
    rates = model.rates
    odds, log_right = label_odds(rates), np.log1p(-rates)
    return Likelihood(model.space.y, model.space.ridge, odds, log_right, copies)


def softened_covariance(model, post):
    """Covariance of softened outputs: K_s - K_s R K_s."""
    K = model.K + np.diag(model.space.ridge)
    return K - K @ plain(model, post.sites).R @ K
