"""Kernels and outputs of machines as nodes of a graph, as `space.kernels` computes them."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.predictors import SupportPoints
from bayespoint.io.onnx.writer import Writer

# Sparse training points are stored dense, up to this many bytes.
DENSE_BYTES = 2**30


class Machines:
    """Outputs of machines at the rows of X, as `SupportPoints.outputs` has them."""

    def __init__(self, w: Writer, support: SupportPoints, X: str) -> None:
        if callable(support.kernel.name):
            raise ValueError(
                "kernel is a callable, whose Python code no ONNX graph can hold; use one of the "
                "kernels with a name to export."
            )
        self._w, self._kernel, points = w, support.kernel, support.points
        scale = np.ones(len(points.length)) if points.scale is None else points.scale
        self._scale = scale.astype(np.float64)
        self._points: Any = None
        self._row_scale: str | None = None
        self._values: str | None = None  # of the kernel, where weights are not enough
        self._X = X
        if support.columns is not None and support.diagonal is not None:
            self._values = w.add("Gather", X, support.columns.astype(np.int64), axis=1)
            self._constant_scale(support.diagonal)
        else:
            self._points = _dense_points(points.X)
            if self._kernel.center is not None:
                self._X = w.add("Sub", X, self._kernel.center.astype(np.float64))
            if self._kernel.column_scale is not None:
                self._X = w.add("Mul", self._X, self._kernel.column_scale.astype(np.float64))
            self._values = getattr(self, f"_{self._kernel.name}")()
        if self._values is not None and self._kernel.bias:
            self._values = w.add("Add", self._values, float(self._kernel.bias))

    def outputs(self, coef: Array) -> str:
        """Outputs of machines, rows of ``coef`` over the support points: (n, n_machines)."""
        w, columns = self._w, (np.asarray(coef, dtype=np.float64) * self._scale).T
        if self._values is not None:
            outputs = w.add("MatMul", self._values, columns)
        else:  # linear: a weight for each feature is enough
            outputs = w.add("MatMul", self._X, self._points.T @ columns)
            outputs = w.add("Add", outputs, self._kernel.bias * columns.sum(axis=0))
        return outputs if self._row_scale is None else w.add("Mul", outputs, self._row_scale)

    def _linear(self) -> None:
        self._scale_rows(self._squared_norm())

    def _poly(self) -> str:
        w, kernel = self._w, self._kernel

        def power(products: str) -> str:
            base = w.add("Add", w.add("Mul", products, float(kernel.gamma)), float(kernel.coef0))
            return w.add("Pow", base, float(kernel.degree)) if kernel.degree != 1 else base

        self._scale_rows(power(self._squared_norm()))
        return power(w.add("MatMul", self._X, self._points.T))

    def _rbf(self) -> str:
        w, squared = self._w, np.sum(self._points**2, axis=1)
        products = w.add("MatMul", self._X, -2 * self._points.T)
        distance = w.add("Add", w.add("Add", products, self._squared_norm()), squared)
        distance = w.add("Max", distance, 0.0)
        self._constant_scale(1.0)
        return w.add("Exp", w.add("Mul", distance, -float(self._kernel.width)))

    def _laplacian(self) -> str:
        w = self._w
        # One training point at a time: all differences at once would be too many.
        distance = w.add(
            "Scan", self._X, self._points, body=_distance_step(w.opset, self._points.shape[1]),
            num_scan_inputs=1, n_outputs=2,
        )  # fmt: skip
        self._constant_scale(1.0)
        gamma = -float(self._kernel.width)
        return w.add("Exp", w.add("Mul", w.add("Transpose", distance, perm=[1, 0]), gamma))

    def _squared_norm(self) -> str:
        squares = self._w.add("Mul", self._X, self._X)
        return self._w.reduce("ReduceSum", squares, 1)

    def _constant_scale(self, diagonal: float) -> None:
        length = np.sqrt(diagonal + self._kernel.bias)
        self._scale = self._scale / length if length > 0 else self._scale * 0.0

    def _scale_rows(self, diagonal: str) -> None:
        w = self._w
        diagonal = w.add("Add", diagonal, float(self._kernel.bias))
        scale = w.add("Reciprocal", w.add("Sqrt", diagonal))
        # Points at the origin of feature space have no direction: their outputs are zero.
        self._row_scale = w.add("Where", w.add("Equal", diagonal, 0.0), 0.0, scale)


def _dense_points(X: Matrix) -> Array:
    if sp.issparse(X):
        n_bytes = X.shape[0] * X.shape[1] * 8
        if n_bytes > DENSE_BYTES:
            raise ValueError(
                f"the graph holds training points as a dense array, which for {X.shape[0]} sparse "
                f"points of {X.shape[1]} features takes {n_bytes / 2**30:.1f} GiB, more than "
                f"{DENSE_BYTES / 2**30:.0f}. Use fewer features or points: for "
                f"decision='bayes_point' compress() drops points."
            )
        X = X.toarray()
    return np.asarray(X, dtype=np.float64)


def _distance_step(opset: int, n_features: int) -> Any:
    """Body of the loop: distances of one training point from all rows."""
    from onnx import TensorProto, helper, numpy_helper

    def value(name: str, shape: list) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

    nodes = [
        helper.make_node("Sub", ["rows", "point"], ["difference"]),
        helper.make_node("Abs", ["difference"], ["absolute"]),
        helper.make_node("ReduceSum", ["absolute", "last"], ["distance"], keepdims=0),
        helper.make_node("Identity", ["rows"], ["rows_out"]),
    ]
    last = numpy_helper.from_array(np.array([1]), "last")
    inputs = [value("rows", [None, n_features]), value("point", [n_features])]
    outputs = [value("rows_out", [None, n_features]), value("distance", [None])]
    return helper.make_graph(nodes, f"distances_{opset}", inputs, outputs, [last])
