"""`bayespoint.active.query` as a query strategy of scikit-activeml."""

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

try:
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.utils import (
        MISSING_LABEL,
        check_equal_missing_label,
        check_type,
        simple_batch,
    )
except ImportError as error:
    raise ImportError(
        "bayespoint.active.scikit_activeml needs scikit-activeml; run: "
        "pip install 'bayespoint[active]'"
    ) from error

from bayespoint._support.types import Seed
from bayespoint.active.queries import query_with_utilities


class PosteriorQuery(SingleAnnotatorPoolQueryStrategy):
    """Query points that the posterior of a Bayes point machine is least sure of.

    Parameters
    ----------
    strategy : {"entropy", "bald"}, default="entropy"
        As for `bayespoint.active.utilities`.
    missing_label : scalar or string or np.nan or None, default=MISSING_LABEL
        Value that stands for a label not known.
    random_state : int, RandomState or None
    """

    def __init__(
        self, strategy: str = "entropy", missing_label: Any = MISSING_LABEL,
        random_state: Seed = None,
    ) -> None:  # fmt: skip
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy = strategy

    def query(
        self, X: Any, y: Any, clf: Any, fit_clf: bool = True, sample_weight: Any = None,
        candidates: Any = None, batch_size: int = 1, return_utilities: bool = False,
    ) -> Any:  # fmt: skip
        """Choose points to have labelled.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, ``missing_label`` where they are not known.
        clf : skactiveml.classifier.SklearnClassifier
            Around a `BayesPointClassifier` (or a pipeline that ends in one).
        fit_clf : bool, default=True
            Whether to fit a copy of it first.
        sample_weight : array-like of shape (n_samples,), optional
        candidates : array-like of int or of shape (n_candidates, n_features), optional
            Rows of X, or points, to choose from. Default: all rows without a label.
        batch_size : int, default=1
        return_utilities : bool, default=False

        Returns
        -------
        query_indices : ndarray of shape (batch_size,)
            Rows of X, or of ``candidates`` where these are points.
        utilities : ndarray of shape (batch_size, n_samples or n_candidates)
            What each point was worth when each of the batch was chosen; NaN for points that
            could not be. Only with ``return_utilities``.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        X_cand, mapping = self._transform_candidates(candidates, X, y)
        check_type(clf, "clf", SklearnClassifier)
        check_equal_missing_label(clf.missing_label, self.missing_label_)
        check_type(fit_clf, "fit_clf", bool)
        if fit_clf:
            weight = {} if sample_weight is None else {"sample_weight": sample_weight}
            clf = clone(clf).fit(X, y, **weight)
        else:
            clf = copy(clf)
            check_is_fitted(clf)  # takes over an estimator that was fitted before it was wrapped
        n_rows = len(X_cand) if mapping is None else len(X)
        place = np.arange(len(X_cand)) if mapping is None else mapping
        if not clf.is_fitted_:  # fewer than two classes: any point is as good
            utilities = np.full(n_rows, np.nan)
            utilities[place] = 0.0
            return simple_batch(
                utilities, self.random_state_, batch_size=batch_size,
                return_utilities=return_utilities,
            )  # fmt: skip
        chosen, values = query_with_utilities(
            clf.estimator_, X_cand, batch_size, self.strategy, self.random_state_
        )
        while len(chosen) < batch_size:  # copies of these are all there is left
            again = np.where(np.isnan(values[-1]), np.nan, np.nan_to_num(values[0]))
            again[chosen[-1]] = np.nan
            values = np.vstack([values, again])
            chosen = np.append(chosen, np.nanargmax(again))
        utilities = np.full((len(chosen), n_rows), np.nan)
        utilities[:, place] = values
        indices = place[chosen]
        return (indices, utilities) if return_utilities else indices
