"""``device="cuda"`` through its PyTorch references: the CPU stands in for the GPU.

What this cannot show (the Triton kernels, and tensors that are not on the host) is in `tests/cuda`.
"""

# ruff: noqa: E402

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.paths import SOURCE
from helpers.thresholds import compare_means, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small matrices, and a process on every core

from bayespoint import BayesPointClassifier, EmptyVersionSpaceError
from bayespoint._support import devices
from bayespoint._support.devices import DeviceError
from bayespoint.estimators import calibration, classifier
from bayespoint.gpu import device as gpu_device
from bayespoint.gpu import factor as gpu_factor
from bayespoint.gpu import inputs as gpu_inputs
from bayespoint.gpu import perceptrons as gpu_perceptrons
from bayespoint.gpu import rows as gpu_rows
from bayespoint.inference import engines
from bayespoint.inference.billiard.method import Billiards
from bayespoint.inference.methods import METHODS
from bayespoint.space.kernels import scale_gamma

CPU = torch.device("cpu")

# Settings that data would choose otherwise.
FIXED = {"gamma": 0.05, "softness": 0.05, "bias": 0.5, "random_state": 0}


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """Let the CPU be the GPU."""
    monkeypatch.setattr(engines, "torch_device", lambda device: None if device == "cpu" else CPU)


@pytest.fixture
def no_stand_in(gpu, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(engines, "torch_device", devices.torch_device)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def make(inference="perceptron", device="cuda", **settings):
    settings = {"n_draws": 4, "inference": inference, **FIXED, **settings}
    return BayesPointClassifier(device=device, **settings)


def fitted_pair(X, y, weight=None, **settings):
    """The same fit on both devices."""
    pair = [make(device=device, **settings).fit(X, y, weight) for device in ("cpu", "cuda")]
    assert [clf.device_ for clf in pair] == ["cpu", "cuda"]
    return pair


def assert_equal_fits(theirs, ours, new, slack=1e-6):
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.classes_, theirs.classes_)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=slack)
    assert_allclose(ours.bayes_point_error_, theirs.bayes_point_error_, rtol=1e-4)
    assert ours.n_draws_ == theirs.n_draws_
    assert_array_equal(np.asarray(ours.support_vectors_), _dense(theirs.support_vectors_))
    assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-4)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-4)


def _dense(X):
    return X.toarray() if sp.issparse(X) else X


def kernel_of(clf):
    return clf.predictor_.support.kernel


def within(X, y, n):
    return X[:n], y[:n], X[n : n + 200]


# ---------------------------------------------------------------------- the same as on the CPU


KERNELS = {
    "rbf": {},
    "linear": {"softness": 0.5},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.1},
    "laplacian": {"gamma": 0.02},
    "rbf, not normalised": {"normalize_kernel": False, "bias": 0.0},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_perceptrons_are_those_of_the_cpu(digits, kernel, dtype):
    X, y, new = within(digits[0].astype(dtype), digits[1], 250)
    settings = {"kernel": kernel.split(",")[0], **KERNELS[kernel]}
    theirs, ours = fitted_pair(X, y, **settings)
    assert_equal_fits(theirs, ours, new)
    assert ours.support_vectors_.dtype == dtype
    for c in (0, 9):
        assert_allclose(ours.posterior(c).coef.toarray(), theirs.posterior(c).coef.toarray(),
                        atol=1e-5)  # fmt: skip
    assert ours.score(X, y) > 0.98
    # Negative control: another seed is seen.
    other = make(**{**settings, "random_state": 1}).fit(X, y)
    assert not np.array_equal(other.support_, ours.support_) or not np.allclose(
        other.dual_coef_, ours.dual_coef_, atol=1e-3
    )


def test_two_classes(cancer):
    X, y, new = within(*cancer, 200)
    names = np.array(["benign", "malign"])[y]
    theirs, ours = fitted_pair(X, names)
    assert_equal_fits(theirs, ours, new)
    assert set(ours.predict(new)) <= {"benign", "malign"}


@pytest.mark.parametrize(
    "options",
    [{}, {"gamma": "evidence", "softness": "evidence"}, {"gamma": "scale"}],
    ids=["held-out", "evidence", "scale"],
)
def test_settings_are_chosen_alike(digits, options):
    X, y, new = within(*digits, 200)
    settings = {"gamma": "held-out", "softness": "held-out", "bias": "auto", **options}
    if options.get("gamma") == "evidence":
        y = (y > 4).astype(int)  # ten classes take long
    theirs, ours = fitted_pair(X, y, **settings)
    for name in ("gamma_", "softness_", "bias_"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-3)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=0.02)


def test_given_gram_matrices(digits):
    X, y, new = within(*digits, 150)
    for dtype in (np.float64, np.float32):
        K = ((X @ X.T + 1) ** 2).astype(dtype)
        theirs, ours = fitted_pair(K, y, kernel="precomputed", inference="perceptron")
        assert_equal_fits(theirs, ours, ((new @ X.T + 1) ** 2).astype(dtype))
    with pytest.raises(ValueError, match=r"kernel='precomputed' needs a square"):
        make(kernel="precomputed").fit(K[:, :9], y)
    K[3, 17] = K[17, 3] = 2 * K.max()
    for device in ("cpu", "cuda"):
        with pytest.raises(ValueError, match=r"exceeds sqrt.*for points \[(3, )?17\]\. Use"):
            make(device=device, kernel="precomputed").fit(K, y)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.coo_matrix])
def test_sparse_input(digits, kind):
    X, y, new = within(digits[0].astype(np.float64), digits[1], 200)
    X[X < 0.3] = 0.0
    dense = make().fit(X, y)
    ours = make().fit(kind(X), y)
    assert_array_equal(ours.dual_coef_, dense.dual_coef_)
    assert_array_equal(ours.predict_proba(kind(new)), dense.predict_proba(new))
    theirs = make(device="cpu").fit(kind(X), y)
    assert_equal_fits(theirs, ours, new)


def test_weights_and_copies(cancer):
    X, y, new = within(*cancer, 150)
    rng = np.random.default_rng(0)
    weight = rng.integers(4, size=150).astype(float)
    X, y = np.vstack([X, X[:30], -0.0 * X[:1]]), np.append(y, [*y[:30], 0])
    weight = np.append(weight, np.ones(31))
    theirs, ours = fitted_pair(X, y, weight)
    assert_equal_fits(theirs, ours, new)
    assert ours.draws_.coef[0].shape[1] < np.count_nonzero(weight)
    copied = np.repeat(np.arange(len(X)), weight.astype(int))
    again = make().fit(X[copied], y[copied])
    assert_allclose(again.predict_proba(new), ours.predict_proba(new), atol=1e-6)
    balanced = fitted_pair(X, y, weight, class_weight="balanced")
    assert_equal_fits(*balanced, new)
    assert np.abs(balanced[1].decision_function(new) - ours.decision_function(new)).max() > 1e-3
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        make().fit(X, y, 0 * weight)


@pytest.mark.parametrize("few", [False, True], ids=["all rows", "rows in blocks"])
def test_rows_that_do_not_fit_are_computed_in_blocks(digits, few, monkeypatch):
    X, y, new = within(*digits, 400)
    theirs = make(device="cpu").fit(X, y)
    made = []

    class Recorded(gpu_rows.DeviceRows):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(gpu_inputs, "DeviceRows", Recorded)
    if few:
        room = int(70 * 400 * 4 / gpu_rows.STORE_SHARE)
        monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: room)
        # The folds of the link need fewer rows, of which more fit.
    ours = make().fit(X, y)
    assert made[0].whole != few
    assert few == (made[0].n_computed > 400)
    assert_equal_fits(theirs, ours, new)


def test_rows_that_were_merged_leave_the_device(cancer, monkeypatch):
    """From then on, only the distinct ones take memory there."""
    X, y, _ = within(*cancer, 60)
    given, alive, true = [], [], METHODS["perceptron"].infer

    class Recorded(gpu_inputs.DeviceInputs):
        def __init__(self, *args):
            super().__init__(*args)
            given.append(weakref.ref(self))

    def infer(*args):
        alive.append(given[0]() is not None)
        return true(*args)

    monkeypatch.setattr(gpu_device, "DeviceInputs", Recorded)
    monkeypatch.setattr(METHODS["perceptron"], "infer", infer)
    make().fit(np.vstack([X, X[:5]]), np.append(y, y[:5]))
    assert len(given) == 1
    assert alive == [False]


@pytest.mark.parametrize("inference", ["perceptron", "billiard", "ep"])
@pytest.mark.parametrize("kind", ["array", "memory map", "sparse", "Gram matrix"])
def test_arrays_that_must_not_be_written_to(cancer, inference, kind, tmp_path):
    X, y, new = within(*cancer, 60)
    settings = {"n_draws": 40, "decision": "bayes_point"}
    if kind == "Gram matrix":
        settings["kernel"], X, new = "precomputed", X @ X.T, new @ X.T
    given = sp.csr_matrix(X) if kind == "sparse" else X.copy()
    expected = make(inference, **settings).fit(given, y)
    if kind == "memory map":
        joblib.dump((given, y), tmp_path / "data")
        given, y = joblib.load(tmp_path / "data", mmap_mode="r")
    for array in (given.data, given.indices, given.indptr) if kind == "sparse" else (given,):
        array.flags.writeable = False
    torch.set_warn_always(True)  # PyTorch warns but once
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clf = make(inference, **settings).fit(given, y)
            # A model whose arrays are mapped, too, and further draws from there.
            joblib.dump(clf, tmp_path / "model")
            clf = joblib.load(tmp_path / "model", mmap_mode="r")
            assert_array_equal(clf.predict_proba(new), expected.predict_proba(new))
            clf.set_params(warm_start=True, n_draws=80, tol=0).fit(given, y)
    finally:
        torch.set_warn_always(False)
    assert clf.n_draws_ >= 80
    assert_array_equal(_dense(given), X)


# ---------------------------------------------------------------------- the billiard


def test_the_billiard_has_the_law_of_the_cpu(cancer):
    """Mean margins of all points over the draws, in 16 independent fits of each."""
    X, y = cancer[0][:40], cancer[1][:40]

    def check(length, seed):
        seeds = np.random.SeedSequence(seed).generate_state(32).tolist()
        means = []
        for k, one in enumerate(seeds):
            device = "cuda" if k % 2 else "cpu"
            clf = make("billiard", device, n_draws=length, tol=0, random_state=one)
            coef = clf.fit(X, y).posterior().draws().mean(axis=(0, 1))
            K = kernel_of(clf)(X) + clf.softness_ * np.eye(40)
            means.append((coef @ K)[::4])
        means = np.array(means)
        return compare_means(means[::2] - means[1::2], 0.0)

    result = two_stage(check, length=64, seed=0)
    assert result.passed, result
    assert result.detectable < 0.15, result


@pytest.mark.parametrize(
    ("noise", "decision"), [(0.0, "vote"), (0.0, "bayes_point"), (0.1, "vote")]
)
def test_the_billiard_and_its_probabilities(cancer, noise, decision):
    X, y, new = within(*cancer, 80)
    settings = {"n_draws": 160, "decision": decision, "label_noise": noise, "softness": 0.2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs, ours = fitted_pair(X, y, inference="billiard", **settings)
    # Monte-Carlo error of some hundred draws, which depend on each other with noise.
    assert np.abs(ours.predict_proba(new) - theirs.predict_proba(new)).mean() < 0.03
    assert_allclose(ours.label_error_proba_, theirs.label_error_proba_, atol=0.25 if noise else 0.1)
    assert set(ours.diagnostics_) == set(theirs.diagnostics_)
    assert np.all(ours.diagnostics_["bounces"] > 0)
    assert np.any(ours.diagnostics_["passes"]) == bool(noise)
    assert ours.n_draws_ >= 160
    post = ours.posterior()
    for source in ("kicks", "fit"):
        assert (
            post.bayes_point(source) @ kernel_of(theirs)(X) @ theirs.posterior().bayes_point() > 0.7
        )
    if not noise:
        K = kernel_of(ours)(X) + ours.softness_ * np.eye(80)
        margins = np.where(y == 1, 1, -1) * (post.draws().reshape(-1, 80) @ K)
        assert margins.min() > -1e-7


def test_the_billiard_in_several_classes(digits):
    X, y, new = within(*digits, 150)
    theirs, ours = fitted_pair(X, y, inference="billiard", n_draws=40, label_noise=0.0)
    assert ours.diagnostics_["bounces"].shape == (10, ours.draws_.n_chains)
    assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.95
    assert np.abs(ours.predict_proba(new) - theirs.predict_proba(new)).mean() < 0.02
    assert ours.sample_proba(new[:5], 3, 0).shape == (3, 5, 10)


def test_two_points():
    """A quarter circle: flights of a quarter turn must not come back for ever."""
    X, y = np.array([[-30.0], [30.0]]), [0, 1]
    angles = []
    for device in ("cpu", "cuda"):
        clf = make("billiard", device, n_draws=2000, gamma=1.0, bias=0.0, softness=0.0, tol=0)
        clf.fit(X, y)
        draws = np.abs(clf.posterior().draws().reshape(-1, 2))
        angles.append(np.sort(np.arctan2(draws[:, 0], draws[:, 1])))
    for found in angles:
        empirical = np.arange(1, len(found) + 1) / len(found)
        assert np.abs(found / (np.pi / 2) - empirical).max() < 0.1


# ---------------------------------------------------------------------- tensors


@pytest.fixture
def watched(monkeypatch):
    """Shapes of the tensors that were copied to the host."""
    shapes, true = [], torch.Tensor.cpu

    def cpu(self, *args, **kwargs):
        shapes.append(tuple(self.shape))
        return true(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    return shapes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_in_arrays_out(digits, dtype, watched):
    X, y, new = within(digits[0], digits[1] > 4, 300)
    arrays = make().fit(X.astype(str(dtype).removeprefix("torch.")), y)
    watched.clear()
    clf = make().fit(torch.from_numpy(X).to(dtype), torch.from_numpy(y))
    # Support points are kept as an array; nothing else of X comes to the host.
    copied = [shape[0] for shape in watched if len(shape) == 2 and shape[1] == X.shape[1]]
    assert sum(copied) == len(clf.support_) < len(X)
    assert_array_equal(clf.dual_coef_, arrays.dual_coef_)
    assert_array_equal(clf.support_vectors_, arrays.support_vectors_)
    watched.clear()
    unseen = torch.from_numpy(new).to(dtype)
    for method in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
        found = getattr(clf, method)(unseen)
        assert type(found) is np.ndarray
        assert_allclose(found, getattr(arrays, method)(new), atol=1e-5)
    assert not [shape for shape in watched if shape == tuple(unseen.shape)]
    assert type(clf.sample_proba(unseen, 2, 0)) is np.ndarray
    assert clf.score(unseen, digits[1][300:500] > 4) > 0.8


def test_votes_on_tensors(cancer):
    X, y, new = within(*cancer, 80)
    clf = make("billiard", n_draws=40).fit(torch.from_numpy(X), torch.from_numpy(y))
    arrays = make("billiard", n_draws=40).fit(X, y)
    assert_array_equal(clf.predict_proba(torch.from_numpy(new)), arrays.predict_proba(new))


def test_labels_and_tensors_of_other_kinds(digits):
    X, y, _ = within(*digits, 120)
    reference = make().fit(X, y)
    names = np.array(list("abcdefghij"))[y]
    assert make().fit(torch.from_numpy(X), names).score(X, names) > 0.98
    for tensor in (
        torch.from_numpy(X).requires_grad_(),
        torch.from_numpy(np.repeat(X, 2, axis=1))[:, ::2],  # not contiguous
        torch.from_numpy(X.T.copy()).T,
    ):
        clf = make().fit(tensor, y.tolist())
        assert_array_equal(clf.dual_coef_, reference.dual_coef_)
        assert_array_equal(clf.predict(tensor), reference.predict(X))
    half = torch.from_numpy(X).half()  # taken to float32
    assert make().fit(half, y).support_vectors_.dtype == np.float32
    whole = torch.from_numpy((16 * X).astype(np.int64))
    assert make(gamma=0.05 / 256).fit(whole, y).score(whole, y) > 0.98


def test_tensors_that_are_wrong(digits):
    X, y, _ = within(*digits, 60)
    tensor = torch.from_numpy(X)
    clf = make().fit(tensor, y)
    wrong = tensor.clone()
    wrong[3, 4] = torch.nan
    for X_, y_, match in (
        (wrong, y, "NaN"),
        (tensor[0], y, "two dimensions"),
        (tensor, y[:-1], "inconsistent numbers of samples"),
        (tensor[:0], y[:0], "0 rows|0 sample"),
        (tensor[:, :0], y, "0 columns|0 feature"),
        (tensor, np.where(y == 3, np.nan, y), "NaN"),
    ):
        with pytest.raises(ValueError, match=match):
            make().fit(X_, y_)
    for X_, match in ((tensor[:, :5], "5 features.*expecting 64"), (wrong, "NaN"),
                      (tensor[0], "two dimensions")):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            clf.predict(X_)


@pytest.mark.usefixtures("no_stand_in")
def test_tensors_on_the_host_are_arrays_to_a_fit_there(digits):
    X, y, new = within(*digits, 60)
    ours = make(device="cpu").fit(torch.from_numpy(X), y)
    assert_array_equal(ours.predict(new), make(device="cpu").fit(X, y).predict(new))


def test_tensors_do_for_predictions_of_a_model_on_the_cpu(digits):
    X, y, new = within(*digits, 60)
    clf = make().fit(X, y).set_params(device="cpu")
    assert_array_equal(clf.predict(torch.from_numpy(new)), clf.predict(new))


# ---------------------------------------------------------------------- what is refused


def test_messages_are_those_of_the_cpu(cancer):
    X, y, _ = within(*cancer, 60)
    with_nan, with_inf, twice = X.copy(), X.copy(), np.vstack([X, X[:1]])
    with_nan[4, 2], with_inf[4, 2] = np.nan, np.inf
    bad = [
        (with_nan, y, {}),
        (with_inf, y, {}),
        (sp.csr_matrix(with_nan), y, {}),
        (X[:, 0], y, {}),
        (X, y[:5], {}),
        (X, np.ones(60), {}),
        (X[:0], y[:0], {}),
        (twice, np.append(y, 1 - y[0]), {"softness": 0.0}),
        (np.vstack([X, 0 * X[:1]]), np.append(y, 0), {"kernel": "linear", "bias": 0.0}),
        (X, y, {"inference": "billiard", "decision": "calibrated"}),
        (X[:, :1], np.arange(60) % 2, {"kernel": "linear", "softness": 0.0}),
        # Negative on the diagonal, though not with the bias; and what overflows.
        (np.diag(np.where(np.arange(60) == 7, -0.1, 1.0)), y, {"kernel": "precomputed"}),
        (X, y, {"kernel": "poly", "coef0": -0.2, "bias": 20.0}),
        (1e100 * X, y, {"kernel": "poly", "degree": 4}),
    ]
    for X_, y_, settings in bad:
        said = []
        for device in ("cpu", "cuda"):
            clf = make(device=device, **{"inference": "perceptron", **settings})
            with pytest.raises(ValueError) as caught:  # noqa: PT011
                clf.fit(X_, y_)
            said.append((type(caught.value), str(caught.value)))
        if said[0][0] is EmptyVersionSpaceError:  # which points, is a matter of rounding
            said = [(kind, text.partition(" training points")[0][:40]) for kind, text in said]
        assert said[0] == said[1]


def test_contradictory_rows_are_named(digits):
    X, y, _ = within(*digits, 100)
    X, y = np.vstack([X, X[17:18]]), np.append(y, (y[17] + 1) % 10)
    for X_ in (X, torch.from_numpy(X)):
        with pytest.raises(EmptyVersionSpaceError, match="equal rows, unequal labels") as caught:
            make(softness=0.0).fit(X_, y)
        assert_array_equal(caught.value.points, [17, 100])


def test_scales_that_differ_warn(cancer):
    X, y, _ = within(*cancer, 60)
    X = X * np.where(np.arange(X.shape[1]) == 3, 1e5, 1.0)
    with pytest.warns(UserWarning, match="very different scales"):
        make().fit(X, y)


def inner_products(A, B):
    return A @ B.T + 1.0


def test_callable_kernels_run_on_the_cpu(cancer):
    X, y, new = within(*cancer, 60)
    with pytest.raises(ValueError, match=r"device='cuda'.*callable.*device='cpu'"):
        make(kernel=inner_products).fit(X, y)
    clf = make(device="auto", kernel=inner_products).fit(X, y)
    assert clf.device_ == "cpu"
    expected = make(device="cpu", kernel=inner_products).fit(X, y)
    assert_array_equal(clf.predict_proba(new), expected.predict_proba(new))


def test_gibbs_is_refused_rather_than_another_method_in_silence(cancer):
    X, y, _ = within(*cancer, 25)
    with pytest.raises(ValueError, match=r"inference='gibbs'.*CPU only"):
        make("gibbs", label_noise=0.1).fit(X, y)


def test_ep(cancer):
    X, y, new = within(*cancer, 60)
    theirs, ours = make("ep", "cpu").fit(X, y), make("ep").fit(X, y)
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-3)
    assert ours.log_evidence_ == pytest.approx(theirs.log_evidence_, abs=1e-2)


@pytest.mark.usefixtures("no_stand_in")
def test_no_pytorch(monkeypatch, cancer):
    X, y, _ = within(*cancer, 60)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match=r"pip install 'bayespoint\[gpu\]'"):
        make().fit(X, y)
    assert isinstance(DeviceError("x"), RuntimeError)
    clf = make(device="auto").fit(X, y)
    assert clf.device_ == "cpu"
    assert clf.predict(X[:3]).shape == (3,)


@pytest.mark.usefixtures("no_stand_in")
def test_no_gpu(monkeypatch, cancer):
    X, y, _ = within(*cancer, 60)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"finds no CUDA GPU.*device='cpu'.*'auto'"):
        make().fit(X, y)
    assert make(device="auto").fit(X, y).device_ == "cpu"
    fitted = make(device="cpu").fit(X, y).set_params(device="cuda")
    with pytest.raises(DeviceError, match="finds no CUDA GPU"):
        fitted.predict(X)


def test_the_device_of_pytorch(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(devices, "find_spec", lambda _: None)
    assert devices.torch_device("auto") is None
    with pytest.raises(DeviceError, match="needs Triton"):
        devices.torch_device("cuda")
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    for name in ("cuda", "auto"):
        assert devices.torch_device(name) == torch.device("cuda", 3)
    assert devices.torch_device("cpu") is None
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 500)
    assert devices.free_bytes(torch.device("cuda", 3)) == int(devices.MEMORY_SHARE * 1200)


def test_too_little_memory_says_what_would_fit(digits, monkeypatch):
    X, y, _ = within(*digits, 300)
    monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: 60_000)
    with pytest.raises(DeviceError, match=r"300 points need.*about 164 points would fit.*float32"):
        make().fit(X, y)
    # Enough for some rows, not for all of them and their factor.
    monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: 200_000)
    with pytest.raises(DeviceError, match=r"300 points does not fit.*; about \d+ points would"):
        make("billiard").fit(X, y)
    monkeypatch.setattr(gpu_inputs, "free_bytes", lambda _: 10**9)
    monkeypatch.setattr(gpu_factor, "free_bytes", lambda _: 1000)
    with pytest.raises(DeviceError, match="300 points does not fit"):
        make("billiard").fit(X, y)


EXHAUSTED = (
    "CUDA out of memory. Tried to allocate 37.25 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 1.25 GiB is free. Including non-PyTorch memory, this process has 77.84 GiB in use."
)


def raising(error):
    def raises(*_, **__):
        raise error

    return raises


@pytest.mark.parametrize(
    ("error", "sizes"),
    [
        (torch.cuda.OutOfMemoryError(EXHAUSTED), r" \(37.25 GiB more were needed, 1.25 GiB free\)"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), ""),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), ""),
    ],
    ids=["PyTorch", "Triton", "cuBLAS"],
)
def test_memory_that_is_exhausted_is_an_error_that_says_what_to_do(cancer, error, sizes):
    X, y, new = within(*cancer, 60)
    start = rf"device='cuda': the GPU has no memory left{sizes}\. Free some, "
    clf = make().fit(X, y)
    held = clf.predict(new)
    for inference in ("perceptron", "billiard", "ep"):
        for owner, name in ((gpu_inputs, "prepare"), (gpu_rows.DeviceRows, "ensure")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, name, raising(error))
                with pytest.raises(
                    DeviceError, match=start + r".*float32.*or use device='cpu'"
                ) as c:
                    clone(clf).set_params(inference=inference).fit(X, y)
            assert c.value.__cause__ is error
    for owner, name, given in (
        (gpu_device, "apply_kernel", new),
        (gpu_device, "apply_kernel", torch.from_numpy(new)),
        (torch, "isfinite", torch.from_numpy(new)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, raising(error))
            for method in (clf.predict, clf.predict_proba, clf.sample_proba):
                with pytest.raises(DeviceError, match=start + "predict fewer points.*'cpu'"):
                    method(given)
    assert_array_equal(clf.predict(new), held)


def test_memory_that_is_exhausted_names_the_device_as_it_was_given(cancer, monkeypatch):
    X, y, _ = within(*cancer, 60)
    error = torch.cuda.OutOfMemoryError(EXHAUSTED)
    clf = make(device="auto").fit(X, y)
    for owner, name, work in (
        (gpu_device, "apply_kernel", lambda: clf.predict(X)),
        (gpu_inputs, "prepare", lambda: make(device="auto").fit(X, y)),
    ):
        monkeypatch.setattr(owner, name, raising(error))
        with pytest.raises(DeviceError, match=r"^device='auto': the GPU has no memory left"):
            work()


def test_other_errors_stay_what_they_are(cancer, monkeypatch):
    X, y, _ = within(*cancer, 60)
    monkeypatch.setattr(gpu_inputs, "prepare", raising(RuntimeError("something else")))
    with pytest.raises(RuntimeError, match=r"^something else$"):
        make().fit(X, y)

    # A kernel of the user may compute anywhere.
    kernel = raising(torch.cuda.OutOfMemoryError(EXHAUSTED))
    with pytest.raises(torch.cuda.OutOfMemoryError):
        make(device="cpu", kernel=kernel).fit(X, y)


def test_ep_and_given_gram_matrices_that_do_not_fit(cancer, monkeypatch):
    X, y, _ = within(*cancer, 60)
    monkeypatch.setattr(devices, "free_bytes", lambda _: 8 * 6 * 50**2)
    with pytest.raises(DeviceError, match=r"'ep' of 60 points.*about 50 points would fit"):
        make("ep").fit(X, y)
    make("ep").fit(X[:50], y[:50])
    monkeypatch.setattr(devices, "free_bytes", lambda _: 8 * 3 * 50**2)
    with pytest.raises(DeviceError, match=r"matrix of 60 points.*about 50 points would fit"):
        make(kernel="precomputed").fit(X @ X.T, y)
    make(kernel="precomputed").fit(X[:50] @ X[:50].T, y[:50])


def test_label_errors_that_were_left_out_say_why(cancer, monkeypatch):
    X, y, _ = within(*cancer, 60)
    settings = {"inference": "billiard", "n_draws": 64, "decision": "bayes_point"}
    assert make(**settings).fit(X, y).label_error_proba_.shape == (60,)
    monkeypatch.setattr(gpu_device.Device, "most_label_points", 50)
    monkeypatch.setattr(classifier, "MOST_LABEL_POINTS", 50)
    clf = make(**settings).fit(X, y)
    with pytest.raises(AttributeError, match=r"above 50 points on a GPU unless decision='vote'"):
        _ = clf.label_error_proba_
    # Where the model was taken there may be no GPU.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "torch_device", raising(DeviceError("no GPU")))
        assert not hasattr(clf, "label_error_proba_")
        assert not hasattr(clf.set_params(device="cpu"), "label_error_proba_")
    for other in ({"decision": "vote"}, {"device": "cpu"}, {"inference": "ep"}):
        assert make(**settings | other).fit(X, y).label_error_proba_.shape == (60,)
    with pytest.raises(AttributeError, match=r"fitted with 'perceptron'"):
        _ = make().fit(X, y).label_error_proba_


# ---------------------------------------------------------------------- models


def parts_of(value, seen):
    """All that a model holds."""
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    if isinstance(value, dict):
        held = value.values()
    elif isinstance(value, list | tuple | set):
        held = value
    else:
        held = getattr(value, "__dict__", {}).values() if not isinstance(value, type) else ()
    for one in held:
        yield from parts_of(one, seen)


@pytest.mark.parametrize("inference", ["perceptron", "billiard", "ep"])
@pytest.mark.parametrize("as_tensor", [False, True], ids=["arrays", "tensors"])
def test_models_hold_no_tensors_and_load_without_pytorch(cancer, inference, as_tensor, tmp_path):
    X, y, new = within(*cancer, 80)
    clf = make(inference).fit(torch.from_numpy(X) if as_tensor else X, y)
    kinds = {type(part).__module__.partition(".")[0] for part in parts_of(clf, set())}
    assert "numpy" in kinds
    assert "torch" not in kinds
    file = tmp_path / "model.pickle"
    clf.set_params(device="cpu")
    file.write_bytes(pickle.dumps(clf))
    np.savez(tmp_path / "data.npz", new=new, proba=clf.predict_proba(new))
    code = f"""
        import pickle, sys
        from pathlib import Path

        class NotInstalled:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "torch":
                    raise ModuleNotFoundError(name, name=name)

        sys.meta_path.insert(0, NotInstalled())
        import numpy as np
        clf = pickle.loads(Path({str(file)!r}).read_bytes())
        data = np.load({str(tmp_path / "data.npz")!r})
        assert np.allclose(clf.predict_proba(data["new"]), data["proba"], atol=1e-12)
        assert clf.set_params(device="auto").predict(data["new"]).shape == (200,)
        print(clf.device_)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["cuda"]


def test_predictions_on_either_device(digits):
    X, y, new = within(*digits, 200)
    clf = make(n_draws=3).fit(X, y)
    there = clf.predict_proba(new)
    here = clf.set_params(device="cpu").predict_proba(new)
    assert clf.device_ == "cuda"  # of the fit
    assert_allclose(here, there, atol=1e-5)
    assert_allclose(clf.set_params(device="cuda").predict_proba(new), there, rtol=0)
    # A model of the CPU, on the GPU.
    theirs = make(device="cpu", n_draws=3).fit(X, y)
    assert_allclose(theirs.set_params(device="cuda").predict_proba(new), there, atol=1e-4)
    assert clf.compress(0.1).predict(new).shape == (200,)


def test_sparse_models_of_the_cpu_predict_on_the_gpu(digits):
    """Their support points are kept as they were."""
    X, y, new = within(*digits, 150)
    theirs = make(device="cpu").fit(sp.csr_matrix(X), y)
    here = theirs.predict_proba(new)
    assert_allclose(theirs.set_params(device="cuda").predict_proba(new), here, atol=1e-4)
    assert_allclose(theirs.predict_proba(sp.csr_matrix(new)), here, atol=1e-4)


def test_the_same_fit_twice_has_the_same_bits(cancer):
    X, y, new = within(*cancer, 80)
    for inference in ("perceptron", "billiard"):
        one, two = (make(inference, label_noise=0.0).fit(X, y) for _ in range(2))
        assert_array_equal(one.dual_coef_, two.dual_coef_)
        assert_array_equal(one.predict_proba(new), two.predict_proba(new))


def test_the_order_of_the_rows_sets_nothing(digits):
    X, y, new = within(*digits, 150)
    order = np.random.default_rng(0).permutation(150)
    one, two = make().fit(X, y), make().fit(X[order], y[order])
    assert_allclose(one.predict_proba(new), two.predict_proba(new), atol=1e-6)


# ---------------------------------------------------------------------- stops and warm starts


@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_more_draws_with_warm_start(cancer, inference):
    X, y, new = within(*cancer, 80)
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
        assert_array_equal(grown.posterior().draws()[:, : held.shape[1]], held)
    with pytest.raises(ValueError, match=r"warm_start.*gamma"):
        grown.set_params(gamma=0.01).fit(X, y)


def test_draws_of_one_device_go_on_on_the_other(cancer):
    X, y, new = within(*cancer, 80)
    clf = make(device="cpu", warm_start=True).fit(X, y)
    clf.set_params(device="cuda", n_draws=8).fit(X, y)
    assert clf.n_draws_ == 8
    at_once = make(device="cpu", n_draws=8).fit(X, y)
    assert_allclose(clf.predict_proba(new), at_once.predict_proba(new), atol=1e-4)


@pytest.mark.parametrize("max_time", [1e-6, 0.3])
@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_max_time_leaves_a_usable_fit(cancer, inference, max_time, monkeypatch):
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    X, y, new = within(*cancer, 150)
    clf = make(inference, n_draws=10_000, tol=0, max_time=max_time)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
    assert {one.category for one in caught} <= {ConvergenceWarning}
    assert caught or max_time > 1e-3
    assert 1 <= clf.n_draws_ < 10_000
    assert np.all(np.isfinite(clf.predict_proba(new)))
    clf.set_params(warm_start=True, max_time=None, n_draws=clf.n_draws_ + 4).fit(X, y)
    assert clf.n_draws_ >= 5


def press_ctrl_c(monkeypatch, owner, name, call):
    """Press Ctrl-C at the given call of a function."""
    true, calls = getattr(owner, name), []

    def wrapped(*args, **kwargs):
        calls.append(name)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return true(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return calls


@pytest.mark.parametrize("call", [1, 5, 30])
def test_ctrl_c_among_perceptrons(cancer, call, monkeypatch):
    X, y, new = within(*cancer, 150)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    calls = press_ctrl_c(monkeypatch, gpu_perceptrons.DeviceWave, "advance", call)
    clf = make(n_draws=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    assert len(calls) >= call
    assert 1 <= clf.n_draws_ <= 4
    assert np.all(np.isfinite(clf.predict_proba(new)))
    monkeypatch.undo()
    clf.set_params(warm_start=True, device="cpu").fit(X, y)
    assert clf.n_draws_ == 4
    at_once = make(device="cpu", n_draws=4).fit(X, y)
    assert_allclose(clf.predict_proba(new), at_once.predict_proba(new), atol=1e-4)


@pytest.mark.parametrize("call", [1, 2, 22])
def test_ctrl_c_among_billiard_balls(cancer, call, monkeypatch):
    from bayespoint.gpu.billiards import DeviceBalls

    X, y, new = within(*cancer, 60)
    whole = make("billiard", n_draws=128, tol=0).fit(X, y).posterior().draws()
    press_ctrl_c(monkeypatch, DeviceBalls, "_fly_once", call)
    clf = make("billiard", n_draws=128, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    assert clf.n_draws_ < 128
    assert np.all(np.isfinite(clf.predict_proba(new)))
    # The flight that Ctrl-C fell into, the second after 20 of burn-in, is the last that counts.
    kept = clf.posterior().draws()
    assert clf.draws_.finished == (call == 22)
    assert kept.shape == (32, 2 if call == 22 else 1, 60)
    assert np.array_equal(kept, whole[:, : kept.shape[1]]) == (call == 22)


def test_ctrl_c_during_the_factor_leaves_the_model_that_was_there(cancer, monkeypatch):
    X, y, new = within(*cancer, 60)
    clf = make("billiard", n_draws=64, warm_start=True, tol=0).fit(X, y)
    held = clf.posterior().draws(), clf.predict_proba(new)
    press_ctrl_c(monkeypatch, gpu_factor, "_cholesky", 1)
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(n_draws=128).fit(X, y)
    assert clf.n_draws_ == 64
    assert_array_equal(clf.posterior().draws(), held[0])
    assert_array_equal(clf.predict_proba(new), held[1])
    clf.fit(X, y)  # goes on from there
    assert clf.n_draws_ == 128
    assert_array_equal(clf.posterior().draws()[:, :2], held[0])


@pytest.mark.parametrize("call", [1, 3])
def test_ctrl_c_among_the_sweeps_of_ep(cancer, call, monkeypatch):
    from bayespoint.gpu.sites import DeviceBlock

    X, y, new = within(*cancer, 60)
    press_ctrl_c(monkeypatch, DeviceBlock, "sweep", call)
    clf = make("ep")
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert_array_equal(clf.diagnostics_["sweeps"], call)
    assert np.all(np.isfinite(clf.predict_proba(new)))


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
    X, y, new = within(*cancer, 150)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    true, pressed = gpu_perceptrons.DeviceWave.advance, []

    def advance(self, active, *args):
        of_folds = self.orders.shape[1] < self.targets.shape[1]
        if of_folds and np.count_nonzero(self._wanted < 0) >= 2 and not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        true(self, active, *args)

    monkeypatch.setattr(gpu_perceptrons.DeviceWave, "advance", advance)
    clf = make(n_draws=1)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    ((outputs, label),) = links
    assert len(label) in (60, 90, 120)  # of two folds to four
    assert np.all(outputs != 0)
    assert np.mean((outputs > 0) == label) > 0.8
    assert np.all(np.isfinite(clf.predict_proba(new)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("failing", [(), (1, 3), range(5)], ids=["none", "two", "all"])
def test_folds_without_a_start_do_not_count(cancer, links, device, failing, monkeypatch):
    X, y, new = within(*cancer, 60)
    true, folds = Billiards._draw, []

    def draw(self, problem, *args, **kwargs):
        if len(problem.row) < 60:
            folds.append(len(folds))
            if folds[-1] in failing:
                raise ValueError("no start")
        return true(self, problem, *args, **kwargs)

    monkeypatch.setattr(Billiards, "_draw", draw)
    clf = make("billiard", device, decision="bayes_point", n_draws=64).fit(X, y)
    ((outputs, label),) = links
    assert len(folds) == 5
    assert len(label) == 60 - 12 * len(failing)
    assert np.all(outputs != 0)
    assert np.all(np.isfinite(clf.predict_proba(new)))


def test_draws_that_ended_before_ctrl_c_are_kept(cancer, monkeypatch):
    """As on the CPU: of several runs in flight, those that had converged by then count."""
    X, y, _ = within(*cancer, 150)
    monkeypatch.setattr(gpu_perceptrons, "UPDATE_WORK", 1)
    lengths = make(n_draws=12, tol=0).fit(X, y).posterior()
    assert lengths.n_draws == 12
    # After as many updates as the shortest half of the runs take, and some more.
    steps = []
    true = gpu_perceptrons.DeviceWave.advance

    def advance(self, active, *args):
        steps.append(np.count_nonzero(self._wanted < 0))
        if steps[-1] >= 6 and not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        true(self, active, *args)

    pressed = []
    monkeypatch.setattr(gpu_perceptrons.DeviceWave, "advance", advance)
    clf = make(n_draws=12, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, y)
    assert clf.n_draws_ >= 6
    assert clf.draws_.finished
    assert np.all(clf.draws_.resume.finished)


# ---------------------------------------------------------------------- imports


def test_importing_and_fitting_on_the_cpu_load_no_pytorch():
    code = """
        import sys
        import bayespoint
        from bayespoint import BayesPointClassifier, active, displays, inference
        clf = BayesPointClassifier(n_draws=3, random_state=0)
        clf.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[0.5]])
        print("torch" in sys.modules, "triton" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False"]


# ---------------------------------------------------------------------- the link beside the draws


@pytest.fixture
def few_link_points(monkeypatch):
    """Let the link be fitted to other points than all."""
    monkeypatch.setattr(calibration, "LINK_POINTS", 100)


def linked(**more):
    settings = {"gamma": 0.05, "softness": 0.05, "inference": "perceptron", "n_draws": 10}
    return BayesPointClassifier(**settings | {"random_state": 0, "device": "cuda"} | more)


@pytest.mark.usefixtures("few_link_points")
def test_the_link_beside_the_draws_is_the_one_after_them(digits, monkeypatch):
    X, y = digits
    beside, seen = gpu_device.Device.beside, []

    def noted(self, work, *args):
        seen.append(threading.get_ident())
        return beside(self, work, *args)

    def steepness(**more):
        return linked(**more).fit(X[:300], y[:300]).predictor_.steepness

    monkeypatch.setattr(gpu_device.Device, "beside", noted)
    found = [steepness(**more) for more in ({}, {"device": "cpu"})]
    assert len(seen) == 1  # on the device only
    assert_allclose(*found, rtol=1e-5)
    late = steepness(max_time=1000.0)
    assert len(seen) == 1  # with a limit of time one after the other
    assert_allclose(late, found[0], rtol=1e-5)


@pytest.mark.usefixtures("few_link_points")
@pytest.mark.parametrize("how", ["error", "interrupt"])
def test_the_link_ends_with_the_draws(digits, monkeypatch, how):
    X, y = digits
    ended, begun = [], threading.Event()

    def slow(work):
        if threading.current_thread() is threading.main_thread():  # after the draws
            return steepness(work)
        begun.set()
        while not work.plan.budget.spent():
            time.sleep(0.001)
        ended.append(how)
        return 1.0

    def infer(problem, plan, held):
        assert begun.wait(60)
        if how == "error":
            raise ValueError("no draws today")
        found = true(problem, plan, held)
        plan.budget.interrupt()
        return found

    true, steepness = METHODS["perceptron"].infer, calibration.link_steepness
    monkeypatch.setattr(calibration, "link_steepness", slow)
    monkeypatch.setattr(METHODS["perceptron"], "infer", infer)
    clf = linked()
    expected = pytest.raises(ValueError, match="no draws today")
    with expected if how == "error" else pytest.raises(KeyboardInterrupt):
        clf.fit(X[:300], y[:300])
    assert ended == [how]
    if how == "interrupt":
        assert clf.score(X[:300], y[:300]) > 0.9
        assert np.isfinite(clf.predictor_.steepness)
        assert clf.predictor_.steepness != 1.0


def test_complex_tensors_are_refused(digits):
    X, y = digits
    with pytest.raises(ValueError, match="Complex data not supported"):
        linked().fit(torch.from_numpy(X[:100]).to(torch.complex64), y[:100])


def test_labels_are_tensors_of_any_kind(digits):
    X, y = digits
    Z, chosen = torch.from_numpy(X[:300]), np.isin(y[:300], (3, 8))
    expected = linked().fit(X[:300][chosen], y[:300][chosen]).predict(X[:50])
    for kind in (torch.int8, torch.float32, torch.bfloat16):
        label = torch.from_numpy(y[:300][chosen]).to(kind)
        label = label.requires_grad_() if label.is_floating_point() else label
        for device in ("cuda", "cpu"):
            clf = linked(device=device).fit(Z[torch.from_numpy(chosen)], label)
            assert_array_equal(clf.predict(Z[:50]).astype(int), expected)
    half = Z[torch.from_numpy(chosen)].bfloat16()
    rounded = linked(device="cpu").fit(half, y[:300][chosen])
    assert rounded.support_vectors_.dtype == np.float32
    large = torch.tensor([2.0**24, 2.0**24 + 1], dtype=torch.float64)[label.int() % 2]
    assert len(linked().fit(Z[torch.from_numpy(chosen)], large).classes_) == 2


def test_a_device_that_is_none_is_refused_when_predicting(digits):
    X, y = digits
    clf = linked(device="cpu").fit(X[:100], y[:100]).set_params(device="gpu")
    with pytest.raises(ValueError, match=r"device must be one of .* got 'gpu'"):
        clf.predict(X[:2])


def test_the_scale_of_large_numbers_is_that_of_the_cpu():
    X = (1e20 * np.random.default_rng(0).normal(size=(200, 3))).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    gammas = []
    for device in ("cuda", "cpu"):
        clf = linked(gamma="scale", softness=0.1, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs, _ = engines.place_of(device).training_inputs(clf, X, y, precomputed=False)
        gammas.append(scale_gamma(3, inputs.variance(np.ones(200))))
    assert_allclose(*gammas, rtol=1e-9)
