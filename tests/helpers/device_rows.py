"""Points, and rows of their Gram matrix on a device that stands in for a GPU."""

# ruff: noqa: E402

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bayespoint import VersionSpace
from bayespoint._support.threads import Threads
from bayespoint.gpu.billiards import DeviceBalls
from bayespoint.gpu.inputs import DeviceGramInputs, DeviceInputs
from bayespoint.gpu.kernels import laid_out, prepare
from bayespoint.gpu.rows import DeviceRows
from bayespoint.inference.billiard.balls import Table
from bayespoint.inference.billiard.chains import pass_rates
from bayespoint.space.decisions import label_odds
from bayespoint.space.kernels import Kernel
from helpers.stand_in import CPU
from helpers.version_spaces import Problem

PLENTY = 10**9

KERNELS = {
    "linear": {"name": "linear"},
    "poly": {"name": "poly", "gamma": 0.3},
    "poly of degree 2.5": {"name": "poly", "gamma": 0.3, "degree": 2.5, "coef0": 30.0},
    "poly of degree 5": {"name": "poly", "gamma": 0.1, "degree": 5.0, "coef0": 0.0},
    "rbf": {"name": "rbf", "gamma": 0.05},
    "laplacian": {"name": "laplacian", "gamma": 0.05},
}


def make_points(m=100, dtype=np.float64, seed=0):
    """Points of three classes that overlap, off the origin."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=m)
    X = rng.normal(size=(m, 6)) + 2.0 * np.eye(6)[label] + 0.5
    return X.astype(dtype), label


def targets_of(label):
    return np.where(label == np.arange(label.max() + 1)[:, None], 1, -1).astype(np.int8)


def gram_of(name, X, bias=0.5):
    kernel = Kernel(**KERNELS[name], bias=bias).fit_layout(X)
    K = np.tril(kernel(X))
    return K + np.tril(K, -1).T


def device_points(kernel, X):
    return prepare(kernel, laid_out(kernel, torch.from_numpy(X)))


def given_rows(K, memory=PLENTY, device=CPU):
    """Rows of a Gram matrix that is there, so that both sides have the same bits."""
    kernel, gram = Kernel("precomputed", normalize=False), torch.from_numpy(K).to(device)
    return DeviceRows(kernel, prepare(kernel, gram, gram.diagonal()), memory=memory, gram=gram)


def rows_of(kernel, X):
    """Rows as a fit makes them, from points or from a Gram matrix."""
    kind = DeviceGramInputs if kernel.name == "precomputed" else DeviceInputs
    return kind(X, CPU).rows(kernel, PLENTY, Threads(1))


def table_of(problem, n_balls, dtype=np.float64, softness=0.0, device=CPU):
    """What balls of one machine fly over."""
    rows = given_rows(problem.K.astype(dtype), device=device)
    space = VersionSpace(rows, problem.y, softness)
    noise = np.broadcast_to(problem.noise, len(problem.y)).astype(np.float64)
    walls = [np.tile(one, (n_balls, 1)) for one in pass_rates(space, label_odds(noise))]
    return Table(rows, space.ridge, rows.factorise(softness, Threads(1)), *walls)


def ball_problem(m=60, noise=0.0):
    X, label = make_points(m)
    return Problem(gram_of("rbf", X), np.where(label == 0, 1, -1), noise)


def inside(problem, ridge, n_balls):
    """Coefficients of unit vectors in version space."""
    m, soft = len(problem.y), problem.K + np.diag(ridge)
    margins = np.random.default_rng(0).uniform(0.5, 1.5, size=(n_balls, m))
    start = np.linalg.solve(soft, (problem.y * margins).T).T
    return start / np.sqrt(np.sum(start * (start @ soft), axis=1, keepdims=True))


def make_balls(problem, dtype=np.float64, n_balls=6, seed=0, factor=None, **options):
    """Balls inside version space; ``factor`` makes another one of the table's."""
    table = table_of(problem, n_balls, dtype, softness=0.05, **options)
    table = table if factor is None else table._replace(factor=factor(table.factor))
    return DeviceBalls(table, inside(problem, table.ridge, n_balls), np.random.SeedSequence(seed))
