"""Metadata find their way through wrappers: weights to the estimator, groups to the splitter."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import PredictionSetClassifier, RejectingClassifier

WRAPPERS = {
    "reject": lambda clf, **others: RejectingClassifier(clf, coverage=0.8, **others),
    "costs": lambda clf, **others: RejectingClassifier(clf, costs=[[0, 1], [4, 0]], **others),
    "sets": lambda clf, **others: PredictionSetClassifier(clf, **others),
}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    X = rng.normal(size=(120, 2)) + y[:, None]
    return X, y, rng.integers(0, 3, 120).astype(float), np.arange(120) % 6


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", WRAPPERS)
def test_weights_go_where_they_are_requested(name, data):
    X, y, weight, _ = data
    asking = LogisticRegression().set_fit_request(sample_weight=True)
    expected = LogisticRegression().fit(X, y, weight).decision_function(X)
    for inner in (
        asking,
        make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=True),
        ),
    ):
        clf = WRAPPERS[name](inner).fit(X, y, sample_weight=weight)
        if inner is asking:
            assert_array_equal(clf.decision_function(X), expected)
        else:
            plain = WRAPPERS[name](inner).fit(X, y)
            assert not np.array_equal(clf.decision_function(X), plain.decision_function(X))
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        WRAPPERS[name](LogisticRegression()).fit(X, y, sample_weight=weight)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", WRAPPERS)
def test_weights_that_nobody_takes_are_refused(name, data):
    X, y, weight, _ = data
    for deaf in (
        KNeighborsClassifier(),
        LogisticRegression().set_fit_request(sample_weight=False),
        LogisticRegression().set_fit_request(sample_weight="w"),
    ):
        with pytest.raises(TypeError, match=r"sample_weight was given, but .* does not request it"):
            WRAPPERS[name](deaf).fit(X, y, sample_weight=weight)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", ["reject", "sets"])
def test_weights_of_another_name_tell_which_rows_count(name, data):
    """Rows of weight 0 do not calibrate; a pipeline passes the name on."""
    X, y, _, _ = data
    weight = (np.arange(120) % 2).astype(float)
    plain = LogisticRegression().set_fit_request(sample_weight=True)
    expected = WRAPPERS[name](plain).fit(X, y, sample_weight=weight)
    asking = LogisticRegression().set_fit_request(sample_weight="w")
    for inner in (asking, make_pipeline("passthrough", asking)):
        found = WRAPPERS[name](inner).fit(X, y, w=weight)
        thresholds = [vars(clf)[f"threshold{'s' * (name == 'sets')}_"] for clf in (found, expected)]
        assert_array_equal(*thresholds)


class Splits(GroupKFold):
    """Notes the groups it gets."""

    seen: list = []  # noqa: RUF012

    def split(self, X, y=None, groups=None):
        self.seen.append(groups)
        return super().split(X, y, groups)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", ["reject", "sets"])
def test_groups_reach_the_splitter(name, data):
    X, y, _, groups = data
    clf = WRAPPERS[name](LogisticRegression(), cv=Splits(3))
    Splits.seen.clear()
    clf.fit(X, y, groups=groups)
    assert_array_equal(Splits.seen[-1], groups)


@pytest.mark.usefixtures("routing")
def test_searches_pass_weights_on_to_fit_and_score(data):
    X, y, weight, _ = data
    clf = WRAPPERS["costs"](LogisticRegression().set_fit_request(sample_weight=True))
    clf.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    grid = {"estimator__C": [0.1, 1.0]}
    search = GridSearchCV(clf, grid, cv=2).fit(X, y, sample_weight=weight)
    best = search.best_estimator_
    expected = LogisticRegression(C=best.estimator.C).fit(X, y, weight).decision_function(X)
    assert_array_equal(best.decision_function(X), expected)
    scores = cross_validate(clf, X, y, cv=2, params={"sample_weight": weight})["test_score"]
    assert np.all(scores < 0)
    plain = clf.set_score_request(sample_weight=False)
    other = cross_validate(plain, X, y, cv=2, params={"sample_weight": weight})["test_score"]
    assert np.all(scores != other)


def test_without_routing_other_metadata_are_refused(data):
    X, y, _, groups = data
    clf = WRAPPERS["reject"](LogisticRegression(), cv=GroupKFold(3))
    with pytest.raises(TypeError, match=r"fit got groups, .*enable_metadata_routing=True"):
        clf.fit(X, y, groups=groups)


def test_estimators_that_know_nothing_of_it_work_on(data):
    class Bare(LogisticRegression, BaseEstimator):
        pass

    X, y, weight, _ = data
    clf = WRAPPERS["costs"](Bare()).fit(X, y, sample_weight=weight)
    assert_array_equal(clf.decision_function(X), LogisticRegression().fit(X, y, weight)
                       .decision_function(X))  # fmt: skip
