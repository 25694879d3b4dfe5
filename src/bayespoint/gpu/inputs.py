"""Training rows in the memory of a GPU: validated, hashed and merged there."""

import weakref
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from bayespoint._support import devices
from bayespoint._support.checks import SHOWN_PLACES, PointsError
from bayespoint._support.devices import DeviceError, check_room, is_tensor
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.gpu.kernels import DevicePoints, fit_layout, laid_out, prepare
from bayespoint.gpu.rows import STORE_SHARE, DeviceRows
from bayespoint.gpu.transfer import shared, to_device
from bayespoint.space.hashes import LEVELS, MOST_PLACED, SHIFT, hash_multipliers, joined
from bayespoint.space.inputs import GramInputs, Inputs
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.rows import Rows

# Numbers hashed together: some 200 MB, as 64-bit words are held several times over.
HASHED = 2**22

# A given Gram matrix is on the device as it came, normalised, and transposed for a moment.
GRAM_COPIES = 3

# Rows that must fit beside the data, at least.
LEAST_ROWS = 64

_MIX_1, _MIX_2 = (
    int(np.uint64(c).astype(np.int64)) for c in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class DeviceInputs(Inputs):
    """Rows of training data, on the host and on the device, or on the device alone.

    Parameters
    ----------
    X : ndarray, csr_matrix or tensor
    device : torch.device
    """

    def __init__(self, X: Any, device: torch.device) -> None:
        self._host = None if is_tensor(X) else X
        self._room: torch.Tensor | None = room_for_rows(X, device)
        self.tensor: torch.Tensor = to_device(X, device)
        self._index: Array | None = None
        self._shown: tuple[Array, Array] | None = None
        self._whole: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_features = self.tensor.shape
        return n_rows, n_features

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type of the values."""
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def array(self, index: Array) -> Array:
        """Return some rows as an array."""
        if self._host is None:
            at = torch.from_numpy(np.asarray(index)).to(self.tensor.device)
            return self.tensor[at].cpu().numpy()
        index = np.asarray(index) if self._index is None else self._index[index]
        if sp.issparse(self._host):
            return self._host[index].toarray()
        # PyTorch copies rows on all cores, and NumPy's memory comes in large pages.
        found = np.empty((len(index), self._host.shape[1]), dtype=self._host.dtype)
        chosen = torch.from_numpy(np.asarray(index, dtype=np.int64))
        torch.index_select(shared(self._host), 0, chosen, out=torch.from_numpy(found))
        return found

    def support_vectors(self, index: Array) -> Array:
        """Return rows as a fitted model shows them; asked for again, the same array."""
        if self._shown is None or self._shown[0] is not index:
            self._shown = index, self.array(index)
        return self._shown[1]

    def matrix(self) -> Array:
        """Return all rows, on the host; asked for again, the same array."""
        if self._whole is None:
            self._whole = self.array(np.arange(self.shape[0]))
        return self._whole

    def on_device(self) -> torch.Tensor:
        """Return all rows as they are on the device."""
        return self.tensor

    def take(self, index: Array) -> "DeviceInputs":
        """Return the data of some rows; on the host, nothing is copied."""
        other = object.__new__(DeviceInputs)
        other._host, other._room, other._shown, other._whole = self._host, None, None, None
        if 2 * len(index) > self.shape[0]:  # a sample leaves it to the rows of all
            other._room, self._room = self._room, None
        other._index = index if self._index is None else self._index[index]
        other.tensor = self.tensor[torch.from_numpy(index).to(self.tensor.device)]
        return other

    def finite(self) -> bool:
        """Whether all values are numbers."""
        return bool(torch.isfinite(self.tensor.sum())) or bool(torch.isfinite(self.tensor).all())

    def variance(self, weight: Array) -> float:
        """Variance of all values, a weight meaning copies of a row."""
        each = torch.from_numpy(weight / weight.sum()).to(self.tensor.device)
        mean = float(each @ self.tensor.mean(dim=1, dtype=torch.float64))
        step = max(1, HASHED // max(1, self.shape[1]))
        parts = (self.tensor[s : s + step].double() for s in range(0, len(each), step))
        spread = torch.cat([((part - mean) ** 2).mean(dim=1) for part in parts])
        return float(each @ spread)

    def deviations(self) -> Array:
        """Standard deviation of each column."""
        return self.tensor.std(dim=0, correction=0).double().cpu().numpy()

    def hashes(self) -> Array:
        """Hash of each row: the same numbers as `row_hashes` gives on the host."""
        return np.concatenate([_hashed(X, alike=False) for X in self._parts(slice(None))])

    def _parts(self, index: Any) -> Any:
        """Some rows, few at a time."""
        rows = torch.arange(self.shape[0], device=self.tensor.device)[index]
        step = max(1, HASHED // max(1, self.shape[1]))
        return (self.tensor[rows[s : s + step]] for s in range(0, max(1, len(rows)), step))

    def order_keys(self, index: Array) -> Array:
        """Hashes by which some rows are put in order: the same numbers as on the host."""
        chosen = torch.from_numpy(index).to(self.tensor.device)
        if self.shape[1] > MOST_PLACED:
            return np.concatenate([_keys([X.float()]) for X in self._parts(chosen)])
        ends = [torch.aminmax(X, dim=0) for X in self._parts(chosen)]
        least = torch.stack([end.min for end in ends]).amin(dim=0).double()
        most = torch.stack([end.max for end in ends]).amax(dim=0).double()
        reach = torch.where(most > least, most - least, np.inf)
        places = ((X.double() - least) / reach for X in self._parts(chosen))
        return np.concatenate(
            [_keys([(p * n + SHIFT).floor().float() for n in LEVELS]) for p in places]
        )

    def rows_equal(self, left: Array, right: Array) -> bool:
        """Whether all of some pairs of rows are equal."""
        one, other = (torch.from_numpy(side).to(self.tensor.device) for side in (left, right))
        return bool((self.tensor[one] == self.tensor[other]).all())

    def groups(self, index: Array) -> Array:
        """Numbers of some rows, equal for equal rows: on the host."""
        return Inputs(self.array(index)).groups(np.arange(len(index)))

    def fit_layout(self, kernel: Kernel) -> Kernel:
        """Return the kernel with the layout that suits these rows."""
        return fit_layout(kernel, self.tensor)

    def points(self, kernel: Kernel) -> Any:
        """Return the rows with what the kernel needs of each."""
        try:
            return prepare(kernel, laid_out(kernel, self.tensor))
        except PointsError as error:
            error.vectors = self.array(error.points[:SHOWN_PLACES])
            raise

    def lengths(self, kernel: Kernel) -> Array:
        """Lengths of the rows in feature space."""
        return self.points(kernel).length.cpu().numpy()

    def rows(self, kernel: Kernel, cache_bytes: int, threads: Threads) -> Rows:  # noqa: ARG002
        """Return rows of the Gram matrix, within the memory of the device; few for no bytes."""
        points = self.points(kernel)
        self._room = None  # what was kept free for rows
        memory = int(STORE_SHARE * devices.free_bytes(self.tensor.device))
        row = len(points.length) * points.X.element_size()
        memory = memory if cache_bytes else min(memory, LEAST_ROWS * row)
        if memory < LEAST_ROWS * row:
            fitting = memory // (LEAST_ROWS * points.X.element_size())
            raise DeviceError(
                f"device='cuda': {len(points.length)} points need {LEAST_ROWS * row / 1e6:.0f} MB "
                f"for kernel rows beside the data, and the GPU has {memory / 1e6:.0f} MB free; "
                f"about {fitting} points would fit. Free memory, use float32 or fewer points, or "
                f"device='cpu'."
            )
        return DeviceRows(kernel, points, memory=memory)

    def support(self, kernel: Kernel, rows: Any, used: Array) -> Points:
        """Return the points that new ones are compared with, as a fitted model keeps them."""
        chosen = rows.points.take(torch.from_numpy(used).to(rows.device))
        vectors = np.ascontiguousarray(self.support_vectors(used))
        X = laid_out(kernel, shared(vectors)).numpy()
        stay_on_device(X, chosen)
        fields: Any = [None if field is None else field.cpu().numpy() for field in chosen[1:]]
        return Points(X, *fields)


class DeviceGramInputs(GramInputs):
    """A Gram matrix instead of rows, on the host until its `Rows` are made."""

    def __init__(self, K: Matrix, device: torch.device) -> None:
        super().__init__(K)
        self._device = device

    def take(self, index: Array) -> "DeviceGramInputs":
        """Return the Gram matrix of some of the points."""
        return DeviceGramInputs(self.array(index), self._device)

    def rows(self, kernel: Kernel, cache_bytes: int, threads: Threads) -> Rows:  # noqa: ARG002
        """Return rows of the Gram matrix, all of them on the device."""
        room = GRAM_COPIES * self.dtype.itemsize
        check_room(self._device, self.shape[0], room, "the given Gram matrix", "float32")
        K = to_device(self.X, self._device)
        points = prepare(kernel, K, K.diagonal())
        gram = _normalised(kernel, K, points)
        points = points._replace(X=gram)  # whose memory serves twice
        memory = max(int(STORE_SHARE * devices.free_bytes(self._device)), gram.nbytes)
        return DeviceRows(kernel, points, memory=memory, gram=gram)


def _normalised(kernel: Kernel, gram: torch.Tensor, points: DevicePoints) -> torch.Tensor:
    gram = gram + kernel.bias
    if points.scale is not None:
        gram *= points.scale[:, None]
        gram *= points.scale
    return (gram + gram.T).div_(2)


# Support points that are on a GPU, by the number of their array on the host, while that lives.
_PLACED: dict[int, DevicePoints] = {}


def support_on_device(support: Points, device: torch.device) -> DevicePoints:
    """Support points of a model on the device, copied there once."""
    found = _PLACED.get(id(support.X))
    if found is None or found.X.device != device:
        fields: Any = [None if f is None else to_device(f, device) for f in vars(support).values()]
        found = stay_on_device(support.X, DevicePoints(*fields))
    return found


def stay_on_device(X: Matrix, points: DevicePoints) -> DevicePoints:
    """Keep points on the device as long as their array on the host lives."""
    if id(X) not in _PLACED:
        weakref.finalize(X, _PLACED.pop, id(X), None)
    _PLACED[id(X)] = points
    return points


def _keys(places: list[torch.Tensor]) -> Array:
    """Keys as `order_hashes` makes them."""
    return joined([_hashed(p, alike=True) for p in places], _hashed(places[-1], alike=False))


def _hashed(X: torch.Tensor, *, alike: bool) -> Array:
    """Hash of each row: the same numbers as `row_hashes` gives on the host."""
    multipliers = hash_multipliers(X.shape[1], alike=alike).view(np.int64)
    words = (X + 0.0).view(torch.int64 if X.dtype == torch.float64 else torch.int32)
    # Bit patterns of 32 bits have no sign of their own in 64.
    words = words.long() & 0xFFFFFFFF if words.dtype == torch.int32 else words
    mixed = (words ^ torch.from_numpy(multipliers).to(X.device)) * _MIX_1
    mixed = (mixed ^ _shifted(mixed, 31)) * _MIX_2
    mixed = mixed ^ _shifted(mixed, 29)
    return torch.where(words != 0, mixed, 0).sum(dim=1).cpu().numpy().view(np.uint64)


def _shifted(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift right, filling with zeros."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def room_for_rows(X: Any, device: torch.device) -> torch.Tensor | None:
    """Keep memory for all rows in one piece, so that X and its copies do not divide it.

    PyTorch would find no such piece then that an earlier fit has left, and to ask the driver for
    another takes longer than the fit.
    """
    if device.type != "cuda":
        return None
    n, kind = X.shape[0], X.dtype if is_tensor(X) else getattr(torch, str(X.dtype))
    needed = n * n * torch.finfo(kind).bits // 8
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if needed > min(held, devices.free_bytes(device) // 2):
        return None
    try:
        return torch.empty((n, n), dtype=kind, device=device)
    except torch.OutOfMemoryError:  # no piece is large enough: rows will see
        return None
