"""What commands share: where they print, how they fail, how they show progress."""

import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TextIO, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from typer.core import TyperGroup

from bayespoint._support.devices import DeviceError
from bayespoint._support.watching import watched_by
from bayespoint.cli.progress import Lines, Moving, Pace, Relay, Silence, in_minutes
from bayespoint.io.model_file import ModelFileError
from bayespoint.io.tables import PathName, TableError, printable

BAD_DATA, BAD_USAGE, INTERRUPTED = 1, 2, 130
UNREAD = 141  # what shells report of programs that end behind ``| head``: 128 and SIGPIPE
# Characters of a path, and of an error or a warning of the library, that are shown.
SHOWN_PATH, SHOWN_MESSAGE = 200, 400
DESCRIPTION = TextColumn("{task.description}", markup=False)

Step = TypeVar("Step")


class UsageError(Exception):
    """Options that do not go together, or that the data do not fit; exit code 2."""


@contextmanager
def exit_codes(stopped: str = "stopped") -> Iterator[None]:
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
    except DeviceError as error:
        _fail(in_options(error), BAD_USAGE)
    except UsageError as error:
        _fail(str(error), BAD_USAGE)
    except (TableError, ModelFileError) as error:
        _fail(str(error), BAD_DATA)
    except BrokenPipeError:  # who read our output has seen enough
        _drop_stdout()
        raise typer.Exit(UNREAD) from None
    except OSError as error:
        where = "" if error.filename is None else f"{shown_path(error.filename)}: "
        if where == "standard output: ":
            _drop_stdout()
        _fail(f"{where}{error.strerror or printable(str(error))}", BAD_USAGE)
    except MemoryError:
        _fail("the data do not fit into memory: use fewer rows or columns.", BAD_DATA)


def _drop_stdout() -> None:
    """Write no more to standard output: what is left in it would fail once more at the end."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _fail(message: str, code: int) -> NoReturn:
    _print_error(f"error: {message}")
    raise typer.Exit(code) from None


def _print_error(text: str) -> None:
    Console(stderr=True, emoji=False).print(
        text, markup=False, highlight=False, soft_wrap=True, style="red"
    )


def shown_path(path: PathName) -> str:
    """Path for messages, safe to print."""
    return printable(path, SHOWN_PATH)


def shown_name(path: PathName) -> str:
    """Name of a file for messages: without its folder, safe to print."""
    return "standard input" if str(path) == "-" else printable(Path(path).name)


# Parameters in messages of the library, and the options that set them.
_OPTIONS = {"random_state": "--seed"}
_PARAMETER = re.compile(
    r"\b(?:(max_risk|min_precision|min_recall|label_noise|class_weight|max_time|cache_size|half_life|n_draws|n_jobs"
    r"|random_state|delta|softness)"
    r"\b=?"
    r"|(coverage|device|inference|kernel|gamma)(?:=|(?= must be ))"
    r"|(costs)(?= (?:has|makes|names|says|is|are)\b))"
)


def in_options(message: object) -> str:
    """Message of the library, safe to print, with options instead of parameters.

    Examples
    --------
    >>> from bayespoint.cli.output import in_options
    >>> in_options("max_risk=0.1 is not met: raise max_risk.")
    '--max-risk 0.1 is not met: raise --max-risk.'
    """

    def option(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[3]
        shown = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        return f"{shown} " if found[0].endswith("=") else shown

    shown = _PARAMETER.sub(option, printable(message, SHOWN_MESSAGE))
    return shown.replace("use the billiard", "use --inference billiard")


class Commands(TyperGroup):
    """Commands that remember how they were called."""

    words: ClassVar[list[str]] = []

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command, and keep them for `again`."""
        Commands.words = list(args)
        with exit_codes():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C while it still imports what it needs ends it with a line, too."""
        with exit_codes():
            return super().invoke(ctx)


def again() -> str:
    """Return the command as it was called, to be pasted with more options."""
    words = (shlex.quote(printable(word, SHOWN_PATH)) for word in Commands.words)
    return " ".join(["bayespoint", *words])


@contextmanager
def naming_output() -> Iterator[None]:
    """Say in an error of writing that it was about standard output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            error.filename = "standard output"
        raise


class _Console(Console):
    """A console that leaves it to who prints what happens when nobody reads; Rich's ends all."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


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

    def __init__(self, *, quiet: bool = False, json: bool = False, to_stderr: bool = False) -> None:
        self.quiet, self.json = quiet, json
        self.console = _Console(stderr=to_stderr, emoji=False)
        self.notes: list[str] = []
        self._is_heard = True

    def say(self, text: str, style: str | None = None) -> None:
        """Print text for people; text from data in it must have gone through `printable`.

        Once nobody reads it any more, as behind ``| head``, nothing is said, and the work goes on:
        files are still to be written.
        """
        if self.quiet or self.json or not self._is_heard:
            return
        try:
            with naming_output():
                self.console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)
        except BrokenPipeError:
            self._is_heard = False
            if not self.console.stderr:  # else it may be for data that somebody does read
                _drop_stdout()

    def note(self, *texts: str) -> None:
        """Print notes, and keep them for the model file or the JSON document."""
        for text in texts:
            if text not in self.notes:
                self.notes.append(text)
                self.say(f"note: {text}", style="yellow")

    def document(self, content: Mapping[str, Any]) -> None:
        """Print the JSON document, if that is what is wanted."""
        if self.json:
            with naming_output():
                typer.echo(json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False))

    @contextmanager
    def noting_warnings(self, but: str | None = None) -> Iterator[None]:
        """Turn warnings into notes, but those that begin with ``but``."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                messages = [str(warning.message) for warning in caught]
        for text in messages:
            if but is None or not text.startswith(but):
                self.note(in_options(text))

    @contextmanager
    def progress(self, what: str) -> Iterator[None]:
        """Show a bar, the phase and the time while a classifier with ``verbose=1`` is fitted.

        Where standard error is no terminal, a line now and then.
        """
        if self.quiet:
            with redirect_stderr(Silence()):
                yield
            return
        pace, told = Pace(what), partial(self._announce, sys.stderr)
        if not sys.stderr.isatty():
            with watched_by(partial(told, pace)), redirect_stderr(Lines(pace)):
                yield
            return
        bar = _bar(SpinnerColumn(), Moving(pace), BarColumn(), TimeElapsedColumn())
        bar.add_task(what, total=None)
        with bar, watched_by(partial(told, pace, bar=bar)), redirect_stderr(Relay(pace)):
            yield

    def _announce(
        self, stderr: TextIO, pace: Pace, work: str, seconds: float, bar: Progress | None = None
    ) -> None:
        """Say what will be done, and let the bar know how long it may take."""
        pace.expected = pace.elapsed() + seconds
        if bar is not None:
            bar.stop()  # which would be drawn into the text
        with redirect_stderr(stderr):  # which takes progress alone now
            self.say(
                f"This may take {in_minutes(seconds)}: {work}. Ctrl-C ends it and keeps the best "
                f"so far; --max-time sets a limit, in seconds."
            )
        if bar is not None:
            bar.start()

    def tracked(self, steps: Sequence[Step], what: str) -> Iterator[Step]:
        """Yield steps of equal size, such as folds, with a bar where somebody watches."""
        if len(steps) < 2 or not self._is_watched:
            yield from steps
            return
        with _bar(DESCRIPTION, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
            task = bar.add_task(what, total=len(steps))
            for step in steps:
                yield step
                bar.advance(task)

    @property
    def _is_watched(self) -> bool:
        return not self.quiet and sys.stderr.isatty()


def _bar(*columns: ProgressColumn) -> Progress:
    return Progress(
        *columns, console=Console(file=sys.stderr), transient=True, redirect_stdout=False,
        redirect_stderr=False,
    )  # fmt: skip


def check_writable(path: PathName, option: str, **inputs: PathName) -> None:
    """Raise a UsageError, before long work, where a file cannot be written.

    ``inputs``: files that are read, by what they are; none of them is written over.
    """
    path, shown = Path(path), f"{option} {shown_path(path)}"
    for what, read in inputs.items():
        both = str(read) != "-" and Path(read).exists() and path.exists()
        if both and Path(read).samefile(path):
            raise UsageError(f"{option} is the file of the {what}; name another.")
    if path.is_dir():
        raise UsageError(f"{shown} is a folder; name a file.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{shown} is not a plain file; name another.")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {shown}: there is no folder {shown_path(path.parent)}.")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write into the folder of {shown}.")
