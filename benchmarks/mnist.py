"""The papers' MNIST experiment beside the fastest SVM, in one run.

    pip install '.[cli]' scikit-learn-intelex
    BAYESPOINT_DATA=folder python benchmarks/mnist.py

Prints what docs/benchmarks-methods.md quotes. ``--skip-svm`` leaves out the SVMs, ``--part`` runs
some parts only. All parts work on the same arrays, with the same number of threads, on memory that
was touched before.
"""

import argparse
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from bayespoint import BayesPointClassifier, __version__
from bayespoint.inference.perceptron.wave import Wave
from bayespoint.papers import datasets
from bayespoint.space.rows import GramRows

PUBLISHED_TABLE = [1.46, 1.10, 0.87, 0.67, 0.49, 0.37, 0.32, 0.26, 0.21, 0.14, 0.11]
N_CLASSES = 10
PUBLISHED = {
    "kernel": "poly", "gamma": 1.0, "degree": 5, "coef0": 1.0,
    "normalize_kernel": False, "bias": 0, "softness": 0,
}  # fmt: skip
RBF = {"kernel": "rbf", "gamma": 4.0, "bias": 0, "softness": 0.1}
PARTS = ("ours", "where", "svm", "subset", "draws", "compress")


def main():
    options = parse()
    keep_memory()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    print(f"machine: {machine()}; threads: {options.threads}; bayespoint {__version__}, "
          f"NumPy {np.__version__}, Python {platform.python_version()}")  # fmt: skip
    data = {"published": pixels(unit=False), "rbf": pixels(unit=True)}
    touch(options.touch)
    warm_up(data, options)
    results = {}
    for part in options.part:
        print(f"\n== {part}", flush=True)
        globals()[f"run_{part}"](data, options, results)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache-size", type=float, default=8000.0, help="MB")
    parser.add_argument("--touch", type=float, default=9.0, help="GB of memory to touch first")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--skip-svm", action="store_true")
    options = parser.parse_args()
    if options.skip_svm:
        options.part = [part for part in options.part if part not in ("svm", "subset")]
    return options


def machine():
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = [platform.processor()]
    return f"{names[0]}, {len(names)} cores, {platform.system()}"


def pixels(unit):
    X, y, X_test, y_test = datasets.load("mnist")
    X, X_test = (np.float32(A / np.float32(255)) for A in (X, X_test))
    if unit:
        X, X_test = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, X_test))
    return X, y, X_test, y_test


def touch(gigabytes):
    """Use memory once, and have the allocator keep it.

    The first touch of fresh pages can cost seconds a GB, the same for all who are measured.
    """
    np.ones(int(gigabytes * 1e9 / 8))


def keep_memory():
    """Start again with an allocator that does not give freed memory back to the system."""
    settings = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(10**12)}
    if not settings.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | settings)


def warm_up(data, options):
    """Compile before anything is timed."""
    for name, settings in (("published", PUBLISHED), ("rbf", RBF)):
        X, y, X_test, _ = data[name]
        model(settings, options, n_draws=2).fit(X[:2000], y[:2000]).predict(X_test[:10])


def model(settings, options, seed=0, **more):
    more = {"n_draws": 10, "cache_size": options.cache_size} | more
    more = {"inference": "perceptron", "n_jobs": options.threads, "random_state": seed} | more
    return BayesPointClassifier(**settings, **more)


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def rejection_table(outputs, y, rule):
    """Error (%) when 0 to 10 % of the least confident are rejected."""
    ranked = np.sort(outputs, axis=1)
    confidence = ranked[:, -1] if rule == "output" else ranked[:, -1] - ranked[:, -2]
    wrong = (outputs.argmax(axis=1) != y)[np.argsort(-confidence, kind="stable")]
    shares = np.arange(11) / 100
    return [100 * wrong[: round(len(y) * (1 - share))].mean() for share in shares]


def show(values):
    return " ".join(f"{value:.2f}" for value in values)


def run_ours(data, options, results):
    """Our fit, error and rejection tables, median over seeds."""
    for name, settings in (("published", PUBLISHED), ("rbf", RBF)):
        X, y, X_test, y_test = data[name]
        runs = []
        for seed in range(options.seeds):
            clf, fit_time = timed(model(settings, options, seed).fit, X, y)
            outputs, predict_time = timed(clf.decision_function, X_test)
            tables = [rejection_table(outputs, y_test, rule) for rule in ("output", "gap")]
            runs.append((fit_time, predict_time, len(clf.support_), *tables))
            print(f"{name} seed {seed}: fit {fit_time:.2f} s, predict 10,000 {predict_time:.2f} s, "
                  f"{len(clf.support_)} support points, error {tables[0][0]:.2f} %",
                  flush=True)  # fmt: skip
            if seed == 0:
                results[name] = clf
        fits, predicts, _, by_output, by_gap = zip(*runs, strict=True)
        results[f"{name} fit"] = np.median(fits)
        results[f"{name} predict"] = np.median(predicts)
        print(f"{name} median: fit {np.median(fits):.2f} s, predict {np.median(predicts):.2f} s")
        print(f"  rejecting by largest output: {show(np.median(by_output, axis=0))}")
        print(f"  rejecting by gap:            {show(np.median(by_gap, axis=0))}")
        if name == "published":
            difference = np.abs(np.median(by_output, axis=0) - PUBLISHED_TABLE).max()
            print(f"  published:                   {show(PUBLISHED_TABLE)}"
                  f"   largest difference {difference:.2f}")  # fmt: skip


def run_where(data, options, results):  # noqa: ARG001
    """Where the time of a fit goes, beside what the machine can do."""
    product, reading = machine_rates(options.threads)
    print(f"the machine: {product:.0f} GFLOP/s in a matrix product, {reading:.1f} GB/s from memory")
    print("          cache, MB  fit, s  rows, s (number, GFLOP)   updates, s (number, GB)       "
          "guesses, s  rest, s")  # fmt: skip
    for name, settings in (("published", PUBLISHED), ("rbf", RBF)):
        X, y, _, _ = data[name]
        for cache_size in (options.cache_size, 2000):
            with watched() as seen:
                fit_time = timed(model(settings, options, cache_size=cache_size).fit, X, y)[1]
            work = seen.rows * 2e-9 * np.count_nonzero(X)
            read = seen.updates * 4e-9 * len(X)  # a row in float32; outputs stay in the cache
            rest = fit_time - sum(seen.seconds.values())
            rows, updates, guesses = (seen.seconds[part] for part in WATCHED.values())
            print(f"{name:10s} {cache_size:5.0f} {fit_time:7.2f} {rows:8.2f} ({seen.rows:6d}, "
                  f"{work:5.0f}, {work / rows:4.0f}/s) {updates:9.2f} ({seen.updates:6d}, "
                  f"{read:4.1f}, {read / updates:4.1f}/s) {guesses:8.2f} {rest:9.2f}",
                  flush=True)  # fmt: skip


WATCHED = {(GramRows, "ensure"): "rows", (Wave, "advance"): "updates", (Wave, "likely"): "guesses"}


@contextmanager
def watched():
    """Count rows, updates and the seconds that they take."""
    seen = SimpleNamespace(rows=0, updates=0, seconds=dict.fromkeys(WATCHED.values(), 0.0))

    def watching(method, part):
        def call(self, *arguments):
            start = time.perf_counter()
            found = method(self, *arguments)
            seen.seconds[part] += time.perf_counter() - start
            if part == "rows":
                seen.rows = self.n_computed
            elif part == "updates":
                seen.updates = int(self.mistakes.sum())
            return found

        return call

    with ExitStack() as stack:
        for (kind, name), part in WATCHED.items():
            stack.enter_context(patch.object(kind, name, watching(getattr(kind, name), part)))
        yield seen


def machine_rates(n_threads):
    """GFLOP/s of a matrix product in float32, and GB/s of threads that read memory."""
    A = np.ones((4096, 4096), dtype=np.float32)
    product = 2 * 4096**3 / min(timed(np.matmul, A, A)[1] for _ in range(3))
    parts = np.ones((n_threads, 10**8))
    with ThreadPoolExecutor(n_threads) as pool:
        read = min(timed(lambda: list(pool.map(np.max, parts)))[1] for _ in range(3))
    return product / 1e9, parts.nbytes / read / 1e9


def run_svm(data, options, results):  # noqa: ARG001
    """scikit-learn-intelex on dense and CSR input."""
    from sklearnex.svm import SVC

    settings = {
        # A constant factor does not change a hard margin, and keeps kernel values near 1.
        "published": {"kernel": "poly", "gamma": 0.01, "degree": 5, "coef0": 0.01, "C": 1e6},
        "rbf": {"kernel": "rbf", "gamma": 4.0, "C": 10.0},
    }
    for name, parameters in settings.items():
        X, y, X_test, y_test = data[name]
        times = {}
        for layout, convert in (("dense", np.asarray), ("csr", sp.csr_matrix)):
            svm, times[layout] = timed(SVC(**parameters).fit, convert(X), y)
            wrong, predict_time = timed(svm.predict, convert(X_test))
            print(f"{name} SVC ({layout}): fit {times[layout]:.2f} s, predict 10,000 "
                  f"{predict_time:.2f} s, {len(svm.support_)} support points, "
                  f"error {100 * np.mean(wrong != y_test):.2f} %", flush=True)  # fmt: skip
        best = min(times.values())
        if f"{name} fit" in results:
            print(f"{name}: our fit / fastest SVC fit = {results[f'{name} fit'] / best:.3f}")


def run_subset(data, options, results):  # noqa: ARG001
    """scikit-learn's own SVC on 10,000 digits beside ours."""
    from sklearn.svm import SVC

    X, y, X_test, y_test = data["rbf"]
    X, y = X[:10_000], y[:10_000]
    svm, svm_time = timed(SVC(gamma=4.0, C=10.0, cache_size=2000).fit, X, y)
    svm_error = 100 * np.mean(svm.predict(X_test) != y_test)
    clf, our_time = timed(model(RBF, options).fit, X, y)
    our_error = 100 * np.mean(clf.predict(X_test) != y_test)
    print(f"10,000 digits, rbf: ours {our_time:.2f} s, {our_error:.2f} %; scikit-learn SVC "
          f"{svm_time:.2f} s, {svm_error:.2f} %; ratio {our_time / svm_time:.3f}")  # fmt: skip


def run_draws(data, options, results):  # noqa: ARG001
    """Error against the number of draws: the anytime curve."""
    for name, settings in (("published", PUBLISHED), ("rbf", RBF)):
        X, y, X_test, y_test = data[name]
        clf, fit_time = timed(model(settings, options, n_draws=100).fit, X, y)
        outputs = draw_outputs(clf, X_test)
        curve = {}
        for n in (1, 2, 5, 10, 20, 50, 100):
            curve[n] = 100 * np.mean(outputs[:, :, :n].mean(axis=2).argmax(axis=1) != y_test)
        print(f"{name}: fit of 100 draws per class {fit_time:.1f} s; error by draws: "
              + ", ".join(f"{n}: {error:.2f} %" for n, error in curve.items()))  # fmt: skip


def draw_outputs(clf, X_test):
    """Outputs of single draws, (n_test, n_classes, n_draws)."""
    outputs, asked = [], clf.prepared(X_test)
    for c in range(N_CLASSES):
        coef = clf.posterior(c).coef[:, clf.support_].toarray()
        outputs.append(clf.predictor_.support.outputs(asked, coef))
    return np.stack(outputs, axis=1)


def run_compress(data, options, results):
    """Latency of predictions before and after compress."""
    for name, settings in (("published", PUBLISHED), ("rbf", RBF)):
        X, y, X_test, y_test = data[name]
        clf = results.get(name) or model(settings, options).fit(X, y)
        n_points = len(clf.support_)
        fifth, tenth = (partial(clf.compress, n_points=n_points // n) for n in (5, 10))
        for label, make in (("all", lambda clf=clf: clf), ("a fifth", fifth), ("a tenth", tenth)):
            small, seconds = timed(make)
            outputs, predict_time = timed(small.decision_function, X_test)
            error = 100 * np.mean(outputs.argmax(axis=1) != y_test)
            print(f"{name}, {label}: {len(small.support_)} support points (in {seconds:.1f} s), "
                  f"{100 * predict_time:.1f} ms per 1,000 predictions, error {error:.2f} %",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
