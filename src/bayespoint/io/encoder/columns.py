"""Columns as an encoder knows them: how they are learned, applied, checked and spoken of."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.encoder.tails import N_KNOTS, are_sound, has_long_tail, knots_of, placed
from bayespoint.io.tables.table import (
    DECIMAL_COMMA,
    THOUSANDS,
    Table,
    TableError,
    clean_text,
    counted,
    listed,
    parse_number,
    printable,
)

# Columns of SVMlight files, which leave zeros out.
SPARSE_NAME = re.compile(r"x\d+", re.ASCII)
# Standard deviations from the mean beyond which a number counts as being that far: distances stay
# finite when squared, and no kernel tells the difference.
FARTHEST = 1e6

DECIMAL = "a decimal comma"


class Number(NamedTuple):
    """A column of numbers: what missing ones are taken as, and its scale.

    Where it has a long tail, mean and scale are those of the places; else there are no knots.
    """

    name: str
    median: float
    mean: float
    scale: float
    knots: tuple[float, ...] = ()
    places: tuple[float, ...] = ()


class Category(NamedTuple):
    """A column of text: the values seen in training, in order."""

    name: str
    values: tuple[str, ...]


def check(sound: object, wanted: str) -> None:
    """Raise a ValueError unless a stored state is sound."""
    if not sound:
        raise ValueError(f"the stored encoder is not sound: {wanted}.")


def all_text(values: object) -> bool:
    """Whether this is a list of text."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def state_of(column: Number | Category) -> dict[str, Any]:
    """Return what `column_from` needs, of plain types that JSON knows."""
    kind = "number" if isinstance(column, Number) else "category"
    values = column._asdict().items()
    return {"kind": kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in values}


def column_from(state: Any, max_categories: int) -> Number | Category:
    """Column of a stored state; a ValueError if it is not sound."""
    check(isinstance(state, dict), "each column must be an object")
    check(isinstance(state.get("name"), str) and state["name"].strip(), "a column needs a name")
    if state.get("kind") == "number":
        return _number_from(state)
    check(state.get("kind") == "category", "kind must be number or category")
    check(set(state) == {"kind", *Category._fields}, "a category has values")
    values = state["values"]
    check(all_text(values) and 1 <= len(values) <= max_categories, "values must be some texts")
    check(sorted(set(values)) == values, "values must differ and be in order")
    return Category(state["name"], tuple(values))


def _number_from(state: dict[str, Any]) -> Number:
    check(
        set(state) == {"kind", *Number._fields},
        "a number has median, mean, scale, knots and places",
    )
    median, mean, scale = values = [state[key] for key in ("median", "mean", "scale")]
    check(
        all(type(v) is float and math.isfinite(v) for v in values) and scale > 0,
        "median, mean and scale must be finite, and scale above 0",
    )
    knots, places = state["knots"], state["places"]
    check(
        are_sound(knots, places),
        f"knots and places must be as many, none or 2 to {N_KNOTS}, and rise, the latter "
        f"within [0, 1]",
    )
    return Number(state["name"], median, mean, scale, tuple(knots), tuple(places))


def is_missing(column: Array) -> Array:
    """Where a column has nothing."""
    if column.dtype == object:
        return np.fromiter((value is None for value in column), bool, len(column))
    return np.isnan(column)


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
        return Number(name, median, float(values.mean()), float(values.std()), knots, places)
    largest = max(abs(low), abs(high))
    values = values / largest
    mean, scale = float(values.mean()) * largest, float(values.std()) * largest
    return Number(name, median, mean, scale) if 0 < scale < math.inf else None


def fit_category(name: str, column: Array, max_categories: int, why: str = "") -> Category | None:
    """Values of a text column; None if there is but one. ``why`` is what `why_text` says."""
    texts = [value for value in column if value is not None]
    values = sorted(set(texts))
    if len(values) > max_categories:
        raise TableError(
            f"column '{printable(name)}' is text with {len(values):,} different values; at most "
            f"{max_categories} are taken as categories.{why} Leave it out with --drop, or raise "
            f"--max-categories."
        )
    if why and all(_with_comma(value) or parse_number(value) is not None for value in values):
        what, example = _use_of_commas([value for value in texts if "," in value])
        remedy = "Write them with a point" if what == DECIMAL else "Remove them"
        raise TableError(
            f"column '{printable(name)}' holds numbers with {what}, such as {example}. {remedy}, "
            f"or give --categorical with the name if they are names of categories."
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


def one_hot(column: Array, values: Sequence[str]) -> Array:
    """Array of bool, one column for each value."""
    place = {value: i for i, value in enumerate(values)}
    places = np.fromiter((place.get(value, -1) for value in column), np.int64, len(column))
    return places[:, None] == np.arange(len(values))


def as_numbers(table: Table, name: str, column: Array) -> Array:
    """Column as numbers; a TableError that names the first cell which is none."""
    if column.dtype != object:
        return column
    values = np.full(len(column), np.nan)
    for row, text in enumerate(clean_text(column)):
        value = math.nan if text is None else parse_number(text)
        if value is None:
            raise TableError(
                f"column '{printable(name)}', {table.place(row)}: '{printable(text)}' is not a "
                f"number, and the column held numbers in training.{_comma_hint(text)}"
            )
        values[row] = value
    return values


def feature_names(column: Number | Category) -> list[str]:
    """Names of the features that a column becomes."""
    if isinstance(column, Number):
        return [column.name]
    return [f"{column.name}={value}" for value in column.values]


def hint_on_case(missing: Iterable[str], names: Iterable[str]) -> str:
    """Advice, where columns that are missing are there in other letter case."""
    there = {name.casefold(): name for name in names}
    other = [there[name.casefold()] for name in missing if name.casefold() in there]
    return f" Names differ only in case: {listed(other)}." if other else ""


def counted_columns(names: Sequence[str]) -> str:
    """Number and names of some columns, for messages."""
    return f"{counted(len(names), 'column')} ({listed(names)})"


def may_be_filled(column: Number | Category, table: Table) -> bool:
    """Whether a column that is not there is one of zeros, left out as SVMlight files do."""
    numbered = isinstance(column, Number) and SPARSE_NAME.fullmatch(column.name)
    return table.fill is not None and bool(numbered)


def _with_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma or with thousands separators."""
    return bool(DECIMAL_COMMA.fullmatch(text) or THOUSANDS.fullmatch(text))


def _comma_hint(text: str) -> str:
    """Advice, where a cell looks like a number with commas."""
    if THOUSANDS.fullmatch(text.strip()):
        return " Write numbers without thousands separators."
    return " Write numbers with a decimal point." if DECIMAL_COMMA.fullmatch(text.strip()) else ""


def _use_of_commas(texts: Sequence[str]) -> tuple[str, str]:
    """What the commas of some numbers are, and the first text that shows it, quoted."""
    decimal = [text for text in texts if not THOUSANDS.fullmatch(text)]
    what = DECIMAL if decimal else "thousands separators"
    return what, f"'{printable((decimal or texts)[0])}'"


def why_text(table: Table, column: Array) -> str:
    """Which cell made a column text that is mostly numbers; nothing for other columns."""
    there = [(row, text) for row, text in enumerate(column) if text is not None]
    others = [(row, text) for row, text in there if parse_number(text) is None]
    if not others or len(others) > len(there) / 2:
        commas = [text for _, text in others if _with_comma(text)]
        if not commas:
            return ""
        what, example = _use_of_commas(commas)
        return f" Cells such as {example} have {what}."
    row, text = others[0]
    return (
        f" {len(there) - len(others):,} of {len(there):,} cells are numbers, but not "
        f"'{printable(text)}' ({table.place(row)}).{_comma_hint(text)}"
    )
