"""Perceptron runs on a device take the steps of the compiled loop, and end without a mistake."""

# ruff: noqa: E402

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
    targets_of,
)

from bayespoint import VersionSpace
from bayespoint._loops.perceptron import CONVERGED, PAUSED
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.gpu import perceptrons as gpu_perceptrons
from bayespoint.gpu.loops import perceptron_torch
from bayespoint.gpu.loops.perceptron_torch import MISTAKES, WANTED
from bayespoint.gpu.rows import DeviceRows
from bayespoint.inference.engines import engines_of
from bayespoint.inference.perceptron import runs
from bayespoint.inference.perceptron.runs import conflict_check, perceptron_draws, permutations
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import FullRows, GramRows
from bayespoint.space.version_space import EmptyVersionSpaceError

M = 100


def drawn(rows, targets, ridge, n_draws=4, orders=None, budget=None, **options):
    """Draws, and the machines whose runs were given up, with their counts."""
    given_up = []
    ridge = np.zeros(targets.shape[1]) + ridge
    draws = perceptron_draws(
        rows, targets, ridge, range(n_draws), orders or permutations(targets.shape[1], 7),
        budget=budget or Budget(), on_exhausted=lambda *args: given_up.append(args), **options,
    )  # fmt: skip
    return list(draws), given_up


def assert_same_draws(found, expected, rtol=1e-12):
    for draw, other in zip(found[0], expected[0], strict=True):
        assert (draw.number, draw.finished) == (other.number, other.finished)
        assert_array_equal(draw.mistakes, other.mistakes)
        assert_array_equal(draw.violated, other.violated)
        for (used, coef), (other_used, other_coef) in zip(draw.coef, other.coef, strict=True):
            assert_array_equal(used, other_used)
            assert_allclose(coef, other_coef, rtol=rtol)
    assert len(found[1]) == len(expected[1])
    # Of the runs that were given up: the first to be is a matter of the order of the work.
    assert {machine for machine, _ in found[1]} == {machine for machine, _ in expected[1]}


def margins(draw, K, ridge, targets):
    """Least margin of each machine of a draw, and its squared length."""
    softened = K.astype(np.float64) + np.diag(np.broadcast_to(ridge, len(K)))
    for target, (used, coef) in zip(targets, draw.coef, strict=True):
        outputs = coef @ softened[used]
        yield np.min(target * outputs), coef @ outputs[used]


@pytest.mark.parametrize(("name", "n_rows"), [*((name, M) for name in KERNELS), ("rbf", 15)])
def test_perceptrons_take_the_same_steps(name, n_rows):
    """To the bit in float64: outputs are sums of the same rows in the same order."""
    X, label = make_points(M)
    K, targets = gram_of(name, X), targets_of(label)
    ridge = 0.1 * K.diagonal()
    expected = drawn(FullRows(K), targets, ridge)
    rows = given_rows(K, memory=n_rows * M * 8)
    assert rows.whole == (n_rows == M)
    found = drawn(rows, targets, ridge)
    assert_same_draws(found, expected)
    assert all(draw.finished and draw.outputs is None for draw in found[0])
    if n_rows < M:
        assert rows.n_computed > M  # rows were evicted and came back
        return
    # Rows on demand: the same kernel, whose rows differ by rounding only.
    kernel = Kernel(**KERNELS[name], bias=0.5).fit_layout(X)
    there = DeviceRows(kernel, device_points(kernel, X), memory=PLENTY)
    here = GramRows(kernel, kernel.prepare(X), cache_bytes=PLENTY, threads=Threads(1))
    assert_same_draws(
        drawn(there, targets, ridge, 2), drawn(here, targets, ridge, 2), rtol=1e-9
    )  # fmt: skip
    # Negative control: another order gives other classifiers.
    order = permutations(M, 7)
    backwards = drawn(given_rows(K), targets, ridge, orders=lambda number: order(number)[::-1])
    assert any(
        np.any(draw.mistakes != other.mistakes)
        for draw, other in zip(backwards[0], expected[0], strict=True)
    )


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
    expected, found = (
        drawn(rows, targets, ridge, max_passes=20) for rows in (FullRows(K), given_rows(K))
    )
    assert_same_draws(found, expected, rtol=1e-6)


def test_float32_rows_give_the_same_draws():
    X, label = make_points(200, np.float32)
    targets = targets_of(label)
    kernel = Kernel("rbf", gamma=0.1, bias=0.5).fit_layout(X)
    here = GramRows(kernel, kernel.prepare(X), cache_bytes=PLENTY, threads=Threads(1))
    there = DeviceRows(kernel, device_points(kernel, X), memory=PLENTY)
    ridge = 0.1 * here.diagonal
    found, expected = (drawn(rows, targets, ridge, 8)[0] for rows in (there, here))
    K, same = kernel(X), []
    for draw, other in zip(found, expected, strict=True):
        assert_array_equal(draw.violated, 0)
        for (used, coef), (other_used, other_coef) in zip(draw.coef, other.coef, strict=True):
            same.append(np.array_equal(used, other_used) and np.allclose(coef, other_coef, 1e-5))
        # No training error by the rows in float64, either.
        for margin, squared in margins(draw, K, ridge, targets):
            assert margin > 0
            assert squared == pytest.approx(1, abs=1e-5)
    assert np.mean(same) >= 0.9  # a tie up to rounding may fall either way


@pytest.mark.parametrize("n_rows", [M, 20])
def test_some_of_the_points_visited(n_rows):
    """Points that are not visited are never added, nor do their mistakes count."""
    X, label = make_points(M)
    K, targets = gram_of("rbf", X), targets_of(label)

    def order(number):
        rng = np.random.default_rng(number)
        return rng.permutation(np.arange(0, M, 2)).astype(np.int32)

    expected, found = (
        drawn(rows, targets, 0.05 * K.diagonal(), 3, order)
        for rows in (FullRows(K), given_rows(K, memory=n_rows * M * 8))
    )
    assert_same_draws(found, expected)
    assert not any(np.any(used % 2) for draw in found[0] for used, _ in draw.coef)


@pytest.mark.parametrize("max_passes", [1, 3])
def test_runs_that_are_given_up(max_passes):
    X, label = make_points(M)
    label = np.random.default_rng(0).permutation(label)
    K, targets = gram_of("linear", X), targets_of(label)
    expected = drawn(FullRows(K), targets, 0.0, 3, max_passes=max_passes)
    assert sorted(machine for machine, _ in expected[1]) == [0, 1, 2]
    assert all(np.all(draw.violated > 0) for draw in expected[0])
    for n_rows in (M, 20):
        rows = given_rows(K, memory=n_rows * M * 8)
        found = drawn(rows, targets, 0.0, 3, max_passes=max_passes)
        assert_same_draws(found, expected)
        assert all(np.sum(counts) > 0 for _, counts in found[1])


def test_contradictions_are_named():
    X, label = make_points(M)
    K, targets = gram_of("linear", X), targets_of(label)
    rows = given_rows(K)
    check = conflict_check(lambda machine: VersionSpace(rows, targets[machine]))
    draws = perceptron_draws(
        rows, targets, np.zeros(M), range(2), permutations(M, 0), budget=Budget(),
        max_passes=20, on_exhausted=check,
    )  # fmt: skip
    with pytest.raises(EmptyVersionSpaceError) as caught:
        list(draws)
    named = caught.value.points
    assert 2 <= len(named) <= 8  # six features, a bias
    assert any(VersionSpace(K, target).conflict(named) is not None for target in targets)


@pytest.mark.parametrize("work", [0, 10**9], ids=["many threads", "one thread"])
def test_draws_of_several_waves_have_the_orders_of_their_numbers(work, monkeypatch):
    """More runs than are in flight together; those drawn together say so."""
    monkeypatch.setattr(runs, "ORDER_WORK", work)
    X, label = make_points(20)
    K, targets = gram_of("rbf", X), targets_of(label)
    per_wave = engines_of(given_rows(K)).runs_in_flight // 3
    assert per_wave < 350
    found, expected = (
        drawn(rows, targets, 0.3, 350, permutations(20, 1)) for rows in (given_rows(K), FullRows(K))
    )
    assert_same_draws(found, expected)
    assert [draw.number for draw in found[0] if not draw.more] == [per_wave - 1, 349]


def test_draws_of_earlier_waves_outlive_the_time_limit():
    X, label = make_points(20)
    K, targets, budget = gram_of("rbf", X), targets_of(label), Budget()
    rows = given_rows(K)
    per_wave = engines_of(rows).runs_in_flight // 3
    numbers = []
    for draw in perceptron_draws(
        rows, targets, np.full(20, 0.3), range(3 * per_wave), permutations(20, 0), budget=budget
    ):
        assert draw.finished
        numbers.append(draw.number)
        if draw.number == per_wave - 2:  # those that are there already still come
            budget.interrupt()
    assert numbers == list(range(per_wave))


def test_pauses_change_nothing(monkeypatch):
    X, label = make_points(M)
    K, targets = gram_of("rbf", X), targets_of(label)
    ridge = 0.05 * K.diagonal()
    expected = drawn(given_rows(K), targets, ridge, 2)
    for work in (1, M * 7):  # one update at a time, seven
        monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", work)
        assert_same_draws(drawn(given_rows(K), targets, ridge, 2), expected)


@pytest.mark.parametrize("looks", [0, 1, 5, 20])
def test_time_that_is_up_leaves_one_draw_and_what_it_leaves_wrong(looks, monkeypatch, clock):
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    X, label = make_points(M)
    K, targets = gram_of("rbf", X), targets_of(label)
    ridge = 0.05 * K.diagonal()
    budget, clock.step = Budget(max_time=looks + 0.5), 1.0
    (draw,), _ = drawn(given_rows(K), targets, ridge, budget=budget)
    assert not draw.finished
    for machine, (used, coef) in enumerate(draw.coef):
        assert 0 < draw.mistakes[machine] <= looks + 3
        outputs = coef @ K[used] + np.bincount(used, coef * ridge[used], minlength=M)
        assert draw.violated[machine] == np.count_nonzero(targets[machine] * outputs <= 0)
        assert np.dot(coef, outputs[used]) == pytest.approx(1)


def moved_outputs(monkeypatch, K, ridge, shift):
    """Move the outputs of all runs by ``shift(mistakes)`` to the right side, as rounding might.

    Returns a list with the numbers of mistakes that runs which thought to be done did not see.
    """
    true, hidden = perceptron_torch.advance, []
    softened = torch.from_numpy(K.astype(np.float64) + np.diag(np.full(len(K), ridge)))

    def advance(runs, orders, ranks, n_machines, targets, *args):
        true(runs, orders, ranks, n_machines, targets, *args)
        outputs, counts, cursors = args[5:8]
        target = targets[runs % n_machines]
        exact = (counts[runs] * target).double() @ softened
        outputs[runs] = (exact + target * shift(cursors[runs, MISTAKES].double())).to(outputs.dtype)
        ended = cursors[runs, WANTED] == CONVERGED
        hidden.append(int((target * exact <= 0)[ended].sum()))

    monkeypatch.setattr(perceptron_torch, "advance", advance)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 3 * len(K))  # three updates at a time
    return hidden


@pytest.mark.parametrize("how", ["far", "nearly as far as rounding can"])
def test_outputs_that_were_moved_do_not_hide_mistakes(how, monkeypatch):
    """Before a run counts as converged, its outputs are computed anew."""
    if how == "far":
        X, label = make_points(M)
        K, ridge = gram_of("rbf", X), 0.05
        monkeypatch.setattr(gpu_perceptrons, "SURE", 0.0)  # rounding would not lead so far

        def shift(_):
            return 0.3
    else:
        K, label = whole_numbers()  # where ties then look like points on the right side
        K, ridge = K.astype(np.float32), 2.0
        length = torch.from_numpy(np.sqrt(K.diagonal() + 2.0))
        reach = 0.9 * torch.finfo(torch.float32).eps * length * K.diagonal().max() ** 0.5

        def shift(mistakes):
            return ((mistakes + 2) * torch.sqrt(mistakes))[:, None] * reach

    targets = targets_of(label)
    hidden = moved_outputs(monkeypatch, K, ridge, shift)
    draws, _ = drawn(given_rows(K), targets, ridge, 3)
    for draw in draws:
        assert draw.finished
        assert_array_equal(draw.violated, 0)
        assert all(margin > 0 for margin, _ in margins(draw, K, ridge, targets))
    # Negative control: without that, mistakes would have been left.
    assert sum(hidden) > 0


@pytest.mark.parametrize("stop_at", [None, 1, 5, 11], ids=["whole", "1", "5", "11"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_outputs_before_a_fold_was_seen(dtype, stop_at, monkeypatch):
    """Sums over the draws that are kept, and over these only, of what the CPU has one by one."""
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    X, label = make_points(M)
    K, targets = gram_of("rbf", X).astype(dtype), targets_of(label)
    ridge, folds, budget = 0.1 * K.diagonal(), np.arange(M) % 10, Budget()
    each, _ = drawn(FullRows(K), targets, ridge, 12, folds=folds)
    true = gpu_perceptrons.DeviceWave.advance

    def advance(wave, *args):
        true(wave, *args)
        ended = np.all(((wave.state < 0) & (wave.state != PAUSED)).reshape(12, -1), axis=1)
        if stop_at and wave.orders.shape[1] == M and np.sum(ended) >= stop_at:
            budget.interrupt()

    monkeypatch.setattr(gpu_perceptrons.DeviceWave, "advance", advance)
    found, _ = drawn(given_rows(K), targets, ridge, 12, budget=budget, folds=folds)
    numbers = [draw.number for draw in found]
    assert len(found) == 12 if stop_at is None else stop_at <= len(found) < 12
    assert [draw.before is None for draw in found] == [True] * (len(found) - 1) + [False]
    wanted = [np.sum(part, axis=0) for part in zip(*(each[k].before for k in numbers), strict=True)]
    for sums, other in zip(found[-1].before, wanted, strict=True):
        assert_allclose(sums, other, atol=1e-5)
    assert np.any(np.abs(wanted[1]) > 0.01)
