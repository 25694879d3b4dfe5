"""Training rows on a device: hashed, merged and kept as on the CPU, and no memory held too long."""

# ruff: noqa: E402

import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import make, within
from helpers.device_rows import PLENTY, make_points
from helpers.stand_in import CPU

from bayespoint._support.threads import Threads
from bayespoint.gpu import device as gpu_device
from bayespoint.gpu import inputs as gpu_inputs
from bayespoint.gpu.inputs import DeviceInputs
from bayespoint.gpu.transfer import shared
from bayespoint.inference.methods import METHODS
from bayespoint.inference.perceptron.method import Perceptrons
from bayespoint.space.hashes import MOST_PLACED, row_hashes
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel
from bayespoint.space.merging import merge_duplicates

LAYOUTS = {"array": lambda X: X, "csr": sp.csr_matrix, "tensor": torch.from_numpy}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hashes_and_merging(layout, dtype, monkeypatch):
    monkeypatch.setattr(gpu_inputs, "HASHED", 100)
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(200, 4)).astype(dtype) / 3
    X[X == 0] *= rng.choice([-1.0, 1.0], np.count_nonzero(X == 0)).astype(dtype)  # -0.0, too
    label, weight = rng.integers(3, size=200), rng.integers(4, size=200).astype(float)
    data = DeviceInputs(LAYOUTS[layout](X), CPU)
    assert data.shape == X.shape
    assert data.dtype == dtype
    assert_array_equal(data.hashes(), row_hashes(X))
    for options in ({}, {"keep_order": True}, {"merge": False}):
        for found, expected in zip(
            merge_duplicates(data, label, weight, **options),
            merge_duplicates(Inputs(X), label, weight, **options),
            strict=True,
        ):
            assert_array_equal(found, expected)
    chosen = rng.permutation(200)[:30]
    part = data.take(chosen)
    for index in (np.array([3, 0, 29]), np.arange(2, 9), np.arange(0)):
        assert_array_equal(part.array(index), X[chosen][index])
        assert_array_equal(part.support_vectors(index), X[chosen][index])
    assert_array_equal(part.take(np.array([4, 7])).array(np.array([1])), X[chosen[[7]]])
    assert_array_equal(part.tensor.numpy(), X[chosen])
    assert_array_equal(part.hashes(), row_hashes(X[chosen]))
    copies = np.arange(1.0, 31)
    assert part.variance(copies) == pytest.approx(Inputs(X[chosen]).variance(copies), rel=1e-5)
    assert_allclose(part.deviations(), X[chosen].std(axis=0), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_columns", [3, MOST_PLACED + 1])
def test_rows_have_the_order_that_they_have_on_the_host(n_columns, dtype, monkeypatch):
    monkeypatch.setattr(gpu_inputs, "HASHED", 100)
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, n_columns)) * 10.0 ** rng.integers(-5, 6, n_columns) + 3).astype(
        dtype
    )
    X[:, 2] = X[0, 2]
    index = rng.permutation(200)[:150]
    assert_array_equal(DeviceInputs(X, CPU).order_keys(index), Inputs(X).order_keys(index))


def test_rows_that_share_a_hash_are_told_apart():
    class Colliding:
        def hashes(self):
            return np.zeros(self.shape[0], np.uint64)

    class Here(Colliding, Inputs):
        pass

    class There(Colliding, DeviceInputs):
        pass

    X = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-0.0, 1.0], [5.0, 5.0]])
    label = np.array([0, 1, 0, 0, 1])
    for found, expected in zip(
        merge_duplicates(There(X, CPU), label, np.ones(5)),
        merge_duplicates(Here(X), label, np.ones(5)),
        strict=True,
    ):
        assert_array_equal(found, expected)


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize("shape", [(50, 4), (0, 4), (1, 1)])
def test_arrays_that_must_not_be_written_to_are_not_copied(shape):
    X = np.random.default_rng(0).normal(size=shape)
    X.flags.writeable = False
    with pytest.raises(UserWarning, match="not writable"):  # or this tests nothing
        torch.from_numpy(X)
    found = shared(X)
    assert_array_equal(found.numpy(), X)
    assert X.size == 0 or found.data_ptr() == X.ctypes.data
    data = DeviceInputs(X, CPU)
    assert_array_equal(data.array(np.arange(len(X))), X)
    assert len(X) == 0 or np.array_equal(data.hashes(), row_hashes(X))
    # The memory outlives the array.
    del X
    assert torch.equal(found, data.tensor)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_found(value):
    X = np.ones((5, 3))
    assert DeviceInputs(X, CPU).finite()
    assert DeviceInputs(np.full((5, 3), 1e308), CPU).finite()  # though the sum is not
    X[3, 1] = value
    assert not DeviceInputs(X, CPU).finite()


def test_memory_kept_for_all_rows_is_there_until_they_are_made(monkeypatch):
    """Rows of a sample, such as settings are chosen by, are made beside it."""
    kept = []

    def room_for_rows(X, _):
        found = torch.empty(len(X), len(X))
        kept.append(weakref.ref(found))
        return found

    monkeypatch.setattr(gpu_inputs, "room_for_rows", room_for_rows)
    X, _ = make_points(60)
    kernel = Kernel("rbf").fit_layout(X)
    given = DeviceInputs(X, CPU)
    distinct = given.take(np.arange(59))  # one was a copy
    del given
    distinct.take(np.arange(20)).rows(kernel, PLENTY, Threads(1))
    (room,) = kept
    assert room() is not None
    distinct.rows(kernel, PLENTY, Threads(1))
    assert room() is None


def test_support_vectors_are_copied_once():
    X, _ = make_points(60)
    inputs, used = DeviceInputs(torch.from_numpy(X), CPU), np.arange(0, 60, 7)
    kernel = inputs.fit_layout(Kernel("rbf"))
    rows, others = inputs.rows(kernel, PLENTY, Threads(1)), np.arange(1, 60, 7)
    support = inputs.support(kernel, rows, used)
    vectors = inputs.support_vectors(used)
    assert inputs.support_vectors(used) is vectors
    assert_array_equal(vectors, X[used])
    assert_array_equal(inputs.support_vectors(others), X[others])
    assert_array_equal(support.X, X[used] - kernel.center)
    assert_allclose(support.squared_norm, kernel.prepare(X[used]).squared_norm, rtol=1e-12)
    # On the device they are those of the rows, not copies of what is on the host.
    placed = gpu_inputs.support_on_device(support, CPU)
    assert_array_equal(placed.X.numpy(), support.X)
    assert placed.X.data_ptr() != support.X.ctypes.data
    assert gpu_inputs.support_on_device(support, CPU) is placed
    # They go with the model.
    there = weakref.ref(placed.X)
    del placed
    assert there() is not None
    del support
    assert there() is None


def test_support_vectors_of_another_model_are_not_taken_for_these(cancer):
    """Models that come and go may have arrays at one address."""
    X, y, new = within(cancer, 40)
    for shift in range(5):
        clf = make(n_draws=1, random_state=shift).fit(X[shift:], y[shift:])
        there = clf.predict_proba(new)
        assert_allclose(clf.set_params(device="cpu").predict_proba(new), there, atol=1e-9)
        del clf


def test_rows_that_were_merged_leave_the_device(cancer, monkeypatch):
    """From then on, only the distinct ones take memory there."""
    X, y, _ = within(cancer, 60)
    given, alive = [], []

    class Recorded(DeviceInputs):
        def __init__(self, *args):
            super().__init__(*args)
            given.append(weakref.ref(self))

    class Looking(Perceptrons):
        def infer(self, *args):
            alive.append(given[0]() is not None)
            return super().infer(*args)

    monkeypatch.setattr(gpu_device, "DeviceInputs", Recorded)
    monkeypatch.setitem(METHODS, "perceptron", Looking())
    make().fit(np.vstack([X, X[:5]]), np.append(y, y[:5]))
    assert len(given) == 1
    assert alive == [False]
