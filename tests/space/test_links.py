"""Links: gradient, what they must equal, and what they are fitted to."""

import numpy as np
import pytest
from helpers.thresholds import compare_means, fails_clearly, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from scipy.special import expit, ndtr, softmax

from bayespoint.space import links
from bayespoint.space.decisions import combine_votes
from bayespoint.space.links import (
    Link,
    fit_link,
    fit_steepness,
    probabilities,
    shifted,
)

N_CHAINS = 32


def make_outputs(n_classes):
    rng = np.random.default_rng(0)
    if n_classes == 2:
        return np.concatenate([np.linspace(-1.0, 1.0, 41), rng.uniform(-1, 1, 50)])
    return rng.uniform(-1, 1, (90, n_classes))


def some_link(n_classes):
    """A link that is no temperature, but for two classes with its offset."""
    if n_classes == 2:
        return Link(np.array([[4.0]]), np.array([0.7]))
    rng = np.random.default_rng(1)
    weights = 5 * np.eye(n_classes) + rng.normal(size=(n_classes, n_classes))
    return Link(weights, np.linspace(-1, 1, n_classes))


def draw_labels(rng, outputs, link):
    p = probabilities(link.scores(outputs))
    return (rng.random(len(p))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


def ones(label):
    return np.ones(len(label))


# ---------------------------------------------------------------------- scores and probabilities


@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0])
def test_a_temperature_is_the_logistic_function_or_softmax(kappa):
    f = make_outputs(2)
    p = probabilities(Link.plain(2, kappa).scores(f))
    assert_allclose(p, np.column_stack([expit(-kappa * f), expit(kappa * f)]), rtol=1e-12)
    f = make_outputs(4)
    p = probabilities(Link.plain(4, kappa).scores(f))
    assert_allclose(p, softmax(kappa * f, axis=1), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_by_hand_and_of_many_draws_at_once(n_classes):
    f, link = make_outputs(n_classes), some_link(n_classes)
    found = link.scores(f)
    assert found.shape == f.shape
    rows = f[:, None] if n_classes == 2 else f
    by_hand = [link.weights @ row + link.offset for row in rows]
    assert_allclose(found, np.reshape(by_hand, f.shape), rtol=1e-12)
    assert_allclose(link.scores(np.stack([f, -f]))[1], link.scores(-f))
    votes = links.votes_of(np.stack([found, -found]), n_classes)
    assert votes.shape == (2, len(f), n_classes)
    assert_allclose(votes[0], probabilities(found), rtol=1e-12)


WEIGHTS = ([1.0, 3.0], [1e6, 1.0], [0.5, 0.4, 2.0], [1.0, 1.0, 1e-6])


@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
def test_probabilities_of_shifted_scores_are_the_weighted_ones(weight):
    weight = np.array(weight)
    scores = some_link(len(weight)).scores(make_outputs(len(weight)))
    moved = shifted(scores, np.log(weight))
    assert moved.shape == scores.shape
    p = probabilities(scores) * weight
    expected = p / p.sum(axis=1, keepdims=True)
    assert_allclose(probabilities(moved), expected, rtol=1e-6, atol=1e-300)
    decided = moved.argmax(axis=1) if moved.ndim == 2 else (moved > 0).astype(int)
    assert_array_equal(decided, expected.argmax(axis=1))
    assert_allclose(shifted(scores, np.log(np.full(len(weight), 3.0)))[:1], scores[:1] + (
        0 if len(weight) == 2 else np.log(3.0)
    ))  # fmt: skip
    assert_array_equal(shifted(scores, np.zeros(len(weight))), scores)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_plain_link_of_votes_gives_the_votes(n_classes):
    z = 3 * np.random.default_rng(2).normal(size=(1 if n_classes == 2 else n_classes, 200))
    z[:, :2] = [[-30.0, 7.0]]
    outputs = links.vote_outputs(z)
    assert outputs.shape == ((200,) if n_classes == 2 else (200, n_classes))
    yes = ndtr(z).T
    votes = np.column_stack([ndtr(-z[0]), yes]) if n_classes == 2 else yes
    expected = votes / votes.sum(axis=1, keepdims=True)
    scores = Link.plain(n_classes).scores(outputs)
    assert_allclose(links.votes_of(scores, n_classes), expected, rtol=1e-9)
    assert_allclose(np.exp(combine_votes(votes, 0.0)), expected, rtol=1e-9)
    assert np.all(np.isfinite(links.vote_outputs(np.full_like(z, -1e3))))


# ---------------------------------------------------------------------- the loss that is minimised


@pytest.mark.parametrize("usual", [None, links.VOTES_USUAL], ids=["unknown", "usual"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_derivatives_are_those_of_finite_differences(n_classes, noise, usual):
    rng = np.random.default_rng(3)
    outputs = make_outputs(n_classes)
    label, weight = rng.integers(n_classes, size=len(outputs)), rng.integers(1, 4, len(outputs))
    loss = links.LinkLoss(outputs, label, weight.astype(float), noise, usual)
    free = np.flatnonzero(loss.free_of(np.ones(n_classes, bool)))
    point = loss.start(0.3)
    point[free[1:]] += 0.3 * rng.normal(size=len(free) - 1)
    numeric = approx_fprime(point, lambda p: loss(p)[0], 1e-6)
    assert_allclose(loss(point)[1][free], numeric[free], atol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_information_is_the_curvature_expected(n_classes, noise):
    """Where each row has all labels, as often as the matrix says."""
    rng = np.random.default_rng(5)
    n = 1 if n_classes == 2 else n_classes
    features = np.vstack([rng.normal(size=(n, 7)), np.ones(7)])
    matrix = rng.normal(size=(n, n + 1))
    scores = matrix @ features
    p = softmax(np.vstack([np.zeros((n_classes - n, 7)), scores]), axis=0)
    wrong = noise / (n_classes - 1)
    target = wrong + (1 - noise - wrong) * p
    told = links.Likelihood(features, target, noise, links.ON_HOST)
    numeric = np.array([
        (told(matrix + 1e-5 * step)[1] - told(matrix - 1e-5 * step)[1]).ravel() / 2e-5
        for step in np.eye(matrix.size).reshape(-1, *matrix.shape)
    ])  # fmt: skip
    assert_allclose(told.information(matrix), numeric, atol=1e-8)
    assert_allclose(told(matrix)[1], 0, atol=1e-12)


def test_many_rows_and_classes_take_the_same_minimum(monkeypatch):
    outputs = 2 * make_outputs(3)
    label = draw_labels(np.random.default_rng(6), outputs, some_link(3))
    other = fit_link(outputs, label, ones(label))
    monkeypatch.setattr(links, "FEW_ROWS", 10)
    link = fit_link(outputs, label, ones(label))
    assert np.any(link.weights != other.weights)
    monkeypatch.setattr(links, "BLOCK", 7)
    assert_allclose(fit_link(outputs, label, ones(label)).weights, link.weights, rtol=1e-9)
    assert_allclose(other.weights, link.weights, rtol=1e-3, atol=1e-3)
    assert_allclose(other.offset, link.offset, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_log_probability_of_a_steepness_by_hand(n_classes):
    rng = np.random.default_rng(4)
    outputs, noise = 2 * make_outputs(n_classes), 0.1
    label, weight = rng.integers(n_classes, size=len(outputs)), rng.uniform(1, 2, len(outputs))
    label = np.where(rng.random(len(label)) < 0.8, label * 0 + draw_labels(
        rng, outputs, Link.plain(n_classes, 2.0)), label)  # fmt: skip
    found, value = fit_steepness(outputs, label, weight, noise=noise, usual=(0.0, 0.5))
    p = probabilities(Link.plain(n_classes, found).scores(outputs))
    p = (1 - noise) * p + noise / (n_classes - 1) * (1 - p)
    own = p[np.arange(len(label)), label]
    prior = 0.5 * (np.log(found) / 0.5) ** 2
    assert_allclose(value, weight @ np.log(own) - prior, rtol=1e-9)
    assert fit_steepness(outputs[:0], label[:0], weight[:0])[1] == 0  # of no rows


# ---------------------------------------------------------------------- what is found


def steepness_check(n_classes, claimed):
    """Logarithms of fitted steepness over independent samples, drawn with kappa = 3."""

    def check(length, seed):
        fitted = []
        for rng in np.random.default_rng(seed).spawn(N_CHAINS):
            shape = length if n_classes == 2 else (length, n_classes)
            outputs = rng.uniform(-1, 1, shape)
            label = draw_labels(rng, outputs, Link.plain(n_classes, 3.0))
            fitted.append(np.log(fit_steepness(outputs, label, ones(label))[0]))
        return compare_means(fitted, np.log(claimed))

    return check


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_steepness_that_made_the_labels_is_found(n_classes):
    result = two_stage(steepness_check(n_classes, 3.0), length=2000, seed=0)
    assert result.passed, result
    assert result.detectable < 0.06  # of kappa
    # Negative control: a steepness off by a fifth.
    assert fails_clearly(steepness_check(n_classes, 3.6)(2000, 0))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_steepness_off_by_a_tenth_would_be_noticed(n_classes):
    assert not two_stage(steepness_check(n_classes, 3.3), length=1000, seed=0).passed


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_known_link_is_found(n_classes, noise):
    """Offsets and what classes take of each other's outputs, wrong labels or not."""
    rng = np.random.default_rng(5)
    link, n = some_link(n_classes), 10_000
    outputs = rng.uniform(-1, 1, n if n_classes == 2 else (n, n_classes))
    label = draw_labels(rng, outputs, link)
    wrong = rng.random(n) < noise
    given = np.where(wrong, (label + rng.integers(1, n_classes, n)) % n_classes, label)
    true, found = (
        probabilities(one.scores(outputs))
        for one in (link, fit_link(outputs, given, ones(label), noise=noise))
    )
    assert np.abs(found - true).mean() < 0.015
    temperature, _ = fit_steepness(outputs, given, ones(label), noise=noise)
    plain = probabilities(Link.plain(n_classes, temperature).scores(outputs))
    assert np.abs(plain - true).mean() > 0.03
    if noise:  # taken for right, wrong labels make it flat
        flat = probabilities(fit_link(outputs, given, ones(label)).scores(outputs))
        assert np.abs(flat - true).mean() > 0.05


@pytest.mark.parametrize("kappa", [0.6, 1.5])
def test_the_steepness_of_votes_suits_held_out_labels_and_few_leave_it_as_it_is(kappa):
    z = np.linspace(-2.0, 2.0, 81)
    outputs, label = np.tile(links.vote_outputs(z[None]), 2), np.repeat([0, 1], 81)
    # Both labels at each output, as often as this steepness would have them.
    share = np.concatenate([expit(-kappa * outputs[:81]), expit(kappa * outputs[:81])])
    found, _ = fit_steepness(outputs, label, 1e6 * share, usual=links.VOTES_USUAL)
    assert_allclose(found, kappa, rtol=1e-2)
    few, _ = fit_steepness(outputs, label, 0.01 * share, usual=links.VOTES_USUAL)
    assert abs(np.log(few)) < 0.5 * abs(np.log(kappa))
    noisy = 1e6 * (0.8 * share + 0.2 * (1 - share))
    found, _ = fit_steepness(outputs, label, noisy, noise=0.2, usual=links.VOTES_USUAL)
    assert_allclose(found, kappa, rtol=1e-2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_means_copies(n_classes):
    rng = np.random.default_rng(6)
    outputs = rng.uniform(-1, 1, 200 if n_classes == 2 else (200, n_classes))
    label, copies = draw_labels(rng, outputs, some_link(n_classes)), rng.integers(0, 4, 200)
    weighted = fit_link(outputs, label, copies.astype(float))
    row = np.repeat(np.arange(200), copies)
    repeated = fit_link(outputs[row], label[row], np.ones(len(row)))
    assert_allclose(weighted.weights, repeated.weights, atol=2e-2)
    assert_allclose(weighted.offset, repeated.offset, atol=2e-2)


@pytest.mark.parametrize("usual", [None, links.VOTES_USUAL], ids=["unknown", "usual"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_outputs_that_separate_give_confidence_that_grows_with_their_number(n_classes, usual):
    seen = []
    for n in (5, 50, 500):
        label = np.arange(n * n_classes) % n_classes
        outputs = np.where(label == 1, 0.1, -0.1) if n_classes == 2 else 0.1 * np.eye(3)[label]
        link = fit_link(outputs, label, ones(label), usual=usual)
        assert np.all(np.isfinite(link.weights))
        assert np.all(np.isfinite(link.offset))
        wrong = 1 - probabilities(link.scores(outputs))[np.arange(len(label)), label].mean()
        if usual is None:
            assert_allclose(wrong, 1 / (n + 2), rtol=0.02)  # Platt's target
        seen.append(wrong)
    assert 0 < seen[2] < seen[1] < seen[0] < 1 - 1 / n_classes


def test_outputs_that_say_nothing_or_the_opposite_give_a_flat_link():
    label = np.arange(100) % 2
    for outputs in (np.zeros(100), np.where(label == 1, -0.5, 0.5)):
        p = probabilities(fit_link(outputs, label, ones(label)).scores(outputs))
        assert np.abs(p - 0.5).max() < 0.01


def test_a_class_of_three_rows_is_neither_lost_nor_believed_in():
    """Three rows of a third class move its part of the link little from the temperature."""
    rng = np.random.default_rng(7)
    label = np.append(np.arange(600) % 2, [2, 2, 2])
    outputs = 0.3 * rng.normal(size=(603, 3)) + np.eye(3)[label]
    outputs[-3:, 2] = [0.5, 1.0, 1.5]
    link = fit_link(outputs, label, ones(label))
    assert np.all(np.isfinite(link.weights))
    proba = probabilities(link.scores(outputs))
    assert np.all(proba[-3:].argmax(axis=1) == 2)
    assert np.all(proba[-3:, 2] > 0.3)
    assert 1e-4 < proba[:600, 2].mean() < 0.05
    temperature, _ = fit_steepness(outputs, label, ones(label))
    assert abs(link.weights[2, 2] / temperature - 1) < 0.5


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1.0, 1e12, 1e200])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_outputs_of_any_size_give_finite_links(n_classes, scale):
    rng = np.random.default_rng(8)
    outputs = scale * rng.normal(size=60 if n_classes == 2 else (60, n_classes))
    label = rng.integers(n_classes, size=60)
    link = fit_link(outputs, label, ones(label))
    assert np.all(np.isfinite(link.weights))
    assert np.all(np.isfinite(link.offset))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_only_row_of_a_class_leaves_a_temperature(n_classes):
    """Outputs without it know nothing of its class: the largest output decides still."""
    label = np.append(np.zeros(9, dtype=int), np.arange(1, n_classes))
    outputs = np.full((len(label), n_classes), 0.1)
    outputs[:, 0] = 0.3
    outputs = outputs if n_classes > 2 else outputs[:, 1] - outputs[:, 0]
    link = fit_link(outputs, label, ones(label))
    n = len(link.offset)
    assert_array_equal(link.weights, link.weights[0, 0] * np.eye(n))
    assert_array_equal(link.offset, np.zeros(n))
    assert link.weights[0, 0] > 0


def test_one_class_of_one_row_leaves_the_others_their_matrix():
    rng = np.random.default_rng(9)
    label = np.append(rng.integers(3, size=900), 3)
    truth = rng.normal(size=(901, 3)) + 3.0 * np.eye(4)[label][:, :3]
    mixed = truth @ np.array([[1.0, 0.8, 0.0], [0.0, 1.0, 0.8], [0.8, 0.0, 1.0]])
    outputs = np.column_stack([mixed, np.zeros(901)])
    with_it = fit_link(outputs, label, ones(label))
    without = fit_link(mixed[:900], label[:900], ones(label[:900]))
    right = [
        np.mean(link.scores(given)[:900].argmax(axis=1) == label[:900])
        for link, given in ((with_it, outputs), (without, mixed))
    ]
    assert right[0] == pytest.approx(right[1], abs=0.01)
    assert_array_equal(with_it.weights[3, :3], np.zeros(3))
    assert with_it.offset[3] == 0
