"""Confusions with rejected cases, and cost against rejection: what is drawn, by hand."""

import numpy as np
import pytest
from helpers.told import Told, two_classes
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import RejectingClassifier, RiskCoverageDisplay
from bayespoint.displays import ConfusionDisplay, CostRejectionDisplay

COSTS = [[0.0, 1.0, 0.5], [4.0, 0.0, 0.5]]
P = np.array([0.05, 0.15, 0.3, 0.6, 0.9])
X, Y = two_classes(P), np.array([0, 1, 0, 0, 1])


@pytest.fixture
def clf():
    return RejectingClassifier(Told(), costs=COSTS, cv="prefit").fit(X, Y)


def test_rejected_cases_have_a_column(clf):
    shown = ConfusionDisplay.from_estimator(clf, X, Y, labels=["no", "yes"])
    assert_array_equal(shown.matrix, [[1, 1], [0, 1]])
    assert_array_equal(shown.rejected, [1, 1])
    assert [text.get_text() for text in shown.text_] == list("111011")
    names = [label.get_text() for label in shown.ax_.get_xticklabels()]
    assert names == ["no", "yes", "rejected"]


def test_without_rejection_there_is_none():
    shown = ConfusionDisplay.from_estimator(Told(), X, Y)
    assert shown.rejected is None
    assert_array_equal(shown.matrix, [[2, 1], [1, 1]])
    all_rejected = ConfusionDisplay.from_predictions(Y, Y, rejected=np.ones(5, bool))
    assert_array_equal(all_rejected.matrix, 0)
    with pytest.raises(ValueError, match="y has the label"):
        ConfusionDisplay.from_predictions([7], [0], classes=[0, 1])


def test_cost_falls_to_the_dot_and_rises_again(clf):
    shown = CostRejectionDisplay.from_estimator(clf, X, Y)
    assert shown.chosen == (0.4, pytest.approx((0 + 0.5 + 0.5 + 1 + 0) / 5))
    # By what deciding saves: 0.15 costs 4 for 0, 0.3 costs 1 for 1.
    assert_allclose(shown.rejected, [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert shown.mean_cost[2] == pytest.approx(shown.chosen[1])
    assert_allclose(shown.mean_cost[[0, -1]], [(4 + 1 + 1) / 5, 0.5])


def test_errors_and_their_cost_without_a_matrix():
    rejecting = RejectingClassifier(Told(), coverage=0.6, cv="prefit", reject_cost=0.2).fit(X, Y)
    shown = CostRejectionDisplay.from_estimator(rejecting, X, Y)
    assert shown.mean_cost[0] == pytest.approx(1 - Told().score(X, Y))
    assert shown.mean_cost[-1] == pytest.approx(0.2)
    assert shown.chosen[0] == pytest.approx(0.4)


def test_costs_that_are_not_known_are_refused(clf):
    with pytest.raises(TypeError, match="takes a RejectingClassifier, which knows costs; got Told"):
        CostRejectionDisplay.from_estimator(Told(), X, Y)
    clf.set_params(costs=[[0, 1], [4, 0]]).fit(X, Y)
    with pytest.raises(ValueError, match="costs has no column for rejecting"):
        CostRejectionDisplay.from_estimator(clf, X, Y)


def test_risk_and_coverage_of_decisions_by_costs(clf):
    shown = RiskCoverageDisplay.from_estimator(clf, X, Y)
    assert shown.risk[-1] == pytest.approx(3 / 5)  # of the labels of least cost
