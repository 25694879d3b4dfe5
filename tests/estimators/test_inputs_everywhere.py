"""One table: what is given × where it is given → an answer, or an error that names the argument."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED
from helpers.odd_inputs import ANSWER, LABELS, ROWS, WEIGHTS, X, Y, about, holds, masked
from helpers.samplers import SAMPLERS
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin

import bayespoint
from bayespoint import (
    BayesPointClassifier,
    OnionClassifier,
    PredictionSetClassifier,
    RejectingClassifier,
    VersionSpace,
    aurc,
    evidence,
    inference,
    risk_coverage_curve,
)
from bayespoint.active import query, utilities
from bayespoint.estimators.label_errors import label_errors
from bayespoint.io.encoder import TableEncoder


def machine(kind, **settings):
    settings = {"n_draws": 3, "random_state": 0, **FIXED, **settings}
    if kind == "onion":
        return OnionClassifier(depth=1, **{**settings, "n_draws": 100})
    if kind == "rejecting":
        return RejectingClassifier(BayesPointClassifier(inference="ep", **settings))
    if kind == "sets":
        inner = BayesPointClassifier(inference="ep", **settings)
        return PredictionSetClassifier(inner, confidence_level=0.5)
    return BayesPointClassifier(inference=kind, **settings)


MACHINES = ("perceptron", "billiard", "gibbs", "ep", "onion", "rejecting", "sets")


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
# Everything that takes labels and weights of rows that were learnt.
SCORES = {
    kind: lambda y, w, kind=kind: machine(kind).fit(X, Y).score(X, y, sample_weight=w)
    for kind in MACHINES
}
# Everything that takes rows alone.
ASKED = {
    kind: lambda r, kind=kind: machine(kind).fit(X, Y).predict_proba(r) for kind in MACHINES
} | {"query": lambda r: query(machine("ep").fit(X, Y), r, 1)}


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

    for score in SCORES.values():
        holds(lambda score=score: score(y, None), message)
    for name, call in GIVEN_LABELS.items():
        holds(lambda call=call: call(y), about(name, message))


# Everything else that takes labels, by the name of the argument.
SURE = np.linspace(0.5, 1.0, 6)
GIVEN_LABELS = {
    "classes": lambda y: machine("ep").partial_fit(X, Y, classes=y),
    "y_true": lambda y: risk_coverage_curve(y, Y, SURE),
    "y_pred": lambda y: aurc(Y, y, SURE),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name):
    weight, message = WEIGHTS[name]
    for fit in FITS.values():
        holds(lambda fit=fit: fit(X, Y, weight), message)
    for score in SCORES.values():
        holds(lambda score=score: score(Y, weight), message)
    holds(lambda: aurc(Y, Y, SURE, sample_weight=weight), message)


def test_every_estimator_is_in_the_table():
    fitted = {name for name in bayespoint.__all__ if hasattr(getattr(bayespoint, name), "fit")}
    assert fitted == {type(machine(kind)).__name__ for kind in MACHINES}


def test_weights_that_float64_hardly_tells_apart():
    weight = np.full(6, 2.0**53)
    for kind in MACHINES:
        words = "copies of rows" if kind == "onion" else ANSWER
        fit = FITS[kind]
        holds(lambda fit=fit: fit(X, Y, weight).predict_proba(X), words)


def test_confidences():
    for odd, words in (
        (masked(SURE, 1), "confidence is a masked array"), (SURE + 1j, "confidence must hold real"),
        (SURE * np.nan, "confidence is NaN at row 0"), (["a"] * 6, "confidence must hold real"),
    ):  # fmt: skip
        holds(lambda odd=odd: aurc(Y, Y, odd), words)


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


# What takes a version space.
SAMPLED = [
    *SAMPLERS.values(),
    inference.expectation_propagation,
    lambda space: evidence.log_evidence(space, method="ep"),
]


@pytest.mark.parametrize("name", GRAMS)
def test_gram_matrices(name):
    K, message = GRAMS[name]
    for kind in MACHINES:
        for bias in (0.0, 1.0):  # which would make some of them inner products
            clf = machine(kind, kernel="precomputed", bias=bias)
            holds(lambda clf=clf: clf.fit(K, Y).predict_proba(K), message)
    for softness, sample in product((0.0, 10.0), SAMPLED):
        if softness or message:  # without softness there may be no version space
            holds(lambda s=softness, f=sample: f(VersionSpace(K, 2 * Y - 1, softness=s)), message)


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


@pytest.mark.parametrize(
    ("kind", "gamma"),
    [("ep", "held-out"), ("ep", "evidence"), ("perceptron", "held-out"), ("cells", "held-out")],
)
def test_a_width_that_loses_distances_is_not_chosen(kind, gamma):
    """Sparse rows far from the origin: the width to begin with is kept, narrower ones are lost."""
    rng = np.random.default_rng(0)
    near = rng.normal(size=(60, 2))
    rows, y = sp.csr_matrix(near + 1.7e6), (near[:, 0] > 0).astype(int)
    cells = {"cell_size": 20, "n_landmarks": 0} if kind == "cells" else {}
    settings = {"kernel": "rbf", "softness": 0.1, "bias": 1.0, "n_draws": 10, "random_state": 0}
    clf = BayesPointClassifier(inference="ep" if cells else kind, gamma=gamma, **settings, **cells)
    assert clf.fit(rows, y).score(rows, y) > 0.8
    with pytest.raises(ValueError, match="distances between rows of X are lost"):
        clf.set_params(gamma=4 * clf.gamma_ if np.ndim(clf.gamma_) == 0 else 4.0).fit(rows, y)


def test_predictions_are_never_nan():
    clf = machine("perceptron").fit(X, Y)
    wrong = clf.predictor_.bayes_points * np.nan
    clf.predictor_ = replace(clf.predictor_, bayes_points=wrong)
    for method in ("predict", "predict_proba", "decision_function", "cosines", "predict_log_proba"):
        with pytest.raises(
            ValueError, match=r"has no number for rows \[0, 1, 2, 3, 4\] and 1 more"
        ):
            getattr(clf, method)(X)


class Nowhere(ClassifierMixin, BaseEstimator):
    """A classifier of another library, whose probabilities of some rows are NaN."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        first = np.asarray(X)[:, :1]
        return np.where(first > 1, np.nan, expit(np.column_stack([-first, first])))

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


@pytest.mark.parametrize("kind", [PredictionSetClassifier, RejectingClassifier])
def test_other_classifiers_that_have_no_number(kind):
    below = X[X[:, 0] <= 1]
    calm = {"confidence_level": 0.1} if kind is PredictionSetClassifier else {"coverage": 0.5}
    clf = kind(Nowhere().fit(X, Y), cv="prefit", **calm)
    words = r"Nowhere.predict_proba has no number for rows \[2\] \(counted from 0\) of X"
    with pytest.raises(ValueError, match=words):
        clf.fit(X, Y)
    clf.fit(below, Y[X[:, 0] <= 1])
    decide = clf.predict_set if kind is PredictionSetClassifier else clf.decide
    for method in (decide, clf.predict_proba):
        method(below)  # a control
        with pytest.raises(ValueError, match=words):
            method(X)


def test_what_a_fit_and_a_query_return_is_never_nan():
    clf = machine("ep").fit(X, Y)
    gaps = np.where(np.arange(6)[:, None] == 3, np.nan, clf.held_out_proba_)
    clf.trained_ = replace(clf.trained_, held_out=gaps.astype(np.float32))
    with pytest.raises(ValueError, match=r"held_out_proba_ has no number for rows \[3\]"):
        clf.held_out_proba_  # noqa: B018
    clf = machine("perceptron").fit(X, Y)
    wrong = [draws * np.nan for draws in clf.predictor_.committee]
    clf.predictor_ = replace(clf.predictor_, committee=wrong)
    for ask in (lambda: query(clf, X, 1), lambda: utilities(clf, X)):
        with pytest.raises(ValueError, match=r"has no number for rows"):
            ask()


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


def test_copies_are_counted_before_they_are_made():
    """A row with the weight 36,831 would make a Gram matrix of 11 GB, although X has six rows."""
    K = X @ X.T + 1.0
    weight = np.array([36_831.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    for kernel, rows in (("precomputed", K), ("rbf", X)):
        clf = machine("onion", kernel=kernel)
        words = r"sample_weight asks for 3.68e\+04 copies.*cache_size holds at most 11,0\d\d:"
        with pytest.raises(ValueError, match=words):
            clf.fit(rows, Y, sample_weight=weight)
        clf.set_params(cache_size=0.02).fit(rows, Y, sample_weight=np.full(6, 1.0))
    with pytest.raises(ValueError, match=r"cache_size holds at most 10:"):
        clf.set_params(cache_size=0.034).fit(X, Y, sample_weight=np.full(6, 2.0))


@pytest.mark.filterwarnings("ignore:(overflow|invalid value|divide by zero) encountered")
def test_a_gram_matrix_that_overflows_while_settings_are_chosen():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 2))
    K, y = rows @ rows.T + 1.0, np.array([0, 2, 1, 0, 0, 2, 0, 1, 1, 2])
    K[2, 2] = 1e308
    clf = BayesPointClassifier(kernel="precomputed", normalize_kernel=True, random_state=0)
    with pytest.raises(ValueError, match="the kernel values are not those of inner products, or"):
        clf.fit(K, y)


def test_weights_next_to_nothing_have_label_errors():
    rng = np.random.default_rng(0)
    proba, label = rng.dirichlet(np.ones(3), size=15), rng.integers(3, size=15)
    for weight in (1.0, 1e-300, 5e-324):
        found = label_errors(proba, label, np.full(15, weight), np.zeros(3)).proba
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
