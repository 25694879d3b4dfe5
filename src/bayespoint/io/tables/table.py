"""`Table`: named columns of numbers or text; what counts as a number, and as missing."""

import re
import unicodedata
from typing import NamedTuple

import numpy as np

# What stands for a missing value, in text of every format; spaces around it do not count.
MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"])

# Numbers as people and programs write them; float() alone would take 1_000 and digits of other
# scripts as well.
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)

# Cells of a table: as numbers 1.6 GB, and a classifier needs some copies.
MAX_CELLS = 200_000_000
# Columns: more than any measurement has, and each has a name, a scale and a place in the model.
MAX_COLUMNS = 100_000
# Text of a cell in a message: enough to find it again.
SHOWN_CHARACTERS = 60
# Names listed in a message.
SHOWN_NAMES = 8

# Whole numbers that float64 holds exactly.
EXACT = 2.0**53


class TableError(ValueError):
    """Data that cannot be used; the message says where and what to do, and is safe to print."""


class MissingPackageError(TableError):
    """A file of a kind that needs a package which is not installed."""


def printable(text, limit=SHOWN_CHARACTERS):
    r"""Text from data, safe to print: no control or direction characters, not too long.

    Parameters
    ----------
    text : str
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


def _visible(character):
    # Controls, marks of direction and of no width, lone surrogates, private and unassigned ones,
    # separators of lines.
    if character == " " or unicodedata.category(character)[0] not in "CZ":
        return character
    code = ord(character)
    if unicodedata.category(character) == "Zs":
        return " "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def listed(names, limit=SHOWN_NAMES):
    """Names from data for a message: the first of them, quoted."""
    names = list(names)
    text = ", ".join(f"'{printable(name)}'" for name in names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit:,} more"


def parse_number(text):
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


def number_text(value):
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


def clean_text(values):
    """Array of text, spaces around it taken off, None where missing, from any iterable of str."""
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        text = None if value is None else value.strip()
        found[i] = None if text is None or text in MISSING else text
    return found


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

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.io.tables import Table
    >>> table = Table(("x", "colour"), (np.array([1.0, 2.0]), np.array(["red", None], object)))
    >>> table.n_rows, table.without(["x"]).names
    (2, ('colour',))
    """

    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    lines: np.ndarray | None = None
    fill: float | None = None

    @property
    def n_rows(self):
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name):
        """Column of this name; a KeyError if there is none."""
        try:
            return self.columns[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def without(self, names):
        """Return a table without some columns."""
        left_out = set(names)
        kept = [i for i, name in enumerate(self.names) if name not in left_out]
        return self._replace(
            names=tuple(self.names[i] for i in kept),
            columns=tuple(self.columns[i] for i in kept),
        )

    def rows(self, chosen):
        """Return a table of some rows, by a slice or an array of indices."""
        return self._replace(
            columns=tuple(column[chosen] for column in self.columns),
            lines=None if self.lines is None else self.lines[chosen],
        )

    def place(self, row):
        """Where a row is, for messages: its line in the file, else its number from 1."""
        return f"row {row + 1:,}" if self.lines is None else f"line {self.lines[row]}"


def checked(table):
    """Return the table if names, sizes and numbers are fine; raise a TableError if not."""
    check_names(table.names)
    check_size(table.n_rows, len(table.names))
    if table.n_rows == 0:
        raise TableError("there are names of columns but no rows of data.")
    for name, column in zip(table.names, table.columns, strict=True):
        if column.dtype == object or not np.isinf(column).any():
            continue
        row = int(np.isinf(column).argmax())
        raise TableError(
            f"column '{printable(name)}', {table.place(row)}: the number is infinite or too large "
            f"(beyond 1.8e308). Leave the cell empty if the value is not known."
        )
    return table


def check_names(names):
    """Raise a TableError unless there are names, all of them different and none empty."""
    if len(names) > MAX_COLUMNS:
        raise TableError(f"{len(names):,} columns; at most {MAX_COLUMNS:,} are taken.")
    if not names:
        raise TableError("there are no columns.")
    empty = [str(i + 1) for i, name in enumerate(names) if not name.strip()]
    if empty:
        more = f" and {len(empty) - SHOWN_NAMES:,} more" if len(empty) > SHOWN_NAMES else ""
        which = f"columns {', '.join(empty[:SHOWN_NAMES])}{more} have"
        raise TableError(
            f"{which if empty[1:] else f'column {empty[0]} has'} no name: give every column one."
        )
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        raise TableError(f"several columns are called {listed(dict.fromkeys(twice))}: rename them.")


def check_size(n_rows, n_columns):
    """Raise a TableError for more cells than are taken."""
    if n_rows * n_columns > MAX_CELLS:
        raise TableError(
            f"{n_rows:,} rows of {n_columns:,} columns are more than the {MAX_CELLS:,} cells "
            f"that are taken (1.6 GB as numbers): leave out rows or columns."
        )
