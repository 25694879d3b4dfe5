"""``evaluate``: its numbers are those of scikit-learn and of hands, also on odd data."""

import numpy as np
import pytest
from helpers.cli import numbers, part, reported, well
from scipy.stats import beta
from sklearn import metrics

from bayespoint.cli.report import Evaluated, measure
from bayespoint.io.model_file import load
from bayespoint.io.tables import read_table


def by_hand(data, model):
    """Classifier, inputs, labels, labels predicted and probabilities, from Python."""
    found = load(model)
    table = read_table(data, text=["kind"])
    X = found.encoder.transform(table.without(["kind"]))
    base = getattr(found.classifier, "estimator_", found.classifier)
    true = np.array(table.column("kind").tolist())
    return found.classifier, X, true, base.predict(X), base.predict_proba(X)


@pytest.mark.parametrize("name", ["two", "three"])
def test_numbers_are_those_of_scikit_learn(labelled, name):
    files = labelled / f"{name}.csv", labelled / f"{name}.bpm"
    found = numbers(*files)
    classifier, _, true, labels, proba = by_hand(*files)
    classes = classifier.classes_.tolist()
    n_wrong, n = int(np.sum(true != labels)), len(true)
    assert 0 < n_wrong < n
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
        assert second.sum() < len(second) / 2  # the rarer one
        assert found["brier"] == pytest.approx(metrics.brier_score_loss(second, proba[:, 1]))
        assert found["auc"] == pytest.approx(metrics.roc_auc_score(second, proba[:, 1]))
        assert found["average_precision"] == pytest.approx(
            metrics.average_precision_score(second, proba[:, 1])
        )
    else:
        hot = true[:, None] == np.array(classes)
        assert found["brier"] == pytest.approx(np.mean(np.sum((proba - hot) ** 2, axis=1)))
        assert found["auc"] is None


def test_another_positive_class(labelled):
    files = labelled / "two.csv", labelled / "two.bpm"
    found = numbers(*files, "--positive", "healthy")
    _, _, true, _, proba = by_hand(*files)
    expected = metrics.average_precision_score(true == "healthy", proba[:, 0])
    assert found["average_precision"] == pytest.approx(expected)


def test_rejection_is_counted_apart(labelled):
    files = labelled / "three.csv", labelled / "three_some.bpm"
    found = numbers(*files)
    classifier, X, true, labels, _ = by_hand(*files)
    decided = ~classifier.reject(X)
    assert 0 < decided.sum() < len(true)
    assert found["n_decided"] == decided.sum()
    assert found["decided_error"] == pytest.approx(np.mean((true != labels)[decided]))
    assert np.sum(found["confusion"]["matrix"]) == decided.sum()
    assert np.sum(found["confusion"]["rejected"]) == (~decided).sum()
    assert found["rejects"]
    assert not numbers(labelled / "three.csv", labelled / "three.bpm")["rejects"]


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


def test_class_missing_in_the_file(labelled, tmp_path):
    some = part(
        labelled / "three.csv", tmp_path / "part.csv",
        lambda rows: [row for row in rows if row[-1] != "i 1"],
    )  # fmt: skip
    entry = numbers(some, labelled / "three.bpm")["classes"][1]
    assert entry["support"] == 0
    assert entry["recall"] is None
    part(labelled / "two.csv", some, lambda rows: [row for row in rows if row[-1] == "sick"])
    assert numbers(some, labelled / "two.bpm")["auc"] is None
    reported(some, labelled / "two.bpm", tmp_path / "r.html")


def test_labels_never_seen(labelled, tmp_path):
    def renamed(rows):
        return [[*row[:-1], "other" if i < 3 else row[-1]] for i, row in enumerate(rows)]

    model = labelled / "three.bpm"
    some = part(labelled / "three.csv", tmp_path / "part.csv", renamed)
    found = numbers(some, model)
    before = numbers(labelled / "three.csv", model)
    assert found["n_unknown"] == 3
    assert found["n_wrong"] == before["n_wrong"] + 3
    assert found["confusion"]["labels"][-1] is None
    assert sum(found["confusion"]["matrix"][-1]) == 3
    assert any("not trained on ('other')" in note for note in found["notes"])
    page, _, _ = reported(some, model, tmp_path / "r.html")
    assert "it was not trained on this label: 3 rows" in page.text


def test_rows_of_the_training_are_noticed(labelled):
    found = numbers(labelled / "three_train.csv", labelled / "three.bpm")
    assert any("are in the training data as well" in note for note in found["notes"])
    others = numbers(labelled / "two.csv", labelled / "two.bpm")["notes"]
    assert not any("training data" in note for note in others)


def test_standard_input_and_quiet(labelled):
    text = (labelled / "three.csv").read_text(encoding="utf-8")
    result = well("evaluate", "-", "--model", labelled / "three.bpm", "--quiet", input=text)
    assert result.output == ""
