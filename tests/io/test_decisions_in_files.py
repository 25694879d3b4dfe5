"""Model files of costs, limits per class and prediction sets: equal to the bit, or refused."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from helpers.models import FIXED, assert_same, data

from bayespoint import BayesPointClassifier, PredictionSetClassifier, RejectingClassifier
from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError

COSTS = [[0, 1, 2, 0.5], [3, 0, 1, 0.5], [1, 1, 0, 0.5]]


def again(clf, path):
    model_file.save(path, clf)
    return model_file.load(path).classifier


@pytest.mark.parametrize(
    "params",
    [
        {"costs": COSTS}, {"costs": np.array(COSTS)[:, :3]},
        {"costs": pd.DataFrame(COSTS, columns=[0, 1, 2, "reject"])},
        {"min_precision": {0: 0.3}, "min_recall": {2: 0.3}},
    ],
    ids=["list", "array", "frame", "limits"],
)  # fmt: skip
def test_costs_and_limits(params, tmp_path):
    X, y = data(3)
    clf = RejectingClassifier(BayesPointClassifier(**FIXED), cv=2, **params).fit(X, y)
    found = again(clf, tmp_path / "m.bpm")
    assert_same(clf.predict(X), found.predict(X))
    assert_same(clf.confidence_scores(X), found.confidence_scores(X))
    assert_same(clf.threshold_, found.threshold_)
    if "costs" in params:
        assert_same(clf.expected_cost(X), found.expected_cost(X))
        assert found.fit(X, y).costs_.tolist() == clf.costs_.tolist()  # parameters are kept, too


@pytest.mark.parametrize("params", [{}, {"adaptive": True, "per_class": True}])
@pytest.mark.filterwarnings("ignore:confidence_level")
def test_sets(params, tmp_path):
    X, y = data(3)
    clf = PredictionSetClassifier(BayesPointClassifier(**FIXED), cv=2, **params).fit(X, y)
    found = again(clf, tmp_path / "m.bpm")
    assert_same(clf.predict_set(X), found.predict_set(X))
    assert (found.coverage_, found.mean_size_) == (clf.coverage_, clf.mean_size_)
    told = model_file.describe(tmp_path / "m.bpm")["sets"]
    assert told["confidence_level"] == 0.9
    assert told["coverage_"] == clf.coverage_


def test_a_function_of_costs_is_refused(tmp_path):
    X, y = data(3)
    clf = RejectingClassifier(
        BayesPointClassifier(**FIXED), costs=lambda X: np.tile(COSTS, (len(X), 1, 1))
    ).fit(X, y)
    with pytest.raises(ModelFileError, match="costs= is a function, which would have to run"):
        model_file.save(tmp_path / "m.bpm", clf)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"costs_": np.full((3, 4), np.nan)}, "costs_ has values that are not finite"),
        ({"costs_": np.zeros((3, 5))}, r"costs_ has shape \(3, 5\)"),
        ({"costs_": None}, "costs_ is there without costs, or costs without it"),
        ({"threshold_": 0.3}, "threshold_ is 0.3, not 0.0"),
        ({"threshold_": np.zeros(3)}, "threshold_ is"),
        ({"confidence_": "gap"}, "confidence_ is 'gap'"),
    ],
)
def test_what_does_not_fit_together_is_refused(changed, message, tmp_path):
    X, y = data(3)
    clf = RejectingClassifier(BayesPointClassifier(**FIXED), costs=COSTS).fit(X, y)
    odd = copy(clf)
    vars(odd).update(changed)
    with pytest.raises(ModelFileError, match=message):
        model_file.save(tmp_path / "m.bpm", odd)


def test_thresholds_that_are_no_numbers_are_refused(tmp_path):
    X, y = data(3)
    clf = PredictionSetClassifier(BayesPointClassifier(**FIXED), cv=2).fit(X, y)
    clf.thresholds_[1] = np.nan
    with pytest.raises(ModelFileError, match="a threshold is NaN"):
        model_file.save(tmp_path / "m.bpm", clf)
