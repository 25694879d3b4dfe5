"""The exact billiard and the kernel Gibbs sampler: moves on great circles.

A bounce costs O(m), a Gibbs step O(m log m) for the order of its crossings.

Position w and direction v are kept in a frame that turns with the flight,

    w = p cos(angle) + q sin(angle),    v = -p sin(angle) + q cos(angle),

so that nothing moves between two walls. P and Q are the outputs of p and q at the training points.
A reflection v -= f phi_c adds f sin(angle) phi_c to p and -f cos(angle) phi_c to q, and the
matching multiples of row c of the Gram matrix to P and Q: one pass over m numbers, which finds the
next wall as well.
"""

import math
from typing import NamedTuple

import numpy as np

from bayespoint._loops.jit import jit
from bayespoint._support.types import Array

# Columns of the cursor of a ball.
FLIGHT, IN_FLIGHT, BOUNCES, PASSES, RANDOM, RECORDED, WRONG_MINUS, WRONG_PLUS = range(8)
CURSOR_SIZE = 8

# A wall nearer than this share of sqrt(k(x, x)) counts as touched: met now if the ball moves
# towards it, ignored otherwise. Rounding leaves the wall just met at about 1e-16.
TOUCH = 1e-12

# Cotangent of the travel to a wall that is met now, and (negative) to one that is ignored.
NOW = 1e300

# Walls looked at together: their cotangents stay in the first-level cache.
CHUNK = 512

_SIGN_BIT = np.int64(63)
_MAGNITUDE = np.int64(2**63 - 1)
_LEAST = np.int64(-(2**63))


class Walls(NamedTuple):
    """What a ball meets: the walls of m points, their labels, and how they are passed."""

    rows: Array  # (n_slots, m), rows of the Gram matrix
    slot_of_row: Array  # (m,), where each of them is
    squared_length: Array  # (m,), k(x, x) with softness
    ridge: Array  # (m,), what softness adds to the diagonal
    basis: Array  # (m, rank), the points in white coordinates where vectors are kept so, or (0, 0)
    label: Array  # (m,), +1 or -1
    pass_rate: Array  # (m,), probability to pass a wall from the side of its label
    change: Array  # (m, 2), of the numbers of wrong labels as a wall is passed from its + side
    log_weight: Array  # (n_minus, n_plus), by these numbers; (0, 0) where pass rates count
    slope: float  # by which it falls with each error beyond the table


class Ball(NamedTuple):
    """Where a ball is and what it has met.

    Vectors are sums over the points (``coef``) and over an orthonormal basis of their span
    (``white``).
    """

    side: Array  # (m,), 1 / sqrt(k(x, x)) with the sign of the ball's side of each wall
    P: Array  # (m,), outputs of p
    Q: Array  # (m,), outputs of q
    coef_p: Array  # (m,)
    coef_q: Array  # (m,)
    white_p: Array  # (rank,)
    white_q: Array  # (rank,)
    kicks: Array  # (m,), sums of the changes of direction at each wall
    ends_coef: Array  # (m,), first less last direction of each flight, summed
    ends_white: Array  # (rank,)
    angle: Array  # (1,), flown since the flight began
    cursor: Array  # (CURSOR_SIZE,)


class Course(NamedTuple):
    """The flights to make."""

    travels: Array  # (n_flights,), their lengths
    directions: Array  # (n_flights, m), outputs of their first directions; not read with a basis
    white: Array  # (n_flights, rank), white coordinates of the same
    thin: int  # flights for each draw


class Record(NamedTuple):
    """Positions that are kept: draws, and the outputs at the first walls and flight ends."""

    outputs: Array  # (n_draws, m)
    coef: Array  # (n_draws, m)
    white: Array  # (n_draws, rank)
    path: Array  # (n_path, m)


@jit
def _cotangents(p, q, row, to_p, to_q, cos, sin, side, cotangents):
    """Add multiples of ``row`` to p and q; cotangents of the travel to the walls."""
    for j in range(p.size):
        pj = p[j] + to_p * row[j]
        qj = q[j] + to_q * row[j]
        p[j], q[j] = pj, qj
        height = (pj * cos + qj * sin) * side[j]
        descent = (pj * sin - qj * cos) * side[j]
        touched = NOW if descent > 0 else -NOW
        away = descent / height
        cotangents[j] = away if height > TOUCH else touched


@jit
def _ordered(bits):
    """Integer with the order of the float that has these bits; its own inverse."""
    return bits ^ ((bits >> _SIGN_BIT) & _MAGNITUDE)


@jit
def _highest(bits, n):
    """Maximum of floats, as an ordered integer: vector code, which their own maximum is not."""
    highest = _LEAST
    for j in range(n):
        highest = max(highest, bits[j] ^ ((bits[j] >> _SIGN_BIT) & _MAGNITUDE))
    return highest


@jit
def _first_equal(bits, n, target):
    first = n
    for j in range(n):
        first = min(first, j if bits[j] == target else n)
    return first


@jit
def _next_wall_of_many(P, Q, row, to_p, to_q, cos, sin, side, cotangents):
    """As `next_wall`, a part of the walls at a time."""
    bits = cotangents.view(np.int64)
    best, wall, cotangent = _LEAST, 0, -NOW
    for start in range(0, P.size, CHUNK):
        stop = min(start + CHUNK, P.size)
        _cotangents(
            P[start:stop], Q[start:stop], row[start:stop], to_p, to_q, cos, sin, side[start:stop],
            cotangents,
        )  # fmt: skip
        highest = _highest(bits, stop - start)
        if highest > best:
            best = highest
            first = _first_equal(bits, stop - start, _ordered(best))
            wall, cotangent = start + first, cotangents[first]
    return wall, cotangent


@jit
def next_wall(P, Q, row, to_p, to_q, cos, sin, side, cotangents):
    """Add multiples of ``row`` to P and Q, and find the wall that is met next.

    The travel t to wall j has cot t = -v_j / w_j, and the largest cotangent comes first.
    ``side[j]`` is 1 / sqrt(k(x_j, x_j)) with the sign of the ball's side of wall j.

    Returns
    -------
    wall, cotangent
    """
    if P.size > CHUNK:
        return _next_wall_of_many(P, Q, row, to_p, to_q, cos, sin, side, cotangents)
    # To cut out a part takes as long as ten walls.
    _cotangents(P, Q, row, to_p, to_q, cos, sin, side, cotangents)
    bits = cotangents.view(np.int64)
    first = _first_equal(bits, P.size, _ordered(_highest(bits, P.size)))
    return first, cotangents[first]


@jit
def uniform(cursor):
    """Uniform number in [0, 1) from the ball's own sequence (SplitMix64)."""
    x = np.uint64(cursor[RANDOM]) + np.uint64(0x9E3779B97F4A7C15)
    cursor[RANDOM] = np.int64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) * 2.0**-53


@jit
def log_density(log_weight, slope, minus, plus):
    """Log-weight by numbers of wrong labels; beyond the table it falls with each further error."""
    most_minus, most_plus = log_weight.shape[0] - 1, log_weight.shape[1] - 1
    beyond = max(minus - most_minus, 0) + max(plus - most_plus, 0)
    return log_weight[min(minus, most_minus), min(plus, most_plus)] - slope * beyond


@jit
def passes(side, label, pass_rate, change, log_weight, slope, cursor):
    """Decide whether a ball passes a wall it has met.

    A wall met from the right side of its label is passed with its ``pass_rate``, from the wrong
    side always: flux balance for prod q^e (1 - q)^(1 - e). Where ``log_weight[n_minus, n_plus]`` of
    the numbers of wrong labels is given, with probability min(1, weight ahead / weight here), the
    balance for any weights. ``change``: of these numbers when the wall is passed from its positive
    side.
    """
    if log_weight.size == 0:
        return side * label < 0 or (pass_rate > 0 and uniform(cursor) < pass_rate)
    sign = 1 if side > 0 else -1
    minus = cursor[WRONG_MINUS] + sign * change[0]
    plus = cursor[WRONG_PLUS] + sign * change[1]
    here = log_density(log_weight, slope, cursor[WRONG_MINUS], cursor[WRONG_PLUS])
    gain = log_density(log_weight, slope, minus, plus) - here
    if gain < 0 and uniform(cursor) >= math.exp(gain):
        return False
    cursor[WRONG_MINUS], cursor[WRONG_PLUS] = minus, plus
    return True


@jit
def begin(P, Q, coef_p, coef_q, white_p, white_q, outputs, white):
    """Make an isotropic direction (its outputs and white coordinates) tangent and unit: v."""
    along, squared = 0.0, 0.0
    for j in range(P.size):
        along += coef_p[j] * outputs[j]
    for j in range(white.size):
        along += white_p[j] * white[j]
        squared += white[j] * white[j]
    scale = 1.0 / math.sqrt(squared - along * along)
    for j in range(P.size):
        Q[j] = scale * (outputs[j] - along * P[j])
        coef_q[j] = -scale * along * coef_p[j]
    for j in range(white.size):
        white_q[j] = scale * (white[j] - along * white_p[j])


@jit
def begin_in_basis(Q, white_p, white_q, white, basis):
    """Do as `begin` for vectors that are sums over the basis alone."""
    along, squared = 0.0, 0.0
    for j in range(white.size):
        along += white_p[j] * white[j]
    for j in range(white.size):
        white_q[j] = white[j] - along * white_p[j]
        squared += white_q[j] * white_q[j]
    for j in range(white.size):
        white_q[j] /= math.sqrt(squared)
    set_outputs(Q, white_q, basis)


@jit
def set_outputs(outputs, white, basis):
    """Outputs at the training points of a sum over the basis."""
    for i in range(outputs.size):
        total = 0.0
        for j in range(white.size):
            total += basis[i, j] * white[j]
        outputs[i] = total


@jit
def make_unit(white):
    """Scale to unit length what rounding made longer or shorter."""
    squared = 0.0
    for j in range(white.size):
        squared += white[j] * white[j]
    for j in range(white.size):
        white[j] /= math.sqrt(squared)


@jit
def turn(x, y, cos, sin):
    """Move along a great circle: x = x cos + y sin."""
    for j in range(x.size):
        x[j] = x[j] * cos + y[j] * sin


@jit
def add(total, x):
    """Add x to a sum; like those below a loop, since array expressions cost as much as walls."""
    for j in range(x.size):
        total[j] += x[j]


@jit
def subtract_direction(total, x, y, cos, sin):
    """Subtract the direction y cos - x sin at the end of a flight from a sum."""
    for j in range(x.size):
        total[j] += sin * x[j] - cos * y[j]


@jit
def copy(x, to):
    """Copy x."""
    for j in range(x.size):
        to[j] = x[j]


@jit
def count_errors(target, outputs, errors):
    """Numbers of outputs of each draw on the wrong side; zero counts as positive."""
    for draw in range(outputs.shape[0]):
        wrong = 0
        for j in range(target.size):
            wrong += (outputs[draw, j] < 0) == (target[j] > 0)
        errors[draw] = wrong


@jit
def n_outside(side, outputs, least):
    """Number of outputs that are, times ``side``, not above ``least``, or not a number."""
    n = 0
    for draw in range(outputs.shape[0]):
        for j in range(side.size):
            n += not side[j] * outputs[draw, j] > least
    return n


@jit
def mark(P, Q, cos, sin, path, cursor):
    """Write the outputs of the present position into the path, while there is room."""
    if cursor[RECORDED] < path.shape[0]:
        path[cursor[RECORDED]] = P * cos + Q * sin
        cursor[RECORDED] += 1


@jit
def fly(walls, ball, course, record, max_events):
    """Fly one ball until its flights are done or ``max_events`` walls were met.

    `passes` says which walls reflect.

    Parameters
    ----------
    walls : Walls
    ball : Ball
    course : Course
    record : Record
    max_events : int
    """
    rows, slot_of_row, squared_length = walls.rows, walls.slot_of_row, walls.squared_length
    ridge, basis, label, pass_rate = walls.ridge, walls.basis, walls.label, walls.pass_rate
    change, log_weight, slope = walls.change, walls.log_weight, walls.slope
    side, P, Q, angle, cursor = ball.side, ball.P, ball.Q, ball.angle, ball.cursor
    coef_p, coef_q, white_p, white_q = ball.coef_p, ball.coef_q, ball.white_p, ball.white_q
    kicks, ends_coef, ends_white = ball.kicks, ball.ends_coef, ball.ends_white
    travels, directions, white, thin = course.travels, course.directions, course.white, course.thin
    draws_output, draws_coef, draws_white = record.outputs, record.coef, record.white
    path = record.path
    cotangents = np.empty(CHUNK)
    n_events = 0
    in_basis = basis.size > 0
    while cursor[FLIGHT] < travels.size:
        flight = cursor[FLIGHT]
        travel = travels[flight]
        if not cursor[IN_FLIGHT]:
            if in_basis:
                begin_in_basis(Q, white_p, white_q, white[flight], basis)
            else:
                begin(P, Q, coef_p, coef_q, white_p, white_q, directions[flight], white[flight])
            add(ends_coef, coef_q)
            add(ends_white, white_q)
            angle[0] = 0.0
            cursor[IN_FLIGHT] = 1
        to_p, to_q = 0.0, 0.0
        wall = 0
        cos, sin = math.cos(angle[0]), math.sin(angle[0])
        while True:
            row = rows[slot_of_row[wall]]
            wall, cotangent = next_wall(P, Q, row, to_p, to_q, cos, sin, side, cotangents)
            ahead = angle[0] + math.atan2(1.0, cotangent)
            if ahead >= travel:
                break
            if n_events >= max_events:
                return
            n_events += 1
            angle[0] = ahead
            cos, sin = math.cos(ahead), math.sin(ahead)
            mark(P, Q, cos, sin, path, cursor)
            if passes(
                side[wall], label[wall], pass_rate[wall], change[wall], log_weight, slope, cursor
            ):
                side[wall] = -side[wall]
                to_p, to_q = 0.0, 0.0
                cursor[PASSES] += 1
                continue
            speed = Q[wall] * cos - P[wall] * sin
            f = 2.0 * speed / squared_length[wall]
            to_p, to_q = f * sin, -f * cos
            if in_basis:
                for j in range(white_p.size):
                    white_p[j] += to_p * basis[wall, j]
                    white_q[j] += to_q * basis[wall, j]
            else:
                coef_p[wall] += to_p
                coef_q[wall] += to_q
            P[wall] += to_p * ridge[wall]
            Q[wall] += to_q * ridge[wall]
            kicks[wall] -= f
            cursor[BOUNCES] += 1
        cos, sin = math.cos(travel), math.sin(travel)
        mark(P, Q, cos, sin, path, cursor)
        subtract_direction(ends_coef, coef_p, coef_q, cos, sin)
        subtract_direction(ends_white, white_p, white_q, cos, sin)
        turn(P, Q, cos, sin)
        turn(coef_p, coef_q, cos, sin)
        turn(white_p, white_q, cos, sin)
        if in_basis:  # in few dimensions rounding errors would grow from flight to flight
            make_unit(white_p)
            set_outputs(P, white_p, basis)
        cursor[IN_FLIGHT] = 0
        cursor[FLIGHT] += 1
        if cursor[FLIGHT] % thin == 0:
            draw = cursor[FLIGHT] // thin - 1
            copy(P, draws_output[draw])
            copy(coef_p, draws_coef[draw])
            copy(white_p, draws_white[draw])


@jit
def crossing_angle(P, Q, label, odds, places, changes, cursor):
    """Draw an angle on the great circle w cos t + v sin t, -pi < t <= pi, from the posterior.

    Output j changes sign where tan t = -P_j / Q_j, once on each half of the circle, and the
    log-posterior then falls by the log-odds of its label, or rises if it was wrong. Walls of sure
    labels (infinite log-odds) bound the arc; between two of them there is nothing to sort.
    """
    low, high, n = -math.pi, math.pi, 0
    for j in range(P.size):
        height = P[j] * label[j]
        if odds[j] == math.inf and height <= 0:  # on the wall at worst, whatever rounding says
            height = 0.0
        place = math.atan2(-height, Q[j] * label[j])
        if place <= 0:
            place += math.pi
        if odds[j] == math.inf:
            high, low = min(high, place), max(low, place - math.pi)
        elif odds[j] > 0:
            # On the wall itself, what counts is the side just before it.
            right = height > 0 or (height == 0 and Q[j] * label[j] < 0)
            change = odds[j] if right else -odds[j]
            places[n], places[n + 1] = place, place - math.pi
            changes[n], changes[n + 1] = change, change
            n += 2
    if n == 0:
        return low + (high - low) * uniform(cursor)
    order = np.argsort(places[:n])
    return _from_intervals(places, changes, order, low, high, cursor)


@jit
def _from_intervals(places, changes, order, low, high, cursor):
    """Draw an interval between neighbouring places by length and density, then a place in it."""
    n = order.size
    here = 0  # number of the interval that holds the present position
    while here < n and places[order[here]] < 0:
        here += 1
    energy = np.empty(n + 1)
    energy[here] = 0.0
    for k in range(here, n):
        energy[k + 1] = energy[k] + changes[order[k]]
    for k in range(here - 1, -1, -1):
        energy[k] = energy[k + 1] + changes[order[k]]
    least = math.inf
    for k in range(n + 1):
        if _end(places, order, k, low, high) > _end(places, order, k - 1, low, high):
            least = min(least, energy[k])
    total = 0.0
    for k in range(n + 1):
        length = _end(places, order, k, low, high) - _end(places, order, k - 1, low, high)
        total += length * math.exp(least - energy[k]) if length > 0 else 0.0
    left = total * uniform(cursor)
    chosen = here
    for k in range(n + 1):
        length = _end(places, order, k, low, high) - _end(places, order, k - 1, low, high)
        if length > 0:
            chosen = k
            left -= length * math.exp(least - energy[k])
            if left < 0:
                break
    start = _end(places, order, chosen - 1, low, high)
    return start + (_end(places, order, chosen, low, high) - start) * uniform(cursor)


@jit
def _end(places, order, k, low, high):
    """Upper end of interval k; that of interval -1 is the lower end of the first."""
    if k < 0:
        return low
    if k == order.size:
        return high
    return min(max(places[order[k]], low), high)


@jit
def walk(walls, odds, ball, course, record, max_steps):
    """Make Gibbs steps with one chain until they are done or ``max_steps`` were made.

    A step is a flight whose length is drawn: of the travels only their number counts, and rows of
    the walls are not read. ``odds`` are log-odds of the labels; sides follow the outputs.

    Parameters
    ----------
    walls : Walls
    odds : ndarray of shape (m,)
    ball : Ball
    course : Course
    record : Record
    max_steps : int
    """
    basis, label, white = walls.basis, walls.label, course.white
    side, P, Q, cursor = ball.side, ball.P, ball.Q, ball.cursor
    coef_p, coef_q, white_p, white_q = ball.coef_p, ball.coef_q, ball.white_p, ball.white_q
    places, changes = np.empty(2 * P.size), np.empty(2 * P.size)
    in_basis = basis.size > 0
    for _ in range(max_steps):
        step = cursor[FLIGHT]
        if step >= course.travels.size:
            return
        if in_basis:
            begin_in_basis(Q, white_p, white_q, white[step], basis)
        else:
            begin(P, Q, coef_p, coef_q, white_p, white_q, course.directions[step], white[step])
        angle = crossing_angle(P, Q, label, odds, places, changes, cursor)
        cos, sin = math.cos(angle), math.sin(angle)
        turn(P, Q, cos, sin)
        turn(coef_p, coef_q, cos, sin)
        turn(white_p, white_q, cos, sin)
        if in_basis:
            make_unit(white_p)
            set_outputs(P, white_p, basis)
        for j in range(P.size):
            if odds[j] < math.inf:
                size = abs(side[j])
                side[j] = size if P[j] > 0 else -size
        cursor[FLIGHT] += 1
        if cursor[FLIGHT] % course.thin == 0:
            draw = cursor[FLIGHT] // course.thin - 1
            record.outputs[draw] = P
            record.coef[draw] = coef_p
            record.white[draw] = white_p
