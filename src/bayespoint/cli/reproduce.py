"""``bayespoint reproduce``: tables and figures of the papers, run again."""

import time
from pathlib import Path

import matplotlib
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bayespoint import reproduction
from bayespoint.reproduction import folder as folders

STYLES = {"reproduced": "green", "better": "cyan", "not reproduced": "red"}


def print_list():
    """Print one line an item."""
    width = max(map(len, reproduction.NAMES))
    for name in reproduction.NAMES:
        typer.echo(f"{name:{width}}  {reproduction.load(name).title}")


def run_reproduce(names, output, *, quick, seed, n_jobs, redraw):
    """Run items one after the other; return the exit status."""
    names = _checked(names)
    console = Console()
    matplotlib.use("Agg")
    start, failed, records = time.perf_counter(), [], []
    for name in names:
        try:
            if redraw:
                record = _redraw(name, output)
            else:
                with _progress(console, name) as on_progress:
                    record = folders.run_item(
                        name, output, quick=quick, seed=seed, n_jobs=n_jobs, on_progress=on_progress
                    )
        except Exception as error:  # one item must not keep the others from running
            failed.append(name)
            console.print(f"{name}: [red]did not run[/red]: {escape(str(error))}", soft_wrap=True)
            continue
        records.append(record)
        _show(console, record)
    if records:
        _finish(console, records, output, time.perf_counter() - start)
    if failed:
        console.print(
            f"[red]{len(failed)} of {len(names)} items did not run[/red]: {', '.join(failed)}"
        )
    return 1 if failed else 0


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


class _progress:  # noqa: N801
    """A bar for the cases of one item."""

    def __init__(self, console, name):
        name_and_bar = TextColumn("{task.description}"), BarColumn()
        columns = *name_and_bar, MofNCompleteColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(name, total=None)

    def __enter__(self):
        self._bar.start()
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_):
        self._bar.stop()


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
