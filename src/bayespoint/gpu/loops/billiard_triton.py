"""Flights of billiard balls on a GPU: one block a ball, one pass over the walls a bounce.

The pass adds the row of the wall just met to P and Q, and finds the next wall as it goes. It does
what `billiard_torch.fly` does.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from bayespoint.gpu.loops.billiard_torch import (
    BOUNCES,
    CURSOR_SIZE,
    EVENTS,
    NOW,
    OVER,
    PASSES,
    RANDOM,
    TOUCH,
)

# Walls of one tile of the pass, and warps of a block: the fastest of those tried at 60,000 points.
TILE = 4096
WARPS = 32


def fly(
    balls, rows, slots, squared_length, ridge, label, pass_rate, travel, max_events, side, P, Q,
    coef_p, coef_q, kicks, angle, cursors,
):  # fmt: skip
    """Fly balls until their flight is over or each has met ``max_events`` walls.

    As `billiard_torch.fly`.
    """
    m = P.shape[1]
    tile = min(TILE, max(128, triton.next_power_of_2(m)))
    _fly[(len(balls),)](
        balls, rows, slots, squared_length, ridge, label,
        label if pass_rate is None else pass_rate, travel, side, P, Q, coef_p, coef_q, kicks,
        angle, cursors, m, max_events, TOUCH[P.dtype], NOW, pass_rate is not None, CURSOR_SIZE,
        BOUNCES, PASSES, RANDOM, EVENTS, OVER, tile, num_warps=min(WARPS, max(1, tile // 128)),
    )  # fmt: skip


@triton.jit
def _shifted(x, BITS: tl.constexpr):
    return (x >> BITS) & ((1 << (64 - BITS)) - 1)


@triton.jit
def _mixed(x):
    """Turn the state of SplitMix64 into a uniform number in [0, 1)."""
    x = (x ^ _shifted(x, 30)) * (-4658895280553007687)
    x = (x ^ _shifted(x, 27)) * (-7723592293110705685)
    x = x ^ _shifted(x, 31)
    return _shifted(x, 11).to(tl.float64) * (1.0 / 9007199254740992.0)


@triton.jit
def _read(row, P, Q, side, j, m):
    """Read of some walls the row, which is not needed again, and the state of the ball."""
    inside = j < m
    return (
        tl.load(row + j, mask=inside, other=0.0, eviction_policy="evict_first"),
        tl.load(P + j, mask=inside, other=0.0),
        tl.load(Q + j, mask=inside, other=0.0),
        tl.load(side + j, mask=inside, other=0.0),
    )


@triton.jit
def _fly(
    balls, rows, slots, squared_length, ridge, label, pass_rate, travel, side, P, Q, coef_p,
    coef_q, kicks, angle, cursors, m, max_events, touch, now, NOISY: tl.constexpr,
    SIZE: tl.constexpr, BOUNCES: tl.constexpr, PASSES: tl.constexpr, RANDOM: tl.constexpr,
    EVENTS: tl.constexpr, OVER: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    ball = tl.load(balls + tl.program_id(0))
    kind: tl.constexpr = P.dtype.element_ty
    label, pass_rate, side = label + ball * m, pass_rate + ball * m, side + ball * m
    P, Q, kicks = P + ball * m, Q + ball * m, kicks + ball * m
    coef_p, coef_q, cursor = coef_p + ball * m, coef_q + ball * m, cursors + ball * SIZE
    bounces, passes = tl.load(cursor + BOUNCES), tl.load(cursor + PASSES)
    random, met = tl.load(cursor + RANDOM), tl.load(cursor + EVENTS)
    over = tl.load(cursor + OVER)
    here, end = tl.load(angle + ball), tl.load(travel + ball)
    cos, sin = libdevice.cos(here), libdevice.sin(here)
    to_p, to_q = here * 0.0, here * 0.0
    wall = ball * 0
    tile = tl.arange(0, TILE)
    event = 0
    while (over == 0) & (event <= max_events):
        slot = tl.load(slots + wall).to(tl.int64)
        own = tl.load(ridge + wall).to(kind)
        add_p, add_q, c, s = to_p.to(kind), to_q.to(kind), cos.to(kind), sin.to(kind)
        best = tl.full([TILE], -2.0 * now, kind)
        which = tl.zeros([TILE], tl.int32)
        # What the next tile needs is read while this one is worked on.
        row, p_next, q_next, at_next = _read(rows + slot * m, P, Q, side, tile, m)
        for start in range(0, m, TILE):
            j = start + tile
            inside = j < m
            row_now, p, q, at = row, p_next, q_next, at_next
            row, p_next, q_next, at_next = _read(rows + slot * m, P, Q, side, j + TILE, m)
            row_now = tl.where(j == wall, row_now + own, row_now)
            p += add_p * row_now
            q += add_q * row_now
            tl.store(P + j, p, mask=inside)
            tl.store(Q + j, q, mask=inside)
            height = (p * c + q * s) * at
            descent = (p * s - q * c) * at
            touched = tl.where(descent > 0, now, -now).to(kind)
            cotangent = tl.where(height > touch, descent / height, touched)
            better = inside & (cotangent > best)
            best = tl.where(better, cotangent, best)
            which = tl.where(better, j, which)
        tl.debug_barrier()
        most = tl.max(best, 0)
        wall = tl.min(tl.where(best == most, which, 2147483647), 0).to(tl.int64)
        ahead = here + libdevice.atan2(1.0 + 0.0 * here, most.to(tl.float64))
        to_p, to_q = here * 0.0, here * 0.0
        if ahead >= end:
            over = over + 1
        else:
            if event < max_events:
                here = ahead
                cos, sin = libdevice.cos(here), libdevice.sin(here)
                met += 1
                through = False
                if NOISY:
                    at_wall = tl.load(side + wall)
                    through = at_wall * tl.load(label + wall) < 0
                    rate = tl.load(pass_rate + wall)
                    tl.debug_barrier()  # all have read the side before it changes
                    if (through == 0) & (rate > 0.0):
                        random = random + (-7046029254386353131)
                        through = _mixed(random) < rate
                    if through:
                        tl.store(side + wall, -at_wall)
                        passes += 1
                if through == 0:
                    speed = tl.load(Q + wall).to(tl.float64) * cos
                    speed -= tl.load(P + wall).to(tl.float64) * sin
                    f = 2.0 * speed / tl.load(squared_length + wall)
                    to_p, to_q = f * sin, -f * cos
                    tl.store(coef_p + wall, tl.load(coef_p + wall) + to_p)
                    tl.store(coef_q + wall, tl.load(coef_q + wall) + to_q)
                    tl.store(kicks + wall, tl.load(kicks + wall) - f)
                    bounces += 1
        event += 1
        tl.debug_barrier()
    tl.store(angle + ball, here)
    tl.store(cursor + BOUNCES, bounces)
    tl.store(cursor + PASSES, passes)
    tl.store(cursor + RANDOM, random)
    tl.store(cursor + EVENTS, met)
    tl.store(cursor + OVER, over)
