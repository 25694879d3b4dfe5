"""Picture of a stream: what is drawn, and where losses break."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier
from bayespoint.displays import PredictiveDisplay

SEEDS = range(20)
SIZES = {"calls of 50": [50] * 100, "of few": [5] * 500, "that grow": list(range(20, 170))}


def losses(sizes, seed, rise=0.0):
    """Mean losses of calls, skewed, that fall at first and rise after half of the rows."""
    rng, seen, found = np.random.default_rng(seed), np.cumsum(sizes) - sizes, []
    for n, before in zip(sizes, seen, strict=True):
        sure = rng.beta(8, 1, size=n)
        loss = -np.log(np.where(rng.random(n) < sure, sure, 1 - sure))
        later = before >= np.sum(sizes) / 2
        found.append(np.mean(loss) + 0.4 * np.exp(-before / 300) + rise * later)
    return np.array(found)


def display(sizes, loss):
    return PredictiveDisplay(rows=sizes, log_predictive=-loss)


def stream(n=240, size=12, **settings):
    """A classifier that was fed some rows, call by call."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, random_state=0, **settings)
    for first in range(0, n, size):
        rows = X[first : first + size]
        clf.partial_fit(rows, rows[:, 0] > 0)
    return clf


# ---------------------------------------------------------------------- where it breaks


@pytest.mark.parametrize("name", SIZES)
def test_nothing_is_marked_where_the_rule_stays(name):
    sizes = SIZES[name]
    marked = [len(display(sizes, losses(sizes, seed)).breaks_) > 0 for seed in SEEDS]
    assert np.sum(marked) <= 1


@pytest.mark.parametrize("name", SIZES)
def test_a_break_is_marked_near_its_place(name):
    """A rise of 0.4 nats, where losses of rows have a deviation of 0.6."""
    sizes = SIZES[name]
    place = np.sum(sizes) / 2
    near = 0
    for seed in SEEDS:
        found = display(sizes, losses(sizes, seed, rise=0.4)).breaks_
        near += len(found) == 1 and abs(found[0] - place) < 0.05 * np.sum(sizes)
    assert near >= 19


def test_several_breaks_and_falls():
    sizes, calls = [30] * 120, np.arange(120)
    rng = np.random.default_rng(0)
    level = np.select([calls < 40, calls < 60, calls < 80], [0.3, 0.9, 0.3], 1.0)
    noisy = level + 0.05 * rng.normal(size=120)
    assert_array_equal(display(sizes, noisy).breaks_, [30 * 40, 30 * 80])  # not the fall at 60
    assert len(display(sizes, noisy[::-1]).breaks_) == 1  # the rise at 60 from the end


def test_a_rise_that_is_soon_made_up_for():
    """As with a half-life: the first call after the rule turned is far off, the next ones less."""
    loss = 0.06 + 0.02 * np.random.default_rng(0).random(size=40)
    loss[20:28] = 7.5, 0.8, 0.7, 0.65, 0.6, 0.5, 0.35, 0.2
    assert_array_equal(display([100] * 40, loss).breaks_, [2000])


def test_one_call_out_of_line_is_no_break():
    loss = 0.3 + 0.05 * np.random.default_rng(0).normal(size=100)
    loss[60] = 9.0
    assert not len(display([30] * 100, loss).breaks_)


@pytest.mark.parametrize("n", [1, 2, 9, 13, 30])
def test_few_or_equal_calls(n, plt):
    for loss in (np.zeros(n), np.full(n, 0.5), np.linspace(0, 1, n)):
        shown = display([1] * n, loss).plot()
        assert not len(shown.breaks_)
        plt.close(shown.figure_)
    jump = np.where(np.arange(30) < 15, 0.0, 1.0)
    assert_array_equal(display([30] * 30, jump).breaks_, [450])
    assert not len(display([30] * 60, np.full(60, 0.5)).breaks_)


# ---------------------------------------------------------------------- what is drawn


@pytest.mark.usefixtures("plt")
def test_lines_and_marks():
    rows = np.append(100, [30] * 60)
    loss = np.where(np.arange(61) < 40, 0.3, 0.9) + 0.05 * np.random.default_rng(0).normal(size=61)
    loss[0] = np.nan
    shown = display(rows, loss).plot(color="black")
    assert_array_equal(shown.line_.get_xdata(), np.cumsum(rows)[1:])
    assert_allclose(shown.line_.get_ydata(), loss[1:])
    place = 100 + 30 * 39
    assert_array_equal(shown.breaks_, [place])
    assert [mark.get_xdata()[0] for mark in shown.marks_] == [place]
    assert shown.smooth_.get_color() == "black"
    x, y = shown.smooth_.get_data()
    assert np.count_nonzero(np.isnan(y)) == 1  # it starts anew
    before, after = y[(x <= place)], y[(x > place) & ~np.isnan(y)]
    assert np.ptp(before) < 0.1
    assert np.min(after) > np.max(before) + 0.4
    told = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert told == ["each call", "moving mean, centred", "break"]


@pytest.mark.usefixtures("plt")
def test_a_moving_mean_is_by_rows():
    shown = display([10, 30, 1000], np.array([1.0, 2.0, 0.5])).plot()
    assert_allclose(shown.smooth_.get_ydata(), [1.75, 1.75, 0.5])
    assert len(shown.ax_.get_legend().get_texts()) == 2  # there is no break


@pytest.mark.usefixtures("plt")
def test_from_a_classifier():
    clf = stream()
    shown = PredictiveDisplay.from_estimator(clf)
    assert_allclose(shown.line_.get_ydata(), -clf.log_predictive_[1:])
    assert_array_equal(shown.line_.get_xdata(), np.arange(24, 241, 12))
    assert not len(shown.breaks_)
    pipeline = make_pipeline(FunctionTransformer(), clf)
    assert_array_equal(PredictiveDisplay.from_estimator(pipeline).rows, shown.rows)


@pytest.mark.usefixtures("plt")
def test_rows_that_fit_had_learnt_come_first():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] > 0
    clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, inference="ep", random_state=0)
    clf.fit(X[:40], y[:40]).partial_fit(X[40:50], y[40:50]).partial_fit(X[50:], y[50:])
    shown = PredictiveDisplay.from_estimator(clf)
    assert_array_equal(shown.line_.get_xdata(), [50, 60])


def test_what_has_no_stream_is_refused():
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = X[:, 0] > 0
    with pytest.raises(ValueError, match="must be a BayesPointClassifier; got SVC"):
        PredictiveDisplay.from_estimator(SVC().fit(X, y))
    clf = BayesPointClassifier(gamma=0.5, softness=0.1, bias=1.0, inference="ep")
    with pytest.raises(AttributeError, match="log_predictive_ is available after partial_fit"):
        PredictiveDisplay.from_estimator(clf.fit(X, y))
