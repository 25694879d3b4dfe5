"""What is wanted of a threshold on confidences, and the threshold that held-out cases ask for."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.estimators import limits
from bayespoint.estimators.confidence import check_rule
from bayespoint.estimators.held_out import HeldOut, Source, held_out
from bayespoint.estimators.risk import (
    aurc,
    check_number,
    checked,
    numbers_of_labels,
    threshold_for_coverage,
    threshold_for_risk,
    warn_that_none_passes,
)


class Wanted(NamedTuple):
    """Parameters of `RejectingClassifier` that a threshold is to keep to."""

    coverage: float | None
    max_risk: float | None
    min_precision: Mapping[Any, float] | None
    min_recall: Mapping[Any, float] | None
    delta: float
    confidence: Any

    @property
    def has_limits(self) -> bool:
        """Whether there are limits per class."""
        return self.min_precision is not None or self.min_recall is not None

    @property
    def rejects(self) -> bool:
        """Whether anything is wanted, so that cases may be rejected."""
        return self.coverage is not None or self.max_risk is not None or self.has_limits

    @property
    def chooses_rule(self) -> bool:
        """Whether held-out cases choose the confidence."""
        return isinstance(self.confidence, str) and self.confidence == "auto"

    def check(self, costs: Any) -> None:
        """Refuse parameters that are not valid, or not together."""
        given = [f"{name}={value}" for name, value in
                 (("coverage", self.coverage), ("max_risk", self.max_risk))
                 if value is not None]  # fmt: skip
        given += ["costs"] if costs is not None else []
        given += ["min_precision or min_recall"] if self.has_limits else []
        if len(given) > 1:
            raise ValueError(
                f"{given[0]} and {given[1]} are both given, but each alone fixes the threshold; "
                "set one of them to None"
            )
        if self.coverage is not None:
            check_number("coverage", self.coverage, lambda c: 0 < c <= 1, "in (0, 1], as 0.9")
        if self.max_risk is not None:
            check_number("max_risk", self.max_risk, lambda r: 0 < r < 1, "in (0, 1), as 0.02")
        check_number("delta", self.delta, lambda d: 0 < d < 1, "in (0, 1), as 0.05")
        if not self.chooses_rule:
            check_rule(self.confidence)
        for name in ("min_precision", "min_recall"):
            if getattr(self, name) is not None:
                limits.check_limits(name, getattr(self, name))
        if self.has_limits and not (self.chooses_rule or self.confidence == "probability"):
            raise ValueError(
                f"confidence={self.confidence!r} does not work with min_precision and min_recall, "
                'whose thresholds are on probabilities; use confidence="auto"'
            )

    def rules(self, fitted: Any) -> list[Any]:
        """Confidences to choose from."""
        if self.has_limits:
            return ["probability"]
        if not self.chooses_rule:
            return [self.confidence]
        if not hasattr(fitted, "predict_proba"):
            return ["gap"]
        # The larger probability of two is the larger gap.
        several = len(fitted.classes_) > 2 and hasattr(fitted, "decision_function")
        return ["probability", "gap"] if several else ["probability"]


class Threshold(NamedTuple):
    """Cases with a confidence above ``value`` are decided."""

    rule: Any  # confidence that it is on
    value: Any = -np.inf  # or one for each label, (n_classes,)
    coverage: float = 1.0  # share of held-out cases that it decides
    risk_bound: float = 1.0

    def of_labels(self, labels: Array, classes: Array) -> Any:
        """Value, or with limits per class those of some labels."""
        if np.ndim(self.value) == 0:
            return self.value
        return self.value[np.searchsorted(classes, labels)]


def threshold_for(wanted: Wanted, source: Source, X: Any, y: Array) -> Threshold:
    """Threshold that held-out cases ask for; without anything wanted, all are decided."""
    rules, classes = wanted.rules(source.fitted), source.fitted.classes_
    if not wanted.rejects:
        return Threshold(rules[0])
    cases = held_out(source, X, y, rules)
    n = len(cases.true)
    confidence = {rule: checked("confidence", c, n) for rule, c in cases.confidence.items()}
    if wanted.coverage is not None:
        found = _for_coverage(wanted.coverage, cases.errors, confidence)
    elif wanted.max_risk is not None:
        found = _for_risk(wanted.max_risk, wanted.delta, cases, confidence, classes)
    else:
        found = _for_limits(wanted, cases, classes)
    decided = confidence[found.rule] > found.of_labels(cases.predicted, classes)
    return found._replace(coverage=float(np.mean(decided)))


def _for_coverage(coverage: float, errors: Array, confidence: dict[Any, Array]) -> Threshold:
    """Take the rule that orders errors best."""
    right = np.zeros_like(errors)
    rule = min(confidence, key=lambda rule: aurc(errors, right, confidence[rule]))
    return Threshold(rule, threshold_for_coverage(confidence[rule], coverage))


def _for_risk(
    max_risk: float, delta: float, cases: HeldOut, confidence: dict[Any, Array], classes: Array
) -> Threshold:
    """Take the rule that decides most; each is tested with its share of ``delta``."""
    expected, found, most = cases.expected_errors(classes), Threshold(None), -1.0
    for rule, sure in confidence.items():
        value, bound = threshold_for_risk(
            sure, cases.errors, max_risk, delta / len(confidence), expected,
            sure_of_it=cases.from_fit,
        )  # fmt: skip
        if np.mean(sure > value) > most:
            found, most = Threshold(rule, value, risk_bound=bound), float(np.mean(sure > value))
    if found.value == np.inf:
        warn_that_none_passes(max_risk, delta, len(cases.true), found.risk_bound)
    return found


def _for_limits(wanted: Wanted, cases: HeldOut, classes: Array) -> Threshold:
    """Take the loosest thresholds for which all limits are shown."""
    true = numbers_of_labels("y", cases.true, classes)
    predicted = numbers_of_labels("predict(X)", cases.predicted, classes)
    found = limits.thresholds_for_limits(
        limits.Labelled(true, predicted, cases.confidence["probability"]),
        limits.numbered("min_precision", wanted.min_precision, classes),
        limits.numbered("min_recall", wanted.min_recall, classes),
        len(classes), wanted.delta,
    )  # fmt: skip
    limits.warn_of_failed(found.failed, classes, wanted.delta, len(true))
    return Threshold("probability", found.thresholds)
