"""Class weights say what costs more, not what is sure: doubts and sets do without them."""

import numpy as np
import pytest
from helpers.classifiers import classifier, flowers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import BayesPointClassifier, PredictionSetClassifier, RejectingClassifier
from bayespoint.estimators.confidence import label_proba

WEIGHTS = {0: 1.0, 1: 6.0, 2: 2.0}


@pytest.fixture(scope="module", params=[("ep", 2), ("ep", 3), ("perceptron", 2), ("perceptron", 3)])
def pair(request):
    """A classifier with class weights, the same without, and new rows."""
    method, n_classes = request.param
    X, y = make_blobs(90, centers=n_classes, cluster_std=4.0, random_state=0)
    fixed = {"gamma": 0.05, "softness": 0.5, "bias": 1.0, "random_state": 0, "n_draws": 20}
    weights = {c: WEIGHTS[c] for c in range(n_classes)}
    clfs = [
        BayesPointClassifier(inference=method, class_weight=w, **fixed).fit(X, y)
        for w in (weights, None)
    ]
    return *clfs, X, y


def test_probabilities_of_labels_are_those_without_weights(pair):
    weighted, plain, X, _ = pair
    assert np.abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 0.1
    assert_allclose(label_proba(weighted, X), plain.predict_proba(X), atol=1e-9)


def test_sets_are_those_without_weights(pair):
    weighted, plain, X, y = pair
    sets = [PredictionSetClassifier(clf).fit(X, y) for clf in (weighted, plain)]
    assert_allclose(sets[0].thresholds_, sets[1].thresholds_, atol=1e-5)  # float32
    agree = sets[0].predict_set(X + 0.3) == sets[1].predict_set(X + 0.3)
    assert agree.mean() > 0.99  # but for ties that rounding breaks
    assert sets[0].mean_size_ == pytest.approx(sets[1].mean_size_, abs=0.02)


def test_sets_around_others_that_were_trained_with_weights_are_told():
    rng = np.random.default_rng(0)
    y = (rng.random(1_000) < 0.2).astype(int)
    X = rng.normal(size=(1_000, 1)) + 1.5 * y[:, None]
    plain = PredictionSetClassifier(LogisticRegression(), cv=3).fit(X, y)
    balanced = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    with pytest.warns(UserWarning, match="logisticregression__class_weight='balanced' of the"):
        weighted = PredictionSetClassifier(balanced, cv=3).fit(X, y)
    assert weighted.coverage_ == pytest.approx(plain.coverage_, abs=0.002)
    assert weighted.mean_size_ > plain.mean_size_ + 0.05
    PredictionSetClassifier(balanced, per_class=True, cv=3).fit(X, y)


@pytest.mark.parametrize("rule", ["probability", "gap"])
def test_confidence_is_of_the_label_that_weights_decide_for(pair, rule):
    weighted, plain, X, y = pair
    clf = RejectingClassifier(weighted, confidence=rule, coverage=0.8, cv="prefit").fit(X, y)
    label = weighted.predict(X)
    rows = np.arange(len(X))
    proba = plain.predict_proba(X)
    assert np.any(label != proba.argmax(axis=1))
    if rule == "probability":
        assert_allclose(clf.confidence_scores(X), proba[rows, label], atol=1e-9)
        return
    logs = plain.decision_function(X)
    logs = np.column_stack((-logs, logs)) if logs.ndim == 1 else logs
    best = logs[rows, label]
    logs[rows, label] = -np.inf
    assert_allclose(clf.confidence_scores(X), best - logs.max(axis=1), atol=1e-6)


def test_class_weights_shift_decisions_and_not_what_is_wrong():
    X, y, *_ = flowers(3, step=6)
    plain, weighted = (
        classifier(label_noise=0.1, class_weight=w).fit(X, y) for w in (None, {0: 100.0})
    )
    assert_array_equal(plain.label_error_proba_, weighted.label_error_proba_)
