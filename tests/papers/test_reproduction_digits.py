"""LSB and JMLR on handwritten digits: rejection, outputs of draws, images that matter."""

import numpy as np
import pytest
from helpers.items import verdicts

from bayespoint.papers import datasets
from bayespoint.papers.reproduction import digits, jmlr_figure_9, jmlr_figure_10
from bayespoint.papers.reproduction.folder import plain
from bayespoint.papers.reproduction.item import BETTER, OPEN, REFUTED, REPRODUCED, Run

TABLE = np.array(digits.MNIST_TABLE)


# ---------------------------------------------------------------------- digits


def test_rejection_leaves_out_the_least_confident_first():
    outputs = np.array([[k, -1.0] for k in np.linspace(0.01, 1, 100)])
    y = np.zeros(100, dtype=int)
    y[:5] = 1  # the five with the smallest output are wrong
    table = digits.rejection_table(outputs, y)
    expected = [100 * max(5 - share, 0) / (100 - share) for share in digits.REJECTED]
    np.testing.assert_allclose(table, expected)


def test_gap_and_output_differ_where_two_classes_are_near():
    outputs = np.tile([0.5, -0.5], (100, 1))
    outputs[0] = [0.90, 0.89]  # a large output, a small gap
    y = np.zeros(100, dtype=int)
    y[0] = 1
    assert digits.rejection_table(outputs, y)[1] > 0
    assert digits.rejection_table(outputs, y, "gap")[1] == 0


def test_groups_are_disjoint_runs():
    outputs = np.arange(2 * 3 * 7, dtype=float).reshape(2, 3, 7)
    first, second, third = digits.groups(outputs, 2)
    np.testing.assert_array_equal(first, outputs[:, :, :2].mean(axis=2))
    np.testing.assert_array_equal(second, outputs[:, :, 2:4].mean(axis=2))
    np.testing.assert_array_equal(third, outputs[:, :, 4:6].mean(axis=2))


def test_kernel_is_that_of_grey_values_up_to_a_factor():
    rng = np.random.default_rng(0)
    A, B = rng.integers(0, 256, (4, 9)), rng.integers(0, 256, (3, 9))
    published = (A @ B.T + 1.0) ** 5
    ours = digits.kernel(A / 255, B / 255)
    np.testing.assert_allclose(ours / published, ours[0, 0] / published[0, 0])
    unit = digits.kernel(A / 255, A / 255, normalize=True)
    np.testing.assert_allclose(unit.diagonal(), 1)


def test_outputs_of_draws_are_those_of_unit_classifiers():
    rng = np.random.default_rng(1)
    X = rng.random((60, 9)).astype(np.float32)
    y = np.arange(60) % 3
    clf = digits.fit(X, y, 10, seed=0, n_jobs=1)
    outputs = digits.draw_outputs(clf, X)
    assert outputs.shape == (60, 3, 10)
    assert np.abs(outputs).max() <= 1 + 1e-5  # cosines
    targets = np.where(y[:, None] == np.arange(3), 1, -1)
    assert np.all(targets[:, :, None] * outputs > -1e-5)  # no training errors
    mean = outputs.mean(axis=2)
    lengths = [clf.posterior(c).mean_norm for c in range(3)]
    np.testing.assert_allclose(mean / lengths, clf.cosines(X), atol=1e-5)


def test_measure_of_a_small_problem():
    rng = np.random.default_rng(2)
    X = rng.random((80, 9)).astype(np.float32)
    y = np.arange(80) % 4
    data = digits.measure_rejection((X, y, X, y), 20, seed=0, n_jobs=1)
    np.testing.assert_array_equal(data["tables"], np.zeros((2, 11)))  # consistent classifiers
    assert data["draws"] == [1, 2, 5, 10, 20]
    assert len(data["error"]) == len(data["error_sd"]) == 5


# ---------------------------------------------------------------------- rejection


def rejection_data(shift=0.0):
    rng = np.random.default_rng(3)
    tables = TABLE + shift + 0.02 * rng.standard_normal((10, 11))
    return plain({
        "n_train": 60_000, "n_test": 10_000, "tables": tables, "gap_tables": tables,
        "small_grey": tables[:3], "draws": digits.DRAWS,
        "error": [1.7, 1.65, 1.6, 1.48, 1.4, 1.4, 1.4], "error_sd": [0.1] * 6 + [np.nan],
    })  # fmt: skip


def test_figure_2_compares_all_published_numbers():
    assert verdicts("lsb-figure-2", rejection_data()) == [REPRODUCED] * 14


def test_figure_2_can_fail_and_can_be_better():
    assert set(verdicts("lsb-figure-2", rejection_data(0.5))[:12]) == {REFUTED}
    assert set(verdicts("lsb-figure-2", rejection_data(-0.3))[:11]) == {BETTER}
    data = rejection_data()
    data["tables"] = [table[::-1] for table in data["tables"]]
    data["error"][2] = 2.3
    assert verdicts("lsb-figure-2", data)[-2:] == [REFUTED, REFUTED]


def jmlr_9_data(usps=4.73):
    one = rejection_data()
    other = one | {"n_train": 7_291, "n_test": 2_007}
    other["tables"] = [np.linspace(usps + e, 1, 11).tolist() for e in (-0.1, 0, 0.1)]
    return {"mnist": one, "usps": other, "signed": other["tables"]}


def test_jmlr_figure_9_can_fail():
    assert set(verdicts("jmlr-figure-9", jmlr_9_data())) == {REPRODUCED}
    rows = jmlr_figure_9.compare(jmlr_9_data(6.0))
    assert rows[1].verdict == OPEN
    assert "USPS: comparable" in rows[5].what
    assert rows[5].verdict == REFUTED


# ---------------------------------------------------------------------- the images that matter


def figure_10_data(n_wrong=20, n_doubted=10, monotone=True):
    top = [
        {"image": "0f" * 128, "label": 3, "uses": 40 - k, "said": 5 if k < n_wrong else 3,
         "second": 5 if k < n_doubted else 3}
        for k in range(25)
    ]  # fmt: skip
    wrong = [0, 0, 2, 10, 30, 50, 10] if monotone else [0, 300, 2, 10, 30, 50, 10]
    return plain({
        "n_train": 7_291, "overlap": 15, "wrong": 100 + n_wrong, "doubted": 60, "top": top,
        "rank_correlation": 0.3,
        "groups": {"images": [3000, 3000, 800, 300, 100, 80, 11], "wrong": wrong},
    })  # fmt: skip


def test_figure_10_can_fail():
    assert set(verdicts("jmlr-figure-10", figure_10_data())) == {REPRODUCED}
    poor = figure_10_data(n_wrong=1, n_doubted=2, monotone=False)
    assert set(verdicts("jmlr-figure-10", poor)) == {REFUTED}


def test_images_survive_as_text():
    image = np.random.default_rng(6).integers(0, 16, 256)
    np.testing.assert_array_equal(
        jmlr_figure_10.as_image(jmlr_figure_10.as_text(image / 15)).ravel(), image
    )


def test_uses_count_perceptrons_with_a_coefficient():
    rng = np.random.default_rng(7)
    X = rng.random((40, 9)).astype(np.float32)
    y = np.arange(40) % 4
    uses = jmlr_figure_10.count_uses(X, y, 0, 1)
    clf = digits.fit(X, y, digits.N_PERCEPTRONS, seed=0, n_jobs=1)
    expected = sum((clf.posterior(c).coef != 0).sum(axis=0) for c in range(4))
    np.testing.assert_array_equal(uses, np.asarray(expected).ravel())


def test_groups_of_uses():
    uses, wrong = np.array([0, 1, 4, 5, 30, 99]), np.array([False, True, True, False, True, True])
    groups = jmlr_figure_10.group_errors(uses, wrong)
    assert groups["images"].tolist() == [1, 2, 1, 0, 0, 0, 2]
    assert groups["wrong"].tolist() == [0, 2, 0, 0, 0, 0, 2]


@pytest.mark.data
@pytest.mark.slow
def test_grey_values_and_digits_of_two_classes():
    try:
        mnist, usps = digits.grey("mnist"), digits.grey("usps")
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))
    for X, _, X_test, _ in (mnist, usps):
        assert X.dtype == np.float32
        assert (X.min(), X.max(), X_test.min(), X_test.max()) == (0, 1, 0, 1)
    run = Run("lsb-figure-1")
    X, y, X_test, y_test = digits.ones_and_twos(mnist, run.rng(0), 188, 453)
    assert (X.shape, X_test.shape) == ((188, 784), (453, 784))
    assert set(y.tolist()) == set(y_test.tolist()) == {-1, 1}
    part, label = digits.some(*mnist[:2], 100, run.rng(1))
    assert (part.shape, label.shape) == ((100, 784), (100,))
