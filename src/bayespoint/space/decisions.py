"""From outputs of machines to decisions and probabilities."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import (
    expit,
    log_expit,
    log_ndtr,
    log_softmax,
    ndtr,
    ndtri,
    ndtri_exp,
    softmax,
    stdtr,
)

from bayespoint._support.types import Array

# Bounds of the steepness kappa of the link: from "says nothing" to "a step".
KAPPA_RANGE = (1e-2, 1e5)

# Standard deviation of the log of the steepness of votes, whose mean is 0: labels that are all on
# the right side by far would make it infinite. And its bounds.
STEEPNESS_PRIOR = 0.5
STEEPNESS_RANGE = (-3.0, 3.0)

LEAST_PROBABILITY = 1e-300  # keeps logarithms finite


def shift_outputs(outputs: Array, kappa: float, log_weight: Array) -> Array:
    """Move outputs so that their link gives p_c proportional to weight_c p_c."""
    if not np.any(log_weight):
        return outputs
    if outputs.ndim == 2:
        return outputs + log_weight / kappa
    logit = log_ndtr(kappa * outputs) - log_ndtr(-kappa * outputs) + log_weight[1] - log_weight[0]
    return -np.sign(logit) * ndtri_exp(log_expit(-np.abs(logit))) / kappa


def link(outputs: Array, kappa: float) -> Array:
    """Probabilities from outputs: Phi(kappa f) for two classes, softmax(kappa f) for more."""
    if outputs.ndim == 2:
        return _agreeing(softmax(kappa * outputs, axis=1), outputs)
    log_p = np.column_stack([log_ndtr(-kappa * outputs), log_ndtr(kappa * outputs)])
    return _agreeing(np.exp(log_p), outputs)


def winners(outputs: Array) -> Array:
    """Index of the class that outputs decide for."""
    return outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0).astype(np.int64)


def _agreeing(p: Array, outputs: Array) -> Array:
    """Break ties that rounding made among probabilities in favour of the largest output."""
    best = winners(outputs)
    tied = np.flatnonzero(p.argmax(axis=1) != best)
    p[tied, best[tied]] = np.nextafter(p[tied].max(axis=1), 1)
    return p


def fit_link(outputs: Array, label: Array, weight: Array) -> float:
    """Steepness kappa that makes held-out labels most probable.

    The targets are Platt's: a class of total weight n has target (n + 1)/(n + 2), so that kappa
    stays finite when the held-out outputs separate the classes.
    """
    n_classes = outputs.shape[1] if outputs.ndim == 2 else 2
    total = np.bincount(label, weights=weight, minlength=n_classes)
    right = ((total + 1) / (total + 2))[label]
    target = np.repeat(((1 - right) / (n_classes - 1))[:, None], n_classes, axis=1)
    target[np.arange(len(label)), label] = right
    target *= weight[:, None]

    def loss(log_kappa: float) -> float:
        kappa = np.exp(log_kappa)
        if outputs.ndim == 2:
            return -np.sum(target * log_softmax(kappa * outputs, axis=1))
        scaled = kappa * outputs
        return -np.sum(target[:, 0] * log_ndtr(-scaled) + target[:, 1] * log_ndtr(scaled))

    best = minimize_scalar(loss, bounds=np.log(KAPPA_RANGE), method="bounded")
    return float(np.exp(best.x))


def sharpen(votes: Array, kappa: float) -> Array:
    """Make votes steeper or flatter: Phi(kappa z) for Phi(z), or powers of one against the rest.

    ``votes``: (..., 2) for two classes, no and yes, else (..., n_classes).
    """
    if votes.shape[-1] == 2:
        no, yes = votes[..., 0], votes[..., 1]
        z = kappa * np.where(yes < 0.5, ndtri(yes), -ndtri(no))
        return np.stack([ndtr(-z), ndtr(z)], axis=-1)
    logs = kappa * np.log(np.maximum(votes, LEAST_PROBABILITY))
    return np.exp(logs - np.max(logs, axis=-1, keepdims=True))


def fit_steepness(
    scores: Array, label: Array, weight: Array, noise: float = 0.0
) -> tuple[float, float]:
    """Steepness that makes held-out labels most probable, and their log-probability with it.

    Parameters
    ----------
    scores : ndarray of shape (n_machines, n_points)
        Held-out outputs in standard deviations.
    label, weight : ndarray of shape (n_points,)
    noise : float
        Share of wrong labels.
    """
    votes = np.stack([ndtr(-scores[0]), ndtr(scores[0])], axis=-1)
    if len(scores) > 1:
        votes = ndtr(scores).T
    rows = np.arange(len(label))

    def loss(log_kappa: float) -> float:
        log_p = combine_votes(sharpen(votes, np.exp(log_kappa)), 0.0, noise)
        return -np.sum(weight * log_p[rows, label]) + 0.5 * (log_kappa / STEEPNESS_PRIOR) ** 2

    best = minimize_scalar(loss, bounds=STEEPNESS_RANGE, method="bounded",
                           options={"xatol": 1e-3})  # fmt: skip
    return float(np.exp(best.x)), -float(best.fun)


def vote_probabilities(
    outputs: Array, variance: Array, rank: int, weights: Array | None = None
) -> Array:
    """Probability that a draw's output at x is negative and positive, averaged over draws.

    Parameters
    ----------
    outputs : ndarray of shape (n_draws, n)
        Outputs mu of the unit draws.
    variance : ndarray of shape (n,)
        v: what the training points leave unknown of the output at x, softness included.
    rank : int
        Rank of the Gram matrix.
    weights : ndarray of shape (n_draws,), optional
        Of the draws.

    Returns
    -------
    ndarray of shape (n, 2)
    """
    votes = draw_votes(outputs, variance, rank)
    return np.column_stack([np.average(vote, axis=0, weights=weights) for vote in votes])


def draw_votes(outputs: Array, variance: Array, rank: int) -> tuple[Array, Array]:
    """Probability that the output at x of single draws is negative, and positive.

    The part of w outside the span of the training points is still Gaussian (mathematics of the
    exact predictive): E_r Phi(r mu / sqrt(v)) with r chi-distributed with ``rank`` degrees of
    freedom, which is Student's t distribution function at sqrt(rank) mu / sqrt(v). Two arrays
    shaped like ``outputs``.
    """
    deviation = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    t = np.sqrt(rank) * outputs / deviation
    return stdtr(rank, -t), stdtr(rank, t)


def probability_of_sign(latent: Array, softness: float) -> Array:
    """Probability that an output is positive once softness, a variance, is added to it."""
    if softness == 0:
        return (latent > 0) + 0.5 * (latent == 0)
    return ndtr(latent / np.sqrt(softness))


def label_odds(noise: Array) -> Array:
    """Log-odds log((1 - q)/q) of labels that are wrong with probability q; infinite for 0."""
    with np.errstate(divide="ignore"):
        return np.log((1 - noise) / noise)


def combine_votes(votes: Array, log_weight: Any, noise: float = 0.0) -> Array:
    """Normalise one-against-the-rest votes over classes, fold in label noise, and weight.

    ``noise``: the share of labels that are wrong, any of the other classes being equally likely. It
    makes probabilities those of labels and leaves the order of the classes as it is.

    ``votes``: (..., n, 2) for two classes, else (..., n, n_classes). Returns log-probabilities.
    """
    votes = np.maximum(votes, LEAST_PROBABILITY)
    if noise:
        votes = votes / votes.sum(axis=-1, keepdims=True)
        votes = (1 - noise) * votes + noise / (votes.shape[-1] - 1) * (1 - votes)
    return log_softmax(np.log(votes) + log_weight, axis=-1)


def log_odds(log_p: Array) -> Array:
    """Decision function from log-probabilities: logit for two classes, log p for more."""
    if log_p.shape[1] == 2:
        return log_p[:, 1] - log_p[:, 0]
    return log_p


def probability_from_odds(odds: Array) -> Array:
    """Inverse of `log_odds`."""
    if odds.ndim == 2:
        return _agreeing(np.exp(odds), odds)
    return _agreeing(np.column_stack([expit(-odds), expit(odds)]), odds)
