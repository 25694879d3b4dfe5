"""Where a fit runs: on the CPU, or on a GPU through PyTorch. PyTorch is imported when asked for."""

from importlib.util import find_spec

DEVICES = ("cpu", "cuda", "auto")

# Share of the free memory of a GPU that a fit may take; PyTorch and the display need some.
MEMORY_SHARE = 0.9


class DeviceError(RuntimeError):
    """There is no GPU, or not enough of it."""


def torch_device(device):
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
    >>> from bayespoint.devices import torch_device
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
            "device='cuda' needs Triton, which this PyTorch came without; use device='cpu'."
        )
    raise DeviceError(
        f"device='cuda': PyTorch {torch.__version__} finds no CUDA GPU. Use device='cpu' or "
        f"'auto', or install a driver and a PyTorch built for CUDA."
    )


def free_bytes(device):
    """Memory that a fit on this PyTorch device may take."""
    import torch

    if device.type != "cuda":
        return 2**40
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(MEMORY_SHARE * (free + held))


def is_tensor(X):
    """Whether X is a PyTorch tensor; does not import PyTorch to find out."""
    return type(X).__module__.partition(".")[0] == "torch"
