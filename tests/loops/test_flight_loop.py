"""The compiled billiard, event by event, against plain NumPy in coordinates of feature space."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._loops import billiard as billiard_loop
from bayespoint._loops.billiard import (
    BOUNCES,
    CURSOR_SIZE,
    FLIGHT,
    IN_FLIGHT,
    PASSES,
    RANDOM,
    RECORDED,
    Course,
    Record,
    Walls,
    fly,
    uniform,
)
from bayespoint.space.factor import Factor

STATE = (
    "side", "P", "Q", "coef_p", "coef_q", "white_p", "white_q", "kicks", "ends_coef", "ends_white",
    "angle", "cursor", "draws_output", "draws_coef", "draws_white", "path",
)  # fmt: skip


class Ball:
    """One ball over the walls of some points, with all that `fly` asks for.

    Points may be given in a few dimensions; ``softness`` adds one for each point.
    """

    def __init__(
        self, X, label, start, *, n_flights=20, softness=0.0, pass_rate=0.0, travel=np.pi / 2,
        thin=1, n_path=0, dtype=np.float64, seed=0,
    ):  # fmt: skip
        m = len(X)
        self.rows = (X @ X.T).astype(dtype)
        K = self.rows.astype(np.float64)
        self.ridge = softness * K.diagonal()
        self.K = K + np.diag(self.ridge)
        self.factor = Factor(self.K.copy())
        self.F = self.factor.outputs(np.eye(self.factor.rank)).T
        self.label = np.asarray(label, dtype=np.float64)
        self.pass_rate = np.broadcast_to(np.asarray(pass_rate, dtype=np.float64), m).copy()
        self.travel, self.n_flights, self.thin = travel, n_flights, thin
        self.white = np.random.default_rng(seed).standard_normal((n_flights, self.factor.rank))
        self.directions = self.factor.outputs(self.white)
        # A start in white coordinates; half of it kept as coefficients, half as it is.
        self.w = start / np.linalg.norm(start)
        half = self.w.copy()
        half[::2] = 0.0
        self.coef_p = self.factor.coefficients((self.w - half)[None])[0]
        self.white_p = half
        self.P = self.F @ self.w
        length = np.sqrt(self.K.diagonal())
        self.side = np.sign(self.P) / length
        self.Q, self.coef_q, self.kicks = np.zeros(m), np.zeros(m), np.zeros(m)
        self.white_q = np.zeros(self.factor.rank)
        self.ends_coef, self.ends_white = np.zeros(m), np.zeros(self.factor.rank)
        self.angle = np.zeros(1)
        self.cursor = np.zeros(CURSOR_SIZE, dtype=np.int64)
        self.cursor[RANDOM] = 7
        n_draws = n_flights // thin
        self.draws_output, self.draws_coef = np.zeros((n_draws, m)), np.zeros((n_draws, m))
        self.draws_white = np.zeros((n_draws, self.factor.rank))
        self.path = np.zeros((n_path, m))

    def fly(self, max_events=10**9, slots=None):
        store, slots = self.rows, np.arange(len(self.K)) if slots is None else slots
        if np.any(slots != np.arange(len(self.K))):
            store = np.empty_like(self.rows)
            store[slots] = self.rows
        walls = Walls(
            rows=store, slot_of_row=slots.astype(np.int32), squared_length=self.K.diagonal().copy(),
            ridge=self.ridge, basis=np.zeros((0, 0)), label=self.label, pass_rate=self.pass_rate,
            change=np.zeros((len(self.K), 2), dtype=np.int64), log_weight=np.zeros((0, 0)),
            slope=0.0,
        )  # fmt: skip
        fields = billiard_loop.Ball._fields
        ball = billiard_loop.Ball(*(getattr(self, name) for name in fields))
        travels = np.full(self.n_flights, self.travel)
        course = Course(travels, self.directions, self.white, self.thin)
        record = Record(self.draws_output, self.draws_coef, self.draws_white, self.path)
        fly(walls, ball, course, record, max_events)
        return self

    @property
    def flying(self):
        return self.cursor[FLIGHT] < self.n_flights

    def state(self):
        return {name: getattr(self, name).copy() for name in STATE}

    def coefficients(self, coef, white):
        return coef + self.factor.coefficients(np.atleast_2d(white))[0]


def make_points(m, n_features, seed=0):
    """Points of unequal length, and a vector well inside one of the cells that they cut out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n_features)) + 0.3
    X *= np.exp(0.5 * rng.normal(size=m))[:, None]
    return X


def make_ball(m=12, n_features=12, label_errors=0.0, **settings):
    X = make_points(m, n_features)
    softness = settings.get("softness", 0.0)
    rank = m if softness else min(m, n_features)
    start = np.random.default_rng(1).normal(size=rank)
    ball = Ball(X, np.ones(m), start, **settings)
    wrong = np.random.default_rng(2).random(m) < label_errors
    ball.label[:] = np.where(wrong, -1, 1) * np.sign(ball.P)
    return ball


BALLS = {
    "full rank": {},
    "two walls": {"m": 2, "n_features": 2},
    "singular": {"m": 30, "n_features": 4},
    "soft": {"m": 20, "n_features": 3, "softness": 0.4},
    "more walls than a chunk": {"m": 600, "n_features": 6},
    "long flights": {"m": 10, "n_features": 4, "travel": 4.5 * np.pi, "n_flights": 6},
    "short flights": {"travel": 0.1, "n_flights": 100},
    "noisy": {"m": 25, "n_features": 5, "label_errors": 0.2, "pass_rate": 0.3},
    "partly noisy": {"pass_rate": np.where(np.arange(12) % 2, 0.2, 0.0), "softness": 0.2},
    "single precision": {"m": 30, "n_features": 4, "softness": 0.1, "dtype": np.float32},
}
every_ball = pytest.mark.parametrize("settings", BALLS.values(), ids=BALLS)


def reference(ball, bounce=2.0):
    """The billiard written down once more: vectors in white coordinates, one event at a time."""
    F, w = ball.F, ball.w.copy()
    side = np.sign(F @ w)
    cursor = np.zeros(CURSOR_SIZE, dtype=np.int64)
    cursor[RANDOM] = 7
    result = SimpleNamespace(draws=[], bounces=0, passes=0, kicks=np.zeros(len(F)), met=[])
    result.integral, result.turned = np.zeros(len(w)), np.zeros(len(w))
    for direction in ball.white:
        v = direction - (direction @ w) * w
        v /= np.linalg.norm(v)
        result.turned -= v
        left, just_met = ball.travel, None
        while True:
            # cot t = -v_i / w_i; the wall just met comes again after half a circle.
            t = np.arctan2(side * (F @ w), -side * (F @ v))
            if just_met is not None:
                t[just_met] = np.pi
            wall = int(np.argmin(t))
            step = min(t[wall], left)
            result.integral += w * np.sin(step) + v * (1 - np.cos(step))
            w, v = w * np.cos(step) + v * np.sin(step), v * np.cos(step) - w * np.sin(step)
            left -= step
            if left <= 0:
                break
            just_met = wall
            result.met.append(F @ w)
            rate = ball.pass_rate[wall]
            right = side[wall] * ball.label[wall] > 0
            if not right or (rate > 0 and uniform(cursor) < rate):
                side[wall] *= -1
                result.passes += 1
                continue
            kick = bounce * (F[wall] @ v) / (F[wall] @ F[wall])
            v = v - kick * F[wall]
            result.kicks[wall] -= kick
            result.bounces += 1
        result.turned += v
        result.draws.append(F @ w)
        result.met.append(F @ w)
    return result


@every_ball
def test_flights_are_those_of_the_plain_billiard(settings):
    ball = make_ball(n_path=1000, **settings)
    expected = reference(ball)
    ball.fly()
    # Small errors grow along the path, by less than a hundredfold here.
    assert_allclose(ball.draws_output, expected.draws, atol=1e-9)
    assert ball.cursor[BOUNCES] == expected.bounces
    assert ball.cursor[PASSES] == expected.passes
    assert_allclose(ball.kicks, expected.kicks, atol=1e-9)
    assert_allclose(ball.path[: ball.cursor[RECORDED]], expected.met[:1000], atol=1e-9)
    assert ball.cursor[RECORDED] == min(1000, len(expected.met))
    assert expected.bounces > 3
    assert (expected.passes > 3) == bool(np.any(ball.pass_rate))
    # dv = -w dt along a flight: integral = kicks + first direction - last direction.
    ends = ball.ends_coef @ ball.F + ball.ends_white
    assert_allclose(ends, -expected.turned, atol=1e-8)
    assert_allclose(ball.kicks @ ball.F + ends, expected.integral, atol=1e-8)
    if not np.any(ball.pass_rate):
        assert np.all(ball.label * ball.kicks >= 0)  # walls push inwards


def test_a_wrong_reflection_would_be_noticed():
    ball = make_ball()
    wrong = reference(ball, bounce=1.999)
    ball.fly()
    assert np.abs(ball.draws_output - wrong.draws).max() > 1e-4


@every_ball
def test_lengths_angles_and_outputs_stay_what_they_are_at_every_event(settings):
    ball = make_ball(**settings)
    length = np.sqrt(ball.K.diagonal())
    n_events = 0
    while ball.flying and n_events < 60:
        ball.fly(max_events=1)
        n_events += 1
        p = ball.coefficients(ball.coef_p, ball.white_p)
        assert_allclose(ball.K @ p / length, ball.P / length, atol=1e-11)
        if not ball.cursor[IN_FLIGHT]:
            continue
        q = ball.coefficients(ball.coef_q, ball.white_q)
        assert_allclose(ball.K @ q / length, ball.Q / length, atol=1e-11)
        cos, sin = np.cos(ball.angle[0]), np.sin(ball.angle[0])
        w, v = p * cos + q * sin, q * cos - p * sin
        assert_allclose([w @ ball.K @ w, v @ ball.K @ v, w @ ball.K @ v], [1, 1, 0], atol=1e-11)
        # Beyond no wall, and at one unless a flight has just begun.
        heights = ball.side * (ball.K @ w)
        assert heights.min() > -1e-11
        assert (heights.min() < 1e-11) == (ball.angle[0] > 0)
    assert n_events > 5


@every_ball
def test_draws_are_unit_vectors_at_the_end_of_flights(settings):
    ball = make_ball(**settings).fly()
    length = np.sqrt(ball.K.diagonal())
    for output, *parts in zip(ball.draws_output, ball.draws_coef, ball.draws_white, strict=True):
        coef = ball.coefficients(*parts)
        assert_allclose(ball.K @ coef / length, output / length, atol=1e-11)
        # In a plane a direction along the position loses digits when it is made tangent.
        assert_allclose(coef @ output, 1.0, rtol=1e-9 if ball.factor.rank == 2 else 1e-11)
    assert_array_equal(ball.draws_output[-1], ball.P)
    sure = ball.pass_rate == 0
    inside = (ball.label * ball.draws_output > 0)[
        :, sure & (ball.label == np.sign(ball.F @ ball.w))
    ]
    assert np.all(inside)


def test_a_flight_that_meets_no_wall_is_as_long_as_travel():
    ball = make_ball(travel=1e-3, n_flights=50).fly()
    draws = zip(ball.draws_coef, ball.draws_white, strict=True)
    cosines = [a @ ball.K @ b for a, b in pairwise(ball.coefficients(*parts) for parts in draws)]
    assert ball.cursor[BOUNCES] < 10
    straight = np.sort(np.sqrt(2 * (1 - np.array(cosines))))[-30:]
    assert_allclose(straight, 1e-3, rtol=1e-5)


def test_thinned_draws_are_every_so_many_of_all():
    ball = make_ball().fly()
    for thin in (2, 3, 20):
        thinned = make_ball(thin=thin).fly()
        for name in ("draws_output", "draws_coef", "draws_white"):
            assert_array_equal(getattr(thinned, name), getattr(ball, name)[thin - 1 :: thin])
        assert len(thinned.draws_output) == 20 // thin
        assert_array_equal(thinned.P, ball.P)


@every_ball
def test_interruptions_change_no_bit(settings):
    whole = make_ball(n_path=15, **settings).fly().state()
    for max_events in (1, 7):
        ball = make_ball(n_path=15, **settings)
        n_calls = 0
        while ball.flying:
            ball.fly(max_events)
            n_calls += 1
        n_events = ball.cursor[BOUNCES] + ball.cursor[PASSES]
        assert n_calls == max(1, -(-n_events // max_events))
        for name, values in ball.state().items():
            assert_array_equal(values, whole[name], err_msg=name)
    ball.fly()  # nothing left to do
    for name, values in ball.state().items():
        assert_array_equal(values, whole[name], err_msg=name)


def test_no_more_of_the_path_is_recorded_than_asked_for():
    longer, shorter = make_ball(n_path=40).fly(), make_ball(n_path=4).fly()
    assert longer.cursor[RECORDED] == 40
    assert_array_equal(shorter.path, longer.path[:4])
    assert_array_equal(shorter.draws_output, longer.draws_output)
    # At walls, one after the other, and at the ends of flights.
    heights = np.sort(longer.side * longer.path, axis=1)
    at_end = np.any(longer.path[:, None] == longer.draws_output, axis=(1, 2))
    assert 5 < np.count_nonzero(at_end) < 35
    assert_allclose(heights[~at_end, 0], 0.0, atol=1e-12)
    assert np.all(heights[~at_end, 1] > 1e-9)
    assert np.all(heights[at_end, 0] > 1e-9)


def test_rows_are_found_wherever_the_store_keeps_them():
    ball = make_ball().fly()
    shuffled = make_ball().fly(slots=np.random.default_rng(0).permutation(12))
    assert_array_equal(shuffled.draws_output, ball.draws_output)


# ---------------------------------------------------------------------- walls on top of each other


def test_a_repeated_wall_reflects_once():
    X = make_points(8, 8)
    start = np.random.default_rng(1).normal(size=8)
    single = Ball(X, np.ones(8), start)
    single.label[:] = np.sign(single.P)
    twice = Ball(np.repeat(X, 2, axis=0), np.repeat(single.label, 2), start)
    # The same directions and the same start, whatever the order of the basis.
    white = np.linalg.lstsq(twice.F[::2], single.directions.T, rcond=None)[0].T
    twice.white = np.ascontiguousarray(white)
    twice.w = np.linalg.lstsq(twice.F[::2], single.P, rcond=None)[0]
    twice.directions, twice.P = twice.white @ twice.F.T, twice.F @ twice.w
    twice.side = np.sign(twice.P) / np.sqrt(twice.K.diagonal())
    twice.coef_p[:], twice.white_p = 0.0, twice.w.copy()
    single.fly(), twice.fly()
    assert_allclose(twice.draws_output[:, ::2], single.draws_output, atol=1e-8)
    assert_allclose(twice.draws_output[:, 1::2], single.draws_output, atol=1e-8)
    assert_array_equal(twice.cursor[BOUNCES], single.cursor[BOUNCES])


def test_contradictory_walls_that_may_be_passed_do_not_trap_the_ball():
    X = make_points(6, 3)
    start = np.random.default_rng(1).normal(size=3)
    ball = Ball(np.vstack([X, X]), np.ones(12), start, pass_rate=0.2, n_flights=200)
    ball.label[:] = np.append(np.sign(ball.P[:6]), -np.sign(ball.P[:6]))
    ball.fly(max_events=10**6)
    assert not ball.flying
    assert ball.cursor[PASSES] > 20
    assert_allclose(np.linalg.norm(ball.draws_output, axis=1) > 0, True)
    # Both walls of a pair have been passed or neither.
    assert_array_equal(np.sign(ball.side[:6]), np.sign(ball.side[6:]))
    assert_array_equal(np.sign(ball.side), np.sign(ball.P))
