import gzip
import os

import numpy as np
import pytest
import sklearn.datasets

from bayespoint.papers import datasets

# Shapes of the parts, and for each part how many rows each label has, in the order of the labels.
PUBLISHED = {
    "a9a": ([(32561, 123), (16281, 123)], [[24720, 7841], [12435, 3846]]),
    "covtype": ([(581012, 54)], [[211840, 283301, 35754, 2747, 9493, 17367, 20510]]),
    "heart": ([(270, 13)], [[150, 120]]),
    "ionosphere": ([(351, 34)], [[126, 225]]),
    "mnist": (
        [(60000, 784), (10000, 784)],
        [[5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
         [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]],
    ),
    "pima": ([(768, 8)], [[500, 268]]),
    "sonar": ([(208, 60)], [[97, 111]]),
    "sonar-angle": ([(104, 60), (104, 60)], [[55, 49], [42, 62]]),
    "thyroid": ([(215, 5)], [[150, 35, 30]]),
    "usps": (
        [(7291, 256), (2007, 256)],
        [[1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644],
         [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]],
    ),
    "wbc": ([(683, 9)], [[444, 239]]),
}  # fmt: skip

# Inputs, training rows, test rows, rows of class -1 and of class +1 in both together, splits.
RAETSCH = {
    "banana": (2, 400, 4900, 2924, 2376, 100),
    "breast-cancer": (9, 200, 77, 196, 81, 100),
    "diabetis": (8, 468, 300, 500, 268, 100),
    "flare-solar": (9, 666, 400, 477, 589, 100),
    "german": (20, 700, 300, 700, 300, 100),
    "heart": (13, 170, 100, 150, 120, 100),
    "image": (18, 1300, 1010, 990, 1320, 20),
    "ringnorm": (20, 400, 7000, 3736, 3664, 100),
    "splice": (60, 1000, 2175, 1648, 1527, 20),
    "thyroid": (5, 140, 75, 150, 65, 100),
    "titanic": (3, 150, 2051, 1490, 711, 100),
    "twonorm": (20, 400, 7000, 3697, 3703, 100),
    "waveform": (21, 400, 4600, 3353, 1647, 100),
}

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


@pytest.mark.parametrize("name", sorted(set(datasets.READERS) - set(FOLDER_ONLY)))
def test_a_missing_set_says_what_was_tried(folder, monkeypatch, name):
    with pytest.raises(datasets.DataNotFoundError, match=f"{folder.name}.* missing.*no network"):
        datasets.load(name)
    monkeypatch.delenv(datasets.VARIABLE)
    with pytest.raises(datasets.DataNotFoundError, match=r"is not set.*no network.*Set BAYES"):
        datasets.load(name)


@pytest.mark.parametrize("name", FOLDER_ONLY)
def test_a_set_that_only_a_folder_has_says_so(folder, monkeypatch, name):
    with pytest.raises(datasets.DataNotFoundError, match=f"{folder.name}.* missing.*OpenML does"):
        datasets.load(name)
    monkeypatch.delenv(datasets.VARIABLE)
    message = f"'{name}' was not found.*OpenML does not have it. Set {datasets.VARIABLE} to"
    with pytest.raises(datasets.DataNotFoundError, match=message):
        datasets.load(name)


def test_missing_splits_say_what_to_set(folder, monkeypatch):
    with pytest.raises(datasets.DataNotFoundError, match=r"raetsch\.npz is missing"):
        datasets.raetsch("banana", 1)
    assert list(folder.iterdir()) == []
    monkeypatch.delenv(datasets.VARIABLE)
    message = f"'banana' was not found.*is not set.*Set {datasets.VARIABLE} to"
    with pytest.raises(datasets.DataNotFoundError, match=message):
        datasets.raetsch("banana", 1)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"name must be one of \['a9a', .*'wbc'\]; got 'iris'"):
        datasets.load("iris")
    for function in (datasets.raetsch_splits, lambda name: datasets.raetsch(name, 1)):
        with pytest.raises(ValueError, match=r"name must be one of \['banana', .*; got 'sonar'"):
            function("sonar")


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("banana", 0, "from 1 to 100 for 'banana'; got 0"),
        ("banana", 101, "from 1 to 100 for 'banana'; got 101"),
        ("splice", 21, "from 1 to 20 for 'splice'; got 21"),
        ("banana", 1.0, "split must be an integer .* got 1.0"),
        ("banana", "1", "split must be an integer .* got '1'"),
    ],
)
def test_splits_out_of_range_are_refused(name, split, message):
    with pytest.raises(ValueError, match=message):
        datasets.raetsch(name, split)


def read_or_skip(function, *arguments):
    if not os.environ.get(datasets.VARIABLE):
        pytest.skip(f"{datasets.VARIABLE} is not set")
    try:
        return function(*arguments)
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(datasets.READERS))
def test_sets_have_the_published_sizes(name):
    parts = read_or_skip(datasets.load, name)
    shapes, counts = PUBLISHED[name]
    assert [X.shape for X in parts[::2]] == shapes
    found = [np.unique(y, return_counts=True) for y in parts[1::2]]
    assert [count.tolist() for _, count in found] == counts
    labels = [-1, 1] if len(counts[0]) == 2 else list(range(len(counts[0])))
    assert all(label.tolist() == labels for label, _ in found)
    assert all(np.isfinite(X).all() for X in parts[::2])


@pytest.mark.data
def test_the_split_by_angle_divides_sonar():
    X, y = read_or_skip(datasets.load, "sonar")
    X_train, y_train, X_test, y_test = read_or_skip(datasets.load, "sonar-angle")
    both = np.vstack([np.c_[X_train, y_train], np.c_[X_test, y_test]])
    assert sorted(both.tolist()) == sorted(np.c_[X, y].tolist())


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(datasets.RAETSCH))
def test_splits_divide_the_published_sets(name):
    n_inputs, n_train, n_test, n_minus, n_plus, n_splits = RAETSCH[name]
    assert datasets.raetsch_splits(name) == n_splits
    divisions = []
    for split in (1, n_splits):
        X, y, X_test, y_test = read_or_skip(datasets.raetsch, name, split)
        assert X.shape == (n_train, n_inputs)
        assert X_test.shape == (n_test, n_inputs)
        labels, counts = np.unique(np.r_[y, y_test], return_counts=True)
        np.testing.assert_array_equal(labels, [-1, 1])
        np.testing.assert_array_equal(counts, [n_minus, n_plus])
        divisions.append((X, sorted(np.c_[np.r_[X, X_test], np.r_[y, y_test]].tolist())))
    (first, all_first), (last, all_last) = divisions
    assert all_first == all_last
    assert not np.array_equal(first, last)
