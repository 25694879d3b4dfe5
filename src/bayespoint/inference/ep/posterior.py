"""GaussianPosterior: what expectation propagation knows, in closed form."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import expit, ndtr
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.checks import check_positive_integer, check_seed, entropy_of, warn
from bayespoint._support.types import Array, ArrayLike, Seed
from bayespoint.inference.ep.leaving_out import left_out_scores, moves_of_others
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.origin import unit_draws
from bayespoint.inference.ep.sites import (
    FixedPoint,
    evidence_slopes,
    held_out_moments,
    held_out_scores,
)
from bayespoint.space.given import check_answers
from bayespoint.space.posterior import Posterior, kernel_values, left_open
from bayespoint.space.version_space import VersionSpace

# A squared length that is this share of the sizes of its terms has lost most of its digits.
CANCELLED = 1e-8


class GaussianPosterior:
    """Gaussian distribution of classifiers w = sum_j a_j phi(x_j) + what lies outside the span.

    Made by `bayespoint.inference.ep.propagation`.

    Attributes
    ----------
    space : VersionSpace
    label_noise : ndarray of shape (m,)
    coef : ndarray of shape (m,)
        Coefficients of the mean of w.
    log_evidence : float
        Logarithm of the probability of the labels, EP's approximation.
    converged : bool
    change : float
        Largest change that one more sweep would make: of the mean of an output, in its standard
        deviations, or of its variance, as a share.
    sweeps : int
    bounded : bool
        Whether sites converged only with the bound tau >= 0; as noisy labels can need tau < 0, the
        result is then less precise.
    sites : Sites
        For ``start=`` of another run: ``tau`` and ``nu``, (m,) each.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(2), [1, 1])
    >>> post = inference.expectation_propagation(space)
    >>> round(float(np.exp(post.log_evidence)), 3)  # exact: 1/3
    0.333
    >>> post.predictive([[0.5, 0.5]], [1.0]).round(2)  # exact: 3/4
    array([0.75])
    """

    def __init__(
        self, space: VersionSpace, K: Array, likelihood: Likelihood, fixed_point: FixedPoint,
        factor: Any,
    ) -> None:  # fmt: skip
        self.space = space
        self.label_noise: Any = None  # of the points, where somebody asks
        self._K = K
        self._likelihood = likelihood
        self._fixed_point = fixed_point
        self._factor = factor
        self.coef = fixed_point.gaussian.coef
        self.log_evidence = fixed_point.log_evidence
        self.converged = fixed_point.converged
        self.change = fixed_point.change
        self.sweeps = fixed_point.sweeps
        self.bounded = fixed_point.bounded
        self.sites = fixed_point.sites

    def __repr__(self) -> str:
        """Say what it is."""
        state = "converged" if self.converged else "not converged"
        return (
            f"GaussianPosterior({len(self.coef)} points, log evidence {self.log_evidence:.3f}, "
            f"{state} after {self.sweeps} sweeps)"
        )

    def bayes_point(self) -> Array:
        """Coefficients of the mean, of unit length in the softened metric.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self.coef / self._length()

    def bayes_point_left_out(self, alone: Any = True, own: Any = 1.0) -> Array:
        """Output at each point of a Bayes point that has not seen the point.

        Means given all other labels, over the length of the mean given all labels.

        Parameters
        ----------
        alone, own
            As for `held_out_scores`.

        Returns
        -------
        ndarray of shape (m,)
        """
        mean, _ = held_out_moments(self._fixed_point, self._likelihood, alone, own)
        return mean / self._length()

    def _length(self) -> float:
        """Length of the mean in the softened metric; 1 if it is 0."""
        outputs = self.space.outputs(self.coef)
        squared = self.coef @ outputs
        # Large coefficients of a singular Gram matrix cancel: then in an orthonormal basis.
        if not squared > CANCELLED * (np.abs(self.coef) @ np.abs(outputs)):
            squared = np.sum(self._needed_factor().white(outputs[None]) ** 2)
        return float(np.sqrt(squared)) or 1.0

    def marginals(self) -> tuple[Array, Array]:
        """Mean and variance of the outputs at the training points, softness aside.

        Returns
        -------
        mean, variance : ndarray of shape (m,)
        """
        mean, variance = self._cavity
        tau, nu = self.sites
        total = 1 + tau * variance
        return (mean + variance * nu) / total, variance / total

    def predictive(self, cross: ArrayLike, diagonal: ArrayLike, *, label: bool = False) -> Array:
        """Probability that the output at new points is positive.

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
        mean, variance = self.latent(cross, diagonal)
        if not label:
            return check_answers("predictive", _probability(mean, variance))
        noise = np.unique(self.label_noise)
        if len(noise) > 1:
            raise ValueError(
                "label=True needs one rate of label noise; with one per point, the rate of a new "
                "point is unknown. Use label=False and apply the rate yourself."
            )
        p = _probability(mean, variance + self.space.softness * np.asarray(diagonal, dtype=float))
        return check_answers("predictive", (1 - noise[0]) * p + noise[0] * (1 - p))

    def latent(self, cross: ArrayLike, diagonal: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the outputs at new points, softness aside.

        Parameters
        ----------
        cross, diagonal : array-like
            As for `predictive`.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
        """
        K, own = kernel_values(cross, diagonal, len(self.coef))
        reducer, sign = self.reducer()
        variance = left_open(own, sign @ (reducer @ K.T) ** 2)
        return K @ self.coef, variance

    def reducer(self) -> tuple[Array, Array]:
        """Matrix P and signs s: labels reduce the variance k(x, x) of a new point by s . (P k)².

        Returns
        -------
        P : ndarray of shape (m, m)
        s : ndarray of shape (m,)
            -1 in directions in which labels increase the variance, as noisy labels can; otherwise
            1.
        """
        return self._fixed_point.gaussian.reducer()

    def wrong_label_proba(self) -> Array:
        """Probability that each training label is wrong: its output has the other sign.

        It is computed from the distribution of the output given all other labels, and the
        likelihood of the point's own label.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self._likelihood.wrong(*self._cavity)

    def held_out_scores(self, alone: Any = True, own: Any = 1.0) -> Array:
        """Mean over standard deviation, softness added, of each output given all other labels.

        Parameters
        ----------
        alone : ndarray of bool or bool, default=True
            Whether no equal row has another label: then all copies of a point are left out, else
            those of one row.
        own : ndarray of shape (m,) or float, default=1.0
            Copies that one row is.

        Returns
        -------
        ndarray of shape (m,)
        """
        return held_out_scores(self._fixed_point, self._likelihood, alone, own)

    def left_out_scores(self, alone: Any = True, own: Any = 1.0) -> Array:
        """As `held_out_scores`, after the sites of all other points have answered.

        This is closer to a fit without the point, and costs about as much as ten sweeps.

        Parameters
        ----------
        alone, own
            As for `held_out_scores`.

        Returns
        -------
        ndarray of shape (m,)
        """
        return left_out_scores(self._K, self._fixed_point, self._likelihood, alone, own)

    def moves_of_others(self, alone: Any = True, own: Any = 1.0) -> Iterator[tuple[Array, Array]]:
        """How `held_out_scores` move where one more row is left out, each by itself.

        Parameters
        ----------
        alone, own
            As for `held_out_scores`.

        Yields
        ------
        rows : ndarray of shape (n_rows,)
            Points that are left out.
        moves : ndarray of shape (n_rows, m)
        """
        return moves_of_others(self._K, self._fixed_point, self._likelihood, alone, own)

    def sureness(self, own: Any = 1.0) -> Array:
        """Mean over standard deviation of each output, without softness, given all other labels.

        Parameters
        ----------
        own : ndarray of shape (m,) or float, default=1.0
            Copies that one row is, which are left out.

        Returns
        -------
        ndarray of shape (m,)
        """
        mean, variance = held_out_moments(self._fixed_point, self._likelihood, False, own)
        return mean / np.sqrt(np.maximum(variance, np.finfo(float).tiny))

    def leave_one_out(self) -> Array:
        """Log-probability of each label given all others, approximately.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self._likelihood.moments(*self._cavity)[0]

    def divergence(self) -> tuple[float, float]:
        """Kullback-Leibler divergence of this Gaussian from the prior, and its training error.

        Of softened outputs: what softness adds is drawn with the classifier.

        Returns
        -------
        divergence : float
            In nats.
        training_error : float
            Share of training labels that a draw gets wrong, on average.
        """
        K = self._K.copy()
        K[np.diag_indices_from(K)] += self.space.ridge
        left = self._fixed_point.gaussian.inverse_matrix() @ K  # what is known, as a share
        mean = K @ self.coef
        variance = K.diagonal() - np.einsum("ij,ji->i", K, left)
        known = np.trace(left)
        left *= -1.0
        left[np.diag_indices_from(left)] += 1.0
        sign, log_share = np.linalg.slogdet(left)
        # Sites that have not converged may not be a distribution of softened outputs.
        divergence = 0.5 * (mean @ self.coef - known - log_share) if sign > 0 else np.inf
        error = _probability(-self.space.y * mean, np.maximum(variance, 0.0))
        return float(divergence), float(np.mean(error))

    def gradient(self, derivatives: Mapping[str, ArrayLike] | None = None) -> dict[str, float]:
        """Gradient of the log evidence in the settings of the model.

        At a fixed point sites need not be followed: their own gradient is zero. Where there is
        none (``converged`` is False) or sites are ``bounded``, it is not the gradient, and a
        warning says so.

        Parameters
        ----------
        derivatives : dict of str to array-like of shape (m, m), optional
            Of the Gram matrix (without softness) in settings of the kernel, as from
            `bayespoint.space.kernels.Kernel.derivatives`.

        Returns
        -------
        dict of str to float
            One entry for each of ``derivatives``, with its name; ``log_softness`` where there is
            softness; ``logit_noise`` where there is label noise, for a shift of the logits of all
            rates that are not zero.
        """
        if self.bounded or not self.converged:
            warn(
                "the gradient of the log evidence is that at a fixed point, which these sites are "
                "not: they did not converge, or were bounded.",
                ConvergenceWarning,
            )
        changes = {}
        for name, dK in (derivatives or {}).items():
            changes[name] = np.asarray(dK, dtype=np.float64)
            if changes[name].shape != self._K.shape:
                raise ValueError(
                    f"derivatives[{name!r}] must have the shape of the Gram matrix, "
                    f"{self._K.shape}; got {changes[name].shape}."
                )
        softness = self.space.softness
        result, by_softness = evidence_slopes(
            self._fixed_point.gaussian, self._likelihood, changes, softness
        )
        if softness:
            result["log_softness"] = by_softness
        odds = self._likelihood.odds
        noisy = np.isfinite(odds)
        if np.any(noisy):
            # The log-odds of a right label are minus the logit of the rate.
            change = self._likelihood.noise_slope(*self._cavity)[noisy] + expit(-odds[noisy])
            copies = np.broadcast_to(self._likelihood.copies, len(odds))[noisy]
            result["logit_noise"] = float(-np.sum(copies * change))
        return result

    def sample(self, n_draws: int = 100, *, random_state: Seed = None) -> Posterior:
        """Draw unit classifiers from this distribution.

        Their directions are those of Gaussian vectors. Without softness and label noise, some of
        them lie outside version space, where the exact posterior is zero.

        Parameters
        ----------
        n_draws : int, default=100
        random_state : int, RandomState or None

        Returns
        -------
        Posterior
            With this object's mean as its Bayes point.
        """
        check_positive_integer("n_draws", n_draws)
        check_seed(random_state)
        rng = np.random.default_rng(entropy_of(random_state))
        coef, outputs = self.draws(n_draws, rng)
        return Posterior(
            coef, outputs=outputs, centres={"mean": (self.bayes_point(), 0.0)}, source="mean",
            space=self.space, factor=self._needed_factor(), label_noise=self.label_noise,
            info={"sweeps": self.sweeps, "converged": self.converged},
        )  # fmt: skip

    def draws(self, n_draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coefficients and outputs, both (n_draws, m), of unit vectors drawn."""
        space, tau = self.space, self._likelihood.copies * self.sites.tau
        gaussian, factor = self._fixed_point.gaussian, self._needed_factor()
        return unit_draws(gaussian, space.rows, factor, space.ridge, tau, n_draws, rng)

    @property
    def _cavity(self) -> tuple[Array, Array]:
        gaussian = self._fixed_point.gaussian
        return gaussian.cavity_mean, gaussian.cavity_variance

    def _needed_factor(self) -> Any:
        if self._factor is None:
            space = self.space
            self._factor = space.rows.factorise(space.softness, space.rows.threads)
        return self._factor


def warn_if_moving(posterior: GaussianPosterior, problem: str = "") -> None:
    """Warn when sites have not converged."""
    if not posterior.converged:
        warn(
            f"expectation propagation{problem} did not converge in {posterior.sweeps} "
            f"sweep{'s' * (posterior.sweeps != 1)}: "
            f"one more would change outputs by {posterior.change:.2g} standard deviations. Raise "
            f"max_time where it is set, raise softness, or use the billiard.",
            ConvergenceWarning,
        )
    elif posterior.bounded:
        warn(
            f"expectation propagation{problem} converged only with bounded sites, and is less "
            f"precise than otherwise. Raise softness, lower label_noise, or use the billiard.",
            ConvergenceWarning,
        )


def _probability(mean: Array, variance: Array) -> Array:
    """P(f > 0) for f ~ N(mean, variance); one half at 0 where nothing is left open."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = mean / np.sqrt(variance)
    return ndtr(np.where(mean == 0, 0.0, z))
