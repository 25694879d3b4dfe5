"""Chains of moves on great circles, whatever the move: starts, walls, stops and diagnostics.

The billiard and the Gibbs sampler share all of this, and so do one machine and several.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import check_natural_number, check_positive_integer, warn
from bayespoint._support.types import Array
from bayespoint.inference.billiard.balls import TRAVEL, Balls, Table, coinciding_walls
from bayespoint.inference.billiard.flights import Flights, run
from bayespoint.inference.billiard.starts import (
    direct_starts,
    given_starts,
    light_traps,
    perceptron_vector,
    random_start,
    start_rng,
)
from bayespoint.inference.draws import Plan
from bayespoint.inference.engines import engines_of
from bayespoint.inference.perceptron.runs import conflict_check
from bayespoint.inference.problem import Problem
from bayespoint.space import diagnostics
from bayespoint.space.posterior import Posterior, draws_error, training_errors, unit_centre
from bayespoint.space.version_space import VersionSpace

# Where balls begin, by name.
STARTS = ("consistent", "random", "light_trap")

# Numbers that differ by less than this share are equal but for rounding.
CONSTANT = 1e-9

# Draws of a chain that tell how it mixes: of more, sorting them took longer than the flights.
COMPARED_DRAWS = 10_000

# An R-hat above this tells chains that do not agree, if they have at least so many draws:
# independent ones exceed it in none of 20,000 trials (tests/space/test_diagnostics.py).
UNMIXED = 1.2
UNMIXED_DRAWS = 25

# Flights before the first draw: many times what draws depend on each other for (effective draws in
# benchmarks/samplers.py, and of training errors in benchmarks/billiard.py).
BURN_IN = 20
BURN_IN_NOISY = 100


class Moves(NamedTuple):
    """How chains move, and how far."""

    n_chains: int  # of each machine
    n_draws: int  # of each chain
    kind: Any = Balls  # or a class derived from it
    travel: float = TRAVEL
    thin: int = 1
    burn_in: int | None = None  # by default what suits the labels
    start: Any = None  # coefficients, or one of `STARTS`
    n_path: int = 0


class Chains(NamedTuple):
    """Chains that have moved, those of each machine one after the other."""

    balls: Any
    flights: Flights
    factor: Any


def run_chains(
    problem: Problem, moves: Moves, plan: Plan, *, held: Array | None = None, n_held: int = 0,
    enough: Callable[[Flights], bool] | None = None, stop: Callable[[], bool] | None = None,
) -> Chains:  # fmt: skip
    """Move chains from their starts, or from where held ones ended after ``n_held`` draws each.

    Until each has made its draws, time is up or ``enough`` of them are there. ``stop`` is asked
    while the Gram matrix is factorised.
    """
    factor = problem.rows.factorise(problem.softness, plan.threads, stop)
    if held is None:
        held, burn_in = _starts(problem, factor, moves, plan), moves.burn_in
        if burn_in is None:
            burn_in = BURN_IN_NOISY if problem.noisy else BURN_IN
    else:
        burn_in = 0
    make: Any = engines_of(problem.rows).balls(moves.kind)
    if moves.n_path:
        make = partial(make, n_path=moves.n_path)
    balls = make(
        _table(problem, factor, moves.n_chains), held,
        np.random.SeedSequence(plan.entropy, spawn_key=(2, n_held)),
    )  # fmt: skip
    flights = run(
        balls, moves.n_draws, travel=moves.travel, thin=int(moves.thin), burn_in=int(burn_in),
        budget=plan.budget, threads=plan.threads, enough=enough,
    )  # fmt: skip
    return Chains(balls, flights, factor)


def _table(problem: Problem, factor: Any, n_chains: int) -> Table:
    rates = [pass_rates(problem.space(machine), odds) for machine, odds in enumerate(problem.odds)]
    label = np.repeat([y for y, _ in rates], n_chains, axis=0)
    rate = np.repeat([rate for _, rate in rates], n_chains, axis=0)
    return Table(problem.rows, problem.ridge, factor, label, rate)


def pass_rates(space: VersionSpace, odds: Array) -> tuple[Array, Array]:
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
        sure = together[np.isinf(together)]  # what is sure outweighs everything else
        odds[i] = sure[0] if len(sure) else together.sum()
        odds[same] = 0.0
    # A rate that rounds to zero would make the label sure, which starts may have wrong.
    rates = np.maximum(np.exp(-np.abs(odds)), np.finfo(float).tiny)
    return np.where(odds == 0, label, np.sign(odds)), np.where(np.isinf(odds), 0.0, rates)


def _starts(problem: Problem, factor: Any, moves: Moves, plan: Plan) -> Array:
    """Coefficients of the unit vectors where balls begin, those of each machine in a row."""
    find = conflict_check(problem.space, problem.row, problem.names)
    starts = []
    for machine, odds in enumerate(problem.odds):
        first = machine * moves.n_chains
        rngs = [start_rng(plan.entropy, first + ball) for ball in range(moves.n_chains)]
        space, check = problem.space(machine), partial(_find_for, find, machine)
        if moves.start is None or isinstance(moves.start, str | bytes):
            found = _named_starts(space, factor, odds, rngs, moves.start, plan, check)
        else:
            found = given_starts(space, moves.start, moves.n_chains, np.isinf(odds))
        starts.append(found)
    return np.concatenate(starts)


def _find_for(find: Callable, machine: int, _: int, counts: Array) -> None:
    find(machine, counts)


def _named_starts(
    space: VersionSpace, factor: Any, odds: Array, rngs: list, start: Any, plan: Plan,
    check: Callable,
) -> Array:  # fmt: skip
    if start not in (None, *STARTS):
        raise ValueError(f"start must be an array, one of {STARTS} or None; got {start!r}.")
    if start == "light_trap":
        with plan.budget.unlimited():
            traps = light_traps(space, factor, len(rngs), plan)
        return np.array([trap.coef for trap in traps])
    if start == "random" and np.any(np.isinf(odds)):
        raise ValueError("start='random' needs label_noise > 0 for every point.")
    return starts_of(space, factor, odds, rngs, plan.budget, start, check)


def starts_of(
    space: VersionSpace, factor: Any, odds: Array, rngs: Sequence[np.random.Generator],
    budget: Budget, kind: str | None = None, check: Callable | None = None,
) -> Array:  # fmt: skip
    """Coefficients of the unit vectors where the balls of a machine begin, one per generator.

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


def draws_per_chain(n_draws: int, n_chains: int, most: float = np.inf) -> int:
    """Draws of each chain, for so many of all together and at most so many of each."""
    check_positive_integer("n_draws", n_draws)
    check_positive_integer("n_chains", n_chains)
    return int(max(1, min(-(-n_draws // n_chains), most)))


def sample_chains(
    space: VersionSpace, problem: Problem, plan: Plan, moves: Moves, name: str
) -> Posterior:
    """Return the `Posterior` of the chains of one machine; ``space`` is that on the host."""
    check_positive_integer("thin", moves.thin)
    check_natural_number("burn_in", 0 if moves.burn_in is None else moves.burn_in)
    chains = run_chains(
        problem, moves, plan, stop=lambda: plan.budget.interrupted,
        enough=None if plan.tol < 0 else partial(_precise, problem, plan.tol),
    )  # fmt: skip
    chains.factor.release()
    plan.budget.raise_if_interrupted()
    posterior = posterior_of(space, problem, chains)
    warn_if_unmixed(name, chains.flights.n_draws, posterior.info["rhat"])
    return posterior


def _precise(problem: Problem, tol: float, flights: Flights) -> bool:
    if draws_error(flights.coef, flights.outputs) <= tol:
        return True
    return centre_of(problem, flights, "path")[1] <= tol


def centre_of(problem: Problem, flights: Flights, source: str) -> tuple[Array, float]:
    """Unit Bayes point from the "kicks" or the "path" of all balls, and its error, an angle."""
    means, weights = flights.batches(source, slice(None))
    return unit_centre(means, problem.outputs(means), weights)


def posterior_of(space: VersionSpace, problem: Problem, chains: Chains) -> Posterior:
    """Return the `Posterior` of balls that are all of one machine."""
    balls, flights, factor = chains
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
    centres = {source: centre_of(problem, flights, source) for source in sources}
    precise = sources and centres["path"][1] < draws_error(coef, outputs)
    return Posterior(
        coef.reshape(-1, m), n_chains=n_chains, outputs=outputs.reshape(-1, m), centres=centres,
        source="path" if precise else "draws", space=space, factor=factor, info=info,
    )  # fmt: skip


def mixing(
    target: Array, outputs: Array, errors: Array, squared_length: Array
) -> tuple[float, float]:
    """R-hat and ESS of the mean margin and of the number of training errors, the worse of them.

    Of long chains R-hat compares draws spread over them, and the ESS of the last ones counts for
    all. ``outputs``: (n_chains, n_draws, m).
    """
    n_draws = outputs.shape[1]
    spread = slice(None, None, -(-n_draws // COMPARED_DRAWS))
    last = slice(max(n_draws - COMPARED_DRAWS, 0), None)
    scale = target / np.sqrt(squared_length)
    rhat = [diagnostics.rhat(x) for x in _varying(outputs[:, spread] @ scale, errors[:, spread])]
    ess = [diagnostics.ess(x) for x in _varying(outputs[:, last] @ scale, errors[:, last])]
    if not rhat or not ess:  # version space is a point
        return 1.0, float(errors.size)
    return float(np.max(rhat)), float(np.min(ess)) * n_draws / min(n_draws, COMPARED_DRAWS)


def _varying(*numbers: Array) -> list[Array]:
    """Those of some numbers of each draw, (n_chains, n_draws), that are not all equal."""
    rounded = [_without_rounding(x) for x in numbers if np.ptp(x) > 0]
    return [x for x in rounded if np.ptp(x) > 0]


def _without_rounding(x: Array) -> Array:
    """Make equal what differs by rounding alone, or ranks would tell chains apart by it."""
    values = np.sort(x, axis=None)
    first = values[np.append(True, np.diff(values) > CONSTANT * np.max(np.abs(x)))]
    return first[np.searchsorted(first, x, side="right") - 1]


def warn_if_unmixed(name: str, n_draws: int, rhat: Any) -> None:
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
