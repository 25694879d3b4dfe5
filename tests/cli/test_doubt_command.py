"""``bayespoint doubt``: rows worth a second look, a page to go through them, clear errors."""

import csv
import json
from dataclasses import replace
from math import nan

import numpy as np
import pytest
from helpers.cli import fails, well, write
from sklearn.datasets import load_wine

from bayespoint.cli.doubt import command
from bayespoint.cli.doubt.suspects import Suspect

FLIPPED = [2, 31, 87, 108, 144]
FAST = ["--gamma", "scale", "--softness", "0.1", "--kernel", "rbf"]


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """CSV file with five wrong labels; one of its columns has a name of ours."""
    X, y = load_wine(return_X_y=True)
    names = np.array(["<b>barolo</b>", "grignolino", "barbera"])
    y[FLIPPED] = (y[FLIPPED] + 1) % 3
    path = tmp_path_factory.mktemp("doubt") / "wine.csv"
    columns = ["place", *(f"x{k}" for k in range(1, X.shape[1])), "kind"]
    write(path, columns, ([*row, names[k]] for row, k in zip(X, y, strict=True)))
    return path


def test_rows_page_and_number(wine, tmp_path):
    rows, page = tmp_path / "doubts.csv", tmp_path / "doubts.html"
    command = ["doubt", wine, "--target", "kind", *FAST, "--output", rows, "--report", page]
    found = well(*command)
    assert "of 178 labels are wrong, with 95% probability between" in found.output
    with rows.open(newline="") as stream:
        listed = list(csv.DictReader(stream))
    assert {row["place"] for row in listed} >= {f"line {i + 2}" for i in FLIPPED[1:4]}
    wrong = [float(row["probability_wrong"]) for row in listed]
    assert wrong == sorted(wrong, reverse=True)
    assert min(wrong) > 0.5
    assert all(row["label"] != row["suggested"] for row in listed)
    assert all(len(row["nearest"].split("; ")) == 3 for row in listed)
    assert "given_place" in listed[0]  # the file's own column of this name
    text = page.read_text(encoding="utf-8")
    assert "Labels to look at" in text
    assert "&lt;b&gt;barolo" in text
    assert "<b>barolo" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_budget_and_json(wine):
    found = well("doubt", wine, "--target", "kind", *FAST, "--budget", "7", "--json", "--quiet")
    document = json.loads(found.stdout)
    assert len(document["rows"]) == 7
    low, high = document["n_wrong_interval"]
    assert low <= document["n_wrong"] <= high
    assert {row["row"] - 1 for row in document["rows"]} >= set(FLIPPED[1:4])
    first = document["rows"][0]
    assert first["label"] != first["suggested"]
    assert first["probability_wrong"] >= first["probability_suggested"]


def test_quick_finds_them_too(wine):
    found = well("doubt", wine, "--target", "kind", "--quick", "--budget", "7", "--json", "--quiet")
    rows = {row["row"] - 1 for row in json.loads(found.stdout)["rows"]}
    assert rows >= set(FLIPPED[1:4])


def test_columns_left_out_are_shown_but_not_learnt(wine, tmp_path):
    """Such as names of the rows, which people need to find them again."""
    lines = wine.read_text().splitlines()
    named = tmp_path / "named.csv"
    named.write_text(
        "\n".join([f"name,{lines[0]}", *(f"{i:04},{x}" for i, x in enumerate(lines[1:]))])
    )
    options = ["--target", "kind", *FAST, "--budget", "7", "--quiet", "--output"]
    pages = tmp_path / "named.html"
    well("doubt", named, *options, tmp_path / "a.csv", "--drop", "name", "--report", pages)
    well("doubt", wine, *options, tmp_path / "b.csv")
    found = []
    for path in (tmp_path / "a.csv", tmp_path / "b.csv"):
        with path.open(newline="") as stream:
            found.append(list(csv.DictReader(stream)))
    assert [row.pop("name") for row in found[0]] == [
        f"{int(row['place'].split()[1]) - 2:04}" for row in found[0]
    ]
    assert found[0] == found[1]
    assert f"{FLIPPED[1]:04}" in pages.read_text(encoding="utf-8")


def test_columns_come_out_as_they_came_in(wine, tmp_path):
    """Whole numbers without a point, zeros in front and all digits, also of what is a number."""
    lines = wine.read_text().splitlines()
    number = [f"{i:04},{10**18 + i},{i % 7}" for i in range(1, len(lines))]
    rows = [f"{more},{line}" for more, line in zip(number, lines[1:], strict=True)]
    data = tmp_path / "d.csv"
    data.write_text("\n".join([f"zip,long,whole,{lines[0]}", *rows]))
    command = ["doubt", "--target", "kind", *FAST, "--budget", "5", "--quiet", "--output"]
    well(*command, tmp_path / "a.csv", data)
    with (tmp_path / "a.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    for row in found:
        there = rows[int(row["place"].split()[1]) - 2].split(",")
        assert [row[name] for name in ("zip", "long", "whole", "given_place")] == there[:4]
    # What can be read only once
    well(*command, tmp_path / "b.csv", "-", input=data.read_text())
    with (tmp_path / "b.csv").open(newline="") as stream:
        assert [row["whole"] for row in csv.DictReader(stream)] == [row["whole"] for row in found]


def test_rows_that_are_probably_right_are_perhaps_of_another_class():
    one = Suspect(0, "a", "b", wrong=0.4, probability=0.4, against=[])
    assert one.word == "perhaps"
    assert one._replace(wrong=0.6).word == "rather"


def test_a_fit_on_some_rows_says_nothing_of_the_others(wine, monkeypatch):
    """Such a one is kept where time was up before all rows were learnt."""
    fit = command.fit

    def cut_short(classifier, X, labels, *others):
        fit(classifier, X, labels, *others)
        proba = np.where(np.arange(len(labels))[:, None] < 50, classifier.trained_.label_proba, nan)
        classifier.trained_ = replace(classifier.trained_, label_proba=proba)

    monkeypatch.setattr(command, "fit", cut_short)
    words = "50 of 178 rows: nothing is known about the labels of the others"
    fails(1, "doubt", wine, "--target", "kind", *FAST, words=words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coverage", "0.9"], "No such option: --coverage"),
        (["--output", "no/such/folder.csv"], "there is no folder"),
        (["--output", "a.html", "--report", "a.html"], "are the same file"),
        (["--json", "--output", "a.csv"], "--json prints the rows"),
        (["--budget", "0"], "budget"),
        (["--quick"], "--quick sets --kernel, too: leave one of them out"),
        (["--target", "kin"], "'kin' is not a column"),
    ],
    ids=str,
)
def test_refusals(wine, options, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    target = [] if "--target" in options else ["--target", "kind"]
    fails(2, "doubt", wine, *target, *FAST, *options, words=message)
