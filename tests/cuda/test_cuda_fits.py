"""Fits with ``device="cuda"`` on a GPU are those of the CPU."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cuda import kernel_of, make, torch
from helpers.stand_in import let_free_memory_be
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint import inference as functions

pytestmark = pytest.mark.cuda


KERNELS = {
    "rbf": {},
    "linear": {"softness": 0.5},
    "poly": {"degree": 3, "gamma": 0.05},
    "laplacian": {"gamma": 0.02},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_perceptrons_are_those_of_the_cpu(digits, kernel, dtype):
    X, y, new, truth = digits
    X, new = X.astype(dtype), new.astype(dtype)
    settings = {"kernel": kernel, **KERNELS[kernel]}
    theirs = make("cpu", **settings).fit(X, y)
    ours = make(**settings).fit(X, y)
    assert (theirs.device_, ours.device_) == ("cpu", "cuda")
    assert np.all(ours.draws_.resume.violated == 0)
    if dtype == np.float64:
        assert_array_equal(ours.support_, theirs.support_)
        assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-6)
        # The link is found by iterations, which end a little apart.
        assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-3)
    # In float32 a tie up to rounding may fall either way, and the run goes another one from there.
    assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.98
    assert abs(ours.score(new, truth) - theirs.score(new, truth)) < 0.01
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=0.1)
    # Predictions of one model on both devices.
    there = ours.predict_proba(new)
    here = ours.set_params(device="cpu").predict_proba(new)
    assert_allclose(here, there, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [0.0, 0.05], ids=["clean", "noisy"])
def test_the_billiard_is_that_of_the_cpu(digits, noise, dtype):
    X, y, new, _ = digits
    X, y, new = X[:300].astype(dtype), y[:300] > 4, new.astype(dtype)
    settings = {"inference": "billiard", "n_draws": 2000, "label_noise": noise, "softness": 0.2}
    theirs, ours = (make(device, **settings).fit(X, y) for device in ("cpu", "cuda"))
    apart = np.abs(ours.predict_proba(new) - theirs.predict_proba(new))
    assert apart.mean() < 0.01
    assert apart.max() < 0.1
    assert_allclose(ours.label_error_proba_, theirs.label_error_proba_, atol=0.2 if noise else 0.08)
    assert np.any(ours.diagnostics_["passes"]) == bool(noise)
    assert ours.diagnostics_["rhat"].max() < 1.2
    assert ours.diagnostics_["drift"] < (1e-3 if dtype == np.float32 else 1e-8)
    if not noise:
        draws = ours.posterior().draws().reshape(-1, 300)
        K = kernel_of(ours)(X).astype(np.float64) + 0.2 * np.eye(300)
        assert (np.where(y, 1, -1) * (draws @ K)).min() > -1e-5


def test_the_same_fit_twice(digits):
    X, y, new, _ = digits
    for inference in ("perceptron", "billiard"):
        one, two = (make(inference=inference, n_draws=40).fit(X[:400], y[:400]) for _ in range(2))
        assert_array_equal(one.dual_coef_, two.dual_coef_)
        assert_array_equal(one.predict_proba(new), two.predict_proba(new))


def test_rows_in_blocks(digits, monkeypatch):
    X, y, new, _ = digits
    whole = make().fit(X, y)
    let_free_memory_be(monkeypatch, 200 * 1200 * 4)
    blocks = make().fit(X, y)
    assert np.mean(blocks.predict(new) == whole.predict(new)) > 0.98


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_gram_matrices(digits, dtype):
    X, y, new, truth = digits
    K, cross = (((A @ X.T + 1) ** 2).astype(dtype) for A in (X, new))
    settings = {"kernel": "precomputed", "bias": 0.5}
    theirs, ours = (make(device, **settings).fit(K, y) for device in ("cpu", "cuda"))
    assert np.all(ours.draws_.resume.violated == 0)
    if dtype == np.float64:
        assert_array_equal(ours.support_, theirs.support_)
        assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-6)
    assert np.mean(ours.predict(cross) == theirs.predict(cross)) > 0.98
    assert abs(ours.score(cross, truth) - theirs.score(cross, truth)) < 0.01
    some = np.arange(300)
    settings |= {"inference": "billiard", "n_draws": 640, "softness": 0.2}
    theirs, ours = (
        make(device, **settings).fit(K[np.ix_(some, some)], y[some] > 4)
        for device in ("cpu", "cuda")
    )
    apart = np.abs(ours.predict_proba(cross[:, some]) - theirs.predict_proba(cross[:, some]))
    assert apart.mean() < 0.02


def test_sparse_points(digits):
    X, y, new, _ = digits
    dense, sparse = make().fit(X, y), make().fit(sp.csr_matrix(X), y)
    assert_array_equal(sparse.dual_coef_, dense.dual_coef_)
    assert_array_equal(sparse.support_vectors_, dense.support_vectors_)
    assert_array_equal(sparse.predict_proba(sp.csr_matrix(new)), dense.predict_proba(new))


@pytest.fixture
def tf32():
    """A process that lets products in float32 have 11 bits."""
    setting = torch.backends.cuda.matmul
    before, setting.allow_tf32 = setting.allow_tf32, True
    yield setting
    setting.allow_tf32 = before


@pytest.mark.parametrize("inference", ["perceptron", "billiard", "ep"])
def test_settings_of_the_process_change_nothing_and_stay(digits, inference, tf32):
    X, y, new, _ = digits
    X, y = X[:600], y[:600] % 3
    proba = []
    for allowed in (False, True):
        tf32.allow_tf32 = allowed
        clf = make(inference=inference, n_draws=64).fit(X, y)
        proba.append((clf.dual_coef_, clf.predict_proba(new)))
        assert tf32.allow_tf32 == allowed
    for one, other in zip(*proba, strict=True):
        assert_array_equal(one, other)


def test_inference_on_the_gpu():
    X = np.random.default_rng(0).normal(size=(300, 5))
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    space = VersionSpace(K, np.sign(X[:, 0] + 0.3), softness=0.05)
    ours, theirs = (
        functions.sample_perceptron(space, 20, random_state=0, device=device)
        for device in ("cuda", "cpu")
    )
    assert_allclose(ours.coef.toarray(), theirs.coef.toarray(), atol=1e-12)
    ours, theirs = (
        functions.sample_billiard(space, 3200, n_chains=32, random_state=0, device=device)
        for device in ("cuda", "cpu")
    )
    assert ours.info["rhat"] < 1.05
    assert ours.bayes_point() @ space.outputs(theirs.bayes_point()) > 0.99
    ours, theirs = (
        functions.expectation_propagation(space, device=device) for device in ("cuda", "cpu")
    )
    assert_allclose(ours.log_evidence, theirs.log_evidence, rtol=1e-9)
    assert type(pickle.loads(pickle.dumps(ours)).coef) is np.ndarray
