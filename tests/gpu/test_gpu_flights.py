"""One flight of billiard balls in PyTorch is that of the compiled loop."""

# ruff: noqa: E402

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from bayespoint._loops import billiard as billiard_loop
from bayespoint.gpu import billiards as gpu_billiards
from bayespoint.gpu.loops import billiard_torch
from bayespoint.inference.billiard.balls import TRAVEL


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


def torch_flight(f, travel, dtype=torch.float64, max_events=10**6, balls=None):
    """The reference in PyTorch, all balls in step."""
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
        billiard_torch.fly(
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
@pytest.mark.parametrize(
    ("m", "travel"), [(2, TRAVEL), (2, 9 * np.pi / 2), (60, 0.4), (60, TRAVEL)]
)
def test_a_flight_is_that_of_the_compiled_loop(m, travel, noisy):
    """With the same random numbers, wherever labels may be wrong."""
    for seed in range(2):
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
    if m == 60 and travel >= TRAVEL:
        wrong = SimpleNamespace(**{**vars(f), "squared": f.squared / 1.1})
        different = torch_flight(wrong, travel).P - expected.P
        assert np.abs(different).max() > 1e-3


@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "noisy"])
def test_a_flight_in_pieces(noisy):
    f = make_flight(m=30, noisy=noisy)
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


def test_walls_that_are_touched_are_nearer_than_balls_that_are_lost():
    assert billiard_torch.TOUCH[torch.float64] == billiard_loop.TOUCH
    assert set(billiard_torch.TOUCH) == set(gpu_billiards.LOST)
    for dtype, touch in billiard_torch.TOUCH.items():
        assert 0 < touch < gpu_billiards.LOST[dtype]
    # In either precision a wall that is met now comes before all others.
    assert 1 / min(billiard_torch.TOUCH.values()) < billiard_torch.NOW < torch.finfo().max
