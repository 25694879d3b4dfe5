"""Pictures of label noise: what is drawn is what was computed, and bad input is refused."""

import sys
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED
from helpers.thresholds import FALSE_ALARM_RATE, compare_means, two_stage
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import f
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from bayespoint import (
    BayesPointClassifier,
    EmptyVersionSpaceError,
    OnionClassifier,
    Posterior,
    VersionSpace,
    inference,
)
from bayespoint.displays import BoundaryDisplay, LabelErrorDisplay
from bayespoint.displays.style import SKY, VERMILION
from bayespoint.papers import DiversityDisplay, LogPosteriorDisplay
from bayespoint.papers.diversity import mean_angle

FLIPPED = 7


@pytest.fixture
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


# -------------------------------------------------------------------------------- label errors


@cache
def digits():
    """Three classes, with one wrong label."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:60], y[:60].copy()
    y[FLIPPED] = (y[FLIPPED] + 1) % 3
    return X, y


@cache
def noisy():
    clf = BayesPointClassifier(
        label_noise=0.05, n_draws=40, random_state=0, inference="billiard", **FIXED
    )
    return clf.fit(*digits())


@pytest.mark.usefixtures("plt")
def test_bars_are_the_most_suspicious_labels():
    _, y = digits()
    clf = noisy()
    display = LabelErrorDisplay.from_estimator(clf, 6)
    wrong = clf.label_error_proba_
    rows = np.argsort(-wrong)[:6]
    assert rows[0] == FLIPPED
    assert_array_equal(display.rows, rows)
    assert_array_equal(display.given, y[rows])
    assert_allclose([bar.get_width() for bar in display.bars_], 100 * wrong[rows])
    assert_allclose([bar.get_y() + bar.get_height() / 2 for bar in display.bars_], range(6))
    low, high = display.ax_.get_ylim()
    assert low > high  # the first bar is on top
    right = (y[FLIPPED] - 1) % 3
    texts = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert texts[0] == f"row {FLIPPED}: given {y[FLIPPED]}, rather {right}"
    assert texts[5] == f"row {rows[5]}: given {y[rows[5]]}"
    assert display.ax_.get_xlabel() == "Probability that the label is wrong (%)"
    assert display.ax_.get_xlim() == (0, 100)
    assert display.images_ == []
    display.figure_.canvas.draw()


def test_images_are_those_of_the_rows(plt):
    X, _ = digits()
    ax = plt.subplots()[1]
    display = LabelErrorDisplay.from_estimator(noisy(), 4, X=X, image_shape=(8, 8), ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert_array_equal(display.images, X[display.rows].reshape(-1, 8, 8))
    for place, (row, box) in enumerate(zip(display.rows, display.images_, strict=True)):
        assert_array_equal(box.offsetbox.get_data(), X[row].reshape(8, 8))
        assert box.xy == (0, place)
    display.figure_.canvas.draw()
    # Between the texts and the bars, one below the other.
    boxes = [box.get_window_extent() for box in display.images_]
    texts = [tick.get_window_extent() for tick in ax.get_yticklabels()]
    left = ax.get_window_extent().x0
    assert all(text.x1 < box.x0 < box.x1 <= left for text, box in zip(texts, boxes, strict=True))
    assert all(lower.y1 < upper.y0 for upper, lower in pairwise(boxes))


@pytest.mark.usefixtures("plt")
def test_images_may_be_sparse_and_wide():
    X, _ = digits()
    display = LabelErrorDisplay.from_estimator(
        noisy(), 2, X=sp.csr_matrix(X), image_shape=(4, 16), cmap="gray"
    )
    assert_array_equal(display.images, X[display.rows].reshape(-1, 4, 16))


@pytest.mark.usefixtures("plt")
def test_colours_tell_whether_another_class_is_more_probable():
    arrays = {"rows": [3, 5], "probability": [0.7, 0.6], "given": ["a", "b"]}
    display = LabelErrorDisplay(**arrays, likely=["b", "b"]).plot()
    from matplotlib.colors import to_rgba

    assert [bar.get_facecolor() for bar in display.bars_] == [to_rgba(VERMILION), to_rgba(SKY)]
    texts = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert texts == ["row 3: given a, rather b", "row 5: given b"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "another class is more probable", "the label is the most probable",
    ]  # fmt: skip
    assert LabelErrorDisplay(**arrays, likely=["b", "a"]).plot().ax_.get_legend() is None


@pytest.mark.usefixtures("plt")
def test_rows_without_weight_are_left_out_and_pipelines_looked_into():
    X, y = digits()
    pipe = make_pipeline(FunctionTransformer(), BayesPointClassifier(label_noise=0.1, n_draws=8))
    weight = np.ones(60)
    weight[10:] = np.arange(50) % 2
    pipe.fit(X, y, bayespointclassifier__sample_weight=weight)
    display = LabelErrorDisplay.from_estimator(pipe, 60)
    assert_array_equal(np.sort(display.rows), np.flatnonzero(weight))
    assert np.all(np.diff(display.probability) <= 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be a whole number >= 1; got 0"),
        ({"n": 2.5}, "n must be a whole number >= 1; got 2.5"),
        ({"X": np.zeros((60, 64))}, "give both X and image_shape"),
        ({"image_shape": (8, 8)}, "give both X and image_shape"),
        ({"X": np.zeros((60, 64)), "image_shape": (8, 9)}, r"product of 64.*got \(8, 9\).*is 72"),
        ({"X": np.zeros((60, 64)), "image_shape": 64}, "height and a width; got 64"),
        ({"X": np.zeros((60, 64)), "image_shape": (-8, -8)}, "image_shape must be .* got -8"),
        ({"X": np.zeros((61, 64)), "image_shape": (8, 8)}, "X must hold the 60 rows .* got 61"),
    ],
)
def test_bad_arguments_of_label_errors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabelErrorDisplay.from_estimator(noisy(), **options)


def test_classifiers_that_know_no_label_errors_are_refused():
    X, y = digits()
    with pytest.raises(ValueError, match=r"inference='perceptron', .* fit .* label_noise > 0"):
        LabelErrorDisplay.from_estimator(
            BayesPointClassifier(inference="perceptron", n_draws=2).fit(X, y)
        )
    with pytest.raises(ValueError, match="estimator must be a BayesPointClassifier; got SVC"):
        LabelErrorDisplay.from_estimator(SVC().fit(X, y))
    onion = OnionClassifier(depth=1, n_draws=50).fit(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="inference='onion'"):
        LabelErrorDisplay.from_estimator(onion)
    with pytest.raises(NotFittedError):
        LabelErrorDisplay.from_estimator(BayesPointClassifier())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"probability": [0.1]}, r"probability must hold one value a bar, shape \(2,\); got \(1,"),
        ({"probability": [0.1, 1.1]}, r"probability must lie in \[0, 1\]"),
        ({"likely": [[1, 2]]}, "likely must hold one value a bar"),
        ({"images": np.zeros((2, 8))}, r"images must have shape \(2, height, width\)"),
        ({"rows": []}, "rows must hold one value a bar"),
    ],
)
def test_bad_arrays_of_label_errors_are_refused(arrays, message):
    good = {"rows": [0, 1], "probability": [0.5, 0.2], "given": [1, 1], "likely": [1, 1]}
    with pytest.raises(ValueError, match=message):
        LabelErrorDisplay(**good | arrays)


# ---------------------------------------------------------------------------------- boundaries


@cache
def moons():
    X, y = make_moons(40, noise=0.2, random_state=0)
    y[FLIPPED] = 1 - y[FLIPPED]
    return X, np.array(["no", "yes"])[y]


def fit_moons(**options):
    """Billiard for noisy labels, perceptrons for clean ones."""
    options = FIXED | {"gamma": 0.5, "label_noise": 0.1, "n_draws": 20, "random_state": 0} | options
    options.setdefault("inference", "billiard" if options["label_noise"] else "perceptron")
    return BayesPointClassifier(**options).fit(*moons())


@cache
def noisy_moons():
    return fit_moons()


def vertices(contour):
    return np.concatenate([path.vertices for path in contour.get_paths()])


@pytest.mark.usefixtures("plt")
@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_boundaries_are_where_single_draws_say_zero(inference):
    """With the linear kernel: their weights, and the cosines, computed from the coefficients."""
    X, y = moons()
    clf = fit_moons(kernel="linear", inference=inference, label_noise=0, n_draws=8)
    display = BoundaryDisplay.from_estimator(clf, X, y, grid_resolution=60, random_state=0)

    def directions(points):
        extended = np.column_stack([points, np.ones(len(points))])
        return extended / np.linalg.norm(extended, axis=1, keepdims=True)

    weights = clf.posterior().coef @ directions(X)
    found = set()
    for contour in display.draws_:
        cosine = np.abs(directions(vertices(contour)) @ (weights / clf.posterior().mean_norm).T)
        cosine = cosine.max(axis=0)
        assert cosine.min() < 1e-3
        found.add(int(cosine.argmin()))
    assert len(found) == len(display.draws_) > 5


@pytest.mark.usefixtures("plt")
def test_the_thick_line_is_the_boundary_of_the_classifier():
    X, y = moons()
    pipe = make_pipeline(StandardScaler(), BayesPointClassifier(n_draws=5, random_state=0))
    for clf in (pipe.fit(X * [1, 100], y), noisy_moons()):
        shown = X * [1, 100] if clf is pipe else X
        display = BoundaryDisplay.from_estimator(clf, shown, y, n_draws=3, grid_resolution=100)
        outputs = clf.decision_function(vertices(display.boundary_))
        assert np.max(np.abs(outputs)) < 0.02 * np.max(np.abs(display.response))
        assert len(display.draws) == 3
        assert_allclose(display.ax_.get_xlim(), (display.xx0.min(), display.xx0.max()))


@pytest.mark.usefixtures("plt")
def test_points_and_rings_are_where_they_belong():
    X, y = moons()
    clf = noisy_moons()
    options = {"n_draws": 2, "grid_resolution": 10}
    display = BoundaryDisplay.from_estimator(clf, X, y, **options)
    for name, line in zip(["no", "yes"], display.points_, strict=True):
        assert_array_equal(np.column_stack(line.get_data()), X[y == name])
    first, second = display.points_
    assert first.get_marker() != second.get_marker()
    assert first.get_color() != second.get_color()
    ringed = clf.label_error_proba_ > 0.5
    assert ringed[FLIPPED]
    assert_array_equal(np.column_stack(display.suspects_.get_data()), X[ringed])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "class no", "class yes", "label probably wrong", "boundary of\nthe classifier",
        "boundaries of\n2 draws",
    ]  # fmt: skip
    # Other points, or other labels, than those of the fit: nothing is known of their labels.
    for other in ((X[::-1], y[::-1]), (X[:30], y[:30]), (X, y[::-1])):
        assert BoundaryDisplay.from_estimator(clf, *other, **options).suspects_ is None


@pytest.mark.usefixtures("plt")
def test_no_rings_where_nothing_is_known_of_label_errors():
    clf = fit_moons(label_noise=0)
    display = BoundaryDisplay.from_estimator(clf, *moons(), n_draws=100, grid_resolution=10)
    assert display.suspects_ is None
    assert len(display.draws) == 20  # all there are
    weight = np.ones(40)
    weight[:3] = 0
    clf = BayesPointClassifier(label_noise=0.1, n_draws=8).fit(*moons(), sample_weight=weight)
    display = BoundaryDisplay.from_estimator(clf, *moons(), n_draws=1, grid_resolution=10)
    assert not np.any(display.suspects[:3])


def test_draws_are_chosen_by_the_seed_on_given_axes(plt):
    _, axes = plt.subplots(1, 3)
    shown = [
        BoundaryDisplay.from_estimator(
            noisy_moons(), *moons(), n_draws=4, grid_resolution=10, random_state=seed, ax=ax,
            legend=False,
        )
        for seed, ax in zip([0, 0, 1], axes, strict=True)
    ]  # fmt: skip
    assert_array_equal(shown[0].draws, shown[1].draws)
    assert not np.array_equal(shown[0].draws, shown[2].draws)
    assert [display.ax_ for display in shown] == list(axes)
    assert shown[0].ax_.get_legend() is None


@pytest.mark.usefixtures("plt")
def test_boundaries_out_of_view_are_counted():
    xx0, xx1 = np.meshgrid(np.arange(3.0), np.arange(3.0))
    arrays = {"xx0": xx0, "xx1": xx1, "X": [[1, 1]], "y": [0], "classes": [0, 1]}
    display = BoundaryDisplay(
        **arrays, response=np.ones((3, 3)), draws=[xx0 - 0.5, xx1 + 1, -xx1 - 1]
    ).plot()
    assert display.boundary_ is None
    assert len(display.draws_) == 1
    assert_allclose(vertices(display.draws_[0])[:, 0], 0.5)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[2:] == [
        "boundary of\nthe classifier,\nout of view",
        "boundaries of\n3 draws,\n2 of them out of view",
    ]
    with pytest.raises(ValueError, match=r"draws must have the shape \(3, 3\) of the grid"):
        BoundaryDisplay(**arrays, response=xx0, draws=xx0)


@pytest.mark.usefixtures("plt")
def test_the_onion_has_boundaries():
    clf = OnionClassifier(depth=1, n_draws=200, random_state=0).fit(*moons())
    display = BoundaryDisplay.from_estimator(clf, *moons(), n_draws=7, grid_resolution=20)
    assert len(display.draws) == 7
    with pytest.raises(ValueError, match="estimator holds no draws"):
        BoundaryDisplay.from_estimator(clf.with_shells((0, 0)), *moons())


@pytest.mark.usefixtures("plt")
def test_names_of_columns_are_shown():
    pandas = pytest.importorskip("pandas")
    X, y = moons()
    X = pandas.DataFrame(X, columns=["length", "width"])
    clf = make_pipeline(StandardScaler(), BayesPointClassifier(n_draws=2)).fit(X, y)
    display = BoundaryDisplay.from_estimator(clf, X, y, grid_resolution=5)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")
    plain = BoundaryDisplay.from_estimator(noisy_moons(), X, y, grid_resolution=5)
    assert plain.suspects_ is not None
    assert (plain.ax_.get_xlabel(), plain.ax_.get_ylabel()) == ("Feature 0", "Feature 1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_draws": 0}, "n_draws must be a whole number >= 1; got 0"),
        ({"grid_resolution": 1}, "grid_resolution must be at least 2; got 1"),
        ({"grid_resolution": 9.5}, "grid_resolution must be a whole number >= 1; got 9.5"),
        ({"random_state": "now"}, "random_state must be .* got 'now'"),
        ({"X": np.zeros((40, 3))}, "X must have two columns, to be drawn in a plane; got 3"),
        ({"y": np.array(["no"] * 39)}, "y must hold one label .* 40 rows of X; got 39"),
        ({"y": np.array(["maybe"] * 40)}, r"\['no', 'yes'\] .* of \['maybe'\]"),
    ],
)
def test_bad_arguments_of_boundaries_are_refused(options, message):
    X, y = moons()
    with pytest.raises(ValueError, match=message):
        BoundaryDisplay.from_estimator(noisy_moons(), **{"X": X, "y": y} | options)


def test_classifiers_without_boundary_or_draws_are_refused():
    X, y = moons()
    with pytest.raises(ValueError, match="estimator must be a BayesPointClassifier; got SVC"):
        BoundaryDisplay.from_estimator(SVC().fit(X, y), X, y)
    three = np.arange(40) % 3
    with pytest.raises(ValueError, match=r"two classes apart.* fitted to 3"):
        BoundaryDisplay.from_estimator(BayesPointClassifier(n_draws=2).fit(X, three), X, three)
    small = fit_moons(label_noise=0).compress()
    with pytest.raises(ValueError, match="estimator holds no draws"):
        BoundaryDisplay.from_estimator(small, X, y)


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


@pytest.mark.usefixtures("plt")
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


@pytest.mark.usefixtures("plt")
def test_draws_and_truth_are_where_they_belong():
    X, _, truth = points_in_space()
    space = space_of()
    post = inference.sample_billiard(space, 80, label_noise=0.2, random_state=0)
    options = {"label_noise": 0.2, "resolution": 30}
    display = LogPosteriorDisplay.from_space(space, points=X, draws=post, truth=truth, **options)
    places = np.column_stack(display.draws_.get_data())
    assert_allclose([X @ on_sphere(*place) for place in places], post.outputs, atol=1e-9)
    assert_allclose(on_sphere(*np.ravel(display.truth_.get_data())), truth / 1.5)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["80 draws", "maximum", "truth"]
    assert display.ax_.get_title() == "10 points, label noise 0.2"
    assert display.ax_.get_xlabel() == "Longitude (degrees)"
    assert display.colorbar_.ax.get_ylabel() == "Log posterior less\nits maximum (nats)"
    display.figure_.canvas.draw()
    # The same in the basis of the factor, with the classifier given by its coefficients.
    coef = np.linalg.pinv(X.T) @ truth
    other = LogPosteriorDisplay.from_space(space, draws=post, truth=coef, **options)
    vectors = np.array([on_sphere(*place) for place in other.draws])
    assert_allclose(vectors @ on_sphere(*other.truth),
                    [on_sphere(*place) @ truth / 1.5 for place in places], atol=1e-9)  # fmt: skip
    assert_allclose(vectors, post.coordinates(post.outputs), atol=1e-9)


def test_another_longitude_may_be_in_the_middle(plt):
    X, _, truth = points_in_space()
    _, axes = plt.subplots(1, 2)
    options = {"label_noise": 0.2, "resolution": 30, "points": X, "truth": -truth, "legend": False}
    plain, turned = (
        LogPosteriorDisplay.from_space(space_of(), middle=middle, ax=ax, **options)
        for middle, ax in zip([0, 90], axes, strict=True)
    )
    assert turned.ax_ is axes[1]
    assert turned.ax_.get_legend() is None
    assert turned.image_.get_extent() == pytest.approx([-90, 270, -90, 90])
    assert_allclose(np.roll(turned.log_posterior, 15, axis=1), plain.log_posterior)
    assert plain.truth[0] == pytest.approx(135)
    assert turned.truth[0] == pytest.approx(135)


@pytest.mark.usefixtures("plt")
def test_without_noise_it_is_version_space():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    display = LogPosteriorDisplay.from_space(space, label_noise=0, resolution=18)
    assert_allclose(display.maximum, [-45, 35], atol=5.1)
    a, b = np.meshgrid(display.longitude, display.latitude)
    inside = (a > -90) & (a < 0) & (b > 0)
    assert_array_equal(display.log_posterior == 0, inside)
    assert_array_equal(np.isneginf(display.log_posterior), ~inside)
    assert display.colorbar_ is None
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["maximum", "impossible"]
    display.figure_.canvas.draw()


@pytest.mark.parametrize(
    ("options", "message"),
    [
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
    ],
)
def test_bad_arguments_of_log_posteriors_are_refused(options, message):
    options = {"space": space_of(), "label_noise": 0.2, "resolution": 10} | options
    with pytest.raises(ValueError, match=message):
        LogPosteriorDisplay.from_space(options.pop("space"), **options)


def test_bad_arrays_of_log_posteriors_are_refused():
    arrays = {"longitude": [0, 1], "latitude": [0, 1, 2]}
    with pytest.raises(ValueError, match=r"log_posterior must have shape \(3, 2\), latitudes by"):
        LogPosteriorDisplay(**arrays, log_posterior=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="log_posterior must be finite somewhere"):
        LogPosteriorDisplay(**arrays, log_posterior=np.full((3, 2), -np.inf))
    with pytest.raises(ValueError, match="at least 2 values"):
        LogPosteriorDisplay(longitude=[0], latitude=[0, 1], log_posterior=np.zeros((2, 1)))


# ----------------------------------------------------------------------------------- diversity


@pytest.mark.usefixtures("plt")
def test_angles_and_errors_are_those_of_the_billiard():
    space = VersionSpace(0.2 + 0.8 * np.eye(4), [1, -1, 1, 1])
    rates = [0.0, 0.1, 0.4]
    display = DiversityDisplay.from_space(space, rates, n_draws=160, random_state=0)
    assert_array_equal(display.rates, rates)
    for k, rate in enumerate(rates):
        post = inference.sample_billiard(
            space, 160, label_noise=rate, n_chains=8, random_state=0
        )  # fmt: skip
        assert (display.angle[k], display.angle_error[k]) == mean_angle(post)
        wrong = space.y * post.outputs < 0
        assert display.errors[k] == pytest.approx(wrong.sum(axis=1).mean())
    line, _, (bars,) = display.angle_
    assert_allclose(line.get_data(), [rates, display.angle])
    ends = np.array(bars.get_segments())[:, :, 1]
    assert_allclose(ends.mean(axis=1), display.angle)
    assert_allclose(np.diff(ends, axis=1)[:, 0], 2 * display.angle_error)
    assert_allclose(display.errors_.get_data(), [rates, display.errors])
    upper, lower = display.ax_
    assert upper.get_ylabel() == "Mean angle between\ntwo draws (degrees)"
    assert lower.get_ylabel() == "Training errors\n(mean of a draw)"
    assert lower.get_xlabel() == "Assumed label noise q (%)"
    assert lower.get_xscale() == "symlog"
    assert [tick.get_text() for tick in lower.get_xticklabels()] == ["0", "10", "40"]
    display.figure_.canvas.draw()


def test_mean_angle_of_uniform_draws_from_an_arc():
    """A third of the arc; and its error is the scatter of such means."""

    def one(rng):
        place = rng.uniform(0, np.pi / 2, size=200)
        draws = np.column_stack([np.cos(place), np.sin(place)])
        return mean_angle(Posterior(draws, outputs=draws, n_chains=8))

    def check(length, seed):
        rng = np.random.default_rng(seed)
        return compare_means([one(rng)[0] for _ in range(length)], 30.0)

    result = two_stage(check, length=50, seed=0)
    assert result.passed, result
    rng = np.random.default_rng(1)
    means, errors = np.transpose([one(rng) for _ in range(300)])
    ratio = np.mean(errors**2) / np.var(means, ddof=1)
    low, high = f.isf([1 - FALSE_ALARM_RATE / 2, FALSE_ALARM_RATE / 2], 300, 299)
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


def test_an_empty_version_space_is_left_out(plt):
    space = VersionSpace(np.ones((3, 3)), [1, 1, -1])
    _, axes = plt.subplots(1, 2)
    display = DiversityDisplay.from_space(
        space, [0.2, 0.0], n_draws=16, random_state=0, ax=axes
    )  # fmt: skip
    assert_array_equal(display.rates, [0.2])
    assert list(display.ax_) == list(axes)
    assert axes[0].get_xscale() == "log"
    with pytest.raises(EmptyVersionSpaceError):
        DiversityDisplay.from_space(space, [0.0])


@pytest.mark.usefixtures("plt")
def test_rates_are_sorted_and_the_seed_repeats():
    space = VersionSpace(np.eye(3), [1, -1, 1])
    one, two = (
        DiversityDisplay.from_space(space, rates, n_draws=16, random_state=3)
        for rates in ([0.3, 0.0], (0.0, 0.3, 0.3))
    )
    assert_array_equal(one.rates, [0, 0.3])
    assert_array_equal(one.angle, two.angle)
    only = DiversityDisplay.from_space(space, [0.0], n_draws=16, random_state=3)
    only.figure_.canvas.draw()
    assert only.ax_[0].get_xscale() == "linear"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": np.eye(3)}, "space must be a VersionSpace; got ndarray"),
        ({"rates": [0.1, 0.5]}, r"rates must hold numbers in \[0, 0.5\); got \[0.1, 0.5\]"),
        ({"rates": []}, "rates must hold numbers"),
        ({"rates": 0.1}, "rates must hold numbers .* got 0.1"),
        ({"rates": ["low"]}, r"got \['low'\]"),
        ({"n_draws": 0}, "n_draws must be a whole number >= 1; got 0"),
        ({"random_state": "now"}, "random_state must be .* got 'now'"),
        ({"rates": [0.1], "n_draws": 8, "ax": [1, 2, 3]}, "ax must be two axes, .* got 3"),
    ],
)
def test_bad_arguments_of_diversity_are_refused(options, message):
    options = {"space": VersionSpace(np.eye(3), [1, -1, 1])} | options
    with pytest.raises(ValueError, match=message):
        DiversityDisplay.from_space(**options)


def test_bad_arrays_of_diversity_are_refused():
    arrays = {"rates": [0.1, 0.2], "angle": [1, 2], "angle_error": [0, 0], "errors": [3]}
    with pytest.raises(ValueError, match=r"errors must hold one value a rate, shape \(2,\)"):
        DiversityDisplay(**arrays)


# -------------------------------------------------------------------------------- all pictures

GRID = np.meshgrid([0.0, 1.0], [0.0, 1.0])
DISPLAYS = {
    LabelErrorDisplay: {"rows": [0], "probability": [0.5], "given": [1], "likely": [2]},
    BoundaryDisplay: {
        "xx0": GRID[0], "xx1": GRID[1], "response": GRID[0] - 0.5, "draws": [GRID[1]],
        "X": [[0, 0]], "y": [0], "classes": [0, 1],
    },
    LogPosteriorDisplay: {"longitude": [0, 1], "latitude": [0, 1], "log_posterior": np.eye(2)},
    DiversityDisplay: {"rates": [0.1], "angle": [50], "angle_error": [1], "errors": [2]},
}  # fmt: skip


@pytest.mark.parametrize("display", DISPLAYS)
def test_pictures_are_made_from_plain_arrays(plt, display):
    shown = display(**DISPLAYS[display]).plot()
    assert shown.figure_.number in plt.get_fignums()
    shown.figure_.canvas.draw()
    for text in shown.figure_.findobj(lambda artist: hasattr(artist, "get_fontsize")):
        assert text.get_fontsize() >= 13 or not text.get_text()


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, display):
    made = display(**DISPLAYS[display])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=rf"{display.__name__} needs .* 'bayespoint\[plot\]'"):
        made.plot()
