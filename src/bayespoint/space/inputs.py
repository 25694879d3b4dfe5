"""Points as arrays: canonical sparse ones, precision, and columns on very different scales."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from bayespoint._support.checks import warn

# A column counts as negligible when its deviation is below this share of the largest.
NEGLIGIBLE_DEVIATION = 0.01

# About as many rows are looked at for the scales of the columns.
SCALE_ROWS = 5000


def check_gram(K):
    """Refuse what cannot be a Gram matrix."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square Gram matrix as X; got shape {K.shape}."
        )
    if not np.allclose(K, K.T, rtol=1e-4, atol=1e-6 * np.abs(K).max(initial=0.0)):
        raise ValueError("X must be a symmetric Gram matrix with kernel='precomputed'.")


def canonical(X):
    """CSR with sorted short indices, no repeated entries and no stored zeros; dense as it is."""
    if not sp.issparse(X):
        return X
    if not (X.has_canonical_format and np.all(X.data != 0)):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    if X.indices.dtype != np.int32 and max(X.nnz, X.shape[1]) < np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sp.csr_matrix(parts, shape=X.shape)
    return X


def same_precision(X, dtype):
    """Points in the precision of the model; an error where they do not fit into it."""
    with np.errstate(over="ignore"):
        converted = X.astype(dtype, copy=False)
    if not np.all(np.isfinite(converted.data if sp.issparse(X) else converted)):
        raise ValueError(f"X has values too large for the {dtype} that the model was fitted in.")
    return converted


def warn_about_scales(X):
    """Warn when most columns count for nothing beside the largest ones."""
    if X.shape[1] < 2:
        return
    if not hasattr(X, "deviations"):
        X = X[:: max(1, X.shape[0] // SCALE_ROWS)]
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(X, "deviations"):  # on a GPU
            deviation = X.deviations()
        elif sp.issparse(X):
            deviation = np.sqrt(mean_variance_axis(X.astype(np.float64), axis=0)[1])
        else:
            deviation = X.std(axis=0, dtype=np.float64)
    varying = np.flatnonzero(np.isfinite(deviation) & (deviation > 0))
    if len(varying) < 2:
        return
    largest = varying[deviation[varying].argmax()]
    small = varying[deviation[varying] < NEGLIGIBLE_DEVIATION * deviation[largest]]
    if 2 * len(small) >= len(varying):
        warn(
            f"features are on very different scales: {len(small)} of {len(varying)} columns vary "
            f"less than a hundredth of column {largest} (standard deviation "
            f"{deviation[largest]:.3g}) and hardly count. Scale them: "
            f"make_pipeline(StandardScaler(), BayesPointClassifier())."
        )
