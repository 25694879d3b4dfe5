"""From a path to a `Table`, by the name's ending."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from bayespoint.io.tables.binary import read_npy, read_npz, read_parquet
from bayespoint.io.tables.chunks import ChunkReader
from bayespoint.io.tables.svmlight import read_svmlight
from bayespoint.io.tables.table import Table, TableError, printable
from bayespoint.io.tables.text import read_csv

PathName: TypeAlias = str | os.PathLike[str]

# Bytes of a file, inflated: more than the largest table as text of ten characters a cell.
MAX_BYTES = 2**31

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
    path: PathName, *, format: str | None = None, text: Iterable[str] = (), header: bool = True
) -> Table:
    r"""Read a table from a file; the kind of file is told by its ending.

    Parameters
    ----------
    path : str or path
        .csv, .tsv, .parquet, .npy, .npz, .svm, .svmlight or .libsvm; those of text also with .gz
        after it. "-" is standard input.
    format : {"csv", "tsv", "parquet", "npy", "npz", "svmlight"}, optional
        Instead of the ending; for standard input "csv" unless given.
    text : iterable of str
        Columns that are text whatever they hold, as labels and categories are. Names that the file
        does not have do not matter.
    header : bool, default=True
        Whether the first line of CSV holds names; without, columns are x0, x1, …, as for NPY.

    Returns
    -------
    Table
        A column is numbers if every cell that is not missing is a finite number, else text.
        Missing are empty cells, NA, N/A, NaN, nan, null, NULL, None and ?.

    Raises
    ------
    TableError
        If the content is not as it should be; the message names line or column.
    OSError
        If there is no such file, or it cannot be read.

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
    kind, packed = _kind(path, format)
    data = _content(path, packed)
    if not data:
        raise TableError("the file is empty.")
    options = {} if kind not in ("csv", "tsv") else {"header": header}
    return _READERS[kind](data, text=frozenset(text), **options)


@contextmanager
def open_chunks(
    path: PathName, *, format: str | None = None, header: bool = True
) -> Iterator[ChunkReader]:
    r"""Open a CSV file that is read some rows at a time, for files larger than memory.

    Parameters
    ----------
    path : str or path
        .csv or .tsv, also with .gz after it.
    format : {"csv", "tsv"}, optional
        Instead of the ending.
    header : bool, default=True
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
    kind, packed = _kind(path, format)
    if kind not in ("csv", "tsv"):
        raise TableError(f"{kind} files are not read in chunks; CSV and TSV files are.")
    stream = gzip.open(path, "rb") if packed else open(path, "rb")  # noqa: SIM115
    with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:  # closes both
        yield ChunkReader(text, delimiter="\t" if kind == "tsv" else None, header=header)


def _kind(path: PathName, format: str | None) -> tuple[str, bool]:
    """Kind of file, and whether it is packed by gzip."""
    if format is not None and format not in _READERS:
        raise ValueError(f"format={format!r} is not known; use one of {FORMATS}")
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


def _content(path: PathName, packed: bool) -> bytes:
    """Bytes of the file, inflated, up to the cap."""
    if str(path) == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    elif packed:
        try:
            with gzip.open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TableError(f"the file is not sound gzip: {printable(str(error))}") from None
    else:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise TableError(f"the file has more than {MAX_BYTES:,} bytes: split it.")
    return data
