"""Odd input of the billiard: one precise error, or a right answer."""

from functools import cache

import numpy as np
import pytest
from helpers.samplers import few_draws
from helpers.spaces import make_space, narrow_space
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from bayespoint.space.version_space import EmptyVersionSpaceError

SPACE = make_space(m=6)


@cache
def starts():
    """Four vectors inside `SPACE`."""
    return sample_billiard(SPACE, 4, n_chains=4, random_state=0).coef


def assert_inside(posterior, space, rtol=1e-9):
    """Draws are unit vectors on the right side of every wall."""
    length = np.sqrt(space.rows.diagonal + space.ridge)
    assert_allclose(posterior.outputs / length, space.outputs(posterior.coef) / length, atol=rtol)
    assert_allclose(np.einsum("ij,ij->i", posterior.coef, posterior.outputs), 1.0, rtol=rtol)
    assert np.all(space.y * posterior.outputs >= 0)


# ---------------------------------------------------------------------- starts


@pytest.mark.parametrize(("chains", "found"), [([2], r"\[2\]"), ([0, 3], r"\[0, 3\]")])
def test_a_start_outside_of_version_space_is_named(chains, found):
    start = starts().copy()
    start[chains] *= -1
    with pytest.raises(ValueError, match=rf"start must lie inside version space; chains {found}"):
        few_draws(SPACE, start=start)
    # With noise at every point it may lie anywhere, and with noise at some, beyond those walls.
    assert few_draws(SPACE, start=start, label_noise=0.1).n_draws == 40
    with pytest.raises(ValueError, match=rf"inside version space; chains {found}"):
        few_draws(SPACE, start=start, label_noise=[0.1] * 5 + [0.0])


def test_a_random_start_needs_noise_everywhere():
    for noise in (0.0, [0.1] * 5 + [0.0]):
        with pytest.raises(ValueError, match=r"start='random' needs label_noise > 0"):
            few_draws(SPACE, start="random", label_noise=noise)
    assert few_draws(SPACE, start="random", label_noise=0.1).n_draws == 40
    assert_inside(few_draws(SPACE, start="consistent"), SPACE)


# ---------------------------------------------------------------------- few points


ON_A_LINE = {
    "minus": VersionSpace([[2.0]], [-1]),
    "plus": VersionSpace([[2.0]], [1], softness=0.5),
    "repeated": VersionSpace(np.ones((4, 4)), [1, 1, 1, 1]),
    "both ways": VersionSpace(np.outer([1.0, 2.0, -3.0], [1.0, 2.0, -3.0]), [1, 1, -1]),
}


@pytest.mark.parametrize("space", ON_A_LINE.values(), ids=ON_A_LINE)
def test_in_one_dimension_there_is_one_classifier(space):
    posterior = few_draws(space)
    assert posterior.n_draws == 40
    assert_inside(posterior, space)
    only = space.y * np.sqrt(space.rows.diagonal + space.ridge)
    assert_allclose(posterior.outputs - only, 0.0, atol=1e-12)
    assert_allclose(space.outputs(posterior.bayes_point()), only)


def test_in_one_dimension_noise_makes_it_two_classifiers():
    posterior = few_draws(VersionSpace([[2.0]], [1]), 4000, label_noise=0.2)
    assert_allclose(np.abs(posterior.outputs), np.sqrt(2.0))
    # Each draw is right with probability 0.8; at worst one flight in a hundred is a fresh one.
    assert 0.5 < np.mean(posterior.outputs > 0) < 0.98


@pytest.mark.parametrize("y", [[1, 1], [1, -1]])
def test_two_walls_leave_an_arc_with_the_bayes_point_in_its_middle(y):
    space = VersionSpace([[2.0, 1.0], [1.0, 5.0]], y)
    posterior = few_draws(space, 4000)
    assert_inside(posterior, space, rtol=1e-6)
    heights = posterior.outputs * y / np.sqrt([2.0, 5.0])
    # Walls are met at angle 0 and at the other end: every draw in between.
    angles = np.arcsin(heights)
    opening = np.arccos(-y[0] * y[1] / np.sqrt(10.0))
    assert_allclose(np.ptp(angles[:, 0]), opening if opening < np.pi / 2 else np.pi / 2, rtol=0.1)
    middle = np.sin(opening / 2)
    for source in ("draws", "path"):
        centre = space.margins(posterior.bayes_point(source)) / np.sqrt([2.0, 5.0])
        assert_allclose(centre, middle, atol=6 * posterior.bayes_point_error(source))
        assert posterior.bayes_point_error(source) < 0.03


# ---------------------------------------------------------------------- matrices


@pytest.mark.parametrize(("scale", "dtype"), [(2.0**40, np.float64), (2.0**-40, np.float32)])
def test_powers_of_two_scale_draws_to_the_bit(scale, dtype):
    K = SPACE.rows.store.astype(dtype)
    # Without a time limit, which makes steps, and so roundings, depend on the clock.
    plain, scaled = (few_draws(VersionSpace(s * K, SPACE.y), 200) for s in (dtype(1), dtype(scale)))
    assert_array_equal(scaled.coef, plain.coef / np.sqrt(scale))
    assert_array_equal(scaled.outputs, plain.outputs * np.sqrt(scale))
    assert_array_equal(scaled.bayes_point(), plain.bayes_point() / np.sqrt(scale))
    assert scaled.bayes_point_error() == plain.bayes_point_error()
    assert_allclose(scaled.ess(), plain.ess())
    assert_allclose(scaled.rhat(), plain.rhat())
    assert scaled.info["drift"] == plain.info["drift"]


@pytest.mark.parametrize(
    ("scale", "noise", "dtype"),
    [(1e30, 0.1, np.float32), (1e-30, 0.0, np.float32), (1e-12, 0.1, float)],
)
def test_huge_and_tiny_kernels_give_the_same_probabilities(scale, noise, dtype):
    K = SPACE.rows.store
    plain = few_draws(SPACE, 40, label_noise=noise, burn_in=5)
    space = VersionSpace((scale * K).astype(dtype), SPACE.y)
    scaled = few_draws(space, 40, label_noise=noise, burn_in=5)
    digits = 1e-3 if dtype is np.float32 else 1e-8
    assert_allclose(scaled.outputs / np.sqrt(scale), plain.outputs, atol=digits)
    cross, diagonal = scale * K[:3], scale * K.diagonal()[:3] * 1.5
    expected = plain.predictive(K[:3], K.diagonal()[:3] * 1.5)
    assert_allclose(scaled.predictive(cross, diagonal), expected, atol=digits)


@pytest.mark.parametrize("softness", [0.0, 0.3])
def test_single_precision_gives_nearly_the_same(softness):
    space = make_space(m=40, softness=softness)
    single = make_space(m=40, softness=softness, dtype=np.float32)
    posterior = few_draws(single, 40, burn_in=0, start=few_draws(space, 4).coef)
    expected = few_draws(space, 40, burn_in=0, start=few_draws(space, 4).coef)
    assert_inside(posterior, single, rtol=1e-6)
    first = np.arange(0, 40, 10)  # later ones go their own ways
    assert_allclose(posterior.outputs[first], expected.outputs[first], atol=1e-4)


@pytest.mark.parametrize("share", [1e-2, 1e-8])
def test_the_direction_of_a_point_counts_and_not_its_length(share):
    # Two walls at 45 degrees and one across; a short point is as good a wall as a long one.
    X = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, 0.2, 1.0]])
    lengths = np.array([1.0, share, share])
    space = VersionSpace((X * lengths[:, None]) @ (X * lengths[:, None]).T, [1, 1, -1])
    posterior = few_draws(space, 200)
    plain = few_draws(VersionSpace(X @ X.T, [1, 1, -1]), 200)
    assert_inside(posterior, space, rtol=1e-6)
    assert_allclose(posterior.outputs / lengths, plain.outputs, atol=1e-5)


# ---------------------------------------------------------------------- contradictions


def repeated(y):
    """Three points, the first one twice."""
    K = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 2.0]])
    return VersionSpace(K, y)


def test_contradictory_points_that_are_sure_are_named():
    with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 1\]"):
        few_draws(repeated([1, -1, 1]), label_noise=[0.0, 0.0, 0.1])


@pytest.mark.parametrize("noise", [0.1, [0.0, 0.1, 0.0], [0.1, 0.0, 0.1], [0.0, 1e-12, 0.0]])
def test_noise_reconciles_contradictory_points(noise):
    posterior = few_draws(repeated([1, -1, 1]), 100, label_noise=noise)
    assert posterior.n_draws == 100
    assert_allclose(posterior.outputs[:, 0], posterior.outputs[:, 1], atol=1e-9)
    sure = np.flatnonzero(np.broadcast_to(noise, 3) == 0)
    assert np.all(posterior.outputs[:, sure] * np.array([1, -1, 1])[sure] > 0)
    assert np.all(posterior.info["errors"] >= 1)


def test_points_that_agree_may_be_repeated():
    space = repeated([1, 1, -1])
    posterior = few_draws(space, 400)
    assert_inside(posterior, space, rtol=1e-6)
    once = few_draws(VersionSpace(space.rows.store[1:, 1:], [1, -1]), 400)
    assert_allclose(posterior.outputs.mean(axis=0)[1:], once.outputs.mean(axis=0), atol=0.2)


# ---------------------------------------------------------------------- no Gram matrix


def test_a_large_indefinite_matrix_is_refused():
    rng = np.random.default_rng(0)
    K = rng.uniform(-1, 1, size=(40, 40))
    K = 0.5 * (K + K.T)
    np.fill_diagonal(K, 1.0)
    assert np.linalg.eigvalsh(K)[0] < -1
    for softness in (0.0, 10.0):  # which would make it one for some methods, and not for others
        with pytest.raises(ValueError, match=r"positive semi-definite.*eigenvalue is -3\.98"):
            VersionSpace(K, np.ones(40), softness=softness)
    # The remedy that the message names.
    space = VersionSpace(K + 3.99 * np.eye(40), np.ones(40))
    assert_inside(few_draws(space, 100), space)


def test_rounding_does_not_make_a_matrix_indefinite():
    X = np.random.default_rng(0).normal(size=(60, 3))
    for K in (X @ X.T + 1.0, np.exp(-0.01 * ((X[:, None] - X) ** 2).sum(axis=2))):
        for dtype in (np.float64, np.float32):
            space = VersionSpace(K.astype(dtype), np.sign(X @ [1.0, -0.5, 0.3]))
            assert_inside(few_draws(space, 40), space, rtol=1e-3)


# ---------------------------------------------------------------------- a start that is not found


def test_a_start_that_is_not_found_is_an_error_with_remedies_that_help():
    space = narrow_space()
    with pytest.raises(ValueError, match=r"no start inside version space.*softness.*label_noise"):
        few_draws(space)
    soft = VersionSpace(space.rows, space.y, softness=0.01)
    assert_inside(few_draws(soft), soft, rtol=1e-6)
    assert few_draws(space, label_noise=0.01).n_draws == 40
