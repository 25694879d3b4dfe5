"""Permuted kernel perceptrons: the published algorithm, draw by draw, and runs that do not end."""

import threading

import numpy as np
import pytest
from helpers.spaces import KERNELS, dense, make_problem, narrow_space, rows_space
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.threads import open_threads
from bayespoint.inference import sample_perceptron
from bayespoint.inference.perceptron.runs import perceptron_draws, permutations
from bayespoint.space.rows import FullRows


def published(K, y, order):
    """JMLR algorithm 1 with its index corrected: counts of corrections, and their number."""
    a, outputs, streak, position = np.zeros(len(y)), np.zeros(len(y)), 0, 0
    while streak < len(y):
        i = order[position]
        if y[i] * outputs[i] <= 0:
            a[i] += 1
            outputs += y[i] * K[i]
            streak = 0
        else:
            streak += 1
        position = (position + 1) % len(y)
    return a


def softened(K, softness):
    K = K.astype(np.float64)
    K[np.diag_indices_from(K)] *= 1 + softness
    return K


# ---------------------------------------------------------------------- the algorithm


CASES = [("linear", 0.0), ("poly", 0.3), ("rbf", 0.0), ("rbf", 0.3), ("laplacian", 0.0)]
CASES += [("callable", 0.3)]


@pytest.mark.parametrize(("name", "softness"), CASES)
def test_draws_are_those_of_the_published_algorithm(name, softness):
    X, y = make_problem(m=60)
    K = KERNELS[name](X)
    posterior = sample_perceptron(VersionSpace(K, y, softness), n_draws=4, random_state=5)
    metric, order = softened(K, softness), permutations(len(y), 5)
    for number, coef in enumerate(dense(posterior)):
        a = published(metric, y, order(number))
        assert posterior.info["mistakes"][number] == a.sum()
        assert_allclose(coef, y * a / np.sqrt((y * a) @ metric @ (y * a)), rtol=1e-10)
    # Negative control: another order of the points gives another classifier.
    assert np.any((published(metric, y, order(0)[::-1]) > 0) != (dense(posterior)[0] != 0))


def test_an_output_of_exactly_zero_is_a_mistake():
    rng = np.random.default_rng(0)
    for seed in range(8):
        X = np.unique(rng.integers(-3, 4, size=(30, 2)), axis=0)
        X = np.column_stack([X, np.ones(len(X))])  # whole numbers: sums are exact, ties are ties
        y = np.sign(X @ [1.0, 2.0, 0.5])
        posterior = sample_perceptron(VersionSpace(X @ X.T, y), n_draws=3, random_state=seed)
        order = permutations(len(y), seed)
        for number, coef in enumerate(dense(posterior)):
            a = published(X @ X.T, y, order(number))
            assert_allclose(coef * y / np.abs(coef).sum(), a / a.sum(), rtol=1e-12)


@pytest.mark.parametrize(("name", "softness"), CASES)
def test_no_training_error_and_unit_length_in_fresh_outputs(name, softness):
    X, y = make_problem(m=100, seed=1, gap=0.05)
    for dtype in (np.float64, np.float32):
        K = KERNELS[name](X).astype(dtype)
        posterior = sample_perceptron(VersionSpace(K, y, softness), n_draws=6, random_state=0)
        coef, metric = dense(posterior), softened(K, softness)
        assert np.all(y * (coef @ metric) > 0)
        assert_allclose(np.einsum("di,ij,dj->d", coef, metric, coef), 1.0, rtol=1e-10)
        point = posterior.bayes_point()
        assert_allclose(point @ metric @ point, 1.0, rtol=1e-10)
        assert np.all(posterior.info["violated"] == 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ties_up_to_rounding_leave_no_training_error_either(dtype):
    # Tenths on a grid: outputs that are zero in truth are 1e-17 in one order of summation.
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.unique(rng.integers(-3, 4, size=(25, 2)), axis=0) / 10
        X = np.column_stack([X, np.full(len(X), 0.1)])
        y = np.sign(X @ rng.normal(size=3))
        K = (X @ X.T).astype(dtype)
        posterior = sample_perceptron(VersionSpace(K, y), n_draws=20, random_state=seed)
        margins = y * (dense(posterior) @ K.astype(np.float64))
        assert margins.min() > 0, f"seed {seed}: {np.sum(margins <= 0)} outputs, {margins.min()}"


def largest_margin(G):
    """Distance from the origin to the convex hull of points with inner products G."""
    values, vectors = np.linalg.eigh(G)
    Z = vectors * np.sqrt(np.maximum(values, 0.0))
    # Lawson and Hanson's "least distance programming": min ||w|| with Z w >= 1.
    u, _ = nnls(np.vstack([Z.T, np.ones(len(Z))]), np.append(np.zeros(Z.shape[1]), 1.0))
    w = Z.T @ u / (1.0 - u.sum())
    assert_allclose((Z @ w).min(), 1.0, atol=1e-6)
    return 1.0 / np.linalg.norm(w)


@pytest.mark.parametrize("softness", [0.0, 0.5])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_mistakes_stay_below_novikoffs_bound(name, softness):
    X, y = make_problem(m=50, seed=2, gap=0.2)
    K = KERNELS[name](X)
    G = softened(K, softness) * np.outer(y, y)
    bound = G.diagonal().max() / largest_margin(G) ** 2
    posterior = sample_perceptron(VersionSpace(K, y, softness), n_draws=20, random_state=0)
    assert posterior.info["mistakes"].max() <= bound
    assert posterior.info["mistakes"].min() >= 1


def test_machines_that_share_rows_do_not_disturb_each_other():
    X, _ = make_problem(m=150, seed=3)
    label = np.digitize(X[:, 0], [-0.5, 0.5])
    targets = np.array([np.where(label == c, 1, -1) for c in range(3)], dtype=np.int8)
    space = rows_space(X, targets[0], softness=0.1)
    order = permutations(len(X), 0)
    with open_threads(2) as threads:
        space.rows.threads = threads
        settings = {"budget": Budget(), "max_passes": 1000}
        together = list(
            perceptron_draws(space.rows, targets, space.ridge, range(2), order, **settings)
        )
        for c in range(3):
            alone = perceptron_draws(
                space.rows, targets[c : c + 1], space.ridge, range(2), order, **settings
            )
            for left, right in zip(together, alone, strict=True):
                assert_array_equal(left.coef[c], right.coef[0])
                assert_array_equal(left.outputs[c], right.outputs[0])


# ---------------------------------------------------------------------- orders


def test_the_first_draws_are_the_same_however_many_are_asked_for():
    X, y = make_problem(m=100, seed=4)
    space = VersionSpace(KERNELS["rbf"](X), y)
    few, many = (dense(sample_perceptron(space, n, random_state=7)) for n in (5, 300))
    assert_array_equal(few, many[:5])


def test_each_draw_has_an_order_of_its_own():
    orders = {tuple(permutations(20, 0)(number)) for number in range(10)}
    assert len(orders) == 10
    assert all(sorted(order) == list(range(20)) for order in orders)


# ---------------------------------------------------------------------- runs that do not end


def test_giving_up_warns_with_the_number_of_violated_points():
    space = narrow_space(1e-4)
    with pytest.warns(ConvergenceWarning) as caught:
        posterior = sample_perceptron(space, n_draws=5, max_passes=3, random_state=0)
    violated = [np.count_nonzero(space.margins(coef) <= 0) for coef in dense(posterior)]
    assert_array_equal(posterior.info["violated"], violated)
    n_bad = np.count_nonzero(violated)
    assert n_bad > 0
    assert f"{n_bad} of 5 perceptron runs" in str(caught[0].message)
    assert f"up to {max(violated)} training points" in str(caught[0].message)


def test_however_little_time_there_is_one_draw_comes_back(clock):
    X, y = make_problem(m=400, seed=8, gap=0.001)
    space = rows_space(X, y)  # which needs many rows
    for looks in (1, 2, 5):
        clock.step = 1 / looks
        with pytest.warns(ConvergenceWarning, match=r"runs did not converge.*max_time"):
            posterior = sample_perceptron(space, 10**5, max_time=1, random_state=0)
        assert posterior.n_draws == 1
        assert_allclose(space.norm(dense(posterior)[0]), 1.0, rtol=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_in_a_kernel_comes_out_and_leaves_the_rows_usable(n_jobs):
    X, y = make_problem(m=200, seed=9)
    calls = []

    def kernel(A, B):
        calls.append(None)
        if len(calls) == interrupted:
            raise KeyboardInterrupt
        return rbf_kernel(A, B, gamma=0.5)

    def draws(space):
        return dense(sample_perceptron(space, n_draws=4, n_jobs=n_jobs, random_state=0))

    interrupted = -1
    expected = draws(rows_space(X, y, kernel=kernel))
    n_calls, n_threads = len(calls), threading.active_count()
    for share in (0.3, 0.7):
        space = rows_space(X, y, kernel=kernel)
        calls.clear()
        interrupted = 1 + int(share * n_calls)
        with pytest.raises(KeyboardInterrupt):
            draws(space)
        assert threading.active_count() == n_threads
        assert_array_equal(draws(space), expected)


class Interrupted(Budget):
    """Raises KeyboardInterrupt once, after some steps."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def show(self, *args):
        self.after -= 1
        if self.after == -1:
            raise KeyboardInterrupt
        super().show(*args)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_what_was_complete_at_an_interrupt_is_handed_over_unchanged(after):
    X, y = make_problem(m=60)
    rows = FullRows(KERNELS["linear"](X))
    targets, order = y.astype(np.int8)[None, :], permutations(60, 0)
    settings = (rows, targets, np.zeros(60), range(500), order)
    expected = list(perceptron_draws(*settings, budget=Budget()))
    budget = Interrupted(after)
    draws = list(perceptron_draws(*settings, budget=budget))
    assert budget.interrupted
    assert 1 <= len(draws) < 500
    for draw in draws[:-1] if after == 0 else draws:
        assert_array_equal(draw.coef[0], expected[draw.number].coef[0])
