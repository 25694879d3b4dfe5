"""Geometry of the sphere in pictures: walls, corners, arcs, views, areas and densities."""

import itertools

import numpy as np
import pytest
from helpers.pictures import billiard, points_in_space
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.displays.geometry import View, arc, bounding_walls, corners, tangents, unit
from bayespoint.displays.sphere import Sphere


@pytest.mark.parametrize("seed", range(3))
def test_bounding_walls_and_corners_agree_with_trying_all_pairs(seed):
    X, y = points_in_space(12, seed)
    normals = unit(y[:, None] * X)
    inside = np.random.default_rng(seed).normal(size=(20_000, 3))
    inside = unit(inside[np.all(inside @ normals.T > 0, axis=1)][0])
    found = bounding_walls(normals, inside)
    expected = {}
    for pair in itertools.combinations(range(len(normals)), 2):
        for sign in (1, -1):
            corner = sign * unit(np.cross(*normals[list(pair)]))
            others = np.delete(normals, pair, axis=0)
            if np.all(others @ corner > 0):
                expected[pair] = corner
    assert set(found.tolist()) == set(itertools.chain(*expected))
    ring = corners(normals[found])
    for corner, pair in zip(ring, zip(found, np.roll(found, -1), strict=True), strict=True):
        assert_allclose(corner, expected[tuple(sorted(map(int, pair)))], atol=1e-9)


def test_a_version_space_of_no_width_is_refused():
    normals = unit(np.array([[1.0, 0, 0], [-1.0, 1e-17, 0], [0, 1, 0], [0, 0, 1]]))
    with pytest.raises(ValueError, match="narrower than rounding errors; use kind='trace'"):
        bounding_walls(normals, unit(np.array([0.0, 1, 1])))


def test_arcs_are_even_and_on_the_great_circle():
    begin, end = np.eye(3)[:2]
    points = arc(begin, end)
    angle = np.arctan2(points[:, 1], points[:, 0])
    assert_allclose(np.diff(angle), angle[-1] / (len(points) - 1))
    assert_allclose(angle[-1], np.pi / 2)
    assert_allclose(points[:, 2], 0)
    assert_array_equal(arc(begin, begin), [begin, begin])


@pytest.mark.parametrize("equal_area", [True, False])
def test_views_go_there_and_back(equal_area):
    rng = np.random.default_rng(0)
    front = unit(rng.normal(size=3))
    view = View(np.vstack([tangents(front), front]), equal_area)
    assert np.linalg.det(view.frame) == pytest.approx(1)  # not a mirror image
    points = unit(rng.normal(size=(50, 3)))
    flat = view.project(points)
    behind = points @ front < 0
    assert 10 < np.count_nonzero(behind) < 40
    assert_array_equal(np.isnan(flat[:, 0]), behind)
    assert_allclose(view.lift(flat[~behind]), points[~behind], atol=1e-12)
    assert_allclose(view.project(front[None]), [[0, 0]], atol=1e-12)
    normal = unit(rng.normal(size=3))
    circle = view.great_circle(normal)
    assert_allclose(np.linalg.norm(circle[[0, -1]], axis=1), view.radius)  # from rim to rim
    assert_allclose(view.lift(circle[1:-1]) @ normal, 0, atol=1e-9)
    assert np.isnan(view.lift(np.array([[view.radius, 0.1]]))).all()
    rim = view.great_circle(front)  # the rim itself is one
    assert_allclose(np.linalg.norm(rim, axis=1), view.radius)


@pytest.mark.parametrize("seed", range(2))
def test_version_space_has_its_true_area_in_the_picture(seed):
    """Area from the angles at the corners (Girard) and from the polygon that is drawn."""
    sphere = Sphere(billiard(seed=seed))
    normals = sphere.normals[sphere.bounding]
    turns = np.arccos(np.sum(normals * np.roll(normals, -1, axis=0), axis=1))
    x, y = sphere.view.project(sphere.outline).T
    drawn = abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2
    assert drawn == pytest.approx(2 * np.pi - turns.sum(), rel=1e-3)
    x, y, _ = sphere.frame @ sphere.outline.T  # orthographic: too small
    assert abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2 < 0.99 * drawn


def test_density_is_that_of_the_errors():
    sphere = Sphere(billiard(label_noise=0.2))
    points = unit(np.random.default_rng(0).normal(size=(40, 3)))
    errors = np.count_nonzero(points @ sphere.normals.T < 0, axis=1)
    assert_allclose(sphere.density(points), 4.0 ** (errors.min() - errors))
    assert_allclose(sphere.density(np.vstack([points, np.full(3, np.nan)]))[-1], 0)


def test_the_way_leads_from_wall_to_wall_inside_version_space():
    sphere = Sphere(billiard())
    way = sphere.way(30)
    known = ~np.isnan(way[:, 0])
    assert np.count_nonzero(known) > 100
    assert np.min(way[known] @ sphere.normals.T) > -1e-9
    # Never along a wall, where the ball has turned round somewhere inside.
    middle = way[1:-1][known[:-2] & known[1:-1] & known[2:]]
    on_walls = np.count_nonzero(np.min(middle @ sphere.normals.T, axis=1) < 1e-9)
    assert on_walls <= 30
