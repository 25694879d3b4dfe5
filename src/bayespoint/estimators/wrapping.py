"""What wrappers around a classifier share: fitting it, metadata for it, and what it says itself."""

from collections.abc import Callable, Iterator
from reprlib import repr as short
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bayespoint._support.types import Array
from bayespoint.estimators.confidence import check_has_proba, said
from bayespoint.estimators.held_out import Source
from bayespoint.estimators.risk import CheckedScore, case_weights
from bayespoint.space.given import checked_labels, checked_weights


def estimator_has(method: str) -> Callable[[Any], bool]:
    """Whether the classifier inside a wrapper has a method, for ``available_if``."""

    def has(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), method)

    return has


class WrappingClassifier(CheckedScore, MetaEstimatorMixin, BaseEstimator):
    """A classifier around another one, ``estimator``, whose held-out rows tell it how to decide.

    ``cv`` says which rows these are; "prefit" stands for an estimator that is fitted already.
    """

    estimator: Any
    estimator_: Any
    cv: Any
    classes_: Array

    def check_wrapped(self, sample_weight: Any) -> None:
        """Check what all wrappers take."""
        if not _is_classifier(self.estimator):
            raise ValueError(f"estimator={self.estimator!r} is not a classifier; give one")
        if isinstance(self.cv, str) and self.cv not in ("auto", "prefit"):
            raise ValueError(
                f'cv={self.cv!r} is not known; give "auto", a number of folds or "prefit"'
            )
        if not isinstance(self.cv, str):
            _check_folds(self.cv)
        if self._is_prefit() and sample_weight is not None:
            raise ValueError(
                'sample_weight was given with cv="prefit", where nothing is trained and thresholds '
                "count every row once; leave it out"
            )

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def check_parameters(self, sample_weight: Any) -> None:
        """Check the parameters that do not depend on data."""
        raise NotImplementedError

    def check_with(self, classes: Array) -> None:
        """Check parameters that name classes, once these are known."""

    def _needs_proba(self) -> bool:
        """Whether decisions take probabilities."""
        return True

    def _calibrate(self, X: Any, y: Array, source: Source) -> None:
        """Find how to decide, from cases that the classifier has not seen."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Fit the classifier, and find from held-out rows how to decide.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed to the classifier's `fit`.
        **params : dict
            Metadata, with routing enabled.

        Returns
        -------
        self
            This object.
        """
        self.check_parameters(sample_weight)
        y = checked_labels(y)
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, len(y))
        params, sample_weight = self._params_of(sample_weight, params)
        counted = case_weights(sample_weight, len(y)) > 0
        # Errors in what names classes show before a long fit.
        prefit = self._is_prefit()
        self.check_with(self.fitted_before().classes_ if prefit else np.unique(y[counted]))
        interrupted = self._fit_inside(X, y, params)
        if self._needs_proba():
            check_has_proba(self.estimator_)
        self.check_with(self.classes_)
        source = Source(
            self.estimator, self.estimator_, self.cv, params, counted, interrupted=interrupted
        )
        self._calibrate(X, y, source)
        source.raise_if_interrupted()
        return self

    def fitted_before(self) -> Any:
        """Return the estimator, which is said to be fitted; an error if it is not."""
        check_is_fitted(self.estimator)
        return self.estimator

    def _fit_inside(self, X: Any, y: Array, params: dict[str, Any]) -> bool:
        """Fit the classifier, unless it is, and take over what it knows of the data.

        Returns whether Ctrl-C cut that short, with a fit that may be of use.
        """
        interrupted = False
        if self._is_prefit():
            check_consistent_length(X, y)
            if len(y) == 0:
                raise ValueError('X has no rows; with cv="prefit" give rows to calibrate with')
            self.estimator_ = self.fitted_before()
        else:
            inside = clone(self.estimator)
            try:
                inside.fit(X, y, **self._of_estimator(params))
            except KeyboardInterrupt:
                if not hasattr(inside, "classes_"):
                    raise
                interrupted = True
            self.estimator_ = inside
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return interrupted

    def _of_estimator(self, params: dict[str, Any]) -> dict[str, Any]:
        """Metadata that goes to the classifier's `fit`, under the names that it has there."""
        if sklearn.get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **params).estimator.fit)
        return params

    def _params_of(self, sample_weight: Any, given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Metadata of `fit`, and the weights among them that reach the last step.

        Without routing there are only weights, by the name of the last step.
        """
        if sklearn.get_config()["enable_metadata_routing"]:
            params = given | ({} if sample_weight is None else {"sample_weight": sample_weight})
            routed = self._of_estimator(params)  # refuses what nobody asks for
            if sample_weight is not None and all(v is not sample_weight for v in routed.values()):
                raise TypeError(
                    f"sample_weight was given, but {type(self.estimator).__name__} does not "
                    "request it; call its set_fit_request(sample_weight=True), leave the weights "
                    "out, or choose a classifier that takes them"
                )
            return params, _weights_that_arrive(self.estimator, routed)
        if given:
            raise TypeError(
                f"fit got {', '.join(given)}, which take metadata routing: call "
                "sklearn.set_config(enable_metadata_routing=True), and let the estimator request "
                "them with set_fit_request"
            )
        return _weights_for(self.estimator, sample_weight), sample_weight

    def get_metadata_routing(self) -> MetadataRouter:
        """Say to whom the metadata of `fit` go: to the estimator, and to the splitter of `cv`."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        if not isinstance(self.cv, str):
            to_split = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=self.cv, method_mapping=to_split)
        return router

    @available_if(estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Return the classifier's probabilities, of rejected rows as well."""
        check_is_fitted(self)
        return said(self.estimator_, "predict_proba", X)

    @available_if(estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Return the classifier's outputs, of rejected rows as well."""
        check_is_fitted(self)
        return said(self.estimator_, "decision_function", X)

    def __sklearn_tags__(self) -> Any:
        """Tags of the classifier inside, for one label per case."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
            tags.classifier_tags.multi_label = False
        return tags


def _is_classifier(estimator: Any) -> bool:
    """Whether this is an object, no class, that scikit-learn takes for a classifier."""
    told = hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)
    return told and is_classifier(estimator)


def _check_folds(cv: Any) -> None:
    """Refuse what scikit-learn cannot divide rows by."""
    if isinstance(cv, int | np.integer):
        sound = not isinstance(cv, bool) and cv >= 2
    elif isinstance(cv, list | tuple | np.ndarray):
        sound = np.ndim(cv) > 0 if isinstance(cv, np.ndarray) else True
        sound = sound and len(cv) > 0 and all(_is_pair(fold) for fold in cv)
    else:
        sound = cv is None or hasattr(cv, "split") or isinstance(cv, Iterator)
        sound = sound and not isinstance(cv, bytes | type)
    if not sound:
        raise ValueError(
            f"cv={short(cv)} is not valid; give a number of folds >= 2, a splitter, pairs of row "
            'numbers to train and to test with, "auto" or "prefit"'
        )


def _is_pair(fold: Any) -> bool:
    return hasattr(fold, "__len__") and len(fold) == 2 and all(np.ndim(rows) == 1 for rows in fold)


def _weights_that_arrive(estimator: Any, routed: dict[str, Any]) -> Any:
    """Weights that routing takes to the last step's `fit`, under whatever name; None without."""
    while isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        estimator, routed = last, process_routing(estimator, "fit", **routed)[name].fit
    return routed.get("sample_weight")


def _weights_for(estimator: Any, sample_weight: Any) -> dict[str, Any]:
    """Keyword that takes the weights to the last step's `fit`."""
    if sample_weight is None:
        return {}
    path = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        path += f"{name}__"
    if not has_fit_parameter(estimator, "sample_weight"):
        raise TypeError(
            f"sample_weight was given, but {type(estimator).__name__}.fit does not take it; "
            "leave it out or choose a classifier that does"
        )
    return {path + "sample_weight": sample_weight}
