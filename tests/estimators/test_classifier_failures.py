"""A fit that fails, is refused or is cut short."""

import numpy as np
import pytest
from helpers.classifiers import MAKERS, perceptrons
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

from bayespoint import BayesPointClassifier, EmptyVersionSpaceError

IRIS, LABELS = (part[::2] for part in load_iris(return_X_y=True))


def failing_kernel(A, B):  # noqa: ARG001
    raise RuntimeError("no kernel today")


@pytest.mark.parametrize(
    ("settings", "X"),
    [
        ({"warm_start": True}, IRIS + 1),
        ({"kernel": failing_kernel}, IRIS + 1),
        ({"class_weight": {"no such class": 2.0}}, 2 * IRIS),
        ({"decision": "vote", "cache_size": 0.01}, 2 * IRIS),
        ({"kernel": "linear", "softness": 0}, IRIS - 3),
    ],
)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_failed_fit_leaves_the_model_that_was_there(make, settings, X):
    clf = make(n_draws=3, random_state=0).fit(IRIS, LABELS)
    before = clf.predict_proba(IRIS)
    usual = {name: clf.get_params()[name] for name in settings}
    with pytest.raises((ValueError, RuntimeError)):
        clf.set_params(**settings).fit(X, LABELS)
    clf.set_params(**usual)
    np.testing.assert_array_equal(clf.predict_proba(IRIS), before)
    assert clf.set_params(warm_start=True, n_draws=5).fit(IRIS, LABELS).n_draws_ == 5


def test_a_draw_cut_short_is_made_anew():
    X, y = make_classification(4000, 20, n_informative=10, random_state=0)
    settings = {"n_draws": 3, "gamma": 1.0, "softness": 0, "tol": 0, "random_state": 0}
    clf = perceptrons(max_time=1e-6, **settings)
    with pytest.warns(ConvergenceWarning):
        clf.fit(X, y)
    assert clf.n_draws_ == 1
    clf.set_params(warm_start=True, max_time=None).fit(X, y)
    at_once = perceptrons(**settings).fit(X, y)
    np.testing.assert_array_equal(clf.dual_coef_, at_once.dual_coef_)
    np.testing.assert_array_equal(clf.predict(X), y)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_each_class_is_asked_whether_its_version_space_is_empty(make):
    # One class can be told from the rest, the other two cannot be told apart.
    X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0], [9, 9], [9, 8]])
    y = np.array([1, 1, 2, 2, 0, 0])
    with pytest.raises(EmptyVersionSpaceError, match=r"for class [12] against the rest"):
        make("linear", softness=0, n_draws=2).fit(X, y)


def test_warnings_point_at_the_line_that_called_fit():
    X = IRIS * [1e6, 1, 1, 1]
    with pytest.warns(UserWarning, match="different scales") as caught:
        BayesPointClassifier(n_draws=2).fit(X, LABELS)
    assert caught[0].filename == __file__
