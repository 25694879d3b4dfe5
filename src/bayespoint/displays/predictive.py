"""Picture of what was said of the rows of a stream before they were learnt."""

from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import stdtr
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.style import (
    BLUE,
    SKY,
    TEXT_SIZE,
    VERMILION,
    axes_of,
    check_lengths,
    label_axes,
)
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.confidence import unwrapped
from bayespoint.space.given import numbers

# Calls are joined until they have so many rows, and until there are so many of them at most: means
# of fewer rows are far from normal, and each more is a test more.
LEAST_ROWS, MOST_CALLS = 30, 500

# Calls after a break, from so many to so many, that are compared with the calls before it: these or
# as many as there are, at least so many. A loss that had fallen not long ago needs the few.
AFTER, BEFORE, LEAST_BEFORE = (3, 50), (20, 50), 10

# A stream whose rule never changes has a mark with at most this probability.
FALSE_ALARM = 0.01

# Squares of losses that do not differ, as a share of all, and a loss: no break is seen in rounding.
ROUNDING, TINY = 1e-12, 1e-9

# Rows that the smooth line averages over, as a share of all.
WINDOW = 0.08

LABEL = "Log-loss before learning\n(nats per row)"


class PredictiveDisplay:
    """Log-loss of the rows of a stream before they were learnt, and where it suddenly rises.

    A thin line shows the log-loss of each call of `partial_fit`, a thick one its centred moving
    mean over 8 % of the rows, which starts again at each break. A dashed line marks a break: the
    mean of 3 to 50 calls, with or without the largest of them, is significantly above that of the
    20 or 50 calls before them (or of all calls before them, if these are at least 10). The test is
    Student's t of the cube roots of the losses, which are closer to normal, weighted by rows, at a
    level of 1 % divided by the number of comparisons. So at most about one in a hundred streams
    that never change has a mark. Calls with few rows are first joined, to at least 30 rows and at
    most 500 calls.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    rows : array-like of shape (n_calls,)
        Number of rows of each call.
    log_predictive : array-like of shape (n_calls,)
        Mean log-probability of their labels before they were learnt, or NaN, as in
        ``log_predictive_`` of :class:`BayesPointClassifier`.

    Attributes
    ----------
    breaks_ : ndarray of int
        Number of rows seen before each break.
    line_, smooth_ : matplotlib Line2D
        Loss of each call, at the last of its rows; the moving mean.
    marks_ : list of matplotlib Line2D
        One per break.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.displays import PredictiveDisplay
    >>> X = np.random.default_rng(0).normal(size=(900, 2))
    >>> y = np.where(np.arange(900) < 600, X[:, 0] > 0, X[:, 0] < 0)
    >>> clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, random_state=0)
    >>> for first in range(0, 900, 30):
    ...     clf = clf.partial_fit(X[first : first + 30], y[first : first + 30])
    >>> PredictiveDisplay.from_estimator(clf).breaks_
    array([600])
    """

    def __init__(self, *, rows: ArrayLike, log_predictive: ArrayLike) -> None:
        self.rows = numbers("rows", rows, finite=False)
        self.log_predictive = numbers("log_predictive", log_predictive, finite=False)
        check_lengths(self, ("rows", "log_predictive"), "call")
        if not np.all(np.isfinite(self.rows) & (self.rows >= 0)):
            raise ValueError(f"rows must be finite and >= 0; got {self.rows}.")
        if np.any(self.log_predictive > 0) or np.any(np.isinf(self.log_predictive)):
            raise ValueError(
                f"log_predictive must be finite and <= 0, or NaN; got {self.log_predictive}."
            )
        self.breaks_ = breaks_of(_joined(self._calls))

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the lines on `ax` (default: a new figure).

        `kwargs` go to matplotlib's ``plot`` for the thick line.
        """
        ax = axes_of(self, ax, (8.0, 4.5))
        calls = self._calls
        thin = {"color": SKY, "linewidth": 1, "marker": ".", "markersize": 4, "label": "each call"}
        (self.line_,) = ax.plot(calls.end, calls.loss, zorder=2, **thin)
        thick = {"color": BLUE, "linewidth": 2.5, "label": "moving mean, centred", "zorder": 3}
        (self.smooth_,) = ax.plot(*_smooth(calls, self.breaks_), **(thick | kwargs))
        dashed = {"color": VERMILION, "linewidth": 2, "linestyle": "--", "zorder": 4}
        self.marks_ = [
            ax.axvline(row, label="" if k else "break", **dashed)
            for k, row in enumerate(self.breaks_)
        ]
        label_axes(ax, "Rows seen", LABEL)
        ax.set_xlim(0, max(np.sum(self.rows), 1))
        ax.set_ylim(bottom=0)
        ax.tick_params(labelsize=TEXT_SIZE)
        ax.xaxis.set_major_formatter(_thousands)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=TEXT_SIZE)
        return self

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw how well a classifier predicted the rows of `partial_fit`.

        Parameters
        ----------
        estimator : BayesPointClassifier
            Classifier trained by `partial_fit`, or a pipeline that ends with one.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        PredictiveDisplay
            With the lines drawn.
        """
        check_is_fitted(estimator)
        clf = unwrapped(estimator)
        if not isinstance(clf, BayesPointClassifier):
            raise ValueError(f"estimator must be a BayesPointClassifier; got {type(clf).__name__}.")
        losses, rows = clf.log_predictive_, clf.stream_.history[:, 0]
        if not np.isnan(losses[0]):  # after rows that fit had learnt
            before = max(clf.stream_.seen - np.sum(rows), 0)
            losses, rows = np.append(np.nan, losses), np.append(before, rows)
        return cls(rows=rows, log_predictive=losses).plot(ax, **kwargs)

    @property
    def _calls(self) -> "Calls":
        """Calls that were predicted."""
        there = ~np.isnan(self.log_predictive) & (self.rows > 0)
        end = np.cumsum(self.rows)
        return Calls(end[there], self.rows[there], -self.log_predictive[there])


class Calls(NamedTuple):
    """Rows seen after each call, rows of it, and their mean loss."""

    end: Array
    rows: Array
    loss: Array


def _joined(calls: Calls) -> Calls:
    """Join calls until each has rows enough; what is left over at the end joins the last."""
    total = np.cumsum(calls.rows)
    if not len(total) or total[-1] < LEAST_ROWS:
        return Calls(*(part[:0] for part in calls))
    least, last, had = max(LEAST_ROWS, total[-1] / MOST_CALLS), list[int](), 0.0
    for k, n in enumerate(total):
        if n - had >= least:
            last.append(k)
            had = n
    last[-1] = len(total) - 1
    first = np.append(0, np.array(last[:-1], dtype=int) + 1)
    rows = np.add.reduceat(calls.rows, first)
    return Calls(calls.end[last], rows, np.add.reduceat(calls.rows * calls.loss, first) / rows)


def breaks_of(calls: Calls) -> Array:
    """Rows seen when losses rose by more than chance: see `PredictiveDisplay`.

    Parameters
    ----------
    calls : Calls

    Returns
    -------
    ndarray of int
    """
    n_tests = max(len(calls.loss), 1) * len(BEFORE) * (AFTER[1] - AFTER[0] + 1) * 2
    found, parts = list[int](), [(0, len(calls.loss))]
    while parts:
        first, end = parts.pop()
        place, tail = _clearest(calls.rows[first:end], np.cbrt(calls.loss[first:end]))
        if n_tests * tail < FALSE_ALARM:
            found.append(first + place)
            parts += [(first, first + place), (first + place, end)]
    begin = calls.end - calls.rows
    return np.sort(begin[found]).astype(np.int64)


def _clearest(rows: Array, x: Array) -> tuple[int, float]:
    """Where values rise most clearly, and the probability that chance has it so."""
    best = 0, 1.0
    n, s, q = (np.append(0.0, np.cumsum(part)) for part in (rows, rows * x, rows * x**2))
    # A model that adapts is far off in one call and less so in the next ones: that call would
    # widen the spread beyond any rise, hence the means without the largest call as well.
    for most, width, trimmed in product(BEFORE, range(AFTER[0], AFTER[1] + 1), (False, True)):
        at = np.arange(LEAST_BEFORE, len(x) - width + 1)
        if not len(at):
            continue
        before, after = np.maximum(at - most, 0), at + width
        largest = at + np.argmax(sliding_window_view(x, width)[at], axis=1)
        cut, top = rows[largest] * trimmed, x[largest]
        n_old, n_new = n[at] - n[before], n[after] - n[at] - cut
        old, new = (s[at] - s[before]) / n_old, (s[after] - s[at] - cut * top) / n_new
        spread = q[after] - q[before] - cut * top**2 - n_old * old**2 - n_new * new**2
        degrees = after - before - 2 - trimmed
        spread = np.maximum(spread, ROUNDING * q[-1])
        error = np.sqrt(spread / degrees * (1 / n_old + 1 / n_new)) + TINY
        tail = stdtr(degrees, -(new - old) / error)
        k = int(np.argmin(tail))
        if tail[k] < best[1]:
            best = int(at[k]), float(tail[k])
    return best


def _smooth(calls: Calls, breaks: Array) -> tuple[Array, Array]:
    """Rows seen and moving means of losses by rows, with a gap at each break."""
    half = WINDOW / 2 * np.sum(calls.rows)
    part = np.searchsorted(breaks, calls.end, side="left")
    total = np.append(0.0, np.cumsum(calls.rows))
    summed = np.append(0.0, np.cumsum(calls.rows * calls.loss))
    first = np.maximum(
        np.searchsorted(calls.end, calls.end - half), np.searchsorted(part, part, side="left")
    )
    last = np.minimum(
        np.searchsorted(calls.end, calls.end + half, side="right"),
        np.searchsorted(part, part, side="right"),
    )
    means = (summed[last] - summed[first]) / (total[last] - total[first])
    gap = np.flatnonzero(np.diff(part)) + 1
    return np.insert(calls.end, gap, calls.end[gap]), np.insert(means, gap, np.nan)


def _thousands(value: float, _position: int) -> str:
    return f"{value:,.0f}"
