"""Data frames and arrays as tables."""

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from bayespoint._support.checks import is_missing
from bayespoint._support.types import Array
from bayespoint.io.tables.table import (
    Table,
    TableError,
    as_text,
    checked,
    clean_text,
    limits,
    numbered_names,
)


def as_table(data: Any) -> Table:
    """Return a table as it is, a pandas data frame or an array of two dimensions as a table.

    Parameters
    ----------
    data : Table, DataFrame or array-like of shape (n_rows, n_columns)
        Columns of an array are called x0, x1, ….

    Returns
    -------
    Table
    """
    if isinstance(data, Table):
        return data
    if hasattr(data, "iloc") and getattr(data, "ndim", 0) == 2:
        series = [data.iloc[:, i] for i in range(data.shape[1])]
        columns = [_column(one.to_numpy(), one.isna().to_numpy()) for one in series]
        return _checked(tuple(map(str, data.columns)), columns)
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(object), None)  # what is masked is missing
    array = np.asarray(data, dtype=None if hasattr(data, "dtype") else object)  # words stay words
    if array.ndim != 2:
        raise TableError(
            f"a Table, a data frame or an array of two dimensions is needed; got "
            f"{type(data).__name__} of {array.ndim}."
        )
    columns = [_column(column, _missing(column)) for column in array.T]
    return _checked(numbered_names(len(columns)), columns)


def names_in(data: Any) -> Array | None:
    """Names of the columns of a table or a data frame, if it has names and all of them are text.

    Parameters
    ----------
    data : Table, DataFrame or array-like

    Returns
    -------
    ndarray of str, shape (n_columns,), or None
    """
    frame = hasattr(data, "iloc") and getattr(data, "ndim", 0) == 2
    names = data.names if isinstance(data, Table) else data.columns if frame else ()
    if not len(names) or not all(isinstance(name, str) for name in names):
        return None
    return np.array(names, dtype=object)


def categories_of(data: Any) -> list[str]:
    """Names of the columns of a data frame whose type says that they are categories."""
    if isinstance(data, Table) or not hasattr(data, "iloc"):
        return []
    return [str(name) for name, dtype in data.dtypes.items() if dtype == "category"]


def _checked(names: tuple[str, ...], columns: list[Array]) -> Table:
    with limits(trusted=True):  # which are for files: these are in memory
        return checked(Table(names, tuple(columns), first=0))


def _missing(column: Array) -> Array:
    if column.dtype.kind in "fmM":
        return np.isnan(column)
    if column.dtype.kind != "O":
        return np.zeros(len(column), dtype=bool)
    return np.array([is_missing(value) for value in column], dtype=bool)


def _column(values: Array, missing: Array) -> Array:
    """Numbers, NaN where missing, if all that is there are numbers or durations; else text."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s")
    if values.dtype.kind == "M":
        values = values.astype("datetime64[s]")  # as texts, hours alone have no minutes
    there = values[~missing]
    numeric = Real | np.bool_ | Decimal
    if values.dtype.kind == "O" and all(isinstance(value, numeric) for value in there):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = there.astype(np.float64)
        return numbers
    return clean_text(
        [None if gap else _word(value) for value, gap in zip(values, missing, strict=True)]
    )


def _word(value: Any) -> str:
    """A value among words: numbers as they are written where a column has nothing else."""
    if isinstance(value, Real | np.bool_):
        return as_text(np.array([float(value)]))[0]
    return str(value)
