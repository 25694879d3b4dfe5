"""How sure a fitted classifier is of its decisions, by several rules."""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from bayespoint._support.types import Array
from bayespoint.estimators.risk import numbers_of_labels
from bayespoint.space.given import check_answers, numbers

RULES = ("probability", "gap", "output", "vote")
# As many as BayesPointClassifier draws by default: a share is then known to 0.05 at worst.
N_VOTES = 100


def confidence_of(estimator: Any, X: Any, rule: Any, labels: Any = None) -> Array:
    """Confidences of a fitted classifier by a rule, shape (n_samples,).

    ``labels`` are those that it predicts, where they are known already.
    """
    check_rule(rule)
    if rule in ("vote", "probability") and labels is None:
        labels = estimator.predict(X)
    if rule == "vote":
        return _vote_share(estimator, X, labels)
    if callable(rule):
        return numbers("confidence(estimator, X)", rule(estimator, X), finite=False)
    if rule == "probability":
        # Not always the largest one: labels may have a threshold of their own.
        number = numbers_of_labels("predict(X)", labels, estimator.classes_)
        return _at_labels(number, label_proba(estimator, X))[0]
    outputs = _outputs(estimator, X)
    if rule == "output":
        return outputs.max(axis=1)
    plain, log_weight = outputs, log_weight_of(estimator)
    if log_weight is not None:
        plain = outputs - (log_weight if len(log_weight) > 2 else log_weight - log_weight[::-1])
    at_label, others = _at_labels(outputs.argmax(axis=1), plain)
    return at_label - others


def confidence_of_proba(weighted: Array, proba: Array, rule: str) -> Array:
    """Confidences by "probability", or by "gap" where outputs are log-odds or log-probabilities.

    ``weighted`` decide the labels, ``proba`` are those without class weights.
    """
    at_label, others = _at_labels(weighted.argmax(axis=1), proba.astype(np.float64))
    if rule == "probability":
        return at_label
    tiny = np.finfo(float).tiny
    gap = np.log(np.maximum(at_label, tiny)) - np.log(np.maximum(others, tiny))
    return gap if proba.shape[1] > 2 else 2 * gap  # of -f and f


def label_proba(estimator: Any, X: Any) -> Array:
    """Probabilities of the labels, before any shift by ``class_weight``, (n_samples, n_classes).

    Of classifiers other than ours, which are trained with their class weights, ``predict_proba``.
    """
    check_has_proba(estimator)
    proba = said(estimator, "predict_proba", X).astype(np.float64)
    return unweighted(proba, log_weight_of(estimator))


def said(estimator: Any, method: str, X: Any) -> Array:
    """What a method of a classifier, ours or not, says of rows; none of it is NaN."""
    found = np.asarray(getattr(estimator, method)(X))
    return check_answers(f"{type(estimator).__name__}.{method}", found)


def check_has_proba(estimator: Any) -> None:
    """Refuse a classifier without probabilities."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"{type(estimator).__name__} has no predict_proba, which costs, limits per class, "
            'prediction sets and confidence="probability" need; wrap it in '
            "sklearn.calibration.CalibratedClassifierCV"
        )


def log_weight_of(estimator: Any) -> Array | None:
    """Logarithms of the class weights that shift probabilities of ours; None where none do."""
    predictor = getattr(unwrapped(estimator), "predictor_", None)
    log_weight = getattr(predictor, "log_weight", None)
    return None if log_weight is None or np.ptp(log_weight) == 0 else log_weight


def class_weights_of(estimator: Any) -> dict[str, Any]:
    """Parameters called ``class_weight`` that are set, inside the estimator as well.

    Those of a FrozenEstimator, and those that a search has chosen, are those of its heart.
    """
    params = estimator.get_params(deep=True) | unwrapped(estimator).get_params(deep=True)
    return {
        name: value for name, value in params.items()
        if name.split("__")[-1] == "class_weight" and value is not None
    }  # fmt: skip


def unweighted(proba: Array, log_weight: Array | None) -> Array:
    """Probabilities that are shifted by class weights, without them: p_c / w_c, renormalised."""
    if log_weight is None:
        return proba
    proba = proba * np.exp(log_weight.min() - log_weight)
    return proba / proba.sum(axis=1, keepdims=True)


def _at_labels(number: Array, values: Array) -> tuple[Array, Array]:
    """Values of labels by their numbers, and the largest one of the other labels."""
    label, others = number[:, None], values.copy()
    np.put_along_axis(others, label, -np.inf, axis=1)
    return np.take_along_axis(values, label, axis=1)[:, 0], others.max(axis=1)


def check_rule(rule: Any) -> None:
    """Refuse rules that are not known."""
    if not callable(rule) and rule not in RULES:
        raise ValueError(
            f"confidence={rule!r} is not known; use one of {RULES} or a callable(estimator, X)"
        )


def _outputs(estimator: Any, X: Any) -> Array:
    """One output per class, shape (n_samples, n_classes)."""
    if hasattr(estimator, "decision_function"):
        outputs = said(estimator, "decision_function", X).astype(np.float64)
        if outputs.ndim == 1:
            outputs = np.column_stack((-outputs, outputs))
    elif hasattr(estimator, "predict_proba"):
        outputs = said(estimator, "predict_proba", X).astype(np.float64)
    else:
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba, which "
            'confidence="output" and "gap" need; use confidence="vote", a callable, or wrap it in '
            "sklearn.calibration.CalibratedClassifierCV"
        )
    # With three classes pairwise outputs have the shape of outputs per class.
    pairwise = getattr(unwrapped(estimator), "decision_function_shape", None) == "ovo"
    if outputs.shape[1] != len(estimator.classes_) or (pairwise and outputs.shape[1] > 2):
        raise ValueError(
            f"{type(estimator).__name__} gives {outputs.shape[1]} outputs for "
            f"{len(estimator.classes_)} classes, not one for each class; for SVC set "
            'decision_function_shape="ovr", or give confidence as a callable'
        )
    return outputs


def _vote_share(estimator: Any, X: Any, predicted: Array) -> Array:
    """Share of the committee that agrees with the prediction."""
    model, X = unwrapped(estimator, X)
    if hasattr(model, "sample_proba"):
        # A fixed seed: the same case must get the same confidence in every call.
        proba = model.sample_proba(X, n_samples=N_VOTES, random_state=0)
        votes = np.argmax(proba, axis=2)
    elif hasattr(type(model), "estimators_samples_"):  # forests and bagging, not e.g. boosting
        X = check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)
        columns = getattr(model, "estimators_features_", [slice(None)] * len(model.estimators_))
        members = zip(model.estimators_, columns, strict=True)
        votes = np.array([member.predict(X[:, used]) for member, used in members]).astype(np.intp)
    else:
        raise TypeError(
            f'confidence="vote" needs a committee, but {type(model).__name__} has neither '
            "sample_proba nor members fitted on samples of the data; use BayesPointClassifier, a "
            'forest or bagging, or confidence="gap"'
        )
    return np.mean(model.classes_[votes] == predicted, axis=0)


def unwrapped(estimator: Any, X: Any = None) -> Any:
    """Classifier at the heart of pipelines and searches; with X, also the input it gets."""
    transformed = X
    while True:
        if isinstance(estimator, Pipeline):
            if X is not None and len(estimator) > 1:
                transformed = estimator[:-1].transform(transformed)
            estimator = estimator[-1]
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator if X is None else (estimator, transformed)
