"""Permuted kernel perceptrons (LSB section 3; JMLR section 3.2, algorithm 1).

For an order P of the points: w = 0; visit P(1), P(2), ... cyclically; at a point with
y_i <w, phi(x_i)> <= 0 set w += y_i phi(x_i); stop after one full round without a mistake. Each
order gives one classifier that agrees with all labels. Novikoff: at most
(max ||phi(x_i)|| / margin)^2 mistakes.

The kernel rows are the whole cost, so all runs (machines x orders) share one store: every run
goes on until it needs a row that is missing, then the missing rows of all runs are computed
together.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint.kernels import BLOCK_ROWS, aligned_empty
from bayespoint.validation import warn
from bayespoint.version_space import EmptyVersionSpaceError

MAX_PASSES = 1000

# Runs that are in flight together: enough for wide products, few enough that an interrupted fit
# has finished some. With a time limit, fewer.
RUNS_IN_FLIGHT = 128
RUNS_IN_FLIGHT_TIMED = 16

# Share of the memory budget for the outputs, counts and orders of the runs in flight.
STATE_SHARE = 0.25

# Additions between two returns to Python, some 30 ms: Ctrl-C and max_time act at once.
UPDATE_WORK = 5e7
VISIT_WORK = 1e7


# Outputs within so many units in the last place of k(x, x) count as zero: a tie that rounding
# made positive would be a training error in exact arithmetic.
TIE_ULPS = 32

# Even without time left, each run asks for its first row and makes its first update.
MIN_STEPS = 2


class ZeroLengthError(ValueError):
    """A sum of points that has no direction."""


class Draw(NamedTuple):
    """One classifier for each machine, all from one order of the points."""

    number: int
    coef: list  # (indices, values) for each machine: unit vectors in the softened metric
    outputs: np.ndarray  # (n_machines, n_points), of the unit vectors
    mistakes: np.ndarray  # (n_machines,)
    violated: np.ndarray  # (n_machines,): visited points left on the wrong side
    finished: bool = True  # whether every run converged or was given up, rather than cut short


class _Wave(NamedTuple):
    """The state of the runs in flight: run r is machine r % n_machines, order r // n_machines."""

    orders: np.ndarray
    outputs: np.ndarray
    counts: np.ndarray
    cursors: np.ndarray


def perceptron_draws(
    rows, targets, ridge, numbers, order_of_draw, *, budget, threads=None,
    max_passes=MAX_PASSES, on_exhausted=None,
):  # fmt: skip
    """Yield a `Draw` for each of ``numbers``, in order, all machines sharing rows.

    Stops early when the budget is spent or on Ctrl-C (``budget.interrupted`` is then set) with
    the draws that are complete; if none is, with one that is not.

    Parameters
    ----------
    rows : GramRows or FullRows
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
    """
    n_machines, n_points = targets.shape
    in_flight = RUNS_IN_FLIGHT if budget.max_time is None else RUNS_IN_FLIGHT_TIMED
    state_bytes = n_machines * n_points * 12 + n_points * 4
    fitting = int(STATE_SHARE * rows.cache_bytes / state_bytes)
    per_wave = max(1, min(in_flight // n_machines, fitting))
    n_yielded = 0
    checked: set[int] = set()
    wave: Any = None

    def check(run):
        machine = int(run) % n_machines
        if on_exhausted is not None and machine not in checked:
            checked.add(machine)
            on_exhausted(machine, wave.counts[run])

    for start in range(0, len(numbers), per_wave):
        part = numbers[start : start + per_wave]
        wave = None  # its memory, before the next one takes some
        wave = _new_wave(targets, [order_of_draw(number) for number in part])
        try:
            _run(
                wave, rows, targets, ridge, budget, threads or rows.threads, max_passes,
                (start, len(numbers)), check,
            )  # fmt: skip
        except KeyboardInterrupt:  # raised by somebody else's code, such as a callable kernel
            budget.interrupt()
            if not n_yielded and not np.all(np.any(wave.counts, axis=1)):
                raise
        finished = _finished(wave, n_machines)
        keep = np.flatnonzero(finished)
        if not len(keep) and not n_yielded:
            keep = _least_violating(wave, targets)
        for k in keep:
            yield _draw(wave, targets, k, part[k], bool(finished[k]))
            n_yielded += 1
        if budget.spent():
            break
    budget.close()


def _new_wave(targets, orders):
    n_machines, n_points = targets.shape
    n_runs = len(orders) * n_machines
    from bayespoint._kernels.perceptron_loop import CURSOR_SIZE, PAUSED, WANTED

    cursors = np.zeros((n_runs, CURSOR_SIZE), dtype=np.int64)
    cursors[:, WANTED] = PAUSED
    outputs = aligned_empty((n_runs, n_points), np.float64)
    outputs[:] = 0
    return _Wave(
        orders=np.array(orders, dtype=np.int32),
        outputs=outputs,
        counts=np.zeros((n_runs, n_points), dtype=np.int32),
        cursors=cursors,
    )


def _run(wave, rows, targets, ridge, budget, threads, max_passes, progress, check):
    """Advance all runs of a wave until each has converged or is given up."""
    from bayespoint._kernels.perceptron_loop import CONVERGED, EXHAUSTED, WANTED, advance

    n_machines, n_points = targets.shape
    start, total = progress
    active = np.arange(len(wave.outputs))
    slack = _slack(rows)
    max_visits = max_passes * wave.orders.shape[1]
    n_steps = 0
    while active.size and (n_steps < MIN_STEPS or not budget.spent()):
        n_steps += 1
        parts = [part for part in np.array_split(active, threads.n_threads) if part.size]
        max_updates = max(1, int(UPDATE_WORK / (n_points * len(parts[0]))))
        pause_after = max(1, int(VISIT_WORK / len(parts[0])))

        def step(part, max_updates=max_updates, pause_after=pause_after):
            advance(
                part, wave.orders, n_machines, targets, rows.store, rows.slot_of_row,
                rows.last_used, rows.clock, ridge, slack, wave.outputs, wave.counts, wave.cursors,
                max_updates, max_visits, pause_after,
            )  # fmt: skip

        threads.each(step, parts)
        state = wave.cursors[active, WANTED]
        for run in active[state == EXHAUSTED]:
            check(run)
        active = active[(state != CONVERGED) & (state != EXHAUSTED)]
        stalled = active[wave.cursors[active, WANTED] >= 0]
        # As long as some runs can go on, rows wait until they fill a block.
        if stalled.size and (stalled.size == active.size or stalled.size >= BLOCK_ROWS):
            rows.ensure(_wishes(wave, targets, stalled, rows))
        done = start * n_machines + len(wave.outputs) - active.size
        budget.show(done, total * n_machines, f"runs, {rows.n_computed} kernel rows,")


def _wishes(wave, targets, stalled, rows):
    """Rows to compute: those that runs wait for, then likely ones to fill the block."""
    from bayespoint._kernels.perceptron_loop import WANTED, look_ahead

    wanted = _unique_in_order(wave.cursors[stalled, WANTED])
    if len(wanted) >= BLOCK_ROWS:  # full blocks only: who waits a round longer loses nothing
        return wanted[: len(wanted) // BLOCK_ROWS * BLOCK_ROWS]
    free = rows.room_beside(len(wanted))
    if not free:
        return wanted
    found = np.empty((len(stalled), 1 + -(-free // len(stalled))), dtype=np.int64)
    look_ahead(
        stalled, wave.orders, len(targets), targets, _slack(rows), wave.outputs, wave.cursors,
        rows.slot_of_row, found,
    )  # fmt: skip
    guesses = found.T.ravel()
    wishes = _unique_in_order(np.concatenate([wanted, guesses[guesses >= 0]]))
    return wishes[: len(wanted) + free]


def _slack(rows):
    return TIE_ULPS * np.finfo(rows.store.dtype).eps * rows.diagonal


def _finished(wave, n_machines):
    """Which draws are complete: every run converged or was given up."""
    from bayespoint._kernels.perceptron_loop import CONVERGED, EXHAUSTED, WANTED

    ended = np.isin(wave.cursors[:, WANTED], (CONVERGED, EXHAUSTED))
    return ended.reshape(-1, n_machines).all(axis=1)


def _least_violating(wave, targets):
    """The draw with the fewest visited points on the wrong side, as an array of one."""
    n_machines = len(targets)
    wrong = [
        sum(
            _n_violated(order, targets[c], wave.outputs[k * n_machines + c])
            for c in range(n_machines)
        )
        for k, order in enumerate(wave.orders)
    ]
    return np.array([np.argmin(wrong)])


def _n_violated(order, target, output):
    return np.count_nonzero(target[order] * output[order] <= 0)


def _draw(wave, targets, k, number, finished):
    """Scale the classifiers of draw k of a wave to unit length."""
    from bayespoint._kernels.perceptron_loop import MISTAKES

    n_machines = len(targets)
    runs = slice(k * n_machines, (k + 1) * n_machines)
    outputs, coef = wave.outputs[runs].copy(), []
    for machine in range(n_machines):
        used = np.flatnonzero(wave.counts[runs][machine])
        values = targets[machine][used] * wave.counts[runs][machine][used].astype(np.float64)
        squared = float(values @ outputs[machine][used])
        if squared <= 0:
            raise ZeroLengthError(
                "kernel is not positive semi-definite: a classifier has squared length "
                f"{squared:.3g} <= 0. Use a kernel that is an inner product."
            )
        norm = np.sqrt(squared)
        coef.append((used, values / norm))
        outputs[machine] /= norm
    violated = [_n_violated(wave.orders[k], *pair) for pair in zip(targets, outputs, strict=True)]
    mistakes = wave.cursors[runs, MISTAKES].copy()
    return Draw(number, coef, outputs, mistakes, np.array(violated), finished)


def conflict_check(space_of, names=None, problems=None):
    """Make the ``on_exhausted`` that raises if a certificate shows version space empty."""

    def check(machine, counts):
        space = space_of(machine)
        if space.softness > 0:  # never empty
            return
        often = np.argsort(-counts, kind="stable")
        points = space.conflict(often[: np.count_nonzero(counts)])
        if points is not None:
            problem = "" if problems is None else problems[machine]
            raise EmptyVersionSpaceError(points if names is None else names[points], problem)

    return check


def warn_if_violated(violated):
    """Warn about draws that leave points on the wrong side."""
    if np.any(violated):
        bad = violated[violated > 0]
        warn(
            f"{len(bad)} of {violated.size} perceptron runs did not converge and leave up to "
            f"{bad.max()} training points on the wrong side. Raise max_time where it is set, raise "
            f"softness, or scale the features.",
            ConvergenceWarning,
        )


def permutations(n_points, entropy):
    """Map the number of a draw to its order: the same whoever asks, and in which sequence."""

    def order_of_draw(number):
        seed = np.random.SeedSequence(entropy, spawn_key=(number,))
        return np.random.default_rng(seed).permutation(n_points).astype(np.int32)

    return order_of_draw


def _unique_in_order(values):
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]
