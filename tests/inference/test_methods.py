"""What every method of the registry gives a classifier: draws of all machines, held-out outputs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint._support.budget import Budget
from bayespoint._support.threads import open_threads
from bayespoint.inference import expectation_propagation
from bayespoint.inference.draws import Draws, Gaussian, Plan
from bayespoint.inference.ep.origin import DRAWS_AT_ONCE, drawing
from bayespoint.inference.methods import METHODS
from bayespoint.inference.problem import Problem
from bayespoint.space.decisions import label_odds
from bayespoint.space.posterior import dense
from bayespoint.space.rows import FullRows

each_method = pytest.mark.parametrize("method", METHODS)
DRAWN = [name for name, method in METHODS.items() if not method.closed_form]
CHAINED = [name for name in DRAWN if not METHODS[name].independent]


def make_problem(noise=0.0, softness=0.2, n_points=24, n_machines=3, dtype=np.float64):
    """Machines with skewed labels over points of unequal length."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_points, 2))
    length = np.exp(0.3 * rng.normal(size=n_points))
    K = (rbf_kernel(X, gamma=1.0) * np.outer(length, length)).astype(dtype)
    targets = np.where(rng.random((n_machines, n_points)) < 0.3, 1, -1).astype(np.int8)
    rates = np.full(targets.shape, noise)
    return Problem(
        FullRows(K), targets, softness, label_odds(rates), np.log1p(-rates),
        [f" for class {k}" for k in range(n_machines)], 100 + np.arange(n_points),
        np.ones(n_points),
    )  # fmt: skip


def noise_of(method):
    return 0.1 if METHODS[method].takes_noise else 0.0


def softened(problem):
    return problem.rows.store.astype(np.float64) + np.diag(problem.ridge)


def infer(method, problem, n_draws, *, held=None, n_threads=1, max_time=None, tol=0.0, entropy=0):
    with open_threads(n_threads) as threads:
        plan = Plan(n_draws, tol, entropy, Budget(max_time), threads)
        return METHODS[method].infer(problem, plan, held)


def draw(method, *args, **options):
    """Return the draws of a method, those of its Gaussians where it has some."""
    found = infer(method, *args, **options)
    assert isinstance(found, Gaussian if METHODS[method].closed_form else Draws)
    return found.draws if isinstance(found, Gaussian) else found


def test_every_method_is_named_and_says_what_it_needs():
    assert {name: method.name for name, method in METHODS.items()} == {
        "perceptron": "perceptron", "billiard": "billiard", "gibbs": "gibbs", "ep": "ep",
    }  # fmt: skip
    assert METHODS["perceptron"].needed_bytes(1000, 8, 3) == 0
    for name in ("billiard", "gibbs"):
        assert METHODS[name].needed_bytes(1000, 8, 3) == 16e6  # the rows and a factor
        assert METHODS[name].needed_bytes(1000, 4, 0) == 12e6
    # Rows, the matrix in float64, its factor, inverse, two for work; and two a voting machine.
    assert METHODS["ep"].needed_bytes(1000, 8, 0) == 48e6
    assert METHODS["ep"].needed_bytes(1000, 4, 3) == 92e6


@each_method
@pytest.mark.parametrize(("noisy", "dtype"), [(False, np.float32), (True, np.float64)])
def test_what_every_method_gives(method, noisy, dtype):
    noise = noise_of(method) if noisy else 0.0
    problem = make_problem(noise, dtype=dtype)
    K, kind = softened(problem), METHODS[method]
    draws = draw(method, problem, 12)
    assert (draws.n_draws, draws.n_chains) == (12, 1 if kind.independent else 4)
    assert np.all(draws.finished)
    assert draws.bayes_points.shape == draws.used.shape == problem.targets.shape
    assert draws.angle_errors.shape == draws.mean_norms.shape == (3,)
    assert isinstance(draws.info, dict)
    assert isinstance(draws.resume, kind.resume)
    assert len(draws.coef) == 3
    for machine, target in enumerate(problem.targets):
        coef, centre = dense(draws.coef[machine]), draws.bayes_points[machine]
        assert coef.shape == (12, 24)
        assert_allclose(np.einsum("ij,jk,ik->i", coef, K, coef), 1, atol=1e-6)
        assert centre @ K @ centre == pytest.approx(1, abs=1e-6)
        mean = coef.mean(axis=0)
        assert draws.mean_norms[machine] == pytest.approx(np.sqrt(mean @ K @ mean), rel=1e-5)
        assert centre @ K @ mean > 0.5 * draws.mean_norms[machine]
        assert np.all(draws.used[machine] | ~np.any(coef, axis=0))
        if kind.closed_form:  # no sampling error; a Gaussian is not confined to version space
            assert draws.angle_errors[machine] == 0
            continue
        assert np.all(target * (coef @ K) > 0) or noise
        assert 0 < draws.angle_errors[machine] < 1.5


@each_method
def test_threads_change_nothing_and_seeds_do(method):
    problem = make_problem(noise_of(method))
    one, other, third = (
        draw(method, problem, 12, n_threads=n, entropy=e) for n, e in [(1, 7), (3, 7), (1, 8)]
    )
    assert_array_equal(one.bayes_points, other.bayes_points)
    assert_array_equal(dense(one.coef[2]), dense(other.coef[2]))
    assert not np.array_equal(dense(one.coef[2]), dense(third.coef[2]))


@pytest.mark.parametrize("method", DRAWN)
def test_draws_are_added_to_those_held(method):
    problem = make_problem(noise_of(method))
    first = draw(method, problem, 8)
    before = pickle.dumps(replace(first, factor=None))
    more = draw(method, problem, 20, held=first)
    assert pickle.dumps(replace(first, factor=None)) == before  # left alone
    assert more.n_draws == 20
    for machine in range(3):
        old, new = (
            dense(draws.coef[machine]).reshape(draws.n_chains, -1, 24) for draws in (first, more)
        )
        assert_array_equal(new[:, : old.shape[1]], old)
        assert len(np.unique(new.reshape(20, 24), axis=0)) == 20
    for n_draws, tol in ((20, 0.0), (8, 0.0), (4000, 3.0)):
        enough = draw(method, problem, n_draws, held=more, tol=tol)
        assert_array_equal(enough.bayes_points, more.bayes_points)
        assert enough.n_draws == 20


@pytest.mark.parametrize("method", CHAINED)
def test_chains_go_on_from_where_they_were(method):
    problem = make_problem(noise_of(method))
    first = draw(method, problem, 8)
    last = first.resume.last.reshape(3, 4, 24)
    assert_array_equal(last[0], first.coef[0][1::2])  # of two draws of each chain
    swapped = replace(first, resume=replace(first.resume, last=last[:, ::-1].reshape(12, 24)))
    one, other = (draw(method, problem, 16, held=held) for held in (first, swapped))
    assert not np.array_equal(one.coef[1], other.coef[1])


@pytest.mark.parametrize("method", CHAINED)
def test_a_spent_budget_gives_the_starts(method):
    problem = make_problem()
    with pytest.warns(ConvergenceWarning, match=r"time was up before the first draw.*max_time"):
        draws = draw(method, problem, 400, max_time=1e-9)
    assert not draws.finished
    assert draws.n_draws == 4
    for coef, centre, target in zip(draws.coef, draws.bayes_points, problem.targets, strict=True):
        assert np.all(target * (coef @ softened(problem)) > 0)
        assert centre @ softened(problem) @ centre == pytest.approx(1)


def test_draws_of_propagation_end_with_the_time(clock):
    """Those made until then are the first of all, as a model makes them again."""
    problem, settings = make_problem(), {"tol": 1e-4, "max_time": 1.0}
    whole = infer("ep", problem, 3500, **settings)  # time stands still
    again = whole.posteriors[1].draws(3500, drawing(0, 1))[0]
    assert_array_equal(whole.draws.coef[1], again)
    looks, clock.looks = clock.looks, 0
    clock.events = {looks - 1: lambda: setattr(clock, "now", 2.0)}
    cut = infer("ep", problem, 3500, **settings)
    assert cut.draws.n_draws == cut.origin.n_draws == 2 * DRAWS_AT_ONCE
    for coef, of_all in zip(cut.draws.coef, whole.draws.coef, strict=True):
        assert_array_equal(coef, of_all[: len(coef)])
    clock.step = 1.0
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        assert draw("ep", problem, 3500, **settings).n_draws == DRAWS_AT_ONCE


def test_propagation_gives_its_gaussians():
    """Of each machine, with the numbers that its own run gives; a warm start begins with them."""
    problem = make_problem(0.1)
    found = infer("ep", problem, 12, tol=1e-8)
    draws, sites = found.draws, found.draws.resume.sites
    assert draws.factor.rank == 24
    assert sites.shape == (3, 2, 24)
    for machine, gaussian in enumerate(found.posteriors):
        alone = expectation_propagation(problem.space(machine), label_noise=0.1, tol=1e-8)
        assert_allclose(gaussian.coef, alone.coef, atol=1e-6)
        assert draws.info["log_evidence"][machine] == pytest.approx(alone.log_evidence, abs=1e-6)
        assert_array_equal(sites[machine], gaussian.sites)
    again = draw("ep", problem, 12, tol=1e-8, held=draws)
    assert np.all(again.info["sweeps"] == 1)
    assert np.all(draws.info["sweeps"] > 1)
    assert_allclose(again.bayes_points, draws.bayes_points, atol=1e-6)


@each_method
def test_held_out_outputs_know_nothing_of_the_points_left_out(method):
    problem, visited = make_problem(noise_of(method)), np.arange(0, 24, 2)

    def outputs(problem, fold=0):
        with open_threads(1) as threads:
            plan = Plan(12, 0.0, 3, Budget(), threads)
            found = METHODS[method].held_out(problem, {fold: visited}, plan)
        assert list(found) == [fold]
        return found[fold]

    found = outputs(problem)
    assert found.shape == problem.targets.shape
    hidden = problem.targets.copy()
    hidden[:, 1::2] *= -1
    assert_array_equal(outputs(replace(problem, targets=hidden)), found)
    # Folds have draws of their own; closed forms draw nothing.
    assert np.array_equal(outputs(problem, fold=1), found) == METHODS[method].closed_form
    # At the points left out: outputs of a unit vector in the span of those visited.
    K = problem.rows.store
    part = K[np.ix_(visited, visited)] + np.diag(problem.ridge[visited])
    coef = np.linalg.lstsq(K[1::2][:, visited], found[:, 1::2].T, rcond=None)[0]
    assert_allclose(K[1::2][:, visited] @ coef, found[:, 1::2].T, atol=1e-9)
    assert_allclose(np.einsum("ji,jk,ki->i", coef, part, coef), 1, atol=1e-6)
    agree = problem.targets[:, visited] * found[:, visited] > 0
    assert agree.mean() > 0.7


def test_a_part_of_a_problem():
    problem = make_problem(0.1)
    chosen = np.array([5, 3, 11])
    part = problem.part(chosen)
    assert_array_equal(part.rows.store, problem.rows.store[np.ix_(chosen, chosen)])
    assert_array_equal(part.ridge, problem.ridge[chosen])
    assert_array_equal(part.targets, problem.targets[:, chosen])
    assert_array_equal(part.row, [105, 103, 111])
    assert part.odds.shape == part.log_right.shape == (3, 3)
    assert part.weight.shape == (3,)
    assert_array_equal(part.space(1).y, problem.targets[1, chosen])
    assert part.space(1).softness == 0.2
