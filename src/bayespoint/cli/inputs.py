"""Files that commands read: tables, targets and models."""

import difflib
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bayespoint import EmptyVersionSpaceError, PredictionSetClassifier
from bayespoint._support.types import Array
from bayespoint.cli.fitted import base_of
from bayespoint.cli.options import Columns, FileFormat
from bayespoint.cli.output import UsageError, again, shown_name, shown_path
from bayespoint.io.encoder import Number, TableEncoder, UnusableColumnsError
from bayespoint.io.model_file import Model, ModelFileError, load
from bayespoint.io.tables import (
    PathName,
    Table,
    TableError,
    counted,
    parse_number,
    printable,
    read_table,
)
from bayespoint.io.tables.table import MissingPackageError, and_more, listed

# One machine is trained for each class, and each needs rows: more are names, not classes.
MAX_CLASSES = 100
# Characters of a label: arrays of labels have room for the longest in every row.
MAX_LABEL = 200
# A target of numbers with more different values than this, and than a tenth of the rows, is a
# quantity and not a class.
MANY_NUMBERS, MANY_SHARE = 20, 0.1
# Rows from which on numbers that increase from row to row are taken for numbers of the rows.
COUNTED_ROWS = 10
# Names of columns that number the rows.
IDENTIFIERS = ("id", "index", "key", "nr", "no", "number", "row", "rownum", "uid", "uuid")
# Places named in a message.
SHOWN_PLACES = 5


def load_table(
    path: PathName, file_format: FileFormat, *, text: Iterable[str] = (), drop: Iterable[str] = ()
) -> Table:
    """Table of a file; errors name the file.

    Parameters
    ----------
    path : path
        "-" is standard input.
    file_format : FileFormat
    text : iterable of str
        As for `read_table`.
    drop : iterable of str
        Columns left out; a UsageError if one is not there.

    Returns
    -------
    Table
    """
    with reading(path):
        table = read_table(
            path, format=file_format.format, text=text, header=not file_format.no_header,
            decimal=file_format.decimal or ".", max_bytes=file_format.max_bytes,
            trusted=file_format.trusted,
        )  # fmt: skip
    return without(table, drop)


@contextmanager
def reading(path: PathName) -> Iterator[None]:
    """Let errors of reading name the file."""
    if str(path) != "-" and Path(path).is_dir():
        raise UsageError(f"{shown_path(path)} is a folder; name a file of data.")
    try:
        yield
    except MissingPackageError as error:
        raise UsageError(f"{shown_name(path)}: {error}") from None
    except TableError as error:
        raise TableError(f"{shown_name(path)}: {error}") from None


def at_places(error: Exception, table: Table) -> str:
    """Message of the library that names training rows, by their lines instead."""
    if not isinstance(error, EmptyVersionSpaceError):
        return str(error)
    n_more = max(0, len(error.points) - SHOWN_PLACES)
    places = ", ".join(table.place(row) for row in error.points[:SHOWN_PLACES].tolist())
    return str(error).replace(error.shown, f"of {places}{and_more(n_more)}", 1)


def without(table: Table, drop: Iterable[str]) -> Table:
    """Table without what --drop names; a UsageError if a column is not there."""
    for name in drop:
        check_column(table, name, "--drop")
    return table.without(drop)


def check_column(table: Table, name: str, option: str) -> None:
    """Raise a UsageError if an option names a column that is not there."""
    if name not in table.names:
        raise UsageError(
            f"{option} '{printable(name)}' is not a column; there are {listed(table.names)}."
            f"{_hint_on_column(table.names, name)}"
        )


def _hint_on_column(names: Sequence[str], name: str) -> str:
    if len(names) == 1 and len(names[0].split()) > 1:
        return " Columns must be separated by , ; tab or |, and the first line has none of them."
    same = [other for other in names if other.casefold() == name.casefold()]
    if same:
        return f" '{printable(same[0])}' differs only in case."
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f" Do you mean '{printable(near[0])}'?"
    if any(parse_number(other) is not None for other in names):
        return (
            " If the first line holds data and no names, give --no-header: columns are x0, x1, …."
        )
    return ""


def read_examples(
    file: PathName, target: str, columns: Columns, file_format: FileFormat
) -> tuple[Table, Array]:
    """Features and labels of a file, for the commands that train.

    Parameters
    ----------
    file : path
    target : str
    columns : Columns
    file_format : FileFormat

    Returns
    -------
    features : Table
    labels : ndarray of str
    """
    text, drop = [target, *columns.text], columns.drop or []
    return examples_of(load_table(file, file_format, text=text, drop=drop), target, columns)


def examples_of(table: Table, target: str, columns: Columns) -> tuple[Table, Array]:
    """Features and labels of a table, without the columns that were dropped."""
    if target in (columns.drop or []):
        raise UsageError(f"--drop names the target '{printable(target)}'.")
    for option, names in (("--categorical", columns.categories), ("--dates", columns.orders)):
        for name in names:
            check_column(table, name, option)
            if name == target:
                raise UsageError(f"{option} names the target '{printable(target)}'.")
    return split_target(table, target)


def fitted_encoder(features: Table, columns: Columns, file_format: FileFormat) -> TableEncoder:
    """Encoder of a table; a TableError with a command to paste for columns that are of no use.

    Parameters
    ----------
    features : Table
    columns : Columns
    file_format : FileFormat

    Returns
    -------
    TableEncoder
    """
    try:
        return TableEncoder(columns.max_categories).fit(
            features, categorical=columns.categories, dates=columns.orders,
            decimal=file_format.decimal,
        )  # fmt: skip
    except UnusableColumnsError as error:
        without = " ".join(f"--drop {shlex.quote(printable(name))}" for name in error.reasons)
        listed_ = error.listed.replace("max_categories=", "--max-categories ")
        raise TableError(
            f"{listed_}\nChange them, or leave them out:\n  {again()} {without}"
        ) from None


def notes_on_examples(features: Table, counts: Mapping[str, int]) -> list[str]:
    """Notes on columns that seem to number the rows, and on classes of one row.

    Parameters
    ----------
    features : Table
    counts : dict
        Rows of each class.

    Returns
    -------
    list of str
    """
    notes = [
        f"'{printable(name)}' is different in every row and may be an identifier; "
        f"--drop {shlex.quote(printable(name))} leaves it out."
        for name, column in zip(features.names, features.columns, strict=True)
        if _numbers_rows(name, column)
    ]
    single = [name for name, count in counts.items() if count == 1]
    if single:
        which = f"class{'es' * (len(single) > 1)} {listed(single)}"
        has = "have" if len(single) > 1 else "has"
        notes.append(f"{which} {has} one row only, too few to learn from.")
    return notes


def _numbers_rows(name: str, column: Array) -> bool:
    """Whether a column of whole numbers, all different, has such a name or counts up."""
    if column.dtype == object or len(column) < 2 or not np.all(column == np.floor(column)):
        return False  # NaN, too
    if len(column) >= COUNTED_ROWS and np.all(np.diff(column) > 0):
        return True
    words = name.casefold().replace("_", " ").replace("-", " ").replace(".", " ").split()
    named = bool(words) and (words[-1] in IDENTIFIERS or words[0] == "id" or name.endswith("ID"))
    return named and len(np.unique(column)) == len(column)


def split_target(table: Table, target: str) -> tuple[Table, Array]:
    """Features and labels of a table.

    Parameters
    ----------
    table : Table
        Read with the target as text.
    target : str
        Name of its column.

    Returns
    -------
    features : Table
    labels : ndarray of str
    """
    check_column(table, target, "--target")
    column = table.column(target)
    name = f"target '{printable(target)}'"
    missing = [row for row, value in enumerate(column) if value is None]
    if missing:
        places = ", ".join(table.place(row) for row in missing[:SHOWN_PLACES])
        raise TableError(
            f"{name} is missing in {counted(len(missing), 'row')} ({places}"
            f"{', …' * (len(missing) > SHOWN_PLACES)}): fill it in or take these rows out."
        )
    long = next((row for row, value in enumerate(column) if len(value) > MAX_LABEL), None)
    if long is not None:
        raise TableError(
            f"{name}, {table.place(long)}: a label of {len(column[long]):,} characters; at most "
            f"{MAX_LABEL} are taken. Is this the right column?"
        )
    return table.without([target]), np.array(column.tolist(), dtype=str)


def check_classes(labels: Array, target: str) -> dict[str, int]:
    """Return the number of rows of each class; a TableError unless they can be learned."""
    return check_counts(Counter(labels.tolist()), target)


def check_counts(found: Mapping[str, int], target: str) -> dict[str, int]:
    """Return the number of rows of each class in order; a TableError as for `check_classes`."""
    counts = dict(sorted(found.items()))
    n_rows = sum(counts.values())
    name = f"target '{printable(target)}'"
    if len(counts) < 2:
        raise TableError(
            f"{name} has only one value ({listed(counts)}): a classifier needs two or more."
        )
    numbers = all(parse_number(label) is not None for label in counts)
    if numbers and len(counts) > max(MANY_NUMBERS, MANY_SHARE * n_rows):
        raise TableError(
            f"{name} has {len(counts):,} different numbers in {n_rows:,} rows: a quantity, "
            f"not classes. Make classes of it (such as low and high), or use regression."
        )
    if len(counts) > MAX_CLASSES:
        raise TableError(
            f"{name} has {len(counts):,} classes; at most {MAX_CLASSES} are taken, as each is "
            f"learned against all others. Is this the right column?"
        )
    return counts


def load_model(path: PathName, n_jobs: int | None = None, option: str = "--model") -> Model:
    """Model of a file; errors name the file.

    Parameters
    ----------
    path : path
    n_jobs : int, optional
        Threads, instead of those of the training.
    option : str, default="--model"
        That names the file.

    Returns
    -------
    Model
    """
    if not Path(path).is_file():
        raise UsageError(f"{option} {shown_path(path)} is not a file.")
    try:
        model = load(path)
    except ModelFileError as error:
        text = str(error)
        name = shown_name(path)
        raise ModelFileError(text if name in text else f"{name}: {text}") from None
    if isinstance(model.classifier, PredictionSetClassifier):
        raise UsageError(
            f"{option} {shown_path(path)} holds a PredictionSetClassifier, whose sets this command "
            f"does not write: load it in Python, or save its estimator_."
        )
    if n_jobs is not None:
        base_of(model.classifier).n_jobs = n_jobs
    return model


def target_of(target: str | None, model: Model) -> str:
    """Name of the target: as given, or that of the training."""
    target = model.about.get("target") if target is None else target
    if not isinstance(target, str):
        raise UsageError("--target is needed: the model does not say what its target was called.")
    return target


def text_columns(model: Model, file_format: FileFormat) -> list[str]:
    """Columns that must be read as text for this model: its target, categories, dates.

    Numbers with decimal commas, too, unless the decimal mark of the file is told.
    """
    target, text = model.about.get("target"), []
    if model.encoder is not None:
        told = file_format.decimal is not None
        numbers = {c.name for c in model.encoder.columns_ if isinstance(c, Number)} if told else ()
        text = [name for name in model.encoder.text_columns if name not in numbers]
    return [target, *text] if isinstance(target, str) else text


def features_of(model: Model, table: Table) -> tuple[Array, list[str]]:
    """Numbers for the classifier of a model from a table, and notes.

    Parameters
    ----------
    model : Model
    table : Table
        Without the target.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    notes : list of str
    """
    if model.encoder is not None:
        X, notes = model.encoder.encode(table)
        return X, [*table.notes, *notes]
    return np.stack(plain_table(model, table).columns, axis=1), [*table.notes]


def plain_table(model: Model, table: Table) -> Table:
    """Columns, in their order, for a model without encoder, as those saved from Python can be."""
    names = getattr(model.classifier, "feature_names_in_", None)
    if names is not None:
        present = dict(zip(table.names, table.columns, strict=True))
        absent = [name for name in names if name not in present]
        if absent:
            raise TableError(f"columns {listed(absent)} of the model are not in the data.")
        table = Table(tuple(names), tuple(present[name] for name in names), table.lines, table.fill)
    if len(table.names) != model.classifier.n_features_in_:
        raise TableError(
            f"the data have {counted(len(table.names), 'column')} ({listed(table.names)}), the "
            f"model takes {counted(model.classifier.n_features_in_, 'number')}, in the order of "
            f"training."
        )
    for name, column in zip(table.names, table.columns, strict=True):
        if column.dtype == object or not (there := np.isfinite(column)).all():
            where = "" if column.dtype == object else f" ({table.place(int(there.argmin()))})"
            raise TableError(
                f"column '{printable(name)}' holds text, or values that are missing or infinite"
                f"{where}; this model was saved without an encoder and takes numbers only."
            )
    return table
