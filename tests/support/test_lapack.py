"""Cholesky factors by LAPACK: the right numbers, and other threads run meanwhile."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayespoint._support import lapack


def matrix(n, dtype):
    A = np.random.default_rng(0).standard_normal((n, n))
    return np.asfortranarray(A @ A.T + n * np.eye(n), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factor_inverse_and_solutions(dtype):
    A, values = matrix(30, dtype), np.random.default_rng(1).standard_normal((30, 4))
    lower, tol = A.copy(order="F"), {"rtol": 1e3 * np.finfo(dtype).eps, "atol": 1e-5}
    assert lapack.factorise(lower)
    L = np.tril(lower)
    assert_allclose(L, np.linalg.cholesky(A), **tol)
    for transposed, triangle in ((False, L), (True, L.T)):
        columns = np.asfortranarray(values, dtype=dtype)
        assert lapack.solve(lower, columns, transposed=transposed) is columns
        assert_allclose(triangle @ columns, values, **tol)
    lapack.invert(lower)
    assert_allclose(np.tril(lower) @ L, np.eye(30), **tol)


def test_a_matrix_that_has_no_factor():
    assert not lapack.factorise(np.asfortranarray(-np.eye(3)))


def test_other_threads_run_meanwhile():
    """A call that held the lock would let at most one switch happen, before or after it."""
    A, counted, done = matrix(1500, np.float64), [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    lapack.factorise(A)
    after = counted[0]
    done.set()
    thread.join()
    assert after > before + 100
