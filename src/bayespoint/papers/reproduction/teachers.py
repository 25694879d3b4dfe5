"""Random linear teachers: what the theory says, and what machines learn from their labels."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from bayespoint import VersionSpace, inference, papers
from bayespoint._support.types import Array
from bayespoint.papers.reproduction.item import Data, Run
from bayespoint.papers.reproduction.tools import max_margin

DIMENSION = 100
ALPHAS = (1, 2, 3, 5, 10)
MACHINES = ("flipper", "billiard", "margin")
BILLIARDS = {"flipper": "flipper", "billiard": "exact billiard"}

# What the numbers of `measure_teachers` are.
KEYS = {
    "alphas": "examples per dimension",
    "errors": "test errors of each machine, by α and teacher",
    "overlap_teacher": "cosine of centre and teacher",
    "overlap_draws": "cosine of two draws",
    "theory": "error of the theory for each α",
}

# Runs of a point in the paper.
PUBLISHED_RUNS = 10

# Balls of the exact billiard; their centres are independent, so that overlaps can be checked.
N_CHAINS = 4

# For integrals of smooth functions that fall like a Gaussian: equal steps are exact to rounding.
NODES = np.linspace(-12, 12, 1001)


def overlap(alpha: float) -> float:
    """Return the overlap of two random consistent classifiers, for infinitely many dimensions.

    The Bayes point errs with probability arccos(sqrt(q)) / pi, a random consistent classifier with
    arccos(q) / pi.
    """

    def gap(q: float) -> float:
        # Gaussian density times exp(-q t^2 / 2) over the Gaussian tail beyond sqrt(q) t.
        log_values = -(1 + q) * NODES**2 / 2 - log_ndtr(-np.sqrt(q) * NODES)
        integral = np.exp(log_values).sum() * (NODES[1] - NODES[0]) / np.sqrt(2 * np.pi)
        return alpha / np.pi * np.sqrt(1 - q) * integral - q

    return brentq(gap, 1e-9, 1 - 1e-9)


def bayes_error(alpha: float) -> float:
    """Return the theory's probability that the Bayes point errs."""
    return np.arccos(np.sqrt(overlap(alpha))) / np.pi


def gibbs_error(alpha: float) -> float:
    """Return the theory's probability that a random consistent classifier errs."""
    return np.arccos(overlap(alpha)) / np.pi


def error_against(teacher: Array, w: Array) -> float:
    """Return the probability that two classifiers differ on a Gaussian input: their angle / pi."""
    cosine = w @ teacher / (np.linalg.norm(w) * np.linalg.norm(teacher))
    return np.arccos(np.clip(cosine, -1, 1)) / np.pi


def teacher_run(alpha: int, n_bounces: int, n_draws: int, entropy: list[int]) -> tuple[float, ...]:
    """Return the errors of each machine, and the two overlaps whose expectations are equal."""
    rng = np.random.default_rng(entropy)
    X, teacher = rng.standard_normal((alpha * DIMENSION, DIMENSION)), rng.standard_normal(DIMENSION)
    teacher /= np.linalg.norm(teacher)
    y = np.sign(X @ teacher)
    space = VersionSpace(X @ X.T, y)
    # Perceptrons live in the space of inputs: random directions there are isotropic.
    flipper = papers.sample_flipper(
        space, 1, n_bounces=n_bounces, directions="isotropic",
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    exact = inference.sample_billiard(
        space, n_draws, n_chains=N_CHAINS, random_state=int(rng.integers(2**31))
    )
    means = exact.draws().mean(axis=1) @ X
    pairs = [means[a] @ means[b] for a in range(N_CHAINS) for b in range(a)]
    centres = X.T @ flipper.bayes_point(), X.T @ exact.bayes_point(), max_margin(y[:, None] * X)
    errors = [error_against(teacher, w) for w in centres]
    return *errors, means.mean(axis=0) @ teacher, np.mean(pairs)


def measure_teachers(run: Run) -> Data:
    """Return errors of each machine by alpha and teacher, and the theory at each alpha."""
    n_teachers = run.size(50, 4)
    sizes = run.size(10_000, 1000), run.size(1000, 100)
    # Teachers of the largest alpha take longest: first, so that no process waits at the end.
    cases = [
        (alpha, *sizes, run.entropy(alpha, k)) for alpha in ALPHAS[::-1] for k in range(n_teachers)
    ]
    values = np.array(run.map(teacher_run, cases)).reshape(len(ALPHAS), n_teachers, -1)[::-1]
    *errors, with_teacher, with_other = np.moveaxis(values, 2, 0).round(6)
    return {
        "alphas": ALPHAS,
        "errors": dict(zip(MACHINES, errors, strict=True)),
        "overlap_teacher": with_teacher,
        "overlap_draws": with_other,
        "theory": [bayes_error(alpha) for alpha in ALPHAS],
    }
