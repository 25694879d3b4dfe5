"""What runs on a GPU, in its plain PyTorch form on the CPU, against the compiled loops.

The Triton kernels are compared with these references on a GPU: `tests/cuda`.
"""

# ruff: noqa: E402

import warnings
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.thresholds import two_stage
from helpers.version_spaces import (
    N_CHAINS,
    Problem,
    against_exact_draws,
    against_means,
    assert_passes,
    equicorrelated,
    equicorrelated_centre,
    equicorrelated_margin,
    errors,
    exact_draws,
    skewed,
)
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small matrices, and a process on every core

from bayespoint import VersionSpace
from bayespoint._loops import billiard as billiard_loop
from bayespoint._loops.perceptron import CONVERGED, EXHAUSTED
from bayespoint._support import devices
from bayespoint._support.budget import Budget
from bayespoint._support.devices import DeviceError
from bayespoint._support.threads import Threads
from bayespoint.gpu import billiards as gpu_billiards
from bayespoint.gpu import factor as gpu_factor
from bayespoint.gpu import inputs as gpu_inputs
from bayespoint.gpu import kernels as gpu_kernels
from bayespoint.gpu import perceptrons as gpu_perceptrons
from bayespoint.gpu import rows as gpu_rows
from bayespoint.gpu.billiards import DeviceBalls
from bayespoint.gpu.inputs import DeviceGramInputs, DeviceInputs
from bayespoint.gpu.kernels import DevicePoints, laid_out, prepare, values
from bayespoint.gpu.loops import billiard_torch, kernel_torch, perceptron_torch
from bayespoint.gpu.perceptrons import DeviceWave
from bayespoint.gpu.rows import DeviceRows
from bayespoint.gpu.transfer import shared
from bayespoint.inference.billiard.balls import TRAVEL, Table, coinciding_walls
from bayespoint.inference.billiard.chains import pass_rates
from bayespoint.inference.billiard.flights import run
from bayespoint.inference.engines import engines_of
from bayespoint.inference.perceptron import runs as perceptrons
from bayespoint.inference.perceptron.runs import (
    TIE_ULPS,
    _run,
    conflict_check,
    perceptron_draws,
    permutations,
)
from bayespoint.inference.perceptron.wave import Wave
from bayespoint.space import inputs as space_inputs
from bayespoint.space.decisions import label_odds
from bayespoint.space.factor import Factor
from bayespoint.space.inputs import Inputs, row_hashes
from bayespoint.space.kernels import Kernel
from bayespoint.space.merging import merge_duplicates
from bayespoint.space.rows import FullRows, GramRows, apply_kernel
from bayespoint.space.version_space import EmptyVersionSpaceError

CPU = torch.device("cpu")
PLENTY = 10**9

KERNELS = {
    "linear": {"name": "linear"},
    "poly": {"name": "poly", "gamma": 0.3},
    "poly of degree 2.5": {"name": "poly", "gamma": 0.3, "degree": 2.5, "coef0": 30.0},
    "poly of degree 5": {"name": "poly", "gamma": 0.1, "degree": 5.0, "coef0": 0.0},
    "rbf": {"name": "rbf", "gamma": 0.05},
    "laplacian": {"name": "laplacian", "gamma": 0.05},
}


def make_points(m=150, dtype=np.float64, seed=0):
    """Points of three classes that overlap, off the origin."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=m)
    X = rng.normal(size=(m, 6)) + 2.0 * np.eye(6)[label] + 0.5
    return X.astype(dtype), label


def targets_of(label):
    return np.where(label == np.arange(label.max() + 1)[:, None], 1, -1).astype(np.int8)


def device_points(kernel, X):
    return prepare(kernel, laid_out(kernel, torch.from_numpy(X)))


def given_rows(K, memory=PLENTY):
    """Rows of a Gram matrix that is there, so that both sides have the same bits."""
    kernel, gram = Kernel("precomputed", normalize=False), torch.from_numpy(K)
    return DeviceRows(kernel, prepare(kernel, gram, gram.diagonal()), memory=memory, gram=gram)


def rows_of(kernel, X):
    """Rows as a fit makes them, from points or from a Gram matrix."""
    kind = DeviceGramInputs if kernel.name == "precomputed" else DeviceInputs
    return kind(X, CPU).rows(kernel, PLENTY, Threads(1))


def softened_factor(rows, softness):
    return rows.factorise(softness, Threads(1))


def gram_of(name, X, bias=0.5):
    kernel = Kernel(**KERNELS[name], bias=bias).fit_layout(X)
    K = np.tril(kernel(X))
    return K + np.tril(K, -1).T


# ---------------------------------------------------------------------- kernel values


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("normalize", [True, False], ids=["normalised", "as they are"])
@pytest.mark.parametrize("bias", [0.0, 0.7])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_values(name, bias, normalize, dtype):
    (X, _), (Y, _) = make_points(41, dtype), make_points(67, dtype, seed=1)
    kernel = Kernel(**KERNELS[name], bias=bias, normalize=normalize).fit_layout(X)
    expected = kernel(X, Y)
    left, right = device_points(kernel, X), device_points(kernel, Y)
    found = values(kernel, left, right)
    slack = 50 * np.finfo(dtype).eps * np.abs(expected).max()
    assert found.dtype == left.X.dtype
    assert_allclose(found.numpy(), expected, atol=slack, rtol=50 * np.finfo(dtype).eps)
    assert_allclose(left.length.numpy(), kernel.prepare(X).length, rtol=50 * np.finfo(dtype).eps)
    # Written into part of a matrix, whatever was there; the rest of it stays.
    whole = torch.full((50, 80), torch.nan, dtype=found.dtype)
    values(kernel, left, right, out=whole[4:45, 9:76])
    assert_allclose(whole[4:45, 9:76].numpy(), found.numpy(), rtol=4 * np.finfo(dtype).eps)
    assert torch.isnan(whole).sum() == 50 * 80 - 41 * 67
    # Negative control: a hundredth of the width, or of the bias, is seen.
    other = replace(kernel, gamma=0.0505, bias=bias * 1.01)
    if bias or ("gamma" in KERNELS[name] and KERNELS[name].get("coef0") != 0.0):
        moved = values(other, device_points(other, X), device_points(other, Y))
        assert np.abs(moved.numpy() - expected).max() > slack


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
def test_all_rows_at_once_and_a_few_at_a_time(name, monkeypatch):
    monkeypatch.setattr(gpu_rows, "BLOCK_ROWS", 16)
    X, _ = make_points(53)
    kernel = Kernel(**KERNELS[name], bias=0.3).fit_layout(X)
    rows = DeviceRows(kernel, device_points(kernel, X), memory=PLENTY)
    rows.store.fill_(torch.nan)
    rows.ensure(())
    assert rows.whole
    assert_allclose(rows.store.numpy(), kernel(X), atol=1e-13)
    assert_allclose(rows.store.numpy(), rows.store.numpy().T, rtol=1e-14)
    few = DeviceRows(kernel, device_points(kernel, X), memory=10 * 53 * 8)
    assert not few.whole
    rng = np.random.default_rng(0)
    for size in (1, 10, 3, 7, 25):
        wanted = rng.choice(53, size, replace=False)
        few.store[few._computed < 0] = torch.nan
        few.ensure(wanted)
        present = wanted[:10]  # as many as there is room for, the first ones
        assert np.all(few.slot_of_row[present] >= 0)
        assert_array_equal(few.slots.numpy(), few.slot_of_row)
        assert np.count_nonzero(few.slot_of_row >= 0) <= 10
        found = few.store[few.slots[torch.from_numpy(present)].long()]
        assert_allclose(found.numpy(), kernel(X)[present], atol=1e-13)


@pytest.mark.parametrize("memory", [PLENTY, 10 * 90 * 4], ids=["all rows", "ten rows"])
def test_outputs_and_parts_of_the_gram_matrix(memory, monkeypatch):
    monkeypatch.setattr(gpu_rows, "DOUBLE_ROWS", 32)
    X, _ = make_points(90, np.float32)
    kernel = Kernel("rbf", gamma=0.05, bias=0.3).fit_layout(X)
    rows = DeviceRows(kernel, device_points(kernel, X), memory=memory)
    K = kernel(X).astype(np.float64)
    rng = np.random.default_rng(1)
    ridge, coef = rng.random(90), rng.normal(size=(3, 90)) * (rng.random(90) < 0.5)
    found = rows.outputs(ridge, coef)
    assert found.dtype == np.float64
    assert_allclose(found, coef @ K + ridge * coef, atol=1e-5)
    assert_allclose(rows.outputs(ridge, coef[1]), found[1], rtol=1e-12)
    index = rng.permutation(90)[:20]
    assert_allclose(rows.submatrix(index), K[np.ix_(index, index)], atol=1e-6)
    part = rows.part(index)
    part.ensure(np.arange(20))
    assert len(part) == 20
    assert_allclose(part.diagonal, rows.diagonal[index])
    wide = rng.normal(size=(90, 4))
    left = device_points(kernel, X[:30])
    monkeypatch.setattr(gpu_kernels, "TILE_BYTES", 7 * 90 * 4)
    expected = apply_kernel(kernel, kernel.prepare(X[:30]), kernel.prepare(X), wide, Threads(1))
    assert_allclose(gpu_kernels.apply_kernel(kernel, left, rows.points, wide), expected, atol=1e-4)
    nobody = DevicePoints(*(None if field is None else field[:0] for field in left))
    assert gpu_kernels.apply_kernel(kernel, nobody, rows.points, wide).shape == (0, 4)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_a_number_is_the_sum_of_two_that_the_tensor_cores_take(scale):
    x = np.random.default_rng(0).normal(size=(100, 37)) * np.geomspace(1e-3, 1e3, 100)[:, None]
    x = torch.from_numpy((scale * x).astype(np.float32))
    high, low, unit = kernel_torch.halves(x)
    assert high.dtype == low.dtype == torch.float16  # with 11 significant bits
    assert high.shape == (100, 64)
    assert not bool(high[:, 37:].any() or low[:, 37:].any())
    largest = x.abs().amax(dim=1, keepdim=True).double()
    both, alone = (
        (part[:, :37].double() * unit[:, None].double() - x.double()).abs() / largest
        for part in (high.float() + low.float(), high.float())
    )
    assert both.max() < 2.0**-21
    assert alone.max() > 2.0**-13  # one part alone is not enough


def test_float32_that_is_too_coarse_for_distances_is_taken_to_float64():
    X, _ = make_points(60, np.float32)
    for scale in (1.0, 300.0):
        data = DeviceInputs(X * np.float32(scale), CPU)
        kernel = data.fit_layout(Kernel("rbf", gamma=1.0))
        expected = Kernel("rbf", gamma=1.0).fit_layout(X * np.float32(scale))
        assert kernel.layout == expected.layout
        assert_allclose(kernel.center, expected.center, rtol=1e-6)
        rows = data.rows(kernel, PLENTY, Threads(1))
        assert rows.dtype == (np.float64 if scale > 1 else np.float32)
    assert kernel.layout.endswith("double")


def test_kernels_that_overflow_say_so():
    X = np.full((4, 2), 1e15, dtype=np.float32)
    with pytest.raises(
        ValueError, match=r"overflows float32.*rows \[0, 1, 2, 3\].*scale the features"
    ):
        device_points(Kernel("poly", degree=3).fit_layout(X), X)
    K = np.diag([1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match=r"k\(x, x\) < 0 for rows \[1\]"):
        given_rows(K)


# ---------------------------------------------------------------------- the points


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["array", "csr", "tensor"])
@pytest.mark.parametrize(
    "options", [{}, {"keep_order": True}, {"merge": False}], ids=["merged", "in order", "copies"]
)
def test_hashes_and_merging(layout, dtype, options, monkeypatch):
    monkeypatch.setattr(gpu_inputs, "HASHED", 100)
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(200, 4)).astype(dtype) / 3
    X[X == 0] *= rng.choice([-1.0, 1.0], np.count_nonzero(X == 0)).astype(dtype)  # -0.0, too
    label, weight = rng.integers(3, size=200), rng.integers(4, size=200).astype(float)
    kinds = {"array": lambda X: X, "csr": sp.csr_matrix, "tensor": torch.from_numpy}
    data = DeviceInputs(kinds[layout](X), CPU)
    assert data.shape == X.shape
    assert data.dtype == dtype
    assert_array_equal(data.hashes(), row_hashes(X))
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


def test_rows_that_share_a_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(DeviceInputs, "hashes", lambda self: np.zeros(self.shape[0], np.uint64))
    monkeypatch.setattr(space_inputs, "row_hashes", lambda X: np.zeros(X.shape[0], np.uint64))
    X = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-0.0, 1.0], [5.0, 5.0]])
    label = np.array([0, 1, 0, 0, 1])
    for found, expected in zip(
        merge_duplicates(DeviceInputs(X, CPU), label, np.ones(5)),
        merge_duplicates(Inputs(X), label, np.ones(5)),
        strict=True,
    ):
        assert_array_equal(found, expected)


@pytest.fixture
def no_warnings():
    """Every warning is an error, those that PyTorch gives but once, too."""
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize("shape", [(50, 4), (0, 4), (1, 1)])
def test_arrays_that_must_not_be_written_to(shape):
    X = np.random.default_rng(0).normal(size=shape)
    X.flags.writeable = False
    with pytest.raises(UserWarning, match="not writable"):  # or this tests nothing
        torch.from_numpy(X)
    found = shared(X)
    assert_array_equal(found.numpy(), X)
    assert X.size == 0 or found.data_ptr() == X.ctypes.data  # no copy
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
    monkeypatch.setattr(gpu_inputs, "_room_for_rows", lambda X, _: torch.empty(len(X), len(X)))
    X, _ = make_points(60)
    kernel = Kernel("rbf").fit_layout(X)
    given = DeviceInputs(X, CPU)
    room = weakref.ref(given._room)
    distinct = given.take(np.arange(59))  # one was a copy
    del given
    distinct.take(np.arange(20)).rows(kernel, PLENTY, Threads(1))
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
    key = id(support.X)
    del support
    assert key not in gpu_inputs._PLACED


# ---------------------------------------------------------------------- the factor


@pytest.mark.parametrize(("dtype", "slack"), [(np.float64, 1e-9), (np.float32, 2e-3)])
@pytest.mark.parametrize("softness", [0.01, np.linspace(0.01, 0.5, 70)], ids=["one", "each"])
def test_the_factor(dtype, slack, softness, monkeypatch):
    monkeypatch.setattr(gpu_factor, "COLUMNS", 16)
    X, _ = make_points(70)
    K = (gram_of("rbf", X) * np.outer(*2 * [np.linspace(1, 3, 70)])).astype(dtype)
    ours = softened_factor(given_rows(K), softness)
    softened = K.astype(np.float64)
    softened[np.diag_indices_from(softened)] *= 1 + softness
    theirs = Factor(softened.copy())
    rng = np.random.default_rng(0)
    white = rng.normal(size=(3, 70))
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


def test_a_factor_that_float32_cannot_have_comes_from_float64():
    X, _ = make_points(200)
    K = gram_of("poly", X).astype(np.float32)
    ridge = torch.full((200,), 2e-7)
    softened = torch.from_numpy(K.astype(np.float64) + 2e-7 * np.eye(200))
    single = (torch.from_numpy(K) + 2e-7 * torch.eye(200)).float()
    assert int(torch.linalg.cholesky_ex(single).info)  # or this tests nothing
    if int(torch.linalg.cholesky_ex(softened).info):
        pytest.skip("not positive definite in float64 either")
    lower = gpu_factor._cholesky(torch.from_numpy(K), ridge)
    assert lower.dtype == torch.float32
    assert torch.all(torch.isfinite(lower))


def test_singular_matrices_and_too_little_memory_are_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"singular to rounding.*softness > 0"):
        softened_factor(given_rows(np.ones((5, 5))), 0.0)
    K = np.eye(100)
    with pytest.raises(DeviceError, match=r"100 points does not fit.*; about \d+ points would"):
        softened_factor(given_rows(K, memory=8 * 31**2), 0.0)
    monkeypatch.setattr(gpu_factor, "free_bytes", lambda _: 1000)
    with pytest.raises(DeviceError, match="100 points does not fit"):
        softened_factor(given_rows(K), 0.0)


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
    K = phi @ phi.T
    y = np.ones(20, dtype=np.int8)
    found = list(coinciding_walls(VersionSpace(given_rows(K), y)))
    expected = list(coinciding_walls(VersionSpace(K, y)))
    assert len(expected) == 2
    for (i, later, sign), (j, other, other_sign) in zip(found, expected, strict=True):
        assert i == j
        assert_array_equal(later, other)
        assert_array_equal(sign, other_sign)


# ---------------------------------------------------------------------- perceptrons


def slack_of(rows):
    return TIE_ULPS * np.finfo(rows.dtype).eps * rows.diagonal


def flown(make_wave, rows, targets, ridge, orders, max_passes=1000, slack=None):
    """A wave after all of its runs."""
    slack = slack_of(rows) if slack is None else slack
    wave = make_wave(rows, targets, ridge, slack, orders)
    given_up = []
    _run(wave, Budget(), Threads(1), max_passes, (0, len(orders)), given_up.append)
    wave.given_up = sorted(int(run) for run in given_up)
    return wave


def assert_same_runs(found, expected):
    runs = range(len(expected))
    assert len(found) == len(expected)
    assert_array_equal(found.state, expected.state)
    assert_array_equal(found.mistakes, expected.mistakes)
    for run_ in runs:
        assert_array_equal(found.counts(run_), expected.counts(run_))
    assert_array_equal(found.violated(runs), expected.violated(runs))
    assert found.given_up == expected.given_up
    (pairs, _, squared), (others, _, expected_squared) = (
        wave.classifiers(runs) for wave in (found, expected)
    )
    assert_allclose(squared, expected_squared, rtol=1e-6)
    for (used, count), (other, other_count) in zip(pairs, others, strict=True):
        assert_array_equal(used, other)
        assert_array_equal(count, other_count)


@pytest.mark.parametrize("n_rows", [150, 20], ids=["all rows", "few rows"])
@pytest.mark.parametrize("name", KERNELS)
def test_perceptrons_take_the_same_steps(name, n_rows):
    """To the bit in float64: outputs are sums of the same rows in the same order."""
    X, label = make_points()
    K, targets = gram_of(name, X), targets_of(label)
    kernel = Kernel(**KERNELS[name], bias=0.5).fit_layout(X)
    orders = [permutations(150, 7)(number) for number in range(4)]
    for softness in (0.05, 0.5):
        ridge = softness * K.diagonal()
        slack = slack_of(FullRows(K))
        expected = flown(Wave, FullRows(K), targets, ridge, orders, slack=slack)
        assert np.all(expected.state == CONVERGED)
        rows = given_rows(K, memory=n_rows * 150 * 8)
        assert rows.whole == (n_rows == 150)
        assert_same_runs(flown(DeviceWave, rows, targets, ridge, orders, slack=slack), expected)
        if n_rows < 150:
            assert rows.n_computed > 150  # rows were evicted and came back
    # Rows on demand on the CPU: the same kernel, whose rows differ by rounding only.
    rows = GramRows(kernel, kernel.prepare(X), cache_bytes=PLENTY, threads=Threads(1))
    device = DeviceRows(kernel, device_points(kernel, X), memory=n_rows * 150 * 8)
    for draw, other in zip(
        perceptron_draws(device, targets, ridge, range(3), permutations(150, 7), budget=Budget()),
        perceptron_draws(rows, targets, ridge, range(3), permutations(150, 7), budget=Budget()),
        strict=True,
    ):
        assert_array_equal(draw.mistakes, other.mistakes)
        assert_array_equal(draw.violated, 0)
        assert draw.finished
        assert draw.outputs is None
        for (used, coef), (other_used, other_coef) in zip(draw.coef, other.coef, strict=True):
            assert_array_equal(used, other_used)
            assert_allclose(coef, other_coef, rtol=1e-9)
    # Negative control: another order gives other classifiers.
    backwards = flown(DeviceWave, given_rows(K), targets, ridge, [o[::-1] for o in orders])
    assert np.any(backwards.mistakes != expected.mistakes)


def whole_numbers(m=120, seed=0):
    """Points whose inner products are whole numbers: sums are exact in float32, ties are ties."""
    rng = np.random.default_rng(seed)
    X = np.unique(rng.integers(-3, 4, size=(m, 4)), axis=0).astype(np.float64)
    X = np.column_stack([X, np.ones(len(X))])
    return X @ X.T, np.digitize(X[:, 0] + 0.5 * X[:, 1], [-1.0, 1.0])


@pytest.mark.parametrize("ridge", [0.0, 2.0], ids=["hard", "soft"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ties_are_mistakes_in_either_precision(dtype, ridge):
    K, label = whole_numbers()
    K, targets = K.astype(dtype), targets_of(label)
    ridge = np.full(len(K), ridge)
    orders = [permutations(len(K), 3)(number) for number in range(5)]
    expected = flown(Wave, FullRows(K), targets, ridge, orders, max_passes=20)
    assert_same_runs(
        flown(DeviceWave, given_rows(K), targets, ridge, orders, max_passes=20), expected
    )


def test_float32_rows_give_the_same_draws():
    X, label = make_points(300, np.float32)
    targets = targets_of(label)
    kernel = Kernel("rbf", gamma=0.1, bias=0.5).fit_layout(X)
    rows = GramRows(kernel, kernel.prepare(X), cache_bytes=PLENTY, threads=Threads(1))
    device = DeviceRows(kernel, device_points(kernel, X), memory=PLENTY)
    ridge, orders = 0.1 * rows.diagonal, permutations(300, 1)
    same, n_runs = 0, 0
    for draw, other in zip(
        perceptron_draws(device, targets, ridge, range(10), orders, budget=Budget()),
        perceptron_draws(rows, targets, ridge, range(10), orders, budget=Budget()),
        strict=True,
    ):
        assert_array_equal(draw.violated, 0)
        for (used, coef), (other_used, other_coef) in zip(draw.coef, other.coef, strict=True):
            n_runs += 1
            same += np.array_equal(used, other_used) and np.allclose(coef, other_coef, rtol=1e-5)
        # No training error by the rows in float64, either.
        rows.ensure(np.arange(300))
        K = rows.store[rows.slot_of_row].astype(np.float64)[:, :300] + np.diag(ridge)
        for target, (used, coef) in zip(targets, draw.coef, strict=True):
            assert np.min(target * (coef @ K[used])) > 0
            assert coef @ K[np.ix_(used, used)] @ coef == pytest.approx(1, abs=1e-5)
    assert same >= 0.9 * n_runs  # a tie up to rounding may fall either way


def test_some_of_the_points_visited():
    """Points that are not visited are never added, nor do their mistakes count."""
    X, label = make_points()
    K, targets = gram_of("rbf", X), targets_of(label)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(np.arange(0, 150, 2)).astype(np.int32) for _ in range(3)]
    ridge = 0.05 * K.diagonal()
    for n_rows in (150, 30):
        expected = flown(Wave, FullRows(K), targets, ridge, orders)
        rows = given_rows(K, memory=n_rows * 150 * 8)
        found = flown(DeviceWave, rows, targets, ridge, orders)
        assert_same_runs(found, expected)
        assert not any(np.any(found.counts(run_)[1::2]) for run_ in range(len(found)))


@pytest.mark.parametrize("max_passes", [1, 3])
def test_runs_that_are_given_up(max_passes):
    X, label = make_points()
    label = np.random.default_rng(0).permutation(label)
    K, targets = gram_of("linear", X), targets_of(label)
    orders = [permutations(150, 2)(number) for number in range(3)]
    ridge = np.zeros(150)
    expected = flown(Wave, FullRows(K), targets, ridge, orders, max_passes)
    assert np.all(expected.state == EXHAUSTED)
    assert np.all(expected.violated(range(9)) > 0)
    for n_rows in (150, 30):
        rows = given_rows(K, memory=n_rows * 150 * 8)
        assert_same_runs(flown(DeviceWave, rows, targets, ridge, orders, max_passes), expected)


def test_contradictions_are_named():
    X, label = make_points()
    K, targets = gram_of("linear", X), targets_of(label)
    rows = given_rows(K)
    check = conflict_check(lambda machine: VersionSpace(rows, targets[machine]))
    draws = perceptron_draws(
        rows, targets, np.zeros(150), range(2), permutations(150, 0), budget=Budget(),
        max_passes=20, on_exhausted=check,
    )  # fmt: skip
    with pytest.raises(EmptyVersionSpaceError) as caught:
        list(draws)
    named = caught.value.points
    assert 2 <= len(named) <= 8  # six features, a bias
    assert any(VersionSpace(K, target).conflict(named) is not None for target in targets)


@pytest.mark.parametrize("work", [0, 10**9], ids=["many threads", "one thread"])
def test_orders_are_those_of_their_numbers(work, monkeypatch):
    """On the device, too, with the place of each point in them."""
    monkeypatch.setattr(perceptrons, "ORDER_WORK", work)
    K, waves = gram_of("rbf", make_points()[0]), []

    class Recorded(DeviceWave):
        def __init__(self, *args):
            super().__init__(*args)
            waves.append(self)

    rows, order_of_draw = given_rows(K), permutations(150, 7)
    engines = engines_of(rows)._replace(wave=Recorded, runs_in_flight=30)
    monkeypatch.setattr(perceptrons, "engines_of", lambda _: engines)
    target, numbers = np.ones((1, 150), dtype=np.int8), range(5, 55)
    list(perceptron_draws(rows, target, np.zeros(150), numbers, order_of_draw, budget=Budget()))
    assert [len(wave) for wave in waves] == [30, 20]
    found = np.concatenate([wave._orders.numpy() for wave in waves])
    assert_array_equal(found, [order_of_draw(number) for number in numbers])
    assert len({tuple(order) for order in found}) == len(numbers)
    places = np.concatenate([wave._ranks.numpy() for wave in waves])
    assert_array_equal(places, np.argsort(found, axis=1))


def test_pauses_change_nothing(monkeypatch):
    X, label = make_points()
    K, targets = gram_of("rbf", X), targets_of(label)
    orders = [permutations(150, 4)(number) for number in range(3)]
    ridge = 0.05 * K.diagonal()
    expected = flown(DeviceWave, given_rows(K), targets, ridge, orders)
    for work in (1, 150 * 7):  # one update at a time, seven
        monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", work)
        assert_same_runs(flown(DeviceWave, given_rows(K), targets, ridge, orders), expected)


class Ticks(Budget):
    """A budget of so many looks at the clock."""

    def __init__(self, ticks):
        super().__init__()
        self.ticks = ticks

    def spent(self):
        self.ticks -= 1
        return self.ticks < 0


@pytest.mark.parametrize("ticks", [0, 1, 5, 20])
def test_time_that_is_up_leaves_one_draw_and_what_it_leaves_wrong(ticks, monkeypatch):
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    X, label = make_points()
    K, targets = gram_of("rbf", X), targets_of(label)
    ridge = 0.05 * K.diagonal()
    draws = list(
        perceptron_draws(
            given_rows(K), targets, ridge, range(4), permutations(150, 0), budget=Ticks(ticks)
        )
    )
    assert len(draws) == 1
    assert not draws[0].finished
    for machine, (used, coef) in enumerate(draws[0].coef):
        assert 0 < draws[0].mistakes[machine] <= ticks + 3
        outputs = coef @ K[used] + np.bincount(used, coef * ridge[used], minlength=150)
        assert draws[0].violated[machine] == np.count_nonzero(targets[machine] * outputs <= 0)
        assert np.dot(coef, outputs[used]) == pytest.approx(1)


def test_draws_of_earlier_waves_outlive_the_time_limit(monkeypatch):
    X, label = make_points()
    K, targets = gram_of("rbf", X), targets_of(label)
    budget = Budget()
    draws = []
    rows = given_rows(K)
    engines = engines_of(rows)._replace(runs_in_flight=6)  # two draws of three machines
    monkeypatch.setattr(perceptrons, "engines_of", lambda _: engines)
    for draw in perceptron_draws(
        rows, targets, 0.05 * K.diagonal(), range(10), permutations(150, 0), budget=budget
    ):
        draws.append(draw)
        assert draw.more == (len(draws) % 2 == 1)
        if len(draws) == 3:
            budget.interrupt()
    assert [draw.number for draw in draws] == [0, 1, 2, 3]
    assert all(draw.finished for draw in draws)


def test_outputs_that_drifted_do_not_hide_mistakes(monkeypatch):
    """Before a run counts as converged, its outputs are computed anew."""
    X, label = make_points(100)
    K, targets = gram_of("rbf", X), targets_of(label)
    orders, ridge = [permutations(100, 0)(number) for number in range(3)], 0.05 * K.diagonal()
    true, verified = perceptron_torch.advance, []

    def drifting(runs, orders, ranks, n_machines, targets, *args):
        outputs = args[5]
        true(runs, orders, ranks, n_machines, targets, *args)
        outputs[runs] += 0.3 * targets[runs % n_machines]

    class Counting(DeviceWave):
        def _verify(self, runs):
            verified.append(len(runs))
            super()._verify(runs)

    class Trusting(DeviceWave):
        def _go_on(self, runs, wrong, ranks, again):
            pass

        @property
        def state(self):
            return np.where(self._wanted < 0, CONVERGED, super().state)

    monkeypatch.setattr(gpu_perceptrons, "SURE", 0.0)  # rounding would not lead so far
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 300)  # three updates at a time
    monkeypatch.setattr(perceptron_torch, "advance", drifting)
    wave = flown(Counting, given_rows(K), targets, ridge, orders)
    assert len(verified) > 1
    assert_array_equal(wave.state, CONVERGED)
    assert_array_equal(wave.violated(range(9)), 0)
    for run_ in range(9):
        signed = targets[run_ % 3] * wave.counts(run_)
        assert np.min(targets[run_ % 3] * (signed @ K + signed * ridge)) > 0
    # Negative control: without that, mistakes are left.
    assert np.any(flown(Trusting, given_rows(K), targets, ridge, orders).violated(range(9)) > 0)


def test_outputs_that_rounding_may_have_moved_do_not_hide_mistakes(monkeypatch):
    """Nearly as far as it can lead them: ties then look like points on the right side."""
    K, label = whole_numbers()
    K, targets = K.astype(np.float32), targets_of(label)
    exact, ridge = torch.from_numpy(K).double(), np.full(len(K), 2.0)
    orders = [permutations(len(K), 3)(number) for number in range(3)]
    true = perceptron_torch.advance

    def moved(runs, orders, ranks, n_machines, targets, *args):
        true(runs, orders, ranks, n_machines, targets, *args)
        outputs, counts, cursors = args[5:8]
        target, mistakes = targets[runs % n_machines], cursors[runs, perceptron_torch.MISTAKES]
        signed = (counts[runs] * target).double()
        share = torch.finfo(torch.float32).eps * (mistakes + 2) * torch.sqrt(mistakes.double())
        off = (
            0.9 * share[:, None] * torch.sqrt(exact.diagonal() + 2) * exact.diagonal().max() ** 0.5
        )
        outputs[runs] = (signed @ exact + 2 * signed + target * off).float()

    class Trusting(DeviceWave):
        def _verify(self, runs):
            self._verified[runs] = True

    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 3 * len(K))
    monkeypatch.setattr(perceptron_torch, "advance", moved)
    for kind in (DeviceWave, Trusting):
        wave = flown(kind, given_rows(K), targets, ridge, orders)
        assert_array_equal(wave.state, CONVERGED)
        left = 0
        for run_ in range(9):
            signed = targets[run_ % 3] * wave.counts(run_)
            outputs = signed @ K.astype(np.float64) + signed * ridge
            left += np.count_nonzero(targets[run_ % 3] * outputs <= 0)
        assert (left == 0) == (kind is DeviceWave)


# ---------------------------------------------------------------------- one flight


def make_flight(m=60, n_balls=5, noisy=False, seed=0, softness=0.05):
    """Balls, their directions, and the walls, as both loops take them."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(m, m)) * np.exp(0.3 * rng.normal(size=(m, 1)))
    K = phi @ phi.T / m
    ridge = softness * K.diagonal()
    soft = K + np.diag(ridge)
    label = rng.choice([-1, 1], size=(n_balls, m)).astype(np.int8)
    rate = np.zeros((n_balls, m))
    if noisy:
        rate = rng.choice([0.0, 0.1, 0.6], size=(n_balls, m))
    sign = np.where((rate > 0) & (rng.random((n_balls, m)) < 0.3), -label, label)
    outputs = sign * rng.uniform(0.2, 2.0, size=(n_balls, m))
    coef = np.linalg.solve(soft, outputs.T).T
    coef /= np.sqrt(np.sum(coef * (coef @ soft), axis=1, keepdims=True))
    P = coef @ soft
    v = np.linalg.solve(np.linalg.cholesky(soft).T, rng.normal(size=(m, n_balls))).T
    v -= np.sum(v * P, axis=1, keepdims=True) * coef
    v /= np.sqrt(np.sum(v * (v @ soft), axis=1, keepdims=True))
    slots = rng.permutation(m).astype(np.int32)
    store = np.empty_like(K)
    store[slots] = K
    return SimpleNamespace(
        m=m, n=n_balls, store=store, slots=slots, squared=soft.diagonal().copy(), ridge=ridge,
        label=label, rate=rate, P=P, Q=v @ soft, coef_p=coef, coef_q=v, soft=soft, noisy=noisy,
        side=np.sign(P) / np.sqrt(soft.diagonal()), random=rng.integers(2**62, size=n_balls),
    )  # fmt: skip


def compiled_flight(f, travel):
    """The compiled loop, ball by ball: position, sides, kicks, bounces and passes."""
    P, Q, side = f.P.copy(), f.Q.copy(), f.side.copy()
    coef_p, coef_q, kicks = f.coef_p.copy(), f.coef_q.copy(), np.zeros_like(f.P)
    cursor = np.zeros((f.n, billiard_loop.CURSOR_SIZE), dtype=np.int64)
    cursor[:, billiard_loop.IN_FLIGHT] = 1  # directions are given
    cursor[:, billiard_loop.RANDOM] = f.random
    nothing, none = np.zeros((1, 0)), np.zeros(0)
    for b in range(f.n):
        walls = billiard_loop.Walls(
            f.store, f.slots, f.squared, f.ridge, np.zeros((0, 0)), f.label[b].astype(np.int64),
            f.rate[b], np.zeros((f.m, 2), dtype=np.int64), np.zeros((0, 0)), 0.0,
        )  # fmt: skip
        ball = billiard_loop.Ball(
            side[b], P[b], Q[b], coef_p[b], coef_q[b], none, none, kicks[b], np.zeros(f.m), none,
            np.zeros(1), cursor[b],
        )  # fmt: skip
        course = billiard_loop.Course(np.array([travel]), nothing, nothing, 1)
        record = billiard_loop.Record(
            np.empty((1, f.m)), np.empty((1, f.m)), nothing, np.zeros((0, f.m))
        )
        billiard_loop.fly(walls, ball, course, record, 10**9)
    bounces, passes = cursor[:, billiard_loop.BOUNCES], cursor[:, billiard_loop.PASSES]
    return SimpleNamespace(
        P=P, coef=coef_p, kicks=kicks, side=side, bounces=bounces, passes=passes,
        random=cursor[:, billiard_loop.RANDOM],
    )  # fmt: skip


def torch_flight(f, travel, dtype=torch.float64, max_events=10**6, balls=None, fly=None):
    """The reference in PyTorch, all balls in step."""
    fly = billiard_torch.fly if fly is None else fly
    put = torch.from_numpy
    state = {
        "side": put(f.side).to(dtype, copy=True), "P": put(f.P).to(dtype, copy=True),
        "Q": put(f.Q).to(dtype, copy=True), "coef_p": put(f.coef_p).clone(),
        "coef_q": put(f.coef_q).clone(), "kicks": torch.zeros((f.n, f.m), dtype=torch.float64),
        "angle": torch.zeros(f.n, dtype=torch.float64),
        "cursors": torch.zeros((f.n, billiard_torch.CURSOR_SIZE), dtype=torch.int64),
    }  # fmt: skip
    cursors = state["cursors"]
    cursors[:, billiard_torch.RANDOM] = put(f.random)
    balls = torch.arange(f.n) if balls is None else balls
    calls = 0
    while not bool((cursors[balls, billiard_torch.OVER] == 1).all()):
        fly(
            balls, put(f.store).to(dtype), put(f.slots), put(f.squared), put(f.ridge),
            put(f.label), put(f.rate) if f.noisy else None,
            torch.full((f.n,), travel, dtype=torch.float64), max_events, **state,
        )  # fmt: skip
        calls += 1
        assert calls < 10_000
    cos, sin = np.cos(travel), np.sin(travel)
    return SimpleNamespace(
        P=(state["P"] * cos + state["Q"] * sin).double().numpy(), calls=calls,
        coef=(state["coef_p"] * cos + state["coef_q"] * sin).numpy(),
        kicks=state["kicks"].numpy(), side=state["side"].double().numpy(),
        bounces=cursors[:, billiard_torch.BOUNCES].numpy(),
        passes=cursors[:, billiard_torch.PASSES].numpy(),
        random=cursors[:, billiard_torch.RANDOM].numpy(),
        events=cursors[:, billiard_torch.EVENTS].numpy(),
    )  # fmt: skip


@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "noisy"])
@pytest.mark.parametrize("travel", [0.4, TRAVEL, 9 * np.pi / 2])
@pytest.mark.parametrize("m", [2, 60])
def test_a_flight_is_that_of_the_compiled_loop(m, travel, noisy):
    for seed in range(4):
        f = make_flight(m=m, noisy=noisy, seed=seed)
        expected, found = compiled_flight(f, travel), torch_flight(f, travel)
        for name in ("bounces", "passes", "random"):
            assert_array_equal(getattr(found, name), getattr(expected, name))
        for name in ("P", "coef", "kicks", "side"):
            assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)
        assert_array_equal(found.events, found.bounces + found.passes)
        assert_allclose(found.coef @ f.soft, found.P, atol=1e-10)
        if m == 60 and travel >= TRAVEL:
            assert np.all(found.bounces > 5)
            assert np.any(found.passes > 0) == noisy
        hard = f.rate == 0
        assert np.min((found.P * f.label / np.sqrt(f.squared))[hard]) > -1e-12
    # Negative control: a wall that takes a tenth too much.
    f = make_flight(m=60, noisy=noisy)
    if travel >= TRAVEL:
        wrong = SimpleNamespace(**{**vars(f), "squared": f.squared / 1.1})
        different = torch_flight(wrong, travel).P - compiled_flight(f, travel).P
        assert np.abs(different).max() > 1e-3


@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "noisy"])
def test_a_flight_in_pieces(noisy):
    f = make_flight(noisy=noisy)
    at_once = torch_flight(f, TRAVEL)
    for max_events in (1, 7):
        pieces = torch_flight(f, TRAVEL, max_events=max_events)
        assert pieces.calls > at_once.calls == 1
        for name in ("bounces", "passes", "random"):
            assert_array_equal(getattr(pieces, name), getattr(at_once, name))
        assert_allclose(pieces.P, at_once.P, atol=1e-10)


def test_balls_that_are_not_called_stay():
    f = make_flight(noisy=True)
    everyone, some = torch_flight(f, 0.7), torch_flight(f, 0.7, balls=torch.tensor([3, 1]))
    for name in ("bounces", "passes", "P", "kicks"):
        assert_array_equal(getattr(some, name)[[1, 3]], getattr(everyone, name)[[1, 3]])
    others = [0, 2, 4]
    assert not np.any(some.bounces[others])
    assert_allclose(some.P[others], (f.P * np.cos(0.7) + f.Q * np.sin(0.7))[others], atol=1e-15)


@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "noisy"])
def test_a_flight_in_float32(noisy):
    """Outputs in float32, coefficients in float64: near the flight in float64, inside its walls."""
    for seed in range(4):
        f = make_flight(noisy=noisy, seed=seed)
        f.store = f.store.astype(np.float32).astype(np.float64)
        expected, found = compiled_flight(f, 0.5), torch_flight(f, 0.5, torch.float32)
        assert_array_equal(found.bounces, expected.bounces)
        assert_array_equal(found.passes, expected.passes)
        assert_allclose(found.P, expected.P, atol=2e-5)
        assert_allclose(found.coef, expected.coef, atol=2e-4)


def test_random_numbers_are_those_of_the_compiled_loop():
    cursors = torch.zeros((3, billiard_torch.CURSOR_SIZE), dtype=torch.int64)
    cursor = np.zeros((3, billiard_loop.CURSOR_SIZE), dtype=np.int64)
    states = [0, 2**62 + 12345, -977]
    cursors[:, billiard_torch.RANDOM] = torch.tensor(states)
    cursor[:, billiard_loop.RANDOM] = states
    for _ in range(50):
        found = billiard_torch._uniform(torch.arange(3), cursors)
        assert_array_equal(found.numpy(), [billiard_loop.uniform(one) for one in cursor])
    assert_array_equal(cursors[:, billiard_torch.RANDOM].numpy(), cursor[:, billiard_loop.RANDOM])


# ---------------------------------------------------------------------- balls: the law


def table_of(problem, dtype=np.float64, softness=0.0, n_balls=N_CHAINS):
    rows = given_rows(problem.K.astype(dtype))
    space = VersionSpace(rows, problem.y, softness)
    noise = np.broadcast_to(problem.noise, len(problem.y)).astype(np.float64)
    walls = [np.tile(one, (n_balls, 1)) for one in pass_rates(space, label_odds(noise))]
    return Table(rows, space.ridge, softened_factor(rows, softness), *walls)


def sampler_of(kind=DeviceBalls, dtype=np.float64, centre=None):
    """32 balls that start from exact draws, or all at the centre."""

    def sampler(problem, length, seed):
        first, second = np.random.SeedSequence(seed).spawn(2)
        if centre is None:
            start = exact_draws(problem, N_CHAINS, np.random.default_rng(first))
        else:
            start = np.tile(centre(problem), (N_CHAINS, 1))
        balls = kind(table_of(problem, dtype), start, second)
        flights = run(
            balls, length, travel=TRAVEL, thin=1, burn_in=10, budget=Budget(), threads=Threads(1)
        )
        sampler.counts = balls.counts()
        return flights.outputs

    return sampler


class NoRefresh(DeviceBalls):
    """Directions that are not drawn anew: wrong."""

    def __init__(self, *args):
        super().__init__(*args)
        true, self.last = self._fly, None

        def fly(*args, **state):
            true(*args, **state)
            self.last = state

        self._fly = fly

    def _directions(self, coef_p, outputs_p):
        if self.last is None:
            return super()._directions(coef_p, outputs_p)
        coef = self.last["coef_q"] * np.cos(TRAVEL) - self.last["coef_p"] * np.sin(TRAVEL)
        coef = coef - (coef * outputs_p).sum(dim=1, keepdim=True) * coef_p
        outputs = self._exact(coef)
        scale = 1 / torch.sqrt((coef * outputs).sum(dim=1, keepdim=True))
        return scale * coef, scale * outputs


class HardReflection(DeviceBalls):
    """Walls that give a fifth more than they took: wrong."""

    def __init__(self, *args):
        super().__init__(*args)
        true = self._fly

        def fly(balls, rows, slots, squared, *args, **state):
            true(balls, rows, slots, squared / 1.2, *args, **state)

        self._fly = fly


class AlwaysPassing(DeviceBalls):
    """Walls that are passed twice as often as they should: wrong."""

    def __init__(self, *args):
        super().__init__(*args)
        self._rate = torch.clamp(2 * self._rate, max=1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equicorrelated_points(dtype):
    problem, sampler = equicorrelated(10), sampler_of(dtype=dtype)
    check = against_means(problem, equicorrelated_margin(10), sampler)
    assert_passes(check, length=60, seed=0, detects=0.05)


@pytest.mark.parametrize("kind", [DeviceBalls, NoRefresh, HardReflection])
def test_equicorrelated_points_from_the_centre(kind):
    """Negative controls, too. (From exact draws, flights without refreshes would stay exact.)"""
    sampler = sampler_of(kind, centre=equicorrelated_centre)
    check = against_means(equicorrelated(40), equicorrelated_margin(40), sampler)
    assert two_stage(check, length=40, seed=0).passed == (kind is DeviceBalls)


def test_moments_of_a_skewed_space():
    check = against_exact_draws(skewed(5, 3), sampler_of())
    assert_passes(check, length=120, seed=0, detects=0.07)


def test_noisy_labels():
    problem = skewed(6, 3, noise=0.1)

    def statistics(*args):
        return errors(*args, 3)

    check = against_exact_draws(problem, sampler_of(), statistics)
    assert_passes(check, length=200, seed=0, detects=0.12)
    wrong = against_exact_draws(problem, sampler_of(AlwaysPassing), statistics)
    assert not two_stage(wrong, length=50, seed=0).passed


def test_some_labels_sure():
    """A sure label is never wrong; the others as often as they should be."""
    problem = skewed(5, 0, noise=np.array([0.0, 0.3, 0.0, 0.05, 0.2]))
    sampler = sampler_of()
    assert_passes(against_exact_draws(problem, sampler), length=150, seed=0, detects=0.1)
    outputs = sampler(problem, 50, 1)
    assert np.all((problem.y * outputs)[..., [0, 2]] > 0)
    assert np.any((problem.y * outputs)[..., 1] < 0)
    assert np.all(sampler.counts["passes"] > 0)


# ---------------------------------------------------------------------- balls: what they keep


def make_balls(dtype=np.float64, n_balls=6, m=80, softness=0.05, noise=0.0, kind=DeviceBalls):
    X, label = make_points(m)
    problem = Problem(gram_of("rbf", X), np.where(label == 0, 1, -1), noise)
    table = table_of(problem, dtype, softness, n_balls)
    rng = np.random.default_rng(0)
    soft = problem.K + np.diag(table.ridge)
    start = np.linalg.solve(soft, (problem.y * rng.uniform(0.5, 1.5, size=(n_balls, m))).T).T
    start /= np.sqrt(np.sum(start * (start @ soft), axis=1, keepdims=True))
    return kind(table, start, np.random.SeedSequence(0)), problem, soft


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.1], ids=["clean", "noisy"])
def test_draws_are_unit_vectors_inside_with_their_outputs(dtype, noise):
    balls, problem, _ = make_balls(dtype, noise=noise)
    begun = balls.positions()
    coef, outputs = balls.step(6, 2, TRAVEL, Budget(), Threads(1))
    assert coef.shape == outputs.shape == (6, 3, 80)
    K = problem.K.astype(dtype).astype(np.float64) + np.diag(balls.table.ridge)
    assert_allclose(coef @ K, outputs, atol=1e-9)
    assert_allclose(np.einsum("bdi,bdi->bd", coef, outputs), 1, rtol=1e-12)
    assert_array_equal(coef[:, -1], balls.positions())
    assert_array_equal(outputs[:, -1], balls.P)
    assert np.all(np.abs(coef[:, 0] - begun).max(axis=1) > 1e-3)
    margins = problem.y * outputs / np.sqrt(K.diagonal())
    counts = balls.counts()
    if noise:
        assert np.all(counts["passes"] > 0)
        assert margins.min() < -1e-3
    else:
        assert margins.min() > (-1e-6 if dtype == np.float32 else -1e-7)
        assert not np.any(counts["passes"])
    assert np.all(counts["bounces"] > 0)
    assert 0 < counts["drift"] < (1e-3 if dtype == np.float32 else 1e-10)
    assert counts["restarts"] == 0
    assert counts["flight_seconds"] > 0
    balls.forget()
    assert not np.any(balls.counts()["bounces"])
    # Draws are copies: the next step leaves them as they are.
    held = coef.copy()
    balls.step(2, 1, TRAVEL, Budget(), Threads(1))
    assert_array_equal(coef, held)


def test_kicks_and_ends_are_the_integral_of_the_position():
    """Along a flight dv = -w dt: against a sum over short flights in one direction."""
    balls, _, soft = make_balls(n_balls=3)
    directions = []
    true = balls._directions

    def recorded(coef_p, outputs_p):
        found = true(coef_p, outputs_p)
        directions.append(found[0].clone())
        return found

    balls._directions = recorded
    state = balls.positions()
    balls.step(1, 1, 0.9, Budget(), Threads(1))
    integral = balls.kicks + balls.ends()
    # The same flight by the plain ball of the tests.
    from version_spaces import PlainBall, coordinates

    phi = coordinates(soft)
    for b in range(3):
        ball = PlainBall(phi, balls.table.label[b], state[b] @ phi)
        ball.fly(directions[0][b].numpy() @ phi, 0.9)
        assert_allclose(integral[b] @ phi, ball.integral, atol=1e-8)
        assert_allclose(balls.kicks[b], ball.kicks, atol=1e-8)
        assert_allclose(balls.positions()[b] @ phi, ball.w, atol=1e-8)
        assert ball.met > 0


def test_the_same_seed_gives_the_same_flights_and_another_one_others():
    draws = []
    for seed in (0, 0, 1):
        balls, _, _ = make_balls(noise=0.1)
        balls = DeviceBalls(balls.table, balls.positions(), np.random.SeedSequence(seed))
        draws.append(balls.step(3, 1, TRAVEL, Budget(), Threads(1))[0])
    assert_array_equal(draws[0], draws[1])
    assert np.abs(draws[0] - draws[2]).max() > 1e-3


def test_balls_that_lost_their_way_fly_again():
    """A flight that ends outside is undone; one that does so for ever is an error."""
    balls, problem, _ = make_balls()
    true, calls = balls._fly, []

    def straying(*args, **state):
        true(*args, **state)
        calls.append(len(args[0]))
        if len(calls) == 1:
            state["coef_p"][2] *= -1
            state["coef_q"][2] *= -1

    balls._fly = straying
    _, outputs = balls.step(1, 1, TRAVEL, Budget(), Threads(1))
    assert balls.counts()["restarts"] == 1
    assert calls == [6, 1]
    assert np.min(problem.y * outputs) > 0
    before = balls.positions(), balls.P

    def lost(*args, **state):
        true(*args, **state)
        state["coef_p"].neg_()
        state["coef_q"].neg_()

    balls._fly = lost
    with pytest.raises(ValueError, match=r"leaves version space.*softness > 0"):
        balls.step(1, 1, TRAVEL, Budget(), Threads(1))
    assert_array_equal(balls.positions(), before[0])
    assert_array_equal(balls.P, before[1])


def test_time_that_is_up_in_a_flight_undoes_it(monkeypatch):
    from bayespoint.gpu import billiards

    monkeypatch.setattr(billiards, "EVENT_WORK", 1)
    balls, _, _ = make_balls()
    before = balls.positions(), balls.P
    assert balls.step(3, 1, TRAVEL, Ticks(0), Threads(1)) is None
    assert_array_equal(balls.positions(), before[0])
    assert_array_equal(balls.P, before[1])
    assert not np.any(balls.kicks)
    assert not np.any(balls.ends())
    # With time for some flights, those are kept.
    draws = balls.step(50, 1, TRAVEL, Ticks(60), Threads(1))
    assert draws is not None
    assert 1 <= draws[0].shape[1] < 50
    assert_array_equal(draws[0][:, -1], balls.positions())


# ---------------------------------------------------------------------- memory


def test_too_little_memory_for_rows_says_what_would_fit(monkeypatch):
    X, _ = make_points(100, np.float32)
    kernel = Kernel("rbf").fit_layout(X)
    monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: 20_000)
    with pytest.raises(DeviceError, match=r"100 points need.*about 54 points would fit"):
        rows_of(kernel, X)


def test_matrices_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    """With the number of points that would: this many are taken, one more is not."""
    room = 1_000_000
    monkeypatch.setattr(devices, "free_bytes", lambda _: room)
    given = int(np.sqrt(room / (3 * 4)))  # as it came, normalised, and the rows
    sites = int(np.sqrt(room / (8 * (5 + 3))))  # of three machines
    kernel = Kernel("precomputed", bias=0.5)
    rows = rows_of(kernel, np.eye(given, dtype=np.float32))
    with pytest.raises(DeviceError, match=rf"given Gram matrix.*about {given} points.*float32"):
        rows_of(kernel, np.eye(given + 1, dtype=np.float32))
    site_blocks = engines_of(rows).site_blocks
    site_blocks(rows.part(np.arange(sites)), 3)
    for more in ((np.arange(sites + 1), 3), (np.arange(sites), 4)):
        with pytest.raises(DeviceError, match=r"inference='ep' of \d+ points needs 1 MB") as caught:
            site_blocks(rows.part(more[0]), more[1])
    monkeypatch.undo()
    with pytest.raises(DeviceError, match=rf"{sites + 1} points .*about {sites} points would fit"):
        devices.check_room(SimpleNamespace(type="cpu"), sites + 1, 2**40 // sites**2, "", "")
    assert "inference='perceptron'" in str(caught.value)


def test_a_given_gram_matrix_is_normalised_as_on_the_cpu():
    X, _ = make_points(60, np.float32)
    K = gram_of("poly", X, bias=0.0)
    before = K.copy()
    for normalize in (True, False):
        kernel = Kernel("precomputed", bias=0.5, normalize=normalize)
        points = kernel.prepare(K, diagonal=K.diagonal())
        expected = GramRows(kernel, points, cache_bytes=PLENTY, threads=Threads(1))
        rows = rows_of(kernel, K)
        rows.ensure(())
        assert_allclose(rows.store.numpy(), expected.submatrix(np.arange(60)), rtol=1e-6)
        assert_array_equal(rows.store.numpy(), rows.store.numpy().T)
        assert_allclose(rows.diagonal, expected.diagonal, rtol=1e-6)
    assert_array_equal(K, before)


def test_whatever_lies_in_new_memory_is_not_read(monkeypatch):
    """Poison what `torch.empty` gives: rows, outputs and factor must all be written first."""
    true = torch.empty

    def poisoned(*args, **kwargs):
        return true(*args, **kwargs).fill_(torch.nan)

    monkeypatch.setattr(torch, "empty", poisoned)
    balls, _, _ = make_balls(np.float32, noise=0.1)
    assert np.all(np.isfinite(balls.step(2, 1, TRAVEL, Budget(), Threads(1))[0]))
    X, label = make_points(60)
    kernel = Kernel("poly", degree=2).fit_layout(X)
    rows = DeviceRows(kernel, device_points(kernel, X), memory=20 * 60 * 8)
    draws = perceptron_draws(
        rows, targets_of(label), np.full(60, 0.1), range(1), permutations(60, 0), budget=Budget()
    )
    (draw,) = draws
    assert draw.finished
    assert np.all(draw.violated == 0)


def test_walls_that_are_touched_are_nearer_than_balls_that_are_lost():
    assert billiard_torch.TOUCH[torch.float64] == billiard_loop.TOUCH
    assert set(billiard_torch.TOUCH) == set(gpu_billiards.LOST)
    for dtype, touch in billiard_torch.TOUCH.items():
        assert 0 < touch < gpu_billiards.LOST[dtype]
    # In either precision a wall that is met now comes before all others.
    assert 1 / min(billiard_torch.TOUCH.values()) < billiard_torch.NOW < torch.finfo().max
