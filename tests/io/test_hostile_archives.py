"""Hostile archives: refused in one line, without memory, without running anything."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from helpers.hostile import edited, members_of, refused, refused_without_memory, write_members
from helpers.models import assert_same
from helpers.paths import ROOT

from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError, files, layout, reading
from bayespoint.io.tables import printable


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip" * 10, b"PK\5\6" + bytes(18)])
def test_other_files(content, tmp_path):
    path = tmp_path / "m.bpm"
    path.write_bytes(content)
    refused(path, "not a bayespoint model file")


def test_cut_short_anywhere(good, tmp_path):
    content = good.read_bytes()
    path = tmp_path / "m.bpm"
    for length in np.linspace(0, len(content) - 1, 15).astype(int):
        path.write_bytes(content[:length])
        refused(path, "not a bayespoint model file")


def test_prepended_and_appended_bytes(good, tmp_path):
    path = tmp_path / "m.bpm"
    path.write_bytes(b"#!/bin/sh\n" + good.read_bytes())
    refused(path, "not where the end of the file says")
    path.write_bytes(good.read_bytes() + b"x")
    refused(path, "not a bayespoint model file")


STRANGERS = ("/etc/passwd", "../x", "arrays/00.npy", "arrays/99.npy", "x\u202e\x1b[31m", "a" * 999)


def test_unknown_members(good, tmp_path):
    for name in STRANGERS:
        path = write_members(tmp_path / "m.bpm", members_of(good) | {name: b"x"})
        refused(path, "is not of a model file|marked otherwise", name)


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


def test_bombs(good, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "FREE_BYTES", 2**20)
    zeros = bytes(2**22)
    for name in ("model.json", "arrays/0.npy"):
        members = members_of(good) | {name: zeros}
        path = write_members(tmp_path / "m.bpm", members, zipfile.ZIP_DEFLATED)
        assert path.stat().st_size < len(zeros) / layout.MAX_RATIO
        refused(path, "would inflate to", name)


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


# What a model.json inflates to whose size says less, and what may be in memory at once.
INFLATED, LITTLE = 2**24, 2**23


@pytest.fixture(scope="module")
def inflating(good, tmp_path_factory):
    """Content of a file whose JSON inflates to 16 MiB, and where the JSON's entry begins."""
    members = members_of(good) | {"model.json": b" " * INFLATED}
    path = tmp_path_factory.mktemp("inflating") / "m.bpm"
    content = write_members(path, members, zipfile.ZIP_DEFLATED).read_bytes()
    place = content.rindex(b"PK\1\2")
    assert content[place + 46 :].startswith(b"model.json")
    return content, place


@pytest.mark.parametrize("size", [0, 1, 1000, 2**20])
def test_a_size_of_the_json_that_lies(size, inflating, tmp_path):
    """The checksum is right for all of the JSON, or for what is read of it."""
    content, place = bytearray(inflating[0]), inflating[1]
    content[place + 24 : place + 28] = size.to_bytes(4, "little")
    path = tmp_path / "m.bpm"
    for n_summed in (None, size, size + 1):
        if n_summed is not None:
            checksum = zlib.crc32(b" " * n_summed)
            content[place + 16 : place + 20] = checksum.to_bytes(4, "little")
        path.write_bytes(content)
        reason = "Bad CRC-32|does not have the .* bytes announced"
        refused_without_memory(path, reason, LITTLE, f"checksum of {n_summed}")


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


@pytest.mark.parametrize("name", ["ev\x1b[31mil.bpm", "\u202egnp.bpm", "new\nline.bpm", "n" * 200])
def test_names_of_files_are_printable_and_given_once(name, good, tmp_path):
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
        model_file.save(folder, model_file.load(good).classifier)
    assert str(caught.value).isprintable()


def test_errors_of_the_system_name_the_file_once(good, monkeypatch):
    def broken(_):
        raise OSError(5, "Input/output error", str(good))

    monkeypatch.setattr(files, "Reader", broken)
    with pytest.raises(ModelFileError, match="OSError: Input/output error") as caught:
        model_file.load(good)
    assert str(caught.value).count(good.name) == 1


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


BAD_JSON = [
    (b"{", "JSONDecodeError"),
    (b"[]", "not a JSON object"),
    (b'{"a": NaN}', "not JSON"),
    (b'{"a": 1e999}', "too large for a number"),
    (b'{"a": ' + b"9" * 5000 + b"}", "ValueError"),
    (b'{"a": 1, "a": 2}', "same key twice"),
    (b"[" * 10**6, "nested too deep"),
    (b'{"a":' * 10**5, "nested too deep"),
    (b"\xff\xfe", "UnicodeDecodeError"),
]


def test_bad_json(good, tmp_path):
    for text, reason in BAD_JSON:
        members = members_of(good) | {"model.json": text}
        refused(write_members(tmp_path / "m.bpm", members), reason, text[:20])


def test_damaged_arrays_are_found(good, tmp_path):
    members = members_of(good)
    content = bytearray(members["arrays/0.npy"])
    content[-1] ^= 1
    refused(write_members(tmp_path / "m.bpm", members | {"arrays/0.npy": content}), "SHA-256")


def test_too_many_members(monkeypatch, good):
    monkeypatch.setattr(reading, "MAX_ARRAYS", 5)
    refused(good, "members, more than the 6")


def test_memory_that_is_not_there(good, monkeypatch):
    def none(*_):
        raise MemoryError

    monkeypatch.setattr(reading.np, "empty", none)
    refused(good, "does not fit into memory")


# ---------------------------------------------------------------------- fuzzing


def test_flipped_bits_are_found_or_change_nothing(good, tmp_path):
    expected = model_file.load(good).classifier
    content, rng = good.read_bytes(), np.random.default_rng(0)
    directory = content.index(b"PK\1\2")
    path, fates = tmp_path / "m.bpm", []
    for first, last in ((0, directory), (directory, len(content))):
        for place in rng.integers(first, last, 20):
            mutant = bytearray(content)
            mutant[place] ^= 1 << rng.integers(8)
            path.write_bytes(mutant)
            try:
                again = model_file.load(path).classifier
            except ModelFileError:
                fates.append("refused")
            else:
                fates.append("equal")
                assert_same(expected, again, f"bit of byte {place}")
    assert fates.count("refused") > 20


@pytest.mark.skipif(os.name == "nt", reason="kill and fork")
@pytest.mark.slow
def test_more_fuzzing():
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
