"""KGS's pictures, the log posterior on the sphere and the diversity of draws: their numbers."""

from functools import cache

import numpy as np
import pytest
from helpers.pictures import legend_of
from helpers.refusals import assert_refused
from helpers.thresholds import FALSE_ALARM_RATE, compare_means, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import f

from bayespoint import EmptyVersionSpaceError, Posterior, VersionSpace, inference
from bayespoint.papers import DiversityDisplay, LogPosteriorDisplay
from bayespoint.papers.diversity import mean_angle


@pytest.fixture(autouse=True)
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


# ------------------------------------------------------------------------------- log posterior


@cache
def points_in_space(n_points=10):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_points, 3))
    truth = np.array([1.0, -1.0, 0.5])
    flipped = rng.random(n_points) < 0.2
    return X, np.where((X @ truth > 0) ^ flipped, 1, -1), truth


@cache
def space_of(n_points=10):
    X, y, _ = points_in_space(n_points)
    return VersionSpace(X @ X.T, y)


def contradiction():
    X = np.vstack([np.eye(3), np.eye(3)])
    return VersionSpace(X @ X.T, [1, 1, 1, 1, 1, -1])


def on_sphere(longitude, latitude):
    a, b = np.radians([longitude, latitude])
    return np.array([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])


RATES = [0.2, np.linspace(0.05, 0.45, 10), np.where(np.arange(10) < 2, 0.0, 0.3)]


@pytest.mark.parametrize("rates", RATES, ids=["one", "each", "some sure"])
def test_the_image_is_the_log_posterior(rates):
    """At each pixel: from the margins of its coefficients, in the basis of the factor."""
    space = space_of()
    display = LogPosteriorDisplay.from_space(space, label_noise=rates, resolution=20)
    assert display.image_.get_array().shape == (20, 40)
    assert display.image_.get_extent() == pytest.approx([-180, 180, -90, 90])
    factor = space.rows.factorise(0.0, space.rows.threads)
    vectors = [on_sphere(a, b) for b in display.latitude for a in display.longitude]
    wrong = space.margins(factor.coefficients(np.array(vectors))) < 0
    with np.errstate(divide="ignore"):
        expected = np.where(wrong, np.log(rates), np.log1p(-np.asarray(rates))).sum(axis=1)
    expected = (expected - expected.max()).reshape(20, 40)
    shown = display.image_.get_array()
    assert_array_equal(np.ma.getmaskarray(shown), np.isinf(expected))
    assert_allclose(shown.filled(-np.inf), expected, atol=1e-9)
    column = np.flatnonzero(display.longitude == display.maximum[0])
    row = np.flatnonzero(display.latitude == display.maximum[1])
    assert expected[row, column] == 0
    assert_allclose(np.ravel(display.maximum_.get_data()), display.maximum)


def test_draws_and_truth_are_where_they_belong():
    X, _, truth = points_in_space()
    space = space_of()
    post = inference.sample_billiard(space, 80, label_noise=0.2, random_state=0)
    options = {"label_noise": 0.2, "resolution": 30}
    display = LogPosteriorDisplay.from_space(space, points=X, draws=post, truth=truth, **options)
    places = np.column_stack(display.draws_.get_data())
    assert_allclose([X @ on_sphere(*place) for place in places], post.outputs, atol=1e-9)
    assert_allclose(on_sphere(*np.ravel(display.truth_.get_data())), truth / 1.5)
    assert legend_of(display) == ["80 draws", "maximum", "truth"]
    assert display.ax_.get_title() == "10 points, label noise 0.2"
    assert display.colorbar_.ax.get_ylabel() == "Log posterior less\nits maximum (nats)"
    # The same in the basis of the factor, with the classifier given by its coefficients.
    coef = np.linalg.pinv(X.T) @ truth
    other = LogPosteriorDisplay.from_space(space, draws=post, truth=coef, **options)
    vectors = np.array([on_sphere(*place) for place in other.draws])
    assert_allclose(vectors @ on_sphere(*other.truth),
                    [on_sphere(*place) @ truth / 1.5 for place in places], atol=1e-9)  # fmt: skip
    assert_allclose(vectors, post.coordinates(post.outputs), atol=1e-9)


def test_another_longitude_may_be_in_the_middle():
    X, _, truth = points_in_space()
    options = {"label_noise": 0.2, "resolution": 30, "points": X, "truth": -truth, "legend": False}
    plain, turned = (
        LogPosteriorDisplay.from_space(space_of(), middle=middle, **options) for middle in (0, 90)
    )
    assert turned.ax_.get_legend() is None
    assert turned.image_.get_extent() == pytest.approx([-90, 270, -90, 90])
    assert_allclose(np.roll(turned.log_posterior, 15, axis=1), plain.log_posterior)
    assert plain.truth[0] == pytest.approx(135)
    assert turned.truth[0] == pytest.approx(135)


def test_without_noise_it_is_version_space():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    display = LogPosteriorDisplay.from_space(space, label_noise=0, resolution=18)
    assert_allclose(display.maximum, [-45, 35], atol=5.1)
    a, b = np.meshgrid(display.longitude, display.latitude)
    inside = (a > -90) & (a < 0) & (b > 0)
    assert_array_equal(display.log_posterior == 0, inside)
    assert_array_equal(np.isneginf(display.log_posterior), ~inside)
    assert display.colorbar_ is None
    assert legend_of(display) == ["maximum", "impossible"]
    display.figure_.canvas.draw()


def test_bad_arguments_of_log_posteriors_are_refused():
    cases = [
        ({"space": np.eye(3)}, "space must be a VersionSpace; got ndarray"),
        ({"space": VersionSpace(np.eye(4), [1] * 4)}, "span 3 dimensions.*these span 4.$"),
        ({"space": VersionSpace(np.ones((5, 5)), [1] * 5, 0.1)}, "these span 5. Softness gives"),
        ({"label_noise": 0.5}, r"label_noise must lie in \[0, 0.5\)"),
        ({"label_noise": [0.1, 0.2]}, "label_noise must be one rate or one for each of 10 points"),
        (
            {"space": contradiction(), "label_noise": 0.0},
            "label_noise allows: version space is empty",
        ),
        ({"resolution": 0}, "resolution must be a whole number >= 1; got 0"),
        ({"resolution": 1}, "resolution must be at least 2; got 1"),
        ({"middle": "north"}, "middle must be a finite number >= -180; got 'north'"),
        ({"points": np.eye(3)}, r"points must have shape \(10, 3\)"),
        ({"points": np.ones((10, 3))}, "the Gram matrix as their inner products"),
        ({"truth": [1, 2]}, r"truth must be a vector of 3 coordinates, .* got \[1.0, 2.0\]"),
        ({"truth": [0, 0, 0]}, r"not all zero; got \[0.0, 0.0, 0.0\]"),
        ({"draws": np.eye(3)}, "draws must be a Posterior.*got ndarray"),
        ({"draws": Posterior(np.eye(10), mean_norm=1.0)}, "draws must hold outputs at the 10"),
    ]
    good = {"space": space_of(), "label_noise": 0.2, "resolution": 10}
    assert_refused(LogPosteriorDisplay.from_space, cases, **good)


# ----------------------------------------------------------------------------------- diversity


def test_angles_and_errors_are_those_of_the_billiard():
    space = VersionSpace(0.2 + 0.8 * np.eye(4), [1, -1, 1, 1])
    rates = [0.0, 0.1, 0.4]
    display = DiversityDisplay.from_space(space, rates, n_draws=80, random_state=0)
    assert_array_equal(display.rates, rates)
    for k, rate in enumerate(rates):
        post = inference.sample_billiard(space, 80, label_noise=rate, n_chains=8, random_state=0)
        assert (display.angle[k], display.angle_error[k]) == mean_angle(post)
        wrong = space.y * post.outputs < 0
        assert display.errors[k] == pytest.approx(wrong.sum(axis=1).mean())
    line, _, (bars,) = display.angle_
    assert_allclose(line.get_data(), [rates, display.angle])
    ends = np.array(bars.get_segments())[:, :, 1]
    assert_allclose(ends.mean(axis=1), display.angle)
    assert_allclose(np.diff(ends, axis=1)[:, 0], 2 * display.angle_error)
    assert_allclose(display.errors_.get_data(), [rates, display.errors])
    lower = display.ax_[1]
    assert lower.get_xscale() == "symlog"
    assert [tick.get_text() for tick in lower.get_xticklabels()] == ["0", "10", "40"]


def test_mean_angle_of_uniform_draws_from_an_arc():
    """A third of the arc; and its error is the scatter of such means."""

    def one(rng):
        place = rng.uniform(0, np.pi / 2, size=80)
        draws = np.column_stack([np.cos(place), np.sin(place)])
        return mean_angle(Posterior(draws, outputs=draws, n_chains=8))

    def check(length, seed):
        rng = np.random.default_rng(seed)
        return compare_means([one(rng)[0] for _ in range(length)], 30.0)

    result = two_stage(check, length=50, seed=0)
    assert result.passed, result
    rng = np.random.default_rng(1)
    means, errors = np.transpose([one(rng) for _ in range(150)])
    ratio = np.mean(errors**2) / np.var(means, ddof=1)
    # Detects an error that is off by a factor of 1.7 or more.
    low, high = f.isf([1 - FALSE_ALARM_RATE / 2, FALSE_ALARM_RATE / 2], 150, 149)
    assert low < ratio < high


def test_mean_angle_is_that_of_all_pairs_of_chains():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(6, 3))
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)

    def mean(chains):
        pairs = [(i, j) for i in range(6) for j in range(6) if i // 2 < j // 2]
        pairs = [(i, j) for i, j in pairs if i // 2 in chains and j // 2 in chains]
        return np.mean([np.degrees(np.arccos(draws[i] @ draws[j])) for i, j in pairs])

    angle, error = mean_angle(Posterior(draws, outputs=draws, n_chains=3))
    assert angle == pytest.approx(mean((0, 1, 2)))
    without = np.array([mean((1, 2)), mean((0, 2)), mean((0, 1))])
    assert error == pytest.approx(np.sqrt(2 / 3 * np.sum((without - without.mean()) ** 2)))


def test_an_empty_version_space_is_left_out():
    space = VersionSpace(np.ones((3, 3)), [1, 1, -1])
    display = DiversityDisplay.from_space(space, [0.2, 0.0], n_draws=16, random_state=0)
    assert_array_equal(display.rates, [0.2])
    assert display.ax_[0].get_xscale() == "log"
    with pytest.raises(EmptyVersionSpaceError):
        DiversityDisplay.from_space(space, [0.0])


def test_rates_are_sorted_and_the_seed_repeats():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    one, two = (
        DiversityDisplay.from_space(space, rates, n_draws=16, random_state=3)
        for rates in ([0.3, 0.0], (0.0, 0.3, 0.3))
    )
    assert_array_equal(one.rates, [0, 0.3])
    assert_array_equal(one.angle, two.angle)
    only = DiversityDisplay.from_space(space, [0.0], n_draws=16, random_state=3)
    assert only.ax_[0].get_xscale() == "linear"


def test_bad_arguments_of_diversity_are_refused():
    cases = [
        ({"space": np.eye(3)}, "space must be a VersionSpace; got ndarray"),
        ({"rates": [0.1, 0.5]}, r"rates must hold numbers in \[0, 0.5\); got \[0.1, 0.5\]"),
        ({"rates": []}, "rates must hold numbers"),
        ({"rates": 0.1}, "rates must hold numbers .* got 0.1"),
        ({"rates": ["low"]}, r"got \['low'\]"),
        ({"n_draws": 0}, "n_draws must be a whole number >= 1; got 0"),
        ({"random_state": "now"}, "random_state must be .* got 'now'"),
        ({"rates": [0.1], "n_draws": 8, "ax": [1, 2, 3]}, "ax must be two axes, .* got 3"),
    ]
    good = {"space": VersionSpace(np.eye(3), [1, -1, 1])}
    assert_refused(DiversityDisplay.from_space, cases, **good)
