"""Rows that are learned one chunk after the other: read once to check them, once to learn them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from bayespoint import BayesPointClassifier
from bayespoint._support.budget import Budget
from bayespoint._support.types import Array
from bayespoint.cli.inputs import MAX_CLASSES, features_of, plain_table, reading, split_target
from bayespoint.cli.options import FileFormat
from bayespoint.cli.output import Output, UsageError, in_options
from bayespoint.io.encoder.remarks import Remarks
from bayespoint.io.model_file import Model
from bayespoint.io.tables import PathName, Table, TableError, counted, open_chunks
from bayespoint.io.tables.table import listed

# Each call reads the file from its beginning.
Tables: TypeAlias = Callable[[], Iterable[Table]]

# Seconds that a chunk has at least, where time is limited.
LEAST_SECONDS = 0.01


def check_file(file: PathName) -> None:
    """Raise a UsageError for what cannot be read twice."""
    if str(file) == "-":
        raise UsageError("--chunk-rows reads a file twice, first to check it: name a file, not -.")


def chunks_of(
    file: PathName, file_format: FileFormat, n_rows: int, text: Iterable[str]
) -> Iterator[Table]:
    """Yield the rows of a CSV file, so many at a time; errors name the file.

    Parameters
    ----------
    file : path
    file_format : FileFormat
    n_rows : int
        Of a chunk.
    text : iterable of str
        As for `read_table`.

    Yields
    ------
    Table
    """
    with (
        reading(file),
        open_chunks(
            file,
            format=file_format.format,
            header=not file_format.no_header,
            decimal=file_format.decimal or ".",
            max_bytes=file_format.max_bytes,
            trusted=file_format.trusted,
        ) as chunks,
    ):
        table = chunks.read(n_rows, text)
        if table is None:
            raise TableError("there are names of columns but no rows of data.")
        while table is not None:
            yield table
            table = chunks.read(n_rows, text)


class Survey(NamedTuple):
    """What a file holds that is learned in chunks."""

    counts: Counter[str]  # rows of each class
    n_chunks: int
    remarks: Remarks | None  # None of a model without encoder

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counts.total()


def survey(tables: Tables, target: str, model: Model, hint: str = "") -> Survey:
    """Read all rows and check them, as they will be read again to be learned.

    Parameters
    ----------
    tables : callable
    target : str
    model : Model
        Whose encoder, or classifier, will take the rows.
    hint : str
        Said with an error about columns.

    Returns
    -------
    Survey
        It ends early where there are too many classes, which the caller refuses.
    """
    counts: Counter[str] = Counter()
    n_chunks, remarks = 0, None
    for table in tables():
        features, labels = split_target(table, target)
        counts.update(labels.tolist())
        n_chunks += 1
        if len(counts) > MAX_CLASSES:  # numbers or names: they would fill memory
            break
        if model.encoder is None:
            plain_table(model, features)
            continue
        try:
            found = model.encoder.remarks_on(features)
        except TableError as error:
            raise TableError(f"{error}{hint}") from None
        remarks = found if remarks is None else remarks + found
    return Survey(counts, n_chunks, remarks)


class Learned(NamedTuple):
    """What was learned of a file."""

    counts: Counter[str]  # rows of each class
    calls: Array  # rows of each chunk, and their mean log-probability before; NaN of the first fit
    seconds: float
    interrupted: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counts.total()

    @property
    def log_losses(self) -> list[float]:
        """Log-loss of the rows of each chunk before they were learned, but of a first fit."""
        return [-value for value in self.calls[:, 1].tolist() if value == value]

    @property
    def log_loss(self) -> float | None:
        """Log-loss of rows before they were learned, of classes known then; None without any."""
        known = self.calls[~np.isnan(self.calls[:, 1])]
        return -float(np.average(known[:, 1], weights=known[:, 0])) if len(known) else None


def learn(
    tables: Tables, target: str, model: Model, surveyed: Survey, output: Output,
    max_time: float | None = None,
) -> Learned:  # fmt: skip
    """Let a classifier learn the chunks of a file; no further one once time is up.

    After Ctrl-C a classifier that was not fitted before keeps the chunks that it has. For one that
    was, and where there is no chunk yet, KeyboardInterrupt goes on.

    Parameters
    ----------
    tables : callable
    target : str
    model : Model
    surveyed : Survey
        Of the same file.
    output : Output
    max_time : float, optional
        Seconds.

    Returns
    -------
    Learned
    """
    classifier: BayesPointClassifier = model.classifier
    new, interrupted = not hasattr(classifier, "classes_"), False
    counts: Counter[str] = Counter()
    n_calls, start, time_used = 0, time.perf_counter(), Budget(max_time)
    try:
        for table in tables():
            if n_calls and time_used.spent():
                output.note(_cut_short("time was up", counts, surveyed))
                break
            classifier.max_time = max_time and max(max_time - time_used.elapsed(), LEAST_SECONDS)
            which = f", chunk {n_calls + 1:,} of {surveyed.n_chunks:,}"
            what = f"training{which if surveyed.n_chunks > 1 else ''}"
            with output.noting_warnings(), output.progress(what):
                counts.update(_learn_chunk(model, table, target, surveyed))
            n_calls += 1
        classifier.max_time = None  # rows that were taken are learned
        with output.noting_warnings(), output.progress("training"):
            classifier.absorb()
    except KeyboardInterrupt:
        if not (new and n_calls):
            raise
        interrupted = True
        output.note(_cut_short("training was interrupted", counts, surveyed))
    classifier.max_time = max_time
    seconds = time.perf_counter() - start
    return Learned(counts, classifier.stream_.history[-n_calls:], seconds, interrupted)


def _learn_chunk(model: Model, table: Table, target: str, surveyed: Survey) -> list[str]:
    """Learn some rows; return their labels."""
    features, labels = split_target(table, target)
    X, _ = features_of(model, features)
    classes = getattr(model.classifier, "classes_", None)
    y = labels if classes is None else typed(labels, classes)
    all_classes = sorted(surveyed.counts) if classes is None else None
    try:
        model.classifier.partial_fit(X, y, classes=all_classes)
    except ValueError as error:
        raise TableError(f"training failed: {in_options(error)}") from None
    return labels.tolist()


def _cut_short(why: str, counts: Counter[str], surveyed: Survey) -> str:
    return (
        f"{why}; the model has learned {counts.total():,} of {counted(surveyed.n_rows, 'row')}, "
        f"from the beginning of the file."
    )


def typed(labels: Array, classes: Array) -> Array:
    """Labels of a file as a model has its classes: text, or what the model was given in Python.

    Parameters
    ----------
    labels : ndarray of str
    classes : ndarray

    Returns
    -------
    ndarray
    """
    if classes.dtype.kind in "OUS":
        return labels
    known = {str(label): label for label in classes.tolist()}
    new = sorted(set(labels.tolist()) - known.keys())
    if new:
        raise TableError(
            f"target: {listed(new)} is not among the classes of the model, {listed(known)}, which "
            f"are not text: add new classes in Python, by partial_fit."
        )
    return np.array([known[label] for label in labels.tolist()], dtype=classes.dtype)
