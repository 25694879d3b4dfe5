"""The order of the training rows: what it does not depend on, and samples spread over it."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bayespoint.space import hashes
from bayespoint.space.hashes import limits, order_hashes, row_hashes, steps
from bayespoint.space.inputs import Inputs
from bayespoint.space.merging import spread_over


def table(kind="normal", n_rows=400):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 2 if kind == "two columns" else 12))
    if kind == "mixed":
        X[:, 1:] = X[:, 1:] > 1
    if kind == "counts":
        X = np.unique(rng.poisson(2.0, X.shape), axis=0).astype(float)
    if kind == "cents":
        X = np.round(X, 2)
    if kind == "sparse":
        X[rng.random(X.shape) < 0.6] = 0.0
    if kind == "wide":
        X = rng.standard_normal((n_rows, hashes.MOST_PLACED + 1))
    return X


KINDS = ["normal", "two columns", "mixed", "counts", "cents", "sparse", "wide"]


def keys(X):
    return Inputs(X).order_keys(np.arange(X.shape[0]))


def order(X):
    return np.argsort(keys(X), kind="stable")


def chaotic(X):
    """Order by hashes of the finest places with their columns."""
    return np.argsort(row_hashes(steps(X, *limits(X))[-1]))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_same_order_in_single_precision(kind):
    X = table(kind)
    assert_array_equal(order(X.astype(np.float32)), order(X))
    if kind == "normal":
        assert np.any(chaotic(X.astype(np.float32)) != chaotic(X))  # or this tells nothing


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_same_order_whatever_that_of_the_columns(kind):
    X = table(kind)
    other = X[:, np.random.default_rng(1).permutation(X.shape[1])]
    assert_array_equal(order(other), order(X))
    if kind == "normal":
        assert np.mean(chaotic(other) != chaotic(X)) > 0.9


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"wide"}))
def test_rows_have_the_same_order_whatever_the_units_of_columns(kind):
    X = table(kind)
    unit, offset = np.logspace(-6, 6, X.shape[1]), np.linspace(-10, 10, X.shape[1])
    assert_array_equal(order((X + offset) * unit), order(X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_have_the_keys_of_dense_ones(kind, dtype):
    X = table(kind).astype(dtype)
    assert_array_equal(keys(sp.csr_matrix(X)), keys(X))


def test_one_row_less_leaves_the_order_of_the_others():
    X = table()
    middle = int(np.argmin(np.abs(X).max(axis=1)))  # a row that sets no limits
    rest = np.delete(np.arange(len(X)), middle)
    assert_array_equal(rest[order(X[rest])], order(X)[order(X) != middle])


def test_a_constant_column_changes_no_key():
    X = table()
    assert_array_equal(keys(np.column_stack([X, np.full(len(X), 7.0)])), keys(X))


def test_rows_of_indicators_have_keys_of_their_own():
    X = np.unique((np.random.default_rng(0).random((2000, 30)) < 0.1).astype(float), axis=0)
    assert len(np.unique(keys(X))) == len(X)
    # In other columns as many ones: these alone do not tell rows apart.
    assert len(np.unique(row_hashes(X, alike=True))) == len(np.unique(X.sum(axis=1)))


def test_samples_spread_over_the_order_are_like_all_rows():
    X = table("two columns", 2000)
    X = X[order(X)]

    def far(sample):
        mean, deviation = np.abs(sample.mean(axis=0)), np.abs(sample.std(axis=0) - 1)
        return max(*mean, *deviation)

    for sample in (X[spread_over(2000, 100)], X[::7]):
        assert far(sample) < 0.2
    assert far(X[:100]) > 0.5  # rows of the same places


@pytest.mark.parametrize(("n_rows", "most"), [(0, 5), (5, 0), (5, 5), (5, 9), (10, 3), (1000, 7)])
def test_a_sample_is_spread_evenly(n_rows, most):
    chosen = spread_over(n_rows, most)
    assert len(chosen) == min(n_rows, most)
    assert np.all((chosen >= 0) & (chosen < n_rows))
    steps_between = np.diff([*chosen, n_rows]) if len(chosen) else np.ones(1)
    assert np.ptp(steps_between) <= 1


def test_keys_come_from_whatever_rows_are_beside(monkeypatch):
    X = table()
    expected = keys(X)
    monkeypatch.setattr(hashes, "COLUMN_TILE", 7)
    assert_array_equal(keys(X), expected)
    assert_array_equal(order_hashes(X[:9], *limits(X)), expected[:9])
