"""BayesPointClassifier: what is given is checked, `fitting` and `stream_steps` do the rest."""

import os
import threading
from copy import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import refuse_dask
from bayespoint._support.devices import MOST_LABEL_POINTS, is_tensor
from bayespoint._support.types import Array, Seed
from bayespoint.estimators import stream_merging, stream_steps
from bayespoint.estimators.base import KernelClassifier
from bayespoint.estimators.calibration import LINK_SHARE
from bayespoint.estimators.data import naming_rows, rows_of
from bayespoint.estimators.first_fit import fit_in_time
from bayespoint.estimators.fitting import SAME_DATA, Fitted, data_of
from bayespoint.estimators.importances import Importances, data_again, importances_of
from bayespoint.estimators.parameters import Parameters, on_cpu_only
from bayespoint.estimators.predictors import Asked
from bayespoint.estimators.stream_models import known_of
from bayespoint.estimators.streams import checked_batch, faded_weights
from bayespoint.inference.engines import place_of
from bayespoint.inference.methods import METHODS
from bayespoint.space.given import checked_weights
from bayespoint.space.host import Place

# How a fit takes less memory.
FIT_LESS = "Free some, pass float32 or fewer points, use inference='perceptron'"

# One thread at a time learns waiting rows; predictions in several threads may ask for it.
ABSORBING = threading.RLock()


def _start_anew() -> None:
    """Free the lock in a forked process: another thread may have held it."""
    global ABSORBING
    ABSORBING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def _learns_on(clf: "BayesPointClassifier") -> bool:
    """Whether rows can be added: to EP and its votes. Raises AttributeError, with the reason."""
    precomputed = isinstance(clf.kernel, str) and clf.kernel == "precomputed"
    votes = clf.decision in ("auto", "vote", "calibrated")
    if clf.inference not in ("ep", "auto") or not votes or precomputed:
        raise AttributeError(
            f"rows can be added with inference='ep' or 'auto', decision='auto', 'vote' or "
            f"'calibrated', and a kernel that is not precomputed; got inference={clf.inference!r}, "
            f"decision={clf.decision!r}, kernel={clf.kernel!r}."
        )
    return True


class BayesPointClassifier(KernelClassifier):
    """Kernel classifier that averages over many classifiers that agree with the data.

    Parameters
    ----------
    kernel : {"auto", "rbf", "laplacian", "linear", "poly", "precomputed"} or callable, \
            default="auto"
        "auto" is the RBF kernel, or the Laplacian kernel if that is better on held-out rows by more
        than 1.5 standard errors (by 3 on a small sample of many rows). The RBF kernel suits smooth
        boundaries; the Laplacian kernel suits thresholds in several columns, which are common in
        tables. The two are compared only if ``gamma`` is "held-out" or "ard" and X is dense, with
        at least 50 rows and 2 to 200 columns that are not all binary; otherwise "auto" is RBF. A
        callable ``kernel(X, Y)`` returns the array of kernel values; with ``n_jobs`` > 1 it is
        called from several threads.
    gamma : float, array-like of shape (n_features,) or {"held-out", "ard", "evidence", "scale"}, \
            default="held-out"
        Kernel coefficient: the larger, the narrower the kernel. With "rbf" and "laplacian" there
        may be one per feature; 0 ignores a feature.

        - "held-out": one value for all features, one per feature, or the geometric mean of the two,
          chosen by held-out labels (`gamma_choice_`). More than one value must be better by more
          than chance (at a level of 5 %) on rows that were not used to learn it. One value per
          feature needs at least 50 rows and at most 1,000 columns. The units of up to 1,000 columns
          do not matter, except that one value in given units is tried as well if the columns have
          comparable ranges: at least a twentieth of the largest, except for columns that hardly
          vary (nine rows of ten have their least or their largest value).
        - "ard": one value per feature, by the evidence of EP, on up to 1,000 rows or, with more, on
          complete cells.
        - "evidence": one value, by the evidence of EP (the probability of all labels) on at most
          500 points.
        - "scale": ``1 / (n_features * X.var())``, as in `sklearn.svm.SVC`.

        How labels are held out depends on the method. EP, billiard and Gibbs sampler use the
        probability of each label given all others (equal rows are left out together, unless their
        labels differ), on at most 500 points, at least two per class, then on at most 2,000.
        Perceptrons use the log-loss of five-fold cross-validation on at most 2,000 points, then try
        narrower widths on at most 10,000. EP by cells uses complete cells of the final size and
        holds out one row in five. ``gamma`` has no effect if the kernel has no such coefficient.
    feature_groups : array-like of shape (n_features,), default=None
        A label, int or str, for each column of X: columns with the same label share one width when
        widths are learnt, and `feature_importances_` leaves them out together. Use it for the
        one-hot columns of a categorical column; `TableEncoder.feature_groups_` has the labels.
        Columns of a group should have the same unit. None: each column is its own group.
    degree : int, default=3
        Degree of the "poly" kernel ``(gamma <x, x'> + coef0) ** degree``.
    coef0 : float, default=1.0
        Constant of the "poly" kernel.
    normalize_kernel : bool, default=True
        Whether to scale all points to unit length in feature space.
    bias : float or {"auto", "evidence"}, default="auto"
        Prior variance of the intercept, added to the kernel before normalisation; 0 for no
        intercept. "auto" chooses 0, 0.1, 1 or 10 by held-out labels; "evidence" as for ``gamma``.
    inference : {"auto", "perceptron", "billiard", "gibbs", "ep"}, default="auto"
        How the posterior is computed.

        - "perceptron": each draw is a kernel perceptron that visits the points in a new random
          order until it has no training errors (with ``decision="bayes_point"`` first nine tenths
          of the points, then all).
        - "billiard": exact draws from the posterior, which is uniform on version space, or, with
          ``label_noise``, weights classifiers by their errors. All kernel rows and an m × m factor
          must fit into ``cache_size``.
        - "gibbs": the kernel Gibbs sampler, for comparison; it has the same posterior and mixes far
          more slowly.
        - "ep": expectation propagation, a Gaussian approximation of the posterior, with
          ``log_evidence_``. With all rows at once ("exact EP") it needs six m × m matrices and two
          more per class; if there are many rows, they are divided into cells (``cell_size``).
        - "auto": exact EP if its sweeps take at most a few seconds (up to about 2,200 points of two
          classes, 460 of ten) and ``cache_size`` is large enough. Otherwise EP by cells, or
          perceptrons if they predict held-out labels better: their log-loss must be lower by 2 %,
          or by 10 % if there are more than 10,000 rows, of which a sample is used.
          ``inference_reason_`` gives the log-losses. With label noise always cells; perceptrons if
          cells are not possible ("precomputed", ``decision="bayes_point"``, settings chosen by the
          evidence).
    n_draws : int, default=100
        Number of classifiers drawn per class (for two classes, in total).
    softness : float or {"held-out", "evidence"}, default="held-out"
        Allows training errors, as a smaller ``C`` does in `sklearn.svm.SVC`: the diagonal of the
        training Gram matrix is multiplied by ``1 + softness``. With 0 no draw has a training error,
        and data that cannot be separated raise an error. "held-out" and "evidence" as for
        ``gamma``.
    label_noise : float, array-like of shape (n_classes,), dict or "evidence", default=0.0
        Probability that a training label is wrong, in [0, 0.5): one rate, one per class in the
        order of ``classes_``, or a dict from label to rate (0 for labels not named). The true class
        is then any of the other classes, with equal probability. The rate q_k of class k belongs to
        the *label* k, not to the true class: with two classes, q_k is the share of wrong labels
        among the labels k. "evidence": one rate, as for ``gamma``.
    decision : {"auto", "bayes_point", "vote", "calibrated", "span_vote"}, default="auto"
        How predictions follow from the posterior.

        - "bayes_point": by the centre of the draws.
        - "vote": by the mean of the exact predictive probability over the draws, including the
          uncertainty far from training points, softness and the mean rate of label noise. Four
          m × m matrices must fit into ``cache_size``.
        - "calibrated" (EP only): by votes, calibrated on held-out labels. At least 0.1 / n is left
          to all other classes together, before class weights, so that no class gets probability 0
          only because none of n rows had it.
        - "span_vote": by the share of draws that predict a class (Bayesian transduction as
          published), for comparison. It ignores what lies outside the span of the training points,
          so it is overconfident far from them.
        - "auto": "vote" for billiard and Gibbs sampler, "calibrated" for EP and "bayes_point" for
          perceptrons.
    cell_size : int or "auto", default="auto"
        For EP: number of rows in a cell. Neighbouring rows share a cell; cells share information
        only through landmarks. "auto": one cell with all rows (exact EP) if that takes seconds and
        ``cache_size`` is large enough; otherwise 1,000, or fewer with a linear kernel, where cells
        do not matter.
    n_landmarks : int or "auto", default="auto"
        For EP with several cells: number of rows whose kernel values are features that all cells
        share; 0 for none. "auto": 0 or 700 (300 for four or more classes), by held-out labels. With
        a linear kernel and fewer than 1,500 columns, the columns of X are these features, and
        nothing is approximated.
    n_trees : int or "auto", default="auto"
        For EP with several cells: number of divisions into cells to average. "auto": 3; 2 with
        landmarks; 1 with landmarks and four or more classes. With few rows there are more, up to 6,
        as long as trees times rows (times classes, if there are more than two) is at most 48,000.
        With the columns of a linear kernel always 1. `partial_fit` keeps the number of its first
        fit.
    half_life : float, optional
        For `partial_fit` on data that change over time: a row counts half after this many further
        rows.
    class_weight : dict, "balanced" or None, default=None
        Shifts decisions: the probability of each class is multiplied by its weight, and
        `predict_proba` and `decision_function` follow. It does not affect training.
    cache_size : float, default=2000
        Memory for kernel rows, in MB; at least 128 rows are kept. Perceptron runs take up to a
        quarter more.
    max_time : float, optional
        Seconds after which fitting stops and uses what it has. With 1,000 rows or more, EP and
        perceptrons first fit 500 rows, and the fit that predicts held-out labels better is kept:
        `inference_reason_` says which. If there is little time for all rows, they are fitted in
        small cells with the settings of the first fit. Perceptrons run in smaller groups, so that
        some of them finish in time; all together, they take longer than without a limit. The
        billiard always factorises its m × m matrix first.
    tol : float, default=1e-3
        Drawing stops early once the Monte Carlo error of every Bayes point, an angle in radians,
        is below this. EP stops once no output changes by more than this many of its standard
        deviations (ten times as many with several cells).
    warm_start : bool, default=False
        Whether to keep the draws of the last fit on the same data and add to them until there are
        ``n_draws``; none is removed if there are more. The seed is that of the first fit; the
        billiard continues where it stopped. EP starts from the sites of the last fit, even if
        settings have changed.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute: "cuda" uses an NVIDIA GPU through PyTorch; "auto" uses a GPU if there is
        one. X may then be a tensor.
    n_jobs : int, optional
        Number of threads; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all random numbers.
    verbose : int, default=0
        Whether to show progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    support_ : ndarray of shape (n_support,)
        Indices of the training rows with a coefficient in some draw; all rows with
        ``decision="vote"``.
    support_vectors_ : ndarray or csr_matrix of shape (n_support, n_features)
        These rows.
    dual_coef_ : ndarray of shape (1 or n_classes, n_support)
        The Bayes point of each machine: w = sum_j dual_coef_j phi(x_j), of unit length in the
        softened metric, where phi is the feature map of the kernel with bias and normalisation.
    gamma_ : float or ndarray of shape (n_features,)
        The value of ``gamma`` used, or one per feature: the larger, the more a feature matters; 0
        ignores it.
    gamma_choice_ : dict
        How well held-out labels were predicted by one value of gamma and by one per feature.
    bias_, softness_ : float
        Values used.
    label_noise_ : float or ndarray of shape (n_classes,)
        Rates used.
    inference_, inference_reason_, decision_ : str
        The method used, why it was chosen, and how it decides.
    kernel_ : str or callable
        Kernel used.
    n_draws_ : int
        Number of draws per machine; for the billiard a multiple of four, the number of balls.
    diagnostics_ : dict
        For EP, for each machine: ``sweeps``, ``converged``, ``bounded``, ``change`` and
        ``log_evidence``; with several cells, for each tree: ``cells`` and how many of them are
        still ``moving``, and ``log_evidence``.
        For the last run of the billiard: ``rhat`` and ``ess`` for each machine (the worse of two
        numbers, the mean margin and the number of training errors), ``bounces``, ``passes`` and
        ``n_draws`` of each ball, ``drift``, ``restarts``, ``flight_seconds``. Empty for
        perceptrons.
    bayes_point_error_ : ndarray of shape (1 or n_classes,)
        Monte Carlo standard error of each Bayes point, an angle in radians.
    held_out_proba_ : ndarray of float32, shape (n_samples, n_classes)
        Probabilities of each training row from a model without it, after a fit with EP, or with at
        least ten perceptrons and ``decision="bayes_point"``. They include class weights.
    label_error_proba_ : ndarray of shape (n_samples,)
        Probability that each training label is wrong, after a fit with the billiard, the Gibbs
        sampler or EP, or with at least ten perceptrons and ``decision="bayes_point"``.
    n_label_errors_ : ndarray of shape (3,)
        Expected number of wrong training labels, and a 95 % interval: lower and upper end.
    log_evidence_ : float
        With EP: approximate logarithm of the probability of the labels, summed over the machines.
        It is larger for settings that fit better. With settings chosen by "evidence" and another
        method: that of the points used to choose the settings.
    predictor_ : Predictor
        What predicts: kernel, support points, coefficients and link.
    settings_, draws_, trained_
        The settings, the draws, and what is kept about the training rows.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of str
        Names of the features, if X has string column names.

    Notes
    -----
    A sample weight w means w copies of a point; 0 leaves a point out. Equal points with equal
    labels are merged first. For EP with softness, each copy has its own softness, so weights move
    the boundary. For the other methods, copies are a single wall: without label noise, weights
    change only the settings that are chosen from the data, and the steepness of the probabilities;
    with a noise rate q, the log-odds of a label are w log((1 - q)/q).

    With ``kernel="precomputed"`` the length of new points in feature space is unknown, and the
    mean of the training diagonal is used instead. `predict` does not depend on it (unless
    ``class_weight`` or ``decision="vote"`` is given); the scale of `decision_function` does, unless
    the diagonal is constant. Points keep the order of the input, so draws differ from those of
    the same kernel given by name.

    Perceptron draws lie in version space but are not uniform on it; see
    `bayespoint.inference.sample_perceptron`. Draws of the billiard are uniform; see
    `bayespoint.inference.sample_billiard`.

    References
    ----------
    R. Herbrich, T. Graepel and C. Campbell, "Bayes Point Machines", JMLR 1, 2001.
    R. Herbrich and T. Graepel, "Large Scale Bayes Point Machines", NIPS 13, 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(n_draws=20, random_state=0).fit(X, y)
    >>> clf.predict(X[[0, 60, 149]])
    array([0, 1, 2])
    >>> clf.predict_proba(X[:1]).shape
    (1, 3)
    """

    _given: Any = None  # X, y and weights, until copied or saved

    def __init__(
        self, kernel: Any = "auto", *, gamma: Any = "held-out", feature_groups: Any = None,
        degree: int = 3, coef0: float = 1.0, normalize_kernel: bool = True, bias: Any = "auto",
        inference: str = "auto", n_draws: int = 100, softness: Any = "held-out",
        label_noise: Any = 0.0, decision: str = "auto", cell_size: Any = "auto",
        n_landmarks: Any = "auto", n_trees: Any = "auto", half_life: float | None = None,
        class_weight: Any = None, cache_size: float = 2000, max_time: float | None = None,
        tol: float = 1e-3, warm_start: bool = False, device: str = "cpu", n_jobs: int | None = None,
        random_state: Seed = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.feature_groups = feature_groups
        self.degree = degree
        self.coef0 = coef0
        self.normalize_kernel = normalize_kernel
        self.bias = bias
        self.inference = inference
        self.n_draws = n_draws
        self.softness = softness
        self.label_noise = label_noise
        self.decision = decision
        self.cell_size = cell_size
        self.n_landmarks = n_landmarks
        self.n_trees = n_trees
        self.half_life = half_life
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.max_time = max_time
        self.tol = tol
        self.warm_start = warm_start
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesPointClassifier":
        """Fit the classifier to training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows, or the Gram matrix (n_samples, n_samples) with
            ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            A weight w means w copies of a row; 0 leaves a row out.

        Returns
        -------
        self : BayesPointClassifier
        """
        refuse_dask(X, y)
        parameters, place = self.checked_parameters(), self._place()
        before = self._fitted() if parameters.warm_start and hasattr(self, "settings_") else None
        budget = parameters.budget(1 - LINK_SHARE)
        # Work on a copy: a fit that fails or is refused leaves the model that was there.
        other = copy(self)
        with place.computing(FIT_LESS):
            inputs, labels = place.training_inputs(other, X, y, precomputed=parameters.precomputed)
            names = getattr(other, "feature_names_in_", None)
            parameters = replace(parameters, column_names=names)
            data = data_of(parameters, inputs, labels, sample_weight)
            del inputs  # the memory of all rows: data have the distinct ones
            with naming_rows(data):
                fitted = fit_in_time(
                    parameters, place, data, budget, before,
                    lambda found, rows: holding(other, found).predict_proba(rows_of(X, rows)),
                )  # fmt: skip
            other._keep_first(fitted, X, y, sample_weight)
        self.__dict__ = other.__dict__
        budget.raise_if_interrupted()
        return self

    def checked_parameters(self) -> Parameters:
        """Check the parameters that do not depend on data, and return them."""
        return Parameters.checked(self.get_params(deep=False))

    def _place(self) -> Place:
        """Return where to compute: the host or a GPU."""
        return place_of(
            self.device, n_jobs=self.n_jobs, on_cpu_only=on_cpu_only(self.kernel, self.inference)
        )

    def _fitted(self) -> Fitted:
        """Return what the last fit left."""
        there = self.__dict__  # at one moment: steps of others replace it
        held: dict[str, Any] = {one.name: there.get(f"{one.name}_") for one in fields(Fitted)}
        return Fitted(**held | {"given": there.get("_given")})

    def _keep(self, fitted: Fitted) -> None:
        """Hold what a fit left."""
        held = {f"{name}_": value for name, value in vars(fitted).items()}
        self._given = held.pop("given_")
        self.__dict__.update(held)

    def _keep_first(self, fitted: Fitted, X: Any, y: Any, sample_weight: Any) -> None:
        """Hold what a fit to given rows left, and predict those that it has not left out."""
        if fitted.given is None and not is_tensor(X):  # which may take the memory of a GPU
            fitted = replace(fitted, given=(X, y, sample_weight))
        self._keep(fitted)
        held_out = fitted.trained.held_out
        if held_out is not None and len(again := np.flatnonzero(np.isnan(held_out[:, 0]))):
            held_out[again] = self.predict_proba(rows_of(X, again))

    # ------------------------------------------------------------------ rows that keep coming

    @available_if(_learns_on)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> "BayesPointClassifier":
        """Learn from further rows.

        The first call is a fit by EP. All rows are fitted again when their number has doubled
        since settings were chosen, unless settings are given or rows were dropped. Otherwise new
        rows join the cells that they fall into, and a cell is swept when it has grown by half, or
        before a prediction. Rows may take half of ``cache_size``; then the oldest are dropped, and
        landmarks keep part of their information.

        Each call first predicts its rows, or those of some cells: `log_predictive_` has the mean
        log-probability of their labels, and probabilities are calibrated on the newest
        predictions. An error or Ctrl-C leaves the model as it was.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All classes that may occur. Classes may also appear later without being named, but the
            first call needs two.
        sample_weight : array-like of shape (n_samples,), optional
            A weight w means w copies of a row; 0 leaves a row out.

        Returns
        -------
        self : BayesPointClassifier

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bayespoint import BayesPointClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, random_state=0)
        >>> for first in range(3):
        ...     clf = clf.partial_fit(X[first::3], y[first::3])
        >>> clf.log_predictive_.shape, clf.score(X, y) > 0.9
        ((3,), True)
        """
        refuse_dask(X, y)
        parameters, place = self._streaming_parameters(), self._place()
        with ABSORBING, place.computing(FIT_LESS):
            other = copy(self)
            if not hasattr(self, "predictor_"):
                inputs, y = place.training_inputs(other, X, y, precomputed=False)
                weight = checked_weights(sample_weight, len(y))
                weight = faded_weights(weight, parameters.half_life)
                fitted = stream_steps.begin(parameters, place, inputs, y, weight, classes)
                other._keep_first(fitted, X, y, weight)
            else:
                fitted = self._fitted()
                stream_steps.check_goes_on(fitted, parameters)
                dtype = fitted.support_vectors.dtype
                X, y, weight = checked_batch(other, X, y, sample_weight, dtype)
                other._keep(stream_steps.learn(fitted, parameters, place, X, y, weight, classes))
            self.__dict__ = other.__dict__  # at once: others may be predicting
        return self

    def _streaming_parameters(self) -> Parameters:
        return replace(self.checked_parameters(), inference="ep", warm_start=False)

    def _become(self, fitted: Fitted) -> None:
        """Hold what a step left instead of all that there was, at once."""
        other = copy(self)
        other._keep(fitted)
        self.__dict__ = other.__dict__

    def absorb(self) -> "BayesPointClassifier":
        """Learn the rows that `partial_fit` has been given but has not learnt yet.

        Predictions call this first.

        Returns
        -------
        self : BayesPointClassifier
        """
        check_is_fitted(self)
        if self._is_up_to_date():  # without waiting for what other models learn
            return self
        with ABSORBING:
            if self._is_up_to_date():
                return self
            parameters, place = self._streaming_parameters(), self._place()
            with place.computing(FIT_LESS):
                known = known_of(self._fitted(), parameters)
                self._become(stream_steps.absorb(known, parameters, place))
        return self

    def _is_up_to_date(self) -> bool:
        return bool(self.stream_ is None or self.stream_.up_to_date)

    def prepared(self, X: Any) -> Asked:
        """Learn waiting rows, check X as for `predict`, and prepare it for ``predictor_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Asked
        """
        return super(BayesPointClassifier, self.absorb()).prepared(X)

    @property
    def log_predictive_(self) -> Array:
        """Mean log-probability of the labels of each call of `partial_fit`, before it was learnt.

        For a call with many rows, the mean is over the rows in 64 cells. Rows of a class that has
        not occurred before do not count. NaN for the first call, and if no row is left.
        """
        check_is_fitted(self)
        if not self._has_learnt_on():
            raise AttributeError("log_predictive_ is available after partial_fit.")
        return self.stream_.history[:, 1]

    def fresh(self) -> "BayesPointClassifier":
        """Return a classifier with the same settings, cells and landmarks that has seen no rows.

        Train it elsewhere with `partial_fit`, then combine the two with `merge`.

        Returns
        -------
        BayesPointClassifier
        """
        parameters, place, other = self._streaming_parameters(), self._place(), copy(self.absorb())
        with place.computing(FIT_LESS):
            other._keep(stream_merging.fresh(other._fitted(), parameters, place))
        return other

    def merge(self, other: "BayesPointClassifier") -> "BayesPointClassifier":
        """Learn all rows of another classifier, which was made by `fresh` of this one.

        Parameters
        ----------
        other : BayesPointClassifier
            The other classifier.

        Returns
        -------
        self : BayesPointClassifier

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bayespoint import BayesPointClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, random_state=0)
        >>> elsewhere = clf.partial_fit(X[::2], y[::2]).fresh()
        >>> clf = clf.merge(elsewhere.partial_fit(X[1::2], y[1::2]))
        >>> clf.score(X, y) > 0.9
        True
        """
        if not isinstance(other, BayesPointClassifier):
            raise TypeError(
                f"other must be a BayesPointClassifier made by fresh(); got {type(other)}."
            )
        parameters, place = self._streaming_parameters(), self._place()
        check_is_fitted(self)
        check_is_fitted(other)
        with ABSORBING, place.computing(FIT_LESS):
            mine, others = self.absorb()._fitted(), other.absorb()._fitted()
            self._become(stream_merging.merge(mine, others, parameters, place))
        return self

    # ------------------------------------------------------------------ looking inside

    def __getstate__(self) -> dict[str, Any]:
        """What copies and files keep: all but the data given to fit."""
        state = dict(super().__getstate__())
        state.pop("_given", None)
        return state

    @property
    def feature_importances_(self) -> Array:
        """How much the log-probability of a label, given all others, falls without each feature.

        This is the mean over rows; it is negative if labels are predicted better without the
        feature. It is computed by expectation propagation with the settings of the fit, whatever
        its method, on all rows up to 1,000, and on some complete cells of more.

        It is computed on first access, from the X and y given to fit, which must not have changed,
        and is then kept, also in copies and files. Copies and files made before that do not have
        it, nor do fits to tensors. If several features carry the same information, each of them
        counts little. With ``feature_groups``, a group is left out as a whole, and each of its
        columns has the value of the group.
        """
        return self._importances().mean

    @property
    def feature_importances_std_(self) -> Array:
        """Standard error of each of `feature_importances_`."""
        return self._importances().error

    def _importances(self) -> Importances:
        if hasattr(self, "trained_") and self.trained_.importances is not None:
            return self.trained_.importances
        if not hasattr(self, "settings_") or self._given is None:
            raise AttributeError(
                "feature_importances_ is computed from the X and y of fit on first access: it is "
                "not available before fit, nor in copies and files made before that access. Access "
                "it before you copy or save, or fit again."
            )
        self.absorb()
        settings, trained = self.settings_, self.trained_
        parameters = replace(self.checked_parameters(), kernel=self.kernel_)
        fingerprint = trained.drawn_with[SAME_DATA]
        data = data_again(copy(self), parameters, fingerprint, self.classes_, *self._given)
        group = parameters.groups(data.inputs.shape[1])
        found = importances_of(parameters, data, settings, trained.entropy, group)
        self.trained_ = replace(trained, importances=found)
        return found

    @property
    def label_error_proba_(self) -> Array:
        """Probability that each training label is wrong, one per row given to fit.

        It follows by Bayes' rule from the probabilities of a model without the row and from the
        rates of wrong labels: those of ``label_noise`` or, if that is 0, the rates that make
        held-out labels most probable, one for all classes or one for each pair of classes. The
        order is that of probabilities that include softness: a label that is unlikely because
        classes overlap is doubted less than one in the middle of another class. The sum is the
        expected number of wrong labels, which is found without softness (`n_label_errors_`). NaN
        for rows of weight 0, and for rows that a fit stopped by ``max_time`` or Ctrl-C has not
        seen.
        """
        proba, label = self._label_errors("label_error_proba_")
        own = np.take_along_axis(proba, label[:, None], axis=1)
        return 1.0 - own[:, 0]

    @property
    def n_label_errors_(self) -> Array:
        """Expected number of wrong training labels, and a 95 % interval: lower and upper end.

        Weights count; rows whose `label_error_proba_` is NaN do not. If rates are not given, the
        interval includes their uncertainty. Without softness, which may be there because of wrong
        labels, the number is too high if rows of several classes lie close together.
        """
        self._label_errors("n_label_errors_")
        if self.trained_.n_wrong is None:
            raise AttributeError("n_label_errors_ is not in this older model file: fit again.")
        return self.trained_.n_wrong.copy()

    def _label_errors(self, name: str) -> tuple[Array, Array]:
        """Probability of true classes, and labels; an error where they are not known."""
        if not hasattr(self, "trained_"):
            raise AttributeError(f"{name} is available after fit.")
        proba, label = self.trained_.label_proba, self.trained_.label
        if proba is not None and label is not None:
            return proba, label
        if self._has_learnt_on():
            raise AttributeError(f"{name} is available after fit, not after partial_fit.")
        if METHODS[self.inference_].from_posterior:
            raise AttributeError(
                f"{name} is not available for more than {MOST_LABEL_POINTS:,} points on a GPU "
                f"unless decision='vote': fit with that, or with device='cpu'."
            )
        raise AttributeError(
            f"{name} needs predictions for rows left out: fit with inference='ep', 'billiard' or "
            f"'gibbs', or with 'perceptron', decision='bayes_point' and at least 10 draws; this "
            f"fit used {self.inference_!r} and {self.decision_!r}."
        )


def holding(estimator: BayesPointClassifier, fitted: Fitted) -> BayesPointClassifier:
    """Return a copy of a classifier that knows its columns, with what a fit elsewhere left."""
    other = copy(estimator)
    other._keep(fitted)
    return other
