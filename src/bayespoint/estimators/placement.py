"""Where a fit and its predictions run: arrays on the host, or tensors on a GPU."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from bayespoint._support.devices import (
    as_array,
    check_device,
    is_tensor,
    naming_remedies,
    torch_device,
)
from bayespoint.space.inputs import canonical


class PlacementMixin:
    """How a `BayesPointClassifier` takes its data, and where it computes with them."""

    if TYPE_CHECKING:  # parameters and fitted attributes are the classifier's

        def __getattr__(self, name: str) -> Any: ...

    def _device(self):
        """Return the PyTorch device, or None for the CPU."""
        check_device(self.device)
        if self.device == "cpu" or not (callable(self.kernel) or self.inference == "gibbs"):
            return torch_device(self.device)
        if self.device == "cuda":
            what = "a callable kernel" if callable(self.kernel) else "inference='gibbs'"
            raise ValueError(
                f"device='cuda' with {what}, which runs on the CPU only: use device='cpu' or "
                f"'auto', or {'name a kernel' if callable(self.kernel) else 'the billiard'}."
            )
        return None

    def _checked_training(self, X, y):
        """Check X and y; X then is an array, a CSR matrix, or data on the device."""
        device = self._device()
        self.device_ = "cpu" if device is None else "cuda"
        if is_tensor(X) and (device is not None or X.device.type != "cpu"):
            return self._checked_tensors(X, y, device)
        if is_tensor(X):  # scikit-learn would take float32 to float64
            X = as_array(X)
        if is_tensor(y):
            y = as_array(y)
        on_device = device is not None and self.kernel != "precomputed"
        options = {"accept_sparse": self._accepts_sparse(), "dtype": [np.float64, np.float32]}
        checked, y = validate_data(
            self, X, y, order="C", ensure_all_finite=not on_device, **options
        )
        if not on_device:
            return canonical(checked), y
        from bayespoint.gpu.inputs import DeviceData

        data = DeviceData(canonical(checked), device)
        if not data.finite():
            validate_data(self, X, y, **options)  # raises, and says what is wrong
        return data, y

    def _checked_tensors(self, X, y, device):
        if device is None or self.kernel == "precomputed":
            raise ValueError(
                "X is a PyTorch tensor on a GPU, which needs device='cuda' (or 'auto'), or a "
                "precomputed Gram matrix: pass an array, for example X.cpu().numpy()."
            )
        from bayespoint.gpu.inputs import DeviceData
        from bayespoint.gpu.placing import checked_tensor

        X = checked_tensor(X)
        if len(X) == 0 or X.shape[1] == 0:
            raise ValueError(f"X has {len(X)} rows and {X.shape[1]} columns; give some.")
        y = column_or_1d(as_array(y) if is_tensor(y) else y, warn=True)
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        self.n_features_in_ = X.shape[1]
        return DeviceData(X, device), y

    def _chosen_rows(self, X, index):
        return X.take(index) if hasattr(X, "hashes") else self._restricted(X, index)

    def _with_layout(self, kernel, data):
        if not hasattr(data, "hashes"):
            return kernel.fit_layout(data)
        from bayespoint.gpu.placing import fit_layout

        return fit_layout(kernel, data)

    def _lengths(self, kernel, data):
        """Lengths of the training points in feature space."""
        if not hasattr(data, "hashes"):
            return self._points_of(kernel, data).length
        from bayespoint.gpu.placing import laid_out
        from bayespoint.gpu.rows import prepare

        return prepare(kernel, laid_out(kernel, data.tensor)).length.cpu().numpy()

    def _device_rows(self, kernel, data):
        from bayespoint.gpu.placing import rows_of

        return rows_of(kernel, data, self._device())

    def _prepared_support(self, kernel, rows, diagonal):
        """Support points with what the kernel needs of each, as arrays."""
        if self.device_ == "cpu" or self.kernel == "precomputed":
            return kernel.prepare(self.support_vectors_, diagonal=diagonal)
        from bayespoint.gpu.placing import kept_points

        return kept_points(kernel, self.support_vectors_, rows.points, self._used_)

    @contextmanager
    def _beside(self, work, *args):
        """On a GPU, do some work in another thread; yields a future of what it returns."""
        from bayespoint.gpu.placing import in_another_stream

        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(in_another_stream(work, self._device()), *args)

    def _checked_prediction(self, X):
        """Check X as `predict` gets it; on a GPU, whether all are numbers is looked at there."""
        on_device = self._device() is not None and self.kernel != "precomputed"
        if not is_tensor(X):
            return validate_data(
                self, X, accept_sparse=self._accepts_sparse(), dtype=[np.float64, np.float32],
                order="C", reset=False, ensure_all_finite=not on_device,
            )  # fmt: skip
        from bayespoint.gpu.placing import checked_tensor

        with self._predicting():
            checked = checked_tensor(X, self.n_features_in_)
        return checked if on_device else checked.cpu().numpy()

    def _predicting(self):
        return naming_remedies(self.device, "Free some, predict fewer points at a time")

    def _accepts_sparse(self):
        return False if self.kernel == "precomputed" else "csr"
