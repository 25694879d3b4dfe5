"""What a RejectingClassifier promises of new cases: risk among those decided, and coverage."""

import warnings

import numpy as np
import pytest
from helpers.rejecting import Oracle
from helpers.thresholds import FALSE_ALARM_RATE
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.estimators.risk import risk_coverage_curve, threshold_for_risk

# ---------------------------------------------------------------------- max_risk holds

# A calibration set of the size below, delta large enough that breaking it would show.
N_CASES, MAX_RISK, DELTA = 400, 0.1, 0.1
# By default, and for the sharp version of the test.
N_REPEATS, MANY_REPEATS = 200, 1500


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


def violations(draw, choose, seed, repeats):
    """How often the chosen threshold decides some cases, at more than the risk allowed."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(repeats):
        threshold = choose(*draw(rng, N_CASES))
        count += threshold < 1 and true_risk(draw, threshold) > MAX_RISK
    return count


def most_violations(repeats):
    """At rate DELTA no more violations than this are seen, but for one time in a million."""
    return stats.binom.isf(FALSE_ALARM_RATE, repeats, DELTA)


def fitted(confidence, errors, max_risk=MAX_RISK, delta=DELTA):
    clf = RejectingClassifier(
        Oracle(), max_risk=max_risk, delta=delta, confidence="gap", cv="prefit"
    )
    return clf.fit(np.asarray(confidence)[:, None], 1 - np.asarray(errors, dtype=int))


def by_classifier(confidence, errors):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # most draws cannot be decided at all
        return fitted(confidence, errors).threshold_


def loosest(thresholds, passed):
    """Strictly above the confidence that follows the last one passed, as the classifier decides."""
    kept = np.flatnonzero(passed)
    return np.append(thresholds, -np.inf)[kept[-1] + 1] if len(kept) else np.inf


def by_observed_risk(confidence, errors):
    """Negative control: take the risk seen for the risk."""
    _, risk, thresholds = risk_coverage_curve(np.zeros(len(errors)), errors, confidence)
    return loosest(thresholds, risk <= MAX_RISK)


def without_correction(confidence, errors):
    """Negative control: the exact bound at every rank, not corrected for looking at many."""
    coverage, risk, thresholds = risk_coverage_curve(np.zeros(len(errors)), errors, confidence)
    counts = np.rint(coverage * len(errors))
    wrong = np.rint(risk * counts)
    bounds = stats.beta.ppf(1 - DELTA, wrong + 1, np.maximum(counts - wrong, 1e-9))
    return loosest(thresholds, bounds <= MAX_RISK)


@pytest.mark.parametrize("draw", [flat, flat_with_ties])
def test_max_risk_holds(draw):
    # Detects a true rate of violations above 0.3 (DELTA is 0.1) nearly always.
    assert violations(draw, by_classifier, 1, N_REPEATS) <= most_violations(N_REPEATS)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [flat, flat_with_ties, rising, confident_outliers])
def test_max_risk_holds_in_many_repeats(draw):
    # Detects a true rate of violations above DELTA + 0.05 nearly always.
    assert violations(draw, by_classifier, 1, MANY_REPEATS) <= most_violations(MANY_REPEATS)


@pytest.mark.parametrize("choose", [by_observed_risk, without_correction])
def test_max_risk_would_not_hold_otherwise(choose):
    assert violations(flat, choose, 2, N_REPEATS) > most_violations(N_REPEATS)


def test_max_risk_decides_much_where_it_may():
    # Risk above t is (1 - t)/4 <= 0.1 for t >= 0.6; with 40,000 cases most of that is used.
    threshold = by_classifier(*rising(np.random.default_rng(3), 40_000))
    assert 0.6 < threshold < 0.67


def test_max_risk_decides_all_when_nothing_is_wrong():
    clf = fitted(np.arange(200.0), np.zeros(200), max_risk=0.05, delta=0.05)
    assert clf.threshold_ == -np.inf
    # Thresholds are tested from two places on, each with half of delta.
    assert clf.risk_bound_ == pytest.approx(1 - 0.025 ** (1 / 200), rel=1e-12)


def test_max_risk_takes_ties_whole():
    # Fifty sure and right, fifty unsure and half of them wrong.
    clf = fitted(np.repeat([1.0, 0.0], 50), np.arange(100) >= 75, max_risk=0.2, delta=0.05)
    assert clf.threshold_ == 0.0
    assert clf.risk_bound_ == pytest.approx(1 - 0.025 ** (1 / 50), rel=1e-12)


def test_the_bound_is_exact_with_errors():
    """Clopper and Pearson's: so few errors have just this probability, at a risk of the bound."""
    errors = np.arange(120) % 40 == 0
    clf = fitted(np.arange(120.0), errors, max_risk=0.1, delta=0.1)
    assert clf.coverage_ == 1
    assert stats.binom.cdf(3, 120, clf.risk_bound_) == pytest.approx(0.05, rel=1e-9)


def test_nothing_is_decided_beyond_a_threshold_that_fails():
    """Thresholds are tested towards larger coverage: a good one after a bad one does not count."""
    confidence = np.arange(1000.0)
    errors = (confidence >= 600) & (confidence < 620)  # 20 among 400, 20 among 1000
    threshold, bound = threshold_for_risk(confidence, errors, 0.04, 0.05)
    assert bound <= 0.04
    decided, wrong = (np.sum(part[confidence > threshold]) for part in (errors | ~errors, errors))
    assert (decided, wrong) == (380, 0)
    # Begun at two places, each with half of delta.
    assert bound == pytest.approx(1 - 0.025 ** (1 / 380), rel=1e-9)
    # Of all cases it would be shown.
    assert stats.binom.cdf(20, 1000, 0.04) < 0.05


def test_where_to_begin_is_what_the_classifier_expects():
    """The surest are wrong: begun there nothing is shown, begun where it says so, much is."""
    confidence = np.arange(1000.0)
    errors = confidence >= 990
    assert threshold_for_risk(confidence, errors, 0.05, 0.05)[0] == np.inf
    expected = np.where(errors, 0.99, 0.001)
    threshold, bound = threshold_for_risk(confidence, errors, 0.05, 0.05, expected)
    assert threshold == -np.inf
    assert stats.binom.cdf(10, 1000, bound) == pytest.approx(0.05, rel=1e-9)
    # It cannot make a bad threshold pass.
    wrong = np.random.default_rng(0).random(1000) < 0.2
    assert threshold_for_risk(confidence, wrong, 0.05, 0.05, expected)[0] == np.inf


def test_unreachable_max_risk_rejects_everything_and_says_by_how_much():
    X = np.linspace(0, 1, 20)[:, None]
    clf = RejectingClassifier(Oracle(), max_risk=0.01, cv="prefit")
    # One look at all 20 with half of delta: without an error the bound is 1 - 0.025^(1/20).
    with pytest.warns(UserWarning, match=r"is 0\.1684, too high by 0\.1584\. Raise max_risk"):
        clf.fit(X, np.ones(20, dtype=int))
    assert clf.threshold_ == np.inf
    assert clf.coverage_ == 0
    assert clf.reject(X).all()
    assert clf.score(X, np.ones(20, dtype=int)) == 0.5


@pytest.mark.filterwarnings("ignore:max_risk=0.08 could not be shown")
def test_max_risk_out_of_fold():
    """Errors among new cases that are decided, over several halves of the data."""
    X, y = load_breast_cancer(return_X_y=True)
    X, n_wrong, n_decided = scale(X)[:, :4], 0, 0
    for seed in range(8):
        rows = np.random.default_rng(seed).permutation(len(y))
        old, new = rows[::2], rows[1::2]
        clf = RejectingClassifier(SVC(), max_risk=0.08).fit(X[old], y[old])
        assert clf.coverage_ == 0 or clf.risk_bound_ <= 0.08
        decided = ~clf.reject(X[new])
        n_wrong += np.sum(decided & (clf.estimator_.predict(X[new]) != y[new]))
        n_decided += np.sum(decided)
    assert n_decided > 0.2 * 8 * len(new)
    assert n_wrong < 0.08 * n_decided


# ---------------------------------------------------------------------- coverage


@pytest.mark.parametrize(("confidence", "cv"), [("output", 5), ("gap", "prefit")])
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


def test_full_coverage_rejects_nothing():
    X, y = make_classification(60, random_state=0)
    clf = RejectingClassifier(SVC(), coverage=1.0).fit(X, y)
    assert clf.threshold_ == -np.inf
    assert not clf.reject(100 * X).any()


@pytest.mark.parametrize("wrapped", [False, True])
def test_steps_that_look_at_labels_take_folds(wrapped):
    """Columns chosen by their labels, of noise: what a row says without it knows its label."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 500)), rng.integers(2, size=120)
    chooser = SelectKBest(k=10)
    chooser = FeatureUnion([("best", chooser)]) if wrapped else chooser
    point = BayesPointClassifier(gamma=0.1, softness=0.3, bias=1.0, inference="ep")
    clf = RejectingClassifier(make_pipeline(StandardScaler(), chooser, point), max_risk=0.3)
    with pytest.warns(UserWarning, match="max_risk"):
        clf.fit(X, y)
    assert clf.threshold_ == np.inf
    # Steps that do without labels do not take them.
    fits = []
    clf = RejectingClassifier(make_pipeline(Counted(fits), point), coverage=0.8).fit(X[:, :5], y)
    assert clf.coverage_ == pytest.approx(0.8, abs=0.01)
    assert len(fits) == 2


class Counted(StandardScaler):
    """Notes its fits."""

    def __init__(self, fits=None):
        super().__init__()
        self.fits = fits

    def __sklearn_clone__(self):
        return Counted(self.fits)

    def fit(self, X, y=None, sample_weight=None):
        self.fits.append(1)
        return super().fit(X, y, sample_weight)
