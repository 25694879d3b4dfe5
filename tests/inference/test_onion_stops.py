"""When the onion stops and what it then returns; seeds, threads, odd input."""

import threading
import time
import warnings

import numpy as np
import pytest
from helpers.spaces import make_space
from helpers.stops import PROMPT_SECONDS, can_press, interrupt, press_ctrl_c, stop_after
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace, onion, papers
from bayespoint._support.budget import Budget
from bayespoint.inference.billiard import flights
from bayespoint.inference.billiard.balls import wrong_labels
from bayespoint.inference.onion import exact


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Compile before the clock runs."""
    onion.sample_onion(make_space(m=3), 1, 8, random_state=0)


def sample(space, n_draws=80, depth=1, **settings):
    """Sample; that time was up may be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return onion.sample_onion(space, depth, n_draws, **{"random_state": 0, **settings})


def assert_usable(table, space):
    """Draws are unit vectors in their shells, and centres are theirs."""
    held = np.argwhere(table.counts)
    assert len(held)
    for cell in held:
        post = table.posterior(cell)
        outputs = space.outputs(post.coef)
        assert_allclose(post.outputs, outputs, atol=1e-8)
        assert_allclose(np.einsum("ij,ij->i", post.coef, outputs), 1.0, rtol=1e-9)
        assert np.all(wrong_labels(space.y, outputs) == cell)
        mean = post.coef.mean(axis=0)
        assert_allclose(table.centres[tuple(cell)], mean / space.norm(mean), atol=1e-9)
    assert_allclose(np.exp(table.log_volume).sum(), 1.0)


def assert_equal(one, other):
    for name in ("counts", "centres", "log_volume", "log_volume_errors", "centre_errors"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("bounces", "passes", "rounds"):
        assert_array_equal(one.info[name], other.info[name])


def n_draws_of(table):
    """Draws in the table and one shell deeper."""
    return len(table._draws.coef)


# ---------------------------------------------------------------------- how many draws


@pytest.mark.parametrize(
    ("n_draws", "n_chains", "held"), [(1, 1, 1), (1, 4, 4), (10, 4, 12), (12, 4, 12), (17, 1, 17)]
)
@pytest.mark.parametrize("thin", [1, 3])
def test_draws_are_rounded_up_to_the_same_number_for_each_chain(n_draws, n_chains, held, thin):
    table = sample(make_space(m=9), n_draws, n_chains=n_chains, thin=thin, depth=9)
    assert table.info["n_draws"] * n_chains == held
    assert table.counts.sum() <= n_draws_of(table) <= held
    assert table.info["bounces"].shape == table.info["passes"].shape == (n_chains,)
    assert table.info["rounds"] > 0
    assert table.info["drift"] < 1e-9


def test_thinned_draws_have_flights_between_them():
    space = make_space(m=9)
    events = [
        np.sum(table.info["bounces"] + table.info["passes"])
        for table in (sample(space, 800, thin=thin) for thin in (1, 5))
    ]
    assert 4 < events[1] / events[0] < 6


# ---------------------------------------------------------------------- seeds and threads


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_same_seed_gives_the_same_table(kernel):
    space = make_space(m=12, kernel=kernel)
    first = sample(space, random_state=5)
    assert_equal(sample(space, random_state=5), first)
    assert np.any(sample(space, random_state=6).centres[0, 0] != first.centres[0, 0])
    states = [np.random.RandomState(3) for _ in range(2)]
    one, two = (sample(space, random_state=state) for state in states)
    assert_equal(one, two)
    assert np.any(sample(space, random_state=states[0]).centres[0, 0] != one.centres[0, 0])


@pytest.mark.parametrize(("m", "softness"), [(12, 0.0), (600, 0.1)])
def test_the_number_of_threads_changes_no_bit(m, softness, monkeypatch):
    monkeypatch.setattr(exact, "MAX_ROUNDS", 20)
    monkeypatch.setattr(exact, "BURN_IN_NOISY", 3)
    space = make_space(m=m, softness=softness)
    one, two, all_ = (sample(space, 16, n_jobs=n_jobs) for n_jobs in (1, 2, -1))
    assert_equal(two, one)
    assert_equal(all_, one)


def test_weights_are_learnt_until_visits_are_even():
    table = sample(make_space(m=20), 4_000, depth=2)
    assert table.info["rounds"] < exact.MAX_ROUNDS
    held = table.counts[table.counts > 0]
    assert held.min() > 0.2 * held.mean()
    volume = np.exp(table.log_volume)
    assert volume.min() < 0.02 * volume.max()


# ---------------------------------------------------------------------- time


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_max_time_returns_the_draws_made_so_far(n_jobs):
    space = make_space(m=200)
    begun = time.perf_counter()
    table = sample(space, 2_000_000, max_time=0.3, n_jobs=n_jobs)
    assert 0.3 <= time.perf_counter() - begun < PROMPT_SECONDS
    assert table.info["n_draws"] >= 1  # of each ball; those beyond the table are not in it
    assert 0 < n_draws_of(table) < 2_000_000
    assert_usable(table, space)


def test_half_of_the_time_is_left_for_draws(monkeypatch):
    """However long weights take to be learnt."""
    monkeypatch.setattr(exact, "LAST_GAIN", 0.0)
    monkeypatch.setattr(exact, "MAX_ROUNDS", 10**9)
    space = make_space(m=9)
    table = sample(space, 10**6, max_time=0.4)
    assert table.info["rounds"] > 1
    assert n_draws_of(table) > 100


@pytest.mark.parametrize("n_calls", [0, 1, 2, 3, 5, 8, 13, 30, 60, 100, 200])
def test_whenever_time_is_up_what_comes_back_is_usable(n_calls, monkeypatch):
    space = make_space(m=20)
    stop_after(monkeypatch, n_calls)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        table = sample(space, 2_000, n_chains=4, thin=2, depth=20)
    draws = table._draws
    assert 4 <= len(draws.coef) < 2_000
    assert_allclose(np.einsum("ij,ij->i", draws.coef, space.outputs(draws.coef)), 1.0, rtol=1e-9)
    assert_array_equal(wrong_labels(space.y, space.outputs(draws.coef)), draws.cells)
    if np.any(table.counts):
        assert_usable(table, space)


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("after", [0, 3])
def test_an_interrupt_from_inside_comes_out_and_leaves_everything_usable(
    n_jobs, after, monkeypatch
):
    space = make_space(m=60)
    expected = sample(space)
    n_threads = threading.active_count()
    with monkeypatch.context() as patch:
        interrupt(patch, Budget, "show", after)
        patch.setattr(flights, "MAX_FLIGHTS", 1)
        with pytest.raises(KeyboardInterrupt):
            sample(space, n_jobs=n_jobs)
    assert threading.active_count() == n_threads
    assert_equal(sample(space), expected)


def press_later(function, *args, **options):
    """Call, and press Ctrl-C after a tenth of a second; return the seconds it then took."""
    sent = []

    def press():
        sent.append(time.perf_counter())
        press_ctrl_c()

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        function(*args, **options)
    seconds = time.perf_counter() - sent[0]
    timer.join()
    return seconds


@can_press
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("rounds", [0, 10**9], ids=["draws", "weights"])
def test_ctrl_c_acts_at_once(rounds, n_jobs, monkeypatch):
    monkeypatch.setattr(exact, "MAX_ROUNDS", rounds)
    monkeypatch.setattr(exact, "LAST_GAIN", 0.0)
    n_threads = threading.active_count()
    assert press_later(sample, make_space(m=60), 10**6, n_jobs=n_jobs) < PROMPT_SECONDS
    assert threading.active_count() == n_threads


@can_press
@pytest.mark.parametrize("method", ["exact", "published"])
def test_ctrl_c_stops_the_published_onion_and_cross_validation(method):
    space = make_space(m=60)
    options = {"n_draws": 10**6} if method == "exact" else {"n_bounces": 10**6}
    seconds = press_later(papers.cross_validate_onion, space, 1, cv=3, method=method, **options)
    assert seconds < PROMPT_SECONDS
    if method == "published":
        assert press_later(papers.published_onion, space, 1, **options) < PROMPT_SECONDS


# ---------------------------------------------------------------------- progress


def test_progress_goes_to_standard_error_and_only_when_asked_for(capsys):
    space = make_space(m=20)
    sample(space)
    assert capsys.readouterr() == ("", "")
    sample(space, 80, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "onion" in err
    assert err.endswith("\n")
    assert err.count("\n") == 1


# ---------------------------------------------------------------------- bad input

SPACE = make_space(m=6)
NOT_COUNTS = (0, -3, 1.5, 2.0, "x", None, True, [3], np.nan)
NOT_NUMBERS = (0, -1, np.nan, np.inf, "x", True, [1.0], 1j)

ARGUMENTS = {
    "space": ((None, SPACE.y, "x"), "space must be a VersionSpace"),
    "depth": (
        (-1, 1.5, "x", None, True, np.nan, (1, -1), (1, 0.5), (1, None), [[1, 2], [3, 4]]),
        "depth must be a whole number >= 0",
    ),
    "depth pair": (((1,), (1, 2, 3), []), "depth must be a whole number or a pair of them"),
    "n_draws": (NOT_COUNTS, "n_draws must be a whole number >= 1"),
    "n_chains": (NOT_COUNTS, "n_chains must be a whole number >= 1"),
    "thin": (NOT_COUNTS, "thin must be a whole number >= 1"),
    "max_time": (NOT_NUMBERS, "max_time must be a finite number > 0"),
    "n_jobs": ((0, 1.5, "x", [1]), "n_jobs must be None or a whole number other than 0"),
    "random_state": (
        ("x", -1, 1.5, 2**40, [1], np.random.default_rng(0)),
        "random_state must be None, a whole number",
    ),
    "verbose": ((-1, 1.5, "x", None), "verbose must be a whole number >= 0"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_argument_is_one_error_that_names_it(name):
    values, message = ARGUMENTS[name]
    for value in values:
        with pytest.raises(ValueError, match=message):
            onion.sample_onion(**{"space": SPACE, name.split()[0]: value})


def test_depths_of_any_kind_of_pair_are_the_same():
    expected = sample(SPACE, depth=(1, 2))
    for depth in ([1, 2], np.array([1, 2]), (np.int8(1), np.uint64(2))):
        assert_equal(sample(SPACE, depth=depth), expected)
    assert expected.depth == (1, 2)
    assert sample(SPACE, depth=np.int64(1)).depth == (1, 1)


def test_what_is_no_gram_matrix_is_refused():
    K = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(ValueError, match="K is not positive semi-definite"):
        sample(VersionSpace(K, [1, 1, -1]))


def test_points_at_the_origin_are_refused():
    with pytest.raises(ValueError, match=r"points \[2\] lie at the origin"):
        sample(VersionSpace(np.diag([1.0, 1.0, 0.0]), [1, -1, 1]))


def test_no_classifier_with_so_few_errors_is_an_error_with_the_remedy(monkeypatch):
    monkeypatch.setattr(exact, "MAX_ROUNDS", 50)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.choice([-1, 1], 40)
    with pytest.raises(
        ValueError,
        match=r"found no classifier that makes at most \(1, 0\) errors.*Raise depth.*softness > 0",
    ):
        sample(VersionSpace(X @ X.T, y), depth=(1, 0))


@pytest.mark.parametrize("seed", range(4))
def test_one_point_with_both_labels_and_too_few_errors_allowed(seed, monkeypatch):
    """No ball stays between two walls that coincide."""
    monkeypatch.setattr(exact, "MAX_ROUNDS", 50)
    X = np.random.default_rng(seed).normal(size=(6, 3))
    X[1] = X[0]
    with pytest.raises(ValueError, match="found no classifier that makes at most"):
        sample(VersionSpace(X @ X.T, np.array([1, -1, 1, -1, 1, -1])), depth=0)


def test_one_class_makes_errors_of_one_kind():
    problem = make_space(m=6)
    table = sample(VersionSpace(problem.rows.store, np.ones(6)), 400, depth=2)
    assert np.all(table.counts[0] > 0)
    assert not np.any(table.counts[1:])
    assert_allclose(np.exp(table.log_volume[0]).sum(), 1.0)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_fewest_points_in_a_table_that_is_too_deep(m):
    """Cells of points at right angles: each of 2^m once."""
    y = np.array([1, -1, 1])[:m]
    space = VersionSpace(np.diag([1.0, 4.0, 0.25][:m]), y)
    table = sample(space, 4_000, depth=5)
    assert table.depth == (np.count_nonzero(y < 0), np.count_nonzero(y > 0))
    assert np.all(table.counts > 0)
    assert_allclose(np.exp(table.log_volume[0, 0]), 2.0**-m, rtol=0.2)
    assert_usable(table, space)


def test_arrays_of_any_layout_give_the_same_table():
    K, y = SPACE.rows.store.copy(), SPACE.y
    expected = sample(SPACE)
    K.setflags(write=False)
    assert_equal(sample(VersionSpace(K, y.astype(np.int8))), expected)
    assert_equal(sample(VersionSpace(np.asfortranarray(K), y.tolist())), expected)
    single = sample(VersionSpace(K.astype(np.float32), y), 4_000)
    assert_allclose(single.log_volume[0, 0], sample(SPACE, 4_000).log_volume[0, 0], atol=0.3)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_huge_and_tiny_kernels_have_the_same_shells(scale):
    expected = sample(SPACE)
    table = sample(VersionSpace(scale * SPACE.rows.store, SPACE.y))
    assert_array_equal(table.counts, expected.counts)
    assert_allclose(table.centres * np.sqrt(scale), expected.centres, rtol=1e-5, atol=1e-9)
