"""Rows of the Gram matrix in the memory of a GPU."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from bayespoint._support import devices
from bayespoint._support.devices import DeviceError
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.gpu.kernels import (
    KINDS,
    DevicePoints,
    field_part,
    loops,
    on_tensor_cores,
    values,
)
from bayespoint.space.rows import Rows

# Rows of the Gram matrix computed together: products this wide run at the speed of the card.
BLOCK_ROWS = 4096

# Rows that are added together, and taken to float64 together where their sums must not drift.
COMBINED_ROWS = 60_000
DOUBLE_ROWS = 1024

# Of the memory that a fit may take, what is left for everything but the rows.
STORE_SHARE = 0.7


class DeviceRows(Rows):
    """Rows K[i, :] of the Gram matrix of some points, in the memory of a GPU.

    All of them where they fit, computed at once; else those asked for, the ones computed longest
    ago making room. See `bayespoint.space.rows.Rows`.

    Parameters
    ----------
    kernel : Kernel or None
        None where the Gram matrix is given.
    points : DevicePoints
    memory : int
        Bytes that rows may take.
    gram : tensor, optional
        The Gram matrix, where it is given.
    """

    def __init__(
        self, kernel: Any, points: DevicePoints, *, memory: int, gram: torch.Tensor | None = None
    ) -> None:
        m, X = len(points.length), points.X
        self.kernel, self.points, self.device = kernel, points, X.device
        self.threads = Threads(1)
        self.dtype = np.dtype(str(X.dtype).removeprefix("torch."))
        self.diagonal = (points.length.double() ** 2).cpu().numpy()
        self.cache_bytes = memory
        capacity = min(m, max(memory // (m * X.element_size()), 1))
        self.store: Any = gram
        if gram is None or capacity < m:
            self.store = torch.empty((capacity, m), dtype=X.dtype, device=self.device)
        self.slot_of_row = np.full(m, -1, dtype=np.int32)
        self.slots = torch.full((m,), -1, dtype=torch.int32, device=self.device)
        self._row_in_slot = np.full(capacity, -1, dtype=np.int64)
        self._computed = np.full(capacity, -1, dtype=np.int64)
        self.clock = self.n_computed = 0
        self._gram = gram
        self._halves: tuple | None = None

    @property
    def whole(self) -> bool:
        """Whether all rows fit."""
        return len(self.store) == len(self)

    def need_whole(self) -> None:
        """Make all rows present, or say how many points would fit."""
        if not self.whole:
            raise too_large(self.device, len(self), self.dtype.itemsize)
        self.ensure(())

    def ensure(self, wanted: Any) -> None:
        """Make as many of the ``wanted`` rows present as the store holds, the first ones first."""
        if self.whole:
            if not self.n_computed:
                self._compute_all()
            return
        self.clock += 1
        wanted = np.asarray(wanted)[: len(self.store)]
        missing = wanted[self.slot_of_row[wanted] < 0]
        self._computed[self.slot_of_row[wanted[self.slot_of_row[wanted] >= 0]]] = self.clock
        slots = np.argsort(self._computed, kind="stable")[: len(missing)]
        step = max(1, min(BLOCK_ROWS, len(self.store) // 8))  # they are made beside the store
        for start in range(0, len(missing), step):
            part = slice(start, start + step)
            self._compute(missing[part], slots[part])
        self.slots.copy_(torch.from_numpy(self.slot_of_row))

    def room_beside(self, n_wanted: int) -> int:
        """Rows that cost little more, computed in one block with the wanted ones."""
        return max(0, min(BLOCK_ROWS // 4, len(self.store)) - n_wanted)

    def _compute(self, rows: Array, slots: Array) -> None:
        evicted = self._row_in_slot[slots]
        self.slot_of_row[evicted[evicted >= 0]] = -1
        index = torch.from_numpy(np.asarray(rows)).to(self.device)
        self.store[torch.from_numpy(slots).to(self.device)] = self._block(index)
        self._row_in_slot[slots], self._computed[slots] = rows, self.clock
        self.slot_of_row[rows] = slots
        self.n_computed += len(rows)

    def _block(self, index: torch.Tensor) -> torch.Tensor:
        if self._gram is not None:
            return self._gram[index]
        X = self.points.X
        if self._halves is None and on_tensor_cores(X, BLOCK_ROWS) and self.kernel.name in KINDS:
            self._halves = loops(X.device, "kernel").halves(X)
        return values(self.kernel, self.points.take(index), self.points, there=self._halves)

    def _compute_all(self) -> None:
        """Fill the store."""
        if self._gram is None:
            self._compute_values()
        self.slot_of_row[:] = np.arange(len(self))
        # Made there, there is no wait for a copy.
        self.slots = torch.arange(len(self), dtype=torch.int32, device=self.device)
        self.n_computed = len(self)

    def _compute_values(self) -> None:
        m, points = len(self), self.points
        if on_tensor_cores(points.X, m) and self.kernel.name in KINDS:
            values(self.kernel, points, points, out=self.store)
            return
        # Rows from the diagonal on, and their mirror images.
        for start in range(0, m, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, m)
            left = DevicePoints(*(field_part(field, start, stop) for field in points))
            right = DevicePoints(*(field_part(field, stop, m) for field in points))
            values(self.kernel, left, left, out=self.store[start:stop, start:stop])
            if stop < m:
                beside = values(self.kernel, left, right, out=self.store[start:stop, stop:])
                self.store[stop:, start:stop] = beside.T

    def outputs(self, ridge: Any, coef: Array) -> Array:
        """Outputs at the points of w = sum_j coef_j phi(x_j), in float64: see `Rows.outputs`."""
        flat = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        found = self.products(torch.from_numpy(flat).to(self.device)).cpu().numpy()
        return found.reshape(np.shape(coef)) + ridge * coef

    def products(self, coef: torch.Tensor) -> torch.Tensor:
        """Return ``coef @ K`` in float64 for a tensor of coefficients, one vector per row."""
        total = torch.zeros((len(coef), len(self)), dtype=torch.float64, device=self.device)
        used = torch.nonzero(coef.any(dim=0)).ravel()
        combine = loops(self.device, "kernel").combine
        step = min(COMBINED_ROWS, len(self.store))
        for start in range(0, len(used), step):
            part = used[start : start + step]
            if not self.whole or not self.n_computed:
                self.ensure(part.cpu().numpy())
            total += combine(coef[:, part], self.slots[part], self.store)
        return total

    def matrix(self) -> Array:
        """Return the Gram matrix in float64, as an array."""
        self.need_whole()
        return self.store.double().cpu().numpy()

    def coinciding(self, parallel: float) -> Iterator[tuple[int, Array, Array]]:
        """Yield a point, later ones on the same line, and their signs: see `Rows.coinciding`."""
        self.need_whole()
        length = torch.sqrt(self.store.diagonal().double())
        seen = np.zeros(len(self), dtype=bool)
        for start in range(0, len(self), DOUBLE_ROWS):
            part = self.store[start : start + DOUBLE_ROWS].double()
            cosine = part / (length * length[start : start + DOUBLE_ROWS, None])
            pairs = torch.nonzero(cosine.abs() > 1 - parallel)
            pairs = pairs[pairs[:, 1] > pairs[:, 0] + start]
            signs = torch.sign(cosine[pairs[:, 0], pairs[:, 1]]).cpu().numpy()
            first, later = (pairs + torch.tensor([start, 0], device=pairs.device)).T.cpu().numpy()
            for i in np.unique(first):
                if not seen[i]:
                    seen[later[first == i]] = True
                    yield int(i), later[first == i], signs[first == i]

    def factorise(
        self, softness: Any, threads: Threads,  # noqa: ARG002
        stop: Callable[[], bool] | None = None,
    ) -> Any:  # fmt: skip
        """Return the factor of the Gram matrix with this softness: see `Rows.factorise`."""
        from bayespoint.gpu.factor import DeviceFactor

        factor = DeviceFactor(self, np.asarray(softness, dtype=np.float64))
        if stop is not None and stop():
            raise KeyboardInterrupt
        return factor

    def part(self, index: Array) -> "DeviceRows":
        """Return the rows of some of the points."""
        chosen = torch.from_numpy(np.asarray(index)).to(self.device)
        gram = None if self._gram is None else self._gram[chosen][:, chosen]
        points = self.points.take(chosen)
        return DeviceRows(self.kernel, points, memory=self.cache_bytes, gram=gram)

    def submatrix(self, index: Array) -> Array:
        """Gram matrix of some of the points, in float64, as an array."""
        index = np.asarray(index)
        chosen = torch.from_numpy(index).to(self.device)
        if self._gram is not None:
            return self._gram[chosen][:, chosen].double().cpu().numpy()
        part = self.points.take(chosen)
        return values(self.kernel, part, part).double().cpu().numpy()


def too_large(device: torch.device, n_points: int, itemsize: int) -> DeviceError:
    """Return the error of a Gram matrix that does not fit beside its factor."""
    # The matrix, a softened copy and the factor of it.
    fitting = int(np.sqrt(STORE_SHARE * devices.free_bytes(device) / (3 * itemsize)))
    return DeviceError(
        f"device='cuda': the Gram matrix of {n_points} points does not fit beside its factor; "
        f"about {fitting} points would. Use inference='perceptron', float32, or fewer points."
    )
