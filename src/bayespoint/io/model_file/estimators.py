"""Classifiers as JSON and arrays, and back: a fixed list of classes, built from checked values."""

from inspect import signature

import numpy as np
import scipy.sparse as sp

from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.estimators.parameters import check_parameters
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.io.model_file.errors import ModelFileError, one_line, shown
from bayespoint.io.model_file.state import check_fitted, check_rejecting
from bayespoint.io.model_file.tree import decode, encode, encode_labels

MACHINES = {kind.__name__: kind for kind in (BayesPointClassifier, OnionClassifier)}
# Polynomials of higher degree have overflowed or vanished, and would take for ever.
MAX_DEGREE = 1000

SAME = {"same": "estimator"}  # a classifier that was fitted before it was wrapped


def parameter_names(kind):
    """Names of the constructor's parameters."""
    return [name for name in signature(kind.__init__).parameters if name != "self"]


def encode_classifier(classifier, writer):
    """Turn a classifier, fitted or not, into JSON; ``writer`` stores arrays."""
    if type(classifier) is RejectingClassifier:
        return _encode_rejecting(classifier, writer)
    if type(classifier) not in MACHINES.values():
        raise ModelFileError(
            f"classifier is of type {type(classifier).__name__}; a model file takes "
            f"BayesPointClassifier, OnionClassifier, or RejectingClassifier of one of them. For "
            f"pipelines and other estimators use skops."
        )
    parameters, state = _parts(classifier)
    _check_kernel(parameters["kernel"])
    if state:
        state["_support_"] = _without_points(classifier)
        _checked(classifier, parameters, state)
    return {
        "class": type(classifier).__name__,
        "parameters": {n: encode(v, writer, f"{n}=") for n, v in parameters.items()},
        "fitted": _encode_state(state, writer) if state else None,
    }


def _parts(classifier):
    """Parameters, and all other attributes."""
    state = dict(vars(classifier))
    return {name: state.pop(name) for name in parameter_names(type(classifier))}, state


def _encode_state(state, writer):
    return {
        name: (encode_labels if name == "classes_" else encode)(value, writer, name)
        for name, value in state.items()
    }


def _check_kernel(kernel):
    if callable(kernel):
        raise ModelFileError(
            f"kernel={shown(getattr(kernel, '__name__', type(kernel).__name__))} is a function, "
            f"which would have to run when the file is loaded, so that no one could load it safely."
            f" Use one of the named kernels, or kernel='precomputed' with kernel values that you "
            f"compute; or save with joblib, for files that you trust."
        )


def _encode_rejecting(classifier, writer):
    parameters, state = _parts(classifier)
    inner = state.pop("estimator_", None)
    if callable(parameters["confidence"]):
        raise ModelFileError(
            "confidence= is a function, which would have to run when the file is loaded; use "
            "'output', 'gap' or 'vote'."
        )
    _check_parameters(classifier)
    if inner is not None:
        check_rejecting(state, vars(inner))
    estimator = parameters.pop("estimator")
    node = {
        "class": "RejectingClassifier",
        "parameters": {n: encode(v, writer, f"{n}=") for n, v in parameters.items()},
        "estimator": encode_classifier(estimator, writer),
        "fitted": _encode_state(state, writer) if state else None,
    }
    if inner is not None:
        node["estimator_"] = SAME if inner is estimator else encode_classifier(inner, writer)
    return node


def _without_points(classifier):
    """What is kept of the support points beside them; they follow from ``support_vectors_``."""
    support = dict(classifier._support_)
    X, again = support.pop("X"), _laid_out(classifier)
    if sp.issparse(X):
        pairs = [(getattr(X, n), getattr(again, n)) for n in ("data", "indices", "indptr")]
    else:
        pairs = [(X, again)]
    if sp.issparse(X) != sp.issparse(again) or not all(np.array_equal(*pair) for pair in pairs):
        raise ModelFileError("support_vectors_ were changed after fit; fit again, then save.")
    return support


def _laid_out(classifier):
    """Support points as the kernel sees them: centred, sparse, in its precision."""
    if classifier.kernel == "precomputed":
        return classifier.support_vectors_
    return classifier._kernel().prepare(classifier.support_vectors_).X


def _checked(classifier, parameters, state):
    _check_parameters(classifier)
    check_fitted(state, parameters["kernel"], onion=type(classifier) is OnionClassifier)


def _check_parameters(classifier):
    try:
        if type(classifier) is RejectingClassifier:
            classifier._check_parameters(None)
        else:
            check_parameters(classifier._checked_parameters())
            if classifier.degree > MAX_DEGREE:
                raise ValueError(f"degree={classifier.degree} is above {MAX_DEGREE}; lower it.")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"parameters: {one_line(error)}") from error


# ---------------------------------------------------------------------- back


def decode_classifier(node, reader):
    """Build a classifier from JSON; ``reader`` gives its arrays."""
    if not isinstance(node, dict):
        raise ModelFileError(f"the classifier is {shown(node)}.")
    if node.get("class") == "RejectingClassifier":
        return _decode_rejecting(node, reader)
    _check_keys(node, {"class", "parameters", "fitted"})
    if not isinstance(node["class"], str) or node["class"] not in MACHINES:
        raise ModelFileError(f"class {shown(node['class'])} is none of {sorted(MACHINES)}.")
    kind = MACHINES[node["class"]]
    parameters = _decode_parameters(kind, node["parameters"], reader)
    _check_kernel(parameters["kernel"])
    classifier = kind(**parameters)
    _check_parameters(classifier)
    if node["fitted"] is not None:
        state = _decode_names(node["fitted"], reader)
        check_fitted(state, classifier.kernel, onion=kind is OnionClassifier)
        classifier.__dict__.update(state)
        classifier._support_ = {"X": _laid_out(classifier), **state["_support_"]}
        _check_precision(classifier)
    return classifier


def _check_precision(classifier):
    for name, value in classifier._support_.items():
        if value is not None and value.dtype != classifier._support_["X"].dtype:
            raise ModelFileError(f"_support_.{name} has dtype {value.dtype}, not that of points.")


def _decode_rejecting(node, reader):
    keys = {"class", "parameters", "estimator", "fitted"}
    _check_keys(node, keys | {"estimator_"} if node.get("fitted") is not None else keys)
    estimator = decode_classifier(node["estimator"], reader)
    parameters = _decode_parameters(RejectingClassifier, node["parameters"], reader, "estimator")
    classifier = RejectingClassifier(estimator, **parameters)
    _check_parameters(classifier)
    if node["fitted"] is not None:
        again = node["estimator_"] == SAME
        inner = estimator if again else decode_classifier(node["estimator_"], reader)
        if not hasattr(inner, "classes_"):
            raise ModelFileError("the classifier inside is not fitted.")
        state = _decode_names(node["fitted"], reader)
        check_rejecting(state, vars(inner))
        classifier.__dict__.update(state, estimator_=inner)
        classifier._predicted_dtype()
    return classifier


def _decode_parameters(kind, node, reader, *but):
    wanted = {name for name in parameter_names(kind) if name not in but}
    if not isinstance(node, dict) or node.keys() != wanted:
        raise ModelFileError(f"parameters are not those of {kind.__name__}: {shown(node)}.")
    return _decode_names(node, reader)


def _decode_names(node, reader):
    if not isinstance(node, dict):
        raise ModelFileError(f"attributes are {shown(node)}.")
    return {name: decode(value, reader) for name, value in node.items()}


def _check_keys(node, keys):
    if node.keys() != keys:
        raise ModelFileError(f"a classifier has {sorted(map(shown, node))}, not {sorted(keys)}.")
