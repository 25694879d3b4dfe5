"""The billiards as published: played as on paper, biased as they are, and what they refuse."""

import signal
import threading
import time

import numpy as np
import pytest
from helpers.flights import LENGTH, RUNS, SAMPLERS, assert_usable, bounces, flipper, jmlr
from helpers.spaces import make_space
from helpers.stops import PROMPT_SECONDS, can_press, interrupt, press_ctrl_c
from helpers.thresholds import compare_means, two_stage
from helpers.version_spaces import (
    Problem,
    across,
    against_centre,
    assert_passes,
    coordinates,
    equicorrelated,
    equicorrelated_centre,
    exact_draws,
    labels,
    seeds_of,
    skewed,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint._support.budget import Budget
from bayespoint.inference import sample_billiard
from bayespoint.inference.billiard.starts import perceptron_start
from bayespoint.papers.straight import Span, chord_weights
from bayespoint.space.version_space import EmptyVersionSpaceError

# ---------------------------------------------------------------------- on paper


def unit(x):
    return x / np.linalg.norm(x)


def first_wall(points, y, w, v):
    """Wall met first on the straight line w + tau v, and tau."""
    with np.errstate(divide="ignore"):
        tau = np.where(y * (points @ v) < 0, -(points @ w) / (points @ v), np.inf)
    return int(np.argmin(tau)), np.min(tau)


def jmlr_sum(a, b, weight_a, weight_b):
    """The vector on the arc from a to b whose distance to b is the share of their distance."""
    between = np.arccos(np.clip(a @ b, -1, 1))
    to_b = 2 * np.arcsin(weight_a / (weight_a + weight_b) * np.sin(between / 2))
    return unit(np.sin(to_b) * a + np.sin(between - to_b) * b)


def flipper_sum(a, b, weight_a, weight_b):
    """R&M (18.27), as printed."""
    phi = np.arccos(a @ b)
    part = phi * weight_b / (weight_a + weight_b)
    return np.cos(part) * a + np.sin(part) / np.sin(phi) * (b - np.cos(phi) * a)


def on_paper(name, points, y, w, directions, n_bounces, tau_max):
    """Walls, midpoints, lengths and centre of either billiard, in explicit coordinates."""
    v, walls, midpoints, lengths, centre = next(directions), [], [], [], None
    while len(walls) < n_bounces:
        wall, tau = first_wall(points, y, w, v)
        if tau >= tau_max:
            v = next(directions)
            if name == "flipper":
                w = w if centre is None else centre
            elif walls:
                while y[walls[-1]] * (points[walls[-1]] @ v) <= 0:
                    v = next(directions)
            continue
        after = unit(w + tau * v)
        v = v - 2 * (v @ points[wall]) * points[wall] / (points[wall] @ points[wall])
        length = np.linalg.norm(after - w) if name == "jmlr" else np.arccos(after @ w)
        midpoint = unit(w + after)
        add = jmlr_sum if name == "jmlr" else flipper_sum
        centre = midpoint if centre is None else add(centre, midpoint, sum(lengths), length)
        walls.append(wall)
        midpoints.append(midpoint)
        lengths.append(length)
        w = after
    return walls, np.array(midpoints), np.array(lengths), centre


def feed(monkeypatch, spanning, seed):
    """Give both billiards the same directions: coefficients over the spanning vectors."""

    def coefficients():
        rng = np.random.default_rng(seed)
        while True:
            yield rng.standard_normal(len(spanning))

    fed = coefficients()
    monkeypatch.setattr(Span, "random", lambda span, _: span.vector(next(fed)))
    return (unit(coef @ spanning) for coef in coefficients())


@pytest.mark.parametrize("tau_max", [1e4, 1.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_billiards_are_played_as_on_paper(name, seed, tau_max, monkeypatch):
    problem = skewed(6, seed)
    points = coordinates(problem.K)
    start = exact_draws(problem, 1, np.random.default_rng(seed))[0]
    directions = feed(monkeypatch, points, seed)
    post = bounces(name, problem.space, 100, start=start, tau_max=tau_max)
    walls, midpoints, lengths, centre = on_paper(
        name, points, problem.y, start @ points, directions, 100, tau_max
    )
    assert post.info["escapes"] > 10
    assert_array_equal(post.info["walls"], walls)
    assert_allclose(post.coef @ points, midpoints, atol=1e-8)
    assert_allclose(post.weights, lengths, atol=1e-8)
    assert_allclose(post.bayes_point() @ points, centre, atol=1e-8)


@pytest.mark.parametrize("bias", [1.0, 3.0])
@pytest.mark.parametrize("dim", [2, 9])
def test_the_flipper_is_played_with_a_bias_dimension_as_on_paper(dim, bias, monkeypatch):
    """With more dimensions than points the axis of the bias is not in their span."""
    rng = np.random.default_rng(dim)
    X = rng.normal(size=(6, dim))
    y = np.sign(X[:, 0] + 0.3)
    points = np.column_stack([X, np.full(6, np.sqrt(bias))])
    spanning = np.vstack([points, np.eye(dim + 1)[-1]])
    space = VersionSpace(X @ X.T + bias, y)
    start = perceptron_start(space, random_state=0).coef
    directions = feed(monkeypatch, spanning, seed=dim)
    post = bounces("flipper", space, 100, bias=bias, start=start)
    walls, midpoints, lengths, centre = on_paper(
        "flipper", points, y, start @ points, directions, 100, 1e6
    )
    projection = np.linalg.pinv(points) @ points
    inside = midpoints @ projection
    assert_array_equal(post.info["walls"], walls)
    assert_allclose(post.weights, lengths, atol=1e-8)
    projected = inside / np.linalg.norm(inside, axis=1)[:, None]
    assert_allclose(post.outputs, projected @ points.T, atol=1e-8)
    assert_allclose(post.bayes_point() @ points, unit(centre @ projection), atol=1e-8)
    assert (np.linalg.norm(inside, axis=1).min() < 0.999) == (dim > 6)
    assert_usable(post, space)


def test_with_a_bias_dimension_the_ball_goes_another_way():
    X = np.random.default_rng(0).normal(size=(10, 12))
    space = VersionSpace(X @ X.T + 1.0, np.sign(X[:, 0]))
    with_axis, without = flipper(space, bias=1.0), flipper(space)
    assert_usable(with_axis, space)
    assert np.any(with_axis.info["walls"] != without.info["walls"])


# ---------------------------------------------------------------------- what comes back

SPACES = {
    "rbf": make_space(m=20),
    "linear": make_space(m=30, kernel="linear"),
    "soft": make_space(m=20, softness=0.3),
    "float32": make_space(m=20, dtype=np.float32),
    "linear, float32": make_space(m=30, kernel="linear", dtype=np.float32),
    "equal angles": equicorrelated(12).space,
    "three points": skewed(3, 2).space,
    "coinciding walls": with_duplicates(1).space,
    "eight points in three dimensions": skewed(8, 1, dim=3).space,
}


@pytest.mark.parametrize("directions", ["coefficients", "isotropic"])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_and_centres_are_unit_vectors_inside_version_space(name, space, directions):
    rtol = 1e-6 if "float32" in space else 1e-9
    space = SPACES[space]
    post = bounces(name, space, 200, directions=directions)
    assert post.n_draws == len(post.weights) == 200
    assert post.n_chains == 1
    assert_usable(post, space, rtol)


@pytest.mark.parametrize("name", SAMPLERS)
def test_bounces_are_counted_by_wall_and_by_trajectory(name):
    post = bounces(name, SPACES["rbf"], 300)
    info = post.info
    assert info["bounces"] == len(info["walls"]) == info["trajectories"].sum() == 300
    assert set(info["walls"].tolist()) <= set(range(20))
    assert np.all(info["trajectories"] > 0)
    # One more than escapes, less those that led to no wall.
    assert len(info["trajectories"]) <= info["escapes"] + 1


def test_the_path_is_the_mean_of_the_midpoints_by_chord_length():
    for space in SPACES.values():
        post = bounces("jmlr", space, 150)
        assert_allclose(post.bayes_point("path"), post.bayes_point("draws"), atol=1e-9, rtol=1e-6)
        post = bounces("flipper", space, 150)
        mean = 2 * np.sin(post.weights / 2) @ post.coef
        assert_allclose(post.bayes_point("path"), mean / space.norm(mean), atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("n_draws", [1, 2, 7, 16, 299, 300, 1000])
def test_no_more_draws_are_kept_than_asked_for_evenly_spaced(n_draws):
    space = SPACES["rbf"]
    for name in SAMPLERS:
        everything = bounces(name, space, 300, n_draws=300)
        post = bounces(name, space, 300, n_draws=n_draws)
        index = np.argmax(post.coef @ everything.outputs.T, axis=1)
        assert_allclose(post.coef, everything.coef[index], atol=1e-12)
        assert index[0] == 0
        assert len(set(np.diff(index).tolist())) <= 1
        assert min(n_draws, 300) / 2 <= post.n_draws <= n_draws
        assert_array_equal(post.weights, everything.weights[index])
        for source in ("published", "path"):  # of all bounces, whatever is kept
            assert_array_equal(post.bayes_point(source), everything.bayes_point(source))


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_published_centre_comes_first_and_has_no_error(name):
    post = RUNS[name](SPACES["rbf"])
    assert_array_equal(post.bayes_point(), post.bayes_point("published"))
    assert np.isnan(post.bayes_point_error())
    few, many = (bounces(name, SPACES["rbf"], n).bayes_point_error("path") for n in (50, 2000))
    assert 0 < many < few < 1
    assert bounces(name, SPACES["rbf"], 1).bayes_point_error("path") == np.inf
    with pytest.raises(ValueError, match="source must be one of"):
        post.bayes_point("kicks")


@pytest.mark.parametrize("directions", ["coefficients", "isotropic"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_seed_gives_the_same_run(name, directions):
    run, space = RUNS[name], SPACES["rbf"]
    first = run(space, directions=directions)
    for seed in (0, np.int64(0)):
        again = run(space, directions=directions, random_state=seed)
        assert_array_equal(again.coef, first.coef)
        assert_array_equal(again.bayes_point(), first.bayes_point())
        assert_array_equal(again.info["walls"], first.info["walls"])
    other = run(space, directions=directions, random_state=1)
    assert not np.array_equal(other.bayes_point(), first.bayes_point())
    states = [run(space, random_state=np.random.RandomState(3)).coef for _ in range(2)]
    assert_array_equal(*states)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_given_start_is_where_the_ball_begins_whatever_its_length(name):
    problem = skewed(6, 1)
    start = exact_draws(problem, 1, np.random.default_rng(0))[0]
    given = 3.0 * start
    post = bounces(name, problem.space, 20, start=given)
    assert_array_equal(given, 3.0 * start)
    cosine = post.coef[0] @ problem.K @ start
    # The first midpoint is half of the first arc away.
    half = post.weights[0] / 2
    half = np.arcsin(half) if name == "jmlr" else half
    assert_allclose(np.arccos(cosine), half, rtol=1e-6)
    same = bounces(name, problem.space, 20, start=start[None])
    assert_allclose(same.coef, post.coef, atol=1e-9)


# ---------------------------------------------------------------------- stops


@pytest.mark.parametrize("space", ["rbf", "equal angles", "coinciding walls"])
@pytest.mark.parametrize("tol", [0.05, 0.004])
def test_jmlr_stops_at_the_first_bounce_where_its_rule_says_so(space, tol):
    """rho_2(p_min, Xi / (Xi + xi_max)) recomputed from the midpoints and lengths of the chords."""
    space = SPACES[space]
    post = jmlr(space, tol=tol, n_draws=100_000)
    assert post.n_draws == post.info["bounces"]
    points, least, weights = coordinates(np.asarray(space.rows.store)), 1.0, []
    midpoints = post.coef @ points
    centre = midpoints[0]
    for bounce, length in enumerate(post.weights):
        total = post.weights[:bounce].sum()
        if bounce:
            least = min(least, centre @ midpoints[bounce])
            centre = jmlr_sum(centre, midpoints[bounce], total, length)
        total += length
        weights.append(chord_weights(least, total / (total + post.weights[: bounce + 1].max()))[1])
    assert np.all(np.array(weights[:-1]) > tol)
    assert weights[-1] <= tol * (1 + 1e-9)
    assert_allclose(post.bayes_point() @ points, centre, atol=1e-8)


def test_a_smaller_tolerance_takes_more_bounces():
    posts = [jmlr(SPACES["rbf"], tol=tol) for tol in (0.1, 0.01, 0.003)]
    counts = [post.info["bounces"] for post in posts]
    assert counts[0] < counts[1] < counts[2]
    assert all(post.info["tol_reached"] is True for post in posts)
    # The runs are one, seen for longer.
    assert_array_equal(posts[2].info["walls"][: counts[1]], posts[1].info["walls"])


def test_jmlr_warns_when_its_rule_was_not_reached():
    with pytest.warns(ConvergenceWarning, match=r"after 40 bounces.*tol=1e-06.*max_bounces"):
        post = jmlr(SPACES["rbf"], tol=1e-6, max_bounces=40)
    assert post.info["bounces"] == 40
    assert post.info["tol_reached"] is False
    assert_usable(post, SPACES["rbf"])


def test_the_flipper_makes_as_many_bounces_as_asked_for():
    for n_bounces in (1, 2, 77):
        post = flipper(SPACES["rbf"], n_bounces=n_bounces)
        assert post.info["bounces"] == n_bounces
        assert "tol_reached" not in post.info
        assert_usable(post, SPACES["rbf"])


@pytest.mark.parametrize("max_time", [1e-9, 0.2])
@pytest.mark.parametrize("name", SAMPLERS)
def test_when_time_is_up_what_was_seen_comes_back_with_a_warning(name, max_time):
    space, begun = SPACES["rbf"], time.perf_counter()
    settings = {"tol": 1e-14} if name == "jmlr" else {}
    with pytest.warns(ConvergenceWarning, match="raise max_time|or max_time"):
        post = SAMPLERS[name](
            space, **{LENGTH[name]: 10**7}, max_time=max_time, random_state=0, **settings
        )
    assert time.perf_counter() - begun < PROMPT_SECONDS
    assert (post.info["bounces"] == 1) == (max_time < 0.1)
    assert_usable(post, space)


@can_press
@pytest.mark.parametrize("name", SAMPLERS)
def test_ctrl_c_acts_at_once(name):
    sent = []

    def press():
        sent.append(time.perf_counter())
        press_ctrl_c()

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bounces(name, SPACES["rbf"], 10**7)
    assert time.perf_counter() - sent[0] < PROMPT_SECONDS
    timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("after", [0, 20])
@pytest.mark.parametrize("name", SAMPLERS)
def test_an_interrupt_from_inside_comes_out(name, after, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt(patch, Budget, "spent", after)
        with pytest.raises(KeyboardInterrupt):
            RUNS[name](SPACES["linear"], start=RUNS[name](SPACES["linear"]).bayes_point())
    assert_usable(RUNS[name](SPACES["linear"]), SPACES["linear"])


@pytest.mark.parametrize("name", SAMPLERS)
def test_progress_goes_to_standard_error_and_only_when_asked_for(name, capsys, monkeypatch):
    bounces(name, SPACES["rbf"], 50)
    assert capsys.readouterr() == ("", "")
    bounces(name, SPACES["rbf"], 50, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert name in err
    assert "50/50" in err
    monkeypatch.setattr(Budget, "_REDRAW_IN_FILE", 0.0)
    jmlr(SPACES["rbf"], verbose=1)  # which stops before all bounces are made
    assert capsys.readouterr().err.endswith("\n")


# ---------------------------------------------------------------------- escapes


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_shorter_limit_of_flight_times_lets_more_balls_escape(name):
    escapes = [
        bounces(name, SPACES["rbf"], 200, tau_max=tau_max).info["escapes"]
        for tau_max in (1e4, 1, 0.3)
    ]
    assert escapes[0] < escapes[1] < escapes[2]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_ball_that_never_meets_a_wall_is_an_error_and_no_endless_loop(name):
    with pytest.raises(ValueError, match=r"lead to no wall.*sample_billiard"):
        RUNS[name](SPACES["equal angles"], tau_max=1e-9)


def test_one_wall_with_a_bias_dimension_is_half_a_circle():
    space = VersionSpace(np.array([[2.0]]), [-1])
    post = flipper(space, bias=1.0)
    assert post.info["escapes"] > 0
    assert_array_equal(post.info["trajectories"], 1)
    assert_allclose(post.coef, -1 / np.sqrt(2.0))


# ---------------------------------------------------------------------- their bias


def unequal(m, correlation):
    """Equal angles between walls, very unequal lengths; all margins of the centre are equal."""
    y, length = labels(m), np.exp(np.linspace(-1, 1, m))
    G = (correlation + (1 - correlation) * np.eye(m)) * np.outer(length, length)
    problem = Problem(G * np.outer(y, y), y)
    centre = y / length
    return problem, centre / np.sqrt(centre @ problem.K @ centre)


def centres(name, problem, length, seed, **options):
    """Bayes points of 32 independent runs."""
    space = problem.space
    posts = [bounces(name, space, length, random_state=s, **options) for s in seeds_of(seed)]
    return np.array([post.bayes_point() for post in posts])


def published_against_centre(name, problem, centre, **options):
    def check(length, seed):
        coef = centres(name, problem, length, seed, **options)
        return compare_means(across(problem, coef, centre), 0.0)

    return check


CAUGHT = [("jmlr", 0.3), ("flipper", 0.0), pytest.param("jmlr", 0.0, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("name", "correlation"), CAUGHT)
def test_the_exact_billiard_finds_the_centre_that_published_ones_miss(name, correlation):
    problem, centre = unequal(5, correlation)
    assert_passes(against_centre(problem, centre), length=300, seed=0, detects=0.1)
    check = published_against_centre(name, problem, centre)
    assert not two_stage(check, length=30, seed=0).passed


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.slow
def test_isotropic_directions_change_the_result(name):
    problem, centre = unequal(5, 0.0)
    published = centres(name, problem, 60, seed=0)
    isotropic = centres(name, problem, 60, seed=1, directions="isotropic")
    difference = (published - isotropic) * np.sqrt(problem.K.diagonal())
    assert not compare_means(difference, 0.0).passed
    if name == "jmlr":  # most of its error is theirs
        check = published_against_centre(name, problem, centre, directions="isotropic")
        assert two_stage(check, length=60, seed=0).passed


@pytest.mark.slow
def test_more_bounces_do_not_bring_the_flipper_to_the_centre():
    """Restarts at its own centre: where it went first is where it stays."""
    problem = equicorrelated(10)
    centre = equicorrelated_centre(problem)

    def error(coef):
        cosine = np.minimum(np.array(coef) @ problem.K @ centre, 1.0)
        return np.degrees(np.sqrt(np.mean(np.arccos(cosine) ** 2)))

    few, many = (error(centres("flipper", problem, n, seed=0)) for n in (20, 200))
    posts = [sample_billiard(problem.space, 100, n_chains=1, random_state=s) for s in seeds_of(0)]
    assert error([post.bayes_point() for post in posts]) < 10
    assert min(few, many) > 30


# ---------------------------------------------------------------------- bad input

SPACE = make_space(m=6)
START = jmlr(SPACE).bayes_point()

NOT_COUNTS = (0, -3, 1.5, 2.0, "x", None, True, [3], np.nan)
NOT_POSITIVE = (0, -1, np.nan, np.inf, "x", True, [1.0], 1j)

ARGUMENTS = {
    "n_draws": (NOT_COUNTS, "n_draws must be a whole number >= 1"),
    "tau_max": ((*NOT_POSITIVE, None), "tau_max must be a finite number > 0"),
    "directions": (("Isotropic", "", None, 3, ["isotropic"]), "directions must be one of"),
    "max_time": (NOT_POSITIVE, "max_time must be a finite number > 0"),
    "verbose": ((-1, 1.5, "x", None), "verbose must be "),
    "random_state": (("x", -1, 1.5, 2**40, [1]), "random_state must be None, a whole number"),
    "start": (
        ("x", 3, [], START[:5], np.tile(START, (2, 1)), START * np.nan, ["a"] * 6, [[1.0], [1, 2]]),
        "start must have one row of 6 coefficients",
    ),
    "start length": ((np.zeros(6),), "start .* has zero length"),
    "start side": ((-START, START * [1, 1, 1, 1, 1, -30]), "start must lie inside version space"),
}
OWN = {
    "jmlr": {
        "tol": ((*NOT_POSITIVE, None), "tol must be a finite number > 0"),
        "max_bounces": (NOT_COUNTS, "max_bounces must be a whole number >= 1"),
    },
    "flipper": {
        "bias": ((-1, np.nan, np.inf, "x", True, [1.0], None), "bias must be a finite number >= 0"),
        "n_bounces": (NOT_COUNTS, "n_bounces must be a whole number >= 1"),
    },
}
CASES = [
    pytest.param(name, argument.split()[0], value, message, id=f"{name}-{argument}-{k}")
    for name, own in OWN.items()
    for argument, (values, message) in (ARGUMENTS | own).items()
    for k, value in enumerate(values)
]


@pytest.mark.parametrize(("name", "argument", "value", "message"), CASES)
def test_a_wrong_argument_is_one_error_that_names_it(name, argument, value, message):
    with pytest.raises(ValueError, match=message):
        RUNS[name](SPACE, **{argument: value})


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_no_version_space_is_refused(name):
    for space in (SPACE.rows.store, None, "x"):
        with pytest.raises(ValueError, match="space must be a VersionSpace"):
            RUNS[name](space)
    with pytest.raises(ValueError, match=r"points \[1\] lie at the origin"):
        RUNS[name](VersionSpace(np.diag([1.0, 0.0, 1.0]), [1, 1, 1]))


def contradict(X, y, points):
    """Whether a positive combination of these points, signed by label, vanishes (Gordan)."""
    signed = (X * y[:, None])[points]
    equal = np.vstack([signed.T, np.ones(len(points))])
    target = np.append(np.zeros(X.shape[1]), 1.0)
    return linprog(np.zeros(len(points)), A_eq=equal, b_eq=target).success


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_empty_version_space_is_an_error_with_points_that_contradict_each_other(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.choice([-1, 1], 30)
    with pytest.raises(EmptyVersionSpaceError) as caught:
        RUNS[name](VersionSpace(X @ X.T, y))
    assert contradict(X, y, caught.value.points)
    assert not contradict(X, np.sign(X[:, 0]), caught.value.points)  # negative control
