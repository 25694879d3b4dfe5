"""Text files: CSV and its relatives."""

import codecs
import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.tables.notation import notations_of
from bayespoint.io.tables.table import (
    LIFT,
    MAX_COLUMNS,
    MAX_EMPTY_LINES,
    MISSING,
    Table,
    TableError,
    check_names,
    check_size,
    checked,
    clean_text,
    counted,
    exceeds,
    listed,
    numbered_names,
    parse_number,
    printable,
)

# Line of the file that a record begins in, and its cells.
Record = tuple[int, list[str]]

# Characters of a line: more than the most columns have, and a file without line ends is refused
# before it is copied.
MAX_LINE = 2**24
# Bytes that are decoded at once.
PIECE = 2**20

# The first line, of which so many bytes tell the delimiter.
FIRST_LINE = re.compile(rb"[\r\n]*([^\r\n]{0,1000000})")
DELIMITERS = (",", ";", "\t", "|")
# Cells of the line "sep=;", which some programs write before the names, for Excel.
SEPARATOR = ["sep=", ""]
# Characters of a text in Windows-1252: letters, quotes and signs of Western Europe. Texts in other
# encodings have others as well.
WESTERN = re.compile("[\t\n\r -~À-ÖØ-öø-þŒœŠšŽž\xa0¡¿«»‹›‘’‚“”„–—…•·´ªº°§±²³µ¼½¾€£¥¢©®™‰]*")
WINDOWS = (
    "the file is not UTF-8; it was read as Windows-1252. If letters look wrong, save it as UTF-8."
)
# Delimiters of the lines of one record, those in quotes as well: texts may have some.
MAX_RECORD_CELLS = 10 * MAX_COLUMNS
# Cells parsed at once: their text stays in the processor's cache, which is twice as fast.
BLOCK_CELLS = 100_000


def as_utf8(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a text in UTF-8, and a note if it was in Windows-1252, as old programs write it.

    What looks like neither is a TableError.
    """
    check_lines(data)
    data = data.removeprefix(codecs.BOM_UTF8)
    if _wrong_byte(data) is not None:
        with suppress(UnicodeDecodeError):
            parts = [data[i : i + PIECE].decode("cp1252") for i in range(0, len(data), PIECE)]
            if all(map(WESTERN.fullmatch, parts)):
                return "".join(parts).encode(), (WINDOWS,)
    check_text(data)
    return data, ()


def check_lines(data: bytes) -> None:
    """Raise a TableError for a line that is longer than is taken."""
    start = 0
    while exceeds(len(data) - start, MAX_LINE):
        end = start + MAX_LINE
        last = max(data.rfind(b"\n", start, end), data.rfind(b"\r", start, end))
        if last < 0:
            raise long_line(line_of(data, start))
        start = last + 1


def check_text(data: bytes) -> None:
    """Raise a TableError for what is no text in UTF-8; nothing is copied."""
    check_start(data[:2])
    null, wrong = data.find(b"\0"), _wrong_byte(data)
    if null >= 0:
        raise null_byte(line_of(data, null), f" (at byte {null:,})")
    if wrong is not None:
        raise not_utf8(line_of(data, wrong), data[wrong], f" at byte {wrong:,}")


def _wrong_byte(data: bytes) -> int | None:
    """Where a text stops being UTF-8."""
    if data.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), PIECE):
        n_waiting = len(decoder.getstate()[0])
        try:
            decoder.decode(data[start : start + PIECE], final=start + PIECE >= len(data))
        except UnicodeDecodeError as error:
            return start - n_waiting + error.start
    return None


def check_start(start: bytes) -> None:
    """Raise a TableError where the first two bytes of a file are those of UTF-16."""
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise TableError("the text is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8).")


def long_line(line: int) -> TableError:
    """Error about a line that is longer than is taken."""
    return TableError(f"line {line} has more than {MAX_LINE:,} characters{LIFT}.")


def null_byte(line: int, at: str = "") -> TableError:
    """Error about a NUL byte in a line."""
    return TableError(
        f"line {line} holds a NUL byte{at}: this is no text, or text in UTF-16 or UTF-32; save it "
        f"as UTF-8."
    )


def not_utf8(line: int, byte: int, at: str = "") -> TableError:
    """Error about a line that is not UTF-8."""
    return TableError(
        f"line {line} is not UTF-8 (byte 0x{byte:02x}{at}): save the file as UTF-8; if it comes "
        f"from Windows, try iconv -f WINDOWS-1252 -t UTF-8."
    )


def line_of(data: bytes, offset: int) -> int:
    """Number of the line that a byte is in."""
    n, r, both = (data.count(end, 0, offset) for end in (b"\n", b"\r", b"\r\n"))
    return 1 + n + r - both


def read_csv(
    data: bytes, *, text: Iterable[str] = (), delimiter: str | None = None, header: bool = True,
    decimal: str = ".",
) -> Table:  # fmt: skip
    """Table from the bytes of a CSV file; columns named in ``text`` stay text."""
    data, notes = as_utf8(data)
    if not data or data.isspace():
        raise TableError("the file is empty.")
    # Lines are decoded one by one: a second copy of a large file takes memory.
    first = FIRST_LINE.match(data)[1].decode(errors="ignore")  # type: ignore[index]
    delimiter, plain = delimiter or sniffed(first, decimal), data.isascii() and b"_" not in data
    records = _records_in(data, delimiter)
    names = names_of(records, header)
    if not header:
        records = _records_in(data, delimiter)
    text_columns = places_of(names, text, decimal)
    blocks: list[list[Array]] = []
    lines = array("q")
    for rows, numbers in blocks_of(sound_records(records, len(names)), len(names)):
        check_size(len(lines) + len(rows), len(names))
        blocks.append(columns_of(rows, text_columns, plain))
        lines.extend(numbers)
    if mixed := mixed_columns(blocks):
        again = _records_in(data, delimiter)
        if header:
            names_of(again, header)
        make_text(mixed, blocks, again)
    return with_decimal(joined(names, blocks, lines), text, decimal)._replace(notes=notes)


def joined(names: tuple[str, ...], blocks: list[list[Array]], lines: Iterable[int]) -> Table:
    """Table of blocks of rows; a TableError if it is not valid."""
    empty = [[np.empty(0)] * len(names)]  # checked() has the message
    columns = (np.concatenate(parts) for parts in zip(*(blocks or empty), strict=True))
    return checked(Table(names, tuple(columns), np.array(lines, dtype=np.int64)))


def with_decimal(table: Table, text: Iterable[str], decimal: str) -> Table:
    """Table whose texts are numbers where all of a column are, by another mark than the point."""
    if decimal == ".":
        return table
    stay, columns = frozenset(text), []
    for name, column in zip(table.names, table.columns, strict=True):
        found = [] if name in stay else notations_of(column, decimal)
        columns.append(found[0].numbers(column) if found else column)
    return table._replace(columns=tuple(columns))


def places_of(names: Sequence[str], wanted: Iterable[str], decimal: str = ".") -> frozenset[int]:
    """Places of columns to read as text: those wanted, all where the decimal mark is no point.

    Names that are not there do not matter.
    """
    some = frozenset(wanted if decimal == "." else names)
    return frozenset(i for i, name in enumerate(names) if name in some)


def sniffed(line: str, decimal: str = ".") -> str:
    """Delimiter by the first line alone: the one most frequent outside quotes, else a comma."""
    outside = _outside_quotes(line)
    return max((mark for mark in DELIMITERS if mark != decimal), key=outside.count)


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2]) if '"' in line else line


def lines_in(data: bytes, newline: str | None = "") -> Iterator[str]:
    """Lines of a text in UTF-8, decoded as they are asked for; ``newline`` as for `open`."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline=newline)


def _records_in(data: bytes, delimiter: str) -> Iterator[Record]:
    return records_of(lines_in(data), delimiter)


class _NarrowLines:
    """Lines of which no record has more cells than are taken, before they are cut into cells."""

    def __init__(self, lines: Iterable[str], delimiter: str) -> None:
        self._lines, self._delimiter = iter(lines), delimiter
        self.n_cells = 0  # of the record that is being read, so far
        self.number = 0  # of the line

    def __iter__(self) -> "_NarrowLines":
        return self

    def __next__(self) -> str:
        line, self.number = next(self._lines), self.number + 1
        n_cells = line.count(self._delimiter)
        if MAX_COLUMNS <= n_cells < MAX_RECORD_CELLS:
            n_cells = _outside_quotes(line).count(self._delimiter)
        self.n_cells += n_cells
        if exceeds(n_cells + 1, MAX_COLUMNS) or exceeds(self.n_cells + 1, MAX_RECORD_CELLS):
            raise TableError(
                f"line {self.number:,} has more cells than the at most {MAX_COLUMNS:,} that are "
                f"taken: leave out columns{LIFT}."
            )
        return line


def records_of(lines: Iterable[str], delimiter: str) -> Iterator[Record]:
    """Yield (line, cells) of the records, what is malformed as a TableError."""
    narrow, n_empty = _NarrowLines(lines, delimiter), 0
    reader = csv.reader(narrow, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(_quoting(str(error), line, reader.line_num)) from None
        narrow.n_cells, n_empty = 0, 0 if cells else n_empty + 1
        check_empty_lines(n_empty, line)
        yield line, cells


def check_empty_lines(n_empty: int, line: int) -> None:
    """Refuse more empty lines in a row than are taken."""
    if exceeds(n_empty, MAX_EMPTY_LINES):
        raise TableError(
            f"more than {MAX_EMPTY_LINES:,} empty lines follow each other up to line {line:,}: "
            f"take them out{LIFT}."
        )


def _quoting(problem: str, line: int, last: int) -> str:
    where = f"line {line}" if last <= line else f"lines {line} to {last}"
    if "field limit" in problem:
        return (
            f"{where}: a cell has more than {csv.field_size_limit():,} characters; in Python, "
            f"csv.field_size_limit(n) raises this limit."
        )
    if "end of data" in problem:
        return f'{where}: a quote (") is opened and never closed.'
    if "expected after" in problem:
        return f'{where}: a quote (") ends before the cell does; double quotes inside cells ("").'
    return f"{where}: {printable(problem)}."


def names_of(records: Iterator[Record], header: bool) -> tuple[str, ...]:
    """Names of the columns by the first record; without a header x0, x1, ….

    The third column is called "column 3" if it has no name, as row names of programs and cells
    after a last delimiter have none.
    """
    there = (cells for _, cells in records if cells)
    first = next(there, [])
    if not header:
        return numbered_names(len(first))
    if first == SEPARATOR:
        first = next(there, [])
    names = tuple(name.strip() for name in first)
    values = [parse_number(name) for name in names]
    if all(value is not None and value == value for value in values):
        raise TableError(
            f"the first line must hold the names of the columns, but all its cells are numbers "
            f"({listed(names, 3)}): add a line of names, or give --no-header."
        )
    if 2 * names.count("") <= len(names):  # else it is no line of names
        names = tuple(name or f"column {number}" for number, name in enumerate(names, 1))
    check_names(names)
    return names


def sound_records(records: Iterable[Record], n_columns: int) -> Iterator[Record]:
    """Yield the records without empty lines at the end; a TableError for what is ragged."""
    empty: int | None = None
    for line, cells in records:
        if len(cells) != n_columns or empty is not None:
            empty = _ragged(line, cells, n_columns, empty)
            if not cells:
                continue
        yield line, cells


def blocks_of(
    records: Iterable[Record], n_columns: int
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Yield (rows, lines) of some sound records at a time."""
    size = max(1, BLOCK_CELLS // n_columns)
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, cells in records:
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


def columns_of(rows: list[list[str]], text_columns: frozenset[int], plain: bool) -> list[Array]:
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


def mixed_columns(blocks: list[list[Array]]) -> list[int]:
    """Columns that are text in some blocks and numbers in others."""
    kinds = np.array([[column.dtype == object for column in block] for block in blocks])
    return np.flatnonzero(kinds.any(axis=0) & ~kinds.all(axis=0)).tolist() if blocks else []


def make_text(mixed: list[int], blocks: list[list[Array]], records: Iterable[Record]) -> None:
    """Make these columns text in all blocks, from the records, which are read again."""
    n_columns = len(blocks[0])
    again = blocks_of(sound_records(records, n_columns), n_columns)
    for block, (rows, _) in zip(blocks, again, strict=True):
        for i in mixed:
            block[i] = clean_text([row[i] for row in rows])
