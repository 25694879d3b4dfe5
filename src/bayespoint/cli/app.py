"""Commands and their options; each command's work is in a module of its own."""

from pathlib import Path
from typing import Annotated

import typer

from bayespoint import __version__
from bayespoint.cli.demo import run_demo

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
