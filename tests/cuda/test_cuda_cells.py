"""EP by cells on a GPU is that of the CPU."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs

from bayespoint import BayesPointClassifier

pytestmark = pytest.mark.cuda

GIVEN = {"gamma": 0.1, "softness": 0.05, "bias": 1.0, "random_state": 0, "n_trees": 2}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [0, 100])
@pytest.mark.parametrize("classes", [2, 4])
def test_cells_are_those_of_the_cpu(classes, n_landmarks, dtype):
    X, y = make_blobs(5000, 5, centers=8, cluster_std=4.0, random_state=0)
    X, y = X.astype(dtype), y % classes
    new, X, y = X[4000:], X[:4000], y[:4000]
    settings = GIVEN | {"inference": "ep", "cell_size": 500, "n_landmarks": n_landmarks}
    theirs, ours = (
        BayesPointClassifier(**settings, device=device).fit(X, y) for device in ("cpu", "cuda")
    )
    assert ours.device_ == "cuda"
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=2e-3)
    assert_allclose(ours.log_evidence_, theirs.log_evidence_, rtol=1e-4)
    there = ours.predict_proba(new)
    assert_allclose(ours.set_params(device="cpu").predict_proba(new), there, atol=1e-4)


def test_defaults_choose_on_the_gpu():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 4)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + 0.7 * rng.standard_normal(6000) > 0
    clf = BayesPointClassifier(device="cuda", random_state=0).fit(X, y)
    assert clf.inference_ == "ep"
    assert "by perceptrons" in clf.inference_reason_
