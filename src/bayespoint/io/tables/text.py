"""Text files: CSV and its relatives, SVMlight."""

import csv
import io
import re
from itertools import chain

import numpy as np

from bayespoint.io.tables.table import (
    DECIMAL_COMMA,
    MAX_COLUMNS,
    MISSING,
    THOUSANDS,
    Table,
    TableError,
    check_names,
    check_size,
    checked,
    clean_text,
    listed,
    number_text,
    parse_number,
    printable,
)

LINE_END = re.compile(r"\r\n|\n|\r")
DELIMITERS = (",", ";", "\t", "|")
# Cells parsed at once: their text stays in the processor's cache, which is twice as fast.
BLOCK_CELLS = 100_000
# Feature numbers of SVMlight files: those of hashed features fit.
MAX_INDEX = 2**31 - 1


def decoded(data):
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


def line_of(data, offset):
    """Number of the line that a byte is in."""
    head = data[:offset]
    return 1 + head.count(b"\n") + head.count(b"\r") - head.count(b"\r\n")


def read_csv(data, *, text=(), delimiter=None, header=True):
    """Table from the bytes of a CSV file; columns named in ``text`` stay text."""
    content = decoded(data)
    if not content.strip():
        raise TableError("the file is empty.")
    delimiter = delimiter or sniffed(content)
    records = _records(content, delimiter)
    names = _names(records, header)
    if not header:
        records = _records(content, delimiter)
    text = frozenset(text)
    always = frozenset(i for i, name in enumerate(names) if name in text)
    plain = content.isascii() and "_" not in content
    blocks: list[list[np.ndarray]] = []
    lines: list[int] = []
    for rows, numbers in _blocks(records, len(names)):
        check_size(len(lines) + len(rows), len(names))
        blocks.append(_columns_of(rows, always, plain))
        lines += numbers
    mixed = _mixed(blocks)
    if mixed:
        _read_again(content, delimiter, header, mixed, blocks)
    empty = [[np.empty(0)] * len(names)]  # checked() has the message
    columns = (np.concatenate(parts) for parts in zip(*(blocks or empty), strict=True))
    return checked(Table(names, tuple(columns), np.array(lines, dtype=np.int64)))


def sniffed(content):
    """Delimiter by the first line alone: the one most frequent outside quotes, else a comma."""
    first = LINE_END.split(content.lstrip("\r\n"), maxsplit=1)[0]
    outside = "".join(first.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _records(content, delimiter):
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


def _quoting(problem, line, last):
    where = f"line {line}" if last <= line else f"lines {line} to {last}"
    if "field limit" in problem:
        return f"{where}: a cell has more than {csv.field_size_limit():,} characters."
    if "end of data" in problem:
        return f'{where}: a quote (") is opened and never closed.'
    if "expected after" in problem:
        return f'{where}: a quote (") ends before the cell does; double quotes inside cells ("").'
    return f"{where}: {printable(problem)}."


def _names(records, header):
    _, first = next((record for record in records if record[1]), (0, []))
    if len(first) > MAX_COLUMNS:
        raise TableError(f"line 1 has {len(first):,} cells; at most {MAX_COLUMNS:,} are taken.")
    if not header:
        return tuple(f"x{i}" for i in range(len(first)))
    names = tuple(name.strip() for name in first)
    values = [parse_number(name) for name in names]
    if all(value is not None and value == value for value in values):
        raise TableError(
            f"the first line must hold the names of the columns, but all its cells are numbers "
            f"({listed(names, 3)}): add a line of names, or give --no-header."
        )
    check_names(names)
    return names


def _blocks(records, n_columns):
    """Yield (rows, lines) of some records at a time; a TableError for what is ragged."""
    size = max(1, BLOCK_CELLS // n_columns)
    rows, lines, empty = [], [], None
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


def _ragged(line, cells, n_columns, empty):
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
        cell_s = f"{len(cells):,} cell{'s' * (len(cells) > 1)}"
        there_are = f"there {'are' if n_columns > 1 else 'is'} {n_columns:,}"
        raise TableError(
            f"line {line} has {cell_s} where {there_are} column{'s' * (n_columns > 1)} ({hint})."
        )
    return None


def _columns_of(rows, always, plain):
    """Columns of some rows: numbers, or text where a cell is none and for those ``always`` text."""
    if plain:  # most files hold little but numbers
        try:
            flat = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
        except ValueError:
            pass
        else:
            columns = list(np.ascontiguousarray(flat.reshape(len(rows), -1).T))
            for i in always:
                columns[i] = clean_text([row[i] for row in rows])
            return columns
    cells = list(zip(*rows, strict=True))
    found = [None if i in always else numbers_of(c, plain) for i, c in enumerate(cells)]
    return [clean_text(c) if f is None else f for c, f in zip(cells, found, strict=True)]


def numbers_of(cells, plain=False):
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


def _number_or_missing(cell):
    cell = cell.strip()
    return float("nan") if cell in MISSING else float(cell)


def _mixed(blocks):
    """Columns that are text in some blocks and numbers in others."""
    kinds = np.array([[column.dtype == object for column in block] for block in blocks])
    return np.flatnonzero(kinds.any(axis=0) & ~kinds.all(axis=0)).tolist() if blocks else []


def _read_again(content, delimiter, header, mixed, blocks):
    """Make these columns text in all blocks, from the text in the file."""
    records = _records(content, delimiter)
    if header:
        _names(records, header)
    n_columns = len(blocks[0])
    for block, (rows, _) in zip(blocks, _blocks(records, n_columns), strict=True):
        for i in mixed:
            block[i] = clean_text([row[i] for row in rows])


def comma_hint(text):
    """Advice, where a cell looks like a number with commas."""
    if THOUSANDS.fullmatch(text.strip()):
        return " Write numbers without thousands separators."
    return " Write numbers with a decimal point." if DECIMAL_COMMA.fullmatch(text.strip()) else ""


def read_svmlight(data, *, text=()):
    """Table from the bytes of an SVMlight file: ``label``, and x<number> of all features."""
    labels, lines, entries = [], [], []
    for line, content in enumerate(LINE_END.split(decoded(data)), start=1):
        cells = content.split("#", 1)[0].split()
        if not cells:
            continue
        labels.append(_svmlight_number(cells[0], line, "label"))
        entries.append(_svmlight_features(cells[1:], line))
        lines.append(line)
    indices = sorted(set().union(*entries)) if entries else []
    names = ("label", *(f"x{index}" for index in indices))
    check_names(names)
    check_size(len(lines), len(names))
    place = {index: i for i, index in enumerate(indices)}
    X = np.zeros((len(indices), len(lines)))
    for row, features in enumerate(entries):
        for index, value in features.items():
            X[place[index], row] = value
    columns = [np.array(labels, dtype=np.float64), *X]
    text = frozenset(text)
    columns = [as_text(c) if n in text else c for n, c in zip(names, columns, strict=True)]
    return checked(Table(names, tuple(columns), np.array(lines, dtype=np.int64), fill=0.0))


def _svmlight_number(cell, line, what):
    value = parse_number(cell)
    if value is None or value != value:
        raise TableError(
            f"line {line}: the {what} '{printable(cell)}' is no finite number; SVMlight lines are "
            f"'label number:value number:value ...'."
        )
    return value


def _svmlight_features(cells, line):
    features: dict[int, float] = {}
    last = -1
    for cell in cells:
        name, colon, value = cell.partition(":")
        if name == "qid" and colon:
            continue
        if not (colon and name.isascii() and name.isdigit() and len(name) < 12):
            raise TableError(
                f"line {line}: '{printable(cell)}' is not number:value, as SVMlight files have it."
            )
        index = int(name)
        if not last < index <= MAX_INDEX:
            raise TableError(
                f"line {line}: feature {index} after {last}; numbers must increase within a line, "
                f"up to {MAX_INDEX:,}."
            )
        features[index] = _svmlight_number(value, line, f"value of feature {index}")
        last = index
    return features


def as_text(column):
    """Text of a column of numbers, as labels or categories."""
    found = np.empty(len(column), dtype=object)
    found[:] = [None if value != value else number_text(value) for value in column.tolist()]
    return found
