"""Data sets of the papers: read from their files or OpenML, or it is said what is missing."""

import gzip
import re

import numpy as np
import pytest
import sklearn.datasets
from helpers.refusals import assert_refused

from bayespoint.papers import datasets, sources

FOLDER_ONLY = ["a9a", "sonar-angle", "thyroid"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def offline(*_args, **_kwargs):
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", offline)


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


@pytest.mark.parametrize(
    ("name", "text", "X", "y"),
    [
        ("sonar", "0.5,0.25,M\n1,0,R\n", [[0.5, 0.25], [1, 0]], [1, -1]),
        ("ionosphere", "1,-0.5,b\n0,1,g\n", [[1, -0.5], [0, 1]], [-1, 1]),
        ("wbc", "1000,5,1,2\n1001,?,1,4\n1002,3,10,4\n", [[5, 1], [3, 10]], [-1, 1]),
        ("heart", "70.0 1.0 2\n67.0 0.0 1\n", [[70, 1], [67, 0]], [1, -1]),
        ("pima", "6,33.6,1\n1,26.6,0\n\n", [[6, 33.6], [1, 26.6]], [1, -1]),
        ("thyroid", "1,107,2.2\n3,120,0.9\n2,90,4\n", [[107, 2.2], [120, 0.9], [90, 4]], [0, 2, 1]),
    ],
)  # fmt: skip
def test_tables_of_uci_are_read(folder, name, text, X, y):
    (folder / "uci").mkdir()
    (folder / "uci" / datasets.TABLES[name].file).write_text(text)
    X_read, y_read = datasets.load(name)
    np.testing.assert_array_equal(X_read, X)
    np.testing.assert_array_equal(y_read, y)
    assert y_read.dtype == np.int64


def test_other_labels_than_the_published_ones_are_refused(folder):
    (folder / "uci").mkdir()
    (folder / "uci" / "sonar.all-data").write_text("0.5,M\n0.5,X\n")
    with pytest.raises(ValueError, match=r"'sonar' has labels \['X'\]; expected .*'M'"):
        datasets.load("sonar")


def test_stars_mark_the_training_rows_of_sonar(folder):
    (folder / "uci").mkdir()
    note = 'Those of the training set are marked with a "*".\n\n'
    rocks = note + "*CR036:\n{0.1 0.2\n 0.3}\n \nCR054:\n{0.4 0.5\n 0.6}\n"
    (folder / "uci" / "sonar.rocks").write_text(rocks)
    (folder / "uci" / "sonar.mines").write_text(note + "CM078:\n{0.7 0.8\n 0.9}\n \n")
    X, y, X_test, y_test = datasets.load("sonar-angle")
    np.testing.assert_array_equal(X, [[0.1, 0.2, 0.3]])
    np.testing.assert_array_equal(y, [-1])
    np.testing.assert_array_equal(X_test, [[0.4, 0.5, 0.6], [0.7, 0.8, 0.9]])
    np.testing.assert_array_equal(y_test, [-1, 1])


def test_a9a_is_read_from_its_own_files(folder):
    (folder / "a9a").mkdir()
    for file, text in (("a9a.gz", "-1 3:1 11:1 \n+1 1:1 123:1 \n"), ("a9a.t.gz", "+1 2:1 \n")):
        with gzip.open(folder / "a9a" / file, "wt") as stream:
            stream.write(text)
    X, y, X_test, y_test = datasets.load("a9a")
    assert X.shape == (2, 123)
    assert X.dtype == np.uint8
    np.testing.assert_array_equal(np.argwhere(X), [[0, 2], [0, 10], [1, 0], [1, 122]])
    np.testing.assert_array_equal(y, [-1, 1])
    np.testing.assert_array_equal(np.argwhere(X_test), [[0, 1]])
    np.testing.assert_array_equal(y_test, [1])


def test_splits_count_from_1(folder):
    (folder / "raetsch").mkdir()
    arrays = {
        "banana.x": np.arange(8).reshape(4, 2), "banana.t": np.array([1, -1, -1, 1], np.int8),
        "banana.train": np.array([[0, 1], [3, 0]], np.int16),
    }  # fmt: skip
    np.savez(folder / "raetsch" / "raetsch.npz", **arrays)
    X, y, X_test, y_test = datasets.raetsch("banana", 2)
    np.testing.assert_array_equal(X, [[6, 7], [0, 1]])
    np.testing.assert_array_equal(y, [1, 1])
    np.testing.assert_array_equal(X_test, [[2, 3], [4, 5]])
    np.testing.assert_array_equal(y_test, [-1, -1])
    np.testing.assert_array_equal(datasets.raetsch("banana", np.int64(1))[0], [[0, 1], [2, 3]])


@pytest.mark.parametrize(
    ("name", "words", "y"),
    [
        ("heart", ["present", "absent", "absent"], [1, -1]),
        ("ionosphere", ["g", "b", "b"], [1, -1]),
        ("pima", ["tested_positive", "tested_negative", "tested_negative"], [1, -1]),
        ("sonar", ["Rock", "Mine", "Mine"], [-1, 1]),
        ("wbc", ["benign", "malignant", "malignant"], [-1, 1]),
    ],
)
def test_openml_gives_the_same_labels(folder, monkeypatch, name, words, y):
    asked = []

    def answer(data_id, **_):
        asked.append(data_id)
        return np.array([[1.0, 2.0], [3.0, 4.0], [5.0, np.nan]]), np.array(words, dtype=object)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
    X_read, y_read = datasets.load(name)
    assert list(folder.iterdir()) == []
    assert asked == [datasets.OPENML[name]]
    np.testing.assert_array_equal(X_read, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(y_read, y)


def test_a_missing_set_says_what_was_tried(folder, monkeypatch):
    def told(name):
        with pytest.raises(datasets.DataNotFoundError) as error:
            datasets.load(name)
        return str(error.value)

    answers = {
        name: "OpenML does not have it." if name in FOLDER_ONLY else "no network"
        for name in datasets.READERS
    }
    for name, answer in answers.items():
        assert re.search(f"{folder.name}.* missing.*{answer}", told(name)), name
    monkeypatch.delenv(datasets.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for name, answer in answers.items():
        fetched = "fetch it by bayespoint reproduce --fetch, or " * (name in sources.SOURCES)
        home = f"It is published at https?://.*: {fetched}set {datasets.VARIABLE}"
        expected = f"'{name}' was not found: .*bayespoint.data.* missing.*{answer}.*{home}"
        assert re.search(expected, told(name)), name


@pytest.mark.parametrize(("name", "home"), [("german", "github.com/tdiethe"), ("banana", "1460")])
def test_missing_splits_say_where_they_are_published(folder, name, home):
    with pytest.raises(datasets.DataNotFoundError, match=f"was not found: .*{home}.*--fetch"):
        datasets.raetsch(name, 1)
    assert list(folder.iterdir()) == []


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"name must be one of \['a9a', .*'wbc'\]; got 'iris'"):
        datasets.load("iris")
    for function in (datasets.raetsch_splits, lambda name: datasets.raetsch(name, 1)):
        with pytest.raises(ValueError, match=r"name must be one of \['banana', .*; got 'sonar'"):
            function("sonar")


def test_splits_out_of_range_are_refused():
    cases = [
        ({"split": 0}, "from 1 to 100 for 'banana'; got 0"),
        ({"split": 101}, "from 1 to 100 for 'banana'; got 101"),
        ({"name": "splice", "split": 21}, "from 1 to 20 for 'splice'; got 21"),
        ({"split": 1.0}, "split must be an integer .* got 1.0"),
        ({"split": "1"}, "split must be an integer .* got '1'"),
    ]
    assert_refused(datasets.raetsch, cases, name="banana")
