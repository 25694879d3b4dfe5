"""What a fit chooses depends neither on the precision of its input nor on the order of columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier
from bayespoint.space import inputs
from bayespoint.space.hashes import row_hashes, steps

# Widths are learnt in single precision, by steps that end before every digit is settled.
WIDTHS = 1e-3
PROBABILITIES = 1e-4

CELLS = {"inference": "ep", "cell_size": 60, "n_landmarks": 0, "n_trees": 2, "bias": 1.0}
SETTINGS = {
    "default": {"kernel": "rbf"},
    "ard": {"gamma": "ard", "softness": 0.1, "bias": 1.0},
    "cells": CELLS,
    "evidence": {"inference": "ep", "gamma": "evidence", "softness": "evidence"},
}


def table(name):
    if name == "cells":
        X, y = make_moons(300, noise=0.3, random_state=0)
        return np.column_stack([X, np.random.default_rng(0).standard_normal(300)]), y
    X = np.random.default_rng(0).standard_normal((120, 6))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)


def fitted(X, y, name):
    return BayesPointClassifier(random_state=0, **SETTINGS[name]).fit(X, y)


def far(clf, other, columns=slice(None)):
    """Largest relative difference of widths, of which the other has those of some columns."""
    width = np.broadcast_to(clf.gamma_, clf.n_features_in_)[columns]
    return np.max(np.abs(np.log(width / np.broadcast_to(other.gamma_, clf.n_features_in_))))


def assert_same(clf, other, X, columns=slice(None)):
    assert other.kernel_ == clf.kernel_
    assert other.softness_ == pytest.approx(clf.softness_, rel=1e-6)
    assert other.bias_ == pytest.approx(clf.bias_, rel=1e-6)
    assert far(clf, other, columns) < WIDTHS
    p = other.predict_proba(X[:, columns])
    assert_allclose(p, clf.predict_proba(X), atol=PROBABILITIES)


@pytest.mark.parametrize("name", SETTINGS)
def test_precision_and_order_of_columns_leave_the_choice_as_it_is(name):
    X, y = table(name)
    clf = fitted(X, y, name)
    assert_same(clf, fitted(X.astype(np.float32), y, name), X)
    columns = np.random.default_rng(1).permutation(X.shape[1])
    assert_same(clf, fitted(X[:, columns], y, name), X, columns)


def test_another_order_of_rows_would_be_felt(monkeypatch):
    """Or the test above tells nothing: hashes of the finest places, each with its column."""
    monkeypatch.setattr(inputs, "order_hashes", lambda X, *ends: row_hashes(steps(X, *ends)[-1]))
    X, y = table("cells")
    clf = fitted(X, y, "cells")
    for other, columns in ((X.astype(np.float32), slice(None)), (X[:, ::-1], [2, 1, 0])):
        assert far(clf, fitted(other, y, "cells"), columns) > 10 * WIDTHS
