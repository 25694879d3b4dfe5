"""Ways into version space: direct solves, perceptrons, random directions, and no way at all."""

import numpy as np
import pytest
from helpers.spaces import (
    factor_of,
    make_space,
    narrow_space,
    with_contradiction,
)
from helpers.thresholds import compare_means
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.threads import open_threads
from bayespoint.inference.billiard.chains import starts_of
from bayespoint.inference.billiard.starts import (
    SPREADS,
    direct_starts,
    perceptron_vector,
    random_start,
    start_rng,
)
from bayespoint.space.decisions import label_odds
from bayespoint.space.factor import Factor
from bayespoint.space.version_space import EmptyVersionSpaceError


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with open_threads(1):
        yield


def direct(space, number=0, seed=0):
    rngs = [np.random.default_rng([seed, ball]) for ball in range(number + 1)]
    return direct_starts(space, factor_of(space), rngs)[number]


def perceptron(space, seed=0, visited=None, budget=None):
    sure = np.isin(np.arange(len(space)), visited) if visited is not None else space.y != 0
    return perceptron_vector(space, sure, np.random.default_rng(seed), budget or Budget()).coef


# ---------------------------------------------------------------------- direct


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("softness", [0.0, 0.3])
def test_a_direct_start_is_a_unit_vector_inside_version_space(softness, dtype):
    space = make_space(softness=softness, dtype=dtype)
    for number in range(6):
        coef = direct(space, number, seed=number)
        assert np.all(space.margins(coef) > 0)
        assert_allclose(space.norm(coef), 1.0, rtol=1e-9)


def test_direct_starts_are_as_dispersed_as_they_should_be():
    space = make_space(m=200, softness=0.5)
    length = np.sqrt(space.rows.diagonal + space.ridge)
    starts = [np.log(space.margins(direct(space, k, seed=k)) / length) for k in range(8)]
    for number, log_margins in enumerate(starts):
        # The deviation of 200 normal numbers is known to 5%.
        assert_allclose(log_margins.std(), SPREADS[number % 2], rtol=0.3)
    together = np.corrcoef(starts)
    assert np.abs(together[np.triu_indices(8, 1)]).max() < 0.5  # each its own numbers


def test_there_is_no_direct_start_for_a_singular_matrix():
    assert direct(make_space(kernel="linear")) is None
    assert direct(make_space(kernel="linear", softness=0.1)) is not None


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.03, 0.01])
def test_a_direct_start_that_rounding_spoils_is_none(gamma):
    X = np.random.default_rng(1).normal(size=(25, 3))
    space = VersionSpace(rbf_kernel(X, gamma=gamma), np.sign(X[:, 0] + 0.3))
    for number in range(10):
        coef = direct(space, number, seed=number)
        if coef is not None:
            assert np.all(space.margins(coef) > 0)
            assert_allclose(space.norm(coef), 1.0, rtol=1e-6)


# ---------------------------------------------------------------------- perceptron


@pytest.mark.parametrize(("kernel", "softness"), [("rbf", 0.0), ("linear", 0.3)])
def test_a_perceptron_vector_is_a_unit_vector_inside_version_space(kernel, softness):
    space = make_space(kernel=kernel, softness=softness)
    starts = [perceptron(space, seed) for seed in range(4)]
    for coef in starts:
        assert np.all(space.margins(coef) > 0)
        assert_allclose(space.norm(coef), 1.0, rtol=1e-9)
    assert len({coef.tobytes() for coef in starts}) == 4  # each from an order of its own


def test_only_the_points_that_must_be_right_have_to_be():
    space = make_space(kernel="linear")
    visited = np.flatnonzero(np.arange(60) % 3)
    flipped = np.where(np.isin(np.arange(60), visited), space.y, -space.y)  # no way to obey all
    noisy = VersionSpace(space.rows, flipped)
    coef = perceptron(noisy, visited=visited)
    assert np.all(noisy.margins(coef)[visited] > 0)
    assert np.any(noisy.margins(coef) < 0)
    assert_array_equal(np.delete(coef, visited), 0.0)
    assert_allclose(noisy.norm(coef), 1.0, rtol=1e-9)


def test_only_points_that_must_be_right_are_named():
    space = with_contradiction("linear")
    y = space.y.copy()
    y[:5] *= -1  # contradictions among points that may be wrong
    with pytest.raises(EmptyVersionSpaceError) as caught:
        perceptron(VersionSpace(space.rows, y), visited=np.arange(5, 61))
    # In a plane there are many contradictions; the one named is one, among the points asked for.
    assert np.all(caught.value.points >= 5)
    assert space.conflict(caught.value.points) is not None
    spared = np.setdiff1d(np.arange(60), caught.value.points)
    assert space.conflict(spared) is None  # negative control


def test_a_start_that_is_not_found_says_how_many_points_are_wrong_and_what_to_do():
    space = narrow_space()
    assert space.conflict() is None
    with pytest.raises(ValueError, match=r"no start inside version space.* \d+ training") as caught:
        perceptron(space)
    assert not isinstance(caught.value, EmptyVersionSpaceError)
    for remedy in ("softness", "label_noise > 0", "max_time"):
        assert remedy in str(caught.value)


# ---------------------------------------------------------------------- random


@pytest.mark.parametrize(("kernel", "softness"), [("rbf", 0.3), ("linear", 0.0)])
def test_a_random_start_is_a_unit_vector_in_an_isotropic_direction(kernel, softness):
    space = make_space(m=12, kernel=kernel, softness=softness)
    factor = factor_of(space)
    rng = np.random.default_rng(0)
    coef = np.array([random_start(factor, rng) for _ in range(400)])
    outputs = space.outputs(coef)
    assert_allclose(np.einsum("ij,ij->i", coef, outputs), 1.0, rtol=1e-9)
    white = factor.white(outputs)
    for moments, expected in ((white, 0.0), (white**2, 1 / factor.rank)):
        result = compare_means(moments, np.full(factor.rank, expected))
        assert result.passed, result
    # Negative control: coefficients, rather than white coordinates, that are isotropic.
    wrong = rng.standard_normal((400, len(space)))
    wrong /= np.sqrt(np.einsum("ij,ij->i", wrong, space.outputs(wrong)))[:, None]
    squared = factor.white(space.outputs(wrong)) ** 2
    assert not compare_means(squared, np.full(factor.rank, 1 / factor.rank)).passed


# ---------------------------------------------------------------------- which of them


def start(space, number, noise, kind=None):
    odds = label_odds(np.broadcast_to(noise, len(space)))
    rngs = [start_rng(0, ball) for ball in range(number + 1)]
    return starts_of(space, factor_of(space), odds, rngs, Budget(), kind)[number]


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_without_noise_every_ball_begins_inside_version_space(kernel):
    space = make_space(kernel=kernel)
    for number in range(4):
        assert np.all(space.margins(start(space, number, 0.0)) > 0)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_with_noise_at_every_point_every_other_ball_begins_anywhere(kernel):
    space = make_space(kernel=kernel)
    inside = [bool(np.all(space.margins(start(space, k, 0.1)) > 0)) for k in range(6)]
    assert inside == [True, False] * 3
    forced = [bool(np.all(space.margins(start(space, k, 0.1, "random")) > 0)) for k in range(6)]
    assert forced == [False] * 6


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_points_without_noise_are_right_from_the_start(kernel):
    space = make_space(kernel=kernel)
    noise = np.where(np.arange(60) % 2, 0.2, 0.0)
    for number in range(4):
        assert np.all(space.margins(start(space, number, noise))[noise == 0] > 0)


def test_a_singular_matrix_can_have_its_noisy_points_wrong():
    space = make_space(kernel="linear")
    y = space.y.copy()
    y[::10] *= -1
    noisy = VersionSpace(space.rows, y)
    noise = np.zeros(60)
    with pytest.raises(EmptyVersionSpaceError):
        start(noisy, 0, noise)
    noise[::10] = 0.1
    coef = start(noisy, 0, noise)
    assert np.all(noisy.margins(coef)[noise == 0] > 0)


def test_the_factor_used_is_that_of_the_softened_matrix():
    space = make_space(softness=0.5)
    K = space.rows.store + np.diag(space.ridge)
    white = np.random.default_rng(0).standard_normal((3, 60))
    expected = Factor(K.copy()).outputs(white)
    assert_allclose(factor_of(space).outputs(white), expected, atol=1e-12)
    assert_allclose(space.rows.diagonal * 1.5, K.diagonal())
