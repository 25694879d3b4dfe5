"""Kernel functions and feature-space normalisation.

A `Kernel` turns rows of data into blocks of the Gram matrix. Everything that a block needs of a
point (its squared norm, its length in feature space) is computed once, in `Kernel.prepare`.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import manhattan_distances

from bayespoint._support.checks import PointsError
from bayespoint._support.types import Array, Matrix
from bayespoint.space.given import check_inner_products, checked_kernel_values

KERNELS = ("linear", "poly", "rbf", "laplacian", "precomputed")

# Rows, columns and features of one product. Both sides are padded to full tiles and features are
# summed in parts, so that each entry has the same bits whichever rows share its block and however
# many threads BLAS uses (measured with OpenBLAS: ragged edges change bits, and so does the number
# of threads from 400 features on).
BLOCK_ROWS = 128
BLOCK_FEATURES = 256
COLUMN_TILE = 512
MAX_BLOCK_COLUMNS = 2048

# Callables, too, get full tiles: many are products inside.
CALLABLE_TILE = 64

CACHE_LINE = 64  # bytes

# Below this share of non-zeros a loop over non-zeros beats a dense product.
SPARSE_DENSITY = 0.35

# Squared distances, times gamma, may lose this much to rounding.
DISTANCE_TOLERANCE = 1e-3

# The rows of a block beside sparse points are made dense up to this many bytes.
DENSE_PANEL_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Points:
    """Points with what the kernel needs of each: made by `Kernel.prepare`."""

    X: Any  # ndarray or csr_matrix
    squared_norm: Any  # ndarray, or None where the kernel needs none
    scale: Any  # 1/sqrt(k(x,x) + bias), which normalises; None leaves as it is
    length: Array  # sqrt(k(x,x)) of the final kernel: 1 where it is normalised

    def __len__(self) -> int:
        """Return the number of points."""
        return self.X.shape[0]

    def astype(self, dtype: Any) -> "Points":
        """Return the points in another precision."""
        return self._with_each(lambda field: field.astype(dtype))

    def take(self, index: Array) -> "Points":
        """Return some of the points."""
        return self._with_each(lambda field: field[index])

    def _with_each(self, change: Callable[[Any], Any]) -> "Points":
        fields: Any = {name: f if f is None else change(f) for name, f in vars(self).items()}
        return Points(**fields)


def block_columns(n_points: int) -> int:
    """Columns of a block: full tiles, fewer of them where there are few points."""
    return min(max(1, -(-n_points // COLUMN_TILE)) * COLUMN_TILE, MAX_BLOCK_COLUMNS)


class LostDistancesError(ValueError):
    """Points are so far apart, in units of the width, that rounding loses their distances."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel with its bias and normalisation.

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable
        A callable takes two arrays of points and returns the array of kernel values.
    gamma, degree, coef0 : float, int, float
        As in `sklearn.metrics.pairwise`; for "rbf" and "laplacian" gamma may be an array, one width
        per feature.
    bias : float
        Variance of the bias weight, added to the kernel before normalisation.
    normalize : bool
        Divide by sqrt(k(x,x) k(x',x')), which makes all points unit vectors in feature space.
    layout : {"dense", "sparse", "dense, double", "sparse, double"}, optional
        How products are computed, from `fit_layout`.
    center : ndarray of shape (n_features,), optional
        Where distances are computed about, from `fit_layout`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.space.kernels import Kernel
    >>> kernel = Kernel("poly", degree=2, gamma=1.0, coef0=1.0, bias=0.0, normalize=True)
    >>> kernel(np.array([[1.0, 0.0], [1.0, 1.0]])).round(3)
    array([[1.   , 0.667],
           [0.667, 1.   ]])
    """

    name: Any
    _: KW_ONLY
    gamma: Any = 1.0
    degree: int = 3
    coef0: float = 1.0
    bias: float = 0.0
    normalize: bool = True
    layout: str | None = None
    center: Array | None = None

    @property
    def uses_products(self) -> bool:
        """Whether the kernel is a function of inner products."""
        return not callable(self.name) and self.name in ("linear", "poly", "rbf")

    @property
    def width(self) -> float:
        """The one width; 1 where each feature has its own, by which its column is scaled."""
        return 1.0 if np.ndim(self.gamma) else self.gamma

    @property
    def column_scale(self) -> Array | None:
        """What columns are multiplied by, where each feature has a width."""
        if not np.ndim(self.gamma):
            return None
        return np.sqrt(self.gamma) if self.name == "rbf" else self.gamma

    def fit_layout(
        self, X: Matrix, largest: Callable[["Kernel", Array | None], float] | None = None
    ) -> "Kernel":
        """Choose dense or sparse products from the training points, and a centre for "rbf".

        Distances do not change when all points are shifted; about the mean they keep the most
        digits. Sparse points stay where they are, or they would be sparse no more. Where too few
        digits of float32 are left, points are taken to float64. ``largest``: where the largest
        squared length about a centre is known; computed from X if left out. A kernel function is
        called with a block that is not square, as it may transpose those that are.
        """
        if callable(self.name) and X.shape[0] > 1:
            self._call(X[:3], X[: min(2, X.shape[0] - 1)])
        if not self.uses_products:
            return self
        sparse = sp.issparse(X) or np.count_nonzero(X) < SPARSE_DENSITY * X.size
        layout, center = "sparse" if sparse else "dense", None
        if self.name == "rbf" and not sparse:
            center = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        if self.name == "rbf":
            squared = largest(self, center) if largest else self.largest_squared(X, center)
            layout += self.precision_suffix(squared, X.dtype)
        return replace(self, layout=layout, center=center)

    def largest_squared(self, X: Matrix, center: Array | None) -> float:
        """Largest squared length of points about a centre, their columns scaled.

        In float64, a few rows at a time: float32 has no squares beyond 1e38.
        """
        most = 0.0
        for start in range(0, X.shape[0], COLUMN_TILE):
            part = X[start : start + COLUMN_TILE].astype(np.float64)
            about = self._scaled(part if center is None else part - center)
            most = max(most, float(_squared_norms(about).max()))
        return most

    def precision_suffix(self, squared: float, dtype: Any) -> str:
        """What a layout ends with for points of this largest squared length.

        Refuses those so far apart that float64 has no digits left for their distances.
        """
        most = self.width * squared
        if np.isfinite(squared) and most * np.finfo(np.float64).eps > DISTANCE_TOLERANCE:
            raise LostDistancesError(
                f"distances between rows of X are lost to rounding: gamma times the largest "
                f"squared length is {most:.3g}, and {most * np.finfo(np.float64).eps:.3g} of it "
                f"is rounded. Scale the features (for example with StandardScaler), or lower gamma."
            )
        lost = most * np.finfo(np.float32).eps
        return ", double" if dtype == np.float32 and lost > DISTANCE_TOLERANCE else ""

    def prepare(self, X: Matrix, diagonal: Array | None = None) -> Points:
        """Compute what blocks need of each point. ``diagonal``: k(x,x), where it is known."""
        given, X = X, self._laid_out(X)
        squared_norm = _squared_norms(X) if self.uses_products else None
        if diagonal is None:
            diagonal = self._diagonal(X, squared_norm)
        negative = diagonal < 0
        diagonal = diagonal + self.bias
        infinite = ~np.isfinite(diagonal)
        if squared_norm is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                infinite |= ~np.isfinite(2 * self.width * squared_norm)
        try:
            self.check_diagonal(infinite, negative, X.dtype)
        except PointsError as error:
            raise error.of(given) from None
        length = np.sqrt(diagonal).astype(X.dtype, copy=False)
        if not self.normalize:
            return Points(X, squared_norm, None, length)
        # A point at the origin of feature space has no direction: all its outputs are zero.
        scale = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        return Points(X, squared_norm, scale, np.sign(length))

    def check_diagonal(self, infinite: Array, negative: Array, dtype: Any) -> None:
        """Refuse points whose k(x, x) overflows or is negative, as masks say."""
        if np.any(infinite):
            raise PointsError(
                f"the kernel overflows {dtype} for rows ", np.flatnonzero(infinite),
                " of X: scale the features (for example with StandardScaler) or lower gamma, "
                "degree or coef0.",
            )  # fmt: skip
        if np.any(negative):
            raise PointsError(
                f"kernel={self.name!r} is not positive semi-definite: k(x, x) < 0 for rows ",
                np.flatnonzero(negative), " of X. Use a kernel that is an inner product.",
            )  # fmt: skip

    def _laid_out(self, X: Matrix) -> Matrix:
        if self.layout is None:
            return self._scaled(X)
        if self.layout.endswith("double"):
            X = X.astype(np.float64)
        if self.layout.startswith("sparse"):
            return self._scaled(X if sp.issparse(X) else _sparse_rows(X))
        X = X.toarray() if sp.issparse(X) else X
        return self._scaled(X if self.center is None else X - self.center)

    def _scaled(self, X: Matrix) -> Matrix:
        """Points with their columns multiplied, where each feature has a width."""
        if self.column_scale is None:
            return X
        scale = self.column_scale.astype(X.dtype)
        return X.multiply(scale).tocsr() if sp.issparse(X) else X * scale

    def __call__(self, X: Matrix, Y: Matrix | None = None) -> Array:
        """Return the whole matrix of kernel values, for small data."""
        kernel = self if self.layout else self.fit_layout(X)
        left = kernel.prepare(X)
        return kernel.between(left, left if Y is None else kernel.prepare(Y))

    def between(
        self, left: Points, right: Points, dtype: Any = None, *, upper: bool = False
    ) -> Array:
        """Return the kernel values of prepared points.

        Parameters
        ----------
        left, right : Points
        dtype : dtype, optional
            Precision of the values; that of the points by default, in which distances are
            computed whatever it is.
        upper : bool, default=False
            Leave zeros below the diagonal, where whole blocks are.
        """
        shape, dtype = (len(left), len(right)), dtype or left.X.dtype
        values = np.zeros(shape, dtype) if upper else np.empty(shape, dtype)
        for start in range(0, len(left), BLOCK_ROWS):
            panel = self.panel(left, np.arange(start, min(start + BLOCK_ROWS, len(left))))
            for first in range(start if upper else 0, len(right), block_columns(len(right))):
                block = self.block(panel, right, first, dtype)[: len(left) - start]
                values[start : start + BLOCK_ROWS, first : first + block.shape[1]] = block
        return values

    def with_settings(self, gamma: Any, bias: float) -> "Kernel":
        """Return a copy with another width and bias."""
        return replace(self, gamma=gamma, bias=bias)

    def derivatives(self, X: Matrix) -> dict[str, Array]:
        """Derivatives of the Gram matrix in the logarithms of its settings, for small data.

        Parameters
        ----------
        X : ndarray or csr_matrix of shape (m, n_features)

        Returns
        -------
        dict of str to ndarray of shape (m, m)
            ``log_gamma`` for "rbf", "laplacian" and "poly"; ``log_bias`` where there is a bias.
        """
        wanted = [name for name in ("gamma", "bias") if name == "gamma" or self.bias]
        _, found = self.with_derivatives(X, wanted)
        return {f"log_{name}": change for name, change in found.items()}

    def with_derivatives(self, X: Matrix, wanted: Sequence[str]) -> tuple[Array, dict[str, Array]]:
        """Gram matrix and its derivatives in the logarithms of "gamma" or "bias", in float64.

        Only those ``wanted`` that the kernel has.
        """
        plain = replace(self, bias=0.0, normalize=False)
        given = self.name == "precomputed"
        values = np.array(X if given else plain(X), dtype=np.float64)
        values = (values + values.T) / 2
        found = {}
        if "gamma" in wanted and self.name in ("rbf", "laplacian"):  # k = exp(-gamma distance)
            with np.errstate(divide="ignore", invalid="ignore"):
                found["gamma"] = np.where(values > 0, values * np.log(values), 0.0)
        elif "gamma" in wanted and self.name == "poly":
            inner = np.asarray(replace(plain, name="linear")(X), dtype=np.float64) * self.gamma
            found["gamma"] = self.degree * inner * (inner + self.coef0) ** (self.degree - 1)
        if "bias" in wanted:
            found["bias"] = np.full_like(values, self.bias)
        values += self.bias
        if not self.normalize:
            return values, found
        length = np.sqrt(values.diagonal())
        length[length == 0] = 1.0
        values /= length
        values /= length[:, None]
        for name, change in found.items():
            share = 0.5 * change.diagonal() / length**2
            change /= length
            change /= length[:, None]
            change -= values * share
            change -= values * share[:, None]
            found[name] = change
        return values, found

    def panel_rows(self, points: Points, n_wanted: int) -> int:
        """Rows of a panel for so many wanted ones: narrower ones exist for sparse products."""
        if not self._loops_over_non_zeros(points) or n_wanted > BLOCK_ROWS // 2:
            return BLOCK_ROWS
        return BLOCK_ROWS // 4 if n_wanted <= BLOCK_ROWS // 4 else BLOCK_ROWS // 2

    def _loops_over_non_zeros(self, points: Points) -> bool:
        dense_bytes = BLOCK_ROWS * points.X.shape[1] * points.X.dtype.itemsize
        return self.uses_products and sp.issparse(points.X) and dense_bytes <= DENSE_PANEL_BYTES

    def panel(self, points: Points, index: Array) -> "Panel":
        """Gather the rows ``index`` of a block, once for all its columns."""
        n_rows = self.panel_rows(points, len(index))
        padded = np.concatenate([index, np.repeat(index[:1], n_rows - len(index))])
        if self._loops_over_non_zeros(points):
            from bayespoint._loops.sparse_products import dense_columns

            X = points.X
            gathered = aligned_empty((X.shape[1], n_rows), X.dtype)
            dense_columns(X.indptr, X.indices, X.data, padded, gathered)
        else:
            gathered = points.X[padded]
        squared_norm = None if points.squared_norm is None else points.squared_norm[padded]
        scale = None if points.scale is None else points.scale[padded]
        return Panel(gathered, squared_norm, scale)

    def block(self, panel: "Panel", points: Points, first: int, dtype: Any = None) -> Array:
        """Kernel values of a panel's rows and `block_columns` points from ``first`` on.

        The rows that pad the panel are there, too. ``dtype`` as for `between`.
        """
        columns = slice(first, min(first + block_columns(len(points)), len(points)))
        dtype = dtype or points.X.dtype
        values = self._raw_block(panel, points, columns, dtype).astype(dtype, copy=False)
        if self.bias:
            values += self.bias
        if self.normalize:
            values *= panel.scale[:, None].astype(dtype, copy=False)
            values *= points.scale[columns].astype(dtype, copy=False)
        return values

    def _raw_block(self, panel: "Panel", points: Points, columns: slice, dtype: Any) -> Array:
        if self.name == "precomputed":
            return panel.X[:, columns].copy()
        if callable(self.name):
            n_columns = columns.stop - columns.start
            padding = np.full(-n_columns % CALLABLE_TILE, columns.stop - 1)
            padded = np.concatenate([np.arange(columns.start, columns.stop), padding])
            return self._call(panel.X, points.X[padded])[:, :n_columns]
        if self.name == "laplacian":
            return _laplacian(panel.X, points.X[columns], self.width)
        values = self._polynomial(panel, points, columns, dtype)
        return np.exp(values, out=values) if self.name == "rbf" else values

    def _polynomial(self, panel: "Panel", points: Points, columns: slice, wanted: Any) -> Array:
        """(factor <x, x'> + row term + column term) ** degree; "rbf" is its exponential.

        Rounding can leave a distance below zero: then it is zero.
        """
        most = points.X.dtype.type(0 if self.name == "rbf" else np.inf)
        dtype, n_columns = points.X.dtype, columns.stop - columns.start
        factor, degree = 1.0, 1.0
        row_term = np.zeros(len(panel.squared_norm), dtype)
        column_term = np.zeros(n_columns, dtype)
        if self.name == "poly":
            factor, degree = self.gamma, self.degree
            row_term += self.coef0
        elif self.name == "rbf":  # -gamma ||x - x'||²
            factor = 2 * self.width
            row_term -= self.width * panel.squared_norm
            column_term -= self.width * points.squared_norm[columns]
        whole = degree == int(degree)
        if sp.issparse(points.X) and not sp.issparse(panel.X):
            from bayespoint._loops.sparse_products import sparse_products, transpose

            X, values = points.X, np.empty((n_columns, len(row_term)), dtype=dtype)
            sparse_products(
                X.indptr, X.indices, X.data, columns.start, panel.X, dtype.type(factor),
                row_term, column_term, int(degree) if whole else 1, values,
            )  # fmt: skip
            found = np.empty(values.shape[::-1], dtype=wanted)
            transpose(values, most, found)
            return _power(found, 1 if whole else degree)
        values = _products(panel, points, columns)
        values *= factor
        values += row_term[:, None]
        values += column_term
        if self.name == "rbf":
            values = values.astype(wanted, copy=False)
            np.minimum(values, 0.0, out=values)
        return _power(values, degree)

    def _diagonal(self, X: Matrix, squared_norm: Any) -> Array:
        if callable(self.name):
            starts = range(0, X.shape[0], 64)
            blocks = [self._own_values(X[s : s + 64], s) for s in starts]
            return np.concatenate(blocks) if blocks else np.empty(0, dtype=X.dtype)
        if self.name in ("rbf", "laplacian"):
            return np.ones(X.shape[0], dtype=X.dtype)
        if self.name == "poly":
            with np.errstate(over="ignore", invalid="ignore"):
                return _power(self.gamma * squared_norm + X.dtype.type(self.coef0), self.degree)
        return squared_norm

    def _call(self, A: Matrix, B: Matrix) -> Array:
        try:
            return checked_kernel_values(self.name(A, B), (A.shape[0], B.shape[0]), A.dtype)
        except PointsError as error:
            i, j = error.points
            stack = sp.vstack if sp.issparse(A) else np.concatenate
            error.vectors = stack([A[[i]], B[[j]]])
            raise

    def _own_values(self, X: Matrix, first: int) -> Array:
        """Values k(x, x) of a kernel function, whose values of all pairs of some points must do."""
        values = self._call(X, X)
        if np.all(values.diagonal() >= 0):  # else `check_diagonal` says which are not
            try:
                check_inner_products(values, "kernel(X, X)", first, given=False)
            except PointsError as error:
                raise error.of(X, first) from None
        return values.diagonal()


class Panel(NamedTuple):
    """The rows of a block: (rows, features), or dense (features, rows) beside sparse points."""

    X: Any
    squared_norm: Any
    scale: Any


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """Array at the start of a cache line: vector loops over it are up to a third faster."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + n_bytes].view(dtype).reshape(shape)


def _sparse_rows(X: Array) -> Matrix:
    """CSR matrix of dense rows: SciPy takes ten times as long, by way of triplets."""
    from bayespoint._loops.sparse_products import count_non_zeros, fill_non_zeros

    indptr = np.empty(len(X) + 1, dtype=np.int64)
    count_non_zeros(X, indptr)
    largest = max(int(indptr[-1]), X.shape[1])
    index = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
    indices, data = np.empty(indptr[-1], dtype=index), np.empty(indptr[-1], dtype=X.dtype)
    fill_non_zeros(X, indices, data)
    return sp.csr_matrix((data, indices, indptr.astype(index)), shape=X.shape)


def _products(panel: Panel, points: Points, columns: slice) -> Array:
    """Inner products of the panel's rows with some points, in tiles of one fixed size."""
    n_columns = columns.stop - columns.start
    if sp.issparse(panel.X):
        return (panel.X @ points.X[columns].T).toarray()
    chunk = points.X[columns]
    width = block_columns(len(points))
    if n_columns < width:
        padded = np.zeros((width, chunk.shape[1]), dtype=chunk.dtype)
        padded[:n_columns] = chunk
        chunk = padded
    products = steady_product(panel.X[:, :BLOCK_FEATURES], chunk[:, :BLOCK_FEATURES].T)
    for k in range(BLOCK_FEATURES, chunk.shape[1], BLOCK_FEATURES):
        features = slice(k, k + BLOCK_FEATURES)
        products += steady_product(panel.X[:, features], chunk[:, features].T)
    return products[:, :n_columns]


def steady_product(A: Array, B: Array) -> Array:
    """``A @ B`` for full tiles, with the same bits wherever a row or a column stands.

    Some BLAS kernels for float32 (OpenBLAS's for Haswell and Zen) add in an order that depends on
    the place of an entry in the tile. There products are made in float64.
    """
    if A.dtype == np.float64 or steady_in_float32():
        return A @ B
    return (A.astype(np.float64) @ B.astype(np.float64)).astype(A.dtype)


@cache
def steady_in_float32() -> bool:
    """Whether rows and columns of a product in float32 can change places without changing bits."""
    X = np.random.default_rng(0).standard_normal((BLOCK_ROWS + COLUMN_TILE, 64), dtype=np.float32)
    A, B = X[:BLOCK_ROWS], X[BLOCK_ROWS:]
    moved = np.roll(A, 1, axis=0) @ np.roll(B, 1, axis=0).T
    return np.array_equal(np.roll(moved, (-1, -1), axis=(0, 1)), A @ B.T)


def _squared_norms(X: Matrix) -> Array:
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            return np.asarray(X.multiply(X).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", X, X)


def _laplacian(A: Matrix, B: Matrix, gamma: float) -> Array:
    if sp.issparse(A) or sp.issparse(B):
        distance = manhattan_distances(A, B)
    else:
        distance = city_block_distances(A, B)
    with np.errstate(over="ignore"):  # an infinite distance gives 0, as it should
        return np.exp(-gamma * distance).astype(A.dtype, copy=False)


def city_block_distances(A: Array, B: Array) -> Array:
    """Sums of the absolute differences of all columns, between rows of A and of B."""
    from bayespoint._loops.city_block import city_block

    found = np.empty((len(A), len(B)), dtype=A.dtype)
    city_block(np.ascontiguousarray(A), np.ascontiguousarray(B.T), found)
    return found


def _power(base: Array, degree: float) -> Array:
    """``base ** degree``, by multiplication for whole numbers: faster than numpy's power."""
    if degree == 1:
        return base
    if degree != int(degree):
        return np.power(base, base.dtype.type(degree))
    result: Any = None
    square, left = base, int(degree)
    while left:
        if left & 1:
            result = square.copy() if result is None else np.multiply(result, square, out=result)
        left >>= 1
        if left:
            square = square * square
    return result


def scale_gamma(n_features: int, variance: float) -> float:
    """Width 1 / (n_features * variance of all values), as SVC's "scale"."""
    if not np.isfinite(variance):
        raise ValueError(
            "gamma from the data needs the variance of X, which overflows: scale the features, "
            "for example with StandardScaler."
        )
    if variance <= 0:
        return 1.0
    with np.errstate(over="ignore"):
        gamma = 1.0 / (n_features * variance)
    if not np.isfinite(gamma):
        raise ValueError("gamma from the data overflows: the features vary too little; scale them.")
    return float(gamma)
