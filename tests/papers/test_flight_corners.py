"""Corners of straight flights and light traps: few dimensions, contradictions, starts on walls."""

import warnings

import numpy as np
import pytest
from helpers.flights import RUNS, SAMPLERS, assert_usable, bounces
from helpers.spaces import make_space
from helpers.version_spaces import skewed
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint.inference import starts
from bayespoint.papers.straight import Span
from bayespoint.space.version_space import EmptyVersionSpaceError


@pytest.mark.parametrize("first", [0, 1])
def test_a_light_trap_is_no_endless_loop_where_a_point_has_both_labels(first, clock):
    K = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    y = [1, -1, 1] if first else [-1, 1, 1]
    clock.step = 1.0
    with pytest.raises(EmptyVersionSpaceError) as caught:
        starts.light_trap_start(VersionSpace(K, y), max_time=10**6, random_state=0)
    assert_array_equal(caught.value.points, [0, 1])
    assert clock.looks < 1000


@pytest.mark.parametrize("directions", ["coefficients", "isotropic"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_in_two_dimensions_rounding_errors_do_not_grow(name, directions):
    for space in (skewed(2, 1).space, skewed(8, 1, dim=2).space):
        assert_usable(bounces(name, space, 300, directions=directions), space)


@pytest.mark.parametrize("name", SAMPLERS)
def test_points_on_a_line_are_one_clear_error(name):
    for space in (VersionSpace([[2.0]], [-1]), VersionSpace(np.ones((3, 3)), [1, 1, 1])):
        with pytest.raises(ValueError, match="sample_billiard"):
            RUNS[name](space)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_start_on_a_wall_is_refused(name):
    space = VersionSpace(np.eye(3), [1, 1, 1])
    for seed in range(3):
        with pytest.raises(ValueError, match="start must lie inside version space"):
            bounces(name, space, 1, start=[1.0, 1.0, 0.0], random_state=seed)


def test_isotropic_directions_have_the_dimensions_of_the_span():
    rng = np.random.default_rng(0)
    for space, rank in (
        (make_space(kernel="linear", dtype=np.float32), 4),
        (VersionSpace(np.diag(10.0 ** np.arange(-6, 6)), [1, -1] * 6), 12),
    ):
        outputs = np.array([Span(space, isotropic=True).random(rng).outputs for _ in range(100)])
        outputs /= np.sqrt(space.rows.diagonal)
        assert np.linalg.matrix_rank(outputs, tol=1e-3) == rank
        assert_allclose(np.mean(outputs**2, axis=0), 1 / rank, rtol=0.8)


@pytest.mark.parametrize("bias", [1.0, 5.0])
def test_a_bias_that_is_not_in_the_kernel_is_one_clear_error(bias):
    space = make_space(m=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="bias"):
            RUNS["flipper"](VersionSpace(space.rows.store + bias / 10, space.y), bias=bias)
