"""Odd arrays in files given to commands: an answer, or one line that names array or column."""

import numpy as np
import pytest
from helpers.cli import FAST, fails, well
from helpers.odd_inputs import X, Y

X, Y = np.tile(X, (5, 1)) + np.linspace(0, 1, 30)[:, None], np.tile(Y, 5)
GAP, INFINITE = (np.where(X[2, 0] == X, value, X) for value in (np.nan, np.inf))

# Arrays of a file, and what is said of them; nothing where there is an answer.
FILES = {
    "sound": ({"X": X, "y": Y}, ""),
    "a gap": ({"X": GAP, "y": Y}, ""),
    "single precision": ({"X": X.astype(np.float32), "y": Y}, ""),
    "big-endian": ({"X": X.astype(">f8"), "y": Y}, ""),
    "labels in words": ({"X": X, "y": np.where(Y, "yes", "no")}, ""),
    "infinity": ({"X": INFINITE, "y": Y}, "the number in row 3 is infinite"),
    "complex": ({"X": X + 1j, "y": Y}, "the array 'X' holds complex128, not numbers"),
    "dates": ({"X": X.astype("M8[s]"), "y": Y}, "the array 'X' holds datetime64[s], not numbers"),
    "words": ({"X": X.astype(str), "y": Y}, "the array 'X' holds <U"),
    "objects": ({"X": X.astype(object), "y": Y}, "objects would have to be unpickled"),
    "labels of dates": ({"X": X, "y": Y.astype("M8[s]")}, "the array 'y' holds datetime64[s]"),
    "another number of labels": ({"X": X, "y": Y[:-1]}, "have 29 and 30 rows"),
    "one label": ({"X": X, "y": 0 * Y}, "target 'y' has only one value ('0')"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    np.savez(folder / "d.npz", X=X, y=Y)
    well("train", folder / "d.npz", "--target", "y", "--model", folder / "m.bpm", *FAST)
    return folder / "m.bpm"


@pytest.mark.parametrize("name", FILES)
def test_train_and_predict(name, model, tmp_path):
    arrays, words = FILES[name]
    path = tmp_path / "d.npz"
    np.savez(path, **arrays)
    train = ["train", path, "--target", "y", "--model", tmp_path / "m.bpm", *FAST]
    predict = ["predict", path, "--model", model, "--output", tmp_path / "p.csv"]
    if not words:
        well(*train)
        well(*predict)
        return
    fails(1, *train, words=words)
    if name != "one label":
        fails(1, *predict, words=words)
