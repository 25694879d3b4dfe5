"""``predict``: decisions are those of Python, whatever the form and the blocks."""

import io
import json

import numpy as np
import pytest
from helpers.cli import FAST, fails, numbers, predicted, well, write
from sklearn.datasets import load_iris

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.cli import deciding
from bayespoint.cli.predict import TerminalStream
from bayespoint.io.model_file import load, save
from bayespoint.io.tables import read_table


def test_predict_equals_python(iris, tmp_path):
    names, rows, said = predicted(iris.new, iris.model, tmp_path / "p.csv")
    assert names == ["label", "rejected", *(f"probability_iris {k}" for k in range(3))]
    model = load(iris.model)
    X = model.encoder.transform(read_table(iris.data))
    assert [row[0] for row in rows] == model.classifier.predict(X).tolist()
    assert {row[1] for row in rows} == {"0"}
    proba = np.array([[float(cell) for cell in row[2:]] for row in rows])
    np.testing.assert_allclose(proba, model.classifier.predict_proba(X), rtol=1e-12)
    assert "not used" in said
    assert "2 columns ('more', 'id')" in said


def test_predict_rejects_as_python_does(iris, tmp_path):
    _, rows, said = predicted(
        iris.new, iris.rejecting, tmp_path / "p.csv", "--keep", "id", "--keep", "sepal l"
    )
    model = load(iris.rejecting)
    X = model.encoder.transform(read_table(iris.data))
    labels = model.classifier.predict(X)
    assert 0 < sum(label is None for label in labels) < len(labels)
    assert [row[2] or None for row in rows] == labels.tolist()
    assert [row[3] for row in rows] == [str(int(r)) for r in model.classifier.reject(X)]
    assert [row[0] for row in rows] == [str(i) for i in range(50)]
    assert f"rejected {sum(label is None for label in labels)}" in said


def test_predict_as_json_lines_on_standard_output(iris):
    text = iris.data.read_text(encoding="utf-8")
    result = well("predict", "-", "--model", iris.rejecting, "--json", "--keep", "id", input=text)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 50
    assert rows[7]["kept"] == {"id": "7"}
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1)
    assert all((row["label"] is None) == row["rejected"] for row in rows)
    assert "Decided" in result.stderr


def test_blocks_change_nothing(iris, labelled, tmp_path, monkeypatch):
    whole = predicted(iris.new, iris.rejecting, tmp_path / "p.csv")[1]
    measured = numbers(labelled / "three.csv", labelled / "three_some.bpm")
    monkeypatch.setattr(deciding, "BLOCK_ROWS", 7)
    parts = predicted(iris.new, iris.rejecting, tmp_path / "p.csv")[1]
    assert [row[:2] for row in parts] == [row[:2] for row in whole]
    np.testing.assert_allclose(
        [[float(c) for c in row[2:]] for row in parts],
        [[float(c) for c in row[2:]] for row in whole],
    )
    found = numbers(labelled / "three.csv", labelled / "three_some.bpm")
    assert found["log_loss"] == pytest.approx(measured["log_loss"])
    assert found["confusion"] == measured["confusion"]


@pytest.mark.parametrize("rejects", [False, True])
def test_decide_equals_the_methods(rejects):
    X, y = load_iris(return_X_y=True)
    fixed = {"gamma": 0.1, "softness": 0.1, "bias": 1.0, "inference": "perceptron", "n_draws": 8}
    base = BayesPointClassifier(**fixed, random_state=0)
    if not rejects:
        base.fit(X, y)
        found = deciding.decide(base, X)
        assert not np.any(found.rejected)
        np.testing.assert_array_equal(found.proba, base.predict_proba(X))
        return
    clf = RejectingClassifier(base, coverage=0.7).fit(X, y)
    found = deciding.decide(clf, X)
    assert found.labels.tolist() == [str(label) for label in clf.estimator_.predict(X)]
    np.testing.assert_array_equal(found.rejected, clf.reject(X))
    np.testing.assert_array_equal(found.proba, clf.predict_proba(X))
    np.testing.assert_array_equal(found.confidence, clf.confidence_scores(X))


def test_spreadsheet_safe(tmp_path):
    rows = [[x, "=cmd()" if x < 0 else "yes", "@bad"] for x in (-2.0, -1.5, -1.0, 1.0, 1.5, 2.0)]
    data = write(tmp_path / "d.csv", ["x", "y", "+note"], rows)
    model, output = tmp_path / "m.bpm", tmp_path / "p.csv"
    well("train", data, "--target", "y", "--model", model, *FAST)
    plain = predicted(data, model, output, "--keep", "+note")
    safe = predicted(data, model, output, "--keep", "+note", "--spreadsheet-safe")
    assert plain[0][0] == "+note"
    assert plain[1][0][:2] == ["@bad", "=cmd()"]
    assert safe[0][0] == "'+note"
    assert safe[1][0][:2] == ["'@bad", "'=cmd()"]
    assert safe[1][0][2:] == plain[1][0][2:]


def test_a_model_from_python_without_encoder(models, tmp_path):
    X, _ = load_iris(return_X_y=True)
    clf = load(models / "perceptron.bpm").classifier
    np.save(tmp_path / "X.npy", X)
    names, rows, _ = predicted(tmp_path / "X.npy", models / "perceptron.bpm", tmp_path / "p.csv")
    assert names[2:] == ["probability_0", "probability_1", "probability_2"]
    assert [row[0] for row in rows] == [str(label) for label in clf.predict(X)]
    np.save(tmp_path / "X.npy", X[:, :3])
    fails(1, "predict", tmp_path / "X.npy", "--model", models / "perceptron.bpm",
          words="3 columns")  # fmt: skip


def test_a_whole_rejection_is_written_as_such(labelled, tmp_path):
    found = load(labelled / "three_some.bpm")
    found.classifier.threshold_ = np.inf
    save(tmp_path / "none.bpm", found.classifier, encoder=found.encoder, about=found.about)
    _, rows, said = predicted(labelled / "three.csv", tmp_path / "none.bpm", tmp_path / "p.csv")
    assert {(row[0], row[1]) for row in rows} == {("", "1")}
    assert "Decided 0 of 75 rows" in said
    result = well("evaluate", labelled / "three.csv", "--model", tmp_path / "none.bpm",
                  "--report", tmp_path / "r.html")  # fmt: skip
    assert "Rejects all of them" in result.output
    assert "rejects all of them" in (tmp_path / "r.html").read_text(encoding="utf-8")
    measured = numbers(labelled / "three.csv", tmp_path / "none.bpm")
    assert measured["decided_error"] is None
    assert measured["coverage"] == 0
    assert sum(measured["confusion"]["rejected"]) == 75


def test_predictions_do_nothing_to_a_terminal():
    written = io.StringIO()
    TerminalStream(written).write('a,\x1b[31m"red\u202e"\n1,b\n')
    assert written.getvalue() == 'a,\\x1b[31m"red\\u202e"\n1,b\n'


def test_errors_about_rows_name_lines_of_the_file(tmp_path, monkeypatch):
    """In whatever block they are decided; of a model without encoder, which takes all numbers."""
    monkeypatch.setattr(deciding, "BLOCK_ROWS", 4)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    fixed = {"gamma": 0.5, "softness": 0.1, "bias": 1.0}
    model = tmp_path / "m.bpm"
    save(model, BayesPointClassifier(kernel="linear", inference="ep", **fixed).fit(X, y))
    for value, words in ((1e200, "overflows float64 for line 11: scale"), ("", "(line 11); this")):
        rows = [[*x, label] for x, label in zip(X.tolist(), y.tolist(), strict=True)]
        rows[9][1] = value
        data = write(tmp_path / "d.csv", ["x0", "x1", "kind"], rows)
        for command in (["evaluate", "--target", "kind"], ["predict", "--output", "-"]):
            given = data
            if command[0] == "predict":
                given = write(tmp_path / "n.csv", ["x0", "x1"], [row[:2] for row in rows])
            fails(1, command[0], given, "--model", model, *command[1:], words=words)
