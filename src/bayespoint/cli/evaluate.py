"""``bayespoint evaluate``: how a model does on labelled rows, in numbers and as a report."""

from collections import Counter

import numpy as np
import scipy.sparse as sp

from bayespoint import RejectingClassifier
from bayespoint.cli.deciding import BLOCK_ROWS, Decisions, base_of, class_names, decide
from bayespoint.cli.inputs import (
    features_of,
    load_model,
    load_table,
    shown_name,
    split_target,
    text_columns,
)
from bayespoint.cli.output import Output, UsageError, check_writable, counted, exit_codes
from bayespoint.cli.report import Evaluated, measure, write_report
from bayespoint.cli.report.page import counted_rows, doubtful, percent
from bayespoint.cli.tracking import tracked
from bayespoint.cli.train import trained_facts
from bayespoint.io.tables import TableError, printable
from bayespoint.io.tables.table import listed

# Classes listed on the terminal.
SHOWN_CLASSES = 12


def run_evaluate(
    file, model, target=None, report=None, *, positive=None, show_rows=True, format=None,
    header=True, n_jobs=None, quiet=False, json=False,
):  # fmt: skip
    """Read the model and the rows, decide, measure, say and write."""
    with exit_codes():
        output = Output(quiet=quiet, json=json)
        if report is not None:
            check_writable(report, "--report", [(file, "the data"), (model, "the model")])
        found = load_model(model)
        if n_jobs is not None:
            base_of(found.classifier).n_jobs = n_jobs
        target = _target(target, found)
        table = load_table(
            file, format=format, text=[target, *text_columns(found)], header=header
        )  # fmt: skip
        features, labels = split_target(table, target)
        rows = _decided(found, features, labels, target, output)
        chosen = _positive(positive, rows.classes)
        numbers = measure(rows, chosen)
        _say(output, file, numbers)
        document = {
            "file": shown_name(file), "model": shown_name(model), "target": target, **numbers,
        }  # fmt: skip
        if show_rows:
            document |= {"notes": output.notes, "doubtful": _doubtful(rows, features)}
        if report is not None:
            write_report(
                report, rows, numbers, table=features, file=shown_name(file), about=found.about,
                trained=facts_of(found.classifier), notes=output.notes, positive=chosen,
                shows_rows=show_rows,
            )  # fmt: skip
            document["report"] = str(report)
            output.say(f"Report: {printable(str(report), 200)}")
        output.document(document)


def _target(target, model):
    target = model.about.get("target") if target is None else target
    if not isinstance(target, str):
        raise UsageError("--target is needed: the model does not say what its target was called.")
    return target


def facts_of(classifier):
    """What a fitted classifier tells about itself; an onion knows less than the others."""
    base = base_of(classifier)
    if hasattr(base, "inference_reason_") and hasattr(base, "label_noise_"):
        return trained_facts(classifier)
    return {
        "inference": base.inference, "gamma": float(base.gamma_),
        "softness": float(base.softness_), "n_draws": int(base.n_draws_),
    }  # fmt: skip


# ---------------------------------------------------------------------- deciding


def _decided(model, features, labels, target, output):
    classes = class_names(model.classifier)
    number = {name: k for k, name in enumerate(classes)}
    true = np.array([number.get(label, -1) for label in labels.tolist()])
    unknown = Counter(labels[true < 0].tolist())
    if len(labels) == sum(unknown.values()):
        raise TableError(
            f"target '{printable(target)}' holds {listed(unknown)}, and the model knows "
            f"{listed(classes)}: no row can be right. Is this the right column?"
        )
    X, notes = features_of(model, features)
    for note in notes:
        output.note(note)
    if unknown:
        output.note(
            f"{counted_rows(sum(unknown.values()))} with a label that the model was not trained "
            f"on ({listed(unknown)}) count{'s' * (sum(unknown.values()) == 1)} as "
            f"error{'s' * (sum(unknown.values()) != 1)}."
        )
    _note_training_rows(model.classifier, X, output)
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(X), BLOCK_ROWS)]
    with output.noting_warnings():
        decided = [
            decide(model.classifier, X[block]) for block in tracked(output, blocks, "deciding")
        ]
    all_of = Decisions(*(np.concatenate(parts) for parts in zip(*decided, strict=True)))
    return Evaluated(
        classes, true, np.array([number[label] for label in all_of.labels.tolist()]),
        all_of.rejected, all_of.proba, all_of.confidence, _rejects(model.classifier),
    )  # fmt: skip


def _rejects(classifier):
    return isinstance(classifier, RejectingClassifier) and classifier.threshold_ > -np.inf


def _note_training_rows(classifier, X, output):
    """Say how many of the rows are training rows: errors on them tell little."""
    support = base_of(classifier).support_vectors_
    if sp.issparse(support) or not support.shape[1]:
        return
    support = support.astype(np.float64) + 0.0  # -0 is 0
    there = {row.tobytes() for row in support}
    n_same = sum(row.tobytes() in there for row in X + 0.0)
    if n_same:
        output.note(
            f"{n_same:,} of {counted_rows(len(X))} are in the training data as well; errors on "
            f"them say little about new rows."
        )


def _positive(positive, classes):
    if positive is None:
        return len(classes) - 1
    if len(classes) != 2:
        raise UsageError(f"--positive is for two classes; the model has {len(classes)}.")
    if positive not in classes:
        raise UsageError(
            f"--positive '{printable(positive)}' is not a class of the model: {listed(classes)}."
        )
    return classes.index(positive)


# ---------------------------------------------------------------------- telling


def _say(output, file, found):
    n = f"{counted_rows(found['n_rows'])} of {shown_name(file)}"
    output.say(f"Error: {found['n_wrong']:,} of {n}, {_share(found, 'error')}.")
    if found["rejects"] and found["n_decided"]:
        output.say(
            f"Decides {found['n_decided']:,} of them ({percent(found['coverage'])}) with "
            f"{counted(found['n_wrong_decided'], 'error')}, {_share(found, 'decided_error')}."
        )
    elif found["rejects"]:
        output.say("Rejects all of them: nothing is decided.")
    output.say(f"The most frequent class alone: error {percent(found['majority_error'], 2)}.")
    output.say(
        f"Probabilities: log loss {found['log_loss']:.4f}, Brier score {found['brier']:.4f}, "
        f"ECE {percent(found['ece'], 2)}; AURC {percent(found['aurc'], 2)}."
    )
    if found["auc"] is not None:
        output.say(
            f"Finding '{printable(found['positive'])}': AUC {found['auc']:.4f}, average precision "
            f"{found['average_precision']:.4f}."
        )
    _say_classes(output, found["classes"])


def _share(found, name):
    low, high = found[f"{name}_interval"]
    return f"{percent(found[name], 2)} (95% interval {percent(low, 2)} to {percent(high, 2)})"


def _say_classes(output, classes):
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


def _doubtful(rows, features):
    return [
        {
            "row": i + 1, "line": None if features.lines is None else int(features.lines[i]),
            "true": None if rows.true[i] < 0 else rows.classes[rows.true[i]],
            "predicted": rows.classes[rows.predicted[i]],
            "probability": float(rows.proba[i, rows.predicted[i]]),
            "confidence": float(rows.confidence[i]), "rejected": bool(rows.rejected[i]),
        }
        for i in doubtful(rows)
    ]  # fmt: skip
