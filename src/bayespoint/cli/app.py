"""Commands and their options; each command's work is in a module of its own."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bayespoint import __version__
from bayespoint.cli.demo import run_demo
from bayespoint.cli.reproduce import print_list, run_reproduce

app = typer.Typer(
    help="Bayes point machines: kernel classifiers that know when they do not know.",
    no_args_is_help=True,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayespoint {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """Bayes point machines: kernel classifiers that know when they do not know."""


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option(help="Where to write the picture (png, pdf or svg).")
    ] = Path("bayespoint-demo.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds and draws.")] = 0,
) -> None:
    """Cross-validate on scikit-learn's digits beside SVC, reject the doubtful ones, draw it.

    Example: bayespoint demo --output digits.png
    """
    run_demo(output, seed)


@app.command()
def reproduce(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Items, or all.", metavar="NAME", show_default=False)
    ] = None,
    list_items: Annotated[
        bool, typer.Option("--list", help="One line an item, then stop.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small runs, not as published.")] = False,
    output: Annotated[
        Path, typer.Option(help="Folder for numbers (JSON), pictures and the page.")
    ] = Path("bayespoint-reproduction"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of all that is random, fixed splits apart.")
    ] = 0,
    n_jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Compare and draw again from stored numbers.")
    ] = False,
) -> None:
    """Run tables and figures of the papers again, beside the published numbers.

    Example: bayespoint reproduce jmlr-figure-6 kgs-figure-3 --quick
    """
    if list_items:
        print_list()
    elif not names:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    else:
        status = run_reproduce(names, output, quick=quick, seed=seed, n_jobs=n_jobs, redraw=redraw)
        raise typer.Exit(status)
