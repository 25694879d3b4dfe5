"""Hostile model files that ask for memory: values and shapes far larger than their bytes."""

import numpy as np
import pytest
from helpers.hostile import edited, place, refused, refused_without_memory, replaced_array
from helpers.models import data, fitted

from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError, layout

WIDE = ["<U999999", [1], ["a"]]
AMPLIFIERS = {
    "wide texts": lambda n: {"values": ["<U999999", [n], ["a"] * n]},
    "many arrays": lambda n: [{"values": WIDE}] * n,
    "scalars": lambda n: {"tuple": [{"scalar": ["<U999999", "a"]}] * n},
    "in a dict": lambda n: {"dict": {str(i): {"values": WIDE} for i in range(n)}},
    "random states": lambda n: [{"random": ["keys", 0, 0, 0.0]}] * (40 * n),
    "lists": lambda n: [[[]] * 1000] * n,
}


def amplified(name, n):
    """Return what puts an amplifier among the diagnostics of the draws."""

    def change(document, members):
        diagnostics = place(document, "draws_", "info")["dict"]
        diagnostics["x"] = AMPLIFIERS[name](n)
        if name == "random states":
            diagnostics["x"][0]["random"][0] = number = len(document["arrays"])  # the same in all
            document["arrays"].append({"order": "C"})
            replaced_array(members, document, number, np.arange(624, dtype=np.uint32))

    return change


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_values_that_take_more_memory_than_their_json(name, good, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "MAX_MADE_BYTES", 2**18)
    path = edited(good, tmp_path / "m.bpm", amplified(name, 10))
    refused_without_memory(path, f"more than {2**18} bytes of memory", 8 * 2**20)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in AMPLIFIERS if name != "random states"])
def test_values_that_take_more_memory_than_any_model(name, good, tmp_path):
    path = edited(good, tmp_path / "m.bpm", amplified(name, 600))
    most = layout.MAX_MADE_BYTES
    refused_without_memory(path, f"more than {most} bytes of memory", 160 * 2**20)


def test_long_labels_that_could_not_be_loaded_are_not_saved(tmp_path, monkeypatch):
    X, y = data()
    clf = fitted(X, np.array(["a" * 1000, "b"])[y])
    monkeypatch.setattr(layout, "MAX_MADE_BYTES", 30_000)
    model_file.save(tmp_path / "m.bpm", clf)
    model_file.load(tmp_path / "m.bpm")
    monkeypatch.setattr(layout, "MAX_MADE_BYTES", 9_000)
    with pytest.raises(ModelFileError, match="more than 9000 bytes of memory"):
        model_file.save(tmp_path / "other.bpm", clf)
    refused(tmp_path / "m.bpm", "more than 9000 bytes of memory")


def test_huge_shapes_take_no_memory(good, tmp_path):
    for shape in ([2**40], [2**31, 2**31], [10**30], [-1], [2.0], [True], "9", [1] * 9):

        def change(document, _, shape=shape):
            document["arrays"][0]["shape"] = shape

        refused(edited(good, tmp_path / "m.bpm", change), "shape")


def test_wrong_types_of_arrays(good, tmp_path):
    for dtype in ("|O", "<U5", "<f16", "|V8", "<M8[s]", ">f8", 8, None, ["a"]):

        def change(document, _, dtype=dtype):
            document["arrays"][0]["dtype"] = dtype

        refused(edited(good, tmp_path / "m.bpm", change), "dtype", dtype)


def test_sites_that_are_no_distribution_say_so(tmp_path):
    def negative(document, members):
        number = place(document, "predictor_", "origin", "sites")["array"]
        replaced_array(members, document, number, np.full((1, 2, 60), -1e3))

    model_file.save(tmp_path / "good.bpm", fitted(inference="ep", decision="calibrated"))
    damaged = model_file.load(edited(tmp_path / "good.bpm", tmp_path / "m.bpm", negative))
    with pytest.raises(ValueError, match="sites of this model define no distribution"):
        damaged.classifier.predict(data()[0])


def many_draws(document, _):
    """Draws that are made again when somebody asks for them, and so take no room in a file."""
    for part in (place(document, "draws_"), place(document, "predictor_", "origin")):
        part["n_draws"] = 10**9


def test_matrices_and_draws_to_be_made_have_the_limits_of_those_in_a_file(tmp_path, monkeypatch):
    model_file.save(tmp_path / "good.bpm", fitted(inference="ep", decision="calibrated"))
    path = edited(tmp_path / "good.bpm", tmp_path / "m.bpm", many_draws)
    refused(path, r"origin asks for 480,000,000,000 bytes .* more than 8,589,934,592")
    model_file.load(tmp_path / "good.bpm")
    monkeypatch.setattr("bayespoint.io.model_file.state.MAX_BYTES", 8 * 60**2 - 1)
    refused(tmp_path / "good.bpm", "asks for 28,800 bytes")
