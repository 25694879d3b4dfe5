"""Distances of the Laplacian kernel and their sums, against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._loops.city_block import LANES, city_block, city_block_sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 1), (3, 5, 4), (7, LANES + 3, 9)])
def test_distances(n, m, p, dtype):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((k, p)).astype(dtype) for k in (n, m))
    found = np.full((n, m), np.nan, dtype=dtype)  # whatever was there before
    city_block(A, np.ascontiguousarray(B.T), found)
    wanted = np.abs(A[:, None].astype(float) - B).sum(axis=2)
    assert_allclose(found, wanted, rtol=50 * np.finfo(dtype).eps)


def test_a_distance_has_the_same_bits_wherever_it_stands():
    X = np.random.default_rng(0).standard_normal((LANES + 10, 11)).astype(np.float32)
    found = np.empty((len(X), len(X)), dtype=np.float32)
    city_block(X, np.ascontiguousarray(X.T), found)
    assert_array_equal(found, found.T)
    part = np.empty((5, 3), dtype=np.float32)
    city_block(X[4:9], np.ascontiguousarray(X[LANES : LANES + 3].T), part)
    assert_array_equal(part, found[4:9, LANES : LANES + 3])


def test_sums_over_pairs():
    rng = np.random.default_rng(0)
    X, N = rng.standard_normal((30, 6)), rng.standard_normal((30, 30))
    found = np.full(6, np.nan)
    city_block_sums(X, N, found)
    away = np.abs(X[:, None] - X)
    assert_allclose(found, np.einsum("ij,ijk->k", np.triu(N, 1), away), rtol=1e-10)
