"""Models know the rows again that they learnt, by hashes: in files and in streams as well."""

import numpy as np
import pytest

from bayespoint import BayesPointClassifier
from bayespoint.cli.fitted import count_known
from bayespoint.io.model_file import load, save

GIVEN = {"gamma": 0.5, "softness": 0.1, "bias": 1.0, "random_state": 0}


def rows(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, np.where(X[:, 0] > 0, "a", "b")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_rows_are_known_again_and_no_others(tmp_path, dtype):
    X, y = rows(200)
    clf = BayesPointClassifier(inference="perceptron", n_draws=5, **GIVEN).fit(X.astype(dtype), y)
    assert len(clf.support_) < 200  # by these alone not all would be
    save(tmp_path / "m.bpm", clf)
    for model in (clf, load(tmp_path / "m.bpm").classifier):
        assert count_known(model, X) == 200
        assert count_known(model, np.vstack([X[:3], -X])) == 3


def test_a_stream_knows_rows_that_it_holds_no_more():
    X, y = rows(600)
    clf = BayesPointClassifier(half_life=5, cell_size=50, n_landmarks=0, **GIVEN)
    for first in range(0, 600, 100):
        clf.partial_fit(X[first : first + 100], y[first : first + 100])
    clf.absorb()
    assert clf.stream_.dropped
    assert count_known(clf, X) == 600
    assert count_known(clf, X + 1) == 0
    hashes = clf.trained_.hashes
    np.testing.assert_array_equal(hashes, np.unique(hashes))  # in order, none twice
    assert len(hashes) == 600


def test_a_merged_stream_knows_rows_that_the_other_one_holds_no_more():
    X, y = rows(700)
    clf = BayesPointClassifier(half_life=5, cell_size=50, n_landmarks=0, **GIVEN)
    clf.partial_fit(X[:100], y[:100])
    other = clf.fresh()
    for first in range(100, 700, 100):
        other.partial_fit(X[first : first + 100], y[first : first + 100])
    assert other.absorb().stream_.dropped
    assert count_known(clf.merge(other), X) == 700
