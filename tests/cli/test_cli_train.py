"""The commands train and predict: from a CSV file to decisions, and how they fail."""

import csv
import importlib.util
import io
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import FAST, fails, run_process, well, write
from helpers.paths import ROOT
from sklearn.datasets import load_iris

import bayespoint
from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint._support.budget import Budget
from bayespoint._support.devices import DeviceError
from bayespoint.cli.deciding import decide
from bayespoint.cli.output import Output
from bayespoint.cli.predict import TerminalStream
from bayespoint.io.model_file import load, save
from bayespoint.io.tables import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Iris with a column of text, and models trained on it by the command."""
    folder = tmp_path_factory.mktemp("train")
    X, y = load_iris(return_X_y=True)
    rows = [
        [*x, "wide" if x[1] > 3 else "narrow", i, f"iris {label}"]
        for i, (x, label) in enumerate(zip(X.tolist(), y, strict=True))
    ]
    names = ["sepal l", "sepal w", "petal l", "petal w", "shape", "id", "species"]
    rows[3][0] = ""
    write(folder / "iris.csv", names, rows)
    write(
        folder / "new.csv",
        ["species", "more", *names[5::-1]],
        [["?", "x", *r[5::-1]] for r in rows],
    )
    train = ["train", folder / "iris.csv", "--target", "species", "--drop", "id", *FAST]
    result = well(*train, "--model", folder / "iris.bpm")
    (folder / "said.txt").write_text(result.output, encoding="utf-8")
    result = well(*train, "--model", folder / "some.bpm", "--coverage", 0.8, "--json")
    (folder / "said.json").write_text(result.stdout, encoding="utf-8")
    return folder


def test_train_says_what_it_did(folder):
    said = (folder / "said.txt").read_text(encoding="utf-8")
    for words in (
        "150 rows", "4 columns of numbers, 1 of text; 6 features", "iris 0 (50), iris 1 (50)",
        "1 missing cell filled in", "by perceptrons", "Rejects nothing", "training rows are inside",
        "Next: bayespoint predict",
    ):  # fmt: skip
        assert words in said.replace("\n", " ")


def test_train_as_json(folder):
    found = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    assert found["classes"] == {"iris 0": 50, "iris 1": 50, "iris 2": 50}
    assert found["trained"]["coverage"] == pytest.approx(0.8, abs=0.02)
    assert found["bytes"] == (folder / "some.bpm").stat().st_size


def test_the_model_says_where_it_comes_from(folder):
    model = load(folder / "some.bpm")
    assert isinstance(model.classifier, RejectingClassifier)
    assert model.about["file"] == "iris.csv"
    assert model.about["target"] == "species"
    assert model.about["columns"] == ["sepal l", "sepal w", "petal l", "petal w", "shape"]
    assert model.about["options"]["coverage"] == 0.8
    assert model.about["version"] == bayespoint.__version__
    assert model.classifier.estimator_.verbose == 0


def predicted(folder, model, *options, data="new.csv"):
    output = folder / "predicted.csv"
    result = well("predict", folder / data, "--model", folder / model, "--output", output, *options)
    with open(output, newline="", encoding="utf-8") as stream:
        names, *rows = csv.reader(stream)
    return names, rows, result.output


def test_predict_equals_python(folder):
    names, rows, said = predicted(folder, "iris.bpm")
    assert names == ["label", "rejected", *(f"probability_iris {k}" for k in range(3))]
    model = load(folder / "iris.bpm")
    table = read_table(folder / "iris.csv")
    X = model.encoder.transform(table)
    assert [row[0] for row in rows] == model.classifier.predict(X).tolist()
    assert {row[1] for row in rows} == {"0"}
    proba = np.array([[float(cell) for cell in row[2:]] for row in rows])
    np.testing.assert_allclose(proba, model.classifier.predict_proba(X), rtol=1e-12)
    assert "not used" in said
    assert "2 columns ('more', 'id')" in said


def test_predict_rejects_as_python_does(folder):
    _, rows, said = predicted(folder, "some.bpm", "--keep", "id", "--keep", "sepal l")
    model = load(folder / "some.bpm")
    X = model.encoder.transform(read_table(folder / "iris.csv"))
    labels = model.classifier.predict(X)
    assert [row[2] or None for row in rows] == labels.tolist()
    assert [row[3] for row in rows] == [str(int(r)) for r in model.classifier.reject(X)]
    assert [row[0] for row in rows] == [str(i) for i in range(150)]
    assert f"rejected {sum(label is None for label in labels)}" in said


def test_predict_as_json_lines_on_standard_output(folder):
    data = (folder / "iris.csv").read_text(encoding="utf-8")
    result = well(
        "predict", "-", "--model", folder / "some.bpm", "--json", "--keep", "id", input=data
    )
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 150
    assert rows[7]["kept"] == {"id": "7"}
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1)
    assert all((row["label"] is None) == row["rejected"] for row in rows)
    assert "Decided" in result.stderr


def test_blocks_do_not_matter(folder, monkeypatch):
    whole = predicted(folder, "some.bpm")[1]
    monkeypatch.setattr("bayespoint.cli.deciding.BLOCK_ROWS", 7)
    parts = predicted(folder, "some.bpm")[1]
    assert [row[:2] for row in parts] == [row[:2] for row in whole]
    np.testing.assert_allclose(
        [[float(c) for c in row[2:]] for row in parts],
        [[float(c) for c in row[2:]] for row in whole],
    )


def test_decide_evaluates_once_and_equals_the_methods():
    X, y = load_iris(return_X_y=True)
    fixed = {"gamma": 0.1, "softness": 0.1, "inference": "perceptron", "n_draws": 8}
    clf = RejectingClassifier(BayesPointClassifier(**fixed, random_state=0), coverage=0.7).fit(X, y)
    found = decide(clf, X)
    assert found.labels.tolist() == [str(label) for label in clf.estimator_.predict(X)]
    np.testing.assert_array_equal(found.rejected, clf.reject(X))
    np.testing.assert_array_equal(found.proba, clf.predict_proba(X))
    np.testing.assert_array_equal(found.confidence, clf.confidence_scores(X))


def test_spreadsheet_safe(tmp_path):
    rows = [[x, "=cmd()" if x < 0 else "yes", "@bad"] for x in (-2.0, -1.5, -1.0, 1.0, 1.5, 2.0)]
    write(tmp_path / "d.csv", ["x", "y", "+note"], rows)
    well("train", tmp_path / "d.csv", "--target", "y", "--model", tmp_path / "d.bpm", *FAST)
    (tmp_path / "d.bpm").rename(tmp_path / "m.bpm")
    plain = predicted(tmp_path, "m.bpm", "--keep", "+note", data="d.csv")
    safe = predicted(tmp_path, "m.bpm", "--keep", "+note", "--spreadsheet-safe", data="d.csv")
    assert plain[0][0] == "+note"
    assert plain[1][0][:2] == ["@bad", "=cmd()"]
    assert safe[0][0] == "'+note"
    assert safe[1][0][:2] == ["'@bad", "'=cmd()"]
    assert safe[1][0][2:] == plain[1][0][2:]


@pytest.mark.parametrize("target", ["speces", "id "])
def test_a_wrong_target_is_bad_usage(folder, target):
    said = fails(2, "train", folder / "iris.csv", "--target", target, "--model", folder / "x.bpm",
                 words=["--target", "'petal l'"])  # fmt: skip
    assert ("Do you mean 'species'" in said) == (target == "speces")
    assert not (folder / "x.bpm").exists()


def test_bad_usage(folder, tmp_path):
    data, model = folder / "iris.csv", tmp_path / "x.bpm"
    base = ["train", data, "--target", "species", "--model", model]
    fails(2, *base, "--coverage", 0.9, "--max-risk", 0.1, words="not both")
    fails(2, *base, "--coverage", 1.5)
    fails(2, *base, "--inference", "magic")
    fails(2, *base, "--device", "tpu", words="--device must be one of")
    fails(2, *base, "--device", "gpu", words="--device must")
    fails(2, *base, "--delta", 0.1, words="--max-risk")
    fails(2, *base, "--label-noise", "x", words="--label-noise")
    fails(2, *base, "--label-noise", "0.7", words="--label-noise must")
    fails(2, *base, "--drop", "speces", words=["--drop", "species"])
    fails(2, *base, "--drop", "species", words="target")
    fails(2, *base, "--categorical", "none", words="--categorical")
    fails(2, *base, "--format", "xml", words="--format")
    fails(
        2, "train", tmp_path / "none.csv", "--target", "y", "--model", model, words="No such file"
    )
    fails(
        2,
        "train",
        data,
        "--target",
        "species",
        "--model",
        tmp_path / "no" / "x.bpm",
        words="folder",
    )
    fails(2, "train", data, "--target", "species", "--model", tmp_path, words="is a folder")
    fails(2, "predict", data, "--model", tmp_path / "none.bpm", words="--model")
    (tmp_path / "folder.csv").mkdir()
    for name in (tmp_path, tmp_path / "folder.csv", "."):
        fails(2, "predict", name, "--model", folder / "iris.bpm", words=f"{name} is a folder")
    fails(2, "predict", data, "--model", folder / "iris.bpm", "--keep", "none", words="--keep")
    fails(2, "predict", data, "--model", folder / "iris.bpm", "--output", data, words="another")
    assert not model.exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("x,y\n1,a\n2\n", ["bad.csv", "line 3 has 1 cell"]), ("x,y\n1,a\n2,\n3,b\n", "line 3"),
        ("x,y\n1,a\n2,a\n", "but one value ('a')"), ("x,y\n5,a\n5,b\n", "no column is left"),
        ("x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(99)), "99 different numbers"),
        ("x,y\n" + "".join(f"{i},c{i}\n" for i in range(120)), "120 classes"),
        ("x,y\n1,a\n2," + "b" * 300 + "\n", "300 characters"),
        ("i,y\n" + "".join(f"k{i},{i % 2}\n" for i in range(99)), ["'i'", "--drop"]),
        ("x,y\n1,a\n2,\x1b[31mb\n3,\x1b[31mb\n4\n", "line 5"), (b"x,y\n1,\xff\n", "UTF-8"),
        ("x,y\n1,a\n2,b\n3,a\n", "needs --coverage"),
    ],
)  # fmt: skip
def test_bad_data(tmp_path, data, words):
    (tmp_path / "bad.csv").write_bytes(data if isinstance(data, bytes) else data.encode())
    options = []
    if words == "needs --coverage":
        options, words = ["--coverage", 0.9], "need 5 of each class"
    said = fails(1, "train", tmp_path / "bad.csv", "--target", "y", "--model", tmp_path / "x.bpm",
                 *options, words=words)  # fmt: skip
    assert "\x1b" not in said
    assert not (tmp_path / "x.bpm").exists()


def test_bad_data_for_predict(folder, tmp_path):
    write(tmp_path / "few.csv", ["sepal l", "shape"], [[1, "wide"]])
    fails(1, "predict", tmp_path / "few.csv", "--model", folder / "iris.bpm", "--output",
          tmp_path / "o.csv", words=["'sepal w', 'petal l', 'petal w'", "not there"])  # fmt: skip
    rows = [["1", "2", "3", "a,b", "wide"]]
    write(tmp_path / "odd.csv", ["sepal l", "sepal w", "petal l", "petal w", "shape"], rows)
    fails(
        1,
        "predict",
        tmp_path / "odd.csv",
        "--model",
        folder / "iris.bpm",
        words=["'petal w', line 2"],
    )
    (tmp_path / "bad.bpm").write_bytes(b"PK")
    fails(1, "predict", folder / "iris.csv", "--model", tmp_path / "bad.bpm", words="bad.bpm")
    assert list(tmp_path.glob("*o.csv*")) == []


def test_a_model_from_python_without_encoder(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = BayesPointClassifier(gamma=0.1, softness=0.1, random_state=0).fit(X, y)
    save(tmp_path / "m.bpm", clf)
    np.save(tmp_path / "X.npy", X)
    names, rows, _ = predicted(tmp_path, "m.bpm", data="X.npy")
    assert names[2:] == ["probability_0", "probability_1", "probability_2"]
    assert [row[0] for row in rows] == [str(label) for label in clf.predict(X)]
    np.save(tmp_path / "X.npy", X[:, :3])
    fails(1, "predict", tmp_path / "X.npy", "--model", tmp_path / "m.bpm", words="3 columns")


def test_labels_are_as_in_the_file(tmp_path):
    rows = [[x, f"{int(x > 0):02}"] for x in np.linspace(-1, 1, 20)]
    write(tmp_path / "d.csv", ["x", "y"], rows)
    well("train", tmp_path / "d.csv", "--target", "y", "--model", tmp_path / "m.bpm", *FAST)
    assert {row[0] for row in predicted(tmp_path, "m.bpm", data="d.csv")[1]} == {"00", "01"}


def test_no_header_npy_and_categories(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 40)
    table = np.column_stack([rng.normal(size=40), codes, codes == 1])
    np.save(tmp_path / "d.npy", table)
    np.savetxt(tmp_path / "d.csv", table, delimiter=",", fmt="%g")
    for data, options in (("d.npy", []), ("d.csv", ["--no-header"])):
        well("train", tmp_path / data, "--target", "x2", "--model", tmp_path / "m.bpm",
             "--categorical", "x1", *options, *FAST)  # fmt: skip
        assert load(tmp_path / "m.bpm").encoder.feature_names_ == ["x0", "x1=0", "x1=1", "x1=2"]
        rows = predicted(tmp_path, "m.bpm", *options, data=data)[1]
        assert [row[0] for row in rows] == [str(int(v)) for v in table[:, 2]]


def test_quiet_and_time_limit(folder, tmp_path):
    start = time.perf_counter()
    result = well("train", folder / "iris.csv", "--target", "species", "--model",
                  tmp_path / "m.bpm", "--drop", "id", "--max-time", 0.5, "--quiet")  # fmt: skip
    assert result.output == ""
    assert time.perf_counter() - start < 60


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Output().progress("training"):
        budget = Budget(label="bayespoint")
        budget.show(0, 1, "choosing settings,")
        budget.show(100, 100, "draws,")
    assert sys.stderr is terminal
    assert "training: draws" in terminal.getvalue()
    quiet = Terminal()
    monkeypatch.setattr("sys.stderr", quiet)
    with Output(quiet=True).progress("training"):
        Budget(label="bayespoint").show(1, 1)
    assert quiet.getvalue() == ""


def test_help_has_examples():
    commands = ("train", "predict", "info", "export", "evaluate", "cross-validate", "diagnose")
    for command in commands:
        assert f"Example: bayespoint {command}" in " ".join(well(command, "--help").output.split())


INTERRUPT = """
import os, signal, sys
{what}
done, calls = {owner}.{name}, []
def called(*args):
    calls.append(1)
    if {when}:
        os.kill(os.getpid(), signal.SIGINT)
    return done(*args)
{owner}.{name} = called
from bayespoint.cli import main
main()
"""
# A look at the clock is the first thing that every fit does; draws are added one by one.
AT_ONCE = INTERRUPT.format(
    what="from bayespoint._support.budget import Budget", owner="Budget", name="spent",
    when="len(calls) == 1",
)  # fmt: skip
WHILE_DRAWING = INTERRUPT.format(
    what="from bayespoint.inference.perceptron.ensemble import Ensemble",
    owner="Ensemble", name="add",
    when="sys._getframe(1).f_code.co_name.startswith('draw') "
    "and not getattr(sys, 'sent', False) and not setattr(sys, 'sent', True)",
)  # fmt: skip


def interrupted(code, *arguments):
    done = run_process(code, *arguments)
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    rows = [[*x, int(x[0] + 0.5 * rng.normal() > 0)] for x in X]
    return write(tmp_path_factory.mktemp("many") / "d.csv", [*"abcde", "y"], rows)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_was_found(many, tmp_path):
    done = interrupted(
        WHILE_DRAWING, "train", many, "--target", "y", "--model", tmp_path / "m.bpm",
        "--inference", "perceptron", "--n-draws", 1000, "--n-jobs", 1,
    )  # fmt: skip
    model = load(tmp_path / "m.bpm")
    n_draws = model.classifier.n_draws_
    assert 0 < n_draws < 1000
    assert model.about["interrupted"]
    assert f"{n_draws} of 1,000 draws; unfinished: train longer before you use it" in done.stdout
    assert "Next:" not in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_leaves_no_model_without_a_draw_or_a_threshold(many, folder, tmp_path):
    train = ["--target", "y", "--model", tmp_path / "m.bpm", "--inference", "perceptron"]
    done = interrupted(AT_ONCE, "train", many, *train, "--n-draws", 1000, "--n-jobs", 1)
    assert done.stderr == "stopped before one draw was complete; no model was written\n"
    done = interrupted(AT_ONCE, "train", many, *train, "--coverage", 0.9, "--n-jobs", 1)
    assert done.stderr == "stopped; no model was written\n"
    assert list(tmp_path.iterdir()) == []
    done = interrupted(
        WHILE_DRAWING, "cross-validate", folder / "iris.csv", "--target", "species", *FAST
    )
    assert done.stderr == "stopped after 0 of 5 folds\n"


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_during_imports():
    code = """
import bayespoint.cli
def interrupt(name):
    raise KeyboardInterrupt
bayespoint.cli.find_spec = interrupt
bayespoint.cli.main()
"""
    assert interrupted(code, "info", "x.bpm").stderr == "stopped\n"


def test_the_clock_runs_through_all_fits(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    shown = []
    monkeypatch.setattr("rich.progress.TimeElapsedColumn.render",
                        lambda _, task: shown.append(task.finished) or "")  # fmt: skip
    with Output().progress("training"):
        for done in (50, 100, 20):
            Budget(label="bayespoint").show(done, 100, "draws,")
            time.sleep(0.15)
    assert shown
    assert not any(shown)


def test_a_risk_that_cannot_be_kept(folder, tmp_path):
    result = well("train", folder / "iris.csv", "--target", "species", "--model",
                  tmp_path / "m.bpm", "--drop", "id", "--max-risk", 0.005, *FAST)  # fmt: skip
    said = " ".join(result.output.split())
    assert "rejects every row: no threshold holds a risk of 0.005" in said
    assert "--max-risk or --delta" in said
    assert "max_risk" not in said
    assert "Next:" not in said


def test_notes_on_identifiers_and_single_rows(folder, tmp_path):
    rows = [[i, 100 - i, x, y] for i, (x, y) in enumerate(zip("ab" * 10, "c" + "de" * 9 + "d",
                                                              strict=True))]  # fmt: skip
    write(tmp_path / "d.csv", ["counts up", "row id", "x", "y"], rows)
    said = well("train", tmp_path / "d.csv", "--target", "y", "--model", tmp_path / "m.bpm",
                *FAST).output  # fmt: skip
    said = " ".join(said.split())
    assert "'counts up' is different in every row" in said
    assert "--drop 'row id' leaves it out" in said
    assert "class 'c' has one row only" in said
    assert "different in every row" not in (folder / "said.txt").read_text(encoding="utf-8")


def test_hints_on_columns(folder, tmp_path):
    base = ["--model", tmp_path / "m.bpm"]
    fails(2, "train", folder / "iris.csv", "--target", "Species", *base, words="only in case")
    (tmp_path / "d.csv").write_text("a b c\n1 2 x\n3 4 y\n", encoding="utf-8")
    fails(2, "train", tmp_path / "d.csv", "--target", "c", *base, words="separated by , ; tab or |")


def test_a_missing_package_is_bad_usage(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    fails(2, "predict", tmp_path / "d.parquet", "--model", folder / "iris.bpm", words="pyarrow")
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    fails(2, "export", folder / "iris.bpm", "--output", tmp_path / "m.onnx",
          words="needs the package 'skl2onnx'")  # fmt: skip


def test_export_takes_the_encoder_into_the_graph(folder, tmp_path):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    result = well("export", folder / "some.bpm", "--output", tmp_path / "m.onnx")
    said = " ".join(result.output.split())
    assert "sepal_l (numbers)" in said
    assert "shape (text)" in said
    model = load(folder / "some.bpm")
    table = read_table(folder / "iris.csv")
    names = [column.name for column in model.encoder.columns_]
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    inputs = {
        given.name: (
            column.astype(np.float32)[:, None] if column.dtype != object
            else np.array([[text or ""] for text in column], dtype=object)
        )
        for given, column in zip(session.get_inputs(), map(table.column, names), strict=True)
    }  # fmt: skip
    found = session.run(["probabilities"], inputs)[0]
    expected = model.classifier.predict_proba(model.encoder.transform(table))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(folder):
    code = "from bayespoint.cli import main; main()"
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run_process(
            code, "predict", folder / "iris.csv", "--model", folder / "iris.bpm", "--quiet",
            stdout=full,
        )  # fmt: skip
    assert done.returncode == 2
    assert "standard output: No space left" in done.stderr
    fails(2, "predict", folder / "iris.csv", "--model", folder / "iris.bpm", "--output",
          "/dev/full", words="not a plain file")  # fmt: skip


def fuzzing():
    path = ROOT / "benchmarks" / "fuzz_files.py"
    if not path.is_file():
        pytest.skip("benchmarks are not here: not a checkout")
    pytest.importorskip("pyarrow")
    spec = importlib.util.spec_from_file_location("fuzz_files", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_are_read_right_or_refused():
    said = io.StringIO()
    assert fuzzing().run(285, 19, seed=1, say=lambda text: said.write(text + "\n")) == 0, (
        said.getvalue()
    )


def test_a_wrong_reading_is_noticed(tmp_path):
    fuzz = fuzzing()
    case = fuzz.Case(b"a,b\n1,x\n2,y\n", ".csv")
    (tmp_path / "x.csv").write_bytes(case.data)
    table = read_table(tmp_path / "x.csv")
    fuzz.check_same(table, *fuzz.expected_columns(case, tmp_path / "x.csv"))
    with pytest.raises(AssertionError):
        fuzz.check_same(table, ["a", "b"], [[1.0, 3.0], ["x", "y"]])
    with pytest.raises(AssertionError, match="unsafe"):
        fuzz.check_message("red \x1b[31m")


def test_predictions_do_nothing_to_a_terminal():
    written = io.StringIO()
    TerminalStream(written).write('a,\x1b[31m"red\u202e"\n1,b\n')
    assert written.getvalue() == 'a,\\x1b[31m"red\\u202e"\n1,b\n'


def test_nothing_that_is_read_is_written_over(folder, tmp_path):
    data, model = tmp_path / "own.csv", tmp_path / "own.onnx"
    data.write_bytes((folder / "iris.csv").read_bytes())
    model.write_bytes((folder / "iris.bpm").read_bytes())
    fails(2, "train", data, "--target", "species", "--model", data, words="file of the data")
    fails(2, "export", model, "--output", model, words="file of the model")
    assert data.read_bytes() == (folder / "iris.csv").read_bytes()
    assert model.read_bytes() == (folder / "iris.bpm").read_bytes()


def test_a_device_that_is_not_there(many, tmp_path, monkeypatch):
    def none(*_):
        raise DeviceError("device='cuda': there is no GPU; use device='cpu'.")

    monkeypatch.setattr(BayesPointClassifier, "fit", none)
    fails(
        2, "train", many, "--target", "y", "--model", tmp_path / "m.bpm", "--device", "cuda",
        words="there is no GPU; use device='cpu'",
    )  # fmt: skip
