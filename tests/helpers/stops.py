"""Ways to stop a run: Ctrl-C, real or from inside, at a look at the clock."""

import signal
import threading
import time
from collections.abc import Callable

import pytest

from bayespoint.inference.billiard import balls, walkers

# Far above what stopping takes: a busy machine must not fail the test.
PROMPT_SECONDS = 10


def look_often(monkeypatch, events=5, m=20):
    """Let balls and walkers look at the clock every few events."""
    monkeypatch.setattr(balls, "EVENT_WORK", events * (m + balls.EVENT_COST))
    monkeypatch.setattr(walkers, "EVENT_WORK", walkers.STEP_WORK * m + walkers.EVENT_COST)


def press_ctrl_c():
    """Send the signal to the main thread, which a simulated one would not wake."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def raise_interrupt():
    """Do as somebody else's code does that is interrupted."""
    raise KeyboardInterrupt


def press_later(function: Callable, *args, **options) -> float:
    """Call, and press Ctrl-C after a while; return the seconds it then took."""
    sent = []

    def press():
        sent.append(time.perf_counter())
        press_ctrl_c()

    timer = threading.Timer(0.05, press)

    def run():
        timer.start()
        function(*args, **options)

    with pytest.raises(KeyboardInterrupt):
        run()
    seconds = time.perf_counter() - sent[0]
    timer.join()
    return seconds


can_press = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread()
    or not hasattr(signal, "pthread_kill"),
    reason="Ctrl-C needs the main thread and signals",
)
