"""SVMlight files, which leave zeros out."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from bayespoint.io.tables.table import (
    LIFT,
    MAX_COLUMNS,
    Table,
    TableError,
    as_text,
    check_names,
    check_size,
    checked,
    exceeds,
    parse_number,
    printable,
)
from bayespoint.io.tables.text import check_empty_lines, check_lines, check_text, lines_in

# Feature numbers of SVMlight files: those of hashed features fit.
MAX_INDEX = 2**31 - 1


def read_svmlight(data: bytes, *, text: Iterable[str] = ()) -> Table:
    """Table from the bytes of an SVMlight file: ``label``, and x<number> of all features."""
    check_lines(data)
    check_text(data)
    labels, lines, entries, n_empty = [], [], [], 0
    for line, content in enumerate(lines_in(data, newline=None), start=1):
        content = content.split("#", 1)[0]
        if exceeds(content.count(":"), MAX_COLUMNS):
            raise TableError(f"line {line} has more than {MAX_COLUMNS:,} features{LIFT}.")
        cells = content.split(maxsplit=content.count(":") + 2)
        n_empty = 0 if cells else n_empty + 1
        check_empty_lines(n_empty, line)
        if not cells:
            continue
        labels.append(_svmlight_number(cells[0], line, "label"))
        entries.append(_svmlight_features(cells[1:], line))
        lines.append(line)
    indices = sorted(set(chain.from_iterable(entries)))
    names = ("label", *(f"x{index}" for index in indices))
    check_names(names)
    check_size(len(lines), len(names))
    place = {index: i for i, index in enumerate(indices)}
    X = np.zeros((len(indices), len(lines)))
    for row, features in enumerate(entries):
        for index, value in features.items():
            X[place[index], row] = value
    columns = [np.array(labels, dtype=np.float64), *X]
    stays_text = frozenset(text)
    columns = [as_text(c) if n in stays_text else c for n, c in zip(names, columns, strict=True)]
    return checked(Table(names, tuple(columns), np.array(lines, dtype=np.int64), fill=0.0))


def _svmlight_number(cell: str, line: int, what: str) -> float:
    value = parse_number(cell)
    if value is None or value != value:
        raise TableError(
            f"line {line}: the {what} '{printable(cell)}' is not a finite number; SVMlight lines "
            f"are 'label number:value number:value ...'."
        )
    return value


def _svmlight_features(cells: list[str], line: int) -> dict[int, float]:
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
