"""Odd rows, labels and weights, each with the answer or the error that it must have everywhere."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [-1.0, -0.5], [-2.0, 1.0], [0.5, -1.0]])
Y = np.array([0, 1, 1, 0, 0, 1])
ANSWER = ""  # in the place of an error


def masked(values, n):
    mask = np.zeros(np.shape(values), dtype=bool)
    mask.flat[:n] = True
    return np.ma.masked_array(values, mask)


def broken(index):
    rows = sp.csr_matrix(X + 3)
    rows.indices[1] = index
    return rows


def wide():
    return sp.csr_matrix((np.ones(6), (np.arange(6), np.arange(6))), shape=(6, 2**40))


def broken_lists(indices, values):
    rows = sp.lil_array(X)
    rows.rows[0], rows.data[0] = indices, values
    return rows


def broken_diagonals():
    rows = sp.dia_array(X)
    rows.offsets = rows.offsets[:1]
    return rows


class OfArrays:
    """A table of another library, whose ``columns`` are values."""

    def __init__(self, values):
        self.shape, self.columns = values.shape, list(values.T)
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return self._values.astype(dtype or self._values.dtype)


ROWS = {
    "masked": (masked(X, 3), "X is a masked array with 3 masked"),
    "a mask of nothing": (masked(X, 0), ANSWER),
    "one name twice": (pd.DataFrame(X, columns=["a", "a"]), "X has several columns called 'a'"),
    "very wide": (wide(), r"X has 1,099,511,627,776 columns; at most 16,777,216"),
    "indices beyond": (broken(10**6), "X is not a valid sparse matrix"),
    "indices below 0": (broken(-1), "X is not a valid sparse matrix"),
    "dates": (X.astype("M8[s]"), "X must hold numbers; got an array of datetime64"),
    "dates alone": (
        pd.DataFrame(X.astype("M8[s]")), "X must hold numbers; got columns of datetime64"
    ),
    "complex": (X + 1j, r"\bX\b.*[Cc]omplex"),
    "words": (np.full(X.shape, "a"), "X"),
    "a gap": (np.where(X == 2, np.nan, X), "X contains NaN"),
    "infinity": (np.where(X == 2, np.inf, X), "X contains infinity"),
    "too large": ([[10**400, 1]] * 6, "X"),
    "ragged": ([[1.0, 2.0]] * 5 + [[1.0]], "X"),
    "objects": (X.astype(object), ANSWER),
    "big-endian": (X.astype(">f8"), ANSWER),
    "half precision": (X.astype(np.float16), ANSWER),
    "long double": (X.astype(np.longdouble), ANSWER),
    "beyond double": (X * np.longdouble("1e4000"), "X"),
    "decimals": (np.array([[Decimal(str(v)) for v in row] for row in X]), ANSWER),
    "numbers as words": (X.astype(str), ANSWER),
    "nullable": (pd.DataFrame(X).astype("Float64"), ANSWER),
    "nullable, missing": (
        pd.DataFrame(X).astype("Float64").mask(X == 2), "X contains NaN"
    ),
    "backwards": (np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1], ANSWER),
    "read-only": (np.broadcast_to(X, (1, *X.shape))[0], ANSWER),
    "a table of another library": (OfArrays(X), ANSWER),
    "csr_array": (sp.csr_array(X), ANSWER),
    "coo_array": (sp.coo_array(X), ANSWER),
    "dia_array": (sp.dia_array(X), ANSWER),
    "lil_array": (sp.lil_array(X), ANSWER),
    "lists of lists beyond": (broken_lists([7], [1.0]), "X is not a valid sparse matrix"),
    "lists of lists uneven": (broken_lists([0], [1.0] * 99), "X is not a valid sparse matrix"),
    "diagonals uneven": (broken_diagonals(), "X is not a valid sparse matrix"),
    "nothing": (None, "X(_pool)? is None"),
    "no rows": (X[:0], "X"),
    "no columns": (X[:, :0], "X"),
}  # fmt: skip

LABELS = {
    "objects": (Y.astype(object), ANSWER),
    "objects of NumPy": (np.array([np.int8(v) for v in Y], dtype=object), ANSWER),
    "nullable": (pd.array(Y, dtype="Int64"), ANSWER),
    "a label missing": (
        np.array([0, 1, None, 0, 0, 1], dtype=object),
        r"y contains (NaN or )?None",
    ),
    "nullable, missing": (pd.array([0, 1, None, 0, 0, 1], dtype="Int64"), "y contains NaN"),
    "mixed": (np.array([0, 1, "a", 0, 0, 1], dtype=object), r"y must hold labels of one type.*str"),
    "too long": (np.array([0, 10**30, 1, 0, 0, 1], dtype=object), "y must hold labels of one type"),
    "masked": (masked(Y, 1), "y is a masked array with 1 masked"),
    "quantities": (X[:, 0] + 0.25, r"y: Unknown label type"),
    "complex": (Y + 1j, "^y: Complex"),
    "bytes": (Y.astype("S1"), r"^y: .*bytes"),
    "categories": (pd.Categorical(Y), ANSWER),
    "dates": (
        Y.astype("M8[D]"),
        "y must hold labels, texts or numbers; got an array of datetime64",
    ),
    "decimals": (np.array([Decimal(int(v)) for v in Y]), "y must hold labels of one type.*Decimal"),
    "ragged": ([[0]] * 5 + [[0, 1]], "y must hold one label per row"),
}

WEIGHTS = {
    "huge": (np.full(6, 1e308), r"sample_weight must be at most 9.01e\+15.*got 1e\+308"),
    "one huge": (np.array([1, 1, 1, 1, 1, 1e308]), "sample_weight must be at most"),
    "masked": (masked(np.ones(6), 2), "sample_weight is a masked array"),
    "complex": (np.ones(6) + 0j, "sample_weight must hold real numbers"),
    "words": (["1"] * 6, "sample_weight must hold real numbers"),
    "negative": (-np.ones(6), "sample_weight must be finite and >= 0"),
    "NaN": (np.full(6, np.nan), "sample_weight contains NaN"),
    "objects": (np.ones(6).astype(object), ANSWER),
    "nullable": (pd.array(np.ones(6), dtype="Float64"), ANSWER),
    "nullable, missing": (pd.array([1, None] * 3, dtype="Float64"), "sample_weight contains NaN"),
    "decimals": (np.array([Decimal(1)] * 6), ANSWER),
    "beyond double": (np.full(6, np.longdouble("1e4000")), "sample_weight contains NaN or inf"),
    "dates": (np.ones(6).astype("M8[s]"), "sample_weight must hold real numbers"),
    "ragged": ([[1]] * 5 + [[1, 2]], "sample_weight must be an array of numbers"),
    "a table": (np.ones((6, 1)), "sample_weight must hold one weight per row"),
}


def holds(call, message):
    """Whether what happens is as the table says; the error is named where not."""
    if message == ANSWER:
        call()
        return
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def about(name, message):
    """Return the message of labels that are given as another argument than y."""
    return re.sub(r"\by\b", name, message)
