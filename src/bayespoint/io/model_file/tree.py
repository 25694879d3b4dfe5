"""Values as JSON and back: what a classifier holds, without a word that could run.

Texts, whole numbers, finite floats, true, false and null stand for themselves, and a JSON array for
a list. Anything else is an object with one key, its kind:

========== ============================================================================
``dict``   an object, for keys that are all texts
``pairs``  a list of [key, value], for other dicts
``tuple``  a list
``float``  "nan", "inf" or "-inf"
``scalar`` [dtype, value], a number or text of NumPy
``array``  the number of an array in the file
``values`` [dtype, shape, items], an array of labels or texts, readable
``csr``    [class, shape, data, indices, indptr], the last three numbers of arrays
``random`` [keys, position, has_gauss, gauss], a RandomState
========== ============================================================================
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.io.model_file.errors import ModelFileError, shown
from bayespoint.io.model_file.layout import DTYPES, MAX_BYTES
from bayespoint.io.model_file.reading import Reader
from bayespoint.io.model_file.writing import Writer

# Deepest true one: a list in a dict of diagnostics of draws.
MAX_DEPTH = 12

# Types of labels that can be stored: by NumPy's letters, and for arrays of objects.
LABEL_TYPES = (str, bool, int, float)
_LABEL_DTYPE = re.compile(r"\|O|\|b1|[<>|][iuf][1248]|[<>]U[0-9]{1,6}")
_SCALAR_KINDS = "biufU"

_CONSTANTS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

# Words of the state of a Mersenne twister.
TWISTER_WORDS = 624

# Bytes of an object, beside those of its arrays and texts.
NODE_BYTES, CSR_BYTES, RANDOM_BYTES = 128, 1024, 4096


def encode(value: Any, writer: Writer, where: str) -> Any:
    """Turn a value into JSON.

    Parameters
    ----------
    value : object
    writer : Writer
        Takes arrays and gives their numbers in the file; counts the bytes of other values.
    where : str
        What the value is, for messages.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    writer.budget.spend(NODE_BYTES)
    if type(value) is float:
        return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if type(value) in (list, tuple):
        items = [encode(v, writer, f"{where}[{i}]") for i, v in enumerate(value)]
        return items if type(value) is list else {"tuple": items}
    if type(value) is dict:
        return _encode_dict(value, writer, where)
    if isinstance(value, np.generic) and value.dtype.kind in _SCALAR_KINDS:
        writer.budget.spend(value.dtype.itemsize)
        return {"scalar": [value.dtype.str, encode(value.item(), writer, where)]}
    if type(value) is np.ndarray:
        if value.dtype.newbyteorder("<").str in DTYPES and value.dtype.isnative:
            return {"array": writer.add(value)}
        return encode_labels(value, writer, where)
    if type(value) in (sp.csr_matrix, sp.csr_array):
        writer.budget.spend(CSR_BYTES)
        parts = [writer.add(part) for part in (value.data, value.indices, value.indptr)]
        return {"csr": [type(value).__name__, list(map(int, value.shape)), *parts]}
    if type(value) is np.random.RandomState and _twister(value):
        writer.budget.spend(RANDOM_BYTES)
        keys, position, has_gauss, gauss = _twister(value)
        return {"random": [writer.add(keys), int(position), int(has_gauss), float(gauss)]}
    raise ModelFileError(
        f"{where} is {_kind_of(value)}, which a model file cannot hold: it stores numbers, texts, "
        f"arrays and lists or dicts of these, so that loading it runs no code. Set it to such a "
        f"value, or save with skops or joblib."
    )


def _twister(random: np.random.RandomState) -> tuple[Any, ...]:
    """State of a Mersenne twister; nothing for other generators."""
    state: Any = random.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        return ()
    inner = state["state"]
    return inner["key"], inner["pos"], state["has_gauss"], state["gauss"]


def _kind_of(value: Any) -> str:
    if callable(value):
        return f"a function or class ({shown(getattr(value, '__name__', type(value).__name__))})"
    return f"a value of type {shown(type(value).__name__)}"


def _encode_dict(value: dict[Any, Any], writer: Writer, where: str) -> dict[str, Any]:
    if all(type(key) is str for key in value):
        return {"dict": {key: encode(v, writer, f"{where}[{key!r}]") for key, v in value.items()}}
    pairs = [
        [encode(key, writer, f"a key of {where}"), encode(v, writer, f"{where}[{key!r}]")]
        for key, v in value.items()
    ]
    return {"pairs": pairs}


def encode_labels(array: Array, writer: Writer, where: str) -> dict[str, Any]:
    """Turn an array of labels or texts into JSON that people can read."""
    if array.dtype.kind == "O":
        odd = next((v for v in array.ravel() if type(v) not in LABEL_TYPES), None)
        if odd is not None:
            raise ModelFileError(
                f"{where} holds {_kind_of(odd)}; a model file takes labels and names that are "
                f"texts, whole numbers, floats or booleans. Convert them, for example to texts."
            )
    elif not _LABEL_DTYPE.fullmatch(array.dtype.str):
        raise ModelFileError(
            f"{where} has dtype {array.dtype}; a model file takes texts, whole numbers, floats and "
            f"booleans. Convert it, for example to texts."
        )
    writer.budget.spend(NODE_BYTES + array.nbytes)
    items = [encode(item, writer, where) for item in array.ravel().tolist()]
    return {"values": [array.dtype.str, list(array.shape), items]}


# ---------------------------------------------------------------------- back


def decode(node: Any, reader: Reader, depth: int = 0) -> Any:
    """Turn JSON back into a value; ``reader`` gives the array of a number."""
    if depth > MAX_DEPTH:
        raise ModelFileError("its values are nested too deep.")
    if node is None or type(node) in (bool, int, float, str):
        return node
    reader.budget.spend(NODE_BYTES)
    if isinstance(node, list):
        return [decode(item, reader, depth + 1) for item in node]
    if not isinstance(node, dict) or len(node) != 1:
        raise ModelFileError(f"a value is of no known kind: {shown(node)}.")
    ((kind, content),) = node.items()
    if kind not in _DECODERS:
        raise ModelFileError(f"a value is of the unknown kind {shown(kind)}.")
    return _DECODERS[kind](content, reader, depth)


def _decode_dict(content: Any, reader: Reader, depth: int) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ModelFileError(f"a dict is {shown(content)}.")
    return {key: decode(value, reader, depth + 1) for key, value in content.items()}


def _decode_pairs(content: Any, reader: Reader, depth: int) -> dict[Any, Any]:
    found = {}
    for pair in _list_of(content, "pairs"):
        key, value = (decode(part, reader, depth + 1) for part in _list_of(pair, "a pair", 2))
        if not isinstance(key, str | bool | int | float | np.generic | None):
            raise ModelFileError(f"{shown(key)} is the key of a dict.")
        found[key] = value
    return found


def _decode_tuple(content: Any, reader: Reader, depth: int) -> tuple[Any, ...]:
    return tuple(decode(item, reader, depth + 1) for item in _list_of(content, "a tuple"))


def _decode_float(content: Any, reader: Reader, depth: int) -> float:  # noqa: ARG001
    if not isinstance(content, str) or content not in _CONSTANTS:
        raise ModelFileError(f"{shown(content)} is no float.")
    return _CONSTANTS[content]


def _decode_scalar(content: Any, reader: Reader, depth: int) -> Any:
    name, node = _list_of(content, "a scalar", 2)
    value = decode(node, reader, depth + 1)
    if type(value) not in LABEL_TYPES:
        raise ModelFileError(f"a scalar is {shown(value)}.")
    return _filled(name, [value], reader)[0]


def _decode_array(content: Any, reader: Reader, depth: int) -> Array:  # noqa: ARG001
    return reader.array(content)


def _decode_values(content: Any, reader: Reader, depth: int) -> Array:
    name, shape, items = _list_of(content, "values", 3)
    _check_shape(shape)
    items = [decode(item, reader, depth + 2) for item in _list_of(items, "items")]
    if math.prod(shape) != len(items) or not all(type(item) in LABEL_TYPES for item in items):
        raise ModelFileError(f"{len(items)} labels or texts do not fill the shape {shown(shape)}.")
    return _filled(name, items, reader).reshape(shape)


def _filled(name: Any, items: list[Any], reader: Reader) -> Array:
    """Array of a dtype from Python's values; refuse values that change by it."""
    if not isinstance(name, str) or not _LABEL_DTYPE.fullmatch(name):
        raise ModelFileError(f"{shown(name)} is not the type of labels or texts.")
    dtype = np.dtype(name)
    reader.budget.spend(dtype.itemsize * len(items))
    wanted = {"b": bool, "i": int, "u": int, "f": float, "U": str}.get(dtype.kind)
    if wanted and not all(type(item) is wanted for item in items):
        raise ModelFileError(f"some values are not of dtype {shown(name)}.")
    longest = max(map(len, items), default=0) if wanted is str else 0
    if 4 * longest > dtype.itemsize > 0 and wanted is str:
        raise ModelFileError(f"a text of {longest} characters has dtype {shown(name)}.")
    found = np.empty(len(items), dtype)
    found[:] = items
    return found


def _decode_csr(content: Any, reader: Reader, depth: int) -> Matrix:  # noqa: ARG001
    reader.budget.spend(CSR_BYTES)
    name, shape, *parts = _list_of(content, "a sparse matrix", 5)
    kinds = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
    if not isinstance(name, str) or name not in kinds:
        raise ModelFileError(f"{shown(name)} is not a kind of sparse matrix.")
    _check_shape(shape, 2)
    data, indices, indptr = map(reader.array, parts)
    check_csr(shape, data, indices, indptr)
    return kinds[name]((data, indices, indptr), shape=tuple(shape), copy=False)


def check_csr(shape: Sequence[int], data: Array, indices: Array, indptr: Array) -> None:
    """Refuse what is no CSR matrix in every entry: compiled loops trust it."""
    for part in (indices, indptr):
        if part.ndim != 1 or part.dtype not in (np.int32, np.int64):
            raise ModelFileError(f"a sparse matrix has indices of {part.dtype}, shape {part.shape}")
    if data.shape != indices.shape or indptr.shape != (shape[0] + 1,):
        raise ModelFileError(
            f"a sparse matrix of shape {tuple(shape)} has {data.shape} values, {indices.shape} "
            f"indices and {indptr.shape} row ends."
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise ModelFileError("rows of a sparse matrix do not follow each other.")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise ModelFileError(f"a sparse matrix of {shape[1]} columns has entries beyond them.")


def _decode_random(content: Any, reader: Reader, depth: int) -> np.random.RandomState:
    reader.budget.spend(RANDOM_BYTES)
    number, position, has_gauss, gauss = _list_of(content, "a random state", 4)
    keys, gauss = reader.array(number), decode(gauss, reader, depth + 1)
    if keys.dtype != np.uint32 or keys.shape != (TWISTER_WORDS,):
        raise ModelFileError("a random state does not have the words of a Mersenne twister.")
    if type(position) is not int or not 0 <= position <= TWISTER_WORDS:
        raise ModelFileError(f"a random state is at position {shown(position)}.")
    if has_gauss not in (0, 1) or type(gauss) is not float:
        raise ModelFileError("a random state does not have the form of a Mersenne twister.")
    random = np.random.RandomState()
    random.set_state(("MT19937", keys, position, has_gauss, gauss))
    return random


def _list_of(content: Any, what: str, length: int | None = None) -> list[Any]:
    if not isinstance(content, list) or length not in (None, len(content)):
        raise ModelFileError(f"{what}: {shown(content)} does not have its form.")
    return content


def _check_shape(shape: Any, axes: int | None = None) -> None:
    whole = isinstance(shape, list) and all(type(n) is int and 0 <= n <= MAX_BYTES for n in shape)
    if not whole or axes not in (None, len(shape)):
        raise ModelFileError(f"{shown(shape)} is not a shape of an array.")


_DECODERS = {
    "dict": _decode_dict, "pairs": _decode_pairs, "tuple": _decode_tuple, "float": _decode_float,
    "scalar": _decode_scalar, "array": _decode_array, "values": _decode_values,
    "csr": _decode_csr, "random": _decode_random,
}  # fmt: skip
