"""Kernels on tensors: what blocks need of each point, values, and outputs of new points."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch

from bayespoint._support import devices
from bayespoint._support.types import Array
from bayespoint.gpu.loops import kernel_torch
from bayespoint.gpu.transfer import shared
from bayespoint.space.kernels import Kernel

# Memory for tiles of kernel values between new points and support points, at most.
TILE_BYTES = 3 * 2**30

# Multiplications from which on a product is worth being split for the tensor cores.
SPLIT_WORK = 1e10

# Rows whose lengths are computed together, in float64.
MEASURED_ROWS = 2**16

KINDS = {"linear": kernel_torch.LINEAR, "poly": kernel_torch.POLY, "rbf": kernel_torch.RBF}


class DevicePoints(NamedTuple):
    """Points in the memory of a GPU with what the kernel needs of each: see `kernels.Points`."""

    X: torch.Tensor
    squared_norm: torch.Tensor | None
    scale: torch.Tensor | None
    length: torch.Tensor

    def take(self, index: torch.Tensor) -> "DevicePoints":
        """Return some of the points."""
        fields: Any = [None if field is None else field[index] for field in self]
        return DevicePoints(*fields)


def prepare(kernel: Kernel, X: torch.Tensor, diagonal: torch.Tensor | None = None) -> DevicePoints:
    """Compute what blocks need of each point; ``X`` is a tensor, centred already."""
    squared_norm = (X * X).sum(dim=1) if kernel.name in KINDS else None
    if diagonal is None:
        diagonal = _diagonal(kernel, X, squared_norm)
    negative = diagonal < 0
    diagonal = diagonal + kernel.bias
    infinite = ~torch.isfinite(diagonal)
    if squared_norm is not None:
        infinite |= ~torch.isfinite(2 * kernel.width * squared_norm)
    if bool((infinite | negative).any()):
        dtype = str(X.dtype).removeprefix("torch.")
        kernel.check_diagonal(infinite.cpu().numpy(), negative.cpu().numpy(), dtype)
    length = torch.sqrt(diagonal)
    if not kernel.normalize:
        return DevicePoints(X, squared_norm, None, length)
    # A point at the origin of feature space has no direction: all its outputs are zero.
    scale = torch.where(length > 0, 1 / length, 0)
    return DevicePoints(X, squared_norm, scale, torch.sign(length))


def _diagonal(kernel: Kernel, X: torch.Tensor, squared_norm: Any) -> torch.Tensor:
    if kernel.name in ("rbf", "laplacian"):
        return torch.ones(len(X), dtype=X.dtype, device=X.device)
    if kernel.name == "poly":
        return (kernel.gamma * squared_norm + kernel.coef0) ** kernel.degree
    return squared_norm


def values(
    kernel: Kernel, left: DevicePoints, right: DevicePoints, out: torch.Tensor | None = None,
    there: tuple | None = None,
) -> torch.Tensor:  # fmt: skip
    """Kernel values of points; those of points with themselves are symmetric.

    ``there`` are the halves of the points on the right, where somebody has them already.
    """
    X, Z = left.X, right.X
    if out is None:  # rows that begin at multiples of 64 bytes are faster
        width = -(-len(Z) // 16) * 16
        out = torch.empty((len(X), width), dtype=X.dtype, device=X.device)[:, : len(Z)]
    parameters = [float(p) for p in (kernel.width, kernel.degree, kernel.coef0, kernel.bias)]
    of_points = (left.squared_norm, left.scale), (right.squared_norm, right.scale)
    tools = loops(X.device, "kernel")
    if kernel.name == "laplacian":
        out.copy_(torch.cdist(X, Z, p=1).mul_(-kernel.width).exp_())
        kind = kernel_torch.LINEAR
    elif on_tensor_cores(X, len(Z)):
        kind = KINDS[kernel.name]
        # The tensor cores multiply numbers of 11 bits: three products give what float32 would.
        there = tools.halves(Z) if there is None else there
        at = there if left is right else tools.halves(X)
        tools.values(at, there, out, left is right, kind, *parameters, *of_points)
        return out
    else:
        kind = KINDS[kernel.name]
        with exact_products():
            torch.mm(X, Z.T, out=out)
    tools.finish(out, kind, *parameters, *of_points)
    if left is right:
        out.copy_(torch.triu(out) + torch.triu(out, 1).T)
    return out


def on_tensor_cores(X: torch.Tensor, n_columns: int) -> bool:
    """Whether products of these points are worth the tensor cores of a GPU."""
    large = X.shape[0] * n_columns * X.shape[1] >= SPLIT_WORK
    return X.device.type == "cuda" and X.dtype == torch.float32 and large


_SETTING = threading.RLock()


@contextmanager
def exact_products() -> Iterator[None]:
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


def loops(device: torch.device, name: str) -> Any:
    """Return the module with the inner loops: Triton on a GPU, PyTorch elsewhere."""
    kind = "triton" if device.type == "cuda" else "torch"
    return import_module(f"bayespoint.gpu.loops.{name}_{kind}")


def fit_layout(kernel: Kernel, tensor: torch.Tensor) -> Kernel:
    """Choose centre and precision from the training points: see `Kernel.fit_layout`."""
    if not kernel.uses_products:
        return kernel
    layout, centre = "dense", None
    if kernel.name == "rbf":
        middle = tensor.mean(dim=0, dtype=torch.float64).to(tensor.dtype)
        centre = middle.cpu().numpy()
        squared = [  # in float64, as float32 has no squares beyond 1e38
            _scaled(kernel, part.double() - middle.double()).square().sum(dim=1).max()
            for part in tensor.split(MEASURED_ROWS)
        ]
        layout += kernel.precision_suffix(float(torch.stack(squared).max()), centre.dtype)
    return replace(kernel, layout=layout, center=centre)


def laid_out(kernel: Kernel, tensor: torch.Tensor) -> torch.Tensor:
    """Return points in the precision of the kernel, about its centre."""
    if kernel.layout is not None and kernel.layout.endswith("double"):
        tensor = tensor.double()
    if kernel.center is not None:
        tensor = tensor - shared(kernel.center).to(tensor.device, tensor.dtype)
    return _scaled(kernel, tensor)


def _scaled(kernel: Kernel, tensor: torch.Tensor) -> torch.Tensor:
    """Return points with their columns multiplied, where each feature has a width."""
    if kernel.column_scale is None:
        return tensor
    return tensor * torch.from_numpy(kernel.column_scale).to(tensor.device, tensor.dtype)


def apply_kernel(kernel: Kernel, left: DevicePoints, right: DevicePoints, coef: Array) -> Array:
    """Return ``K(left, right) @ coef`` as an array of float64; the matrix never exists as a whole.

    ``coef`` is an array of shape (len(right), n_columns). Sums are in float64.
    """
    X = left.X
    columns = torch.from_numpy(np.ascontiguousarray(coef)).to(X.device, torch.float64)
    found = torch.empty((len(X), coef.shape[1]), dtype=torch.float64, device=X.device)
    n_right = max(1, len(right.length))
    room = int(min(TILE_BYTES, devices.free_bytes(X.device) / 4) / (12 * n_right))
    step = max(1, room // 64) * 64  # tiles begin where the GPU reads fast
    large = on_tensor_cores(X[:step], n_right) and kernel.name in KINDS
    there = loops(X.device, "kernel").halves(right.X) if large else None
    for start in range(0, len(X), step):
        part = DevicePoints(*(field_part(field, start, start + step) for field in left))
        tile = values(kernel, part, right, there=there)
        found[start : start + step] = tile.double() @ columns
    return found.cpu().numpy()


def field_part(field: Any, start: int, stop: int) -> Any:
    """Return some entries of a field that may be missing."""
    return None if field is None else field[start:stop]
