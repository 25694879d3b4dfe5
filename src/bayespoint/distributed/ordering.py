"""All rows in the order of their hashes, equal ones merged: the rows of a fit on one machine.

Each partition merges its own rows and divides them by their hashes; a chunk of the order has all
rows whose hashes lie in a range, from all partitions, equal ones among them. Neither the number of
partitions nor that of chunks is felt: chunk after chunk, these are the rows in the order that
`space.merging` puts them into.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.blocks import Block, Facts
from bayespoint.distributed.session import Session
from bayespoint.space.inputs import MOST_ORDERED, Inputs, place_hashes, row_hashes
from bayespoint.space.merging import DistinctRows, contested, merge_duplicates

# Bytes of rows in a chunk, about, and chunks at most, since each partition sends a piece to each,
# which is a task; more than that only where a task could not hold a chunk.
CHUNK_BYTES = 64_000_000
MOST_CHUNKS = 256


class Placed(Inputs):
    """Rows with the limits of all columns known, which their order comes from."""

    def __init__(self, X: Matrix, least: Array, most: Array) -> None:
        super().__init__(X)
        self._limits = least, most

    def order_keys(self, index: Array) -> Array:
        """Hashes by which some rows are put in order, as if all rows were here."""
        X = self.X[index]
        return row_hashes(X) if X.shape[1] > MOST_ORDERED else place_hashes(X, *self._limits)


class Piece(NamedTuple):
    """Distinct rows of a partition that go to one chunk, and the rows of the input they are."""

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


def split_by_hash(block: Block, offset: int, facts: Facts, n_chunks: int) -> list[Piece]:
    """Merge the rows of a partition and divide them by their hashes."""
    kept = np.flatnonzero(block.weight > 0)
    X: Any = _alike(block.X[kept], facts)
    label = np.searchsorted(facts.classes, block.y[kept])
    inputs = Placed(X, facts.least, facts.most)
    if not len(kept):
        none = np.empty(0, dtype=np.int64)
        return [Piece(X, none, np.empty(0), none, none, none)] * n_chunks
    found = merge_duplicates(inputs, label, block.weight[kept])
    shift = np.uint64(64 - int(n_chunks).bit_length() + 1)
    place = inputs.order_keys(found.row) >> shift if n_chunks > 1 else np.zeros(len(found.row))
    ends = np.searchsorted(place, np.arange(n_chunks + 1))
    order = np.argsort(found.member, kind="stable")
    member_ends = np.searchsorted(found.member[order], ends)
    pieces = []
    for number in range(n_chunks):
        part = slice(*ends[number : number + 2])
        members = order[member_ends[number] : member_ends[number + 1]]
        pieces.append(
            Piece(
                X[found.row[part]], found.label[part], found.weight[part],
                offset + kept[found.row[part]], offset + kept[members],
                found.member[members] - ends[number],
            )
        )  # fmt: skip
    return pieces


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


def without_rows(chunk: Chunk) -> Chunk:
    """What the client holds of a chunk: all but the rows themselves."""
    return chunk._replace(X=chunk.X[:0])


def n_chunks_of(n_bytes: float, room: float) -> int:
    """Return the number of chunks, a power of 2: hashes are divided by their first bits."""
    wanted = max(min(n_bytes / CHUNK_BYTES, MOST_CHUNKS), n_bytes / room, 1)
    return int(2 ** np.ceil(np.log2(wanted)))


def ordered(session: Session, blocks: list[Any], facts: Facts) -> list[Any]:
    """Return chunks of all rows in their order, on the cluster."""
    from dask import delayed

    n_chunks = n_chunks_of(facts.n_bytes, session.room().task)
    about = session.hold("facts", facts)
    split = delayed(split_by_hash, pure=False)
    pieces = session.compute(
        [
            split(
                block, int(offset), delayed(about), n_chunks,
                dask_key_name=session.key("split-by-hash"),
            )
            for block, offset in zip(blocks, facts.offsets, strict=False)
        ]
    )  # fmt: skip
    own = session.transposed("piece-of-hashes", pieces, n_chunks)
    return session.map("merge-pieces", merge_pieces, own, facts=about)


def distinct_of(found: list[Chunk], n_samples: int) -> DistinctRows:
    """Return what is known of all distinct rows, as `merge_duplicates` does on one machine."""
    row, label, weight, key = (
        np.concatenate([getattr(chunk, name) for chunk in found])
        for name in ("row", "label", "weight", "key")
    )
    offsets = np.cumsum([0, *(len(chunk.label) for chunk in found)])
    member = np.full(n_samples, -1)
    for chunk, first in zip(found, offsets, strict=False):
        member[chunk.member] = first + chunk.member_of
    group = np.unique(key, return_inverse=True)[1]
    digest = hashlib.blake2b(key.tobytes(), digest_size=16)
    digest.update(label.tobytes())
    digest.update(weight.tobytes())
    return DistinctRows(row, label, weight, group, digest.hexdigest(), member)
