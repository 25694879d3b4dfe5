"""Outputs at new rows: each by the cell it falls into."""

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
from bayespoint.inference.ep.cells.cell import Factor
from bayespoint.inference.ep.cells.sweeps import Landmarks, TreeFit
from bayespoint.space.kernels import Kernel

# Memory for factors of cells, in bytes, of all models of this process.
CACHE_BYTES = 256_000_000

# New rows of a cell that are answered at once.
BLOCK = 2048


class _Cache:
    """Factors of cells that were asked for last."""

    def __init__(self) -> None:
        self._lock, self._held, self._bytes = threading.Lock(), OrderedDict(), 0

    def get(self, owner: Any, key: Any, make: Any) -> Any:
        """Return what is held of an owner, or make it; two threads may both make it."""
        key = id(owner), *key
        with self._lock:
            made, size, of = self._held.get(key, (None, 0, lambda: None))
            if of() is owner:
                self._held.move_to_end(key)
                return made
            if key in self._held:  # of an owner that is gone
                self._bytes -= self._held.pop(key)[1]
        made, size = make()
        with self._lock:
            if key not in self._held:
                self._held[key] = made, size, weakref.ref(owner)
                self._bytes += size
            while self._bytes > CACHE_BYTES:
                self._bytes -= self._held.popitem(last=False)[1][1]
        return made


_CACHE = _Cache()


@dataclass(frozen=True, eq=False, repr=False)
class CellModel:
    """What prediction needs: rows, and what each tree knows.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray or csr_matrix of shape (m, n_features)
        Distinct training rows.
    copies : ndarray of shape (m,)
    landmarks : Landmarks or None
    trees : list of TreeFit
    """

    kernel: Kernel
    X: Matrix
    copies: Array
    landmarks: Landmarks | None
    trees: list[TreeFit]

    def latent(self, X: Matrix, threads: Threads) -> Iterator[tuple[Array, Array]]:
        """Yield means and variances of the outputs, (n_machines, n) each, by each tree."""
        for fit in self.trees:
            cell_of = fit.tree.route(X)
            found = np.empty((2, len(fit.tau), X.shape[0]))
            parts = []
            for number in np.unique(cell_of):
                rows = np.flatnonzero(cell_of == number)
                parts += [(number, rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)]

            def one(part: tuple[int, Array], fit: TreeFit = fit, found: Array = found) -> None:
                found[:, :, part[1]] = self._in_cell(fit, int(part[0]), X[part[1]])

            threads.each(one, parts)
            yield found[0], found[1]

    def draw(self, X: Matrix, fit: TreeFit, rng: np.random.RandomState) -> Array:
        """Draw outputs of all machines, (n_machines, n), jointly within cells."""
        cell_of, drawn = fit.tree.route(X), np.empty((len(fit.tau), X.shape[0]))
        common = fit.common_mean.copy()
        for machine, lower in enumerate(fit.common_factor):
            white = rng.standard_normal(len(lower))
            common[machine] += scipy.linalg.solve_triangular(lower, white, lower=True, trans=1)
        for number in np.unique(cell_of):
            rows = np.flatnonzero(cell_of == number)
            for start in range(0, len(rows), BLOCK):
                part = rows[start : start + BLOCK]
                drawn[:, part] = self._draw_in_cell(fit, int(number), X[part], common, rng)
        return drawn

    def _draw_in_cell(
        self, fit: TreeFit, number: int, X: Matrix, common: Array, rng: np.random.RandomState
    ) -> Array:
        """Draw outputs given w, one a machine."""
        X, rows = X.astype(np.float64), fit.cell(number)
        features, own, cross = self._parts(X, rows)
        drawn = common @ features.T
        for machine, shift in enumerate(common - fit.common_mean):
            covariance = own.copy()
            if len(rows):
                factor, solved = self._factor(fit, machine, number)
                known = factor.half(cross.T).astype(np.float64)
                covariance -= known.T @ known
                coef = fit.coef[machine, rows]
                coef = coef if solved is None else coef - solved @ shift
                drawn[machine] += cross @ coef
            values, vectors = np.linalg.eigh(covariance)
            white = rng.standard_normal(len(values)) * np.sqrt(np.maximum(values, 0.0))
            drawn[machine] += vectors @ white
        return drawn

    def _parts(self, X: Matrix, rows: Array) -> tuple[Array, Array, Array]:
        """Features of new rows, and what these leave over: among them, and with a cell's rows."""
        features = np.zeros((X.shape[0], 0))
        own = self.kernel(X)
        cross = self.kernel(X, self.X[rows].astype(np.float64)) if len(rows) else own[:, :0]
        if self.landmarks is not None:
            features = self.landmarks.features(self.kernel, X)
            own -= features @ features.T
            if len(rows):
                cross -= features @ self.landmarks.features(self.kernel, self.X[rows]).T
        return features, own, cross

    def _in_cell(self, fit: TreeFit, number: int, X: Matrix) -> tuple[Array, Array]:
        X = X.astype(np.float64)
        rows = fit.cell(number)
        own = self.kernel.prepare(X).length ** 2
        if self.landmarks is None:
            features = np.zeros((X.shape[0], 0))
        else:
            features = self.landmarks.features(self.kernel, X)
        mean = fit.common_mean @ features.T
        variance = np.tile(own - np.einsum("ij,ij->i", features, features), (len(mean), 1))
        if not len(rows):
            rest = features
            for machine, lower in enumerate(fit.common_factor):
                variance[machine] += _spread(rest, lower)
            return mean, variance
        cross = self.kernel(X, self.X[rows].astype(np.float64))
        if self.landmarks is not None:
            cross -= features @ self.landmarks.features(self.kernel, self.X[rows]).T
        for machine, lower in enumerate(fit.common_factor):
            factor, solved = self._factor(fit, machine, number)
            known = factor.half(cross.T).astype(np.float64)
            mean[machine] += cross @ fit.coef[machine, rows]
            variance[machine] -= np.einsum("ij,ij->j", known, known)
            if solved is not None:
                variance[machine] += _spread(features - cross @ solved, lower)
        return mean, np.maximum(variance, 0.0)

    def _factor(self, fit: TreeFit, machine: int, number: int) -> tuple[Factor, Array | None]:
        """Factor of a cell's own part, and what landmarks need of it; made again or held."""

        def make() -> tuple[Any, int]:
            rows = fit.cell(number)
            X = self.X[rows].astype(np.float64)
            R, solved = self.kernel(X), None
            features = None
            if self.landmarks is not None:
                features = self.landmarks.features(self.kernel, X)
                R -= features @ features.T
            factor = Factor(R, self.copies[rows] * fit.tau[machine, rows], np.float32)
            if features is not None:
                solved = factor.solve(features)
            size = factor.lower.nbytes + (0 if solved is None else solved.nbytes)
            return (factor, solved), size

        return _CACHE.get(fit, (machine, number), make)


def _spread(features: Array, lower: Array) -> Array:
    """Variance that w leaves to its products with features."""
    half = scipy.linalg.solve_triangular(lower, features.T, lower=True)
    return np.einsum("ij,ij->j", half, half)
