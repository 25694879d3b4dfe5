"""A bar over steps of equal size: folds, blocks of rows."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def tracked(output, steps, what):
    """Yield the steps, with a bar on standard error where somebody watches.

    Parameters
    ----------
    output : Output
    steps : sequence
    what : str
        What is done.
    """
    if output.quiet or len(steps) < 2 or not sys.stderr.isatty():
        yield from steps
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), console=Console(file=sys.stderr), transient=True,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    with bar:
        task = bar.add_task(what, total=len(steps))
        for step in steps:
            yield step
            bar.advance(task)
