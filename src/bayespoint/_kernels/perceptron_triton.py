"""The permuted kernel perceptron on a GPU: one block a run, one pass over the outputs a mistake.

The pass adds the row, and finds the next mistake in the order of the run as it goes. It does what
`perceptron_torch.advance` does, to the bit: outputs are sums of the same rows in the same order.
"""

import triton
import triton.language as tl

from bayespoint._kernels.perceptron_torch import (
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
        nearest = tl.full([TILE], _NONE, tl.int32)
        for start in range(0, n_points, TILE):
            j = start + tile
            inside = j < n_points
            row = tl.load(rows + slot * n_points + j, mask=inside, other=0.0)
            value = tl.load(output + j, mask=inside, other=0.0) + sign * row
            value = tl.where(j == wanted, value + own, value)
            tl.store(output + j, value, mask=inside)
            right = tl.load(target + j, mask=inside, other=0) * value
            if SAME:
                wrong = ~(right > same_slack)
            else:
                wrong = ~(right > tl.load(slack + j, mask=inside, other=0.0))
            at = tl.load(rank + j, mask=inside, other=-1)
            distance = at - place.to(tl.int32)
            distance = tl.where(distance <= 0, distance + n_visited, distance)
            nearest = tl.minimum(nearest, tl.where(wrong & (at >= 0), distance, _NONE))
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
