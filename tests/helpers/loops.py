"""Compile the loops that tests use: ``python -m helpers.loops billiard`` or ``perceptron``."""

import sys

import numpy as np
from scipy import sparse

from bayespoint import BayesPointClassifier, VersionSpace
from bayespoint.inference import sample_billiard, sample_gibbs


def compile_billiard():
    X = np.random.default_rng(0).standard_normal((12, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    for dtype in (np.float64, np.float32):
        space = VersionSpace((X @ X.T + np.eye(12)).astype(dtype), y)
        sample_billiard(space, 4, n_chains=2, random_state=0)
        sample_billiard(space, 4, n_chains=2, label_noise=0.1, random_state=0)
        sample_gibbs(space, 4, label_noise=0.1, random_state=0)


def compile_perceptron():
    X = np.random.default_rng(0).standard_normal((12, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    clf = BayesPointClassifier(
        gamma=1.0, softness=0.1, inference="perceptron", n_draws=2, random_state=0
    )
    for points in (X, X.astype(np.float32), sparse.csr_matrix(X), sparse.csr_matrix(X, dtype="f4")):
        clf.fit(points, y).predict_proba(points)


if __name__ == "__main__":
    {"billiard": compile_billiard, "perceptron": compile_perceptron}[sys.argv[1]]()
