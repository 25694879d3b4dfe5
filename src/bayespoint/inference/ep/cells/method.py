"""Expectation propagation by cells, for all machines of a problem."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.checks import warn
from bayespoint._support.types import Array
from bayespoint.inference.draws import Draws, Plan
from bayespoint.inference.engines import engines_of
from bayespoint.inference.ep.cells.landmarks import landmarks_of, own_features
from bayespoint.inference.ep.cells.memory import Memory
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.inference.ep.cells.problem import CellProblem, Sweeping, TreeFit
from bayespoint.inference.ep.cells.sweeps import fit_tree
from bayespoint.inference.ep.cells.tree import Tree, grow
from bayespoint.inference.problem import Problem
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel

# Cells may move by so many times what exact EP may, and what features that leave nothing over may.
COARSER = 20.0

# A warning comes if more than this share of the cells have not converged.
MOST_MOVING = 0.01


class CellSettings(NamedTuple):
    """How rows are divided."""

    cell_size: int
    n_landmarks: int
    n_trees: int


@dataclass(frozen=True, eq=False, repr=False)
class HeldCells:
    """Sites of all trees, for the next fit to begin with."""

    sites: Array  # (n_trees, 2, n_machines, m)


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Posteriors of all machines by cells.

    Attributes
    ----------
    draws : Draws
        None: what a run tells about itself.
    model : CellModel
    scores : ndarray of shape (3, n_machines, m)
        As in `TreeFit`, the mean over trees.
    log_evidence : ndarray of shape (n_machines,)
        Likewise.
    """

    draws: Draws
    model: CellModel
    scores: Array
    log_evidence: Array


def cell_problem(
    problem: Problem, kernel: Kernel, inputs: Inputs, alone: Array, own: Array
) -> CellProblem:
    """Return the problem as cells take it; ``inputs``: its rows, the others as in `CellProblem`."""
    copies = problem.weight if problem.softness else np.ones_like(problem.weight)
    return CellProblem(
        kernel, inputs.matrix(), problem.targets, problem.odds, problem.log_right, problem.ridge,
        copies, alone, own, engines_of(problem.rows).cell_sweeps(), inputs.on_device(),
    )  # fmt: skip


def infer_cells(
    problem: CellProblem, settings: CellSettings, plan: Plan, cache_bytes: float,
    held: Draws | None = None,
) -> Cells:  # fmt: skip
    """Find the sites of all cells of all trees; of those that time allows, one at least."""
    start: Any = [] if held is None or not isinstance(held.resume, HeldCells) else held.resume.sites
    landmarks = landmarks_of(problem.kernel, problem.X, settings.n_landmarks)
    trees: list[TreeFit] = []
    n_machines = len(problem.targets)
    none = np.empty((n_machines, 0))
    scores = np.zeros((3, *problem.targets.shape))
    n_trees, begun = settings.n_trees, plan.budget.elapsed()
    scale = problem.kernel.column_scale
    for number, tree in enumerate(trees_of(problem.X, settings, scale, plan)):
        how = Sweeping(
            tol=cell_tol(settings, problem.kernel, problem.X.shape[1], plan.tol),
            threads=plan.threads,
            memory=Memory.of(cache_bytes, *settings[:2], n_machines),
            stop=plan.budget.spent,
            show=shown_progress(plan, number, n_trees, begun),
            spare=bool(trees),
        )
        # Sites of another tree are nearly those of this one.
        begin: Any = (trees[-1].tau, trees[-1].nu) if trees else None
        begin = start[number].astype(np.float64) if number < len(start) else begin
        with explained():
            fit = fit_tree(problem, tree, landmarks, how, begin)
        if fit is None:
            break
        scores += fit.scores
        trees.append(replace(fit, scores=none))  # which would take memory
    plan.budget.close()
    evidence = np.mean([fit.log_evidence for fit in trees], axis=0)
    moving = np.array([fit.moving for fit in trees])
    n_cells = np.array([fit.tree.n_cells for fit in trees])
    warn_if_moving(moving, n_cells * len(problem.targets), plan)
    info = {"cells": n_cells.tolist(), "moving": moving.tolist(), "log_evidence": evidence}
    model = CellModel.of(trees, problem.copies, landmarks)
    return Cells(no_draws(trees, info), model, scores / len(trees), evidence)


def cell_tol(settings: CellSettings, kernel: Kernel, n_features: int, tol: float) -> float:
    """Return how far cells may still move, given what exact EP may."""
    exact = settings.n_landmarks == own_features(kernel.name, n_features)
    return tol if exact else COARSER * tol


@contextmanager
def explained() -> Iterator[None]:
    """Say what helps where a matrix of a cell has no factor."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"EP by cells: {error}. Raise softness, which separates rows that contradict each "
            f"other."
        ) from error


def no_draws(trees: list[TreeFit], info: dict[str, Any]) -> Draws:
    """Return what a run tells about itself, and sites for the next one to begin with."""
    n_machines = len(trees[0].tau)
    none = np.empty((n_machines, 0))
    return Draws(
        coef=[], bayes_points=none, angle_errors=np.zeros(n_machines),
        mean_norms=np.ones(n_machines), used=none.astype(bool), n_draws=0, info=info,
        resume=HeldCells(np.array([[fit.tau, fit.nu] for fit in trees], dtype=np.float32)),
    )  # fmt: skip


def trees_of(X: Any, settings: CellSettings, scale: Array | None, plan: Plan) -> Iterator[Tree]:
    """Grow the trees of a fit, as many at once as there are threads, while there is time."""

    def grown(number: int) -> Tree:
        seed = np.random.SeedSequence(plan.entropy, spawn_key=(7, number))
        return grow(X, settings.cell_size, seed, scale)

    n_threads, n_trees = plan.threads.n_threads, settings.n_trees
    for first in range(0, n_trees, n_threads):
        if first and plan.budget.spent():
            break
        yield from plan.threads.each(grown, range(first, min(first + n_threads, n_trees)))


def shown_progress(
    plan: Plan, number: int, n_trees: int, begun: float
) -> Callable[[int, int], None]:
    """Show how much of all trees is done, in percent, and when the rest will be at this pace."""

    def show(done: int, total: int) -> None:
        share = (number + done / total) / n_trees
        left = (plan.budget.elapsed() - begun) * (1 - share) / share
        told = f"% of cells, about {left:.0f} s left," if share < 1 else "% of cells,"
        plan.budget.show(math.floor(100 * share), 100, told)

    return show


def warn_if_moving(moving: Array, n_cells: Any, plan: Plan) -> None:
    """Warn if many cells, of all machines and trees, have not converged."""
    if moving.sum() > MOST_MOVING * np.sum(n_cells) and not plan.budget.interrupted:
        warn(
            f"{moving.sum()} of {np.sum(n_cells)} cells have not converged. Raise max_time "
            f"where it is set, or raise softness.",
            ConvergenceWarning,
        )
