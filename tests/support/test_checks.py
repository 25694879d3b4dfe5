"""Checks of arguments: what they take, and the message for what they do not."""

import re
import types
import warnings

import numpy as np
import pytest

from bayespoint._support import checks

NAN, INF = float("nan"), float("inf")

# Arguments that are taken, and those that are not with what the message says.
CASES = {
    "number, at least": (
        lambda value: checks.check_number("softness", value, least=0),
        [0, 0.0, 3, 1e300, np.float32(0.5), np.int8(2)],
        [-1e-9, NAN, INF, 10**400, np.longdouble("1e4000"), "1", None, True, [1.0], 1j],
        r"softness must be a finite number >= 0; got ",
    ),
    "number, above": (
        lambda value: checks.check_number("gamma", value, above=0),
        [1e-300, 2, np.float64(0.1)],
        [0, 0.0, -1, -INF, np.nan, False, "0.1"],
        r"gamma must be a finite number > 0; got ",
    ),
    "positive integer": (
        lambda value: checks.check_positive_integer("n_draws", value),
        [1, 10**12, np.int64(7), np.uint8(1)],
        [0, -1, 1.0, True, "3", None, np.float64(2), np.bool_(True)],
        r"n_draws must be a whole number >= 1; got ",
    ),
    "natural number": (
        lambda value: checks.check_natural_number("depth", value),
        [0, 1, np.int32(0)],
        [-1, 0.0, False, "0", None],
        r"depth must be a whole number >= 0; got ",
    ),
    "choice": (
        lambda value: checks.check_choice("decision", value, ("vote", "auto")),
        ["vote", "auto", np.str_("vote")],
        ["", "Vote", None, ["vote"], np.array("vote"), 1],
        r"decision must be one of \('vote', 'auto'\); got ",
    ),
    "time": (
        checks.check_time,
        [None, 1e-3, 10, np.float32(2)],
        [0, -1, NAN, INF, "1", True],
        r"max_time must be a finite number > 0; got ",
    ),
    "verbose": (
        checks.check_verbose,
        [True, False, 0, 3],
        [-1, 1.0, "yes", None],
        r"verbose must be a whole number >= 0; got ",
    ),
    "jobs": (
        checks.check_jobs,
        [None, 1, -1, -2, np.int64(2)],
        [0, 1.5, "2"],
        r"n_jobs must be None or a whole number other than 0; got ",
    ),
    "seed": (
        checks.check_seed,
        [None, 0, 2**32 - 1, np.int64(3), np.random.RandomState(0)],
        [-1, 2**32, "a", 0.5, np.random.default_rng(0)],
        r"random_state must be None, a whole number from 0 to 2\*\*32 - 1 or a RandomState; got ",
    ),
}


def refusal(check, *value):
    """Message of the error that a check raises."""
    try:
        check(*value)
    except ValueError as error:
        return str(error)
    return f"{value!r} was taken"


@pytest.mark.parametrize("name", CASES)
def test_what_is_taken_and_what_is_refused(name):
    check, good, bad, message = CASES[name]
    for value in good:
        check(value)
    for value in bad:
        assert re.match(message + re.escape(repr(value)), refusal(check, value))


def test_the_arguments_of_long_work_are_all_checked():
    checks.check_run()
    checks.check_run(max_time=1.0, n_jobs=2, random_state=0, verbose=True)
    for name, value in (("max_time", 0), ("n_jobs", 0), ("random_state", -1), ("verbose", -1)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            checks.check_run(**{name: value})


def test_a_seed_is_the_same_number_each_time_it_is_given():
    assert checks.entropy_of(7) == checks.entropy_of(np.int64(7)) == 7
    one, other = (checks.entropy_of(np.random.RandomState(3)) for _ in range(2))
    assert one == other
    state = np.random.RandomState(3)
    assert checks.entropy_of(state) == one
    assert checks.entropy_of(state) != one  # a state moves on
    assert checks.entropy_of(None) != checks.entropy_of(None)  # equal in one of 2**31 runs


def test_label_noise_is_one_rate_a_point():
    for given in (0.1, np.float32(0.1), [0.1] * 3, np.full(3, 0.1)):
        noise = checks.check_label_noise(given, 3)
        assert noise.dtype == np.float64
        np.testing.assert_allclose(noise, [0.1, 0.1, 0.1])
    given = np.zeros(3)
    checks.check_label_noise(given, 3)[:] = 0.4  # the caller's own
    assert not given.any()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (0.5, r"must lie in \[0, 0.5\); got 0.5"),
        ([0.1, -0.1, 0.0], "must lie in"),
        ([0.1, NAN, 0.0], "must lie in"),
        ("0.1", "must lie in"),
        (True, "must lie in"),
        (None, "must lie in"),
        ([0.1, 0.1], r"one for each of 3 points; got shape \(2,\)"),
        ([[0.1, 0.1, 0.1]], r"got shape \(1, 3\)"),
        ([[0.1], [0.1, 0.2], []], "got rows of different lengths"),
        ({0: 0.1}, "got a dict, which only the classifier takes"),
    ],
    ids=repr,
)
def test_label_noise_that_is_none_is_refused(noise, message):
    assert re.search(message, refusal(checks.check_label_noise, noise, 3))


def test_places_are_shown_by_number_counted_from_0_and_not_all_of_them():
    mask, from_0 = np.array([True, False, True, True]), " (counted from 0)"
    assert checks.shown_places(mask) == "[0, 2, 3]" + from_0
    assert checks.shown_places(mask, np.array([10, 11, 12, 13])) == "[10, 12, 13]" + from_0
    assert checks.shown_places(mask, [10, 11, 12, 13], most=2) == "[10, 12] and 1 more" + from_0
    assert checks.shown_places(np.ones(9)) == "[0, 1, 2, 3, 4] and 4 more" + from_0


def test_a_warning_points_at_the_line_outside_of_the_package():
    inside = types.ModuleType("bayespoint.room")
    code = (
        "def outer(warn):\n    inner(warn)\ndef inner(warn):\n    warn('careful', FutureWarning)\n"
    )
    exec(compile(code, "room.py", "exec"), vars(inside))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inside.outer(checks.warn)
        checks.warn("directly")
    assert [warning.filename for warning in caught] == [__file__, __file__]
    assert [warning.category for warning in caught] == [FutureWarning, UserWarning]
    assert str(caught[0].message) == "careful"


def test_a_generator_is_told_what_to_do():
    assert "Draw a number" in refusal(checks.check_seed, np.random.default_rng(0))
    assert "Draw a number" not in refusal(checks.check_seed, "a")
