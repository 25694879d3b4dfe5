"""All rows of a fit as the functions that choose settings see them, while they are on a cluster."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import min_max_axis

from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.ordering import Chunk, stacked
from bayespoint.distributed.session import Session
from bayespoint.space.inputs import SCALE_ROWS, Inputs, Spread, two_valued
from bayespoint.space.kernels import COLUMN_TILE, SPARSE_DENSITY, Kernel


class ClusterInputs(Inputs):
    """Rows in chunks on a cluster.

    Parameters
    ----------
    session : Session
    chunks : list of Future
        Of `Chunk`.
    sizes : ndarray of shape (n_chunks,)
        Their rows.
    empty : ndarray or csr_matrix of shape (0, n_features)
        What rows look like.
    """

    def __init__(self, session: Session, chunks: list[Any], sizes: Array, empty: Matrix) -> None:
        self._session, self._chunks = session, chunks
        super().__init__(ClusterMatrix(session, chunks, sizes, empty))
        self._found: dict[str, Any] = {}

    def take(self, index: Array) -> Inputs:
        """Return some of the rows, here."""
        return Inputs(self.X[index])

    def support_vectors(self, index: Array) -> Matrix:  # noqa: ARG002
        """Rows of a model on a cluster stay there."""
        return self.X.empty

    def by_blocks(self, function: Callable[[Matrix], Any]) -> list[Any]:
        """Return a function of the rows of each chunk, computed where they are."""
        call = self._session.hold("function-of-rows", function)
        return self._session.results(
            self._session.map("rows", of_rows, self._chunks, function=call)
        )

    def variance(self, weight: Array) -> float:
        """Variance of all values, a weight meaning copies of a row."""
        share = weight / weight.sum()
        mean = share @ np.concatenate(self.by_blocks(row_means))
        if self.X.sparse:
            return share @ np.concatenate(self.by_blocks(row_squares)) - mean * mean
        return share @ np.concatenate(self.by_blocks(partial(row_squares, mean=mean)))

    def deviations(self) -> Array:
        """Standard deviation of each column, from a sample of the rows."""
        return Inputs(self.X[:: max(1, self.shape[0] // SCALE_ROWS)]).deviations()

    def spread(self) -> Spread:
        """Return how the values of each column are spread."""
        if "spread" not in self._found:
            ends = self.by_blocks(column_limits)
            least, most = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
            mean = self._column_sums(None) / self.shape[0]
            deviation = np.sqrt(self._column_sums(mean) / self.shape[0])
            two = self.X.sparse or all(  # sparse columns are not asked for another kernel
                self.by_blocks(partial(two_valued, least=least, most=most))
            )
            self._found["spread"] = Spread(deviation, least, most, two)
        return self._found["spread"]

    def _column_sums(self, about: Array | None) -> Array:
        """Sums of columns, or of squares about a centre, added row by row as on one machine."""
        total = None
        for chunk in self._chunks:
            total = self._session.submit("sum-columns", add_columns, total, chunk, about)
        return self._session.results(total)

    def fit_layout(self, kernel: Kernel) -> Kernel:
        """Return the kernel with the layout that suits all rows: see `Kernel.fit_layout`."""
        if not kernel.uses_products:
            return kernel
        if "sparse" not in self._found:
            n_values = self.shape[0] * self.shape[1]
            few = self.X.sparse or sum(self.by_blocks(n_nonzero)) < SPARSE_DENSITY * n_values
            self._found["sparse"] = few
        sparse, center = self._found["sparse"], None
        if kernel.name == "rbf" and not sparse:
            if "mean" not in self._found:
                mean = self._column_sums(None) / self.shape[0]
                self._found["mean"] = mean.astype(self.dtype)
            center = self._found["mean"]
        layout = "sparse" if sparse else "dense"
        if kernel.name == "rbf":
            layout += kernel.precision_suffix(self.largest_squared(kernel, center), self.dtype)
        return replace(kernel, layout=layout, center=center)

    def lengths(self, kernel: Kernel) -> Array:
        """Lengths of the rows in feature space."""
        return np.concatenate(self.by_blocks(partial(row_lengths, kernel=kernel)))


class ClusterMatrix:
    """Rows on a cluster, of which some are fetched and then held: those of samples and cells."""

    def __init__(self, session: Session, chunks: list[Any], sizes: Array, empty: Matrix) -> None:
        self._session, self._chunks = session, chunks
        self._begin = np.cumsum([0, *sizes])
        self.empty, self.sparse = empty, sp.issparse(empty)
        self.shape, self.dtype = (int(self._begin[-1]), empty.shape[1]), empty.dtype
        self._place = np.full(self.shape[0], -1, dtype=np.int32)  # of a row among those held
        self._rows, self._lock = empty, threading.Lock()

    def __getitem__(self, index: Any) -> Matrix:
        index = np.arange(self.shape[0])[index] if isinstance(index, slice) else np.asarray(index)
        with self._lock:
            missing = np.unique(index[self._place[index] < 0])
            if len(missing):
                n_held, more = self._rows.shape[0], self._fetched(missing)
                self._rows = stacked([self._rows, more]) if n_held else more
                self._place[missing] = n_held + np.arange(len(missing))
            held, place = self._rows, self._place[index]
        return held[place] if self.sparse else held.take(place, axis=0)

    def take(self, index: Array, axis: int = 0) -> Matrix:  # noqa: ARG002
        """Return some of the rows, as NumPy does."""
        return self[index]

    def _fetched(self, index: Array) -> Matrix:
        """Fetch rows, whose numbers are in order."""
        ends = np.searchsorted(index, self._begin)
        asked = [k for k in range(len(self._chunks)) if ends[k] < ends[k + 1]]
        places = [index[ends[k] : ends[k + 1]] - self._begin[k] for k in asked]
        futures = self._session.map(
            "fetch-rows", some_rows, [self._chunks[k] for k in asked], places
        )
        return stacked(self._session.results(futures))


def some_rows(chunk: Chunk, places: Array) -> Matrix:
    """Return some rows of a chunk."""
    return chunk.X[places]


def of_rows(chunk: Chunk, function: Callable[[Matrix], Any]) -> Any:
    """Return a function of the rows of a chunk."""
    return function(chunk.X)


def n_nonzero(X: Matrix) -> int:
    """Number of values other than 0."""
    return int(np.count_nonzero(X))


def row_means(X: Matrix) -> Array:
    """Mean of each row."""
    return np.asarray(X.mean(axis=1, dtype=np.float64)).ravel()


def row_squares(X: Matrix, mean: float = 0.0) -> Array:
    """Mean of squares of each row, about a number."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).mean(axis=1, dtype=np.float64)).ravel()
    parts = (X[s : s + COLUMN_TILE] - mean for s in range(0, len(X), COLUMN_TILE))
    return np.concatenate([np.empty(0), *(np.square(part).mean(axis=1) for part in parts)])


def row_lengths(X: Matrix, kernel: Kernel) -> Array:
    """Length of each row in feature space."""
    return kernel.prepare(X).length


def column_limits(X: Matrix) -> tuple[Array, Array]:
    """Least and largest value of each column; of no rows, none."""
    if not X.shape[0]:
        return np.full(X.shape[1], np.inf, X.dtype), np.full(X.shape[1], -np.inf, X.dtype)
    return min_max_axis(X, axis=0) if sp.issparse(X) else (X.min(axis=0), X.max(axis=0))


def add_columns(total: Array | None, chunk: Chunk, about: Array | None) -> Array:
    """Add rows to sums of columns one after the other, or their squares about a centre."""
    X: Any = chunk.X
    for first in range(0, X.shape[0], COLUMN_TILE):
        rows = X[first : first + COLUMN_TILE]
        rows = (rows.toarray() if sp.issparse(rows) else rows).astype(np.float64)
        rows = rows if about is None else np.square(rows - about)
        total = np.add.reduce(rows if total is None else np.vstack([total, rows]), axis=0)
    return np.zeros(X.shape[1]) if total is None else total
