"""What tests of the command line share: running commands, and files for them."""

import csv
import os
import subprocess
import sys

from typer.testing import CliRunner

from bayespoint.cli.app import app
from helpers.paths import SOURCE

FAST = ["--inference", "perceptron", "--n-draws", "8", "--n-jobs", "1"]


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def well(*arguments, input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def fails(code, *arguments, words=(), input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    flat = " ".join(result.output.split())
    for word in [words] if isinstance(words, str) else words:
        assert word in flat
    return flat


def run_process(code, *arguments, stdout=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=300,
    )  # fmt: skip


def write(path, names, rows):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([names, *rows])
    return path
