"""R&M's kernel machines: the sonar data, a Gaussian kernel with a bias dimension, the flipper."""

from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace, papers
from bayespoint.inference import starts
from bayespoint.papers import datasets


def sonar_angle(standardised=True):
    """Return sonar, split by aspect angle, standardised by the training set."""
    X, y, X_test, y_test = datasets.load("sonar-angle")
    if standardised:
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    return X, y, X_test, y_test


def with_bias(data, sigma):
    """Return the version space of the kernel of width sigma with a bias dimension, and tests."""
    X, y, X_test, y_test = data
    gamma = 1 / (2 * sigma**2)
    K, cross = (rbf_kernel(A, X, gamma=gamma) + 1 for A in (X, X_test))
    return VersionSpace(K, y), cross, y_test


def wrong(cross, y, coef):
    """Return which points get a wrong label; an output of zero is wrong."""
    return y * (cross @ coef) <= 0


def flipper(space, n_bounces, directions="coefficients", *, bias=1.0, random_state=0):
    """Return the posterior of one run of the flipper, from a direct start.

    Where the kernel is wide a perceptron does not get inside in its passes.
    """
    start = starts.direct_start(space, random_state=0).coef
    return papers.sample_flipper(
        space, 1, n_bounces=n_bounces, bias=bias, directions=directions, start=start,
        random_state=random_state,
    )  # fmt: skip
