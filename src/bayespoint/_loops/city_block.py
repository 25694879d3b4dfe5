"""Distances of the Laplacian kernel, which no matrix product gives, and their weighted sums."""

import numpy as np

from bayespoint._loops.jit import jit

# Columns of distances that stay in the nearest cache while features are added up.
LANES = 256


@jit
def city_block(A, B, found):
    """Sums of absolute differences between rows of A and columns of B.

    ``found[i, j] = sum_k |A[i, k] - B[k, j]|``, added in the order of k whatever the place.
    """
    n_columns = B.shape[1]
    for first in range(0, n_columns, LANES):
        last = min(first + LANES, n_columns)
        for i in range(A.shape[0]):
            row = found[i, first:last]
            for j in range(last - first):
                row[j] = 0
            k = 0
            while k + 4 <= A.shape[1]:
                a0, a1, a2, a3 = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
                b0, b1 = B[k, first:last], B[k + 1, first:last]
                b2, b3 = B[k + 2, first:last], B[k + 3, first:last]
                for j in range(last - first):
                    row[j] = (
                        ((row[j] + abs(a0 - b0[j])) + abs(a1 - b1[j])) + abs(a2 - b2[j])
                    ) + abs(a3 - b3[j])
                k += 4
            while k < A.shape[1]:
                a0, b0 = A[i, k], B[k, first:last]
                for j in range(last - first):
                    row[j] += abs(a0 - b0[j])
                k += 1


@jit
def city_block_sums(X, N, found):
    """Sums over pairs of rows: ``found[k] = sum_(i < j) N[i, j] |X[i, k] - X[j, k]|``."""
    of_row = np.empty(X.shape[1], dtype=X.dtype)
    for k in range(len(found)):
        found[k] = 0
    for i in range(X.shape[0]):
        of_row[:] = 0
        x = X[i]
        for j in range(i + 1, X.shape[0]):
            weight, z = N[i, j], X[j]
            for k in range(len(of_row)):
                of_row[k] += weight * abs(x[k] - z[k])
        for k in range(len(found)):
            found[k] += of_row[k]
