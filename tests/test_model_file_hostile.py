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
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from test_model_file import assert_same, data, fitted

from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError, files, layout, reading
from bayespoint.io.tables import printable

DATA = Path(__file__).parent / "data"


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
        diagnostics = state(document)["diagnostics_"]["dict"]
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


CHANGES = {
    "later schema": (lambda d, _: d.update(schema=2), "Upgrade: pip install"),
    "no schema": (lambda d, _: d.update(schema="1"), "schema version '1'"),
    "unknown class": (lambda d, _: d["classifier"].update({"class": "os.system"}), "class 'os.sys"),
    "callable": (lambda d, _: d["classifier"]["parameters"].update(kernel="os.system"), "kernel"),
    "unknown key": (lambda d, _: d.update(run="x"), "model.json has"),
    "unknown attribute": (lambda d, _: state(d).update(predict=1), "'predict' is not one"),
    "missing attribute": (lambda d, _: state(d).pop("_kappa_"), "_kappa_ is missing"),
    "unknown kind": (lambda d, _: state(d).update(_kappa_={"eval": "1"}), "unknown kind 'eval'"),
    "wrong type": (lambda d, _: state(d).update(gamma_="wide"), "gamma_ is 'wide'"),
    "truth": (lambda d, _: state(d).update(gamma_=True), "gamma_ is True"),
    "negative": (lambda d, _: state(d).update(softness_=-1.0), "softness_ is -1.0"),
    "not finite": (lambda d, _: state(d).update(gamma_={"float": "nan"}), "must be finite"),
    "NaN kappa": (lambda d, _: state(d).update(_kappa_={"float": "nan"}), "_kappa_ is nan; decis"),
    "endless kappa": (lambda d, _: state(d).update(_kappa_={"float": "inf"}), "_kappa_ is inf; d"),
    "negative kappa": (lambda d, _: state(d).update(_kappa_=-0.5), "_kappa_ is -0.5"),
    "noise": (lambda d, _: state(d).update(_noise_=1.0), "_noise_ is 1.0; it must be below 1"),
    "negative noise": (lambda d, _: state(d).update(_noise_=-0.1), "_noise_ is -0.1"),
    "NaN noise": (lambda d, _: state(d).update(_noise_={"float": "nan"}), "_noise_ is nan"),
    "evidence": (
        lambda d, _: state(d).update(log_evidence_={"float": "nan"}), "log_evidence_ is nan"
    ),
    "huge kappa": (lambda d, _: state(d).update(_kappa_=10**400), "_kappa_ is 10+.* too large"),
    "huge gamma": (lambda d, _: state(d).update(gamma_=-(10**400)), "gamma_ is -10+.* too large"),
    "huge entropy": (lambda d, _: state(d).update(_entropy_=10**400), "_entropy_ is 10+.* too l"),
    "huge parameter": (
        lambda d, _: d["classifier"]["parameters"].update(gamma=10**400), "parameters: "
    ),
    "one class": (lambda d, _: state(d).update(classes_={"values": ["<i8", [1], [0]]}), "1 label"),
    "same class": (
        lambda d, _: state(d).update(classes_={"values": ["<i8", [2], [0, 0]]}), "label twice"
    ),
    "long text": (
        lambda d, _: state(d).update(classes_={"values": ["<U1", [2], ["aa", "b"]]}), "2 characters"
    ),
    "overflow": (
        lambda d, _: state(d).update(classes_={"values": ["|i1", [2], [0, 999]]}), "OverflowError"
    ),
    "votes": (lambda d, _: state(d).update(_decision_="vote"), "needs all points"),
    "layout": (lambda d, _: state(d).update(_layout_="dense"), "sparse, and its layout|_center_"),
    "no layout": (lambda d, _: state(d).update(_layout_=None), "_layout_ is None"),
    "features": (lambda d, _: state(d).update(n_features_in_=4), "support_vectors_ has shape"),
    "same array twice": (
        lambda d, _: state(d).update(support_=state(d)["dual_coef_"]), "support_ is"
    ),
    "notes": (lambda d, _: d.update(about=[]), "notes"),
    "encoder": (lambda d, _: d.update(encoder={"columns": 3}), "damaged|encoder"),
    "unused array": (
        lambda d, _: state(d).update(bayes_point_error_=state(d)["_draws_"]["dict"]["mean_norms"])
        or state(d)["_draws_"]["dict"].update(angle_errors=state(d)["bayes_point_error_"]),
        "belongs to nothing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed_json_is_refused(name, good, tmp_path):
    change, reason = CHANGES[name]
    refused(edited(good, tmp_path / "m.bpm", change), reason)


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
    def changed(document, members):
        number = state(document)["support_vectors_"]["csr"][part]
        replaced_array(members, document, number, change(array_of(members, number)))

    refused(edited(good, tmp_path / "m.bpm", changed), "sparse matrix|support_vectors_|_support_")


@pytest.mark.parametrize("name", ["support_", "_used_", "_points_row_"])
@pytest.mark.parametrize("value", [-1, 60, 2**40])
def test_indices_out_of_range_are_refused(name, value, good, tmp_path):
    def changed(document, members):
        number = state(document)[name]["array"]
        array = array_of(members, number)
        array[3] = value
        replaced_array(members, document, number, array)

    refused(edited(good, tmp_path / "m.bpm", changed), f"{name} goes from")


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
    script = Path(__file__).parent.parent / "benchmarks" / "fuzz_models.py"
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
