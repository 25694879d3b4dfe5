"""JMLR's problems in three dimensions and its other figures: polygons, axes, slopes, machines."""

import os

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.displays.geometry import unit
from bayespoint.papers import datasets
from bayespoint.papers.reproduction import (
    jmlr_figure_2,
    jmlr_figure_5,
    jmlr_figure_6,
    jmlr_figure_7,
    jmlr_figure_8,
    jmlr_table_1,
    tools,
    toys,
)
from bayespoint.papers.reproduction.item import Run

# ---------------------------------------------------------------------- polygons


def octant():
    return toys.Polygon(np.eye(3))


def test_octant_of_the_sphere_has_known_centre_area_and_circle():
    polygon = octant()
    assert polygon.centre() == pytest.approx(np.ones(3) / np.sqrt(3))
    assert polygon.area() == pytest.approx(np.pi / 2)
    assert polygon.radius() == pytest.approx(np.arcsin(1 / np.sqrt(3)))
    assert polygon.elongation() == pytest.approx(np.pi / 4 / np.arcsin(1 / np.sqrt(3)))


def test_walls_outside_do_not_change_a_polygon():
    rng = np.random.default_rng(0)
    order = rng.permutation(5)
    more = np.vstack([np.eye(3), unit(np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 2.0]]))])[order]
    polygon = toys.Polygon(more)
    assert sorted(order[polygon.walls]) == [0, 1, 2]
    assert polygon.centre() == pytest.approx(octant().centre())
    assert polygon.area() == pytest.approx(octant().area())


def test_centre_and_area_of_toy_problems_agree_with_rejection_sampling():
    points = unit(np.random.default_rng(2).standard_normal((200_000, 3)))
    for seed in range(3):
        toy = toys.random_toy(np.random.default_rng([1, seed]), m=4)
        polygon = toys.Polygon(toy.normals)
        inside = points[np.all(points @ toy.normals.T > 0, axis=1)]
        share = polygon.area() / (4 * np.pi)
        # Five standard errors; an angle left out or counted twice is off by far more.
        off = 5 * np.sqrt(share / len(points))
        assert len(inside) / len(points) == pytest.approx(share, abs=off)
        mean = inside.mean(axis=0)
        noise = np.sqrt(np.sum(np.var(inside, axis=0)) / len(inside)) / np.linalg.norm(mean)
        assert np.linalg.norm(unit(mean) - polygon.centre()) < 5 * noise


def test_ball_centre_is_no_centre_of_mass_in_a_skewed_triangle():
    normals = unit(np.array([[1.0, 0.05, 0.0], [-0.9, 0.2, 0.1], [0.2, -0.1, 0.5]]))
    polygon = toys.Polygon(normals)
    assert polygon.centre() @ polygon.ball_centre < 0.99
    # The circle touches walls whose normals, added up with positive weights, lead to its centre.
    margins = normals @ polygon.ball_centre
    touched = normals[margins < margins.min() + 1e-9]
    weights = np.linalg.lstsq(touched.T, polygon.ball_centre, rcond=None)[0]
    assert len(touched) >= 2
    assert np.all(weights > 0)
    assert weights @ touched == pytest.approx(polygon.ball_centre)


def test_positions_come_back_from_outputs():
    rng = np.random.default_rng(3)
    X, w = rng.standard_normal((10, 3)), unit(rng.standard_normal((4, 3)))
    assert toys.space_positions(X, w @ X.T) == pytest.approx(w)


def test_errors_of_toy_machines():
    teacher = np.array([0.0, 0.0, 1.0])
    machines = [teacher, -teacher, [0.0, 1.0, 0.0]]
    found = toys.toy_errors(machines, teacher, np.random.default_rng(0))
    assert found[:2] == pytest.approx([0, 100])
    assert found[2] == pytest.approx(50, abs=3)


# ---------------------------------------------------------------------- figures 2, 5 and 7


def test_random_labels_of_figure_2_are_counted_by_labelling():
    counts = jmlr_figure_2.random_labels(np.random.default_rng(0), 80_000, np.eye(3))
    assert counts.sum() == 80_000
    assert counts == pytest.approx([10_000] * 8, abs=500)
    some = jmlr_figure_2.random_labels(np.random.default_rng(0), 1000, np.eye(3)[[0, 0]])
    assert some[1] == some[2] == 0  # the same wall twice


def test_axes_have_closed_forms():
    axes = jmlr_figure_5.semi_axes(np.array([3.0, 0.0, 1.0]), 1.0)
    assert axes[::-1] / axes[0] == pytest.approx([2.0, np.sqrt(2), 1.0])
    assert np.prod(axes) == pytest.approx(1)
    both = np.array([[1.0, 5.0, 6.0], [1.0, 1.2, 6.0]])
    assert list(jmlr_figure_5.pancakes(both)) == [True, False]  # the other is a cigar


def test_slopes_of_figure_7_are_those_of_its_functions():
    rng = np.random.default_rng(7)
    X, machines = rng.uniform(-2, 2, (5, 2)), rng.standard_normal((2, 5))
    values, squared = jmlr_figure_7.functions(X, machines)
    side = np.linspace(-2, 2, jmlr_figure_7.GRID)
    for f, slope in zip(values, squared, strict=True):
        up, right = np.gradient(f, side, side)
        inner = slice(1, -1), slice(1, -1)
        assert (up**2 + right**2)[inner] == pytest.approx(slope[inner], abs=0.05 * slope.max())


def test_problems_of_figure_7_have_both_classes_and_a_wider_margin_than_any_draw():
    X, y, machines, error = jmlr_figure_7.solve([0, 1], 100)
    assert set(y) == {-1, 1}
    assert len(X) == jmlr_figure_7.M
    space = VersionSpace(rbf_kernel(X, gamma=0.5), y, softness=jmlr_figure_7.SOFTNESS)
    svm, bpm = (space.margins(coef) for coef in machines)
    assert [space.norm(coef) for coef in machines] == pytest.approx([1, 1])
    assert svm.min() > bpm.min() > 0
    # At the SVM every point with a coefficient is a support vector, and only those.
    weights = machines[0] * y
    assert weights.min() > -1e-3 * weights.max()
    assert svm[weights > 1e-3 * weights.max()] == pytest.approx(svm.min(), rel=1e-3)
    assert 0 < error < 0.2


# ---------------------------------------------------------------------- figure 8


def test_large_softness_gives_all_points_the_same_say():
    # The Gram matrix becomes diagonal, version space an orthant, and both centres have all
    # coefficients alike (in units of the points' lengths).
    toy = toys.random_toy(np.random.default_rng(8))
    space = VersionSpace(toy.X @ toy.X.T, toy.y, softness=1e6)
    svm, bpm = jmlr_figure_8.machines(space, 4000, 0)
    lengths = np.linalg.norm(toy.X, axis=1)
    # The SVM's margins y_i <w, x_i> are equal, so its angles to walls are not.
    assert toy.y * svm * lengths**2 == pytest.approx(np.mean(toy.y * svm * lengths**2), rel=1e-3)
    scaled = toy.y * bpm * lengths
    assert scaled == pytest.approx(scaled.mean(), rel=0.15)


def test_hard_machines_of_the_toy_problem_are_those_of_figure_6():
    run = Run("jmlr-figure-6")
    hard = np.array(jmlr_figure_8.solve_toy(run.entropy(0), 20))[0]
    # The same points and teacher, and the same test points, come from the same generator.
    assert hard[[1, 0]] == pytest.approx(jmlr_figure_6.solve([run.entropy(0)])[0][[2, 4]])


def test_points_of_unit_length_leave_the_hard_bayes_point_as_it_is():
    toy = jmlr_figure_8.solve_toy([3, 1], 20, lambdas=(0.0,))[0]
    unit_length = jmlr_figure_8.solve_toy([3, 1], 20, lambdas=(0.0,), unit_length=True)[0]
    assert unit_length[1] == toy[1]
    assert unit_length[0] != toy[0]


# ---------------------------------------------------------------------- splits of data sets


def test_equal_rows_are_one_wall_and_contradictions_stay():
    X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])
    rows, y = tools.distinct(X, np.array([1, 1, -1, -1]))
    assert sorted(zip(rows.tolist(), y.tolist(), strict=True)) == [
        ([0.0, 1.0], -1.0), ([1.0, 2.0], -1.0), ([1.0, 2.0], 1.0),
    ]  # fmt: skip


def test_splits_of_table_1_go_to_their_sets(monkeypatch):
    names = list(jmlr_table_1.TABLE_1)
    monkeypatch.setattr(
        jmlr_table_1, "solve",
        lambda name, splits, n_draws: [[names.index(name), split, n_draws] for split in splits],
    )  # fmt: skip

    class Seven(Run):
        def size(self, published, quick):
            return 7 if published == 100 else quick

    data = jmlr_table_1.measure(Seven("jmlr-table-1"))  # in parts of four and three
    for name in names:
        assert data["sets"][name]["svm"] == names.index(name)
        assert data["sets"][name]["bpm"] == 4


def data_or_skip():
    if not os.environ.get(datasets.VARIABLE):
        pytest.skip(f"{datasets.VARIABLE} is not set")
    try:
        datasets.raetsch("heart", 1)
        datasets.load("sonar")
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.data
@pytest.mark.parametrize("name", ["heart", "sonar"])
def test_rows_of_table_1_are_errors_on_the_test_set(name):
    data_or_skip()
    X, y, X_test, y_test = tools.split_of(name, 2)
    assert len(y) / (len(y) + len(y_test)) == pytest.approx(0.6, abs=0.04)
    [[svm, bpm, angle]] = jmlr_table_1.solve(name, [2], 20)
    for error in (svm, bpm):
        wrong = error / 100 * len(y_test)
        assert wrong == pytest.approx(round(wrong), abs=1e-6)
        assert error < 45  # better than guessing
    assert 0 < angle < 1
    X, y = tools.distinct(X, y)
    gamma = 1 / (2 * jmlr_table_1.TABLE_1[name][0] ** 2)
    space = VersionSpace(rbf_kernel(X, gamma=gamma), y)
    outputs = rbf_kernel(X_test, X, gamma=gamma) @ tools.max_margin_coef(space)
    assert svm == pytest.approx(tools.error_rate(outputs, y_test))


@pytest.mark.data
def test_a_split_of_heart_in_figure_8():
    data_or_skip()
    [rows] = jmlr_figure_8.solve("heart", [(1, 0)], 20)
    assert rows.shape == (len(jmlr_figure_8.LAMBDAS), 3)
    errors, differ = rows[:, :2], rows[:, 2]
    assert np.all(np.abs(errors[:, 0] - errors[:, 1]) <= differ + 1e-9)
