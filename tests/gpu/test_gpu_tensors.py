"""PyTorch tensors as data: taken as arrays are, wherever they lie, and refused where wrong."""

# ruff: noqa: E402

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

from helpers.device_fits import make, within

METHODS = ("predict", "predict_proba", "decision_function", "predict_log_proba")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_in_arrays_out(digits, dtype):
    X, y, new = within((digits[0], digits[1] > 4), 150)
    arrays = make().fit(X.astype(str(dtype).removeprefix("torch.")), y)
    clf = make().fit(torch.from_numpy(X).to(dtype), torch.from_numpy(y))
    assert_array_equal(clf.dual_coef_, arrays.dual_coef_)
    assert_array_equal(clf.support_vectors_, arrays.support_vectors_)
    unseen = torch.from_numpy(new).to(dtype)
    for method in METHODS:
        found = getattr(clf, method)(unseen)
        assert type(found) is np.ndarray
        assert_allclose(found, getattr(arrays, method)(new), atol=1e-5)
    assert type(clf.sample_proba(unseen, 2, 0)) is np.ndarray
    assert clf.score(unseen, digits[1][150:210] > 4) > 0.8


def test_votes_on_tensors(cancer):
    X, y, new = within(cancer, 30)
    clf = make("billiard", n_draws=8).fit(torch.from_numpy(X), torch.from_numpy(y))
    arrays = make("billiard", n_draws=8).fit(X, y)
    assert_array_equal(clf.predict_proba(torch.from_numpy(new)), arrays.predict_proba(new))


def test_tensors_of_other_kinds(digits):
    X, y, _ = within(digits, 80)
    reference = make(n_draws=2).fit(X, y)
    for tensor in (
        torch.from_numpy(X).requires_grad_(),
        torch.from_numpy(np.repeat(X, 2, axis=1))[:, ::2],  # not contiguous
        torch.from_numpy(X.T.copy()).T,
    ):
        clf = make(n_draws=2).fit(tensor, y.tolist())
        assert_array_equal(clf.dual_coef_, reference.dual_coef_)
        assert_array_equal(clf.predict(tensor), reference.predict(X))
    half = torch.from_numpy(X).half()  # taken to float32
    assert make(n_draws=1).fit(half, y).support_vectors_.dtype == np.float32
    whole = torch.from_numpy((16 * X).astype(np.int64))
    assert make(n_draws=2, gamma=0.05 / 256).fit(whole, y).score(whole, y) > 0.98


def test_labels_are_of_any_kind(digits):
    X, y = digits[0][:150], digits[1][:150]
    chosen = np.isin(y, (3, 8))
    X, y = X[chosen], y[chosen]
    Z, expected = torch.from_numpy(X), make(n_draws=2).fit(X, y).predict(X)
    names = np.array(list("abcdefghij"))
    assert_array_equal(make(n_draws=2).fit(Z, names[y]).predict(X), names[expected])
    for kind in (torch.int8, torch.float32, torch.bfloat16):
        label = torch.from_numpy(y).to(kind)
        label = label.requires_grad_() if label.is_floating_point() else label
        for device in ("cuda", "cpu"):
            clf = make(n_draws=2, device=device).fit(Z, label)
            assert_array_equal(clf.predict(Z).astype(int), expected)
    assert make(n_draws=1, device="cpu").fit(Z.bfloat16(), y).support_vectors_.dtype == np.float32
    large = torch.tensor([2.0**24, 2.0**24 + 1], dtype=torch.float64)[label.int() % 2]
    assert len(make(n_draws=1).fit(Z, large).classes_) == 2


def test_tensors_that_are_wrong(digits):
    X, y, _ = within(digits, 60)
    tensor = torch.from_numpy(X)
    clf = make(n_draws=1).fit(tensor, y)
    wrong = tensor.clone()
    wrong[3, 4] = torch.nan
    for X_, y_, match in (
        (wrong, y, "NaN"),
        (tensor[0], y, "two dimensions"),
        (tensor, y[:-1], "inconsistent numbers of samples"),
        (tensor[:0], y[:0], "0 rows|0 sample"),
        (tensor[:, :0], y, "0 columns|0 feature"),
        (tensor, np.where(y == 3, np.nan, y), "NaN"),
        (tensor.to(torch.complex64), y, "Complex data not supported"),
    ):
        with pytest.raises(ValueError, match=match):
            make().fit(X_, y_)
    for X_, match in ((tensor[:, :5], "5 features.*expecting 64"), (wrong, "NaN"),
                      (tensor[0], "two dimensions")):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            clf.predict(X_)


@pytest.mark.usefixtures("no_stand_in")
def test_tensors_on_the_host_are_arrays_to_a_fit_there(digits):
    X, y, new = within(digits, 60)
    ours = make(device="cpu").fit(torch.from_numpy(X), y)
    assert_array_equal(ours.predict(new), make(device="cpu").fit(X, y).predict(new))
    # So they are to the predictions of a model from anywhere.
    assert_array_equal(ours.predict(torch.from_numpy(new)), ours.predict(new))
