"""The reject option: curves by hand, promises by statistics, conformance by scikit-learn."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from helpers.thresholds import FALSE_ALARM_RATE
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, RepeatedKFold, cross_val_score, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayespoint.displays import RiskCoverageDisplay
from bayespoint.estimators.rejection import RejectingClassifier, _binomial_upper_bound, _threshold_for_risk
from bayespoint.estimators.risk import aurc, risk_coverage_curve


class Oracle(ClassifierMixin, BaseEstimator):
    """Fitted from birth: the first column is its confidence, the label is always 1."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict(self, X):
        return np.ones(len(X), dtype=int)

    def predict_proba(self, X):
        best = (1.0 + np.asarray(X)[:, 0]) / 2
        return np.column_stack((1 - best, best))

    def __sklearn_is_fitted__(self):
        return True


class Committee(LogisticRegression):
    """Says who votes how by `sample_proba`, in the manner of BayesPointClassifier."""

    def sample_proba(self, X, n_samples=10, random_state=None):
        shifts = np.random.default_rng(random_state).normal(size=(n_samples, 1))
        positive = (self.decision_function(X) + shifts > 0).astype(float)
        return np.stack((1 - positive, positive), axis=2)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:, :4]
    return train_test_split(X, y, random_state=0)


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


# ------------------------------------------------------------------------------ curve and area


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


@pytest.mark.parametrize("seed", range(5))
def test_area_is_the_mean_risk_of_accepted_prefixes(seed):
    rng = np.random.default_rng(seed)
    errors = rng.random(50) < 0.3
    confidence = rng.permutation(50)
    area = aurc(np.zeros(50), errors.astype(int), confidence)
    assert area == pytest.approx(brute_force_area(errors, confidence), rel=1e-14)


@pytest.mark.parametrize("seed", range(5))
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


@pytest.mark.parametrize(
    ("arguments", "weight", "message"),
    [
        (([0, 1], [0, 1], [0.5]), None, r"confidence has shape \(1,\) for 2 cases"),
        (([0, 1], [0, 1], [[0.5], [0.1]]), None, r"confidence has shape \(2, 1\)"),
        (([0, 1], [0, 1], [0.5, np.nan]), None, "confidence is NaN at row 1"),
        (([0, 1], [0], [0.5, 0.1]), None, "inconsistent numbers of samples"),
        (([0, 1], ["0", "1"], [0.5, 0.1]), None, "both as text or both as numbers"),
        (([0, 1], np.array([0, None]), [0.5, 0.1]), None, "y_pred contains None"),
        (([0, 1], [0, 1], [0.5, 0.1]), [1, -1], "sample_weight has minimum -1"),
        (([0, 1], [0, 1], [0.5, 0.1]), [0, 0], "sum 0.0"),
        (([0, 1], [0, 1], [0.5, 0.1]), [1, np.inf], "sum inf"),
        (([0, 1], [0, 1], [0.5, 0.1]), [1], r"sample_weight has shape \(1,\)"),
    ],
)
def test_bad_curves_are_refused(arguments, weight, message):
    with pytest.raises(ValueError, match=message):
        risk_coverage_curve(*arguments, sample_weight=weight)


# ------------------------------------------------------------------------------------- display


def test_display_draws_the_area(cancer, axes):
    X, X_test, y, y_test = cancer
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


def test_display_of_a_rejecting_classifier_shows_the_classifier_inside(cancer, axes):
    X, X_test, y, y_test = cancer
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


# ------------------------------------------------------------------------------ max_risk holds

# A calibration set of the size below, delta large enough that breaking it would show.
N_CASES, MAX_RISK, DELTA, N_REPEATS = 400, 0.1, 0.1, 1500


def flat(rng, n):
    """Every threshold is just too risky, so that to decide anything is a violation."""
    confidence = rng.random(n)
    return confidence, rng.random(n) < MAX_RISK + 1e-4


def flat_with_ties(rng, n):
    confidence, errors = flat(rng, n)
    return np.round(5 * confidence) / 5, errors


def rising(rng, n):
    """P(error | s) = (1 - s)/2: the risk above t is (1 - t)/4."""
    confidence = rng.random(n)
    return confidence, rng.random(n) < (1 - confidence) / 2


def confident_outliers(rng, n):
    """The top 20 % are all wrong half of the time, against the order; below, few are."""
    confidence = rng.random(n)
    return confidence, rng.random(n) < np.where(confidence > 0.8, 0.5, 0.02)


def true_risk(draw, threshold):
    """Risk among cases above the threshold, from the definition of each distribution."""
    if draw is rising:
        return (1 - max(threshold, 0)) / 4
    if draw is confident_outliers:
        below = max(0.8 - max(threshold, 0), 0)
        above = min(1 - threshold, 0.2)
        return (0.02 * below + 0.5 * above) / (below + above)
    return MAX_RISK + 1e-4


def violations(draw, choose, seed):
    """How often the chosen threshold decides some cases, at more than the risk allowed."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(N_REPEATS):
        threshold = choose(*draw(rng, N_CASES))
        count += threshold < 1 and true_risk(draw, threshold) > MAX_RISK
    return count


def by_classifier(confidence, errors):
    clf = RejectingClassifier(Oracle(), max_risk=MAX_RISK, delta=DELTA, cv="prefit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # most draws cannot be decided at all
        return clf.fit(confidence[:, None], 1 - errors).threshold_


def by_observed_risk(confidence, errors):
    """Negative control: take the risk seen for the risk."""
    _, risk, thresholds = risk_coverage_curve(np.zeros(len(errors)), errors, confidence)
    kept = np.flatnonzero(risk <= MAX_RISK)
    # Strictly above the next confidence, as the classifier decides.
    following = np.append(thresholds, -np.inf)
    return following[kept[-1] + 1] if len(kept) else np.inf


def without_correction(confidence, errors):
    """Negative control: the exact bound at every rank, not corrected for looking at many."""
    _, risk, thresholds = risk_coverage_curve(np.zeros(len(errors)), errors, confidence)
    counts = np.array([(confidence >= t).sum() for t in thresholds])
    bounds = _binomial_upper_bound(np.rint(risk * counts), counts, DELTA)
    kept = np.flatnonzero(bounds <= MAX_RISK)
    return np.append(thresholds, -np.inf)[kept[-1] + 1] if len(kept) else np.inf


# At rate DELTA no more violations than this are seen, but for one time in a million.
MOST_VIOLATIONS = stats.binom.isf(FALSE_ALARM_RATE, N_REPEATS, DELTA)


@pytest.mark.parametrize("draw", [flat, flat_with_ties, rising, confident_outliers])
def test_max_risk_holds(draw):
    # Detects a true rate of violations above DELTA + 0.05 nearly always.
    assert violations(draw, by_classifier, seed=1) <= MOST_VIOLATIONS


@pytest.mark.parametrize("choose", [by_observed_risk, without_correction])
@pytest.mark.slow
def test_max_risk_would_not_hold_otherwise(choose):
    assert violations(flat, choose, seed=2) > MOST_VIOLATIONS


def test_max_risk_decides_much_where_it_may():
    # Risk above t is (1 - t)/4 <= 0.1 for t >= 0.6; with 40,000 cases most of that is used.
    threshold = by_classifier(*rising(np.random.default_rng(3), 40_000))
    assert 0.6 < threshold < 0.67


def test_max_risk_decides_all_when_nothing_is_wrong():
    threshold, bound = _threshold_for_risk(np.arange(200.0), np.zeros(200, bool), 0.05, 0.05)
    assert threshold == -np.inf
    assert bound < 0.05


def test_max_risk_takes_ties_whole():
    # Fifty sure and right, fifty unsure and half of them wrong. Of the counts 10, 20, ..., 100 the
    # eight from 30 on can pass 0.8^count <= 0.05/10, so the bound is 1 - (0.05/8)^(1/50).
    confidence, errors = np.repeat([1.0, 0.0], 50), np.arange(100) >= 75
    threshold, bound = _threshold_for_risk(confidence, errors, 0.2, 0.05)
    assert threshold == 0.0
    assert bound == pytest.approx(1 - (0.05 / 8) ** (1 / 50), rel=1e-12)


def test_binomial_bound_is_exact():
    n_errors, n_cases = np.array([0, 3, 10, 0]), np.array([30, 50, 10, 0])
    bound = _binomial_upper_bound(n_errors, n_cases, 0.05)
    assert bound[0] == pytest.approx(1 - 0.05 ** (1 / 30), rel=1e-12)
    assert stats.binom.cdf(3, 50, bound[1]) == pytest.approx(0.05, rel=1e-9)
    assert_array_equal(bound[2:], 1.0)


def test_unreachable_max_risk_rejects_everything_and_says_by_how_much():
    X = np.linspace(0, 1, 20)[:, None]
    clf = RejectingClassifier(Oracle(), max_risk=0.01, cv="prefit")
    # One look at all 20: without an error the bound is 1 - 0.05^(1/20) = 0.1391.
    with pytest.warns(UserWarning, match=r"is 0\.1391, too high by 0\.1291\. Raise max_risk"):
        clf.fit(X, np.ones(20, dtype=int))
    assert clf.threshold_ == np.inf
    assert clf.coverage_ == 0
    assert clf.reject(X).all()
    assert clf.score(X, np.ones(20, dtype=int)) == 0.5


def test_max_risk_out_of_fold(cancer):
    X, X_test, y, y_test = cancer
    clf = RejectingClassifier(SVC(), max_risk=0.08).fit(X, y)
    assert 0.4 < clf.coverage_ < 1
    assert clf.risk_bound_ <= 0.08
    decided = ~clf.reject(X_test)
    assert np.mean(clf.estimator_.predict(X_test)[decided] != y_test[decided]) < 0.08


# -------------------------------------------------------------------------------- coverage


@pytest.mark.parametrize("confidence", ["output", "gap"])
@pytest.mark.parametrize("cv", [5, "prefit"])
def test_coverage_on_new_cases(confidence, cv):
    n, n_new, coverage = 2_000, 2_000, 0.8
    X, y = make_classification(2 * n + n_new, n_informative=6, flip_y=0.1, random_state=0)
    estimator = LogisticRegression()
    if cv == "prefit":
        estimator.fit(X[:n], y[:n])
    clf = RejectingClassifier(estimator, coverage=coverage, confidence=confidence, cv=cv)
    clf.fit(X[n : 2 * n], y[n : 2 * n])
    assert clf.coverage_ == coverage
    # Given the threshold at a rank the true coverage is beta, the count seen beta-binomial.
    seen = np.sum(~clf.reject(X[2 * n :]))
    above = round(coverage * n)
    law = stats.betabinom(n_new, above, n + 1 - above)
    assert law.ppf(FALSE_ALARM_RATE / 2) <= seen <= law.isf(FALSE_ALARM_RATE / 2)


def test_coverage_counts_exactly_and_keeps_the_most_confident():
    X = np.random.default_rng(0).permutation(np.linspace(0, 1, 50))[:, None]
    clf = RejectingClassifier(Oracle(), coverage=0.3, cv="prefit").fit(X, np.ones(50, dtype=int))
    assert_array_equal(~clf.reject(X), X[:, 0] > np.sort(X[:, 0])[34])


def test_coverage_takes_ties_whole_and_warns_when_far_off():
    X = np.repeat([1.0, 0.5, 0.2], [62, 2, 36])[:, None]
    y = np.ones(100, dtype=int)
    clf = RejectingClassifier(Oracle(), coverage=0.63, cv="prefit")
    assert clf.fit(X, y).coverage_ == pytest.approx(0.64)  # a tie goes to the larger coverage
    with pytest.warns(UserWarning, match=r"coverage=0\.3 .* decides is 0\.620"):
        clf.set_params(coverage=0.3).fit(X, y)
    assert clf.coverage_ == 0.62
    assert_array_equal(clf.reject(X), X[:, 0] < 1)


def test_full_coverage_rejects_nothing(cancer):
    X, X_test, y, _ = cancer
    clf = RejectingClassifier(SVC(), coverage=1.0).fit(X, y)
    assert clf.threshold_ == -np.inf
    assert not clf.reject(100 * X_test).any()


# ------------------------------------------------------------------------- confidence rules


def test_rules_by_hand_for_many_classes():
    X, y = load_iris(return_X_y=True)
    for estimator, method in [
        (SVC(), "decision_function"),
        (GaussianNB(), "predict_proba"),
    ]:
        clf = RejectingClassifier(estimator, confidence="output").fit(X, y)
        outputs = np.sort(getattr(clf, method)(X), axis=1)
        assert_array_equal(clf.confidence_scores(X), outputs[:, -1])
        clf.set_params(confidence="gap")
        assert_array_equal(clf.confidence_scores(X), outputs[:, -1] - outputs[:, -2])


def test_rules_by_hand_for_two_classes(cancer):
    X, _, y, _ = cancer
    clf = RejectingClassifier(SVC()).fit(X, y)
    f = np.abs(clf.decision_function(X))
    assert_array_equal(clf.confidence_scores(X), 2 * f)
    assert_array_equal(clf.set_params(confidence="output").confidence_scores(X), f)
    clf.set_params(confidence=lambda model, X: model.decision_function(X) ** 2)
    assert_array_equal(clf.confidence_scores(X), f**2)


def test_votes_from_sample_proba_also_inside_pipelines(cancer):
    X, X_test, y, _ = cancer
    pipe = make_pipeline(StandardScaler(), Committee())
    clf = RejectingClassifier(pipe, confidence="vote", coverage=0.8).fit(X, y)
    # A member votes with the prediction if its shift does not change the sign.
    shifts = np.random.default_rng(0).normal(size=(100, 1))
    f = pipe.fit(X, y).decision_function(X_test)
    expected = np.mean((f + shifts > 0) == (f > 0), axis=0)
    assert_array_equal(clf.confidence_scores(X_test), expected)
    assert_array_equal(clf.confidence_scores(X_test), clf.confidence_scores(X_test))


@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 1, 2], [-1.0, 2.0, 5.0]])
@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(7, max_depth=2, random_state=0),
        BaggingClassifier(GaussianNB(), 7, max_features=0.5, random_state=0),
        make_pipeline(RandomForestClassifier(7, max_depth=2, random_state=0)),
        make_pipeline(StandardScaler(), BaggingClassifier(n_estimators=7, random_state=0)),
    ],
)
def test_votes_of_forests_and_bagging(estimator, labels):
    X, y = load_iris(return_X_y=True)
    y = np.array(labels)[y]
    clf = RejectingClassifier(estimator, confidence="vote").fit(X, y)
    votes = 7 * clf.confidence_scores(X)
    assert_allclose(votes, np.rint(votes), atol=1e-12)
    assert votes.min() < 6
    assert votes.max() == 7
    right = clf.estimator_.predict(X) == y
    assert votes[right].mean() > votes[~right].mean() + 0.5


def test_votes_with_feature_names():
    X, y = load_iris(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(5, random_state=0)
    clf = RejectingClassifier(forest, confidence="vote", coverage=0.9).fit(X, y)
    assert list(clf.feature_names_in_) == list(X.columns)
    assert clf.reject(X).shape == (150,)


@pytest.mark.parametrize("estimator", [LogisticRegression(), GradientBoostingClassifier()])
def test_votes_need_a_committee(cancer, estimator):
    X, _, y, _ = cancer
    clf = RejectingClassifier(estimator, confidence="vote").fit(X[:50], y[:50])
    with pytest.raises(TypeError, match="use BayesPointClassifier, a forest or bagging"):
        clf.confidence_scores(X)


def test_outputs_must_belong_to_classes():
    X, y = load_iris(return_X_y=True)
    clf = RejectingClassifier(SVC(decision_function_shape="ovo"), coverage=0.9)
    with pytest.raises(ValueError, match='set decision_function_shape="ovr"'):
        clf.fit(X, y)
    with pytest.raises(ValueError, match='set decision_function_shape="ovr"'):
        clf.set_params(estimator=make_pipeline(clf.estimator)).fit(X, y)


# ---------------------------------------------------------------------- predictions and score


def test_rejected_rows_are_none_by_default(cancer):
    X, X_test, y, _ = cancer
    clf = RejectingClassifier(SVC(), coverage=0.7).fit(X, y)
    predicted, rejected = clf.predict(X_test), clf.reject(X_test)
    assert predicted.dtype == object
    assert 0 < rejected.sum() < len(X_test)
    assert_array_equal([label is None for label in predicted], rejected)
    assert_array_equal(predicted[~rejected], clf.estimator_.predict(X_test)[~rejected])


@pytest.mark.parametrize(
    ("classes", "reject_label", "dtype"),
    [
        (["no", "yes"], "not sure", "<U8"),
        ([0, 1], -1, "int64"),
        ([0, 1], "unknown", "object"),
        (["0", "1"], 0, "object"),
        ([0.0, 1.0], np.nan, "float64"),
        ([False, True], -1, "object"),
    ],
)
def test_reject_label_and_type(cancer, classes, reject_label, dtype):
    X, X_test, y, _ = cancer
    clf = RejectingClassifier(SVC(), coverage=0.7, reject_label=reject_label)
    clf.fit(X, np.array(classes)[y])
    predicted, rejected = clf.predict(X_test), clf.reject(X_test)
    assert predicted.dtype == dtype
    inner = clf.estimator_.predict(X_test)
    for label, was_rejected, decided in zip(predicted, rejected, inner, strict=True):
        if was_rejected:
            assert label == reject_label or reject_label is np.nan
        else:
            assert label == decided


@pytest.mark.parametrize("classes", [["no", "yes"], [0, 1], [-1.0, 1.0], [False, True]])
def test_without_a_target_nothing_changes(cancer, classes):
    X, X_test, y, y_test = cancer
    classes = np.array(classes)
    plain = SVC().fit(X, classes[y])
    clf = RejectingClassifier(SVC()).fit(X, classes[y])
    assert clf.predict(X_test).dtype == classes.dtype
    assert_array_equal(clf.predict(X_test), plain.predict(X_test))
    assert clf.score(X_test, classes[y_test]) == pytest.approx(plain.score(X_test, classes[y_test]))


@pytest.mark.parametrize("reject_cost", [0, 0.3, 0.5])
def test_score_by_hand(reject_cost):
    # Confidences 0.9, 0.8, 0.7 are decided: one of them wrong; two of five are rejected.
    X, y = np.array([[0.9], [0.8], [0.7], [0.2], [0.1]]), np.array([1, 0, 1, 0, 1])
    clf = RejectingClassifier(Oracle(), coverage=0.6, cv="prefit", reject_cost=reject_cost)
    clf.fit(X, y)
    assert clf.score(X, y) == pytest.approx(1 - (1 + 2 * reject_cost) / 5)
    weight = [1, 2, 3, 4, 5]
    weighted = 1 - (2 + 9 * reject_cost) / 15
    assert clf.score(X, y, sample_weight=weight) == pytest.approx(weighted)


def test_float32_stays_as_it_is(cancer):
    X, X_test, y, _ = (a.astype(np.float32) if a.dtype == float else a for a in cancer)
    clf = RejectingClassifier(LogisticRegression(), coverage=0.9).fit(X, y)
    expected = LogisticRegression().fit(X, y).predict_proba(X_test)
    assert clf.predict_proba(X_test).dtype == expected.dtype
    assert_array_equal(clf.predict_proba(X_test), expected)
    assert 0.8 < np.mean(~clf.reject(X_test)) < 1


# ------------------------------------------------------------- pipelines, searches, weights


def test_grid_search_over_coverage_follows_the_cost(cancer):
    X, _, y, _ = cancer
    grid = {"coverage": [0.5, 0.8, 1.0], "estimator__C": [0.1, 1.0]}
    best = {}
    for cost in (0.0, 0.9):
        clf = RejectingClassifier(SVC(), cv=3, reject_cost=cost)
        search = GridSearchCV(clf, grid, cv=3).fit(X, y)
        best[cost] = search.best_params_["coverage"]
    assert best == {0.0: 0.5, 0.9: 1.0}


def test_search_and_pipeline_on_the_outside_and_inside(cancer):
    X, X_test, y, y_test = cancer
    inner = make_pipeline(StandardScaler(), GridSearchCV(SVC(), {"C": [0.1, 1]}, cv=3))
    outer = Pipeline([("reject", RejectingClassifier(inner, coverage=0.9, cv=3))]).fit(X, y)
    assert 0.8 < outer.score(X_test, y_test) <= 1
    assert np.isfinite(cross_val_score(outer, X, y, cv=3)).all()
    other = clone(outer).set_params(reject__coverage=0.5, reject__estimator__gridsearchcv__cv=2)
    assert other["reject"].estimator["gridsearchcv"].cv == 2
    assert outer["reject"].coverage == 0.9


def test_prefit_is_not_fitted_again_and_frozen_survives_clones(cancer):
    X, X_test, y, y_test = cancer
    model = SVC().fit(X, y)
    clf = RejectingClassifier(model, coverage=0.8, cv="prefit").fit(X_test, y_test)
    assert clf.estimator_ is model
    frozen = clone(RejectingClassifier(FrozenEstimator(model), coverage=0.8)).fit(X_test, y_test)
    assert frozen.threshold_ == clf.threshold_
    forest = FrozenEstimator(RandomForestClassifier(5, random_state=0).fit(X, y))
    votes = RejectingClassifier(forest, confidence="vote").fit(X, y).confidence_scores(X)
    assert votes.max() == 1


def test_weights_reach_the_classifier(cancer):
    X, X_test, y, _ = cancer
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    expected = LogisticRegression().fit(X, y, weight).decision_function(X_test)
    clf = RejectingClassifier(LogisticRegression(), coverage=0.8).fit(X, y, weight)
    assert_array_equal(clf.decision_function(X_test), expected)
    # Pipeline in a pipeline; and the folds see the weights, too, or thresholds would differ.
    nested = make_pipeline(make_pipeline(LogisticRegression()))
    again = RejectingClassifier(nested, coverage=0.8).fit(X, y, sample_weight=weight)
    assert_array_equal(again.decision_function(X_test), expected)
    assert again.threshold_ == clf.threshold_
    plain = RejectingClassifier(LogisticRegression(), coverage=0.8).fit(X, y)
    assert plain.threshold_ != clf.threshold_


def test_rows_of_weight_zero_do_not_count():
    X = np.random.default_rng(0).normal(size=(100, 1))
    y = (X[:, 0] > 0).astype(int)
    half = (np.abs(X[:, 0]) > np.median(np.abs(X[:, 0]))).astype(float)
    clf = RejectingClassifier(LogisticRegression(), coverage=0.5).fit(X, y, half)
    # Half of the kept half: a quarter of all rows, were the others counted one in two.
    assert np.sum(~clf.reject(X[half > 0])) == pytest.approx(25, abs=5)


def test_sparse_and_precomputed_input(cancer):
    X, X_test, y, _ = cancer
    dense = RejectingClassifier(SVC(gamma=0.25), coverage=0.8).fit(X, y)
    csr = RejectingClassifier(SVC(gamma=0.25), coverage=0.8).fit(sparse.csr_array(X), y)
    kernel = RejectingClassifier(SVC(kernel="precomputed"), coverage=0.8)
    kernel.fit(rbf_kernel(X, gamma=0.25), y)
    expected = dense.reject(X_test)
    assert_array_equal(csr.reject(sparse.csr_array(X_test)), expected)
    assert_array_equal(kernel.reject(rbf_kernel(X_test, X, gamma=0.25)), expected)


def test_tags_are_those_inside():
    assert get_tags(RejectingClassifier(SVC(kernel="precomputed"))).input_tags.pairwise
    assert get_tags(RejectingClassifier(SVC())).input_tags.sparse
    assert not get_tags(RejectingClassifier(GaussianNB())).input_tags.sparse
    assert get_tags(RejectingClassifier(SVC())).estimator_type == "classifier"


def test_methods_are_there_only_if_they_are_inside():
    assert not hasattr(RejectingClassifier(GaussianNB()), "decision_function")
    assert hasattr(RejectingClassifier(GaussianNB()), "predict_proba")
    assert not hasattr(RejectingClassifier(SVC()), "predict_proba")


def test_a_class_missing_from_a_fold_is_no_obstacle():
    rng = np.random.default_rng(0)
    y = np.array([0] * 30 + [1] * 30 + [2])
    X = rng.normal(size=(61, 2)) + y[:, None]
    clf = RejectingClassifier(LogisticRegression(), coverage=0.8, cv=2)
    with pytest.warns(UserWarning, match="least populated class"):
        clf.fit(X, y)
    assert clf.predict_proba(X).shape == (61, 3)


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"coverage": 0.9, "max_risk": 0.1}, r"coverage=0\.9 and max_risk=0\.1 .* None"),
        ({"coverage": 0}, r"coverage=0 is not valid; give a number in \(0, 1\]"),
        ({"coverage": 90}, "coverage=90"),
        ({"coverage": "0.9"}, "coverage='0.9'"),
        ({"coverage": True}, "coverage=True"),
        ({"max_risk": 1}, r"max_risk=1 is not valid; give a number in \(0, 1\)"),
        ({"max_risk": np.nan}, "max_risk=nan"),
        ({"delta": 0}, "delta=0"),
        ({"delta": None}, "delta=None"),
        ({"reject_cost": -1}, "reject_cost=-1"),
        ({"confidence": "margin"}, "confidence='margin' is not known; use one of"),
        ({"cv": "fitted"}, "cv='fitted' is not known; give a number of folds"),
        ({"coverage": 0.9, "reject_label": 1}, "reject_label=1 is one of the classes"),
        ({"coverage": 0.9, "cv": RepeatedKFold(n_splits=2, n_repeats=2)}, "more than once"),
        ({"coverage": 0.9, "confidence": lambda _, X: X}, r"one number per case"),
        ({"coverage": 0.9, "confidence": lambda _, X: X[:, 0] * np.nan}, "NaN at row 0"),
        ({"estimator": LinearRegression()}, "estimator=LinearRegression.. is not a classifier"),
    ],
)
def test_bad_parameters_are_refused(cancer, parameters, message):
    X, _, y, _ = cancer
    clf = RejectingClassifier(GaussianNB()).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        clf.fit(X, y)


def test_weights_that_cannot_be_used_are_refused(cancer):
    X, _, y, _ = cancer
    with pytest.raises(TypeError, match=r"KNeighborsClassifier\.fit does not take it"):
        RejectingClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(len(y)))
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match='sample_weight was given with cv="prefit"'):
        RejectingClassifier(fitted, cv="prefit").fit(X, y, sample_weight=np.ones(len(y)))


def test_no_output_at_all_is_explained(cancer):
    class Silent(DecisionTreeClassifier):
        predict_proba = property()

    X, _, y, _ = cancer
    assert RejectingClassifier(Silent()).fit(X, y).score(X, y) == 1
    with pytest.raises(TypeError, match="neither decision_function nor predict_proba"):
        RejectingClassifier(Silent(), coverage=0.5).fit(X, y)


# ------------------------------------------------------------------------------- conformance


@parametrize_with_checks(
    [
        RejectingClassifier(LogisticRegression()),
        # gamma="scale" does not see weights, and SVC stops at 1e-3: with both set, it passes all.
        RejectingClassifier(SVC(gamma=0.1, tol=1e-12)),
        RejectingClassifier(SVC(gamma=0.1, tol=1e-12), coverage=1.0, cv=2, reject_label=-99),
    ]
)
def test_conforms_to_scikit_learn(estimator, check):
    check(estimator)
