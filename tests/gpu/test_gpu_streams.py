"""Rows that keep coming, on a device beside the host."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier

GIVEN = {
    "gamma": 2.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0,
    "cell_size": 60, "n_landmarks": 0, "n_trees": 1, "decision": "vote",
}  # fmt: skip
X, Y = make_moons(200, noise=0.3, random_state=0)
NEW, _ = make_moons(100, noise=0.3, random_state=1)


def fed(X=X, y=Y, size=50, **settings):
    clf = BayesPointClassifier(**GIVEN | settings)
    for first in range(0, len(y), size):
        clf.partial_fit(X[first : first + size], y[first : first + size], classes=np.unique(y))
    return clf


@pytest.mark.parametrize(
    "settings",
    [{}, {"n_landmarks": 30}, {"kernel": "linear", "n_landmarks": "auto"}, {"half_life": 30.0}],
    ids=str,
)
def test_as_on_the_host(settings):
    host, device = fed(**settings), fed(**settings, device="cuda")
    assert device.device_ == "cuda"
    assert_allclose(device.predict_proba(NEW), host.predict_proba(NEW), atol=5e-3)
    assert_allclose(device.log_predictive_, host.log_predictive_, atol=5e-3)
    moved = host.set_params(device="cuda").partial_fit(NEW, np.arange(100) % 2)
    device.set_params(device="cpu").partial_fit(NEW, np.arange(100) % 2)
    assert_allclose(device.predict_proba(X), moved.predict_proba(X), atol=1e-2)


def test_late_classes_weights_that_vanish_and_merging():
    y = np.where(np.arange(200) > 150, 2, Y)
    given = {"n_landmarks": 20, "half_life": 0.5}
    host, device = (fed(X, y, **given, device=name) for name in ("cpu", "cuda"))
    assert_allclose(device.predict_proba(NEW), host.predict_proba(NEW), atol=5e-3)
    merged = []
    for name in ("cpu", "cuda"):
        clf = fed(device=name)
        merged.append(clf.merge(clf.fresh().partial_fit(NEW, np.arange(100) % 2)))
    assert_allclose(*(clf.predict_proba(X) for clf in merged), atol=1e-2)


def test_rows_that_are_sparse_or_tensors():
    import torch

    wanted = fed(device="cuda").predict_proba(NEW)
    sparse = fed(sp.csr_matrix(X), device="cuda")
    assert_allclose(sparse.predict_proba(sp.csr_matrix(NEW)), wanted, atol=1e-3)
    tensors = fed(torch.from_numpy(X), device="cuda")
    assert_array_equal(tensors.predict_proba(torch.from_numpy(NEW)), wanted)
    before = tensors.predict_proba(NEW)
    bad = torch.full((1, 2), torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        tensors.partial_fit(bad, [0])
    assert_array_equal(tensors.predict_proba(NEW), before)


def test_all_stays_in_a_memory_apart(apart):
    given = {"n_landmarks": 20, "cache_size": 0.3}
    clf = fed(device="cuda", **given)
    assert_allclose(clf.predict_proba(NEW), fed(**given).predict_proba(NEW), atol=5e-3)
    assert (200, 200) not in apart  # kernel values of all rows
