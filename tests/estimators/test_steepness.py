"""How steep probabilities are: made steeper or flatter, and as steep as labels ask for."""

import numpy as np
import pytest
from helpers.clouds import clouds, propagation
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.metrics import log_loss

from bayespoint.space.decisions import combine_votes, fit_steepness, sharpen


def some_votes(n_classes):
    """Votes for the classes, some of them at the ends of what can be."""
    rng = np.random.default_rng(0)
    votes = ndtr(3 * rng.normal(size=(200, n_classes)))
    votes[:4] = np.array([1e-320, 1e-17, 0.0, 0.999])[:, None]
    votes[:4, 1] = 1.0
    if n_classes == 2:
        votes[3:, 1] = rng.random(197)
        votes[:, 0] = 1 - votes[:, 1]
        votes[0] = 1e-300, 1.0
    return votes


@pytest.mark.parametrize("kappa", [0.2, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_steeper_votes_keep_the_order_of_the_classes(n_classes, kappa):
    votes = some_votes(n_classes)
    found = sharpen(votes, kappa)
    assert np.all(np.isfinite(found))
    assert_array_equal(found.argmax(axis=1), votes.argmax(axis=1))
    ordered = np.take_along_axis(found, votes.argsort(axis=1), axis=1)
    assert np.all(np.diff(ordered, axis=1) >= 0)
    assert_allclose(np.exp(combine_votes(found, 0.0)).sum(axis=1), 1)
    plain, sharper = (np.exp(combine_votes(v, 0.0)).max(axis=1) for v in (votes, found))
    if kappa == 1:
        assert_allclose(sharper, plain, atol=1e-12)
    else:
        further = sharper - plain if kappa > 1 else plain - sharper
        assert np.all(further > -1e-12)
        assert further.max() > 0.1
    if n_classes == 2:
        assert_allclose(found.sum(axis=1), 1)
    # Of many draws at once.
    stacked = sharpen(np.stack([votes, votes[::-1]]), kappa)
    assert_array_equal(stacked[0], found)


@pytest.mark.parametrize(("kappa", "noise"), [(0.5, 0.1), (1.0, 0.0), (2.5, 0.1)])
def test_the_steepness_is_that_of_the_labels(kappa, noise):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1, 4000))
    p = (1 - 2 * noise) * ndtr(kappa * scores[0]) + noise
    label = (rng.random(4000) < p).astype(int)
    found, value = fit_steepness(scores, label, np.ones(4000), noise)
    assert found == pytest.approx(kappa, rel=0.15)
    right = np.where(label == 1, p, 1 - p)
    assert value == pytest.approx(np.log(right).sum() - 2 * np.log(kappa) ** 2, abs=3)
    # Weights are copies.
    row = np.repeat(np.arange(40), 3)
    one = fit_steepness(scores[:, :40], label[:40], np.full(40, 3.0), noise)
    other = fit_steepness(scores[:, row], label[row], np.ones(120), noise)
    assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_that_are_too_flat_are_made_steeper(n_classes):
    X, y = clouds(60, n_classes, apart=3.0)
    new, labels = clouds(300, n_classes, seed=1, apart=3.0)
    flat, steep = (
        propagation(softness=5.0, decision=name).fit(X, y) for name in ("vote", "calibrated")
    )
    assert steep.predictor_.steepness > 1.2
    loss = [log_loss(labels, clf.predict_proba(new)) for clf in (flat, steep)]
    assert loss[1] < 0.8 * loss[0]
    assert_array_equal(flat.predict(new), steep.predict(new))
    p = steep.sample_proba(new, 5, random_state=0)
    assert_allclose(p.sum(axis=2), 1)


def test_votes_that_are_too_steep_are_made_flatter():
    """Labels at random, hardly any softness."""
    X, y = clouds(90, wrong=0.6)
    clf = propagation(gamma=5.0, softness=0.01, decision="calibrated").fit(X, y)
    assert clf.predictor_.steepness < 0.9
