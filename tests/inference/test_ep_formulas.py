"""Expectation propagation: its numbers are those of the formulas, of quadrature and closed forms.

Its Gaussian is an approximation: where a test compares it with the exact posterior, it states by
how much the two may differ. All else holds to rounding.
"""

from itertools import pairwise

import numpy as np
import pytest
from helpers.gaussians import (
    MODELS,
    PRECISE,
    SAME,
    Model,
    every_model,
    likelihood_of,
    of,
    plain,
    plain_propagation,
    propagated,
)
from helpers.version_spaces import equicorrelated, orthant_probability, orthogonal
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.special import expit, log_ndtr, ndtr
from scipy.stats import norm

from bayespoint import VersionSpace
from bayespoint.inference import expectation_propagation
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import propagate
from bayespoint.space.decisions import label_odds

# Two ways from the same sites to the same numbers: rounding.
ROUNDING = 1e-8
# Of the rules below for densities with a step at 0.
QUADRATURE = 1e-8
# Log evidence of two and of three points, at the angles below: EP is off by so much at most.
FEW_POINTS = 0.005


@every_model
def test_numbers_are_those_of_the_formulas(name):
    model, post = MODELS[name], propagated(name)
    assert post.converged
    assert np.any(post.sites.tau < 0) or not name.startswith("negative")
    expected = plain(model, post.sites)
    coef = expected.R @ (post.sites.nu / post.sites.tau)  # R T^-1 nu
    assert_allclose(post.coef, coef, atol=ROUNDING * np.abs(post.coef).max())
    mean, variance = post.marginals()
    assert_allclose(mean, expected.mean, atol=ROUNDING)
    assert_allclose(variance, expected.covariance.diagonal(), atol=ROUNDING)
    assert post.log_evidence == pytest.approx(expected.log_evidence, abs=ROUNDING)
    P, sign = post.reducer()
    scale = np.abs(expected.R).max()
    assert_allclose((P.T * sign) @ P, expected.R, atol=ROUNDING * scale)


@pytest.mark.parametrize("name", ["sure labels", "a rate a point", "negative sites", "singular"])
def test_sites_are_those_of_one_after_the_other(name):
    model, post = MODELS[name], propagated(name)
    sites = plain_propagation(model)
    for found, expected in zip(post.sites, sites, strict=True):
        assert_allclose(found, expected, atol=SAME * np.abs(expected).max())
    assert post.log_evidence == pytest.approx(plain(model, sites).log_evidence, abs=SAME)


# ---------------------------------------------------------------------- quadrature

NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def gauss(low, high):
    """Points and weights of Gauss's rule on an interval."""
    return low + (high - low) * (NODES + 1) / 2, (high - low) / 2 * WEIGHTS


def density(model, state, i, f):
    """Of output i without its own label, times the probability of that label."""
    y, ridge, rate = model.space.y[i], model.space.ridge[i], model.rates[i]
    right = ndtr(y * f / np.sqrt(ridge)) if ridge else 1.0 * (y * f > 0)
    likelihood = rate + (1 - 2 * rate) * right
    return norm.pdf(f, state.cavity_mean[i], np.sqrt(state.cavity_variance[i])) * likelihood


@every_model
def test_at_the_fixed_point_moments_are_those_of_the_labels(name):
    """By quadrature: mean, variance, probability of the label, and of an output against it."""
    model, post = MODELS[name], propagated(name)
    state = plain(model, post.sites)
    mean, variance = post.marginals()
    wrong, left_out = post.wrong_label_proba(), post.leave_one_out()
    for i in range(0, len(model.space), 3):
        far = 12 * np.sqrt(state.cavity_variance[i])
        ends = min(state.cavity_mean[i] - far, -1e-3), max(state.cavity_mean[i] + far, 1e-3)
        sides = [gauss(ends[0], 0.0), gauss(0.0, ends[1])]  # a likelihood may have its step at 0
        masses = [w * density(model, state, i, f) for f, w in sides]
        f, mass = (np.concatenate(x) for x in ([f for f, _ in sides], masses))
        total = mass.sum()
        first = f @ mass / total
        second = (f - first) ** 2 @ mass / total
        against = masses[0 if model.space.y[i] > 0 else 1].sum() / total
        assert_allclose([mean[i], variance[i]], [first, second], atol=SAME)
        assert left_out[i] == pytest.approx(np.log(total), abs=SAME)
        assert wrong[i] == pytest.approx(against, abs=QUADRATURE)


# Intervals from 0 to beyond all outputs, fine beside exp(-40 f) and a softness of 0.001.
EDGES = np.concatenate([[0, 0.03, 0.1, 0.3, 1], np.arange(3, 91, 3)])


def log_mass(log_density, sign):
    """Log-integral over outputs of one sign."""
    rules = [gauss(low, high) for low, high in pairwise(EDGES)]
    f, weights = (np.concatenate(x) for x in zip(*rules, strict=True))
    return np.logaddexp.reduce(log_density(sign * f) + np.log(weights))


@pytest.mark.parametrize(
    ("softness", "rate"),
    [(0.0, 0.01), (0.0, 1e-6), (0.001, 0.0), (0.1, 0.0), (2.0, 0.0), (0.3, 0.1)],
)
def test_wrong_labels_by_quadrature_far_from_what_is_expected(softness, rate):
    """Outputs that the other labels put up to 40 standard deviations on either side."""
    scores = np.array([-40.0, -37.0, -20.0, -5.0, -0.5, 0.0, 0.5, 5.0, 20.0, 40.0])
    y = np.where(np.arange(len(scores)) % 2, 1.0, -1.0)
    odds = label_odds(np.full(len(scores), rate))
    likelihood = Likelihood(y, np.full(len(y), softness), odds, np.log1p(-rate) + 0 * y)
    found = likelihood.wrong(y * scores, np.ones(len(y)))
    for score, probability in zip(scores, found, strict=True):

        def log_density(f, score=score):
            with np.errstate(divide="ignore"):
                right = log_ndtr(f / np.sqrt(softness)) if softness else np.log(1.0 * (f > 0))
                label = np.logaddexp(np.log(rate), np.log1p(-2 * rate) + right)
            return -0.5 * (f - score) ** 2 + label

        negative, positive = (log_mass(log_density, sign) for sign in (-1, 1))
        expected = expit(negative - positive)
        far = 0.02 if score < -36 else QUADRATURE  # beyond, a limit stands in
        assert probability == pytest.approx(expected, rel=1e-4, abs=far), score


# ---------------------------------------------------------------------- copies


@pytest.mark.parametrize("name", ["softness", "a rate a point", "negative sites, softness"])
def test_copies_are_rows_written_out(name):
    model = MODELS[name]
    copies = 1.0 + np.arange(len(model.space)) % 3
    row = np.repeat(np.arange(len(copies)), copies.astype(int))
    counted = propagate(model.K, likelihood_of(model, copies), tol=PRECISE)
    repeated = Model(
        VersionSpace(model.K[np.ix_(row, row)], model.space.y[row], model.space.softness),
        model.rates[row],
    )
    written = propagate(repeated.K, likelihood_of(repeated), tol=PRECISE)
    assert counted.converged
    assert written.converged
    assert np.any(counted.sites.tau < 0) == (name != "softness")
    assert counted.log_evidence == pytest.approx(written.log_evidence, abs=SAME)
    summed = np.bincount(row, weights=written.gaussian.coef)
    assert_allclose(counted.gaussian.coef, summed, atol=SAME * np.abs(summed).max())
    for one, other in [
        (counted.gaussian.cavity_mean, written.gaussian.cavity_mean),
        (counted.gaussian.cavity_variance, written.gaussian.cavity_variance),
        *zip(counted.sites, written.sites, strict=True),
    ]:
        assert_allclose(one[row], other, atol=SAME * np.abs(other).max())
    # A negative control: without copies all of this is different.
    assert abs(propagated(name).log_evidence - written.log_evidence) > 0.1


# ---------------------------------------------------------------------- closed forms


@pytest.mark.parametrize(("softness", "noise"), [(0.0, 0.0), (0.7, 0.0), (0.3, 0.2)])
def test_one_point_is_exact(softness, noise):
    post = expectation_propagation(VersionSpace([[4.0]], [-1], softness), label_noise=noise)
    assert post.log_evidence == pytest.approx(np.log(0.5), abs=1e-12)
    if softness == noise == 0:  # half of a Gaussian
        mean, variance = post.marginals()
        assert mean[0] == pytest.approx(-2 * np.sqrt(2 / np.pi))
        assert variance[0] == pytest.approx(4 * (1 - 2 / np.pi))


@pytest.mark.parametrize(
    "cosines", [(-0.7,), (0.2,), (0.5,), (0.5, 0.2, -0.3), (0.5, 0.5, 0.5), (-0.4, -0.4, -0.1)]
)
def test_two_and_three_points_are_nearly_exact(cosines):
    m = 2 if len(cosines) == 1 else 3
    G = np.eye(m)
    G[np.triu_indices(m, 1)] = cosines
    G = np.triu(G) + np.triu(G, 1).T
    y, length = np.array([1, -1, 1])[:m], np.array([1.0, 0.3, 7.0])[:m]
    K = G * np.outer(y * length, y * length)
    found = expectation_propagation(VersionSpace(K, y)).log_evidence
    exact = np.log(orthant_probability(G))
    assert found == pytest.approx(exact, abs=FEW_POINTS)
    # A negative control: one label turned round.
    y[0] *= -1
    assert abs(expectation_propagation(VersionSpace(K, y)).log_evidence - exact) > FEW_POINTS


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_independent_points_are_exact(noise):
    problem = orthogonal(40, noise)
    post = of(problem).propagate(tol=PRECISE)
    assert post.log_evidence == pytest.approx(-40 * np.log(2), abs=SAME)
    assert_allclose(post.wrong_label_proba(), noise, atol=SAME)
    assert_allclose(post.leave_one_out(), -np.log(2), atol=SAME)


def log_equicorrelated(m, rho):
    """Log of P(f > 0): given what all m outputs share, they are independent."""
    share = np.sqrt(rho / (1 - rho))
    g = np.linspace(-10, 10, 100_001)
    return np.log(integrate.simpson(norm.pdf(g) * ndtr(share * g) ** m, x=g))


@pytest.mark.parametrize(
    ("m", "rho", "bias", "error"),
    [(10, 0.5, 0.0, 0.05), (50, 0.5, 0.0, 0.05), (50, 0.9, -0.17, 0.03), (50, 0.99, -0.37, 0.03)],
)
def test_equal_angles(capfd, m, rho, bias, error):
    """Good where points differ; too low, and by how much, where they are nearly the same."""
    exact = log_equicorrelated(m, rho)
    if rho == 0.5:
        assert exact == pytest.approx(-np.log(m + 1), abs=1e-7)
    post = of(equicorrelated(m, rho)).propagate()
    assert post.log_evidence - exact == pytest.approx(bias, abs=error)
    # Nothing by LAPACK, of matrices without rows: on the way here all sites are small at once.
    assert capfd.readouterr() == ("", "")
