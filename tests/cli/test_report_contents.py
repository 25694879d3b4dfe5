"""What the report says: base rate, the class to be found, its curves, worst pairs, columns."""

import os
import re

import numpy as np
import pytest
from helpers.cli import Page, part, run_process
from sklearn.metrics import average_precision_score, log_loss

from bayespoint import BayesPointClassifier
from bayespoint.cli.importances import columns_by_width
from bayespoint.cli.report import Evaluated, measure, write_report
from bayespoint.cli.report.curves import binary_charts, risk_chart
from bayespoint.io.tables import read_table


def evaluated(true, proba):
    """Rows as a model decides that takes the most probable class."""
    classes = [f"c{k}" for k in range(proba.shape[1])]
    none = np.zeros(len(true), bool)
    return Evaluated(classes, true, proba.argmax(axis=1), none, proba, proba.max(axis=1), False)


def two_classes(n, share, seed=0):
    """Rows of two classes, the second of which is rare, with probabilities that tell something."""
    rng = np.random.default_rng(seed)
    true = (np.arange(n) < share * n).astype(int)
    score = 1 / (1 + np.exp(-(rng.normal(size=n) + 2.5 * true - 1.5)))
    return evaluated(true, np.column_stack([1 - score, score]))


def test_the_dot_of_the_decided_rows_is_in_the_picture():
    """Limits per class may reject the rows that are sure and right, and decide the others."""
    true = np.repeat([0, 1], [90, 10])
    proba = np.tile([0.9, 0.1], (100, 1))
    rows = evaluated(true, proba)._replace(rejected=np.arange(100) < 85, rejects=True)
    measured = measure(rows)
    chart = risk_chart(rows, measured)
    assert measured["decided_error"] == pytest.approx(10 / 15)
    assert chart.top < chart.dots[0]["y"] < chart.bottom


def test_who_knows_nothing_knows_the_frequencies():
    true = np.repeat([0, 1, 2], [70, 20, 10])
    share = np.tile([0.7, 0.2, 0.1], (100, 1))
    found = measure(evaluated(true, share))
    assert found["base_rate"]["log_loss"] == pytest.approx(log_loss(true, share))
    assert found["log_loss"] == pytest.approx(found["base_rate"]["log_loss"])
    assert found["brier"] == pytest.approx(found["base_rate"]["brier"])
    assert found["base_rate"]["log_loss"] < np.log(3) - 0.2  # as it was said before


@pytest.mark.parametrize(("share", "rarer"), [(0.1, "c1"), (0.9, "c0"), (0.5, "c1")])
def test_class_to_be_found_is_the_rarer_one(share, rarer):
    rows = two_classes(40, share)
    assert measure(rows)["positive"] == rarer
    assert measure(rows, 0)["positive"] == "c0"


def corners(path, chart):
    """Corners of a line, as shares: M x y, then V y, H x or L x y."""
    found = re.findall(r"([MVHL])([\d.]+)(?: ([\d.]+))?", path)
    x = y = 0.0
    places = []
    for kind, a, b in found:
        x, y = (float(a), float(b)) if b else (x, float(a)) if kind == "V" else (float(a), y)
        places.append((x, y))
    places = np.array(places)
    width, height = chart.right - chart.left, chart.bottom - chart.top
    return (places - [chart.left, chart.bottom]) / [width, -height]


@pytest.mark.parametrize(("n", "share"), [(60, 0.3), (4000, 0.005), (4000, 0.4)])
def test_precision_recall_is_a_step_curve_through_the_operating_point(n, share):
    rows = two_classes(n, share)
    found = measure(rows)
    roc, chart = binary_charts(rows, found)
    line = next(line for line in chart.lines if line["kind"] == "curve")
    places = corners(line["path"], chart)
    moves = np.diff(places, axis=0)
    assert np.all(np.abs(moves).min(axis=1) < 1e-9)  # level or upright, no slope between points
    area = np.sum(moves[:, 0] * places[1:, 1])
    expected = average_precision_score(rows.true, rows.proba[:, 1])
    assert area == pytest.approx(expected, abs=0.005)  # one unit of the picture is 0.003
    (dot,) = chart.dots
    dot = (np.array([dot["x"], dot["y"]]) - [chart.left, chart.bottom]) / [
        chart.right - chart.left, chart.top - chart.bottom,
    ]  # fmt: skip
    assert distance(dot, places) < 0.005
    slopes = places[:: max(1, len(places) // 8)]  # control: a curve of slopes misses it
    assert n > 60 or distance(dot, slopes) > 0.005
    assert len(line["path"]) < 40_000
    assert len(roc.dots) == 1


def distance(point, places):
    """From a point to the nearest of the straight pieces between places."""
    a, b = places[:-1], places[1:]
    along = np.sum((point - a) * (b - a), axis=1) / np.maximum(np.sum((b - a) ** 2, axis=1), 1e-12)
    nearest = a + np.clip(along, 0, 1)[:, None] * (b - a)
    return np.sqrt(np.min(np.sum((point - nearest) ** 2, axis=1)))


def test_worst_pairs_come_first_and_the_rest_is_folded(tmp_path):
    rng = np.random.default_rng(0)
    n_classes = 25
    true = rng.integers(n_classes, size=800)
    taken = np.where(rng.random(800) < 0.4, rng.integers(n_classes, size=800), true)
    taken[true == 3] = 7
    rows = evaluated(true, 0.5 * np.eye(n_classes)[taken] + 0.5 / n_classes)
    data = tmp_path / "d.csv"
    data.write_text("x\n" + "1\n" * 800)
    write_report(
        tmp_path / "r.html", rows, measure(rows), table=read_table(data), file="d.csv", about={},
        trained={"softness": 0.1}, cut_short="training ended early", notes=[], shows_rows=False,
    )  # fmt: skip
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Training ended early" in Page(html).text
    text, cell = Page(html).text, r"<t[dh][^>]*>(?:<bdi>)?([\w.%]+)(?:</bdi>)?</t[dh]>"
    pairs = re.findall(rf"<tr>{cell * 4}</tr>", html.split("Class by class")[0])
    counts = [int(n) for _, _, n, _ in pairs]
    assert pairs[0][:2] == ("c3", "c7")
    assert pairs[0][3] == "100.0%"
    assert counts == sorted(counts, reverse=True)
    n_pairs = len(set(zip(true[true != taken], taken[true != taken], strict=True)))
    assert len(pairs) == n_pairs
    assert f"The other {n_pairs - 10} pairs" in text
    assert "The other 15 classes" in text
    assert f"{counts[0]} of the rows of ‘c3’ are labelled ‘c7’" in text


def test_widths_say_which_columns_count():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) * [1, 1, 10, 1]
    y = X[:, 0] > 0
    settings = {"bias": 1.0, "softness": 0.1, "n_draws": 4, "inference": "perceptron"}
    clf = BayesPointClassifier(gamma=[1.0, 0.01, 1e-4, 0.01], random_state=0, **settings)
    found = columns_by_width(clf.fit(X, y), None)
    variance = np.array([1.0, 0.01, 1e-4, 0.01]) * clf.support_vectors_.var(axis=0)
    assert found[0].name == "x0"
    assert found[0].mean == pytest.approx(variance[0] / variance.sum())
    clf.set_params(gamma=[1.0, 0.01, 0.01, 0.01], feature_groups=[0, "text", 2, "text"])
    grouped = {c.name: c.mean for c in columns_by_width(clf.fit(X, y), None)}
    assert set(grouped) == {"x0", "x2", "text"}
    assert sum(grouped.values()) == pytest.approx(1)
    assert columns_by_width(clf.set_params(gamma=1.0, feature_groups=None).fit(X, y), None) == []


def test_reader_that_went_away_loses_no_page(labelled, tmp_path):
    """As ``| true``: standard output is closed before the first note is printed."""
    known = part(labelled / "two_train.csv", tmp_path / "d.csv", lambda rows: rows[:20])
    reading, writing = os.pipe()
    os.close(reading)
    code = "import sys; from bayespoint.cli.app import app; app(sys.argv[1:])"
    command = ["evaluate", known, "--model", labelled / "two.bpm", "--target", "kind"]
    with os.fdopen(writing, "w") as stream:
        result = run_process(code, *command, "--report", tmp_path / "r.html", stdout=stream)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "in the training data as well" in (tmp_path / "r.html").read_text(encoding="utf-8")
