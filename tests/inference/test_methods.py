"""Methods of inference as a classifier uses them: contract, exact posteriors, stops, more draws."""

import pickle
import signal
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from helpers.classifiers import by_hand, classifier, flowers, fresh_points, softened_gram
from helpers.thresholds import compare_means, two_stage
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import EmptyVersionSpaceError, VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.threads import open_threads
from bayespoint.inference import expectation_propagation, sample_billiard
from bayespoint.inference.billiard import chains as billiard_chains
from bayespoint.inference.billiard.balls import Balls
from bayespoint.inference.draws import Plan
from bayespoint.inference.engines import CHAINS
from bayespoint.inference.methods import METHODS
from bayespoint.inference.perceptron import wave
from bayespoint.inference.perceptron.ensemble import Ensemble
from bayespoint.inference.problem import Problem
from bayespoint.space.decisions import label_odds
from bayespoint.space.rows import FullRows

# Fits of four chains each: 32 independent chains.
N_FITS = 8
N_CHAINS = CHAINS * N_FITS

# Exact draws for each draw of a chain.
EXACT_DRAWS = 3

# Seconds from Ctrl-C to its exception: far above what it takes, for a busy machine.
INTERRUPT_SECONDS = 30


# ---------------------------------------------------------------------- the contract of a method


def make_problem(noise=0.0, softness=0.2, n_points=24, n_machines=3, dtype=np.float64):
    """Machines with skewed labels over points of unequal length."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_points, 2))
    length = np.exp(0.3 * rng.normal(size=n_points))
    K = (rbf_kernel(X, gamma=1.0) * np.outer(length, length)).astype(dtype)
    targets = np.where(rng.random((n_machines, n_points)) < 0.3, 1, -1).astype(np.int8)
    names = [f" for class {k}" for k in range(n_machines)]
    return Problem(
        FullRows(K),
        targets,
        softness,
        label_odds(np.full(targets.shape, noise)),
        np.log1p(-np.full(targets.shape, noise)),
        names,
        100 + np.arange(n_points),
        np.ones(n_points),
    )


def softened(problem):
    return problem.rows.store.astype(np.float64) + np.diag(problem.ridge)


def infer(method, problem, n_draws, *, held=None, n_threads=1, max_time=None, tol=0.0, entropy=0):
    with open_threads(n_threads) as threads:
        plan = Plan(n_draws, tol, entropy, Budget(max_time), threads)
        return METHODS[method].infer(problem, plan, held)


def draw(method, *args, **options):
    """Return the draws of a method, those of its Gaussians where it has some."""
    found = infer(method, *args, **options)
    return found.draws if method == "ep" else found


def dense(coef):
    return np.asarray(coef.todense()) if hasattr(coef, "todense") else coef


def test_every_method_is_named():
    assert {name: method.name for name, method in METHODS.items()} == {
        "perceptron": "perceptron", "billiard": "billiard", "gibbs": "gibbs", "ep": "ep",
    }  # fmt: skip
    assert METHODS["perceptron"].needed_bytes(1000, 8, 3) == 0
    assert METHODS["billiard"].needed_bytes(1000, 8, 3) == 16e6  # the rows and a factor
    assert METHODS["billiard"].needed_bytes(1000, 4, 0) == 12e6
    # Rows, the matrix in float64, its factor, inverse, two for work; and two a voting machine.
    assert METHODS["ep"].needed_bytes(1000, 8, 0) == 48e6
    assert METHODS["ep"].needed_bytes(1000, 4, 3) == 92e6


@pytest.mark.parametrize(("method", "noise"), [("perceptron", 0.0), ("billiard", 0.0),
                                               ("billiard", 0.1), ("ep", 0.0),
                                               ("ep", 0.1)])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_every_method_gives(method, noise, dtype):
    problem = make_problem(noise, dtype=dtype)
    K = softened(problem)
    draws = draw(method, problem, 12)
    n_chains = {"perceptron": 1, "billiard": 4, "ep": 1}[method]
    assert (draws.n_draws, draws.n_chains) == (12, n_chains)
    assert np.all(draws.finished)
    assert draws.bayes_points.shape == draws.used.shape == problem.targets.shape
    assert draws.angle_errors.shape == draws.mean_norms.shape == (3,)
    assert isinstance(draws.info, dict)
    assert len(draws.coef) == 3
    for machine, target in enumerate(problem.targets):
        coef, centre = dense(draws.coef[machine]), draws.bayes_points[machine]
        assert coef.shape == (12, 24)
        np.testing.assert_allclose(np.einsum("ij,jk,ik->i", coef, K, coef), 1, atol=1e-6)
        assert centre @ K @ centre == pytest.approx(1, abs=1e-6)
        mean = coef.mean(axis=0)
        assert draws.mean_norms[machine] == pytest.approx(np.sqrt(mean @ K @ mean), rel=1e-5)
        assert centre @ K @ mean > 0.5 * draws.mean_norms[machine]
        assert np.all(draws.used[machine] | ~np.any(coef, axis=0))
        if method == "ep":  # no sampling error; a Gaussian is not confined to version space
            assert draws.angle_errors[machine] == 0
            continue
        assert np.all(target * (coef @ K) > 0) or noise
        assert 0 < draws.angle_errors[machine] < 1.5


def test_propagation_gives_its_gaussians():
    """Of each machine, with the numbers that its own run gives; a warm start begins with them."""
    problem = make_problem(0.1)
    found = infer("ep", problem, 12, tol=1e-8)
    draws, sites = found.draws, found.draws.resume.sites
    assert draws.factor.rank == 24
    assert sites.shape == (3, 2, 24)
    for machine, gaussian in enumerate(found.posteriors):
        alone = expectation_propagation(problem.space(machine), label_noise=0.1, tol=1e-8)
        np.testing.assert_allclose(gaussian.coef, alone.coef, atol=1e-6)
        assert draws.info["log_evidence"][machine] == pytest.approx(alone.log_evidence, abs=1e-6)
        np.testing.assert_array_equal(sites[machine], gaussian.sites)
    again = draw("ep", problem, 12, tol=1e-8, held=draws)
    assert np.all(again.info["sweeps"] == 1)
    assert np.all(draws.info["sweeps"] > 1)
    np.testing.assert_allclose(again.bayes_points, draws.bayes_points, atol=1e-6)


@pytest.mark.parametrize(("method", "noise"), [("perceptron", 0.0), ("billiard", 0.1), ("ep", 0.1)])
def test_threads_change_nothing_and_seeds_do(method, noise):
    problem = make_problem(noise)
    one, other, third = (
        draw(method, problem, 12, n_threads=n, entropy=e) for n, e in [(1, 7), (3, 7), (1, 8)]
    )
    np.testing.assert_array_equal(one.bayes_points, other.bayes_points)
    np.testing.assert_array_equal(dense(one.coef[2]), dense(other.coef[2]))
    assert not np.array_equal(dense(one.coef[2]), dense(third.coef[2]))


@pytest.mark.filterwarnings("ignore:the chains of the billiard")
@pytest.mark.parametrize(("method", "noise"), [("perceptron", 0.0), ("billiard", 0.1)])
def test_draws_are_added_to_those_held(method, noise):
    problem = make_problem(noise)
    first = draw(method, problem, 8)
    before = pickle.dumps(replace(first, factor=None))
    more = draw(method, problem, 20, held=first)
    assert pickle.dumps(replace(first, factor=None)) == before  # left alone
    assert more.n_draws == 20
    for machine in range(3):
        old, new = (
            dense(draws.coef[machine]).reshape(draws.n_chains, -1, 24) for draws in (first, more)
        )
        np.testing.assert_array_equal(new[:, : old.shape[1]], old)
        assert len(np.unique(new.reshape(20, 24), axis=0)) == 20
    for n_draws in (20, 8, 1):
        enough = draw(method, problem, n_draws, held=more)
        np.testing.assert_array_equal(enough.bayes_points, more.bayes_points)
        assert enough.n_draws == 20
    precise = draw(method, problem, 4000, held=more, tol=3.0)
    assert precise.n_draws == 20


def test_the_billiard_ends_where_every_machine_is_precise():
    draws = draw("billiard", make_problem(), 8000, tol=0.2)
    assert 8 < draws.n_draws < 8000
    assert np.all(draws.angle_errors < 0.6)  # of four balls: known to a factor of two or so


def test_a_spent_budget_gives_the_starts():
    problem = make_problem()
    with pytest.warns(ConvergenceWarning, match=r"time was up before the first draw.*max_time"):
        draws = draw("billiard", problem, 400, max_time=1e-9)
    assert not draws.finished
    assert draws.n_draws == 4
    for coef, centre, target in zip(draws.coef, draws.bayes_points, problem.targets, strict=True):
        assert np.all(target * (coef @ softened(problem)) > 0)
        assert centre @ softened(problem) @ centre == pytest.approx(1)


@pytest.mark.parametrize(("method", "noise"), [("perceptron", 0.0), ("billiard", 0.1), ("ep", 0.1)])
def test_held_out_outputs_know_nothing_of_the_points_left_out(method, noise):
    problem, visited = make_problem(noise), np.arange(0, 24, 2)

    def outputs(problem, fold=0):
        with open_threads(1) as threads:
            plan = Plan(12, 0.0, 3, Budget(), threads)
            found = METHODS[method].held_out(problem, {fold: visited}, plan)
        assert list(found) == [fold]
        return found[fold]

    found = outputs(problem)
    assert found.shape == problem.targets.shape
    hidden = problem.targets.copy()
    hidden[:, 1::2] *= -1
    np.testing.assert_array_equal(outputs(replace(problem, targets=hidden)), found)
    # Nothing is drawn for those of expectation propagation.
    assert np.array_equal(outputs(problem, fold=1), found) == (method == "ep")
    # At the points left out: outputs of a unit vector in the span of those visited.
    K = problem.rows.store
    part = K[np.ix_(visited, visited)] + np.diag(problem.ridge[visited])
    coef = np.linalg.lstsq(K[1::2][:, visited], found[:, 1::2].T, rcond=None)[0]
    np.testing.assert_allclose(K[1::2][:, visited] @ coef, found[:, 1::2].T, atol=1e-9)
    np.testing.assert_allclose(np.einsum("ji,jk,ki->i", coef, part, coef), 1, atol=1e-6)
    agree = problem.targets[:, visited] * found[:, visited] > 0
    assert agree.mean() > 0.7


def test_a_part_of_a_problem():
    problem = make_problem(0.1)
    chosen = np.array([5, 3, 11])
    part = problem.part(chosen)
    np.testing.assert_array_equal(part.rows.store, problem.rows.store[np.ix_(chosen, chosen)])
    np.testing.assert_array_equal(part.ridge, problem.ridge[chosen])
    np.testing.assert_array_equal(part.targets, problem.targets[:, chosen])
    np.testing.assert_array_equal(part.row, [105, 103, 111])
    assert part.odds.shape == part.log_right.shape == (3, 3)
    assert part.weight.shape == (3,)
    np.testing.assert_array_equal(part.space(1).y, problem.targets[1, chosen])
    assert part.space(1).softness == 0.2


# ---------------------------------------------------------------------- exact posteriors


def exact_outputs(K, y, log_odds, n, rng):
    """Outputs of unit draws of the posterior: of the prior, kept with exp(-log-odds of errors)."""
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * values[-1]
    phi = vectors[:, kept] * np.sqrt(values[kept])
    log_odds = np.minimum(log_odds, 1e300)  # infinite: no error
    held, n_held = [], 0
    while n_held < n:
        w = rng.standard_normal((20_000, phi.shape[1]))
        outputs = w @ phi.T
        accepted = (y * outputs < 0) @ log_odds < rng.standard_exponential(len(w))
        held.append(outputs[accepted] / np.linalg.norm(w[accepted], axis=1, keepdims=True))
        n_held += len(held[-1])
    return np.concatenate(held)[:n]


def log_odds_of(label, noise, weight, machines, n_classes):
    """Log-odds and signs of the labels for each machine, from the definition of label noise."""
    rate = np.broadcast_to(noise, n_classes)[label]
    own = label == np.array(machines)[:, None]
    rate = np.where(own, rate, rate / (n_classes - 1))
    with np.errstate(divide="ignore"):
        return weight * np.log((1 - rate) / rate), np.where(own, 1, -1)


def statistics(K, y, outputs):
    """Margins, as shares of the lengths of the points, and errors."""
    margins = y * outputs / np.sqrt(K.diagonal())
    return np.concatenate([margins, margins < 0], axis=-1)


def chains_of(fit, length, seed):
    """Draws of each machine, (32 chains, length, points), from fits with seeds of their own."""
    seeds = np.random.SeedSequence(seed).generate_state(N_FITS).tolist()
    fits = [fit(length, one) for one in seeds]
    n_machines = len(fits[0].dual_coef_)
    return [np.concatenate([f.posterior(k).draws() for f in fits]) for k in range(n_machines)]


def against_exact_draws(fit, K, targets, log_odds):
    """Compare all machines of fits with independent draws of the posteriors they should have.

    ``fit(length, seed)`` is a classifier with chains of that length; K the softened Gram matrix.
    """

    def check(length, seed):
        fits_seed, exact_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        chains = chains_of(fit, length, fits_seed)
        rng, found = np.random.default_rng(exact_seed), []
        for draws, y, odds in zip(chains, targets, log_odds, strict=True):
            exact = exact_outputs(K, y, odds, N_CHAINS * EXACT_DRAWS * length, rng)
            exact = statistics(K, y, exact).reshape(N_CHAINS, EXACT_DRAWS * length, -1)
            found.append(statistics(K, y, draws @ K).mean(axis=1) - exact.mean(axis=1))
        return compare_means(np.concatenate(found, axis=1), 0.0)

    return check


SMALL = np.array([[0.0, 0.3], [0.9, 0.1], [0.4, 1.1], [-0.7, 0.6], [0.5, -0.4], [1.4, 0.9]])
SMALL_LABEL = np.array([0, 1, 1, 0, 2, 2])
SMALL_WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 2.5, 1.5])


def small_check(n_classes, noise, softness, *, weight=SMALL_WEIGHT, claimed_noise=None, parts=1):
    """Six points; ``weight`` and ``claimed_noise``: what the posterior is said to be of."""
    label = np.minimum(SMALL_LABEL, n_classes - 1)
    settings = {"gamma": 0.8, "label_noise": noise, "softness": softness, "tol": 0}

    def fit(length, seed):
        clf = classifier(random_state=seed, warm_start=True, **settings)
        for part in range(1, parts + 1):
            clf.set_params(n_draws=CHAINS * length * part // parts)
            clf.fit(SMALL, label, SMALL_WEIGHT)
        return clf

    claimed_noise = noise if claimed_noise is None else claimed_noise
    machines = [1] if n_classes == 2 else range(n_classes)
    log_odds, targets = log_odds_of(label, claimed_noise, weight, machines, n_classes)
    K = softened_gram(classifier(**settings).fit(SMALL, label), SMALL)
    return against_exact_draws(fit, K, targets, log_odds)


@pytest.mark.parametrize(
    ("n_classes", "noise", "softness"),
    [
        (2, 0.0, 0.0),
        (2, [0.3, 0.05], 0.0),
        (2, [0.0, 0.3], 0.5),
        (3, 0.0, 0.5),
        (3, 0.2, 0.0),
        (3, [0.0, 0.1, 0.3], 0.1),
    ],
)
def test_posteriors_are_exact(n_classes, noise, softness):
    result = two_stage(small_check(n_classes, noise, softness), length=200, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1  # of margins and of error rates


def test_draws_added_later_have_the_same_posterior():
    check = small_check(3, [0.15, 0.1, 0.3], 0.1, parts=3)
    result = two_stage(check, length=200, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1


@pytest.mark.parametrize(
    "wrong",
    [{"weight": np.ones(6)}, {"claimed_noise": [0.1, 0.3, 0.15]}],
    ids=["no weights", "rates of other classes"],
)
@pytest.mark.slow
def test_wrong_weights_and_rates_would_be_noticed(wrong):
    check = small_check(3, [0.15, 0.1, 0.3], 0.1, **wrong)
    assert not two_stage(check, length=30, seed=0).passed


def orthogonal_check(claimed=None):
    """Orthogonal points: each is wrong with its own probability, whatever the others do."""
    label = np.array([0, 1, 2, 2, 1, 0, 1])
    weight = np.array([1.0, 2.0, 0.5, 1.0, 0.25, 3.0, 1.0])
    noise = [0.0, 0.1, 0.3]
    log_odds, targets = log_odds_of(label, noise, weight, range(3), 3)
    expected = expit(-log_odds) if claimed is None else np.full(log_odds.shape, claimed)

    def fit(length, seed):
        clf = classifier(
            kernel="precomputed", bias=0, n_draws=CHAINS * length, tol=0, random_state=seed,
            label_noise=noise,
        )  # fmt: skip
        return clf.fit(np.eye(7), label, weight)

    def check(length, seed):
        chains = zip(chains_of(fit, length, seed), targets, strict=True)
        wrong = [(draws * target < 0).mean(axis=1) for draws, target in chains]
        return compare_means(np.concatenate(wrong, axis=1), expected)

    return check


def test_error_rates_of_orthogonal_points_are_their_noise():
    result = two_stage(orthogonal_check(), length=200, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1
    assert not two_stage(orthogonal_check(claimed=0.1), length=30, seed=0).passed


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_agreement_with_the_sampler_on_the_same_version_space(label_noise):
    X, y, *_ = flowers(3)
    target, rates = np.where(y == 1, 1, -1), np.where(y == 1, label_noise, label_noise / 2)
    settings = {"tol": 0, "label_noise": label_noise}
    K = softened_gram(classifier(**settings).fit(X, y), X)

    def fit(length, seed):
        return classifier(n_draws=CHAINS * length, random_state=seed, **settings).fit(X, y)

    def check(length, seed):
        fits_seed, sampler_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        posterior = sample_billiard(
            VersionSpace(K - 0.1 * np.eye(len(K)), target, 0.1), N_CHAINS * length,
            n_chains=N_CHAINS, label_noise=rates, thin=4, random_state=sampler_seed,
        )  # fmt: skip
        means = [
            statistics(K, target, draws @ K).mean(axis=1)
            for draws in (chains_of(fit, length, fits_seed)[1], posterior.draws())
        ]
        return compare_means(means[0] - means[1], 0.0)

    result = two_stage(check, length=150, seed=0)
    assert result.passed, result
    assert result.detectable < 0.15


# ---------------------------------------------------------------------- contradictions


def test_contradictory_rows_need_softness_or_noise():
    X, y, *_ = flowers(3)
    X, y = np.vstack([X, X[:1]]), np.append(y, (y[0] + 1) % 3)
    with pytest.raises(EmptyVersionSpaceError, match=r"equal rows, unequal labels") as caught:
        classifier(softness=0).fit(X, y)
    np.testing.assert_array_equal(caught.value.points, [0, len(y) - 1])
    for settings in ({"softness": 0, "label_noise": 0.05}, {}, {"label_noise": 0.05}):
        clf = classifier(**settings).fit(X, y)
        assert clf.score(X, y) > 0.85
        assert np.all(np.isfinite(clf.posterior(1).coef))


def test_sure_labels_that_contradict_each_other_are_named():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(EmptyVersionSpaceError) as caught:
        classifier(softness=0, label_noise=[0.0, 0.0, 0.1]).fit(X, [0, 1, 2])
    np.testing.assert_array_equal(caught.value.points, [0, 1])


# Walls that coincide: a point with both labels, parallel points with the same label, opposite
# points that agree, opposite points that contradict each other.
A, B, C, D = np.array([[1.0, 0.3, 0.2], [0.2, 1.0, -0.5], [-0.4, 0.3, 1.0], [0.9, -0.8, 0.4]])
WALLS = np.array([A, A, B, 2 * B, C, -1.5 * C, D, -2 * D, A + B - C])
WALLS_LABEL = np.array([1, 0, 1, 1, 1, 0, 1, 1, 0])
WALLS_WEIGHT = np.array([2.0, 1.0, 1.0, 0.5, 1.0, 1.5, 0.7, 1.8, 1.0])


def walls_check(kernel, noise, *, dtype=np.float64, weight=WALLS_WEIGHT):
    X = (WALLS if kernel == "linear" else WALLS @ WALLS.T).astype(dtype)
    length = np.linalg.norm(WALLS, axis=1)
    K = WALLS @ WALLS.T / np.outer(length, length)

    def fit(length, seed):
        clf = classifier(
            kernel=kernel, bias=0, softness=0, label_noise=noise, tol=0, random_state=seed,
            n_draws=CHAINS * length,
        )  # fmt: skip
        return clf.fit(X, WALLS_LABEL, WALLS_WEIGHT)

    log_odds, targets = log_odds_of(WALLS_LABEL, noise, weight, [1], 2)
    return against_exact_draws(fit, K, targets, log_odds)


@pytest.mark.parametrize(
    ("kernel", "noise", "dtype"),
    [
        ("linear", 0.2, np.float64),
        ("precomputed", [0.1, 0.3], np.float64),
        ("linear", [0.1, 0.3], np.float32),
    ],
)
def test_coinciding_walls_keep_the_posterior_exact(kernel, noise, dtype):
    result = two_stage(walls_check(kernel, noise, dtype=dtype), length=400, seed=0)
    assert result.passed, result
    assert result.detectable < 0.06


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_point_with_both_labels_keeps_the_posterior_exact(dtype):
    X, label = SMALL[[0, 0, 1, 2, 3, 4, 5]].astype(dtype), np.array([1, 0, 1, 1, 0, 0, 1])
    settings = {"gamma": 0.8, "label_noise": 0.2, "softness": 0, "tol": 0}

    def fit(length, seed):
        return classifier(n_draws=CHAINS * length, random_state=seed, **settings).fit(X, label)

    log_odds, targets = log_odds_of(label, 0.2, np.ones(7), [1], 2)
    K = softened_gram(fit(2, 0), X)
    result = two_stage(against_exact_draws(fit, K, targets, log_odds), length=200, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1


@pytest.mark.parametrize("forgotten", [slice(None), [1]], ids=["weights", "a contradiction"])
@pytest.mark.slow
def test_coinciding_walls_mishandled_would_be_noticed(forgotten):
    weight = WALLS_WEIGHT.copy()
    weight[forgotten] = 1.0 if forgotten == slice(None) else 0.0
    assert not two_stage(walls_check("linear", 0.2, weight=weight), length=30, seed=0).passed


def sign_check(X, y, weight, label_noise, machine, row, expected):
    """How often the output at one row is positive, where that is known."""

    def fit(length, seed):
        clf = classifier(
            kernel="linear", bias=0, softness=0, tol=0, n_draws=CHAINS * length, random_state=seed,
            label_noise=label_noise,
        )  # fmt: skip
        return clf.fit(X, y, weight)

    def check(length, seed):
        outputs = chains_of(fit, length, seed)[machine] @ (X @ X.T)
        return compare_means((outputs[:, :, row] > 0).mean(axis=1), expected)

    return check


@pytest.mark.parametrize("weights", [(30.0, 29.5), (300.0, 300.0), (300.0, 299.5)], ids=str)
def test_contradictory_rows_of_large_weights(weights):
    # As on data with few distinct rows: titanic has 2,201 passengers and 11 rows.
    X, y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1, 0, 0])
    log_odds = (weights[0] - weights[1]) * np.log(0.95 / 0.05)
    check = sign_check(X, y, np.array([*weights, 1.0]), 0.05, 0, 0, expit(log_odds))
    result = two_stage(check, length=200, seed=0)
    assert result.passed, result


@pytest.mark.parametrize(
    "label_noise", [[0.0, 0.3, 0.2], [0.2, 0.0, 0.1]], ids=["both may be wrong", "one is sure"]
)
def test_a_contradiction_that_label_noise_allows_is_none(label_noise):
    # Rows 0 and 1 are equal and have the labels 1 and 2.
    X = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    y = np.array([1, 2, 0, 0])
    log_odds, targets = log_odds_of(y, label_noise, np.ones(4), [1], 3)
    expected = expit(targets[0, :2] @ np.minimum(log_odds[0, :2], 1e9))
    check = sign_check(X, y, None, label_noise, 1, 0, expected)
    result = two_stage(check, length=200, seed=0)
    assert result.passed, result


# ---------------------------------------------------------------------- singular Gram matrices


def plane(n, noise=0.0, seed=0):
    """Points on two sides of a plane, not too near to it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    side = X @ [1.0, -0.5, 0.25] + 0.2
    kept = np.abs(side) > 0.05
    return X[kept], (side[kept] > 0) ^ (rng.random(kept.sum()) < noise)


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_more_points_than_features(decision, dtype):
    X, y = plane(200)
    X = X.astype(dtype)
    clf = classifier(kernel="linear", softness=0, decision=decision, n_draws=12).fit(X, y)
    assert clf.score(X, y) == 1.0
    gram, _ = by_hand(clf, X, X)
    draws = clf.posterior(0).coef
    # Signs in version space to the precision of the data.
    assert np.all(np.where(y, 1, -1) * (draws @ gram) > -10 * np.finfo(dtype).eps)
    assert clf.score(*plane(100, seed=1)) > 0.9


def test_votes_with_a_singular_gram_matrix():
    X, y = plane(60)
    clf = classifier(kernel="linear", softness=0, label_noise=0.1, n_draws=12).fit(X, y)
    new = fresh_points(X)
    cross, _ = by_hand(clf, new, X)
    outputs = clf.posterior(0).coef @ cross.T
    # Every point lies in the span of the training points: nothing is unknown but the noise.
    votes = (outputs > 0).mean(axis=0)
    clear = np.abs(outputs).min(axis=0) > 1e-3
    assert clear.mean() > 0.5
    expected = 0.9 * votes + 0.1 * (1 - votes)
    np.testing.assert_allclose(clf.predict_proba(new)[clear, 1], expected[clear], atol=1e-6)


def test_rows_that_no_plane_separates_are_named():
    X, y = plane(200, noise=0.05)
    with pytest.raises(EmptyVersionSpaceError, match="softness > 0") as caught:
        classifier(kernel="linear", softness=0).fit(X, y)
    part = caught.value.points
    assert 2 <= len(part) <= 5  # Carathéodory, in four dimensions
    with pytest.raises(EmptyVersionSpaceError):
        classifier(kernel="linear", softness=0).fit(X[part], y[part])
    clf = classifier(kernel="linear", softness=0, label_noise=0.05).fit(X, y)
    assert clf.score(X, y) > 0.85


def test_each_class_is_asked_whether_its_version_space_is_empty():
    X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0], [9, 9], [9, 8]])
    y = np.array([1, 1, 2, 2, 0, 0])
    with pytest.raises(EmptyVersionSpaceError, match=r"for class [12] against the rest"):
        classifier(kernel="linear", softness=0).fit(X, y)


# ---------------------------------------------------------------------- more draws


@pytest.mark.filterwarnings("ignore:the chains of the billiard")
@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_more_draws_with_warm_start(label_noise):
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=20, warm_start=True, label_noise=label_noise).fit(X, y)
    first = [clf.posterior(k).draws() for k in range(3)]
    stored = pickle.loads(pickle.dumps(clf))
    clf.set_params(n_draws=40).fit(X, y)
    assert clf.n_draws_ == 40
    for k in range(3):
        draws = clf.posterior(k).draws()
        assert draws.shape == (4, 10, len(X))
        np.testing.assert_array_equal(draws[:, :5], first[k])
        assert len(np.unique(draws.reshape(40, -1), axis=0)) == 40
    # The same from a file, and whatever random_state is by then.
    stored.set_params(n_draws=40, random_state=99).fit(X, y)
    np.testing.assert_array_equal(stored.predict_proba(new), clf.predict_proba(new))
    before = clf.predict_proba(new)
    assert clf.set_params(n_draws=10).fit(X, y).n_draws_ == 40  # none is taken away
    np.testing.assert_array_equal(clf.predict_proba(new), before)
    # Another decision needs no other draws.
    clf.set_params(decision="bayes_point").fit(X, y)
    np.testing.assert_array_equal(clf.posterior(0).draws()[:, :5], first[0])
    np.testing.assert_array_equal(
        clf.set_params(decision="vote").fit(X, y).predict_proba(new), before
    )


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ("label_noise", {"label_noise": 0.2}),
        ("label_noise", {"label_noise": [0.1, 0.1, 0.0]}),
        ("label_noise", {"label_noise": 0}),
        ("inference", {"inference": "perceptron", "label_noise": 0.0}),
        ("softness", {"softness": 0.5}),
        ("gamma", {"gamma": 0.9}),
    ],
    ids=str,
)
def test_warm_start_refuses_other_settings(changed, settings):
    X, y, new, _ = flowers(3)
    clf = classifier(warm_start=True, label_noise=0.1).fit(X, y)
    before = clf.predict_proba(new)
    with pytest.raises(ValueError, match=rf"warm_start.*{changed}"):
        clf.set_params(n_draws=40, **settings).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(new), before)


def test_warm_start_refuses_other_data_and_takes_the_same_rates():
    X, y, *_ = flowers(3)
    clf = classifier(warm_start=True, label_noise=0.1).fit(X, y)
    for other in [(X + 1, y), (X, np.roll(y, 1)), (X, y, y + 1.0), (X[:30], y[:30])]:
        with pytest.raises(ValueError, match=r"warm_start.*X, y or sample_weight"):
            clf.fit(*other)
    clf.set_params(label_noise={0: 0.1, 1: 0.1, 2: 0.1}, n_draws=12).fit(X, y)
    assert clf.n_draws_ == 12


def test_a_failed_fit_leaves_the_model_that_was_there():
    X, y, new, _ = flowers(3)
    clf = classifier(label_noise=0.1).fit(X, y)
    before = clf.predict_proba(new)
    for settings in ({"label_noise": [0.1, 0.1]}, {"label_noise": 0.6}, {"cache_size": 0.01},
                     {"inference": "perceptron"}, {"kernel": "linear", "softness": 0,
                                                   "label_noise": 0.0}):  # fmt: skip
        usual = {name: clf.get_params()[name] for name in settings}
        with pytest.raises(ValueError, match=r"label_noise|cache_size|version space"):
            clf.set_params(**settings).fit(X, y)
        clf.set_params(**usual)
        np.testing.assert_array_equal(clf.predict_proba(new), before)


# ---------------------------------------------------------------------- time limits and Ctrl-C


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_max_time_leaves_a_usable_fit(decision, label_noise):
    X, y, new, _ = flowers(3)
    clf = classifier(
        n_draws=40_000, tol=0, max_time=0.3, decision=decision, label_noise=label_noise
    )
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
    assert time.perf_counter() - begun < INTERRUPT_SECONDS
    assert {one.category for one in caught} <= {ConvergenceWarning}
    assert 4 <= clf.n_draws_ < 40_000
    assert clf.n_draws_ % 4 == 0
    assert np.all(np.isfinite(clf.predict_proba(new)))
    assert clf.score(X, y) > 0.8
    assert clf.posterior(2).coef.shape == (clf.n_draws_, len(X))


def test_the_burn_in_leaves_time_for_draws():
    # As many draws as the time allows: a tenth of those asked for is too long a burn-in.
    X, y, *_ = flowers(3)
    clf = classifier(n_draws=400_000, tol=0, max_time=0.3, label_noise=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
    assert not any("before the first draw" in str(one.message) for one in caught)
    assert clf.n_draws_ > 4


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_no_time_at_all_gives_the_starts(decision):
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=12, max_time=1e-9, decision=decision)
    with pytest.warns(ConvergenceWarning, match=r"before the first draw.*starting points.*max_tim"):
        clf.fit(X, y)
    assert clf.n_draws_ == 4
    assert np.all(np.isfinite(clf.predict_proba(new)))
    # Draws are then made anew: starts are none.
    clf.set_params(warm_start=True, max_time=None).fit(X, y)
    at_once = classifier(n_draws=12, decision=decision).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(new), at_once.predict_proba(new))


def test_draws_held_outlive_a_fit_that_had_no_time():
    X, y, *_ = flowers(3)
    clf = classifier(n_draws=8, warm_start=True).fit(X, y)
    first = clf.posterior(0).draws()
    clf.set_params(n_draws=12, max_time=1e-9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
    assert clf.n_draws_ == 8
    np.testing.assert_array_equal(clf.posterior(0).draws(), first)
    assert not any("starting points" in str(one.message) for one in caught)  # it holds draws
    clf.set_params(max_time=None).fit(X, y)
    assert clf.n_draws_ == 12
    np.testing.assert_array_equal(clf.posterior(0).draws()[:, :2], first)


def interrupt_at(monkeypatch, owner, name, call):
    """Press Ctrl-C at the given call of a function."""
    original, calls = getattr(owner, name), []

    def wrapped(*args, **kwargs):
        calls.append(name)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize(
    ("inference", "owner", "name"),
    [("billiard", Balls, "step"), ("perceptron", Ensemble, "add")],
    ids=["billiard", "perceptron"],
)
def test_interrupt_raises_and_keeps_what_was_drawn(monkeypatch, inference, owner, name, decision):
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=800, tol=0, decision=decision, inference=inference)
    with monkeypatch.context() as patch:
        interrupt_at(patch, owner, name, 4)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    assert 1 <= clf.n_draws_ < 800
    assert np.all(np.isfinite(clf.predict_proba(new)))
    assert clf.score(X, y) > 0.8
    held, first = clf.n_draws_, clf.posterior(1).draws()
    clf.set_params(warm_start=True, n_draws=800).fit(X, y)
    assert clf.n_draws_ == 800
    np.testing.assert_array_equal(clf.posterior(1).draws()[:, : held // len(first)], first)


def test_interrupt_while_balls_fly():
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=400_000, tol=0, label_noise=0.1)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begun = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    finally:
        timer.cancel()
    assert time.perf_counter() - begun < INTERRUPT_SECONDS
    assert 4 <= clf.n_draws_ < 400_000
    assert np.all(np.isfinite(clf.predict_proba(new)))


def test_interrupt_during_the_search_for_a_start(monkeypatch):
    X, y = plane(200)
    clf = classifier(kernel="linear", softness=0)
    monkeypatch.setattr(wave, "UPDATE_WORK", 1)  # as slow as on many points
    interrupt_at(monkeypatch, billiard_chains, "starts_of", 1)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)


def test_no_false_alarm_about_few_draws_that_agree():
    # Orthogonal points: draws are all but independent, and no chain differs from the others.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(30):
            clf = classifier(kernel="precomputed", bias=0, n_draws=20, random_state=seed)
            clf.fit(np.eye(6), [0, 1, 1, 0, 1, 0])
    assert len(caught) <= 1, f"{len(caught)} of 30 fits: {caught[0].message}"
