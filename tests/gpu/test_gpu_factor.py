"""The factor of a Gram matrix on a device is that of the CPU, or it is refused."""

# ruff: noqa: E402

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_rows import given_rows, gram_of, make_points

from bayespoint import VersionSpace
from bayespoint._support.devices import DeviceError
from bayespoint._support.threads import Threads
from bayespoint.gpu import factor as gpu_factor
from bayespoint.gpu import rows as gpu_rows
from bayespoint.inference.billiard.balls import coinciding_walls
from bayespoint.space.factor import Factor
from bayespoint.space.rows import FullRows


def factorise(K, softness, **options):
    return given_rows(K, **options).factorise(softness, Threads(1))


@pytest.mark.parametrize(("dtype", "slack"), [(np.float64, 1e-9), (np.float32, 2e-3)])
@pytest.mark.parametrize("softness", [0.01, np.linspace(0.01, 0.5, 70)], ids=["one", "each"])
def test_the_factor(dtype, slack, softness, monkeypatch):
    monkeypatch.setattr(gpu_factor, "COLUMNS", 16)
    X, _ = make_points(70)
    K = (gram_of("rbf", X) * np.outer(*2 * [np.linspace(1, 3, 70)])).astype(dtype)
    ours = factorise(K, softness)
    softened = K.astype(np.float64)
    softened[np.diag_indices_from(softened)] *= 1 + softness
    theirs = Factor(softened.copy())
    white = np.random.default_rng(0).normal(size=(3, 70))
    assert ours.rank == theirs.rank
    assert_array_equal(ours.basis, theirs.basis)
    near = {"rtol": slack, "atol": slack}
    assert_allclose(ours.outputs(white), theirs.outputs(white), **near)
    assert_allclose(ours.coefficients(white), theirs.coefficients(white), **near)
    assert_allclose(ours.solve(torch.from_numpy(white)), theirs.coefficients(white), **near)
    assert_allclose(ours.white(theirs.outputs(white)), white, **near)
    assert_allclose(ours.whitener(), theirs.whitener(), **near)
    assert_allclose(ours.precision(), np.linalg.inv(softened).diagonal(), rtol=slack)
    assert_allclose(ours.precision(ours.whitener()), ours.precision(), rtol=slack)
    # Pickled, it is the factor of the host.
    again = pickle.loads(pickle.dumps(ours))
    assert type(again) is Factor
    assert_allclose(again.outputs(white), ours.outputs(white), **near)


def test_a_factor_that_float32_cannot_have_comes_from_float64():
    K = gram_of("poly", make_points(200)[0]).astype(np.float32)
    softness = 1e-6
    softened = K.astype(np.float64) + softness * np.diag(K.diagonal().astype(np.float64))
    single = torch.from_numpy(softened.astype(np.float32))
    assert int(torch.linalg.cholesky_ex(single).info)  # or this tests nothing
    white = np.random.default_rng(0).normal(size=(3, 200))
    found = factorise(K, softness).outputs(white)
    assert_allclose(found, white @ np.linalg.cholesky(softened).T, atol=1e-5)


def test_singular_matrices_and_too_little_memory_are_refused(memory):
    with pytest.raises(ValueError, match=r"singular to rounding.*softness > 0"):
        factorise(np.ones((5, 5)), 0.0)
    K = np.eye(100)
    with pytest.raises(DeviceError, match=r"100 points does not fit.*; about \d+ points would"):
        factorise(K, 0.0, memory=8 * 31**2)
    memory(1000)
    with pytest.raises(DeviceError, match="100 points does not fit"):
        factorise(K, 0.0)
    # Room for one in float32, which is singular, and not for another in float64.
    memory(3 * 4 * 30**2)
    with pytest.raises(ValueError, match=r"in float64 needs .* more than the GPU has free"):
        factorise(np.ones((30, 30), dtype=np.float32), 0.0)


def test_ctrl_c_ends_a_factor_as_on_the_cpu():
    rows = given_rows(np.eye(20))
    assert rows.factorise(0.1, Threads(1), lambda: False).rank == 20
    for one in (rows, FullRows(np.eye(20))):
        with pytest.raises(KeyboardInterrupt):
            one.factorise(0.1, Threads(1), lambda: True)


def test_walls_that_coincide(monkeypatch):
    monkeypatch.setattr(gpu_rows, "DOUBLE_ROWS", 8)
    phi = np.random.default_rng(0).normal(size=(20, 40))
    phi[11], phi[17], phi[19] = phi[2], -2 * phi[2], 0.5 * phi[3]
    K, y = phi @ phi.T, np.ones(20, dtype=np.int8)
    found = list(coinciding_walls(VersionSpace(given_rows(K), y)))
    expected = list(coinciding_walls(VersionSpace(K, y)))
    assert len(expected) == 2
    for (i, later, sign), (j, other, other_sign) in zip(found, expected, strict=True):
        assert i == j
        assert_array_equal(later, other)
        assert_array_equal(sign, other_sign)
