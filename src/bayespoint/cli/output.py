"""What commands share: where they print, how they fail, how they show progress."""

import json
import os
import re
import sys
import warnings
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bayespoint.model_file import ModelFileError
from bayespoint.tables import TableError, printable

BAD_DATA, BAD_USAGE, INTERRUPTED = 1, 2, 130
# Characters of a warning from a library that are shown.
SHOWN_WARNING = 400


class UsageError(Exception):
    """Options that do not go together, or that the data do not fit; exit code 2."""


@contextmanager
def exit_codes():
    """Turn what goes wrong into a message on standard error and an exit code: 1 data, 2 usage."""
    try:
        yield
    except UsageError as error:
        _fail(str(error), BAD_USAGE)
    except (TableError, ModelFileError) as error:
        _fail(str(error), BAD_DATA)
    except BrokenPipeError:  # who read our output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        raise typer.Exit(BAD_DATA) from None
    except OSError as error:
        where = "" if error.filename is None else f"{printable(str(error.filename), 200)}: "
        _fail(f"{where}{error.strerror or printable(str(error))}", BAD_USAGE)
    except MemoryError:
        _fail("the data do not fit into memory: use fewer rows or columns.", BAD_DATA)


def _fail(message, code):
    Console(stderr=True).print(
        f"error: {message}", markup=False, highlight=False, soft_wrap=True, style="red"
    )
    raise typer.Exit(code) from None


class Output:
    """Where a command prints: text for people, or one JSON document for machines.

    Parameters
    ----------
    quiet : bool
        No text but results and errors, and no progress.
    json : bool
        Keep standard output for the document given to `document`.
    to_stderr : bool
        Text goes to standard error, as standard output is for data.
    """

    def __init__(self, *, quiet=False, json=False, to_stderr=False):
        self.quiet, self.json = quiet, json
        self.console = Console(stderr=to_stderr)
        self.notes: list[str] = []

    def say(self, text, style=None):
        """Print text for people; text from data in it must have gone through `printable`."""
        if not (self.quiet or self.json):
            self.console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)

    def note(self, text):
        """Print a note, and keep it for the model file or the JSON document."""
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"note: {text}", style="yellow")

    def document(self, content):
        """Print the JSON document, if that is what is wanted."""
        if self.json:
            typer.echo(json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False))

    @contextmanager
    def noting_warnings(self):
        """Turn warnings into notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                found = [printable(str(one.message), SHOWN_WARNING) for one in caught]
        for text in found:
            self.note(text)

    @contextmanager
    def progress(self, what):
        """Show a bar, the phase and the time while a classifier with ``verbose=1`` is fitted."""
        terminal = sys.stderr
        if self.quiet or not terminal.isatty():
            with redirect_stderr(_Silence()):
                yield
            return
        bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(),
            TimeElapsedColumn(), console=Console(file=terminal), transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        with bar, redirect_stderr(_Relay(bar, bar.add_task(what, total=None), what)):
            yield


class _Silence:
    """A stream for progress that nobody watches."""

    def isatty(self):
        return False

    def write(self, text):
        return len(text)

    def flush(self):
        pass


class _Relay(_Silence):
    """A stream that takes the progress lines of `Budget` and draws them as one bar."""

    LINE = re.compile(r"\] (\d+)/(\d+) (.*?),? +[\d.]+ s")

    def __init__(self, bar, task, what):
        self.bar, self.task, self.what = bar, task, what

    def isatty(self):
        return True

    def write(self, text):
        found = self.LINE.search(text)
        if found:
            done, total, phase = int(found[1]), int(found[2]), found[3].strip()
            description = f"{self.what}: {phase}" if phase else self.what
            self.bar.update(
                self.task, description=description, completed=done,
                total=total if total > 1 else None,
            )  # fmt: skip
        return len(text)


def check_writable(path, option):
    """Raise a UsageError, before long work, where a file cannot be written."""
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{option} {printable(str(path), 200)} is a folder; name a file.")
    if not path.parent.is_dir():
        raise UsageError(
            f"cannot write {option} {printable(str(path), 200)}: there is no folder "
            f"{printable(str(path.parent), 200)}."
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write into the folder of {option} {printable(str(path), 200)}.")
