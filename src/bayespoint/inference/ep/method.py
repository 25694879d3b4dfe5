"""Expectation propagation for all machines of a problem."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.inference.draws import Draws, Gaussian, Method, Plan
from bayespoint.inference.engines import engines_of
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.origin import DRAWS_AT_ONCE, Origin, drawing
from bayespoint.inference.ep.posterior import GaussianPosterior, warn_if_moving
from bayespoint.inference.ep.sites import Sites, propagate
from bayespoint.inference.perceptron.runs import conflict_check
from bayespoint.inference.problem import Problem

# Changes of outputs by a sweep, in standard deviations: what held-out outputs need, and the least
# that rounding allows.
HELD_OUT_TOL = 1e-2
LEAST_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class HeldSites:
    """Sites of all machines, for the next fit to begin with."""

    sites: Array  # (n_machines, 2, n_points)


def propagate_machines(
    problem: Problem, plan: Plan, start: Sequence[Any] | None = None, *, factor: Any = None,
    max_sweeps: int = 200,
) -> list[GaussianPosterior]:  # fmt: skip
    """Find the sites of all machines, from those given; ``factor``: of the Gram matrix, if known.

    ``plan.tol`` is the largest change by a further sweep: of the mean of an output, in standard
    deviations, or of its variance, as a share.
    """
    K, found = problem.rows.matrix(), []
    n_machines = len(problem.odds)
    make = engines_of(problem.rows).site_blocks(problem.rows, n_machines)
    copies = copies_of(problem)
    for machine, odds in enumerate(problem.odds):
        likelihood = Likelihood(
            problem.targets[machine].astype(np.float64), problem.ridge, odds / copies,
            problem.log_right[machine] / copies, copies,
        )  # fmt: skip
        fixed_point = propagate(
            K, likelihood, start=None if start is None else Sites(*start[machine]),
            tol=plan.tol, max_sweeps=max_sweeps, stop=plan.budget.spent,
            make=make,
        )  # fmt: skip
        space = problem.space(machine)
        space.ridge = problem.ridge / copies
        found.append(GaussianPosterior(space, K, likelihood, fixed_point, factor))
        plan.budget.show(machine + 1, n_machines, "machines," if n_machines > 1 else "fitting,")
    plan.budget.close()
    return found


def copies_of(problem: Problem) -> Array:
    """Copies that points count for.

    Copies have softness of their own each: only the mean of theirs matters to the rest. Without
    softness they are one point, whose label is the surer.
    """
    return np.broadcast_to(problem.weight if problem.softness else 1.0, len(problem.row)).copy()


class Propagation(Method):
    """Expectation propagation: Gaussians in closed form, and draws of them."""

    name, title = "ep", "expectation propagation"
    resume = HeldSites
    decision = "calibrated"
    takes_noise = from_posterior = closed_form = on_gpu = matrices_on_host = True

    def needed_bytes(self, n_points: int, itemsize: int, n_voting: int) -> int:
        """All rows, the Gram matrix, factor, inverse, two for work, and two a voting machine."""
        return n_points**2 * (itemsize + 8 * (5 + 2 * n_voting))

    def infer(self, problem: Problem, plan: Plan, held: Draws | None) -> Gaussian:
        """Find the sites of all machines, from those held, and draw a committee."""
        factor = problem.rows.factorise(problem.softness / problem.weight, plan.threads)
        resume: Any = None if held is None else held.resume
        start: Any = resume.sites if isinstance(resume, HeldSites) else None
        fine = replace(plan, tol=max(plan.tol, LEAST_TOLERANCE))
        posteriors = propagate_machines(problem, fine, start, factor=factor)
        if not plan.budget.interrupted:
            _warn_or_raise(problem, plan, posteriors)
        coef, norms = _committee(posteriors, plan)
        each = {
            name: np.array([getattr(posterior, name) for posterior in posteriors])
            for name in ("sweeps", "converged", "bounded", "change", "log_evidence")
        }
        sites = np.array([posterior.sites for posterior in posteriors])
        committee = Draws(
            coef=coef, bayes_points=np.array([p.bayes_point() for p in posteriors]),
            angle_errors=np.zeros(len(posteriors)), mean_norms=norms,
            used=np.ones(problem.targets.shape, dtype=bool), n_draws=len(coef[0]), info=each,
            resume=HeldSites(sites), factor=factor,
        )  # fmt: skip
        origin = Origin(sites, copies_of(problem), plan.entropy, committee.n_draws)
        return Gaussian(committee, posteriors, origin)

    def held_out(self, problem: Problem, folds: dict[int, Array], plan: Plan) -> dict[int, Array]:
        """Outputs at all points of machines trained on the points of each fold."""
        coarse = replace(plan, tol=HELD_OUT_TOL)
        found = {}
        for fold, visited in folds.items():
            posteriors = propagate_machines(problem.part(visited), coarse)
            coef = np.zeros(problem.targets.shape)
            coef[:, visited] = [posterior.bayes_point() for posterior in posteriors]
            found[fold] = problem.rows.outputs(0.0 * problem.ridge, coef)
        return found


def _committee(posteriors: list[GaussianPosterior], plan: Plan) -> tuple[list[Array], Array]:
    """Draws of each machine, (n_draws, n_points), and the lengths of their means.

    Where time is up there are fewer, but some.
    """
    rngs = [drawing(plan.entropy, machine) for machine in range(len(posteriors))]
    parts: list[list[tuple[Array, Array]]] = [[] for _ in posteriors]
    for start in range(0, plan.n_draws, DRAWS_AT_ONCE):
        if start and plan.budget.spent():
            break
        n_new = min(DRAWS_AT_ONCE, plan.n_draws - start)
        for posterior, rng, held in zip(posteriors, rngs, parts, strict=True):
            held.append(posterior.draws(n_new, rng))
    coef, norms = [], []
    for held in parts:
        draws, outputs = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
        coef.append(draws)
        norms.append(np.sqrt(max(draws.mean(axis=0) @ outputs.mean(axis=0), 0.0)))
    return coef, np.array(norms)


def _warn_or_raise(problem: Problem, plan: Plan, posteriors: list[GaussianPosterior]) -> None:
    """Say where sites did not converge, or that labels contradict each other."""
    find = conflict_check(problem.space, problem.row, problem.names)
    for machine, (name, posterior) in enumerate(zip(problem.names, posteriors, strict=True)):
        sure = not problem.softness and np.all(np.isinf(problem.odds[machine]))
        if sure and not posterior.converged and not plan.budget.spent():
            find(machine, np.abs(posterior.coef))
        if not posterior.converged:  # bounded sites are in the diagnostics
            warn_if_moving(posterior, name)
