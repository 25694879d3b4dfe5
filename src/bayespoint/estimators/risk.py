"""Risk among the cases that a threshold on a confidence decides: curves, their area, thresholds.

Cases are ordered by a confidence. Accepting the most confident share c (the coverage) leaves the
risk R(c), the error among accepted cases.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom
from sklearn.base import ClassifierMixin

from bayespoint._support.checks import FROM_0, warn
from bayespoint._support.types import Array, ArrayLike
from bayespoint.space.given import checked_labels, checked_weights, numbers

# Ties that move the coverage further than this from the one asked for are worth a warning.
_COVERAGE_SLACK = 0.05

# Numbers of cases that thresholds for a risk are looked for at, from the surest down.
_LEVELS = 100

# Where to begin if nothing is said of the errors to expect, each with its share of delta: times
# the least number of cases that can pass.
_FIRST_LEVELS = (1.2, 4.0)


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
    errors = errors_of(y_true, y_pred)
    sure = checked("confidence", confidence, len(errors))
    weight = case_weights(sample_weight, len(errors))
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
    over random orders within ties, this describes what a threshold can do, does not depend on the
    scale of the weights, and treats a weight w exactly as w copies. So ties make the area larger.

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


def threshold_for_risk(
    confidence: Array, errors: Array, max_risk: float, delta: float,
    expected: Array | None = None, *, sure_of_it: bool = True,
) -> tuple[float, float]:  # fmt: skip
    """Loosest threshold that is shown to keep the risk, and the bound there; inf if none is.

    Let s(k) be the k-th largest confidence. Given s(k) = t, the cases strictly above t are
    independent draws from P(. | confidence > t), so their errors are binomial and the
    Clopper-Pearson bound holds for the rule "decide above s(k)", ties or not. Thresholds are
    tested one after the other, each with all of ``delta``, towards larger coverage, until one does
    not pass: the first one whose risk is too large passes with probability delta at most, and all
    later ones only after it. Where to begin must not depend on the errors: where it is most
    probable to pass if errors are as ``expected``; if that is not sure, with half of ``delta``, and
    with the other half at half of the cases; without it, at two places.

    Parameters
    ----------
    confidence, errors : ndarray of shape (n,)
    max_risk, delta : float
    expected : ndarray of shape (n,), optional
        What the classifier itself says of the probability that each case is an error.
    sure_of_it : bool, default=True
        Whether these probabilities suit cases that it has not seen.

    Returns
    -------
    threshold, bound : float
        The bound at the first threshold where none passes.
    """
    n = len(confidence)
    counts = np.unique(np.ceil(n * np.arange(1, _LEVELS + 1) / _LEVELS).astype(int))
    order = np.argsort(-confidence, kind="stable")
    thresholds = np.append(confidence[order], -np.inf)[counts]
    decided = n - np.searchsorted(confidence[order[::-1]], thresholds, side="right")
    wrong = np.append(0, np.cumsum(errors[order]))[decided]
    if expected is None or not sure_of_it:
        delta /= len(_FIRST_LEVELS)
    allowed = _most_errors(decided, max_risk, delta)
    if np.all(allowed < 0):  # not even without errors: all cases come nearest
        begin = [len(counts) - 1]
    elif expected is None:
        least = np.log(delta) / np.log1p(-max_risk)
        begin = [int(np.searchsorted(decided, level * least)) for level in _FIRST_LEVELS]
    else:
        rate = np.append(0.0, np.cumsum(expected[order]))[decided] / np.maximum(decided, 1)
        begin = [int(np.argmax(binom.cdf(allowed, decided, np.clip(rate, 0.0, 1.0))))]
        begin += [] if sure_of_it else [len(counts) // 2]
    begin = [min(first, len(counts) - 1) for first in begin]
    fails = np.append(wrong > allowed, True)
    found = [first + int(np.argmax(fails[first:])) - 1 for first in begin]  # the last that pass
    passed = [last for first, last in zip(begin, found, strict=True) if last >= first]
    at = max(passed, default=begin[0])
    bound = float(binomial_upper_bound(wrong[at], decided[at], delta))
    return (float(thresholds[at]) if passed else np.inf), bound


def warn_that_none_passes(max_risk: float, delta: float, n_cases: int, bound: float) -> None:
    """Say that every case is rejected, and what would help."""
    warn(
        f"max_risk={max_risk} could not be shown, so every case is rejected: with delta={delta} "
        f"and {n_cases} held-out cases the bound on the risk at the threshold tried first is "
        f"{bound:.4f}, too high by {bound - max_risk:.4f}. Raise max_risk or delta, or give more "
        f"data.",
    )


def _most_errors(n_cases: Array, max_risk: float, delta: float) -> Array:
    """Largest number of errors for which `binomial_upper_bound` is within ``max_risk``; else -1."""
    # P(Binomial(n, max_risk) <= k) <= delta, which is the same.
    most = binom.ppf(delta, n_cases, max_risk).astype(int)
    return most - (binom.cdf(most, n_cases, max_risk) > delta)


def threshold_for_coverage(confidence: Array, coverage: float) -> float:
    """Threshold that decides a share as near as possible to `coverage`, and more than none."""
    values, counts = np.unique(confidence, return_counts=True)
    rejected = np.append(0, np.cumsum(counts[:-1]))
    decided = 1.0 - rejected / len(confidence)
    nearest = np.argmin(np.abs(decided - coverage))
    missed_by = abs(decided[nearest] - coverage)
    if missed_by > max(_COVERAGE_SLACK, 1.0 / len(confidence)):
        warn(
            f"coverage={coverage} is out of reach: many cases have equal confidence, and the "
            f"nearest share that a threshold decides is {decided[nearest]:.3f}. Use a finer "
            'confidence, such as "gap".',
        )
    return float(-np.inf if nearest == 0 else values[nearest - 1])


def binomial_upper_bound(n_errors: Array, n_cases: Array, delta: float) -> Array:
    """Clopper-Pearson: largest p with P(Binomial(n_cases, p) <= n_errors) >= delta."""
    n_right = n_cases - n_errors
    bound = betaincinv(n_errors + 1.0, np.maximum(n_right, 1), 1.0 - delta)
    return np.where(n_right > 0, bound, 1.0)


def errors_of(y_true: Any, y_pred: Any, names: tuple[str, str] = ("y_true", "y_pred")) -> Array:
    """Where the labels differ, as booleans; ``names``: of the arguments."""
    true, predicted = names
    if any(label is None for label in np.asarray(y_pred, dtype=object).ravel()):
        raise ValueError(
            f"{predicted} contains None, the mark of rejected cases; give the labels before "
            "rejection, which RejectingClassifier.decide(X) returns, with those that are rejected"
        )
    y_true, y_pred = checked_labels(y_true, true), checked_labels(y_pred, predicted)
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"{true} and {predicted} have inconsistent numbers of samples: {len(y_true)} and "
            f"{len(y_pred)}"
        )
    if len({y.dtype.kind in "US" for y in (y_true, y_pred) if y.dtype != object}) > 1:
        raise ValueError(
            f"{true} has dtype {y_true.dtype} but {predicted} {y_pred.dtype}, so no label can "
            "agree; give both as text or both as numbers"
        )
    return np.asarray(y_true != y_pred, dtype=bool)


def numbers_of_labels(name: str, labels: Any, classes: Array) -> Array:
    """Places of labels among the classes, which are sorted; labels that are not are refused."""
    labels, known = checked_labels(labels, name), classes.tolist()
    unknown = set(labels.tolist()).difference(known)
    if unknown:
        raise ValueError(
            f"{name} has the label {min(unknown, key=repr)!r}, which is not among the classes "
            f"{known} of the classifier; leave such rows out"
        )
    return np.searchsorted(classes, labels)


def checked(name: str, values: Any, n_samples: int) -> Array:
    """One number per case, as float64, none of them NaN."""
    values = numbers(name, values, finite=False)
    if values.shape != (n_samples,):
        raise ValueError(
            f"{name} has shape {values.shape} for {n_samples} cases; give one number per case"
        )
    if np.isnan(values).any():
        row = np.isnan(values).argmax()
        raise ValueError(f"{name} is NaN at row {row} {FROM_0}; leave such rows out")
    return values


def case_weights(sample_weight: Any, n_samples: int) -> Array:
    """As `checked_weights`, of cases of which some must count."""
    weight = checked_weights(sample_weight, n_samples)
    if n_samples and not weight.sum() > 0:
        raise ValueError("sample_weight is zero for every row; give some rows weight > 0")
    return weight


def check_number(name: str, value: Any, is_valid: Callable[[Any], bool], wanted: str) -> None:
    """Refuse what is no number, or not a valid one."""
    if isinstance(value, bool) or not isinstance(value, Real) or not is_valid(value):
        raise ValueError(f"{name}={value!r} is not valid; give a number {wanted}")


class CheckedScore(ClassifierMixin):
    """A classifier whose `score` checks labels and weights as a fit does."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        right = ~errors_of(y, self.predict(X), ("y", "predict(X)"))
        return float(np.average(right, weights=case_weights(sample_weight, len(right))))
