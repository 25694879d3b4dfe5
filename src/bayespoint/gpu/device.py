"""A GPU as a place to compute: see `bayespoint.space.host.Host`."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
)

from bayespoint._support import devices
from bayespoint._support.checks import SHOWN_PLACES, PointsError
from bayespoint._support.devices import (
    MOST_LABEL_POINTS,
    PREDICT_FEWER,
    as_array,
    check_room,
    explaining_memory,
    is_tensor,
)
from bayespoint._support.types import Array, Matrix
from bayespoint.gpu.inputs import DeviceGramInputs, DeviceInputs, support_on_device
from bayespoint.gpu.kernels import DevicePoints, apply_kernel, laid_out, prepare
from bayespoint.gpu.rows import STORE_SHARE, DeviceRows
from bayespoint.gpu.transfer import to_device
from bayespoint.space.given import array_options, checked_gram, checked_labels, validated
from bayespoint.space.host import tensor_misplaced
from bayespoint.space.inputs import Inputs, canonical
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.rows import FullRows
from bayespoint.space.version_space import VersionSpace


class Device:
    """The memory of a GPU, through PyTorch.

    Parameters
    ----------
    device : torch.device
    asked : {"cuda", "auto"}, default="cuda"
        The value of ``device=`` that led here, for messages.
    """

    name = "cuda"
    own_memory = True
    most_label_points: float = MOST_LABEL_POINTS

    def __init__(self, device: torch.device, asked: str = "cuda") -> None:
        self.device = device
        self.asked = asked

    def computing(self, remedy: str) -> AbstractContextManager[None]:
        """Explain errors of memory."""
        return explaining_memory(self.asked, remedy)

    def training_inputs(
        self, estimator: Any, X: Any, y: Any, *, precomputed: bool
    ) -> tuple[Inputs, Array]:
        """Check X and y as given to fit; whether all are numbers is looked at on the device."""
        if is_tensor(X):
            return self._training_tensors(estimator, X, y, precomputed)
        y = as_array(y) if is_tensor(y) else y
        options = array_options(precomputed)
        checked, y = validated(estimator, X, y, order="C", ensure_all_finite=precomputed, **options)
        if precomputed:
            return DeviceGramInputs(checked_gram(checked, "X"), self.device), y
        inputs = DeviceInputs(canonical(checked), self.device)
        if not inputs.finite():
            validated(estimator, X, y, **options)  # raises, and says what is wrong
        return inputs, y

    def inputs_of(self, X: Any) -> Inputs:
        """Return rows that were checked elsewhere."""
        return DeviceInputs(X, self.device)

    def _training_tensors(
        self, estimator: Any, X: torch.Tensor, y: Any, precomputed: bool
    ) -> tuple[Inputs, Array]:
        if precomputed:
            raise tensor_misplaced()
        X = checked_tensor(X)
        if len(X) == 0 or X.shape[1] == 0:
            raise ValueError(f"X has {len(X)} rows and {X.shape[1]} columns; give some.")
        y = checked_labels(as_array(y) if is_tensor(y) else y)
        check_consistent_length(X, y)
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
        estimator.n_features_in_ = X.shape[1]
        return DeviceInputs(X, self.device), y

    def new_points(self, estimator: Any, X: Any, *, precomputed: bool) -> Any:
        """Check X as given to predict; whether all are numbers is looked at on the device."""
        if is_tensor(X):
            with self.computing(PREDICT_FEWER):
                checked = checked_tensor(X, estimator.n_features_in_)
            return checked.cpu().numpy() if precomputed else checked
        options = array_options(precomputed)
        checked = validated(
            estimator, X, order="C", reset=False, ensure_all_finite=precomputed, **options
        )
        return canonical(checked)

    def to_host(self, X: Any) -> Matrix:
        """Return points as an array."""
        return X.cpu().numpy() if is_tensor(X) else X

    def rows_there(self, X: Any, dtype: Any) -> torch.Tensor:
        """Return rows on the device in the precision of a model; they must be numbers."""
        found = to_device(X, self.device).to(getattr(torch, str(dtype)))
        if not bool(torch.isfinite(found).all()):
            if not is_tensor(X):
                assert_all_finite(X.data if sp.issparse(X) else X, input_name="X")
            raise ValueError(
                f"X has values too large for the {dtype} that the model was fitted in."
            )
        return found

    def outputs(
        self, kernel: Kernel, X: Any, support: Points, coef: Array,
        diagonal: float | None = None,  # noqa: ARG002
    ) -> Array:  # fmt: skip
        """Outputs at X of machines, rows of ``coef`` over the support points: see `Host`."""
        with self.computing(PREDICT_FEWER):
            right = support_on_device(support, self.device)
            left = _prepared(kernel, self.rows_there(X, support.X.dtype))
            # The model's coefficients may be read-only.
            found = apply_kernel(kernel, left, right, coef.T.copy())
            if not kernel.normalize:
                length = left.length.double().cpu().numpy()
                found /= np.where(length > 0, length, 1.0)[:, None]
        return found


def _prepared(kernel: Kernel, X: torch.Tensor) -> DevicePoints:
    """Return new points with what the kernel needs of each; errors know which points they are."""
    try:
        return prepare(kernel, laid_out(kernel, X))
    except PointsError as error:
        error.vectors = X[error.points[:SHOWN_PLACES]].cpu().numpy()
        raise


def placed_space(space: VersionSpace, device: torch.device) -> VersionSpace:
    """Return a version space with its Gram matrix in the memory of a GPU.

    Parameters
    ----------
    space : VersionSpace
    device : torch.device
    """
    # Rows that are computed when asked for may not be there yet, or in another order.
    K = space.rows.store if isinstance(space.rows, FullRows) else space.rows.matrix()
    check_room(device, len(K), K.itemsize, "the Gram matrix", "float32")
    gram = to_device(K, device)
    points = DevicePoints(gram, None, None, torch.sqrt(gram.diagonal()))
    # The matrix is there already.
    memory = max(int(STORE_SHARE * devices.free_bytes(device)), gram.nbytes)
    rows = DeviceRows(None, points, memory=memory, gram=gram)
    rows.diagonal = space.rows.diagonal
    return VersionSpace(rows, space.y, space.softness)


def checked_tensor(X: torch.Tensor, n_features: int | None = None) -> torch.Tensor:
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
