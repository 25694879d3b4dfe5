"""Cholesky factor of the Gram matrix in the memory of a GPU."""

import numpy as np
import torch

from bayespoint._support import devices
from bayespoint.gpu.kernels import exact_products
from bayespoint.gpu.rows import too_large
from bayespoint.space.factor import RANK_TOLERANCE, RANK_ULPS, Factor

# Columns of the inverse that are held together.
COLUMNS = 2048


class DeviceFactor:
    """Factor K = L Lᵀ of a Gram matrix of full rank, as `factor.Factor`.

    Parameters
    ----------
    rows : DeviceRows
        All rows fit.
    softness : ndarray of shape (m,) or float
        Share of the diagonal that softness adds.
    """

    def __init__(self, rows, softness):
        rows.need_whole()
        ridge = torch.from_numpy(np.asarray(softness * rows.diagonal, dtype=np.float64))
        self._lower = _cholesky(rows.store, ridge.to(rows.device))
        self.rank = len(rows)
        self.basis = np.arange(self.rank)

    def __reduce__(self):
        """Pickle as the factor on the host, which needs no PyTorch."""
        return Factor.from_triangle, (self._host(self._lower),)

    def release(self):
        """Nothing to let go of."""

    @exact_products()
    def solve(self, white):
        """Coefficients of vectors given by white coordinates, one per row of a tensor."""
        right = white.to(self._lower.dtype).T
        return torch.linalg.solve_triangular(self._lower.T, right, upper=True).T

    @exact_products()
    def outputs(self, white):
        """Outputs at all points of vectors given by white coordinates, one per row."""
        return self._host(self._device(white) @ self._lower.T)

    def coefficients(self, white):
        """Coefficients of vectors given by white coordinates, one per row."""
        return self._host(self.solve(self._device(white)))

    @exact_products()
    def white(self, outputs):
        """White coordinates of vectors, from their outputs at all points."""
        right = self._device(outputs).T
        return self._host(torch.linalg.solve_triangular(self._lower, right, upper=False).T)

    @exact_products()
    def precision(self, whitener=None):
        """Diagonal of the inverse of the Gram matrix."""
        if whitener is not None:
            return np.einsum("ij,ij->j", whitener, whitener)
        total = np.empty(self.rank)
        for start in range(0, self.rank, COLUMNS):
            # Columns of the inverse of L vanish above the diagonal.
            n = self.rank - start
            right = torch.zeros(
                (n, min(COLUMNS, n)), dtype=self._lower.dtype, device=self._lower.device
            )
            right.fill_diagonal_(1.0)
            part = torch.linalg.solve_triangular(self._lower[start:, start:], right, upper=False)
            total[start : start + COLUMNS] = self._host((part.double() ** 2).sum(dim=0))
        return total

    @exact_products()
    def whitener(self):
        """Matrix P with kᵀ K⁻¹ k = ||P k||² for the kernel values k of a new point."""
        eye = torch.eye(self.rank, dtype=self._lower.dtype, device=self._lower.device)
        return self._host(torch.linalg.solve_triangular(self._lower, eye, upper=False))

    def _device(self, array):
        return torch.from_numpy(np.ascontiguousarray(array)).to(
            self._lower.device, self._lower.dtype
        )

    @staticmethod
    def _host(tensor):
        return tensor.cpu().double().numpy()


@exact_products()
def _cholesky(gram, ridge):
    """Lower factor in the precision of the matrix; where that is too coarse, by way of float64."""
    diagonal = gram.diagonal().double() + ridge
    rounding = RANK_ULPS * np.sqrt(len(gram)) * torch.finfo(gram.dtype).eps
    share = float((ridge / diagonal.clamp(min=1e-300)).min())  # what softness leaves, at least
    least = min(max(RANK_TOLERANCE, rounding), share / 2 or np.inf)
    for kind in dict.fromkeys((gram.dtype, torch.float64)):
        needed = 2 * gram.numel() * torch.finfo(kind).bits // 8
        if needed > devices.free_bytes(gram.device):
            if kind == gram.dtype:
                raise too_large(gram.device, len(gram), gram.element_size())
            raise ValueError(
                f"device='cuda': the Gram matrix is singular to rounding in float32, and its "
                f"factor in float64 needs {needed / 1e6:.0f} MB more than the GPU has free. Set "
                f"softness > 0, use fewer points, or device='cpu'."
            )
        softened = gram.to(kind, copy=True)
        softened.diagonal().copy_(diagonal)
        lower, failed = torch.linalg.cholesky_ex(softened)
        del softened
        left = float((lower.diagonal().double() ** 2 / diagonal).min())
        if not int(failed) and left > least:
            return lower.to(gram.dtype)
    raise ValueError(
        "device='cuda': the Gram matrix is singular to rounding, so that its factor cannot be "
        "computed on the GPU. Set softness > 0, pass float64 data, or use device='cpu'."
    )
