"""Straight flights and the span they are in, against explicit coordinates and great circles."""

import numpy as np
import pytest
from helpers.plain_balls import PlainBall
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    coordinates,
    equicorrelated,
    exact_draws,
    skewed,
    with_duplicates,
)
from numpy.testing import assert_allclose

from bayespoint import VersionSpace
from bayespoint.papers.straight import Span, StraightBall, angle, chord

# What rounding may leave of a unit vector's outputs, in shares of sqrt(k(x, x)).
ROUNDING = 1e-12

N_DIRECTIONS = 1000

PROBLEMS = {
    "three points": skewed(3, 1),
    "six points": skewed(6, 1),
    "nine points in five dimensions": skewed(9, 4, dim=5),
    "twenty equal angles": equicorrelated(20),
}


def in_coordinates(vector, spanning):
    """Coordinates of a vector, from its inner products with vectors that span all others."""
    return np.linalg.lstsq(spanning, vector.outputs, rcond=None)[0]


def lengths(space):
    return np.sqrt(space.rows.diagonal + space.ridge)


# ---------------------------------------------------------------------- vectors and their span


class Explicit:
    """Points in coordinates, with an axis for the bias and one per point for its softness."""

    def __init__(self, m=6, dim=9, bias=0.0, softness=0.0, seed=0):
        rng = np.random.default_rng(seed)
        X, self.bias = rng.normal(size=(m, dim)), bias
        self.space = VersionSpace(X @ X.T + bias, np.where(np.arange(m) % 3, 1, -1), softness)
        soft = np.diag(np.sqrt(self.space.ridge))
        self.without_bias = np.hstack([X, soft, np.zeros((m, 1))])
        self.axis = np.eye(dim + m + 1)[-1]
        self.points = self.without_bias + np.sqrt(bias) * self.axis
        self.spanning = np.vstack([self.points, self.axis]) if bias else self.points

    def span(self, **options):
        return Span(self.space, self.bias, **options)


EXPLICIT = {
    "plain": Explicit(),
    "bias": Explicit(bias=2.0),
    "softness": Explicit(softness=0.3),
    "bias and softness": Explicit(bias=0.5, softness=0.3),
    "bias, few dimensions": Explicit(m=12, dim=3, bias=1.0),
}


@pytest.fixture(params=EXPLICIT)
def explicit(request):
    return EXPLICIT[request.param]


def test_inner_products_are_those_of_explicit_coordinates(explicit):
    span, spanning = explicit.span(), explicit.spanning
    rng = np.random.default_rng(1)
    coefs = rng.normal(size=(2, len(spanning)))
    a, b = (span.vector(coef) for coef in coefs)
    u, v = coefs @ spanning / np.linalg.norm(coefs @ spanning, axis=1)[:, None]
    assert_allclose(span.gram, spanning @ spanning.T, atol=1e-12)
    assert_allclose(a.outputs, spanning @ u, atol=1e-12)
    assert a.dot(b) == pytest.approx(u @ v, abs=1e-12)
    assert a.dot(a) == pytest.approx(1.0, rel=1e-12)
    both = a.plus(-0.7, b)
    assert_allclose(both.outputs, spanning @ (u - 0.7 * v), atol=1e-12)
    assert both.dot(both) == pytest.approx(np.sum((u - 0.7 * v) ** 2))
    assert chord(a, b) == pytest.approx(np.linalg.norm(u - v))
    assert angle(a, b) == pytest.approx(np.arccos(u @ v))


def test_coefficients_of_the_points_alone_have_no_part_along_the_axis(explicit):
    coef = np.random.default_rng(2).normal(size=len(explicit.space))
    w = coef @ explicit.points / np.linalg.norm(coef @ explicit.points)
    assert_allclose(explicit.span().vector(coef).outputs, explicit.spanning @ w, atol=1e-12)


def test_projected_vectors_are_the_nearest_in_the_span_of_the_points(explicit):
    span = explicit.span()
    coefs = np.random.default_rng(3).normal(size=(4, len(explicit.spanning)))
    w = coefs @ explicit.spanning / np.linalg.norm(coefs @ explicit.spanning, axis=1)[:, None]
    vectors = np.array([span.vector(coef).coordinates for coef in coefs])
    inside = span.inside(vectors)
    nearest = w @ np.linalg.pinv(explicit.points) @ explicit.points
    assert_allclose(inside @ explicit.points, nearest, atol=1e-9)
    assert_allclose(explicit.space.outputs(inside), w @ explicit.points.T, atol=1e-9)
    projected = span.projected(vectors)
    nearest /= np.linalg.norm(nearest, axis=1)[:, None]
    assert_allclose(projected @ explicit.points, nearest, atol=1e-9)
    for row in projected:
        assert_allclose(explicit.space.norm(row), 1.0, rtol=1e-9)


def test_random_directions_as_published_have_isotropic_coefficients(explicit):
    coef = np.random.default_rng(4).standard_normal(len(explicit.spanning))
    m = len(explicit.space)
    w = coef[:m] @ explicit.without_bias if explicit.bias else coef @ explicit.points
    w = w + coef[m:].sum() * explicit.axis
    found = explicit.span().random(np.random.default_rng(4))
    assert_allclose(found.outputs, explicit.spanning @ w / np.linalg.norm(w), atol=1e-12)


@pytest.mark.parametrize("isotropic", [True, False])
def test_isotropic_directions_are_isotropic_and_published_ones_are_not(explicit, isotropic):
    span, spanning = explicit.span(isotropic=isotropic), explicit.spanning
    rng = np.random.default_rng(5)
    outputs = np.array([span.random(rng).outputs for _ in range(N_DIRECTIONS)])
    w = np.linalg.lstsq(spanning, outputs.T, rcond=None)[0].T
    assert_allclose(np.linalg.norm(w, axis=1), 1.0, rtol=1e-9)
    rank = np.linalg.matrix_rank(spanning)
    axes = np.linalg.svd(spanning)[2][:rank]
    squared = (w @ axes.T) ** 2
    assert compare_means(squared, np.full(rank, 1 / rank)).passed == isotropic


# ---------------------------------------------------------------------- flights


def make_ball(problem, seed=0):
    """A ball at an exact draw with a random direction, and both in coordinates."""
    rng = np.random.default_rng(seed)
    span, phi = Span(problem.space), coordinates(problem.K)
    start = exact_draws(problem, 1, rng)[0]
    ball = StraightBall(span, span.vector(start), span.random(rng))
    return ball, in_coordinates(ball.w, phi), in_coordinates(ball.v, phi)


def flights(ball, most=35):
    """Bounce until the ball escapes: walls, positions, directions, lengths of the arcs."""
    while ball.bounces < most:
        times = ball.crossings()
        wall = int(np.argmin(times))
        if np.isinf(times[wall]):
            return
        before = ball.w
        ball.bounce(wall, times[wall])
        yield wall, before, ball.w, angle(before, ball.w)


def on_great_circle(problem, w, v, travel):
    ball = PlainBall(coordinates(problem.K), problem.y, w)
    ball.fly(v, travel)
    return ball


SEEDS = range(6)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_straight_ball_meets_the_walls_of_the_great_circle_where_it_does(name):
    """Chord length times midpoint is the integral along the arc."""
    problem = PROBLEMS[name]
    phi, most = coordinates(problem.K), 0
    for seed in SEEDS:
        ball, w, v = make_ball(problem, seed)
        integral, flown = np.zeros(phi.shape[1]), 0.0
        for bounces, (wall, before, after, arc) in enumerate(flights(ball), start=1):
            flown += arc
            midpoint = before.plus(1.0, after).unit()
            integral += chord(before, after) * in_coordinates(midpoint, phi)
            there = on_great_circle(problem, w, v, flown)
            assert_allclose(there.w, in_coordinates(after, phi), atol=1e-9)
            assert_allclose(there.integral, integral, atol=1e-9)
            beyond = on_great_circle(problem, w, v, flown + 1e-9)
            assert (beyond.met, beyond.last) == (bounces, wall)
            assert problem.y[wall] * ball.v.outputs[wall] > 0
        most = max(most, ball.bounces)
    assert most > 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_ball_escapes_when_it_gets_as_far_as_its_direction(name):
    problem = PROBLEMS[name]
    for seed in SEEDS:
        ball, w, v = make_ball(problem, seed)
        for _ in flights(ball, most=40):
            pass
        until = np.arccos(w @ v)
        assert on_great_circle(problem, w, v, until - 1e-9).met == ball.bounces


def test_a_position_on_the_way_is_between_the_walls():
    ball, _, _ = make_ball(PROBLEMS["six points"])
    times = ball.crossings()
    first = times.min()
    assert np.isfinite(first)
    heights = ball.y * ball.at(0.5 * first).outputs
    assert np.all(heights > 0)
    wall = ball.at(first).outputs
    assert_allclose(wall[np.argmin(times)], 0.0, atol=ROUNDING * lengths(ball.span.space).max())
    assert np.any(ball.y * ball.at(1.01 * first).outputs < 0)


def long_flight(problem, n_bounces, seed=0):
    """A ball that leaves in a random direction whenever it has escaped."""
    ball, _, _ = make_ball(problem, seed)
    rng = np.random.default_rng(seed)
    heights = []
    while ball.bounces < n_bounces:
        for _, _, after, _ in flights(ball, most=n_bounces):
            heights.append(ball.y * after.outputs / lengths(ball.span.space))
        while not np.isfinite(ball.crossings().min()):
            ball.v = ball.span.random(rng)
    return ball, np.array(heights)


@pytest.mark.parametrize("name", ["nine points in five dimensions", "twenty equal angles"])
def test_rounding_errors_do_not_grow(name):
    problem = PROBLEMS[name]
    phi = coordinates(problem.K)
    ball, heights = long_flight(problem, 1000)
    assert ball.bounces == 1000
    for vector in (ball.w, ball.v):
        x = in_coordinates(vector, phi)
        assert_allclose(phi @ x, vector.outputs, atol=1e-10)
        assert_allclose([vector.dot(vector), x @ x], 1.0, rtol=1e-10)
    assert heights.min() > -ROUNDING


@pytest.mark.parametrize("seed", range(2))
def test_walls_that_coincide_do_not_let_the_ball_out(seed):
    problem = with_duplicates(seed)
    _, heights = long_flight(problem, 600, seed)
    assert heights.min() > -ROUNDING
    # Each bounce is on one of them, and the ball goes on to another place.
    single = np.count_nonzero(np.abs(heights) < ROUNDING, axis=1)
    assert set(single.tolist()) <= {1, 2, 3}
    assert single.max() > 1


def test_a_start_on_a_wall_bounces_off_or_leaves_it():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    span = Span(space)
    for direction in ([1.0, -1.0, 1.0], [1.0, -1.0, -1.0]):
        ball = StraightBall(span, span.vector([1.0, -1.0, 0.0]), span.vector(direction))
        times = ball.crossings()
        assert times[2] == (0.0 if direction[2] < 0 else np.inf)
        if direction[2] < 0:
            ball.bounce(2, 0.0)
            assert_allclose(ball.w.outputs, [np.sqrt(0.5), -np.sqrt(0.5), 0.0], rtol=1e-15)
        assert ball.v.outputs[2] > 0
        assert np.all(np.isinf(ball.crossings()))


def test_a_wall_that_rounding_left_behind_is_met_at_once_or_not_at_all():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    span = Span(space)
    for towards in (-1.0, 1.0):
        ball = StraightBall(
            span, span.vector([1.0, -1.0, -1e-9]), span.vector([1.0, -1.0, towards])
        )
        assert ball.crossings()[2] == (0.0 if towards < 0 else np.inf)
