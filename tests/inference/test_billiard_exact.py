"""The exact billiard against closed forms and exact draws.

``detects`` says how small an error a test must be able to detect, and `assert_passes` holds it to
that: margins in shares of sqrt(k(x, x)), probabilities and numbers of errors as they are.
"""

import numpy as np
import pytest
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    N_CHAINS,
    SOURCES,
    Problem,
    across,
    against_centre,
    against_exact_draws,
    against_means,
    assert_passes,
    billiard,
    equicorrelated,
    equicorrelated_centre,
    equicorrelated_margin,
    error_ratio,
    errors,
    exact_draws,
    facet_centre,
    from_exact_draws,
    from_one_corner,
    margins_of,
    mean_margins,
    on_a_line,
    orthogonal,
    orthogonal_margin,
    seeds_of,
    skewed,
    triangle_centre,
    with_both_labels,
    with_duplicates,
)
from numpy.testing import assert_allclose

from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard import balls

# Runs whose Bayes points are compared; most of their time does not depend on their length.
N_RUNS = 16

# ---------------------------------------------------------------------- the oracles themselves


def test_closed_forms_of_the_centre_agree():
    """Two points: the bisector; three: the spherical triangle; both are cases of the facets."""
    for seed in range(3):
        problem = skewed(2, seed)
        bisector = problem.y / np.sqrt(problem.K.diagonal())
        bisector /= np.sqrt(bisector @ problem.K @ bisector)
        assert_allclose(facet_centre(problem), bisector, rtol=1e-12)
        problem = skewed(3, seed)
        assert_allclose(facet_centre(problem), triangle_centre(problem), rtol=1e-9)


def test_exact_draws_have_the_closed_forms():
    """Rejection against the facets (m = 4), mean margins (m = 3)."""
    four, three = skewed(4, 2), skewed(3, 1)

    def check(length, seed):
        rng = np.random.default_rng(seed)
        coef = exact_draws(four, N_CHAINS * length, rng).reshape(N_CHAINS, length, -1).mean(axis=1)
        margins = three.y * (exact_draws(three, N_CHAINS * length, rng) @ three.K)
        margins = margins.reshape(N_CHAINS, length, -1).mean(axis=1) - mean_margins(three)
        margins /= np.sqrt(three.K.diagonal())
        return compare_means(np.hstack([across(four, coef, facet_centre(four)), margins]), 0.0)

    assert_passes(check, length=4_000, seed=0, detects=0.015)


def test_mean_margin_at_equicorrelation_one_half():
    """Published to four digits from simulation; simple enough to check at m = 1 and m = 2."""
    assert equicorrelated_margin(50) == pytest.approx(0.23139, abs=1e-4)
    assert equicorrelated_margin(1) == pytest.approx(1.0)
    two = Problem(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([1, 1]))
    assert_allclose(equicorrelated_margin(2), mean_margins(two), rtol=1e-9)


# ---------------------------------------------------------------------- centre of mass


@pytest.mark.parametrize("m", [2, 3, 4])
def test_centre_of_mass_of_few_points(m):
    """Bisector (m = 2), spherical triangle (3), facets as orthant probabilities (4)."""
    problem = skewed(m, seed=m % 2 + 1)
    centre = triangle_centre(problem) if m == 3 else facet_centre(problem)
    check = against_centre(problem, centre, N_RUNS)
    assert_passes(check, length=1_000, seed=m, detects=0.06)


@pytest.mark.parametrize(("m", "seed"), [(2, 1), (3, 2)])
def test_mean_margins_of_few_points(m, seed):
    problem = skewed(m, seed)
    expected = mean_margins(problem) / np.sqrt(problem.K.diagonal())
    assert_passes(against_means(problem, expected), length=600, seed=m, detects=0.02)


def orthogonal_centre(problem):
    """All margins of the centre are equal."""
    return problem.y / np.sqrt(len(problem.y) * problem.K.diagonal())


# Orthogonal points, and those at equal angles: their centres, and mean margins of a draw (at equal
# angles off by a fifth where directions are not drawn anew). Many points: sums over the points.
REGULAR = {
    "orthogonal": (orthogonal, orthogonal_centre, orthogonal_margin),
    "equal angles": (equicorrelated, equicorrelated_centre, equicorrelated_margin),
}


@pytest.mark.parametrize(
    ("kind", "m"),
    [
        ("orthogonal", 50),
        ("equal angles", 50),
        pytest.param("orthogonal", 200, marks=pytest.mark.slow),
        pytest.param("equal angles", 200, marks=pytest.mark.slow),
    ],
)
def test_regular_points(kind, m):
    make, centre_of, margin_of = REGULAR[kind]
    problem = make(m)
    check = against_centre(problem, centre_of(problem), N_RUNS)
    assert_passes(check, length=300, seed=m, detects=0.12)
    assert_passes(against_means(problem, margin_of(m)), length=150, seed=m, detects=0.03)


@pytest.mark.parametrize("travel", [0.7, pytest.param(9 * np.pi / 2, marks=pytest.mark.slow)])
def test_the_centre_does_not_depend_on_the_travel(travel):
    problem = skewed(4, 2)
    check = against_centre(problem, facet_centre(problem), N_RUNS, travel=travel)
    assert_passes(check, length=1_000, seed=0, detects=0.08)


@pytest.mark.parametrize(("noise", "most"), [(0.0, 0.3), (0.1, 0.15)])
def test_flights_that_meet_many_walls_are_shorter_and_draws_as_uniform(noise, most, monkeypatch):
    monkeypatch.setattr(balls, "MOST_MET", most)
    problem = skewed(5, 3, noise=noise)
    flown = sample_billiard(problem.space, 4, label_noise=noise, random_state=0).info["travel_time"]
    assert flown < 0.6 * np.pi / 2
    assert_passes(against_exact_draws(problem), length=800, seed=0, detects=0.06)


# ---------------------------------------------------------------------- clean labels


CLEAN = {
    "five points": skewed(5, 3),
    "eight points": skewed(8, 2),
    "eight points in three dimensions": skewed(8, 4, dim=3),
    "coinciding walls": with_duplicates(1),
}


@pytest.mark.parametrize("name", CLEAN)
def test_moments_of_uniform_draws(name):
    """First and second moments of the margins, all pairs, against rejection sampling."""
    assert_passes(against_exact_draws(CLEAN[name]), length=400, seed=0, detects=0.04)


def test_the_right_angle_in_two_dimensions():
    """Flights of pi / 2 in an arc of pi / 2 must not come back to the same two points for ever."""
    problem = orthogonal(2)
    near_a_wall = problem.y * np.array([np.cos(0.1), np.sin(0.1)]) / np.sqrt(problem.K.diagonal())

    def sampler(problem, length, seed):
        return billiard(problem, length, seed, start=np.tile(near_a_wall, (N_CHAINS, 1)))

    assert_passes(against_exact_draws(problem, sampler), length=300, seed=0, detects=0.04)


# ---------------------------------------------------------------------- noisy labels


@pytest.mark.parametrize(("noise", "most", "detects"), [(0.02, 2, 0.02), (0.3, 5, 0.1)])
def test_noisy_labels(noise, most, detects):
    """Mean margins, E[e] and P(e = k), e the number of errors, against rejection sampling."""
    problem = skewed(6, 3, noise=noise)
    check = against_exact_draws(problem, statistics=lambda *args: errors(*args, most))
    assert_passes(check, length=800, seed=0, detects=detects)


NOISY = {
    "one rate a point": skewed(5, 1, noise=np.array([0.02, 0.1, 0.2, 0.3, 0.45])),
    "some labels sure": skewed(5, 0, noise=np.array([0.0, 0.3, 0.0, 0.05, 0.2])),
    "two points": skewed(2, 2, noise=0.1),
    "six points in three dimensions": skewed(6, 2, dim=3, noise=0.1),
    "coinciding walls": with_duplicates(1, np.array([0.1, 0.1, 0.2, 0.1, 0.3, 0.1, 0.1, 0.4])),
    "a sure label among copies": with_duplicates(1, np.array([0.1, 0, 0.2, 0.3, 0, 0.3, 0, 0.4])),
    "a sure label against another": with_both_labels(1, 0, np.array([0.3, 0.1, 0, 0.2, 0.1, 0])),
}


@pytest.mark.parametrize("name", NOISY)
def test_moments_of_draws_with_noisy_labels(name):
    check = against_exact_draws(NOISY[name])
    assert_passes(check, length=400, seed=0, detects=0.05)


def test_points_on_a_line_with_noisy_labels():
    """Two classifiers, whose odds are the product of the odds of all labels."""
    noise = np.array([0.3, 0.2, 0.1, 0.4])
    problem = on_a_line(noise)
    agrees = problem.y * problem.K[0] > 0  # with the classifier that is positive at the first point
    odds = np.prod(np.where(agrees, (1 - noise) / noise, noise / (1 - noise)))

    def check(length, seed):
        positive = billiard(problem, length, seed)[..., :1] > 0
        return compare_means(positive.mean(axis=1), odds / (1 + odds))

    assert_passes(check, length=500, seed=0, detects=0.04)


@pytest.mark.parametrize("first", [0, 5])
def test_one_point_with_both_labels(first):
    """Two noisy labels that contradict each other say nothing, whichever comes first."""
    problem = with_both_labels(1, first, noise=0.1)
    assert_passes(against_exact_draws(problem), length=300, seed=0, detects=0.05)


@pytest.mark.parametrize(
    ("m", "length"), [(12, 500), pytest.param(40, 600, marks=pytest.mark.slow)]
)
def test_orthogonal_points_with_noisy_labels(m, length):
    """Each margin is positive with probability 1 - q_i, independently."""
    noise = np.linspace(0.02, 0.4, m)
    problem = orthogonal(m, noise)
    i, j = np.triu_indices(m, 1)
    expected = np.concatenate([1 - 2 * noise, (1 - 2 * noise[i]) * (1 - 2 * noise[j])])

    def check(length, seed):
        sign = np.sign(margins_of(problem, billiard(problem, length, seed)))
        both = np.concatenate([sign, sign[..., i] * sign[..., j]], axis=-1)
        return compare_means(both.mean(axis=1), expected)

    assert_passes(check, length, seed=0, detects=0.15)


# ---------------------------------------------------------------------- starts


SHORT, LONG = (1, 0.4), (2, np.pi / 2)  # flights and their travel


@pytest.mark.parametrize("length", [1_000, pytest.param(4_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "noise", "course"),
    [
        ("five points", 0.0, SHORT),
        ("five points", 0.1, LONG),
        ("coinciding walls", 0.1, SHORT),
        ("coinciding walls", 0.0, LONG),
    ],
)
def test_exact_draws_stay_exact(name, noise, course, length):
    """Stationarity: many balls from exact draws; their last positions are compared."""
    problem = CLEAN[name]._replace(noise=noise)
    check = from_exact_draws(problem, course[0], travel=course[1])
    assert_passes(check, length, seed=0, detects=0.15 if length < 4_000 else 0.1)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_balls_from_one_corner_arrive(noise):
    """Convergence."""
    check = from_one_corner(skewed(5, 3, noise=noise))
    assert_passes(check, length=400, seed=0, detects=0.05)


# ---------------------------------------------------------------------- Monte-Carlo error


@pytest.mark.parametrize(
    ("m", "n_chains", "n_runs"),
    [
        (10, 4, 40),
        pytest.param(10, 4, 250, marks=pytest.mark.slow),
        pytest.param(4, 1, 250, marks=pytest.mark.slow),
    ],
)
def test_the_monte_carlo_error_is_the_scatter_of_runs(m, n_chains, n_runs):
    """Within 30 %; the scatter, in 9 dimensions of 40 runs or 3 of 250, is known to 3 or 4 %."""
    problem = skewed(4, 2) if m == 4 else equicorrelated(10)
    centre = facet_centre(problem) if m == 4 else equicorrelated_centre(problem)
    space = problem.space
    posts = [
        sample_billiard(space, n_draws=400, n_chains=n_chains, random_state=s)
        for s in seeds_of(n_chains, n=n_runs)
    ]
    for source in SOURCES:
        assert 0.7 < error_ratio(problem, centre, posts, source) < 1.3
