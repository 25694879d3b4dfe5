"""Probabilities at new points, and exact ones from draws of the prior to compare with."""

from typing import NamedTuple

import numpy as np

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from helpers.thresholds import compare_means
from helpers.version_spaces import EXACT_DRAWS, N_CHAINS, Problem, exact_draws, seeds_of


class NewPoints(NamedTuple):
    """A problem and new points: their kernel with the training points and with each other."""

    problem: Problem
    cross: np.ndarray  # (new, training)
    new: np.ndarray  # (new, new)
    softness: float = 0.0

    @property
    def space(self):
        return VersionSpace(self.problem.K, self.problem.y, self.softness)


def rbf_with_new_points(noise=0.0, softness=0.0):
    """Four training points in the plane; a new one among them, one beside them, two far away."""
    X = np.array([[0.0, 0], [1, 0.5], [-0.5, 1], [0.3, -1], [0.2, 0.2], [-1, -0.5], [2, 2], [6, 6]])
    K = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2))
    problem = Problem(K[:4, :4], np.array([1, 1, -1, 1]), noise)
    return NewPoints(problem, K[4:, :4], K[4:, 4:], softness)


def predictive(post, points, label):
    """Exact probability that the outputs at new points are positive."""
    return post.predictive(points.cross, points.new.diagonal(), label=label)


def against_joint_draws(points, predict=predictive, label=False, n_runs=N_CHAINS):
    """Check of probabilities against draws of the prior at training and new points together.

    A new point is one more point whose label says nothing: its rate is one half.
    """
    problem, n_new = points.problem, len(points.new)
    K = np.block([[problem.K, points.cross.T], [points.cross, points.new]])
    softened = np.append(problem.K.diagonal(), points.new.diagonal() if label else np.zeros(n_new))
    noise = np.append(np.broadcast_to(problem.noise, len(problem.y)), np.full(n_new, 0.5))
    K += points.softness * np.diag(softened)
    joint = Problem(K, np.append(problem.y, np.ones(n_new)), noise)
    flipped = np.max(problem.noise) if label else 0.0

    def check(length, seed):
        posts = [
            sample_billiard(
                points.space, length, n_chains=1, label_noise=problem.noise, random_state=s
            )
            for s in seeds_of(seed, n_runs)
        ]
        p = np.array([predict(post, points, label) for post in posts])
        rng = np.random.default_rng(seed)
        exact = (exact_draws(joint, EXACT_DRAWS * n_runs * length, rng) @ K)[:, -n_new:] > 0
        exact = exact.reshape(n_runs, EXACT_DRAWS * length, n_new).mean(axis=1)
        return compare_means(p - (flipped + (1 - 2 * flipped) * exact), 0.0)

    return check
