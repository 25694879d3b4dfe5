"""Cells that go on learning ("Rows that keep coming" in docs/theory/cells.md).

New rows join the cells that they fall into, with sites that say nothing yet; a cell that has grown
enough is swept again from the sites that it has, and one that has grown too large is divided. What
rows said that are dropped stays in the precision of w, where there are landmarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayespoint._support.types import Array
from bayespoint.inference.draws import Plan
from bayespoint.inference.ep.cells.cell import Message
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.memory import Memory
from bayespoint.inference.ep.cells.method import (
    Cells,
    CellSettings,
    cell_tol,
    explained,
    no_draws,
)
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.inference.ep.cells.problem import CellProblem, Sweeping, TreeFit
from bayespoint.inference.ep.cells.sweeps import fit_cells, messages_of
from bayespoint.inference.ep.cells.tree import Tree, empty_tree, grow
from bayespoint.inference.ep.cells.visits import no_message

# A cell is divided when it has so many times the rows that it should have: the parts are then as
# much smaller, and all cells together have the right size on average.
SPLIT = 4 / 3


@dataclass(frozen=True, eq=False, repr=False)
class GrowingTree:
    """What is known of all machines by one tree, over the rows that are held.

    Attributes
    ----------
    tree : Tree
    tau, nu, coef : ndarray of shape (n_machines, m)
        Sites of one copy of each row, and coefficients.
    waiting : ndarray of bool, shape (m,)
        Rows that came since their cell was swept.
    lost : Message or None
        What rows that are held no more say of w, (n_machines, ...); None without landmarks.
    common_mean, common_factor : ndarray
        As in `TreeFit`.
    """

    tree: Tree
    tau: Array
    nu: Array
    coef: Array
    waiting: Array
    lost: Message | None
    common_mean: Array
    common_factor: Array

    @classmethod
    def empty(cls, n_features: int, n_machines: int, landmarks: Landmarks | None) -> "GrowingTree":
        """Return one cell without rows."""
        none, n_common = np.zeros((n_machines, 0)), 0
        lost = None
        if landmarks is not None:
            n_common = landmarks.projection.shape[1]
            lost = nothing_lost(n_machines, n_common)
        precision, mean = no_message(n_machines, n_common)
        return cls(
            empty_tree(n_features), none, none, none, np.zeros(0, dtype=bool), lost, mean,
            precision,
        )  # fmt: skip

    def over(self, member: Array, n_rows: int) -> "GrowingTree":
        """Return the same over other rows: ``member`` says which the old ones are; others wait."""

        def moved(values: Array) -> Array:
            found = np.zeros((len(values), n_rows))
            found[:, member] = values
            return found

        waiting = np.ones(n_rows, dtype=bool)
        waiting[member] = self.waiting
        tau, nu, coef = (moved(values) for values in (self.tau, self.nu, self.coef))
        return replace(self, tau=tau, nu=nu, coef=coef, waiting=waiting)

    def take(self, rows: Array) -> "GrowingTree":
        """Return what is known of some rows."""
        tau, nu, coef = (values[:, rows] for values in (self.tau, self.nu, self.coef))
        return replace(self, tau=tau, nu=nu, coef=coef, waiting=self.waiting[rows])

    def of_machines(self, source: Sequence[tuple[int | None, float]]) -> "GrowingTree":
        """Return other machines: each a machine of now and a sign, or none, which waits.

        The machine of one of two classes is the mirror image of that of the other.
        """
        chosen = [0 if one is None else one for one, _ in source]
        known = np.array([float(one is not None) for one, _ in source])[:, None]
        turned = known * np.array([sign for _, sign in source])[:, None]
        lost = self.lost
        if lost is not None:
            lost = Message(lost.precision[chosen] * known[..., None], lost.shift[chosen] * turned)
        return replace(
            self, tau=self.tau[chosen] * known, nu=self.nu[chosen] * turned,
            coef=self.coef[chosen] * turned, lost=lost,
            waiting=self.waiting | (not np.all(known)),
        )  # fmt: skip


def nothing_lost(n_machines: int, n_common: int) -> Message:
    """Return a message that says nothing, of all machines."""
    return Message(np.zeros((n_machines, n_common, n_common)), np.zeros((n_machines, n_common)))


def trees_of(
    model: CellModel, sites: Array, lost: Sequence[Message | None], waiting: Array
) -> list[GrowingTree]:
    """Return the trees of a model, with its sites (n_trees, 2, n_machines, m)."""
    found, m = [], waiting.shape[1]
    for number, tree in enumerate(model.trees()):
        where = slice(number * m, (number + 1) * m)
        tau, nu = sites[number].astype(np.float64)
        coef = np.empty_like(tau)
        coef[:, model.order[where]] = model.coef[:, where]
        found.append(
            GrowingTree(
                tree, tau, nu, coef, waiting[number], lost[number], model.common_mean[number],
                model.common_factor[number],
            )
        )  # fmt: skip
    return found


def grown(
    problem: CellProblem, settings: CellSettings, trees: list[GrowingTree],
    landmarks: Landmarks | None, plan: Plan, cache_bytes: float, due: float,
) -> tuple[Cells, list[GrowingTree]]:  # fmt: skip
    """Sweep cells that have grown.

    Parameters
    ----------
    problem : CellProblem
        Over all rows that are held.
    settings : CellSettings
    trees : list of GrowingTree
        Over the same rows; one, while that has one cell.
    landmarks : Landmarks or None
    plan : Plan
    cache_bytes : float
    due : float
        A cell is swept when the rows that wait, by weight, are more than this share of the others;
        with landmarks all cells are, or none.
    """
    one_cell = len(trees) == 1 and trees[0].tree.n_cells == 1
    if one_cell and len(problem.copies) > SPLIT * settings.cell_size:
        trees = trees * settings.n_trees
    n_machines = len(problem.targets)
    how = Sweeping(
        tol=cell_tol(settings, problem.kernel, problem.X.shape[1], plan.tol),
        threads=plan.threads, stop=plan.budget.spent,
        memory=Memory.of(cache_bytes, *settings[:2], n_machines),
    )  # fmt: skip
    fits, after = list[TreeFit](), list[GrowingTree]()
    for number, one in enumerate(trees):
        seed = np.random.SeedSequence(plan.entropy, spawn_key=(7, number, one.tree.n_cells))
        one, cell_of, changed = _divided(problem, one, settings.cell_size, seed)
        near = after[-1] if after else one
        with explained():
            fit = _swept(problem, one, cell_of, changed, landmarks, how, due, near)
        waiting = (one.waiting | changed[cell_of]) & ~fit.swept[cell_of]
        fits.append(fit)
        after.append(
            replace(
                one, tau=fit.tau, nu=fit.nu, coef=fit.coef, waiting=waiting,
                common_mean=fit.common_mean, common_factor=fit.common_factor,
            )
        )  # fmt: skip
        plan.budget.show(number + 1, len(trees), "trees of cells,")
    plan.budget.close()
    info = {"cells": [f.tree.n_cells for f in fits], "moving": [f.moving for f in fits]}
    model = CellModel.of(fits, problem.copies, landmarks)
    nothing = np.empty((3, n_machines, 0))
    return Cells(no_draws(fits, info), model, nothing, np.full(n_machines, np.nan)), after


def _swept(
    problem: CellProblem, one: GrowingTree, cell_of: Array, changed: Array,
    landmarks: Landmarks | None, how: Sweeping, due: float, near: GrowingTree,
) -> TreeFit:  # fmt: skip
    """Sweep the cells that are due; all others as they are.

    ``near``: this tree or another one, whose sites new rows begin with.
    """
    n_cells, copies = one.tree.n_cells, problem.copies
    new, old = (
        np.bincount(cell_of, copies * rows, minlength=n_cells)
        for rows in (one.waiting, ~one.waiting)
    )
    chosen = (new > due * old) | changed
    if landmarks is not None:
        chosen[:] = new.sum() > due * old.sum() or np.any(changed)
    order = np.argsort(cell_of, kind="stable")
    begin = np.searchsorted(cell_of[order], np.arange(n_cells + 1))
    numbers = np.flatnonzero(chosen)
    swept, moving = np.zeros(n_cells, dtype=bool), 0
    tau, nu, coef = one.tau.copy(), one.nu.copy(), one.coef.copy()
    mean, factor = one.common_mean, one.common_factor
    if len(numbers):
        parts = [order[begin[i] : begin[i + 1]] for i in numbers]
        some = np.concatenate(parts)
        ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        start = np.where(one.waiting, [near.tau, near.nu], [one.tau, one.nu])
        fit = fit_cells(
            problem, one.tree, some, ends, landmarks, how, (start[0], start[1]), one.lost
        )
        assert fit is not None  # there is no other tree to fall back on
        done = some  # with landmarks: the mean of w has come from the sites of all rows
        if landmarks is None:
            done = np.concatenate([np.zeros(0, dtype=np.int64)] + [
                part for part, there in zip(parts, fit.swept, strict=True) if there
            ])  # fmt: skip
        for kept, found in ((tau, fit.tau), (nu, fit.nu), (coef, fit.coef)):
            kept[:, done] = found[:, done]
        moving = fit.moving
        swept[numbers] = fit.swept
        mean, factor = fit.common_mean, fit.common_factor
    one = replace(one, tau=tau, nu=nu, coef=coef, common_mean=mean, common_factor=factor)
    return replace(fit_of(one, cell_of), moving=moving, swept=swept)


def fit_of(one: GrowingTree, cell_of: Array) -> TreeFit:
    """Return what is known as a fit, which nobody has swept."""
    n_cells, n_machines = one.tree.n_cells, len(one.tau)
    order = np.argsort(cell_of, kind="stable")
    begin = np.searchsorted(cell_of[order], np.arange(n_cells + 1))
    nothing = np.empty((n_machines, 0))
    return TreeFit(
        one.tree, order, begin, one.tau, one.nu, one.coef, nothing, one.common_mean,
        one.common_factor, np.zeros(n_machines), 0, np.zeros(n_cells, dtype=bool),
    )  # fmt: skip


def _divided(
    problem: CellProblem, one: GrowingTree, cell_size: int, seed: np.random.SeedSequence
) -> tuple[GrowingTree, Array, Array]:
    """Divide cells that have grown too large; cells of all rows, and which cells are new."""
    cell_of = problem.sweeps.route(one.tree, problem)
    sizes = np.bincount(cell_of, minlength=one.tree.n_cells)
    large = np.flatnonzero(sizes > SPLIT * cell_size)
    tree, scale = one.tree, problem.kernel.column_scale
    for cell, part_seed in zip(large, seed.spawn(len(large)), strict=True):
        part = grow(problem.X, cell_size, part_seed, scale, np.flatnonzero(cell_of == cell))
        tree = tree.with_cell_divided(int(cell), part)
    if tree.n_cells == one.tree.n_cells:
        return one, cell_of, np.zeros(tree.n_cells, dtype=bool)
    changed = np.arange(tree.n_cells) >= one.tree.n_cells
    changed[large] = True
    return replace(one, tree=tree), problem.sweeps.route(tree, problem), changed


def forgotten(
    problem: CellProblem, one: GrowingTree, kept: Array, landmarks: Landmarks,
    settings: CellSettings, plan: Plan, cache_bytes: float,
) -> Message:  # fmt: skip
    """Return what is lost, and what rows that are dropped now have said.

    These are the messages of all rows of cells, less those of the rows that are kept.
    """
    cell_of = problem.sweeps.route(one.tree, problem)
    how = Sweeping(
        threads=plan.threads, memory=Memory.of(cache_bytes, *settings[:2], len(problem.targets))
    )
    order = np.argsort(cell_of, kind="stable")
    said = []
    for rows in (order, order[kept[order]]):
        begin = np.searchsorted(cell_of[rows], np.arange(one.tree.n_cells + 1))
        said.append(messages_of(problem, rows, begin, landmarks, how, (one.tau, one.nu)))
    lost = one.lost or nothing_lost(*said[0].shift.shape)
    return Message(
        lost.precision + said[0].precision - said[1].precision,
        lost.shift + said[0].shift - said[1].shift,
    )


def faded(lost: Message | None, share: float) -> Message | None:
    """Return a message that counts so much less."""
    return None if lost is None else Message(share * lost.precision, share * lost.shift)
