"""What a model file holds, in words and numbers, from its JSON alone."""

import zipfile
from typing import Any

from bayespoint.io.model_file.errors import ModelFileError, shown
from bayespoint.io.model_file.estimators import SAME, WRAPPERS
from bayespoint.io.model_file.layout import JSON_NAME
from bayespoint.io.model_file.reading import Reader
from bayespoint.io.model_file.tree import MAX_DEPTH

# Fitted values that are shown: what they are called, and where they stand.
SHOWN_VALUES = {
    name: ("settings_", "Settings", name)
    for name in ("inference", "inference_reason", "decision", "gamma", "bias", "softness")
} | {
    "kernel": ("settings_", "Settings", "kernel_name"),
    "label_noise": ("settings_", "Settings", "class_noise"),
    "n_draws": ("draws_", "Draws", "n_draws"),
    "log_evidence": ("settings_", "Settings", "log_evidence"),
    "training_rows": ("trained_", "Trained", "n_samples"),
}


# What is told of wrappers, and their fitted values that are.
TOLD = {
    "RejectingClassifier": (
        "rejection", ("confidence_", "threshold_", "coverage_", "risk_bound_"),
    ),
    "PredictionSetClassifier": ("sets", ("thresholds_", "coverage_", "mean_size_")),
}  # fmt: skip


def described(document: dict[str, Any], schema: int, reader: Reader) -> dict[str, Any]:
    """Return a dict of plain JSON types."""
    node = _object(document["classifier"])
    wrapper = node.get("class") if node.get("class") in WRAPPERS else None
    inner = node
    if wrapper is not None:
        inner = _object(node.get("estimator" if node.get("estimator_") == SAME else "estimator_"))
    fitted = _object(inner.get("fitted"))
    found = {
        "schema": schema,
        "bayespoint": document["bayespoint"],
        "class": inner.get("class"),
        "settings": _each(inner.get("parameters"), reader),
        "classes": plain(fitted.get("classes_"), reader),
        "n_features": fitted.get("n_features_in_"),
        "feature_names": plain(fitted.get("feature_names_in_"), reader),
    }
    for name, path in SHOWN_VALUES.items():
        place: Any = fitted
        for key in path:
            place = _object(place).get(key)
        found[name] = plain(place, reader)
    rates = found["label_noise"]
    if isinstance(rates, list) and rates and all(rate == rates[0] for rate in rates):
        found["label_noise"] = rates[0]
    n_support, n_columns = _shape(fitted.get("support_vectors_"), reader)
    found["support_points"] = n_support
    found["training_rows_inside"] = n_support if n_columns else 0
    if wrapper is not None:
        what, names = TOLD[wrapper]
        found[what] = _each(node.get("parameters"), reader) | {
            name: plain(_object(node.get("fitted")).get(name), reader) for name in names
        }
    found["encoder"] = document["encoder"] is not None
    found["about"] = document["about"]
    found["bytes"] = reader.size
    found["members"] = [_member(info, reader) for info in reader.members]
    return found


def _member(info: zipfile.ZipInfo, reader: Reader) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": info.filename, "bytes": info.file_size, "packed": info.compress_size,
    }  # fmt: skip
    if info.filename != JSON_NAME:
        dtype, _, shape, _ = reader.record(info.filename)
        found |= {"dtype": dtype.name, "shape": list(shape)}
    return found


def plain(node: Any, reader: Reader, depth: int = 0) -> Any:
    """Value of a node of the tree, in JSON's own types; arrays are named by type and shape."""
    if depth > MAX_DEPTH:
        raise ModelFileError("its values are nested too deep.")
    if isinstance(node, list):
        return [plain(item, reader, depth + 1) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) != 1:
        raise ModelFileError(f"a value is of no known kind: {shown(node)}.")
    ((kind, content),) = node.items()
    if kind == "dict" and isinstance(content, dict):
        return {key: plain(value, reader, depth + 1) for key, value in content.items()}
    if kind in ("array", "csr"):
        return f"array of shape {_shape(node, reader)}"
    if kind == "random":
        return "RandomState"
    if kind in ("scalar", "values") and isinstance(content, list) and content:
        content = content[-1]
    return plain(content, reader, depth + 1)


def _shape(node: Any, reader: Reader) -> tuple[int, ...]:
    """Shape of an array or sparse matrix, which the zip has been checked for."""
    number = _object(node).get("array")
    if type(number) is int and 0 <= number < len(reader.records):
        shape = reader.records[number][2]
    else:
        csr = node.get("csr")
        shape = csr[1] if isinstance(csr, list) and len(csr) == 5 else None
        shape = tuple(shape) if isinstance(shape, list) else ()
    if not all(type(n) is int for n in shape):
        raise ModelFileError(f"the shape of an array is {shown(shape)}.")
    return shape


def _each(nodes: Any, reader: Reader) -> dict[str, Any]:
    return {name: plain(node, reader) for name, node in _object(nodes).items()}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelFileError(f"a part of the model is missing: found {shown(value)}.")
    return value
