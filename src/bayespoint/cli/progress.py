"""How far long work has come: what `Budget` writes, as a bar or as a line now and then."""

import re
import sys
import time
from contextlib import suppress
from io import StringIO

from rich.progress import ProgressColumn, Task
from rich.text import Text


class Silence(StringIO):
    """A stream for progress that nobody watches."""

    def write(self, text: str) -> int:
        """Take a text."""
        return len(text)


class Pace:
    """How far long work has come, by what `Budget` writes and by what was expected.

    Parameters
    ----------
    what : str
        What is done.

    Attributes
    ----------
    expected : float or None
        Seconds that it may take in all, if somebody said so.
    """

    LINE = re.compile(r"\] (\d+)/(\d+) (.*?),? +[\d.]+ s\s*$")
    # Share shown at most before the end, where work takes longer than expected.
    ALMOST = 0.95

    def __init__(self, what: str) -> None:
        self.what, self.phase, self.share = what, "", 0.0
        self.expected: float | None = None
        self._start = time.perf_counter()

    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._start

    def take(self, text: str) -> bool:
        """Take a progress line of `Budget`; return whether it was one."""
        found = self.LINE.search(text)
        if found:
            done, total = int(found[1]), int(found[2])
            self.phase = _counted(done, total, found[3].strip())
            self.share = done / total if done < total > 1 else 0.0
        return found is not None

    def reached(self) -> float | None:
        """Share of the work that is done: of all if that is known, else of this phase, or None."""
        if self.expected is None:
            return self.share or None
        return min(self.elapsed() / self.expected, self.ALMOST)

    def words(self) -> str:
        """Say what is done, and how long it will take."""
        text = f"{self.what}: {self.phase}" if self.phase else self.what
        if self.expected is None or "left" in self.phase:
            return text
        left = self.expected - self.elapsed()
        return f"{text}, {in_minutes(left)} left" if left > 0 else f"{text}, longer than expected"


def _counted(done: int, total: int, what: str) -> str:
    """Words on a phase, with how much of it is done where it has parts."""
    if total == 1:
        return what
    return f"{done} {what}" if what.startswith("%") else f"{done:,} of {total:,} {what}"


def in_minutes(seconds: float) -> str:
    """Say about how long something takes.

    Examples
    --------
    >>> from bayespoint.cli.progress import in_minutes
    >>> in_minutes(42), in_minutes(100), in_minutes(9000)
    ('about 40 s', 'about 2 minutes', 'about 2.5 hours')
    """
    if seconds < 95:
        return f"about {max(10 * round(seconds / 10), 5):.0f} s"
    if seconds < 5700:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"


class Moving(ProgressColumn):
    """Words about the work; drawn before the bar, which they move."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:
        """Return the words, and move the bar."""
        # Not by update(): it ends the task, and its clock, with the first phase that is done.
        reached = self._pace.reached()
        task.total = None if reached is None else 100
        task.completed = 0 if reached is None else 100 * reached
        return Text(self._pace.words())


class Relay(Silence):
    """A stream that takes the progress lines of `Budget` for a bar."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def isatty(self) -> bool:
        """Say that lines are wanted often."""
        return True

    def write(self, text: str) -> int:
        """Take a progress line."""
        self._pace.take(text)
        return len(text)


class Lines(Relay):
    """A stream that takes the progress lines of `Budget`, and writes a few of them."""

    FIRST = 10.0  # seconds until the first line; each later one after as long as it took so far

    def __init__(self, pace: Pace) -> None:
        super().__init__(pace)
        self._stream, self._next = sys.stderr, self.FIRST

    def write(self, text: str) -> int:
        """Take a progress line, and pass some on."""
        if self._pace.take(text) and self._pace.elapsed() > self._next:
            self._next = 2 * self._pace.elapsed()
            with suppress(OSError):  # that nobody reads it must not end the work
                self._stream.write(f"{self._pace.words()} ({self._pace.elapsed():.0f} s so far)\n")
                self._stream.flush()
        return len(text)
