"""Kernel values against scikit-learn's, for every kernel, precision and layout."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import pairwise

from bayespoint.space import kernels
from bayespoint.space.kernels import BLOCK_ROWS, Kernel

# Rounding: fewer than a thousand units in the last place of the largest kernel value.
TOLERANCE = {np.float64: 1e-13, np.float32: 5e-6}
# What is left of a float32 distance of order 1 between centred points.
FAR_TOLERANCE = 1e-5
# What `fit_layout` allows before it takes float32 to float64.
CLUSTER_TOLERANCE = 2e-3

GAMMA, DEGREE, COEF0 = 0.3, 3, 0.7

# More points than one block has rows, and not a multiple of a power of two.
N_POINTS, N_OTHERS, N_FEATURES = 141, 37, 9


def inner_products(A, B):
    products = A @ B.T
    return products.toarray() if sp.issparse(products) else products


KERNELS = {
    "linear": pairwise.linear_kernel,
    "poly": lambda X, Y: pairwise.polynomial_kernel(X, Y, DEGREE, GAMMA, COEF0),
    "rbf": lambda X, Y: pairwise.rbf_kernel(X, Y, GAMMA),
    "laplacian": lambda X, Y: pairwise.laplacian_kernel(X, Y, GAMMA),
    "callable": inner_products,
}


def make_kernel(name, **settings):
    name = inner_products if name == "callable" else name
    return Kernel(name, gamma=GAMMA, degree=DEGREE, coef0=COEF0, **settings)


def make_points(layout, dtype, n_points=N_POINTS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_points, N_FEATURES))
    if layout != "dense":
        X[rng.random(X.shape) < 0.8] = 0.0
        X[:, 0] = 1.0  # no zero rows: they have no direction
    X = X.astype(dtype)
    return sp.csr_matrix(X) if layout == "csr" else X


def exact(name, X, Y, bias=0.0, normalize=False):
    """What must come out, from scikit-learn in float64: bias first, then unit lengths."""
    X, Y = (np.asarray(A.toarray() if sp.issparse(A) else A, dtype=np.float64) for A in (X, Y))
    values = KERNELS[name](X, Y) + bias
    if normalize:
        lengths = [np.sqrt(KERNELS[name](A, A).diagonal() + bias) for A in (X, Y)]
        values /= np.outer(*lengths)
    return values


def assert_kernel(values, expected, dtype):
    assert values.dtype == dtype
    assert_allclose(values, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["dense", "mostly zeros", "csr"])
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_scikit_learn(name, layout, dtype):
    X, Y = make_points(layout, dtype), make_points(layout, dtype, N_OTHERS, seed=1)
    plain = make_kernel(name, normalize=False).fit_layout(X)
    assert_kernel(plain(X), exact(name, X, X), dtype)
    assert_kernel(plain(Y, X), exact(name, Y, X), dtype)
    biased = make_kernel(name, bias=1.0, normalize=False).fit_layout(X)
    lengths = np.sqrt(exact(name, X, X, bias=1.0).diagonal())
    assert_kernel(biased.prepare(X).length, lengths, dtype)

    unit = make_kernel(name, bias=2.5, normalize=True).fit_layout(X)
    values = unit(Y, X)
    assert_kernel(values, exact(name, Y, X, bias=2.5, normalize=True), dtype)
    assert_kernel(unit(X).diagonal(), np.ones(N_POINTS), dtype)
    assert_array_equal(unit.prepare(X).length, np.ones(N_POINTS, dtype))
    # Negative control: bias after normalisation is something else.
    wrong = exact(name, Y, X, normalize=True) + 2.5
    with pytest.raises(AssertionError):
        assert_kernel(values, wrong, dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_blocks_of_columns_are_put_side_by_side(name, monkeypatch):
    monkeypatch.setattr(kernels, "MAX_BLOCK_COLUMNS", kernels.COLUMN_TILE)
    for layout in ("dense", "csr"):
        X = make_points(layout, np.float64, kernels.COLUMN_TILE + 5)
        Y = make_points(layout, np.float64, 3, seed=1)
        kernel = make_kernel(name, bias=1.0, normalize=True).fit_layout(X)
        assert_kernel(kernel(Y, X), exact(name, Y, X, bias=1.0, normalize=True), np.float64)


@pytest.mark.parametrize("name", KERNELS)
def test_training_and_new_points_may_differ_in_layout(name):
    X, Y = make_points("dense", np.float64), make_points("csr", np.float64, N_OTHERS, seed=1)
    for old, new in ((X, Y), (sp.csr_matrix(X), Y.toarray())):
        kernel = make_kernel(name, bias=1.0, normalize=True).fit_layout(old)
        expected = exact(name, new, old, bias=1.0, normalize=True)
        assert_kernel(kernel(new, old), expected, np.float64)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_become_the_csr_matrix_of_scipy(order, dtype):
    """Rows without entries, zeros with a sign and numbers that are hardly any are told apart."""
    X = np.zeros((50, 7), dtype=dtype, order=order)
    X[::3, 2], X[1::4, 6], X[5, 0], X[7] = 2.5, -1.0, np.finfo(dtype).tiny, 1.0
    X[8, 3] = -0.0
    given, expected = Kernel("linear", layout="sparse").prepare(X).X, sp.csr_matrix(X)
    assert given.shape == expected.shape
    for name in ("indptr", "indices", "data"):
        assert_array_equal(getattr(given, name), getattr(expected, name), strict=True)


def test_mixed_layouts_are_right_also_where_a_block_is_square():
    # As many features as rows of a block: a block taken for its transpose raises nothing.
    rng = np.random.default_rng(0)
    for n_features in (64, 128, 256, 512):
        X, Y = rng.normal(size=(2, 20, n_features))
        kernel = Kernel("linear", normalize=False).fit_layout(X)
        assert_allclose(kernel(sp.csr_matrix(Y), X), Y @ X.T, atol=1e-11)


def test_degree_may_be_large_or_broken():
    X = np.abs(make_points("dense", np.float64, N_OTHERS))
    for degree in (1, 2, 5, 7, 17, 1.5):
        kernel = Kernel("poly", gamma=0.1, degree=degree, coef0=1.0, normalize=False)
        expected = pairwise.polynomial_kernel(X, X, degree, 0.1, 1.0)
        assert_allclose(kernel(X), expected, rtol=1e-12)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_rbf_keeps_float32_far_from_the_origin(layout):
    X = make_points("dense", np.float32, N_OTHERS) + np.float32(1e3)
    expected = exact("rbf", X, X)
    X = sp.csr_matrix(X) if layout == "csr" else X
    kernel = make_kernel("rbf", normalize=False).fit_layout(X)
    assert_allclose(kernel(X), expected, atol=FAR_TOLERANCE)
    assert kernel(X).max() <= 1  # no squared distance below zero
    new = X[:5]
    assert_allclose(kernel(new, X), expected[:5], atol=FAR_TOLERANCE)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_rbf_keeps_float32_inside_clusters_far_from_each_other(layout):
    X = make_points("dense", np.float32, N_OTHERS) + np.float32(1e3)
    X[::2] -= np.float32(2e3)  # no centre is near to all points
    expected = exact("rbf", X, X)
    X = sp.csr_matrix(X) if layout == "csr" else X
    kernel = make_kernel("rbf", normalize=False).fit_layout(X)
    assert_allclose(kernel(X), expected, atol=CLUSTER_TOLERANCE)


def test_expanding_squares_about_the_origin_would_not_pass_the_test_above():
    X = make_points("dense", np.float32, N_OTHERS) + np.float32(1e3)
    norms = (X * X).sum(axis=1)
    naive = np.exp(-GAMMA * np.maximum(norms[:, None] + norms - 2 * X @ X.T, 0))
    assert np.abs(naive - exact("rbf", X, X)).max() > 1e3 * FAR_TOLERANCE


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_distances_of_huge_points_give_zero_and_one_or_an_error(name, dtype):
    huge = np.finfo(dtype).max ** 0.6  # its square overflows
    X = np.array([[huge, 0.0], [-huge, 1.0]], dtype=dtype)
    try:
        with np.errstate(all="ignore"):
            values = Kernel(name, normalize=False).fit_layout(X)(X)
    except ValueError as error:
        assert "overflow" in str(error) or "lost to rounding" in str(error)  # noqa: PT017
    else:
        assert_array_equal(values, np.eye(2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["linear", "poly"])
def test_overflow_names_the_rows_and_the_remedy(name, dtype):
    X = np.ones((4, 2), dtype=dtype)
    X[[1, 3], 0] = np.finfo(dtype).max ** 0.6
    with pytest.raises(ValueError, match=r"overflows float\d\d for rows \[1, 3\].*StandardScaler"):
        Kernel(name).fit_layout(X).prepare(X)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ["linear", "callable"])
def test_points_of_length_zero_have_outputs_zero(name, layout):
    X = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    X = sp.csr_matrix(X) if layout == "csr" else X
    kernel = make_kernel(name, normalize=True).fit_layout(X)
    assert_allclose(kernel(X), np.diag([0.0, 1.0, 0.0]), atol=1e-15)
    assert_array_equal(kernel.prepare(X).length, [0, 1, 0])
    with_bias = make_kernel(name, bias=1.0, normalize=True).fit_layout(X)
    assert_allclose(with_bias(X).diagonal(), np.ones(3), atol=1e-15)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: -(A @ B.T), r"not positive semi-definite: k\(x, x\) < 0 for rows \[0, 1"),
        (
            lambda A, B: 1.9 * (A[:, :1] == B[:, 0]) - 0.9,
            r"eigenvalue.*\(counted from 0\)\. Pass inner products\.$",
        ),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "NaN or infinity"),
        (lambda A, B: (A @ B.T)[:1], r"must return an array of shape .* returned shape \(1, "),
    ],
    ids=["negative", "opposed", "nan", "shape"],
)
def test_a_callable_that_is_no_kernel_is_refused_by_name(function, message):
    X = make_points("dense", np.float64, N_OTHERS)
    with pytest.raises(ValueError, match=message):
        Kernel(function)(X)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("n_points", [2, 3, BLOCK_ROWS])
def test_a_callable_that_transposes_is_refused_where_all_blocks_are_square(n_points, layout):
    X = make_points("dense", np.float64, n_points)
    X = sp.csr_matrix(X) if layout == "csr" else X
    with pytest.raises(ValueError, match=r"array of shape \((2, 1|3, 2)\) for (2 and 1|3 and 2)"):
        Kernel(lambda A, B: inner_products(B, A)).fit_layout(X)


def test_a_callable_is_called_once_more_for_its_shape_and_not_for_a_single_point():
    shapes = []

    def kernel(A, B):
        shapes.append((len(A), len(B)))
        return A @ B.T

    for n_points in (1, 2, 5):
        Kernel(kernel).fit_layout(np.ones((n_points, 2)))
    assert shapes == [(2, 1), (3, 2)]


def test_a_callable_may_return_lists_integers_and_read_only_arrays():
    X = np.round(make_points("dense", np.float64, 5))

    def read_only(A, B):
        values = A @ B.T
        values.flags.writeable = False
        return values

    def integers(A, B):
        return (A @ B.T).astype(int)

    for function in (lambda A, B: (A @ B.T).tolist(), integers, read_only):
        values = Kernel(function, bias=1.5, normalize=False)(X)
        assert values.dtype == np.float64
        assert_array_equal(values, X @ X.T + 1.5)


def test_the_kernel_changes_neither_the_points_nor_itself():
    X = make_points("dense", np.float64, N_OTHERS)
    kept = X.copy()
    X.flags.writeable = False
    for name in KERNELS:
        kernel = make_kernel(name, bias=1.0, normalize=True).fit_layout(X)
        assert_array_equal(kernel(X), kernel(X))
    assert_array_equal(X, kept)


# ---------------------------------------------------------------------- derivatives

# Of a central difference: the third derivative times the square of the step, and rounding over it.
STEP, DIFFERENCE_TOLERANCE = 1e-5, 1e-8


def by_differences(name, setting, settings, X):
    """Central difference of the Gram matrix in the logarithm of a setting."""
    up, down = (
        Kernel(name, **{**settings, setting: settings[setting] * np.exp(step)})(X)
        for step in (STEP, -STEP)
    )
    return (up - down) / (2 * STEP)


@pytest.mark.parametrize(
    ("bias", "normalize", "layout"),
    [(0.0, True, "csr"), (0.0, False, "dense"), (1.7, True, "dense"), (1.7, False, "csr")],
)
@pytest.mark.parametrize("name", ["rbf", "laplacian", "poly", "linear"])
def test_derivatives_are_those_of_differences(name, bias, normalize, layout):
    X = make_points(layout, np.float64, 30)
    settings = {
        "gamma": GAMMA, "degree": DEGREE, "coef0": COEF0, "bias": bias, "normalize": normalize,
    }  # fmt: skip
    found = Kernel(name, **settings).derivatives(X)
    expected = {"log_gamma"} if name != "linear" else set()
    assert set(found) == expected | ({"log_bias"} if bias else set())
    for of, values in found.items():
        differences = by_differences(name, of.removeprefix("log_"), settings, X)
        scale = np.abs(differences).max()
        assert_allclose(values, differences, rtol=0, atol=DIFFERENCE_TOLERANCE * max(scale, 1))
        # A negative control: the bias before normalisation is part of the derivative.
        if bias and normalize and of == "log_gamma":
            without = by_differences(name, "gamma", {**settings, "bias": 0.0}, X)
            assert np.abs(values - without).max() > 1e-2 * scale


def test_derivatives_where_kernel_values_vanish():
    """Far apart, exp(-gamma d) underflows to 0: so does its derivative."""
    found = Kernel("rbf", gamma=1e6).derivatives(np.array([[0.0], [1.0]]))
    assert_array_equal(found["log_gamma"], np.zeros((2, 2)))


def test_derivatives_of_unknown_kernels_are_those_of_the_bias():
    X = make_points("dense", np.float64, 6)
    assert set(make_kernel("callable", bias=1.0).derivatives(X)) == {"log_bias"}


@pytest.mark.parametrize(("sparse", "dtype"), [(False, np.float32), (True, np.float64)])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_a_width_for_each_feature_scales_its_column(name, sparse, dtype):
    rng = np.random.default_rng(3)
    X, widths = rng.normal(size=(40, 5)).astype(dtype), np.array([0.0, 0.1, 1.0, 2.0, 0.5])
    scaled = X * (np.sqrt(widths) if name == "rbf" else widths).astype(dtype)
    given = sp.csr_matrix(X) if sparse else X
    values = Kernel(name, gamma=widths, bias=0.5)(given)
    assert_allclose(values, Kernel(name, gamma=1.0, bias=0.5)(scaled), rtol=1e-5)
    one = Kernel(name, gamma=np.full(5, 0.7))(given)
    assert_allclose(one, Kernel(name, gamma=0.7)(given), rtol=1e-4)
    assert not np.allclose(values, Kernel(name, gamma=widths[::-1], bias=0.5)(given), rtol=0.1)


def test_products_in_tiles_have_the_same_bits_wherever_a_row_stands():
    rng = np.random.default_rng(4)
    for dtype in (np.float32, np.float64):
        A, B = (rng.normal(size=(n, 200)).astype(dtype) for n in (kernels.BLOCK_ROWS, 512))
        rows, columns = rng.permutation(len(A)), rng.permutation(len(B))
        moved = kernels.steady_product(A[rows], B[columns].T)
        expected = kernels.steady_product(A, B.T)[np.ix_(rows, columns)]
        assert np.array_equal(moved, expected)


def test_products_fall_back_to_double_where_bits_depend_on_places(monkeypatch):
    rng = np.random.default_rng(5)
    A, B = (rng.normal(size=(n, 64)).astype(np.float32) for n in (128, 512))
    monkeypatch.setattr(kernels, "steady_in_float32", lambda: False)
    found = kernels.steady_product(A, B.T)
    assert found.dtype == np.float32
    assert np.array_equal(found, (A.astype(float) @ B.T.astype(float)).astype(np.float32))
