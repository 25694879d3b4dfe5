"""`BayesPointClassifier` as a classifier of river: one row at a time, or a few."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length

try:
    from river import base
    from river.utils.dataframe import (
        into_frame,
        into_series,
        to_native_frame,
        to_native_series,
    )
except ImportError as error:
    raise ImportError(
        "bayespoint.io.river needs river, 0.26 or later; run: pip install 'bayespoint[river]'"
    ) from error

from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.streams import faded_weights

# Rows that wait are learnt when a prediction is asked for and they are this share of those learnt,
# at least one. A row then costs the same at any size of the model.
DUE = 0.05

# Rows that wait at most, whether predictions are asked for or not.
MOST_WAITING = 10_000

Row = dict[Any, float]


class RiverClassifier(base.MiniBatchClassifier):
    """Bayes point machine that learns from a stream of rows, as river's models do.

    Rows wait until a prediction is asked for and they are 5 % of those learnt (by weight, with a
    half-life), or of a class not learnt yet; `BayesPointClassifier.partial_fit` then takes all of
    them. A prediction may so lack the newest 5 % of the rows; `absorb` learns them at once. No more
    than 10,000 rows wait.

    Features are those of the rows of the first `partial_fit`, which is at the first prediction
    after two classes have come; in order of their names. Others that come later are left out, and
    one that is missing, None or NaN counts as 0. To give all features in time, learn some rows
    before the first prediction.

    Before anything is learnt there are no probabilities; a class that is the only one has
    probability 1, and of its rows the newest 10,000 wait for a second one.

    Parameters
    ----------
    classifier : BayesPointClassifier, default=None
        Whose parameters are used; it is copied, and what it was fitted to is not. Its inference
        and decision must be such that it can learn on, as they are by default. None:
        ``BayesPointClassifier()``, which chooses its settings again whenever there are twice as
        many rows; with settings that are given learning is several times faster.
    seed : int, default=None
        In place of the classifier's ``random_state``.

    Attributes
    ----------
    classifier_ : BayesPointClassifier
        What has learnt, once there were two classes: for `displays.PredictiveDisplay`, and to save.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.io.river import RiverClassifier
    >>> settings = BayesPointClassifier(gamma=0.1, softness=0.1, bias=1.0)
    >>> model = preprocessing.StandardScaler() | RiverClassifier(settings, seed=0)
    >>> found = evaluate.progressive_val_score(
    ...     datasets.Phishing().take(200), model, metrics.Accuracy())
    >>> found.get() > 0.8
    True
    """

    def __init__(
        self, classifier: BayesPointClassifier | None = None, seed: int | None = None
    ) -> None:
        self.classifier = classifier
        self.seed = seed
        self.classifier_ = _unfitted(classifier, seed)
        self._names: list[Any] = []  # of features, once they are settled
        self._rows: list[Row] = []  # that wait, and their labels
        self._labels: list[Any] = []
        self._classes: dict[Any, None] = {}  # in the order in which they came
        self._new_class = False  # among the rows that wait
        self._learnt = 0.0  # rows, as they count now

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Take a row.

        Parameters
        ----------
        x : dict
            Numbers by the names of the features.
        y : bool, int or str
        """
        self._take(_numbers(x), self._label(y))

    def learn_many(self, X: Any, y: Any) -> None:
        """Take rows; the same as one by one.

        Parameters
        ----------
        X : DataFrame
            Of pandas, or another that river takes.
        y : Series
        """
        rows = _rows_of(into_frame(X))
        given = into_series(y).to_list()
        check_consistent_length(rows, given)
        labels = [self._label(label, given[0]) for label in given]
        for row, label in zip(rows, labels, strict=True):
            self._take(row, label)

    def predict_proba_one(self, x: dict[Any, Any], **_kwargs: Any) -> dict[Any, float]:
        """Probability of each class.

        Parameters
        ----------
        x : dict

        Returns
        -------
        dict
            By classes; empty before anything is learnt.
        """
        proba, classes = self._proba([_numbers(x)])
        return dict(zip(classes, proba[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of the classes for several rows.

        Parameters
        ----------
        X : DataFrame

        Returns
        -------
        DataFrame
            Of the same kind, a column for each class; empty before anything is learnt.
        """
        frame = into_frame(X)
        proba, classes = self._proba(_rows_of(frame))
        if not classes:
            return frame.select().to_native()
        return to_native_frame(dict(zip(classes, proba.T, strict=True)), like=frame)

    def predict_many(self, X: Any) -> Any:
        """Most probable classes of several rows.

        Parameters
        ----------
        X : DataFrame

        Returns
        -------
        Series
            Of the same kind; of None before anything is learnt.
        """
        frame = into_frame(X)
        proba, classes = self._proba(_rows_of(frame))
        found = [classes[k] for k in np.argmax(proba, axis=1)] if classes else [None] * len(proba)
        return to_native_series(found, name=None, like=frame)

    def absorb(self) -> None:
        """Learn all rows that wait, once there have been two classes."""
        if not self._names and len(self._classes) > 1:
            self._names = _in_order({name for row in self._rows for name in row})
        if not self._names or not self._labels:
            return
        n_rows, half_life = len(self._labels), self.classifier_.half_life
        X, y = self._matrix(self._rows), np.array(self._labels)
        self.classifier_.partial_fit(X, y)
        share = 1.0 if half_life is None else 0.5 ** (n_rows / half_life)
        weight = faded_weights(np.ones(n_rows), half_life)
        self._learnt = share * self._learnt + float(np.sum(weight))
        self._rows, self._labels, self._new_class = [], [], False

    def _label(self, y: Any, other: Any = None) -> Any:
        """Return the label as Python has it; refuse what is none, and words among numbers."""
        label = y.item() if isinstance(y, np.generic) else y
        if not isinstance(label, int | str) and not (
            isinstance(label, float) and label.is_integer()
        ):
            raise ValueError(f"y must be a bool, an int or a str; got {y!r}.")
        other = next(iter(self._classes), label if other is None else other)
        if isinstance(label, str) != isinstance(other, str):
            raise ValueError(
                f"y must be of the type of the labels before, as {other!r}; got {y!r}."
            )
        return label

    def _take(self, row: Row, label: Any) -> None:
        self._rows.append(row)
        self._labels.append(label)
        if label not in self._classes:
            self._classes[label] = None
            self._new_class = True
        if len(self._labels) >= MOST_WAITING:
            self.absorb()
            del self._rows[:-MOST_WAITING], self._labels[:-MOST_WAITING]  # of a single class

    def _proba(self, rows: list[Row]) -> tuple[Array, list[Any]]:
        """Probabilities, and the classes that their columns are of."""
        if self._new_class or len(self._labels) >= max(DUE * self._learnt, 1):
            self.absorb()
        classes = list(self._classes)
        if not self._names:
            return np.full((len(rows), len(classes)), 1 / max(len(classes), 1)), classes
        return self.classifier_.predict_proba(
            self._matrix(rows)
        ), self.classifier_.classes_.tolist()

    def _matrix(self, rows: list[Row]) -> Matrix:
        return np.array([[row.get(name, 0.0) for name in self._names] for row in rows])


def _unfitted(classifier: Any, seed: int | None) -> BayesPointClassifier:
    """Return a copy of the classifier that has learnt nothing, or a new one."""
    if classifier is None:
        return BayesPointClassifier(random_state=seed)
    if not isinstance(classifier, BayesPointClassifier):
        raise TypeError(
            f"classifier must be a BayesPointClassifier; got {type(classifier).__name__}. What "
            f"comes before it, in a pipeline, must be river's."
        )
    if not hasattr(classifier, "partial_fit"):
        raise ValueError(
            f"RiverClassifier needs a classifier with partial_fit, by EP with votes; got inference="
            f"{classifier.inference!r}, decision={classifier.decision!r} and kernel="
            f"{classifier.kernel!r}. Leave these at their defaults."
        )
    copied = clone(classifier)
    return copied if seed is None else copied.set_params(random_state=seed)


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Names in an order that does not depend on that in which they came."""
    try:
        return sorted(names)
    except TypeError:  # of several types
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def _numbers(x: dict[Any, Any]) -> Row:
    return {name: _number(name, value) for name, value in x.items()}


def _number(name: Any, value: Any) -> float:
    """Return a value as a float, 0 where it is missing."""
    if value is None:
        return 0.0
    try:
        if isinstance(value, str):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"feature {name!r} must be a number; got {value!r}. Encode words first, with river's "
            f"OneHotEncoder for example."
        ) from error
    if math.isinf(number):
        raise ValueError(f"feature {name!r} must be finite; got {value!r}.")
    return 0.0 if math.isnan(number) else number


def _rows_of(frame: Any) -> list[Row]:
    """Rows of a data frame, without what is missing."""
    return [_numbers(row) for row in frame.iter_rows(named=True)]
