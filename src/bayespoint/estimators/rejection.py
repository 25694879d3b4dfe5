"""Deciding only the cases a classifier is sure of: a wrapper that abstains."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bayespoint._support.types import Array
from bayespoint.estimators.confidence import check_rule, confidence_of, confidence_of_proba
from bayespoint.estimators.risk import (
    aurc_of,
    check_number,
    checked,
    checked_weight,
    errors_of,
    threshold_for_coverage,
    threshold_for_risk,
    warn_that_none_passes,
)

# Folds where the classifier does not know what it says of rows that it has not seen.
AUTO_FOLDS = 5


class _HeldOut(NamedTuple):
    """Cases that the deciding model has not seen."""

    confidence: dict[Any, Array]  # by rule, (n,)
    errors: Array  # (n,)
    expected: Array | None  # (n,), what the model says of the probability of an error
    calibrated: bool = False  # whether that was fitted to such cases


def _estimator_has(method: str) -> Callable[[Any], bool]:
    def has(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), method)

    return has


class RejectingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any scikit-learn classifier, with the right to abstain when it is not sure.

    A case is decided if its confidence is above ``threshold_``, which `fit` finds from cases the
    deciding model has not seen: for a wanted coverage, or for a risk not to be exceeded.

    Parameters
    ----------
    estimator : estimator
        The classifier, or a pipeline that ends in one.
    coverage : float in (0, 1], default=None
        Decide about this share of cases. Without `coverage` and `max_risk` all are decided.
    max_risk : float in (0, 1), default=None
        Decide as many cases as possible while the error among decided cases is at most this with
        probability at least ``1 - delta`` (see Notes). If that cannot be shown for any threshold,
        all cases are rejected, with a warning.
    delta : float in (0, 1), default=0.05
        Probability with which `max_risk` may fail.
    confidence : {"auto", "probability", "gap", "output", "vote"} or callable, default="auto"
        "auto": "probability" or "gap", whichever ranks the held-out cases better (``confidence_``
        says which). "probability": the largest one of ``predict_proba``.
        "output": the largest output (Herbrich and Graepel, 2001), from ``decision_function`` or,
        in its absence, ``predict_proba``. "gap": best minus second best output. A two-class
        ``decision_function`` f stands for the outputs -f and f, so these are abs(f) and 2 abs(f).
        "vote": share of committee members that agree with the prediction; members come from
        ``sample_proba`` if there is one, else from ``estimators_`` (forests, bagging).
        A callable gets the fitted estimator and X and returns one score per row.
    cv : "auto", int, splitter, iterable or "prefit", default="auto"
        Folds whose held-out rows give the threshold; each row may be held out once only.
        "auto": none where the classifier itself knows what it says of each row without it
        (``held_out_proba_``, also as the last step of a pipeline whose other steps do the same
        when they are fitted again without y), else five, with the settings that the final fit has
        chosen (``settled()``).
        "prefit": `estimator` is fitted already, and `fit` gets data that it has not seen.
    reject_label : object, default=None
        What `predict` gives for rejected cases; must not be one of the classes. With None,
        `predict` returns an array of dtype object.
    reject_cost : float, default=0.5
        Cost in `score` of a rejected case, where an error costs 1.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Its classes.
    threshold_ : float
        Cases with confidence above it are decided; -inf: all, inf: none.
    coverage_ : float
        Share of the held-out cases that the threshold decides.
    risk_bound_ : float
        Upper bound on the risk at the threshold; where every case is rejected, at the threshold
        that was tested first; 1 without `max_risk`.
    confidence_ : str or callable
        The rule used.
    n_features_in_ : int
        Number of features, if the classifier counts them.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier knows them.

    Notes
    -----
    With ``cv="prefit"`` the bound at each threshold is exact: if the rows given to `fit` and those
    to come are drawn independently from one distribution, the probability, over the rows given to
    `fit`, that the true risk of decided cases exceeds `max_risk` is at most `delta`. That several
    thresholds are tested one after the other takes them as fixed beforehand; they are ranks of the
    confidences, for which this is not proved, but tested on data whose risk is known.
    With folds, the bound is computed from the models of the folds, each on rows it has not seen,
    and used for `estimator_`, fitted again on all rows. It then holds as far as `estimator_` errs
    no more, and has the same distribution of confidences, as those models; usually it errs less.
    Outputs of all folds are pooled, which takes for granted that folds share one scale. The same
    goes for ``held_out_proba_``.

    Weights train the classifier; thresholds count each row of positive weight once, as the bound
    is about cases as they come.

    References
    ----------
    R. Herbrich and T. Graepel, "Large scale Bayes point machines", NIPS 13, 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from bayespoint import RejectingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RejectingClassifier(SVC(), coverage=0.9, reject_label=-1).fit(X, y)
    >>> clf.predict(X[[0, 50]]).tolist()
    [0, 1]
    >>> clf.coverage_
    0.9
    """

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float | None = None,
        max_risk: float | None = None,
        delta: float = 0.05,
        confidence: Any = "auto",
        cv: Any = "auto",
        reject_label: Any = None,
        reject_cost: float = 0.5,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.max_risk = max_risk
        self.delta = delta
        self.confidence = confidence
        self.cv = cv
        self.reject_label = reject_label
        self.reject_cost = reject_cost

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RejectingClassifier":
        """Fit the classifier and find the threshold.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed to the classifier's `fit`.

        Returns
        -------
        RejectingClassifier
            This object.
        """
        self.check_parameters(sample_weight)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if self._is_prefit():
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
        else:
            params = _fit_params(self.estimator, sample_weight)
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.predicted_dtype()  # a reject_label that is a class shows here, before any prediction
        self._find_threshold(X, y, sample_weight)
        return self

    def check_parameters(self, sample_weight: Any) -> None:
        """Check the parameters that do not depend on data."""
        if not is_classifier(self.estimator):
            raise ValueError(f"estimator={self.estimator!r} is not a classifier; give one")
        if self.coverage is not None and self.max_risk is not None:
            raise ValueError(
                f"coverage={self.coverage} and max_risk={self.max_risk} are both given, but each "
                "alone fixes the threshold; set one of them to None"
            )
        if self.coverage is not None:
            check_number("coverage", self.coverage, lambda c: 0 < c <= 1, "in (0, 1], as 0.9")
        if self.max_risk is not None:
            check_number("max_risk", self.max_risk, lambda r: 0 < r < 1, "in (0, 1), as 0.02")
        check_number("delta", self.delta, lambda d: 0 < d < 1, "in (0, 1), as 0.05")
        check_number("reject_cost", self.reject_cost, lambda c: 0 <= c < np.inf, ">= 0, as 0.5")
        if not (isinstance(self.confidence, str) and self.confidence == "auto"):
            check_rule(self.confidence)
        if isinstance(self.cv, str) and self.cv not in ("auto", "prefit"):
            raise ValueError(
                f'cv={self.cv!r} is not known; give "auto", a number of folds or "prefit"'
            )
        if self._is_prefit() and sample_weight is not None:
            raise ValueError(
                'sample_weight was given with cv="prefit", where nothing is trained and thresholds '
                "count every row once; leave it out"
            )

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _find_threshold(self, X: Any, y: Array, sample_weight: Any) -> None:
        self.threshold_, self.coverage_, self.risk_bound_ = -np.inf, 1.0, 1.0
        rules = self._rules()
        self.confidence_ = rules[0]
        if self.coverage is None and self.max_risk is None:
            return
        held_out = self._held_out(X, y, sample_weight, rules)
        n = len(held_out.errors)
        confidence = {rule: checked("confidence", c, n) for rule, c in held_out.confidence.items()}
        if self.coverage is not None:
            self.confidence_ = min(
                rules, key=lambda rule: aurc_of(held_out.errors, confidence[rule])
            )
            self.threshold_ = threshold_for_coverage(confidence[self.confidence_], self.coverage)
        elif self.max_risk is not None:
            self._keep_risk(held_out, confidence, self.max_risk)
        self.coverage_ = float(np.mean(confidence[self.confidence_] > self.threshold_))

    def _keep_risk(self, held_out: _HeldOut, confidence: dict[Any, Array], max_risk: float) -> None:
        """Take the rule that decides most; each is tested with its share of ``delta``."""
        delta, best = self.delta / len(confidence), -1.0
        for rule, sure in confidence.items():
            threshold, bound = threshold_for_risk(
                sure, held_out.errors, max_risk, delta, held_out.expected,
                sure_of_it=held_out.calibrated,
            )  # fmt: skip
            if np.mean(sure > threshold) > best:
                best = float(np.mean(sure > threshold))
                self.confidence_, self.threshold_, self.risk_bound_ = rule, threshold, bound
        if self.threshold_ == np.inf:
            warn_that_none_passes(max_risk, self.delta, len(held_out.errors), self.risk_bound_)

    def _rules(self) -> list[Any]:
        """Rules to choose from."""
        if not (isinstance(self.confidence, str) and self.confidence == "auto"):
            return [self.confidence]
        if not hasattr(self.estimator_, "predict_proba"):
            return ["gap"]
        # The larger probability of two is the larger gap.
        several = len(self.classes_) > 2 and hasattr(self.estimator_, "decision_function")
        return ["probability", "gap"] if several else ["probability"]

    def _held_out(self, X: Any, y: Array, sample_weight: Any, rules: list[Any]) -> _HeldOut:
        counted = checked_weight(sample_weight, len(y)) > 0
        if self._is_prefit():
            return _at(self.estimator_, X, y, rules)
        if isinstance(self.cv, str) and set(rules) <= {"probability", "gap"}:
            proba = _own_held_out(self.estimator_, X, y)
            if proba is not None:
                proba = np.asarray(proba)[counted]
                errors = errors_of(y[counted], self.classes_[proba.argmax(axis=1)])
                sure = {rule: confidence_of_proba(proba, rule) for rule in rules}
                return _HeldOut(sure, errors, 1.0 - proba.max(axis=1), calibrated=True)
        return self._out_of_fold(X, y, sample_weight, rules, counted)

    def _out_of_fold(
        self, X: Any, y: Array, sample_weight: Any, rules: list[Any], counted: Array
    ) -> _HeldOut:
        """Cases held out once, pooled over the folds."""
        folds: list[_HeldOut] = []

        def record(model: Any, X_test: Any, y_test: Any) -> float:
            folds.append(_at(model, X_test, y_test, rules))
            return 0.0

        estimator, cv = self.estimator, self.cv
        if isinstance(cv, str):
            estimator, cv = _with_settings(self.estimator, self.estimator_), AUTO_FOLDS
        # cross_validate slices data frames, sparse and precomputed kernels as each needs;
        # n_jobs=1 keeps `record` in this process whatever joblib's context says.
        rows = cross_validate(
            estimator,
            X,
            y,
            cv=cv,
            scoring=record,
            params=_fit_params(estimator, sample_weight),
            n_jobs=1,
            return_indices=True,
            error_score="raise",
        )["indices"]["test"]
        rows = np.concatenate(rows)
        if len(np.unique(rows)) < len(rows):
            raise ValueError(
                f"cv={self.cv!r} holds some rows out more than once, which would count them as "
                "several cases; use disjoint test folds, such as cv=5"
            )
        kept = counted[rows]
        sure = {r: np.concatenate([fold.confidence[r] for fold in folds])[kept] for r in rules}
        expected = [fold.expected for fold in folds if fold.expected is not None]
        return _HeldOut(
            sure, np.concatenate([fold.errors for fold in folds])[kept],
            np.concatenate(expected)[kept] if len(expected) == len(folds) else None,
        )  # fmt: skip

    def predicted_dtype(self) -> Any:
        """Type of array that holds the classes and the reject label; None: as predicted."""
        if self.coverage is None and self.max_risk is None:
            return None
        if self.reject_label is None:
            return np.dtype(object)
        if any(label == self.reject_label for label in self.classes_.tolist()):
            raise ValueError(
                f"reject_label={self.reject_label!r} is one of the classes; give a label that "
                "is not, or None"
            )
        # Other kinds would be converted by NumPy: 1 to "1", True to 1.
        label_dtype = np.asarray(self.reject_label).dtype
        if label_dtype.kind == self.classes_.dtype.kind:
            return np.promote_types(label_dtype, self.classes_.dtype)
        return np.dtype(object)

    def confidence_scores(self, X: Any) -> Array:
        """Return each row's confidence by the rule chosen, to compare with ``threshold_``."""
        check_is_fitted(self)
        return confidence_of(self.estimator_, X, self.confidence_)

    def reject(self, X: Any) -> Array:
        """Say which rows are left undecided: an array of bool, True where rejected."""
        return self._decide(X)[1]

    def _decide(self, X: Any) -> tuple[Array, Array]:
        check_is_fitted(self)
        labels = self.estimator_.predict(X)
        if self.threshold_ == -np.inf:
            return labels, np.zeros(len(labels), dtype=bool)
        return labels, ~(self.confidence_scores(X) > self.threshold_)

    def predict(self, X: Any) -> Array:
        """Predict labels, `reject_label` where the case is rejected.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels. Of dtype object if `reject_label` does not fit the type of the classes;
            the classifier's own labels if neither `coverage` nor `max_risk` is set.
        """
        labels, rejected = self._decide(X)
        dtype = self.predicted_dtype()
        if dtype is None:
            return labels
        labels = labels.astype(dtype)
        labels[rejected] = self.reject_label
        return labels

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Return the classifier's probabilities, of rejected rows as well."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Return the classifier's outputs, of rejected rows as well."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return 1 - (errors + reject_cost * rejected) / n, so that rejecting all does not win.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the cases.

        Returns
        -------
        float
            The accuracy, if nothing is rejected.
        """
        labels, rejected = self._decide(X)
        cost = np.where(rejected, self.reject_cost, errors_of(y, labels))
        weight = checked_weight(sample_weight, len(cost))
        return float(1.0 - np.average(cost, weights=weight))

    def __sklearn_tags__(self) -> Any:
        """Tags of the classifier inside, for one label per case."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
            tags.classifier_tags.multi_label = False
        return tags


def _at(model: Any, X: Any, y: Array, rules: list[Any]) -> _HeldOut:
    """Return what a model says of cases that it has not seen."""
    expected = None
    if hasattr(model, "predict_proba"):
        expected = 1.0 - np.asarray(model.predict_proba(X)).max(axis=1)
    sure = {rule: confidence_of(model, X, rule) for rule in rules}
    return _HeldOut(sure, errors_of(y, model.predict(X)), expected)


def _own_held_out(estimator: Any, X: Any, y: Array) -> Array | None:
    """``held_out_proba_`` of a classifier or of the last step of a pipeline, where it is honest."""
    last, before = estimator, []
    while isinstance(last, Pipeline):
        before.append(last[:-1])
        last = last.steps[-1][1]
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


def _with_settings(estimator: Any, fitted: Any) -> Any:
    """Copy of an estimator with the settings that its fit has chosen, where it can tell them.

    All folds together get as much of ``max_time`` as that fit.
    """
    if isinstance(estimator, Pipeline):
        copied = clone(estimator)
        name, last = copied.steps[-1]
        copied.steps[-1] = name, _with_settings(last, fitted.steps[-1][1])
        return copied
    if not hasattr(fitted, "settled"):
        return estimator
    settled = fitted.settled()
    if getattr(settled, "max_time", None) is not None:
        settled.max_time /= AUTO_FOLDS
    return settled


def _fit_params(estimator: Any, sample_weight: Any) -> dict[str, Any]:
    """Keyword that takes the weights to the last step's `fit`."""
    if sample_weight is None:
        return {}
    path = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        path += f"{name}__"
    if not has_fit_parameter(estimator, "sample_weight"):
        raise TypeError(
            f"sample_weight was given, but {type(estimator).__name__}.fit does not take it; "
            "leave it out or choose a classifier that does"
        )
    return {path + "sample_weight": sample_weight}
