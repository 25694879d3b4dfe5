"""Few labelled points and a pool to ask from, for active learning."""

from functools import cache

import numpy as np
from scipy.special import entr

from bayespoint import BayesPointClassifier
from helpers.classifiers import FIXED


def entropy(p):
    return entr(p).sum(axis=-1)


def labelled(n=12, n_classes=2, seed=0, n_pool=60):
    """Few labelled points in the plane, and a pool around them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    if n_classes == 3:
        y[X[:, 1] < -0.3] = 2
    return X, y, rng.normal(scale=1.5, size=(n_pool, 2))


def asking(**settings):
    """A classifier to ask: a billiard of few draws."""
    return BayesPointClassifier(
        **FIXED
        | {"inference": "billiard", "n_draws": 40, "gamma": 0.5, "random_state": 0}
        | settings
    )


@cache
def asked(n_classes=2, **settings):
    """Fitted to the labelled points: to look at, not to change."""
    X, y, _ = labelled(n_classes=n_classes)
    return asking(**settings).fit(X, y)
