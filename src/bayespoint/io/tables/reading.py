"""From a path to a `Table`, by the name's ending."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bayespoint._support.checks import check_choice, check_positive_integer
from bayespoint.io.tables.binary import read_npy, read_npz, read_parquet
from bayespoint.io.tables.chunks import ChunkReader
from bayespoint.io.tables.svmlight import read_svmlight
from bayespoint.io.tables.table import Table, TableError, limits, most_cells, printable
from bayespoint.io.tables.text import DELIMITERS, read_csv

PathName: TypeAlias = str | os.PathLike[str]

# Bytes of a file, unpacked: more than the largest table as text of ten characters a cell.
MAX_BYTES = 2**31
# Bytes of a packed file, unpacked, for each byte of it: numbers reach 5 to 20, bombs 1,000. Small
# files may exceed it: 16 MiB do no harm.
MAX_RATIO = 100
FREE_BYTES = 2**24
# Lines for each byte of a packed file that has been read so far: rows of two bits reach 3, lines
# with one digit 500. They take memory and time by themselves.
MAX_LINE_RATIO = 4
FREE_LINES = 2**21
# What may part cells; the colon is SVMlight's.
_PARTING = tuple(mark.encode() for mark in (*DELIMITERS, ":"))
# Bytes unpacked at once.
CHUNK_BYTES = 2**20

_TEXT = ("csv", "tsv", "svmlight")
_READERS: dict[str, Callable[..., Table]] = {
    "csv": read_csv,
    "tsv": partial(read_csv, delimiter="\t"),
    "parquet": read_parquet,
    "npy": read_npy,
    "npz": read_npz,
    "svmlight": read_svmlight,
}
FORMATS = tuple(_READERS)
_BY_ENDING = {
    ".csv": "csv", ".txt": "csv", ".data": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".parquet": "parquet", ".pq": "parquet", ".npy": "npy", ".npz": "npz",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
}  # fmt: skip


def read_table(
    path: PathName, *, format: str | None = None, text: Iterable[str] = (), header: bool = True,
    decimal: str = ".", max_bytes: int | None = None, trusted: bool = False,
) -> Table:  # fmt: skip
    r"""Read a table from a file.

    Parameters
    ----------
    path : str or path
        File name. Its extension gives the format: .csv, .tsv, .parquet, .npy, .npz, .svm, .svmlight
        or .libsvm; text files may also end with .gz. "-" is standard input.
    format : {"csv", "tsv", "parquet", "npy", "npz", "svmlight"}, optional
        Format of the file, if not given by its extension; "csv" by default for standard input.
    text : iterable of str
        Columns to read as text whatever they hold, such as labels and categories. Names that the
        file does not have are ignored.
    header : bool, default=True
        Whether the first line of CSV holds names; otherwise columns are named x0, x1, …, as for
        NPY.
    decimal : {".", ","}, default="."
        Decimal mark of numbers in CSV. With a comma they may have thousands separators as well.
    max_bytes : int, optional
        Largest size of the file, uncompressed. By default 2 GiB, and for a compressed file 100
        times its size (at least 16 MiB) with at most 4 lines and 16 cells per byte (plus 2 and 8
        million), so that small files that expand to huge ones are refused.
    trusted : bool, default=False
        Whether to lift all other limits, on cells, columns, lines and texts: for files whose source
        you trust.

    Returns
    -------
    Table
        A column is numerical if every cell that is not missing is a number; otherwise it is
        text (in which `TableEncoder` may find numbers with decimal commas, and dates). Missing
        values are empty cells, NA, N/A, NaN, nan, null, NULL, None and ?.

    Raises
    ------
    TableError
        If the content is not valid; the message names the line or column.
    OSError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from bayespoint.io.tables import read_table
    >>> path = os.path.join(tempfile.mkdtemp(), "flowers.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("width,colour\n1.5,red\nNA,blue\n")
    >>> table = read_table(path)
    >>> table.names, table.column("width")
    (('width', 'colour'), array([1.5, nan]))
    """
    names = _checked_names(text)
    _check_options(header, decimal, max_bytes, trusted)
    kind, packed = _kind(path, format)
    data = _content(path, packed, max_bytes)
    if not data:
        raise TableError("the file is empty.")
    options = {} if kind not in ("csv", "tsv") else {"header": header, "decimal": decimal}
    with limits(trusted):
        return _READERS[kind](data, text=names, **options)


@contextmanager
def open_chunks(
    path: PathName, *, format: str | None = None, header: bool = True, decimal: str = ".",
    max_bytes: int | None = None, trusted: bool = False,
) -> Iterator[ChunkReader]:  # fmt: skip
    r"""Open a CSV file that is read some rows at a time, for files larger than memory.

    Parameters
    ----------
    path : str or path
        .csv or .tsv, also with .gz after it.
    format : {"csv", "tsv"}, optional
        Instead of the ending.
    header : bool, default=True
        As for `read_table`.
    decimal : {".", ","}, default="."
        As for `read_table`.
    max_bytes : int, optional
        Most bytes of a packed file, unpacked; by default as for `read_table`.
    trusted : bool, default=False
        As for `read_table`.

    Yields
    ------
    ChunkReader
        Its ``read`` gives tables, and None at the end.

    Raises
    ------
    TableError
        As `read_table` does, from ``read`` as well.
    OSError
        If there is no such file, or it cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from bayespoint.io.tables import open_chunks
    >>> path = os.path.join(tempfile.mkdtemp(), "flowers.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("width,colour\n1.5,red\nNA,blue\n2.5,red\n")
    >>> with open_chunks(path) as chunks:
    ...     while (table := chunks.read(2)) is not None:
    ...         print(table.column("width"))
    [1.5 nan]
    [2.5]
    """
    _check_options(header, decimal, max_bytes, trusted)
    kind, packed = _kind(path, format)
    if kind not in ("csv", "tsv"):
        raise TableError(f"{kind} files are not read in chunks; CSV and TSV files are.")
    if packed:
        _check_growth(path, max_bytes)
    stream: Any = open(path, "rb")  # noqa: SIM115
    if packed:
        stream = io.BufferedReader(Unpacking(stream, max_bytes))
    # The wrapper closes both.
    with limits(trusted), io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        delimiter = "\t" if kind == "tsv" else None
        yield ChunkReader(text, delimiter=delimiter, header=header, decimal=decimal)


def _checked_names(text: Any) -> frozenset[str]:
    try:
        names: list[Any] = [None] if isinstance(text, str) else list(text)
    except TypeError:
        names = [None]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"text must be a list of names of columns; got {text!r}.")
    return frozenset(names)


def _check_options(header: Any, decimal: Any, max_bytes: Any, trusted: Any) -> None:
    for name, value in (("header", header), ("trusted", trusted)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False; got {value!r}.")
    check_choice("decimal", decimal, (".", ","))
    if max_bytes is not None:
        check_positive_integer("max_bytes", max_bytes)


def _kind(path: PathName, format: str | None) -> tuple[str, bool]:
    """Kind of file, and whether it is packed by gzip."""
    if format is not None:
        check_choice("format", format, FORMATS)
    if str(path) == "-":
        return format or "csv", False
    endings = [ending.lower() for ending in Path(path).suffixes]
    packed = bool(endings) and endings[-1] == ".gz"
    ending = endings[-2] if packed and len(endings) > 1 else "".join(endings[-1:])
    kind = format or _BY_ENDING.get(ending)
    if kind is None or (packed and kind not in _TEXT):
        raise TableError(
            f"the ending '{printable(''.join(endings[-2:]))}' does not tell what is in the file; "
            f"known are {', '.join(_BY_ENDING)}, and .gz after those of text. "
            f"Rename it, or give --format."
        )
    return kind, packed


class Unpacking(io.RawIOBase):
    """Bytes of a gzip file, unpacked as they are read; a TableError where there are too many.

    Parameters
    ----------
    file : binary file
        Closed with this one.
    max_bytes : int, optional
        As for `open_chunks`.
    """

    def __init__(self, file: Any, max_bytes: int | None) -> None:
        self._file, self._inflated = file, gzip.GzipFile(fileobj=file)
        self._n_bytes = self._n_lines = self._n_cells = 0
        self.size = os.fstat(file.fileno()).st_size
        self.most = max(FREE_BYTES, MAX_RATIO * self.size) if max_bytes is None else max_bytes
        self._counts = max_bytes is None

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack some bytes into a buffer."""
        found = self._inflated.read(min(len(buffer), CHUNK_BYTES))
        self._n_bytes += len(found)
        if self._n_bytes > self.most:
            raise self._refused(f"{self.most:,}")
        if self._counts:
            self._n_lines += max(found.count(b"\n"), found.count(b"\r"))
            most_lines = FREE_LINES + MAX_LINE_RATIO * self._file.tell()
            if self._n_lines > most_lines:
                raise self._refused(f"{most_lines:,} lines")
            self._n_cells += max(map(found.count, _PARTING))
            if self._n_cells > most_cells(self.size):
                raise self._refused(f"{most_cells(self.size):,} cells")
        buffer[: len(found)] = found
        return len(found)

    def _refused(self, most: str) -> TableError:
        return TableError(
            f"the file has {self.size:,} bytes and unpacks to more than {most}, the limit. If you "
            f"trust it, unpack it first, or raise the limit (max_bytes=, --max-bytes)."
        )

    def close(self) -> None:
        """Close the file."""
        self._inflated.close()
        self._file.close()
        super().close()


def _content(path: PathName, packed: bool, max_bytes: int | None) -> bytes:
    """Bytes of the file, unpacked, up to the limit."""
    most = MAX_BYTES if max_bytes is None else min(max_bytes, sys.maxsize - 1)
    if str(path) == "-":
        data = sys.stdin.buffer.read(most + 1)
    elif packed:
        data = _unpacked(path, max_bytes)
    else:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise TableError(
            f"the file has more than {most:,} bytes, the limit: split it, or raise the limit "
            f"(max_bytes=, --max-bytes)."
        )
    return data


def _check_growth(path: PathName, max_bytes: int | None) -> None:
    """Refuse a file that grows beyond the limits before rows are read, which takes far longer."""
    if Path(path).is_file():  # a pipe can be read once only
        # Whoever reads the rows says what is broken.
        with (
            suppress(gzip.BadGzipFile, EOFError, zlib.error),
            Unpacking(open(path, "rb"), max_bytes) as file,
        ):
            while file.read(io.DEFAULT_BUFFER_SIZE):
                pass


def _unpacked(path: PathName, max_bytes: int | None) -> bytes:
    found = io.BytesIO()
    try:
        with Unpacking(open(path, "rb"), max_bytes) as file:
            while chunk := file.read(CHUNK_BYTES):
                found.write(chunk)
                if max_bytes is None and found.tell() > MAX_BYTES:
                    break
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"the file is not valid gzip: {printable(str(error))}") from None
    return found.getvalue()
