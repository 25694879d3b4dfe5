"""Ctrl-C, and ``--skipped-before``: what was skipped for want of an extra runs once it is there."""

import signal
import threading

import pytest
from helpers.clock import Clock

from bayespoint._support import budget

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
    """Time as limits and progress see it: it moves on by ``clock.step`` at each look, or by hand."""
    fake = Clock()
    monkeypatch.setattr(budget, "clock", fake)
    return fake


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
    if config.getoption("--skipped-before"):
        config.skipped_before = set(config.cache.get(SKIPPED, []))
    if not hasattr(config, "workerinput") and not config.getoption("--collect-only"):
        config.pluginmanager.register(Skipped(config.cache))


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
