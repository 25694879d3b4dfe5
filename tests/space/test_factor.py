"""The factor of the Gram matrix: any rank, tiles of any number, the same bits on any threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

import bayespoint.space.factor as factor_module
from bayespoint._support.threads import open_threads
from bayespoint.space.factor import COLUMNS, RANK_TOLERANCE, TILE, Factor

# One tile, and one more or less than one; several, the last of them ragged.
SIZES = (1, 2, 511, 512, 513, 1100)


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """Small products on a busy machine: threads of BLAS would wait for each other."""
    with open_threads(1):
        yield


def features(m, rank=None, seed=0):
    """Points as rows: generic ones of full rank, or in a space of few dimensions."""
    rng = np.random.default_rng(seed)
    if rank is not None:
        return rng.normal(size=(m, rank)) / np.sqrt(rank)
    return np.hstack([0.5 * np.eye(m), rng.normal(size=(m, 20)) / np.sqrt(20)])


def in_full(factor):
    """The factor F itself, (m, rank)."""
    return factor.outputs(np.eye(factor.rank)).T


def assert_is_factor(factor, K, atol=1e-12):
    F = in_full(factor)
    assert_allclose(F @ F.T, K, atol=atol * K.diagonal().max())


@pytest.mark.parametrize("m", SIZES)
def test_a_full_rank_matrix_gives_its_cholesky_factor(m):
    A = features(m)
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == m
    assert_array_equal(factor.basis, np.arange(m))
    assert_allclose(in_full(factor), np.linalg.cholesky(K), atol=1e-12)


SINGULAR = {
    "one dimension": (50, 1),
    "few dimensions": (513, 100),
    "as many dimensions as a tile": (600, TILE),
    "a tile and some": (700, 600),
    "one too few": (513, 512),
}


@pytest.mark.parametrize(("m", "rank"), SINGULAR.values(), ids=SINGULAR)
def test_a_singular_matrix_gives_a_factor_of_its_rank(m, rank):
    A = features(m, rank)
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == rank
    assert len(np.unique(factor.basis)) == rank
    assert_is_factor(factor, K)
    # As many independent points as there are dimensions span all others.
    basis = K[np.ix_(factor.basis, factor.basis)]
    assert np.linalg.cholesky(basis).diagonal().min() > 1e-5


@pytest.mark.parametrize(("copy", "original"), [(7, 3), (520, 3), (1099, 1098), (1099, 0)], ids=str)
def test_repeated_points_are_in_the_basis_once(copy, original):
    # Wherever the singular pivot turns up, what was factorised before it must be undone.
    A = features(1100)
    A[copy] = -2.0 * A[original]
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == 1099
    assert (copy in factor.basis) != (original in factor.basis)
    assert_is_factor(factor, K)
    F = in_full(factor)
    assert_allclose(F[copy], -2.0 * F[original], atol=1e-12)


@pytest.mark.parametrize("zero", [0, 5, 599])
def test_points_at_the_origin_have_no_outputs(zero):
    A = features(600)
    A[zero] = 0.0
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == 599
    assert zero not in factor.basis
    assert_is_factor(factor, K)
    assert_array_equal(in_full(factor)[zero], 0.0)


def test_a_matrix_of_zeros_has_no_directions():
    factor = Factor(np.zeros((3, 3)))
    assert factor.rank == 0
    assert_array_equal(factor.outputs(np.empty((2, 0))), np.zeros((2, 3)))
    assert_array_equal(factor.coefficients(np.empty((2, 0))), np.zeros((2, 3)))
    assert factor.white(np.zeros((2, 3))).shape == (2, 0)
    assert factor.whitener().shape == (0, 3)


# ---------------------------------------------------------------------- coordinates

SPACES = {
    "full rank": features(513),
    "singular, two tiles": features(700, 90),
    "repeated points": np.repeat(features(90), 3, axis=0),
    "one point": np.array([[3.0, 4.0]]),
    "one dimension": np.array([[3.0], [-4.0], [0.0]]),
}
every_space = pytest.mark.parametrize("A", SPACES.values(), ids=SPACES)


@every_space
def test_white_coordinates_coefficients_and_outputs_are_of_one_vector(A):
    K = A @ A.T
    factor = Factor(K.copy())
    white = np.random.default_rng(1).standard_normal((5, factor.rank))
    outputs, coef = factor.outputs(white), factor.coefficients(white)
    assert_allclose(coef @ K, outputs, atol=1e-9)  # K b = F x
    assert_allclose(factor.white(outputs), white, atol=1e-9)
    assert_allclose(np.einsum("ij,ij->i", coef, outputs), np.sum(white**2, axis=1))  # length
    outside = np.setdiff1d(np.arange(len(K)), factor.basis)
    assert_array_equal(coef[:, outside], 0.0)


@pytest.mark.parametrize("n_vectors", [0, 1, COLUMNS - 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS + 3])
def test_any_number_of_vectors_at_once(n_vectors, monkeypatch):
    monkeypatch.setattr(factor_module, "SOLVED_NUMBERS", 1, raising=False)
    for A in (features(60), features(60, 7)):
        factor = Factor(A @ A.T)
        white = np.random.default_rng(2).standard_normal((n_vectors, factor.rank))
        for together in (factor.outputs, factor.coefficients):
            result = together(white)
            assert result.shape == (n_vectors, 60)
            for k in range(n_vectors):
                assert_allclose(result[k], together(white[k : k + 1])[0], atol=1e-12)


@every_space
def test_the_whitener_gives_the_length_inside_the_span(A):
    K = A @ A.T
    factor = Factor(K.copy())
    P = factor.whitener()
    assert P.shape == (factor.rank, len(K))
    assert_allclose(P @ K @ P.T, np.eye(factor.rank), atol=1e-8)
    # New points, partly outside of the span: k' K+ k is the squared length of the part inside.
    X = np.random.default_rng(3).normal(size=(4, A.shape[1]))
    U, s, _ = np.linalg.svd(A.T, full_matrices=False)
    inside = np.sum((X @ U[:, s > 1e-8 * s[0]]) ** 2, axis=1)
    assert_allclose(np.sum((P @ (A @ X.T)) ** 2, axis=0), inside)
    assert_allclose(np.sum(factor.white(X @ A.T) ** 2, axis=1), inside)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_changes_nothing_but_scale(scale):
    for A in (features(60), features(60, 7)):
        K = A @ A.T
        factor, scaled = Factor(K.copy()), Factor(scale * K)
        assert_array_equal(scaled.basis, factor.basis)
        assert_allclose(in_full(scaled), np.sqrt(scale) * in_full(factor), rtol=1e-9, atol=0)


# ---------------------------------------------------------------------- nearly singular

GAMMAS = (1.0, 0.1, 0.01, 1e-3, 1e-5)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_nearly_singular_matrices_lose_no_more_than_the_tolerance(gamma, precision):
    X = np.random.default_rng(4).normal(size=(300, 3))
    K = rbf_kernel(X, gamma=gamma).astype(precision).astype(np.float64)
    tolerance = max(RANK_TOLERANCE, 300 * np.finfo(precision).eps)
    factor = Factor(K.copy(), precision)
    assert_is_factor(factor, K, atol=2 * tolerance)
    assert_array_equal(factor.rank < 300, gamma < 1 or precision is np.float32)
    # Nothing of what is kept is noise: coefficients give the outputs that they should.
    white = np.random.default_rng(5).standard_normal((20, factor.rank))
    assert_allclose(factor.coefficients(white) @ K, factor.outputs(white), atol=1e-7)
    # Nor has any point more length inside the span than it has.
    inside = np.sum(factor.white(K) ** 2, axis=1)
    assert np.all(inside < 1 + 2 * tolerance)
    assert np.all(inside > 1 - 2 * tolerance)


def test_noise_of_single_precision_does_not_count_as_dimensions():
    A = features(200, 5)
    K = (A @ A.T).astype(np.float32).astype(np.float64)
    assert Factor(K.copy(), np.float32).rank == 5
    with pytest.raises(ValueError, match="semi-definite"):  # negative control: they are noisy
        Factor(K.copy())


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("A", [features(1100), features(1100, 600)], ids=["full", "singular"])
def test_bits_do_not_depend_on_the_number_of_threads(A, monkeypatch):
    monkeypatch.setattr(factor_module, "SOLVED_NUMBERS", 1, raising=False)
    K = A @ A.T
    results = []
    for n_threads in (1, 2):
        with open_threads(n_threads) as threads:
            factor = Factor(K.copy(), threads=threads)
            white = np.random.default_rng(6).standard_normal((2 * COLUMNS + 9, factor.rank))
            outputs = factor.outputs(white)
            results.append(
                (factor.basis, outputs, factor.coefficients(white), factor.white(outputs))
            )
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


def test_a_factor_stops_when_it_is_told_to():
    A = features(1100)
    answers = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        Factor(A @ A.T, stop=lambda: next(answers))
    assert Factor(A @ A.T, stop=lambda: False).rank == 1100
