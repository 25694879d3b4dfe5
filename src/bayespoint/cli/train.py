"""``bayespoint train``: from a file of examples to a model file."""

import os
import time

import numpy as np
import typer
from sklearn.utils.validation import check_is_fitted

from bayespoint import RejectingClassifier, __version__
from bayespoint.cli.deciding import base_of
from bayespoint.cli.inputs import check_classes, check_column, load_table, shown_name, split_target
from bayespoint.cli.output import INTERRUPTED, Output, UsageError, check_writable, exit_codes
from bayespoint.cli.settings import check_folds, make_classifier
from bayespoint.encoder import TableEncoder
from bayespoint.model_file import save
from bayespoint.tables import TableError, printable

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
    with exit_codes():
        output = Output(quiet=quiet, json=json)
        check_writable(model, "--model")
        classifier = make_classifier(settings)
        features, labels = _read(file, target, drop, categorical, format, header)
        counts = check_classes(labels, target)
        check_folds(counts, settings)
        encoder = TableEncoder(max_categories).fit(features, categorical)
        X, notes = encoder.encode(features)
        _say_read(output, file, target, features, encoder, counts)
        for note in encoder.notes_ + [note for note in notes if not note.startswith("ignored")]:
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


def _read(file, target, drop, categorical, format, header):
    if target in drop:
        raise UsageError(f"--drop names the target '{printable(target)}'.")
    table = load_table(
        file, format=format, text=[target, *categorical], header=header, drop=drop
    )  # fmt: skip
    for name in categorical:
        check_column(table, name, "--categorical")
    return split_target(table, target)


def fit(classifier, X, labels, output):
    """Fit with progress; return whether Ctrl-C cut it short, with a fit that can be used.

    Without one, or where the threshold of rejection was not found, KeyboardInterrupt goes on.
    """
    try:
        with output.noting_warnings(), output.progress("training"):
            classifier.fit(X, labels)
    except KeyboardInterrupt:
        if isinstance(classifier, RejectingClassifier) or not hasattr(classifier, "classes_"):
            raise
        output.note("training was interrupted; the model is what had been found until then.")
        return True
    except ValueError as error:
        raise TableError(f"training failed: {printable(str(error), 400)}") from None
    check_is_fitted(classifier)
    return False


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
        f"Read {shown_name(file)}: {features.n_rows:,} rows; {len(features.names) - n_text:,} "
        f"columns of numbers, {n_text:,} of text; {len(encoder.feature_names_):,} features."
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
    if "threshold" in facts:
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
    output.say(f"Next: bayespoint predict NEW.csv --model {shown} --output predictions.csv")
    output.document({"model": str(model), "bytes": size, **about, "trained": facts})


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
        facts |= {"coverage": classifier.coverage_, "risk_bound": classifier.risk_bound_}
    return facts


def _short(value):
    return value if isinstance(value, str) else f"{value:.4g}"
