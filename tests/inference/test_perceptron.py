"""Permuted kernel perceptrons against the published algorithm, draw by draw."""

import numpy as np
import pytest
from helpers.spaces import KERNELS, dense, make_problem, rows_space
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.checks import entropy_of
from bayespoint._support.threads import open_threads
from bayespoint.inference import sample_perceptron
from bayespoint.inference.perceptron.runs import perceptron_draws, permutations


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


@pytest.mark.parametrize("softness", [0.0, 0.3])
@pytest.mark.parametrize("name", KERNELS)
def test_draws_are_those_of_the_published_algorithm(name, softness):
    X, y = make_problem()
    K = KERNELS[name](X)
    posterior = sample_perceptron(VersionSpace(K, y, softness), n_draws=6, random_state=5)
    metric, order = softened(K, softness), permutations(len(y), 5)
    for number, coef in enumerate(dense(posterior)):
        a = published(metric, y, order(number))
        assert posterior.info["mistakes"][number] == a.sum()
        assert_allclose(coef, y * a / np.sqrt((y * a) @ metric @ (y * a)), rtol=1e-10)
    # Negative control: another order of the points gives another classifier.
    assert np.any((published(metric, y, order(0)[::-1]) > 0) != (dense(posterior)[0] != 0))


def test_an_output_of_exactly_zero_is_a_mistake():
    rng = np.random.default_rng(0)
    for seed in range(20):
        X = np.unique(rng.integers(-3, 4, size=(30, 2)), axis=0)
        X = np.column_stack([X, np.ones(len(X))])  # whole numbers: sums are exact, ties are ties
        y = np.sign(X @ [1.0, 2.0, 0.5])
        posterior = sample_perceptron(VersionSpace(X @ X.T, y), n_draws=3, random_state=seed)
        order = permutations(len(y), seed)
        for number, coef in enumerate(dense(posterior)):
            a = published(X @ X.T, y, order(number))
            assert_allclose(coef * y / np.abs(coef).sum(), a / a.sum(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", KERNELS)
def test_no_training_error_and_unit_length_in_fresh_outputs(name, dtype):
    X, y = make_problem(m=150, seed=1, gap=0.05)
    K = KERNELS[name](X).astype(dtype)
    for softness in (0.0, 0.1):
        posterior = sample_perceptron(VersionSpace(K, y, softness), n_draws=10, random_state=0)
        coef, metric = dense(posterior), softened(K, softness)
        assert np.all(y * (coef @ metric) > 0)
        assert_allclose(np.einsum("di,ij,dj->d", coef, metric, coef), 1.0, rtol=1e-10)
        point = posterior.bayes_point()
        assert_allclose(point @ metric @ point, 1.0, rtol=1e-10)
        assert np.all(posterior.info["violated"] == 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ties_up_to_rounding_leave_no_training_error_either(dtype):
    # Tenths on a grid: outputs that are zero in truth are 1e-17 in one order of summation.
    for seed in range(40):
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
    posterior = sample_perceptron(VersionSpace(K, y, softness), n_draws=50, random_state=0)
    assert posterior.info["mistakes"].max() <= bound
    assert posterior.info["mistakes"].min() >= 1


def test_machines_that_share_rows_do_not_disturb_each_other():
    X, _ = make_problem(m=200, seed=3)
    label = np.digitize(X[:, 0], [-0.5, 0.5])
    targets = np.array([np.where(label == c, 1, -1) for c in range(3)], dtype=np.int8)
    space = rows_space(X, targets[0], softness=0.1)
    order = permutations(len(X), 0)
    with open_threads(2) as threads:
        space.rows.threads = threads
        settings = {"budget": Budget(), "max_passes": 1000}
        together = list(
            perceptron_draws(space.rows, targets, space.ridge, range(4), order, **settings)
        )
        for c in range(3):
            alone = perceptron_draws(
                space.rows, targets[c : c + 1], space.ridge, range(4), order, **settings
            )
            for left, right in zip(together, alone, strict=True):
                assert_array_equal(left.coef[c], right.coef[0])
                assert_array_equal(left.outputs[c], right.outputs[0])


# ---------------------------------------------------------------------- reproducible


@pytest.mark.parametrize("rows", ["matrix", "on demand"])
def test_draws_do_not_depend_on_threads_number_or_memory(rows):
    X, y = make_problem(m=300, seed=4)
    spaces = [VersionSpace(KERNELS["rbf"](X), y)] * 3
    if rows == "on demand":
        spaces = [rows_space(X, y, n_cached) for n_cached in (1, 1, 300)]
    reference = dense(sample_perceptron(spaces[0], n_draws=12, n_jobs=1, random_state=7))
    for space, n_jobs, n_draws in ((spaces[1], 2, 12), (spaces[2], 2, 5), (spaces[2], 1, 12)):
        posterior = sample_perceptron(space, n_draws=n_draws, n_jobs=n_jobs, random_state=7)
        assert_array_equal(dense(posterior), reference[:n_draws])
        # Rows can be asked for afterwards, too.
        margins = space.margins(posterior.bayes_point())
        assert np.all(margins > 0)


def test_random_state_is_a_number_a_generator_or_nothing():
    space = VersionSpace(np.eye(20) + 0.5, np.ones(20))

    def draw(random_state):
        return dense(sample_perceptron(space, n_draws=2, random_state=random_state))

    assert_array_equal(draw(3), draw(np.int64(3)))
    assert_array_equal(draw(np.random.RandomState(3)), draw(np.random.RandomState(3)))
    shared = np.random.RandomState(3)
    entropies = [entropy_of(random_state) for random_state in (shared, shared, None, None, 3, 4)]
    assert len(set(entropies)) == len(entropies)
    assert len({tuple(permutations(20, 0)(number)) for number in range(10)}) == 10


@pytest.mark.parametrize("random_state", ["seed", 1.5, -1, np.random.default_rng(0)])
def test_other_random_states_are_refused_by_name(random_state):
    with pytest.raises(ValueError, match=r"(?i)random_?state"):
        sample_perceptron(VersionSpace(np.eye(2), [1, 1]), random_state=random_state)


@pytest.mark.parametrize(
    "wrong",
    [{"n_draws": n} for n in (0, -1, 2.5, "3", None)]
    + [{"max_passes": n} for n in (0, -1)]
    + [{"max_time": seconds} for seconds in (-1.0, np.nan)],
)
def test_numbers_that_make_no_sense_are_refused_by_name(wrong, monkeypatch):
    monkeypatch.setattr(VersionSpace, "conflict", lambda *_: None)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        sample_perceptron(VersionSpace(np.eye(2), [1, 1]), **wrong)
