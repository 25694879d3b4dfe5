"""Odd arrays given to every estimator: a right answer, or one clear error from our own code.

    python benchmarks/fuzz_inputs.py [--arrays 5000] [--first 0] [--jobs 2] [--interrupts 0]
        [--inferences perceptron ...]

- arrays: X of odd types, layouts, scales and values, with odd y and weights, as rows and as a Gram
  matrix, for each of five inferences (`OnionClassifier` is the fifth). An answer is right when
  probabilities are finite, rows sum to 1 and `predict` is the argmax; an error when it is a
  ValueError or a TypeError from a `raise` of bayespoint that names an argument. Each has 20 s of
  the processor and 2 GB. A line on stderr after every 25 says what became of them, and which took
  longest: a run may be cut off at any time.
- interrupts: Ctrl-C at so many random moments of a fit by each inference, and once more in every
  other. The model is as before or usable, no thread is left, and the second Ctrl-C ends at once.

The number of each failure is printed: ``--first NUMBER --arrays 1`` runs it again. The exit status
is 1 if there were any.
"""

# ruff: noqa: ARG005 - functions of a table share their arguments
import argparse
import ast
import re
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import make_classification

import bayespoint
from bayespoint import BayesPointClassifier, OnionClassifier

SECONDS, BYTES = 20, 2 * 10**9
PART = 25  # arrays that a process runs before it tells what became of them
INFERENCES = ("perceptron", "billiard", "gibbs", "ep", "onion")
# Seconds of the processor, of two threads, that a second Ctrl-C may take; compiled loops come back
# every 0.1 s. Seconds until threads that it left in such a loop must have ended.
AT_ONCE, THREADS_END = 1.0, 20.0
ROUNDING = 1e-6  # of sums over classes; float32 answers, too
PACKAGE = str(Path(bayespoint.__file__).parent)
# What an error must name: an argument of fit, or a parameter.
NAMED = re.compile(
    r"\b(X|y|sample_weight|kernel|gamma|bias|softness|normalize_kernel|degree|coef0|n_draws)\b"
)


# ---------------------------------------------------------------------- odd things


def strided(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def masked(X, n):
    mask = np.zeros(X.shape, dtype=bool)
    mask.flat[:n] = True
    return np.ma.masked_array(X, mask)


def doubled(X):
    """CSR that holds each entry twice, by halves, in falling order."""
    rows, columns = np.nonzero(X)
    X = sp.csr_matrix((X[rows, columns] / 2, (rows, columns)), X.shape)
    indices = np.concatenate([np.tile(X.indices[a:b], 2)[::-1] for a, b in ends(X)] or [[]])
    data = np.concatenate([np.tile(X.data[a:b], 2)[::-1] for a, b in ends(X)] or [[]])
    return sp.csr_matrix((data, indices.astype(int), 2 * X.indptr), X.shape)


def ends(X):
    return zip(X.indptr[:-1], X.indptr[1:], strict=True)


def broken(X, change):
    X = sp.csr_matrix(np.where(X == 0, 1.0, X))
    change(X)
    return X


def wide(X, n):
    rows, columns = np.nonzero(X)
    return sp.csr_matrix((X[rows, columns], (rows, columns * (n // 32))), (len(X), n))


def beyond(X):
    X.indices[0] = 10**6


def negative(X):
    X.indices[0] = -1


def backwards(X):
    X.indptr[1] = X.nnz + 5


def as_objects(X, value):
    X = X.astype(object)
    X.flat[0] = value
    return X


LAYOUTS = [
    lambda X: X, np.asfortranarray, strided, read_only, lambda X: X[::-1][::-1],
    lambda X: X.tolist(), lambda X: X.astype(object), lambda X: X.astype(np.float32),
    lambda X: X.astype(np.float16), lambda X: X.astype(np.longdouble), lambda X: X.astype(">f8"),
    lambda X: np.clip(X, -9, 9).astype(np.int8), lambda X: np.clip(X, 0, 9).astype(np.uint64),
    lambda X: X > 0, lambda X: X + 0j, lambda X: X + 1j, lambda X: X.astype(str),
    lambda X: X.astype("S9"), lambda X: np.clip(X, 0, 9).astype("M8[s]"), lambda X: X[:, 0],
    lambda X: X[None], lambda X: X[:0], lambda X: X[:, :0], lambda X: pd.DataFrame(X),
    lambda X: pd.DataFrame(X, columns=["a"] * X.shape[1]), lambda X: pd.DataFrame(X).astype(object),
    lambda X: masked(X, 0), lambda X: masked(X, 1), lambda X: masked(X, X.size), np.matrix,
    lambda X: X.astype([("a", "f8")]), lambda X: as_objects(X, None), lambda X: as_objects(X, "a"),
    lambda X: as_objects(X, 10**400), lambda X: as_objects(X, [1.0]),
    lambda X: [*X.tolist()[:-1], []],
    sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix, sp.dok_array, doubled,
    lambda X: sp.csr_matrix(X.astype(np.float32)), lambda X: broken(X, beyond),
    lambda X: broken(X, negative), lambda X: broken(X, backwards), lambda X: wide(X, 2**24),
    lambda X: wide(X, 2**40), lambda X: sp.csr_matrix(X + 1j), lambda X: sp.csr_matrix(X.shape),
    lambda X: None, lambda X: 3.0, lambda X: "rows",
]  # fmt: skip

SCALES = [1.0, 1e-320, 1e-300, 1e-160, 1e-30, 1e-5, 1e3, 1e5, 1e8, 1e15, 1e30, 1e154, 1e300]


def entry(value):
    def change(X, rng):
        X[rng.integers(len(X)), rng.integers(X.shape[1])] = value
        return X

    return change


def constant(X, rng):  # noqa: ARG001
    return np.full_like(X, 0.7)


def zero_row(X, rng):
    X[rng.integers(len(X))] = 0.0
    return X


def uneven(X, rng):
    return X * 10.0 ** rng.uniform(-12, 12, size=X.shape[1])


def copies(X, rng):
    return X[rng.integers(max(len(X) // 3, 1), size=len(X))]


VALUES = [
    lambda X, rng: X, entry(np.nan), entry(np.inf), entry(-np.inf), entry(1e308),
    entry(-1e308), entry(5e-324), entry(1e40), entry(-0.0), constant, zero_row, uneven, copies,
]  # fmt: skip


def with_label(y, value):
    y = y.astype(object)
    y[0] = value
    return y


LABELS = [
    lambda y: y, lambda y: np.array(["no", "yes", "?"])[y], lambda y: y == 0,
    lambda y: y.astype(float), lambda y: y.astype(object), lambda y: y.astype(str).astype(object),
    lambda y: -5 * y, lambda y: y.astype(np.uint8), lambda y: y.tolist(), pd.Series, pd.Categorical,
    lambda y: pd.array(y, dtype="Int64"), lambda y: with_label(y, None),
    lambda y: with_label(y, "a"), lambda y: with_label(y, 10**30), lambda y: with_label(y, np.nan),
    lambda y: with_label(y, pd.NA), lambda y: 0 * y, lambda y: y.astype("S1"), lambda y: y + 1j,
    lambda y: y * 1e308, lambda y: y + 0.5 * (np.arange(len(y)) == 0), lambda y: masked(y, 0),
    lambda y: masked(y, 2), lambda y: y[:, None], lambda y: np.column_stack([y, y]),
    lambda y: y[:-1], lambda y: None, lambda y: y.astype("M8[D]"), lambda y: sp.csr_matrix(y),
    lambda y: y.astype(float) + np.nan, lambda y: [[1]] * len(y), lambda y: np.arange(len(y)),
]  # fmt: skip

WEIGHTS = [
    lambda n, rng: None, lambda n, rng: np.ones(n), lambda n, rng: rng.integers(3, size=n),
    lambda n, rng: rng.random(n), lambda n, rng: np.full(n, 1e308), lambda n, rng: np.full(n, 1e15),
    lambda n, rng: np.full(n, 1e-300), lambda n, rng: np.full(n, 5e-324),
    lambda n, rng: 10.0 ** rng.uniform(-300, 15, size=n), lambda n, rng: np.full(n, np.nan),
    lambda n, rng: -np.ones(n), lambda n, rng: np.zeros(n), lambda n, rng: np.ones(n + 1),
    lambda n, rng: masked(np.ones(n), 1), lambda n, rng: np.ones(n) + 1j, lambda n, rng: ["1"] * n,
    lambda n, rng: np.ones(n).astype(object), lambda n, rng: 2.0, lambda n, rng: np.ones((n, 1)),
]  # fmt: skip


def products(A, B):
    found = A @ B.T
    return found.toarray() if sp.issparse(found) else found


def crooked(A, B):
    return products(A, B) + np.arange(A.shape[0])[:, None]


KERNELS = [
    "rbf", "linear", "poly", "laplacian", lambda A, B: products(A, B) + 1,
    lambda A, B: products(A, B) * 1j, crooked, lambda A, B: -np.abs(products(A, B)),
    lambda A, B: np.tanh(products(A, B) - 1), lambda A, B: np.ma.masked_greater(products(A, B), 0),
    lambda A, B: products(A, B).astype(str), lambda A, B: products(A, B) * np.nan,
]  # fmt: skip


def all_ones(K, rng):  # noqa: ARG001
    return np.ones_like(K)


def opposed(K, rng):  # noqa: ARG001
    return 1.9 * np.eye(len(K)) - 0.9


def lopsided(K, rng):
    return K + np.triu(rng.random(K.shape))


GRAMS = [
    lambda K, rng: K, all_ones, opposed, lopsided, lambda K, rng: -K, lambda K, rng: K[:, :-1],
    lambda K, rng: 0 * K, lambda K, rng: K + 1e-9 * rng.random(K.shape),
]  # fmt: skip


CHOICES = (LAYOUTS, SCALES, VALUES, LABELS, WEIGHTS, KERNELS, GRAMS)


def given(seed, number, precomputed):
    """Arguments of fit, and the settings, of a number: one to three things are odd."""
    rng = np.random.default_rng([seed, number])
    odd = rng.choice(len(CHOICES), rng.integers(1, 4), replace=False)
    layout, scale, value, label, weight, kernel, gram = (
        choices[rng.integers(len(choices)) if i in odd else 0] for i, choices in enumerate(CHOICES)
    )
    n, d = rng.integers(6, 20), rng.integers(1, 5)
    X, n_classes = rng.normal(size=(n, d)), rng.integers(2, 4)
    y = np.argsort(np.argsort(X[:, 0])) * n_classes // n
    settings = {
        "kernel": "precomputed" if precomputed else kernel,
        "gamma": (0.3, 0.3, 1e-3, 10.0, "scale")[rng.integers(5)],
        "softness": (0.1, 0.1, 0.0)[rng.integers(3)], "bias": (1.0, 0.0)[rng.integers(2)],
        "normalize_kernel": bool(rng.integers(4)), "n_draws": 4, "random_state": 0,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        X = value(scale * (gram(X @ X.T + 1, rng) if precomputed else X), rng)
        return layout(X), label(y), weight(n, rng), settings


# ---------------------------------------------------------------------- what becomes of them


def check_answer(clf, X):
    """Fail unless probabilities are some, and agree with what is predicted."""
    proba = clf.predict_proba(X)
    assert np.all(np.isfinite(proba)), "probabilities are not finite"
    assert proba.min() >= 0, "a probability is below 0"
    assert np.abs(proba.sum(axis=1) - 1).max() < ROUNDING, "probabilities do not sum to 1"
    assert np.array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(X)), "not the argmax"


def fate(inference, X, y, weight, settings):
    """Whether a fit gives a "right answer" or is "refused"; anything else is an AssertionError."""
    if inference == "onion":
        settings = {**settings, "n_draws": 64}
        clf = OnionClassifier(depth=2, **settings)
    else:
        clf = BayesPointClassifier(inference=inference, **settings)
    try:
        check_answer(clf.fit(X, y, sample_weight=weight), X)
    except (ValueError, TypeError) as error:
        check_error(error)
        return "refused"
    return "right answer"


def check_error(error):
    """Fail unless the error comes from a `raise` of ours and names an argument."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
    ours = place.filename.startswith(PACKAGE) and place.lineno in raising_lines(place.filename)
    assert ours, f"not raised by bayespoint: {said}"
    assert NAMED.search(str(error)), f"names no argument: {said}"


@cache
def raising_lines(filename):
    """Lines of a file that belong to a `raise` statement."""
    tree = ast.parse(Path(filename).read_text())
    raising = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return {line for node in raising for line in range(node.lineno, node.end_lineno + 1)}


def too_long(*_):
    raise AssertionError(f"more than {SECONDS} s of the processor")


def begin_peak():
    """Count the peak of this process's memory from here on (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak():
    """Largest memory of this process since `begin_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def run_one(seed, number, inference, precomputed):
    """What became of one array, or what went wrong, and how much time and memory it took."""
    X, y, weight, settings = given(seed, number, precomputed)
    begin_peak()
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fate(inference, X, y, weight, settings)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if peak() > BYTES:
        found = f"{peak() / 1e9:.1f} GB"
    return found, time.process_time() - begun


def run_part(seed, inferences, numbers):
    """Run some numbers; count what became of them, by inference, and say what was wrong."""
    signal.signal(signal.SIGPROF, too_long)
    counts, seconds, wrong, slowest = Counter(), Counter(), [], (0.0, "")
    for number, precomputed, inference in product(numbers, (False, True), inferences):
        found, taken = run_one(seed, number, inference, precomputed)
        name = f"{number} ({inference}{', a Gram matrix' if precomputed else ''})"
        slowest = max(slowest, (taken, name))
        seconds[inference] += taken
        counts[inference, found if found in ("right answer", "refused") else "wrong"] += 1
        if found not in ("right answer", "refused"):
            wrong.append(f"FAILED {name}: {found}"[:400])
    return counts, seconds, wrong, slowest


def fuzz_arrays(first, n_arrays, seed, n_jobs, inferences):
    """Run all arrays in some processes; return what went wrong."""
    totals, wrong, numbers = Counter(), [], range(first, first + n_arrays)
    parts = [numbers[start : start + PART] for start in range(0, n_arrays, PART)]
    start = time.perf_counter()
    with ProcessPoolExecutor(n_jobs, get_context("spawn")) as pool:
        running = {pool.submit(run_part, seed, inferences, part): part for part in parts}
        for future in as_completed(running):
            part, (counts, seconds, failed, (longest, name)) = running[future], future.result()
            totals, wrong = totals + counts, wrong + failed
            taken = ", ".join(f"{inference} {seconds[inference]:.1f}" for inference in inferences)
            line = (
                f"{part[0]} to {part[-1]}: {told(counts)}; seconds: {taken}, {name} {longest:.1f}"
            )
            print(line, file=sys.stderr, flush=True)
            print(*failed, sep="\n", end="\n" if failed else "", flush=True)
    for inference in inferences:
        own = Counter({key: n for key, n in totals.items() if key[0] == inference})
        print(f"{inference}: {told(own)}")
    print(
        f"{n_arrays:,} arrays from {first} on, {len(inferences)} inferences, rows and Gram "
        f"matrices, seed {seed}: {told(totals)} ({time.perf_counter() - start:.0f} s)"
    )
    return wrong


def told(counts):
    right, refused, wrong = (
        sum(n for (_, found), n in counts.items() if found == kind)
        for kind in ("right answer", "refused", "wrong")
    )
    return f"{right:,} right answers, {refused:,} clear errors, {wrong:,} failures"


# ---------------------------------------------------------------------- Ctrl-C


def interrupt_problem(inference, delays, before):
    """Press Ctrl-C after each of some delays in a fit; say what is wrong afterwards, or None."""
    X, y = make_classification(300, 10, random_state=0)
    settings = {
        "gamma": 0.1, "softness": 0.1, "bias": 1.0, "n_jobs": 2, "max_time": 10.0,
        "random_state": 0,
    }  # fmt: skip
    if inference == "onion":
        clf, few, many = OnionClassifier(depth=2, **settings), 64, 10**5
    else:
        clf = BayesPointClassifier(inference=inference, tol=0, **settings)
        few, many = 4, 10**5 if inference == "ep" else 10**6  # EP holds all, and draws quickly
    if before:
        clf.set_params(n_draws=few).fit(X, y)
    clf.set_params(n_draws=many)
    n_threads, pressed = threading.active_count(), []

    def press():
        for delay in delays:
            time.sleep(delay)
            pressed.append(time.process_time())
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    presser = threading.Thread(target=press)
    try:
        try:
            presser.start()
            while True:  # EP may be done before
                clf.fit(X, y)
        finally:
            presser.join()  # where a second Ctrl-C may come as well
    except KeyboardInterrupt:
        ended = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(clf, "predictor_"):
            check_answer(clf, X[:9])
        elif before:
            return "the model is gone"
    if len(delays) > 1 and ended - pressed[-1] > AT_ONCE:
        return f"{ended - pressed[-1]:.1f} s of the processor after the second Ctrl-C"
    waited = time.perf_counter() + THREADS_END
    while threading.active_count() > n_threads and time.perf_counter() < waited:
        time.sleep(0.01)  # one may be on its way back from a compiled loop
    if threading.active_count() > n_threads:
        return f"{threading.active_count() - n_threads} threads left"
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return "the handler of Ctrl-C is not the usual one"
    return None


def fuzz_interrupts(n, seed, inferences):
    """Press Ctrl-C at random moments of each inference; return what went wrong."""
    wrong = []
    for inference in inferences:
        rng = np.random.default_rng([seed, 3, INFERENCES.index(inference)])
        n_wrong, start = len(wrong), time.perf_counter()
        for i in range(n):
            delays = [rng.uniform(0, 0.5), *([rng.uniform(0, 0.05)] if i % 2 else [])]
            try:
                problem = interrupt_problem(inference, delays, before=i % 3 == 0)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                wrong.append(f"FAILED Ctrl-C {i} ({inference}, after {delays}): {problem}")
                print(wrong[-1], flush=True)
        print(
            f"Ctrl-C at {n} moments of {inference}, {n // 2} of them twice: "
            f"{len(wrong) - n_wrong} wrong ({time.perf_counter() - start:.0f} s)",
            flush=True,
        )
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arrays", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--inferences", nargs="+", choices=INFERENCES, default=INFERENCES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = []
    if options.arrays:
        wrong += fuzz_arrays(
            options.first, options.arrays, options.seed, options.jobs, options.inferences
        )
    if options.interrupts:
        wrong += fuzz_interrupts(options.interrupts, options.seed, options.inferences)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
