"""Reads the zip of a model file, every size checked before anything is inflated.

Nothing of a file is trusted. Members have fixed names; the directory is checked for sizes,
overlaps and ratios before anything is read; arrays must have exactly the bytes that dtype and shape
in ``model.json`` give, so that no header of a file is ever parsed; every array has its hash.
"""

import copy
import hashlib
import json
import math
import re
import stat
import struct
import zipfile
from typing import IO, Any, TypeAlias

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.model_file.errors import ModelFileError, shown
from bayespoint.io.model_file.layout import (
    ARRAY_NAME,
    CHUNK_BYTES,
    DTYPES,
    JSON_NAME,
    MAX_ARRAYS,
    MAX_AXES,
    MAX_BYTES,
    MAX_DIRECTORY_BYTES,
    MAX_JSON_DEPTH,
    MAX_JSON_VALUES,
    Budget,
    check_sizes,
    npy_header,
)

_END = struct.Struct("<4s4H2LH")  # end of the directory
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LOCAL = struct.Struct("<4s5H3L2H")  # before each member

# Signs of JSON, and texts, in which they are none; one that does not end goes on to the last byte.
_SIGNS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},:]', re.DOTALL)
_OPENING, _CLOSING = (b"[", b"{"), (b"]", b"}")
_PARTING = (*_OPENING, b",", b":")

# Dtype, order, shape and hash of an array.
Record: TypeAlias = tuple[np.dtype, str, tuple[int, ...], str]


class Reader:
    """Checks the directory of a file and reads its JSON; arrays when they are asked for."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.size = stream.seek(0, 2)
        self.budget = Budget()
        n_members, directory = _end_of(stream, self.size)
        self._zip = zipfile.ZipFile(stream)
        self.members = self._zip.infolist()
        if len(self.members) != n_members:
            raise ModelFileError(f"{n_members} members announced, {len(self.members)} found.")
        _check_members(self.members)
        _check_places(stream, self.members, directory)
        check_sizes(self.members, self.size)
        self.document = self._json()
        self.records = self.document.pop("arrays", None)
        self._check_records()
        self._arrays: dict[int, Array] = {}

    def _json(self) -> dict[str, Any]:
        size = self._zip.getinfo(JSON_NAME).file_size
        with self._open(JSON_NAME) as member:
            text = member.read(size + 1)
        if len(text) != size:
            raise ModelFileError(f"{JSON_NAME} does not have the {size} bytes announced.")
        _check_json(text)
        try:
            document = json.loads(
                text.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite,
                object_pairs_hook=_unique_keys,
            )  # fmt: skip
        except RecursionError:
            raise ModelFileError(f"{JSON_NAME} is nested too deep.") from None
        if not isinstance(document, dict):
            raise ModelFileError(f"{JSON_NAME} is not a JSON object.")
        return document

    def _open(self, name: str) -> IO[bytes]:
        """Open a member to read one byte more than announced, so that a longer one is seen."""
        info = copy.copy(self._zip.getinfo(name))
        info.file_size += 1
        return self._zip.open(info)

    def _check_records(self) -> None:
        names = {member.filename: member.file_size for member in self.members}
        if not isinstance(self.records, list) or len(self.records) != len(names) - 1:
            raise ModelFileError(f"{JSON_NAME} does not describe each of the arrays in the file.")
        for number, record in enumerate(self.records):
            name = ARRAY_NAME.format(number)
            self.records[number] = dtype, order, shape, _ = _checked_record(name, record)
            needed = len(npy_header(dtype.str, order, shape)) + dtype.itemsize * math.prod(shape)
            if names.get(name) != needed:
                raise ModelFileError(
                    f"{name} has {names.get(name)} bytes; its dtype and shape need {needed}."
                )

    def record(self, name: str) -> Record:
        """Return dtype, order, shape and hash of a member."""
        return self.records[int(re.sub("[^0-9]", "", name))]

    def array(self, number: Any) -> Array:
        """Return an array, read and checked when it is asked for the first time."""
        if type(number) is not int or not 0 <= number < len(self.records):
            raise ModelFileError(f"there is no array {shown(number)}.")
        if number not in self._arrays:
            self._arrays[number] = self._read(number)
        return self._arrays[number]

    def _read(self, number: int) -> Array:
        name, (dtype, order, shape, digest) = ARRAY_NAME.format(number), self.records[number]
        header = npy_header(dtype.str, order, shape)
        array = np.empty(shape[::-1] if order == "F" else shape, dtype)
        data, found = array.reshape(-1).view(np.uint8), hashlib.sha256()
        with self._open(name) as member:
            if member.read(len(header)) != header:
                raise ModelFileError(f"{name} does not have the header of its dtype and shape.")
            found.update(header)
            start = 0
            while start < data.size:
                chunk = member.read(min(CHUNK_BYTES, data.size - start))
                if not chunk:
                    raise ModelFileError(f"{name} ends after {start} of {data.size} bytes.")
                data[start : start + len(chunk)] = np.frombuffer(chunk, np.uint8)
                found.update(chunk)
                start += len(chunk)
            if member.read(1):
                raise ModelFileError(f"{name} has more bytes than announced.")
        if found.hexdigest() != digest:
            raise ModelFileError(f"{name} is damaged: its SHA-256 is not the one noted for it.")
        if dtype.kind == "b" and data.max(initial=0) > 1:
            raise ModelFileError(f"{name} has values that are neither true nor false.")
        array = array.astype(dtype.newbyteorder("="), copy=False)
        return array.T if order == "F" else array

    def finish(self) -> None:
        """Refuse arrays that nothing refers to."""
        unused = [k for k in range(len(self.records)) if k not in self._arrays]
        if unused:
            raise ModelFileError(f"{ARRAY_NAME.format(unused[0])} belongs to nothing.")


def _end_of(stream: IO[bytes], size: int) -> tuple[int, int]:
    """Read the end of the directory: number of members, and where the directory begins."""
    not_ours = ModelFileError(
        "not a bayespoint model file, or cut short: the end of its directory is missing."
    )
    if size < _END.size:
        raise not_ours
    stream.seek(size - _END.size)
    mark, _, _, _, count, length, start, comment = _END.unpack(stream.read(_END.size))
    if mark != b"PK\5\6" or comment:
        raise not_ours
    end = size - _END.size
    if end >= _LOCATOR.size + _END64.size:  # files above 4 GiB
        stream.seek(end - _LOCATOR.size)
        if _LOCATOR.unpack(stream.read(_LOCATOR.size))[0] == b"PK\6\7":
            end -= _LOCATOR.size + _END64.size
            stream.seek(end)
            mark, *_, count, length, start = _END64.unpack(stream.read(_END64.size))
            if mark != b"PK\6\6":
                raise not_ours
    if start + length != end:
        raise ModelFileError("its directory is not where the end of the file says.")
    if count > MAX_ARRAYS + 1 or length > MAX_DIRECTORY_BYTES:
        raise ModelFileError(f"{count} members, more than the {MAX_ARRAYS + 1} of any model.")
    return count, start


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    names = [member.filename for member in members]
    if JSON_NAME not in names:
        raise ModelFileError(f"not a bayespoint model file: {JSON_NAME} is missing.")
    known = {JSON_NAME, *(ARRAY_NAME.format(number) for number in range(len(names) - 1))}
    for member in members:
        if member.filename not in known:
            raise ModelFileError(f"member {shown(member.filename)} is not of a model file.")
        known.remove(member.filename)  # a second one of the same name is unknown
        if member.flag_bits:
            raise ModelFileError(f"member {member.filename} is encrypted or marked otherwise.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ModelFileError(f"member {member.filename} is packed by an unknown method.")
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ModelFileError(f"member {member.filename} is not a plain file.")


def _check_places(stream: IO[bytes], members: list[zipfile.ZipInfo], directory: int) -> None:
    """Members must fill the file one after the other up to the directory: none overlap."""
    place = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        stream.seek(place)
        header = stream.read(_LOCAL.size)
        if member.header_offset != place or header[:4] != b"PK\3\4" or len(header) < _LOCAL.size:
            raise ModelFileError(f"member {member.filename} overlaps another, or leaves a gap.")
        *_, name_length, extra_length = _LOCAL.unpack(header)
        place += _LOCAL.size + name_length + extra_length + member.compress_size
    if place != directory:
        raise ModelFileError("members overlap the directory of the file, or leave a gap.")


def _checked_record(name: str, record: Any) -> Record:
    if not isinstance(record, dict) or record.keys() != {"dtype", "order", "shape", "sha256"}:
        raise ModelFileError(f"{JSON_NAME} does not give dtype, order, shape and sha256 of {name}.")
    dtype, order, shape, digest = (record[key] for key in ("dtype", "order", "shape", "sha256"))
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ModelFileError(f"{name}: dtype {shown(dtype)} is not one of {DTYPES}.")
    if order not in ("C", "F"):
        raise ModelFileError(f"{name}: order {shown(order)} is neither 'C' nor 'F'.")
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not whole or len(shape) > MAX_AXES or max(shape, default=0) > MAX_BYTES:
        raise ModelFileError(f"{name}: shape {shown(shape)} is not that of an array of ours.")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ModelFileError(f"{name}: sha256 {shown(digest)} is not a SHA-256.")
    return np.dtype(dtype), order, tuple(shape), digest


def _check_json(text: bytes) -> None:
    """Refuse JSON that would take far more memory than its text, before anything is made of it."""
    depth = n_values = 0
    for match in _SIGNS.finditer(text):
        sign = match[0]
        if sign in _CLOSING:
            depth -= 1
        elif sign in _PARTING:
            n_values += 1
            depth += sign in _OPENING
        if n_values > MAX_JSON_VALUES:
            raise ModelFileError(f"{JSON_NAME} has more than {MAX_JSON_VALUES:,} values and names.")
        if depth > MAX_JSON_DEPTH:
            raise ModelFileError(f"{JSON_NAME} is nested too deep.")


def _refuse_constant(text: str) -> None:
    raise ModelFileError(f"{JSON_NAME} holds {text}, which is not JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ModelFileError(f"{JSON_NAME} holds {shown(text)}, too large for a number.")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ModelFileError(f"{JSON_NAME} has an object with the same key twice.")
    return found
