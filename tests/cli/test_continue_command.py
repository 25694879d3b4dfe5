"""``train --continue``: rows are added to a model, or its file stays as it was."""

import json
import shutil

import numpy as np
import pytest
from helpers.cli import fails, part, predicted, run, well, write
from helpers.stops import can_press, press_ctrl_c

from bayespoint import BayesPointClassifier
from bayespoint.io.model_file import load, save
from bayespoint.io.tables import read_table

QUICK = ["--n-jobs", 1, "--no-importances"]


@pytest.fixture
def model(days, tmp_path):
    """A model file of one's own."""
    return shutil.copy(days / "first.bpm", tmp_path / "m.bpm")


def test_it_is_partial_fit_with_the_encoder_of_the_model(days, tmp_path):
    old = (days / "first.bpm").read_bytes()
    new = tmp_path / "new.bpm"
    said = well("train", days / "second.csv", "--continue", days / "first.bpm", "--model", new,
                *QUICK).output  # fmt: skip
    expected, encoder, _ = load(days / "first.bpm")
    table = read_table(days / "second.csv", text=["kind"])
    X = encoder.transform(table)
    expected.partial_fit(X, np.array(table.column("kind").tolist()))
    found = load(new)
    np.testing.assert_array_equal(found.classifier.predict_proba(X), expected.predict_proba(X))
    assert found.encoder.to_state() == encoder.to_state()
    said = " ".join(said.split())
    loss = -expected.log_predictive_[-1]
    assert "Read second.csv: 24 rows; target 'kind': high (" in said
    assert f"Log-loss of the new rows before they were learned: {loss:.4f}." in said
    assert "24 rows added, 84 in all; 84 different ones are held." in said
    assert "Next: bayespoint predict" in said
    assert (days / "first.bpm").read_bytes() == old


def test_the_file_is_replaced_and_tells_of_it(days, model):
    command = ["train", days / "second.csv", "--continue", model, *QUICK]
    found = json.loads(well(*command, "--json").stdout)
    assert found["continued"]["times"] == 1
    assert found["continued"]["n_rows"] == 24
    assert found["n_rows"] == sum(found["classes"].values()) == 84
    assert found["bytes"] == model.stat().st_size
    assert found["file"] == "first.csv"
    said = well(*command).output
    assert "24 of 24 rows are in the model already, and count once more" in " ".join(said.split())
    about = load(model).about
    assert about["continued"]["times"] == 2
    assert about["n_rows"] == 108
    assert "second.csv" in well("info", model).output
    well("evaluate", days / "second.csv", "--model", model)


def test_new_classes_and_words_gaps_and_other_columns(model, tmp_path):
    rows = [[0.1, "", "green", "high", i] for i in range(3)] + [[5, 5, "red", "huge", 0]] * 4
    data = write(tmp_path / "d.csv", ["weight", "size", "colour", "kind", "id"], rows)
    said = " ".join(well("train", data, "--continue", model, *QUICK).output.split())
    for words in (
        "class 'huge' is new: 4 rows", "3 missing cells filled in: 1 column ('size')",
        "'colour': 3 cells with values not seen in training ('green')",
        "ignored, as the model does not know 1 column ('id')",
    ):  # fmt: skip
        assert words in said
    names, found, _ = predicted(data, model, tmp_path / "p.csv")
    assert names[2:] == ["probability_high", "probability_huge", "probability_low"]
    assert found[-1][0] == "huge"


def test_in_chunks(days, model):
    command = ["train", days / "second.csv", "--continue", model, *QUICK, "--json"]
    found = json.loads(well(*command, "--chunk-rows", 10).stdout)
    classifier = load(model).classifier
    assert classifier.stream_.history[:, 0].tolist() == [10, 10, 4]
    losses = -classifier.log_predictive_
    assert found["continued"]["log_loss"] == pytest.approx(losses @ [10, 10, 4] / 24)
    fails(2, "train", "-", "--continue", model, "--chunk-rows", 10, words="name a file, not -")


def test_a_time_limit_is_of_the_run(days, model, monkeypatch):
    old = load(model)
    old.classifier.max_time = 30.0
    save(model, old.classifier, encoder=old.encoder, about=old.about)
    found, partial_fit = [], BayesPointClassifier.partial_fit

    def noted(self, *arguments, **others):
        found.append(self.max_time)
        return partial_fit(self, *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "partial_fit", noted)
    well("train", days / "second.csv", "--continue", model, *QUICK)
    well("train", days / "second.csv", "--continue", model, *QUICK, "--max-time", 90)
    assert found[0] is None
    assert 60 < found[1] <= 90


def test_standard_input_and_importances(days, model):
    text = (days / "second.csv").read_text(encoding="utf-8")
    said = well("train", "-", "--continue", model, "--n-jobs", 1, input=text).output
    assert "Read standard input: 24 rows" in said
    assert "Columns that matter most" in said
    assert load(model).classifier.feature_importances_.shape == (4,)


def test_a_model_saved_in_python(models, tmp_path):
    """It has no encoder, its classes are numbers, and it does not name its target."""
    rows = [[5.1, 3.5, 1.4, 0.2, 0], [6.5, 3.0, 4.6, 1.5, 1]]
    data = write(tmp_path / "d.csv", ["a", "b", "c", "d", "y"], rows)
    command = ["train", data, "--continue", models / "ep_two.bpm", "--model", tmp_path / "m.bpm"]
    fails(2, *command, words="--target is needed")
    well(*command, *QUICK, "--target", "y")
    found = load(tmp_path / "m.bpm")
    assert found.classifier.classes_.tolist() == [0, 1]
    assert found.classifier.stream_.seen == load(models / "ep_two.bpm").classifier.stream_.seen + 2
    write(data, ["a", "b", "c", "d", "y"], [*rows, [1, 2, 3, 4, "x"]])
    fails(1, *command, "--target", "y", words=["'x' is not among the classes", "in Python"])


def refused(model, code, data, *options, words):
    """It says why, and the model file is as it was."""
    before, around = model.read_bytes(), sorted(model.parent.iterdir())
    said = fails(code, "train", data, "--continue", model, *options, words=words)
    assert model.read_bytes() == before
    assert sorted(model.parent.iterdir()) == around
    return said


def test_models_that_cannot_go_on(iris, days, model, models):
    remedy = "train it with --inference ep"
    refused(iris.model, 2, iris.data, words=["iris.bpm was trained by perceptrons", remedy])
    for name in ("billiard", "gibbs", "onion"):
        refused(models / f"{name}.bpm", 2, iris.data, words=remedy)
    refused(iris.rejecting, 2, iris.data, words=["threshold", "without --coverage and --max-risk"])
    old = load(model)
    old.classifier.stream_ = None
    save(model, old.classifier, encoder=old.encoder, about=old.about)
    refused(model, 2, days / "second.csv", words=["older version", "train it again"])


def test_data_that_do_not_suit_the_model(days, model, tmp_path):
    data = tmp_path / "d.csv"
    for change, code, words in (
        (lambda row: [*row[:3], f"new {row[3]}"], 1, ["knows 'high', 'low'", "right column?"]),
        (lambda row: [*row[:3], ""], 1, "missing in 24 rows"),
        (lambda row: ["big", *row[1:]], 1, "'size', line 2: 'big' is not a number"),
        (lambda row: row[:3], 1, "line 2 has 3 cells"),
    ):
        part(days / "second.csv", data, lambda rows, change=change: [change(row) for row in rows])
        refused(model, code, data, words=words)
    part(days / "second.csv", data,
         lambda rows: [*rows, *([*rows[0][:3], f"k{i}"] for i in range(99))])  # fmt: skip
    refused(model, 1, data, words=["99 new classes", "at most 100"])
    write(data, ["size", "colour", "kind"], [[1, "red", "high"]])
    refused(model, 1, data, words="1 column ('weight') of the training data is not there")
    refused(model, 2, days / "second.csv", "--target", "knd", words="Do you mean 'kind'")


def test_options_that_do_not_go_with_it(days, model, tmp_path):
    data = days / "second.csv"
    refused(model, 2, data, "--coverage", 0.9, "--drop", "size", words="leave out --coverage, --d")
    refused(model, 2, data, "--inference", "ep", words="leave out --inference")
    refused(model, 2, data, "--model", tmp_path, words="is a folder")
    refused(model, 2, data, "--model", data, words="file of the data")
    fails(2, "train", data, "--continue", tmp_path / "no.bpm", words="--continue")
    fails(2, "train", data, "--continue", data, words="--continue is the file of the data")
    fails(2, "train", data, "--model", model, words="--target")
    fails(2, "train", data, "--target", "kind", words="--model")


def test_a_failed_save_leaves_the_old_file(days, model, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "m.bpm")

    monkeypatch.setattr("bayespoint.cli.train.save", full)
    refused(model, 2, days / "second.csv", *QUICK, words="No space left on device")


@can_press
def test_ctrl_c_leaves_the_old_file(days, model, monkeypatch):
    partial_fit = BayesPointClassifier.partial_fit

    def pressed(self, *arguments, **others):
        press_ctrl_c()
        return partial_fit(self, *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "partial_fit", pressed)
    before = model.read_bytes()
    done = run("train", days / "second.csv", "--continue", model, *QUICK)
    assert done.exit_code == 130
    assert done.stderr == "stopped; the model file is as it was\n"
    assert model.read_bytes() == before
