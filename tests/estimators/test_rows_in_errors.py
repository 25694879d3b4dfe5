"""Errors of predictions name rows of X, in whatever blocks and cells they are computed."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.active import query

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
BAD = [1030, 1090]  # beyond a block
NEW = RNG.normal(size=(1100, 3))
WAYS = {
    "ep": {"inference": "ep"},
    "cells": {"inference": "ep", "cell_size": 20},
    "billiard": {"inference": "billiard"},
    "perceptron": {"inference": "perceptron"},
    "onion": {"depth": 1},
}
ASKED = ("predict", "predict_proba", "cosines", "sample_proba", "predict_uncertainty")


def fitted(way, **settings):
    kind = OnionClassifier if way == "onion" else BayesPointClassifier
    n_draws = 100 if way == "onion" else 3
    options = {**FIXED, "n_draws": n_draws, "random_state": 0, **WAYS[way], **settings}
    return kind(**options).fit(X, Y)


def named(function, *arguments):
    """Rows that the error names."""
    with pytest.raises(ValueError, match=r"(rows|points) \[.*\] \(counted from 0\)") as caught:
        function(*arguments)
    found = re.search(r"\[([0-9, ]+)\]", str(caught.value))
    return [int(row) for row in found[1].split(",")], str(caught.value)


def with_bad(value):
    rows = NEW.copy()
    rows[BAD, 1] = value
    return rows


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_overflow(way):
    clf = fitted(way, kernel="poly", degree=3, gamma=1.0)
    for rows in (with_bad(1e150), sp.csr_matrix(with_bad(1e150))):
        for method in ASKED:
            found, _ = named(getattr(clf, method), rows)
            assert found == BAD
    if way != "onion":
        assert named(query, clf, with_bad(1e150))[0] == BAD
        rejecting = RejectingClassifier(clf, coverage=0.9, cv="prefit").fit(X, Y)
        assert named(rejecting.predict, with_bad(1e150))[0] == BAD


def own_nan(A, B):
    return np.where(A[:, :1] > 50, np.nan, A @ B.T)


def own_negative(A, B):
    return np.where((A[:, :1] > 50) & (B[:, 0] > 50), -1.0, A @ B.T)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", [own_nan, own_negative])
def test_rows_that_an_own_kernel_does_not_suit(way, kernel):
    """Of two points with NaN, the second may be any: the first is one of the bad ones."""
    rows = NEW.copy()
    rows[BAD, 0] = 99.0
    clf = fitted(way, kernel=kernel)
    for method in ASKED:
        assert named(getattr(clf, method), rows)[0][0] in BAD


def test_a_row_and_a_point_of_the_model():
    """Where a kernel fails for a new row and a training row, only the first is one of X."""

    def kernel(A, B):
        return np.where((A[:, :1] > 50) & (B[:, 0] < 50), np.nan, A @ B.T)

    rows = np.array([[99.0, 1.0, 0.0]])
    found, text = named(fitted("perceptron", kernel=kernel).cosines, rows)
    assert found == [0]
    assert "of X and a point of the model; clean its values" in text


def test_a_model_in_float32_is_asked_in_float64():
    clf = BayesPointClassifier(kernel="poly", inference="ep", **{**FIXED, "gamma": 1.0})
    clf.fit(X.astype(np.float32), Y)
    assert named(clf.predict_proba, with_bad(1e20))[0] == BAD
    for rows in (with_bad(1e200), sp.csr_matrix(with_bad(1e200))):
        found, text = named(clf.predict_proba, rows)
        assert found == BAD
        assert "too large for the float32" in text


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_no_numbers(value):
    clf, rows = fitted("ep"), with_bad(value)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    for given in (rows, rows.tolist(), sp.csr_matrix(rows), rows.astype(np.float32)):
        assert named(clf.predict, given)[0] == BAD
    named_clf = fitted("ep")
    named_clf.fit(pd.DataFrame(X, columns=frame.columns), Y)
    for given in (frame, frame.convert_dtypes() if np.isinf(value) else frame.astype("Float64")):
        found, text = named(named_clf.predict, given)
        assert found == BAD
        assert "in columns 'b', in rows" in text
    rows = X.copy()
    rows[7] = value
    assert named(clf.fit, rows, Y)[0] == [7]
