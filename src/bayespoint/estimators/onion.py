"""OnionClassifier: how many training errors to allow, chosen by leave-one-out from one run."""

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.checks import warn
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.inference.onion.exact import draw_onion, warn_if_apart
from bayespoint.inference.onion.table import (
    best_cell,
    best_noise,
    check_depth,
    clipped,
    error_table,
    noise_density,
)
from bayespoint.space.decisions import fit_link

# Balls of a run, and draws kept of it.
CHAINS = 8
KEPT_DRAWS = 200


class OnionClassifier(BayesPointClassifier):
    """Two-class kernel classifier that allows some training errors, as many as pay.

    The onion of R&M 18.5.3, unbiased: one run draws classifiers uniformly from each *shell*, those
    that make ``n_minus`` errors on the first class and ``n_plus`` on the second. The same draws
    give the leave-one-out errors of each shell and of each mixture of shells, so that the choice
    needs no further sampling.

    Parameters
    ----------
    kernel, gamma, degree, coef0, normalize_kernel, bias
        As for `BayesPointClassifier`.
    depth : int or pair of int, default=5
        Largest number of training errors, on each class, of the shells drawn.
    shells : "noise", "best", pair of int or float, default="noise"
        Which of them decide. "noise": all, by volume and by the posterior of labels that are
        wrong with some rate, cut off at ``depth``; the rate with the fewest leave-one-out errors
        is taken. A float in [0, 0.5) is this rate, given. "best": the shell with the fewest
        leave-one-out errors. A pair is one shell, (n_minus, n_plus).
    n_draws : int, default=10_000
        Draws of all shells together, all held during fit: 32 bytes for each of them and each
        training point.
    softness : float, default=0.1
        Soft boundaries, as for `BayesPointClassifier`; 0 for those of the paper.
    class_weight : dict, "balanced" or None, default=None
        Shifts decisions, as for `BayesPointClassifier`.
    cache_size : float, default=2000
        Memory for the Gram matrix, its factor and the draws, in MB.
    max_time : float, optional
        Seconds after which fitting ends with the draws it has. The Gram matrix is factorised
        first, whatever the limit.
    n_jobs : int, optional
        Threads; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        Show progress on standard error.

    Attributes
    ----------
    shells_ : tuple of int or float
        Shell chosen, or rate of the mixture.
    loo_errors_ : ndarray of shape (n_minus + 1, n_plus + 1, 2)
        Leave-one-out errors of each shell among points of the first and of the second class,
        before any shift by ``class_weight``; NaN where no draw fell.
    edge_share_ : float
        Share of the deciding mixture in the deepest shells of the table; much of it says that a
        larger ``depth`` would change the answer.
    bayes_point_error_ : ndarray of shape (1,)
        Monte-Carlo standard error of the Bayes point, an angle in radians; NaN for copies made
        by `with_shells`.
    log_volume_ : ndarray of shape (n_minus + 1, n_plus + 1)
        Logarithm of each shell's share of the volume of all.
    counts_ : ndarray of shape (n_minus + 1, n_plus + 1)
        Draws in each shell.
    centres_ : ndarray of shape (n_minus + 1, n_plus + 1, n_support)
        Mass centre of each shell: coefficients over the support points.
    n_draws_ : int
        Draws of the deciding mixture that are kept, a committee of 200 at most.
    classes_, support_, support_vectors_, dual_coef_, gamma_, softness_, diagnostics_
        As for `BayesPointClassifier`.

    Notes
    -----
    Each copy of a point is a training error of its own; a weight w means w copies, rounded to a
    whole number. For more than two classes wrap it in `sklearn.multiclass.OneVsRestClassifier`.

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

    _merges = False  # each copy is a training error of its own

    # What the other inferences leave open.
    inference = "onion"
    decision = "bayes_point"
    label_noise = 0.0
    tol = 0.0
    warm_start = False
    device = "cpu"

    def __init__(
        self, kernel="rbf", *, gamma="scale", degree=3, coef0=1.0, normalize_kernel=True,
        bias=1.0, depth=5, shells="noise", n_draws=10_000, softness=0.1, class_weight=None,
        cache_size=2000, max_time=None, n_jobs=None, random_state=None, verbose=0,
    ):  # fmt: skip
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

    def with_shells(self, shells):
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
        other.shells_, density = table.choose(_checked_shells(shells, depth))
        other._decide_by(table, density)
        other._draws_, other.n_draws_ = None, 0
        other.bayes_point_error_ = np.array([np.nan])
        return other

    def compress(self, tol=1e-2):
        """Return a classifier with fewer support points and almost the same decisions.

        Parameters
        ----------
        tol : float, default=1e-2
            As for `BayesPointClassifier.compress`.

        Returns
        -------
        OnionClassifier
            Fitted, without draws and without the table of shells.
        """
        small = super().compress(tol)
        small._table_ = None
        del small.centres_
        return small

    def _needed_table(self):
        check_is_fitted(self)
        if self._table_ is None:
            raise ValueError("a compressed classifier holds no shells; use the original one.")
        return _Table(**self._table_)

    def error_table(self, X, y):
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
        self._needed_table()
        y = np.asarray(y)
        X = self._validated(X)
        if y.shape != X.shape[:1] or not np.all(np.isin(y, self.classes_)):
            raise ValueError(
                f"y must hold one label of {self.classes_.tolist()} for each of {X.shape[0]} rows "
                f"of X; got shape {y.shape}, labels {np.unique(y)[:5].tolist()}."
            )
        flat = self.centres_.reshape(-1, self.centres_.shape[-1])
        held = ~np.isnan(flat[:, 0])
        outputs = np.full((len(flat), X.shape[0]), np.nan)
        outputs[held] = self._outputs(X, flat[held]).T
        sign = np.where(y == self.classes_[1], 1, -1)
        return error_table(outputs.reshape(*self.centres_.shape[:2], -1), sign)

    # ------------------------------------------------------------------ steps of fit

    def _checked_parameters(self):
        own = self.get_params(deep=False)
        depth = check_depth(own.pop("depth"))
        _checked_shells(own.pop("shells"), depth)
        fixed = ("decision", "label_noise", "tol", "warm_start", "device")
        return own | {name: getattr(self, name) for name in fixed} | {"inference": "billiard"}

    def _choose_inference(self, points, itemsize):
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported: OnionClassifier takes two classes; got "
                f"{len(self.classes_)}. Wrap it in sklearn.multiclass.OneVsRestClassifier."
            )
        self.inference_, self.inference_reason_ = "onion", "asked for"
        self._decision_ = self.decision
        n_points = len(points.label)
        needed = (n_points**2 * (itemsize + 8) + 32 * n_points * self.n_draws) / 1e6
        if needed > self.cache_size:
            raise ValueError(
                f"the onion needs {needed:.1f} MB for {self.n_draws} draws over {n_points} "
                f"training points; got cache_size={self.cache_size}. Raise cache_size or lower "
                f"n_draws."
            )

    def _contradictions(self, points):  # noqa: ARG002
        """None: a shell may hold classifiers where version space has none."""
        return np.empty(0, dtype=np.int64)

    def _method(self):
        return _Method(check_depth(self.depth), self.shells)

    def _fit_link(self, kernel, distinct, problem, points, budget, link=None):  # noqa: ARG002
        state = self._draws_
        self.shells_, self._table_ = state.pop("shells"), state.pop("table")
        table = _Table(**self._table_)
        self._link_points_ = {
            "label": points.label, "weight": points.weight,
            "length": np.sqrt(problem.rows.diagonal),
        }  # fmt: skip
        self.counts_, self.log_volume_ = table.counts, table.log_volume
        self.loo_errors_ = table.loo_errors()
        self.centres_ = table.centres()
        self._decide_by(table, state.pop("density"))

    def _decide_by(self, table, density):
        """Set the Bayes point, and the link from its leave-one-out outputs."""
        centre, norm = table.combine(density)
        self.dual_coef_ = centre[None]
        self.edge_share_ = table.edge_share(density)
        points = self._link_points_
        outputs = table.loo_outputs(density) / norm / points["length"]
        self._kappa_ = fit_link(outputs, points["label"], points["weight"])

    def __sklearn_tags__(self):
        """Say what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _Method(NamedTuple):
    """The onion in the place of a method of `bayespoint.inference.methods`."""

    depth: tuple
    shells: Any

    def draw(self, problem, n_draws, *, tol, entropy, held, budget, threads):  # noqa: ARG002
        """Draw the table, choose shells, and keep some draws of these."""
        space = problem.space(0)
        depth = clipped(self.depth, space.y)
        onion = draw_onion(space, depth, -(-n_draws // CHAINS), CHAINS, 1, entropy, budget, threads)
        if budget.interrupted and not np.any(onion.counts):
            raise KeyboardInterrupt
        table = _Table.of(onion)
        shells, density = self._chosen(table, _checked_shells(self.shells, depth), budget)
        n_held = np.count_nonzero(onion.weights(density))
        seed = int(np.random.SeedSequence(entropy, spawn_key=(6, 0)).generate_state(1)[0])
        kept = onion.resample(density, min(KEPT_DRAWS, n_held), seed)
        if not budget.interrupted:
            warn_if_apart(onion)
        state = {
            "coef": [kept.coef], "bayes_points": onion.combine(density)[None],
            "angle_errors": np.array([onion.combine_error(density)]),
            "mean_norms": np.array([kept.mean_norm]),
            "used": np.ones(problem.targets.shape, dtype=bool), "n_draws": kept.n_draws,
            "n_chains": 1, "finished": bool(onion.info["n_draws"]), "info": onion.info,
            "table": table._asdict(), "shells": shells, "density": density,
        }  # fmt: skip
        return state, None

    def _chosen(self, table, shells, budget):
        """Shells and their density; where time was up before one was reached, what there is."""
        shells, density = table.choose(shells)
        if np.any(density * table.counts):
            return shells, density
        held = [tuple(cell) for cell in np.argwhere(table.counts).tolist()]
        if not budget.spent():
            raise ValueError(
                f"shells={self.shells!r}: no draw makes so few training errors or so many; the "
                f"shells that hold draws are {held[:10]}. Choose one of these, or raise n_draws."
            )
        warn(
            f"the time was up before a draw fell into shells={self.shells!r}; shells {held[:10]} "
            f"decide instead. Raise max_time.",
            ConvergenceWarning,
        )
        return shells, (table.counts > 0).astype(float)


class _Table(NamedTuple):
    """What is left of an `Onion` once its draws are gone, as plain arrays."""

    y: np.ndarray  # (m,)
    means: np.ndarray  # (n_minus + 1, n_plus + 1, m)
    products: np.ndarray  # inner products of the means, shells in a row
    counts: np.ndarray
    log_volume: np.ndarray
    loo_weights: np.ndarray  # (n_minus + 1, n_plus + 1, m)
    loo_sums: np.ndarray

    @classmethod
    def of(cls, onion):
        means = np.nan_to_num(onion.means)
        flat = means.reshape(-1, means.shape[-1])
        return cls(
            onion.space.y, means, flat @ onion.space.outputs(flat).T, onion.counts,
            onion.log_volume, *onion.leave_one_out_sums(),
        )  # fmt: skip

    def loo_errors(self):
        held = self.counts[..., None] > 0
        return error_table(np.where(held, self.loo_sums, np.nan), self.y)

    def choose(self, shells):
        """Shell or rate, and the weight per volume of each shell."""
        if isinstance(shells, str):
            if shells == "best":
                shells = best_cell(self.loo_errors())
            else:
                shells = best_noise(self.loo_sums, self.y, self.counts)
        return shells, self.density(shells)

    def density(self, shells):
        if not isinstance(shells, tuple):
            return noise_density(shells, self.counts.shape)
        density = np.zeros(self.counts.shape)
        density[shells] = 1.0
        return density

    def edge_share(self, density):
        """Share of a mixture in the deepest shells of the table."""
        weight = density * np.exp(self.log_volume)
        return float(1 - weight[:-1, :-1].sum() / weight.sum())

    def combine(self, density):
        """Unit centre of a mixture, and the length of the mean it comes from."""
        weight = (density * np.exp(self.log_volume)).ravel()
        if not np.any(weight > 0):
            raise ValueError(
                "no draw fell into the shells asked for: raise n_draws, or choose others."
            )
        weight /= weight.sum()
        norm = np.sqrt(weight @ self.products @ weight)
        return weight @ self.means.reshape(len(weight), -1) / norm, norm

    def centres(self):
        with np.errstate(invalid="ignore"):
            length = np.sqrt(self.products.diagonal()).reshape(self.counts.shape)
            return np.where(self.counts[..., None] > 0, self.means / length[..., None], np.nan)

    def loo_outputs(self, density):
        """Mean output, over unit draws, at each point left out."""
        total = np.tensordot(density, self.loo_weights)
        return np.tensordot(density, self.loo_sums) / np.where(total > 0, total, 1.0)


def _checked_shells(shells, depth):
    if isinstance(shells, str) and shells in ("noise", "best"):
        return shells
    if np.ndim(shells) == 0 and isinstance(shells, int | float | np.number) and 0 <= shells < 0.5:
        return float(shells)
    whole = np.shape(shells) == (2,) and all(isinstance(n, int | np.integer) for n in shells)
    if whole and all(0 <= n <= most for n, most in zip(shells, depth, strict=True)):
        return int(shells[0]), int(shells[1])
    raise ValueError(
        f"shells must be 'noise', 'best', a pair (n_minus, n_plus) up to {depth} or a rate in "
        f"[0, 0.5); got {shells!r}."
    )
