"""Rows of the Gram matrix: the same bits whatever else is asked for, within the budget."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._support.threads import open_threads
from bayespoint.space import kernels
from bayespoint.space.kernels import BLOCK_ROWS, COLUMN_TILE, MAX_BLOCK_COLUMNS, Kernel
from bayespoint.space.rows import FullRows, GramRows, apply_kernel

# A prime, so that no block size divides it; larger than a block, which has 512 columns here.
M = 521
FEATURES = 37

# Rows that a store keeps which is too small for all.
CAPACITY = 300


@pytest.fixture(autouse=True, scope="module")
def narrow_blocks():
    """Two blocks of columns, and so work for two threads."""
    assert COLUMN_TILE < M
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "MAX_BLOCK_COLUMNS", COLUMN_TILE)
        yield


def inner_products(A, B):
    return A @ B.T


def make_points(layout="dense", dtype=np.float64):
    """Points; the deep ones have so many features that products are summed in parts."""
    rng = np.random.default_rng(0)
    if layout == "wide csr":  # 20 non-zeros a row; too wide to be made dense
        indices = rng.integers(2_000_000, size=20 * M)
        X = sp.csr_matrix((rng.random(20 * M).astype(dtype), indices, np.arange(0, 20 * M + 1, 20)))
        X.sum_duplicates()
        return X
    X = rng.normal(size=(M, 601 if layout == "deep" else FEATURES))
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


@pytest.fixture
def threads():
    with open_threads(2) as opened:
        yield opened


@pytest.fixture(scope="module")
def whole():
    """All rows of the Gram matrix of `make_points`, computed at once."""
    with open_threads(1) as one:
        return fetch(make_rows(make_points(), one), np.arange(M))


CASES = [
    ("rbf", "dense", np.float64),
    ("rbf", "csr", np.float32),
    ("poly", "dense", np.float32),
    ("poly", "csr", np.float64),
    ("linear", "dense", np.float32),
    ("laplacian", "dense", np.float64),
    ("laplacian", "csr", np.float32),
    (inner_products, "dense", np.float64),
    ("poly", "wide csr", np.float32),
    ("rbf", "deep", np.float64),
    ("linear", "deep", np.float32),
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
        requests = ((two, M, (1, 17, 64)), (one, 3, (2, 100)), (two, 200, (65, 5, 1)))
        for threads, n_cached, sizes in requests:
            rows = make_rows(X, threads, n_cached, name=name)
            for size in sizes:
                index = rng.choice(M, size=size, replace=False)
                assert_array_equal(fetch(rows, index), whole[index])


def test_rows_of_more_points_than_the_widest_block(threads, monkeypatch):
    monkeypatch.setattr(kernels, "MAX_BLOCK_COLUMNS", MAX_BLOCK_COLUMNS)
    X = np.random.default_rng(0).normal(size=(MAX_BLOCK_COLUMNS + 9, 3))
    rows = make_rows(X, threads, n_cached=1, normalize=False)
    index = np.array([0, MAX_BLOCK_COLUMNS - 1, MAX_BLOCK_COLUMNS, len(X) - 1])
    distances = np.sum((X[index, None] - X) ** 2, axis=2)
    assert_allclose(fetch(rows, index), np.exp(-0.02 * distances) + 0.5, rtol=1e-12)


def test_rows_of_the_last_points_alone_have_the_same_bits(threads, whole):
    for i in (0, M - 1, M // 2):
        assert_array_equal(fetch(make_rows(make_points(), threads, 1), [i])[0], whole[i])


def test_evicted_rows_come_back_unchanged(threads, whole):
    rows = make_rows(make_points(), threads, n_cached=M // 3)
    order = np.random.default_rng(2).permutation(M)
    for _ in range(2):
        for part in np.array_split(order, 7):
            assert_array_equal(fetch(rows, part), whole[part])
    assert rows.n_computed == 2 * M  # each round evicts what the last one left


def test_nothing_is_computed_twice_within_the_budget(threads):
    rows = make_rows(make_points(), threads, n_cached=M)
    for part in np.array_split(np.random.default_rng(3).permutation(M), 7):
        fetch(rows, part)
    fetch(rows, np.arange(M))
    assert rows.n_computed == M


@pytest.mark.parametrize("n_cached", [0, 100, 300, M, 5 * M])
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
    rows = make_rows(make_points(), threads, n_cached=CAPACITY)
    fetch(rows, np.arange(CAPACITY))
    fetch(rows, np.arange(50))  # used again: now the youngest
    fetch(rows, np.arange(CAPACITY, CAPACITY + 200))
    assert rows.n_computed == CAPACITY + 200
    fetch(rows, np.arange(50))  # survived
    fetch(rows, np.arange(250, 300))  # survived: 50 to 249 were older
    assert rows.n_computed == CAPACITY + 200
    fetch(rows, [50])  # gone
    assert rows.n_computed == CAPACITY + 201


def test_a_row_just_asked_for_is_never_evicted_for_another_of_the_same_request(threads, whole):
    rows = make_rows(make_points(), threads, n_cached=CAPACITY)
    fetch(rows, np.arange(CAPACITY))
    # Old and new rows together fill the store: all of them must be there at once.
    request = np.concatenate([np.arange(0, CAPACITY, 2), np.arange(CAPACITY, CAPACITY + 150)])
    assert_array_equal(fetch(rows, request), whole[request])
    assert rows.n_computed == CAPACITY + 150


def test_rows_that_are_needed_outlive_those_used_later(threads, whole):
    rows, needs = make_rows(make_points(), threads, n_cached=CAPACITY), np.zeros(M, dtype=int)
    for first in (0, 150):
        fetch(rows, np.arange(first, first + 150))
    needs[:100] = 1
    wanted = np.arange(CAPACITY, CAPACITY + 200)
    rows.ensure(wanted, lambda: needs)
    kept = np.append(np.arange(100), wanted)
    assert np.all(rows.slot_of_row[kept] >= 0)
    assert_array_equal(fetch(rows, kept), whole[kept])


def test_needs_are_not_asked_for_while_there_is_room(threads):
    rows = make_rows(make_points(), threads, n_cached=CAPACITY)
    rows.ensure(np.arange(CAPACITY), lambda: pytest.fail("no row makes room"))


def test_when_more_rows_are_wanted_than_fit_the_first_ones_win(threads):
    rows = make_rows(make_points(), threads, n_cached=CAPACITY)
    order = np.random.default_rng(4).permutation(M)
    rows.ensure(order)
    assert np.all(rows.slot_of_row[order[: len(rows.store)]] >= 0)
    assert np.count_nonzero(rows.slot_of_row >= 0) == len(rows.store)


def test_asking_for_a_row_twice_at_once_changes_nothing(threads, whole):
    rows = make_rows(make_points(), threads, n_cached=CAPACITY)
    for index in ([5, 5, 7], np.arange(200), [5, 7], np.arange(250, 520), [5, 7, 5]):
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
    for calls, first in ((0, 200), (1, 350)):
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
    index = np.random.default_rng(5).permutation(M)[:350]
    matrix = rows.submatrix(index)
    assert matrix.dtype == np.float64
    whole = fetch(make_rows(X, threads), np.arange(M))
    assert_array_equal(matrix, whole[np.ix_(index, index)])
    assert_array_equal(FullRows(whole).submatrix(index), matrix)
    part = rows.part(index[:9])
    assert part.dtype == np.float32
    # BLAS may round the entries (i, j) and (j, i) differently: `matrix` takes the upper ones.
    upper = np.triu(matrix[:9, :9])
    assert_array_equal(part.matrix(), upper + np.triu(upper, 1).T)


def test_the_whole_matrix_is_symmetric_or_refused_where_it_does_not_fit(threads):
    skewed = make_rows(make_points("dense", np.float32), threads)
    matrix = skewed.matrix()
    assert_array_equal(matrix, matrix.T)
    assert_array_equal(skewed.matrix(), matrix)
    assert_allclose(matrix.diagonal(), skewed.diagonal, rtol=1e-6)
    with pytest.raises(ValueError, match=r"2 MB for 521 points; the store holds 1 MB.*cache_size"):
        make_rows(make_points(), threads, n_cached=CAPACITY).matrix()


APPLIED = [("rbf", "dense", np.float64), ("poly", "csr", np.float32), ("laplacian", "dense", "f4")]


@pytest.mark.parametrize(("name", "layout", "dtype"), APPLIED)
def test_apply_kernel_is_the_matrix_times_the_coefficients(name, layout, dtype):
    X = make_points(layout, dtype)
    Y = X[np.arange(0, M, 3)]  # more than a block of rows
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
