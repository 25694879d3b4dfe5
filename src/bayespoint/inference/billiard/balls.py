"""Balls that fly on great circles through version space and bounce off its walls.

Flights keep (uniform position, isotropic direction). A new direction, isotropic in the tangent
space, is drawn after each flight: without it the flow can be integrable, and means are wrong.
Directions of all balls are drawn together, as one matrix product with a factor of the Gram matrix.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.space.version_space import VersionSpace

if TYPE_CHECKING:  # Numba takes a third of a second to import
    from bayespoint._loops.billiard import Ball, Course, Record, Walls

# Travel between two refreshes of the direction. A quarter turn takes w to v, as far as a flight
# without walls can get; after multiples of pi the ball is back, or opposite.
TRAVEL = np.pi / 2

# Numbers read and written between two returns to Python, some 30 ms.
EVENT_WORK = 5e7

# What an event costs besides, in numbers read and written.
EVENT_COST = 500

# A ball whose margin, recomputed, is this far on the wrong side (share of sqrt(k(x, x))) has left
# its cell through rounding errors: it goes back to where the step began.
LOST = 1e-7
MAX_RESTARTS = 10

# Most walls that a ball meets in a flight, for each there is: 0.2 to 15 if points differ, but any
# number in a space that is narrow in one direction and wide in another. Flights are then shortened
# until they meet half as many, but to no less than this part of the travel asked. Before the first
# draw that counts they become longer again where they meet fewer than this share.
MOST_MET = 500
LEAST_PART = 1e-6
FEW_MET = 1 / 8

# Up to this rank of the Gram matrix, vectors are kept in coordinates of an orthonormal basis.
FEW_DIMENSIONS = 32

# Walls coincide when the cosine of their points, from the entries of the Gram matrix, is this close
# to 1 or -1.
PARALLEL = 1e-14


class Table(NamedTuple):
    """What balls fly over: walls and their labels."""

    rows: Any  # GramRows or FullRows, all rows present
    ridge: Array  # (m,), what softness adds to the diagonal
    factor: Any  # Factor of the softened Gram matrix
    label: Array  # (n_balls, m), +1 or -1
    pass_rate: Array  # (n_balls, m), probability to pass a wall from the side of its label
    # Instead of pass rates (which are then positive), where weights depend on numbers of errors:
    # (m, 2), change of the numbers of wrong labels -1 and +1 as a wall is passed from its + side
    change: Array = np.zeros((0, 2), dtype=np.int64)
    log_weight: Array = np.zeros((0, 0))  # by these numbers
    slope: Array = np.zeros(1)  # by which it falls with each error beyond the table


class _Flown(NamedTuple):
    """Positions of some balls after flights: sums over points (coef) and over the basis (white)."""

    coef: Array  # (n_balls, n_draws, m)
    outputs: Array  # (n_balls, n_draws, m)
    white: Array  # (n_balls, n_draws, rank)
    n_done: Array  # (n_balls,), flights


class _NarrowError(Exception):
    """A ball meets so many times more walls than it may."""

    def __init__(self, times: float) -> None:
        self.times = times


class Balls:
    """Positions and directions of all balls, and what they have met.

    Flights are ``part`` of the travel asked: all, but less in a narrow space. It is made smaller
    where a step meets too many walls, and that step is flown again; until `forget` it grows again
    where walls are few. Draws are uniform whatever it is, but depend on each other for longer.

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

    def __init__(
        self, table: Table, start: Array, seed: np.random.SeedSequence, n_path: int = 0
    ) -> None:
        from bayespoint._loops.billiard import CURSOR_SIZE, RANDOM

        n_balls, m = start.shape
        self.table = table
        stored = table.rows.store[table.rows.slot_of_row, np.arange(m)]
        self.squared_length = stored.astype(np.float64) + table.ridge
        self.P = table.rows.outputs(table.ridge, start)
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
        self.part, self.settling = 1.0, True
        self.path = np.zeros((n_path, m))
        self.drift = 0.0
        self.restarts = 0
        self.seconds = 0.0

    def __len__(self) -> int:
        """Return the number of balls."""
        return len(self.P)

    def step(
        self, n_flights: int, thin: int, travel: float, budget: Budget, threads: Threads,
        kept: bool = True,
    ) -> tuple[Array, Array] | None:  # fmt: skip
        """Fly all balls ``n_flights`` flights (a multiple of ``thin``), or until time is up.

        Returns
        -------
        coef, outputs : ndarray of shape (n_balls, n_draws, m)
            Positions after every ``thin`` flights, those that all balls have reached.
        """
        if self.table.factor.rank == 1:
            return self._flip(n_flights // thin, thin * travel)
        before, cursor = self._state(), self.cursor.copy()
        self._clear(slice(None))
        try:
            flown = self._fly(np.arange(len(self)), n_flights, thin, travel, budget, threads)
            last = self._settle(flown, before, n_flights, thin, travel, budget, threads)
        except _NarrowError as error:
            self._restore(before, slice(None))
            self._shorten(error.times, cursor)
            return self.step(n_flights, thin, travel, budget, threads, kept)
        if last is None:
            self._restore(before, slice(None))
            return None
        met = max(self._met(b, cursor) for b in range(len(self)))
        if self.settling and met < FEW_MET * n_flights:
            self.part = min(1.0, 2 * self.part)
        if not kept:
            return None
        n_draws = int(flown.n_done.min()) // thin
        coef = flown.coef[:, :n_draws]
        coef += self._coefficients(flown.white[:, :n_draws])
        coef[:, -1] = last
        return coef, flown.outputs[:, :n_draws]

    def _shorten(self, times: float, cursor: Array) -> None:
        """Begin again with shorter flights, where a ball met too many walls, so many times."""
        from bayespoint._loops.billiard import RANDOM

        self.part /= 2 * times
        if self.part < LEAST_PART:
            raise ValueError(
                "version space is too narrow for a billiard: a ball would meet billions of walls "
                "in a flight. Set softness > 0."
            )
        self.cursor = cursor
        self.cursor[:, RANDOM] = [rng.integers(2**63) for rng in self.rngs]

    def _flip(self, n_draws: int, radians: float) -> tuple[Array, Array]:
        """Draw on a line, where the sphere is two points and there is nowhere to fly."""
        stays = expit(self._odds_of_staying())
        sign = np.array(
            [
                np.where(rng.random((n_draws, 1)) < stay, 1.0, -1.0)
                for rng, stay in zip(self.rngs, stays, strict=True)
            ]
        )
        coef, outputs = sign * self.positions()[:, None], sign * self.P[:, None]
        self.kicks = radians * coef.sum(axis=1)
        return coef, outputs

    def _odds_of_staying(self) -> Array:
        """Log-odds of the present position against the opposite one."""
        log_weight = self.table.log_weight
        if log_weight.size:
            here, there = (wrong_labels(self.table.label, x) for x in (self.side, -self.side))
            return self._log_density(here) - self._log_density(there)
        with np.errstate(divide="ignore"):
            odds = -np.log(self.table.pass_rate) * self.table.label * np.sign(self.P)
        return np.sum(odds, axis=1)

    def _log_density(self, cells: Array) -> Array:
        most = np.subtract(self.table.log_weight.shape, 1)
        beyond = np.maximum(cells - most, 0).sum(axis=-1)
        held = np.minimum(cells, most)
        return self.table.log_weight[tuple(held.T)] - self.table.slope[0] * beyond

    def forget(self) -> None:
        """Begin to count and to record anew."""
        from bayespoint._loops.billiard import BOUNCES, PASSES, RECORDED

        self.cursor[:, [BOUNCES, PASSES, RECORDED]] = 0
        self.settling = False
        self.drift, self.restarts, self.seconds = 0.0, 0, 0.0

    def ends(self) -> Array:
        """Coefficients of the first less the last direction of each flight, summed, by ball."""
        return self.ends_coef + self._coefficients(self.ends_white)

    def recorded_path(self) -> Array:
        """Outputs of the first ball at its first walls and flight ends."""
        from bayespoint._loops.billiard import RECORDED

        return self.path[: self.cursor[0, RECORDED]]

    def n_met(self) -> int:
        """Return how many walls all balls have met."""
        from bayespoint._loops.billiard import BOUNCES, PASSES

        return int(self.cursor[:, [BOUNCES, PASSES]].sum())

    def _met(self, b: int, before: Array) -> float:
        """Walls that a ball has met since it had another cursor, in shares of `MOST_MET`."""
        from bayespoint._loops.billiard import BOUNCES, PASSES

        new = self.cursor[b] - before[b]
        return float(new[BOUNCES] + new[PASSES]) / (MOST_MET * self.P.shape[1])

    def counts(self) -> dict[str, Any]:
        """Return bounces and passes of each ball, drift, restarts, seconds of flight."""
        from bayespoint._loops.billiard import BOUNCES, PASSES

        return {
            "bounces": self.cursor[:, BOUNCES].copy(),
            "passes": self.cursor[:, PASSES].copy(),
            "drift": float(self.drift),
            "restarts": self.restarts,
            "flight_seconds": self.seconds,
        }

    def _fly(
        self, balls: Array, n_flights: int, thin: int, travel: float, budget: Budget,
        threads: Threads,
    ) -> _Flown:  # fmt: skip
        from bayespoint._loops.billiard import FLIGHT, IN_FLIGHT, WRONG_MINUS, WRONG_PLUS, Record

        travel = self.part * travel
        courses, before = self._courses(balls, n_flights, thin, travel), self.cursor.copy()
        shape = len(balls), n_flights // thin
        m, rank = self.P.shape[1], self.table.factor.rank
        flown = _Flown(
            np.empty((*shape, m)), np.empty((*shape, m)), np.empty((*shape, rank)),
            np.zeros(len(balls), dtype=np.int64),
        )  # fmt: skip
        self.cursor[balls, FLIGHT] = 0
        self.cursor[balls, IN_FLIGHT] = 0
        self.cursor[np.ix_(balls, np.array([WRONG_MINUS, WRONG_PLUS]))] = wrong_labels(
            self.table.label[balls], self.side[balls]
        )

        def one(k: int) -> None:
            b = balls[k]
            path = self.path[:0] if b else self.path
            record = Record(flown.outputs[k], flown.coef[k], flown.white[k], path)
            advance = self._mover(b, courses[k], record)
            while self.cursor[b, FLIGHT] < n_flights and not budget.spent():
                advance()
                met = self._met(b, before)
                if met > n_flights:
                    flights = self.cursor[b, FLIGHT] + self.angle[b, 0] / travel
                    raise _NarrowError(met / max(flights, LEAST_PART))
            flown.n_done[k] = self.cursor[b, FLIGHT]

        begun = time.perf_counter()
        threads.each(one, range(len(balls)))
        self.seconds += time.perf_counter() - begun
        return flown

    def _courses(self, balls: Array, n_flights: int, thin: int, travel: float) -> list["Course"]:
        """Draw directions, and lengths where they are random, for the flights of some balls."""
        from bayespoint._loops.billiard import Course

        rank = self.table.factor.rank
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
            directions = directions.reshape(len(balls), n_flights, self.P.shape[1])
        return [Course(*arrays, thin) for arrays in zip(travels, directions, white, strict=True)]

    def _mover(self, b: int, course: "Course", record: "Record") -> Callable[[], None]:
        """Return what flies ball ``b`` for some 30 ms when called."""
        from bayespoint._loops.billiard import fly

        walls, ball = self._walls(b), self._ball(b)
        max_events = max(1, int(EVENT_WORK / (self.P.shape[1] + EVENT_COST)))
        return lambda: fly(walls, ball, course, record, max_events)

    def _walls(self, b: int) -> "Walls":
        """Walls as ball ``b`` meets them."""
        from bayespoint._loops.billiard import Walls

        table, rows = self.table, self.table.rows
        return Walls(
            rows.store, rows.slot_of_row, self.squared_length, table.ridge, self.basis,
            table.label[b], table.pass_rate[b], self.change, table.log_weight, table.slope[0],
        )  # fmt: skip

    def _ball(self, b: int) -> "Ball":
        """Return the arrays of ball ``b``, which change as it flies."""
        from bayespoint._loops.billiard import Ball

        return Ball(
            self.side[b], self.P[b], self.Q[b], self.coef_p[b], self.coef_q[b], self.white_p[b],
            self.white_q[b], self.kicks[b], self.ends_coef[b], self.ends_white[b], self.angle[b],
            self.cursor[b],
        )  # fmt: skip

    def _settle(
        self, flown: _Flown, before: dict[str, Array], n_flights: int, thin: int, travel: float,
        budget: Budget, threads: Threads,
    ) -> Array | None:  # fmt: skip
        """Recompute positions from coefficients; fly balls again that rounding led astray.

        Returns the coefficients of the last draws, or None if time was up before a draw.
        """
        from bayespoint._loops.billiard import n_outside

        for _ in range(MAX_RESTARTS):
            n_draws = int(flown.n_done.min()) // thin
            if not n_draws:
                return None
            last = flown.coef[:, n_draws - 1] + self._coefficients(flown.white[:, n_draws - 1])
            exact = self.table.rows.outputs(self.table.ridge, last)
            norm = np.sqrt(np.sum(last * exact, axis=1))[:, None]
            last, exact = last / norm, exact / norm
            drift = np.abs(exact - flown.outputs[:, n_draws - 1]) / np.sqrt(self.squared_length)
            self.drift = max(self.drift, float(drift.max()))
            whole = flown.n_done.min() == n_flights
            if not whole:
                self.side = self._sides(exact)
            heights = np.min(self.side * exact, axis=1)
            hard = np.where(self.table.pass_rate == 0, np.abs(self.side) * self.table.label, 0.0)
            outside = [
                n_outside(one, outputs[:n_draws], -LOST)
                for one, outputs in zip(hard, flown.outputs, strict=True)
            ]
            lost = np.flatnonzero(~(heights > -LOST) | (np.array(outside) > 0))
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

    def _sides(self, outputs: Array) -> Array:
        """Side of each wall, as 1 / sqrt(k(x, x)) with its sign; hard walls have only one."""
        sign = np.where(outputs == 0, self.table.label, np.sign(outputs))
        sign = np.where(self.table.pass_rate == 0, self.table.label, sign)
        return sign / np.sqrt(self.squared_length)

    def _place(self, coef: Array, outputs: Array) -> None:
        """Put the balls at positions given by coefficients and their outputs."""
        if self.basis.size:
            self.white_p = self.table.factor.white(outputs)
            self.coef_p[:] = 0
        else:
            self.coef_p, self.white_p = coef.copy(), np.zeros_like(self.white_p)

    def positions(self) -> Array:
        """Coefficients of the positions between flights."""
        return self.coef_p + self._coefficients(self.white_p)

    def _coefficients(self, white: Array) -> Array:
        flat = self.table.factor.coefficients(white.reshape(-1, white.shape[-1]))
        return flat.reshape(*white.shape[:-1], -1)

    def _state(self) -> dict[str, Array]:
        return {name: getattr(self, name).copy() for name in ("P", "coef_p", "white_p", "side")}

    def _restore(self, state: dict[str, Array], balls: Array | slice) -> None:
        for name, values in state.items():
            getattr(self, name)[balls] = values[balls]
        self._clear(balls)

    def _clear(self, balls: Array | slice) -> None:
        for sums in (self.kicks, self.ends_coef, self.ends_white):
            sums[balls] = 0


def coinciding_walls(space: VersionSpace) -> Iterator[tuple[int, Array, Array]]:
    """Yield a wall, the later ones that coincide with it, and their signs: -1 if they face it."""
    if space.softness > 0:  # softened points are never parallel
        return
    yield from space.rows.coinciding(PARALLEL)


def wrong_labels(label: Array, outputs: Array) -> Array:
    """Numbers of labels -1 and +1 (last axis) on the wrong side, by outputs (..., m)."""
    minus = np.count_nonzero((label < 0) & (outputs > 0), axis=-1)
    plus = np.count_nonzero((label > 0) & (outputs < 0), axis=-1)
    return np.stack([minus, plus], axis=-1)
