"""What the billiard must keep without fail: unit vectors, signs, the same draws for a seed."""

import numpy as np
import pytest
from helpers.version_spaces import (
    SOURCES,
    Problem,
    billiard,
    equicorrelated,
    exact_draws,
    labels,
    orthogonal,
    skewed,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard import balls as billiards

EVERY = {
    "five points": skewed(5, 3),
    "eight points in three dimensions": skewed(8, 4, dim=3),
    "coinciding walls": with_duplicates(1),
    "fifty points": equicorrelated(50),
    "thirty orthogonal points": orthogonal(30),
}


@pytest.mark.parametrize("name", EVERY)
def test_every_draw_is_a_unit_vector_inside_version_space(name):
    """Coefficients of the Bayes point have the signs of the labels."""
    problem = EVERY[name]
    post = sample_billiard(problem.space, n_draws=800, random_state=0)
    outputs = post.coef @ problem.K
    assert_allclose(np.einsum("dj,dj->d", post.coef, outputs), 1.0, atol=1e-9)
    assert_allclose(post.outputs, outputs, atol=1e-9 * np.sqrt(problem.K.diagonal().max()))
    assert np.all(problem.y * outputs > 0)
    assert not np.any(post.info["errors"])
    assert np.all(problem.y * post.bayes_point("kicks") >= 0)
    for source in SOURCES:
        assert problem.space.norm(post.bayes_point(source)) == pytest.approx(1.0)
    assert post.info["restarts"] == 0
    assert post.info["drift"] < 1e-9


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_fewest_points(m):
    """A single unit vector, an arc, a triangle."""
    problem = skewed(m, 1)
    post = sample_billiard(problem.space, n_draws=800, random_state=0)
    outputs = post.coef @ problem.K
    assert_allclose(np.einsum("dj,dj->d", post.coef, outputs), 1.0, atol=1e-9)
    assert np.all(problem.y * outputs > 0)


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


@pytest.mark.parametrize(
    "problem",
    [skewed(8, 2), skewed(5, 1, noise=np.array([0.02, 0.1, 0.2, 0.3, 0.45]))],
    ids=["clean", "noisy"],
)
def test_vectors_in_coordinates_and_as_sums_over_the_points_fly_alike(problem, monkeypatch):
    """Up to some rank the loop keeps vectors in coordinates, so what small problems show holds."""
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", 100)
    coordinates = billiard(problem, 100, seed=0)
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", 0)
    sums = billiard(problem, 100, seed=0)
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


@pytest.mark.parametrize(
    ("name", "noise"), [("eight points in three dimensions", 0.1), ("fifty points", 0.0)]
)
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
