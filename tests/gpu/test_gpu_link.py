"""The link: fitted beside the draws where a device leaves the host idle, to folds with outputs."""

# ruff: noqa: E402

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from helpers.device_fits import make, press_ctrl_c, within

from bayespoint.estimators import calibration
from bayespoint.gpu import device as gpu_device
from bayespoint.gpu import perceptrons as gpu_perceptrons
from bayespoint.gpu.loops import perceptron_torch
from bayespoint.inference.billiard import method as billiard
from bayespoint.inference.methods import METHODS
from bayespoint.inference.perceptron.method import Perceptrons


@pytest.fixture
def links(monkeypatch):
    """What links were fitted to: outputs and labels."""
    seen, true = [], calibration.fit_link

    def fit_link(outputs, label, weight):
        seen.append((outputs, label))
        assert len(outputs) == len(label) == len(weight)
        return true(outputs, label, weight)

    monkeypatch.setattr(calibration, "fit_link", fit_link)
    return seen


def test_the_link_is_fitted_to_folds_that_have_outputs(cancer, links, monkeypatch):
    """Ctrl-C while the folds fly together, and some of them have no draw yet."""
    X, y, new = within(cancer, 100)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)

    def when(_, runs, orders, ranks, n_machines, targets, *args):  # noqa: ARG001
        of_folds = orders.shape[1] < targets.shape[1]
        ended = args[-3][:, perceptron_torch.WANTED] < 0
        return of_folds and int(ended.sum()) >= 2

    assert press_ctrl_c(monkeypatch, perceptron_torch, "advance", when) == []
    clf = make(n_draws=1)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    ((outputs, label),) = links
    assert len(label) in (40, 60, 80)  # of two folds to four
    assert np.all(outputs != 0)
    assert np.mean((outputs > 0) == label) > 0.8
    assert np.all(np.isfinite(clf.predict_proba(new)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("failing", [(1, 3), range(5)], ids=["two", "all"])
def test_folds_without_a_start_do_not_count(cancer, links, device, failing, monkeypatch):
    X, y, new = within(cancer, 30)
    true, folds = billiard.run_chains, []

    def run_chains(problem, *args, **options):
        if len(problem.row) < 30:
            folds.append(len(folds))
            if folds[-1] in failing:
                raise ValueError("no start")
        return true(problem, *args, **options)

    monkeypatch.setattr(billiard, "run_chains", run_chains)
    clf = make("billiard", device, decision="bayes_point", n_draws=8).fit(X, y)
    ((outputs, label),) = links
    assert len(folds) == 5
    assert len(label) == 30 - 6 * len(failing)
    assert np.all(outputs != 0)
    assert np.all(np.isfinite(clf.predict_proba(new)))


@pytest.fixture
def few_link_points(monkeypatch):
    """Let the link be fitted to other points than all."""
    monkeypatch.setattr(calibration, "LINK_POINTS", 50)


@pytest.mark.usefixtures("few_link_points")
def test_the_link_beside_the_draws_is_the_one_after_them(digits, monkeypatch):
    X, y, _ = within(digits, 120)
    beside, seen = gpu_device.Device.beside, []

    def noted(self, work, *args):
        seen.append(threading.get_ident())
        return beside(self, work, *args)

    def steepness(**more):
        return make(n_draws=10, bias="auto", **more).fit(X, y % 3).predictor_.steepness

    monkeypatch.setattr(gpu_device.Device, "beside", noted)
    found = [steepness(device=device) for device in ("cuda", "cpu")]
    assert len(seen) == 1  # on the device only
    assert_allclose(*found, rtol=1e-5)
    late = steepness(max_time=1000.0)
    assert len(seen) == 1  # with a limit of time one after the other
    assert_allclose(late, found[0], rtol=1e-5)


@pytest.mark.usefixtures("few_link_points")
@pytest.mark.parametrize("how", ["error", "interrupt"])
def test_the_link_ends_with_the_draws(digits, monkeypatch, how):
    X, y, _ = within(digits, 120)
    ended, begun, steepness = [], threading.Event(), calibration.link_steepness

    def slow(work):
        if threading.current_thread() is threading.main_thread():  # after the draws
            return steepness(work)
        begun.set()
        while not work.plan.budget.spent():
            time.sleep(0.001)
        ended.append(how)
        return 1.0

    class Stopped(Perceptrons):
        def infer(self, problem, plan, held):
            assert begun.wait(60)
            if how == "error":
                raise ValueError("no draws today")
            found = super().infer(problem, plan, held)
            plan.budget.interrupt()
            return found

    monkeypatch.setattr(calibration, "link_steepness", slow)
    monkeypatch.setitem(METHODS, "perceptron", Stopped())
    clf = make(n_draws=10)
    expected = pytest.raises(ValueError, match="no draws today")
    with expected if how == "error" else pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert ended == [how]
    if how == "interrupt":
        assert clf.score(X, y) > 0.9
        assert np.isfinite(clf.predictor_.steepness)
        assert clf.predictor_.steepness != 1.0
