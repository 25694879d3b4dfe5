"""Links of fits: probabilities are as steep as labels left out ask for."""

import numpy as np
import pytest
from helpers.clouds import clouds, propagation
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

from bayespoint.space import links
from bayespoint.space.links import Link


def flat_and_linked(n_classes):
    """The vote, and the same with a link."""
    X, y = clouds(60, n_classes, apart=3.0)
    return [propagation(softness=5.0, decision=name).fit(X, y) for name in ("vote", "calibrated")]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_that_are_too_flat_are_made_steeper(n_classes):
    flat, steep = flat_and_linked(n_classes)
    new, labels = clouds(300, n_classes, seed=1, apart=3.0)
    assert flat.predictor_.link is None
    assert np.all(steep.predictor_.link.weights.diagonal() > 1.2)
    loss = [log_loss(labels, clf.predict_proba(new)) for clf in (flat, steep)]
    assert loss[1] < 0.8 * loss[0]
    assert np.mean(flat.predict(new) == steep.predict(new)) > 0.95
    p = steep.sample_proba(new, 5, random_state=0)
    assert_allclose(p.sum(axis=2), 1)


def test_votes_that_are_too_steep_are_made_flatter():
    """Labels at random, hardly any softness."""
    X, y = clouds(90, wrong=0.6)
    clf = propagation(gamma=5.0, softness=0.01, decision="calibrated").fit(X, y)
    assert clf.predictor_.link.weights[0, 0] < 0.9


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_the_link_of_votes_by_hand(n_classes, label_noise):
    X, y = clouds(60, n_classes, apart=2.0)
    new, _ = clouds(100, n_classes, seed=1, apart=2.0)
    settings = {"label_noise": label_noise, "class_weight": {0: 3.0}}
    clf = propagation(decision="calibrated", **settings).fit(X, y)
    # Without label noise and weights: the bare votes, normalised.
    votes = propagation(decision="vote", label_noise=label_noise).fit(X, y).predictor_
    bare = votes.closed_form(clf.prepared(new))
    outputs = np.log(bare[:, 1] / bare[:, 0]) if n_classes == 2 else np.log(bare)
    scores = clf.predictor_.link.scores(outputs)
    p = links.votes_of(scores, n_classes)
    rate = max(label_noise, 0.1 / len(y))
    p = (1 - rate) * p + rate / (n_classes - 1) * (1 - p)
    p = p * np.append(3.0, np.ones(n_classes - 1))
    assert_allclose(clf.predict_proba(new), p / p.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_class_is_ruled_out_by_rows_that_it_was_not_among(n_classes):
    """A tenth of one row is left for what was never seen, however sure the link is."""
    X, y = clouds(60, n_classes, apart=3.0)
    clf = propagation(decision="calibrated").fit(X, y)
    link = clf.predictor_.link
    object.__setattr__(clf.predictor_, "link", Link(1e3 * link.weights, 1e3 * link.offset))
    assert_allclose(clf.predict_proba(X).min(), 0.1 / len(y) / (n_classes - 1), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_plain_link_changes_nothing(n_classes):
    flat, steep = flat_and_linked(n_classes)
    new, _ = clouds(50, n_classes, seed=1)
    object.__setattr__(steep.predictor_, "link", Link.plain(n_classes))
    object.__setattr__(steep.predictor_, "noise", 0.0)
    assert_allclose(steep.predict_proba(new), flat.predict_proba(new), rtol=1e-9)
    assert_array_equal(steep.predict(new), flat.predict(new))
