"""A `TableEncoder` as nodes of a graph: one input for each column of the table."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bayespoint.io.encoder import Category, Column, Date, TableEncoder
from bayespoint.io.encoder.columns import FARTHEST, Number
from bayespoint.io.onnx.writer import Writer

# Names of outputs: a column with such a name is the input "column_<name>".
TAKEN = ("label", "probabilities", "decision", "rejected")


class Encoded(BaseEstimator):
    """An encoder and the classifier of what it makes, in one object that skl2onnx can take."""

    def __init__(self, encoder: TableEncoder, classifier: Any) -> None:
        self.encoder = encoder
        self.classifier = classifier


def graph_columns(columns: Sequence[Column]) -> list[Number | Category]:
    """Columns that a graph takes: of dates the numbers that are made of them, not scaled."""
    found: list[Number | Category] = []
    for column in columns:
        found += column.numbers if isinstance(column, Date) else [column]
    return found


def initial_types(encoder: TableEncoder, n_features: int) -> list[tuple[str, Any]]:
    """Inputs of the graph: float32 or text of shape (n, 1), named after the columns.

    skl2onnx makes identifiers of the names, as the standard asks for.
    """
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    if len(encoder.feature_names_) != n_features:
        raise ValueError(
            f"encoder makes {len(encoder.feature_names_)} features, but the classifier was fitted "
            f"with {n_features}; give the encoder of its training data."
        )
    types = []
    for column in graph_columns(encoder.columns_):
        kind = FloatTensorType if isinstance(column, Number) else StringTensorType
        name = f"column_{column.name}" if column.name in TAKEN else column.name
        types.append((name, kind([None, 1])))
    return types


def parse(scope: Any, model: Encoded, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the encoder's operator, then the classifier behind it."""
    from skl2onnx._parse import _get_sklearn_operator_name, _parse_sklearn
    from skl2onnx.common.data_types import DoubleTensorType

    operator = scope.declare_local_operator(_get_sklearn_operator_name(Encoded), model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("encoded", DoubleTensorType()))
    return _parse_sklearn(
        scope, model.classifier, list(operator.outputs), custom_parsers=custom_parsers
    )


def set_types(operator: Any) -> None:
    """Set the shape of the encoded features."""
    n = operator.inputs[0].get_first_dimension()
    n_features = len(operator.raw_operator.encoder.feature_names_)
    operator.outputs[0].type.shape = [n, n_features]


def encode(w: Writer, columns: Sequence[Any], names: Sequence[str]) -> str:
    """Add the nodes that make features, (n, n_features), of columns, (n, 1) each."""
    parts = []
    pairs = zip(columns, names, strict=True)
    for together, run in groupby(pairs, lambda pair: _is_plain(pair[0])):
        held = list(run)
        if together:
            parts.append(_standardised(w, *zip(*held, strict=True)))
            continue
        for column, name in held:
            number = isinstance(column, Number)
            made = _standardised(w, [column], [name]) if number else _one_hot(w, column, name)
            parts.append(made)
    return w.add("Concat", *parts, axis=1)


def _is_plain(column: Any) -> bool:
    """Whether a column is numbers that are scaled as they are, many at once."""
    return isinstance(column, Number) and not column.knots


def _standardised(w: Writer, columns: Sequence[Any], names: Sequence[str]) -> str:
    median, mean, scale = (np.array([column[i] for column in columns]) for i in (1, 2, 3))
    values = w.cast(w.add("Concat", *names, axis=1), "DOUBLE")
    values = w.add("Where", w.add("IsNaN", values), median, values)
    if columns[0].knots:
        values = _placed(w, values, columns[0])
    values = w.add("Div", w.add("Sub", values, mean), scale)
    return w.add("Max", w.add("Min", values, FARTHEST), -FARTHEST)


def _placed(w: Writer, values: str, column: Number) -> str:
    """Add up the parts of all steps from knot to knot that lie before a number, and the rest.

    In halves, as in `encoder.tails`.
    """
    knots, places = np.array(column.knots) / 2, np.array(column.places)
    x = w.add("Mul", values, 0.5)
    inside = w.add("Min", w.add("Max", x, knots[0]), knots[-1])
    parts = w.add("Div", w.add("Sub", inside, knots[:-1]), np.diff(knots))  # (n, n_steps)
    parts = w.add("Min", w.add("Max", parts, 0.0), 1.0)
    steps = w.add("MatMul", parts, np.diff(places)[:, None])
    beyond = w.add("Div", w.add("Sub", x, inside), knots[-1] - knots[0])
    beyond = w.add("Mul", beyond, places[-1] - places[0])
    return w.add("Add", w.add("Add", steps, beyond), places[0])


def _one_hot(w: Writer, column: Any, name: str) -> str:
    """Give 1 to the value that is there; all 0 for other values, as for missing ones."""
    found = w.add(
        "OneHotEncoder", name, op_domain="ai.onnx.ml", op_version=1, zeros=1,
        cats_strings=[value.encode("utf-8") for value in column.values],
    )  # fmt: skip
    return w.cast(w.add("Reshape", found, np.array([-1, len(column.values)])), "DOUBLE")
