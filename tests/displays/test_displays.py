"""Pictures of posteriors: what is drawn is where mathematics puts it, and bad input is refused."""

import itertools
import sys

import numpy as np
import pytest
from helpers.thresholds import FALSE_ALARM_RATE
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

from bayespoint import Posterior, VersionSpace, inference
from bayespoint.displays import PosteriorDisplay
from bayespoint.displays.geometry import View, arc, bounding_walls, corners, tangents, unit
from bayespoint.displays.sphere import Sphere
from bayespoint.displays.trace import BAND, lanes, rank_histograms, summaries, thinning


@pytest.fixture
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


def points_in_space(n_points, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_points, 3))
    return X, np.where(X @ rng.normal(size=3) > 0, 1, -1)


def billiard(n_points=10, seed=0, **options):
    """Posterior of rank 3."""
    X, y = points_in_space(n_points, seed)
    space = VersionSpace(X @ X.T, y)
    return inference.sample_billiard(space, 200, n_path=40, random_state=0, **options)


def billiard_of_rbf(label_noise=0.1, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))
    space = VersionSpace(K, np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    options = {"n_draws": 200, "random_state": 0} | options
    return inference.sample_billiard(space, label_noise=label_noise, **options)


# ------------------------------------------------------------------------------------ geometry


@pytest.mark.parametrize("seed", range(5))
def test_bounding_walls_and_corners_agree_with_trying_all_pairs(seed):
    X, y = points_in_space(12, seed)
    normals = unit(y[:, None] * X)
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=(200_000, 3))
    inside = unit(inside[np.all(inside @ normals.T > 0, axis=1)][0])
    found = bounding_walls(normals, inside)
    expected = {}
    for pair in itertools.combinations(range(len(normals)), 2):
        for sign in (1, -1):
            corner = sign * unit(np.cross(*normals[list(pair)]))
            others = np.delete(normals, pair, axis=0)
            if np.all(others @ corner > 0):
                expected[pair] = corner
    assert set(found.tolist()) == set(itertools.chain(*expected))
    ring = corners(normals[found])
    for corner, pair in zip(ring, zip(found, np.roll(found, -1), strict=True), strict=True):
        assert_allclose(corner, expected[tuple(sorted(map(int, pair)))], atol=1e-9)


def test_a_version_space_of_no_width_is_refused():
    normals = unit(np.array([[1.0, 0, 0], [-1.0, 1e-17, 0], [0, 1, 0], [0, 0, 1]]))
    with pytest.raises(ValueError, match="narrower than rounding errors; use kind='trace'"):
        bounding_walls(normals, unit(np.array([0.0, 1, 1])))


def test_arcs_are_even_and_on_the_great_circle():
    begin, end = np.eye(3)[:2]
    points = arc(begin, end)
    angle = np.arctan2(points[:, 1], points[:, 0])
    assert_allclose(np.diff(angle), angle[-1] / (len(points) - 1))
    assert_allclose(angle[-1], np.pi / 2)
    assert_allclose(points[:, 2], 0)
    assert_array_equal(arc(begin, begin), [begin, begin])


@pytest.mark.parametrize("equal_area", [True, False])
def test_views_go_there_and_back(equal_area):
    rng = np.random.default_rng(0)
    front = unit(rng.normal(size=3))
    view = View(np.vstack([tangents(front), front]), equal_area)
    assert np.linalg.det(view.frame) == pytest.approx(1)  # not a mirror image
    points = unit(rng.normal(size=(50, 3)))
    flat = view.project(points)
    behind = points @ front < 0
    assert 10 < np.count_nonzero(behind) < 40
    assert_array_equal(np.isnan(flat[:, 0]), behind)
    assert_allclose(view.lift(flat[~behind]), points[~behind], atol=1e-12)
    assert_allclose(view.project(front[None]), [[0, 0]], atol=1e-12)
    normal = unit(rng.normal(size=3))
    circle = view.great_circle(normal)
    assert_allclose(np.linalg.norm(circle[[0, -1]], axis=1), view.radius)  # from rim to rim
    assert_allclose(view.lift(circle[1:-1]) @ normal, 0, atol=1e-9)
    assert np.isnan(view.lift(np.array([[view.radius, 0.1]]))).all()


def test_the_rim_itself_is_a_great_circle():
    view = View(np.eye(3))
    assert_allclose(np.linalg.norm(view.great_circle(np.eye(3)[2]), axis=1), view.radius)


@pytest.mark.parametrize("seed", range(3))
def test_version_space_has_its_true_area_in_the_picture(seed):
    """Area from the angles at the corners (Girard) and from the polygon that is drawn."""
    sphere = Sphere(billiard(seed=seed))
    normals = sphere.normals[sphere.bounding]
    turns = np.arccos(np.sum(normals * np.roll(normals, -1, axis=0), axis=1))
    x, y = sphere.view.project(sphere.outline).T
    drawn = abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2
    assert drawn == pytest.approx(2 * np.pi - turns.sum(), rel=1e-3)
    x, y, _ = sphere.frame @ sphere.outline.T  # orthographic: too small
    assert abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2 < 0.99 * drawn


def test_density_is_that_of_the_errors():
    post = billiard(label_noise=0.2)
    sphere = Sphere(post)
    points = unit(np.random.default_rng(0).normal(size=(40, 3)))
    errors = np.count_nonzero(points @ sphere.normals.T < 0, axis=1)
    assert_allclose(sphere.density(points), 4.0 ** (errors.min() - errors))
    assert_allclose(sphere.density(np.vstack([points, np.full(3, np.nan)]))[-1], 0)


# -------------------------------------------------------------------------------------- sphere


def test_sphere_shows_all_there_is(plt):
    post = billiard()
    display = PosteriorDisplay.from_posterior(post)
    assert display.kind == "sphere"
    assert display.figure_.number in plt.get_fignums()
    n_bounding = len(display.bounding_walls_.get_segments())
    assert n_bounding + len(display.walls_.get_segments()) == 10
    assert display.ax_.get_title() == f"Version space: {n_bounding} of 10 walls bound it"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "version space", "walls that bound it", "other walls", "path of a ball", "200 draws",
        "Bayes point (kicks)", "Bayes point (draws)",
    ]  # fmt: skip
    assert display.globe_ in display.ax_.child_axes
    display.figure_.canvas.draw()
    region = display.region_.get_path()
    assert region.contains_points(np.column_stack(display.draws_.get_data())).all()
    for source, mark in display.bayes_points_.items():
        place = np.column_stack(mark.get_data())
        assert region.contains_points(place).all()
        coef = post.bayes_point(source)
        assert_allclose(display.project(post.space.outputs(coef)), place, atol=1e-12)
    assert_allclose(np.column_stack(display.bayes_points_["draws"].get_data()), 0, atol=1e-12)


def test_path_leads_from_wall_to_wall_inside_version_space(plt):  # noqa: ARG001
    sphere = Sphere(billiard())
    way = sphere.way(30)
    known = ~np.isnan(way[:, 0])
    assert np.count_nonzero(known) > 100
    assert np.min(way[known] @ sphere.normals.T) > -1e-9
    # Never along a wall, where the ball has turned round somewhere inside.
    middle = way[1:-1][known[:-2] & known[1:-1] & known[2:]]
    on_walls = np.count_nonzero(np.min(middle @ sphere.normals.T, axis=1) < 1e-9)
    assert on_walls <= 30
    display = PosteriorDisplay.from_posterior(billiard(), n_path=30)
    assert_allclose(np.column_stack(display.path_.get_data()), sphere.view.project(way))


def test_less_can_be_shown(plt):
    _, axes = plt.subplots(1, 2)
    few = PosteriorDisplay.from_posterior(billiard(), ax=axes[0], n_dots=60, n_path=0, legend=False)
    assert few.ax_ is axes[0]
    assert few.figure_ is axes[0].figure
    assert len(few.draws_.get_xdata()) == 50
    assert few.draws_.get_label() == "50 of 200 draws"
    assert few.path_ is None
    assert few.ax_.get_legend() is None
    none = PosteriorDisplay.from_posterior(billiard(), ax=axes[1], n_dots=0)
    assert none.draws_ is None
    assert len(none.ax_.get_legend().get_texts()) == 6


def test_sphere_of_noisy_labels_shows_the_density(plt):  # noqa: ARG001
    display = PosteriorDisplay.from_posterior(billiard(30, label_noise=0.1))
    assert display.ax_.get_title() == "Posterior of 30 noisy labels"
    assert len(display.walls_.get_segments()) == 30
    assert not display.bounding_walls_.get_segments()
    alpha = np.asarray(display.region_.get_array())[..., 3]
    assert alpha.max() == pytest.approx(0.8)
    assert len(np.unique(alpha.round(6))) > 3
    label = display.ax_.get_legend().get_texts()[0].get_text()
    assert label == "darker: more probable"


def test_a_wide_posterior_shows_the_whole_half_sphere_and_counts_draws_behind(plt):  # noqa: ARG001
    display = PosteriorDisplay.from_posterior(billiard(4, label_noise=0.45))
    assert display.globe_ is None
    n_behind = np.count_nonzero(np.isnan(display.draws_.get_xdata()))
    assert n_behind > 0
    assert display.draws_.get_label() == f"200 draws ({n_behind} behind)"


def test_a_mark_out_of_view_is_said_to_be(plt):  # noqa: ARG001
    post = billiard(60)
    post.centres["kicks"] = (-post.bayes_point("draws"), 0.0)
    display = PosteriorDisplay.from_posterior(post)
    assert display.bayes_points_["kicks"].get_label() == "Bayes point (kicks),\nout of view"
    assert display.bayes_points_["draws"].get_label() == "Bayes point (draws)"


# --------------------------------------------------------------------------------------- trace


def test_trace_shows_chains_and_ranks(plt):
    post = billiard_of_rbf()
    display = PosteriorDisplay.from_posterior(post)
    assert display.kind == "trace"
    assert display.figure_.number in plt.get_fignums()
    ((left, right),) = display.ax_
    assert left.get_ylabel() == "Training errors"
    assert left.get_xlabel() == "Draw"
    assert left.get_title().startswith("R-hat 1.")
    assert left.get_title().endswith("of 200")
    assert right.get_xlabel().startswith("Rank among")
    assert right.get_title() == "Ranks (grey: 95% band)"
    assert [tick.get_text() for tick in right.get_yticklabels()] == [
        f"chain {k}" for k in range(1, 5)
    ]
    ((line, *others),) = display.lines_
    assert len(others) == 3
    errors = post.info["errors"].reshape(4, -1)[0]
    assert abs(np.corrcoef(line.get_ydata(), errors)[0, 1] - 1) < 1e-12
    ((first, *_),) = display.bars_
    heights = np.array([bar.get_height() for bar in first])
    counts, _ = rank_histograms(lanes(summaries(post)[0][1])[1][:, :: thinning(errors[None])])
    assert_allclose(heights / heights.sum(), counts[0] / counts[0].sum())
    display.figure_.canvas.draw()


def test_default_summary():
    noisy, exact = billiard_of_rbf(), billiard_of_rbf(0.0)
    ((label, values),) = summaries(noisy)
    assert label == "Training errors"
    assert_array_equal(values.ravel(), noisy.info["errors"])
    ((label, values),) = summaries(exact)
    worst = int(np.argmin(exact.ess()))
    assert label == f"Output at point {worst}\n(lowest ESS)"
    assert_array_equal(values.ravel(), exact.outputs[:, worst])


def test_several_summaries_on_given_axes(plt):
    post = billiard()
    figure, axes = plt.subplots(2, 2)
    display = PosteriorDisplay.from_posterior(post, summary=["margin", 3], ax=axes)
    assert display.kind == "trace"  # asked for a summary
    assert display.figure_ is figure
    labels = [ax.get_ylabel() for ax in axes[:, 0]]
    assert labels == ["Smallest margin", "Output at point 3"]
    ((_, margin),) = summaries(post, "margin")
    assert margin.min() > 0
    assert margin.shape == (4, 50)


@pytest.mark.parametrize("n_draws", [1, 3, 101])
def test_a_single_chain_is_compared_with_itself(plt, n_draws):  # noqa: ARG001
    display = PosteriorDisplay.from_posterior(billiard_of_rbf(n_chains=1, n_draws=n_draws))
    ((left, right),) = display.ax_
    names = [tick.get_text() for tick in right.get_yticklabels()]
    assert names == (["first half", "last half"] if n_draws > 1 else ["chain 1"])
    assert "R-hat" not in left.get_title()
    assert str(n_draws) in left.get_title()
    display.figure_.canvas.draw()


def test_constant_draws_are_drawn(plt):  # noqa: ARG001
    display = PosteriorDisplay.from_posterior(billiard_of_rbf(0.0), summary="errors")
    display.figure_.canvas.draw()
    assert "0" in [tick.get_text() for tick in display.ax_[0, 0].get_yticklabels()]


def outside(values):
    counts, (low, high) = rank_histograms(values)
    assert counts.sum() == values.size
    return bool(np.any((counts < low) | (counts > high)))


@pytest.mark.parametrize("discrete", [False, True])
def test_bars_stay_in_the_band_as_often_as_promised(discrete):
    """Detects a band that one in seven pictures leave; a chain that is off does leave it."""
    rng = np.random.default_rng(0)

    def n_outside(n_pictures, shift):
        values = rng.normal(size=(n_pictures, 4, 200))
        values[:, 0] += shift
        return sum(outside(np.round(one) if discrete else one) for one in values)

    assert n_outside(600, 0.0) <= binom.isf(FALSE_ALARM_RATE, 600, 1 - BAND)
    assert n_outside(50, 0.8) >= 45


def test_dependent_draws_are_thinned_before_they_are_ranked():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(4, 1000))
    assert thinning(independent) == 1
    assert thinning(np.repeat(independent[:, :200], 5, axis=1)) == 5
    assert thinning(np.repeat(independent[:, :10], 100, axis=1)) == 10  # 100 of a chain stay
    assert thinning(independent[:, :3]) == 1
    # Chains that disagree are not thinned for it.
    assert thinning(independent + np.arange(4)[:, None]) == 1


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "circle"}, "kind must be 'auto', 'sphere' or 'trace'; got 'circle'"),
        ({"kind": "sphere"}, "needs training points that span 3 dimensions; these span 20"),
        ({"summary": "median"}, "the number of a training point or a list of these; got 'median'"),
        ({"summary": 20}, "from 0 to 19; got 20"),
        ({"summary": True}, "got True"),
        ({"summary": []}, "summary is an empty list"),
        ({"ax": [1, 2, 3]}, "two axes for each summary, here 2; got 3"),
        ({"n_path": -1}, "n_path must be a finite number >= 0; got -1"),
        ({"n_dots": "all"}, "n_dots must be a finite number >= 0; got 'all'"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PosteriorDisplay.from_posterior(billiard_of_rbf(), **options)


def test_sphere_refuses_what_it_cannot_show(plt):
    post = billiard()
    with pytest.raises(ValueError, match="summary is for kind='trace'; got 'errors'"):
        PosteriorDisplay.from_posterior(post, kind="sphere", summary="errors")
    with pytest.raises(ValueError, match="kind='sphere' draws on one axes; got 2"):
        PosteriorDisplay.from_posterior(post, ax=plt.subplots(1, 2)[1])
    with pytest.raises(ValueError, match="plot one first"):
        PosteriorDisplay(posterior=post).project(post.outputs)


def test_posteriors_that_hold_too_little_are_refused():
    post = billiard()
    bare = Posterior(post.coef, n_chains=4, outputs=post.outputs)
    assert PosteriorDisplay(posterior=bare).kind == "trace"
    with pytest.raises(ValueError, match="needs the version space and the factor"):
        PosteriorDisplay(posterior=bare, kind="sphere")
    with pytest.raises(ValueError, match="'errors' needs labels"):
        PosteriorDisplay.from_posterior(bare, summary="errors")
    with pytest.raises(ValueError, match="holds no outputs at its training points"):
        PosteriorDisplay(posterior=Posterior(post.coef, mean_norm=1.0))


@pytest.mark.parametrize("kind", ["sphere", "trace"])
def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, kind):
    display = PosteriorDisplay(posterior=billiard(), kind=kind)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"PosteriorDisplay needs .* 'bayespoint\[plot\]'"):
        display.plot()


def test_a_wide_version_space_is_shaded_where_its_draws_are():
    """Its outline lies partly behind the half sphere that is shown."""
    Z = np.random.default_rng(25).standard_normal((3, 3)) * [0.4, 0.4, 1.0]
    space = VersionSpace(Z @ Z.T, np.sign(Z[:, 2]))
    display = PosteriorDisplay.from_posterior(inference.sample_billiard(space, 400, random_state=0))
    shade, (left, right, low, high) = display.region_.get_array(), display.region_.get_extent()
    flat = display.project(display.posterior.outputs)
    flat = flat[np.all(np.isfinite(flat), axis=1)]
    column = ((flat[:, 0] - left) / (right - left) * shade.shape[1]).astype(int)
    row = ((flat[:, 1] - low) / (high - low) * shade.shape[0]).astype(int)
    assert np.mean(shade[row, column, 3] > 0) > 0.98  # but for those within a pixel of a wall
