"""What "auto" takes for which data, and how perceptrons choose a width by their errors."""

from functools import partial

import numpy as np
import pytest
from helpers.clouds import assert_usable, clouds, propagation
from helpers.refusals import assert_refused

from bayespoint import BayesPointClassifier
from bayespoint.estimators import calibration, selection
from bayespoint.estimators import settings as settling
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.selection import Candidate, choose_by_errors
from bayespoint.space.host import Host
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import scale_gamma

# ---------------------------------------------------------------------- which method


def method_of(n_points, n_classes, **settings):
    """Method that "auto" takes for so many points."""
    share = np.full(n_classes, 1 / n_classes)
    data = TrainingData(
        Inputs(np.zeros((n_points, 1))), None, np.arange(n_classes), share, 0 * share, n_points
    )
    parameters = BayesPointClassifier(**settings).checked_parameters()
    return settling.choose_method(parameters, data, Host()).inference


def test_the_method_is_chosen_by_size():
    assert method_of(500, 2) == "ep"
    assert method_of(2000, 2) == "ep"
    assert method_of(400, 10) == "ep"
    for n_points, n_classes in [(4000, 2), (700, 10), (10**6, 2)]:
        assert method_of(n_points, n_classes) == "perceptron"
    assert method_of(4000, 2, label_noise=[0.0, 0.1]) == "billiard"
    assert method_of(500, 2, label_noise=[0.0, 0.1]) == "ep"


@pytest.mark.parametrize(
    ("settings", "method", "decision"),
    [
        ({}, "ep", "calibrated"),
        ({"label_noise": 0.1}, "ep", "calibrated"),
        ({"cache_size": 0.04}, "perceptron", "bayes_point"),
        ({"cache_size": 0.04, "label_noise": 0.1}, "billiard", "vote"),
        ({"cache_size": 0.04, "label_noise": "evidence"}, "billiard", "vote"),
        ({"cache_size": 0.04, "decision": "bayes_point"}, "perceptron", "bayes_point"),
        ({"decision": "vote"}, "ep", "vote"),
        ({"inference": "ep"}, "ep", "vote"),
        ({"inference": "ep", "decision": "calibrated"}, "ep", "calibrated"),
    ],
    ids=str,
)
def test_what_auto_means(settings, method, decision):
    X, y = clouds(30, apart=2.0)
    clf = propagation(**{"inference": "auto"} | settings).fit(X, y)
    assert (clf.inference_, clf.decision_) == (method, decision)
    assert clf.inference_reason_ != "asked for" or "inference" in settings
    assert_usable(clf, X)


def test_calibration_needs_expectation_propagation():
    X, y = clouds(30)
    message = r"decision='calibrated' needs .* inference='ep'; got"
    settings = [
        {"inference": "perceptron"},
        {"inference": "billiard"},
        {"inference": "auto", "cache_size": 0.04},
    ]
    assert_refused(
        lambda **given: propagation(decision="calibrated", **given).fit(X, y),
        [(one, message) for one in settings],
    )


# ---------------------------------------------------------------------- perceptrons


def never():
    return False


def test_widths_are_compared_by_their_errors():
    start, asked, dear = Candidate(9.0, 1.0, 0.1, 0.0), [], None

    def errors(settings):
        asked.append(settings)
        width = settings.gamma / 2.0
        loss = 5.0 if width == dear else 1.0
        return 0.1 + 0.02 * abs(np.log2(width)) - 0.05 * (settings.softness == 10.0), loss

    both = ("gamma", "softness")
    best = choose_by_errors(errors, start, both, scale=2.0, slack=0.0, stop=never)
    assert best == start._replace(gamma=2.0, softness=10.0)
    assert [s.gamma / 2.0 for s in asked[:7]] == list(selection.WIDTHS)
    assert [s.softness for s in asked[7:]] == [1.0, 10.0]  # 0.1 is known
    # Narrower where the difference is within the slack.
    for slack, width in [(0.021, 2.0), (0.041, 4.0), (1.0, 8.0)]:
        best = choose_by_errors(errors, start, ("gamma",), scale=2.0, slack=slack, stop=never)
        assert best == start._replace(gamma=2.0 * width)
    dear = 8.0  # unless its probabilities are far worse
    best = choose_by_errors(errors, start, ("gamma",), scale=2.0, slack=1.0, stop=never)
    assert best == start._replace(gamma=2.0 * 4.0)
    best = choose_by_errors(errors, start, ("softness",), scale=2.0, slack=0.0, stop=never)
    assert best == start._replace(softness=10.0)


@pytest.mark.parametrize("names", [("gamma",), ("softness",), ("gamma", "softness")], ids=str)
def test_without_time_one_setting_is_tried(names):
    asked = []
    start = Candidate(1.0, 1.0, 0.1, 0.0)

    def errors(settings):
        asked.append(settings)
        return 0.5, 1.0

    best = choose_by_errors(errors, start, names, scale=2.0, slack=0.0, stop=lambda: True)
    assert asked == [best]


def test_perceptrons_choose_a_width_that_fits():
    """Four clouds like a chessboard: far too wide a kernel makes errors."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(120, 2))
    y = (np.floor(X) % 2).sum(axis=1) == 1
    make = partial(propagation, inference="perceptron", n_draws=10)
    clf = make(gamma="held-out", softness="held-out").fit(X, y)
    scale = scale_gamma(2, X.var())
    assert np.any(np.isclose(clf.gamma_ / scale, selection.WIDTHS))
    assert clf.gamma_ > 2 * scale
    assert clf.softness_ in selection.SOFTNESS
    assert not hasattr(clf, "log_evidence_")
    X_new = rng.uniform(-2, 2, size=(300, 2))
    new = (np.floor(X_new) % 2).sum(axis=1) == 1
    assert clf.score(X_new, new) > make(gamma=0.25 * scale).fit(X, y).score(X_new, new) + 0.05


def test_the_narrower_width_is_for_parts_of_the_points(monkeypatch):
    """All widths separate these clouds: with all points the plainest is taken, with a part not."""
    X, y = clouds(40, apart=8.0)
    make = partial(propagation, inference="perceptron", gamma="held-out")
    scale = scale_gamma(2, X.var())
    assert make().fit(X, y).gamma_ == pytest.approx(scale)
    monkeypatch.setattr(calibration, "LINK_POINTS", 20)
    clf = make().fit(X, y)
    assert clf.gamma_ > 1.5 * scale
    assert_usable(clf, X)
