"""The command ``bayespoint``."""

import re

import pytest
from helpers.cli import fails, run, run_process, well

import bayespoint


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    picture = tmp_path_factory.mktemp("demo") / "digits.png"
    return well("demo", "--output", picture).output, picture


def test_demo_prints_errors_and_draws(demo):
    output, picture = demo
    assert "1,797 images" in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_demo_beats_svc(demo):
    rows = re.findall(r"(\d+)%\D+([\d.]+)\D+([\d.]+)\D+([\d.]+)", demo[0])
    assert [int(row[0]) for row in rows] == list(range(11))
    ours, svc = float(rows[0][1]), float(rows[0][2])
    assert 0 < ours <= svc < 5
    assert float(rows[-1][1]) < ours  # rejecting pays


def test_output_that_cannot_be_written(tmp_path):
    output = tmp_path / "missing" / "x.png"
    fails(2, "demo", "--output", output, words=["--output", str(output)])
    assert not output.exists()


def test_bad_options():
    for arguments in (["demo", "--seed", "-1"], ["demo", "--seed", "x"], ["nothing"]):
        fails(2, *arguments)


def test_version_and_help():
    assert well("--version").output.strip() == f"bayespoint {bayespoint.__version__}"
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
