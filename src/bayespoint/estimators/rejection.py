"""Deciding only the cases a classifier is sure of: a wrapper that abstains."""

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import Array
from bayespoint.estimators import cost_checks, limits
from bayespoint.estimators import costs as costing
from bayespoint.estimators.confidence import confidence_of, label_proba
from bayespoint.estimators.held_out import Source, without_folds
from bayespoint.estimators.risk import case_weights, check_number, errors_of
from bayespoint.estimators.thresholds import Threshold, Wanted, threshold_for
from bayespoint.estimators.wrapping import WrappingClassifier

# What a rejected case costs in `score`, where an error costs 1, unless something else is said.
REJECT_COST = 0.5


def _has_costs(self: Any) -> bool:
    return self.costs is not None


class RejectingClassifier(WrappingClassifier):
    """Wrap a scikit-learn classifier so that it leaves doubtful cases undecided.

    A case is decided if its confidence is above ``threshold_``, which `fit` finds from held-out
    cases: for a given coverage, for a limit on the error rate, or for limits per class. With
    `costs`, the decision is the one with the lowest expected cost, which may be to reject.

    Parameters
    ----------
    estimator : estimator
        The classifier, or a pipeline that ends with one.
    coverage : float in (0, 1], default=None
        Share of cases to decide. At most one of `coverage`, `max_risk`, `costs` and limits per
        class may be given; without any of them, all cases are decided.
    max_risk : float in (0, 1), default=None
        Decide as many cases as possible while the error rate among decided cases is at most this,
        with probability at least ``1 - delta`` (see Notes). If that cannot be shown for any
        threshold, all cases are rejected, with a warning.
    delta : float in (0, 1), default=0.05
        Probability with which `max_risk`, or any of the limits per class, may not hold.
    costs : array-like, data frame, mapping or callable, default=None
        What decisions cost: one row per true class and one column per decision, in the order of
        ``classes_``, optionally with one more column for rejecting. A data frame, or a mapping from
        true class to a mapping from decision to cost, uses names instead, and "reject" for
        rejecting. A callable gets X and returns an array of shape (n_samples, n_classes,
        n_decisions). Costs may be any finite numbers; gains are negative. `predict` takes the
        decision with the lowest expected cost, and rejects on a tie. The estimator must not have a
        ``class_weight``, which would count in addition to the costs.
    min_precision : dict, default=None
        Maps a class to a share: at least this share of the cases that get this label must have it.
        Cases are rejected until that is shown on held-out cases, with a warning if it cannot be.
        All limits hold together with probability ``1 - delta``; this is proved with
        ``cv="prefit"`` (see Notes).
    min_recall : dict, default=None
        Maps a class to a share: at least this share of the cases of the class must get its label or
        be rejected. Otherwise as `min_precision`.
    confidence : {"auto", "probability", "gap", "output", "vote"} or callable, default="auto"
        How the confidence of a case is measured. "auto": "probability" or "gap", whichever ranks
        held-out cases better (``confidence_`` says which). "probability": the probability of the
        predicted label. "output": the largest output (Herbrich and Graepel, 2001), from
        ``decision_function`` or, without one, ``predict_proba``. "gap": largest minus second
        largest output. With two classes, the outputs are -f and f for ``decision_function`` f, so
        these are abs(f) and 2 abs(f). "vote": share of committee members that agree with the
        prediction; members come from ``sample_proba`` if there is one, otherwise from
        ``estimators_`` (forests, bagging). A callable gets the fitted estimator and X and returns
        one score per row. "probability" and "gap" do not include the ``class_weight`` of our
        classifiers, because a weight is a cost, not a sign of confidence. Limits per class use
        "probability"; `costs` use none of these.
    cv : "auto", int, splitter, iterable or "prefit", default="auto"
        Folds whose held-out rows give the threshold; each row may be held out only once. "auto":
        no folds if the classifier has held-out probabilities of its training rows
        (``held_out_proba_``, also as the last step of a pipeline whose other steps do not depend
        on y), otherwise five folds, with the settings that the final fit has chosen
        (``settled()``). "prefit": `estimator` is already fitted, and `fit` gets data that it has
        not seen.
    reject_label : object, default=None
        What `predict` returns for rejected cases; must not be one of the classes. With None,
        `predict` returns an array of dtype object.
    reject_cost : float, default=None
        Cost of a rejected case in `score`, where an error costs 1; None means 0.5. Must be None
        with `costs`, which include this cost.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Its classes.
    threshold_ : float or ndarray of shape (n_classes,)
        Cases with a confidence above it are decided; -inf decides all, inf none. With limits per
        class, one threshold per label. With `costs`, 0 if they have a column for rejecting,
        otherwise -inf.
    coverage_ : float
        Share of held-out cases that the threshold decides. With `costs`, for which no cases are
        held out, the share among ``held_out_proba_``; NaN if the classifier has none.
    costs_ : ndarray of shape (n_classes, n_decisions) or None
        The costs as a matrix in the order of the classes; None without costs, or if they are a
        callable.
    risk_bound_ : float
        Upper bound on the risk at the threshold; if every case is rejected, at the threshold
        that was tested first; 1 without `max_risk`.
    confidence_ : str or callable
        The rule used; "cost" with `costs`.
    n_features_in_ : int
        Number of features, if the classifier counts them.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier knows them.

    Notes
    -----
    With ``cv="prefit"`` the bound at each threshold is exact: if the rows given to `fit` and future
    rows are drawn independently from one distribution, then the probability, over the rows given
    to `fit`, that the true risk of decided cases exceeds `max_risk` is at most `delta`. Several
    thresholds are tested in turn, which assumes that they are fixed beforehand; here they are ranks
    of the confidences, for which this is not proved, but tested on data with known risk.

    With folds, the bound is computed from the models of the folds, each on rows it has not seen,
    and used for `estimator_`, which is fitted on all rows. It holds if `estimator_` makes no more
    errors than those models and has the same distribution of confidences; usually it makes fewer
    errors. Outputs of all folds are pooled, which assumes that they have the same scale. The same
    applies to ``held_out_proba_``.

    Limits per class are tested at thresholds on the probability of the label that are fixed
    beforehand, each limit with its share of `delta`, by exact binomial tests one after the other
    until one fails. With ``cv="prefit"`` and independent rows of one distribution this is a proof:
    given the model, the probability, over the rows given to `fit`, that any limit does not hold for
    future cases is at most `delta`. With folds and ``held_out_proba_`` it holds as above.

    With metadata routing enabled, `fit` passes on what the estimator, or the splitter of `cv`,
    requests.

    Sample weights are used to train the classifier; thresholds count each row of positive weight
    once, because the bound is about single cases.

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

    Labelling class 2 as class 1 costs 5, other errors cost 1, and rejecting costs 0.3:

    >>> from sklearn.naive_bayes import GaussianNB
    >>> costs = [[0, 1, 1, 0.3], [1, 0, 1, 0.3], [1, 5, 0, 0.3]]
    >>> clf = RejectingClassifier(GaussianNB(), costs=costs, reject_label=-1).fit(X, y)
    >>> clf.predict_proba(X[[0, 50, 70]]).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.8, 0.2], [0.0, 0.15, 0.85]]
    >>> clf.predict(X[[0, 50, 70]]).tolist()
    [0, -1, 2]
    >>> clf.expected_cost(X[[0, 50, 70]]).round(2).tolist()
    [0.0, 0.3, 0.15]
    """

    threshold_: Any
    costs_: Any

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float | None = None,
        max_risk: float | None = None,
        delta: float = 0.05,
        costs: Any = None,
        min_precision: Any = None,
        min_recall: Any = None,
        confidence: Any = "auto",
        cv: Any = "auto",
        reject_label: Any = None,
        reject_cost: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.max_risk = max_risk
        self.delta = delta
        self.costs = costs
        self.min_precision = min_precision
        self.min_recall = min_recall
        self.confidence = confidence
        self.cv = cv
        self.reject_label = reject_label
        self.reject_cost = reject_cost

    def _calibrate(self, X: Any, y: Array, source: Source) -> None:
        """Find the threshold, or take the costs."""
        self.costs_ = None
        if self.costs is not None:
            found = self._take_costs(X, y, source)
        else:
            found = threshold_for(self._wanted(), source, X, y)
        self.confidence_, self.threshold_, self.coverage_, self.risk_bound_ = found
        self.predicted_dtype()  # a reject_label that is a class shows here, before any prediction

    def check_parameters(self, sample_weight: Any) -> None:
        """Check the parameters that do not depend on data."""
        self.check_wrapped(sample_weight)
        self._wanted().check(self.costs)
        if self.reject_cost is not None:
            check_number("reject_cost", self.reject_cost, lambda c: 0 <= c < np.inf, ">= 0, as 0.5")
        if self.costs is not None:
            cost_checks.check_beside(self.estimator, self.reject_cost, self.confidence)

    def _wanted(self) -> Wanted:
        return Wanted(
            self.coverage, self.max_risk, self.min_precision, self.min_recall, self.delta,
            self.confidence,
        )  # fmt: skip

    def check_with(self, classes: Array) -> None:
        """Check costs and limits, which name classes."""
        limits.numbered("min_precision", self.min_precision, classes)
        limits.numbered("min_recall", self.min_recall, classes)
        if self.costs is not None and not callable(self.costs):
            costing.cost_matrix(self.costs, classes, self.reject_label)

    def _needs_proba(self) -> bool:
        return self.costs is not None or self._wanted().has_limits

    def _take_costs(self, X: Any, y: Array, source: Source) -> Threshold:
        """Take the costs as they are; held-out cases, if there are any, only tell the coverage."""
        cost_checks.check_beside(self.estimator_)  # a search may have chosen class weights
        if callable(self.costs):
            costs = costing.costs_of_rows(self.costs, X, len(y), len(self.classes_))
        else:
            costs = self.costs_ = costing.cost_matrix(self.costs, self.classes_, self.reject_label)
        are_odd = cost_checks.warn_of_odd(costs, self.classes_.tolist())
        if costs.shape[-1] == len(self.classes_):
            return Threshold("cost")
        cv = self.cv if self._is_prefit() else "auto"
        cases, coverage = without_folds(source._replace(cv=cv), X, y, []), np.nan
        if cases is not None and cases.proba is not None:
            costs = costs if costs.ndim == 2 else costs[source.counted]
            coverage = float(np.mean(~costing.cheapest(cases.proba, costs).rejected))
            if coverage == 0 and not are_odd:
                cost_checks.warn_that_none_is_decided(len(cases.proba))
        return Threshold("cost", 0.0, coverage)

    def predicted_dtype(self) -> Any:
        """Type of array that holds the classes and the reject label; None: as predicted."""
        if not (self._wanted().rejects or self.may_reject()):
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

    def may_reject(self) -> bool:
        """Whether it may reject cases."""
        check_is_fitted(self)
        return bool(np.any(self.threshold_ > -np.inf))

    def confidence_scores(self, X: Any) -> Array:
        """Return each row's confidence by the rule chosen, to compare with ``threshold_``.

        With `costs`, this is the cost that is saved by deciding instead of rejecting or, without a
        column for rejecting, minus the expected cost.
        """
        check_is_fitted(self)
        if self.costs is not None:
            return self._cheapest(X).confidence
        return confidence_of(self.estimator_, X, self.confidence_)

    @available_if(_has_costs)
    def expected_cost(self, X: Any) -> Array:
        """Return the expected cost of the decision about each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
            Lowest expected cost of all decisions, including rejecting if `costs` have it.
        """
        check_is_fitted(self)
        return self._cheapest(X).cost

    def _cheapest(self, X: Any) -> costing.Choice:
        proba = label_proba(self.estimator_, X)
        return costing.cheapest(proba, self._costs_at(X, len(proba)))

    def _costs_at(self, X: Any, n_rows: int) -> Array:
        if not callable(self.costs):
            return self.costs_
        found = costing.costs_of_rows(self.costs, X, n_rows, len(self.classes_))
        if (found.shape[-1] > len(self.classes_)) != self.may_reject():
            raise ValueError(
                f"costs(X) has {found.shape[-1]} decisions, and had "
                f"{'more' if self.may_reject() else 'fewer'} in fit; give the same"
            )
        return found

    def reject(self, X: Any) -> Array:
        """Say which rows are left undecided: an array of bool, True where rejected."""
        return self.decide(X)[1]

    def decide(self, X: Any) -> tuple[Array, Array]:
        """Return a label for each row, also for rejected rows, and which rows are rejected.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels of the classifier; with `costs`, those of lowest expected cost.
        rejected : ndarray of bool, shape (n_samples,)
            True where `predict` abstains.
        """
        check_is_fitted(self)
        if self.costs is not None:
            choice = self._cheapest(X)
            return self.classes_[choice.number], choice.rejected
        labels = self.estimator_.predict(X)
        if not self.may_reject():
            return labels, np.zeros(len(labels), dtype=bool)
        sure = confidence_of(self.estimator_, X, self.confidence_, labels)
        threshold = Threshold(self.confidence_, self.threshold_).of_labels(labels, self.classes_)
        return labels, ~(sure > threshold)

    def predict(self, X: Any) -> Array:
        """Predict labels; rejected cases get `reject_label`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels. Of dtype object if `reject_label` does not fit the type of the classes; of the
            type of the classes if nothing can be rejected.
        """
        labels, rejected = self.decide(X)
        dtype = self.predicted_dtype()
        if dtype is None:
            return labels
        labels = labels.astype(dtype)
        labels[rejected] = self.reject_label
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return 1 - (errors + reject_cost * rejected) / n, so that rejecting all does not win.

        With `costs`, return minus the mean cost.

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
            Without `costs`, this is the accuracy if nothing is rejected.
        """
        labels, rejected = self.decide(X)
        deciding, rejecting = self.costs_of(X, y, labels)
        cost = np.where(rejected, rejecting, deciding)
        mean = np.average(cost, weights=case_weights(sample_weight, len(cost)))
        return float(-mean if self.costs is not None else 1.0 - mean)

    def costs_of(self, X: Any, y: Any, labels: Array) -> tuple[Array, Array]:
        """Return the cost of each label, given the true one, and the cost of rejecting the row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            True labels.
        labels : array-like of shape (n_samples,)
            Labels, as returned by `decide`.

        Returns
        -------
        deciding, rejecting : ndarray of shape (n_samples,)
            Without `costs`, 1 for errors and 0 otherwise, and `reject_cost`. If `costs` have no
            column for rejecting, its cost is NaN.
        """
        check_is_fitted(self)
        if self.costs is not None:
            costs = self._costs_at(X, len(labels))
            return costing.costs_of_labels(costs, self.classes_, y, labels)
        rejecting = REJECT_COST if self.reject_cost is None else self.reject_cost
        return errors_of(y, labels, ("y", "labels")).astype(float), np.full(len(labels), rejecting)
