"""Odd labels, rows and numbers given to pictures: an answer, or an error with the argument."""

import numpy as np
import pytest
from helpers.classifiers import FIXED
from helpers.odd_inputs import ANSWER, LABELS, ROWS, X, Y, about, holds, masked

from bayespoint import BayesPointClassifier
from bayespoint.displays import (
    BoundaryDisplay,
    ConfusionDisplay,
    CostRejectionDisplay,
    FeatureImportanceDisplay,
    PredictiveDisplay,
    RiskCoverageDisplay,
)

SURE = np.linspace(0.5, 1.0, 6)


@pytest.mark.usefixtures("plt")
@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    y, message = LABELS[name]
    drawn = [
        ("y_true", lambda: RiskCoverageDisplay.from_predictions(y, Y, SURE)),
        ("y_pred", lambda: RiskCoverageDisplay.from_predictions(Y, y, SURE)),
        ("y_true", lambda: ConfusionDisplay.from_predictions(y, Y)),
        ("y_pred", lambda: ConfusionDisplay.from_predictions(Y, y)),
    ]  # fmt: skip
    if message != ANSWER:
        drawn += [("classes", lambda: ConfusionDisplay.from_predictions(Y, Y, classes=y))]
    for argument, draw in drawn:
        holds(draw, about(argument, message))


@pytest.mark.usefixtures("plt")
def test_rows():
    clf = BayesPointClassifier(inference="ep", n_draws=3, random_state=0, **FIXED).fit(X, Y)

    def draw(rows, y=Y):
        BoundaryDisplay.from_estimator(clf, rows, y, n_draws=2, grid_resolution=3)

    for name in ("masked", "dates", "dates alone", "complex", "a gap", "infinity", "objects"):
        holds(lambda name=name: draw(ROWS[name][0]), ROWS[name][1])
    for y, message in LABELS.values():
        holds(lambda y=y: draw(X, y), message)


NUMBERS = {
    "rejected": lambda v: CostRejectionDisplay(rejected=v, mean_cost=[1, 2]),
    "mean_cost": lambda v: CostRejectionDisplay(rejected=[0, 1], mean_cost=v),
    "importances": lambda v: FeatureImportanceDisplay(
        names=["a", "b"], importances=v, errors=[1, 1]
    ),
    "log_predictive": lambda v: PredictiveDisplay(rows=[5, 5], log_predictive=v),
    "coverage": lambda v: RiskCoverageDisplay(coverage=v, risk=[0, 1]),
    "risk": lambda v: RiskCoverageDisplay(coverage=[0.5, 1], risk=v),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name):
    make = NUMBERS[name]
    make(np.array([0, 0.0], dtype=object))  # a control
    for odd, words in (
        (masked(np.array([0.0, 1.0]), 1), f"{name} is a masked array"),
        (np.array([0.0, 1j]), f"{name} must hold real numbers"), (["a", "b"], f"{name} must hold"),
    ):  # fmt: skip
        holds(lambda odd=odd: make(odd), words)
