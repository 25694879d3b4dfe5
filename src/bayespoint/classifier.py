"""BayesPointClassifier: validate, compute rows, infer, decide."""

from copy import copy

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayespoint import decisions
from bayespoint.budget import Budget
from bayespoint.calibration import LINK_POINTS, calibrate, link_points
from bayespoint.compression import compress_machines
from bayespoint.ensemble import Ensemble
from bayespoint.gram import GramRows, apply_kernel, submatrix, warn_if_large
from bayespoint.kernels import Kernel, Points, scale_gamma, some_of
from bayespoint.perceptrons import (
    conflict_check,
    entropy_of,
    perceptron_draws,
    permutations,
    warn_if_violated,
)
from bayespoint.points import contradictions, merge_duplicates
from bayespoint.posterior import Posterior
from bayespoint.threads import open_threads
from bayespoint.validation import (
    canonical,
    check_fits,
    check_gram,
    check_number,
    check_parameters,
    check_positive_integer,
    check_weights,
    log_class_weights,
    same_precision,
    warn_about_scales,
)
from bayespoint.version_space import EmptyVersionSpaceError, VersionSpace

# Share of max_time kept for the link, and the seconds it may take after Ctrl-C.
LINK_SHARE = 0.1
LINK_TIME_AFTER_INTERRUPT = 1.0

# Test points whose draws' outputs are held at once.
VOTE_BLOCK = 1024

# Settings that draws depend on: warm_start refuses to mix draws of different ones.
DRAW_SETTINGS = ("kernel", "gamma", "degree", "coef0", "normalize_kernel", "bias", "softness")


class BayesPointClassifier(ClassifierMixin, BaseEstimator):
    """Kernel classifier that averages over many classifiers consistent with the data.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "precomputed"} or callable, default="rbf"
        A callable ``kernel(X, Y)`` returns the array of kernel values; with ``n_jobs`` > 1 it
        is called from several threads.
    gamma : float or "scale", default="scale"
        Kernel width; "scale" is ``1 / (n_features * X.var())``, as in `sklearn.svm.SVC`.
        ("evidence" is not available yet.)
    degree : int, default=3
        Degree of the "poly" kernel ``(gamma <x, x'> + coef0) ** degree``.
    coef0 : float, default=1.0
        Constant of the "poly" kernel.
    normalize_kernel : bool, default=True
        Make all points unit vectors in feature space.
    bias : float, default=1.0
        Variance of a bias weight, added to the kernel before normalisation; 0 for none.
    inference : {"auto", "perceptron"}, default="auto"
        How classifiers are drawn. "perceptron": each draw is a kernel perceptron run to zero
        training errors on the points in a new random order. "auto" takes it.
        ("billiard", "gibbs" and "ep" are not available yet.)
    n_draws : int, default=100
        Classifiers drawn for each class (for each pair of classes where there are two).
    softness : float, default=0.1
        Soft boundaries: the diagonal of the training Gram matrix is multiplied by
        ``1 + softness``. With 0 every draw has no training error, and data that cannot be
        separated are an error. ("evidence" is not available yet.)
    label_noise : float, default=0.0
        Probability of a wrong label. Only 0 is available yet.
    decision : {"auto", "bayes_point", "vote"}, default="auto"
        "bayes_point" decides by the centre of the draws. "vote" averages the exact predictive
        probability over the draws, what the training points leave open included; it needs an
        m × m factor within ``cache_size``. "auto" is "bayes_point" for perceptrons.
    class_weight : dict, "balanced" or None, default=None
        Shifts decisions: the probability of class c is multiplied by its weight, and
        probabilities and `decision_function` follow.
    cache_size : float, default=2000
        Memory for kernel rows, in MB, at least 128 rows; the runs take up to a quarter of it
        more.
    max_time : float, optional
        Seconds after which fitting ends with the draws it has. Fewer runs then share rows, so
        that some are finished in time; a fit without limit is faster.
    tol : float, default=1e-3
        Drawing ends early once the Monte-Carlo error of every Bayes point, an angle in radians,
        is below this.
    warm_start : bool, default=False
        Keep the draws of the last fit on the same data and add to them up to ``n_draws``; none
        is taken away if there are more. The seed stays that of the first fit.
    device : {"cpu", "auto"}, default="cpu"
        ("cuda" is not available yet.)
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
    gamma_, softness_, label_noise_ : float
        Values used.
    inference_ : str
        Method used.
    n_draws_ : int
        Draws held for each machine.
    bayes_point_error_ : ndarray of shape (1 or n_classes,)
        Monte-Carlo standard error of each Bayes point, an angle in radians.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has string column names.

    Notes
    -----
    Weights: a weight w means w copies of a point. Equal points with equal labels are merged
    first, so without label noise weights > 0 change only the scale of `gamma` and the steepness
    of the probabilities; weight 0 leaves a point out.

    For ``kernel="precomputed"`` the length of new points in feature space is unknown, and the
    mean of the training diagonal stands in for it: `predict` does not depend on it (unless
    ``class_weight`` or ``decision="vote"`` is given), the size of `decision_function` does unless
    the diagonal is constant. Its points keep the order of the input, so its draws are not those of
    the same kernel given by name.

    Perceptron draws lie in version space but are not uniform on it; see
    `bayespoint.inference.sample_perceptron`.

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
        self, kernel="rbf", *, gamma="scale", degree=3, coef0=1.0, normalize_kernel=True,
        bias=1.0, inference="auto", n_draws=100, softness=0.1, label_noise=0.0, decision="auto",
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
        interrupted = fitted._fit(X, y, sample_weight)
        self.__dict__.clear()
        self.__dict__.update(fitted.__dict__)
        if interrupted:
            raise KeyboardInterrupt
        return self

    def _fit(self, X, y, sample_weight):
        """Fit, and return whether Ctrl-C cut it short."""
        check_parameters(self.get_params(deep=False))
        drawing_time = None if self.max_time is None else (1 - LINK_SHARE) * self.max_time
        budget = Budget(drawing_time, "bayespoint" if self.verbose else None)
        distinct, points = self._training_points(X, y, sample_weight)
        kernel = self._new_kernel(distinct, points.weight)
        ensemble = self._held_ensemble(points)
        n_threads = effective_n_jobs(self.n_jobs)
        with budget.catching_interrupts(), open_threads(n_threads) as threads:
            rows = self._rows(kernel, distinct, threads)
            self._check_feasible(rows, points)
            self._draw(ensemble, rows, points, budget)
            self._keep(ensemble, kernel, distinct, rows, points)
            self._fit_link(kernel, distinct, rows, points, budget)
        return budget.interrupted

    def _training_points(self, X, y, sample_weight):
        X, y = validate_data(
            self, X, y, accept_sparse=self._accepts_sparse(), dtype=[np.float64, np.float32],
            order="C",
        )  # fmt: skip
        check_classification_targets(y)
        weight = check_weights(sample_weight, X.shape[0])
        if self.kernel == "precomputed":
            check_gram(X)
        kept = weight > 0
        if not np.any(kept):
            raise ValueError("sample_weight is zero for every row; give some rows weight > 0.")
        self.classes_, kept_label = np.unique(y[kept], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least 2 classes with positive weight; got "
                f"{len(self.classes_)} class(es): {self.classes_.tolist()}."
            )
        label = np.zeros(len(y), dtype=np.int64)
        label[kept] = kept_label
        X = canonical(X)
        points = merge_duplicates(X, label, weight, keep_order=self.kernel == "precomputed")
        self._n_samples_ = X.shape[0]
        totals = np.bincount(points.label, weights=points.weight)
        self._log_weight_ = log_class_weights(self.class_weight, self.classes_, totals)
        distinct = self._restricted(X, points.row)
        if self.kernel != "precomputed":
            warn_about_scales(distinct)
        return distinct, points

    def _accepts_sparse(self):
        return False if self.kernel == "precomputed" else "csr"

    def _restricted(self, X, index):
        """Rows of X, or the Gram matrix of these points."""
        return X[np.ix_(index, index)] if self.kernel == "precomputed" else X[index]

    def _new_kernel(self, distinct, weight):
        self.gamma_ = 1.0 if self.gamma == "scale" else float(self.gamma)
        if self.gamma == "scale" and self.kernel != "precomputed":
            self.gamma_ = scale_gamma(distinct, weight)
        check_fits(self.gamma_, "gamma", distinct.dtype)
        self.softness_ = float(self.softness)
        self.label_noise_ = 0.0
        self.inference_ = "perceptron"
        self._center_, self._layout_ = None, None
        kernel = self._kernel().fit_layout(distinct)
        self._center_, self._layout_ = kernel.center_, kernel.layout_
        return kernel

    def _kernel(self):
        kernel = Kernel(
            self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0,
            bias=float(self.bias), normalize=self.normalize_kernel,
        )  # fmt: skip
        kernel.center_, kernel.layout_ = self._center_, self._layout_
        return kernel

    def _rows(self, kernel, distinct, threads):
        diagonal = distinct.diagonal() if self.kernel == "precomputed" else None
        points = kernel.prepare(distinct, diagonal=diagonal)
        cache_bytes = int(self.cache_size * 1e6)
        return GramRows(kernel, points, cache_bytes=cache_bytes, threads=threads)

    def _check_feasible(self, rows, points):
        """Find what no classifier can satisfy before anything is drawn."""
        origin = rows.diagonal == 0
        if np.any(origin):
            raise ValueError(
                f"rows {some_of(origin, points.row)} of X lie at the origin of feature space "
                f"(k(x, x) = 0), where no classifier can decide: set bias > 0 or leave them out."
            )
        if self.decision == "vote":
            self._check_span(len(rows))
        if self.softness == 0:
            conflicting = contradictions(points)
            if len(conflicting):
                raise EmptyVersionSpaceError(
                    conflicting, " (equal rows, unequal labels)", "leave them out"
                )

    def _targets(self, label):
        """Labels +1 and -1 for each machine: one for two classes, else one a class."""
        machines = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return np.array([np.where(label == c, 1, -1) for c in machines], dtype=np.int8)

    def _held_ensemble(self, points):
        """Draws of the last fit to add to, or an empty ensemble."""
        settings = {name: getattr(self, name) for name in DRAW_SETTINGS}
        settings["X, y or sample_weight"] = points.fingerprint
        if self.warm_start and getattr(self, "_draws_", None) is not None:
            changed = [name for name in settings if settings[name] != self._settings_[name]]
            if changed:
                raise ValueError(
                    f"warm_start=True adds draws to those of the last fit, but {changed} changed "
                    f"since then. Set warm_start=False to start anew."
                )
            if np.all(self._draws_["finished"]):
                return Ensemble.from_state(self._draws_)
            return Ensemble(*self._targets(points.label).shape)  # a draw cut short is made anew
        self._settings_: dict = settings
        self._entropy_ = entropy_of(self.random_state)
        return Ensemble(*self._targets(points.label).shape)

    def _draw(self, ensemble, rows, points, budget):
        targets = self._targets(points.label)
        orders = permutations(len(rows), self._entropy_)
        enough = np.all(ensemble.angle_errors() <= self.tol)
        missing = 0 if enough else max(0, self.n_draws - ensemble.n_draws)
        numbers = range(ensemble.next_number, ensemble.next_number + missing)
        if missing:
            warn_if_large(rows, orders(numbers[0]))
        problems = [f" for class {c!r} against the rest" for c in self.classes_.tolist()]
        check = conflict_check(
            lambda machine: VersionSpace(rows, targets[machine], self.softness_),
            points.row, problems if len(targets) > 1 else None,
        )  # fmt: skip
        for draw in perceptron_draws(
            rows, targets, self.softness_ * rows.diagonal, numbers, orders, budget=budget,
            on_exhausted=check,
        ):  # fmt: skip
            ensemble.add(draw)
            if np.all(ensemble.angle_errors() <= self.tol):
                break
        warn_if_violated(ensemble.violated, stacklevel=5)

    def _keep(self, ensemble, kernel, distinct, rows, points):
        """Store what prediction, further draws and inspection need, as plain arrays."""
        self._draws_ = ensemble.state()
        self._points_row_ = points.row
        self.n_draws_ = ensemble.n_draws
        self.bayes_point_error_ = ensemble.angle_errors()
        self._whitener_: np.ndarray | None = None
        bayes_points = ensemble.bayes_points()
        used = np.flatnonzero(np.any(self._draws_["sum_coef"] != 0, axis=0))
        if self.decision == "vote":
            used = np.arange(len(rows))
            self._whitener_ = self._span(rows)
        self._used_ = used
        self.dual_coef_ = bayes_points[:, used]
        self.support_ = points.row[used]
        diagonal = None
        if self.kernel == "precomputed":
            self._mean_diagonal_ = float(np.mean(distinct.diagonal()))
            self.support_vectors_ = np.empty((len(used), 0), dtype=distinct.dtype)
            diagonal = distinct.diagonal()[used]
        else:
            self.support_vectors_ = distinct[used]
        prepared = kernel.prepare(self.support_vectors_, diagonal=diagonal)
        self._support_ = dict(vars(prepared))

    def _check_span(self, n_points):
        needed = 4 * 8 * n_points**2 / 1e6  # K, its factor, and what the inverse is solved from
        if needed > self.cache_size:
            raise ValueError(
                f"decision='vote' needs {needed:.1f} MB for the span of {n_points} training "
                f"points; got cache_size={self.cache_size}. Raise cache_size or use "
                f"decision='bayes_point'."
            )

    def _span(self, rows):
        K = submatrix(rows, np.arange(len(rows)))
        K[np.diag_indices_from(K)] *= 1 + self.softness_
        return decisions.whitener(K, rows.store.dtype)

    def _fit_link(self, kernel, distinct, rows, points, budget):
        chosen = link_points(points.label, self._entropy_)
        if len(rows) > LINK_POINTS:
            threads = rows.threads
            rows.store = None  # its memory, before other rows take some
            part = self._rows(kernel, self._restricted(distinct, chosen), threads)
            label, weight = points.label[chosen], points.weight[chosen]
        else:
            part, label, weight = rows, points.label, points.weight
        time_left = None
        if self.max_time is not None:
            time_left = max(self.max_time - budget.elapsed(), LINK_SHARE * self.max_time)
        budget.label = None
        budget.renew(LINK_TIME_AFTER_INTERRUPT if budget.interrupted else time_left)
        self._kappa_ = calibrate(
            part, self._targets(label), self.softness_ * part.diagonal, label, weight,
            n_draws=self.n_draws_, entropy=self._entropy_, budget=budget,
        )  # fmt: skip

    # ------------------------------------------------------------------ deciding

    def decision_function(self, X):
        """Outputs that decide: the class with the largest one is predicted.

        With ``decision="bayes_point"`` the cosine between the Bayes point and the point in
        feature space (shifted by ``class_weight``); with "vote" the logit of the probability
        (two classes) or its logarithm.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive means ``classes_[1]``.
        """
        X = self._validated(X)
        if self._whitener_ is not None:
            return decisions.log_odds(self._log_votes(X))
        outputs = self._outputs(X, self.dual_coef_)
        outputs = outputs[:, 0] if len(self.classes_) == 2 else outputs
        return decisions.shift_outputs(outputs, self._kappa_, self._log_weight_)

    def predict(self, X):
        """Predict the class with the largest output.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = decisions.winners(self.decision_function(X))
        return self.classes_[best]

    def predict_proba(self, X):
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        outputs = self.decision_function(X)
        if self._whitener_ is not None:
            return decisions.probability_from_odds(outputs)
        return decisions.link(outputs, self._kappa_)

    def predict_log_proba(self, X):
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def sample_proba(self, X, n_samples=10, random_state=None):
        """Probabilities according to single draws of the posterior.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_samples : int, default=10
            Number of draws; more than the model holds are taken with replacement.
        random_state : int, RandomState instance or None

        Returns
        -------
        ndarray of shape (n_samples, n_rows, n_classes)
        """
        X = self._validated(X)
        if self._draws_ is None:
            raise ValueError("a compressed classifier holds no draws; use the original one.")
        check_positive_integer("n_samples", n_samples)
        rng = check_random_state(random_state)
        replace = n_samples > self.n_draws_
        members = rng.choice(self.n_draws_, size=n_samples, replace=replace)
        coef = [draws[members][:, self._used_].toarray() for draws in self._draws_["coef"]]
        n_machines = len(coef)
        outputs = self._outputs(X, np.concatenate(coef))
        outputs = outputs.reshape(X.shape[0], n_machines, n_samples).transpose(2, 0, 1)
        outputs = outputs[:, :, 0] if n_machines == 1 else outputs
        shifted = (decisions.shift_outputs(o, self._kappa_, self._log_weight_) for o in outputs)
        return np.stack([decisions.link(o, self._kappa_) for o in shifted])

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
            but the first.
        """
        check_is_fitted(self)
        if self._draws_ is None:
            raise ValueError("a compressed classifier holds no draws; use the original one.")
        n_machines = len(self.dual_coef_)
        if not isinstance(i, int | np.integer) or not 0 <= i < n_machines:
            raise ValueError(f"i must be a whole number from 0 to {n_machines - 1}; got {i!r}.")
        posterior = Ensemble.from_state(self._draws_).posterior(i)
        coef = posterior.coef
        shape = (coef.shape[0], self._n_samples_)
        columns = self._points_row_[coef.indices]
        coef = sp.csr_matrix((coef.data, columns, coef.indptr), shape=shape)
        coef.sort_indices()
        return Posterior(coef, mean_norm=posterior.mean_norm)

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
        if self._whitener_ is not None or self.kernel == "precomputed":
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

    def _validated(self, X):
        check_is_fitted(self)
        X = validate_data(
            self, X, accept_sparse=self._accepts_sparse(), dtype=[np.float64, np.float32],
            order="C", reset=False,
        )  # fmt: skip
        return X[:, self.support_] if self.kernel == "precomputed" else canonical(X)

    def _outputs(self, X, coef):
        """Cosines of machines (rows of ``coef`` over the support points) and points X."""
        kernel, support = self._kernel(), Points(**self._support_)
        X = same_precision(X, support.X.dtype)
        diagonal = None
        if self.kernel == "precomputed":
            diagonal = np.full(X.shape[0], self._mean_diagonal_, dtype=X.dtype)
        with open_threads(effective_n_jobs(self.n_jobs)) as threads:
            points = kernel.prepare(X, diagonal=diagonal)
            outputs = apply_kernel(kernel, points, support, coef.T, threads)
        if not self.normalize_kernel:
            outputs /= np.where(points.length > 0, points.length, 1.0)[:, None]
        return outputs

    def _log_votes(self, X):
        """Log-probabilities of the classes, averaged over draws exactly."""
        blocks = [X[s : s + VOTE_BLOCK] for s in range(0, X.shape[0], VOTE_BLOCK)]
        votes = np.concatenate([self._votes(block) for block in blocks])
        return decisions.combine_votes(votes, self._log_weight_)

    def _votes(self, X):
        assert self._whitener_ is not None
        draws = [coef.toarray() for coef in self._draws_["coef"]]
        n_machines, rank = len(draws), self._whitener_.shape[0]
        outputs = self._outputs(X, np.concatenate([*draws, self._whitener_]))
        inside = np.sum(outputs[:, n_machines * self.n_draws_ :] ** 2, axis=1)
        variance = np.maximum(1.0 - inside, 0.0) + self.softness_
        machines = [
            decisions.vote_probabilities(
                outputs[:, k * self.n_draws_ : (k + 1) * self.n_draws_].T, variance, rank
            )
            for k in range(n_machines)
        ]
        if n_machines == 1:
            return machines[0]
        return np.column_stack([votes[:, 1] for votes in machines])

    def __sklearn_tags__(self):
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
