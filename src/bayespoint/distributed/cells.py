"""Cells on a cluster: rows go to them once a tree, and tasks sweep chunks of them."""

import itertools
import sys
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.ordering import Chunk, stacked
from bayespoint.distributed.tasks import computing
from bayespoint.estimators.settings import Settings
from bayespoint.estimators.trials import problem_of
from bayespoint.inference.engines import place_of
from bayespoint.inference.ep.cells.cell import Message, TreeSum
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.memory import Memory
from bayespoint.inference.ep.cells.method import cell_problem
from bayespoint.inference.ep.cells.problem import Sweeping
from bayespoint.inference.ep.cells.sweeps import SweepState
from bayespoint.inference.ep.cells.tree import Tree
from bayespoint.inference.ep.cells.visits import Steps
from bayespoint.space.kernels import Kernel
from bayespoint.space.merging import DistinctRows


class CellChunk(NamedTuple):
    """Rows of some cells in a row, cell after cell."""

    X: Matrix
    number: Array  # of the rows in the order of all
    label: Array
    weight: Array
    own: Array
    alone: Array
    begin: Array  # (n_cells + 1,), where cells begin
    start: Array | None  # (2, n_machines, n), sites to begin with


class Work(NamedTuple):
    """What tasks on cells are told, the same for all."""

    kernel: Kernel  # its layout is fitted
    settings: Settings
    classes: list[Any]
    device: str
    tol: float
    landmarks: Landmarks | None
    keeps: bool = False  # messages of cells from visit to visit


# ---------------------------------------------------------------------- rows go to cells


class CellPiece(NamedTuple):
    """Rows that go from a chunk of the order to a chunk of cells, and sites to begin with."""

    chunk: Chunk
    number: Array
    cell: Array
    start: Array | None


class SitePiece(NamedTuple):
    """Sites that go from a chunk of cells back to a chunk of the order."""

    number: Array
    sites: Array  # (2, n_machines, n)


def split_by_cell(
    chunk: Chunk, start: Array | None, offset: int, tree: Tree, together: int
) -> list[CellPiece]:
    """Divide the rows of a chunk of the order by chunks of so many cells."""
    cell_of = tree.route(chunk.X)
    order = np.argsort(cell_of, kind="stable")
    n_chunks = -(-tree.n_cells // together)
    ends = np.searchsorted(cell_of[order], together * np.arange(n_chunks + 1))
    none = np.empty(0, dtype=np.int64)
    pieces = []
    for first, last in itertools.pairwise(ends):
        rows = order[first:last]
        part = Chunk(
            chunk.X[rows], chunk.label[rows], chunk.weight[rows], chunk.own[rows],
            chunk.alone[rows], none, none, none, none,
        )  # fmt: skip
        sites = None if start is None else start[..., rows]
        pieces.append(CellPiece(part, offset + rows, cell_of[rows], sites))
    return pieces


def gather_cells(pieces: list[CellPiece], first: int, n_cells: int) -> CellChunk:
    """Put the rows of some cells together, in the order of all."""
    number, cell = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("number", "cell")
    )
    order = np.lexsort([number, cell])
    X = stacked([piece.chunk.X for piece in pieces])[order]
    label, weight, own, alone = (
        np.concatenate([getattr(piece.chunk, name) for piece in pieces])[order]
        for name in ("label", "weight", "own", "alone")
    )
    begin = np.searchsorted(cell[order], first + np.arange(n_cells + 1))
    sites = [piece.start for piece in pieces if piece.start is not None]
    start = np.concatenate(sites, axis=2)[..., order] if sites else None
    return CellChunk(X, number[order], label, weight, own, alone, begin, start)


def split_sites(cells: CellChunk, state: SweepState, offsets: Array) -> list[SitePiece]:
    """Divide the sites of a chunk of cells by chunks of the order."""
    chunk_of = np.searchsorted(offsets, cells.number, side="right") - 1
    sites = np.stack([state.tau, state.nu])
    return [
        SitePiece(cells.number[rows], sites[..., rows])
        for rows in (np.flatnonzero(chunk_of == k) for k in range(len(offsets) - 1))
    ]


def gather_sites(pieces: list[SitePiece]) -> Array:
    """Sites of the rows of a chunk of the order, from all cells, (2, n_machines, n)."""
    order = np.argsort(np.concatenate([piece.number for piece in pieces]))
    return np.concatenate([piece.sites for piece in pieces], axis=2)[..., order]


# ---------------------------------------------------------------------- sweeps


def _sweeps(cells: CellChunk, work: Work, start: Any) -> Any:
    """Return sweeps of the cells of a chunk, on the host or on a GPU that this worker has."""
    n_rows, place = len(cells.label), place_of(work.device)
    inputs = place.inputs_of(cells.X)
    none, threads = np.empty(0, dtype=np.int64), Threads(1)
    distinct = DistinctRows(np.arange(n_rows), cells.label, cells.weight, none, "", none)
    problem = problem_of(
        work.kernel, inputs, distinct, work.settings, work.classes, cache_bytes=0, threads=threads
    )
    part = cell_problem(problem, work.kernel, inputs, cells.alone, cells.own)
    memory = Memory(1, sys.maxsize if work.keeps else 0)
    how = Sweeping(tol=work.tol, threads=threads, memory=memory)
    made = part.sweeps(part, np.arange(n_rows), cells.begin, how, start)
    if work.landmarks is not None:
        made.use(work.landmarks)
    return made


@computing
def sweep_alone(cells: CellChunk, work: Work) -> SweepState:
    """Sweep each cell of a chunk until it has converged."""
    made = _sweeps(cells, work, cells.start)
    made.alone()
    return made.state()


def not_swept(cells: CellChunk, work: Work) -> SweepState:
    """Return what is known of cells that time did not allow for: the prior."""
    made = _sweeps(cells, work, None)
    made.forget_unvisited()
    return made.state()


class Kept(NamedTuple):
    """What is known of the cells of a chunk between two visits."""

    state: SweepState
    said: dict[tuple[int, int], Message]  # their last messages, where there is room


class Visited(NamedTuple):
    """What a visit of the cells of a chunk leaves."""

    kept: Kept
    told: Message | None  # what their messages change by
    moved: Array  # (n_machines, n_cells)


def begin_visits(cells: CellChunk, work: Work) -> Kept:
    """Return the state of cells before the first visit."""
    return Kept(_sweeps(cells, work, cells.start).state(), {})


@computing
def messages_of_cells(cells: CellChunk, kept: Kept, work: Work) -> Message | None:
    """What the sites of cells say of w."""
    sites = kept.state.tau, kept.state.nu
    return _sweeps(cells, work, sites).all_messages() if len(cells.label) else None


@computing
def visit(cells: CellChunk, before: Kept, steps: Steps, work: Work, known: Message) -> Visited:
    """Visit the cells of a chunk, given what is known of w."""
    made = _sweeps(cells, work, (before.state.tau, before.state.nu))
    made.go_on(before.state)
    made.said.update(before.said)
    moved, told = made.visited(range(len(cells.begin) - 1), steps, known)
    return Visited(Kept(made.state(), made.said), told, moved)


def sum_of_messages(messages: list[Message | None]) -> Message | None:
    """Add some messages, a power of 2 of them, in the order of `TreeSum`."""
    told = TreeSum()
    for message in messages:
        told.add(message)
    return told.total()


@computing
def finish_cells(cells: CellChunk, kept: Kept, work: Work, mean: Array) -> SweepState:
    """Return the state of cells around landmarks with coefficients, given the mean of w."""
    made = _sweeps(cells, work, None)
    made.go_on(kept.state)
    made.forget_unvisited()
    made.set_coefficients(mean)
    return made.state()


class Told(NamedTuple):
    """What the client needs of a chunk of a tree that is fitted."""

    number: Array
    z: Array  # (n_machines, n), for the link
    evidence: Array  # (n_machines, n_cells)
    change: Array  # likewise


def told_of(cells: CellChunk, state: SweepState) -> Told:
    """Return what the link is fitted to, and the evidence."""
    return Told(cells.number, state.scores[0], state.evidence, state.change)
