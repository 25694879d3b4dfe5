"""One table: what is given × where it is given → an answer, or an error that names the argument."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier, VersionSpace
from bayespoint.active import query
from bayespoint.io.encoder import TableEncoder

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [-1.0, -0.5], [-2.0, 1.0], [0.5, -1.0]])
Y = np.array([0, 1, 1, 0, 0, 1])
ANSWER = ""  # in the place of an error


def machine(kind, **settings):
    settings = {"n_draws": 3, "random_state": 0, **FIXED, **settings}
    if kind == "onion":
        return OnionClassifier(depth=1, **{**settings, "n_draws": 100})
    if kind == "rejecting":
        return RejectingClassifier(BayesPointClassifier(inference="ep", **settings))
    return BayesPointClassifier(inference=kind, **settings)


MACHINES = ("perceptron", "billiard", "gibbs", "ep", "onion", "rejecting")


def learn_on(rows, y, weight):
    clf = machine("ep").partial_fit(X, Y)
    return clf.partial_fit(rows, y, sample_weight=weight)


# Everything that takes rows, labels and weights.
FITS = {
    **{kind: lambda r, y, w, kind=kind: machine(kind).fit(r, y, sample_weight=w)
       for kind in MACHINES},
    "partial_fit": lambda r, y, w: machine("ep").partial_fit(r, y, sample_weight=w),
    "partial_fit again": learn_on,
}  # fmt: skip
# Everything that takes rows alone.
ASKED = {
    kind: lambda r, kind=kind: machine(kind).fit(X, Y).predict_proba(r) for kind in MACHINES
} | {"query": lambda r: query(machine("ep").fit(X, Y), r, 1)}


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
    "indices beyond": (broken(10**6), "X is no sound sparse matrix"),
    "indices below 0": (broken(-1), "X is no sound sparse matrix"),
    "dates": (X.astype("M8[s]"), "X must hold numbers; got an array of datetime64"),
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
        r"y contains NaN or None.*2",
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


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    rows, message = ROWS[name]
    for fit in FITS.values():
        holds(lambda fit=fit: fit(rows, Y, None), message)
    for ask in ASKED.values():
        holds(lambda ask=ask: ask(rows), message)


@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    y, message = LABELS[name]
    for fit in FITS.values():
        holds(lambda fit=fit: fit(X, y, None), message)
        if message == ANSWER:
            assert fit(X, y, None).predict(X).dtype.kind == "i"


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name):
    weight, message = WEIGHTS[name]
    for fit in FITS.values():
        holds(lambda fit=fit: fit(X, Y, weight), message)


# ---------------------------------------------------------------------- kernels


def gram(change):
    K = X @ X.T + 1
    return change(K)


GRAMS = {
    "sound": (gram(lambda K: K), ANSWER),
    "rounded": (gram(lambda K: K + 1e-9 * np.triu(K)), ANSWER),
    "opposed": (1.9 * np.eye(6) - 0.9, r"[XK] is not positive semi-definite.*eigenvalue is -3.5"),
    "beyond Cauchy-Schwarz": (gram(lambda K: K + 9 * (K < 0)), "[XK] is not (symm|positive semi)"),
    "below 0": (gram(lambda K: -K), "[XK] is not positive semi-definite"),
    "not symmetric": (gram(lambda K: K + np.triu(K, 1)), "[XK] is not symmetric"),
    "not square": (gram(lambda K: K[:, :4]), "[XK] must be a square Gram matrix"),
    "complex": (gram(lambda K: K + 0j), r"\b[XK]\b.*[Cc]omplex"),
    "small values not symmetric": (
        np.diag([1e6, 1, 1, 1, 1, 1]) + 0.9 * (np.eye(6, k=1) - np.eye(6, k=-1)),
        "[XK] is not symmetric",
    ),
    "masked": (gram(lambda K: masked(K, 2)), "[XK] is a masked array"),
    "NaN": (gram(lambda K: K + np.nan), "[XK] contains NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAMS)
def test_gram_matrices(name):
    K, message = GRAMS[name]
    for kind in MACHINES:
        for bias in (0.0, 1.0):  # which would make some of them inner products
            clf = machine(kind, kernel="precomputed", bias=bias)
            holds(lambda clf=clf: clf.fit(K, Y).predict_proba(K), message)
    for softness in (0.0, 10.0):
        holds(lambda s=softness: VersionSpace(K, 2 * Y - 1, softness=s), message)


FUNCTIONS = {
    "sound": (lambda A, B: A @ B.T + 1, ANSWER),
    "complex": (lambda A, B: A @ B.T + 0j, r"kernel\(X, Y\) must hold real numbers"),
    "masked": (lambda A, B: masked(A @ B.T, 1), r"kernel\(X, Y\) is a masked array"),
    "words": (lambda A, B: (A @ B.T).astype(str), r"kernel\(X, Y\) must hold real numbers"),
    "NaN": (lambda A, B: A @ B.T + np.nan, r"kernel\(X, Y\) contains NaN"),
    "not symmetric": (lambda A, B: A @ B.T + A[:, :1], r"kernel.*(symmetric|semi-definite)"),
    "opposed": (lambda A, B: 1.9 * (A[:, :1] == B[:, 0]) - 0.9, r"kernel\(X, X\) is not positive"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernel_functions(name):
    kernel, message = FUNCTIONS[name]
    for kind in MACHINES:
        clf = machine(kind, kernel=kernel, bias=1.0)
        holds(lambda clf=clf: clf.fit(X, Y).predict_proba(X), message)


# ---------------------------------------------------------------------- scales, answers, tables


@pytest.mark.parametrize("kind", MACHINES)
def test_rows_too_far_apart_for_their_distances(kind):
    for bias, dtype in product((0.0, 1.0), (np.float64, np.float32)):
        with pytest.raises(ValueError, match=r"distances between rows of X.*Scale the features"):
            machine(kind, gamma=0.3, bias=bias).fit((1e30 * X).astype(dtype), Y)
    # A control: the same rows with a width of theirs, and far ones that are asked about.
    clf = machine(kind, gamma=0.3e-60).fit(1e30 * X, Y)
    assert np.all(np.isfinite(clf.predict_proba(1e30 * X)))
    assert np.all(np.isfinite(machine(kind, gamma=0.3).fit(X, Y).predict_proba(1e30 * X)))


def test_predictions_are_never_nan():
    clf = machine("perceptron").fit(X, Y)
    wrong = clf.predictor_.bayes_points * np.nan
    clf.predictor_ = replace(clf.predictor_, bayes_points=wrong)
    for method in ("predict", "predict_proba", "decision_function", "cosines", "predict_log_proba"):
        with pytest.raises(
            ValueError, match=r"has no number for rows \[0, 1, 2, 3, 4\] and 1 more"
        ):
            getattr(clf, method)(X)


def test_what_is_masked_is_missing_in_a_table():
    encoder = TableEncoder().fit(X)
    gaps = np.where(X == 2, np.nan, X)
    found = encoder.transform(np.ma.masked_array(X, X == 2))
    assert np.array_equal(found, encoder.transform(gaps))
    with pytest.raises(ValueError, match="several columns are called 'a'"):
        encoder.fit(pd.DataFrame(X, columns=["a", "a"]))


def test_copies_that_would_have_to_be_made():
    with pytest.raises(ValueError, match=r"sample_weight asks for 6e\+09 copies of rows"):
        machine("onion").fit(X, Y, sample_weight=np.full(6, 1e9))
