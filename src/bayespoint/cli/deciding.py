"""What a classifier decides about points: labels, rejections, probabilities, confidences."""

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint._support.checks import SHOWN_PLACES, RowsError
from bayespoint._support.types import Array
from bayespoint.cli.fitted import Base, Classifier, base_of
from bayespoint.cli.output import in_options
from bayespoint.estimators.confidence import confidence_of
from bayespoint.io.tables import Table, TableError
from bayespoint.io.tables.table import and_more

# Rows decided at once: their features and kernel values stay below 100 MB for most tables.
BLOCK_ROWS = 4096


class Decisions(NamedTuple):
    """Decisions about some points, one entry per point."""

    labels: Array  # text, also where rejected
    rejected: Array
    proba: Array
    confidence: Array  # by the rule of the rejection, else the gap of the best two outputs
    expected_cost: Array  # NaN of classifiers without costs


def decide(classifier: Classifier, X: Array) -> Decisions:
    """Decide about points, with one evaluation of the kernel for all that is asked.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
        Fitted.
    X : ndarray of shape (n, n_features)

    Returns
    -------
    Decisions

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.cli.deciding import decide
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = BayesPointClassifier(gamma="scale", softness=0.1).fit(X, y)
    >>> decide(classifier, X[:2]).labels
    array(['0', '0'], dtype='<U1')
    """
    base = _answering(base_of(classifier), X)
    rejected, expected_cost = np.zeros(len(X), dtype=bool), np.full(len(X), np.nan)
    if isinstance(classifier, RejectingClassifier):
        known = copy(classifier)
        known.estimator_ = base
        labels, rejected = known.decide(X)
        confidence = known.confidence_scores(X)
        expected_cost = known.expected_cost(X) if has_costs(known) else expected_cost
    else:
        labels, confidence = base.predict(X), confidence_of(base, X, "gap")
    labels = np.array([str(label) for label in labels.tolist()], dtype=str)
    return Decisions(labels, rejected, base.predict_proba(X), confidence, expected_cost)


def decide_rows(classifier: Classifier, X: Array, table: Table, first: int = 0) -> Decisions:
    """Decide about rows of a table, where errors name its lines.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier or RejectingClassifier
        Fitted.
    X : ndarray of shape (n, n_features)
        Some of the rows, as numbers.
    table : Table
    first : int, default=0
        Which row of the table the first of them is.

    Returns
    -------
    Decisions
    """
    try:
        return decide(classifier, X)
    except RowsError as error:
        shown = [table.place(first + row) for row in error.points[:SHOWN_PLACES].tolist()]
        places = ", ".join(shown) + and_more(len(error.points) - len(shown))
        before, after = error.before.removesuffix("rows "), error.after.removeprefix(" of X")
        raise TableError(in_options(f"{before}{places}{after}")) from None


def may_reject(classifier: Classifier) -> bool:
    """Whether there are points about which a classifier would abstain."""
    return isinstance(classifier, RejectingClassifier) and classifier.may_reject()


def has_costs(classifier: Classifier) -> bool:
    """Whether a classifier decides by costs."""
    return isinstance(classifier, RejectingClassifier) and classifier.costs is not None


def blocks_of(n_rows: int) -> Iterator[slice]:
    """Yield slices of rows that are decided at once."""
    for start in range(0, n_rows, BLOCK_ROWS):
        yield slice(start, start + BLOCK_ROWS)


def _answering(classifier: Base, X: Array) -> Base:
    """Copy that knows its outputs at X already; labels and probabilities come from them."""
    if type(classifier) is not BayesPointClassifier:
        return classifier
    outputs = classifier.decision_function(X)
    known = copy(classifier)
    known.__dict__["decision_function"] = lambda _: outputs
    return known
