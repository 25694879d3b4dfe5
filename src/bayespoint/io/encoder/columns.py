"""Columns as an encoder knows them: how they are learned, applied, checked and spoken of."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.encoder.tails import N_KNOTS, are_sound, has_long_tail, knots_of, placed
from bayespoint.io.tables.notation import (
    DECIMALS,
    PLAIN,
    THOUSANDS,
    UNITS,
    Notation,
    notations_of,
)
from bayespoint.io.tables.table import (
    Table,
    TableError,
    and_more,
    clean_text,
    counted,
    listed,
    printable,
)

# What helps where a cell of a column of numbers is none.
EMPTY_IT = " Correct the cell, or leave it empty if the number is not known."
# Columns of SVMlight files, which leave zeros out.
SPARSE_NAME = re.compile(r"x\d+", re.ASCII)
# Standard deviations from the mean beyond which a number counts as being that far: distances stay
# finite when squared, and no kernel tells the difference.
FARTHEST = 1e6
# Cells of a column of numbers that are none: a share up to which they seem to be slips, different
# texts up to which they may stand for missing values, and those that a message shows.
FEW_SHARE, FEW_TEXTS, SHOWN_CELLS = 0.05, 3, 5
# Different texts that tell in which notation most cells are numbers.
LOOKED_AT = 200
# Rows that a value must have on average for a text of many values to seem a category.
OFTEN = 5


class Number(NamedTuple):
    """A column of numbers: what missing ones are taken as, and its scale.

    Where it has a long tail, mean and scale are those of the places; else there are no knots.
    ``notation`` is that of its texts in training, ``ends`` are the least and the largest number
    there.
    """

    name: str
    median: float
    mean: float
    scale: float
    knots: tuple[float, ...] = ()
    places: tuple[float, ...] = ()
    notation: Notation = PLAIN
    ends: tuple[float, ...] = ()


class Category(NamedTuple):
    """A column of text: the values seen in training, in order."""

    name: str
    values: tuple[str, ...]


def check(sound: object, wanted: str) -> None:
    """Raise a ValueError unless a stored state is valid."""
    if not sound:
        raise ValueError(f"the stored encoder is not valid: {wanted}.")


def all_text(values: object) -> bool:
    """Whether this is a list of text."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def number_state(number: Number) -> dict[str, Any]:
    """Return what `number_from` needs, of plain types that JSON knows."""
    values = number._asdict().items()
    return {"kind": "number"} | {k: list(v) if isinstance(v, tuple) else v for k, v in values}


def category_from(state: dict[str, Any], max_categories: int) -> Category:
    """Category of a stored state; a ValueError if it is not valid."""
    check(set(state) == {"kind", *Category._fields}, "a category has values")
    values = state["values"]
    check(all_text(values) and 1 <= len(values) <= max_categories, "values must be some texts")
    check(sorted(set(values)) == values, "values must differ and be in order")
    return Category(state["name"], tuple(values))


def number_from(state: Any) -> Number:
    """Number of a stored state; a ValueError if it is not valid."""
    check(isinstance(state, dict), "a number must be an object")
    state = {"notation": list(PLAIN), "ends": []} | state  # which older files do not have
    check(
        set(state) == {"kind", *Number._fields},
        "a number has median, mean, scale, knots, places, notation and ends",
    )
    check(isinstance(state["name"], str), "a number needs a name")
    median, mean, scale = values = [state[key] for key in ("median", "mean", "scale")]
    check(
        all(type(v) is float and math.isfinite(v) for v in values) and scale > 0,
        "median, mean and scale must be finite, and scale above 0",
    )
    knots, places, marks = state["knots"], state["places"], state["notation"]
    check(
        are_sound(knots, places),
        f"knots and places must be as many, none or 2 to {N_KNOTS}, and rise, the latter "
        f"within [0, 1]",
    )
    check(
        all_text(marks)
        and len(marks) in (2, 3)  # older files have no unit
        and marks[0] in DECIMALS
        and marks[1] in THOUSANDS
        and marks[0] != marks[1]
        and marks[2:] in ([], *([unit] for unit in UNITS)),
        "notation must be a decimal mark, another one for thousands, and the sign of a unit",
    )
    ends = state["ends"]
    rise = ends == [] or are_sound(ends, [0.0, 1.0])  # as two knots do
    check(rise, "ends must be two numbers that rise, or none")
    knots, places, notation = tuple(knots), tuple(places), Notation(*marks)
    return Number(state["name"], median, mean, scale, knots, places, notation, tuple(ends))


def is_missing(column: Array) -> Array:
    """Where a column has nothing."""
    if column.dtype == object:
        return np.fromiter((value is None for value in column), bool, len(column))
    return np.isnan(column)


def infinity(table: Table, column: Array) -> str:
    """Which number of a column is infinite; nothing where all are finite."""
    infinite = np.isinf(column)
    if not infinite.any():
        return ""
    return (
        f"the number in {table.place(int(infinite.argmax()))} is infinite or too large (beyond "
        f"1.8e308); leave the cell empty if the value is not known."
    )


def fit_number(name: str, column: Array, n_knots: int = 0) -> Number | None:
    """Median, mean and scale of a column, safe from overflow; None if it does not vary.

    With ``n_knots`` a column with a long tail gets at most so many knots.
    """
    low, high = float(np.fmin.reduce(column)), float(np.fmax.reduce(column))  # NaN does not count
    if low == high:
        return None
    gaps = np.isnan(column)
    there = column[~gaps]
    median = 2 * float(np.median(there / 2))
    values = np.where(gaps, median, column)
    if n_knots and has_long_tail(there, median):
        knots, places = knots_of(there, n_knots)
        values = placed(values, knots, places)
        mean, scale = float(values.mean()), float(values.std())
        return Number(name, median, mean, scale, knots, places, ends=(low, high))
    largest = max(abs(low), abs(high))
    values = values / largest
    mean, scale = float(values.mean()) * largest, float(values.std()) * largest
    if not 0 < scale < math.inf:
        return None
    return Number(name, median, mean, scale, ends=(low, high))


def fit_category(name: str, column: Array, max_categories: int, why: str = "") -> Category | None:
    """Values of a text column; None if there is only one. ``why`` is what `why_text` says."""
    texts = [value for value in column if value is not None]
    values = sorted(set(texts))
    if len(values) > max_categories:
        if OFTEN * len(values) <= len(texts):
            why += f" max_categories={len(values)} takes it."
        raise TableError(
            f"text with {len(values):,} different values; at most {max_categories} are taken as "
            f"categories.{why}"
        )
    varies = len(values) > 1 or len(texts) < len(column)
    return Category(name, tuple(values)) if varies else None


def standardised(values: Array, numbers: Sequence[Number]) -> Array:
    """Missing values filled in, places taken where there are knots, then scaled."""
    gaps = np.isnan(values)
    if gaps.any():
        values = np.where(gaps, [number.median for number in numbers], values)
    return np.clip(deviations(values, numbers), -FARTHEST, FARTHEST)


def deviations(values: Array, numbers: Sequence[Number]) -> Array:
    """How many standard deviations numbers are from the means; NaN where they are missing."""
    mean, scale = np.array([(number.mean, number.scale) for number in numbers]).T
    tails = [i for i, number in enumerate(numbers) if number.knots]
    if tails:
        values = values.copy()
    for i in tails:
        values[:, i] = placed(values[:, i], numbers[i].knots, numbers[i].places)
    with np.errstate(over="ignore", invalid="ignore"):
        # Halves: the difference of two finite numbers may not be one.
        return 2 * ((values / 2 - mean / 2) / scale)


def outside(values: Array, number: Number) -> Array:
    """Where numbers are farther outside the training range than it is wide."""
    if not number.ends:
        return np.zeros(len(values), dtype=bool)
    low, high = number.ends
    # Quarters: twice the difference of two finite numbers may not be one.
    width, x = high / 4 - low / 4, values / 4
    return (x - high / 4 > width) | (low / 4 - x > width)


def one_hot(column: Array, values: Sequence[str]) -> Array:
    """Array of bool, one column for each value."""
    place = {value: i for i, value in enumerate(values)}
    places = np.fromiter((place.get(value, -1) for value in column), np.int64, len(column))
    return places[:, None] == np.arange(len(values))


def as_numbers(table: Table, name: str, column: Array, notation: Notation = PLAIN) -> Array:
    """Column as numbers, in the notation of training or one that leaves no doubt.

    Else a TableError that names the first cell which is none.
    """
    if column.dtype != object:
        if words := infinity(table, column):
            raise TableError(f"column '{printable(name)}': {words}")
        return column
    texts = clean_text(column)
    if not all(text is None or notation.number(text) is not None for text in texts):
        others = notations_of(texts)
        if len(others) == 1:
            return others[0].numbers(texts)
        row = next(i for i, t in enumerate(texts) if t is not None and notation.number(t) is None)
        raise TableError(
            f"column '{printable(name)}', {table.place(row)}: '{printable(texts[row])}' is not a "
            f"number, and the column held numbers in training."
            f"{_comma_hint(texts[row], notation) or EMPTY_IT}"
        )
    return notation.numbers(texts)


def hint_on_case(missing: Iterable[str], names: Iterable[str]) -> str:
    """Advice, where columns that are missing are there in other letter case."""
    there = {name.casefold(): name for name in names}
    other = [there[name.casefold()] for name in missing if name.casefold() in there]
    return f" Names differ only in case: {listed(other)}." if other else ""


def counted_columns(names: Sequence[str]) -> str:
    """Number and names of some columns, for messages."""
    return f"{counted(len(names), 'column')} ({listed(names)})"


def may_be_filled(column: Any, table: Table) -> bool:
    """Whether a column that is not there is one of zeros, left out as SVMlight files do."""
    numbered = isinstance(column, Number) and SPARSE_NAME.fullmatch(column.name)
    return table.fill is not None and bool(numbered)


def _comma_hint(text: str, notation: Notation = PLAIN) -> str:
    """Advice, where a cell is a number with commas or other marks than in training."""
    if not notations_of([text.strip()]):
        return ""
    if notation.decimal == ",":
        return " Write numbers with a decimal comma, as in training, or give --decimal."
    return " Write numbers with a decimal point, and without thousands separators."


def why_text(table: Table, column: Array) -> str:
    """Which cells made a column text that is mostly numbers; nothing for other columns."""
    there = [(row, text) for row, text in enumerate(column) if text is not None]
    texts = list(dict.fromkeys(text for _, text in there))
    notation = _usual_notation(texts[:LOOKED_AT])
    odd = {text for text in texts if notation.number(text) is None}
    others = [(row, text) for row, text in there if text in odd]
    if not others or len(others) > len(there) / 2:
        return ""
    places: dict[str, int] = {}
    for row, text in others:
        places.setdefault(text, row)
    few = len(others) <= max(1, FEW_SHARE * len(there)) or len(places) <= FEW_TEXTS
    most = SHOWN_CELLS if few else 1
    shown = [f"'{printable(t)}' ({table.place(row)})" for t, row in list(places.items())[:most]]
    more = and_more(len(places) - most) if few else ""
    hint = _comma_hint(others[0][1]) if notation.decimal == "." else ""
    return (
        f" {len(there) - len(others):,} of {len(there):,} cells are numbers, but not "
        f"{', '.join(shown)}{more}.{hint or _remedy(len(others)) * few}"
    )


def _usual_notation(texts: Sequence[str]) -> Notation:
    """Notation in which most texts are numbers; the plain one if there are none."""
    found = dict.fromkeys(one for text in texts for one in notations_of([text]))
    return max([PLAIN, *found], key=lambda one: sum(one.number(text) is not None for text in texts))


def _remedy(n_cells: int) -> str:
    cells, them = ("this cell", "it") if n_cells == 1 else ("these cells", "them")
    return (
        f" If the column is numerical, correct {cells}, or empty {them} where the value is not "
        f"known."
    )
