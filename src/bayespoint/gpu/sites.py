"""Sweeps of expectation propagation on a GPU: factor and inverse; the rest as on the CPU."""

import numpy as np
import torch

from bayespoint._support.devices import check_room
from bayespoint.space.blocks import Block

# Matrices that sweeps hold beside one factor per machine: K, the factor of the sites before and of
# those now, and what the inverse is solved from and with.
MATRICES = 5


class DeviceBlocks:
    """What factorises B = I + T^1/2 K T^1/2 for `ep.sites.propagate`, in float64.

    Parameters
    ----------
    K : tensor of shape (m, m)
        The Gram matrix, as `ep.sites.propagate` has it on the host.
    n_machines : int
    """

    def __init__(self, K, n_machines):
        needed = 8 * (MATRICES + n_machines)
        check_room(K.device, len(K), needed, "inference='ep'", "inference='perceptron'")
        self._K = K.double()

    def make(self, K, many, root):
        """As `blocks.Block.make`; ``K`` on the host says only how many points there are."""
        index = torch.from_numpy(many).to(self._K.device)
        scale = torch.from_numpy(root).to(self._K.device)
        B = self._K.clone() if len(many) == len(K) else self._K[index][:, index]
        B *= scale
        B *= scale[:, None]
        B.diagonal().add_(1.0)
        lower, failed = torch.linalg.cholesky_ex(B)
        return None if int(failed) else DeviceBlock(lower)


class DeviceBlock:
    """Factor of one B, as `blocks.Block`."""

    def __init__(self, lower):
        self._lower = lower
        self._held: np.ndarray | None = None

    def __reduce__(self):
        """Pickle as the block on the host, which needs no PyTorch."""
        return Block, (self.lower,)

    @property
    def lower(self):
        """Cholesky factor, as an array."""
        if self._held is None:
            self._held = self._lower.cpu().numpy()
        return self._held

    def sweep(self, values):
        """As `blocks.Block.sweep`."""
        right = torch.from_numpy(np.ascontiguousarray(values)).to(self._lower.device)
        inverse = self._inverse()
        half = inverse @ right
        solved, diagonal = half @ inverse, (inverse * inverse).sum(dim=0)
        determinant = torch.log(self._lower.diagonal()).sum()
        return *(x.cpu().numpy() for x in (half, solved, diagonal)), float(determinant)

    def inverse_triangle(self):
        """Return the inverse of the factor, as an array."""
        return self._inverse().cpu().numpy()

    def _inverse(self):
        eye = torch.eye(len(self._lower), dtype=self._lower.dtype, device=self._lower.device)
        return torch.linalg.solve_triangular(self._lower, eye, upper=False)
