"""`TableEncoder`: from a table as people have it to the numbers that a classifier takes.

Numbers: what is missing is taken as the median of the training data, then mean 0 and standard
deviation 1; columns with a long tail count by rank. Dates: the day as a number, and year, month,
weekday and hour where they vary. Text: one column of 0 and 1 for each value seen in training; all
are 0 where the value is missing or new.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_choice
from bayespoint._support.types import Array
from bayespoint.io.encoder.columns import (
    Category,
    Number,
    all_text,
    as_numbers,
    check,
    counted_columns,
    fit_category,
    fit_number,
    hint_on_case,
    infinity,
    is_missing,
    may_be_filled,
    one_hot,
    standardised,
    why_text,
)
from bayespoint.io.encoder.dates import Date, date_values, dates_in, fit_date
from bayespoint.io.encoder.kinds import (
    Column,
    Texts,
    UnusableColumnsError,
    column_from,
    feature_groups,
    feature_names,
    name_clashes,
    names_of,
    orders_told,
    state_of,
    texts_of,
)
from bayespoint.io.encoder.remarks import Remarks, remarks_of
from bayespoint.io.encoder.tails import knots_each
from bayespoint.io.tables.frames import as_table, categories_of, names_in
from bayespoint.io.tables.notation import DECIMALS, PLAIN, Notation
from bayespoint.io.tables.table import (
    SHOWN_NAMES,
    Table,
    TableError,
    as_text,
    check_size,
    limits,
    listed,
    numbered_names,
    printable,
)

# Values of a text column: one-hot columns beyond this are rarely more than names of rows.
MAX_CATEGORIES = 50
# The most that may be asked for: each value is a column of the training data.
MOST_CATEGORIES = 10_000
LONG_TAILS = ("rank", "keep")
# What `numbered_names` makes, of numbers that are no longer than a count of columns.
NUMBERED = re.compile(r"x(0|[1-9][0-9]{0,8})")


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as numbers of similar size.

    This is a scikit-learn transformer for a `Table`, a pandas data frame, or an array with missing
    values.

    Parameters
    ----------
    max_categories : int, default=50
        Largest number of different values in a text column; columns with more cannot be used.
    long_tails : {"rank", "keep"}, default="rank"
        What to do with a numerical column that has a long tail: its largest distance from the
        median is more than 10 times the median distance of the values that differ from it.

        - "rank": replace numbers by their ranks among the training values, see Notes.
        - "keep": treat it like any other column.

    Attributes
    ----------
    columns_ : list of Number, Category and Date
        Columns that are used.
    feature_names_ : list of str
        Name of each column of the result.
    feature_groups_ : list of str
        For each column of the result, the column of the table that it comes from, or the part of a
        date ("sold: month"). ``BayesPointClassifier(feature_groups=...)`` takes it, so that the
        columns of one category share a width.
    n_features_in_ : int
        Number of columns given to `fit`; of an encoder from a model file, of those it uses if they
        have names. Not there if an older file does not tell.
    feature_names_in_ : ndarray of str
        Their names. Not there if `fit` was given an array, or names that are no texts.
    notes_ : list of str
        What `fit` left out and why, and which texts it read as numbers or dates.

    Notes
    -----
    A text column is numerical if all its cells are numbers with the same decimal mark, possibly a
    comma, and the same thousands separator (``1.234,5``, ``1,234.5``, ``1 234.5``, ``1'234.5``); a
    percent, degree or currency sign may stand before or after them (``15 %``, ``37,5 °C``,
    ``$1,200``), the same in all cells that have one. It has dates, with or without a time, if all
    its cells are dates: ``2023-05-17T14:30``, ``17.5.2023``, ``05/17/23 2:30 pm``, ``17 May 2023``,
    ``2023-05``, ``14:30``. Time zones are ignored. A date becomes the day as a number (with the
    time as its fraction), the year, and sine and cosine of month, weekday and hour; parts that do
    not vary in training are left out.

    A number x becomes (f(x) - mean) / (standard deviation), both over the training rows, with
    f(x) = x for most columns. For a column with a long tail, up to 65 of the n training values,
    evenly spaced in their order, are the knots k_1 < ... < k_m, with places::

        p_j = (number below k_j + number up to k_j) / (2 n)
        f(x) = p_j + (x - k_j) (p_{j+1} - p_j) / (k_{j+1} - k_j)    from k_j to k_{j+1}
        f(x) = p_m + (x - k_m) (p_m - p_1) / (k_m - k_1)            beyond k_m, and so before k_1

    f is increasing and continuous, so outliers stay outliers. It does not depend on the unit and
    the origin of the column. With more than 4,615 columns each has fewer knots, 300,000 in total.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.io.encoder import TableEncoder
    >>> from bayespoint.io.tables import Table
    >>> table = Table(("size", "colour"), (np.array([1.0, 3.0, np.nan]),
    ...                                    np.array(["red", "blue", "red"], dtype=object)))
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['size', 'colour=blue', 'colour=red']
    >>> encoder.feature_groups_
    ['size', 'colour', 'colour']
    >>> encoder.transform(table).round(2)
    array([[-1.22,  0.  ,  1.  ],
           [ 1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ]])

    In a pipeline; the groups, which are known once the encoder is fitted, give each word one width.

    >>> from sklearn.pipeline import make_pipeline
    >>> from bayespoint import BayesPointClassifier
    >>> clf = BayesPointClassifier(feature_groups=encoder.feature_groups_, random_state=0)
    >>> make_pipeline(encoder, clf).fit(table, [0, 1, 0]).predict(table)
    array([0, 1, 0])
    """

    def __init__(self, max_categories: int = MAX_CATEGORIES, long_tails: str = "rank") -> None:
        self.max_categories = max_categories
        self.long_tails = long_tails

    def _check(self) -> None:
        most = self.max_categories
        whole = isinstance(most, int | np.integer) and not isinstance(most, bool)
        if not whole or not 2 <= most <= MOST_CATEGORIES:
            raise ValueError(
                f"max_categories must be a whole number from 2 to {MOST_CATEGORIES:,}; got "
                f"{most!r}."
            )
        check_choice("long_tails", self.long_tails, LONG_TAILS)

    # ------------------------------------------------------------------ fitting

    _names: tuple[str, ...] = ()  # of all columns given; older encoders have none

    def fit(
        self, X: Any, y: Any = None, *, categorical: Iterable[str] = (),  # noqa: ARG002
        dates: Iterable[str] = (), decimal: str | None = None,
    ) -> Self:  # fmt: skip
        """Learn medians, scales and categories.

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n_rows, n_columns)
            Training data without the target.
        y : ignored
            Accepted for pipelines.
        categorical : iterable of str
            Columns that are categories even if all their values are numbers, or look like dates.
            Those of a data frame with the dtype "category" are, too, unless ``dates`` names them.
        dates : iterable of str, or dict
            Columns that hold dates, also as numbers (20230517) or where not all cells look like
            one, which then is an error. A dict gives the order of each: "ymd", "dmy" or "mdy".
        decimal : {".", ","}, optional
            Decimal mark of numbers in texts; by default that of all cells of a column.

        Returns
        -------
        TableEncoder
            This object.

        Raises
        ------
        UnusableColumnsError
            Naming all columns that are neither numbers nor dates, and have too many different
            values for categories; columns with an infinite number; and columns with the name of a
            feature of another one.
        ValueError
            If ``categorical`` or ``dates`` names a column that is not there.
        """
        self._check()
        if decimal is not None:
            check_choice("decimal", decimal, DECIMALS)
        table = as_table(X)
        categories = {*names_of("categorical", categorical, table), *categories_of(X)}
        texts = texts_of(table, categories, orders_told(dates, table), decimal)
        self.notes_: list[str] = list(texts.notes)
        used: list[Column] = []
        missing, constant, unusable = [], [], {}
        for name, column in zip(table.names, table.columns, strict=True):
            if is_missing(column).all():
                missing.append(name)
                continue
            try:
                fitted = self._fitted(table, name, column, texts, name in categories)
            except TableError as error:
                unusable[name] = str(error)
                continue
            if fitted is None:
                constant.append(name)
            else:
                used.append(fitted)
        unusable |= name_clashes(used)
        if unusable:
            raise UnusableColumnsError(unusable)
        self._note_left_out(missing, constant)
        if not used:
            raise TableError(
                "no column is left to learn from: all but the target are empty or constant."
            )
        if decimal == ",":  # new files have it, too
            commas = Notation(",", ".")
            used = [
                c._replace(notation=commas) if isinstance(c, Number) and c.notation == PLAIN else c
                for c in used
            ]
        self._set(used)
        self._set_names(table.names, names_in(X))
        return self

    def _fitted(
        self, table: Table, name: str, column: Array, texts: Texts, categorical: bool
    ) -> Column | None:
        """Learn a column; None if it does not vary, a TableError if it is of no use."""
        n_knots = knots_each(len(table.names)) if self.long_tails == "rank" else 0
        if name in texts.dates:
            order = texts.dates[name]
            return fit_date(name, order, dates_in(table, name, column, order), n_knots)
        if name in texts.numbers:
            notation = texts.numbers[name]
            number = fit_number(name, notation.numbers(column), n_knots)
            return None if number is None else number._replace(notation=notation)
        if categorical and column.dtype != object:
            column = as_text(column)
        if column.dtype != object:
            if words := infinity(table, column):
                raise TableError(words)
            return fit_number(name, column, n_knots)
        why = "" if categorical else why_text(table, column)
        category = fit_category(name, column, self.max_categories, why)
        if why:
            self.notes_.append(f"column '{printable(name)}' is taken as categories.{why}")
        return category

    def _note_left_out(self, missing: list[str], constant: list[str]) -> None:
        whats = (("holds nothing", "hold nothing"), ("has one value only", "have one value only"))
        for names, (it, they) in zip((missing, constant), whats, strict=True):
            if names:
                what = f"they {they}" if names[1:] else f"it {it}"
                self.notes_.append(f"left out, as {what}: {counted_columns(names)}.")

    def _set(self, columns: list[Column]) -> None:
        self.columns_ = columns
        self.feature_names_ = [name for column in columns for name in feature_names(column)]
        self.feature_groups_ = [name for column in columns for name in feature_groups(column)]

    def _set_names(self, given: Sequence[str], names: Array | None) -> None:
        """Remember the columns that were given, as scikit-learn does, and as the table had them."""
        self.n_features_in_ = len(given)
        self._names = tuple(given)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if names is not None:
            self.feature_names_in_ = names

    # ------------------------------------------------------------------ using

    @property
    def text_columns(self) -> list[str]:
        """Names of columns that must be read as text."""
        return [
            column.name
            for column in self.columns_
            if not isinstance(column, Number) or column.notation != PLAIN
        ]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the name of each column of the result.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns given to `fit`; they must be ``feature_names_in_``, if that is
            there.

        Returns
        -------
        ndarray of str
            ``feature_names_``, or the same with the names given.
        """
        check_is_fitted(self, "columns_")
        if input_features is None:
            return np.array(self.feature_names_, dtype=object)
        given = [str(name) for name in input_features]
        known = getattr(self, "feature_names_in_", None)
        if known is not None:
            if given != list(known):
                raise ValueError("input_features is not equal to feature_names_in_.")
            return np.array(self.feature_names_, dtype=object)
        n_columns = getattr(self, "n_features_in_", len(given))
        if len(given) != n_columns:
            raise ValueError(
                f"input_features should have length equal to number of features "
                f"({n_columns}), got {len(given)}."
            )
        # An older encoder has not kept names: those of arrays are numbers of columns.
        new = dict(zip(self._names or numbered_names(len(given)), given, strict=True))
        without = [column.name for column in self.columns_ if column.name not in new]
        if without:
            raise ValueError(
                f"input_features has no name for {counted_columns(without)} of the training data; "
                f"got {len(given)} names. Give one for every column, or fit again."
            )
        return np.array(
            [
                new[column.name] + name.removeprefix(column.name)
                for column in self.columns_
                for name in feature_names(column)
            ],
            dtype=object,
        )

    def _asked(self, X: Any) -> Table:
        """Return the table; of an array, columns are known by their places alone."""
        check_is_fitted(self, "columns_")
        table = as_table(X)
        plain = not hasattr(X, "columns") and not hasattr(self, "feature_names_in_")
        n_columns = getattr(self, "n_features_in_", len(table.names))
        if plain and len(table.names) != n_columns:
            raise TableError(
                f"X has {len(table.names)} features, but TableEncoder is expecting "
                f"{n_columns} features as input."
            )
        return table

    def encode(self, table: Any) -> tuple[Array, list[str]]:
        """Return the numbers, (n_rows, n_features), and notes about what was ignored or filled in.

        Parameters
        ----------
        table : Table, DataFrame or array-like of shape (n_rows, n_columns)
            Columns in any order; others than those of training are ignored.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
        notes : list of str
        """
        table = self._asked(table)
        return self.transform(table), self.notes_on(table)

    def transform(self, X: Any) -> Array:
        """Return the numbers alone, (n_rows, n_features).

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n_rows, n_columns)
            As for `encode`.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
        """
        table = self._asked(X)
        given = self._given(table)
        with limits(table.trusted):
            check_size(table.n_rows, len(self.feature_names_))
        encoded = np.empty((table.n_rows, len(self.feature_names_)))
        numbers: list[Number] = []
        values: list[Array] = []
        at: list[int] = []
        start = 0
        for column in self.columns_:
            stop, found = start + len(feature_names(column)), given[column.name]
            if isinstance(column, Category):
                encoded[:, start:stop] = one_hot(found, column.values)
                start = stop
                continue
            at += range(start, stop)
            start = stop
            if isinstance(column, Date):
                numbers += column.numbers
                values += list(date_values(column, found).T)
            else:
                numbers.append(column)
                values.append(found)
        if numbers:
            encoded[:, at] = standardised(np.stack(values, axis=1), numbers)
        return encoded

    def _given(self, table: Table) -> dict[str, Array]:
        """Columns of the table by name, of the kind they had in training."""
        there = dict(zip(table.names, table.columns, strict=True))
        absent = [column for column in self.columns_ if column.name not in there]
        filled = {column.name for column in absent if may_be_filled(column, table)}
        missing = [column.name for column in absent if column.name not in filled]
        if missing:
            raise TableError(
                f"{counted_columns(missing)} of the training data "
                f"{'are' if missing[1:] else 'is'} not there. The data have "
                f"{listed(table.names)}.{hint_on_case(missing, table.names)}"
            )
        for name in filled:
            there[name] = np.full(table.n_rows, table.fill)
        given, wrong = {}, []
        for column in self.columns_:
            try:
                given[column.name] = _as_in_training(table, column, there[column.name])
            except TableError as error:
                wrong.append(str(error))
        if wrong:
            more = len(wrong) - SHOWN_NAMES
            raise TableError(
                " ".join(wrong[:SHOWN_NAMES]) + (f" So are {more:,} more columns." * (more > 0))
            )
        return given

    def notes_on(self, table: Table) -> list[str]:
        """Return what there is to say about a table: ignored columns, missing and new values.

        Parameters
        ----------
        table : Table
            As for `encode`.

        Returns
        -------
        list of str
        """
        return self.remarks_on(table).texts()

    def remarks_on(self, table: Table) -> Remarks:
        """Return what `notes_on` says, as numbers that can be added.

        Parameters
        ----------
        table : Table
            As for `encode`.

        Returns
        -------
        Remarks
        """
        return remarks_of(self.columns_, self._given(table), table.names)

    def __sklearn_tags__(self) -> Any:
        """Say what the encoder takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # ------------------------------------------------------------------ storing

    def to_state(self) -> dict[str, Any]:
        """Return all that `from_state` needs, of plain types that JSON knows.

        Returns
        -------
        dict
        """
        state = {
            "max_categories": int(self.max_categories),
            "long_tails": self.long_tails,
            "columns": [state_of(column) for column in self.columns_],
            "notes": list(self.notes_),
        }
        if hasattr(self, "feature_names_in_"):
            state["unnamed"] = []
        elif self._names:  # what the table called columns without a name
            state["unnamed"] = list(self._names)
        return state

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Return an encoder from what `to_state` gave; a ValueError for anything else.

        Parameters
        ----------
        state : dict

        Returns
        -------
        TableEncoder
        """
        check(
            isinstance(state, dict)
            and set(state) - {"unnamed"} == {"max_categories", "long_tails", "columns", "notes"},
            "state must have max_categories, long_tails, columns and notes",
        )
        encoder = cls(state["max_categories"], state["long_tails"])
        encoder._check()
        columns, notes = state["columns"], state["notes"]
        check(isinstance(columns, list) and columns, "columns must be a list that is not empty")
        check(all_text(notes), "notes must be a list of text")
        used = [column_from(column, encoder.max_categories) for column in columns]
        names = [column.name for column in used]
        check(len(set(names)) == len(names), "names of columns must differ")
        numbers = [n for c in used for n in (c.numbers if isinstance(c, Date) else [c])]
        ranked = any(isinstance(number, Number) and number.knots for number in numbers)
        check(encoder.long_tails == "rank" or not ranked, "long_tails='keep' has no knots")
        encoder._set(used)
        unnamed = state.get("unnamed", [])
        check(all_text(unnamed), "unnamed must be a list of text")
        if unnamed:
            whole = len(set(unnamed)) == len(unnamed) and set(names) <= set(unnamed)
            check(whole, "unnamed must have each column once")
            encoder._set_names(unnamed, None)
        elif "unnamed" in state or not _are_numbered(names):
            encoder._set_names(names, np.array(names, dtype=object))
        # Else it is one of an array, of which older files know no more.
        encoder.notes_ = list(notes)
        return encoder


def _are_numbered(names: Sequence[str]) -> bool:
    """Whether names are some of those that columns of an array have, in order."""
    numbers = [int(name[1:]) for name in names if NUMBERED.fullmatch(name)]
    return len(numbers) == len(names) and numbers == sorted(numbers)


def _as_in_training(table: Table, column: Column, values: Array) -> Array:
    """Values of a column as numbers, datetime64 or text, or a TableError."""
    if isinstance(column, Number):
        return as_numbers(table, column.name, values, column.notation)
    if isinstance(column, Date):
        return dates_in(table, column.name, values, column.order)
    return values if values.dtype == object else as_text(values)
