"""EP by cells in batches on a device, beside the same one cell after the other on the host."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons

from bayespoint import BayesPointClassifier
from bayespoint.inference.ep.cells.tree import grow
from bayespoint.io import model_file

GIVEN = {
    "gamma": 2.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0,
    "cell_size": 60, "n_landmarks": 0, "n_trees": 2,
}  # fmt: skip
X, Y = make_moons(300, noise=0.3, random_state=0)
NEW, _ = make_moons(100, noise=0.3, random_state=1)
WEIGHT = np.random.default_rng(0).choice([0.3, 1, 2, 5], size=300)


def fitted(X=X, y=Y, weight=None, **settings):
    return BayesPointClassifier(**GIVEN | settings).fit(X, y, weight)


def assert_alike(clf, other, X, atol=1e-4):
    assert_allclose(clf.predict_proba(X), other.predict_proba(X), atol=atol)
    assert_allclose(clf.held_out_proba_, other.held_out_proba_, atol=max(4e-3, 2 * atol))
    assert_allclose(clf.label_error_proba_, other.label_error_proba_, atol=5 * atol)
    assert_allclose(clf.log_evidence_, other.log_evidence_, rtol=1e-4)
    assert clf.diagnostics_["moving"] == other.diagnostics_["moving"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_landmarks": 40},
        {"label_noise": 0.1},
        {"kernel": "poly"},
        {"kernel": "laplacian", "normalize_kernel": False},
        {"kernel": "linear", "n_landmarks": "auto"},
        {"softness": 1e-3, "gamma": 20.0},
    ],
    ids=str,
)
def test_as_on_the_host(settings):
    host, device = fitted(**settings), fitted(**settings, device="cuda")
    assert device.device_ == "cuda"
    assert_alike(device, host, NEW)
    host, device = (fitted(weight=WEIGHT, **settings, device=d) for d in ("cpu", "cuda"))
    assert_alike(device, host, NEW, atol=2e-4)


@pytest.mark.parametrize("weight", [WEIGHT, pytest.param(None, marks=pytest.mark.slow)])
def test_settings_are_chosen_as_on_the_host(weight):
    auto = {"gamma": "held-out", "softness": "held-out", "bias": "auto", "n_landmarks": "auto"}
    host, device = (fitted(weight=weight, **auto, device=d) for d in ("cpu", "cuda"))
    assert_allclose([device.gamma_, device.softness_], [host.gamma_, host.softness_])
    # Cells around landmarks that are chosen may converge a visit earlier or later.
    assert_alike(device, host, NEW, atol=1e-4 if weight is None else 5e-3)


@pytest.mark.parametrize("n_landmarks", [0, 30])
def test_many_classes_in_batches_as_memory_allows(n_landmarks, memory):
    X, y = make_blobs(500, centers=4, cluster_std=2.0, random_state=0)
    settings = {"gamma": 0.1, "n_landmarks": n_landmarks, "tol": 1e-5}
    host, device = fitted(X, y, **settings), fitted(X, y, **settings, device="cuda")
    assert_alike(device, host, X)
    memory(5e6)
    assert_alike(fitted(X, y, **settings, device="cuda"), device, X, atol=2e-5)


@pytest.mark.parametrize("n_landmarks", [0, 30])
def test_models_travel_to_the_host(n_landmarks, tmp_path):
    clf = fitted(n_landmarks=n_landmarks, device="cuda")
    p = clf.predict_proba(NEW)
    model_file.save(tmp_path / "m.bpm", clf)
    loaded = model_file.load(tmp_path / "m.bpm").classifier
    for device in ("cpu", "cuda"):
        assert_allclose(loaded.set_params(device=device).predict_proba(NEW), p, atol=1e-6)
    drawn = loaded.sample_proba(NEW, 3, random_state=0)
    assert_array_equal(drawn, clf.set_params(device="cpu").sample_proba(NEW, 3, random_state=0))


def test_sparse_rows_and_rows_that_are_tensors():
    import torch

    p = fitted(device="cuda").predict_proba(NEW)
    sparse = fitted(sp.csr_matrix(X), device="cuda")
    assert_allclose(sparse.predict_proba(sp.csr_matrix(NEW)), p, atol=1e-4)
    tensors = fitted(torch.from_numpy(X), device="cuda")
    assert_allclose(tensors.predict_proba(torch.from_numpy(NEW)), p, atol=1e-6)


def test_all_stays_in_a_memory_apart(apart):
    clf = fitted(device="cuda", n_landmarks=20)
    assert_allclose(clf.predict_proba(NEW), fitted(n_landmarks=20).predict_proba(NEW), atol=1e-4)
    assert (300, 300) not in apart  # kernel values of all rows


def test_rows_find_their_cells():
    import torch

    from bayespoint.inference.ep.cells.batches import route

    tree = grow(X, 30, np.random.SeedSequence(0))
    assert_array_equal(route(tree, torch.from_numpy(X)).numpy(), tree.route(X))


def test_warm_starts_and_little_time(clock):
    clf = fitted(device="cuda", warm_start=True, n_landmarks=20)
    p = clf.predict_proba(NEW)
    assert_allclose(clf.fit(X, Y).predict_proba(NEW), p, atol=0.01)
    clock.step = 1.0
    clf = fitted(device="cuda", max_time=12.0, n_trees=8)
    assert 0 < len(clf.predictor_.model.roots) < 8
    assert clf.score(X, Y) > 0.8


def test_what_is_no_number_is_refused():
    clf, bad = fitted(device="cuda"), NEW.copy()
    bad[3, 1] = np.nan
    for method in (clf.predict_proba, clf.sample_proba, clf.cosines):
        assert_refused(lambda method=method: method(bad), [({}, "NaN")])
