"""What a device cannot do is refused with what to do: no GPU, too little memory, wrong data."""

# ruff: noqa: E402

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import make, within
from helpers.device_rows import make_points, rows_of
from sklearn.base import clone

from bayespoint import EmptyVersionSpaceError
from bayespoint._support import devices
from bayespoint._support.devices import DeviceError
from bayespoint.estimators import classifier
from bayespoint.gpu import device as gpu_device
from bayespoint.inference.engines import engines_of
from bayespoint.space.kernels import Kernel


def test_messages_are_those_of_the_cpu(cancer):
    X, y, _ = within(cancer, 60)
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
    X, y, _ = within(digits, 100)
    X, y = np.vstack([X, X[17:18]]), np.append(y, (y[17] + 1) % 10)
    for X_ in (X, torch.from_numpy(X)):
        with pytest.raises(EmptyVersionSpaceError, match="equal rows, unequal labels") as caught:
            make(softness=0.0).fit(X_, y)
        assert_array_equal(caught.value.points, [17, 100])


def test_scales_that_differ_warn(cancer):
    X, y, _ = within(cancer, 60)
    X = X * np.where(np.arange(X.shape[1]) == 3, 1e5, 1.0)
    with pytest.warns(UserWarning, match="very different scales"):
        make().fit(X, y)


def inner_products(A, B):
    return A @ B.T + 1.0


def test_what_runs_on_the_cpu_only(cancer):
    """Refused with "cuda", rather than something else in silence; "auto" takes the CPU."""
    X, y, new = within(cancer, 25)
    with pytest.raises(ValueError, match=r"device='cuda'.*callable.*device='cpu'"):
        make(kernel=inner_products).fit(X, y)
    clf = make(device="auto", kernel=inner_products).fit(X, y)
    assert clf.device_ == "cpu"
    expected = make(device="cpu", kernel=inner_products).fit(X, y)
    assert_array_equal(clf.predict_proba(new), expected.predict_proba(new))
    with pytest.raises(ValueError, match=r"inference='gibbs'.*CPU only"):
        make("gibbs", label_noise=0.1).fit(X, y)


def test_a_device_that_is_none_is_refused_when_predicting(cancer):
    X, y, new = within(cancer, 25)
    clf = make(device="cpu").fit(X, y).set_params(device="gpu")
    with pytest.raises(ValueError, match=r"device must be one of .* got 'gpu'"):
        clf.predict(new)


# ---------------------------------------------------------------------- no GPU


@pytest.mark.usefixtures("no_stand_in")
def test_no_pytorch(monkeypatch, cancer):
    X, y, new = within(cancer, 25)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match=r"pip install 'bayespoint\[gpu\]'"):
        make().fit(X, y)
    assert isinstance(DeviceError("x"), RuntimeError)
    clf = make(device="auto").fit(X, y)
    assert clf.device_ == "cpu"
    assert clf.predict(new[:3]).shape == (3,)


@pytest.mark.usefixtures("no_stand_in")
def test_no_gpu(monkeypatch, cancer):
    X, y, new = within(cancer, 25)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"finds no CUDA GPU.*device='cpu'.*'auto'"):
        make().fit(X, y)
    assert make(device="auto").fit(X, y).device_ == "cpu"
    fitted = make(device="cpu").fit(X, y).set_params(device="cuda")
    with pytest.raises(DeviceError, match="finds no CUDA GPU"):
        fitted.predict(new)


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


# ---------------------------------------------------------------------- too little memory


def test_too_little_memory_says_what_would_fit(digits, memory):
    X, y, _ = within(digits, 300)
    memory(60_000)
    with pytest.raises(DeviceError, match=r"300 points need.*about 164 points would fit.*float32"):
        make().fit(X, y)
    # Enough for some rows, not for all of them and their factor.
    memory(200_000)
    with pytest.raises(DeviceError, match=r"300 points does not fit.*; about \d+ points would"):
        make("billiard").fit(X, y)
    memory(int(1.5 * 4 * 300**2))
    with pytest.raises(DeviceError, match="300 points does not fit"):
        make("billiard").fit(X, y)


def test_ep_and_given_gram_matrices_that_do_not_fit(cancer, memory):
    """With the number of points that would: this many are taken, ten more are not."""
    X, y, _ = within(cancer, 60)
    memory(8 * 6 * 50**2)
    with pytest.raises(DeviceError, match=r"'ep' of 60 points.*about 50 points would fit"):
        make("ep").fit(X, y)
    make("ep").fit(X[:50], y[:50])
    memory(8 * 3 * 50**2)
    with pytest.raises(DeviceError, match=r"matrix of 60 points.*about 50 points would fit"):
        make(kernel="precomputed").fit(X @ X.T, y)
    make(kernel="precomputed").fit(X[:50] @ X[:50].T, y[:50])


def test_votes_count_only_what_comes_to_the_host(cancer):
    """The Gram matrix and its factor stay on the device; on the host they count, too."""
    X, y, _ = within(cancer, 60)
    room = 20 * 60**2 / 1e6  # bytes for each entry of a matrix over the points
    make("billiard", decision="vote", cache_size=room).fit(X, y)
    for device, least in (("cpu", room), ("cuda", 10 * 60**2 / 1e6)):
        with pytest.raises(ValueError, match="Raise cache_size, or use decision='bayes_point'"):
            make("billiard", decision="vote", device=device, cache_size=least).fit(X, y)


def test_matrices_are_refused_before_they_are_made(memory):
    """To the point: this many are taken, one more is not."""
    room = 100_000
    memory(room)
    given = int(np.sqrt(room / (3 * 4)))  # as it came, normalised, and the rows
    sites = int(np.sqrt(room / (8 * (5 + 3))))  # of three machines
    kernel = Kernel("precomputed", bias=0.5)
    rows = rows_of(kernel, np.eye(given, dtype=np.float32))
    with pytest.raises(DeviceError, match=rf"given Gram matrix.*about {given} points.*float32"):
        rows_of(kernel, np.eye(given + 1, dtype=np.float32))
    site_blocks = engines_of(rows).site_blocks
    site_blocks(rows.part(np.arange(sites)), 3)
    for n_points, n_machines in ((sites + 1, 3), (sites, 4)):
        with pytest.raises(DeviceError, match=r"'ep' of \d+ points .* inference='perceptron'"):
            site_blocks(rows.part(np.arange(n_points)), n_machines)
    X, _ = make_points(100, np.float32)
    memory(20_000)
    with pytest.raises(DeviceError, match=r"100 points need.*about 54 points would fit"):
        rows_of(Kernel("rbf").fit_layout(X), X)


def test_what_does_not_fit_is_counted_in_points():
    host = SimpleNamespace(type="cpu")
    with pytest.raises(DeviceError, match=r"10 points needs 2000000 MB.* about 7 points would fit"):
        devices.check_room(host, 10, 20_000 * 10**6, "it", "less")
    devices.check_room(host, 7, 20_000 * 10**6, "it", "less")


EXHAUSTED = torch.cuda.OutOfMemoryError(
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
        (EXHAUSTED, r" \(37.25 GiB more were needed, 1.25 GiB free\)"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), ""),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), ""),
    ],
    ids=["PyTorch", "Triton", "cuBLAS"],
)
def test_memory_that_is_exhausted_is_an_error_that_says_what_to_do(
    cancer, error, sizes, monkeypatch
):
    """Wherever in the fit or the prediction; the model that was there stays."""
    X, y, new = within(cancer, 30)
    clf = make(device="auto").fit(X, y)
    held = clf.predict(new)
    for device, inference, name in (
        ("cuda", "perceptron", "zeros"), ("auto", "perceptron", "empty"), ("cuda", "ep", "eye"),
        ("cuda", "billiard", "empty"), ("auto", "billiard", "randn"),
    ):  # fmt: skip
        start = rf"^device='{device}': the GPU has no memory left{sizes}\. Free some, "
        with monkeypatch.context() as patch:
            patch.setattr(torch, name, raising(error))
            with pytest.raises(DeviceError, match=start + ".*float32.*use device='cpu'") as caught:
                clone(clf).set_params(inference=inference, device=device).fit(X, y)
        assert caught.value.__cause__ is error
    start = rf"^device='auto': the GPU has no memory left{sizes}\. Free some, predict fewer points"
    for name, given in (("empty", new), ("isfinite", torch.from_numpy(new))):
        with monkeypatch.context() as patch:
            patch.setattr(torch, name, raising(error))
            for method in (clf.predict, clf.predict_proba, clf.sample_proba):
                with pytest.raises(DeviceError, match=start + ".*'cpu'"):
                    method(given)
    assert_array_equal(clf.predict(new), held)


def test_other_errors_stay_what_they_are(cancer, monkeypatch):
    X, y, _ = within(cancer, 30)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", raising(RuntimeError("something else")))
        with pytest.raises(RuntimeError, match=r"^something else$"):
            make().fit(X, y)
    # A kernel of the user may compute anywhere.
    with pytest.raises(torch.cuda.OutOfMemoryError):
        make(device="cpu", kernel=raising(EXHAUSTED)).fit(X, y)


def test_label_errors_that_were_left_out_say_why(cancer, monkeypatch):
    X, y, _ = within(cancer, 22)
    settings = {"inference": "billiard", "n_draws": 8, "decision": "bayes_point"}
    assert make(**settings).fit(X, y).label_error_proba_.shape == (22,)
    monkeypatch.setattr(gpu_device.Device, "most_label_points", 20)
    monkeypatch.setattr(classifier, "MOST_LABEL_POINTS", 20)
    clf = make(**settings).fit(X, y)
    with pytest.raises(AttributeError, match=r"20 points on a GPU unless decision='vote'"):
        _ = clf.label_error_proba_
    for other in ({"decision": "vote"}, {"device": "cpu"}, {"inference": "ep"}):
        assert make(**settings | other).fit(X, y).label_error_proba_.shape == (22,)
    with pytest.raises(AttributeError, match=r"this fit used 'perceptron'"):
        _ = make().fit(X, y).label_error_proba_
    # Where the model was taken there may be no GPU.
    monkeypatch.setattr("bayespoint.inference.engines.torch_device", devices.torch_device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not hasattr(clf, "label_error_proba_")
    assert not hasattr(clf.set_params(device="cpu"), "label_error_proba_")
