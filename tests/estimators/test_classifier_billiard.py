"""The classifier with the billiard and with label noise: its numbers by hand, and its contract."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import (
    by_hand,
    classifier,
    columns,
    flowers,
    fresh_points,
    iris,
    signed_labels,
    softened_gram,
    unusual,
)
from scipy.special import logit, stdtr
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import Posterior, VersionSpace
from bayespoint.space.decisions import combine_votes
from bayespoint.space.factor import Factor

# Outputs are sums of some hundred terms, of coefficients that reach a hundred.
ROUNDING = 1e-9

NOISES = {"clean": 0.0, "a rate a class": [0.0, 0.3, 0.1]}


# Memory (MB) for the billiard and votes of 49 flowers, and not for EP.
LITTLE = {"inference": "auto", "cache_size": 0.1}


# ---------------------------------------------------------------------- what a fit says of itself


@pytest.mark.parametrize(
    ("settings", "method", "reason"),
    [
        ({"inference": "billiard"}, "billiard", "asked for"),
        ({"inference": "billiard", "label_noise": 0.1}, "billiard", "asked for"),
        ({"inference": "auto", "label_noise": 0.1}, "ep", "few points"),
        ({"inference": "auto"}, "ep", "few points"),
        ({**LITTLE, "label_noise": 0.1}, "billiard", "label_noise > 0"),
        ({**LITTLE, "label_noise": [0.0, 0.0, 0.1]}, "billiard", "label_noise > 0"),
        ({**LITTLE, "label_noise": {1: 0.2}}, "billiard", "label_noise > 0"),
        ({**LITTLE, "label_noise": "evidence"}, "billiard", "label_noise > 0"),
        (LITTLE, "perceptron", "perceptrons are the fastest"),
        ({**LITTLE, "label_noise": [0.0, 0, 0.0]}, "perceptron", "perceptrons are the fastest"),
        ({"inference": "perceptron"}, "perceptron", "asked for"),
        ({"inference": "ep"}, "ep", "asked for"),
    ],
)
def test_the_method_and_why_it_was_taken(settings, method, reason):
    X, y, *_ = flowers(3)
    clf = classifier(**settings).fit(X, y)
    assert clf.inference_ == method
    assert reason in clf.inference_reason_
    decision = {"billiard": "vote", "perceptron": "bayes_point", "ep": "vote"}[method]
    if method == "ep" and settings["inference"] == "auto":
        decision = "calibrated"
    by_name = classifier(**settings, decision=decision).fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), by_name.decision_function(X))
    is_vote = np.allclose(np.log(clf.predict_proba(X)), clf.decision_function(X))
    assert is_vote == (method != "perceptron")


@pytest.mark.parametrize(
    ("label_noise", "expected"),
    [
        (0.1, 0.1),
        (0, 0.0),
        (np.float32(0.25), 0.25),
        ([0.1, 0.1, 0.1], 0.1),
        ((0.0, 0.1, 0.2), [0.0, 0.1, 0.2]),
        (np.array([0.2, 0.1, 0.0]), [0.2, 0.1, 0.0]),
        ({"setosa": 0.1, "versicolor": 0.2, "virginica": 0.3}, [0.1, 0.2, 0.3]),
        ({"virginica": 0.3}, [0.0, 0.0, 0.3]),
        ({}, 0.0),
    ],
    ids=str,
)
def test_rates_of_label_noise_in_every_form(label_noise, expected):
    X, y, *_ = flowers(3)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    clf = classifier(label_noise=label_noise).fit(X, y)
    np.testing.assert_array_equal(clf.label_noise_, expected)
    assert isinstance(clf.label_noise_, np.ndarray if np.ndim(expected) else float)
    same = classifier(label_noise=np.broadcast_to(expected, 3)).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), same.predict_proba(X))


BAD_NOISE = [
    0.5, 0.7, -0.1, np.nan, np.inf, True, "0.1", None, [0.1] * 2, [0.1] * 4, [0.1, 0.1, 0.5],
    [[0.1, 0.1, 0.1]], [0.1, None, 0.1], ["a", "b", "c"], np.full((3, 1), 0.1), {0: 0.5}, [],
    {0: -0.1, 1: 0.1}, {"no such class": 0.1}, {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.1}, {0: "a"},
]  # fmt: skip


@pytest.mark.parametrize("label_noise", BAD_NOISE, ids=repr)
@pytest.mark.parametrize("inference", ["billiard", "auto"])
def test_bad_rates_of_label_noise(label_noise, inference):
    with pytest.raises(ValueError, match="label_noise"):
        classifier(inference=inference, label_noise=label_noise).fit(*iris())


@pytest.mark.parametrize(
    ("label_noise", "message"),
    [
        (0.5, r"\[0, 0\.5\).*got 0\.5"),
        ([0.1, 0.1], r"each of the 3 classes.*got shape \(2,\)"),
        ({7: 0.1}, r"names \[7\].*classes \[0, 1, 2\]"),
    ],
    ids=str,
)
def test_what_is_wrong_with_rates_is_said(label_noise, message):
    with pytest.raises(ValueError, match=message):
        classifier(label_noise=label_noise).fit(*iris())


@pytest.mark.parametrize("label_noise", [0.1, [0.0, 0.0, 0.1], {2: 1e-9}], ids=str)
def test_perceptrons_take_every_label_as_right(label_noise):
    with pytest.raises(ValueError, match=r"perceptron.*label_noise.*billiard.*auto"):
        classifier(inference="perceptron", label_noise=label_noise).fit(*iris())
    classifier(inference="perceptron", label_noise=[0.0, 0.0, 0.0]).fit(*iris())


@pytest.mark.parametrize("n_draws", [1, 2, 3, 4, 5, 8, 10])
@pytest.mark.parametrize(("n_classes", "label_noise"), [(2, 0.1), (3, 0.0)])
def test_draws_are_a_multiple_of_the_chains(n_draws, n_classes, label_noise):
    X, y, *_ = flowers(n_classes)
    clf = classifier(n_draws=n_draws, label_noise=label_noise).fit(X, y)
    n_machines = 1 if n_classes == 2 else n_classes
    n_chains = min(n_draws, 4)
    assert clf.n_draws_ == -(-n_draws // n_chains) * n_chains
    assert clf.bayes_point_error_.shape == (n_machines,)
    if n_draws == 1:
        assert np.all(np.isinf(clf.bayes_point_error_))  # one ball says nothing about its error
    else:
        assert np.all((clf.bayes_point_error_ > 0) & (clf.bayes_point_error_ < 1.5))
    for machine in range(n_machines):
        posterior = clf.posterior(machine)
        assert posterior.n_chains == n_chains
        assert posterior.coef.shape == (clf.n_draws_, len(X))
        assert posterior.draws().shape == (n_chains, clf.n_draws_ // n_chains, len(X))
        assert posterior.bayes_point_error() == clf.bayes_point_error_[machine]
    assert clf.dual_coef_.shape == (n_machines, len(clf.support_))
    assert np.all(np.isfinite(clf.predict_proba(X)))


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_diagnostics(label_noise):
    X, y, *_ = flowers(3)
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


def test_drawing_ends_where_tol_is_reached():
    X, y, *_ = flowers(2)
    clf = classifier(n_draws=4000, tol=0.1).fit(X, y)
    assert clf.n_draws_ < 4000
    assert clf.bayes_point_error_[0] < 0.3  # of four balls: known to a factor of two or so
    assert classifier(n_draws=40, tol=0).fit(X, y).n_draws_ == 40


# ---------------------------------------------------------------------- draws and their centre


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("label_noise", [0.0, 0.1])
@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ("rbf", {}),
        ("rbf", {"softness": 0.0, "gamma": 1.0}),
        ("poly", {"normalize_kernel": False}),
        ("laplacian", {"bias": 0.0, "softness": 0.5}),
        ("linear", {"softness": 1.0, "bias": 2.5, "normalize_kernel": False}),
    ],
)
def test_draws_and_bayes_points_are_unit_vectors(kernel, settings, label_noise, n_classes):
    X, y, *_ = flowers(n_classes)
    clf = classifier(kernel=kernel, label_noise=label_noise, n_draws=12, **settings).fit(X, y)
    K = softened_gram(clf, X)
    assert sorted(clf.support_) == list(range(len(X)))
    for machine, target in enumerate(signed_labels(clf, y)):
        posterior = clf.posterior(machine)
        draws, centre = posterior.coef, posterior.bayes_point()
        assert isinstance(draws, np.ndarray)
        np.testing.assert_allclose(np.einsum("ij,jk,ik->i", draws, K, draws), 1, atol=1e-8)
        assert centre @ K @ centre == pytest.approx(1, abs=1e-8)
        np.testing.assert_array_equal(centre[clf.support_], clf.dual_coef_[machine])
        if not label_noise:  # inside version space, all of them
            assert np.all(target * (draws @ K) > 0)
            assert np.all(target * (centre @ K) > 0)
        mean = draws.mean(axis=0)
        assert posterior.mean_norm == pytest.approx(np.sqrt(mean @ K @ mean), rel=1e-7)
        direction = posterior.bayes_point("draws")
        np.testing.assert_allclose(direction, mean / np.sqrt(mean @ K @ mean), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_the_bayes_point_is_the_centre_of_many_draws(label_noise):
    X, y, *_ = flowers(2)
    clf = classifier(n_draws=4000, label_noise=label_noise, tol=0).fit(X, y)
    K, target = softened_gram(clf, X), np.where(y == 1, 1, -1)
    posterior = clf.posterior(0)
    cosine = posterior.bayes_point() @ K @ posterior.bayes_point("draws")
    angle = np.arccos(min(cosine, 1.0))
    assert angle < 0.1  # each is known to about 0.03; single draws are a radian away
    errors = np.count_nonzero(target * (posterior.coef @ K) < 0, axis=1)
    assert np.any(errors) == (label_noise > 0)
    # Coefficients of the exact Bayes point are not negative, times the label.
    wrong = np.minimum(target * posterior.bayes_point(), 0)
    assert np.abs(wrong).sum() < 0.1 * np.abs(posterior.bayes_point()).sum()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_outputs_of_bayes_points(n_classes):
    X, y, new, _ = flowers(n_classes)
    clf = classifier(decision="bayes_point", label_noise=0.05).fit(X, y)
    new = np.vstack([new, fresh_points(X)])
    cross, _ = by_hand(clf, new, X[clf.support_])
    outputs = columns(clf.decision_function(new))
    np.testing.assert_allclose(outputs, cross @ clf.dual_coef_.T, atol=ROUNDING)
    p = clf.predict_proba(new)
    if n_classes == 2:  # an increasing link, one half at zero
        assert np.all(np.diff(p[np.argsort(outputs[:, 0]), 1]) >= 0)
        np.testing.assert_array_equal(p[:, 1] > 0.5, outputs[:, 0] > 0)
        assert p[:, 1].min() < 0.2 < 0.8 < p[:, 1].max()
    else:  # softmax
        steps = (outputs[:, 1:] - outputs[:, :1]).ravel()
        slope = np.log(p[:, 1:] / p[:, :1]).ravel() @ steps / (steps @ steps)
        assert slope > 1  # held-out outputs of iris do say something
        expected = np.exp(slope * outputs)
        np.testing.assert_allclose(p, expected / expected.sum(axis=1, keepdims=True), atol=1e-9)
    small = clf.compress(tol=1e-3)
    np.testing.assert_allclose(columns(small.decision_function(new)), outputs, atol=1e-3)


# ---------------------------------------------------------------------- votes


def votes_by_hand(clf, X, new):
    """Probability of the classes by each draw: Student's t, what is unknown of x included."""
    K, n_classes = softened_gram(clf, X), len(clf.classes_)
    cross, length = by_hand(clf, new, X)
    unknown = length**2 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
    deviation = np.sqrt(unknown + clf.softness_ * length**2)
    votes = []
    for machine in range(len(clf.dual_coef_)):
        t = np.sqrt(len(X)) * (clf.posterior(machine).coef @ cross.T) / deviation
        votes.append(stdtr(len(X), t))
    return np.stack([1 - votes[0], votes[0]] if n_classes == 2 else votes, axis=-1)


def noisy(votes, noise, label=None):
    """Normalise over classes and fold in the share of wrong labels, from its definition."""
    n_classes = votes.shape[-1]
    weights = None if label is None else np.bincount(label)
    noise = np.average(np.broadcast_to(noise, n_classes), weights=weights)
    chances = np.where(np.eye(n_classes, dtype=bool), 1 - noise, noise / (n_classes - 1))
    return votes / votes.sum(axis=-1, keepdims=True) @ chances


def rates_of(noise, n_classes):
    return noise if np.ndim(noise) == 0 else noise[-n_classes:]


@pytest.mark.parametrize(
    ("kernel", "settings", "dtype"),
    [
        ("rbf", {}, np.float64),
        ("rbf", {}, np.float32),
        ("laplacian", {"softness": 0.0}, np.float64),
        ("poly", {"normalize_kernel": False}, np.float64),
    ],
)
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_by_hand(n_classes, noise, kernel, settings, dtype):
    X, y, new, _ = flowers(n_classes)
    noise = rates_of(noise, n_classes)
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    X, new = X.astype(dtype), np.vstack([new, fresh_points(X)]).astype(dtype)
    clf = classifier(kernel=kernel, label_noise=noise, **settings).fit(X, y)
    votes = votes_by_hand(clf, X, new)
    p = noisy(votes.mean(axis=0), noise, y)
    np.testing.assert_allclose(clf.predict_proba(new), p, atol=tolerance)
    sure = np.all(p > 1e-4, axis=1)
    log_p = logit(p[sure, 1]) if n_classes == 2 else np.log(p[sure])
    np.testing.assert_allclose(clf.decision_function(new)[sure], log_p, atol=1e4 * tolerance)
    # The draws one by one, in any order.
    found = np.sort(clf.sample_proba(new, clf.n_draws_, random_state=0), axis=0)
    np.testing.assert_allclose(found, np.sort(noisy(votes, noise, y), axis=0), atol=tolerance)


@pytest.mark.parametrize("softness", [0.0, 0.3])
@pytest.mark.parametrize("label_noise", [0.0, 0.2])
def test_votes_of_two_classes_are_those_of_the_posterior(label_noise, softness):
    X, y, new, _ = flowers(2)
    clf = classifier(gamma=0.7, label_noise=label_noise, softness=softness).fit(X, y)
    gram, _ = by_hand(clf, X, X)
    cross, length = by_hand(clf, new, X)
    fitted = clf.posterior(0)
    posterior = Posterior(
        fitted.coef, n_chains=fitted.n_chains, mean_norm=fitted.mean_norm,
        space=VersionSpace(gram, np.where(y == 1, 1, -1), softness),
        factor=Factor(gram + softness * np.eye(len(gram))), label_noise=label_noise,
    )  # fmt: skip
    label = posterior.predictive(cross, length**2, label=True)
    np.testing.assert_allclose(clf.predict_proba(new)[:, 1], label, atol=1e-8)
    sign = posterior.predictive(cross, length**2)
    if softness or label_noise:
        assert np.abs(sign - label).max() > 0.01  # both are folded in
    else:
        np.testing.assert_array_equal(sign, label)
    # A label is wrong with probability q, however sure the class is.
    assert clf.predict_proba(new).min() >= label_noise - 1e-12


def test_noise_is_folded_in_before_class_weights():
    rng = np.random.default_rng(0)
    votes, noise = rng.random((6, 3)), 0.2
    log_weight = np.log([1.0, 5.0, 0.1])
    expected = noisy(votes, noise) * np.exp(log_weight)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(combine_votes(votes, log_weight, noise)), expected)
    p = np.exp(combine_votes(votes, np.zeros(3), 0.0))
    np.testing.assert_allclose(p, votes / votes.sum(axis=1, keepdims=True))
    assert np.all(combine_votes(votes, np.zeros(3), 0.3).argmax(axis=1) == votes.argmax(axis=1))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_members_average_to_the_vote(noise, n_classes):
    X, y, new, _ = flowers(n_classes)
    clf = classifier(n_draws=12, label_noise=rates_of(noise, n_classes)).fit(X, y)
    members = clf.sample_proba(new, n_samples=12, random_state=0)
    assert members.shape == (12, len(new), n_classes)
    np.testing.assert_allclose(members.sum(axis=2), 1, atol=1e-12)
    assert len(np.unique(members, axis=0)) == 12  # each draw once
    p = clf.predict_proba(new)
    if n_classes == 2:
        np.testing.assert_allclose(members.mean(axis=0), p, atol=1e-12)
    else:  # each member is normalised over classes on its own
        assert np.abs(members.mean(axis=0) - p).max() < 0.1
    many = clf.sample_proba(new[:20], n_samples=2000, random_state=1)  # with replacement
    assert np.abs(many.mean(axis=0) - members.mean(axis=0)[:20]).max() < 0.1
    np.testing.assert_array_equal(clf.sample_proba(new, 5, 3), clf.sample_proba(new, 5, 3))
    assert clf.sample_proba(new[:1]).shape == (10, 1, n_classes)


def test_members_of_the_bayes_point_decision():
    X, y, new, _ = flowers(3)
    clf = classifier(decision="bayes_point", label_noise=0.1).fit(X, y)
    members = clf.sample_proba(new, n_samples=6, random_state=0)
    assert members.shape == (6, len(new), 3)
    np.testing.assert_allclose(members.sum(axis=2), 1, atol=1e-12)
    assert np.mean(members.mean(axis=0).argmax(axis=1) == clf.predict(new)) > 0.9


# ---------------------------------------------------------------------- decisions


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1e-9, 1: 30.0}], ids=str)
def test_predict_is_the_argmax_of_both(decision, noise, n_classes, class_weight):
    X, y, new, labels = flowers(n_classes)
    noise = rates_of(noise, n_classes)
    clf = classifier(decision=decision, class_weight=class_weight, label_noise=noise).fit(X, y)
    both = np.vstack([new, fresh_points(X)])
    outputs, p, predicted = clf.decision_function(both), clf.predict_proba(both), clf.predict(both)
    assert outputs.shape == ((len(both),) if n_classes == 2 else (len(both), n_classes))
    best = (outputs > 0).astype(int) if n_classes == 2 else outputs.argmax(axis=1)
    np.testing.assert_array_equal(predicted, clf.classes_[best])
    np.testing.assert_array_equal(predicted, clf.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(clf.predict_log_proba(both), np.log(p))
    if class_weight is None:
        assert np.mean(predicted[: len(new)] == labels) > 0.85


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weights_shift_probabilities(decision, n_classes):
    X, y, new, _ = flowers(n_classes)
    settings = {"decision": decision, "label_noise": 0.1}
    plain = classifier(**settings).fit(X, y)
    weights = np.array([0.2, 3.0, 1.0])[:n_classes]
    shifted = classifier(**settings, class_weight=dict(enumerate(weights))).fit(X, y)
    expected = plain.predict_proba(new) * weights
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shifted.predict_proba(new), expected, atol=1e-9)
    np.testing.assert_array_equal(shifted.dual_coef_, plain.dual_coef_)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_far_from_all_data_the_vote_does_not_know(label_noise):
    X, y, *_ = flowers(3)
    clf = classifier(bias=0, label_noise=label_noise).fit(X, y)
    far = 1e4 * np.random.default_rng(0).normal(size=(20, X.shape[1]))
    np.testing.assert_allclose(clf.predict_proba(far), 1 / 3, atol=1e-12)


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("label_noise", [0.0, 0.1, [0.1, 0.0, 0.3]], ids=str)
def test_a_weight_means_that_many_copies(decision, label_noise):
    X, y = iris()
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, size=len(y))
    order = rng.permutation(weight.sum())
    copies = np.repeat(np.arange(len(y)), weight)[order]
    settings = {"decision": decision, "class_weight": "balanced", "label_noise": label_noise}
    weighted = classifier(**settings).fit(X, y, sample_weight=weight)
    assert not set(weighted.support_) & set(np.flatnonzero(weight == 0))
    kept = np.flatnonzero(weight)
    for rows, weights in ((copies, None), (kept, weight[kept])):
        other = classifier(**settings).fit(X[rows], y[rows], weights)
        np.testing.assert_array_equal(weighted.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(weighted.predict_proba(X), other.predict_proba(X))
        np.testing.assert_array_equal(X[weighted.support_], X[rows][other.support_])


def test_weights_change_draws_only_with_label_noise():
    X, y, *_ = flowers(3)
    weight = 1.0 + (np.arange(len(y)) % 2)
    for label_noise in (0.0, 0.1):
        plain, weighted = (
            classifier(gamma=0.5, label_noise=label_noise).fit(X, y, w) for w in (None, weight)
        )
        assert np.array_equal(plain.dual_coef_, weighted.dual_coef_) == (label_noise == 0)


def test_merged_copies_have_no_coefficient():
    X, y, *_ = flowers(3)
    posterior = classifier(label_noise=0.1).fit(np.vstack([X, X]), np.append(y, y)).posterior(0)
    assert posterior.coef.shape[1] == 2 * len(y)
    assert not np.any(posterior.coef[:, len(y) :])
    assert not np.any(posterior.bayes_point()[len(y) :])


# ---------------------------------------------------------------------- kinds of data


@pytest.mark.parametrize(
    ("kernel", "label_noise"), [("linear", 0.0), ("poly", 0.1), ("rbf", 0.1), ("laplacian", 0.0)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_and_dense_agree(kernel, label_noise, dtype):
    rng = np.random.default_rng(0)
    X = (rng.integers(-2, 3, size=(60, 6)) * (rng.random((60, 6)) < 0.4)).astype(dtype)
    y = X[:, :3].sum(axis=1) > X[:, 3:].sum(axis=1)
    fits = [
        classifier(kernel=kernel, label_noise=label_noise, n_draws=400).fit(layout(X), y)
        for layout in (np.asarray, sp.csr_matrix)
    ]
    assert sp.issparse(fits[1].support_vectors_)
    p = [clf.predict_proba(X) for clf in fits]
    # Rounding sends the balls of the two elsewhere: statistics only.
    assert np.abs(p[0] - p[1]).max() < 0.15
    for clf, expected in zip(fits, p, strict=True):
        assert clf.support_vectors_.dtype == dtype
        assert clf.score(X, y) > 0.85
        for new in (sp.csr_matrix(X), sp.csc_matrix(X, dtype=np.float32), X.astype(np.float64)):
            np.testing.assert_allclose(clf.predict_proba(new), expected, atol=1e-4)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_float32_is_as_good(label_noise):
    X, y, new, _ = flowers(3)
    p = [
        classifier(n_draws=400, label_noise=label_noise).fit(X.astype(t), y).predict_proba(new)
        for t in (np.float64, np.float32)
    ]
    assert np.abs(p[0] - p[1]).max() < 0.15


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_precomputed_and_callable_kernels(decision, label_noise):
    X, y, new, _ = flowers(3)
    settings = {"decision": decision, "label_noise": label_noise}
    named = classifier(gamma=0.5, **settings).fit(X, y)
    called = classifier(kernel=lambda A, B: rbf_kernel(A, B, 0.5), **settings).fit(X, y)
    np.testing.assert_allclose(called.predict_proba(new), named.predict_proba(new), atol=1e-6)
    given = classifier(kernel="precomputed", **settings).fit(rbf_kernel(X, X, 0.5), y)
    cross = rbf_kernel(new, X, 0.5)
    # Points of a Gram matrix keep their order, so that its draws are others.
    if decision == "vote":
        twin = copy.copy(named)
        twin.posterior = given.posterior
        expected = noisy(votes_by_hand(twin, X, new).mean(axis=0), label_noise)
        np.testing.assert_allclose(given.predict_proba(cross), expected, atol=1e-8)
    else:
        K, _ = by_hand(named, new, X[given.support_])
        outputs = given.decision_function(cross)
        np.testing.assert_allclose(outputs, K @ given.dual_coef_.T, atol=ROUNDING)
    assert np.mean(given.predict(cross) == named.predict(new)) > 0.8
    assert given.posterior(0).coef.shape == (8, len(X))


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_classes_of_one_point(decision, label_noise):
    X = np.array([[0.0, 0.0], [1.0, 0.2], [0.1, 1.0]])
    for y in ([0, 1, 2], ["a", "b", "b"]):
        clf = classifier(decision=decision, label_noise=label_noise, gamma=2.0, n_draws=200)
        clf.fit(X, y)
        assert clf.predict(X).tolist() == y
        assert np.all(np.isfinite(clf.predict_proba(fresh_points(X))))


def test_labels_of_any_type():
    X, y, new, labels = flowers(3)
    names = np.array(["no", "maybe", "yes"])
    clf = classifier(label_noise={"yes": 0.1}).fit(X, names[y])
    np.testing.assert_array_equal(clf.classes_, ["maybe", "no", "yes"])
    np.testing.assert_array_equal(clf.label_noise_, [0, 0, 0.1])
    assert clf.score(new, names[labels]) > 0.8
    truth = classifier(label_noise={True: 0.2}).fit(X, y == 1)
    np.testing.assert_array_equal(truth.label_noise_, [0, 0.2])
    assert truth.predict(new).dtype == bool
    objects = classifier(label_noise=0.1).fit(X, names[y].astype(object))
    assert objects.score(new, names[labels].astype(object)) > 0.8


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2], np.ndarray.tolist],
    ids=["fortran", "strided", "list"],
)
def test_layouts_in_memory_change_nothing(change):
    X, y, new, _ = flowers(3)
    expected = classifier(label_noise=0.1).fit(X, y).predict_proba(new)
    found = classifier(label_noise=0.1).fit(change(X), y).predict_proba(change(new))
    np.testing.assert_array_equal(found, expected)


def test_inputs_are_left_alone():
    X, y, *_ = flowers(3)
    noise, weight, K = np.array([0.1, 0.2, 0.0]), np.ones(len(y)), rbf_kernel(X)
    for one in (X, y, noise, weight, K):
        one.flags.writeable = False
    clf = classifier(label_noise=noise).fit(X, y, weight)
    assert clf.label_noise is noise
    assert clf.label_noise_ is not noise
    classifier(kernel="precomputed", label_noise=0.1).fit(K, y, weight).predict(K)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_order_of_rows_changes_nothing(label_noise):
    X, y, *_ = flowers(3)
    order = np.random.default_rng(0).permutation(len(y))
    one, other = (classifier(label_noise=label_noise).fit(X[o], y[o]) for o in (slice(None), order))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(X[one.support_], X[order][other.support_])
    np.testing.assert_array_equal(one.posterior(0).coef[:, order], other.posterior(0).coef)


# ---------------------------------------------------------------------- as part of scikit-learn


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_threads_and_memory_change_nothing(layout, decision, label_noise):
    X, y = layout(iris()[0]), iris()[1]
    settings = {"decision": decision, "label_noise": label_noise}
    one = classifier(n_jobs=1, **settings).fit(X, y)
    for n_jobs, cache_size in ((2, 5), (3, 2000)):
        other = classifier(n_jobs=n_jobs, cache_size=cache_size, **settings).fit(X, y)
        np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(one.posterior(2).coef, other.posterior(2).coef)
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_seeds():
    X, y, new, _ = flowers(3)
    p = [
        classifier(random_state=seed).fit(X, y).predict_proba(new)
        for seed in (0, 0, 1, np.random.RandomState(5), np.random.RandomState(5), None, None)
    ]
    np.testing.assert_array_equal(p[0], p[1])
    np.testing.assert_array_equal(p[3], p[4])
    assert len(np.unique(p, axis=0)) == 5


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("label_noise", [0.0, [0.1, 0.0, 0.2]], ids=str)
def test_fitted_objects_are_plain_and_travel(decision, label_noise):
    X, y, new, _ = flowers(3)
    clf = classifier(decision=decision, label_noise=label_noise).fit(X, y)
    assert not unusual(vars(clf), "clf")
    stored = io.BytesIO()
    joblib.dump(clf, stored)
    stored.seek(0)
    for one in (pickle.loads(pickle.dumps(clf)), joblib.load(stored), copy.deepcopy(clf)):
        np.testing.assert_array_equal(one.predict_proba(new), clf.predict_proba(new))
        np.testing.assert_array_equal(one.posterior(1).coef, clf.posterior(1).coef)
        assert one.diagnostics_["drift"] == clf.diagnostics_["drift"]
    before = joblib.hash(vars(clf))
    clf.predict(new), clf.score(X, y), clf.posterior(0), clf.sample_proba(new), repr(clf)
    assert joblib.hash(vars(clf)) == before
    again = clone(clf)
    assert not any(name.endswith("_") for name in vars(again))
    np.testing.assert_array_equal(again.fit(X, y).dual_coef_, clf.dual_coef_)


def test_grid_search_over_noise_and_method():
    X, y = iris()
    grid = {
        "bayespointclassifier__label_noise": [0.0, 0.05, [0.0, 0.1, 0.1]],
        "bayespointclassifier__inference": ["auto", "billiard"],
    }
    pipeline = make_pipeline(StandardScaler(), classifier(inference="auto"))
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] > 0.85)
    assert search.best_estimator_[-1].inference_ in ("ep", "billiard")
    scores = cross_val_score(classifier(label_noise=0.05), X, y, cv=2, scoring="neg_log_loss")
    assert np.all(scores > -0.8)  # guessing has -1.1


@pytest.mark.parametrize(
    ("settings", "names", "bytes_an_entry"),
    [
        ({}, ["billiard", "decision='vote'", "decision='bayes_point'"], 32),
        ({"decision": "bayes_point"}, ["billiard"], 16),
        ({"inference": "auto", "label_noise": 0.1}, ["billiard", "label_noise > 0"], 32),
    ],
    ids=["vote", "bayes_point", "noise"],
)
def test_too_little_memory_is_one_clear_error(settings, names, bytes_an_entry):
    X, y, *_ = flowers(3)
    enough = bytes_an_entry * len(X) ** 2 / 1e6
    with pytest.raises(ValueError, match=r"cache_size=.*Raise cache_size, or use") as caught:
        classifier(cache_size=0.99 * enough, **settings).fit(X, y)
    for name in [*names, "inference='perceptron'", f"{len(X)} distinct training points", "MB"]:
        assert name in str(caught.value)
    assert classifier(cache_size=1.001 * enough, **settings).fit(X, y).score(X, y) > 0.9
    # The remedy works.
    assert classifier(inference="perceptron", cache_size=0.01).fit(X, y).score(X, y) > 0.9


def test_progress_goes_to_standard_error(capfd):
    X, y, *_ = flowers(3)
    classifier().fit(X, y)
    assert capfd.readouterr() == ("", "")
    classifier(verbose=1).fit(X, y)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "flights" in shown.err


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
    np.testing.assert_array_equal(clf.predict_proba(new).argmax(axis=1), clf.predict(new))


def test_the_posterior_of_a_fit_is_over_the_rows_of_the_input():
    X, y, *_ = flowers(2)
    X, y = np.concatenate([X, X[:5]]), np.append(y, y[:5])  # copies are merged
    clf = classifier(n_draws=80).fit(X, y)
    posterior = clf.posterior(0)
    outputs, coef = posterior.outputs, posterior.coef[:, posterior.points]
    np.testing.assert_allclose(np.sum(coef * outputs, axis=1), 1.0, rtol=1e-9)
    assert np.all(np.diff(posterior.points) > 0)
    assert 0 < posterior.bayes_point_error("draws") < 1
    assert posterior.ess().shape == (len(posterior.points),)
    target = np.where(y == 1, 1, -1)
    assert np.all(target * posterior.bayes_point("kicks") >= 0)
    assert posterior.info["bounces"].shape == (4,)
