"""What a fit holds on a GPU is there, nothing else, and no more than it says."""

import pickle
import warnings

import numpy as np
import pytest
from helpers.cuda import GPU, make, torch
from helpers.stand_in import let_free_memory_be
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._support.devices import DeviceError, free_bytes
from bayespoint._support.threads import Threads
from bayespoint.gpu import sites
from bayespoint.gpu.inputs import DeviceGramInputs, DeviceInputs, support_on_device
from bayespoint.gpu.transfer import STAGED_BYTES, to_device
from bayespoint.inference.engines import place_of
from bayespoint.space.kernels import Kernel

pytestmark = pytest.mark.cuda


def test_tensors_stay_on_the_gpu(digits, monkeypatch):
    X, y, new, truth = digits
    arrays = make().fit(X, y)
    true, copied = torch.Tensor.cpu, []

    def cpu(self, *args, **kwargs):
        copied.append(tuple(self.shape))
        return true(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    clf = make().fit(torch.from_numpy(X).to(GPU), torch.from_numpy(y).to(GPU))
    rows = [shape[0] for shape in copied if len(shape) == 2 and shape[1] == X.shape[1]]
    assert sum(rows) <= len(clf.support_)
    copied.clear()
    unseen = torch.from_numpy(new).to(GPU)
    found = clf.predict_proba(unseen)
    assert tuple(unseen.shape) not in copied
    assert type(found) is np.ndarray
    assert_allclose(found, arrays.predict_proba(new), atol=1e-5)
    assert clf.score(unseen, truth) > 0.9
    kept = pickle.dumps(clf)
    assert b"torch" not in kept
    again = pickle.loads(kept).set_params(device="cpu")
    assert_allclose(again.predict_proba(new), found, atol=1e-4)


def test_free_memory_is_what_is_left():
    free = free_bytes(GPU)
    assert 0 < free <= torch.cuda.get_device_properties(GPU).total_memory
    held = torch.empty(2**30, dtype=torch.uint8, device=GPU)
    assert 2**29 < free - free_bytes(GPU) < 2**31
    del held  # PyTorch keeps it for the next one
    assert abs(free_bytes(GPU) - free) < 2**29


def test_memory_that_is_exhausted(monkeypatch):
    """More than any card has: believed to fit, it is an error that says what to do."""
    let_free_memory_be(monkeypatch, 2**50)
    X = np.random.default_rng(0).random((1_000_000, 2), dtype=np.float32)
    with pytest.raises(DeviceError, match=r"no memory left \(3.*more were needed.*device='cpu'"):
        make().fit(X, X[:, 0] > 0.5)


def test_ep_is_that_of_the_cpu_and_keeps_to_its_memory(digits):
    X, y, new, _ = digits
    y = y % 3
    for dtype in (np.float32, np.float64):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        ours = make(inference="ep", softness=0.2).fit(X.astype(dtype), y)
        peak = torch.cuda.max_memory_allocated() - before
        # Sweeps, rows and their factor; and what is small beside a matrix.
        matrices = 8 * (sites.MATRICES + 3) + 2 * np.dtype(dtype).itemsize
        assert peak < 1.1 * matrices * len(X) ** 2 + 2**25
        theirs = make("cpu", inference="ep", softness=0.2).fit(X.astype(dtype), y)
        assert np.all(ours.diagnostics_["converged"])
        assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-3)
        assert_allclose(ours.label_error_proba_, theirs.label_error_proba_, atol=1e-3)
        assert ours.log_evidence_ == pytest.approx(theirs.log_evidence_, rel=1e-3)


def test_large_arrays_that_must_not_be_written_to():
    X = np.random.default_rng(0).random((70_001, 100), dtype=np.float32)
    assert X.nbytes > STAGED_BYTES
    X.flags.writeable = False
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = to_device(X, GPU)
    finally:
        torch.set_warn_always(False)
    assert_array_equal(found.cpu().numpy(), X)


def test_memory_kept_for_all_rows_is_there_until_they_are_made():
    """Where an earlier fit has left some; rows of a sample are made beside it."""
    n = 4000
    X = np.random.default_rng(0).random((n, 20), dtype=np.float32)
    kernel, matrix = Kernel("rbf").fit_layout(X), 4 * n**2
    left = torch.empty(2 * matrix, dtype=torch.uint8, device=GPU)
    del left  # PyTorch keeps it for the next one
    before = torch.cuda.memory_allocated()

    def held():
        return torch.cuda.memory_allocated() - before

    given = DeviceInputs(X, GPU)
    assert matrix <= held() < 1.1 * matrix
    distinct = given.take(np.arange(n - 1))  # one was a copy
    del given
    distinct.take(np.arange(50)).rows(kernel, 10**9, Threads(1))
    assert matrix <= held() < 1.1 * matrix
    rows = distinct.rows(kernel, 10**9, Threads(1))
    assert rows.whole
    assert 0.9 * matrix < held() < 1.1 * matrix  # the rows, in its place


@pytest.mark.parametrize("kind", ["points", "Gram matrix"])
def test_what_is_kept_on_the_gpu_is_there(kind):
    """Rows, parts of them, the factor and support points; what leaves are arrays."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    if kind == "points":
        inputs = DeviceInputs(X, GPU)
        kernel = inputs.fit_layout(Kernel("rbf"))
        assert inputs.tensor.device == GPU
    else:
        inputs, kernel = DeviceGramInputs(X @ X.T, GPU), Kernel("precomputed", bias=1.0)
    rows = inputs.take(np.arange(50)).rows(kernel, 10**9, Threads(1))
    for one in (rows, rows.part(np.arange(20))):
        one.ensure(())
        factor = one.factorise(0.1, Threads(1))
        held = (one.store, one.slots, *one.points, factor.solve(one.store), one.products(one.store))
        assert all(tensor is None or tensor.device == GPU for tensor in held)
        assert one.device == GPU
        white = np.eye(len(one))
        for found in (one.outputs(0.1, white), one.submatrix(np.arange(3)), one.matrix(),
                      factor.outputs(white), factor.whitener(), factor.precision()):  # fmt: skip
            assert type(found) is np.ndarray
    if kind == "points":
        support = inputs.take(np.arange(50)).support(kernel, rows, np.arange(7))
        assert type(support.X) is np.ndarray
        assert all(field.device == GPU for field in support_on_device(support, GPU))
    assert place_of("cuda").device == GPU
