"""Saving: the whole file or the old one, in its place, with its rights."""

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest
from helpers.models import fitted

from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError, files


@pytest.fixture(scope="module")
def clf():
    return fitted(inference="perceptron")


def test_a_failed_save_leaves_the_old_file(clf, tmp_path, monkeypatch):
    path = tmp_path / "m.bpm"
    model_file.save(path, clf)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        model_file.save(path, fitted(gamma=1.0, inference="perceptron"))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.bpm"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_links_are_followed_and_folders_refused(clf, tmp_path):
    (tmp_path / "link.bpm").symlink_to(tmp_path / "real.bpm")
    model_file.save(tmp_path / "link.bpm", clf)
    assert (tmp_path / "link.bpm").is_symlink()
    assert (tmp_path / "real.bpm").is_file()
    (tmp_path / "folder").mkdir()
    for act in (lambda p: model_file.save(p, clf), model_file.load):
        with pytest.raises(ModelFileError, match="not a plain file"):
            act(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        model_file.save(tmp_path / "nowhere" / "m.bpm", clf)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_only_plain_files_are_replaced(clf, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "pipe", tmp_path / "folder", Path(os.devnull)):
        with pytest.raises(ModelFileError, match="not a plain file; give another name"):
            model_file.save(target, clf)
        refused = pytest.raises(FileExistsError, match="not a plain file; give another name")
        with refused as caught, files.replacing(target) as stream:
            stream.write(b"x")
        assert caught.value.filename == str(target)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


@pytest.mark.skipif(os.name == "nt", reason="rights")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_that_is_replaced_keeps_its_rights(mode, tmp_path):
    path = tmp_path / "m.bpm"
    path.write_bytes(b"old")
    path.chmod(mode)
    with files.replacing(path) as stream:
        assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == mode
        stream.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name == "nt", reason="rights")
def test_a_new_file_has_the_rights_of_any_other(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    with files.replacing(tmp_path / "m.bpm") as stream:
        stream.write(b"new")
    assert (tmp_path / "m.bpm").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("letters", ["語" * 83, "ü" * 125 + "a", "a" * 251])
def test_long_names(letters, tmp_path):
    path = tmp_path / f"{letters}.bpm"
    with files.replacing(path) as stream:
        (temporary,) = tmp_path.iterdir()
        assert temporary.name.startswith(f".{letters[:20]}")
        stream.write(b"new")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="folders are not opened")
@pytest.mark.parametrize("code", ["EINVAL", "EACCES", "ENOTSUP", "EIO"])
def test_folders_that_cannot_be_brought_to_the_disk(code, tmp_path, monkeypatch):
    name = "open" if code == "EACCES" else "fsync"
    known = getattr(os, name)

    def no(target, *rest):
        if os.path.isdir(target):
            raise OSError(getattr(errno, code), code)
        return known(target, *rest)

    (tmp_path / "m.bpm").write_bytes(b"old")
    monkeypatch.setattr(files.os, name, no)
    refused = pytest.raises(OSError, match="EIO") if code == "EIO" else nullcontext()
    with refused, files.replacing(tmp_path / "m.bpm") as stream:
        stream.write(b"new")
    assert (tmp_path / "m.bpm").read_bytes() == b"new"  # it has its name already
