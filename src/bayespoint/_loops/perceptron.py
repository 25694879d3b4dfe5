"""The permuted kernel perceptron: visit, correct, repeat (JMLR algorithm 1)."""

from bayespoint._loops.jit import jit

# Columns of the cursor of a run.
POSITION, STREAK, MISTAKES, VISITS, WANTED = range(5)
CURSOR_SIZE = 5

# Visits that a run looks ahead for rows it may need.
LOOK_AHEAD = 20_000

# Values of cursor[WANTED] that are not the index of a missing row.
CONVERGED, PAUSED, EXHAUSTED = -1, -2, -3


@jit
def advance(
    runs, orders, n_machines, targets, rows, slot_of_row, last_used, clock,
    ridge, slack, outputs, counts, cursors, max_updates, max_visits, pause_after,
):  # fmt: skip
    """Advance each run until it converges, lacks a row, or has made ``max_updates`` updates.

    Run r trains machine r % n_machines on the points in the order ``orders[r // n_machines]``,
    visited cyclically, and corrects it at each point on the wrong side. ``outputs[r]`` are the
    outputs of its present classifier, ``counts[r]`` how often each point was added,
    ``targets[machine, i]`` is +1 or -1, and outputs within ``slack[i]`` count as zero.
    """
    for r in runs:
        order, target = orders[r // n_machines], targets[r % n_machines]
        output, count, cursor = outputs[r], counts[r], cursors[r]
        n_visited, n_points = order.size, output.size
        position, streak = cursor[POSITION], cursor[STREAK]
        mistakes, visits = cursor[MISTAKES], cursor[VISITS]
        wanted = CONVERGED
        updates = 0
        pause_at = visits + pause_after
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
                if visits >= max_visits:
                    wanted = EXHAUSTED
                    break
                if updates >= max_updates:
                    wanted = PAUSED
                    break
                sign = target[i]
                row = rows[slot]
                if sign > 0:
                    for j in range(n_points):
                        output[j] += row[j]
                else:
                    for j in range(n_points):
                        output[j] -= row[j]
                output[i] += sign * ridge[i]
                count[i] += 1
                last_used[slot] = clock
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
def look_ahead(runs, orders, n_machines, targets, slack, outputs, cursors, slot_of_row, found):
    """Fill ``found[k]`` with the next points of run k that look like mistakes now.

    Only points whose row is missing count; what stays unfilled is -1. The first is the row the
    run waits for; the others are guesses that keep the matrix products wide.
    """
    found[:] = -1
    for k in range(runs.size):
        order, target = orders[runs[k] // n_machines], targets[runs[k] % n_machines]
        output, position = outputs[runs[k]], cursors[runs[k], POSITION]
        n_found = 0
        for step in range(min(order.size, LOOK_AHEAD)):
            i = order[(position + step) % order.size]
            if target[i] * output[i] <= slack[i] and slot_of_row[i] < 0:
                found[k, n_found] = i
                n_found += 1
                if n_found == found.shape[1]:
                    break
