"""EP by cells on a cluster: what `infer_cells` does, with the sweeps of cells as tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.distributed.cells import (
    Told,
    Work,
    begin_visits,
    finish_cells,
    gather_cells,
    gather_sites,
    messages_of_cells,
    not_swept,
    split_by_cell,
    split_sites,
    sum_of_messages,
    sweep_alone,
    told_of,
    visit,
)
from bayespoint.distributed.session import Session
from bayespoint.distributed.tasks import item
from bayespoint.inference.draws import Plan
from bayespoint.inference.ep.cells.cell import Message, united
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.method import (
    CellSettings,
    shown_progress,
    trees_of,
    warn_if_moving,
)
from bayespoint.inference.ep.cells.problem import Sweeping
from bayespoint.inference.ep.cells.tree import Tree
from bayespoint.inference.ep.cells.visits import (
    Steps,
    Sweeps,
    Visits,
    no_message,
    posterior_of,
)

# Chunks of cells: about so many for each thread, which keeps all of them busy to the end, and no
# more, since each takes some tasks; at most so many cells each while that makes no more than so
# many chunks.
CHUNKS_PER_THREAD, CELLS_TOGETHER, MOST_CHUNKS = 32, 8, 1024

# Messages that a task adds: a power of 2.
SUMMED = 8


def cells_together(n_cells: int, room: float, n_threads: int) -> int:
    """Return the cells of a chunk, a power of 2: sums of messages are then the same as without.

    ``room``: as many cells as a task can hold.
    """
    few = n_cells / (CHUNKS_PER_THREAD * n_threads)
    wanted = max(min(few, CELLS_TOGETHER), n_cells / MOST_CHUNKS, 1)
    return int(2 ** min(np.ceil(np.log2(wanted)), np.floor(np.log2(max(room, 1)))))


@dataclass(frozen=True, eq=False, repr=False)
class ClusterTree:
    """Cells of one tree on a cluster.

    Attributes
    ----------
    tree : Tree
    together : int
        Cells of a chunk.
    cells : list of Future
        Of `CellChunk`.
    states : list of Future
        Of `SweepState`.
    mean, factor : ndarray
        Of w, as in `TreeFit`.
    """

    tree: Tree
    together: int
    cells: list[Any]
    states: list[Any]
    mean: Array
    factor: Array


@dataclass(frozen=True, eq=False, repr=False)
class ClusterCells:
    """What EP by cells found; sites stay on the cluster.

    Attributes
    ----------
    trees : list of ClusterTree
    work : Work
    z : ndarray of shape (n_machines, m)
        Outputs that the link is fitted to, the mean over trees.
    log_evidence : ndarray of shape (n_machines,)
        Likewise.
    info : dict
        What a run tells about itself.
    """

    trees: list[ClusterTree]
    work: Work
    z: Array
    log_evidence: Array
    info: dict[str, Any]


class ClusterSweeps(Sweeps):
    """Sweeps of all cells of a tree as tasks on a cluster; sites stay there, sums come back."""

    def __init__(
        self, session: Session, cells: list[Any], together: int, n_cells: int, work: Any,
        n_machines: int, how: Sweeping, begun: bool,
    ) -> None:  # fmt: skip
        self._session, self._cells, self._together, self._work = session, cells, together, work
        self.how, self.n_machines, self.n_cells = how, n_machines, n_cells
        self.begun = begun
        self._known: list[Any] = []  # all of a tree: a lost worker's cells need them again

    def alone(self) -> bool:
        """Sweep each cell until it has converged, or of a first tree those that time allows.

        Whether there was time: a tree beside others that has cells left out would blur them.
        """
        session = self._session
        swept = session.map("sweep-cells", sweep_alone, self._cells, work=self._work)
        in_time = session.wait(swept, self.how.show, self.how.stop)
        if self.how.spare and not in_time:
            session.cancel(swept)
            return False
        done = [in_time or future.done() for future in swept]
        if not any(done):
            session.wait(swept[:1])
            done[0] = True
        late = [k for k, there in enumerate(done) if not there]
        session.cancel([swept[k] for k in late])
        some = [self._cells[k] for k in late]
        prior = session.map("cells-left-out", not_swept, some, work=self._work)
        for k, state in zip(late, prior, strict=True):
            swept[k] = state
        self.states = swept
        return True

    def use(self, landmarks: Landmarks) -> None:  # noqa: ARG002
        """Let each chunk of cells begin; tasks have the landmarks in `Work`."""
        self.states = self._session.map("begin-cells", begin_visits, self._cells, work=self._work)

    def all_messages(self) -> Any:
        """What all cells say of w with the sites that they have, of all machines: a future."""
        told = self._session.map(
            "message-of-cells", messages_of_cells, self._cells, self.states, work=self._work
        )
        return self._summed(told)

    def shared(self, known: Message) -> Any:
        """Put what is known of w on the cluster."""
        self._known = [self._session.hold("prior-of-w", known)]
        return self._known[0]

    def added(self, known: Any, told: Any) -> Any:
        """Add a message to what is known of w, on some worker."""
        if told is None:
            return known
        self._known.append(self._session.submit("posterior-of-w", united, known, told))
        return self._known[-1]

    def fetched(self, known: Any) -> Message:
        """Return what is known of w, here."""
        return self._session.results(known)

    def visited(
        self, numbers: range, visits: Visits | Steps, known: Any
    ) -> tuple[Array, Message | None]:
        """Sweep some cells given what all others say, each chunk in a task."""
        session, size = self._session, self._together
        chunks = range(numbers.start // size, -(-numbers.stop // size))
        cells = [range(k * size, min((k + 1) * size, self.n_cells)) for k in chunks]
        each = (visits.moved, visits.active, visits.damping)
        steps = [Steps(*(values[:, c] for values in each)) for c in cells]
        active = [k for k, step in enumerate(steps) if np.any(step.active)]
        moved = visits.moved[:, numbers]
        if not active:
            return moved, None
        of_active = [chunks[k] for k in active]
        found = session.map(
            "visit-cells", visit, [self._cells[k] for k in of_active],
            [self.states[k] for k in of_active], [steps[k] for k in active],
            work=self._work, known=known,
        )  # fmt: skip
        states, messages, far = (
            session.map(name, item, found, number=place)
            for place, name in enumerate(("sites", "message", "moved"))
        )
        told: list[Any] = [None] * len(chunks)
        for k, state, message in zip(active, states, messages, strict=True):
            self.states[chunks[k]], told[k] = state, message
        total = self._summed(told)
        del found, states, messages, told  # or the cluster would hold them
        for k, of_chunk in zip(active, session.results(far), strict=True):
            first = cells[k].start - numbers.start
            moved[:, first : first + len(cells[k])] = of_chunk
        return moved, total

    def _summed(self, told: list[Any]) -> Any:
        """Sum of messages in an order of its own: see `TreeSum`."""
        while len(told) > 1:
            groups = [told[k : k + SUMMED] for k in range(0, len(told), SUMMED)]
            told = self._session.map("add-messages", sum_of_messages, groups)
        return told[0]

    def set_coefficients(self, mean: Array) -> None:
        """Coefficients of each cell's own part, given the mean of w."""
        held = self._session.hold("mean-of-w", mean)
        self.states = self._session.map(
            "finish-cells", finish_cells, self._cells, self.states, work=self._work, mean=held
        )


class ClusterInference:
    """Finds the sites of all cells of all trees, as `infer_cells` does on one machine.

    Parameters
    ----------
    session : Session
    chunks : list of Future
        Of `ordering.Chunk`.
    X : ClusterMatrix
        The same rows.
    sizes : ndarray of shape (n_chunks,)
        Their rows.
    work : Work
    settings : CellSettings
    plan : Plan
    n_machines : int
    n_bytes : int
        Of all rows.
    """

    def __init__(
        self, session: Session, chunks: list[Any], X: Any, sizes: Array, work: Work,
        settings: CellSettings, plan: Plan, n_machines: int, n_bytes: int,
    ) -> None:  # fmt: skip
        self._n_bytes = n_bytes
        self._session, self._chunks, self._X, self._work = session, chunks, X, work
        self._begin = np.cumsum([0, *sizes])
        self._settings, self._plan, self._n_machines = settings, plan, n_machines
        self._told_work = session.hold("settings", work)

    def infer(self) -> ClusterCells:
        """Sweep the cells of each tree in turn; of those that time allows, one at least."""
        plan, n_trees = self._plan, self._settings.n_trees
        trees: list[ClusterTree] = []
        z = np.zeros((self._n_machines, int(self._begin[-1])))
        evidence, moving, n_cells = [], [], []
        begun = plan.budget.elapsed()
        scale = self._work.kernel.column_scale
        for number, tree in enumerate(trees_of(self._X, self._settings, scale, plan)):
            show = shown_progress(plan, number, n_trees, begun)
            found = self._fit(tree, trees[-1] if trees else None, show)
            if found is None:
                break
            trees.append(found)
            told = self._told(found)
            for part in told:
                z[:, part.number] += part.z
            log_det = np.log(np.diagonal(found.factor, axis1=1, axis2=2)).sum(axis=1)
            evidence.append(
                np.concatenate([t.evidence for t in told], axis=1).sum(axis=1) - log_det
            )
            change = (
                self._change
                if self._change is not None
                else np.concatenate([t.change for t in told], axis=1)
            )
            moving.append(int(np.sum(change > self._work.tol)))
            n_cells.append(tree.n_cells)
        plan.budget.close()
        warn_if_moving(np.array(moving), np.array(n_cells) * self._n_machines, plan)
        mean_evidence = np.mean(evidence, axis=0)
        info = {"cells": n_cells, "moving": moving, "log_evidence": mean_evidence}
        return ClusterCells(trees, self._work, z / len(trees), mean_evidence, info)

    def _told(self, tree: ClusterTree) -> list[Told]:
        told = self._session.map("outputs-left-out", told_of, tree.cells, tree.states)
        return self._session.results(told)

    def _fit(
        self, tree: Tree, before: ClusterTree | None, show: Callable[[int, int], None]
    ) -> ClusterTree | None:
        """Sweep the cells of a tree; None if there was no time for it, and there are others."""
        room = self._session.room()
        n_held = room.task / (self._n_bytes / tree.n_cells)
        together = cells_together(tree.n_cells, n_held, room.n_threads)
        held = self._session.hold("tree", tree)
        cells = self._to_cells(tree, held, together, self._sites(before))
        how = Sweeping(
            tol=self._work.tol, stop=self._plan.budget.spent, show=show, spare=before is not None
        )
        sweeps = ClusterSweeps(
            self._session, cells, together, tree.n_cells, self._told_work, self._n_machines, how,
            before is not None,
        )  # fmt: skip
        landmarks, self._change = self._work.landmarks, None
        if landmarks is None:
            if not sweeps.alone():
                return None
            mean, factor = posterior_of(*no_message(self._n_machines, 0))
        else:
            known = sweeps.around(landmarks)
            if how.spare and how.stop():
                return None
            mean, factor = posterior_of(*known)
            sweeps.set_coefficients(mean)
            self._change = sweeps.change
        return ClusterTree(tree, together, cells, sweeps.states, mean, factor)

    def _to_cells(self, tree: Tree, held: Any, together: int, start: list[Any]) -> list[Any]:
        """Send all rows to their cells, with sites to begin with."""
        session, n_chunks = self._session, -(-tree.n_cells // together)
        split = session.map(
            "split-by-cell", split_by_cell, self._chunks, start, self._begin[:-1].tolist(),
            tree=held, together=together,
        )  # fmt: skip
        pieces = session.transposed("rows-to-cells", split, n_chunks)
        first = [number * together for number in range(n_chunks)]
        size = [min(together, tree.n_cells - one) for one in first]
        return session.map("gather-cells", gather_cells, pieces, first, size)

    def _sites(self, before: ClusterTree | None) -> list[Any]:
        """Return the sites of the tree before in the order of all rows; None where there is none.

        Sites of another tree are nearly those of this one.
        """
        session = self._session
        if before is None:
            return [None] * len(self._chunks)
        split = session.map(
            "split-sites", split_sites, before.cells, before.states, offsets=self._begin
        )
        pieces = session.transposed("sites-in-order", split, len(self._chunks))
        return session.map("gather-sites", gather_sites, pieces)
