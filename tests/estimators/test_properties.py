"""Any input gives a right answer or one clear error.

Cases come from Hypothesis without randomness, so that the same ones run everywhere. On demand:
``pytest -m slow tests/estimators/test_properties.py`` (2,000 cases).
"""

import re
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from bayespoint import BayesPointClassifier, EmptyVersionSpaceError

QUICK = settings(
    max_examples=20, derandomize=True, deadline=None, database=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip
THOROUGH = settings(QUICK, max_examples=2000)

# What an error may name: an argument of ours, or what scikit-learn calls it.
ARGUMENTS = re.compile(
    r"\b(X|y|kernel|gamma|degree|coef0|bias|softness|sample_weight|class_weight|n_draws|"
    r"cache_size|features?|[Ll]abels?|class(es)?|array|rows|samples|training points)\b"
)

KERNELS = {
    "linear": linear_kernel, "poly": polynomial_kernel,
    "rbf": rbf_kernel, "laplacian": laplacian_kernel,
}  # fmt: skip
DTYPES = [np.float64, np.float32, np.int8, np.int64, np.bool_, np.uint8, np.float16, object]
SCALES = [1.0] * 12 + [1e-3, 30.0, 1e6, 1e-30, 1e30, 1e160, 1e-160, 1e300]  # mostly ordinary
LABELS = [
    np.arange(4), np.array(["a", "bb", "c", "é"]), np.array([-1.0, 0.0, 2.0, 1e9]),
    np.array([False, True]), np.array(["x", "yes", "no", ""], dtype=object),
    np.array([-(2**62), -3, 2**62, 5]), np.array([3, 1, 2], dtype=np.uint8),
]  # fmt: skip


class Case(NamedTuple):
    X: object
    y: object
    weight: object
    settings: dict
    layout: str


def in_layout(X, layout):
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        return np.repeat(X, 2, axis=-1)[..., ::2]
    if layout == "read-only":
        X = np.array(X)
        X.flags.writeable = False
        return X
    if layout == "list":
        return X.tolist()
    if layout in ("csr", "csc", "coo"):
        return sp.coo_matrix(X.astype(float) if X.dtype in (object, np.float16) else X).asformat(
            layout
        )
    return X


@st.composite
def data(draw):
    """Rows with duplicates, zeros and constant columns, at some scale, as some dtype."""
    n = draw(st.integers(2, 40))
    d = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = np.round(2 * X)  # duplicates and ties
    if draw(st.integers(0, 3)) == 0:
        X[:, draw(st.integers(0, d - 1))] = draw(st.sampled_from([0.0, 1.0, -7.0]))
    if draw(st.integers(0, 3)) == 0:
        X *= rng.random(X.shape) < 0.3
    X = X * draw(st.sampled_from(SCALES))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    if dtype.kind in "fiu":
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        largest = float(limits.max) / 1e4 if dtype.kind == "f" else min(float(limits.max), 2.0**62)
        X = np.clip(X, max(float(limits.min), -largest), largest)
    X = X.astype(dtype)
    names = draw(st.sampled_from(LABELS))
    n_classes = draw(st.integers(2, len(names)))
    code = rng.integers(n_classes, size=n)
    if draw(st.integers(0, 3)):  # labels that follow the rows
        values = max(X.astype(float).T, key=lambda column: len(np.unique(column)))
        distinct = np.unique(values)
        cuts = distinct[np.arange(1, n_classes) * len(distinct) // n_classes]
        code = np.searchsorted(cuts, values, side="right")
    return X, names[code]


FIXED = {
    "inference": ["perceptron"], "gamma": ["scale", "scale", 0.5, 1e-3, 20.0],
    "bias": [0.0, 1.0, 10.0], "softness": [0.0, 0.0, 1e-3, 0.1, 2.0],
}  # fmt: skip
# What is settled from the data, as by default, or some of it.
SETTLED = {
    "inference": ["auto"], "gamma": ["held-out", "held-out", "evidence", "scale", 0.5, 20.0],
    "bias": ["auto", "auto", "evidence", 0.0, 10.0],
    "softness": ["held-out", "held-out", "evidence", 0.0, 1e-3, 2.0],
}  # fmt: skip


@st.composite
def cases(draw, choices):
    X, y = draw(data())
    weight = draw(st.none() | st.just("whole") | st.just("real"))
    rng = np.random.default_rng(len(y))
    if weight is not None:
        weight = rng.integers(0, 4, size=len(y)) if weight == "whole" else rng.random(len(y))
    parameters = {
        "kernel": draw(st.sampled_from([*KERNELS, "callable", "precomputed"])),
        **{name: draw(st.sampled_from(values)) for name, values in choices.items()},
        "degree": draw(st.sampled_from([1, 2, 3, 5])),
        "coef0": draw(st.sampled_from([0.0, 1.0])),
        "normalize_kernel": draw(st.booleans()),
        "decision": draw(st.sampled_from(["auto", "vote"])),
        "class_weight": draw(st.sampled_from([None, None, "balanced"])),
        "n_draws": draw(st.integers(1, 4)),
        "cache_size": draw(st.sampled_from([0.05, 2000])),
        "n_jobs": draw(st.sampled_from([None, 2])),
        "random_state": 0,
    }
    layouts = ["C", "F", "strided", "read-only", "list", "csr", "csc", "coo"]
    layout = draw(st.sampled_from(layouts))
    if draw(st.integers(0, 7)) == 0:
        X, y, weight = draw(spoiled(X, y, weight))
    return Case(X, y, weight, parameters, layout)


@st.composite
def spoiled(draw, X, y, weight):
    """One thing wrong with the input."""
    what = draw(st.sampled_from(["nan", "inf", "one class", "short y", "flat", "weight", "huge"]))
    if what in ("nan", "inf", "huge"):
        X = X.astype(float)
        X[draw(st.integers(0, len(X) - 1)), 0] = {"nan": np.nan, "inf": -np.inf}.get(what, 1e308)
    elif what == "one class":
        y = np.repeat(y[:1], len(y))
    elif what == "short y":
        y = y[1:]
    elif what == "flat":
        X = X[:, 0]
    else:
        weight = np.full(len(y), draw(st.sampled_from([-1.0, np.nan, 0.0])))
    return X, y, weight


def inner_product(A, B):
    A, B = (part.toarray() if sp.issparse(part) else part for part in (A, B))
    with np.errstate(all="ignore"):
        return np.asarray(A, dtype=np.float64) @ np.asarray(B, dtype=np.float64).T


def check_error(error, case):
    assert ARGUMENTS.search(str(error)), error
    if isinstance(error, EmptyVersionSpaceError):
        assert case.settings["softness"] == 0
        assert set(error.points) <= set(range(len(case.y)))


def fit(case):
    """Fitted classifier and the input it predicts from, or None after a clear error."""
    parameters = dict(case.settings)
    X = case.X
    if parameters["kernel"] == "precomputed":
        with np.errstate(all="ignore"):
            X = np.asarray(X, dtype=np.float64)
            X = np.clip(np.nan_to_num(X @ X.T), -1e300, 1e300)
    if parameters["kernel"] == "callable":
        parameters["kernel"] = inner_product
    X = in_layout(X, case.layout)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "features are on very different scales")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        try:
            clf = BayesPointClassifier(**parameters).fit(X, case.y, sample_weight=case.weight)
        except (ValueError, TypeError) as error:
            check_error(error, case)
            return None
    return clf, X


def bayes_point_decides(clf):
    return clf.decision == "auto" and clf.inference_ == "perceptron"


def check_answers(clf, X):
    outputs, p, predicted = clf.decision_function(X), clf.predict_proba(X), clf.predict(X)
    assert np.all(np.isfinite(outputs))
    assert np.all(np.isfinite(p))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
    best = (outputs > 0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)
    np.testing.assert_array_equal(predicted, clf.classes_[best])
    best_p = np.take_along_axis(p, best[:, None], axis=1)[:, 0]
    assert np.all(best_p >= p.max(axis=1))
    assert np.all(np.isfinite(clf.dual_coef_))
    if bayes_point_decides(clf) and clf.kernel != "precomputed":
        assert np.max(np.abs(clf.cosines(X))) <= 1 + 1e-4


def check_other_layout(clf, X):
    """The same points as a dense or a sparse array get the same answers."""
    dense = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    other = dense if sp.issparse(X) else sp.csr_matrix(dense)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(clf.predict_proba(other), p, atol=1e-3)


def gram(clf, X):
    """Kernel of the rows in float64, with bias; its scale does not matter for signs."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    if clf.kernel == "precomputed":
        K = X
    elif callable(clf.kernel):
        K = X @ X.T
    elif clf.kernel == "linear":
        K = linear_kernel(X)
    elif clf.kernel == "poly":
        K = polynomial_kernel(X, None, clf.degree, clf.gamma_, clf.coef0)
    else:
        K = KERNELS[clf.kernel](X, None, clf.gamma_)
    K = K + clf.bias_
    length = np.sqrt(K.diagonal())
    length[length == 0] = 1.0  # rows of weight 0 may lie at the origin
    return K / np.outer(length, length) if clf.normalize_kernel else K


def check_training_labels(clf, X, case):
    """At softness 0 every draw that converged gives every row of positive weight its label."""
    kept = np.ones(len(case.y), dtype=bool) if case.weight is None else case.weight > 0
    machines = clf.classes_[1:] if len(clf.classes_) == 2 else clf.classes_
    K = gram(clf, X)
    for machine, name in enumerate(machines):
        outputs = clf.posterior(machine).coef @ K
        target = np.where(case.y == name, 1, -1)
        size = np.abs(outputs).max(axis=1, keepdims=True)
        # Where a margin is within rounding of zero, either side of it is right.
        assert np.all((target * outputs > -1e-5 * size)[:, kept])


def check(case):
    fitted = fit(case)
    if fitted is None:
        return
    clf, X = fitted
    try:
        check_answers(clf, X)
    except ValueError as error:  # rows that fitting left out may be beyond prediction
        if case.weight is None or np.all(case.weight > 0):
            raise
        check_error(error, case)
        return
    if clf.kernel != "precomputed" and (clf.softness_ > 0 or bayes_point_decides(clf)):
        check_other_layout(clf, X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = BayesPointClassifier(**{**clf.get_params(), "n_jobs": 1, "cache_size": 1000})
        again.set_params(inference=clf.inference_)  # with more memory "auto" may take another
        again.fit(X, case.y, sample_weight=case.weight)
    np.testing.assert_array_equal(clf.dual_coef_, again.dual_coef_)
    converged = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
    if clf.softness_ == 0 and converged and clf.inference_ == "perceptron":
        check_training_labels(clf, X, case)


@QUICK
@given(cases(FIXED))
def test_right_answer_or_clear_error(case):
    check(case)


@QUICK
@given(cases(SETTLED))
def test_right_answer_or_clear_error_with_settings_from_the_data(case):
    check(case)


@pytest.mark.slow
@THOROUGH
@given(cases(FIXED) | cases(SETTLED))
def test_right_answer_or_clear_error_thoroughly(case):
    check(case)
