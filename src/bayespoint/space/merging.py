"""The distinct training rows: duplicates merged, in an order that the input's does not set."""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.space.inputs import Inputs

# Copies of rows that are made, where they are not merged: their Gram matrix would not fit.
MOST_MADE = 100_000


class DistinctRows(NamedTuple):
    """Training rows after merging.

    Attributes
    ----------
    row : ndarray of shape (n_distinct,)
        Row of the input that stands for each distinct one: its first occurrence.
    label : ndarray of shape (n_distinct,)
        Encoded label.
    weight : ndarray of shape (n_distinct,)
        Summed weight of the copies; a weight w means w copies.
    group : ndarray of shape (n_distinct,)
        Equal numbers for equal rows, which may still carry different labels.
    fingerprint : str
        Changes when rows, labels or weights do.
    member : ndarray of shape (n_rows,)
        Distinct row of each row of the input, -1 for rows of weight 0.
    """

    row: Array
    label: Array
    weight: Array
    group: Array
    fingerprint: str
    member: Array


def merge_duplicates(
    inputs: Inputs, label: Array, weight: Array, *, keep_order: bool = False, merge: bool = True,
    most_made: int = MOST_MADE,
) -> DistinctRows:  # fmt: skip
    """Merge equal rows that carry the same label; drop rows of weight 0.

    The result is ordered by content (a hash), so that permuting the rows of the input permutes
    nothing else, and neither does a change of the units of a column. ``keep_order=True`` orders by
    first occurrence instead, for Gram matrices, whose columns move with their rows.
    ``merge=False`` leaves copies as they are, and makes w of them where the weight is w, rounded
    to a whole number; at most ``most_made`` in all.
    """
    kept = np.flatnonzero(weight > 0)
    keys = inputs.hashes()[kept]
    order = np.argsort(keys)
    group, distinct = _groups_of_equal_rows(inputs, kept, keys, order)
    key = group * (label.max() + 1) + label[kept]
    if distinct:  # there is nothing to merge, and sorting once more can be saved
        first, inverse = order, group.copy()
        total = weight[kept][first]
    else:
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        total = np.bincount(inverse, weights=weight[kept])
    if not merge:
        copies = np.maximum(np.rint(weight[kept]), 1).astype(np.int64)
        n_copies, most = copies.sum(dtype=np.float64), max(min(most_made, MOST_MADE), len(kept))
        if n_copies > most:
            raise ValueError(
                f"sample_weight asks for {n_copies:.3g} copies of rows, each of which is made "
                f"here, and cache_size holds at most {most:,}: divide all weights by one number."
            )
        order = np.argsort(key, kind="stable")
        first = np.repeat(order, copies[order])
        total = (weight[kept] / copies)[first]
        inverse[first[::-1]] = np.arange(len(first))[::-1]  # the first copy of each row
    if len(first):
        order = np.argsort(first if keep_order else inputs.order_keys(kept[first]), kind="stable")
        first, total, inverse = first[order], total[order], np.argsort(order)[inverse]
    row = kept[first]
    digest = hashlib.blake2b(keys[first].tobytes(), digest_size=16)
    digest.update(label[row].tobytes())
    digest.update(total.tobytes())
    member = np.full(len(label), -1)
    member[kept] = inverse
    return DistinctRows(row, label[row], total, group[first], digest.hexdigest(), member)


def encoded(y: Array) -> tuple[Array, Array]:
    """Return the distinct labels in order, and the place of each label among them."""
    if y.dtype.kind in "iu" and int(y.max()) - int(y.min()) < len(y):  # without sorting
        # Differences of narrow types wrap around, but not in 64 bits without a sign.
        shifted = (y.astype(np.uint64) - y.min().astype(np.uint64)).astype(np.int64)
        there = np.bincount(shifted) > 0
        labels = np.flatnonzero(there).astype(np.uint64) + y.min().astype(np.uint64)
        return labels.astype(y.dtype), (np.cumsum(there) - 1)[shifted]
    return np.unique(y, return_inverse=True)


def contradictions(distinct: DistinctRows, sure: Any = slice(None)) -> Array:
    """Input rows that are equal but labelled differently, and sure of it, as a sorted array."""
    group, row = distinct.group[sure], distinct.row[sure]
    several, count = np.unique(group, return_counts=True)
    return np.sort(row[np.isin(group, several[count > 1])])


def last_of(distinct: DistinctRows, number: Array | None = None) -> Array:
    """Last row of the input that is equal to each distinct one, or the largest of its numbers."""
    member = distinct.member
    number = np.arange(len(member)) if number is None else number
    found = np.zeros(len(distinct.row), dtype=np.int64)
    np.maximum.at(found, member[member >= 0], number[member >= 0])
    return found


def contested(distinct: DistinctRows) -> Array:
    """Whether another label was given to an equal row, for each distinct row."""
    several, count = np.unique(distinct.group, return_counts=True)
    return np.isin(distinct.group, several[count > 1])


def of_each_class(label: Array, most: int, seed: np.random.SeedSequence) -> Array:
    """Choose at most so many rows, every class in proportion and two of it at least.

    They come class after class, in random order.
    """
    rng = np.random.default_rng(seed)
    share = min(1.0, most / len(label))
    members = [rng.permutation(np.flatnonzero(label == c)) for c in range(label.max() + 1)]
    return np.concatenate([m[: max(min(2, len(m)), int(share * len(m)))] for m in members])


def spread_over(n_rows: int, most: int) -> Array:
    """Numbers of at most so many rows, evenly spread: rows next to each other may be alike."""
    n_chosen = min(most, n_rows)
    return np.arange(n_chosen) * n_rows // max(n_chosen, 1)


def _groups_of_equal_rows(
    inputs: Inputs, kept: Array, keys: Array, order: Array
) -> tuple[Array, bool]:
    """Number the kept rows in hash order, equal rows alike; whether all are distinct."""
    differs = np.diff(keys[order]) != 0
    group = np.empty(len(keys), dtype=np.int64)
    group[order] = np.concatenate([[0], np.cumsum(differs)])[: len(keys)]
    if np.all(differs):
        return group, True
    if inputs.rows_equal(kept[order[:-1][~differs]], kept[order[1:][~differs]]):
        return group, False
    # Two different rows share a hash: let the exact, slower comparison decide for all.
    return inputs.groups(kept), False
