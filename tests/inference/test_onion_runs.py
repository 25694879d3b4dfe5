"""Runs of the onion: how many draws, when they stop, and odd input."""

import warnings

import numpy as np
import pytest
from helpers.samplers import assert_usable
from helpers.spaces import make_space, with_contradiction
from helpers.stops import can_press, look_often, press_ctrl_c
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace, onion, papers
from bayespoint.inference.billiard.balls import MOST_MET, wrong_labels
from bayespoint.inference.onion import exact

SPACE = make_space(m=6)


@pytest.fixture
def brief(monkeypatch):
    """Weights need not be even."""
    monkeypatch.setattr(exact, "MAX_ROUNDS", 50)


def sample(space, n_draws=80, depth=1, **settings):
    """Sample; that time was up may be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return onion.sample_onion(space, depth, n_draws, **{"random_state": 0, **settings})


def assert_in_shells(table, space):
    """Draws are unit vectors in their shells, and centres are theirs."""
    assert_usable(table, space)
    for cell in np.argwhere(table.counts):
        post = table.posterior(cell)
        outputs = space.outputs(post.coef)
        assert_allclose(post.outputs, outputs, atol=1e-8)
        assert_allclose(np.einsum("ij,ij->i", post.coef, outputs), 1.0, rtol=1e-9)
        assert np.all(wrong_labels(space.y, outputs) == cell)
        mean = post.coef.mean(axis=0)
        assert_allclose(table.centres[tuple(cell)], mean / space.norm(mean), atol=1e-9)


# ---------------------------------------------------------------------- how many draws


@pytest.mark.usefixtures("brief")
def test_thinned_draws_have_flights_between_them():
    space = make_space(m=9)
    events = [
        np.sum(table.info["bounces"] + table.info["passes"])
        for table in (sample(space, 400, thin=thin) for thin in (1, 5))
    ]
    assert 4 < events[1] / events[0] < 6


def test_weights_are_learnt_until_visits_are_even():
    table = sample(make_space(m=20), 2_000, depth=2)
    assert table.info["rounds"] < exact.MAX_ROUNDS
    held = table.counts[table.counts > 0]
    assert held.min() > 0.2 * held.mean()
    volume = np.exp(table.log_volume)
    assert volume.min() < 0.02 * volume.max()


@pytest.mark.usefixtures("brief")
def test_learning_in_narrow_shells_has_an_end():
    """Balls meet thousands of walls in a flight there, and all rounds would take hours."""
    X = np.random.default_rng(0).normal(size=(16, 3))
    wide, narrow = (VersionSpace(scale * X @ X.T + 1, np.sign(X[:, 0])) for scale in (1.0, 1e-5))
    assert sample(wide, depth=6).info["rounds"] == exact.MAX_ROUNDS  # a control
    assert sample(narrow, depth=6).info["rounds"] < exact.MAX_ROUNDS / 5


@pytest.mark.usefixtures("brief")
def test_draws_in_narrow_shells_meet_no_more_walls_than_they_may():
    X = np.random.default_rng(0).normal(size=(16, 3))
    table = sample(VersionSpace(1e-9 * X @ X.T + 1, np.sign(X[:, 0])), depth=2)
    met = table.info["bounces"] + table.info["passes"]
    assert np.all(met < table.info["n_draws"] * MOST_MET * 16)
    assert_usable(table, table.space, rtol=1e-6)  # rounding errors grow with 1e9, too


# ---------------------------------------------------------------------- stops


@pytest.mark.usefixtures("brief")
def test_what_is_there_when_time_is_up_is_in_its_shells(clock, monkeypatch):
    look_often(monkeypatch)
    space = make_space(m=20)
    clock.step = 1 / 2000
    table = sample(space, 10**6, max_time=1, n_chains=2, depth=20)
    assert 1 <= table.info["n_draws"] < 10**5
    assert_in_shells(table, space)


@can_press
def test_ctrl_c_stops_cross_validation(clock):
    space = make_space(m=20)
    for method, options in (("exact", {"n_draws": 10**6}), ("published", {"n_bounces": 10**6})):
        clock.now, clock.step, clock.looks, clock.events = 0.0, 1.0, 0, {50: press_ctrl_c}
        with pytest.raises(KeyboardInterrupt):
            papers.cross_validate_onion(
                space, 1, cv=3, method=method, max_time=3_000, random_state=0, **options
            )
        assert clock.looks < 100


# ---------------------------------------------------------------------- odd input


@pytest.mark.usefixtures("brief")
def test_depths_of_any_kind_of_pair_are_the_same():
    expected = sample(SPACE, depth=(1, 2))
    assert expected.depth == (1, 2)
    for depth in ([1, 2], np.array([1, 2]), (np.int8(1), np.uint64(2))):
        assert_array_equal(sample(SPACE, depth=depth).centres, expected.centres)
    assert sample(SPACE, depth=np.int64(1)).depth == (1, 1)


@pytest.mark.usefixtures("brief")
def test_there_are_shells_where_a_point_has_both_labels():
    space = with_contradiction()
    table = sample(space, 100)
    assert not table.counts[0, 0]
    assert_in_shells(table, space)


@pytest.mark.usefixtures("brief")
def test_no_classifier_with_so_few_errors_is_an_error_with_the_remedy():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.choice([-1, 1], 40)
    with pytest.raises(
        ValueError,
        match=r"found no classifier that makes at most \(1, 0\) errors.*Raise depth.*softness > 0",
    ):
        sample(VersionSpace(X @ X.T, y), depth=(1, 0))


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("seed", range(2))
def test_one_point_with_both_labels_and_too_few_errors_allowed(seed):
    """No ball stays between two walls that coincide."""
    X = np.random.default_rng(seed).normal(size=(6, 3))
    X[1] = X[0]
    with pytest.raises(ValueError, match="found no classifier that makes at most"):
        sample(VersionSpace(X @ X.T, np.array([1, -1, 1, -1, 1, -1])), depth=0)


@pytest.mark.usefixtures("brief")
def test_one_class_makes_errors_of_one_kind():
    problem = make_space(m=6)
    table = sample(VersionSpace(problem.rows.store, np.ones(6)), 400, depth=2)
    assert np.all(table.counts[0] > 0)
    assert not np.any(table.counts[1:])
    assert_allclose(np.exp(table.log_volume[0]).sum(), 1.0)


@pytest.mark.parametrize("m", [1, 3])
def test_the_fewest_points_in_a_table_that_is_too_deep(m):
    """Cells of points at right angles: each of 2^m once."""
    y = np.array([1, -1, 1])[:m]
    space = VersionSpace(np.diag([1.0, 4.0, 0.25][:m]), y)
    table = sample(space, 4_000, depth=5)
    assert table.depth == (np.count_nonzero(y < 0), np.count_nonzero(y > 0))
    assert np.all(table.counts > 0)
    assert_allclose(np.exp(table.log_volume[0, 0]), 2.0**-m, rtol=0.2)
    assert_in_shells(table, space)
