"""OnionClassifier: how many training errors to allow, chosen by leave-one-out from one run."""

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import entropy_of
from bayespoint._support.threads import open_threads
from bayespoint._support.types import Array, Seed
from bayespoint.estimators.base import KernelClassifier, Trained
from bayespoint.estimators.calibration import LINK_SHARE
from bayespoint.estimators.data import TrainingData, naming_rows, training_data
from bayespoint.estimators.making import predictor_of
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.settings import Settings, settle
from bayespoint.estimators.shells import Shells, checked_shells, draw_shells
from bayespoint.estimators.trials import problem_of
from bayespoint.inference.draws import Plan
from bayespoint.inference.onion.table import check_depth, error_table
from bayespoint.space.host import Host
from bayespoint.space.links import fit_link


class OnionClassifier(KernelClassifier):
    """Two-class kernel classifier that finds out how many training errors to allow.

    This is the onion of R&M 18.5.3, without its bias: one run draws classifiers uniformly from each
    *shell*, the set of classifiers that make ``n_minus`` errors on the first class and ``n_plus``
    on the second. The same draws give the leave-one-out errors of each shell and of each mixture of
    shells, so the choice needs no further sampling.

    Parameters
    ----------
    kernel, gamma, degree, coef0, normalize_kernel, bias
        As for `BayesPointClassifier`.
    depth : int or pair of int, default=5
        Largest number of training errors on each class.
    shells : "noise", "best", pair of int or float, default="noise"
        Which shells predict. "noise": a mixture of all, weighted by the posterior for labels that
        are wrong with a certain rate, cut off at ``depth``; the rate with the fewest leave-one-out
        errors is used. A float in [0, 0.5) gives this rate. "best": the shell with the fewest
        leave-one-out errors. A pair (n_minus, n_plus): this shell.
    n_draws : int, default=10_000
        Number of draws of all shells together. All are held during fit, with 32 bytes per draw and
        training point.
    softness : float, default=0.1
        As for `BayesPointClassifier`; the paper has 0.
    class_weight : dict, "balanced" or None, default=None
        Shifts decisions, as for `BayesPointClassifier`.
    cache_size : float, default=2000
        Memory for the Gram matrix, its factor and the draws, in MB.
    max_time : float, optional
        Seconds after which fitting stops and uses the draws made so far. The Gram matrix is
        factorised first, whatever the limit.
    n_jobs : int, optional
        Number of threads; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all random numbers.
    verbose : int, default=0
        Whether to show progress on standard error.

    Attributes
    ----------
    shells_ : tuple of int or float
        The shell chosen, or the rate of the mixture.
    loo_errors_ : ndarray of shape (n_minus + 1, n_plus + 1, 2)
        Leave-one-out errors of each shell on the first and on the second class, without
        ``class_weight``; NaN for shells without draws.
    edge_share_ : float
        Share of the mixture that lies in the deepest shells of the table; if it is large, a larger
        ``depth`` would change the result.
    bayes_point_error_ : ndarray of shape (1,)
        Monte Carlo standard error of the Bayes point, an angle in radians; NaN for copies made
        by `with_shells`.
    log_volume_ : ndarray of shape (n_minus + 1, n_plus + 1)
        Logarithm of each shell's share of the total volume.
    counts_ : ndarray of shape (n_minus + 1, n_plus + 1)
        Number of draws in each shell.
    centres_ : ndarray of shape (n_minus + 1, n_plus + 1, n_support)
        Centre of mass of each shell: coefficients of the support points.
    n_draws_ : int
        Number of draws of the mixture that are kept, at most 200.
    classes_, support_, support_vectors_, dual_coef_, gamma_, softness_, diagnostics_
        As for `BayesPointClassifier`.

    Notes
    -----
    Each copy of a point counts as a training error of its own; a weight w means w copies, rounded
    to an integer. For more than two classes wrap it in `sklearn.multiclass.OneVsRestClassifier`.

    References
    ----------
    P. Ruján and M. Marchand, "Computing the Bayes Kernel Classifier", in Advances in Large Margin
    Classifiers, 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayespoint import OnionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = OnionClassifier(depth=2, n_draws=2000, random_state=0)
    >>> clf = make_pipeline(StandardScaler(), clf).fit(X[::3], y[::3])
    >>> clf[-1].loo_errors_.shape
    (3, 3, 2)
    >>> bool(clf.score(X[1::3], y[1::3]) > 0.95)
    True
    """

    def __init__(
        self, kernel: Any = "rbf", *, gamma: Any = "scale", degree: int = 3, coef0: float = 1.0,
        normalize_kernel: bool = True, bias: Any = 1.0, depth: Any = 5, shells: Any = "noise",
        n_draws: int = 10_000, softness: Any = 0.1, class_weight: Any = None,
        cache_size: float = 2000, max_time: float | None = None, n_jobs: int | None = None,
        random_state: Seed = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize_kernel = normalize_kernel
        self.bias = bias
        self.depth = depth
        self.shells = shells
        self.n_draws = n_draws
        self.softness = softness
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "OnionClassifier":
        """Draw classifiers of all shells, and choose those that decide.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Or the Gram matrix (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), optional
            A weight w means w copies; 0 leaves a row out.

        Returns
        -------
        self : OnionClassifier
        """
        parameters = self.checked_parameters()
        # Work on a copy: a fit that fails or is refused leaves the model that was there.
        fitted = copy(self)
        interrupted = fitted._fit(parameters, X, y, sample_weight)
        self.__dict__ = fitted.__dict__
        if interrupted:
            raise KeyboardInterrupt
        return self

    def checked_parameters(self) -> Parameters:
        """Check the parameters that do not depend on data, and return them."""
        own = self.get_params(deep=False)
        depth = check_depth(own.pop("depth"))
        checked_shells(own.pop("shells"), depth)
        return Parameters.checked(
            own | {
                "inference": "billiard", "decision": "bayes_point", "label_noise": 0.0,
                "tol": 0.0, "warm_start": False, "device": "cpu", "cell_size": "auto",
                "n_landmarks": "auto", "n_trees": "auto", "feature_groups": None,
            }
        )  # fmt: skip

    def _fit(self, parameters: Parameters, X: Any, y: Any, sample_weight: Any) -> bool:
        """Fit, and return whether Ctrl-C cut it short."""
        budget, precomputed = parameters.budget(1 - LINK_SHARE), parameters.precomputed
        inputs, y = Host(self.n_jobs).training_inputs(self, X, y, precomputed=precomputed)
        data = training_data(
            inputs, y, sample_weight, class_weight=parameters.class_weight,
            precomputed=precomputed, merge=False,
            most_made=self._most_points(inputs.dtype.itemsize),
        )  # fmt: skip
        self._check_data(data)
        entropy = entropy_of(parameters.random_state)
        settings = Settings("onion", "asked for", "bayes_point")
        threads_of = open_threads(effective_n_jobs(parameters.n_jobs))
        with budget.catching_interrupts(), threads_of as threads, naming_rows(data):
            settings = settle(
                parameters, data, settings, entropy=entropy, budget=budget, threads=threads
            )
            parameters = replace(parameters, kernel=settings.kernel_name)
            kernel = data.inputs.fit_layout(parameters.kernel_with(settings.gamma, settings.bias))
            problem = problem_of(
                kernel, data.inputs, data.distinct, settings, data.classes.tolist(),
                cache_bytes=parameters.cache_bytes, threads=threads,
            )  # fmt: skip
            data.check_origin(problem.rows.diagonal)
            plan = Plan(self.n_draws, 0.0, entropy, budget, threads)
            drawn = draw_shells(problem, plan, check_depth(self.depth), self.shells)
            self.predictor_ = predictor_of(drawn.draws, problem, data, settings, kernel)
        self.classes_, self.settings_, self.draws_ = data.classes, settings, drawn.draws
        self.trained_ = Trained(data.n_samples, data.distinct.row, entropy, {})
        self.support_ = data.distinct.row[self.predictor_.used]
        self.support_vectors_ = data.inputs.support_vectors(self.predictor_.used)
        self.shells_, self.table_ = drawn.shells, drawn.table
        self._decide_by(drawn.density)
        return budget.interrupted

    def _check_data(self, data: TrainingData) -> None:
        if len(data.classes) > 2:
            raise ValueError(
                f"Only binary classification is supported: y holds {len(data.classes)} classes, "
                f"and OnionClassifier takes two. Wrap it in "
                f"sklearn.multiclass.OneVsRestClassifier."
            )
        n_points, itemsize = data.inputs.shape[0], data.inputs.dtype.itemsize
        needed = self._megabytes(n_points, itemsize)
        if needed > self.cache_size:
            raise ValueError(
                f"the onion needs {needed:.1f} MB for {self.n_draws} draws over {n_points} "
                f"training points; got cache_size={self.cache_size}. Raise cache_size or lower "
                f"n_draws."
            )

    def _megabytes(self, n_points: int, itemsize: int) -> float:
        """Memory for the Gram matrix, its factor and the draws."""
        return (n_points**2 * (itemsize + 8) + 32 * n_points * self.n_draws) / 1e6

    def _most_points(self, itemsize: int) -> int:
        """Largest number of points for which `cache_size` is enough."""
        half = 16 * self.n_draws / (itemsize + 8)
        return int(np.sqrt(half**2 + 1e6 * self.cache_size / (itemsize + 8)) - half)

    def _decide_by(self, density: Array) -> None:
        """Set the Bayes point, and the link from its leave-one-out outputs."""
        table = self._needed_table()
        centre, norm = table.combine(density)
        self.edge_share_ = table.edge_share(density)
        outputs = table.loo_outputs(density) / norm / table.length
        predictor: Any = self.predictor_
        self.predictor_ = replace(
            predictor, bayes_points=centre[None],
            link=fit_link(outputs, table.label, table.weight),
        )  # fmt: skip

    # ------------------------------------------------------------------ looking inside

    @property
    def counts_(self) -> Array:
        """Draws in each shell."""
        return self.table_.counts

    @property
    def log_volume_(self) -> Array:
        """Logarithm of each shell's share of the volume of all."""
        return self.table_.log_volume

    @property
    def loo_errors_(self) -> Array:
        """Leave-one-out errors of each shell, by class."""
        return self.table_.loo_errors

    @property
    def centres_(self) -> Array:
        """Mass centre of each shell: coefficients over the support points."""
        if self.table_.means is None:
            raise AttributeError("a compressed classifier holds no centres_; use the original one.")
        return self.table_.centres()

    def with_shells(self, shells: Any) -> "OnionClassifier":
        """Return a copy that decides by other shells of the same run, without sampling again.

        Parameters
        ----------
        shells : "noise", "best", pair of int or float
            As for the class.

        Returns
        -------
        OnionClassifier
            Fitted, without the committee of draws.
        """
        table = self._needed_table()
        other = copy(self)
        other.shells = shells
        depth = tuple(n - 1 for n in table.counts.shape)
        other.shells_, density = table.choose(checked_shells(shells, depth))
        other._decide_by(density)
        other.predictor_ = replace(other.predictor_, committee=None)
        other.draws_ = replace(
            self.draws_.without_draws(), n_draws=0, angle_errors=np.array([np.nan])
        )
        return other

    def compress(self, tol: float = 1e-2, n_points: int | None = None) -> Self:
        """Return a classifier with fewer support points and almost the same decisions.

        Parameters
        ----------
        tol : float, default=1e-2
            As for `BayesPointClassifier.compress`.
        n_points : int, optional
            As for `BayesPointClassifier.compress`.

        Returns
        -------
        OnionClassifier
            Fitted, without draws and without the shells.
        """
        small = super().compress(tol, n_points)
        small.table_ = self.table_.without_points()
        return small

    def error_table(self, X: Any, y: Any) -> Array:
        """Errors of the centre of every shell on new points, as in R&M's table 18.1.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_minus + 1, n_plus + 1, 2)
            Errors among points of the first and of the second class; NaN where no draw fell.
        """
        centres = self._needed_table().centres()
        y, asked = np.asarray(y), self.prepared(X)
        n = asked.X.shape[0]
        if y.shape != (n,) or not np.all(np.isin(y, self.classes_)):
            raise ValueError(
                f"y must hold one label of {self.classes_.tolist()} for each of {n} rows "
                f"of X; got shape {y.shape}, labels {np.unique(y)[:5].tolist()}."
            )
        flat = centres.reshape(-1, centres.shape[-1])
        held = ~np.isnan(flat[:, 0])
        outputs = np.full((len(flat), n), np.nan)
        with asked.naming_rows():
            outputs[held] = self.predictor_.support.outputs(asked, flat[held]).T
        sign = np.where(y == self.classes_[1], 1, -1)
        return error_table(outputs.reshape(*centres.shape[:2], -1), sign)

    def _needed_table(self) -> Shells:
        check_is_fitted(self)
        if self.table_.means is None:
            raise ValueError("a compressed classifier holds no shells; use the original one.")
        return self.table_

    def __sklearn_tags__(self) -> Any:
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
