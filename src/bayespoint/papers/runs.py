"""One ball on straight lines from start to posterior: what the published samplers share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_choice,
    check_number,
    check_positive_integer,
    check_run,
    entropy_of,
    warn,
)
from bayespoint._support.types import Array, ArrayLike, Seed
from bayespoint.inference.billiard.starts import Start, given_starts, perceptron_start
from bayespoint.papers.straight import ArcSum, Span, StraightBall, Vector, angle, chord
from bayespoint.space.posterior import Posterior, unit_centre
from bayespoint.space.version_space import VersionSpace, check_space

# Random directions in a row that lead to no wall; where walls bound version space, one in a few
# does.
MAX_ESCAPES = 10_000

# Batches of the path whose scatter gives the error of its mean.
BATCHES = 16

DIRECTIONS = ("coefficients", "isotropic")


@dataclass(frozen=True)
class FlightSettings:
    """Arguments that all published samplers take, as `sample_flipper` explains them.

    Those that are no such thing are refused.
    """

    tau_max: float
    directions: str
    start: ArrayLike | Start | None
    max_time: float | None
    random_state: Seed
    verbose: int
    bias: float = 0.0

    def __post_init__(self) -> None:
        check_number("tau_max", self.tau_max, above=0)
        check_number("bias", self.bias, least=0)
        check_choice("directions", self.directions, DIRECTIONS)
        check_run(max_time=self.max_time, random_state=self.random_state, verbose=self.verbose)

    def start_in(self, space: VersionSpace, entropy: int) -> Array:
        """Coefficients of the start: those given, or what a perceptron finds."""
        if self.start is None:
            return perceptron_start(space, random_state=entropy).coef
        start = given_starts(space, self.start, 1)[0]
        if not np.all(space.margins(start) > 0):
            raise ValueError("start must lie inside version space, not on one of its walls.")
        return start


class StraightRun:
    """One ball, what it has met, and the midpoints of its flights.

    Parameters
    ----------
    name : str
        Of the sampler, in its progress line.
    space : VersionSpace
    n_draws : int
        Midpoints kept, at most.
    settings : FlightSettings
    most : tuple of (str, int)
        Bounces to make, at most, and what the caller names them.
    """

    def __init__(
        self, name: str, space: VersionSpace, n_draws: int, settings: FlightSettings,
        most: tuple[str, int],
    ) -> None:  # fmt: skip
        check_space(space)
        check_positive_integer("n_draws", n_draws)
        check_positive_integer(*most)
        self.space, self.tau_max, self.max_bounces = space, settings.tau_max, most[1]
        self.budget = Budget(settings.max_time, name if settings.verbose else None)
        entropy = entropy_of(settings.random_state)
        self.rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(2, 0)))
        start = settings.start_in(space, entropy)
        self.span = Span(space, settings.bias, settings.directions == "isotropic")
        self.ball = StraightBall(self.span, self.span.vector(start), self.span.random(self.rng))
        self.walls: list[int] = []
        self.trajectories: list[int] = []
        self.escapes, self._since, self._in_a_row = 0, 0, 0
        self._draws, self._path = _Draws(n_draws), _Path()

    def finished(self) -> bool:
        """Whether there are enough bounces, or time is up."""
        self.budget.show(self.ball.bounces, self.max_bounces)
        done = self.ball.bounces >= self.max_bounces
        # At least one bounce: without it there is no centre.
        return done or (self.budget.spent() and (self.ball.bounces > 0 or self.budget.stopped))

    def next_wall(self) -> tuple[int, float]:
        """Wall ahead, and the flight time to it."""
        times = self.ball.crossings()
        wall = int(np.argmin(times))
        return wall, times[wall]

    def flips(self, published: ArcSum) -> Iterator[tuple[int, float]]:
        """Walls to bounce off, with flight times; restarts at the centre after each escape."""
        while not self.finished():
            wall, time = self.next_wall()
            if time < self.tau_max:
                yield wall, time
            else:
                self.leave(centre=published.centre)

    def leave(self, inward: int | None = None, centre: Vector | None = None) -> None:
        """Take a random direction after an escape: inward at a wall, or from the centre."""
        self.escapes += 1
        self._in_a_row += 1
        if self._in_a_row > MAX_ESCAPES:
            raise ValueError(
                f"{MAX_ESCAPES} random directions lead to no wall within tau_max={self.tau_max}: "
                f"raise it, or version space is too wide for straight flights. Use "
                f"sample_billiard."
            )
        self._end_trajectory()
        if centre is not None:
            self.ball.w = centre
        self.ball.v = self.span.random(self.rng)
        while inward is not None and self.ball.v.outputs[inward] * self.space.y[inward] <= 0:
            self.ball.v = self.span.random(self.rng)

    def _end_trajectory(self) -> None:
        if self._since:
            self.trajectories.append(self._since)
            self._since = 0

    def bounce(
        self, wall: int, time: float, length_of: Callable[[Vector, Vector], float]
    ) -> tuple[Vector, float]:
        """Bounce; return the midpoint of the flight and its length."""
        before = self.ball.w
        self.ball.bounce(wall, time)
        length = length_of(before, self.ball.w)
        midpoint = before.plus(1.0, self.ball.w).unit()
        self.walls.append(wall)
        self._since += 1
        self._in_a_row = 0
        self._draws.add(midpoint.coordinates, length)
        # Chord length times midpoint is the integral of w over the arc.
        self._path.add(
            chord(before, self.ball.w) * midpoint.coordinates, angle(before, self.ball.w)
        )
        return midpoint, length

    def finish(self) -> dict[str, Any]:
        """Return what the ball has met; raise again what Ctrl-C raised."""
        self.budget.close()
        self.budget.raise_if_interrupted()
        self._end_trajectory()
        return {
            "bounces": self.ball.bounces, "escapes": self.escapes,
            "walls": np.array(self.walls), "trajectories": np.array(self.trajectories),
        }  # fmt: skip

    def warn_if_cut_short(self) -> None:
        """Warn when time was up before all bounces were made."""
        if self.ball.bounces < self.max_bounces:
            warn(
                f"the time was up after {self.ball.bounces} of {self.max_bounces} bounces: raise "
                f"max_time.",
                ConvergenceWarning,
            )

    def posterior(self, centre: Vector | None) -> Posterior:
        """Return the `Posterior` of the run, with the centre as published."""
        info = self.finish()
        assert centre is not None  # of one bounce at least
        coef, weights = self._draws.rows()
        coef = self.span.projected(coef)
        centres = {
            "published": (self.span.projected(centre.coordinates)[0], np.nan),
            "path": self._path.centre(self.span),
        }
        return Posterior(
            coef, weights=weights, outputs=self.space.outputs(coef), centres=centres,
            source="published", space=self.space, info=info,
        )  # fmt: skip


class _Draws:
    """At most so many of the vectors added, evenly spaced, with their weights."""

    def __init__(self, n_draws: int) -> None:
        self._most, self._every, self._added = n_draws, 1, 0
        self._kept: list[tuple[Array, float]] = []

    def add(self, coef: Array, weight: float) -> None:
        if self._added % self._every == 0:
            if len(self._kept) == self._most:
                self._kept = self._kept[::2]
                self._every *= 2
            if self._added % self._every == 0:
                self._kept.append((coef, weight))
        self._added += 1

    def rows(self) -> tuple[Array, Array]:
        return np.array([coef for coef, _ in self._kept]), np.array([w for _, w in self._kept])


class _Path:
    """Integral of the position, in batches of equally many flights."""

    def __init__(self) -> None:
        self._every, self._added = 1, 0
        self._batches: list[list[Any]] = []  # integral and length of each

    def add(self, integral: Array, length: float) -> None:
        if self._added % self._every == 0:
            if len(self._batches) == 2 * BATCHES:
                pairs = zip(self._batches[::2], self._batches[1::2], strict=True)
                self._batches = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
                self._every *= 2
            self._batches.append([np.zeros_like(integral), 0.0])
        last = self._batches[-1]
        last[0] += integral
        last[1] += length
        self._added += 1

    def centre(self, span: Span) -> tuple[Array, float]:
        """Unit mean over the path, and its standard error as an angle."""
        batches = [batch for batch in self._batches if batch[1] > 0]
        means = np.array([integral / length for integral, length in batches])
        means = span.inside(means)
        weights = np.array([length for _, length in batches])
        return unit_centre(means, span.space.outputs(means), weights)
