"""Which columns have comparable ranges, so that one width may suit them as they are."""

import numpy as np
import pytest
import scipy.sparse as sp

from bayespoint.estimators.width_learning import Columns
from bayespoint.space.inputs import Inputs


@pytest.mark.parametrize(
    ("unit", "comparable"), [(1.0, True), (0.1, True), (0.02, False), (1e6, False), (1e-6, False)]
)
@pytest.mark.parametrize("tails", ["short", "long"])
def test_given_units_are_tried_only_if_all_ranges_are_comparable(unit, comparable, tails):
    X = np.random.default_rng(0).uniform(1, 2, (2_000, 4))
    X = X if tails == "short" else np.exp(np.tan(X - 1.5))  # up to a hundred times the median
    X[:, 1:] = X[:, [0]]  # the same range
    X[:, 1] *= unit
    assert Columns.of(Inputs(X)).comparable == comparable


def test_sparse_columns_that_hardly_vary_may_be_small():
    X = sp.random_array((500, 6), density=0.05, rng=0, format="csr")
    assert Columns.of(Inputs(sp.csr_matrix(X @ sp.diags_array([1, 1, 1, 1, 1, 1e-4])))).comparable
