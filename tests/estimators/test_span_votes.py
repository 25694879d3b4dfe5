"""Decisions by votes of draws in the span of the training points."""

import pickle

import numpy as np
import pytest
from helpers.classifiers import by_hand, classifier, flowers, fresh_points, unusual
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier
from bayespoint.space.posterior import dense


def span_votes_by_hand(clf, X, new):
    """Share of draws that say yes, over the classes; and where that is not left to rounding."""
    cross, _ = by_hand(clf, new, X)
    draws = [dense(clf.posterior(machine).coef) for machine in range(len(clf.dual_coef_))]
    outputs = [coef @ cross.T for coef in draws]
    if len(outputs) == 1:
        yes = np.mean(outputs[0] > 0, axis=0)
        votes = np.stack([1 - yes, yes], axis=-1)
    else:  # each draw says the class of its largest output
        best = np.argmax(outputs, axis=0)
        votes = np.stack([np.mean(best == c, axis=0) for c in range(len(outputs))], axis=-1)
    return np.maximum(votes, 1e-300), np.min(np.abs(outputs), axis=(0, 1)) > 1e-12


@pytest.mark.parametrize(
    ("n_classes", "inference", "settings"),
    [
        (2, "billiard", {"label_noise": 0.3}),
        (3, "billiard", {"softness": 1.0, "class_weight": {0: 3.0}}),
        (3, "gibbs", {"label_noise": 0.3}),
        (2, "perceptron", {"softness": 1.0, "class_weight": {0: 3.0}}),
        (3, "perceptron", {}),
    ],
    ids=str,
)
def test_span_votes_are_shares_of_draws(n_classes, inference, settings):
    """Neither softness nor label noise is folded in."""
    X, y, new, _ = flowers(n_classes, step=6)
    new = np.vstack([new[:20], fresh_points(X, 40)])
    clf = classifier(inference=inference, decision="span_vote", n_draws=20, **settings).fit(X, y)
    votes, clear = span_votes_by_hand(clf, X, new)
    assert np.mean(clear) > 0.5
    if "class_weight" in settings:
        votes[:, 0] *= 3.0
    expected = votes / votes.sum(axis=1, keepdims=True)
    p = clf.predict_proba(new)
    assert_allclose(p[clear], expected[clear], atol=1e-12)
    assert_array_equal(clf.predict(new), clf.classes_[p.argmax(axis=1)])
    outputs = clf.decision_function(new)
    best = outputs > 0 if n_classes == 2 else outputs.argmax(axis=1)
    assert_array_equal(clf.predict(new), clf.classes_[best.astype(int)])
    assert np.all(np.isfinite(outputs))


@pytest.mark.parametrize("label_noise", [0.0, 0.3])
def test_members_of_span_votes_say_yes_or_no(label_noise):
    X, y, new, _ = flowers(2, step=6)
    clf = classifier(decision="span_vote", n_draws=20, label_noise=label_noise).fit(X, y)
    members = clf.sample_proba(new, n_samples=20, random_state=0)
    assert members.shape == (20, len(new), 2)
    assert_allclose(members, np.round(members), atol=1e-12)
    assert_allclose(members.sum(axis=2), 1.0)
    assert_allclose(members.mean(axis=0), clf.predict_proba(new), atol=1e-12)
    several = classifier(decision="span_vote").fit(*flowers(3, step=6)[:2])
    members = several.sample_proba(new, n_samples=5, random_state=0)
    assert np.all(np.isclose(members[..., None], [0, 1]).any(axis=-1))


def test_span_votes_are_too_sure_far_from_all_data():
    X, y, *_ = flowers(2, step=6)
    far = X.mean(axis=0) + 4.0 * np.random.default_rng(0).normal(size=(50, X.shape[1]))
    settings = {"bias": 0.0, "gamma": 0.05, "n_draws": 100}
    span, vote = (
        classifier(decision=d, **settings).fit(X, y).predict_proba(far).max(axis=1)
        for d in ("span_vote", "vote")
    )
    assert vote.mean() < span.mean() - 0.1
    assert np.mean(span > vote) > 0.9


def test_span_votes_need_less_memory_than_votes_and_cannot_be_compressed():
    X, y, new, _ = flowers(2, step=6)
    enough = 16 * len(X) ** 2 / 1e6
    clf = classifier(decision="span_vote", cache_size=1.001 * enough).fit(X, y)
    with pytest.raises(ValueError, match="cache_size"):
        classifier(decision="vote", cache_size=1.001 * enough).fit(X, y)
    with pytest.raises(ValueError, match=r"compress needs decision='bayes_point'"):
        clf.compress()
    again = pickle.loads(pickle.dumps(clf))
    assert_array_equal(again.predict_proba(new), clf.predict_proba(new))
    assert not unusual(vars(clf), "clf")


def test_span_votes_of_a_gram_matrix():
    X, y, new, _ = flowers(3, step=6)
    clf = classifier(kernel="precomputed", decision="span_vote", n_draws=20)
    clf.fit(rbf_kernel(X, X, 0.5), y)
    cross = rbf_kernel(new, X, 0.5) + 1.0  # the bias
    best = np.argmax([clf.posterior(c).coef @ cross.T for c in range(3)], axis=0)
    expected = np.stack([np.mean(best == c, axis=0) for c in range(3)], axis=-1)
    assert_allclose(clf.predict_proba(rbf_kernel(new, X, 0.5)), expected, atol=1e-12)


def test_a_decision_that_does_not_exist_is_named():
    X, y, *_ = flowers(2, step=6)
    with pytest.raises(ValueError, match=r"decision.*span_vote.*got 'span'"):
        BayesPointClassifier(decision="span").fit(X, y)
