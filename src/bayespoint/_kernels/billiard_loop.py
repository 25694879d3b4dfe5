"""The exact billiard: great-circle flights, O(m) an event.

Position w and direction v are kept in a frame that turns with the flight,

    w = p cos(angle) + q sin(angle),    v = -p sin(angle) + q cos(angle),

so that nothing moves between two walls. P and Q are the outputs of p and q at the training points.
A reflection v -= f phi_c adds f sin(angle) phi_c to p and -f cos(angle) phi_c to q, and the
matching multiples of row c of the Gram matrix to P and Q: one pass over m numbers, which finds the
next wall as well.
"""

import math

import numpy as np

from bayespoint._jit import jit

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
def next_wall(P, Q, row, to_p, to_q, cos, sin, side, cotangents):
    """Add multiples of ``row`` to P and Q, and find the wall that is met next.

    The travel t to wall j has cot t = -v_j / w_j, and the largest cotangent comes first.
    ``side[j]`` is 1 / sqrt(k(x_j, x_j)) with the sign of the ball's side of wall j.

    Returns
    -------
    wall, cotangent
    """
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
    """Make an isotropic direction (its outputs and white coordinates) tangent and unit: v.

    Vectors are sums over the training points (``coef``) and over an orthonormal basis of their
    span (``white``).
    """
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
    """Move to the end of a flight: x = x cos + y sin."""
    for j in range(x.size):
        x[j] = x[j] * cos + y[j] * sin


@jit
def record(P, Q, cos, sin, path, cursor):
    """Write the outputs of the present position into the path, while there is room."""
    if cursor[RECORDED] < path.shape[0]:
        path[cursor[RECORDED]] = P * cos + Q * sin
        cursor[RECORDED] += 1


@jit
def fly(
    rows, slot_of_row, squared_length, ridge, basis, label, pass_rate, change, log_weight, slope,
    travels, n_flights, thin, max_events, directions, white, side, P, Q, coef_p, coef_q, white_p,
    white_q, kicks, ends_coef, ends_white, angle, cursor, cotangents, draws_output, draws_coef,
    draws_white, path,
):  # fmt: skip
    """Fly one ball until its flights are done or ``max_events`` walls were met.

    Each flight has its length in ``travels`` and begins with the next of the ``directions``; its
    end is kept in ``draws_*`` after every ``thin`` flights. `passes` says which walls reflect.
    ``kicks[c]`` sums the changes of direction at wall c, ``ends_*`` the first less the
    last direction of each flight; ``path`` holds the outputs at the first walls and flight ends.
    ``basis``: white coordinates of the points where vectors are kept in these alone, else empty.
    """
    n_events = 0
    in_basis = basis.size > 0
    while cursor[FLIGHT] < n_flights:
        flight = cursor[FLIGHT]
        travel = travels[flight]
        if not cursor[IN_FLIGHT]:
            if in_basis:
                begin_in_basis(Q, white_p, white_q, white[flight], basis)
            else:
                begin(P, Q, coef_p, coef_q, white_p, white_q, directions[flight], white[flight])
            ends_coef += coef_q
            ends_white += white_q
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
            record(P, Q, cos, sin, path, cursor)
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
        record(P, Q, cos, sin, path, cursor)
        ends_coef += sin * coef_p - cos * coef_q
        ends_white += sin * white_p - cos * white_q
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
            draws_output[draw] = P
            draws_coef[draw] = coef_p
            draws_white[draw] = white_p
