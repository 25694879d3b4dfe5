"""``bayespoint predict``: labels, probabilities and rejections for rows of a file."""

import io
import json
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bayespoint.cli.deciding import BLOCK_ROWS, base_of, class_names, decide
from bayespoint.cli.inputs import check_column, load_model, load_table, plain_table, text_columns
from bayespoint.cli.output import (
    Output,
    check_writable,
    counted,
    exit_codes,
    naming_output,
)
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import printable, write_csv


def run_predict(
    file, model, output, *, keep=(), spreadsheet_safe=False, json=False, n_jobs=None, format=None,
    header=True, quiet=False,
):  # fmt: skip
    """Read the model and the file, decide, write."""
    with exit_codes():
        report = Output(quiet=quiet, to_stderr=str(output) == "-")
        _check_paths(file, model, output)
        found = load_model(model)
        if n_jobs is not None:
            base_of(found.classifier).n_jobs = n_jobs
        text = [*text_columns(found), *keep]
        table = load_table(file, format=format, text=text, header=header)
        for name in keep:
            check_column(table, name, "--keep")
        kept = {name: table.column(name) for name in keep}
        features = _features(found, table, keep, report)
        with _opened(output) as stream:
            if json:
                rejected = _json_lines(stream, found, features, kept)
            else:
                rejected = _csv(stream, found, features, kept, spreadsheet_safe)
        shown = "standard output" if str(output) == "-" else printable(str(output), 200)
        report.say(
            f"Decided {table.n_rows - rejected:,} of {counted(table.n_rows, 'row')}, rejected "
            f"{rejected:,}: {shown}"
        )


def _check_paths(file, model, output):
    if str(output) == "-":
        return
    check_writable(output, "--output", [(file, "the data"), (model, "the model")])


def _features(model, table, keep, report):
    """Columns that the model may use; notes about the others."""
    target = model.about.get("target")
    if target in table.names:
        report.note(f"the target '{printable(target)}' is in the data and was not used.")
        table = table.without([target])
    if model.encoder is None:
        return plain_table(model, table)
    used = {column.name for column in model.encoder.columns_}
    table = table.without([name for name in keep if name not in used])
    for note in model.encoder.notes_on(table):
        report.note(note)
    return table


@contextmanager
def _opened(output):
    """Stream to write to: a file that appears once it is whole, or standard output."""
    if str(output) != "-":
        with replacing(Path(output).resolve()) as raw, _as_text(raw) as stream:
            yield stream
        return
    with naming_output():
        sys.stdout.flush()
        with _as_text(sys.stdout.buffer) as stream:
            yield _Terminal(stream) if sys.stdout.isatty() else stream
        sys.stdout.buffer.flush()


class _Terminal:
    """A stream to a terminal, on which text from data does nothing but appear."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        """Write with control characters made visible, line by line."""
        lines = (printable(line, len(line)) for line in text.split("\n"))
        return self._stream.write("\n".join(lines))


@contextmanager
def _as_text(raw):
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
    try:
        yield stream
        stream.flush()
    finally:
        stream.detach()


def _blocks(model, table):
    """Yield (rows, decisions) of some rows at a time."""
    for start in range(0, table.n_rows, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        part = table.rows(rows)
        X = (
            np.stack(part.columns, axis=1) if model.encoder is None
            else model.encoder.transform(part)
        )  # fmt: skip
        yield rows, decide(model.classifier, X)


def _csv(stream, model, table, kept, spreadsheet_safe):
    """Write CSV; return how many rows were rejected."""
    ours = ["label", "rejected", *(f"probability_{c}" for c in class_names(model.classifier))]
    names = [*_kept_names(kept, ours), *ours]
    n_rejected = 0
    for rows, decided in _blocks(model, table):
        labels = decided.labels.astype(object)
        labels[decided.rejected] = None
        columns = [*(column[rows] for column in kept.values()), labels]
        columns += [decided.rejected.astype(int), *decided.proba.T]
        write_csv(stream, names, columns, spreadsheet_safe=spreadsheet_safe, header=rows.start == 0)
        n_rejected += int(decided.rejected.sum())
    return n_rejected


def _kept_names(kept, ours):
    """Names of copied columns; given_ before those that are names of ours."""
    names: list[str] = []
    for name in kept:
        while name in ours or name in names:
            name = f"given_{name}"
        names.append(name)
    return names


def _json_lines(stream, model, table, kept):
    """Write one JSON object a row; return how many rows were rejected."""
    classes = class_names(model.classifier)
    n_rejected = 0
    for rows, decided in _blocks(model, table):
        parts = [column[rows] for column in kept.values()]
        for i, label in enumerate(decided.labels.tolist()):
            rejected = bool(decided.rejected[i])
            row = {
                "label": None if rejected else label,
                "rejected": rejected,
                "probabilities": dict(zip(classes, decided.proba[i].tolist(), strict=True)),
            }
            if kept:
                row["kept"] = {name: part[i] for name, part in zip(kept, parts, strict=True)}
            stream.write(json.dumps(row, allow_nan=False) + "\n")
        n_rejected += int(decided.rejected.sum())
    return n_rejected
