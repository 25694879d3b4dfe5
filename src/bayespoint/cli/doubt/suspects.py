"""Rows whose labels are probably wrong, and the rows that speak against them."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from bayespoint import BayesPointClassifier
from bayespoint._support.types import Array
from bayespoint.io.tables import Table

# A label is listed without being asked for if it is wrong with more than this probability.
PROBABLY = 0.5
# Rows that speak against a label.
NEAREST = 3


class Suspect(NamedTuple):
    """A row whose label may be wrong."""

    row: int
    label: str
    suggested: str
    wrong: float  # probability that the label is wrong
    probability: float  # of the suggested label
    against: list[int]  # nearest rows that have it

    @property
    def word(self) -> str:
        """How sure it is that the label should be another one."""
        return "rather" if self.wrong > PROBABLY else "perhaps"


def suspects_of(
    classifier: BayesPointClassifier, X: Array, labels: Array, budget: int | None
) -> list[Suspect]:
    """List rows, surest first: so many, or those whose labels are more probably wrong than right.

    Parameters
    ----------
    classifier : BayesPointClassifier
        Fitted to these rows.
    X : ndarray of shape (n_rows, n_features)
    labels : ndarray of shape (n_rows,)
    budget : int or None
    """
    wrong, proba = classifier.label_error_proba_, np.asarray(classifier.trained_.label_proba)
    order = np.argsort(-wrong, kind="stable")
    order = order[: np.count_nonzero(wrong > PROBABLY) if budget is None else budget]
    classes = classifier.classes_
    others = np.where(classes == labels[order][:, None], -1.0, proba[order])
    best = others.argmax(axis=1)
    nearest = _nearest(classifier, X, labels, order, classes[best])
    return [
        Suspect(int(i), str(labels[i]), str(classes[k]), float(wrong[i]), float(proba[i, k]), near)
        for i, k, near in zip(order, best, nearest, strict=True)
    ]


def _nearest(
    classifier: BayesPointClassifier, X: Array, labels: Array, order: Array, suggested: Array
) -> list[list[int]]:
    """Nearest rows with the suggested labels, by the distance that the kernel knows."""
    city_block = classifier.kernel_ == "laplacian"
    widths = np.ravel(classifier.gamma_) if np.ndim(classifier.gamma_) else np.ones(1)
    points = X * (widths if city_block else np.sqrt(widths))
    found: list[list[int]] = [[]] * len(order)
    for label in np.unique(suggested):
        there, asked = np.flatnonzero(labels == label), np.flatnonzero(suggested == label)
        search = NearestNeighbors(
            n_neighbors=min(NEAREST, len(there)), metric="manhattan" if city_block else "euclidean"
        ).fit(points[there])
        near = search.kneighbors(points[order[asked]], return_distance=False)
        for place, rows in zip(asked, there[near], strict=True):
            found[place] = rows.tolist()
    return found


def pairs_of(suspects: list[Suspect]) -> list[dict[str, Any]]:
    """Labels and suggested labels, pairs that come more than once, the most frequent first."""
    counts = Counter((one.label, one.suggested) for one in suspects)
    return [
        {"label": label, "suggested": suggested, "n": n}
        for (label, suggested), n in counts.most_common()
        if n > 1
    ]


def places(table: Table, rows: list[int]) -> list[str]:
    """Where rows are in the file."""
    return [table.place(i) for i in rows]
