"""The permuted kernel perceptron: visit, correct, repeat (JMLR algorithm 1)."""

from typing import NamedTuple

from bayespoint._loops.jit import jit
from bayespoint._support.types import Array

# Columns of the cursor of a run.
POSITION, STREAK, MISTAKES, VISITS, WANTED = range(5)
CURSOR_SIZE = 5

# Visits that a run looks ahead for rows it may need.
LOOK_AHEAD = 20_000

# Values of cursor[WANTED] that are not the index of a missing row.
CONVERGED, PAUSED, EXHAUSTED = -1, -2, -3


class Runs(NamedTuple):
    """Runs in flight: run r trains machine r % n_machines in order r // n_machines."""

    targets: Array  # (n_machines, n_points), +1 or -1
    orders: Array  # (n_orders, n_visited), points to visit
    ridge: Array  # (n_points,), softness on the diagonal
    slack: Array  # (n_points,), outputs within it count as zero
    outputs: Array  # (n_runs, n_points), of the present classifiers
    counts: Array  # (n_runs, n_points), how often each point was added
    cursors: Array  # (n_runs, CURSOR_SIZE)


class Rows(NamedTuple):
    """Rows of the Gram matrix that are in memory."""

    store: Array  # (n_slots, n_points)
    slot_of_row: Array  # (n_points,), -1 where a row is missing
    last_used: Array  # (n_slots,), time of the last use
    clock: int  # the time now


class Limits(NamedTuple):
    """Where a run stops before it converges."""

    updates: int  # in one call
    visits: int  # in one call
    all_visits: int  # in all calls together: then it is given up


@jit
def advance(chosen, runs, rows, limits):
    """Advance runs until they converge, lack a row, or reach a limit.

    A run visits the points in its order, cyclically, and corrects its machine at each point on
    the wrong side.

    Parameters
    ----------
    chosen : ndarray of int
        Numbers of the runs.
    runs : Runs
    rows : Rows
    limits : Limits
    """
    n_machines = runs.targets.shape[0]
    store, slot_of_row, last_used = rows.store, rows.slot_of_row, rows.last_used
    ridge, slack = runs.ridge, runs.slack
    for r in chosen:
        order, target = runs.orders[r // n_machines], runs.targets[r % n_machines]
        output, count, cursor = runs.outputs[r], runs.counts[r], runs.cursors[r]
        n_visited, n_points = order.size, output.size
        position, streak = cursor[POSITION], cursor[STREAK]
        mistakes, visits = cursor[MISTAKES], cursor[VISITS]
        wanted = CONVERGED
        updates = 0
        pause_at = visits + limits.visits
        while streak < n_visited:
            if visits >= pause_at:
                wanted = PAUSED
                break
            i = order[position]
            if not target[i] * output[i] > slack[i]:  # NaN counts as a mistake
                slot = slot_of_row[i]
                if slot < 0:
                    wanted = i
                    break
                if visits >= limits.all_visits:
                    wanted = EXHAUSTED
                    break
                if updates >= limits.updates:
                    wanted = PAUSED
                    break
                sign = target[i]
                row = store[slot]
                if sign > 0:
                    for j in range(n_points):
                        output[j] += row[j]
                else:
                    for j in range(n_points):
                        output[j] -= row[j]
                output[i] += sign * ridge[i]
                count[i] += 1
                last_used[slot] = rows.clock
                updates += 1
                mistakes += 1
                streak = 0
            else:
                streak += 1
            visits += 1
            position += 1
            if position == n_visited:
                position = 0
        cursor[POSITION], cursor[STREAK] = position, streak
        cursor[MISTAKES], cursor[VISITS] = mistakes, visits
        cursor[WANTED] = wanted


@jit
def look_ahead(chosen, runs, slot_of_row, found):
    """Fill ``found[k]`` with the next points of run ``chosen[k]`` that look like mistakes now.

    Only points whose row is missing count; what stays unfilled is -1. The first is the row the
    run waits for; the others are guesses that keep the matrix products wide.
    """
    found[:] = -1
    n_machines, slack = runs.targets.shape[0], runs.slack
    for k in range(chosen.size):
        r = chosen[k]
        order, target = runs.orders[r // n_machines], runs.targets[r % n_machines]
        output, position = runs.outputs[r], runs.cursors[r, POSITION]
        n_found = 0
        for step in range(min(order.size, LOOK_AHEAD)):
            i = order[(position + step) % order.size]
            if target[i] * output[i] <= slack[i] and slot_of_row[i] < 0:
                found[k, n_found] = i
                n_found += 1
                if n_found == found.shape[1]:
                    break


@jit
def count_needs(start, stop, runs, needs):
    """Count, for each point, the runs of a range that would correct it if they visited it now."""
    n_machines, slack = runs.targets.shape[0], runs.slack
    for r in range(start, stop):
        target, output = runs.targets[r % n_machines], runs.outputs[r]
        for i in range(output.size):
            needs[i] += target[i] * output[i] <= slack[i]
