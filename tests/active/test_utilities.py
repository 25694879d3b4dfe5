"""How useful labels would be: entropy and BALD by their definitions."""

import numpy as np
import pytest
from helpers.classifiers import by_hand, softened_gram
from helpers.pools import asked, asking, entropy, labelled
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr, softmax
from scipy.stats import spearmanr

from bayespoint import active
from bayespoint.estimators import uncertainty

STRATEGIES = ("entropy", "bald")


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [
        (2, {}),
        (3, {"label_noise": 0.1}),
        (3, {"decision": "span_vote"}),
        (2, {"inference": "gibbs"}),
        (3, {"inference": "gibbs"}),
    ],
    ids=str,
)
def test_entropy_is_that_of_the_probabilities(n_classes, settings):
    _, _, pool = labelled()
    clf = asked(n_classes, **settings)
    values = active.utilities(clf, pool)
    assert_allclose(values, entropy(clf.predict_proba(pool)), atol=1e-12)
    assert np.all((values >= 0) & (values <= np.log(n_classes) + 1e-12))


def test_class_weights_do_not_count():
    """How sure it is, not what costs more."""
    X, y, pool = labelled(n_classes=3)
    weighted, plain = asking(class_weight={0: 9.0}).fit(X, y), asked(3)
    assert np.abs(weighted.predict_proba(pool) - plain.predict_proba(pool)).max() > 0.1
    for strategy in STRATEGIES:
        found, expected = (
            active.utilities(clf, pool, strategy=strategy, random_state=0)
            for clf in (weighted, plain)
        )
        assert_array_equal(found, expected)


@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_where_the_bayes_point_decides_the_draws_are_the_committee(inference):
    _, _, pool = labelled()
    clf = asked(inference=inference, decision="bayes_point")
    members = clf.sample_proba(pool, clf.n_draws_, random_state=1)  # all of them
    assert_allclose(active.utilities(clf, pool), entropy(members.mean(axis=0)), atol=1e-12)


# ---------------------------------------------------------------------- BALD

# Single classifiers, in which what BALD averages over is known to about 0.002.
MANY = 20_000


@pytest.fixture
def many_members(monkeypatch):
    monkeypatch.setattr(uncertainty, "MEMBERS", MANY)


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
        votes.append(f)
    if len(votes) == 1:
        yes = ndtr(f / np.sqrt(clf.softness_)) if clf.softness_ else (f > 0) * 1.0
        p = np.stack([1 - yes, yes], axis=-1)
    else:  # which class has the largest output, noise of the variance of softness added
        scale = np.sqrt(6 * clf.softness_) / np.pi
        p = softmax(np.stack(votes, axis=-1) / scale, axis=-1)
    return (1 - noise) * p + noise / (p.shape[-1] - 1) * (1 - p)


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [
        (2, {"softness": 0.0, "label_noise": 0.2}),
        (2, {"softness": 0.5, "label_noise": 0.1, "normalize_kernel": False, "kernel": "poly"}),
        (3, {"softness": 0.5, "label_noise": 0.1}),
        pytest.param(2, {"softness": 1.0}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.usefixtures("many_members")
def test_bald_is_what_a_label_tells_about_the_classifier(n_classes, settings):
    """By brute force, from the definition."""
    X, _, pool = labelled(n_classes=n_classes)
    pool = pool[:8]
    clf = asked(n_classes, **settings, n_draws=200)
    found = active.utilities(clf, pool, strategy="bald", random_state=0)
    rng, expected = np.random.default_rng(1), []
    for beyond in (1.0, 0.0):
        members = single_classifiers(clf, X, pool, MANY, rng, beyond)
        expected.append(entropy(members.mean(axis=0)) - entropy(members).mean(axis=0))
    assert_allclose(found, expected[0], atol=0.012)
    # It is neither that of draws in the span nor the entropy.
    assert np.abs(found - expected[1]).max() > 0.02
    assert np.abs(found - active.utilities(clf, pool)).max() > 0.1


@pytest.mark.parametrize("label_noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
@pytest.mark.usefixtures("many_members")
def test_bald_ranks_as_entropy_without_softness_and_with_one_rate(label_noise):
    """They then differ by the entropy of the rate."""
    pool = labelled()[2][:30]
    clf = asked(softness=0.0, label_noise=label_noise, n_draws=200)
    bald = active.utilities(clf, pool, strategy="bald", random_state=0)
    values = active.utilities(clf, pool)
    assert spearmanr(bald, values).statistic > 0.99
    assert_allclose(values - bald, entropy(np.array([label_noise, 1 - label_noise])), atol=0.02)


def test_bald_is_not_the_entropy_where_softness_makes_labels_uncertain():
    """Many labels on both sides of a line: the classifier is known there, the label is not."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(80, 1)), [[8.0]]])
    clf = asking(softness=2.0, n_draws=200).fit(X, (X[:, 0] > 0).astype(int))
    pool = np.array([[0.0], [8.5]])  # on the boundary; where one label is all there is
    values, bald = (
        active.utilities(clf, pool, strategy=s, random_state=0) for s in STRATEGIES
    )  # fmt: skip
    assert values[0] > values[1]
    assert bald[0] < bald[1]


@pytest.mark.parametrize(("strategy", "n_classes"), [("entropy", 3), ("bald", 2), ("bald", 3)])
def test_what_is_certain_has_no_utility(strategy, n_classes):
    X, _, pool = labelled(n_classes=n_classes)
    clf = asked(n_classes, softness=0.0)
    values = active.utilities(clf, np.vstack([X, pool]), strategy=strategy, random_state=0)
    assert np.all(values >= 0)
    assert_allclose(values[: len(X)], 0.0, atol=1e-4)  # labelled, and labels are sure
    assert values[len(X) :].max() > 0.5


@pytest.mark.parametrize(
    ("decision", "inference"),
    [("vote", "billiard"), ("span_vote", "perceptron"), ("bayes_point", "perceptron")],
)
def test_bald_is_never_negative(decision, inference):
    _, _, pool = labelled()
    clf = asked(3, decision=decision, inference=inference, softness=1.0)
    values = active.utilities(clf, pool, strategy="bald", random_state=0)
    assert values.shape == (len(pool),)
    assert np.all((values >= 0) & (values < np.log(3)))


def test_seeds():
    _, _, pool = labelled()
    clf = asked(softness=1.0)
    one, again, other = (
        active.utilities(clf, pool, strategy="bald", random_state=seed) for seed in (0, 0, 1)
    )
    assert_array_equal(one, again)
    assert np.any(one != other)
    assert_allclose(one, other, atol=0.2)
    entropies = [active.utilities(clf, pool, random_state=seed) for seed in (0, 1, None)]
    assert_array_equal(entropies[0], entropies[1])
    assert_array_equal(entropies[0], entropies[2])
