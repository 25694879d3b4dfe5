"""Precision and recall that classes must have: thresholds for which that can be shown.

A label l is given where its probability is above t_l, else the case is rejected. All thresholds
that are tested are fixed before any row is seen, so that exact binomial tests, one after the other
from strict to loose until one fails, keep the probability of a false claim (fixed-sequence testing:
the first false claim is made with probability delta at most, and later ones only after it).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from bayespoint._support.checks import warn
from bayespoint._support.types import Array
from bayespoint.estimators.risk import check_number

# Thresholds 1 - e have e grow by this factor: coverage changes little from one to the next.
STEP = 1.15
# Sequences of a precision p begin at e = (1 - p) times these, each with its share of delta. Where
# probabilities are right, errors are a third of e: the first passes with fewest cases. The others
# are for classifiers that are too sure.
STARTS = {0.5: 0.7, 0.05: 0.2, 0.001: 0.1}
# Sequences of a recall begin here: with more rows than a million this might be too loose.
STRICTEST = 1e-6


class Labelled(NamedTuple):
    """Held-out cases: numbers of true and predicted classes, probability of the predicted one."""

    true: Array
    predicted: Array
    probability: Array


class Found(NamedTuple):
    """Thresholds on the probability of each label, (n_classes,), and limits that none keeps."""

    thresholds: Array
    failed: list[tuple[str, int]]  # "precision" or "recall", and the number of the class


def check_limits(name: str, limits: Any) -> None:
    """Refuse what is not a mapping from classes to shares."""
    if not isinstance(limits, Mapping) or not limits:
        raise ValueError(
            f"{name}={limits!r} is not valid; give a dict of classes and shares, as {{'yes': 0.95}}"
        )
    for label, share in limits.items():
        check_number(f"{name}[{label!r}]", share, lambda s: 0 < s < 1, "in (0, 1), as 0.95")


def numbered(name: str, limits: Mapping[Any, float] | None, classes: Array) -> dict[int, float]:
    """Limits by the number of their class."""
    known = classes.tolist()
    for label in limits or ():
        if label not in known:
            raise ValueError(
                f"{name} names the class {label!r}, which is not among the classes {known}; use "
                "their names, of the same type"
            )
    return {known.index(label): share for label, share in (limits or {}).items()}


def thresholds_for_limits(
    cases: Labelled, precision: dict[int, float], recall: dict[int, float], n_classes: int,
    delta: float,
) -> Found:  # fmt: skip
    """Loosest thresholds for which all limits are shown, with probability 1 - delta.

    Limits share ``delta`` evenly. The precision of a label depends on its own threshold only. The
    recall of a class, with rejected cases counted as neither found nor missed, depends on the
    thresholds of all other labels and only grows with them. So each limit is tested by itself, and
    a label takes the loosest threshold that was shown for its precision and is not below what
    recalls need.

    Parameters
    ----------
    cases : Labelled
    precision, recall : dict
        Limits by the number of the class.
    n_classes : int
    delta : float

    Returns
    -------
    Found
    """
    share = delta / (len(precision) + len(recall))
    needed = np.full(n_classes, -np.inf)
    failed: list[tuple[str, int]] = []
    for label, least in recall.items():
        threshold = _recall_threshold(cases, label, least, share)
        others = np.arange(n_classes) != label
        needed[others] = np.maximum(needed[others], threshold)
        failed += [("recall", label)] if threshold == np.inf else []
    thresholds = needed.copy()
    for label, least in precision.items():
        shown = _precision_thresholds(cases, label, least, share)
        thresholds[label] = min(shown[shown >= needed[label]], default=np.inf)
        failed += [("precision", label)] if thresholds[label] == np.inf else []
    return Found(thresholds, failed)


def _grid(strictest: float) -> Array:
    """Thresholds from strict to loose; the last decides all.

    They go down to 0: class weights and thresholds may give labels that are not the most probable.
    """
    n = int(np.ceil(np.log(1 / strictest) / np.log(STEP)))
    return np.append(1 - strictest * STEP ** np.arange(n), -np.inf)


def _precision_thresholds(cases: Labelled, label: int, least: float, delta: float) -> Array:
    """Thresholds of a label for which its precision is shown."""
    labelled = cases.predicted == label
    sure, wrong = cases.probability[labelled], cases.true[labelled] != label
    shown: list[float] = []
    for start, share in STARTS.items():
        for threshold in _grid((1 - least) * start).tolist():
            decided = sure > threshold
            n, n_wrong = int(decided.sum()), int(wrong[decided].sum())
            if not _is_shown(n_wrong, n, 1 - least, share * delta):
                break
            shown.append(threshold)
    return np.array(shown)


def _recall_threshold(cases: Labelled, label: int, least: float, delta: float) -> float:
    """Loosest threshold of all other labels for which the recall of a class is shown."""
    of_class = cases.true == label
    n, missed = int(of_class.sum()), cases.probability[of_class & (cases.predicted != label)]
    found = np.inf
    for threshold in _grid(STRICTEST).tolist():
        if not _is_shown(int(np.sum(missed > threshold)), n, 1 - least, delta):
            break
        found = threshold
    return found


def _is_shown(n_wrong: int, n: int, rate: float, delta: float) -> bool:
    """Whether a rate above ``rate`` would give so few errors with probability delta at most."""
    return n > 0 and bool(binom.cdf(n_wrong, n, rate) <= delta)


def warn_of_failed(
    failed: list[tuple[str, int]], classes: Array, delta: float, n_cases: int
) -> None:
    """Say which limits could not be shown, and what follows."""
    for what, number in failed:
        label = classes.tolist()[number]
        follows = (
            f"no case is labelled {label!r}" if what == "precision"
            else f"every case that is not labelled {label!r} is rejected"
        )  # fmt: skip
        warn(
            f"min_{what} of class {label!r} could not be shown with delta={delta} and {n_cases} "
            f"held-out cases, so {follows}. Lower it, raise delta, or give more data.",
        )
