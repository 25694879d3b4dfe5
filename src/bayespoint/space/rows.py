"""Rows of the Gram matrix: one store for all machines, within a memory budget.

`Rows` says what the algorithms ask of a Gram matrix. `GramRows` computes rows on demand, `FullRows`
is a matrix that is there already; `bayespoint.gpu.rows` has the same in the memory of a GPU.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bayespoint._support.checks import PointsError, warn
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.space.factor import Factor
from bayespoint.space.given import CAUCHY_SCHWARZ_SLACK
from bayespoint.space.kernels import (
    BLOCK_FEATURES,
    BLOCK_ROWS,
    Kernel,
    Points,
    aligned_empty,
    block_columns,
    steady_product,
)

# A fit is announced as large when its kernel rows may take this many seconds.
LARGE_FIT_SECONDS = 60.0
LARGE_FIT_POINTS = 10_000

# Requests that make room by the same needs: to count these takes a tenth of the time of a block.
NEEDS_KEPT = 4

# Columns of coefficients are padded to full tiles: then their products have the same bits however
# many threads BLAS uses, and threads that share a model agree.
COEF_COLUMNS = 16


class Rows(ABC):
    """Rows K[i, :] of the Gram matrix of some points.

    Rows lie in ``store``, row i in slot ``slot_of_row[i]`` or nowhere (-1). Nothing but `matrix`
    and `factorise` needs all of them at once.

    Attributes
    ----------
    device : torch.device or None
        Where rows are; None for the host. `bayespoint.inference.engines` chooses by it what runs
        over them.
    diagonal : ndarray of shape (n_points,)
        k(x, x).
    dtype : dtype
        In which rows are computed.
    cache_bytes : int
        Memory for rows.
    threads : Threads
        Where rows are computed.
    n_computed : int
        Rows computed so far, those computed again after eviction included.
    """

    device: Any = None
    store: Any
    slot_of_row: Array
    diagonal: Array
    dtype: np.dtype
    cache_bytes: int
    threads: Threads
    n_computed: int

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.slot_of_row)

    def release(self) -> None:
        """Let go of the store, once nobody needs rows any more."""
        self.store = None

    @abstractmethod
    def ensure(self, wanted: Array) -> None:
        """Make as many of the ``wanted`` rows present as the store holds, the first ones first."""

    @abstractmethod
    def room_beside(self, n_wanted: int) -> int:
        """Rows that cost little or nothing more, computed in one block with the wanted ones."""

    @abstractmethod
    def matrix(self) -> Array:
        """Return the whole Gram matrix, symmetric, in float64; all rows are then present."""

    @abstractmethod
    def submatrix(self, index: Array) -> Array:
        """Return the Gram matrix of some of the points, in float64."""

    @abstractmethod
    def part(self, index: Array) -> "Rows":
        """Return the rows of some of the points, where these rows are."""

    @abstractmethod
    def outputs(self, ridge: Array, coef: Array) -> Array:
        """Outputs at the points of w = sum_j coef_j phi(x_j), in float64: a vector, or one per row.

        ``ridge``: what softness adds to the diagonal.
        """

    @abstractmethod
    def factorise(
        self, softness: Any, threads: Threads, stop: Callable[[], bool] | None = None
    ) -> Any:
        """Return the factor of the Gram matrix with this softness, one number or one per point.

        All rows are then present. ``stop`` is asked now and then; True raises KeyboardInterrupt.
        """

    @abstractmethod
    def coinciding(self, parallel: float) -> Iterator[tuple[int, Array, Array]]:
        """Yield a point, the later ones on the same line through the origin, and their signs.

        ``parallel``: by how much the cosine may differ from 1 or -1. All rows must be present.
        """


class HostRows(Rows):
    """What stores of rows on the host share."""

    store: Array
    last_used: Array
    clock: int

    @abstractmethod
    def ensure(self, wanted: Array, needs: Callable[[], Array] | None = None) -> None:
        """As `Rows.ensure`; ``needs`` tells how much each row is needed, where some make room."""

    def submatrix(self, index: Array) -> Array:
        """Return the Gram matrix of some of the points, in float64."""
        matrix = np.empty((len(index), len(index)))
        step = min(BLOCK_ROWS, len(self.store))
        for start in range(0, len(index), step):
            part = index[start : start + step]
            self.ensure(part)
            matrix[start : start + step] = self.store[self.slot_of_row[part]][:, index]
        return matrix

    def part(self, index: Array) -> "FullRows":
        """Return the Gram matrix of some of the points."""
        return FullRows(self.submatrix(index).astype(self.dtype))

    def matrix(self) -> Array:
        """Return the whole Gram matrix, symmetric, in float64; all rows are then present."""
        if len(self.store) < len(self):
            needed = self.store.itemsize * len(self) ** 2 / 1e6
            raise ValueError(
                f"all rows of the Gram matrix are needed at once: {needed:.0f} MB for "
                f"{len(self)} points; the store holds {self.store.nbytes / 1e6:.0f} MB. Raise "
                f"cache_size, or draw with perceptrons."
            )
        everyone = np.arange(len(self))
        self.ensure(everyone)
        self._mirror(everyone)
        return self.submatrix(everyone)

    def _mirror(self, everyone: Array) -> None:
        """Make the matrix symmetric, where rounding left it otherwise."""
        for start in range(0, len(self), BLOCK_ROWS):
            part = everyone[start : start + BLOCK_ROWS]
            slots = self.slot_of_row[part]
            columns = self.store[self.slot_of_row, start : start + BLOCK_ROWS].T
            block = np.where(everyone < part[:, None], columns, self.store[slots])
            if not np.array_equal(block, self.store[slots]):
                self.store[slots] = block

    def outputs(self, ridge: Array, coef: Array) -> Array:
        """Outputs at the points of w = sum_j coef_j phi(x_j): see `Rows.outputs`."""
        used = np.flatnonzero(np.any(np.atleast_2d(coef), axis=0))
        total = ridge * coef
        step = min(BLOCK_ROWS, len(self.store))
        for start in range(0, len(used), step):
            part = used[start : start + step]
            self.ensure(part)
            total += coef[..., part] @ self.store[self.slot_of_row[part]]
        return total

    def factorise(
        self, softness: Any, threads: Threads, stop: Callable[[], bool] | None = None
    ) -> Factor:
        """Return the factor of the Gram matrix with this softness: see `Rows.factorise`."""
        softness = np.asarray(softness, dtype=np.float64)
        K = self.matrix()
        K[np.diag_indices_from(K)] += softness * self.diagonal
        share = float(np.min(softness / (1 + softness)))
        return Factor(K, self.dtype, share, threads, stop)

    def coinciding(self, parallel: float) -> Iterator[tuple[int, Array, Array]]:
        """Yield a point, later ones on the same line, and their signs: see `Rows.coinciding`."""
        length = np.sqrt(self.store[self.slot_of_row, np.arange(len(self))], dtype=float)
        seen = np.zeros(len(self), dtype=bool)
        for i in range(len(self)):
            if seen[i]:
                continue
            cosine = self.store[self.slot_of_row[i]] / (length * length[i])
            same = np.flatnonzero(np.abs(cosine) > 1 - parallel)
            same = same[same > i]
            if len(same):
                seen[same] = True
                yield i, same, np.sign(cosine[same])


class GramRows(HostRows):
    """Rows of the Gram matrix of some points, computed when asked for.

    When the budget is used up, the rows that are needed least make room, and of these the ones
    used longest ago. A row has the same bits whenever, and beside whichever other rows, it is
    computed, so that neither the budget nor the number of threads changes a result.

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
    clock : int
        Grows with each `ensure`; ``last_used`` holds its value at the last use of each slot.
    """

    def __init__(
        self, kernel: Kernel, points: Points, *, cache_bytes: int, threads: Threads
    ) -> None:
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
        self._needs, self._needs_until = np.empty(0, dtype=np.int64), 0
        self.n_computed = 0
        self.dtype = self.store.dtype

    def ensure(self, wanted: Array, needs: Callable[[], Array] | None = None) -> None:
        """Make as many of the ``wanted`` rows present as the store holds, the first ones first.

        ``needs`` tells how much each row is needed; it is asked now and then, if rows must make
        room.
        """
        self.clock += 1
        wanted = wanted[: len(self.store)]
        present = wanted[self.slot_of_row[wanted] >= 0]
        missing = wanted[self.slot_of_row[wanted] < 0]
        self.last_used[self.slot_of_row[present]] = self.clock
        if not len(missing):
            return
        slots = self._room_for(len(missing), needs)
        for start in range(0, len(missing), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            self._compute(missing[part], slots[part])
            self.last_used[slots[part]] = self.clock

    def _room_for(self, n_slots: int, needs: Callable[[], Array] | None) -> Array:
        """Slots that are empty, or whose rows make room."""
        worth: Any = 0
        if needs is not None and np.count_nonzero(self.row_in_slot < 0) < n_slots:
            if self.clock >= self._needs_until:
                self._needs, self._needs_until = needs(), self.clock + NEEDS_KEPT
            most = int(self._needs.max())
            worth = np.where(self.row_in_slot < 0, 0, self._needs[self.row_in_slot])
            worth[self.last_used == self.clock] = most + 1
        age = worth * (self.clock + 1) + self.last_used
        age = age * len(self.store) + np.arange(len(self.store))  # no ties
        return np.argpartition(age, n_slots - 1)[:n_slots]

    def room_beside(self, n_wanted: int) -> int:
        """Rows that cost nothing more, computed in one block with the wanted ones."""
        return self.kernel.panel_rows(self.points, n_wanted) - n_wanted

    def _compute(self, rows: Array, slots: Array) -> None:
        evicted = self.row_in_slot[slots]
        self.slot_of_row[evicted[evicted >= 0]] = -1
        self.row_in_slot[slots] = -1
        panel = self.kernel.panel(self.points, rows)

        def fill(first: int) -> None:
            block = self.kernel.block(panel, self.points, first)[: len(rows)]
            self._check(block, rows, first)
            self.store[slots, first : first + block.shape[1]] = block

        self.threads.each(fill, range(0, len(self), block_columns(len(self))))
        self.row_in_slot[slots] = rows
        self.slot_of_row[rows] = slots
        self.n_computed += len(rows)

    def _check(self, block: Array, rows: Array, first: int) -> None:
        """Hold a kernel that came from outside to the Cauchy-Schwarz inequality."""
        if not (callable(self.kernel.name) or self.kernel.name == "precomputed"):
            return
        length = self.points.length
        bound = np.outer(length[rows], length[first : first + block.shape[1]])
        wrong = np.abs(block) > (1 + CAUCHY_SCHWARZ_SLACK) * bound
        if np.any(wrong):
            raise no_inner_products(rows[np.any(wrong, axis=1)]).of(self.points.X)


def no_inner_products(points: Array) -> PointsError:
    """Return the error of values beyond the Cauchy-Schwarz inequality, of some points."""
    return PointsError(
        "the kernel is not positive semi-definite: |k(x, x')| exceeds sqrt(k(x, x) k(x', x')) for "
        "points ", points, ". Use a kernel that is an inner product in some feature space.",
    )  # fmt: skip


class FullRows(HostRows):
    """A Gram matrix that is already there, seen as a store that holds every row."""

    def __init__(self, K: Array) -> None:
        self.store = K
        self.slot_of_row = np.arange(len(K), dtype=np.int32)
        self.last_used = np.zeros(len(K), dtype=np.int64)
        self.clock = 0
        self.diagonal = K.diagonal().astype(np.float64)
        self.cache_bytes = K.nbytes
        self.threads = Threads(1)
        self.n_computed = 0
        self.dtype = K.dtype

    def ensure(self, wanted: Array, needs: Callable[[], Array] | None = None) -> None:
        """Every row is present."""

    def room_beside(self, n_wanted: int) -> int:  # noqa: ARG002
        """No row is missing."""
        return 0


def warn_if_large(rows: Rows, order: Array) -> None:
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


def kernel_rows(kernel: Kernel, points: Points, index: Array, threads: Threads) -> Array:
    """Kernel values of some points (at most a panel of them) with all points."""
    panel = kernel.panel(points, index)
    starts = range(0, len(points), block_columns(len(points)))
    blocks = threads.each(lambda first: kernel.block(panel, points, first), starts)
    return np.concatenate(blocks, axis=1)[: len(index)]


def apply_kernel(
    kernel: Kernel, left: Points, right: Points, coef: Array, threads: Threads
) -> Array:
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

    def fill(start: int) -> None:
        stop = min(start + BLOCK_ROWS, len(left))
        panel = kernel.panel(left, np.arange(start, stop))
        total = np.zeros((kernel.panel_rows(left, stop - start), padded))
        for first in range(0, len(right), block_columns(len(right))):
            block = kernel.block(panel, right, first)
            for k in range(0, block.shape[1], BLOCK_FEATURES):
                part = block[:, k : k + BLOCK_FEATURES]
                total += steady_product(part, tiles[first + k : first + k + BLOCK_FEATURES])
        result[start:stop] = total[: stop - start, :n_columns]

    threads.each(fill, range(0, len(left), BLOCK_ROWS))
    return result
