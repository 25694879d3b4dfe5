"""Ensembles of unit classifiers: their centre, its error, and adding to them later."""

import numpy as np
import pytest
from helpers.thresholds import compare_means, two_stage
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint.inference.perceptron.ensemble import Ensemble
from bayespoint.inference.perceptron.runs import Draw

M = 4
# Vectors w in R^4 are kept as coefficients: w = L' coef, so that <w, w> = coef' G coef.
L = np.linalg.cholesky(np.eye(M) + 0.5)
G = L @ L.T


def make_draw(number, vectors):
    """One unit vector a machine, as a draw."""
    coef = np.linalg.solve(L.T, vectors.T).T
    pairs = [(np.arange(M), row) for row in coef]
    nothing = np.zeros(len(coef), dtype=np.int64)
    return Draw(number, pairs, coef @ G, nothing, nothing)


def unit_vectors(rng, n_draws, n_machines):
    w = rng.normal(size=(n_draws, n_machines, M))
    w[..., 0] += 2.0
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def filled(vectors):
    ensemble = Ensemble(vectors.shape[1], M)
    for number, w in enumerate(vectors):
        ensemble.add(make_draw(number, w))
    return ensemble


def test_the_bayes_point_is_the_unit_mean_of_the_draws():
    vectors = unit_vectors(np.random.default_rng(0), 7, 3)
    ensemble = filled(vectors)
    mean = vectors.mean(axis=0)
    lengths = np.linalg.norm(mean, axis=1)
    points = ensemble.bayes_points()
    assert_allclose(points @ L, mean / lengths[:, None], rtol=1e-12, atol=1e-14)
    assert_allclose(np.einsum("ci,ij,cj->c", points, G, points), 1.0, rtol=1e-12)
    assert_allclose(ensemble.mean_norms(), lengths, rtol=1e-12)
    assert_allclose(ensemble.unit_mean_outputs(), points @ G, rtol=1e-12)
    for machine in range(3):
        posterior = ensemble.posterior(machine, told="so")
        assert posterior.n_draws == 7
        assert posterior.info == {"told": "so"}
        assert_allclose(posterior.draws()[0] @ L, vectors[:, machine], rtol=1e-12, atol=1e-14)
        assert_allclose(posterior.bayes_point(), points[machine], rtol=1e-12, atol=1e-14)


def test_the_mean_is_of_unit_vectors_whatever_their_coefficients():
    vectors = np.zeros((2, 1, M))
    vectors[0, 0, 0] = vectors[1, 0, 1] = 1.0
    assert_allclose(filled(vectors).bayes_points()[0] @ L, np.array([1, 1, 0, 0]) / np.sqrt(2))


def cone_of_draws(rng, n_draws, n_machines, angle=0.6):
    """Unit vectors at one angle from the first axis, in directions uniform round it."""
    tangent = rng.normal(size=(n_draws, n_machines, M - 1))
    tangent *= np.sin(angle) / np.linalg.norm(tangent, axis=-1, keepdims=True)
    axis = np.full((n_draws, n_machines, 1), np.cos(angle))
    return np.concatenate([axis, tangent], axis=-1)


def angle_check(factor):
    """Compare squared errors that are claimed (times a factor) and found, for five draws.

    Both times the squared length R² of the mean: then the expectations are equal exactly,
    sin²(angle)/n, for draws on a cone. The sine of the angle found stands for the angle.
    """

    def check(length, seed):
        differences = []
        for rng in np.random.default_rng(seed).spawn(32):
            ensemble = filled(cone_of_draws(rng, n_draws=5, n_machines=length))
            found = 1.0 - (ensemble.bayes_points() @ L)[:, 0] ** 2
            claimed = factor * ensemble.angle_errors() ** 2
            differences.append(np.mean((claimed - found) * ensemble.mean_norms() ** 2))
        return compare_means(differences, 0.0)

    return check


def test_the_angle_error_is_that_of_simulated_centres():
    result = two_stage(angle_check(1.0), length=120, seed=0)
    assert result.passed, result
    # It would detect an error of a tenth of the squared angle.
    assert result.detectable < 0.1 * np.sin(0.6) ** 2 / 5


@pytest.mark.slow
def test_a_division_by_n_instead_of_n_minus_one_would_be_noticed():
    assert not two_stage(angle_check(4 / 5), length=100, seed=0).passed


def test_one_draw_says_nothing_about_its_error_and_equal_draws_have_none():
    vectors = unit_vectors(np.random.default_rng(1), 1, 2)
    assert_array_equal(filled(vectors).angle_errors(), [np.inf, np.inf])
    assert_allclose(filled(np.repeat(vectors, 5, axis=0)).angle_errors(), 0.0, atol=1e-7)


def going_on(ensemble):
    """An ensemble that adds to the draws of another one."""
    held = ensemble.draws() if ensemble.n_draws else None
    return Ensemble(*ensemble.sum_coef.shape, held=held)


RESULTS = ("bayes_points", "angle_errors", "mean_norms", "used", "n_draws", "finished")


def arrays(draws):
    """What draws consist of, by name, the coefficients aside."""
    return vars(draws.resume) | {f"{name} of all": getattr(draws, name) for name in RESULTS}


def assert_same_bits(left, right):
    left, right = left.draws(), right.draws()
    assert arrays(left).keys() == arrays(right).keys()
    for name, value in arrays(left).items():
        assert_array_equal(value, arrays(right)[name], err_msg=name)
    for a, b in zip(left.coef, right.coef, strict=True):
        assert a.shape == b.shape
        assert_array_equal(a.toarray(), b.toarray())


@pytest.mark.parametrize("first", [0, 1, 4, 9])
def test_draws_added_later_give_the_bits_of_draws_added_at_once(first):
    vectors = unit_vectors(np.random.default_rng(2), 9, 3)
    at_once = filled(vectors)
    later = going_on(filled(vectors[:first]))
    assert later.n_draws == later.next_number == first
    for number in range(first, 9):
        later.add(make_draw(number, vectors[number]))
    assert_same_bits(later, at_once)
    assert_array_equal(later.bayes_points(), at_once.bayes_points())
    assert_array_equal(later.angle_errors(), at_once.angle_errors())
    assert_same_bits(going_on(going_on(later)), at_once)


@pytest.mark.parametrize("who", ["the ensemble itself", "one that goes on from them"])
def test_draws_handed_out_do_not_change_when_others_are_added(who):
    vectors = unit_vectors(np.random.default_rng(3), 3, 2)
    ensemble = filled(vectors)
    draws = ensemble.draws()
    kept = {name: np.copy(value) for name, value in arrays(draws).items()}
    grown = ensemble if who == "the ensemble itself" else Ensemble(2, M, held=draws)
    grown.add(make_draw(3, vectors[0]))
    for name, value in kept.items():
        assert_array_equal(arrays(draws)[name], value, err_msg=name)
    assert [coef.shape for coef in draws.coef] == [(3, M)] * 2


def test_numbers_of_draws_may_have_gaps():
    vectors = unit_vectors(np.random.default_rng(4), 2, 1)
    ensemble = Ensemble(1, M)
    ensemble.add(make_draw(0, vectors[0]))
    ensemble.add(make_draw(5, vectors[1]))
    assert ensemble.n_draws == 2
    assert ensemble.next_number == 6


def test_draws_that_cancel_have_no_centre():
    up = np.eye(M)[None, None, 0]
    ensemble = filled(np.concatenate([up, -up]))
    with pytest.raises(ValueError, match="mean of the draws is zero"):
        ensemble.bayes_points()
    with pytest.raises(ValueError, match="mean of the draws is zero"):
        ensemble.posterior(0).bayes_point()
