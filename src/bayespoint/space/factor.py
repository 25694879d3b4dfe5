"""A factor K = F Fᵀ of the Gram matrix: isotropic directions, and what lies outside the span.

Row i of F holds the coordinates of phi(x_i) in an orthonormal basis of the span of the training
points. So white coordinates x ~ N(0, I) are an isotropic vector with outputs F x at the training
points, and K b = F x for coefficients b with Fᵀ b = x.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg.lapack import dpstrf, dtrtri

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.space.given import indefinite

# A point lies in the span of the others when this share of its squared length is left after
# projection, or what rounding leaves of it: so many units in the last place, times sqrt(m).
RANK_TOLERANCE = 1e-10
RANK_ULPS = 8

# Squared lengths left after projection are not below minus this, for inner products.
INDEFINITE = 1e-7

# Rows and columns factorised together. Fixed, so that bits do not depend on the threads.
TILE = 512

# Numbers solved for together, in at least so many columns.
SOLVED_NUMBERS = 2**17
COLUMNS = 64


class Factor:
    """Cholesky factor of a Gram matrix, pivoted where the matrix is singular.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Positive semi-definite, float64; overwritten.
    precision : dtype, default=float64
        In which the entries of K were computed.
    softness : float, default=0.0
        Share of the diagonal that softness is: no point is nearer to the span of the others.
    threads : Threads, optional
    stop : callable, optional
        Asked now and then; raises KeyboardInterrupt when it says True.

    Attributes
    ----------
    rank : int
    basis : ndarray of shape (rank,)
        Points that span all others.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint.space.factor import Factor
    >>> factor = Factor(np.array([[1.0, 2.0], [2.0, 4.0]]))
    >>> factor.rank, factor.basis
    (1, array([0]))
    >>> factor.outputs(np.array([[1.0]]))
    array([[1., 2.]])
    """

    def __init__(
        self, K: Array, precision: npt.DTypeLike = np.float64, softness: float = 0.0,
        threads: Threads | None = None, stop: Callable[[], bool] | None = None,
    ) -> None:  # fmt: skip
        self._threads = threads or Threads(1)
        # Short points have walls like long ones: their directions count.
        at_origin = K.diagonal() == 0
        self._length = np.where(at_origin, 1.0, np.sqrt(K.diagonal()))
        if np.ptp(self._length):
            K /= self._length
            K /= self._length[:, None]
        else:
            self._length = self._length[:1]
            K /= self._length[0] ** 2
        K[np.diag_indices_from(K)] = ~at_origin
        rounding = RANK_ULPS * np.sqrt(len(K)) * float(np.finfo(precision).eps)
        tolerance = min(max(RANK_TOLERANCE, rounding), softness / 2 or np.inf)
        if _cholesky(K, tolerance, self._threads, stop):
            self.basis = np.arange(len(K))
            self._lower = self._all = K
        else:
            self._pivoted(K, ~at_origin, tolerance)

    @classmethod
    def from_triangle(cls, lower: Array) -> "Factor":
        """Return the factor that has this lower triangle, of full rank."""
        factor = cls.__new__(cls)
        factor._threads, factor._length = Threads(1), np.ones(1)
        factor.basis, factor._lower, factor._all = np.arange(len(lower)), lower, lower
        return factor

    def _pivoted(self, K: Array, diagonal: Array, tolerance: float) -> None:
        """Factorise what `_cholesky` gave up on; the upper triangle of K is still intact."""
        K[np.diag_indices_from(K)] = diagonal
        L, pivots, rank, _ = dpstrf(K.T, lower=1, tol=tolerance, overwrite_a=1)
        pivots = pivots - 1
        self.basis = pivots[:rank].astype(np.int64)
        L = np.tril(L[:, :rank])
        self._all = np.empty((len(K), rank))
        self._all[pivots] = L
        self._lower = np.ascontiguousarray(L[:rank])
        left = diagonal - np.sum(self._all**2, axis=1)
        if np.min(left) < -max(INDEFINITE, 10 * tolerance):
            raise indefinite()

    def release(self) -> None:
        """Let go of the threads; what is left to do is done by the caller's."""
        self._threads = Threads(1)

    @property
    def rank(self) -> int:
        """Dimension of the span of the points."""
        return len(self.basis)

    def outputs(self, white: Array) -> Array:
        """Outputs at all points of vectors given by white coordinates, one per row."""
        m = len(self._all)
        result = np.empty((len(white), m))

        def fill(start: int) -> None:
            stop = min(start + TILE, m)
            part = result[:, start:stop]
            if self._all is not self._lower:
                np.matmul(white, self._all[start:stop].T, out=part)
                return
            # Above the diagonal the full-rank factor holds what was there before.
            corner = np.tril(self._all[start:stop, start:stop])
            np.matmul(white[:, start:stop], corner.T, out=part)
            if start:
                part += white[:, :start] @ self._all[start:stop, :start].T

        self._threads.each(fill, range(0, m, TILE))
        if np.any(self._length != 1):
            result *= self._length
        return result

    def basis_coordinates(self) -> Array:
        """White coordinates of the points, (m, rank)."""
        return self.outputs(np.eye(self.rank)).T.copy()

    def coefficients(self, white: Array) -> Array:
        """Coefficients b of vectors w = sum_j b_j phi(x_j) given by white coordinates."""
        full = self._all is self._lower
        result = (np.empty if full else np.zeros)((len(white), len(self._all)))
        columns = max(COLUMNS, SOLVED_NUMBERS // max(self.rank, 1))

        def solve(start: int) -> None:
            part = white[start : start + columns]
            solved = scipy.linalg.solve_triangular(
                self._lower, part.T, lower=True, trans=1, check_finite=False
            )
            result[start : start + columns, slice(None) if full else self.basis] = solved.T

        self._threads.each(solve, range(0, len(white), columns))
        if np.any(self._length != 1):
            result /= self._length
        return result

    def white(self, outputs: Array) -> Array:
        """White coordinates of vectors in the span, from their outputs at all points."""
        part = (outputs / self._length)[:, self.basis].T
        return scipy.linalg.solve_triangular(self._lower, part, lower=True, check_finite=False).T

    def precision(self, whitener: Array | None = None) -> Array:
        """Diagonal of K⁺, a few rows of the whitener at a time where it is not given."""
        if whitener is not None:
            return np.einsum("ij,ij->j", whitener, whitener)
        total = np.zeros(len(self._all))
        for start in range(0, self.rank, TILE):
            part = self.coefficients(np.eye(min(TILE, self.rank - start), self.rank, start))
            total += np.einsum("ij,ij->j", part, part)
        return total

    def whitener(self) -> Array:
        """Matrix P with kᵀ K⁺ k = ||P k||² for the kernel values k of a new point."""
        if self._all is not self._lower:
            return self.coefficients(np.eye(self.rank))
        # Of full rank: half the work. Above the diagonal the factor holds what was there before.
        inverse = np.tril(dtrtri(self._lower.T, lower=0)[0].T)
        inverse /= self._length
        return inverse


def _cholesky(
    K: Array, tolerance: float, threads: Threads, stop: Callable[[], bool] | None = None
) -> bool:
    """Lower Cholesky factor in place, block column by block column; False if K is singular.

    The strict upper triangle is left as it was.
    """
    m = len(K)
    for start in range(0, m, TILE):
        if stop is not None and stop():
            raise KeyboardInterrupt
        end = min(start + TILE, m)
        panel = K[start:end, :start]

        def subtract(first: int, start: int = start, end: int = end, panel: Array = panel) -> None:
            last = min(first + TILE, m)
            K[first:last, start:end] -= K[first:last, :start] @ panel.T

        upper = np.triu(K[start:end, start:end], 1)
        if start:
            threads.each(subtract, range(start, m, TILE))
        try:
            corner = scipy.linalg.cholesky(K[start:end, start:end], lower=True)
        except scipy.linalg.LinAlgError:
            corner = np.zeros((1, 1))
        if corner.diagonal().min() ** 2 <= tolerance:
            K[start:end, start:end] = np.tril(K[start:end, start:end]) + upper
            return False

        def divide(first: int, start: int = start, end: int = end, corner: Array = corner) -> None:
            last = min(first + TILE, m)
            K[first:last, start:end] = scipy.linalg.solve_triangular(
                corner, K[first:last, start:end].T, lower=True, check_finite=False
            ).T

        threads.each(divide, range(end, m, TILE))
        K[start:end, start:end] = corner + upper
    return True
