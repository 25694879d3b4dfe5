"""Kinds of columns: which texts are numbers or dates, and what every kind can be asked for."""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bayespoint._support.types import Array
from bayespoint.io.encoder.columns import (
    Category,
    Number,
    all_text,
    category_from,
    check,
    counted_columns,
    hint_on_case,
    number_from,
    number_state,
)
from bayespoint.io.encoder.dates import ORDERS, Date, date_from, orders_of, part_of
from bayespoint.io.tables.notation import DECIMALS, PLAIN, Notation, notations_of
from bayespoint.io.tables.table import Table, TableError, as_text, listed, printable

Column: TypeAlias = Number | Category | Date


class UnusableColumnsError(TableError):
    """Columns that an encoder cannot use.

    Parameters
    ----------
    reasons : dict
        Why not, by the name of each column.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        which = "columns" if len(self.reasons) > 1 else "column"
        lines = [f"  '{printable(name)}': {reason}" for name, reason in self.reasons.items()]
        remedy = f"Change them, or leave them out, such as X.drop(columns={list(self.reasons)})."
        self.listed = f"{len(self.reasons)} {which} cannot be used:\n" + "\n".join(lines)
        super().__init__(f"{self.listed}\n{remedy}")


class Texts(NamedTuple):
    """Columns of text that are something else."""

    numbers: dict[str, Notation]
    dates: dict[str, str]  # orders of year, month and day
    notes: list[str]


def names_of(argument: str, names: Any, table: Table) -> list[str]:
    """Columns that an argument of `fit` names; a TableError if one is not there.

    Parameters
    ----------
    argument : str
        What it is called.
    names : iterable of str
    table : Table

    Returns
    -------
    list of str
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TableError(f"{argument} must be a list of names of columns; got {names!r}.")
    found = [str(name) for name in names]
    for name in found:
        if name not in table.names:
            raise TableError(
                f"{argument}: column '{printable(name)}' is not in X; its columns are "
                f"{listed(table.names)}.{hint_on_case([name], table.names)}"
            )
    return found


def orders_told(dates: Iterable[str], table: Table) -> dict[str, str | None]:
    """Columns that the argument ``dates`` names, with the order of each if it is told."""
    names = names_of("dates", dates, table)
    orders = dates.values() if isinstance(dates, Mapping) else repeat(None)
    return dict(zip(names, orders, strict=False))


def texts_of(
    table: Table, categorical: Container[str], dates: Mapping[str, str | None], decimal: str | None
) -> Texts:
    """Find columns of text that are numbers or dates.

    Parameters
    ----------
    table : Table
    categorical : container of str
        Columns that are neither.
    dates : dict
        Columns that are dates, with the order of each if it is told.
    decimal : {".", ","} or None
        Decimal mark of all columns, if known.

    Returns
    -------
    Texts
    """
    notes: list[str] = []
    text = {
        name: column
        for name, column in zip(table.names, table.columns, strict=True)
        if column.dtype == object and name not in categorical and any(c is not None for c in column)
    }
    orders = _named_orders(table, dates)
    for name, column in text.items():
        if name not in orders and (possible := orders_of(column)):
            orders[name] = possible[0]
            if possible[1:] == ["mdy"]:
                notes.append(_on_order(name, column))
    if orders:
        notes.insert(0, f"dates, read as such: {counted_columns(list(orders))}.")
    found_numbers = {
        name: found
        for name, column in text.items()
        if name not in orders
        and (found := _notations(table, column, DECIMALS if decimal is None else decimal))
    }
    if decimal is None:
        notes += _on_numbers(table, found_numbers)
    return Texts(_settled(found_numbers), orders, notes)


def _notations(table: Table, column: Array, decimals: Sequence[str]) -> list[Notation]:
    """Notations in which a text column is all numbers; the plain one, if that is one of them.

    What is plain in some rows of a file of text is not so in others, else it came as numbers.
    """
    found = notations_of(column, decimals)
    if PLAIN not in found:
        return found
    return [] if _came_as_text(table) else [PLAIN]


def _came_as_text(table: Table) -> bool:
    """Whether the table was a file of text, whose plain numbers are read already."""
    return table.lines is not None


def _named_orders(table: Table, dates: Mapping[str, str | None]) -> dict[str, str]:
    """Orders of columns that were named; a TableError where one does not hold dates."""
    orders: dict[str, str] = {}
    for name, order in dates.items():
        if order is not None and order not in ORDERS:
            raise TableError(f"dates must be in one of the orders {listed(ORDERS)}; got {order!r}.")
        column = table.column(name)
        found = orders_of(column if column.dtype == object else as_text(column), named=True)
        # The column is read in the order told, or as most dates are; what is wrong is told then.
        orders[name] = order or (found[0] if found else _likely(column))
    return orders


def _likely(column: Array) -> str:
    """Order in which most of the first texts are dates."""
    texts = column if column.dtype == object else as_text(column)
    some = [text for text in texts if text is not None][:1000]
    return max(ORDERS, key=lambda order: sum(bool(orders_of([t], True).count(order)) for t in some))


def _on_order(name: str, column: Array) -> str:
    example = next(text for text in column if text is not None)
    return (
        f"column '{printable(name)}': dates such as '{printable(example)}' are read as day, month, "
        f"year; if the month comes first, give --dates '{printable(name)}=mdy' "
        f"(dates={{{printable(name)!r}: 'mdy'}})."
    )


def _settled(found: Mapping[str, list[Notation]]) -> dict[str, Notation]:
    """One notation each: commas that may be either mark are what they are in other columns.

    Where these do not tell, groups of three digits are thousands.
    """
    wanted = "," if _decimals(found) == {","} else "."
    return {
        name: next((n for n in notations if n.decimal == wanted), notations[0])
        for name, notations in found.items()
    }


def _decimals(found: Mapping[str, list[Notation]]) -> set[str]:
    """Decimal marks of columns that leave no doubt; without those that may have none."""
    sure = [notations[0] for notations in found.values() if len(notations) == 1]
    return {one.decimal for one in sure if one._replace(unit="") != PLAIN}


def _on_numbers(table: Table, found: Mapping[str, list[Notation]]) -> list[str]:
    """Notes on decimal commas and thousands separators that were found."""
    notes, numbers = [], _settled(found)
    plain = [name for name, notation in numbers.items() if notation == PLAIN]
    if plain:
        notes.append(f"numbers in text, read as such: {counted_columns(plain)}.")
    commas = [name for name, notation in numbers.items() if notation.decimal == ","]
    if commas:
        notes.append(f"decimal commas, read as such: {counted_columns(commas)}.")
    groups = [name for name, notation in numbers.items() if notation.thousands]
    if groups:
        notes.append(f"thousands separators, read as such: {counted_columns(groups)}.")
    units = [name for name, notation in numbers.items() if notation.unit]
    if units:
        notes.append(f"signs of units, left out of numbers: {counted_columns(units)}.")
    doubtful = [name for name, notations in found.items() if len(notations) > 1]
    if doubtful and len(_decimals(found)) != 1:
        notes.append(
            f"the commas of {listed(doubtful)} may be decimal marks as well; if they are, give "
            f"--decimal , (decimal=',')."
        )
    points = _with_points(table, plain)
    if commas and points:
        notes.append(
            f"points were read as decimal marks in {counted_columns(points)}; if they separate "
            f"thousands, give --decimal , (decimal=',')."
        )
    return notes


def _with_points(table: Table, plain: Iterable[str]) -> list[str]:
    """Columns that had points in their text; numbers of a data frame came as such."""
    if not _came_as_text(table):
        return [name for name in plain if any(t and "." in t for t in table.column(name))]
    return [
        name
        for name, column in zip(table.names, table.columns, strict=True)
        if column.dtype != object and np.any(column != np.floor(column), where=~np.isnan(column))
    ]


def feature_names(column: Column) -> list[str]:
    """Names of the features that a column becomes."""
    if isinstance(column, Number):
        return [column.name]
    if isinstance(column, Date):
        return [number.name for number in column.numbers]
    return [f"{column.name}={value}" for value in column.values]


def feature_groups(column: Column) -> list[str]:
    """Name that the features share which have one width: of the column, or of a part of dates."""
    if isinstance(column, Date):
        return [part_of(number) for number in column.numbers]
    return [column.name for _ in feature_names(column)]


def name_clashes(columns: Iterable[Column]) -> dict[str, str]:
    """Columns with a name that features of another column have, too, and what to say of each."""
    owner: dict[str, str] = {}
    found: dict[str, str] = {}
    for column in columns:
        for name in [*feature_names(column), *feature_groups(column)]:
            other = owner.setdefault(name, column.name)
            if other != column.name:
                why = (
                    f"'{printable(name)}' is also the name of a feature that column "
                    f"'{printable(other)}' becomes. Rename one of the two columns."
                )
                found.setdefault(column.name, why)
    return found


def state_of(column: Column) -> dict[str, Any]:
    """Return what `column_from` needs, of plain types that JSON knows."""
    if isinstance(column, Number):
        return number_state(column)
    if isinstance(column, Date):
        numbers = [number_state(number) for number in column.numbers]
        return {"kind": "date", "name": column.name, "order": column.order, "numbers": numbers}
    return {"kind": "category", "name": column.name, "values": list(column.values)}


def column_from(state: Any, max_categories: int) -> Column:
    """Column of a stored state; a ValueError if it is not valid."""
    check(isinstance(state, dict), "each column must be an object")
    check(isinstance(state.get("name"), str) and state["name"].strip(), "a column needs a name")
    kind = state.get("kind")
    check(all_text([kind]) and kind in ("number", "category", "date"), "kinds must be known")
    if kind == "number":
        return number_from(state)
    return date_from(state) if kind == "date" else category_from(state, max_categories)
