"""The permuted kernel perceptron in plain PyTorch: what the GPU kernel does, run by run in step.

All runs take one correction at a time. After it, the next mistake of a run is the point on the
wrong side that comes first in its order after the one just corrected.
"""

import torch

from bayespoint._loops.perceptron import CONVERGED, EXHAUSTED

# Columns of the cursor of a run: the place in its order of the last correction, mistakes, visits,
# the point to correct next (or why there is none) and how far ahead of the last one it is.
PLACE, MISTAKES, VISITS, WANTED, AHEAD = range(5)
CURSOR_SIZE = 5


def advance(
    runs, orders, ranks, n_machines, targets, rows, slot_of_row, ridge, slack, same_slack,
    outputs, counts, cursors, max_updates, max_visits,
):  # fmt: skip
    """Advance each run until it converges, lacks a row, or has made ``max_updates`` updates.

    Parameters
    ----------
    runs : tensor of int64
        Run r trains machine r % n_machines on the order ``orders[r // n_machines]``.
    orders, ranks : tensor of int32, (n_orders, n_visited) and (n_orders, n_points)
        Points in the order they are visited, and the place of each point in it; -1 where it is not.
    targets : tensor of int8, (n_machines, n_points)
    rows, slot_of_row : tensor
        Rows of the Gram matrix and the slot of each, -1 where it is missing.
    ridge, slack : tensor of float64, (n_points,)
    same_slack : float or None
        The slack of all points, where they are alike.
    outputs, counts, cursors : tensor
        The state of all runs, changed in place.
    """
    order, target = runs // n_machines, targets[runs % n_machines]
    n_visited = orders.shape[1]
    rank = ranks[order].long()
    for _ in range(max_updates + 1):
        wanted = cursors[runs, WANTED]
        late = (wanted >= 0) & (cursors[runs, VISITS] >= max_visits)
        cursors[runs[late], WANTED] = EXHAUSTED
        ready = (wanted >= 0) & ~late
        ready[ready.clone()] = slot_of_row[wanted[ready]] >= 0
        if not bool(ready.any()) or _ == max_updates:
            return
        r, wall = runs[ready], wanted[ready]
        each = torch.arange(len(r), device=r.device)
        sign = target[ready][each, wall].to(outputs.dtype)
        outputs[r] += sign[:, None] * rows[slot_of_row[wall].long()]
        outputs[r, wall] += sign * ridge[wall].to(outputs.dtype)
        counts[r, wall] += 1
        place = (cursors[r, PLACE] + cursors[r, AHEAD]) % n_visited
        ahead = rank[ready] - place[:, None]
        ahead = torch.where(ahead <= 0, ahead + n_visited, ahead)
        least = slack if same_slack is None else same_slack
        wrong = ~(target[ready] * outputs[r] > least) & (rank[ready] >= 0)  # NaN is a mistake
        ahead = torch.where(wrong, ahead, n_visited + 1).min(dim=1).values
        found = ahead <= n_visited
        following = orders[order[ready], (place + ahead) % n_visited].long()
        cursors[r, PLACE] = place
        cursors[r, MISTAKES] += 1
        cursors[r, AHEAD] = ahead
        cursors[r, VISITS] += torch.where(found, ahead, n_visited)
        cursors[r, WANTED] = torch.where(found, following, CONVERGED)


def outputs_at(points, point_ends, used, used_ends, coef, rows, slots):
    """Outputs of runs at some points, summed in float64 over the points that a run uses.

    Parameters
    ----------
    points : tensor of int64
        Those of the first run, then those of the second, and so on.
    point_ends : tensor of int64, (n_runs,)
        Where the points of each run end.
    used, used_ends, coef : tensor
        Points that each run uses, where they end, and their coefficients in float64.
    rows, slots : tensor
        All rows of the Gram matrix, without softness, and the slot of each.

    Returns
    -------
    tensor of float64, one number per point
    """
    found = torch.empty(len(points), dtype=torch.float64, device=points.device)
    ends = zip(point_ends.tolist(), used_ends.tolist(), strict=True)
    first, begin = 0, 0
    for last, end in ends:
        here = rows[slots[points[first:last]].long()][:, used[begin:end]]
        found[first:last] = here.double() @ coef[begin:end]
        first, begin = last, end
    return found


__all__ = ["CONVERGED", "EXHAUSTED", "advance", "outputs_at"]
