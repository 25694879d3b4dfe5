"""Version spaces of the onion with exact draws."""

import numpy as np

from bayespoint.inference.billiard.balls import wrong_labels
from helpers.version_spaces import exact_draws, skewed, with_both_labels, with_duplicates

# Shells with a smaller share of the prior are not compared one by one.
LEAST_SHARE = 0.005


def linear(m, dim, seed, flipped=()):
    """Points in few dimensions, of unequal lengths; ``flipped`` labels make contradictions."""
    problem = skewed(m, seed, dim=dim)
    y = problem.y.copy()
    y[list(flipped)] *= -1
    return problem._replace(y=y)


def prior_draws(problem, n, rng):
    """Coefficients of unit vectors that are uniform on the whole sphere."""
    return exact_draws(problem._replace(noise=0.5), n, rng)


def members(problem, outputs, shape):
    """Whether each draw is in each shell of a table, shells in a row (last axis)."""
    cells = wrong_labels(problem.y, outputs)
    inside = np.all(cells < shape, axis=-1)
    number = np.where(inside, cells[..., 0] * shape[1] + cells[..., 1], -1)
    return number[..., None] == np.arange(np.prod(shape))


# Problems, and how many errors of each class to look at.
PROBLEMS = {
    "a circle": (linear(6, 2, 1), (2, 2)),
    "a sphere": (linear(7, 3, 3), (2, 1)),
    "six dimensions": (skewed(6, 3), (2, 2)),
    "more errors of one class": (skewed(7, 2), (1, 3)),
    "no classifier without errors": (linear(7, 3, 3, flipped=(0, 2)), (2, 2)),
    "coinciding walls": (with_duplicates(1), (2, 2)),
    "one point with both labels": (with_both_labels(1, 0, 0.0), (1, 2)),
    "version space alone": (skewed(5, 3), (0, 0)),
}
