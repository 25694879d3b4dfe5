"""Ctrl-C, time limits and warm starts on a device leave the model that they leave on the CPU."""

# ruff: noqa: E402

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import make, press_ctrl_c, within

from bayespoint.estimators.calibration import FOLDS, folds_of
from bayespoint.gpu import billiards as gpu_billiards
from bayespoint.gpu import perceptrons as gpu_perceptrons
from bayespoint.gpu.loops import billiard_torch, perceptron_torch
from bayespoint.gpu.sites import DeviceBlock

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def short_steps(monkeypatch):
    """Let loops come back to Python after each update or wall."""
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    monkeypatch.setattr(gpu_billiards, "EVENT_WORK", 1)


def interrupted(clf, X, y):
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    return clf


@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_more_draws_with_warm_start(cancer, inference):
    X, y, new = within(cancer, 40)
    first = 4 if inference == "perceptron" else 32
    grown = make(inference, n_draws=first, warm_start=True, tol=0).fit(X, y)
    held = grown.posterior().draws()
    assert grown.n_draws_ == first
    grown = pickle.loads(pickle.dumps(grown)).set_params(n_draws=2 * first).fit(X, y)
    assert grown.n_draws_ == 2 * first
    if inference == "perceptron":
        at_once = make(n_draws=8, tol=0).fit(X, y)
        assert_allclose(grown.dual_coef_, at_once.dual_coef_, rtol=1e-9)
        assert_allclose(grown.predict_proba(new), at_once.predict_proba(new), atol=1e-9)
    else:
        draws = grown.posterior().draws()
        assert_array_equal(draws[:, : held.shape[1]], held)
        assert np.all(np.abs(draws[:, held.shape[1] :] - held).max(axis=2) > 1e-3)  # new ones
    with pytest.raises(ValueError, match=r"warm_start.*gamma"):
        grown.set_params(gamma=0.01).fit(X, y)


def test_draws_of_one_device_go_on_on_the_other(cancer):
    X, y, new = within(cancer, 40)
    clf = make(device="cpu", warm_start=True).fit(X, y)
    clf.set_params(device="cuda", n_draws=8).fit(X, y)
    assert clf.n_draws_ == 8
    at_once = make(device="cpu", n_draws=8).fit(X, y)
    assert_allclose(clf.predict_proba(new), at_once.predict_proba(new), atol=1e-4)


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
@pytest.mark.parametrize("looks", [0, 500], ids=["no time", "some time"])
def test_max_time_leaves_a_usable_fit(cancer, inference, looks, clock):
    X, y, new = within(cancer, 30)
    clock.step = 1.0
    clf = make(inference, n_draws=10_000, tol=0, max_time=looks + 0.5).fit(X, y)
    assert 1 <= clf.n_draws_ < 10_000
    assert np.all(np.isfinite(clf.predict_proba(new)))
    clf.set_params(warm_start=True, max_time=None, n_draws=clf.n_draws_ + 4).fit(X, y)
    assert clf.n_draws_ >= 5


def all_visited(orders, targets):
    """Whether runs go on with all points, after those of a fold were left out."""
    return orders.shape[1] == targets.shape[1]


def n_ended(cursors):
    return int((cursors[:, perceptron_torch.WANTED] < 0).sum())


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("at", [1, 5, 24])
def test_ctrl_c_among_perceptrons(cancer, at, monkeypatch):
    X, y, new = within(cancer, 80)
    pressed = press_ctrl_c(monkeypatch, perceptron_torch, "advance", lambda call, *_: call == at)
    clf = interrupted(make(n_draws=4), X, y)
    assert pressed == [at]
    assert 1 <= clf.n_draws_ <= 4
    assert np.all(np.isfinite(clf.predict_proba(new)))
    kept = clf.draws_.finished
    clf.set_params(warm_start=True, device="cpu").fit(X, y)
    assert clf.n_draws_ == 4
    if not kept:  # a draw that was cut short is no part of what comes after it
        at_once = make(device="cpu", n_draws=4).fit(X, y)
        assert_allclose(clf.predict_proba(new), at_once.predict_proba(new), atol=1e-4)
    assert kept == (at == 24)
    assert np.all(clf.draws_.resume.finished)


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("enough", [1, 6, 11])
def test_draws_that_ended_before_ctrl_c_are_kept(cancer, enough, monkeypatch):
    """As on the CPU: of several runs in flight, those that had converged by then count.

    So do their outputs before they had seen all points, and no others.
    """
    X, y, new = within(cancer, 80)

    def when(_, runs, orders, ranks, n_machines, targets, *args):  # noqa: ARG001
        return all_visited(orders, targets) and n_ended(args[-3]) >= enough

    pressed = press_ctrl_c(monkeypatch, perceptron_torch, "advance", when)
    clf = interrupted(make(n_draws=12, tol=0), X, y)
    assert pressed
    assert enough <= clf.n_draws_ < 12
    assert clf.draws_.finished
    sums = clf.draws_.resume
    assert np.all(sums.finished)
    assert_array_equal(sums.before.n_seen + sums.before.n_unseen, clf.n_draws_)
    fold = folds_of(y[clf.trained_.row])
    assert_array_equal(
        sums.before.n_unseen, np.bincount(sums.numbers % FOLDS, minlength=FOLDS)[fold]
    )
    assert np.all(np.isfinite(clf.predict_proba(new)))


@pytest.mark.parametrize("at", [1, 2, 22])
def test_ctrl_c_among_billiard_balls(cancer, at, monkeypatch):
    X, y, new = within(cancer, 30)
    whole = make("billiard", n_draws=128, tol=0).fit(X, y).posterior().draws()
    press_ctrl_c(monkeypatch, billiard_torch, "fly", lambda call, *_: call == at)
    clf = interrupted(make("billiard", n_draws=128, tol=0), X, y)
    assert clf.n_draws_ < 128
    assert np.all(np.isfinite(clf.predict_proba(new)))
    # The flight that Ctrl-C fell into, the second after 20 of burn-in, is the last that counts.
    kept = clf.posterior().draws()
    assert clf.draws_.finished == (at == 22)
    assert kept.shape == (32, 2 if at == 22 else 1, 30)
    assert np.array_equal(kept, whole[:, : kept.shape[1]]) == (at == 22)


def test_ctrl_c_during_the_factor_leaves_the_model_that_was_there(cancer, monkeypatch):
    X, y, new = within(cancer, 30)
    clf = make("billiard", n_draws=64, warm_start=True, tol=0).fit(X, y)
    held = clf.posterior().draws(), clf.predict_proba(new)
    press_ctrl_c(monkeypatch, torch.linalg, "cholesky_ex", lambda call, *_: call == 1)
    interrupted(clf.set_params(n_draws=128), X, y)
    assert clf.n_draws_ == 64
    assert_array_equal(clf.posterior().draws(), held[0])
    assert_array_equal(clf.predict_proba(new), held[1])
    clf.fit(X, y)  # goes on from there
    assert clf.n_draws_ == 128
    assert_array_equal(clf.posterior().draws()[:, :2], held[0])


@pytest.mark.parametrize("at", [1, 3])
def test_ctrl_c_among_the_sweeps_of_ep(cancer, at, monkeypatch):
    X, y, new = within(cancer, 40)
    press_ctrl_c(monkeypatch, DeviceBlock, "sweep", lambda call, *_: call == at)
    clf = interrupted(make("ep"), X, y)
    assert_array_equal(clf.diagnostics_["sweeps"], at)
    assert np.all(np.isfinite(clf.predict_proba(new)))
