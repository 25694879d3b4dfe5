import numpy as np
import pytest
from helpers import thresholds
from helpers.thresholds import Comparison, compare_means, t_bound, two_stage
from scipy import stats

N_CHAINS = 16


def normal_means(length, seed, shift=0.0, n_comparisons=4):
    """Compare means of chains of `length` normal draws, wrong by `shift`, with zero."""
    draws = np.random.default_rng(seed).standard_normal((N_CHAINS, n_comparisons, length))
    return compare_means(draws.mean(axis=2) + shift, np.zeros(n_comparisons))


@pytest.mark.parametrize("n_comparisons", [1, 7, 1000])
def test_bound_splits_the_rate_over_comparisons(n_comparisons):
    tail = stats.t.sf(t_bound(N_CHAINS, n_comparisons), N_CHAINS - 1)
    assert 2 * n_comparisons * tail == pytest.approx(1e-6, rel=1e-6)


def test_bound_needs_two_chains():
    with pytest.raises(ValueError, match="n_chains is 1"):
        t_bound(1)


@pytest.mark.release
def test_false_alarms_come_at_the_stated_rate(monkeypatch):
    """Few chains, a rate that can be counted; the control, normal quantiles, gives 3.7 times it."""
    rate, n_tests = 0.01, 20_000
    monkeypatch.setattr(thresholds, "FALSE_ALARM_RATE", rate)
    means = np.random.default_rng(0).standard_normal((n_tests, 8, 1))
    alarms = sum(not compare_means(chains, [0.0]).passed for chains in means)
    low, high = stats.binom.interval(1 - 1e-6, n_tests, rate)
    assert low <= alarms <= high

    t = np.sqrt(8) * means.mean(axis=1) / means.std(axis=1, ddof=1)
    assert np.sum(np.abs(t) > stats.norm.isf(rate / 2)) > high


def test_right_means_pass():
    result = two_stage(normal_means, length=100, seed=0)
    assert result.passed
    assert result.worst < result.bound


def test_wrong_means_fail_both_stages():
    detectable = normal_means(100, 0).detectable
    result = two_stage(
        lambda length, seed: normal_means(length, seed, shift=2 * detectable), length=100, seed=0
    )
    assert not result.passed
    assert result.worst > result.bound


def test_one_wrong_mean_among_many_fails():
    means = np.random.default_rng(0).standard_normal((N_CHAINS, 50))
    expected = np.zeros(50)
    assert compare_means(means, expected).passed
    expected[17] = 10.0
    assert not compare_means(means, expected).passed


def test_nan_and_chains_that_all_agree_on_a_wrong_value_fail():
    means = np.random.default_rng(0).standard_normal((N_CHAINS, 2))
    means[3, 1] = np.nan
    assert not compare_means(means, [0.0, 0.0]).passed
    assert compare_means(np.ones((N_CHAINS, 1)), [1.0]).passed
    assert not compare_means(np.ones((N_CHAINS, 1)), [1.5]).passed


@pytest.mark.parametrize("outcomes", [[True], [False, True], [False, False]])
def test_second_stage_runs_on_failure_only_and_decides(outcomes):
    calls = []

    def check(length, seed):
        calls.append((length, seed))
        return Comparison(outcomes[len(calls) - 1], 0.0, 1.0, 1.0)

    assert two_stage(check, length=100, seed=0).passed is outcomes[-1]
    assert [length for length, _ in calls] == [100, 1000][: len(outcomes)]
    assert len({seed for _, seed in calls}) == len(outcomes)
