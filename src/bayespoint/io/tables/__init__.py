"""Tables of numbers and text: read from CSV, Parquet, NPY, NPZ and SVMlight, written as CSV."""

from bayespoint.io.tables.chunks import ChunkReader
from bayespoint.io.tables.reading import FORMATS, PathName, open_chunks, read_table
from bayespoint.io.tables.table import (
    Table,
    TableError,
    counted,
    number_text,
    parse_number,
    printable,
)
from bayespoint.io.tables.writing import safe_cell, write_csv

__all__ = [
    "FORMATS",
    "ChunkReader",
    "PathName",
    "Table",
    "TableError",
    "counted",
    "number_text",
    "open_chunks",
    "parse_number",
    "printable",
    "read_table",
    "safe_cell",
    "write_csv",
]
