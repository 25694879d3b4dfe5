"""The unbiased onion: draws uniform within each shell."""

from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.checks import check_positive_integer
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Seed
from bayespoint.inference.billiard.balls import (
    TRAVEL,
    Balls,
    Table,
    coinciding_walls,
    wrong_labels,
)
from bayespoint.inference.billiard.chains import BURN_IN_NOISY, mixing, warn_if_unmixed
from bayespoint.inference.billiard.flights import Flights, run
from bayespoint.inference.billiard.starts import direct_starts, random_start, start_rng
from bayespoint.inference.onion.leave_one_out import ShellDraws, classes
from bayespoint.inference.onion.table import Cell, Depth, Onion, check_depth, clipped
from bayespoint.inference.sampling import sampling
from bayespoint.space import diagnostics
from bayespoint.space.factor import Factor
from bayespoint.space.posterior import Posterior, angle_error
from bayespoint.space.version_space import VersionSpace

# Learning the weights: flights of each ball between two changes; the first change of a log-weight
# by a visit, and the last; visits of a round that count in full; how many visits of each shell, and
# how even, before changes are halved.
LEARN_FLIGHTS = 4
FULL_VISITS = 32
FIRST_GAIN, LAST_GAIN = 0.5, 0.03
LEAST_VISITS, EVEN = 5, 0.3
MAX_ROUNDS = 4000
# Walls that balls meet in a flight, for each there is: in narrow shells thousands, and learning
# ends when they have met so many in each flight of all its rounds.
MET_WALLS = 4

# Draws of a chain, which walks from shell to shell, before R-hat tells something.
ENOUGH_DRAWS = 250

# Training points whose outputs are asked whether chains agree.
RHAT_POINTS = 16

# Beyond the table the log-weight falls with each error by a slope, learnt such that balls are there
# for this share of the time: excursions connect shells that would be apart within the table.
OUTSIDE = 0.25
FIRST_SLOPE = 3.0
SLOPES = (0.05, 50.0)


def sample_onion(
    space: VersionSpace, depth: Depth = 5, n_draws: int = 10_000, *, n_chains: int = 8,
    thin: int = 1, max_time: float | None = None, n_jobs: int | None = None,
    random_state: Seed = None, verbose: int = 0,
) -> Onion:  # fmt: skip
    """Draw classifiers uniformly from each shell of few training errors, in one run.

    Version space itself may be empty. After the burn-in, draws within a shell are uniform,
    whichever weights were learnt. Balls may leave the table for a while, so that all parts of a
    shell are visited; there is a warning if chains do not agree.

    Parameters
    ----------
    space : VersionSpace
    depth : int or pair of int, default=5
        Largest number of training errors in the table, for each class (-1 and +1), at most the
        number of its points. Shells with one more error are sampled as well, for the leave-one-out
        errors.
    n_draws : int, default=10_000
        Number of draws of all chains and shells together. About a quarter of them lie beyond the
        table and are not used. All are held in memory, with 32 bytes per draw and training point.
    n_chains : int, default=8
        Number of chains; each is one ball.
    thin : int, default=1
        Number of flights per draw.
    max_time : float, optional
        Seconds after which the draws made so far are used. At most half of the time is spent on
        learning weights; the Gram matrix is factorised first, whatever the limit.
    n_jobs : int, optional
        Number of threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
    verbose : int, default=0
        Whether to show progress on standard error.

    Returns
    -------
    Onion
        Its ``info`` has ``bounces`` and ``passes`` (one number per chain), ``drift``, ``rounds``
        (of learning weights), ``rhat`` (the largest of those of the number of errors, the mean
        margin and the outputs at some of the points) and ``n_draws`` (of each chain; 0 if there was
        no time for any, and the starts are used instead).

    Raises
    ------
    ValueError
        If no classifier with so few errors was found.

    Warns
    -----
    ConvergenceWarning
        If the chains do not agree, or time was up before the first draw.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, onion
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> space = VersionSpace(X @ X.T + 1, np.sign(X[:, 0]))
    >>> table = onion.sample_onion(space, depth=1, n_draws=2000, random_state=0)
    >>> table.centres.shape
    (2, 2, 20)
    """
    check_positive_integer("n_chains", n_chains)
    check_positive_integer("thin", thin)
    with sampling(
        space, "onion", n_draws, max_time=max_time, n_jobs=n_jobs, random_state=random_state,
        verbose=verbose,
    ) as (_, plan):  # fmt: skip
        onion = draw_onion(
            space, clipped(check_depth(depth), space.y), -(-n_draws // n_chains), n_chains, thin,
            plan.entropy, plan.budget, plan.threads,
        )  # fmt: skip
    plan.budget.raise_if_interrupted()
    warn_if_apart(onion)
    return onion


def warn_if_apart(onion: Onion) -> None:
    """Warn when there was no time for a draw, or when chains of enough draws do not agree."""
    n_draws = onion.info["n_draws"]
    if not n_draws or n_draws >= ENOUGH_DRAWS:
        warn_if_unmixed("onion", n_draws, onion.info["rhat"])


def draw_onion(
    space: VersionSpace, depth: Cell, per_chain: int, n_chains: int, thin: int, entropy: int,
    budget: Budget, threads: Threads,
) -> Onion:  # fmt: skip
    """Do as `sample_onion`, with ``per_chain`` draws of each ball, within a budget and threads."""
    factor = space.rows.factorise(space.softness, threads, lambda: budget.interrupted)
    label = np.tile(space.y, (n_chains, 1))
    table = Table(
        space.rows, space.ridge, factor, label, np.ones_like(label), _changes(space),
        np.zeros(np.add(depth, 2)), np.array([FIRST_SLOPE]),
    )  # fmt: skip
    starts = _starts(space, factor, n_chains, entropy)
    balls = Balls(table, starts, np.random.SeedSequence(entropy, spawn_key=(5, 0)))
    rounds = _learn_weights(balls, budget, threads)
    flights = run(
        balls, per_chain, travel=TRAVEL, thin=thin, burn_in=BURN_IN_NOISY, budget=budget,
        threads=threads,
    )  # fmt: skip
    factor.release()
    errors = wrong_labels(space.y, flights.outputs).sum(axis=-1)
    rhat, _ = mixing(space.y, flights.outputs, errors, balls.squared_length)
    # Parts of a shell may be alike in these two, but not in the outputs at all points.
    looked_at = np.linspace(0, len(space) - 1, min(len(space), RHAT_POINTS)).astype(int)
    rhat = np.fmax.reduce([rhat, *diagnostics.rhat(flights.outputs[..., looked_at])])
    info = balls.counts() | {"rounds": rounds, "rhat": float(rhat), "n_draws": flights.n_draws}
    onion = _from_draws(space, depth, flights, table.log_weight, factor, info)
    if not np.any(onion.counts) and not budget.interrupted:
        raise ValueError(
            f"found no classifier that makes at most {depth} errors on labels -1 and +1 (the "
            f"fewest in all were {errors.min()}). Raise depth, n_draws or max_time, set softness "
            f"> 0, or use a richer kernel."
        )
    return onion


def stratify(posterior: Posterior, depth: Depth = 5) -> Onion:
    """Table of shells from draws of the posterior of noisy labels.

    Parameters
    ----------
    posterior : Posterior
        From `sample_billiard` with one rate ``label_noise`` > 0 for all points.
    depth : int or pair of int, default=5
        Largest number of training errors of each class.

    Returns
    -------
    Onion

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference, onion
    >>> space = VersionSpace(np.eye(3), [1, 1, -1])
    >>> post = inference.sample_billiard(space, 4000, label_noise=0.3, random_state=0)
    >>> (6 * np.exp(onion.stratify(post, depth=1).log_volume)).round()
    array([[1., 2.],
           [1., 2.]])
    """
    deepest = check_depth(depth)
    if not isinstance(posterior, Posterior) or posterior.space is None:
        raise ValueError("posterior must be a Posterior with a version space, as from "
                         "inference.sample_billiard.")  # fmt: skip
    noise = np.unique(posterior.label_noise)
    if len(noise) != 1 or noise[0] == 0:
        raise ValueError(
            f"stratify needs draws with one rate label_noise > 0 for all points; got "
            f"{noise[:5].tolist()}."
        )
    log_odds = np.log(noise[0] / (1 - noise[0]))
    shape = np.add(deepest, 2)
    log_weight = log_odds * np.add.outer(np.arange(shape[0]), np.arange(shape[1]))
    n_chains, m = posterior.n_chains, posterior.coef.shape[1]
    drawn = _Drawn(
        posterior.coef.reshape(n_chains, -1, m), posterior.outputs.reshape(n_chains, -1, m)
    )
    return _from_draws(posterior.space, deepest, drawn, log_weight, posterior.needed_factor(), {})


class _Drawn(NamedTuple):
    """Draws of chains, (n_chains, n_draws, m)."""

    coef: Array
    outputs: Array


def _learn_weights(balls: Balls, budget: Budget, threads: Threads) -> int:
    """Change the weights of shells, visited ones down, until visits are even; return rounds."""
    log_weight, slope = balls.table.log_weight, balls.table.slope
    reached = np.zeros(log_weight.shape, dtype=bool)
    visits, gain, rounds = np.zeros(log_weight.shape), FIRST_GAIN, 0
    half = None if budget.max_time is None else budget.max_time / 2
    most_met = MAX_ROUNDS * LEARN_FLIGHTS * MET_WALLS * balls.P.size
    while gain > LAST_GAIN and rounds < MAX_ROUNDS and not budget.spent():
        if balls.n_met() > most_met or (half is not None and budget.elapsed() > half):
            break
        step = balls.step(LEARN_FLIGHTS, 1, TRAVEL, budget, threads)
        if step is None:
            break
        cells = wrong_labels(balls.table.label[0], step[1]).reshape(-1, 2)
        inside = np.all(cells < log_weight.shape, axis=1)
        new = np.zeros(log_weight.shape)
        np.add.at(new, tuple(cells[inside].T), 1)
        log_weight -= gain * new * min(1.0, FULL_VISITS / len(cells))
        slope[0] = np.clip(slope[0] + gain * (np.mean(~inside) - OUTSIDE), *SLOPES)
        visits += new
        rounds += 1
        budget.show(0, 1, f"learning weights, round {rounds},")
        if np.any(new[~reached]):  # a shell found late must not become a trap
            reached |= new > 0
            visits[:], gain = 0, FIRST_GAIN
        elif np.any(reached) and np.min(visits[reached]) >= max(
            LEAST_VISITS, EVEN * float(np.mean(visits[reached]))
        ):
            gain /= 2
            visits[:] = 0
    if np.any(reached):
        log_weight[~reached] = np.min(log_weight[reached])
    log_weight -= np.max(log_weight)
    return rounds


def _starts(space: VersionSpace, factor: Factor, n_chains: int, entropy: int) -> Array:
    """Unit vectors: every other one inside version space, if a direct solve finds it, or anywhere.

    The slope beyond the table pulls balls in.
    """
    rngs = [start_rng(entropy, ball) for ball in range(n_chains)]
    solved = direct_starts(space, factor, rngs[::2])
    starts = [random_start(factor, rng) for rng in rngs]
    for ball, start in zip(range(0, n_chains, 2), solved, strict=True):
        starts[ball] = starts[ball] if start is None else start
    return np.array(starts)


def _changes(space: VersionSpace) -> Array:
    """Change of (n_minus, n_plus) when a wall is passed from its positive side, (m, 2)."""
    change = (classes(space.y) * space.y[:, None]).astype(np.int64)
    for i, same, sign in coinciding_walls(space):  # they act as one; the others change nothing
        change[i] += (sign[:, None] * change[same]).sum(axis=0).astype(np.int64)
        change[same] = 0
    return change


def _from_draws(
    space: VersionSpace, depth: Cell, drawn: Flights | _Drawn, log_weight: Array, factor: Factor,
    info: dict[str, Any],
) -> Onion:  # fmt: skip
    """Return the `Onion` of draws (n_chains, n_draws, m) with density exp(log_weight)."""
    coef, outputs = drawn.coef, drawn.outputs
    cells = wrong_labels(space.y, outputs)
    inside = np.all(cells < log_weight.shape, axis=-1)
    shape = tuple(np.add(depth, 1))
    counts = np.zeros((len(coef), *shape), dtype=np.int64)
    means = np.full((*shape, len(space)), np.nan)
    errors = np.full(shape, np.nan)
    for cell in np.ndindex(shape):
        member = np.all(cells == cell, axis=-1)
        sizes = counts[:, *cell] = member.sum(axis=1)
        chains = np.flatnonzero(sizes)
        if len(chains):
            parts = np.array([coef[c][member[c]].mean(axis=0) for c in chains])
            values = np.array([outputs[c][member[c]].mean(axis=0) for c in chains])
            means[cell] = sizes[chains] @ parts / sizes.sum()
            errors[cell] = angle_error(parts, values, sizes[chains])
    log_volume, log_errors = _log_volumes(counts, log_weight[: shape[0], : shape[1]])
    chain = np.broadcast_to(np.arange(len(coef))[:, None], inside.shape)
    draws = ShellDraws(
        space.y, coef[inside], outputs[inside], cells[inside], chain[inside], log_weight, factor
    )
    return Onion(
        space, "exact", means, counts.sum(axis=0), log_volume, centre_errors=errors,
        log_volume_errors=log_errors, draws=draws, info=info,
    )  # fmt: skip


def _log_volumes(counts: Array, log_weight: Array) -> tuple[Array, Array]:
    """Log-shares of the volume of shells from visits (n_chains, ...), and standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.log(counts.sum(axis=0)) - log_weight
        log_volume = scaled - np.logaddexp.reduce(scaled.ravel())
        # A chain's deviation from the mean share, to first order.
        visits = counts / counts.sum(axis=0)
        share = np.exp(log_volume)
        deviation = visits - np.sum(share * visits, axis=(1, 2), keepdims=True, where=share > 0)
        n = len(counts)
        errors = (
            np.sqrt(n / (n - 1) * np.sum(deviation**2, axis=0)) if n > 1 else visits[0] * np.nan
        )
    return log_volume, errors
