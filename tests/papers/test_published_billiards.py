"""The billiards as published: played as on paper, what they give, and when they stop."""

import numpy as np
import pytest
from helpers.flights import RUNS, SAMPLERS, assert_usable, bounces, flipper, flipper_sum, jmlr
from helpers.spaces import make_space
from helpers.version_spaces import coordinates, equicorrelated, exact_draws, skewed, with_duplicates
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint.inference.billiard.starts import perceptron_start
from bayespoint.papers import runs
from bayespoint.papers.straight import chord_weights

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


def directions_of(seed, spanning):
    """Random directions of a run: coefficients over the spanning vectors are isotropic."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, 0)))
    while True:
        yield unit(rng.standard_normal(len(spanning)) @ spanning)


@pytest.mark.parametrize(("seed", "tau_max"), [(0, 1e4), (1, 1.0), (2, 1.0)])
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_billiards_are_played_as_on_paper(name, seed, tau_max):
    problem = skewed(6, seed)
    points = coordinates(problem.K)
    start = exact_draws(problem, 1, np.random.default_rng(seed))[0]
    post = bounces(name, problem.space, 60, start=start, tau_max=tau_max, random_state=seed)
    walls, midpoints, lengths, centre = on_paper(
        name, points, problem.y, start @ points, directions_of(seed, points), 60, tau_max
    )
    assert post.info["escapes"] > 5
    assert_array_equal(post.info["walls"], walls)
    assert_allclose(post.coef @ points, midpoints, atol=1e-8)
    assert_allclose(post.weights, lengths, atol=1e-8)
    assert_allclose(post.bayes_point() @ points, centre, atol=1e-8)


@pytest.mark.parametrize(("dim", "bias"), [(2, 3.0), (9, 1.0)])
def test_the_flipper_is_played_with_a_bias_dimension_as_on_paper(dim, bias):
    """With more dimensions than points the axis of the bias is not in their span."""
    rng = np.random.default_rng(dim)
    X = rng.normal(size=(6, dim))
    y = np.sign(X[:, 0] + 0.3)
    points = np.column_stack([X, np.full(6, np.sqrt(bias))])
    # Directions: coefficients of the points without their bias, and of its axis.
    spanning = np.vstack([np.column_stack([X, np.zeros(6)]), np.eye(dim + 1)[-1]])
    space = VersionSpace(X @ X.T + bias, y)
    start = perceptron_start(space, random_state=0).coef
    post = bounces("flipper", space, 60, bias=bias, start=start)
    walls, midpoints, lengths, centre = on_paper(
        "flipper", points, y, start @ points, directions_of(0, spanning), 60, 1e6
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


# ---------------------------------------------------------------------- what comes back

SPACES = {
    "rbf": make_space(m=20),
    "equal angles": equicorrelated(12).space,
    "three points": skewed(3, 2).space,
    "coinciding walls": with_duplicates(1).space,
    "eight points in three dimensions": skewed(8, 1, dim=3).space,
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_and_centres_are_unit_vectors_inside_version_space(name):
    for number, space in enumerate(SPACES.values()):
        directions = ("coefficients", "isotropic")[number % 2]
        post = bounces(name, space, 80, directions=directions)
        assert post.n_draws == len(post.weights) == 80
        assert post.n_chains == 1
        assert_usable(post, space)
        # The path is the mean of the midpoints by chord length.
        chords = post.weights if name == "jmlr" else 2 * np.sin(post.weights / 2)
        mean = chords @ post.coef
        assert_allclose(post.bayes_point("path"), mean / space.norm(mean), atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("name", SAMPLERS)
def test_bounces_are_counted_by_wall_and_by_trajectory(name):
    info = bounces(name, SPACES["rbf"], 150).info
    assert info["bounces"] == len(info["walls"]) == info["trajectories"].sum() == 150
    assert set(info["walls"].tolist()) <= set(range(20))
    assert np.all(info["trajectories"] > 0)
    # One more than escapes, less those that led to no wall.
    assert len(info["trajectories"]) <= info["escapes"] + 1


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_more_draws_are_kept_than_asked_for_evenly_spaced(name):
    space = SPACES["rbf"]
    everything = bounces(name, space, 100, n_draws=100)
    for n_draws in (1, 2, 7, 99, 1000):
        post = bounces(name, space, 100, n_draws=n_draws)
        index = np.argmax(post.coef @ everything.outputs.T, axis=1)
        assert_allclose(post.coef, everything.coef[index], atol=1e-12)
        assert index[0] == 0
        assert len(set(np.diff(index).tolist())) <= 1
        assert min(n_draws, 100) / 2 <= post.n_draws <= n_draws
        assert_array_equal(post.weights, everything.weights[index])
        for source in ("published", "path"):  # of all bounces, whatever is kept
            assert_array_equal(post.bayes_point(source), everything.bayes_point(source))


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_published_centre_comes_first_and_has_no_error(name):
    post = bounces(name, SPACES["rbf"], 20)
    assert_array_equal(post.bayes_point(), post.bayes_point("published"))
    assert np.isnan(post.bayes_point_error())
    few, many = (bounces(name, SPACES["rbf"], n).bayes_point_error("path") for n in (40, 600))
    assert 0 < many < few < 1
    assert bounces(name, SPACES["rbf"], 1).bayes_point_error("path") == np.inf
    with pytest.raises(ValueError, match="source must be one of"):
        post.bayes_point("kicks")


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


@pytest.mark.parametrize(("space", "tol"), [("rbf", 0.02), ("coinciding walls", 0.05)])
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
    posts = [jmlr(SPACES["rbf"], tol=tol) for tol in (0.1, 0.03, 0.01)]
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


def test_the_progress_line_ends_where_the_rule_stops_the_run(clock, capsys):
    clock.step = 11.0
    jmlr(SPACES["rbf"], tol=0.05, verbose=1)
    err = capsys.readouterr().err
    assert err.endswith("\n")
    assert err.count("\n") == 1


# ---------------------------------------------------------------------- escapes


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_shorter_limit_of_flight_times_lets_more_balls_escape(name):
    escapes = [
        bounces(name, SPACES["rbf"], 80, tau_max=tau_max).info["escapes"]
        for tau_max in (1e4, 1, 0.3)
    ]
    assert escapes[0] < escapes[1] < escapes[2]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_ball_that_never_meets_a_wall_is_an_error_and_no_endless_loop(name, monkeypatch):
    monkeypatch.setattr(runs, "MAX_ESCAPES", 500)
    with pytest.raises(ValueError, match=r"lead to no wall.*sample_billiard"):
        RUNS[name](SPACES["equal angles"], tau_max=1e-9)


def test_one_wall_with_a_bias_dimension_is_half_a_circle():
    space = VersionSpace(np.array([[2.0]]), [-1])
    post = flipper(space, bias=1.0, n_bounces=50)
    assert post.info["escapes"] > 0
    assert_array_equal(post.info["trajectories"], 1)
    assert_allclose(post.coef, -1 / np.sqrt(2.0))
