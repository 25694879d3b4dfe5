"""DaskBayesPointClassifier: what is given is checked, `fitting` and the cluster do the rest."""

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import Array
from bayespoint.distributed import fitting
from bayespoint.distributed.blocks import blocks_of, facts_of, parts_of, with_own_names
from bayespoint.distributed.fitting import ClusterFit
from bayespoint.distributed.model import LocalModel, joined, right_of
from bayespoint.distributed.session import Session, dask_client
from bayespoint.estimators.calibration import LINK_SHARE
from bayespoint.estimators.classifier import BayesPointClassifier


class DaskBayesPointClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A `BayesPointClassifier` that is fitted on a Dask cluster.

    The model is the one that `BayesPointClassifier` finds from the same rows on one machine, for
    any number of workers, threads and partitions. Rows are moved to their cells once for each tree;
    then cells are swept where they are, and only sums of their messages are sent. If a worker is
    lost, its share is computed again; a worker that joins gets a share.

    Parameters
    ----------
    estimator : BayesPointClassifier
        Holds the parameters of the fit. Each task uses one thread; ``n_jobs`` is for the client,
        which chooses settings and grows trees. ``max_time`` includes the time to move rows to
        their cells. ``device="auto"`` fits on the GPUs of those workers that have one, "cuda" needs
        one on each; the client chooses settings on its CPU.
    client : distributed.Client, optional
        By default the current one. With another one, compute predictions by ``client.compute``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, shape (n_features,)
        Only if X was a data frame.

    See Also
    --------
    bayespoint.BayesPointClassifier : On one machine.

    Notes
    -----
    X, y and weights are computed twice: persist them if that takes long. The client needs about 110
    bytes for each row, and a sample of the rows. Methods other than EP by cells take all rows at
    once, on one worker that can hold them; draws of perceptrons are spread over all workers. The
    model keeps its rows on the cluster and exists as long as the cluster; `to_local` fetches it.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.distributed import DaskBayesPointClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> X, y = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    >>> one = BayesPointClassifier(
    ...     "rbf", gamma=2.0, softness=0.1, bias=1.0, inference="ep", cell_size=100, n_landmarks=0,
    ...     random_state=0,
    ... )
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     clf = DaskBayesPointClassifier(one, client).fit(X, y)
    ...     clf.predict_proba(X).compute().shape
    ...     model = clf.to_local()
    (400, 2)
    >>> model.predict([[0.0, 1.0], [1.0, -0.5]])
    array([0, 1])
    """

    def __init__(self, estimator: BayesPointClassifier, client: Any = None) -> None:
        self.estimator = estimator
        self.client = client

    def __sklearn_clone__(self) -> "DaskBayesPointClassifier":
        """Return another one that is not fitted, with the same client, which cannot be copied."""
        other = type(self)(**self.get_params(deep=False) | {"client": None})
        if hasattr(self, "_metadata_request"):
            other._metadata_request = self._metadata_request
        made: DaskBayesPointClassifier = BaseEstimator.__sklearn_clone__(other)
        made.client = self.client
        return made

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DaskBayesPointClassifier":
        """Fit rows of Dask collections on their cluster.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Its blocks are dense or SciPy's sparse matrices; blocks may be empty, and their sizes
            unknown.
        y : dask array or series of shape (n_samples,)
            With the same partitions as X.
        sample_weight : dask array or series of shape (n_samples,), optional
            A weight w means w copies; 0 leaves a row out.

        Returns
        -------
        self : DaskBayesPointClassifier
        """
        with self._session(1 - LINK_SHARE) as session:
            found = fitting.fit(session, self._checked_estimator(), X, y, sample_weight)
        self._keep(found)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> "DaskBayesPointClassifier":
        """Learn more rows, one partition after the other.

        Each partition is one call of `BayesPointClassifier.partial_fit` on the client. The model
        is then a local one, whose rows take at most half of ``cache_size``.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
        y : dask array or series of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            Classes that may appear later, in addition to those of this call.
        sample_weight : dask array or series of shape (n_samples,), optional

        Returns
        -------
        self : DaskBayesPointClassifier
        """
        from dask import delayed

        blocks = blocks_of(X, y, sample_weight)
        known = self.to_local() if hasattr(self, "classes_") else clone(self._checked_estimator())
        model = copy(known)  # an error leaves what there was
        with self._session() as session:
            facts = facts_of(session, blocks, least_classes=1)  # after all were checked
            named = facts.classes if classes is None else np.union1d(facts.classes, classes)
            parts = [delayed(list(one)) for one in parts_of(X, y, sample_weight)]
            parts = with_own_names(parts, session.key("rows"))
            for rows, labels, weight in session.one_by_one(parts):
                if len(labels) and (weight is None or np.any(np.asarray(weight) > 0)):
                    model.partial_fit(rows, labels, named, weight)
        self._keep(model)
        return self

    def _checked_estimator(self) -> BayesPointClassifier:
        if not isinstance(self.estimator, BayesPointClassifier):
            raise TypeError(
                f"estimator must be a BayesPointClassifier; got {type(self.estimator).__name__}."
            )
        return self.estimator

    def _session(self, share: float = 1.0) -> Session:
        budget = self._checked_estimator().checked_parameters().budget(share)
        return Session(dask_client(self.client), budget)

    def _keep(self, found: ClusterFit | BayesPointClassifier) -> None:
        """Hold a model instead of the one that was there."""
        is_local = isinstance(found, BayesPointClassifier)
        self.model_: Any = LocalModel(found) if is_local else found.model
        self.fitted_ = found
        known = self.model_.checker
        self.classes_, self.n_features_in_ = self.model_.classes, known.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(known, "feature_names_in_"):
            self.feature_names_in_ = known.feature_names_in_

    # ------------------------------------------------------------------ the model

    def to_local(self) -> BayesPointClassifier:
        """Return the model as a plain `BayesPointClassifier`, its rows in the memory of the client.

        It is the same as after a fit on one machine, except that `held_out_proba_` has NaN for rows
        of weight 0.

        Returns
        -------
        BayesPointClassifier
        """
        check_is_fitted(self, "classes_")
        if isinstance(self.fitted_, BayesPointClassifier):
            return self.fitted_
        with self._session() as session:
            return fitting.local(session, self.fitted_)

    def settled(self) -> BayesPointClassifier:
        """Return a classifier that is not fitted, with the numbers that this fit chose.

        Returns
        -------
        BayesPointClassifier
        """
        check_is_fitted(self, "classes_")
        if isinstance(self.fitted_, BayesPointClassifier):
            return self.fitted_.settled()
        return fitting.settled(self.fitted_)

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be copied or saved with a model that lies on a cluster."""
        if isinstance(self.__dict__.get("fitted_"), ClusterFit):
            raise TypeError(
                "a fitted DaskBayesPointClassifier holds its rows on the cluster: copy or save "
                "to_local() instead."
            )
        return dict(super().__getstate__())

    # ------------------------------------------------------------------ predictions

    def predict(self, X: Any) -> Any:
        """Predict the class of each row, lazily.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,)
        """
        return self._answers(X, "predict")

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, lazily.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples, n_classes)
        """
        return self._answers(X, "predict_proba")

    def decision_function(self, X: Any) -> Any:
        """Outputs that decide, lazily: see `BayesPointClassifier.decision_function`.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        dask array of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._answers(X, "decision_function")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of labels that are predicted, computed at once.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or series of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self, "classes_")
        parts = right_of(self.model_.answers(X, "predict"), X, y, sample_weight)
        with self._session() as session:
            parts = with_own_names(parts, session.key("score"))
            found: Array = np.sum(session.results(session.compute(parts)), axis=0)
        return float(found[0] / found[1])

    def _answers(self, X: Any, method: str) -> Any:
        check_is_fitted(self, "classes_")
        return joined(self.model_.answers(X, method), X, self.classes_, method)
