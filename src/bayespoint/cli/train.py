"""``bayespoint train``: from a file of examples to a model file."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from sklearn.utils.validation import check_is_fitted

from bayespoint import BayesPointClassifier, RejectingClassifier, __version__
from bayespoint._support.types import Array
from bayespoint.cli.fitted import Classifier, base_of, facts_of, most_violated
from bayespoint.cli.importances import (
    columns_by_importance,
    compute_importances,
    say_importances,
)
from bayespoint.cli.inputs import check_classes, notes_on_examples, read_examples
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
from bayespoint.cli.settings import check_folds, make_classifier, most_fits, set_groups
from bayespoint.estimators.importances import Ranked
from bayespoint.inference.methods import METHODS
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import save
from bayespoint.io.tables import Table, TableError, counted, printable
from bayespoint.io.tables.table import and_more

# Classes listed with their counts.
SHOWN_CLASSES = 12


def run_train(
    file: str, target: str, model_path: Path, settings: Settings, columns: Columns,
    file_format: FileFormat, printing: Printing, importances: bool | None = None,
) -> None:  # fmt: skip
    """Read, encode, train, save, and say what was done."""
    with exit_codes("stopped; no model was written"):
        output = Output(quiet=printing.quiet, json=printing.json)
        check_writable(model_path, "--model", data=file)
        classifier = make_classifier(settings, verbose=1)
        features, labels = read_examples(file, target, columns, file_format)
        counts = check_classes(labels, target)
        check_folds(counts, classifier)
        encoder = TableEncoder(columns.max_categories).fit(
            features, categorical=columns.categorical or ()
        )
        set_groups(classifier, encoder)
        X, notes = encoder.encode(features)
        _say_read(output, file, target, features, encoder, counts)
        notes = [note for note in notes if not note.startswith("ignored")]
        output.note(*encoder.notes_, *notes, *notes_on_examples(features, counts))
        start = time.perf_counter()
        interrupted = fit(classifier, X, labels, output)
        seconds = time.perf_counter() - start
        about = {
            "file": shown_name(file), "target": target,
            "columns": [column.name for column in encoder.columns_],
            "n_rows": len(labels), "n_features": X.shape[1], "classes": counts,
            "options": settings.stored(), "seconds": round(seconds, 3),
            "version": __version__, "interrupted": interrupted, "notes": output.notes,
        }  # fmt: skip
        base_of(classifier).verbose = 0  # progress was for this run
        save(model_path, classifier, encoder=encoder, about=about)
        wanted = False if interrupted else importances
        left_out = compute_importances(classifier, output, wanted, len(labels), seconds)
        if matter := columns_by_importance(classifier, encoder):  # the model knows more
            save(model_path, classifier, encoder=encoder, about=about)
        _say_trained(output, classifier, about, model_path, matter, left_out)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


def fit(classifier: Classifier, X: Array, labels: Array, output: Output) -> bool:
    """Fit with progress; return whether Ctrl-C cut it short, with a fit that can be used.

    Without one, or where the threshold of rejection was not found, KeyboardInterrupt goes on.
    """
    what = "training"
    if most_fits(classifier) > 1:
        what += f", up to {most_fits(classifier)} fits"
    try:
        # A risk that cannot be kept is told with what was trained.
        with output.noting_warnings(but="max_risk="), output.progress(what):
            classifier.fit(X, labels)
    except KeyboardInterrupt:
        if isinstance(classifier, RejectingClassifier) or not hasattr(classifier, "classes_"):
            raise
        if not classifier.draws_.finished:
            words = "stopped before one draw was complete; no model was written"
            raise KeyboardInterrupt(words) from None
        output.note(
            "training was interrupted; the model is what had been found until then: "
            + _what_is_missing(classifier)
        )
        return True
    except ValueError as error:
        raise TableError(f"training failed: {in_options(error)}") from None
    check_is_fitted(classifier)
    return False


def _what_is_missing(classifier: BayesPointClassifier) -> str:
    """Words on how far an interrupted fit came, and whether it can be used."""
    reached = [f"{classifier.n_draws_:,} of {counted(classifier.n_draws, 'draw')}"]
    violated = most_violated(classifier)
    n_violated = 0 if violated is None else int(violated.max())
    if n_violated:
        reached.append(f"{counted(n_violated, 'training row')} on the wrong side")
    converged = bool(np.all(classifier.diagnostics_.get("converged", True)))
    if not converged:
        reached.append("expectation propagation has not converged")
    whole = classifier.n_draws_ >= classifier.n_draws and not n_violated and converged
    verdict = "settings may not be the best" if whole else "unfinished"
    return f"{', '.join(reached)}; {verdict}: train longer before you use it."


def _say_read(
    output: Output, file: str, target: str, features: Table, encoder: TableEncoder,
    counts: Mapping[str, int],
) -> None:  # fmt: skip
    n_text = sum(column.dtype == object for column in features.columns)
    shown = [f"{printable(name)} ({count:,})" for name, count in counts.items()]
    output.say(
        f"Read {shown_name(file)}: {counted(features.n_rows, 'row')}; "
        f"{counted(len(features.names) - n_text, 'column')} of numbers, {n_text:,} of text; "
        f"{counted(len(encoder.feature_names_), 'feature')}."
    )
    output.say(
        f"Target '{printable(target)}': {len(counts)} classes, "
        f"{', '.join(shown[:SHOWN_CLASSES])}{and_more(len(shown) - SHOWN_CLASSES)}."
    )


# What people call a value of device_.
PLACES = {"cpu": "CPU", "cuda": "GPU"}


def _say_trained(
    output: Output, classifier: Classifier, about: Mapping[str, Any], model_path: Path,
    matter: Sequence[Ranked], left_out: str,
) -> None:  # fmt: skip
    facts = facts_of(classifier)
    output.say(
        f"Trained in {about['seconds']:.1f} s on the {PLACES[facts['device']]} by "
        f"{METHODS[facts['inference']].title} "
        f"({facts['reason']}): {facts['kernel']} kernel, {_width(facts)}, "
        f"softness {facts['softness']:.4g}"
        + (f", log evidence {facts['log_evidence']:.1f}." if "log_evidence" in facts else ".")
    )
    useless = "threshold" in facts and not facts["coverage"]
    if useless:
        _note_that_all_is_rejected(output, classifier, about["n_rows"])
    elif "threshold" in facts:
        output.say(
            f"Decides {facts['coverage']:.1%} of held-out rows (threshold "
            f"{_short(facts['threshold'])})"
            + (f", risk at most {facts['risk_bound']:.4f}." if classifier.max_risk else ".")
        )
    else:
        output.say("Rejects nothing; --coverage or --max-risk let it abstain.")
    say_importances(output, matter, left_out)
    size = os.path.getsize(model_path)
    shown = shown_path(model_path)
    output.say(f"Model: {shown} ({size / 1000:,.0f} kB; training rows are inside).")
    if not (useless or about["interrupted"]):
        output.say(f"Next: bayespoint predict NEW.csv --model {shown} --output predictions.csv")
    figures = [column._asdict() for column in matter] or None
    document = {"model": str(model_path), "bytes": size, **about, "trained": facts}
    output.document(document | {"importances": figures})


def _note_that_all_is_rejected(
    output: Output, classifier: RejectingClassifier, n_rows: int
) -> None:
    if classifier.max_risk is None:
        output.note("it rejects every row: no held-out row is surer than the others.")
        return
    output.note(
        f"it rejects every row: a risk of {classifier.max_risk:g} could not be shown with "
        f"probability {1 - classifier.delta:g}; where it was looked for first, the bound for "
        f"{n_rows:,} held-out rows is {classifier.risk_bound_:.4f}. Raise --max-risk or --delta, "
        f"or add rows."
    )


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _width(facts: Mapping[str, Any]) -> str:
    gamma = facts["gamma"]
    if isinstance(gamma, list):
        of_each = f"gamma {min(gamma):.4g} to {max(gamma):.4g}, one for each column"
        return f"{of_each} ({facts['widths']})" if "widths" in facts else of_each
    return f"gamma {gamma:.4g}"
