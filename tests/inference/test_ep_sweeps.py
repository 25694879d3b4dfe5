"""Sweeps of expectation propagation: warm starts, limits, hard problems, and what it refuses."""

import numpy as np
import pytest
from helpers.gaussians import (
    MODELS,
    PRECISE,
    SAME,
    Model,
    of,
    plain,
    plain_propagation,
    propagated,
)
from helpers.refusals import assert_refused
from helpers.version_spaces import labels, with_both_labels
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import EmptyVersionSpaceError, VersionSpace
from bayespoint.inference import expectation_propagation
from bayespoint.inference.ep.sites import Sites


@pytest.mark.parametrize("name", ["softness", "a rate a point", "negative sites"])
def test_a_warm_start_takes_fewer_sweeps_to_the_same_end(name):
    model, cold = MODELS[name], propagated(name)
    near = Model(
        VersionSpace(model.space.rows, model.space.y, model.space.softness + 0.01), model.noise
    )
    anew = near.propagate(tol=1e-6)
    for start in (cold, cold.sites):
        warm = near.propagate(tol=1e-6, start=start)
        assert warm.sweeps < anew.sweeps
        assert warm.log_evidence == pytest.approx(anew.log_evidence, abs=1e-6)
        assert_allclose(warm.marginals(), anew.marginals(), atol=1e-4)
    assert model.propagate(tol=1e-6, start=cold).sweeps == 1


def test_a_start_that_is_no_distribution_is_left_aside():
    model = MODELS["softness"]
    bad = Sites(np.full(14, -100.0), np.zeros(14))
    assert model.propagate(start=bad).log_evidence == pytest.approx(model.propagate().log_evidence)


def everything(post, model):
    """All numbers that a posterior gives."""
    cross, diagonal = model.K[:1], model.K.diagonal()[:1]
    return [
        post.log_evidence, post.change, post.coef, *post.sites, *post.marginals(), *post.reducer(),
        post.bayes_point(), post.predictive(cross, diagonal), post.wrong_label_proba(),
        post.leave_one_out(), *divergence_of(post), *gradient_of(post, {"scale": model.K}).values(),
        post.held_out_scores(), post.sample(5, random_state=0).coef,
    ]  # fmt: skip


def divergence_of(post):
    """Divergence and error; sites at no fixed point may be infinitely far from the prior."""
    divergence, error = post.divergence()
    assert divergence >= 0
    return (0.0 if np.isposinf(divergence) and not post.converged else divergence), error


def gradient_of(post, derivatives):
    """Gradient, with the warning that there is exactly where sites are at no fixed point."""
    if post.converged and not post.bounded:
        return post.gradient(derivatives)
    with pytest.warns(ConvergenceWarning, match="did not converge, or were bounded"):
        return post.gradient(derivatives)


def assert_finite(post, model):
    for values in everything(post, model):
        assert np.all(np.isfinite(values))


@pytest.mark.parametrize("name", MODELS)
def test_what_did_not_converge_warns_and_is_usable(name):
    model = MODELS[name]
    message = r"did not converge in \d+ sweeps?: one more would change.*Raise max_time"
    for settings in ({"max_sweeps": 1}, {"max_time": 1e-9}):
        with pytest.warns(ConvergenceWarning, match=message):
            post = model.propagate(tol=1e-8, **settings)
        assert not post.converged
        assert "not converged" in repr(post)
        assert_finite(post, model)


def nasty(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    near = X[np.repeat(np.arange(5), 4)] + 1e-7 * rng.normal(size=(20, 2))
    K = rbf_kernel(X, gamma=1.0)
    ys, length = np.where(np.arange(20) % 4, 1, -1), 10.0 ** np.arange(-5, 5, 0.5)
    spaces = {
        "near-duplicates": (VersionSpace(rbf_kernel(near), np.sign(near[:, 0])), 0.0),
        "near-duplicates, contradictory": (VersionSpace(rbf_kernel(near), ys, 1e-3), 0.0),
        "near-duplicates, contradictory, noise": (VersionSpace(rbf_kernel(near), ys), 0.01),
        "duplicates, contradictory, noise": (
            VersionSpace(rbf_kernel(np.repeat(X[:5], 4, axis=0)), ys), 0.001,
        ),
        "rank 2": (VersionSpace(X @ X.T, y), 0.0),
        "rank 2, not separable": (VersionSpace(X @ X.T, labels(20)), 0.1),
        "rank 2, little noise": (VersionSpace(X @ X.T, labels(20)), 1e-6),
        "rank 1": (VersionSpace(np.ones((20, 20)), labels(20)), 0.2),
        "rates from 0 to a half": (VersionSpace(K, labels(20)), np.linspace(0, 0.499, 20)),
        "huge": (VersionSpace(1e12 * K, y, 0.1), 0.0),
        "tiny": (VersionSpace(1e-12 * K, y, 0.1), 0.1),
        "unequal lengths": (
            VersionSpace(K * np.outer(length, length), y),
            0.05,
        ),
        "huge softness": (VersionSpace(K, labels(20), 1e6), 0.0),
        "one point": (VersionSpace([[1e-6]], [1]), 0.3),
    }  # fmt: skip
    return Model(*spaces[name])


CONVERGES = [
    "near-duplicates", "near-duplicates, contradictory", "rank 2", "rates from 0 to a half", "huge",
    "tiny", "unequal lengths", "huge softness", "one point",
]  # fmt: skip


@pytest.mark.parametrize("name", CONVERGES)
def test_nasty_inputs_give_finite_numbers(name):
    model = nasty(name)
    post = model.propagate()  # a warning would be an error
    assert_finite(post, model)
    assert post.log_evidence < 0


# Labels that contradict each other, with little noise and no softness: there is no fixed point, at
# least none that one site after the other finds, either.
NONE_FOUND = [
    "near-duplicates, contradictory, noise",
    "rank 2, not separable",
    pytest.param("duplicates, contradictory, noise", marks=pytest.mark.slow),
    pytest.param("rank 2, little noise", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("name", NONE_FOUND)
def test_without_a_fixed_point_it_warns_and_is_usable(name):
    model = nasty(name)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        post = model.propagate()
    assert_finite(post, model)
    assert not post.log_evidence > 0  # a log-probability


def test_an_empty_version_space_is_named():
    problem = with_both_labels(3, 0, 0.0)
    with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 5\]"):
        of(problem).propagate()
    assert of(problem, softness=0.1).propagate().converged


@pytest.mark.xfail(reason="all sites at once do not get there", raises=ConvergenceWarning)
def test_many_labels_of_one_point_have_the_fixed_point_of_one_after_the_other():
    model = nasty("rank 1")
    post = model.propagate(tol=1e-6)
    sites = plain_propagation(model)
    assert post.log_evidence == pytest.approx(plain(model, sites).log_evidence, abs=SAME)


def test_the_scale_of_the_kernel_changes_nothing():
    model, post = MODELS["a rate a point"], propagated("a rate a point")
    for scale in (1e-10, 1e10):
        space = VersionSpace(scale * model.K, model.space.y, model.space.softness)
        other = Model(space, model.noise).propagate(tol=PRECISE)
        assert other.log_evidence == pytest.approx(post.log_evidence, abs=SAME)
        assert_allclose(other.wrong_label_proba(), post.wrong_label_proba(), atol=SAME)


# ---------------------------------------------------------------------- bad input

REFUSED = {
    "tol": ((0, -1, np.nan, "x", None), "tol must be a finite number > 0"),
    "max_sweeps": ((0, 1.5, "x", None, True), "max_sweeps must be a whole number >= 1"),
    "max_time": ((0, -1, np.inf, "x"), "max_time must be a finite number > 0"),
    "label_noise": ((-0.1, 0.5, np.nan, "x", [0.1] * 13 + [0.5]), r"must lie in \[0, 0\.5\)"),
    "label_noise shape": (([0.1], np.full((14, 1), 0.1)), "one for each of 14 points"),
    "start": ((3, "x", np.ones((3, 14)), [[1.0], ["x"]]), "start must be a GaussianPosterior"),
    "start shape": (
        ((np.ones(3), np.ones(3)), (np.ones(14), np.full(14, np.nan))),
        "start must hold finite sites of 14 points",
    ),
    "space": ((np.eye(2),), "space must be a VersionSpace"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_one_error_that_names_it(name):
    values, message = REFUSED[name]
    cases = [({name.split()[0]: value}, message) for value in values]
    assert_refused(expectation_propagation, cases, space=MODELS["softness"].space)
