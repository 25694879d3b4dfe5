"""The same classifier fitted on the CPU and on what stands in for a GPU."""

import signal

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import BayesPointClassifier

# Settings that data would choose otherwise.
FIXED = {"gamma": 0.05, "softness": 0.05, "bias": 0.5, "random_state": 0}


def make(inference="perceptron", device="cuda", **settings):
    settings = {"n_draws": 4, "inference": inference, **FIXED, **settings}
    return BayesPointClassifier(device=device, **settings)


def fitted_pair(X, y, weight=None, **settings):
    """The same fit on both devices."""
    pair = [make(device=device, **settings).fit(X, y, weight) for device in ("cpu", "cuda")]
    assert [clf.device_ for clf in pair] == ["cpu", "cuda"]
    return pair


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def assert_equal_fits(theirs, ours, new, slack=1e-6):
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.classes_, theirs.classes_)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=slack)
    assert_allclose(ours.bayes_point_error_, theirs.bayes_point_error_, rtol=1e-4)
    assert ours.n_draws_ == theirs.n_draws_
    assert_array_equal(dense(ours.support_vectors_), dense(theirs.support_vectors_))
    assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-4)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-4)


def within(data, n, n_new=60):
    """The first points to train with, their labels, and the next ones."""
    X, y = data
    return X[:n], y[:n], X[n : n + n_new]


def press_ctrl_c(monkeypatch, owner, name, when):
    """Press Ctrl-C once, before the call of a function that ``when(call, *args)`` says."""
    true, calls, pressed = getattr(owner, name), [], []

    def wrapped(*args, **kwargs):
        calls.append(name)
        if not pressed and when(len(calls), *args):
            pressed.append(len(calls))
            signal.raise_signal(signal.SIGINT)
        return true(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return pressed
