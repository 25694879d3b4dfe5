"""Fits of the billiard have the posterior that labels, weights, noise rates and softness define."""

import numpy as np
import pytest
from helpers.classifiers import classifier, flowers, softened_gram
from helpers.thresholds import compare_means, two_stage
from numpy.testing import assert_array_equal
from scipy.special import expit

from bayespoint import EmptyVersionSpaceError, VersionSpace
from bayespoint.inference import sample_billiard
from bayespoint.inference.engines import CHAINS

# Fits of four chains each: 32 independent chains.
N_FITS = 8
N_CHAINS = CHAINS * N_FITS

# Exact draws for each draw of a chain.
EXACT_DRAWS = 3


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


# ---------------------------------------------------------------------- six points


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
        (2, [0.3, 0.05], 0.0),
        (3, [0.0, 0.1, 0.3], 0.1),
        pytest.param(2, 0.0, 0.0, marks=pytest.mark.slow),
        pytest.param(2, [0.0, 0.3], 0.5, marks=pytest.mark.slow),
        pytest.param(3, 0.0, 0.5, marks=pytest.mark.slow),
        pytest.param(3, 0.2, 0.0, marks=pytest.mark.slow),
    ],
)
def test_posteriors_are_exact(n_classes, noise, softness):
    result = two_stage(small_check(n_classes, noise, softness), length=100, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1  # of margins and of error rates


def test_draws_added_later_have_the_same_posterior():
    check = small_check(3, [0.15, 0.1, 0.3], 0.1, parts=3)
    result = two_stage(check, length=100, seed=0)
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


# ---------------------------------------------------------------------- known without drawing


ORTHOGONAL_LABEL = np.array([0, 1, 2, 2, 1, 0, 1])
ORTHOGONAL_WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 0.25, 3.0, 1.0])


def orthogonal_check(claimed=None):
    """Orthogonal points: each is wrong with its own probability, whatever the others do."""
    label, noise = ORTHOGONAL_LABEL, [0.0, 0.1, 0.3]
    log_odds, targets = log_odds_of(label, noise, ORTHOGONAL_WEIGHT, range(3), 3)
    expected = expit(-log_odds) if claimed is None else np.full(log_odds.shape, claimed)

    def fit(length, seed):
        clf = classifier(
            kernel="precomputed", bias=0, n_draws=CHAINS * length, tol=0, random_state=seed,
            label_noise=noise,
        )  # fmt: skip
        return clf.fit(np.eye(7), label, ORTHOGONAL_WEIGHT)

    def check(length, seed):
        chains = zip(chains_of(fit, length, seed), targets, strict=True)
        wrong = [(draws * target < 0).mean(axis=1) for draws, target in chains]
        return compare_means(np.concatenate(wrong, axis=1), expected)

    return check


def test_error_rates_of_orthogonal_points_are_their_noise():
    result = two_stage(orthogonal_check(), length=70, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1
    assert not two_stage(orthogonal_check(claimed=0.1), length=20, seed=0).passed


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
    result = two_stage(check, length=100, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1


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
    result = two_stage(check, length=100, seed=0)
    assert result.passed, result
    assert result.detectable < 0.1


def test_sure_labels_that_contradict_each_other_are_named():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(EmptyVersionSpaceError) as caught:
        classifier(softness=0, label_noise=[0.0, 0.0, 0.1]).fit(X, [0, 1, 2])
    assert_array_equal(caught.value.points, [0, 1])


# ---------------------------------------------------------------------- walls that coincide


# A point with both labels, parallel points with the same label, opposite points that agree,
# opposite points that contradict each other.
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
        ("linear", [0.1, 0.3], np.float32),
        pytest.param("linear", 0.2, np.float64, marks=pytest.mark.slow),
        pytest.param("precomputed", [0.1, 0.3], np.float64, marks=pytest.mark.slow),
    ],
)
def test_coinciding_walls_keep_the_posterior_exact(kernel, noise, dtype):
    result = two_stage(walls_check(kernel, noise, dtype=dtype), length=120, seed=0)
    assert result.passed, result
    assert result.detectable < 0.08


@pytest.mark.parametrize("forgotten", [slice(None), [1]], ids=["weights", "a contradiction"])
@pytest.mark.slow
def test_coinciding_walls_mishandled_would_be_noticed(forgotten):
    weight = WALLS_WEIGHT.copy()
    weight[forgotten] = 1.0 if forgotten == slice(None) else 0.0
    assert not two_stage(walls_check("linear", 0.2, weight=weight), length=30, seed=0).passed


# ---------------------------------------------------------------------- the sampler itself


@pytest.mark.slow
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
