"""Classifiers and pools that `active` takes, and what it refuses."""

import importlib
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.pools import asked, asking, labelled
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import active


def test_pipelines_and_searches():
    X, y, pool = labelled(n=24)
    X, pool = X * [1, 100] + 7, pool * [1, 100] + 7
    scaler = StandardScaler().fit(X)
    clf = asking().fit(scaler.transform(X), y)
    pipeline = make_pipeline(StandardScaler(), asking()).fit(X, y)
    for n in (1, 5):
        expected = active.query(clf, scaler.transform(pool), n)
        assert_array_equal(active.query(pipeline, pool, n), expected)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), asking()), {"bayespointclassifier__gamma": [0.5]}, cv=2
    ).fit(X, y)
    assert_array_equal(active.query(search, pool, 5), expected)
    alone = GridSearchCV(asking(), {"gamma": [0.5]}, cv=2).fit(scaler.transform(X), y)
    assert_array_equal(active.query(alone, scaler.transform(pool), 5), expected)


@pytest.mark.parametrize(("strategy", "n_classes"), [("entropy", 2), ("bald", 3)])
def test_sparse_pools_and_lists(strategy, n_classes):
    X, y, pool = labelled(n_classes=n_classes)
    pool[np.abs(pool) < 0.5] = 0.0
    clf = asked(n_classes)
    expected = active.query(clf, pool, 5, strategy=strategy, random_state=0)
    for given in (sp.csr_matrix(pool), sp.csc_matrix(pool), pool.tolist(), np.asfortranarray(pool)):
        found = active.query(clf, given, 5, strategy=strategy, random_state=0)
        assert_array_equal(found, expected)
    sparse = asking().fit(sp.csr_matrix(X), y)
    found = active.query(sparse, sp.csr_matrix(pool), 5, strategy=strategy, random_state=0)
    assert found.shape == (5,)
    assert len(np.unique(found)) == 5


def test_labels_of_any_type():
    X, y, pool = labelled(n_classes=3)
    names = np.array(["b", "a", "c"])[y]
    chosen = active.query(asking().fit(X, names), pool, 5)
    assert chosen.dtype.kind == "i"
    assert len(np.unique(chosen)) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "margin"}, r"strategy must be one of .*entropy.*bald.*got 'margin'"),
        ({"strategy": None}, r"strategy must be one of .*got None"),
        ({"strategy": ["entropy"]}, r"strategy must be one of"),
        ({"n": 0}, r"n must be a whole number >= 1"),
        ({"n": 2.0}, r"n must be a whole number >= 1"),
        ({"n": True}, r"n must be a whole number >= 1"),
        ({"n": None}, r"n must be a whole number >= 1"),
        ({"random_state": "x"}, r"random_state must be None, a whole number"),
        ({"random_state": np.random.default_rng(0)}, r"random_state must be None"),
        ({"X_pool": np.zeros((3, 5))}, r"X has 5 features.*expecting 2"),
        ({"X_pool": np.full((3, 2), np.nan)}, r"NaN"),
        ({"X_pool": np.zeros((0, 2))}, r"0 sample"),
        ({"X_pool": np.zeros(2)}, r"2D array"),
        ({"clf": SVC().fit([[0, 0], [1, 1]], [0, 1])}, r"clf must be a BayesPointClassifier.*SVC"),
        ({"clf": "x"}, r"(?i)clf|estimator"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_named(settings, message):
    _, _, pool = labelled()
    given = {"clf": asked(), "X_pool": pool, **settings}
    with pytest.raises((ValueError, TypeError), match=message):
        active.query(**given)


def test_a_classifier_that_is_not_fitted_is_refused():
    for clf in (asking(), make_pipeline(StandardScaler(), asking())):
        for function in (active.query, active.utilities):
            with pytest.raises(NotFittedError):
                function(clf, [[0.0, 0.0]])


def test_a_compressed_classifier_has_no_draws_to_ask():
    _, _, pool = labelled()
    small = asked(decision="bayes_point").compress()
    for strategy in ("entropy", "bald"):
        with pytest.raises(ValueError, match="holds no draws"):
            active.query(small, pool, strategy=strategy)


def test_without_scikit_activeml_its_strategy_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "bayespoint.active.scikit_activeml", raising=False)
    for name in ("skactiveml", "skactiveml.base"):  # another test may have imported them
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"scikit-activeml.*pip install 'bayespoint\[active\]'"):
        importlib.import_module("bayespoint.active.scikit_activeml")
