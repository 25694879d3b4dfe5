"""Data sets are fetched from addresses, checked, kept; what does not come is skipped and named."""

import gzip
import http.server
import os
import threading
from functools import partial

import numpy as np
import pytest
from helpers.cli import run
from scipy.io import savemat

from bayespoint.papers import datasets, sources
from bayespoint.papers import raetsch as raetsch_sets
from bayespoint.papers.reproduction import tools
from bayespoint.papers.sources import Source, content_sha256

ROWS = "".join(f"{k / 7:.4f},{k % 3}.5,{'MR'[k % 2]}\n" for k in range(10))


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; a file whose name begins with "cut" ends too early."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if "/cut" not in self.path:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"few")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder that is served on loopback, its address, and an empty cache folder."""
    served = tmp_path / "served"
    served.mkdir()
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(served))
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield served, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def publish(monkeypatch, address, *files, sha256, name="sonar"):
    """Let one set be published under some names at an address, and no other set anywhere."""
    found = tuple(f"{address}/{file}" for file in files)
    monkeypatch.setattr(sources, "SOURCES", {name: (Source("uci/sonar.all-data", found, sha256),)})


def test_a_set_is_fetched_checked_and_read(home, monkeypatch):
    served, address = home
    (served / "sonar").write_bytes(gzip.compress(ROWS.replace("\n", " \r\n").encode()))
    publish(monkeypatch, address, "sonar", sha256=content_sha256(ROWS.encode(), True))
    result = run("reproduce", "--fetch")
    assert result.exit_code == 0, result.output
    assert "fetched  uci/sonar.all-data" in result.output
    assert "checksum right" in result.output
    X, y = datasets.load("sonar")
    np.testing.assert_allclose(X[:, 0], [float(row.split(",")[0]) for row in ROWS.split()])
    np.testing.assert_array_equal(y, [1, -1] * 5)
    (served / "sonar").unlink()
    assert "there    uci/sonar.all-data" in run("reproduce", "--fetch").output


def test_what_is_not_the_published_file_is_skipped_and_its_address_named(home, monkeypatch):
    served, address = home
    (served / "other").write_text(ROWS.replace("M", "R"))
    files = "missing", "cut", "other"
    publish(monkeypatch, address, *files, sha256=content_sha256(ROWS.encode(), True))
    result = run("reproduce", "--fetch")
    assert result.exit_code == 1
    for file, why in zip(
        files, ("404", "bytes of 1000 came|more expected", "checksum"), strict=True
    ):
        assert any(
            f"{address}/{file}: " in part and any(w in part for w in why.split("|"))
            for part in result.output.split(";")
        ), (file, result.output)
    assert not sources.data_folder().exists()
    # The next address that has it serves.
    (served / "last").write_text(ROWS)
    publish(monkeypatch, address, *files, "last", sha256=content_sha256(ROWS.encode(), True))
    assert [o.status for o in sources.fetch()] == [sources.FETCHED]


def test_files_that_are_there_are_left_alone(home, monkeypatch, tmp_path):
    served, address = home
    (served / "sonar").write_text(ROWS)
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path / "mine"))
    mine = tmp_path / "mine" / "uci" / "sonar.all-data"
    mine.parent.mkdir(parents=True)
    mine.write_text("1,2,M\n")
    publish(monkeypatch, address, "sonar", sha256=content_sha256(ROWS.encode(), True))
    (outcome,) = sources.fetch()
    assert outcome.status == sources.DIFFERS
    assert mine.read_text() == "1,2,M\n"
    result = run("reproduce", "--fetch")
    assert result.exit_code == 1
    assert "1 of 1 files are there.\nNot as published, and used as they are: 1." in result.output


def test_what_unpacks_to_far_too_much_is_no_file(home, monkeypatch):
    served, address = home
    (served / "bomb").write_bytes(gzip.compress(ROWS.encode() * 100))
    publish(monkeypatch, address, "bomb", sha256=content_sha256(ROWS.encode() * 100, True))
    monkeypatch.setattr(sources, "MOST_BYTES", 1000)
    (outcome,) = sources.fetch()
    assert (outcome.status, "checksum" in outcome.why) == (sources.SKIPPED, True)


@pytest.mark.usefixtures("home")
def test_addresses_that_are_no_web_are_not_opened(monkeypatch, tmp_path):
    (tmp_path / "file").write_text(ROWS)
    publish(monkeypatch, f"file://{tmp_path}", "file", sha256=content_sha256(ROWS.encode(), True))
    assert [o.status for o in sources.fetch()] == [sources.SKIPPED]


@pytest.mark.usefixtures("home")
def test_items_without_data_are_skipped_with_the_address(monkeypatch, tmp_path):
    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    result = run("reproduce", "rm-breast-cancer", "--quick", "--output", tmp_path / "out")
    flat = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "rm-breast-cancer: skipped: data set 'wbc' was not found" in flat
    assert "https://archive.ics.uci.edu/ml/machine-learning-databases/breast-cancer" in flat


@pytest.mark.usefixtures("home")
def test_raetsch_as_published():
    folder = sources.data_folder() / "raetsch"
    folder.mkdir(parents=True)
    content = {
        "x": np.arange(8.0).reshape(4, 2), "t": np.array([[1.0], [-1], [-1], [1]]),
        "train": np.array([[1, 2], [4, 1]]), "test": np.array([[3, 4], [2, 3]]),
    }  # fmt: skip
    savemat(folder / "benchmarks.mat", {"breast_cancer": content})
    X, y, X_test, y_test = datasets.raetsch("breast-cancer", 2)
    np.testing.assert_array_equal(X, [[6, 7], [0, 1]])
    np.testing.assert_array_equal(y, [1, 1])
    np.testing.assert_array_equal(X_test, [[2, 3], [4, 5]])
    np.testing.assert_array_equal(y_test, [-1, -1])
    assert datasets.raetsch_origin("breast-cancer") == "Rätsch's own splits"
    assert datasets.raetsch_origin("german") == "no file of its splits is there"
    with pytest.raises(ValueError, match=r"2 splits of 'breast-cancer'; got split=3"):
        datasets.raetsch("breast-cancer", 3)
    content["train"] -= 1  # counted from 0, which the format does not
    savemat(folder / "benchmarks.mat", {"breast_cancer": content})
    with pytest.raises(ValueError, match="no sound split 1 of 'breast-cancer'"):
        datasets.raetsch("breast-cancer", 1)


@pytest.mark.usefixtures("home")
def test_splits_that_nobody_publishes_are_made_by_a_seed_and_it_is_said():
    parts = datasets.raetsch("waveform", 1)
    assert [part.shape for part in parts] == [(400, 21), (400,), (4600, 21), (4600,)]
    again, other = datasets.raetsch("waveform", 1), datasets.raetsch("waveform", 2)
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    assert not np.array_equal(parts[0], other[0])
    y = np.concatenate(parts[1::2])
    assert 0.30 < np.mean(y == 1) < 0.36  # one class of three
    assert "made here by a seed" in tools.origins(["waveform", "sonar"])["waveform"]
    assert "made here by a seed" in tools.origins(["sonar"])["sonar"]


@pytest.mark.usefixtures("home")
def test_rows_of_uci_become_raetschs():
    folder = sources.data_folder() / "uci"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    X, label = rng.normal(5, 3, (215, 5)).round(1), rng.integers(1, 4, 215)
    rows = (",".join(map(str, [k, *x])) for k, x in zip(label.tolist(), X.tolist(), strict=True))
    (folder / "new-thyroid.data").write_text("\n".join(rows))
    X_train, y, X_test, _ = datasets.raetsch("thyroid", 3)
    assert len(X_train) == 140
    both = np.concatenate([X_train, X_test])
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(both.std(axis=0, ddof=1), 1)
    assert set(y) == {-1, 1}
    assert len(raetsch_sets.MADE) == 5


def test_every_file_has_a_checksum():
    every = [source for files in sources.SOURCES.values() for source in files]
    assert all(len(source.sha256) == 64 for source in every)
    assert len({source.sha256 for source in every}) == len(every)


@pytest.mark.skipif(not os.environ.get(sources.VARIABLE), reason="needs the folder of data sets")
@pytest.mark.parametrize("name", ["sonar", "sonar-angle", "ionosphere", "wbc", "thyroid", "heart"])
def test_checksums_are_those_of_the_folder(name):
    for source in sources.SOURCES[name]:
        path = sources.found_at(sources.data_folder() / source.path)
        assert content_sha256(path.read_bytes(), source.text) == source.sha256
        assert content_sha256(path.read_bytes() + b"1", source.text) != source.sha256
