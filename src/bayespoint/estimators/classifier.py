"""BayesPointClassifier: validate, settle, problem, infer, predictor, link."""

import os
import threading
from copy import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import entropy_of
from bayespoint._support.devices import MOST_LABEL_POINTS, is_tensor
from bayespoint._support.threads import open_threads
from bayespoint._support.types import Array, Seed
from bayespoint.estimators import fitting
from bayespoint.estimators.base import KernelClassifier, Trained
from bayespoint.estimators.calibration import LINK_SHARE
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.fitting import SAME_DATA, Fitted, Given, fitted_of
from bayespoint.estimators.importances import Importances, data_again, importances_of
from bayespoint.estimators.making import (
    predictor_of,
)
from bayespoint.estimators.parameters import (
    Parameters,
    by_evidence,
    check_weights,
    class_noise,
    on_cpu_only,
)
from bayespoint.estimators.predictors import (
    Asked,
)
from bayespoint.estimators.stream_models import (
    Known,
    absorbed,
    begun_with_one_class,
    check_newest,
    emptied,
    known_of,
    merged,
    most_held,
    why_not_merged,
)
from bayespoint.estimators.streams import (
    DUE,
    JOINING,
    Batch,
    Stream,
    checked_batch,
    faded_stream,
    faded_weights,
    log_proba_of,
    may_settle_again,
    of_present,
    rows_asked,
    token_of,
    wider_classes,
)
from bayespoint.inference.draws import Plan
from bayespoint.inference.engines import place_of
from bayespoint.inference.ep.cells.method import (
    HeldCells,
)
from bayespoint.inference.methods import METHODS

# What takes less memory than a fit that has none.
FIT_LESS = "Free some, pass float32 or fewer points, use inference='perceptron'"

# What learns rows that wait: one at a time, since predictions may ask for it from several threads.
ABSORBING = threading.RLock()


def _start_anew() -> None:
    """Have nobody learn in a process that was forked: another thread may have held the lock."""
    global ABSORBING
    ABSORBING = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def _learns_on(clf: "BayesPointClassifier") -> bool:
    """Whether rows can be added: to EP and its votes."""
    precomputed = isinstance(clf.kernel, str) and clf.kernel == "precomputed"
    votes = clf.decision in ("auto", "vote", "calibrated")
    return clf.inference in ("ep", "auto") and votes and not precomputed


class BayesPointClassifier(KernelClassifier):
    """Kernel classifier that averages over many classifiers consistent with the data.

    Parameters
    ----------
    kernel : {"auto", "rbf", "laplacian", "linear", "poly", "precomputed"} or callable, \
            default="auto"
        "auto": RBF, or Laplacian if that is better by more than 1.5 standard errors on rows left
        out (by 3, where these are a small sample). The RBF kernel suits smooth boundaries, the
        Laplacian kernel thresholds in several columns, as tables often have them. They are
        compared where ``gamma`` is "held-out" or "ard", on 50 dense rows or more of at most 200
        columns, several of them and not all of two values; else "auto" is RBF. A callable
        ``kernel(X, Y)`` returns the array of kernel values; with ``n_jobs`` > 1 it is called from
        several threads.
    gamma : float, array-like of shape (n_features,) or {"held-out", "ard", "evidence", "scale"}, \
            default="held-out"
        Kernel width, or one for each feature ("rbf" and "laplacian"; 0 leaves a feature out).
        "ard": one for each feature, by the evidence of EP on all rows up to 1,000 or on whole cells
        of more. "held-out": one width, or one for each feature, or half the way between, if that is
        better by more than 1.5 standard errors on rows that had no part in learning it
        (`gamma_choice_`); units of columns then do not matter, unless all but a quarter of the
        columns have a range of a tenth of the largest at least: there one width in the units given
        is tried, too. Widths of features are for at most 1,000 columns, and unless asked for with
        "ard" for 50 rows at least. The common width is chosen from the training data by labels left
        out; with EP (and for billiard and Gibbs sampler) by the probability of each label given all
        others (equal rows are left out together, unless they have both labels), on at most 500
        points, drawn in proportion to the classes, two a class at least, with a second look on at
        most 2,000; for perceptrons by the log-loss out of five folds, on at most 2,000, with a
        second look at narrower widths on at most 10,000; with EP by cells on some whole cells of
        the final size, one row of five left out. "evidence": by the probability of all labels (of
        EP, on at most 500 points). "scale": ``1 / (n_features * X.var())``, as in
        `sklearn.svm.SVC`. Without effect where the kernel has no width.
    feature_groups : array-like of shape (n_features,), default=None
        A label, int or str, for each column of X: columns with the same label have one width where
        widths are learnt, and `feature_importances_` leaves them out together. For the columns of
        0 and 1 that one column of words becomes; `TableEncoder.feature_groups_` has the labels.
        Columns of a group should be in the same unit. None: each column by itself.
    degree : int, default=3
        Degree of the "poly" kernel ``(gamma <x, x'> + coef0) ** degree``.
    coef0 : float, default=1.0
        Constant of the "poly" kernel.
    normalize_kernel : bool, default=True
        Make all points unit vectors in feature space.
    bias : float or {"auto", "evidence"}, default="auto"
        Variance of a bias weight, added to the kernel before normalisation; 0 for none. "auto": 0,
        0.1, 1 or 10, by labels left out.
    inference : {"auto", "perceptron", "billiard", "gibbs", "ep"}, default="auto"
        How classifiers are drawn. "perceptron": each draw is a kernel perceptron run to zero
        training errors on the points in a new random order (with ``decision="bayes_point"``
        first on nine tenths of them, then on all). "billiard": exact draws of the
        posterior, uniform on version space or, with ``label_noise``, weighted by it; it needs
        all kernel rows and an m × m factor within ``cache_size``. "gibbs": the kernel Gibbs
        sampler, for comparison; it has the same posterior and mixes far more slowly. "ep":
        expectation propagation, a Gaussian approximation of the posterior in closed form, with
        ``log_evidence_``; exact, it needs six m × m matrices, and two more a class; many rows are
        divided into cells (``cell_size``). "auto": exact EP where its sweeps take some seconds at
        most (up to about 2,200 points of two classes, 460 of ten) and ``cache_size`` is enough;
        else EP by cells, or perceptrons where they are clearly better: both tell the same labels,
        left out of at most 10,000 rows, and ``inference_reason_`` gives the two log-losses. With
        label noise cells alone; perceptrons alone where cells cannot be ("precomputed",
        ``decision="bayes_point"``, settings by the evidence).
    n_draws : int, default=100
        Classifiers drawn for each class (for each pair of classes where there are two).
    softness : float or {"held-out", "evidence"}, default="held-out"
        Soft boundaries: the diagonal of the training Gram matrix is multiplied by
        ``1 + softness``. With 0 every draw has no training error, and data that cannot be
        separated are an error. "held-out" and "evidence" as for ``gamma``.
    label_noise : float, array-like of shape (n_classes,), dict or "evidence", default=0.0
        Probability that a training label is wrong, in [0, 0.5): one rate, one for each class in
        the order of ``classes_``, or by label (0 for labels not named). A wrong label is taken to
        be any of the other classes, equally likely. The rate q_k of class k belongs to the
        *label* k, not to the true class: for two classes q_k / (1 - q_k) is how often points of
        the other class are labelled k over how often points of class k are. "evidence": one rate,
        as for ``gamma``.
    decision : {"auto", "bayes_point", "vote", "calibrated", "span_vote"}, default="auto"
        "bayes_point" decides by the centre of the draws. "vote" averages the exact predictive
        probability over the draws, what the training points leave open, softness and the mean
        rate of label noise included; it needs four m × m matrices within ``cache_size``.
        "span_vote" is the share of draws that say a class (Bayesian transduction as published),
        for comparison: draws know nothing beyond the span of the training points, so that far
        from them it is too sure. "calibrated" (EP only) is a link of the votes, fitted to labels
        left out; no class has a probability of 0 because none of n rows had it: at least 0.1 / n is
        left to all other classes, before class weights. "auto" is "vote" for billiard and Gibbs
        sampler, "calibrated" for EP and "bayes_point" for perceptrons.
    cell_size : int or "auto", default="auto"
        Of EP: rows of a cell. Rows that lie together share a cell, and a cell knows nothing of the
        rows of others but what landmarks tell. "auto": one cell with all rows, which is exact,
        where that takes seconds and ``cache_size`` is enough, else 1,000, or fewer with a linear
        kernel, to which cells do not matter.
    n_landmarks : int or "auto", default="auto"
        Of EP with several cells: rows whose kernel values are features common to all cells; 0 for
        none. "auto": 0, or 700 (300 for four classes and more), by labels left out; with a linear
        kernel the columns of X themselves, if fewer than 1,500, which is exact.
    n_trees : int or "auto", default="auto"
        Of EP with several cells: divisions into cells that are averaged. "auto": 3, or 2 with
        landmarks, or 1 with those of four classes and more and with the columns of a linear kernel.
    half_life : float, optional
        Of `partial_fit`: rows after which a row counts half, for rules that change.
    class_weight : dict, "balanced" or None, default=None
        Shifts decisions: the probability of class c is multiplied by its weight, and
        probabilities and `decision_function` follow.
    cache_size : float, default=2000
        Memory for kernel rows, in MB, at least 128 rows; the runs take up to a quarter of it
        more.
    max_time : float, optional
        Seconds after which fitting ends with the draws it has. Fewer runs then share rows, so
        that some are finished in time; a fit without limit is faster. The billiard factorises
        its m × m matrix first, whatever the limit.
    tol : float, default=1e-3
        Drawing ends early once the Monte-Carlo error of every Bayes point, an angle in radians,
        is below this; sweeps of EP, once one more changes no output by more than this many of its
        standard deviations, or ten times as many by cells.
    warm_start : bool, default=False
        Keep the draws of the last fit on the same data and add to them up to ``n_draws``; none
        is taken away if there are more. The seed stays that of the first fit; the billiard flies
        on from where it was. EP starts from the sites of the last fit, and takes other settings,
        too.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute: "cuda" on an NVIDIA GPU, through PyTorch; "auto" there if there is one.
        X may then be a tensor.
    n_jobs : int, optional
        Threads; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        Show progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_support,)
        Training rows with a coefficient in some draw; all of them with ``decision="vote"``.
    support_vectors_ : ndarray or csr_matrix of shape (n_support, n_features)
    dual_coef_ : ndarray of shape (1 or n_classes, n_support)
        The Bayes point of each machine: w = sum_j dual_coef_j phi(x_j), of unit length in the
        softened metric, phi being the feature map of the kernel with bias and normalisation.
    gamma_ : float or ndarray of shape (n_features,)
        Width used, or one a feature: the larger, the more a feature matters; 0 leaves it out.
    gamma_choice_ : dict
        What labels left out said of one width and of a width for each feature.
    bias_, softness_ : float
        Values used.
    label_noise_ : float or ndarray of shape (n_classes,)
        Rates used.
    inference_, inference_reason_, decision_ : str
        Method used, why, and how it decides.
    kernel_ : str or callable
        Kernel used.
    n_draws_ : int
        Draws held for each machine; a multiple of four, the number of balls, for the billiard.
    diagnostics_ : dict
        What EP tells of each machine: ``sweeps``, ``converged``, ``bounded``, ``change`` and
        ``log_evidence``; by cells ``cells`` and those still ``moving``, for each tree, and
        ``log_evidence``.
        What the billiard tells about its last run: ``rhat`` and ``ess`` (of the mean
        margin and of the number of training errors, the worse of them, for each machine),
        ``bounces`` and ``passes`` of each ball, ``n_draws`` of each ball, ``drift``, ``restarts``,
        ``flight_seconds``. Empty for perceptrons.
    bayes_point_error_ : ndarray of shape (1 or n_classes,)
        Monte-Carlo standard error of each Bayes point, an angle in radians.
    held_out_proba_ : ndarray of float32, shape (n_samples, n_classes)
        What the model says of each training row without it, after a fit with EP, or with at least
        ten perceptrons and ``decision="bayes_point"``. Class weights shift it, too.
    label_error_proba_ : ndarray of shape (n_samples,)
        Posterior probability that each training label is wrong, after a fit with the billiard,
        the Gibbs sampler or EP, as with ``label_noise`` > 0.
    log_evidence_ : float
        With EP: approximate logarithm of the probability of the labels, summed over the machines.
        Larger for settings that fit better. With "evidence" and another method: that of the points
        that settings were chosen with.
    predictor_ : Predictor
        What decides: kernel, support points, coefficients and link.
    settings_, draws_, trained_
        What the fit chose, what it drew, and what it remembers of its training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has string column names.

    Notes
    -----
    Weights: a weight w means w copies of a point. Equal points with equal labels are merged
    first. For EP with softness each copy has a softness of its own, so that weights count. For the
    other methods copies are one wall: without label noise weights > 0 change only the settings that
    are chosen from the data and the steepness of the probabilities; with a rate q of wrong labels
    the log-odds of a label are w log((1 - q)/q). Weight 0 leaves a point out.

    For ``kernel="precomputed"`` the length of new points in feature space is unknown, and the
    mean of the training diagonal stands in for it: `predict` does not depend on it (unless
    ``class_weight`` or ``decision="vote"`` is given), the size of `decision_function` does unless
    the diagonal is constant. Its points keep the order of the input, so its draws are not those of
    the same kernel given by name.

    Perceptron draws lie in version space but are not uniform on it; see
    `bayespoint.inference.sample_perceptron`. Draws of the billiard are; see
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
        """Draw classifiers that agree with the training data and average them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Or the Gram matrix (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            A weight w means w copies; 0 leaves a row out.

        Returns
        -------
        self : BayesPointClassifier
        """
        parameters = self.checked_parameters()
        place = self._place()
        # Work on a copy: a fit that fails or is refused leaves the model that was there.
        fitted = copy(self)
        with place.computing(FIT_LESS):
            interrupted = fitted._fit(parameters, place, X, y, sample_weight)
        self.__dict__.clear()
        self.__dict__.update(fitted.__dict__)
        if not is_tensor(X):  # which may take the memory of a GPU
            self._given = Given(X, y, sample_weight)
        if interrupted:
            raise KeyboardInterrupt
        return self

    def checked_parameters(self) -> Parameters:
        """Check the parameters that do not depend on data, and return them."""
        return Parameters.checked(self.get_params(deep=False))

    def _place(self) -> Any:
        """Return where to compute: the host or a GPU."""
        return place_of(
            self.device, n_jobs=self.n_jobs, on_cpu_only=on_cpu_only(self.kernel, self.inference)
        )

    def _fit(self, parameters: Parameters, place: Any, X: Any, y: Any, sample_weight: Any) -> bool:
        """Fit, and return whether Ctrl-C cut it short."""
        budget = parameters.budget(1 - LINK_SHARE)
        data = fitting.checked_data(self, parameters, place, X, y, sample_weight)
        going_on = parameters.warm_start and hasattr(self, "settings_")
        before = self._fitted() if going_on else None
        self._keep(fitting.fit(parameters, place, data, budget, before))
        held_out = self.trained_.held_out
        if held_out is not None and len(again := np.flatnonzero(np.isnan(held_out[:, 0]))):
            held_out[again] = self.predict_proba(_rows_of(X, again))
        return budget.interrupted

    def _fitted(self) -> Fitted:
        """Return what the last fit left."""
        names = [one.name for one in fields(Fitted)]
        held: dict[str, Any] = {name: getattr(self, f"{name}_", None) for name in names}
        return Fitted(**held | {"given": getattr(self, "_given", None)})

    def _keep(self, fitted: Fitted) -> None:
        """Hold what a fit left."""
        held = {f"{name}_": value for name, value in vars(fitted).items()}
        self._given = held.pop("given_")
        self.__dict__.update(held)

    # ------------------------------------------------------------------ rows that keep coming

    @available_if(_learns_on)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> "BayesPointClassifier":
        """Go on learning from more rows.

        The first call is a fit by EP; so is a call when the rows that are held are twice as many
        as when settings were chosen, unless these are given or rows were dropped. Else rows join
        the cells that they fall into, which are swept when they have grown by a half, or when a
        prediction is asked for. Rows take at most half of ``cache_size``; where there are more the
        oldest are dropped, and landmarks keep what they said.

        Each call first predicts its rows, or those of some cells: `log_predictive_` has the mean
        log-probability of their labels, and the link is fitted to the newest predictions. An
        error or Ctrl-C leaves the model as it was.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            Classes that may turn up. They may also turn up unnamed, but the first call needs two.
        sample_weight : array-like of shape (n_samples,), optional

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
        parameters = self._streaming_parameters()
        place = self._place()
        with ABSORBING, place.computing(FIT_LESS):
            fitted = self._copied()
            if fitted._partial_fit(parameters, place, X, y, classes, sample_weight):
                raise KeyboardInterrupt
            self.__dict__ = fitted.__dict__  # at once: others may be predicting
        return self

    def _copied(self) -> "BayesPointClassifier":
        """Return a copy, with the data that importances are computed from."""
        other = copy(self)
        if hasattr(self, "_given"):
            other._given = self._given
        return other

    def _streaming_parameters(self) -> Parameters:
        return replace(self.checked_parameters(), inference="ep", warm_start=False)

    def _partial_fit(
        self, parameters: Parameters, place: Any, X: Any, y: Any, classes: Any, sample_weight: Any
    ) -> bool:
        """Take rows, and return whether Ctrl-C cut it short."""
        if not hasattr(self, "predictor_"):
            return self._first_batch(parameters, place, X, y, classes, sample_weight)
        known, waiting = self._known(parameters), self.stream_.waiting
        self._refuse_changes(parameters)
        X, y, weight = checked_batch(self, X, y, sample_weight, known.X.dtype)
        wider = wider_classes(self.classes_, classes, y if len(y) else None)
        new_class = len(wider) > len(self.classes_)
        known = replace(known, stream=self._predicted(known.stream, place, X, y, weight))
        if not len(y) and not new_class:
            self.stream_ = replace(known.stream, waiting=waiting)
            return False
        known = known.of_classes(wider, class_noise(self._noise_of(parameters), wider))
        stream = faded_stream(known.stream, len(y), parameters.half_life)
        batch = Batch(X, np.searchsorted(wider, y), faded_weights(weight, parameters.half_life))
        if stream.fresh and not stream.seen:
            stream = replace(stream, token=token_of(batch))
        stream = replace(stream, pending=(*stream.pending, batch), seen=stream.seen + len(y))
        known = replace(known, stream=stream)
        check_newest(known, parameters, place)
        if may_settle_again(stream, parameters, most_held(known, parameters)):
            return self._settle_again(parameters, place, known)
        if new_class or stream.n_pending > JOINING * len(stream.label):
            return self._absorb(parameters, place, known, DUE)
        self.stream_ = replace(stream, waiting=waiting)  # the model knows what it knew
        return False

    def _refuse_changes(self, parameters: Parameters) -> None:
        """Refuse parameters that are not those that the model was made with."""
        before, now = self.trained_.drawn_with, parameters.asked
        changed = [name for name, value in now.items() if before.get(name, value) != value]
        if changed:
            raise ValueError(
                f"partial_fit goes on with the model that there is, but {changed} changed since "
                f"then. Set them back, or call fit to start anew."
            )

    def _noise_of(self, parameters: Parameters) -> Any:
        """Rates of wrong labels as given, or the one that was chosen."""
        chosen = by_evidence(parameters.label_noise)
        return float(self.settings_.class_noise[0]) if chosen else parameters.label_noise

    def _first_batch(
        self, parameters: Parameters, place: Any, X: Any, y: Any, classes: Any, sample_weight: Any
    ) -> bool:
        inputs, y = place.training_inputs(self, X, y, precomputed=False)
        weight = faded_weights(check_weights(sample_weight, inputs.shape[0]), parameters.half_life)
        sample_weight = sample_weight if parameters.half_life is None else weight
        there = np.unique(y[weight > 0])
        named = there if classes is None else wider_classes(there, classes)
        if len(there) < 2 and len(named) > 1:
            known = begun_with_one_class(parameters, inputs, y, weight, named)
            entropy = entropy_of(parameters.random_state)
            self.trained_ = Trained(0, np.zeros(0), entropy, parameters.asked)
            known = replace(known, stream=known.stream.told(len(y), np.nan))
            return self._absorb(parameters, place, known, 0.0)
        present = of_present(parameters, named, there)
        interrupted = self._fit(present, place, X, y, sample_weight)
        self.stream_ = self.stream_.told(len(y), np.nan)
        if not is_tensor(X):
            self._given = Given(X, y, sample_weight)
        if len(named) > len(self.classes_):
            known = self._known(parameters)
            noise = class_noise(self._noise_of(parameters), named)
            interrupted |= self._absorb(parameters, place, known.of_classes(named, noise), 0.0)
        return interrupted

    def _predicted(self, stream: Stream, place: Any, X: Any, y: Array, weight: Array) -> Stream:
        """Predict rows that are not learnt yet."""
        if not len(y):
            return stream.told(0, np.nan)
        some = rows_asked(self.predictor_, X, stream.seen)
        z = self.predictor_.scores(Asked(X[some], place))  # type: ignore[attr-defined]
        label = np.searchsorted(self.classes_, y[some])
        there = np.isin(y[some], self.classes_)
        label = np.where(there, label, -1)
        proba = self.predictor_.proba_of_scores(z)  # type: ignore[attr-defined]
        stream = stream.told(len(y), log_proba_of(proba, label, weight[some]))
        # A link has nothing to learn from rows of a class that the model has not learnt yet.
        learnt = np.isin(label, self.stream_.label[~np.all(self.stream_.waiting, axis=0)])
        return stream.predicted(z[:, learnt], label[learnt], weight[some][learnt])

    def _known(self, parameters: Parameters) -> Known:
        """Return the model as it can go on; refuse where it cannot."""
        stream = getattr(self, "stream_", None)
        if stream is None:
            raise ValueError(
                f"partial_fit goes on with EP and its votes; this fit used inference="
                f"{self.inference_!r} and decision={self.decision_!r}, or is from an older file. "
                f"Set inference='ep' and decision='auto' and call fit, or partial_fit of a new "
                f"classifier."
            )
        X = self.predictor_.X if isinstance(self.predictor_, CellsPredictor) else (
            self.support_vectors_)  # fmt: skip
        parameters = replace(parameters, kernel=self.kernel_)
        return known_of(
            self.classes_, self.settings_, self.predictor_, self.draws_, stream, X, parameters
        )

    def _settle_again(self, parameters: Parameters, place: Any, known: Known) -> bool:
        """Fit all rows that are held anew."""
        stream, names = known.stream, getattr(self, "feature_names_in_", None)
        X, label, weight, number = known.all_rows()
        present = of_present(parameters, known.classes, known.classes[np.unique(label)])
        interrupted = self._fit(present, place, X, known.classes[label], weight)
        if names is not None:
            self.feature_names_in_ = names
        self.stream_ = replace(
            self.stream_, number=number[self.stream_.number], seen=stream.seen, anew=stream.seen,
            settled=len(label), history=stream.history, merged=stream.merged,
        )  # fmt: skip
        self._remember(self.support_vectors_)
        if not interrupted and len(known.classes) > len(self.classes_):
            again = self._known(parameters)
            noise = class_noise(self._noise_of(parameters), known.classes)
            again = again.of_classes(known.classes, noise)
            interrupted = self._absorb(parameters, place, again, 0.0)
        return interrupted

    def _absorb(self, parameters: Parameters, place: Any, known: Known, due: float) -> bool:
        """Sweep cells that have grown; whether Ctrl-C cut it short."""
        budget = parameters.budget()
        parameters = replace(parameters, kernel=known.kernel.name)
        with (
            budget.catching_interrupts(),
            open_threads(effective_n_jobs(parameters.n_jobs)) as threads,
        ):
            plan = Plan(0, parameters.tol, self.trained_.entropy, budget, threads)
            known, cells, problem, data = absorbed(known, parameters, place, plan, due)
            predictor: Any = predictor_of(cells, problem, data, known.settings, known.kernel)
            if known.settings.decision == "calibrated":
                link = known.stream.link(predictor.noise, len(known.classes))
                predictor = replace(predictor, link=link)
        drawn_with = self.trained_.drawn_with | {SAME_DATA: data.distinct.fingerprint}
        rows = np.arange(len(known.stream.label))
        trained = Trained(known.stream.seen, rows, self.trained_.entropy, drawn_with)
        fitted = fitted_of(place, data, known.settings, cells, predictor, trained)
        self._keep(replace(fitted, support=rows, stream=known.stream))
        self._remember(known.X)
        return budget.interrupted

    def _remember(self, X: Any) -> None:
        """Rows that importances are computed from."""
        stream = self.stream_
        y = self.classes_[stream.label]
        self._given = Given(X, y, stream.weight)

    def absorb(self) -> "BayesPointClassifier":
        """Learn the rows that `partial_fit` has taken and not learnt yet.

        Predictions do so by themselves.

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
            fitted = self._copied()
            with place.computing(FIT_LESS):
                interrupted = fitted._absorb(parameters, place, self._known(parameters), 0.0)
            if interrupted:
                raise KeyboardInterrupt
            self.__dict__ = fitted.__dict__
        return self

    def _is_up_to_date(self) -> bool:
        stream = getattr(self, "stream_", None)
        return stream is None or stream.up_to_date

    def prepared(self, X: Any) -> Asked:
        """Check X as for `predict`, and learn what waits; what ``predictor_`` takes.

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

        Of a call with many rows, of those in 64 cells. NaN for the first one.
        """
        check_is_fitted(self)
        if getattr(self, "stream_", None) is None or not len(self.stream_.history):
            raise AttributeError("log_predictive_ is there after partial_fit.")
        return self.stream_.history[:, 1]

    def fresh(self) -> "BayesPointClassifier":
        """Return a classifier with the same settings, cells and landmarks that has seen no rows.

        To be fed elsewhere by `partial_fit`, and then merged: see `merge`.

        Returns
        -------
        BayesPointClassifier
        """
        parameters, place, other = self._streaming_parameters(), self._place(), copy(self.absorb())
        known = other._known(parameters)
        if not isinstance(other.predictor_, CellsPredictor):
            with place.computing(FIT_LESS):
                if other._absorb(parameters, place, known, 0.0):
                    raise KeyboardInterrupt
            known = other._known(parameters)
        known, model = emptied(known)
        none = known.stream.label
        support = replace(other.predictor_.support, points=known.kernel.prepare(known.X))
        other.predictor_ = replace(  # type: ignore[call-arg]
            other.predictor_, support=support, X=known.X, model=model, used=none
        )
        sites = np.empty((len(known.trees), 2, known.n_machines, 0), dtype=np.float32)
        other.draws_ = replace(other.draws_, resume=HeldCells(sites))
        other.stream_, other.support_, other.support_vectors_ = known.stream, none, known.X
        trained = other.trained_
        other.trained_ = Trained(0, none, trained.entropy, trained.drawn_with)
        other.__dict__.pop("_given", None)
        return other

    def merge(self, other: "BayesPointClassifier") -> "BayesPointClassifier":
        """Learn all that another classifier was fed, which `fresh` of this one has made.

        Parameters
        ----------
        other : BayesPointClassifier

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
                f"merge takes a BayesPointClassifier that fresh() has made; got {type(other)}."
            )
        parameters, place = self._streaming_parameters(), self._place()
        check_is_fitted(self)
        check_is_fitted(other)
        with ABSORBING, place.computing(FIT_LESS):
            left, right = self.absorb()._known(parameters), other.absorb()._known(parameters)
            reason = why_not_merged(left, right)
            if reason is not None:
                raise ValueError(f"these two cannot be merged: {reason}.")
            if not right.stream.seen:
                return self
            both, fitted = merged(left, right, parameters.half_life), self._copied()
            if fitted._absorb(parameters, place, both, 0.0):
                raise KeyboardInterrupt
            self.__dict__ = fitted.__dict__
        return self

    # ------------------------------------------------------------------ looking inside

    def __getstate__(self) -> dict[str, Any]:
        """What copies and files keep: all but the data given to fit."""
        state = dict(super().__getstate__())
        state.pop("_given", None)
        return state

    @property
    def feature_importances_(self) -> Array:
        """What the log-probability of a label, given all others, loses without each feature.

        The mean over rows; below 0 where labels are told better without it. By expectation
        propagation with the settings of the fit, whatever its method, on all rows up to 1,000 and
        on some whole cells of more. Computed when it is first asked for, from the X and y given to
        fit, which must not have changed, and kept from then on, in copies and files as well; those
        made before, and fits to tensors, are without. With features that tell the same, each counts
        little. With ``feature_groups``, a group is left out together, and each of its columns holds
        the figure of the group.
        """
        return self._importances().mean

    @property
    def feature_importances_std_(self) -> Array:
        """Standard error of each of `feature_importances_`."""
        return self._importances().error

    def _importances(self) -> Importances:
        if hasattr(self, "trained_") and self.trained_.importances is not None:
            return self.trained_.importances
        if not hasattr(self, "settings_") or getattr(self, "_given", None) is None:
            raise AttributeError(
                "feature_importances_ is computed from the X and y of fit when it is first asked "
                "for: it is not there before fit, nor in copies and files made before that."
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
        """Posterior probability that each training label is wrong, one for each row given to fit.

        From draws of the billiard or the Gibbs sampler, or from EP: how often the output at the
        point, without its softness, has not the sign of its label. For more classes, one less the
        share of the label in the votes of all classes: good for ranking, as a probability somewhat
        too high. NaN for rows of weight 0.
        """
        if not hasattr(self, "trained_"):
            raise AttributeError("label_error_proba_ is there once the classifier is fitted.")
        proba, label = self.trained_.label_proba, self.trained_.label
        if proba is None or label is None:
            if getattr(self, "stream_", None) is not None and len(self.stream_.history):
                raise AttributeError("label_error_proba_ is there after fit, not partial_fit.")
            if METHODS[self.inference_].from_posterior:
                raise AttributeError(
                    f"label_error_proba_ is left out above {MOST_LABEL_POINTS:,} points on a GPU "
                    f"unless decision='vote': fit with that, or with device='cpu'."
                )
            raise AttributeError(
                f"label_error_proba_ is there after a fit of BayesPointClassifier with "
                f"inference='billiard', 'gibbs' or 'ep', as with label_noise > 0; this one was "
                f"fitted with {self.inference_!r}."
            )
        own = np.take_along_axis(proba, label[:, None], axis=1)
        return 1.0 - own[:, 0]


def _rows_of(X: Any, chosen: Array) -> Any:
    """Return some rows of what was given to fit."""
    if hasattr(X, "iloc"):
        return X.iloc[chosen]
    if sp.issparse(X):
        return X.tocsr()[chosen]
    return X[chosen] if hasattr(X, "shape") else [X[i] for i in chosen]
