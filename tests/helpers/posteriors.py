"""Draws about a centre, over a small Gram matrix."""

import numpy as np

M = 5  # points


def unit_rows(coef, K):
    return coef / np.sqrt(np.einsum("ij,jk,ik->i", coef, K, coef))[:, None]


def make_draws(n=60, seed=0, spread=0.5):
    """A skewed Gram matrix, and unit vectors scattered about one of them."""
    A = np.random.default_rng(7).normal(size=(M, M + 2))
    K = A @ A.T
    rng = np.random.default_rng(seed)
    coef = np.array([1.0, -0.5, 0.3, 0.8, -0.2]) + spread * rng.normal(size=(n, M))
    return K, unit_rows(coef, K)
