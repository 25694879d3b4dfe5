"""The direct Bayes point: corners of version space, and where there are none."""

import numpy as np
import pytest
from helpers.version_spaces import labels, orthogonal, skewed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from bayespoint.papers import direct_bayes_point

# Of a product of a matrix of some condition with its inverse.
ROUNDING = 1e-9


@pytest.mark.parametrize("softness", [0.0, 0.4])
def test_each_corner_lies_on_all_walls_but_one(softness):
    problem = skewed(7, 3)
    space = VersionSpace(problem.K, problem.y, softness)
    post = direct_bayes_point(space)
    assert post.n_draws == 7
    margins = space.margins(post.coef)
    off = margins.diagonal()
    assert np.all(off > 0)
    assert_allclose(margins - np.diag(off), 0, atol=ROUNDING)
    assert_allclose([space.norm(corner) for corner in post.coef], 1, atol=ROUNDING)
    assert_allclose(post.outputs, space.outputs(post.coef), atol=ROUNDING)


def test_the_point_is_the_mean_of_the_corners():
    problem = skewed(6, 1)
    post = direct_bayes_point(problem.space)
    mean = post.coef.mean(axis=0)
    point = post.bayes_point()
    assert_allclose(point, mean / problem.space.norm(mean), atol=ROUNDING)
    assert np.all(problem.space.margins(point) > 0)


def test_it_is_near_the_centre_of_mass_and_not_the_same():
    X = np.random.default_rng(0).normal(size=(20, 2))
    space = VersionSpace(rbf_kernel(X, gamma=2.0), labels(20), 0.2)
    centre = sample_billiard(space, 2000, random_state=0).bayes_point()
    angle = np.degrees(np.arccos(direct_bayes_point(space).bayes_point() @ space.outputs(centre)))
    assert 5 < angle < 25


def test_independent_walls_have_equal_margins():
    problem = orthogonal(9)
    margins = problem.space.margins(direct_bayes_point(problem.space).bayes_point())
    assert_allclose(margins / np.sqrt(problem.K.diagonal()), 1 / 3, atol=ROUNDING)


def test_two_walls_have_the_bisector():
    K = np.array([[4.0, 1.2], [1.2, 1.0]])
    coef = direct_bayes_point(VersionSpace(K, [1, -1])).bayes_point()
    assert coef[0] * 2 == pytest.approx(-coef[1])


def test_what_has_no_corners_is_refused():
    singular = skewed(5, 2, dim=2)
    with pytest.raises(ValueError, match=r"positive definite Gram matrix.*Set softness > 0"):
        direct_bayes_point(singular.space)
    softened = direct_bayes_point(VersionSpace(singular.K, singular.y, 0.1))
    assert np.all(np.isfinite(softened.bayes_point()))
    with pytest.raises((ValueError, TypeError), match="space must be a VersionSpace"):
        direct_bayes_point(np.eye(3))


def test_the_gram_matrix_is_left_alone():
    problem = skewed(5, 0)
    before = problem.K.copy()
    direct_bayes_point(VersionSpace(problem.K, problem.y, 0.5))
    assert_array_equal(problem.K, before)
