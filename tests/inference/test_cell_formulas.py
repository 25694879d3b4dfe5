"""Cells with landmarks against the Gaussian over all rows at once, and formulas that are wrong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.inference.ep.cells import cell
from bayespoint.inference.ep.cells.cell import (
    Factor,
    cavities,
    combine,
    message_of,
    own_part,
    propagate_cell,
)
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import Sites, propagate

M = 40
CELLS = [np.arange(0, 15), np.arange(15, M)]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((M, 3))
K = np.exp(-0.3 * np.sum((X[:, None] - X) ** 2, axis=-1))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(M) > 0, 1.0, -1.0)
SITES = Sites(RNG.gamma(1.0, size=M), RNG.standard_normal(M))
COPIES = RNG.integers(1, 4, size=M).astype(float)
ONES = np.ones(M)

VALUES, VECTORS = np.linalg.eigh(K[:8, :8])
FEATURES = K[:, :8] @ (VECTORS / np.sqrt(VALUES))


def likelihood(copies=1.0, noise=0.0):
    odds = np.full(M, np.inf if not noise else np.log((1 - noise) / noise))
    return Likelihood(Y, np.full(M, 0.1), odds, np.full(M, np.log1p(-noise)), copies)


def prior():
    """Covariance of all outputs: exact within cells, by landmarks between them."""
    covariance = FEATURES @ FEATURES.T
    for rows in CELLS:
        covariance[np.ix_(rows, rows)] = K[np.ix_(rows, rows)]
    return covariance


def exact(copies=ONES):
    """Mean and covariance of all outputs given the sites."""
    covariance = prior()
    inner = np.linalg.inv(np.eye(M) + covariance * (copies * SITES.tau))
    covariance = inner @ covariance
    return covariance @ (copies * SITES.nu), covariance


def part_of(rows, copies=ONES, own=True):
    features = FEATURES[rows]
    R = K[np.ix_(rows, rows)] - features @ features.T
    sites = Sites(SITES.tau[rows], SITES.nu[rows])
    return R, features, own_part(R if own else 0 * R, features, sites, copies[rows], "f8")


def by_cells(copies=ONES, own=True, counted=1):
    """Means and variances by messages; ``own``: the residual, ``counted``: copies of a message."""
    messages = [message_of(part, f) for _, f, part in (part_of(r, copies, own) for r in CELLS)]
    mean, variance = np.empty(M), np.empty(M)
    for number, rows in enumerate(CELLS):
        A, h = np.eye(8), np.zeros(8)
        for other, message in enumerate(messages):
            A += message.precision * (counted if other != number else 0)
            h += message.shift * (counted if other != number else 0)
        R, features, _ = part_of(rows, copies)
        C = R + features @ np.linalg.solve(A, features.T)
        sites = Sites(SITES.tau[rows], SITES.nu[rows])
        found = combine(C, features @ np.linalg.solve(A, h), sites, copies[rows], "f8")
        mean[rows], variance[rows] = found.mean, found.variance
    return mean, variance


@pytest.mark.parametrize("copies", [ONES, COPIES], ids=["rows", "copies"])
def test_messages_give_the_gaussian_over_all_rows(copies):
    mean, covariance = exact(copies)
    found = by_cells(copies)
    assert_allclose(found[0], mean, atol=1e-10)
    assert_allclose(found[1], covariance.diagonal(), atol=1e-10)


@pytest.mark.parametrize("wrong", [{"own": False}, {"counted": 2}], ids=["residual", "twice"])
def test_wrong_messages_are_caught(wrong):
    mean, covariance = exact()
    found = by_cells(**wrong)
    assert np.max(np.abs(found[0] - mean)) > 1e-2
    assert np.max(np.abs(found[1] - covariance.diagonal())) > 1e-3


@pytest.mark.parametrize("copies", [1.0, COPIES], ids=["rows", "copies"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_one_cell_is_exact(dtype, copies):
    given = likelihood(copies)
    dense = propagate(K, given, tol=1e-9)
    tol, near = (1e-9, 1e-6) if dtype == "f8" else (1e-4, 2e-3)
    cell = propagate_cell(K, np.zeros(M), given, None, tol=tol, max_sweeps=200, dtype=dtype)
    assert cell.change <= tol
    assert_allclose(cell.gaussian.mean, K @ dense.gaussian.coef, atol=near)
    assert cell.log_evidence == pytest.approx(dense.log_evidence, abs=near)
    mean, variance = cavities(cell.gaussian, cell.sites)
    assert_allclose(mean, dense.gaussian.cavity_mean, atol=10 * near)
    assert_allclose(variance, dense.gaussian.cavity_variance, atol=10 * near)


def test_a_prior_mean_is_a_shift_of_the_outputs():
    """Two cells: the second given the sites of the first is the same as both at once."""
    given = likelihood()
    both = propagate(prior(), given, tol=1e-10)
    rest, rows = CELLS
    tau, nu = both.sites.tau[rest], both.sites.nu[rest]
    covariance = prior()
    gain = covariance[np.ix_(rows, rest)] @ np.linalg.inv(
        covariance[np.ix_(rest, rest)] + np.diag(1 / tau)
    )
    C = covariance[np.ix_(rows, rows)] - gain @ covariance[np.ix_(rest, rows)]
    part = Likelihood(*(np.broadcast_to(field, M)[rows] for field in given))
    cell = propagate_cell(C, gain @ (nu / tau), part, None, tol=1e-9, max_sweeps=200, dtype="f8")
    assert_allclose(cell.gaussian.mean, (prior() @ both.gaussian.coef)[rows], atol=1e-6)
    assert_allclose(cell.sites.tau, both.sites.tau[rows], atol=1e-6)


def test_sites_of_labels_that_may_be_wrong_are_never_negative():
    given = likelihood(noise=0.2)
    cell = propagate_cell(K, np.zeros(M), given, None, tol=1e-6, max_sweeps=200, dtype="f8")
    assert cell.change <= 1e-6
    assert np.all(cell.sites.tau >= 0)
    dense = propagate(K, given, tol=1e-6)
    assert_allclose(cell.gaussian.mean, K @ dense.gaussian.coef, atol=0.1)


def test_factors_in_double_precision_where_single_is_not_enough():
    X = np.linspace(-1, 1, 200)
    C = np.exp(-0.1 * (X[:, None] - X) ** 2)
    assert Factor(C, np.full(200, 1e2), np.float32).lower.dtype == np.float32
    assert Factor(C, np.full(200, 1e9), np.float32).lower.dtype == np.float64
    for tau in 10.0 ** np.arange(2, 10):
        B = np.eye(200) + tau * C
        for matrix in (C, np.asfortranarray(C), np.triu(C)):
            factor = Factor(matrix, np.full(200, tau), np.float32)
            assert_allclose(factor.log_determinant, 0.5 * np.linalg.slogdet(B)[1], rtol=1e-2)
            assert_allclose(factor.inverse_diagonal(), np.linalg.inv(B).diagonal(), rtol=1e-2)
    sites = Sites(np.full(40, 1e8), 1e8 * np.sign(X[:40] + 0.01))
    found, exact = (combine(C[:40, :40], np.zeros(40), sites, np.ones(40), t) for t in "fd")
    assert_allclose(found.variance, exact.variance, rtol=1e-6)
    assert_allclose(*(cavities(one, sites)[0] for one in (found, exact)), rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weak", [0.2, 0.9])
def test_variances_of_weak_sites_one_by_one_and_all_at_once(weak, dtype):
    many = weak > cell.MANY_WEAK
    tau = np.where(np.arange(M) < weak * M, 1e-4, 10.0)
    tau[:4] = 0, 1e-30, 1e-15, 1e-8  # what says nothing, or nearly
    found = combine(K, np.zeros(M), Sites(tau, np.zeros(M)), ONES, dtype)
    exact = np.diagonal(np.linalg.inv(np.linalg.inv(K + 1e-12 * np.eye(M)) + np.diag(tau)))
    assert_allclose(found.variance, exact, rtol=1e-4)
    factor = Factor(K, tau, dtype)
    assert np.mean(1 - factor.inverse_diagonal() <= cell.WEAK) == pytest.approx(weak)
    at_once, told = factor.variances(np.triu(K)), tau > cell.SILENT
    assert_allclose(at_once[told], exact[told], rtol=1e-4)
    of_weak = told & (tau < 1)
    assert np.array_equal(found.variance[of_weak], at_once[of_weak]) == many


# -------------------------------------------------------------------------------- tiny numbers


def narrow(n=80):
    """Covariance of a narrow kernel without bias, most of it tiny, and tau."""
    rng = np.random.default_rng(0)
    X = 6 * rng.random((n, 2))
    K = np.exp(-4 * np.sum((X[:, None] - X) ** 2, axis=2))
    return K, 10 * rng.random(n)


def test_tiny_covariances_are_0_in_single_precision_only():
    K, _ = narrow()
    tiny = K < cell.NOT_FELT
    assert 0.2 < np.mean(tiny) < 0.9
    single = cell.in_precision(K, np.dtype(np.float32))
    assert_array_equal(single == 0, tiny)
    assert_array_equal(single[~tiny], K[~tiny].astype(np.float32))
    assert cell.in_precision(K, np.dtype(np.float64)) is K
    scaled = cell.in_precision(1e-9 * K, np.dtype(np.float32))  # a share of the variance
    assert_array_equal(scaled == 0, tiny)


def test_tiny_covariances_are_not_felt(monkeypatch):
    K, tau = narrow()
    values = np.column_stack([K[:, 0], np.sin(np.arange(len(K)))])

    def solved():
        factor = cell.Factor(K, tau, np.dtype(np.float32))
        assert factor.lower.dtype == np.float32
        return factor.solve(values), factor.inverse_diagonal()

    def distance(one, other):
        return max(np.max(np.abs(a - b)) for a, b in zip(one, other, strict=True))

    found = solved()
    monkeypatch.setattr(cell, "NOT_FELT", 0.0)
    assert distance(found, solved()) < 1e-5
    monkeypatch.setattr(cell, "NOT_FELT", 1e-2)  # control: what is felt
    assert distance(found, solved()) > 1e-4
