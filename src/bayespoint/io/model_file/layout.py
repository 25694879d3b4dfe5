"""Names, caps and headers of model files, for writing and reading alike."""

import struct
import zipfile
from collections.abc import Sequence

from bayespoint.io.model_file.errors import ModelFileError

JSON_NAME = "model.json"
ARRAY_NAME = "arrays/{}.npy"

# All members inflated. The largest models that fit into memory on most machines: the matrices of
# votes of ten classes over 9,000 points.
MAX_BYTES = 8 * 2**30

# The JSON holds settings, labels, and names of features: 100,000 columns take about 20 MiB. Parsed,
# it takes up to forty times the memory.
MAX_JSON_BYTES = 32 * 2**20

# Values and names in it, counted by the signs that part them: each takes up to 130 bytes once it is
# read. So many that honest models, whose numbers are longer, meet the limit of bytes first. And how
# deep they are nested: a list in a dict of diagnostics of draws of a classifier in a classifier.
MAX_JSON_VALUES = 3_000_000
MAX_JSON_DEPTH = 64

# What is made from the JSON beside what stands there: room for the longest text in every entry of
# an array, random states, lists. 3,000 labels of 200 characters take 2.4 MB.
MAX_MADE_BYTES = 64 * 2**20

# Three arrays per class for the draws of perceptrons: room for 3,000 classes.
MAX_ARRAYS = 10_000
MAX_DIRECTORY_BYTES = 128 * MAX_ARRAYS

# Inflated bytes for each byte of the file. Sparse rows of numbers reach 30 to 50, bombs 1,000.
# Small files may exceed it: 64 MiB do no harm.
MAX_RATIO = 100
FREE_BYTES = 64 * 2**20

# Arrays are (machines, rows, columns) at most.
MAX_AXES = 4

# What fits into the cache beside its hash, and is written at once.
CHUNK_BYTES = 2**20

# Little-endian numbers of the sizes that fits leave. No objects: these would be pickles.
DTYPES = (
    "|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8",
)  # fmt: skip


class Budget:
    """Counts the bytes that values in the JSON take once they are made, over the whole file."""

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, n_bytes: int) -> None:
        """Refuse a value that takes more than is left, before it is made."""
        self._spent += n_bytes
        if self._spent > MAX_MADE_BYTES:
            raise ModelFileError(
                f"labels, names and settings would take more than {MAX_MADE_BYTES} bytes of memory."
            )


def npy_header(dtype: str, order: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of a ``.npy`` file of version 1.0, the same whatever NumPy's version."""
    fields = f"{{'descr': {dtype!r}, 'fortran_order': {order == 'F'}, 'shape': {shape!r}, }}"
    padding = " " * (-(10 + len(fields) + 1) % 64)
    text = (fields + padding + "\n").encode("ascii")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def check_sizes(members: Sequence[zipfile.ZipInfo], file_size: int) -> None:
    """Refuse what would inflate to more than the caps."""
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES:
        raise ModelFileError(f"its arrays take {total} bytes, more than {MAX_BYTES}.")
    if total > max(FREE_BYTES, MAX_RATIO * file_size):
        raise ModelFileError(
            f"{file_size} bytes would inflate to {total}, more than {MAX_RATIO} times as many."
        )
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise ModelFileError(f"member {member.filename} has two different sizes.")
        if member.filename == JSON_NAME and member.file_size > MAX_JSON_BYTES:
            raise ModelFileError(
                f"{JSON_NAME} has {member.file_size} bytes, more than {MAX_JSON_BYTES}."
            )
