"""``held_out_proba_`` is what the model says of a row that it has not seen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logit
from sklearn.datasets import make_blobs, make_moons

from bayespoint import BayesPointClassifier

KINDS = [("ep", "vote"), ("ep", "calibrated"), ("ep", "bayes_point"), ("perceptron", "auto")]
SETTINGS = {"gamma": 1.0, "softness": 0.2, "bias": 1.0, "n_draws": 40, "random_state": 0}


def fitted(X, y, inference, decision, weight=None, **more):
    clf = BayesPointClassifier(inference=inference, decision=decision, **SETTINGS | more)
    return clf.fit(X, y, weight)


def moons(n=60):
    return make_moons(n, noise=0.3, random_state=0)


def scores(p):
    return np.log(p[:, 1] / p[:, 0])


@pytest.mark.parametrize(("decision", "tolerance"), [("vote", 0.02), ("bayes_point", 0.05)])
def test_propagation_says_what_a_fit_without_the_row_says(decision, tolerance):
    """In log-odds, up to slope and offset of the link, which each fit has of its own."""
    X, y = moons()
    told = scores(fitted(X, y, "ep", decision).held_out_proba_)
    refitted = np.empty(len(y))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        clf = fitted(X[others], y[others], "ep", decision)
        p = clf.predict_proba(X[[i]]) if decision == "vote" else None
        refitted[i] = scores(p)[0] if decision == "vote" else clf.cosines(X[[i]])[0]
    slope, offset = np.polyfit(refitted, told, 1)
    if decision == "vote":  # no link
        assert slope == pytest.approx(1, abs=0.02)
    assert np.std(told - slope * refitted - offset) < tolerance * np.std(told)
    seen = scores(fitted(X, y, "ep", decision).predict_proba(X))
    assert np.std(seen - slope * refitted - offset) > 2 * tolerance * np.std(told)


def test_classes_of_a_row_are_told_as_in_a_fit_without_it():
    """In the mean of log-odds, with a standard error of 0.002.

    By a link that knows the row by what it has others say they are 0.047 too low.
    """
    X, y = make_blobs(100, centers=5, cluster_std=4.0, random_state=0)
    X = X / 5
    told = fitted(X, y, "ep", "calibrated").held_out_proba_[np.arange(len(y)), y]
    refitted = np.empty(len(y))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        clf = fitted(X[others], y[others], "ep", "calibrated")
        refitted[i] = clf.predict_proba(X[[i]])[0, y[i]]
    apart = logit(told) - logit(refitted)
    assert abs(np.mean(apart)) < 0.01


@pytest.mark.parametrize(("inference", "decision"), KINDS)
def test_labels_at_random_cannot_be_told(inference, decision):
    """Of 300 coin flips at most 185 are told with probability 1 - 3e-5; of rows seen, all are."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(2, size=300)
    clf = fitted(X, y, inference, decision, softness=0.01)
    assert np.sum(clf.held_out_proba_.argmax(axis=1) == y) <= 185
    assert np.sum(clf.predict(X) == y) > 270


@pytest.mark.parametrize(("inference", "decision"), KINDS)
def test_rows_columns_and_sums(inference, decision):
    X, label = make_blobs(60, centers=3, cluster_std=2.0, random_state=0)
    y = np.array(["b", "a", "c"])[label]
    weight = np.ones(60)
    weight[7] = 0.0
    clf = fitted(X, y, inference, decision, weight)
    p = clf.held_out_proba_
    assert p.shape == (60, 3)
    assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    assert np.mean(clf.classes_[p.argmax(axis=1)] == y) > 0.55  # a third by chance
    assert_allclose(p[7], clf.predict_proba(X[[7]])[0], atol=1e-6)  # it was not seen


@pytest.mark.parametrize(("inference", "decision"), KINDS)
def test_one_of_equal_rows_is_left_out(inference, decision):
    X, y = moons(50)
    X[0] = [5.0, 5.0]  # far from all others
    alone = fitted(X, y, inference, decision).held_out_proba_
    X, y = np.vstack([X, X[[0]]]), np.append(y, y[0])
    again = fitted(X, y, inference, decision).held_out_proba_
    assert_array_equal(again[0], again[-1])
    assert again[0, y[0]] > alone[0, y[0]] + 0.05  # the other one tells


@pytest.mark.parametrize(("inference", "decision"), KINDS)
def test_weights_do_not_give_the_label_away(inference, decision):
    """Of 150 coin flips at most 104 are told with probability 1 - 1e-6."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 3)), rng.integers(2, size=150)
    clf = fitted(X, y, inference, decision, np.full(150, 10.0), softness=0.5)
    assert np.sum(clf.held_out_proba_.argmax(axis=1) == y) <= 104


def test_equal_rows_with_both_labels_do_not_turn_the_link_around():
    """Few distinct rows, each with both labels: the more frequent one is told."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(600, 4)).astype(float)
    y = (rng.random(600) < np.where(X[:, 0] > 0, 0.8, 0.2)).astype(int)
    settings = {"softness": 1.0, "gamma": 0.5}
    point = fitted(X, y, "ep", "bayes_point", **settings)
    votes = fitted(X, y, "ep", "calibrated", **settings)
    assert point.score(X, y) == pytest.approx(votes.score(X, y), abs=0.02)
    assert_allclose(point.predict_proba(X), votes.predict_proba(X), atol=0.15)


def test_there_is_none_without_leaving_rows_out():
    X, y = moons()
    few = BayesPointClassifier(inference="perceptron", **SETTINGS | {"n_draws": 4}).fit(X, y)
    for clf in (few, fitted(X, y, "billiard", "vote")):
        with pytest.raises(AttributeError, match="inference='ep'"):
            clf.held_out_proba_  # noqa: B018


def test_a_gram_matrix_in_any_order():
    X, y = make_blobs(90, centers=4, cluster_std=2.5, random_state=0)
    K = np.exp(-0.05 * np.sum((X[:, None] - X) ** 2, axis=-1))
    order = np.random.default_rng(0).permutation(90)
    one = fitted(K, y, "ep", "calibrated", kernel="precomputed")
    other = fitted(K[np.ix_(order, order)], y[order], "ep", "calibrated", kernel="precomputed")
    assert_allclose(other.held_out_proba_, one.held_out_proba_[order], atol=1e-5)
    assert_allclose(other.predict_proba(K[:, order]), one.predict_proba(K), atol=1e-6)
