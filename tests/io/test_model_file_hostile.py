"""Bad and hostile model files: refused in one line, without memory, without running anything."""

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.models import assert_same, data, fitted
from helpers.paths import DATA, ROOT

from bayespoint import OnionClassifier
from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError, files, layout, reading
from bayespoint.io.tables import printable


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.bpm"
    X, y = data()
    model_file.save(path, fitted(sp.csr_matrix(X), y, inference="perceptron"))
    return path


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            with archive.open(name, "w") as member:
                member.write(content)
    return path


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        model_file.load(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


def refused_without_memory(path, match, most=16 * 2**20):
    tracemalloc.start()
    try:
        refused(path, match)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def edited(good, path, change):
    """File with its JSON changed; hashes are made right for changed arrays."""
    members = members_of(good)
    document = json.loads(members["model.json"])
    change(document, members)
    for number, record in enumerate(document["arrays"]):
        record["sha256"] = hashlib.sha256(members[f"arrays/{number}.npy"]).hexdigest()
    members["model.json"] = json.dumps(document).encode()
    return write_members(path, members)


def state(document):
    return document["classifier"]["fitted"]


def replaced_array(members, document, number, array):
    buffer = layout.npy_header(array.dtype.str, "C", array.shape) + array.tobytes()
    members[f"arrays/{number}.npy"] = buffer
    document["arrays"][number] |= {"dtype": array.dtype.str, "shape": list(array.shape)}


def array_of(members, number):
    return np.load(io.BytesIO(members[f"arrays/{number}.npy"]), allow_pickle=False)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip" * 10, b"PK\5\6" + bytes(18)])
def test_other_files(content, tmp_path):
    path = tmp_path / "m.bpm"
    path.write_bytes(content)
    refused(path, "not a bayespoint model file")


def test_cut_short_anywhere(good, tmp_path):
    content = good.read_bytes()
    path = tmp_path / "m.bpm"
    for length in np.linspace(0, len(content) - 1, 60).astype(int):
        path.write_bytes(content[:length])
        refused(path, "not a bayespoint model file")


def test_prepended_and_appended_bytes(good, tmp_path):
    path = tmp_path / "m.bpm"
    path.write_bytes(b"#!/bin/sh\n" + good.read_bytes())
    refused(path, "not where the end of the file says")
    path.write_bytes(good.read_bytes() + b"x")
    refused(path, "not a bayespoint model file")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "arrays/00.npy", "arrays/99.npy", "x\u202e\x1b[31m", "a" * 999]
)
def test_unknown_members(name, good, tmp_path):
    members = members_of(good) | {name: b"x"}
    refused(write_members(tmp_path / "m.bpm", members), "is not of a model file|marked otherwise")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_twice(good, tmp_path):
    members = [*members_of(good).items()]
    for twice in (members[0], members[-1]):
        path = write_members(tmp_path / "m.bpm", [*members, twice])
        refused(path, "is not of a model file")


def test_swapped_and_missing_members(good, tmp_path):
    members = members_of(good)
    a, b = (k for k in list(members)[:2])
    swapped = members | {a: members[b], b: members[a]}
    refused(write_members(tmp_path / "m.bpm", swapped), "bytes|damaged|header")
    for name in (a, "model.json"):
        fewer = {k: v for k, v in members.items() if k != name}
        refused(write_members(tmp_path / "m.bpm", fewer), "not of a model|missing|describe")


def test_links_and_encryption(good, tmp_path):
    path = tmp_path / "m.bpm"
    for change, reason in (
        ({"external_attr": 0o120777 << 16}, "not a plain file"),
        ({"external_attr": 0o040755 << 16}, "not a plain file"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members_of(good).items():
                info = zipfile.ZipInfo(name)
                for key, value in change.items():
                    setattr(info, key, value)
                archive.writestr(info, content)
        refused(path, reason)
    content = bytearray(good.read_bytes())
    place = content.index(b"PK\1\2")
    content[place + 8] |= 1
    path.write_bytes(content)
    refused(path, "encrypted")


def test_overlapping_members(good, tmp_path):
    """Two names for the same bytes, as in bombs without recursion."""
    content = bytearray(good.read_bytes())
    first = content.index(b"PK\1\2")
    second = content.index(b"PK\1\2", first + 4)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    path = tmp_path / "m.bpm"
    path.write_bytes(content)
    refused(path, "overlaps another")


def test_bombs(good, tmp_path):
    zeros = bytes(FREE := layout.FREE_BYTES + 2**20)
    for name in ("model.json", "arrays/0.npy"):
        members = members_of(good) | {name: zeros}
        path = write_members(tmp_path / "m.bpm", members, zipfile.ZIP_DEFLATED)
        assert path.stat().st_size < FREE / 100
        refused(path, "would inflate to")


def test_sizes_that_lie(good, tmp_path):
    """A directory that announces less than there is."""
    members = members_of(good)
    path = write_members(tmp_path / "m.bpm", members, zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\1\2")
    for size in (0, 1, 2**31 - 1):
        content[place + 24 : place + 28] = size.to_bytes(4, "little")
        path.write_bytes(content)
        refused(path, "bytes; its dtype and shape need|would inflate")


@pytest.mark.parametrize("size", [0, 1, 1000, 2**20])
@pytest.mark.parametrize("more", [None, 0, 1])
def test_a_size_of_the_json_that_lies(size, more, good, tmp_path):
    """The JSON inflates to 64 MiB; its checksum is right for all of it or for what is read."""
    text = b" " * 2**26
    path = write_members(
        tmp_path / "m.bpm", members_of(good) | {"model.json": text}, zipfile.ZIP_DEFLATED
    )
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\1\2")
    assert content[place + 46 :].startswith(b"model.json")
    content[place + 24 : place + 28] = size.to_bytes(4, "little")
    if more is not None:
        content[place + 16 : place + 20] = zlib.crc32(text[: size + more]).to_bytes(4, "little")
    path.write_bytes(content)
    refused_without_memory(path, "Bad CRC-32|has not the .* bytes announced")


def test_more_bytes_than_announced_in_an_array(good, tmp_path):
    members = members_of(good)
    name = "arrays/0.npy"
    size = len(members[name])
    members[name] += b"more"
    path = write_members(tmp_path / "m.bpm", members, zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\1\2")
    content[place + 24 : place + 28] = size.to_bytes(4, "little")
    for more in (0, 1, 4):
        checksum = zlib.crc32(members[name][: size + more])
        content[place + 16 : place + 20] = checksum.to_bytes(4, "little")
        path.write_bytes(content)
        refused(path, "Bad CRC-32|more bytes than announced")


WIDE = ["<U999999", [1], ["a"]]
AMPLIFIERS = {
    "wide texts": lambda n: {"values": ["<U999999", [n], ["a"] * n]},
    "many arrays": lambda n: [{"values": WIDE}] * n,
    "scalars": lambda n: {"tuple": [{"scalar": ["<U999999", "a"]}] * n},
    "in a dict": lambda n: {"dict": {str(i): {"values": WIDE} for i in range(n)}},
    "random states": lambda n: [{"random": ["keys", 0, 0, 0.0]}] * (40 * n),
    "lists": lambda n: [[[]] * 1000] * n,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "lists" else name
        for name in AMPLIFIERS
    ],
)
def test_values_that_take_more_memory_than_their_json(name, good, tmp_path, monkeypatch):
    most = layout.MAX_MADE_BYTES
    if name == "random states":  # thousands of them take a while to make
        most = most // 50
        monkeypatch.setattr(layout, "MAX_MADE_BYTES", most)

    def change(document, members):
        diagnostics = place(document, "draws_", "info")["dict"]
        diagnostics["x"] = AMPLIFIERS[name](600)
        if name == "random states":
            diagnostics["x"][0]["random"][0] = number = len(document["arrays"])  # the same in all
            document["arrays"].append({"order": "C"})
            replaced_array(members, document, number, np.arange(624, dtype=np.uint32))

    path = edited(good, tmp_path / "m.bpm", change)
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


@pytest.mark.parametrize("name", ["ev\x1b[31mil.bpm", "\u202egnp.bpm", "new\nline.bpm", "n" * 200])
def test_names_of_files_are_printable_and_given_once(name, tmp_path):
    folder = tmp_path / "fo\x07lder"
    folder.mkdir()
    (folder / name).write_bytes(b"bad")
    with pytest.raises(ModelFileError, match="not a bayespoint model file") as caught:
        model_file.load(folder / name)
    shown = str(caught.value)
    assert shown.isprintable()
    assert shown.count(printable(name)) == 1
    assert shown.startswith(str(tmp_path))
    with pytest.raises(ModelFileError, match="not a plain file") as caught:
        model_file.load(folder)
    assert str(caught.value).isprintable()
    with pytest.raises(ModelFileError, match="not a plain file") as caught:
        model_file.save(folder, fitted())
    assert str(caught.value).isprintable()


def test_errors_of_the_system_name_the_file_once(good, monkeypatch):
    def broken(_):
        raise OSError(5, "Input/output error", str(good))

    monkeypatch.setattr(files, "Reader", broken)
    with pytest.raises(ModelFileError, match="OSError: Input/output error") as caught:
        model_file.load(good)
    assert str(caught.value).count(good.name) == 1


def test_huge_shapes_take_no_memory(good, tmp_path):
    for shape in ([2**40], [2**31, 2**31], [10**30], [-1], [2.0], [True], "9", [1] * 9):

        def change(document, _, shape=shape):
            document["arrays"][0]["shape"] = shape

        refused(edited(good, tmp_path / "m.bpm", change), "shape")


@pytest.mark.parametrize("dtype", ["|O", "<U5", "<f16", "|V8", "<M8[s]", ">f8", 8, None, ["a"]])
def test_wrong_types_of_arrays(dtype, good, tmp_path):
    def change(document, _):
        document["arrays"][0]["dtype"] = dtype

    refused(edited(good, tmp_path / "m.bpm", change), "dtype")


def test_pickles_are_not_opened(good, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    def change(_, members):
        buffer = io.BytesIO()
        np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
        members["arrays/0.npy"] = buffer.getvalue()

    refused(edited(good, tmp_path / "m.bpm", change), "bytes; its dtype and shape need")
    (tmp_path / "m.bpm").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "m.bpm", "not a bayespoint model file")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "JSONDecodeError"),
        (b"[]", "not a JSON object"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1e999}', "too large for a number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "ValueError"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b"[" * 10**6, "nested too deep"),
        (b'{"a":' * 10**5, "nested too deep"),
        (b"\xff\xfe", "UnicodeDecodeError"),
    ],
)
def test_bad_json(text, reason, good, tmp_path):
    members = members_of(good) | {"model.json": text}
    refused(write_members(tmp_path / "m.bpm", members), reason)


def test_damaged_arrays_are_found(good, tmp_path):
    members = members_of(good)
    content = bytearray(members["arrays/0.npy"])
    content[-1] ^= 1
    refused(write_members(tmp_path / "m.bpm", members | {"arrays/0.npy": content}), "SHA-256")


def changed(path, value):
    """Return what sets a value of the JSON: the names of dataclasses may be left out."""

    def change(document, _):
        *names, last = path.split(".")
        place(document, *names)[last] = value

    return change


def place(document, *names):
    """Find an object in the fitted classifier, dataclass by dataclass."""
    found = document["classifier"]["fitted"]
    for name in names:
        found = found[name]
        if isinstance(found, dict) and len(found) == 1 and next(iter(found))[0].isupper():
            (found,) = found.values()
    return found


NAN, INF = {"float": "nan"}, {"float": "inf"}
HUGE = 10**400
LABELS = {
    "fewer labels": (["<i8", [1], [0]], "class_noise has shape"),
    "same class": (["<i8", [2], [0, 0]], "label twice"),
    "long text": (["<U1", [2], ["aa", "b"]], "2 characters"),
    "overflow": (["|i1", [2], [0, 999]], "OverflowError"),
}
STEEP, KERNEL = "predictor_.steepness", "predictor_.support.kernel"
CHANGES = {
    "later schema": (lambda d, _: d.update(schema=2), "Upgrade: pip install"),
    "no schema": (lambda d, _: d.update(schema="1"), "schema version '1'"),
    "unknown class": (lambda d, _: d["classifier"].update({"class": "os.system"}), "class 'os.sys"),
    "callable": (lambda d, _: d["classifier"]["parameters"].update(kernel="os.system"), "kernel"),
    "callable inside": (changed(f"{KERNEL}.name", "os.system"), "kernel.name is 'os.system'; it"),
    "unknown key": (lambda d, _: d.update(run="x"), "model.json has"),
    "unknown attribute": (changed("predict", 1), "'predict' is not one"),
    "unknown field": (changed("draws_.predict", 1), "draws_.'predict' is not one"),
    "missing attribute": (lambda d, _: state(d).pop("settings_"), "settings_ is missing"),
    "missing field": (lambda d, _: place(d, "draws_").pop("info"), "draws_.info is missing"),
    "what follows": (changed("predictor_.committee", None), "committee is there, and follows"),
    "points twice": (changed("predictor_.support.points.X", None), "points.X is there, and foll"),
    "unknown kind": (changed(STEEP, {"eval": "1"}), "unknown kind 'eval'"),
    "unknown part": (changed("draws_", {"Popen": {}}), r"draws_ is .*Popen.*one of \['Draws'\]"),
    "part of elsewhere": (lambda d, _: state(d).update(draws_=state(d)["trained_"]), "draws_ is"),
    "two parts": (lambda d, _: state(d)["draws_"].update(Trained={}), "draws_ is"),
    "part as a value": (
        lambda d, _: d["classifier"]["parameters"].update(class_weight=state(d)["trained_"]),
        "unknown kind 'Trained'",
    ),
    "no part": (changed("predictor_.support", None), "support is of type NoneType, none of"),
    "fields as a list": (changed("draws_", {"Draws": []}), r"draws_\. is \[\]"),
    "wrong type": (changed("settings_.gamma", "wide"), "settings_.gamma is 'wide'"),
    "truth": (changed("settings_.gamma", True), "settings_.gamma is True"),
    "negative": (changed("settings_.softness", -1.0), "settings_.softness is -1.0"),
    "not finite": (changed("settings_.gamma", NAN), "must be finite"),
    "NaN steepness": (changed(STEEP, NAN), "steepness is nan; it must be finite"),
    "endless steepness": (changed(STEEP, INF), "steepness is inf; it must be finite"),
    "negative steepness": (changed(STEEP, -0.5), "steepness is -0.5"),
    "noise": (changed("predictor_.noise", 1.0), "noise is 1.0; it must be at most 0.5"),
    "negative noise": (changed("predictor_.noise", -0.1), "noise is -0.1"),
    "NaN noise": (changed("predictor_.noise", NAN), "noise is nan"),
    "class noise": (
        changed("settings_.class_noise", {"values": ["<f8", [2], [0.5, 0.0]]}), r"outside \[0, 0.5"
    ),
    "evidence": (changed("settings_.log_evidence", NAN), "log_evidence is nan"),
    "huge steepness": (changed(STEEP, HUGE), "steepness is 10+.* too large"),
    "huge gamma": (changed("settings_.gamma", -HUGE), "gamma is -10+.* too large"),
    "huge entropy": (changed("trained_.entropy", HUGE), "entropy is 10+.* too large"),
    "huge parameter": (
        lambda d, _: d["classifier"]["parameters"].update(gamma=HUGE), "parameters: "
    ),
    "huge degree": (changed(f"{KERNEL}.degree", 1001), "degree is 1001; it must be at most"),
    "broken degree": (changed(f"{KERNEL}.degree", 2.5), "degree is 2.5"),
    "votes": (changed("settings_.decision", "vote"), "predictor_ is a BayesPointPredictor for"),
    "method": (changed("settings_.inference", "ep"), "draws_.resume is a PerceptronSums for 'ep'"),
    "no resume": (changed("draws_.resume", None), "draws_.resume is a NoneType for 'perceptron'"),
    "onion": (changed("settings_.inference", "onion"), "is 'onion' for BayesPointClassifier"),
    "factor": (changed("draws_.factor", 1), "draws_.factor is 1"),
    "no draws": (changed("draws_.coef", []), "draws of"),
    "number of draws": (changed("draws_.n_draws", 9), "draws_.n_draws is 9; arrays have 8"),
    "chains": (changed("draws_.n_chains", 3), "n_draws is 8, of 3 chains"),
    "info": (changed("draws_.info", []), r"draws_.info is \[\]"),
    "centres": (changed("draws_.centres", {"dict": {"kicks": 3}}), "centres.'kicks'. is 3, of"),
    "drawn with": (changed("trained_.drawn_with", {"dict": {}}), "drawn_with is not what draws"),
    "labels alone": (
        lambda d, _: place(d, "trained_").update(label=place(d, "trained_", "row")),
        "one of label_proba and label only|trained_.label",
    ),
    "machines": (
        changed("classes_", {"values": ["<i8", [3], [0, 1, 2]]}), "class_noise has shape|machines"
    ),
    "layout": (changed(f"{KERNEL}.layout", "dense"), "sparse, and its layout|center must be"),
    "no layout": (changed(f"{KERNEL}.layout", None), "layout is None"),
    "other kernel": (changed(f"{KERNEL}.name", "laplacian"), "layout is 'sparse' for 'laplacian'"),
    "given kernel": (changed(f"{KERNEL}.name", "precomputed"), "but fitted 'precomputed'"),
    "diagonal": (changed("predictor_.support.diagonal", 1.0), "for Gram matrices only"),
    "no scale": (changed("predictor_.support.points.scale", None), "points.scale does not suit"),
    "no norms": (changed("predictor_.support.points.squared_norm", None), "squared_norm does not"),
    "features": (changed("n_features_in_", 4), "support_vectors_ has shape"),
    "same array twice": (
        lambda d, _: state(d).update(support_=place(d, "predictor_", "bayes_points")),
        "support_ is",
    ),
    "notes": (lambda d, _: d.update(about=[]), "notes"),
    "encoder": (lambda d, _: d.update(encoder={"columns": 3}), "damaged|encoder"),
    "unused array": (
        lambda d, _: place(d, "draws_").update(angle_errors=place(d, "draws_", "mean_norms")),
        "belongs to nothing",
    ),
} | {
    name: (changed("classes_", {"values": content}), reason)
    for name, (content, reason) in LABELS.items()
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed_json_is_refused(name, good, tmp_path):
    change, reason = CHANGES[name]
    refused(edited(good, tmp_path / "m.bpm", change), reason)


def one_class(document, members):
    """A model of one class throughout."""
    changed("classes_", {"values": ["<i8", [1], [0]]})(document, members)
    changed("settings_.class_noise", {"values": ["<f8", [1], [0.0]]})(document, members)
    number = place(document, "predictor_", "log_weight")["array"]
    replaced_array(members, document, number, np.zeros(1))


def test_one_class_is_refused(good, tmp_path):
    refused(edited(good, tmp_path / "m.bpm", one_class), "1 label")


def votes():
    return fitted(inference="ep")


def shells():
    return OnionClassifier(depth=1, n_draws=100, random_state=0).fit(*data())


def gram():
    X, y = data()
    return fitted(X @ X.T, y, kernel="precomputed", inference="perceptron")


@pytest.mark.parametrize(
    ("make", "change", "reason"),
    [
        (votes, changed("settings_.decision", "calibrated"), "steepness is None for 'calibrated'"),
        (votes, changed("predictor_.steepness", 1.0), "steepness is 1.0 for 'vote'"),
        (votes, changed("settings_.inference", "billiard"), "is a GaussianPredictor for 'vote' by"),
        (votes, changed("settings_.decision", "span_vote"), "is a GaussianPredictor for 'span_vot"),
        (votes, changed("trained_.label", None), "one of label_proba and label only"),
        (votes, changed(f"{KERNEL}.center", None), "center must be there for dense points"),
        (votes, changed("draws_.coef", []), "decision 'vote' needs draws"),
        (shells, changed("settings_.inference", "ep"), "is 'ep' for OnionClassifier"),
        (shells, changed("shells_", {"tuple": [2, 0]}), "shells_ is .2, 0., none of the table"),
        (shells, changed("shells_", {"tuple": [0, 0, 0]}), "none of the table"),
        (shells, lambda d, _: place(d, "table_").update(products=place(d, "table_", "log_volume")),
         "table_.products is of 2 shells, not 4|belongs to nothing"),
        (gram, changed("predictor_.support.columns", None), "for Gram matrices only"),
        (gram, changed("predictor_.support.diagonal", None), "for Gram matrices only"),
        (gram, lambda d, _: d["classifier"]["parameters"].update(kernel="rbf"), "but fitted 'prec"),
        (gram, changed("n_features_in_", 61), "not its size"),
    ],
)  # fmt: skip
def test_parts_that_do_not_suit_each_other_are_refused(make, change, reason, tmp_path):
    model_file.save(tmp_path / "good.bpm", make())
    model_file.load(tmp_path / "good.bpm")
    refused(edited(tmp_path / "good.bpm", tmp_path / "m.bpm", change), reason)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (3, lambda a: np.where(np.arange(len(a)) == 7, 5, a).astype(a.dtype)),
        (3, lambda a: np.where(np.arange(len(a)) == 7, -1, a).astype(a.dtype)),
        (3, lambda a: a[::-1].copy()),
        (3, lambda a: a.astype(np.int64)[:-1]),
        (3, lambda a: a.astype(np.float64)),
        (4, lambda a: a[::-1].copy()),
        (4, lambda a: a + np.arange(len(a), dtype=a.dtype)),
        (4, lambda a: a[:-1].copy()),
        (2, lambda a: a[:-1].copy()),
        (2, lambda a: a * np.nan),
        (2, lambda a: a.astype(np.int64)),
    ],
)
def test_sparse_points_with_wrong_indices_are_refused(part, change, good, tmp_path):
    def change_part(document, members):
        number = state(document)["support_vectors_"]["csr"][part]
        replaced_array(members, document, number, change(array_of(members, number)))

    refused(edited(good, tmp_path / "m.bpm", change_part), "sparse matrix|support_vectors_|support")


def changed_array(good, path, name, change):
    """File with an array changed, which is named as in messages."""

    def change_array(document, members):
        number = place(document, *name.split("."))["array"]
        replaced_array(members, document, number, change(array_of(members, number)))

    return edited(good, path, change_array)


@pytest.mark.parametrize("name", ["support_", "predictor_.used", "trained_.row"])
@pytest.mark.parametrize("value", [-1, 60, 2**40])
def test_indices_out_of_range_are_refused(name, value, good, tmp_path):
    def change(array):
        array[3] = value
        return array

    refused(changed_array(good, tmp_path / "m.bpm", name, change), f"{name} goes from")


@pytest.mark.parametrize("name", ["support_", "predictor_.used", "trained_.row"])
def test_indices_that_contradict_each_other_are_refused(name, good, tmp_path):
    path = changed_array(good, tmp_path / "m.bpm", name, lambda array: array[::-1].copy())
    refused(path, "support_ is not where trained_.row and predictor_.used say")


@pytest.mark.parametrize("name", ["squared_norm", "scale", "length"])
def test_support_points_have_one_precision(name, good, tmp_path):
    name = f"predictor_.support.points.{name}"
    path = changed_array(good, tmp_path / "m.bpm", name, lambda a: a.astype(np.float32))
    refused(path, f"{name} has dtype float32, not that of points")


@pytest.mark.parametrize("part", ["draws_.resume.sum_coef", "draws_.bayes_points", "draws_.used"])
def test_shapes_that_do_not_agree_are_refused(part, good, tmp_path):
    path = changed_array(good, tmp_path / "m.bpm", part, lambda array: array[:, :-1].copy())
    refused(path, "has shape .* it must be")


def test_an_unchanged_edit_loads(good, tmp_path):
    """The control: what the edits above do beside their change is harmless."""
    path = edited(good, tmp_path / "m.bpm", lambda _, __: None)
    assert_same(model_file.load(path).classifier, model_file.load(good).classifier)


def test_too_many_members(monkeypatch, good):
    monkeypatch.setattr(reading, "MAX_ARRAYS", 5)
    refused(good, "members, more than the 6")


def test_memory_that_is_not_there(good, monkeypatch):
    def none(*_):
        raise MemoryError

    monkeypatch.setattr(reading.np, "empty", none)
    refused(good, "does not fit into memory")


# ---------------------------------------------------------------------- versions


def test_older_schemas_are_brought_up(good, tmp_path, monkeypatch):
    """The mechanism, with an invented version 2 that renames a key."""

    def renamed(document):
        document = dict(document)
        document["about"] = document.pop("notes") | {"upgraded": True}
        return document

    path = edited(good, tmp_path / "m.bpm", lambda d, _: d.update(notes=d.pop("about")))
    refused(path, "model.json has")
    monkeypatch.setattr(files, "SCHEMA", 2)
    monkeypatch.setitem(files.UPGRADES, 1, renamed)
    assert model_file.load(path).about == {"upgraded": True}


def test_every_earlier_version_has_an_upgrade_and_a_stored_sample():
    assert set(files.UPGRADES) == set(range(1, files.SCHEMA))
    stored = {int(path.name.split("-")[1][1:]) for path in DATA.glob("model-v*.bpm")}
    assert stored == set(range(1, files.SCHEMA + 1))


@pytest.mark.parametrize("path", sorted(DATA.glob("model-v*.bpm")), ids=lambda path: path.stem)
def test_stored_samples_load_and_predict_the_same(path):
    model = model_file.load(path)
    expected = model.about["expected"]
    X = np.array(expected["X"])
    assert model.classifier.predict(X).tolist() == expected["predict"]
    # Another processor or BLAS may round otherwise.
    proba = model.classifier.predict_proba(X)
    np.testing.assert_allclose(proba, expected["predict_proba"], rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------- fuzzing, a little


@pytest.mark.skipif(os.name == "nt", reason="kill and fork")
@pytest.mark.slow
def test_a_little_fuzzing():
    script = ROOT / "benchmarks" / "fuzz_models.py"
    if not script.is_file():
        pytest.skip("benchmarks are not here: not a checkout")
    command = [sys.executable, str(script), "--mutants", "60", "--kills", "4", "--no-train"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 mutants" in done.stdout
    assert "3 kills while saving" in done.stdout
