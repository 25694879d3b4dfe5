"""Cells that go on learning, against Gaussians over all rows and against cells that began anew."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.inference.draws import Plan
from bayespoint.inference.ep.cells.cell import Message, united
from bayespoint.inference.ep.cells.growing import (
    GrowingTree,
    faded,
    fit_of,
    forgotten,
    grown,
    nothing_lost,
    trees_of,
)
from bayespoint.inference.ep.cells.landmarks import landmarks_at
from bayespoint.inference.ep.cells.method import CellSettings
from bayespoint.inference.ep.cells.prediction import CellModel
from bayespoint.inference.ep.cells.problem import CellProblem, Sweeping
from bayespoint.inference.ep.cells.sweeps import CellSweeps, fit_cells, fit_tree
from bayespoint.inference.ep.cells.tree import empty_tree, grow
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel

M = 120
RNG = np.random.default_rng(0)
X = RNG.standard_normal((M, 3))
KERNEL = Inputs(X).fit_layout(Kernel("rbf", gamma=0.3, bias=0.5))
ANGLE = X[:, 0] + 0.5 * X[:, 1] + 0.4 * RNG.standard_normal(M)
TARGETS = np.array([np.where(ANGLE > 0, 1, -1), np.where(ANGLE > 0.8, 1, -1)], dtype=np.int8)
COPIES = RNG.choice([0.5, 1.0, 3.0], M)
Z = landmarks_at(KERNEL, X[:10])
BOTH = pytest.mark.parametrize("landmarks", [None, Z], ids=["alone", "landmarks"])
COARSER = 20  # times the tolerance of a plan is that of cells


def tolerance(landmarks):
    """Of outputs that are told in single precision; around landmarks steps are longer."""
    return 1e-5 if landmarks is None else 1e-4


def problem(rows=slice(None), copies=None):
    n = len(X[rows])
    copies = COPIES[rows] if copies is None else copies
    odds, right = np.full((2, n), np.inf), np.zeros((2, n))
    return CellProblem(
        KERNEL, X[rows], TARGETS[:, rows], odds, right, np.full(n, 0.1), copies,
        np.ones(n, dtype=bool), np.minimum(copies, 1.0), CellSweeps,
    )  # fmt: skip


def plan(landmarks=None, max_time=None):
    return Plan(0, tolerance(landmarks), 0, Budget(max_time), Threads(1))


def sweeping(landmarks):
    return Sweeping(tol=COARSER * tolerance(landmarks))


def tree_of(size=40, seed=0, rows=None):
    return grow(X, size, np.random.SeedSequence(seed), rows=rows)


def empty(tree, landmarks, n_machines=2):
    begun = GrowingTree.empty(3, n_machines, landmarks)
    return GrowingTree(**{**vars(begun), "tree": tree})


def in_batches(ends, landmarks, *, size=10**6, tree=None, due=0.0, copies=None, max_time=None):
    """Let rows come in several batches; the last model, and what is known of its trees."""
    trees, before = [empty(empty_tree(3) if tree is None else tree, landmarks)], 0
    settings = CellSettings(size, 10 if landmarks else 0, 1)
    for end in ends:
        rows = np.arange(end)
        trees = [one.over(np.arange(before), end) for one in trees]
        given = problem(rows, None if copies is None else copies[:end])
        cells, trees = grown(given, settings, trees, landmarks, plan(landmarks, max_time), 1e9, due)
        before = end
    return cells, trees


def at_once(tree, landmarks, copies=None):
    return fit_tree(problem(copies=copies), tree, landmarks, sweeping(landmarks))


# ---------------------------------------------------------------------- trees


def test_a_divided_cell_has_the_cells_of_its_part():
    tree = tree_of()
    cell = tree.route(X)
    for divided in range(tree.n_cells):
        rows = np.flatnonzero(cell == divided)
        part = tree_of(10, seed=1, rows=rows)
        assert part.n_cells > 2
        wider = tree.with_cell_divided(divided, part)
        assert wider.n_cells == tree.n_cells + part.n_cells - 1
        found, inner = wider.route(X), part.route(X[rows])
        assert_array_equal(found[cell != divided], cell[cell != divided])
        wanted = np.where(inner == 0, divided, tree.n_cells + inner - 1)
        assert_array_equal(found[rows], wanted)


def test_cells_are_divided_again_and_again():
    tree = empty_tree(3)
    for seed in range(6):
        cell = tree.route(X)
        largest = np.argmax(np.bincount(cell))
        rows = np.flatnonzero(cell == largest)
        tree = tree.with_cell_divided(largest, tree_of(len(rows) // 2 + 1, seed, rows))
        now = tree.route(X)
        assert_array_equal(now[cell != largest], cell[cell != largest])
        assert_array_equal(np.unique(now[rows]), [largest, tree.n_cells - 1])
    assert tree.n_cells == 7
    assert_array_equal(np.unique(tree.route(X)), np.arange(7))
    alike = tree_of(10, rows=np.zeros(30, dtype=int))  # rows that cannot be told apart
    assert_array_equal(tree.with_cell_divided(3, alike).route(X), tree.route(X))


def known(tree, seed):
    """Any sites."""
    rng = np.random.default_rng(seed)
    one = empty(tree, None).over(np.zeros(0, dtype=int), M)
    tau, nu, coef = rng.gamma(1.0, size=(2, M)), *rng.standard_normal((2, 2, M))
    return GrowingTree(**{**vars(one), "tau": tau, "nu": nu, "coef": coef})


@pytest.mark.parametrize(
    "sizes", [[40], [200], [40, 200, 20], [200, 40], [200, 200], [20, 40, 200]], ids=str
)
def test_a_model_gives_its_trees_back(sizes):
    trees = [known(tree_of(size, seed), seed) for seed, size in enumerate(sizes)]
    fits = [fit_of(one, one.tree.route(X)) for one in trees]
    model = CellModel.of(fits, COPIES, None)
    sites = np.array([[one.tau, one.nu] for one in trees])
    again = trees_of(model, sites, [None] * len(trees), np.zeros((len(trees), M), dtype=bool))
    assert len(again) == len(trees)
    for one, other in zip(trees, again, strict=True):
        assert other.tree.n_cells == one.tree.n_cells
        assert_array_equal(other.tree.route(X), one.tree.route(X))
        for name in ("cuts", "normals", "children"):
            assert_array_equal(getattr(other.tree, name), getattr(one.tree, name))
        for name in ("tau", "nu", "coef"):
            assert_array_equal(getattr(other, name), getattr(one, name))


# ---------------------------------------------------------------------- rows that come later


@BOTH
def test_batches_end_where_all_rows_at_once_do(landmarks):
    tree = tree_of()
    _, (one,) = in_batches([30, 31, 80, M], landmarks, tree=tree)
    fit = at_once(tree, landmarks)
    assert not np.any(one.waiting)
    assert_allclose(one.tau, fit.tau, rtol=2e-3, atol=2e-3)
    assert_allclose(one.nu, fit.nu, rtol=2e-3, atol=2e-3)
    assert_allclose(one.coef, fit.coef, rtol=2e-3, atol=2e-3)
    if landmarks is not None:
        assert_allclose(one.common_mean, fit.common_mean, atol=1e-3)
        assert_allclose(one.common_factor, fit.common_factor, atol=2e-3)
    # Rows that nobody swept are seen: sites of the first batches are others.
    _, (early,) = in_batches([30, 31, 80], landmarks, tree=tree)
    assert np.max(np.abs(early.tau - fit.tau[:, :80])) > 0.05


@BOTH
def test_cells_that_grow_are_divided_and_swept(landmarks):
    cells, (one,) = in_batches([30, 60, 90, M], landmarks, size=20)
    sizes = np.bincount(one.tree.route(X))
    assert len(sizes) == one.tree.n_cells >= 5
    assert sizes.max() <= 30
    fit = at_once(one.tree, landmarks)
    assert_allclose(one.tau, fit.tau, rtol=2e-3, atol=2e-3)
    assert_allclose(one.nu, fit.nu, rtol=2e-3, atol=2e-3)
    assert cells.draws.info["cells"] == [one.tree.n_cells]
    model = CellModel.of([fit_of(one, one.tree.route(X))], COPIES, landmarks)
    assert_allclose(cells.model.coef, model.coef)


@BOTH
def test_a_weight_of_three_is_three_copies(landmarks):
    tree = tree_of()
    weight = np.full(M, 3.0)
    _, (weighted,) = in_batches([50, M], landmarks, tree=tree, copies=weight)
    rows = np.repeat(np.arange(M), 3)
    copied = fit_tree(problem(rows, np.ones(3 * M)), tree, landmarks, sweeping(landmarks))
    assert_allclose(weighted.tau, copied.tau[:, ::3], rtol=5e-3, atol=5e-3)
    assert_allclose(weighted.nu, copied.nu[:, ::3], rtol=5e-3, atol=5e-3)
    once = at_once(tree, landmarks, np.ones(M))
    assert np.max(np.abs(weighted.nu - once.nu)) > 0.1


@BOTH
def test_rows_wait_until_a_cell_has_grown_enough(landmarks):
    tree = tree_of()
    _, (before,) = in_batches([100], landmarks, tree=tree, copies=np.ones(M))
    _, (one,) = in_batches([100, M], landmarks, tree=tree, due=10.0, copies=np.ones(M))
    assert_array_equal(one.waiting, np.arange(M) >= 100)
    assert_array_equal(one.tau[:, 100:], 0)
    assert_allclose(one.coef[:, :100], before.coef)
    _, (learnt,) = in_batches([100, M], landmarks, tree=tree, due=0.01, copies=np.ones(M))
    assert not np.any(learnt.waiting)
    assert np.all(learnt.tau[:, 100:] > 0)


def test_other_machines_are_mirror_images_or_know_nothing():
    one = known(tree_of(), 0)
    rng = np.random.default_rng(1)
    lost = Message(rng.standard_normal((2, 4, 4)), rng.standard_normal((2, 4)))
    one = GrowingTree(**{**vars(one), "lost": lost, "waiting": np.zeros(M, dtype=bool)})
    three = one.of_machines([(0, -1.0), (0, 1.0), (None, 1.0)])
    assert_array_equal(three.tau, [one.tau[0], one.tau[0], np.zeros(M)])
    assert_array_equal(three.nu, [-one.nu[0], one.nu[0], np.zeros(M)])
    assert_array_equal(three.coef, [-one.coef[0], one.coef[0], np.zeros(M)])
    assert_array_equal(three.lost.precision, [*lost.precision[[0, 0]], np.zeros((4, 4))])
    assert_array_equal(three.lost.shift, [-lost.shift[0], lost.shift[0], np.zeros(4)])
    assert np.all(three.waiting)
    assert not np.any(one.of_machines([(1, 1.0), (0, -1.0)]).waiting)


# ---------------------------------------------------------------------- Gaussians by hand


def said(rows, cell, tau, nu, copies=COPIES):
    """What rows say of w by dense inverses: precision and shift, for one machine."""
    features = Z.features(KERNEL, KERNEL.prepare(X))
    precision, shift = np.zeros((features.shape[1],) * 2), np.zeros(features.shape[1])
    K = KERNEL(X)
    for c in np.unique(cell):
        own = rows[cell[rows] == c]
        own = own[tau[own] > 0]
        F, t = features[own], copies[own] * tau[own]
        R = K[np.ix_(own, own)] - F @ F.T
        inverse = np.linalg.inv(R + np.diag(1 / t))
        precision += F.T @ inverse @ F
        shift += F.T @ inverse @ (copies[own] * nu[own] / t)
    return precision, shift


def test_rows_that_are_dropped_leave_what_they_said():
    tree = tree_of()
    cell, one = tree.route(X), known(tree, 3)
    kept = np.random.default_rng(4).random(M) < 0.4
    settings = CellSettings(40, 10, 1)
    lost = forgotten(problem(), one, kept, Z, settings, plan(), 1e9)
    every, rest = np.arange(M), np.flatnonzero(kept)
    for machine, sites in enumerate(zip(one.tau, one.nu, strict=True)):
        whole, remaining = said(every, cell, *sites), said(rest, cell, *sites)
        for found, a, b in zip(lost, whole, remaining, strict=True):
            assert_allclose(found[machine] + b, a, rtol=1e-3, atol=1e-3)
        # Rows of a cell know of each other: it is not what the dropped rows say by themselves.
        alone = said(np.flatnonzero(~kept), cell, *sites)
        assert np.max(np.abs(alone[0] - lost.precision[machine])) > 0.1
        assert np.linalg.eigvalsh(lost.precision[machine])[0] > -1e-3
    before = Message(np.ones_like(lost.precision), np.ones_like(lost.shift))
    more = forgotten(
        problem(), GrowingTree(**{**vars(one), "lost": before}), kept, Z, settings, plan(), 1e9
    )
    for found, wanted in zip(more, united(lost, before), strict=True):
        assert_allclose(found, wanted)


def test_the_others_stay_at_rest_when_a_cell_is_dropped():
    tree = tree_of()
    cell = tree.route(X)
    fit = at_once(tree, Z)
    one = GrowingTree(**{**vars(empty(tree, Z).over(np.zeros(0, dtype=int), M)),
                         "tau": fit.tau, "nu": fit.nu})  # fmt: skip
    kept = cell != 1
    lost = forgotten(problem(), one, kept, Z, CellSettings(40, 10, 1), plan(), 1e9)
    rows = np.flatnonzero(kept)
    order = np.argsort(cell[rows], kind="stable")
    begin = np.searchsorted(cell[rows][order], np.arange(tree.n_cells + 1))
    start = fit.tau[:, rows], fit.nu[:, rows]

    def swept(message):
        return fit_cells(problem(rows), tree, order, begin, Z, sweeping(Z), start, message)

    assert_allclose(swept(lost).tau, start[0], rtol=2e-3, atol=2e-3)
    assert_allclose(swept(lost).common_mean, fit.common_mean, atol=2e-3)
    assert np.max(np.abs(swept(None).common_mean - fit.common_mean)) > 0.05
    half = swept(faded(lost, 0.5))
    assert np.max(np.abs(half.common_mean - fit.common_mean)) > 0.01
    assert_allclose(swept(faded(lost, 0.0)).common_mean, swept(None).common_mean, atol=2e-3)


def test_what_fades_is_what_was_said_and_not_the_prior():
    lost = Message(np.eye(3)[None], np.ones((1, 3)))
    assert_array_equal(faded(lost, 0.25).precision, 0.25 * lost.precision)
    assert_array_equal(faded(lost, 0.25).shift, 0.25 * lost.shift)
    assert faded(None, 0.5) is None
    assert united(None, lost) is lost
    assert_array_equal(united(lost, nothing_lost(1, 3)).shift, lost.shift)


@pytest.mark.parametrize("max_time", [None, 0.0], ids=["at rest", "no time"])
def test_mean_precision_and_coefficients_are_those_of_the_sites(max_time):
    """Also of sites that had no time to converge."""
    tree = tree_of()
    cell = tree.route(X)
    _, (one,) = in_batches([70, M], Z, tree=tree, max_time=max_time)
    assert np.all(one.waiting) if max_time == 0 else not np.any(one.waiting)
    features, K = Z.features(KERNEL, KERNEL.prepare(X)), KERNEL(X)
    for machine in range(2):
        tau, nu = one.tau[machine], one.nu[machine]
        precision, shift = said(np.arange(M), cell, tau, nu)
        precision += np.eye(len(shift))
        mean = np.linalg.solve(precision, shift)
        lower = one.common_factor[machine]
        assert_allclose(lower @ lower.T, precision, rtol=1e-3, atol=1e-3)
        assert_allclose(one.common_mean[machine], mean, atol=1e-3)
        for c in range(tree.n_cells):
            rows = np.flatnonzero((cell == c) & (tau > 0))
            F = features[rows]
            R = K[np.ix_(rows, rows)] - F @ F.T
            inverse = np.linalg.inv(R + np.diag(1 / (COPIES[rows] * tau[rows])))
            coef = inverse @ (nu[rows] / tau[rows] - F @ mean)
            assert_allclose(one.coef[machine, rows], coef, rtol=5e-3, atol=5e-3)
    assert np.any(one.tau)


def test_cells_that_time_did_not_allow_for_wait():
    """Those that were divided as well, though no row of theirs is new."""
    _, (one,) = in_batches([M], None, tree=tree_of(), max_time=0.0)
    cell = one.tree.route(X)
    assert_array_equal(one.waiting, cell > 0)
    assert_array_equal(np.any(one.tau > 0, axis=0), cell == 0)
    _, (whole,) = in_batches([M], None)
    settings = CellSettings(40, 0, 1)
    _, (cut,) = grown(problem(), settings, [whole], None, plan(max_time=0.0), 1e9, 0.0)
    cell = cut.tree.route(X)
    assert cut.tree.n_cells > 2
    assert_array_equal(cut.waiting, cell > 0)
    _, (done,) = grown(problem(), settings, [cut], None, plan(), 1e9, 0.0)
    assert not np.any(done.waiting)
    assert_allclose(done.nu, at_once(done.tree, None).nu, rtol=2e-3, atol=2e-3)
