"""Cells that widths are learnt on: of uneven sizes, for the host and for a device."""

import numpy as np

from bayespoint._support.threads import Threads
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.widths import HostCells, WidthCell
from bayespoint.space.kernels import Kernel

WIDTHS = np.array([0.5, 0.3, 0.2, 0.1, 0.3])
KERNELS = [
    Kernel("rbf", bias=0.7), Kernel("laplacian", bias=0.7),
    Kernel("rbf", bias=0.2, normalize=False),
]  # fmt: skip


def cells_of(sizes=(40, 90, 61), *, softness=0.05, noise=0.0, n_machines=3, seed=0):
    """Cells whose rows have weights, and labels that the first two columns decide."""
    rng = np.random.default_rng(seed)
    return [_cell(rng, n, softness, noise, n_machines) for n in sizes]


def _cell(rng, n, softness, noise, n_machines):
    X = rng.standard_normal((n, len(WIDTHS))).astype(np.float32)
    angle = np.arctan2(X[:, 0], X[:, 1]) + 0.2 * rng.standard_normal(n)
    own = np.floor(angle / (2 * np.pi) * n_machines) % n_machines
    copies = rng.choice([0.4, 1.0, 3.0], n)
    odds, right = np.full(n, -np.log(noise) if noise else np.inf), np.full(n, np.log1p(-noise))
    return WidthCell(X, [
        Likelihood(np.where(own == k, 1.0, -1.0), np.full(n, softness), odds, right, copies)
        for k in range(n_machines)
    ])  # fmt: skip


def both(cells, device):
    """The same cells on the host and on a device."""
    from bayespoint.inference.ep.widths_on_device import DeviceCells

    host = HostCells([WidthCell(cell.X, cell.likelihoods) for cell in cells], Threads(1))
    return host, DeviceCells.of(cells, device)
