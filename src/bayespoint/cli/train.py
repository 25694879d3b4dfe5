"""``bayespoint train``: from a file of examples to a model file."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from sklearn.utils.validation import check_is_fitted

from bayespoint import BayesPointClassifier, RejectingClassifier, __version__
from bayespoint._support.types import Array
from bayespoint.cli.fitted import Classifier, base_of, class_names, facts_of, most_violated
from bayespoint.cli.importances import (
    columns_by_importance,
    compute_importances,
    say_importances,
)
from bayespoint.cli.inputs import (
    at_places,
    check_classes,
    check_counts,
    examples_of,
    fitted_encoder,
    notes_on_examples,
    read_examples,
    without,
)
from bayespoint.cli.leaks import notes_on_leaks
from bayespoint.cli.learning import check_file, chunks_of, learn, survey
from bayespoint.cli.on_cluster import (
    Reading,
    check_on_cluster,
    files_of,
    train_on_cluster,
)
from bayespoint.cli.options import Columns, FileFormat, Printing, Settings
from bayespoint.cli.output import (
    INTERRUPTED,
    Output,
    check_writable,
    exit_codes,
    in_options,
    shown_name,
    shown_path,
)
from bayespoint.cli.settings import (
    check_chunked,
    check_folds,
    check_names,
    make_classifier,
    most_fits,
    set_groups,
)
from bayespoint.estimators.first_fit import KEPT
from bayespoint.estimators.importances import Ranked
from bayespoint.inference.methods import METHODS
from bayespoint.io.encoder import Date, Number, TableEncoder
from bayespoint.io.model_file import Model, save
from bayespoint.io.tables import Table, TableError, counted, printable
from bayespoint.io.tables.table import and_more

# Classes listed with their counts.
SHOWN_CLASSES = 12
# A model is worse than the shares of the classes where its log-loss is higher by so much, and by so
# many standard errors: where nothing can be learned, it is as good as they are, up to a little.
WORSE, CLEARLY = 0.02, 3.0
# How notes begin that say which fit was kept.
THE_FIT = "the model is the fit "
# What helps where later rows do not suit what the first ones told.
REMEDIES = "raise --chunk-rows, or use --categorical or --drop"


def run_train(
    file: str, target: str, model_path: Path, settings: Settings, columns: Columns,
    file_format: FileFormat, printing: Printing, importances: bool | None = None,
    chunk_rows: int | None = None, dask: str | None = None, force: bool = False,
) -> None:  # fmt: skip
    """Read, encode, train, save, and say what was done."""
    with exit_codes("stopped; no model was written"):
        output = Output(quiet=printing.quiet, json=printing.json)
        check_writable(model_path, "--model", data=file)
        classifier = make_classifier(settings, verbose=1)
        if dask is not None:
            check_on_cluster(settings, chunk_rows)
            classifier, done = _train_on_cluster(
                output, classifier, file, target, columns, file_format, dask
            )
        elif chunk_rows is None:
            done = _train(output, classifier, file, target, columns, file_format, force)
        else:
            check_file(file)
            check_chunked(settings)
            done = _train_in_chunks(
                output, classifier, file, target, columns, file_format, chunk_rows
            )
        about = {
            "file": shown_name(file), "target": target,
            "columns": [column.name for column in done.encoder.columns_],
            "n_rows": sum(done.counts.values()), "n_features": len(done.encoder.feature_names_),
            "classes": done.counts, "options": settings.stored(),
            "seconds": round(done.seconds, 3), "version": __version__,
            "interrupted": done.interrupted, "notes": output.notes,
        }  # fmt: skip
        if chunk_rows is not None:
            about |= {"chunk_rows": chunk_rows, "log_losses": done.log_losses}
        matter, left_out = save_model(
            model_path, Model(classifier, done.encoder, about), output,
            False if done.interrupted else importances, done.seconds,
        )  # fmt: skip
        _say_trained(output, classifier, about, model_path, matter, left_out)
        if done.interrupted:
            raise typer.Exit(INTERRUPTED)


class Done(NamedTuple):
    """What training leaves beside the classifier."""

    encoder: TableEncoder
    counts: dict[str, int]  # rows of each class
    seconds: float
    interrupted: bool
    log_losses: Sequence[float] = ()  # of chunks before they were learned


def _train(
    output: Output, classifier: Classifier, file: str, target: str, columns: Columns,
    file_format: FileFormat, force: bool,
) -> Done:  # fmt: skip
    """Train on all rows at once."""
    features, labels = read_examples(file, target, columns, file_format)
    encoded = encode_examples(classifier, features, labels, target, columns, file_format)
    _say_read(output, file, target, features, encoded.encoder, encoded.counts)
    output.note(*encoded.notes)
    start = time.perf_counter()
    interrupted = fit(classifier, encoded.X, labels, output, features)
    if not force:
        check_worth(classifier, labels)
    return Done(encoded.encoder, encoded.counts, time.perf_counter() - start, interrupted)


class Encoded(NamedTuple):
    """Examples as a classifier takes them."""

    X: Array
    encoder: TableEncoder
    counts: dict[str, int]  # rows of each class
    notes: list[str]


def encode_examples(
    classifier: Classifier, features: Table, labels: Array, target: str, columns: Columns,
    file_format: FileFormat,
) -> Encoded:  # fmt: skip
    """Check the classes of examples, and encode their features for a classifier.

    Parameters
    ----------
    classifier : Classifier
        Not fitted; it is told which features belong together.
    features : Table
    labels : ndarray of str
    target : str
        Their column.
    columns : Columns
    file_format : FileFormat

    Returns
    -------
    Encoded
    """
    counts = check_classes(labels, target)
    check_names(counts, classifier)
    check_folds(counts, classifier)
    encoder = _fitted_encoder(classifier, features, columns, file_format)
    X, notes = encoder.encode(features)
    notes = [note for note in notes if not note.startswith("ignored")]
    notes = [*features.notes, *encoder.notes_, *notes, *notes_on_examples(features, counts)]
    notes += notes_on_leaks(X, labels, encoder)
    return Encoded(X, encoder, counts, notes)


def _train_in_chunks(
    output: Output, classifier: Classifier, file: str, target: str, columns: Columns,
    file_format: FileFormat, chunk_rows: int,
) -> Done:  # fmt: skip
    """Train on the first rows, and go on with others; the first tell what columns hold."""
    text, drop = [target, *columns.text], columns.drop or []
    first = without(next(chunks_of(file, file_format, chunk_rows, text)), drop)
    features, _ = examples_of(first, target, columns)
    encoder = _fitted_encoder(classifier, features, columns, file_format)
    model = Model(classifier, encoder, {})

    def tables() -> Iterator[Table]:
        return chunks_of(file, file_format, chunk_rows, [target, *encoder.text_columns])

    seen_in = f"the first {counted(features.n_rows, 'row')}"
    with output.progress("reading"):
        surveyed = survey(tables, target, model, hint=f" It began with {seen_in}: {REMEDIES}.")
    counts = check_counts(surveyed.counts, target)
    _say_read(output, file, target, features, encoder, counts, surveyed.n_chunks)
    notes = surveyed.remarks.texts(seen_in) if surveyed.remarks is not None else []
    notes = [note for note in notes if not note.startswith("ignored")]
    output.note(*encoder.notes_, *notes, *notes_on_examples(features, counts))
    learned = learn(tables, target, model, surveyed, output, base_of(classifier).max_time)
    counts = dict(sorted(learned.counts.items()))
    return Done(encoder, counts, learned.seconds, learned.interrupted, learned.log_losses)


def _train_on_cluster(
    output: Output, classifier: Classifier, pattern: str, target: str, columns: Columns,
    file_format: FileFormat, address: str,
) -> tuple[Classifier, Done]:  # fmt: skip
    """Train on files that workers of a cluster read; the first tells what columns hold."""
    files = files_of(pattern)
    features, _ = read_examples(files[0], target, columns, file_format)
    encoder = _fitted_encoder(classifier, features, columns, file_format)
    told = Reading(target, columns.drop or [], file_format, encoder)
    found = train_on_cluster(output, base_of(classifier), files, told, address)
    _say_read(output, pattern, target, features, encoder, found.counts, found.n_files, "files")
    notes = found.remarks.texts("the first file")
    notes = [note for note in notes if not note.startswith("ignored")]
    output.note(*encoder.notes_, *notes, *notes_on_examples(features, found.counts))
    return found.classifier, Done(encoder, found.counts, found.seconds, False)


def _fitted_encoder(
    classifier: Classifier, features: Table, columns: Columns, file_format: FileFormat
) -> TableEncoder:
    encoder = fitted_encoder(features, columns, file_format)
    set_groups(classifier, encoder)
    return encoder


def save_model(
    path: Path, model: Model, output: Output, importances: bool | None, seconds: float
) -> tuple[list[Ranked], str]:
    """Save a model, and once more if it then knows which columns matter.

    Parameters
    ----------
    path : Path
    model : Model
    output : Output
    importances : bool or None
        Whether they are wanted; None: if they take little.
    seconds : float
        Time of training.

    Returns
    -------
    matter : list of Ranked
        Columns by importance.
    left_out : str
        What to say if they were left out without being asked to.
    """
    classifier, encoder, about = model
    base = base_of(classifier)
    base.verbose = 0  # progress was for this run
    save(path, classifier, encoder=encoder, about=about)
    n_rows = base.trained_.n_samples
    left_out = compute_importances(classifier, output, importances, n_rows, seconds)
    matter = columns_by_importance(classifier, encoder)
    if matter:  # the model knows more
        save(path, classifier, encoder=encoder, about=about)
    return matter, left_out


def fit(classifier: Classifier, X: Array, labels: Array, output: Output, table: Table) -> bool:
    """Fit with progress; return whether Ctrl-C cut it short, with a fit that can be used.

    ``table`` knows where rows are, for messages. Without a fit, or where the threshold of rejection
    was not found, KeyboardInterrupt goes on.
    """
    what = "training"
    if most_fits(classifier) > 1:
        what += f", up to {most_fits(classifier)} fits"
    try:
        # A risk that cannot be kept is told with what was trained.
        with output.noting_warnings(but="max_risk="), output.progress(what):
            classifier.fit(X, labels)
    except KeyboardInterrupt:
        rejecting = isinstance(classifier, RejectingClassifier)
        if not hasattr(classifier, "threshold_" if rejecting else "classes_"):
            raise KeyboardInterrupt(_what_was_missed(classifier)) from None
        base = base_of(classifier)
        if not base.draws_.finished:
            words = "stopped before one draw was complete; no model was written"
            raise KeyboardInterrupt(words) from None
        output.note(f"training was interrupted; the model is {_what_was_found(base)}")
        return True
    except ValueError as error:
        raise TableError(f"training failed: {in_options(at_places(error, table))}") from None
    check_is_fitted(classifier)
    _, _, kept = base_of(classifier).inference_reason_.partition(KEPT)
    if kept and not any(note.startswith(THE_FIT) for note in output.notes):
        output.note(in_options(f"{THE_FIT}{kept}."))
    return False


def check_worth(classifier: Classifier, labels: Array) -> None:
    """Raise a TableError where a model is clearly worse than the shares of the classes.

    By the labels of rows that it was not told, where it knows what it says of them.
    """
    base = base_of(classifier)
    proba = base.trained_.held_out if hasattr(base, "trained_") else None
    if proba is None or base.class_weight is not None:
        return
    number = {label: k for k, label in enumerate(base.classes_.tolist())}
    true = np.array([number[label] for label in labels.tolist()])
    shares = np.bincount(true) / len(true)
    right = np.maximum(proba[np.arange(len(true)), true].astype(float), np.finfo(float).tiny)
    losses = -np.log(right)
    lost = losses + np.log(shares[true])
    if lost.mean() > max(WORSE, CLEARLY * lost.std() / np.sqrt(len(lost))):
        raise TableError(
            f"the model is worse than one that knows only how frequent each class is: log-loss "
            f"{losses.mean():.4f} of rows left out, against {-np.log(shares[true]).mean():.4f}. No "
            f"model was written. Train longer, or look for columns that tell the classes apart; "
            f"--force writes it anyway."
        )


def _what_was_missed(classifier: Classifier) -> str:
    """Words on why there is no model, where a fit was complete and only the threshold was not."""
    if not isinstance(classifier, RejectingClassifier) or not hasattr(classifier, "estimator_"):
        return ""
    limits = ("coverage", "max_risk", "min_precision", "min_recall")
    given = [name for name in limits if getattr(classifier, name) is not None]
    if not given:  # with costs there is no threshold to find
        return ""
    options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
    return f"stopped before the threshold for {options} was found; no model was written"


def _what_was_found(classifier: BayesPointClassifier) -> str:
    """Words on how far an interrupted fit came, and whether it can be used."""
    _, first, kept = classifier.inference_reason_.partition(KEPT)
    if first:
        return f"the fit {kept}."
    closed = classifier.inference_ == "ep"  # whose draws are made when they are asked for
    reached = (
        [] if closed else [f"{classifier.n_draws_:,} of {counted(classifier.n_draws, 'draw')}"]
    )
    violated = most_violated(classifier)
    n_violated = 0 if violated is None else int(violated.max())
    if n_violated:
        reached.append(f"{counted(n_violated, 'training row')} on the wrong side")
    converged = bool(np.all(classifier.diagnostics_.get("converged", True)))
    if not converged:
        reached.append("expectation propagation has not converged")
    whole = classifier.n_draws_ >= classifier.n_draws and not n_violated and converged
    verdict = "settings may not be the best" if whole else "unfinished"
    found = f"what had been found until then{': ' * bool(reached)}{', '.join(reached)}"
    return f"{found}; {verdict}: train longer before you use it."


def _say_read(
    output: Output, file: str, target: str, features: Table, encoder: TableEncoder,
    counts: Mapping[str, int], n_chunks: int = 1, chunks: str = "chunks",
) -> None:  # fmt: skip
    kinds = {column.name: column for column in encoder.columns_}
    dates = [name for name, column in kinds.items() if isinstance(column, Date)]
    n_text = sum(
        column.dtype == object and not isinstance(kinds.get(name), Number | Date)
        for name, column in zip(features.names, features.columns, strict=True)
    )
    n_numbers = len(features.names) - n_text - len(dates)
    output.say(
        f"Read {shown_name(file)}: {counted(sum(counts.values()), 'row')}"
        f"{f' in {n_chunks:,} {chunks}' if n_chunks > 1 else ''}; "
        f"{counted(n_numbers, 'column')} of numbers, {n_text:,} of text"
        f"{f', {len(dates):,} of dates' if dates else ''}; "
        f"{counted(len(encoder.feature_names_), 'feature')}."
    )
    output.say(f"Target '{printable(target)}': {len(counts)} classes, {listed_classes(counts)}.")


def listed_classes(counts: Mapping[str, int]) -> str:
    """Classes with their numbers of rows, for people."""
    shown = [f"{printable(name)} ({count:,})" for name, count in counts.items()]
    return f"{', '.join(shown[:SHOWN_CLASSES])}{and_more(len(shown) - SHOWN_CLASSES)}"


# What people call a value of device_.
PLACES = {"cpu": "CPU", "cuda": "GPU"}


def _say_trained(
    output: Output, classifier: Classifier, about: Mapping[str, Any], model_path: Path,
    matter: Sequence[Ranked], left_out: str,
) -> None:  # fmt: skip
    facts, in_chunks = facts_of(classifier), "chunk_rows" in about
    why = facts["reason"].partition(KEPT)[0]  # a note says which fit was kept
    reason = "one chunk after the other" if in_chunks else in_options(why)
    output.say(
        f"Trained in {about['seconds']:.1f} s on the {PLACES[facts['device']]} by "
        f"{METHODS[facts['inference']].title} "
        f"({reason}): {facts['kernel']} kernel, {_width(facts)}, "
        f"softness {facts['softness']:.4g}"
        + (f", log evidence {facts['log_evidence']:.1f}." if "log_evidence" in facts else ".")
    )
    useless = facts.get("coverage") == 0
    if useless:
        _note_that_all_is_rejected(output, classifier, about["n_rows"])
    elif "threshold" in facts:
        _say_rejection(output, classifier, facts)
    elif not in_chunks:
        output.say("Rejects nothing; --coverage or --max-risk let it abstain.")
    if in_chunks:
        _say_log_losses(output, about["log_losses"])
        say_dropped(output, classifier)
    say_importances(output, matter, left_out)
    size = os.path.getsize(model_path)
    shown = shown_path(model_path)
    output.say(f"Model: {shown} ({size / 1000:,.0f} kB; training rows are inside).")
    if not (useless or about["interrupted"]):
        output.say(f"Next: bayespoint predict NEW.csv --model {shown} --output predictions.csv")
    figures = [column._asdict() for column in matter] or None
    document = {"model": str(model_path), "bytes": size, **about, "trained": facts}
    output.document(document | {"importances": figures})


def _say_log_losses(output: Output, losses: Sequence[float]) -> None:
    if losses:
        ends = {2: losses[0], len(losses) + 1: losses[-1]}
        shown = ", ".join(f"{loss:.4f} in chunk {number:,}" for number, loss in ends.items())
        output.say(f"Log-loss of rows before they were learned: {shown}.")


def say_dropped(output: Output, classifier: Classifier) -> None:
    """Say how many rows of a stream are no longer held, if there are any."""
    base = base_of(classifier)
    if n_rows := base.stream_.dropped:
        which = f"{counted(n_rows, 'row')}, the oldest, {'are' if n_rows > 1 else 'is'}"
        old = "" if base.half_life is None else "they no longer count or "
        output.say(f"{which} no longer held, as {old}memory is limited.")


def _note_that_all_is_rejected(
    output: Output, classifier: RejectingClassifier, n_rows: int
) -> None:
    if classifier.costs is not None:
        output.note("it rejects every row: by its costs deciding is never cheaper.")
        return
    if classifier.min_precision is not None or classifier.min_recall is not None:
        output.note(
            "it rejects every row: the limits could not be shown with probability "
            f"{1 - classifier.delta:g} and {n_rows:,} held-out rows. Lower --min-precision or "
            "--min-recall, raise --delta, or add rows."
        )
        return
    if classifier.max_risk is None:
        output.note("it rejects every row: no held-out row is surer than the others.")
        return
    output.note(
        f"it rejects every row: a risk of {classifier.max_risk:g} could not be shown with "
        f"probability {1 - classifier.delta:g}; at the threshold tried first, the bound for "
        f"{n_rows:,} held-out rows is {classifier.risk_bound_:.4f}. Raise --max-risk or --delta, "
        f"or add rows."
    )


def _say_rejection(
    output: Output, classifier: RejectingClassifier, facts: Mapping[str, Any]
) -> None:
    """Say how much is decided, and by which threshold or costs."""
    if classifier.costs is not None and not classifier.may_reject():
        output.say("Decides every row, at the least expected cost.")
        return
    share = "" if facts["coverage"] is None else f"{facts['coverage']:.1%} of held-out rows"
    if classifier.costs is not None:
        output.say(f"Decides {share or 'rows'} where that is cheaper than rejecting.")
        return
    threshold = facts["threshold"]
    if isinstance(threshold, list):
        named = zip(class_names(classifier), threshold, strict=True)
        shown = "; ".join(f"'{printable(name)}' {_where(t)}" for name, t in named)
        output.say(f"Decides {share}: {shown}.")
        return
    bound = f", risk at most {facts['risk_bound']:.4f}." if classifier.max_risk else "."
    at = "" if isinstance(threshold, str) else f" (threshold {threshold:.4g})"
    output.say(f"Decides {share}{at}{bound}")


def _where(threshold: float | str) -> str:
    """Where a label is decided for; thresholds that are not finite are text."""
    if isinstance(threshold, str):
        return {"-inf": "always", "inf": "never"}[threshold]
    return f"where its probability is above {threshold:.4g}"


def _width(facts: Mapping[str, Any]) -> str:
    gamma = facts["gamma"]
    if isinstance(gamma, list):
        of_each = f"gamma {min(gamma):.4g} to {max(gamma):.4g}, one for each column"
        return f"{of_each} ({facts['widths']})" if "widths" in facts else of_each
    return f"gamma {gamma:.4g}"
