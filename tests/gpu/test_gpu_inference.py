"""``device=`` of the functions of `bayespoint.inference`."""

# ruff: noqa: E402

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from bayespoint import VersionSpace, inference
from bayespoint._support import devices
from bayespoint._support.threads import Threads
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import GramRows

FUNCTIONS = ("sample_perceptron", "sample_billiard", "expectation_propagation")


def points(m=30):
    X = np.random.default_rng(0).normal(size=(m, 5))
    return X, np.sign(X[:, 0] + 0.3)


def make_space(dtype=np.float64):
    X, y = points()
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    return VersionSpace(K.astype(dtype), y, softness=0.05)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_perceptrons_are_those_of_the_cpu(dtype):
    space = make_space(dtype)
    ours, theirs = (
        inference.sample_perceptron(space, 20, random_state=0, device=device)
        for device in ("cuda", "cpu")
    )
    assert_allclose(ours.coef.toarray(), theirs.coef.toarray(), atol=1e-6)
    assert_allclose(ours.outputs, theirs.outputs, atol=1e-5)
    assert_array_equal(ours.info["mistakes"], theirs.info["mistakes"])
    assert_array_equal(ours.info["violated"], 0)
    other = inference.sample_perceptron(space, 20, random_state=1, device="cuda")
    assert not np.allclose(ours.coef.toarray(), other.coef.toarray(), atol=1e-3)


@pytest.mark.parametrize("n_rows", [60, 30], ids=["room for all", "for some"])
def test_rows_that_are_computed_when_asked_for(n_rows, monkeypatch):
    """Some of them are there, in another order; the others are not yet."""
    monkeypatch.setattr("bayespoint.space.rows.BLOCK_ROWS", 30)
    X, y = points(60)
    kernel = Kernel("rbf", gamma=0.1).fit_layout(X)
    rows = GramRows(kernel, kernel.prepare(X), cache_bytes=n_rows * 60 * 8, threads=Threads(1))
    rows.store.fill(np.nan)
    rows.ensure(np.array([7, 3]))
    space = VersionSpace(rows, y, softness=0.05)
    if n_rows < 60:
        with pytest.raises(ValueError, match="all rows of the Gram matrix are needed at once"):
            inference.sample_perceptron(space, 5, random_state=0, device="cuda")
        return
    ours, theirs = (
        inference.sample_perceptron(space, 5, random_state=0, device=device)
        for device in ("cuda", "cpu")
    )
    assert_allclose(ours.coef.toarray(), theirs.coef.toarray(), atol=1e-9)


@pytest.mark.parametrize(("noise", "dtype"), [(0.0, np.float32), (0.1, np.float64)])
def test_the_billiard_has_the_centre_of_the_cpu(noise, dtype):
    space = make_space(dtype)
    settings = {"label_noise": noise, "n_chains": 200, "burn_in": 10, "random_state": 0}
    ours = inference.sample_billiard(space, 2000, device="cuda", **settings)
    theirs = inference.sample_billiard(space, 10_000, **settings)
    assert ours.n_chains == 200
    cosine = ours.bayes_point() @ space.outputs(theirs.bayes_point())
    other = inference.sample_perceptron(space, 100, random_state=0)  # not uniform
    assert cosine > 0.998 > ours.bayes_point() @ space.outputs(other.bayes_point())
    assert ours.space is space  # nothing of the device is left in it


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_expectation_propagation_is_that_of_the_cpu(dtype):
    space = make_space(dtype)
    ours, theirs = (
        inference.expectation_propagation(space, label_noise=0.05, device=device)
        for device in ("cuda", "cpu")
    )
    assert ours.sweeps == theirs.sweeps
    assert_allclose(ours.log_evidence, theirs.log_evidence, atol=1e-6)
    assert_allclose(ours.bayes_point(), theirs.bayes_point(), atol=1e-6)
    cross = space.rows.store[:3] / 2
    assert_allclose(ours.predictive(cross, np.ones(3)), theirs.predictive(cross, np.ones(3)))


def test_posteriors_are_pickled_as_arrays():
    space = make_space()
    for name in ("sample_perceptron", "sample_billiard"):
        posterior = getattr(inference, name)(space, 8, random_state=0, device="cuda")
        kept = pickle.dumps(posterior)
        assert b"torch" not in kept
        again = pickle.loads(kept)
        assert_array_equal(again.bayes_point(), posterior.bayes_point())
    numbers = (p.needed_factor().white(posterior.outputs[:3]) for p in (again, posterior))
    assert_allclose(*numbers, atol=1e-3)
    gaussian = inference.expectation_propagation(space, device="cuda")
    kept = pickle.dumps(gaussian)
    assert b"torch" not in kept
    found = (p.sample(5, random_state=0).bayes_point() for p in (pickle.loads(kept), gaussian))
    assert_array_equal(*found)


def test_a_path_is_not_recorded_on_a_device():
    with pytest.raises(ValueError, match=r"n_path=10 .* needs device='cpu'; got 'cuda'"):
        inference.sample_billiard(make_space(), 10, n_path=10, device="cuda")


@pytest.mark.usefixtures("no_gpu")
def test_a_path_is_recorded_where_there_is_no_gpu():
    found = inference.sample_billiard(make_space(), 10, n_path=10, device="auto")
    assert found.info["path"].shape == (10, 30)


def test_a_tensor_is_no_gram_matrix():
    space = make_space()
    with pytest.raises(ValueError, match=r"K is a PyTorch tensor; pass .* K.cpu\(\).numpy\(\)"):
        VersionSpace(torch.from_numpy(space.rows.store), space.y)


@pytest.mark.usefixtures("no_stand_in")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_device(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device must be one of .*; got 'tpu'"):
        getattr(inference, name)(make_space(), device="tpu")
    with pytest.raises(devices.DeviceError, match="finds no CUDA GPU"):
        getattr(inference, name)(make_space(), device="cuda")


def test_a_gram_matrix_that_is_too_large(memory):
    memory(1000)
    with pytest.raises(devices.DeviceError, match=r"30 points needs .* about 11 points would fit"):
        inference.sample_billiard(make_space(), 10, device="cuda")
