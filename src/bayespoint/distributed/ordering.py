"""All rows in the order of their hashes, equal ones merged: the rows of a fit on one machine.

Each partition merges its own rows and sorts them by their hashes; a chunk of the order has all rows
whose hashes lie in a range, from all partitions, equal ones among them. The ranges come from a
sample, since many rows may have the same place in all columns: values far away from all others
leave the rest no room between the limits. Neither the number of partitions nor that of chunks is
felt: chunk after chunk, these are the rows in the order that `space.merging` puts them into.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.blocks import Block, Facts
from bayespoint.distributed.session import Session
from bayespoint.space.hashes import order_hashes, row_hashes
from bayespoint.space.inputs import Inputs
from bayespoint.space.merging import DistinctRows, contested, merge_duplicates

# Bytes of rows in a chunk, about, and chunks at most, since each partition sends a piece to each,
# which is a task; more than that only where a task could not hold a chunk.
CHUNK_BYTES = 64_000_000
MOST_CHUNKS = 256

# Rows of the sample for each chunk: chunks then differ by some per cent in size.
SAMPLED = 256

# What rows are sorted by: the hash of their places, and that of their contents, as `space.merging`
# does.
ORDER = np.dtype([("place", np.uint64), ("content", np.uint64)])


class Placed(Inputs):
    """Rows with the limits of all columns known, which their order comes from."""

    def __init__(self, X: Matrix, least: Array, most: Array) -> None:
        super().__init__(X)
        self._limits = least, most

    def order_keys(self, index: Array) -> Array:
        """Hashes by which some rows are put in order, as if all rows were here."""
        return order_hashes(self.X[index], *self._limits)


class Piece(NamedTuple):
    """Distinct rows of a partition, those of one chunk, and the rows of the input they are."""

    X: Matrix
    label: Array
    weight: Array
    row: Array
    member: Array  # rows of the input
    member_of: Array  # which of these rows each is


class Chunk(NamedTuple):
    """Distinct rows whose hashes lie in a range, in their order."""

    X: Matrix
    label: Array
    weight: Array
    own: Array  # copies that a row of the input is, on average
    alone: Array  # whether no equal row has another label
    key: Array  # hash of the contents
    row: Array
    member: Array
    member_of: Array


class SortedPart(NamedTuple):
    """Distinct rows of a partition in their order, and where each row of the input is."""

    rows: Piece
    order: Array  # `ORDER`


def sort_partition(block: Block, offset: int, facts: Facts) -> SortedPart:
    """Merge the rows of a partition and sort them by their hashes."""
    kept = np.flatnonzero(block.weight > 0)
    X: Any = _alike(block.X[kept], facts)
    label = np.searchsorted(facts.classes, block.y[kept])
    if not len(kept):
        none = np.empty(0, dtype=np.int64)
        return SortedPart(Piece(X, none, np.empty(0), none, none, none), np.empty(0, ORDER))
    inputs = Placed(X, facts.least, facts.most)
    found = merge_duplicates(inputs, label, block.weight[kept])
    X = X[found.row]
    order = np.empty(len(found.row), ORDER)
    order["place"], order["content"] = inputs.order_keys(found.row), row_hashes(X)
    by_row = np.argsort(found.member, kind="stable")
    rows = Piece(
        X, found.label, found.weight, offset + kept[found.row], offset + kept[by_row],
        found.member[by_row],
    )  # fmt: skip
    return SortedPart(rows, order)


def sampled_order(part: SortedPart, offset: int, step: int) -> Array:
    """Hashes of one row in so many, counted through all partitions."""
    return part.order[-offset % step :: step]


def piece_between(part: SortedPart, number: int, cuts: Array) -> Piece:
    """Return the rows of a partition that belong to a chunk, which lies between two cuts."""
    ends = np.concatenate([[0], np.searchsorted(part.order, cuts), [len(part.order)]])
    first, last = ends[number : number + 2]
    among = slice(*np.searchsorted(part.rows.member_of, [first, last]))
    X, label, weight, row = (values[first:last].copy() for values in part.rows[:4])
    return Piece(
        X, label, weight, row, part.rows.member[among].copy(), part.rows.member_of[among] - first
    )


def _alike(X: Matrix, facts: Facts) -> Matrix:
    """Rows in the precision of all of them, and sparse where some are."""
    if X.shape[1] != facts.n_features:  # an empty partition may say nothing of its columns
        X = np.empty((0, facts.n_features))
    X = X.astype(facts.dtype, copy=False)
    return sp.csr_matrix(X) if facts.sparse and not sp.issparse(X) else X


def merge_pieces(pieces: list[Piece], facts: Facts) -> Chunk:
    """Put the rows of a range of hashes, from all partitions, into their order."""
    sizes = np.cumsum([0, *(len(piece.label) for piece in pieces)])
    X = stacked([piece.X for piece in pieces])
    label, weight, row, member = (
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("label", "weight", "row", "member")
    )
    member_of = np.concatenate(
        [piece.member_of + first for piece, first in zip(pieces, sizes[:-1], strict=True)]
    )
    none = np.empty(0)
    if not len(label):
        return Chunk(
            X, label, weight, none, none.astype(bool), none.astype("u8"), row, member, member_of
        )
    found = merge_duplicates(Placed(X, facts.least, facts.most), label, weight)
    member_of = found.member[member_of]
    X = X[found.row]
    copies = np.bincount(member_of, minlength=len(found.row))
    return Chunk(
        X, found.label, found.weight, found.weight / copies, ~contested(found), row_hashes(X),
        row[found.row], member, member_of,
    )  # fmt: skip


def stacked(parts: list[Any]) -> Any:
    """Rows one below the other, sparse where some are."""
    if not any(map(sp.issparse, parts)):
        return np.concatenate(parts)
    return sp.vstack([sp.csr_matrix(part) for part in parts], format="csr")


def known_of(chunk: Chunk, field: str) -> Any:
    """Return one of the arrays of a chunk; of "rows", their number."""
    return len(chunk.label) if field == "rows" else getattr(chunk, field)


def n_chunks_of(n_bytes: float, room: float) -> int:
    """Return the number of chunks."""
    return int(np.ceil(max(min(n_bytes / CHUNK_BYTES, MOST_CHUNKS), n_bytes / room, 1)))


def ordered(session: Session, blocks: list[Any], facts: Facts) -> list[Any]:
    """Return chunks of all rows in their order, on the cluster."""
    from dask import delayed

    about = session.hold("facts", facts)
    sort = delayed(sort_partition, pure=False)
    offsets = facts.offsets[:-1].tolist()
    parts = session.compute(
        [
            sort(block, offset, delayed(about), dask_key_name=session.key("sort-partition"))
            for block, offset in zip(blocks, offsets, strict=True)
        ]
    )
    cuts = _cuts(session, parts, facts)
    held = session.hold("cuts", cuts)
    own = session.transposed("piece-of-order", parts, len(cuts) + 1, piece_between, cuts=held)
    return session.map("merge-pieces", merge_pieces, own, facts=about)


def _cuts(session: Session, parts: list[Any], facts: Facts) -> Array:
    """Hashes where the chunks after the first begin: quantiles of a sample of all rows."""
    n_rows, n_chunks = facts.offsets[-1], n_chunks_of(facts.n_bytes, session.room().task)
    if n_chunks == 1:
        return np.empty(0, ORDER)
    step = max(1, int(n_rows / (SAMPLED * n_chunks)))
    sampled = session.map(
        "sample-order", sampled_order, parts, facts.offsets[:-1].tolist(), step=step
    )
    sample = np.sort(np.concatenate(session.results(sampled)))
    return sample[np.arange(1, n_chunks) * len(sample) // n_chunks] if len(sample) else sample


def distinct_of(session: Session, chunks: list[Any], n_samples: int) -> tuple[DistinctRows, Array]:
    """Return what is known of all distinct rows, as `merge_duplicates` does, and chunks' sizes.

    Array after array, since those of all rows may be most of what the client can hold.
    """

    def each(field: str) -> list[Any]:
        return session.results(session.map("what-is-known", known_of, chunks, field=field))

    sizes, key = np.array(each("rows")), np.concatenate(each("key"))
    digest = hashlib.blake2b(key.data, digest_size=16)
    group = np.unique(key, return_inverse=True)[1]
    del key
    row, label, weight = (np.concatenate(each(name)) for name in ("row", "label", "weight"))
    digest.update(label.data)
    digest.update(weight.data)
    member, first = np.full(n_samples, -1), np.cumsum([0, *sizes])
    for rows, place, begin in zip(each("member"), each("member_of"), first, strict=False):
        member[rows] = begin + place
    return DistinctRows(row, label, weight, group, digest.hexdigest(), member), sizes
