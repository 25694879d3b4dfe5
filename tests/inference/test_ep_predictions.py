"""What expectation propagation says: predictions, committees, gradients and divergences."""

import numpy as np
import pytest
from helpers.gaussians import (
    MODELS,
    PRECISE,
    SAME,
    every_model,
    likelihood_of,
    of,
    plain,
    propagated,
    softened_covariance,
)
from helpers.new_points import rbf_with_new_points
from helpers.spaces import factor_of
from helpers.thresholds import compare_means, two_stage
from helpers.version_spaces import N_CHAINS, skewed
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr

from bayespoint import VersionSpace
from bayespoint.inference import expectation_propagation, sample_billiard
from bayespoint.inference.ep.sites import propagate
from bayespoint.space.kernels import Kernel

# ---------------------------------------------------------------------- against the billiard

# Of the exact probabilities, which are known to 0.01 or so from 4000 draws.
APPROXIMATION = 0.04


@pytest.mark.parametrize(("noise", "softness"), [(0.0, 0.0), (0.0, 0.5), (0.1, 0.2)])
def test_probabilities_are_close_to_exact_ones(noise, softness):
    points = rbf_with_new_points(noise, softness)
    space, diagonal = points.space, points.new.diagonal()
    flown = sample_billiard(space, 4000, label_noise=noise, random_state=0)
    post = expectation_propagation(space, label_noise=noise)
    for label in (False, True):
        exact = flown.predictive(points.cross, diagonal, label=label)
        found = post.predictive(points.cross, diagonal, label=label)
        assert_allclose(found, exact, atol=APPROXIMATION)
    cosine = post.bayes_point() @ space.outputs(flown.bayes_point())
    assert np.degrees(np.arccos(min(cosine, 1.0))) < 5
    # A negative control: one label turned round.
    y = space.y.copy()
    y[2] *= -1
    wrong = expectation_propagation(VersionSpace(space.rows, y, softness), label_noise=noise)
    turned = wrong.predictive(points.cross, diagonal, label=True)
    assert np.abs(turned - exact).max() > 2 * APPROXIMATION


def test_probabilities_of_wrong_labels_are_close_to_exact_ones():
    problem = skewed(8, 1, noise=0.2)
    flown = sample_billiard(problem.space, 8000, thin=4, label_noise=0.2, random_state=0)
    wrong = np.mean(problem.y * flown.outputs < 0, axis=0)
    found = of(problem).propagate().wrong_label_proba()
    assert_allclose(found, wrong, atol=APPROXIMATION)
    assert wrong.max() - wrong.min() > 2 * APPROXIMATION


# ---------------------------------------------------------------------- prediction


@every_model
def test_prediction_is_that_of_a_gaussian_process(name):
    """New points: combinations of the old ones and something of their own; and far from all."""
    model, post, rng = MODELS[name], propagated(name), np.random.default_rng(1)
    state = plain(model, post.sites)
    mix = rng.normal(size=(5, len(model.space))) / 4
    cross, own = mix @ model.K, 0.3
    diagonal = np.einsum("ij,ij->i", cross, mix) + own
    mean, variance = mix @ state.mean, np.einsum("ij,jk,ik->i", mix, state.covariance, mix) + own
    found = post.latent(cross, diagonal)
    assert_allclose(found[0], mean, atol=SAME)
    assert_allclose(found[1], variance, atol=SAME)
    p = post.predictive(cross, diagonal)
    assert_allclose(p, ndtr(mean / np.sqrt(variance)), atol=SAME)
    nothing = np.zeros((2, len(model.space)))
    assert_array_equal(post.predictive(nothing, [1.0, 0.0]), 0.5)
    if np.ndim(model.noise) == 0:
        softened = ndtr(mean / np.sqrt(variance + model.space.softness * diagonal))
        q = float(model.noise)
        p = post.predictive(cross, diagonal, label=True)
        assert_allclose(p, q + (1 - 2 * q) * softened, atol=SAME)
        assert_array_equal(post.predictive(nothing, [1.0, 0.0], label=True), 0.5)
    else:
        with pytest.raises(ValueError, match="label=True needs one rate"):
            post.predictive(cross, diagonal, label=True)


def test_impossible_new_points_are_refused():
    post = propagated("softness")
    with pytest.raises(ValueError, match="diagonal is smaller than cross allows"):
        post.predictive(10 * post.space.rows.store[:1], [1.0])
    for cross, diagonal in [(np.zeros((2, 3)), [1, 1]), (np.zeros((2, 14)), [1.0])]:
        with pytest.raises(ValueError, match="one column for each of 14 training points"):
            post.predictive(cross, diagonal)


# ---------------------------------------------------------------------- a committee


def against_the_gaussian(model, expected):
    """Check of the second moments of draws before they are made unit vectors."""
    i, j = np.triu_indices(len(model.space))
    factor, ridge = factor_of(model.space), model.space.ridge
    K = model.K + np.diag(ridge)
    found = propagate(model.K, likelihood_of(model), tol=PRECISE)

    def check(length, seed):
        rng = np.random.default_rng(seed)
        white = rng.standard_normal((N_CHAINS * length, factor.rank))
        noise = found.gaussian.noise(
            factor.coefficients(white), factor.outputs(white), ridge, found.sites.tau, rng
        )
        outputs = noise @ K
        products = outputs[:, i] * outputs[:, j]
        both = np.column_stack([outputs, products]).reshape(N_CHAINS, length, -1)
        return compare_means(both.mean(axis=1), np.append(np.zeros(len(K)), expected[i, j]))

    return check


@pytest.mark.parametrize(
    "name",
    ["sure labels", "softness", "a rate a point", "negative sites, softness", "singular, sure"],
)
def test_committees_have_the_covariance_of_the_gaussian(name):
    model = MODELS[name]
    covariance = softened_covariance(model, propagated(name))
    result = two_stage(against_the_gaussian(model, covariance), 200, seed=0)
    assert result.passed, result
    # Negative controls: the prior, and no softness in what is drawn.
    prior = model.K + np.diag(model.space.ridge)
    assert not against_the_gaussian(model, prior)(300, 1).passed
    if model.space.softness > 0.25:
        unsoftened = plain(model, propagated(name).sites).covariance
        assert not against_the_gaussian(model, unsoftened)(200, 1).passed


@every_model
def test_members_of_a_committee_are_unit_vectors(name):
    model, post = MODELS[name], propagated(name)
    committee = post.sample(2000, random_state=3)
    assert committee.n_draws == 2000
    K = model.K + np.diag(model.space.ridge)
    coef = committee.coef
    assert_allclose(np.einsum("ij,jk,ik->i", coef, K, coef, optimize=True), 1, atol=1e-7)
    assert_allclose(committee.outputs, coef @ K, atol=1e-6)
    assert_array_equal(committee.bayes_point(), post.bayes_point())
    assert post.space.norm(post.bayes_point()) == pytest.approx(1)
    # The mean of all draws is in the direction of the Bayes point.
    mean = coef.mean(axis=0)
    assert post.bayes_point() @ K @ mean > 0.98 * np.sqrt(mean @ K @ mean)
    one, same, other = (post.sample(50, random_state=seed).coef for seed in (3, 3, 4))
    assert_array_equal(same, one)
    assert not np.array_equal(other, one)


# ---------------------------------------------------------------------- gradients

# Central differences of a function known to 1e-9 or so: 1e-9 / STEP, and the square of STEP.
STEP, DIFFERENCE = 1e-3, 2e-5


@pytest.mark.parametrize(
    ("kernel", "softness", "noise"),
    [
        ("rbf", 0.0, 0.0),
        ("rbf", 0.3, 0.1),
        ("rbf", 0.2, "each"),
        ("poly", 0.3, 0.0),
        ("poly", 0.0, 0.1),
    ],
)
def test_gradients_are_those_of_differences(kernel, softness, noise):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=15) > 0, 1, -1)
    rates = (
        np.where(np.arange(15) % 3, rng.uniform(0.02, 0.3, 15), 0.0) if noise == "each" else noise
    )

    def posterior(log_gamma=0.0, log_bias=0.0, log_softness=0.0, logit_noise=0.0):
        k = Kernel(kernel, degree=2, gamma=0.6 * np.exp(log_gamma), bias=0.8 * np.exp(log_bias))
        with np.errstate(divide="ignore"):
            q = 1 / (1 + (1 / np.asarray(rates) - 1) * np.exp(-logit_noise))
        space = VersionSpace(k(X), y, softness * np.exp(log_softness))
        return k, expectation_propagation(space, label_noise=q, tol=PRECISE)

    k, post = posterior()
    gradient = post.gradient(k.derivatives(X))
    names = {"log_gamma", "log_bias"} | ({"log_softness"} if softness else set())
    assert set(gradient) == names | ({"logit_noise"} if noise else set())
    for name, found in gradient.items():
        up, down = (posterior(**{name: step})[1].log_evidence for step in (STEP, -STEP))
        assert found == pytest.approx((up - down) / (2 * STEP), abs=DIFFERENCE), name
        assert abs(found) > 10 * DIFFERENCE, name
    with pytest.raises(ValueError, match=r"derivatives\['width'\] must have the shape"):
        post.gradient({"width": np.eye(3)})


@pytest.mark.parametrize("name", ["softness", "noise", "negative sites, softness"])
def test_the_divergence_is_that_of_two_gaussians(name):
    model, post = MODELS[name], propagated(name)
    K = model.K + np.diag(model.space.ridge)
    covariance, mean = softened_covariance(model, post), K @ post.coef
    inner = np.linalg.solve(K, covariance)
    expected = 0.5 * (
        np.trace(inner) + mean @ np.linalg.solve(K, mean) - len(K) - np.linalg.slogdet(inner)[1]
    )
    divergence, error = post.divergence()
    assert divergence == pytest.approx(expected, abs=SAME)
    z = model.space.y * mean / np.sqrt(covariance.diagonal())
    assert error == pytest.approx(np.mean(ndtr(-z)), abs=SAME)
