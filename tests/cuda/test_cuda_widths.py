"""Widths of features that are learnt on a GPU are those of the CPU."""

import numpy as np
import pytest
from helpers.cuda import GPU
from helpers.width_cells import KERNELS, WIDTHS, both, cells_of
from numpy.testing import assert_allclose

from bayespoint import BayesPointClassifier

pytestmark = pytest.mark.cuda


def test_slopes_and_evidence_are_those_of_the_cpu():
    for kernel in KERNELS:
        host, there = both(cells_of((700, 300, 513), noise=0.05), GPU)
        for sweeps in (8, 1, 1):
            slopes, expected = (one.slopes(WIDTHS, kernel, sweeps) for one in (there, host))
            # Of up to 100, of which single precision is off by 0.04 on either.
            assert_allclose(slopes, expected, atol=0.1)
        evidence = [one.log_evidence(WIDTHS, kernel) for one in (there, host)]
        assert_allclose(*evidence, rtol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_with_widths_predicts_as_that_of_the_cpu(classes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(4000), [0.0, 0.8][: classes - 1])
    settings = {
        "gamma": "ard", "inference": "ep", "bias": 1.0, "softness": 0.3, "random_state": 0,
        "cell_size": 500, "n_landmarks": 0, "n_trees": 1,
    }  # fmt: skip
    theirs, ours = (
        BayesPointClassifier(**settings, device=device).fit(X, y)
        for device in ("cpu", "cuda")
    )  # fmt: skip
    assert ours.device_ == "cuda"
    assert_allclose(ours.gamma_, theirs.gamma_, rtol=1e-2)
    new = rng.standard_normal((500, 6)).astype(np.float32)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-3)
