"""Ways into version space as public functions: perceptron, direct solve and light trap."""

import numpy as np
import pytest
from helpers.samplers import assert_usable
from helpers.spaces import (
    contradict,
    factor_of,
    make_problem,
    make_space,
    narrow_space,
    rows_space,
    separable,
)
from helpers.stops import PROMPT_SECONDS, can_press, press_later
from helpers.version_spaces import against_exact_draws, assert_passes, billiard, skewed
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads, open_threads
from bayespoint.inference import sample_billiard, starts
from bayespoint.inference.billiard.balls import TRAVEL, Balls, Table
from bayespoint.inference.billiard.starts import (
    NEVER,
    TRAP_CHECK,
    class_means,
    direct_start,
    light_trap_start,
    perceptron_start,
    random_start,
)
from bayespoint.space.version_space import EmptyVersionSpaceError

WAYS = {"perceptron": perceptron_start, "direct": direct_start, "light trap": light_trap_start}


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with open_threads(1):
        yield


def repeated(space, index):
    """Some points once more, with the same labels."""
    index = np.append(np.arange(len(space)), index)
    return VersionSpace(space.rows.store[np.ix_(index, index)], space.y[index])


# ---------------------------------------------------------------------- where they must succeed

SPACES = {
    "linear, soft": make_space(kernel="linear", softness=0.1),
    "very unequal lengths": VersionSpace(np.diag(10.0 ** np.arange(-6, 6)), [1, -1] * 6),
    "one point": VersionSpace([[3.0]], [-1]),
    "three points": skewed(3, 1).space,
}
SINGULAR = {
    "linear": make_space(kernel="linear"),
    "repeated points": repeated(make_space(), [3, 3, 17]),
    "a line": VersionSpace(np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5]), [1, -1, 1]),
    "a plane": skewed(12, 1, dim=2).space,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_start_is_a_unit_vector_inside_version_space(way):
    for space in (SPACES if way == "direct" else SPACES | SINGULAR).values():
        for seed in range(2):
            assert_usable(WAYS[way](space, random_state=seed), space)


def test_what_it_took_is_told():
    space = separable(1, "linear")
    assert perceptron_start(space, random_state=0).info["mistakes"] > 0
    assert direct_start(make_space(), random_state=0).info == {}
    found = light_trap_start(space, random_state=0)
    assert set(found.info) == {"flights", "bounces", "passes"}
    assert all(type(number) is int for number in found.info.values())
    first = class_means(space, factor_of(space), None)
    wrong = np.count_nonzero(space.margins(first) < 0)
    assert found.info["flights"] > 0
    assert found.info["passes"] == wrong > 0  # each wall is passed once
    inside = light_trap_start(space, start=found.coef, random_state=0)
    assert inside.info == {"flights": 0, "bounces": 0, "passes": 0}
    assert_allclose(inside.coef, found.coef, rtol=1e-12)


# ---------------------------------------------------------------------- where they must fail


def test_a_light_trap_asks_once_in_a_while_whether_version_space_is_empty(clock):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), rng.choice([-1, 1], 40)
    looks = []
    for max_flights in (3, 10, 10_000):
        clock.looks = 0
        with pytest.raises(EmptyVersionSpaceError):
            light_trap_start(
                VersionSpace(X @ X.T, y), max_flights=max_flights, max_time=1, random_state=0
            )
        looks.append(clock.looks)
    each = (looks[1] - looks[0]) / 7  # flight
    assert looks[2] == looks[0] + (TRAP_CHECK - 3) * each


@pytest.mark.parametrize("way", WAYS)
def test_points_on_a_line_with_labels_that_contradict_each_other(way):
    phi = np.array([1.0, 2.0, -1.0])
    with pytest.raises(EmptyVersionSpaceError) as caught:
        WAYS[way](VersionSpace(np.outer(phi, phi), [1, 1, 1]), random_state=0)
    assert 2 in caught.value.points


@pytest.mark.parametrize("space", ["linear", "repeated points"])
def test_a_direct_start_needs_a_matrix_that_is_not_singular(space):
    space = SINGULAR[space]
    rank = factor_of(space).rank
    message = rf"singular \(rank {rank} of {len(space)}\).*perceptron_start.*softness"
    with pytest.raises(ValueError, match=message) as caught:
        direct_start(space, random_state=0)
    assert not isinstance(caught.value, EmptyVersionSpaceError)


def test_a_direct_start_says_when_rounding_spoils_it(monkeypatch):
    monkeypatch.setattr(starts, "direct_starts", lambda *_: [None])
    with pytest.raises(ValueError, match=r"nearly singular that rounding spoils"):
        direct_start(make_space(), random_state=0)


def test_a_perceptron_that_gives_up_says_what_to_do(monkeypatch):
    monkeypatch.setattr(starts, "LONG_PASSES", 1000)
    many_rows = rows_space(*make_problem(m=400))
    for space, settings in ((narrow_space(), {}), (many_rows, {"max_time": 1e-9})):
        with pytest.raises(ValueError, match=r"the perceptron leaves .* max_time") as caught:
            perceptron_start(space, random_state=0, **settings)
        assert not isinstance(caught.value, EmptyVersionSpaceError)


def test_a_light_trap_that_gives_up_says_how_far_it_came_and_what_to_do():
    space = separable(0, "linear", m=400, dim=100)
    message = r"in 1 flights: (\d+) training points are still on the wrong side.*max_flights"
    with pytest.raises(ValueError, match=message) as caught:
        light_trap_start(space, max_flights=1, travel=0.01, random_state=0)
    assert not isinstance(caught.value, EmptyVersionSpaceError)
    wrong = np.count_nonzero(space.margins(class_means(space, factor_of(space), None)) < 0)
    assert 0 < int(str(caught.value).split("flights: ")[1].split()[0]) <= wrong
    assert_usable(light_trap_start(space, random_state=0), space)


@can_press
def test_ctrl_c_ends_a_light_trap():
    """Whose flights would go on for minutes; no time limit, so that nobody looks at the clock."""
    space = separable(0, "linear", m=400, dim=100)
    seconds = press_later(light_trap_start, space, travel=1e-6, random_state=0)
    assert seconds < PROMPT_SECONDS


# ---------------------------------------------------------------------- the light trap


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_light_traps_lead_in_from_the_class_means(kernel):
    flights = []
    for seed in range(10):
        space = separable(seed, kernel)
        found = light_trap_start(space, random_state=seed)
        assert_usable(found, space)
        flights.append(found.info["flights"])
    assert np.count_nonzero(flights) > 6  # the means of the classes would not do


def trap(space, start):
    """Balls in a light trap."""
    label = np.tile(space.y, (len(start), 1))
    table = Table(space.rows, space.ridge, factor_of(space), label, np.full_like(label, NEVER))
    return Balls(table, start, np.random.SeedSequence(0))


@pytest.mark.parametrize(("kernel", "travel"), [("linear", TRAVEL), ("rbf", 0.1)])
def test_the_number_of_errors_never_grows(kernel, travel):
    """Nor does any label that is right become wrong."""
    space = separable(5, kernel)
    factor, rng = factor_of(space), np.random.default_rng(0)
    balls = trap(space, np.array([random_start(factor, rng) for _ in range(10)]))
    wrong, passes = space.y * balls.P < 0, np.zeros(10)
    first = np.count_nonzero(wrong, axis=1)
    assert np.all(first > 5)
    for _ in range(30):
        (outputs,) = balls.step(1, 1, travel, Budget(), Threads(1))[1].swapaxes(0, 1)
        now = space.y * outputs < 0
        assert not np.any(now & ~wrong)
        passes = balls.counts()["passes"]
        assert_array_equal(passes, first - np.count_nonzero(now, axis=1))
        wrong = now
    assert np.all(np.count_nonzero(wrong, axis=1) < first)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_light_traps_lead_in_from_anywhere(kernel):
    space = separable(2, kernel)
    rng = np.random.default_rng(0)
    for seed in range(3):
        start = random_start(factor_of(space), rng)
        given = 5.0 * start
        found = light_trap_start(space, start=given, random_state=seed)
        assert_array_equal(given, 5.0 * start)
        assert_usable(found, space)
        assert found.info["passes"] == np.count_nonzero(space.margins(start) < 0)
    opposite = light_trap_start(space, start=-found.coef, random_state=0)
    assert_usable(opposite, space)
    assert opposite.info["passes"] == len(space)


def test_on_a_wall_is_not_inside():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    found = light_trap_start(space, start=[1.0, -1.0, 0.0], random_state=0)
    assert_usable(found, space)
    assert found.info["flights"] > 0


def test_a_perceptron_goes_on_for_longer_where_no_contradiction_was_found():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), rng.choice([-1, 1], 20)
    space = VersionSpace(np.exp(-0.03 * np.sum((X[:, None] - X) ** 2, axis=2)), y)
    found = perceptron_start(space, random_state=0)
    assert found.info["mistakes"] > 1000  # more than the passes of the first search
    assert_usable(found, space)


def test_class_means_are_the_difference_of_the_means_of_unit_length():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.where(np.arange(20) % 3, 1, -1)
    space = VersionSpace(X @ X.T, y)
    w = class_means(space, factor_of(space), None) @ X
    expected = X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
    assert_allclose(w, expected / np.linalg.norm(expected), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_classes_with_one_mean_begin_in_a_random_direction(dtype):
    """Their mean difference is a positive combination that vanishes: version space is empty."""
    A = np.random.default_rng(6).integers(-4, 5, size=(3, 5)).astype(float)
    X = np.vstack([A, A[0] + A[1] - A[2]])
    y = np.array([1, 1, -1, -1])
    space = VersionSpace((X @ X.T).astype(dtype), y)
    means = [class_means(space, factor_of(space), np.random.default_rng(seed)) for seed in range(2)]
    assert np.any(means[0] != means[1])
    for coef in means:
        assert_allclose(space.norm(coef), 1.0, rtol=1e-6)
    with pytest.raises(EmptyVersionSpaceError) as caught:
        light_trap_start(space, random_state=0)
    assert_array_equal(caught.value.points, range(4))


# ---------------------------------------------------------------------- the exact billiard from it


def from_light_trap(problem, length, seed):
    return billiard(problem, length, seed, start="light_trap")


def test_the_exact_billiard_from_light_traps_is_exact():
    check = against_exact_draws(skewed(8, 4, dim=3), from_light_trap)
    assert_passes(check, length=300, seed=0, detects=0.08)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_billiard_begins_where_light_traps_lead(kernel):
    space = separable(4, kernel)
    settings = {"n_draws": 40, "start": "light_trap", "random_state": 0}
    one, two = (sample_billiard(space, **settings, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert np.all(space.y * one.outputs > 0)
    assert_array_equal(one.coef, two.coef)
    first = sample_billiard(space, **settings, burn_in=0, travel=1e-9).draws()[:, 0]
    assert len({row.tobytes() for row in first}) == 4  # each ball on a way of its own


def test_the_billiard_from_light_traps_names_points_that_contradict_each_other():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), rng.choice([-1, 1], 40)
    with pytest.raises(EmptyVersionSpaceError) as caught:
        sample_billiard(VersionSpace(X @ X.T, y), start="light_trap", random_state=0)
    assert contradict(X, y, caught.value.points)
