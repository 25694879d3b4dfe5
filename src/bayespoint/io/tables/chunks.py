"""CSV files read a chunk of rows at a time: memory holds one chunk, whatever the file has."""

import gzip
import zlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TextIO

from bayespoint._support.types import Array
from bayespoint.io.tables.table import Table, TableError, check_size, exceeds, printable
from bayespoint.io.tables.text import (
    MAX_LINE,
    Record,
    blocks_of,
    check_empty_lines,
    check_start,
    columns_of,
    joined,
    line_of,
    long_line,
    make_text,
    mixed_columns,
    names_of,
    not_utf8,
    null_byte,
    places_of,
    records_of,
    sniffed,
    sound_records,
    with_decimal,
)


class ChunkReader:
    """Rows of a CSV file, as many at a time as are asked for.

    Parameters
    ----------
    stream : text file
        In UTF-8, opened with ``newline=""``.
    delimiter : str, optional
        By the first line unless given.
    header : bool, default=True
        As for `read_table`.
    decimal : str, default="."
        As for `read_table`.

    Attributes
    ----------
    names : tuple of str
        Of the columns.
    """

    def __init__(
        self, stream: TextIO, *, delimiter: str | None = None, header: bool = True,
        decimal: str = ".",
    ) -> None:  # fmt: skip
        self._decimal = decimal
        self._kept: list[str] = []  # lines of this chunk, in case a column must be read again
        lines = _lines(stream)
        head = _head(lines)
        self._delimiter = delimiter or sniffed(head[-1].strip("\r\n"), decimal)
        records = records_of(_taped(chain(head, lines), self._kept), self._delimiter)
        if header:
            self.names = names_of(records, header)
            self._kept.clear()
        else:
            first = _first(records)
            self.names = names_of(iter(first), header)
            records = chain(first, records)
        self._records = sound_records(records, len(self.names))

    def read(self, n_rows: int, text: Iterable[str] = ()) -> Table | None:
        """Return the next rows, or None at the end.

        Parameters
        ----------
        n_rows : int
            At most.
        text : iterable of str
            As for `read_table`; other columns are numbers or text by what this chunk holds.

        Returns
        -------
        Table or None
        """
        places, n_columns = places_of(self.names, text, self._decimal), len(self.names)
        blocks: list[list[Array]] = []
        lines = array("q")
        n_read = 0
        for rows, numbers in blocks_of(islice(self._records, n_rows), n_columns):
            check_size(len(lines) + len(rows), n_columns)
            plain = all(line.isascii() and "_" not in line for line in self._kept[n_read:])
            blocks.append(columns_of(rows, places, plain))
            lines.extend(numbers)
            n_read = len(self._kept)
        if mixed := mixed_columns(blocks):
            make_text(mixed, blocks, records_of(self._kept, self._delimiter))
        self._kept.clear()
        if not lines:
            return None
        return with_decimal(joined(self.names, blocks, lines), text, self._decimal)


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a text with their ends; a TableError where it is none."""
    number = 0
    try:
        most = MAX_LINE + 1
        while line := stream.readline(most if exceeds(most, MAX_LINE) else -1):
            number += 1
            if "\0" in line:
                raise null_byte(number)
            if exceeds(len(line), MAX_LINE):
                raise long_line(number)
            yield line
    except UnicodeDecodeError as error:
        if number == error.start == 0:
            check_start(error.object[:2])
        line_number = number + line_of(error.object, error.start)
        raise not_utf8(line_number, error.object[error.start]) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"the file is not valid gzip: {printable(str(error))}") from None


def _head(lines: Iterator[str]) -> list[str]:
    """Lines up to the first that is not empty."""
    head: list[str] = []
    for line in lines:
        check_empty_lines(len(head), len(head) + 1)
        head.append(line)
        if line.strip("\r\n"):
            return head
    raise TableError("the file is empty.")


def _taped(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    """Yield lines, and keep them."""
    for line in lines:
        kept.append(line)
        yield line


def _first(records: Iterator[Record]) -> list[Record]:
    """Records up to the first that has cells."""
    found = []
    for record in records:
        found.append(record)
        if record[1]:
            break
    return found
