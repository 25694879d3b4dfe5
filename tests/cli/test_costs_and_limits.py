"""``--costs``, ``--min-precision`` and ``--min-recall``: from train to predict and the report."""

import csv
import json

import numpy as np
import pytest
from helpers.cli import fails, run, well, write

from bayespoint.cli.wanted import read_costs
from bayespoint.io.model_file import load, save

SETTINGS = ["--inference", "ep", "--n-jobs", "1"]


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=160)
    X = rng.normal(size=(160, 2)) + 1.5 * y[:, None]
    lines = [[*x, ("no", "yes")[k]] for x, k in zip(X.tolist(), y.tolist(), strict=True)]
    return write(tmp_path / "rows.csv", ["a", "b", "kind"], lines)


@pytest.fixture
def costs(tmp_path):
    lines = [["yes", 0, 4, 0.3], ["no", 1, 0, 0.3]]
    return write(tmp_path / "costs.csv", ["true", "yes", "no", "reject"], lines)


def train_well(rows, model, *options):
    assert train(rows, model, *options).exit_code == 0
    return model


def train(rows, model, *options):
    return run("train", rows, "--target", "kind", "--model", model, *SETTINGS, *options)


@pytest.mark.usefixtures("given")
def test_costs_from_a_file_to_the_report(rows, costs, tmp_path):
    model, report = tmp_path / "m.bpm", tmp_path / "r.html"
    told = train(rows, model, "--costs", costs)
    assert told.exit_code == 0, told.output
    assert "where that is cheaper than rejecting" in told.output
    clf = load(model).classifier
    assert clf.costs_.tolist() == [[0, 1, 0.3], [4, 0, 0.3]]
    well("predict", rows, "--model", model, "--output", tmp_path / "p.csv")
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    proba = np.array([[float(row[f"probability_{c}"]) for c in ("no", "yes")] for row in found])
    expected = np.minimum((proba @ clf.costs_).min(axis=1), 0.3)
    np.testing.assert_allclose([float(row["expected_cost"]) for row in found], expected)
    rejected = np.array([row["rejected"] == "1" for row in found])
    assert 0 < rejected.sum() < 160
    np.testing.assert_array_equal(rejected, (proba @ clf.costs_).argmin(axis=1) == 2)
    result = well("evaluate", rows, "--model", model, "--report", report, "--json")
    measured = json.loads(result.stdout)["costs"]
    assert measured["expected"] == pytest.approx(expected.mean())
    assert measured["mean"] <= measured["most_probable"] + 0.05
    page = report.read_text(encoding="utf-8")
    assert "What decisions cost" in page
    assert "Cost against rejection" in page
    line = well("predict", rows, "--model", model, "--json").stdout.splitlines()[0]
    assert json.loads(line)["expected_cost"] == pytest.approx(expected[0])


@pytest.mark.usefixtures("given")
def test_limits_per_class(rows, tmp_path):
    model = tmp_path / "m.bpm"
    told = train(rows, model, "--min-precision", "yes=0.85", "--min-recall", "yes=0.8")
    assert told.exit_code == 0, told.output
    assert "'no' where its probability is above 0." in " ".join(told.output.split())
    clf = load(model).classifier
    assert clf.min_precision == {"yes": 0.85}
    assert clf.threshold_.shape == (2,)
    assert "min_precision" in well("info", model).output


@pytest.fixture
def limited(rows, tmp_path):
    """A model whose thresholds do not depend on chance, with limits that are kept and broken."""
    model = load(train_well(rows, tmp_path / "m.bpm", "--min-recall", "yes=0.7"))
    clf = model.classifier.set_params(min_precision={"yes": 0.5, "no": 0.999})
    clf.threshold_ = np.array([0.6, np.inf])  # "yes" is never decided
    save(tmp_path / "limited.bpm", clf, encoder=model.encoder, about=model.about)
    return tmp_path / "limited.bpm"


@pytest.mark.usefixtures("given")
def test_evaluate_says_whether_limits_are_kept(rows, limited, tmp_path):
    report = tmp_path / "r.html"
    told = well("evaluate", rows, "--model", limited, "--report", report).output
    assert "Precision of 'yes': no row is labelled so; at least 50.0% was wanted" in told
    of_no = next(line for line in told.splitlines() if line.startswith("Precision of 'no'"))
    assert "at least 99.9% was wanted: not kept" in of_no
    assert "which may be chance" not in of_no
    of_yes = next(line for line in told.splitlines() if line.startswith("Recall of 'yes'"))
    assert of_yes.endswith("rows of it, rejected ones not missed; at least 70.0% was wanted: kept.")
    document = json.loads(well("evaluate", rows, "--model", limited, "--json").stdout)
    assert [limit["kept"] for limit in document["limits"]] == [None, False, True]
    with open(rows, newline="", encoding="utf-8") as stream:
        true = np.array([row["kind"] for row in csv.DictReader(stream)])
    found = [
        json.loads(line)
        for line in well("predict", rows, "--model", limited, "--json").stdout.splitlines()
    ]
    missed = np.array([row["label"] == "no" for row in found])[true == "yes"]
    assert document["limits"][2]["share"] == pytest.approx(1 - missed.mean())
    page = report.read_text(encoding="utf-8")
    assert "Whether limits per class are kept" in page
    assert "nothing to break" in page


@pytest.mark.usefixtures("given")
def test_labels_that_are_always_or_never_given_are_told_in_words(rows, tmp_path):
    told = " ".join(train(rows, tmp_path / "m.bpm", "--min-precision", "yes=0.5").output.split())
    assert "'no' always" in told
    assert "inf" not in told


@pytest.mark.usefixtures("given")
@pytest.mark.filterwarnings("ignore:min_precision")
def test_limits_that_reject_every_row_are_told(rows, tmp_path):
    limits = ["--min-precision", "yes=0.999", "--min-precision", "no=0.999"]
    told = " ".join(train(rows, tmp_path / "m.bpm", *limits).output.split())
    assert "rejects every row: the limits could not be shown with probability 0.95" in told


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("mark", [";", "\t"])
def test_costs_may_have_the_delimiters_of_data(costs, tmp_path, mark):
    other = tmp_path / "other.csv"
    other.write_text(costs.read_text().replace(",", mark))
    assert read_costs(other) == read_costs(costs)
    assert read_costs(other)["yes"] == {"yes": 0, "no": 4, "reject": 0.3}


def test_costs_are_cross_validated(rows, costs):
    options = ["--target", "kind", "--folds", "2", "--costs", costs, *SETTINGS]
    assert "cost of a row" in well("cross-validate", rows, *options).output


def test_refusals(rows, costs, tmp_path):
    to = ["train", rows, "--target", "kind", "--model", tmp_path / "m.bpm"]
    fails(2, *to, "--costs", costs, "--coverage", "0.9", words="give --coverage or --costs")
    fails(2, *to, "--costs", tmp_path / "none.csv", words=["--costs", "could not be read"])
    fails(2, *to, "--min-recall", "yes", words="must be a class and a share, as --min-recall")
    fails(2, *to, "--min-recall", "yes=2", words="the share must be above 0")
    fails(2, *to, "--delta", "0.1", words="needs --max-risk, --min-precision or")
    fails(2, *to, "--costs", costs, "--chunk-rows", "50", words="--chunk-rows does not work with")
    odd = write(tmp_path / "odd.csv", ["true", "yes", "no"], [["yes", "x", 1]])
    fails(2, *to, "--costs", odd, words="'x' is not a number")
    long = write(tmp_path / "long.csv", ["true", "yes"], [[k, 1] for k in range(1_000)])
    fails(2, *to, "--costs", long, words="more than 1,000 lines")
    twice = ["--min-precision", "yes=0.9", "--min-precision", "yes=0.8"]
    fails(2, *to, *twice, words="--min-precision names the class 'yes' twice")
    short = write(tmp_path / "short.csv", ["true", "yes", "no"], [["yes", 1]])
    fails(2, *to, "--costs", short, words="1 costs for 'yes', and 2 decisions")
    other = write(tmp_path / "other.csv", ["true", "yes", "no"], [["yes", 0, 1], ["maybe", 1, 0]])
    fails(2, *to, "--costs", other, words="--costs names the true class 'maybe'")
    fails(2, *to, "--min-precision", "maybe=0.9", words="--min-precision names the class 'maybe'")
    folds = ["cross-validate", rows, "--target", "kind"]
    fails(2, *folds, "--costs", other, words="--costs names the true class 'maybe'")
