"""Published error rates, on the data sets of the papers (long: -m slow)."""

import numpy as np
import pytest

from bayespoint import BayesPointClassifier
from bayespoint.papers import datasets

pytestmark = [pytest.mark.slow, pytest.mark.data]

PUBLISHED = {
    "kernel": "poly", "gamma": 1.0, "degree": 5, "coef0": 1.0,
    "normalize_kernel": False, "bias": 0, "softness": 0,
}  # fmt: skip
REJECTION_TABLE = [1.46, 1.10, 0.87, 0.67, 0.49, 0.37, 0.32, 0.26, 0.21, 0.14, 0.11]


def load(name):
    try:
        return datasets.load(name)
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def outputs(settings, X, y, X_test, seed):
    clf = BayesPointClassifier(**settings, n_draws=10, n_jobs=2, cache_size=4000, random_state=seed)
    return clf.fit(X, y).decision_function(X_test)


def errors(found, y, confidence):
    """Error in percent after rejecting 0, 1, ..., 10 %."""
    wrong = (found.argmax(axis=1) != y)[np.argsort(-confidence, kind="stable")]
    return [100 * wrong[: round(len(y) * (1 - k / 100))].mean() for k in range(11)]


def median_errors(settings, X, y, X_test, y_test, rule):
    tables = []
    for seed in range(3):
        found = outputs(settings, X, y, X_test, seed)
        ranked = np.sort(found, axis=1)
        confidence = ranked[:, -1] - (ranked[:, -2] if rule == "gap" else 0)
        tables.append(errors(found, y_test, confidence))
    return np.median(tables, axis=0)


def test_usps_with_the_published_kernel():
    X, y, X_test, y_test = load("usps")
    X, X_test = np.float32(X), np.float32(X_test)
    assert median_errors(PUBLISHED, X, y, X_test, y_test, "output")[0] <= 4.80  # paper: 4.73


def test_usps_with_unit_norm_and_rbf():
    X, y, X_test, y_test = load("usps")
    X, X_test = (unit(np.float32(A + 1)) for A in (X, X_test))
    settings = {"gamma": 4.0, "bias": 0}
    assert median_errors(settings, X, y, X_test, y_test, "gap")[0] <= 4.25


def test_mnist_with_the_published_kernel():
    X, y, X_test, y_test = load("mnist")
    X, X_test = (np.float32(A) / np.float32(255) for A in (X, X_test))
    table = median_errors(PUBLISHED, X, y, X_test, y_test, "output")
    assert table[0] <= 1.55
    np.testing.assert_allclose(table, REJECTION_TABLE, atol=0.12)


def test_mnist_with_unit_norm_and_rbf():
    X, y, X_test, y_test = load("mnist")
    X, X_test = (unit(np.float32(A)) for A in (X, X_test))
    table = median_errors({"gamma": 4.0, "bias": 0}, X, y, X_test, y_test, "gap")
    assert table[0] <= 1.25
    assert table[10] <= 0.10
