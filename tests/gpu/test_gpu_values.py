"""Kernel values and rows of the Gram matrix on a device are those of the CPU."""

# ruff: noqa: E402

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_rows import (
    KERNELS,
    PLENTY,
    device_points,
    given_rows,
    gram_of,
    make_points,
    rows_of,
)
from helpers.stand_in import CPU

from bayespoint._support.threads import Threads
from bayespoint.gpu import kernels as gpu_kernels
from bayespoint.gpu import rows as gpu_rows
from bayespoint.gpu.inputs import DeviceInputs
from bayespoint.gpu.kernels import DevicePoints, values
from bayespoint.gpu.loops import kernel_torch
from bayespoint.gpu.rows import DeviceRows
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import GramRows, apply_kernel


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_values(name, dtype):
    (X, _), (Y, _) = make_points(41, dtype), make_points(67, dtype, seed=1)
    for bias, normalize in ((0.0, True), (0.7, True), (0.7, False), (0.0, False)):
        kernel = Kernel(**KERNELS[name], bias=bias, normalize=normalize).fit_layout(X)
        expected = kernel(X, Y)
        left, right = device_points(kernel, X), device_points(kernel, Y)
        found = values(kernel, left, right)
        near = {"rtol": 50 * np.finfo(dtype).eps}
        slack = near["rtol"] * np.abs(expected).max()
        assert found.dtype == left.X.dtype
        assert_allclose(found.numpy(), expected, atol=slack, **near)
        assert_allclose(left.length.numpy(), kernel.prepare(X).length, **near)
        # Negative control: a hundredth of the width, or of the bias, is seen.
        other = replace(kernel, gamma=0.0505, bias=bias * 1.01)
        if bias or ("gamma" in KERNELS[name] and KERNELS[name].get("coef0") != 0.0):
            moved = values(other, device_points(other, X), device_points(other, Y))
            assert np.abs(moved.numpy() - expected).max() > slack
    # Written into part of a matrix, whatever was there; the rest of it stays.
    whole = torch.full((50, 80), torch.nan, dtype=found.dtype)
    values(kernel, left, right, out=whole[4:45, 9:76])
    assert_allclose(whole[4:45, 9:76].numpy(), found.numpy(), rtol=4 * np.finfo(dtype).eps)
    assert torch.isnan(whole).sum() == 50 * 80 - 41 * 67


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
    few.store.fill_(torch.nan)
    rng = np.random.default_rng(0)
    for size in (1, 10, 3, 7, 25):
        wanted = rng.choice(53, size, replace=False)
        before, held = few.n_computed, few.slot_of_row >= 0
        few.ensure(wanted)
        present = wanted[:10]  # as many as there is room for, the first ones
        assert few.n_computed - before == np.count_nonzero(~held[present])  # none twice
        assert np.all(few.slot_of_row[present] >= 0)
        assert_array_equal(few.slots.numpy(), few.slot_of_row)
        assert np.count_nonzero(few.slot_of_row >= 0) <= 10
        found = few.store[few.slots[torch.from_numpy(present)].long()]
        assert_allclose(found.numpy(), kernel(X)[present], atol=1e-13)


def test_rows_asked_for_last_stay_longest():
    rows = given_rows(gram_of("rbf", make_points(20)[0]), memory=3 * 20 * 8)
    for wanted in ([0, 1], [2], [0], [3], [4]):
        rows.ensure(np.array(wanted))
    assert_array_equal(np.flatnonzero(rows.slot_of_row >= 0), [0, 3, 4])


@pytest.mark.parametrize("memory", [PLENTY, 10 * 90 * 4], ids=["all rows", "ten rows"])
def test_outputs_and_parts_of_the_gram_matrix(memory, monkeypatch):
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
    assert_allclose(part.outputs(0.0, np.eye(20)), K[np.ix_(index, index)], atol=1e-6)
    # Outputs of new points, a few at a time.
    wide = rng.normal(size=(90, 4))
    left = device_points(kernel, X[:80])
    monkeypatch.setattr(gpu_kernels, "TILE_BYTES", 7 * 90 * 4)
    expected = apply_kernel(kernel, kernel.prepare(X[:80]), kernel.prepare(X), wide, Threads(1))
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


@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
def test_values_from_such_sums_are_those_of_float32(name):
    """The reference of what the tensor cores do, which the kernel in Triton is held to."""
    (X, _), (Y, _) = make_points(41, np.float32), make_points(67, np.float32, seed=1)
    kernel = Kernel(**KERNELS[name], bias=0.7).fit_layout(X)
    parameters = (kernel.width, kernel.degree, kernel.coef0, kernel.bias)
    for left, right in ((X, Y), (X, X)):
        points = [device_points(kernel, side) for side in (left, right)]
        found = torch.full((len(left), len(right)), torch.nan)
        kernel_torch.values(
            *(kernel_torch.halves(side.X) for side in points), found, left is right,
            gpu_kernels.KINDS[name], *map(float, parameters),
            *((side.squared_norm, side.scale) for side in points),
        )  # fmt: skip
        assert_allclose(found.numpy(), kernel(left, right), atol=1e-5)
        assert left is not right or torch.equal(found, found.T)


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


def test_a_given_gram_matrix_is_normalised_as_on_the_cpu():
    K = gram_of("poly", make_points(60, np.float32)[0], bias=0.0)
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
