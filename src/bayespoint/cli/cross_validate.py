"""``bayespoint cross-validate``: what error to expect, beside a guess and, if wanted, an SVM."""

import time
from copy import copy

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.svm import SVC

from bayespoint.cli.deciding import decide
from bayespoint.cli.inputs import check_classes, notes_on_examples, read_examples, shown_name
from bayespoint.cli.output import Output, counted, exit_codes, in_options
from bayespoint.cli.report.measures import brier_score, log_score
from bayespoint.cli.settings import check_folds, make_classifier
from bayespoint.cli.tracking import tracked
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.tables import TableError, printable

# What is measured: how it is written, and in words.
MEASURES = {
    "error": ("{:.2%}", "error"), "log_loss": ("{:.4f}", "log loss"), "brier": ("{:.4f}", "Brier"),
    "auc": ("{:.4f}", "AUC"), "coverage": ("{:.2%}", "decided"),
    "decided_error": ("{:.2%}", "error, decided"), "seconds": ("{:.2f}", "seconds a fold"),
}  # fmt: skip
OURS, GUESS, SVM = "bayespoint", "most frequent class", "SVC"
NAME_WIDTH, NUMBER_WIDTH = 20, 18


def run_cross_validate(
    file, target, settings, *, folds=5, repeats=1, svc=False, drop=(), categorical=(),
    max_categories=50, format=None, header=True, quiet=False, json=False,
):  # fmt: skip
    """Read, split, train and measure fold by fold, and say what came out."""
    with exit_codes():
        output = Output(quiet=quiet, json=json)
        classifier = _silent(make_classifier(settings))
        features, labels = read_examples(file, target, drop, categorical, format, header)
        counts = check_classes(labels, target)
        _check_counts(counts, folds, settings)
        for note in notes_on_examples(features, counts):
            output.note(note)
        splits = RepeatedStratifiedKFold(
            n_splits=folds, n_repeats=repeats, random_state=settings.seed
        )
        results: dict[str, list[dict]] = {OURS: [], GUESS: [], **({SVM: []} if svc else {})}
        steps = list(enumerate(splits.split(labels, labels), start=1))
        with output.noting_warnings():
            for number, rows in tracked(output, steps, "folds"):
                try:
                    data = _encoded(features, labels, rows, max_categories, categorical)
                    _measure_fold(results, classifier, data)
                except ValueError as error:
                    words = in_options(printable(str(error), 400))
                    raise TableError(f"fold {number}: {words}") from None
                except KeyboardInterrupt:
                    words = f"stopped after {number - 1} of {len(steps)} folds"
                    raise KeyboardInterrupt(words) from None
        test_share = 1 / (folds - 1)
        summary = {name: _summary(found, test_share) for name, found in results.items()}
        _say(output, file, features, folds, repeats, summary, results)
        output.document(
            {
                "file": shown_name(file), "target": target, "n_rows": len(labels),
                "classes": counts, "folds": folds, "repeats": repeats, "summary": summary,
                "each_fold": results, "standard_error": "Nadeau and Bengio (2003)",
                "notes": output.notes,
            }
        )  # fmt: skip


def _silent(classifier):
    """Without lines of progress: the folds have a bar."""
    getattr(classifier, "estimator", classifier).verbose = 0
    return classifier


def _check_counts(counts, folds, settings):
    name, least = min(counts.items(), key=lambda item: item[1])
    if least < folds:
        remedy = f"Use --folds {least}, or add rows." if least > 1 else "Add rows, or drop it."
        raise TableError(
            f"class '{printable(name)}' has {least} row{'s' * (least > 1)}; --folds {folds} needs "
            f"one for each fold. {remedy}"
        )
    check_folds({name: n - -(-n // folds) for name, n in counts.items()}, settings)


def _encoded(features, labels, rows, max_categories, categorical):
    """Training and test features and labels of a fold; the encoder sees training rows only."""
    train, test = rows
    seen = features.rows(train)
    encoder = TableEncoder(max_categories).fit(seen, categorical)
    new = encoder.transform(features.rows(test))
    return encoder.transform(seen), labels[train], new, labels[test]


def _measure_fold(results, classifier, data):
    X, y, X_test, y_test = data
    start = time.perf_counter()
    model = copy(classifier)
    decided = decide(model.fit(X, y), X_test)
    wrong = decided.labels != y_test
    found = {
        "error": float(wrong.mean()), **_proba_scores(model.classes_, y_test, decided.proba),
        "coverage": float(1 - decided.rejected.mean()),
        "decided_error": _mean(wrong[~decided.rejected]),
        "seconds": time.perf_counter() - start,
    }  # fmt: skip
    results[OURS].append(found)
    guess = DummyClassifier(strategy="prior").fit(X, y)
    scores = _proba_scores(guess.classes_, y_test, guess.predict_proba(X_test))
    results[GUESS].append({"error": float(np.mean(guess.predict(X_test) != y_test)), **scores})
    if SVM in results:
        results[SVM].append(_svc_scores(*data))


def _svc_scores(X, y, X_test, y_test):
    """Scores of scikit-learn's SVC with its default settings; it has no probabilities."""
    start = time.perf_counter()
    svc = SVC().fit(X, y)
    found = {"error": float(np.mean(svc.predict(X_test) != y_test))}
    if len(svc.classes_) == 2:
        found["auc"] = _auc(y_test == svc.classes_[1], svc.decision_function(X_test))
    return found | {"seconds": time.perf_counter() - start}


def _proba_scores(classes, y_test, proba):
    true = np.searchsorted(classes, y_test)
    found = {"log_loss": log_score(true, proba), "brier": brier_score(true, proba)}
    if len(classes) == 2:
        found["auc"] = _auc(true == 1, proba[:, 1])
    return found


def _auc(true, score):
    return float(roc_auc_score(true, score)) if 0 < np.mean(true) < 1 else None


def _mean(values):
    return float(np.mean(values)) if len(values) else None


def _summary(found, test_share):
    """Mean and standard error of each measure over the folds."""
    summary = {}
    for name in MEASURES:
        values = [fold[name] for fold in found if fold.get(name) is not None]
        if values:
            error = corrected_error(values, test_share)
            summary[name] = {"mean": float(np.mean(values)), "standard_error": error}
    return summary


def corrected_error(values, test_share):
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


def _say(output, file, features, folds, repeats, summary, results):
    times = f", {repeats} times" if repeats > 1 else ""
    output.say(
        f"{counted(features.n_rows, 'row')} of {shown_name(file)}, {folds} folds{times}."
    )  # fmt: skip
    names = [name for name in MEASURES if name in summary[OURS]]
    if summary[OURS]["coverage"]["mean"] == 1:
        names = [name for name in names if name not in ("coverage", "decided_error")]
    head = "".join(f"{name:>{NUMBER_WIDTH + 2}}" for name in summary)
    output.say(f"{'':<{NAME_WIDTH}}{head}")
    for name in names:
        cells = (_cell(found.get(name), MEASURES[name][0]) for found in summary.values())
        line = "".join(f"{cell:>{NUMBER_WIDTH + 2}}" for cell in cells)
        output.say(f"{MEASURES[name][1]:<{NAME_WIDTH}}{line}")
    output.say("Mean ± standard error over the folds, corrected for the training rows they share.")
    if SVM in results:
        output.say("SVC has scikit-learn's default settings, and the same encoded rows.")


def _cell(entry, form):
    if entry is None:
        return "–"
    mean, error = entry["mean"], entry["standard_error"]
    text = form.format(mean)
    return text if error is None or not np.isfinite(error) else f"{text} ± {form.format(error)}"
