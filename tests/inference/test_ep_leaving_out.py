"""Scores without a point are those of a fit without it, nearer than its cavity's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint.inference.ep.leaving_out import BLOCK, FARTHEST, left_out_scores, moves_of_others
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import cavities, combined, held_out_scores, propagate

# Of the error of cavities, at most this share is left; about a quarter was seen.
LEFT = 0.5
TOL = 1e-7


def problem(softness, noise=0.0, copies=1.0, n=100):
    X, label = make_moons(n, noise=0.3, random_state=0)
    rho = noise / (1 - noise) if noise else 0.0
    odds = np.full(n, np.inf if noise == 0 else -np.log(rho))
    y = 2.0 * label - 1
    likelihood = Likelihood(y, np.full(n, softness), odds, np.zeros(n), np.broadcast_to(copies, n))
    return rbf_kernel(X, gamma=1.0), likelihood


def again(K, likelihood, i, copies):
    """Score of a point in a fit with so many copies of it."""
    n = np.broadcast_to(likelihood.copies, len(K)).copy()
    n[i] = copies
    kept = np.flatnonzero(n > 0)
    changed = likelihood._replace(copies=n).take(kept)
    found = propagate(K[np.ix_(kept, kept)], changed, tol=TOL)
    assert found.converged
    coef, cross = found.gaussian.coef, K[i, kept]
    variance = K[i, i] - cross @ found.gaussian.inverse_matrix() @ cross
    return cross @ coef / np.sqrt(variance + likelihood.variance[i])


@pytest.mark.parametrize(
    ("softness", "noise", "copies"),
    [(0.03, 0.0, 1.0), (1.0, 0.0, 1.0), (0.1, 0.1, 1.0), (0.5, 0.0, 3.0)],
)
def test_as_a_fit_without_the_row(softness, noise, copies):
    K, likelihood = problem(softness, noise, copies)
    found = propagate(K, likelihood, tol=TOL)
    refitted = np.array([again(K, likelihood, i, copies - 1) for i in range(len(K))])
    cavity = held_out_scores(found, likelihood, alone=False) - refitted
    answered = left_out_scores(K, found, likelihood, alone=False) - refitted
    assert np.std(answered) < LEFT * np.std(cavity)
    # Cavities hear less of a point's own side than a fit without it does.
    assert abs(np.mean(likelihood.y * answered)) < LEFT * abs(np.mean(likelihood.y * cavity))
    assert np.mean(likelihood.y * cavity) < 0


def moved(K, found, likelihood, *, alone, own=1.0):
    """Moves of all points by each other."""
    parts = moves_of_others(K, found, likelihood, alone, own)
    rows, moves = zip(*parts, strict=True)
    assert_array_equal(np.concatenate(rows), np.arange(len(K)))
    return np.concatenate(moves)


@pytest.mark.parametrize(("copies", "alone"), [(1.0, True), (3.0, True), (3.0, False)])
def test_moves_of_others_are_those_of_cavities_without_a_row(copies, alone):
    """By the sites that are left, put together again."""
    K, likelihood = problem(0.3, copies=copies, n=40)
    found = propagate(K, likelihood, tol=TOL)
    scores = held_out_scores(found, likelihood, alone)
    wanted = np.empty((40, 40))
    for i in range(40):
        left = np.full(40, copies)
        left[i] -= 1
        again = combined(K, found.sites, left)  # its cavities are without one copy
        more = copies - 1 if alone else 0.0
        mean, variance = cavities(
            again.cavity_mean, again.cavity_variance, *(more * values for values in found.sites)
        )
        wanted[i] = mean / np.sqrt(variance + likelihood.variance) - scores
    wanted[np.diag_indices(40)] = 0.0
    assert np.mean(np.abs(wanted) > FARTHEST) < 0.1
    wanted = np.clip(wanted, -FARTHEST, FARTHEST)
    assert np.std(wanted) > 0.01
    assert_allclose(moved(K, found, likelihood, alone=alone), wanted, atol=1e-8)


def test_blocks_of_points_do_not_matter(monkeypatch):
    K, likelihood = problem(0.1)
    found = propagate(K, likelihood, tol=TOL)
    whole = left_out_scores(K, found, likelihood)
    moves = moved(K, found, likelihood, alone=True)
    assert len(K) < BLOCK
    monkeypatch.setattr("bayespoint.inference.ep.leaving_out.BLOCK", 7)
    assert_allclose(left_out_scores(K, found, likelihood), whole, rtol=1e-10)
    assert_allclose(moved(K, found, likelihood, alone=True), moves, atol=1e-12)


@pytest.mark.parametrize(("softness", "max_sweeps"), [(0.1, 2), (0.0, 200)])
def test_sites_that_still_move_and_sure_labels_leave_cavities_as_they_are(softness, max_sweeps):
    K, likelihood = problem(softness)
    found = propagate(K, likelihood, max_sweeps=max_sweeps)
    assert found.converged == (softness == 0)
    plain = held_out_scores(found, likelihood, alone=True)
    assert_allclose(left_out_scores(K, found, likelihood), plain)
    assert not list(moves_of_others(K, found, likelihood))
