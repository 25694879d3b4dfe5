"""Exported graphs say what the classifier says, to five digits under onnxruntime."""

import doctest
import itertools
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.graphs import (
    METHODS,
    ROUNDING,
    SETTINGS,
    TOLERANCE,
    WEIGHTS,
    assert_equal,
    problem,
    run,
)
from sklearn.datasets import load_digits

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.io.onnx import conversion, machines, register, to_onnx, writer
from bayespoint.space.links import Link

pytest.importorskip("onnx")
pytest.importorskip("skl2onnx")
pytest.importorskip("onnxruntime")

# Classes, weights, label noise: each kernel and each method meets all values of each.
OTHERS = list(itertools.product((2, 3), (None, WEIGHTS), (0.0, 0.1)))
EVERY = [
    (kernel, *METHODS[j], OTHERS[(3 * i + 5 * j) % 8])
    for i, kernel in enumerate(("linear", "poly", "rbf", "laplacian"))
    for j in range(len(METHODS))
]


@pytest.mark.parametrize(("kernel", "inference", "decision", "others"), EVERY)
def test_graph_equals_classifier(kernel, inference, decision, others):
    n_classes, class_weight, noise = others
    X, y, test = problem(n_classes)
    clf = BayesPointClassifier(
        kernel, inference=inference, decision=decision, class_weight=class_weight,
        label_noise=0.0 if inference == "perceptron" else noise,
        normalize_kernel=class_weight is None, **SETTINGS,
    ).fit(X, y)  # fmt: skip
    assert_equal(run(to_onnx(clf), test), clf, test)


@pytest.mark.parametrize("inference", ["perceptron", "ep"])
def test_ten_classes(inference):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    clf = BayesPointClassifier(inference=inference, **SETTINGS).fit(X[:100], y[:100])
    test = X[100:300].astype(np.float32)
    assert_equal(run(to_onnx(clf), test), clf, test)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("inference", "decision"), [METHODS[0], METHODS[-1]])
def test_links_of_any_kind(inference, decision, n_classes):
    """Steep ones, with offsets, and with classes that correct each other."""
    X, y, test = problem(n_classes)
    clf = BayesPointClassifier(
        inference=inference, decision=decision, class_weight=WEIGHTS, **SETTINGS
    ).fit(X, y)
    rng, n = np.random.default_rng(0), 1 if n_classes == 2 else n_classes
    before = clf.predict_proba(test)
    link = Link(30 * np.eye(n) + 10 * rng.normal(size=(n, n)), 3 * rng.normal(size=n))
    clf.predictor_ = replace(clf.predictor_, link=link, noise=0.1 * (decision == "calibrated"))
    assert np.max(np.abs(clf.predict_proba(test) - before)) > 0.01
    assert_equal(run(to_onnx(clf), test), clf, test)


def test_a_wrong_classifier_is_noticed():
    X, y, test = problem()
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    graph = to_onnx(clf)
    clf.predictor_ = replace(clf.predictor_, softness=clf.softness_ + 1e-4)
    with pytest.raises(AssertionError):
        assert_equal(run(graph, test), clf, test, TOLERANCE)


def test_features_far_from_zero():
    """The squared distances have some 1e-8 of the squared norms."""
    X, y, test = problem()
    clf = BayesPointClassifier(inference="ep", **SETTINGS).fit(X + 3e4, y)
    shifted = (test + 3e4).astype(np.float32)
    assert_equal(run(to_onnx(clf), shifted), clf, shifted)


def test_trained_in_single_precision():
    """The link takes rounding of outputs with them."""
    X, y, test = problem()
    for kernel, inference in itertools.product(["rbf", "poly"], ["perceptron", "ep"]):
        clf = BayesPointClassifier(kernel, inference=inference, **SETTINGS)
        clf.fit(X.astype(np.float32), y)
        unit = np.abs(clf.predictor_.link.weights).max()
        assert_equal(run(to_onnx(clf), test), clf, test, TOLERANCE, unit)


def test_trained_on_sparse_points():
    X, y, test = problem()
    X, test = np.where(np.abs(X) > 4, X, 0), np.where(np.abs(test) > 4, test, 0)
    for kernel in ("linear", "poly", "rbf", "laplacian"):
        clf = BayesPointClassifier(kernel, inference="ep", **SETTINGS)
        clf.fit(sp.csr_matrix(X), y)
        assert_equal(run(to_onnx(clf), test), clf, test)


def test_too_many_sparse_features_are_refused(monkeypatch):
    X, y, _ = problem()
    clf = BayesPointClassifier(**SETTINGS).fit(sp.csr_matrix(X), y)
    monkeypatch.setattr(machines, "DENSE_BYTES", 100)
    with pytest.raises(ValueError, match="45 sparse points of 4 features"):
        to_onnx(clf)


def test_too_large_a_graph_is_refused(monkeypatch):
    X, y, _ = problem()
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    monkeypatch.setattr(writer, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="2 GiB"):
        to_onnx(clf)


@pytest.mark.parametrize("normalize_kernel", [True, False])
def test_precomputed_kernel(normalize_kernel):
    X, y, test = problem()
    gram = (X @ X.T + 1.0) ** 2 / 100
    cross = ((test @ X.T + 1.0) ** 2 / 100).astype(np.float32)
    for inference in ("perceptron", "ep"):
        clf = BayesPointClassifier(
            "precomputed", inference=inference, normalize_kernel=normalize_kernel, **SETTINGS
        ).fit(gram, y)
        assert_equal(run(to_onnx(clf), cross), clf, cross)


def test_callable_kernel_is_refused():
    X, y, _ = problem()
    clf = BayesPointClassifier(lambda A, B: A @ B.T, **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="callable"):
        to_onnx(clf)


def test_cells_are_refused():
    X, y, _ = problem()
    clf = BayesPointClassifier(inference="ep", cell_size=10, n_landmarks=0, **SETTINGS).fit(X, y)
    with pytest.raises(ValueError, match="cells has no ONNX graph"):
        to_onnx(clf)


def test_linear_graph_holds_no_training_points():
    X, y, _ = problem(n_train=100)
    clf = BayesPointClassifier("linear", inference="perceptron", **SETTINGS).fit(X, y)
    graph = to_onnx(clf)
    assert max(np.prod(c.dims, initial=1) for c in graph.graph.initializer) == 4 * 3


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["no", "yes", "perhaps ü"], np.object_),
        ([7, -3, 2**40], np.int64),
        ([1.0, 2.0, 5.0], np.int64),
    ],
)
def test_labels(names, kind):
    X, y, test = problem(names=names)
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    graph = to_onnx(clf)
    assert json.loads(graph.metadata_props[0].value) == sorted(names)
    found = run(graph, test)
    assert found["label"].dtype == kind
    assert_equal(found, clf, test)


def test_bools_become_numbers():
    X, y, test = problem(2, names=[False, True])
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    found = run(to_onnx(clf), test)["label"]
    np.testing.assert_array_equal(found, clf.predict(test).astype(np.int64))


def test_other_labels_are_refused():
    X, y, _ = problem(2)
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    clf.classes_ = np.array(["a", 1.5], dtype=object)
    with pytest.raises(ValueError, match="whole numbers or text"):
        to_onnx(clf)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_any_number_of_rows(kernel):
    X, y, test = problem()
    model = BayesPointClassifier(kernel, inference="billiard", **SETTINGS)
    clf = RejectingClassifier(model, coverage=0.8, cv=2).fit(X, y)
    graph = to_onnx(clf)
    for n in (0, 1, 500):
        rows = np.resize(test, (n, 4))
        found = run(graph, rows)
        assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, n)
        if n:
            whole = clf.estimator_.predict_proba(rows)
            assert np.max(np.abs(found["probabilities"] - whole)) < ROUNDING


@pytest.mark.filterwarnings("ignore:coverage")
@pytest.mark.parametrize("opset", [13, 18, 21])
def test_opsets(opset):
    X, y, test = problem()
    model = BayesPointClassifier("laplacian", inference="ep", **SETTINGS)
    clf = RejectingClassifier(model, coverage=0.8, confidence="vote", cv=2).fit(X, y)
    graph = to_onnx(clf, target_opset=opset)
    assert max(o.version for o in graph.opset_import if o.domain == "") <= opset
    found = run(graph, test)
    assert_equal(found | {"label": clf.estimator_.predict(test)}, clf.estimator_, test)


def test_old_opset_is_refused():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="target_opset=11"):
        to_onnx(BayesPointClassifier(**SETTINGS).fit(X, y), target_opset=11)


def test_onion_and_compressed_classifiers():
    X, y, test = problem(2)
    onion = OnionClassifier(gamma=0.1, softness=0.1, n_draws=50, random_state=0).fit(X, y)
    small = BayesPointClassifier(inference="perceptron", **SETTINGS).fit(X, y).compress()
    for clf in (onion, small):
        assert_equal(run(to_onnx(clf), test), clf, test)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"bayespoint\[export\]"):
        register()


def test_example_of_the_docstring():
    assert doctest.testmod(conversion).failed == 0
