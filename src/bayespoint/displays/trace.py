"""Draws of scalar summaries, chain by chain: their course, and histograms of their ranks."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import hypergeom

from bayespoint._support.types import Array
from bayespoint.displays.style import COLOURS, LABEL_SIZE, TEXT_SIZE
from bayespoint.space import diagnostics
from bayespoint.space.posterior import Posterior

# Bars of a rank histogram: at most so many, each with at least so many draws expected in it.
MAX_BARS = 20
LEAST_EXPECTED = 20

# All bars of a picture lie in the band with this probability when the chains have one distribution
# and the draws are independent.
BAND = 0.95

# Ranks of dependent draws scatter too much for the band, so that only every k-th draw is ranked,
# k = draws of a chain over effective draws; but at least so many of a chain are.
LEAST_RANKED = 100

# Draws that a smooth line averages over, as a share of a chain.
WINDOW = 0.08

# Each chain has a lane of height one; what is drawn fills a part, the lanes are a gap apart.
FILLED = 0.84
GAP = 0.16

# More lanes than these are drawn lower.
FEW = 4
LANE_INCHES = (0.9, 0.6)


class Summary(NamedTuple):
    """A number of each draw, and what it is."""

    label: str
    values: Array  # (n_chains, n_draws)


def summaries(post: Posterior, summary: Any = None) -> list[Summary]:
    """Scalar summaries of draws.

    Parameters
    ----------
    post : Posterior
    summary : {"errors", "margin"} or int or list of these, optional
        As for `PosteriorDisplay`.
    """
    if summary is None:
        noisy = post.space is not None and np.any(np.asarray(post.label_noise) > 0)
        ess = None if noisy else post.ess()
        if ess is not None and not np.all(np.isnan(ess)):
            lowest = _one(post, int(np.nanargmin(ess)))
            return [lowest._replace(label=f"{lowest.label}\n(lowest ESS)")]
        summary = "errors" if noisy else 0
    several = isinstance(summary, list | tuple)
    if several and not summary:
        raise ValueError("summary is an empty list; give 'errors', 'margin' or a point's number.")
    return [_one(post, name) for name in (summary if several else [summary])]


def _one(post: Posterior, name: Any) -> Summary:
    n_points = post.outputs.shape[1]
    outputs = post.outputs.reshape(post.n_chains, -1, n_points)
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if not 0 <= name < n_points:
            raise ValueError(
                f"summary must be a number of a training point, from 0 to {n_points - 1}; "
                f"got {name}."
            )
        return Summary(f"Output at point {post.points[name]}", outputs[:, :, name])
    if not isinstance(name, str) or name not in ("errors", "margin"):
        raise ValueError(
            f"summary must be 'errors', 'margin', the number of a training point or a list of "
            f"these; got {name!r}."
        )
    if post.space is None:
        raise ValueError(f"summary={name!r} needs labels, and this posterior has no version space.")
    margins = post.space.y * outputs
    if name == "errors":
        return Summary("Training errors", np.count_nonzero(margins < 0, axis=2))
    return Summary("Smallest margin", margins.min(axis=2))


def lanes(values: Array) -> tuple[list[str], Array]:
    """Names and draws of what is compared: the chains, or the halves of a single one."""
    if len(values) > 1 or values.shape[1] < 2:
        return [f"chain {number}" for number in range(1, len(values) + 1)], values
    half = values.shape[1] // 2
    return ["first half", "last half"], np.vstack([values[:, :half], values[:, -half:]])


def thinning(values: Array) -> int:
    """After how many draws a chain is as good as independent."""
    n_draws = values.shape[1]
    ess = np.mean([diagnostics.ess(chain[None]) for chain in values])
    if not ess < n_draws:  # NaN for very few draws
        return 1
    return max(1, min(round(n_draws / ess), n_draws // LEAST_RANKED))


def inches(n_lanes: int) -> float:
    """Height of a pair of panels."""
    return 1.6 + LANE_INCHES[n_lanes > FEW] * n_lanes


def rank_histograms(values: Array) -> tuple[Array, Array]:
    """Ranks of draws among the draws of all chains, counted in bars of equal width.

    Parameters
    ----------
    values : ndarray of shape (n_chains, n_draws)

    Returns
    -------
    counts : ndarray of shape (n_chains, n_bars)
    band : ndarray of shape (2,)
        Least and greatest count to expect if chains have one distribution.
    """
    # Equal draws, of a number of errors for example, are ordered by lot: ranks are uniform still.
    lot = np.random.default_rng(0).random(values.size)
    rank = np.empty(values.size, dtype=np.int64)
    rank[np.lexsort((lot, values.ravel()))] = np.arange(values.size)
    n_bars = int(np.clip(values.shape[1] // LEAST_EXPECTED, 1, MAX_BARS))
    bar = (rank * n_bars // values.size).reshape(values.shape)
    counts = np.array([np.bincount(row, minlength=n_bars) for row in bar])
    tail = (1 - BAND) / 2 / counts.size
    expected = hypergeom(values.size, -(-values.size // n_bars), values.shape[1])
    return counts, np.array([expected.ppf(tail), expected.isf(tail)])


def draw_trace(axes: Any, label: str, values: Array) -> tuple[list[Any], list[Any]]:
    """Draw one summary on a pair of axes; return lines and bars, one of each a lane."""
    left, right = axes
    names, rows = lanes(values)
    lines = _draw_course(left, rows)
    bars = _draw_ranks(right, rows)
    left.set_title(diagnosis(values), fontsize=LABEL_SIZE)
    left.set_ylabel(label, fontsize=LABEL_SIZE)
    right.set_yticks(FILLED / 2 - np.arange(len(rows)), names)
    for ax in axes:
        ax.tick_params(labelsize=TEXT_SIZE)
        ax.set_ylim(1 - len(rows) - GAP / 2, 1 - GAP / 2)
        for k in range(1, len(rows)):
            ax.axhline(1 - GAP / 2 - k, color="0.8", linewidth=0.8)
    for k, tick in enumerate(right.get_yticklabels()):
        tick.set(color=_colour(k), fontweight="bold")
    return lines, bars


def diagnosis(values: Array) -> str:
    """R-hat and effective sample size, in words."""
    rhat, ess = diagnostics.rhat(values), diagnostics.ess(values)
    words = [] if np.isnan(rhat) else [f"R-hat {rhat:.2f}"]
    words.append(f"{values.size} draws" if np.isnan(ess) else f"ESS {ess:.0f} of {values.size}")
    return ", ".join(words)


def _draw_course(ax: Any, rows: Array) -> list[Any]:
    """Draw each chain in a lane of height one below the last, with its moving mean."""
    from matplotlib.ticker import MaxNLocator

    low, n_draws = rows.min(), rows.shape[1]
    span = np.ptp(rows) or 1

    def height(value: Any) -> Any:
        return FILLED * (value - low) / span

    draw = np.arange(1, n_draws + 1)
    window = np.full(max(1, round(WINDOW * n_draws)), 1.0)
    window /= window.size
    lines = []
    for k, chain in enumerate(rows):
        ax.axhline(height(rows.mean()) - k, color="0.4", linewidth=1, linestyle="--", zorder=1)
        lines += ax.plot(draw, height(chain) - k, color=_colour(k), linewidth=0.9, alpha=0.55)
        means = [np.convolve(numbers, window, "valid") for numbers in (draw, height(chain) - k)]
        ax.plot(*means, color=_colour(k), linewidth=2.5)
    whole = rows.dtype.kind in "iu"
    ticks = MaxNLocator(3 if len(rows) <= FEW else 1, integer=whole).tick_values(low, low + span)
    ticks = [tick for tick in ticks if low <= tick <= low + span]
    places = [height(tick) - k for k in range(len(rows)) for tick in ticks]
    ax.set_yticks(places, [f"{tick:.6g}" for tick in ticks] * len(rows))
    ax.set_xlim(1, max(2, n_draws))
    ax.set_xlabel("Draw", fontsize=LABEL_SIZE)
    return lines


def _draw_ranks(ax: Any, rows: Array) -> list[Any]:
    every = thinning(rows)
    counts, band = rank_histograms(rows[:, ::every])
    n_ranks, n_bars = counts.sum(), counts.shape[1]
    unit = FILLED / max(counts.max(), band[1])
    width = n_ranks / n_bars
    bars = []
    for k, row in enumerate(counts):
        low, high = band * unit - k
        ax.fill_between([0, n_ranks], low, high, color="0.85", linewidth=0, zorder=1)
        bars.append(ax.bar(
            width * np.arange(n_bars), unit * row, 0.85 * width, -k, align="edge",
            color=_colour(k), alpha=0.75, zorder=2,
        ))  # fmt: skip
        expected = unit * counts.mean() - k
        ax.axhline(expected, color="0.4", linewidth=1, linestyle="--", zorder=3)
    ax.set_xlim(0, n_ranks)
    ranked = "all draws" if every == 1 else f"one in {every} draws"
    ax.set_xlabel(f"Rank among {ranked}", fontsize=LABEL_SIZE)
    ax.set_title(f"Ranks (grey: {BAND:.0%} band)", fontsize=LABEL_SIZE)
    return bars


def _colour(k: int) -> str:
    return COLOURS[k % len(COLOURS)]
