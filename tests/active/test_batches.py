"""Batches of points to have labelled: the greedy choice by hand, copies, large pools."""

import joblib
import numpy as np
import pytest
from helpers.classifiers import by_hand, flowers, softened_gram
from helpers.pools import asked, asking, entropy, labelled
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import active
from bayespoint.active import queries
from bayespoint.active.queries import query_with_utilities
from bayespoint.space.posterior import dense


def covariance_by_hand(clf, X, pool):
    """Posterior covariance of the latent outputs at unit points, summed over machines.

    Draws are unit vectors; the squared length of a Gaussian vector is its dimension, on average.
    """
    cross, length = by_hand(clf, pool, X)
    gram, _ = by_hand(clf, pool, pool)
    unit = np.outer(length, length)
    beyond = (gram - cross @ np.linalg.solve(softened_gram(clf, X), cross.T)) / unit
    total = np.zeros_like(beyond)
    for machine in range(len(clf.dual_coef_)):
        outputs = clf.posterior(machine).coef @ (cross / length[:, None]).T
        total += len(X) * np.cov(outputs.T, bias=True) + beyond
    return total


def greedy_by_hand(values, C, n):
    """Choose by value times share of variance left, conditional variances solved for anew."""
    chosen, worth = [], []
    for _ in range(n):
        left = C.diagonal().copy()
        if chosen:
            part = C[chosen]
            left -= np.sum(part * np.linalg.solve(part[:, chosen], part), axis=0)
        now = values * (left / C.diagonal())
        now[chosen] = np.nan
        worth.append(now)
        chosen.append(int(np.nanargmax(now)))
    return chosen, np.array(worth)


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [
        (2, {}),
        (3, {"softness": 0.0, "label_noise": 0.1}),
        (2, {"kernel": "laplacian", "normalize_kernel": False, "bias": 0.0}),
        (3, {"kernel": "poly", "degree": 4, "normalize_kernel": False}),
        (3, {"inference": "gibbs", "kernel": "poly"}),
    ],
    ids=str,
)
def test_batches_by_hand(n_classes, settings):
    X, _, pool = labelled(n_classes=n_classes, n_pool=30)
    clf = asked(n_classes, **settings)
    C = covariance_by_hand(clf, X, pool)
    chosen, worth = query_with_utilities(clf, pool, 6, "entropy", None)
    expected, by_hand_ = greedy_by_hand(active.utilities(clf, pool), C, 6)
    assert_array_equal(chosen, expected)
    assert_allclose(worth, by_hand_, atol=1e-6)
    assert_array_equal(active.query(clf, pool, 6), expected)
    # Variances alone would not do: this is no independent choice of the best.
    assert set(chosen) != set(np.argsort(-active.utilities(clf, pool))[:6])


@pytest.mark.parametrize(
    ("inference", "decision"), [("perceptron", "bayes_point"), ("billiard", "span_vote")]
)
def test_batches_without_votes_know_the_draws_alone(inference, decision):
    X, _, pool = labelled()
    clf = asked(inference=inference, decision=decision)
    cross, _ = by_hand(clf, pool, X)
    outputs = dense(clf.posterior(0).coef) @ cross.T
    expected, _ = greedy_by_hand(active.utilities(clf, pool), np.cov(outputs.T), 5)
    assert_array_equal(active.query(clf, pool, 5), expected)


def test_batches_from_gram_matrices():
    X, y, pool = labelled()
    clf = asking(kernel="precomputed", bias=0.0).fit(rbf_kernel(X, X, 0.5), y)
    cross = rbf_kernel(pool, X, 0.5)
    outputs = clf.posterior(0).coef @ cross.T
    values = active.utilities(clf, cross)
    assert_allclose(values, entropy(clf.predict_proba(cross)), atol=1e-12)
    expected, _ = greedy_by_hand(values, np.cov(outputs.T), 5)
    assert_array_equal(active.query(clf, cross, 5), expected)


@pytest.mark.parametrize(("strategy", "decision"), [("entropy", "bayes_point"), ("bald", "vote")])
def test_one_point_is_the_most_useful_one(strategy, decision):
    _, _, pool = labelled()
    clf = asked(3, decision=decision)
    values = active.utilities(clf, pool, strategy=strategy, random_state=3)
    found = active.query(clf, pool, strategy=strategy, random_state=3)
    assert_array_equal(found, [values.argmax()])
    assert active.query(clf, pool, 4, strategy=strategy, random_state=3)[0] == values.argmax()


# ---------------------------------------------------------------------- copies


@pytest.mark.parametrize(
    ("strategy", "n_classes", "settings"),
    [
        ("entropy", 2, {}),
        ("bald", 3, {}),
        ("entropy", 3, {"decision": "bayes_point"}),
        ("bald", 2, {"kernel": "poly"}),
    ],
    ids=str,
)
def test_copies_are_never_asked_for_twice(strategy, n_classes, settings):
    _, _, pool = labelled()
    clf = asked(n_classes, **settings)
    chosen = active.query(clf, np.tile(pool[:8], (4, 1)), 20, strategy=strategy, random_state=0)
    assert len(np.unique(chosen % 8)) == len(chosen)
    assert 5 <= len(chosen) <= 8


def test_all_there_is_and_no_more():
    _, _, pool = labelled()
    clf = asked()
    assert_array_equal(np.sort(active.query(clf, pool[:8], 100)), np.arange(8))
    assert len(active.query(clf, np.tile(pool[0], (9, 1)), 5)) == 1
    assert_array_equal(active.query(clf, pool[:1], 1), [0])


@pytest.mark.parametrize(("kernel", "strategy"), [("rbf", "bald"), ("laplacian", "entropy")])
def test_near_copies_are_asked_for_last(kernel, strategy):
    _, _, pool = labelled()
    clf = asked(kernel=kernel)
    rng = np.random.default_rng(0)
    near = np.tile(pool[:10], (5, 1))
    near[10:] += 1e-6 * rng.normal(size=near[10:].shape)
    chosen = active.query(clf, near, 10, strategy=strategy, random_state=0)
    assert_array_equal(np.sort(chosen % 10), np.arange(10))
    if kernel == "rbf":  # smooth: then there are no others
        assert len(active.query(clf, near, 50, strategy=strategy, random_state=0)) == 10
    # A negative control: by their utilities alone they would be asked for.
    best = np.argsort(-active.utilities(clf, near, strategy=strategy, random_state=0))[:10]
    assert len(np.unique(best % 10)) < 5


# ---------------------------------------------------------------------- pools


def test_the_most_useful_points_are_looked_at():
    """A thousand, or ten for each that is asked for."""
    _, _, pool = labelled(n_pool=1200)
    clf = asked()
    best = np.argsort(-active.utilities(clf, pool))
    for n in (2, 105):
        most = max(queries.CANDIDATES_EACH * n, queries.LEAST_CANDIDATES)
        chosen, worth = query_with_utilities(clf, pool, n, "entropy", None)
        assert chosen[0] == best[0]
        assert set(chosen) <= set(best[:most])
        assert_array_equal(worth[:, best[most:]], 0.0)
        assert np.all(worth[0, best[:most]] > 0)


def test_where_nothing_is_doubtful_points_are_found_all_the_same():
    X, y = np.array([[-1.0], [1.0]]), [0, 1]
    clf = asking(kernel="linear", bias=0.0, softness=0.0).fit(X, y)
    pool = np.array([[1.0], [2.0], [-3.0]])
    assert_allclose(active.utilities(clf, pool), 0.0, atol=1e-12)
    assert len(active.query(clf, pool, 1)) == 1


def test_asking_beats_chance():
    """Two gaussians far from the labels at hand: the boundary is asked for, not the far ends."""
    X, y, new, _ = flowers(2)
    clf = asking(gamma=0.2).fit(X[:6], y[:6])
    p = clf.predict_proba(new)[:, 1]
    chosen = active.query(clf, new, 5)
    assert np.abs(p[chosen] - 0.5).mean() < np.abs(p - 0.5).mean()


def test_a_query_changes_nothing_and_is_the_same_again():
    X, y, pool = labelled()
    clf = asked(softness=1.0)
    before = joblib.hash(vars(clf))
    batches = [active.query(clf, pool, 5, strategy="bald", random_state=0) for _ in range(2)]
    assert_array_equal(*batches)
    chosen = active.query(clf, pool, 5)
    assert_array_equal(active.query(clf, pool, 5), chosen)
    assert joblib.hash(vars(clf)) == before
    threads = asking(softness=1.0, n_jobs=2).fit(X, y)
    assert_array_equal(active.query(threads, pool, 5), chosen)
