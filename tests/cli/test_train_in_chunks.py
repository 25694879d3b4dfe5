"""``train --chunk-rows``: files larger than memory, one chunk after the other."""

import gzip
import json
import tracemalloc
from functools import wraps

import numpy as np
import pytest
from helpers.cli import fails, predicted, run, well, write
from helpers.stops import can_press, press_ctrl_c

from bayespoint import BayesPointClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import load
from bayespoint.io.tables import read_table

QUICK = ["--n-jobs", 1, "--no-importances"]
NAMES = ["x", "word", "y"]


def rows_of(n, words="ab", seed=0):
    """Rows whose class is told by a number and a word."""
    rng = np.random.default_rng(seed)
    X, W = rng.normal(size=n).round(3), rng.integers(len(words), size=n)
    return [[x, words[w], "high" if x > w / 2 else "low"] for x, w in zip(X, W, strict=True)]


def train(data, model, *options):
    return ["train", data, "--target", "y", "--model", model, *QUICK, *options]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.usefixtures("chunks_given")
def test_it_is_partial_fit_of_each_chunk(tmp_path, packed):
    data, model = write(tmp_path / "d.csv", NAMES, rows_of(70)), tmp_path / "m.bpm"
    table = read_table(data, text=["y"])
    labels = np.array(table.column("y").tolist())
    if packed:
        packed_data = tmp_path / "d.csv.gz"
        packed_data.write_bytes(gzip.compress(data.read_bytes()))
        data = packed_data
    said = " ".join(well(*train(data, model, "--chunk-rows", 30)).output.split())
    encoder = TableEncoder().fit(table.rows(slice(30)).without(["y"]))
    expected = BayesPointClassifier(feature_groups=encoder.feature_groups_, random_state=0)
    X = encoder.transform(table)
    for start in (0, 30, 60):
        chunk = slice(start, start + 30)
        expected.partial_fit(X[chunk], labels[chunk], classes=["high", "low"])
    found = load(model)
    assert found.encoder.to_state() == encoder.to_state()
    np.testing.assert_array_equal(found.classifier.predict_proba(X), expected.predict_proba(X))
    first, second = -expected.log_predictive_[1:]
    assert found.about["log_losses"] == [first, second]
    assert f"Read {data.name}: 70 rows in 3 chunks; 1 column of numbers, 1 of text" in said
    assert "Trained in" in said
    assert f"before they were learned: {first:.4f} in chunk 2, {second:.4f} in chunk 3" in said
    well("train", data, "--continue", model, *QUICK)
    assert load(model).about["n_rows"] == 140


@pytest.mark.usefixtures("chunks_given")
def test_memory_and_half_life_are_given(tmp_path):
    data, model = write(tmp_path / "d.csv", NAMES, rows_of(60)), tmp_path / "m.bpm"
    given = "--cache-size", 50, "--half-life", 2.5
    said = " ".join(well(*train(data, model, "--chunk-rows", 20, *given)).output.split())
    found = load(model).classifier
    assert (found.cache_size, found.half_life) == (50, 2.5)
    n_dropped = found.stream_.dropped
    assert n_dropped >= 20  # of eight half-lives and more
    words = "the oldest, are no longer held, as they no longer count or memory is limited."
    assert f"{n_dropped} rows, {words}" in said
    well("train", data, "--continue", model, *QUICK, "--cache-size", 60)
    found = load(model).classifier
    assert (found.cache_size, found.half_life) == (60, 2.5)


def test_a_half_life_that_would_do_nothing_is_refused(tmp_path):
    data, model = write(tmp_path / "d.csv", NAMES, rows_of(20)), tmp_path / "m.bpm"
    half_life = "--half-life", 100
    fails(2, *train(data, model, "--half-life", 0), words="--half-life")
    for more in (["--inference", "billiard"], ["--coverage", 0.9]):
        fails(2, *train(data, model, *half_life, *more), words="models that go on learning")
    fails(2, "cross-validate", data, "--target", "y", *half_life, words="No such option")


@pytest.mark.usefixtures("chunks_given")
def test_what_the_first_chunk_lacks(tmp_path):
    """Classes come late, even the second one; so do words, and are none of the known."""
    first = [[x, "ab"[i % 2], "low"] for i, x in enumerate(np.linspace(-3, -1, 20))]
    x = np.random.default_rng(0).uniform(-3, 5, size=60).round(2)
    later = [[v, "abc"[i % 3], "low" if v < 0 else "high" if v < 3 else "top"]
             for i, v in enumerate(x)]  # fmt: skip
    data = write(tmp_path / "d.csv", NAMES, first + later)
    model = tmp_path / "m.bpm"
    said = " ".join(well(*train(data, model, "--chunk-rows", 20)).output.split())
    assert "3 classes, high (" in said
    assert "'word': 20 cells with values not seen in the first 20 rows ('c'), taken as none" in said
    names, found, _ = predicted(data, model, tmp_path / "p.csv")
    assert names[2:] == ["probability_high", "probability_low", "probability_top"]
    right = [row[0] == given[2] for row, given in zip(found, first + later, strict=True)]
    assert np.mean(right) > 0.9
    assert load(model).encoder.feature_names_ == ["x", "word=a", "word=b"]


@pytest.mark.usefixtures("chunks_given")
def test_one_chunk_is_enough_and_columns_matter(tmp_path):
    data, model = write(tmp_path / "d.csv", NAMES, rows_of(40)), tmp_path / "m.bpm"
    found = json.loads(well(*train(data, model, "--chunk-rows", 1000, "--importances", "--json"))
                       .stdout)  # fmt: skip
    assert found["log_losses"] == []
    assert {column["name"] for column in found["importances"]} == {"x", "word"}


@pytest.mark.usefixtures("chunks_given")
def test_memory_is_that_of_a_chunk(tmp_path, monkeypatch):
    """The classifier learns few rows of each chunk, so that others than its memory is counted."""
    n_rows, partial_fit = 50_000, BayesPointClassifier.partial_fit

    @wraps(partial_fit)
    def thinned(self, X, y, classes=None):
        n_given.append(len(X))
        return partial_fit(self, X[:20], y[:20], classes=classes)

    monkeypatch.setattr(BayesPointClassifier, "partial_fit", thinned)
    rng = np.random.default_rng(0)
    lines = [f"{x:.2f},{'ab'[int(x > 0)]}\n" for x in rng.normal(size=n_rows)]
    data, few, n_given = tmp_path / "d.csv.gz", tmp_path / "few.csv", []
    data.write_bytes(gzip.compress("".join(["x,y\n", *lines]).encode(), 1))
    few.write_text("".join(["x,y\n", *lines[:50]]), encoding="utf-8")
    well(*train(few, tmp_path / "m.bpm", "--chunk-rows", 20))  # what is imported stays in memory
    n_given.clear()
    tracemalloc.start()
    try:
        well(*train(data, tmp_path / "m.bpm", "--chunk-rows", 5_000))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_given == [5_000] * 10
    assert most < 5e6  # lines, labels and numbers of all rows take 8 MB


def test_settings_and_files_that_do_not_go_with_it(tmp_path):
    data = write(tmp_path / "d.csv", NAMES, rows_of(30))
    for options, words in (
        (["--coverage", 0.9], "does not work with --coverage and --max-risk"),
        (["--max-risk", 0.1], "does not work with --coverage and --max-risk"),
        (["--inference", "perceptron"], "use --inference ep"),
        (["--drop", "y"], "--drop names the target"),
        (["--drop", "z"], "--drop 'z' is not a column"),
        (["--categorical", "z"], "--categorical 'z' is not a column"),
    ):
        fails(2, *train(data, tmp_path / "m.bpm", "--chunk-rows", 10, *options), words=words)
    model = tmp_path / "m.bpm"
    fails(2, *train(data, model, "--chunk-rows", 2))
    fails(2, *train("-", model, "--chunk-rows", 10), words="name a file, not -")
    fails(2, *train(tmp_path, model, "--chunk-rows", 10), words="is a folder")
    np.save(tmp_path / "d.npy", np.zeros((3, 2)))
    fails(1, *train(tmp_path / "d.npy", model, "--chunk-rows", 10), words="d.npy: npy files are")
    assert not model.exists()


def test_all_rows_are_checked_before_the_first_is_learned(tmp_path, monkeypatch):
    monkeypatch.delattr(BayesPointClassifier, "partial_fit")
    data, rows = tmp_path / "d.csv", rows_of(30)
    for last, words in (
        ([["none", "a", "low"]], ["line 32: 'none' is not a number", "raise --chunk-rows"]),
        ([[1, "a", ""]], "missing in 1 row (line 32)"),
        ([[1, "a"]], ["d.csv: line 32 has 2 cells"]),
        ([[1, "a", f"c{i}"] for i in range(120)], "classes; at most 100"),
    ):
        write(data, NAMES, rows + last)
        fails(1, *train(data, tmp_path / "m.bpm", "--chunk-rows", 10), words=words)
    write(data, NAMES, [[*row[:2], "same"] for row in rows])
    fails(1, *train(data, tmp_path / "m.bpm", "--chunk-rows", 10), words="only one value ('same')")
    write(data, NAMES, [])
    fails(1, *train(data, tmp_path / "m.bpm", "--chunk-rows", 10), words="no rows of data")
    assert not (tmp_path / "m.bpm").exists()


@can_press
@pytest.mark.usefixtures("chunks_given")
def test_ctrl_c_keeps_the_chunks_that_were_learned(tmp_path, monkeypatch):
    partial_fit = BayesPointClassifier.partial_fit

    @wraps(partial_fit)
    def pressed(self, X, y, classes=None):
        if pressed.before == len(pressed.calls):
            press_ctrl_c()
        pressed.calls.append(len(X))
        return partial_fit(self, X, y, classes=classes)

    monkeypatch.setattr(BayesPointClassifier, "partial_fit", pressed)
    data, model = write(tmp_path / "d.csv", NAMES, rows_of(30)), tmp_path / "m.bpm"
    command = train(data, model, "--chunk-rows", 10)
    pressed.calls, pressed.before = [], 0
    done = run(*command)
    assert done.exit_code == 130
    assert done.stderr == "stopped; no model was written\n"
    assert not model.exists()
    pressed.calls, pressed.before = [], 2
    done = run(*command)
    assert done.exit_code == 130
    assert "interrupted; the model has learned 20 of 30 rows" in " ".join(done.output.split())
    about = load(model).about
    assert about["interrupted"]
    assert about["n_rows"] == sum(about["classes"].values()) == 20


@pytest.mark.usefixtures("chunks_given")
def test_no_chunk_is_begun_once_time_is_up(tmp_path, clock, monkeypatch):
    partial_fit = BayesPointClassifier.partial_fit

    @wraps(partial_fit)
    def slow(self, *arguments, **others):
        clock.now += 4
        limits.append(self.max_time)
        return partial_fit(self, *arguments, **others)

    monkeypatch.setattr(BayesPointClassifier, "partial_fit", slow)
    data, model, limits = write(tmp_path / "d.csv", NAMES, rows_of(50)), tmp_path / "m.bpm", []
    said = well(*train(data, model, "--chunk-rows", 10, "--max-time", 10)).output
    assert limits == [10, 6, 2]
    assert "time was up; the model has learned 30 of 50 rows" in " ".join(said.split())
    assert load(model).classifier.max_time == 10
