"""Effective sample size, R-hat and standard error: any shape and type, NaN, what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bayespoint.space import diagnostics
from bayespoint.space.diagnostics import ess, mcse_mean, rhat

STATISTICS = {
    "bulk": ess,
    "tail": lambda x: ess(x, "tail"),
    "mean": lambda x: ess(x, "mean"),
    "rhat": rhat,
    "mcse": mcse_mean,
}
every_statistic = pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)


@every_statistic
def test_each_column_is_as_if_alone(statistic):
    x = np.random.default_rng(0).normal(size=(3, 41, 8)) * np.arange(8)  # the first are equal
    x[:, :, 1] = np.round(x[:, :, 1])
    x[0, :, 2] += 3.0
    together = statistic(x)
    assert together.shape == (8,)
    assert_array_equal(together, [statistic(x[:, :, j]) for j in range(8)])
    cube = np.asfortranarray(x[:, :, :6].reshape(3, 41, 2, 3))
    assert_array_equal(statistic(cube), together[:6].reshape(2, 3))
    assert np.ndim(statistic(x[:, :, 0])) == 0
    assert statistic(x[:, :, :0]).shape == (0,)
    assert statistic(x[:, :0]).shape == (8,)


@every_statistic
def test_blocks_do_not_change_a_bit(statistic, monkeypatch):
    x = np.random.default_rng(0).normal(size=(2, 30, 10))
    x[1, 2, 3] = np.nan
    expected = statistic(x)
    for size in (1, 3 * 60, 4 * 60 + 1):
        monkeypatch.setattr(diagnostics, "BLOCK_SIZE", size)
        assert_array_equal(statistic(x), expected)


@every_statistic
def test_nan_gives_nan_in_its_column_only(statistic):
    x = np.random.default_rng(0).normal(size=(2, 30, 3))
    clean = statistic(x)
    x[1, 7, 1] = np.nan
    before = x.copy()
    assert_array_equal(statistic(x), [clean[0], np.nan, clean[2]])
    assert_array_equal(x, before)
    assert np.isnan(statistic(np.full((2, 30), np.nan)))


@every_statistic
def test_too_few_draws_give_nan(statistic):
    x = np.random.default_rng(0).normal(size=(4, 4))
    assert np.isfinite(statistic(x))
    for n_draws in range(4):
        assert np.isnan(statistic(x[:, :n_draws]))
    assert np.isnan(statistic(x[:0]))


def test_rhat_takes_two_chains_and_the_others_one():
    x = np.random.default_rng(0).normal(size=(1, 100))
    assert np.isnan(rhat(x))
    assert all(np.isfinite(STATISTICS[name](x)) for name in STATISTICS if name != "rhat")


def test_infinite_and_huge_draws_have_ranks_but_no_mean():
    x = np.random.default_rng(0).normal(size=(2, 100))
    for value in (np.inf, -np.inf, 1e200):
        x[0, 3] = value
        ranked = np.clip(x, -10, 10)
        assert ess(x) == ess(ranked)
        assert ess(x, "tail") == ess(ranked, "tail")
        assert rhat(x) == rhat(ranked)
        assert np.isnan(ess(x, "mean"))
        assert np.isnan(mcse_mean(x))


@every_statistic
def test_numbers_of_any_type(statistic):
    x = np.random.default_rng(0).integers(2, size=(2, 50))
    expected = statistic(x.astype(float))
    assert statistic(x.tolist()) == expected
    for dtype in (bool, np.int8, np.uint64, np.float16, np.float32):
        assert statistic(x.astype(dtype)) == expected, dtype


@every_statistic
def test_wrong_input_is_named(statistic):
    with pytest.raises(
        ValueError, match=r"x must have shape \(n_chains, n_draws, \.\.\.\).*\(9,\)"
    ):
        statistic(np.zeros(9))
    with pytest.raises(ValueError, match=r"x must have shape .* got \(\)"):
        statistic(1.0)
    for wrong in (np.zeros((2, 9), complex), np.full((2, 9), "a"), np.full((2, 9), None)):
        with pytest.raises(ValueError, match="x must be an array of real numbers; got dtype"):
            statistic(wrong)


def test_unknown_method_is_named():
    for method in ("median", None, ["bulk"]):
        with pytest.raises(ValueError, match=r"must be one of \('bulk', 'tail', 'mean'\); got"):
            ess(np.zeros((2, 9)), method)
