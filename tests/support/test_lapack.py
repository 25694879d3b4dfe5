"""Cholesky factors by LAPACK: the right numbers, and other threads run meanwhile."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg.lapack import dpotrf

from bayespoint._support import lapack


def matrix(n, dtype):
    A = np.random.default_rng(0).standard_normal((n, n))
    return np.asfortranarray(A @ A.T + n * np.eye(n), dtype=dtype)


@pytest.mark.parametrize("n", [1, 30, lapack.BLOCK + 1, 5 * lapack.BLOCK - 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factor_inverse_and_solutions(dtype, n):
    A, values = matrix(n, dtype), np.random.default_rng(1).standard_normal((n, 4))
    lower, eps = A.copy(order="F"), np.finfo(dtype).eps
    tol = {"rtol": 1e3 * eps, "atol": 1e2 * eps}
    assert lapack.factorise(lower)
    L = np.tril(lower)
    assert_allclose(L, np.linalg.cholesky(A), **tol)
    for transposed, triangle in ((False, L), (True, L.T)):
        columns = np.array(values, dtype=dtype, order="F")
        assert lapack.solve(lower, columns, transposed=transposed) is columns
        assert_allclose(triangle @ columns, values, **tol)
    inverse = lower.copy(order="F")
    lapack.invert(lower)
    assert_allclose(np.tril(lower) @ L, np.eye(n), **tol)
    lapack.inverse_of(inverse)
    assert_allclose(np.tril(inverse), np.tril(np.linalg.inv(A)), **tol)
    assert_allclose(np.triu(inverse, 1), np.triu(A, 1))  # stays


def test_a_matrix_that_has_no_factor():
    assert not lapack.factorise(np.asfortranarray(-np.eye(3)))


def test_arrays_in_another_order_are_refused():
    with pytest.raises(ValueError, match="Fortran order"):
        lapack.factorise(np.eye(4)[::2])
    assert lapack.factorise(np.zeros((0, 0), order="F"))


def counted_during(call):
    """How often another thread looks at the clock in the middle of a call."""
    seen, done = [], threading.Event()

    def look():
        while not done.is_set():
            seen.append(time.perf_counter())

    thread = threading.Thread(target=look)
    thread.start()
    begin = time.perf_counter()
    call()
    end = time.perf_counter()
    done.set()
    thread.join()
    margin = 0.3 * (end - begin)  # in which Python may switch before and after the call
    return sum(begin + margin < one < end - margin for one in seen)


def test_other_threads_run_meanwhile():
    """Unlike with SciPy's own functions. Three times each: the machine may be busy.

    Calls take much longer than the 5 ms after which Python switches threads.
    """
    A = np.asfortranarray(np.ones((3000, 3000)) + np.eye(3000))
    held = [counted_during(lambda: dpotrf(A, lower=1)) for _ in range(3)]
    assert min(held) == 0
    free = [counted_during(lambda: lapack.factorise(A.copy(order="F"))) for _ in range(3)]
    assert max(free) > 0
