"""Export of whole pipelines, searches and tables, and through skl2onnx itself."""

import numpy as np
import pytest
from helpers.graphs import SETTINGS, TOLERANCE, assert_equal, problem, run, session_of
from helpers.pages import BLOCK, assert_alike
from helpers.paths import ROOT
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.encoder.dates import date_values
from bayespoint.io.onnx import register, to_onnx
from bayespoint.io.tables import Table

pytest.importorskip("onnx")
skl2onnx = pytest.importorskip("skl2onnx")
pytest.importorskip("onnxruntime")


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
    income = np.exp(rng.normal(9.0, 2.0, n)).astype(np.float32).astype(np.float64)
    y = np.where(size + 10 * (colour == "red") > 2000, "large", "small")
    names = ("size (cm)", "colour", "age", "label", "income")
    return Table(names, (size, colour, age, label, income)), y


def test_encoder_in_the_graph():
    train, y = table()
    encoder = TableEncoder().fit(train)
    model = BayesPointClassifier(**SETTINGS)
    clf = RejectingClassifier(model, coverage=0.8, cv=2).fit(encoder.transform(train), y)
    new, _ = table(seed=1)
    new.columns[1][:5] = "never seen"
    new.columns[0][5] = 1e30  # farther than the encoder goes
    new.columns[4][:4] = -1e6, 1e30, 1e7, np.nan  # beyond the knots of a long tail
    assert [bool(getattr(column, "knots", ())) for column in encoder.columns_] == [0, 0, 0, 0, 1]
    exported = to_onnx(clf, encoder=encoder)
    assert [given.doc_string for given in exported.graph.input] == list(new.names)
    graph = session_of(exported)
    assert [given.name for given in graph.get_inputs()] == [
        "size__cm_", "colour", "age", "column_label", "income",
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
    with pytest.raises(ValueError, match="makes 8 features"):
        to_onnx(model.fit(*problem()[:2]), encoder=encoder)


def test_a_graph_takes_the_numbers_that_dates_become():
    days = np.datetime64("2022-12-01") + 9 * np.arange(60)
    columns = np.array(days.astype(str), dtype=object), np.array(["1,5", "2"] * 30, dtype=object)
    train, y = Table(("day", "x"), columns), np.repeat(["a", "b"], 30)
    encoder = TableEncoder().fit(train)
    X = encoder.transform(train)
    clf = BayesPointClassifier(**SETTINGS).fit(X, y)
    graph = to_onnx(clf, encoder=encoder)
    parts = date_values(encoder.columns_[0], days.astype("datetime64[s]")).T
    given = [*parts, np.array([1.5, 2.0] * 30)]
    assert [one.doc_string for one in graph.graph.input] == encoder.feature_names_
    session = session_of(graph)
    fed = {
        one.name: values.astype(np.float32)[:, None]
        for one, values in zip(session.get_inputs(), given, strict=True)
    }
    names = [output.name for output in session.get_outputs()]
    assert_equal(dict(zip(names, session.run(None, fed), strict=True)), clf, X)


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
