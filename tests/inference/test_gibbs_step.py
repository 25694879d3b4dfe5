"""One step of the kernel Gibbs sampler against plain NumPy, number by number."""

import numpy as np
import pytest
from helpers.thresholds import compare_means, two_stage
from helpers.version_spaces import (
    N_CHAINS,
    against_exact_draws,
    assert_passes,
    coordinates,
    errors,
    exact_draws,
    skewed,
)
from numpy.testing import assert_allclose

from bayespoint._loops.billiard import CURSOR_SIZE, RANDOM, crossing_angle, uniform


class Circle:
    """Great circles w cos t + v sin t, -pi < t <= pi: their intervals and probabilities.

    P and Q are outputs of w and v, (..., m). Wrong variants for negative controls: ``lengths``,
    whether the lengths of intervals count; ``change``, what crossing a wall does to the energy:
    "raises" counts every crossing as a new error, also where the label was wrong; ``half``, only
    t > 0.
    """

    def __init__(self, P, Q, y, odds, lengths=True, change="by label", half=False):
        places = np.arctan2(-P, Q)[..., odds > 0]
        opposite = np.where(places > 0, places - np.pi, places + np.pi)
        ends = [np.full((*P.shape[:-1], 1), end) for end in (-np.pi, np.pi)]
        self.ends = np.sort(np.concatenate([*ends, places, opposite], axis=-1))
        if half:
            self.ends = np.maximum(self.ends, 0.0)
        length = np.diff(self.ends)
        t = (self.ends[..., :-1] + length / 2)[..., None]
        outputs = P[..., None, :] * np.cos(t) + Q[..., None, :] * np.sin(t)
        right = y if change == "by label" else np.sign(P)[..., None, :]
        cost = np.where(outputs * right < 0, odds, 0.0).sum(axis=-1)
        weight = (length if lengths else length > 0) * np.exp(cost.min(-1, keepdims=True) - cost)
        self.probability = weight / weight.sum(axis=-1, keepdims=True)

    def angle(self, which, where):
        """Place ``where``, a share, of the interval that the uniform number ``which`` chooses."""
        before = np.cumsum(self.probability, axis=-1) <= np.asarray(which)[..., None]
        k = np.count_nonzero(before, axis=-1)[..., None]
        low, high = (np.take_along_axis(self.ends, k + j, axis=-1)[..., 0] for j in (0, 1))
        return low + where * (high - low)


def make_circle(seed, m=6, sure=0, silent=0):
    """Outputs of w and v, labels and log-odds; sure labels are right."""
    rng = np.random.default_rng(seed)
    P, Q = rng.standard_normal((2, m))
    y = rng.choice([-1.0, 1.0], m)
    odds = rng.uniform(0.1, 3.0, m)
    odds[:sure] = np.inf
    y[:sure] = np.sign(P[:sure])
    odds[m - silent :] = 0.0
    return P, Q, y, odds


def cursor_of(seed):
    cursor = np.zeros(CURSOR_SIZE, dtype=np.int64)
    cursor[RANDOM] = np.random.default_rng(seed).integers(2**62)
    return cursor


def compiled_angles(P, Q, y, odds, n, seed=0):
    cursor, places, changes = cursor_of(seed), np.empty(2 * len(P)), np.empty(2 * len(P))
    return np.array(
        [crossing_angle(P, Q, y, odds, places, changes, cursor) for _ in range(n)]
    )  # fmt: skip


KINDS = {
    "noisy": {},
    "some labels sure": {"sure": 2},
    "all labels sure": {"sure": 6},
    "some labels that say nothing": {"silent": 2},
    "all kinds": {"sure": 1, "silent": 1},
    "one point": {"m": 1},
    "no label says anything": {"silent": 6},
}


WRONG = [{"lengths": False}, {"change": "raises"}, {"half": True}]


def expected_angles(numbers, n, seed, **variant):
    """Angles for the uniform numbers that compiled steps use: where to go, and where in it."""
    circle, cursor, odds = Circle(*numbers, **variant), cursor_of(seed), numbers[3]
    inside = np.flatnonzero(circle.probability)
    low, high = circle.ends[inside[0]], circle.ends[inside[-1] + 1]
    if np.all(np.isinf(odds) | (odds == 0)):  # nothing to sort: one number is enough
        return np.array([low + uniform(cursor) * (high - low) for _ in range(n)])
    return np.array([circle.angle(uniform(cursor), uniform(cursor)) for _ in range(n)])


@pytest.mark.parametrize("kind", KINDS)
def test_each_uniform_number_leads_to_the_angle_it_has_to(kind):
    """Intervals in their order, with weights of length and odds, and a place in one of them."""
    for seed in range(6):
        numbers = make_circle(seed, **KINDS[kind])
        angles = compiled_angles(*numbers, 100, seed)
        assert_allclose(angles, expected_angles(numbers, 100, seed), atol=1e-12)
        assert np.ptp(angles) > 0.01


@pytest.mark.parametrize("variant", WRONG, ids=str)
def test_steps_with_other_weights_would_be_noticed(variant):
    numbers = make_circle(1)
    wrong = expected_angles(numbers, 100, 0, **variant)
    assert np.mean(np.abs(compiled_angles(*numbers, 100) - wrong) > 1e-3) > 0.2


def step_check(numbers, **variant):
    """Check the shares of the intervals, and the mean place in them, of compiled steps."""
    circle = Circle(*numbers, **variant)

    def check(length, seed):
        angles = compiled_angles(*numbers, N_CHAINS * length, seed)
        k = np.searchsorted(circle.ends, angles, side="right") - 1
        share = (angles - circle.ends[k]) / (circle.ends[k + 1] - circle.ends[k])
        inside = k[:, None] == np.flatnonzero(circle.probability > 1e-4)
        found = np.column_stack([inside, inside * (share - 0.5)[:, None]])
        expected = circle.probability[circle.probability > 1e-4]
        means = found.reshape(N_CHAINS, length, -1).mean(axis=1)
        return compare_means(means, np.append(expected, 0 * expected))

    return check


def test_compiled_steps_choose_intervals_by_length_and_posterior():
    """The uniform numbers are uniform, too."""
    check = step_check(make_circle(1, **KINDS["all kinds"]))
    assert_passes(check, length=300, seed=0, detects=0.05)


def test_a_step_with_all_labels_sure_stays_inside_and_is_uniform():
    P, Q, y, odds = make_circle(3, sure=6)
    angles = compiled_angles(P, Q, y, odds, 1_000)
    outputs = np.multiply.outer(np.cos(angles), P) + np.multiply.outer(np.sin(angles), Q)
    assert np.all(y * outputs > 0)
    circle = Circle(P, Q, y, odds)
    (inside,) = np.flatnonzero(circle.probability)
    low, high = circle.ends[inside : inside + 2]
    assert low < 0 < high
    assert np.min(angles) < low + 0.01 * (high - low)
    assert np.max(angles) > high - 0.01 * (high - low)


# ---------------------------------------------------------------------- whole chains of plain steps


def plain_gibbs(problem, length, seed, **variant):
    """Outputs of chains of plain steps that start from exact draws, (chains, length, points)."""
    rng = np.random.default_rng(seed)
    phi = coordinates(problem.K)
    noise = np.broadcast_to(problem.noise, len(phi))
    odds = np.log((1 - noise) / noise)
    w = exact_draws(problem, N_CHAINS, rng) @ phi
    outputs = np.empty((N_CHAINS, length, len(phi)))
    for step in range(length):
        v = rng.standard_normal(w.shape)
        v -= np.sum(v * w, axis=1, keepdims=True) * w
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        circle = Circle(w @ phi.T, v @ phi.T, problem.y, odds, **variant)
        t = circle.angle(*rng.random((2, N_CHAINS)))[:, None]
        w = w * np.cos(t) + v * np.sin(t)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        outputs[:, step] = w @ phi.T
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("variant", [{}, *WRONG], ids=str)
def test_plain_steps_pass_and_their_wrong_variants_are_caught(variant):
    def sampler(*args):
        return plain_gibbs(*args, **variant)

    def statistics(*args):
        return errors(*args, 4)

    check = against_exact_draws(skewed(5, 1, noise=0.2), sampler, statistics)
    assert two_stage(check, length=120, seed=0).passed == (not variant)
