"""Sites of all cells of a tree: each cell by itself, or in turn around landmarks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support import lapack
from bayespoint._support.types import Array
from bayespoint.inference.ep.cells.cell import (
    CellState,
    Message,
    TreeSum,
    cavities,
    message_of,
    own_part,
    propagate_cell,
)
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.memory import WAVE
from bayespoint.inference.ep.cells.problem import CellProblem, Sweeping, TreeFit
from bayespoint.inference.ep.cells.tree import Tree
from bayespoint.inference.ep.cells.visits import Steps, Sweeps, Visits, no_message, posterior_of
from bayespoint.inference.ep.sites import Sites

# Sweeps of a cell by itself, and of a visit with landmarks, at most.
MOST_SWEEPS, VISIT_SWEEPS = 60, 3

# Least variance of an output, of those near 1: keeps scores finite, in single precision, too.
TINY = 1e-12


def fit_tree(
    problem: CellProblem, tree: Tree, landmarks: Landmarks | None, how: Sweeping,
    start: Any = None,
) -> TreeFit | None:  # fmt: skip
    """Find the sites of all cells of a tree.

    Parameters
    ----------
    problem : CellProblem
    tree : Tree
    landmarks : Landmarks or None
        None: cells alone.
    how : Sweeping
    start : tau and nu, optional
        Sites to begin with.
    """
    cell_of = problem.sweeps.route(tree, problem)
    order = np.argsort(cell_of, kind="stable")
    begin = np.searchsorted(cell_of[order], np.arange(tree.n_cells + 1))
    return fit_cells(problem, tree, order, begin, landmarks, how, start)


def fit_cells(
    problem: CellProblem, tree: Tree, order: Array, begin: Array,
    landmarks: Landmarks | None, how: Sweeping, start: tuple[Array, Array] | None = None,
    lost: Message | None = None,
) -> TreeFit | None:  # fmt: skip
    """Find the sites of cells; ``order`` and ``begin`` as in `TreeFit`.

    ``lost``: what rows that are held no more say of w, of all machines. None if it was stopped,
    where that is no loss.
    """
    work = problem.sweeps(problem, order, begin, how, start)
    if landmarks is None:
        work.alone()
        known = no_message(len(problem.targets), 0)
    else:
        known = work.around(landmarks, lost)
    if how.spare and how.stop():
        return None
    work.forget_unvisited()
    mean, factor = posterior_of(*known)
    if landmarks is not None:
        work.set_coefficients(mean)
    evidence = work.evidence.sum(axis=1)
    evidence -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    return TreeFit(
        tree, order, begin, work.tau, work.nu, work.coef, work.scores, mean, factor, evidence,
        int(np.sum(work.change > how.tol)), np.all(np.isfinite(work.change), axis=0),
    )  # fmt: skip


class SweepState(NamedTuple):
    """What sweeps of cells go on with: as in `TreeFit`, and what is known of each cell."""

    tau: Array
    nu: Array
    coef: Array
    scores: Array
    mean: Array  # (n_machines, m), of outputs at the last visit
    change: Array  # (n_machines, n_cells), of sites, at the last sweep
    evidence: Array  # (n_machines, n_cells)
    by_sites: Array  # (n_machines, n_cells), the part of it that each site has by itself


class CellSweeps(Sweeps):
    """Sweeps of all cells of a tree, one cell a thread; arrays over all rows, which cells fill in.

    `on_device.DeviceSweeps` is the same on a GPU.
    """

    def __init__(
        self, problem: CellProblem, order: Array, begin: Array, how: Sweeping,
        start: tuple[Array, Array] | None,
    ) -> None:  # fmt: skip
        shape, n_cells = problem.targets.shape, len(begin) - 1
        self.problem, self.how = problem, how
        self.n_machines, self.n_cells = shape[0], n_cells
        self._left_out: Any = self.left_out()
        self.cells = [order[begin[i] : begin[i + 1]] for i in range(n_cells)]
        if start is None:
            start = np.full(shape, np.nan), np.zeros(shape)
        self.tau, self.nu = (sites.copy() for sites in start)
        self.begun = not np.any(np.isnan(self.tau))
        self.coef, self.scores = np.zeros(shape), np.zeros((3, *shape))
        self.mean = np.full(shape, np.nan)
        self.change = np.full((shape[0], n_cells), np.inf)
        # Until a cell is visited, its labels are as good as tossed.
        tossed = [-np.log(2) * np.sum(problem.copies[rows]) for rows in self.cells]
        self.evidence, self.by_sites = (np.tile(tossed, (shape[0], 1)) for _ in range(2))

    @staticmethod
    def route(tree: Tree, problem: CellProblem) -> Array:
        """Return the number of the cell of each row."""
        return tree.route(problem.X)

    def left_out(self) -> list[Array]:
        """Copies of each row that are left out: for the link, and for people."""
        copies, own = self.problem.copies, np.minimum(self.problem.own, self.problem.copies)
        kinds = (np.where(self.problem.alone, copies, own), own)
        return [np.minimum(np.maximum(out, 1.0), copies) for out in kinds]

    def state(self) -> SweepState:
        """Return what others can go on with."""
        return SweepState(*(getattr(self, name) for name in SweepState._fields))

    def go_on(self, state: SweepState) -> None:
        """Go on with what others have found, and leave it as it is."""
        for name, values in zip(state._fields, state, strict=True):
            setattr(self, name, values.copy())

    def _each(self, solve: Callable[[int], Any], numbers: range) -> list[Any]:
        """Solve cells, as many at a time as there is memory for."""
        return self.how.threads.each(solve, numbers, self.how.memory.at_once)

    def forget_unvisited(self) -> None:
        """Let cells that time did not allow for know what the prior knows."""
        self.tau[np.isnan(self.tau)] = 0.0

    # ------------------------------------------------------------------------ cells alone

    def alone(self) -> None:
        """Sweep each cell until it has converged."""
        step = WAVE * 4
        for first in range(0, len(self.cells), step):
            if first and self.how.stop():
                break
            numbers = range(first, min(first + step, len(self.cells)))
            self._each(self._alone, numbers)
            self.how.show(numbers.stop, len(self.cells))

    def _alone(self, number: int) -> None:
        rows = self.cells[number]
        if not len(rows):
            self.change[:, number] = 0
        if not len(rows) or (number and self.how.stop()):
            return
        points = self.problem.points(rows)
        K = self.problem.kernel.between(points, points)
        absent: CellState | None = None  # machines without a row of their class are all equal
        for machine in range(len(self.tau)):
            present = np.any(self.problem.targets[machine, rows] > 0)
            if not present and len(self.tau) > 1 and absent is not None:
                state = absent
            else:
                nothing = np.zeros(len(rows))
                state = self._propagate(machine, rows, K, nothing, MOST_SWEEPS, self.how.tol)
            if not present:
                absent = state
            self._keep(machine, number, rows, state)
            self.coef[machine, rows] = state.gaussian.coef

    def _propagate(
        self, machine: int, rows: Array, C: Array, mean: Array, max_sweeps: int, tol: float,
        damping: float = 1.0,
    ) -> CellState:  # fmt: skip
        likelihood = self.problem.likelihood(machine, rows)
        tau = self.tau[machine, rows]
        start = None if np.any(np.isnan(tau)) else Sites(tau, self.nu[machine, rows])
        return propagate_cell(
            C, mean, likelihood, start, tol=tol, max_sweeps=max_sweeps, dtype=self.how.dtype,
            damping=damping,
        )  # fmt: skip

    def _keep(self, machine: int, number: int, rows: Array, state: CellState) -> None:
        self.tau[machine, rows], self.nu[machine, rows] = state.sites
        self.change[machine, number] = state.change
        self.evidence[machine, number] = state.log_evidence
        self.by_sites[machine, number] = state.by_sites
        for kind, left_out in enumerate(self._left_out):
            mean, variance = cavities(state.gaussian, state.sites, left_out[rows])
            total = variance + self.problem.ridge[rows]
            self.scores[kind, machine, rows] = mean / np.sqrt(total)
        self.scores[-1, machine, rows] = mean / np.sqrt(np.maximum(variance, TINY))

    # ------------------------------------------------------------------- around landmarks

    def use(self, landmarks: Landmarks) -> None:
        """Have features that are common to all cells."""
        self.landmarks = landmarks
        self.said: dict[tuple[int, int], Message] = {}  # the last messages, where there is room
        n_bytes = 8 * self.n_machines * self.n_cells * landmarks.projection.shape[1] ** 2
        self.keeps = n_bytes <= self.how.memory.kept

    def visited(
        self, numbers: range, visits: "Visits | Steps", known: Message
    ) -> tuple[Array, Message | None]:
        """Sweep some cells given what all others say, a few at a time."""
        self.active, self.damping = visits.active, visits.damping
        moved, told = visits.moved[:, numbers], TreeSum()
        for first in range(0, len(numbers), WAVE):
            part = numbers[first : first + WAVE]
            at = slice(first, first + len(part))
            moved[:, at], message = self._wave(part, moved[:, at], *known)
            told.add(message)
            if self.how.stop():
                break
        return moved, told.total()

    def _wave(
        self, numbers: range, moved: Array, precision: Array, shift: Array
    ) -> tuple[Array, Message | None]:
        """Sweep a few cells at a time: see `visited`."""
        found = self._each(lambda i: self._visit(i, precision, shift), numbers)
        moved = np.where(self.active[:, numbers], np.stack([f[0] for f in found], axis=1), moved)
        told = TreeSum()
        for _, message in found:
            told.add(message)
        return moved, told.total()

    def _visit(self, number: int, precision: Array, shift: Array) -> tuple[Array, Message | None]:
        """Sweep one cell given what all others say; how its message changes."""
        rows = self.cells[number]
        n_machines = len(self.tau)
        if not len(rows) or not np.any(self.active[:, number]):
            return np.zeros(n_machines), None
        features, R = self._own(rows)
        moved, differences, n_common = np.zeros(n_machines), [], features.shape[1]
        for machine in range(n_machines):
            if not self.active[machine, number]:
                differences.append(Message(np.zeros((n_common, n_common)), np.zeros(n_common)))
                continue
            before = self.said.get((machine, number))
            if before is None:
                before = self._message(machine, rows, R, features)
            A, h = precision[machine] - before.precision, shift[machine] - before.shift
            half, mean = _prior(A, h, features)
            # However small its steps are, a cell takes them, since those of all cells add up:
            # what counts is where outputs have gone.
            damping = self.damping[machine, number]
            state = self._propagate(
                machine, rows, R + half.T @ half, mean, VISIT_SWEEPS, 0.0, damping
            )
            drift = np.abs(state.gaussian.mean - self.mean[machine, rows])
            drift = np.max(drift / np.sqrt(state.gaussian.variance))
            moved[machine] = np.inf if np.isnan(drift) else max(state.moved, drift)
            self.mean[machine, rows] = state.gaussian.mean
            self._keep(machine, number, rows, state)
            after = self._message(machine, rows, R, features)
            if self.keeps:
                self.said[machine, number] = after
            differences.append(
                Message(after.precision - before.precision, after.shift - before.shift)
            )
        return moved, _of_machines(differences)

    def _own(self, rows: Array) -> tuple[Array, Array]:
        """Features of rows, and the part of their Gram matrix that these leave over."""
        kernel, points = self.problem.kernel, self.problem.points(rows)
        features = self.landmarks.features(kernel, points)
        return features, kernel.between(points, points) - features @ features.T

    def all_messages(self) -> Message:
        """What all cells say of w with the sites that they have, of all machines."""
        told = TreeSum()
        for first in range(0, len(self.cells), WAVE):  # messages of a wave are held at a time
            part = range(first, min(first + WAVE, len(self.cells)))
            for message in self._each(self._messages, part):
                told.add(_of_machines(message))
        n_machines, n_common = len(self.tau), self.landmarks.projection.shape[1]
        return told.total() or Message(
            np.zeros((n_machines, n_common, n_common)), np.zeros((n_machines, n_common))
        )

    def _messages(self, number: int) -> list[Message]:
        rows = self.cells[number]
        if not len(rows):
            return []
        features, R = self._own(rows)
        return [self._message(machine, rows, R, features) for machine in range(len(self.tau))]

    def _message(self, machine: int, rows: Array, R: Array, features: Array) -> Message:
        tau = self.tau[machine, rows]
        if np.any(np.isnan(tau)):  # nothing said so far
            n = features.shape[1]
            return Message(np.zeros((n, n)), np.zeros(n))
        sites = Sites(tau, self.nu[machine, rows])
        part = own_part(R, features, sites, self.problem.copies[rows], self.how.dtype)
        return message_of(part, features)

    def set_coefficients(self, mean: Array) -> None:
        """Coefficients of each cell's own part, given the mean of w, and parts of the evidence."""

        def one(number: int) -> None:
            rows = self.cells[number]
            if not len(rows):
                return
            features, R = self._own(rows)
            for machine in range(len(self.tau)):
                sites = Sites(self.tau[machine, rows], self.nu[machine, rows])
                if not np.any(sites.tau) and not np.any(sites.nu):  # not visited
                    continue
                part = own_part(R, features, sites, self.problem.copies[rows], self.how.dtype)
                common = features @ mean[machine]
                coef = part.coef - part.factor.solve(common)
                self.coef[machine, rows] = coef
                pull = self.problem.copies[rows] * sites.nu
                self.evidence[machine, number] = (
                    self.by_sites[machine, number] - part.factor.log_determinant
                    + 0.5 * pull @ (common + R @ coef)
                )  # fmt: skip

        self._each(one, range(len(self.cells)))


def _prior(A: Array, h: Array, features: Array) -> tuple[Array, Array]:
    """L^-1 Phi' with A = L L', whose square is Phi A^-1 Phi', and the mean Phi A^-1 h."""
    lower = np.asfortranarray(np.linalg.cholesky(A))
    columns = np.column_stack([features.T, h])
    solved = lapack.solve(lower, np.asfortranarray(columns))
    return solved[:, :-1], solved[:, :-1].T @ solved[:, -1]


def _of_machines(messages: list[Message]) -> Message | None:
    """Messages of all machines as one; None where there are none."""
    return Message(*map(np.array, zip(*messages, strict=True))) if messages else None


def messages_of(
    problem: CellProblem, order: Array, begin: Array, landmarks: Landmarks, how: Sweeping,
    sites: tuple[Array, Array],
) -> Message:  # fmt: skip
    """Return what cells say of w with these sites, of all machines."""
    work = problem.sweeps(problem, order, begin, how, sites)
    work.use(landmarks)
    return work.all_messages()
