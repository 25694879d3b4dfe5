"""Exact probabilities of outputs and labels at new points, from draws over training points."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.posteriors import make_draws, unit_rows
from helpers.refusals import assert_refused
from helpers.thresholds import compare_means, fails_clearly, two_stage
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from bayespoint.space.factor import Factor
from bayespoint.space.posterior import Posterior


def make_problem(n_points=4, n_features=6, softness=0.0, weighted=False, noise=0.0, rank=None):
    """Points with explicit features, draws in their span, and new points beyond it.

    A softened point has one feature more, its own. Returns the posterior, kernel values and k(x, x)
    of the new points, and their features; the draws in the same features.
    """
    rng = np.random.default_rng([n_points, n_features])
    X = rng.normal(size=(n_points, n_features)) * rng.uniform(0.5, 2.0, size=(n_points, 1))
    if rank is not None:
        X = X @ np.diag(np.arange(n_features) < rank)
    K = X @ X.T
    own = np.diag(np.sqrt(softness * K.diagonal()))
    features = np.hstack([X, own])
    factor = Factor(features @ features.T)
    coef = unit_rows(
        np.linspace(1.0, 0.2, n_points) + rng.normal(size=(30, n_points)), features @ features.T
    )
    weights = rng.random(30) if weighted else None
    space = VersionSpace(K, np.ones(n_points), softness)
    posterior = Posterior(
        coef, outputs=coef @ (features @ features.T), weights=weights, space=space,
        factor=factor, label_noise=noise,
    )  # fmt: skip
    new = rng.normal(size=(8, n_features))
    draws = coef @ features
    return posterior, new @ X.T, np.sum(new**2, axis=1), new, features, draws


def monte_carlo(problem, n_chains, length, seed, label=False, gaussian=True):
    """Share of w with positive output at the new points, drawn in full: (n_chains, n)."""
    posterior, _, diagonal, new, features, draws = problem
    rng = np.random.default_rng(seed)
    basis = np.linalg.svd(features, full_matrices=False)[2][: posterior.rank]
    weights = np.ones(30) if posterior.weights is None else posterior.weights
    shares = np.empty((n_chains, len(new)))
    for chain in shares:
        chosen = rng.choice(30, size=length, p=weights / weights.sum())
        # A Gaussian vector: its length inside the span goes with the direction of the draw,
        # its part outside is as it was before the data.
        radius = np.linalg.norm(rng.standard_normal((length, posterior.rank)), axis=1)
        whole = rng.standard_normal((length, features.shape[1]))
        outside = whole - whole @ basis.T @ basis
        w = radius[:, None] * draws[chosen] + gaussian * outside
        outputs = w[:, : new.shape[1]] @ new.T
        if label:  # the softness of a new point is its own feature, outside of all else
            own = np.sqrt(posterior.space.softness * diagonal)
            outputs += rng.standard_normal((length, len(new))) * own
        positive = outputs > 0
        if label:
            rate = np.unique(posterior.label_noise)[0]
            positive ^= rng.random(positive.shape) < rate
        chain[:] = positive.mean(axis=0)
    return shares


PROBLEMS = {
    "plain": {},
    "soft": {"softness": 0.6},
    "singular": {"n_points": 7, "rank": 3},
    "one point": {"n_points": 1},
    "weighted": {"weighted": True},
    "noisy": {"noise": 0.2, "softness": 0.3},
    "noise, one rate a point": {"noise": np.full(4, 0.1)},
}


CASES = [
    *((name, False) for name in ("plain", "soft", "singular", "weighted")),
    *((name, True) for name in ("soft", "one point", "noisy", "noise, one rate a point")),
]


@pytest.mark.parametrize(("name", "label"), CASES)
def test_probabilities_are_those_of_vectors_drawn_in_full(name, label):
    problem = make_problem(**PROBLEMS[name])
    exact = problem[0].predictive(problem[1], problem[2], label=label)
    assert exact.shape == (8,)
    assert np.ptp(exact) > 0.1

    def check(length, seed, **changes):
        return compare_means(monte_carlo(problem, 32, length, seed, label, **changes), exact)

    result = two_stage(check, length=1000, seed=0)
    assert result.passed, result
    assert result.detectable < 0.04
    # Negative control: vectors that have no part outside of the span.
    assert fails_clearly(check(1000, 0, gaussian=False))


def test_far_from_all_data_nothing_is_known():
    posterior, cross, diagonal, *_ = make_problem(softness=0.3)
    for label in (False, True):
        assert_array_equal(posterior.predictive(0 * cross, diagonal, label=label), 0.5)
        near = posterior.predictive(cross, diagonal, label=label)
        distant = posterior.predictive(1e-6 * cross, diagonal, label=label)
        assert np.abs(distant - 0.5).max() < 1e-5 < np.abs(near - 0.5).max()


def test_inside_the_span_draws_vote():
    problem = make_problem(n_points=7, rank=3)
    posterior, draws = problem[0], problem[5]
    new = np.zeros((4, 13))
    new[:, :3] = np.random.default_rng(1).normal(size=(4, 3))
    cross, diagonal = new @ problem[4].T, np.sum(new**2, axis=1)
    expected = np.mean(draws @ new.T > 0, axis=0)
    assert_allclose(posterior.predictive(cross, diagonal), expected, atol=1e-6)
    assert np.any((expected > 0) & (expected < 1))


def test_training_points_are_as_likely_as_they_are_right():
    K, _ = make_draws()
    space = VersionSpace(K, [1, -1, 1, 1, -1])
    posterior = sample_billiard(space, 400, random_state=0)
    p = posterior.predictive(K, K.diagonal())
    assert_allclose(p, [1, 0, 1, 1, 0], atol=1e-6)
    noisy = sample_billiard(space, 1000, label_noise=0.2, random_state=0)
    shares = np.mean(noisy.outputs > 0, axis=0)
    assert_allclose(noisy.predictive(K, K.diagonal()), shares, atol=1e-6)
    labels = noisy.predictive(K, K.diagonal(), label=True)
    assert_allclose(labels, 0.8 * shares + 0.2 * (1 - shares), atol=1e-6)


def test_one_draw_can_have_all_the_weight():
    posterior, cross, diagonal, *_ = make_problem()
    weights = np.zeros(30)
    weights[4] = 2.0
    one = Posterior(posterior.coef[4:5], mean_norm=1.0, factor=posterior.needed_factor())
    posterior.weights = weights
    assert_allclose(posterior.predictive(cross, diagonal), one.predictive(cross, diagonal))


def test_rows_lists_and_single_precision_will_do():
    posterior, cross, diagonal, *_ = make_problem()
    expected = posterior.predictive(cross, diagonal)
    assert_array_equal(posterior.predictive(cross.tolist(), diagonal.tolist()), expected)
    assert_allclose(posterior.predictive(cross[0], diagonal[:1]), expected[:1])
    single = posterior.predictive(cross.astype(np.float32), diagonal.astype(np.float32))
    assert_allclose(single, expected, atol=1e-5)
    sparse = Posterior(
        sp.csr_matrix(posterior.coef), mean_norm=1.0, factor=posterior.needed_factor()
    )
    assert_allclose(sparse.predictive(cross, diagonal), expected)


UNFIT = [
    (np.ones((3, 3)), np.ones(3)),
    (np.ones((3, 4)), np.ones(2)),
    (np.ones((3, 4)), np.ones((3, 1))),
    (np.ones((3, 4)), 1.0),
    (np.ones((2, 3, 4)), np.ones(2)),
    (np.ones(3), np.ones(1)),
    (np.full((3, 4), np.nan), np.ones(3)),
    (np.ones((3, 4)), np.full(3, np.nan)),
    ([["a"] * 4] * 3, np.ones(3)),
    (np.ones((3, 4)), ["a"] * 3),
    (None, np.ones(3)),
    (np.ones((3, 4)), np.full(3, 1e-3)),  # less than the kernel values allow
]


def test_kernel_values_that_do_not_fit_are_refused():
    cases = [({"cross": K, "diagonal": own}, "cross|diagonal") for K, own in UNFIT]
    assert_refused(make_problem()[0].predictive, cases)


def test_labels_of_new_points_need_one_rate():
    posterior, cross, diagonal, *_ = make_problem(noise=np.array([0.1, 0.1, 0.2, 0.1]))
    posterior.predictive(cross, diagonal)
    with pytest.raises(ValueError, match=r"label=True needs one rate"):
        posterior.predictive(cross, diagonal, label=True)
