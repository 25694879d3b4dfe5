"""Which points to have labelled next: utilities by their definitions, batches by hand."""

import importlib
import sys

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED, by_hand, flowers, softened_gram
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import entr, ndtr
from scipy.stats import spearmanr
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, active
from bayespoint.active import queries
from bayespoint.active.queries import query_with_utilities


def entropy(p):
    return entr(p).sum(axis=-1)


def labelled(n=12, n_classes=2, seed=0):
    """Few labelled points in the plane, and a pool around them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    if n_classes == 3:
        y[X[:, 1] < -0.3] = 2
    return X, y, rng.normal(scale=1.5, size=(60, 2))


def classifier(**settings):
    return BayesPointClassifier(
        **FIXED
        | {"inference": "billiard", "n_draws": 40, "gamma": 0.5, "random_state": 0}
        | settings
    )


# ---------------------------------------------------------------------- utilities


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"label_noise": 0.1}, {"decision": "span_vote"}, {"inference": "gibbs"}],
    ids=str,
)
def test_entropy_is_that_of_the_probabilities(n_classes, settings):
    X, y, pool = labelled(n_classes=n_classes)
    clf = classifier(**settings).fit(X, y)
    values = active.utilities(clf, pool)
    assert_allclose(values, entropy(clf.predict_proba(pool)), atol=1e-12)
    assert np.all((values >= 0) & (values <= np.log(n_classes) + 1e-12))


@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_where_the_bayes_point_decides_the_draws_are_the_committee(inference):
    X, y, pool = labelled()
    clf = classifier(inference=inference, decision="bayes_point").fit(X, y)
    members = clf.sample_proba(pool, clf.n_draws_, random_state=1)  # all of them
    assert_allclose(active.utilities(clf, pool), entropy(members.mean(axis=0)), atol=1e-12)


def single_classifiers(clf, X, pool, n, rng, beyond=1.0):
    """Probabilities of labels by single classifiers: direction, length and the part outside drawn.

    ``beyond=0.0``, a negative control, leaves out what is outside the span.
    """
    K, noise = softened_gram(clf, X), clf.label_noise_
    cross, length = by_hand(clf, pool, X)
    inside = np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1) / length**2
    votes = []
    drawn = rng.integers(clf.n_draws_, size=n)
    for machine in range(len(clf.dual_coef_)):
        outputs = clf.posterior(machine).coef[drawn] @ (cross / length[:, None]).T
        radius = np.sqrt(rng.chisquare(len(X), size=(n, 1)))
        outside = beyond * np.sqrt(np.maximum(1 - inside, 0.0))
        f = radius * outputs + rng.standard_normal(outputs.shape) * outside
        yes = ndtr(f / np.sqrt(clf.softness_)) if clf.softness_ else (f > 0) * 1.0
        votes.append(yes)
    p = np.stack([1 - votes[0], votes[0]] if len(votes) == 1 else votes, axis=-1)
    p = np.maximum(p, 1e-300)
    p /= p.sum(axis=-1, keepdims=True)
    return (1 - noise) * p + noise / (p.shape[-1] - 1) * (1 - p)


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [
        (2, {"softness": 1.0}),
        (2, {"softness": 0.0, "label_noise": 0.2}),
        (2, {"softness": 0.5, "label_noise": 0.1, "normalize_kernel": False, "kernel": "poly"}),
        (3, {"softness": 0.5, "label_noise": 0.1}),
    ],
    ids=str,
)
def test_bald_is_what_a_label_tells_about_the_classifier(n_classes, settings, monkeypatch):
    """By brute force, from the definition; either is known to about 0.002."""
    X, y, pool = labelled(n_classes=n_classes)
    clf = classifier(**settings, n_draws=400).fit(X, y)
    monkeypatch.setattr(queries, "MEMBERS", 20_000)
    found = active.utilities(clf, pool[:15], strategy="bald", random_state=0)
    rng, expected = np.random.default_rng(1), []
    for beyond in (1.0, 0.0):
        members = single_classifiers(clf, X, pool[:15], 20_000, rng, beyond)
        expected.append(entropy(members.mean(axis=0)) - entropy(members).mean(axis=0))
    assert_allclose(found, expected[0], atol=0.012)
    # It is neither that of draws in the span nor the entropy.
    assert np.abs(found - expected[1]).max() > 0.02
    assert np.abs(found - active.utilities(clf, pool[:15])).max() > 0.1


@pytest.mark.parametrize("label_noise", [0.0, 0.2])
def test_bald_ranks_as_entropy_without_softness_and_with_one_rate(label_noise, monkeypatch):
    """They then differ by the entropy of the rate."""
    X, y, pool = labelled()
    clf = classifier(softness=0.0, label_noise=label_noise, n_draws=400).fit(X, y)
    monkeypatch.setattr(queries, "MEMBERS", 20_000)
    bald = active.utilities(clf, pool, strategy="bald", random_state=0)
    values = active.utilities(clf, pool)
    assert spearmanr(bald, values).statistic > 0.99
    assert_allclose(values - bald, entropy(np.array([label_noise, 1 - label_noise])), atol=0.02)


def test_bald_is_not_the_entropy_where_softness_makes_labels_uncertain():
    """Many labels on both sides of a line: the classifier is known there, the label is not."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(80, 1)), [[8.0]]])
    clf = classifier(softness=2.0, n_draws=200).fit(X, (X[:, 0] > 0).astype(int))
    pool = np.array([[0.0], [8.5]])  # on the boundary; where one label is all there is
    values, bald = (
        active.utilities(clf, pool, strategy=s, random_state=0) for s in ("entropy", "bald")
    )
    assert values[0] > values[1]
    assert bald[0] < bald[1]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("strategy", ["entropy", "bald"])
def test_what_is_certain_has_no_utility(strategy, n_classes):
    X, y, pool = labelled(n_classes=n_classes)
    clf = classifier(softness=0.0).fit(X, y)
    values = active.utilities(clf, np.vstack([X, pool]), strategy=strategy, random_state=0)
    assert np.all(values >= 0)
    assert_allclose(values[: len(X)], 0.0, atol=1e-4)  # labelled, and labels are sure
    assert values[len(X) :].max() > 0.5


@pytest.mark.parametrize("decision", ["vote", "span_vote", "bayes_point"])
@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_bald_is_never_negative(decision, inference):
    X, y, pool = labelled(n_classes=3)
    clf = classifier(decision=decision, inference=inference, softness=1.0).fit(X, y)
    values = active.utilities(clf, pool, strategy="bald", random_state=0)
    assert values.shape == (len(pool),)
    assert np.all((values >= 0) & (values < np.log(3)))


# ---------------------------------------------------------------------- batches


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


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"softness": 0.0, "label_noise": 0.1},
        {"kernel": "laplacian", "normalize_kernel": False, "bias": 0.0},
        {"kernel": "poly", "degree": 4, "normalize_kernel": False},
        {"inference": "gibbs", "kernel": "poly"},
    ],
    ids=str,
)
def test_batches_by_hand(n_classes, settings):
    X, y, pool = labelled(n_classes=n_classes)
    clf = classifier(**settings).fit(X, y)
    C = covariance_by_hand(clf, X, pool)
    chosen, worth = query_with_utilities(clf, pool, 6, "entropy", None)
    expected, by_hand_ = greedy_by_hand(active.utilities(clf, pool), C, 6)
    assert_array_equal(chosen, expected)
    assert_allclose(worth, by_hand_, atol=1e-6)
    assert_array_equal(active.query(clf, pool, 6), expected)
    # Variances alone would not do: this is no independent choice of the best.
    assert set(chosen) != set(np.argsort(-active.utilities(clf, pool))[:6])


@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
@pytest.mark.parametrize("decision", ["bayes_point", "span_vote"])
def test_batches_without_votes_know_the_draws_alone(inference, decision):
    X, y, pool = labelled()
    clf = classifier(inference=inference, decision=decision).fit(X, y)
    cross, _ = by_hand(clf, pool, X)
    coef = clf.posterior(0).coef
    outputs = (coef.toarray() if sp.issparse(coef) else coef) @ cross.T
    values = active.utilities(clf, pool)
    expected, _ = greedy_by_hand(values, np.cov(outputs.T), 5)
    assert_array_equal(active.query(clf, pool, 5), expected)


def test_batches_from_gram_matrices():
    X, y, pool = labelled()
    clf = classifier(kernel="precomputed", bias=0.0).fit(rbf_kernel(X, X, 0.5), y)
    cross = rbf_kernel(pool, X, 0.5)
    outputs = clf.posterior(0).coef @ cross.T
    values = active.utilities(clf, cross)
    assert_allclose(values, entropy(clf.predict_proba(cross)), atol=1e-12)
    expected, _ = greedy_by_hand(values, np.cov(outputs.T), 5)
    assert_array_equal(active.query(clf, cross, 5), expected)


@pytest.mark.parametrize("strategy", ["entropy", "bald"])
@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
def test_one_point_is_the_most_useful_one(strategy, decision):
    X, y, pool = labelled(n_classes=3)
    clf = classifier(decision=decision).fit(X, y)
    values = active.utilities(clf, pool, strategy=strategy, random_state=3)
    found = active.query(clf, pool, strategy=strategy, random_state=3)
    assert_array_equal(found, [values.argmax()])
    assert active.query(clf, pool, 4, strategy=strategy, random_state=3)[0] == values.argmax()


@pytest.mark.parametrize("strategy", ["entropy", "bald"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"decision": "bayes_point"}, {"kernel": "poly"}], ids=str)
def test_copies_are_never_asked_for_twice(strategy, n_classes, settings):
    X, y, pool = labelled(n_classes=n_classes)
    clf = classifier(**settings).fit(X, y)
    chosen = active.query(clf, np.tile(pool[:8], (4, 1)), 20, strategy=strategy, random_state=0)
    assert len(np.unique(chosen % 8)) == len(chosen)
    assert 5 <= len(chosen) <= 8


def test_all_there_is_and_no_more():
    X, y, pool = labelled()
    clf = classifier().fit(X, y)
    assert_array_equal(np.sort(active.query(clf, pool[:8], 100)), np.arange(8))
    assert len(active.query(clf, np.tile(pool[0], (9, 1)), 5)) == 1
    assert_array_equal(active.query(clf, pool[:1], 1), [0])


@pytest.mark.parametrize("strategy", ["entropy", "bald"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_near_copies_are_asked_for_last(kernel, strategy):
    X, y, pool = labelled()
    clf = classifier(kernel=kernel).fit(X, y)
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


def test_the_most_useful_points_are_looked_at(monkeypatch):
    X, y, pool = labelled()
    clf = classifier().fit(X, y)
    everyone = active.query(clf, pool, 3)
    monkeypatch.setattr(queries, "LEAST_CANDIDATES", 5)
    monkeypatch.setattr(queries, "CANDIDATES_EACH", 2)
    best = np.argsort(-active.utilities(clf, pool))
    chosen, worth = query_with_utilities(clf, pool, 3, "entropy", None)
    assert set(chosen) <= set(best[:6])
    assert chosen[0] == everyone[0]
    assert_array_equal(worth[:, best[6:]], 0.0)
    assert not np.array_equal(chosen, everyone)


def test_where_nothing_is_doubtful_points_are_found_all_the_same():
    X, y = np.array([[-1.0], [1.0]]), [0, 1]
    clf = classifier(kernel="linear", bias=0.0, softness=0.0).fit(X, y)
    pool = np.array([[1.0], [2.0], [-3.0]])
    assert_allclose(active.utilities(clf, pool), 0.0, atol=1e-12)
    assert len(active.query(clf, pool, 1)) == 1


def test_asking_beats_chance():
    """Two gaussians far from the labels at hand: the boundary is asked for, not the far ends."""
    X, y, new, _ = flowers(2)
    clf = classifier(gamma=0.2).fit(X[:6], y[:6])
    p = clf.predict_proba(new)[:, 1]
    asked = active.query(clf, new, 5)
    assert np.abs(p[asked] - 0.5).mean() < np.abs(p - 0.5).mean()


# ---------------------------------------------------------------------- what may be given


def test_pipelines_and_searches():
    X, y, pool = labelled(n=24)
    X, pool = X * [1, 100] + 7, pool * [1, 100] + 7
    scaler = StandardScaler().fit(X)
    clf = classifier().fit(scaler.transform(X), y)
    pipeline = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    for n in (1, 5):
        expected = active.query(clf, scaler.transform(pool), n)
        assert_array_equal(active.query(pipeline, pool, n), expected)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier()), {"bayespointclassifier__gamma": [0.5]}, cv=2
    ).fit(X, y)
    assert_array_equal(active.query(search, pool, 5), expected)
    alone = GridSearchCV(classifier(), {"gamma": [0.5]}, cv=2).fit(scaler.transform(X), y)
    assert_array_equal(active.query(alone, scaler.transform(pool), 5), expected)


@pytest.mark.parametrize("strategy", ["entropy", "bald"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_pools_and_lists(strategy, n_classes):
    X, y, pool = labelled(n_classes=n_classes)
    pool[np.abs(pool) < 0.5] = 0.0
    clf = classifier().fit(X, y)
    expected = active.query(clf, pool, 5, strategy=strategy, random_state=0)
    for given in (sp.csr_matrix(pool), sp.csc_matrix(pool), pool.tolist(), np.asfortranarray(pool)):
        found = active.query(clf, given, 5, strategy=strategy, random_state=0)
        assert_array_equal(found, expected)
    sparse = classifier().fit(sp.csr_matrix(X), y)
    found = active.query(sparse, sp.csr_matrix(pool), 5, strategy=strategy, random_state=0)
    assert found.shape == (5,)
    assert len(np.unique(found)) == 5


def test_labels_of_any_type():
    X, y, pool = labelled(n_classes=3)
    names = np.array(["b", "a", "c"])[y]
    chosen = active.query(classifier().fit(X, names), pool, 5)
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
    X, y, pool = labelled()
    given = {"clf": classifier().fit(X, y), "X_pool": pool, **settings}
    with pytest.raises((ValueError, TypeError), match=message):
        active.query(**given)


def test_a_classifier_that_is_not_fitted_is_refused():
    for clf in (classifier(), make_pipeline(StandardScaler(), classifier())):
        for function in (active.query, active.utilities):
            with pytest.raises(NotFittedError):
                function(clf, [[0.0, 0.0]])


def test_a_compressed_classifier_has_no_draws_to_ask():
    X, y, pool = labelled()
    small = classifier(decision="bayes_point").fit(X, y).compress()
    for strategy in ("entropy", "bald"):
        with pytest.raises(ValueError, match="holds no draws"):
            active.query(small, pool, strategy=strategy)


def test_seeds():
    X, y, pool = labelled()
    clf = classifier(softness=1.0).fit(X, y)
    before = joblib.hash(vars(clf))
    one, again, other = (
        active.utilities(clf, pool, strategy="bald", random_state=seed) for seed in (0, 0, 1)
    )
    assert_array_equal(one, again)
    assert np.any(one != other)
    assert_allclose(one, other, atol=0.2)
    entropies = [active.utilities(clf, pool, random_state=seed) for seed in (0, 1, None)]
    assert_array_equal(entropies[0], entropies[1])
    assert_array_equal(entropies[0], entropies[2])
    batches = [active.query(clf, pool, 5, strategy="bald", random_state=0) for _ in range(2)]
    assert_array_equal(*batches)
    assert_array_equal(*(active.query(clf, pool, 5) for _ in range(2)))
    assert joblib.hash(vars(clf)) == before


def test_threads_change_nothing():
    X, y, pool = labelled()
    chosen = [active.query(classifier(n_jobs=n).fit(X, y), pool, 5) for n in (1, 2)]
    assert_array_equal(*chosen)


def test_without_scikit_activeml_its_strategy_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "bayespoint.active.scikit_activeml", raising=False)
    for name in ("skactiveml", "skactiveml.base"):  # another test may have imported them
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"scikit-activeml.*pip install 'bayespoint\[active\]'"):
        importlib.import_module("bayespoint.active.scikit_activeml")
