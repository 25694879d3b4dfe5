"""Version space: margins, lengths, and certificates of emptiness that a linear programme checks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint._support.threads import open_threads
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import GramRows
from bayespoint.space.version_space import EmptyVersionSpaceError


def separable(X, y, subset=slice(None)):
    """Whether some w has y_i <w, x_i> >= 1 for all points of a subset (linear programme)."""
    Z = (y[:, None] * X)[subset]
    result = linprog(np.zeros(Z.shape[1]), A_ub=-Z, b_ub=-np.ones(len(Z)), bounds=(None, None))
    assert result.status in (0, 2)  # solved, or infeasible
    return result.status == 0


def with_bias(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return X, np.where(rng.random(30) < 0.3, -1, 1), rng.normal(size=30)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("softness", [0.0, 0.5])
def test_outputs_margins_and_length_are_those_of_the_softened_matrix(problem, softness, dtype):
    X, y, coef = problem
    K = (X @ X.T).astype(dtype)
    softened = K.astype(np.float64)
    softened[np.diag_indices(30)] *= 1 + softness
    space = VersionSpace(K, y, softness=softness)
    assert len(space) == 30
    assert_allclose(space.outputs(coef), softened @ coef, rtol=1e-12, atol=1e-12)
    assert_allclose(space.margins(coef), y * (softened @ coef), rtol=1e-12, atol=1e-12)
    assert_allclose(space.norm(coef), np.sqrt(coef @ softened @ coef), rtol=1e-12)
    # Negative control: softness is (1 + softness) K_ii, not K_ii + softness.
    if softness:
        wrong = K + softness * np.eye(30)
        assert np.abs(space.outputs(coef) - wrong @ coef).max() > 0.1


def test_rows_on_demand_give_what_the_matrix_gives(problem):
    X, y, coef = problem
    X = np.vstack([X + i for i in range(20)])
    y, coef = np.tile(y, 20), np.tile(coef, 20)
    kernel = Kernel("rbf", gamma=0.1, normalize=False).fit_layout(X)
    with open_threads(1) as threads:
        rows = GramRows(kernel, kernel.prepare(X), cache_bytes=1, threads=threads)
        on_demand, full = VersionSpace(rows, y, 0.1), VersionSpace(rbf_kernel(X, gamma=0.1), y, 0.1)
        assert_allclose(on_demand.margins(coef), full.margins(coef), atol=1e-9)
        assert_allclose(on_demand.norm(coef), full.norm(coef), rtol=1e-9)
        few = np.arange(0, 600, 7)
        assert_array_equal(on_demand.conflict(few) is None, full.conflict(few) is None)


# ---------------------------------------------------------------------- Gordan's certificate

CORNERS = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
STAR = np.array([[1.0, 0.123], [-0.4, 0.9], [-0.3, -0.77]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_contradictory_duplicates_are_the_conflict(problem, dtype):
    X, y, _ = problem
    X = np.vstack([X, X[11]])
    y = np.append(y, -y[11])
    K = rbf_kernel(X, gamma=1.0).astype(dtype)  # definite but for the repeated point
    assert_array_equal(VersionSpace(K, y).conflict(), [11, 30])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exclusive_or_is_a_conflict_of_its_four_corners(dtype):
    X = with_bias(CORNERS)
    y = np.array([1, 1, -1, -1])
    assert_array_equal(VersionSpace((X @ X.T).astype(dtype), y).conflict(), [0, 1, 2, 3])
    richer = VersionSpace(rbf_kernel(CORNERS).astype(dtype), y)
    assert richer.conflict() is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_three_points_that_span_the_plane_positively_are_a_conflict(dtype):
    for scale in (1.0, 1e-6, 1e6):
        X = scale * np.vstack([[1.0, 1.0], STAR[:2], [1.0, 0.5], STAR[2]])
        K = (X @ X.T).astype(dtype)
        found = VersionSpace(K, np.ones(5)).conflict()
        assert found is not None
        assert not separable(X, np.ones(5), found)
        assert_array_equal(VersionSpace(K, [1, 1, 1, 1, -1]).conflict() is None, True)


def test_the_conflict_named_is_one_and_spares_bystanders():
    rng = np.random.default_rng(1)
    n_empty = 0
    for _ in range(30):
        X = with_bias(rng.normal(size=(25, 2)))
        y = np.where(X[:, 0] + 0.4 * rng.normal(size=25) > 0, 1, -1)
        found = VersionSpace(X @ X.T, y).conflict()
        assert (found is None) == separable(X, y)
        if found is not None:
            n_empty += 1
            assert not separable(X, y, found)
            assert len(np.unique(found)) == len(found)
    assert 5 < n_empty < 25  # both answers were asked for


def test_the_linear_programme_would_catch_a_conflict_that_is_none():
    for missing in range(3):
        assert separable(STAR, np.ones(3), np.delete(np.arange(3), missing))
    assert not separable(STAR, np.ones(3))


@pytest.mark.parametrize("margin", [1e-1, 1e-3, 1e-5])
def test_a_narrow_version_space_is_not_called_empty(margin):
    X = np.array([[1.0, margin], [-1.0, margin], [0.5, 1.0]])
    assert VersionSpace(X @ X.T, np.ones(3)).conflict() is None


@pytest.mark.parametrize("scale", [1e-3, 1e-7, 1e-12])
def test_short_points_prove_nothing(scale):
    # The direction of a point counts, not its length: one classifier has both labels right.
    X = np.array([[1.0, 0.0], [scale, scale]])
    assert VersionSpace(X @ X.T, [1, 1]).conflict() is None


@pytest.mark.parametrize("scale", [1e-3, 1e-7])
def test_short_points_may_conflict_too(scale):
    X = STAR * np.array([[1.0], [scale], [1.0]])
    assert_array_equal(VersionSpace(X @ X.T, np.ones(3)).conflict(), [0, 1, 2])


def test_a_point_at_the_origin_is_a_conflict_by_itself():
    X = np.array([[1.0, 2.0], [0.0, 0.0], [2.0, 1.0]])
    assert_array_equal(VersionSpace(X @ X.T, [1, 1, 1]).conflict(), [1])


def test_softness_leaves_no_conflict():
    X = with_bias(np.vstack([CORNERS, CORNERS[0]]))
    y = np.array([1, 1, -1, -1, -1])
    assert VersionSpace(X @ X.T, y).conflict() is not None
    assert VersionSpace(X @ X.T, y, softness=0.01).conflict() is None


def test_only_candidates_are_named():
    X = with_bias(np.vstack([CORNERS, CORNERS]))
    y = np.array([1, 1, -1, -1] * 2)
    space = VersionSpace(X @ X.T, y)
    assert set(space.conflict([4, 5, 6, 7])) == {4, 5, 6, 7}
    assert space.conflict([0, 1, 2]) is None
    assert_array_equal(space.conflict(np.array([7, 6, 5, 4])), [4, 5, 6, 7])


def test_no_candidates_give_no_conflict_and_no_crash():
    # The solver, given no points, took the whole process along.
    space = VersionSpace(np.eye(60), np.ones(60))
    assert space.conflict(np.arange(0)) is None
    assert space.conflict([]) is None


def test_the_error_names_points_problem_and_remedy():
    error = EmptyVersionSpaceError(np.array([3, 17]), " for class 'b'")
    assert_array_equal(error.points, [3, 17])
    for part in ("for class 'b'", "[3, 17]", "softness > 0", "labels"):
        assert part in str(error)


# ---------------------------------------------------------------------- input

GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((2, 3)), r"square.*\(2, 3\)"),
        (np.ones(4), r"square.*\(4,\)"),
        (np.empty((0, 0)), "square"),
        ([[1.0, np.nan], [np.nan, 1.0]], "NaN or infinity"),
        ([[1.0, np.inf], [np.inf, 1.0]], "NaN or infinity"),
        ([[1.0, 0.5], [0.2, 1.0]], "not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], r"not positive semi-definite.*\[0, 1\]"),
        ([[-1.0, 0.0], [0.0, 1.0]], r"not positive semi-definite.*\[0\]"),
        (
            1.9 * np.eye(6) - 0.9,
            r"adding 3\.5 K\[i, i\] to the diagonal makes them inner products\.$",
        ),
        (
            np.ones((5, 5)) - np.diag([0, 0, 0, 2, 0]),
            r"definite: K\[i, i\] < 0 for rows \[3\] \(counted from 0\)\. Pass inner",
        ),
    ],
    ids=[
        "3 columns", "flat", "empty", "nan", "inf", "asymmetric", "indefinite", "negative",
        "opposed", "one below 0",
    ],
)  # fmt: skip
def test_what_is_no_gram_matrix_is_refused(K, message):
    y = np.ones(len(K))
    with pytest.raises(ValueError, match=message):
        VersionSpace(K, y)


@pytest.mark.parametrize(
    "y", [[1], [1, 0], [1, 2], [[1, 1]], ["a", "b"], [1, np.nan], [1, None], [True, False]]
)
def test_labels_other_than_plus_and_minus_one_are_refused(y):
    with pytest.raises(ValueError, match=r"y must hold .*-1 (or|and) \+1"):
        VersionSpace(GOOD, y)


@pytest.mark.parametrize("softness", [-0.1, np.nan, np.inf, "0.1", None, [0.1]])
def test_softness_must_be_a_finite_number_not_below_zero(softness):
    with pytest.raises(ValueError, match="softness must be a finite number >= 0"):
        VersionSpace(GOOD, [1, -1], softness=softness)


def test_integers_lists_fortran_order_and_read_only_arrays_will_do():
    frozen = np.asfortranarray(GOOD)
    frozen.flags.writeable = False
    for K in (frozen, GOOD.tolist(), GOOD.astype(np.float32), 2 * np.eye(2, dtype=int)):
        for y in ([1, -1], np.array([1, -1], dtype=np.int8), np.array([1.0, -1.0])):
            space = VersionSpace(K, y, softness=1)
            assert_allclose(space.outputs([1.0, 0.0])[0], 4.0)


def test_a_matrix_that_rounding_left_asymmetric_is_made_symmetric():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(300, 300))
    K = A @ A.T / 300 + np.eye(300)
    noisy = K + 1e-7 * rng.normal(size=K.shape)
    given = noisy.copy()
    space = VersionSpace(noisy, np.ones(300))
    np.testing.assert_array_equal(space.rows.store, space.rows.store.T)
    np.testing.assert_array_equal(noisy, given)  # the input is left alone
