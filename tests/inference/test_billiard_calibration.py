"""Predictive probabilities of the billiard: exact, and calibrated where the prior is true.

Calibration is exact at any number of draws: a function drawn from the prior at training and new
points is, given the labels, one more draw of the posterior.
"""

from copy import copy

import numpy as np
import pytest
from helpers.new_points import against_joint_draws, predictive, rbf_with_new_points
from helpers.thresholds import compare_means
from helpers.version_spaces import N_CHAINS, assert_caught, assert_passes, seeds_of
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard

# Runs whose probabilities are compared; most of their time does not depend on their length.
N_RUNS = 16

# ---------------------------------------------------------------------- one problem


@pytest.mark.parametrize(
    ("noise", "softness", "label"),
    [(0, 0, False), (0.1, 0, True), (0, 0.5, False), (0.2, 0.3, True)],
)
def test_predictive_probabilities_are_those_of_the_joint_prior(noise, softness, label):
    """Near and far points, sign and label, against rejection from the prior at all points."""
    check = against_joint_draws(rbf_with_new_points(noise, softness), label=label, n_runs=N_RUNS)
    assert_passes(check, length=400, seed=0, detects=0.08)


def test_far_away_nothing_is_known_and_among_the_points_much():
    points = rbf_with_new_points()
    post = sample_billiard(points.space, n_draws=4_000, random_state=0)
    p = predictive(post, points, label=False)
    assert p[0] > 0.9
    assert abs(p[-1] - 0.5) < 1e-3
    assert_allclose(predictive(post, points, label=True), p)


def test_a_new_point_in_the_span_is_decided_by_the_draws_alone():
    """Its variance is zero: a vote of the draws."""
    points = rbf_with_new_points()
    post = sample_billiard(points.space, n_draws=2_000, random_state=0)
    coef = np.array([1.0, -0.5, 0.8, 0.0])
    cross, diagonal = coef @ points.problem.K, coef @ points.problem.K @ coef
    votes = np.mean(post.coef @ cross > 0)
    assert 0.05 < votes < 0.95
    assert_allclose(post.predictive(cross, [diagonal]), votes, atol=2e-3)
    assert_allclose(post.predictive(points.problem.K, np.ones(4)), points.problem.y > 0, atol=1e-6)


# ---------------------------------------------------------------------- controls


def span_votes(post, points, label):  # noqa: ARG001
    return np.mean(post.coef @ points.cross.T > 0, axis=0)


def of_the_sign(post, points, label):  # noqa: ARG001
    return predictive(post, points, label=False)


@pytest.mark.parametrize(
    ("wrong", "noise", "softness"),
    [
        (span_votes, 0.0, 0.0),
        (of_the_sign, 0.2, 0.0),
        pytest.param(of_the_sign, 0.0, 0.5, marks=pytest.mark.slow),
    ],
)
def test_wrong_probabilities_are_caught(wrong, noise, softness):
    """What lies outside the span, flips and softness left out."""
    points = rbf_with_new_points(noise, softness)
    check = against_joint_draws(points, wrong, label=wrong is of_the_sign, n_runs=N_RUNS)
    assert_caught(check, length=600, seed=0)


# ---------------------------------------------------------------------- many problems

# Chains of each problem: independent draws, in two halves.
CHAINS, DRAWS = 8, 4

POINTS, NEW_POINTS = 8, 6


def kernel(X):
    """RBF with lengths that differ from point to point, and far enough from singular."""
    length = np.exp(0.4 * X[:, 0])
    K = np.exp(-0.7 * np.sum((X[:, None] - X) ** 2, axis=2)) + 1e-6 * np.eye(len(X))
    return np.outer(length, length) * K


class Simulated:
    """A function drawn from the prior, noisy labels at training points, and what is held out."""

    def __init__(self, seed, noise, softness):
        self.rng = rng = np.random.default_rng(seed)
        K = kernel(rng.normal(0.0, 1.2, (POINTS + NEW_POINTS, 2)))
        f = np.linalg.cholesky(K) @ rng.standard_normal(len(K))
        soft = f + np.sqrt(softness * K.diagonal()) * rng.standard_normal(len(K))
        label = np.where(soft > 0, 1, -1) * np.where(rng.random(len(K)) < noise, -1, 1)
        self.K, self.cross = K[:POINTS, :POINTS], K[POINTS:, :POINTS]
        self.diagonal = K.diagonal()[POINTS:]
        self.value, self.label = f[POINTS:], label[POINTS:]
        self.post = sample_billiard(
            VersionSpace(self.K, label[:POINTS], softness), CHAINS * DRAWS, n_chains=CHAINS,
            label_noise=noise, burn_in=60, random_state=seed,
        )  # fmt: skip
        self.halves = copy(self.post), copy(self.post)
        for half, chosen in zip(self.halves, np.eye(2), strict=True):
            half.weights = np.repeat(chosen, CHAINS * DRAWS // 2)

    def probabilities(self, predict, label):
        """Of +1 at the new points, from each half of the chains."""
        return [predict(half, self, label) for half in self.halves]

    def ranks(self):
        """Rank in (0, 1) of the values among independent draws, each chain's last one.

        A draw is the unit vector's output times a chi length, and Gaussian outside the span.
        """
        last = self.post.draws()[:, -1]
        softened = self.K + self.post.space.softness * np.diag(self.K.diagonal())
        inside = np.sum(self.cross * np.linalg.solve(softened, self.cross.T).T, axis=1)
        length = np.sqrt(self.rng.chisquare(POINTS, (CHAINS, 1)))
        outside = np.sqrt(np.maximum(self.diagonal - inside, 0.0))
        draws = length * (last @ self.cross.T)
        draws += outside * self.rng.standard_normal(draws.shape)
        below = np.count_nonzero(draws < self.value, axis=0)
        return (below + self.rng.random(NEW_POINTS)) / (CHAINS + 1)


def exact(post, simulated, label):
    return post.predictive(simulated.cross, simulated.diagonal, label=label)


EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def calibrated(noise=0.0, softness=0.0, predict=exact):
    """Check of 32 groups of ``length`` problems; all means are zero in expectation.

    For the sign and for the label: held out less predicted, by bins of the other half's
    prediction, so that errors of one and the other are independent, and times the way that it
    points (confidence less accuracy); and three moments of the ranks, which are uniform.
    """

    def of_one(seed):
        simulated = Simulated(seed, noise, softness)
        result = []
        for held_out, label in ((simulated.value > 0, False), (simulated.label > 0, True)):
            first, second = simulated.probabilities(predict, label)
            for p, other in ((first, second), (second, first)):
                result.append((held_out - p) * np.sign(other - 0.5))
                inside = np.digitize(other, EDGES[1:-1]) == np.arange(len(EDGES) - 1)[:, None]
                result.extend((held_out - p) * inside)
        u = simulated.ranks() - 0.5
        result.extend([u, u**2 - 1 / 12, u**3 - 3 / 20 * u])
        return np.mean(result, axis=1)

    def check(length, seed):
        with threadpool_limits(1):
            rows = np.array([of_one(s) for s in seeds_of(seed, N_CHAINS * length)])
        return compare_means(rows.reshape(N_CHAINS, length, -1).mean(axis=1), 0.0)

    return check


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "softness"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.3)])
def test_simulated_calibration(noise, softness):
    """8,000 functions from the prior: sign, label and value of held-out points."""
    assert_passes(calibrated(noise, softness), length=250, seed=1, detects=0.03)


def votes_of_the_span(post, simulated, label):  # noqa: ARG001
    return np.average(post.coef @ simulated.cross.T > 0, axis=0, weights=post.weights)


def sign_for_label(post, simulated, label):  # noqa: ARG001
    return exact(post, simulated, label=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "noise", "softness", "length"),
    [
        (votes_of_the_span, 0.0, 0.0, 12),
        (sign_for_label, 0.25, 0.0, 40),
        (sign_for_label, 0.0, 1.0, 80),
    ],
)
def test_wrong_probabilities_are_not_calibrated(wrong, noise, softness, length):
    assert_caught(calibrated(noise, softness, wrong), length, seed=0)
