"""Binary files: NPY, NPZ and Parquet."""

import io
import math
import warnings
import zipfile
from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.tables.table import (
    LIFT,
    MAX_CELLS,
    MAX_COLUMNS,
    SHOWN_NAMES,
    MissingPackageError,
    Table,
    TableError,
    and_more,
    as_text,
    check_names,
    check_packed,
    check_size,
    checked,
    clean_text,
    exceeds,
    listed,
    numbered_names,
    printable,
)

# Kinds of NumPy's types that are numbers, and those that are text.
NUMBER_KINDS, TEXT_KINDS = "biuf", "U"
# Characters of one text in an array: longer ones take as much memory in every row.
MAX_CHARACTERS = 10_000
# Bytes that count as a cell: those of a number, however long a text is.
CELL_BYTES = 8
# Texts that are made of an array at once.
TEXTS = 100_000
# Arrays of an NPZ file: X and columns by name.
MAX_MEMBERS = MAX_COLUMNS

# Characters of a cell, as many as the csv module takes.
MAX_CELL_TEXT = 131_072


def array_of(data: bytes, what: str, *, kinds: str = NUMBER_KINDS) -> Array:
    """Array in the bytes of an NPY file, never a pickle; a TableError for anything odd."""
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0 if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )  # fmt: skip
            shape, fortran, dtype = read(stream)
    except Exception as error:  # whatever NumPy's parser raises on broken bytes
        raise TableError(f"{what} is not a NPY file: {printable(str(error), 200)}") from None
    _check_header(what, shape, dtype, kinds)
    wanted, found = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if found != wanted:
        raise TableError(
            f"{what} should hold {wanted:,} bytes of values and holds {found:,}: it was cut short "
            f"or damaged."
        )
    if wanted == 0:
        raise TableError(f"{what} is empty: its shape is {shape}.")
    flat = _sound(np.frombuffer(data, dtype=dtype, offset=stream.tell()), what)
    return flat.reshape(shape, order="F" if fortran else "C")


def _sound(values: Array, what: str) -> Array:
    """Values that NumPy can work with: truth values of 0 and 1, characters that there are."""
    if values.dtype.kind == "b":
        return values.view(np.uint8) != 0
    if values.dtype.kind == "U":
        codes = values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
        if np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))):
            raise TableError(f"{what} holds text with characters that do not exist.")
    return values


def _check_header(what: str, shape: tuple[int, ...], dtype: np.dtype[Any], kinds: str) -> None:
    if dtype.kind not in kinds or dtype.hasobject or dtype.shape or dtype.names:
        wanted = "numbers or text" if "U" in kinds else "numbers"
        why = "; objects would have to be unpickled" if dtype.hasobject else ""
        raise TableError(f"{what} holds {printable(str(dtype))}, not {wanted}{why}.")
    if len(shape) > 3:
        raise TableError(f"{what} has {len(shape):,} dimensions; give rows and columns, two.")
    if any(type(n) is not int or n < 0 for n in shape) or exceeds(math.prod(shape), MAX_CELLS):
        raise TableError(
            f"{what} has the shape {shape}; at most {MAX_CELLS:,} cells are taken{LIFT}."
        )
    if dtype.kind == "U" and exceeds(dtype.itemsize, 4 * MAX_CHARACTERS):
        raise TableError(
            f"{what} has room for texts of more than {MAX_CHARACTERS:,} characters{LIFT}."
        )


def read_npy(data: bytes, *, text: Iterable[str] = ()) -> Table:
    """Table from the bytes of a NPY file of two dimensions; columns x0, x1, …."""
    X = array_of(data, "the file")
    return checked(_matrix(X, "the array", frozenset(text)))


def _matrix(X: Array, what: str, text: Container[str]) -> Table:
    if X.ndim != 2:
        raise TableError(f"{what} has {X.ndim} dimensions; give rows and columns, two.")
    if exceeds(X.shape[1], MAX_COLUMNS):
        raise TableError(
            f"{what} has {X.shape[1]:,} columns; at most {MAX_COLUMNS:,} are taken{LIFT}."
        )
    names = numbered_names(X.shape[1])
    numbers = _as_float(X)
    columns = tuple(
        _column(X[:, i], True) if name in text else numbers[:, i] for i, name in enumerate(names)
    )
    return Table(names, columns)


def _as_float(array: Any) -> Array:
    with np.errstate(over="ignore"):  # what overflows is infinite, and told
        return np.asarray(array, dtype=np.float64)


def _column(values: Array, stays_text: bool) -> Array:
    """Column of a table from an array of one dimension."""
    if values.dtype.kind == "U":
        parts = (values[start : start + TEXTS] for start in range(0, len(values), TEXTS))
        texts = np.concatenate([clean_text(part.tolist()) for part in parts])
        return _numbers_or_text(texts, stays_text)
    if not stays_text:
        return _as_float(values)
    if values.dtype.kind == "f":
        return as_text(_as_float(values))
    return clean_text([str(value) for value in values.tolist()])


def _numbers_or_text(texts: Array, stays_text: bool) -> Array:
    """Return text, or, where nothing is there, a column of missing numbers."""
    if not stays_text and all(value is None for value in texts):
        return np.full(len(texts), np.nan)
    return texts


def read_npz(data: bytes, *, text: Iterable[str] = ()) -> Table:
    """Table from the bytes of an NPZ file: X of two dimensions, others of one, by name."""
    arrays = _members(data)
    text = frozenset(text)
    names: list[str] = []
    columns: list[Array] = []
    for name, array in arrays.items():
        if name == "X":
            part = _matrix(array, "the array 'X'", text)
            names += part.names
            columns += part.columns
        elif array.ndim == 1:
            names.append(name)
            columns.append(_column(array, name in text))
        else:
            raise TableError(
                f"the array '{printable(name)}' has {array.ndim} dimensions; besides X, of rows "
                f"and columns, only columns of one dimension are taken."
            )
    check_names(names)
    lengths = {name: len(column) for name, column in zip(names, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.get), max(lengths, key=lengths.get)  # type: ignore[arg-type]
        raise TableError(
            f"columns {listed([short, long])} have {lengths[short]:,} and {lengths[long]:,} rows; "
            f"all arrays must have as many."
        )
    return checked(Table(tuple(names), tuple(columns)))


def _members(data: bytes) -> dict[str, Array]:
    """Arrays of an NPZ file by name, sizes checked before anything is inflated."""
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            infos = file.infolist()
            _check_members(infos)
            check_packed(sum(info.file_size for info in infos) // CELL_BYTES, len(data))
            for info in infos:
                with file.open(info) as member:
                    content = member.read(info.file_size + 1)
                name = info.filename.removesuffix(".npy")
                what = f"the array '{printable(name)}'"
                kinds = NUMBER_KINDS if name == "X" else NUMBER_KINDS + TEXT_KINDS
                arrays[name] = array_of(content, what, kinds=kinds)
                check_packed(sum(array.size for array in arrays.values()), len(data))
    except TableError:
        raise
    except Exception as error:  # whatever zipfile and zlib raise on broken bytes
        raise TableError(
            f"the file is not a valid NPZ file: {printable(str(error), 200)}"
        ) from None
    if not arrays:
        raise TableError("the file holds no arrays.")
    return arrays


def _check_members(infos: list[zipfile.ZipInfo]) -> None:
    names = [info.filename for info in infos]
    if exceeds(len(infos), MAX_MEMBERS):
        raise TableError(
            f"the file holds {len(infos):,} arrays; at most {MAX_MEMBERS:,} are taken{LIFT}."
        )
    if len(set(names)) < len(names):
        raise TableError("the file holds several arrays of one name.")
    odd = [name for name in names if not name.endswith(".npy")]
    if odd:
        raise TableError(f"the file holds {listed(odd)}; an NPZ file holds .npy members only.")
    if any(info.flag_bits & 1 for info in infos):
        raise TableError("the file is encrypted.")
    most = CELL_BYTES * MAX_CELLS
    if exceeds(sum(info.file_size for info in infos), most):
        raise TableError(f"the arrays take more than {most:,} bytes{LIFT}.")


def read_parquet(data: bytes, *, text: Iterable[str] = ()) -> Table:
    """Table from the bytes of a Parquet file: numbers, truth values, text, dates and times."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingPackageError(
            "Parquet files need the package pyarrow: pip install 'bayespoint[parquet]'"
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        names = tuple(file.schema_arrow.names)
        check_names(names)
        check_size(file.metadata.num_rows, len(names))
        check_packed(_parquet_cells(file.metadata), len(data))
        _check_types(pyarrow.types, file.schema_arrow)
        # Text comes as a dictionary: a long one that all rows share is there once.
        words = [f.name for f in file.schema_arrow if _is_text(pyarrow.types, f.type)]
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), read_dictionary=words)
        table = file.read(use_threads=False)
        stays_text = frozenset(text)
        columns = tuple(
            _arrow_column(table.column(i), name in stays_text, pyarrow.types)
            for i, name in enumerate(names)
        )
    except (TableError, MemoryError):
        raise
    except Exception as error:  # whatever Arrow raises on broken bytes
        message = printable(str(error), 200)
        raise TableError(f"the file is not a valid Parquet file: {message}") from None
    return checked(Table(names, columns))


def _parquet_cells(metadata: Any) -> int:
    """Cells that a Parquet file says it has, or what its bytes count as if that is more."""
    n_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return max(metadata.num_rows * metadata.num_columns, n_bytes // CELL_BYTES)


def _shared_words(column: Any) -> Array:
    """Texts of a dictionary column; equal ones are one object, however long and many they are."""
    cells = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        words = [None if word is None else str(word) for word in chunk.dictionary.to_pylist()]
        longest = max((len(word) for word in words if word is not None), default=0)
        if exceeds(longest, MAX_CELL_TEXT):
            raise TableError(f"a cell has more than {MAX_CELL_TEXT:,} characters{LIFT}.")
        index = chunk.indices.cast("int64").fill_null(-1)  # some writers' have no sign
        cells.append(clean_text([*words, None])[index.to_numpy()])
    return np.concatenate(cells)


def _is_text(types: Any, kind: Any) -> bool:
    return types.is_string(kind) or types.is_large_string(kind)


def _is_date(types: Any, kind: Any) -> bool:
    return types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind)


def _check_types(types: Any, schema: Any) -> None:
    """Refuse types that are neither numbers, text nor dates, naming all such columns."""
    wrong = []
    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        sound = numeric or types.is_decimal(kind) or _is_text(types, kind) or _is_date(types, kind)
        if not sound:
            wrong.append(f"column '{printable(field.name)}' is of type {printable(str(kind))}")
    if wrong:
        shown = "; ".join(wrong[:SHOWN_NAMES]) + and_more(len(wrong) - SHOWN_NAMES)
        raise TableError(
            f"{shown}; columns of numbers, truth values, text and dates are taken: leave others "
            f"out of the file, or change them."
        )


def _arrow_column(column: Any, stays_text: bool, types: Any) -> Array:
    packed = types.is_dictionary(column.type)
    kind = column.type.value_type if packed else column.type
    words = _is_text(types, kind) or _is_date(types, kind)
    if words or (stays_text and not types.is_floating(kind)):
        texts = _shared_words(column if packed else column.dictionary_encode())
        return _numbers_or_text(texts, stays_text)
    column = column.cast(kind) if packed else column
    if types.is_boolean(kind) or types.is_decimal(kind):
        column = column.cast("int8" if types.is_boolean(kind) else "float64")
    values = _as_float(column)
    return as_text(values) if stays_text else values
