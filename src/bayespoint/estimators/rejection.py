"""Deciding only the cases a classifier is sure of: curves, their area, and a wrapper that abstains.

Cases are ordered by a confidence. Accepting the most confident share c (the coverage) leaves the
risk R(c), the error among accepted cases; the reject option trades one for the other.
"""

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaincinv
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
    get_tags,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bayespoint._support.types import Array, ArrayLike

_RULES = ("output", "gap", "vote")
# As many as BayesPointClassifier draws by default: a share is then known to 0.05 at worst.
N_VOTES = 100
# Ties that move the coverage further than this from the one asked for are worth a warning.
_COVERAGE_SLACK = 0.05


def risk_coverage_curve(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, *, sample_weight: Any = None
) -> tuple[Array, Array, Array]:
    """Risk among the most confident cases, for every coverage that a threshold can reach.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted labels.
    confidence : array-like of shape (n_samples,)
        The larger, the surer. Cases of equal confidence are accepted together, since no threshold
        separates them: they make one point of the curve.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight w counts as w copies; cases of weight 0 are left out.

    Returns
    -------
    coverage : ndarray of shape (n_distinct,)
        Accepted share, increasing to 1; one entry for each distinct confidence.
    risk : ndarray of shape (n_distinct,)
        Share of errors among the accepted cases.
    thresholds : ndarray of shape (n_distinct,)
        Decreasing; entry k accepts the cases with ``confidence >= thresholds[k]``.

    Examples
    --------
    >>> from bayespoint import risk_coverage_curve
    >>> coverage, risk, thresholds = risk_coverage_curve(
    ...     [0, 1, 1, 0], [0, 1, 0, 0], confidence=[0.9, 0.8, 0.5, 0.5])
    >>> coverage
    array([0.25, 0.5 , 1.  ])
    >>> risk
    array([0.  , 0.  , 0.25])
    >>> thresholds
    array([0.9, 0.8, 0.5])
    """
    errors = _errors(y_true, y_pred)
    sure = _checked("confidence", confidence, len(errors))
    weight = _checked_weight(sample_weight, len(errors))
    # Sorting ties by weight and error makes rounding, too, independent of the input's order.
    order = np.lexsort((errors, weight, -sure))
    order = order[weight[order] > 0]
    sure, weight, errors = sure[order], weight[order], errors[order]
    group_end = np.append(sure[1:] != sure[:-1], True)
    accepted = np.cumsum(weight)[group_end]
    wrong = np.cumsum(weight * errors)[group_end]
    return accepted / accepted[-1], wrong / accepted, sure[group_end]


def aurc(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, *, sample_weight: Any = None
) -> float:
    """Area under the risk-coverage curve: the smaller, the better the ordering and the labels.

    The area is ∫₀¹ R(c) dc with R(c) the risk at the smallest coverage, not below c, that a
    threshold reaches. Without ties that is the usual mean of the risks among the 1, 2, …, n most
    confident cases; tied cases all count with the risk at the end of their group. Unlike an average
    over random orders within ties it describes what a threshold can do, does not depend on the
    scale of the weights, and treats a weight w exactly as w copies. A confidence that ties many
    cases pays for it.

    Parameters
    ----------
    y_true, y_pred, confidence, sample_weight
        As for :func:`risk_coverage_curve`.

    Returns
    -------
    float
        In [0, 1]; the overall error if all confidences are equal.

    Examples
    --------
    >>> from bayespoint import aurc
    >>> aurc([0, 1, 1, 0], [0, 1, 0, 0], confidence=[0.9, 0.8, 0.5, 0.5])
    0.125
    """
    coverage, risk, _ = risk_coverage_curve(y_true, y_pred, confidence, sample_weight=sample_weight)
    return float(np.diff(coverage, prepend=0.0) @ risk)


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
    confidence : {"output", "gap", "vote"} or callable, default="gap"
        "output": the largest output (Herbrich and Graepel, 2001), from ``decision_function`` or,
        in its absence, ``predict_proba``. "gap": best minus second best output. A two-class
        ``decision_function`` f stands for the outputs -f and f, so these are abs(f) and 2 abs(f).
        "vote": share of committee members that agree with the prediction; members come from
        ``sample_proba`` if there is one, else from ``estimators_`` (forests, bagging).
        A callable gets the fitted estimator and X and returns one score per row.
    cv : int, splitter, iterable or "prefit", default=5
        Folds whose held-out rows give the threshold; each row may be held out once only.
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
        Upper bound on the risk at the threshold; 1 without `max_risk`.
    n_features_in_ : int
        Number of features, if the classifier counts them.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier knows them.

    Notes
    -----
    With ``cv="prefit"`` the promise of `max_risk` is exact: if the rows given to `fit` and those
    to come are drawn independently from one distribution, the probability, over the rows given to
    `fit`, that the true risk of decided cases exceeds `max_risk` is at most `delta`.
    With folds, the bound is computed from the models of the folds, each on rows it has not seen,
    and used for `estimator_`, fitted again on all rows. It then holds as far as `estimator_` errs
    no more, and has the same distribution of confidences, as those models; usually it errs less.
    Outputs of all folds are pooled, which takes for granted that folds share one scale.

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
        confidence: Any = "gap",
        cv: Any = 5,
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
            _check_number("coverage", self.coverage, lambda c: 0 < c <= 1, "in (0, 1], as 0.9")
        if self.max_risk is not None:
            _check_number("max_risk", self.max_risk, lambda r: 0 < r < 1, "in (0, 1), as 0.02")
        _check_number("delta", self.delta, lambda d: 0 < d < 1, "in (0, 1), as 0.05")
        _check_number("reject_cost", self.reject_cost, lambda c: 0 <= c < np.inf, ">= 0, as 0.5")
        _check_rule(self.confidence)
        if isinstance(self.cv, str) and self.cv != "prefit":
            raise ValueError(f'cv={self.cv!r} is not known; give a number of folds or "prefit"')
        if self._is_prefit() and sample_weight is not None:
            raise ValueError(
                'sample_weight was given with cv="prefit", where nothing is trained and thresholds '
                "count every row once; leave it out"
            )

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str)

    def _find_threshold(self, X: Any, y: Array, sample_weight: Any) -> None:
        self.threshold_, self.coverage_, self.risk_bound_ = -np.inf, 1.0, 1.0
        if self.coverage is None and self.max_risk is None:
            return
        if self._is_prefit():
            errors = _errors(y, self.estimator_.predict(X))
            confidence = confidence_of(self.estimator_, X, self.confidence)
        else:
            confidence, errors = self._out_of_fold(X, y, sample_weight)
        confidence = _checked("confidence", confidence, len(errors))
        if self.coverage is not None:
            self.threshold_ = _threshold_for_coverage(confidence, self.coverage)
        elif self.max_risk is not None:
            self.threshold_, self.risk_bound_ = _threshold_for_risk(
                confidence, errors, self.max_risk, self.delta
            )
        self.coverage_ = float(np.mean(confidence > self.threshold_))

    def _out_of_fold(self, X: Any, y: Array, sample_weight: Any) -> tuple[Array, Array]:
        """Confidences and errors of rows held out once, pooled over the folds."""
        folds: list[tuple[Array, Array]] = []

        def record(model: Any, X_test: Any, y_test: Any) -> float:
            confidence = confidence_of(model, X_test, self.confidence)
            folds.append((confidence, _errors(y_test, model.predict(X_test))))
            return 0.0

        # cross_validate slices data frames, sparse and precomputed kernels as each needs;
        # n_jobs=1 keeps `record` in this process whatever joblib's context says.
        rows = cross_validate(
            self.estimator,
            X,
            y,
            cv=self.cv,
            scoring=record,
            params=_fit_params(self.estimator, sample_weight),
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
        confidence, errors = (np.concatenate(parts) for parts in zip(*folds, strict=True))
        counted = _checked_weight(sample_weight, len(y))[rows] > 0
        return confidence[counted], errors[counted]

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
        return confidence_of(self.estimator_, X, self.confidence)

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
        cost = np.where(rejected, self.reject_cost, _errors(y, labels))
        weight = _checked_weight(sample_weight, len(cost))
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


def _threshold_for_coverage(confidence: Array, coverage: float) -> float:
    """Threshold that decides a share as near as possible to `coverage`, and more than none."""
    values, counts = np.unique(confidence, return_counts=True)
    rejected = np.append(0, np.cumsum(counts[:-1]))
    decided = 1.0 - rejected / len(confidence)
    nearest = np.argmin(np.abs(decided - coverage))
    missed_by = abs(decided[nearest] - coverage)
    if missed_by > max(_COVERAGE_SLACK, 1.0 / len(confidence)):
        warnings.warn(
            f"coverage={coverage} is out of reach: many cases have equal confidence, and the "
            f"nearest share that a threshold decides is {decided[nearest]:.3f}. Use a finer "
            'confidence, such as "gap".',
            stacklevel=4,
        )
    return float(-np.inf if nearest == 0 else values[nearest - 1])


def _threshold_for_risk(
    confidence: Array, errors: Array, max_risk: float, delta: float
) -> tuple[float, float]:
    """Loosest threshold that is shown to keep the risk, and the bound there; inf if none is.

    Let s(k) be the k-th largest confidence. Given s(k) = t, the cases strictly above t are
    independent draws from P(. | confidence > t), so their errors are binomial and the
    Clopper-Pearson bound holds for the rule "decide above s(k)", ties or not. The ranks k below are
    fixed by n, max_risk and delta alone, so Bonferroni over them is valid. (Testing from the
    strictest on at full delta would need thresholds fixed beforehand; those at ranks are random.)
    """
    n = len(confidence)
    n_levels = math.isqrt(n)  # a grid as fine as the noise of a share, 1/sqrt(n)
    counts = np.ceil(n * np.arange(1, n_levels + 1) / n_levels).astype(int)
    # Leave out counts too small to pass even without an error; keep the largest to report on.
    can_pass = (1.0 - max_risk) ** counts <= delta / n_levels
    can_pass[-1] = True
    counts = counts[can_pass]

    order = np.argsort(-confidence, kind="stable")
    thresholds = np.append(confidence[order], -np.inf)[counts]
    decided = n - np.searchsorted(confidence[order[::-1]], thresholds, side="right")
    wrong = np.append(0, np.cumsum(errors[order]))[decided]
    bounds = _binomial_upper_bound(wrong, decided, delta / len(counts))
    passed = np.flatnonzero(bounds <= max_risk)
    if len(passed) > 0:
        return float(thresholds[passed[-1]]), float(bounds[passed[-1]])
    best = float(bounds.min())
    warnings.warn(
        f"max_risk={max_risk} is not met by any threshold, so every case is rejected: with "
        f"delta={delta} and {n} held-out cases the best bound on the risk, among the coverages "
        f"tried for this max_risk, is {best:.4f}, too high by {best - max_risk:.4f}. Raise "
        f"max_risk or delta, or give more data.",
        stacklevel=4,
    )
    return np.inf, best


def _binomial_upper_bound(n_errors: Array, n_cases: Array, delta: float) -> Array:
    """Clopper-Pearson: largest p with P(Binomial(n_cases, p) <= n_errors) >= delta."""
    n_right = n_cases - n_errors
    bound = betaincinv(n_errors + 1.0, np.maximum(n_right, 1), 1.0 - delta)
    return np.where(n_right > 0, bound, 1.0)


def confidence_of(estimator: Any, X: Any, rule: Any) -> Array:
    """Confidences of a fitted classifier by a rule, shape (n_samples,)."""
    _check_rule(rule)
    if rule == "vote":
        return _vote_share(estimator, X)
    if callable(rule):
        return np.asarray(rule(estimator, X), dtype=np.float64)
    outputs = _outputs(estimator, X)
    if rule == "output":
        return outputs.max(axis=1)
    second, best = np.partition(outputs, -2, axis=1)[:, -2:].T
    return best - second


def _check_rule(rule: Any) -> None:
    if not callable(rule) and rule not in _RULES:
        raise ValueError(
            f"confidence={rule!r} is not known; use one of {_RULES} or a callable(estimator, X)"
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


def _errors(y_true: Any, y_pred: Any) -> Array:
    """Where the labels differ, as booleans."""
    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    if y_pred.dtype == object and any(label is None for label in y_pred):
        raise ValueError(
            "y_pred contains None, the mark of rejected cases; give the predictions before "
            "rejection, those of RejectingClassifier.estimator_"
        )
    if len({y.dtype.kind in "US" for y in (y_true, y_pred) if y.dtype != object}) > 1:
        raise ValueError(
            f"y_true has dtype {y_true.dtype} but y_pred {y_pred.dtype}, so no label can agree; "
            "give both as text or both as numbers"
        )
    return np.asarray(y_true != y_pred, dtype=bool)


def _checked(name: str, values: Any, n_samples: int) -> Array:
    """One number per case, as float64, none of them NaN."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n_samples,):
        raise ValueError(
            f"{name} has shape {values.shape} for {n_samples} cases; give one number per case"
        )
    if np.isnan(values).any():
        raise ValueError(f"{name} is NaN at row {np.isnan(values).argmax()}; leave such rows out")
    return values


def _checked_weight(sample_weight: Any, n_samples: int) -> Array:
    if sample_weight is None:
        return np.ones(n_samples)
    weight = _checked("sample_weight", sample_weight, n_samples)
    if weight.min() < 0 or not 0 < weight.sum() < np.inf:
        raise ValueError(
            f"sample_weight has minimum {weight.min()} and sum {weight.sum()}; give weights that "
            "are finite, not negative and not all zero"
        )
    return weight


def _check_number(name: str, value: Any, is_valid: Callable[[Any], bool], wanted: str) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not is_valid(value):
        raise ValueError(f"{name}={value!r} is not valid; give a number {wanted}")
