"""What is measured on labelled rows: errors, curves, calibration, one entry per class."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest, entropy
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)

from bayespoint._support.types import Array
from bayespoint.estimators.costs import REJECT, costs_of_labels
from bayespoint.estimators.risk import aurc, risk_coverage_curve

# Of all intervals; Clopper and Pearson's, which cover at least as often as they say.
LEVEL = 0.95
INTERVAL = "Clopper-Pearson"
# Bins of probability of equal width: the number that most published values of the ECE have.
N_BINS = 10
# Coverages that the risk is listed for.
COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.5)


class Limit(NamedTuple):
    """Precision or recall that a class is to have among decided rows."""

    what: str  # "precision" or "recall"
    number: int  # of the class
    least: float


class Evaluated(NamedTuple):
    """Labelled rows and what a classifier decides about them."""

    classes: list[str]
    true: Array  # number of the class; -1 where the model does not know the label
    predicted: Array  # number of the class, also where rejected
    rejected: Array
    proba: Array
    confidence: Array
    rejects: bool  # whether the model may abstain
    costs: Any = None  # by true class and decision, where the model has them
    expected_cost: Any = None  # of the decisions, by the model's probabilities
    limits: Sequence[Limit] = ()

    @property
    def wrong(self) -> Array:
        """Rows whose label is not the one predicted."""
        return self.true != self.predicted

    @property
    def known(self) -> Array:
        """Rows whose label is a class of the model."""
        return self.true >= 0

    def labels_of(self, i: int) -> dict[str, Any]:
        """True label of a row, None where the model does not know it, and the one predicted."""
        predicted = self.predicted[i]
        return {
            "true": self.classes[self.true[i]] if self.known[i] else None,
            "predicted": self.classes[predicted], "probability": float(self.proba[i, predicted]),
        }  # fmt: skip


def measure(rows: Evaluated, positive: int | None = None) -> dict[str, Any]:
    """Measure all that the report and the JSON document tell, of plain types.

    Parameters
    ----------
    rows : Evaluated
    positive : int, optional
        Class that ROC and precision-recall are about, of two; by default the rarer one of these
        rows.

    Returns
    -------
    dict
        None where a number is not defined, as the risk where nothing is decided.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.cli.report import Evaluated, measure
    >>> proba = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> rows = Evaluated(["no", "yes"], np.array([0, 1, 1]), np.array([0, 1, 0]),
    ...                  np.zeros(3, bool), proba, proba.max(axis=1), False)
    >>> measured = measure(rows)
    >>> measured["n_wrong"], round(measured["brier"], 4), measured["auc"]
    (1, 0.1367, 1.0)
    """
    wrong, decided = rows.wrong, ~rows.rejected
    n, n_decided = len(wrong), int(decided.sum())
    return {
        "n_rows": n, "n_unknown": int((~rows.known).sum()), **_risk(wrong, "n_wrong", "error"),
        "majority_error": float(1 - np.bincount(rows.true[rows.known]).max() / n),
        "interval": f"{INTERVAL}, {LEVEL:.0%}",
        "rejects": rows.rejects, "n_decided": n_decided, "coverage": n_decided / n,
        **_risk(wrong[decided], "n_wrong_decided", "decided_error"),
        **_probabilistic(rows), **_coverage(rows), **_binary(rows, positive), "costs": _costs(rows),
        "limits": [_kept(rows, limit) for limit in rows.limits], "classes": _by_class(rows),
        "confusion": _confusion(rows),
    }  # fmt: skip


def interval(n_hits: int, n: int) -> list[float] | None:
    """Clopper-Pearson interval of a share, or None of nothing."""
    if not n:
        return None
    ends = binomtest(n_hits, n).proportion_ci(LEVEL, method="exact")
    return [float(ends.low), float(ends.high)]


def _risk(wrong: Array, count: str, share: str) -> dict[str, Any]:
    n, n_wrong = len(wrong), int(wrong.sum())
    return {
        count: n_wrong, share: n_wrong / n if n else None, f"{share}_interval": interval(n_wrong, n)
    }  # fmt: skip


def brier_score(true: Array, proba: Array) -> float:
    """Mean squared difference of probabilities and outcome, as scikit-learn has it.

    Of two classes that of one of them; of more the sum over all classes.

    Parameters
    ----------
    true : ndarray of int
    proba : ndarray of shape (n, n_classes)

    Returns
    -------
    float
    """
    outcome = np.eye(proba.shape[1])[true]
    total = float(np.mean(np.sum((proba - outcome) ** 2, axis=1)))
    return total / 2 if proba.shape[1] == 2 else total


def log_score(true: Array, proba: Array) -> float:
    """Mean of -log of the probability of the true class."""
    return float(log_loss(true, proba, labels=np.arange(proba.shape[1])))


def _probabilistic(rows: Evaluated) -> dict[str, Any]:
    """Scores of the probabilities, on rows whose label is known to the model."""
    true, proba = rows.true[rows.known], rows.proba[rows.known]
    bins = _bins(rows)
    off = sum(b["n"] * abs(b["right"] - b["probability"]) for b in bins)
    return {
        "log_loss": log_score(true, proba), "brier": brier_score(true, proba),
        "base_rate": _base_rate(true, proba.shape[1]),
        "ece": off / len(rows.true), "calibration": bins,
    }  # fmt: skip


def _base_rate(true: Array, n_classes: int) -> dict[str, float]:
    """Scores of one probability for all rows: how frequent the classes are among them.

    Nothing that knows no column does better, and the log loss is the entropy of the labels.
    """
    share = np.bincount(true, minlength=n_classes) / len(true)
    proba = np.broadcast_to(share, (len(true), n_classes))
    return {"log_loss": float(entropy(share)), "brier": brier_score(true, proba)}


def _bins(rows: Evaluated) -> list[dict[str, Any]]:
    """Bins of the probability of the predicted label that hold rows."""
    p = rows.proba[np.arange(len(rows.true)), rows.predicted]
    number = np.minimum((p * N_BINS).astype(int), N_BINS - 1)
    bins = []
    for k in np.unique(number).tolist():
        here = number == k
        n, n_right = int(here.sum()), int((~rows.wrong[here]).sum())
        bins.append(
            {
                "low": k / N_BINS, "high": (k + 1) / N_BINS, "n": n,
                "probability": float(p[here].mean()), "right": n_right / n,
                "interval": interval(n_right, n),
            }
        )  # fmt: skip
    return bins


def _coverage(rows: Evaluated) -> dict[str, Any]:
    """Risk among the surest rows."""
    arrays = rows.true, rows.predicted, rows.confidence
    coverage, risk, _ = risk_coverage_curve(*arrays)
    at = np.minimum(np.searchsorted(coverage, np.array(COVERAGES) - 1e-12), len(coverage) - 1)
    return {
        "aurc": aurc(*arrays),
        "risk_at_coverage": [
            {"coverage": float(coverage[i]), "risk": float(risk[i])} for i in dict.fromkeys(at)
        ],
    }


def costs_of(rows: Evaluated) -> tuple[Array, Array]:
    """What deciding and rejecting cost, on rows whose label is known; NaN without such a column."""
    known, numbers = rows.known, np.arange(len(rows.classes))
    return costs_of_labels(rows.costs, numbers, rows.true[known], rows.predicted[known])


def _costs(rows: Evaluated) -> dict[str, Any] | None:
    """Mean costs of rows whose label is known: of decisions, and of simpler ones beside them."""
    if rows.costs is None:
        return None
    deciding, rejecting = costs_of(rows)
    cost = np.where(rows.rejected[rows.known], rejecting, deciding)
    true, likely = rows.true[rows.known], rows.proba[rows.known].argmax(axis=1)
    constant = rows.costs[true].mean(axis=0)
    best, names = int(constant.argmin()), [*rows.classes, REJECT]
    return {
        "mean": float(cost.mean()),
        "standard_error": float(cost.std(ddof=1) / np.sqrt(len(cost))) if len(cost) > 1 else None,
        "expected": float(rows.expected_cost[rows.known].mean()),
        "most_probable": float(rows.costs[true, likely].mean()),
        "constant": float(constant[best]), "constant_decision": names[best],
        "matrix": rows.costs.tolist(), "decisions": names[: rows.costs.shape[1]],
    }  # fmt: skip


def _kept(rows: Evaluated, limit: Limit) -> dict[str, Any]:
    """Whether a limit holds on these rows: of those labelled so, or those of the class."""
    labelled = rows.predicted == limit.number
    if limit.what == "precision":
        held = ~rows.wrong[labelled & ~rows.rejected]
    else:  # rejected rows are not missed
        held = (labelled | rows.rejected)[rows.true == limit.number]
    n, n_held = len(held), int(held.sum())
    within = interval(n_held, n)
    return {
        "limit": limit.what, "label": rows.classes[limit.number], "least": limit.least, "n": n,
        "share": n_held / n if n else None, "share_interval": within,
        "kept": n_held / n >= limit.least if n else None,
        "by_chance": within is not None and n_held / n < limit.least <= within[1],
    }  # fmt: skip


def binary_scores(rows: Evaluated, positive: int) -> tuple[Array, Array]:
    """Whether labels are a class (0 or 1), and the probabilities of that."""
    return (rows.true[rows.known] == positive).astype(int), rows.proba[rows.known, positive]


def _binary(rows: Evaluated, positive: int | None) -> dict[str, Any]:
    """Scores of finding one class of two; None unless labels of both are there."""
    count = np.bincount(rows.true[rows.known], minlength=len(rows.classes))
    if len(rows.classes) != 2 or not count.all():
        return {"positive": None, "auc": None, "average_precision": None}
    if positive is None:
        positive = int(count[1] <= count[0])
    scores = binary_scores(rows, positive)
    return {
        "positive": rows.classes[positive], "auc": float(roc_auc_score(*scores)),
        "average_precision": float(average_precision_score(*scores)),
    }  # fmt: skip


def _by_class(rows: Evaluated) -> list[dict[str, Any]]:
    """Precision, recall, F1 and support of each class, before any rejection."""
    numbers = np.arange(len(rows.classes))
    scores = precision_recall_fscore_support(
        rows.true, rows.predicted, labels=numbers, zero_division=np.nan
    )
    return [
        {
            "label": rows.classes[k], "precision": _or_none(precision), "recall": _or_none(recall),
            "f1": _or_none(f1), "support": int(support),
            "predicted": int((rows.predicted == k).sum()),
            "rejected": int((rows.rejected & (rows.true == k)).sum()),
        }
        for k, (precision, recall, f1, support) in enumerate(zip(*scores, strict=True))
    ]  # fmt: skip


def _confusion(rows: Evaluated) -> dict[str, Any]:
    """Counts of true (rows) and predicted (columns) labels among decided rows; rejected apart.

    Rows whose label the model does not know are in the last row, under the label None.
    """
    labels: list[str | None] = list(rows.classes)
    numbers, true = np.arange(len(labels)), rows.true
    if not rows.known.all():
        labels, numbers = [*labels, None], np.append(numbers, len(labels))
        true = np.where(rows.known, true, len(rows.classes))
    decided = ~rows.rejected
    if decided.any():
        matrix = confusion_matrix(true[decided], rows.predicted[decided], labels=numbers)
    else:  # scikit-learn refuses none
        matrix = np.zeros((len(numbers), len(numbers)), dtype=int)
    rejected = np.bincount(true[rows.rejected], minlength=len(numbers))
    return {
        "labels": labels, "matrix": matrix[:, : len(rows.classes)].tolist(),
        "rejected": rejected.tolist(),
    }  # fmt: skip


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
