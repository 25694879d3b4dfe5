"""Picture of the training labels that are most likely wrong."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_positive_integer
from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.style import (
    LABEL_SIZE,
    SKY,
    TEXT_SIZE,
    VERMILION,
    axes_of,
    check_lengths,
)
from bayespoint.estimators.base import KernelClassifier
from bayespoint.estimators.confidence import unwrapped
from bayespoint.space.given import checked_rows, numbers
from bayespoint.space.posterior import dense

# Inches a bar, without and with images, and around all bars.
BAR_INCHES = (0.36, 0.6)
FRAME_INCHES = (8.0, 1.5)

# Height of an image in points, at most, and as a share of the room a bar has.
IMAGE_POINTS = 36
IMAGE_SHARE = 0.8

# Points between an image and what is beside it.
GAP = 4


class LabelErrorDisplay:
    """Bars of the probabilities that training labels are wrong, the most suspicious on top.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    rows : array-like of shape (n,)
        Numbers of the training rows, from top to bottom.
    probability : array-like of shape (n,)
        Probability that the label of the row is wrong.
    given, likely : array-like of shape (n,)
        Label of the row, and the class that is most probable there.
    images : array-like of shape (n, height, width), default=None
        What is drawn beside the bars.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        In percent; darker where another class is more probable than the label.
    images_ : list of matplotlib AnnotationBbox
        Empty without images.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    Images of the digits 3 and 8, the first of which has the wrong label.

    >>> from sklearn.datasets import load_digits
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.displays import LabelErrorDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = X[(y == 3) | (y == 8)][:80], y[(y == 3) | (y == 8)][:80]
    >>> y[0] = 11 - y[0]
    >>> clf = BayesPointClassifier(gamma="scale", label_noise=0.05).fit(X, y)
    >>> display = LabelErrorDisplay.from_estimator(clf, n=5, X=X, image_shape=(8, 8))
    >>> display.ax_.get_yticklabels()[0].get_text()
    'row 0: given 8, rather 3'
    """

    def __init__(
        self, *, rows: ArrayLike, probability: ArrayLike, given: ArrayLike, likely: ArrayLike,
        images: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self.rows = np.asarray(rows)
        self.probability = numbers("probability", probability, finite=False)
        self.given = np.asarray(given)
        self.likely = np.asarray(likely)
        self.images = None if images is None else np.asarray(images)
        check_lengths(self, ("rows", "probability", "given", "likely"), "bar")
        n = len(self.rows)
        if not np.all((self.probability >= 0) & (self.probability <= 1)):
            raise ValueError(f"probability must lie in [0, 1]; got {self.probability}.")
        if self.images is not None and (self.images.ndim != 3 or len(self.images) != n):
            raise ValueError(
                f"images must have shape ({n}, height, width); got {self.images.shape}."
            )

    def plot(self, ax: Any = None, *, cmap: Any = "gray_r") -> Self:
        """Draw the bars on `ax` (default: a new figure), and images with the colours `cmap`."""
        inches = BAR_INCHES[self.images is not None] * len(self.rows)
        size = (FRAME_INCHES[0], FRAME_INCHES[1] + inches)
        ax = axes_of(self, ax, size)
        place = np.arange(len(self.rows))
        colours = np.where(self.likely != self.given, VERMILION, SKY)
        self.bars_ = ax.barh(place, 100 * self.probability, height=0.7, color=colours, zorder=2)
        texts = [_words(*row) for row in zip(self.rows, self.given, self.likely, strict=True)]
        ax.set_yticks(place, texts)
        ax.set_xlim(0, 100)
        ax.set_ylim(len(place) - 0.5, -0.5)
        ax.set_xlabel("Probability that the label is wrong (%)", fontsize=LABEL_SIZE)
        ax.tick_params(labelsize=TEXT_SIZE)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", alpha=0.3)
        self.images_ = [] if self.images is None else _draw_images(ax, self.images, cmap)
        _draw_legend(ax, colours)
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, n: int = 15, *, X: Any = None,
        image_shape: tuple[int, int] | None = None, ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the most suspicious training labels of a fitted classifier.

        Parameters
        ----------
        estimator : BayesPointClassifier
            Fitted so that it has ``label_error_proba_``, or a pipeline that ends in one.
        n : int, default=15
            Number of bars; all rows if there are fewer. Rows of weight 0 are left out.
        X : array-like or sparse matrix of shape (n_samples, n_features), default=None
            The inputs of the fit, to be drawn as images.
        image_shape : tuple of two int, default=None
            Height and width of an image; needed with X.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        LabelErrorDisplay
            With the bars drawn.
        """
        check_is_fitted(estimator)
        check_positive_integer("n", n)
        if (X is None) != (image_shape is None):
            raise ValueError("give both X and image_shape, or neither for bars without images.")
        last = unwrapped(estimator)
        label, proba = _labels(last)
        wrong = last.label_error_proba_
        # NaN are last; equal ones in the order of the rows.
        rows = np.argsort(-wrong, kind="stable")[: np.count_nonzero(~np.isnan(wrong))][:n]
        images = None if X is None else _images(X, image_shape, len(wrong), rows)
        return cls(
            rows=rows, probability=np.clip(wrong[rows], 0.0, 1.0),
            given=last.classes_[label[rows]],
            likely=last.classes_[proba[rows].argmax(axis=1)], images=images,
        ).plot(ax, **kwargs)  # fmt: skip


def _labels(last: Any) -> tuple[Array, Array]:
    """Class and probability of each class at each training row; an error where there is none."""
    if not isinstance(last, KernelClassifier):
        raise ValueError(f"estimator must be a BayesPointClassifier; got {type(last).__name__}.")
    trained = last.trained_
    if trained.label is None or trained.label_proba is None:
        raise ValueError(
            f"estimator was fitted with inference={last.settings_.inference!r} and "
            f"decision={last.settings_.decision!r}, which do not tell which labels are wrong; fit "
            f"a BayesPointClassifier with inference='ep' or 'billiard'."
        )
    return trained.label, trained.label_proba


def _images(X: Any, image_shape: Any, n_samples: int, rows: Array) -> Array:
    """Rows of X as images."""
    shape = tuple(np.atleast_1d(image_shape).tolist())
    if len(shape) != 2:
        raise ValueError(f"image_shape must be a height and a width; got {image_shape!r}.")
    for length in shape:
        check_positive_integer("image_shape", length)
    X = checked_rows(X, accept_sparse="csr", dtype=None)
    if X.shape[0] != n_samples:
        raise ValueError(
            f"X must hold the {n_samples} rows that the classifier was fitted to; got {X.shape[0]}."
        )
    if np.prod(shape) != X.shape[1]:
        raise ValueError(
            f"image_shape must have a product of {X.shape[1]}, the number of columns of X; got "
            f"{shape}, which is {np.prod(shape)}."
        )
    return dense(X[rows]).reshape(len(rows), *shape)


def _draw_images(ax: Any, images: Array, cmap: Any) -> list[Any]:
    """Draw the images between texts and bars, all of one size and one range of grey."""
    from matplotlib.colors import Normalize
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    inches = ax.get_window_extent().height / ax.figure.dpi
    height = min(IMAGE_POINTS, IMAGE_SHARE * 72 * inches / len(images))
    zoom = height / images.shape[1]
    norm = Normalize(images.min(), images.max())
    boxes = []
    for place, image in enumerate(images):
        picture = OffsetImage(image, zoom=zoom, cmap=cmap, norm=norm, interpolation="nearest")
        boxes.append(ax.add_artist(AnnotationBbox(
            picture, (0, place), xybox=(-GAP, 0), xycoords=("axes fraction", "data"),
            boxcoords="offset points", box_alignment=(1, 0.5), pad=0.1, annotation_clip=False,
            bboxprops={"edgecolor": "0.6", "linewidth": 0.8},
        )))  # fmt: skip
    ax.tick_params(axis="y", pad=zoom * images.shape[2] + 2 * GAP)
    return boxes


def _words(row: int, given: Any, likely: Any) -> str:
    return f"row {row}: given {given}" + (f", rather {likely}" if likely != given else "")


def _draw_legend(ax: Any, colours: Array) -> None:
    """Explain the colours where there are two, above the bars."""
    from matplotlib.patches import Patch

    if len(np.unique(colours)) < 2:
        return
    names = {VERMILION: "another class is more probable", SKY: "the label is the most probable"}
    handles = [Patch(color=colour, label=name) for colour, name in names.items()]
    ax.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1, 1), frameon=False,
        fontsize=TEXT_SIZE,
    )  # fmt: skip
