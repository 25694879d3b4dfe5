"""``train``, ``info`` and ``export``: what they say and what the model file then holds."""

import json
import re
import sys
from functools import wraps

import numpy as np
import pytest
from helpers.cli import FAST, fails, predicted, well, write

import bayespoint
from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint._support.devices import DeviceError
from bayespoint.estimators import first_fit
from bayespoint.io.model_file import load
from bayespoint.io.tables import read_table


def test_train_says_what_it_did(iris):
    for words in (
        "50 rows", "4 columns of numbers, 1 of text; 6 features", "iris 0 (17), iris 1 (17)",
        "1 missing cell filled in", "by perceptrons", "Rejects nothing", "training rows are inside",
        "Next: bayespoint predict",
    ):  # fmt: skip
        assert words in iris.said.replace("\n", " ")
    assert "different in every row" not in iris.said


def test_train_as_json(iris):
    found = json.loads(iris.json)
    assert found["classes"] == {"iris 0": 17, "iris 1": 17, "iris 2": 16}
    assert found["trained"]["coverage"] == pytest.approx(0.8, abs=0.02)
    assert "risk_bound" not in found["trained"]  # no risk was promised
    assert found["bytes"] == iris.rejecting.stat().st_size


def test_the_model_says_where_it_comes_from(iris):
    model = load(iris.rejecting)
    assert isinstance(model.classifier, RejectingClassifier)
    assert model.about["file"] == "iris.csv"
    assert model.about["target"] == "species"
    assert model.about["columns"] == ["sepal l", "sepal w", "petal l", "petal w", "shape"]
    assert model.about["options"]["coverage"] == 0.8
    assert model.about["version"] == bayespoint.__version__
    assert model.classifier.estimator_.verbose == 0
    said = well("info", iris.rejecting).output
    assert "iris.csv" in said
    assert "risk_bound" not in said
    assert "columns: sepal l, sepal w, petal l, petal w, shape" in said
    assert not set("{}[]") & set(said)  # words, not Python
    assert "None" not in said
    notes = model.about["notes"]
    assert notes
    assert all(f"note: {note}" in said.splitlines() for note in notes)
    assert " draws, " in said  # of perceptrons


def test_options_reach_the_classifier(iris, tmp_path):
    well("train", iris.data, "--target", "species", "--model", tmp_path / "m.bpm", "--quiet",
         "--inference", "billiard", "--n-draws", 12, "--label-noise", 0.1, "--seed", 5,
         "--max-time", 600, "--n-jobs", 1, "--kernel", "laplacian", "--gamma", 0.1,
         "--softness", 0.2, "--class-weight", "iris 0=2", "--class-weight", "iris 1=3")  # fmt: skip
    clf = load(tmp_path / "m.bpm").classifier
    found = clf.get_params()
    assert found["inference"] == clf.inference_ == "billiard"
    assert clf.n_draws_ == 12
    assert (found["label_noise"], found["random_state"], found["max_time"]) == (0.1, 5, 600)
    assert (clf.kernel_, clf.gamma_, clf.softness_) == ("laplacian", 0.1, 0.2)
    assert found["class_weight"] == {"iris 0": 2, "iris 1": 3}
    assert clf.n_features_in_ == 7  # nothing was dropped


def test_labels_are_as_in_the_file(tmp_path):
    rows = [[x, f"{int(x > 0):02}"] for x in np.linspace(-1, 1, 20)]
    data = write(tmp_path / "d.csv", ["x", "y"], rows)
    well("train", data, "--target", "y", "--model", tmp_path / "m.bpm", *FAST)
    found = predicted(data, tmp_path / "m.bpm", tmp_path / "p.csv")[1]
    assert {row[0] for row in found} == {"00", "01"}


@pytest.mark.usefixtures("given")
def test_no_header_npy_and_categories(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 40)
    table = np.column_stack([rng.normal(size=40), codes, codes == 1])
    np.save(tmp_path / "d.npy", table)
    np.savetxt(tmp_path / "d.csv", table, delimiter=",", fmt="%g")
    for data, options in (("d.npy", []), ("d.csv", ["--no-header"])):
        well("train", tmp_path / data, "--target", "x2", "--model", tmp_path / "m.bpm",
             "--categorical", "x1", *options, *FAST)  # fmt: skip
        assert load(tmp_path / "m.bpm").encoder.feature_names_ == ["x0", "x1=0", "x1=1", "x1=2"]
        rows = predicted(tmp_path / data, tmp_path / "m.bpm", tmp_path / "p.csv", *options)[1]
        assert [row[0] for row in rows] == [str(int(v)) for v in table[:, 2]]


def test_a_time_limit_ends_training_quietly(iris, tmp_path, clock):
    clock.step = 0.02
    base = ["train", iris.data, "--target", "species", "--drop", "id", "--n-draws", 1000,
            "--inference", "perceptron", "--n-jobs", 1, "--quiet", "--model"]  # fmt: skip
    result = well(*base, tmp_path / "m.bpm", "--max-time", 6)
    assert result.output == ""
    assert 0 < load(tmp_path / "m.bpm").classifier.n_draws_ < 1000


def test_with_a_time_limit_a_note_says_which_fit_was_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(first_fit, "FIRST_ROWS", 20)
    X = np.random.default_rng(0).normal(size=(80, 2))
    data = write(tmp_path / "d.csv", ["u", "v", "y"], [[*x, "ab"[x[0] > 0]] for x in X.tolist()])
    train = ["train", data, "--target", "y", "--model", tmp_path / "m.bpm", "--inference", "ep",
             "--kernel", "rbf", "--gamma", 0.5, "--softness", 0.1, "--n-jobs", 1]  # fmt: skip
    said = " ".join(well(*train, "--max-time", 600).output.split())
    assert re.search(r"note: the model is the fit on all 80 rows, .* than on \d+ \(log-loss", said)
    assert said.count("the fit on") == 1
    assert "is the fit on" not in well(*train).output


def test_rows_that_contradict_each_other_are_named_by_their_lines(tmp_path):
    rows = [[1, "a"], [2, "b"], [3, "a"], [3, "b"], [4, "a"], [5, "b"], [6, "a"], [7, "b"]]
    data = write(tmp_path / "d.csv", ["x", "y"], rows)
    hard = ["--target", "y", "--inference", "billiard", "--softness", 0, "--n-jobs", 1]
    words = "the 2 training points of line 4, line 5 their labels"
    fails(1, "train", data, *hard, "--model", tmp_path / "m.bpm", words=words)
    fails(1, "cross-validate", data, *hard, "--folds", 2, words=["line 4", "line 5"])


def test_a_risk_is_bounded_or_said_to_be_out_of_reach(tmp_path, clock):
    rng = np.random.default_rng(0)
    rows = [[x + rng.normal() / 3, "ab"[int(x > 0)]] for x in np.linspace(-1, 1, 30)]
    data = write(tmp_path / "d.csv", ["x", "y"], rows)
    clock.step = 0.01  # six fits, each cut short
    base = ["train", data, "--target", "y", "--model", tmp_path / "m.bpm", *FAST,
            "--max-time", 1, "--max-risk"]  # fmt: skip
    said = " ".join(well(*base, 0.005).output.split())
    assert "rejects every row: a risk of 0.005 could not be shown" in said
    assert "--max-risk or --delta" in said
    assert "max_risk" not in said
    assert "Next:" not in said
    found = json.loads(well(*base, 0.5, "--json").stdout)
    assert 0 < found["trained"]["risk_bound"] <= 0.5
    assert "risk_bound" in well("info", tmp_path / "m.bpm").output


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        (["perceptron", "--n-draws", 20], [600]),
        (["ep", "--n-draws", 4, "--label-noise", 0.1], [600]),
        (["auto", "--n-draws", 20], [600]),
        (["perceptron", "--n-draws", 9], [300] + [60] * 5),
        (["billiard", "--n-draws", 4], [300] + [60] * 5),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("given")
def test_a_threshold_takes_folds_only_where_one_fit_does_not_tell(
    options, limits, iris, tmp_path, monkeypatch
):
    """All fits together may take the time given."""
    found, fit = [], BayesPointClassifier.fit

    @wraps(fit)
    def noted(self, *arguments, **others):
        found.append(self.max_time)
        return fit(self, *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "fit", noted)
    said = well("train", iris.data, "--target", "species", "--drop", "id", "--model",
                tmp_path / "m.bpm", "--n-jobs", 1, "--max-time", 600, "--coverage", 0.8,
                "--inference", *options).output  # fmt: skip
    assert found == limits
    assert "of held-out rows" in said
    clf = load(tmp_path / "m.bpm").classifier
    assert clf.cv == "auto"
    assert clf.confidence_ in ("probability", "gap")
    assert clf.coverage_ == pytest.approx(0.8, abs=0.05)


def test_classes_of_few_rows_may_reject_where_no_folds_are_needed(tmp_path):
    rows = [[x, "ab"[int(x > 0.8)]] for x in np.linspace(-1, 1, 30)]
    rows = [row for row in rows if row[1] == "a"] + rows[-3:]
    data = write(tmp_path / "d.csv", ["x", "y"], rows)
    train = ["train", data, "--target", "y", "--model", tmp_path / "m.bpm", "--coverage", 0.9]
    well(*train, "--n-jobs", 1, "--quiet")
    assert isinstance(load(tmp_path / "m.bpm").classifier, RejectingClassifier)
    fails(1, *train, *FAST, words=["class 'b' has 3 rows", "need 5 of each class here"])


@pytest.mark.usefixtures("given")
def test_notes_on_identifiers_and_single_rows(tmp_path):
    rows = [[i, 100 - i, x, y] for i, (x, y) in enumerate(zip("ab" * 10, "c" + "de" * 9 + "d",
                                                              strict=True))]  # fmt: skip
    write(tmp_path / "d.csv", ["counts up", "row id", "x", "y"], rows)
    said = well("train", tmp_path / "d.csv", "--target", "y", "--model", tmp_path / "m.bpm",
                *FAST).output  # fmt: skip
    said = " ".join(said.split())
    assert "'counts up' is different in every row" in said
    assert "--drop 'row id' leaves it out" in said
    assert "class 'c' has one row only" in said


def test_a_device_that_is_not_there(iris, tmp_path, monkeypatch):
    def none(*_):
        raise DeviceError("device='cuda': there is no GPU; use device='cpu'.")

    monkeypatch.setattr(BayesPointClassifier, "fit", none)
    fails(
        2, "train", iris.data, "--target", "species", "--model", tmp_path / "m.bpm",
        "--device", "cuda", words="--device 'cuda': there is no GPU; use --device 'cpu'",
    )  # fmt: skip


def test_a_missing_package_is_bad_usage(iris, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    fails(2, "predict", tmp_path / "d.parquet", "--model", iris.model, words="pyarrow")
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    fails(2, "export", iris.model, "--output", tmp_path / "m.onnx",
          words="needs the package 'skl2onnx'")  # fmt: skip


def test_export_takes_the_encoder_into_the_graph(iris, tmp_path):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    result = well("export", iris.rejecting, "--output", tmp_path / "m.onnx")
    said = " ".join(result.output.split())
    assert "sepal_l (numbers)" in said
    assert "shape (text)" in said
    model = load(iris.rejecting)
    table = read_table(iris.data)
    names = [column.name for column in model.encoder.columns_]
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    inputs = {
        given.name: (
            column.astype(np.float32)[:, None] if column.dtype != object
            else np.array([[text or ""] for text in column], dtype=object)
        )
        for given, column in zip(session.get_inputs(), map(table.column, names), strict=True)
    }  # fmt: skip
    found = session.run(["probabilities"], inputs)[0]
    expected = model.classifier.predict_proba(model.encoder.transform(table))
    np.testing.assert_allclose(found, expected, atol=1e-5)
