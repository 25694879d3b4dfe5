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
    group : ndarray of shape (n_distinct,)
        Equal numbers for equal rows, which may still carry different labels.
    fingerprint : str
        Changes when rows, labels or weights do.
    member : ndarray of shape (n_rows,)
        Distinct point of each row of the input, -1 for rows of weight 0.
    """

    row: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    fingerprint: str
    member: np.ndarray


def merge_duplicates(X, label, weight, *, keep_order=False, merge=True):
    """Merge equal rows of X that carry the same label; drop rows of weight 0.

    The result is ordered by content (a hash), so that permuting the rows of the input permutes
    nothing else. ``keep_order=True`` orders by first occurrence instead, for Gram matrices,
    whose columns move with their rows. ``merge=False`` leaves copies as they are, and makes w of
    them where the weight is w, rounded to a whole number.
    """
    kept = np.flatnonzero(weight > 0)
    if len(kept) < X.shape[0]:
        X = X.take(kept) if hasattr(X, "hashes") else X[kept]
    keys = X.hashes() if hasattr(X, "hashes") else row_hashes(X)
    order = np.argsort(keys)
    group, distinct = _groups_of_equal_rows(X, keys, order)
    key = group * (label.max() + 1) + label[kept]
    if distinct:  # there is nothing to merge, and sorting once more can be saved
        first, inverse = order, group.copy()
        total = weight[kept][first]
    else:
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        total = np.bincount(inverse, weights=weight[kept])
    if not merge:
        copies = np.maximum(np.rint(weight[kept]), 1).astype(np.int64)
        order = np.argsort(key, kind="stable")
        first = np.repeat(order, copies[order])
        total = (weight[kept] / copies)[first]
        inverse[first[::-1]] = np.arange(len(first))[::-1]  # the first copy of each row
    if keep_order:
        order = np.argsort(first, kind="stable")
        first, total, inverse = first[order], total[order], np.argsort(order)[inverse]
    row = kept[first]
    digest = hashlib.blake2b(keys[first].tobytes(), digest_size=16)
    digest.update(label[row].tobytes())
    digest.update(total.tobytes())
    member = np.full(len(label), -1)
    member[kept] = inverse
    return DistinctPoints(row, label[row], total, group[first], digest.hexdigest(), member)


def encoded(y):
    """Return the distinct labels in order, and the place of each label among them."""
    if y.dtype.kind in "iu" and int(y.max()) - int(y.min()) < len(y):  # without sorting
        # Differences of narrow types wrap around, but not in 64 bits without a sign.
        shifted = (y.astype(np.uint64) - y.min().astype(np.uint64)).astype(np.int64)
        there = np.bincount(shifted) > 0
        labels = np.flatnonzero(there).astype(np.uint64) + y.min().astype(np.uint64)
        return labels.astype(y.dtype), (np.cumsum(there) - 1)[shifted]
    return np.unique(y, return_inverse=True)


def contradictions(points, sure=slice(None)):
    """Input rows that are equal but labelled differently, and sure of it, as a sorted array."""
    group, row = points.group[sure], points.row[sure]
    several, count = np.unique(group, return_counts=True)
    return np.sort(row[np.isin(group, several[count > 1])])


def of_each_class(label, most, seed):
    """Choose at most so many points, every class in proportion and none left out.

    They come class after class, in random order.
    """
    rng = np.random.default_rng(seed)
    share = min(1.0, most / len(label))
    members = [rng.permutation(np.flatnonzero(label == c)) for c in range(label.max() + 1)]
    return np.concatenate([m[: max(1, int(share * len(m)))] for m in members])


def contested(points):
    """Whether another label was given to an equal row, for each distinct point."""
    several, count = np.unique(points.group, return_counts=True)
    return np.isin(points.group, several[count > 1])


def _groups_of_equal_rows(X, keys, order):
    """Number the distinct rows in hash order, equal rows alike; whether all are distinct."""
    differs = np.diff(keys[order]) != 0
    group = np.empty(len(keys), dtype=np.int64)
    group[order] = np.concatenate([[0], np.cumsum(differs)])[: len(keys)]
    if np.all(differs):
        return group, True
    neighbours = order[:-1][~differs], order[1:][~differs]
    equal = X.rows_equal(*neighbours) if hasattr(X, "hashes") else _rows_equal(X, *neighbours)
    if equal:
        return group, False
    # Two different rows share a hash: let the exact, slower comparison decide for all.
    if hasattr(X, "hashes"):
        X = X[np.arange(X.shape[0])]
    if not sp.issparse(X):
        return np.unique(X + 0.0, axis=0, return_inverse=True)[1].ravel(), False
    parts = (slice(*pair) for pair in zip(X.indptr[:-1], X.indptr[1:], strict=True))
    contents = [X.indices[part].tobytes() + b":" + X.data[part].tobytes() for part in parts]
    number = {content: k for k, content in enumerate(sorted(set(contents)))}
    return np.array([number[content] for content in contents]), False


def _rows_equal(X, left, right):
    if sp.issparse(X):
        return (X[left] != X[right]).nnz == 0
    return np.array_equal(X[left], X[right])


def hash_multipliers(n_features):
    """Return an odd number for each column."""
    rng = np.random.default_rng(_HASH_SEED)
    return rng.integers(2**64, size=n_features, dtype=np.uint64) | np.uint64(1)


def row_hashes(X):
    """Hash of each row."""
    from bayespoint._loops.sparse_products import hash_dense, hash_sparse

    multipliers = hash_multipliers(X.shape[1])
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
