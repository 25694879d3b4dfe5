"""Odd rows, labels and weights, each with the answer or the error that it must have everywhere."""

import re

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
