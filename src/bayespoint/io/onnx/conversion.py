"""Our classifiers in skl2onnx: what they output, and the nodes behind it."""

import json
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bayespoint._support.types import Array, ArrayLike
from bayespoint.estimators.base import KernelClassifier
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.classifier import BayesPointClassifier
from bayespoint.estimators.onion import OnionClassifier
from bayespoint.estimators.rejection import RejectingClassifier
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.onnx import encoding
from bayespoint.io.onnx.graphs import ClassifierGraph
from bayespoint.io.onnx.writer import Writer

_OPTIONS = {
    "zipmap": [True, False, "columns"],  # skl2onnx's own: probabilities as dictionaries
    "nocl": [True, False],  # skl2onnx's own: numbers instead of labels
    "raw_scores": [True, False],  # skl2onnx's own: outputs instead of probabilities
    "decision": [True, False],  # one more output: decision_function
    "float32": [True, False],  # numbers come out as float32, whatever goes in
}
_DEFAULTS = {
    "zipmap": True, "nocl": False, "raw_scores": False, "decision": False, "float32": False,
}  # fmt: skip


def to_onnx(
    classifier: Any, *, encoder: TableEncoder | None = None, target_opset: int | None = None
) -> Any:
    """Turn a fitted classifier into an ONNX graph.

    The graph takes ``X``, float32 of shape (n, n_features), and computes in float64. Its outputs:

    - ``label``: as `predict`, int64 or text. Booleans become 0 and 1.
    - ``probabilities``: float32 of shape (n, n_classes).
    - ``decision``: the decision function, float32 of shape (n,) or (n, n_classes).
    - ``rejected``, only for a `RejectingClassifier`: bool, True for rows left undecided. For these
      ``label`` is ``reject_label`` if that has the type of the labels, otherwise the label that the
      classifier would have predicted.

    Rows with NaN or infinity have NaN probabilities and are rejected. The metadata entry
    ``classes`` is the order of the classes, a list in JSON.

    Parameters
    ----------
    classifier : BayesPointClassifier, OnionClassifier, RejectingClassifier or Pipeline
        Fitted classifier: one of ours, a `RejectingClassifier` around one, or a pipeline that ends
        with one.
    encoder : TableEncoder, optional
        The encoder that made the features from a table, as in `bayespoint train`. It becomes part
        of the graph, which then has one input of shape (n, 1) per column instead of ``X``, in the
        order of ``encoder.columns_``: float32 (NaN if missing) or text (empty if missing). Graphs
        cannot read dates, so there is one input for each of their ``numbers``. Inputs have the
        names of the columns, changed to identifiers; ``doc_string`` has the original names.
    target_opset : int, optional
        Version of the ONNX operators, 13 or later; by default the latest that skl2onnx knows.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayespoint import BayesPointClassifier
    >>> from bayespoint.io.onnx import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesPointClassifier(gamma="scale", softness=0.1).fit(X, y)
    >>> [output.name for output in to_onnx(clf).graph.output]
    ['label', 'probabilities', 'decision']
    """
    register()
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    check_is_fitted(classifier)
    last = classifier
    while isinstance(last, Pipeline):
        last = last[-1]
    if not isinstance(last, (KernelClassifier, RejectingClassifier)):
        raise TypeError(
            f"to_onnx takes a BayesPointClassifier, an OnionClassifier, a RejectingClassifier of "
            f"one, or a pipeline that ends in one of these; got {type(last).__name__}."
        )
    types = [("X", FloatTensorType([None, classifier.n_features_in_]))]
    if encoder is not None:
        types = encoding.initial_types(encoder, classifier.n_features_in_)
    model = convert_sklearn(
        classifier if encoder is None else encoding.Encoded(encoder, classifier),
        name="bayespoint",
        initial_types=types,
        options={id(last): {"zipmap": False, "decision": True, "float32": True}},
        target_opset=target_opset,
    )
    _annotate(model, _labels(last.classes_), encoder)
    return model


def _annotate(model: Any, classes: Array, encoder: TableEncoder | None) -> None:
    """Say in the model the order of the classes, and names of columns."""
    entry = model.metadata_props.add()
    entry.key, entry.value = "classes", json.dumps(classes.tolist())
    if encoder is not None:
        for given, column in zip(
            model.graph.input, encoding.graph_columns(encoder.columns_), strict=True
        ):
            given.doc_string = column.name


def register() -> None:
    """Register our classifiers with skl2onnx, which can then convert pipelines with them.

    The options ``zipmap``, ``nocl`` and ``raw_scores`` work as for scikit-learn's classifiers;
    ``decision=True`` adds the output ``decision``. It may be called more than once.
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(
            "bayespoint.io.onnx needs skl2onnx; run: pip install 'bayespoint[export]'"
        ) from error

    for model in (BayesPointClassifier, OnionClassifier, RejectingClassifier):
        update_registered_converter(
            model, f"Bayespoint{model.__name__}", _set_types, _convert, parser=_parse,
            options=_OPTIONS,
        )  # fmt: skip
    update_registered_converter(
        encoding.Encoded, "BayespointEncoded", encoding.set_types, _convert_encoder,
        parser=encoding.parse,
    )  # fmt: skip


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
    """Declare the operator with its outputs; steps before it that a wrapper holds come first."""
    from skl2onnx._parse import _apply_zipmap, _get_sklearn_operator_name, _parse_sklearn
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        FloatTensorType,
        Int64TensorType,
        guess_tensor_type,
    )

    options = scope.get_options(model, dict(_DEFAULTS))
    given = FloatTensorType() if options["float32"] else inputs[0].type
    for step in _steps_inside(model)[0]:
        inputs = _parse_sklearn(scope, step, inputs, custom_parsers=custom_parsers)
    operator = scope.declare_local_operator(_get_sklearn_operator_name(type(model)), model)
    operator.inputs = inputs

    def declare(name: str, kind: Any) -> Any:
        variable = scope.declare_local_variable(name, kind)
        operator.outputs.append(variable)
        return variable

    outputs = [
        declare("label", Int64TensorType()),
        declare("probabilities", guess_tensor_type(given)),
    ]
    if options["zipmap"] is not False:
        outputs = list(_apply_zipmap(options["zipmap"], scope, model, given, outputs))
    # Outputs of the graph have the order in which they are declared.
    if options["decision"]:
        outputs.append(declare("decision", guess_tensor_type(given)))
    if isinstance(model, RejectingClassifier):
        outputs.append(declare("rejected", BooleanTensorType()))
    return outputs


def _steps_inside(model: Any) -> tuple[list[Any], KernelClassifier]:
    """Transformers that the wrapper's estimator begins with, and the classifier at its end."""
    steps: list[Any] = []
    while not isinstance(model, KernelClassifier):
        if isinstance(model, RejectingClassifier):
            model = model.estimator_
        elif isinstance(model, Pipeline):
            steps += [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
            model = model[-1]
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            raise TypeError(
                f"a RejectingClassifier is exported with a BayesPointClassifier inside, or a "
                f"pipeline that ends in one; this one holds {type(model).__name__}."
            )
    return steps, model


def _set_types(operator: Any) -> None:
    """Set types and shapes of the outputs."""
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    n, model = operator.inputs[0].get_first_dimension(), operator.raw_operator
    classes = _class_values(operator.scope_inst, model)
    kind = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].type = kind([n])
    for output in operator.outputs[1:]:
        per_class = output.raw_name == "probabilities"
        per_class |= output.raw_name == "decision" and len(classes) > 2
        output.type.shape = [n, len(classes)] if per_class else [n]


def _class_values(scope: Any, model: Any) -> Array:
    """Labels as a graph can hold them: int64 or text."""
    classes = model.classes_
    if scope.get_options(model, dict(_DEFAULTS))["nocl"]:
        return np.arange(len(classes))
    return _labels(classes)


def _labels(classes: ArrayLike) -> Array:
    values = np.asarray(classes)
    if values.dtype.kind in "biu" or (
        values.dtype.kind == "f" and np.all(values == np.round(values))
    ):
        return values.astype(np.int64)
    if values.dtype.kind == "U" or all(isinstance(value, str) for value in values.ravel()):
        return values.astype(np.str_)
    raise ValueError(
        f"labels in an ONNX graph are whole numbers or text; the classes are {values.tolist()}. "
        f"Give y as one of these."
    )


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of the operator."""
    from skl2onnx.proto import onnx_proto

    model = operator.raw_operator
    w, options = Writer(scope, container), container.get_options(model, dict(_DEFAULTS))
    X = w.cast(_joined(w, operator.inputs), "DOUBLE")
    classifier = _steps_inside(model)[1]
    if isinstance(classifier, BayesPointClassifier):
        classifier.absorb()  # rows that wait
    predictor = classifier.predictor_
    if isinstance(predictor, CellsPredictor):
        raise ValueError(
            "EP by cells has no ONNX graph: the factors of its cells would take gigabytes. Use "
            "inference='perceptron', or a model file."
        )
    graph = ClassifierGraph(w, predictor, X)
    winners = graph.winners()
    classes = _class_values(scope, model)
    results = {
        "label": w.add("Gather", classes, winners),
        "probabilities": graph.both_sides() if options["raw_scores"] else graph.probabilities(),
        "decision": graph.decision,
    }
    if len(classes) == 2:
        results["decision"] = w.add("Squeeze", graph.decision, np.array([1]))
    if isinstance(model, RejectingClassifier):
        if model.costs is not None:
            raise ValueError(
                "a RejectingClassifier with costs has no ONNX graph; export its estimator_, and "
                "take the decision of least probabilities @ costs_."
            )
        rejected = graph.rejected(model.confidence_, model.threshold_, winners)
        results["rejected"] = rejected
        if not options["nocl"] and _same_kind(model.reject_label, model.classes_):
            instead = _labels(np.array([model.reject_label]))
            results["label"] = w.add("Where", rejected, instead, results["label"])
    for output in operator.outputs:
        value = results[output.raw_name]
        if output.raw_name in ("label", "rejected"):
            w.write("Identity", value, output.full_name)
        else:
            double = type(output.type).__name__ == "DoubleTensorType"
            kind = onnx_proto.TensorProto.DOUBLE if double else onnx_proto.TensorProto.FLOAT
            w.write("Cast", value, output.full_name, to=kind)


def _convert_encoder(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of the encoder."""
    w, names = Writer(scope, container), [value.full_name for value in operator.inputs]
    columns = encoding.graph_columns(operator.raw_operator.encoder.columns_)
    features = encoding.encode(w, columns, names)
    w.write("Identity", features, operator.outputs[0].full_name)


def _joined(w: Writer, inputs: Any) -> str:
    """All features side by side; skl2onnx may hold them in several inputs."""
    names = [value.full_name for value in inputs]
    return names[0] if len(names) == 1 else w.add("Concat", *names, axis=1)


def _same_kind(label: Any, classes: Array) -> bool:
    """Whether `predict` gives the label in an array of the classes' type."""
    return label is not None and np.asarray(label).dtype.kind == classes.dtype.kind
