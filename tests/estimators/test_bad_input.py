"""Bad settings and bad data: one clear error that names the argument, or a right answer."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED, error_of
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, EmptyVersionSpaceError, OnionClassifier

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [-1.0, -0.5], [-2.0, 1.0], [0.5, -1.0]])
Y = np.array([0, 1, 1, 0, 0, 1])


def classifier(**settings):
    return BayesPointClassifier(**{"n_draws": 3, "random_state": 0, **FIXED, **settings})


def names(error, *words):
    assert any(word in str(error) for word in words), error


def by_default(**settings):
    """With settings that the data choose."""
    return BayesPointClassifier(**{"n_draws": 3, "random_state": 0, **settings})


BAD_VALUES = {
    "kernel": ["RBF", None, 3, ["rbf"]],
    "gamma": [
        0,
        -1.0,
        np.nan,
        np.inf,
        "auto",
        "x",
        None,
        True,
        np.ones(3),
        [1.0, -2.0],
        [1.0, np.nan],
        [0.0, 0.0],
        np.ones((2, 2)),
        ["a", "b"],
    ],
    "feature_groups": ["ab", 3, [0], [0, np.nan], [[0], [1]], np.zeros((2, 1), int), {0: 1, 1: 1}],
    "degree": [0, -2, np.inf, "3", None],
    "coef0": [-1.0, np.nan, "1", None],
    "normalize_kernel": ["no", None],
    "bias": [-1.0, np.nan, np.inf, "1", "held-out", None, True],
    "inference": ["svm", None, 3],
    "n_draws": [0, -3, 2.5, "10", None, True],
    "softness": [-0.1, np.nan, np.inf, "soft", "auto", None, True],
    "label_noise": [-0.1, 0.5, 2, np.nan, "some", "held-out", None, [0.0, 0.7]],
    "decision": ["votes", None, 3],
    "class_weight": ["even", {5: 1.0}, {0: 0.0}, {0: -1.0}, {1: np.nan}, {0: "a"}, 3, [1.0, 2.0]],
    "cache_size": [0, -1, np.nan, "big", None],
    "max_time": [0, -1.0, np.nan, "1 s"],
    "tol": [-1e-3, np.nan, "small", None],
    "warm_start": ["no", None],
    "device": ["gpu", None, 3],
    "n_jobs": [0, 1.5, "all"],
    "random_state": ["seed", -1, 1.5, np.random.default_rng(0)],
    "verbose": ["loud"],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_settings_are_named(name):
    for value in BAD_VALUES[name]:
        error = error_of(by_default(**{name: value}), X, Y)
        assert isinstance(error, ValueError), f"{value!r} was taken"
        assert re.search(rf"\b{name}\b", str(error)), error


GOOD_VALUES = [
    {"gamma": np.float32(0.5)}, {"n_draws": np.int64(4)}, {"degree": 2.0, "kernel": "poly"},
    {"softness": 0}, {"bias": 0}, {"label_noise": [0.0, 0.0]}, {"normalize_kernel": np.bool_(True)},
    {"class_weight": {}}, {"n_jobs": -1}, {"random_state": np.random.RandomState(0)},
    {"random_state": np.int64(7)}, {"random_state": None}, {"device": "auto"}, {"tol": 0},
    {"inference": "perceptron"}, {"cache_size": 0.001}, {"max_time": 60}, {"verbose": True},
    {"gamma": "evidence"}, {"bias": "evidence"}, {"softness": "evidence"},
    {"label_noise": "evidence"}, {"gamma": "held-out"}, {"softness": "held-out"}, {"bias": "auto"},
    {"gamma": "scale"}, {"gamma": "ard"}, {"gamma": [0.5, 0]}, {"inference": "ep"},
    {"inference": "ep", "decision": "calibrated"}, {"gamma": "ard", "feature_groups": ["a", "a"]},
    {"feature_groups": np.array([1, 0])},
]  # fmt: skip


def test_good_settings(capfd):
    for settings in GOOD_VALUES:
        clf = classifier(**settings).fit(X, Y)
        assert np.all(np.isfinite(clf.predict_proba(X))), settings
    capfd.readouterr()  # the progress line


def with_entry(value):
    wrong = X.copy()
    wrong[2, 1] = value
    return wrong


BAD_DATA = {
    "NaN": (with_entry(np.nan), Y, "NaN"),
    "infinity": (with_entry(np.inf), Y, "infinity"),
    "sparse NaN": (sp.csr_matrix(with_entry(np.nan)), Y, "NaN"),
    "one class": (X, np.ones(6, dtype=int), r"\by\b.*class"),
    "flat X": (X[:, 0], Y, "2D array"),
    "three-dimensional X": (X[None], Y, "dim"),
    "no rows": (X[:0], Y[:0], "0 sample"),
    "no columns": (X[:, :0], Y, "0 feature"),
    "one row": (X[:1], Y[:1], "class|sample"),
    "unequal lengths": (X, Y[:5], "inconsistent numbers of samples"),
    "text": (np.full((6, 2), "a"), Y, "convert|numeric"),
    "complex": (X + 1j, Y, "[Cc]omplex"),
    "continuous y": (X, X[:, 0] + 0.25, r"[Uu]nknown label type|continuous"),
    "missing y": (X, np.array([0, 1, np.nan, 0, 0, 1]), r"\by\b.*NaN"),
    "two columns of y": (X, np.column_stack([Y, Y]), r"\by\b"),
    "mixed y": (X, np.array([0, "a", 1, 0, "a", 1], dtype=object), "[Ll]abel|type"),
    "no y": (X, None, r"\by\b"),
}


@pytest.mark.parametrize(("data", "labels", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data(data, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        by_default().fit(data, labels)


@pytest.mark.parametrize(
    "weight",
    [np.full(6, np.nan), [1, 1, 1, 1, 1, np.inf], [-1, 1, 1, 1, 1, 1], np.ones(5), np.ones((6, 2)),
     np.zeros(6), ["a"] * 6, np.ones(6) + 1j],
    ids=["nan", "inf", "negative", "short", "2-d", "zero", "text", "complex"],
)  # fmt: skip
def test_bad_weights(weight):
    with pytest.raises(ValueError, match="sample_weight"):
        classifier().fit(X, Y, sample_weight=weight)


def test_one_class_left_after_weights():
    with pytest.raises(ValueError, match=r"\by\b.*class"):
        classifier().fit(X, Y, sample_weight=Y)


def test_bad_points_to_predict():
    clf = classifier().fit(X, Y)
    for new, message in [
        (X[:, :1], "features"), (X[0], "2D"), (with_entry(np.nan), "NaN"), (X[:0], "0 sample")
    ]:  # fmt: skip
        for method in (clf.predict, clf.predict_proba, clf.decision_function, clf.sample_proba):
            with pytest.raises(ValueError, match=message):
                method(new)


def test_bad_numbers_of_samples_and_machines():
    clf = classifier().fit(X, Y)
    for n_samples in (0, -1, 1.5, "two"):
        with pytest.raises((ValueError, TypeError), match="n_samples"):
            clf.sample_proba(X, n_samples)
    for i in (1, -1, 0.5, "a", None):
        with pytest.raises((ValueError, TypeError), match=r"\bi\b"):
            clf.posterior(i)


def test_not_fitted():
    clf = classifier()
    for call in (clf.predict, clf.predict_proba, clf.decision_function, clf.sample_proba):
        with pytest.raises(NotFittedError):
            call(X)
    for call in (clf.posterior, clf.compress):
        with pytest.raises(NotFittedError):
            call()
    for name in ("gamma_", "gamma_choice_", "softness_", "inference_reason_", "n_draws_"):
        assert not hasattr(clf, name)
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(clf, name)
    with pytest.raises(AttributeError, match="no attribute 'gama_'"):
        getattr(clf, "gama_")  # noqa: B009


KERNELS = ["linear", "poly", "rbf", "laplacian"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("size", "gamma"),
    [(1e200, "held-out"), (1e-200, "evidence"), (1e-160, "scale"), (1e200, "scale"), (1e-200, 1.0)],
)
def test_huge_and_tiny_values(kernel, size, gamma):
    clf = by_default(kernel=kernel, gamma=gamma)
    error = error_of(clf, size * X, Y)
    if error is not None:
        names(error, "features", "gamma")
        return
    assert np.all(np.isfinite(clf.dual_coef_))
    assert np.all(np.isfinite(clf.predict_proba(size * X)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_huge_values_to_predict(kernel):
    for layout, dtype in ((np.asarray, np.float32), (sp.csr_matrix, np.float64)):
        clf = classifier(kernel=kernel).fit(layout(X.astype(dtype)), Y)
        for size in (1e30, 1e200):
            try:
                p = clf.predict_proba(size * X)
            except ValueError as error:
                names(error, "X", "features")
                continue
            assert np.all(np.isfinite(p))


def test_degrees_that_are_no_whole_numbers():
    for degree in (0.5, 2.5):
        with pytest.raises(ValueError, match="degree"):
            classifier(kernel="poly", degree=degree, coef0=0.0).fit(X, Y)


def test_bad_gram_matrices():
    K = X @ X.T + 1
    for wrong, message in [
        (K[:, :4], "square"), (sp.csr_matrix(K), "[Ss]parse|dense"),
        (K + np.triu(np.ones_like(K)), "symmetric"), (-K, "positive semi-definite"),
        (1 - np.eye(6), "positive semi-definite|origin"),
    ]:  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            classifier(kernel="precomputed", bias=0).fit(wrong, Y)
    below = K.copy()
    below[3, 3] = -1
    with pytest.raises(ValueError, match=r"X\[i, i\] < 0 for rows \[3\] \(counted from 0\)"):
        classifier(kernel="precomputed", bias=2).fit(below, Y)
    clf = classifier(kernel="precomputed").fit(K, Y)
    with pytest.raises(ValueError, match="features"):
        clf.predict(K[:, :4])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [(lambda A, B: A @ B.T - 100, "positive semi-definite"), (lambda A, _: A, "shape"),
     (lambda A, B: np.full((len(A), len(B)), np.nan), "NaN"), (lambda _, __: "text", "kernel"),
     (lambda A, B: sp.csr_matrix(A @ B.T), "kernel"), (lambda _, __: None, "kernel")],
    ids=["indefinite", "shape", "nan", "text", "sparse", "none"],
)  # fmt: skip
def test_bad_callables(kernel, message):
    with pytest.raises((ValueError, TypeError), match=message):
        classifier(kernel=kernel, bias=0).fit(X, Y)


def test_a_callable_that_transposes_is_refused():
    """Up to the rows of one block it is called with as many rows on either side."""
    rng = np.random.default_rng(0)
    for n_rows in (2, 100, 128, 200):
        rows, labels = rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2
        for kind in (classifier, OnionClassifier):
            with pytest.raises(ValueError, match=r"kernel\(X, Y\) must return an array of shape"):
                kind(kernel=lambda A, B: rbf_kernel(B, A, gamma=2)).fit(rows, labels)


# What is added to the kernel of two rows, to that of the second and the first, and of the first.
FAULTS = {
    "not symmetric": (9, 0, 0),
    "not definite": (9, 9, 0),
    "NaN": (np.nan, 0, 0),
    "below 0": (0, 0, -99),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_about_kernels_name_rows_of_x(fault):
    """In the order of X; fits have rows in the order of their hashes, and equal ones once."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    rows[[7, 50]] = rows[3]
    labels = np.arange(200) % 2

    def kernel(A, B):
        K = A @ B.T
        for (i, j), more in zip(((100, 150), (150, 100), (100, 100)), FAULTS[fault], strict=True):
            K[np.ix_(A[:, 0] == rows[i, 0], B[:, 0] == rows[j, 0])] += more
        return K

    for clf in (classifier(kernel=kernel, bias=0), OnionClassifier(depth=1, kernel=kernel)):
        with pytest.raises(ValueError, match=r"(points|rows) \[") as caught:
            clf.fit(rows, labels)
        found = re.search(r"(?:points|rows) \[([0-9, ]+)\] \(counted from 0\)", str(caught.value))
        assert set(map(int, found[1].split(","))) <= {100, 150}
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_overflow_are_named(sparse):
    rows = np.random.default_rng(0).normal(size=(200, 3))
    rows[[17, 120]] *= 1e70
    given = sp.csr_matrix(rows) if sparse else rows
    with pytest.raises(ValueError, match=r"rows \[(17, 120|120, 17)\] \(counted from 0\) of X"):
        classifier(kernel="poly", degree=5, gamma=1.0).fit(given, np.arange(200) % 2)
    streaming = classifier(kernel="poly", degree=5, gamma=1.0, inference="ep", decision="vote")
    for _ in range(2):  # the first rows, and later ones
        with pytest.raises(ValueError, match=r"rows \[(17, 120|120, 17)\] \(counted from 0\) of X"):
            streaming.partial_fit(given, np.arange(200) % 2)
        streaming.partial_fit(given[:17], np.arange(17) % 2)


def test_points_at_the_origin_are_named():
    with pytest.raises(ValueError, match=r"rows \[3\].*bias"):
        classifier(kernel="linear", bias=0).fit(np.where(np.arange(6)[:, None] == 3, 0, X), Y)


def test_named_rows_do_contradict_each_other():
    rows, labels = load_iris(return_X_y=True)  # classes 1 and 2 overlap for a plane
    with pytest.raises(EmptyVersionSpaceError, match="class 1 against the rest") as caught:
        classifier(kernel="linear", softness=0).fit(rows, labels)
    part = caught.value.points
    assert len(part) < 10
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # as joblib does
    assert set(labels[part] == 1) == {True, False}
    with pytest.raises(EmptyVersionSpaceError):
        classifier(kernel="linear", softness=0).fit(rows[part], labels[part] == 1)


def test_a_warning_about_very_different_scales():
    rows, labels = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match=r"scales.*StandardScaler") as caught:
        classifier().fit((rows * [1.0, 1e-4, 1e4, 1.0])[::3], labels[::3])
    assert caught[0].filename == __file__  # at the line that called fit


def test_no_warning_about_ordinary_data():
    perceptrons = classifier(inference="perceptron", n_draws=1, decision="span_vote")
    for rows, labels in (load_iris(return_X_y=True), load_digits(return_X_y=True), images()):
        for layout in (np.asarray, sp.csr_matrix):
            perceptrons.fit(layout(rows[::6]), labels[::6])  # a warning is an error here


def images():
    """Bright blobs on black, as on handwritten digits: the border is almost never lit."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    center = 13.5 + rng.normal(size=(300, 2)) * [2, 2]
    grid = np.arange(28)
    across = np.exp(-0.5 * ((grid - center[:, :1]) / (2 + 3 * labels[:, None])) ** 2)
    down = np.exp(-0.5 * ((grid - center[:, 1:]) / 5) ** 2)
    return np.floor(255 * across[:, :, None] * down[:, None, :]).reshape(300, -1), labels


def test_a_warning_when_runs_do_not_converge():
    rng = np.random.default_rng(0)
    rows = np.sort(rng.normal(size=(60, 1)), axis=0)
    labels = np.arange(60) % 2  # separable, with margins beyond any patience
    clf = classifier(inference="perceptron", bias=1.0, softness=1e-6, gamma=0.5)
    with pytest.warns(ConvergenceWarning, match=r"\d+ of \d+ .*runs.*training points"):
        clf.fit(rows, labels)
    assert np.all(np.isfinite(clf.predict_proba(rows)))
