"""The entropy of predictions, divided: by quadrature, for every method, and as rows get more."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.classifiers import by_hand, classifier, flowers
from helpers.pools import entropy
from helpers.thresholds import compare_means
from helpers.version_spaces import assert_caught, assert_passes
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier

METHODS = [
    {"inference": "ep"},
    {"inference": "ep", "decision": "vote", "label_noise": 0.1},
    {"inference": "ep", "cell_size": 20},
    {"inference": "ep", "decision": "bayes_point"},
    {"inference": "billiard", "label_noise": 0.1},
    {"inference": "gibbs"},
    {"inference": "perceptron"},
    {"inference": "billiard", "decision": "span_vote"},
]


@pytest.mark.parametrize("settings", METHODS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parts_are_never_negative_and_sum_to_the_entropy(n_classes, settings):
    X, y, new, _ = flowers(n_classes, step=6)
    clf = classifier(**settings).fit(X, y)
    removable, irreducible = clf.predict_uncertainty(new)
    assert np.all(removable >= -1e-12)
    assert np.all(irreducible >= 0)
    assert_allclose(removable + irreducible, entropy(clf.predict_proba(new)), atol=1e-6)
    # Always the same, and whatever classes cost.
    assert_array_equal(clf.predict_uncertainty(new).removable, removable)
    weighted = classifier(**settings, class_weight={0: 9.0}).fit(X, y)
    assert_allclose(weighted.predict_uncertainty(new).removable, removable, atol=1e-12)


def test_two_classes_by_quadrature():
    """Softness is what a classifier that is known leaves open."""
    X, y, new, _ = flowers(2, step=6)
    clf = classifier(inference="ep", decision="vote").fit(X, y)
    z = clf.predictor_.scores(clf.prepared(new))[0]
    hard = classifier(inference="ep", decision="vote").fit(X, y)
    variance = clf.predictor_.covariance(hard.prepared(new))[0]
    mean, softness = z * np.sqrt(variance + clf.softness_), clf.softness_
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    p = ndtr((mean[:, None] + np.sqrt(variance)[:, None] * nodes) / np.sqrt(softness))
    expected = entropy(np.stack([p, 1 - p], axis=-1)) @ weights / weights.sum()
    _, irreducible = clf.predict_uncertainty(new)
    told = 1 - clf.predictor_.open_share(clf.prepared(new))
    assert_allclose(irreducible, told * expected, atol=0.01)
    assert np.abs(expected - entropy(clf.predict_proba(new))).max() > 0.05


# ---------------------------------------------------------------------- data of known noise


SETTINGS = {"gamma": 0.7, "softness": 0.1, "bias": 0.1, "inference": "ep", "random_state": 0}
NEW = 100


def of_the_prior(n, rng):
    """Rows, labels by a function drawn from the prior and softness, new rows and their entropy."""
    X = rng.uniform(-2, 2, size=(n + NEW, 2))
    K = (rbf_kernel(X, gamma=0.7) + 0.1) / 1.1 + 1e-8 * np.eye(n + NEW)
    while True:
        f = np.linalg.cholesky(K) @ rng.standard_normal(n + NEW)
        y = f[:n] + np.sqrt(0.1) * rng.standard_normal(n) > 0
        if len(np.unique(y[: n // 2])) == 2:
            p = ndtr(f[n:] / np.sqrt(0.1))
            return X[:n], y, X[n:], entropy(np.stack([p, 1 - p], axis=-1))


def left_open(clf, new):
    """What classifiers that are known leave open, before the link and what rows do not reach."""
    members = clf.predictor_.committee_proba(clf.prepared(new), 100, np.random.RandomState(0))
    return entropy(members).mean()


def of_the_prediction(clf, new):
    """Wrong: more rows remove some of it."""
    return entropy(replace(clf.predictor_, link=None).predict_proba(clf.prepared(new))).mean()


def against_known_noise(found):
    """Check what is found with few rows against what the noise makes."""

    def check(length, seed):
        differences = []
        for rng in np.random.default_rng(seed).spawn(24 * length):
            X, y, new, known = of_the_prior(50, rng)
            clf = BayesPointClassifier(**SETTINGS).fit(X, y)
            differences.append(found(clf, new) - known.mean())
        return compare_means(np.reshape(differences, (24, length)).mean(axis=1), 0.0)

    return check


def test_few_rows_know_how_much_is_irreducible():
    """Where the prior is right, the mean over data sets is what the noise makes at every size."""
    assert_passes(against_known_noise(left_open), length=1, seed=0, detects=0.08)


def test_what_is_removable_would_be_noticed():
    assert_caught(against_known_noise(of_the_prediction), length=1, seed=0)


@pytest.mark.parametrize(
    "settings", [{}, pytest.param({"cell_size": 100}, marks=pytest.mark.slow)], ids=str
)
def test_twice_the_rows_lower_the_removable_part_and_leave_the_other(settings):
    def check(length, seed):
        changes = []
        for rng in np.random.default_rng(seed).spawn(16 * length):
            X, y, new, _ = of_the_prior(200, rng)
            clf = BayesPointClassifier(**SETTINGS | settings)
            few, many = (
                np.mean(clf.fit(X[:n], y[:n]).predict_uncertainty(new), axis=1) for n in (100, 200)
            )
            changes.append(many - few)
        removed, other = np.reshape(changes, (16, length, 2)).mean(axis=1).T
        assert np.mean(removed) < -0.02
        assert not compare_means(removed, 0.0).passed
        return compare_means(other, 0.0)

    assert_passes(check, length=1, seed=0, detects=0.06)


FAR = [
    {"inference": "ep", "decision": "vote"},
    {"inference": "ep"},
    {"inference": "ep", "cell_size": 10},
    {"inference": "ep", "cell_size": 10, "n_landmarks": 3},
    {"inference": "billiard", "label_noise": 0.1},
    {"inference": "ep", "kernel": "laplacian", "normalize_kernel": False},
]


@pytest.mark.parametrize("settings", FAR, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_far_from_all_rows_all_of_it_is_removable(n_classes, settings):
    X, y, *_ = flowers(n_classes, step=6)
    far = np.full((1, X.shape[1]), 1e3)
    for softness, bias in ((1e-4, 0.0), (0.1, 1.0), (1.0, 0.1)):
        clf = classifier(**settings | {"softness": softness, "bias": bias}).fit(X, y)
        removable, irreducible = clf.predict_uncertainty(far)
        assert irreducible[0] == pytest.approx(0.0, abs=1e-3)
        assert removable[0] > 0.3
        # Softness is still there where rows are.
        inside = clf.predict_uncertainty(X).irreducible.mean()
        assert inside > 0.05 * softness


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_what_no_label_speaks_of_by_hand(bias):
    X, y, new, _ = flowers(2, step=6)
    new = np.vstack([new[:20], new[:20] + 1.0])
    clf = classifier(inference="ep", decision="vote", bias=bias).fit(X, y)
    K, cross = by_hand(clf, X, X)[0], by_hand(clf, new, X)[0]
    softened = K + clf.softness_ * np.diag(K.diagonal())
    told = np.sum(cross * np.linalg.solve(softened, cross.T).T, axis=1)
    expected = np.minimum((1 - told) * (1 + bias), 1.0)  # the bias is the same everywhere
    assert_allclose(clf.predictor_.open_share(clf.prepared(new)), expected, atol=1e-5)
    assert expected.max() > 0.05


def test_no_rows_and_no_fit():
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference="ep")
    with pytest.raises(NotFittedError):
        clf.predict_uncertainty(X)
    with pytest.raises(ValueError, match="draws"):
        classifier(inference="perceptron").fit(X, y).compress().predict_uncertainty(X)
