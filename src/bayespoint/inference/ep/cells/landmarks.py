"""Landmarks: features common to all cells."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.merging import spread_over

# Eigenvalues of the landmarks' Gram matrix that are kept, as a share of the largest; of columns
# that are features of their own all but those that rounding makes.
LEAST_EIGENVALUE, ROUNDING = 1e-5, 1e-12

# Columns, at most, that are features of their own with a linear kernel: each adds a row and a
# column to the precision of w.
MOST_OWN = 1_500


class Landmarks(NamedTuple):
    """Features common to all cells.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n_landmarks, n_features)
    projection : ndarray of shape (n_landmarks, n_common)
        W: features of x are k(x, Z) W.
    """

    X: Matrix
    projection: Array

    def features(self, kernel: Kernel, points: Points) -> Array:
        """Return the features of points, (n, n_common)."""
        return kernel.between(points, kernel.prepare(self.X)) @ self.projection


def landmarks_of(kernel: Kernel, X: Matrix, n_landmarks: int) -> Landmarks | None:
    """Return the features of so many landmarks; None for none.

    They are rows spread over their order, that of hashes. One more than there are columns, with a
    linear kernel, are a point on each axis and the origin: their features are the columns
    themselves, and leave nothing over.
    """
    if not n_landmarks:
        return None
    if own_features(kernel.name, X.shape[1]) != n_landmarks:
        return landmarks_at(kernel, X[spread_over(X.shape[0], n_landmarks)])
    axes = sp.identity(X.shape[1], format="csr") * (np.sqrt(kernel.bias) or 1.0)
    if kernel.bias:
        axes = sp.vstack([axes, sp.csr_matrix((1, X.shape[1]))], format="csr")
    return landmarks_at(kernel, axes if sp.issparse(X) else axes.toarray(), ROUNDING)


def own_features(kernel: Any, n_features: int) -> int | None:
    """Landmarks whose features are those of the kernel itself, where it has few: it is linear."""
    few = isinstance(kernel, str) and kernel == "linear" and n_features < MOST_OWN
    return n_features + 1 if few else None


def landmarks_at(kernel: Kernel, X: Matrix, least: float = LEAST_EIGENVALUE) -> Landmarks:
    """Return the features of these landmarks, of eigenvalues above a share of the largest."""
    Z = X.astype(np.float64)
    values, vectors = np.linalg.eigh(kernel(Z))
    kept = values > least * values[-1]
    return Landmarks(Z, vectors[:, kept] / np.sqrt(values[kept]))
