"""Chains of moves on great circles, whatever the move: starts, walls, stops and diagnostics.

The billiard and the Gibbs sampler share all of this.
"""

from functools import partial

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support import diagnostics
from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_jobs,
    check_label_noise,
    check_natural_number,
    check_positive_integer,
    check_seed,
    check_time,
    check_verbose,
    entropy_of,
    warn,
)
from bayespoint._support.threads import open_threads
from bayespoint.inference.billiard.balls import Table, coinciding_walls, run
from bayespoint.inference.billiard.starts import (
    direct_starts,
    given_starts,
    light_traps,
    perceptron_vector,
    random_start,
    start_rng,
)
from bayespoint.inference.on_device import on_device
from bayespoint.space.decisions import label_odds
from bayespoint.space.factor import factorise
from bayespoint.space.posterior import Posterior, draws_error, training_errors, unit_centre
from bayespoint.space.rows import outputs_of
from bayespoint.space.version_space import check_space

# Where balls begin, by name.
STARTS = ("consistent", "random", "light_trap")

# Numbers that differ by less than this share are equal but for rounding.
CONSTANT = 1e-9

# An R-hat above this tells chains that do not agree, if they have at least so many draws:
# independent ones exceed it in none of 20,000 trials (tests/test_diagnostics.py).
UNMIXED = 1.2
UNMIXED_DRAWS = 25

# Flights before the first draw: many times what draws depend on each other for (effective draws in
# benchmarks/samplers.py, and of training errors in benchmarks/billiard.py).
BURN_IN = 20
BURN_IN_NOISY = 100


def sample_chains(
    space, kind, name, n_draws, *, label_noise, n_chains, travel, thin, burn_in, most_draws, tol,
    max_time, start, n_path, n_jobs, random_state, verbose, device="cpu",
):  # fmt: skip
    """Return the `Posterior` of chains that move as ``kind`` (`Balls` or a class derived from it).

    ``most_draws``: of each chain. Other arguments as for `bayespoint.inference.sample_billiard`.
    """
    check_space(space)
    for argument, value in (("n_draws", n_draws), ("n_chains", n_chains), ("thin", thin)):
        check_positive_integer(argument, value)
    check_time(max_time)
    check_natural_number("burn_in", 0 if burn_in is None else burn_in)
    check_verbose(verbose)
    check_jobs(n_jobs)
    check_seed(random_state)
    noise = check_label_noise(label_noise, len(space))
    per_chain = -(-n_draws // n_chains)
    if most_draws is not None:
        per_chain = max(1, min(per_chain, most_draws))
    if burn_in is None:
        burn_in = BURN_IN_NOISY if np.any(noise) else BURN_IN
    budget = Budget(max_time, name if verbose else None)
    entropy = entropy_of(random_state)
    threads_of = open_threads(effective_n_jobs(n_jobs))
    with on_device(space, device) as placed, budget.catching_interrupts(), threads_of as threads:
        if n_path and placed is not space:
            raise ValueError(
                f"n_path={n_path} records a path, which needs device='cpu'; got {device!r}."
            )
        factor = factorise(placed.rows, space.softness, threads, lambda: budget.interrupted)
        coef = _starts(placed, factor, noise, n_chains, start, entropy, budget, threads)
        walls = [np.tile(values, (n_chains, 1)) for values in pass_rates(placed, label_odds(noise))]
        table = Table(placed.rows, space.ridge, factor, *walls)
        seed = np.random.SeedSequence(entropy, spawn_key=(2, 0))
        make = getattr(placed.rows, "make_balls", partial(kind, n_path=n_path))
        balls = make(table, coef, seed)
        flights = run(
            balls, per_chain, travel=travel, thin=int(thin), burn_in=int(burn_in), budget=budget,
            threads=threads, enough=None if tol is None else _precise(placed, tol),
        )  # fmt: skip
        factor.release()
        if budget.interrupted:
            raise KeyboardInterrupt
        posterior = posterior_of(placed, factor, balls, flights, noise)
    posterior.space = space
    warn_if_unmixed(name, flights.n_draws, posterior.info["rhat"])
    return posterior


def pass_rates(space, odds):
    """Labels of the walls, and the probabilities to pass them from the side of the label.

    A wall whose label has log-odds t is passed with probability exp(-t). Walls that coincide
    (points in the same or in opposite directions) act as one, with the sum of their log-odds; the
    others of them let everything pass.
    """
    label, odds = space.y.copy(), space.y * odds
    if np.all(np.isinf(odds)):
        return label, np.zeros(len(odds))
    for i, same, sign in coinciding_walls(space):
        together = np.append(odds[i], sign * odds[same])
        sure = together[np.isinf(together)]  # what is sure outweighs all else
        odds[i] = sure[0] if len(sure) else together.sum()
        odds[same] = 0.0
    # A rate that rounds to zero would make the label sure, which starts may have wrong.
    rates = np.maximum(np.exp(-np.abs(odds)), np.finfo(float).tiny)
    return np.where(odds == 0, label, np.sign(odds)), np.where(np.isinf(odds), 0.0, rates)


def starts_of(space, factor, odds, rngs, budget, kind=None, check=None):
    """Coefficients of the unit vectors where the balls of a machine begin, one a generator.

    "consistent": with all labels right, if that can be; with noise, at least those that are sure.
    "random": anywhere. By default consistent, but every other ball anywhere if no label is sure.
    """
    sure = np.isinf(odds)
    starts: list = [None] * len(rngs)
    for ball, rng in enumerate(rngs):
        if kind == "random" or (kind is None and ball % 2 and not np.any(sure)):
            starts[ball] = random_start(factor, rng)
    inside = [ball for ball, start in enumerate(starts) if start is None]
    solved = direct_starts(space, factor, [rngs[ball] for ball in inside])
    for ball, start in zip(inside, solved, strict=True):
        starts[ball] = start
        if start is None:
            found = perceptron_vector(space, sure, rngs[ball], budget, check)
            # None if labels cancel each other and none of them is sure.
            starts[ball] = random_start(factor, rngs[ball]) if found is None else found.coef
    return np.array(starts)


def _starts(space, factor, noise, n_chains, start, entropy, budget, threads):
    if start is None or isinstance(start, str | bytes):
        if start not in (None, *STARTS):
            raise ValueError(f"start must be an array, one of {STARTS} or None; got {start!r}.")
        if start == "light_trap":
            with budget.unlimited():
                traps = light_traps(space, factor, n_chains, entropy, budget, threads)
            return np.array([trap.coef for trap in traps])
        if start == "random" and np.any(noise == 0):
            raise ValueError("start='random' needs label_noise > 0 for every point.")
        rngs = [start_rng(entropy, number) for number in range(n_chains)]
        return starts_of(space, factor, label_odds(noise), rngs, budget, start)
    return given_starts(space, start, n_chains, noise == 0)


def _precise(space, tol):
    def enough(flights):
        if draws_error(flights.coef, flights.outputs) <= tol:
            return True
        return centre_of(space, flights, slice(None), "path")[1] <= tol

    return enough


def centre_of(space, flights, balls, source):
    """Unit Bayes point from the "kicks" or the "path" of some balls, and its error, an angle."""
    means, weights = flights.batches(source, balls)
    return unit_centre(means, outputs_of(space.rows, space.ridge, means), weights)


def posterior_of(space, factor, balls, flights, noise):
    """Return the `Posterior` of balls that are all of one machine."""
    coef, outputs = flights.coef, flights.outputs
    n_chains, m = len(coef), coef.shape[2]
    errors = training_errors(space.y, outputs)
    rhat, ess = mixing(space.y, outputs, errors, balls.squared_length)
    info = balls.counts() | {
        "rhat": rhat,
        "ess": ess,
        "travel_time": float(sum(flights.radians)),
        "errors": errors.ravel(),
        "path": balls.recorded_path(),
    }
    if not balls.has_path:
        info = {
            k: v for k, v in info.items() if k not in ("bounces", "passes", "travel_time", "path")
        }
    sources = ["path"] if flights.path and balls.has_path else []
    if np.any(flights.kicks):
        sources.append("kicks")
    centres = {source: centre_of(space, flights, slice(None), source) for source in sources}
    precise = sources and centres["path"][1] < draws_error(coef, outputs)
    return Posterior(
        coef.reshape(-1, m), n_chains=n_chains, outputs=outputs.reshape(-1, m), centres=centres,
        source="path" if precise else "draws", space=space, factor=factor, label_noise=noise,
        info=info,
    )  # fmt: skip


def mixing(target, outputs, errors, squared_length):
    """R-hat and ESS of the mean margin and of the number of training errors, the worse of them.

    ``outputs``: (n_chains, n_draws, m).
    """
    numbers = [outputs @ (target / np.sqrt(squared_length)), errors]
    varying = [x for x in numbers if np.ptp(x) > CONSTANT * np.max(np.abs(x))]
    if not varying:  # version space is a point
        return 1.0, float(errors.size)
    rhat = [diagnostics.rhat(x) for x in varying]
    ess = [diagnostics.ess(x) for x in varying]
    return float(np.max(rhat)), float(np.min(ess))


def warn_if_unmixed(name, n_draws, rhat):
    """Warn when there was no time for a draw of each ball, or when chains do not agree."""
    if not n_draws:
        warn(
            f"the time was up before the first draw of the {name}: what it gives are its "
            f"starting points. Raise max_time.",
            ConvergenceWarning,
        )
    elif n_draws >= UNMIXED_DRAWS and np.any(np.asarray(rhat) > UNMIXED):
        warn(
            f"the chains of the {name} do not agree yet (R-hat {np.nanmax(rhat):.2f}, should be "
            f"below {UNMIXED}): raise n_draws"
            f"{', or use the billiard' if 'gibbs' in name.lower() else ''}.",
            ConvergenceWarning,
        )
