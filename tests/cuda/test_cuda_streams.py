"""Rows that keep coming, on a true GPU."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs

from bayespoint import BayesPointClassifier

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("n_landmarks", [0, 100])
def test_streams_are_those_of_the_cpu(n_landmarks):
    X, y = make_blobs(5000, 5, centers=8, cluster_std=4.0, random_state=0)
    X, y = X.astype(np.float32), y % 3
    found = []
    for device in ("cpu", "cuda"):
        clf = BayesPointClassifier(
            gamma=0.1, softness=0.05, bias=1.0, random_state=0, inference="ep", cell_size=500,
            n_landmarks=n_landmarks, n_trees=1, decision="vote", half_life=3000, device=device,
        )  # fmt: skip
        for first in range(0, 4000, 1000):
            rows = slice(first, first + 1000)
            clf.partial_fit(X[rows], y[rows])
        found.append(clf.predict_proba(X[4000:]))
        assert clf.device_ == device
    assert_allclose(*found, atol=1e-2)
