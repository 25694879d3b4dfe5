"""From votes to probabilities, each against what it must equal."""

import numpy as np
import pytest
from helpers.thresholds import compare_means, fails_clearly, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint.space.decisions import (
    combine_votes,
    label_odds,
    log_odds,
    probability_from_odds,
    probability_of_sign,
    vote_probabilities,
)

N_CHAINS = 32


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


def test_label_noise_mixes_the_classes_evenly():
    votes = np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.4]])
    p = votes / votes.sum(axis=1, keepdims=True)
    found = np.exp(combine_votes(votes, np.zeros(3), noise=0.1))
    assert_allclose(found, 0.9 * p + 0.05 * (1 - p), rtol=1e-12)


def test_the_sign_of_an_output_is_sure_without_softness():
    latent = np.array([-1.0, 0.0, 2.0])
    assert_array_equal(probability_of_sign(latent, 0.0), [0.0, 0.5, 1.0])
    assert_allclose(probability_of_sign(latent, 4.0), ndtr(latent / 2))
    assert_allclose(label_odds(np.array([0.1, 0.5])), [np.log(9), 0.0])
    assert label_odds(np.array([0.0]))[0] == np.inf
