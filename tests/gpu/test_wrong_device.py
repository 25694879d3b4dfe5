"""No tensor is left on the host, or comes to it unasked: the device is a memory apart."""

# ruff: noqa: E402

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import make, press_ctrl_c, within
from helpers.device_rows import ball_problem, make_balls
from helpers.stand_in import CPU, FAR, FarTensor, WrongDeviceError, let_cuda_be

from bayespoint import VersionSpace, inference
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.gpu.inputs import DeviceInputs
from bayespoint.gpu.loops import perceptron_torch
from bayespoint.inference.billiard.balls import TRAVEL
from bayespoint.space.kernels import Kernel

M = 16

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def few(cancer, n=M):
    """A few points of both classes, their labels, and new points."""
    return within([part[12:] for part in cancer], n, 10)


def on_the_cpu(monkeypatch, work):
    """Do some work with the CPU as the device."""
    with monkeypatch.context() as patch:
        let_cuda_be(patch, CPU)
        return work()


@pytest.mark.usefixtures("apart")
def test_the_device_tells_when_memories_are_mixed():
    """Or this tests nothing."""
    here = torch.arange(6.0).reshape(2, 3)
    there = here.to(FAR)
    assert isinstance(there, FarTensor)
    assert there.device == FAR
    for mixed in (
        lambda: here + there,
        lambda: torch.mm(here, there.T),
        lambda: there.mul_(here),
        lambda: here[there[:, 0].long()],
        lambda: torch.cat([here, there]),
        lambda: torch.where(there > 2, here, there),
        lambda: torch.mm(here, here.T, out=torch.zeros(2, 2, device=FAR)),
    ):
        with pytest.raises(WrongDeviceError):
            mixed()
    with pytest.raises((TypeError, RuntimeError), match="numpy"):
        there.numpy()
    # What a GPU does as well: copies, numbers, and tensors made there.
    assert_array_equal(there.cpu().numpy(), here)
    assert_array_equal((there * 2 + torch.ones_like(there)).cpu(), 2 * here + 1)
    assert float(there.sum()) == 15
    there[:, [0, 2]] = 7
    assert_array_equal(there.cpu()[:, [0, 2]], 7)
    assert_array_equal(there[1].cpu(), there.cpu()[1])


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("linear", np.float32), ("poly", np.float64), ("rbf", np.float32), ("laplacian", np.float64)],
)
def test_perceptrons(cancer, kernel, dtype, apart, monkeypatch):
    X, y, new = few(cancer)
    X = X.astype(dtype)
    y = y + 2 * (X[:, 1] > 0)

    def fit():
        clf = make(n_draws=2, kernel=kernel, softness=0.5).fit(X, y)
        return clf.dual_coef_, clf.predict_proba(new), clf.sample_proba(new[:3], 2, 0)

    for found, expected in zip(fit(), on_the_cpu(monkeypatch, fit), strict=True):
        assert_array_equal(found, expected)
    # Nothing of the Gram matrix comes to the host.
    assert apart
    assert (M, M) not in apart


@pytest.mark.parametrize(("inference", "n"), [("billiard", 10), ("ep", M)])
def test_posteriors(cancer, inference, n, apart, monkeypatch):
    X, y, new = few(cancer, n)

    def fit():
        clf = make(inference, n_draws=4, tol=0).fit(X, y)
        return clf.predict_proba(new), clf.label_error_proba_, clf.posterior().bayes_point()

    for found, expected in zip(fit(), on_the_cpu(monkeypatch, fit), strict=True):
        assert_array_equal(found, expected)
    assert apart


@pytest.mark.parametrize("kind", ["sparse", "Gram matrix", "weights", "held-out", "few rows"])
def test_other_inputs_and_settings(cancer, kind, monkeypatch, memory, apart):
    X, y, new = few(cancer, 24)
    X, y, weight, settings = np.vstack([X, X[:3]]), np.append(y, y[:3]), None, {}
    if kind == "sparse":
        X, new = sp.csr_matrix(X), sp.csr_matrix(new)
    elif kind == "Gram matrix":
        X, new, settings = X @ X.T, new @ X.T, {"kernel": "precomputed"}
    elif kind == "weights":
        weight, settings = np.arange(27) % 3, {"class_weight": "balanced"}
    elif kind == "held-out":
        settings = {"gamma": "held-out", "bias": "auto"}
    else:
        X = np.vstack([X, 1.1 * X, 0.9 * X, X + 0.01])
        y = np.tile(y, 4)
        memory(int(70 * 96 * 8 / 0.7))

    def fit():
        clf = make(n_draws=2, **settings).fit(X, y, weight)
        return clf.dual_coef_, clf.predict_proba(new), clf.gamma_, clf.softness_

    for found, expected in zip(fit(), on_the_cpu(monkeypatch, fit), strict=True):
        assert_array_equal(found, expected)
    assert apart


def test_tensors_stay_on_the_device(cancer, apart):
    """Support points are kept as an array; nothing else of X comes to the host."""
    X, y, new = within(cancer, 60)
    arrays = make().fit(X, y)
    there, label, unseen = (torch.from_numpy(a).to(FAR) for a in (X, y, new))
    apart.clear()
    clf = make().fit(there, label)
    copied = [shape[0] for shape in apart if len(shape) == 2 and shape[1] == X.shape[1]]
    assert sum(copied) == len(clf.support_) < len(X)
    assert_array_equal(clf.dual_coef_, arrays.dual_coef_)
    assert_array_equal(clf.support_vectors_, arrays.support_vectors_)
    expected = arrays.predict_proba(new)
    apart.clear()
    found = clf.predict_proba(unseen)
    assert type(found) is np.ndarray
    assert tuple(unseen.shape) not in apart
    assert_array_equal(found, expected)
    # Predictions on the host take them from there; a fit on the host says what to do.
    assert_array_equal(clf.set_params(device="cpu").predict(unseen), clf.predict(new))
    with pytest.raises(ValueError, match=r"X is a PyTorch tensor|tensor .* GPU|device"):
        make(device="cpu").fit(there, y)


def test_a_model_predicts_on_one_device_after_another(cancer, apart, monkeypatch):
    """What it keeps on the one is not taken for what is on the other."""
    X, y, new = few(cancer)
    clf = on_the_cpu(monkeypatch, lambda: make(n_draws=2).fit(X, y))
    first = on_the_cpu(monkeypatch, lambda: clf.predict_proba(new))
    assert not apart
    assert_array_equal(clf.predict_proba(new), first)
    assert apart
    assert_array_equal(on_the_cpu(monkeypatch, lambda: clf.predict_proba(new)), first)


def test_sampling_functions(apart, monkeypatch):
    X = np.random.default_rng(0).normal(size=(M, 5))
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    space = VersionSpace(K.astype(np.float32), np.sign(X[:, 0] + 0.3), softness=0.05)

    def sample():
        common = {"random_state": 0, "device": "cuda"}
        return (
            inference.sample_perceptron(space, 3, **common).bayes_point(),
            inference.sample_billiard(space, 4, n_chains=4, burn_in=1, **common).bayes_point(),
            inference.expectation_propagation(space, device="cuda").bayes_point(),
        )

    for found, expected in zip(sample(), on_the_cpu(monkeypatch, sample), strict=True):
        assert_array_equal(found, expected)
    assert apart


@pytest.mark.usefixtures("apart")
def test_what_is_kept_on_the_device_is_there():
    X = np.random.default_rng(0).normal(size=(M, 3))
    inputs = DeviceInputs(X, FAR)
    kernel = inputs.fit_layout(Kernel("rbf"))
    rows = inputs.take(np.arange(12)).rows(kernel, 10**9, Threads(1))
    part = rows.part(np.arange(5))
    for one in (rows, part):
        one.ensure(())
        factor = one.factorise(0.1, Threads(1))
        held = (one.store, one.slots, *one.points, factor.solve(one.store))
        assert all(tensor is None or tensor.device == FAR for tensor in held)
        assert one.device == FAR
        white = np.eye(len(one))
        for found in (factor.outputs(white), factor.white(white), factor.coefficients(white),
                      factor.precision(), factor.whitener(), one.matrix()):  # fmt: skip
            assert type(found) is np.ndarray
        assert not list(one.coinciding(1e-9))
    assert type(rows.outputs(0.1, np.eye(12))) is np.ndarray
    assert type(rows.submatrix(np.arange(3))) is np.ndarray


@pytest.mark.usefixtures("apart")
def test_balls_that_lost_their_way_fly_again_there(monkeypatch):
    from bayespoint.gpu.loops import billiard_torch

    true, calls = billiard_torch.fly, []

    def straying(*args, **state):
        true(*args, **state)
        calls.append(len(args[0]))
        if len(calls) == 1:
            state["coef_p"][2].neg_()
            state["coef_q"][2].neg_()

    monkeypatch.setattr(billiard_torch, "fly", straying)
    balls = make_balls(ball_problem(m=M, noise=0.1), np.float32, n_balls=4, device=FAR)
    coef, _ = balls.step(1, 1, TRAVEL, Budget(), Threads(1))
    assert balls.counts()["restarts"] == 1
    assert np.all(np.isfinite(coef))


@pytest.mark.usefixtures("apart")
def test_ctrl_c(cancer, monkeypatch):
    """What was cut short is verified there, too."""
    X, y, new = few(cancer, 24)
    monkeypatch.setattr("bayespoint.gpu.perceptrons.UPDATE_WORK", 1)
    press_ctrl_c(monkeypatch, perceptron_torch, "advance", lambda call, *_: call == 2)
    clf = make(n_draws=2)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert not clf.draws_.finished
    assert np.all(np.isfinite(clf.predict_proba(new)))
