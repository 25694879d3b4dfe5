"""``bayespoint predict``: labels, probabilities and rejections for rows of a file."""

import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from bayespoint._support.types import Array
from bayespoint.cli.deciding import Decisions, blocks_of, decide_rows, has_costs
from bayespoint.cli.fitted import class_names, cut_short
from bayespoint.cli.inputs import check_column, load_model, load_table, plain_table, text_columns
from bayespoint.cli.options import FileFormat
from bayespoint.cli.output import Output, check_writable, exit_codes, naming_output, shown_path
from bayespoint.io.model_file import Model
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import Table, counted, printable, write_csv
from bayespoint.io.tables.writing import TextStream


def run_predict(
    file: str, model_path: Path, output_path: str, file_format: FileFormat, *,
    keep: Sequence[str] = (), spreadsheet_safe: bool = False, n_jobs: int | None = None,
    quiet: bool = False, as_json: bool = False,
) -> None:  # fmt: skip
    """Read the model and the file, decide, write."""
    with exit_codes():
        to_stdout = output_path == "-"
        output = Output(quiet=quiet, to_stderr=to_stdout)
        if not to_stdout:
            check_writable(output_path, "--output", data=file, model=model_path)
        model = load_model(model_path, n_jobs)
        output.note(*cut_short(model))
        table = load_table(file, file_format, text=[*text_columns(model, file_format), *keep])
        for name in keep:
            check_column(table, name, "--keep")
        kept = {name: table.column(name) for name in keep}
        features = _features(model, table, keep, output)
        with opened(output_path) as stream:
            if as_json:
                n_rejected = _json_lines(stream, model, features, kept)
            else:
                n_rejected = _csv(stream, model, features, kept, spreadsheet_safe)
        shown = "standard output" if to_stdout else shown_path(output_path)
        output.say(
            f"Decided {table.n_rows - n_rejected:,} of {counted(table.n_rows, 'row')}, rejected "
            f"{n_rejected:,}: {shown}"
        )


def _features(model: Model, table: Table, keep: Sequence[str], output: Output) -> Table:
    """Columns that the model may use; notes about the others."""
    target = model.about.get("target")
    if target in table.names:
        output.note(f"the target '{printable(target)}' is in the data and was not used.")
        table = table.without([target])
    if model.encoder is None:
        return plain_table(model, table)
    used = {column.name for column in model.encoder.columns_}
    table = table.without([name for name in keep if name not in used])
    output.note(*table.notes, *model.encoder.notes_on(table))
    return table


@contextmanager
def opened(output_path: str) -> Iterator[TextStream]:
    """Stream to write to: a file that appears once it is whole, or standard output."""
    if output_path != "-":
        with replacing(Path(output_path).resolve()) as raw, _as_text(raw) as stream:
            yield stream
        return
    with naming_output():
        sys.stdout.flush()
        with _as_text(sys.stdout.buffer) as stream:
            yield TerminalStream(stream) if sys.stdout.isatty() else stream
        sys.stdout.buffer.flush()


class TerminalStream:
    """A stream to a terminal, on which text from data does nothing but appear."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write with control characters made visible, line by line."""
        lines = (printable(line, len(line)) for line in text.split("\n"))
        return self._stream.write("\n".join(lines))


@contextmanager
def _as_text(raw: IO[bytes]) -> Iterator[TextIO]:
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
    try:
        yield stream
        stream.flush()
    finally:
        stream.detach()


def _decided_blocks(model: Model, table: Table) -> Iterator[tuple[slice, Decisions]]:
    """Yield (rows, decisions) of some rows at a time."""
    for rows in blocks_of(table.n_rows):
        part = table.rows(rows)
        X = (
            np.stack(part.columns, axis=1) if model.encoder is None
            else model.encoder.transform(part)
        )  # fmt: skip
        yield rows, decide_rows(model.classifier, X, table, rows.start)


def _csv(
    stream: TextStream,
    model: Model,
    table: Table,
    kept: Mapping[str, Array],
    spreadsheet_safe: bool,
) -> int:
    """Write CSV; return how many rows were rejected."""
    ours = ["label", "rejected", *(f"probability_{c}" for c in class_names(model.classifier))]
    costs = has_costs(model.classifier)
    ours += ["expected_cost"] if costs else []
    names = [*kept_names(kept, ours), *ours]
    n_rejected = 0
    for rows, decided in _decided_blocks(model, table):
        labels = decided.labels.astype(object)
        labels[decided.rejected] = None
        columns = [*(column[rows] for column in kept.values()), labels]
        columns += [decided.rejected.astype(int), *decided.proba.T]
        columns += [decided.expected_cost] if costs else []
        write_csv(stream, names, columns, spreadsheet_safe=spreadsheet_safe, header=rows.start == 0)
        n_rejected += int(decided.rejected.sum())
    return n_rejected


def kept_names(kept: Mapping[str, Array], ours: Sequence[str]) -> list[str]:
    """Names of copied columns; given_ before those that are names of ours."""
    names: list[str] = []
    for name in kept:
        while name in ours or name in names:
            name = f"given_{name}"
        names.append(name)
    return names


def _json_lines(stream: TextStream, model: Model, table: Table, kept: Mapping[str, Array]) -> int:
    """Write one JSON object per row; return how many rows were rejected."""
    classes = class_names(model.classifier)
    n_rejected = 0
    for rows, decided in _decided_blocks(model, table):
        parts = [column[rows] for column in kept.values()]
        for i, label in enumerate(decided.labels.tolist()):
            rejected = bool(decided.rejected[i])
            row: dict[str, Any] = {
                "label": None if rejected else label,
                "rejected": rejected,
                "probabilities": dict(zip(classes, decided.proba[i].tolist(), strict=True)),
            }
            if has_costs(model.classifier):
                row["expected_cost"] = float(decided.expected_cost[i])
            if kept:
                row["kept"] = {name: part[i] for name, part in zip(kept, parts, strict=True)}
            stream.write(json.dumps(row, allow_nan=False) + "\n")
        n_rejected += int(decided.rejected.sum())
    return n_rejected
