"""The command ``bayespoint``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bayespoint
from bayespoint.cli.app import app

SOURCE = str(Path(bayespoint.__file__).parents[1])


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run_process(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    picture = tmp_path_factory.mktemp("demo") / "digits.png"
    return run("demo", "--output", picture), picture


def test_demo_prints_errors_and_draws(demo):
    result, picture = demo
    assert result.exit_code == 0, result.output
    assert "1,797 images" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_demo_beats_svc(demo):
    output = demo[0].output
    rows = re.findall(r"(\d+)%\D+([\d.]+)\D+([\d.]+)\D+([\d.]+)", output)
    assert [int(row[0]) for row in rows] == list(range(11))
    ours, svc = float(rows[0][1]), float(rows[0][2])
    assert 0 < ours <= svc < 5
    assert float(rows[-1][1]) < ours  # rejecting pays


def test_output_that_cannot_be_written(tmp_path):
    output = tmp_path / "missing" / "x.png"
    result = run("demo", "--output", output)
    assert result.exit_code == 2
    assert str(output) in result.output.replace("\n", "")
    assert "--output" in result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    assert not output.exists()


def test_bad_options():
    for arguments in (["demo", "--seed", "-1"], ["demo", "--seed", "x"], ["nothing"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_version_and_help():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"bayespoint {bayespoint.__version__}"
    assert "demo" in run("--help").output
    assert "--output" in run("demo", "--help").output


@pytest.mark.parametrize("missing", ["typer", "rich", "matplotlib"])
def test_without_the_extra_it_prints_the_pip_line(missing):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from bayespoint.cli import main
main()
"""
    done = run_process(code, "--version")
    assert done.returncode == 2
    assert "pip install 'bayespoint[cli]'" in done.stderr
    assert missing in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_command_itself():
    done = run_process("from bayespoint.cli import main; main()", "--version")
    assert done.returncode == 0
    assert done.stdout.strip() == f"bayespoint {bayespoint.__version__}"
