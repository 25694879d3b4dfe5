"""From outputs to probabilities: links, shifts, votes, each against what it must equal."""

import numpy as np
import pytest
from helpers.thresholds import compare_means, fails_clearly, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr, softmax
from scipy.stats import norm
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint.space.decisions import (
    STEEPNESS_PRIOR,
    combine_votes,
    fit_link,
    fit_steepness,
    label_odds,
    link,
    log_odds,
    probability_from_odds,
    probability_of_sign,
    sharpen,
    shift_outputs,
    vote_probabilities,
)

N_CHAINS = 32


def make_outputs(n_classes):
    rng = np.random.default_rng(0)
    if n_classes == 2:
        return np.concatenate([np.linspace(-1.0, 1.0, 41), rng.uniform(-1, 1, 50)])
    return rng.uniform(-1, 1, (90, n_classes))


# ---------------------------------------------------------------------- link and shift


@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0])
def test_the_link_is_the_normal_distribution_function_or_softmax(kappa):
    f = make_outputs(2)
    p = link(f, kappa)
    assert_allclose(p[:, 1], ndtr(kappa * f), rtol=1e-12)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    f = make_outputs(4)
    assert_allclose(link(f, kappa), softmax(kappa * f, axis=1), rtol=1e-12)


WEIGHTS = ([1.0, 3.0], [1e6, 1.0], [0.5, 0.4, 2.0], [1.0, 1.0, 1e-6])


@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0, 1e5])
def test_the_link_of_shifted_outputs_is_the_weighted_link(kappa):
    for weight in map(np.array, WEIGHTS):
        assert_weighted_link(make_outputs(len(weight)), kappa, weight)


def assert_weighted_link(f, kappa, weight):
    shifted = shift_outputs(f, kappa, np.log(weight))
    assert shifted.shape == f.shape
    p = link(f, kappa)
    expected = p * weight / (p * weight).sum(axis=1, keepdims=True)
    assert_allclose(link(shifted, kappa), expected, rtol=1e-6, atol=1e-300)
    # And so the class decided for is the most probable one.
    decided = shifted.argmax(axis=1) if shifted.ndim == 2 else (shifted > 0).astype(int)
    clear = np.sort(expected, axis=1)[:, -1] > np.sort(expected, axis=1)[:, -2] * (1 + 1e-9)
    assert_array_equal(decided[clear], expected.argmax(axis=1)[clear])


def test_a_shift_that_forgets_the_steepness_would_be_noticed():
    f, log_weight = make_outputs(3), np.log([1.0, 2.0, 5.0])
    p = link(f, 4.0) * np.exp(log_weight)
    wrong = link(f + log_weight, 4.0)
    assert np.abs(wrong - p / p.sum(axis=1, keepdims=True)).max() > 0.1


def test_shifting_keeps_the_order_of_outputs_and_equal_weights_shift_nothing():
    f = np.linspace(-1.0, 1.0, 401)
    for kappa in (0.5, 30.0, 500.0):
        assert np.all(np.diff(shift_outputs(f, kappa, np.log([3.0, 1.0]))) > 0)
        assert_allclose(shift_outputs(f, kappa, np.log([3.0, 3.0])), f, atol=1e-9)
        assert_array_equal(shift_outputs(f, kappa, np.zeros(2)), f)


# ---------------------------------------------------------------------- steepness


def draw_labels(rng, outputs, kappa):
    p = link(outputs, kappa)
    return (rng.random(len(p))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


def steepness_check(n_classes, claimed):
    """Logarithms of fitted steepness over independent samples, drawn with kappa = 3."""

    def check(length, seed):
        fitted = []
        for rng in np.random.default_rng(seed).spawn(N_CHAINS):
            shape = length if n_classes == 2 else (length, n_classes)
            outputs = rng.uniform(-1, 1, shape)
            label = draw_labels(rng, outputs, 3.0)
            fitted.append(np.log(fit_link(outputs, label, np.ones(length))))
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


def test_a_weight_means_copies_in_the_link():
    rng = np.random.default_rng(1)
    outputs, copies = rng.uniform(-1, 1, 200), rng.integers(0, 4, 200)
    label = draw_labels(rng, outputs, 2.0)
    weighted = fit_link(outputs, label, copies.astype(float))
    repeated = fit_link(np.repeat(outputs, copies), np.repeat(label, copies), np.ones(copies.sum()))
    assert_allclose(weighted, repeated, rtol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_outputs_that_separate_give_confidence_that_grows_with_their_number(n_classes):
    fitted = []
    for n in (5, 50, 500):
        label = np.arange(n * n_classes) % n_classes
        outputs = np.where(label == 1, 0.1, -0.1) if n_classes == 2 else 0.1 * np.eye(3)[label]
        kappa = fit_link(outputs, label, np.ones(len(label)))
        wrong = 1 - link(outputs, kappa)[np.arange(len(label)), label].mean()
        assert_allclose(wrong, 1 / (n + 2), rtol=0.01)  # Platt's target
        fitted.append(kappa)
    assert fitted[0] < fitted[1] < fitted[2]


def test_outputs_that_say_nothing_or_the_opposite_give_a_flat_link():
    label = np.arange(100) % 2
    for outputs in (np.zeros(100), np.where(label == 1, -0.5, 0.5)):
        assert np.abs(link(outputs, fit_link(outputs, label, np.ones(100))) - 0.5).max() < 0.01


# ---------------------------------------------------------------------- votes


def chi_check(correct):
    """Votes against draws of the length r and of the part of w outside the span."""
    rank = 3
    mu = np.array([[0.3, -0.2, 0.0, 0.9], [0.1, 0.4, -0.6, 0.8]])  # two draws, four points
    variance = np.array([0.5, 1.0, 0.01, 2.0])
    votes = vote_probabilities(mu, variance, rank if correct else 100)[:, 1]

    def check(length, seed):
        means = []
        for rng in np.random.default_rng(seed).spawn(N_CHAINS):
            r = np.linalg.norm(rng.normal(size=(length, rank)), axis=1)[:, None, None]
            outside = rng.normal(size=(length, *mu.shape)) * np.sqrt(variance)
            means.append((r * mu + outside > 0).mean(axis=(0, 1)))
        return compare_means(means, votes)

    return check


def test_votes_average_over_length_and_the_part_outside_the_span():
    result = two_stage(chi_check(correct=True), length=2000, seed=0)
    assert result.passed, result
    assert result.detectable < 0.01


def test_a_wrong_rank_would_be_noticed():
    assert fails_clearly(chi_check(correct=False)(2000, 0))


def predictive_check(softness, span_only=False):
    """Exact draws of the posterior by rejection, against the signs they have at new points."""
    X = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.1], [-0.8, 0.5]])
    new = np.array([[0.4, 0.4], [1.5, -1.0], [2.5, 2.5]])
    y = np.array([1.0, 1.0, 1.0, -1.0])
    joint = rbf_kernel(np.vstack([X, new]), gamma=0.5) + softness * np.eye(7)
    K, cross = joint[:4, :4], joint[:4, 4:]
    inverse = np.linalg.inv(K)
    variance = joint.diagonal()[4:] - np.einsum("ij,ik,kj->j", cross, inverse, cross)
    factor = np.linalg.cholesky(joint)

    def check(length, seed):
        differences = []
        for rng in np.random.default_rng(seed).spawn(N_CHAINS):
            f = rng.normal(size=(length, 7)) @ factor.T
            f = f[np.all(y * f[:, :4] > 0, axis=1)]
            r = np.sqrt(np.einsum("di,ij,dj->d", f[:, :4], inverse, f[:, :4]))
            mu = f[:, :4] @ inverse @ cross / r[:, None]
            votes = vote_probabilities(mu, variance, rank=4)[:, 1]
            votes = (mu > 0).mean(axis=0) if span_only else votes
            differences.append(votes - (f[:, 4:] > 0).mean(axis=0))
        return compare_means(differences, 0.0)

    return check


@pytest.mark.parametrize("softness", [0.0, 0.3])
def test_votes_are_the_predictive_probability_of_the_gaussian_process(softness):
    result = two_stage(predictive_check(softness), length=10_000, seed=0)
    assert result.passed, result
    assert result.detectable < 0.04


@pytest.mark.parametrize("softness", [0.0, 0.3])
def test_votes_of_the_span_only_would_be_noticed(softness):
    assert fails_clearly(predictive_check(softness, span_only=True)(10_000, 0))


def test_votes_without_variance_are_signs_and_far_away_they_know_nothing():
    mu = np.array([[0.5, 0.0], [0.1, 0.0], [-0.2, 0.0], [0.3, 0.0]])
    assert_allclose(vote_probabilities(mu, np.zeros(2), 5), [[0.25, 0.75], [0.5, 0.5]])
    assert_allclose(vote_probabilities(1e-9 * mu, np.ones(2), 5), 0.5, atol=1e-8)
    votes = vote_probabilities(mu, np.array([0.3, 0.7]), 5)
    assert_allclose(votes.sum(axis=1), 1.0)
    # Very many dimensions: the length is sqrt(rank) almost surely.
    many = vote_probabilities(mu[:1] / 1e4, np.full(2, 0.3), 10**8)
    assert_allclose(many[:, 1], norm.cdf(mu[0] / np.sqrt(0.3)), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_votes_are_normalised_weighted_and_come_back_from_their_odds(n_classes):
    votes = np.random.default_rng(4).random((20, n_classes))
    weight = np.arange(1.0, n_classes + 1)
    log_p = combine_votes(votes, np.log(weight))
    expected = votes * weight / (votes * weight).sum(axis=1, keepdims=True)
    assert_allclose(np.exp(log_p), expected, rtol=1e-12)
    odds = log_odds(log_p)
    assert odds.shape == ((20,) if n_classes == 2 else (20, 4))
    assert_allclose(probability_from_odds(odds), expected, rtol=1e-10)


def test_votes_of_exactly_zero_stay_finite():
    for votes in (np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros((2, 3)), np.eye(3)):
        odds = log_odds(combine_votes(votes, np.zeros(votes.shape[1])))
        assert np.all(np.isfinite(odds))
        assert_allclose(probability_from_odds(odds).sum(axis=1), 1.0)


# ---------------------------------------------------------------------- steepness of votes


def test_votes_are_made_steeper_in_standard_deviations_or_by_powers():
    z = np.array([-30.0, -2.0, 0.0, 0.3, 7.0])
    votes = np.stack([ndtr(-z), ndtr(z)], axis=-1)
    assert_allclose(sharpen(votes, 1.0), votes, rtol=1e-9)
    assert_allclose(sharpen(votes, 0.5)[:, 1], ndtr(0.5 * z), rtol=1e-9)
    many = np.random.default_rng(5).random((6, 3))
    many[0] = [0.0, 0.2, 1.0]
    shares = [p / p.sum(axis=1, keepdims=True) for p in (sharpen(many, 2.0), many**2)]
    assert_allclose(*shares)


def test_label_noise_mixes_the_classes_evenly():
    votes = np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.4]])
    p = votes / votes.sum(axis=1, keepdims=True)
    found = np.exp(combine_votes(votes, np.zeros(3), noise=0.1))
    assert_allclose(found, 0.9 * p + 0.05 * (1 - p), rtol=1e-12)


@pytest.mark.parametrize("kappa", [0.6, 1.5])
def test_the_steepness_of_votes_suits_held_out_labels(kappa):
    z = np.linspace(-2.0, 2.0, 81)
    # Both labels at each score, as often as this steepness would have them.
    scores, label = np.tile(z, 2)[None], np.repeat([0, 1], 81)
    share = np.concatenate([ndtr(-kappa * z), ndtr(kappa * z)])
    found, log_probability = fit_steepness(scores, label, 1e6 * share)
    assert_allclose(found, kappa, rtol=1e-2)
    p = np.concatenate([ndtr(-found * z), ndtr(found * z)])
    prior = 0.5 * (np.log(found) / STEEPNESS_PRIOR) ** 2
    assert_allclose(log_probability, 1e6 * share @ np.log(p) - prior, rtol=1e-9)
    # Few labels leave it near 1, noise in the labels is not taken for a flat slope.
    few, _ = fit_steepness(scores, label, 0.01 * share)
    assert abs(np.log(few)) < 0.5 * abs(np.log(kappa))
    noisy, _ = fit_steepness(scores, label, 1e6 * (0.8 * share + 0.2 * (1 - share)), noise=0.2)
    assert_allclose(noisy, kappa, rtol=1e-2)


def test_the_sign_of_an_output_is_sure_without_softness():
    latent = np.array([-1.0, 0.0, 2.0])
    assert_array_equal(probability_of_sign(latent, 0.0), [0.0, 0.5, 1.0])
    assert_allclose(probability_of_sign(latent, 4.0), ndtr(latent / 2))
    assert_allclose(label_odds(np.array([0.1, 0.5])), [np.log(9), 0.0])
    assert label_odds(np.array([0.0]))[0] == np.inf
