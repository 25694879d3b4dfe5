"""How probable it is that training labels are wrong."""

import numpy as np

from bayespoint.decisions import combine_votes, draw_votes
from bayespoint.gram import outputs_of


def class_probabilities(problem, coef, factor, whitener=None):
    """Posterior probability of each true class at the training points, (n_points, n_classes).

    A label is right if the output *without* the softness term has its sign. Given a draw of the
    softened outputs, that output is Gaussian still, with variance
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
        outputs = outputs_of(problem.rows, 0.0 * ridge, draws)
        no, yes = (vote.mean(axis=0) for vote in draw_votes(outputs, variance, factor.rank))
        votes += [no, yes] if len(coef) == 1 else [yes]
    return np.exp(combine_votes(np.stack(votes, axis=-1), 0.0))
