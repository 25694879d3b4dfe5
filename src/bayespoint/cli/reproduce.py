"""``bayespoint reproduce``: tables and figures of the papers, run again."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bayespoint.cli.output import BAD_DATA, INTERRUPTED, exit_codes
from bayespoint.papers import reproduction, sources
from bayespoint.papers.datasets import DataNotFoundError
from bayespoint.papers.reproduction import folder as folders
from bayespoint.papers.reproduction import pages
from bayespoint.papers.reproduction.item import (
    ANSWERED,
    BETTER,
    BY_CONSTRUCTION,
    NO,
    OPEN,
    REFUTED,
    REPRODUCED,
    YES,
)

STYLES = {
    REPRODUCED: "green", BETTER: "cyan", REFUTED: "red", OPEN: "yellow", BY_CONSTRUCTION: "dim",
    ANSWERED: "blue", YES: "blue", NO: "blue",
}  # fmt: skip


def print_list() -> None:
    """Print one line per item."""
    width = max(map(len, reproduction.NAMES))
    for name in reproduction.NAMES:
        typer.echo(f"{name:{width}}  {reproduction.load(name).title}")


def fetch_data() -> int:
    """Fetch all data sets of the papers into their folder, file by file; return the exit status."""
    folder = sources.data_folder()
    typer.echo(f"Data sets of the papers, into {folder}:")
    with exit_codes():
        outcomes = sources.fetch(folder=folder, tell=_tell)
    statuses = [outcome.status for outcome in outcomes]
    n_missing, n_other = statuses.count(sources.SKIPPED), statuses.count(sources.DIFFERS)
    typer.echo(f"{len(outcomes) - n_missing} of {len(outcomes)} files are there.")
    if n_missing:
        typer.echo("Items that need the others are skipped, or take the sets from OpenML.")
    if n_other:
        typer.echo(f"Not as published, and used as they are: {n_other}.")
    return BAD_DATA if n_missing or n_other else 0


def _tell(outcome: sources.Outcome) -> None:
    why = f": {outcome.why}" if outcome.why else ""
    typer.echo(f"  {outcome.status:<8} {outcome.source.path}{why}")


def run_reproduce(
    names: Sequence[str], folder: Path, *, quick: bool, seed: int, n_jobs: int, redraw: bool
) -> int:
    """Run items one after the other; return the exit status."""
    names = _checked(names)
    _check_folder(folder, names, quick=quick, redraw=redraw)
    console = Console()
    matplotlib.use("Agg")
    settings = {"quick": quick, "seed": seed, "n_jobs": n_jobs}
    start, interrupted = time.perf_counter(), False
    failed: list[str] = []
    records: list[dict[str, Any]] = []
    try:
        for name in names:
            record = _ran(console, name, folder, None if redraw else settings)
            if record is None:
                failed.append(name)
            else:
                records.append(record)
                _show(console, record)
    except KeyboardInterrupt:
        interrupted = True
    if records:
        _finish(console, records, folder, time.perf_counter() - start)
    if interrupted:
        done = ", ".join(record["name"] for record in records) or "none"
        console.print(f"[red]Interrupted[/red]; items done: {done}", soft_wrap=True)
        return INTERRUPTED
    if failed:
        console.print(
            f"[red]{len(failed)} of {len(names)} items did not run[/red]: {', '.join(failed)}"
        )
    return BAD_DATA if failed else 0


def _ran(
    console: Console, name: str, folder: Path, settings: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Run one item, or redraw it without settings; None if that fails, so that others can run."""
    try:
        if settings is None:
            return _redraw(name, folder)
        with _progress(console, name) as on_progress:
            return folders.run_item(name, folder, on_progress=on_progress, **settings)
    except DataNotFoundError as error:
        console.print(f"{name}: [yellow]skipped[/yellow]: {escape(str(error))}", soft_wrap=True)
        return None
    except Exception as error:
        console.print(f"{name}: [red]did not run[/red]: {escape(str(error))}", soft_wrap=True)
        return None


def _check_folder(folder: Path, names: Sequence[str], *, quick: bool, redraw: bool) -> None:
    """Refuse a folder that cannot be written, or whose full runs small ones would replace."""
    try:
        if not redraw:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write into the folder {folder}: {error.strerror}", param_hint="--output"
        ) from None
    if quick and not redraw:
        full = {record["name"] for record in folders.read_folder(folder) if not record["quick"]}
        lost = [name for name in names if name in full]
        if lost:
            raise typer.BadParameter(
                f"{folder} holds full runs of {', '.join(lost)}, which small ones would "
                "replace: give another --output", param_hint="--quick",
            )  # fmt: skip


def _checked(names: Sequence[str]) -> tuple[str, ...]:
    if "all" in names:
        return reproduction.NAMES
    for name in names:
        if name not in reproduction.NAMES:
            raise typer.BadParameter(
                f"there is no item {name!r}; bayespoint reproduce --list shows them"
            )
    return tuple(dict.fromkeys(names))


def _redraw(name: str, folder: Path) -> dict[str, Any]:
    for record in folders.read_folder(folder):
        if record["name"] == name:
            return folders.write_item(record, folder)
    raise FileNotFoundError(f"there is no {name}.json in {folder}: run it without --redraw first")


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for the cases of one item."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(console: Console, record: Mapping[str, Any]) -> None:
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


def _finish(console: Console, records: list[dict[str, Any]], folder: Path, seconds: float) -> None:
    path = pages.write_pages(folder)
    console.print(f"{pages.share(records)} {seconds:.0f} s.", soft_wrap=True)
    if any(record["quick"] for record in records):
        console.print(
            "These are small runs, whose numbers are not those of the published sizes: what fails "
            "here may hold in full (leave out --quick).",
            soft_wrap=True,
        )
    console.print(f"Numbers, pictures and pages: {escape(str(Path(path)))}", soft_wrap=True)
