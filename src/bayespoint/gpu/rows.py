"""Rows of the Gram matrix in the memory of a GPU."""

import threading
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import torch

from bayespoint._support.devices import DeviceError, free_bytes
from bayespoint._support.threads import Threads
from bayespoint.gpu.loops import kernel_torch

# Rows of the Gram matrix computed together: products this wide run at the speed of the card.
BLOCK_ROWS = 4096

# Rows that are added together, and taken to float64 together where their sums must not drift.
COMBINED_ROWS = 60_000
DOUBLE_ROWS = 1024

# Memory for tiles of kernel values between new points and support points, at most.
TILE_BYTES = 3 * 2**30

# Of the memory that a fit may take, what is left for everything but the rows.
STORE_SHARE = 0.7

# Multiplications from which on a product is worth being split for the tensor cores.
SPLIT_WORK = 1e10

_KINDS = {"linear": kernel_torch.LINEAR, "poly": kernel_torch.POLY, "rbf": kernel_torch.RBF}


class DevicePoints(NamedTuple):
    """Points in the memory of a GPU with what the kernel needs of each: see `kernels.Points`."""

    X: torch.Tensor
    squared_norm: torch.Tensor | None
    scale: torch.Tensor | None
    length: torch.Tensor

    def take(self, index):
        """Return some of the points."""
        fields: Any = [None if field is None else field[index] for field in self]
        return DevicePoints(*fields)


def prepare(kernel, X, diagonal=None):
    """Compute what blocks need of each point; ``X`` is a tensor, centred already."""
    squared_norm = (X * X).sum(dim=1) if kernel.name in _KINDS else None
    if diagonal is None:
        diagonal = _diagonal(kernel, X, squared_norm)
    negative = diagonal < 0
    diagonal = diagonal + kernel.bias
    infinite = ~torch.isfinite(diagonal)
    if squared_norm is not None:
        infinite |= ~torch.isfinite(2 * kernel.gamma * squared_norm)
    if bool((infinite | negative).any()):
        masks = (mask.cpu().numpy() for mask in (infinite, negative))
        kernel.check_diagonal(*masks, str(X.dtype).removeprefix("torch."))
    length = torch.sqrt(diagonal)
    if not kernel.normalize:
        return DevicePoints(X, squared_norm, None, length)
    # A point at the origin of feature space has no direction: all its outputs are zero.
    scale = torch.where(length > 0, 1 / length, 0)
    return DevicePoints(X, squared_norm, scale, torch.sign(length))


def _diagonal(kernel, X, squared_norm):
    if kernel.name in ("rbf", "laplacian"):
        return torch.ones(len(X), dtype=X.dtype, device=X.device)
    if kernel.name == "poly":
        return (kernel.gamma * squared_norm + kernel.coef0) ** kernel.degree
    return squared_norm


def values(kernel, left, right, out=None, there=None):
    """Kernel values of points; those of points with themselves are symmetric.

    ``there`` are the halves of the points on the right, where somebody has them already.
    """
    X, Z = left.X, right.X
    if out is None:  # rows that begin at multiples of 64 bytes are faster
        width = -(-len(Z) // 16) * 16
        out = torch.empty((len(X), width), dtype=X.dtype, device=X.device)[:, : len(Z)]
    parameters = [float(p) for p in (kernel.gamma, kernel.degree, kernel.coef0, kernel.bias)]
    of_points = (left.squared_norm, left.scale), (right.squared_norm, right.scale)
    tools = loops(X.device, "kernel")
    if kernel.name == "laplacian":
        out.copy_(torch.cdist(X, Z, p=1).mul_(-kernel.gamma).exp_())
        kind = kernel_torch.LINEAR
    elif on_tensor_cores(X, len(Z)):
        kind = _KINDS[kernel.name]
        # The tensor cores multiply numbers of 11 bits: three products give what float32 would.
        there = tools.halves(Z) if there is None else there
        at = there if left is right else tools.halves(X)
        tools.values(at, there, out, left is right, kind, *parameters, *of_points)
        return out
    else:
        kind = _KINDS[kernel.name]
        with exact_products():
            torch.mm(X, Z.T, out=out)
    tools.finish(out, kind, *parameters, *of_points)
    if left is right:
        out.copy_(torch.triu(out) + torch.triu(out, 1).T)
    return out


def on_tensor_cores(X, n_columns):
    """Whether products of these points are worth the tensor cores of a GPU."""
    large = X.shape[0] * n_columns * X.shape[1] >= SPLIT_WORK
    return X.device.type == "cuda" and X.dtype == torch.float32 and large


_SETTING = threading.RLock()


@contextmanager
def exact_products():
    """Let products in float32 have its precision, whatever the process has set."""
    with _SETTING:
        setting, before = torch.backends.cuda.matmul, {}
        # Of these names for one thing, a process that has used the second may not read the first.
        for name in ("allow_tf32", "fp32_precision"):
            with suppress(RuntimeError, AttributeError):
                before[name] = getattr(setting, name)
        if "allow_tf32" in before:
            setting.allow_tf32 = False
        else:
            setting.fp32_precision = "ieee"
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(setting, name, value)


def loops(device, name):
    """Return the module with the inner loops: Triton on a GPU, PyTorch elsewhere."""
    from importlib import import_module

    kind = "triton" if device.type == "cuda" else "torch"
    return import_module(f"bayespoint.gpu.loops.{name}_{kind}")


class DeviceRows:
    """Rows K[i, :] of the Gram matrix of some points, in the memory of a GPU.

    All of them where they fit, computed at once; else those asked for, the ones computed longest
    ago making room. The interface is that of `gram.GramRows`.

    Parameters
    ----------
    kernel : Kernel
    points : DevicePoints
    memory : int
        Bytes that rows may take.
    gram : tensor, optional
        The Gram matrix, where it is given.
    """

    def __init__(self, kernel, points, *, memory, gram=None):
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

    def __len__(self):
        """Return the number of points."""
        return len(self.slot_of_row)

    @property
    def whole(self):
        """Whether all rows fit."""
        return len(self.store) == len(self)

    def need_whole(self):
        """Make all rows present, or say how many points would fit."""
        if not self.whole:
            raise too_large(self.device, len(self), self.dtype.itemsize)
        self.ensure(())

    def ensure(self, wanted):
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

    def room_beside(self, n_wanted):
        """Rows that cost little more, computed in one block with the wanted ones."""
        return max(0, min(BLOCK_ROWS // 4, len(self.store)) - n_wanted)

    def _compute(self, rows, slots):
        evicted = self._row_in_slot[slots]
        self.slot_of_row[evicted[evicted >= 0]] = -1
        index = torch.from_numpy(np.asarray(rows)).to(self.device)
        self.store[torch.from_numpy(slots).to(self.device)] = self._block(index)
        self._row_in_slot[slots], self._computed[slots] = rows, self.clock
        self.slot_of_row[rows] = slots
        self.n_computed += len(rows)

    def _block(self, index):
        if self._gram is not None:
            return self._gram[index]
        X = self.points.X
        if self._halves is None and on_tensor_cores(X, BLOCK_ROWS) and self.kernel.name in _KINDS:
            self._halves = loops(X.device, "kernel").halves(X)
        return values(self.kernel, self.points.take(index), self.points, there=self._halves)

    def _compute_all(self):
        """Fill the store."""
        if self._gram is None:
            self._compute_values()
        self.slot_of_row[:] = np.arange(len(self))
        # Made there, there is no wait for a copy.
        self.slots = torch.arange(len(self), dtype=torch.int32, device=self.device)
        self.n_computed = len(self)

    def _compute_values(self):
        m, points = len(self), self.points
        if on_tensor_cores(points.X, m) and self.kernel.name in _KINDS:
            values(self.kernel, points, points, out=self.store)
            return
        # Rows from the diagonal on, and their mirror images.
        for start in range(0, m, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, m)
            left = DevicePoints(*(_part(field, start, stop) for field in points))
            right = DevicePoints(*(_part(field, stop, m) for field in points))
            values(self.kernel, left, left, out=self.store[start:stop, start:stop])
            if stop < m:
                beside = values(self.kernel, left, right, out=self.store[start:stop, stop:])
                self.store[stop:, start:stop] = beside.T

    def outputs(self, ridge, coef):
        """Outputs at the points of w = sum_j coef_j phi(x_j), in float64: see `gram.outputs_of`."""
        flat = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        found = self.products(torch.from_numpy(flat).to(self.device)).cpu().numpy()
        return found.reshape(np.shape(coef)) + ridge * coef

    def products(self, coef):
        """Return ``coef @ K`` in float64 for a tensor of coefficients, one vector a row."""
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

    def matrix(self):
        """Return the Gram matrix in float64, as an array."""
        self.need_whole()
        return self.store.double().cpu().numpy()

    def coinciding(self, parallel):
        """Yield a point, later ones on the same line, and their signs: see `coinciding_walls`."""
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

    def submatrix(self, index):
        """Gram matrix of some of the points, in float64, as an array."""
        index = np.asarray(index)
        chosen = torch.from_numpy(index).to(self.device)
        if self._gram is not None:
            return self._gram[chosen][:, chosen].double().cpu().numpy()
        part = self.points.take(chosen)
        return values(self.kernel, part, part).double().cpu().numpy()


def too_large(device, n_points, itemsize):
    """Return the error of a Gram matrix that does not fit beside its factor."""
    # The matrix, a softened copy and the factor of it.
    fitting = int(np.sqrt(STORE_SHARE * free_bytes(device) / (3 * itemsize)))
    return DeviceError(
        f"device='cuda': the Gram matrix of {n_points} points does not fit beside its factor; "
        f"about {fitting} points would. Use inference='perceptron', float32, or fewer points."
    )


def _part(field, start, stop):
    return None if field is None else field[start:stop]


def apply_kernel(kernel, left, right, coef):
    """Return ``K(left, right) @ coef`` as an array of float64; the matrix never exists as a whole.

    ``coef`` is an array of shape (len(right), n_columns). Sums are in float64.
    """
    X = left.X
    columns = torch.from_numpy(np.ascontiguousarray(coef)).to(X.device, torch.float64)
    found = torch.empty((len(X), coef.shape[1]), dtype=torch.float64, device=X.device)
    n_right = max(1, len(right.length))
    room = int(min(TILE_BYTES, free_bytes(X.device) / 4) / (12 * n_right))
    step = max(1, room // 64) * 64  # tiles begin where the GPU reads fast
    large = on_tensor_cores(X[:step], n_right) and kernel.name in _KINDS
    there = loops(X.device, "kernel").halves(right.X) if large else None
    for start in range(0, len(X), step):
        part = DevicePoints(*(_part(field, start, start + step) for field in left))
        tile = values(kernel, part, right, there=there)
        found[start : start + step] = tile.double() @ columns
    return found.cpu().numpy()
