"""Benchmarks as modules, for tests that run a part of one."""

import importlib.util

import pytest

from helpers.paths import ROOT


def load_benchmark(name):
    """Module of a benchmark; a test skips where there is none."""
    path = ROOT / "benchmarks" / f"{name}.py"
    if not path.is_file():
        pytest.skip("benchmarks are not here: not a checkout")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
