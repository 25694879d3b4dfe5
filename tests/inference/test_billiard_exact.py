"""The exact billiard against closed forms and exact draws; what it must keep without fail.

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
    labels,
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
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard import balls as billiards

# ---------------------------------------------------------------------- the oracles themselves


@pytest.mark.parametrize("seed", range(3))
def test_closed_forms_of_the_centre_agree(seed):
    """Two points: the bisector; three: the spherical triangle; both are cases of the facets."""
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


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_centre_of_mass_of_few_points(m, seed):
    """Bisector (m = 2), spherical triangle (3), facets as orthant probabilities (4)."""
    problem = skewed(m, seed)
    centre = triangle_centre(problem) if m == 3 else facet_centre(problem)
    assert_passes(against_centre(problem, centre), length=1_000, seed=m, detects=0.06)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("m", [2, 3])
def test_mean_margins_of_few_points(m, seed):
    problem = skewed(m, seed)
    expected = mean_margins(problem) / np.sqrt(problem.K.diagonal())
    assert_passes(against_means(problem, expected), length=1_000, seed=m, detects=0.02)


@pytest.mark.parametrize("m", [3, 20, 200])
def test_orthogonal_points(m):
    """All margins of the centre are equal, and those of a draw have a known mean."""
    problem = orthogonal(m)
    centre = problem.y / np.sqrt(m * problem.K.diagonal())
    assert_passes(against_centre(problem, centre), length=300, seed=m, detects=0.08)
    assert_passes(against_means(problem, orthogonal_margin(m)), length=300, seed=m, detects=0.03)


@pytest.mark.parametrize("m", [10, 50, 200])
def test_equicorrelated_points(m):
    """The mean margins are off by a fifth where directions are not drawn anew."""
    problem = equicorrelated(m)
    centre = equicorrelated_centre(problem)
    assert_passes(against_centre(problem, centre), length=300, seed=m, detects=0.06)
    margin = equicorrelated_margin(m)
    assert_passes(against_means(problem, margin), length=300, seed=m, detects=0.03)


@pytest.mark.parametrize("travel", [0.7, 2.0, 9 * np.pi / 2])
def test_the_centre_does_not_depend_on_the_travel(travel):
    problem = skewed(4, 2)
    check = against_centre(problem, facet_centre(problem), travel=travel)
    assert_passes(check, length=1_000, seed=0, detects=0.06)


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
    assert_passes(against_exact_draws(CLEAN[name]), length=1_000, seed=0, detects=0.025)


def test_the_right_angle_in_two_dimensions():
    """Flights of pi / 2 in an arc of pi / 2 must not come back to the same two points for ever."""
    problem = orthogonal(2)
    near_a_wall = problem.y * np.array([np.cos(0.1), np.sin(0.1)]) / np.sqrt(problem.K.diagonal())

    def sampler(problem, length, seed):
        return billiard(problem, length, seed, start=np.tile(near_a_wall, (N_CHAINS, 1)))

    assert_passes(against_exact_draws(problem, sampler), length=500, seed=0, detects=0.05)


# ---------------------------------------------------------------------- noisy labels


@pytest.mark.parametrize(
    ("noise", "most", "detects"), [(0.02, 2, 0.015), (0.1, 3, 0.03), (0.3, 5, 0.07)]
)
def test_noisy_labels(noise, most, detects):
    """Mean margins, E[e] and P(e = k), e the number of errors, against rejection sampling."""
    problem = skewed(6, 3, noise=noise)
    check = against_exact_draws(problem, statistics=lambda *args: errors(*args, most))
    assert_passes(check, length=2_000, seed=0, detects=detects)


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
    assert_passes(check, length=1_000, seed=0, detects=0.04)


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
    assert_passes(against_exact_draws(problem), length=500, seed=0, detects=0.06)


@pytest.mark.parametrize("m", [12, 40])
def test_orthogonal_points_with_noisy_labels(m):
    """Each margin is positive with probability 1 - q_i, independently."""
    noise = np.linspace(0.02, 0.4, m)
    problem = orthogonal(m, noise)
    i, j = np.triu_indices(m, 1)
    expected = np.concatenate([1 - 2 * noise, (1 - 2 * noise[i]) * (1 - 2 * noise[j])])

    def check(length, seed):
        sign = np.sign(margins_of(problem, billiard(problem, length, seed)))
        both = np.concatenate([sign, sign[..., i] * sign[..., j]], axis=-1)
        return compare_means(both.mean(axis=1), expected)

    assert_passes(check, length=12_000 // m, seed=0, detects=0.25)


# ---------------------------------------------------------------------- starts


@pytest.mark.parametrize(("flights", "travel"), [(1, 0.4), (2, np.pi / 2)])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("name", ["five points", "coinciding walls"])
def test_exact_draws_stay_exact(name, noise, flights, travel):
    """Stationarity: thousands of balls from exact draws; their last positions are compared."""
    problem = CLEAN[name]._replace(noise=noise)
    check = from_exact_draws(problem, flights, travel)
    assert_passes(check, length=4_000, seed=0, detects=0.1)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_balls_from_one_corner_arrive(noise):
    """Convergence: all start where a single margin is not tiny, or with every label wrong."""
    problem = skewed(5, 3, noise=noise)
    target = np.array([1e-3, 1e-3, 1e-3, 1.0, 1e-3]) * problem.y * (1 if noise == 0 else -1)
    corner = np.linalg.solve(problem.K, target * np.sqrt(problem.K.diagonal()))

    def sampler(problem, length, seed):
        return billiard(problem, length, seed, start=np.tile(corner, (N_CHAINS, 1)))

    assert_passes(against_exact_draws(problem, sampler), length=1_000, seed=0, detects=0.03)


# ---------------------------------------------------------------------- invariants


EVERY = {**CLEAN, "fifty points": equicorrelated(50), "thirty orthogonal points": orthogonal(30)}


@pytest.mark.parametrize("name", EVERY)
def test_every_draw_is_a_unit_vector_inside_version_space(name):
    problem = EVERY[name]
    post = sample_billiard(problem.space, n_draws=2_000, random_state=0)
    outputs = post.coef @ problem.K
    assert_allclose(np.einsum("dj,dj->d", post.coef, outputs), 1.0, atol=1e-9)
    assert_allclose(post.outputs, outputs, atol=1e-9 * np.sqrt(problem.K.diagonal().max()))
    assert np.all(problem.y * outputs > 0)
    assert not np.any(post.info["errors"])
    assert post.info["restarts"] == 0
    assert post.info["drift"] < 1e-9


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_fewest_points(m):
    """A single unit vector, an arc, a triangle."""
    problem = skewed(m, 1)
    post = sample_billiard(problem.space, n_draws=4_000, random_state=0)
    outputs = post.coef @ problem.K
    assert_allclose(np.einsum("dj,dj->d", post.coef, outputs), 1.0, atol=1e-9)
    assert np.all(problem.y * outputs > 0)


@pytest.mark.parametrize("name", EVERY)
def test_coefficients_of_the_bayes_point_have_the_sign_of_the_label(name):
    problem = EVERY[name]
    post = sample_billiard(problem.space, n_draws=400, random_state=0)
    assert np.all(problem.y * post.bayes_point("kicks") >= 0)
    for source in SOURCES:
        assert problem.space.norm(post.bayes_point(source)) == pytest.approx(1.0)


def test_a_ball_that_meets_no_wall():
    """There are draws, and a Bayes point, but none from kicks."""
    problem = skewed(5, 3)
    post = sample_billiard(
        problem.space, n_draws=8, n_chains=2, travel=1e-9, burn_in=0, random_state=0
    )
    assert not np.any(post.info["bounces"])
    assert np.all(problem.y * post.outputs > 0)
    assert problem.space.norm(post.bayes_point()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="source must be one of"):
        post.bayes_point("kicks")


def test_walls_that_do_not_bound_version_space_get_no_kicks():
    """Sums of the others' feature vectors bound nothing: V meets their walls nowhere."""
    z = np.vstack([np.eye(4), [[1, 2, 1, 0.5], [0.2, 1, 1, 1]]])[[0, 4, 1, 2, 5, 3]]
    y = labels(6)
    problem = Problem(np.outer(y, y) * (z @ z.T), y)
    a = y * sample_billiard(problem.space, n_draws=2_000, random_state=0).bayes_point("kicks")
    assert_array_equal(a[[1, 4]], 0.0)
    assert np.all(a[[0, 2, 3, 5]] > 0.3)


@pytest.mark.parametrize("problem", [CLEAN["eight points"], NOISY["one rate a point"]])
def test_vectors_in_coordinates_and_as_sums_over_the_points_fly_alike(problem, monkeypatch):
    """Up to some rank the loop keeps vectors in coordinates, so what small problems show holds."""
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", 100)
    coordinates = billiard(problem, 300, seed=0)
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", 0)
    sums = billiard(problem, 300, seed=0)
    assert not np.array_equal(sums, coordinates)
    assert_allclose(sums, coordinates, atol=1e-8)


def test_labels_that_are_almost_sure_are_sure():
    """From the same starts, with the same directions, a rate of 1e-9 passes no wall."""
    problem = skewed(5, 3)
    start = exact_draws(problem, 4, np.random.default_rng(0))
    hard, noisy = (
        sample_billiard(
            problem.space, n_draws=2_000, start=start, label_noise=q, burn_in=10, random_state=0
        )
        for q in (0.0, 1e-9)
    )
    assert_array_equal(noisy.coef, hard.coef)
    assert_array_equal(noisy.bayes_point(), hard.bayes_point())
    assert noisy.info["passes"].sum() == 0


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("softness", [0.1, 2.0])
def test_softness_is_a_longer_diagonal(softness, noise):
    """The same flights as in the softened Gram matrix, but for rounding: short runs agree."""
    problem = skewed(8, 4, dim=3)
    softened = problem.K + softness * np.diag(problem.K.diagonal())
    soft, plain = (
        sample_billiard(space, n_draws=32, burn_in=3, label_noise=noise, random_state=0)
        for space in (
            VersionSpace(problem.K, problem.y, softness),
            VersionSpace(softened, problem.y),
        )
    )
    assert_allclose(soft.coef, plain.coef, atol=1e-7)
    assert_allclose(soft.outputs, plain.outputs, atol=1e-7)
    assert_allclose(soft.bayes_point(), plain.bayes_point(), atol=1e-7)
    assert_allclose(np.einsum("dj,dj->d", soft.coef, soft.coef @ softened), 1.0, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("name", ["eight points in three dimensions", "fifty points"])
def test_same_seed_same_draws_whatever_the_threads(name, noise):
    space = EVERY[name].space
    options = {"n_draws": 200, "n_chains": 5, "label_noise": noise}
    one, again, two, other = (
        sample_billiard(space, **options, n_jobs=n_jobs, random_state=seed)
        for n_jobs, seed in [(1, 0), (1, 0), (2, 0), (1, 1)]
    )
    for post in (again, two):
        assert_array_equal(post.coef, one.coef)
        assert_array_equal(post.outputs, one.outputs)
        assert_array_equal(post.bayes_point(), one.bayes_point())
    assert not np.any(np.all(other.coef == one.coef, axis=1))


# ---------------------------------------------------------------------- Monte-Carlo error


@pytest.mark.parametrize(("m", "n_chains"), [(4, 1), (10, 4)])
def test_the_monte_carlo_error_is_the_scatter_of_runs(m, n_chains):
    """Within 30 %; from 250 runs the scatter is known to 3 or 4 %: seven standard errors."""
    problem = skewed(4, 2) if m == 4 else equicorrelated(10)
    centre = facet_centre(problem) if m == 4 else equicorrelated_centre(problem)
    space = problem.space
    posts = [
        sample_billiard(space, n_draws=400, n_chains=n_chains, random_state=s)
        for s in seeds_of(n_chains, n=250)
    ]
    for source in SOURCES:
        assert 0.7 < error_ratio(problem, centre, posts, source) < 1.3
