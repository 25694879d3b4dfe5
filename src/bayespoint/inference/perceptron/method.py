"""Permuted kernel perceptrons for all machines of a problem (LSB section 3; JMLR section 3.2)."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.inference.draws import HELD_OUT_DRAWS, Draws, Method, Plan
from bayespoint.inference.engines import engines_of
from bayespoint.inference.perceptron.draw import Draw
from bayespoint.inference.perceptron.ensemble import Ensemble, PerceptronSums
from bayespoint.inference.perceptron.runs import (
    MAX_PASSES,
    conflict_check,
    perceptron_draws,
    permutations,
    warn_if_violated,
)
from bayespoint.inference.problem import Problem
from bayespoint.space.rows import warn_if_large


def draw_perceptrons(
    problem: Problem, plan: Plan, held: Draws | None = None, *, max_passes: int = MAX_PASSES,
    on_draw: Callable[[Draw], Any] | None = None,
) -> Ensemble:  # fmt: skip
    """Add draws to those held until there are enough or the Bayes points are precise.

    ``on_draw`` is called with each new one.
    """
    ensemble = Ensemble(
        *problem.targets.shape, outputs_of=problem.outputs, held=held, ridge=problem.ridge
    )
    orders = permutations(len(problem.rows), plan.entropy)
    enough = np.all(ensemble.angle_errors() <= plan.tol)
    missing = 0 if enough else max(0, plan.n_draws - ensemble.n_draws)
    numbers = range(ensemble.next_number, ensemble.next_number + missing)
    if missing:
        warn_if_large(problem.rows, orders(numbers[0]))
    for draw in plan.drawn or draws_numbered(problem, plan, numbers, max_passes=max_passes):
        ensemble.add(draw)
        if on_draw is not None:
            on_draw(draw)
        if not draw.more and np.all(ensemble.angle_errors() <= plan.tol):
            break
    return ensemble


def draws_numbered(
    problem: Problem, plan: Plan, numbers: range, *, max_passes: int = MAX_PASSES
) -> Iterator[Draw]:
    """Yield the draws of these numbers: each is the same whichever others are made."""
    return perceptron_draws(
        problem.rows, problem.targets, problem.ridge, numbers,
        permutations(len(problem.rows), plan.entropy), budget=plan.budget, threads=plan.threads,
        max_passes=max_passes,
        on_exhausted=conflict_check(problem.space, problem.row, problem.names), folds=plan.folds,
    )  # fmt: skip


class Perceptrons(Method):
    """Permuted kernel perceptrons: each draw agrees with all labels.

    Rows are computed again when they do not fit.
    """

    name, title = "perceptron", "perceptrons"
    resume = PerceptronSums
    on_gpu = True

    def infer(self, problem: Problem, plan: Plan, held: Draws | None) -> Draws:
        """Add draws to those held."""
        ensemble = draw_perceptrons(problem, plan, held)
        warn_if_violated(ensemble.violated)
        return ensemble.draws()

    def held_out(self, problem: Problem, folds: dict[int, Array], plan: Plan) -> dict[int, Array]:
        """Outputs at all points of machines trained on the points of each fold."""
        groups = [[number] for number in folds]
        if engines_of(problem.rows).many_at_once and plan.budget.max_time is None:
            lengths = {len(visited) for visited in folds.values()}
            groups = [[k for k, v in folds.items() if len(v) == length] for length in lengths]
        found: dict[int, Array] = {}
        for group in groups:
            found |= _held_out_group(problem, folds, group, plan)
        return found


def _held_out_group(
    problem: Problem, folds: dict[int, Array], group: list[int], plan: Plan
) -> dict[int, Array]:
    n_draws = min(plan.n_draws, HELD_OUT_DRAWS)

    def order_of_draw(number: int) -> Array:
        fold = group[number // n_draws]
        seed = np.random.SeedSequence(plan.entropy, spawn_key=(1, fold, number % n_draws))
        return np.random.default_rng(seed).permutation(folds[fold]).astype(np.int32)

    ensembles = {
        fold: Ensemble(*problem.targets.shape, outputs_of=problem.outputs) for fold in group
    }
    for draw in perceptron_draws(
        problem.rows, problem.targets, problem.ridge, range(n_draws * len(group)), order_of_draw,
        budget=plan.budget, threads=plan.threads,
    ):  # fmt: skip
        ensembles[group[draw.number // n_draws]].add(draw)
    return {
        fold: ensemble.unit_mean_outputs()
        for fold, ensemble in ensembles.items()
        if ensemble.n_draws
    }
