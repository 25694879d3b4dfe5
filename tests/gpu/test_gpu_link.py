"""The link: from outputs that draws had at points left out, the same on a device as on the CPU."""

# ruff: noqa: E402

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import fitted_pair, make, press_ctrl_c, within

from bayespoint.estimators import calibration
from bayespoint.estimators.calibration import FOLDS, folds_of
from bayespoint.gpu import perceptrons as gpu_perceptrons
from bayespoint.gpu.loops import perceptron_torch
from bayespoint.inference.billiard import method as billiard
from bayespoint.inference.perceptron.method import Perceptrons


@pytest.fixture
def links(monkeypatch):
    """What links were fitted to: outputs and labels."""
    seen, true = [], calibration.fit_links

    def fit_links(outputs, label, weight, arrays):
        seen.append((outputs, label))
        assert len(outputs) == len(label) == len(weight)
        return true(outputs, label, weight, arrays=arrays)

    monkeypatch.setattr(calibration, "fit_links", fit_links)
    return seen


def left_out_of(X, y, monkeypatch, **settings):
    """Outputs at points left out that a fit found on either device, and the fits."""
    found, infer = [], Perceptrons.infer

    def noted(self, problem, plan, held):
        draws = infer(self, problem, plan, held)
        found.append(draws.left_out)
        return draws

    monkeypatch.setattr(Perceptrons, "infer", noted)
    pair = fitted_pair(X, y, **settings)
    assert len(found) == 2
    return found, pair


@pytest.mark.parametrize("n_draws", [4, 25], ids=["some folds", "all folds"])
@pytest.mark.parametrize("data", ["cancer", "digits"])
def test_outputs_at_points_left_out_are_those_of_the_cpu(data, n_draws, request, monkeypatch):
    """In float64 and two classes, in float32 and ten; the link is fitted to them."""
    X, y, new = within(request.getfixturevalue(data), 120)
    (here, there), pair = left_out_of(X, y, monkeypatch, n_draws=n_draws, tol=0)
    fold = folds_of(y[pair[0].trained_.row])
    unknown = np.isin(fold, range(n_draws, FOLDS))
    assert_array_equal(np.isnan(here).any(axis=0), unknown)
    assert_allclose(there, here, atol=1e-5)
    theirs, ours = (clf.predictor_.link for clf in pair)
    assert_allclose(ours.weights, theirs.weights, rtol=1e-3, atol=1e-3)
    assert_allclose(ours.offset, theirs.offset, atol=1e-3)
    if n_draws >= FOLDS:
        held_out = [clf.held_out_proba_ for clf in pair]
        assert_allclose(held_out[1], held_out[0], atol=1e-4)
    assert_allclose(pair[1].predict_proba(new), pair[0].predict_proba(new), atol=1e-4)


@pytest.mark.parametrize("all_points", [False, True], ids=["before", "after"])
def test_the_link_after_ctrl_c(cancer, links, all_points, monkeypatch):
    """Pressed before or after draws went on to the points left out: fitted to what is known."""
    X, y, new = within(cancer, 100)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)

    def when(_, runs, orders, ranks, n_machines, targets, *args):  # noqa: ARG001
        ended = args[-3][:, perceptron_torch.WANTED] < 0
        return (orders.shape[1] == targets.shape[1]) == all_points and int(ended.sum()) >= 6

    pressed = press_ctrl_c(monkeypatch, perceptron_torch, "advance", when)
    clf = make(n_draws=12, tol=0)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert pressed
    ((outputs, label),) = links
    if all_points:  # folds that draws kept had left out
        assert len(label) == 10 * len(set(clf.draws_.resume.numbers % FOLDS)) >= 60
    assert np.all(outputs != 0)
    assert np.mean((outputs > 0) == label) > 0.8
    assert (clf.draws_.resume.before is not None) == all_points
    assert np.all(np.isfinite(clf.predict_proba(new)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("looks", [0, 300, 2000])
def test_the_link_when_time_is_up(cancer, links, looks, clock, monkeypatch):
    X, y, new = within(cancer, 100)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    clock.step = 1.0
    clf = make(n_draws=10_000, tol=0, max_time=looks + 0.5).fit(X, y)
    assert len(links) == 1
    if looks == 2000:
        before = clf.draws_.resume.before
        assert_array_equal(before.n_seen + before.n_unseen, clf.n_draws_)
    link = clf.predictor_.link
    assert np.all(np.isfinite(link.weights))
    assert np.all(np.isfinite(link.offset))
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
