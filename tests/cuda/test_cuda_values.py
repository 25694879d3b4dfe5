"""Kernel values and rows of a GPU: Triton against its PyTorch reference, and against the CPU."""

from itertools import product

import numpy as np
import pytest
from helpers.cuda import GPU, KINDS, SIZES, gap, generator, gram_matrix, torch
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.gpu import rows as gpu_rows
from bayespoint.gpu.inputs import DeviceInputs
from bayespoint.gpu.kernels import exact_products, laid_out, on_tensor_cores, prepare, values
from bayespoint.gpu.loops import kernel_torch, kernel_triton
from bayespoint.gpu.rows import DeviceRows
from bayespoint.space.hashes import row_hashes
from bayespoint.space.kernels import Kernel

pytestmark = pytest.mark.cuda


FINISHES = {
    "linear": (kernel_torch.LINEAR, 1.0, 1.0, 0.0),
    "cubic": (kernel_torch.POLY, 0.1, 3.0, 1.0),
    "degree 16": (kernel_torch.POLY, 0.02, 16.0, 1.0),
    "degree 19, of negative numbers": (kernel_torch.POLY, 0.1, 19.0, 0.0),
    "degree 2.5": (kernel_torch.POLY, 0.1, 2.5, 10.0),
    "rbf": (kernel_torch.RBF, 0.05, 3.0, 1.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FINISHES)
@pytest.mark.parametrize("width", SIZES)
def test_kernel_values(width, name, kind):
    which, gamma, degree, coef0 = FINISHES[name]
    dtype, n = KINDS[kind], 19
    A = torch.randn(n, 30, generator=generator(1), device=GPU, dtype=torch.float64).to(dtype)
    B = torch.randn(width, 30, generator=generator(2), device=GPU, dtype=torch.float64).to(dtype)
    norms = [(x * x).sum(dim=1) for x in (A, B)]
    scales = [torch.rand(len(x), generator=generator(3), device=GPU).to(dtype) for x in (A, B)]
    for bias, normalised in product((0.0, 0.3), (True, False)):
        sides = list(zip(norms, scales if normalised else (None, None), strict=True))
        # Part of a wider matrix: the stride is not the width, and the rest must stay.
        found, expected = (torch.full((n, width + 70), torch.nan, device=GPU, dtype=dtype)
                           for _ in range(2))  # fmt: skip
        for module, out in ((kernel_triton, found), (kernel_torch, expected)):
            out[:, 41 : 41 + width] = A @ B.T
            module.finish(out[:, 41 : 41 + width], which, gamma, degree, coef0, bias, *sides)
        assert bool(torch.isnan(found[:, :41]).all())
        assert bool(torch.isnan(found[:, 41 + width :]).all())
        found, expected = (x[:, 41 : 41 + width].double().cpu().numpy() for x in (found, expected))
        # Powers and exponentials: some units in the last place of their arguments.
        slack = 200 * torch.finfo(dtype).eps
        assert_allclose(found, expected, rtol=slack, atol=slack * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian"])
def test_rows_against_the_cpu(name, kind, monkeypatch):
    """All rows in blocks, into poisoned memory, against the kernels of the CPU in float64."""
    monkeypatch.setattr(gpu_rows, "BLOCK_ROWS", 1000)
    X = np.random.default_rng(0).normal(size=(2503, 40)).astype(kind)
    data = DeviceInputs(X, GPU)
    kernel = data.fit_layout(Kernel(name, gamma=0.02, bias=0.4))
    rows = DeviceRows(kernel, data.points(kernel), memory=10**9)
    rows.store.fill_(torch.nan)
    rows.ensure(())
    expected = Kernel(name, gamma=0.02, bias=0.4)(X.astype(np.float64))
    slack = 1e-5 if kind == "float32" else 1e-12
    assert_allclose(rows.store.double().cpu().numpy(), expected, atol=slack)
    few = DeviceRows(kernel, rows.points, memory=100 * 2503 * X.itemsize)
    few.store.fill_(torch.nan)
    wanted = np.random.default_rng(1).permutation(2503)[:100]
    few.ensure(wanted)
    found = few.store[few.slots[torch.from_numpy(wanted).to(GPU)].long()]
    assert_allclose(found.double().cpu().numpy(), expected[wanted], atol=slack)
    coef = np.random.default_rng(2).normal(size=(3, 2503))
    assert_allclose(rows.outputs(0.1, coef), coef @ expected + 0.1 * coef, atol=3e3 * slack)


@pytest.mark.parametrize("shape", [(37, 5, 3), (129, 500, 30), (300, 4097, 784)])
@pytest.mark.parametrize("mirrored", [False, True], ids=["two", "one"])
@pytest.mark.parametrize("name", ["linear", "cubic", "rbf"])
def test_kernel_values_on_the_tensor_cores(name, mirrored, shape):
    which, gamma, degree, coef0 = FINISHES[name]
    n, width, n_features = shape
    width = n if mirrored else width
    A = torch.randn(n, n_features, generator=generator(1), device=GPU) / n_features**0.5
    B = A if mirrored else torch.randn(width, n_features, generator=generator(2), device=GPU)
    sides = [((x * x).sum(dim=1), torch.rand(len(x), generator=generator(3), device=GPU))
             for x in (A, B)]  # fmt: skip
    found, expected = (
        torch.full((n, width + 70), torch.nan, device=GPU)[:, 41 : 41 + width] for _ in range(2)
    )
    for module, out in ((kernel_triton, found), (kernel_torch, expected)):
        parts = module.halves(A), module.halves(B)
        module.values(*parts, out, mirrored, which, gamma, degree, coef0, 0.3, *sides)
    assert_allclose(found.cpu().numpy(), expected.cpu().numpy(), atol=1e-5 * float(expected.max()))
    assert not mirrored or torch.equal(found, found.T)


@pytest.mark.parametrize("d", [1, 64, 65, 784, 3000])
@pytest.mark.parametrize("scale", [0.0, 1e-38, 1e-30, 1.0, 1e30])
def test_halves_to_the_bit(d, scale):
    X = scale * torch.randn(300, d, generator=generator(), device=GPU)
    for found, expected in zip(kernel_triton.halves(X), kernel_torch.halves(X), strict=True):
        assert torch.equal(found, expected)


def test_halves_of_points_whose_columns_are_apart():
    X = torch.randn(200, 300, generator=generator(), device=GPU)
    for one in (X.T, X[:, ::2], X[::3]):
        for found, expected in zip(
            kernel_triton.halves(one), kernel_torch.halves(one.contiguous()), strict=True
        ):
            assert torch.equal(found, expected)


def test_products_on_the_tensor_cores_have_the_precision_of_float32():
    X = np.random.default_rng(0).random((4096, 784)).astype(np.float32)
    kernel = Kernel("linear", normalize=False).fit_layout(X)
    points = prepare(kernel, torch.from_numpy(X).to(GPU))
    assert on_tensor_cores(points.X, 4096)
    exact = points.X.double() @ points.X.double().T
    found = values(kernel, points, points)
    with exact_products():
        plain = points.X @ points.X.T
    errors = [float((one - exact).abs().max() / exact.max()) for one in (found, plain)]
    assert errors[0] < 4e-6
    assert errors[0] < 10 * errors[1]
    assert torch.equal(found, found.T)
    out = torch.full((4096, 4096), torch.nan, device=GPU)
    assert torch.equal(values(kernel, points, points, out=out), found)


def test_values_of_one_point():
    X = torch.ones((1, 3), device=GPU)
    kernel = Kernel("rbf", gamma=1.0).fit_layout(np.ones((1, 3), dtype=np.float32))
    one = prepare(kernel, laid_out(kernel, X))
    assert float(values(kernel, one, one)) == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 16, 17, 100])
@pytest.mark.parametrize("m", [37, 4097])
def test_sums_of_rows(m, n, kind):
    rows = gram_matrix(m, KINDS[kind])
    slots = torch.randperm(m, generator=generator(1), device=GPU).int()[: m - 5]
    coef = torch.randn(n, m - 5, generator=generator(2), device=GPU, dtype=torch.float64)
    found = kernel_triton.combine(coef, slots, rows)
    assert found.dtype == torch.float64
    assert gap(found, kernel_torch.combine(coef, slots, rows)) < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_hashes(kind):
    X = np.random.default_rng(0).integers(-2, 3, size=(3001, 17)).astype(kind)
    X[X == 0] = -0.0
    assert_array_equal(DeviceInputs(X, GPU).hashes(), row_hashes(X))
