"""Rows of the Gram matrix in the memory of a GPU."""

import threading
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from bayespoint._kernels import kernel_torch
from bayespoint.devices import DeviceError, free_bytes
from bayespoint.kernels import some_of
from bayespoint.threads import Threads

# Rows of the Gram matrix computed together: products this wide run at the speed of the card.
BLOCK_ROWS = 4096

# Rows that are taken to float64 together where sums over them must not drift.
DOUBLE_ROWS = 1024

# Memory for tiles of kernel values between new points and support points.
TILE_BYTES = 2**31

# Of the memory that a fit may take, what is left for everything but the rows.
STORE_SHARE = 0.7

# Multiplications from which on a product is worth being split for the tensor cores.
SPLIT_WORK = 1e10

# Features summed by the tensor cores at once.
SPLIT_FEATURES = 256

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


def kernel_on_device(name):
    """Return why a kernel cannot be computed on a GPU, or None."""
    if callable(name):
        return "a callable kernel runs on the CPU"
    return None


def prepare(kernel, X, diagonal=None):
    """Compute what blocks need of each point; ``X`` is a tensor, centred already."""
    squared_norm = (X * X).sum(dim=1) if kernel.name in _KINDS else None
    if diagonal is None:
        diagonal = _diagonal(kernel, X, squared_norm)
    diagonal = diagonal + kernel.bias
    fine = torch.isfinite(diagonal) & (diagonal >= 0)
    if squared_norm is not None:
        fine &= torch.isfinite(2 * kernel.gamma * squared_norm)
    if not bool(fine.all()):
        wrong = ~fine.cpu().numpy()
        raise ValueError(
            f"the kernel overflows {str(X.dtype).removeprefix('torch.')}, or is negative on the "
            f"diagonal, for rows {some_of(wrong)} of X: scale the features (for example with "
            f"StandardScaler) or lower gamma, degree or coef0."
        )
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


def values(kernel, left, right, out=None, found=None):
    """Kernel values of points; ``found``: their inner products, where they are there already."""
    if kernel.name == "laplacian":
        near = torch.cdist(left.X, right.X, p=1).mul_(-kernel.gamma).exp_()
        kind = kernel_torch.LINEAR
        out = near if out is None else out.copy_(near)
    else:
        out = products(left.X, right.X, out) if found is None else found
        kind = _KINDS[kernel.name]
    finish = loops(out.device, "kernel").finish
    finish(
        out, kind, float(kernel.gamma), float(kernel.degree), float(kernel.coef0),
        float(kernel.bias), (left.squared_norm, left.scale), (right.squared_norm, right.scale),
    )  # fmt: skip
    return out


def products(A, B, out=None):
    """Inner products of rows, ``A @ B.T``.

    Large ones in float32 by the tensor cores of a GPU, whose factors have 11 bits: each number is
    the sum of two such, x = high + low, and three products give what float32 would. The cores'
    sums lose digits as they get long; that of the high parts is cut into several.
    """
    large = A.device.type == "cuda" and A.shape[0] * B.shape[0] * A.shape[1] >= SPLIT_WORK
    if not large or A.dtype != torch.float32:
        with tensor_cores(False):
            return torch.mm(A, B.T, out=out)
    return _split_products(split(A), split(B), out)


def _split_products(left, right, out=None):
    """Products of rows that were split."""
    with tensor_cores(True):
        # Small terms first, so that the large ones do not round them off.
        out = torch.mm(left.both, right.turned.T, out=out)
        for start in range(0, left.high.shape[1], SPLIT_FEATURES):
            part = slice(start, start + SPLIT_FEATURES)
            out.addmm_(left.high[:, part], right.high[:, part].T)
    return out


class Split(NamedTuple):
    """Numbers as sums of high and low parts with 11 significant bits each."""

    high: torch.Tensor
    both: torch.Tensor  # low and high parts side by side
    turned: torch.Tensor  # high and low parts

    def rows(self, start, stop):
        """Return some of the rows."""
        return Split(*(part[start:stop] for part in self))


def split(x):
    """Split the numbers of a matrix."""
    high = _rounded(x)
    low = _rounded(x - high)
    return Split(high, torch.cat((low, high), dim=1), torch.cat((high, low), dim=1))


def _rounded(x):
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


_SETTING = threading.RLock()


@contextmanager
def tensor_cores(wanted):
    """Let products in float32 use the tensor cores or not, whatever the process has set."""
    with _SETTING:
        setting = torch.backends.cuda.matmul
        before = setting.allow_tf32
        setting.allow_tf32 = wanted
        try:
            yield
        finally:
            setting.allow_tf32 = before


def loops(device, name):
    """Return the module with the inner loops: Triton on a GPU, PyTorch elsewhere."""
    from importlib import import_module

    kind = "triton" if device.type == "cuda" else "torch"
    return import_module(f"bayespoint._kernels.{name}_{kind}")


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
        self.store: Any = torch.empty((capacity, m), dtype=X.dtype, device=self.device)
        self.slot_of_row = np.full(m, -1, dtype=np.int32)
        self.slots = torch.full((m,), -1, dtype=torch.int32, device=self.device)
        self._row_in_slot = np.full(capacity, -1, dtype=np.int64)
        self._computed = np.full(capacity, -1, dtype=np.int64)
        self.clock = self.n_computed = 0
        self._gram = gram

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
        for start in range(0, len(missing), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
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
        return values(self.kernel, self.points.take(index), self.points)

    def _compute_all(self):
        """Fill the store: rows from the diagonal on, and their mirror images."""
        m = len(self)
        if self._gram is not None:
            self.store.copy_(self._gram)
        X = self.points.X
        work = BLOCK_ROWS * m * X.shape[1]
        splits = X.device.type == "cuda" and X.dtype == torch.float32 and work >= SPLIT_WORK
        whole = split(X) if splits and self.kernel.name in _KINDS else None
        for start in range(0, m if self._gram is None else 0, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, m)
            left = DevicePoints(*(_part(field, start, stop) for field in self.points))
            right = DevicePoints(*(_part(field, start, m) for field in self.points))
            out, found = self.store[start:stop, start:], None
            if whole is not None:
                found = _split_products(whole.rows(start, stop), whole.rows(start, m), out)
            values(self.kernel, left, right, out=out, found=found)
            corner = self.store[start:stop, start:stop]
            corner.copy_(torch.triu(corner) + torch.triu(corner, 1).T)
            self.store[stop:, start:stop] = self.store[start:stop, stop:].T
        self.slot_of_row[:] = np.arange(m)
        self.slots = torch.arange(m, dtype=torch.int32, device=self.device)  # no wait for a copy
        self.n_computed = m

    def outputs(self, ridge, coef):
        """Outputs at the points of w = sum_j coef_j phi(x_j), in float64: see `gram.outputs_of`."""
        flat = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        found = self.products(torch.from_numpy(flat).to(self.device)).cpu().numpy()
        return found.reshape(np.shape(coef)) + ridge * coef

    def products(self, coef):
        """Return ``coef @ K`` in float64 for a tensor of coefficients, one vector a row."""
        total = torch.zeros((len(coef), len(self)), dtype=torch.float64, device=self.device)
        used = torch.nonzero(coef.any(dim=0)).ravel()
        step = min(DOUBLE_ROWS, len(self.store))
        for start in range(0, len(used), step):
            part = used[start : start + step]
            if not self.whole or not self.n_computed:
                self.ensure(part.cpu().numpy())
            rows = self.store[self.slots[part].long()]
            total += coef[:, part] @ rows.double()
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
        found = values(self.kernel, part, part).double()
        return ((found + found.T) / 2).cpu().numpy()


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

    ``coef`` is an array of shape (len(right), n_columns).
    """
    X = left.X
    columns = torch.from_numpy(np.ascontiguousarray(coef)).to(X.device, X.dtype)
    step = max(1, TILE_BYTES // (X.element_size() * max(1, len(right.length))))
    found = []
    for start in range(0, len(left.length), step):
        part = DevicePoints(*(_part(field, start, start + step) for field in left))
        with tensor_cores(False):
            found.append(values(kernel, part, right) @ columns)
    if not found:
        return np.zeros((0, coef.shape[1]))
    return torch.cat(found).double().cpu().numpy()
