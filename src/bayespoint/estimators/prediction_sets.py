"""Sets of classes that hold the true one as often as wanted: a wrapper for any classifier.

Split-conformal prediction. A class c gets a score s(x, c), the larger the less it suits x. With n
held-out scores of true classes, the set of x holds all classes whose score is at most the
⌈(n + 1) level⌉-th smallest of them: if all rows are exchangeable, the true class of a new one is in
its set with probability at least ``level``, and below level + 1 / (n + 1) without ties (Vovk et
al., 2005).
"""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import warn
from bayespoint._support.types import Array
from bayespoint.estimators.confidence import class_weights_of, label_proba, unwrapped
from bayespoint.estimators.held_out import Source, held_out
from bayespoint.estimators.making import noise_inside
from bayespoint.estimators.risk import check_number, numbers_of_labels
from bayespoint.estimators.wrapping import WrappingClassifier

# Of the hash splitmix64 (Steele et al., 2014): what is added, then shifts and factors.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
# A number chosen with the labels of n rows raises the log-probability of each by 1 / n (as a
# parameter does in Akaike's criterion), held out of the fit or not. Kernel, width, bias and
# softness together: by one in a hundred with so many rows.
FEW_ROWS = 400
# Of ranks, which rounding may lift over a whole number: 9.000000000000002 of ten rows are nine.
LEAST_SLACK = 1e-9


class PredictionSetClassifier(WrappingClassifier):
    """Wrap a scikit-learn classifier so that it predicts sets of classes.

    The true class is in the set with a given probability.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba``, or a pipeline that ends with one.
    confidence_level : float in (0, 1), default=0.9
        Share of cases whose true class should be in their set.
    adaptive : bool, default=False
        If False, a set holds the classes with a probability of at least ``1 - thresholds_``; no
        rule has smaller sets on average (Sadinle et al., 2019). If True, it holds the most probable
        classes that together reach ``thresholds_`` (Romano et al., 2020): sets are larger for hard
        cases, which keeps the coverage there.
    per_class : bool, default=False
        Whether the share should hold for the cases of each class (Mondrian), instead of all cases
        together, so that rare classes are not covered less than others.
    cv : "auto", int, splitter, iterable or "prefit", default="auto"
        Folds whose held-out rows calibrate the sets. "auto": no folds if the classifier has
        held-out probabilities of its training rows (``held_out_proba_``), otherwise five folds with
        the settings that the final fit has chosen. With fewer than 400 rows and settings that are
        chosen from the data, each of five folds chooses its own, because then it matters that a
        held-out row has helped to choose the settings. "prefit": `estimator` is already fitted, and
        `fit` gets rows that it has not seen; only this, and a ``FrozenEstimator`` with any `cv`,
        has a proof (see Notes).

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Its classes.
    thresholds_ : ndarray of shape (n_classes,)
        Largest score with which a class is in a set; inf means always.
    coverage_ : float
        Share of held-out rows whose class is in their set.
    mean_size_ : float
        Mean number of classes in the sets of held-out rows.
    n_features_in_ : int
        Number of features, if the classifier counts them.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier knows them.

    Notes
    -----
    With ``cv="prefit"`` or a ``FrozenEstimator``, and rows that are exchangeable with future rows
    (as independent rows of one distribution are), the probability that a set holds the true class
    is at least `confidence_level`, over the rows given to `fit` and the new one; with `per_class`,
    given its class. This does not hold for every single x.

    With ``held_out_proba_`` and folds no rows are set aside, and nothing is proved: scores of
    held-out rows are used like those of new rows, although settings were chosen with all of them
    (unless there are few rows), and the final model has seen more rows. Thresholds then aim at a
    coverage of `confidence_level`, not of at least that, by one of two neighbouring scores. With
    `per_class` and ``held_out_proba_``, the odds of each row's class are multiplied by n / (n - 1)
    for a class of n rows, because the model of a new row has one more row of its class.
    ``benchmarks/decisions.py`` measures the coverage.

    An empty set means that no class is probable enough. If the classifier is right more often than
    `confidence_level`, some sets must be empty, because otherwise more cases would be covered;
    look at these cases. Raise `confidence_level`, or use the label of `predict`. A full set means
    that no class can be excluded, because the case is hard, or because there are fewer than
    ``confidence_level / (1 - confidence_level)`` held-out rows (of a class, with `per_class`),
    which is too few for smaller sets; `fit` warns about the latter.

    Probabilities do not include the ``class_weight`` of our classifiers; other classifiers are
    trained with theirs, and `fit` warns about it. Rows of weight 0 are not used for calibration;
    others count once.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world", 2005.
    M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with bounded error
    levels", JASA 114, 2019.
    Y. Romano, M. Sesia and E. Candès, "Classification with valid and adaptive coverage", NeurIPS
    33, 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier, PredictionSetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(gamma="scale", softness=0.1, inference="ep")
    >>> sets = PredictionSetClassifier(clf, confidence_level=0.98).fit(X, y)
    >>> sets.predict_set(X[[0, 70, 100]])
    array([[ True, False, False],
           [False,  True,  True],
           [False, False,  True]])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        confidence_level: float = 0.9,
        adaptive: bool = False,
        per_class: bool = False,
        cv: Any = "auto",
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.adaptive = adaptive
        self.per_class = per_class
        self.cv = cv

    def _calibrate(self, X: Any, y: Array, source: Source) -> None:
        """Find how small sets may be."""
        self._warn_of_class_weight()
        cases = held_out(source._replace(anew_below=FEW_ROWS), X, y, [])
        proba: Any = cases.proba
        # New rows, in double precision, may have a little less of where probabilities end.
        slack = np.finfo(np.float32).eps if proba.dtype == np.float32 else 0.0
        true = numbers_of_labels("y", cases.true, self.classes_)
        if self.per_class and cases.from_fit:
            noise = noise_inside(getattr(unwrapped(self.estimator_), "predictor_", None))
            proba = with_as_many_of_its_class(proba, true, noise)
        scores = scores_of(proba, self.adaptive) + slack
        self._set_thresholds(np.take_along_axis(scores, true[:, None], axis=1)[:, 0], true)
        sets = scores <= self.thresholds_
        self.coverage_ = float(np.mean(np.take_along_axis(sets, true[:, None], axis=1)))
        self.mean_size_ = float(np.mean(sets.sum(axis=1)))

    def check_parameters(self, sample_weight: Any) -> None:
        """Check the parameters that do not depend on data."""
        self.check_wrapped(sample_weight)
        level = self.confidence_level
        check_number("confidence_level", level, lambda p: 0 < p < 1, "in (0, 1), as 0.9")
        for name in ("adaptive", "per_class"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}={getattr(self, name)!r} is not valid; give True or False")

    def _warn_of_class_weight(self) -> None:
        """Warn of weights that a classifier other than ours was trained with.

        A threshold for each class makes up for them.
        """
        weights = class_weights_of(self.estimator_)
        if weights and not (self.per_class or hasattr(unwrapped(self.estimator_), "predictor_")):
            name, value = next(iter(weights.items()))
            warn(
                f"{name}={value!r} of the estimator shifts its probabilities: sets keep their "
                "coverage, but are larger than they need be. Set it to None, or use "
                "per_class=True, with which rare classes are covered as often as others.",
            )

    def _set_thresholds(self, scores: Array, true: Array) -> None:
        n_classes, level = len(self.classes_), self.confidence_level
        # Folds do not fit a frozen classifier again: the rows are new to it, as with "prefit".
        proved = self._is_prefit() or isinstance(self.estimator, FrozenEstimator)
        if not self.per_class:
            self.thresholds_ = np.full(n_classes, conformal_quantile(scores, level, proved))
            few = [] if self.thresholds_[0] < np.inf else ["all cases"]
        else:
            parts = [scores[true == c] for c in range(n_classes)]
            self.thresholds_ = np.array([conformal_quantile(part, level, proved) for part in parts])
            few = [f"class {self.classes_.tolist()[c]!r}"
                   for c in np.flatnonzero(self.thresholds_ == np.inf)]  # fmt: skip
        if few:
            least = int(np.ceil(level / (1 - level) - LEAST_SLACK))
            held = "it" if len(few) == 1 else "them"
            follows = f"every set holds {held}" if self.per_class else "all sets are full"
            warn(
                f"confidence_level={level} takes {least} held-out rows or more, and there are "
                f"fewer of {', '.join(few)}, so {follows}; give more data, or lower it.",
            )

    def predict_set(self, X: Any) -> Array:
        """Return the classes that cannot be excluded, for each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of bool, shape (n_samples, n_classes)
            True where the class is in the set; a row may have none, or all.
        """
        check_is_fitted(self)
        return scores_of(label_proba(self.estimator_, X), self.adaptive) <= self.thresholds_

    def predict(self, X: Any) -> Array:
        """Return the classifier's labels."""
        check_is_fitted(self)
        return self.estimator_.predict(X)


def with_as_many_of_its_class(proba: Array, true: Array, noise: float) -> Array:
    """Probabilities of rows held out one by one, as if each had left its class no smaller.

    A new row finds n of its class, a row held out n - 1, and odds of classes go with their numbers
    of rows. Cases of all classes together need no such thing: where chance gives a class more rows
    than it should have, more are held out, and they find more of their own. What wrong labels
    (``noise``) leave open stays open.
    """
    wrong = noise / (proba.shape[1] - 1)
    found = np.clip((proba.astype(np.float64) - wrong) / (1 - noise - wrong), 0.0, 1.0)
    n_rows = np.bincount(true)[true]
    more = np.where(n_rows > 1, n_rows / np.maximum(n_rows - 1, 1), 1.0)  # one alone leaves none
    found[np.arange(len(true)), true] *= more
    found /= found.sum(axis=1, keepdims=True)
    return (1 - noise) * found + wrong * (1 - found)


def scores_of(proba: Array, adaptive: bool) -> Array:
    """How little each class suits each row, (n, n_classes).

    Adaptive: what more probable classes have together, and a share of the class's own. The share
    is pseudorandom, so that sets can be as large as needed and no larger, and follows from the
    probabilities, so that a row has one set.
    """
    if not adaptive:
        return 1.0 - proba
    order = np.argsort(-proba, axis=1, kind="stable")
    ranked = np.take_along_axis(proba, order, axis=1).astype(np.float64)
    share = shares_of_rows(proba)[:, None]
    scores = np.empty(proba.shape)
    np.put_along_axis(scores, order, np.cumsum(ranked, axis=1) - ranked + share * ranked, axis=1)
    return scores


def shares_of_rows(proba: Array) -> Array:
    """Hash of each row's probabilities, as a number in [0, 1); as if uniform and independent.

    Of float32, the precision of ``held_out_proba_``, whatever the precision of the probabilities.
    """
    bits = (proba.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 is 0
    found = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        found = (found ^ column) + GOLDEN
        for shift, factor in MIXING:
            found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return (found >> np.uint64(11)) * 2.0**-53


def conformal_quantile(scores: Array, level: float, proved: bool) -> float:
    """The ⌈(n + 1) level⌉-th smallest of n scores, for which coverage is proved; inf if n is small.

    Otherwise the one before it as often as it takes for coverage to be the level in the mean,
    instead of above it, which matters with few rows: the k-th smallest covers k / (n + 1). A hash
    of the two decides. (Halfway between two scores is not halfway in coverage, as scores thin out.)
    """
    place = (len(scores) + 1) * level
    rank = int(np.ceil(place - LEAST_SLACK))
    if rank > len(scores):
        return np.inf
    ordered = np.sort(scores)
    if not proved and rank > 1 and shares_of_rows(ordered[None, rank - 2 : rank])[0] < rank - place:
        rank -= 1
    return float(ordered[rank - 1])
