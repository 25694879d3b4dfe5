"""On a GPU: Triton kernels against their PyTorch references, and ``device="cuda"`` on digits.

One command: ``pytest -m cuda tests/cuda``. Needs a CUDA device, PyTorch and Triton; no network.
"""

# ruff: noqa: E402

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
pytest.importorskip("triton")

from bayespoint import BayesPointClassifier
from bayespoint._support.devices import DeviceError, free_bytes
from bayespoint.gpu import inputs as gpu_inputs
from bayespoint.gpu import rows as gpu_rows
from bayespoint.gpu import sites
from bayespoint.gpu.inputs import DeviceInputs
from bayespoint.gpu.kernels import exact_products, laid_out, on_tensor_cores, prepare, values
from bayespoint.gpu.loops import (
    billiard_torch,
    billiard_triton,
    kernel_torch,
    kernel_triton,
    perceptron_torch,
    perceptron_triton,
)
from bayespoint.gpu.rows import DeviceRows
from bayespoint.gpu.transfer import STAGED_BYTES, to_device
from bayespoint.space.inputs import row_hashes
from bayespoint.space.kernels import Kernel

pytestmark = pytest.mark.cuda

GPU = torch.device("cuda")

# Below a tile, around one, and a prime above it.
SIZES = (37, 500, 4096, 4097, 5003)
KINDS = {"float32": torch.float32, "float64": torch.float64}

# Numbers behind the end of each tensor that a kernel writes to.
GUARD = 8192


def guarded(tensor):
    """A copy with NaN (or a large number) behind its end, which nobody may touch."""
    poison = torch.nan if tensor.is_floating_point() else 77
    held = torch.full((tensor.numel() + GUARD,), poison, dtype=tensor.dtype, device=GPU)
    held[: tensor.numel()] = tensor.reshape(-1)
    view = held[: tensor.numel()].view(tensor.shape)
    view.guard = held[tensor.numel() :]
    return view


def assert_guards(*tensors):
    for tensor in tensors:
        intact = tensor.guard.isnan() if tensor.is_floating_point() else tensor.guard == 77
        assert bool(intact.all()), "written behind the end"


def generator(seed=0):
    return torch.Generator(GPU).manual_seed(seed)


def gram_matrix(m, kind, seed=0):
    """Gram matrix of a smooth kernel, values of size one, in float64 and as the loops see it."""
    X = torch.randn(m, 20, generator=generator(seed), device=GPU, dtype=torch.float64)
    X /= X.norm(dim=1, keepdim=True)
    K = ((X @ X.T + 1) ** 3 / 8).to(kind)
    return (K.tril() + K.tril(-1).T).contiguous()


# ---------------------------------------------------------------------- kernel values


FINISHES = {
    "linear": (kernel_torch.LINEAR, 1.0, 1.0, 0.0),
    "cubic": (kernel_torch.POLY, 0.1, 3.0, 1.0),
    "degree 16": (kernel_torch.POLY, 0.02, 16.0, 1.0),
    "degree 19, of negative numbers": (kernel_torch.POLY, 0.1, 19.0, 0.0),
    "degree 2.5": (kernel_torch.POLY, 0.1, 2.5, 10.0),
    "rbf": (kernel_torch.RBF, 0.05, 3.0, 1.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "plain"])
@pytest.mark.parametrize("name", FINISHES)
@pytest.mark.parametrize("width", SIZES)
def test_kernel_values(width, name, normalised, kind):
    which, gamma, degree, coef0 = FINISHES[name]
    dtype, n = KINDS[kind], 19
    A = torch.randn(n, 30, generator=generator(1), device=GPU, dtype=torch.float64).to(dtype)
    B = torch.randn(width, 30, generator=generator(2), device=GPU, dtype=torch.float64).to(dtype)
    norms = [(x * x).sum(dim=1) for x in (A, B)]
    scales = [torch.rand(len(x), generator=generator(3), device=GPU).to(dtype) for x in (A, B)]
    sides = [
        (norm, scale if normalised else None) for norm, scale in zip(norms, scales, strict=True)
    ]
    for bias in (0.0, 0.3):
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


# ---------------------------------------------------------------------- perceptrons


def perceptron_state(m, dtype, n_orders=3, n_machines=4, part=1.0, same=True):
    K = gram_matrix(m, dtype)
    rng = np.random.default_rng(m)
    visited = rng.permutation(m)[: max(2, int(part * m))]
    orders = np.array([rng.permutation(visited) for _ in range(n_orders)]).astype(np.int32)
    ranks = np.full((n_orders, m), -1, dtype=np.int32)
    np.put_along_axis(
        ranks, orders.astype(np.int64), np.arange(len(visited), dtype=np.int32)[None], 1
    )
    targets = rng.choice([-1, 1], size=(n_machines, m)).astype(np.int8)
    slack = np.full(m, 1e-5) if same else rng.uniform(1e-6, 1e-5, m)
    slots = np.full(m, -1, dtype=np.int32)
    present = rng.permutation(m)  # rows in any order
    slots[present] = np.arange(m)
    store = torch.empty_like(K)
    store[:] = K[torch.from_numpy(present).to(GPU)]
    n = n_orders * n_machines

    def put(array):
        return torch.from_numpy(array).to(GPU)

    given = [
        torch.arange(n, device=GPU), put(orders), put(ranks), n_machines, put(targets), store,
        put(slots), put(rng.uniform(0.05, 0.2, m)), put(slack), 1e-5 if same else None,
    ]  # fmt: skip
    wanted = np.repeat(orders[:, 0], n_machines).astype(np.int64)

    def fresh():
        cursors = torch.zeros((n, perceptron_torch.CURSOR_SIZE), dtype=torch.int64, device=GPU)
        cursors[:, perceptron_torch.WANTED] = put(wanted)
        outputs = torch.zeros((n, m), dtype=dtype, device=GPU)
        counts = torch.zeros((n, m), dtype=torch.int32, device=GPU)
        return [guarded(x) for x in (outputs, counts, cursors)]

    return given, fresh


def assert_same_state(found, expected):
    assert_guards(*found)
    for ours, theirs in zip(found[:2], expected[:2], strict=True):
        assert_array_equal(ours.cpu().numpy(), theirs.cpu().numpy())
    cursors = [state[2].cpu().numpy().copy() for state in (found, expected)]
    for cursor in cursors:  # how far ahead the next mistake is means nothing where there is none
        cursor[cursor[:, perceptron_torch.WANTED] < 0, perceptron_torch.AHEAD] = 0
    assert_array_equal(*cursors)


@pytest.mark.parametrize("same", [True, False], ids=["one slack", "slack of each"])
@pytest.mark.parametrize("part", [1.0, 0.4], ids=["all points", "some points"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", SIZES)
def test_perceptrons(m, kind, part, same):
    """The same bits after any number of updates: sums of the same rows in the same order."""
    given, fresh = perceptron_state(m, KINDS[kind], part=part, same=same)
    found, expected = fresh(), fresh()
    for max_updates in (1, 2, 17, 100):
        perceptron_triton.advance(*given, *found, max_updates, 10**9)
        perceptron_torch.advance(*given, *expected, max_updates, 10**9)
        assert_same_state(found, expected)
    assert int(found[1].sum()) == int(found[2][:, perceptron_torch.MISTAKES].sum()) > 0


@pytest.mark.parametrize("m", [37, 4097])
def test_perceptrons_that_end_lack_rows_or_are_not_called(m):
    given, fresh = perceptron_state(m, torch.float32)
    # To the end, or to the last pass allowed.
    for max_visits in (10**9, 200):
        found, expected = fresh(), fresh()
        perceptron_triton.advance(*given, *found, 1000, max_visits)
        perceptron_torch.advance(*given, *expected, 1000, max_visits)
        assert_same_state(found, expected)
        ended = found[2][:, perceptron_torch.WANTED]
        if max_visits < 10**9 or m == 37:
            assert bool((ended < 0).any())
    # Rows that are missing, and runs that are not called.
    missing = given[6].clone()
    missing[::3] = -1
    given[6], given[0] = missing, torch.tensor([9, 2, 5], device=GPU)
    found, expected = fresh(), fresh()
    perceptron_triton.advance(*given, *found, 500, 10**9)
    perceptron_torch.advance(*given, *expected, 500, 10**9)
    assert_same_state(found, expected)
    wanted = found[2][given[0], perceptron_torch.WANTED]
    assert bool((missing[wanted[wanted >= 0]] == -1).all())
    assert not bool(found[1][[0, 1, 3, 4]].any())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [37, 4097])
def test_outputs_at_some_points(m, kind):
    """Runs with many points, one, and none, over rows in any order."""
    rows = gram_matrix(m, KINDS[kind])
    slots = torch.randperm(m, generator=generator(1), device=GPU).int()
    sizes = [(m, m), (1, 20), (0, 5), (17, 1)]
    points, used = (
        torch.cat([torch.randperm(m, generator=generator(k), device=GPU)[: size[side]]
                   for k, size in enumerate(sizes)])
        for side in (0, 1)
    )  # fmt: skip
    ends = [torch.tensor(size, device=GPU).cumsum(0) for size in zip(*sizes, strict=True)]
    coef = torch.randn(len(used), generator=generator(9), device=GPU, dtype=torch.float64)
    given = points, ends[0], used, ends[1], coef, rows, slots
    found = perceptron_triton.outputs_at(*given)
    assert gap(found, perceptron_torch.outputs_at(*given)) < 1e-10


# ---------------------------------------------------------------------- the billiard


def billiard_state(m, dtype, noisy, n=6, seed=0):
    """Balls inside version space (but for soft walls), isotropic directions."""
    g = generator(seed)
    rows = gram_matrix(m, dtype)
    ridge = torch.full((m,), 0.05, device=GPU, dtype=torch.float64)
    soft = rows.double() + torch.diag(ridge)
    label = torch.where(torch.rand(n, m, generator=g, device=GPU) < 0.5, 1, -1).to(torch.int8)
    rate = torch.rand(n, m, generator=g, device=GPU, dtype=torch.float64)
    rate = torch.where(rate < 0.3, 0.0, 0.5 * rate)
    side = label.double()
    if noisy:
        turned = (torch.rand(n, m, generator=g, device=GPU) < 0.1) & (rate > 0)
        side = torch.where(turned, -side, side)
    height = 0.2 + torch.rand(n, m, generator=g, device=GPU, dtype=torch.float64)
    lower = torch.linalg.cholesky(soft)
    p = torch.cholesky_solve((side * height).T, lower).T
    p = p / torch.sqrt((p * (p @ soft)).sum(dim=1, keepdim=True))
    P = p @ soft
    white = torch.randn(n, m, generator=g, device=GPU, dtype=torch.float64)
    q = torch.linalg.solve_triangular(lower.T, white.T, upper=True).T
    q = q - (q * P).sum(dim=1, keepdim=True) * p
    q = q / torch.sqrt((q * (q @ soft)).sum(dim=1, keepdim=True))
    slots = torch.randperm(m, generator=g, device=GPU)
    store = torch.empty_like(rows)
    store[slots] = rows
    squared = soft.diagonal().contiguous()
    given = [store, slots.int(), squared, ridge, label, rate if noisy else None]
    start = {
        "side": (torch.sign(P) / torch.sqrt(squared)).to(dtype), "P": P.to(dtype),
        "Q": (q @ soft).to(dtype), "coef_p": p, "coef_q": q, "kicks": torch.zeros_like(p),
        "angle": torch.zeros(n, dtype=torch.float64, device=GPU),
        "cursors": torch.zeros((n, billiard_torch.CURSOR_SIZE), dtype=torch.int64, device=GPU),
    }  # fmt: skip
    start["cursors"][:, billiard_torch.RANDOM] = 977 * torch.arange(n, device=GPU) + 2**61
    return given, start, soft


def fly(module, given, start, travel, max_events, balls=None):
    """Fly until all balls have arrived, ``max_events`` at a time."""
    state = {name: guarded(tensor) for name, tensor in start.items()}
    n = len(start["P"])
    balls = torch.arange(n, device=GPU) if balls is None else balls
    travels = torch.full((n,), travel, dtype=torch.float64, device=GPU)
    for _ in range(5000):
        module.fly(balls, *given, travels, max_events, **state)
        if bool((state["cursors"][balls, billiard_torch.OVER] == 1).all()):
            break
    else:
        raise AssertionError("the balls do not arrive")
    assert_guards(*state.values())
    cos, sin = np.cos(travel), np.sin(travel)
    cursors = state["cursors"].cpu().numpy()
    return SimpleNamespace(
        P=(state["P"].double() * cos + state["Q"].double() * sin),
        coef=state["coef_p"] * cos + state["coef_q"] * sin, kicks=state["kicks"],
        side=state["side"], bounces=cursors[:, billiard_torch.BOUNCES],
        passes=cursors[:, billiard_torch.PASSES], random=cursors[:, billiard_torch.RANDOM],
    )  # fmt: skip


def gap(one, two):
    return float((one - two).abs().max())


@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "noisy"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", SIZES)
def test_billiard(m, kind, noisy):
    given, start, soft = billiard_state(m, KINDS[kind], noisy)
    # In float32 sums that are fused round otherwise: after many walls another one is met first.
    travel = 0.4 if kind == "float64" else 0.4 * min(1.0, 500 / m)
    expected = fly(billiard_torch, given, start, travel, 10**6)
    slack = 1e-9 if kind == "float64" else 1e-4
    for max_events in (10**6, 7):
        found = fly(billiard_triton, given, start, travel, max_events)
        if kind == "float64":
            for name in ("bounces", "passes", "random"):
                assert_array_equal(getattr(found, name), getattr(expected, name))
            assert gap(found.kicks, expected.kicks) < slack
            assert gap(found.side, expected.side) < slack
        same = found.bounces == expected.bounces
        assert same.mean() >= 0.5
        chosen = torch.from_numpy(same).to(GPU)
        assert gap(found.P[chosen], expected.P[chosen]) < slack
        # What holds whatever way a ball took: outputs are those of the coefficients, hard walls
        # are not passed, and the vector has unit length.
        exact = found.coef @ soft
        length = torch.sqrt(torch.diagonal(soft))
        assert gap(found.P / length, exact / length) < (1e-9 if kind == "float64" else 1e-5)
        assert gap((found.coef * exact).sum(dim=1), torch.ones(1, device=GPU)) < 10 * slack
        hard = torch.ones_like(found.P, dtype=torch.bool) if given[5] is None else given[5] == 0
        margins = given[4].double() * exact / length
        assert float(margins[hard].min()) > (-1e-9 if kind == "float64" else -1e-6)
        assert np.all(found.bounces > 0) or m == 37
    assert bool(expected.passes.any()) == noisy


def test_balls_that_are_not_called_stay():
    given, start, _ = billiard_state(500, torch.float64, noisy=True)
    everyone = fly(billiard_triton, given, start, 0.4, 10**6)
    some = fly(billiard_triton, given, start, 0.4, 10**6, torch.tensor([4, 1], device=GPU))
    assert_array_equal(some.bounces[[1, 4]], everyone.bounces[[1, 4]])
    assert not np.any(some.bounces[[0, 2, 3, 5]])
    assert gap(some.P[[1, 4]], everyone.P[[1, 4]]) < 1e-12


def test_flights_are_repeatable():
    given, start, _ = billiard_state(4097, torch.float32, noisy=True)
    one, two = (fly(billiard_triton, given, start, 0.3, 10**6) for _ in range(2))
    assert torch.equal(one.P, two.P)
    assert torch.equal(one.coef, two.coef)


# ---------------------------------------------------------------------- the classifier


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:1200], y[:1200], X[1200:], y[1200:]


FIXED = {"gamma": 0.05, "softness": 0.05, "bias": 0.1, "random_state": 0, "n_draws": 10}
KERNELS = {
    "rbf": {},
    "linear": {"softness": 0.5},
    "poly": {"degree": 3, "gamma": 0.05},
    "laplacian": {"gamma": 0.02},
}


def kernel_of(clf):
    return clf.predictor_.support.kernel


def make(device="cuda", inference="perceptron", **settings):
    return BayesPointClassifier(**{**FIXED, "device": device, "inference": inference, **settings})


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
        assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-4)
    # In float32 a tie up to rounding may fall either way, and the run goes another one from there.
    assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.98
    assert abs(ours.score(new, truth) - theirs.score(new, truth)) < 0.01
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=0.1)
    # Predictions of one model on both devices.
    there = ours.predict_proba(new)
    here = ours.set_params(device="cpu").predict_proba(new)
    assert_allclose(here, there, atol=1e-4)


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
    monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: 200 * 1200 * 4)
    blocks = make().fit(X, y)
    assert np.mean(blocks.predict(new) == whole.predict(new)) > 0.98


def test_free_memory_is_what_is_left():
    free = free_bytes(GPU)
    assert 0 < free <= torch.cuda.get_device_properties(GPU).total_memory
    held = torch.empty(2**30, dtype=torch.uint8, device=GPU)
    assert 2**29 < free - free_bytes(GPU) < 2**31
    del held  # PyTorch keeps it for the next one
    assert abs(free_bytes(GPU) - free) < 2**29


def test_memory_that_is_exhausted(monkeypatch):
    """More than any card has: believed to fit, it is an error that says what to do."""
    monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: 2**50)
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


def test_balls_that_lost_their_way_fly_again(digits, monkeypatch):
    X, y, _, _ = digits
    X, y = X[:200], y[:200] > 4
    true, calls = billiard_triton.fly, []

    def straying(*args, **state):
        true(*args, **state)
        calls.append(len(args[0]))
        if len(calls) == 25:  # after those of the burn-in
            state["coef_p"][2].neg_()
            state["coef_q"][2].neg_()

    monkeypatch.setattr(billiard_triton, "fly", straying)
    clf = make(inference="billiard", n_draws=320, softness=0.2, tol=0).fit(X, y)
    assert clf.diagnostics_["restarts"] == 1
    assert calls == 25 * [32] + [1] + 5 * [32]
    draws = clf.posterior().draws().reshape(-1, 200)
    K = kernel_of(clf)(X).astype(np.float64) + 0.2 * np.eye(200)
    assert (np.where(y, 1, -1) * (draws @ K)).min() > -1e-5


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


def test_values_of_one_point():
    X = torch.ones((1, 3), device=GPU)
    kernel = Kernel("rbf", gamma=1.0).fit_layout(np.ones((1, 3), dtype=np.float32))
    one = prepare(kernel, laid_out(kernel, X))
    assert float(values(kernel, one, one)) == 1.0


def test_inference_on_the_gpu():
    from bayespoint import VersionSpace, inference

    X = np.random.default_rng(0).normal(size=(300, 5))
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    space = VersionSpace(K, np.sign(X[:, 0] + 0.3), softness=0.05)
    ours, theirs = (
        inference.sample_perceptron(space, 20, random_state=0, device=device)
        for device in ("cuda", "cpu")
    )
    assert_allclose(ours.coef.toarray(), theirs.coef.toarray(), atol=1e-12)
    ours, theirs = (
        inference.sample_billiard(space, 3200, n_chains=32, random_state=0, device=device)
        for device in ("cuda", "cpu")
    )
    assert ours.info["rhat"] < 1.05
    assert ours.bayes_point() @ space.outputs(theirs.bayes_point()) > 0.99
    ours, theirs = (
        inference.expectation_propagation(space, device=device) for device in ("cuda", "cpu")
    )
    assert_allclose(ours.log_evidence, theirs.log_evidence, rtol=1e-9)
    assert type(pickle.loads(pickle.dumps(ours)).coef) is np.ndarray


def test_the_link_beside_the_draws(monkeypatch):
    from bayespoint.estimators import calibration

    monkeypatch.setattr(calibration, "LINK_POINTS", 500)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    settings = {"gamma": 0.05, "softness": 0.05, "inference": "perceptron", "n_draws": 10}
    found = [
        BayesPointClassifier(**settings, random_state=0, device=device).fit(X, y)
        for device in ("cuda", "cuda", "cpu")
    ]
    found = [clf.predictor_.steepness for clf in found]
    assert found[0] == found[1]
    assert_allclose(found[0], found[2], rtol=1e-3)
