"""``bayespoint train``: from a file of examples to a model file."""

import os
import time

import numpy as np
import typer
from sklearn.utils.validation import check_is_fitted

from bayespoint import RejectingClassifier, __version__
from bayespoint.cli.deciding import base_of
from bayespoint.cli.inputs import check_classes, notes_on_examples, read_examples, shown_name
from bayespoint.cli.output import (
    INTERRUPTED,
    Output,
    check_writable,
    counted,
    exit_codes,
    in_options,
)
from bayespoint.cli.settings import FOLDS, check_folds, make_classifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import save
from bayespoint.io.tables import TableError, printable

METHOD_NAMES = {
    "ep": "expectation propagation",
    "billiard": "billiard",
    "perceptron": "perceptrons",
    "gibbs": "Gibbs sampler",
}
# Classes listed with their counts.
SHOWN_CLASSES = 12


def run_train(
    file, target, model, settings, *, drop=(), categorical=(), max_categories=50, format=None,
    header=True, quiet=False, json=False,
):  # fmt: skip
    """Read, encode, train, save, and say what was done."""
    with exit_codes("stopped; no model was written"):
        output = Output(quiet=quiet, json=json)
        check_writable(model, "--model", [(file, "the data")])
        classifier = make_classifier(settings)
        features, labels = read_examples(file, target, drop, categorical, format, header)
        counts = check_classes(labels, target)
        check_folds(counts, settings)
        encoder = TableEncoder(max_categories).fit(features, categorical)
        X, notes = encoder.encode(features)
        _say_read(output, file, target, features, encoder, counts)
        notes = [note for note in notes if not note.startswith("ignored")]
        for note in encoder.notes_ + notes + notes_on_examples(features, counts):
            output.note(note)
        start = time.perf_counter()
        interrupted = fit(classifier, X, labels, output)
        about = {
            "file": shown_name(file), "target": target,
            "columns": [column.name for column in encoder.columns_],
            "n_rows": len(labels), "n_features": X.shape[1], "classes": counts,
            "options": _plain(settings), "seconds": round(time.perf_counter() - start, 3),
            "version": __version__, "interrupted": interrupted, "notes": output.notes,
        }  # fmt: skip
        base_of(classifier).verbose = 0  # progress was for this run
        save(model, classifier, encoder=encoder, about=about)
        _say_trained(output, classifier, about, model)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


def fit(classifier, X, labels, output):
    """Fit with progress; return whether Ctrl-C cut it short, with a fit that can be used.

    Without one, or where the threshold of rejection was not found, KeyboardInterrupt goes on.
    """
    rejecting = isinstance(classifier, RejectingClassifier)
    what = f"training, {FOLDS + 1} fits" if rejecting else "training"
    try:
        # A risk that cannot be kept is told with what was trained.
        with output.noting_warnings(but="max_risk="), output.progress(what):
            classifier.fit(X, labels)
    except KeyboardInterrupt:
        if rejecting or not hasattr(classifier, "classes_"):
            raise
        if not np.any(classifier._draws_["finished"]):
            words = "stopped before one draw was complete; no model was written"
            raise KeyboardInterrupt(words) from None
        output.note(
            "training was interrupted; the model is what had been found until then: "
            + _what_is_missing(classifier)
        )
        return True
    except ValueError as error:
        raise TableError(f"training failed: {in_options(printable(str(error), 400))}") from None
    check_is_fitted(classifier)
    return False


def _what_is_missing(classifier):
    """Words on how far an interrupted fit came, and whether it can be used."""
    found = [f"{classifier.n_draws_:,} of {counted(classifier.n_draws, 'draw')}"]
    violated = np.max(classifier._draws_.get("violated", 0), initial=0)
    if violated:
        found.append(f"{counted(int(violated), 'training row')} on the wrong side")
    converged = bool(np.all(classifier.diagnostics_.get("converged", True)))
    if not converged:
        found.append("expectation propagation has not converged")
    whole = classifier.n_draws_ >= classifier.n_draws and not violated and converged
    verdict = "settings may not be the best" if whole else "unfinished"
    return f"{', '.join(found)}; {verdict}: train longer before you use it."


def _plain(settings):
    return {
        name: str(value) if name == "inference" else value
        for name, value in settings._asdict().items()
    }


def _say_read(output, file, target, features, encoder, counts):
    n_text = sum(column.dtype == object for column in features.columns)
    shown = [f"{printable(name)} ({count:,})" for name, count in counts.items()]
    more = f" and {len(shown) - SHOWN_CLASSES} more" if len(shown) > SHOWN_CLASSES else ""
    output.say(
        f"Read {shown_name(file)}: {counted(features.n_rows, 'row')}; "
        f"{counted(len(features.names) - n_text, 'column')} of numbers, {n_text:,} of text; "
        f"{counted(len(encoder.feature_names_), 'feature')}."
    )
    output.say(
        f"Target '{printable(target)}': {len(counts)} classes, "
        f"{', '.join(shown[:SHOWN_CLASSES])}{more}."
    )


def _say_trained(output, classifier, about, model):
    facts = trained_facts(classifier)
    output.say(
        f"Trained in {about['seconds']:.1f} s by {METHOD_NAMES[facts['inference']]} "
        f"({facts['reason']}): gamma {facts['gamma']:.4g}, softness {facts['softness']:.4g}"
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
    size = os.path.getsize(model)
    shown = printable(str(model), 200)
    output.say(f"Model: {shown} ({size / 1000:,.0f} kB; training rows are inside).")
    if not (useless or about["interrupted"]):
        output.say(f"Next: bayespoint predict NEW.csv --model {shown} --output predictions.csv")
    output.document({"model": str(model), "bytes": size, **about, "trained": facts})


def _note_that_all_is_rejected(output, classifier, n_rows):
    if classifier.max_risk is None:
        output.note("it rejects every row: no held-out row is surer than the others.")
        return
    output.note(
        f"it rejects every row: no threshold holds a risk of {classifier.max_risk:g} with "
        f"probability {1 - classifier.delta:g}; the best bound for {n_rows:,} held-out rows "
        f"is {classifier.risk_bound_:.4f}. Raise --max-risk or --delta, or add rows."
    )


def trained_facts(classifier):
    """What a fitted classifier tells about itself, of plain types.

    Parameters
    ----------
    classifier : BayesPointClassifier or RejectingClassifier

    Returns
    -------
    dict
    """
    base = base_of(classifier)
    noise = np.asarray(base.label_noise_, dtype=float)
    facts = {
        "inference": base.inference_, "reason": base.inference_reason_, "gamma": base.gamma_,
        "softness": base.softness_, "bias": base.bias_, "label_noise": noise.tolist(),
        "n_draws": int(base.n_draws_), "n_support": len(base.support_),
    }  # fmt: skip
    if getattr(base, "log_evidence_", None) is not None:
        facts["log_evidence"] = float(base.log_evidence_)
    if base is not classifier:
        threshold = float(classifier.threshold_)
        facts["threshold"] = threshold if np.isfinite(threshold) else str(threshold)
        facts["coverage"] = classifier.coverage_
        if classifier.max_risk is not None:
            facts["risk_bound"] = classifier.risk_bound_
    return facts


def _short(value):
    return value if isinstance(value, str) else f"{value:.4g}"
