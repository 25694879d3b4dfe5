"""The billiard's outer loop: when it stops, what it then returns, restarts, threads and memory."""

import threading
import time
import warnings

import numpy as np
import pytest
from helpers.spaces import make_space
from helpers.stops import PROMPT_SECONDS, can_press, interrupt, press_ctrl_c, stop_after
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads, open_threads
from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard import flights
from bayespoint.inference.billiard.balls import Balls, Table
from bayespoint.space.kernels import Kernel
from bayespoint.space.rows import FullRows, GramRows


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Compile before the clock runs."""
    sample_billiard(make_space(m=3), n_draws=4, random_state=0)


def sample(space, n_draws=40, **settings):
    """Run the billiard; a few draws need not agree from chain to chain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the chains of the billiard do not agree")
        return sample_billiard(space, n_draws, **{"random_state": 0, **settings})


def assert_usable(posterior, space, rtol=1e-9):
    """Draws are unit vectors inside version space, and their outputs belong to them."""
    length = np.sqrt(space.rows.diagonal + space.ridge)
    assert_allclose(posterior.outputs / length, space.outputs(posterior.coef) / length, atol=rtol)
    assert_allclose(np.einsum("ij,ij->i", posterior.coef, posterior.outputs), 1.0, rtol=rtol)
    assert np.all(space.y * posterior.outputs > 0)
    assert np.all(space.margins(posterior.bayes_point()) > 0)
    assert_allclose(space.norm(posterior.bayes_point()), 1.0, rtol=rtol)


# ---------------------------------------------------------------------- how many draws


@pytest.mark.parametrize(
    ("n_draws", "n_chains", "n_per_chain"),
    [(1, 1, 1), (1, 4, 1), (4, 4, 1), (10, 4, 3), (12, 4, 3), (13, 4, 4), (17, 1, 17), (3, 7, 1)],
)
@pytest.mark.parametrize("thin", [1, 3])
def test_draws_are_rounded_up_to_the_same_number_for_each_chain(
    n_draws, n_chains, n_per_chain, thin
):
    space = make_space(m=9)
    posterior = sample(space, n_draws, n_chains=n_chains, thin=thin, travel=0.7)
    assert posterior.n_chains == n_chains
    assert posterior.n_draws == n_chains * n_per_chain
    assert posterior.draws().shape == (n_chains, n_per_chain, 9)
    assert_allclose(posterior.info["travel_time"], n_per_chain * thin * 0.7)
    assert posterior.info["errors"].shape == (posterior.n_draws,)
    assert posterior.info["bounces"].shape == posterior.info["passes"].shape == (n_chains,)
    assert_usable(posterior, space)


@pytest.mark.parametrize(
    ("travel_time", "n_per_chain"),
    [(3 * np.pi / 2, 3), (3.9 * np.pi / 2, 3), (0.1, 1), (1e9, 25), (7 * np.pi, 14)],
)
def test_travel_time_bounds_the_radians_of_each_ball(travel_time, n_per_chain):
    posterior = sample(make_space(m=9), 100, travel_time=travel_time)
    assert posterior.n_draws == 4 * n_per_chain
    assert_allclose(posterior.info["travel_time"], n_per_chain * np.pi / 2)
    thinned = sample(make_space(m=9), 100, travel_time=travel_time, thin=3)
    assert thinned.n_draws == 4 * max(1, min(25, int(travel_time / (1.5 * np.pi) + 1e-9)))


def test_more_draws_and_steps_leave_the_first_draws_as_they_are(monkeypatch):
    # Steps of other lengths settle elsewhere, which moves roundings and nothing else.
    space = make_space(m=9)
    posterior = sample(space, 40, n_chains=1, burn_in=5)
    monkeypatch.setattr(flights, "MAX_FLIGHTS", 2)
    in_steps = sample(space, 40, n_chains=1, burn_in=5)
    assert_allclose(in_steps.coef, posterior.coef, atol=1e-8)
    assert_allclose(in_steps.bayes_point(), posterior.bayes_point(), atol=1e-8)


def angles_from(space, start, posterior):
    inner = space.outputs(posterior.draws()[:, 0]) * start
    return np.arccos(np.clip(inner.sum(axis=1) / space.norm(start[0]), -1, 1))


def test_burn_in_is_flown_and_not_kept():
    space = make_space(m=9)
    start = np.tile(sample(space, 4).coef[:1], (4, 1))
    at_once = sample(space, 4, start=start, burn_in=0, travel=1e-3)
    assert np.all(angles_from(space, start, at_once) < 1.01e-3)
    later = sample(space, 4, start=start, burn_in=3000, travel=1e-3)
    assert np.all(angles_from(space, start, later) > 5e-3)
    # What is counted is counted after it.
    assert np.all(later.info["bounces"] <= 2)
    assert_allclose(later.info["travel_time"], 1e-3)


def test_flights_without_a_bounce_have_a_bayes_point_all_the_same():
    space = make_space(m=9)
    posterior = sample(space, 40, burn_in=0, travel=1e-9)
    assert_array_equal(posterior.info["bounces"], 0)
    assert_usable(posterior, space)
    for coef, error in posterior.centres.values():
        assert np.all(np.isfinite(coef))
        assert not np.isnan(error)


def test_a_start_is_where_balls_begin_whatever_its_length():
    space = make_space(m=9)
    start = sample(space, 4).coef
    for scale in (1.0, 7.0, 1e-3):
        posterior = sample(space, 4, start=scale * start, burn_in=0, travel=1e-6)
        assert_allclose(posterior.coef, start, atol=1e-4)
        assert np.any(posterior.coef != start)


# ---------------------------------------------------------------------- seeds, threads, memory


def test_the_same_seed_gives_the_same_draws():
    space = make_space(m=9)
    first = sample(space, random_state=5)
    assert_array_equal(sample(space, random_state=5).coef, first.coef)
    assert np.all(sample(space, random_state=6).coef != first.coef)
    chains = first.draws()
    assert len({chain.tobytes() for chain in chains}) == 4
    states = [np.random.RandomState(3) for _ in range(2)]
    one, two = (sample(space, random_state=state).coef for state in states)
    assert_array_equal(one, two)
    assert np.any(sample(space, random_state=states[0]).coef != one)  # its state has moved on


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_number_of_threads_changes_no_bit(noise):
    space = make_space(m=600, softness=0.1)
    one, two, all_ = (
        sample(space, 12, label_noise=noise, burn_in=2, n_jobs=n_jobs) for n_jobs in (1, 2, -1)
    )
    for other in (two, all_):
        assert_array_equal(other.coef, one.coef)
        assert_array_equal(other.outputs, one.outputs)
        assert_array_equal(other.bayes_point(), one.bayes_point())
        assert_array_equal(other.info["bounces"], one.info["bounces"])


def rows_of(X, threads, n_cached, name="rbf"):
    kernel = Kernel(name, gamma=0.5, bias=1.0, normalize=False).fit_layout(X)
    cache_bytes = n_cached * len(X) * X.dtype.itemsize
    return GramRows(kernel, kernel.prepare(X), cache_bytes=cache_bytes, threads=threads)


@pytest.mark.parametrize("name", ["rbf", "linear"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_on_demand_give_what_the_matrix_gives(name, dtype):
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(dtype)
    y = np.sign(X @ [1.0, -0.5, 0.25] + 0.2)
    with open_threads(1) as threads:
        rows = rows_of(X, threads, 200, name)
        softness = 0.1 if name == "rbf" else 0.0  # "linear" is singular
        posterior = sample(VersionSpace(rows, y, softness), 12)
    rows.ensure(np.arange(200))
    matrix = VersionSpace(FullRows(rows.store[rows.slot_of_row].copy()), y, softness)
    # Rows know k(x, x) from their points, up to a rounding.
    expected = sample(matrix, 12)
    digits = 1e-4 if dtype is np.float32 else 1e-8
    if name == "rbf" or dtype is np.float64:  # rounded inner products are no longer of rank 4
        assert_allclose(posterior.outputs, expected.outputs, rtol=digits, atol=digits)
    assert_usable(posterior, matrix, rtol=1e-3 if dtype is np.float32 else 1e-8)


@pytest.mark.parametrize("softness", [0.0, 0.1], ids=["singular", "soft"])
def test_a_store_that_cannot_hold_all_rows_is_refused(softness):
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.sign(X @ [1.0, -0.5, 0.25] + 0.2)
    with open_threads(1) as threads:
        space = VersionSpace(rows_of(X, threads, 300, "linear"), y, softness)
        with pytest.raises(ValueError, match=r"all rows.*400 points.*cache_size"):
            sample(space, 4, max_time=1)


# ---------------------------------------------------------------------- time


def test_max_time_returns_the_draws_made_so_far_and_no_error():
    space = make_space(m=300)
    for n_jobs in (1, 2):
        begun = time.perf_counter()
        posterior = sample(space, 200_000, burn_in=5, max_time=0.3, n_jobs=n_jobs)
        assert 0.3 <= time.perf_counter() - begun < PROMPT_SECONDS
        assert 4 < posterior.n_draws < 200_000
        assert posterior.n_draws % 4 == 0
        per_chain = posterior.n_draws // 4
        assert_allclose(posterior.info["travel_time"], per_chain * np.pi / 2)
        assert_usable(posterior, space)


def test_time_is_not_spent_on_burn_in_alone():
    # The default burn-in is a share of the draws asked for, which may be more than there is time.
    space = make_space(m=20)
    posterior = sample(space, 10**7, max_time=0.5)
    assert posterior.n_draws > 100
    assert_usable(posterior, space)


def test_without_time_the_starts_come_back_with_a_warning():
    space = make_space(m=50)
    with pytest.warns(ConvergenceWarning, match=r"time was up.*starting points.*max_time"):
        posterior = sample(space, 1000, max_time=1e-9, n_chains=5)
    assert posterior.n_draws == posterior.n_chains == 5
    assert posterior.info["travel_time"] == 0
    assert_array_equal(posterior.info["bounces"], 0)
    assert_usable(posterior, space)
    for source in ("kicks", "path"):
        with pytest.raises(ValueError, match=rf"source must be .*'draws'.*got '{source}'"):
            posterior.bayes_point(source)
    starts = sample(space, 5, n_chains=5, burn_in=0, travel=1e-9).coef
    assert_allclose(posterior.coef, starts, atol=1e-6)


@pytest.mark.parametrize("n_calls", [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25, 40])
@pytest.mark.parametrize("kept", ["draws", "burn-in"])
def test_whenever_time_is_up_what_comes_back_is_usable(kept, n_calls, monkeypatch):
    space = make_space(m=20)
    stop_after(monkeypatch, n_calls)
    burn_in = 500 if kept == "burn-in" else 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        posterior = sample(space, 2000, burn_in=burn_in, thin=3, travel=2.0)
    assert posterior.n_draws < 2000
    assert {one.category for one in caught} <= {ConvergenceWarning}
    moved = posterior.info["travel_time"] > 0
    assert bool(caught) != moved
    assert posterior.n_draws == 4 or moved
    assert_usable(posterior, space)


# ---------------------------------------------------------------------- precision


def test_tol_stops_once_the_bayes_point_is_known():
    space = make_space(m=20)
    travelled = []
    for tol in (0.1, 0.02, 0.005):
        posterior = sample(space, 200_000, tol=tol)
        assert posterior.n_draws < 200_000
        assert 0 < posterior.bayes_point_error() <= tol
        assert_usable(posterior, space)
        travelled.append(posterior.info["travel_time"])
    assert travelled[0] <= travelled[1] < travelled[2]
    everything = sample(space, 2000, tol=1e-9)
    assert everything.n_draws == 2000
    assert everything.bayes_point_error() > 1e-9


def test_chains_that_agree_are_not_warned_about_however_short_they_are():
    space = make_space(m=20)
    for seed in range(30):
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
    posterior = sample_billiard(space, 4000, label_noise=0.3, start=start, random_state=0)
    assert posterior.rhat().max() < 1.05


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("after", [0, 3])
def test_an_interrupt_from_inside_comes_out_and_leaves_everything_usable(
    n_jobs, after, monkeypatch
):
    space = make_space(m=60)
    expected = sample(space).coef
    n_threads = threading.active_count()
    with monkeypatch.context() as patch:
        interrupt(patch, Budget, "show", after)
        patch.setattr(flights, "MAX_FLIGHTS", 1)
        with pytest.raises(KeyboardInterrupt):
            sample(space, n_jobs=n_jobs)
    assert threading.active_count() == n_threads
    assert_array_equal(sample(space).coef, expected)


@can_press
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("settings", [{}, {"travel": 1e7, "burn_in": 0}], ids=["burn-in", "flight"])
def test_ctrl_c_acts_at_once(settings, n_jobs):
    space = make_space(m=60)
    n_threads = threading.active_count()
    sent = []

    def press():
        sent.append(time.perf_counter())
        press_ctrl_c()

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sample(space, 10**6, n_jobs=n_jobs, thin=100, **settings)
    assert time.perf_counter() - sent[0] < PROMPT_SECONDS
    timer.join()
    assert threading.active_count() == n_threads


@can_press
def test_ctrl_c_acts_while_a_start_is_looked_for(monkeypatch):
    from bayespoint.inference import starts

    space, original, stopped = make_space(kernel="linear"), starts.perceptron_draws, []

    def long_search(*args, budget, **kwargs):
        press_ctrl_c()
        deadline = time.perf_counter() + 2
        while not budget.spent() and time.perf_counter() < deadline:
            time.sleep(0.001)
        stopped.append(budget.spent())
        return original(*args, budget=budget, **kwargs)

    monkeypatch.setattr(starts, "perceptron_draws", long_search)
    with pytest.raises(KeyboardInterrupt):
        sample(space)
    assert stopped[0]


# ---------------------------------------------------------------------- progress


def test_progress_goes_to_standard_error_and_only_when_asked_for(capsys):
    space = make_space(m=20)
    sample(space)
    assert capsys.readouterr() == ("", "")
    sample(space, 40, verbose=1, burn_in=7)
    out, err = capsys.readouterr()
    assert out == ""
    assert "billiard" in err
    assert "17/17 flights" in err
    assert err.endswith("\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("settings", [{"tol": 0.1}, {"max_time": 0.2}, {"max_time": 1e-9}], ids=str)
def test_a_progress_line_ends_wherever_the_run_stops(settings, monkeypatch, capsys):
    monkeypatch.setattr(Budget, "_REDRAW_IN_FILE", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sample(make_space(m=20), 50_000, verbose=1, burn_in=20, **settings)
    err = capsys.readouterr().err
    assert err == "" or err.endswith("\n")


def test_a_perceptron_that_looks_for_a_start_shows_no_progress(monkeypatch, capsys):
    monkeypatch.setattr(Budget, "_REDRAW_IN_FILE", 0.0)
    sample(make_space(kernel="linear"), verbose=1)
    assert "runs" not in capsys.readouterr().err


# ---------------------------------------------------------------------- rounding errors


class Astray(FullRows):
    """Rows that multiply the outputs of a ball, at some of the calls for them."""

    def __init__(self, rows, ball, calls, share=-1.0):
        super().__init__(rows.store)
        self.ball, self.calls, self.share, self.n_calls = ball, calls, share, 0

    def outputs(self, ridge, coef):
        outputs = super().outputs(ridge, coef)
        if self.n_calls in self.calls:
            outputs[self.ball] *= self.share
        self.n_calls += 1
        return outputs


def lead_astray(monkeypatch, **how):
    """Let all balls made from now on fly over rows that are `Astray`."""
    make = Balls.__init__

    def over_them(balls, table, *args, **options):
        make(balls, table._replace(rows=Astray(table.rows, **how)), *args, **options)

    monkeypatch.setattr(Balls, "__init__", over_them)


# Calls that recompute: 0 sees the starts, then one for each step and each repetition of it.


def test_a_ball_that_rounding_led_astray_flies_again(monkeypatch):
    space = make_space(m=20)
    undisturbed = sample(space, 80, burn_in=0)
    assert undisturbed.info["restarts"] == 0
    # Its recomputed outputs turned round: squared length and margins negative.
    with monkeypatch.context() as patch, np.errstate(invalid="ignore"):
        lead_astray(patch, ball=2, calls={1, 2})
        posterior = sample(space, 80, burn_in=0)
    assert posterior.info["restarts"] == 2
    assert posterior.n_draws == 80
    assert_usable(posterior, space)
    # The other balls do not notice; this one has flown elsewhere.
    same = np.all(posterior.draws() == undisturbed.draws(), axis=(1, 2))
    assert same.tolist() == [True, True, False, True]


def test_a_ball_that_goes_astray_again_and_again_is_an_error(monkeypatch):
    lead_astray(monkeypatch, ball=1, calls=range(1, 100))
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"rounding errors.*positive semi-definite.*softness"),
    ):
        sample(make_space(m=20), 80)


def test_drift_is_reported(monkeypatch):
    space = make_space(m=20)
    assert sample(space, 400).info["drift"] < 1e-12
    assert sample(space, 400).info["drift"] > 0
    lead_astray(monkeypatch, ball=1, calls={3}, share=1 + 1e-6)
    drift = sample(space, 400, burn_in=0).info["drift"]
    assert 1e-8 < drift < 1e-6


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [2, 3, 4])
def test_many_points_in_few_dimensions_lose_no_digits(n_features, dtype):
    # Coefficients of a vector are not unique then, and could grow without bound.
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(30, n_features))
    space = VersionSpace((X @ X.T).astype(dtype), np.sign(X @ rng.normal(size=n_features)))
    posterior = sample(space, 2000)
    assert np.abs(posterior.coef).max() < 1e5
    assert_usable(posterior, space, rtol=1e-3 if dtype is np.float32 else 1e-6)
    if dtype is np.float64:
        assert posterior.info["restarts"] == 0


def make_balls(space, start, n_path=0):
    factor = space.rows.factorise(space.softness, Threads(1))
    n_balls = len(start)
    table = Table(
        space.rows, space.ridge, factor, np.tile(space.y, (n_balls, 1)),
        np.zeros((n_balls, len(space))),
    )  # fmt: skip
    return Balls(table, start, np.random.SeedSequence(0), n_path)


class Scripted(Budget):
    """A budget that is spent from the n-th question on."""

    def __init__(self, n_questions):
        super().__init__()
        self.n_questions = n_questions

    def spent(self):
        self.n_questions -= 1
        return self.n_questions < 0


def test_no_time_for_a_repetition_leaves_no_draw_that_was_never_made(monkeypatch):
    space = make_space(m=20)
    start = sample(space, 4).coef
    lead_astray(monkeypatch, ball=1, calls={1})
    balls = make_balls(space, start)

    def poisoned(shape, dtype=np.float64, **_):
        return np.full(shape, np.nan if np.issubdtype(dtype, np.floating) else -1, dtype)

    # Each of four balls asks once and flies to the end; then there is no time left.
    with monkeypatch.context() as patch, np.errstate(invalid="ignore"):
        patch.setattr(np, "empty", poisoned)
        step = balls.step(6, 2, 1.5, Scripted(4), Threads(1))
    for coef in [] if step is None else step[0].reshape(-1, 20):
        assert_allclose(space.norm(coef), 1.0, rtol=1e-9)
        assert np.all(space.margins(coef) > 0)
    assert np.isfinite(balls.drift)


# ---------------------------------------------------------------------- the path


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_path_of_the_first_ball_goes_from_wall_to_wall(noise):
    space = make_space(m=20)
    settings = {"start": sample(space, 4).coef, "label_noise": noise, "burn_in": 3}
    posterior = sample(space, 40, n_path=25, **settings)
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
    assert_array_equal(sample(space, 40, **settings).coef, posterior.coef)
    assert sample(space, 40, **settings).info["path"].shape == (0, 20)
    shorter = sample(space, 40, n_path=5, **settings).info["path"]
    assert_array_equal(shorter, path[:5])


def test_a_path_is_no_longer_than_the_run():
    posterior = sample(make_space(m=20), 12, n_path=10_000, burn_in=0, thin=2)
    n_events = posterior.info["bounces"][0] + posterior.info["passes"][0]
    assert posterior.info["path"].shape == (n_events + 6, 20)  # walls and flight ends


def test_errors_are_those_of_the_draws():
    space = make_space(m=20)
    posterior = sample(space, 200, label_noise=0.2)
    wrong = np.count_nonzero(space.y * posterior.outputs < 0, axis=1)
    assert_array_equal(posterior.info["errors"], wrong)
    assert wrong.max() > 0
    assert np.all(posterior.info["passes"] > 0)
    certain = sample(space, 200)
    assert_array_equal(certain.info["errors"], 0)
    assert_array_equal(certain.info["passes"], 0)
