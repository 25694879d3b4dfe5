"""The billiard against theory, published results, and its own limits.

    python benchmarks/billiard.py [--part teacher table1 mnist noisy classifiers] [--runs N]

- teacher: learning curve of random linear teachers in 100 dimensions (R&M figure 18.11) beside the
  theory of the perceptron and the maximal-margin classifier.
- table1: JMLR table 1, seven data sets, hard boundary, no bias, the paper's kernel widths, beside
  the hard-margin support vector machine without bias.
- mnist: 20,000 digits, one class against the rest, within 8 GB.
- noisy: 10,000 digits, labels taken to be wrong with probability 0.05, balls from opposite ends.
- classifiers: perceptrons and billiard as classifiers of 5,000 digits, ten classes.

Data sets come from the folder named in BAYESPOINT_DATA.
"""

import argparse
import resource
import time

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, nnls
from scipy.stats import norm
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, VersionSpace, datasets, diagnostics, inference

DIMENSION = 100
ALPHAS = (1, 2, 3, 5, 10)

# JMLR table 1: kernel width, error of the SVM and of the BPM in per cent, with standard errors.
TABLE_1 = {
    "heart": (10.0, 25.4, 0.40, 22.8, 0.34),
    "thyroid": (3.0, 5.3, 0.24, 4.4, 0.21),
    "diabetis": (5.0, 33.1, 0.24, 32.0, 0.25),
    "waveform": (20.0, 13.0, 0.10, 12.1, 0.09),
    "banana": (0.5, 16.2, 0.15, 15.1, 0.14),
    "sonar": (1.0, 15.4, 0.37, 15.9, 0.38),
    "ionosphere": (1.5, 11.9, 0.25, 11.5, 0.25),
}

# Where the Gram matrix is singular to rounding, the least softness that separates the classes.
SOFTNESS = {"banana": 1e-8}


def max_margin(Z):
    """Direction of largest margin without bias: the shortest w with Z w >= 1 (Lawson, Hanson)."""
    system = np.vstack([Z.T, np.ones(len(Z))])
    target = np.append(np.zeros(Z.shape[1]), 1.0)
    a, _ = nnls(system, target, maxiter=20 * len(Z))
    residual = target - system @ a
    w = -residual[:-1] / residual[-1]
    return w / np.linalg.norm(w)


def theory(alpha):
    """Overlap q of two random consistent classifiers; the Bayes point errs arccos(sqrt(q))/pi."""

    def gap(q):
        def integrand(t):
            return norm.pdf(t) * np.exp(-q * t * t / 2 - norm.logsf(np.sqrt(q) * t))

        return alpha / np.pi * np.sqrt(1 - q) * quad(integrand, -30, 30, limit=200)[0] - q

    return brentq(gap, 1e-6, 1 - 1e-9)


def stderr(values):
    return np.std(values, ddof=1) / np.sqrt(len(values))


def teacher_run(alpha, seed):
    """Errors of Bayes point and maximal margin, and the two overlaps that must agree."""
    rng = np.random.default_rng([seed, alpha])
    X = rng.standard_normal((alpha * DIMENSION, DIMENSION))
    teacher = rng.standard_normal(DIMENSION)
    teacher /= np.linalg.norm(teacher)
    y = np.sign(X @ teacher)
    space = VersionSpace(X @ X.T, y)
    post = inference.sample_billiard(space, n_draws=400, n_chains=4, random_state=seed)
    centre = X.T @ post.bayes_point()
    draws = post.draws() @ X
    means = draws.mean(axis=1)
    pairs = [means[a] @ means[b] for a in range(4) for b in range(a)]
    margin = max_margin(y[:, None] * X)
    angle = np.arccos([teacher @ centre / np.linalg.norm(centre), teacher @ margin]) / np.pi
    return *angle, means.mean(axis=0) @ teacher, np.mean(pairs)


def teacher(n_runs):
    print(f"\nteacher-student, D = {DIMENSION}, {n_runs or 200} teachers: error of the Bayes point")
    print("holds: |off| <= 3 standard errors + 2.5 %, the gain over the maximal margin above 3\n"
          "standard errors, E<teacher, w> - E<w, w'> within 3 standard errors of zero")  # fmt: skip
    print("alpha  theory  measured (stderr)  off     allowed  max margin  gain (stderr)"
          "          wins   overlaps differ by    verdict")  # fmt: skip
    for alpha in ALPHAS:
        runs = np.array([teacher_run(alpha, seed) for seed in range(n_runs or 200)])
        error, margin, with_teacher, with_other = runs.T
        expected = np.arccos(np.sqrt(theory(alpha))) / np.pi
        off, allowed = abs(error.mean() - expected), 3 * stderr(error) + 0.025 * expected
        gain = margin - error
        overlap = with_teacher - with_other
        right = off <= allowed and gain.mean() > 3 * stderr(gain)
        right = right and abs(overlap.mean()) <= 3 * stderr(overlap)
        print(
            f"{alpha:5d}  {expected:.4f}  {error.mean():.4f} ({stderr(error):.4f})   {off:.4f}  "
            f"{allowed:.4f}   {margin.mean():.4f}      {gain.mean():.4f} ({stderr(gain):.5f}) = "
            f"{gain.mean() / stderr(gain):.1f}  {np.mean(gain > 0):4.0%}   {overlap.mean():+.5f} "
            f"({stderr(overlap):.5f})    {'holds' if right else 'FAILS'}",
            flush=True,
        )


def split_of(name, split):
    """Training and test data, 60:40 where the set has no splits of its own."""
    if name not in ("sonar", "ionosphere"):
        return datasets.raetsch(name, split)
    X, y = datasets.load(name)
    order = np.random.default_rng(20010000 + split).permutation(len(y))
    cut = int(0.6 * len(y))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def table1_run(name, split):
    X, y, X_test, y_test = split_of(name, split)
    gamma = 1 / (2 * TABLE_1[name][0] ** 2)
    X, first = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    X, y = X[:, :-1], y[first]  # equal rows with equal labels are one wall
    K, cross = rbf_kernel(X, gamma=gamma), rbf_kernel(X_test, X, gamma=gamma)
    space = VersionSpace(K, y, softness=SOFTNESS.get(name, 0.0))
    post = inference.sample_billiard(space, n_draws=400, random_state=split)
    L = np.linalg.cholesky(K + np.diag(space.ridge))
    w = max_margin(y[:, None] * L)
    machines = {"svm": cross @ np.linalg.solve(L.T, w), "bpm": cross @ post.bayes_point()}
    return [100 * np.mean(y_test * output <= 0) for output in machines.values()], post


def table1(n_runs):
    print(f"\nJMLR table 1, {n_runs or 100} splits: error in per cent (stderr)")
    print(f"softness: {SOFTNESS}, else 0")
    print("set         published SVM  ours         published BPM  ours         BPM - SVM     "
          "no worse   angle error")  # fmt: skip
    good = 0
    for name, (_, svm, svm_se, bpm, bpm_se) in TABLE_1.items():
        errors, angles = [], []
        for split in range(1, 1 + (n_runs or 100)):
            run, post = table1_run(name, split)
            errors.append(run)
            angles.append(post.bayes_point_error())
        errors = np.array(errors)
        mean, se = errors.mean(axis=0), [stderr(column) for column in errors.T]
        paired = errors[:, 1] - errors[:, 0]
        fine = mean[1] <= bpm + 2 * np.hypot(bpm_se, se[1])
        good += fine
        print(
            f"{name:11s} {svm:4.1f} ({svm_se:.2f})   {mean[0]:5.2f} ({se[0]:.2f})  {bpm:4.1f} "
            f"({bpm_se:.2f})    {mean[1]:5.2f} ({se[1]:.2f})  {paired.mean():+.2f} "
            f"({stderr(paired):.2f})  {'yes' if fine else 'NO':8s}  {np.mean(angles):.3f}",
            flush=True,
        )
    print(f"no worse than published by more than two standard errors: {good} of {len(TABLE_1)}")


def digits(n_points, digit):
    X, y, _, _ = datasets.load("mnist")
    X = X[:n_points].astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return rbf_kernel(X, gamma=4.0), np.where(y[:n_points] == digit, 1, -1)


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def mnist(_):
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
        f"{info['travel_time']:.1f} radians a ball in {seconds:.0f} s, peak {memory():.1f} GB; "
        f"{info['bounces'].sum() / info['travel_time'] / 2:.0f} bounces a radian, "
        f"{1e6 * 2 * info['flight_seconds'] / info['bounces'].sum():.1f} us a bounce of one ball\n"
        f"least margin of {len(post.coef)} draws, recomputed from the rows in float64: {worst:.1e} "
        f"(must be >= -1e-6); drift {info['drift']:.1e}, restarts {info['restarts']}: "
        f"{'holds' if worst >= -1e-6 and memory() <= 8 else 'FAILS'}"
    )


def noisy(_):
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
        f"{seconds:.0f} s (at most 600), {n_draws} draws a chain: ESS of the error count {ess:.0f} "
        f"(must be >= 50), R-hat {rhat:.3f} (must be <= 1.05): "
        f"{'holds' if ess >= 50 and rhat <= 1.05 and seconds <= 600 else 'FAILS'}"
    )


def classifiers(_):
    print("\n5,000 MNIST digits, ten classes, RBF gamma = 4, unit norm, no bias, 100 draws a class")
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

PARTS = {
    "teacher": teacher, "table1": table1, "mnist": mnist, "noisy": noisy,
    "classifiers": classifiers,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int, help="teachers or splits; 200 and 100 by default")
    arguments = parser.parse_args()
    for part in arguments.part:
        begun = time.perf_counter()
        PARTS[part](arguments.runs)
        print(f"({part}: {time.perf_counter() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
