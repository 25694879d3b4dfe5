"""Columns as an encoder knows them: how they are learned, applied, checked and spoken of."""

import math
import re
from typing import NamedTuple

import numpy as np

from bayespoint.io.tables.table import (
    DECIMAL_COMMA,
    THOUSANDS,
    TableError,
    clean_text,
    listed,
    parse_number,
    printable,
)
from bayespoint.io.tables.text import comma_hint

# Columns of SVMlight files, which leave zeros out.
SPARSE_NAME = re.compile(r"x\d+", re.ASCII)
# Standard deviations from the mean beyond which a number counts as being that far: distances stay
# finite when squared, and no kernel tells the difference.
FARTHEST = 1e6


class Number(NamedTuple):
    """A column of numbers: what missing ones are taken as, and its scale."""

    name: str
    median: float
    mean: float
    scale: float


class Category(NamedTuple):
    """A column of text: the values seen in training, in order."""

    name: str
    values: tuple[str, ...]


def check(fine, wanted):
    """Raise a ValueError unless a stored state is fine."""
    if not fine:
        raise ValueError(f"the stored encoder is not sound: {wanted}.")


def all_text(values):
    """Whether this is a list of text."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def column_from(state, max_categories):
    """Column of a stored state; a ValueError if it is not sound."""
    check(isinstance(state, dict), "each column must be an object")
    check(isinstance(state.get("name"), str) and state["name"].strip(), "a column needs a name")
    if state.get("kind") == "number":
        check(set(state) == {"kind", *Number._fields}, "a number has median, mean and scale")
        values = [state[key] for key in ("median", "mean", "scale")]
        check(
            all(type(v) is float and math.isfinite(v) for v in values) and values[2] > 0,
            "median, mean and scale must be finite, and scale above 0",
        )
        return Number(state["name"], *values)
    check(state.get("kind") == "category", "kind must be number or category")
    check(set(state) == {"kind", *Category._fields}, "a category has values")
    values = state["values"]
    check(all_text(values) and 1 <= len(values) <= max_categories, "values must be some texts")
    check(sorted(set(values)) == values, "values must differ and be in order")
    return Category(state["name"], tuple(values))


def is_missing(column):
    """Where a column has nothing."""
    if column.dtype == object:
        return np.fromiter((value is None for value in column), bool, len(column))
    return np.isnan(column)


def fit_number(name, column):
    """Median, mean and scale of a column, safe from overflow; None if it does not vary."""
    low, high = float(np.fmin.reduce(column)), float(np.fmax.reduce(column))  # NaN does not count
    if low == high:
        return None
    largest = max(abs(low), abs(high))
    values = column / largest
    median = float(np.median(values[~np.isnan(values)]))
    values = np.where(np.isnan(values), median, values)
    mean, scale = float(values.mean()), float(values.std()) * largest
    return Number(name, median * largest, mean * largest, scale) if 0 < scale < math.inf else None


def fit_category(name, column, max_categories, why=""):
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
        commas = [value for value in texts if "," in value]
        decimal = [value for value in commas if not THOUSANDS.fullmatch(value)]
        what, remedy = (
            ("a decimal comma", "Write them with a point") if decimal
            else ("thousands separators", "Remove them")
        )  # fmt: skip
        raise TableError(
            f"column '{printable(name)}' holds numbers with {what}, such as "
            f"'{printable((decimal or commas)[0])}'. {remedy}, or give --categorical with the name "
            f"if they are names of categories."
        )
    varies = len(values) > 1 or len(texts) < len(column)
    return Category(name, tuple(values)) if varies else None


def standardised(values, numbers):
    """Missing values filled in, then scaled, in place."""
    median, mean, scale = (np.array([c[i] for c in numbers]) for i in (1, 2, 3))
    gaps = np.isnan(values)
    if gaps.any():
        values = np.where(gaps, median, values)
    with np.errstate(over="ignore", invalid="ignore"):
        # Halves: the difference of two finite numbers may not be one.
        values = 2 * ((values / 2 - mean / 2) / scale)
    return np.clip(values, -FARTHEST, FARTHEST)


def one_hot(column, values):
    """Array of bool, one column for each value."""
    place = {value: i for i, value in enumerate(values)}
    found = np.fromiter((place.get(value, -1) for value in column), np.int64, len(column))
    return found[:, None] == np.arange(len(values))


def as_numbers(table, name, column):
    """Column as numbers; a TableError that names the first cell which is none."""
    if column.dtype != object:
        return column
    values = np.full(len(column), np.nan)
    for row, text in enumerate(clean_text(column)):
        value = math.nan if text is None else parse_number(text)
        if value is None:
            raise TableError(
                f"column '{printable(name)}', {table.place(row)}: '{printable(text)}' is not a "
                f"number, and the column held numbers in training.{comma_hint(text)}"
            )
        values[row] = value
    return values


def note_on_new(column, values):
    """Note about values not seen in training, if there are any."""
    known = set(column.values)
    new = [value for value in values if value is not None and value not in known]
    if not new:
        return []
    return [
        f"column '{printable(column.name)}': {len(new):,} cell{'s' * (len(new) > 1)} with values "
        f"not seen in training ({listed(dict.fromkeys(new), 3)}), taken as none of the known."
    ]


def note_on_far(column, values):
    """Note about numbers very far from those of training, if there are any."""
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(values / 2 - column.mean / 2) / column.scale > FARTHEST / 2
    count = int(far.sum())
    if not count:
        return []
    return [
        f"column '{printable(column.name)}': {count:,} number{'s' * (count > 1)} more than "
        f"{FARTHEST:,.0f} standard deviations from the mean of training, taken as that far."
    ]


def feature_names(column):
    """Names of the features that a column becomes."""
    if isinstance(column, Number):
        return [column.name]
    return [f"{column.name}={value}" for value in column.values]


def hint_on_case(missing, names):
    """Advice, where columns that are missing are there in other letter case."""
    there = {name.casefold(): name for name in names}
    other = [there[name.casefold()] for name in missing if name.casefold() in there]
    return f" Names differ only in case: {listed(other)}." if other else ""


def counted(names):
    """Number and names of some columns, for messages."""
    return f"{len(names):,} column{'s' * (len(names) > 1)} ({listed(names)})"


def may_be_filled(column, table):
    """Whether a column that is not there is one of zeros, left out as SVMlight files do."""
    numbered = isinstance(column, Number) and SPARSE_NAME.fullmatch(column.name)
    return table.fill is not None and bool(numbered)


def _with_comma(text):
    """Whether a text is a number with a decimal comma or with thousands separators."""
    return bool(DECIMAL_COMMA.fullmatch(text) or THOUSANDS.fullmatch(text))


def why_text(table, column):
    """Which cell made a column text that is mostly numbers; nothing for other columns."""
    there = [(row, text) for row, text in enumerate(column) if text is not None]
    others = [(row, text) for row, text in there if parse_number(text) is None]
    if not others or len(others) > len(there) / 2:
        commas = [text for _, text in others if _with_comma(text)]
        if not commas:
            return ""
        decimal = [text for text in commas if not THOUSANDS.fullmatch(text)]
        what = "a decimal comma" if decimal else "thousands separators"
        return f" Cells such as '{printable((decimal or commas)[0])}' have {what}."
    row, text = others[0]
    return (
        f" {len(there) - len(others):,} of {len(there):,} cells are numbers, but not "
        f"'{printable(text)}' ({table.place(row)}).{comma_hint(text)}"
    )
