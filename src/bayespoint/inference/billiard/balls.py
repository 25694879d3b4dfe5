"""Balls that fly on great circles through version space and bounce off its walls.

Flights keep (uniform position, isotropic direction). A new direction, isotropic in the tangent
space, is drawn after each flight: without it the flow can be integrable, and means are wrong.
Directions of all balls are drawn together, as one matrix product with a factor of the Gram matrix.
"""

import time
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from bayespoint.space.rows import outputs_of

# Travel between two refreshes of the direction. A quarter turn takes w to v, as far as a flight
# without walls can get; after multiples of pi the ball is back, or opposite.
TRAVEL = np.pi / 2

# Numbers held for the directions and draws of one step of all balls together.
STEP_NUMBERS = 8_000_000

# Flights of a ball in one step: enough that the way back to Python costs nothing.
MAX_FLIGHTS = 1000

# Steps of a run, at least: their scatter gives the Monte-Carlo error.
MIN_STEPS = 8

# Numbers that room is made for at once; for more draws it grows with them.
AT_ONCE = 50_000_000

# Draws of each ball before the first look at their error, which then comes at each doubling.
FIRST_DRAWS = 16

# Numbers read and written between two returns to Python, some 30 ms.
EVENT_WORK = 5e7

# What an event costs besides, in numbers read and written.
EVENT_COST = 500

# A ball whose margin, recomputed, is this far on the wrong side (share of sqrt(k(x, x))) has left
# its cell through rounding errors: it goes back to where the step began.
LOST = 1e-7
MAX_RESTARTS = 10

# Up to this rank of the Gram matrix, vectors are kept in coordinates of an orthonormal basis.
FEW_DIMENSIONS = 32

# With a time limit a step takes about this share of it.
STEP_SHARE = 0.05

# Batches of kicks held for each ball; twice as long ones take their place when there are more.
MAX_BATCHES = 16


# Walls coincide when the cosine of their points, from the entries of the Gram matrix, is this close
# to 1 or -1.
PARALLEL = 1e-14


class Table(NamedTuple):
    """What balls fly over: walls and their labels."""

    rows: object  # GramRows or FullRows, all rows present
    ridge: np.ndarray  # (m,), what softness adds to the diagonal
    factor: object  # Factor of the softened Gram matrix
    label: np.ndarray  # (n_balls, m), +1 or -1
    pass_rate: np.ndarray  # (n_balls, m), probability to pass a wall from the side of its label
    # Instead of pass rates (which are then positive), where weights depend on numbers of errors:
    # (m, 2), change of the numbers of wrong labels -1 and +1 as a wall is passed from its + side
    change: np.ndarray = np.zeros((0, 2), dtype=np.int64)
    log_weight: np.ndarray = np.zeros((0, 0))  # by these numbers
    slope: np.ndarray = np.zeros(1)  # by which it falls with each error beyond the table


class Balls:
    """Positions and directions of all balls, and what they have met.

    Parameters
    ----------
    table : Table
    start : ndarray of shape (n_balls, m)
        Coefficients of the positions, of unit length.
    seed : SeedSequence
        Of the directions and of the passes.
    n_path : int, default=0
        Events of the first ball whose positions are recorded.
    """

    has_path = True  # positions between draws count, too

    def __init__(self, table, start, seed, n_path=0):
        from bayespoint._loops.billiard import CURSOR_SIZE, RANDOM

        n_balls, m = start.shape
        self.table = table
        stored = table.rows.store[table.rows.slot_of_row, np.arange(m)]
        self.squared_length = stored.astype(np.float64) + table.ridge
        self.P = outputs_of(table.rows, table.ridge, start)
        self.side = self._sides(self.P)
        self.change = table.change if len(table.change) else np.zeros((m, 2), dtype=np.int64)
        self.Q = np.zeros_like(self.P)
        # In few dimensions rounding errors of sums over points would grow from flight to flight.
        few = table.factor.rank <= FEW_DIMENSIONS
        self.basis = table.factor.basis_coordinates() if few else np.zeros((0, 0))
        self.coef_p, self.coef_q = np.zeros_like(start), np.zeros_like(start)
        self.white_p = np.zeros((n_balls, table.factor.rank))
        self.white_q = np.zeros_like(self.white_p)
        self._place(start, self.P)
        self.kicks = np.zeros_like(start)
        self.ends_coef, self.ends_white = np.zeros_like(start), np.zeros_like(self.white_p)
        self.angle = np.zeros((n_balls, 1))
        self.cursor = np.zeros((n_balls, CURSOR_SIZE), dtype=np.int64)
        self.rngs = [np.random.default_rng(child) for child in seed.spawn(n_balls)]
        self.length_rngs = [np.random.default_rng(child) for child in seed.spawn(n_balls)]
        self.cursor[:, RANDOM] = [rng.integers(2**63) for rng in self.rngs]
        self.path = np.zeros((n_path, m))
        self.drift = 0.0
        self.restarts = 0
        self.seconds = 0.0

    def __len__(self):
        """Return the number of balls."""
        return len(self.P)

    def step(self, n_flights, thin, travel, budget, threads, kept=True):
        """Fly all balls ``n_flights`` flights (a multiple of ``thin``), or until time is up.

        Returns
        -------
        coef, outputs : ndarray of shape (n_balls, n_draws, m)
            Positions after every ``thin`` flights, those that all balls have reached.
        """
        if self.table.factor.rank == 1:
            return self._flip(n_flights // thin, thin * travel)
        before = self._state()
        self._clear(slice(None))
        flown = self._fly(np.arange(len(self)), n_flights, thin, travel, budget, threads)
        last = self._settle(flown, before, n_flights, thin, travel, budget, threads)
        if last is None:
            self._restore(before, slice(None))
            return None
        if not kept:
            return None
        n_draws = int(flown.n_done.min()) // thin
        coef = flown.coef[:, :n_draws]
        coef += self._coefficients(flown.white[:, :n_draws])
        coef[:, -1] = last
        return coef, flown.outputs[:, :n_draws]

    def _flip(self, n_draws, radians):
        """Draw on a line, where the sphere is two points and there is nowhere to fly."""
        stays = expit(self._odds_of_staying())
        sign = [
            np.where(rng.random((n_draws, 1)) < stay, 1.0, -1.0)
            for rng, stay in zip(self.rngs, stays, strict=True)
        ]
        coef, outputs = sign * self.positions()[:, None], sign * self.P[:, None]
        self.kicks = radians * coef.sum(axis=1)
        return coef, outputs

    def _odds_of_staying(self):
        """Log-odds of the present position against the opposite one."""
        log_weight = self.table.log_weight
        if log_weight.size:
            here, there = (wrong_labels(self.table.label, x) for x in (self.side, -self.side))
            return self._log_density(here) - self._log_density(there)
        with np.errstate(divide="ignore"):
            odds = -np.log(self.table.pass_rate) * self.table.label * np.sign(self.P)
        return np.sum(odds, axis=1)

    def _log_density(self, cells):
        most = np.subtract(self.table.log_weight.shape, 1)
        beyond = np.maximum(cells - most, 0).sum(axis=-1)
        held = np.minimum(cells, most)
        return self.table.log_weight[tuple(held.T)] - self.table.slope[0] * beyond

    def forget(self):
        """Begin to count and to record anew."""
        from bayespoint._loops.billiard import BOUNCES, PASSES, RECORDED

        self.cursor[:, [BOUNCES, PASSES, RECORDED]] = 0
        self.drift, self.restarts, self.seconds = 0.0, 0, 0.0

    def ends(self):
        """Coefficients of the first less the last direction of each flight, summed, by ball."""
        return self.ends_coef + self._coefficients(self.ends_white)

    def recorded_path(self):
        """Outputs of the first ball at its first walls and flight ends."""
        from bayespoint._loops.billiard import RECORDED

        return self.path[: self.cursor[0, RECORDED]]

    def counts(self):
        """Return bounces and passes of each ball, drift, restarts, seconds of flight."""
        from bayespoint._loops.billiard import BOUNCES, PASSES

        return {
            "bounces": self.cursor[:, BOUNCES].copy(),
            "passes": self.cursor[:, PASSES].copy(),
            "drift": float(self.drift),
            "restarts": self.restarts,
            "flight_seconds": self.seconds,
        }

    def _fly(self, balls, n_flights, thin, travel, budget, threads):
        from bayespoint._loops.billiard import (
            FLIGHT,
            IN_FLIGHT,
            WRONG_MINUS,
            WRONG_PLUS,
        )

        m, rank = self.P.shape[1], self.table.factor.rank
        white = np.empty((len(balls), n_flights, rank))
        for k, b in enumerate(balls):
            self.rngs[b].standard_normal(out=white[k])
        travels = np.full((len(balls), n_flights), travel)
        if rank == 2:  # on a circle flights of one length come back to the same few places
            travels = np.stack(
                [self.length_rngs[b].uniform(0, 2 * travel, n_flights) for b in balls]
            )
        directions = np.zeros((len(balls), n_flights, 0))
        if not self.basis.size:
            directions = self.table.factor.outputs(white.reshape(-1, rank))
            directions = directions.reshape(len(balls), n_flights, m)
        n_draws = n_flights // thin
        flown = _Flown(
            np.empty((len(balls), n_draws, m)), np.empty((len(balls), n_draws, m)),
            np.empty((len(balls), n_draws, rank)), np.zeros(len(balls), dtype=np.int64),
        )  # fmt: skip
        self.cursor[balls, FLIGHT] = 0
        self.cursor[balls, IN_FLIGHT] = 0
        self.cursor[np.ix_(balls, (WRONG_MINUS, WRONG_PLUS))] = wrong_labels(
            self.table.label[balls], self.side[balls]
        )

        def one(k):
            b = balls[k]
            draws = flown.outputs[k], flown.coef[k], flown.white[k]
            advance = self._mover(b, travels[k], directions[k], white[k], n_flights, thin, draws)
            while self.cursor[b, FLIGHT] < n_flights and not budget.spent():
                advance()
            flown.n_done[k] = self.cursor[b, FLIGHT]

        begun = time.perf_counter()
        threads.each(one, range(len(balls)))
        self.seconds += time.perf_counter() - begun
        return flown

    def _mover(self, b, travels, directions, white, n_flights, thin, draws):
        """Return what flies ball ``b`` for some 30 ms when called."""
        from bayespoint._loops.billiard import CHUNK, fly

        table, rows, m = self.table, self.table.rows, self.P.shape[1]
        cotangents, no_path = np.empty(CHUNK), np.zeros((0, m))
        max_events = max(1, int(EVENT_WORK / (m + EVENT_COST)))

        def advance():
            fly(
                rows.store, rows.slot_of_row, self.squared_length, table.ridge, self.basis,
                table.label[b], table.pass_rate[b], self.change, table.log_weight,
                table.slope[0], travels, n_flights, thin, max_events, directions, white,
                self.side[b], self.P[b], self.Q[b], self.coef_p[b], self.coef_q[b],
                self.white_p[b], self.white_q[b], self.kicks[b], self.ends_coef[b],
                self.ends_white[b], self.angle[b], self.cursor[b], cotangents, *draws,
                no_path if b else self.path,
            )  # fmt: skip

        return advance

    def _settle(self, flown, before, n_flights, thin, travel, budget, threads):
        """Recompute positions from coefficients; fly balls again that rounding led astray.

        Returns the coefficients of the last draws, or None if time was up before a draw.
        """
        for _ in range(MAX_RESTARTS):
            n_draws = int(flown.n_done.min()) // thin
            if not n_draws:
                return None
            last = flown.coef[:, n_draws - 1] + self._coefficients(flown.white[:, n_draws - 1])
            exact = outputs_of(self.table.rows, self.table.ridge, last)
            norm = np.sqrt(np.sum(last * exact, axis=1))[:, None]
            last, exact = last / norm, exact / norm
            drift = np.abs(exact - flown.outputs[:, n_draws - 1]) / np.sqrt(self.squared_length)
            self.drift = max(self.drift, float(drift.max()))
            whole = flown.n_done.min() == n_flights
            if not whole:
                self.side = self._sides(exact)
            heights = np.min(self.side * exact, axis=1)
            hard = np.where(self.table.pass_rate == 0, np.abs(self.side) * self.table.label, 0.0)
            draws = np.min(hard[:, None] * flown.outputs[:, :n_draws], axis=(1, 2))
            lost = np.flatnonzero(~(np.minimum(heights, draws) > -LOST))
            if not len(lost) or not whole:
                self.P = exact
                self._place(last, exact)
                return last
            self.restarts += len(lost)
            self._restore(before, lost)
            again = self._fly(lost, n_flights, thin, travel, budget, threads)
            for held, new in zip(flown, again, strict=True):
                held[lost] = new
        raise ValueError(
            "the billiard leaves version space through rounding errors again and again: the Gram "
            "matrix is not positive semi-definite, or version space is too narrow. Set "
            "softness > 0."
        )

    def _sides(self, outputs):
        """Side of each wall, as 1 / sqrt(k(x, x)) with its sign; hard walls have but one."""
        sign = np.where(outputs == 0, self.table.label, np.sign(outputs))
        sign = np.where(self.table.pass_rate == 0, self.table.label, sign)
        return sign / np.sqrt(self.squared_length)

    def _place(self, coef, outputs):
        """Put the balls at positions given by coefficients and their outputs."""
        if self.basis.size:
            self.white_p = self.table.factor.white(outputs)
            self.coef_p[:] = 0
        else:
            self.coef_p, self.white_p = coef.copy(), np.zeros_like(self.white_p)

    def positions(self):
        """Coefficients of the positions between flights."""
        return self.coef_p + self._coefficients(self.white_p)

    def _coefficients(self, white):
        flat = self.table.factor.coefficients(white.reshape(-1, white.shape[-1]))
        return flat.reshape(*white.shape[:-1], -1)

    def _state(self):
        return {name: getattr(self, name).copy() for name in ("P", "coef_p", "white_p", "side")}

    def _restore(self, state, balls):
        for name, values in state.items():
            getattr(self, name)[balls] = values[balls]
        self._clear(balls)

    def _clear(self, balls):
        for sums in (self.kicks, self.ends_coef, self.ends_white):
            sums[balls] = 0


def coinciding_walls(space):
    """Yield a wall, the later ones that coincide with it, and their signs: -1 if they face it."""
    if space.softness > 0:  # softened points are never parallel
        return
    if hasattr(space.rows, "coinciding"):  # on a GPU
        yield from space.rows.coinciding(PARALLEL)
        return
    length = np.sqrt(space.rows.store[space.rows.slot_of_row, np.arange(len(space))], dtype=float)
    seen = np.zeros(len(space), dtype=bool)
    for i in range(len(space)):
        if seen[i]:
            continue
        cosine = space.rows.store[space.rows.slot_of_row[i]] / (length * length[i])
        same = np.flatnonzero(np.abs(cosine) > 1 - PARALLEL)
        same = same[same > i]
        if len(same):
            seen[same] = True
            yield i, same, np.sign(cosine[same])


def wrong_labels(label, outputs):
    """Numbers of labels -1 and +1 (last axis) on the wrong side, by outputs (..., m)."""
    minus = np.count_nonzero((label < 0) & (outputs > 0), axis=-1)
    plus = np.count_nonzero((label > 0) & (outputs < 0), axis=-1)
    return np.stack([minus, plus], axis=-1)


class _Flown(NamedTuple):
    """Positions of some balls after flights: sums over points (coef) and over the basis (white)."""

    coef: np.ndarray
    outputs: np.ndarray
    white: np.ndarray
    n_done: np.ndarray


class Flights:
    """The draws and kicks of all balls, step by step.

    Attributes
    ----------
    coef, outputs : ndarray of shape (n_balls, n_draws, m)
        Unit vectors at fixed travel times, and their outputs at the training points.
    kicks, path : list of ndarray of shape (n_balls, m)
        For each batch of flights, the sum over bounces of the change of direction, and the
        integral of the position. Along a flight dv = -w dt, so they differ by the first less the
        last direction, whose mean is zero.
    radians : list of float
        Travel of each ball in each batch.
    """

    def __init__(self, balls, n_draws):
        numbers = len(balls) * balls.P.shape[1]
        capacity = max(1, min(n_draws, AT_ONCE // numbers))
        self._coef = np.empty((len(balls), capacity, balls.P.shape[1]))
        self._outputs = np.empty_like(self._coef)
        self._start = balls.positions(), balls.P.copy()
        self.n_draws = 0
        self.kicks: list = []
        self.path: list = []
        self.radians: list = []

    def add(self, coef, outputs):
        """Add draws of all balls."""
        new = slice(self.n_draws, self.n_draws + coef.shape[1])
        if new.stop > self._coef.shape[1]:
            self._grow(max(new.stop, 2 * self._coef.shape[1]))
        self._coef[:, new], self._outputs[:, new] = coef, outputs
        self.n_draws = new.stop

    def _grow(self, capacity):
        for name in ("_coef", "_outputs"):
            held = getattr(self, name)
            grown = np.empty((held.shape[0], capacity, held.shape[2]))
            grown[:, : self.n_draws] = held[:, : self.n_draws]
            setattr(self, name, grown)

    def add_batch(self, kicks, path, radians):
        """Add the integrals over some flights of all balls."""
        self.kicks.append(kicks)
        self.path.append(path)
        self.radians.append(radians)
        if len(self.kicks) == MAX_BATCHES:
            pairs = range(0, MAX_BATCHES, 2)
            for name in ("kicks", "path", "radians"):
                held = getattr(self, name)
                setattr(self, name, [held[k] + held[k + 1] for k in pairs])

    @property
    def coef(self):
        """Draws so far; the starts where there was no time for one flight."""
        return self._coef[:, : self.n_draws] if self.n_draws else self._start[0][:, None]

    @property
    def outputs(self):
        """Outputs of the draws so far."""
        return self._outputs[:, : self.n_draws] if self.n_draws else self._start[1][:, None]

    def batches(self, source, balls):
        """Mean position of some balls by "kicks" or "path", a row a ball and batch; weights."""
        pairs = zip(getattr(self, source), self.radians, strict=True)
        means = [integral[balls] / radians for integral, radians in pairs]
        return np.concatenate(means), np.repeat(self.radians, len(means[0]))


def run(balls, n_draws, *, travel, thin, burn_in, budget, threads, enough=None):
    """Fly all balls until each has made ``n_draws`` draws, time is up or ``enough(flights)``.

    The first ``burn_in`` flights are not kept.
    """
    pace = _Pace(balls, budget)
    total = burn_in + n_draws * thin
    while pace.flown < burn_in and not budget.spent():
        n_flights = pace.next(burn_in - pace.flown)
        balls.step(n_flights, n_flights, travel, budget, threads, kept=False)
        pace.add(n_flights, total)
    balls.forget()
    flights = Flights(balls, n_draws)
    share = -(-n_draws // MIN_STEPS)
    while flights.n_draws < n_draws and not budget.spent():
        left = min(n_draws - flights.n_draws, share)
        if enough is not None:
            left = min(left, max(FIRST_DRAWS, flights.n_draws))
        n_flights = max(1, pace.next(left * thin) // thin) * thin
        step = balls.step(n_flights, thin, travel, budget, threads)
        if step is None:
            break
        flights.add(*step)
        whole, radians = step[0].shape[1] * thin == n_flights, step[0].shape[1] * thin * travel
        if whole and balls.has_path:
            kicks = balls.kicks.copy()
            flights.add_batch(kicks, kicks + balls.ends(), radians)
        elif not flights.path or not balls.has_path:  # what the draws tell
            flights.add_batch(0.0 * balls.kicks, step[0].sum(axis=1) * thin * travel, radians)
        pace.add(n_flights, total)
        if enough is not None and enough(flights):
            break
    budget.close()
    return flights


class _Pace:
    """How many flights to make before the next look at the clock."""

    def __init__(self, balls, budget):
        numbers = len(balls) * 2 * (balls.P.shape[1] + balls.table.factor.rank)
        self._most = max(1, min(STEP_NUMBERS // numbers, MAX_FLIGHTS))
        self._budget = budget
        self._begun = time.perf_counter()
        self.flown = 0

    def next(self, left):
        """Return the number of flights of the next step, of those that are left."""
        most = self._most
        if self._budget.max_time is not None:
            seconds = max(time.perf_counter() - self._begun, 1e-9)
            most = min(most, int(STEP_SHARE * self._budget.max_time * self.flown / seconds))
        return max(1, min(left, most))

    def add(self, n_flights, total):
        """Count flights and show progress."""
        self.flown += n_flights
        self._budget.show(min(self.flown, total), total, "flights of each ball,")
