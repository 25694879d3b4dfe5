"""Tables written as CSV, if wanted with cells that no spreadsheet takes for formulas."""

import csv
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from bayespoint._support.types import ArrayLike
from bayespoint.io.tables.table import NUMBER

# How formulas begin in spreadsheets, wide forms of the signs included.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class TextStream(Protocol):
    """What text is written to."""

    def write(self, text: str, /) -> int:
        """Write a text; return its length."""


def safe_cell(text: str) -> str:
    """Text that a spreadsheet shows and does not run: ' before what could be a formula.

    Examples
    --------
    >>> from bayespoint.io.tables import safe_cell
    >>> safe_cell("=1+1"), safe_cell("-5"), safe_cell("plain")
    ("'=1+1", '-5', 'plain')
    """
    if text.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text):
        return "'" + text
    return text


def write_csv(
    stream: TextStream, names: Sequence[str], columns: Sequence[ArrayLike], *,
    spreadsheet_safe: bool = False, header: bool = True,
) -> None:  # fmt: skip
    """Write columns as CSV: commas, quotes where needed, lines ended by a line feed.

    Parameters
    ----------
    stream : text stream
        Opened with ``newline=""``.
    names : sequence of str
    columns : sequence of array-like of equal length
        Numbers in full precision, text, None or NaN for an empty cell.
    spreadsheet_safe : bool, default=False
        Put ' before text that a spreadsheet would take for a formula; numbers stay.
    header : bool, default=True
        Write the names first.

    Examples
    --------
    >>> import sys
    >>> from bayespoint.io.tables import write_csv
    >>> write_csv(sys.stdout, ["x", "label"], [[0.5, 1.5], ["a", None]])
    x,label
    0.5,a
    1.5,
    """
    writer = csv.writer(stream, lineterminator="\n")
    guard = safe_cell if spreadsheet_safe else str
    if header:
        writer.writerow([guard(name) for name in names])
    cells = [_cells(column, guard) for column in columns]
    writer.writerows(zip(*cells, strict=True))


def _cells(column: ArrayLike, guard: Callable[[str], str]) -> list[Any]:
    array = np.asarray(column)
    if array.dtype.kind in "iuf":
        return ["" if value != value else value for value in array.tolist()]
    return ["" if value is None else guard(str(value)) for value in array.tolist()]
