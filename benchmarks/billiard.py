"""The billiard on large data: its limits.

    python benchmarks/billiard.py [--part mnist noisy classifiers]

- mnist: 20,000 digits, one class against the rest, within 8 GB.
- noisy: 10,000 digits, labels taken to be wrong with probability 0.05, balls from opposite ends.
- classifiers: perceptrons and billiard as classifiers of 5,000 digits, ten classes.

Data sets come from the folder named in BAYESPOINT_DATA.
"""

import argparse
import resource
import time

import numpy as np
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, VersionSpace, inference
from bayespoint.papers import datasets
from bayespoint.space import diagnostics


def digits(n_points, digit):
    X, y, _, _ = datasets.load("mnist")
    X = X[:n_points].astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return rbf_kernel(X, gamma=4.0), np.where(y[:n_points] == digit, 1, -1)


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def mnist():
    print("\n20,000 MNIST digits, 3 against the rest, RBF gamma = 4, softness 0.001, 2 balls")
    K, y = digits(20_000, 3)
    space = VersionSpace(K, y, softness=1e-3)
    begun = time.perf_counter()
    post = inference.sample_billiard(
        space, n_draws=26, n_chains=2, burn_in=0, travel_time=20.5, n_jobs=2, random_state=0,
        verbose=1,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    lengths = np.sqrt(space.rows.diagonal + space.ridge)
    worst = min((space.margins(draw) / lengths).min() for draw in post.coef)
    info = post.info
    print(
        f"{info['travel_time']:.1f} radians per ball in {seconds:.0f} s, peak {memory():.1f} GB; "
        f"{info['bounces'].sum() / info['travel_time'] / 2:.0f} bounces per radian, "
        f"{2e6 * info['flight_seconds'] / info['bounces'].sum():.1f} us per bounce of one ball\n"
        f"least margin of {len(post.coef)} draws, recomputed from the rows in float64: {worst:.1e} "
        f"(must be >= -1e-6); drift {info['drift']:.1e}, restarts {info['restarts']}: "
        f"{'holds' if worst >= -1e-6 and memory() <= 8 else 'FAILS'}"
    )


def noisy():
    print("\n10,000 MNIST digits, 3 against the rest, RBF gamma = 4, label_noise 0.05")
    K, y = digits(10_000, 3)
    space = VersionSpace(K, y, softness=1e-3)
    begun = time.perf_counter()
    chains = []
    for start in ("consistent", "random"):
        post = inference.sample_billiard(
            space, n_draws=2 * NOISY_FLIGHTS, n_chains=2, label_noise=0.05, start=start, n_jobs=2,
            random_state=len(start), burn_in=NOISY_BURN_IN, thin=1, max_time=290, verbose=1,
        )  # fmt: skip
        chains.append(post.info["errors"].reshape(2, -1))
        print(f"from a {start} start: {chains[-1].mean(axis=1)} errors on average")
    n_draws = min(part.shape[1] for part in chains)
    errors = np.concatenate([part[:, :n_draws] for part in chains]).astype(float)
    ess, rhat, seconds = (
        diagnostics.ess(errors),
        diagnostics.rhat(errors),
        time.perf_counter() - begun,
    )
    print(
        f"{seconds:.0f} s (at most 600), {n_draws} draws per chain: "
        f"ESS of the error count {ess:.0f} (must be >= 50), R-hat {rhat:.3f} (must be <= 1.05): "
        f"{'holds' if ess >= 50 and rhat <= 1.05 and seconds <= 600 else 'FAILS'}"
    )


def classifiers():
    print(
        "\n5,000 MNIST digits, ten classes, RBF gamma = 4, unit norm, no bias, 100 draws per class"
    )
    X, y, X_test, y_test = datasets.load("mnist")
    X, y = X[:5000].astype(np.float32), y[:5000]
    X_test = X_test.astype(np.float32)
    for part in (X, X_test):
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    for inference_name, decision in (
        ("perceptron", "bayes_point"), ("perceptron", "vote"), ("billiard", "bayes_point"),
        ("billiard", "vote"),
    ):  # fmt: skip
        clf = BayesPointClassifier(
            gamma=4.0, bias=0, softness=0.1, inference=inference_name, decision=decision, n_jobs=2,
            random_state=0,
        )  # fmt: skip
        begun = time.perf_counter()
        clf.fit(X, y)
        seconds = time.perf_counter() - begun
        p = clf.predict_proba(X_test)
        error = 100 * np.mean(clf.classes_[p.argmax(axis=1)] != y_test)
        print(
            f"{inference_name:10s} {decision:11s}: fit {seconds:4.1f} s, error {error:.2f} %, "
            f"log loss {log_loss(y_test, p):.3f}",
            flush=True,
        )


NOISY_FLIGHTS = 3000
NOISY_BURN_IN = 300

PARTS = {"mnist": mnist, "noisy": noisy, "classifiers": classifiers}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    for part in arguments.part:
        begun = time.perf_counter()
        PARTS[part]()
        print(f"({part}: {time.perf_counter() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
