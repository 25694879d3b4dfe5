"""Picture of what is left of the error when doubtful cases are rejected."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import ArrayLike
from bayespoint.displays.style import axes_of, check_lengths, draw_curve, label_axes, percent
from bayespoint.estimators.confidence import confidence_of, unwrapped
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.estimators.risk import aurc, risk_coverage_curve
from bayespoint.space.given import numbers


class RiskCoverageDisplay:
    """Picture of a risk-coverage curve, with the conventions of scikit-learn's displays.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    coverage, risk : array-like of shape (n_distinct,)
        As returned by :func:`risk_coverage_curve`.
    aurc : float, default=None
        Area under the curve, shown in the legend.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve, in steps: the area under it is the AURC.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayespoint import RiskCoverageDisplay
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_breast_cancer(return_X_y=True), random_state=0)
    >>> display = RiskCoverageDisplay.from_estimator(GaussianNB().fit(X, y), X_test, y_test)
    >>> display.ax_.get_xlabel()
    'Coverage (share of cases decided)'
    """

    def __init__(
        self, *, coverage: ArrayLike, risk: ArrayLike, aurc: float | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self.coverage = numbers("coverage", coverage)
        self.risk = numbers("risk", risk)
        check_lengths(self, ("coverage", "risk"), "point")
        self.aurc = aurc
        self.name = name

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve on `ax` (default: a new figure); `kwargs` go to matplotlib's ``plot``.

        Further curves on the same axes get their own colour and dashes.
        """
        ax = axes_of(self, ax)
        name = self.name if name is None else name
        area = None if self.aurc is None else f"AURC = {self.aurc:.2%}"
        label = f"{name} ({area})" if name and area else name or area
        # The first group's risk holds from coverage 0 on, as in the definition of the area.
        coverage, risk = np.append(0.0, self.coverage), np.append(self.risk[0], self.risk)
        steps = {"drawstyle": "steps-pre"} | kwargs
        self.line_ = draw_curve(ax, coverage, risk, label, **steps)
        label_axes(ax, "Coverage (share of cases decided)", "Risk (error among decided cases)")
        ax.yaxis.set_major_formatter(percent)
        ax.set_ylim(bottom=0, auto=None)  # the top still grows with later curves
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, confidence: Any = None,
        sample_weight: ArrayLike | None = None, ax: Any = None, name: str | None = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the curve of a fitted classifier on the data given.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier, or pipeline that ends in one. For a :class:`RejectingClassifier`
            the curve is that of its labels before any rejection.
        X, y : array-like
            Inputs and true labels, best not those of the fit.
        confidence : {"probability", "gap", "output", "vote"} or callable, default=None
            As for :class:`RejectingClassifier`; by default its own rule where the estimator is
            one, else "gap".
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the cases.
        ax, name, **kwargs
            As for :meth:`plot`; the name is by default the classifier's class.

        Returns
        -------
        RiskCoverageDisplay
            With the curve drawn.
        """
        check_is_fitted(estimator)
        last, X_last = unwrapped(estimator, X)
        predicted = None
        if isinstance(last, RejectingClassifier):
            estimator, X = last.estimator_, X_last
            predicted = last.decide(X)[0]
        if confidence is not None or predicted is None:
            sure = confidence_of(estimator, X, "gap" if confidence is None else confidence)
        else:
            sure = last.confidence_scores(X)
        return cls.from_predictions(
            y,
            estimator.predict(X) if predicted is None else predicted,
            sure,
            sample_weight=sample_weight,
            ax=ax,
            name=type(unwrapped(estimator)).__name__ if name is None else name,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, *,
        sample_weight: ArrayLike | None = None, ax: Any = None, name: str | None = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the curve of predictions and their confidences.

        Parameters
        ----------
        y_true, y_pred, confidence, sample_weight
            As for :func:`risk_coverage_curve`.
        ax, name, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        RiskCoverageDisplay
            With the curve drawn.
        """
        arrays = (y_true, y_pred, confidence)
        coverage, risk, _ = risk_coverage_curve(*arrays, sample_weight=sample_weight)
        area = aurc(*arrays, sample_weight=sample_weight)
        return cls(coverage=coverage, risk=risk, aurc=area, name=name).plot(ax, **kwargs)
