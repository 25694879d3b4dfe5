"""The one rule for statistical thresholds.

A test raises a false alarm with probability 1e-6, split evenly over its comparisons. Means over
independent chains are compared with t quantiles, so the number of chains is all that counts, not an
estimated sample size. When the first run fails, one run of ten times the length with a fresh seed
decides; each stage keeps the rate, so the second can only lower it. Nothing here can be widened by
a test. Take 16 chains or more: at the rate of 1e-6 the bound is 6.1 for 32 of them, 7.9 for 16, 16
for 8 and 130 for 4.

    def check(length, seed):
        means = ...  # (n_chains, n_comparisons), each chain of `length` steps
        return compare_means(means, exact)

    result = two_stage(check, length=1_000, seed=0)
    assert result.passed, result

`result.detectable` is the smallest error that the test would detect. A negative control asserts
`not two_stage(...).passed` or, in a tenth of the time, `fails_clearly(check(length, seed))`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

FALSE_ALARM_RATE = 1e-6
SECOND_STAGE_FACTOR = 10


class Comparison(NamedTuple):
    """Outcome of one stage."""

    passed: bool
    worst: float  # largest |t| over the comparisons
    bound: float  # largest |t| allowed
    detectable: float  # bound × largest standard error: an error this large fails half the time


def t_bound(n_chains, n_comparisons=1):
    """Two-sided bound on |t| that holds for all comparisons at the false-alarm rate.

    >>> round(t_bound(32), 2)
    6.07
    >>> round(t_bound(32, n_comparisons=100), 2)
    7.74
    """
    if n_chains < 2:
        raise ValueError(f"n_chains is {n_chains}; a standard error takes at least 2")
    return float(stats.t.isf(FALSE_ALARM_RATE / (2 * n_comparisons), n_chains - 1))


def compare_means(chain_means, expected):
    """Compare means over independent chains, one row a chain, with their exact values.

    For two samplers, pass the differences of paired chains and 0. A NaN fails.
    """
    chain_means = np.asarray(chain_means, dtype=float)
    n_chains = len(chain_means)
    chain_means = chain_means.reshape(n_chains, -1)
    bound = t_bound(n_chains, chain_means.shape[1])
    error = np.abs(chain_means.mean(axis=0) - np.ravel(expected))
    stderr = chain_means.std(axis=0, ddof=1) / np.sqrt(n_chains)
    # Not error / stderr <= bound: where the chains all agree the error has to be zero.
    passed = bool(np.all(error <= bound * stderr))
    t = np.divide(error, stderr, out=np.where(error > 0, np.inf, 0.0), where=stderr > 0)
    return Comparison(passed, float(t.max()), bound, float(bound * stderr.max()))


def two_stage(check: Callable[[int, int], Comparison], length: int, seed: int) -> Comparison:
    """Run ``check(length, seed)``; if it fails, one longer run with a fresh seed decides."""
    first_seed, second_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
    first = check(length, first_seed)
    if first.passed:
        return first
    return check(SECOND_STAGE_FACTOR * length, second_seed)


def fails_clearly(result: Comparison) -> bool:
    """Whether one run of a negative control settles it: a longer run would fail as well.

    At twice the bound t is about six times the bound in a run of ten times the length.

    >>> fails_clearly(Comparison(passed=False, worst=13.0, bound=6.0, detectable=0.1))
    True
    >>> fails_clearly(Comparison(passed=False, worst=7.0, bound=6.0, detectable=0.1))
    False
    """
    return not result.passed and result.worst > 2 * result.bound
