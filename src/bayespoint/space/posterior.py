"""Posterior: draws of classifiers, their centre, their votes, and how far to trust them."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, ArrayLike, Matrix
from bayespoint.space import decisions, diagnostics
from bayespoint.space.given import check_answers, numbers

# Kernel values of a new point may exceed what its k(x, x) allows by this share, through rounding.
IMPOSSIBLE = 1e-6

# Batches that the draws of a chain are cut into for the error of their mean.
BATCHES = 8


class Posterior:
    """Draws of unit classifiers w = sum_j coef_j phi(x_j).

    Made by the functions in `bayespoint.inference` and by `BayesPointClassifier.posterior`.

    Parameters
    ----------
    coef : ndarray or csr_matrix of shape (n_chains * n_draws, m)
        Draws, chain after chain; each row is a unit vector in the (softened) metric.
    n_chains : int, default=1
    mean_norm : float, optional
        Length in feature space of the (weighted) mean of the rows of ``coef``; computed from the
        outputs if it is not given.
    weights : ndarray of shape (n_chains * n_draws,), optional
        Weight of each draw; None for equal weights.
    outputs : ndarray of shape (n_chains * n_draws, m), optional
        Outputs of the draws at the training points.
    points : ndarray of int, optional
        Training points that ``outputs`` belong to, if these are not all points; the others have
        no coefficients.
    centres : dict, optional
        Bayes points that were not computed from the draws: a dict from their source to
        (coefficients of the unit vector, standard error as an angle).
    source : str, default="draws"
        Which Bayes point to use by default.
    space : VersionSpace, optional
        The version space that was sampled.
    factor : Factor, optional
        Factor of the softened Gram matrix, for predictive probabilities.
    label_noise : float or ndarray of shape (m,), default=0.0
        Noise rate of the labels, or one per point.
    info : dict, optional
        How the run of the sampler went.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(np.eye(3), [1, -1, 1])
    >>> post = inference.sample_perceptron(space, n_draws=5, random_state=0)
    >>> post.bayes_point().round(3)
    array([ 0.577, -0.577,  0.577])
    """

    def __init__(
        self, coef: Matrix, *, n_chains: int = 1, mean_norm: float | None = None,
        weights: Array | None = None, outputs: Any = None, points: Array | None = None,
        centres: dict[str, tuple[Array, float]] | None = None, source: str = "draws",
        space: Any = None, factor: Any = None, label_noise: Any = 0.0,
        info: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.coef = coef
        self.n_chains = n_chains
        self.weights = weights
        self.outputs = outputs
        self.points = np.arange(coef.shape[1]) if points is None else points
        self.centres = centres or {}
        self.source = source
        self.space = space
        self.label_noise = label_noise
        self.info = info or {}
        self._factor = factor
        if mean_norm is None:
            if outputs is None:
                raise ValueError("give mean_norm or outputs: the length of the mean is unknown.")
            mean = mean_of_rows(coef, weights)
            mean_norm = np.sqrt(max(float(mean @ mean_of_rows(outputs, weights)), 0.0))
        self.mean_norm = float(mean_norm)

    def __repr__(self) -> str:
        """Say what it holds."""
        n_rows, m = self.coef.shape
        return f"Posterior({n_rows} draws in {self.n_chains} chain(s) over {m} points)"

    @property
    def n_draws(self) -> int:
        """Number of draws, all chains together."""
        return self.coef.shape[0]

    def bayes_point(self, source: str | None = None) -> Array:
        """Coefficients of the centre of the posterior, of unit length in feature space.

        Parameters
        ----------
        source : {"draws", "path", "kicks"}, optional
            "draws": the mean of the draws. "path": the mean over the whole path of the
            billiard. "kicks": the sum of the changes of direction at the walls. Its coefficients
            are sparse and have the signs of the labels (the Bayesian support vectors). Its random
            error does not shrink with version space, so it may lie outside a narrow one. Default:
            draws or path, whichever has the smaller error.

        Returns
        -------
        ndarray of shape (m,)
        """
        source = self._source(source)
        if source != "draws":
            return self.centres[source][0].copy()
        if self.mean_norm == 0:
            raise ValueError("the mean of the draws is zero and has no direction; draw more.")
        return mean_of_rows(self.coef, self.weights) / self.mean_norm

    def bayes_point_error(self, source: str | None = None) -> float:
        """Monte Carlo standard error of the Bayes point, an angle in radians.

        It is computed from the scatter of batches of flights or of consecutive draws.

        Parameters
        ----------
        source : {"draws", "path", "kicks"}, optional
            As for `bayes_point`.

        Returns
        -------
        float
        """
        source = self._source(source)
        if source != "draws":
            return self.centres[source][1]
        outputs = self._dense(self._needed_outputs())
        return draws_error(self._dense(self.coef)[..., self.points], outputs)

    def _source(self, source: str | None) -> str:
        known = [*self.centres, "draws"]
        source = self.source if source is None else source
        if source not in known:
            raise ValueError(
                f"source must be one of {known} for these draws, or None; got {source!r}."
            )
        return source

    @property
    def rank(self) -> Any:
        """Dimension of the span of the training points, or None if it is not known."""
        return None if self._factor is None else self._factor.rank

    def coordinates(self, outputs: ArrayLike) -> Array:
        """Coordinates in an orthonormal basis of the span, from outputs at the training points.

        Parameters
        ----------
        outputs : array-like of shape (n, m)

        Returns
        -------
        ndarray of shape (n, rank)
        """
        values, factor = np.atleast_2d(numbers("outputs", outputs)), self.needed_factor()
        if values.shape[1:] != (self.coef.shape[1],):
            raise ValueError(
                f"outputs must have one column for each of {self.coef.shape[1]} training points; "
                f"got shape {values.shape}."
            )
        return factor.white(values)

    def draws(self) -> Array:
        """Return the draws as a dense array (n_chains, n_draws per chain, m)."""
        return self._dense(self.coef)

    def ess(self, method: str = "bulk") -> Array:
        """Effective sample size of each training point's output (ArviZ's definition).

        Parameters
        ----------
        method : {"bulk", "tail", "mean"}, default="bulk"

        Returns
        -------
        ndarray of shape (m,)
        """
        return diagnostics.ess(self._dense(self._needed_outputs()), method)

    def rhat(self) -> Array:
        """Rank-normalised split R-hat of each training point's output (ArviZ's definition).

        It is close to 1 if chains agree. It proves nothing unless they started far apart.

        Returns
        -------
        ndarray of shape (m,)
        """
        return diagnostics.rhat(self._dense(self._needed_outputs()))

    def mcse(self) -> Array:
        """Monte Carlo standard error of the mean output at each training point.

        Returns
        -------
        ndarray of shape (m,)
        """
        return diagnostics.mcse_mean(self._dense(self._needed_outputs()))

    def predictive(self, cross: ArrayLike, diagonal: ArrayLike, *, label: bool = False) -> Array:
        """Exact probability that the output of a draw at new points is positive.

        The part of w outside the span of the training points still has its Gaussian prior, so the
        probability is one half if the kernel values with all training points are zero.

        Parameters
        ----------
        cross : array-like of shape (n, m)
            Kernel values of new points and training points.
        diagonal : array-like of shape (n,)
            k(x, x) of the new points.
        label : bool, default=False
            Whether to return the probability of the label +1 instead, which includes softness and
            label noise (if there is one rate for all points).

        Returns
        -------
        ndarray of shape (n,)
        """
        K, own = kernel_values(cross, diagonal, self.coef.shape[1])
        if label and self.space is None:
            raise ValueError(
                "label=True needs the softness of the version space, which this posterior does not "
                "hold; use predict_proba of the classifier, or sample_billiard."
            )
        if not len(K):
            return np.empty(0)
        variance = left_open(own, np.sum(self.coordinates(K) ** 2, axis=1))
        noise = np.unique(self.label_noise)
        if label:
            variance = variance + self.space.softness * own
            if len(noise) > 1:
                raise ValueError(
                    "label=True needs one rate of label noise; with one per point, the rate of a "
                    "new point is unknown. Use label=False and apply the rate yourself."
                )
        outputs = np.asarray(self.coef @ K.T)
        p = decisions.vote_probabilities(outputs, variance, self.rank, self.weights)[:, 1]
        p = (1 - noise[0]) * p + noise[0] * (1 - p) if label else p
        return check_answers("predictive", p)

    def to_arviz(self) -> Any:
        """Convert the draws to an ArviZ object, with outputs at the training points.

        Group ``posterior`` has ``output`` (chain, draw, point); ``sample_stats`` has ``errors``,
        the number of training errors (not for draws of the classifier). Needs
        ``pip install 'bayespoint[diagnostics]'``.
        """
        try:
            import arviz
        except ImportError as error:
            raise ImportError(
                "to_arviz needs ArviZ; run: pip install 'bayespoint[diagnostics]'"
            ) from error
        outputs = self._dense(self._needed_outputs())
        groups: dict = {"posterior": {"output": outputs}}
        if self.space is not None:
            groups["sample_stats"] = {"errors": training_errors(self.space.y, outputs)}
        named: dict = {"dims": {"output": ["point"]}, "coords": {"point": self.points}}
        # From version 1 on, ArviZ takes one dict of groups instead of one argument per group.
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups, **named)
        return arviz.from_dict(**groups, **named)

    def needed_factor(self) -> Any:
        """Return the factor of the Gram matrix; raise where there is none."""
        if self._factor is None:
            raise ValueError(
                "this posterior has no factor of its Gram matrix; use predict_proba of the "
                "classifier, or sample_billiard."
            )
        return self._factor

    def _needed_outputs(self) -> Array:
        if self.outputs is None:
            raise ValueError(
                "this posterior holds no outputs at its training points; sample with a function "
                "of bayespoint.inference."
            )
        return self.outputs

    def _dense(self, rows: Matrix) -> Array:
        return dense(rows).reshape(self.n_chains, -1, rows.shape[1])


def kernel_values(cross: ArrayLike, diagonal: ArrayLike, m: int) -> tuple[Array, Array]:
    """Return kernel values of new points with m training points and themselves, as arrays."""
    K, own = np.atleast_2d(numbers("cross", cross)), numbers("diagonal", diagonal)
    if K.shape[1:] != (m,) or own.shape != K.shape[:1]:
        raise ValueError(
            f"cross must have one column for each of {m} training points and diagonal one "
            f"value for each row of cross; got shapes {K.shape} and {own.shape}."
        )
    return K, own


def left_open(diagonal: Array, known: Array) -> Array:
    """Return the variance of outputs at new points that is left of k(x, x)."""
    variance = diagonal - known
    if np.any(variance < -IMPOSSIBLE * np.abs(diagonal)):
        raise ValueError(
            "diagonal is smaller than cross allows: k(x, x) of a point with these kernel "
            "values is at least their squared length in the span of the training points."
        )
    return np.maximum(variance, 0.0)


def dense(rows: Matrix) -> Array:
    """Rows of a dense or sparse array as a dense one."""
    return rows.toarray() if sp.issparse(rows) else rows


def training_errors(target: Array, outputs: Array) -> Any:
    """Number of training errors of each draw, (n_chains, n_draws)."""
    from bayespoint._loops.billiard import count_errors

    errors = np.empty(outputs.shape[:2], dtype=np.int64)
    for chain, found in zip(outputs, errors, strict=True):
        count_errors(np.asarray(target), chain, found)
    return errors


def mean_of_rows(coef: Matrix, weights: Array | None = None) -> Array:
    """Weighted mean of the rows of a dense or CSR array, as a flat array."""
    if weights is None:
        return np.asarray(coef.mean(axis=0)).ravel()
    return np.asarray(weights @ coef).ravel() / np.sum(weights)


def draws_error(coef: Array, outputs: Array) -> float:
    """Standard error of the direction of the mean of draws, (n_chains, n_draws, m): an angle."""
    n_chains, n_draws = coef.shape[:2]
    batches = [b for b in np.array_split(np.arange(n_draws), BATCHES) if len(b)]
    means = np.concatenate([coef[:, b].mean(axis=1) for b in batches])
    values = np.concatenate([outputs[:, b].mean(axis=1) for b in batches])
    return angle_error(means, values, np.repeat([len(b) for b in batches], n_chains))


def unit_centre(means: Array, outputs: Array, weights: Array | None = None) -> tuple[Array, float]:
    """Unit vector along the mean of batches, of equal weight by default, and its `angle_error`."""
    weights = np.ones(len(means)) if weights is None else weights
    shares = np.asarray(weights) / np.sum(weights)
    centre = shares @ means
    norm = np.sqrt(centre @ (shares @ outputs))
    return centre / norm, angle_error(means, outputs, weights)


def angle_error(means: Array, outputs: Array, weights: ArrayLike) -> float:
    """Standard error of the direction of a mean vector, an angle in radians.

    Parameters
    ----------
    means : ndarray of shape (n_batches, m)
        Coefficients of the means of independent batches.
    outputs : ndarray of shape (n_batches, m)
        Their outputs at the training points, so that ``means @ outputs.T`` are inner products.
    weights : ndarray of shape (n_batches,)
        Lengths of the batches.

    Returns
    -------
    float
        Infinite for a single batch.
    """
    n = len(means)
    if n < 2:
        return np.inf
    shares = np.asarray(weights) / np.sum(weights)
    products = means @ outputs.T
    with_mean = products @ shares
    squared_norm = shares @ with_mean
    if squared_norm <= 0:
        return np.inf
    # Squared distances from the mean, without their part along it.
    across = products.diagonal() - with_mean**2 / squared_norm
    squared = n / (n - 1) * np.sum(shares**2 * np.maximum(across, 0.0))
    return float(np.sqrt(squared / squared_norm))
