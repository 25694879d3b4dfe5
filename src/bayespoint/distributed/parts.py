"""Parts of a model on a cluster: chunks of cells put together to a size that suits prediction."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.cells import CellChunk, Work
from bayespoint.distributed.inference import ClusterCells, ClusterTree
from bayespoint.distributed.ordering import stacked
from bayespoint.distributed.session import Session
from bayespoint.inference.ep.cells.prediction import CellModel, Cellwise
from bayespoint.inference.ep.cells.problem import TreeFit
from bayespoint.inference.ep.cells.sweeps import SweepState
from bayespoint.inference.ep.cells.tree import NO_TREE, Tree

# Bytes of rows in a part, about.
PART_BYTES = 64_000_000


class Part(NamedTuple):
    """Cells of a tree in a row, for prediction: rows, sites, and what has outputs at new rows."""

    number: Array
    begin: Array
    tau: Array
    nu: Array
    coef: Array
    scores: Array
    cellwise: Any  # `Cellwise`, or None where the rows stay


def part_of(
    cells: list[CellChunk], states: list[SweepState], work: Work, common: tuple[Array, Array]
) -> Part:
    """Put chunks of cells together."""
    sizes = np.cumsum([0, *(len(chunk.label) for chunk in cells)])
    begin = np.concatenate(
        [[0], *(chunk.begin[1:] + first for chunk, first in zip(cells, sizes, strict=False))]
    )
    number, weight = (
        np.concatenate([getattr(chunk, name) for chunk in cells]) for name in ("number", "weight")
    )
    tau, nu, coef, scores = (
        np.concatenate([getattr(state, name) for state in states], axis=-1)
        for name in ("tau", "nu", "coef", "scores")
    )
    copies = weight if work.settings.softness else np.ones_like(weight)
    none = np.empty((len(tau), 0))
    n_cells = len(begin) - 1
    fit = TreeFit(
        replace(NO_TREE, n_cells=n_cells), np.arange(len(number)), begin, tau, nu, coef, none,
        *common, np.zeros(len(tau)), 0, np.ones(n_cells, dtype=bool),
    )  # fmt: skip
    X = stacked([chunk.X for chunk in cells])
    cellwise = Cellwise(CellModel.of([fit], copies, work.landmarks), work.kernel, X)
    return Part(number, begin, tau, nu, coef, scores, cellwise)


def without_rows(part: Part) -> Part:
    """What a part knows of its rows."""
    return part._replace(cellwise=None)


def rows_of_part(part: Part) -> Matrix:
    """Rows of a part, cell after cell."""
    return part.cellwise.X


def n_rows_of(part: Part) -> int:
    """Rows of a part."""
    return len(part.number)


class PartedTree(NamedTuple):
    """A tree, and the parts of the model that have its cells."""

    tree: Tree
    held: Any  # the tree on the cluster
    together: int  # cells of a part
    parts: list[Any]  # futures of `Part`
    mean: Array
    factor: Array


def parted(session: Session, cells: ClusterCells, n_bytes: float) -> list[PartedTree]:
    """Put chunks of cells together to parts of a size that suits prediction.

    Tree by tree, each of which leaves ``cells``: the cluster holds the rows of one of them twice.
    """
    work, found = session.hold("settings", cells.work), []
    while cells.trees:
        found.append(_parted(session, cells.trees.pop(0), work, n_bytes))
        session.results(session.map("count-rows", n_rows_of, found[-1].parts))  # or what went wrong
    return found


def _parted(session: Session, tree: ClusterTree, work: Any, n_bytes: float) -> PartedTree:
    wanted = max(1, int(np.ceil(n_bytes / min(PART_BYTES, session.room().task))))
    each = max(1, -(-len(tree.cells) // wanted))
    groups = [slice(k, k + each) for k in range(0, len(tree.cells), each)]
    common = session.hold("posterior-of-w", (tree.mean, tree.factor))
    parts = session.map(
        "part-of-model", part_of, [tree.cells[g] for g in groups], [tree.states[g] for g in groups],
        work=work, common=common,
    )  # fmt: skip
    held = session.hold("tree", tree.tree)
    return PartedTree(tree.tree, held, each * tree.together, parts, tree.mean, tree.factor)
