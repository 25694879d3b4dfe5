"""Copies between the host and a GPU."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from bayespoint._support.devices import is_tensor
from bayespoint._support.types import Array

# Larger arrays are copied to a GPU in pieces of this size, by so many threads.
STAGED_BYTES = 2**23
STAGING_THREADS = 6


def to_device(X: Any, device: torch.device) -> torch.Tensor:
    """Return X as a dense tensor on the device; a tensor that is there already is not copied."""
    if is_tensor(X):
        return X.to(device)
    if sp.issparse(X):
        X = X.toarray()
    X = np.ascontiguousarray(X)
    if device.type == "cpu" or X.nbytes < STAGED_BYTES:
        return shared(X).to(device)
    return _staged(shared(X), device)


def shared(array: Array) -> torch.Tensor:
    """Return a tensor in the memory of an array, which nobody may write to."""
    if not array.flags.writeable:  # PyTorch would warn
        array = np.asarray(_Writable(array))
    return torch.from_numpy(array)


class _Writable:
    """What NumPy takes for an array that can be written to; holds the true one."""

    def __init__(self, array: Array) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _staged(X: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy by way of buffers that the card reads by itself, each filled by a thread of its own.

    Nobody waits for the slowest thread before the next piece, as where all copy one together.
    """
    found, flat = torch.empty(X.shape, dtype=X.dtype, device=device), X.reshape(-1).numpy()
    there, stream = found.view(-1), torch.cuda.current_stream(device)
    step = STAGED_BYTES // X.element_size()

    def copy(first: int) -> None:
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
