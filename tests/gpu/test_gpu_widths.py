"""Widths of features learnt in batches of cells on a device, beside one cell after the other."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.width_cells import KERNELS, WIDTHS, both, cells_of
from numpy.testing import assert_allclose

from bayespoint import BayesPointClassifier
from bayespoint.estimators import width_learning, widths
from bayespoint.inference.ep.widths import best_widths, learn_widths


@pytest.fixture
def device():
    import torch

    return torch.device("cpu")


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_slopes_and_evidence_are_those_of_the_host(kernel, noise, device):
    host, there = both(cells_of(noise=noise), device)
    assert_allclose(there.log_evidence(WIDTHS, kernel), host.log_evidence(WIDTHS, kernel), 1e-5)
    for sweeps in (8, 1, 1):
        slopes = there.slopes(WIDTHS, kernel, sweeps)
        assert_allclose(slopes, host.slopes(WIDTHS, kernel, sweeps), atol=2e-3)
    assert_allclose(there.log_evidence(WIDTHS, kernel), host.log_evidence(WIDTHS, kernel), 1e-5)
    others = WIDTHS * [1, 9, 1, 40, 2]
    assert_allclose(*(one.gains(WIDTHS, others, kernel) for one in (there, host)), atol=2e-3)
    # Sites are part of it: without them, slopes are others.
    assert np.max(np.abs(there.fresh().slopes(WIDTHS, kernel) - slopes)) > 0.1


def test_memory_for_a_few_cells_at_a_time(device, memory):
    cells = cells_of()
    _, there = both(cells, device)
    expected = there.slopes(WIDTHS, KERNELS[0], 8)
    memory(3e6)
    _, few = both(cells, device)
    assert len(few.batches) > len(there.batches) == 1
    assert_allclose(few.slopes(WIDTHS, KERNELS[0], 8), expected, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_what_fills_cells_has_no_say(kernel, device):
    _, there = both(cells_of(), device)
    _, poisoned = both(cells_of(), device)
    batch = poisoned.batches[0]
    fill = (batch.labels.copies == 0)[:, 0]
    assert fill.any()
    assert not fill.all(dim=1).any()
    batch.X[fill] = 1e4
    batch.labels.y[:, 0][fill] = -1.0
    batch.labels.variance[:, 0][fill] = 1e-6
    for sweeps in (8, 1):
        slopes = poisoned.slopes(WIDTHS, kernel, sweeps)
        assert_allclose(slopes, there.slopes(WIDTHS, kernel, sweeps), atol=1e-4)
    evidence = [one.log_evidence(WIDTHS, kernel) for one in (poisoned, there)]
    assert_allclose(*evidence, rtol=1e-6)
    # With copies they have.
    batch.X[fill], batch.labels.copies[:, 0][fill] = 0.5, 1.0
    away = poisoned.fresh().slopes(WIDTHS, kernel, 8) - there.fresh().slopes(WIDTHS, kernel, 8)
    assert np.max(np.abs(away)) > 0.1


def test_double_precision_where_single_is_too_coarse(device):
    """Labels that nearly contradict each other; the host's in double precision are right."""
    import torch

    cells, wide = cells_of(softness=1e-6), WIDTHS / 100
    double = [replace(cell, X=cell.X.astype(np.float64)) for cell in cells]
    host, there = both(double, device)[0], both(cells, device)[1]
    for sweeps in (8, 1, 1):
        slopes = there.slopes(wide, KERNELS[0], sweeps)
        assert_allclose(slopes, host.slopes(wide, KERNELS[0], sweeps), rtol=1e-3, atol=1e-3)
    assert there.batches[0].dtype == torch.float64
    usual = both(cells_of(), device)[1]
    usual.slopes(WIDTHS, KERNELS[0])
    assert usual.batches[0].dtype == torch.float32


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=str)
def test_widths_that_are_learnt_are_those_of_the_host(kernel, device):
    host, there = both(cells_of(), device)
    options = {"origin": WIDTHS, "group": np.array([0, 1, 2, 2, 3]), "steps": 10}
    learnt = [learn_widths(cells, WIDTHS, kernel, **options) for cells in (host, there)]
    assert_allclose(*learnt, rtol=1e-3)
    assert np.max(np.abs(np.log(learnt[0] / WIDTHS))) > 0.5
    options = {"origin": WIDTHS, "group": np.arange(5)}
    begins = [WIDTHS, WIDTHS / 3]
    learnt = [best_widths(cells.fresh(), begins, kernel, **options) for cells in (host, there)]
    assert_allclose(*np.log(learnt), atol=0.02)


def test_only_slopes_leave_a_memory_apart(apart):
    from helpers.stand_in import FAR

    host, there = both(cells_of(), FAR)
    for kernel in KERNELS:
        apart.clear()
        slopes = there.slopes(WIDTHS, kernel)
        assert apart == [(6,)]  # with whether they are to be trusted
        assert_allclose(slopes, host.slopes(WIDTHS, kernel), atol=2e-3)
        evidence = [one.log_evidence(WIDTHS, kernel) for one in (host, there)]
        assert_allclose(*evidence, rtol=1e-5)


# -------------------------------------------------------------------------- a whole fit


@pytest.fixture
def small_cells(monkeypatch):
    """Widths are learnt and compared on several cells, made anew in each round."""
    for name in ("LEARNT_SIZE", "WHOLE_SIZE"):
        monkeypatch.setattr(width_learning, name, 100)
    monkeypatch.setattr(widths, "COMPARED_SIZE", 100)


def fitted(n, device, **settings):
    X = np.random.default_rng(0).standard_normal((n, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 0] > 1)
    settings = {"gamma": "ard", "inference": "ep", "bias": 1.0, "random_state": 0, **settings}
    return BayesPointClassifier(**settings, device=device).fit(X, y), X


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize(
    ("n", "settings"),
    [
        (90, {}),
        (180, {"cell_size": 100, "n_landmarks": 0, "n_trees": 1, "softness": 0.1, "n_jobs": 2}),
        (90, {"kernel": "laplacian"}),
    ],
    ids=str,
)
def test_a_fit_with_widths_is_that_of_the_host(n, settings):
    (host, X), (device, _) = (fitted(n, name, **settings) for name in ("cpu", "cuda"))
    assert device.device_ == "cuda"
    assert_allclose(device.gamma_, host.gamma_, rtol=5e-3)
    assert_allclose(device.predict_proba(X), host.predict_proba(X), atol=1e-3)
