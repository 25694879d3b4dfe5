"""Permuted kernel perceptrons (LSB section 3; JMLR section 3.2, algorithm 1).

For an order P of the points: w = 0; visit P(1), P(2), ... cyclically; at a point with
y_i <w, phi(x_i)> <= 0 set w += y_i phi(x_i); stop after one full round without a mistake. Each
order gives one classifier that agrees with all labels. Novikoff: at most
(max ||phi(x_i)|| / margin)^2 mistakes.

The kernel rows are the whole cost, so all runs (machines x orders) share one store: every run
goes on until it needs a row that is missing, then the missing rows of all runs are computed
together.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import warn
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.inference.engines import engines_of
from bayespoint.inference.perceptron.draw import Draw
from bayespoint.space.kernels import BLOCK_ROWS
from bayespoint.space.rows import Rows
from bayespoint.space.version_space import EmptyVersionSpaceError, VersionSpace

MAX_PASSES = 1000

# Runs that are in flight together where there is a time limit, so that some are finished in time.
RUNS_IN_FLIGHT_TIMED = 16

# Share of the memory budget for the outputs, counts and orders of the runs in flight.
STATE_SHARE = 0.25


# Outputs within so many units in the last place of k(x, x) count as zero: a tie that rounding
# made positive would be a training error in exact arithmetic.
TIE_ULPS = 32

# Numbers in the orders of a wave that are worth threads of their own.
ORDER_WORK = 250_000

# Even without time left, each run asks for its first row and makes its first update.
MIN_STEPS = 2


class ZeroLengthError(ValueError):
    """A sum of points that has no direction."""


def perceptron_draws(
    rows: Rows, targets: Array, ridge: Array, numbers: range,
    order_of_draw: Callable[[int], Array], *, budget: Budget, threads: Threads | None = None,
    max_passes: int = MAX_PASSES, on_exhausted: Callable[[int, Array], None] | None = None,
    folds: Array | None = None,
) -> Iterator[Draw]:  # fmt: skip
    """Yield a `Draw` for each of ``numbers``, in order, all machines sharing rows.

    Stops early when the budget is spent or on Ctrl-C (``budget.interrupted`` is then set) with
    the draws that are complete; if none is, with one that is not.

    Parameters
    ----------
    rows : Rows
    targets : ndarray of int8, shape (n_machines, n_points)
        Labels +1 and -1 for each machine.
    ridge : ndarray of shape (n_points,)
        Softness on the diagonal.
    numbers : range
        Numbers of the draws.
    order_of_draw : callable
        From the number of a draw to its order, an array of the points to visit.
    budget : Budget
    threads : Threads, optional
        Where runs advance; by default those of the rows.
    max_passes : int
    on_exhausted : callable, optional
        Called with a machine and its counts when the first run of a machine is given up.
    folds : ndarray of int, shape (n_points,), optional
        Numbers from 0 on, equally many of each but for one. Each draw then first visits all points
        but those of one fold, in turn, and goes on with all of them once it has no mistake there;
        its outputs in between are in `Draw.before`.
    """
    n_machines, n_points = targets.shape
    engines = engines_of(rows)
    slack = TIE_ULPS * np.finfo(rows.dtype).eps * rows.diagonal
    in_flight = engines.runs_in_flight if budget.max_time is None else RUNS_IN_FLIGHT_TIMED
    state_bytes = n_machines * n_points * 12 + n_points * 4
    fitting = int(STATE_SHARE * rows.cache_bytes / state_bytes)
    per_wave = max(1, min(in_flight // n_machines, fitting))
    n_yielded, n_phases = 0, 1 if folds is None else 2
    checked: set[int] = set()
    wave: Any = None

    def check(run: int) -> None:
        machine = int(run) % n_machines
        if on_exhausted is not None and machine not in checked:
            checked.add(machine)
            on_exhausted(machine, wave.counts(run))

    for start in range(0, len(numbers), per_wave):
        part = numbers[start : start + per_wave]
        wave = None  # its memory, before the next one takes some
        # The cores of the host are idle only where runs go on elsewhere.
        idle = engines.many_at_once and len(part) * n_points >= ORDER_WORK
        orders = _each(order_of_draw, part, idle)
        first = orders if folds is None else _without_fold(orders, part, folds, idle)
        wave = engines.wave(rows, targets, ridge, slack, first)
        before: list[Any] = [None] * len(part)
        cut_short = folds is not None  # before the folds were seen
        run = partial(_run, wave, budget, threads or rows.threads, max_passes, check)
        try:
            run(n_phases * start, n_phases * len(numbers), n_phases)
            if folds is not None:
                if not budget.spent():
                    wave.settle()
                    before = wave.before(_left_out(part, folds))
                    cut_short = False
                wave.visit(orders)
                run(n_phases * start + len(part), n_phases * len(numbers), n_phases)
        except KeyboardInterrupt:  # raised by somebody else's code, such as a callable kernel
            budget.interrupt()
            if not n_yielded and not np.all(wave.mistakes):
                raise
        if wave.orders.shape[1] < len(orders[0]):  # interrupted before that
            wave.visit(orders)
        wave.settle()
        finished = _finished(wave, n_machines) & (not cut_short)
        keep = np.flatnonzero(finished)
        if not len(keep) and not n_yielded:
            keep = _least_violating(wave, n_machines)
        for k in keep:
            more = bool(engines.many_at_once and k != keep[-1])
            draw = _draw(wave, targets, int(k), part[k], bool(finished[k]), more)
            yield draw._replace(before=before[k])
            n_yielded += 1
        if budget.spent():
            break
    budget.close()


def _each(make: Callable[[int], Array], numbers: range, idle: bool) -> list[Array]:
    """What each number makes, by all cores if they are idle."""
    if not idle:
        return [make(number) for number in numbers]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(make, numbers))


def fold_of_draw(number: int, folds: Array) -> int:
    """Number of the fold that a draw leaves out at first."""
    return number % (int(folds.max()) + 1)


def _without_fold(orders: list[Array], numbers: range, folds: Array, idle: bool) -> list[Array]:
    """Orders of all points but a fold, and of one point less where that fold is small."""
    length = len(orders[0]) - int(np.bincount(folds).max())

    def without(k: int) -> Array:
        order = orders[k]
        return order[folds[order] != fold_of_draw(numbers[k], folds)][:length]

    return _each(without, range(len(orders)), idle)


def _left_out(numbers: range, folds: Array) -> Array:
    """Which points each draw leaves out at first, (n_draws, n_points)."""
    return np.array([folds == fold_of_draw(number, folds) for number in numbers])


def _run(
    wave: Any, budget: Budget, threads: Threads, max_passes: int, check: Callable[[int], None],
    start: int, total: int, n_phases: int,
) -> None:  # fmt: skip
    """Advance all runs of a wave until each has converged or is given up."""
    from bayespoint._loops.perceptron import CONVERGED, EXHAUSTED, PAUSED

    rows, n_machines = wave.rows, len(wave.targets)
    active = np.arange(len(wave))
    n_steps = 0
    while active.size and (n_steps < MIN_STEPS or not budget.spent()):
        n_steps += 1
        wave.advance(active, max_passes * wave.orders.shape[1], threads)
        state = wave.state[active]
        for run in active[state == EXHAUSTED]:
            check(run)
        active = active[(state != CONVERGED) & (state != EXHAUSTED)]
        state = wave.state[active]
        stalled = active[state >= 0]
        # As long as some runs can go on, rows wait until they fill a block.
        if stalled.size and (not np.any(state == PAUSED) or stalled.size >= BLOCK_ROWS):
            wave.fetch(_wishes(wave, stalled))
        done = start * n_machines + len(wave) - active.size
        budget.show(
            done // n_phases, total * n_machines // n_phases,
            f"runs, {rows.n_computed} kernel rows,",
        )  # fmt: skip


def _wishes(wave: Any, stalled: Array) -> Array:
    """Rows to compute: those that runs wait for, then likely ones to fill the block."""
    wanted = _unique_in_order(wave.state[stalled])
    if len(wanted) >= BLOCK_ROWS:  # full blocks only: who waits a round longer loses nothing
        return wanted[: len(wanted) // BLOCK_ROWS * BLOCK_ROWS]
    free = wave.rows.room_beside(len(wanted))
    if not free:
        return wanted
    guesses = wave.likely(stalled, 1 + -(-free // len(stalled))).T.ravel()
    wishes = _unique_in_order(np.concatenate([wanted, guesses[guesses >= 0]]))
    return wishes[: len(wanted) + free]


def _finished(wave: Any, n_machines: int) -> Any:
    """Which draws are complete: every run converged or was given up."""
    from bayespoint._loops.perceptron import CONVERGED, EXHAUSTED

    ended = np.isin(wave.state, (CONVERGED, EXHAUSTED))
    return np.all(ended.reshape(-1, n_machines), axis=1)


def _least_violating(wave: Any, n_machines: int) -> Array:
    """The draw with the fewest visited points on the wrong side, as an array of one."""
    wrong = wave.violated(range(len(wave)))
    return np.array([np.argmin(wrong.reshape(-1, n_machines).sum(axis=1))])


def _draw(wave: Any, targets: Array, k: int, number: int, finished: bool, more: bool) -> Draw:
    """Scale the classifiers of draw k of a wave to unit length."""
    runs = range(k * len(targets), (k + 1) * len(targets))
    pairs, outputs, squared = wave.classifiers(runs)
    if np.any(squared <= 0):
        raise ZeroLengthError(
            "kernel is not positive semi-definite: a classifier has squared length "
            f"{np.min(squared):.3g} <= 0. Use a kernel that is an inner product."
        )
    norms = np.sqrt(squared)
    coef = [
        (used, target[used] * count.astype(np.float64) / norm)
        for target, (used, count), norm in zip(targets, pairs, norms, strict=True)
    ]
    if outputs is not None:
        outputs /= norms[:, None]
    mistakes = wave.mistakes[runs.start : runs.stop].copy()
    return Draw(number, coef, outputs, mistakes, wave.violated(runs), finished, more)


def conflict_check(
    space_of: Callable[[int], VersionSpace], names: Array | None = None,
    problems: Sequence[str] | None = None,
) -> Callable[[int, Array], None]:  # fmt: skip
    """Make the ``on_exhausted`` that raises if a certificate shows version space empty."""

    def check(machine: int, counts: Array) -> None:
        space = space_of(machine)
        if space.softness > 0:  # never empty
            return
        often = np.argsort(-counts, kind="stable")
        points = space.conflict(often[: np.count_nonzero(counts)])
        if points is not None:
            problem = "" if problems is None else problems[machine]
            raise EmptyVersionSpaceError(points if names is None else names[points], problem)

    return check


def warn_if_violated(violated: Array) -> None:
    """Warn about draws that leave points on the wrong side."""
    if np.any(violated):
        bad = violated[violated > 0]
        warn(
            f"{len(bad)} of {violated.size} perceptron runs did not converge and leave up to "
            f"{bad.max()} training points on the wrong side. Raise max_time where it is set, raise "
            f"softness, or scale the features.",
            ConvergenceWarning,
        )


def permutations(n_points: int, entropy: Any) -> Callable[[int], Array]:
    """Map the number of a draw to its order: the same whoever asks, and in which sequence."""

    def order_of_draw(number: int) -> Array:
        seed = np.random.SeedSequence(entropy, spawn_key=(number,))
        return np.random.default_rng(seed).permutation(n_points).astype(np.int32)

    return order_of_draw


def _unique_in_order(values: Array) -> Array:
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]
