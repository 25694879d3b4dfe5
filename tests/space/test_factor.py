"""The factor of the Gram matrix: any rank, tiles of any number, the same bits on any threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

import bayespoint.space.factor as factor_module
from bayespoint._support.threads import open_threads
from bayespoint.space.factor import COLUMNS, RANK_TOLERANCE, TILE, Factor

# Rows and columns of a tile in most tests here, instead of 512.
SMALL = 32


@pytest.fixture
def small_tiles(monkeypatch):
    """Many tiles of few points."""
    monkeypatch.setattr(factor_module, "TILE", SMALL)


small = pytest.mark.usefixtures("small_tiles")


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


def assert_cholesky(m):
    A = features(m)
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == m
    assert_array_equal(factor.basis, np.arange(m))
    assert_allclose(in_full(factor), np.linalg.cholesky(K), atol=1e-12)


@small
def test_a_full_rank_matrix_gives_its_cholesky_factor():
    # One tile, and one more or less than one; several, the last of them ragged.
    for m in (1, 2, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL + 5):
        assert_cholesky(m)


def test_tiles_as_large_as_they_are():
    assert_cholesky(TILE + 1)
    assert_of_rank(TILE + 1, TILE)


SINGULAR = {
    "one dimension": (50, 1),
    "few dimensions": (SMALL + 1, 7),
    "as many dimensions as a tile": (SMALL + 40, SMALL),
    "a tile and some": (2 * SMALL + 9, SMALL + 20),
    "one too few": (SMALL + 1, SMALL),
}


@small
@pytest.mark.parametrize(("m", "rank"), SINGULAR.values(), ids=SINGULAR)
def test_a_singular_matrix_gives_a_factor_of_its_rank(m, rank):
    assert_of_rank(m, rank)


def assert_of_rank(m, rank):
    A = features(m, rank)
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == rank
    assert len(np.unique(factor.basis)) == rank
    assert_is_factor(factor, K)
    # As many independent points as there are dimensions span all others.
    basis = K[np.ix_(factor.basis, factor.basis)]
    assert np.linalg.cholesky(basis).diagonal().min() > 1e-5


@small
@pytest.mark.parametrize(("copy", "original"), [(7, 3), (40, 3), (99, 98), (99, 0)], ids=str)
def test_repeated_points_are_in_the_basis_once(copy, original):
    # Wherever the singular pivot turns up, what was factorised before it must be undone.
    A = features(100)
    A[copy] = -2.0 * A[original]
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == 99
    assert (copy in factor.basis) != (original in factor.basis)
    assert_is_factor(factor, K)
    F = in_full(factor)
    assert_allclose(F[copy], -2.0 * F[original], atol=1e-12)


@small
@pytest.mark.parametrize("zero", [0, 5, 69])
def test_points_at_the_origin_have_no_outputs(zero):
    A = features(70)
    A[zero] = 0.0
    K = A @ A.T
    factor = Factor(K.copy())
    assert factor.rank == 69
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
    "full rank": features(2 * SMALL + 3),
    "singular, three tiles": features(90, SMALL + 8),
    "repeated points": np.repeat(features(30), 3, axis=0),
    "one point": np.array([[3.0, 4.0]]),
    "one dimension": np.array([[3.0], [-4.0], [0.0]]),
}
every_space = pytest.mark.parametrize("A", SPACES.values(), ids=SPACES)


@small
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


@small
def test_any_number_of_vectors_at_once(monkeypatch):
    monkeypatch.setattr(factor_module, "SOLVED_NUMBERS", 1)
    for A in (features(60), features(60, 7)):
        factor = Factor(A @ A.T)
        white = np.random.default_rng(2).standard_normal((2 * COLUMNS + 3, factor.rank))
        for together in (factor.outputs, factor.coefficients):
            alone = np.vstack([together(vector[None]) for vector in white])
            for n_vectors in (0, 1, COLUMNS - 1, COLUMNS, COLUMNS + 1, len(white)):
                result = together(white[:n_vectors])
                assert result.shape == (n_vectors, 60)
                assert_allclose(result, alone[:n_vectors], atol=1e-12)


@small
@every_space
def test_the_whitener_gives_the_length_inside_the_span(A):
    K = A @ A.T
    factor = Factor(K.copy())
    P = factor.whitener()
    assert P.shape == (factor.rank, len(K))
    inverse = np.linalg.pinv(K, rcond=1e-10, hermitian=True)
    if factor.rank == len(K):  # of a singular matrix it is one of several
        for precision in (factor.precision(), factor.precision(P)):
            assert_allclose(precision, inverse.diagonal(), rtol=1e-8)
    assert_allclose(P @ K @ P.T, np.eye(factor.rank), atol=1e-8)
    # New points, partly outside of the span: k' K+ k is the squared length of the part inside.
    X = np.random.default_rng(3).normal(size=(4, A.shape[1]))
    U, s, _ = np.linalg.svd(A.T, full_matrices=False)
    inside = np.sum((X @ U[:, s > 1e-8 * s[0]]) ** 2, axis=1)
    assert_allclose(np.sum((P @ (A @ X.T)) ** 2, axis=0), inside)
    assert_allclose(np.sum(factor.white(X @ A.T) ** 2, axis=1), inside)


def test_scale_changes_nothing_but_scale():
    for A in (features(60), features(60, 7)):
        K = A @ A.T
        factor = Factor(K.copy())
        for scale in (1e-12, 1e12):
            scaled = Factor(scale * K)
            assert_array_equal(scaled.basis, factor.basis)
            assert_allclose(in_full(scaled), np.sqrt(scale) * in_full(factor), rtol=1e-9, atol=0)


# ---------------------------------------------------------------------- nearly singular


@small
@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", [1.0, 0.1, 1e-3, 1e-5])
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
    with pytest.raises(
        ValueError, match="kernel that it comes from, is not positive semi-definite"
    ):  # negative control: they are noisy
        Factor(K.copy())


# ---------------------------------------------------------------------- threads


@small
@pytest.mark.parametrize("A", [features(200), features(200, 90)], ids=["full", "singular"])
def test_bits_do_not_depend_on_the_number_of_threads(A, monkeypatch):
    monkeypatch.setattr(factor_module, "SOLVED_NUMBERS", 1)
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


@small
def test_a_factor_stops_when_it_is_told_to():
    A = features(100)
    answers = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        Factor(A @ A.T, stop=lambda: next(answers))
    assert Factor(A @ A.T, stop=lambda: False).rank == 100


def test_softness_lets_no_point_lie_in_the_span_of_the_others():
    A = features(40, 5)
    K = A @ A.T
    softness = 1e-11  # less than the tolerance
    softened = K + softness * np.diag(K.diagonal())
    assert Factor(softened.copy()).rank == 5
    assert Factor(softened.copy(), softness=softness).rank == 40
