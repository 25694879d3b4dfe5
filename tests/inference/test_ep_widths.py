"""Slopes of the evidence in widths of features, and what they lead to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayespoint._support.threads import Threads
from bayespoint.inference.ep.cells.cell import propagate_cell
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.widths import (
    HostCells,
    WidthCell,
    best_widths,
    kernel_values,
    learn_widths,
)
from bayespoint.space.kernels import Kernel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.sign(X[:, 0] + 0.3 * X[:, 1] + 0.3 * RNG.standard_normal(60))
WIDTHS = np.array([0.5, 0.3, 0.2, 0.1])


def labels(y, softness=0.1, copies=1.0):
    ones = np.ones(len(y))
    return Likelihood(y, softness * ones, np.inf * ones, 0 * ones, copies * ones)


def log_evidence(kernel, widths, likelihood):
    values = kernel_values(kernel.name, X, widths)
    K = (values + kernel.bias) / (1 + kernel.bias if kernel.normalize else 1)
    start = np.zeros(len(X))
    found = propagate_cell(K, start, likelihood, None, tol=1e-12, max_sweeps=400, dtype=np.float64)
    return found.log_evidence


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("copies", [1.0, 2.5])
def test_slopes_are_finite_differences(name, normalize, copies):
    kernel, likelihood = Kernel(name, bias=0.7, normalize=normalize), labels(Y, copies=copies)
    cell = WidthCell(X, [likelihood])
    for _ in range(100):
        found = cell.slopes(WIDTHS, kernel, sweeps=5)
    steps = 1e-5 * np.eye(4)
    expected = [
        (log_evidence(kernel, WIDTHS * np.exp(step), likelihood)
         - log_evidence(kernel, WIDTHS * np.exp(-step), likelihood)) / 2e-5
        for step in steps
    ]  # fmt: skip
    assert_allclose(found, expected, atol=1e-6)
    # Where sites are not those of these widths, they are others: the check can fail.
    assert np.max(np.abs(WidthCell(X, [likelihood]).slopes(WIDTHS, kernel) - found)) > 0.01


def test_single_precision_has_the_same_slopes():
    kernel, likelihood = Kernel("rbf", bias=1.0), labels(Y, softness=1e-3)
    found = []
    for dtype in (np.float32, np.float64):
        cell = WidthCell(X.astype(dtype), [likelihood])
        for _ in range(40):
            slopes = cell.slopes(WIDTHS, kernel)
        found.append(slopes)
    assert_allclose(*found, atol=1e-3)


def learnt(X, y, group=None, **options):
    group = np.arange(X[0].shape[1]) if group is None else group
    cells = [WidthCell(part, [labels(t)]) for part, t in zip(X, y, strict=True)]
    begin = np.full(X[0].shape[1], 0.25)
    kernel = Kernel("rbf", bias=1.0)
    options = {"origin": begin, "group": group, **options}
    return learn_widths(HostCells(cells, Threads(1)), begin, kernel, **options)


def two_cells(n=120, p=6):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2, n, p))
    return X, np.where(X[:, :, 0] * X[:, :, 1] > 0, 1.0, -1.0)


def test_features_that_matter_have_the_largest_widths():
    X, y = two_cells()
    widths = learnt(X, y)
    assert min(widths[:2]) > 10 * max(widths[2:])
    assert_allclose(learnt(X[:, :, ::-1].copy(), y)[::-1], widths, rtol=1e-6)
    assert_allclose(learnt(X[::-1], y[::-1]), widths, rtol=1e-6)
    # Labels at random: no feature stands out as much.
    chance = learnt(X, np.random.default_rng(0).permutation(y.T).T)
    assert np.ptp(np.log(chance)) < np.ptp(np.log(widths))


def test_a_group_has_one_width():
    X, y = two_cells()
    widths = learnt(X, y, group=np.array([0, 1, 2, 2, 2, 2]))
    assert len(np.unique(widths[2:])) == 1
    assert min(widths[:2]) > 10 * widths[2]


def test_a_narrow_prior_keeps_widths_together_and_stops_keep_them():
    X, y = two_cells()
    apart = [np.ptp(np.log(learnt(X, y, deviation=d))) for d in (0.01, 3.0)]
    assert apart[0] < 0.2 * apart[1]
    assert_allclose(learnt(X, y, stop=lambda: True), 0.25)


def test_a_column_without_width_stays_out():
    X, y = two_cells()
    cells = [WidthCell(part, [labels(t)]) for part, t in zip(X, y, strict=True)]
    begin = np.array([0.25, 0.25, 0.25, 0.25, 0.25, 0.0])
    found = learn_widths(
        HostCells(cells, Threads(1)),
        begin,
        Kernel("rbf"),
        origin=begin,
        group=np.arange(6),
        steps=5,
    )
    assert found[-1] == 0
    assert np.all(found[:-1] > 0)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_gains_of_small_changes_are_those_that_slopes_tell(name):
    kernel, likelihood = Kernel(name, bias=0.7), labels(Y)
    cell = WidthCell(X, [likelihood])
    for _ in range(60):
        slopes = cell.slopes(WIDTHS, kernel)
    gains = cell.gains(WIDTHS, WIDTHS * np.exp([1e-4, 1e-4, 0.0, 1e-4]), kernel)
    assert_allclose(gains / 1e-4, slopes * [1, 1, 0, 1], rtol=2e-3)


def test_a_feature_that_seems_lost_gets_a_second_chance():
    """Few steps leave it where it is; what the evidence would gain tells of it, and of no other."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 5)).astype(np.float32)
    y = np.where(X[:, 0] + 2 * (np.abs(X[:, 1]) - 0.7) > 0, 1.0, -1.0)
    cells = HostCells([WidthCell(X, [labels(y)])], Threads(1))
    begin, kernel = np.array([0.25, 1e-4, 1e-4, 1e-4, 1e-4]), Kernel("rbf", bias=1.0)
    options = {"origin": np.full(5, 0.25), "group": np.arange(5), "steps": 5}
    left = learn_widths(cells.fresh(), begin, kernel, **options)
    assert left[1] < 1e-3
    found = best_widths(cells, [begin], kernel, **options)
    assert found[1] > 0.1 > 10 * max(found[2:])
    gains = cells.gains(left, np.where(left < 0.01, 0.25, left), kernel)
    assert gains[1] > 10 > max(gains[2:])
