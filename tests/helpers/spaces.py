"""Small problems and version spaces, with and without a Gram matrix."""

import numpy as np
from scipy.optimize import linprog
from sklearn.metrics import pairwise
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint._support.threads import open_threads
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import GramRows

KERNELS = {
    "linear": lambda X: X @ X.T + 1.0,
    "poly": lambda X: pairwise.polynomial_kernel(X, degree=3, gamma=0.5),
    "rbf": lambda X: pairwise.rbf_kernel(X, gamma=2.0),
    "laplacian": lambda X: pairwise.laplacian_kernel(X, gamma=1.0),
    "callable": lambda X: np.minimum(np.exp(X[:, None, :]), np.exp(X)).sum(axis=2),
}


def make_problem(m=80, seed=0, gap=0.15):
    """Points in three dimensions, separable by a plane off the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10 * m, 3))
    height = X @ [1.0, -0.5, 0.25] + 0.3
    X, height = (A[np.abs(height) > gap][:m] for A in (X, height))
    return X, np.sign(height)


def rows_space(X, y, n_cached=1, softness=0.0, kernel="rbf"):
    """Rows on demand that do not fit into their store together."""
    kernel = Kernel(kernel, gamma=0.5, bias=1.0).fit_layout(X)
    cache_bytes = n_cached * len(X) * 8
    with open_threads(1) as threads:
        rows = GramRows(kernel, kernel.prepare(X), cache_bytes=cache_bytes, threads=threads)
    return VersionSpace(rows, y, softness)


def dense(posterior):
    return posterior.draws()[0]


def make_space(m=60, seed=0, kernel="rbf", softness=0.0, dtype=np.float64):
    """Points of unequal length with skewed labels; "linear" has rank 4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    y = np.where(X @ [1.0, -0.5, 0.25] > -0.6, 1, -1)
    length = np.exp(0.5 * rng.normal(size=m))
    K = rbf_kernel(X, gamma=2.0) if kernel == "rbf" else X @ X.T + 1.0
    K = K * np.outer(length, length)
    return VersionSpace((0.5 * (K + K.T)).astype(dtype), y, softness)


def separable(seed, kernel, m=40, dim=8):
    """A random problem, points of unequal lengths; the class means get some labels wrong."""
    rng = np.random.default_rng(seed)
    X, length = rng.normal(size=(m, dim)), np.exp(rng.normal(size=m))
    y, K = rng.choice([-1, 1], m), rbf_kernel(X, gamma=0.1)
    if kernel == "linear":
        y, K = np.sign(X @ rng.normal(size=dim)), X @ X.T
    return VersionSpace(K * np.outer(length, length), y)


def factor_of(space):
    return space.rows.factorise(space.softness, space.rows.threads)


def with_contradiction(kernel="rbf"):
    space = make_space(kernel=kernel)
    index = np.append(np.arange(60), 11)
    K, y = space.rows.store[np.ix_(index, index)], np.append(space.y, -space.y[11])
    return VersionSpace(K, y)


def narrow_space(margin=1e-6):
    """Version space is not empty, but narrower than a perceptron finds in a thousand passes."""
    angle = np.concatenate([np.linspace(margin, 3.0, 40), np.linspace(3.2, 2 * np.pi - margin, 40)])
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    return VersionSpace(X @ X.T, np.sign(X[:, 1]))


def contradict(X, y, points):
    """Whether a positive combination of these points, signed by label, vanishes (Gordan)."""
    signed = (X * y[:, None])[points]
    equal = np.vstack([signed.T, np.ones(len(points))])
    target = np.append(np.zeros(X.shape[1]), 1.0)
    return linprog(np.zeros(len(points)), A_eq=equal, b_eq=target).success
