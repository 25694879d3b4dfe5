"""PAC-Bayes certificates: the formula by brute force, what they cover, and that they hold."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.refusals import assert_refused
from helpers.version_spaces import labels, orthogonal, skewed
from scipy.special import stdtrit
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from bayespoint import VersionSpace
from bayespoint.evidence import Certificate, Evidence, log_evidence
from bayespoint.evidence.certificates import SAMPLING_SHARE, largest_error
from bayespoint.inference import expectation_propagation

# Distance of the points at which the bound is looked for by brute force.
GRID = 1e-5


def make(m=100, divergence=5.0, training_error=0.1, n_runs=1, shape="gaussian", errors=(0.0, 0.0)):
    """Evidence with these numbers; ``n_runs=1``: without a sampling error."""
    return Evidence(
        -divergence, errors[0], "bridge", n_runs, divergence, errors[0], training_error, errors[1],
        m, shape,
    )  # fmt: skip


def by_brute_force(training_error, bound):
    """Largest p of a grid whose coin is not further from that of the training error."""
    p = np.arange(GRID, 1, GRID)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            t * np.log(t / of) if t else 0 * of
            for t, of in ((training_error, p), (1 - training_error, 1 - p))
        ]
    inside = p[(sum(parts) <= bound) & (p >= training_error)]
    return inside.max(initial=training_error)


@pytest.mark.parametrize("training_error", [0.0, 0.01, 0.2, 0.5, 0.97])
def test_the_inverse_by_brute_force(training_error):
    for bound in (0.0, 1e-3, 0.05, 0.7):
        found = largest_error(training_error, bound)
        assert found == pytest.approx(by_brute_force(training_error, bound), abs=2 * GRID)
        assert training_error <= found <= 1


@pytest.mark.parametrize("m", [1, 7, 8, 200])
def test_the_formula(m):
    """Seeger's with Maurer's constant, 2 sqrt(m); below 8 points m + 1."""
    constant = 2 * np.sqrt(m) if m >= 8 else m + 1
    for delta in (0.5, 0.05, 1e-6):
        found = make(m, 3.0, 0.1).certificate(delta)
        bound = (3.0 + np.log(constant / delta)) / m
        assert found.gibbs == pytest.approx(by_brute_force(0.1, bound), abs=2 * GRID)
        assert found.vote == min(2 * found.gibbs, 1)
        assert (found.n_points, found.delta, found.n_settings) == (m, delta, 1)
        assert (found.divergence, found.training_error) == (3.0, 0.1)


@pytest.mark.parametrize("m", [1, 2, 7, 8, 60])
def test_the_constant_is_large_enough(m):
    """The mean of exp(m kl(k/m || p)) over k errors of m, for any p, is at most the constant."""
    k = np.arange(m + 1)
    constant = 2 * np.sqrt(m) if m >= 8 else m + 1
    for p in np.linspace(0.01, 0.99, 99):
        with np.errstate(divide="ignore", invalid="ignore"):
            share = k / m
            kl = np.where(k > 0, share * np.log(share / p), 0.0)
            kl += np.where(k < m, (1 - share) * np.log((1 - share) / (1 - p)), 0.0)
        assert binom.pmf(k, m, p) @ np.exp(m * kl) <= constant * (1 + 1e-9)


def test_without_training_errors_it_is_an_exponential():
    for m, divergence, delta, n_settings in [(50, 4.0, 0.05, 1), (300, 40.0, 0.01, 7)]:
        found = make(m, divergence, 0.0).certificate(delta, n_settings=n_settings)
        share = delta / n_settings
        exact = 1 - np.exp(-(divergence + np.log(2 * np.sqrt(m) / share)) / m)
        assert found.gibbs == pytest.approx(exact, abs=1e-9)


def test_sampling_errors_have_their_share():
    """Upper limits of both numbers, and the rest of delta for the bound."""
    m, runs, delta, settings = 100, 16, 0.05, 3
    sampled = make(m, 5.0, 0.1, runs, errors=(0.2, 0.01)).certificate(delta, n_settings=settings)
    share = delta / settings
    quantile = -stdtrit(runs - 1, SAMPLING_SHARE * share / 2)
    assert quantile > 4
    bound = (5.0 + 0.2 * quantile + np.log(20 / ((1 - SAMPLING_SHARE) * share))) / m
    exact = by_brute_force(0.1 + 0.01 * quantile, bound)
    assert sampled.gibbs == pytest.approx(exact, abs=2 * GRID)
    assert sampled.gibbs > make(m, 5.0, 0.1).certificate(delta, n_settings=settings).gibbs
    assert (sampled.divergence, sampled.training_error) == (5.0, 0.1)  # as they were found


@pytest.mark.parametrize("n_runs", [1, 16])
def test_more_certainty_and_more_settings_cost(n_runs):
    evidence = make(n_runs=n_runs, errors=(0.1, 0.01))
    by_delta = [evidence.certificate(delta).gibbs for delta in (0.5, 0.1, 0.01, 1e-6)]
    by_settings = [evidence.certificate(0.05, n_settings=n).gibbs for n in (1, 2, 10, 1000)]
    by_divergence = [
        replace(evidence, divergence=float(d)).certificate().gibbs for d in (0, 1, 20, 90)
    ]
    for found in (by_delta, by_settings, by_divergence):
        assert np.all(np.diff(found) > 0)
    # Settings are shares of delta, nothing else.
    shared = evidence.certificate(0.005).gibbs
    assert evidence.certificate(0.05, n_settings=10).gibbs == pytest.approx(shared)


def test_bounds_end_at_one():
    found = make(20, 1e4, 0.3).certificate()
    assert found.gibbs == found.vote == found.bayes_point == 1.0
    assert make(20, 0.0, 1.0).certificate().gibbs == 1.0
    assert 0.5 < make(20, 8.0, 0.1).certificate().gibbs < 1
    assert make(20, 8.0, 0.1).certificate().vote == 1.0


# ---------------------------------------------------------------------- what it covers


def test_factors_of_vote_and_bayes_point():
    space = skewed(8, 3).space
    factors = {
        ("tilting", 0.0): np.e, ("bridge", 0.0): np.e, ("bridge", 0.1): np.nan, ("ep", 0.0): 2.0,
        ("ep", 0.1): 2.0,
    }  # fmt: skip
    for (method, noise), factor in factors.items():
        draws = {} if method == "ep" else {"n_draws": 50, "n_runs": 8}
        evidence = log_evidence(space, method=method, label_noise=noise, random_state=0, **draws)
        # A smaller divergence, for bounds below one.
        found = replace(evidence, divergence=1.0, training_error=0.0, n_points=500).certificate(0.5)
        assert isinstance(found, Certificate)
        assert 0 < found.gibbs < 0.3
        assert found.vote == pytest.approx(2 * found.gibbs)
        assert found.bayes_point == pytest.approx(factor * found.gibbs, nan_ok=True)


def test_an_estimate_that_warned_does_not_certify_in_silence():
    # Labels at random over points that are nearly the same, hardly any draws.
    X = np.random.default_rng(0).normal(size=(60, 2))
    space = VersionSpace(rbf_kernel(X, gamma=0.05), labels(60), 1e-4)
    with pytest.warns(ConvergenceWarning, match="of all weight"):
        found = log_evidence(space, n_draws=2, random_state=0)
    assert not found.trusted
    with pytest.warns(ConvergenceWarning, match="cannot be trusted"):
        found.certificate()
    make().certificate()  # a warning would be an error


def test_it_says_what_it_covers():
    text = str(make(100, 2.0, 0.05).certificate(0.05))
    assert "probability 0.95 over the draw of 100 training points" in text
    assert "settings" not in text
    for line in ("one random draw of the posterior", "vote of the posterior", "Bayes point"):
        assert line in text
    assert f"at most {make(100, 2.0, 0.05).certificate(0.05).gibbs:.3f}" in text
    noisy = str(make(100, 2.0, 0.05, shape="any").certificate(0.1, n_settings=12))
    assert "chosen among 12 settings" in noisy
    assert "Bayes point                       no bound" in noisy
    assert "nan" not in noisy


def test_delta_is_a_probability_and_settings_are_counted():
    message = "n_settings must be a whole number >= 1"
    cases = [({"delta": delta}, "delta must ") for delta in (0, 1, 1.5, -0.1, np.nan, "x", None)]
    cases += [({"n_settings": n}, message) for n in (0, 1.5, "x", None)]
    assert_refused(make().certificate, cases)


# ---------------------------------------------------------------------- that it holds

N_SETS, DELTA = 16, 0.05


def taught(seed, m=40, n_new=100, flipped=0.0):
    """Labels of a teacher drawn from the prior, at random points; some turned round."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m + n_new, 2))
    K = rbf_kernel(X, gamma=0.3)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ rng.standard_normal(len(K))
    y = np.where(f > 0, 1, -1) * np.where(rng.random(len(f)) < flipped, -1, 1)
    return VersionSpace(K[:m, :m], y[:m], 0.05), K[m:, :m], y[m:]


@pytest.fixture
def one_thread():
    """Small matrices: more threads of BLAS would wait for each other."""
    with threadpool_limits(1):
        yield


def error_of_a_draw(post, cross, y):
    """Share of new labels that one draw of EP's Gaussian, with its softness, gets wrong."""
    diagonal = np.ones(len(y))
    p = post.predictive(cross, diagonal, label=True)
    noise = post.label_noise[0]
    p = (p - noise) / (1 - 2 * noise)  # of the output, not of a noisy label
    return np.mean(np.where(y > 0, 1 - p, p))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:expectation propagation did not converge")
@pytest.mark.parametrize("flipped", [0.0, 0.1])
def test_bounds_hold_as_often_as_they_say(flipped):
    """The error of one random draw, over data sets: its bound fails at most 5 % of the time.

    It holds for any Gaussian, one that has not converged, too.
    The number of failures allowed has a chance of 1e-6 where the rate is 5 %.
    """
    failures = failures_without = 0
    for seed in range(N_SETS):
        space, cross, y = taught(seed, flipped=flipped)
        evidence = log_evidence(space, label_noise=flipped, method="ep")
        error = error_of_a_draw(evidence.info["posterior"], cross, y)
        certificate = evidence.certificate(DELTA)
        assert certificate.training_error < certificate.gibbs < 1
        failures += error > certificate.gibbs
        # A negative control: a bound that leaves out what the data told.
        failures_without += error > largest_error(certificate.training_error, 0.0)
    assert failures <= binom.isf(1e-6, N_SETS, DELTA)
    assert failures_without > binom.isf(1e-6, N_SETS, DELTA)


def test_random_labels_are_not_certified():
    """Labels that say nothing: half of all new ones are wrong, and the bound says so."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        space = VersionSpace(rbf_kernel(X, gamma=0.3), rng.choice([-1, 1], 60), 0.05)
        assert log_evidence(space, method="ep").certificate(DELTA).gibbs > 0.5
        estimate = log_evidence(space, n_draws=5_000, random_state=0)
        assert estimate.certificate(DELTA).gibbs > 0.5
    # Independent outputs tell nothing of each other: -log P is m log 2.
    evidence = log_evidence(orthogonal(60).space, n_draws=1_000, random_state=0)
    assert evidence.certificate(DELTA).gibbs > 0.5
    # The same bound without the divergence would certify all of them.
    assert replace(evidence, divergence=0.0).certificate(DELTA).gibbs < 0.2


def test_by_sampling_it_is_what_the_evidence_says():
    space = taught(0)[0]
    evidence = log_evidence(space, n_draws=5_000, random_state=0)
    m, value = len(space), -evidence.value
    share = (1 - SAMPLING_SHARE) * DELTA
    quantile = -stdtrit(15, SAMPLING_SHARE * DELTA / 2)
    exact = 1 - np.exp(-(value + quantile * evidence.stderr + np.log(2 * np.sqrt(m) / share)) / m)
    assert evidence.certificate(DELTA).gibbs == pytest.approx(exact, abs=1e-9)
    # EP's Gaussian makes some errors and is nearer to the prior.
    post = expectation_propagation(space)
    assert post.divergence()[1] > 0
