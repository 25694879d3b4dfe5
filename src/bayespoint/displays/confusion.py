"""Picture of which classes are taken for which, with a column for what is rejected."""

from typing import Any, Self

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.style import BLACK, BLUE, TEXT_SIZE, VERMILION, axes_of, label_axes
from bayespoint.estimators.confidence import unwrapped
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.estimators.risk import errors_of
from bayespoint.space.given import checked_labels, numbers

# Share of the colour in a cell that holds all of its row: black text is readable still.
DARKEST = 0.65
# Place of the column of rejected cases, apart from those of the classes.
APART = 0.25
# Inches of a cell, and of everything else.
CELL, MARGIN = 0.75, 2.0
# Characters of a name that still lies level below its column.
SHORT_NAME = 6


class ConfusionDisplay:
    """Picture of a confusion matrix with rejected cases, with scikit-learn's conventions.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`. Blue cells are right, orange
    ones wrong, grey ones rejected; a stronger colour is a larger share of the true class.

    Parameters
    ----------
    matrix : array-like of shape (n_classes, n_classes)
        Numbers of decided cases: true classes in rows, predicted ones in columns.
    rejected : array-like of shape (n_classes,), default=None
        Numbers of rejected cases of each true class; None: there is no such column.
    labels : sequence, default=None
        Names of the classes; by default their numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    text_ : list of matplotlib Text
        The numbers, row by row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from bayespoint import RejectingClassifier
    >>> from bayespoint.displays import ConfusionDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RejectingClassifier(SVC(), coverage=0.9).fit(X, y)
    >>> display = ConfusionDisplay.from_estimator(clf, X, y)
    >>> int(display.matrix.sum() + display.rejected.sum())
    150
    """

    def __init__(
        self, *, matrix: ArrayLike, rejected: ArrayLike | None = None, labels: Any = None
    ) -> None:
        self.matrix = np.asarray(matrix)
        n = len(self.matrix)
        self.rejected = None if rejected is None else np.asarray(rejected)
        self.labels = list(range(n) if labels is None else labels)
        if self.matrix.shape != (n, n) or not n:
            raise ValueError(
                f"matrix must have a row and a column for each class; got shape "
                f"{self.matrix.shape}."
            )
        for name, found in (("rejected", self.rejected), ("labels", self.labels)):
            if found is not None and np.shape(found) != (n,):
                raise ValueError(f"{name} must hold one value per class, {n}; got {len(found)}.")

    def plot(self, ax: Any = None) -> Self:
        """Draw the matrix on `ax` (default: a new figure)."""
        n = len(self.matrix)
        side = MARGIN + CELL * n
        ax = axes_of(self, ax, (side + 1.2 * CELL, side))
        counts = self.matrix if self.rejected is None else np.c_[self.matrix, self.rejected]
        total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
        places = np.arange(counts.shape[1]) + APART * (np.arange(counts.shape[1]) == n)
        self.text_ = []
        for i, j in np.ndindex(counts.shape):
            colour = "#555555" if j == n else BLUE if i == j else VERMILION
            # Square roots show small shares.
            shade = DARKEST * np.sqrt(counts[i, j] / total[i, 0])
            ax.fill(
                places[j] + np.array([-0.5, 0.5, 0.5, -0.5]), i + np.array([-0.5, -0.5, 0.5, 0.5]),
                facecolor=(colour, shade), edgecolor="#BBBBBB", linewidth=0.8,
            )  # fmt: skip
            text = ax.text(
                places[j], i, f"{counts[i, j]:,}", ha="center", va="center", color=BLACK,
                fontsize=TEXT_SIZE,
            )  # fmt: skip
            self.text_.append(text)
        self._label(ax, places)
        return self

    def _label(self, ax: Any, places: Array) -> None:
        n, names = len(self.matrix), [str(label) for label in self.labels]
        columns = names if self.rejected is None else [*names, "rejected"]
        long = max(map(len, names)) > SHORT_NAME
        turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if long else {}
        ax.set_xticks(places, columns, fontsize=TEXT_SIZE, **turned)
        ax.set_yticks(np.arange(n), names, fontsize=TEXT_SIZE)
        ax.tick_params(length=0)
        ax.set_xlim(-0.52, places[-1] + 0.52)
        ax.set_ylim(n - 0.48, -0.52)
        ax.set_aspect("equal")
        for spine in ax.spines.values():
            spine.set_visible(False)
        label_axes(ax, "Decision", "True class")

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, labels: Any = None, ax: Any = None
    ) -> Self:
        """Draw what a fitted classifier decides about the data given.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier, or pipeline that ends in one; of a :class:`RejectingClassifier` that
            may abstain, with a column of rejected cases.
        X, y : array-like
            Inputs and true labels, best not those of the fit.
        labels : sequence, default=None
            Names to show; by default the classes.
        ax
            As for :meth:`plot`.

        Returns
        -------
        ConfusionDisplay
            Drawn.
        """
        check_is_fitted(estimator)
        last, X_last = unwrapped(estimator, X)
        if isinstance(last, RejectingClassifier):
            predicted, found = last.decide(X_last)
            rejected = found if last.may_reject() else None
        else:
            predicted, rejected = estimator.predict(X), None
        return cls.from_predictions(
            y, predicted, rejected=rejected, classes=estimator.classes_, labels=labels, ax=ax
        )

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_pred: ArrayLike, *, rejected: ArrayLike | None = None,
        classes: Any = None, labels: Any = None, ax: Any = None,
    ) -> Self:  # fmt: skip
        """Draw true and predicted labels.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
            True and predicted labels, the latter as they would be without rejection.
        rejected : array-like of bool, shape (n_samples,), default=None
            Which cases are rejected; None: there is no such column.
        classes : array-like, default=None
            Order of the classes; by default sorted. Cases of other classes are an error.
        labels, ax
            As for the class and :meth:`plot`.

        Returns
        -------
        ConfusionDisplay
            Drawn.
        """
        errors_of(y_true, y_pred)  # refuses what are no labels of the same cases
        true, predicted = checked_labels(y_true, "y_true"), checked_labels(y_pred, "y_pred")
        either = np.union1d(true, predicted)
        classes = either if classes is None else checked_labels(classes, "classes")
        unknown = np.setdiff1d(true, classes)
        if len(unknown):
            raise ValueError(f"y has the label {unknown[0]!r}, not among {classes.tolist()}.")
        undecided = np.zeros(len(true), bool)
        if rejected is not None:
            undecided = numbers("rejected", rejected).astype(bool)
        check_consistent_length(true, undecided)
        decided = ~undecided
        matrix = np.zeros((len(classes), len(classes)), dtype=int)
        if decided.any():  # scikit-learn refuses none
            matrix = confusion_matrix(true[decided], predicted[decided], labels=classes)
        apart = None
        if rejected is not None:
            apart = np.array([np.sum(undecided & (true == c)) for c in classes])
        names = classes.tolist() if labels is None else labels
        return cls(matrix=matrix, rejected=apart, labels=names).plot(ax)
