"""What all tests share: Ctrl-C, the clock, compiled loops, and ``--left-out``."""

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
LEFT_OUT = "bayespoint/left-out"  # in pytest's cache


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


# ---------------------------------------- what the run before left out


class LeftOut:
    """Notes the files that a run sees, and the tests, or whole files, that it leaves out."""

    def __init__(self, config):
        self.config, self.seen, self.names = config, set(), set()

    def pytest_runtest_logreport(self, report):
        self.seen.add(report.nodeid.split("::")[0])
        if report.skipped and not hasattr(report, "wasxfail"):
            self.names.add(report.nodeid)

    def pytest_collectreport(self, report):
        if report.skipped:
            self.names.add(report.nodeid)

    def pytest_deselected(self, items):
        self.names |= {item.nodeid for item in items}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.names |= set(getattr(node, "workeroutput", {}).get(LEFT_OUT, []))

    def pytest_sessionfinish(self):
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[LEFT_OUT] = sorted(self.names)
            return
        seen = self.seen | {name.split("::")[0] for name in self.names}
        self.config.cache.set(LEFT_OUT, {"seen": sorted(seen), "names": sorted(self.names)})


class Before:
    """What the run before saw and left out."""

    def __init__(self, seen, names):
        self.seen, self.names = seen, names
        self.complete = seen - {name.split("::")[0] for name in names}

    def has_run(self, name):
        """Whether it ran a test."""
        file = name.split("::")[0]
        return file in self.seen and not {file, name} & self.names


def pytest_addoption(parser):
    parser.addoption(
        "--left-out",
        action="store_true",
        help="run what the run before skipped or did not choose, and files that it did not see",
    )


def pytest_configure(config):
    config.before = None
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    if config.getoption("--left-out"):
        if cache is None:
            raise pytest.UsageError("--left-out reads pytest's cache, which is switched off")
        held = cache.get(LEFT_OUT, {"seen": [], "names": []})
        config.before = Before(set(held["seen"]), set(held["names"]))
    if cache is not None and not config.getoption("--collect-only"):
        config.pluginmanager.register(LeftOut(config))
    if hasattr(config, "workerinput") or config.getoption("--collect-only"):
        return
    if config.getoption("numprocesses", None):
        # Workers take all cores: more threads of BLAS would wait for each other.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        if config.option.dist == "load":  # neighbours share fixtures and cached fits
            config.option.dist = "worksteal"
        keep_bytecode()
        compile_loops()


def pytest_ignore_collect(collection_path, config):
    if config.before is None or not collection_path.is_file():
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    return True if file in config.before.complete else None


def pytest_collection_modifyitems(config, items):
    if config.before is None:
        return
    config.hook.pytest_deselected(items=[i for i in items if config.before.has_run(i.nodeid)])
    items[:] = [i for i in items if not config.before.has_run(i.nodeid)]
