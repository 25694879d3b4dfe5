"""The command: train on all rows, find out which labels do not suit them, write."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from bayespoint import BayesPointClassifier
from bayespoint.cli.doubt.page import write_doubts
from bayespoint.cli.doubt.suspects import PROBABLY, Suspect, places, suspects_of
from bayespoint.cli.fitted import facts_of
from bayespoint.cli.inputs import examples_of, load_table, without
from bayespoint.cli.options import Columns, FileFormat, Printing, Settings
from bayespoint.cli.output import (
    Output,
    UsageError,
    check_writable,
    exit_codes,
    shown_name,
    shown_path,
)
from bayespoint.cli.predict import kept_names, opened
from bayespoint.cli.settings import make_classifier
from bayespoint.cli.train import encode_examples, fit, listed_classes
from bayespoint.io.tables import Table, TableError, counted, printable, write_csv
from bayespoint.io.tables.table import as_text

# Rows shown on the terminal.
SHOWN_ROWS = 10

# Settings of --quick: none depends on the data. Small cells take little time, and ten divisions
# into cells found more wrong labels than three or than landmarks (churn, hpc, mnist, waveform).
QUICK = {
    "inference": "ep", "kernel": "rbf", "gamma": "scale", "softness": 0.3, "bias": 1.0,
    "cell_size": 500, "n_landmarks": 0, "n_trees": 10,
}  # fmt: skip


def run_doubt(
    file: str, target: str, output_path: str, settings: Settings, columns: Columns,
    file_format: FileFormat, printing: Printing, *, report_path: Path | None = None,
    budget: int | None = None, quick: bool = False, spreadsheet_safe: bool = False,
) -> None:  # fmt: skip
    """Read, train, list the labels that are probably wrong, and write them."""
    with exit_codes("stopped; nothing was written"):
        to_stdout = output_path == "-"
        output = Output(quiet=printing.quiet, json=printing.json, to_stderr=to_stdout)
        _check_outputs(file, output_path, report_path, printing)
        classifier = _classifier(settings, quick)
        table = _table(file, target, columns, file_format)
        features, labels = examples_of(without(table, columns.drop or []), target, columns)
        # With columns that are not learnt from, such as names.
        table = _as_it_stands(table, file, file_format).without([target])
        encoded = encode_examples(classifier, features, labels, target, columns, file_format)
        output.say(
            f"Read {shown_name(file)}: {counted(len(labels), 'row')}, "
            f"{counted(len(encoded.encoder.feature_names_), 'feature')}; target "
            f"'{printable(target)}': {listed_classes(encoded.counts)}."
        )
        output.note(*encoded.notes)
        start = time.perf_counter()
        fit(classifier, encoded.X, labels, output, features)
        _check_knows(classifier)
        suspects = suspects_of(classifier, encoded.X, labels, budget)
        numbers = classifier.n_label_errors_.tolist()
        _say(output, table, suspects, numbers, len(labels), budget)
        if not printing.json:
            _write(output_path, table, suspects, spreadsheet_safe)
            shown = "standard output" if to_stdout else shown_path(output_path)
            output.say(f"Rows: {shown}")
        document = {
            "file": shown_name(file), "target": target, "n_rows": len(labels),
            "n_wrong": numbers[0], "n_wrong_interval": numbers[1:],
            "seconds": round(time.perf_counter() - start, 3), "notes": output.notes,
            "rows": [_entry(table, one) for one in suspects],
        }  # fmt: skip
        if report_path is not None:
            write_doubts(
                report_path, suspects, classifier.label_error_proba_, numbers, table=table,
                labels=labels, file=shown_name(file), target=target, budget=budget,
                trained=facts_of(classifier), notes=output.notes,
            )  # fmt: skip
            document["report"] = str(report_path)
            output.say(f"Page: {shown_path(report_path)}")
        output.document(document)


def _table(file: str, target: str, columns: Columns, file_format: FileFormat) -> Table:
    """All columns of the file; those left out by --drop as text, for people to look at."""
    return load_table(file, file_format, text=[target, *columns.text, *(columns.drop or [])])


def _as_it_stands(table: Table, file: str, file_format: FileFormat) -> Table:
    """Table of the texts of the file: 007 and numbers of 20 digits come out as they came in.

    What cannot be read again has numbers as they are usually written.
    """
    if Path(file).is_file():
        return load_table(file, file_format, text=table.names)
    columns = (as_text(c) if c.dtype != object else c for c in table.columns)
    return table._replace(columns=tuple(columns))


def _check_outputs(
    file: str, output_path: str, report_path: Path | None, printing: Printing
) -> None:
    """Refuse, before long work, files that cannot be written."""
    if output_path != "-" and printing.json:
        raise UsageError("--json prints the rows: leave --output out.")
    if output_path != "-":
        check_writable(output_path, "--output", data=file)
    if report_path is not None:
        check_writable(report_path, "--report", data=file)
        if output_path != "-" and Path(output_path).resolve() == report_path.resolve():
            raise UsageError("--output and --report are the same file; name two.")


def _classifier(settings: Settings, quick: bool) -> BayesPointClassifier:
    classifier = make_classifier(settings, verbose=1)
    assert isinstance(classifier, BayesPointClassifier)  # doubt has no options that reject
    if not quick:
        return classifier
    for name in ("inference", "kernel", "gamma", "softness"):
        if getattr(settings, name) != getattr(Settings, name):
            raise UsageError(f"--quick sets --{name}, too: leave one of them out.")
    return classifier.set_params(**QUICK)


def _check_knows(classifier: BayesPointClassifier) -> None:
    if not hasattr(classifier, "label_error_proba_"):
        raise TableError(
            f"training by '{classifier.inference_}' with {counted(classifier.n_draws_, 'draw')} "
            f"does not tell which labels are wrong: use --inference ep, or --n-draws 10 or more, "
            f"and let it finish."
        )
    known = ~np.isnan(classifier.label_error_proba_)
    if not known.all():  # a fit on some rows was kept
        raise TableError(
            f"training stopped early, with {known.sum():,} of {len(known):,} rows: nothing is "
            f"known about the labels of the others. Let it finish, or raise --max-time."
        )


def _say(
    output: Output, table: Table, suspects: list[Suspect], numbers: list[float], n_rows: int,
    budget: int | None,
) -> None:  # fmt: skip
    expected, low, high = numbers
    output.say(
        f"About {expected:,.0f} of {n_rows:,} labels are wrong, with 95% probability between "
        f"{low:,.0f} and {high:,.0f}."
    )
    kind = "the surest" if budget is not None else f"wrong with more than {PROBABLY:.0%}"
    output.say(f"{counted(len(suspects), 'row')} to look at ({kind}):" if suspects else (
        "No label is more probably wrong than right; --budget 10 lists the ten most doubtful."
    ))  # fmt: skip
    for one in suspects[:SHOWN_ROWS]:
        output.say(
            f"  {table.place(one.row)}: {printable(one.label)}, {one.word} "
            f"{printable(one.suggested)} ({one.probability:.1%}; like "
            f"{', '.join(places(table, one.against))})"
        )
    if len(suspects) > SHOWN_ROWS:
        output.say(f"  and {len(suspects) - SHOWN_ROWS:,} more")


def _entry(table: Table, one: Suspect) -> dict[str, Any]:
    """Suspect as JSON."""
    return {
        "row": one.row + 1, "place": table.place(one.row), "label": one.label,
        "suggested": one.suggested, "probability_wrong": one.wrong,
        "probability_suggested": one.probability, "nearest": [i + 1 for i in one.against],
    }  # fmt: skip


def _write(path: str, table: Table, suspects: list[Suspect], spreadsheet_safe: bool) -> None:
    """Write the rows as CSV: what is doubted, and the columns of the file."""
    ours = ["place", "label", "suggested", "probability_wrong", "probability_suggested", "nearest"]
    rows = [one.row for one in suspects]
    found: list[Any] = [
        places(table, rows), [one.label for one in suspects], [one.suggested for one in suspects],
        np.array([one.wrong for one in suspects]), np.array([one.probability for one in suspects]),
        ["; ".join(places(table, one.against)) for one in suspects],
    ]  # fmt: skip
    columns = dict(zip(table.names, table.columns, strict=True))
    names = [*ours, *kept_names(columns, ours)]
    kept = [column[rows] for column in columns.values()]
    with opened(path) as stream:
        write_csv(stream, names, [*found, *kept], spreadsheet_safe=spreadsheet_safe)
