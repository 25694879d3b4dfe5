"""Posterior: centre, error of the centre, diagnostics, exact probabilities, what it lacks."""

import pickle
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.thresholds import compare_means, two_stage
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard, sample_perceptron
from bayespoint.space import diagnostics
from bayespoint.space.factor import Factor
from bayespoint.space.posterior import Posterior, angle_error

N_CHAINS, N_DRAWS, M = 3, 20, 5


def unit_rows(coef, K):
    return coef / np.sqrt(np.einsum("ij,jk,ik->i", coef, K, coef))[:, None]


def make_draws(n=N_CHAINS * N_DRAWS, seed=0, spread=0.5):
    """A skewed Gram matrix, and unit vectors scattered about one of them."""
    A = np.random.default_rng(7).normal(size=(M, M + 2))
    K = A @ A.T
    rng = np.random.default_rng(seed)
    coef = np.array([1.0, -0.5, 0.3, 0.8, -0.2]) + spread * rng.normal(size=(n, M))
    return K, unit_rows(coef, K)


def make_posterior(**settings):
    K, coef = make_draws()
    settings = {"n_chains": N_CHAINS, "outputs": coef @ K, **settings}
    return K, Posterior(coef, **settings)


# ---------------------------------------------------------------------- the centre


def test_the_mean_of_the_draws_made_unit_is_the_bayes_point():
    K, posterior = make_posterior()
    mean = posterior.coef.mean(axis=0)
    assert_allclose(posterior.mean_norm, np.sqrt(mean @ K @ mean))
    assert 0.3 < posterior.mean_norm < 0.99
    for source in (None, "draws"):
        assert_allclose(posterior.bayes_point(source), mean / posterior.mean_norm)
        assert_allclose(posterior.bayes_point(source) @ K @ posterior.bayes_point(source), 1.0)


def test_a_mean_length_that_is_given_needs_no_outputs():
    K, posterior = make_posterior()
    other = Posterior(posterior.coef, mean_norm=posterior.mean_norm)
    assert_array_equal(other.bayes_point(), posterior.bayes_point())
    sparse = Posterior(sp.csr_matrix(posterior.coef), mean_norm=posterior.mean_norm)
    assert_allclose(sparse.bayes_point(), posterior.bayes_point())
    with_outputs = Posterior(sp.csr_matrix(posterior.coef), outputs=posterior.coef @ K)
    assert_allclose(with_outputs.bayes_point(), posterior.bayes_point())


def test_a_centre_from_elsewhere_is_preferred_when_it_should_be():
    path, kicks = np.arange(5.0), np.ones(5)
    centres = {"path": (path, 0.1), "kicks": (kicks, 0.7)}
    _, posterior = make_posterior(centres=centres, source="path")
    assert_array_equal(posterior.bayes_point(), path)
    assert_array_equal(posterior.bayes_point("kicks"), kicks)
    assert posterior.bayes_point_error() == 0.1
    assert posterior.bayes_point_error("kicks") == 0.7
    _, plain = make_posterior(centres=centres)
    assert_array_equal(plain.bayes_point(), make_posterior()[1].bayes_point())
    assert_array_equal(plain.bayes_point(), posterior.bayes_point("draws"))
    assert plain.bayes_point_error() == posterior.bayes_point_error("draws")


def test_weights_count_draws_more_than_once():
    K, coef = make_draws(n=6)
    times = np.array([1, 3, 0, 2, 1, 1])
    weighted = Posterior(coef, outputs=coef @ K, weights=times / 8)
    repeated = np.repeat(coef, times, axis=0)
    plain = Posterior(repeated, outputs=repeated @ K)
    assert_allclose(weighted.mean_norm, plain.mean_norm)
    assert_allclose(weighted.bayes_point(), plain.bayes_point())
    unscaled = Posterior(sp.csr_matrix(coef), outputs=coef @ K, weights=times)
    assert_allclose(unscaled.bayes_point(), plain.bayes_point())


@pytest.mark.parametrize("method", ["bayes_point", "bayes_point_error"])
@pytest.mark.parametrize("source", ["kicks", "path", "x", 3])
def test_a_source_that_is_not_there_is_an_error_that_names_those_that_are(method, source):
    _, posterior = make_posterior()
    with pytest.raises(ValueError, match=rf"source must be .*'draws'.* got {source!r}"):
        getattr(posterior, method)(source)
    _, with_path = make_posterior(centres={"path": (np.ones(5), 0.1)})
    if source != "path":
        with pytest.raises(ValueError, match=r"'path', 'draws'"):
            getattr(with_path, method)(source)


def test_draws_that_cancel_have_no_bayes_point():
    K, coef = make_draws(n=2)
    posterior = Posterior(np.vstack([coef, -coef]), outputs=np.vstack([coef, -coef]) @ K)
    with pytest.raises(ValueError, match=r"mean of the draws is zero.*draw more"):
        posterior.bayes_point()


def test_the_caller_may_change_what_it_gets():
    for settings in ({}, {"centres": {"path": (np.ones(5), 0.1)}, "source": "path"}):
        _, posterior = make_posterior(**settings)
        expected = posterior.bayes_point().copy()
        posterior.bayes_point()[:] = 0.0
        assert_array_equal(posterior.bayes_point(), expected)


# ---------------------------------------------------------------------- its error


def by_features(means, weights):
    """Error of the direction of a mean, from vectors in explicit coordinates."""
    n, share = len(means), weights / weights.sum()
    centre = share @ means
    across = means - np.outer(means @ centre, centre) / (centre @ centre)
    squared = n / (n - 1) * np.sum((share**2)[:, None] * across**2)
    return np.sqrt(squared) / np.linalg.norm(centre)


def test_the_error_comes_from_the_scatter_of_batches():
    K, posterior = make_posterior()
    L = np.linalg.cholesky(K)
    chains = posterior.draws()
    # Twenty draws of each chain in eight batches: four of three, four of two.
    sizes = [3, 3, 3, 3, 2, 2, 2, 2]
    edges = np.cumsum([0, *sizes])
    means, weights = [], []
    for chain in chains:
        for first, last in pairwise(edges):
            means.append(chain[first:last].mean(axis=0) @ L)
            weights.append(last - first)
    expected = by_features(np.array(means), np.array(weights, dtype=float))
    assert_allclose(posterior.bayes_point_error(), expected)
    sparse = Posterior(
        sp.csr_matrix(posterior.coef), n_chains=N_CHAINS, outputs=posterior.outputs
    )  # fmt: skip
    assert_allclose(sparse.bayes_point_error(), expected)


def test_the_error_is_the_angle_by_which_bayes_points_miss():
    K, many = make_draws(n=400_000, seed=1)
    centre = many.mean(axis=0)
    centre /= np.sqrt(centre @ K @ centre)

    def check(length, seed, factor=1.0):
        differences = []
        for k in range(400):
            _, coef = make_draws(n=length, seed=[seed, k])
            posterior = Posterior(coef, outputs=coef @ K)
            cosine = posterior.bayes_point() @ K @ centre
            squared = (factor * posterior.bayes_point_error()) ** 2
            differences.append(squared - np.arccos(np.clip(cosine, -1, 1)) ** 2)
        return compare_means(np.array(differences), 0.0)

    result = two_stage(check, length=160, seed=0)
    assert result.passed, result
    # It would detect an error that is half as large again.
    assert not two_stage(lambda *args: check(*args, factor=1.5), length=160, seed=0).passed


def test_the_error_of_a_direction():
    K, coef = make_draws(n=40)
    weights = np.random.default_rng(2).uniform(1, 5, size=40)
    error = angle_error(coef, coef @ K, weights)
    assert_allclose(error, by_features(coef @ np.linalg.cholesky(K), weights))
    # Neither the length of the vectors nor that of the batches matters.
    assert_allclose(angle_error(7 * coef, 7 * coef @ K, 3 * weights), error)
    assert angle_error(coef[:1], coef[:1] @ K, weights[:1]) == np.inf
    same = np.repeat(coef[:1], 4, axis=0)
    assert_allclose(angle_error(same, same @ K, np.ones(4)), 0.0, atol=1e-7)
    opposite = np.vstack([coef, -coef])
    assert angle_error(opposite, opposite @ K, np.ones(80)) > 1e3


def test_one_draw_says_nothing_about_its_error():
    K, coef = make_draws(n=1)
    assert Posterior(coef, outputs=coef @ K).bayes_point_error() == np.inf
    K, coef = make_draws(n=4)
    assert np.isfinite(Posterior(coef, n_chains=4, outputs=coef @ K).bayes_point_error())


# ---------------------------------------------------------------------- diagnostics


def test_diagnostics_are_those_of_the_outputs():
    K, posterior = make_posterior()
    outputs = (posterior.coef @ K).reshape(N_CHAINS, N_DRAWS, M)
    for method in ("bulk", "tail", "mean"):
        assert_array_equal(posterior.ess(method), diagnostics.ess(outputs, method))
    assert_array_equal(posterior.ess(), diagnostics.ess(outputs, "bulk"))
    assert_array_equal(posterior.rhat(), diagnostics.rhat(outputs))
    assert_array_equal(posterior.mcse(), diagnostics.mcse_mean(outputs))
    assert posterior.ess().shape == posterior.rhat().shape == posterior.mcse().shape == (M,)
    assert np.all(posterior.ess() > 10)
    with pytest.raises(ValueError, match=r"method must be .*got 'x'"):
        posterior.ess("x")


def test_draws_go_chain_after_chain():
    for kind in (np.asarray, sp.csr_matrix):
        K, coef = make_draws()
        posterior = Posterior(kind(coef), n_chains=N_CHAINS, outputs=coef @ K)
        assert posterior.draws().shape == (N_CHAINS, N_DRAWS, M)
        assert_array_equal(posterior.draws()[1, 2], coef[N_DRAWS + 2])
        assert posterior.n_draws == N_CHAINS * N_DRAWS
        assert repr(posterior) == "Posterior(60 draws in 3 chain(s) over 5 points)"


@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0.23 tells once a day that 1.0 will come
        return pytest.importorskip("arviz")


def test_arviz_gets_outputs_and_training_errors(arviz):
    K, coef = make_draws()
    space = VersionSpace(K, [1, -1, 1, 1, -1])
    posterior = Posterior(coef, n_chains=N_CHAINS, outputs=coef @ K, space=space)
    data = posterior.to_arviz()
    outputs = (coef @ K).reshape(N_CHAINS, N_DRAWS, M)
    assert_array_equal(data["posterior"]["output"].to_numpy(), outputs)
    assert data["posterior"]["output"].dims[:2] == ("chain", "draw")
    errors = np.count_nonzero(outputs * space.y < 0, axis=2)
    assert errors.max() > 0
    assert_array_equal(data["sample_stats"]["errors"].to_numpy(), errors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ess = arviz.ess(data["posterior"] if hasattr(data, "children") else data)
    assert_allclose(np.asarray(ess["output"]), posterior.ess(), rtol=1e-6)
    without = Posterior(coef, n_chains=N_CHAINS, outputs=coef @ K).to_arviz()
    assert_array_equal(without["posterior"]["output"].to_numpy(), outputs)


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'bayespoint\[diagnostics\]'"):
        make_posterior()[1].to_arviz()


# ---------------------------------------------------------------------- probabilities


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


@pytest.mark.parametrize("label", [False, True], ids=["output", "label"])
@pytest.mark.parametrize("settings", PROBLEMS.values(), ids=PROBLEMS)
def test_probabilities_are_those_of_vectors_drawn_in_full(settings, label):
    problem = make_problem(**settings)
    exact = problem[0].predictive(problem[1], problem[2], label=label)
    assert exact.shape == (8,)
    assert np.ptp(exact) > 0.1

    def check(length, seed, **changes):
        return compare_means(monte_carlo(problem, 32, length, seed, label, **changes), exact)

    result = two_stage(check, length=1000, seed=0)
    assert result.passed, result
    assert result.detectable < 0.04
    # Negative control: vectors that have no part outside of the span.
    wrong = two_stage(lambda *args: check(*args, gaussian=False), length=1000, seed=0)
    assert not wrong.passed


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
    noisy = sample_billiard(space, 4000, label_noise=0.2, random_state=0)
    shares = np.mean(noisy.outputs > 0, axis=0)
    assert_allclose(noisy.predictive(K, K.diagonal()), shares, atol=1e-6)
    labels = noisy.predictive(K, K.diagonal(), label=True)
    assert_allclose(labels, 0.8 * shares + 0.2 * (1 - shares), atol=1e-6)


def test_one_draw_can_have_all_the_weight():
    posterior, cross, diagonal, *_ = make_problem()
    weights = np.zeros(30)
    weights[4] = 2.0
    one = Posterior(posterior.coef[4:5], mean_norm=1.0, factor=posterior._factor)
    posterior.weights = weights
    assert_allclose(posterior.predictive(cross, diagonal), one.predictive(cross, diagonal))


def test_rows_lists_and_single_precision_will_do():
    posterior, cross, diagonal, *_ = make_problem()
    expected = posterior.predictive(cross, diagonal)
    assert_array_equal(posterior.predictive(cross.tolist(), diagonal.tolist()), expected)
    assert_allclose(posterior.predictive(cross[0], diagonal[:1]), expected[:1])
    single = posterior.predictive(cross.astype(np.float32), diagonal.astype(np.float32))
    assert_allclose(single, expected, atol=1e-5)
    sparse = Posterior(sp.csr_matrix(posterior.coef), mean_norm=1.0, factor=posterior._factor)
    assert_allclose(sparse.predictive(cross, diagonal), expected)


@pytest.mark.parametrize(
    ("cross", "diagonal"),
    [
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
    ],
    ids=["columns", "rows", "2-d diagonal", "scalar diagonal", "3-d", "flat", "nan", "nan diagonal",
         "strings", "strings in diagonal", "none"],
)  # fmt: skip
def test_kernel_values_that_do_not_fit_are_refused(cross, diagonal):
    posterior = make_problem()[0]
    with pytest.raises(ValueError, match=r"cross|diagonal"):
        posterior.predictive(cross, diagonal)


def test_labels_of_new_points_need_one_rate():
    posterior, cross, diagonal, *_ = make_problem(noise=np.array([0.1, 0.1, 0.2, 0.1]))
    posterior.predictive(cross, diagonal)
    with pytest.raises(ValueError, match=r"label=True needs one rate"):
        posterior.predictive(cross, diagonal, label=True)


# ---------------------------------------------------------------------- what is not there


def test_what_needs_outputs_says_so():
    _, coef = make_draws()
    posterior = Posterior(coef, n_chains=N_CHAINS, mean_norm=0.5)
    pytest.importorskip("arviz")
    for method in ("ess", "rhat", "mcse", "bayes_point_error", "to_arviz"):
        with pytest.raises(ValueError, match="no outputs at its training points"):
            getattr(posterior, method)()


def test_every_sampler_knows_its_outputs():
    # Which is what the error above advises.
    K, _ = make_draws()
    space = VersionSpace(K, [1, -1, 1, 1, -1])
    for sampler in (sample_perceptron, sample_billiard):
        posterior = sampler(space, 40, random_state=0)
        assert_allclose(posterior.outputs, space.outputs(posterior.draws().reshape(-1, M)))
        assert posterior.rhat().shape == (M,)


def test_draws_without_length_and_outputs_are_refused():
    _, coef = make_draws()
    with pytest.raises(ValueError, match=r"mean_norm|outputs"):
        Posterior(coef)


def test_what_needs_a_factor_says_so():
    K, posterior = make_posterior()
    assert posterior.rank is None
    for call in (lambda: posterior.predictive(K, K.diagonal()), lambda: posterior.coordinates(K)):
        with pytest.raises(ValueError, match=r"no factor of its Gram matrix.*sample_billiard"):
            call()


def test_labels_without_a_version_space_are_refused():
    K, coef = make_draws()
    posterior = Posterior(coef, mean_norm=0.5, factor=Factor(K.copy()))
    posterior.predictive(K, K.diagonal())
    with pytest.raises(ValueError, match=r"label=True.*(space|softness)"):
        posterior.predictive(K, K.diagonal(), label=True)


def test_coordinates_are_those_of_an_orthonormal_basis():
    K, coef = make_draws(n=6)
    posterior = Posterior(coef, outputs=coef @ K, factor=Factor(K.copy()))
    assert posterior.rank == M
    coordinates = posterior.coordinates(posterior.outputs)
    assert_allclose(coordinates @ coordinates.T, coef @ K @ coef.T)
    assert_allclose(posterior.coordinates(posterior.outputs[0].tolist()), coordinates[:1])


def test_a_posterior_travels_whatever_threads_made_it():
    space = VersionSpace(np.eye(4) + 0.5, [1, -1, 1, 1])
    post = sample_billiard(space, n_draws=40, n_jobs=2, random_state=0)
    copy = pickle.loads(pickle.dumps(post))
    cross = np.full((1, 4), 0.3)
    assert copy.predictive(cross, [1.0]) == post.predictive(cross, [1.0])
