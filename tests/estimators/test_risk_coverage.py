"""Risk-coverage curves, their area and their picture: by hand, with ties and with weights."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import RejectingClassifier
from bayespoint.displays import RiskCoverageDisplay
from bayespoint.estimators.risk import aurc, risk_coverage_curve


@pytest.fixture(scope="module")
def flowers():
    """Two kinds of iris that are hard to tell apart, to train with and new ones."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0, :2], y[y > 0]
    return X[::2], X[1::2], y[::2], y[1::2]


@pytest.fixture
def axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def brute_force_area(errors, confidence):
    """AURC without ties, from its definition, in exact arithmetic."""
    ordered = np.asarray(errors)[np.argsort(-np.asarray(confidence))]
    risks = [Fraction(int(ordered[:k].sum()), k) for k in range(1, len(ordered) + 1)]
    return float(sum(risks) / len(risks))


def test_curve_by_hand():
    # Most confident first: right, wrong, right, wrong.
    coverage, risk, thresholds = risk_coverage_curve(
        ["a", "b", "a", "b"], ["a", "a", "a", "a"], [0.9, 0.1, 0.4, 0.7]
    )
    assert_array_equal(coverage, [0.25, 0.5, 0.75, 1.0])
    assert_allclose(risk, [0, 1 / 2, 1 / 3, 1 / 2], rtol=1e-15)
    assert_array_equal(thresholds, [0.9, 0.7, 0.4, 0.1])


def test_area_by_hand():
    area = aurc(["a", "b", "a", "b"], ["a", "a", "a", "a"], [0.9, 0.1, 0.4, 0.7])
    assert area == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4, rel=1e-15)


def test_ties_are_accepted_together():
    coverage, risk, thresholds = risk_coverage_curve(
        [0, 0, 0, 0, 0], [0, 1, 0, 1, 0], [3, 2, 2, 2, 1]
    )
    assert_allclose(coverage, [1 / 5, 4 / 5, 1], rtol=1e-15)
    assert_allclose(risk, [0, 1 / 2, 2 / 5], rtol=1e-15)
    assert_array_equal(thresholds, [3, 2, 1])
    expected = 1 / 5 * 0 + 3 / 5 * 1 / 2 + 1 / 5 * 2 / 5
    assert aurc([0, 0, 0, 0, 0], [0, 1, 0, 1, 0], [3, 2, 2, 2, 1]) == pytest.approx(expected)


def test_infinite_confidences_are_one_group():
    coverage, risk, _ = risk_coverage_curve([0, 0, 0], [1, 0, 0], [np.inf, np.inf, -np.inf])
    assert_allclose(coverage, [2 / 3, 1], rtol=1e-15)
    assert_allclose(risk, [1 / 2, 1 / 3], rtol=1e-15)


def test_equal_confidences_give_the_error():
    assert aurc([0, 0, 0, 1], [0, 0, 1, 0], np.zeros(4)) == 0.5


@pytest.mark.parametrize("n_errors", [0, 1, 7, 20])
def test_perfect_and_worst_ordering(n_errors):
    n = 20
    errors = np.arange(n) < n_errors
    perfect = sum(max(0, k - (n - n_errors)) / k for k in range(1, n + 1)) / n
    worst = sum(min(k, n_errors) / k for k in range(1, n + 1)) / n
    y_pred = errors.astype(int)
    assert aurc(np.zeros(n), y_pred, np.arange(n)) == pytest.approx(perfect, abs=1e-15)
    assert aurc(np.zeros(n), y_pred, -np.arange(n)) == pytest.approx(worst, abs=1e-15)


def test_area_is_the_mean_risk_of_accepted_prefixes():
    rng = np.random.default_rng(0)
    for _ in range(5):
        errors = rng.random(50) < 0.3
        confidence = rng.permutation(50)
        area = aurc(np.zeros(50), errors.astype(int), confidence)
        assert area == pytest.approx(brute_force_area(errors, confidence), rel=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_order_of_input_does_not_matter_to_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    y_true, y_pred = rng.integers(0, 3, (2, 60))
    confidence = rng.integers(0, 5, 60)
    weight = rng.random(60)
    shuffled = rng.permutation(60)
    for w in (None, weight):
        curve = risk_coverage_curve(y_true, y_pred, confidence, sample_weight=w)
        again = risk_coverage_curve(
            y_true[shuffled],
            y_pred[shuffled],
            confidence[shuffled],
            sample_weight=None if w is None else w[shuffled],
        )
        for one, other in zip(curve, again, strict=True):
            assert_array_equal(one, other)


def test_weights_are_copies_and_have_no_scale():
    rng = np.random.default_rng(0)
    y_true, y_pred = rng.integers(0, 2, (2, 30))
    confidence = rng.integers(0, 8, 30)
    weight = rng.integers(0, 4, 30)
    copied = [np.repeat(a, weight) for a in (y_true, y_pred, confidence)]
    for scale in (1.0, 0.37):
        weighted = risk_coverage_curve(y_true, y_pred, confidence, sample_weight=scale * weight)
        for one, other in zip(weighted, risk_coverage_curve(*copied), strict=True):
            assert_allclose(one, other, rtol=1e-14)
        area = aurc(y_true, y_pred, confidence, sample_weight=scale * weight)
        assert area == pytest.approx(aurc(*copied), rel=1e-14)


def test_bad_curves_are_refused():
    good = {"y_true": [0, 1], "y_pred": [0, 1], "confidence": [0.5, 0.1]}
    cases = [
        ({"confidence": [0.5]}, r"confidence has shape \(1,\) for 2 cases"),
        ({"confidence": [[0.5], [0.1]]}, r"confidence has shape \(2, 1\)"),
        ({"confidence": [0.5, np.nan]}, "confidence is NaN at row 1"),
        ({"y_pred": [0]}, "inconsistent numbers of samples"),
        ({"y_pred": ["0", "1"]}, "both as text or both as numbers"),
        ({"y_pred": np.array([0, None])}, "y_pred contains None, .* RejectingClassifier.decide"),
        ({"sample_weight": [1, -1]}, "sample_weight must be finite and >= 0"),
        ({"sample_weight": [0, 0]}, "sample_weight is zero for every row"),
        ({"sample_weight": [1, np.inf]}, "sample_weight contains NaN or infinity"),
        (
            {"sample_weight": [1]},
            r"sample_weight must hold one weight per row of X, shape \(2,\); got shape \(1,\)",
        ),
    ]
    assert_refused(risk_coverage_curve, cases, **good)


# ---------------------------------------------------------------------- the picture


def test_display_draws_the_area(flowers, axes):
    X, X_test, y, y_test = flowers
    clf = LogisticRegression().fit(X, y)
    display = RiskCoverageDisplay.from_estimator(clf, X_test, y_test, ax=axes)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    assert axes.get_xlabel() == "Coverage (share of cases decided)"
    assert axes.get_ylabel() == "Risk (error among decided cases)"
    x, height = display.line_.get_data()
    area = aurc(y_test, clf.predict(X_test), np.abs(clf.decision_function(X_test)))
    assert np.diff(x) @ height[1:] == pytest.approx(area, rel=1e-12)  # steps hold to their left
    assert display.aurc == pytest.approx(area, rel=1e-12)
    assert axes.get_legend().get_texts()[0].get_text() == f"LogisticRegression (AURC = {area:.2%})"
    assert axes.xaxis.get_major_formatter()(0.25) == "25%"


def test_curves_on_one_picture_differ_in_colour_and_dashes(axes):
    for name in "abc":
        RiskCoverageDisplay.from_predictions([0, 1, 0], [0, 1, 1], [3, 2, 1], ax=axes, name=name)
    lines = axes.get_lines()
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3
    red = RiskCoverageDisplay.from_predictions([0, 1], [0, 1], [2, 1], ax=axes, color="red")
    assert red.line_.get_color() == "red"


def test_a_later_curve_is_not_cut_off(axes):
    for y_pred in ([0, 0, 0, 1], [1, 1, 1, 1]):
        RiskCoverageDisplay.from_predictions([0, 0, 0, 0], y_pred, [4, 3, 2, 1], ax=axes)
    axes.figure.canvas.draw()
    bottom, top = axes.get_ylim()
    assert bottom == 0
    assert top > 1


def test_display_of_a_rejecting_classifier_shows_the_classifier_inside(flowers, axes):
    X, X_test, y, y_test = flowers
    scaler = StandardScaler().fit(X)
    rejecting = RejectingClassifier(SVC(), coverage=0.5, confidence="output")
    pipe = make_pipeline(scaler, rejecting).fit(X, y)
    inside = make_pipeline(scaler, pipe[-1].estimator_)
    one = RiskCoverageDisplay.from_estimator(pipe, X_test, y_test, ax=axes)
    two = RiskCoverageDisplay.from_estimator(inside, X_test, y_test, ax=axes, confidence="output")
    assert_array_equal(one.risk, two.risk)
    assert one.name == two.name == "SVC"


def test_display_makes_a_figure_of_its_own():
    plt = pytest.importorskip("matplotlib.pyplot")
    display = RiskCoverageDisplay.from_predictions([0, 1], [0, 1], [2, 1])
    assert display.figure_.number in plt.get_fignums()
    plt.close(display.figure_)
