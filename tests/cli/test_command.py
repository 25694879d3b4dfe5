"""The command itself: version, help, the demo, missing extras, a full disk."""

import os
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import fails, run, run_process, well
from helpers.paths import ROOT
from sklearn.datasets import load_digits

import bayespoint
from bayespoint.cli import demo, main


def called(monkeypatch, *arguments):
    """Run the command in this process, as a shell would; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["bayespoint", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_version_and_help(monkeypatch, capsys):
    assert called(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"bayespoint {bayespoint.__version__}"
    assert "demo" in run("--help").output
    assert "--output" in run("demo", "--help").output
    for command in ("train", "predict", "info", "export", "evaluate", "cross-validate", "diagnose"):
        assert f"Example: bayespoint {command}" in " ".join(well(command, "--help").output.split())


def test_unknown_commands_and_options_are_refused(tmp_path):
    for arguments in (["demo", "--seed", "-1"], ["demo", "--seed", "x"], ["nothing"]):
        fails(2, *arguments)
    output = tmp_path / "missing" / "x.png"
    fails(2, "demo", "--output", output, words=["--output", str(output)])
    assert not output.exists()


@pytest.mark.parametrize("missing", ["typer", "rich", "matplotlib"])
def test_without_the_extra_it_prints_the_pip_line(monkeypatch, capsys, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert called(monkeypatch, "--version") == 2
    said = capsys.readouterr()
    assert "pip install 'bayespoint[cli]'" in said.err
    assert missing in said.err
    assert said.out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C")
@pytest.mark.parametrize("package", ["bayespoint", "sklearn", "typer", "bayespoint.cli.info"])
def test_ctrl_c_while_the_command_starts(package):
    """From its entry point, in a process of its own, as packages are imported once."""
    with open(ROOT / "pyproject.toml", "rb") as stream:
        module, _, name = tomllib.load(stream)["project"]["scripts"]["bayespoint"].partition(":")
    code = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {package!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background
from {module} import {name}
{name}()
"""
    done = run_process(code, "info", "x.bpm")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


def test_ctrl_c_during_imports(monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, *_):
            if name == "jinja2":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "jinja2", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert called(monkeypatch, "info", "x.bpm") == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(iris):
    """In a process of its own: what is left in a full stream must not fail again at its end."""
    code = "from bayespoint.cli import main; main()"
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run_process(
            code, "predict", iris.data, "--model", iris.model, "--quiet", stdout=full
        )
    assert done.returncode == 2
    assert "standard output: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    fails(2, "predict", iris.data, "--model", iris.model, "--output", "/dev/full",
          words="not a plain file")  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes of Unix")
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_it_ends_quietly_where_nobody_reads_on(iris, command):
    given = {
        "predict": [iris.data, "--model", iris.model, "--quiet"],
        "evaluate": [iris.data, "--model", iris.model, "--target", "species", "--json"],
    }
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as gone:
        code = "from bayespoint.cli import main; main()"
        done = run_process(code, command, *given[command], stdout=gone)
    assert (done.returncode, done.stderr) == (141, "")


def table_of(said):
    """Figures of the table, by row: ours, SVC, logistic regression, forest."""
    rows = re.findall(r"(log-loss|error \(%\)(?:, surest \d+%)?)\D+(.*)", said)
    found = {name: [float(x) for x in re.findall(r"\d+\.\d+", cells)] for name, cells in rows}
    assert len(found) == 1 + len(demo.DECIDED)
    assert all(len(figures) == 4 for figures in found.values())
    return found


def test_demo_prints_errors_and_draws(tmp_path, monkeypatch):
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < 2)[:90]
    monkeypatch.setattr(demo, "load_digits", lambda **_: (X[few], y[few]))
    monkeypatch.setattr(demo, "LABELLED", 30)
    monkeypatch.setattr(demo, "TREES", 10)
    monkeypatch.setattr(demo, "GRID", {"C": [1.0]})
    picture = tmp_path / "digits.png"
    said = well("demo", "--output", picture).output
    assert "30 images with labels" in said
    assert "60 others" in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    found = table_of(said)
    assert found["log-loss"][0] < 0.5
    assert found["error (%), surest 80%"][0] <= found["error (%)"][0] < 15


@pytest.mark.slow
def test_demo_has_the_best_probabilities(tmp_path):
    found = table_of(well("demo", "--output", tmp_path / "digits.png").output)
    ours, *others = found["log-loss"]
    assert 0 < ours < 0.8 * min(others)
    assert found["error (%), surest 90%"][0] < 0.5 * found["error (%)"][0]
