"""``bayespoint train --continue``: a model learns the rows of another file."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayespoint import RejectingClassifier, __version__
from bayespoint.cli.fitted import Classifier, base_of, class_names, count_known, facts_of
from bayespoint.cli.importances import say_importances
from bayespoint.cli.inputs import (
    MAX_CLASSES,
    features_of,
    load_model,
    load_table,
    target_of,
    text_columns,
)
from bayespoint.cli.learning import (
    Learned,
    Survey,
    Tables,
    check_file,
    chunks_of,
    learn,
    survey,
)
from bayespoint.cli.options import Columns, FileFormat, Printing, Settings, given_options
from bayespoint.cli.output import (
    Output,
    UsageError,
    check_writable,
    exit_codes,
    shown_name,
    shown_path,
)
from bayespoint.cli.train import PLACES, listed_classes, save_model, say_dropped
from bayespoint.estimators.importances import Ranked
from bayespoint.inference.methods import METHODS
from bayespoint.io.model_file import Model
from bayespoint.io.tables import Table, TableError, counted, printable
from bayespoint.io.tables.table import listed

# Settings that may be given anew; all others are those of the model.
OF_THE_RUN = ("max_time", "device", "n_jobs", "cache_size", "half_life")


def run_continue(
    file: str, old_path: Path, settings: Settings, columns: Columns, file_format: FileFormat,
    printing: Printing, *, target: str | None = None, new_path: Path | None = None,
    chunk_rows: int | None = None, importances: bool | None = None,
) -> None:  # fmt: skip
    """Read a model and rows, learn them, save, and say what was done."""
    with exit_codes("stopped; the model file is as it was"):
        output = Output(quiet=printing.quiet, json=printing.json)
        path = old_path if new_path is None else new_path
        _check_options(settings, columns)
        check_writable(path, "--continue" if new_path is None else "--model", data=file)
        if chunk_rows is not None:
            check_file(file)
        model = load_model(old_path, option="--continue")
        check_goes_on(model.classifier, shown_name(old_path))
        target = target_of(target, model)
        tables = _tables(model, file, target, file_format, chunk_rows)
        with output.progress("reading"):
            surveyed = survey(tables, target, model)
        new = _new_classes(model, surveyed, target)
        _say_read(output, file, target, surveyed, new)
        _note_known(output, model, tables, target, surveyed.n_rows)
        base = base_of(model.classifier)
        base.device, base.n_jobs, base.verbose = settings.device, settings.n_jobs, 1
        if settings.cache_size is not None:
            base.cache_size = settings.cache_size
        if settings.half_life is not None:
            base.half_life = settings.half_life
        learned = learn(tables, target, model, surveyed, output, settings.max_time)
        about = _about(model, file, target, learned, new, output.notes)
        matter, left_out = save_model(
            path, model._replace(about=about), output, importances, learned.seconds
        )
        _say_learned(output, model, about, learned, path, matter, left_out)


def _check_options(settings: Settings, columns: Columns) -> None:
    given = given_options(settings, but=OF_THE_RUN) + given_options(columns)
    if given:
        raise UsageError(
            f"--continue takes settings and columns from the model: leave out {', '.join(given)}."
        )


def check_goes_on(classifier: Classifier, name: str) -> None:
    """Raise a UsageError, with the remedy, where a classifier cannot learn more rows.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
    name : str
        Of its file, for the message.
    """
    if isinstance(classifier, RejectingClassifier):
        raise UsageError(
            f"{name} decides by a threshold or costs that were chosen for its training rows, "
            f"and may not suit more rows. Train again with all rows, or train without --coverage "
            f"and --max-risk, limits or costs to continue."
        )
    if getattr(classifier, "stream_", None) is not None and hasattr(classifier, "partial_fit"):
        return
    method = classifier.inference_
    if method == "ep":
        raise UsageError(
            f"{name} lacks what is needed to continue: it was written by an older version, or in "
            f"Python with another decision than votes; train it again."
        )
    title = METHODS[method].title if method in METHODS else method
    raise UsageError(
        f"{name} was trained by {title}, which cannot learn more rows: train it with "
        f"--inference ep."
    )


def _tables(
    model: Model, file: str, target: str, file_format: FileFormat, chunk_rows: int | None
) -> Tables:
    """Rows of the file: all at once, or in chunks."""
    text = [target, *text_columns(model, file_format)]
    if chunk_rows is None:
        table = load_table(file, file_format, text=text)
        return lambda: [table]

    def tables() -> Iterator[Table]:
        return chunks_of(file, file_format, chunk_rows, text)

    return tables


def _new_classes(model: Model, surveyed: Survey, target: str) -> list[str]:
    """Classes that the model does not know; a TableError where that cannot be meant."""
    known = class_names(model.classifier)
    new = sorted(surveyed.counts.keys() - set(known))
    name = f"target '{printable(target)}'"
    if len(new) == len(surveyed.counts):
        raise TableError(
            f"{name} holds {listed(new)}, and the model knows {listed(known)}. Is this the right "
            f"column? If all its classes are new, add rows of known ones to the file."
        )
    if len(new) + len(known) > MAX_CLASSES:
        raise TableError(
            f"{name} has {counted(len(new), 'new class')}, and the model {len(known)}; at most "
            f"{MAX_CLASSES} are taken. Is this the right column?"
        )
    return new


# ---------------------------------------------------------------------- telling


def _say_read(output: Output, file: str, target: str, surveyed: Survey, new: list[str]) -> None:
    counts = dict(sorted(surveyed.counts.items()))
    chunks = f" in {surveyed.n_chunks:,} chunks" if surveyed.n_chunks > 1 else ""
    output.say(
        f"Read {shown_name(file)}: {counted(surveyed.n_rows, 'row')}{chunks}; target "
        f"'{printable(target)}': {listed_classes(counts)}."
    )
    if surveyed.remarks is not None:
        output.note(*surveyed.remarks.texts())
    if new:
        n_new = sum(counts[name] for name in new)
        output.note(
            f"{'classes' if new[1:] else 'class'} {listed(new)} "
            f"{'are' if new[1:] else 'is'} new: {counted(n_new, 'row')}."
        )


def _note_known(output: Output, model: Model, tables: Tables, target: str, n_rows: int) -> None:
    """Say how many rows the model holds already: a file may have been given twice."""
    table = next(iter(tables()))
    X, _ = features_of(model, table.without([target]))
    n_known = count_known(model.classifier, X)
    if n_known:
        which = "the first " if len(X) < n_rows else ""
        output.note(
            f"{n_known:,} of {which}{counted(len(X), 'row')} are in the model already, and count "
            f"once more."
        )


def _about(
    model: Model, file: str, target: str, learned: Learned, new: list[str], notes: list[str]
) -> dict[str, Any]:
    """What the model file tells of its training, this run included."""
    about, stream = model.about, base_of(model.classifier).stream_
    before = about.get("continued")
    times = before.get("times") if isinstance(before, dict) else 0
    continued = {
        "times": times + 1 if isinstance(times, int) else 1, "file": shown_name(file),
        "n_rows": learned.n_rows, "n_held": len(stream.label), "n_dropped": int(stream.dropped),
        "new_classes": new, "log_loss": learned.log_loss, "seconds": round(learned.seconds, 3),
        "version": __version__, "notes": notes,
    }  # fmt: skip
    counts = about.get("classes")
    counts = dict(counts) if isinstance(counts, dict) else {}
    for name, count in learned.counts.items():
        counts[name] = counts.get(name, 0) + count
    total = {"n_rows": int(stream.seen), "classes": dict(sorted(counts.items()))}
    return about | {"target": target} | total | {"continued": continued}


def _say_learned(
    output: Output, model: Model, about: Mapping[str, Any], learned: Learned, path: Path,
    matter: list[Ranked], left_out: str,
) -> None:  # fmt: skip
    facts, continued = facts_of(model.classifier), about["continued"]
    if learned.log_loss is not None:
        without = ", without those of new classes" if continued["new_classes"] else ""
        output.say(
            f"Log-loss of the new rows before they were learned{without}: {learned.log_loss:.4f}."
        )
    output.say(
        f"Learned in {learned.seconds:.1f} s on the {PLACES[facts['device']]}: "
        f"{counted(learned.n_rows, 'row')} added, {about['n_rows']:,} in all; "
        f"{continued['n_held']:,} different ones are held."
    )
    say_dropped(output, model.classifier)
    say_importances(output, matter, left_out)
    size, shown = os.path.getsize(path), shown_path(path)
    output.say(f"Model: {shown} ({size / 1000:,.0f} kB; training rows are inside).")
    output.say(f"Next: bayespoint predict NEW.csv --model {shown} --output predictions.csv")
    figures = [column._asdict() for column in matter] or None
    document = {"model": str(path), "bytes": size, **about, "trained": facts}
    output.document(document | {"importances": figures})
