"""Handwritten digits as LSB and JMLR took them: grey values, kernel, and errors after rejection."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayespoint import BayesPointClassifier
from bayespoint._support.types import Array
from bayespoint.displays.style import BLUE, GREEN, ORANGE, VERMILION, label_axes
from bayespoint.papers import datasets
from bayespoint.papers.reproduction.item import Data, Run
from bayespoint.papers.reproduction.tools import stderr

GREY_LEVELS = 255

# The papers' kernel on grey values 0 to 255 is (<x, x'> + 1)^5, which reaches 1e37. Grey values
# from 0 to 1 and a constant of 1/255^2 give the same kernel up to a factor, on which neither
# perceptrons nor cosines depend.
DEGREE = 5
COEF0 = 1 / GREY_LEVELS**2
PUBLISHED: dict[str, Any] = {
    "kernel": "poly", "gamma": 1.0, "degree": DEGREE, "coef0": COEF0,
    "normalize_kernel": False, "bias": 0, "softness": 0,
}  # fmt: skip

# LSB's N, JMLR's L: perceptrons of a class.
N_PERCEPTRONS = 10

# Rejected per cent, and what LSB's table has there for MNIST.
REJECTED = range(11)
MNIST_TABLE = (1.46, 1.10, 0.87, 0.67, 0.49, 0.37, 0.32, 0.26, 0.21, 0.14, 0.11)

# Rounding of these numbers, and LSB's and JMLR's support vector machine on MNIST (%).
ROUNDING = 0.005
SVM = 1.4

# Numbers of perceptrons per class at which errors are shown.
DRAWS = (1, 2, 5, 10, 20, 50, 100)

# MB of kernel rows that are kept at a time.
CACHE_SIZE = 4000


def grey(name: str) -> datasets.Arrays:
    """Return training and test images with grey values from 0 to 1 (background 0), and labels."""
    X, y, X_test, y_test = datasets.load(name)
    low, high = {"mnist": (0, GREY_LEVELS), "usps": (-1, 1)}[name]
    X, X_test = (((A.astype(np.float32) - low) / (high - low)).astype(np.float32)
                 for A in (X, X_test))  # fmt: skip
    return X, y, X_test, y_test


def some(X: Array, y: Array, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return n rows at random, in the order they have; all of them where there are no more."""
    if n >= len(y):
        return X, y
    rows = np.sort(rng.choice(len(y), n, replace=False))
    return X[rows], y[rows]


def mnist(run: Run) -> datasets.Arrays:
    """Return MNIST, or a part of it in a quick run, as `grey` does."""
    X, y, X_test, y_test = grey("mnist")
    train = some(X, y, run.size(60_000, 6_000), run.rng(0))
    return *train, *some(X_test, y_test, run.size(10_000, 2_000), run.rng(1))


def ones_and_twos(
    data: datasets.Arrays, rng: np.random.Generator, n_train: int, n_test: int
) -> datasets.Arrays:
    """Return digits "1" (label -1) and "2" (+1) of MNIST, at random from its two files."""
    parts: list[Array] = []
    for X, y, n in ((data[0], data[1], n_train), (data[2], data[3], n_test)):
        rows = rng.choice(np.flatnonzero((y == 1) | (y == 2)), n, replace=False)
        parts += [X[rows].astype(np.float64), np.where(y[rows] == 2, 1, -1)]
    return tuple(parts)


def kernel(A: Array, B: Array, normalize: bool = False) -> Array:
    """Return the papers' kernel between rows of A and B, up to a factor."""
    values = (A @ B.T + COEF0) ** DEGREE
    if not normalize:
        return values
    lengths = [np.sqrt((np.sum(C**2, axis=1) + COEF0) ** DEGREE) for C in (A, B)]
    return values / np.outer(*lengths)


def fit(
    X: Array, y: Array, n_draws: int, *, seed: int, n_jobs: int, **settings: Any
) -> BayesPointClassifier:
    """Fit permuted perceptrons, one class against the rest."""
    settings = PUBLISHED | settings
    return BayesPointClassifier(
        **settings, inference="perceptron", n_draws=n_draws, cache_size=CACHE_SIZE,
        random_state=seed, n_jobs=n_jobs,
    ).fit(X, y)  # fmt: skip


def draw_outputs(clf: BayesPointClassifier, X: Array) -> Array:
    """Return cosines of single draws and points, (n_points, n_classes, n_draws)."""
    coef = clf.predictor_.draws()
    outputs = clf.predictor_.support.outputs(clf.prepared(X), np.concatenate(coef))
    return outputs.reshape(len(X), len(coef), -1)


def groups(outputs: Array, size: int) -> list[Array]:
    """Return mean outputs of draws 1 to size, of the next ones, and so on: runs of the papers."""
    n = outputs.shape[2] // size
    return [outputs[:, :, g * size : (g + 1) * size].mean(axis=2) for g in range(n)]


def rejection_table(outputs: Array, y: Array, rule: str = "output") -> list[float]:
    """Return errors (%) where 0 to 10 % are rejected, by largest output or by the gap."""
    ranked = np.sort(outputs, axis=1)
    confidence = ranked[:, -1] if rule == "output" else ranked[:, -1] - ranked[:, -2]
    wrong = (outputs.argmax(axis=1) != y)[np.argsort(-confidence, kind="stable")]
    return [100 * wrong[: round(len(y) * (1 - share / 100))].mean() for share in REJECTED]


def measure_rejection(
    data: datasets.Arrays, n_draws: int, *, seed: int, n_jobs: int, **settings: Any
) -> Data:
    """Fit, and return errors by rejection and by number of draws.

    Draws are independent, so that each ten of them are one run of the papers.
    """
    X, y, X_test, y_test = data
    clf = fit(X, y, n_draws, seed=seed, n_jobs=n_jobs, **settings)
    outputs = draw_outputs(clf, X_test)
    runs = groups(outputs, N_PERCEPTRONS)
    numbers = [n for n in DRAWS if n <= n_draws]
    curve = [[rejection_table(o, y_test)[0] for o in groups(outputs, n)] for n in numbers]
    return {
        "n_train": len(y),
        "n_test": len(y_test),
        "tables": [rejection_table(o, y_test) for o in runs],
        "gap_tables": [rejection_table(o, y_test, "gap") for o in runs],
        "draws": numbers,
        "error": [np.mean(errors) for errors in curve],
        "error_sd": [np.std(errors, ddof=1) if len(errors) > 1 else np.nan for errors in curve],
        "support": len(clf.support_),
    }


def spread(tables: list[Any]) -> tuple[Array, Array, Array]:
    """Return mean, standard error of the mean and spread of one run, by column."""
    values = np.array(tables, dtype=float)
    if len(values) == 1:
        return values[0], np.zeros(values.shape[1]), np.zeros(values.shape[1])
    return values.mean(axis=0), stderr(values), values.std(axis=0, ddof=1)


def binomial_error(per_cent: float, n: int) -> float:
    """Return the standard error (%) of an error rate on n test points."""
    p = per_cent / 100
    return 100 * np.sqrt(p * (1 - p) / n)


def draw_rejection(
    axes: Any, tables: list[Any], published: Sequence[float], svm: float,
    gap_tables: list[Any] | None = None,
) -> None:  # fmt: skip
    """Draw error against rejection: published, ours, and ours by the gap."""
    mean, _, sd = spread(tables)
    axes.errorbar(
        REJECTED, mean, yerr=sd, color=BLUE, marker="o", capsize=3, linewidth=2,
        label="ours, by largest output",
    )  # fmt: skip
    if gap_tables:
        axes.plot(REJECTED, spread(gap_tables)[0], color=ORANGE, linestyle="--",
                  marker="s", ms=4, linewidth=2, label="ours, by gap")  # fmt: skip
    axes.plot(REJECTED[: len(published)], published, "D", mec=VERMILION, mfc="none", ms=9,
              mew=2, label="published", zorder=3)  # fmt: skip
    axes.plot([0], [svm], "^", color=GREEN, ms=9, label="SVM, published")
    label_axes(axes, "rejected (% of test digits)", "error of the others (%)")
    axes.set_ylim(bottom=0)
    axes.legend()
