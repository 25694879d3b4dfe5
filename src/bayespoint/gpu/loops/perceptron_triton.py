"""The permuted kernel perceptron on a GPU: one block a run, one pass over the outputs a mistake.

The pass adds the row, and finds the next mistake in the order of the run as it goes. It does what
`perceptron_torch.advance` does, and outputs have the same bits: sums of the same rows in the same
order.
"""

import torch
import triton
import triton.language as tl

from bayespoint.gpu.loops.perceptron_torch import (
    AHEAD,
    CONVERGED,
    CURSOR_SIZE,
    EXHAUSTED,
    MISTAKES,
    PLACE,
    VISITS,
    WANTED,
)

# Points of one tile of the pass, and warps of a block: the fastest of those tried at 60,000 points.
TILE = 4096
WARPS = 32

# Points and terms of one block of `outputs_at`.
AT_ONCE = 16
SUMMED = 128

_NONE = tl.constexpr(2**31 - 1)


def advance(
    runs, orders, ranks, n_machines, targets, rows, slot_of_row, ridge, slack, same_slack,
    outputs, counts, cursors, max_updates, max_visits,
):  # fmt: skip
    """Advance each run until it converges, lacks a row, or has made ``max_updates`` updates.

    As `perceptron_torch.advance`.
    """
    n_points = outputs.shape[1]
    tile = min(TILE, max(128, triton.next_power_of_2(n_points)))
    _advance[(len(runs),)](
        runs, orders, ranks, targets, rows, slot_of_row, ridge, slack, outputs, counts, cursors,
        n_machines, n_points, orders.shape[1], max_updates, max_visits,
        0.0 if same_slack is None else same_slack, same_slack is not None,
        CURSOR_SIZE, PLACE, MISTAKES, VISITS, WANTED, AHEAD, CONVERGED, EXHAUSTED,
        tile, num_warps=min(WARPS, max(1, tile // 128)),
    )  # fmt: skip


def outputs_at(points, point_ends, used, used_ends, coef, rows, slots):
    """Outputs of runs at some points, summed in float64, as `perceptron_torch.outputs_at`."""
    found = torch.empty(len(points), dtype=torch.float64, device=points.device)
    n_runs, n_most = len(point_ends), int(point_ends.diff(prepend=point_ends.new_zeros(1)).max())
    _outputs_at[(triton.cdiv(n_most, AT_ONCE), n_runs)](
        points, point_ends, used, used_ends, coef, rows, slots, found, rows.shape[1], AT_ONCE,
        SUMMED, num_warps=4,
    )  # fmt: skip
    return found


@triton.jit
def _outputs_at(
    points, point_ends, used, used_ends, coef, rows, slots, found, width, AT_ONCE: tl.constexpr,
    SUMMED: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    before = tl.maximum(run - 1, 0)
    first = tl.where(run > 0, tl.load(point_ends + before), 0)
    at = first + tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = at < tl.load(point_ends + run)
    row = tl.load(slots + tl.load(points + at, mask=inside, other=0)).to(tl.int64) * width
    begin, end = tl.where(run > 0, tl.load(used_ends + before), 0), tl.load(used_ends + run)
    total = tl.zeros([AT_ONCE, SUMMED], tl.float64)
    for start in range(begin, end, SUMMED):
        k = start + tl.arange(0, SUMMED)
        there = k < end
        column = tl.load(used + k, mask=there, other=0)
        weight = tl.load(coef + k, mask=there, other=0.0)
        mask = inside[:, None] & there[None, :]
        value = tl.load(rows + row[:, None] + column[None, :], mask=mask, other=0.0)
        total += weight[None, :] * value.to(tl.float64)
    tl.store(found + at, tl.sum(total, 1), mask=inside)


@triton.jit
def _read(row, output, target, rank, j, n_points):
    """Read of some points the row, which is not needed again, and the state of the run."""
    inside = j < n_points
    return (
        tl.load(row + j, mask=inside, other=0.0, eviction_policy="evict_first"),
        tl.load(output + j, mask=inside, other=0.0),
        tl.load(target + j, mask=inside, other=0),
        tl.load(rank + j, mask=inside, other=-1),
    )


@triton.jit
def _advance(
    runs, orders, ranks, targets, rows, slot_of_row, ridge, slack, outputs, counts, cursors,
    n_machines, n_points, n_visited, max_updates, max_visits, same_slack, SAME: tl.constexpr,
    SIZE: tl.constexpr, PLACE: tl.constexpr, MISTAKES: tl.constexpr, VISITS: tl.constexpr,
    WANTED: tl.constexpr, AHEAD: tl.constexpr, CONVERGED: tl.constexpr, EXHAUSTED: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    run = tl.load(runs + tl.program_id(0))
    target = targets + (run % n_machines) * n_points
    order = orders + (run // n_machines) * n_visited
    rank = ranks + (run // n_machines) * n_points
    output, count, cursor = outputs + run * n_points, counts + run * n_points, cursors + run * SIZE
    place, ahead = tl.load(cursor + PLACE), tl.load(cursor + AHEAD)
    mistakes, visits = tl.load(cursor + MISTAKES), tl.load(cursor + VISITS)
    wanted = tl.load(cursor + WANTED)
    tile = tl.arange(0, TILE)
    updates = 0
    slot = tl.load(slot_of_row + tl.maximum(wanted, 0)).to(tl.int64)
    while (wanted >= 0) & (slot >= 0) & (visits < max_visits) & (updates < max_updates):
        sign = tl.load(target + wanted).to(outputs.dtype.element_ty)
        own = sign * tl.load(ridge + wanted).to(outputs.dtype.element_ty)
        place = (place + ahead) % n_visited
        from_here = place.to(tl.int32)
        nearest = tl.full([TILE], _NONE, tl.int32)
        # What the next tile needs is read while this one is worked on.
        row, value, side, at = _read(rows + slot * n_points, output, target, rank, tile, n_points)
        for start in range(0, n_points, TILE):
            j = start + tile
            row_now, value_now, side_now, at_now = row, value, side, at
            row, value, side, at = _read(
                rows + slot * n_points, output, target, rank, j + TILE, n_points
            )
            value_now += sign * row_now
            value_now = tl.where(j == wanted, value_now + own, value_now)
            tl.store(output + j, value_now, mask=j < n_points)
            if SAME:
                wrong = ~(side_now * value_now > same_slack)
            else:
                least = tl.load(slack + j, mask=j < n_points, other=0.0)
                wrong = ~(side_now * value_now > least)
            distance = at_now - from_here
            distance = tl.where(distance <= 0, distance + n_visited, distance)
            nearest = tl.minimum(nearest, tl.where(wrong & (at_now >= 0), distance, _NONE))
        tl.atomic_add(count + wanted, 1)
        ahead = tl.min(nearest, 0).to(tl.int64)
        found = ahead <= n_visited
        mistakes += 1
        updates += 1
        visits += tl.where(found, ahead, n_visited)
        following = tl.load(order + (place + ahead) % n_visited).to(tl.int64)
        wanted = tl.where(found, following, CONVERGED)
        slot = tl.load(slot_of_row + tl.maximum(wanted, 0)).to(tl.int64)
    wanted = tl.where((wanted >= 0) & (visits >= max_visits), EXHAUSTED, wanted)
    tl.store(cursor + PLACE, place)
    tl.store(cursor + AHEAD, ahead)
    tl.store(cursor + MISTAKES, mistakes)
    tl.store(cursor + VISITS, visits)
    tl.store(cursor + WANTED, wanted)
