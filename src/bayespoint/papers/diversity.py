"""Picture of how diverse draws are, and how often they err, by the rate of label noise."""

from typing import Any, Self

import numpy as np

from bayespoint._support.checks import check_positive_integer, check_seed, entropy_of
from bayespoint._support.types import ArrayLike, Seed
from bayespoint.displays.style import BLUE, LABEL_SIZE, TEXT_SIZE, VERMILION, check_lengths, pyplot
from bayespoint.inference import sample_billiard
from bayespoint.space.posterior import Posterior, dense
from bayespoint.space.version_space import EmptyVersionSpaceError, VersionSpace, check_space

RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)

# Chains, over which the error of the mean angle is computed.
CHAINS = 8

# Width of the linear part of the axis, from 0 to the smallest rate above, in decades.
LINEAR_DECADES = 0.5

# Room above and below the curves, as a share of the highest value, and beside them, as a factor.
ROOM = 0.05
BESIDE = 1.2

ANGLE: dict[str, Any] = {"color": BLUE, "marker": "o", "linestyle": "-"}
ERRORS: dict[str, Any] = {"color": VERMILION, "marker": "s", "linestyle": "--"}


class DiversityDisplay:
    """Angle between two draws, and training errors of a draw, against the rate of label noise.

    Make one with :meth:`from_space`. The more labels may be wrong, the more diverse are the
    classifiers that are probable (KGS 5).

    Parameters
    ----------
    rates : array-like of shape (n,)
        Rates of label noise that the posteriors assume.
    angle, angle_error : array-like of shape (n,)
        Mean angle between two draws and its standard error, in degrees.
    errors : array-like of shape (n,)
        Mean number of training errors of a draw.

    Attributes
    ----------
    angle_ : matplotlib ErrorbarContainer
    errors_ : matplotlib Line2D
    ax_ : ndarray of two matplotlib Axes
        Of the angle and of the errors.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> from bayespoint.papers import DiversityDisplay
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1) / 2)
    >>> space = VersionSpace(K, np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    >>> display = DiversityDisplay.from_space(space, [0, 0.1, 0.4], n_draws=80, random_state=0)
    >>> bool(np.all(np.diff(display.angle) > 0))
    True
    """

    def __init__(
        self, *, rates: ArrayLike, angle: ArrayLike, angle_error: ArrayLike, errors: ArrayLike
    ) -> None:
        self.rates = np.asarray(rates, dtype=float)
        self.angle = np.asarray(angle, dtype=float)
        self.angle_error = np.asarray(angle_error, dtype=float)
        self.errors = np.asarray(errors, dtype=float)
        check_lengths(self, ("rates", "angle", "angle_error", "errors"), "rate")

    def plot(self, ax: Any = None) -> Self:
        """Draw on two axes `ax` (default: two panels of a new figure)."""
        if ax is None:
            plt = pyplot("DiversityDisplay")
            options = {"sharex": True, "layout": "constrained"}
            ax = plt.subplots(2, 1, figsize=(7.4, 6.4), **options)[1]
        elif np.size(ax) != 2:
            raise ValueError(f"ax must be two axes, of angle and errors; got {np.size(ax)}.")
        upper, lower = self.ax_ = np.ravel(ax)
        style = {"linewidth": 2.5, "markersize": 8}
        self.angle_ = upper.errorbar(
            self.rates, self.angle, yerr=self.angle_error, capsize=5, **ANGLE, **style
        )
        (self.errors_,) = lower.plot(self.rates, self.errors, **ERRORS, **style)
        upper.set_ylabel("Mean angle between\ntwo draws (degrees)", fontsize=LABEL_SIZE)
        lower.set_ylabel("Training errors\n(mean of a draw)", fontsize=LABEL_SIZE)
        lower.set_xlabel("Assumed label noise q (%)", fontsize=LABEL_SIZE)
        for one, most in ((upper, self.angle + self.angle_error), (lower, self.errors)):
            top = np.max(most) or 1.0
            one.set_ylim(-ROOM * top, (1 + ROOM) * top)
            self._scale(one)
            one.tick_params(labelsize=TEXT_SIZE)
            one.grid(alpha=0.3)
        self.figure_ = upper.figure
        return self

    def _scale(self, ax: Any) -> None:
        """Logarithmic, with 0 where there is one; ticks at the rates."""
        above = self.rates[self.rates > 0]
        if len(above) == len(self.rates):
            ax.set_xscale("log")
            ax.set_xlim(above.min() / BESIDE, above.max() * BESIDE)
        elif len(above):
            ax.set_xscale("symlog", linthresh=above.min(), linscale=LINEAR_DECADES)
            ax.set_xlim((1 - BESIDE) * above.min(), above.max() * BESIDE)
        ax.set_xticks(self.rates, [f"{100 * rate:g}" for rate in self.rates])
        ax.set_xticks([], minor=True)

    @classmethod
    def from_space(
        cls, space: VersionSpace, rates: ArrayLike = RATES, *, n_draws: int = 400,
        random_state: Seed = None, ax: Any = None,
    ) -> Self:  # fmt: skip
        """Draw from the posterior with the billiard, for one rate after the other.

        Parameters
        ----------
        space : VersionSpace
        rates : array-like of float, default=(0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
            Rates of label noise, in [0, 0.5). A rate of 0 is left out if version space is empty.
        n_draws : int, default=400
            Draws for each rate, of eight chains together.
        random_state : int, RandomState instance or None, default=None
        ax : array-like of two matplotlib Axes, default=None
            As for :meth:`plot`.

        Returns
        -------
        DiversityDisplay
            With the curves drawn.
        """
        check_space(space)
        check_positive_integer("n_draws", n_draws)
        check_seed(random_state)
        entropy = entropy_of(random_state)
        found = {}
        for rate in _checked_rates(rates):
            try:
                post = sample_billiard(
                    space, n_draws, label_noise=rate, n_chains=CHAINS, random_state=entropy
                )
            except EmptyVersionSpaceError as error:
                empty = error
                continue
            found[rate] = (*mean_angle(post), np.mean(post.info["errors"]))
        if not found:
            raise empty
        angle, angle_error, errors = np.transpose(list(found.values()))
        return cls(
            rates=list(found), angle=angle, angle_error=angle_error, errors=errors
        ).plot(ax)  # fmt: skip


def mean_angle(post: Posterior) -> tuple[float, float]:
    """Mean angle between draws of different chains, and its standard error, in degrees.

    The error is that of the jackknife which leaves out one chain at a time.
    """
    cosine = dense(post.coef) @ post.outputs.T
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    n = post.n_chains
    means = angle.reshape(n, len(angle) // n, n, -1).mean(axis=(1, 3))
    first, second = np.triu_indices(n, 1)
    means = means[first, second]
    without = [means[(first != chain) & (second != chain)].mean() for chain in range(n)]
    error = np.sqrt((n - 1) * np.var(without))
    return float(means.mean()), float(error)


def _checked_rates(rates: ArrayLike) -> list[float]:
    rates = np.asarray(rates)
    good = rates.dtype.kind in "iuf" and rates.ndim == 1 and rates.size
    if not good or not np.all((rates >= 0) & (rates < 0.5)):
        raise ValueError(f"rates must hold numbers in [0, 0.5); got {rates.tolist()}.")
    return np.unique(rates).tolist()
