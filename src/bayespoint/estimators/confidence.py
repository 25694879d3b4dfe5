"""How sure a fitted classifier is of its decisions, by several rules."""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from bayespoint._support.types import Array

RULES = ("probability", "gap", "output", "vote")
# As many as BayesPointClassifier draws by default: a share is then known to 0.05 at worst.
N_VOTES = 100


def confidence_of(estimator: Any, X: Any, rule: Any) -> Array:
    """Confidences of a fitted classifier by a rule, shape (n_samples,)."""
    check_rule(rule)
    if rule == "vote":
        return _vote_share(estimator, X)
    if callable(rule):
        return np.asarray(rule(estimator, X), dtype=np.float64)
    if rule == "probability":
        return np.asarray(estimator.predict_proba(X), dtype=np.float64).max(axis=1)
    outputs = _outputs(estimator, X)
    if rule == "output":
        return outputs.max(axis=1)
    second, best = np.partition(outputs, -2, axis=1)[:, -2:].T
    return best - second


def confidence_of_proba(proba: Array, rule: str) -> Array:
    """Confidences by "probability", or by "gap" where outputs are log-odds or log-probabilities."""
    second, best = np.partition(proba.astype(np.float64), -2, axis=1)[:, -2:].T
    if rule == "probability":
        return best
    tiny = np.finfo(float).tiny
    gap = np.log(np.maximum(best, tiny)) - np.log(np.maximum(second, tiny))
    return gap if proba.shape[1] > 2 else 2 * gap  # of -f and f


def check_rule(rule: Any) -> None:
    """Refuse rules that are not known."""
    if not callable(rule) and rule not in RULES:
        raise ValueError(
            f"confidence={rule!r} is not known; use one of {RULES} or a callable(estimator, X)"
        )


def _outputs(estimator: Any, X: Any) -> Array:
    """One output per class, shape (n_samples, n_classes)."""
    if hasattr(estimator, "decision_function"):
        outputs = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if outputs.ndim == 1:
            outputs = np.column_stack((-outputs, outputs))
    elif hasattr(estimator, "predict_proba"):
        outputs = np.asarray(estimator.predict_proba(X), dtype=np.float64)
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


def _vote_share(estimator: Any, X: Any) -> Array:
    """Share of the committee that agrees with the prediction."""
    predicted = estimator.predict(X)
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
