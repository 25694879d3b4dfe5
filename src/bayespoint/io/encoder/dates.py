"""Columns of dates and times: how texts are read, and the numbers that they become."""

import math
import re
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.encoder.columns import Number, check, fit_number, number_from
from bayespoint.io.tables.table import Table, TableError, as_text, printable

# Orders of year, month and day; a time of day may follow, or stand alone.
ORDERS = ("ymd", "dmy", "mdy", "time")
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?"
)
_AFTER = rf"(?:(?:T| +){_CLOCK}(?: ?(?:Z|UTC|[+-]\d{{2}}(?::?\d{{2}})?))?)?"
_YEAR, _MONTH, _DAY = (
    r"(?P<year>\d{4}|\d{2})",
    r"(?P<month>\d{1,2}|[a-z]{3,9})",
    r"(?P<day>\d{1,2})",
)
# Several for an order; the first that fits counts. Texts of eight digits alone are numbers until
# they are named.
_FORMS = {
    "ymd": (
        rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_DAY}{_AFTER}",
        r"(?P<year>(?:1[89]|2[01])\d{2})-(?P<month>\d{2})",
        r"(?P<year>(?:1[89]|2[01])\d{2})(?P<month>\d{2})(?P<day>\d{2})",
    ),
    "dmy": (rf"{_DAY}(?P<mark>[-/. ]){_MONTH}(?P=mark){_YEAR}{_AFTER}",),
    "mdy": (
        rf"(?P<month>\d{{1,2}})(?P<mark>[-/]){_DAY}(?P=mark){_YEAR}{_AFTER}",
        rf"(?P<month>[a-z]{{3,9}}) {_DAY},? (?P<year>\d{{4}}){_AFTER}",
    ),
    "time": (_CLOCK,),
}
_MONTHS = "january february march april may june july august september october november december"
# Two digits from here on are of the last century, as in C and Python.
_CENTURY = 69

# What is made of a date, and the length of its cycle where it has one.
CYCLES = {"": None, "year": None, "month": 12, "weekday": 7, "hour": 24}


class Date(NamedTuple):
    """A column of dates: the order of its texts, and the numbers that are made of them.

    Numbers are called after the column and the part: "sold" is the day as a number, "sold: month
    (sin)" and "sold: month (cos)" are the place in the year.
    """

    name: str
    order: str
    numbers: tuple[Number, ...]


@cache
def _patterns(order: str) -> list[re.Pattern[str]]:
    return [re.compile(form, re.ASCII | re.IGNORECASE) for form in _FORMS[order]]


def parse_date(text: str, order: str) -> datetime | None:
    """Date of a text, or None; time zones are left out, as clocks show the hour that counts.

    Parameters
    ----------
    text : str
    order : {"ymd", "dmy", "mdy", "time"}

    Returns
    -------
    datetime or None

    Examples
    --------
    >>> from bayespoint.io.encoder.dates import parse_date
    >>> print(parse_date("17.5.2023 14:30", "dmy"))
    2023-05-17 14:30:00
    """
    found = next((m for p in _patterns(order) if (m := p.fullmatch(text))), None)
    if found is None:
        return None
    parts = found.groupdict()
    year, month = parts.get("year") or "1970", parts.get("month") or "1"
    number = _month(month) if month.isalpha() else int(month)
    hour = int(parts.get("hour") or 0)
    if parts.get("half"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if parts["half"] in "pP" else 0)
    try:
        return datetime(
            _full_year(year), number, int(parts.get("day") or 1), hour,
            int(parts.get("minute") or 0), int(parts.get("second") or 0),
        )  # fmt: skip
    except ValueError:  # there is no such day
        return None


def _month(name: str) -> int:
    """Number of a month by its English name, or by letters that it begins with; 0 for others."""
    names = _MONTHS.split()
    return next((i for i, one in enumerate(names, 1) if one.startswith(name.lower())), 0)


def _full_year(year: str) -> int:
    if len(year) == 4:
        return int(year)
    return int(year) + (1900 if int(year) >= _CENTURY else 2000)


def orders_of(column: Iterable[str | None], named: bool = False) -> list[str]:
    """Orders in which all texts of a column are dates; two where no day is above 12.

    ``named``: whether somebody said that it holds dates, so that 20230517 is one.
    """
    texts = {text for text in column if text is not None}
    if not texts or (not named and all(text.isdigit() for text in texts)):
        return []
    return [o for o in ORDERS if all(parse_date(text, o) is not None for text in texts)]


def dates_in(table: Table, name: str, column: Array, order: str) -> Array:
    """Column as datetime64, NaT where missing; a TableError that names the first that is none.

    What programs write (2023-05-17) is taken in every order.
    """
    texts = column if column.dtype == object else as_text(column)
    dates = np.full(len(texts), np.datetime64("NaT", "s"))
    for row, text in enumerate(texts):
        if text is None:
            continue
        date = parse_date(text, order) or parse_date(text, "ymd")
        if date is None:
            raise TableError(
                f"column '{printable(name)}', {table.place(row)}: '{printable(text)}' is not a "
                f"date {_described(order)}. Leave the cell empty if the date is not known."
            )
        dates[row] = date
    return dates


def _described(order: str) -> str:
    words = {"y": "year", "m": "month", "d": "day"}
    return "or time" if order == "time" else f"({', '.join(words[letter] for letter in order)})"


def fit_date(name: str, order: str, dates: Array, n_knots: int = 0) -> Date | None:
    """Numbers of dates that vary; None if none does."""
    columns = [(made, values) for made, values in _parts(name, dates) if _varies(values)]
    numbers = [fit_number(made, values, n_knots) for made, values in columns]
    kept = tuple(number for number in numbers if number is not None)
    return Date(name, order, kept) if kept else None


def date_values(column: Date, dates: Array) -> Array:
    """Numbers of dates, (n_rows, n_numbers), not scaled yet; NaN where there is no date."""
    wanted = {number.name for number in column.numbers}
    made = [values for name, values in _parts(column.name, dates) if name in wanted]
    return np.stack(made, axis=1)


def part_of(number: Number) -> str:
    """Name of the part that a number belongs to: of both numbers of a cycle the same."""
    return number.name.removesuffix(" (sin)").removesuffix(" (cos)")


def _varies(values: Array) -> bool:
    # Sine and cosine of a whole turn are 0 and 1 up to rounding.
    return bool(np.nanmax(values) - np.nanmin(values) > 1e-12)


def _parts(name: str, dates: Array) -> list[tuple[str, Array]]:
    """Names and values of all that is made of dates."""
    seconds = dates.astype("datetime64[s]").astype(np.float64)
    days = dates.astype("datetime64[D]").astype(np.float64)
    raw = {
        "": seconds / 86400, "year": dates.astype("datetime64[Y]").astype(np.float64) + 1970,
        "month": dates.astype("datetime64[M]").astype(np.float64), "weekday": days + 3,
        "hour": seconds / 3600,
    }  # fmt: skip
    gone, made = np.isnat(dates), []
    for part, cycle in CYCLES.items():
        values = np.where(gone, np.nan, raw[part])
        called = f"{name}: {part}" if part else name
        if cycle is None:
            made.append((called, values))
            continue
        angle = 2 * math.pi * (values % cycle) / cycle
        made += [(f"{called} (sin)", np.sin(angle)), (f"{called} (cos)", np.cos(angle))]
    return made


def date_from(state: dict[str, Any]) -> Date:
    """Column of a stored state; a ValueError if it is not valid."""
    check(set(state) == {"kind", *Date._fields}, "dates have an order and numbers")
    check(state["order"] in ORDERS, f"the order of dates must be one of {', '.join(ORDERS)}")
    numbers = state["numbers"]
    check(isinstance(numbers, list) and numbers, "dates must have some numbers")
    made = tuple(number_from(number) for number in numbers)
    some = _parts(state["name"], np.zeros(1, dtype="datetime64[s]"))
    names = [name for name, _ in some if name in {number.name for number in made}]
    check([number.name for number in made] == names, "numbers of dates must be called after parts")
    return Date(state["name"], state["order"], made)
