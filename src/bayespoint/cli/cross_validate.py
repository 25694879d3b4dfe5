"""``bayespoint cross-validate``: what error to expect, beside a guess and, if wanted, an SVM."""

import time
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.svm import SVC

from bayespoint._support.types import Array
from bayespoint.cli.deciding import decide, has_costs
from bayespoint.cli.fitted import Classifier
from bayespoint.cli.inputs import (
    at_places,
    check_classes,
    fitted_encoder,
    notes_on_examples,
    read_examples,
)
from bayespoint.cli.options import Columns, FileFormat, Printing, Settings
from bayespoint.cli.output import Output, exit_codes, in_options, shown_name
from bayespoint.cli.report.measures import brier_score, log_score
from bayespoint.cli.settings import check_folds, check_names, make_classifier, set_groups
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import Table, TableError, counted, printable

# What is measured: how it is written, and in words.
MEASURES = {
    "error": ("{:.2%}", "error"), "log_loss": ("{:.4f}", "log loss"), "brier": ("{:.4f}", "Brier"),
    "auc": ("{:.4f}", "AUC"), "coverage": ("{:.2%}", "decided"),
    "decided_error": ("{:.2%}", "error, decided"), "cost": ("{:.4f}", "cost of a row"),
    "seconds": ("{:.2f}", "seconds per fold"),
}  # fmt: skip
OURS, GUESS, SVM = "bayespoint", "most frequent class", "SVC"
NAME_WIDTH, NUMBER_WIDTH = 20, 18

# What was measured on a fold; None where it is not defined.
Scores = dict[str, float | None]


class Fold(NamedTuple):
    """Training and test part of the rows."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def run_cross_validate(
    file: str, target: str, settings: Settings, columns: Columns, file_format: FileFormat,
    printing: Printing, *, folds: int = 5, repeats: int = 1, svc: bool = False,
) -> None:  # fmt: skip
    """Read, split, train and measure fold by fold, and say what came out."""
    with exit_codes():
        output = Output(quiet=printing.quiet, json=printing.json)
        classifier = make_classifier(settings)
        features, labels = read_examples(file, target, columns, file_format)
        counts = check_classes(labels, target)
        _check_counts(counts, folds, classifier)
        output.note(*notes_on_examples(features, counts))
        splits = RepeatedStratifiedKFold(
            n_splits=folds, n_repeats=repeats, random_state=settings.seed
        )
        results: dict[str, list[Scores]] = {OURS: [], GUESS: [], **({SVM: []} if svc else {})}
        steps = list(enumerate(splits.split(labels, labels), start=1))
        with output.noting_warnings():
            for number, (train, test) in output.tracked(steps, "folds"):
                try:
                    fold, encoder = _encoded(features, labels, train, test, columns, file_format)
                    set_groups(classifier, encoder)
                    measure_fold(results, classifier, fold)
                except ValueError as error:
                    words = in_options(at_places(error, features.rows(train)))
                    raise TableError(f"fold {number}: {words}") from None
                except KeyboardInterrupt:
                    words = f"stopped after {number - 1} of {len(steps)} folds"
                    raise KeyboardInterrupt(words) from None
        test_share = 1 / (folds - 1)
        summary = {name: _summary(scores, test_share) for name, scores in results.items()}
        times = f", {repeats} times" if repeats > 1 else ""
        output.say(f"{counted(len(labels), 'row')} of {shown_name(file)}, {folds} folds{times}.")
        _say_summary(output, summary)
        output.document(
            {
                "file": shown_name(file), "target": target, "n_rows": len(labels),
                "classes": counts, "folds": folds, "repeats": repeats, "summary": summary,
                "each_fold": results, "standard_error": "Nadeau and Bengio (2003)",
                "notes": output.notes,
            }
        )  # fmt: skip


def _check_counts(counts: Mapping[str, int], folds: int, classifier: Classifier) -> None:
    name, least = min(counts.items(), key=lambda item: item[1])
    if least < folds:
        remedy = f"Use --folds {least}, or add rows." if least > 1 else "Add rows, or drop it."
        raise TableError(
            f"class '{printable(name)}' has {counted(least, 'row')}; --folds {folds} needs one "
            f"for each fold. {remedy}"
        )
    check_names(counts, classifier)
    check_folds({name: n - -(-n // folds) for name, n in counts.items()}, classifier)


def _encoded(
    features: Table, labels: Array, train: Array, test: Array, columns: Columns,
    file_format: FileFormat,
) -> tuple[Fold, TableEncoder]:  # fmt: skip
    """Encode both parts of a fold; the encoder sees training rows only."""
    seen = features.rows(train)
    encoder = fitted_encoder(seen, columns, file_format)
    new = encoder.transform(features.rows(test))
    return Fold(encoder.transform(seen), labels[train], new, labels[test]), encoder


def measure_fold(results: dict[str, list[Scores]], classifier: Classifier, fold: Fold) -> None:
    """Add the scores of the classifier, and of what it is compared with, on one fold."""
    start = time.perf_counter()
    model = copy(classifier)
    decided = decide(model.fit(fold.X, fold.y), fold.X_test)
    wrong = decided.labels != fold.y_test
    scores = {
        "error": float(wrong.mean()), **_proba_scores(model.classes_, fold.y_test, decided.proba),
        "coverage": float(1 - decided.rejected.mean()),
        "decided_error": _mean(wrong[~decided.rejected]),
        "seconds": time.perf_counter() - start,
    }  # fmt: skip
    if has_costs(model):
        scores["cost"] = -float(model.score(fold.X_test, fold.y_test))
    results[OURS].append(scores)
    guess = DummyClassifier(strategy="prior").fit(fold.X, fold.y)
    scores = _proba_scores(guess.classes_, fold.y_test, guess.predict_proba(fold.X_test))
    results[GUESS].append({"error": _mean(guess.predict(fold.X_test) != fold.y_test), **scores})
    if SVM in results:
        results[SVM].append(_svc_scores(fold))


def _svc_scores(fold: Fold) -> Scores:
    """Scores of scikit-learn's SVC with its default settings; it has no probabilities."""
    start = time.perf_counter()
    svc = SVC().fit(fold.X, fold.y)
    scores: Scores = {"error": _mean(svc.predict(fold.X_test) != fold.y_test)}
    if len(svc.classes_) == 2:
        scores["auc"] = _auc(fold.y_test == svc.classes_[1], svc.decision_function(fold.X_test))
    return scores | {"seconds": time.perf_counter() - start}


def _proba_scores(classes: Array, y_test: Array, proba: Array) -> Scores:
    true = np.searchsorted(classes, y_test)
    scores: Scores = {"log_loss": log_score(true, proba), "brier": brier_score(true, proba)}
    if len(classes) == 2:
        scores["auc"] = _auc(true == 1, proba[:, 1])
    return scores


def _auc(true: Array, score: Array) -> float | None:
    return float(roc_auc_score(true, score)) if 0 < np.mean(true) < 1 else None


def _mean(values: Array) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _summary(folds: Sequence[Scores], test_share: float) -> dict[str, Scores]:
    """Mean and standard error of each measure over the folds."""
    summary: dict[str, Scores] = {}
    for name in MEASURES:
        values = [score for scores in folds if (score := scores.get(name)) is not None]
        if values:
            error = corrected_error(values, test_share)
            summary[name] = {"mean": float(np.mean(values)), "standard_error": error}
    return summary


def corrected_error(values: Sequence[float], test_share: float) -> float | None:
    """Standard error of a mean over folds that share training rows.

    The variance over the folds counts with 1/J + n_test/n_train for J folds instead of 1/J:
    C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52, 2003.

    Parameters
    ----------
    values : sequence of float
        One a fold.
    test_share : float
        Test rows over training rows.

    Returns
    -------
    float or None
        None for a single fold.

    Examples
    --------
    >>> from bayespoint.cli.cross_validate import corrected_error
    >>> round(corrected_error([0.1, 0.2, 0.1, 0.2], 1 / 3), 4)
    0.0441
    """
    if len(values) < 2:
        return None
    return float(np.sqrt((1 / len(values) + test_share) * np.var(values, ddof=1)))


def _say_summary(output: Output, summary: Mapping[str, Mapping[str, Scores]]) -> None:
    names = [name for name in MEASURES if name in summary[OURS]]
    if summary[OURS]["coverage"]["mean"] == 1:
        names = [name for name in names if name not in ("coverage", "decided_error")]
    head = "".join(f"{name:>{NUMBER_WIDTH + 2}}" for name in summary)
    output.say(f"{'':<{NAME_WIDTH}}{head}")
    for name in names:
        cells = (_cell(measures.get(name), MEASURES[name][0]) for measures in summary.values())
        line = "".join(f"{cell:>{NUMBER_WIDTH + 2}}" for cell in cells)
        output.say(f"{MEASURES[name][1]:<{NAME_WIDTH}}{line}")
    output.say("Mean ± standard error over the folds, corrected for the training rows they share.")
    if SVM in summary:
        output.say("SVC has scikit-learn's default settings, and the same encoded rows.")


def _cell(entry: Mapping[str, Any] | None, form: str) -> str:
    if entry is None:
        return "–"
    mean, error = entry["mean"], entry["standard_error"]
    text = form.format(mean)
    return text if error is None or not np.isfinite(error) else f"{text} ± {form.format(error)}"
