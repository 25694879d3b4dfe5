"""Options of the commands, each written once; those that belong together are one dataclass."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from bayespoint.inference.methods import METHODS
from bayespoint.io.encoder import MAX_CATEGORIES, MOST_CATEGORIES
from bayespoint.io.encoder.dates import ORDERS
from bayespoint.io.tables import FORMATS
from bayespoint.io.tables.notation import DECIMALS

# Options of `Settings` about what is decided, and about models that go on learning.
REJECTING = ("coverage", "max_risk", "costs", "min_precision", "min_recall", "delta")
STREAMING = ("half_life",)

# Probability that --max-risk may fail with, and memory in MB, unless given.
DELTA, CACHE_SIZE = 0.05, 2000

# ---------------------------------------------------------------------- one by one

DataFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Data: .csv, .tsv, .parquet, .npy, .npz or .svmlight; - is standard input.",
        show_default=False,
    ),
]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)]
ModelOption = Annotated[Path, typer.Option("--model", help="Model file.", show_default=False)]
Target = Annotated[
    str, typer.Option("--target", help="Column that holds the classes.", show_default=False)
]
OptionalTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Column that holds the classes; with --continue by default that of the model.",
        show_default=False,
    ),
]
NewModel = Annotated[
    Path | None,
    typer.Option(
        "--model", help="Model file to write; with --continue by default the old one.",
        show_default=False,
    ),
]  # fmt: skip
Continue = Annotated[
    Path | None,
    typer.Option(
        "--continue", metavar="MODEL", help="Continue with the model in this file.",
        show_default=False,
    ),
]  # fmt: skip
ChunkRows = Annotated[
    int | None,
    typer.Option(
        "--chunk-rows", min=10,
        help="Read CSV this many rows at a time, for files larger than memory.",
        show_default=False,
    ),
]  # fmt: skip
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask", metavar="[ADDRESS]",
        help="Train on a Dask cluster: that of a scheduler, or one on this machine. FILE may be a "
        "pattern, 'part-*.parquet'.",
        show_default=False,
    ),
]  # fmt: skip
_JOBS = typer.Option("--n-jobs", min=-1, help="Threads; -1: one per core.")
Jobs = Annotated[int, _JOBS]
StoredJobs = Annotated[int | None, _JOBS]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


# ---------------------------------------------------------------------- together


# Values of --inference; mypy knows only enumerations that are written out.
Inference = StrEnum("Inference", {name: name for name in ("auto", *METHODS)})  # type: ignore[misc]
AUTO = Inference("auto")


@dataclass(frozen=True)
class Settings:
    """What classifier is trained."""

    coverage: Annotated[
        float | None, typer.Option(min=0.01, max=1.0, help="Decide this share of cases.")
    ] = None
    max_risk: Annotated[
        float | None,
        typer.Option(min=0.0001, max=0.99, help="Decide while errors stay below this share."),
    ] = None
    costs: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of costs: a row per true class, a column per decision (also reject)."
        ),
    ] = None
    min_precision: Annotated[
        list[str] | None,
        typer.Option(
            help="CLASS=SHARE: at least this share of rows labelled CLASS must be right; "
            "may be repeated."
        ),
    ] = None
    min_recall: Annotated[
        list[str] | None,
        typer.Option(
            help="CLASS=SHARE: at least this share of rows of CLASS must not get another label; "
            "may be repeated."
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            min=1e-9, max=0.99,
            help=f"Probability that --max-risk or a limit may fail; {DELTA} unless given.",
        ),
    ] = None  # fmt: skip
    max_time: Annotated[
        float | None,
        typer.Option(min=0.01, help="Seconds for training; then the best model so far is kept."),
    ] = None
    inference: Annotated[Inference, typer.Option(help="Method that averages classifiers.")] = AUTO
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda or auto.")] = "cpu"
    kernel: Annotated[
        str, typer.Option(help="Kind of kernel: auto, rbf, laplacian, linear or poly.")
    ] = "auto"
    gamma: Annotated[
        str,
        typer.Option(
            help="Width of the kernel: a number, held-out or evidence to choose it, ard for one "
            "per column."
        ),
    ] = "held-out"
    softness: Annotated[
        str,
        typer.Option(
            help="How soft the boundary is: a number, or held-out or evidence to choose it."
        ),
    ] = "held-out"
    class_weight: Annotated[
        list[str] | None,
        typer.Option(help="Weight of errors: CLASS=WEIGHT, or balanced; may be repeated."),
    ] = None
    label_noise: Annotated[
        str, typer.Option(help="Share of wrong labels, below 0.5, or evidence to find it.")
    ] = "0"
    n_draws: Annotated[int, typer.Option(min=1, max=100_000, help="Classifiers averaged.")] = 100
    cache_size: Annotated[
        float | None,
        typer.Option(
            min=1, help=f"Memory for rows and kernel values, in MB; {CACHE_SIZE} unless given."
        ),
    ] = None
    half_life: Annotated[
        float | None,
        typer.Option(
            min=1, help="Rows after which a row counts half, with --chunk-rows or --continue."
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")] = 0
    n_jobs: Jobs = -1

    def __post_init__(self) -> None:
        """Refuse --delta and --half-life where they are about nothing."""
        promises = self.max_risk, self.min_precision, self.min_recall
        if self.delta is not None and not any(promises):
            raise typer.BadParameter(
                "needs --max-risk, --min-precision or --min-recall",
                param_hint="--delta",
            )
        if self.half_life is not None and (self.rejects or self.inference not in ("auto", "ep")):
            raise typer.BadParameter(
                "is for models that go on learning: leave out what rejects, such as --coverage "
                "and --max-risk, and use --inference ep or auto",
                param_hint="--half-life",
            )

    @property
    def rejects(self) -> bool:
        """Whether something else than the most probable class may be decided."""
        ways = self.coverage, self.max_risk, self.costs, self.min_precision, self.min_recall
        return any(way is not None for way in ways)

    @property
    def delta_or_usual(self) -> float:
        """Probability that --max-risk, or limits, may fail with."""
        return DELTA if self.delta is None else self.delta

    def stored(self) -> dict[str, Any]:
        """Options by name, of plain types, as model files hold them."""
        plain = asdict(self) | {"inference": str(self.inference), "delta": self.delta_or_usual}
        plain["costs"] = None if self.costs is None else self.costs.name
        for name in ("n_draws", "label_noise"):  # the last ones of all model files
            plain[name] = plain.pop(name)
        return plain


@dataclass(frozen=True)
class Columns:
    """What is made of the columns of training data."""

    drop: Annotated[
        list[str] | None, typer.Option(help="Leave this column out; may be repeated.")
    ] = None
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Treat numbers in this column as categories; may be repeated."),
    ] = None
    dates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[=ORDER]",
            help="This column holds dates or times, if that is not detected; ymd, dmy or mdy "
            "tells their order; may be repeated.",
        ),
    ] = None
    max_categories: Annotated[
        int,
        typer.Option(min=2, max=MOST_CATEGORIES, help="Largest number of values in a text column."),
    ] = MAX_CATEGORIES

    @property
    def orders(self) -> dict[str, str | None]:
        """Columns of dates that are not dropped, with the order of each where it is told."""
        found: dict[str, str | None] = {}
        for text in self.dates or []:
            name, equals, order = text.rpartition("=")
            told = bool(equals) and order in ORDERS
            found[name if told else text] = order if told else None
        return {name: order for name, order in found.items() if name not in (self.drop or [])}

    @property
    def categories(self) -> list[str]:
        """Columns of categories that are not dropped."""
        return [name for name in self.categorical or [] if name not in (self.drop or [])]

    @property
    def text(self) -> list[str]:
        """Columns that are read as text."""
        return [*self.categories, *self.orders]


@dataclass(frozen=True)
class FileFormat:
    """How a file of data is read."""

    format: Annotated[
        str | None, typer.Option(help="Format of the file; by default from its name.")
    ] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="CSV without names: columns are x0, x1, ….")
    ] = False
    decimal: Annotated[
        str | None,
        typer.Option(
            help="Decimal mark of numbers in text, . or ,; by default detected for each column."
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="Largest size of the unpacked file.", show_default="2 GiB"),
    ] = None
    trusted: Annotated[
        bool, typer.Option("--trusted", help="Lift the limits on cells, columns, lines and texts.")
    ] = False

    def __post_init__(self) -> None:
        """Refuse kinds of files and decimal marks that are not known."""
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise typer.BadParameter("use . or ,", param_hint="--decimal")
        if self.format is not None and self.format not in FORMATS:
            raise typer.BadParameter(f"use one of {', '.join(FORMATS)}", param_hint="--format")


@dataclass(frozen=True)
class Printing:
    """What a command prints."""

    quiet: Quiet = False
    json: Json = False


def given_options(group: Settings | Columns | FileFormat, but: Iterable[str] = ()) -> list[str]:
    """Options of a group that have other values than by default, as they are written."""
    usual = type(group)()
    return [
        f"--{field.name.replace('_', '-')}"
        for field in fields(group)
        if field.name not in but and getattr(group, field.name) != getattr(usual, field.name)
    ]


def grouped(command: Callable[..., None], without: Iterable[str] = ()) -> Callable[..., None]:
    """Command whose parameters that are dataclasses of options become these options, in place.

    ``without``: options that have their usual values in this command, and that it does not have.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        options = (
            inspect.signature(groups[name]).parameters if name in groups else {name: parameter}
        )
        parameters += [
            option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for option in options.values()
            if option.name not in without
        ]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            names = [field.name for field in fields(group) if field.name not in without]
            values[name] = group(**{option: values.pop(option) for option in names})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in parameters}
    return run
