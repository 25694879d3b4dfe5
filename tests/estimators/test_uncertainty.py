"""The entropy of predictions, divided: by quadrature, for every method, and as rows get more."""

import numpy as np
import pytest
from helpers.classifiers import classifier, flowers
from helpers.pools import entropy
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError

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
    assert_allclose(irreducible, expected, atol=0.01)
    assert np.abs(expected - entropy(clf.predict_proba(new))).max() > 0.05


def with_noise(n, rng, softness=0.3):
    """Rows whose labels follow a smooth function and noise."""
    X = rng.uniform(-2, 2, size=(n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, (f + np.sqrt(softness) * rng.standard_normal(n) > 0).astype(int), f


@pytest.mark.parametrize("settings", [{}, {"cell_size": 100}], ids=str)
def test_more_rows_remove_what_is_removable(settings):
    rng = np.random.default_rng(0)
    X, y, _ = with_noise(400, rng)
    new, _, f = with_noise(200, rng)
    p = ndtr(f / np.sqrt(0.3))
    known = entropy(np.stack([p, 1 - p], axis=-1)).mean()
    clf = BayesPointClassifier(
        gamma=0.7, softness=0.1, bias=0.1, inference="ep", random_state=0, **settings
    )
    few, many = (
        np.mean(clf.fit(X[:n], y[:n]).predict_uncertainty(new), axis=1) for n in (100, 400)
    )
    assert many[0] < 0.5 * few[0]
    assert abs(many[1] - known) < 0.05  # of few rows the link knows little


def test_far_from_all_rows_it_is_removable():
    X, y, *_ = flowers(2, step=6)
    far = np.full((1, X.shape[1]), 1e3)
    shares = []
    for softness in (1e-4, 0.1, 1.0):
        clf = classifier(inference="ep", decision="vote", softness=softness, bias=0.0).fit(X, y)
        removable, irreducible = clf.predict_uncertainty(far)
        assert removable[0] + irreducible[0] == pytest.approx(np.log(2), abs=0.02)
        shares.append(removable[0] / (removable[0] + irreducible[0]))
    # All of it but what softness will leave open wherever the boundary may be.
    assert shares[0] > 0.98
    assert shares[0] > shares[1] > shares[2]


def test_no_rows_and_no_fit():
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference="ep")
    with pytest.raises(NotFittedError):
        clf.predict_uncertainty(X)
    with pytest.raises(ValueError, match="draws"):
        classifier(inference="perceptron").fit(X, y).compress().predict_uncertainty(X)
