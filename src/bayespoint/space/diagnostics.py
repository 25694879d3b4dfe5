"""How far draws of Markov chains can be trusted: effective sample size, R-hat, standard error.

As in Vehtari, Gelman, Simpson, Carpenter and Bürkner, *Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC*, Bayesian Analysis 16 (2021),
with the conventions of ArviZ where the paper leaves a choice. Every function takes an array of
shape (n_chains, n_draws, ...) and gives one number for each entry of the trailing axes:

- each chain is split in two halves; of an odd number of draws the middle one is left out;
- fewer than four draws, or a NaN among them, give NaN; so does R-hat of fewer than two chains;
- draws that are all equal, to 1e-15, count as independent; R-hat of equal draws is NaN.

Inside, arrays are (columns, chains, draws): one column for each entry of the trailing axes.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
from scipy.special import ndtri
from scipy.stats import rankdata

from bayespoint._support.types import Array, ArrayLike

# Two draws in each half of a chain, or a half has no variance.
MIN_DRAWS = 4

# The tail is as well known as the less well known of these two quantiles.
TAIL_PROBABILITIES = (0.05, 0.95)

# Offset of the ranks: nearly unbiased for normal scores (Blom 1958).
RANK_OFFSET = 3 / 8

# Draws in a smaller range are all equal: ArviZ's bound, on numbers of order one.
CONSTANT_RANGE = np.finfo(float).resolution

# Numbers worked on at once. Temporary arrays are some ten times as large, about 100 MB.
BLOCK_SIZE = 2**20


def ess(x: ArrayLike, method: str = "bulk") -> Array:
    """Effective sample size: how many independent draws would be equally informative.

    Parameters
    ----------
    x : array-like of shape (n_chains, n_draws, ...)
    method : {"bulk", "tail", "mean"}, default="bulk"
        "bulk": for the location, after rank-normalisation, whatever the tails. "tail": the smaller
        one of those for the 5% and the 95% quantile. "mean": for the mean of x.

    Returns
    -------
    ndarray of shape (...)
        A number if ``x`` has two axes. At most S log10(S) for S draws in all.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.space.diagnostics import ess
    >>> x = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(3500 < ess(x) < 4500)
    True
    >>> bool(ess(np.repeat(x, 10, axis=1)) < 4500)  # each draw ten times says no more
    True
    """
    if not isinstance(method, str) or method not in _ESS_METHODS:
        raise ValueError(f"method must be one of {tuple(_ESS_METHODS)}; got {method!r}.")
    return _over_columns(_ESS_METHODS[method], x)


def rhat(x: ArrayLike) -> Array:
    """Rank-normalised split R-hat: close to 1 if the chains have the same distribution.

    It is the larger of two values: for location, and for scale after folding at the median.

    Parameters
    ----------
    x : array-like of shape (n_chains, n_draws, ...)
        Draws of at least two chains; the result is NaN for one chain.

    Returns
    -------
    ndarray of shape (...)
        A number if ``x`` has two axes.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.space.diagnostics import rhat
    >>> x = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(rhat(x) < 1.01)
    True
    >>> bool(rhat(x + np.arange(4)[:, None]) > 1.1)
    True
    """
    return _over_columns(_rhat, x, min_chains=2)


def mcse_mean(x: ArrayLike) -> Array:
    """Monte Carlo standard error of the mean: sd(x) / sqrt(ess(x, "mean")).

    Parameters
    ----------
    x : array-like of shape (n_chains, n_draws, ...)

    Returns
    -------
    ndarray of shape (...)
        A number if ``x`` has two axes.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.space.diagnostics import mcse_mean
    >>> x = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(0.014 < mcse_mean(x) < 0.018)  # 1 / sqrt(4000) = 0.0158
    True
    """
    return _over_columns(_mcse_mean, x)


# ---------------------------------------------------------------------- columns


def _over_columns(
    statistic: Callable[[Array], Array], draws_of: ArrayLike, min_chains: int = 1
) -> Any:
    """Apply ``statistic``, from (columns, chains, draws) to (columns,), block by block."""
    x = _checked(draws_of)
    n_chains, n_draws, *trailing = x.shape
    columns = x.reshape(n_chains, n_draws, math.prod(trailing))
    result = np.full(columns.shape[2], np.nan)
    if n_chains >= min_chains and n_draws >= MIN_DRAWS:
        usable = np.flatnonzero(~np.isnan(columns).any(axis=(0, 1)))
        n_at_once = max(1, BLOCK_SIZE // (n_chains * n_draws))
        for start in range(0, len(usable), n_at_once):
            block = usable[start : start + n_at_once]
            draws = np.ascontiguousarray(np.moveaxis(columns[:, :, block], 2, 0))
            # Equal, infinite and huge draws give NaN or infinity, as they should, and no warning.
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                result[block] = statistic(draws)
    return result.reshape(trailing)[()]


def _checked(draws: ArrayLike) -> Array:
    x = np.asarray(draws)
    if x.dtype.kind not in "biuf":
        raise ValueError(f"x must be an array of real numbers; got dtype {x.dtype}.")
    if x.ndim < 2:
        raise ValueError(
            f"x must have shape (n_chains, n_draws, ...); got {x.shape}. "
            f"For a single chain give x[None]."
        )
    return x.astype(float, copy=False)


def _split(x: Array) -> Array:
    """Halves of the chains as chains."""
    half = x.shape[2] // 2
    return np.concatenate([x[:, :, :half], x[:, :, -half:]], axis=1)


def _normal_scores(x: Array) -> Array:
    """Replace draws by normal quantiles of their ranks r: Phi^-1((r - 3/8) / (S + 1/4))."""
    flat = x.reshape(len(x), -1)
    rank = rankdata(flat, axis=1)
    return ndtri((rank - RANK_OFFSET) / (flat.shape[1] - 2 * RANK_OFFSET + 1)).reshape(x.shape)


# ---------------------------------------------------------------------- statistics


def _rhat(x: Array) -> Array:
    halves = _split(x)
    folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    # Two values symmetric about the median fold into one, whose R-hat is NaN: fmax skips it.
    return np.fmax(_variance_ratio(_normal_scores(halves)), _variance_ratio(_normal_scores(folded)))


def _variance_ratio(x: Array) -> Array:
    """Root of the estimated variance over the variance within chains: the plain R-hat."""
    n_draws = x.shape[2]
    between = n_draws * x.mean(axis=2).var(axis=1, ddof=1)
    within = x.var(axis=2, ddof=1).mean(axis=1)
    return np.sqrt((between / within + n_draws - 1) / n_draws)


def _mcse_mean(x: Array) -> Array:
    return x.reshape(len(x), -1).std(axis=1, ddof=1) / np.sqrt(_ess_mean(x))


def _ess_bulk(x: Array) -> Array:
    return _ess(_normal_scores(_split(x)))


def _ess_tail(x: Array) -> Array:
    low, high = np.quantile(x, TAIL_PROBABILITIES, axis=(1, 2), keepdims=True)
    return np.minimum(_ess(_split(x <= low)), _ess(_split(x <= high)))


def _ess_mean(x: Array) -> Array:
    return _ess(_split(x))


_ESS_METHODS = {"bulk": _ess_bulk, "tail": _ess_tail, "mean": _ess_mean}


def _ess(x: Array) -> Array:
    """Effective sample size of the mean of (split) chains: S / tau (Section 3.2)."""
    x = x.astype(float, copy=False)
    n_all = x.shape[1] * x.shape[2]
    # Antithetic chains may beat independent draws, but a tau near 0 or below is noise.
    tau = np.maximum(_autocorrelation_time(_autocorrelations(x)), 1 / np.log10(n_all))
    constant = np.ptp(x, axis=(1, 2)) < CONSTANT_RANGE
    return np.where(constant, n_all, n_all / tau)


def _autocorrelations(x: Array) -> Array:
    """Autocorrelations of all chains together, (columns, lags).

    rho_t = 1 - (W - mean of s_t) / var, with s_t the autocovariances of the chains, W the variance
    within them and var the estimated variance of all draws (Section 3.2).
    """
    n_draws = x.shape[2]
    covariance = _autocovariances(x).mean(axis=1)
    within = covariance[:, :1] * n_draws / (n_draws - 1)
    total = covariance[:, :1] + x.mean(axis=2).var(axis=1, ddof=1)[:, None]
    rho = 1 - (within - covariance) / total
    rho[:, 0] = 1
    return rho


def _autocovariances(x: Array) -> Array:
    """Autocovariances of each chain at every lag, with divisor n_draws."""
    n_draws = x.shape[2]
    length = scipy.fft.next_fast_len(2 * n_draws, real=True)  # with zeros, so that no lag wraps
    spectrum = np.fft.rfft(x - x.mean(axis=2, keepdims=True), n=length, axis=2)
    power = spectrum.real**2 + spectrum.imag**2
    return np.fft.irfft(power, n=length, axis=2)[:, :, :n_draws] / n_draws


def _autocorrelation_time(rho: Array) -> Array:
    """Sum 1 + 2 (rho_1 + rho_2 + ...) by Geyer's initial monotone sequence.

    Sums of pairs (rho_2k + rho_2k+1) are positive and fall in k for a reversible chain. The sum
    ends at the first pair that is not positive, and pairs before it may not rise. Of the pair at
    the end the even term counts once, unless it is what makes the pair negative.
    """
    n_pairs = max(1, (rho.shape[1] - 1) // 2)  # lags of one or two products are left out
    even = rho[:, 0 : 2 * n_pairs : 2]
    pair = even + rho[:, 1 : 2 * n_pairs : 2]
    before_end = np.logical_and.accumulate(pair[:, :-1] > 0, axis=1)
    falling = np.minimum.accumulate(pair, axis=1)[:, :-1]
    end = before_end.sum(axis=1)[:, None]
    even_at_end = np.take_along_axis(even, end, axis=1)[:, 0]
    pair_at_end = np.take_along_axis(pair, end, axis=1)[:, 0]
    rest = np.where((even_at_end > 0) | (pair_at_end >= 0), even_at_end, 0.0)
    tau = -1 + 2 * np.sum(falling, axis=1, where=before_end) + rest
    return np.where(np.isnan(pair[:, 0]), np.nan, tau)  # infinite draws
