"""Text files: CSV and its relatives."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.tables.table import (
    MAX_COLUMNS,
    MISSING,
    Table,
    TableError,
    check_names,
    check_size,
    checked,
    clean_text,
    counted,
    listed,
    numbered_names,
    parse_number,
    printable,
)

# Line of the file that a record begins in, and its cells.
Record = tuple[int, list[str]]

LINE_END = re.compile(r"\r\n|\n|\r")
DELIMITERS = (",", ";", "\t", "|")
# Cells parsed at once: their text stays in the processor's cache, which is twice as fast.
BLOCK_CELLS = 100_000


def decoded(data: bytes) -> str:
    """Text of a file in UTF-8, with or without a byte order mark, else a TableError."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise TableError("the text is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8).")
    data = data[3:] if data[:3] == b"\xef\xbb\xbf" else data
    null = data.find(b"\0")
    if null >= 0:
        raise TableError(
            f"line {line_of(data, null)} holds a NUL byte (at byte {null:,}): this is no text, or "
            f"text in UTF-16 or UTF-32; save it as UTF-8."
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(
            f"line {line_of(data, error.start)} is not UTF-8 (byte 0x{data[error.start]:02x} at "
            f"byte {error.start:,}): save the file as UTF-8; if it comes from Windows, try "
            f"iconv -f WINDOWS-1252 -t UTF-8."
        ) from None


def line_of(data: bytes, offset: int) -> int:
    """Number of the line that a byte is in."""
    head = data[:offset]
    return 1 + head.count(b"\n") + head.count(b"\r") - head.count(b"\r\n")


def read_csv(
    data: bytes, *, text: Iterable[str] = (), delimiter: str | None = None, header: bool = True
) -> Table:
    """Table from the bytes of a CSV file; columns named in ``text`` stay text."""
    content = decoded(data)
    if not content.strip():
        raise TableError("the file is empty.")
    delimiter = delimiter or sniffed(content)
    records = _records(content, delimiter)
    names = _names(records, header)
    if not header:
        records = _records(content, delimiter)
    stays_text = frozenset(text)
    text_columns = frozenset(i for i, name in enumerate(names) if name in stays_text)
    plain = content.isascii() and "_" not in content
    blocks: list[list[Array]] = []
    lines: list[int] = []
    for rows, numbers in _blocks(records, len(names)):
        check_size(len(lines) + len(rows), len(names))
        blocks.append(_columns_of(rows, text_columns, plain))
        lines += numbers
    mixed = _mixed(blocks)
    if mixed:
        _read_again(content, delimiter, header, mixed, blocks)
    empty = [[np.empty(0)] * len(names)]  # checked() has the message
    columns = (np.concatenate(parts) for parts in zip(*(blocks or empty), strict=True))
    return checked(Table(names, tuple(columns), np.array(lines, dtype=np.int64)))


def sniffed(content: str) -> str:
    """Delimiter by the first line alone: the one most frequent outside quotes, else a comma."""
    first = LINE_END.split(content.lstrip("\r\n"), maxsplit=1)[0]
    outside = "".join(first.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _records(content: str, delimiter: str) -> Iterator[Record]:
    """Yield (line, cells) of the records, what is malformed as a TableError."""
    stream = io.StringIO(content, newline="")
    reader = csv.reader(stream, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(_quoting(str(error), line, reader.line_num)) from None
        yield line, cells


def _quoting(problem: str, line: int, last: int) -> str:
    where = f"line {line}" if last <= line else f"lines {line} to {last}"
    if "field limit" in problem:
        return f"{where}: a cell has more than {csv.field_size_limit():,} characters."
    if "end of data" in problem:
        return f'{where}: a quote (") is opened and never closed.'
    if "expected after" in problem:
        return f'{where}: a quote (") ends before the cell does; double quotes inside cells ("").'
    return f"{where}: {printable(problem)}."


def _names(records: Iterator[Record], header: bool) -> tuple[str, ...]:
    _, first = next((record for record in records if record[1]), (0, []))
    if len(first) > MAX_COLUMNS:
        raise TableError(f"line 1 has {len(first):,} cells; at most {MAX_COLUMNS:,} are taken.")
    if not header:
        return numbered_names(len(first))
    names = tuple(name.strip() for name in first)
    values = [parse_number(name) for name in names]
    if all(value is not None and value == value for value in values):
        raise TableError(
            f"the first line must hold the names of the columns, but all its cells are numbers "
            f"({listed(names, 3)}): add a line of names, or give --no-header."
        )
    check_names(names)
    return names


def _blocks(
    records: Iterable[Record], n_columns: int
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Yield (rows, lines) of some records at a time; a TableError for what is ragged."""
    size = max(1, BLOCK_CELLS // n_columns)
    rows: list[list[str]] = []
    lines: list[int] = []
    empty: int | None = None
    for line, cells in records:
        if len(cells) != n_columns or empty is not None:
            empty = _ragged(line, cells, n_columns, empty)
            if not cells:
                continue
        rows.append(cells)
        lines.append(line)
        if len(rows) == size:
            yield rows, lines
            rows, lines = [], []
    if rows:
        yield rows, lines


def _ragged(line: int, cells: list[str], n_columns: int, empty: int | None) -> int | None:
    """First empty line, which is fine at the end of a file only, or a TableError."""
    if not cells:
        return line if empty is None else empty
    if empty is not None:
        raise TableError(f"line {empty} is empty, and data follow: take it out.")
    if len(cells) != n_columns:
        hint = (
            "a comma inside a cell? Put the cell in quotes" if len(cells) > n_columns
            else "where a value is not known, leave the cell empty, but keep its delimiter"
        )  # fmt: skip
        raise TableError(
            f"line {line} has {counted(len(cells), 'cell')} where there "
            f"{'are' if n_columns > 1 else 'is'} {counted(n_columns, 'column')} ({hint})."
        )
    return None


def _columns_of(rows: list[list[str]], text_columns: frozenset[int], plain: bool) -> list[Array]:
    """Columns of some rows: numbers, or text where a cell is none and for ``text_columns``."""
    if plain:  # most files hold little but numbers
        try:
            flat = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
        except ValueError:
            pass
        else:
            columns = list(np.ascontiguousarray(flat.reshape(len(rows), -1).T))
            for i in text_columns:
                columns[i] = clean_text([row[i] for row in rows])
            return columns
    cells = list(zip(*rows, strict=True))
    numbers = [None if i in text_columns else numbers_of(c, plain) for i, c in enumerate(cells)]
    return [clean_text(c) if n is None else n for c, n in zip(cells, numbers, strict=True)]


def numbers_of(cells: Sequence[str], plain: bool = False) -> Array | None:
    """Numbers of cells, NaN where missing, or None if some cell is text.

    ``plain`` tells that neither underscores nor characters beyond ASCII are among them.
    """
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        try:
            values = np.fromiter(map(_number_or_missing, cells), np.float64, len(cells))
        except ValueError:
            return None
    if not plain:
        joined = "".join([cell.strip() for cell in cells])
        if "_" in joined or not joined.isascii():
            return None
    return values


def _number_or_missing(cell: str) -> float:
    cell = cell.strip()
    return float("nan") if cell in MISSING else float(cell)


def _mixed(blocks: list[list[Array]]) -> list[int]:
    """Columns that are text in some blocks and numbers in others."""
    kinds = np.array([[column.dtype == object for column in block] for block in blocks])
    return np.flatnonzero(kinds.any(axis=0) & ~kinds.all(axis=0)).tolist() if blocks else []


def _read_again(
    content: str, delimiter: str, header: bool, mixed: list[int], blocks: list[list[Array]]
) -> None:
    """Make these columns text in all blocks, from the text in the file."""
    records = _records(content, delimiter)
    if header:
        _names(records, header)
    n_columns = len(blocks[0])
    for block, (rows, _) in zip(blocks, _blocks(records, n_columns), strict=True):
        for i in mixed:
            block[i] = clean_text([row[i] for row in rows])
