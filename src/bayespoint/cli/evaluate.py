"""``bayespoint evaluate``: how a model does on labelled rows, in numbers and as a report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayespoint import RejectingClassifier
from bayespoint._support.types import Array
from bayespoint.cli.deciding import Decisions, blocks_of, decide_rows, has_costs, may_reject
from bayespoint.cli.fitted import Classifier, class_names, count_known, cut_short, facts_of
from bayespoint.cli.importances import columns_by_importance, columns_by_width
from bayespoint.cli.inputs import (
    features_of,
    load_model,
    load_table,
    split_target,
    target_of,
    text_columns,
)
from bayespoint.cli.options import FileFormat, Printing
from bayespoint.cli.output import (
    Output,
    UsageError,
    check_writable,
    exit_codes,
    shown_name,
    shown_path,
)
from bayespoint.cli.pages import percent
from bayespoint.cli.report import Evaluated, Limit, measure, write_report
from bayespoint.cli.report.page import doubtful
from bayespoint.estimators.limits import numbered
from bayespoint.io.model_file import Model
from bayespoint.io.tables import Table, TableError, counted, printable
from bayespoint.io.tables.table import listed

# Classes listed on the terminal.
SHOWN_CLASSES = 12


def run_evaluate(
    file: str, model_path: Path, file_format: FileFormat, printing: Printing, *,
    target: str | None = None, report_path: Path | None = None, shows_rows: bool = True,
    positive: str | None = None, n_jobs: int | None = None,
) -> None:  # fmt: skip
    """Read the model and the rows, decide, measure, say and write."""
    with exit_codes():
        output = Output(quiet=printing.quiet, json=printing.json)
        if report_path is not None:
            check_writable(report_path, "--report", data=file, model=model_path)
        model = load_model(model_path, n_jobs)
        short = cut_short(model)
        output.note(*short)
        target = target_of(target, model)
        table = load_table(file, file_format, text=[target, *text_columns(model, file_format)])
        features, labels = split_target(table, target)
        rows = _decided(model, features, labels, target, output)
        measured = measure(rows, _positive(positive, rows.classes))
        document = {
            "file": shown_name(file), "model": shown_name(model_path), "target": target, **measured,
        }  # fmt: skip
        if shows_rows:
            document |= {"notes": output.notes, "doubtful": _doubtful(rows, features)}
        if report_path is not None:
            write_report(
                report_path, rows, measured, table=features, file=shown_name(file),
                about=model.about,
                trained=facts_of(model.classifier), cut_short="".join(short),
                notes=[note for note in output.notes if note not in short],
                matter=columns_by_importance(model.classifier, model.encoder),
                widths=columns_by_width(model.classifier, model.encoder),
                shows_rows=shows_rows,
            )  # fmt: skip
            document["report"] = str(report_path)
        _say(output, file, measured)
        if report_path is not None:
            output.say(f"Report: {shown_path(report_path)}")
        output.document(document)


# ---------------------------------------------------------------------- deciding


def _decided(
    model: Model, features: Table, labels: Array, target: str, output: Output
) -> Evaluated:
    classes = class_names(model.classifier)
    number = {name: k for k, name in enumerate(classes)}
    true = np.array([number.get(label, -1) for label in labels.tolist()])
    unknown = Counter(labels[true < 0].tolist())
    n_unknown = unknown.total()
    if len(labels) == n_unknown:
        raise TableError(
            f"target '{printable(target)}' holds {listed(unknown)}, and the model knows "
            f"{listed(classes)}: no row can be right. Is this the right column?"
        )
    X, notes = features_of(model, features)
    output.note(*notes)
    if unknown:
        count_as = "counts as error" if n_unknown == 1 else "count as errors"
        output.note(
            f"{counted(n_unknown, 'row')} with a label that the model was not trained on "
            f"({listed(unknown)}) {count_as}."
        )
    _note_training_rows(model.classifier, X, output)
    blocks = output.tracked(list(blocks_of(len(X))), "deciding")
    with output.noting_warnings():
        parts = [decide_rows(model.classifier, X[b], features, b.start) for b in blocks]
    decided = Decisions(*map(np.concatenate, zip(*parts, strict=True)))
    return Evaluated(
        classes, true, np.array([number[label] for label in decided.labels.tolist()]),
        decided.rejected, decided.proba, decided.confidence, may_reject(model.classifier),
        model.classifier.costs_ if has_costs(model.classifier) else None, decided.expected_cost,
        _limits(model.classifier),
    )  # fmt: skip


def _limits(classifier: Classifier) -> list[Limit]:
    """Limits per class that a model was trained with."""
    if not isinstance(classifier, RejectingClassifier):
        return []
    found: list[Limit] = []
    for what in ("precision", "recall"):
        name = f"min_{what}"
        shares = numbered(name, getattr(classifier, name), classifier.classes_)
        found += [Limit(what, number, least) for number, least in shares.items()]
    return found


def _note_training_rows(classifier: Classifier, X: Array, output: Output) -> None:
    """Say how many of the rows are training rows: errors on them tell little."""
    n_same = count_known(classifier, X)
    if n_same:
        output.note(
            f"{n_same:,} of {counted(len(X), 'row')} are in the training data as well; errors on "
            f"them say little about new rows."
        )


def _positive(positive: str | None, classes: list[str]) -> int | None:
    if positive is None:
        return None
    if len(classes) != 2:
        raise UsageError(f"--positive is for two classes; the model has {len(classes)}.")
    if positive not in classes:
        raise UsageError(
            f"--positive '{printable(positive)}' is not a class of the model: {listed(classes)}."
        )
    return classes.index(positive)


# ---------------------------------------------------------------------- telling


def _say(output: Output, file: str, measured: Mapping[str, Any]) -> None:
    n = f"{counted(measured['n_rows'], 'row')} of {shown_name(file)}"
    output.say(f"Error: {measured['n_wrong']:,} of {n}, {_share(measured, 'error')}.")
    if measured["rejects"] and measured["n_decided"]:
        output.say(
            f"Decides {measured['n_decided']:,} of them ({percent(measured['coverage'])}) with "
            f"{counted(measured['n_wrong_decided'], 'error')}, {_share(measured, 'decided_error')}."
        )
    elif measured["rejects"]:
        output.say("Rejects all of them: nothing is decided.")
    for limit in measured["limits"]:
        output.say(_on_limit(limit))
    if measured["costs"] is not None:
        output.say(
            f"Cost of a row: {measured['costs']['mean']:.4f}; the most probable class each time "
            f"{measured['costs']['most_probable']:.4f}, always "
            f"'{printable(measured['costs']['constant_decision'])}' "
            f"{measured['costs']['constant']:.4f}."
        )
    output.say(f"The most frequent class alone: error {percent(measured['majority_error'], 2)}.")
    output.say(
        f"Probabilities: log loss {measured['log_loss']:.4f} (class frequencies alone: "
        f"{measured['base_rate']['log_loss']:.4f}), Brier score {measured['brier']:.4f}, off by "
        f"{percent(measured['ece'], 2)} on average (ECE)."
    )
    if measured["auc"] is not None:
        output.say(
            f"Finding '{printable(measured['positive'])}': AUC {measured['auc']:.4f}, average "
            f"precision {measured['average_precision']:.4f}."
        )
    _say_classes(output, measured["classes"])


def _on_limit(limit: Mapping[str, Any]) -> str:
    """Words on a limit per class: what it is on these rows, and whether that will do."""
    of = "labelled so" if limit["limit"] == "precision" else "of it, rejected ones not missed"
    name = f"{limit['limit'].capitalize()} of '{printable(limit['label'])}'"
    wanted = f"at least {percent(limit['least'])} was wanted"
    if limit["kept"] is None:
        return f"{name}: no row is {of.split(',')[0]}; {wanted}, and nothing breaks it."
    verdict = "kept" if limit["kept"] else "not kept"
    verdict += ", which may be chance" if limit["by_chance"] else ""
    return f"{name}: {_share(limit, 'share')} of {limit['n']:,} rows {of}; {wanted}: {verdict}."


def _share(measured: Mapping[str, Any], name: str) -> str:
    low, high = measured[f"{name}_interval"]
    return f"{percent(measured[name], 2)} (95% interval {percent(low, 2)} to {percent(high, 2)})"


def _say_classes(output: Output, classes: Sequence[Mapping[str, Any]]) -> None:
    shown = [printable(entry["label"], 24) for entry in classes[:SHOWN_CLASSES]]
    width = max(5, *map(len, shown))
    output.say(f"{'class':<{width}} {'precision':>10} {'recall':>8} {'F1':>8} {'rows':>8}")
    for name, entry in zip(shown, classes, strict=False):
        output.say(
            f"{name:<{width}} {percent(entry['precision']):>10} {percent(entry['recall']):>8} "
            f"{percent(entry['f1']):>8} {entry['support']:>8,}"
        )
    if len(classes) > SHOWN_CLASSES:
        output.say(f"and {counted(len(classes) - SHOWN_CLASSES, 'more class')}")


def _doubtful(rows: Evaluated, features: Table) -> list[dict[str, Any]]:
    lines = features.lines
    return [
        {
            "row": i + 1, "line": None if lines is None else int(lines[i]), **rows.labels_of(i),
            "confidence": float(rows.confidence[i]), "rejected": bool(rows.rejected[i]),
        }
        for i in doubtful(rows)
    ]  # fmt: skip
