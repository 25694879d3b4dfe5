"""Writes the zip of a model file: arrays as they come, and the JSON that describes them."""

import hashlib
import json
import zipfile
import zlib
from contextlib import suppress
from typing import IO, Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.model_file.errors import ModelFileError
from bayespoint.io.model_file.layout import (
    ARRAY_NAME,
    CHUNK_BYTES,
    JSON_NAME,
    MAX_ARRAYS,
    MAX_JSON_BYTES,
    Budget,
    npy_header,
)

# An array is deflated where a sample of it shrinks below this share; floats with noise in their
# digits stay above 0.9, and would only cost time. Level 1 takes a third of the time of level 6, and
# shrinks zeros as well.
WORTHWHILE = 0.7
LEVEL = 1
SAMPLE_PARTS, SAMPLE_BYTES = 16, 2**16


class Writer:
    """Writes arrays as they come, each once, and the JSON that describes them at the end."""

    def __init__(self, stream: IO[bytes], *, deflate: bool = True) -> None:
        self._zip = zipfile.ZipFile(stream, "w", compresslevel=LEVEL)
        self._deflate = deflate
        self.budget = Budget()
        self._number: dict[int, int] = {}  # of each array, by its id
        self._kept: list[Array] = []  # so that no id is used again
        self._records: list[dict[str, Any]] = []

    def __enter__(self) -> "Writer":
        """Return itself."""
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Close the zip while its stream is open, after an error as well."""
        if kind is not None:
            with suppress(Exception):  # the error that led here counts
                self._zip.close()

    @property
    def members(self) -> list[zipfile.ZipInfo]:
        """Members of the zip so far."""
        return self._zip.infolist()

    def add(self, array: Array) -> int:
        """Write an array unless it is there already; return its number."""
        if id(array) not in self._number:
            self._number[id(array)] = len(self._records)
            self._kept.append(array)
            self._records.append(self._written(array))
        return self._number[id(array)]

    def _written(self, array: Array) -> dict[str, Any]:
        if len(self._records) == MAX_ARRAYS:
            raise ModelFileError(f"the model has more than {MAX_ARRAYS} arrays, too many to save.")
        # The order in memory is kept: sums over an axis depend on it in their last bits.
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        dtype, shape = array.dtype.newbyteorder("<"), array.shape
        data = np.ascontiguousarray(array.T if order == "F" else array, dtype=dtype)
        data = data.reshape(-1).view(np.uint8)
        header = npy_header(dtype.str, order, shape)
        name = ARRAY_NAME.format(len(self._records))
        deflated = self._deflate and shrinks(data)
        self._zip.compression = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
        digest = hashlib.sha256(header)
        with self._zip.open(name, "w", force_zip64=data.size >= 2**31) as member:
            member.write(header)
            for start in range(0, data.size, CHUNK_BYTES):
                chunk = data[start : start + CHUNK_BYTES].data
                digest.update(chunk)
                member.write(chunk)
        return {
            "dtype": dtype.str, "order": order, "shape": list(shape), "sha256": digest.hexdigest(),
        }  # fmt: skip

    def finish(self, document: dict[str, Any]) -> None:
        """Write the JSON and the directory of the zip."""
        text = strict_json(document | {"arrays": self._records}).encode("ascii")
        if len(text) > MAX_JSON_BYTES:
            raise ModelFileError(
                f"labels, names and settings take {len(text)} bytes of JSON, more than "
                f"{MAX_JSON_BYTES}: shorten names of features, or what is in about=."
            )
        self._zip.compression = zipfile.ZIP_DEFLATED if self._deflate else zipfile.ZIP_STORED
        with self._zip.open(JSON_NAME, "w") as member:
            member.write(text)
        self._zip.close()


def shrinks(data: Array) -> bool:
    """Whether deflating some bytes pays, from a sample of them."""
    starts = np.linspace(0, max(data.size - SAMPLE_BYTES, 0), SAMPLE_PARTS).astype(int)
    sample = b"".join(data[s : s + SAMPLE_BYTES].tobytes() for s in np.unique(starts))
    return len(zlib.compress(sample, LEVEL)) < WORTHWHILE * len(sample)


def strict_json(document: Any) -> str:
    """JSON text of plain types; NaN and infinity are refused."""
    return json.dumps(document, allow_nan=False, indent=1)
