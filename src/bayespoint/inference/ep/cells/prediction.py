"""Outputs at new rows: each by the cell it falls into."""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.inference.ep.cells.cell import Factor, precision, without_tiny
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.problem import TreeFit
from bayespoint.inference.ep.cells.tree import Tree, route
from bayespoint.space.kernels import Kernel, Points

# Memory for factors of cells, in bytes, of all models of this process.
CACHE_BYTES = 256_000_000

# New rows of a cell that are answered at once.
BLOCK = 2048


class _Cache:
    """Factors of cells that were asked for last."""

    def __init__(self) -> None:
        self.lock, self._bytes, self.most = threading.Lock(), 0, CACHE_BYTES
        self._held: OrderedDict[Any, Any] = OrderedDict()

    def get(self, owner: Any, key: Any, make: Any) -> Any:
        """Return what is held of an owner, or make it; two threads may both make it."""
        key = id(owner), *key
        with self.lock:
            made, size, of = self._held.get(key, (None, 0, lambda: None))
            if of() is owner:
                self._held.move_to_end(key)
                return made
            if key in self._held:  # of an owner that is gone
                self._bytes -= self._held.pop(key)[1]
        made, size = make()
        with self.lock:
            if key not in self._held:
                self._held[key] = made, size, weakref.ref(owner)
                self._bytes += size
            while self._bytes > self.most:
                self._bytes -= self._held.popitem(last=False)[1][1]
        return made


CACHE = _Cache()


def bound_cache(n_bytes: float) -> None:
    """Hold no more than so many bytes of factors in this process."""
    CACHE.most = int(min(n_bytes, CACHE_BYTES))


def _start_anew() -> None:
    """Forget all, in a process that was forked: another thread may have held the lock."""
    global CACHE
    CACHE = _Cache()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


@dataclass(frozen=True, eq=False, repr=False)
class CellModel:
    """What trees know, for prediction: nodes and cells of all trees one after the other.

    Attributes
    ----------
    roots : ndarray of int, shape (n_trees,)
        First nodes of the trees; of a tree that is one cell, as in ``children``.
    normals, cuts, children : ndarray
        As in `Tree`.
    begin : ndarray of int, shape (n_cells + 1,)
        Where cells begin in ``order``.
    order : ndarray of int, shape (n_trees * m,)
        Training rows, cell after cell.
    tau, coef : ndarray of shape (n_machines, n_trees * m)
        Precisions of the sites of all copies of a row, and coefficients, in this order.
    common_mean, common_factor : ndarray
        As in `TreeFit`, of each tree.
    landmarks : ndarray or csr_matrix of shape (n_landmarks, n_features), or None
    projection : ndarray of shape (n_landmarks, n_common), or None
    """

    roots: Array
    normals: Array
    cuts: Array
    children: Array
    begin: Array
    order: Array
    tau: Array
    coef: Array
    common_mean: Array
    common_factor: Array
    landmarks: Matrix | None = None
    projection: Array | None = None

    @classmethod
    def of(cls, fits: list[TreeFit], copies: Array, landmarks: Landmarks | None) -> "CellModel":
        """Put the trees of a fit one after the other."""
        roots, children, begin, n_nodes, n_cells, m = [], [], [], 0, 0, len(copies)
        for number, fit in enumerate(fits):
            below = fit.tree.children
            children.append(np.where(below < 0, below - n_cells, below + n_nodes))
            roots.append(n_nodes if len(below) else -1 - n_cells)
            begin.append(fit.begin[:-1] + number * m)
            n_nodes, n_cells = n_nodes + len(below), n_cells + fit.tree.n_cells
        return cls(
            np.array(roots, dtype=np.int64), np.concatenate([f.tree.normals for f in fits]),
            np.concatenate([f.tree.cuts for f in fits]), np.concatenate(children),
            np.concatenate([*begin, [len(fits) * m]]), np.concatenate([f.order for f in fits]),
            np.concatenate([(copies * f.tau)[:, f.order] for f in fits], axis=1),
            np.concatenate([f.coef[:, f.order] for f in fits], axis=1),
            np.array([f.common_mean for f in fits]), np.array([f.common_factor for f in fits]),
            *(landmarks or (None, None)),
        )  # fmt: skip

    def trees(self) -> list[Tree]:
        """Return the trees, each with nodes and cells of its own."""
        found, n_cells = list[Tree](), 0
        inner = np.append(self.roots[self.roots >= 0], len(self.cuts))
        for root in self.roots:
            nodes = slice(0, 0)
            if root >= 0:
                nodes = slice(int(root), int(inner[inner > root][0]))
            below = self.children[nodes]
            below = np.where(below < 0, below + n_cells, below - nodes.start)
            # A node more is a cell more.
            tree = Tree(self.normals[nodes], self.cuts[nodes], below, len(below) + 1)
            found, n_cells = [*found, tree], n_cells + tree.n_cells
        return found

    def route(self, X: Matrix, number: int) -> Array:
        """Return the cell of each row by one of the trees."""
        return route(X, int(self.roots[number]), self.normals, self.cuts, self.children)


@dataclass(frozen=True, eq=False, repr=False)
class Cellwise:
    """Outputs at new rows by a model, its kernel and its training rows."""

    model: CellModel
    kernel: Kernel
    X: Matrix

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.model.roots)

    def latent(self, X: Matrix, threads: Threads) -> Array:
        """Return means and variances of outputs by all trees, (n_trees, 2, n_machines, n)."""
        found = np.empty((self.n_trees, 2, len(self.model.tau), X.shape[0]))

        def one(part: tuple[int, int, Array]) -> None:
            number, cell, rows = part
            found[number, :, :, rows] = np.moveaxis(self.in_cell(number, cell, X[rows]), 2, 0)

        parts = [
            (number, cell, rows)
            for number in range(self.n_trees)
            for cell, rows in _parts_of_cells(self.model.route(X, number))
        ]
        threads.each(one, parts)
        return found

    def draw(self, X: Matrix, number: int, rngs: list[np.random.RandomState]) -> Array:
        """Draw outputs by a tree, jointly within cells, (n_draws, n_machines, n)."""
        cell_of, n_machines = self.model.route(X, number), len(self.model.tau)
        drawn = np.empty((len(rngs), n_machines, X.shape[0]))
        common = np.tile(self.model.common_mean[number], (len(rngs), 1, 1))
        for machine, lower in enumerate(self.model.common_factor[number]):
            if len(lower):
                white = np.column_stack([rng.standard_normal(len(lower)) for rng in rngs])
                solved = scipy.linalg.solve_triangular(lower, white, lower=True, trans=1)
                common[:, machine] += solved.T
        for cell, part in _parts_of_cells(cell_of):
            drawn[:, :, part] = self._draw_in_cell(number, cell, X[part], common, rngs)
        return drawn

    def _draw_in_cell(
        self, number: int, cell: int, X: Matrix, common: Array, rngs: list[np.random.RandomState]
    ) -> Array:
        """Draw outputs given draws of w, (n_draws, n_machines, n)."""
        new, rows, features, cross = self._parts(X, cell)
        where = self._where(cell)
        own, drawn = self.kernel.between(new, new) - features @ features.T, common @ features.T
        for machine, mean in enumerate(self.model.common_mean[number]):
            factor, solved = self._factor(machine, cell, rows)
            known = factor.half(cross.T).astype(np.float64)
            shift = (common[:, machine] - mean) @ solved.T
            drawn[:, machine] += (self.model.coef[machine, where] - shift) @ cross.T
            values, vectors = np.linalg.eigh(own - known.T @ known)
            white = np.stack([rng.standard_normal(len(values)) for rng in rngs])
            drawn[:, machine] += white * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        return drawn

    def in_cell(self, number: int, cell: int, X: Matrix) -> Array:
        """Means and variances at rows that fall into a cell, (2, n_machines, n)."""
        model, where = self.model, self._where(cell)
        new, rows, features, cross = self._parts(X, cell)
        own = new.length**2 - np.einsum("ij,ij->i", features, features)
        mean, variance = model.common_mean[number] @ features.T, np.tile(own, (len(model.tau), 1))
        alike = _alike(model.tau[:, where], model.coef[:, where], model.common_mean[number])
        for machine, lower in enumerate(model.common_factor[number]):
            if alike[machine] != machine:
                mean[machine], variance[machine] = mean[alike[machine]], variance[alike[machine]]
                continue
            factor, solved = self._factor(machine, cell, rows)
            known = factor.half(cross.T).astype(np.float64)
            mean[machine] += cross @ model.coef[machine, where]
            variance[machine] -= np.einsum("ij,ij->j", known, known)
            if len(lower):
                rest = (features - cross @ solved).T
                half = scipy.linalg.solve_triangular(lower, rest, lower=True)
                variance[machine] += np.einsum("ij,ij->j", half, half)
        return np.stack([mean, np.maximum(variance, 0.0)])

    def _where(self, cell: int) -> slice:
        """Where a cell is in the order of the model."""
        return slice(*self.model.begin[cell : cell + 2])

    def _parts(self, X: Matrix, cell: int) -> tuple[Points, Points, Array, Array]:
        """New rows, those of a cell, features of the new ones, and what these leave over."""
        new, rows = (
            self.kernel.prepare(Z.astype(np.float64))
            for Z in (X, self.X[self.model.order[self._where(cell)]])
        )
        features, cross = self._features(new), self.kernel.between(new, rows)
        if features.shape[1]:
            cross -= features @ self._features(rows).T
        return new, rows, features, cross

    def _features(self, points: Points) -> Array:
        if self.model.landmarks is None or self.model.projection is None:
            return np.zeros((len(points), 0))
        landmarks = Landmarks(self.model.landmarks, self.model.projection)
        return landmarks.features(self.kernel, points)

    def _factor(self, machine: int, cell: int, rows: Points) -> tuple[Factor, Array]:
        """Factor of a cell's own part, and what landmarks need of it; made again or held."""

        def make() -> tuple[Any, int]:
            features, tau = self._features(rows), self.model.tau[machine, self._where(cell)]
            common = features.shape[1] > 0  # what it leaves over has fewer digits
            dtype = np.float64 if common else precision(tau, rows.length**2, np.float32)
            C = self.kernel.between(rows, rows, dtype, upper=True)
            without_tiny(C, float(np.max(rows.length, initial=0.0)) ** 2)
            if common:
                C -= features @ features.T
            factor = Factor(C, tau, np.float32)
            solved = factor.solve(features)
            return (factor, solved), factor.lower.nbytes + solved.nbytes

        return CACHE.get(self.model, (machine, cell), make)


def _alike(*sites: Array) -> list[int]:
    """For each machine, the first with the same sites: classes that a cell has no row of.

    With landmarks means of w differ between machines, so that none are alike.
    """
    seen: dict[bytes, int] = {}
    keys = [b"".join(one[machine].tobytes() for one in sites) for machine in range(len(sites[0]))]
    return [seen.setdefault(key, machine) for machine, key in enumerate(keys)]


def _parts_of_cells(cell_of: Array) -> Iterator[tuple[int, Array]]:
    """Rows that fall into each cell, in blocks."""
    order = np.argsort(cell_of, kind="stable")
    numbers, begin = np.unique(cell_of[order], return_index=True)
    for cell, rows in zip(numbers, np.split(order, begin[1:]), strict=True):
        for start in range(0, len(rows), BLOCK):
            yield int(cell), rows[start : start + BLOCK]
