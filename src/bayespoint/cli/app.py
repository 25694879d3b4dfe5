"""Commands and their options; each command's work is in a module of its own."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bayespoint import __version__
from bayespoint.cli.settings import Inference, Settings
from bayespoint.io.tables import FORMATS

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
    from bayespoint.cli.demo import run_demo  # draws: matplotlib takes half a second to import

    run_demo(output, seed)


FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Data: .csv, .tsv, .parquet, .npy, .npz or .svmlight; - is standard input.",
        show_default=False,
    ),
]
ModelFile = Annotated[Path, typer.Option("--model", help="Model file.", show_default=False)]
Target = Annotated[
    str, typer.Option("--target", help="Column that holds the classes.", show_default=False)
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Leave this column out; may be repeated.")
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="Numbers of this column name categories; repeatable."),
]
MaxCategories = Annotated[
    int, typer.Option(min=2, max=10_000, help="Most values that a text column may have.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="Kind of file, instead of its ending.")
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="CSV without names: columns are x0, x1, ….")
]
Coverage = Annotated[
    float | None, typer.Option(min=0.01, max=1.0, help="Decide this share of cases.")
]
MaxRisk = Annotated[
    float | None,
    typer.Option(min=0.0001, max=0.99, help="Decide while errors stay below this share."),
]
Delta = Annotated[
    float | None,
    typer.Option(
        min=1e-9, max=0.99, help="Probability that --max-risk may fail with; 0.05 unless given."
    ),
]
MaxTime = Annotated[
    float | None, typer.Option(min=0.01, help="Seconds for training; the best until then counts.")
]
Method = Annotated[Inference, typer.Option("--inference", help="How classifiers are averaged.")]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda or auto.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all that is random.")]
Jobs = Annotated[int, typer.Option("--n-jobs", min=-1, help="Threads; -1: one a core.")]
Draws = Annotated[int, typer.Option("--n-draws", min=1, max=100_000, help="Classifiers averaged.")]
LabelNoise = Annotated[
    str, typer.Option(help="Share of wrong labels, below 0.5, or evidence to find it.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _checked_format(format: str | None) -> str | None:
    if format is not None and format not in FORMATS:
        raise typer.BadParameter(f"use one of {', '.join(FORMATS)}", param_hint="--format")
    return format


def _checked_delta(delta: float | None, max_risk: float | None) -> float:
    if delta is not None and max_risk is None:
        raise typer.BadParameter("needs --max-risk, which it is about", param_hint="--delta")
    return 0.05 if delta is None else delta


@app.command()
def train(
    file: FileArgument,
    target: Target,
    model: ModelFile,
    coverage: Coverage = None,
    max_risk: MaxRisk = None,
    delta: Delta = None,
    max_time: MaxTime = None,
    inference: Method = Inference.auto,
    device: Device = "cpu",
    label_noise: LabelNoise = "0",
    n_draws: Draws = 100,
    seed: Seed = 0,
    n_jobs: Jobs = -1,
    drop: Drop = None,
    categorical: Categorical = None,
    max_categories: MaxCategories = 50,
    format: Format = None,
    no_header: NoHeader = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a classifier on the rows of a file and write it to a model file.

    Ctrl-C keeps the best found so far.

    Example: bayespoint train flowers.csv --target species --model flowers.bpm --coverage 0.9
    """
    from bayespoint.cli.train import run_train

    settings = Settings(
        coverage=coverage, max_risk=max_risk, delta=_checked_delta(delta, max_risk),
        max_time=max_time, inference=inference, device=device, seed=seed, n_jobs=n_jobs,
        n_draws=n_draws, label_noise=label_noise,
    )  # fmt: skip
    run_train(
        file, target, model, settings, drop=drop or (), categorical=categorical or (),
        max_categories=max_categories, format=_checked_format(format), header=not no_header,
        quiet=quiet, json=json,
    )  # fmt: skip


@app.command()
def predict(
    file: FileArgument,
    model: ModelFile,
    output: Annotated[
        str, typer.Option(help="File for the predictions; - is standard output.")
    ] = "-",
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="Copy this column; may be repeated.")
    ] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Guard text that looks like a formula.")
    ] = False,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", min=-1, help="Threads; -1: one a core.")
    ] = None,
    format: Format = None,
    no_header: NoHeader = False,
    quiet: Quiet = False,
    json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a row instead of CSV.")
    ] = False,
) -> None:
    """Decide about the rows of a file: label, whether it was rejected, probability of each class.

    Example: bayespoint predict new.csv --model flowers.bpm --output predictions.csv
    """
    from bayespoint.cli.predict import run_predict

    run_predict(
        file, model, output, keep=keep or (), spreadsheet_safe=spreadsheet_safe, json=json,
        n_jobs=n_jobs, format=_checked_format(format), header=not no_header, quiet=quiet,
    )  # fmt: skip


@app.command()
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    json: Json = False,
) -> None:
    """Say what is in a model file, without using it.

    Example: bayespoint info flowers.bpm
    """
    from bayespoint.cli.info import run_info

    run_info(model, json)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
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
def evaluate(
    file: FileArgument,
    model: ModelFile,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Column of true classes; by default that of training."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file for the report, readable offline.")
    ] = None,
    no_rows: Annotated[
        bool, typer.Option("--no-rows", help="Leave rows of the data out of the report.")
    ] = False,
    positive: Annotated[
        str | None, typer.Option(help="Class that ROC is about, of two; by default the last.")
    ] = None,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", min=-1, help="Threads; -1: one a core.")
    ] = None,
    format: Format = None,
    no_header: NoHeader = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure a model on rows whose classes are known, and write a report.

    Example: bayespoint evaluate test.csv --model flowers.bpm --target species --report report.html
    """
    from bayespoint.cli.evaluate import run_evaluate

    run_evaluate(
        file, model, target, report, positive=positive, show_rows=not no_rows, n_jobs=n_jobs,
        format=_checked_format(format), header=not no_header, quiet=quiet, json=json,
    )  # fmt: skip


@app.command("cross-validate")
def cross_validate(
    file: FileArgument,
    target: Target,
    folds: Annotated[int, typer.Option(min=2, max=1000, help="Parts, each held out once.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Times that rows are dealt.")] = 1,
    svc: Annotated[bool, typer.Option("--svc", help="Also scikit-learn's SVC, for comparison.")] = (
        False
    ),
    coverage: Coverage = None,
    max_risk: MaxRisk = None,
    delta: Delta = None,
    max_time: MaxTime = None,
    inference: Method = Inference.auto,
    device: Device = "cpu",
    label_noise: LabelNoise = "0",
    n_draws: Draws = 100,
    seed: Seed = 0,
    n_jobs: Jobs = -1,
    drop: Drop = None,
    categorical: Categorical = None,
    max_categories: MaxCategories = 50,
    format: Format = None,
    no_header: NoHeader = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say what error to expect: train on parts of the rows, decide about the others.

    The encoder, too, sees the training part only. --max-time is for each fold.

    Example: bayespoint cross-validate flowers.csv --target species --folds 10 --svc
    """
    from bayespoint.cli.cross_validate import run_cross_validate

    settings = Settings(
        coverage=coverage, max_risk=max_risk, delta=_checked_delta(delta, max_risk),
        max_time=max_time, inference=inference, device=device, seed=seed, n_jobs=n_jobs,
        n_draws=n_draws, label_noise=label_noise,
    )  # fmt: skip
    run_cross_validate(
        file, target, settings, folds=folds, repeats=repeats, svc=svc, drop=drop or (),
        categorical=categorical or (), max_categories=max_categories,
        format=_checked_format(format), header=not no_header, quiet=quiet, json=json,
    )  # fmt: skip


@app.command()
def diagnose(
    model: ModelFile,
    plots: Annotated[
        Path | None, typer.Option(help="Picture of the draws: .png, .pdf or .svg.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say whether the average that a model holds can be trusted: R-hat, ESS, drift, evidence.

    Example: bayespoint diagnose --model flowers.bpm --plots traces.png
    """
    from bayespoint.cli.diagnose import run_diagnose

    run_diagnose(model, plots, quiet=quiet, json=json)


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
    from bayespoint.cli.reproduce import print_list, run_reproduce

    if list_items:
        print_list()
    elif not names:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    else:
        status = run_reproduce(names, output, quick=quick, seed=seed, n_jobs=n_jobs, redraw=redraw)
        raise typer.Exit(status)
