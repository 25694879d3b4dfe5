"""`PosteriorQuery` as a strategy of scikit-activeml, and our posterior as its committee."""

import pickle
import warnings

import numpy as np
import pytest
from helpers.classifiers import FIXED
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

pytest.importorskip("skactiveml")

from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import QueryByCommittee
from skactiveml.utils import MISSING_LABEL

from bayespoint import BayesPointClassifier, active
from bayespoint.active.scikit_activeml import PosteriorQuery


def machine(**settings):
    return BayesPointClassifier(
        **{
            "inference": "billiard",
            "n_draws": 12,
            "random_state": 0,
            **FIXED,
            "gamma": 0.5,
            **settings,
        }
    )


def wrapped(missing_label=MISSING_LABEL, classes=(0, 1), **settings):
    """Fit for scikit-activeml."""
    return SklearnClassifier(
        machine(**settings), classes=list(classes), missing_label=missing_label
    )


def pool(n=40, n_labelled=8, n_classes=2):
    """Points in the plane, the labels of the first of them, and all labels."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    truth = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(float)
    if n_classes == 3:
        truth[X[:, 1] < -0.3] = 2.0
    y = np.full(n, MISSING_LABEL)
    y[:n_labelled] = truth[:n_labelled]
    return X, y, truth


def assert_consistent(indices, utilities, possible):
    """Each row is largest at the point chosen; NaN where a point cannot be, or was, chosen."""
    assert utilities.shape == (len(indices), len(possible))
    assert len(np.unique(indices)) == len(indices)
    for k, row in enumerate(utilities):
        taken = np.zeros(len(possible), dtype=bool)
        taken[indices[:k]] = True
        assert_array_equal(np.isnan(row), ~possible | taken)
        assert np.nanargmax(row) == indices[k]
        assert row[indices[k]] == np.nanmax(row) >= 0


# ---------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize(
    ("strategy", "n_classes", "batch_size"), [("entropy", 3, 5), ("bald", 2, 5), ("bald", 3, 1)]
)
def test_all_rows_without_a_label(strategy, n_classes, batch_size):
    X, y, _ = pool(n_classes=n_classes)
    clf = wrapped(classes=range(n_classes))
    query = PosteriorQuery(strategy, random_state=0)
    indices = query.query(X, y, clf, batch_size=batch_size)
    assert indices.shape == (batch_size,)
    assert np.all(np.isnan(y[indices]))
    again, utilities = query.query(X, y, clf, batch_size=batch_size, return_utilities=True)
    assert_array_equal(again, indices)
    assert_consistent(indices, utilities, np.isnan(y))


def test_it_asks_what_we_would_ask():
    X, y, _ = pool()
    known = ~np.isnan(y)
    fitted = machine().fit(X[known], y[known])
    for batch_size in (1, 5):
        expected = np.flatnonzero(~known)[active.query(fitted, X[~known], batch_size)]
        found, utilities = PosteriorQuery().query(
            X, y, wrapped(), batch_size=batch_size, return_utilities=True
        )
        assert_array_equal(found, expected)
        assert_allclose(utilities[0, ~known], active.utilities(fitted, X[~known]), atol=1e-12)


@pytest.mark.parametrize("strategy", ["entropy", "bald"])
def test_candidates_as_rows_and_as_points(strategy):
    X, y, _ = pool()
    query, clf = PosteriorQuery(strategy, random_state=0), wrapped()
    options = {"batch_size": 3, "return_utilities": True}
    rows = np.array([30, 12, 25, 9, 17, 38])
    by_row, u_row = query.query(X, y, clf, candidates=rows, **options)
    assert set(by_row) <= set(rows)
    assert_consistent(by_row, u_row, np.isin(np.arange(len(X)), rows))
    by_point, u_point = query.query(X, y, clf, candidates=X[np.sort(rows)], **options)
    assert_array_equal(np.sort(rows)[by_point], by_row)
    assert_consistent(by_point, u_point, np.ones(len(rows), dtype=bool))
    assert_allclose(u_point, u_row[:, np.sort(rows)], atol=1e-12)
    # Points that are no rows of X; and a row that has a label already.
    new = X[rows] + 0.01
    indices, utilities = query.query(X, y, clf, candidates=new, **options)
    assert_consistent(indices, utilities, np.ones(len(rows), dtype=bool))
    assert_array_equal(query.query(X, y, clf, candidates=[3]), [3])


def test_a_batch_larger_than_what_there_is():
    """First all that differ, then copies; more than there are is a warning of scikit-activeml."""
    X, y, _ = pool(n=14)
    X, y = np.vstack([X, X[8:10], X[8:10]]), np.append(y, np.full(4, MISSING_LABEL))
    query = PosteriorQuery(random_state=0)
    indices, utilities = query.query(X, y, wrapped(), batch_size=10, return_utilities=True)
    assert_array_equal(np.sort(indices), np.arange(8, 18))
    assert len(np.unique(X[indices[:6]], axis=0)) == 6
    assert_consistent(indices, utilities, np.isnan(y))
    with pytest.warns(UserWarning, match="batch_size"):
        assert len(query.query(X, y, wrapped(), batch_size=99)) == 10


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize("known", [[], [0.0], [1.0, 1.0]], ids=str)
def test_with_fewer_than_two_classes_any_point_is_as_good(known):
    X, y, _ = pool()
    y[:] = MISSING_LABEL
    y[: len(known)] = known
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The 'base_estimator' could not be fitted")
        for batch_size in (1, 4):
            indices, utilities = PosteriorQuery(random_state=0).query(
                X, y, wrapped(), batch_size=batch_size, return_utilities=True
            )
            assert len(np.unique(indices)) == batch_size
            assert np.all(np.isnan(y[indices]))
            assert_array_equal(np.isnan(utilities[0]), ~np.isnan(y))
            assert_array_equal(utilities[0][np.isnan(y)], 0.0)
        one = {
            int(PosteriorQuery(random_state=seed).query(X, y, wrapped())[0]) for seed in range(12)
        }
        assert len(one) > 5  # at random
        found = PosteriorQuery(random_state=0).query(X, y, wrapped(), candidates=X[10:14] + 0.1)
    assert 0 <= found[0] < 4


@pytest.mark.parametrize(
    ("missing", "names"), [(-1, [0, 1]), (None, ["a", "b"]), ("?", ["no", "yes"])], ids=str
)
def test_other_marks_of_a_missing_label(missing, names):
    X, y, _ = pool()
    labels = np.array([missing if np.isnan(label) else names[int(label)] for label in y])
    if missing is None:
        labels = labels.astype(object)
    query = PosteriorQuery(missing_label=missing)
    found = query.query(X, labels, wrapped(missing, names), batch_size=3)
    assert_array_equal(found, PosteriorQuery().query(X, y, wrapped(), batch_size=3))
    with pytest.raises((ValueError, TypeError), match=r"missing_label|uniformly"):
        query.query(X, labels, wrapped(classes=names))


def test_sample_weights_reach_the_classifier():
    X, y, _ = pool()
    weight = np.linspace(0.5, 5.0, len(y))
    known = ~np.isnan(y)
    fitted = machine(label_noise=0.2).fit(X[known], y[known], weight[known])
    expected = active.utilities(fitted, X[~known])
    clf = wrapped(label_noise=0.2)
    _, utilities = PosteriorQuery().query(X, y, clf, sample_weight=weight, return_utilities=True)
    assert_allclose(utilities[0, ~known], expected, atol=1e-12)
    _, plain = PosteriorQuery().query(X, y, clf, return_utilities=True)
    assert not np.allclose(plain[0, ~known], expected)
    with pytest.raises(ValueError, match="sample_weight"):
        PosteriorQuery().query(X, y, clf, sample_weight=weight[:-1])


# ---------------------------------------------------------------------- classifiers


def test_a_classifier_that_is_fitted_is_left_alone():
    X, y, truth = pool()
    clf = wrapped()
    PosteriorQuery().query(X, y, clf)
    assert not hasattr(clf, "is_fitted_")  # a copy was fitted
    others = np.full(len(y), MISSING_LABEL)
    others[-8:] = truth[-8:]
    fitted = wrapped().fit(X, others)
    expected = fitted.predict_proba(X)
    _, utilities = PosteriorQuery().query(X, y, fitted, fit_clf=False, return_utilities=True)
    unknown = np.isnan(y)
    assert_allclose(
        utilities[0, unknown], active.utilities(fitted.estimator_, X[unknown]), atol=1e-12
    )
    assert_array_equal(fitted.predict_proba(X), expected)
    _, refitted = PosteriorQuery().query(X, y, fitted, fit_clf=True, return_utilities=True)
    assert not np.allclose(refitted[0, unknown], utilities[0, unknown])


def test_pipelines():
    X, y, _ = pool()
    X = X * [1, 100]
    clf = SklearnClassifier(make_pipeline(StandardScaler(), machine()), classes=[0, 1])
    found = PosteriorQuery().query(X, y, clf, batch_size=3)
    known = ~np.isnan(y)
    pipeline = make_pipeline(StandardScaler(), machine()).fit(X[known], y[known])
    assert_array_equal(found, np.flatnonzero(~known)[active.query(pipeline, X[~known], 3)])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"clf": "x"}, TypeError, "clf"),
        ({"clf": SVC()}, TypeError, "clf"),
        ({"clf": machine()}, TypeError, "clf"),
        ({"clf": SklearnClassifier(SVC(), classes=[0, 1])}, ValueError, "got SVC"),
        ({"fit_clf": "x"}, TypeError, "fit_clf"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": 1.5}, TypeError, "batch_size"),
        ({"return_utilities": "x"}, TypeError, "return_utilities"),
        ({"X": np.zeros((3, 2))}, ValueError, "inconsistent|shape|samples"),
        ({"candidates": [99]}, (ValueError, IndexError), "candidates|index|range"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(settings, error, message):
    X, y, _ = pool()
    given = {"X": X, "y": y, "clf": wrapped(), **settings}
    with pytest.raises(error, match=message):
        PosteriorQuery(random_state=0).query(**given)


def test_a_strategy_that_does_not_exist_is_named():
    X, y, _ = pool()
    for strategy in ("margin", None, 1):
        with pytest.raises(ValueError, match="strategy must be one of"):
            PosteriorQuery(strategy).query(X, y, wrapped())


# ---------------------------------------------------------------------- as an object


def test_parameters_and_clones():
    query = PosteriorQuery("bald", missing_label=-1, random_state=3)
    expected = {"strategy": "bald", "missing_label": -1, "random_state": 3}
    assert query.get_params() == expected
    assert clone(query).get_params() == expected
    assert query.set_params(strategy="entropy").strategy == "entropy"
    assert PosteriorQuery().get_params()["strategy"] == "entropy"
    X, y, _ = pool()
    query = PosteriorQuery("bald", random_state=3)
    found = query.query(X, y, wrapped(), batch_size=3)
    for other in (clone(query), pickle.loads(pickle.dumps(query)), query):
        assert_array_equal(other.query(X, y, wrapped(), batch_size=3), found)


def test_seeds_of_bald():
    X, y, _ = pool()
    utilities = [
        PosteriorQuery("bald", random_state=seed).query(X, y, wrapped(), return_utilities=True)[1]
        for seed in (0, 0, 1, np.random.RandomState(0))
    ]
    assert_array_equal(utilities[0], utilities[1])
    assert_array_equal(utilities[0], utilities[3])
    assert not np.array_equal(utilities[0], utilities[2], equal_nan=True)


def test_a_loop_that_asks_learns():
    X, y, truth = pool(n=80, n_labelled=4)
    clf = wrapped(label_noise=0.02)
    for strategy in ("entropy", "bald", "entropy", "bald"):
        query = PosteriorQuery(strategy, random_state=0)
        asked = query.query(X, y, clf, batch_size=5)
        assert np.all(np.isnan(y[asked]))
        y[asked] = truth[asked]
    assert np.count_nonzero(~np.isnan(y)) == 24
    assert clf.fit(X, y).score(X, truth) > 0.85


# ---------------------------------------------------------------------- as a committee


@pytest.mark.parametrize(
    ("method", "inference"),
    [
        ("KL_divergence", "billiard"),
        ("vote_entropy", "perceptron"),
        ("variation_ratios", "billiard"),
    ],
)
def test_query_by_committee(method, inference):
    X, y, _ = pool()
    committee = QueryByCommittee(
        method=method, sample_predictions_method_name="sample_proba",
        sample_predictions_dict={"n_samples": 30, "random_state": 0}, random_state=0,
    )  # fmt: skip
    clf = wrapped(inference=inference)
    indices, utilities = committee.query(X, y, ensemble=clf, batch_size=2, return_utilities=True)
    assert indices.shape == (2,)
    assert np.all(np.isnan(y[indices]))
    assert_array_equal(np.isnan(utilities[0]), ~np.isnan(y))
    assert np.nanmax(utilities) > 0
    again = committee.query(X, y, ensemble=clf, batch_size=2)
    assert_array_equal(again, indices)
