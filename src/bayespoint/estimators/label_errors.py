"""How probable it is that training labels are wrong."""

from typing import Any

import numpy as np

from bayespoint._support.types import Array, Matrix
from bayespoint.inference.problem import Problem
from bayespoint.space.decisions import combine_votes, draw_votes


def class_probabilities(votes: list[Any]) -> Array:
    """Posterior probability of each true class at the training points, (n_points, n_classes).

    A label is right if the output *without* the softness term has its sign.

    Parameters
    ----------
    votes : list of pairs of ndarray of shape (n_points,)
        For each machine, the probability that this output is negative, and positive.
    """
    each = votes[0] if len(votes) == 1 else [yes for _, yes in votes]
    return np.exp(combine_votes(np.stack(each, axis=-1), 0.0))


def sampled_votes(
    problem: Problem, coef: list[Matrix], factor: Any, whitener: Array | None = None
) -> list[Any]:
    """Votes of draws.

    Given a draw of the softened outputs, that without softness is Gaussian still, with variance
    ridge_i - ridge_i^2 (K + ridge)^-1_ii.

    Parameters
    ----------
    problem : Problem
    coef : list of ndarray of shape (n_draws, n_points)
        Draws of each machine.
    factor : Factor
        Of the softened Gram matrix.
    whitener : ndarray, optional
        Of the factor, where it was computed already.
    """
    ridge = problem.ridge
    variance = np.zeros_like(ridge)
    if np.any(ridge):
        precision = factor.precision(whitener)
        variance = np.maximum(ridge - ridge**2 * precision, 0.0)
    votes = []
    for draws in coef:
        outputs = problem.rows.outputs(0.0 * ridge, draws)
        votes.append([vote.mean(axis=0) for vote in draw_votes(outputs, variance, factor.rank)])
    return votes


def gaussian_votes(targets: Array, wrong: Any) -> list[Any]:
    """Votes of posteriors in closed form, from the probability that each target is wrong."""
    votes = []
    for target, of_each in zip(targets, wrong, strict=True):
        yes = np.where(target > 0, 1 - of_each, of_each)
        votes.append([1 - yes, yes])
    return votes
