"""What a classifier says of cases that it has not seen: from its own fit, folds or new rows."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline

from bayespoint._support.types import Array
from bayespoint.estimators.confidence import (
    confidence_of,
    confidence_of_proba,
    label_proba,
    log_weight_of,
    unweighted,
)
from bayespoint.estimators.risk import errors_of, numbers_of_labels

# Folds where the classifier does not know what it says of rows that it has not seen.
AUTO_FOLDS = 5

# Settings that our classifiers may choose with the labels, and values that ask for it.
CHOSEN, ASKED = ("kernel", "gamma", "bias", "softness"), ("auto", "held-out", "evidence", "ard")

# Confidences that probabilities of held-out rows suffice for.
OF_PROBA = ("probability", "gap")


class HeldOut(NamedTuple):
    """Cases that the deciding model has not seen."""

    true: Array  # labels, (n,)
    predicted: Array  # labels, (n,)
    proba: Array | None  # of the labels, without class weights, (n, n_classes)
    confidence: dict[Any, Array]  # by rule, (n,)
    from_fit: bool = False  # whether the fit held them out one by one, and was calibrated with them

    @property
    def errors(self) -> Array:
        """Where the prediction is wrong, (n,)."""
        return errors_of(self.true, self.predicted)

    def expected_errors(self, classes: Array) -> Array | None:
        """What the model says of the probability that each prediction is wrong, (n,)."""
        if self.proba is None:
            return None
        number = numbers_of_labels("predict(X)", self.predicted, classes)[:, None]
        return 1.0 - np.take_along_axis(self.proba, number, axis=1)[:, 0]


class Source(NamedTuple):
    """Where held-out cases come from."""

    estimator: Any  # as given
    fitted: Any  # on all rows
    cv: Any
    params: dict[str, Any]  # of `fit` and of the splitter
    counted: Array  # rows of positive weight, (n,) of bool
    anew_below: int = 0  # rows; where there are fewer, settings are chosen anew in folds
    interrupted: bool = False  # whether Ctrl-C cut the fit short, so that none is to follow

    def chooses_anew(self, y: Array) -> bool:
        """Whether, with "auto", folds are to choose their settings instead of the fit itself."""
        automatic = isinstance(self.cv, str) and self.cv == "auto" and _asks(self.fitted)
        if self.interrupted or not automatic:
            return False
        counts = np.unique(y[self.counted], return_counts=True)[1]
        return bool(counts.sum() < self.anew_below and counts.min() >= AUTO_FOLDS)

    def raise_if_interrupted(self) -> None:
        """Raise KeyboardInterrupt, once all is found that takes no more fits."""
        if self.interrupted:
            raise KeyboardInterrupt


def held_out(source: Source, X: Any, y: Array, rules: list[Any]) -> HeldOut:
    """Hold cases out as ``cv`` says; with "auto" by the fit itself if that will do, else by folds.

    Parameters
    ----------
    source : Source
    X : array-like
    y : ndarray of shape (n,)
    rules : list
        Confidences that are wanted.

    Returns
    -------
    HeldOut
    """
    found = None if source.chooses_anew(y) else without_folds(source, X, y, rules)
    if found is None:
        source.raise_if_interrupted()
        found = _out_of_fold(source, X, y, rules)
    return found


def without_folds(source: Source, X: Any, y: Array, rules: list[Any]) -> HeldOut | None:
    """Cases held out that take no more fits: new rows, or those of the fit; None without."""
    if not isinstance(source.cv, str):
        return None
    if source.cv == "prefit":
        return _at(source.fitted, X, y, rules, source.fitted.classes_)
    weighted = _of_fit(source.fitted, X, y) if set(rules) <= set(OF_PROBA) else None
    if weighted is None:
        return None
    weighted, y = np.asarray(weighted)[source.counted], y[source.counted]
    proba = unweighted(weighted, log_weight_of(source.fitted))
    predicted = source.fitted.classes_[weighted.argmax(axis=1)]
    sure = {rule: confidence_of_proba(weighted, proba, rule) for rule in rules}
    return HeldOut(y, predicted, proba, sure, from_fit=True)


def _at(model: Any, X: Any, y: Array, rules: list[Any], classes: Array) -> HeldOut:
    """Return what a model says of cases that it has not seen."""
    proba = None
    if hasattr(model, "predict_proba"):
        found = label_proba(model, X)
        proba = np.zeros((len(found), len(classes)))  # a fold may lack a class
        proba[:, np.searchsorted(classes, model.classes_)] = found
    predicted = model.predict(X)
    sure = {rule: confidence_of(model, X, rule, predicted) for rule in rules}
    return HeldOut(y, predicted, proba, sure)


def _out_of_fold(source: Source, X: Any, y: Array, rules: list[Any]) -> HeldOut:
    """Cases held out once, pooled over the folds."""
    folds: list[HeldOut] = []

    def record(model: Any, X_test: Any, y_test: Any) -> float:
        folds.append(_at(model, X_test, y_test, rules, source.fitted.classes_))
        return 0.0

    estimator, cv = source.estimator, source.cv
    if isinstance(cv, str):
        estimator, cv = _of_folds(estimator, source.fitted, source.chooses_anew(y)), AUTO_FOLDS
    # cross_validate slices data frames, sparse and precomputed kernels as each needs;
    # n_jobs=1 keeps `record` in this process whatever joblib's context says.
    rows = cross_validate(
        estimator,
        X,
        y,
        cv=cv,
        scoring=record,
        params=source.params,
        n_jobs=1,
        return_indices=True,
        error_score="raise",
    )["indices"]["test"]
    rows = np.concatenate(rows)
    if len(np.unique(rows)) < len(rows):
        raise ValueError(
            f"cv={source.cv!r} holds some rows out more than once, which would count them as "
            "several cases; use disjoint test folds, such as cv=5"
        )
    return _pooled(folds, rules, source.counted[rows])


def _pooled(folds: list[HeldOut], rules: list[Any], kept: Array) -> HeldOut:
    proba = [fold.proba for fold in folds if fold.proba is not None]
    return HeldOut(
        np.concatenate([fold.true for fold in folds])[kept],
        np.concatenate([fold.predicted for fold in folds])[kept],
        np.concatenate(proba)[kept] if len(proba) == len(folds) else None,
        {r: np.concatenate([fold.confidence[r] for fold in folds])[kept] for r in rules},
    )


def _of_fit(estimator: Any, X: Any, y: Array) -> Array | None:
    """``held_out_proba_`` of a classifier or of the last step of a pipeline, where it is honest."""
    last, before = estimator, []
    while isinstance(last, Pipeline):
        before.append(last[:-1])
        last = last.steps[-1][1]
    if isinstance(last, FrozenEstimator):  # whose rows are not those given here
        return None
    proba = getattr(last, "held_out_proba_", None)
    if proba is None or len(proba) != len(y):  # other steps may leave rows out
        return None
    for steps in before:
        if len(steps.steps) and not _does_without_labels(steps, X):
            return None
        X = steps.transform(X) if len(steps.steps) else X
    return proba


def _does_without_labels(steps: Pipeline, X: Any) -> bool:
    """Whether transformers, fitted again without y, do the same: tags do not tell."""
    try:
        again = clone(steps).fit(X).transform(X)
    except Exception:  # what needs y says so in many ways
        return False
    found = steps.transform(X)
    if sp.issparse(found) and sp.issparse(again):
        return found.shape == again.shape and (found != again).nnz == 0
    return not sp.issparse(again) and np.array_equal(np.asarray(found), np.asarray(again))


def _asks(fitted: Any) -> bool:
    """Whether a classifier, or the last step of a pipeline, has chosen settings with the labels."""
    while isinstance(fitted, Pipeline):
        fitted = fitted.steps[-1][1]
    if isinstance(fitted, FrozenEstimator) or not hasattr(fitted, "settled"):
        return False
    values = (getattr(fitted, name, None) for name in CHOSEN)
    return any(isinstance(value, str) and value in ASKED for value in values)


def _of_folds(estimator: Any, fitted: Any, anew: bool) -> Any:
    """Copy of an estimator for folds: with the settings that its fit has chosen, or to choose anew.

    All folds together get as much of ``max_time`` as that fit.
    """
    if isinstance(estimator, Pipeline):
        copied = clone(estimator)
        name, last = copied.steps[-1]
        copied.steps[-1] = name, _of_folds(last, fitted.steps[-1][1], anew)
        return copied
    if isinstance(fitted, FrozenEstimator) or not hasattr(fitted, "settled"):
        return estimator
    of_fold = clone(estimator) if anew else fitted.settled()
    if getattr(of_fold, "max_time", None) is not None:
        of_fold.max_time /= AUTO_FOLDS
    return of_fold
