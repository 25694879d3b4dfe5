"""Which columns matter: what ``train`` says, the model keeps and the report shows."""

import json

import numpy as np
import pytest
from helpers.cli import FAST, reported, well, write

from bayespoint import BayesPointClassifier
from bayespoint.cli import importances
from bayespoint.io.model_file import load


@pytest.fixture(scope="module")
def bought(tmp_path_factory):
    """A number and a word decide; another of each does not."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(60):
        weight, height, colour = rng.normal(), rng.normal(), "rgb"[rng.integers(3)]
        sold = weight + 3 * (colour == "r") > 1
        rows.append([weight, height, colour, "ab"[rng.integers(2)], ["no", "yes"][sold]])
    path = tmp_path_factory.mktemp("bought") / "d.csv"
    return write(path, ["weight", "height", "colour", "region", "kind"], rows)


def train(data, model, *options):
    return well("train", data, "--target", "kind", "--model", model, *FAST, *options)


def test_the_columns_that_matter_are_said_kept_and_shown(bought, tmp_path):
    model = tmp_path / "m.bpm"
    said = train(bought, model).output
    lines = said.split("Columns that matter most")[1].splitlines()[1:5]
    assert {line.split()[0] for line in lines[:2]} == {"weight", "colour"}
    assert {line.split()[0] for line in lines[2:]} == {"height", "region"}
    assert all("±" in line for line in lines)
    clf = load(model).classifier
    groups = ["weight", "height", *["colour"] * 3, *["region"] * 2]
    assert clf.feature_groups == groups
    found = dict(zip(groups, clf.feature_importances_, strict=True))
    assert f"{found['colour']:.4f}" in said
    page, _, _ = reported(bought, model, tmp_path / "r.html")
    part = page.text.split("Which columns matter")[1].split("Most doubtful")[0]
    assert f"{found['colour']:.4f}" in part
    assert part.count("region") == 2  # in the chart and in the table


@pytest.mark.usefixtures("given")
def test_as_json_and_behind_a_reject_option(bought, tmp_path):
    result = train(bought, tmp_path / "m.bpm", "--json", "--coverage", 0.9, "--n-draws", 20)
    found = json.loads(result.stdout)["importances"]
    assert {entry["name"] for entry in found} == {"weight", "height", "colour", "region"}
    assert found[0]["mean"] > 3 * found[0]["error"] > 0
    assert load(tmp_path / "m.bpm").classifier.estimator_.trained_.importances is not None


@pytest.mark.usefixtures("given")
def test_what_takes_long_is_left_out_unless_asked_for(bought, tmp_path, monkeypatch):
    speed = importances.SPEED
    monkeypatch.setattr(importances, "SPEED", 1.0)
    said = " ".join(train(bought, tmp_path / "m.bpm").output.split())
    assert "left out, as it takes about 1,080,000 s: --importances computes it" in said
    assert load(tmp_path / "m.bpm").classifier.trained_.importances is None
    page, _, _ = reported(bought, tmp_path / "m.bpm", tmp_path / "r.html")
    assert "Which columns matter" not in page.text
    said = train(bought, tmp_path / "m.bpm", "--importances").output
    assert "Columns that matter most" in said
    monkeypatch.setattr(importances, "SPEED", speed)
    said = " ".join(train(bought, tmp_path / "m.bpm", "--max-time", 60).output.split())
    assert "left out, as time is limited: --importances computes it" in said
    said = train(bought, tmp_path / "m.bpm", "--no-importances").output
    assert "olumns" not in said.split("Trained in")[1].replace("each column", "")


@pytest.mark.usefixtures("given")
def test_ctrl_c_leaves_the_model_whole(bought, tmp_path, monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(BayesPointClassifier, "feature_importances_", property(stop))
    said = " ".join(train(bought, tmp_path / "m.bpm").output.split())
    assert "left out, as Ctrl-C ended it; the model is whole" in said
    assert load(tmp_path / "m.bpm").classifier.classes_.tolist() == ["no", "yes"]


@pytest.mark.usefixtures("given")
def test_folds_have_groups_of_their_own(bought, monkeypatch):
    """A value of a word that a fold does not hold has no column there."""
    found, fit = [], BayesPointClassifier.fit

    def noted(self, X, y):
        found.append((self.feature_groups, X.shape[1]))
        return fit(self, X, y)

    monkeypatch.setattr(BayesPointClassifier, "fit", noted)
    well("cross-validate", bought, "--target", "kind", "--folds", 2, *FAST)
    assert len(found) == 2
    for groups, n_columns in found:
        assert len(groups) == n_columns
        assert set(groups) == {"weight", "height", "colour", "region"}
