"""Formulas of batches of cells, in the memory of a GPU: names as in `cell`.

Cells of a batch are filled up to one size. What fills them has no copies, and so no say.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from bayespoint._support import devices
from bayespoint._support.types import Array
from bayespoint.gpu.kernels import DevicePoints, laid_out, prepare
from bayespoint.gpu.transfer import to_device
from bayespoint.inference.ep.cells.cell import (
    DAMPING,
    DAMPING_GROWTH,
    FULL_STEPS,
    LEAST_DAMPING,
    MOST_KNOWN,
    MOST_ROUNDING,
    WEAK,
)
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.sites import LEAST_SHARE
from bayespoint.space.kernels import Kernel

# Memory of a batch: bytes for each pair of rows, the share of what is free, and at most so much.
PAIR_BYTES, FEATURE_BYTES, SHARE, MOST_BYTES = 60, 80, 0.25, 8e9

# Triangles of this size are inverted at once, larger ones by halves: products are faster.
INVERTED = 256

_LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


# ---------------------------------------------------------------------------- kernel values


class BatchKernel:
    """Kernel values of batches of rows, in double precision.

    Parameters
    ----------
    kernel : Kernel
        Its layout is fitted.
    X : tensor of shape (m, n_features)
    landmarks : Landmarks, optional
    """

    def __init__(self, kernel: Kernel, X: torch.Tensor, landmarks: Landmarks | None = None):
        self.kernel, self.landmarks = kernel, landmarks
        self.points = self.prepared(X)
        if landmarks is not None:
            self._marks = self.prepared(to_device(landmarks.X, X.device))
            self._projection = to_device(landmarks.projection, X.device)

    def prepared(self, X: torch.Tensor) -> DevicePoints:
        """Return points with what the kernel needs of each."""
        return prepare(self.kernel, laid_out(self.kernel, X.double()))

    def values(self, left: DevicePoints, right: DevicePoints) -> torch.Tensor:
        """Return kernel values of points, or of batches of points."""
        kernel = self.kernel
        if kernel.name == "laplacian":
            found = torch.cdist(left.X, right.X, p=1).mul_(-kernel.width).exp_()
        else:
            found = left.X @ right.X.mT
        if kernel.name == "poly":
            found = (kernel.gamma * found + kernel.coef0) ** kernel.degree
        elif kernel.name == "rbf":
            found = found.mul_(2).sub_(left.squared_norm[..., None])  # type: ignore[index]
            found -= right.squared_norm[..., None, :]  # type: ignore[index]
            found = found.mul_(kernel.width).clamp_(max=0.0).exp_()
        if kernel.bias:
            found += kernel.bias
        if left.scale is not None and right.scale is not None:
            found *= left.scale[..., None]
            found *= right.scale[..., None, :]
        return found

    def features(self, points: DevicePoints) -> torch.Tensor:
        """Return the features that are common to all cells."""
        if self.landmarks is None:
            return points.X.new_zeros((*points.X.shape[:-1], 0))
        return self.values(points, self._marks) @ self._projection

    def own(self, left: DevicePoints, right: DevicePoints, F: Any, G: Any) -> torch.Tensor:
        """Return what features leave over of kernel values."""
        found = self.values(left, right)
        return found - F @ G.mT if F.shape[-1] else found


def route(tree: Any, X: torch.Tensor, root: int | None = None) -> torch.Tensor:
    """Return the number of the cell of each row, as `tree.route`; ``tree`` has nodes as `Tree`."""
    device = X.device
    if root is None:
        root = 0 if len(tree.cuts) else -1
    node = torch.full((len(X),), root, dtype=torch.int64, device=device)
    if not len(tree.cuts):
        return -1 - node
    normals, cuts, children = (
        torch.from_numpy(np.ascontiguousarray(part)).to(device)
        for part in (tree.normals, tree.cuts, tree.children)
    )
    step = max(1, int(MOST_BYTES / 8 / (16 * X.shape[1])))
    for start in range(0, len(X), step):
        part, here = X[start : start + step].double(), node[start : start + step]
        while bool((inner := here >= 0).any()):
            at = here.clamp(min=0)
            right = ((part * normals[at]).sum(dim=1) > cuts[at]).long()
            here = torch.where(inner, children[at, right], here)
        node[start : start + step] = here
    return -1 - node


# ------------------------------------------------------------------------------- one sweep


def rounding_is_felt(C: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    """Whether single precision is too coarse for I + T^1/2 C T^1/2: see `cell.precision`."""
    trace = C.shape[-1] + (tau * C.diagonal(dim1=-2, dim2=-1)).sum(dim=-1)
    return trace * float(np.finfo(np.float32).eps) > MOST_ROUNDING


def factorised(
    C: torch.Tensor, root: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cholesky factors of I + T^1/2 C T^1/2, and numbers other than 0 where there is none."""
    B = C.to(dtype) * (root := root.to(dtype))[..., None]
    B *= root[..., None, :]
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return torch.linalg.cholesky_ex(B)


class BatchFactor:
    """Inverse triangles of I + T^1/2 C T^1/2: see `cell.Factor`."""

    def __init__(self, C: torch.Tensor, tau: torch.Tensor) -> None:
        self.root = tau.sqrt()
        felt = bool(rounding_is_felt(C, tau).any())
        for dtype in (torch.float64,) if felt else (torch.float32, torch.float64):
            lower, failed = factorised(C, self.root, dtype)
            if not bool(failed.any()):
                break
        else:
            raise np.linalg.LinAlgError("the covariance of a cell is not positive definite")
        self.eps = torch.finfo(dtype).eps
        self.log_determinant = lower.diagonal(dim1=-2, dim2=-1).double().log().sum(dim=-1)
        self.inverse = inverse_triangle(lower)

    def half(self, values: torch.Tensor) -> torch.Tensor:
        """Return L^-1 T^1/2 values, of matrices."""
        return self.inverse @ (self.root[..., None] * values).to(self.inverse.dtype)

    def solve(self, values: torch.Tensor) -> torch.Tensor:
        """Return T^1/2 B^-1 T^1/2 values, of vectors or matrices."""
        columns = values[..., None] if values.ndim == self.root.ndim else values
        solved = self.root[..., None] * (self.inverse.mT @ self.half(columns)).double()
        return solved[..., 0] if values.ndim == self.root.ndim else solved


def inverse_triangle(lower: torch.Tensor) -> torch.Tensor:
    """Return the inverses of lower triangles."""
    n = lower.shape[-1]
    if n <= INVERTED:
        eye = torch.eye(n, dtype=lower.dtype, device=lower.device).expand_as(lower)
        return torch.linalg.solve_triangular(lower, eye, upper=False)
    at = -(-n // 128) * 64
    found = torch.zeros_like(lower)
    first, last = (inverse_triangle(lower[..., s, s]) for s in (slice(0, at), slice(at, n)))
    found[..., :at, :at], found[..., at:, at:] = first, last
    found[..., at:, :at] = -last @ (lower[..., at:, :at] @ first)
    return found


class Labels(NamedTuple):
    """As `Likelihood`, of a batch."""

    y: torch.Tensor
    variance: torch.Tensor
    odds: torch.Tensor
    log_right: torch.Tensor
    copies: torch.Tensor

    def take(self, index: torch.Tensor) -> "Labels":
        """Return those of some cells."""
        return Labels(*(field[index] for field in self))

    def next_sites(self, mean: Any, variance: Any, most: Any) -> tuple[Any, Any, Any]:
        """Tau, nu and logs of the labels' probabilities: see `sites.next_sites`."""
        total = variance + self.variance
        z = self.y * mean / total.sqrt()
        log_share = torch.log1p(-torch.exp(-self.odds))
        log_z = torch.logaddexp(-self.odds, log_share + torch.special.log_ndtr(z))
        ratio = torch.exp(log_share - 0.5 * z * z - _LOG_ROOT_2PI - log_z)
        slope, curvature = self.y * ratio / total.sqrt(), -ratio * (z + ratio) / total
        share = (1 + variance * curvature).clamp(min=LEAST_SHARE)
        wanted = -curvature / share
        tau = torch.minimum(wanted.clamp(min=0.0), most)
        nu = (slope - mean * curvature) / share
        nu = torch.where(tau == wanted, nu, slope + tau * (mean + variance * slope))
        return tau, nu, log_z + self.log_right


class BatchState(NamedTuple):
    """As `CellState` and its `CellGaussian`, of a batch."""

    tau: torch.Tensor  # (B, n), as all up to variance
    nu: torch.Tensor
    coef: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor
    eps: torch.Tensor  # (B,), as all that follow
    moved: torch.Tensor
    change: torch.Tensor
    log_evidence: torch.Tensor
    by_sites: torch.Tensor


def combine(C: Any, prior: Any, tau: Any, nu: Any, copies: Any) -> tuple[Any, ...]:
    """Coefficients, means and variances, log-determinant, precision: as `cell.combine`."""
    felt = rounding_is_felt(C, copies * tau)
    if bool(felt.any()) and not bool(felt.all()):  # the others are faster in single precision
        given = (C, prior, tau, nu, copies)
        parts = [combine(*(value[which] for value in given)) for which in (felt, ~felt)]
        found = [felt.new_empty((len(felt), *one.shape[1:]), dtype=one.dtype) for one in parts[0]]
        for kept, some, others in zip(found, *parts, strict=True):
            kept[felt], kept[~felt] = some, others
        return tuple(found)
    tau, nu = copies * tau, copies * nu
    factor = BatchFactor(C, tau)
    pull = nu - tau * prior
    coef = pull - factor.solve((C @ pull[..., None])[..., 0])
    beta = (factor.inverse**2).sum(dim=-2).double()
    diagonal = C.diagonal(dim1=-2, dim2=-1)
    variance = torch.where(tau > 0, (1 - beta) / tau.clamp(min=1e-300), diagonal)
    weak = ~(1 - beta > WEAK) & (copies > 0)
    if bool((cells := weak.any(dim=-1)).any()):
        part = factor.inverse[cells] @ (factor.root[cells][..., None] * C[cells]).to(
            factor.inverse.dtype
        )
        known = diagonal[cells] - (part.double() ** 2).sum(dim=-2)
        variance[cells] = torch.where(weak[cells], known, variance[cells])
    variance = torch.maximum(variance, factor.eps * diagonal)
    mean = prior + (C @ coef[..., None])[..., 0]
    eps = torch.full_like(factor.log_determinant, factor.eps)
    return coef, mean, variance, factor.log_determinant, eps


def cavities(state: Any, tau: Any, nu: Any, left_out: Any, eps: Any) -> tuple[Any, Any]:
    """Means and variances without so many copies of each point's own site."""
    mean, variance = state
    share = torch.maximum(1 - left_out * tau * variance, eps)
    return (mean - variance * left_out * nu) / share, variance / share


def propagate(
    C: Any, prior: Any, labels: Labels, start: Any, *, tol: float, max_sweeps: int,
    damping: Any = None,
) -> BatchState:  # fmt: skip
    """Change the sites of cells until they stay, or for so many sweeps: as `propagate_cell`."""
    n_cells, n = prior.shape
    most = MOST_KNOWN / C.diagonal(dim1=-2, dim2=-1)
    tau, nu = start or labels.next_sites(prior, C.diagonal(dim1=-2, dim2=-1), most)[:2]
    found: Any = [prior.new_zeros((n_cells, n)) for _ in range(5)]
    found += [prior.new_zeros(n_cells) for _ in range(5)]
    at = torch.arange(n_cells, device=prior.device)
    ones, before = (prior.new_full((n_cells,), value) for value in (1.0, np.inf))
    damping, moved = ones if damping is None else damping, before
    for sweep in range(1, max_sweeps + 1):
        coef, mean, variance, log_det, eps = combine(C, prior, tau, nu, labels.copies)
        left_out = labels.copies.clamp(max=1.0)
        cavity = cavities((mean, variance), tau, nu, left_out, eps[:, None])
        *wanted, log_z = labels.next_sites(*cavity, most)
        change = _change(mean, variance, tau, nu, wanted, labels.copies)
        moved = change if sweep == 1 else moved
        rest = change <= tol if sweep < max_sweeps else torch.ones_like(change, dtype=torch.bool)
        if bool(rest.any()):
            by_sites = _by_sites(tau, nu, labels.copies, log_z, *cavity)
            integral = _log_integral(mean, prior, tau, nu, labels.copies) - log_det
            told = (tau, nu, coef, mean, variance, eps, moved, change)
            for kept, now in zip(found, (*told, by_sites + integral, by_sites), strict=True):
                kept[at[rest]] = now[rest]
            if bool(rest.all()):
                break
        growing = change > before
        shorter = (damping / 2).clamp(min=LEAST_DAMPING)
        longer = (damping * DAMPING_GROWTH).clamp(max=1.0) if sweep > FULL_STEPS else damping
        damping = torch.where(growing, shorter, longer)
        damping = damping.clamp(max=DAMPING) if sweep == FULL_STEPS else damping
        before = change
        tau, nu = (o + damping[:, None] * (p - o) for o, p in zip((tau, nu), wanted, strict=True))
        if bool(rest.any()):
            on = ~rest
            C, prior, labels, at, most = C[on], prior[on], labels.take(on), at[on], most[on]
            tau, nu, damping, before, moved = (v[on] for v in (tau, nu, damping, before, moved))
    return BatchState(*found)


def _change(mean: Any, variance: Any, tau: Any, nu: Any, wanted: Any, copies: Any) -> Any:
    tau, nu = wanted[0] - tau, wanted[1] - nu
    spread, shift = tau.abs() * variance, (nu - tau * mean).abs() * variance.sqrt()
    return torch.where(copies > 0, torch.maximum(spread, shift), 0.0).amax(dim=-1)


def _log_integral(mean: Any, prior: Any, tau: Any, nu: Any, copies: Any) -> Any:
    tau, nu = copies * tau, copies * nu
    each = nu * prior - 0.5 * tau * prior**2 + 0.5 * (nu - tau * prior) * (mean - prior)
    return each.sum(dim=-1)


def _by_sites(tau: Any, nu: Any, copies: Any, log_z: Any, mean: Any, variance: Any) -> Any:
    spread = 1 + tau * variance
    own = nu * (mean + 0.5 * variance * nu) - 0.5 * tau * mean**2
    each = log_z - own / spread + 0.5 * torch.log(spread)
    return torch.where(copies > 0, copies * each, 0.0).sum(dim=-1)


# ------------------------------------------------------------------------ cells of a tree


def padded(cells: list[Array], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of cells, filled up to one size with the first of them, and which are there."""
    size = max(map(len, cells))
    rows = np.stack([np.append(rows, np.repeat(rows[:1], size - len(rows))) for rows in cells])
    there = np.arange(size) < np.array([len(rows) for rows in cells])[:, None]
    return torch.from_numpy(rows).to(device), torch.from_numpy(there).to(device)


def batches(
    sizes: Array, n_common: int, device: torch.device, n_machines: int = 1
) -> Iterator[Array]:
    """Numbers of cells that are not empty, those of like sizes together, as memory allows.

    ``n_machines``: of each cell, at a time.
    """
    order = np.argsort(sizes, kind="stable")[::-1]
    order = order[sizes[order] > 0]
    room = min(MOST_BYTES, SHARE * devices.free_bytes(device))
    first = 0
    while first < len(order):
        n = int(sizes[order[first]])
        needed = n_machines * (PAIR_BYTES * n**2 + FEATURE_BYTES * n * n_common + 1)
        fitting = int(room / needed)
        yield order[first : first + max(fitting, 1)]
        first += max(fitting, 1)
