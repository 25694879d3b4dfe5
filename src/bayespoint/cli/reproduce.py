"""``bayespoint reproduce``: tables and figures of the papers, run again."""

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bayespoint.papers import reproduction
from bayespoint.papers.reproduction import folder as folders
from bayespoint.papers.reproduction.item import BETTER, BY_CONSTRUCTION, NOT_REPRODUCED, REPRODUCED

STYLES = {REPRODUCED: "green", BETTER: "cyan", NOT_REPRODUCED: "red", BY_CONSTRUCTION: "dim"}

# What a shell says of a program that Ctrl-C ended.
INTERRUPTED = 130


def print_list():
    """Print one line an item."""
    width = max(map(len, reproduction.NAMES))
    for name in reproduction.NAMES:
        typer.echo(f"{name:{width}}  {reproduction.load(name).title}")


def run_reproduce(names, output, *, quick, seed, n_jobs, redraw):
    """Run items one after the other; return the exit status."""
    names = _checked(names)
    _check_folder(output, names, quick=quick, redraw=redraw)
    console = Console()
    matplotlib.use("Agg")
    settings = {"quick": quick, "seed": seed, "n_jobs": n_jobs}
    start, interrupted = time.perf_counter(), False
    failed: list[str] = []
    records: list[dict] = []
    try:
        for name in names:
            _one(console, name, output, records, failed, settings, redraw)
    except KeyboardInterrupt:
        interrupted = True
    if records:
        _finish(console, records, output, time.perf_counter() - start)
    if interrupted:
        done = ", ".join(record["name"] for record in records) or "none"
        console.print(f"[red]Interrupted[/red]; items done: {done}", soft_wrap=True)
        return INTERRUPTED
    if failed:
        console.print(
            f"[red]{len(failed)} of {len(names)} items did not run[/red]: {', '.join(failed)}"
        )
    return 1 if failed else 0


def _one(console, name, output, records, failed, settings, redraw):
    """Run or redraw one item and show it; what fails must not keep the others from running."""
    try:
        if redraw:
            record = _redraw(name, output)
        else:
            with _progress(console, name) as on_progress:
                record = folders.run_item(name, output, on_progress=on_progress, **settings)
    except Exception as error:
        failed.append(name)
        console.print(f"{name}: [red]did not run[/red]: {escape(str(error))}", soft_wrap=True)
    else:
        records.append(record)
        _show(console, record)


def _check_folder(output, names, *, quick, redraw):
    """Refuse a folder that cannot be written, or whose full runs small ones would replace."""
    try:
        if not redraw:
            output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write into the folder {output}: {error.strerror}", param_hint="--output"
        ) from None
    if quick and not redraw:
        full = {record["name"] for record in folders.read_folder(output) if not record["quick"]}
        lost = [name for name in names if name in full]
        if lost:
            raise typer.BadParameter(
                f"{output} holds runs as published of {', '.join(lost)}, which small ones would "
                "replace: give another --output", param_hint="--quick",
            )  # fmt: skip


def _checked(names):
    if "all" in names:
        return reproduction.NAMES
    for name in names:
        if name not in reproduction.NAMES:
            raise typer.BadParameter(
                f"there is no item {name!r}; bayespoint reproduce --list shows them"
            )
    return tuple(dict.fromkeys(names))


def _redraw(name, output):
    for record in folders.read_folder(output):
        if record["name"] == name:
            return folders.write_item(record, output)
    raise FileNotFoundError(f"there is no {name}.json in {output}: run it without --redraw first")


@contextmanager
def _progress(console, name):
    """Show a bar for the cases of one item."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(console, record):
    verdict = record["verdict"]
    table = Table(
        title=f"{record['name']}: [{STYLES[verdict]}]{verdict}[/] ({record['seconds']:.1f} s)",
        caption=escape(record["title"]),
        title_justify="left", caption_justify="left",
    )  # fmt: skip
    for column in ("", "published", "ours", "verdict"):
        table.add_column(column)
    for cells in record["cells"]:
        *texts, last = map(escape, cells)
        table.add_row(*texts, f"[{STYLES[cells[-1]]}]{last}[/]")
    console.print(table)


def _finish(console, records, output, seconds):
    path = folders.write_page(output)
    console.print(f"{folders.share(records)} {seconds:.0f} s.", soft_wrap=True)
    if any(record["quick"] for record in records):
        console.print(
            "These are small runs, whose numbers are not those of the published sizes: what fails "
            "here may hold in full (leave out --quick).",
            soft_wrap=True,
        )
    console.print(f"Numbers, pictures and page: {escape(str(Path(path)))}", soft_wrap=True)
