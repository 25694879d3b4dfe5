"""Picture of what a case costs on average, against the share of cases that are rejected."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import ArrayLike
from bayespoint.displays.style import BLACK, axes_of, check_lengths, draw_curve, label_axes
from bayespoint.estimators.confidence import unwrapped
from bayespoint.estimators.costs import cost_rejection_curve
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.estimators.risk import case_weights
from bayespoint.space.given import numbers


class CostRejectionDisplay:
    """Picture of cost against rejection, with the conventions of scikit-learn's displays.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    rejected, mean_cost : array-like of shape (n_points,)
        As returned by :func:`~bayespoint.estimators.costs.cost_rejection_curve`.
    chosen : tuple of two floats, default=None
        Share that the classifier rejects and the mean cost of a case, drawn as a dot.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayespoint import RejectingClassifier
    >>> from bayespoint.displays import CostRejectionDisplay
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_breast_cancer(return_X_y=True), random_state=0)
    >>> costs = [[0, 10, 1], [2, 0, 1]]  # benign is class 1; the last column is rejecting
    >>> clf = RejectingClassifier(GaussianNB(), costs=costs).fit(X, y)
    >>> display = CostRejectionDisplay.from_estimator(clf, X_test, y_test)
    >>> display.ax_.get_ylabel()
    'Mean cost of a case'
    """

    def __init__(
        self, *, rejected: ArrayLike, mean_cost: ArrayLike,
        chosen: tuple[float, float] | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self.rejected = numbers("rejected", rejected, finite=False)
        self.mean_cost = numbers("mean_cost", mean_cost, finite=False)
        check_lengths(self, ("rejected", "mean_cost"), "point")
        if not np.isfinite(self.mean_cost).all():
            raise ValueError("mean_cost must be finite; does rejecting have a cost?")
        self.chosen = chosen
        self.name = name

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve on `ax` (default: a new figure); `kwargs` go to matplotlib's ``plot``.

        Further curves on the same axes get their own colour and dashes.
        """
        ax = axes_of(self, ax)
        label = self.name if name is None else name
        self.line_ = draw_curve(ax, self.rejected, self.mean_cost, label, **kwargs)
        if self.chosen is not None:
            ax.plot(
                *self.chosen, marker="o", markersize=10, markeredgecolor=BLACK, linestyle="None",
                markerfacecolor=self.line_.get_color(), zorder=3,
            )  # fmt: skip
        label_axes(ax, "Rejected (share of cases)", "Mean cost of a case")
        ax.margins(y=0.08)
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None,
        ax: Any = None, name: str | None = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the curve of a fitted :class:`RejectingClassifier` on the data given.

        Cases are rejected in the order of its confidence, the least sure first. The dot is what it
        rejects itself.

        Parameters
        ----------
        estimator : estimator
            Fitted `RejectingClassifier`, or pipeline that ends in one. Costs are its ``costs``,
            which must have a column for rejecting, or 1 for an error and its ``reject_cost``.
        X, y : array-like
            Inputs and true labels, best not those of the fit.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the cases.
        ax, name, **kwargs
            As for :meth:`plot`; the name is by default the class of the classifier inside.

        Returns
        -------
        CostRejectionDisplay
            With the curve drawn.
        """
        check_is_fitted(estimator)
        last, X = unwrapped(estimator, X)
        if not isinstance(last, RejectingClassifier):
            raise TypeError(
                f"CostRejectionDisplay.from_estimator takes a RejectingClassifier, which knows "
                f"costs; got {type(last).__name__}. Use from_predictions."
            )
        labels, rejected = last.decide(X)
        deciding, rejecting = last.costs_of(X, y, labels)
        if np.isnan(rejecting).any():
            raise ValueError(
                "costs has no column for rejecting, so its cost is not known; add one to costs."
            )
        cost = np.where(rejected, rejecting, deciding)
        weight = case_weights(sample_weight, len(cost))
        of_all = np.average(np.c_[rejected, cost], axis=0, weights=weight)
        chosen = float(of_all[0]), float(of_all[1])
        arrays = (deciding, rejecting, last.confidence_scores(X))
        share, mean_cost, _ = cost_rejection_curve(*arrays, sample_weight=sample_weight)
        name = type(unwrapped(last.estimator_)).__name__ if name is None else name
        shown = cls(rejected=share, mean_cost=mean_cost, chosen=chosen, name=name)
        return shown.plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, cost: ArrayLike, reject_cost: ArrayLike, confidence: ArrayLike, *,
        sample_weight: ArrayLike | None = None, ax: Any = None, name: str | None = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the curve of costs and confidences.

        Parameters
        ----------
        cost, reject_cost, confidence, sample_weight
            As for :func:`~bayespoint.estimators.costs.cost_rejection_curve`.
        ax, name, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        CostRejectionDisplay
            With the curve drawn.
        """
        rejected, mean_cost, _ = cost_rejection_curve(
            cost, reject_cost, confidence, sample_weight=sample_weight
        )
        return cls(rejected=rejected, mean_cost=mean_cost, name=name).plot(ax, **kwargs)
