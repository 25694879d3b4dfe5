"""Classifiers as JSON and arrays, and back: a fixed list of classes, built from checked values.

A dataclass or named tuple of `fields` is an object with one key, its name; its fields are in it.
What follows from others is left out: the draws of a predictor, and its points as the kernel lays
them out.
"""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Matrix
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.confidence import RULES
from bayespoint.estimators.costs import named_costs
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.estimators.prediction_sets import PredictionSetClassifier
from bayespoint.estimators.predictors import Predictor
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.inference.draws import Draws
from bayespoint.io.model_file.checks import attributes, check_names, refuse_if
from bayespoint.io.model_file.errors import ModelFileError, one_line, shown
from bayespoint.io.model_file.fields import FIELDS, FOLLOWS, MAX_DEGREE, Array, Part
from bayespoint.io.model_file.reading import Reader
from bayespoint.io.model_file.state import check_fitted, check_wrapper
from bayespoint.io.model_file.tree import NODE_BYTES, decode, encode, encode_labels
from bayespoint.io.model_file.writing import Writer

MACHINES = {kind.__name__: kind for kind in (BayesPointClassifier, OnionClassifier)}

SAME = {"same": "estimator"}  # a classifier that was fitted before it was wrapped

# Parameters that older files do not have: they are as they are by default.
LATER = {"half_life", "costs", "min_precision", "min_recall"}

WRAPPERS = {kind.__name__: kind for kind in (RejectingClassifier, PredictionSetClassifier)}


def encode_classifier(classifier: Any, writer: Writer) -> dict[str, Any]:
    """Turn a classifier, fitted or not, into JSON; ``writer`` stores arrays."""
    kind = type(classifier)
    if kind in WRAPPERS.values():
        return _encode_wrapper(classifier, writer)
    if kind not in MACHINES.values():
        raise ModelFileError(
            f"classifier is of type {kind.__name__}; a model file takes "
            f"BayesPointClassifier, OnionClassifier, or RejectingClassifier or "
            f"PredictionSetClassifier of one of them. For pipelines and other estimators "
            f"use skops; of a TableEncoder and a classifier, save(path, pipeline[-1], "
            f"encoder=pipeline[0])."
        )
    parameters, state = _parts(classifier)
    _check_kernel(parameters["kernel"])
    if state:
        _check_parameters(classifier)
        check_fitted(state, kind, parameters["kernel"])
        _check_groups(classifier, state)
        _check_completed(state)
    return {
        "class": kind.__name__,
        "parameters": {n: encode(v, writer, f"{n}=") for n, v in parameters.items()},
        "fitted": _encode_fields(state, kind, writer) if state else None,
    }


def _parts(classifier: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters, and all other attributes."""
    state = {name: value for name, value in vars(classifier).items() if name != "_given"}
    return {name: state.pop(name) for name in signature(type(classifier)).parameters}, state


def _encode_fields(
    values: Mapping[str, Any], kind: type, writer: Writer, where: str = ""
) -> dict[str, Any]:
    """Turn the attributes of a class of the table into JSON."""
    found: dict[str, Any] = {}
    for name, entry in FIELDS[kind].items():
        if entry is FOLLOWS or name not in values:
            continue
        value, place = values[name], where + name
        if isinstance(entry, Part) and value is not None:
            part = type(value)
            found[name] = {
                part.__name__: _encode_fields(attributes(value), part, writer, f"{place}.")
            }
        elif isinstance(entry, Array) and entry.readable:
            found[name] = encode_labels(value, writer, place)
        else:
            found[name] = encode(value, writer, place)
    return found


def _check_kernel(kernel: Any) -> None:
    if callable(kernel):
        raise ModelFileError(
            f"kernel={shown(getattr(kernel, '__name__', type(kernel).__name__))} is a function, "
            f"which would have to run when the file is loaded, so that no one could load it safely."
            f" Use one of the named kernels, or kernel='precomputed' with kernel values that you "
            f"compute; or save with joblib, for files that you trust."
        )


def _encode_wrapper(
    classifier: RejectingClassifier | PredictionSetClassifier, writer: Writer
) -> dict[str, Any]:
    parameters, state = _parts(classifier)
    inner = state.pop("estimator_", None)
    for name, instead in (("confidence", f"one of {('auto', *RULES)}"), ("costs", "a matrix")):
        if callable(parameters.get(name)):
            raise ModelFileError(
                f"{name}= is a function, which would have to run when the file is loaded; use "
                f"{instead}."
            )
    if named_costs(parameters.get("costs")) is not None:
        parameters["costs"] = named_costs(parameters["costs"])  # of a data frame, its names
    _check_parameters(classifier)
    if inner is not None and type(inner) not in MACHINES.values():
        encode_classifier(inner, writer)  # which says why not
    if inner is not None:
        check_wrapper(state, vars(inner), type(classifier), parameters)
    estimator = parameters.pop("estimator")
    node = {
        "class": type(classifier).__name__,
        "parameters": {n: encode(v, writer, f"{n}=") for n, v in parameters.items()},
        "estimator": encode_classifier(estimator, writer),
        "fitted": _encode_fields(state, type(classifier), writer) if state else None,
    }
    if inner is not None:
        node["estimator_"] = SAME if inner is estimator else encode_classifier(inner, writer)
    return node


def _check_parameters(classifier: Any) -> None:
    try:
        if type(classifier) in WRAPPERS.values():
            classifier.check_parameters(None)
        else:
            degree = classifier.checked_parameters().degree
            if degree > MAX_DEGREE:
                raise ValueError(f"degree={degree} is above {MAX_DEGREE}; lower it.")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"parameters: {one_line(error)}") from error


def _check_groups(classifier: Any, state: Mapping[str, Any]) -> None:
    """Refuse labels of features that are not those of a fit."""
    parameters = classifier.checked_parameters()
    try:
        if not parameters.precomputed:
            parameters.groups(state["n_features_in_"])
    except ValueError as error:
        raise ModelFileError(f"parameters: {one_line(error)}") from error


# ---------------------------------------------------------------------- what follows


def _completed(predictor: Predictor, draws: Draws, support_vectors: Matrix) -> Predictor:
    """Return a predictor with the draws, and with support points as its kernel sees them."""
    support, X = predictor.support, support_vectors
    if support.kernel.name != "precomputed":
        X = support.kernel.prepare(X).X
    support = replace(support, points=replace(support.points, X=X))
    rows = {"X": support_vectors} if isinstance(predictor, CellsPredictor) else {}
    return replace(predictor, support=support, committee=draws.coef or None, **rows)


def _check_completed(state: Mapping[str, Any]) -> None:
    """Refuse to save where what is left out would be another once it is loaded."""
    found, draws = state["predictor_"], state["draws_"]
    again = _completed(found, draws, state["support_vectors_"])
    same = _same(found.support.points.X, again.support.points.X)
    if isinstance(found, CellsPredictor):
        same = same and _same(found.X, state["support_vectors_"])
    refuse_if(not same, "support_vectors_ were changed after fit; fit again, then save.")
    committee = found.committee or []
    same = len(committee) == len(draws.coef) and all(map(_same, committee, draws.coef))
    refuse_if(not same, "draws_ were changed after fit; fit again, then save.")


def _same(one: Matrix, other: Matrix) -> bool:
    if sp.issparse(one) and sp.issparse(other):
        names = ("data", "indices", "indptr")
        return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)
    return not sp.issparse(one) and not sp.issparse(other) and np.array_equal(one, other)


# ---------------------------------------------------------------------- back


def decode_classifier(node: Any, reader: Reader) -> Any:
    """Build a classifier from JSON; ``reader`` gives its arrays."""
    if not isinstance(node, dict):
        raise ModelFileError(f"the classifier is {shown(node)}.")
    if isinstance(node.get("class"), str) and node["class"] in WRAPPERS:
        return _decode_wrapper(node, reader)
    _check_keys(node, {"class", "parameters", "fitted"})
    if not isinstance(node["class"], str) or node["class"] not in MACHINES:
        raise ModelFileError(f"class {shown(node['class'])} is none of {sorted(MACHINES)}.")
    kind = MACHINES[node["class"]]
    parameters = _decode_parameters(kind, node["parameters"], reader)
    _check_kernel(parameters["kernel"])
    classifier = kind(**parameters)
    _check_parameters(classifier)
    if node["fitted"] is not None:
        state = _decode_fields(node["fitted"], kind, reader)
        check_fitted(state, kind, parameters["kernel"])
        _check_groups(classifier, state)
        state["predictor_"] = _completed(
            state["predictor_"], state["draws_"], state["support_vectors_"]
        )
        _check_precision(state["predictor_"])
        if kind is BayesPointClassifier:
            state.setdefault("stream_", None)  # older files have none
        classifier.__dict__.update(state)
    return classifier


def _decode_fields(node: Any, kind: type, reader: Reader, where: str = "") -> dict[str, Any]:
    """Attributes of a class of the table: these and no others; None for what follows."""
    if not isinstance(node, dict):
        raise ModelFileError(f"{where or 'attributes'} is {shown(node)}.")
    check_names(node, kind, where)
    found: dict[str, Any] = {}
    for name, entry in FIELDS[kind].items():
        if entry is FOLLOWS:
            refuse_if(name in node, f"{where}{name} is there, and follows from others.")
            found[name] = None
        elif name in node and isinstance(entry, Part) and node[name] is not None:
            found[name] = _decode_part(node[name], entry, reader, where + name)
        elif name in node:
            found[name] = decode(node[name], reader)
    return found


def _decode_part(node: Any, entry: Part, reader: Reader, where: str) -> Any:
    kinds = {kind.__name__: kind for kind in entry.classes}
    if not isinstance(node, dict) or len(node) != 1 or not node.keys() <= kinds.keys():
        raise ModelFileError(f"{where} is {shown(node)}; it must be one of {sorted(kinds)}.")
    reader.budget.spend(NODE_BYTES)
    ((name, content),) = node.items()
    return kinds[name](**_decode_fields(content, kinds[name], reader, f"{where}."))


def _check_precision(predictor: Predictor) -> None:
    points = vars(predictor.support.points)
    for name, value in points.items():
        if value is not None and value.dtype != points["X"].dtype:
            raise ModelFileError(
                f"predictor_.support.points.{name} has dtype {value.dtype}, not that of points."
            )


def _decode_wrapper(node: dict[str, Any], reader: Reader) -> Any:
    kind = WRAPPERS[node["class"]]
    keys = {"class", "parameters", "estimator", "fitted"}
    _check_keys(node, keys | {"estimator_"} if node.get("fitted") is not None else keys)
    estimator = decode_classifier(node["estimator"], reader)
    parameters = _decode_parameters(kind, node["parameters"], reader, "estimator")
    classifier: Any = kind(estimator, **parameters)
    _check_parameters(classifier)
    if node["fitted"] is not None:
        again = node["estimator_"] == SAME
        inner = estimator if again else decode_classifier(node["estimator_"], reader)
        if not hasattr(inner, "classes_"):
            raise ModelFileError("the classifier inside is not fitted.")
        state = _decode_fields(node["fitted"], kind, reader)
        check_wrapper(state, vars(inner), kind, parameters)
        if kind is RejectingClassifier:
            state.setdefault("costs_", None)  # older files have none
        classifier.__dict__.update(state, estimator_=inner)
        if kind is RejectingClassifier:
            classifier.predicted_dtype()
    return classifier


def _decode_parameters(kind: type, node: Any, reader: Reader, *but: str) -> dict[str, Any]:
    names = signature(kind).parameters.keys() - but
    if not isinstance(node, dict) or not names - LATER <= node.keys() <= names:
        raise ModelFileError(f"parameters are not those of {kind.__name__}: {shown(node)}.")
    return {name: decode(value, reader) for name, value in node.items()}


def _check_keys(node: dict[str, Any], keys: set[str]) -> None:
    if node.keys() != keys:
        raise ModelFileError(f"a classifier has {sorted(map(shown, node))}, not {sorted(keys)}.")
