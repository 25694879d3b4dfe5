"""Names of types that signatures of several packages share."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
ArrayLike: TypeAlias = npt.ArrayLike
# An array, or a sparse matrix or array in CSR format, whose types SciPy does not tell.
Matrix: TypeAlias = Any
# What scikit-learn takes as random_state.
Seed: TypeAlias = int | np.random.RandomState | None
