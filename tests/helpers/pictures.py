"""Posteriors for pictures, drawn once, never changed, and what legends say."""

from functools import cache

import numpy as np

from bayespoint import VersionSpace, inference


def points_in_space(n_points, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_points, 3))
    return X, np.where(X @ rng.normal(size=3) > 0, 1, -1)


@cache
def billiard(n_points=10, seed=0, **options):
    """Posterior of rank 3."""
    X, y = points_in_space(n_points, seed)
    space = VersionSpace(X @ X.T, y)
    return inference.sample_billiard(space, 200, n_path=40, random_state=0, **options)


@cache
def billiard_of_rbf(label_noise=0.1, **options):
    """Posterior of rank 20."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))
    space = VersionSpace(K, np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    options = {"n_draws": 200, "random_state": 0} | options
    return inference.sample_billiard(space, label_noise=label_noise, **options)


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]
