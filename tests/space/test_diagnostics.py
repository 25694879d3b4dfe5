"""Effective sample size, R-hat and standard error: against loops, closed forms and ArviZ."""

import warnings

import numpy as np
import pytest
from helpers.thresholds import compare_means, fails_clearly, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import rankdata

from bayespoint.inference.billiard.chains import UNMIXED, UNMIXED_DRAWS
from bayespoint.space.diagnostics import ess, mcse_mean, rhat

STATISTICS = {
    "bulk": ess,
    "tail": lambda x: ess(x, "tail"),
    "mean": lambda x: ess(x, "mean"),
    "rhat": rhat,
    "mcse": mcse_mean,
}


def autoregressive(rho, noise):
    """AR(1) along the second axis, started from its stationary distribution."""
    noise = noise.copy()
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


def make_kinds(n_chains, n_draws):
    """Chains of many kinds, one a column: (n_chains, n_draws, n_kinds) and their names."""
    rng = np.random.default_rng([n_chains, n_draws])
    shape = (n_chains, n_draws)
    kinds = {
        "independent": rng.normal(size=shape),
        "positive correlation": 100 + autoregressive(0.9, rng.normal(size=shape)),
        "negative correlation": autoregressive(-0.6, rng.normal(size=shape)),
        "strong negative correlation": autoregressive(-0.95, rng.normal(size=shape)),
        "random walk": rng.normal(size=shape).cumsum(axis=1),
        "heavy tails": rng.standard_cauchy(size=shape),
        "ties": rng.poisson(1.5, size=shape).astype(float),
        "two values": rng.choice([-1.0, 1.0], size=shape),
        "constant": np.full(shape, 2.0),
        "one constant chain": np.vstack([np.zeros((1, n_draws)), rng.normal(size=shape)[1:]]),
        "different means": rng.normal(size=shape) + np.arange(n_chains)[:, None],
    }
    return np.stack(list(kinds.values()), axis=2), list(kinds)


# ---------------------------------------------------------------------- ArviZ


@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0.23 tells once a day that 1.0 will come
        az = pytest.importorskip("arviz")
    with pytest.MonkeyPatch.context() as patch:
        if az.__version__.startswith("0."):  # E[x²] - E[x]² in Numba is not good to 1e-10
            patch.setattr(az.Numba, "numba_flag", False)
        yield az


def by_arviz(az, x):
    """Values of ArviZ, 0.x or 1.x, for chains x of shape (n_chains, n_draws)."""
    x = np.ascontiguousarray(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by zero where draws are equal
        values = {
            "bulk": az.ess(x, method="bulk"),
            "tail": az.ess(x, method="tail", prob=(0.05, 0.95)),
            "mean": az.ess(x, method="mean"),
            "rhat": az.rhat(x, method="rank"),
            "mcse": az.mcse(x, method="mean"),
        }
    return {name: np.asarray(value).item() for name, value in values.items()}


# Not 21, 41, 101, ... draws in all: quantiles are then draws, and those of ArviZ 0.x, but not of
# 1.x, may be rounded to the wrong side of them.
SHAPES = [(1, 3), (2, 4), (7, 5), (1, 6), (4, 7), (2, 9), (4, 10), (7, 50), (1, 99), (4, 400)]


@pytest.mark.parametrize(("n_chains", "n_draws"), SHAPES)
def test_values_are_those_of_arviz(arviz, n_chains, n_draws):
    x, kinds = make_kinds(n_chains, n_draws)
    expected = [by_arviz(arviz, x[:, :, j]) for j in range(len(kinds))]
    for name, statistic in STATISTICS.items():
        for kind, value, values in zip(kinds, statistic(x), expected, strict=True):
            # Constant draws, and R-hat of two values after folding, are 0 or NaN in both.
            assert_allclose(value, values[name], rtol=1e-10, err_msg=f"{name} of {kind}")


def test_chains_that_stand_still_apart_are_as_in_arviz(arviz):
    x = np.repeat([[0.0], [1.0], [3.0], [4.0]], 20, axis=1)
    expected = by_arviz(arviz, x)
    assert rhat(x) > 1e6  # over a variance of zero, but for rounding
    assert expected["rhat"] > 1e6
    for name in ("bulk", "tail", "mean", "mcse"):
        assert_allclose(STATISTICS[name](x), expected[name], rtol=1e-10, err_msg=name)


# ---------------------------------------------------------------------- loops


def ess_by_loops(x):
    """Effective sample size for the mean by sums and loops, from the definition."""
    half = x.shape[1] // 2
    chains = np.vstack([x[:, :half], x[:, -half:]])
    n_all, means = chains.size, chains.mean(axis=1, keepdims=True)
    centered = chains - means

    def covariance(lag):
        return np.mean([c[: half - lag] @ c[lag:] / half for c in centered])

    within = covariance(0) * half / (half - 1)
    total = covariance(0) + means.var(ddof=1)
    rho = [1.0] + [1 - (within - covariance(lag)) / total for lag in range(1, half)]
    tau, pair, k = -1.0, rho[0] + rho[1], 0
    while pair > 0 and 2 * k + 3 < half - 1:
        tau += 2 * pair
        k += 1
        new = rho[2 * k] + rho[2 * k + 1]
        if new <= 0:
            break
        pair = min(pair, new)
    # The last pair counts by its even term, unless that one makes it negative.
    if rho[2 * k] > 0 or rho[2 * k] + rho[2 * k + 1] >= 0:
        tau += rho[2 * k]
    return n_all / max(tau, 1 / np.log10(n_all))


def not_constant(n_chains, n_draws):
    x, _ = make_kinds(n_chains, n_draws)
    return x[:, :, np.ptp(x, axis=(0, 1)) > 0]


def by_columns(function, x):
    return [function(x[:, :, j]) for j in range(x.shape[2])]


@pytest.mark.parametrize("n_chains", [1, 3])
def test_ess_is_what_loops_give(n_chains):
    for n_draws in (4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 100):
        x = not_constant(n_chains, n_draws)
        assert_allclose(ess(x, "mean"), by_columns(ess_by_loops, x), rtol=1e-9, err_msg=n_draws)


def test_bulk_is_that_of_normal_scores_and_tail_that_of_quantiles():
    x = not_constant(3, 200)

    def scores(column):
        return ndtri((rankdata(column) - 0.375) / (column.size + 0.25)).reshape(column.shape)

    bulk = by_columns(lambda column: ess_by_loops(scores(column)), x)
    assert_allclose(ess(x, "bulk"), bulk, rtol=1e-9)
    low, high = np.quantile(x, [0.05, 0.95], axis=(0, 1))
    tail = np.minimum(ess(x <= low, "mean"), ess(x <= high, "mean"))
    assert_array_equal(ess(x, "tail"), tail)


def test_a_strictly_rising_function_changes_neither_bulk_nor_tail():
    x = autoregressive(0.5, np.random.default_rng(0).normal(size=(4, 101)))  # 404: no ties
    assert ess(np.exp(3 * x)) == ess(x)
    assert ess(np.exp(3 * x), "tail") == ess(x, "tail")
    assert ess(np.exp(3 * x), "mean") != pytest.approx(ess(x, "mean"), rel=0.01)


def test_mcse_is_the_deviation_of_all_draws_over_the_root_of_ess():
    x = not_constant(2, 21)
    expected = x.std(axis=(0, 1), ddof=1) / np.sqrt(by_columns(ess_by_loops, x))
    assert_allclose(mcse_mean(x), expected, rtol=1e-9)


def ratio(chains):
    """R-hat of the normal scores of chains, neither split nor folded."""
    z = ndtri((rankdata(chains) - 0.375) / (chains.size + 0.25)).reshape(chains.shape)
    n = z.shape[1]
    within = np.mean([c.var(ddof=1) for c in z])
    between = n * np.var([c.mean() for c in z], ddof=1)
    return np.sqrt(((n - 1) / n * within + between / n) / within)


def test_rhat_is_the_larger_of_two_ratios():
    x = not_constant(4, 51)
    for j in range(x.shape[2]):
        halves = np.vstack([x[:, :25, j], x[:, 26:, j]])
        folded = np.abs(halves - np.median(halves))
        ratios = [ratio(chains) for chains in (halves, folded) if np.ptp(chains) > 0]
        assert_allclose(rhat(x[:, :, j]), max(ratios), rtol=1e-12)


# ---------------------------------------------------------------------- known values


# The autocorrelation time of chains with a variance of 1, by each estimate.
TAU = {
    "mean": lambda x: x.shape[0] * x.shape[1] / ess(x, "mean"),
    "bulk": lambda x: x.shape[0] * x.shape[1] / ess(x, "bulk"),
    "mcse": lambda x: x.shape[0] * x.shape[1] * mcse_mean(x) ** 2,
}


def tau_check(estimate, rho, expected):
    """Compare estimates of tau of 32 independent runs, four chains each, of an AR(1)."""

    def check(length, seed):
        noise = np.random.default_rng(seed).normal(size=(4, length, 32))
        return compare_means(TAU[estimate](autoregressive(rho, noise)), expected)

    return check


@pytest.mark.parametrize("estimate", TAU)
@pytest.mark.parametrize(
    ("rho", "length", "detected"),
    [
        (-0.3, 1000, 0.1),
        (0.5, 1000, 0.1),
        *(pytest.param(rho, 5000, 0.05, marks=pytest.mark.slow) for rho in (-0.3, 0.0, 0.5)),
        pytest.param(0.9, 5000, 0.14, marks=pytest.mark.slow),
    ],
)
def test_autoregressions_have_their_exact_ess(estimate, rho, length, detected):
    tau = (1 + rho) / (1 - rho)
    result = two_stage(tau_check(estimate, rho, tau), length, seed=0)
    assert result.passed, result
    assert result.detectable < detected * tau
    # Negative control: an error of 30%, in long runs of 20%.
    if length < 5000:
        assert fails_clearly(tau_check(estimate, rho, 1.3 * tau)(length, 0))
    else:
        assert not two_stage(tau_check(estimate, rho, 1.2 * tau), length, seed=0).passed


def test_ess_of_antithetic_chains_has_an_upper_bound():
    x = autoregressive(-0.95, np.random.default_rng(0).normal(size=(2, 500)))
    assert ess(x) == ess(x, "mean") == pytest.approx(1000 * 3)  # log10(1000) is 3


def test_rhat_finds_different_means_scales_and_trends():
    z = np.random.default_rng(0).normal(size=(4, 1000))
    assert 0.99 < rhat(z) < 1.01
    assert rhat(z + np.array([[0], [0], [0], [2]])) > 1.1
    assert rhat(z + np.linspace(-2, 2, 1000)) > 1.1  # all chains move alike: halves differ
    scaled = z * np.array([[1], [1], [1], [5]])
    assert rhat(scaled) > 1.1
    # Negative control: without folding the scales go unseen.
    assert ratio(scaled) < 1.01


def test_equal_draws():
    x = np.full((3, 11), 0.1)
    for method in ("bulk", "tail", "mean"):
        assert ess(x, method) == 30  # without the middle draw of each chain
    assert np.isnan(rhat(x))
    assert mcse_mean(x) < 1e-16
    apart = np.repeat([[0.0], [1.0]], 20, axis=1)
    assert rhat(apart) > 1e6
    assert ess(apart) < 4  # two chains that stand still are hardly more than two draws


@pytest.mark.parametrize("n_runs", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_independent_chains_are_not_taken_for_unmixed_ones(n_runs):
    """The threshold of the billiard's warning, at the fewest draws that it looks at."""
    x = np.random.default_rng(0).standard_normal((4, UNMIXED_DRAWS, n_runs))
    assert np.all(rhat(x) < UNMIXED)
    x[0] += 4.0  # negative control: one chain elsewhere
    assert np.mean(rhat(x) > UNMIXED) > 0.99
