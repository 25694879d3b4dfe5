"""``bayespoint export``: a model file as ONNX, or as skops for scikit-learn."""

import json
from pathlib import Path

from bayespoint.cli.inputs import load_model
from bayespoint.cli.output import Output, UsageError, check_writable, exit_codes
from bayespoint.model_file import ModelFileError
from bayespoint.model_file.files import replacing
from bayespoint.tables import printable

ENCODER_KEY = "bayespoint.encoder"  # in the metadata of an ONNX graph
FEATURES_KEY = "bayespoint.features"


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
        check_writable(output, "--output")
        found = load_model(model)
        try:
            content = make(found)
        except ImportError as error:
            raise UsageError(
                f"export needs the package {error.name!r}: pip install 'bayespoint[export]'"
            ) from None
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"cannot be exported: {printable(str(error), 400)}") from None
        with replacing(output.resolve()) as stream:
            stream.write(content)
        _say(Output(), found, output, len(content))


def _onnx(found):
    from bayespoint.onnx import to_onnx

    graph = to_onnx(found.classifier)
    if found.encoder is not None:
        notes = {
            FEATURES_KEY: list(found.encoder.feature_names_),
            ENCODER_KEY: found.encoder.to_state(),
        }
        for key, value in notes.items():
            entry = graph.metadata_props.add()
            entry.key, entry.value = key, json.dumps(value, allow_nan=False)
    return graph.SerializeToString()


def _skops(found):
    import skops.io

    return skops.io.dumps(found.classifier)


def _say(report, found, output, size):
    report.say(f"Wrote {printable(str(output), 200)} ({size / 1000:,.0f} kB).")
    if found.encoder is not None:
        where = (
            f"; its settings are in the metadata, {ENCODER_KEY}" if output.suffix == ".onnx" else ""
        )
        report.note(
            f"it takes the {len(found.encoder.feature_names_)} features that the encoder makes of "
            f"raw columns; the encoder is not part of it{where}."
        )
    report.note("training rows are inside.")
