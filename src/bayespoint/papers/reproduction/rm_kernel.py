"""R&M's kernel machines: the sonar data, a Gaussian kernel with a bias dimension, the flipper."""

from bayespoint import Posterior, VersionSpace, papers
from bayespoint._support.types import Array
from bayespoint.inference import starts
from bayespoint.papers import datasets
from bayespoint.papers.reproduction.tools import rbf


def sonar_angle() -> datasets.Arrays:
    """Return sonar, split by aspect angle, standardised by the training set."""
    X, y, X_test, y_test = datasets.load("sonar-angle")
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return (X - mean) / deviation, y, (X_test - mean) / deviation, y_test


def with_bias(data: datasets.Arrays, sigma: float) -> tuple[VersionSpace, Array, Array]:
    """Return the version space of the kernel of width sigma with a bias dimension, and tests."""
    X, y, X_test, y_test = data
    K, cross = (rbf(A, X, sigma) + 1 for A in (X, X_test))
    return VersionSpace(K, y), cross, y_test


def wrong(cross: Array, y: Array, coef: Array) -> Array:
    """Return which points get a wrong label; an output of zero is wrong."""
    return y * (cross @ coef) <= 0


def flipper(
    space: VersionSpace, n_bounces: int, directions: str = "coefficients", *, bias: float = 1.0,
    random_state: int = 0,
) -> Posterior:  # fmt: skip
    """Return the posterior of one run of the flipper, from a direct start.

    Where the kernel is wide a perceptron does not get inside in its passes.
    """
    start = starts.direct_start(space, random_state=0).coef
    return papers.sample_flipper(
        space, 1, n_bounces=n_bounces, bias=bias, directions=directions, start=start,
        random_state=random_state,
    )  # fmt: skip
