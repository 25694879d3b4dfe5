"""Permuted kernel perceptrons that cannot go on: emptiness, limits, progress, interruption."""

import threading
import warnings

import numpy as np
import pytest
from helpers.spaces import KERNELS, dense, make_problem, rows_space
from helpers.stops import interrupt
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint.inference import sample_perceptron
from bayespoint.inference.perceptron.runs import perceptron_draws, permutations
from bayespoint.space.rows import FullRows, GramRows
from bayespoint.space.version_space import EmptyVersionSpaceError


def narrow_problem():
    """Separable with a margin of 1e-4: far more passes than three."""
    angle = np.concatenate([np.linspace(1e-4, 3.0, 40), np.linspace(3.2, 6.2831, 40)])
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    return VersionSpace(X @ X.T, np.sign(X[:, 1]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_empty_version_space_names_points_that_prove_it(dtype):
    X, y = make_problem(m=40, seed=6)
    X, y = np.vstack([X, X[9]]), np.append(y, -y[9])
    K = KERNELS["rbf"](X).astype(dtype)  # definite but for the repeated point
    with pytest.raises(EmptyVersionSpaceError, match=r"\[9, 40\]") as caught:
        sample_perceptron(VersionSpace(K, y), n_draws=3, random_state=0)
    assert_array_equal(caught.value.points, [9, 40])
    soft = sample_perceptron(VersionSpace(K, y, softness=0.5), n_draws=3, random_state=0)
    assert np.all(soft.info["violated"] == 0)


def test_a_matrix_that_is_indefinite_is_not_called_an_empty_version_space():
    K = np.full((3, 3), -0.9)
    np.fill_diagonal(K, 1.0)  # passes Cauchy-Schwarz, but 1ᵀK1 < 0
    with pytest.raises(ValueError, match="positive semi-definite") as caught:
        sample_perceptron(VersionSpace(K, np.ones(3)), n_draws=2, random_state=0)
    assert not isinstance(caught.value, EmptyVersionSpaceError)


def test_giving_up_warns_with_the_number_of_violated_points():
    space = narrow_problem()
    with pytest.warns(ConvergenceWarning) as caught:
        posterior = sample_perceptron(space, n_draws=5, max_passes=3, random_state=0)
    violated = [np.count_nonzero(space.margins(coef) <= 0) for coef in dense(posterior)]
    assert_array_equal(posterior.info["violated"], violated)
    n_bad = np.count_nonzero(violated)
    assert n_bad > 0
    assert f"{n_bad} of 5 perceptron runs" in str(caught[0].message)
    assert f"up to {max(violated)} training points" in str(caught[0].message)


@pytest.mark.parametrize("max_time", [1e-9, 1e-3, 0.05])
def test_however_little_time_there_is_one_draw_comes_back(max_time):
    X, y = make_problem(m=400, seed=8, gap=0.001)
    for space in (VersionSpace(KERNELS["linear"](X), y), rows_space(X, y)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            posterior = sample_perceptron(space, 10**5, max_time=max_time, random_state=0)
        assert 1 <= posterior.n_draws < 10**5
        for coef in dense(posterior)[:5]:
            assert_allclose(space.norm(coef), 1.0, rtol=1e-6)


# ---------------------------------------------------------------------- progress, interruption


def test_progress_goes_to_standard_error_and_only_when_asked_for(capsys):
    X, y = make_problem(m=30)
    space = VersionSpace(X @ X.T + 1.0, y)
    sample_perceptron(space, n_draws=4, random_state=0)
    assert capsys.readouterr() == ("", "")
    sample_perceptron(space, n_draws=4, random_state=0, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "perceptron" in err
    assert "4/4" in err
    assert err.endswith("\n")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [(GramRows, "ensure", 0), (GramRows, "ensure", 4), (Budget, "show", 0), (Budget, "show", 5)],
)
def test_an_interrupt_comes_out_and_leaves_everything_usable(
    owner, name, after, n_jobs, monkeypatch
):
    X, y = make_problem(m=400, seed=9)
    space = rows_space(X, y)
    expected = dense(sample_perceptron(rows_space(X, y), n_draws=8, random_state=0))
    n_threads = threading.active_count()
    with monkeypatch.context() as patch:
        interrupt(patch, owner, name, after)
        with pytest.raises(KeyboardInterrupt):
            sample_perceptron(space, n_draws=8, n_jobs=n_jobs, random_state=0)
    assert threading.active_count() == n_threads
    assert_array_equal(dense(sample_perceptron(space, n_draws=8, random_state=0)), expected)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_what_was_complete_at_an_interrupt_is_handed_over_unchanged(after, monkeypatch):
    X, y = make_problem(m=60)
    rows = FullRows(KERNELS["linear"](X))
    targets, order = y.astype(np.int8)[None, :], permutations(60, 0)
    settings = (rows, targets, np.zeros(60), range(500), order)
    expected = list(perceptron_draws(*settings, budget=Budget()))
    interrupt(monkeypatch, Budget, "show", after)
    budget = Budget()
    draws = list(perceptron_draws(*settings, budget=budget))
    assert budget.interrupted
    assert 1 <= len(draws) < 500
    for draw in draws[:-1] if after == 0 else draws:
        assert_array_equal(draw.coef[0], expected[draw.number].coef[0])
