"""Places to compute: how they take data, and where outputs of new points come from; the host.

`bayespoint.gpu.device.Device` is one on a GPU; `bayespoint.inference.engines` chooses.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from joblib import effective_n_jobs

from bayespoint._support.devices import as_array, is_tensor
from bayespoint._support.threads import open_threads
from bayespoint._support.types import Array, Matrix
from bayespoint.space.given import array_options, checked_gram, validated
from bayespoint.space.inputs import GramInputs, Inputs, canonical, same_precision
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.rows import apply_kernel


class Place(Protocol):
    """Where to compute: `Host`, or `bayespoint.gpu.device.Device`.

    Attributes
    ----------
    name : str
    own_memory : bool
        Whether rows and factors lie in a memory of their own, which ``cache_size`` does not bound.
    most_label_points : float
        Points up to which an inverse of the Gram matrix is worth its time for label errors alone.
    """

    name: str
    own_memory: bool
    most_label_points: float

    def computing(self, remedy: str) -> AbstractContextManager[None]:
        """Explain errors of memory."""

    def training_inputs(
        self, estimator: Any, X: Any, y: Any, *, precomputed: bool
    ) -> tuple[Inputs, Array]:
        """Check X and y as given to fit."""

    def inputs_of(self, X: Any) -> Inputs:
        """Return rows that were checked elsewhere."""

    def new_points(self, estimator: Any, X: Any, *, precomputed: bool) -> Any:
        """Check X as given to predict."""

    def rows_there(self, X: Any, dtype: Any) -> Any:
        """Return points in the memory of the place and the precision of a model."""

    def to_host(self, X: Any) -> Matrix:
        """Return points as an array."""

    def outputs(
        self, kernel: Kernel, X: Any, support: Points, coef: Array, diagonal: float | None = None
    ) -> Array:
        """Outputs at X of machines, rows of ``coef`` over the support points, (n, n_machines).

        Divided by the length of each point in feature space where the kernel is not normalised.
        ``diagonal``: k(x, x) of the new points, where a Gram matrix is given.
        """


class Host:
    """Arrays in the memory of the host, and its threads.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as in joblib.
    """

    name = "cpu"
    own_memory = False
    most_label_points = np.inf

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @contextmanager
    def computing(self, remedy: str) -> Iterator[None]:  # noqa: ARG002
        """Explain errors of memory; the host's explain themselves."""
        yield

    def training_inputs(
        self, estimator: Any, X: Any, y: Any, *, precomputed: bool
    ) -> tuple[Inputs, Array]:
        """Check X and y as given to fit."""
        if is_tensor(X) and X.device.type != "cpu":
            raise tensor_misplaced()
        # scikit-learn would take tensors of float32 to float64.
        X, y = (as_array(data) if is_tensor(data) else data for data in (X, y))
        checked, y = validated(estimator, X, y, order="C", **array_options(precomputed))
        if precomputed:
            return GramInputs(checked_gram(checked, "X")), y
        return Inputs(canonical(checked)), y

    def inputs_of(self, X: Matrix) -> Inputs:
        """Return rows that were checked elsewhere."""
        return Inputs(X)

    def new_points(self, estimator: Any, X: Any, *, precomputed: bool) -> Matrix:
        """Check X as given to predict."""
        X = as_array(X) if is_tensor(X) else X
        options = array_options(precomputed)
        return canonical(validated(estimator, X, order="C", reset=False, **options))

    def rows_there(self, X: Matrix, dtype: Any) -> Matrix:
        """Return points in the precision of a model."""
        return same_precision(X, dtype)

    def to_host(self, X: Matrix) -> Matrix:
        """Return points as an array."""
        return X

    def outputs(
        self, kernel: Kernel, X: Matrix, support: Points, coef: Array,
        diagonal: float | None = None,
    ) -> Array:  # fmt: skip
        """Outputs at X of machines: see `Place`."""
        X, known = self.rows_there(X, support.X.dtype), None
        if diagonal is not None:
            known = np.full(X.shape[0], diagonal, dtype=X.dtype)
        with open_threads(effective_n_jobs(self.n_jobs)) as threads:
            points = kernel.prepare(X, diagonal=known)
            outputs = apply_kernel(kernel, points, support, coef.T, threads)
        if not kernel.normalize:
            outputs /= np.where(points.length > 0, points.length, 1.0)[:, None]
        return outputs


def tensor_misplaced() -> ValueError:
    """Return the error of a tensor on a GPU where arrays are needed."""
    return ValueError(
        "X is a PyTorch tensor on a GPU, which needs device='cuda' (or 'auto'), or a "
        "precomputed Gram matrix: pass an array, for example X.cpu().numpy()."
    )
