"""The billiards as published, for comparison with the exact one of `sample_billiard`.

Both fly straight to the wall with the smallest positive flight time, -<w, phi> / <v, phi>, and are
reflected there. That is not what biases them: a straight line projects to the great circle, and
chord length times midpoint is the integral of w along it. What does: random directions whose
*coefficients* are isotropic, directions drawn anew only after an escape (on a wall in JMLR, at the
present centre of mass in R&M), the arc before an escape, which is lost, and sums of unit vectors on
the sphere in place of sums of vectors.
"""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_number,
    check_positive_integer,
    check_seed,
    check_time,
    check_verbose,
    entropy_of,
    warn,
)
from bayespoint.inference.billiard.starts import given_starts, perceptron_start
from bayespoint.papers.straight import ArcSum, ChordSum, Span, StraightBall, angle, chord
from bayespoint.space.posterior import Posterior, unit_centre
from bayespoint.space.version_space import check_space

# Random directions in a row that lead to no wall; where walls bound version space, one in a few
# does.
MAX_ESCAPES = 10_000

# Batches of the path whose scatter gives the error of its mean.
BATCHES = 16

DIRECTIONS = ("coefficients", "isotropic")


def sample_jmlr_billiard(
    space, n_draws=1000, *, tol=1e-3, tau_max=1e4, max_bounces=100_000,
    directions="coefficients", start=None, max_time=None, random_state=None, verbose=0,
):  # fmt: skip
    """Play billiards as in JMLR's algorithm 2: one ball, until its next chord would count little.

    For comparison; use `sample_billiard`. Not uniform: after 3,000 bounces the mean of 64 runs was
    0.3 to 6.7 degrees off the centre of mass on four problems without symmetry (5.0 on sonar, 124
    points), where the exact billiard was off by no more than chance. Mostly because of the
    directions: with isotropic ones 1.4 degrees at most (``benchmarks/published.py --part bias``).

    Parameters
    ----------
    space : VersionSpace
    n_draws : int, default=1000
        Midpoints of chords kept, at most; the longer the run, the wider they are apart.
    tol : float, default=1e-3
        The paper's TOL (there about 1e-4): stop when the weight of the next chord in the centre
        of mass, rho_2(p_min, Xi / (Xi + xi_max)), is not above this. It bounds one step of the
        running mean, not its error.
    tau_max : float, default=1e4
        Flight time from which on a ball has escaped (the paper gives no number): it then leaves
        the wall in a random inward direction.
    max_bounces : int, default=100_000
        Stop after so many, with a warning.
    directions : {"coefficients", "isotropic"}, default="coefficients"
        Whose distribution is isotropic when a direction is drawn: that of its coefficients, as
        published, or its own.
    start : array-like of shape (m,) or Start, optional
        Coefficients of a vector inside version space. Default: a kernel perceptron, as in the
        paper.
    max_time : float, optional
        Seconds after which the run stops, with a warning.
    random_state : int, RandomState or None
    verbose : int, default=0
        Show progress on standard error.

    Returns
    -------
    Posterior
        Draws are midpoints of chords, weighted by their length. ``bayes_point()``, source
        "published", is the paper's; source "path" is the vector mean over the same path, whose
        ``bayes_point_error`` knows of the scatter and not of the bias. ``info`` has ``bounces``,
        ``escapes``, ``tol_reached``, ``walls`` (met, in order) and ``trajectories`` (bounces
        from one random direction to the next escape).

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, 1, 1])
    >>> post = papers.sample_jmlr_billiard(space, tol=0.01, random_state=0)
    >>> bool(np.all(space.margins(post.bayes_point()) > 0))
    True
    """
    check_number("tol", tol, above=0)
    run = StraightRun(
        space, n_draws, max_bounces, tau_max, 0.0, directions, start, max_time, random_state,
        verbose, ("jmlr billiard", "max_bounces"),
    )  # fmt: skip
    published, last, reached = ChordSum(), None, False
    with run.budget.catching_interrupts():
        while not run.finished():
            wall, time = run.next_wall()
            if time >= tau_max:
                run.leave(inward=last)
                continue
            last = wall
            published.add(*run.bounce(wall, time, chord))
            reached = published.weight_of_next() <= tol
            if reached:
                break
    posterior = run.posterior(published.centre)
    posterior.info["tol_reached"] = bool(reached)
    if not reached:
        warn(
            f"the billiard stopped after {run.ball.bounces} bounces, before its rule with "
            f"tol={tol} did: raise max_bounces or max_time, or raise tol.",
            ConvergenceWarning,
        )
    return posterior


def sample_flipper(
    space, n_draws=1000, *, n_bounces=10_000, bias=0.0, tau_max=1e6, directions="coefficients",
    start=None, max_time=None, random_state=None, verbose=0,
):  # fmt: skip
    """Play R&M's flipper (algorithm 18.1): one ball that restarts at the centre after an escape.

    For comparison; use `sample_billiard`. Not uniform: after 3,000 bounces the mean of 64 runs was
    0.5 to 12.4 degrees off the centre of mass on four problems without symmetry (8.7 on sonar, 124
    points), with isotropic directions 0.3 to 5 degrees. Where version space is wide, single runs
    end anywhere, since each escape begins anew at their own centre: on a cone of 50 walls at equal
    angles 70 degrees off (``benchmarks/published.py --part bias``).

    Parameters
    ----------
    space : VersionSpace
    n_draws : int, default=1000
        Midpoints of arcs kept, at most; the longer the run, the wider they are apart.
    n_bounces : int, default=10_000
        Bounces, the paper's N_max.
    bias : float, default=0.0
        How much of each entry of K is due to a bias weight. Version spaces know no bias but that
        of their kernel, so for the paper's machine give ``VersionSpace(K + 1, y)`` and
        ``bias=1.0``: the ball then moves along the axis of the bias, too, as published.
    tau_max : float, default=1e6
        Flight time from which on a ball has escaped.
    directions, start, max_time, random_state, verbose
        As for `sample_jmlr_billiard`.

    Returns
    -------
    Posterior
        Draws are midpoints of arcs, weighted by their length. ``bayes_point()``, source
        "published", is their sum by the paper's rule (18.27); source "path" is the vector mean
        over the path.
        ``info`` as for `sample_jmlr_billiard`, without ``tol_reached``.

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, 1, 1])
    >>> post = papers.sample_flipper(space, n_bounces=200, random_state=0)
    >>> bool(np.all(space.margins(post.bayes_point()) > 0))
    True
    """
    run = StraightRun(
        space, n_draws, n_bounces, tau_max, bias, directions, start, max_time, random_state,
        verbose, ("flipper", "n_bounces"),
    )  # fmt: skip
    published = ArcSum()
    with run.budget.catching_interrupts():
        for wall, time in run.flips(published):
            published.add(*run.bounce(wall, time, angle))
    posterior = run.posterior(published.centre)
    run.warn_if_cut_short()
    return posterior


class StraightRun:
    """One ball, what it has met, and the midpoints of its flights."""

    def __init__(
        self, space, n_draws, max_bounces, tau_max, bias, directions, start, max_time,
        random_state, verbose, names,
    ):  # fmt: skip
        check_space(space)
        check_positive_integer("n_draws", n_draws)
        check_positive_integer(names[1], max_bounces)
        check_number("tau_max", tau_max, above=0)
        check_number("bias", bias, least=0)
        if not isinstance(directions, str) or directions not in DIRECTIONS:
            raise ValueError(f"directions must be one of {DIRECTIONS}; got {directions!r}.")
        check_time(max_time)
        check_seed(random_state)
        check_verbose(verbose)
        self.space, self.tau_max, self.max_bounces = space, tau_max, max_bounces
        self.budget = Budget(max_time, names[0] if verbose else None)
        entropy = entropy_of(random_state)
        self.rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(2, 0)))
        if start is None:
            start = perceptron_start(space, random_state=entropy).coef
        else:
            start = given_starts(space, start, 1)[0]
            if not np.all(space.margins(start) > 0):
                raise ValueError("start must lie inside version space, not on one of its walls.")
        self.span = Span(space, bias, directions == "isotropic")
        self.ball = StraightBall(self.span, self.span.vector(start), self.span.random(self.rng))
        self.walls: list = []
        self.trajectories: list = []
        self.escapes, self._since, self._in_a_row = 0, 0, 0
        self._draws, self._path = _Draws(n_draws), _Path()

    def finished(self):
        """Whether there are enough bounces, or time is up."""
        self.budget.show(self.ball.bounces, self.max_bounces)
        done = self.ball.bounces >= self.max_bounces
        # At least one bounce: without it there is no centre.
        return done or (self.budget.spent() and (self.ball.bounces or self.budget.stopped))

    def next_wall(self):
        """Wall ahead, and the flight time to it."""
        times = self.ball.crossings()
        wall = int(np.argmin(times))
        return wall, times[wall]

    def flips(self, published):
        """Walls to bounce off, with flight times; restarts at the centre after each escape."""
        while not self.finished():
            wall, time = self.next_wall()
            if time < self.tau_max:
                yield wall, time
            else:
                self.leave(centre=published.centre)

    def leave(self, inward=None, centre=None):
        """Take a random direction after an escape: inward at a wall, or from the centre."""
        self.escapes += 1
        self._in_a_row += 1
        if self._in_a_row > MAX_ESCAPES:
            raise ValueError(
                f"{MAX_ESCAPES} random directions lead to no wall within tau_max={self.tau_max}: "
                f"raise it, or version space is too wide for straight flights. Use "
                f"sample_billiard."
            )
        if self._since:
            self.trajectories.append(self._since)
            self._since = 0
        if centre is not None:
            self.ball.w = centre
        self.ball.v = self.span.random(self.rng)
        while inward is not None and self.ball.v.outputs[inward] * self.space.y[inward] <= 0:
            self.ball.v = self.span.random(self.rng)

    def bounce(self, wall, time, length_of):
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

    def finish(self):
        """Return what the ball has met; raise again what Ctrl-C raised."""
        self.budget.close()
        if self.budget.interrupted:
            raise KeyboardInterrupt
        if self._since:
            self.trajectories.append(self._since)
            self._since = 0
        return {
            "bounces": self.ball.bounces, "escapes": self.escapes,
            "walls": np.array(self.walls), "trajectories": np.array(self.trajectories),
        }  # fmt: skip

    def warn_if_cut_short(self):
        """Warn when time was up before all bounces were made."""
        if self.ball.bounces < self.max_bounces:
            warn(
                f"the time was up after {self.ball.bounces} of {self.max_bounces} bounces: raise "
                f"max_time.",
                ConvergenceWarning,
            )

    def posterior(self, centre):
        """Return the `Posterior` of the run, with the centre as published."""
        info = self.finish()
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

    def __init__(self, n_draws):
        self._most, self._every, self._added = n_draws, 1, 0
        self._kept: list = []

    def add(self, coef, weight):
        if self._added % self._every == 0:
            if len(self._kept) == self._most:
                self._kept = self._kept[::2]
                self._every *= 2
            if self._added % self._every == 0:
                self._kept.append((coef, weight))
        self._added += 1

    def rows(self):
        return np.array([coef for coef, _ in self._kept]), np.array([w for _, w in self._kept])


class _Path:
    """Integral of the position, in batches of equally many flights."""

    def __init__(self):
        self._every, self._added = 1, 0
        self._batches: list = []

    def add(self, integral, length):
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

    def centre(self, span):
        """Unit mean over the path, and its standard error as an angle."""
        batches = [batch for batch in self._batches if batch[1] > 0]
        means = np.array([integral / length for integral, length in batches])
        means = span.inside(means)
        weights = np.array([length for _, length in batches])
        return unit_centre(means, span.space.outputs(means), weights)
