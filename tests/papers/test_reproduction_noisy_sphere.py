"""KGS's noisy classifiers on the sphere: data, maxima of the posterior, diversity, machines."""

import itertools

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from bayespoint.papers.reproduction import kgs_figure_3, kgs_figure_4, noisy_sphere


def random_set(seed, m, noise):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    return X, np.where(rng.random(m) < noise, -y, y), rng


# ---------------------------------------------------------------------- data and modes


def test_data_are_those_of_section_5():
    rng = np.random.default_rng(0)
    X, y = noisy_sphere.sphere_set(rng, 20_000, 0.05)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    wrong = np.where(X @ noisy_sphere.TRUTH > 0, 1, -1) != y
    assert np.mean(wrong) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))
    a = np.arccos(X[:, 2]) / np.pi  # Beta(5, 5): mean 1/2, variance 1/44
    assert np.mean(a) == pytest.approx(0.5, abs=0.005)
    assert np.var(a) == pytest.approx(1 / 44, rel=0.05)
    b = np.arctan2(np.abs(X[:, 1]), X[:, 0]) / np.pi  # Beta(0.1, 0.1): variance 1/4.8
    assert np.var(b) == pytest.approx(1 / 4.8, rel=0.05)


@pytest.mark.parametrize("m", [3, 4, 15])
def test_all_cells_of_the_sphere_are_found(m):
    X, y, rng = random_set(m, m, 0.3)
    maxima = noisy_sphere.local_maxima(X, y, rng)
    assert maxima.n_cells == m * (m - 1) + 2
    wrong = np.sum(y[:, None] * (X @ maxima.centres.T) < 0, axis=0)
    np.testing.assert_array_equal(wrong, maxima.errors)


@pytest.mark.parametrize("seed", range(2))
def test_local_maxima_are_those_found_by_search(seed):
    """Cells found around all corners; neighbours differ in the sign of one point."""
    X, y, rng = random_set(seed, 8, 0.4)
    first, second = np.triu_indices(8, 1)
    corners = np.cross(X[first], X[second])
    around = [
        corner * a + 1e-7 * (b * X[i] + c * X[j])
        for corner, i, j in zip(corners, first, second, strict=True)
        for a, b, c in itertools.product((-1, 1), repeat=3)
    ]
    signs = {tuple(row) for row in (y * (np.array(around) @ X.T) < 0)}
    assert len(signs) == 8 * 7 + 2
    tops = []
    for cell in signs:
        beside = [(*cell[:k], not cell[k], *cell[k + 1 :]) for k in range(8)]
        if all(sum(other) > sum(cell) for other in beside if other in signs):
            tops.append(sum(cell))
    maxima = noisy_sphere.local_maxima(X, y, rng)
    assert sorted(tops) == maxima.errors.tolist()


def test_labels_without_noise_have_one_maximum():
    for seed in range(8):
        X, y, rng = random_set(seed, 12, 0.0)
        maxima = noisy_sphere.local_maxima(X, y, rng)
        assert maxima.errors.tolist() == [0]
        assert np.all(y * (X @ maxima.centres[0]) > 0)


def test_walls_that_meet_up_to_rounding_make_no_maxima():
    """Most of these points are on one great circle, so that their walls meet in a point."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        X, y = noisy_sphere.clean_set(rng, 10)
        assert noisy_sphere.local_maxima(X, y, rng).errors.tolist() == [0]


def test_maxima_within_some_errors_are_the_best_of_all():
    X, y, _ = random_set(3, 30, 0.3)
    every = noisy_sphere.local_maxima(X, y, np.random.default_rng(0))
    best = noisy_sphere.local_maxima(X, y, np.random.default_rng(1), within=2)
    kept = every.errors <= every.errors[0] + 2
    np.testing.assert_array_equal(best.errors, every.errors[kept])
    np.testing.assert_allclose(best.centres, every.centres[kept])


def test_modes_are_apart_and_not_too_low():
    centres = np.array([[1, 0, 0], [np.cos(0.1), np.sin(0.1), 0], [0, 1, 0], [0, 0, 1]])
    maxima = noisy_sphere.Maxima(np.array([1, 1, 3, 9]), centres, 99)
    assert noisy_sphere.modes(maxima, np.log(4), 0.01, np.radians(15)) == [0, 2]
    assert noisy_sphere.modes(maxima, np.log(4), 0.01, np.radians(1)) == [0, 1, 2]
    assert noisy_sphere.modes(maxima, np.log(4), 0.5, np.radians(1)) == [0, 1]


def test_hills_by_how_far_they_rise():
    x, y = np.meshgrid(np.arange(40), np.arange(20))
    two = 10 * np.exp(-((x - 10) ** 2 + (y - 10) ** 2) / 8) + 5 * np.exp(
        -((x - 30) ** 2 + (y - 10) ** 2) / 8
    )
    assert noisy_sphere.hills(two, 1.0) == 2
    assert noisy_sphere.hills(two, 6.0) == 1
    around = 10 * np.exp(-(np.minimum(x, 40 - x) ** 2 + (y - 10) ** 2) / 8)
    assert noisy_sphere.hills(around, 1.0) == 1  # one hill across the first and last column
    assert noisy_sphere.hills(10.0 - y, 1.0) == 1  # around a pole


# ---------------------------------------------------------------------- figure 3


def test_diversity_is_the_share_of_points_where_pairs_differ():
    outputs = np.array([[1.0, 1.0], [1.0, -2.0], [3.0, 1.0]])
    assert kgs_figure_3.diversity(outputs) == pytest.approx(100 / 3)  # 2 of 3 pairs, 1 of 2 points
    rng = np.random.default_rng(0)
    signs = rng.normal(size=(9, 7))
    pairs = [np.mean((a > 0) != (b > 0)) for k, a in enumerate(signs) for b in signs[:k]]
    assert kgs_figure_3.diversity(signs) == pytest.approx(100 * np.mean(pairs))


def test_boundaries_survive_packing():
    X, y = kgs_figure_3.data_set(np.random.default_rng(1))
    coef = np.linalg.solve(kgs_figure_3.kernel(X, X) + 0.1 * np.eye(len(y)), y)[:, None]
    (text,) = kgs_figure_3.pack(kgs_figure_3.kernel(kgs_figure_3.grid(), X) @ coef)
    fine = kgs_figure_3.unpack(text)
    n_rows, n_columns = fine.shape
    x0, x1 = np.meshgrid(
        np.linspace(*kgs_figure_3.ENDS[0], n_columns), np.linspace(*kgs_figure_3.ENDS[1], n_rows)
    )
    true = kgs_figure_3.kernel(np.column_stack([x0.ravel(), x1.ravel()]), X) @ coef[:, 0]
    assert np.mean((true > 0) == (fine.ravel() > 0)) > 0.98


# ---------------------------------------------------------------------- figure 4


def cosine(v, w):
    return v @ w / np.linalg.norm(v) / np.linalg.norm(w)


def test_machine_with_slack_is_that_of_another_solver():
    X, y = noisy_sphere.sphere_set(np.random.default_rng(5), 40, 0.1)
    for slack in (0.1, 1.0, 10.0):
        svc = LinearSVC(C=0.5 / slack, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
        svc.fit(X, y)
        ours = kgs_figure_4.slack_margin(X, y, slack)
        assert cosine(ours, svc.coef_[0]) == pytest.approx(1, abs=1e-6)


def test_machine_with_endless_slack_is_the_mean_of_the_points():
    X, y = noisy_sphere.sphere_set(np.random.default_rng(5), 40, 0.1)
    assert cosine(kgs_figure_4.slack_margin(X, y, 1e6), X.T @ y) == pytest.approx(1, abs=1e-6)


def test_bayes_point_points_to_the_truth():
    X, y = noisy_sphere.sphere_set(np.random.default_rng(6), 100, 0.05)
    w = kgs_figure_4.bayes_point(X, y, 0.05, 0)
    assert np.linalg.norm(w) == pytest.approx(1, abs=1e-6)
    assert w @ noisy_sphere.TRUTH > np.cos(np.radians(30))
