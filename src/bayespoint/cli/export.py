"""``bayespoint export``: a model file as ONNX, or as skops for scikit-learn."""

from importlib.util import find_spec
from pathlib import Path

from bayespoint.cli.deciding import base_of
from bayespoint.cli.inputs import load_model
from bayespoint.cli.output import Output, UsageError, check_writable, counted, exit_codes
from bayespoint.io.encoder import Number
from bayespoint.io.model_file import ModelFileError
from bayespoint.io.model_file.files import replacing
from bayespoint.io.tables import printable

# Inputs of a graph that are listed.
SHOWN_INPUTS = 12
# Kernels whose graphs hold no training rows: a weight a feature, or a coefficient a row, is enough.
WITHOUT_ROWS = ("linear", "precomputed")


def run_export(model, output):
    """Write a model file in another format, by the suffix of the output.

    Parameters
    ----------
    model : str or path-like
    output : str or path-like
        With the suffix ``.onnx`` or ``.skops``.
    """
    with exit_codes():
        output = Path(output)
        make = {".onnx": _onnx, ".skops": _skops}.get(output.suffix.lower())
        if make is None:
            raise UsageError(
                f"--output {printable(str(output), 200)} must end in .onnx or .skops, which says "
                f"what to write."
            )
        check_writable(output, "--output", [(model, "the model")])
        found = load_model(model)
        try:
            content, facts = make(found)
        except ImportError as error:
            raise UsageError(
                f"export needs the package '{_missing(error, output)}': "
                f"pip install 'bayespoint[export]'"
            ) from None
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"cannot be exported: {printable(str(error), 400)}") from None
        with replacing(output.resolve()) as stream:
            stream.write(content)
        report = Output()
        report.say(f"Wrote {printable(str(output), 200)} ({len(content) / 1000:,.0f} kB).")
        for fact in facts:
            report.note(fact)


def _missing(error, output):
    """Package that was not found; the library's own error does not name it."""
    name = error.name or getattr(error.__cause__, "name", None)
    needed = ("skops",) if output.suffix.lower() == ".skops" else ("skl2onnx", "onnx")
    absent = (package for package in needed if find_spec(package) is None)
    return printable((name or next(absent, needed[-1])).partition(".")[0])


def _onnx(found):
    """Bytes of the graph, encoder included, and what to know about it."""
    from bayespoint.io.onnx import to_onnx

    graph = to_onnx(found.classifier, encoder=found.encoder)
    facts = []
    if found.encoder is not None:
        facts.append(_inputs(graph.graph.input, found.encoder.columns_))
    if base_of(found.classifier).kernel not in WITHOUT_ROWS:
        facts.append("training rows are inside.")
    return graph.SerializeToString(), facts


def _inputs(inputs, columns):
    """Say what the graph takes: one input a column, by the names that they have there."""
    kinds = ["numbers" if isinstance(column, Number) else "text" for column in columns]
    shown = [
        f"{printable(given.name)} ({kind})"
        for given, kind in zip(inputs, kinds, strict=True)
    ][:SHOWN_INPUTS]  # fmt: skip
    more = f" and {len(kinds) - SHOWN_INPUTS:,} more" if len(kinds) > SHOWN_INPUTS else ""
    return (
        f"the encoder is inside: one input a column, of shape (n, 1), float32 for numbers: "
        f"{', '.join(shown)}{more}."
    )


def _skops(found):
    import skops.io

    facts = ["training rows are inside."]
    if found.encoder is not None:
        n_features = counted(len(found.encoder.feature_names_), "feature")
        facts.insert(
            0,
            f"it takes the {n_features} that the encoder makes of raw columns; the encoder is not "
            f"part of it.",
        )
    return skops.io.dumps(found.classifier), facts
