"""What "auto" takes for which data, and how perceptrons choose settings by labels left out."""

from functools import partial

import numpy as np
import pytest
from helpers.clouds import assert_usable, clouds, propagation
from helpers.refusals import assert_refused

from bayespoint import BayesPointClassifier
from bayespoint.estimators import selection
from bayespoint.estimators import settings as settling
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.selection import Candidate, choose_by_loss
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
        ({"inference": "ep"}, "ep", "calibrated"),
        ({"inference": "ep", "decision": "vote"}, "ep", "vote"),
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


def test_widths_are_compared_by_their_log_loss():
    start, asked = Candidate(9.0, 1.0, 0.1, 0.0), []

    def loss(settings):
        asked.append(settings)
        width = settings.gamma / 2.0
        better = 0.05 * (settings.softness == 10.0) + 0.03 * (settings.bias == 0.1)
        return 0.5 + 0.02 * abs(np.log2(width)) - better

    names = ("gamma", "softness", "bias")
    best, *narrower = choose_by_loss(loss, start, names, scale=2.0, stop=never)
    assert best == start._replace(gamma=2.0, softness=10.0, bias=0.1)
    assert [s.gamma / 2.0 for s in asked[:7]] == list(selection.WIDTHS)
    assert [s.softness for s in asked[7:9]] == [1.0, 10.0]  # 0.1 is known
    assert [s.bias for s in asked[9:]] == [0.0, 10.0, 0.1]
    # All else as it is best, for a second look with more points.
    assert narrower == [best._replace(gamma=2.0 * width) for width in (2.0, 3.0, 4.0, 8.0)]
    best, *narrower = choose_by_loss(loss, start, ("softness",), scale=2.0, stop=never)
    assert best == start._replace(softness=10.0)
    assert narrower == []
    best, *_ = choose_by_loss(loss, start, ("bias",), scale=2.0, stop=never, biases=(1.0, 10.0))
    assert best == start


@pytest.mark.parametrize(
    "names", [("gamma",), ("softness",), ("bias",), ("gamma", "softness", "bias")], ids=str
)
def test_without_time_one_setting_is_tried(names):
    asked = []
    start = Candidate(1.0, 1.0, 0.1, 0.0)

    def loss(settings):
        asked.append(settings)
        return 0.5

    best, *_ = choose_by_loss(loss, start, names, scale=2.0, stop=lambda: True)
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


def tried_losses(monkeypatch, second):
    """Fit perceptrons to many points by losses that are given; the candidates that were tried."""
    X, y = clouds(60, apart=2.0)
    scale, tried = scale_gamma(2, X.var()), []

    def loss(_, candidate, most):
        width = round(float(candidate.gamma / scale), 3)
        tried.append((width, most))
        return second(width) if most > 20 else abs(np.log2(width)) + 1

    monkeypatch.setattr(settling, "LINK_POINTS", 20)
    monkeypatch.setattr(settling.Trials, "loss", loss)
    clf = propagation(inference="perceptron", gamma="held-out").fit(X, y)
    return clf.gamma_ / scale, [width for width, most in tried if most > 20]


def test_a_second_look_goes_on_to_narrower_widths_as_long_as_they_are_better(monkeypatch):
    """The plainest is best of few points; then 2, 3, 4 and 8 times narrower come, in turn."""
    found, tried = tried_losses(monkeypatch, lambda width: abs(width - 3))
    assert found == pytest.approx(3.0)
    assert tried == [1.0, 2.0, 3.0, 4.0]
    found, tried = tried_losses(monkeypatch, lambda width: width)
    assert found == pytest.approx(1.0)
    assert tried == [1.0, 2.0]


def test_a_second_look_on_real_points_leaves_a_usable_fit(monkeypatch):
    X, y = clouds(40, apart=8.0)
    make = partial(propagation, inference="perceptron", gamma="held-out")
    monkeypatch.setattr(settling, "LINK_POINTS", 20)
    clf = make().fit(X, y)
    assert np.any(np.isclose(clf.gamma_ / scale_gamma(2, X.var()), selection.WIDTHS))
    assert_usable(clf, X)
