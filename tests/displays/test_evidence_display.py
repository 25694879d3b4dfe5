"""Picture of the evidence: what is drawn is what was computed."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.refusals import assert_refused
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier, OnionClassifier
from bayespoint.displays import EvidenceDisplay

GAMMAS, SOFTNESSES = [0.05, 0.5, 5.0], [0.001, 0.1, 3.0]


@cache
def moons():
    return make_moons(30, noise=0.25, random_state=0)


def show(estimator=None, X=None, **options):
    X = moons()[0] if X is None else X
    options = {"gammas": GAMMAS, "softnesses": SOFTNESSES} | options
    estimator = BayesPointClassifier(bias=1.0) if estimator is None else estimator
    return EvidenceDisplay.from_estimator(estimator, X, moons()[1], **options)


def drawn(gammas, softnesses, values, **options):
    arrays = {"gammas": gammas, "softnesses": softnesses, "log_evidence": values}
    return EvidenceDisplay(**arrays, **options).plot()


def test_values_are_those_of_single_fits():
    """Warm starts change no value, and rows are widths: the two lists are not symmetric."""
    kept = {"kernel": "laplacian", "bias": 0.3, "label_noise": 0.05}
    clf = BayesPointClassifier(inference="billiard", random_state=0, **kept)
    before = clf.get_params()
    display = show(clf, softnesses=[1.0, 0.01])

    def single(gamma, softness):
        fresh = BayesPointClassifier(
            inference="ep", tol=1e-6, n_draws=1, gamma=gamma, softness=softness, **kept
        )
        return fresh.fit(*moons()).log_evidence_

    expected = [[single(g, s) for s in (0.01, 1.0)] for g in GAMMAS]
    assert_allclose(display.log_evidence, expected, atol=1e-3)
    assert_array_equal(display.softnesses, [0.01, 1.0])  # in order
    assert np.all(display.converged)
    assert clf.get_params() == before
    assert not hasattr(clf, "classes_")


def test_weights_are_copies():
    X, y = moons()
    weight = np.arange(30) % 3
    clf = BayesPointClassifier(bias=1.0, label_noise=0.1)
    options = {"gammas": [0.5], "softnesses": [0.1]}
    shown = show(clf, sample_weight=weight, **options)
    copies = np.repeat(np.arange(30), weight)
    repeated = EvidenceDisplay.from_estimator(clf, X[copies], y[copies], **options)
    assert_allclose(shown.log_evidence, repeated.log_evidence, atol=1e-3)
    assert abs(shown.log_evidence - show(clf, **options).log_evidence) > 0.1


def test_a_pipeline_prepares_the_points():
    X = moons()[0] * [1, 100] + 7
    options = {"gammas": [0.5], "softnesses": [0.1]}
    display = show(make_pipeline(StandardScaler(), BayesPointClassifier(bias=1.0)), X=X, **options)
    scaled = show(X=StandardScaler().fit_transform(X), **options)
    assert_allclose(display.log_evidence, scaled.log_evidence)


def test_widths_and_softnesses_by_default():
    """With different scales, of which the many fits warn once."""
    X, y = moons()
    one = EvidenceDisplay.from_estimator(BayesPointClassifier(tol=0.1), X, y, gammas=[1.0])
    assert_allclose(one.softnesses[[0, 4, 8]], [1e-3, 0.1, 10])
    X = np.column_stack([X, 1e4 * X[:, 0]])
    with pytest.warns(UserWarning, match="very different scales") as caught:
        display = show(BayesPointClassifier(tol=0.1), X=X, gammas=None, softnesses=[1])
    assert len(caught) == 1
    scale = 1 / (3 * X.var())
    assert display.log_evidence.shape == (13, 1)
    assert_allclose(display.gammas[[0, 6, 12]], [scale / 30, scale, scale * 30])
    assert_allclose(np.diff(np.log(display.gammas)), np.log(900) / 12)


def test_the_best_setting_is_marked_and_named():
    values = np.array([[-40.0, -20.0, -25.0], [-30.0, -12.0, -90.0], [-31.0, -14.0, -28.0]])
    display = drawn([0.1, 1, 10], [0.01, 0.1, 1], values)
    assert display.best == {"gamma": 1.0, "softness": 0.1, "log_evidence": -12.0}
    assert_allclose(np.ravel(display.best_.get_data()), [1.0, 0.1])
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["lines: nats below the best", "best: gamma 1, softness 0.1"]
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    # At an edge better settings may lie outside.
    display = drawn([0.1, 1, 10], [0.01, 0.1, 1], values[[1, 0, 2]])
    assert display.best["gamma"] == 0.1
    assert "at the edge" in display.best_.get_label()


def test_colours_lie_on_their_settings():
    values = -(np.arange(6.0).reshape(3, 2) ** 2)
    display = drawn([0.05, 0.5, 3.0], [0.001, 0.1], values)
    # Softness upwards, width to the right.
    assert_array_equal(np.ma.getdata(display.im_.get_array()).ravel(), values.T.ravel())
    corners = display.im_.get_coordinates()
    for i, gamma in enumerate(display.gammas):
        assert corners[0, i, 0] < gamma < corners[0, i + 1, 0]
    assert_allclose(corners[0, :2, 0].prod(), 0.05**2)  # in the middle of its cell
    for j, softness in enumerate(display.softnesses):
        assert corners[j, 0, 1] < softness < corners[j + 1, 0, 1]


def test_colours_end_thirty_below_the_best_and_say_so():
    far = drawn([1, 2], [1, 2], [[-10, -12], [-500, -20]])
    assert far.im_.get_clim() == (-40, -10)
    assert far.im_.colorbar.extend == "min"
    label = far.im_.colorbar.ax.get_ylabel()
    assert label == "log evidence (nats)\nclipped at 30 below the best"
    assert_allclose(far.contour_.levels, [-40, -20, -13, -11])
    near = EvidenceDisplay(
        gammas=[1, 2], softnesses=[1, 2], log_evidence=[[-10, -12], [-14, -15]]
    ).plot(cmap="viridis")
    assert near.im_.get_clim() == (-15, -10)
    assert near.im_.colorbar.ax.get_ylabel() == "log evidence (nats)"
    assert near.im_.get_cmap().name == "viridis"
    assert_allclose(near.contour_.levels, [-13, -11])


def test_lines_are_where_the_evidence_has_fallen_so_far():
    """Evidence that falls with the logarithm of the width alone: straight lines."""
    gammas = np.geomspace(0.1, 1000, 5)
    values = np.repeat(-7.0 - 15 * np.arange(5.0)[:, None], 2, axis=1)
    display = drawn(gammas, [0.1, 1], values)
    found = {
        float(level): path.vertices[:, 0]
        for level, path in zip(display.contour_.levels, display.contour_.get_paths(), strict=True)
    }
    assert_allclose(sorted(found), [-37, -17, -10, -8])
    assert_allclose(found[-37.0], gammas[2])


def test_strips_and_equal_values_have_no_lines():
    for gammas, softnesses, values in (
        (0.5, [1, 2], [[-1, -9]]), ([1, 2], [0.1], [[-1], [-9]]),
        ([1, 2], [1, 2], np.zeros((2, 2))), (1, 1, [[-1]]),
    ):  # fmt: skip
        display = drawn(gammas, softnesses, values, converged=np.zeros(np.shape(values)))
        assert display.contour_ is None
    display.figure_.canvas.draw()


class Rough(BayesPointClassifier):
    """Says of two settings that it did not converge, with an evidence above all others."""

    def fit(self, *arguments):
        super().fit(*arguments)
        if self.gamma != 0.05 and self.softness == 0.001:
            warnings.warn("did not converge", ConvergenceWarning, stacklevel=2)
            told = self.diagnostics_ | {"converged": np.array([False])}
            self.draws_ = replace(self.draws_, info=told)
            self.settings_ = replace(self.settings_, log_evidence=-1.0)
        warnings.warn("of another kind", UserWarning, stacklevel=2)
        return self


def test_settings_that_did_not_converge_are_told_once_and_crossed_out():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        display = show(Rough(bias=1.0))
    assert [warning.category for warning in caught] == [UserWarning, ConvergenceWarning]
    assert "2 of 9 settings, such as gamma=0.5, softness=0.001" in str(caught[1].message)
    assert all(warning.filename == __file__ for warning in caught)
    assert_array_equal(display.converged, [[True] * 3, [False, True, True], [False, True, True]])
    assert display.best["log_evidence"] < -1
    assert_array_equal(display.crosses_.get_xydata(), [[0.5, 0.001], [5.0, 0.001]])


def test_bad_arguments_are_refused():
    kernels = [BayesPointClassifier(kernel=k) for k in ("linear", "precomputed", linear_kernel)]
    search = GridSearchCV(BayesPointClassifier(), {"gamma": [1]})
    others = [SVC(), OnionClassifier(), search, make_pipeline(SVC())]
    cases = [
        *(({"estimator": one}, r"without a gamma; use one of \('rbf'") for one in kernels),
        *(({"estimator": one}, "must be a BayesPointClassifier, or a pipe") for one in others),
        ({"gammas": [1, 0]}, "gammas must be a finite number > 0; got 0"),
        ({"softnesses": [0.1, 0.0]}, "softnesses must be a finite number > 0; got 0.0"),
        ({"softnesses": [np.nan]}, "softnesses must be a finite number > 0; got nan"),
        ({"gammas": "scale"}, "gammas must be a finite number > 0; got 'scale'"),
        ({"gammas": []}, r"gammas must be a list of numbers; got shape \(0,\)"),
        ({"gammas": [[1, 2]]}, r"gammas must be a list of numbers; got shape \(1, 2\)"),
    ]
    assert_refused(show, cases)
