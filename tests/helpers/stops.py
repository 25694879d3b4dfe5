"""Ways to stop a run: Ctrl-C, real or from a callback."""

import signal
import threading

import pytest

from bayespoint._support.budget import Budget
from bayespoint.inference.billiard import balls as billiards


def interrupt(monkeypatch, owner, name, after):
    """Make a method raise KeyboardInterrupt once, after some calls."""
    original, calls = getattr(owner, name), []

    def wrapper(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == after + 1:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, wrapper)


# Far above what stopping takes: a busy machine must not fail the test.
PROMPT_SECONDS = 10


def stop_after(monkeypatch, n_calls):
    """Let time be up at the n-th look at the clock, and let there be many looks."""
    calls = []

    def spent(self):
        calls.append(None)
        return self._stopped or len(calls) > n_calls

    monkeypatch.setattr(Budget, "spent", spent)
    monkeypatch.setattr(billiards, "EVENT_WORK", 5 * 20)  # 5 events


def press_ctrl_c():
    """Send the signal to the main thread, which a simulated one would not wake."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


can_press = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread()
    or not hasattr(signal, "pthread_kill"),
    reason="Ctrl-C needs the main thread and signals",
)
