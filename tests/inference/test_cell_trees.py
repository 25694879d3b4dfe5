"""Trees divide rows into equal cells that any new row finds."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bayespoint.inference.ep.cells.tree import grow


def rows(n=1000, kind="normal"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    if kind == "binary":
        X = (rng.random((n, 30)) < 0.3).astype(float)
    if kind == "constant columns":
        X[:, 1:] = 7.0
    if kind == "far from the origin":
        X += 1e6
    return X


def tree_of(X, size=100, seed=0):
    return grow(X, size, np.random.SeedSequence(seed))


@pytest.mark.parametrize("kind", ["normal", "binary", "constant columns", "far from the origin"])
def test_cells_have_equal_sizes(kind):
    X = rows(kind=kind)
    tree = tree_of(X)
    counts = np.bincount(tree.route(X), minlength=tree.n_cells)
    assert tree.n_cells == 10
    spread = 25 if kind == "binary" else 2  # projections of binary rows are often equal
    assert np.all(np.abs(counts - 100) <= spread)


def test_a_row_finds_its_cell_whatever_rows_are_beside_it():
    X = rows()
    tree = tree_of(X)
    cell = tree.route(X)
    assert_array_equal([tree.route(row[None])[0] for row in X[:200]], cell[:200])
    assert_array_equal(tree.route(X[::-1]), cell[::-1])
    assert_array_equal(tree.route(sp.csr_matrix(X)), cell)
    assert_array_equal(tree.route(X.astype(np.float32)), cell)


def test_rows_of_a_cell_lie_together():
    X = rows()
    cell = tree_of(X).route(X)
    within = np.mean([X[cell == c].var(axis=0).sum() for c in range(10)])
    assert within < 0.5 * X.var(axis=0).sum()
    scattered = np.random.default_rng(1).permutation(cell)
    assert np.mean([X[scattered == c].var(axis=0).sum() for c in range(10)]) > 3


def test_seeds_cut_elsewhere_and_the_same_seed_does_not():
    X = rows()
    first, again, other = (tree_of(X, seed=seed).route(X) for seed in (0, 0, 1))
    assert_array_equal(first, again)
    pairs = np.random.default_rng(2).integers(1000, size=(2, 5000))
    together, also = (labels[pairs[0]] == labels[pairs[1]] for labels in (first, other))
    assert np.mean(also[together]) < 0.9


@pytest.mark.parametrize("kind", ["outliers", "indicators", "sparse indicators"])
def test_rows_that_are_hard_to_divide_equally(kind):
    X = rows(300)
    X[:3] = [[1e10], [2e10], [-1e12]]
    X = X if kind == "outliers" else np.eye(300)
    X = sp.csr_matrix(X) if kind == "sparse indicators" else X
    tree = tree_of(X, size=30)
    counts = np.bincount(tree.route(X), minlength=tree.n_cells)
    assert tree.n_cells <= 15
    assert counts.max() <= 60


def test_wide_rows_take_little_memory():
    X = sp.random(400, 50_000, density=1e-3, format="csr", random_state=0)
    tracemalloc.start()
    tree_of(X)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1e8  # all rows would take 160 MB, twice


def test_rows_that_are_all_alike_are_one_cell():
    X = np.ones((50, 3))
    tree = tree_of(X, size=10)
    assert_array_equal(tree.route(X), 0)
    few = np.repeat([[0.0], [1.0]], 25, axis=0)  # two kinds cannot make five cells
    assert_array_equal(np.unique(tree_of(few, size=10).route(few), return_counts=True)[1], [25, 25])


def test_a_tree_of_many_rows_comes_from_a_sample(monkeypatch):
    from bayespoint.inference.ep.cells import tree

    monkeypatch.setattr(tree, "LEAST_SAMPLE", 1)
    monkeypatch.setattr(tree, "SAMPLED_PER_CELL", 50)
    X = rows(4000)
    grown = tree_of(X)
    counts = np.bincount(grown.route(X), minlength=grown.n_cells)
    assert grown.n_cells == 40
    assert counts.min() > 40
    assert counts.max() < 250
    changed = X.copy()
    changed[1::2] += 100.0  # between the rows of the sample
    assert_array_equal(tree_of(changed).cuts, grown.cuts)


def test_rows_next_to_each_other_may_be_alike(monkeypatch):
    from bayespoint.inference.ep.cells import tree

    monkeypatch.setattr(tree, "LEAST_SAMPLE", 1)
    monkeypatch.setattr(tree, "SAMPLED_PER_CELL", 50)
    X = rows(4000)
    X = X[np.argsort(X[:, 0])]  # the first rows would divide none of the others
    for some in (None, np.arange(1, 4000)):
        grown = grow(X, 100, np.random.SeedSequence(0), rows=some)
        counts = np.bincount(grown.route(X), minlength=grown.n_cells)
        assert counts.min() > 40
        assert counts.max() < 250
