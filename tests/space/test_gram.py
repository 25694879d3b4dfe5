"""Rows of the Gram matrix: the same bits whatever else is asked for, within the budget."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._support.threads import open_threads
from bayespoint.space.kernels import BLOCK_ROWS, Kernel
from bayespoint.space.rows import FullRows, GramRows, apply_kernel

# A prime, so that no block size divides it; larger than any block.
M = 1103
FEATURES = 37


def inner_products(A, B):
    return A @ B.T


def make_points(layout="dense", dtype=np.float64):
    rng = np.random.default_rng(0)
    if layout == "wide csr":  # 20 non-zeros a row; too wide to be made dense
        indices = rng.integers(2_000_000, size=20 * M)
        X = sp.csr_matrix((rng.random(20 * M).astype(dtype), indices, np.arange(0, 20 * M + 1, 20)))
        X.sum_duplicates()
        return X
    X = rng.normal(size=(M, 1009 if layout == "deep" else FEATURES))
    if layout == "csr":
        X[rng.random(X.shape) < 0.7] = 0.0
        X[:, 0] = 1.0
        return sp.csr_matrix(X.astype(dtype))
    return X.astype(dtype)


def make_rows(X, threads, n_cached=M, name="rbf", **settings):
    settings = {"gamma": 0.02, "bias": 0.5, "normalize": True, **settings}
    kernel = Kernel(name, **settings).fit_layout(X)
    cache_bytes = n_cached * X.shape[0] * X.dtype.itemsize
    return GramRows(kernel, kernel.prepare(X), cache_bytes=cache_bytes, threads=threads)


def fetch(rows, index):
    """Copies of some rows, which must all be there after one `ensure`."""
    index = np.asarray(index)
    rows.ensure(index)
    slots = rows.slot_of_row[index]
    assert np.all(slots >= 0)
    return rows.store[slots][:, : len(rows)].copy()


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request):
    with open_threads(request.param) as opened:
        yield opened


LAYOUTS = [("dense", np.float64), ("dense", np.float32), ("csr", np.float64), ("csr", np.float32)]
CASES = [(name, *layout) for name in ("rbf", "poly") for layout in LAYOUTS] + [
    ("linear", "dense", np.float32),
    ("laplacian", "dense", np.float64),
    ("laplacian", "csr", np.float32),
    (inner_products, "dense", np.float64),
    ("poly", "wide csr", np.float32),
    ("poly", "deep", np.float32),
    ("rbf", "deep", np.float64),
]


@pytest.mark.parametrize(("name", "layout", "dtype"), CASES)
def test_rows_have_the_same_bits_however_they_are_asked_for(name, layout, dtype):
    X = make_points(layout, dtype)
    rng = np.random.default_rng(1)
    with open_threads(1) as one, open_threads(2) as two:
        rows = make_rows(X, one, name=name)
        whole = fetch(rows, np.arange(M))
        assert rows.n_computed == M
        assert whole.dtype == dtype
        expected = rows.kernel(X)
        assert_allclose(whole, expected, atol=20 * np.finfo(dtype).eps * np.abs(expected).max())
        for threads, n_cached in ((two, M), (one, 3), (two, 200)):
            rows = make_rows(X, threads, n_cached, name=name)
            for size in (1, 1, 2, 5, 17, 64, 65, 100, 3, 1):
                index = rng.choice(M, size=size, replace=False)
                assert_array_equal(fetch(rows, index), whole[index])


def test_rows_of_the_last_points_alone_have_the_same_bits(threads):
    X = make_points()
    whole = fetch(make_rows(X, threads), np.arange(M))
    for i in (0, M - 1, M // 2):
        assert_array_equal(fetch(make_rows(X, threads, 1), [i])[0], whole[i])


def test_evicted_rows_come_back_unchanged(threads):
    X = make_points()
    whole = fetch(make_rows(X, threads), np.arange(M))
    rows = make_rows(X, threads, n_cached=M // 3)
    order = np.random.default_rng(2).permutation(M)
    for _ in range(2):
        for part in np.array_split(order, 11):
            assert_array_equal(fetch(rows, part), whole[part])
    assert rows.n_computed == 2 * M  # each round evicts what the last one left


def test_nothing_is_computed_twice_within_the_budget(threads):
    rows = make_rows(make_points(), threads, n_cached=M)
    for part in np.array_split(np.random.default_rng(3).permutation(M), 7):
        fetch(rows, part)
    fetch(rows, np.arange(M))
    assert rows.n_computed == M


@pytest.mark.parametrize("n_cached", [0, 1, 100, 300, 700, M, 5 * M])
def test_store_stays_within_the_budget_or_one_block(n_cached, threads):
    X = make_points("dense", np.float32)
    rows = make_rows(X, threads, n_cached)
    row_bytes = M * X.dtype.itemsize
    fetch(rows, np.arange(50))
    assert rows.store.nbytes <= max(n_cached, BLOCK_ROWS) * row_bytes
    assert rows.store.nbytes <= M * row_bytes
    # Nor is a budget left unused that could hold all rows.
    if n_cached >= M:
        assert rows.store.nbytes == M * row_bytes


def test_rows_used_last_are_kept_and_rows_used_first_make_room(threads):
    capacity = 600
    rows = make_rows(make_points(), threads, n_cached=capacity)
    fetch(rows, np.arange(capacity))
    fetch(rows, np.arange(100))  # used again: now the youngest
    fetch(rows, np.arange(capacity, capacity + 400))
    assert rows.n_computed == capacity + 400
    fetch(rows, np.arange(100))  # survived
    fetch(rows, np.arange(500, 600))  # survived: 100 to 499 were older
    assert rows.n_computed == capacity + 400
    fetch(rows, [100])  # gone
    assert rows.n_computed == capacity + 401


def test_a_row_just_asked_for_is_never_evicted_for_another_of_the_same_request(threads):
    capacity = 600
    rows = make_rows(make_points(), threads, n_cached=capacity)
    whole = make_rows(make_points(), threads)
    fetch(rows, np.arange(capacity))
    # Old and new rows together fill the store: all of them must be there at once.
    request = np.concatenate([np.arange(0, capacity, 2), np.arange(capacity, capacity + 300)])
    assert_array_equal(fetch(rows, request), fetch(whole, request))
    assert rows.n_computed == capacity + 300


def test_when_more_rows_are_wanted_than_fit_the_first_ones_win(threads):
    rows = make_rows(make_points(), threads, n_cached=600)
    order = np.random.default_rng(4).permutation(M)
    rows.ensure(order)
    assert np.all(rows.slot_of_row[order[: len(rows.store)]] >= 0)
    assert np.count_nonzero(rows.slot_of_row >= 0) == len(rows.store)


def test_asking_for_a_row_twice_at_once_changes_nothing(threads):
    rows = make_rows(make_points(), threads, n_cached=600)
    whole = fetch(make_rows(make_points(), threads), np.arange(M))
    for index in ([5, 5, 7], np.arange(400), [5, 7], np.arange(500, 1100), [5, 7, 5]):
        assert_array_equal(fetch(rows, index), whole[index])


def test_computing_that_was_interrupted_leaves_no_wrong_row(threads):
    X = make_points()
    calls_left = [10**9]

    def kernel(A, B):
        calls_left[0] -= 1
        if calls_left[0] < 0:
            raise KeyboardInterrupt
        return A @ B.T

    rows = make_rows(X, threads, n_cached=200, name=kernel)
    whole = fetch(make_rows(X, threads, name=inner_products), np.arange(M))
    fetch(rows, np.arange(150))
    for calls, first in ((0, 300), (1, 600)):
        calls_left[0] = calls
        with pytest.raises(KeyboardInterrupt):
            rows.ensure(np.arange(first, first + 150))
        calls_left[0] = 10**9
        for index in (np.arange(100, 200), np.arange(first - 10, first + 160)):
            assert_array_equal(fetch(rows, index), whole[index])


@pytest.mark.parametrize("name", ["callable", "precomputed"])
def test_a_matrix_that_breaks_cauchy_schwarz_is_refused_with_its_points(name, threads):
    K = np.eye(50)
    K[3, 41] = K[41, 3] = 2.0

    def look_up(A, B):
        return K[A[:, 0].astype(int)][:, B[:, 0].astype(int)]

    kernel = Kernel(look_up if name == "callable" else name)
    points = np.arange(50.0)[:, None] if name == "callable" else K
    rows = GramRows(
        kernel, kernel.prepare(points, diagonal=np.ones(50)), cache_bytes=10**6, threads=threads
    )
    with pytest.raises(ValueError, match=r"not positive semi-definite.*\[3, 41\]"):
        rows.ensure(np.arange(50))


@pytest.mark.parametrize("n_cached", [1, M])
def test_submatrix_in_any_order(n_cached, threads):
    X = make_points("dense", np.float32)
    rows = make_rows(X, threads, n_cached)
    index = np.random.default_rng(5).permutation(M)[:700]
    matrix = rows.submatrix(index)
    assert matrix.dtype == np.float64
    whole = fetch(make_rows(X, threads), np.arange(M))
    assert_array_equal(matrix, whole[np.ix_(index, index)])
    assert_array_equal(FullRows(whole).submatrix(index), matrix)


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
def test_apply_kernel_is_the_matrix_times_the_coefficients(name, layout, dtype):
    X = make_points(layout, dtype)
    Y = X[::7] if layout == "dense" else X[np.arange(0, M, 7)]
    kernel = Kernel(name, gamma=0.02, bias=0.5).fit_layout(X)
    coef = np.random.default_rng(6).normal(size=(M, 3))
    results = []
    for n_threads in (1, 2):
        with open_threads(n_threads) as threads:
            left, right = kernel.prepare(Y), kernel.prepare(X)
            results.append(apply_kernel(kernel, left, right, coef, threads))
    expected = kernel(Y, X).astype(np.float64) @ coef
    assert results[0].dtype == np.float64
    assert_allclose(results[0], expected, atol=500 * np.finfo(dtype).eps * np.abs(coef).max())
    assert_array_equal(results[0], results[1])
