"""Columns of one group: one width, and one figure of how much they matter."""

import numpy as np
import pytest
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from bayespoint import BayesPointClassifier
from bayespoint.estimators.width_learning import Columns
from bayespoint.io import model_file

GIVEN = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
GROUPS = ["number", "noise", *["word"] * 4, *["idle"] * 3]


def table(n=150, seed=0):
    """A number and a word of four values decide, one against the other; the rest is noise."""
    rng = np.random.default_rng(seed)
    word, idle = rng.choice(4, n, p=(0.4, 0.4, 0.1, 0.1)), rng.integers(0, 3, n)
    X = np.hstack([rng.standard_normal((n, 2)), np.eye(4)[word], np.eye(3)[idle]])
    return X, (X[:, 0] > 0) ^ (word % 2 == 0)


def fitted(X, y, **settings):
    return BayesPointClassifier(**{**GIVEN, **settings}).fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_group_has_one_width(kernel):
    X, y = table()
    one = fitted(X, y, gamma="ard", kernel=kernel)
    assert len(set(one.gamma_[2:6])) > 1  # values of a word are not equally frequent
    clf = fitted(X, y, gamma="ard", kernel=kernel, feature_groups=GROUPS)
    assert_allclose(clf.gamma_[2:6], clf.gamma_[2], rtol=1e-12)
    assert_allclose(clf.gamma_[6:], clf.gamma_[6], rtol=1e-12)
    assert clf.gamma_[2] > 10 * clf.gamma_[6]
    assert len(set(clf.gamma_.tolist())) == 4
    new, labels = table(300, seed=1)
    assert clf.score(new, labels) > 0.9


def test_labels_may_be_numbers_texts_or_arrays():
    X, y = table(80)
    numbers = [7, 0, 3, 3, 3, 3, -1, -1, -1]
    wanted = fitted(X, y, gamma="ard", feature_groups=GROUPS).gamma_
    for groups in (numbers, np.array(numbers, np.int8), tuple(GROUPS), np.array(GROUPS)):
        assert_array_equal(fitted(X, y, gamma="ard", feature_groups=groups).gamma_, wanted)
    alone = fitted(X, y, gamma="ard", feature_groups=list(range(9)))
    assert_array_equal(alone.gamma_, fitted(X, y, gamma="ard").gamma_)


def test_one_unit_for_a_group():
    """The root mean square of its columns', constant ones apart."""
    columns = Columns(np.array([1.0, 3.0, 4.0, np.inf, np.inf]), True, False)
    found = columns.grouped(np.array([0, 1, 1, 1, 2])).unit
    assert_allclose(found, [1.0, np.sqrt(12.5), np.sqrt(12.5), np.inf, np.inf])


def test_constant_columns_of_a_group_take_no_part():
    X, y = table(80)
    X[:, 5] = 0.0
    clf = fitted(X, y, gamma="ard", feature_groups=GROUPS)
    assert clf.gamma_[5] == 0
    assert_allclose(clf.gamma_[2:5], clf.gamma_[2], rtol=1e-12)


def test_one_group_is_one_width():
    X, y = table(80)
    clf = fitted(X[:, 2:6], y, gamma="held-out", feature_groups=["word"] * 4)
    assert set(clf.gamma_choice_["gain"]) <= {"one width", "one width, columns scaled"}


def test_groups_are_not_used_where_no_widths_are_learnt():
    X, y = table(60)
    for settings in ({}, {"kernel": "linear"}, {"inference": "perceptron", "n_draws": 5}):
        one, other = (fitted(X, y, **settings, feature_groups=g) for g in (None, GROUPS))
        assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    gram = fitted(X @ X.T, y, kernel="precomputed", feature_groups=GROUPS)
    assert gram.score(X @ X.T, y) > 0.5


def test_bad_groups_are_refused():
    X, y = table(30)
    cases = [
        ({"feature_groups": GROUPS[:3]}, r"feature_groups must hold one label.* 9 columns.*got 3"),
        ({"feature_groups": np.zeros((9, 1), int)}, "feature_groups must be None or a list"),
        ({"feature_groups": [*GROUPS[:8], np.nan]}, "feature_groups must be .* got nan"),
        ({"feature_groups": [*GROUPS[:8], None]}, "feature_groups must be .* got None"),
        ({"feature_groups": np.zeros(9)}, "feature_groups must be .* got .*0.0"),
        ({"feature_groups": "groups"}, "feature_groups must be .* got 'groups'"),
        ({"feature_groups": 3}, "feature_groups must be .* got 3"),
    ]
    assert_refused(fitted, cases, X=X, y=y)


def test_importances_leave_groups_out_together():
    X, y = table()
    clf = fitted(X, y, feature_groups=GROUPS)
    found, error = clf.feature_importances_, clf.feature_importances_std_
    for columns in (slice(2, 6), slice(6, 9)):
        assert_array_equal(found[columns], found[columns][0])
        assert_array_equal(error[columns], error[columns][0])
    assert found[2] > 5 * error[2]
    assert abs(found[6]) < 3 * error[6]
    alone = fitted(X, y).feature_importances_
    assert_allclose(found[:2], alone[:2], rtol=1e-9)
    assert found[2] > 2 * max(alone[2:6])  # what one column says of a word, the others say, too


def test_copies_and_files_keep_groups_and_importances(tmp_path):
    X, y = table(60)
    clf = fitted(X, y, feature_groups=GROUPS)
    assert clone(clf).feature_groups == clf.get_params()["feature_groups"] == GROUPS
    assert clf.settled().feature_groups == GROUPS
    wanted = clf.feature_importances_
    model_file.save(tmp_path / "m.bpm", clf)
    loaded = model_file.load(tmp_path / "m.bpm").classifier
    assert loaded.feature_groups == GROUPS
    assert_array_equal(loaded.feature_importances_, wanted)
    assert_array_equal(loaded.feature_importances_std_, clf.feature_importances_std_)
    assert model_file.describe(tmp_path / "m.bpm")["settings"]["feature_groups"] == GROUPS
    with pytest.raises(AttributeError, match="not available before fit"):
        _ = clf.settled().feature_importances_
    clf.fit(X[:40], y[:40])
    assert clf.trained_.importances is None


def test_other_groups_are_another_fit():
    X, y = table(60)
    clf = fitted(X, y, inference="perceptron", n_draws=5, warm_start=True, feature_groups=GROUPS)
    clf.set_params(n_draws=6, feature_groups=tuple(GROUPS)).fit(X, y)
    assert clf.n_draws_ == 6
    with pytest.raises(ValueError, match=r"\['feature_groups'\] changed"):
        clf.set_params(feature_groups=None).fit(X, y)
