"""Widths learnt on all cells at once, in the memory of a GPU: the formulas are those of `widths`.

Imported by `bayespoint.inference.engines` where rows are on a GPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bayespoint._support.types import Array
from bayespoint.gpu.kernels import exact_products
from bayespoint.gpu.transfer import to_device
from bayespoint.inference.ep.cells.batches import (
    Labels,
    batches,
    cavities,
    factorised,
    inverse_triangle,
    padded,
    propagate,
    rounding_is_felt,
)
from bayespoint.inference.ep.cells.cell import MOST_KNOWN
from bayespoint.inference.ep.widths import AT_REST, DAMPING, FIRST_SWEEPS, LEAST_TAU, WidthCell
from bayespoint.space.kernels import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class DeviceCells:
    """Cells in batches, as memory allows: nearly always one of all cells."""

    batches: "list[WidthBatch]"

    @classmethod
    def of(cls, cells: Sequence[WidthCell], device: torch.device) -> "DeviceCells":
        """Put cells there."""
        sizes, n_machines = np.array([len(cell.X) for cell in cells]), len(cells[0].likelihoods)
        numbers = batches(sizes, 0, device, n_machines)
        return cls([WidthBatch.of([cells[i] for i in some], device) for some in numbers])

    def slopes(self, widths: Array, kernel: Kernel, sweeps: int = 1) -> Array:
        """Sweep all machines of all cells: as `WidthCell.slopes`, the sum."""
        return np.sum([batch.slopes(widths, kernel, sweeps) for batch in self.batches], axis=0)

    def gains(self, widths: Array, others: Array, kernel: Kernel) -> Array:
        """As `WidthCell.gains`, the sum."""
        return np.sum([batch.gains(widths, others, kernel) for batch in self.batches], axis=0)

    def log_evidence(self, widths: Array, kernel: Kernel) -> float:
        """Sum over machines and cells, with the sites as they are after some more sweeps."""
        return sum(batch.log_evidence(widths, kernel) for batch in self.batches)

    def fresh(self) -> "DeviceCells":
        """Return the same cells without sites."""
        return DeviceCells([replace(batch, sites=None) for batch in self.batches])


@dataclass(eq=False, repr=False)
class WidthBatch:
    """Cells that are filled up to one size: as `WidthCell`.

    Attributes
    ----------
    X : tensor of shape (n_cells, n, n_features)
    labels : Labels
        Of shape (n_cells, n_machines, n); what fills cells has no copies, and so no say.
    sites : tau and nu of that shape, or None
        As the last sweep left them.
    dtype : torch.dtype
        Double precision from where single was too coarse.
    """

    X: torch.Tensor
    labels: Labels
    sites: Any = None
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, cells: Sequence[WidthCell], device: torch.device) -> "WidthBatch":
        """Put cells there."""
        ends = np.cumsum([len(cell.X) for cell in cells])
        rows, there = padded(np.split(np.arange(ends[-1]), ends[:-1]), device)
        X = to_device(np.concatenate([cell.X for cell in cells]), device)
        # Of machines, fields and the rows of all cells.
        fields = np.concatenate(
            [[np.broadcast_arrays(*one) for one in cell.likelihoods] for cell in cells], axis=-1
        )
        labels = Labels(*to_device(fields, device)[..., rows].movedim(1, 0).transpose(1, 2))
        return cls(X[rows], labels._replace(copies=labels.copies * there[:, None]))

    @exact_products()
    def slopes(self, widths: Array, kernel: Kernel, sweeps: int = 1) -> Array:
        """Sweep all machines, and return the slopes of their log evidence in log widths.

        What the host waits for comes in one piece: slopes, and whether they are to be trusted.
        """

        def told(Z: torch.Tensor, N: torch.Tensor) -> torch.Tensor:
            return -0.5 * distance_sums(kernel.name, Z, N)

        return self._trusted(told, widths, kernel, sweeps)

    @exact_products()
    def gains(self, widths: Array, others: Array, kernel: Kernel) -> Array:
        """As `WidthCell.gains`."""
        wider = to_device(widths - others, self.X.device)

        def told(_: torch.Tensor, N: torch.Tensor) -> torch.Tensor:
            found = torch.zeros_like(wider)
            for j in np.flatnonzero(widths != others):
                x = self.X[..., j]
                away = (x[:, :, None] - x[:, None]).abs_()
                away = away if kernel.name == "laplacian" else away.square_()
                away = away.to(N.dtype).mul_(wider[j]).expm1_()
                found[j] = 0.5 * away.mul_(N).sum(dtype=torch.float64)
            return found

        return self._trusted(told, widths, kernel, 1)

    def _trusted(
        self, told: Callable[..., torch.Tensor], widths: Array, kernel: Kernel, sweeps: int
    ) -> Array:
        """Sweep all machines, and return ``told(Z, N)``, in a precision that is enough."""
        for dtype in (self.dtype, torch.float64):
            Z, N, sites, coarse = self._swept(widths, kernel, sweeps, dtype)
            found = torch.cat([told(Z, N), coarse[None]]).cpu().numpy()
            if not found[-1]:
                self.sites, self.dtype = sites, dtype
                return found[:-1]
        raise np.linalg.LinAlgError("the covariance of a cell is not positive definite")

    def _swept(self, widths: Array, kernel: Kernel, sweeps: int, dtype: Any) -> tuple[Any, ...]:
        """Rows, all widths one, M times what changes with widths, the sites after so many sweeps.

        And whether precision was too coarse.
        """
        Z = self._scaled(widths, kernel, dtype)
        values = kernel_values(kernel.name, Z)
        K = _prior(values, kernel)
        diagonal = K.diagonal(dim1=-2, dim2=-1).double()[:, None]
        most, nothing = MOST_KNOWN / diagonal, torch.zeros_like(self.labels.y)
        (tau, nu), step = self.sites or (None, None), DAMPING
        if tau is None:
            (tau, nu, _), step = self.labels.next_sites(nothing, diagonal, most), 1.0
        coarse = torch.zeros_like(diagonal[0, 0, 0])
        for _ in range(sweeps):
            coef, half, mean, variance, bad = _combine(K, tau, nu, self.labels.copies, diagonal)
            coarse += bad
            left_out = self.labels.copies.clamp(max=1.0)
            eps = torch.full_like(diagonal, torch.finfo(dtype).eps)
            cavity = cavities((mean, variance), tau, nu, left_out, eps)
            *wanted, _ = self.labels.next_sites(*cavity, most)
            tau, nu = (o + step * (w - o) for o, w in zip((tau, nu), wanted, strict=True))
            step = DAMPING
        # Sums over machines: of b b', and of the inverses U'U.
        half = half.flatten(1, 2)
        N = torch.baddbmm(coef.mT @ coef, half.mT, half, alpha=-1).mul_(values)
        return Z, N.mul_(_share(kernel)), (tau, nu), coarse

    @exact_products()
    def log_evidence(self, widths: Array, kernel: Kernel) -> float:
        """Sum over machines and cells, with the sites as they are after some more sweeps."""
        K = _prior(kernel_values(kernel.name, self._scaled(widths, kernel, torch.float64)), kernel)
        K = K.repeat_interleave(self.labels.y.shape[1], dim=0)
        labels = Labels(*(field.flatten(0, 1) for field in self.labels))
        start = None if self.sites is None else [site.flatten(0, 1) for site in self.sites]
        nothing = torch.zeros_like(labels.y)
        state = propagate(K, nothing, labels, start, tol=AT_REST, max_sweeps=FIRST_SWEEPS)
        return float(state.log_evidence.sum())

    def _scaled(self, widths: Array, kernel: Kernel, dtype: torch.dtype) -> torch.Tensor:
        """Rows in which all widths are one."""
        scale = widths if kernel.name == "laplacian" else np.sqrt(widths)
        return self.X.to(dtype) * to_device(scale, self.X.device).to(dtype)


def _share(kernel: Kernel) -> float:
    return 1 / (1 + kernel.bias) if kernel.normalize else 1.0


def _prior(values: torch.Tensor, kernel: Kernel) -> torch.Tensor:
    return (values + kernel.bias) * _share(kernel)


def _combine(K: Any, tau: Any, nu: Any, copies: Any, diagonal: Any) -> tuple[Any, ...]:
    """Coefficients, U with U'U = (K + T^-1)^-1, means, variances; whether precision is too coarse.

    Of all machines: K is that of cells.
    """
    tau, nu, dtype = copies * tau, copies * nu, K.dtype
    root = tau.sqrt()
    lower, failed = factorised(K[:, None], root, dtype)
    inverse = inverse_triangle(lower)
    half = inverse * root.to(dtype)[..., None, :]
    means = (nu / tau.clamp(min=LEAST_TAU)).to(dtype)
    coef = (half.mT @ (half @ means[..., None]))[..., 0]
    beta = (inverse**2).sum(dim=-2).double()
    variance = torch.where(tau > 0, (1 - beta) / tau.clamp(min=1e-300), diagonal)
    variance = torch.clamp(variance, torch.finfo(dtype).eps * diagonal, diagonal)
    bad = failed.any()
    if dtype == torch.float32:
        bad = bad | rounding_is_felt(K[:, None], tau).any()
    return coef, half, (coef @ K).double(), variance, bad


def kernel_values(name: str, Z: torch.Tensor) -> torch.Tensor:
    """Return k of all pairs of rows of each cell, all widths one."""
    if name == "laplacian":
        return torch.cdist(Z, Z, p=1).neg_().exp_()
    squared = (Z * Z).sum(dim=-1)
    found = (Z @ Z.mT).mul_(2).sub_(squared[..., None]).sub_(squared[..., None, :])
    return found.clamp_(max=0.0).exp_()


def distance_sums(name: str, Z: torch.Tensor, N: torch.Tensor) -> torch.Tensor:
    """Sums of N times each column's part of the distances, over all cells."""
    if name == "laplacian":
        columns = ((z[:, :, None] - z[:, None]).abs_() for z in Z.unbind(-1))
        return torch.stack([away.mul_(N).sum(dtype=torch.float64) for away in columns])
    found = Z * N.sum(dim=-1, keepdim=True) - N @ Z
    return 2 * (Z * found).sum(dim=(0, 1), dtype=torch.float64)
