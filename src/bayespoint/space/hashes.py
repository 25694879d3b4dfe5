"""Hashes of rows: of their values, to find equal ones, and of their places, to put them in order.

The order of the rows is the same whatever the order of the input, of the columns, their units and
the precision of the values, except where rounding matters.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.space.kernels import COLUMN_TILE

# A value's place between the least and the largest of its column is a whole number of such steps.
# Of few steps first: rounding to float32 moves hardly any value to another one. Bounds are shifted
# by the golden ratio, whose multiples stay away from whole numbers, as fractions such as those of
# counts or of two values are.
LEVELS = (6, 720, 720_720)
SHIFT = (np.sqrt(5) - 1) / 2

# Values themselves, in single precision, count as places where there are more columns than this.
MOST_PLACED = 1_000

# Bits of a key that are the same for any order of columns: enough for all rows that differ in them.
ALIKE_BITS = 36

_HASH_SEED = 20010901  # any constant: it fixes the canonical order of the points


def hash_multipliers(n_features: int, *, alike: bool = False) -> Array:
    """Return an odd number for each column, or the same one for all."""
    rng = np.random.default_rng(_HASH_SEED)
    n_made = min(n_features, 1) if alike else n_features
    made = rng.integers(2**64, size=n_made, dtype=np.uint64) | np.uint64(1)
    return np.repeat(made, n_features) if alike else made


def row_hashes(X: Matrix, *, alike: bool = False) -> Array:
    """Hash of each row, whichever block of rows it comes in; ``alike``: in any order of columns."""
    from bayespoint._loops.sparse_products import hash_dense, hash_sparse

    multipliers = hash_multipliers(X.shape[1], alike=alike)
    keys = np.empty(X.shape[0], dtype=np.uint64)
    if sp.issparse(X):
        hash_sparse(X.indptr, X.indices, *_words(X.data), multipliers, keys)
    else:
        hash_dense(*_words(X), multipliers, keys)
    return keys


def _words(values: Array) -> tuple[Array, Any]:
    """Bit patterns of floating-point values, without a copy where they are so; and that of -0.0."""
    values = np.ascontiguousarray(values, dtype=np.result_type(values, 0.0))
    kind = np.uint64 if values.dtype == np.float64 else np.uint32
    return values.view(kind), values.dtype.type(-0.0).view(kind)


def limits(X: Matrix) -> tuple[Array, Array]:
    """Least and largest value of each column."""
    least, most = (
        np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64).ravel()
        for values in (X.min(axis=0), X.max(axis=0))
    )
    return least, most


def order_hashes(X: Matrix, least: Array, most: Array) -> Array:
    """Keys that rows are put in order by, given the limits of all columns.

    They are sums over columns of what the places of the values give, few steps first. Only rows
    with the same places in other columns, as indicators have, are told apart by the columns.
    Rows next to each other may be alike: a sample is to be spread over the order.
    """
    if X.shape[1] > MOST_PLACED:
        with np.errstate(over="ignore"):
            single = X.astype(np.float32, copy=False)
        return joined([row_hashes(single, alike=True)], row_hashes(single))
    if sp.issparse(X):
        return _sparse_keys(X, least, most)
    tiles = (X[s : s + COLUMN_TILE] for s in range(0, X.shape[0], COLUMN_TILE))
    return np.concatenate([_keys(steps(tile, least, most)) for tile in tiles])


def steps(values: Array, least: Array, most: Array) -> list[Array]:
    """Return the places of values in columns with such limits, for each number of steps."""
    with np.errstate(over="ignore", invalid="ignore"):
        place = (values - least) / np.where(most > least, most - least, np.inf)
        return [np.floor(place * n_steps + SHIFT).astype(np.float32) for n_steps in LEVELS]


def _keys(places: list[Array]) -> Array:
    return joined([row_hashes(found, alike=True) for found in places], row_hashes(places[-1]))


def _sparse_keys(X: Any, least: Array, most: Array) -> Array:
    """Keys of sparse rows: hashes are sums, so that of zeros, and what other values change."""
    here, shape = X.indices, (X.indices, X.indptr)
    there = steps(X.data, least[here], most[here])
    zeros = steps(np.zeros(X.shape[1]), least, most)

    def hashed(level: int, *, alike: bool) -> Array:
        parts = (there[level], zeros[level][here])
        full, empty = (
            row_hashes(sp.csr_matrix((part, *shape), shape=X.shape), alike=alike) for part in parts
        )
        return row_hashes(zeros[level][None], alike=alike)[0] + full - empty

    alike = [hashed(level, alike=True) for level in range(len(LEVELS))]
    return joined(alike, hashed(-1, alike=False))


def joined(alike: Sequence[Array], by_column: Array) -> Array:
    """Return keys that begin with bits of some hashes, and end with those of the last."""
    bits = ALIKE_BITS // len(alike)
    key = by_column >> np.uint64(ALIKE_BITS)
    for number, found in enumerate(alike, 1):
        key |= found >> np.uint64(64 - bits) << np.uint64(64 - bits * number)
    return key
