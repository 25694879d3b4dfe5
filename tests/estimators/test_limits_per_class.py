"""min_precision and min_recall: kept as often as promised where the truth is known, or said so."""

import numpy as np
import pytest
from helpers.refusals import assert_refused
from helpers.thresholds import FALSE_ALARM_RATE
from helpers.told import Told, two_classes
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier

from bayespoint import RejectingClassifier

DELTA, RUNS, N = 0.1, 200, 600
# Probabilities that are too sure: the true one of class 1 is 0.05 + 0.9 p, p uniform.
LOW, SLOPE = 0.05, 0.9


def cases(rng, n=N):
    p = rng.random(n)
    return two_classes(p), (rng.random(n) < LOW + SLOPE * p).astype(int)


def precision(t):
    """Of label 1 above a threshold: the mean of the true probability over p > t."""
    t = max(t, 0.5)
    return LOW + SLOPE * (1 + t) / 2


def recall(t):
    """Share of class 1 that is not labelled 0, which takes p < 1 - t."""
    p = min(1 - t, 0.5) if t < np.inf else 0.0
    return 1 - (LOW * p + SLOPE * p**2 / 2) / (LOW + SLOPE / 2)


def fitted(rng, **limits):
    clf = RejectingClassifier(Told(), delta=DELTA, cv="prefit", **limits)
    return clf.fit(*cases(rng))


@pytest.mark.filterwarnings("ignore:min_")
@pytest.mark.parametrize("name", ["min_precision", "min_recall"])
def test_limits_are_broken_in_a_share_delta_of_calibrations_at_most(name):
    rng = np.random.default_rng(0)
    limit = {"min_precision": 0.8, "min_recall": 0.85}[name]
    thresholds = [fitted(rng, **{name: {1: limit}}).threshold_ for _ in range(RUNS)]
    true = [precision(t[1]) if name == "min_precision" else recall(t[0]) for t in thresholds]
    useful = [np.isfinite(t).any() or (t == -np.inf).all() for t in thresholds]
    assert np.mean(useful) > 0.5
    broken = int(np.sum(np.array(true) < limit))
    assert broken <= binom.isf(FALSE_ALARM_RATE, RUNS, DELTA)
    # Control: the loosest threshold of which the rows at hand keep the limit.
    assert as_seen(rng, name, limit) > binom.isf(FALSE_ALARM_RATE, RUNS, DELTA)


def as_seen(rng, name, limit):
    broken = 0
    for _ in range(RUNS):
        X, y = cases(rng)
        p, best = X[:, 1], np.inf
        for t in np.linspace(0.99, 0.5, 20):
            if name == "min_precision":
                good = y[p > t].mean() >= limit if np.any(p > t) else False
            else:
                good = np.mean(p[y == 1] < 1 - t) <= 1 - limit
            best = t if good else best
        true = precision(best) if name == "min_precision" else recall(best)
        broken += true < limit
    return broken


def test_limits_together_hold_and_cost_no_more_than_needed():
    rng = np.random.default_rng(1)
    X, y = cases(rng, 20_000)
    clf = RejectingClassifier(
        Told(), min_precision={1: 0.8}, min_recall={1: 0.9}, cv="prefit", reject_label=-1
    ).fit(X, y)
    assert precision(clf.threshold_[1]) >= 0.8
    assert recall(clf.threshold_[0]) >= 0.9
    assert precision(clf.threshold_[1] - 0.1) < 0.8
    assert recall(clf.threshold_[0] - 0.1) < 0.9
    labels, rejected = clf.predict(X), clf.reject(X)
    assert_array_equal(labels == -1, rejected)
    assert y[labels == 1].mean() > 0.8
    assert np.mean(labels[y == 1] == 0) < 0.1
    assert clf.coverage_ == pytest.approx(np.mean(~rejected))


def test_what_needs_no_rejection_is_decided():
    rng = np.random.default_rng(2)
    clf = RejectingClassifier(Told(), min_precision={1: 0.5}, min_recall={1: 0.5}, cv="prefit")
    assert_array_equal(clf.fit(*cases(rng, 5_000)).threshold_, -np.inf)
    assert clf.coverage_ == 1


def test_of_many_classes_only_labels_that_matter_are_rejected():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet([0.3, 0.3, 0.3], 4_000)
    y = np.array([rng.choice(3, p=p) for p in proba])
    clf = RejectingClassifier(Told((0, 1, 2)), min_precision={2: 0.9}, cv="prefit").fit(proba, y)
    assert_array_equal(clf.threshold_[:2], -np.inf)
    assert 0.5 < clf.threshold_[2] < 1
    rejected = clf.reject(proba)
    assert set(proba.argmax(axis=1)[rejected]) == {2}


def test_limits_that_cannot_be_shown_are_told():
    rng = np.random.default_rng(4)
    with pytest.warns(UserWarning, match="min_precision of class 1 .* labelled 1") as told:
        clf = fitted(rng, min_precision={1: 0.99})
    assert told[0].filename == __file__  # where fit was called
    assert_array_equal(clf.threshold_, [-np.inf, np.inf])
    with pytest.warns(UserWarning, match="min_recall of class 1 .* not labelled 1 is rejected"):
        clf = fitted(rng, min_recall={1: 0.999})
    assert_array_equal(clf.threshold_, [np.inf, -np.inf])


BAD = [
    ({"min_precision": 0.9}, "min_precision=0.9 is not valid; give a dict of classes and shares"),
    ({"min_precision": {}}, r"min_precision=\{\} is not valid"),
    ({"min_precision": {1: 1.0}}, r"min_precision\[1\]=1.0 is not valid"),
    ({"min_recall": {"1": 0.9}}, "min_recall names the class '1', which is not among"),
    ({"min_recall": {1: 0.9}, "coverage": 0.9}, "coverage=0.9 and min_precision or min_recall"),
    (
        {"min_recall": {1: 0.9}, "confidence": "gap"},
        "confidence='gap' does not work with min_prec",
    ),
]


def test_bad_limits_are_refused():
    X, y = cases(np.random.default_rng(0))
    assert_refused(lambda **bad: RejectingClassifier(Told(), cv="prefit", **bad).fit(X, y), BAD)
    clf = RejectingClassifier(Told((0, 2)), min_precision={2: 0.8}, cv="prefit")
    with pytest.raises(ValueError, match="y has the label 1, which is not among the classes"):
        clf.fit(X, y)


def test_limits_are_about_labels_that_have_a_threshold_of_their_own():
    """Label 1 from 0.2 on: its probability is p, also where that of the other class is larger."""
    rng = np.random.default_rng(5)
    model = FixedThresholdClassifier(FrozenEstimator(Told()), threshold=0.2)
    X, y = cases(rng, 5_000)
    clf = RejectingClassifier(model.fit(X, y), min_precision={1: 0.6}, cv="prefit").fit(X, y)
    rows = two_classes([0.1, 0.25, 0.4, 0.9])
    assert_array_equal(clf.decide(rows)[0], [0, 1, 1, 1])
    assert_allclose(clf.confidence_scores(rows), [0.9, 0.25, 0.4, 0.9])
    assert_array_equal(clf.reject(rows), [False, True, False, False])  # p > 0.22 is needed
