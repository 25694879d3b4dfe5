"""From outputs of machines to decisions and probabilities."""

from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, ndtr, softmax, stdtr

from bayespoint._support.types import Array

LEAST_PROBABILITY = 1e-300  # keeps logarithms finite


def winners(outputs: Array) -> Array:
    """Index of the class that outputs decide for."""
    return outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0).astype(np.int64)


def agreeing(p: Array, outputs: Array) -> Array:
    """Break ties that rounding made among probabilities in favour of the largest output."""
    best = winners(outputs)
    tied = np.flatnonzero(p.argmax(axis=1) != best)
    p[tied, best[tied]] = np.nextafter(p[tied].max(axis=1), 1)
    return p


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


def probability_of_sign(latent: Array, softness: float | Array) -> Array:
    """Probability that an output is positive once softness, a variance, is added to it."""
    if np.all(softness == 0):
        return (latent > 0) + 0.5 * (latent == 0)
    return ndtr(latent / np.sqrt(softness))


def probability_of_largest(latent: Array, softness: float) -> Array:
    """Probability that each output, of (n_classes, ...), is the largest once softness is added.

    Softness being Gumbel-distributed with this variance. Classes are the last axis of the answer.
    """
    outputs = np.moveaxis(latent, 0, -1)
    if softness == 0:
        return (outputs.argmax(axis=-1)[..., None] == np.arange(len(latent))).astype(float)
    return softmax(np.pi / np.sqrt(6 * softness) * outputs, axis=-1)


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
        return agreeing(np.exp(odds), odds)
    return agreeing(np.column_stack([expit(-odds), expit(odds)]), odds)
