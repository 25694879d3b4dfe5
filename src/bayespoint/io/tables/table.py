"""`Table`: named columns of numbers or text; what counts as a number, and as missing."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from bayespoint._support.checks import FROM_0
from bayespoint._support.types import Array

# What stands for a missing value, in text of every format; spaces around it do not count.
MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"])

# Numbers as people and programs write them; float() alone would take 1_000 and digits of other
# scripts as well.
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

# The limits of a table hold, unless whoever reads it trusts the file.
_LIMITED = ContextVar("limited", default=True)
LIFT = "; for a file that you trust, trusted=True (--trusted) lifts this limit"
# Cells of a table: as numbers 1.6 GB, and a classifier needs some copies.
MAX_CELLS = 200_000_000
# Cells for each byte of a packed file (gzip, NPZ, Parquet): images of digits reach 4, tables of one
# repeated cell 300. Small files may exceed it: 8 million cells do no harm, even as text.
MAX_CELL_RATIO = 16
FREE_CELLS = 2**23
# Columns: more than any measurement has, and each has a name, a scale and a place in the model.
MAX_COLUMNS = 100_000
# Empty lines that follow each other: more are no table, and each takes its time.
MAX_EMPTY_LINES = 10_000
# Text of a cell in a message: enough to find it again.
SHOWN_CHARACTERS = 60
# Names listed in a message.
SHOWN_NAMES = 8

# Whole numbers that float64 holds exactly.
EXACT = 2.0**53


class TableError(ValueError):
    """Data that cannot be used; the message says where and what to do, and is safe to print."""


@contextmanager
def limits(trusted: bool) -> Iterator[None]:
    """Have the limits of tables hold, or not, while a file is read."""
    before = _LIMITED.set(not trusted)
    try:
        yield
    finally:
        _LIMITED.reset(before)


def exceeds(n: int, most: int) -> bool:
    """Whether a number is beyond a limit that holds."""
    return n > most and _LIMITED.get()


class MissingPackageError(TableError):
    """A file of a kind that needs a package which is not installed."""


def printable(text: object, limit: int = SHOWN_CHARACTERS) -> str:
    r"""Text from data, safe to print: no control or direction characters, not too long.

    Parameters
    ----------
    text : object
        What is no text is shown as ``str`` has it.
    limit : int, default=60
        Characters shown; the rest is cut.

    Returns
    -------
    str

    Examples
    --------
    >>> from bayespoint.io.tables import printable
    >>> print(printable("red\x1b[31m"))
    red\x1b[31m
    """
    text = str(text)
    shown = "".join(_visible(character) for character in text[:limit])
    return shown + "…" if len(text) > limit else shown


def _visible(character: str) -> str:
    # Controls, marks of direction and of no width, lone surrogates, private and unassigned ones,
    # separators of lines.
    if character == " " or unicodedata.category(character)[0] not in "CZ":
        return character
    code = ord(character)
    if unicodedata.category(character) == "Zs":
        return " "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def listed(names: Iterable[str], limit: int = SHOWN_NAMES) -> str:
    """Names from data for a message: the first of them, quoted."""
    names = list(names)
    shown = ", ".join(f"'{printable(name)}'" for name in names[:limit])
    return shown + and_more(len(names) - limit)


def and_more(n: int) -> str:
    """Say how many are not listed, after those that are; nothing where all are."""
    return f" and {n:,} more" if n > 0 else ""


def counted(n: int, word: str) -> str:
    """Say how many there are: 1 row, 2 rows.

    Examples
    --------
    >>> from bayespoint.io.tables import counted
    >>> counted(1, "row"), counted(2000, "row"), counted(3, "class")
    ('1 row', '2,000 rows', '3 classes')
    """
    if n == 1:
        return f"1 {word}"
    return f"{n:,} {word}{'es' if word.endswith('s') else 's'}"


def parse_number(text: str) -> float | None:
    """Value of a cell's text: a finite float, NaN if missing, None if it is not a number.

    Examples
    --------
    >>> from bayespoint.io.tables import parse_number
    >>> parse_number(" 2.5 "), parse_number("NA"), parse_number("1_000")
    (2.5, nan, None)
    """
    text = text.strip()
    if text in MISSING:
        return float("nan")
    value = float(text) if NUMBER.fullmatch(text) else None
    return None if value is None or np.isinf(value) else value


def number_text(value: float) -> str:
    """Text of a number as a label or category: whole ones without a point.

    Examples
    --------
    >>> from bayespoint.io.tables import number_text
    >>> number_text(3.0), number_text(0.5)
    ('3', '0.5')
    """
    value = float(value)
    if np.isfinite(value) and value == np.floor(value) and abs(value) < EXACT:
        return str(int(value))
    return repr(value)


def clean_text(values: Collection[str | None]) -> Array:
    """Array of text, spaces around it taken off, None where missing; equal ones are one object."""
    texts = np.empty(len(values), dtype=object)
    known: dict[str, str] = {}
    for i, value in enumerate(values):
        text = None if value is None else value.strip()
        texts[i] = None if text is None or text in MISSING else known.setdefault(text, text)
    return texts


def as_text(column: Array) -> Array:
    """Text of a column of numbers, as labels or categories."""
    texts = np.empty(len(column), dtype=object)
    texts[:] = [None if value != value else number_text(value) for value in column.tolist()]
    return texts


class Table(NamedTuple):
    """Named columns of equal length.

    Parameters
    ----------
    names : tuple of str
        All different.
    columns : tuple of ndarray
        One a name: float64 (NaN where missing), or object holding str (None where missing).
    lines : ndarray or None
        Line of the file that each row begins in; None where the file has no lines.
    fill : float or None
        What a column that the file does not name holds in every row: 0 for SVMlight, where zeros
        are left out; None: nothing is known about it.
    notes : tuple of str
        What there is to say about how the file was read.
    trusted : bool
        Whether its size has no limit: it was in memory, or whoever read it trusts the file.
    first : int
        Number of the first row in messages where there are no lines: 1 for files, 0 for what was
        in memory, as in NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.io.tables import Table
    >>> table = Table(("x", "colour"), (np.array([1.0, 2.0]), np.array(["red", None], object)))
    >>> table.n_rows, table.without(["x"]).names
    (2, ('colour',))
    """

    names: tuple[str, ...]
    columns: tuple[Array, ...]
    lines: Array | None = None
    fill: float | None = None
    notes: tuple[str, ...] = ()
    trusted: bool = False
    first: int = 1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Array:
        """Column of this name; a KeyError if there is none."""
        try:
            return self.columns[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def without(self, names: Iterable[str]) -> "Table":
        """Return a table without some columns."""
        left_out = set(names)
        kept = [i for i, name in enumerate(self.names) if name not in left_out]
        return self._replace(
            names=tuple(self.names[i] for i in kept),
            columns=tuple(self.columns[i] for i in kept),
        )

    def rows(self, chosen: slice | Array) -> "Table":
        """Return a table of some rows, by a slice or an array of indices."""
        return self._replace(
            columns=tuple(column[chosen] for column in self.columns),
            lines=None if self.lines is None else self.lines[chosen],
        )

    def place(self, row: int) -> str:
        """Where a row is, for messages: its line in the file, else its number."""
        if self.lines is not None:
            return f"line {self.lines[row]}"
        return f"row {row + self.first:,}" + ("" if self.first else f" {FROM_0}")


def checked(table: Table) -> Table:
    """Return the table if names and sizes are fine; raise a TableError if not."""
    check_names(table.names)
    check_size(table.n_rows, len(table.names))
    if table.n_rows == 0:
        raise TableError("there are names of columns but no rows of data.")
    return table._replace(trusted=not _LIMITED.get())


def numbered_names(n: int) -> tuple[str, ...]:
    """Names of columns that have none: x0, x1, …."""
    return tuple(f"x{i}" for i in range(n))


def check_names(names: Sequence[str]) -> None:
    """Raise a TableError unless there are names, all of them different and none empty."""
    if exceeds(len(names), MAX_COLUMNS):
        raise TableError(f"{len(names):,} columns; at most {MAX_COLUMNS:,} are taken{LIFT}.")
    if not names:
        raise TableError("there are no columns.")
    empty = [str(i + 1) for i, name in enumerate(names) if not name.strip()]
    if empty:
        which = ", ".join(empty[:SHOWN_NAMES]) + and_more(len(empty) - SHOWN_NAMES)
        which = f"columns {which} have" if empty[1:] else f"column {which} has"
        raise TableError(f"{which} no name: give every column one.")
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        raise TableError(f"several columns are called {listed(dict.fromkeys(twice))}: rename them.")


def most_cells(n_bytes: int) -> int:
    """Most cells that a packed file of so many bytes may have."""
    return FREE_CELLS + MAX_CELL_RATIO * n_bytes


def check_packed(n_cells: int, n_bytes: int) -> None:
    """Raise a TableError for a packed file that would grow into too many cells."""
    most = most_cells(n_bytes)
    if exceeds(n_cells, most):
        raise TableError(
            f"the file has {n_bytes:,} bytes and unpacks to {n_cells:,} cells, more than {most:,}, "
            f"the limit{LIFT}."
        )


def check_size(n_rows: int, n_columns: int) -> None:
    """Raise a TableError for more cells than are taken."""
    if exceeds(n_rows * n_columns, MAX_CELLS):
        raise TableError(
            f"{n_rows:,} rows of {n_columns:,} columns are more than the {MAX_CELLS:,} cells "
            f"that are taken (1.6 GB as numbers): leave out rows or columns{LIFT}."
        )
