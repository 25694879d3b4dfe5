"""What a model file holds, in words and numbers, from its JSON alone."""

from bayespoint.io.model_file.errors import ModelFileError, shown
from bayespoint.io.model_file.estimators import SAME
from bayespoint.io.model_file.layout import JSON_NAME
from bayespoint.io.model_file.tree import MAX_DEPTH

# Fitted values that are shown, and what they are called.
SHOWN_VALUES = {
    "inference": "inference_",
    "inference_reason": "inference_reason_",
    "decision": "_decision_",
    "gamma": "gamma_",
    "bias": "bias_",
    "softness": "softness_",
    "label_noise": "label_noise_",
    "n_draws": "n_draws_",
    "log_evidence": "log_evidence_",
}


def described(document, schema, reader):
    """Return a dict of plain JSON types."""
    node = _needed(document["classifier"], dict)
    rejecting = node.get("class") == "RejectingClassifier"
    inner = node
    if rejecting:
        inner = node.get("estimator" if node.get("estimator_") == SAME else "estimator_")
    fitted = _needed(_needed(inner, dict).get("fitted"), dict)
    found = {
        "schema": schema,
        "bayespoint": document["bayespoint"],
        "class": inner.get("class"),
        "settings": _each(inner.get("parameters"), reader),
        "classes": plain(fitted.get("classes_"), reader),
        "n_features": fitted.get("n_features_in_"),
        "feature_names": plain(fitted.get("feature_names_in_"), reader),
    }
    for name, attribute in SHOWN_VALUES.items():
        found[name] = plain(fitted.get(attribute), reader)
    n_support, n_columns = _shape(fitted.get("support_vectors_"), reader)
    found["training_rows"] = fitted.get("_n_samples_")
    found["support_points"] = n_support
    found["training_rows_inside"] = n_support if n_columns else 0
    if rejecting:
        found["rejection"] = _each(node.get("parameters"), reader) | {
            name: plain(_needed(node.get("fitted"), dict).get(name), reader)
            for name in ("threshold_", "coverage_", "risk_bound_")
        }
    found["encoder"] = document["encoder"] is not None
    found["about"] = document["about"]
    found["bytes"] = reader.size
    found["members"] = [_member(info, reader) for info in reader.members]
    return found


def _member(info, reader):
    found = {"name": info.filename, "bytes": info.file_size, "packed": info.compress_size}
    if info.filename != JSON_NAME:
        dtype, _, shape, _ = reader.record(info.filename)
        found |= {"dtype": dtype.name, "shape": list(shape)}
    return found


def plain(node, reader, depth=0):
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


def _shape(node, reader):
    """Shape of an array or sparse matrix, which the zip has been checked for."""
    _needed(node, dict)
    number = node.get("array")
    if type(number) is int and 0 <= number < len(reader.records):
        shape = reader.records[number][2]
    else:
        csr = node.get("csr")
        shape = csr[1] if isinstance(csr, list) and len(csr) == 5 else None
        shape = tuple(shape) if isinstance(shape, list) else ()
    if not all(type(n) is int for n in shape):
        raise ModelFileError(f"the shape of an array is {shown(shape)}.")
    return shape


def _each(nodes, reader):
    return {name: plain(node, reader) for name, node in _needed(nodes, dict).items()}


def _needed(value, kind):
    if not isinstance(value, kind):
        raise ModelFileError(f"a part of the model is missing: found {shown(value)}.")
    return value
