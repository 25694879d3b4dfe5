"""Perceptron runs in Triton: the bits of the PyTorch reference, whatever they are asked."""

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
    torch,
)
from numpy.testing import assert_array_equal

from bayespoint.gpu.loops import perceptron_torch, perceptron_triton

pytestmark = pytest.mark.cuda


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
