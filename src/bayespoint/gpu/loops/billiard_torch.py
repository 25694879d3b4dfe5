"""One flight of billiard balls in plain PyTorch: what the GPU kernel does, all balls in step.

Position and direction are kept in the frame of `billiard_loop`, which turns with the flight: P and
Q are the outputs of p and q at the training points, and change at reflections only.
"""

import torch

# Columns of the integers of a ball: bounces, passes, state of its random numbers, walls met since
# it was called, and whether its flight is over.
BOUNCES, PASSES, RANDOM, EVENTS, OVER = range(5)
CURSOR_SIZE = 5

# Nearer than this share of sqrt(k(x, x)), a wall counts as touched: rounding leaves the wall just
# met at about a unit in the last place of the outputs.
TOUCH = {torch.float32: 2e-8, torch.float64: 1e-12}

# Cotangent of the travel to a wall that is met now, and (negative) to one that is ignored.
NOW = 1e30


def fly(
    balls, rows, slots, squared_length, ridge, label, pass_rate, travel, max_events, side, P, Q,
    coef_p, coef_q, kicks, angle, cursors,
):  # fmt: skip
    """Fly balls until their flight is over or each has met ``max_events`` walls.

    Parameters
    ----------
    balls : tensor of int64
    rows, slots : tensor
        Rows of the Gram matrix, without softness, and the slot of each.
    squared_length, ridge : tensor of float64, (m,)
    label : tensor of int8, (n_balls, m)
    pass_rate : tensor of float64, (n_balls, m), or None
        Probability to pass a wall from the side of its label; None where all walls reflect.
    travel : tensor of float64, (n_balls,)
    side : tensor, (n_balls, m)
        1 / sqrt(k(x, x)) with the sign of the ball's side; changed by passes.
    P, Q : tensor, (n_balls, m), in the precision of the rows
    coef_p, coef_q, kicks, angle : tensor of float64
    cursors : tensor of int64, (n_balls, CURSOR_SIZE)
    """
    to_p = torch.zeros(len(balls), dtype=torch.float64, device=P.device)
    to_q, wall = torch.zeros_like(to_p), torch.zeros(len(balls), dtype=torch.int64, device=P.device)
    touch = TOUCH[P.dtype]
    for event in range(max_events + 1):
        flying = cursors[balls, OVER] == 0
        if not bool(flying.any()):
            return
        b, w = balls[flying], wall[flying]
        add_p, add_q = to_p[flying].to(P.dtype), to_q[flying].to(P.dtype)
        row = rows[slots[w].long()]
        P[b] += add_p[:, None] * row
        Q[b] += add_q[:, None] * row
        P[b, w] += add_p * ridge[w].to(P.dtype)
        Q[b, w] += add_q * ridge[w].to(P.dtype)
        cos, sin = (
            torch.cos(angle[b]).to(P.dtype)[:, None],
            torch.sin(angle[b]).to(P.dtype)[:, None],
        )
        height = (P[b] * cos + Q[b] * sin) * side[b]
        descent = (P[b] * sin - Q[b] * cos) * side[b]
        touched = torch.where(descent > 0, NOW, -NOW).to(P.dtype)
        cotangent = torch.where(height > touch, descent / height, touched)
        best, nearest = cotangent.max(dim=1)
        ahead = angle[b] + torch.atan2(torch.ones_like(angle[b]), best.double())
        over = ahead >= travel[b]
        cursors[b[over], OVER] = 1
        to_p[flying], to_q[flying] = 0.0, 0.0
        if event == max_events:
            return
        b, w, ahead = b[~over], nearest[~over], ahead[~over]
        here = flying.nonzero().ravel()[~over]
        wall[here] = w
        angle[b] = ahead
        cursors[b, EVENTS] += 1
        through = _passes(b, w, label, pass_rate, side, cursors)
        side[b[through], w[through]] *= -1
        cursors[b[through], PASSES] += 1
        b, w, ahead, here = b[~through], w[~through], ahead[~through], here[~through]
        cos, sin = torch.cos(ahead), torch.sin(ahead)
        speed = Q[b, w].double() * cos - P[b, w].double() * sin
        f = 2.0 * speed / squared_length[w]
        to_p[here], to_q[here] = f * sin, -f * cos
        coef_p[b, w] += f * sin
        coef_q[b, w] -= f * cos
        kicks[b, w] -= f
        cursors[b, BOUNCES] += 1


def _passes(b, w, label, pass_rate, side, cursors):
    """Which balls pass the walls that they have met."""
    if pass_rate is None:
        return torch.zeros(len(b), dtype=torch.bool, device=b.device)
    wrong = side[b, w] * label[b, w] < 0
    rate = pass_rate[b, w]
    asked = ~wrong & (rate > 0)
    lucky = torch.zeros_like(wrong)
    lucky[asked] = _uniform(b[asked], cursors) < rate[asked]
    return wrong | lucky


def _uniform(b, cursors):
    """Uniform numbers in [0, 1) from the sequence of each ball (SplitMix64)."""
    x = cursors[b, RANDOM] + _signed(0x9E3779B97F4A7C15)
    cursors[b, RANDOM] = x
    x = (x ^ _shifted(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _signed(0x94D049BB133111EB)
    x = x ^ _shifted(x, 31)
    return _shifted(x, 11).double() * 2.0**-53


def _signed(bits):
    return bits - 2**64 if bits >= 2**63 else bits


def _shifted(x, bits):
    """Shift right, filling with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
