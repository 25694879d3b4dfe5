"""Data sets as they are in the folder have the published sizes, labels and splits."""

import os

import numpy as np
import pytest

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

# A second or so to read.
LARGE = ("a9a", "covtype", "mnist", "usps")

# Of Rätsch's sets; the others are read by the same lines.
SMALL = ("breast-cancer", "heart", "splice", "thyroid")


def read_or_skip(function, *arguments):
    if not os.environ.get(datasets.VARIABLE):
        pytest.skip(f"{datasets.VARIABLE} is not set")
    try:
        return function(*arguments)
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ())
     for name in sorted(datasets.READERS)],
)  # fmt: skip
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
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow)
     for name in sorted(datasets.RAETSCH)],
)  # fmt: skip
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
