"""Commands and their options; each command's work is in a module of its own."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bayespoint import __version__
from bayespoint.cli.options import (
    REJECTING,
    STREAMING,
    ChunkRows,
    Columns,
    Continue,
    Dask,
    DataFile,
    FileFormat,
    Json,
    ModelArgument,
    ModelOption,
    NewModel,
    OptionalTarget,
    Printing,
    Quiet,
    Settings,
    StoredJobs,
    Target,
    grouped,
)
from bayespoint.cli.output import Commands

app = typer.Typer(
    cls=Commands,
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of draws.")] = 0,
) -> None:
    """Learn from 300 digits, compare with other classifiers on the rest, draw it.

    Example: bayespoint demo --output digits.png
    """
    from bayespoint.cli.demo import run_demo  # draws: matplotlib takes half a second to import

    run_demo(output, seed)


@app.command()
@grouped
def train(
    *,
    file: DataFile,
    target: OptionalTarget = None,
    model: NewModel = None,
    continued: Continue = None,
    chunk_rows: ChunkRows = None,
    dask: Dask = None,
    settings: Settings,
    columns: Columns,
    file_format: FileFormat,
    printing: Printing,
    importances: Annotated[
        bool | None,
        typer.Option(
            "--importances/--no-importances",
            help="Find out which columns matter; by default if that takes seconds.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Write a model even if its log-loss is worse than that of the class frequencies. "
            "Not needed with --chunk-rows, --dask and --continue, which do not check that.",
        ),
    ] = False,
) -> None:
    """Train a classifier on the rows of a file and write it to a model file.

    Ctrl-C keeps the best found so far. --continue adds rows to an existing model.

    Example: bayespoint train flowers.csv --target species --model flowers.bpm --coverage 0.9

    Example: bayespoint train more.csv --continue flowers.bpm

    Example: bayespoint train 'part-*.parquet' --target species --model flowers.bpm --dask
    """
    unchecked = {"--continue": continued, "--chunk-rows": chunk_rows, "--dask": dask}
    given = [option for option, value in unchecked.items() if value is not None]
    if force and given:
        words = f"not needed with {given[0]}, which writes every model"
        raise typer.BadParameter(words, param_hint="--force")
    if continued is not None:
        if dask is not None:
            raise typer.BadParameter("does not work with --continue", param_hint="--dask")
        from bayespoint.cli.going_on import run_continue

        run_continue(
            file, continued, settings, columns, file_format, printing, target=target,
            new_path=model, chunk_rows=chunk_rows, importances=importances,
        )  # fmt: skip
        return
    if target is None or model is None:
        missing = "--target" if target is None else "--model"
        raise typer.BadParameter("needed, unless --continue is given", param_hint=missing)
    from bayespoint.cli.train import run_train

    run_train(
        file, target, model, settings, columns, file_format, printing, importances, chunk_rows,
        dask, force,
    )  # fmt: skip


@app.command()
@grouped
def predict(
    *,
    file: DataFile,
    model: ModelOption,
    output: Annotated[
        str, typer.Option(help="File for the predictions; - is standard output.")
    ] = "-",
    keep: Annotated[
        list[str] | None, typer.Option(help="Copy this column; may be repeated.")
    ] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Guard text that looks like a formula.")
    ] = False,
    n_jobs: StoredJobs = None,
    file_format: FileFormat,
    quiet: Quiet = False,
    json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per row instead of CSV.")
    ] = False,
) -> None:
    """Decide about the rows of a file: label, whether it was rejected, probability of each class.

    Example: bayespoint predict new.csv --model flowers.bpm --output predictions.csv
    """
    from bayespoint.cli.predict import run_predict

    run_predict(
        file, model, output, file_format, keep=keep or (), spreadsheet_safe=spreadsheet_safe,
        n_jobs=n_jobs, quiet=quiet, as_json=json,
    )  # fmt: skip


@app.command()
def info(model: ModelArgument, json: Json = False) -> None:
    """Say what is in a model file, without using it.

    Example: bayespoint info flowers.bpm
    """
    from bayespoint.cli.info import run_info

    run_info(model, json)


@app.command()
def export(
    model: ModelArgument,
    output: Annotated[
        Path, typer.Option(help="File to write, .onnx or .skops.", show_default=False)
    ],
) -> None:
    """Write the classifier of a model file for other programs: ONNX, or skops for scikit-learn.

    Example: bayespoint export flowers.bpm --output flowers.onnx
    """
    from bayespoint.cli.export import run_export

    run_export(model, output)


@app.command()
@grouped
def evaluate(
    *,
    file: DataFile,
    model: ModelOption,
    target: Annotated[
        str | None, typer.Option(help="Column of true classes; by default that of training.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file for the report, readable offline.")
    ] = None,
    no_rows: Annotated[
        bool, typer.Option("--no-rows", help="Leave rows of the data out of the report.")
    ] = False,
    positive: Annotated[
        str | None, typer.Option(help="Of two classes, the one to find; by default the rarer.")
    ] = None,
    n_jobs: StoredJobs = None,
    file_format: FileFormat,
    printing: Printing,
) -> None:
    """Measure a model on rows whose classes are known, and write a report.

    Example: bayespoint evaluate test.csv --model flowers.bpm --target species --report report.html
    """
    from bayespoint.cli.evaluate import run_evaluate

    run_evaluate(
        file, model, file_format, printing, target=target, report_path=report,
        shows_rows=not no_rows, positive=positive, n_jobs=n_jobs,
    )  # fmt: skip


@app.command()
@partial(grouped, without=(*REJECTING, *STREAMING))
def doubt(
    *,
    file: DataFile,
    target: Target,
    output: Annotated[str, typer.Option(help="CSV file to write; - is standard output.")] = "-",
    report: Annotated[
        Path | None, typer.Option(help="HTML file to go through the rows, readable offline.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="List this many rows; by default those that are probably wrong."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Do not choose settings from the data: a fraction of the time."
        ),
    ] = False,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Guard text that looks like a formula.")
    ] = False,
    settings: Settings,
    columns: Columns,
    file_format: FileFormat,
    printing: Printing,
) -> None:
    """List the labels of a file that are probably wrong, surest first, and say how many there are.

    Each is listed with the label that suits the row, its probability, and the rows most like it.

    Example: bayespoint doubt flowers.csv --target species --output doubts.csv --report doubts.html
    """
    from bayespoint.cli.doubt import run_doubt

    run_doubt(
        file, target, output, settings, columns, file_format, printing, report_path=report,
        budget=budget, quick=quick, spreadsheet_safe=spreadsheet_safe,
    )  # fmt: skip


@app.command("cross-validate")
@partial(grouped, without=STREAMING)
def cross_validate(
    *,
    file: DataFile,
    target: Target,
    folds: Annotated[int, typer.Option(min=2, max=1000, help="Number of folds.")] = 5,
    repeats: Annotated[
        int, typer.Option(min=1, max=1000, help="How often rows are shuffled into folds.")
    ] = 1,
    svc: Annotated[bool, typer.Option("--svc", help="Also test scikit-learn's SVC.")] = (False),
    settings: Settings,
    columns: Columns,
    file_format: FileFormat,
    printing: Printing,
) -> None:
    """Estimate the error: train on parts of the rows, and test on the others.

    The encoder also sees the training part only. --max-time applies to each fold.

    Example: bayespoint cross-validate flowers.csv --target species --folds 10 --svc
    """
    from bayespoint.cli.cross_validate import run_cross_validate

    run_cross_validate(
        file, target, settings, columns, file_format, printing, folds=folds, repeats=repeats,
        svc=svc,
    )  # fmt: skip


@app.command()
@grouped
def diagnose(
    *,
    model: ModelOption,
    plots: Annotated[
        Path | None, typer.Option(help="Picture of the draws: .png, .pdf or .svg.")
    ] = None,
    printing: Printing,
) -> None:
    """Check whether the inference of a model has converged: R-hat, ESS, drift, evidence.

    Example: bayespoint diagnose --model flowers.bpm --plots traces.png
    """
    from bayespoint.cli.diagnose import run_diagnose

    run_diagnose(model, printing, plots)


@app.command()
@partial(grouped, without=STREAMING)
def playground(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Data, or a model (.bpm); none: the page alone.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="Model that decides; none: one is trained.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Column of classes; by default the last.")
    ] = None,
    settings: Settings,
    columns: Columns,
    file_format: FileFormat,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: one that is free.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, open nothing.")
    ] = False,
) -> None:
    """Open a page to play with: version space, the billiard, and what a model says of your rows.

    Example: bayespoint playground

    Example: bayespoint playground flowers.csv --target species --coverage 0.9
    """
    from bayespoint.cli.playground import run_playground

    run_playground(
        file, settings, columns, file_format, model_path=model, target=target, port=port,
        opens=not no_browser,
    )  # fmt: skip


@app.command()
def reproduce(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Items, or all.", metavar="NAME", show_default=False)
    ] = None,
    list_items: Annotated[
        bool, typer.Option("--list", help="One line per item, then stop.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small runs, not as published.")] = False,
    output: Annotated[
        Path, typer.Option(help="Folder for numbers (JSON), pictures and pages.")
    ] = Path("bayespoint-reproduction"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of all random numbers, except fixed splits.")
    ] = 0,
    n_jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Compare and draw again from stored numbers.")
    ] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="First fetch the data sets from their public homes.")
    ] = False,
) -> None:
    """Run tables and figures of the papers again, next to the published numbers.

    Data sets are read from the folder in BAYESPOINT_DATA, else from the user's cache folder, where
    --fetch puts them. Items whose data are not there are skipped.

    Example: bayespoint reproduce --fetch

    Example: bayespoint reproduce jmlr-figure-6 kgs-figure-3 --quick
    """
    from bayespoint.cli.reproduce import fetch_data, print_list, run_reproduce

    fetched = fetch_data() if fetch else 0
    if list_items:
        print_list()
    elif fetch and not names:
        raise typer.Exit(fetched)
    elif not names:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    else:
        status = run_reproduce(names, output, quick=quick, seed=seed, n_jobs=n_jobs, redraw=redraw)
        raise typer.Exit(status)
