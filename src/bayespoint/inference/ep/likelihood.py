"""The likelihood of labels, and its moments under Gaussian outputs."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, owens_t

from bayespoint._support.types import Array

# Labels less probable than this are wrong, if they can be.
LEAST_PROBABILITY = 1e-290

_LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


class Likelihood(NamedTuple):
    """Of the labels y, given outputs: see `bayespoint.inference.ep.sites`."""

    y: Array  # (m,), +1 or -1
    variance: Array  # (m,), of what softness adds to an output
    odds: Array  # (m,), log-odds of a right label, -log rho; infinite where it is sure
    log_right: Array  # (m,), log a_i, the probability of a label that is right
    copies: Array | float = 1.0  # of each point, with a label and softness of its own

    def take(self, index: Any) -> "Likelihood":
        """Return that of some points; copies are of each."""
        return Likelihood(*(np.broadcast_to(field, len(self.y))[index] for field in self))

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """Log of the mean of l_i under N(mean, variance), its slope and curvature in the mean."""
        total = variance + self.variance
        z = self.y * mean / np.sqrt(total)
        log_z, log_density = self._log_mean(z)
        ratio = np.exp(log_density - log_z)
        slope = self.y * ratio / np.sqrt(total)
        return log_z + self.log_right, slope, -ratio * (z + ratio) / total

    def _log_mean(self, z: Array) -> tuple[Array, Array]:
        """Log of rho + (1 - rho) Phi(z), and of its derivative."""
        with np.errstate(divide="ignore"):
            log_share = np.log1p(-np.exp(-self.odds))
        log_z = np.logaddexp(-self.odds, log_share + log_ndtr(z))
        return log_z, log_share - 0.5 * z * z - _LOG_ROOT_2PI

    def variance_slope(self, mean: Array, variance: Array) -> Array:
        """Derivative of the log-mean of l_i in ``self.variance``."""
        total = variance + self.variance
        z = self.y * mean / np.sqrt(total)
        log_z, log_density = self._log_mean(z)
        return -0.5 * z * np.exp(log_density - log_z) / total

    def noise_slope(self, mean: Array, variance: Array) -> Array:
        """Derivative of the log-mean of l_i / a_i in the log-odds, where labels are not sure."""
        z = self.y * mean / np.sqrt(variance + self.variance)
        log_z, _ = self._log_mean(z)
        # d rho / d odds = -rho; rho + (1 - rho) Phi changes by Phi(-z) of it.
        return -np.exp(-self.odds + log_ndtr(-z) - log_z)

    def wrong(self, mean: Array, variance: Array) -> Array:
        """Probability that y_i f_i < 0, given y_i, if f_i ~ N(mean, variance) without it."""
        total = variance + self.variance
        z, h = self.y * mean / np.sqrt(variance), self.y * mean / np.sqrt(total)
        # That y f < 0 and yet softness makes it positive: a wedge of the plane (Owen's T).
        between = np.where(h < 0, ndtr(h) - ndtr(z), ndtr(-z) - ndtr(-h))
        turned = np.maximum(0.5 * between + owens_t(h, np.sqrt(self.variance / variance)), 0.0)
        rho = np.exp(-self.odds)
        probability = np.exp(self._log_mean(h)[0])
        hardly = probability < LEAST_PROBABILITY  # what else explains the label?
        joint = (rho * ndtr(-z) + (1 - rho) * turned) / np.where(hardly, 1.0, probability)
        return np.clip(np.where(hardly, self._wrong_far(mean, variance), joint), 0.0, 1.0)

    def _wrong_far(self, mean: Array, variance: Array) -> Array:
        """Limit of `wrong` for labels that are all but impossible, right to about 0.01."""
        total = variance + self.variance
        # Softness then takes the output just over 0, by total / |mean| on average.
        with np.errstate(divide="ignore", invalid="ignore"):
            left = (self.y * mean * self.variance + variance * total / np.abs(mean)) / total
            soft = ndtr(-left / np.sqrt(variance * self.variance / total))
        sure = np.where(self.variance > 0, soft, 0.0)
        return np.where(np.isfinite(self.odds), 1.0, sure)  # or it is simply wrong
