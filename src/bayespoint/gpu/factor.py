"""Cholesky factor of the Gram matrix in the memory of a GPU."""

import numpy as np
import torch

from bayespoint.devices import DeviceError, free_bytes

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
        if not rows.whole:
            raise DeviceError(
                f"device='cuda': the Gram matrix of {len(rows)} points does not fit beside its "
                f"factor; {int(np.sqrt(rows.cache_bytes / rows.dtype.itemsize))} points would. "
                f"Use inference='perceptron', float32, or fewer points."
            )
        rows.ensure(())
        ridge = torch.from_numpy(np.asarray(softness * rows.diagonal, dtype=np.float64))
        self._lower = _cholesky(rows.store, ridge.to(rows.device))
        self.rank = len(rows)
        self.basis = np.arange(self.rank)

    def release(self):
        """Nothing to let go of."""

    def solve(self, white):
        """Coefficients of vectors given by white coordinates, one a row of a tensor."""
        right = white.to(self._lower.dtype).T
        return torch.linalg.solve_triangular(self._lower.T, right, upper=True).T

    def outputs(self, white):
        """Outputs at all points of vectors given by white coordinates, one a row."""
        return self._host(self._device(white) @ self._lower.T)

    def coefficients(self, white):
        """Coefficients of vectors given by white coordinates, one a row."""
        return self._host(self.solve(self._device(white)))

    def white(self, outputs):
        """White coordinates of vectors, from their outputs at all points."""
        right = self._device(outputs).T
        return self._host(torch.linalg.solve_triangular(self._lower, right, upper=False).T)

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
        return tensor.double().cpu().numpy()


def _cholesky(gram, ridge):
    """Lower factor in the precision of the matrix; where that fails, by way of float64."""
    for kind in dict.fromkeys((gram.dtype, torch.float64)):
        needed = 2 * gram.numel() * torch.finfo(kind).bits // 8
        if needed > free_bytes(gram.device):
            break
        softened = gram.to(kind, copy=True)
        softened.diagonal().add_(ridge.to(kind))
        lower, failed = torch.linalg.cholesky_ex(softened)
        if not int(failed) and bool(torch.isfinite(lower.diagonal()).all()):
            return lower.to(gram.dtype) if kind != gram.dtype else lower
    raise ValueError(
        "device='cuda': the Gram matrix is singular to rounding, so that its factor cannot be "
        "computed on the GPU. Set softness > 0, pass float64 data, or use device='cpu'."
    )
