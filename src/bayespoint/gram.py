"""Rows of the Gram matrix on demand: one store for all machines, within a memory budget."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from bayespoint.kernels import BLOCK_COLUMNS, some_of

# A kernel value may exceed sqrt(k(x,x) k(x',x')) by this factor through rounding, not by more.
CAUCHY_SCHWARZ_SLACK = 1e-3


class GramRows:
    """Rows K[i, :] of the Gram matrix of some points, computed when asked for.

    Rows lie in ``store``, row i in slot ``slot_of_row[i]`` or nowhere (-1). When the budget is
    used up, the rows used longest ago make room. A row has the same bits whenever, and beside
    whichever other rows, it is computed, so that neither the budget nor the number of threads
    changes a result.

    Parameters
    ----------
    kernel : Kernel
    points : Points
        From ``kernel.prepare``.
    cache_bytes : int
        Memory for rows. One block of rows is always kept, however small the budget.
    threads : Threads
        Where blocks are computed.

    Attributes
    ----------
    diagonal : ndarray of shape (n_points,)
        k(x, x).
    clock : int
        Grows with each `ensure`; ``last_used`` holds its value at the last use of each slot.
    n_computed : int
        Rows computed so far, those computed again after eviction included.
    """

    def __init__(self, kernel, points, *, cache_bytes, threads):
        self.kernel = kernel
        self.points = points
        self.threads = threads
        self.diagonal = (points.length * points.length).astype(np.float64)
        self.block_rows = kernel.block_rows(points)
        n_points = len(points)
        row_bytes = n_points * points.X.dtype.itemsize
        capacity = min(n_points, max(cache_bytes // row_bytes, self.block_rows))
        self.cache_bytes = cache_bytes
        self.store = np.empty((capacity, n_points), dtype=points.X.dtype)
        self.slot_of_row = np.full(n_points, -1, dtype=np.int32)
        self.row_in_slot = np.full(capacity, -1, dtype=np.int32)
        self.last_used = np.full(capacity, -1, dtype=np.int64)
        self.clock = 0
        self.n_computed = 0

    def __len__(self):
        """Return the number of points."""
        return len(self.slot_of_row)

    def ensure(self, wanted):
        """Make as many of the ``wanted`` rows present as the store holds, the first ones first."""
        self.clock += 1
        wanted = wanted[: len(self.store)]
        present = wanted[self.slot_of_row[wanted] >= 0]
        missing = wanted[self.slot_of_row[wanted] < 0]
        self.last_used[self.slot_of_row[present]] = self.clock
        slots = np.argsort(self.last_used, kind="stable")[: len(missing)]
        for start in range(0, len(missing), self.block_rows):
            part = slice(start, start + self.block_rows)
            self._compute(missing[part], slots[part])
            self.last_used[slots[part]] = self.clock

    def _compute(self, rows, slots):
        evicted = self.row_in_slot[slots]
        self.slot_of_row[evicted[evicted >= 0]] = -1
        self.row_in_slot[slots] = -1
        panel = self.kernel.panel(self.points, rows)

        def fill(first):
            block = self.kernel.block(panel, self.points, first)
            self._check(block, rows, first)
            self.store[slots, first : first + BLOCK_COLUMNS] = block

        self.threads.each(fill, range(0, len(self), BLOCK_COLUMNS))
        self.row_in_slot[slots] = rows
        self.slot_of_row[rows] = slots
        self.n_computed += len(rows)

    def _check(self, block, rows, first):
        """Hold a kernel that came from outside to the Cauchy-Schwarz inequality."""
        if not (callable(self.kernel.name) or self.kernel.name == "precomputed"):
            return
        length = self.points.length
        bound = np.outer(length[rows], length[first : first + BLOCK_COLUMNS])
        wrong = np.abs(block) > (1 + CAUCHY_SCHWARZ_SLACK) * bound
        if np.any(wrong):
            raise ValueError(
                "the kernel is not positive semi-definite: |k(x, x')| exceeds "
                f"sqrt(k(x, x) k(x', x')) for points {some_of(wrong.any(axis=1), rows)}. "
                "Use a kernel that is an inner product in some feature space."
            )


class FullRows:
    """A Gram matrix that is already there, seen as a store that holds every row."""

    def __init__(self, K):
        self.store = K
        self.slot_of_row = np.arange(len(K), dtype=np.int32)
        self.last_used = np.zeros(len(K), dtype=np.int64)
        self.clock = 0
        self.diagonal = K.diagonal().astype(np.float64)
        self.block_rows = len(K)
        self.cache_bytes = K.nbytes
        self.threads = Threads(1)
        self.n_computed = 0

    def __len__(self):
        """Return the number of points."""
        return len(self.store)

    def ensure(self, wanted):
        """Every row is present."""


def submatrix(rows, index):
    """Gram matrix of some of the points, in float64."""
    matrix = np.empty((len(index), len(index)))
    step = min(rows.block_rows, len(rows.store))
    for start in range(0, len(index), step):
        part = index[start : start + step]
        rows.ensure(part)
        matrix[start : start + step] = rows.store[rows.slot_of_row[part]][:, index]
    return matrix


class Threads:
    """A few threads for functions that release the GIL; with one, no thread is started."""

    def __init__(self, n_threads):
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def each(self, function, arguments):
        """Call ``function`` on each argument and return the results in order."""
        if self._pool is None:
            return [function(argument) for argument in arguments]
        return list(self._pool.map(function, arguments))

    def close(self):
        """Wait for what is running and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


@cache
def _thread_pools():
    return ThreadpoolController()  # looks through all loaded libraries: once is enough


@contextmanager
def open_threads(n_threads):
    """Threads of our own beside single-threaded BLAS, ended on the way out.

    One BLAS thread, because with more the bits of a product depend on their number.
    """
    threads = Threads(n_threads)
    with _thread_pools().limit(limits=1, user_api="blas"):
        try:
            yield threads
        finally:
            threads.close()


def apply_kernel(kernel, left, right, coef, threads):
    """``K(left, right) @ coef`` in blocks; the matrix K itself never exists.

    Parameters
    ----------
    kernel : Kernel
    left, right : Points
        From ``kernel.prepare``.
    coef : ndarray of shape (len(right), n_columns)
    threads : Threads

    Returns
    -------
    ndarray of float64, shape (len(left), n_columns)
    """
    n_rows = kernel.block_rows(left)
    coef = np.ascontiguousarray(coef, dtype=left.X.dtype)
    result = np.zeros((len(left), coef.shape[1]))

    def fill(start):
        panel = kernel.panel(left, np.arange(start, min(start + n_rows, len(left))))
        for first in range(0, len(right), BLOCK_COLUMNS):
            block = kernel.block(panel, right, first)
            result[start : start + n_rows] += block @ coef[first : first + BLOCK_COLUMNS]

    threads.each(fill, range(0, len(left), n_rows))
    return result
