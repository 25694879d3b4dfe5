"""Checks values against the table of `fields`: names, types, shapes and ranges."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint.io.model_file import fields
from bayespoint.io.model_file.errors import ModelFileError, shown
from bayespoint.io.model_file.fields import FIELDS, FOLLOWS, MOST_VALUE, NUMBER, OPTIONAL
from bayespoint.io.model_file.tree import check_csr


def refuse_if(wrong: Any, message: str) -> None:
    """Raise the error of model files."""
    if wrong:
        raise ModelFileError(message)


def attributes(part: Any) -> Mapping[str, Any]:
    """Fields of a dataclass or of a named tuple, by name."""
    return part._asdict() if hasattr(part, "_asdict") else vars(part)


def check_names(names: Iterable[str], kind: type, where: str = "") -> None:
    """Refuse missing and unknown names of attributes or fields; what follows may be missing."""
    names, entries = list(names), FIELDS[kind]
    missing = [n for n, e in entries.items() if n not in (*names, *OPTIONAL) and e is not FOLLOWS]
    unknown = [name for name in names if name not in entries]
    if missing:
        raise ModelFileError(f"{where}{missing[0]} is missing.")
    if unknown:
        raise ModelFileError(
            f"attribute {where}{shown(unknown[0])} is not one that fit sets, and has no place in a "
            f"model file: delete it, or give it as about=."
        )


def check_fields(
    values: Mapping[str, Any], kind: type, sizes: dict[str, int], where: str = ""
) -> None:
    """Refuse attributes of a class unless each is what the table says; add new lengths to sizes."""
    check_names(values, kind, where)
    for name, entry in FIELDS[kind].items():
        if name in values and entry is not FOLLOWS:
            _check(where + name, values[name], entry, sizes)


def _check(name: str, value: Any, entry: Any, sizes: dict[str, int]) -> None:
    if type(entry) in (list, dict, tuple):
        _check_type(name, value, (type(entry),))
        keyed = isinstance(value, dict)
        items = list(value.items() if keyed else enumerate(value))
        odd = keyed and not all(isinstance(key, str) for key in value)
        wanted = entry
        if not isinstance(entry, tuple):  # any number of the same
            wanted = [entry[str if keyed else 0]] * len(items)
        refuse_if(odd or len(items) != len(wanted), f"{name} has the wrong entries.")
        for (key, item), one in zip(items, wanted, strict=True):
            _check(f"{name}[{shown(key)}]", item, one, sizes)
    elif value is not None or entry.needed:
        _CHECKS[type(entry)](name, value, entry, sizes)


def _check_type(name: str, value: Any, types: tuple[type, ...]) -> None:
    truth = isinstance(value, bool) and bool not in types  # which Python takes for a number
    if truth or not isinstance(value, types):
        raise ModelFileError(f"{name} is {shown(value)}, of type {type(value).__name__}.")


def _check_part(name: str, value: Any, entry: fields.Part, sizes: dict[str, int]) -> None:
    kinds = [kind.__name__ for kind in entry.classes]
    found = type(value).__name__
    refuse_if(type(value) not in entry.classes, f"{name} is of type {found}, none of {kinds}.")
    check_fields(attributes(value), type(value), sizes, f"{name}.")


def _check_array(name: str, value: Any, entry: fields.Array, sizes: dict[str, int]) -> None:
    if entry.sparse and isinstance(value, sp.csr_matrix | sp.csr_array):
        _check_shape(name, value.shape, entry.axes, sizes)
        check_csr(value.shape, value.data, value.indices, value.indptr)
        return _check_array(name, value.data, fields.Array("*"), sizes)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in entry.kinds:
        found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise ModelFileError(f"{name} is of {found}; it must be an array of kind {entry.kinds!r}.")
    _check_shape(name, value.shape, entry.axes, sizes)
    if entry.finite and value.dtype.kind == "f" and not np.all(np.isfinite(value)):
        raise ModelFileError(f"{name} has values that are not finite.")
    if entry.finite and value.dtype == np.float64 and np.any(np.abs(value) > MOST_VALUE):
        raise ModelFileError(
            f"{name} has values beyond {MOST_VALUE}, whose squares overflow: scale the features, "
            f"and fit again."
        )
    if entry.least > -np.inf and np.any(value < entry.least):
        raise ModelFileError(f"{name} has values below {entry.least}.")
    if entry.below and value.size:
        low, high, end = int(value.min()), int(value.max()), sizes[entry.below]
        message = f"{name} goes from {low} to {high}; it must stay in [0, {end})."
        refuse_if(low < 0 or high >= end, message)
    return None


def _check_either(name: str, value: Any, entry: fields.Either, sizes: dict[str, int]) -> None:
    if isinstance(value, np.ndarray):
        _check_array(name, value, entry.array, sizes)
    else:
        _check_plain(name, value, entry.plain, sizes)


def _check_shape(name: str, shape: tuple[int, ...], axes: str, sizes: dict[str, int]) -> None:
    wanted = tuple(sizes.get(axis) for axis in axes)
    agrees = len(shape) == len(axes) and all(
        axis == "*" or sizes.setdefault(axis, n) == n for n, axis in zip(shape, axes, strict=True)
    )
    refuse_if(not agrees, f"{name} has shape {shape}; it must be {wanted}.")


def _check_plain(name: str, value: Any, entry: fields.Plain, sizes: dict[str, int]) -> None:
    _check_type(name, value, entry.types)
    if entry.choices and value not in entry.choices:
        raise ModelFileError(f"{name} is {shown(value)}; it must be one of {entry.choices}.")
    if not isinstance(value, NUMBER) or isinstance(value, bool):
        return
    too_large = isinstance(value, int) and abs(value) > sys.float_info.max
    refuse_if(too_large, f"{name} is {shown(value)}, too large for a number.")
    refuse_if(entry.finite and not np.isfinite(value), f"{name} is {value}; it must be finite.")
    refuse_if(value < entry.least, f"{name} is {value}; it must be at least {entry.least}.")
    refuse_if(value > entry.most, f"{name} is {value}; it must be at most {entry.most}.")
    if entry.axis and sizes.setdefault(entry.axis, int(value)) != value:
        raise ModelFileError(f"{name} is {value}; arrays have {sizes[entry.axis]}.")


_CHECKS: dict[type, Any] = {
    fields.Array: _check_array, fields.Plain: _check_plain, fields.Part: _check_part,
    fields.Either: _check_either,
}  # fmt: skip
