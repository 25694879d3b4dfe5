"""What to expect at 10⁴, 10⁵ and 5·10⁵ rows, on covertype: seven classes, 54 features.

    BAYESPOINT_DATA=folder python benchmarks/large.py

Standardised float32 features, RBF kernel with the default width, ten draws a class, two threads.
Prints what docs/guides/large-data.md quotes.
"""

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bayespoint import BayesPointClassifier
from bayespoint.papers import datasets

SIZES = (10_000, 100_000, 500_000)
N_TEST = 10_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache-size", type=float, default=4000.0, help="MB")
    parser.add_argument("--max-time", type=float, default=120.0, help="seconds for each fit")
    parser.add_argument("--softness", type=float, default=0.1)
    parser.add_argument("--size", type=int, help="one size only, in this process")
    options = parser.parse_args()
    if options.size:
        measure(options)
        return
    for size in SIZES:  # a process each, for its own peak memory
        subprocess.run([sys.executable, *sys.argv, "--size", str(size)], check=True)


def measure(options):
    X, y = datasets.load("covtype")
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:N_TEST], order[N_TEST : N_TEST + options.size]
    scaler = StandardScaler().fit(X[train].astype(np.float32))
    X_train = np.float32(scaler.transform(np.float32(X[train])))
    X_test = np.float32(scaler.transform(np.float32(X[test])))
    clf = BayesPointClassifier(
        gamma="scale", bias=1.0, inference="perceptron", n_draws=10, n_jobs=options.threads,
        cache_size=options.cache_size,
        max_time=options.max_time, softness=options.softness, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        clf.fit(X_train, y[train])
        fit_time = time.perf_counter() - start
    start = time.perf_counter()
    error = 100 * (1 - clf.score(X_test, y[test]))
    predict_time = time.perf_counter() - start
    unfinished = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"m = {options.size:7,}: fit {fit_time:6.1f} s, {clf.n_draws_:2d} draws"
          f"{' (unfinished)' if unfinished else ''}, {len(clf.support_):7,} support points, "
          f"predict {N_TEST:,}: {predict_time:5.1f} s, error {error:5.2f} %, "
          f"peak memory {peak:4.1f} GB", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
