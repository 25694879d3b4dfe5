"""What commands refuse: options, files and data that cannot be right, each with its words."""

import os

import pytest
from helpers.cli import FAST, fails, part, write


def test_bad_options_of_train(iris, tmp_path):
    data, model = iris.data, tmp_path / "x.bpm"
    base = ["train", data, "--target", "species", "--model", model]
    for options, words in (
        (["--coverage", 0.9, "--max-risk", 0.1], "not both"),
        (["--coverage", 1.5], ()),
        (["--inference", "magic"], ()),
        (["--device", "tpu"], "--device must be one of"),
        (["--device", "gpu"], "--device must"),
        (["--delta", 0.1], "--max-risk"),
        (["--label-noise", "x"], "--label-noise"),
        (["--label-noise", "0.7"], "--label-noise must"),
        (["--drop", "speces"], ["--drop", "species"]),
        (["--drop", "species"], "target"),
        (["--categorical", "none"], "--categorical"),
        (["--format", "xml"], "--format"),
        (["--force", "--chunk-rows", 50], "not needed with --chunk-rows"),
        (["--force", "--dask", "local"], "not needed with --dask"),
    ):
        fails(2, *base, *options, words=words)
    train = ["train", data, "--target", "species", "--model"]
    fails(2, *train, tmp_path / "no" / "x.bpm", words="folder")
    fails(2, *train, tmp_path, words="is a folder")
    fails(2, "train", tmp_path / "none.csv", "--target", "y", "--model", model,
          words="No such file")  # fmt: skip
    assert not model.exists()


def test_a_wrong_target_is_bad_usage(iris, tmp_path):
    base = ["--model", tmp_path / "x.bpm"]
    for target in ("speces", "id "):
        said = fails(2, "train", iris.data, "--target", target, *base,
                     words=["--target", "'petal l'"])  # fmt: skip
        assert ("Do you mean 'species'" in said) == (target == "speces")
    fails(2, "train", iris.data, "--target", "Species", *base, words="only in case")
    (tmp_path / "d.csv").write_text("a b c\n1 2 x\n3 4 y\n", encoding="utf-8")
    fails(2, "train", tmp_path / "d.csv", "--target", "c", *base, words="separated by , ; tab or |")
    (tmp_path / "d.csv").write_text("1.5,x\n2.5,y\n", encoding="utf-8")
    fails(2, "train", tmp_path / "d.csv", "--target", "c", *base, words="give --no-header")
    (tmp_path / "d.csv").write_text("2024,kind\n1,x\n2,y\n", encoding="utf-8")
    fails(2, "train", tmp_path / "d.csv", "--target", "kinds", *base, words="Do you mean 'kind'")
    assert not (tmp_path / "x.bpm").exists()


def test_bad_options_of_predict(iris, tmp_path):
    fails(2, "predict", iris.data, "--model", tmp_path / "none.bpm", words="--model")
    (tmp_path / "folder.csv").mkdir()
    for name in (tmp_path, tmp_path / "folder.csv", "."):
        fails(2, "predict", name, "--model", iris.model, words=f"{name} is a folder")
    fails(2, "predict", iris.data, "--model", iris.model, "--keep", "none", words="--keep")
    fails(2, "predict", iris.data, "--model", iris.model, "--output", iris.data, words="another")


def test_bad_training_data(tmp_path):
    path = tmp_path / "bad.csv"
    for data, words in (
        ("x,y\n1,a\n2\n", ["bad.csv", "line 3 has 1 cell"]), ("x,y\n1,a\n2,\n3,b\n", "line 3"),
        ("x,y\n1,a\n2,a\n", "only one value ('a')"), ("x,y\n5,a\n5,b\n", "no column is left"),
        ("x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(99)), "99 different numbers"),
        ("x,y\n" + "".join(f"{i},c{i}\n" for i in range(120)), "120 classes"),
        ("x,y\n1,a\n2," + "b" * 300 + "\n", "300 characters"),
        ("i,y\n" + "".join(f"k{i},{i % 2}\n" for i in range(99)), ["'i'", "--drop"]),
        ("x,y\n1,a\n2,\x1b[31mb\n3,\x1b[31mb\n4\n", "line 5"), (b"x,y\n1,\xff\n", "UTF-8"),
    ):  # fmt: skip
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        train = ["train", path, "--target", "y", "--model", tmp_path / "x.bpm"]
        assert "\x1b" not in fails(1, *train, words=words)
    path.write_text("x,y\n1,a\n2,b\n3,a\n", encoding="utf-8")
    for method in (["billiard"], ["perceptron", "--n-draws", 9]):  # by folds
        words = ["class 'a' has 2 rows", "need 5 of each class here"]
        fails(1, *train, "--coverage", 0.9, "--inference", *method, words=words)
    assert not (tmp_path / "x.bpm").exists()


def test_bad_data_for_predict(iris, tmp_path):
    few, odd = tmp_path / "few.csv", tmp_path / "odd.csv"
    write(few, ["sepal l", "shape"], [[1, "wide"]])
    predict = ["--model", iris.model, "--output", tmp_path / "o.csv"]
    fails(1, "predict", few, *predict, words=["'sepal w', 'petal l', 'petal w'", "not there"])
    names = ["sepal l", "sepal w", "petal l", "petal w", "shape"]
    write(odd, names, [["1", "2", "3", "a,b", "wide"]])
    fails(1, "predict", odd, *predict, words="'petal w', line 2")
    (tmp_path / "bad.bpm").write_bytes(b"PK")
    fails(1, "predict", iris.data, "--model", tmp_path / "bad.bpm", words="bad.bpm")
    assert list(tmp_path.glob("*o.csv*")) == []


def test_nothing_that_is_read_is_written_over(iris, tmp_path):
    data, model = tmp_path / "own.csv", tmp_path / "own.onnx"
    data.write_bytes(iris.data.read_bytes())
    model.write_bytes(iris.model.read_bytes())
    fails(2, "train", data, "--target", "species", "--model", data, words="file of the data")
    fails(2, "export", model, "--output", model, words="file of the model")
    assert data.read_bytes() == iris.data.read_bytes()
    assert model.read_bytes() == iris.model.read_bytes()


def test_evaluate_refuses(labelled, tmp_path):
    data, model = labelled / "three.csv", labelled / "three.bpm"
    command = ["evaluate", data, "--model", model, "--target"]
    fails(2, *command, "knd", words=["--target 'knd'", "mean 'kind'"])
    fails(2, *command, "kind", "--report", tmp_path / "no" / "r.html", words="no folder")
    fails(2, *command, "kind", "--report", data, words="file of the data")
    fails(2, *command, "kind", "--report", model, words="file of the model")
    fails(2, *command, "kind", "--report", tmp_path, words="is a folder")
    if os.path.exists("/dev/null"):
        fails(2, *command, "kind", "--report", "/dev/null", words="not a plain file")
    fails(2, *command, "kind", "--positive", "i 0", words="has 3")
    two = ["evaluate", labelled / "two.csv", "--model", labelled / "two.bpm"]
    fails(2, *two, "--positive", "x", words=["--positive 'x'", "'healthy', 'sick'"])
    fails(2, "evaluate", data, "--model", tmp_path / "no.bpm", words="is not a file")
    fails(2, "evaluate", tmp_path / "no.csv", "--model", model)
    fails(1, "evaluate", data, "--model", data)
    some = part(data, tmp_path / "part.csv", lambda rows: [[*row[:-1], ""] for row in rows])
    fails(1, "evaluate", some, "--model", model, words="is missing in 75 rows")
    part(data, some, lambda rows: [[*row[:-1], "other"] for row in rows])
    fails(1, "evaluate", some, "--model", model,
          words=["'other'", "'i 0', 'i 1', 'i 2'", "no row can be right"])  # fmt: skip
    write(some, ["column 0", "column 1", "kind"], [[1, 2, "i 0"]])
    fails(1, "evaluate", some, "--model", model, words="'column 2', 'column 3'")
    assert not list(tmp_path.glob("*.html"))


def test_cross_validate_refuses(labelled, tmp_path):
    def few(n):
        chosen = part(
            labelled / "three.csv", tmp_path / "part.csv",
            lambda rows: [row for row in rows if row[-1] != "i 2"] + rows[-n:],
        )  # fmt: skip
        return ["cross-validate", chosen, "--target", "kind", *FAST]

    fails(1, *few(2), words=["'i 2' has 2 rows", "--folds 2"])
    fails(1, *few(6), "--coverage", "0.9", words="need 5 of each class")
    fails(2, *few(6), "--folds", "1")
    fails(2, *few(6), "--coverage", "0.9", "--max-risk", "0.1", words="not both")


def test_diagnose_refuses(labelled, tmp_path):
    command = ["diagnose", "--model", labelled / "three.bpm"]
    fails(2, *command, "--plots", tmp_path / "traces.txt", words=".png, .pdf, .svg")
    fails(2, *command, "--plots", tmp_path / "no" / "traces.png", words="no folder")
    fails(2, "diagnose", "--model", tmp_path / "no.bpm", words="is not a file")
    fails(1, "diagnose", "--model", labelled / "three.csv")


@pytest.mark.parametrize("arguments", [("jmlr-figure-1",), (), ("--seed", "-1", "all")])
def test_reproduce_refuses(arguments):
    fails(2, "reproduce", *arguments)
