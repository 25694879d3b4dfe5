"""The evidence of noisy labels, by bridges from labels that say nothing.

Z(t) = E[exp(-sum_i t_i e_i)] over the prior, e_i = 1 for an error at point i and t_i its log-odds,
is 1 at t = 0. A ladder of levels leads from there to the log-odds wanted. On each a ball of the
noisy billiard draws; neighbours change places at times, as their densities allow, so that balls
come back to level 0, where they forget where they were. All draws together give Z at all levels
(the multistate Bennett acceptance ratio of Shirts & Chodera 2008). Several ladders are independent;
leaving out one of them at a time (the jackknife) tells the error.
"""

from contextlib import nullcontext
from typing import NamedTuple, Self

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.inference.billiard.balls import TRAVEL, Balls, Table
from bayespoint.inference.billiard.chains import pass_rates
from bayespoint.inference.billiard.starts import random_start, start_rng
from bayespoint.space.factor import Factor
from bayespoint.space.version_space import VersionSpace

# Levels are so many standard deviations of the number of errors apart, in units of log-odds: about
# half of all changes of places are then accepted.
SPACING = 1.0
LARGEST_STEP = 2.0

# Changes of places before the next level is chosen; the later half of them tells where.
GROWTH_STEPS = 10

# Where labels are sure, levels end once so many draws have none of them wrong...
SURE_SHARE = 0.5
# ... or at this log-odds, where there is no such classifier within reach.
LARGEST_ODDS = 60.0

# Flights between two changes of places, and before the first that counts.
EXCHANGE = 4
BURN_IN = 100

# Newton steps for the levels' log Z, and when they end.
NEWTON_STEPS = 100
NEWTON_TOLERANCE = 1e-10


class ErrorCounts(NamedTuple):
    """Numbers of errors seen on ladders, and how often."""

    group_odds: Array  # (groups,), log-odds wanted of the points of each group
    levels: Array  # (levels,), largest log-odds of a point
    errors: Array  # (kinds, groups), distinct numbers of errors by group
    counts: Array  # (2, ladders, kinds), draws of each kind, in the halves of the run

    def half(self, which: int) -> Self:
        """Return the draws of the first (0) or of the second half (1)."""
        return self._replace(counts=self.counts[which : which + 1])


class Estimate(NamedTuple):
    """What draws tell of the log-odds t wanted."""

    log_z: float
    mean_cost: float  # of sum_i t_i e_i
    mean_errors: float  # of sum_i e_i
    level_log_z: Array  # of each level


class Ladders:
    """Balls on all levels of several ladders; neighbours of a ladder change places."""

    def __init__(
        self, space: VersionSpace, odds: Array, factor: Factor, levels: list[float], start: Array,
        entropy: int, number: int,
    ) -> None:  # fmt: skip
        self.space, self.levels = space, np.asarray(levels)
        self.group_odds, group = np.unique(odds, return_inverse=True)
        self.member = np.eye(len(self.group_odds), dtype=np.int64)[group]
        n_ladders = len(start)
        label, _ = pass_rates(space, np.where(np.isinf(odds), 1.0, odds))
        self._rates = np.array([pass_rates(space, np.minimum(t, odds))[1] for t in levels])
        self.level = np.tile(np.arange(len(levels)), (n_ladders, 1))  # of each ball
        table = Table(
            space.rows, space.ridge, factor, np.tile(label, (self.level.size, 1)),
            self._rates[self.level.ravel()],
        )  # fmt: skip
        seeds = np.random.SeedSequence(entropy, spawn_key=(6, number)).spawn(2)
        self.balls = Balls(table, start.reshape(self.level.size, -1), seeds[0])
        self._rng = np.random.default_rng(seeds[1])
        self._log_rates = -np.minimum(self.levels[:, None], self.group_odds)
        self._first = 0

    def step(self, budget: Budget, threads: Threads) -> tuple[Array, Array] | None:
        """Errors of each group, (ladders, balls, `EXCHANGE`, groups), or None if time is up.

        Balls change places afterwards; ``level`` of these draws is returned beside them.
        """
        drawn = self.balls.step(EXCHANGE, 1, TRAVEL, budget, threads)
        if drawn is None or drawn[1].shape[1] < EXCHANGE:
            return None
        wrong = drawn[1] * self.space.y < 0
        errors = (wrong @ self.member).reshape(*self.level.shape, EXCHANGE, -1)
        level = self.level.copy()
        self.exchange(errors[:, :, -1])
        self.balls.table.pass_rate[:] = self._rates[self.level.ravel()]
        return errors, level

    def exchange(self, errors: Array) -> None:
        """Let neighbouring levels change their balls, as their densities allow."""
        ladders = np.arange(len(self.level))
        ball = np.argsort(self.level, axis=1)  # on each level
        self._first = 1 - self._first
        for low in range(self._first, self.level.shape[1] - 1, 2):
            a, b = ball[:, low], ball[:, low + 1]
            difference = errors[ladders, a] - errors[ladders, b]
            log_ratio = difference @ (self._log_rates[low + 1] - self._log_rates[low])
            swap = np.log(self._rng.random(len(self.level))) < log_ratio
            self.level[ladders[swap], a[swap]] = low + 1
            self.level[ladders[swap], b[swap]] = low

    def positions(self) -> Array:
        """Coefficients by ladder and level, (ladders, levels, m)."""
        ladders = np.arange(len(self.level))[:, None]
        held = self.balls.positions().reshape(*self.level.shape, -1)
        return held[ladders, np.argsort(self.level, axis=1)]


def draw_ladders(
    space: VersionSpace, odds: Array, factor: Factor, n_ladders: int, n_draws: int, entropy: int,
    budget: Budget, threads: Threads,
) -> ErrorCounts:  # fmt: skip
    """Draw ``n_draws`` times on each level of each ladder; return `ErrorCounts`."""
    with budget.unlimited():
        levels, start = _grown(space, odds, factor, n_ladders, entropy, budget, threads)
    ladders = Ladders(space, odds, factor, levels, start, entropy, 0)
    seen: list[Array] = []
    n_steps, burn_in = max(2, -(-n_draws // EXCHANGE)), BURN_IN // EXCHANGE
    for step in range(burn_in + n_steps):
        # Two steps that count are made whatever the time.
        with budget.unlimited() if len(seen) < 2 else nullcontext():
            drawn = ladders.step(budget, threads)
        if drawn is None:
            break
        if step >= burn_in:
            errors = drawn[0]
            seen.append(errors.reshape(n_ladders, -1, errors.shape[-1]).astype(np.int32))
        detail = f"steps of {ladders.level.size} balls,"
        budget.show(step + 1, burn_in + n_steps, detail)
    budget.close()
    budget.raise_if_interrupted()
    return _counted(ladders.group_odds, ladders.levels, seen)


def estimate(draws: ErrorCounts, ladders: list[int]) -> Estimate:
    """Estimate log Z and means from some of the ladders."""
    counts = draws.counts[:, ladders].sum(axis=(0, 1))
    sizes = np.full(len(draws.levels), counts.sum() / len(draws.levels))
    seen = counts > 0
    errors, log_counts = draws.errors[seen], np.log(counts[seen])
    odds = np.minimum(draws.levels[:, None], draws.group_odds)
    log_density = -(odds @ errors.T)  # (levels, kinds)
    level_log_z = _multistate(log_density, log_counts, np.log(sizes))
    terms = np.log(sizes)[:, None] + log_density - level_log_z[:, None]
    log_weight = log_counts - np.logaddexp.reduce(terms, axis=0)
    with np.errstate(invalid="ignore"):
        cost = np.where(errors > 0, errors * draws.group_odds, 0.0).sum(axis=1)
    wanted = log_weight - cost
    log_z = np.logaddexp.reduce(wanted)
    share = np.exp(wanted - log_z)
    possible = share > 0
    log_z -= np.logaddexp.reduce(log_weight + log_density[0])  # Z of level 0 is 1
    mean_cost = share[possible] @ cost[possible]
    mean_errors = share @ errors.sum(axis=1)
    return Estimate(log_z, mean_cost, mean_errors, level_log_z - level_log_z[0])


def _multistate(log_density: Array, log_counts: Array, log_sizes: Array) -> Array:
    """Log Z of levels: the minimum of a convex function, by Newton's method."""
    sizes, log_z = np.exp(log_sizes), np.zeros(len(log_sizes))
    for k in range(1, len(log_z)):  # a first guess, level by level
        mixture = np.logaddexp.reduce(
            log_sizes[:k, None] + log_density[:k] - log_z[:k, None], axis=0
        )
        log_z[k] = np.logaddexp.reduce(log_counts + log_density[k] - mixture)
        log_z[k] -= np.logaddexp.reduce(log_counts + log_density[k - 1] - mixture) - log_z[k - 1]
    for _ in range(NEWTON_STEPS):
        terms = log_sizes[:, None] + log_density - log_z[:, None]
        log_share = terms - np.logaddexp.reduce(terms, axis=0)
        share, counted = np.exp(log_share), np.exp(log_share + log_counts)
        gap = counted.sum(axis=1) - sizes  # zero where log Z is right
        if np.max(np.abs(gap) / sizes) < NEWTON_TOLERANCE:
            break
        hessian = np.diag(counted.sum(axis=1)) - counted @ share.T
        move = np.linalg.lstsq(hessian, gap, rcond=1e-12)[0]
        log_z += move / max(1.0, np.max(np.abs(move)))
    return log_z


def _grown(
    space: VersionSpace, odds: Array, factor: Factor, n_ladders: int, entropy: int, budget: Budget,
    threads: Threads,
) -> tuple[list[float], Array]:  # fmt: skip
    """Add level after level, with all lower ones at work, up to the log-odds wanted.

    Returns the levels, and the balls on them: (n_ladders, levels, m).
    """
    rngs = [start_rng(entropy, ladder) for ladder in range(n_ladders)]
    start = np.array([random_start(factor, rng) for rng in rngs])[:, None]
    sure = np.isinf(odds)
    largest, levels = np.max(odds[~sure], initial=0.0), [0.0]
    while True:
        ladders = Ladders(space, odds, factor, levels, start, entropy, len(levels))
        top: list[Array] = []
        for step in range(GROWTH_STEPS):
            drawn = ladders.step(budget, threads)
            if drawn is None:
                raise KeyboardInterrupt
            if 2 * step >= GROWTH_STEPS:
                errors, level = drawn
                top.append(errors[level == len(levels) - 1])
        budget.show(0, 1, f"choosing levels, {len(levels)},")
        start, reached = ladders.positions(), levels[-1]
        errors = np.concatenate(top).reshape(-1, len(ladders.group_odds))
        none_wrong = np.all(errors[:, np.isinf(ladders.group_odds)] == 0, axis=1)
        if reached >= largest and np.mean(none_wrong) >= SURE_SHARE:
            return levels, start
        if reached >= max(largest, LARGEST_ODDS):
            raise ValueError(
                "found no classifier that agrees with all labels without noise: their evidence "
                "is zero, or too small to be sampled this way. Try method='tilting', or set "
                "softness > 0 or label_noise > 0 for all points."
            )
        deviation = np.std(errors[:, ladders.group_odds > reached].sum(axis=1))
        reached += min(SPACING / max(deviation, 1e-3), LARGEST_STEP)
        levels.append(reached if np.any(sure) else min(reached, largest))
        start = np.concatenate([start, start[:, -1:]], axis=1)


def _counted(group_odds: Array, levels: Array, seen: list[Array]) -> ErrorCounts:
    """Return the counts of errors, (ladders, draws, groups) a step."""
    n_ladders, per_step, n_groups = seen[0].shape
    errors = np.stack(seen)
    kinds, kind = np.unique(errors.reshape(-1, n_groups), axis=0, return_inverse=True)
    kind = kind.reshape(len(seen), n_ladders, per_step)
    middle = len(seen) // 2
    counts = [
        [np.bincount(half[:, ladder].ravel(), minlength=len(kinds)) for ladder in range(n_ladders)]
        for half in (kind[:middle], kind[middle:])
    ]
    return ErrorCounts(group_odds, levels, kinds, np.array(counts, dtype=np.float64))
