"""Time limits, interruption and progress of long work."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Seconds since some moment. All time limits and progress lines read it, so a test can set it.
clock: Callable[[], float] = time.perf_counter


class Budget:
    """What long work asks between steps: whether to go on, and how far it has come.

    Parameters
    ----------
    max_time : float or None
        Seconds from now, or no limit.
    label : str or None
        What is being done, for the progress line on standard error; None shows none.
    parent : Budget, optional
        Of the work that this one is part of, and ends with.

    Examples
    --------
    >>> from bayespoint._support.budget import Budget
    >>> Budget(max_time=0.0).spent()
    True
    """

    _REDRAW = 0.1  # seconds between two drawings of the progress line
    _REDRAW_IN_FILE = 10.0  # where standard error is no terminal

    def __init__(
        self, max_time: float | None = None, label: str | None = None,
        parent: "Budget | None" = None,
    ) -> None:  # fmt: skip
        self.label = label
        self._parent = parent
        self.interrupted = False
        self.renew(max_time)

    def renew(self, max_time: float | None) -> None:
        """Begin another stage of the work, with its own time limit."""
        self.start = clock()
        self.max_time = None if max_time is None else float(max_time)
        self._stopped = False
        self._drawn = 0.0
        self._open = False

    def interrupt(self) -> None:
        """End this stage; ``interrupted`` stays set through later ones."""
        self.interrupted = self._stopped = True

    @property
    def stopped(self) -> bool:
        """Whether this stage was interrupted."""
        return self._stopped

    def raise_if_interrupted(self) -> None:
        """Raise what Ctrl-C would have raised."""
        if self.interrupted:
            raise KeyboardInterrupt

    def elapsed(self) -> float:
        """Seconds since the start."""
        return clock() - self.start

    def spent(self) -> bool:
        """Whether the work must stop: out of time, or interrupted."""
        late = self.max_time is not None and self.elapsed() >= self.max_time
        return self._stopped or late or (self._parent is not None and self._parent.spent())

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Turn the first Ctrl-C into `interrupt`, so that it never lands between two updates.

        A second one acts at once, as usual. Where Ctrl-C does not mean KeyboardInterrupt (another
        handler, another thread than the main one), nothing is changed.
        """
        ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if not ours:
            yield
            return

        def handle(number: int, frame: Any) -> None:
            if self.interrupted:
                # First, as it may be raised within ``finally`` below.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.default_int_handler(number, frame)
            self.interrupt()

        signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Show no progress for a while."""
        label, self.label = self.label, None
        try:
            yield
        finally:
            self.label = label

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Let only Ctrl-C end the work for a while."""
        limit, self.max_time = self.max_time, None
        try:
            yield
        finally:
            self.max_time = limit

    def show(self, done: int, total: int, detail: str = "") -> None:
        """Draw the progress line, at most every tenth of a second and at the end."""
        if self.label is None:
            return
        now = self.elapsed()
        redraw = self._REDRAW if sys.stderr.isatty() else self._REDRAW_IN_FILE
        if done < total and now - self._drawn < redraw:
            return
        self._drawn = now
        width = 24
        filled = width * done // max(total, 1)
        bar = "#" * filled + "." * (width - filled)
        self._open = done < total
        end = "" if self._open else "\n"
        line = f"\r{self.label} [{bar}] {done}/{total} {detail} {now:.1f} s"
        sys.stderr.write(f"{line:<78}{end}")
        sys.stderr.flush()

    def close(self) -> None:
        """End the progress line if the work stopped before it was done."""
        if self._open:
            self._open = False
            sys.stderr.write("\n")
