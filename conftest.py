"""What pytest must not collect for doctests; each test begins alike, whatever ran before it."""

import importlib.util
import random
import sys
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parent / "src"

collect_ignore_glob = [
    # Needs scikit-activeml to be imported, and has no doctests.
    "src/bayespoint/active/scikit_activeml.py",
    # Need PyTorch or Triton, and have none either.
    "src/bayespoint/gpu/*",
    # Need skl2onnx and river; tests/io runs their doctests.
    "src/bayespoint/io/onnx/*",
    "src/bayespoint/io/river.py",
]


def pytest_ignore_collect(collection_path):
    """Leave the sources out where an installed package is tested."""
    if not collection_path.is_relative_to(SOURCE):
        return None
    package = importlib.util.find_spec("bayespoint")
    here = package is not None and Path(package.origin).resolve().is_relative_to(SOURCE)
    return None if here else True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for doctests in the sources only: a file of tests has none."""
    found = yield
    if file_path.is_relative_to(SOURCE):
        return found
    return [one for one in found if type(one) is pytest.Module]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Seed what nobody else has seeded, fixtures and checks of other libraries among it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """Close figures: code of the guides and doctests leave theirs open."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
