"""Picture of the log posterior over longitude and latitude, in three dimensions (KGS figure 1)."""

from typing import Any, Self

import numpy as np

from bayespoint._support.checks import check_label_noise, check_number, check_positive_integer
from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.geometry import unit
from bayespoint.displays.style import (
    LABEL_SIZE,
    ORANGE,
    TEXT_SIZE,
    VERMILION,
    axes_of,
    label_axes,
)
from bayespoint.space.decisions import label_odds
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import VersionSpace, check_space

# From light to dark with the posterior, in one hue that all eyes order alike.
COLOUR_MAP = "Blues"

# What no classifier may be.
IMPOSSIBLE: dict[str, Any] = {"facecolor": "white", "hatch": "///", "edgecolor": "0.7"}

# Letters' heights between the axes and the legend, where ticks and label are.
BELOW_LABELS = 3.7

# Sums of logarithms that differ by less are of equal errors.
EQUAL = 1e-9

# Relative difference of inner products that rounding may leave.
GRAM_TOLERANCE = 1e-6

# Outputs held at once: few enough for the cache.
BLOCK = 2**16

# Front to back.
MAXIMUM, TRUTH, DOTS, REGION = 5, 4, 3, 2


class LogPosteriorDisplay:
    """Log posterior of classifiers in three dimensions, over longitude and latitude.

    Make one with :meth:`from_space`. The posterior is that of labels which are wrong with some
    probability; it is constant within each cell that the walls of the training points cut out.

    Parameters
    ----------
    longitude : array-like of shape (n_columns,)
        Longitudes of the centres of the pixels, in degrees, increasing.
    latitude : array-like of shape (n_rows,)
        Latitudes of the centres of the pixels, in degrees, increasing.
    log_posterior : array-like of shape (n_rows, n_columns)
        Natural logarithm, up to a constant; minus infinity for what is impossible.
    maximum : array-like of shape (2,), default=None
        Longitude and latitude of a mark.
    truth : array-like of shape (2,), default=None
        Longitude and latitude of a star: the classifier that gave the labels.
    draws : array-like of shape (n_draws, 2), default=None
        Longitudes and latitudes of dots.
    title : str, default=None
        Above the picture.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        Log posterior less its maximum.
    maximum_, truth_, draws_ : matplotlib Line2D or None
    colorbar_ : matplotlib Colorbar or None
        None if all that is possible is equally probable.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    Ten points, labelled by the sign of their first coordinate, and one label flipped.

    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> from bayespoint.papers import LogPosteriorDisplay
    >>> X = np.random.default_rng(0).normal(size=(10, 3))
    >>> y = np.sign(X[:, 0])
    >>> y[0] *= -1
    >>> space = VersionSpace(X @ X.T, y)
    >>> post = inference.sample_billiard(space, 200, label_noise=0.2, random_state=0)
    >>> display = LogPosteriorDisplay.from_space(
    ...     space, label_noise=0.2, points=X, draws=post, truth=[1, 0, 0])
    >>> display.truth.tolist()
    [0.0, 0.0]
    >>> display.ax_.get_title()
    '10 points, label noise 0.2'
    """

    def __init__(
        self, *, longitude: ArrayLike, latitude: ArrayLike, log_posterior: ArrayLike,
        maximum: ArrayLike | None = None, truth: ArrayLike | None = None,
        draws: ArrayLike | None = None, title: str | None = None,
    ) -> None:  # fmt: skip
        self.longitude = np.asarray(longitude, dtype=float)
        self.latitude = np.asarray(latitude, dtype=float)
        self.log_posterior = np.asarray(log_posterior, dtype=float)
        shape = (self.latitude.size, self.longitude.size)
        if min(shape) < 2:
            raise ValueError(f"longitude and latitude must hold at least 2 values; got {shape}.")
        if self.log_posterior.shape != shape:
            raise ValueError(
                f"log_posterior must have shape {shape}, latitudes by longitudes; got "
                f"{self.log_posterior.shape}."
            )
        if not np.any(np.isfinite(self.log_posterior)):
            raise ValueError("log_posterior must be finite somewhere; got none that is.")
        self.maximum = None if maximum is None else np.asarray(maximum, dtype=float)
        self.truth = None if truth is None else np.asarray(truth, dtype=float)
        self.draws = None if draws is None else np.asarray(draws, dtype=float)
        self.title = title

    def plot(self, ax: Any = None, *, legend: bool = True) -> Self:
        """Draw on `ax` (default: a new figure); with `legend`, it has one below."""
        ax = axes_of(self, ax, (9.2, 4.8))
        logs = self.log_posterior - self.log_posterior.max()
        extent = (*_edges(self.longitude), *_edges(self.latitude))
        lowest = np.min(logs[np.isfinite(logs)])
        self.image_ = ax.imshow(
            np.ma.masked_invalid(logs), cmap=COLOUR_MAP, extent=extent, origin="lower",
            interpolation="nearest", zorder=REGION, vmin=min(lowest, -EQUAL), vmax=0.0,
        )  # fmt: skip
        ax.patch.set(**IMPOSSIBLE)
        self.draws_ = _draw_marks(
            ax, self.draws, DOTS, marker="o", markersize=3, color=ORANGE, markeredgewidth=0,
            label="" if self.draws is None else f"{len(self.draws)} draws",
        )  # fmt: skip
        self.maximum_ = _draw_marks(
            ax, self.maximum, MAXIMUM, halo=True, marker="x", markersize=10, color="black",
            markeredgewidth=2.5, label="maximum",
        )  # fmt: skip
        self.truth_ = _draw_marks(
            ax, self.truth, TRUTH, halo=True, marker="*", markersize=24, color=VERMILION,
            markerfacecolor="none", markeredgewidth=2.5, label="truth",
        )  # fmt: skip
        self._label_axes(ax, extent)
        self.colorbar_ = self._draw_colorbar(ax) if lowest < -EQUAL else None
        if legend:
            self._draw_legend(ax)
        return self

    def _label_axes(self, ax: Any, extent: tuple[float, ...]) -> None:
        from matplotlib.ticker import MultipleLocator

        ax.set(xlim=extent[:2], ylim=extent[2:])
        label_axes(ax, "Longitude (degrees)", "Latitude (degrees)")
        ax.xaxis.set_major_locator(MultipleLocator(60))
        ax.yaxis.set_major_locator(MultipleLocator(30))
        ax.tick_params(labelsize=TEXT_SIZE)
        if self.title is not None:
            ax.set_title(self.title, fontsize=LABEL_SIZE)

    def _draw_colorbar(self, ax: Any) -> Any:
        """As high as the picture."""
        bar = ax.figure.colorbar(self.image_, cax=ax.inset_axes([1.03, 0, 0.035, 1]))
        bar.set_label("Log posterior less\nits maximum (nats)", fontsize=LABEL_SIZE)
        bar.ax.tick_params(labelsize=TEXT_SIZE)
        return bar

    def _draw_legend(self, ax: Any) -> None:
        from matplotlib.patches import Patch

        handles = [mark for mark in (self.draws_, self.maximum_, self.truth_) if mark is not None]
        if not np.all(np.isfinite(self.log_posterior)):
            handles.append(Patch(**IMPOSSIBLE, label="impossible"))
        if not handles:
            return
        legend = ax.legend(
            handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=len(handles),
            borderaxespad=BELOW_LABELS, frameon=False, fontsize=TEXT_SIZE,
        )  # fmt: skip
        if self.draws_ is not None:  # dots are too small to show their colour
            legend.legend_handles[0].set_markersize(8)

    @classmethod
    def from_space(
        cls, space: VersionSpace, *, label_noise: ArrayLike, resolution: int = 360,
        points: ArrayLike | None = None, draws: Posterior | None = None,
        truth: ArrayLike | None = None, middle: float = 0.0, ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the log posterior of classifiers of points that span three dimensions.

        Parameters
        ----------
        space : VersionSpace
            Of rank 3.
        label_noise : float or array-like of shape (m,)
            Probability that a label is wrong, in [0, 0.5): one rate, or one per point.
        resolution : int, default=360
            Pixels from pole to pole, and twice as many around.
        points : array-like of shape (m, 3), default=None
            Coordinates of the training points, whose inner products are the Gram matrix: for the
            linear kernel the inputs themselves. By default, in a basis that its factor gives:
            ``bayespoint.space.factor.Factor.basis_coordinates``.
        draws : Posterior, default=None
            Draws to be shown as dots, with outputs at the training points.
        truth : array-like of shape (3,) or (m,), default=None
            The classifier that gave the labels: a vector in the coordinates of the points or, of
            another length than 3, its coefficients.
        middle : float, default=0.0
            Longitude in the middle of the picture, in degrees.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        LogPosteriorDisplay
            With the picture drawn. Its mark of the maximum is in a cell of the highest posterior,
            as far as can be from walls.
        """
        check_space(space)
        noise = check_label_noise(label_noise, len(space))
        check_positive_integer("resolution", resolution)
        if resolution < 2:
            raise ValueError(f"resolution must be at least 2; got {resolution}.")
        check_number("middle", middle, least=-180)
        coordinates = _coordinates(space, points)
        longitude = middle + _middles(2 * resolution, 180.0)
        latitude = _middles(resolution, 90.0)
        normals = unit(space.y[:, None] * coordinates)
        logs = _log_posterior(_vectors(*np.meshgrid(longitude, latitude)), normals, noise)
        if not np.any(np.isfinite(logs)):
            raise ValueError(
                "no pixel has a classifier that label_noise allows: version space is empty, or "
                "smaller than a pixel. Raise resolution, or set label_noise > 0 for every point."
            )
        star = dots = None
        if truth is not None:
            star = _degrees(_truth(space, coordinates, truth), middle)[0]
        if draws is not None:
            dots = _degrees(_of_draws(space, coordinates, draws), middle)
        rates = f"{noise[0]:g}" if np.ptp(noise) == 0 else f"{noise.min():g} to {noise.max():g}"
        return cls(
            longitude=longitude, latitude=latitude, log_posterior=logs,
            maximum=_maximum(longitude, latitude, logs, normals),
            truth=star, draws=dots,
            title=f"{len(space)} points, label noise {rates}",
        ).plot(ax, **kwargs)  # fmt: skip


def _draw_marks(
    ax: Any, places: Array | None, zorder: int, *, halo: bool = False, **style: Any
) -> Any:
    """Draw one place, or one per row; marks at the rim are shown as a whole."""
    from matplotlib.patheffects import withStroke

    if places is None:
        return None
    around = withStroke(linewidth=style["markeredgewidth"] + 3, foreground="white")
    return ax.plot(
        *np.reshape(places, (-1, 2)).T, linestyle="none", zorder=zorder, clip_on=False,
        path_effects=[around] if halo else None, **style,
    )[0]  # fmt: skip


def _coordinates(space: VersionSpace, points: ArrayLike | None) -> Array:
    """Coordinates of the training points, (m, 3)."""
    factor = space.rows.factorise(space.softness, space.rows.threads)
    if factor.rank != 3:
        hint = " Softness gives every point a dimension of its own." if space.softness else ""
        raise ValueError(
            f"space must have points that span 3 dimensions, to be drawn on a sphere; these span "
            f"{factor.rank}.{hint}"
        )
    own = factor.basis_coordinates()
    if points is None:
        return own
    points = np.asarray(points, dtype=np.float64)
    slack = GRAM_TOLERANCE * np.max(own**2)
    if points.shape != own.shape or not np.allclose(points @ points.T, own @ own.T, atol=slack):
        raise ValueError(
            f"points must have shape {own.shape}, and the Gram matrix as their inner products; got "
            f"an array of shape {points.shape}."
        )
    return points


def _middles(n: int, half: float) -> Array:
    """Middles of ``n`` pixels from minus to plus ``half``."""
    return half * ((2 * np.arange(n) + 1) / n - 1)


def _edges(middles: Array) -> tuple[float, float]:
    """Where the first pixel begins and the last one ends."""
    half = (middles[-1] - middles[0]) / (2 * (len(middles) - 1))
    return middles[0] - half, middles[-1] + half


def _vectors(longitude: Array, latitude: Array) -> Array:
    """Unit vectors at longitudes and latitudes in degrees, arrays of one shape."""
    a, b = np.radians(longitude), np.radians(latitude)
    return np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], axis=-1)


def _degrees(vectors: Array, middle: float) -> Array:
    """Longitudes, within 180 degrees of the middle, and latitudes of vectors (n, 3)."""
    x, y, z = vectors.T
    longitude = np.degrees(np.arctan2(y, x))
    longitude = middle + (longitude - middle + 180) % 360 - 180
    return np.column_stack([longitude, np.degrees(np.arctan2(z, np.hypot(x, y)))])


def _log_posterior(vectors: Array, normals: Array, noise: Array) -> Array:
    """Log posterior of vectors (n_rows, n_columns, 3), up to a constant."""
    sure = noise == 0
    odds = np.where(sure, 0.0, label_odds(np.where(sure, 0.25, noise)))
    flat, step = vectors.reshape(-1, 3), max(1, BLOCK // len(normals))
    logs = np.empty(len(flat))
    for start in range(0, len(flat), step):
        part = slice(start, start + step)
        wrong = flat[part] @ normals.T < 0
        # As numbers: products of truth values do not use BLAS.
        logs[part] = wrong.astype(np.float64) @ -odds
        logs[part][np.any(wrong[:, sure], axis=1)] = -np.inf
    return logs.reshape(vectors.shape[:-1])


def _maximum(longitude: Array, latitude: Array, logs: Array, normals: Array) -> tuple[float, float]:
    """Of the pixels of the highest posterior, the one that is farthest from all walls."""
    rows, columns = np.nonzero(logs > logs.max() - EQUAL)
    depth = [
        np.min(np.abs(normals @ _vectors(longitude[column], latitude[row])))
        for row, column in zip(rows, columns, strict=True)
    ]
    best = np.argmax(depth)
    return longitude[columns[best]], latitude[rows[best]]


def _truth(space: VersionSpace, points: Array, truth: ArrayLike) -> Array:
    truth = np.asarray(truth, dtype=np.float64)
    if truth.shape not in ((3,), (len(space),)) or not np.any(truth):
        raise ValueError(
            f"truth must be a vector of 3 coordinates, or {len(space)} coefficients, not all zero; "
            f"got {truth.tolist() if truth.size < 4 else f'shape {truth.shape}'}."
        )
    return truth[None] if truth.shape == (3,) else (points.T @ truth)[None]


def _of_draws(space: VersionSpace, points: Array, draws: Posterior) -> Array:
    if not isinstance(draws, Posterior):
        raise ValueError(
            f"draws must be a Posterior, from bayespoint.inference; got {type(draws).__name__}."
        )
    if draws.outputs is None or draws.outputs.shape[1] != len(space):
        raise ValueError(
            f"draws must hold outputs at the {len(space)} training points of space; draw them "
            f"with inference.sample_billiard from this space."
        )
    return np.linalg.lstsq(points, draws.outputs.T, rcond=None)[0].T
