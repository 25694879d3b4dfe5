"""Time limits, interruption and progress of long work."""

import sys
import time


class Budget:
    """What long work asks between steps: whether to go on, and how far it has come.

    Parameters
    ----------
    max_time : float or None
        Seconds from now, or no limit.
    label : str or None
        What is being done, for the progress line on standard error; None shows none.

    Examples
    --------
    >>> from bayespoint.budget import Budget
    >>> Budget(max_time=0.0).spent()
    True
    """

    _REDRAW = 0.1  # seconds between two drawings of the progress line

    def __init__(self, max_time=None, label=None):
        self.start = time.perf_counter()
        self.max_time = max_time
        self.label = label
        self.interrupted = False
        self._drawn = 0.0

    def elapsed(self):
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def spent(self):
        """Whether the work must stop: out of time, or interrupted."""
        return self.interrupted or (self.max_time is not None and self.elapsed() >= self.max_time)

    def show(self, done, total, detail=""):
        """Draw the progress line, at most every tenth of a second and at the end."""
        if self.label is None:
            return
        now = self.elapsed()
        if done < total and now - self._drawn < self._REDRAW:
            return
        self._drawn = now
        width = 24
        filled = width * done // max(total, 1)
        bar = "#" * filled + "." * (width - filled)
        end = "\n" if done >= total else ""
        line = f"\r{self.label} [{bar}] {done}/{total} {detail} {now:.1f} s"
        sys.stderr.write(f"{line:<78}{end}")
        sys.stderr.flush()

    def close(self):
        """End the progress line if the work stopped before it was done."""
        if self.label is not None and self.spent():
            sys.stderr.write("\n")
