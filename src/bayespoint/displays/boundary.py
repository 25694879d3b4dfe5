"""Picture of the decision boundaries of single draws, for two features (after KGS figure 3)."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_positive_integer, check_seed
from bayespoint._support.types import Array, ArrayLike, Seed
from bayespoint.displays.style import (
    BESIDE,
    BLACK,
    BLUE,
    LABEL_SIZE,
    TEXT_SIZE,
    VERMILION,
    axes_of,
    label_axes,
)
from bayespoint.estimators.base import KernelClassifier
from bayespoint.estimators.confidence import unwrapped
from bayespoint.estimators.uncertainty import Uncertainty
from bayespoint.space.given import checked_labels, checked_rows
from bayespoint.space.posterior import dense

# Room around the points, as a share of their range.
MARGIN = 0.1

# Labels that are wrong with a probability above this are ringed.
SUSPICIOUS = 0.5

# One for each class: told apart without colours, too.
POINTS: tuple[dict[str, Any], ...] = (
    {"marker": "o", "color": BLUE, "markerfacecolor": "none"},
    {"marker": "x", "color": VERMILION},
)
DRAW: dict[str, Any] = {"color": "0.35", "linewidth": 0.9, "alpha": 0.35}
BOUNDARY: dict[str, Any] = {"color": BLACK, "linewidth": 3.5}
RING: dict[str, Any] = {"marker": "o", "color": BLACK, "markerfacecolor": "none", "markersize": 18}

# Front to back.
RINGS, MARKS, LINE, DRAWS, SHADE = 5, 4, 3, 2, 1

# From no uncertainty to much: lines and points stay visible.
SHADES = "Purples"


class BoundaryDisplay:
    """Decision boundaries of single draws of the posterior, and of the classifier itself.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (n_rows, n_columns)
        Grid, as from ``numpy.meshgrid``.
    response : ndarray of shape (n_rows, n_columns)
        Output of the classifier on the grid; its boundary is where this is zero.
    draws : ndarray of shape (n_draws, n_rows, n_columns)
        Outputs of single draws on the grid.
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of shape (n_samples,)
        Labels, one of two classes.
    classes : sequence of two
        The class where outputs are negative, and where they are positive.
    suspects : ndarray of bool of shape (n_samples,), default=None
        Points to be ringed: their labels are probably wrong.
    xlabel, ylabel : str, default="Feature 0", "Feature 1"
        Names of the features.
    uncertainty : ndarray of shape (n_rows, n_columns), default=None
        Part of the entropy of predictions on the grid, in nats, shown as a shade.
    part : str, default=None
        Which part that is, "removable" or "irreducible".

    Attributes
    ----------
    draws_ : list of matplotlib QuadContourSet
        Boundaries of those draws that have one in the picture.
    boundary_ : matplotlib QuadContourSet or None
        Boundary of the classifier; None if there is none in the picture.
    shade_ : matplotlib QuadMesh or None
        Uncertainty.
    points_ : list of matplotlib Line2D
        Points of each class.
    suspects_ : matplotlib Line2D or None
        Rings.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    With more label noise, classifiers differ more (KGS figure 3).

    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import make_moons
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.displays import BoundaryDisplay
    >>> X, y = make_moons(30, noise=0.2, random_state=0)
    >>> figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    >>> for q, ax in zip([0.01, 0.1, 0.2], axes):
    ...     clf = BayesPointClassifier(gamma=0.5, label_noise=q, random_state=0).fit(X, y)
    ...     display = BoundaryDisplay.from_estimator(
    ...         clf, X, y, n_draws=20, grid_resolution=50, random_state=0, ax=ax,
    ...         legend=q == 0.2)
    ...     title = ax.set_title(f"q = {q}")
    >>> len(display.draws_)
    20
    """

    def __init__(
        self, *, xx0: ArrayLike, xx1: ArrayLike, response: ArrayLike, draws: ArrayLike,
        X: ArrayLike, y: ArrayLike, classes: Sequence[Any], suspects: ArrayLike | None = None,
        xlabel: str = "Feature 0", ylabel: str = "Feature 1",
        uncertainty: ArrayLike | None = None, part: str | None = None,
    ) -> None:  # fmt: skip
        self.xx0, self.xx1 = np.asarray(xx0), np.asarray(xx1)
        self.response = np.asarray(response)
        self.draws = np.asarray(draws)
        shape = self.xx0.shape
        if (uncertainty is None) != (part is None) or part not in (None, *Uncertainty._fields):
            raise ValueError(
                f"uncertainty and part must be given together, part as one of "
                f"{Uncertainty._fields}; got part={part!r}."
            )
        self.uncertainty = None if uncertainty is None else np.asarray(uncertainty)
        self.part = part
        for name in ("xx1", "response", "draws", *(["uncertainty"] if part else [])):
            found = getattr(self, name).shape
            if found[name == "draws" :] != shape or len(shape) != 2:
                raise ValueError(f"{name} must have the shape {shape} of the grid; got {found}.")
        self.X, self.y = np.asarray(X), np.asarray(y)
        self.classes = classes
        self.suspects = None if suspects is None else np.asarray(suspects, dtype=bool)
        self.xlabel = xlabel
        self.ylabel = ylabel

    def plot(self, ax: Any = None, *, legend: bool = True) -> Self:
        """Draw on `ax` (default: a new figure); with `legend`, it has one to the right."""
        ax = axes_of(self, ax, (9.4, 5.4) if legend else (6.4, 5.4))
        self.shade_ = None if self.uncertainty is None else self._draw_shade(ax)
        lines = [self._draw_zeros(ax, draw, DRAWS, **DRAW) for draw in self.draws]
        self.draws_ = [line for line in lines if line is not None]
        self.boundary_ = self._draw_zeros(ax, self.response, LINE, **BOUNDARY)
        self.points_ = [
            ax.plot(
                *self.X[self.y == name].T, linestyle="none", markersize=8, markeredgewidth=2,
                zorder=MARKS, label=f"class {name}", **style,
            )[0]
            for name, style in zip(self.classes, POINTS, strict=True)
        ]  # fmt: skip
        self.suspects_ = None
        if self.suspects is not None and np.any(self.suspects):
            (self.suspects_,) = ax.plot(
                *self.X[self.suspects].T, linestyle="none", markeredgewidth=2, zorder=RINGS,
                label="label probably wrong", **RING,
            )  # fmt: skip
        ax.set_xlim(self.xx0.min(), self.xx0.max())
        ax.set_ylim(self.xx1.min(), self.xx1.max())
        label_axes(ax, self.xlabel, self.ylabel)
        ax.tick_params(labelsize=TEXT_SIZE)
        if legend:
            self._draw_legend(ax)
        return self

    def _draw_shade(self, ax: Any) -> Any:
        """Shade the part of the entropy, from none to all that two classes can have."""
        shade = ax.pcolormesh(
            self.xx0, self.xx1, self.uncertainty, shading="nearest", cmap=SHADES, vmin=0.0,
            vmax=np.log(2), zorder=SHADE, rasterized=True,
        )  # fmt: skip
        bar = ax.figure.colorbar(shade, ax=ax, location="left", pad=0.12)
        bar.set_label(f"{self.part} uncertainty (nats)", fontsize=LABEL_SIZE)
        bar.ax.tick_params(labelsize=TEXT_SIZE)
        return shade

    def _draw_zeros(
        self, ax: Any, values: Array, zorder: int, *, color: str, linewidth: float,
        alpha: float | None = None,
    ) -> Any:  # fmt: skip
        if not values.min() < 0 < values.max():
            return None
        return ax.contour(
            self.xx0, self.xx1, values, levels=[0], colors=[color], linewidths=[linewidth],
            alpha=alpha, zorder=zorder,
        )  # fmt: skip

    def _draw_legend(self, ax: Any) -> None:
        from matplotlib.lines import Line2D

        n_draws, n_shown = len(self.draws), len(self.draws_)
        note = "" if n_shown == n_draws else f",\n{n_draws - n_shown} of them out of view"
        note_of_all = "" if self.boundary_ is not None else ",\nout of view"
        handles = [
            *self.points_,
            *([] if self.suspects_ is None else [self.suspects_]),
            Line2D([], [], **BOUNDARY, label=f"boundary of\nthe classifier{note_of_all}"),
            # A single line in the legend would be too faint.
            Line2D([], [], **DRAW | {"alpha": 0.8}, label=f"boundaries of\n{n_draws} draws{note}"),
        ]
        ax.legend(handles=handles, **BESIDE)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, n_draws: int = 50,
        grid_resolution: int = 200, uncertainty: str | None = None, random_state: Seed = None,
        ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the boundaries of a classifier of two features and two classes.

        Parameters
        ----------
        estimator : BayesPointClassifier
            Fitted, or a pipeline that ends in one.
        X : array-like of shape (n_samples, 2)
        y : array-like of shape (n_samples,)
            Points to be drawn, with their labels. If they are those of the fit, and the classifier
            has ``label_error_proba_``, points whose label is wrong with a probability above 0.5
            are ringed.
        n_draws : int, default=50
            Draws whose boundaries are shown; all if the classifier holds fewer. The boundary of a
            draw is where its own output is zero, whatever ``decision`` and ``class_weight``.
        grid_resolution : int, default=200
            Grid points along each axis.
        uncertainty : {"removable", "irreducible"}, default=None
            Part of `BayesPointClassifier.predict_uncertainty` that is shown as a shade.
        random_state : int, RandomState instance or None, default=None
            Chooses the draws.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        BoundaryDisplay
            With the boundaries drawn.
        """
        check_is_fitted(estimator)
        check_positive_integer("n_draws", n_draws)
        check_positive_integer("grid_resolution", grid_resolution)
        if grid_resolution < 2:
            raise ValueError(f"grid_resolution must be at least 2; got {grid_resolution}.")
        if uncertainty not in (None, *Uncertainty._fields):
            raise ValueError(
                f"uncertainty must be None or one of {Uncertainty._fields}; got {uncertainty!r}."
            )
        check_seed(random_state)
        last = _checked_classifier(unwrapped(estimator))
        points, labels = _checked_points(X, y, last.classes_)
        xx0, xx1 = np.meshgrid(*(_ticks(values, grid_resolution) for values in points.T))
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        names = getattr(estimator, "feature_names_in_", None)
        if hasattr(X, "columns"):  # given and taken with names, or without
            grid, X = (grid, points) if names is None else (type(X)(grid, columns=X.columns), X)
        members = check_random_state(random_state).permutation(last.predictor_.n_draws)[:n_draws]
        coef = last.predictor_.draws(members)[0]
        outputs = last.predictor_.support.outputs(
            last.prepared(unwrapped(estimator, grid)[1]), coef
        )
        xlabel, ylabel = ("Feature 0", "Feature 1") if names is None else names
        return cls(
            xx0=xx0, xx1=xx1, response=estimator.decision_function(grid).reshape(xx0.shape),
            draws=outputs.T.reshape(len(members), *xx0.shape), X=points, y=labels,
            classes=last.classes_.tolist(), xlabel=xlabel, ylabel=ylabel,
            suspects=_suspects(last, unwrapped(estimator, X)[1], labels), part=uncertainty,
            uncertainty=None if uncertainty is None else getattr(
                last.predict_uncertainty(unwrapped(estimator, grid)[1]), uncertainty
            ).reshape(xx0.shape),
        ).plot(ax, **kwargs)  # fmt: skip


def _checked_classifier(last: Any) -> Any:
    if not isinstance(last, KernelClassifier):
        raise ValueError(f"estimator must be a BayesPointClassifier; got {type(last).__name__}.")
    if len(last.classes_) != 2:
        raise ValueError(
            f"estimator must have two classes, for a boundary between them; this one was "
            f"fitted to {len(last.classes_)}."
        )
    if not last.predictor_.n_draws:
        raise ValueError(
            "estimator holds no draws: give the one that it was made from, or fit EP in one cell."
        )
    return last


def _checked_points(X: Any, y: ArrayLike, classes: Array) -> tuple[Array, Array]:
    X = checked_rows(X, dtype=np.float64)
    if X.shape[1] != 2:
        raise ValueError(f"X must have two columns, to be drawn in a plane; got {X.shape[1]}.")
    labels = checked_labels(y)
    if len(labels) != len(X) or not np.all(np.isin(labels, classes)):
        raise ValueError(
            f"y must hold one label of {classes.tolist()} for each of {len(X)} rows of X; got "
            f"{len(labels)} labels, of {np.unique(labels)[:5].tolist()}."
        )
    return X, labels


def _ticks(values: Array, n: int) -> Array:
    room = MARGIN * (np.ptp(values) or 1.0)
    return np.linspace(values.min() - room, values.max() + room, n)


def _suspects(last: Any, X: Any, y: Array) -> Array | None:
    """Rows whose labels are probably wrong, if these are the rows of the fit; else None."""
    wrong, label = getattr(last, "label_error_proba_", None), last.trained_.label
    if wrong is None or label is None or len(y) != len(wrong):
        return None
    known = ~np.isnan(wrong)
    asked = last.prepared(X)
    X = dense(asked.place.to_host(asked.X)[last.support_])
    same = np.array_equal(X, dense(last.support_vectors_))
    same &= np.array_equal(last.classes_[label[known]], y[known])
    return wrong > SUSPICIOUS if same else None
