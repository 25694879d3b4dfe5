import signal
import threading

import pytest


@pytest.fixture(autouse=True)
def ctrl_c_interrupts():
    """Give Ctrl-C its usual meaning: runners in the background have it ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
