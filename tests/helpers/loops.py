"""Compile the loops that tests use: ``python -m helpers.loops billiard`` or ``others``."""

import sys

import numpy as np
from scipy import sparse

from bayespoint import BayesPointClassifier, VersionSpace
from bayespoint.inference import sample_billiard, sample_gibbs

X = np.random.default_rng(0).standard_normal((12, 3))
y = np.where(X[:, 0] > 0, 1, -1)


def spaces():
    for dtype in (np.float64, np.float32):
        yield VersionSpace((X @ X.T + np.eye(12)).astype(dtype), y)


def compile_billiard():
    for space in spaces():
        sample_billiard(space, 4, n_chains=2, random_state=0)
        sample_billiard(space, 4, n_chains=2, label_noise=0.1, random_state=0)


def compile_others():
    """The Gibbs sampler, perceptrons and sparse rows: about as long as the billiard."""
    for space in spaces():
        sample_gibbs(space, 4, label_noise=0.1, random_state=0)
    clf = BayesPointClassifier(
        gamma=1.0, softness=0.1, bias=1.0, inference="perceptron", n_draws=2, random_state=0
    )
    for points in (X, X.astype(np.float32), sparse.csr_matrix(X), sparse.csr_matrix(X, dtype="f4")):
        clf.fit(points, y).predict_proba(points)
    for dtype in (np.float64, np.float32):
        BayesPointClassifier(
            "laplacian", gamma="ard", softness=0.1, bias=1.0, inference="ep", random_state=0
        ).fit(X.astype(dtype), y)


if __name__ == "__main__":
    {"billiard": compile_billiard, "others": compile_others}[sys.argv[1]]()
