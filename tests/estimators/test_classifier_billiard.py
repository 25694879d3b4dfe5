"""What is particular to classifiers of the billiard: chains, diagnostics, centres, planes."""

import warnings

import numpy as np
import pytest
from helpers.classifiers import (
    by_hand,
    classifier,
    flowers,
    fresh_points,
    softened_gram,
    unusual,
    with_noise,
)
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import EmptyVersionSpaceError, Posterior, VersionSpace
from bayespoint.space.decisions import combine_votes
from bayespoint.space.factor import Factor

# ---------------------------------------------------------------------- chains


@pytest.mark.parametrize("n_draws", [1, 3, 5, 8])
def test_draws_are_a_multiple_of_the_chains(n_draws):
    for n_classes, label_noise in ((2, 0.1), (3, 0.0)):
        X, y, *_ = flowers(n_classes, step=6)
        clf = classifier(n_draws=n_draws, label_noise=label_noise).fit(X, y)
        n_chains = min(n_draws, 4)
        assert clf.n_draws_ == -(-n_draws // n_chains) * n_chains
        if n_draws == 1:
            assert np.all(np.isinf(clf.bayes_point_error_))  # one ball says nothing of its error
        else:
            assert np.all((clf.bayes_point_error_ > 0) & (clf.bayes_point_error_ < 1.5))
        posterior = clf.posterior(0)
        assert posterior.n_chains == n_chains
        assert posterior.draws().shape == (n_chains, clf.n_draws_ // n_chains, len(X))
        assert np.all(np.isfinite(clf.predict_proba(X)))


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_diagnostics(label_noise):
    X, y, *_ = flowers(3, step=6)
    clf = classifier(n_draws=400, label_noise=label_noise).fit(X, y)
    found = clf.diagnostics_
    assert set(found) >= {"rhat", "ess", "bounces", "passes", "drift", "restarts"}
    assert found["rhat"].shape == found["ess"].shape == (3,)
    assert np.all((found["rhat"] > 0.98) & (found["rhat"] < 1.2))
    assert np.all((found["ess"] > 40) & (found["ess"] <= 400 * np.log10(400) + 1e-9))
    assert found["bounces"].shape == found["passes"].shape == (3, 4)  # four balls a class
    assert np.all(found["bounces"] > 100)
    assert np.all(found["passes"] > 0) if label_noise else not np.any(found["passes"])
    assert 0 <= found["drift"] < 1e-9
    assert found["restarts"] == 0
    assert not unusual(found, "diagnostics_")
    assert np.all(clf.bayes_point_error_ < 0.15)
    assert classifier(inference="perceptron").fit(X, y).diagnostics_ == {}


def test_no_false_alarm_about_few_draws_that_agree():
    # Orthogonal points: draws are all but independent, and no chain differs from the others.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(30):
            clf = classifier(kernel="precomputed", bias=0, n_draws=20, random_state=seed)
            clf.fit(np.eye(6), [0, 1, 1, 0, 1, 0])
    assert len(caught) <= 1, f"{len(caught)} of 30 fits: {caught[0].message}"


# ---------------------------------------------------------------------- centres


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_the_bayes_point_is_the_centre_of_many_draws(label_noise):
    X, y, *_ = flowers(2, step=6)
    clf = classifier(n_draws=4000, label_noise=label_noise, tol=0).fit(X, y)
    K, target = softened_gram(clf, X), np.where(y == 1, 1, -1)
    posterior = clf.posterior(0)
    mean = posterior.coef.mean(axis=0)
    from_draws = posterior.bayes_point("draws")
    assert_allclose(from_draws, mean / np.sqrt(mean @ K @ mean), rtol=1e-6, atol=1e-9)
    angle = np.arccos(min(posterior.bayes_point() @ K @ from_draws, 1.0))
    assert angle < 0.1  # each is known to about 0.03; single draws are a radian away
    errors = np.count_nonzero(target * (posterior.coef @ K) < 0, axis=1)
    assert np.any(errors) == (label_noise > 0)
    # Coefficients of the exact Bayes point are not negative, times the label.
    wrong = np.minimum(target * posterior.bayes_point(), 0)
    assert np.abs(wrong).sum() < 0.1 * np.abs(posterior.bayes_point()).sum()


def test_the_posterior_of_a_fit_is_over_the_rows_of_the_input():
    X, y, *_ = flowers(2)
    X, y = np.concatenate([X, X[:5]]), np.append(y, y[:5])  # copies are merged
    posterior = classifier(n_draws=80).fit(X, y).posterior(0)
    outputs, coef = posterior.outputs, posterior.coef[:, posterior.points]
    assert_allclose(np.sum(coef * outputs, axis=1), 1.0, rtol=1e-9)
    assert np.all(np.diff(posterior.points) > 0)
    assert 0 < posterior.bayes_point_error("draws") < 1
    assert posterior.ess().shape == (len(posterior.points),)
    target = np.where(y == 1, 1, -1)
    assert np.all(target * posterior.bayes_point("kicks") >= 0)
    assert posterior.info["bounces"].shape == (4,)


# ---------------------------------------------------------------------- votes


@pytest.mark.parametrize(("label_noise", "softness"), [(0.0, 0.0), (0.2, 0.0), (0.2, 0.3)])
def test_votes_of_two_classes_are_those_of_the_posterior(label_noise, softness):
    X, y, new, _ = flowers(2)
    clf = classifier(gamma=0.7, label_noise=label_noise, softness=softness).fit(X, y)
    gram, _ = by_hand(clf, X, X)
    cross, length = by_hand(clf, new, X)
    found = clf.posterior(0)
    posterior = Posterior(
        found.coef, n_chains=found.n_chains, mean_norm=found.mean_norm,
        space=VersionSpace(gram, np.where(y == 1, 1, -1), softness),
        factor=Factor(gram + softness * np.eye(len(gram))), label_noise=label_noise,
    )  # fmt: skip
    label = posterior.predictive(cross, length**2, label=True)
    assert_allclose(clf.predict_proba(new)[:, 1], label, atol=1e-8)
    sign = posterior.predictive(cross, length**2)
    if softness or label_noise:
        assert np.abs(sign - label).max() > 0.01  # both are folded in
    else:
        assert_array_equal(sign, label)
    # A label is wrong with probability q, however sure the class is.
    assert clf.predict_proba(new).min() >= label_noise - 1e-12
    # Members average to the vote, with or without replacement.
    members = clf.sample_proba(new, n_samples=8, random_state=0)
    assert_allclose(members.mean(axis=0), clf.predict_proba(new), atol=1e-12)
    many = clf.sample_proba(new[:20], n_samples=2000, random_state=1)
    assert np.abs(many.mean(axis=0) - members.mean(axis=0)[:20]).max() < 0.1


def test_noise_is_folded_in_before_class_weights():
    rng = np.random.default_rng(0)
    votes, noise = rng.random((6, 3)), 0.2
    log_weight = np.log([1.0, 5.0, 0.1])
    expected = with_noise(votes, noise) * np.exp(log_weight)
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(np.exp(combine_votes(votes, log_weight, noise)), expected)
    p = np.exp(combine_votes(votes, np.zeros(3), 0.0))
    assert_allclose(p, votes / votes.sum(axis=1, keepdims=True))
    assert np.all(combine_votes(votes, np.zeros(3), 0.3).argmax(axis=1) == votes.argmax(axis=1))


def test_rates_that_differ_do_not_bend_the_decision():
    """Labels of one class are often wrong; the class is predicted all the same."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 1, (60, 2)), rng.normal(1, 1, (60, 2))])
    y = np.repeat([0, 1], 60)
    flipped = np.where((y == 0) & (rng.random(120) < 0.3), 1, y)  # so labels 1 are often wrong
    clf = classifier(n_draws=100, label_noise={1: 0.25}).fit(X, flipped)
    new = np.concatenate([rng.normal(-1, 1, (500, 2)), rng.normal(1, 1, (500, 2))])
    error = np.mean(clf.predict(new) != np.repeat([0, 1], 500))
    assert error < 0.13  # the best possible is 0.08; with the noise in the decision it was 0.2
    assert_array_equal(clf.predict_proba(new).argmax(axis=1), clf.predict(new))


# ---------------------------------------------------------------------- few dimensions


def plane(n, noise=0.0, seed=0):
    """Points on two sides of a plane, not too near to it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    side = X @ [1.0, -0.5, 0.25] + 0.2
    kept = np.abs(side) > 0.05
    return X[kept], (side[kept] > 0) ^ (rng.random(kept.sum()) < noise)


@pytest.mark.parametrize(
    ("decision", "dtype"), [("bayes_point", np.float32), ("vote", np.float64), ("vote", np.float32)]
)
def test_many_more_points_than_features(decision, dtype):
    X, y = plane(200)
    X = X.astype(dtype)
    clf = classifier(kernel="linear", softness=0, decision=decision, n_draws=12).fit(X, y)
    assert clf.score(X, y) == 1.0
    gram, _ = by_hand(clf, X, X)
    draws = clf.posterior(0).coef
    # Signs in version space to the precision of the data.
    assert np.all(np.where(y, 1, -1) * (draws @ gram) > -10 * np.finfo(dtype).eps)
    assert clf.score(*plane(100, seed=1)) > 0.9


def test_votes_with_a_singular_gram_matrix():
    X, y = plane(60)
    clf = classifier(kernel="linear", softness=0, label_noise=0.1, n_draws=12).fit(X, y)
    new = fresh_points(X)
    cross, _ = by_hand(clf, new, X)
    outputs = clf.posterior(0).coef @ cross.T
    # Every point lies in the span of the training points: nothing is unknown but the noise.
    votes = (outputs > 0).mean(axis=0)
    clear = np.abs(outputs).min(axis=0) > 1e-3
    assert clear.mean() > 0.5
    expected = 0.9 * votes + 0.1 * (1 - votes)
    assert_allclose(clf.predict_proba(new)[clear, 1], expected[clear], atol=1e-6)


def test_rows_that_no_plane_separates_are_named():
    X, y = plane(200, noise=0.05)
    with pytest.raises(EmptyVersionSpaceError, match="softness > 0") as caught:
        classifier(kernel="linear", softness=0).fit(X, y)
    part = caught.value.points
    assert 2 <= len(part) <= 5  # Carathéodory, in four dimensions
    with pytest.raises(EmptyVersionSpaceError):
        classifier(kernel="linear", softness=0).fit(X[part], y[part])
    clf = classifier(kernel="linear", softness=0, label_noise=0.05).fit(X, y)
    assert clf.score(X, y) > 0.85
