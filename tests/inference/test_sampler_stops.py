"""When time is up or Ctrl-C is pressed, every sampler stops with what it has; its progress line."""

import signal
import threading
import warnings
from functools import partial

import pytest
from helpers.samplers import (
    SAMPLERS,
    UNMIXED,
    arrays,
    assert_usable,
    n_drawn,
    those_that_take,
)
from helpers.spaces import make_problem, make_space, rows_space, separable
from helpers.stops import (
    PROMPT_SECONDS,
    can_press,
    look_often,
    press_ctrl_c,
    press_later,
    raise_interrupt,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint.inference.onion import exact as onion_loop
from bayespoint.space.rows import FullRows
from bayespoint.space.version_space import EmptyVersionSpaceError

ALWAYS = 1e9  # a limit that is looked at and never reached
TIMED = those_that_take("max_time")
DRAWING = [name for name in TIMED if SAMPLERS[name].endless and name != "light trap"]

STRAIGHT = ("jmlr", "flipper", "published onion")

# Spaces where those that look for one vector inside do not find it at once.
HARD = {
    "perceptron start": lambda: rows_space(*make_problem(m=400)),
    "light trap": lambda: separable(0, "linear", m=400, dim=100),
}


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Weights of the onion need not be even here."""
    monkeypatch.setattr(onion_loop, "MAX_ROUNDS", 5)


# ---------------------------------------------------------------------- time


@pytest.mark.parametrize("name", DRAWING)
def test_whenever_time_is_up_what_comes_back_is_usable(name, clock, monkeypatch):
    look_often(monkeypatch)
    run, space, drawn = SAMPLERS[name], make_space(m=20), []
    # However long its weights take, half of the time is for draws.
    monkeypatch.setattr(onion_loop, "MAX_ROUNDS", 10**9)
    monkeypatch.setattr(onion_loop, "LAST_GAIN", 0.0)
    for looks in (1, 2, 3, 4, 5, 8, 13, 30, 2000 if run.takes("n_chains") else 60):
        clock.step = 1 / looks
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", message=UNMIXED)
            result = run.function(space, random_state=0, max_time=1, **run.endless)
        assert {one.category for one in caught} <= {ConvergenceWarning}
        assert all("max_time" in str(one.message) for one in caught)
        drawn.append(n_drawn(result))
        if name in STRAIGHT or (looks == 1 and name != "perceptron"):
            assert caught
        if "travel_time" in result.info:  # 0 where the starts come back
            assert bool(caught) == (result.info["travel_time"] == 0)
        assert_usable(result, space)
    assert drawn == sorted(drawn)
    assert drawn[0] < drawn[-1] < 10**5


@pytest.mark.parametrize("name", HARD)
def test_without_time_a_start_that_is_not_found_is_an_error(name, clock, monkeypatch):
    look_often(monkeypatch)
    for looks in (1, 2, 5):
        clock.looks, clock.step = 0, 1 / looks
        with pytest.raises(ValueError, match=r"wrong side.*max_time") as caught:
            SAMPLERS[name](HARD[name](), max_time=1, **SAMPLERS[name].endless)
        assert not isinstance(caught.value, EmptyVersionSpaceError)
        assert clock.looks < looks + 20


@pytest.mark.parametrize("name", TIMED)
def test_time_that_suffices_changes_nothing(name):
    run, space = SAMPLERS[name], make_space(m=9)
    for one, other in zip(arrays(run(space)), arrays(run(space, max_time=1e6)), strict=True):
        assert_allclose(one, other, atol=1e-7)


# ---------------------------------------------------------------------- Ctrl-C


def looks_of(clock, run, space, **settings):
    """Looks at the clock of an undisturbed run, and what it gives."""
    clock.looks = 0
    result = run(space, max_time=ALWAYS, **settings)
    return clock.looks, result


PRESSED = [(name, 1) for name in TIMED] + [
    (name, 2) for name in those_that_take("n_jobs", "max_time")
]


@can_press
@pytest.mark.parametrize(("name", "n_jobs"), PRESSED)
def test_ctrl_c_is_never_lost_and_leaves_everything_usable(name, n_jobs, clock, monkeypatch):
    look_often(monkeypatch)
    run, space = SAMPLERS[name], make_space(m=20, kernel="linear")
    settings = {"n_jobs": n_jobs} if run.takes("n_jobs") else {}
    n_looks, expected = looks_of(clock, run, space, **settings)
    n_threads = threading.active_count()
    for action in (press_ctrl_c, raise_interrupt):
        for look in sorted({2, min(3, n_looks), max(2, n_looks // 2), n_looks}):
            clock.looks, clock.events = 0, {look: action}
            with pytest.raises(KeyboardInterrupt):
                run(space, max_time=ALWAYS, **settings)
            assert threading.active_count() == n_threads
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _, again = looks_of(clock, run, space, **settings)
    for one, other in zip(arrays(again), arrays(expected), strict=True):
        assert_array_equal(one, other)


@can_press
@pytest.mark.parametrize("name", TIMED)
def test_after_ctrl_c_little_more_is_done(name, clock, monkeypatch):
    look_often(monkeypatch)
    run, space = SAMPLERS[name], HARD.get(name, partial(make_space, m=20))()
    for look in (4, 8 if name == "perceptron start" else 100):
        # If it was lost the run would still end, after ten thousand looks.
        clock.now, clock.step, clock.looks, clock.events = 0.0, 1.0, 0, {look: press_ctrl_c}
        with pytest.raises(KeyboardInterrupt):
            run(space, max_time=10_000, **run.endless)
        assert clock.looks < look + 20


@can_press
@pytest.mark.parametrize(
    ("name", "settings"),
    [("billiard", {"travel": 1e7, "burn_in": 0, "n_jobs": 2}), ("gibbs", {"thin": 100})],
)
def test_ctrl_c_acts_in_the_middle_of_a_long_flight(name, settings):
    """Compiled loops come back to look for it."""
    settings = {**settings, "n_draws": 10**6, "max_time": 60}  # in case it is lost
    assert press_later(SAMPLERS[name], make_space(m=60), **settings) < PROMPT_SECONDS


@can_press
def test_ctrl_c_while_the_matrix_is_factorised_is_not_lost():
    class Pressed(FullRows):
        def factorise(self, *args, **options):
            factor = super().factorise(*args, **options)
            press_ctrl_c()
            return factor

    for name in those_that_take("n_jobs"):
        if name != "perceptron":
            space = make_space(m=20)
            with pytest.raises(KeyboardInterrupt):
                SAMPLERS[name](VersionSpace(Pressed(space.rows.store), space.y))


# ---------------------------------------------------------------------- progress


@pytest.mark.parametrize("name", SAMPLERS)
def test_progress_is_one_line_on_standard_error_and_only_when_asked_for(name, capsys, clock):
    run, space = (
        SAMPLERS[name],
        make_space(m=20, kernel="linear", softness=0.0 if "direct" not in name else 0.1),
    )
    run(space)
    assert capsys.readouterr() == ("", "")
    if not run.takes("verbose"):
        return
    for step in (0.0, 11.0):  # drawn at the end, and at every look
        clock.step = step
        run(space, verbose=1)
        out, err = capsys.readouterr()
        assert out == ""
        assert all(word in err for word in run.shown)
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert (err.count("\r") > 1) == (step > 0)
        assert "runs" not in err or name == "perceptron"  # one that looks for a start is silent


@pytest.mark.parametrize("name", those_that_take("verbose"))
def test_a_progress_line_ends_wherever_the_run_stops(name, capsys, clock, monkeypatch):
    look_often(monkeypatch)
    clock.step = 11.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        SAMPLERS[name].function(
            make_space(m=20), verbose=1, max_time=3000, random_state=0, **SAMPLERS[name].endless
        )
    err = capsys.readouterr().err
    assert err.endswith("\n")
    assert err.count("\n") == 1
