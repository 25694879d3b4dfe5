"""Expectation propagation by cells, for all machines of a problem."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.checks import warn
from bayespoint._support.types import Array, Matrix
from bayespoint.inference.draws import Draws, Plan
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.inference.ep.cells.sweeps import (
    CellProblem,
    Sweeping,
    choose_landmarks,
    fit_tree,
)
from bayespoint.inference.ep.cells.tree import grow
from bayespoint.inference.problem import Problem
from bayespoint.space.kernels import Kernel

# Cells may not have come to rest in so large a share before it is worth a warning.
MOST_MOVING = 0.01


class CellSettings(NamedTuple):
    """How rows are divided."""

    cell_size: int
    n_landmarks: int
    n_trees: int


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Posteriors of all machines by cells.

    Attributes
    ----------
    draws : Draws
        None: what a run tells about itself.
    model : CellModel
    scores : ndarray of shape (2, n_machines, m)
        As in `TreeFit`, the mean over trees.
    wrong : ndarray of shape (n_machines, m)
        Probability that each target is wrong, likewise.
    log_evidence : ndarray of shape (n_machines,)
        Likewise.
    """

    draws: Draws
    model: CellModel
    scores: Array
    wrong: Array
    log_evidence: Array


def cell_problem(problem: Problem, kernel: Kernel, X: Matrix, alone: Array) -> CellProblem:
    """Return the problem as cells take it; ``X``: its rows, ``alone`` as in `CellProblem`."""
    copies = problem.weight if problem.softness else np.ones_like(problem.weight)
    return CellProblem(
        kernel, X, problem.targets, problem.odds, problem.log_right, problem.ridge, copies, alone
    )


def infer_cells(
    problem: CellProblem, settings: CellSettings, plan: Plan,
    start: list[tuple[Array, Array]] | None = None,
) -> Cells:  # fmt: skip
    """Find the sites of all cells of all trees; of those that time allows, one at least."""
    landmarks = choose_landmarks(problem, settings.n_landmarks) if settings.n_landmarks else None
    trees, n_trees = [], settings.n_trees
    for number in range(n_trees):
        seed = np.random.SeedSequence(plan.entropy, spawn_key=(7, number))
        tree = grow(problem.X, settings.cell_size, seed)
        how = Sweeping(
            threads=plan.threads, stop=plan.budget.spent, show=_progress(plan, number, n_trees)
        )
        fit = fit_tree(problem, tree, landmarks, how, None if start is None else start[number])
        if trees and plan.budget.spent():  # it may be unfinished, and there are others
            break
        trees.append(fit)
    plan.budget.close()
    scores = np.mean([fit.scores for fit in trees], axis=0)
    evidence = np.mean([fit.log_evidence for fit in trees], axis=0)
    moving = np.array([fit.moving for fit in trees])
    n_cells = np.array([fit.tree.n_cells for fit in trees])
    _warn_if_moving(moving, n_cells * len(problem.targets), plan)
    n_machines = len(problem.targets)
    none = np.empty((n_machines, 0))
    draws = Draws(
        coef=[], bayes_points=none, angle_errors=np.zeros(n_machines),
        mean_norms=np.ones(n_machines), used=none.astype(bool), n_draws=0,
        info={"cells": n_cells, "moving": moving, "log_evidence": evidence},
    )  # fmt: skip
    model = CellModel(problem.kernel, problem.X, problem.copies, landmarks, trees)
    wrong = np.mean([fit.wrong for fit in trees], axis=0)
    return Cells(draws, model, scores, wrong, evidence)


def _progress(plan: Plan, number: int, n_trees: int) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        plan.budget.show(number * total + done, n_trees * total, "cells,")

    return show


def _warn_if_moving(moving: Array, n_cells: Any, plan: Plan) -> None:
    from sklearn.exceptions import ConvergenceWarning

    if moving.sum() > MOST_MOVING * np.sum(n_cells) and not plan.budget.interrupted:
        warn(
            f"{moving.sum()} of {np.sum(n_cells)} cells had not come to rest. Raise max_time "
            f"where it is set, or raise softness.",
            ConvergenceWarning,
        )
