"""What is particular to ``inference="gibbs"``: no bounces, and the posterior of the billiard."""

import numpy as np
import pytest
from helpers.classifiers import classifier, fitted
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs


def test_walkers_never_bounce():
    told = fitted("gibbs").diagnostics_
    assert_array_equal(told["bounces"], 0)
    assert told["rhat"].shape == (3,)


@pytest.mark.parametrize("label_noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
def test_the_classifier_agrees_with_the_billiard(label_noise):
    """Probabilities of 30 points, known to about 0.02; without labels they would be one half."""
    X, y = make_blobs(40, centers=[[0, 0], [1.5, 1.5]], random_state=0)
    settings = {"label_noise": label_noise, "gamma": 0.5, "softness": 0.5, "tol": 0}
    flown = classifier(**settings, n_draws=2_000).fit(X[:10], y[:10])
    walked = classifier(**settings, inference="gibbs", n_draws=8_000).fit(X[:10], y[:10])
    p, q = (clf.predict_proba(X[10:])[:, 1] for clf in (flown, walked))
    assert np.abs(p - q).max() < 0.05
    assert np.abs(p - 0.5).max() > 0.15
    assert_allclose(flown.label_error_proba_, walked.label_error_proba_, atol=0.05)
