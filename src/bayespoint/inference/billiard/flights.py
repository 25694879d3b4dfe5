"""The outer loop of all balls: steps until the draws are made, and what is collected from them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array

# Numbers held for the directions and draws of one step of all balls together.
STEP_NUMBERS = 8_000_000

# Flights of a ball in one step: enough that the way back to Python costs nothing.
MAX_FLIGHTS = 1000

# Steps of a run, at least: their scatter gives the Monte Carlo error.
MIN_STEPS = 8

# Numbers that room is made for at once; for more draws it grows with them.
AT_ONCE = 50_000_000

# Draws of each ball before the first look at their error, which then comes at each doubling.
FIRST_DRAWS = 16

# With a time limit a step takes about this share of it.
STEP_SHARE = 0.05

# Batches of kicks held for each ball; twice as long ones take their place when there are more.
MAX_BATCHES = 16


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

    def __init__(self, balls: Any, n_draws: int) -> None:
        numbers = len(balls) * balls.P.shape[1]
        capacity = max(1, min(n_draws, AT_ONCE // numbers))
        self._coef = np.empty((len(balls), capacity, balls.P.shape[1]))
        self._outputs = np.empty_like(self._coef)
        self._start = balls.positions(), balls.P.copy()
        self.n_draws = 0
        self.kicks: list[Array] = []
        self.path: list[Array] = []
        self.radians: list[float] = []

    def add(self, coef: Array, outputs: Array) -> None:
        """Add draws of all balls."""
        new = slice(self.n_draws, self.n_draws + coef.shape[1])
        if new.stop > self._coef.shape[1]:
            self._grow(max(new.stop, 2 * self._coef.shape[1]))
        self._coef[:, new], self._outputs[:, new] = coef, outputs
        self.n_draws = new.stop

    def _grow(self, capacity: int) -> None:
        for name in ("_coef", "_outputs"):
            held = getattr(self, name)
            grown = np.empty((held.shape[0], capacity, held.shape[2]))
            grown[:, : self.n_draws] = held[:, : self.n_draws]
            setattr(self, name, grown)

    def add_batch(self, kicks: Array, path: Array, radians: float) -> None:
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
    def coef(self) -> Array:
        """Draws so far; the starts where there was no time for one flight."""
        return self._coef[:, : self.n_draws] if self.n_draws else self._start[0][:, None]

    @property
    def outputs(self) -> Array:
        """Outputs of the draws so far."""
        return self._outputs[:, : self.n_draws] if self.n_draws else self._start[1][:, None]

    def batches(self, source: str, balls: Any) -> tuple[Array, Array]:
        """Mean position of some balls by "kicks" or "path", a row per ball and batch; weights."""
        pairs = zip(getattr(self, source), self.radians, strict=True)
        means = [integral[balls] / radians for integral, radians in pairs]
        return np.concatenate(means), np.repeat(self.radians, len(means[0]))


def run(
    balls: Any, n_draws: int, *, travel: float, thin: int, burn_in: int, budget: Budget,
    threads: Threads, enough: Callable[[Flights], bool] | None = None,
) -> Flights:  # fmt: skip
    """Fly all balls until each has made ``n_draws`` draws, time is up or ``enough(flights)``.

    The first ``burn_in`` flights are not kept. ``balls`` are `Balls`, or those of a GPU.
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
        flown = step[0].shape[1] * thin
        whole, flight = flown == n_flights, balls.part * travel
        if whole and balls.has_path:
            kicks = balls.kicks.copy()
            flights.add_batch(kicks, kicks + balls.ends(), flown * flight)
        elif not flights.path or not balls.has_path:  # what the draws tell
            path = step[0].sum(axis=1) * thin * flight
            flights.add_batch(0.0 * balls.kicks, path, flown * flight)
        pace.add(n_flights, total)
        if enough is not None and enough(flights):
            break
    budget.close()
    return flights


class _Pace:
    """How many flights to make before the next look at the clock."""

    def __init__(self, balls: Any, budget: Budget) -> None:
        numbers = len(balls) * 2 * (balls.P.shape[1] + balls.table.factor.rank)
        self._most = max(1, min(STEP_NUMBERS // numbers, MAX_FLIGHTS))
        self._budget = budget
        self._begun = budget.elapsed()
        self.flown = 0

    def next(self, left: int) -> int:
        """Return the number of flights of the next step, of those that are left."""
        most = self._most
        if self._budget.max_time is not None:
            seconds = max(self._budget.elapsed() - self._begun, 1e-9)
            share = STEP_SHARE * self._budget.max_time * (self.flown / seconds)
            most = int(min(most, share))  # which may be infinite
        return max(1, min(left, most))

    def add(self, n_flights: int, total: int) -> None:
        """Count flights and show progress."""
        self.flown += n_flights
        self._budget.show(min(self.flown, total), total, "flights of each ball,")
