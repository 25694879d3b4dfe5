"""Outputs at points that were left out, for the link and for the choice of settings."""

import numpy as np

from bayespoint.space.merging import of_each_class

# The link is fitted on held-out outputs of at most so many points, by so many folds.
LINK_POINTS = 2000
LINK_FOLDS = 5


def link_points(label, entropy):
    """Choose at most `LINK_POINTS` points, every class in proportion and none left out."""
    seed = np.random.SeedSequence(entropy, spawn_key=(0, 1))
    return of_each_class(label, LINK_POINTS, seed)


def out_of_fold(held_out, label, *, n_machines, lengths):
    """Outputs at points of machines that were trained without them.

    Parameters
    ----------
    held_out : callable
        From a dict, of the points outside each fold by its number, to a dict of the outputs of
        machines trained on them, (n_machines, n_points); none for a fold that has no draw.
    label : ndarray of shape (n_points,)
    n_machines : int
    lengths : ndarray of shape (n_points,)
        Of the points in feature space.

    Returns
    -------
    known : ndarray of shape (n_known,)
        Points of the folds that have outputs.
    outputs : ndarray of shape (n_known,) or (n_known, n_machines)
    """
    fold = np.empty(len(label), dtype=np.int64)
    fold[np.argsort(label, kind="stable")] = np.arange(len(label)) % LINK_FOLDS
    outputs = np.zeros((n_machines, len(label)))
    folds = {k: np.flatnonzero(fold != k) for k in range(LINK_FOLDS) if np.any(fold == k)}
    folds = {k: visited for k, visited in folds.items() if len(visited)}
    found = held_out(folds)
    for k, of_fold in found.items():
        outputs[:, fold == k] = of_fold[:, fold == k]
    known = np.flatnonzero(np.isin(fold, list(found)))
    outputs = (outputs / lengths).T[known]
    return known, outputs[:, 0] if n_machines == 1 else outputs
