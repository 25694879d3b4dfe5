"""Exported graphs reject the rows that the classifier rejects; what none can hold is refused."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import METHODS, SETTINGS, WEIGHTS, gaps, problem, run
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.estimators.confidence import confidence_of
from bayespoint.io.onnx import to_onnx
from bayespoint.space.links import Link

pytest.importorskip("onnx")
pytest.importorskip("skl2onnx")
pytest.importorskip("onnxruntime")

# Each way to decide with two of the confidences, two classes or three, equal weights or not.
RULES = ("gap", "output", "vote", "probability")
CASES = [
    (RULES[(j + 2 * i + j // 4) % 4], *METHODS[j], 2 + (i + j) % 2, (None, WEIGHTS)[i])
    for i in range(2)
    for j in range(len(METHODS))
]


@pytest.mark.filterwarnings("ignore:coverage")  # shares of votes tie
@pytest.mark.parametrize(
    ("confidence", "inference", "decision", "n_classes", "class_weight"), CASES
)
def test_rejection(confidence, inference, decision, n_classes, class_weight):
    X, y, test = problem(n_classes, far=False)
    model = BayesPointClassifier(
        inference=inference, decision=decision, class_weight=class_weight, **SETTINGS
    ).fit(X, y)
    clf = RejectingClassifier(model, confidence=confidence, cv="prefit", reject_label=-1)
    clf.set_params(coverage=0.7).fit(test[::2], model.predict(test[::2]))
    found = run(to_onnx(clf), test)
    rejected = clf.reject(test)
    assert 0 < np.mean(rejected) < 1
    assert found["rejected"].dtype == bool
    np.testing.assert_array_equal(found["rejected"], rejected)
    np.testing.assert_array_equal(found["label"], clf.predict(test))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_near_one(n_classes):
    """Rows whose confidences differ from 1 by less than 1e-9 are told apart."""
    X, y, test = problem(n_classes, far=False)
    model = BayesPointClassifier(inference="perceptron", **SETTINGS).fit(X, y)
    steeper = 30 / np.median(gaps(model.decision_function(test)))
    link = model.predictor_.link
    link = Link(steeper * link.weights, steeper * link.offset)
    model.predictor_ = replace(model.predictor_, link=link)
    clf = RejectingClassifier(model, coverage=0.5, confidence="probability", cv="prefit")
    clf.fit(test, model.predict(test))
    assert 0 < 1 - clf.threshold_ < 1e-9
    np.testing.assert_array_equal(run(to_onnx(clf), test)["rejected"], clf.reject(test))


def test_rule_that_data_choose():
    """A graph follows ``confidence_``; "auto" itself is no rule."""
    X, y, test = problem(far=False)
    model = BayesPointClassifier(**SETTINGS).fit(X, y)
    clf = RejectingClassifier(model, coverage=0.7, cv="prefit")
    clf.fit(test[::2], model.predict(test[::2]))
    for rule in ("probability", "gap"):
        clf.confidence_, scores = rule, confidence_of(model, test, rule)
        clf.threshold_ = float(np.median(scores))
        rejected = run(to_onnx(clf), test)["rejected"]
        np.testing.assert_array_equal(rejected, ~(scores > clf.threshold_))
        assert 0 < np.mean(rejected) < 1


def test_no_row_or_every_row_rejected():
    X, y, test = problem()
    clf = RejectingClassifier(BayesPointClassifier(**SETTINGS)).fit(X, y)
    for threshold, share in ((-np.inf, 0), (np.inf, 1)):
        clf.threshold_ = threshold
        assert np.mean(run(to_onnx(clf), test)["rejected"]) == share


@pytest.mark.parametrize("reject_label", [None, "?"])
def test_label_of_rejected_rows(reject_label):
    X, y, test = problem(names=["a", "b", "c"], far=False)
    clf = RejectingClassifier(
        BayesPointClassifier(**SETTINGS), coverage=0.7, reject_label=reject_label, cv=2
    ).fit(X, y)
    found = run(to_onnx(clf), test)
    wanted = clf.estimator_.predict(test) if reject_label is None else clf.predict(test)
    np.testing.assert_array_equal(found["label"], wanted)


def test_rows_with_nan_are_rejected():
    X, y, test = problem()
    clf = RejectingClassifier(BayesPointClassifier(**SETTINGS), coverage=0.9, cv=2).fit(X, y)
    test = np.where(np.abs(test) < 1e9, test[0], 0).astype(np.float32)  # the same, decided
    test[1, 0], test[2, 1], test[3, 2] = np.nan, np.inf, -np.inf
    found = run(to_onnx(clf), test[:5])
    wanted = [False, True, True, True, False]
    np.testing.assert_array_equal(np.isnan(found["probabilities"]).any(axis=1), wanted)
    np.testing.assert_array_equal(np.isnan(found["decision"]).any(axis=1), wanted)
    assert found["rejected"][1:4].all()


def test_what_a_graph_cannot_hold_is_refused():
    X, y, _ = problem()
    model = BayesPointClassifier(inference="perceptron", **SETTINGS).fit(X, y)
    rule = RejectingClassifier(
        model, coverage=0.9, confidence=lambda model, X: model.predict_proba(X)[:, 0], cv="prefit"
    ).fit(X, y)
    with pytest.raises(ValueError, match="confidence is a callable"):
        to_onnx(rule)
    other = RejectingClassifier(SVC(), coverage=0.9, cv=2).fit(X, y)
    with pytest.raises(TypeError, match="holds SVC"):
        to_onnx(other)
    with pytest.raises(TypeError, match="got SVC"):
        to_onnx(SVC().fit(X, y))
    small = RejectingClassifier(model, confidence="vote", cv="prefit").fit(X, y)
    small.estimator_, small.threshold_ = model.compress(), 0.5
    with pytest.raises(ValueError, match="needs the draws"):
        to_onnx(small)


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(BayesPointClassifier())


def test_limits_per_class_have_a_threshold_for_each_label():
    X, y, test = problem(3, far=False)
    model = BayesPointClassifier(inference="perceptron", **SETTINGS).fit(X, y)
    labels = model.predict(test)
    clf = RejectingClassifier(model, coverage=0.7, cv="prefit", confidence="probability")
    clf.set_params(reject_label=-1).fit(test, labels)
    clf.threshold_ = np.array([-np.inf, np.median(clf.confidence_scores(test)), np.inf])
    found = run(to_onnx(clf), test)
    rejected = clf.reject(test)
    assert set(labels[rejected]) == {1, 2}
    np.testing.assert_array_equal(found["rejected"], rejected)
    np.testing.assert_array_equal(found["label"], clf.predict(test))


def test_costs_are_not_exported():
    X, y, _ = problem(2, far=False)
    model = BayesPointClassifier(inference="perceptron", **SETTINGS).fit(X, y)
    clf = RejectingClassifier(model, costs=[[0, 1], [4, 0]], cv="prefit").fit(X, y)
    with pytest.raises(ValueError, match="with costs has no ONNX graph; export its estimator_"):
        to_onnx(clf)
