"""Estimates of the evidence, and problems whose evidence is known."""

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.evidence import log_evidence
from helpers.version_spaces import equicorrelated, orthant_probability, skewed

# Estimates with fixed seeds may be off by so many of the standard errors they state: 16 runs, so
# that about one of a thousand would be.
ERRORS = 4
# Of weights that are all equal: no sampling error is left.
ROUNDING = 1e-9
# Draws in all, or on each level of each run; the stated error is below SHARP then.
FEW_DRAWS = {"tilting": 5_000, "bridge": 100}
SHARP = {"tilting": 0.02, "bridge": 0.1}

CLOSED = {
    "equal angles, 10": (equicorrelated(10), -np.log(11)),
    "equal angles, 50": (equicorrelated(50), -np.log(51)),
    "two points": (skewed(2, 1), np.log(orthant_probability(skewed(2, 1).signed))),
    "three points": (skewed(3, 2), np.log(orthant_probability(skewed(3, 2).signed))),
}


def assert_right(estimate, exact, sharp=None):
    """Within the stated error, and the stated error is small enough to tell."""
    sharp = SHARP[estimate.method] if sharp is None else sharp
    assert estimate.stderr < sharp, estimate
    assert abs(estimate.value - exact) <= ERRORS * estimate.stderr + ROUNDING, (estimate, exact)


def is_wrong(estimate, exact):
    return abs(estimate.value - exact) > ERRORS * estimate.stderr + ROUNDING


def by(method, space, label_noise=0.0, seed=0, **settings):
    if method in FEW_DRAWS:
        settings = {"n_draws": FEW_DRAWS[method], **settings}
    return log_evidence(
        space, method=method, label_noise=label_noise, random_state=seed, **settings
    )


def rbf(m=30, seed=0, softness=0.2, turned=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.6, 1, -1) * np.where(rng.random(m) < turned, -1, 1)
    return VersionSpace(rbf_kernel(X, gamma=0.8), y, softness)
