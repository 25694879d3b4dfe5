"""The commands evaluate, cross-validate and diagnose: numbers, the report, and how they fail."""

import csv
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.cli import FAST, fails, well, write
from matplotlib.axes import Axes
from scipy.stats import beta
from sklearn import metrics
from sklearn.datasets import load_breast_cancer, load_iris

from bayespoint import BayesPointClassifier, OnionClassifier
from bayespoint.cli import cross_validate, deciding
from bayespoint.cli.report import Evaluated, measure
from bayespoint.cli.verdicts import verdicts_on
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import load, save
from bayespoint.io.tables import read_table


def rows_of(X, labels, columns=6):
    return [[*x[:columns], label] for x, label in zip(X.tolist(), labels, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two and three classes, models with and without rejection."""
    folder = tmp_path_factory.mktemp("evaluate")
    X, y = load_breast_cancer(return_X_y=True)
    names = [*(f"column {i}" for i in range(6)), "kind"]
    rows = rows_of(X, np.array(["sick", "healthy"])[y])
    write(folder / "two_train.csv", names, rows[:150])
    write(folder / "two.csv", names, rows[150:350])
    X, y = load_iris(return_X_y=True)
    names = ["a", "b", "c", "d", "kind"]
    rows = rows_of(X, np.array(["i 0", "i 1", "i 2"])[y])
    write(folder / "three_train.csv", names, rows[::2])
    write(folder / "three.csv", names, rows[1::2])
    for name in ("two", "three"):
        train = ["train", folder / f"{name}_train.csv", "--target", "kind", *FAST]
        well(*train, "--model", folder / f"{name}.bpm")
        well(*train, "--model", folder / f"{name}_some.bpm", "--coverage", "0.8")
    return folder


def numbers(folder, data, model, *options):
    command = ["evaluate", folder / data, "--model", folder / model, "--target", "kind", "--json"]
    return json.loads(well(*command, *options).stdout)


def by_hand(folder, data, model):
    """Labels, labels predicted and probabilities, from Python."""
    found = load(folder / model)
    table = read_table(folder / data, text=["kind"])
    X = found.encoder.transform(table.without(["kind"]))
    base = getattr(found.classifier, "estimator_", found.classifier)
    true = np.array(table.column("kind").tolist())
    return found.classifier, X, true, base.predict(X), base.predict_proba(X)


# ---------------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", ["two", "three"])
def test_numbers_are_those_of_scikit_learn(folder, name):
    found = numbers(folder, f"{name}.csv", f"{name}.bpm")
    classifier, _, true, labels, proba = by_hand(folder, f"{name}.csv", f"{name}.bpm")
    classes = classifier.classes_.tolist()
    n_wrong, n = int(np.sum(true != labels)), len(true)
    assert found["n_wrong"] == n_wrong
    assert found["error"] == pytest.approx(1 - metrics.accuracy_score(true, labels))
    low = beta.ppf(0.025, n_wrong, n - n_wrong + 1)
    high = beta.ppf(0.975, n_wrong + 1, n - n_wrong)
    assert found["error_interval"] == pytest.approx([low, high])
    assert found["log_loss"] == pytest.approx(metrics.log_loss(true, proba, labels=classes))
    assert found["confusion"]["matrix"] == metrics.confusion_matrix(true, labels).tolist()
    report = metrics.classification_report(true, labels, output_dict=True)
    for entry in found["classes"]:
        expected = report[entry["label"]]
        assert entry["support"] == expected["support"]
        for ours, theirs in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
            assert entry[ours] == pytest.approx(expected[theirs])
    if name == "two":
        second = true == classes[1]
        assert found["positive"] == classes[1]
        assert found["brier"] == pytest.approx(metrics.brier_score_loss(second, proba[:, 1]))
        assert found["auc"] == pytest.approx(metrics.roc_auc_score(second, proba[:, 1]))
        assert found["average_precision"] == pytest.approx(
            metrics.average_precision_score(second, proba[:, 1])
        )
    else:
        hot = true[:, None] == np.array(classes)
        assert found["brier"] == pytest.approx(np.mean(np.sum((proba - hot) ** 2, axis=1)))
        assert found["auc"] is None


def test_another_positive_class(folder):
    found = numbers(folder, "two.csv", "two.bpm", "--positive", "healthy")
    _, _, true, _, proba = by_hand(folder, "two.csv", "two.bpm")
    expected = metrics.average_precision_score(true == "healthy", proba[:, 0])
    assert found["average_precision"] == pytest.approx(expected)
    evaluation = ["evaluate", folder / "two.csv", "--model", folder / "two.bpm"]
    fails(2, *evaluation, "--positive", "x", words=["--positive 'x'", "'healthy', 'sick'"])
    evaluation = ["evaluate", folder / "three.csv", "--model", folder / "three.bpm"]
    fails(2, *evaluation, "--positive", "i 0", words="has 3")


def test_rejection_is_counted_apart(folder):
    found = numbers(folder, "three.csv", "three_some.bpm")
    classifier, X, true, labels, _ = by_hand(folder, "three.csv", "three_some.bpm")
    decided = ~classifier.reject(X)
    assert 0 < decided.sum() < len(true)
    assert found["n_decided"] == decided.sum()
    assert found["decided_error"] == pytest.approx(np.mean((true != labels)[decided]))
    assert np.sum(found["confusion"]["matrix"]) == decided.sum()
    assert np.sum(found["confusion"]["rejected"]) == (~decided).sum()
    assert found["rejects"]
    assert not numbers(folder, "three.csv", "three.bpm")["rejects"]


def test_calibration_by_hand():
    proba = np.array([[0.95, 0.05], [0.93, 0.07], [0.35, 0.65], [0.39, 0.61], [1.0, 0.0]])
    rows = Evaluated(
        ["a", "b"], np.array([0, 1, 1, 0, 0]), np.array([0, 0, 1, 1, 0]), np.zeros(5, bool), proba,
        proba.max(axis=1), False,
    )  # fmt: skip
    found = measure(rows)
    assert [b["n"] for b in found["calibration"]] == [2, 3]
    gaps = [abs(0.5 - 0.63), abs(2 / 3 - (0.95 + 0.93 + 1.0) / 3)]
    assert found["ece"] == pytest.approx((2 * gaps[0] + 3 * gaps[1]) / 5)
    assert found["risk_at_coverage"][0] == {"coverage": 1.0, "risk": 0.4}


# ---------------------------------------------------------------------- the report


class Page(HTMLParser):
    """Tags, attributes and text of a page; well-formed or an assertion fails."""

    VOID = ("meta", "line", "rect", "path", "circle", "br")

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def reported(folder, data, model, *options):
    """Page, its HTML and what the command said."""
    path = folder / "report.html"
    result = well("evaluate", folder / data, "--model", folder / model, "--target", "kind",
                  "--report", path, *options)  # fmt: skip
    html = path.read_text(encoding="utf-8")
    return Page(html), html, result.output


def check_offline(page, html):
    assert "script" not in page.tags
    assert not {"link", "img", "iframe", "object", "a", "form", "base"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "href", "srcset", "xlink:href", "action"}
    assert not any(name.startswith("on") for name in names)
    for outside in ("http://", "https://", "src=", "url(", "@import"):
        assert outside not in html


@pytest.mark.parametrize("name", ["two", "two_some", "three", "three_some"])
def test_report_shows_all_and_needs_no_network(folder, name):
    kind = name.split("_")[0]
    page, html, said = reported(folder, f"{kind}.csv", f"{name}.bpm")
    check_offline(page, html)
    found = numbers(folder, f"{kind}.csv", f"{name}.bpm")
    flat = " ".join(page.text.split())
    for words in (
        f"error {found['error']:.1%}", "Clopper-Pearson", "Which classes are mistaken",
        "Class by class", "What rejecting", "expected calibration error", "Most doubtful rows",
        "How the model was trained", f"{kind}_train.csv", "perceptron", f"{found['brier']:.4f}",
        f"line {found['doubtful'][0]['line']}",
    ):  # fmt: skip
        assert words in flat
    assert ("ROC" in flat) == (kind == "two")
    assert ("Error, decided" in flat) == ("some" in name)
    assert html.count("<svg") == (5 if kind == "two" else 3)
    assert 'name="viewport"' in html
    assert "prefers-color-scheme: dark" in html
    assert f"{found['error']:.2%}" in said
    assert len(html) < 200_000
    assert not list(folder.glob(".*.tmp"))


def test_no_rows_leaves_no_cells(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[x, f"cell{i % 3}secret", "ab"[int(x > 0)]] for i, x in enumerate(rng.normal(size=60))]
    write(tmp_path / "t.csv", ["x", "note", "kind"], rows)
    rows[5][1] = "newsecret"
    rows[6][2] = "strangesecret"
    write(tmp_path / "e.csv", ["x", "note", "kind"], rows)
    well("train", tmp_path / "t.csv", "--target", "kind", "--model", tmp_path / "m.bpm", *FAST)
    page, html, said = reported(tmp_path, "e.csv", "m.bpm")
    assert "newsecret" in html
    assert "cell1secret" in html
    assert "in the training data as well" in page.text
    page, html, said = reported(tmp_path, "e.csv", "m.bpm", "--no-rows")
    assert "secret" not in html
    assert "Most doubtful" not in html
    assert "are left out of this report" in page.text
    assert "newsecret" in said  # the terminal tells still
    assert "doubtful" not in numbers(tmp_path, "e.csv", "m.bpm", "--no-rows")
    assert "secret" not in json.dumps(numbers(tmp_path, "e.csv", "m.bpm", "--no-rows"))


NASTY = [
    "<script>alert(1)</script>", '"&quot;', "${7*7}", "{{7*7}}", "\u202eabc", "\x1b[31mred",
    "'><svg onload=alert(3)>", "n" * 300,
]  # fmt: skip
NASTY_LABELS = [
    "<img sr\u200bc=x onerror=alert(2)>",
    "$\\frac{1}{2$ \x1b[2J",
    "{% raw %}" + "W" * 150,
]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_hostile_text_is_shown_and_not_run(tmp_path, n_classes):
    rng = np.random.default_rng(0)
    target = "</title><script>"
    rows = []
    for i in range(60):
        label = i % n_classes
        text = NASTY[(i + label) % len(NASTY)] if i else "A<" * 5000
        rows.append([*(rng.normal(size=7) + label), text, NASTY_LABELS[label]])
    write(tmp_path / "<u>t&.csv", [*NASTY, target], rows)
    command = [tmp_path / "<u>t&.csv", "--target", target, "--model", tmp_path / "m.bpm"]
    well("train", *command, *FAST, "--coverage", "0.7")
    result = well("evaluate", *command, "--report", tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(html)
    assert not {"script", "img", "u", "i"} & set(page.tags)
    assert page.tags.count("svg") == (5 if n_classes == 2 else 3)
    assert not any(name.startswith("on") or name == "src" for name, _ in page.attributes)
    assert "<script>alert(1)</script>" in page.text
    assert "{{7*7}}" in page.text
    assert "49" not in re.findall(r"[\w.]+", page.text.split("Most doubtful")[1][:600])
    for character in ("\u202e", "\x1b", "\u200b"):
        assert character not in html
        assert character not in result.output
    assert "A<" * 100 not in page.text
    assert "W" * 60 not in html
    said = well("diagnose", "--model", tmp_path / "m.bpm", "--plots", tmp_path / "p.svg").output
    assert "\x1b[2J" not in said
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_what_a_model_says_about_itself_may_be_anything(folder, tmp_path):
    found = load(folder / "three.bpm")
    about = {
        "file": ["<script>"], "classes": 3, "options": ["x"], "columns": {"a": 1},
        "seconds": "long", "notes": "<script>", "n_rows": None,
        "version": {"<script>": [1, None, True]},
    }  # fmt: skip
    save(tmp_path / "m.bpm", found.classifier, encoder=found.encoder, about=about)
    command = ["evaluate", folder / "three.csv", "--model", tmp_path / "m.bpm"]
    fails(2, *command, words="--target is needed")
    well(*command, "--target", "kind", "--report", tmp_path / "r.html")
    check_offline(Page(text := (tmp_path / "r.html").read_text(encoding="utf-8")), text)


def test_many_classes_are_listed(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[*np.eye(24)[i % 24] + 0.5 * rng.normal(size=24), f"c{i % 24}"] for i in range(120)]
    write(tmp_path / "d.csv", [*(f"x{i}" for i in range(24)), "kind"], rows)
    well("train", tmp_path / "d.csv", "--target", "kind", "--model", tmp_path / "m.bpm", *FAST)
    page, _, said = reported(tmp_path, "d.csv", "m.bpm")
    assert "There are 24 classes; these are the most frequent mistakes" in page.text
    assert "and 12 more classes" in said


# ---------------------------------------------------------------------- odd data


def part(folder, tmp_path, chosen, name="three"):
    """Some rows of a file of two or three classes; the label may be changed by the function."""
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as stream:
        names, *rows = csv.reader(stream)
    return write(tmp_path / "part.csv", names, chosen(rows))


def test_single_row(folder, tmp_path):
    for name, svgs in (("two", 3), ("three", 3)):
        part(folder, tmp_path, lambda rows: rows[:1], name)
        well("evaluate", tmp_path / "part.csv", "--model", folder / f"{name}_some.bpm",
             "--report", tmp_path / "r.html")  # fmt: skip
        html = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert html.count("<svg") == svgs  # no ROC of one class
        assert "1 rows" not in Page(html).text


def test_all_rejected(folder, tmp_path):
    found = load(folder / "three_some.bpm")
    found.classifier.threshold_ = np.inf
    save(tmp_path / "none.bpm", found.classifier, encoder=found.encoder, about=found.about)
    result = well("evaluate", folder / "three.csv", "--model", tmp_path / "none.bpm",
                  "--report", tmp_path / "r.html")  # fmt: skip
    assert "Rejects all of them" in result.output
    assert "rejects all of them" in (tmp_path / "r.html").read_text(encoding="utf-8")
    result = well("evaluate", folder / "three.csv", "--model", tmp_path / "none.bpm", "--json")
    found = json.loads(result.stdout)
    assert found["decided_error"] is None
    assert found["coverage"] == 0
    assert sum(found["confusion"]["rejected"]) == 75


def test_class_missing_in_the_file(folder, tmp_path):
    part(folder, tmp_path, lambda rows: [row for row in rows if row[-1] != "i 1"])
    found = numbers(tmp_path, "part.csv", folder / "three.bpm")
    entry = found["classes"][1]
    assert entry["support"] == 0
    assert entry["recall"] is None
    part(folder, tmp_path, lambda rows: [row for row in rows if row[-1] == "sick"], "two")
    assert numbers(tmp_path, "part.csv", folder / "two.bpm")["auc"] is None
    reported(tmp_path, "part.csv", folder / "two.bpm")


def test_labels_never_seen(folder, tmp_path):
    def renamed(rows):
        return [[*row[:-1], "other" if i < 3 else row[-1]] for i, row in enumerate(rows)]

    part(folder, tmp_path, renamed)
    found = numbers(tmp_path, "part.csv", folder / "three.bpm")
    before = numbers(folder, "three.csv", "three.bpm")
    assert found["n_unknown"] == 3
    assert found["n_wrong"] == before["n_wrong"] + 3
    assert found["confusion"]["labels"][-1] is None
    assert sum(found["confusion"]["matrix"][-1]) == 3
    assert any("not trained on ('other')" in note for note in found["notes"])
    page, _, _ = reported(tmp_path, "part.csv", folder / "three.bpm")
    assert "it was not trained on this label: 3 rows" in page.text
    part(folder, tmp_path, lambda rows: [[*row[:-1], "other"] for row in rows])
    command = ["evaluate", tmp_path / "part.csv", "--model", folder / "three.bpm"]
    fails(1, *command, words=["'other'", "'i 0', 'i 1', 'i 2'", "no row can be right"])


def test_wrong_usage_and_bad_data(folder, tmp_path):
    data, model = folder / "three.csv", folder / "three.bpm"
    command = ["evaluate", data, "--model", model, "--target"]
    fails(2, *command, "knd", words=["--target 'knd'", "mean 'kind'"])
    fails(2, *command, "kind", "--report", tmp_path / "no" / "r.html", words="no folder")
    fails(2, *command, "kind", "--report", data, words="file of the data")
    fails(2, *command, "kind", "--report", model, words="file of the model")
    fails(2, *command, "kind", "--report", tmp_path, words="is a folder")
    if os.path.exists("/dev/null"):
        fails(2, *command, "kind", "--report", "/dev/null", words="not a plain file")
    fails(2, "evaluate", data, "--model", tmp_path / "no.bpm", words="is not a file")
    fails(2, "evaluate", tmp_path / "no.csv", "--model", model)
    fails(1, "evaluate", data, "--model", data)
    part(folder, tmp_path, lambda rows: [[*row[:-1], ""] for row in rows])
    fails(1, "evaluate", tmp_path / "part.csv", "--model", model, words="is missing in 75 rows")
    write(tmp_path / "part.csv", ["a", "b", "kind"], [[1, 2, "i 0"]])
    fails(1, "evaluate", tmp_path / "part.csv", "--model", model, words="'c', 'd'")
    assert not list(tmp_path.glob("*.html"))


def test_standard_input_and_quiet(folder):
    text = (folder / "three.csv").read_text(encoding="utf-8")
    result = well("evaluate", "-", "--model", folder / "three.bpm", "--quiet", input=text)
    assert result.output == ""


def test_rows_of_the_training_are_noticed(folder):
    found = numbers(folder, "three_train.csv", "three.bpm")
    assert any("are in the training data as well" in note for note in found["notes"])
    assert not any("training data" in n for n in numbers(folder, "two.csv", "two.bpm")["notes"])


def test_blocks_change_nothing(folder, monkeypatch):
    whole = numbers(folder, "three.csv", "three_some.bpm")
    monkeypatch.setattr(deciding, "BLOCK_ROWS", 10)
    found = numbers(folder, "three.csv", "three_some.bpm")
    assert found["log_loss"] == pytest.approx(whole["log_loss"])
    assert found["confusion"] == whole["confusion"]


# ---------------------------------------------------------------------- cross-validate


def crossed(folder, name, *options):
    command = ["cross-validate", folder / f"{name}_train.csv", "--target", "kind", *FAST]
    return well(*command, "--folds", "3", *options)


def test_cross_validate_as_by_hand(folder, monkeypatch):
    seen = []
    fit = TableEncoder.fit

    def watched(self, table, *rest):
        seen.append(table.n_rows)
        return fit(self, table, *rest)

    monkeypatch.setattr(TableEncoder, "fit", watched)
    found = json.loads(crossed(folder, "two", "--svc", "--json").stdout)
    assert seen == [100, 100, 100]  # encoders see training rows only
    folds = found["each_fold"]["bayespoint"]
    errors = [fold["error"] for fold in folds]
    summary = found["summary"]["bayespoint"]
    assert summary["error"]["mean"] == pytest.approx(np.mean(errors))
    expected = np.sqrt((1 / 3 + 1 / 2) * np.var(errors, ddof=1))
    assert summary["error"]["standard_error"] == pytest.approx(expected)
    assert all(0.8 < fold["auc"] <= 1 for fold in folds)
    guess = found["summary"]["most frequent class"]
    assert guess["error"]["mean"] == pytest.approx(min(found["classes"].values()) / 150, abs=0.01)
    assert guess["auc"]["mean"] == pytest.approx(0.5)
    assert summary["error"]["mean"] < guess["error"]["mean"]
    assert summary["log_loss"]["mean"] < guess["log_loss"]["mean"]
    assert found["summary"]["SVC"]["error"]["mean"] < 0.2


def test_cross_validate_says_what_came_out(folder):
    said = crossed(folder, "three", "--repeats", "2", "--coverage", "0.8").output
    for words in ("75 rows of three_train.csv, 3 folds, 2 times", "error, decided", "decided", "±"):
        assert words in said
    assert "SVC" not in said
    said = crossed(folder, "three").output
    assert "error, decided" not in said


def test_cross_validate_needs_rows_of_each_class(folder, tmp_path):
    part(folder, tmp_path, lambda rows: [row for row in rows if row[-1] != "i 2"] + rows[-2:])
    command = ["cross-validate", tmp_path / "part.csv", "--target", "kind", *FAST]
    fails(1, *command, words=["'i 2' has 2 rows", "--folds 2"])
    part(folder, tmp_path, lambda rows: [row for row in rows if row[-1] != "i 2"] + rows[-6:])
    fails(1, *command, "--coverage", "0.9", words="need 5 of each class")
    fails(2, *command, "--folds", "1")
    fails(2, *command, "--coverage", "0.9", "--max-risk", "0.1", words="not both")


def test_a_fold_that_fails_is_named(folder, monkeypatch):
    def failing(*_):
        raise ValueError("no luck")

    monkeypatch.setattr(cross_validate, "measure_fold", failing)
    command = ["cross-validate", folder / "three_train.csv", "--target", "kind", *FAST]
    fails(1, *command, words="fold 1: no luck")


# ---------------------------------------------------------------------- diagnose


@pytest.fixture(scope="module")
def models(folder):
    """Classifiers of each inference on part of iris, saved without encoder."""
    X, y = load_iris(return_X_y=True)
    X, y = X[25:125], y[25:125]
    settings = {"gamma": 0.5, "softness": 0.1, "n_draws": 40, "random_state": 0, "n_jobs": 1}
    for inference in ("ep", "billiard", "gibbs"):
        clf = BayesPointClassifier(inference=inference, **settings)
        save(folder / f"{inference}.bpm", clf.fit(X, y))
    two = y < 2
    onion = OnionClassifier(depth=1, n_draws=400, gamma=0.5, random_state=0, n_jobs=1)
    save(folder / "onion.bpm", onion.fit(X[two], y[two]))
    return folder


@pytest.mark.parametrize("inference", ["ep", "billiard", "gibbs", "onion", "three", "three_some"])
def test_diagnose_tells_of_every_inference(models, tmp_path, inference):
    command = ["diagnose", "--model", models / f"{inference}.bpm"]
    found = json.loads(well(*command, "--json").stdout)
    assert found["verdicts"]
    assert len(found["machines"]) == (1 if inference == "onion" else 3)
    names = {"ep": {"sweeps", "converged", "log_evidence"}, "billiard": {"rhat", "ess", "bounces"}}
    for machine in found["machines"]:
        assert names.get(inference, {"angle_error"}) <= set(machine)
    base = load(models / f"{inference}.bpm").classifier
    base = getattr(base, "estimator_", base)
    assert found["n_support"] == len(base.support_)
    if inference == "ep":
        assert found["log_evidence"] == pytest.approx(base.log_evidence_)
    if inference == "billiard":
        expected = base.diagnostics_["rhat"].tolist()
        assert [machine["rhat"] for machine in found["machines"]] == expected
        assert found["run"]["drift"] < 1e-9
    said = well(*command, "--plots", tmp_path / "traces.png").output
    assert (tmp_path / "traces.png").read_bytes()[:4] == b"\x89PNG"
    assert found["verdicts"][0]["words"][:30] in said
    # Draws that are independent have no chains to judge.
    assert ("Draws: " in said) == (inference in ("ep", "three", "three_some"))


def test_the_picture_of_independent_draws_does_not_judge_them(models, tmp_path, monkeypatch):
    titles = []
    real = Axes.set_title

    def set_title(ax, label, *args, **kwargs):
        titles.append(label)
        return real(ax, label, *args, **kwargs)

    monkeypatch.setattr(Axes, "set_title", set_title)
    for name in ("ep", "billiard"):
        titles.clear()
        well("diagnose", "--model", models / f"{name}.bpm", "--plots", tmp_path / "traces.png")
        last = [title for title in titles if title.startswith(("0: ", "1: ", "2: "))]
        assert len(last) == 3
        assert all(("ESS" in title) == (name == "billiard") for title in last)
        assert all(("least sure" in title) == (name == "ep") for title in last)


def test_no_bound_on_a_risk_that_was_not_promised(folder):
    base = ["train", folder / "three.csv", "--target", "kind", "--model", folder / "r.bpm", *FAST]
    for option, told in (("--coverage", False), ("--max-risk", True)):
        found = json.loads(well(*base, option, 0.5, "--json").stdout)
        assert ("risk_bound" in found["trained"]) == told
        assert ("risk_bound" in well("info", folder / "r.bpm").output) == told


def levels(found):
    return [level for level, _ in verdicts_on(found)]


def test_verdicts_follow_the_numbers():
    machine = {"class": "a", "rhat": 1.0, "ess": 200.0, "angle_error": 0.1, "bounces": 1000}
    run_ = {"drift": 1e-12, "restarts": 0}
    good = {"inference": "billiard", "machines": [machine], "run": run_}
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
    site["sweeps"] = None
    assert levels({"inference": "ep", "machines": [site], "run": {}}) == ["watch"]
    drawn = {"class": "a", "violated": 2, "angle_error": 0.1}
    assert levels({"inference": "perceptron", "machines": [drawn], "run": {}}) == ["bad", "fine"]


def test_diagnose_refuses(folder, tmp_path):
    command = ["diagnose", "--model", folder / "three.bpm"]
    fails(2, *command, "--plots", tmp_path / "traces.txt", words=".png, .pdf, .svg")
    fails(2, *command, "--plots", tmp_path / "no" / "traces.png", words="no folder")
    fails(2, "diagnose", "--model", tmp_path / "no.bpm", words="is not a file")
    fails(1, "diagnose", "--model", folder / "three.csv")
