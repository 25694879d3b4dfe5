"""A bound on the error of new points, from the evidence (PAC-Bayes)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr, stdtrit
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.checks import check_number, check_positive_integer, warn

if TYPE_CHECKING:  # which makes certificates
    from bayespoint.evidence.estimates import Evidence

# Share of delta spent on the sampling error of what the bound is computed from.
SAMPLING_SHARE = 0.01


@dataclass(frozen=True)
class Certificate:
    """Bounds on the error on new points that hold with probability ``1 - delta``.

    The probability is over the draw of the training points, which must be independent and from the
    distribution of the new points. All classifiers include softness, which is drawn anew for each
    point. Vote and Bayes point are those of the whole posterior, not of a committee drawn from it.
    If the evidence is sampled, its error is assumed to be Gaussian. Certificates are made by
    `bayespoint.evidence.Evidence.certificate`.

    Attributes
    ----------
    gibbs : float
        Bound for one classifier drawn at random from the posterior for each new point.
    vote : float
        Bound for the majority vote: twice as large, since it is wrong only if half of the draws
        are.
    bayes_point : float
        Bound for the Bayes point, the mean: e times that of one draw, because a half-space that
        contains the mean of a log-concave distribution has probability at least 1/e; for a
        Gaussian, twice. NaN for sampled noisy labels, where the posterior is not log-concave and
        nothing follows.
    training_error : float
        Share of training labels that one random draw gets wrong, on average.
    divergence : float
        Kullback-Leibler divergence of the posterior from the prior, in nats; minus the log
        evidence if there is no label noise.
    n_points : int
        Number of training points.
    delta : float
        Probability that the bounds do not hold.
    n_settings : int
        Number of settings (widths, softness, rates, kernels) that were compared on the data;
        ``delta`` is divided among them, which adds ``log(n_settings) / n_points`` to the bound on
        kl(training error, error).
    """

    gibbs: float
    vote: float
    bayes_point: float
    training_error: float
    divergence: float
    n_points: int
    delta: float
    n_settings: int

    def __str__(self) -> str:
        """Say what the bounds are about."""
        chosen = f", chosen among {self.n_settings} settings" if self.n_settings > 1 else ""
        point = "no bound" if np.isnan(self.bayes_point) else f"at most {self.bayes_point:.3f}"
        return (
            f"With probability {1 - self.delta:g} over the draw of {self.n_points} training "
            f"points{chosen}, the error on new points is\n"
            f"  one random draw of the posterior  at most {self.gibbs:.3f}\n"
            f"  vote of the posterior             at most {self.vote:.3f}\n"
            f"  Bayes point                       {point}"
        )


def certify(evidence: "Evidence", delta: float, n_settings: int) -> Certificate:
    """Return the `Certificate` of an `Evidence`."""
    check_number("delta", delta, above=0)
    if delta >= 1:
        raise ValueError(f"delta must lie between 0 and 1; got {delta!r}.")
    check_positive_integer("n_settings", n_settings)
    if not evidence.trusted:
        warn(
            "the evidence behind these bounds cannot be trusted (it warned), so the bounds cannot "
            "be trusted either.",
            ConvergenceWarning,
        )
    m, share = evidence.n_points, delta / n_settings
    divergence, training_error = evidence.divergence, evidence.training_error
    if evidence.n_runs > 1:
        # Upper limits of both, together wrong with probability SAMPLING_SHARE * share at most.
        quantile = -stdtrit(evidence.n_runs - 1, SAMPLING_SHARE * share / 2)
        divergence = divergence + quantile * evidence.divergence_error
        training_error = min(training_error + quantile * evidence.training_error_error, 1.0)
        share = (1 - SAMPLING_SHARE) * share
    # Seeger's bound with Maurer's constant, which holds from 8 points on.
    constant = 2 * np.sqrt(m) if m >= 8 else m + 1
    gibbs = largest_error(training_error, (divergence + np.log(constant / share)) / m)
    factor = {"gaussian": 2.0, "log-concave": np.e}.get(evidence.shape, np.nan)
    return Certificate(
        gibbs, min(2 * gibbs, 1.0), float(np.minimum(factor * gibbs, 1.0)),
        float(evidence.training_error), float(evidence.divergence), m, float(delta), n_settings,
    )  # fmt: skip


def largest_error(training_error: float, bound: float) -> float:
    """Return the largest p with kl(training_error || p) <= bound, kl that of two coins."""

    def excess(p: float) -> float:
        terms = rel_entr([training_error, 1 - training_error], [p, 1 - p])
        return float(np.sum(terms)) - bound

    top = 1 - 1e-12
    if training_error >= top or excess(top) <= 0:
        return 1.0
    return float(brentq(excess, training_error, top))
