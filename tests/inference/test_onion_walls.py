"""Walls of the onion keep a density that depends on the shell; walls that do not are caught."""

from functools import partial

import numpy as np
import pytest
from helpers.onions import PROBLEMS, members, prior_draws
from helpers.plain_balls import MOST_EVENTS, Fed, PlainBall
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    N_CHAINS,
    assert_caught,
    assert_passes,
    coordinates,
    exact_draws,
    moments,
    on_a_line,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._loops.billiard import RANDOM, uniform
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.inference.billiard import balls as billiards
from bayespoint.inference.billiard.balls import TRAVEL, Balls, Table, wrong_labels
from bayespoint.space.factor import Factor

ONE_THREAD = Threads(1)

# Slope of the log-weight beyond the table that nobody climbs.
NO_WAY = 1e300

# ---------------------------------------------------------------------- changes at walls


def separate(problem):
    """Change of the numbers of wrong labels -1 and +1, each wall counting its own label alone."""
    change = np.column_stack([problem.y < 0, problem.y > 0]) * problem.y[:, None]
    return change.astype(np.int64)


def groups(problem):
    """Walls that coincide: the first of them, the others, and their signs (-1 if they face it)."""
    length = np.sqrt(problem.K.diagonal())
    cosine = problem.K / np.outer(length, length)
    same = np.abs(np.abs(cosine) - 1) < 1e-12
    for first in np.flatnonzero(np.argmax(same, axis=1) == np.arange(len(same))):
        others = np.flatnonzero(same[first])[1:]
        yield first, others, np.sign(cosine[first, others])[:, None]


def together(problem):
    """What is right: walls that coincide are passed as one, by the first of them."""
    change = separate(problem)
    for first, others, sign in groups(problem):
        change[first] += (sign * change[others]).sum(axis=0).astype(np.int64)
        change[others] = 0
    return change


def first_alone(problem):
    """The first of them counts its own label, the others none."""
    change = separate(problem)
    for _, others, _ in groups(problem):
        change[others] = 0
    return change


def facing_the_same_way(problem):
    """Together, but as if none of them was turned round."""
    change = separate(problem)
    for first, others, _ in groups(problem):
        change[first] += change[others].sum(axis=0)
        change[others] = 0
    return change


# ---------------------------------------------------------------------- fixed weights


def random_weights(problem, seed=0, spread=1.0):
    """Log-weights for all numbers of wrong labels -1 and +1, in no order."""
    shape = [np.count_nonzero(problem.y < 0) + 1, np.count_nonzero(problem.y > 0) + 1]
    return spread * np.random.default_rng(seed).standard_normal(shape)


def weighted_draws(problem, log_weight, n, rng):
    """Independent draws with density exp(log_weight): coefficients of unit vectors."""
    held = []
    while sum(map(len, held)) < n:
        coef = prior_draws(problem, 20_000, rng)
        weight = log_weight[tuple(wrong_labels(problem.y, coef @ problem.K).T)]
        held.append(coef[weight - log_weight.max() > -rng.standard_exponential(len(coef))])
    return np.concatenate(held)[:n]


def weighted_balls(problem, start, log_weight, seed, changes=together):
    space = problem.space
    label = np.tile(space.y, (len(start), 1))
    walls = label, np.ones_like(label), changes(problem), log_weight, np.array([NO_WAY])
    table = Table(space.rows, space.ridge, Factor(problem.K.copy()), *walls)
    return Balls(table, start, np.random.SeedSequence(seed))


def ends_of_flights(problem, start, log_weight, flights, seed, **variant):
    """Outputs where balls are after some flights."""
    balls = weighted_balls(problem, start, log_weight, seed, **variant)
    return balls.step(flights, flights, TRAVEL, Budget(), ONE_THREAD)[1][:, -1]


def from_weighted_draws(problem, log_weight, flights, ends=ends_of_flights):
    """Check that a few flights from exact draws change no moment; ``length`` chains."""

    def statistics(outputs):
        member = members(problem, outputs, log_weight.shape)
        return np.column_stack([moments(problem, outputs), member])

    def check(length, seed):
        start = weighted_draws(problem, log_weight, length, np.random.default_rng(seed))
        outputs = ends(problem, start, log_weight, flights, seed)
        return compare_means(statistics(outputs) - statistics(start @ problem.K), 0.0)

    return check


STATIONARY = ("a sphere", "six dimensions", "coinciding walls", "one point with both labels")


@pytest.mark.parametrize("name", STATIONARY)
def test_walls_keep_a_density_that_depends_on_the_shell(name):
    """Stationarity: balls from exact draws; positions after three flights are compared."""
    problem = PROBLEMS[name][0]
    check = from_weighted_draws(problem, random_weights(problem), flights=3)
    assert_passes(check, length=1_000, seed=0, detects=0.17)


def test_two_points_of_a_line_keep_their_density():
    problem = on_a_line(0.0)
    log_weight = random_weights(problem)
    here, there = log_weight[1, 0], log_weight[1, 2]
    coef = np.array([1.0, 0, 0, 0]) / np.sqrt(problem.K[0, 0])  # right at the two labels +1

    def check(length, seed):
        balls = weighted_balls(problem, np.tile(coef, (N_CHAINS, 1)), log_weight, seed)
        outputs = balls.step(length, 1, TRAVEL, Budget(), ONE_THREAD)[1]
        return compare_means((outputs[..., 0] > 0).mean(axis=1), 1 / (1 + np.exp(there - here)))

    assert_passes(check, length=500, seed=0, detects=0.05)


# ---------------------------------------------------------------------- controls of the walls


class ShellBall(PlainBall):
    """A plain ball that passes walls by weights; ``rule(change, more)`` is the probability.

    ``change`` of the log-weight, and whether there will be more errors.
    """

    def __init__(self, phi, y, w, log_weight, changes, uniform, rule):
        super().__init__(phi, y, w, uniform=uniform)
        self.log_weight, self.changes, self.rule = log_weight, changes, rule
        self.cell = wrong_labels(y, phi @ w)

    def fly(self, direction, travel):
        v = direction - (direction @ self.w) * self.w
        v /= np.linalg.norm(v)
        for _ in range(MOST_EVENTS):
            wall, t = self.next_wall(v)
            if t >= travel:
                break
            travel -= t
            v = self.turn(v, t)
            if self.passes(wall):
                self.side[wall] *= -1
            else:
                v = v - 2 * (self.phi[wall] @ v) / self.length[wall] ** 2 * self.phi[wall]
        self.turn(v, travel)
        return self.w

    def passes(self, wall):
        ahead = self.cell + int(self.side[wall]) * self.changes[wall]
        if np.any(ahead >= self.log_weight.shape):
            return self.uniform() < 0.0  # weights fall steeply there
        change = self.log_weight[tuple(ahead)] - self.log_weight[tuple(self.cell)]
        p = self.rule(change, ahead.sum() > self.cell.sum())
        if p < 1 and self.uniform() >= p:
            return False
        self.cell = ahead
        return True


def balanced(change, more):  # noqa: ARG001
    return np.exp(min(change, 0.0))


def always_towards_fewer_errors(change, more):
    """The noisy billiard's rule, with weights for the way out alone."""
    return np.exp(min(change, 0.0)) if more else 1.0


def plain_ends(problem, start, log_weight, flights, seed, rule=balanced):
    rng = np.random.default_rng(seed)
    phi, changes = coordinates(problem.K), together(problem)
    outputs = np.empty((len(start), len(phi)))
    for k, w in enumerate(start @ phi):
        ball = ShellBall(phi, problem.y, w, log_weight, changes, rng.random, rule)
        for _ in range(flights):
            ball.fly(rng.standard_normal(phi.shape[1]), TRAVEL)
        outputs[k] = phi @ ball.w
    return outputs


@pytest.mark.parametrize(
    ("name", "few_dimensions"),
    [("a sphere", 100), ("six dimensions", 0), ("coinciding walls", 100), ("coinciding walls", 0)],
)
def test_the_plain_ball_flies_as_the_compiled_one(monkeypatch, name, few_dimensions):
    """The same directions, passes and positions for 30 flights, the table a part of all shells."""
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", few_dimensions)
    problem = PROBLEMS[name][0]
    log_weight = random_weights(problem)[:3, :3]
    start = exact_draws(problem, 1, np.random.default_rng(0))
    balls = weighted_balls(problem, start, log_weight, seed=0)
    factor = balls.table.factor
    white = np.random.default_rng(1).standard_normal((30, factor.rank))
    balls.rngs = [Fed(white)]
    sequence = np.zeros_like(balls.cursor[0])
    sequence[RANDOM] = balls.cursor[0, RANDOM]
    _, outputs = balls.step(len(white), 1, 1.7, Budget(), ONE_THREAD)

    phi, changes = factor.outputs(np.eye(factor.rank)).T, together(problem)
    draw = partial(uniform, sequence)
    ball = ShellBall(phi, problem.y, start[0] @ phi, log_weight, changes, draw, balanced)
    for flight, direction in enumerate(white):
        assert_allclose(outputs[0, flight], phi @ ball.fly(direction, 1.7), atol=1e-8)
    counts = balls.counts()
    assert counts["bounces"][0] > 5
    assert counts["passes"][0] > 5
    assert_array_equal(wrong_labels(problem.y, outputs[0, -1]), ball.cell)


@pytest.mark.slow
def test_walls_that_do_not_balance_are_caught():
    problem = PROBLEMS["six dimensions"][0]
    log_weight = random_weights(problem, spread=2.0)

    def check_of(rule):
        return from_weighted_draws(problem, log_weight, 3, ends=partial(plain_ends, rule=rule))

    assert_passes(check_of(balanced), length=150, seed=0, detects=0.5)
    assert_caught(check_of(always_towards_fewer_errors), length=150, seed=0)


def test_walls_that_see_half_of_the_change_are_caught():
    def ends(problem, start, log_weight, flights, seed):
        return ends_of_flights(problem, start, log_weight / 2, flights, seed)

    problem = PROBLEMS["six dimensions"][0]
    check = from_weighted_draws(problem, random_weights(problem, spread=2.0), 3, ends)
    assert_caught(check, length=1_600, seed=0)


@pytest.mark.parametrize("changes", [first_alone, facing_the_same_way])
@pytest.mark.slow
def test_coinciding_walls_that_are_miscounted_are_caught(changes):
    problem = PROBLEMS["coinciding walls"][0]
    ends = partial(ends_of_flights, changes=changes)
    log_weight = random_weights(problem, seed=2, spread=2.0)
    check = from_weighted_draws(problem, log_weight, flights=10, ends=ends)
    assert_caught(check, length=1_000, seed=0)


@pytest.mark.parametrize(("changes", "arrives"), [(together, True), (separate, False)])
def test_between_walls_that_coincide_a_ball_would_stay(monkeypatch, changes, arrives):
    """Counted one by one they keep the density, too, but between them there may be most weight.

    It would meet them without end: flights are then made shorter, until they end before.
    """
    monkeypatch.setattr(billiards, "EVENT_WORK", 1e5)
    problem = with_duplicates(1)
    log_weight = np.zeros((4, 6))
    log_weight[:, 1] = 60.0
    start = exact_draws(problem, 1, np.random.default_rng(0))
    balls = weighted_balls(problem, start, log_weight, 0, changes)
    assert balls.step(100, 100, TRAVEL, Budget(), ONE_THREAD) is not None
    assert (balls.part == 1) == arrives
