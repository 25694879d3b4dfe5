"""The steepness of the probability link, from held-out outputs of perceptrons."""

import numpy as np

from bayespoint.decisions import fit_link
from bayespoint.ensemble import Ensemble
from bayespoint.perceptrons import perceptron_draws

# The link is fitted on held-out outputs of at most so many points, by so many folds and draws.
LINK_POINTS = 2000
LINK_FOLDS = 5
LINK_DRAWS = 10


def link_points(label, entropy):
    """Choose at most `LINK_POINTS` points, every class in proportion and none left out."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0, 1)))
    share = min(1.0, LINK_POINTS / len(label))
    chosen = []
    for c in range(label.max() + 1):
        members = rng.permutation(np.flatnonzero(label == c))
        chosen.append(members[: max(1, int(share * len(members)))])
    return np.concatenate(chosen)


def calibrate(rows, targets, ridge, label, weight, *, n_draws, entropy, budget):
    """Fit the link's steepness on out-of-fold outputs.

    One store of rows serves all folds: a run visits the points outside its fold only, and its
    outputs at the points of the fold are held-out outputs.

    Parameters
    ----------
    rows : GramRows
        Of the calibration points.
    targets, ridge : ndarray
        As in `perceptron_draws`.
    label, weight : ndarray of shape (n_points,)
    n_draws : int
        Draws of the model; at most `LINK_DRAWS` are used here.
    entropy : int
    budget : Budget

    Returns
    -------
    float
    """
    n_draws = min(n_draws, LINK_DRAWS)
    fold = np.empty(len(label), dtype=np.int64)
    fold[np.argsort(label, kind="stable")] = np.arange(len(label)) % LINK_FOLDS
    outputs = np.zeros(targets.shape)
    for k in range(LINK_FOLDS):
        visited = np.flatnonzero(fold != k)
        if not len(visited) or not np.any(fold == k):
            continue
        ensemble = Ensemble(*targets.shape)
        orders = _orders(visited, entropy, k)
        for draw in perceptron_draws(rows, targets, ridge, range(n_draws), orders, budget=budget):
            ensemble.add(draw)
        outputs[:, fold == k] = ensemble.unit_mean_outputs()[:, fold == k]
    outputs = (outputs / np.sqrt(rows.diagonal)).T
    return fit_link(outputs[:, 0] if len(targets) == 1 else outputs, label, weight)


def _orders(visited, entropy, fold):
    def order_of_draw(number):
        seed = np.random.SeedSequence(entropy, spawn_key=(1, fold, number))
        return np.random.default_rng(seed).permutation(visited).astype(np.int32)

    return order_of_draw
