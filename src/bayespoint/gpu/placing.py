"""Kernels, rows and outputs of a classifier that was placed on a GPU."""

import weakref
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import assert_all_finite

from bayespoint._support.devices import DeviceError, check_room, free_bytes, is_tensor
from bayespoint.gpu.billiards import DeviceBalls, n_chains
from bayespoint.gpu.factor import DeviceFactor
from bayespoint.gpu.inputs import DeviceData, shared, to_device
from bayespoint.gpu.perceptrons import RUNS_IN_FLIGHT, DeviceWave
from bayespoint.gpu.rows import STORE_SHARE, DevicePoints, DeviceRows, apply_kernel, prepare
from bayespoint.gpu.sites import DeviceBlocks
from bayespoint.space.kernels import BLOCK_ROWS, DISTANCE_TOLERANCE, Points
from bayespoint.space.rows import CAUCHY_SCHWARZ_SLACK, FullRows, all_rows, no_inner_products
from bayespoint.space.version_space import VersionSpace

# A given Gram matrix is on the device as it came, normalised, and transposed for a moment.
GRAM_COPIES = 3


def fit_layout(kernel, data):
    """Choose centre and precision from the training points: see `Kernel.fit_layout`."""
    if not kernel.uses_products:
        return kernel
    kernel.layout_ = "dense"
    if kernel.name == "rbf":
        centre = data.tensor.mean(dim=0, dtype=torch.float64).to(data.tensor.dtype)
        kernel.center_ = centre.cpu().numpy()
        if data.tensor.dtype == torch.float32:
            squared = float((data.tensor - centre).square_().sum(dim=1).max())
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
    return tensor - shared(kernel.center_).to(tensor.device, tensor.dtype)


def rows_of(kernel, data, device):
    """Return the rows of the Gram matrix of training data."""
    gram = None
    if kernel.name == "precomputed":
        room = GRAM_COPIES * data.dtype.itemsize
        check_room(device, len(data), room, "the given Gram matrix", "float32")
        X = to_device(data, device)
        points = prepare(kernel, X, X.diagonal())
        gram = _normalised(kernel, X, points)
        _check_inner_products(gram, points.length)
        points = points._replace(X=gram)  # whose memory serves twice
    else:
        tensor = data.tensor if isinstance(data, DeviceData) else to_device(data, device)
        X = laid_out(kernel, tensor)
        points = prepare(kernel, X)
    if isinstance(data, DeviceData):
        data.give_room()
    memory = int(STORE_SHARE * free_bytes(device))
    if gram is not None:
        return PlacedRows(kernel, points, memory=max(memory, gram.nbytes), gram=gram)
    _check_memory(len(points.length), X, memory)
    return PlacedRows(kernel, points, memory=memory)


def placed_space(space, device):
    """Return a version space with its Gram matrix in the memory of a GPU.

    Parameters
    ----------
    space : VersionSpace
    device : torch.device
    """
    K = space.rows.store if isinstance(space.rows, FullRows) else all_rows(space.rows)
    check_room(device, len(K), K.itemsize, "the Gram matrix", "float32")
    gram = to_device(K, device)
    points = DevicePoints(gram, None, None, torch.sqrt(gram.diagonal()))
    memory = max(int(STORE_SHARE * free_bytes(device)), gram.nbytes)  # which is there already
    rows = PlacedRows(None, points, memory=memory, gram=gram)
    rows.diagonal = space.rows.diagonal
    return VersionSpace(rows, space.y, space.softness)


class PlacedRows(DeviceRows):
    """Rows with what the methods make of them on a GPU."""

    make_wave, runs_in_flight = DeviceWave, RUNS_IN_FLIGHT
    make_balls, n_chains = DeviceBalls, staticmethod(n_chains)

    def factorise(self, softness, stop=None):
        """Return the factor of the Gram matrix with this softness: see `factor.Factor`."""
        factor = DeviceFactor(self, softness)
        if stop is not None and stop():
            raise KeyboardInterrupt
        return factor

    def site_blocks(self, n_machines):
        """Return what factorises for expectation propagation."""
        self.need_whole()
        return DeviceBlocks(self.store, n_machines).make

    def part(self, index):
        """Return the rows of some of the points."""
        chosen = torch.from_numpy(np.asarray(index)).to(self.device)
        gram = None if self._gram is None else self._gram[chosen][:, chosen]
        points = self.points.take(chosen)
        return PlacedRows(self.kernel, points, memory=self.cache_bytes, gram=gram)


def _normalised(kernel, gram, points):
    gram = gram + kernel.bias
    if points.scale is not None:
        gram *= points.scale[:, None]
        gram *= points.scale
    return (gram + gram.T).div_(2)


def _check_inner_products(gram, length):
    """Hold a Gram matrix that came from outside to the Cauchy-Schwarz inequality."""
    most = (1 + CAUCHY_SCHWARZ_SLACK) * length
    parts = zip(gram.split(BLOCK_ROWS), length.split(BLOCK_ROWS), strict=True)
    wrong = torch.cat([(part.abs() > most * own[:, None]).any(dim=1) for part, own in parts])
    if bool(wrong.any()):
        raise no_inner_products(wrong.cpu().numpy())


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


# Support points that are on a GPU, by the number of their array on the host, while that lives.
_PLACED: dict[int, DevicePoints] = {}


def _placed(support, device):
    """Support points of a model on the device, copied there once."""
    found = _PLACED.get(id(support.X))
    if found is None or found.X.device != device:
        fields: Any = [None if f is None else to_device(f, device) for f in vars(support).values()]
        found = _stay(support.X, DevicePoints(*fields))
    return found


def _stay(X, points):
    if id(X) not in _PLACED:
        weakref.finalize(X, _PLACED.pop, id(X), None)
    _PLACED[id(X)] = points
    return points


def kept_points(kernel, support_vectors, points, used):
    """Support points as a model keeps them, from all points on the device."""
    chosen = points.take(torch.from_numpy(used).to(points.X.device))
    X = laid_out(kernel, shared(np.ascontiguousarray(support_vectors))).numpy()
    _stay(X, chosen)
    fields: Any = [None if field is None else field.cpu().numpy() for field in chosen[1:]]
    return Points(X, *fields)


@lru_cache
def _other_stream(device):
    """Return the stream of a device for what is done beside; its memory is used again."""
    return torch.cuda.Stream(device)


def in_another_stream(work, device):
    """Return ``work`` for another thread, whose kernels need not wait for those of this one."""
    if device.type != "cuda":
        return work
    stream = _other_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))

    def beside(*args):
        with torch.cuda.stream(stream):
            found = work(*args)
            stream.synchronize()
        return found

    return beside


def outputs(kernel, X, support, coef, device):
    """Outputs of machines (rows of ``coef`` over the support points) at X, as an array.

    Divided by the length of each point in feature space where the kernel is not normalised.
    """
    right = _placed(support, device)
    given, X = X, to_device(X, device).to(right.X.dtype)
    if not bool(torch.isfinite(X).all()):
        if not is_tensor(given):
            assert_all_finite(given.data if sp.issparse(given) else given, input_name="X")
        kind = support.X.dtype
        raise ValueError(f"X has values too large for the {kind} that the model was fitted in.")
    left = prepare(kernel, laid_out(kernel, X))
    found = apply_kernel(kernel, left, right, coef.T.copy())  # the model's may be read-only
    if not kernel.normalize:
        length = left.length.double().cpu().numpy()
        found /= np.where(length > 0, length, 1.0)[:, None]
    return found


def checked_tensor(X, n_features=None):
    """Check a tensor as scikit-learn checks arrays; return it in float32 or float64."""
    if X.ndim != 2:
        raise ValueError(f"X must be a tensor of two dimensions; got {X.ndim}.")
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but BayesPointClassifier is expecting {n_features} "
            f"features as input."
        )
    if X.is_complex():
        raise ValueError("Complex data not supported: X is a tensor of complex numbers.")
    if X.dtype not in (torch.float32, torch.float64):
        X = X.float()
    if not bool(torch.isfinite(X).all()):
        raise ValueError("Input X contains NaN or infinity.")
    return X.detach()
