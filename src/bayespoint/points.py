"""The distinct training points: duplicates merged, in an order that the input's does not set."""

import hashlib
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

_HASH_SEED = 20010901  # any constant: it fixes the canonical order of the points


class DistinctPoints(NamedTuple):
    """Training points after merging.

    Attributes
    ----------
    row : ndarray of shape (n_distinct,)
        Row of the input that stands for each distinct point: its first occurrence.
    label : ndarray of shape (n_distinct,)
        Encoded label.
    weight : ndarray of shape (n_distinct,)
        Summed weight of the copies; a weight w means w copies.
    """

    row: np.ndarray
    label: np.ndarray
    weight: np.ndarray


class ContradictoryPointsError(ValueError):
    """Equal inputs carry different labels, which no classifier can agree with."""


def merge_duplicates(X, label, weight, *, keep_order=False):
    """Merge equal rows of X that carry the same label; drop rows of weight 0.

    The result is ordered by content (a hash), so that permuting the rows of the input permutes
    nothing else. ``keep_order=True`` orders by first occurrence instead, for Gram matrices,
    whose columns move with their rows.
    """
    kept = np.flatnonzero(weight > 0)
    group = _groups_of_equal_rows(X[kept])
    key = group * (label.max() + 1) + label[kept]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    total = np.bincount(inverse, weights=weight[kept])
    index = kept[first]
    if keep_order:
        order = np.argsort(index)
        index, total = index[order], total[order]
    return DistinctPoints(index, label[index], total)


def contradictions(X, points):
    """Pairs of input rows that are equal but labelled differently, as an array (n_pairs, 2)."""
    group = _groups_of_equal_rows(X[points.row])
    order = np.argsort(group, kind="stable")
    same = group[order][1:] == group[order][:-1]
    return np.sort(
        np.column_stack([points.row[order][:-1][same], points.row[order][1:][same]]), axis=1
    )


def fingerprint(X, points):
    """Text that changes when the distinct points, their labels or their weights do."""
    digest = hashlib.blake2b(_row_hashes(X[points.row]).tobytes(), digest_size=16)
    digest.update(points.label.tobytes())
    digest.update(points.weight.tobytes())
    return digest.hexdigest()


def _groups_of_equal_rows(X):
    """Number the distinct rows in hash order; equal rows get equal numbers."""
    keys = _row_hashes(X)
    _, group = np.unique(keys, return_inverse=True)
    order = np.argsort(group, kind="stable")
    neighbours = order[:-1][np.diff(group[order]) == 0], order[1:][np.diff(group[order]) == 0]
    if _rows_equal(X, *neighbours):
        return group
    # Two different rows share a hash: let the exact, slower comparison decide for all.
    dense = X.toarray() if sp.issparse(X) else X
    return np.unique(dense + 0.0, axis=0, return_inverse=True)[1].ravel()


def _rows_equal(X, left, right):
    if sp.issparse(X):
        return (X[left] != X[right]).nnz == 0
    return np.array_equal(X[left], X[right])


def _row_hashes(X):
    from bayespoint._kernels.sparse_products import hash_dense, hash_sparse

    rng = np.random.default_rng(_HASH_SEED)
    multipliers = rng.integers(2**64, size=X.shape[1], dtype=np.uint64) | np.uint64(1)
    keys = np.empty(X.shape[0], dtype=np.uint64)
    if sp.issparse(X):
        hash_sparse(X.indptr, X.indices, _words(X.data), multipliers, keys)
    else:
        hash_dense(_words(X), multipliers, keys)
    return keys


def _words(values):
    """Bit patterns of floating-point values, with -0.0 as 0.0."""
    values = np.ascontiguousarray(values) + 0.0
    return values.view(np.uint64 if values.dtype == np.float64 else np.uint32)
