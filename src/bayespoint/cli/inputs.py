"""Files that commands read: tables, targets and models."""

import difflib
from collections import Counter
from pathlib import Path

import numpy as np

from bayespoint.cli.output import UsageError
from bayespoint.model_file import ModelFileError, load
from bayespoint.tables import Table, TableError, parse_number, printable, read_table
from bayespoint.tables.table import listed

# One machine is trained for each class, and each needs rows: more are names, not classes.
MAX_CLASSES = 100
# Characters of a label: arrays of labels have room for the longest in every row.
MAX_LABEL = 200
# A target of numbers with more different values than this, and than a tenth of the rows, is a
# quantity and not a class.
MANY_NUMBERS, MANY_SHARE = 20, 0.1
# Places named in a message.
SHOWN_PLACES = 5


def shown_name(path):
    """Name of a file for messages: without its folder, safe to print."""
    return "standard input" if str(path) == "-" else printable(Path(path).name)


def load_table(path, *, format=None, text=(), header=True, drop=()):
    """Table of a file; errors name the file.

    Parameters
    ----------
    path, format, text, header
        As for `read_table`.
    drop : iterable of str
        Columns left out; a UsageError if one is not there.

    Returns
    -------
    Table
    """
    try:
        table = read_table(path, format=format, text=text, header=header)
    except TableError as error:
        raise TableError(f"{shown_name(path)}: {error}") from None
    for name in drop:
        check_column(table, name, "--drop")
    return table.without(drop)


def check_column(table, name, option):
    """Raise a UsageError if an option names a column that is not there."""
    if name not in table.names:
        near = difflib.get_close_matches(name, table.names, n=1)
        hint = f" Do you mean '{printable(near[0])}'?" if near else ""
        raise UsageError(
            f"{option} '{printable(name)}' is not a column; there are {listed(table.names)}.{hint}"
        )


def split_target(table, target):
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
            f"{name} is missing in {len(missing):,} row{'s' * (len(missing) > 1)} ({places}"
            f"{', …' * (len(missing) > SHOWN_PLACES)}): fill it in or take these rows out."
        )
    long = next((row for row, value in enumerate(column) if len(value) > MAX_LABEL), None)
    if long is not None:
        raise TableError(
            f"{name}, {table.place(long)}: a label of {len(column[long]):,} characters; at most "
            f"{MAX_LABEL} are taken. Is this the right column?"
        )
    return table.without([target]), np.array(column.tolist(), dtype=str)


def check_classes(labels, target):
    """Return the number of rows of each class; a TableError unless they can be learned."""
    counts = dict(sorted(Counter(labels.tolist()).items()))
    name = f"target '{printable(target)}'"
    if len(counts) < 2:
        raise TableError(
            f"{name} has but one value ({listed(counts)}): a classifier needs two or more."
        )
    numbers = all(parse_number(label) is not None for label in counts)
    if numbers and len(counts) > max(MANY_NUMBERS, MANY_SHARE * len(labels)):
        raise TableError(
            f"{name} has {len(counts):,} different numbers in {len(labels):,} rows: a quantity, "
            f"not classes. Make classes of it (such as low and high), or use regression."
        )
    if len(counts) > MAX_CLASSES:
        raise TableError(
            f"{name} has {len(counts):,} classes; at most {MAX_CLASSES} are taken, as each is "
            f"learned against all others. Is this the right column?"
        )
    return counts


def load_model(path):
    """Model of a file; errors name the file.

    Parameters
    ----------
    path : path

    Returns
    -------
    Model
    """
    if not Path(path).is_file():
        raise UsageError(f"--model {printable(str(path), 200)} is not a file.")
    try:
        return load(path)
    except ModelFileError as error:
        text = str(error)
        name = shown_name(path)
        raise ModelFileError(text if name in text else f"{name}: {text}") from None


def text_columns(model):
    """Columns that must be read as text for this model: its target and its categories."""
    target = model.about.get("target")
    categories = [] if model.encoder is None else model.encoder.text_columns
    return [target, *categories] if isinstance(target, str) else categories


def features_of(model, table):
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
        return model.encoder.encode(table)
    return np.stack(plain_table(model, table).columns, axis=1), []


def plain_table(model, table):
    """Columns, in their order, for a model without encoder, as those saved from Python can be."""
    names = getattr(model.classifier, "feature_names_in_", None)
    if names is not None:
        absent = [name for name in names if name not in table.names]
        if absent:
            raise TableError(f"columns {listed(absent)} of the model are not in the data.")
        table = Table(
            tuple(names), tuple(table.column(name) for name in names), table.lines, table.fill
        )
    if len(table.names) != model.classifier.n_features_in_:
        raise TableError(
            f"the data have {len(table.names):,} columns ({listed(table.names)}), the model takes "
            f"{model.classifier.n_features_in_:,} numbers, in the order of training."
        )
    for name, column in zip(table.names, table.columns, strict=True):
        if column.dtype == object or np.isnan(column).any():
            raise TableError(
                f"column '{printable(name)}' holds text or missing values; this model was saved "
                f"without an encoder and takes numbers only."
            )
    return table
