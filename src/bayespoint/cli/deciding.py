"""What a classifier decides about points: labels, rejections, probabilities, confidences."""

from copy import copy
from typing import NamedTuple

import numpy as np

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.estimators.rejection import confidence_of

# Rows decided at once: their features and kernel values stay below 100 MB for most tables.
BLOCK_ROWS = 4096


class Decisions(NamedTuple):
    """Decisions about some points, one entry a point."""

    labels: np.ndarray  # text, also where rejected
    rejected: np.ndarray
    proba: np.ndarray
    confidence: np.ndarray  # by the rule of the rejection, else the gap of the best two outputs


def decide(classifier, X):
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
    >>> classifier = BayesPointClassifier(random_state=0).fit(X, y)
    >>> decide(classifier, X[:2]).labels
    array(['0', '0'], dtype='<U1')
    """
    rejecting = isinstance(classifier, RejectingClassifier)
    inner = _answering(base_of(classifier), X)
    confidence = confidence_of(inner, X, classifier.confidence if rejecting else "gap")
    rejected = np.zeros(len(X), dtype=bool)
    if rejecting and classifier.threshold_ > -np.inf:
        rejected = ~(confidence > classifier.threshold_)
    labels = np.array([str(label) for label in inner.predict(X).tolist()], dtype=str)
    return Decisions(labels, rejected, inner.predict_proba(X), confidence)


def base_of(classifier):
    """Classifier inside one that may reject."""
    return classifier.estimator_ if isinstance(classifier, RejectingClassifier) else classifier


def class_names(classifier):
    """Classes as text, in order."""
    return [str(label) for label in classifier.classes_.tolist()]


def _answering(classifier, X):
    """Copy that knows its outputs at X already; labels and probabilities come from them."""
    if type(classifier) is not BayesPointClassifier:
        return classifier
    outputs = classifier.decision_function(X)
    known = copy(classifier)
    known.__dict__["decision_function"] = lambda _: outputs
    return known
