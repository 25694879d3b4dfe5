"""Flights of billiard balls in Triton: those of the PyTorch reference, inside their walls."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cuda import (
    GPU,
    KINDS,
    SIZES,
    assert_guards,
    gap,
    generator,
    gram_matrix,
    guarded,
    kernel_of,
    make,
    torch,
)
from numpy.testing import assert_array_equal

from bayespoint.gpu.loops import billiard_torch, billiard_triton

pytestmark = pytest.mark.cuda


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
