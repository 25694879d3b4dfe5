"""Rows of the Gram matrix on demand: one store for all machines, within a memory budget."""

import time

import numpy as np

from bayespoint._support.checks import shown_places, warn
from bayespoint._support.threads import Threads
from bayespoint.space.kernels import BLOCK_FEATURES, BLOCK_ROWS, aligned_empty, block_columns

# A fit is announced as large when its kernel rows may take this many seconds.
LARGE_FIT_SECONDS = 60.0
LARGE_FIT_POINTS = 10_000

# Columns of coefficients are padded to full tiles: then their products have the same bits however
# many threads BLAS uses, and threads that share a model agree.
COEF_COLUMNS = 16

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
        n_points = len(points)
        row_bytes = n_points * points.X.dtype.itemsize
        capacity = min(n_points, max(cache_bytes // row_bytes, BLOCK_ROWS))
        self.cache_bytes = cache_bytes
        self.store = aligned_empty((capacity, n_points), points.X.dtype)
        self.slot_of_row = np.full(n_points, -1, dtype=np.int32)
        self.row_in_slot = np.full(capacity, -1, dtype=np.int32)
        self.last_used = np.full(capacity, -1, dtype=np.int64)
        self.clock = 0
        self.n_computed = 0
        self.dtype = self.store.dtype

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
        if not len(missing):
            return
        age = self.last_used * len(self.store) + np.arange(len(self.store))  # no ties
        slots = np.argpartition(age, len(missing) - 1)[: len(missing)]
        for start in range(0, len(missing), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            self._compute(missing[part], slots[part])
            self.last_used[slots[part]] = self.clock

    def room_beside(self, n_wanted):
        """Rows that cost nothing more, computed in one block with the wanted ones."""
        return self.kernel.panel_rows(self.points, n_wanted) - n_wanted

    def _compute(self, rows, slots):
        evicted = self.row_in_slot[slots]
        self.slot_of_row[evicted[evicted >= 0]] = -1
        self.row_in_slot[slots] = -1
        panel = self.kernel.panel(self.points, rows)

        def fill(first):
            block = self.kernel.block(panel, self.points, first)[: len(rows)]
            self._check(block, rows, first)
            self.store[slots, first : first + block.shape[1]] = block

        self.threads.each(fill, range(0, len(self), block_columns(len(self))))
        self.row_in_slot[slots] = rows
        self.slot_of_row[rows] = slots
        self.n_computed += len(rows)

    def _check(self, block, rows, first):
        """Hold a kernel that came from outside to the Cauchy-Schwarz inequality."""
        if not (callable(self.kernel.name) or self.kernel.name == "precomputed"):
            return
        length = self.points.length
        bound = np.outer(length[rows], length[first : first + block.shape[1]])
        wrong = np.abs(block) > (1 + CAUCHY_SCHWARZ_SLACK) * bound
        if np.any(wrong):
            raise no_inner_products(wrong.any(axis=1), rows)


def no_inner_products(wrong, points=None):
    """Return the error of values beyond the Cauchy-Schwarz inequality, of points in a mask."""
    return ValueError(
        "the kernel is not positive semi-definite: |k(x, x')| exceeds "
        f"sqrt(k(x, x) k(x', x')) for points {shown_places(wrong, points)}. "
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
        self.cache_bytes = K.nbytes
        self.threads = Threads(1)
        self.n_computed = 0
        self.dtype = K.dtype

    def __len__(self):
        """Return the number of points."""
        return len(self.store)

    def ensure(self, wanted):
        """Every row is present."""

    def room_beside(self, n_wanted):  # noqa: ARG002
        """No row is missing."""
        return 0


def submatrix(rows, index):
    """Gram matrix of some of the points, in float64."""
    if hasattr(rows, "submatrix"):  # on a GPU
        return rows.submatrix(index)
    matrix = np.empty((len(index), len(index)))
    step = min(BLOCK_ROWS, len(rows.store))
    for start in range(0, len(index), step):
        part = index[start : start + step]
        rows.ensure(part)
        matrix[start : start + step] = rows.store[rows.slot_of_row[part]][:, index]
    return matrix


def mirror(rows):
    """Make a Gram matrix whose rows are all present symmetric, where rounding left it otherwise."""
    everyone = np.arange(len(rows))
    for start in range(0, len(rows), BLOCK_ROWS):
        part = everyone[start : start + BLOCK_ROWS]
        slots = rows.slot_of_row[part]
        columns = rows.store[rows.slot_of_row, start : start + BLOCK_ROWS].T
        block = np.where(everyone < part[:, None], columns, rows.store[slots])
        if not np.array_equal(block, rows.store[slots]):
            rows.store[slots] = block


def all_rows(rows):
    """Return the whole Gram matrix, symmetric, in float64; all rows are then present."""
    if hasattr(rows, "matrix"):  # on a GPU
        return rows.matrix()
    if len(rows.store) < len(rows):
        needed = rows.store.itemsize * len(rows) ** 2 / 1e6
        raise ValueError(
            f"all rows of the Gram matrix are needed at once: {needed:.0f} MB for "
            f"{len(rows)} points; the store holds {rows.store.nbytes / 1e6:.0f} MB. Raise "
            f"cache_size, or draw with perceptrons."
        )
    everyone = np.arange(len(rows))
    rows.ensure(everyone)
    mirror(rows)
    return submatrix(rows, everyone)


def outputs_of(rows, ridge, coef):
    """Outputs at the points of w = sum_j coef_j phi(x_j), in float64, one vector or one a row.

    ``ridge``: what softness adds to the diagonal.
    """
    if hasattr(rows, "outputs"):  # on a GPU
        return rows.outputs(ridge, coef)
    used = np.flatnonzero(np.any(np.atleast_2d(coef), axis=0))
    total = ridge * coef
    step = min(BLOCK_ROWS, len(rows.store))
    for start in range(0, len(used), step):
        part = used[start : start + step]
        rows.ensure(part)
        total += coef[..., part] @ rows.store[rows.slot_of_row[part]]
    return total


def warn_if_large(rows, order):
    """Time the first block of rows and warn if all of them may take long."""
    if len(rows) < LARGE_FIT_POINTS:
        return
    rows.ensure(np.asarray(order[:BLOCK_ROWS], dtype=np.int64))  # compiles, on the first fit
    start = time.perf_counter()
    rows.ensure(np.asarray(order[BLOCK_ROWS : 2 * BLOCK_ROWS], dtype=np.int64))
    seconds = (time.perf_counter() - start) * len(rows) / BLOCK_ROWS
    if seconds > LARGE_FIT_SECONDS:
        memory = (rows.store.nbytes + rows.cache_bytes / 4) / 1e6
        warn(
            f"a large fit: {len(rows)} distinct points, up to {seconds / 60:.1f} min for "
            f"kernel rows at the speed of the first ones, {memory:.0f} MB at most beside the data. "
            f"max_time bounds the time, cache_size the memory; fewer points, more n_jobs or "
            f"float32 input make it faster."
        )


def kernel_rows(kernel, points, index, threads):
    """Kernel values of some points (at most a panel of them) with all points."""
    panel = kernel.panel(points, index)
    starts = range(0, len(points), block_columns(len(points)))
    blocks = threads.each(lambda first: kernel.block(panel, points, first), starts)
    return np.concatenate(blocks, axis=1)[: len(index)]


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
    n_columns = coef.shape[1]
    padded = -(-n_columns // COEF_COLUMNS) * COEF_COLUMNS
    tiles = np.zeros((len(right), padded), dtype=left.X.dtype)
    tiles[:, :n_columns] = coef
    result = np.zeros((len(left), n_columns))

    def fill(start):
        stop = min(start + BLOCK_ROWS, len(left))
        panel = kernel.panel(left, np.arange(start, stop))
        total = np.zeros((kernel.panel_rows(left, stop - start), padded))
        for first in range(0, len(right), block_columns(len(right))):
            block = kernel.block(panel, right, first)
            for k in range(0, block.shape[1], BLOCK_FEATURES):
                part = block[:, k : k + BLOCK_FEATURES]
                total += part @ tiles[first + k : first + k + BLOCK_FEATURES]
        result[start:stop] = total[: stop - start, :n_columns]

    threads.each(fill, range(0, len(left), BLOCK_ROWS))
    return result
