"""Overlapping clouds of points in the plane, and whether a fit to them can be used."""

import numpy as np
from numpy.testing import assert_allclose

from bayespoint import BayesPointClassifier
from helpers.classifiers import FIXED


def clouds(n=30, n_classes=2, seed=0, apart=1.0, wrong=0.0):
    """Clouds that overlap; a share ``wrong`` of the labels is at random."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % n_classes
    angle = 2 * np.pi * label / n_classes
    X = rng.normal(size=(n, 2)) + apart * np.column_stack([np.cos(angle), np.sin(angle)])
    random = rng.random(n) < wrong
    return X, np.where(random, rng.integers(n_classes, size=n), label)


def propagation(**settings):
    """Expectation propagation with fixed settings, but for those given."""
    return BayesPointClassifier(
        **{"inference": "ep", "n_draws": 4, "random_state": 0, **FIXED, **settings}
    )


def settings_of(clf):
    return np.hstack([clf.gamma_, clf.bias_, clf.softness_, clf.label_noise_])


def assert_usable(clf, X):
    """Settings are numbers, and predictions probabilities."""
    assert np.all(np.isfinite(settings_of(clf)))
    p = clf.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1)
    assert np.all(p >= 0)
