"""Classifiers by Gibbs steps: decisions, warm starts, agreement with the billiard."""

import pickle

import numpy as np
import pytest
from helpers.classifiers import FIXED, flowers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from bayespoint import BayesPointClassifier


def classifier(**settings):
    """Gibbs sampler with so few draws that there is no R-hat, which could warn."""
    return BayesPointClassifier(
        **{"inference": "gibbs", "n_draws": 8, "random_state": 0, **FIXED, **settings}
    )


@pytest.mark.parametrize(
    ("n_classes", "label_noise", "decision"),
    [
        (2, 0.1, "span_vote"),
        (3, 0.0, "bayes_point"),
    ],
)
def test_a_classifier_by_gibbs_steps(n_classes, label_noise, decision):
    X, y, new, labels = flowers(n_classes)
    settings = {"label_noise": label_noise, "decision": decision, "n_draws": 40}
    clf = classifier(**settings).fit(X, y)
    assert clf.inference_ == "gibbs"
    assert clf.inference_reason_ == "asked for"
    assert clf.n_draws_ == 40
    assert clf.score(new, labels) > 0.85
    p = clf.predict_proba(new)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(p.argmax(axis=1), clf.predict(new))
    n_machines = 1 if n_classes == 2 else n_classes
    assert clf.diagnostics_["rhat"].shape == (n_machines,)
    assert_array_equal(clf.diagnostics_["bounces"], 0)
    assert clf.dual_coef_.shape[0] == n_machines
    posterior = clf.posterior(0)
    assert posterior.n_chains == 4
    target = np.where(y == (1 if n_classes == 2 else 0), 1, -1)
    if not label_noise:
        assert np.all(target * posterior.outputs > 0)
    again = clone(clf).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(again.predict_proba(new), p)
    assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(new), p)
    other = clone(clf).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict_proba(new), p)


def test_auto_is_a_vote_and_never_gibbs():
    X, y, new, _ = flowers(3)
    by_default, vote = (classifier(decision=d).fit(X, y) for d in ("auto", "vote"))
    assert_array_equal(by_default.predict_proba(new), vote.predict_proba(new))
    settings = {"inference": "auto", "label_noise": 0.1}
    assert classifier(**settings).fit(X, y).inference_ == "ep"
    # Without room for EP.
    little = 40 * len(X) ** 2 / 1e6
    assert classifier(**settings, cache_size=little).fit(X, y).inference_ == "billiard"


@pytest.mark.parametrize("label_noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
def test_the_classifier_agrees_with_the_billiard(label_noise):
    """Probabilities of 30 points, known to about 0.02; without labels they would be one half."""
    X, y = make_blobs(40, centers=[[0, 0], [1.5, 1.5]], random_state=0)
    settings = {"label_noise": label_noise, "gamma": 0.5, "softness": 0.5, "tol": 0}
    flown = classifier(**settings, inference="billiard", n_draws=2_000).fit(X[:10], y[:10])
    walked = classifier(**settings, n_draws=8_000).fit(X[:10], y[:10])
    p, q = (clf.predict_proba(X[10:])[:, 1] for clf in (flown, walked))
    assert np.abs(p - q).max() < 0.05
    assert np.abs(p - 0.5).max() > 0.15
    assert_allclose(flown.label_error_proba_, walked.label_error_proba_, atol=0.05)


def test_a_warm_start_adds_draws():
    X, y, new, _ = flowers(2)
    clf = classifier(warm_start=True, label_noise=0.1).fit(X, y)
    first = clf.posterior(0).draws()
    clf.set_params(n_draws=20).fit(X, y)
    assert clf.n_draws_ == 20
    assert_array_equal(clf.posterior(0).draws()[:, :2], first)
    mean = clf.posterior(0).coef.mean(axis=0)
    found = clf.posterior(0).bayes_point()
    assert_allclose(found / np.linalg.norm(found), mean / np.linalg.norm(mean), atol=1e-9)
    proba, errors_ = clf.predict_proba(new), clf.label_error_proba_
    clf.set_params(n_draws=12).fit(X, y)  # none is taken away
    assert clf.n_draws_ == 20
    assert_array_equal(clf.predict_proba(new), proba)
    assert_allclose(clf.label_error_proba_, errors_, atol=1e-12)
    with pytest.raises(ValueError, match=r"warm_start=True.*inference"):
        clf.set_params(inference="billiard").fit(X, y)


def test_the_classifier_warns_where_chains_do_not_agree():
    X, y = make_blobs(100, centers=[[0, 0], [1.5, 1.5]], random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"chains of the Gibbs sampler do not.*n_draws"):
        classifier(label_noise=0.05, n_draws=100).fit(X, y)
