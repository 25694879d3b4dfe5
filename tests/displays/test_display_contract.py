"""What all pictures share: labelled axes, axes that may be given, sizes, refusals."""

import sys
from functools import cache

import numpy as np
import pytest
from helpers.refusals import assert_refused

from bayespoint import VersionSpace, displays, inference, papers
from bayespoint.displays import (
    BoundaryDisplay,
    ConfusionDisplay,
    CostRejectionDisplay,
    EvidenceDisplay,
    FeatureImportanceDisplay,
    LabelErrorDisplay,
    OnionDisplay,
    PosteriorDisplay,
    PredictiveDisplay,
    RiskCoverageDisplay,
)
from bayespoint.papers import DiversityDisplay, LogPosteriorDisplay


@cache
def posterior():
    space = VersionSpace(0.2 + 0.8 * np.eye(3), [1, -1, 1])
    return inference.sample_billiard(space, 40, n_path=10, random_state=0)


SIDE = np.arange(3.0)
GRID = np.meshgrid(SIDE, SIDE)
BOUNDARY = {
    "xx0": GRID[0], "xx1": GRID[1], "response": GRID[0] - 0.5, "draws": [GRID[1] - 0.5],
    "X": [[0, 0]], "y": [0], "classes": [0, 1],
}  # fmt: skip
CONFUSION = {"matrix": [[5, 1], [0, 3]], "rejected": [2, 0], "labels": ["no", "yes"]}
COST = {"rejected": [0, 0.5, 1], "mean_cost": [2.0, 1.0, 1.5], "chosen": (0.5, 1.0)}
EVIDENCE = {"gammas": [1, 99], "softnesses": [1, 99], "log_evidence": [[-9.0, -2.0], [-1.0, -4.0]]}
IMPORTANCES = {"names": ["size", "colour"], "importances": [0.5, -0.1], "errors": [0.1, 0.02]}
LABEL_ERRORS = {"rows": [0, 1], "probability": [0.5, 0.2], "given": [1, 1], "likely": [1, 2]}
LOG_POSTERIOR = {"longitude": [0, 1], "latitude": [0, 1, 2], "log_posterior": np.eye(3)[:, :2]}
PREDICTIVE = {"rows": [9, 30, 20], "log_predictive": [np.nan, -0.7, -0.4]}
DIVERSITY = {"rates": [0.1, 0.2], "angle": [50, 60], "angle_error": [1, 2], "errors": [2, 3]}

# Each class, its arrays, and the labels of the axes that it draws on.
CASES = {
    "boundary": (BoundaryDisplay, BOUNDARY, [("Feature 0", "Feature 1")]),
    "confusion": (ConfusionDisplay, CONFUSION, [("Decision", "True class")]),
    "cost and rejection": (
        CostRejectionDisplay, COST, [("Rejected (share of cases)", "Mean cost of a case")],
    ),
    "evidence": (EvidenceDisplay, EVIDENCE, [("Kernel width (gamma)", "Softness")]),
    "importances": (
        FeatureImportanceDisplay, IMPORTANCES,
        [("Loss of log-probability per row\nwithout the feature (nats)", "")],
    ),
    "label errors": (
        LabelErrorDisplay, LABEL_ERRORS, [("Probability that the label is wrong (%)", "")],
    ),
    "onion": (
        OnionDisplay, {"errors": np.arange(8).reshape(2, 2, 2), "classes": "ab"},
        [("Training errors allowed, class b", "Training errors allowed, class a")],
    ),
    "predictive": (
        PredictiveDisplay, PREDICTIVE,
        [("Rows seen", "Log-loss before learning\n(nats per row)")],
    ),
    "sphere": (PosteriorDisplay, {"posterior": posterior, "kind": "sphere"}, [("", "")]),
    "trace": (
        PosteriorDisplay, {"posterior": posterior, "kind": "trace", "summary": "margin"},
        [("Draw", "Smallest margin"), ("Rank among all draws", "")],
    ),
    "risk and coverage": (
        RiskCoverageDisplay, {"coverage": np.array([0.5, 1]), "risk": np.array([0, 0.2])},
        [("Coverage (share of cases decided)", "Risk (error among decided cases)")],
    ),
    "log posterior": (
        LogPosteriorDisplay, LOG_POSTERIOR, [("Longitude (degrees)", "Latitude (degrees)")],
    ),
    "diversity": (
        DiversityDisplay, DIVERSITY,
        [("", "Mean angle between\ntwo draws (degrees)"),
         ("Assumed label noise q (%)", "Training errors\n(mean of a draw)")],
    ),
}  # fmt: skip


def made(name):
    display, arrays, _ = CASES[name]
    return display(**{key: one() if callable(one) else one for key, one in arrays.items()})


def test_every_display_is_held_to_this():
    public = {name for room in (displays, papers) for name in room.__all__ if "Display" in name}
    assert public == {case[0].__name__ for case in CASES.values()}


@pytest.mark.parametrize("name", CASES)
def test_a_picture_has_labels_of_readable_size(plt, name):
    shown, labels = made(name), CASES[name][-1]
    assert shown.plot() is shown
    assert plt.get_fignums() == [shown.figure_.number]
    axes = np.ravel(shown.ax_)
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes] == labels
    assert all(ax.figure is shown.figure_ for ax in axes)
    shown.figure_.set_layout_engine("none")  # takes long, and is not what this is about
    shown.figure_.canvas.draw()
    for text in shown.figure_.findobj(lambda artist: hasattr(artist, "get_fontsize")):
        assert text.get_fontsize() >= 13 or not text.get_text(), text


@pytest.mark.parametrize("name", CASES)
def test_axes_can_be_given(plt, name):
    labels = CASES[name][-1]
    figure, axes = plt.subplots(1, 3)
    given = axes[1] if len(labels) == 1 else axes[1:]
    shown = made(name).plot(ax=given)
    assert list(np.ravel(shown.ax_)) == list(np.ravel(given))
    assert shown.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    assert not axes[0].has_data()
    assert all(ax.has_data() for ax in np.ravel(given))


@pytest.mark.parametrize("name", CASES)
def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, name):
    display = made(name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=rf"{type(display).__name__} needs .*\[plot\]'"):
        display.plot()


BAD_ARRAYS = {
    ConfusionDisplay: (CONFUSION, [
        ({"matrix": np.ones((2, 3))}, r"matrix must have a row and a column .* got shape \(2, 3\)"),
        ({"rejected": [1]}, "rejected must hold one value per class, 2; got 1"),
        ({"labels": "abc"}, "labels must hold one value per class, 2; got "),
    ]),
    CostRejectionDisplay: (COST, [
        ({"mean_cost": [1.0]}, r"mean_cost must hold one value per point, shape \(3,\)"),
        ({"mean_cost": [1, np.nan, 1]}, "mean_cost must be finite; does rejecting have a cost"),
    ]),
    BoundaryDisplay: (BOUNDARY, [
        ({"draws": GRID[0]}, r"draws must have the shape \(3, 3\) of the grid"),
    ]),
    EvidenceDisplay: (EVIDENCE, [
        ({"gammas": [2, 1]}, r"gammas must increase; got \[2. 1.\]"),
        ({"log_evidence": [[1, 2]]}, r"log_evidence must have .* shape \(2, 2\); got \(1, 2\)"),
        ({"log_evidence": [[1, 2], [3, np.nan]]}, "log_evidence must be finite"),
        ({"converged": [True]}, r"converged must have .* shape \(2, 2\); got \(1,\)"),
    ]),
    FeatureImportanceDisplay: (IMPORTANCES, [
        ({"errors": [0.1]}, r"errors must hold one value per feature, shape \(2,\); got \(1,\)"),
        ({"errors": [0.1, -0.1]}, "errors must be finite and >= 0"),
        ({"importances": [0.1, np.nan]}, "importances must be finite"),
        ({"names": []}, "names must hold one value per feature"),
    ]),
    LabelErrorDisplay: (LABEL_ERRORS, [
        ({"probability": [0.1]}, r"probability must hold one value per bar, shape \(2,\); got"),
        ({"probability": [0.1, 1.1]}, r"probability must lie in \[0, 1\]"),
        ({"likely": [[1, 2]]}, "likely must hold one value per bar"),
        ({"images": np.zeros((2, 8))}, r"images must have shape \(2, height, width\)"),
        ({"rows": []}, "rows must hold one value per bar"),
    ]),
    OnionDisplay: ({}, [({"errors": np.zeros((2, 2))}, "errors must have shape")]),
    PredictiveDisplay: (PREDICTIVE, [
        ({"rows": [9, 30]}, r"log_predictive must hold one value per call, shape \(2,\); got \(3,"),
        ({"rows": [9, -1, 2]}, "rows must be finite and >= 0"),
        ({"log_predictive": [np.nan, 0.1, -1]}, "log_predictive must be finite and <= 0, or NaN"),
        ({"log_predictive": [np.nan, -np.inf, -1]}, "log_predictive must be finite"),
        ({"rows": [], "log_predictive": []}, "rows must hold one value per call"),
    ]),
    LogPosteriorDisplay: (LOG_POSTERIOR, [
        ({"log_posterior": np.zeros((2, 3))}, r"must have shape \(3, 2\), latitudes by"),
        ({"log_posterior": np.full((3, 2), -np.inf)}, "log_posterior must be finite somewhere"),
        ({"longitude": [0], "log_posterior": np.zeros((3, 1))}, "at least 2 values"),
    ]),
    DiversityDisplay: (DIVERSITY, [
        ({"errors": [3]}, r"errors must hold one value per rate, shape \(2,\)"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("display", BAD_ARRAYS)
def test_bad_arrays_are_refused(display):
    good, cases = BAD_ARRAYS[display]
    assert_refused(display, cases, **good)
