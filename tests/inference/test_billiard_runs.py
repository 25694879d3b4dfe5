"""Runs of the billiard: how many draws, from where, until when, and along which path."""

import numpy as np
import pytest
from helpers.samplers import assert_usable, few_draws
from helpers.spaces import make_space
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint._support.threads import open_threads
from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard import balls, chains, flights
from bayespoint.inference.billiard.chains import mixing
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import FullRows, GramRows

# ---------------------------------------------------------------------- how many draws


def test_travel_time_bounds_the_radians_of_each_ball():
    space = make_space(m=9)
    for travel_time, n_per_chain in ((1.5 * np.pi, 3), (3.9 * np.pi / 2, 3), (0.1, 1), (1e9, 25)):
        posterior = few_draws(space, 100, travel_time=travel_time)
        assert posterior.n_draws == 4 * n_per_chain
        assert_allclose(posterior.info["travel_time"], n_per_chain * np.pi / 2)
        thinned = few_draws(space, 100, travel_time=travel_time, thin=3)
        assert thinned.n_draws == 4 * max(1, min(25, int(travel_time / (1.5 * np.pi) + 1e-9)))


def test_more_draws_and_steps_leave_the_first_draws_as_they_are(monkeypatch):
    # Steps of other lengths settle elsewhere, which moves roundings and nothing else.
    space = make_space(m=9)
    posterior = few_draws(space, 40, n_chains=1, burn_in=5)
    monkeypatch.setattr(flights, "MAX_FLIGHTS", 2)
    in_steps = few_draws(space, 40, n_chains=1, burn_in=5)
    assert_allclose(in_steps.coef, posterior.coef, atol=1e-8)
    assert_allclose(in_steps.bayes_point(), posterior.bayes_point(), atol=1e-8)


# Rounding errors grow with the ratio of lengths, here 1e9 at most.
NARROW_ROUNDING = 1e-6


def narrow_space(scale):
    """Walls that are nearly parallel, with both labels: wide in all directions but one."""
    X = np.random.default_rng(0).normal(size=(16, 3))
    return VersionSpace(1.0 + scale * X @ X.T, np.sign(X[:, 0]))


def test_flights_in_a_narrow_space_are_shorter_and_meet_no_more_walls_than_they_may():
    wide, narrow = few_draws(narrow_space(1.0), 16), few_draws(narrow_space(1e-9), 16)
    for posterior, share in ((wide, 0.1), (narrow, 1.0)):
        assert np.all(posterior.info["bounces"] < share * 4 * balls.MOST_MET * 16)
    assert_allclose(wide.info["travel_time"], 4 * np.pi / 2)
    assert narrow.info["travel_time"] < 0.1 * wide.info["travel_time"]
    assert_usable(narrow, narrow_space(1e-9), rtol=NARROW_ROUNDING)
    assert_array_equal(few_draws(narrow_space(1e-9), 16, n_jobs=2).coef, narrow.coef)


def test_a_space_in_which_flights_have_no_end_is_refused(monkeypatch):
    monkeypatch.setattr(balls, "MOST_MET", 1e-9)
    with pytest.raises(ValueError, match=r"too narrow for a billiard.* softness > 0"):
        few_draws(narrow_space(1.0), 16)


def angles_from(space, start, posterior):
    inner = space.outputs(posterior.draws()[:, 0]) * start
    return np.arccos(np.clip(inner.sum(axis=1) / space.norm(start[0]), -1, 1))


def test_burn_in_is_flown_and_not_kept():
    space = make_space(m=9)
    start = np.tile(few_draws(space, 4).coef[:1], (4, 1))
    at_once = few_draws(space, 4, start=start, burn_in=0, travel=1e-3)
    assert np.all(angles_from(space, start, at_once) < 1.01e-3)
    later = few_draws(space, 4, start=start, burn_in=3000, travel=1e-3)
    assert np.all(angles_from(space, start, later) > 5e-3)
    # What is counted is counted after it.
    assert np.all(later.info["bounces"] <= 2)
    assert_allclose(later.info["travel_time"], 1e-3)


def test_flights_without_a_bounce_have_a_bayes_point_all_the_same():
    space = make_space(m=9)
    posterior = few_draws(space, 40, burn_in=0, travel=1e-9)
    assert_array_equal(posterior.info["bounces"], 0)
    assert_usable(posterior, space)
    for coef, error in posterior.centres.values():
        assert np.all(np.isfinite(coef))
        assert not np.isnan(error)


def test_a_start_is_where_balls_begin_whatever_its_length():
    space = make_space(m=9)
    start = few_draws(space, 4).coef
    for scale in (1.0, 7.0, 1e-3):
        posterior = few_draws(space, 4, start=scale * start, burn_in=0, travel=1e-6)
        assert_allclose(posterior.coef, start, atol=1e-4)
        assert np.any(posterior.coef != start)


# ---------------------------------------------------------------------- rows


def rows_of(X, threads, n_cached, name="rbf"):
    kernel = Kernel(name, gamma=0.5, bias=1.0, normalize=False).fit_layout(X)
    cache_bytes = n_cached * len(X) * X.dtype.itemsize
    return GramRows(kernel, kernel.prepare(X), cache_bytes=cache_bytes, threads=threads)


@pytest.mark.parametrize(("name", "dtype"), [("rbf", np.float32), ("linear", np.float64)])
def test_rows_on_demand_give_what_the_matrix_gives(name, dtype):
    X = np.random.default_rng(0).normal(size=(150, 3)).astype(dtype)
    y = np.sign(X @ [1.0, -0.5, 0.25] + 0.2)
    with open_threads(1) as threads:
        rows = rows_of(X, threads, 150, name)
        softness = 0.1 if name == "rbf" else 0.0  # "linear" is singular
        posterior = few_draws(VersionSpace(rows, y, softness), 12)
    rows.ensure(np.arange(150))
    matrix = VersionSpace(FullRows(rows.store[rows.slot_of_row].copy()), y, softness)
    # Rows know k(x, x) from their points, up to a rounding.
    expected = few_draws(matrix, 12)
    digits = 1e-4 if dtype is np.float32 else 1e-8
    assert_allclose(posterior.outputs, expected.outputs, rtol=digits, atol=digits)
    assert_usable(posterior, matrix, rtol=1e-3 if dtype is np.float32 else 1e-8)


# ---------------------------------------------------------------------- time


def test_without_time_the_starts_come_back_with_a_warning(clock):
    space, clock.step = make_space(m=50), 1.0
    with pytest.warns(ConvergenceWarning, match=r"time was up.*starting points.*max_time"):
        posterior = few_draws(space, 1000, max_time=1, n_chains=5)
    assert posterior.n_draws == posterior.n_chains == 5
    assert len({start.tobytes() for start in posterior.coef}) == 5
    assert posterior.info["travel_time"] == 0
    assert_array_equal(posterior.info["bounces"], 0)
    assert_usable(posterior, space)
    for source in ("kicks", "path"):
        with pytest.raises(ValueError, match=rf"source must be .*'draws'.*got '{source}'"):
            posterior.bayes_point(source)
    starts = few_draws(space, 5, n_chains=5, burn_in=0, travel=1e-9).coef
    assert_allclose(posterior.coef, starts, atol=1e-6)


# ---------------------------------------------------------------------- precision


def test_tol_stops_once_the_bayes_point_is_known():
    space = make_space(m=20)
    travelled = []
    for tol in (0.1, 0.03, 0.01):
        posterior = few_draws(space, 200_000, tol=tol)
        assert posterior.n_draws < 200_000
        assert 0 < posterior.bayes_point_error() <= tol
        assert_usable(posterior, space)
        travelled.append(posterior.info["travel_time"])
    assert travelled[0] <= travelled[1] < travelled[2]
    everything = few_draws(space, 400, tol=1e-9)
    assert everything.n_draws == 400
    assert everything.bayes_point_error() > 1e-9


def test_chains_that_agree_are_not_warned_about_however_short_they_are():
    space = make_space(m=20)
    for seed in range(10):
        sample_billiard(space, 20, random_state=seed)  # every warning is an error


def test_chains_that_do_not_agree_are_warned_about():
    # Exclusive or in a plane: each classifier has at least one error, at any of the four points,
    # and with little noise no ball gets from one of these cells to another.
    X = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    wrong = [np.linalg.solve(np.delete(X, i, axis=0), np.delete(y, i)) for i in range(4)]
    start = np.array([np.linalg.lstsq(X.T, w, rcond=None)[0] for w in wrong])
    space = VersionSpace(X @ X.T, y)
    with pytest.warns(ConvergenceWarning, match=r"do not agree.*n_draws"):
        sample_billiard(space, 400, label_noise=1e-9, start=start, random_state=0)
    # Negative control: with much noise they do.
    posterior = sample_billiard(space, 2000, label_noise=0.3, start=start, random_state=0)
    assert posterior.rhat().max() < 1.05


def test_a_progress_line_ends_where_the_run_is_precise_enough(clock, capsys):
    clock.step = 11.0
    few_draws(make_space(m=20), 50_000, verbose=1, tol=0.1)
    err = capsys.readouterr().err
    assert err.endswith("\n")
    assert err.count("\n") == 1


# ---------------------------------------------------------------------- the path


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_path_of_the_first_ball_goes_from_wall_to_wall(noise):
    space = make_space(m=20)
    settings = {"start": few_draws(space, 4).coef, "label_noise": noise, "burn_in": 3}
    posterior = few_draws(space, 40, n_path=25, **settings)
    path = posterior.info["path"]
    assert path.shape == (25, 20)
    at_end = np.any(path[:, None] == posterior.outputs[:10], axis=(1, 2))
    assert 1 < np.count_nonzero(at_end) < 20
    margins = np.sort(np.abs(path) / np.sqrt(space.rows.diagonal), axis=1)
    assert_allclose(margins[~at_end, 0], 0.0, atol=1e-12)
    assert np.all(margins[~at_end, 1] > 1e-9)
    inside = space.y * path / np.sqrt(space.rows.diagonal) > -1e-12
    assert np.all(inside) == (noise == 0)
    # It begins where the burn-in ends, and to look on changes nothing.
    assert_array_equal(few_draws(space, 40, **settings).coef, posterior.coef)
    assert few_draws(space, 40, **settings).info["path"].shape == (0, 20)
    shorter = few_draws(space, 40, n_path=5, **settings).info["path"]
    assert_array_equal(shorter, path[:5])


def test_a_path_is_no_longer_than_the_run():
    posterior = few_draws(make_space(m=20), 12, n_path=10_000, burn_in=0, thin=2)
    n_events = posterior.info["bounces"][0] + posterior.info["passes"][0]
    assert posterior.info["path"].shape == (n_events + 6, 20)  # walls and flight ends


def test_errors_are_those_of_the_draws():
    space = make_space(m=20)
    posterior = few_draws(space, 200, label_noise=0.2)
    wrong = np.count_nonzero(space.y * posterior.outputs < 0, axis=1)
    assert_array_equal(posterior.info["errors"], wrong)
    assert wrong.max() > 0
    assert np.all(posterior.info["passes"] > 0)
    certain = few_draws(space, 200)
    assert_array_equal(certain.info["errors"], 0)
    assert_array_equal(certain.info["passes"], 0)


def test_mixing_of_long_chains_is_that_of_all_draws(monkeypatch):
    # Chains whose draws repeat: the ESS is about half of their number, with few draws compared too.
    rng = np.random.default_rng(0)
    outputs = np.repeat(rng.normal(size=(4, 2_000, 1)), 2, axis=1)
    errors = np.zeros(outputs.shape[:2], dtype=int)
    rhat, ess = mixing(np.ones(1), outputs, errors, np.ones(1))
    monkeypatch.setattr(chains, "COMPARED_DRAWS", 1_000)
    few_rhat, few_ess = mixing(np.ones(1), outputs, errors, np.ones(1))
    assert few_ess == pytest.approx(ess, rel=0.2)
    assert rhat < 1.01
    assert few_rhat < 1.02
    outputs[0, :2_000] += 3  # in draws that are not the last ones
    assert mixing(np.ones(1), outputs, errors, np.ones(1))[0] > 1.1
