"""What a classifier decides about points: labels, rejections, probabilities, confidences."""

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint._support.types import Array
from bayespoint.cli.fitted import Base, Classifier, base_of
from bayespoint.estimators.confidence import confidence_of

# Rows decided at once: their features and kernel values stay below 100 MB for most tables.
BLOCK_ROWS = 4096


class Decisions(NamedTuple):
    """Decisions about some points, one entry a point."""

    labels: Array  # text, also where rejected
    rejected: Array
    proba: Array
    confidence: Array  # by the rule of the rejection, else the gap of the best two outputs


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
    rejecting = isinstance(classifier, RejectingClassifier)
    confidence = confidence_of(base, X, classifier.confidence_ if rejecting else "gap")
    rejected = np.zeros(len(X), dtype=bool)
    if may_reject(classifier):
        rejected = ~(confidence > classifier.threshold_)
    labels = np.array([str(label) for label in base.predict(X).tolist()], dtype=str)
    return Decisions(labels, rejected, base.predict_proba(X), confidence)


def may_reject(classifier: Classifier) -> bool:
    """Whether there are points about which a classifier would abstain."""
    return isinstance(classifier, RejectingClassifier) and bool(classifier.threshold_ > -np.inf)


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
