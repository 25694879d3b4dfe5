"""A classifier whose probabilities are told: they are the columns of X."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Told(ClassifierMixin, BaseEstimator):
    """Gives the columns of X as probabilities of its classes; there is nothing to fit."""

    def __init__(self, classes=(0, 1)):
        self.classes = classes

    @property
    def classes_(self):
        return np.array(self.classes)

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict_proba(self, X):
        return np.asarray(X)[:, : len(self.classes)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_is_fitted__(self):
        return True


def two_classes(p):
    """Rows for `Told` with probabilities p of the second class."""
    p = np.asarray(p, dtype=float)
    return np.column_stack((1 - p, p))
