"""Sweeps of all cells of a tree, and predictions by them, in the memory of a GPU.

Imported by `bayespoint.inference.engines` where rows are on a GPU.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from bayespoint._support.types import Array
from bayespoint.gpu.kernels import DevicePoints, exact_products
from bayespoint.gpu.transfer import to_device
from bayespoint.inference.ep.cells.batches import (
    BatchFactor,
    BatchKernel,
    BatchState,
    Labels,
    batches,
    cavities,
    padded,
    propagate,
    route,
)
from bayespoint.inference.ep.cells.cell import Message
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.sweeps import MOST_SWEEPS, TINY, VISIT_SWEEPS, CellSweeps
from bayespoint.space.kernels import Kernel


class DeviceSweeps(CellSweeps):
    """Sweeps of all cells of a tree in batches."""

    def __init__(self, problem: Any, *others: Any) -> None:
        super().__init__(problem, *others)
        self._device = problem.tensor.device
        self._sizes = np.array([len(rows) for rows in self.cells])
        self._kernel = BatchKernel(problem.kernel, problem.tensor)
        each = (problem.targets, problem.odds, problem.log_right)
        self._of_machine = [self._there(values) for values in each]
        self._ridge, self._copies = (self._there(v) for v in (problem.ridge, problem.copies))
        self._left_out = [self._there(values) for values in self.left_out()]

    @staticmethod
    def route(tree: Any, problem: Any) -> Array:
        """Return the number of the cell of each row."""
        return route(tree, problem.tensor).cpu().numpy()

    def _rows_of(self, numbers: Any) -> Array:
        return np.concatenate([self.cells[i] for i in numbers])

    def _there(self, values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device).double()

    @exact_products()
    def alone(self) -> None:
        """Sweep each cell until it has converged."""
        done = 0
        for numbers in batches(self._sizes, 0, self._device):
            if done and self.how.stop():
                return
            rows, there = padded([self.cells[i] for i in numbers], self._device)
            points = self._kernel.points.take(rows)
            K = self._kernel.values(points, points)
            for machine in range(len(self.tau)):
                prior = K.new_zeros(rows.shape)
                state = self._propagated(machine, numbers, rows, there, K, prior, self.how.tol)
                self._keep_batch(machine, numbers, rows, there, state)
                self.change[machine, numbers] = state.change.cpu().numpy()
                self._set(self.coef, machine, numbers, there, state.coef)
            done += len(numbers)
            self.how.show(done, len(self.cells))

    def _labels(self, machine: int, rows: Any, there: Any) -> Labels:
        y, odds, log_right = (values[machine][rows] for values in self._of_machine)
        copies = self._copies[rows]
        return Labels(y, self._ridge[rows], odds / copies, log_right / copies, copies * there)

    def _propagated(
        self, machine: int, numbers: Any, rows: Any, there: Any, C: Any, prior: Any, tol: float,
        max_sweeps: int = MOST_SWEEPS, damping: Any = None,
    ) -> BatchState:  # fmt: skip
        labels, start = self._labels(machine, rows, there), None
        if not np.any(np.isnan(self.tau[machine, self._rows_of(numbers)])):
            start = [self._got(values, machine, rows) for values in (self.tau, self.nu)]
        return propagate(C, prior, labels, start, tol=tol, max_sweeps=max_sweeps, damping=damping)

    def _got(self, values: Array, machine: int, rows: torch.Tensor) -> torch.Tensor:
        return self._there(values[machine][rows.cpu().numpy()])

    def _set(self, values: Array, machine: int, numbers: Any, there: Any, found: Any) -> None:
        """Write what was found of a batch where its rows are."""
        values[machine, self._rows_of(numbers)] = found[there].cpu().numpy()

    def _keep_batch(
        self, machine: int, numbers: Any, rows: Any, there: Any, state: BatchState
    ) -> None:
        self._set(self.tau, machine, numbers, there, state.tau)
        self._set(self.nu, machine, numbers, there, state.nu)
        self.evidence[machine, numbers] = state.log_evidence.cpu().numpy()
        self.by_sites[machine, numbers] = state.by_sites.cpu().numpy()
        for kind, left_out in enumerate(self._left_out):
            given, eps = (state.mean, state.variance), state.eps[:, None]
            mean, variance = cavities(given, state.tau, state.nu, left_out[rows], eps)
            z = mean / (variance + self._ridge[rows]).sqrt()
            self._set(self.scores[kind], machine, numbers, there, z)
        z = mean / variance.clamp(min=TINY).sqrt()
        self._set(self.scores[-1], machine, numbers, there, z)

    # ------------------------------------------------------------------- around landmarks

    def use(self, landmarks: Landmarks) -> None:
        """Have features that are common to all cells."""
        super().use(landmarks)
        self._kernel = BatchKernel(self.problem.kernel, self.problem.tensor, landmarks)

    @exact_products()
    def _wave(
        self, numbers: Any, moved: Array, precision: Array, shift: Array
    ) -> tuple[Array, Message | None]:
        """Sweep a few cells at a time: see `visited`."""
        moved, told = moved.copy(), []
        for machine in range(len(self.tau)):
            chosen = self.active[machine, numbers] & (self._sizes[numbers] > 0)
            moved[machine, self._sizes[numbers] == 0] = 0.0
            at = np.asarray(numbers)[chosen]
            change = [np.zeros_like(precision[machine]), np.zeros_like(shift[machine])]
            if len(at):
                moved[machine, chosen], change = self._visited(
                    machine, at, precision[machine], shift[machine]
                )
            told.append(Message(*change))
        return moved, Message(*(np.array(part) for part in zip(*told, strict=True)))

    def _visited(
        self, machine: int, at: Array, precision: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Sweep some cells of one machine: how far they went, and what their messages change by."""
        rows, there = padded([self.cells[i] for i in at], self._device)
        F, R = self._own_batch(rows)
        before = self._said_before(machine, at, rows, there, F, R)
        lower = torch.linalg.cholesky(self._there(precision) - before[0])
        h = self._there(shift) - before[1]
        half = torch.linalg.solve_triangular(lower, F.mT, upper=False)
        prior = (F @ torch.cholesky_solve(h[..., None], lower))[..., 0]
        state = self._propagated(
            machine, at, rows, there, R + half.mT @ half, prior, 0.0, VISIT_SWEEPS,
            self._there(self.damping[machine, at]),
        )  # fmt: skip
        drift = (state.mean - self._got(self.mean, machine, rows)).abs()
        drift = torch.where(there, drift / state.variance.sqrt(), 0.0).amax(dim=-1)
        drift = torch.where(drift.isnan(), np.inf, drift)
        self._set(self.mean, machine, at, there, state.mean)
        self._keep_batch(machine, at, rows, there, state)
        after = self._said_now(machine, at, rows, there, F, R)
        for k, number in enumerate(at.tolist() if self.keeps else ()):
            self.said[machine, number] = Message(*(part[k] for part in after))  # type: ignore
        both = zip(after, before, strict=True)
        return torch.maximum(state.moved, drift).cpu().numpy(), [
            (now - then).sum(dim=0).cpu().numpy() for now, then in both
        ]

    def _own_batch(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        points = self._kernel.points.take(rows)
        F = self._kernel.features(points)
        return F, self._kernel.own(points, points, F, F)

    def _said_before(self, machine: int, numbers: Any, *others: Any) -> list[torch.Tensor]:
        """What cells said last, held or computed again."""
        said: Any = [self.said.get((machine, number)) for number in numbers]
        if None in said:
            return self._said_now(machine, numbers, *others)
        return [torch.stack(parts) for parts in zip(*said, strict=True)]

    def _said_now(
        self, machine: int, numbers: Any, rows: Any, there: Any, F: Any, R: Any
    ) -> list[torch.Tensor]:
        """What the sites of cells say of w: precisions and shifts."""
        if np.any(np.isnan(self.tau[machine, self._rows_of(numbers)])):  # nothing so far
            n = F.shape[-1]
            return [F.new_zeros((len(numbers), n, n)), F.new_zeros((len(numbers), n))]
        factor, coef = self._own_part(machine, rows, there, R)
        spread = factor.half(F).double()
        return [spread.mT @ spread, (F.mT @ coef[..., None])[..., 0]]

    def _own_part(self, machine: int, rows: Any, there: Any, R: Any) -> tuple[BatchFactor, Any]:
        copies = self._copies[rows] * there
        tau, nu = (copies * self._got(values, machine, rows) for values in (self.tau, self.nu))
        factor = BatchFactor(R, tau)
        return factor, nu - factor.solve((R @ nu[..., None])[..., 0])

    @exact_products()
    def _messages(self, number: int) -> list[Message]:
        rows, there = padded([self.cells[number]], self._device)
        F, R = self._own_batch(rows)
        said = (
            self._said_now(machine, [number], rows, there, F, R) for machine in range(len(self.tau))
        )
        return [Message(*(part[0].cpu().numpy() for part in parts)) for parts in said]

    @exact_products()
    def set_coefficients(self, mean: Array) -> None:
        """Coefficients of each cell's own part, given the mean of w, and parts of the evidence."""
        for numbers in batches(self._sizes, mean.shape[1], self._device):
            rows, there = padded([self.cells[i] for i in numbers], self._device)
            F, R = self._own_batch(rows)
            for machine in range(len(self.tau)):
                factor, own = self._own_part(machine, rows, there, R)
                common = F @ self._there(mean[machine])
                coef = own - factor.solve(common)
                self._set(self.coef, machine, numbers, there, coef)
                pull = self._copies[rows] * there * self._got(self.nu, machine, rows)
                each = pull * (common + (R @ coef[..., None])[..., 0])
                found = 0.5 * each.sum(dim=-1) - factor.log_determinant
                self.evidence[machine, numbers] = (
                    self.by_sites[machine, numbers] + found.cpu().numpy()
                )


# ------------------------------------------------------------------------------ prediction


@exact_products()
def latent(model: Any, kernel: Kernel, X: torch.Tensor, new: torch.Tensor) -> Array:
    """Means and variances of outputs at new rows by all trees: as `Cellwise.latent`.

    Parameters
    ----------
    model : CellModel
    kernel : Kernel
    X : tensor of shape (m, n_features)
        Training rows.
    new : tensor of shape (n, n_features)

    Returns
    -------
    ndarray of shape (n_trees, 2, n_machines, n)
    """
    marks = None if model.landmarks is None else Landmarks(model.landmarks, model.projection)
    tools = BatchKernel(kernel, X, marks)
    asked = tools.prepared(new)
    n_trees, n_machines = len(model.roots), len(model.tau)
    found = torch.empty((n_trees, 2, n_machines, len(new)), dtype=torch.float64, device=X.device)
    for number in range(n_trees):
        cell_of = route(model, new, int(model.roots[number])).cpu().numpy()
        order = np.argsort(cell_of, kind="stable")
        cells, begin = np.unique(cell_of[order], return_index=True)
        parts = np.split(order, begin[1:])
        sizes = np.diff(model.begin)[cells]
        # New rows of a cell are as many as rows it has, or there are several parts of it.
        pieces = [
            (cell, part[first : first + max(size, 1)])
            for cell, part, size in zip(cells, parts, sizes, strict=True)
            for first in range(0, len(part), max(size, 1))
        ]
        largest = np.array([max(np.diff(model.begin)[cell], 1) for cell, _ in pieces])
        for chosen in batches(largest, model.common_mean.shape[-1], X.device):
            _in_cells(model, tools, asked, number, [pieces[i] for i in chosen], found[number])
    return found.cpu().numpy()


@exact_products()
def latent_in_cells(
    model: Any, kernel: Kernel, X: torch.Tensor, trained: Array, asked: Sequence[Array]
) -> Array:
    """Means and variances by one tree at rows whose cells are known: see `outputs_in_cells`.

    ``X`` has all rows, of which some were ``trained`` with, and those of each cell are ``asked``.
    """
    marks = None if model.landmarks is None else Landmarks(model.landmarks, model.projection)
    rows, new = (X[to_device(index, X.device)] for index in (trained, np.concatenate(asked)))
    tools = BatchKernel(kernel, rows, marks)
    points = tools.prepared(new)
    found = torch.empty((2, len(model.tau), len(new)), dtype=torch.float64, device=X.device)
    ends = np.cumsum([len(part) for part in asked])
    parts = enumerate(np.split(np.arange(len(new)), ends[:-1]))
    pieces = [(cell, part) for cell, part in parts if len(part)]
    largest = np.array([max(np.diff(model.begin)[cell], len(part)) for cell, part in pieces])
    for chosen in batches(largest, model.common_mean.shape[-1], X.device):
        _in_cells(model, tools, points, 0, [pieces[i] for i in chosen], found)
    return found.cpu().numpy()


def _in_cells(
    model: Any, tools: BatchKernel, asked: DevicePoints, number: int, pieces: Any, found: Any
) -> None:
    """Write means and variances at rows that fall into some cells."""
    device = found.device
    where = [np.arange(*model.begin[cell : cell + 2]) for cell, _ in pieces]
    at, there = padded([w if len(w) else np.zeros(1, dtype=np.int64) for w in where], device)
    there &= torch.tensor([len(w) > 0 for w in where], device=device)[:, None]
    order = to_device(model.order.astype(np.int64), device)
    rows, (news, wanted) = order[at], padded([part for _, part in pieces], device)
    left, right = asked.take(news), tools.points.take(rows)
    F, G = tools.features(left), tools.features(right)
    cross, own = tools.own(left, right, F, G), tools.own(right, right, G, G)
    variance = left.length**2 - (F**2).sum(dim=-1)
    for machine in range(len(model.tau)):
        tau, coef = (
            torch.from_numpy(values[machine]).to(device)[at].double() * there
            for values in (model.tau, model.coef)
        )
        factor = BatchFactor(own, tau)
        known = factor.half(cross.mT).double()
        mean = (cross @ coef[..., None])[..., 0]
        spread = variance - (known**2).sum(dim=-2)
        if F.shape[-1]:
            mean += F @ torch.from_numpy(model.common_mean[number, machine]).to(device)
            lower = torch.from_numpy(model.common_factor[number, machine]).to(device)
            rest = (F - cross @ factor.solve(G)).mT
            half = torch.linalg.solve_triangular(lower, rest, upper=False)
            spread += (half**2).sum(dim=-2)
        found[0, machine, news[wanted]] = mean[wanted]
        found[1, machine, news[wanted]] = spread.clamp(min=0.0)[wanted]
