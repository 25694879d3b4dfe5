"""Kernels, rows and outputs of a classifier that was placed on a GPU."""

from typing import Any

import numpy as np
import torch

from bayespoint.devices import DeviceError, free_bytes, is_tensor
from bayespoint.gpu.billiards import DeviceBalls, n_chains
from bayespoint.gpu.factor import DeviceFactor
from bayespoint.gpu.gram import STORE_SHARE, DevicePoints, DeviceRows, apply_kernel, prepare
from bayespoint.gpu.perceptrons import RUNS_IN_FLIGHT, DeviceWave
from bayespoint.gpu.points import DeviceData, to_device
from bayespoint.gpu.sites import DeviceBlocks
from bayespoint.kernels import DISTANCE_TOLERANCE


def fit_layout(kernel, data):
    """Choose centre and precision from the training points: see `Kernel.fit_layout`."""
    if not kernel.uses_products:
        return kernel
    kernel.layout_ = "dense"
    if kernel.name == "rbf":
        centre = data.tensor.mean(dim=0, dtype=torch.float64).to(data.tensor.dtype)
        kernel.center_ = centre.cpu().numpy()
        if data.tensor.dtype == torch.float32:
            squared = float(((data.tensor - centre) ** 2).sum(dim=1).max())
            if kernel.gamma * squared * np.finfo(np.float32).eps > DISTANCE_TOLERANCE:
                kernel.layout_ += ", double"
    return kernel


def laid_out(kernel, tensor):
    """Return points in the precision of the kernel, about its centre."""
    if kernel.layout_ is None:
        return tensor
    if kernel.layout_.endswith("double"):
        tensor = tensor.double()
    if kernel.center_ is None:
        return tensor
    return tensor - torch.from_numpy(kernel.center_).to(tensor.device, tensor.dtype)


def rows_of(kernel, data, device):
    """Return the rows of the Gram matrix of training data."""
    if not isinstance(data, DeviceData):
        data = DeviceData(data, device)
    gram = data.tensor if kernel.name == "precomputed" else None
    X = data.tensor if gram is not None else laid_out(kernel, data.tensor)
    points = prepare(kernel, X, None if gram is None else gram.diagonal())
    if gram is not None:
        gram = _normalised(kernel, gram, points)
    memory = int(STORE_SHARE * free_bytes(device))
    _check_memory(len(points.length), X, memory)
    return PlacedRows(kernel, points, memory=memory, gram=gram)


class PlacedRows(DeviceRows):
    """Rows with what the methods make of them on a GPU."""

    make_wave, runs_in_flight = DeviceWave, RUNS_IN_FLIGHT
    make_balls, n_chains = DeviceBalls, staticmethod(n_chains)

    def factorise(self, softness):
        """Return the factor of the Gram matrix with this softness."""
        return DeviceFactor(self, softness)

    def site_blocks(self):
        """Return what factorises for expectation propagation."""
        self.need_whole()
        return DeviceBlocks(self.store).make

    def part(self, index):
        """Return the rows of some of the points."""
        chosen = torch.from_numpy(np.asarray(index)).to(self.device)
        gram = None if self._gram is None else self._gram[chosen][:, chosen]
        points = self.points.take(chosen)
        return PlacedRows(self.kernel, points, memory=self.cache_bytes, gram=gram)


def _normalised(kernel, gram, points):
    gram = gram + kernel.bias
    if points.scale is not None:
        gram = gram * points.scale[:, None] * points.scale
    return (gram + gram.T) / 2


def _check_memory(n_points, X, memory):
    """Say how many points would fit where not even a few rows do."""
    least = 64
    row = n_points * X.element_size()
    if memory < least * row:
        raise DeviceError(
            f"device='cuda': {n_points} points need {least * row / 1e6:.0f} MB for kernel rows "
            f"beside the data, and the GPU has {memory / 1e6:.0f} MB free; about "
            f"{memory // (least * X.element_size())} points would fit. Free memory, use float32 "
            f"or fewer points, or device='cpu'."
        )


def outputs(kernel, X, support, coef, device):
    """Outputs of machines (rows of ``coef`` over the support points) at X, as an array.

    Divided by the length of each point in feature space where the kernel is not normalised.
    """
    dtype = getattr(torch, str(support.X.dtype))
    fields: Any = [None if f is None else to_device(f, device) for f in vars(support).values()]
    right = DevicePoints(*fields)
    X = to_device(X, device).to(dtype)
    if not bool(torch.isfinite(X).all()):
        kind = support.X.dtype
        raise ValueError(f"X has values too large for the {kind} that the model was fitted in.")
    left = prepare(kernel, laid_out(kernel, X))
    found = apply_kernel(kernel, left, right, coef.T)
    if not kernel.normalize:
        length = left.length.double().cpu().numpy()
        found /= np.where(length > 0, length, 1.0)[:, None]
    return found


def checked_tensor(X, n_features=None):
    """Check a tensor as scikit-learn checks arrays; return it in float32 or float64."""
    if not is_tensor(X) or X.ndim != 2:
        raise ValueError(f"X must be a tensor of two dimensions; got {X.ndim}.")
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but BayesPointClassifier is expecting {n_features} "
            f"features as input."
        )
    if X.dtype not in (torch.float32, torch.float64):
        X = X.float()
    if not bool(torch.isfinite(X).all()):
        raise ValueError("Input X contains NaN or infinity.")
    return X.detach()
