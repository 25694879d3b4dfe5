"""Training rows as a fit sees them, and checks of points given as arrays.

`Inputs` holds rows on the host, `GramInputs` a Gram matrix in their place; `bayespoint.gpu.inputs`
has the same in the memory of a GPU. All of them hash and compare rows, for `merging`, and make the
`Rows` of the Gram matrix.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from bayespoint._support.checks import PointsError, warn
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.space.hashes import limits, order_hashes, row_hashes
from bayespoint.space.kernels import COLUMN_TILE, Kernel, Points
from bayespoint.space.rows import GramRows, Rows

# A column counts as negligible when its deviation is below this share of the largest.
NEGLIGIBLE_DEVIATION = 0.01

# About as many rows are looked at for the scales of the columns.
SCALE_ROWS = 5000


class Spread(NamedTuple):
    """How the values of each column are spread."""

    deviation: Array
    least: Array
    most: Array
    two_valued: bool  # whether no column of a dense matrix has more than two values


class Inputs:
    """Rows of training data on the host.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n_rows, n_features)
        In canonical form: see `canonical`.
    """

    def __init__(self, X: Matrix) -> None:
        self.X = X
        self._largest: dict[bytes | None, float] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the values."""
        return self.X.dtype

    def take(self, index: Array) -> "Inputs":
        """Return some of the rows."""
        return type(self)(self.array(index))

    def array(self, index: Array) -> Matrix:
        """Return some of the rows as an array; of a Gram matrix, with their own columns."""
        return self.X[index]

    def support_vectors(self, index: Array) -> Matrix:
        """Return rows as a fitted model shows them."""
        return self.X[index]

    def matrix(self) -> Matrix:
        """Return all rows, on the host."""
        return self.X

    def on_device(self) -> Any:
        """Return all rows as they are on a GPU, or None."""
        return None

    def diagonal(self) -> Array | None:
        """Return k(x, x) of the rows, where a Gram matrix was given."""
        return None

    def hashes(self) -> Array:
        """Hash of each row."""
        return row_hashes(self.X)

    def order_keys(self, index: Array) -> Array:
        """Hashes by which some rows are put in order: see `order_hashes`."""
        X = self.X[index]
        return order_hashes(X, *limits(X))

    def rows_equal(self, left: Array, right: Array) -> bool:
        """Whether all of some pairs of rows are equal."""
        if sp.issparse(self.X):
            return (self.X[left] != self.X[right]).nnz == 0
        return np.array_equal(self.X[left], self.X[right])

    def groups(self, index: Array) -> Array:
        """Numbers of some rows, equal for equal rows: by comparing them, which is slow."""
        X = self.X[index]
        if not sp.issparse(X):
            return np.unique(X + 0.0, axis=0, return_inverse=True)[1].ravel()
        parts = (slice(*pair) for pair in zip(X.indptr[:-1], X.indptr[1:], strict=True))
        contents = [X.indices[part].tobytes() + b":" + X.data[part].tobytes() for part in parts]
        number = {content: k for k, content in enumerate(sorted(set(contents)))}
        return np.array([number[content] for content in contents])

    def variance(self, weight: Array) -> float:
        """Variance of all values, a weight meaning copies of a row."""
        X, share = self.X, weight / weight.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = share @ np.asarray(X.mean(axis=1, dtype=np.float64)).ravel()
            if sp.issparse(X):
                square = np.asarray(X.multiply(X).mean(axis=1, dtype=np.float64)).ravel()
                return share @ square - mean * mean
            # A few rows at a time: no copy of X in float64.
            parts = (X[s : s + COLUMN_TILE] - mean for s in range(0, len(X), COLUMN_TILE))
            return share @ np.concatenate([np.square(p).mean(axis=1) for p in parts])

    def by_blocks(self, function: Callable[[Matrix], Any]) -> list[Any]:
        """Return a function of all rows, block after block: here there is one."""
        return [function(self.matrix())]

    def spread(self) -> "Spread":
        """Return how the values of each column are spread."""
        X = self.matrix()
        if sp.issparse(X):
            deviation = np.sqrt(mean_variance_axis(X.astype(np.float64), axis=0)[1])
            least, most = min_max_axis(X, axis=0)
            return Spread(deviation, least, most, two_valued=False)
        least, most = X.min(axis=0), X.max(axis=0)
        return Spread(np.std(X, axis=0, dtype=np.float64), least, most, two_valued(X, least, most))

    def deviations(self) -> Array:
        """Standard deviation of each column, from a sample of the rows."""
        X = self.X[:: max(1, self.X.shape[0] // SCALE_ROWS)]
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(X):
                return np.sqrt(mean_variance_axis(X.astype(np.float64), axis=0)[1])
            return X.std(axis=0, dtype=np.float64)

    def fit_layout(self, kernel: Kernel) -> Kernel:
        """Return the kernel with the layout that suits these rows."""
        return kernel.fit_layout(self.X, self.largest_squared)

    def largest_squared(self, kernel: Kernel, center: Array | None) -> float:
        """Return `Kernel.largest_squared` of all rows, computed once for each scale of columns."""
        scale = kernel.column_scale
        key = None if scale is None else scale.tobytes()
        if key not in self._largest:
            of_block = partial(kernel.largest_squared, center=center)
            self._largest[key] = max(self.by_blocks(of_block))
        return self._largest[key]

    def points(self, kernel: Kernel) -> Points:
        """Return the rows with what the kernel needs of each."""
        return kernel.prepare(self.X, diagonal=self.diagonal())

    def lengths(self, kernel: Kernel) -> Array:
        """Lengths of the rows in feature space."""
        return self.points(kernel).length

    def rows(self, kernel: Kernel, cache_bytes: int, threads: Threads) -> Rows:
        """Return rows of the Gram matrix."""
        return GramRows(kernel, self.points(kernel), cache_bytes=cache_bytes, threads=threads)

    def support(self, kernel: Kernel, rows: Rows, used: Array) -> Points:  # noqa: ARG002
        """Return the points that new ones are compared with, as a fitted model keeps them."""
        return kernel.prepare(self.support_vectors(used))


class GramInputs(Inputs):
    """A Gram matrix instead of rows; its columns move with its rows."""

    def array(self, index: Array) -> Array:
        """Return the Gram matrix of some of the points."""
        return self.X[np.ix_(index, index)]

    def support_vectors(self, index: Array) -> Array:
        """Return points without features."""
        return np.empty((len(index), 0), dtype=self.dtype)

    def diagonal(self) -> Array:
        """Return k(x, x) of the points."""
        return self.X.diagonal()

    def support(self, kernel: Kernel, rows: Rows, used: Array) -> Points:  # noqa: ARG002
        """Return the points that new ones are compared with, as a fitted model keeps them."""
        return kernel.prepare(self.support_vectors(used), diagonal=self.diagonal()[used])


def two_valued(X: Array, least: Array, most: Array) -> bool:
    """Whether all values are the least or the largest of their column."""
    return bool(np.all((least == X) | (most == X)))


def canonical(X: Matrix) -> Matrix:
    """CSR with sorted short indices, no repeated entries and no stored zeros; dense as it is."""
    if not sp.issparse(X):
        return X
    if not (X.has_canonical_format and np.all(X.data != 0)):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    if X.indices.dtype != np.int32 and max(X.nnz, X.shape[1]) < np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sp.csr_matrix(parts, shape=X.shape)
    return X


def same_precision(X: Matrix, dtype: Any) -> Matrix:
    """Points in the precision of the model; an error where they do not fit into it."""
    with np.errstate(over="ignore"):
        converted = X.astype(dtype, copy=False)
    sparse = sp.issparse(X)
    infinite = ~np.isfinite(converted.data if sparse else converted)
    if np.any(infinite):
        rows = converted.tocoo().row[infinite] if sparse else np.flatnonzero(infinite.any(axis=1))
        raise PointsError(
            f"X has values too large for the {dtype} that the model was fitted in, in rows ",
            np.unique(rows), ".",
        ).of(X)  # fmt: skip
    return converted


def warn_about_scales(inputs: Inputs, names: Sequence[str] | None = None) -> None:
    """Warn when most columns count for nothing beside the largest ones; ``names``: theirs."""
    if inputs.shape[1] < 2:
        return
    deviation = inputs.deviations()
    varying = np.flatnonzero(np.isfinite(deviation) & (deviation > 0))
    if len(varying) < 2:
        return
    largest = varying[deviation[varying].argmax()]
    small = varying[deviation[varying] < NEGLIGIBLE_DEVIATION * deviation[largest]]
    if 2 * len(small) >= len(varying):
        called = str(largest) if names is None else repr(str(names[largest]))
        warn(
            f"features are on very different scales: {len(small)} of {len(varying)} columns vary "
            f"less than a hundredth of column {called} (standard deviation "
            f"{deviation[largest]:.3g}) and hardly count. Scale them: "
            f"make_pipeline(StandardScaler(), BayesPointClassifier())."
        )
