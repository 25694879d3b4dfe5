"""What EP by cells chooses from labels left out."""

import numpy as np
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier
from bayespoint.estimators import cells
from bayespoint.inference.ep.cells import sweeps

GIVEN = {"gamma": 2.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
CELLS = {"cell_size": 60, "n_landmarks": 0, "n_trees": 2}


NEW, LABELS = make_moons(300, noise=0.3, random_state=1)


def log_loss(clf):
    return -np.mean(np.log(clf.predict_proba(NEW)[np.arange(len(LABELS)), LABELS]))


def fitted(X, y, **settings):
    return BayesPointClassifier(**GIVEN | CELLS | settings).fit(X, y)


def test_settings_are_chosen_on_whole_cells():
    """As good as the best of a grid, and landmarks where one rule spans the data."""
    auto = {"gamma": "held-out", "softness": "held-out", "bias": "auto", "n_landmarks": "auto"}
    chosen, grids = [], []
    for seed in (2, 3, 4):  # on one set alone the best of a grid is better by chance
        X, y = make_moons(400, noise=0.3, random_state=seed)
        chosen.append(log_loss(fitted(X, y, cell_size=100, **auto)))
        grid = (fitted(X, y, cell_size=100, gamma=gamma, softness=0.1) for gamma in (0.5, 2, 8))
        grids.append(min(map(log_loss, grid)))
    assert np.mean(chosen) < np.mean(grids) + 0.005
    rng = np.random.default_rng(0)
    X = (rng.random((300, 20)) < 0.3).astype(float)
    y = (X @ rng.standard_normal(20) + 0.5 * rng.standard_normal(300) > 0).astype(int)
    clf = fitted(X, y, cell_size=60, **auto)
    assert clf.settings_.cells.n_landmarks > 0


def test_landmarks_of_many_classes_are_tried_on_the_largest(monkeypatch):
    """Linear classes with few rows per cell: landmarks pay, and three machines tell."""
    asked = []

    def seen(problem, tree, order, begin, landmarks, *more):
        asked.append((landmarks is not None, np.sum(problem.targets > 0, axis=1)))
        return sweeps.fit_cells(problem, tree, order, begin, landmarks, *more)

    monkeypatch.setattr(cells, "fit_cells", seen)
    rng = np.random.default_rng(0)
    X = (rng.random((300, 20)) < 0.3).astype(float)
    y = np.argmax(X @ rng.standard_normal((20, 5)) + [0.2, 0, 0.8, 0.4, 0.6], axis=1)
    clf = fitted(X, y, gamma=0.02, n_landmarks="auto")
    tried = [n_own for with_landmarks, n_own in asked if with_landmarks]
    assert tried
    for n_own in tried:  # rows of the class of each machine: of some rows, about as many as of all
        share = n_own / n_own.sum()
        largest = -np.sort(-np.bincount(y))[:3]
        np.testing.assert_allclose(share, largest / largest.sum(), atol=0.05)
    assert clf.settings_.cells.n_landmarks > 0


def test_a_given_softness_does_not_end_the_search_for_a_width():
    X = np.random.default_rng(0).random((200, 2))
    y = np.sin(25 * X[:, 0]) > 0
    for softness in (2e-4, 9e-5):
        clf = fitted(X, y, gamma="held-out", softness=softness, cell_size=100)
        assert np.max(clf.gamma_) > 30
