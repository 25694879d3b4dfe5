"""Billiard balls on a device draw from the posterior, and keep what belongs to their draws."""

# ruff: noqa: E402

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

torch = pytest.importorskip("torch")

from helpers.device_rows import ball_problem, make_balls, table_of
from helpers.plain_balls import PlainBall
from helpers.thresholds import FALSE_ALARM_RATE, compare_means, fails_clearly
from helpers.version_spaces import (
    Problem,
    assert_caught,
    assert_passes,
    coordinates,
    equicorrelated,
    equicorrelated_centre,
    equicorrelated_margin,
    errors,
    exact_draws,
    margins_of,
    moments,
    skewed,
)

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.gpu import billiards as gpu_billiards
from bayespoint.gpu.billiards import DeviceBalls
from bayespoint.gpu.loops import billiard_torch
from bayespoint.inference.billiard.balls import TRAVEL
from bayespoint.inference.billiard.flights import run

# On a device many balls take little longer than a few.
N_BALLS = 256


def flown(table, start, seed, length, burn_in=10):
    """Outputs of the draws of all balls, and the balls."""
    balls = DeviceBalls(table, start, seed)
    flights = run(
        balls, length, travel=TRAVEL, thin=1, burn_in=burn_in, budget=Budget(), threads=Threads(1)
    )
    return flights.outputs, balls


def from_exact_draws(problem, statistics, wrong=lambda table: table):
    """Check means of balls that start from exact draws against as many of those."""

    def check(length, seed):
        starts, flights, others = np.random.SeedSequence(seed).spawn(3)
        start = exact_draws(problem, N_BALLS, np.random.default_rng(starts))
        outputs, _ = flown(wrong(table_of(problem, N_BALLS)), start, flights, length)
        coef = exact_draws(problem, 2 * N_BALLS * length, np.random.default_rng(others))
        exact = statistics(problem, coef @ problem.K).reshape(N_BALLS, 2 * length, -1)
        return compare_means(
            statistics(problem, outputs).mean(axis=1) - exact.mean(axis=1), 0.0
        )  # fmt: skip

    return check


def from_the_centre(m, dtype=np.float64, wrong=lambda table: table):
    """Check mean margins of balls that all start at the centre of a space in closed form."""
    problem = equicorrelated(m)

    def check(length, seed):
        start = np.tile(equicorrelated_centre(problem), (N_BALLS, 1))
        table = wrong(table_of(problem, N_BALLS, dtype))
        outputs, _ = flown(table, start, np.random.SeedSequence(seed), length)
        expected = np.full(m, equicorrelated_margin(m))
        return compare_means(margins_of(problem, outputs).mean(axis=1), expected)

    return check


class OtherDirections:
    """The factor of a table, but for the directions that come of white noise."""

    def __init__(self, factor, change):
        self.factor, self.rank, self.change = factor, factor.rank, change

    def solve(self, white):
        return self.factor.solve(self.change(white))


def never_new(table):
    """Directions that are not drawn anew."""
    first = []

    def change(white):
        first.append(white)
        return first[0][: len(white)]

    return table._replace(factor=OtherDirections(table.factor, change))


def biased(table):
    """Directions that favour one axis."""
    scale = torch.ones(table.factor.rank)
    scale[0] = 4.0
    return table._replace(factor=OtherDirections(table.factor, lambda white: white * scale))


def lenient(table):
    """Walls that are passed twice as often as they should."""
    return table._replace(pass_rate=np.minimum(2 * table.pass_rate, 1.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_balls_leave_the_centre_for_the_law(dtype):
    assert_passes(from_the_centre(10, dtype), length=8, seed=0, detects=0.05)


def test_a_wrong_law_is_seen(monkeypatch):
    """Negative controls."""
    assert_caught(from_the_centre(10, wrong=never_new), length=4, seed=0)
    assert_caught(from_exact_draws(skewed(5, 3), moments, biased), length=8, seed=0)
    true = billiard_torch.fly

    def hard(balls, rows, slots, squared, *args, **state):
        true(balls, rows, slots, squared / 1.2, *args, **state)  # walls give more than they took

    monkeypatch.setattr(billiard_torch, "fly", hard)
    assert fails_clearly(from_the_centre(10)(30, 0))


def test_moments_of_a_skewed_space():
    assert_passes(from_exact_draws(skewed(5, 3), moments), length=12, seed=0, detects=0.05)


def number_of_errors(problem, outputs):
    return errors(problem, outputs, 3)


def test_noisy_labels():
    """A sure label is never wrong; the others are as often as they should be."""
    problem = skewed(6, 3, noise=np.array([0.0, 0.3, 0.1, 0.05, 0.2, 0.1]))
    check = from_exact_draws(problem, number_of_errors)
    assert_passes(check, length=25, seed=0, detects=0.1)
    assert fails_clearly(from_exact_draws(problem, number_of_errors, lenient)(25, 0))
    start = exact_draws(problem, N_BALLS, np.random.default_rng(0))
    outputs, balls = flown(table_of(problem, N_BALLS), start, np.random.SeedSequence(1), 10)
    wrong = problem.y * outputs < 0
    assert not np.any(wrong[..., 0])
    assert np.all(wrong.any(axis=(0, 1))[1:])
    assert np.mean(balls.counts()["passes"] > 0) > 0.9


def test_two_points():
    """A quarter circle: flights of a quarter turn must not come back for ever."""
    problem = Problem(np.eye(2), np.array([1, -1]))
    start = np.tile(problem.y / np.sqrt(2), (N_BALLS, 1))
    outputs, _ = flown(table_of(problem, N_BALLS), start, np.random.SeedSequence(0), 2)
    angle = np.arctan2(*np.abs(outputs[:, -1]).T) / (np.pi / 2)
    assert stats.kstest(angle, "uniform").pvalue > FALSE_ALARM_RATE
    # Negative control: all where they began.
    assert stats.kstest(np.full(N_BALLS, 0.5), "uniform").pvalue < FALSE_ALARM_RATE


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["clean", "noisy"])
def test_draws_are_unit_vectors_inside_with_their_outputs(dtype, noise):
    problem = ball_problem(noise=noise)
    balls = make_balls(problem, dtype)
    begun = balls.positions()
    coef, outputs = balls.step(6, 2, TRAVEL, Budget(), Threads(1))
    assert coef.shape == outputs.shape == (6, 3, 60)
    K = problem.K.astype(dtype).astype(np.float64) + np.diag(balls.table.ridge)
    assert_allclose(coef @ K, outputs, atol=1e-9)
    assert_allclose(np.einsum("bdi,bdi->bd", coef, outputs), 1, rtol=1e-12)
    assert_array_equal(coef[:, -1], balls.positions())
    assert_array_equal(outputs[:, -1], balls.P)
    assert np.all(np.abs(coef[:, 0] - begun).max(axis=1) > 1e-3)
    margins = problem.y * outputs / np.sqrt(K.diagonal())
    counts = balls.counts()
    if noise:
        assert np.all(counts["passes"] > 0)
        assert margins.min() < -1e-3
    else:
        assert margins.min() > (-1e-6 if dtype == np.float32 else -1e-7)
        assert not np.any(counts["passes"])
    assert np.all(counts["bounces"] > 0)
    assert 0 < counts["drift"] < (1e-3 if dtype == np.float32 else 1e-10)
    assert counts["restarts"] == 0
    assert counts["flight_seconds"] > 0
    balls.forget()
    assert not np.any(balls.counts()["bounces"])
    # Draws are copies: the next step leaves them as they are.
    held = coef.copy()
    balls.step(2, 1, TRAVEL, Budget(), Threads(1))
    assert_array_equal(coef, held)


def test_kicks_and_ends_are_the_integral_of_the_position():
    """Along a flight dv = -w dt: against the plain ball of the tests, which sums as it goes."""
    directions = []

    class Recorded(OtherDirections):
        def solve(self, white):
            directions.append(self.factor.solve(white).double().numpy())
            return self.factor.solve(white)

    problem = ball_problem()
    balls = make_balls(problem, n_balls=3, factor=lambda factor: Recorded(factor, None))
    state = balls.positions()
    balls.step(1, 1, 0.9, Budget(), Threads(1))
    integral = balls.kicks + balls.ends()
    phi = coordinates(problem.K + np.diag(balls.table.ridge))
    for b in range(3):
        ball = PlainBall(phi, balls.table.label[b], state[b] @ phi)
        ball.fly(directions[0][b] @ phi, 0.9)
        assert_allclose(integral[b] @ phi, ball.integral, atol=1e-8)
        assert_allclose(balls.kicks[b], ball.kicks, atol=1e-8)
        assert_allclose(balls.positions()[b] @ phi, ball.w, atol=1e-8)
        assert ball.met > 0


def test_the_same_seed_gives_the_same_flights_and_another_one_others():
    draws = [
        make_balls(ball_problem(noise=noise), seed=seed).step(3, 1, TRAVEL, Budget(), Threads(1))[0]
        for seed, noise in ((0, 0.1), (0, 0.1), (0, 0.0), (1, 0.0))
    ]
    assert_array_equal(draws[0], draws[1])
    assert np.all(np.abs(draws[2] - draws[3]).max(axis=2) > 1e-3)  # by directions alone
    # No two balls, and no two flights of a ball, have the same direction.
    steps = np.diff(draws[0], axis=1).reshape(-1, 60)
    assert len(np.unique(np.round(steps, 9), axis=0)) == len(steps)


def test_balls_that_lost_their_way_fly_again(monkeypatch):
    """A flight that ends outside is undone; one that does so for ever is an error."""
    true, calls, problem = billiard_torch.fly, [], ball_problem()

    def straying(*args, **state):
        true(*args, **state)
        calls.append(len(args[0]))
        lost = [2] if len(calls) == 1 else slice(None) if len(calls) > 2 else []
        state["coef_p"][lost] *= -1
        state["coef_q"][lost] *= -1

    monkeypatch.setattr(billiard_torch, "fly", straying)
    balls = make_balls(problem)
    _, outputs = balls.step(1, 1, TRAVEL, Budget(), Threads(1))
    assert balls.counts()["restarts"] == 1
    assert calls == [6, 1]
    assert np.min(problem.y * outputs) > 0
    before = balls.positions(), balls.P
    with pytest.raises(ValueError, match=r"leaves version space.*softness > 0"):
        balls.step(1, 1, TRAVEL, Budget(), Threads(1))
    assert_array_equal(balls.positions(), before[0])
    assert_array_equal(balls.P, before[1])


def test_time_that_is_up_in_a_flight_undoes_it(monkeypatch, clock):
    monkeypatch.setattr(gpu_billiards, "EVENT_WORK", 1)
    balls = make_balls(ball_problem())
    before = balls.positions(), balls.P
    budget, clock.step = Budget(max_time=0.5), 1.0
    assert balls.step(3, 1, TRAVEL, budget, Threads(1)) is None
    assert_array_equal(balls.positions(), before[0])
    assert_array_equal(balls.P, before[1])
    assert not np.any(balls.kicks)
    assert not np.any(balls.ends())
    # With time for some flights, those are kept.
    draws = balls.step(50, 1, TRAVEL, Budget(max_time=60.5), Threads(1))
    assert draws is not None
    assert 1 <= draws[0].shape[1] < 50
    assert_array_equal(draws[0][:, -1], balls.positions())


def test_whatever_lies_in_new_memory_is_not_read(monkeypatch):
    """Poison what `torch.empty` gives: rows, outputs and factor must all be written first."""
    true = torch.empty

    def poisoned(*args, **kwargs):
        return true(*args, **kwargs).fill_(torch.nan)

    monkeypatch.setattr(torch, "empty", poisoned)
    balls = make_balls(ball_problem(noise=0.1), np.float32)
    assert np.all(np.isfinite(balls.step(2, 1, TRAVEL, Budget(), Threads(1))[0]))
