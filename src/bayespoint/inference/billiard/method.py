"""The exact billiard and the kernel Gibbs sampler for all machines of a problem."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.inference.billiard.balls import Balls
from bayespoint.inference.billiard.chains import (
    Chains,
    Moves,
    mixing,
    run_chains,
    warn_if_unmixed,
)
from bayespoint.inference.billiard.flights import Flights
from bayespoint.inference.billiard.walkers import Walkers
from bayespoint.inference.draws import Draws, Method, Plan
from bayespoint.inference.engines import CHAINS, engines_of
from bayespoint.inference.problem import Problem
from bayespoint.space.posterior import training_errors, unit_centre

# Flights for each draw with label noise, where positions change more slowly.
THIN_NOISY = 8

# Flights of each ball for held-out outputs.
HELD_OUT_FLIGHTS = 10


@dataclass(frozen=True, eq=False, repr=False)
class BallPaths:
    """Where balls are and what they have met, to fly on from; balls of a machine in a row."""

    path: Array  # (n_balls, n_points), integral of the positions
    kicks: Array  # (n_balls, n_points), sum of the changes of direction at walls
    last: Array  # (n_balls, n_points), coefficients of the last positions


class Billiards(Method):
    """The exact billiard: draws of the posterior of clean or noisy labels."""

    name = title = "billiard"
    resume = BallPaths
    decision = "vote"
    takes_noise = from_posterior = on_gpu = True
    independent = False
    kind: Any = Balls

    def needed_bytes(self, n_points: int, itemsize: int, n_voting: int) -> int:  # noqa: ARG002
        """All rows and a factor of the Gram matrix."""
        return n_points**2 * (itemsize + 8)

    def infer(self, problem: Problem, plan: Plan, held: Draws | None) -> Draws:
        """Fly on from where the held draws end until there are enough."""
        budget = plan.budget
        # Ctrl-C while settings were chosen leaves a fit still: of the starting points.
        stop: Any = None if budget.interrupted else lambda: budget.interrupted
        draws = self._draw(problem, plan, held, stop)
        n_new = draws.info["n_draws"]
        if not budget.interrupted and draws is not held and (n_new or not draws.finished):
            warn_if_unmixed(self.title, n_new, draws.info["rhat"])
        return draws

    def _draw(
        self, problem: Problem, plan: Plan, held: Draws | None,
        stop: Callable[[], bool] | None = None,
    ) -> Draws:  # fmt: skip
        chains = engines_of(problem.rows).n_chains(len(problem.targets))
        n_chains = min(chains, plan.n_draws) if held is None else held.n_chains
        n_held = 0 if held is None else held.n_draws // n_chains
        missing = -(-plan.n_draws // n_chains) - n_held
        if held is not None and (missing <= 0 or np.all(held.angle_errors <= plan.tol)):
            return held
        moves = Moves(n_chains, missing, kind=self.kind, thin=THIN_NOISY if problem.noisy else 1)

        def enough(flights: Flights) -> bool:
            means, outputs = flights.coef.mean(axis=1), flights.outputs.mean(axis=1)
            balls = _balls_of_machines(len(means), n_chains)
            return all(unit_centre(means[c], outputs[c])[1] <= plan.tol for c in balls)

        found = run_chains(
            problem, moves, plan, held=None if held is None else held.resume.last, n_held=n_held,
            enough=enough, stop=stop,
        )  # fmt: skip
        return draws_of(problem, found, n_chains, held)

    def held_out(self, problem: Problem, folds: dict[int, Array], plan: Plan) -> dict[int, Array]:
        """Outputs at all points of machines trained on the points of each fold."""
        found = {fold: self._held_out_fold(problem, fold, folds[fold], plan) for fold in folds}
        return {fold: outputs for fold, outputs in found.items() if outputs is not None}

    def _held_out_fold(
        self, problem: Problem, fold: int, visited: Array, plan: Plan
    ) -> Array | None:
        few = Plan(HELD_OUT_FLIGHTS * CHAINS, 0.0, [plan.entropy, 1, fold], plan.budget,
                   plan.threads)  # fmt: skip
        try:
            draws = self._draw(problem.part(visited), few, None)
        except ValueError:  # no start without these points, or no time to find one
            return None
        coef = np.zeros(problem.targets.shape)
        coef[:, visited] = draws.bayes_points
        return problem.rows.outputs(0.0 * problem.ridge, coef)


class Gibbs(Billiards):
    """The kernel Gibbs sampler: the same posterior, in steps of any length."""

    name, title = "gibbs", "Gibbs sampler"
    on_gpu = False
    kind = Walkers


def draws_of(problem: Problem, chains: Chains, n_chains: int, held: Draws | None) -> Draws:
    """Join new draws and paths to those held."""
    balls, flights = chains.balls, chains.flights
    machines = _balls_of_machines(len(balls), n_chains)
    coef = flights.coef
    path = np.sum(flights.path, axis=0) if flights.path else coef.sum(axis=1)
    kicks = np.sum(flights.kicks, axis=0) if flights.kicks else np.zeros_like(path)
    if held is not None:
        path = path + held.resume.path if flights.path else held.resume.path
        kicks = kicks + held.resume.kicks
        old = np.concatenate(held.coef).reshape(len(balls), -1, coef.shape[2])
        coef = np.concatenate([old, coef], axis=1) if flights.path else old
    outputs = problem.outputs(path)
    means = coef.mean(axis=1)
    mean_outputs = problem.outputs(means)
    centres, errors, norms, mixed = [], [], [], []
    for target, chosen in zip(problem.targets, machines, strict=True):
        norms.append(np.sqrt(means[chosen].mean(axis=0) @ mean_outputs[chosen].mean(axis=0)))
        both = [
            unit_centre(means[chosen], mean_outputs[chosen]),
            unit_centre(path[chosen], outputs[chosen]),
        ]
        centre, error = min(both, key=lambda pair: pair[1])
        centres.append(centre)
        errors.append(error)
        new = flights.outputs[chosen]
        mixed.append(mixing(target, new, training_errors(target, new), balls.squared_length))
    rhat, ess = np.array(mixed).T
    counts = balls.counts()
    for name in ("bounces", "passes"):
        counts[name] = counts[name].reshape(len(machines), n_chains)
    return Draws(
        coef=[coef[chosen].reshape(-1, coef.shape[2]) for chosen in machines],
        bayes_points=np.array(centres), angle_errors=np.array(errors),
        mean_norms=np.array(norms), used=np.ones(problem.targets.shape, dtype=bool),
        n_draws=coef.shape[1] * n_chains, n_chains=n_chains,
        finished=held is not None or bool(flights.n_draws),
        info=counts | {"rhat": rhat, "ess": ess, "n_draws": flights.n_draws},
        centres={"kicks": _kick_centres(problem, kicks, machines)} if np.any(kicks) else {},
        resume=BallPaths(path, kicks, coef[:, -1].copy()),
        factor=chains.factor,
    )  # fmt: skip


def _balls_of_machines(n_balls: int, n_chains: int) -> list[slice]:
    return [slice(c, c + n_chains) for c in range(0, n_balls, n_chains)]


def _kick_centres(problem: Problem, kicks: Array, machines: list[slice]) -> tuple[Array, Array]:
    """Bayes points from the kicks, and their errors; zero and infinite where there were none."""
    outputs = problem.outputs(kicks)
    centres, errors = np.zeros(problem.targets.shape), np.full(len(machines), np.inf)
    for machine, chosen in enumerate(machines):
        if np.any(kicks[chosen]):
            centres[machine], errors[machine] = unit_centre(kicks[chosen], outputs[chosen])
    return centres, errors
