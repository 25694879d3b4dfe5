"""``cross-validate``: means and errors over folds, with encoders that see training rows only."""

import json

import numpy as np
import pytest
from helpers.cli import FAST, fails, part, well, write

from bayespoint.io.encoder import TableEncoder


def crossed(data, *options):
    return well("cross-validate", data, "--target", "kind", *FAST, *options)


def test_cross_validate_as_by_hand(labelled, monkeypatch):
    seen = []
    fit = TableEncoder.fit

    def watched(self, table, **rest):
        seen.append(table.n_rows)
        return fit(self, table, **rest)

    monkeypatch.setattr(TableEncoder, "fit", watched)
    options = ["--folds", "3", "--svc", "--json"]
    found = json.loads(crossed(labelled / "two_train.csv", *options).stdout)
    assert seen == [60, 60, 60]  # encoders see training rows only
    folds = found["each_fold"]["bayespoint"]
    errors = [fold["error"] for fold in folds]
    summary = found["summary"]["bayespoint"]
    assert summary["error"]["mean"] == pytest.approx(np.mean(errors))
    expected = np.sqrt((1 / 3 + 1 / 2) * np.var(errors, ddof=1))
    assert summary["error"]["standard_error"] == pytest.approx(expected)
    assert all(0.8 < fold["auc"] <= 1 for fold in folds)
    guess = found["summary"]["most frequent class"]
    assert guess["error"]["mean"] == pytest.approx(min(found["classes"].values()) / 90, abs=0.01)
    assert guess["auc"]["mean"] == pytest.approx(0.5)
    assert summary["error"]["mean"] < guess["error"]["mean"]
    assert summary["log_loss"]["mean"] < guess["log_loss"]["mean"]
    assert found["summary"]["SVC"]["error"]["mean"] < 0.2


def test_cross_validate_says_what_came_out(labelled, tmp_path, clock):
    clock.step = 0.01  # many fits, each cut short
    few = part(
        labelled / "two_train.csv", tmp_path / "few.csv",
        lambda rows: [row for kind in ("sick", "healthy")
                      for row in [row for row in rows if row[-1] == kind][:10]],
    )  # fmt: skip
    said = crossed(few, "--folds", "2", "--repeats", "2", "--max-time", 1).output
    for words in ("20 rows of few.csv, 2 folds, 2 times", "log loss", "±"):
        assert words in said
    assert "error, decided" not in said
    assert "SVC" not in said
    said = crossed(few, "--folds", "2", "--coverage", "0.7", "--max-time", 1).output
    assert "20 rows of few.csv, 2 folds." in said
    assert "error, decided" in said


def test_a_fold_that_fails_is_named(tmp_path):
    """The only column is constant without one row, which is in one of the folds."""
    rows = [[int(i == 7), "ab"[i % 2]] for i in range(12)]
    data = write(tmp_path / "d.csv", ["x", "kind"], rows)
    said = fails(1, "cross-validate", data, "--target", "kind", "--folds", 2, *FAST)
    assert "fold 1: " in said or "fold 2: " in said
    assert "no column is left" in said
