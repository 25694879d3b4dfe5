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

from bayespoint._support.devices import DeviceError
from bayespoint.io.model_file import ModelFileError
from bayespoint.io.tables import TableError, printable

BAD_DATA, BAD_USAGE, INTERRUPTED = 1, 2, 130
# Characters of a warning from a library that are shown.
SHOWN_WARNING = 400


class UsageError(Exception):
    """Options that do not go together, or that the data do not fit; exit code 2."""


@contextmanager
def exit_codes(stopped="stopped"):
    """Turn what goes wrong into a message on standard error and an exit code: 1 data, 2 usage.

    Parameters
    ----------
    stopped : str
        What is said on Ctrl-C, where the error itself does not say it; the exit code is 130.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        _print_error(str(error) or stopped)
        raise typer.Exit(INTERRUPTED) from None
    except UsageError as error:
        _fail(str(error), BAD_USAGE)
    except DeviceError as error:
        _fail(str(error), BAD_USAGE)
    except (TableError, ModelFileError) as error:
        _fail(str(error), BAD_DATA)
    except BrokenPipeError:  # who read our output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        raise typer.Exit(BAD_DATA) from None
    except OSError as error:
        where = "" if error.filename is None else f"{printable(str(error.filename), 200)}: "
        if where == "standard output: ":  # what is left in it would fail once more at the end
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        _fail(f"{where}{error.strerror or printable(str(error))}", BAD_USAGE)
    except MemoryError:
        _fail("the data do not fit into memory: use fewer rows or columns.", BAD_DATA)


def _fail(message, code):
    _print_error(f"error: {message}")
    raise typer.Exit(code) from None


def _print_error(text):
    Console(stderr=True, emoji=False).print(
        text, markup=False, highlight=False, soft_wrap=True, style="red"
    )


def counted(n, word):
    """Say how many there are: 1 row, 2 rows.

    Examples
    --------
    >>> from bayespoint.cli.output import counted
    >>> counted(1, "row"), counted(2000, "row"), counted(3, "class")
    ('1 row', '2,000 rows', '3 classes')
    """
    if n == 1:
        return f"1 {word}"
    return f"{n:,} {word}{'es' if word.endswith('s') else 's'}"


# Parameters in messages of the library, and the options that set them.
_OPTIONS = {"random_state": "--seed"}
_PARAMETER = re.compile(
    r"\b(?:(max_risk|label_noise|max_time|n_draws|n_jobs|random_state|delta)\b=?"
    r"|(coverage|device|inference)(?:=|(?= must be )))"
)


def in_options(text):
    """Message of the library with options in the place of parameters.

    Examples
    --------
    >>> from bayespoint.cli.output import in_options
    >>> in_options("max_risk=0.1 is not met: raise max_risk.")
    '--max-risk 0.1 is not met: raise --max-risk.'
    """

    def option(found):
        name = found[1] or found[2]
        shown = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        return f"{shown} " if found[0].endswith("=") else shown

    return _PARAMETER.sub(option, text)


@contextmanager
def naming_output():
    """Say in an error of writing that it was about standard output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            error.filename = "standard output"
        raise


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
        self.console = Console(stderr=to_stderr, emoji=False)
        self.notes: list[str] = []

    def say(self, text, style=None):
        """Print text for people; text from data in it must have gone through `printable`."""
        if not (self.quiet or self.json):
            with naming_output():
                self.console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)

    def note(self, text):
        """Print a note, and keep it for the model file or the JSON document."""
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"note: {text}", style="yellow")

    def document(self, content):
        """Print the JSON document, if that is what is wanted."""
        if self.json:
            with naming_output():
                typer.echo(json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False))

    @contextmanager
    def noting_warnings(self, but=None):
        """Turn warnings into notes, but those that begin with ``but``."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                found = [printable(str(one.message), SHOWN_WARNING) for one in caught]
        for text in found:
            if but is None or not text.startswith(but):
                self.note(in_options(text))

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
        bar.add_task(what, total=None)
        with bar, redirect_stderr(_Relay(bar.tasks[0], what)):
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

    def __init__(self, task, what):
        self.task, self.what = task, what

    def isatty(self):
        return True

    def write(self, text):
        found = self.LINE.search(text)
        if found:
            done, total, phase = int(found[1]), int(found[2]), found[3].strip()
            # Not by update(): it ends the task, and its clock, with the first phase that is done.
            self.task.description = f"{self.what}: {phase}" if phase else self.what
            self.task.completed = done
            self.task.total = total if done < total > 1 else None
        return len(text)


def check_writable(path, option, inputs=()):
    """Raise a UsageError, before long work, where a file cannot be written.

    ``inputs``: pairs of a file that is read and what it is; none of them is written over.
    """
    path = Path(path)
    for read, what in inputs:
        both = str(read) != "-" and Path(read).exists() and path.exists()
        if both and Path(read).samefile(path):
            raise UsageError(f"{option} is the file of {what}; name another.")
    if path.is_dir():
        raise UsageError(f"{option} {printable(str(path), 200)} is a folder; name a file.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{option} {printable(str(path), 200)} is not a plain file; name another.")
    if not path.parent.is_dir():
        raise UsageError(
            f"cannot write {option} {printable(str(path), 200)}: there is no folder "
            f"{printable(str(path.parent), 200)}."
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write into the folder of {option} {printable(str(path), 200)}.")
