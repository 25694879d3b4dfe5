"""RejectingClassifier around other classifiers: confidence, predictions, weights, errors."""

import numpy as np
import pytest
from helpers.refusals import assert_refused
from helpers.rejecting import Oracle
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, RepeatedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from bayespoint import RejectingClassifier


class Committee(LogisticRegression):
    """Says who votes how by `sample_proba`, in the manner of BayesPointClassifier."""

    def sample_proba(self, X, n_samples=10, random_state=None):
        shifts = np.random.default_rng(random_state).normal(size=(n_samples, 1))
        positive = (self.decision_function(X) + shifts > 0).astype(float)
        return np.stack((1 - positive, positive), axis=2)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[:, :4]
    return X[::4], X[1::4], y[::4], y[1::4]


# ---------------------------------------------------------------------- confidence rules


def test_rules_by_hand_for_many_classes():
    X, y = load_iris(return_X_y=True)
    for estimator, method in [
        (SVC(), "decision_function"),
        (GaussianNB(), "predict_proba"),
    ]:
        clf = RejectingClassifier(estimator, confidence="output").fit(X, y)
        outputs = np.sort(getattr(clf, method)(X), axis=1)
        assert_array_equal(clf.confidence_scores(X), outputs[:, -1])
        clf.set_params(confidence="gap").fit(X, y)
        assert_array_equal(clf.confidence_scores(X), outputs[:, -1] - outputs[:, -2])


def test_rules_by_hand_for_two_classes(cancer):
    X, _, y, _ = cancer
    clf = RejectingClassifier(SVC()).fit(X, y)
    f = np.abs(clf.decision_function(X))
    assert_array_equal(clf.confidence_scores(X), 2 * f)
    clf.set_params(confidence="output").fit(X, y)
    assert_array_equal(clf.confidence_scores(X), f)
    clf.set_params(confidence=lambda model, X: model.decision_function(X) ** 2).fit(X, y)
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


@pytest.mark.parametrize(
    ("estimator", "labels"),
    [
        (RandomForestClassifier(7, max_depth=2, random_state=0), ["a", "b", "c"]),
        (BaggingClassifier(GaussianNB(), 7, max_features=0.5, random_state=0), [3, 1, 2]),
        (
            make_pipeline(StandardScaler(), BaggingClassifier(n_estimators=7, random_state=0)),
            [-1.0, 2.0, 5.0],
        ),
    ],
    ids=["forest", "parts of columns", "pipeline"],
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


def test_votes_need_a_committee(cancer):
    X, _, y, _ = cancer
    for estimator in (LogisticRegression(), GradientBoostingClassifier(n_estimators=2)):
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


def test_without_a_target_nothing_changes(cancer):
    X, X_test, y, y_test = cancer
    for classes in (np.array(["no", "yes"]), np.array([-1.0, 1.0]), np.array([False, True])):
        plain = SVC().fit(X, classes[y])
        clf = RejectingClassifier(SVC()).fit(X, classes[y])
        assert clf.predict(X_test).dtype == classes.dtype
        assert_array_equal(clf.predict(X_test), plain.predict(X_test))
        expected = plain.score(X_test, classes[y_test])
        assert clf.score(X_test, classes[y_test]) == pytest.approx(expected)


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


# ---------------------------------------------------------------------- searches and weights


def test_grid_search_over_coverage_follows_the_cost(cancer):
    X, _, y, _ = cancer
    grid = {"coverage": [0.5, 1.0], "estimator__priors": [None]}
    best = {}
    for cost in (0.0, 0.9):
        clf = RejectingClassifier(GaussianNB(), cv=2, reject_cost=cost)
        search = GridSearchCV(clf, grid, cv=2).fit(X, y)
        best[cost] = search.best_params_["coverage"]
    assert best == {0.0: 0.5, 0.9: 1.0}


def test_search_and_pipeline_on_the_outside_and_inside(cancer):
    X, X_test, y, y_test = cancer
    inner = make_pipeline(StandardScaler(), GridSearchCV(SVC(), {"C": [0.1, 1]}, cv=2))
    outer = Pipeline([("reject", RejectingClassifier(inner, coverage=0.9, cv=2))]).fit(X, y)
    assert 0.8 < outer.score(X_test, y_test) <= 1
    assert np.isfinite(cross_val_score(outer, X, y, cv=2)).all()
    other = clone(outer).set_params(reject__coverage=0.5, reject__estimator__gridsearchcv__cv=4)
    assert other["reject"].estimator["gridsearchcv"].cv == 4
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


# ---------------------------------------------------------------------- errors


BAD = [
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
    ({"cv": "fitted"}, "cv='fitted' is not known; give .* a number of folds"),
    ({"coverage": 0.9, "reject_label": 1}, "reject_label=1 is one of the classes"),
    ({"coverage": 0.9, "cv": RepeatedKFold(n_splits=2, n_repeats=2)}, "more than once"),
    ({"coverage": 0.9, "confidence": lambda _, X: X}, r"one number per case"),
    ({"coverage": 0.9, "confidence": lambda _, X: X[:, 0] * np.nan}, "NaN at row 0"),
    ({"estimator": LinearRegression()}, "estimator=LinearRegression.. is not a classifier"),
]


def test_bad_parameters_are_refused(cancer):
    X, _, y, _ = cancer
    assert_refused(lambda **bad: RejectingClassifier(GaussianNB()).set_params(**bad).fit(X, y), BAD)


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
