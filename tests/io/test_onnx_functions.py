"""Special functions as exported graphs compute them, against SciPy's."""

import numpy as np
import pytest
from scipy.special import log_ndtr, stdtr

from bayespoint.io.onnx import functions

OPERATORS = {
    "Abs": np.abs, "Add": np.add, "Div": np.divide, "Exp": np.exp, "Greater": np.greater,
    "Log": np.log, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply,
    "Reciprocal": np.reciprocal, "Sqrt": np.sqrt, "Sub": np.subtract, "Where": np.where,
}  # fmt: skip


class Numbers:
    """In the place of a writer: computes instead of adding nodes."""

    def add(self, op, *inputs):
        with np.errstate(divide="ignore"):
            return OPERATORS[op](*inputs)


def test_normal_tails():
    z = np.concatenate([[0.0], np.logspace(-6, 6, 2_001)])
    tail = functions.log_tail(Numbers(), z)
    for found, wanted in (
        (tail, log_ndtr(-z)),
        (functions.log_complement(Numbers(), tail), log_ndtr(z)),
    ):
        assert np.max(np.abs(found - wanted) / np.maximum(1, np.abs(wanted))) < 1e-9


@pytest.mark.parametrize("df", [1, 2, 3, 4, 15, 500, 20_000])
def test_student_tails(df):
    farthest = min(np.sqrt(np.expm1(min(1360 / df, 690))), 1e149)
    u = np.concatenate([[0.0], np.logspace(-8, np.log10(farthest), 4_001)])
    found = np.exp(functions.log_student_tail(Numbers(), u, df))
    wanted = stdtr(df, -np.sqrt(df) * u)
    assert wanted[-1] < 1e-140  # the whole range of the votes
    np.testing.assert_allclose(found, wanted, rtol=1e-8 if df == 1 else 1e-10)
