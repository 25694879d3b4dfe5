"""The matrix that sweeps of expectation propagation factorise, on the host."""

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from bayespoint._support.types import Array


class Block:
    """Cholesky factor L of B = I + T^1/2 K T^1/2 over some points; None from `make` if it fails.

    `bayespoint.gpu.sites` has the same on a GPU.
    """

    def __init__(self, lower: Array) -> None:
        self.lower = lower

    @classmethod
    def make(cls, K: Array, many: Array, root: Array) -> "Block | None":
        """Factorise; ``many``: the points, ``root``: their sqrt(tau)."""
        B = K.copy() if len(many) == len(K) else K[np.ix_(many, many)]
        B *= root
        B *= root[:, None]
        B[np.diag_indices_from(B)] += 1.0
        upper, failed = dpotrf(B.T, lower=0, clean=1, overwrite_a=1)
        return None if failed else cls(upper.T)

    def sweep(self, values: Array) -> tuple[Array, Array, Array, Any]:
        """Return h = L^-1 values, L^-T h, the diagonal of B^-1 and the log-determinant of L."""
        inverse = self.inverse_triangle()
        half = inverse @ values
        diagonal = np.einsum("ij,ij->j", inverse, inverse)
        return half, half @ inverse, diagonal, np.sum(np.log(self.lower.diagonal()))

    def inverse_triangle(self) -> Array:
        """Return the inverse of the factor."""
        return dtrtri(self.lower.T, lower=0)[0].T if len(self.lower) else self.lower
