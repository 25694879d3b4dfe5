"""Picture of suspicious labels: bars, images and texts are those of the rows."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, OnionClassifier
from bayespoint.displays import LabelErrorDisplay
from bayespoint.displays.style import SKY, VERMILION

FLIPPED = 7


@cache
def digits():
    """Three classes, with one wrong label."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:45], y[:45].copy()
    y[FLIPPED] = (y[FLIPPED] + 1) % 3
    return X, y


def classifier(**options):
    return BayesPointClassifier(**FIXED | {"n_draws": 8, "random_state": 0} | options)


@cache
def noisy():
    return classifier(label_noise=0.05, n_draws=40, inference="billiard").fit(*digits())


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
    assert display.ax_.get_xlim() == (0, 100)
    assert display.images_ == []


def test_images_are_those_of_the_rows():
    X, _ = digits()
    display = LabelErrorDisplay.from_estimator(noisy(), 4, X=X, image_shape=(8, 8))
    assert_array_equal(display.images, X[display.rows].reshape(-1, 8, 8))
    for place, (row, box) in enumerate(zip(display.rows, display.images_, strict=True)):
        assert_array_equal(box.offsetbox.get_data(), X[row].reshape(8, 8))
        assert box.xy == (0, place)
    display.figure_.canvas.draw()
    # Between the texts and the bars, one below the other.
    boxes = [box.get_window_extent() for box in display.images_]
    texts = [tick.get_window_extent() for tick in display.ax_.get_yticklabels()]
    left = display.ax_.get_window_extent().x0
    assert all(text.x1 < box.x0 < box.x1 <= left for text, box in zip(texts, boxes, strict=True))
    assert all(lower.y1 < upper.y0 for upper, lower in pairwise(boxes))
    wide = LabelErrorDisplay.from_estimator(
        noisy(), 2, X=sp.csr_matrix(X), image_shape=(4, 16), cmap="gray"
    )
    assert_array_equal(wide.images, X[wide.rows].reshape(-1, 4, 16))


def test_colours_tell_whether_another_class_is_more_probable():
    from matplotlib.colors import to_rgba

    arrays = {"rows": [3, 5], "probability": [0.7, 0.6], "given": ["a", "b"]}
    display = LabelErrorDisplay(**arrays, likely=["b", "b"]).plot()
    assert [bar.get_facecolor() for bar in display.bars_] == [to_rgba(VERMILION), to_rgba(SKY)]
    texts = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert texts == ["row 3: given a, rather b", "row 5: given b"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "another class is more probable", "the label is the most probable",
    ]  # fmt: skip
    assert LabelErrorDisplay(**arrays, likely=["b", "a"]).plot().ax_.get_legend() is None


def test_rows_without_weight_are_left_out_and_pipelines_looked_into():
    X, y = digits()
    pipe = make_pipeline(FunctionTransformer(), classifier(label_noise=0.1))
    weight = np.ones(len(y))
    weight[10:] = np.arange(len(y) - 10) % 2
    pipe.fit(X, y, bayespointclassifier__sample_weight=weight)
    display = LabelErrorDisplay.from_estimator(pipe, 60)
    assert_array_equal(np.sort(display.rows), np.flatnonzero(weight))
    assert np.all(np.diff(display.probability) <= 0)


def test_bad_arguments_are_refused():
    X, y = digits()
    some = {"X": np.zeros((45, 64))}
    two = y < 2
    perceptrons = classifier(inference="perceptron", decision="vote").fit(X, y)
    onion = OnionClassifier(depth=1, n_draws=50).fit(X[two], y[two])
    cases = [
        ({"n": 0}, "n must be a whole number >= 1; got 0"),
        ({"n": 2.5}, "n must be a whole number >= 1; got 2.5"),
        (some, "give both X and image_shape"),
        ({"image_shape": (8, 8)}, "give both X and image_shape"),
        (some | {"image_shape": (8, 9)}, r"product of 64.*got \(8, 9\).*is 72"),
        (some | {"image_shape": 64}, "height and a width; got 64"),
        (some | {"image_shape": (-8, -8)}, "image_shape must be .* got -8"),
        ({"X": np.zeros((46, 64)), "image_shape": (8, 8)}, "X must hold the 45 rows .* got 46"),
        # Classifiers that know nothing of label errors.
        ({"estimator": perceptrons}, r"inference='perceptron' and decision='vote', .* fit a"),
        ({"estimator": SVC().fit(X, y)}, "estimator must be a BayesPointClassifier; got SVC"),
        ({"estimator": onion}, "inference='onion'"),
    ]
    assert_refused(LabelErrorDisplay.from_estimator, cases, estimator=noisy())
    with pytest.raises(NotFittedError):
        LabelErrorDisplay.from_estimator(BayesPointClassifier())
