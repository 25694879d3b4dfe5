"""Training points in the memory of a GPU: validated, hashed and merged there."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
import torch

from bayespoint._support.devices import free_bytes, is_tensor
from bayespoint.space.merging import hash_multipliers

# Numbers hashed together: some 200 MB, as 64-bit words are held several times over.
HASHED = 2**22

# Larger arrays are copied to a GPU in pieces of this size, by so many threads.
STAGED_BYTES = 2**23
STAGING_THREADS = 6

_MIX_1, _MIX_2 = (
    int(np.uint64(c).astype(np.int64)) for c in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class DeviceData:
    """Rows of training data, on the host and on the device, or on the device alone.

    Parameters
    ----------
    X : ndarray, csr_matrix or tensor
    device : torch.device
    """

    def __init__(self, X, device):
        self._host = None if is_tensor(X) else X
        self._room = _room_for_rows(X, device)
        self.tensor = to_device(X, device)
        self._index = None

    def give_room(self):
        """Let go of what was kept free for rows."""
        self._room = None

    @property
    def shape(self):
        """Rows and columns."""
        return tuple(self.tensor.shape)

    @property
    def dtype(self):
        """NumPy's type of the values."""
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def __getitem__(self, index):
        """Return some rows as an array."""
        if isinstance(index, slice):
            index = np.arange(self.shape[0])[index]
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

    def variance(self, share):
        """Variance of all values, each row with its share."""
        each = torch.from_numpy(share).to(self.tensor.device)
        mean = float(each @ self.tensor.mean(dim=1, dtype=torch.float64))
        step = max(1, HASHED // max(1, self.shape[1]))
        parts = (self.tensor[s : s + step].double() for s in range(0, len(each), step))
        spread = torch.cat([((part - mean) ** 2).mean(dim=1) for part in parts])
        return float(each @ spread)

    def deviations(self):
        """Standard deviation of each column."""
        return self.tensor.std(dim=0, correction=0).double().cpu().numpy()

    def take(self, index):
        """Return the data of some rows; on the host, nothing is copied."""
        other = object.__new__(DeviceData)
        other._host, other._room, self._room = self._host, self._room, None
        other._index = index if self._index is None else self._index[index]
        other.tensor = self.tensor[torch.from_numpy(index).to(self.tensor.device)]
        return other

    def finite(self):
        """Whether all values are numbers."""
        return bool(torch.isfinite(self.tensor.sum())) or bool(torch.isfinite(self.tensor).all())

    def hashes(self):
        """Hash of each row: the same numbers as `points.row_hashes` gives on the host."""
        n, d = self.shape
        multipliers = torch.from_numpy(hash_multipliers(d).view(np.int64)).to(self.tensor.device)
        word = torch.int64 if self.tensor.dtype == torch.float64 else torch.int32
        step = max(1, HASHED // max(1, d))
        keys = [
            _hashed((self.tensor[s : s + step] + 0.0).view(word), multipliers)
            for s in range(0, n, step)
        ]
        return torch.cat(keys).cpu().numpy().view(np.uint64)

    def rows_equal(self, left, right):
        """Whether pairs of rows are equal."""
        left, right = (torch.from_numpy(side).to(self.tensor.device) for side in (left, right))
        return bool((self.tensor[left] == self.tensor[right]).all())


def _hashed(words, multipliers):
    # Bit patterns of 32 bits have no sign of their own in 64.
    words = words.long() & 0xFFFFFFFF if words.dtype == torch.int32 else words
    mixed = (words ^ multipliers) * _MIX_1
    mixed = (mixed ^ _shifted(mixed, 31)) * _MIX_2
    mixed = mixed ^ _shifted(mixed, 29)
    return torch.where(words != 0, mixed, 0).sum(dim=1)


def _shifted(words, bits):
    """Shift right, filling with zeros."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def to_device(X, device):
    """Return X as a dense tensor on the device; a tensor that is there already is not copied."""
    if is_tensor(X):
        return X.to(device)
    if sp.issparse(X):
        X = X.toarray()
    X = np.ascontiguousarray(X)
    if device.type == "cpu" or X.nbytes < STAGED_BYTES:
        return shared(X).to(device)
    return _staged(shared(X), device)


def shared(array):
    """Return a tensor in the memory of an array, which nobody may write to."""
    if not array.flags.writeable:  # PyTorch would warn
        array = np.asarray(_Writable(array))
    return torch.from_numpy(array)


class _Writable:
    """What NumPy takes for an array that can be written to; holds the true one."""

    def __init__(self, array):
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _room_for_rows(X, device):
    """Keep memory for all rows in one piece, lest X and what is made of it lie in its midst.

    PyTorch would find no such piece then that an earlier fit has left, and to ask the driver for
    another takes longer than the fit.
    """
    if device.type != "cuda":
        return None
    n, kind = X.shape[0], X.dtype if is_tensor(X) else getattr(torch, str(X.dtype))
    needed = n * n * torch.finfo(kind).bits // 8
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if needed > min(held, free_bytes(device) // 2):
        return None
    try:
        return torch.empty((n, n), dtype=kind, device=device)
    except torch.OutOfMemoryError:  # no piece is large enough: rows will see
        return None


def _staged(X, device):
    """Copy by way of buffers that the card reads by itself, each filled by a thread of its own.

    Nobody waits for the slowest thread before the next piece, as where all copy one together.
    """
    found, flat = torch.empty(X.shape, dtype=X.dtype, device=device), X.reshape(-1).numpy()
    there, stream = found.view(-1), torch.cuda.current_stream(device)
    step = STAGED_BYTES // X.element_size()

    def copy(first):
        with torch.cuda.stream(stream):  # and so on its device
            buffer, free = torch.empty(step, dtype=X.dtype, pin_memory=True), torch.cuda.Event()
            for start in range(first * step, len(flat), STAGING_THREADS * step):
                part = flat[start : start + step]
                free.synchronize()
                np.copyto(buffer.numpy()[: len(part)], part)
                there[start : start + len(part)].copy_(buffer[: len(part)], non_blocking=True)
                free.record()
            free.synchronize()  # before the buffer serves somebody else

    with ThreadPoolExecutor(STAGING_THREADS) as pool:
        list(pool.map(copy, range(STAGING_THREADS)))
    return found
