"""Pictures of posteriors, on the sphere and as traces: what is drawn is what was drawn from."""

import numpy as np
import pytest
from helpers.pictures import billiard, billiard_of_rbf, legend_of
from helpers.refusals import assert_refused
from helpers.thresholds import FALSE_ALARM_RATE
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

from bayespoint import Posterior, VersionSpace, inference
from bayespoint.displays import PosteriorDisplay
from bayespoint.displays.sphere import Sphere
from bayespoint.displays.trace import BAND, lanes, rank_histograms, summaries, thinning

# -------------------------------------------------------------------------------------- sphere


def test_sphere_shows_all_there_is():
    post = billiard()
    display = PosteriorDisplay.from_posterior(post)
    assert display.kind == "sphere"
    n_bounding = len(display.bounding_walls_.get_segments())
    assert n_bounding + len(display.walls_.get_segments()) == 10
    assert display.ax_.get_title() == f"Version space: {n_bounding} of 10 walls bound it"
    assert legend_of(display) == [
        "version space", "walls that bound it", "other walls", "path of a ball", "200 draws",
        "Bayes point (kicks)", "Bayes point (draws)",
    ]  # fmt: skip
    assert display.globe_ in display.ax_.child_axes
    region = display.region_.get_path()
    assert region.contains_points(np.column_stack(display.draws_.get_data())).all()
    for source, mark in display.bayes_points_.items():
        place = np.column_stack(mark.get_data())
        assert region.contains_points(place).all()
        coef = post.bayes_point(source)
        assert_allclose(display.project(post.space.outputs(coef)), place, atol=1e-12)
    assert_allclose(np.column_stack(display.bayes_points_["draws"].get_data()), 0, atol=1e-12)
    sphere = Sphere(post)
    assert_allclose(np.column_stack(display.path_.get_data()), sphere.view.project(sphere.way(30)))


def test_less_can_be_shown():
    few = PosteriorDisplay.from_posterior(billiard(), n_dots=60, n_path=0, legend=False)
    assert len(few.draws_.get_xdata()) == 50
    assert few.draws_.get_label() == "50 of 200 draws"
    assert few.path_ is None
    assert few.ax_.get_legend() is None
    none = PosteriorDisplay.from_posterior(billiard(), n_dots=0)
    assert none.draws_ is None
    assert len(legend_of(none)) == 6


def test_sphere_of_noisy_labels_shows_the_density():
    display = PosteriorDisplay.from_posterior(billiard(30, label_noise=0.1))
    assert display.ax_.get_title() == "Posterior of 30 noisy labels"
    assert len(display.walls_.get_segments()) == 30
    assert not display.bounding_walls_.get_segments()
    alpha = np.asarray(display.region_.get_array())[..., 3]
    assert alpha.max() == pytest.approx(0.8)
    assert len(np.unique(alpha.round(6))) > 3
    assert legend_of(display)[0] == "darker: more probable"


def test_a_wide_posterior_shows_the_whole_half_sphere_and_counts_draws_behind():
    display = PosteriorDisplay.from_posterior(billiard(4, label_noise=0.45))
    assert display.globe_ is None
    n_behind = np.count_nonzero(np.isnan(display.draws_.get_xdata()))
    assert n_behind > 0
    assert display.draws_.get_label() == f"200 draws ({n_behind} behind)"


def test_a_mark_out_of_view_is_said_to_be():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    space = VersionSpace(X @ X.T, np.where(X @ [1, -2, 0.5] > 0, 1, -1))
    post = inference.sample_billiard(space, 40, random_state=0)
    post.centres["kicks"] = (-post.bayes_point("draws"), 0.0)
    marks = PosteriorDisplay.from_posterior(post).bayes_points_
    assert marks["kicks"].get_label() == "Bayes point (kicks),\nout of view"
    assert marks["draws"].get_label() == "Bayes point (draws)"


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


# --------------------------------------------------------------------------------------- trace


def test_trace_shows_chains_and_ranks():
    post = billiard_of_rbf()
    display = PosteriorDisplay.from_posterior(post)
    assert display.kind == "trace"
    ((left, right),) = display.ax_
    assert left.get_ylabel() == "Training errors"
    assert left.get_title().startswith("R-hat 1.")
    assert left.get_title().endswith("of 200")
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


def test_the_summary_is_errors_or_the_output_with_the_lowest_ess():
    noisy, exact = billiard_of_rbf(), billiard_of_rbf(0.0)
    ((label, values),) = summaries(noisy)
    assert label == "Training errors"
    assert_array_equal(values.ravel(), noisy.info["errors"])
    ((label, values),) = summaries(exact)
    worst = int(np.argmin(exact.ess()))
    assert label == f"Output at point {worst}\n(lowest ESS)"
    assert_array_equal(values.ravel(), exact.outputs[:, worst])


def test_several_summaries():
    post = billiard()
    display = PosteriorDisplay.from_posterior(post, summary=["margin", 3])
    assert display.kind == "trace"  # asked for a summary
    labels = [ax.get_ylabel() for ax in display.ax_[:, 0]]
    assert labels == ["Smallest margin", "Output at point 3"]
    ((_, margin),) = summaries(post, "margin")
    assert margin.min() > 0
    assert margin.shape == (4, 50)


@pytest.mark.parametrize("n_draws", [1, 3, 101])
def test_a_single_chain_is_compared_with_itself(n_draws):
    display = PosteriorDisplay.from_posterior(billiard_of_rbf(n_chains=1, n_draws=n_draws))
    ((left, right),) = display.ax_
    names = [tick.get_text() for tick in right.get_yticklabels()]
    assert names == (["first half", "last half"] if n_draws > 1 else ["chain 1"])
    assert "R-hat" not in left.get_title()
    assert str(n_draws) in left.get_title()


def test_constant_draws_are_drawn():
    display = PosteriorDisplay.from_posterior(billiard_of_rbf(0.0), summary="errors")
    assert "0" in [tick.get_text() for tick in display.ax_[0, 0].get_yticklabels()]


def outside(values):
    counts, (low, high) = rank_histograms(values)
    assert counts.sum() == values.size
    return bool(np.any((counts < low) | (counts > high)))


@pytest.mark.parametrize(
    ("discrete", "n_pictures"),
    [
        (False, 200),
        (True, 200),
        pytest.param(False, 2000, marks=pytest.mark.slow),
        pytest.param(True, 2000, marks=pytest.mark.slow),
    ],
)
def test_bars_stay_in_the_band_as_often_as_promised(discrete, n_pictures):
    """Detects a band that one in five pictures leave; a chain that is off does leave it."""
    rng = np.random.default_rng(0)

    def n_outside(n_pictures, shift):
        values = rng.normal(size=(n_pictures, 4, 200))
        values[:, 0] += shift
        return sum(outside(np.round(one) if discrete else one) for one in values)

    assert n_outside(n_pictures, 0.0) <= binom.isf(FALSE_ALARM_RATE, n_pictures, 1 - BAND)
    assert n_outside(20, 0.8) >= 18


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


def test_bad_arguments_are_refused():
    cases = [
        ({"post": np.eye(3)}, "post must be a Posterior.*got ndarray"),
        ({"kind": "circle"}, "kind must be 'auto', 'sphere' or 'trace'; got 'circle'"),
        ({"kind": "sphere"}, "needs training points that span 3 dimensions; these span 20"),
        ({"summary": "median"}, "the number of a training point or a list of these; got 'median'"),
        ({"summary": 20}, "from 0 to 19; got 20"),
        ({"summary": True}, "got True"),
        ({"summary": []}, "summary is an empty list"),
        ({"ax": [1, 2, 3]}, "two axes for each summary, here 2; got 3"),
        ({"n_path": -1}, "n_path must be a finite number >= 0; got -1"),
        ({"n_dots": "all"}, "n_dots must be a finite number >= 0; got 'all'"),
    ]
    assert_refused(PosteriorDisplay.from_posterior, cases, post=billiard_of_rbf())


def test_posteriors_that_cannot_be_shown_are_refused():
    post = billiard()
    bare = Posterior(post.coef, n_chains=4, outputs=post.outputs)
    assert PosteriorDisplay(posterior=bare).kind == "trace"
    on_sphere = {"post": post, "kind": "sphere"}
    cases = [
        (on_sphere | {"summary": "errors"}, "summary is for kind='trace'; got 'errors'"),
        (on_sphere | {"ax": [1, 2]}, "kind='sphere' draws on one axes; got 2"),
        ({"post": bare, "kind": "sphere"}, "needs the version space and the factor"),
        ({"post": bare, "summary": "errors"}, "'errors' needs labels"),
        ({"post": Posterior(post.coef, mean_norm=1.0)}, "no outputs at its training points"),
    ]
    assert_refused(PosteriorDisplay.from_posterior, cases)
    with pytest.raises(ValueError, match="plot one first"):
        PosteriorDisplay(posterior=post).project(post.outputs)
