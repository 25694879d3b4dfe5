"""``bayespoint export``: a model file as ONNX, or as skops for scikit-learn."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayespoint.cli.fitted import base_of
from bayespoint.cli.inputs import load_model
from bayespoint.cli.output import (
    SHOWN_MESSAGE,
    Output,
    UsageError,
    check_writable,
    exit_codes,
    shown_path,
)
from bayespoint.io.encoder import Category, Date, Number
from bayespoint.io.model_file import Model, ModelFileError
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import PathName, counted, printable
from bayespoint.io.tables.table import and_more

# Inputs of a graph that are listed.
SHOWN_INPUTS = 12
# Kernels whose graphs hold no training rows: a weight per feature or a coefficient per row is
# enough.
WITHOUT_ROWS = ("linear", "precomputed")
ROWS_INSIDE = "training rows are inside."


def run_export(model_path: PathName, output_path: PathName) -> None:
    """Write a model file in another format, by the suffix of the output.

    Parameters
    ----------
    model_path : str or path-like
    output_path : str or path-like
        With the suffix ``.onnx`` or ``.skops``.
    """
    with exit_codes():
        suffix = Path(output_path).suffix.lower()
        make = {".onnx": _onnx, ".skops": _skops}.get(suffix)
        if make is None:
            raise UsageError(
                f"--output {shown_path(output_path)} must end in .onnx or .skops, which says what "
                f"to write."
            )
        check_writable(output_path, "--output", model=model_path)
        model = load_model(model_path)
        try:
            content, facts = make(model)
        except ImportError as error:
            raise UsageError(
                f"export needs the package '{_missing(error, suffix)}': "
                f"pip install 'bayespoint[export]'"
            ) from None
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"cannot be exported: {printable(error, SHOWN_MESSAGE)}") from None
        with replacing(Path(output_path).resolve()) as stream:
            stream.write(content)
        output = Output()
        output.say(f"Wrote {shown_path(output_path)} ({len(content) / 1000:,.0f} kB).")
        output.note(*facts)


def _missing(error: ImportError, suffix: str) -> str:
    """Package that was not found; the library's own error does not name it."""
    name = error.name or getattr(error.__cause__, "name", None)
    needed = ("skops",) if suffix == ".skops" else ("skl2onnx", "onnx")
    absent = (package for package in needed if find_spec(package) is None)
    return printable((name or next(absent, needed[-1])).partition(".")[0])


def _onnx(model: Model) -> tuple[bytes, list[str]]:
    """Bytes of the graph, encoder included, and what to know about it."""
    from bayespoint.io.onnx import to_onnx
    from bayespoint.io.onnx.encoding import graph_columns

    graph = to_onnx(model.classifier, encoder=model.encoder)
    facts = []
    if model.encoder is not None:
        columns = model.encoder.columns_
        facts.append(_inputs(graph.graph.input, graph_columns(columns)))
        facts += [_on_dates(column) for column in columns if isinstance(column, Date)]
    if base_of(model.classifier).kernel not in WITHOUT_ROWS:
        facts.append(ROWS_INSIDE)
    return graph.SerializeToString(), facts


def _inputs(inputs: Any, columns: Sequence[Number | Category]) -> str:
    """Say what the graph takes: one input a column, by the names that they have there."""
    kinds = ["numbers" if isinstance(column, Number) else "text" for column in columns]
    shown = [f"{printable(i.name)} ({kind})" for i, kind in zip(inputs, kinds, strict=True)]
    return (
        f"the encoder is inside: one input a column, of shape (n, 1), float32 for numbers: "
        f"{', '.join(shown[:SHOWN_INPUTS])}{and_more(len(shown) - SHOWN_INPUTS)}."
    )


def _on_dates(column: Date) -> str:
    names = ", ".join(printable(number.name) for number in column.numbers)
    return (
        f"graphs do not read dates: '{printable(column.name)}' is the inputs {names}, days since "
        f"1970-01-01 (with the time as fraction), year, and sine and cosine of the turn that a "
        f"month, weekday (from Monday) or hour is, the first at 0."
    )


def _skops(model: Model) -> tuple[bytes, list[str]]:
    """Bytes of the classifier, and what to know about it."""
    import skops.io

    facts = []
    if model.encoder is not None:
        n_features = counted(len(model.encoder.feature_names_), "feature")
        facts.append(
            f"it takes the {n_features} that the encoder makes of raw columns; the encoder is not "
            f"part of it."
        )
    return skops.io.dumps(model.classifier), [*facts, ROWS_INSIDE]
