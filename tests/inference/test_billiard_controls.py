"""Negative controls: billiards that are wrong on purpose, each caught by the test it belongs to."""

import numpy as np
import pytest
from helpers.plain_balls import Fed, PlainBall, plain_billiard
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    N_CHAINS,
    against_centre,
    against_exact_draws,
    against_means,
    assert_caught,
    assert_passes,
    billiard,
    equicorrelated,
    equicorrelated_centre,
    equicorrelated_margin,
    error_ratio,
    errors,
    exact_draws,
    facet_centre,
    facets,
    from_exact_draws,
    margins_of,
    orthogonal,
    outside,
    seeds_of,
    skewed,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._loops.billiard import RANDOM, uniform
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard import balls as billiards
from bayespoint.inference.billiard.balls import Balls, Table
from bayespoint.space.factor import Factor

ONE_THREAD = Threads(1)

# Runs whose Bayes points are compared.
N_RUNS = 16


def sabotage(monkeypatch, change):
    """Change balls when they are made."""
    make = Balls.__init__

    def make_and_change(balls, *args, **options):
        make(balls, *args, **options)
        change(balls)

    monkeypatch.setattr(Balls, "__init__", make_and_change)


def balls_of(problem, start, seed):
    space = problem.space
    noise = np.broadcast_to(problem.noise, len(space))
    walls = [np.tile(x, (len(start), 1)) for x in (space.y, noise / (1 - noise))]
    table = Table(space.rows, space.ridge, Factor(problem.K.copy()), *walls)
    return Balls(table, start, np.random.SeedSequence(seed))


# ---------------------------------------------------------------------- the plain billiard


@pytest.mark.parametrize(
    ("problem", "noise", "few_dimensions"),
    [
        (skewed(6, 1), 0.0, 0),
        (skewed(6, 1), 0.2, 100),
        (skewed(9, 4, dim=5), 0.0, 100),
        (skewed(9, 4, dim=5), 0.2, 0),
        (with_duplicates(1), 0.0, 100),
        (with_duplicates(1), 0.2, 0),
        (equicorrelated(40), 0.2, 0),
        (equicorrelated(40), 0.0, 100),
    ],
)
def test_the_plain_billiard_flies_as_the_compiled_one(monkeypatch, problem, noise, few_dimensions):
    """The same directions, passes, positions, kicks and path for 30 flights, to 1e-9."""
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", few_dimensions)
    problem = problem._replace(noise=noise)
    rng = np.random.default_rng(0)
    start = exact_draws(problem, 1, rng)
    balls = balls_of(problem, start, seed=0)
    factor = balls.table.factor
    white = rng.standard_normal((30, factor.rank))
    balls.rngs = [Fed(white)]
    sequence = np.zeros_like(balls.cursor[0])
    sequence[RANDOM] = balls.cursor[0, RANDOM]
    coef, outputs = balls.step(len(white), 1, 1.7, Budget(), ONE_THREAD)

    phi = factor.outputs(np.eye(factor.rank)).T
    plain = PlainBall(
        phi, problem.y, start[0] @ phi, noise / (1 - noise), lambda: uniform(sequence)
    )
    for flight, direction in enumerate(white):
        w = plain.fly(direction, 1.7)
        assert_allclose(outputs[0, flight], phi @ w, atol=1e-9)
        assert_allclose(coef[0, flight] @ phi, w, atol=1e-9)
    # Which of two walls that coincide is met is left to rounding.
    assert_allclose(balls.kicks[0] @ phi, plain.kicks @ phi, atol=1e-9)
    assert_allclose((balls.kicks + balls.ends())[0] @ phi, plain.integral, atol=1e-9)
    counts = balls.counts()
    assert counts["bounces"][0] + counts["passes"][0] == plain.met > 30
    assert (counts["passes"][0] > 0) == (noise > 0)
    assert_array_equal(np.sign(balls.side[0]), plain.side)


def test_the_plain_billiard_passes_where_its_wrong_variants_are_caught():
    for problem in (skewed(5, 3), with_duplicates(1)):
        check = against_exact_draws(problem, plain_billiard)
        assert_passes(check, length=20, seed=0, detects=0.15)


# ---------------------------------------------------------------------- flights


@pytest.mark.slow
@pytest.mark.parametrize("bounce", [1.0, 1.5])
def test_a_reflection_that_is_no_isometry(bounce):
    def sampler(*args):
        return plain_billiard(*args, bounce=bounce)

    assert_caught(against_exact_draws(skewed(5, 3), sampler), length=12, seed=0)


class Stretched:
    """Directions that are isotropic as coefficients, and so not in feature space."""

    def __init__(self, rng, phi):
        self.rng, self.phi = rng, phi

    def standard_normal(self, *, out):
        out[:] = self.rng.standard_normal((len(out), len(self.phi))) @ self.phi


def isotropic_in_coefficients(balls):
    phi = balls.table.factor.outputs(np.eye(balls.table.factor.rank)).T
    balls.rngs = [Stretched(rng, phi) for rng in balls.rngs]


def test_directions_isotropic_in_coefficients(monkeypatch):
    sabotage(monkeypatch, isotropic_in_coefficients)
    assert_caught(against_exact_draws(skewed(4, 2)), length=100, seed=0)


@pytest.mark.slow
def test_centre_and_stationarity_notice_directions_as_well(monkeypatch):
    sabotage(monkeypatch, isotropic_in_coefficients)
    problem = skewed(4, 2)
    assert_caught(against_centre(problem, facet_centre(problem)), length=200, seed=0)
    assert_caught(from_exact_draws(problem, 2, travel=np.pi / 2), length=1_000, seed=0)


def path_means(problem, start, length, seed, travel):
    """Mean margins along the paths of 32 balls from one start, ``length`` quarter turns each."""
    balls = balls_of(problem, np.tile(start, (N_CHAINS, 1)), seed)
    if travel < 2 * np.pi:  # else there is no refresh to converge by
        balls.step(20, 20, travel, Budget(), ONE_THREAD, kept=False)
    n_flights = max(1, round(length * np.pi / 2 / travel))
    balls.step(n_flights, n_flights, travel, Budget(), ONE_THREAD, kept=False)
    return margins_of(problem, balls.kicks @ problem.K / (n_flights * travel))


def test_no_refresh():
    """Equicorrelated walls are a kaleidoscope: one long flight from the centre stays on a torus."""
    m = 50
    problem = equicorrelated(m)
    centre = equicorrelated_centre(problem)
    expected = np.full(m, equicorrelated_margin(m))

    def refreshed(length, seed):
        return compare_means(path_means(problem, centre, length, seed, np.pi / 2), expected)

    def unrefreshed(length, seed):
        means = path_means(problem, centre, length, seed, travel=length * np.pi / 2)
        assert means.mean() > 1.2 * expected.mean()
        return compare_means(means, expected)

    assert_passes(refreshed, length=150, seed=0, detects=0.03)
    assert_caught(unrefreshed, length=150, seed=0)


@pytest.mark.filterwarnings("ignore:the chains of the billiard do not agree")
def test_a_corner_that_is_not_left():
    """Flights that lead nowhere: starts alone do not pass for draws."""
    problem = skewed(5, 3)
    margins = np.array([0.1, 0.1, 0.1, 1.0, 0.1]) * problem.y * np.sqrt(problem.K.diagonal())
    corner = np.tile(np.linalg.solve(problem.K, margins), (N_CHAINS, 1))

    def sampler(*args):
        return billiard(*args, start=corner, burn_in=0, travel=0.01)

    assert_caught(against_exact_draws(problem, sampler), length=20, seed=0)


@pytest.mark.slow
def test_draws_taken_at_bounces():
    """These lie on walls: margins too small."""

    def at_bounces(problem, length, seed):
        options = {"n_draws": 4 * length, "n_chains": 1, "n_path": 4 * length}
        posts = [sample_billiard(problem.space, **options, random_state=s) for s in seeds_of(seed)]
        paths = [post.info["path"] for post in posts]  # with the ends of flights
        on_walls = [path[np.min(np.abs(path), axis=1) < 1e-9] for path in paths]
        return np.array([path[:length] for path in on_walls])

    assert_caught(against_exact_draws(skewed(5, 3), at_bounces), length=200, seed=0)
    margin = equicorrelated_margin(10)
    assert_caught(against_means(equicorrelated(10), margin, at_bounces), length=50, seed=0)


@pytest.mark.slow
def test_coinciding_walls_without_the_rule_for_touched_ones():
    """The ball leaves version space; with the rule, in the same directions, it does not."""
    problem = with_duplicates(1)

    assert not np.any(outside(problem, plain_billiard(problem, 80, seed=0)))
    assert np.mean(outside(problem, plain_billiard(problem, 80, seed=0, touch=0.0))) > 0.05
    # Where no walls coincide, the rule is not needed.
    problem = skewed(5, 3)
    assert not np.any(outside(problem, plain_billiard(problem, 80, seed=0, touch=0.0)))


def test_a_centre_that_forgets_the_lengths_of_the_points():
    problem = skewed(4, 2)
    a = problem.y * facets(problem.signed)
    assert_caught(against_centre(problem, a / problem.space.norm(a), N_RUNS), length=250, seed=0)


@pytest.mark.filterwarnings("ignore:the chains of the billiard do not agree")
def test_an_error_that_takes_draws_for_independent():
    """Short flights: the scatter of runs is four times as large."""
    problem = equicorrelated(10)
    posts = [
        sample_billiard(problem.space, n_draws=400, travel=0.4, random_state=s)
        for s in seeds_of(0, n=32)
    ]

    def independent(post):
        return np.sqrt((1 / post.mean_norm**2 - 1) / post.n_draws)

    centre = equicorrelated_centre(problem)
    assert error_ratio(problem, centre, posts, "draws", independent) < 0.5


# ---------------------------------------------------------------------- noisy labels


@pytest.mark.parametrize(
    ("noise", "most", "length"),
    [(0.3, 5, 300), pytest.param(0.1, 3, 6_000, marks=pytest.mark.slow)],
)
def test_a_pass_rate_of_q(monkeypatch, noise, most, length):
    """q instead of q / (1 - q): E[e] is 0.29 too small where q = 0.3, and 0.016 where q = 0.1."""
    sabotage(monkeypatch, lambda balls: balls.table.pass_rate.__setitem__(slice(None), noise))
    problem = skewed(6, 3, noise=noise)
    check = against_exact_draws(problem, statistics=lambda *args: errors(*args, most))
    assert_caught(check, length, seed=0)


def test_stationarity_notices_a_pass_rate_of_q(monkeypatch):
    sabotage(monkeypatch, lambda balls: balls.table.pass_rate.__setitem__(slice(None), 0.4))
    check = from_exact_draws(orthogonal(12, noise=0.4), 5, travel=np.pi / 2)
    assert_caught(check, length=500, seed=0)
