"""Prediction sets: coverage by its exact law, what is in them by hand, and what is refused."""

import numpy as np
import pytest
from helpers.refusals import assert_refused
from helpers.thresholds import FALSE_ALARM_RATE
from helpers.told import Told, two_classes
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bayespoint import BayesPointClassifier, PredictionSetClassifier
from bayespoint.estimators.prediction_sets import (
    conformal_quantile,
    scores_of,
    shares_of_rows,
    with_as_many_of_its_class,
)

LEVEL = 0.9
FOREST = RandomForestClassifier(60, min_samples_leaf=5, random_state=0)


def cases(rng, n):
    """Three overlapping classes, the last one rare."""
    y = rng.choice(3, n, p=[0.5, 0.35, 0.15])
    return rng.normal(size=(n, 2)) + 1.2 * np.column_stack((y == 1, y == 2)), y


def covered(sets, y):
    return sets[np.arange(len(y)), y]


def within_law(n_covered, n_new, n_calibrated):
    """Given the threshold at a rank the coverage is beta, the count seen beta-binomial."""
    rank = int(np.ceil((n_calibrated + 1) * LEVEL - 1e-9))
    law = stats.betabinom(n_new, rank, n_calibrated + 1 - rank)
    low, high = law.ppf(FALSE_ALARM_RATE / 2), law.isf(FALSE_ALARM_RATE / 2)
    return low <= n_covered <= high


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB(), FOREST], ids=type)
def test_coverage_of_new_rows_has_the_law_that_is_proved(estimator, adaptive):
    rng = np.random.default_rng(0)
    model = estimator.fit(*cases(rng, 200))
    clf = PredictionSetClassifier(model, adaptive=adaptive, cv="prefit").fit(*cases(rng, 1_000))
    X, y = cases(rng, 20_000)
    assert within_law(covered(clf.predict_set(X), y).sum(), 20_000, 1_000)


@pytest.mark.parametrize("adaptive", [False, True])
def test_coverage_of_each_class_has_that_law_too(adaptive):
    rng = np.random.default_rng(1)
    model = GaussianNB().fit(*cases(rng, 200))
    X, y = cases(rng, 2_000)
    clf = PredictionSetClassifier(model, adaptive=adaptive, per_class=True, cv="prefit").fit(X, y)
    X_new, y_new = cases(rng, 30_000)
    hit = covered(clf.predict_set(X_new), y_new)
    for c in range(3):
        of_class = y_new == c
        assert within_law(hit[of_class].sum(), of_class.sum(), np.sum(y == c))
    # Control: without it the rare class is left out.
    plain = PredictionSetClassifier(model, adaptive=adaptive, cv="prefit").fit(X, y)
    rare = y_new == 2
    hit = covered(plain.predict_set(X_new), y_new)[rare].sum()
    assert not within_law(hit, rare.sum(), np.sum(y == 2))


def test_rows_of_the_training_do_not_calibrate():
    """Control: a forest is surer of rows that it has learnt, and its sets are too small."""
    rng = np.random.default_rng(2)
    X, y = cases(rng, 400)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    X_new, y_new = cases(rng, 5_000)
    wrong = PredictionSetClassifier(forest, cv="prefit").fit(X, y)
    assert not within_law(covered(wrong.predict_set(X_new), y_new).sum(), 5_000, 400)
    right = PredictionSetClassifier(RandomForestClassifier(30, random_state=0)).fit(X, y)
    assert abs(covered(right.predict_set(X_new), y_new).mean() - LEVEL) < 0.05


def test_rows_left_out_of_the_fit_calibrate_without_another():
    """40 independent fits: mean coverage is the level, which training rows, the control, miss."""
    rng = np.random.default_rng(3)
    point = BayesPointClassifier(gamma=0.5, softness=0.5, bias=1.0, inference="ep")
    shares = []
    for _ in range(40):
        (X, y), (X_new, y_new) = cases(rng, 80), cases(rng, 1_000)
        clf = PredictionSetClassifier(make_pipeline(StandardScaler(), point)).fit(X, y)
        assert clf.coverage_ in (72 / 80, 73 / 80)  # the rank is 72.9 in the mean
        wrong = PredictionSetClassifier(clf.estimator_, cv="prefit").fit(X, y)
        shares.append([covered(each.predict_set(X_new), y_new).mean() for each in (clf, wrong)])
    right, control = stats.ttest_1samp(shares, LEVEL).pvalue
    assert right > FALSE_ALARM_RATE
    assert control < FALSE_ALARM_RATE


class Shares(Told):
    """Odds of classes are their numbers of rows times likelihoods, the columns of X."""

    def fit(self, X, y):
        self.n_rows_ = np.bincount(y)
        fewer = self.n_rows_ - np.eye(len(self.n_rows_))[y]  # without the row itself
        self.held_out_proba_ = X * fewer / np.sum(X * fewer, axis=1, keepdims=True)
        return self

    def predict_proba(self, X):
        return X * self.n_rows_ / np.sum(X * self.n_rows_, axis=1, keepdims=True)


def test_per_class_a_row_held_out_finds_as_many_of_its_class_as_a_new_one():
    """Control: of all classes together nothing is made up for."""
    rng = np.random.default_rng(12)
    y = np.repeat([0, 1, 2], [9, 19, 29])  # thresholds are the 9th, 18th and 27th of them
    X = rng.dirichlet(np.ones(3), len(y))
    clf = PredictionSetClassifier(Shares((0, 1, 2))).fit(X, y)
    held_out = covered(1 - clf.estimator_.held_out_proba_, y)
    assert np.isclose(held_out, clf.thresholds_[0], rtol=1e-12).any()
    clf.set_params(per_class=True).fit(X, y)
    as_new = covered(1 - clf.predict_proba(X), y)
    for threshold, rank, c in zip(clf.thresholds_, (9, 18, 27), range(3), strict=True):
        assert threshold == pytest.approx(np.sort(as_new[y == c])[rank - 1], rel=1e-12)


def test_what_wrong_labels_leave_open_stays_open():
    """Probabilities end at 1 less their share; a threshold above that excludes all sure rows."""
    noise, true = 1e-3, np.repeat([0, 1, 2], 10)
    sure = np.full((30, 3), noise / 2)
    sure[np.arange(30), true] = 1 - noise
    assert_allclose(with_as_many_of_its_class(sure, true, noise), sure, rtol=1e-12)
    control = with_as_many_of_its_class(sure, true, 0.0)
    assert np.all(covered(control, true) > 1 - noise)


def test_without_a_proof_the_mean_coverage_is_the_level_whatever_the_scores():
    """A hundredth too much is seen, as by the control, a threshold halfway between two scores."""
    rng = np.random.default_rng(9)
    covers = []
    for uniform in rng.random((4_000, 24)):  # the place is 22.5 of 24
        found = conformal_quantile((1 - uniform) ** -3, LEVEL, proved=False)  # which thin out
        halfway = np.mean(np.sort((1 - uniform) ** -3)[[21, 22]])
        covers.append([1 - threshold ** (-1 / 3) for threshold in (found, halfway)])
    right, control = stats.ttest_1samp(covers, LEVEL).pvalue
    assert right > FALSE_ALARM_RATE
    assert control < FALSE_ALARM_RATE


def test_few_rows_have_settings_that_folds_choose(monkeypatch):
    """Unless settings are given, or a class has too few rows for folds."""
    rng = np.random.default_rng(10)
    y = np.arange(50) % 2
    X = rng.normal(size=(50, 2)) + y[:, None]
    fits, fit = [], BayesPointClassifier.fit

    def counted(self, X, y, *weights):
        fits.append((len(y), self.bias, self.max_time))
        return fit(self, X, y, *weights)

    monkeypatch.setattr(BayesPointClassifier, "fit", counted)
    point = BayesPointClassifier("rbf", gamma=0.5, softness=0.5, inference="ep", max_time=50)
    for bias, n_folds in (("auto", 5), (1.0, 0)):
        fits.clear()
        point.set_params(bias=bias)
        PredictionSetClassifier(make_pipeline(StandardScaler(), point)).fit(X, y)
        assert fits == [(50, bias, 50)] + [(40, bias, 10)] * n_folds
    fits.clear()
    rare = np.r_[0:50:2, 1:9:2]  # four of the second class
    PredictionSetClassifier(point.set_params(bias="auto")).fit(X[rare], y[rare])
    assert len(fits) == 1


def test_what_a_frozen_fit_knows_of_its_own_rows_is_not_taken_for_others():
    """As many rows to calibrate as there were to train: each must get its own probabilities."""
    rng = np.random.default_rng(4)
    point = BayesPointClassifier(gamma=0.5, softness=0.5, bias=1.0, inference="ep")
    point.fit(*cases(rng, 80))
    X, y = cases(rng, 80)
    scores = 1 - point.predict_proba(X)
    clf = PredictionSetClassifier(FrozenEstimator(point)).fit(X, y)
    inside = covered(scores <= clf.thresholds_, y)  # one score is the threshold, to the last digit
    assert clf.coverage_ == pytest.approx(inside.mean(), abs=1e-9)
    assert clf.coverage_ == pytest.approx(73 / 80)  # the rank of the proof, 72.9 rounded up
    prefit = PredictionSetClassifier(point, cv="prefit").fit(X, y)
    assert_array_equal(clf.thresholds_, prefit.thresholds_)


def test_sets_by_hand():
    """Scores of nine rows and level 0.9: the largest one, 1 - 0.3, decides."""
    p = np.array([0.9, 0.8, 0.7, 0.6, 0.95, 0.85, 0.75, 0.65, 0.3])
    clf = PredictionSetClassifier(Told(), cv="prefit").fit(two_classes(p), np.ones(9, int))
    assert clf.thresholds_ == pytest.approx([0.7, 0.7])
    assert_array_equal(
        clf.predict_set(two_classes([0.2, 0.31, 0.5, 0.8])),
        [[True, False], [True, True], [True, True], [False, True]],
    )
    assert clf.coverage_ == 1


def test_adaptive_sets_take_the_most_probable_classes_first():
    rng = np.random.default_rng(5)
    proba = rng.dirichlet(np.ones(4), 500)
    y = np.array([rng.choice(4, p=p) for p in proba])
    clf = PredictionSetClassifier(Told((0, 1, 2, 3)), adaptive=True, cv="prefit").fit(proba, y)
    sets = clf.predict_set(proba)
    inside = np.where(sets, proba, np.inf).min(axis=1)
    outside = np.where(sets, -np.inf, proba).max(axis=1)
    assert np.all(inside >= outside)
    # All that is before the last class of a set is below the threshold, and hard rows have more.
    total = np.where(sets, proba, 0).sum(axis=1) - np.where(np.isinf(inside), 0, inside)
    assert np.all(total <= clf.thresholds_[0])
    hard = proba.max(axis=1) < np.median(proba.max(axis=1))
    assert sets[hard].sum(axis=1).mean() > sets[~hard].sum(axis=1).mean() + 0.5


def coarse():
    """Probabilities of three classes that a forest of 50 pure trees can give."""
    counts = [(i, j, 50 - i - j) for i in range(51) for j in range(51 - i)]
    return np.array(counts) / 50


@pytest.mark.parametrize(
    "proba",
    [coarse(), two_classes(np.arange(501) / 500), two_classes(1 - np.geomspace(1e-9, 1e-3, 2_000))],
    ids=["forest", "grid", "near 1"],
)
def test_shares_of_adaptive_sets_are_uniform_and_the_same_in_both_precisions(proba):
    shares = shares_of_rows(proba)
    assert stats.kstest(shares, "uniform").pvalue > FALSE_ALARM_RATE
    # Neighbours are independent: products of centred shares have mean 0, standard deviation 1 / 12.
    products = (shares[1:] - 0.5) * (shares[:-1] - 0.5) * 12 * np.sqrt(len(shares) - 1)
    assert abs(products.mean()) < stats.norm.isf(FALSE_ALARM_RATE / 2)
    assert_array_equal(shares, shares_of_rows(proba.astype(np.float32)))
    assert_array_equal(shares[:7], shares_of_rows(proba[:7]))


def test_right_probabilities_have_uniform_adaptive_scores_on_a_coarse_grid_too():
    """So that the threshold is the level: a beta variable, but for 1,326 shares that are fixed."""
    rng = np.random.default_rng(8)
    proba = rng.permutation(np.tile(coarse(), (4, 1)))
    y = (rng.random((len(proba), 1)) > proba.cumsum(axis=1)).sum(axis=1)
    clf = PredictionSetClassifier(Told((0, 1, 2)), adaptive=True, cv="prefit").fit(proba, y)
    error = np.sqrt(LEVEL * (1 - LEVEL) / len(coarse()))  # as if rows of equal shares were one
    assert abs(clf.thresholds_[0] - LEVEL) < stats.norm.isf(FALSE_ALARM_RATE / 2) * error
    top = covered(scores_of(proba, adaptive=True), proba.argmax(axis=1))
    assert np.mean(top > clf.thresholds_[0]) > 0  # also the most probable class may be left out


def test_empty_and_full_sets():
    rng = np.random.default_rng(6)
    p = rng.beta(9, 1, 200)  # right more often than nine times in ten
    sure = PredictionSetClassifier(Told(), confidence_level=0.5, cv="prefit")
    sets = sure.fit(two_classes(p), np.ones(200, int)).predict_set(two_classes(p))
    assert 0.3 < np.mean(sets.sum(axis=1) == 0) < 0.6
    few = PredictionSetClassifier(Told(), confidence_level=0.9, cv="prefit")
    with pytest.warns(UserWarning, match=r"takes 9 held-out rows .* all sets are full"):
        few.fit(two_classes(p[:8]), np.ones(8, int))
    assert few.predict_set(two_classes(p)).all()
    few.set_params(per_class=True)
    with pytest.warns(UserWarning, match="fewer of class 0, so every set holds it"):
        few.fit(two_classes(p[:60]), np.r_[np.zeros(5, int), np.ones(55, int)])
    sets = few.predict_set(two_classes(p))
    assert sets[:, 0].all()
    assert not sets[:, 1].all()


def test_labels_and_weights():
    rng = np.random.default_rng(7)
    X, y = cases(rng, 150)
    names = np.array(["a", "b", "c"])[y]
    weight = (np.arange(150) % 2).astype(float)
    clf = PredictionSetClassifier(LogisticRegression(), cv=3).fit(X, names, weight)
    expected = LogisticRegression().fit(X, names, weight)
    assert_array_equal(clf.predict(X), expected.predict(X))
    assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
    assert clf.score(X, names) == expected.score(X, names)
    assert clf.coverage_ in (68 / 75, 69 / 75)  # of rows that count


BAD = [
    ({"confidence_level": 1.0}, "confidence_level=1.0 is not valid; give a number in"),
    ({"confidence_level": "90%"}, "confidence_level='90%'"),
    ({"adaptive": "yes"}, "adaptive='yes' is not valid; give True or False"),
    ({"per_class": 1}, "per_class=1 is not valid"),
    ({"cv": "fold"}, "cv='fold' is not known"),
    ({"estimator": LinearRegression()}, "estimator=LinearRegression.. is not a classifier"),
]


def test_bad_parameters_are_refused():
    X, y = cases(np.random.default_rng(0), 60)

    def fit(**bad):
        PredictionSetClassifier(**{"estimator": GaussianNB()} | bad).fit(X, y)

    assert_refused(fit, BAD)
    told = PredictionSetClassifier(Told((0, 2)), cv="prefit")
    for label in (1, 3, "2"):  # between the classes, beyond them, of another type
        with pytest.raises(ValueError, match=f"y has the label {label!r}, which is not among"):
            told.fit(two_classes(np.full(60, 0.5)), np.full(60, label))
    with pytest.raises(ValueError, match=r'X has no rows; with cv="prefit"'):
        told.fit(two_classes([]), np.array([], int))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        told.fit(two_classes([0.5]), [0, 2])
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        PredictionSetClassifier(LinearSVC()).fit(X, y)
