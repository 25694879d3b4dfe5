"""Picture of decision boundaries: lines, points and rings are where the classifier puts them."""

from functools import cache

import numpy as np
import pytest
from helpers.classifiers import FIXED
from helpers.pictures import legend_of
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, OnionClassifier
from bayespoint.displays import BoundaryDisplay

FLIPPED = 7


@cache
def moons():
    X, y = make_moons(40, noise=0.2, random_state=0)
    y[FLIPPED] = 1 - y[FLIPPED]
    return X, np.array(["no", "yes"])[y]


def classifier(**options):
    """Billiard for noisy labels, perceptrons for clean ones."""
    options = FIXED | {"gamma": 0.5, "label_noise": 0.1, "n_draws": 20, "random_state": 0} | options
    options.setdefault("inference", "billiard" if options["label_noise"] else "perceptron")
    return BayesPointClassifier(**options)


@cache
def noisy_moons():
    return classifier().fit(*moons())


@cache
def clean_moons():
    return classifier(label_noise=0, n_draws=8).fit(*moons())


def vertices(contour):
    return np.concatenate([path.vertices for path in contour.get_paths()])


@pytest.mark.parametrize("inference", ["perceptron", "billiard"])
def test_boundaries_are_where_single_draws_say_zero(inference):
    """With the linear kernel: their weights, and the cosines, computed from the coefficients."""
    X, y = moons()
    clf = classifier(kernel="linear", inference=inference, label_noise=0, n_draws=8).fit(X, y)
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


def test_the_thick_line_is_the_boundary_of_the_classifier():
    X, y = moons()
    pipe = make_pipeline(StandardScaler(), classifier(label_noise=0, n_draws=5))
    for clf in (pipe.fit(X * [1, 100], y), noisy_moons()):
        shown = X * [1, 100] if clf is pipe else X
        display = BoundaryDisplay.from_estimator(clf, shown, y, n_draws=3, grid_resolution=60)
        outputs = clf.decision_function(vertices(display.boundary_))
        assert np.max(np.abs(outputs)) < 0.02 * np.max(np.abs(display.response))
        assert len(display.draws) == 3
        assert_allclose(display.ax_.get_xlim(), (display.xx0.min(), display.xx0.max()))


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
    assert legend_of(display) == [
        "class no", "class yes", "label probably wrong", "boundary of\nthe classifier",
        "boundaries of\n2 draws",
    ]  # fmt: skip
    # Other points, or other labels, than those of the fit: nothing is known of their labels.
    for other in ((X[::-1], y[::-1]), (X[:30], y[:30]), (X, y[::-1])):
        assert BoundaryDisplay.from_estimator(clf, *other, **options).suspects_ is None


@pytest.mark.parametrize("part", ["removable", "irreducible"])
def test_the_shade_is_the_part_of_the_uncertainty_asked_for(part):
    X, y = moons()
    pipe = make_pipeline(StandardScaler(), classifier(inference="ep")).fit(X, y)
    options = {"n_draws": 2, "grid_resolution": 12}
    display = BoundaryDisplay.from_estimator(pipe, X, y, uncertainty=part, **options)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    parts = pipe[-1].predict_uncertainty(pipe[:-1].transform(grid))
    assert_allclose(display.shade_.get_array().ravel(), getattr(parts, part))
    assert display.figure_.axes[1].get_ylabel() == f"{part} uncertainty (nats)"
    assert BoundaryDisplay.from_estimator(pipe, X, y, **options).shade_ is None
    held = {name: getattr(display, name) for name in (
        "xx0", "xx1", "response", "draws", "X", "y", "classes", "uncertainty", "part",
    )}  # fmt: skip
    assert BoundaryDisplay(**held).plot().shade_ is not None
    for change in ({"part": None}, {"uncertainty": None}, {"part": "all"}):
        with pytest.raises(ValueError, match="uncertainty and part must be given together"):
            BoundaryDisplay(**held | change)
    with pytest.raises(ValueError, match=r"uncertainty must have the shape \(12, 12\)"):
        BoundaryDisplay(**held | {"uncertainty": display.uncertainty[1:]})


def test_no_rings_where_nothing_is_known_of_label_errors():
    options = {"grid_resolution": 10}
    display = BoundaryDisplay.from_estimator(clean_moons(), *moons(), n_draws=100, **options)
    assert display.suspects_ is None
    assert len(display.draws) == 8  # all there are
    weight = np.ones(40)
    weight[:3] = 0
    clf = classifier(n_draws=8).fit(*moons(), sample_weight=weight)
    display = BoundaryDisplay.from_estimator(clf, *moons(), n_draws=1, **options)
    assert not np.any(display.suspects[:3])


@pytest.mark.parametrize("part", ["removable", "irreducible"])
def test_the_shade_is_the_part_of_the_entropy_that_is_asked_for(part):
    X, y = moons()
    options = {"n_draws": 2, "grid_resolution": 10}
    display = BoundaryDisplay.from_estimator(noisy_moons(), X, y, uncertainty=part, **options)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    expected = getattr(noisy_moons().predict_uncertainty(grid), part)
    assert_allclose(np.ravel(display.uncertainty), expected)
    assert_allclose(np.ravel(display.shade_.get_array()), expected)
    assert f"{part} uncertainty (nats)" in [ax.get_ylabel() for ax in display.figure_.axes]
    assert BoundaryDisplay.from_estimator(noisy_moons(), X, y, **options).shade_ is None


def test_draws_are_chosen_by_the_seed():
    shown = [
        BoundaryDisplay.from_estimator(
            noisy_moons(), *moons(), n_draws=4, grid_resolution=10, random_state=seed, legend=False
        )
        for seed in (0, 0, 1)
    ]
    assert_array_equal(shown[0].draws, shown[1].draws)
    assert not np.array_equal(shown[0].draws, shown[2].draws)
    assert shown[0].ax_.get_legend() is None


def test_boundaries_out_of_view_are_counted():
    xx0, xx1 = np.meshgrid(np.arange(3.0), np.arange(3.0))
    display = BoundaryDisplay(
        xx0=xx0, xx1=xx1, X=[[1, 1]], y=[0], classes=[0, 1], response=np.ones((3, 3)),
        draws=[xx0 - 0.5, xx1 + 1, -xx1 - 1],
    ).plot()  # fmt: skip
    assert display.boundary_ is None
    assert len(display.draws_) == 1
    assert_allclose(vertices(display.draws_[0])[:, 0], 0.5)
    assert legend_of(display)[2:] == [
        "boundary of\nthe classifier,\nout of view",
        "boundaries of\n3 draws,\n2 of them out of view",
    ]


def test_the_onion_has_boundaries():
    clf = OnionClassifier(depth=1, n_draws=400, gamma=0.5, random_state=0).fit(*moons())
    display = BoundaryDisplay.from_estimator(clf, *moons(), n_draws=7, grid_resolution=20)
    assert len(display.draws) == 7
    with pytest.raises(ValueError, match="estimator holds no draws"):
        BoundaryDisplay.from_estimator(clf.with_shells((0, 0)), *moons())


def test_names_of_columns_are_shown():
    pandas = pytest.importorskip("pandas")
    X, y = moons()
    X = pandas.DataFrame(X, columns=["length", "width"])
    clf = make_pipeline(StandardScaler(), classifier(label_noise=0, n_draws=2)).fit(X, y)
    display = BoundaryDisplay.from_estimator(clf, X, y, grid_resolution=5)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")
    plain = BoundaryDisplay.from_estimator(noisy_moons(), X, y, grid_resolution=5)
    assert plain.suspects_ is not None
    assert (plain.ax_.get_xlabel(), plain.ax_.get_ylabel()) == ("Feature 0", "Feature 1")


def test_bad_arguments_are_refused():
    X, y = moons()
    svc = SVC().fit(X, y)
    three = classifier(label_noise=0, n_draws=2).fit(X, np.arange(40) % 3)
    small = classifier(label_noise=0, n_draws=8, decision="bayes_point").fit(X, y).compress()
    cases = [
        ({"n_draws": 0}, "n_draws must be a whole number >= 1; got 0"),
        ({"uncertainty": "all"}, r"uncertainty must be None or one of .* got 'all'"),
        ({"grid_resolution": 1}, "grid_resolution must be at least 2; got 1"),
        ({"grid_resolution": 9.5}, "grid_resolution must be a whole number >= 1; got 9.5"),
        ({"random_state": "now"}, "random_state must be .* got 'now'"),
        ({"X": np.zeros((40, 3))}, "X must have two columns, to be drawn in a plane; got 3"),
        ({"y": np.array(["no"] * 39)}, "y must hold one label .* 40 rows of X; got 39"),
        ({"y": np.array(["maybe"] * 40)}, r"\['no', 'yes'\] .* of \['maybe'\]"),
        ({"estimator": svc}, "estimator must be a BayesPointClassifier; got SVC"),
        ({"estimator": three, "y": np.arange(40) % 3}, r"must have two classes.* fitted to 3"),
        ({"estimator": small}, "estimator holds no draws"),
        ({"uncertainty": "all"}, "uncertainty must be None or one of .* got 'all'"),
    ]
    assert_refused(BoundaryDisplay.from_estimator, cases, estimator=noisy_moons(), X=X, y=y)
