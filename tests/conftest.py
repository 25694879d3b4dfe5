"""What all tests share: Ctrl-C, the clock, compiled loops, and ``--skipped-before``."""

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from helpers.clock import Clock

TESTS = Path(__file__).resolve().parent
SKIPPED = "bayespoint/skipped"  # in pytest's cache


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Give Ctrl-C its usual meaning: runners in the background have it ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def clock(monkeypatch):
    """Time as limits and progress see it; each look moves it on by ``clock.step``."""
    from bayespoint._support import budget

    fake = Clock()
    monkeypatch.setattr(budget, "clock", fake)
    return fake


# ------------------------------------------------ loops are compiled once, not by each worker


def keep_bytecode():
    """Let workers and other children share bytecode, in a folder of this run, if none is kept."""
    if not os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        return
    folder = tempfile.mkdtemp(prefix="bytecode-")
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def compile_loops():
    """Fill Numba's cache, where it is empty or old, in one process for each kind of loop."""
    package = Path(importlib.util.find_spec("bayespoint").origin).parent
    compiled = [path.stat().st_mtime for path in package.glob("_loops/__pycache__/*.nbi")]
    if max(compiled, default=0.0) > max(p.stat().st_mtime for p in package.glob("_loops/*.py")):
        return
    path = [package.parent, TESTS, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(one) for one in path if one)}
    at_work = [
        subprocess.Popen([sys.executable, "-m", "helpers.loops", kind], env=environment)
        for kind in ("billiard", "others")
    ]
    if any([process.wait() for process in at_work]):  # noqa: C419  wait for all
        raise pytest.UsageError("python -m helpers.loops failed: see above")


# ---------------------------------------- what was skipped for want of an extra, once that is there


class Skipped:
    """Notes the tests, and whole files, that a run skips."""

    def __init__(self, cache):
        self.cache, self.names = cache, set()

    def pytest_runtest_logreport(self, report):
        if report.skipped and not hasattr(report, "wasxfail"):
            self.names.add(report.nodeid)

    def pytest_collectreport(self, report):
        if report.skipped:
            self.names.add(report.nodeid)

    def pytest_sessionfinish(self):
        self.cache.set(SKIPPED, sorted(self.names))


def pytest_addoption(parser):
    parser.addoption(
        "--skipped-before", action="store_true", help="run only what the run before skipped"
    )


def pytest_configure(config):
    config.skipped_before = None
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    if config.getoption("--skipped-before"):
        if cache is None:
            raise pytest.UsageError("--skipped-before reads pytest's cache, which is switched off")
        config.skipped_before = set(cache.get(SKIPPED, []))
    if hasattr(config, "workerinput") or config.getoption("--collect-only"):
        return
    if cache is not None:
        config.pluginmanager.register(Skipped(cache))
    if config.getoption("numprocesses", None):
        # Workers take all cores: more threads of BLAS would wait for each other.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        if config.option.dist == "load":  # neighbours share fixtures and cached fits
            config.option.dist = "worksteal"
        keep_bytecode()
        compile_loops()


def pytest_ignore_collect(collection_path, config):
    if config.skipped_before is None or not collection_path.is_file():
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    return None if file in {name.split("::")[0] for name in config.skipped_before} else True


def pytest_collection_modifyitems(config, items):
    if config.skipped_before is None:
        return
    chosen, others = [], []
    for item in items:
        wanted = {item.nodeid, item.nodeid.split("::")[0]} & config.skipped_before
        (chosen if wanted else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen
