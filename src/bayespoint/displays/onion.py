"""Picture of the errors of every shell of an onion."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.style import (
    TEXT_SIZE,
    VERMILION,
    axes_of,
    label_axes,
)
from bayespoint.estimators.confidence import unwrapped
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.inference.onion import Onion
from bayespoint.space.given import numbers

# From light to dark with the errors, in one hue that all eyes order alike.
COLOUR_MAP = "Blues"

# Cells darker than this share of the range have white text.
DARK = 0.6

LEFT_OUT = "Leave-one-out errors,\nby the sign of the centre"

CELL_INCHES = (1.0, 0.72)
FRAME_INCHES = (2.6, 1.3)
# Of a small table: lower ones cut the labels of the axes.
LEAST_HEIGHT = 3.8


class OnionDisplay:
    """Table of errors by the training errors allowed, like R&M's table 18.1.

    Make one with :meth:`from_estimator` or :meth:`from_onion`.

    Parameters
    ----------
    errors : ndarray of shape (n_minus + 1, n_plus + 1, 2)
        Errors among labels -1 and among labels +1 of each shell; NaN for shells without draws.
    chosen : tuple of int, default=None
        The shell to frame.
    name : str, default="Errors"
        Which errors these are.
    classes : sequence of two, default=(-1, 1)
        Names of the classes.

    Attributes
    ----------
    image_ : matplotlib AxesImage
    text_ : ndarray of matplotlib Text
        Total and, in brackets, errors of the two classes.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from bayespoint import OnionClassifier
    >>> from bayespoint.displays import OnionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> clf = OnionClassifier(depth=2, n_draws=2000, random_state=0).fit(X[::3], y[::3])
    >>> display = OnionDisplay.from_estimator(clf, X[1::3], y[1::3])
    >>> display.ax_.get_xlabel()
    'Training errors allowed, class 1'
    """

    def __init__(
        self, *, errors: ArrayLike, chosen: tuple[int, int] | None = None, name: str = "Errors",
        classes: Sequence[Any] = (-1, 1),
    ) -> None:  # fmt: skip
        self.errors = numbers("errors", errors, finite=False)
        if self.errors.ndim != 3 or self.errors.shape[2] != 2:
            raise ValueError(
                f"errors must have shape (n_minus + 1, n_plus + 1, 2); got {self.errors.shape}."
            )
        self.chosen = chosen
        self.name = name
        self.classes = classes

    def plot(self, ax: Any = None) -> Self:
        """Draw the table on `ax` (default: a new figure)."""
        rows, columns = self.errors.shape[:2]
        size = (
            FRAME_INCHES[0] + CELL_INCHES[0] * columns,
            max(FRAME_INCHES[1] + CELL_INCHES[1] * rows, LEAST_HEIGHT),
        )
        ax = axes_of(self, ax, size)
        total = self.errors.sum(axis=2)
        self.image_ = ax.imshow(total, cmap=COLOUR_MAP, aspect="auto")
        low, high = self.image_.get_clim()
        self.text_ = np.empty((rows, columns), dtype=object)
        for cell in np.ndindex(rows, columns):
            dark = np.isfinite(total[cell]) and total[cell] > low + DARK * (high - low)
            self.text_[cell] = ax.text(
                cell[1], cell[0], _words(self.errors[cell]), ha="center", va="center",
                fontsize=TEXT_SIZE, linespacing=1.3, color="white" if dark else "black",
            )  # fmt: skip
        if self.chosen is not None:
            self._frame(ax, *self.chosen)
        ax.set_xticks(range(columns))
        ax.set_yticks(range(rows))
        ax.tick_params(labelsize=TEXT_SIZE)
        label_axes(ax, f"Training errors allowed, class {self.classes[1]}",
                   f"Training errors allowed, class {self.classes[0]}")  # fmt: skip
        bar = ax.figure.colorbar(self.image_, ax=ax)
        bar.set_label(
            f"{self.name}\n(in brackets: class {self.classes[0]}, class {self.classes[1]})",
            fontsize=TEXT_SIZE,
        )
        bar.ax.tick_params(labelsize=TEXT_SIZE)
        bar.ax.yaxis.get_major_locator().set_params(integer=True)
        return self

    def _frame(self, ax: Any, row: int, column: int) -> None:
        from matplotlib.patches import Rectangle

        corner = (column - 0.46, row - 0.46)
        frame = Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=VERMILION, linewidth=4)
        frame.set_label("shell that decides")
        ax.add_patch(frame)
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=TEXT_SIZE,
            handles=[frame],
        )  # fmt: skip

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None
    ) -> Self:
        """Draw the errors of every shell of a fitted classifier.

        On X and y each shell decides as `with_shells` makes it, with its link and class weights
        (`error_table`). Leave-one-out errors count by the sign of its centre's output
        (``loo_errors_``), since the link is fitted to these outputs.

        Parameters
        ----------
        estimator : OnionClassifier
            Fitted, or a pipeline that ends in one. Its shell is framed if it decides by one.
        X, y : array-like, optional
            Inputs and true labels. Default: the leave-one-out errors of the fit.
        ax : matplotlib Axes, optional

        Returns
        -------
        OnionDisplay
            With the table drawn.
        """
        check_is_fitted(estimator)
        if (X is None) != (y is None):
            raise ValueError("give both X and y, or neither for the leave-one-out errors.")
        last, X = (unwrapped(estimator), None) if X is None else unwrapped(estimator, X)
        if not isinstance(last, OnionClassifier):
            raise ValueError(f"estimator must be an OnionClassifier; got {type(last).__name__}.")
        errors = last.loo_errors_ if X is None else last.error_table(X, y)
        return cls(
            errors=errors, chosen=last.shells_ if isinstance(last.shells_, tuple) else None,
            name=LEFT_OUT if X is None else f"Errors on {len(y)} test points",
            classes=last.classes_.tolist(),
        ).plot(ax)  # fmt: skip

    @classmethod
    def from_onion(cls, onion: Onion, cross: Any = None, y: Any = None, *, ax: Any = None) -> Self:
        """Draw the errors of every shell of an `Onion`, by the sign of its centre's output.

        Parameters
        ----------
        onion : Onion
        cross, y : array-like, optional
            Kernel values of new points and training points, and the new points' labels. Default:
            leave-one-out errors, whose best shell is framed.
        ax : matplotlib Axes, optional

        Returns
        -------
        OnionDisplay
            With the table drawn.
        """
        if not isinstance(onion, Onion):
            raise ValueError(f"onion must be an Onion; got {type(onion).__name__}.")
        if (cross is None) != (y is None):
            raise ValueError("give both cross and y, or neither for the leave-one-out errors.")
        if cross is not None:
            name = f"Errors on {len(y)} test points"
            return cls(errors=onion.errors(cross, y), name=name).plot(ax)
        errors = onion.leave_one_out_errors()
        chosen = onion.best_cell(errors)
        return cls(errors=errors, chosen=chosen, name=LEFT_OUT).plot(ax)


def _words(errors: Array) -> str:
    """Total and its split, as in the paper."""
    if np.any(np.isnan(errors)):
        return "–"
    return f"{errors.sum():.0f}\n({errors[0]:.0f}, {errors[1]:.0f})"
