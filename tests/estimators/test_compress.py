"""Fewer support points for the same decisions, within the stated tolerance everywhere."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import assert_refused
from scipy.special import log_softmax
from sklearn.datasets import load_digits, load_iris

from bayespoint import BayesPointClassifier
from bayespoint.io import model_file

# Perceptrons, whose Bayes points decide, with settings that data would choose otherwise.
SETTINGS = {
    "inference": "perceptron", "gamma": "scale", "softness": 0.1, "bias": 1.0,
    "n_draws": 20, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=5, return_X_y=True)
    return X[:300], y[:300], X[300:500]


@pytest.fixture(scope="module")
def fitted(digits):
    return BayesPointClassifier(**SETTINGS).fit(*digits[:2])


def everywhere(X):
    """Fresh points: at the data, near it, far away, at zero and along one axis."""
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(150, X.shape[1]))
    near = X[rng.integers(len(X), size=150)] + np.repeat([0.1, 3.0, 300.0], 50)[:, None] * noise
    return np.vstack([X, near, np.zeros_like(X[:1]), 1e5 * np.eye(X.shape[1])])


def largest_change(clf, small, X):
    return np.max(np.abs(clf.cosines(X) - small.cosines(X)))


@pytest.mark.parametrize("tol", [0.1, 0.01, 1e-3])
def test_cosines_change_by_at_most_the_tolerance(digits, fitted, tol):
    small = fitted.compress(tol)
    assert isinstance(small, BayesPointClassifier)
    assert len(small.support_) < len(fitted.support_) or tol < 0.01
    assert largest_change(fitted, small, everywhere(digits[2])) <= tol
    assert small.dual_coef_.shape == (5, len(small.support_))
    np.testing.assert_array_equal(small.support_vectors_, digits[0][small.support_])
    assert set(small.support_) <= set(fitted.support_)


def test_fewer_points_for_a_wider_tolerance(fitted):
    sizes = [len(fitted.compress(tol).support_) for tol in (0.2, 0.05, 0.01)]
    assert sizes[0] < sizes[1] < sizes[2] < len(fitted.support_)
    assert len(fitted.compress().support_) == sizes[2]  # the default


@pytest.mark.parametrize("two_classes", [False, True])
@pytest.mark.parametrize("normalize", [True, False])
def test_few_points_keep_probabilities_better_than_a_fit_of_cosines(digits, normalize, two_classes):
    """By a link a quarter as steep; the projection, which `tol` needs, keeps much less of them."""
    X, y, _ = digits
    y = y % 2 == 0 if two_classes else y
    clf = BayesPointClassifier("poly", normalize_kernel=normalize, **SETTINGS).fit(X, y)
    small = clf.compress(n_points=25)
    assert len(small.support_) == 25
    X, kept = clf.support_vectors_, np.flatnonzero(np.isin(clf.support_, small.support_))
    kernel, link = small.predictor_.support.kernel, clf.predictor_.link
    cosines, found = (model.cosines(X).reshape(len(X), -1) for model in (clf, small))
    values = kernel(X, small.support_vectors_)
    length = np.ones(len(X)) if normalize else np.sqrt(np.diag(kernel(X)))
    values /= length[:, None]
    best = values @ np.linalg.lstsq(values, cosines, rcond=None)[0]
    projected = values @ np.linalg.solve(values[kept], cosines[kept])

    def log_proba(z):
        scores = (z @ link.weights.T + link.offset) / 4
        scores = np.column_stack([np.zeros(len(z)), scores]) if two_classes else scores
        return log_softmax(scores, axis=1)

    def divergence(z):
        return np.sum(np.exp(log_proba(cosines)) * (log_proba(cosines) - log_proba(z)))

    assert divergence(found) < 0.96 * divergence(best)
    assert divergence(found) < 0.25 * divergence(projected)
    assert np.linalg.norm(found - cosines) < 1.1 * np.linalg.norm(best - cosines)


def test_as_many_points_as_are_needed_keep_the_tolerance(fitted):
    needed, bounded = fitted.compress(0.05), fitted.compress(0.05, n_points=10**9)
    np.testing.assert_array_equal(bounded.dual_coef_, needed.dual_coef_)
    assert len(fitted.compress(0.05, len(needed.support_) - 1).support_) < len(needed.support_)


def test_the_original_stays_as_it_was(digits, fitted):
    before = fitted.dual_coef_.copy(), fitted.predict_proba(digits[2])
    small = fitted.compress(0.05)
    np.testing.assert_array_equal(fitted.dual_coef_, before[0])
    np.testing.assert_array_equal(fitted.predict_proba(digits[2]), before[1])
    assert small.get_params() == fitted.get_params()
    np.testing.assert_array_equal(small.classes_, fitted.classes_)
    assert fitted.posterior(0).coef.shape[0] == 20


@pytest.mark.parametrize(
    ("kernel", "normalize", "layout"),
    [
        ("linear", True, sp.csr_matrix),
        ("linear", False, np.asarray),
        ("poly", True, np.float32),
        ("poly", False, sp.csr_matrix),
        ("rbf", True, np.asarray),
        ("rbf", False, np.float32),
        ("laplacian", True, sp.csr_matrix),
        ("laplacian", False, np.asarray),
    ],
)
def test_every_kernel_and_layout(kernel, normalize, layout):
    X, y = load_iris(return_X_y=True)
    clf = BayesPointClassifier(
        kernel, normalize_kernel=normalize, class_weight="balanced", **SETTINGS
    ).fit(layout(X[::2]), y[::2])
    small = clf.compress(0.15)
    new = everywhere(X[1::2])
    assert len(small.support_) < len(clf.support_)
    assert largest_change(clf, small, new) <= 0.15
    assert np.all(np.isfinite(small.predict_proba(new)))


def test_a_linear_machine_needs_no_more_points_than_dimensions():
    X, y = load_iris(return_X_y=True)
    clf = BayesPointClassifier("linear", **SETTINGS).fit(X, y)
    small = clf.compress(1e-5)
    assert len(small.support_) <= 5  # four features and the bias
    assert largest_change(clf, small, everywhere(X)) <= 1e-5


@pytest.mark.parametrize(("kernel", "tol"), [("linear", 1e-4), ("poly", 0.05), ("rbf", 1e-4)])
def test_single_precision_keeps_the_tolerance(kernel, tol):
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    clf = BayesPointClassifier(kernel, **SETTINGS).fit(X, y)
    small = clf.compress(tol)
    assert largest_change(clf, small, everywhere(X)) <= tol
    if tol > 1e-2:
        assert len(small.support_) < len(clf.support_)


def test_two_classes_and_twice(digits):
    X, y, new = digits
    clf = BayesPointClassifier(**SETTINGS).fit(X, y % 2 == 0)
    once = clf.compress(0.01)
    twice = once.compress(0.05)
    assert len(twice.support_) < len(once.support_)
    assert largest_change(clf, once, new) <= 0.01
    assert largest_change(once, twice, new) <= 0.05
    assert twice.decision_function(new).shape == (len(new),)


def test_a_tolerance_that_cannot_be_met_keeps_every_point(digits, fitted):
    small = fitted.compress(1e-14)
    assert largest_change(fitted, small, digits[2]) <= 1e-12
    assert len(small.support_) <= len(fitted.support_)


def test_a_tolerance_beyond_all_outputs(digits, fitted):
    for tol in (2.0, 1e6):
        small = fitted.compress(tol)
        assert largest_change(fitted, small, digits[2]) <= tol
        assert np.all(np.isfinite(small.predict_proba(digits[2])))


def test_a_file_of_it_agrees_with_itself(digits, fitted, tmp_path):
    """Which points are kept is held twice, and files that say two things are refused."""
    small = fitted.compress(0.05)
    model_file.save(tmp_path / "m.bpm", small)
    again = model_file.load(tmp_path / "m.bpm").classifier
    np.testing.assert_array_equal(again.support_, small.support_)
    np.testing.assert_array_equal(again.predict_proba(digits[2]), small.predict_proba(digits[2]))


def test_nothing_left_to_draw_from(digits, fitted):
    small = fitted.compress(0.05)
    for call in (lambda: small.posterior(0), lambda: small.sample_proba(digits[2])):
        with pytest.raises(ValueError, match="holds no draws"):
            call()


def test_refuses_what_depends_on_all_points():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    vote = BayesPointClassifier(decision="vote", **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="decision='bayes_point'"):
        vote.compress()
    given = BayesPointClassifier("precomputed", **SETTINGS).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="precomputed"):
        given.compress()


def test_bad_numbers_of_points(fitted):
    assert_refused(
        fitted.compress, [({"n_points": n}, "n_points must be") for n in (0, -1, 2.5, "few")]
    )


def test_bad_tolerances(fitted):
    assert_refused(
        fitted.compress, [({"tol": tol}, "tol must be") for tol in (0, -1.0, np.nan, "small", None)]
    )
