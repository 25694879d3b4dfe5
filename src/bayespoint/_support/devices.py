"""Where a fit runs: on the CPU, or on a GPU through PyTorch. PyTorch is imported when asked for."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from bayespoint._support.checks import check_choice
from bayespoint._support.types import Array

DEVICES = ("cpu", "cuda", "auto")

# Share of the free memory of a GPU that a fit may take; PyTorch and the display need some.
MEMORY_SHARE = 0.9

# Points of a fit on a GPU above which label errors alone do not pay for the inverse of the Gram
# matrix: it would be most of the work.
MOST_LABEL_POINTS = 10_000


class DeviceError(RuntimeError):
    """There is no GPU, or not enough of it."""


def check_device(device: str) -> None:
    """Refuse what is no device."""
    check_choice("device", device, DEVICES)


def torch_device(device: str) -> Any:
    """Return the PyTorch device for a value of ``device=``, or None for the CPU.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
        "auto" takes a GPU where there is one.

    Raises
    ------
    DeviceError
        If a GPU is asked for and there is none.

    Examples
    --------
    >>> from bayespoint._support.devices import torch_device
    >>> torch_device("cpu") is None
    True
    """
    if device == "cpu":
        return None
    try:
        import torch
    except ImportError as error:
        if device == "auto":
            return None
        raise DeviceError(
            "device='cuda' needs PyTorch; run: pip install 'bayespoint[gpu]', or use device='cpu'."
        ) from error
    if torch.cuda.is_available() and find_spec("triton") is not None:
        return torch.device("cuda", torch.cuda.current_device())
    if device == "auto":
        return None
    if torch.cuda.is_available():
        raise DeviceError(
            "device='cuda' needs Triton, which this PyTorch came without: pip install triton, or "
            "use device='cpu'."
        )
    raise DeviceError(
        f"device='cuda': PyTorch {torch.__version__} finds no CUDA GPU. Use device='cpu' or "
        f"'auto', or install a driver and a PyTorch built for CUDA."
    )


# What takes less memory than a prediction that has none.
PREDICT_FEWER = "Free some, predict fewer points at a time"


def free_bytes(device: Any) -> int:
    """Memory that a fit on this PyTorch device may take."""
    import torch

    if device.type != "cuda":
        return 2**40
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(MEMORY_SHARE * (free + held))


def check_room(device: Any, n_points: int, per_pair: int, what: str, remedy: str) -> None:
    """Refuse what needs more than the free memory; say how many points would fit.

    Parameters
    ----------
    device : torch.device
    n_points : int
    per_pair : int
        Bytes for each pair of points.
    what, remedy : str
        What needs them, and what needs fewer.
    """
    free = free_bytes(device)
    if per_pair * n_points**2 > free:
        raise DeviceError(
            f"device='cuda': {what} of {n_points} points needs {per_pair * n_points**2 / 1e6:.0f} "
            f"MB, and the GPU has {free / 1e6:.0f} MB free; about {int((free / per_pair) ** 0.5)} "
            f"points would fit. Use {remedy}, fewer points, or device='cpu'."
        )


@contextmanager
def explaining_memory(device: str, remedies: str) -> Iterator[None]:
    """Turn what PyTorch raises when a GPU has no memory left into a `DeviceError`.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
    remedies : str
        What takes less memory.
    """
    try:
        yield
    except RuntimeError as error:
        # Known by name: on the CPU nobody has imported PyTorch.
        text = f"{type(error).__name__} {error}"
        if device == "cpu" or not re.search("OutOfMemory|out of memory|ALLOC_FAILED", text):
            raise
        known = re.search(r"allocate ([\d.]+ \w+).*?([\d.]+ \w+) is free", text, re.DOTALL)
        sizes = f" ({known[1]} more were needed, {known[2]} free)" if known else ""
        raise DeviceError(
            f"device={device!r}: the GPU has no memory left{sizes}. {remedies}, or use "
            f"device='cpu'."
        ) from error


def as_array(tensor: Any) -> Array:
    """Return a tensor as an array; bfloat16, which NumPy does not know, becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def is_tensor(X: Any) -> bool:
    """Whether X is a PyTorch tensor; does not import PyTorch to find out."""
    return type(X).__module__.partition(".")[0] == "torch"
