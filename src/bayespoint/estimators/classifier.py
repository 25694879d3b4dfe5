"""BayesPointClassifier: validate, compute rows, infer, decide."""

from contextlib import contextmanager
from copy import copy

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.budget import Budget
from bayespoint._support.checks import check_number, entropy_of, shown_places
from bayespoint._support.devices import naming_remedies
from bayespoint._support.threads import open_threads
from bayespoint.estimators.calibration import LINK_POINTS, link_points, out_of_fold
from bayespoint.estimators.compression import compress_machines
from bayespoint.estimators.label_errors import class_probabilities, gaussian_votes, sampled_votes
from bayespoint.estimators.parameters import (
    by_evidence,
    check_parameters,
    check_weights,
    log_class_weights,
)
from bayespoint.estimators.placement import PlacementMixin
from bayespoint.estimators.prediction import PredictionMixin
from bayespoint.estimators.settling import VOTING, SettlingMixin
from bayespoint.inference.ep.posterior import closed_form
from bayespoint.inference.methods import HELD_OUT_DRAWS, METHODS, Problem
from bayespoint.space.decisions import fit_link, fit_steepness, label_odds
from bayespoint.space.factor import factorise
from bayespoint.space.inputs import check_gram, warn_about_scales
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.merging import contested, contradictions, encoded, merge_duplicates
from bayespoint.space.posterior import Posterior, dense
from bayespoint.space.rows import GramRows, apply_kernel
from bayespoint.space.version_space import EmptyVersionSpaceError

# Share of max_time kept for the link, and the seconds it may take after Ctrl-C.
LINK_SHARE = 0.1
LINK_TIME_AFTER_INTERRUPT = 1.0

# Settings that draws depend on: warm_start refuses to mix draws of different ones.
DRAW_SETTINGS = (
    "kernel", "gamma", "degree", "coef0", "normalize_kernel", "bias", "softness", "inference",
)  # fmt: skip

# What else must not have changed, as messages call it.
SAME_DATA = "X, y or sample_weight"


# On a GPU, label_error_proba_ is left out above so many points, unless votes need the inverse of
# the Gram matrix anyway.
DEVICE_LABEL_POINTS = 10_000


class BayesPointClassifier(
    SettlingMixin, PredictionMixin, PlacementMixin, ClassifierMixin, BaseEstimator
):
    """Kernel classifier that averages over many classifiers consistent with the data.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "precomputed"} or callable, default="rbf"
        A callable ``kernel(X, Y)`` returns the array of kernel values; with ``n_jobs`` > 1 it
        is called from several threads.
    gamma : float or {"held-out", "evidence", "scale"}, default="held-out"
        Kernel width. "held-out": chosen from the training data by labels left out; with EP (and for
        billiard and Gibbs sampler) by the probability of each label given all others (equal rows
        are left out together, unless they have both labels), on at most 500 points, drawn in
        proportion to the classes, or one a class; for perceptrons by errors out of five folds, on
        at most 2,000. "evidence": by the probability of all labels (of EP, on at most 500
        points). "scale": ``1 / (n_features * X.var())``, as in `sklearn.svm.SVC`. Without effect
        where the kernel has no width.
    degree : int, default=3
        Degree of the "poly" kernel ``(gamma <x, x'> + coef0) ** degree``.
    coef0 : float, default=1.0
        Constant of the "poly" kernel.
    normalize_kernel : bool, default=True
        Make all points unit vectors in feature space.
    bias : float or {"auto", "evidence"}, default="auto"
        Variance of a bias weight, added to the kernel before normalisation; 0 for none. "auto": 1,
        but 0 for "rbf" and "laplacian" with more than two classes.
    inference : {"auto", "perceptron", "billiard", "gibbs", "ep"}, default="auto"
        How classifiers are drawn. "perceptron": each draw is a kernel perceptron run to zero
        training errors on the points in a new random order. "billiard": exact draws of the
        posterior, uniform on version space or, with ``label_noise``, weighted by it; it needs
        all kernel rows and an m × m factor within ``cache_size``. "gibbs": the kernel Gibbs
        sampler, for comparison; it has the same posterior and mixes far more slowly. "ep":
        expectation propagation, a Gaussian approximation of the posterior in closed form, with
        ``log_evidence_``; for votes it needs six m × m matrices, and two more a class. "auto": EP
        where its sweeps take some seconds at most (up to about 2,200 points of two classes, 460 of
        ten) and ``cache_size`` is enough, else billiard with label noise, else perceptron;
        ``inference_reason_`` says why.
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
        from them it is too sure. "calibrated" (EP only) is the vote, made as much steeper or
        flatter as suits the labels left out. "auto" is "vote" for billiard, Gibbs sampler and EP
        (which has the probability in closed form), "bayes_point" for perceptrons, and "calibrated"
        where ``inference="auto"`` takes EP.
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
        standard deviations.
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
    gamma_, bias_, softness_ : float
        Values used.
    label_noise_ : float or ndarray of shape (n_classes,)
        Rates used.
    inference_, inference_reason_ : str
        Method used, and why.
    n_draws_ : int
        Draws held for each machine; a multiple of four, the number of balls, for the billiard.
    diagnostics_ : dict
        What EP tells of each machine: ``sweeps``, ``converged``, ``bounded``, ``change`` and
        ``log_evidence``.
        What the billiard tells about its last run: ``rhat`` and ``ess`` (of the mean
        margin and of the number of training errors, the worse of them, for each machine),
        ``bounces`` and ``passes`` of each ball, ``n_draws`` of each ball, ``drift``, ``restarts``,
        ``flight_seconds``. Empty for perceptrons.
    bayes_point_error_ : ndarray of shape (1 or n_classes,)
        Monte-Carlo standard error of each Bayes point, an angle in radians.
    label_error_proba_ : ndarray of shape (n_samples,)
        Posterior probability that each training label is wrong, after a fit with the billiard,
        the Gibbs sampler or EP, as with ``label_noise`` > 0.
    log_evidence_ : float
        With EP: approximate logarithm of the probability of the labels, summed over the machines.
        Larger for settings that fit better. With "evidence" and another method: that of the points
        that settings were chosen with.
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

    _settings_: dict  # that the draws were made with
    _merges = True  # equal points with equal labels are one wall

    def __init__(
        self, kernel="rbf", *, gamma="held-out", degree=3, coef0=1.0, normalize_kernel=True,
        bias="auto", inference="auto", n_draws=100, softness="held-out", label_noise=0.0,
        decision="auto",
        class_weight=None, cache_size=2000, max_time=None, tol=1e-3, warm_start=False,
        device="cpu", n_jobs=None, random_state=None, verbose=0,
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize_kernel = normalize_kernel
        self.bias = bias
        self.inference = inference
        self.n_draws = n_draws
        self.softness = softness
        self.label_noise = label_noise
        self.decision = decision
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

    def fit(self, X, y, sample_weight=None):
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
        # Work on a copy: a fit that fails or is refused leaves the model that was there.
        fitted = copy(self)
        less = "Free some, pass float32 or fewer points, use inference='perceptron'"
        with naming_remedies(self.device, less):
            interrupted = fitted._fit(X, y, sample_weight)
        self.__dict__.clear()
        self.__dict__.update(fitted.__dict__)
        if interrupted:
            raise KeyboardInterrupt
        return self

    def _fit(self, X, y, sample_weight):
        """Fit, and return whether Ctrl-C cut it short."""
        check_parameters(self._checked_parameters())
        drawing_time = None if self.max_time is None else (1 - LINK_SHARE) * self.max_time
        budget = Budget(drawing_time, "bayespoint" if self.verbose else None)
        distinct, points = self._training_points(X, y, sample_weight)
        self._choose_inference(points, distinct.dtype.itemsize)
        held = self._held_draws(points)
        n_threads = effective_n_jobs(self.n_jobs)
        with budget.catching_interrupts(), open_threads(n_threads) as threads:
            self._settle(distinct, points, held, budget, threads)
            kernel = self._new_kernel(distinct)
            problem = self._problem(kernel, distinct, points, threads)
            self._check_feasible(problem, points)
            with self._linking(kernel, distinct, problem, points, budget) as link:
                self._draws_, factor = self._method().draw(
                    problem, self.n_draws, tol=self.tol, entropy=self._entropy_, held=held,
                    budget=budget, threads=threads,
                )  # fmt: skip
            self._keep(kernel, distinct, problem, points, factor)
            if self._decision_ == "bayes_point":
                self._fit_link(kernel, distinct, problem, points, budget, link)
        return budget.interrupted

    def _training_points(self, X, y, sample_weight):
        X, y = self._checked_training(X, y)
        if y.dtype.kind not in "biu":  # whole numbers are classes
            check_classification_targets(y)
        weight = check_weights(sample_weight, X.shape[0])
        if self.kernel == "precomputed":
            check_gram(X)
        kept = weight > 0
        if not np.any(kept):
            raise ValueError("sample_weight is zero for every row; give some rows weight > 0.")
        self.classes_, kept_label = encoded(y[kept])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least 2 classes with positive weight; got "
                f"{len(self.classes_)} class(es): {self.classes_.tolist()}."
            )
        label = np.zeros(len(y), dtype=np.int64)
        label[kept] = kept_label
        points = merge_duplicates(
            X, label, weight, keep_order=self.kernel == "precomputed", merge=self._merges
        )
        self._n_samples_ = X.shape[0]
        totals = np.bincount(points.label, weights=points.weight)
        self._log_weight_ = log_class_weights(self.class_weight, self.classes_, totals)
        self._class_share_ = totals / totals.sum()
        self._set_noise(0.0 if by_evidence(self.label_noise) else self.label_noise)
        distinct = self._chosen_rows(X, points.row)
        if self.kernel != "precomputed":
            warn_about_scales(distinct)
        return distinct, points

    def _restricted(self, X, index):
        """Rows of X, or the Gram matrix of these points."""
        return X[np.ix_(index, index)] if self.kernel == "precomputed" else X[index]

    def _new_kernel(self, distinct):
        self._center_, self._layout_ = None, None
        kernel = self._with_layout(self._kernel(), distinct)
        self._center_, self._layout_ = kernel.center_, kernel.layout_
        return kernel

    def _kernel_of(self, gamma, bias):
        return Kernel(
            self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0, bias=bias,
            normalize=self.normalize_kernel,
        )  # fmt: skip

    def _kernel(self):
        kernel = self._kernel_of(self.gamma_, self.bias_)
        kernel.center_, kernel.layout_ = self._center_, self._layout_
        return kernel

    def _points_of(self, kernel, distinct):
        diagonal = distinct.diagonal() if self.kernel == "precomputed" else None
        return kernel.prepare(distinct, diagonal=diagonal)

    def _rows(self, kernel, distinct, threads):
        if self.device_ != "cpu":
            return self._device_rows(kernel, distinct)
        points = self._points_of(kernel, distinct)
        cache_bytes = int(self.cache_size * 1e6)
        return GramRows(kernel, points, cache_bytes=cache_bytes, threads=threads)

    def _problem(self, kernel, distinct, points, threads):
        """Labels +1 and -1 for each machine (one for two classes, else one a class), and noise."""
        classes = self.classes_.tolist()
        machines = [1] if len(classes) == 2 else range(len(classes))
        own = points.label == np.array(machines)[:, None]
        if np.any(self._class_noise_):
            rate = self._class_noise_[points.label]
            # A wrong label is any of the others: of class c with this chance.
            rate = np.where(own, rate, rate / (len(classes) - 1))
            odds, log_right = points.weight * label_odds(rate), points.weight * np.log1p(-rate)
        else:
            odds, log_right = (np.broadcast_to(value, own.shape) for value in (np.inf, 0.0))
        names = [f" for class {c!r} against the rest" for c in classes]
        return Problem(
            self._rows(kernel, distinct, threads), np.where(own, np.int8(1), np.int8(-1)),
            self.softness_, odds, log_right, names if len(classes) > 2 else [""],
            points.row, points.weight,
        )  # fmt: skip

    def _check_feasible(self, problem, points):
        """Find what no classifier can satisfy before anything is drawn."""
        self._check_origin(problem.rows.diagonal, points)
        if self.softness_ == 0:
            conflicting = self._contradictions(points)
            if len(conflicting):
                raise EmptyVersionSpaceError(
                    conflicting, " (equal rows, unequal labels)", "leave them out"
                )

    def _check_origin(self, length, points):
        if np.any(length == 0):
            raise ValueError(
                f"rows {shown_places(length == 0, points.row)} of X lie at the origin of feature "
                f"space (k(x, x) = 0), where no classifier can decide: set bias > 0 or leave them out."
            )

    def _contradictions(self, points):
        """Points whose labels no classifier can give them, because equal ones have another."""
        return contradictions(points, self._class_noise_[points.label] == 0)

    def _method(self):
        return METHODS[self.inference_]

    def _checked_parameters(self):
        """Return what `check_parameters` looks at."""
        return self.get_params(deep=False)

    def _held_draws(self, points):
        """Draws of the last fit to add to, or None."""
        settings = {name: getattr(self, name) for name in DRAW_SETTINGS}
        settings["inference"] = self.inference_
        given = by_evidence(self.label_noise)
        settings["label_noise"] = self.label_noise if given else self._class_noise_.tolist()
        settings[SAME_DATA] = points.fingerprint
        if self.warm_start and getattr(self, "_draws_", None) is not None:
            changed = [name for name in settings if settings[name] != self._settings_[name]]
            if self.inference_ == "ep":  # sites of other settings are a start, too
                changed = [name for name in changed if name in ("inference", SAME_DATA)]
            if changed:
                raise ValueError(
                    f"warm_start=True adds draws to those of the last fit, but {changed} changed "
                    f"since then. Set warm_start=False to start anew."
                )
            self._settings_ = settings
            return self._draws_ if np.all(self._draws_["finished"]) else None
        self._settings_ = settings
        self._entropy_: int = entropy_of(self.random_state)
        return None

    def _keep(self, kernel, distinct, problem, points, factor):
        """Store what prediction, further draws and inspection need, as plain arrays."""
        state = self._draws_
        gaussians = state.pop("gaussians", None)
        self._points_row_ = points.row
        self.n_draws_ = state["n_draws"]
        self.bayes_point_error_ = state["angle_errors"]
        self.diagnostics_ = state["info"]
        self._whitener_: np.ndarray | None = None
        self._kappa_ = np.nan
        used = np.flatnonzero(np.any(state["used"], axis=0))
        samples = self.inference_ in ("billiard", "gibbs")
        votes = self._decision_ in VOTING
        if factor is None and (samples or votes):
            factor = factorise(problem.rows, problem.softness, problem.rows.threads)
        if votes:
            used = np.arange(len(points.row))
            self._whitener_ = factor.whitener()
        self._gaussian_: dict | None = None
        if gaussians is not None:
            self.log_evidence_ = float(np.sum(state["info"]["log_evidence"]))
            if votes:
                self._gaussian_ = closed_form(gaussians)
            if self._decision_ == "calibrated":
                alone = ~contested(points)
                scores = np.array([gaussian.held_out_scores(alone) for gaussian in gaussians])
                self._kappa_, _ = fit_steepness(scores, points.label, points.weight, self._noise_)
        self._label_proba_: np.ndarray | None = None
        # Where nothing else needs the inverse of a large Gram matrix, it would be most of the work.
        many = self.device_ != "cpu" and len(points.row) > DEVICE_LABEL_POINTS
        if (samples and not (many and not votes)) or gaussians is not None:
            votes = (
                gaussian_votes(problem.targets, gaussians) if gaussians is not None else
                sampled_votes(problem, state["coef"], factor, self._whitener_)
            )  # fmt: skip
            proba = class_probabilities(votes)
            proba = np.vstack([proba, np.full(len(self.classes_), np.nan)])
            self._label_proba_ = proba[points.member]
            self._label_ = np.append(points.label, 0)[points.member]
        self._used_ = used
        self.dual_coef_ = state["bayes_points"][:, used]
        self.support_ = points.row[used]
        diagonal = None
        if self.kernel == "precomputed":
            self._mean_diagonal_ = float(np.mean(distinct.diagonal()))
            self.support_vectors_ = np.empty((len(used), 0), dtype=distinct.dtype)
            diagonal = distinct.diagonal()[used]
        else:
            self.support_vectors_ = distinct[used]
        prepared = self._prepared_support(kernel, problem.rows, diagonal)
        self._support_ = dict(vars(prepared))

    @contextmanager
    def _linking(self, kernel, distinct, problem, points, budget):
        """On a GPU, fit the link to other runs while the draws are made: the host has time then.

        Yields a future of its steepness, or None where the link comes later.
        """
        beside = self.device_ != "cpu" and self.inference_ == "perceptron"
        many = self._decision_ == "bayes_point" and len(points.label) > LINK_POINTS
        surely = self.max_time is None and self.n_draws >= HELD_OUT_DRAWS
        if not (beside and many and surely and problem.rows.whole):
            yield None
            return
        own, data = Budget(parent=budget), (kernel, distinct, problem, points)
        with self._beside(self._steepness, *data, self.n_draws, own) as link:
            try:
                yield link
            except BaseException:
                own.interrupt()  # nobody waits for it
                raise

    def _fit_link(self, kernel, distinct, problem, points, budget, link=None):
        if link is not None and not budget.interrupted:
            self._kappa_ = link.result()
            return
        if len(points.label) > LINK_POINTS:
            problem.rows.store = None  # its memory, before other rows take some
        time_left = None
        if self.max_time is not None:
            time_left = max(self.max_time - budget.elapsed(), LINK_SHARE * self.max_time)
        budget.label = None
        budget.renew(LINK_TIME_AFTER_INTERRUPT if budget.interrupted else time_left)

        self._kappa_ = self._steepness(kernel, distinct, problem, points, self.n_draws_, budget)

    def _steepness(self, kernel, distinct, problem, points, n_draws, budget):
        """Steepness of the link that suits outputs at points left out."""
        label, weight = points.label, points.weight
        if len(label) > LINK_POINTS:
            chosen = link_points(label, self._entropy_)
            label, weight = label[chosen], weight[chosen]
            part = self._chosen_rows(distinct, chosen)
            problem = problem._replace(
                rows=self._rows(kernel, part, problem.rows.threads),
                targets=problem.targets[:, chosen], odds=problem.odds[:, chosen],
                log_right=problem.log_right[:, chosen], points=problem.points[chosen],
                weight=problem.weight[chosen],
            )  # fmt: skip
        known, outputs = self._held_out_outputs(problem, label, n_draws, budget)
        return fit_link(outputs, label[known], weight[known])

    def _held_out_outputs(self, problem, label, n_draws, budget):
        """Return the points that have held-out outputs, and these."""

        def held_out(folds):
            return self._method().held_out(
                problem, folds, n_draws=n_draws, entropy=self._entropy_, budget=budget,
                threads=problem.rows.threads,
            )  # fmt: skip

        lengths = np.sqrt(problem.rows.diagonal)
        return out_of_fold(held_out, label, n_machines=len(problem.targets), lengths=lengths)

    # ------------------------------------------------------------------ looking inside

    @property
    def label_error_proba_(self):
        """Posterior probability that each training label is wrong, one for each row given to fit.

        From draws of the billiard or the Gibbs sampler, or from EP: how often the output at the
        point, without its softness, has not the sign of its label. For more classes, one less the
        share of the label in the votes of all classes: good for ranking, as a probability somewhat
        too high. NaN for rows of weight 0.
        """
        if not hasattr(self, "classes_"):
            raise AttributeError("label_error_proba_ is there once the classifier is fitted.")
        if getattr(self, "_label_proba_", None) is None:
            if self.inference_ == "billiard":
                raise AttributeError(
                    f"label_error_proba_ is left out above {DEVICE_LABEL_POINTS:,} points on a GPU "
                    f"unless decision='vote': fit with that, or with device='cpu'."
                )
            raise AttributeError(
                f"label_error_proba_ is there after a fit of BayesPointClassifier with "
                f"inference='billiard', 'gibbs' or 'ep', as with label_noise > 0; this one was "
                f"fitted with {self.inference_!r}."
            )
        own = np.take_along_axis(self._label_proba_, self._label_[:, None], axis=1)
        return 1.0 - own[:, 0]

    def posterior(self, i=0):
        """Draws of the i-th binary problem (the only one for two classes).

        Parameters
        ----------
        i : int, default=0
            Number of the class that is told from the rest; 0 for two classes.

        Returns
        -------
        Posterior
            Its coefficients stand for the rows of X given to `fit`; merged copies have none
            but the first. Its outputs, and ``ess()`` and the like, are those at the support
            points (none for ``kernel="precomputed"``).
        """
        check_is_fitted(self)
        if self._draws_ is None:
            raise ValueError("this copy of a classifier holds no draws; use the original one.")
        n_machines = len(self.dual_coef_)
        if not isinstance(i, int | np.integer) or not 0 <= i < n_machines:
            raise ValueError(f"i must be a whole number from 0 to {n_machines - 1}; got {i!r}.")
        coef = self._draws_["coef"][i]
        shape = (coef.shape[0], self._n_samples_)
        if sp.issparse(coef):
            columns = self._points_row_[coef.indices]
            spread = sp.csr_matrix((coef.data.copy(), columns, coef.indptr), shape=shape)
            spread.sort_indices()
        else:
            spread = np.zeros(shape)
            np.add.at(spread.T, self._points_row_, coef.T)  # copies share a row
        order = np.argsort(self._points_row_[self._used_])
        outputs = self._training_outputs(coef)
        return Posterior(
            spread, mean_norm=self._draws_["mean_norms"][i], n_chains=self._draws_["n_chains"],
            centres=self._centres(i), source="fit", label_noise=self.label_noise_,
            outputs=None if outputs is None else outputs[:, order],
            points=self._points_row_[self._used_][order],
            info={name: _of_machine(values, i) for name, values in self.diagnostics_.items()},
        )  # fmt: skip

    def _centres(self, i):
        """Bayes points of a machine over the rows of X, with their errors."""
        found = {"fit": (self._draws_["bayes_points"][i], self.bayes_point_error_[i])}
        if "kicks" in self._draws_ and np.any(self._draws_["kicks"]):
            found["kicks"] = self._draws_["kick_centres"][i], self._draws_["kick_errors"][i]
        centres = {}
        for source, (coef, error) in found.items():
            centres[source] = np.zeros(self._n_samples_), float(error)
            np.add.at(centres[source][0], self._points_row_, coef)
        return centres

    def _training_outputs(self, coef):
        """Outputs of draws at the training points that have coefficients, softness included."""
        kernel, support = self._kernel(), Points(**self._support_)
        if self.kernel == "precomputed":
            return None  # the Gram matrix is not kept
        coef = dense(coef[:, self._used_])
        with open_threads(effective_n_jobs(self.n_jobs)) as threads:
            outputs = apply_kernel(kernel, support, support, coef.T, threads).T
        return outputs + self.softness_ * support.length.astype(np.float64) ** 2 * coef

    def compress(self, tol=1e-2):
        """Return a classifier with fewer support points and almost the same decisions.

        Averaged machines have many support points. The copy keeps the few that describe the
        Bayes points well enough.

        Parameters
        ----------
        tol : float, default=1e-2
            `decision_function` (before the shift by ``class_weight``) changes by at most this
            anywhere. It is a cosine, so it lies between -1 and 1.

        Returns
        -------
        BayesPointClassifier
            Fitted, without draws.
        """
        check_is_fitted(self)
        check_number("tol", tol, above=0)
        if self._decision_ != "bayes_point" or self.kernel == "precomputed":
            raise ValueError(
                "compress needs decision='bayes_point' and a kernel that can be evaluated (not "
                "'precomputed'): votes and given Gram matrices depend on all training points."
            )
        kernel, support = self._kernel(), Points(**self._support_)
        with open_threads(effective_n_jobs(self.n_jobs)) as threads:
            kept, coef = compress_machines(
                kernel, support, self.dual_coef_, tol,
                cache_bytes=int(self.cache_size * 1e6), threads=threads,
            )  # fmt: skip
        small = clone(self)
        small.__dict__.update(self.__dict__)
        small._draws_ = None
        small.dual_coef_ = coef
        small.support_ = self.support_[kept]
        small.support_vectors_ = self.support_vectors_[kept]
        small._support_ = dict(vars(support.take(kept)))
        return small

    def __sklearn_tags__(self):
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _of_machine(values, i):
    """Entry of one machine, of what there is one of each; else all."""
    return values[i] if isinstance(values, np.ndarray) else values
