"""Odd arrays in files given to commands: an answer, or one line that names array or column."""

from inspect import signature

import numpy as np
import pytest
from helpers.cli import FAST, fails, well
from helpers.odd_inputs import X, Y

from bayespoint.cli.app import app

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


# Everything that reads a file of data, some of it to learn from, some with a model.
LEARNING = {
    "train": ["--model", "m.bpm", *FAST],
    "doubt": ["--output", "d.csv", "--inference", "ep", "--n-jobs", "1"],
    "cross-validate": ["--folds", 2, *FAST],
}
ASKING = {"predict": ["--output", "p.csv"], "evaluate": ["--target", "y"]}
SERVING = {"playground"}  # refuses what the others do, but does not end where there is an answer


def test_every_command_that_reads_data_is_here():
    names = {one.name or one.callback.__name__: one.callback for one in app.registered_commands}
    reading = {name for name, f in names.items() if {"data", "file"} & {*signature(f).parameters}}
    assert reading == {*LEARNING, *ASKING, *SERVING}


@pytest.mark.parametrize("name", FILES)
def test_commands(name, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays, words = FILES[name]
    np.savez("d.npz", **arrays)
    calls = [[command, "--target", "y", *options] for command, options in LEARNING.items()]
    if name not in ("one label", "labels in words"):  # which are not those of the model
        calls += [[command, "--model", model, *options] for command, options in ASKING.items()]
    for command, *options in calls:
        if words:
            fails(1, command, "d.npz", *options, words=words)
        else:
            well(command, "d.npz", *options)
    if words:
        fails(1, "playground", "d.npz", "--target", "y", "--no-browser", words=words)
