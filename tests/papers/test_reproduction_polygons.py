"""R&M's plane polygons in ``bayespoint reproduce``: areas, Bayes lines, centres, billiards."""

import numpy as np
import pytest
from helpers.items import stored, verdicts

from bayespoint.papers.reproduction import (
    polygons,
    rm_figure_18_2,
    rm_figure_18_3,
    rm_figure_18_4,
)
from bayespoint.papers.reproduction.item import REFUTED, REPRODUCED

RECTANGLE = np.array([[1.0, 2.0], [5.0, 2.0], [5.0, 3.0], [1.0, 3.0]])
MIDDLE = np.array([3.0, 2.5])
TRIANGLE = polygons.TRIANGLE
ANGLES = polygons.directions(120)


def random_polygons(n, stretch=1.0):
    rng = np.random.default_rng(0)
    return [polygons.random_polygon(rng, 12, stretch) for _ in range(n)]


# ---------------------------------------------------------------------- geometry


def test_area_and_centre_of_mass():
    assert polygons.area(RECTANGLE) == pytest.approx(4.0)
    np.testing.assert_allclose(polygons.centroid(RECTANGLE), MIDDLE)
    np.testing.assert_allclose(polygons.centroid(TRIANGLE), TRIANGLE.mean(axis=0))
    assert polygons.diameter(RECTANGLE) == pytest.approx(np.sqrt(17))


@pytest.mark.parametrize("shape", [polygons.POLYGON, TRIANGLE, rm_figure_18_2.SYMMETRIC])
def test_polygons_are_convex_and_anticlockwise(shape):
    edges = np.roll(shape, -1, axis=0) - shape
    assert np.all(polygons.cross(edges, np.roll(edges, -1, axis=0)) > 0)


def test_clip_keeps_the_right_side():
    left = polygons.clip(RECTANGLE, np.array([-1.0, 0.0]), -2.0)
    assert polygons.area(left) == pytest.approx(1.0)
    assert np.all(left[:, 0] <= 2.0)
    assert len(polygons.clip(RECTANGLE, np.array([1.0, 0.0]), 6.0)) == 0


def test_areas_beside_lines_are_those_of_the_pieces():
    rng = np.random.default_rng(1)
    for shape in [*random_polygons(6), RECTANGLE]:
        angles = np.append(2 * np.pi * rng.random(20), [0.0, np.pi / 2, np.pi])
        points = polygons.centroid(shape) + 0.5 * rng.normal(size=(len(angles), 2))
        above = polygons.area_above(shape, points, angles)
        for area, point, normal in zip(above, points, polygons.normals(angles), strict=True):
            piece = polygons.clip(shape, normal, normal @ point)
            expected = polygons.area(piece) if len(piece) else 0.0
            assert area == pytest.approx(expected, abs=1e-12)


def test_bayes_lines_halve_the_area():
    for shape in [*random_polygons(2), TRIANGLE, RECTANGLE]:
        offsets = polygons.halving_offsets(shape, ANGLES)
        for normal, offset in zip(polygons.normals(ANGLES), offsets, strict=True):
            half = polygons.area(polygons.clip(shape, normal, offset))
            assert half == pytest.approx(polygons.area(shape) / 2, abs=1e-10)


def test_medians_halve_a_triangle():
    for k in range(3):
        median = TRIANGLE[k] - (TRIANGLE[k - 1] + TRIANGLE[k - 2]) / 2
        angle = np.array([np.arctan2(median[1], median[0]) + np.pi / 2])
        offset = polygons.halving_offsets(TRIANGLE, angle)
        np.testing.assert_allclose(offset, polygons.normals(angle) @ TRIANGLE[k], atol=1e-12)


def test_other_bayes_lines_of_a_triangle_miss_its_centre_of_mass():
    """A line parallel to a side halves it at 1/sqrt(2) of the height, the centroid is at 2/3."""
    side = TRIANGLE[1] - TRIANGLE[0]
    angle = np.array([np.arctan2(side[1], side[0]) + np.pi / 2])
    heights = polygons.normals(angle)[0] @ TRIANGLE.T
    height = heights[2] - heights[0]
    from_top = (heights[2] - polygons.halving_offsets(TRIANGLE, angle)[0]) / height
    assert from_top == pytest.approx(1 / np.sqrt(2), abs=1e-12)
    centre = polygons.centroid(TRIANGLE)
    off = polygons.area_differences(TRIANGLE, centre, angle)
    assert abs(off[0]) == pytest.approx(1 / 9, abs=1e-12)  # 4/9 against 5/9
    # No point of a triangle does better than that (Winternitz).
    assert polygons.least_worst(TRIANGLE, ANGLES) == pytest.approx(1 / 9, abs=1e-3)


def test_chords_end_on_the_boundary():
    points = np.broadcast_to(MIDDLE, (2, 2))
    ends = polygons.chords(RECTANGLE, points, np.array([0.0, np.pi / 2]))
    np.testing.assert_allclose(np.sort(ends[0, :, 1]), [2, 3])
    np.testing.assert_allclose(np.sort(ends[1, :, 0]), [1, 5])


def test_bayes_lines_of_symmetric_polygons_meet():
    np.testing.assert_allclose(polygons.bayes_point(RECTANGLE, ANGLES), MIDDLE, atol=1e-12)
    assert polygons.mean_square(RECTANGLE, MIDDLE, ANGLES) < 1e-25
    nearest, miss = polygons.nearest_to_lines(ANGLES, polygons.halving_offsets(RECTANGLE, ANGLES))
    np.testing.assert_allclose(nearest, MIDDLE, atol=1e-7)
    assert miss < 1e-7
    assert polygons.least_worst(RECTANGLE, ANGLES) < 1e-10


def test_no_point_near_the_bayes_point_is_better():
    for shape in random_polygons(3):
        best = polygons.bayes_point(shape, ANGLES)
        least = polygons.mean_square(shape, best, ANGLES)
        for step in 1e-4 * polygons.normals(np.arange(8)):
            assert polygons.mean_square(shape, best + step, ANGLES) > least


def test_nearest_to_lines_is_the_centre_of_the_circle_that_touches_three():
    angles = np.array([0.0, np.pi / 2, np.pi / 4])
    point, miss = polygons.nearest_to_lines(angles, np.array([0.0, 0.0, np.sqrt(2)]))
    radius = 2 / (2 + np.sqrt(2))  # the incircle of a right triangle with legs 2
    np.testing.assert_allclose(point, [radius, radius], atol=1e-7)
    assert miss == pytest.approx(radius, abs=1e-7)


def test_largest_circle():
    centre, radius = polygons.largest_circle(RECTANGLE)
    assert radius == pytest.approx(0.5)
    assert centre[1] == pytest.approx(2.5)
    right = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    centre, radius = polygons.largest_circle(right)
    assert radius == pytest.approx(1.0)
    np.testing.assert_allclose(centre, [1, 1])


def test_largest_ellipse():
    """That of a rectangle touches all sides; that of a triangle (Steiner's) its sides' middles."""
    centre, matrix = polygons.largest_ellipse(RECTANGLE)
    np.testing.assert_allclose(centre, MIDDLE, atol=1e-6)
    np.testing.assert_allclose(matrix, np.diag([2.0, 0.5]), atol=1e-5)
    centre, matrix = polygons.largest_ellipse(TRIANGLE)
    np.testing.assert_allclose(centre, TRIANGLE.mean(axis=0), atol=1e-5)
    area = np.pi * np.linalg.det(matrix)
    assert area == pytest.approx(np.pi / (3 * np.sqrt(3)) * polygons.area(TRIANGLE), rel=1e-6)


def test_cells_have_equal_areas():
    cells = polygons.Cells(polygons.POLYGON, 5)
    points = np.random.default_rng(2).uniform([0, 0], [5.2, 1.9], size=(200_000, 2))
    inward, offsets = polygons.walls(polygons.POLYGON)
    points = points[np.all(points @ inward.T > offsets, axis=1)]
    counts = np.bincount(cells.find(points), minlength=25)
    expected = len(points) / 25
    assert np.sum((counts - expected) ** 2 / expected) < 51.2  # 24 degrees of freedom, 0.1 %


# ---------------------------------------------------------------------- billiards


def test_reflection_keeps_speed_and_ball_inside():
    starts = np.repeat(polygons.centroid(polygons.POLYGON)[None], 4, axis=0)
    way = polygons.fly(polygons.POLYGON, starts, polygons.normals(np.arange(4.0)), 500)
    inward, offsets = polygons.walls(polygons.POLYGON)
    slack = way @ inward.T - offsets
    assert slack.min() > -1e-12
    np.testing.assert_allclose(slack[1:].min(axis=2), 0, atol=1e-12)  # each bounce is on a wall
    flights = np.diff(way, axis=0)
    directions = flights / np.linalg.norm(flights, axis=2)[..., None]
    wall = np.argmin(slack[1:-1], axis=2)
    into = np.sum(directions[:-1] * inward[wall], axis=2)
    mirrored = directions[:-1] - 2 * into[..., None] * inward[wall]
    np.testing.assert_allclose(directions[1:], mirrored, atol=1e-8)


def test_long_billiard_in_a_rectangle_averages_to_its_centre():
    direction = np.array([[1.0, (1 + np.sqrt(5)) / 2]]) / np.hypot(1, (1 + np.sqrt(5)) / 2)
    way = polygons.fly(RECTANGLE, np.array([[1.3, 2.1]]), direction, 5_000)[:, 0]
    lengths = np.linalg.norm(np.diff(way, axis=0), axis=1)
    mean = np.average((way[1:] + way[:-1]) / 2, axis=0, weights=lengths)
    np.testing.assert_allclose(mean, MIDDLE, atol=1e-3)


def test_random_chords_cover_evenly():
    chords = polygons.random_chords(np.random.default_rng(3), polygons.POLYGON, 40_000)
    lengths = np.linalg.norm(chords[:, 1] - chords[:, 0], axis=1)
    edges = np.roll(polygons.POLYGON, -1, axis=0) - polygons.POLYGON
    perimeter = np.sum(np.linalg.norm(edges, axis=1))
    # Mean chord of a convex region (Crofton): pi area / perimeter.
    expected = np.pi * polygons.area(polygons.POLYGON) / perimeter
    assert lengths.mean() == pytest.approx(expected, abs=4 * lengths.std() / 200)
    mean = np.average(chords.mean(axis=1), axis=0, weights=lengths)
    np.testing.assert_allclose(mean, polygons.centroid(polygons.POLYGON), atol=0.02)


# ---------------------------------------------------------------------- items


def test_statements_about_polygons_can_fail():
    name, data = "rm-figure-18.1", stored("rm-figure-18.1")
    assert set(verdicts(name, data)) == {REPRODUCED}
    assert verdicts(name, data, off=1e-3)[0] == REFUTED
    assert verdicts(name, data, shortest=0.0)[1] == REFUTED
    # Were the polygon symmetric, its lines would meet, and both statements would fail.
    name, data = "rm-figure-18.2", stored("rm-figure-18.2")
    assert set(verdicts(name, data)) == {REPRODUCED}
    symmetric = data["shapes"]["symmetric hexagon"]
    assert set(verdicts(name, data, shapes__polygon=symmetric)) == {REFUTED}
    name, data = "rm-figure-18.3", stored("rm-figure-18.3")
    equal = [[0.5, 0.01, 0.0, 0.01]] * len(rm_figure_18_3.STRETCHES)
    worse = {"mass_over_circle": equal, "ellipse_over_circle": equal}
    found = verdicts(name, data, shown_distance=data["shown_distance"][::-1], **worse)
    assert found == [REFUTED] * 3
    # A ball that stays in part of the polygon.
    name, data = "rm-figure-18.4", stored("rm-figure-18.4")
    for row in data["balls"]:
        row |= {"visited": 0.5, "uneven": 1.0, "p": 1e-9}
    assert verdicts(name, data) == [REFUTED] * 3


def test_bayes_point_is_the_best_of_all_centres():
    for shape in random_polygons(4, stretch=3.0):
        rms, distance = rm_figure_18_3.rate(shape, ANGLES)
        best = polygons.mean_square(shape, polygons.bayes_point(shape, ANGLES), ANGLES)
        assert min(rms) >= np.sqrt(best)
        assert min(distance) > 0


def test_duel_counts_the_smaller_value():
    values = np.zeros((1, 4, 3))
    values[0, :, 0] = [2, 2, 2, 1]  # circle
    values[0, :, 2] = [1, 1, 1, 2]  # centre of mass
    share, _, gain, _ = rm_figure_18_3.duel(values, "mass", "circle")[0]
    assert (share, gain) == (0.75, 0.5)


def test_time_in_cells_is_the_share_of_area_for_even_cover():
    cells = polygons.Cells(RECTANGLE, 2)
    level = np.array([[[1.0, y], [5.0, y]] for y in (2.25, 2.75)])
    lengths, where = rm_figure_18_4.times(level[None], cells)
    np.testing.assert_allclose(lengths, [[4, 4]])
    np.testing.assert_allclose(
        rm_figure_18_4.time_in(where[0], lengths[0] / lengths.sum(), 4), 0.25
    )
    # Time in a cell is as long as its part of the flights.
    shares = rm_figure_18_4.time_in(where[0], np.array([0.75, 0.25]), 4)
    np.testing.assert_allclose(np.sort(shares), [0.125, 0.125, 0.375, 0.375])


def test_means_off_zero_are_told_from_chance():
    rng = np.random.default_rng(4)
    values = [rm_figure_18_4.p_value(rng.normal(size=(50, 2))) for _ in range(200)]
    assert 0 <= np.mean(np.array(values) < 0.05) < 0.12
    assert rm_figure_18_4.p_value(rng.normal(size=(50, 2)) + 1.0) < 1e-6
