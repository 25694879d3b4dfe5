"""Picture of the evidence: what is drawn is what was computed, and bad input is refused."""

import sys
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
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


@pytest.fixture
def plt():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


@cache
def moons():
    return make_moons(40, noise=0.25, random_state=0)


def show(estimator=None, X=None, **options):
    X = moons()[0] if X is None else X
    options = {"gammas": GAMMAS, "softnesses": SOFTNESSES} | options
    estimator = BayesPointClassifier() if estimator is None else estimator
    return EvidenceDisplay.from_estimator(estimator, X, moons()[1], **options)


def of_fit(X=None, weight=None, **options):
    clf = BayesPointClassifier(inference="ep", tol=1e-6, **options)
    return clf.fit(moons()[0] if X is None else X, moons()[1], weight).log_evidence_


@pytest.mark.usefixtures("plt")
def test_values_are_those_of_single_fits():
    """Warm starts change no value, and rows are widths: the two lists are not symmetric."""
    clf = BayesPointClassifier(
        kernel="laplacian", bias=0.3, label_noise=0.05, inference="billiard", random_state=0
    )
    before = clf.get_params()
    display = show(clf, softnesses=[1.0, 0.01])
    kept = {"kernel": "laplacian", "bias": 0.3, "label_noise": 0.05}
    expected = [[of_fit(gamma=g, softness=s, **kept) for s in (0.01, 1.0)] for g in GAMMAS]
    assert_allclose(display.log_evidence, expected, atol=1e-3)
    assert_array_equal(display.softnesses, [0.01, 1.0])  # in order
    assert np.all(display.converged)
    assert clf.get_params() == before
    assert not hasattr(clf, "classes_")


@pytest.mark.usefixtures("plt")
def test_weights_are_copies():
    X, y = moons()
    weight = np.arange(40) % 3
    clf = BayesPointClassifier(label_noise=0.1)
    options = {"gammas": [0.5], "softnesses": [0.1]}
    shown = show(clf, sample_weight=weight, **options)
    copies = np.repeat(np.arange(40), weight)
    repeated = EvidenceDisplay.from_estimator(clf, X[copies], y[copies], **options)
    assert_allclose(shown.log_evidence, repeated.log_evidence, atol=1e-3)
    assert abs(shown.log_evidence - show(clf, **options).log_evidence) > 0.1


@pytest.mark.usefixtures("plt")
def test_a_pipeline_prepares_the_points():
    X = moons()[0] * [1, 100] + 7
    display = show(make_pipeline(StandardScaler(), BayesPointClassifier()), X=X)
    scaled = show(X=StandardScaler().fit_transform(X))
    assert_allclose(display.log_evidence, scaled.log_evidence)


@pytest.mark.usefixtures("plt")
def test_widths_and_softnesses_by_default():
    X, y = moons()
    display = EvidenceDisplay.from_estimator(BayesPointClassifier(tol=0.1), X, y)
    scale = 1 / (2 * X.var())
    assert display.log_evidence.shape == (13, 9)
    assert_allclose(display.gammas[[0, 6, 12]], [scale / 30, scale, scale * 30])
    assert_allclose(display.softnesses[[0, 4, 8]], [1e-3, 0.1, 10])
    assert_allclose(np.diff(np.log(display.gammas)), np.log(900) / 12)


@pytest.mark.usefixtures("plt")
def test_the_best_setting_is_marked_and_named():
    values = np.array([[-40.0, -20.0, -25.0], [-30.0, -12.0, -90.0], [-31.0, -14.0, -28.0]])
    arrays = {"gammas": [0.1, 1, 10], "softnesses": [0.01, 0.1, 1], "log_evidence": values}
    display = EvidenceDisplay(**arrays).plot()
    assert display.best == {"gamma": 1.0, "softness": 0.1, "log_evidence": -12.0}
    assert_allclose(np.ravel(display.best_.get_data()), [1.0, 0.1])
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["lines: nats below the best", "best: gamma 1, softness 0.1"]
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    assert display.ax_.get_xlabel() == "Kernel width (gamma)"
    assert display.ax_.get_ylabel() == "Softness"
    display.figure_.canvas.draw()
    # At an edge better settings may lie outside.
    arrays["log_evidence"] = values[[1, 0, 2]]
    display = EvidenceDisplay(**arrays).plot()
    assert display.best["gamma"] == 0.1
    assert "at the edge" in display.best_.get_label()


@pytest.mark.usefixtures("plt")
def test_colours_lie_on_their_settings():
    display = show()
    # Softness upwards, width to the right.
    assert_array_equal(
        np.ma.getdata(display.im_.get_array()).ravel(), display.log_evidence.T.ravel()
    )
    corners = display.im_.get_coordinates()
    for i, gamma in enumerate(display.gammas):
        assert corners[0, i, 0] < gamma < corners[0, i + 1, 0]
        assert_allclose(corners[0, i : i + 2, 0].prod(), gamma**2)  # in the middle of its cell
    for j, softness in enumerate(display.softnesses):
        assert corners[j, 0, 1] < softness < corners[j + 1, 0, 1]


@pytest.mark.usefixtures("plt")
def test_colours_end_thirty_below_the_best_and_say_so():
    arrays = {"gammas": [1, 2], "softnesses": [1, 2]}
    far = EvidenceDisplay(**arrays, log_evidence=[[-10, -12], [-500, -20]]).plot()
    assert far.im_.get_clim() == (-40, -10)
    assert far.im_.colorbar.extend == "min"
    label = far.im_.colorbar.ax.get_ylabel()
    assert label == "log evidence (nats)\nclipped at 30 below the best"
    assert_allclose(far.contour_.levels, [-40, -20 + 0, -13, -11])
    near = EvidenceDisplay(**arrays, log_evidence=[[-10, -12], [-14, -15]]).plot()
    assert near.im_.get_clim() == (-15, -10)
    assert near.im_.colorbar.ax.get_ylabel() == "log evidence (nats)"
    assert_allclose(near.contour_.levels, [-13, -11])


@pytest.mark.usefixtures("plt")
def test_lines_are_where_the_evidence_has_fallen_so_far():
    """Evidence that falls with the logarithm of the width alone: straight lines."""
    gammas = np.geomspace(0.1, 1000, 5)
    values = np.repeat(-7.0 - 15 * np.arange(5.0)[:, None], 2, axis=1)
    display = EvidenceDisplay(gammas=gammas, softnesses=[0.1, 1], log_evidence=values).plot()
    found = {
        float(level): path.vertices[:, 0]
        for level, path in zip(display.contour_.levels, display.contour_.get_paths(), strict=True)
    }
    assert_allclose(sorted(found), [-37, -17, -10, -8])
    assert_allclose(found[-37.0], gammas[2])


@pytest.mark.usefixtures("plt")
def test_one_width_or_one_softness_is_a_strip():
    for options in ({"gammas": 0.5}, {"softnesses": [0.1]}, {"gammas": 1, "softnesses": 1}):
        display = show(**options)
        assert display.contour_ is None
        display.figure_.canvas.draw()


def test_axes_and_colours_can_be_given(plt):
    axes = plt.subplots(1, 2)[1]
    display = show(ax=axes[1], cmap="viridis")
    assert display.ax_ is axes[1]
    assert display.figure_ is axes[1].figure
    assert display.im_.get_cmap().name == "viridis"


@pytest.mark.usefixtures("plt")
def test_settings_that_did_not_converge_are_told_once_and_crossed_out(monkeypatch):
    fit = BayesPointClassifier.fit

    def fit_badly(self, *arguments):
        fit(self, *arguments)
        if self.gamma != 0.05 and self.softness == 0.001:
            warnings.warn("did not converge", ConvergenceWarning, stacklevel=2)
            told = self.diagnostics_ | {"converged": np.array([False])}
            self.draws_ = replace(self.draws_, info=told)
            # The best, if it could be trusted.
            self.settings_ = replace(self.settings_, log_evidence=-1.0)
        warnings.warn("of another kind", UserWarning, stacklevel=2)
        return self

    monkeypatch.setattr(BayesPointClassifier, "fit", fit_badly)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        display = show()
    assert [warning.category for warning in caught] == [UserWarning, ConvergenceWarning]
    assert "2 of 9 settings, such as gamma=0.5, softness=0.001" in str(caught[1].message)
    assert all(warning.filename == __file__ for warning in caught)
    assert_array_equal(display.converged, [[True] * 3, [False, True, True], [False, True, True]])
    assert display.best["log_evidence"] < -1
    assert_array_equal(display.crosses_.get_xydata(), [[0.5, 0.001], [5.0, 0.001]])


@pytest.mark.usefixtures("plt")
def test_one_warning_about_scales():
    X = np.column_stack([moons()[0], 1e4 * moons()[0][:, 0]])
    with pytest.warns(UserWarning, match="very different scales") as caught:
        show(X=X, gammas=None, softnesses=[1, 2])
    assert len(caught) == 1


def test_kernels_without_a_width_are_refused():
    for kernel in ("linear", "precomputed", linear_kernel):
        with pytest.raises(ValueError, match=r"kernel=.* without a gamma; use one of \('rbf'"):
            show(BayesPointClassifier(kernel=kernel))


def test_other_estimators_are_refused():
    search = GridSearchCV(BayesPointClassifier(), {"gamma": [1]})
    for estimator in (SVC(), OnionClassifier(), search, make_pipeline(SVC())):
        with pytest.raises(ValueError, match="estimator must be a BayesPointClassifier, or a pipe"):
            show(estimator)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gammas": [1, 0]}, "gammas must be a finite number > 0; got 0"),
        ({"softnesses": [0.1, 0.0]}, "softnesses must be a finite number > 0; got 0.0"),
        ({"softnesses": [np.nan]}, "softnesses must be a finite number > 0; got nan"),
        ({"gammas": "scale"}, "gammas must be a finite number > 0; got 'scale'"),
        ({"gammas": []}, r"gammas must be a list of numbers; got shape \(0,\)"),
        ({"gammas": [[1, 2]]}, r"gammas must be a list of numbers; got shape \(1, 2\)"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        show(**options)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"gammas": [2, 1]}, r"gammas must increase; got \[2. 1.\]"),
        ({"log_evidence": [[1, 2]]}, r"log_evidence must have .* shape \(2, 2\); got \(1, 2\)"),
        ({"log_evidence": [[1, 2], [3, np.nan]]}, "log_evidence must be finite"),
        ({"converged": [True]}, r"converged must have .* shape \(2, 2\); got \(1,\)"),
    ],
)
def test_bad_arrays_are_refused(arrays, message):
    good = {"gammas": [1, 2], "softnesses": [1, 2], "log_evidence": np.zeros((2, 2))}
    with pytest.raises(ValueError, match=message):
        EvidenceDisplay(**good | arrays)


@pytest.mark.usefixtures("plt")
def test_equal_values_are_drawn():
    good = {"gammas": [1, 2], "softnesses": [1, 2], "log_evidence": np.zeros((2, 2))}
    display = EvidenceDisplay(**good, converged=np.zeros((2, 2), dtype=bool)).plot()
    assert display.contour_ is None
    display.figure_.canvas.draw()


def test_matplotlib_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"EvidenceDisplay needs matplotlib; run: pip install"):
        show(gammas=[1], softnesses=[1])
