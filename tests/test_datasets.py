import gzip

import numpy as np
import pytest

from bayespoint import datasets


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    return tmp_path


def test_mnist_is_read_from_its_own_files(folder):
    (folder / "mnist").mkdir()
    rng = np.random.default_rng(0)
    images, labels = rng.integers(256, size=(2, 7, 28, 28)), rng.integers(10, size=(2, 7))
    for part, image, label in zip(("train", "t10k"), images, labels, strict=True):
        write_idx(folder / "mnist" / f"{part}-images-idx3-ubyte.gz", image)
        write_idx(folder / "mnist" / f"{part}-labels-idx1-ubyte.gz", label)
    X, y, X_test, y_test = datasets.load("mnist")
    np.testing.assert_array_equal(X, images[0].reshape(7, 784))
    np.testing.assert_array_equal(y_test, labels[1])
    assert X_test.dtype == np.uint8
    assert y.dtype == np.int64


def test_usps_is_read_from_its_own_files(folder):
    (folder / "usps").mkdir()
    table = np.random.default_rng(0).integers(-9, 9, size=(4, 257)) / 10
    table[:, 0] = [3, 1, 4, 1]
    for part in ("train", "test"):
        np.savetxt(folder / "usps" / f"zip.{part}.gz", table)
    X, y, _, _ = datasets.load("usps")
    np.testing.assert_allclose(X, table[:, 1:])
    np.testing.assert_array_equal(y, [3, 1, 4, 1])


def test_covtype_is_unpacked(folder):
    (folder / "covtype").mkdir()
    arrays = {
        "num": np.arange(20).reshape(2, 10), "y": np.array([1, 7]),
        "wilderness": np.array([3, 0]), "soil": np.array([0, 39]),
    }  # fmt: skip
    np.savez(folder / "covtype" / "covtype.npz", **arrays)
    X, y = datasets.load("covtype")
    np.testing.assert_array_equal(np.flatnonzero(X[0, 10:]), [3, 4])
    np.testing.assert_array_equal(np.flatnonzero(X[1, 10:]), [0, 43])
    np.testing.assert_array_equal(X[:, :10], arrays["num"])
    np.testing.assert_array_equal(y, [0, 6])


@pytest.mark.parametrize("name", sorted(datasets.READERS))
def test_a_missing_set_says_what_was_tried(folder, monkeypatch, name):
    def offline(_):
        raise OSError("no network")

    monkeypatch.setattr(datasets, "_from_openml", offline)
    with pytest.raises(datasets.DataNotFoundError, match=f"{folder.name}.*no network"):
        datasets.load(name)
    monkeypatch.delenv(datasets.VARIABLE)
    with pytest.raises(datasets.DataNotFoundError, match="is not set"):
        datasets.load(name)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="name must be one of"):
        datasets.load("iris")
