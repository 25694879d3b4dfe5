"""``train --dask``: files that workers of a cluster read."""

import numpy as np
import pytest
from helpers.cli import fails, well, write
from helpers.clusters import local_cluster

pytest.importorskip("dask")  # not "distributed", which is this folder where it is missing

from bayespoint import BayesPointClassifier
from bayespoint.cli import with_values
from bayespoint.distributed import DaskBayesPointClassifier
from bayespoint.distributed.session import WorkersLostError
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import load
from bayespoint.io.tables import read_table

NAMES = ["x", "word", "y"]
QUICK = ["--n-jobs", 1, "--no-importances", "--inference", "ep"]


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    X, W = rng.normal(size=n).round(3), rng.integers(2, size=n)
    return [[x, "ab"[w], "high" if x > w / 2 else "low"] for x, w in zip(X, W, strict=True)]


@pytest.fixture(scope="module")
def address():
    cluster, client = local_cluster(1)
    with cluster, client:
        yield cluster.scheduler_address


def test_files_of_a_pattern_are_one_model(tmp_path, address, monkeypatch):
    rows = [rows_of(40, seed) for seed in range(2)]
    for number, some in enumerate(rows):
        write(tmp_path / f"part-{number}.csv", NAMES, some)
    model = tmp_path / "m.bpm"
    monkeypatch.chdir(tmp_path)  # where the worker is not
    files = ["train", "part-*.csv", "--target", "y", "--model", model]
    said = well(*files, *QUICK, "--dask", address)
    assert "80 rows in 2 files" in " ".join(said.output.split())
    found = load(model)
    tables = [read_table(tmp_path / f"part-{number}.csv", text=["y"]) for number in range(2)]
    encoder = TableEncoder().fit(tables[0].without(["y"]))
    X = np.concatenate([encoder.transform(table.without(["y"])) for table in tables])
    labels = np.concatenate([np.array(table.column("y").tolist()) for table in tables])
    wanted = BayesPointClassifier(
        inference="ep", feature_groups=encoder.feature_groups_, random_state=0
    ).fit(X, labels)
    assert found.encoder.to_state() == encoder.to_state()
    np.testing.assert_allclose(
        found.classifier.predict_proba(X), wanted.predict_proba(X), atol=1e-4
    )
    assert found.about["classes"] == dict(zip(*np.unique(labels, return_counts=True), strict=True))


def test_what_goes_wrong_on_a_worker_is_said_in_a_line(tmp_path, address, monkeypatch):
    write(tmp_path / "part-0.csv", NAMES, rows_of(40, 0))
    write(tmp_path / "part-1.csv", ["x", "y"], [[1, "high"], [2, "low"]])
    model = tmp_path / "m.bpm"
    files = ["train", tmp_path / "part-*.csv", "--target", "y", "--model", model, *QUICK]
    assert "error: part-1.csv: " in fails(1, *files, "--dask", address)
    (tmp_path / "part-1.csv").unlink()
    (tmp_path / "part-1.csv").symlink_to("elsewhere.csv")
    said = " ".join(fails(1, *files, "--dask", address).split())
    assert "error: a worker cannot read" in said
    assert "No such file or directory. Workers read files by themselves" in said
    (tmp_path / "part-1.csv").unlink()

    def lose(*_):
        raise WorkersLostError("the cluster had no workers")

    monkeypatch.setattr(DaskBayesPointClassifier, "fit", lose)
    said = fails(1, *files, "--dask", address)
    assert "error: training failed: the cluster had no workers" in said


def test_what_does_not_go_with_it_is_refused(tmp_path):
    write(tmp_path / "d.csv", NAMES, rows_of(40, 0))
    train = ["train", tmp_path / "d.csv", "--target", "y", "--model", tmp_path / "m.bpm"]
    assert "--coverage" in fails(2, *train, "--dask", "local", "--coverage", 0.9)
    assert "--chunk-rows" in fails(2, *train, "--dask", "local", "--chunk-rows", 20)
    missing = ["train", tmp_path / "no-*.csv", "--target", "y", "--model", tmp_path / "m.bpm"]
    assert "there is no file" in fails(2, *missing, "--dask", "local")


def test_an_address_may_be_left_out():
    assert with_values(["train", "f", "--dask"]) == ["train", "f", "--dask=local"]
    assert with_values(["f", "--dask", "-q"]) == ["f", "--dask=local", "-q"]
    assert with_values(["f", "--dask", "tcp://h:1"]) == ["f", "--dask", "tcp://h:1"]
