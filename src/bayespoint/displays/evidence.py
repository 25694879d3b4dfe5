"""Picture of the evidence over kernel width and softness."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from bayespoint._support.checks import check_number, warn
from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.style import (
    LABEL_SIZE,
    TEXT_SIZE,
    VERMILION,
    axes_of,
    label_axes,
)
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.space.given import numbers

KERNELS_WITH_GAMMA = ("rbf", "laplacian", "poly")

# Widths by default: so many, from "scale" divided by to "scale" times this.
N_GAMMAS, FACTOR = 13, 30.0
SOFTNESSES = np.geomspace(1e-3, 10.0, 9)

# Contour lines, in nats below the best; colours end at the last, to show what is near the top.
BELOW = (1, 3, 10, 30)

# Lines are black where colours are light, from this share of their range on; else white.
LIGHT = 0.4

# From dark blue to light yellow, in an order that all eyes see.
COLOUR_MAP = "cividis"

INCHES = (8.0, 5.6)


class EvidenceDisplay:
    """Heat map of the log evidence over kernel width and softness.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    gammas : array-like of shape (n_gammas,)
        Kernel widths, increasing.
    softnesses : array-like of shape (n_softnesses,)
        Increasing, > 0.
    log_evidence : array-like of shape (n_gammas, n_softnesses)
    converged : array-like of shape (n_gammas, n_softnesses), default=None
        False where the value cannot be trusted: such settings are crossed out, and are not the
        best if there are others. Default: all can be trusted.

    Attributes
    ----------
    best : dict
        ``gamma``, ``softness`` and ``log_evidence`` of the best setting.
    im_ : matplotlib QuadMesh
        Colours; settings more than 30 nats below the best share the darkest.
    contour_ : matplotlib QuadContourSet or None
        Lines at 1, 3, 10 and 30 nats below the best, if they are in the picture.
    best_, crosses_ : matplotlib Line2D
        The star at the best setting, and crosses over those that did not converge.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.displays import EvidenceDisplay
    >>> X, y = make_moons(60, noise=0.25, random_state=0)
    >>> display = EvidenceDisplay.from_estimator(
    ...     BayesPointClassifier(), X, y, gammas=[0.01, 0.1, 1, 10], softnesses=[0.01, 0.1, 1])
    >>> display.best["gamma"]
    1.0
    """

    def __init__(
        self, *, gammas: ArrayLike, softnesses: ArrayLike, log_evidence: ArrayLike,
        converged: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self.gammas = _increasing("gammas", gammas)
        self.softnesses = _increasing("softnesses", softnesses)
        self.log_evidence = numbers("log_evidence", log_evidence, finite=False)
        shape = (len(self.gammas), len(self.softnesses))
        self.converged = (
            np.ones(shape, dtype=bool) if converged is None else np.asarray(converged, dtype=bool)
        )
        for name in ("log_evidence", "converged"):
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(
                    f"{name} must have one row per gamma and one column per softness, shape "
                    f"{shape}; got {found}."
                )
        if not np.all(np.isfinite(self.log_evidence)):
            raise ValueError("log_evidence must be finite.")
        trusted = self.converged if np.any(self.converged) else ~self.converged
        self._place = np.unravel_index(
            np.where(trusted, self.log_evidence, -np.inf).argmax(), shape
        )
        self.best = {
            "gamma": float(self.gammas[self._place[0]]),
            "softness": float(self.softnesses[self._place[1]]),
            "log_evidence": float(self.log_evidence[self._place]),
        }

    def plot(self, ax: Any = None, *, cmap: Any = COLOUR_MAP) -> Self:
        """Draw the map on `ax` (default: a new figure) with the colours `cmap`."""
        ax = axes_of(self, ax, INCHES)
        ax.set_xscale("log")
        ax.set_yscale("log")
        top = self.best["log_evidence"]
        bottom = max(self.log_evidence.min(), top - BELOW[-1])
        self.im_ = ax.pcolormesh(
            _edges(self.gammas), _edges(self.softnesses), self.log_evidence.T, cmap=cmap,
            vmin=bottom, vmax=top, rasterized=True,
        )  # fmt: skip
        self._draw_lines(ax, top, bottom)
        rough = np.nonzero(~self.converged)
        (self.crosses_,) = ax.plot(
            self.gammas[rough[0]], self.softnesses[rough[1]], "X", color="white", markersize=11,
            markeredgecolor="black",
        )  # fmt: skip
        (self.best_,) = ax.plot(
            self.best["gamma"], self.best["softness"], "*", color=VERMILION, markersize=22,
            markeredgecolor="white", markeredgewidth=1.5, linestyle="none", label=self._words(),
        )  # fmt: skip
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=TEXT_SIZE,
            borderpad=0.2, labelspacing=0.2,
        )  # fmt: skip
        label_axes(ax, "Kernel width (gamma)", "Softness")
        ax.tick_params(labelsize=TEXT_SIZE)
        self._draw_bar(ax, bottom)
        return self

    def _words(self) -> str:
        """Name the best setting, and say if better ones may lie outside."""
        words = "best: gamma {gamma:.3g}, softness {softness:.3g}".format(**self.best)
        ends = zip(self._place, self.log_evidence.shape, strict=True)
        at_edge = any(n > 1 and place in (0, n - 1) for place, n in ends)
        return words + ("\n(at the edge: better ones may lie outside)" if at_edge else "")

    def _draw_lines(self, ax: Any, top: float, bottom: float) -> None:
        self.contour_ = None
        low, high = self.log_evidence.min(), self.log_evidence.max()
        levels = [top - below for below in reversed(BELOW) if low < top - below < high]
        if not levels or min(self.log_evidence.shape) < 2:
            return
        light = [level >= bottom + LIGHT * (top - bottom) for level in levels]
        self.contour_ = ax.contour(
            self.gammas, self.softnesses, self.log_evidence.T, levels=levels, linestyles="-",
            colors=["black" if is_light else "white" for is_light in light], linewidths=1.8,
        )  # fmt: skip
        names = {level: f"{top - level:.0f}" for level in levels}
        ax.clabel(self.contour_, fmt=names, fontsize=TEXT_SIZE)
        ax.plot([], [], color="black", linewidth=1.8, label="lines: nats below the best")

    def _draw_bar(self, ax: Any, bottom: float) -> None:
        clipped = self.log_evidence.min() < bottom
        bar = ax.figure.colorbar(self.im_, ax=ax, extend="min" if clipped else "neither")
        words = "log evidence (nats)"
        if clipped:
            words += f"\nclipped at {BELOW[-1]} below the best"
        bar.set_label(words, fontsize=LABEL_SIZE)
        bar.ax.tick_params(labelsize=TEXT_SIZE)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, gammas: ArrayLike | None = None,
        softnesses: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
        ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Fit with expectation propagation for each setting, and draw the log evidence.

        Other settings are those of the estimator: kernel, bias, label noise. Each fit starts from
        the sites of the one before.

        Parameters
        ----------
        estimator : BayesPointClassifier
            Need not be fitted, and stays as it is. Or a pipeline that ends in one, whose other
            steps are fitted to all of X. Its kernel is "rbf", "laplacian" or "poly", which have a
            width, or "auto": then the one that was chosen, "rbf" before a fit.
        X, y : array-like
            Training points and labels.
        gammas : array-like, default=None
            Kernel widths, in any order. Default: 13 from a thirtieth to thirty times "scale".
        softnesses : array-like, default=None
            In any order. Default: 9 from 0.001 to 10.
        sample_weight : array-like of shape (n_samples,), default=None
            As for `BayesPointClassifier.fit`.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        EvidenceDisplay
            With the map drawn.

        Warns
        -----
        ConvergenceWarning
            Once, with the number of settings for which sweeps did not converge.
        """
        while isinstance(estimator, Pipeline):
            if len(estimator) > 1:
                X = clone(estimator[:-1]).fit_transform(X, y)
            estimator = estimator[-1]
        _check_estimator(estimator)
        options = {"inference": "ep", "decision": "vote", "n_draws": 1, "warm_start": True}
        clf = clone(estimator).set_params(**options)
        if clf.kernel == "auto":
            clf.kernel = getattr(estimator, "kernel_", "rbf")
        softnesses = _sorted("softnesses", SOFTNESSES if softnesses is None else softnesses)
        if gammas is None:
            first = clone(clf).set_params(gamma="scale", softness=softnesses[-1])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fits below say the same
                scale = first.fit(X, y, sample_weight).gamma_
            gammas = scale * np.geomspace(1 / FACTOR, FACTOR, N_GAMMAS)
        gammas = _sorted("gammas", gammas)
        values, converged = _fit_all(clf, X, y, sample_weight, gammas, softnesses)
        return cls(
            gammas=gammas, softnesses=softnesses, log_evidence=values, converged=converged
        ).plot(ax, **kwargs)


def _check_estimator(estimator: Any) -> None:
    if not isinstance(estimator, BayesPointClassifier):
        raise ValueError(
            f"estimator must be a BayesPointClassifier, or a pipeline that ends in one; got "
            f"{type(estimator).__name__}."
        )
    kernel = estimator.kernel
    if callable(kernel) or kernel not in ("auto", *KERNELS_WITH_GAMMA):
        raise ValueError(
            f"EvidenceDisplay compares widths, and estimator has kernel={kernel!r} without a "
            f"gamma; use one of {KERNELS_WITH_GAMMA}, or compare log_evidence_ of fits yourself."
        )


def _fit_all(
    clf: BayesPointClassifier, X: Any, y: ArrayLike, sample_weight: ArrayLike | None,
    gammas: Array, softnesses: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Log evidence and whether it converged, (gammas, softnesses) each."""
    values = np.empty((len(gammas), len(softnesses)))
    converged = np.empty(values.shape, dtype=bool)
    told: dict[tuple[str, type[Warning]], None] = {}  # in order, once each
    columns = range(len(softnesses))
    for i, gamma in enumerate(gammas):
        # From large softness, where all is easy, to small and back: neighbours start neighbours.
        for j in columns if i % 2 else reversed(columns):
            clf.set_params(gamma=float(gamma), softness=float(softnesses[j]))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                clf.fit(X, y, sample_weight)
            values[i, j] = clf.log_evidence_
            found = clf.diagnostics_
            converged[i, j] = np.all(found["converged"] & ~found["bounded"])
            told |= {
                (str(warning.message), warning.category): None for warning in caught
                if not issubclass(warning.category, ConvergenceWarning)
            }  # fmt: skip
    for message, category in told:
        warn(message, category)
    rough = np.argwhere(~converged)
    if len(rough):
        i, j = rough[0]
        warn(
            f"expectation propagation did not converge for {len(rough)} of {values.size} settings, "
            f"such as gamma={gammas[i]:.3g}, softness={softnesses[j]:.3g}: they are crossed out, "
            f"and their log evidence is rough. Leave them out, or raise max_time if it is set.",
            ConvergenceWarning,
        )
    return values, converged


def _numbers(name: str, values: ArrayLike) -> Array:
    """Array of numbers > 0, which have a place on a log axis."""
    values = np.atleast_1d(values)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must be a list of numbers; got shape {values.shape}.")
    for value in values.tolist():
        check_number(name, value, above=0)
    return values.astype(float)


def _sorted(name: str, values: ArrayLike) -> Array:
    return np.unique(_numbers(name, values))


def _increasing(name: str, values: ArrayLike) -> Array:
    values = _numbers(name, values)
    if np.any(np.diff(values) <= 0):
        raise ValueError(f"{name} must increase; got {values}.")
    return values


def _edges(values: Array) -> Array:
    """Borders of cells around values, halfway on a log axis; a decade where there is one value."""
    logs = np.log10(values)
    middle = (logs[1:] + logs[:-1]) / 2
    first, last = (2 * logs[0] - middle[0], 2 * logs[-1] - middle[-1]) if len(middle) else (
        logs[0] - 0.5, logs[0] + 0.5
    )  # fmt: skip
    return 10.0 ** np.concatenate([[first], middle, [last]])
