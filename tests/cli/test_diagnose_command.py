"""``diagnose``: numbers of every inference, verdicts that follow them, pictures of draws."""

import json
import re

import pytest
from helpers.cli import well
from sklearn.datasets import load_iris

from bayespoint import BayesPointClassifier
from bayespoint.cli.verdicts import verdicts_on
from bayespoint.io.model_file import load, save

NAMES = {
    "ep": {"sweeps", "converged", "change", "log_evidence", "mean_probability", "base_probability"},
    "billiard": {"rhat", "ess", "bounces"},
    "gibbs": {"rhat", "ess"},
    "perceptron": {"angle_error", "violated"},
    "onion": {"angle_error"},
}


@pytest.mark.parametrize("inference", NAMES)
def test_diagnose_tells_of_every_inference(models, inference):
    command = ["diagnose", "--model", models / f"{inference}.bpm"]
    found = json.loads(well(*command, "--json").stdout)
    assert found["verdicts"]
    assert len(found["machines"]) == (1 if inference == "onion" else 3)
    for machine in found["machines"]:
        assert NAMES[inference] <= set(machine)
    clf = load(models / f"{inference}.bpm").classifier
    assert found["n_support"] == len(clf.support_)
    if inference == "ep":
        assert found["log_evidence"] == pytest.approx(clf.log_evidence_)
    if inference == "billiard":
        expected = clf.diagnostics_["rhat"].tolist()
        assert [machine["rhat"] for machine in found["machines"]] == expected
        assert found["run"]["drift"] < 1e-9
    said = well(*command).output
    assert found["verdicts"][0]["words"][:30] in said


def test_diagnose_tells_of_cells(tmp_path):
    X, y = load_iris(return_X_y=True)
    given = {
        "gamma": 0.5,
        "softness": 0.1,
        "bias": 1.0,
        "cell_size": 40,
        "n_landmarks": 10,
        "n_trees": 2,
    }
    clf = BayesPointClassifier(inference="ep", random_state=0, **given)
    save(tmp_path / "cells.bpm", clf.fit(X, y))
    found = json.loads(well("diagnose", "--model", tmp_path / "cells.bpm", "--json").stdout)
    assert found["run"]["cells"] == clf.diagnostics_["cells"]
    assert [verdict["level"] for verdict in found["verdicts"]] == ["fine", "fine"]
    assert found["verdicts"][0]["words"] == "8 cells of 2 trees have converged."
    moving = {**found, "run": {"cells": [4], "moving": [3]}}
    assert next(verdicts_on(moving))[0] == "bad"


def test_a_model_that_rejects_is_looked_into(labelled):
    plain, rejecting = (
        json.loads(well("diagnose", "--model", labelled / f"{name}.bpm", "--json").stdout)
        for name in ("three", "three_some")
    )
    assert len(rejecting["machines"]) == len(plain["machines"]) == 3
    base = load(labelled / "three_some.bpm").classifier.estimator_
    assert rejecting["n_support"] == len(base.support_)


@pytest.mark.parametrize("name", ["ep", "billiard"])
def test_pictures_judge_chains_and_not_independent_draws(models, tmp_path, name):
    path, names = tmp_path / "traces.svg", {"ep": ["1"], "billiard": ["0", "1", "2"]}[name]
    model = models / ("ep_two.bpm" if name == "ep" else "billiard.bpm")
    said = well("diagnose", "--model", model, "--plots", path).output
    # Draws that are independent have no chains to judge.
    assert ("Draws: " in said) == (name == "ep")
    texts = re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))
    titles = [text for text in texts if text.startswith(("0: ", "1: ", "2: "))]
    assert [title[0] for title in titles] == names
    assert all(("ESS" in title) == (name == "billiard") for title in titles)
    assert all(("least sure" in title) == (name == "ep") for title in titles)


def levels(found):
    return [level for level, _ in verdicts_on(found)]


def test_verdicts_follow_the_numbers():
    machine = {"class": "a", "rhat": 1.0, "ess": 200.0, "angle_error": 0.1, "bounces": 1000}
    run = {"drift": 1e-12, "restarts": 0}
    good = {"inference": "billiard", "machines": [machine], "run": run}
    assert levels(good) == ["fine"] * 4
    bad = machine | {"rhat": 1.5, "ess": 5.0, "angle_error": 1.0}
    worse = {"inference": "gibbs", "machines": [machine, bad], "run": {"drift": 1, "restarts": 90}}
    assert levels(worse) == ["bad", "bad", "bad", "watch", "bad"]
    middling = machine | {"rhat": 1.15, "ess": 30.0, "angle_error": 0.5}
    assert levels(good | {"machines": [middling]}) == ["watch", "watch", "fine", "watch"]
    unknown = machine | {"rhat": None, "ess": None, "angle_error": None}
    assert levels(good | {"machines": [unknown]}) == ["watch", "fine", "watch"]
    site = {
        "class": "a", "sweeps": 9, "converged": True, "bounded": False, "mean_probability": 0.9,
        "angle_error": 0.0,
    }  # fmt: skip
    assert levels({"inference": "ep", "machines": [site], "run": {}}) == ["fine", "fine"]
    site |= {"converged": False, "bounded": True, "mean_probability": 0.4}
    assert levels({"inference": "ep", "machines": [site], "run": {}}) == ["bad", "watch", "bad"]
    site |= {"converged": True, "bounded": False, "mean_probability": 0.95}
    for by_shares, last in (0.94, "fine"), (0.97, "bad"):  # of a rare class, a coin is no measure
        site["base_probability"] = by_shares
        assert levels({"inference": "ep", "machines": [site], "run": {}}) == ["fine", last]
    site["sweeps"] = None
    assert levels({"inference": "ep", "machines": [site], "run": {}}) == ["watch"]
    drawn = {"class": "a", "violated": 2, "angle_error": 0.1}
    assert levels({"inference": "perceptron", "machines": [drawn], "run": {}}) == ["bad", "fine"]
