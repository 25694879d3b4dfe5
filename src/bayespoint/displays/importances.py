"""Picture of the features that matter most."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import check_positive_integer
from bayespoint._support.types import ArrayLike
from bayespoint.displays.style import BLUE, TEXT_SIZE, axes_of, check_lengths, label_axes
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.confidence import unwrapped
from bayespoint.estimators.importances import Importances, ranked
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.space.given import numbers

# Inches of a feature, and around all.
FEATURE_INCHES = 0.36
FRAME_INCHES = (8.0, 1.5)

# Characters of a name: longer ones leave no room for the points.
SHOWN_NAME = 32

LABEL = "Loss of log-probability per row\nwithout the feature (nats)"


class FeatureImportanceDisplay:
    """Importances of features with their standard errors, the most important on top.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    names : array-like of str, shape (n,)
        Names of features, or of groups of features.
    importances, errors : array-like of shape (n,)
        As ``feature_importances_`` and ``feature_importances_std_`` of
        :class:`BayesPointClassifier`.

    Attributes
    ----------
    points_ : matplotlib ErrorbarContainer
        A point per feature, and bars of one standard error to both sides.
    line_ : matplotlib Line2D
        At 0.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.displays import FeatureImportanceDisplay
    >>> iris = load_iris()
    >>> clf = BayesPointClassifier(gamma="scale", softness=0.1).fit(iris.data, iris.target)
    >>> display = FeatureImportanceDisplay.from_estimator(clf, feature_names=iris.feature_names)
    >>> sorted(label.get_text() for label in display.ax_.get_yticklabels())[:2]
    ['petal length (cm)', 'petal width (cm)']
    """

    def __init__(self, *, names: ArrayLike, importances: ArrayLike, errors: ArrayLike) -> None:
        self.names = np.asarray(names)
        self.importances = numbers("importances", importances, finite=False)
        self.errors = numbers("errors", errors, finite=False)
        check_lengths(self, ("names", "importances", "errors"), "feature")
        if not np.all(np.isfinite(self.importances)):
            raise ValueError(f"importances must be finite; got {self.importances}.")
        if not np.all(np.isfinite(self.errors) & (self.errors >= 0)):
            raise ValueError(f"errors must be finite and >= 0; got {self.errors}.")

    def plot(self, ax: Any = None, *, max_features: int = 20, **kwargs: Any) -> Self:
        """Draw the points on `ax` (default: a new figure), of at most `max_features` features.

        `kwargs` go to matplotlib's ``errorbar``.
        """
        check_positive_integer("max_features", max_features)
        order = np.argsort(-self.importances, kind="stable")[:max_features]
        place = np.arange(len(order))
        size = (FRAME_INCHES[0], FRAME_INCHES[1] + FEATURE_INCHES * len(order))
        ax = axes_of(self, ax, size)
        style = {"fmt": "o", "color": BLUE, "markersize": 7, "elinewidth": 2, "capsize": 4}
        self.line_ = ax.axvline(0.0, color="0.4", linewidth=1, zorder=1)
        self.points_ = ax.errorbar(
            self.importances[order], place, xerr=self.errors[order], **(style | kwargs)
        )
        ax.set_yticks(place, [_shortened(str(name)) for name in self.names[order]])
        ax.set_ylim(len(place) - 0.5, -0.5)
        left_out = len(self.names) > len(order)
        label_axes(ax, LABEL, f"{len(order)} of {len(self.names)} features" if left_out else "")
        ax.tick_params(labelsize=TEXT_SIZE)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", alpha=0.3)
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, feature_names: Sequence[str] | None = None,
        max_features: int = 20, ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the importances of the features of a fitted classifier.

        Parameters
        ----------
        estimator : BayesPointClassifier
            Fitted classifier, a pipeline that ends with one, or a :class:`RejectingClassifier`
            around one. With ``feature_groups`` a group is one point, under its label.
        feature_names : sequence of str, default=None
            One name per column of the classifier's input; by default ``feature_names_in_``, the
            names that the pipeline gives, or numbers.
        max_features : int, default=20
            Largest number of features to draw, the most important ones.
        ax, **kwargs
            As for :meth:`plot`.

        Returns
        -------
        FeatureImportanceDisplay
            With the points drawn.
        """
        check_is_fitted(estimator)
        last = unwrapped(estimator)
        if isinstance(last, RejectingClassifier):  # of a pipeline, too
            inner = last.estimator_
            estimator, last = (inner if last is estimator else estimator), unwrapped(inner)
        if not isinstance(last, BayesPointClassifier):
            raise ValueError(
                f"estimator must be a BayesPointClassifier; got {type(last).__name__}."
            )
        found = Importances(last.feature_importances_, last.feature_importances_std_)
        names = _names(estimator, last) if feature_names is None else list(feature_names)
        if len(names) != len(found.mean):
            raise ValueError(
                f"feature_names must hold one name for each of the {len(found.mean)} columns that "
                f"the classifier takes; got {len(names)}."
            )
        shown, mean, error = zip(*ranked(found, names, last.feature_groups), strict=True)
        display = cls(names=shown, importances=mean, errors=error)
        return display.plot(ax, max_features=max_features, **kwargs)


def _names(estimator: Any, last: BayesPointClassifier) -> list[str]:
    """Names of the columns that the classifier takes."""
    if hasattr(last, "feature_names_in_"):
        return list(last.feature_names_in_)
    if isinstance(estimator, Pipeline) and len(estimator) > 1:
        try:
            return list(estimator[:-1].get_feature_names_out())
        except (AttributeError, ValueError):
            pass  # steps that do not say
    return [f"Feature {i}" for i in range(last.n_features_in_)]


def _shortened(name: str) -> str:
    return name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 1] + "…"
