"""Exported graphs say what the classifier says, to five digits under onnxruntime."""

import doctest
import itertools
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.pages import BLOCK, assert_alike
from helpers.paths import ROOT
from scipy.special import log_ndtr, ndtri_exp, stdtr
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.onnx import conversion, functions, machines, register, to_onnx, writer
from bayespoint.io.tables import Table

pytest.importorskip("onnx")
skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# The promise, of probabilities and of decisions relative to their size where that is above 1.
TOLERANCE = 1e-5
# What single precision of the outputs leaves, and what nearly singular Gram matrices (of "poly")
# make of rounding in double precision, here and there.
ROUNDING = 2e-6
# Outputs nearer than this are ties: the order of summation decides them.
TIE = 1e-11

SETTINGS = {"gamma": 0.1, "softness": 0.1, "n_draws": 8, "random_state": 0}
WEIGHTS = {0: 5.0, 1: 0.5}
METHODS = [
    ("perceptron", "bayes_point"),
    ("perceptron", "vote"),
    ("billiard", "vote"),
    ("billiard", "span_vote"),
    ("ep", "bayes_point"),
    ("ep", "vote"),
    ("ep", "calibrated"),
]


def problem(n_classes=3, n_train=45, names=None, far=True):
    """Training points and labels, and test points in single precision, some of them far away.

    Far from all training points outputs of "rbf" are ties.
    """
    X, y = make_blobs(160, n_features=4, centers=n_classes, cluster_std=3.0, random_state=1)
    y = y if names is None else np.array(names)[y]
    test = X[n_train:]
    if far:
        test = np.concatenate([test, 3 * test[:20], 0 * test[:1]])
    test = test.astype(np.float32)
    return X[:n_train], y[:n_train], test


def session_of(graph):
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def run(graph, X):
    session = session_of(graph)
    names = [output.name for output in session.get_outputs()]
    (given,) = session.get_inputs()
    return dict(zip(names, session.run(None, {given.name: X}), strict=True))


def gaps(decision):
    if decision.ndim == 1:
        return np.abs(decision)
    best = np.sort(decision, axis=1)
    return best[:, -1] - best[:, -2]


def assert_equal(found, classifier, X, tolerance=ROUNDING):
    p, f = classifier.predict_proba(X), classifier.decision_function(X)
    assert found["probabilities"].dtype == np.float32
    assert found["probabilities"].shape == p.shape
    assert found["decision"].shape == f.shape
    assert np.max(np.abs(found["probabilities"] - p)) < tolerance
    assert np.max(np.abs(found["decision"] - f) / np.maximum(1.0, np.abs(f))) < tolerance
    clear = gaps(f) > TIE
    np.testing.assert_array_equal(found["label"][clear], classifier.predict(X)[clear])


@pytest.mark.parametrize(("inference", "decision"), METHODS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian"])
def test_graph_equals_classifier(kernel, inference, decision):
    noises = [0.0] if inference == "perceptron" else [0.0, 0.1]
    cases = itertools.product((2, 3), (None, WEIGHTS), noises)
    for n_classes, class_weight, label_noise in cases:
        X, y, test = problem(n_classes)
        clf = BayesPointClassifier(
            kernel, inference=inference, decision=decision, class_weight=class_weight,
            label_noise=label_noise, normalize_kernel=class_weight is None, **SETTINGS,
        ).fit(X, y)  # fmt: skip
        assert_equal(run(to_onnx(clf), test), clf, test)


@pytest.mark.parametrize("inference", ["perceptron", "billiard", "ep"])
def test_ten_classes(inference):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    clf = BayesPointClassifier(inference=inference, **SETTINGS).fit(X[:150], y[:150])
    test = X[150:400].astype(np.float32)
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
    X, y, test = problem()
    for kernel, inference in itertools.product(["rbf", "poly"], ["perceptron", "ep"]):
        clf = BayesPointClassifier(kernel, inference=inference, **SETTINGS)
        clf.fit(X.astype(np.float32), y)
        assert_equal(run(to_onnx(clf), test), clf, test, TOLERANCE)


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


@pytest.mark.parametrize("n", [0, 1, 2000])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_any_number_of_rows(kernel, n):
    X, y, test = problem()
    model = BayesPointClassifier(kernel, inference="billiard", **SETTINGS)
    clf = RejectingClassifier(model, coverage=0.8, cv=2).fit(X, y)
    test = np.resize(test, (n, 4))
    found = run(to_onnx(clf), test)
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, n)
    if n:
        whole = clf.estimator_.predict_proba(test)
        assert np.max(np.abs(found["probabilities"] - whole)) < ROUNDING


@pytest.mark.filterwarnings("ignore:coverage")
@pytest.mark.parametrize("opset", [13, 17, 18, 21])
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


# ---------------------------------------------------------------------- rejection


@pytest.mark.filterwarnings("ignore:coverage")  # shares of votes tie
@pytest.mark.parametrize("confidence", ["gap", "output", "vote"])
@pytest.mark.parametrize(("inference", "decision"), METHODS)
def test_rejection(confidence, inference, decision):
    for n_classes, class_weight in itertools.product((2, 3), (None, WEIGHTS)):
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


# ---------------------------------------------------------------------- pipelines


def skl2onnx_run(model, X, **options):
    register()
    return run(skl2onnx.to_onnx(model, X[:1], **options), X)


def test_pipeline_through_skl2onnx():
    X, y, test = problem(names=["a", "b", "c"])
    pipe = make_pipeline(StandardScaler(), BayesPointClassifier(**SETTINGS)).fit(X, y)
    p = pipe.predict_proba(test)
    found = skl2onnx_run(pipe, test)
    assert list(found) == ["output_label", "output_probability"]
    np.testing.assert_array_equal(found["output_label"], pipe.predict(test))
    rows = [[row[c] for c in pipe.classes_] for row in found["output_probability"]]
    assert np.max(np.abs(np.array(rows) - p)) < TOLERANCE

    found = skl2onnx_run(pipe, test, options={"zipmap": False})
    assert np.max(np.abs(found["probabilities"] - p)) < TOLERANCE
    found = skl2onnx_run(pipe, test, options={"zipmap": "columns"})
    assert np.max(np.abs(found["sb"].ravel() - p[:, 1])) < TOLERANCE
    found = skl2onnx_run(pipe, test, options={id(pipe[-1]): {"zipmap": False, "nocl": True}})
    np.testing.assert_array_equal(pipe.classes_[found["label"]], pipe.predict(test))


def test_options_of_the_converter():
    X, y, test = problem(2)
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    f = clf.decision_function(test)
    found = skl2onnx_run(clf, test, options={"zipmap": False, "raw_scores": True})
    np.testing.assert_allclose(found["probabilities"], np.column_stack([-f, f]), rtol=1e-6)
    found = skl2onnx_run(clf, test, options={"zipmap": False, "decision": True})
    np.testing.assert_allclose(found["decision"], f, rtol=1e-6)


def test_double_precision_in_and_out():
    X, y, test = problem()
    clf = BayesPointClassifier(inference="ep", **SETTINGS).fit(X, y)
    test = test.astype(np.float64) + 1e-3
    found = skl2onnx_run(clf, test, options={"zipmap": False})["probabilities"]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, clf.predict_proba(test), atol=1e-9)


def test_pipelines_with_rejection():
    X, y, test = problem()
    model, scaler = BayesPointClassifier(**SETTINGS), StandardScaler()
    rejecting = {"coverage": 0.8, "cv": 2, "reject_label": -1}
    outside = RejectingClassifier(make_pipeline(scaler, "passthrough", model), **rejecting)
    inside = make_pipeline(scaler, RejectingClassifier(model, **rejecting))
    for clf in (outside.fit(X, y), inside.fit(X, y)):
        assert list(skl2onnx_run(clf, test)) == ["output_label", "output_probability", "rejected"]
        found = run(to_onnx(clf), test)
        assert_equal(found, clf, test, TOLERANCE)
        np.testing.assert_array_equal(found["rejected"], clf.predict(test) == -1)


def test_search_inside_rejection():
    X, y, test = problem()
    search = GridSearchCV(BayesPointClassifier(**SETTINGS), {"gamma": [0.05, 0.2]}, cv=2)
    clf = RejectingClassifier(search, coverage=0.8, cv=2).fit(X, y)
    assert_equal(
        run(to_onnx(clf), test) | {"label": clf.estimator_.predict(test)}, clf.estimator_, test
    )


def test_step_that_skl2onnx_cannot_convert_is_named():
    X, y, _ = problem()
    pipe = make_pipeline(FunctionTransformer(np.tanh), BayesPointClassifier(**SETTINGS))
    with pytest.raises(RuntimeError, match="FunctionTransformer"):
        to_onnx(pipe.fit(X, y))


# ---------------------------------------------------------------------- tables


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(np.array(["red", "größer, 2", "blue"], dtype=object), n)
    size = rng.normal(2000.0, 10.0, n).astype(np.float32).astype(np.float64)
    age = np.where(rng.random(n) < 0.2, np.nan, rng.integers(1, 90, n))
    label = rng.choice(np.array(["f", "m"], dtype=object), n)
    label[::7] = None
    y = np.where(size + 10 * (colour == "red") > 2000, "large", "small")
    return Table(("size (cm)", "colour", "age", "label"), (size, colour, age, label)), y


def test_encoder_in_the_graph():
    train, y = table()
    encoder = TableEncoder().fit(train)
    model = BayesPointClassifier(**SETTINGS)
    clf = RejectingClassifier(model, coverage=0.8, cv=2).fit(encoder.transform(train), y)
    new, _ = table(seed=1)
    new.columns[1][:5] = "never seen"
    new.columns[0][5] = 1e30  # farther than the encoder goes
    exported = to_onnx(clf, encoder=encoder)
    assert [given.doc_string for given in exported.graph.input] == list(new.names)
    graph = session_of(exported)
    assert [given.name for given in graph.get_inputs()] == [
        "size__cm_", "colour", "age", "column_label",
    ]  # fmt: skip
    fed = {}
    for given, column in zip(graph.get_inputs(), new.columns, strict=True):
        text = column.dtype == object
        filled = [value or "" for value in column] if text else column.astype(np.float32)
        fed[given.name] = np.array(filled, dtype=object if text else None)[:, None]
    names = [output.name for output in graph.get_outputs()]
    assert names == ["label", "probabilities", "decision", "rejected"]
    found = dict(zip(names, graph.run(None, fed), strict=True))
    X = encoder.transform(new)
    assert_equal(found, clf.estimator_, X)
    np.testing.assert_array_equal(found["rejected"], clf.reject(X))
    with pytest.raises(ValueError, match="makes 7 features"):
        to_onnx(model.fit(*problem()[:2]), encoder=encoder)


# ---------------------------------------------------------------------- other classifiers


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


def test_blocks_of_the_guide(tmp_path, monkeypatch, capsys):
    """They are marked "py", which test_docs.py leaves alone: it has no skl2onnx everywhere."""
    page = ROOT / "docs" / "guides" / "export.md"
    if not page.is_file():
        pytest.skip("not a checkout")
    blocks = BLOCK.findall(page.read_text(encoding="utf-8").replace("```py\n", "```python\n"))
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, shown in blocks:
        exec(compile(code, str(page), "exec"), names)
        assert_alike(capsys.readouterr().out, shown)


# ---------------------------------------------------------------------- functions


OPERATORS = {
    "Abs": np.abs, "Add": np.add, "Div": np.divide, "Exp": np.exp, "Greater": np.greater,
    "Log": np.log, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply,
    "Reciprocal": np.reciprocal, "Sqrt": np.sqrt, "Sub": np.subtract, "Where": np.where,
}  # fmt: skip


class Numbers:
    """In the place of a writer: computes instead of adding nodes."""

    def add(self, op, *inputs):
        with np.errstate(divide="ignore"):
            return OPERATORS[op](*inputs)


def test_normal_functions():
    z = np.concatenate([[0.0], np.logspace(-6, 6, 10_001)])
    for side in (z, -z):
        wanted = log_ndtr(side)
        error = np.abs(functions.log_ndtr(Numbers(), side) - wanted) / np.maximum(1, np.abs(wanted))
        assert np.max(error) < 1e-9
    log_p = -np.logspace(np.log10(np.log(2)), 10, 10_001)
    found = functions.tail_quantile(Numbers(), log_p)
    np.testing.assert_allclose(found, -ndtri_exp(log_p), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 7, 15, 60, 500, 2200, 20_000])
def test_student_tails(df):
    farthest = min(np.sqrt(np.expm1(min(1360 / df, 690))), 1e149)
    u = np.concatenate([[0.0], np.logspace(-8, np.log10(farthest), 20_001)])
    found = np.exp(functions.log_student_tail(Numbers(), u, df))
    wanted = stdtr(df, -np.sqrt(df) * u)
    assert wanted[-1] < 1e-140  # the whole range of the votes
    np.testing.assert_allclose(found, wanted, rtol=1e-8 if df == 1 else 1e-10)
