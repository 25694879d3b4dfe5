"""Nodes and constants of an ONNX graph, in double precision unless said otherwise."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayespoint._support.types import Array

# Axes of Unsqueeze and ReduceSum are inputs from here on, and LogSoftmax takes one axis.
LEAST_OPSET = 13
# Axes of the other reductions are inputs from here on.
_REDUCTIONS_TAKE_AXES = 18

# ONNX files are limited to 2 GiB, names and all.
MOST_BYTES = 2**31 - 2**24


class Writer:
    """Adds nodes to the graph that skl2onnx is building.

    Wherever a node takes the name of a value it takes a number or an array, too.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope = scope
        self._container = container
        self._scalars: dict[Any, str] = {}
        self._n_bytes = 0
        self.opset = container.target_opset_any_domain("")
        if self.opset < LEAST_OPSET:
            raise ValueError(
                f"target_opset={self.opset} is too old for a BayesPointClassifier; give "
                f"{LEAST_OPSET} or more."
            )

    def add(self, op: str, *inputs: Any, n_outputs: int = 1, **attributes: Any) -> str:
        """Add a node, and return the name of its (last) output."""
        outputs = [self._scope.get_unique_variable_name(op.lower()) for _ in range(n_outputs)]
        self._container.add_node(
            op, [self._name_of(value) for value in inputs], outputs,
            name=self._scope.get_unique_operator_name(op), **attributes,
        )  # fmt: skip
        return outputs[-1]

    def write(self, op: str, value: Any, output: str, **attributes: Any) -> None:
        """Add a node whose output has a name already."""
        name = self._scope.get_unique_operator_name(op)
        self._container.add_node(op, [self._name_of(value)], [output], name=name, **attributes)

    def reduce(self, op: str, value: Any, axis: int, keepdims: int = 1) -> str:
        """Add a reduction over one axis."""
        if self.opset >= _REDUCTIONS_TAKE_AXES or op == "ReduceSum":
            return self.add(op, value, np.array([axis]), keepdims=keepdims)
        return self.add(op, value, axes=[axis], keepdims=keepdims)

    def cast(self, value: Any, kind: str) -> str:
        """Add a cast to a type, named as in ``onnx.TensorProto``."""
        from onnx import TensorProto

        return self.add("Cast", value, to=getattr(TensorProto, kind))

    def stack(self, values: Sequence[Any], axis: int) -> str:
        """Join values along a new axis."""
        wide = [self.add("Unsqueeze", value, np.array([axis])) for value in values]
        return self.add("Concat", *wide, axis=axis) if len(wide) > 1 else wide[0]

    def _name_of(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        array = np.asarray(value)
        if array.ndim:
            return self._constant(array)
        key = (array.dtype, array.item())
        if key not in self._scalars:
            self._scalars[key] = self._constant(array)
        return self._scalars[key]

    def _constant(self, array: Array) -> str:
        from onnx import TensorProto, numpy_helper

        name = self._scope.get_unique_variable_name("constant")
        if array.dtype.kind in "UO":
            text = [str(value).encode("utf-8") for value in array.ravel()]
            self._container.add_initializer(name, TensorProto.STRING, list(array.shape), text)
            return name
        self._n_bytes += array.nbytes
        if self._n_bytes > MOST_BYTES:
            raise ValueError(
                f"the exported graph would exceed the 2 GiB that an ONNX file may have; "
                f"{self._n_bytes / 2**30:.1f} GiB so far. Train on fewer points, or with "
                f"decision='bayes_point', which needs no matrix of all points."
            )
        tensor = numpy_helper.from_array(np.ascontiguousarray(array))
        self._container.add_initializer(name, tensor.data_type, list(array.shape), tensor)
        return name
