"""Chains of the kernel Gibbs sampler: unit vectors, softness, few points, draws, chains apart."""

import warnings

import numpy as np
import pytest
from helpers.spaces import make_space
from helpers.version_spaces import exact_draws, skewed, with_both_labels, with_duplicates
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard, sample_gibbs
from bayespoint.inference.billiard import balls
from bayespoint.space.version_space import EmptyVersionSpaceError

# ---------------------------------------------------------------------- invariants


@pytest.mark.parametrize(("few_dimensions", "noise"), [(0, 0.1), (100, 0.0)])
def test_every_draw_is_a_unit_vector(noise, few_dimensions, monkeypatch):
    monkeypatch.setattr(balls, "FEW_DIMENSIONS", few_dimensions)
    problem = with_duplicates(1)
    post = sample_gibbs(problem.space, n_draws=800, label_noise=noise, random_state=0)
    outputs = post.coef @ problem.K
    assert_allclose(np.einsum("dj,dj->d", post.coef, outputs), 1.0, atol=1e-9)
    assert_allclose(post.outputs, outputs, atol=1e-9 * np.sqrt(problem.K.diagonal().max()))
    wrong = np.count_nonzero(problem.y * outputs < 0, axis=1)
    assert_array_equal(post.info["errors"], wrong)
    assert np.any(wrong) == (noise > 0)
    assert post.info["restarts"] == 0
    assert post.info["drift"] < 1e-9


@pytest.mark.parametrize("noise", [0.0, [0.0, 0.3, 0.0, 0.05, 0.2]], ids=["sure", "some sure"])
def test_vectors_in_coordinates_and_as_sums_over_the_points_walk_alike(noise, monkeypatch):
    space, walks = skewed(5, 3).space, []
    for few_dimensions in (100, 0):
        monkeypatch.setattr(balls, "FEW_DIMENSIONS", few_dimensions)
        walks.append(sample_gibbs(space, 800, label_noise=noise, random_state=0).outputs)
    assert not np.array_equal(*walks)
    assert_allclose(*walks, atol=1e-8)


def test_labels_that_are_almost_sure_are_sure():
    problem = skewed(5, 3)
    start = exact_draws(problem, 4, np.random.default_rng(0))
    post = sample_gibbs(problem.space, 2_000, start=start, label_noise=1e-12, random_state=0)
    assert not np.any(post.info["errors"])


@pytest.mark.parametrize(("y", "noise"), [(1, 0.0), (-1, 0.2)])
def test_a_single_point(y, noise):
    post = sample_gibbs(VersionSpace([[2.0]], [y]), 4_000, label_noise=noise, random_state=0)
    assert_allclose(np.abs(post.outputs), np.sqrt(2.0))
    right = np.mean(y * post.outputs > 0)
    assert abs(right - (1 - noise)) <= 5.5 * np.sqrt(noise * (1 - noise) / 4_000)


# ---------------------------------------------------------------------- draws


@pytest.fixture
def silent():
    """A few draws need not agree from chain to chain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the chains of the Gibbs sampler do not agree")
        yield


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_thinning_leaves_out_draws_and_burn_in_the_first(noise):
    """Steps of other lengths settle elsewhere, which moves roundings and nothing else."""
    space = make_space(m=9)
    options = {"n_chains": 1, "label_noise": noise, "random_state": 0}
    every = sample_gibbs(space, 30, burn_in=0, **options).coef
    thinned = sample_gibbs(space, 10, burn_in=0, thin=3, **options).coef
    assert_allclose(thinned, every[2::3], atol=1e-8)
    later = sample_gibbs(space, 20, burn_in=10, **options).coef
    assert_allclose(later, every[10:], atol=1e-8)


def test_the_bayes_point_comes_from_the_draws():
    problem = skewed(5, 3, noise=0.1)
    post = sample_gibbs(problem.space, 2_000, label_noise=0.1, random_state=0)
    mean = post.coef.mean(axis=0)
    assert_allclose(post.bayes_point(), mean / np.sqrt(mean @ problem.K @ mean), atol=1e-12)
    assert 0 < post.bayes_point_error() < 0.5
    for source in ("kicks", "path"):
        with pytest.raises(ValueError, match=rf"source must be .*'draws'.*got '{source}'"):
            post.bayes_point(source)


# ---------------------------------------------------------------------- chains apart


def xor():
    """Exclusive or in a plane: each classifier has at least one error; starts with each of them."""
    X = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    wrong = [np.linalg.solve(np.delete(X, i, axis=0), np.delete(y, i)) for i in range(4)]
    start = np.array([np.linalg.lstsq(X.T, w, rcond=None)[0] for w in wrong])
    return VersionSpace(X @ X.T, y), start


def test_chains_that_do_not_agree_are_warned_about():
    """100 points, as in sonar: from consistent and from random starts, a few hundred steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 10))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, 1, -1)
    space = VersionSpace(rbf_kernel(X, gamma=0.05), y)
    with pytest.warns(ConvergenceWarning, match=r"the chains of the Gibbs sampler.*n_draws"):
        post = sample_gibbs(space, 400, label_noise=0.05, random_state=0)
    assert post.info["rhat"] > 1.2
    # The billiard, with the same starts, is through with it.
    flown = sample_billiard(space, 400, thin=8, label_noise=0.05, random_state=0)
    assert flown.info["rhat"] < 1.2


def test_four_cells_far_apart_are_not_a_problem():
    """A great circle leads from one to the other, which flights do not find."""
    space, start = xor()
    post = sample_gibbs(space, 2_000, label_noise=0.01, start=start, random_state=0)
    assert post.info["rhat"] < 1.05
    wrong = space.y * post.outputs < 0
    assert np.all(np.any(wrong, axis=1))
    assert np.all(wrong.mean(axis=0) > 0.1)


def test_sure_labels_that_contradict_each_other_are_named_and_noise_at_one_reconciles_them():
    problem = with_both_labels(1, 0, noise=0.0)
    with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 5\]"):
        sample_gibbs(problem.space, 40, label_noise=[0, 0.1, 0.1, 0, 0, 0], random_state=0)
    for noise in (0.1, [0.1, 0, 0, 0, 0, 0]):
        assert sample_gibbs(problem.space, 40, label_noise=noise, random_state=0).n_draws == 40
