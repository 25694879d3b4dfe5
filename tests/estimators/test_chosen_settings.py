"""Settings that a fit chooses from its data: every name, many kinds of data, fits cut short."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.clouds import assert_usable, clouds, propagation, settings_of
from helpers.stops import press_ctrl_c
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier
from bayespoint.estimators import selection
from bayespoint.estimators import settings as settling
from bayespoint.space.kernels import scale_gamma

ALL = ("gamma", "bias", "softness", "label_noise")
BY_EVIDENCE = dict.fromkeys(("gamma", "softness", "bias"), "evidence")
HELD_OUT = dict.fromkeys(("gamma", "softness"), "held-out")


# ---------------------------------------------------------------------- by evidence


@pytest.mark.parametrize(
    ("names", "n_classes"),
    [(("gamma",), 3), (("bias",), 2), (("softness",), 3), (("label_noise",), 2), (ALL, 3)],
    ids=str,
)
def test_settings_by_evidence(names, n_classes):
    X, y = clouds(24, n_classes, wrong=0.1)
    given = {"gamma": "scale", "softness": 0.1, "bias": 1.0, "label_noise": 0.05}
    clf = propagation(**given | dict.fromkeys(names, "evidence")).fit(X, y)
    assert_usable(clf, X)
    for name in ALL:
        value = getattr(clf, f"{name}_")
        assert isinstance(value, float)
        usual = scale_gamma(2, X.var()) if name == "gamma" else given[name]
        assert (value == pytest.approx(usual, rel=1e-6)) == (name not in names)
    # Better than where the search begins; priors are 0 there.
    start = {"gamma": "scale", "bias": 1.0, "softness": 0.3, "label_noise": 0.02}
    plain = propagation(**given | {name: start[name] for name in names}).fit(X, y)
    assert clf.log_evidence_ > plain.log_evidence_
    again = propagation(**given | {name: getattr(clf, f"{name}_") for name in ALL}).fit(X, y)
    assert clf.log_evidence_ == pytest.approx(again.log_evidence_, abs=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_at_random_have_a_rate_of_errors(n_classes):
    """However little they have to do with the points, rates stay below one half."""
    for seed in range(2):
        X, y = clouds(30, n_classes, seed, wrong=1.0)
        clf = propagation(gamma=0.1, label_noise="evidence").fit(X, y)
        assert_usable(clf, X)
        assert 0 < clf.label_noise_ < 0.5


def test_draws_added_later_have_the_settings_of_the_first():
    X, y = clouds(30, wrong=0.1)
    clf = propagation(
        inference="billiard", gamma="evidence", label_noise="evidence", warm_start=True
    ).fit(X, y)
    before, evidence = settings_of(clf), clf.log_evidence_
    clf.set_params(n_draws=8).fit(X, y)
    assert clf.n_draws_ == 8
    assert_array_equal(settings_of(clf), before)
    assert clf.log_evidence_ == evidence


def test_other_methods_take_settings_from_the_evidence():
    X, y = clouds(20, apart=2.0)
    make = partial(propagation, gamma="evidence", softness="evidence")
    by_ep = make(tol=1e-6).fit(X, y)
    for inference in ("billiard", "gibbs", "perceptron"):
        clf = make(inference=inference).fit(X, y)
        assert_allclose(settings_of(clf), settings_of(by_ep), err_msg=inference)
        assert clf.log_evidence_ == pytest.approx(by_ep.log_evidence_, abs=0.01)
        assert_usable(clf, X)


# ---------------------------------------------------------------------- by held-out labels


@pytest.mark.parametrize(
    ("names", "n_classes"),
    [(("gamma",), 2), (("softness",), 3), (("gamma", "softness"), 2)],
    ids=str,
)
def test_settings_by_held_out_labels(names, n_classes):
    X, y = clouds(24, n_classes, wrong=0.1)
    clf = propagation(**dict.fromkeys(names, "held-out")).fit(X, y)
    assert_usable(clf, X)
    assert (clf.gamma_ == pytest.approx(scale_gamma(2, X.var()))) == ("gamma" not in names)
    assert (clf.softness_ == 0.1) == ("softness" not in names)
    assert clf.bias_ == 1.0
    assert clf.label_noise_ == 0.0


def test_settings_by_evidence_and_by_held_out_labels():
    """What the evidence chooses takes no notice of what held-out labels choose later."""
    X, y = clouds(40, wrong=0.1)
    both = propagation(gamma="evidence", softness="evidence", label_noise="evidence").fit(X, y)
    mixed = propagation(gamma="evidence", softness="held-out", label_noise="evidence").fit(X, y)
    assert_usable(mixed, X)
    assert_allclose(mixed.gamma_, both.gamma_, rtol=0.05)
    assert_allclose(mixed.label_noise_, both.label_noise_, rtol=0.05)
    assert mixed.softness_ != both.softness_
    other = propagation(
        inference="billiard", gamma="held-out", softness="evidence", bias="evidence"
    ).fit(X, y)
    assert_usable(other, X)
    assert other.bias_ != 1.0
    assert not hasattr(other, "log_evidence_")  # it would be that of another width


def test_defaults():
    X, y = clouds(18, 3, apart=2.0)
    clf = BayesPointClassifier(random_state=0).fit(X, y)
    assert (clf.inference_, clf.decision_) == ("ep", "calibrated")
    assert clf.bias_ in selection.BIASES
    assert_usable(clf, X)
    assert clf.score(X, y) > 0.8
    # Without a bias a row at the origin could not be decided.
    at_origin = np.vstack([X, np.zeros((1, 2))]), np.append(y, 0)
    assert BayesPointClassifier("linear", random_state=0).fit(*at_origin).bias_ > 0


@pytest.mark.parametrize("inference", ["ep", "perceptron"])
def test_the_bias_is_the_one_that_held_out_labels_ask_for(inference):
    """Both clouds on one side of the origin: no line through it tells them apart."""
    X, y = clouds(40, apart=2.0)
    X = X + np.array([6.0, 0.0])
    clf = propagation(kernel="linear", inference=inference, bias="auto").fit(X, y)
    assert clf.bias_ in selection.BIASES
    assert clf.bias_ > 0
    without = propagation(kernel="linear", inference=inference, bias=0.0).fit(X, y)
    assert clf.score(X, y) > without.score(X, y) + 0.1


# ---------------------------------------------------------------------- many points


def test_a_part_of_many_points_has_all_classes_in_proportion():
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat([0, 1, 2, 3], [3000, 1500, 497, 3]))
    chosen = selection.evidence_points(label, 7)
    assert len(np.unique(chosen)) == len(chosen) <= selection.EVIDENCE_POINTS + 1
    assert_array_equal(chosen, np.sort(chosen))
    assert_array_equal(np.bincount(label[chosen]), [300, 150, 49, 2])
    assert_array_equal(selection.evidence_points(label, 7), chosen)
    assert not np.array_equal(selection.evidence_points(label, 8), chosen)
    assert_array_equal(selection.evidence_points(label[:500], 7), np.arange(500))


@pytest.mark.parametrize("value", ["evidence", "held-out"])
def test_settings_are_those_of_a_part_of_the_points(value, monkeypatch):
    """The search sees Gram matrices of a part; those of all points are for the fit alone."""
    X, y = clouds(48, apart=2.0, wrong=0.1)
    monkeypatch.setattr(settling, "SECOND_LOOK", 36)
    monkeypatch.setattr(
        settling, "evidence_points",
        lambda label, entropy, most=24: selection.evidence_points(label, entropy, most),
    )  # fmt: skip
    sizes = []

    def kernel(A, B):
        sizes.append(len(A))
        return rbf_kernel(A, B)

    clf = propagation(kernel=kernel, softness=value).fit(X, y)
    assert sum(22 <= size <= 24 for size in sizes) >= 4 > sizes.count(48) > 0
    assert_usable(clf, X)
    again, other = (
        propagation(kernel=kernel, softness=value, random_state=seed).fit(X, y) for seed in (0, 1)
    )
    assert again.softness_ == clf.softness_ != other.softness_


# ---------------------------------------------------------------------- unusual data


def unusual():
    """Name, settings, X and y."""
    rng = np.random.default_rng(0)
    X, y = clouds(12, apart=1.5)
    pairs = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    contradictory = np.where(np.arange(24) < 6, np.arange(24) % 2, pairs[1])
    return {
        "constant columns": ({}, np.column_stack([X, np.ones(12), np.zeros(12)]), y),
        "duplicates": ({}, *pairs),
        "contradictory duplicates": ({}, pairs[0], contradictory),
        "one point of a class": ({}, X, (np.arange(12) == 3).astype(int)),
        "one point of one class of three": ({}, X, np.where(np.arange(12) == 3, 2, y)),
        "three points": ({}, X[:3], y[:3]),
        "two points": ({}, X[:2], y[:2]),
        "precomputed": ({"kernel": "precomputed"}, rbf_kernel(X), y),
        "callable": ({"kernel": rbf_kernel}, X, y),
        "linear": ({"kernel": "linear"}, X, y),
        "poly": ({"kernel": "poly", "degree": 2}, X, y),
        "laplacian": ({"kernel": "laplacian"}, X, y),
        "not normalised": ({"kernel": "poly", "normalize_kernel": False}, X, y),
        "sparse": ({}, sp.csr_matrix(np.where(rng.random((12, 2)) < 0.7, X, 0.0)), y),
        "float32": ({}, X.astype(np.float32), y),
        "labels at random": ({}, X, rng.integers(2, size=12)),
        "equal points": ({}, np.ones((12, 2)), y),
        "strings": ({}, X, np.array(["no", "yes"])[y]),
    }


CHOICES = {
    "evidence and rates": BY_EVIDENCE | {"label_noise": "evidence"},
    "evidence": BY_EVIDENCE,
    "held-out width": {"gamma": "held-out"},
    "held-out": HELD_OUT,
}
# By default the evidence chooses for all kinds of data, held-out labels for some.
HELD_OUT_WIDTHS = (
    "contradictory duplicates", "one point of a class", "three points", "precomputed", "poly",
    "sparse", "equal points",
)  # fmt: skip
CASES = [
    pytest.param(
        name, choice, id=f"{name}, {how}",
        marks=[]
        if how == "evidence and rates" or (how == "held-out width" and name in HELD_OUT_WIDTHS)
        else pytest.mark.slow,
    )
    for name in unusual()
    for how, choice in CHOICES.items()
]  # fmt: skip


@pytest.mark.parametrize(("name", "choice"), CASES)
def test_unusual_data_have_settings(name, choice):
    settings, X, y = unusual()[name]
    clf = propagation(**settings | choice).fit(X, y)  # a warning would be an error
    assert_usable(clf, X)
    assert clf.log_evidence_ < 0
    assert clf.softness_ > 0


USUAL = {  # one method each by default, and softness alone
    "contradictory duplicates": "perceptron", "one point of a class": "billiard",
    "three points": "perceptron", "precomputed": "perceptron", "linear": "auto",
    "sparse": "perceptron", "float32": "billiard",
}  # fmt: skip


@pytest.mark.parametrize(("name", "inference"), USUAL.items())
def test_unusual_data_have_settings_for_other_methods(name, inference):
    settings, X, y = unusual()[name]
    assert_usable(propagation(**settings, softness="held-out", inference=inference).fit(X, y), X)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["perceptron", "billiard", "auto"])
@pytest.mark.parametrize("name", USUAL)
def test_unusual_data_have_settings_for_all_methods(name, inference):
    settings, X, y = unusual()[name]
    assert_usable(propagation(**settings | HELD_OUT, inference=inference).fit(X, y), X)


# ---------------------------------------------------------------------- cut short, and weights


@pytest.mark.parametrize(
    ("inference", "value"), [("ep", "evidence"), ("ep", "held-out"), ("perceptron", "held-out")]
)
def test_max_time_leaves_a_usable_fit(inference, value):
    X, y = clouds(24, 3, apart=2.0)
    clf = propagation(inference=inference, gamma=value, softness=value, max_time=1e-6)
    if inference == "ep":
        with pytest.warns(ConvergenceWarning):
            clf.fit(X, y)
    else:  # so few points are done in the steps that are always taken: a warning would be an error
        clf.fit(X, y)
        assert clf.gamma_ == pytest.approx(scale_gamma(2, X.var()))  # the first that is tried
    assert_usable(clf, X)
    assert clf.score(X, y) > 0.5  # one of three would be chance


@pytest.mark.parametrize("value", ["evidence", "held-out"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_choosing_ends_with_its_share_of_the_time(value, clock):
    X, y = clouds(20, wrong=0.1)
    clf = propagation(gamma=value, max_time=1.0)
    full = settings_of(clf.fit(X, y))  # time stands still
    clock.step = settling.CHOOSING_SHARE / 4
    assert not np.array_equal(settings_of(clf.fit(X, y)), full)
    assert_usable(clf, X)


def looks_of(clf, X, y, clock):
    """How often a whole fit looks at the clock."""
    before = clock.looks
    clf.fit(X, y)
    return clock.looks - before


@pytest.mark.parametrize(
    ("inference", "value", "look"),
    [
        ("ep", "evidence", 12),
        ("billiard", "held-out", 2),
        ("gibbs", "evidence", 2),
    ],
)
def test_ctrl_c_leaves_a_usable_fit(inference, value, look, clock):
    """It comes while settings are chosen, which looks at the clock before each step."""
    X, y = clouds(20, apart=2.0)
    clf = propagation(inference=inference, gamma=value)
    whole = looks_of(clf, X, y, clock)
    full = settings_of(clf)
    clock.looks, clock.events = 0, {look: press_ctrl_c}
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert not clock.events
    assert clock.looks < look + 0.5 * (whole - look)
    assert not np.array_equal(settings_of(clf), full)
    assert_usable(clf, X)
    assert clf.score(X, y) > 0.6


def test_ctrl_c_while_perceptrons_are_tried():
    """It comes in the first of three trials; the fit and its link come after it all the same."""
    X, y = clouds(24, 3, apart=2.0)
    calls, press_at = [], None

    def kernel(A, B):
        calls.append(1)
        if len(calls) == press_at:
            press_ctrl_c()
        return rbf_kernel(A, B)

    clf = propagation(inference="perceptron", kernel=kernel, softness="held-out").fit(X, y)
    whole, press_at = len(calls), 2
    calls.clear()
    with pytest.raises(KeyboardInterrupt), pytest.warns(ConvergenceWarning):
        clf.fit(X, y)
    assert len(calls) < 0.7 * whole
    assert clf.softness_ == selection.SOFTNESS[0]
    assert_usable(clf, X)


@pytest.mark.parametrize(
    ("inference", "choice", "n_classes"),
    [
        ("ep", {"gamma": "evidence", "softness": "evidence"}, 3),
        ("ep", {"softness": "held-out"}, 2),
        ("perceptron", {"softness": "held-out"}, 3),
    ],
    ids=["evidence", "held-out", "trials"],
)
def test_weights_are_copies_and_threads_change_nothing(inference, choice, n_classes):
    X, y = clouds(18, n_classes, apart=2.0)
    weight = 1.0 + np.arange(18) % 3
    row = np.repeat(np.arange(18), weight.astype(int))
    make = partial(propagation, inference=inference, **choice)
    weighted = make().fit(X, y, weight)
    copied = make().fit(X[row], y[row])
    threads = make(n_jobs=2).fit(X, y, weight)
    assert_allclose(settings_of(weighted), settings_of(copied), rtol=1e-9)
    assert_array_equal(settings_of(weighted), settings_of(threads))
    assert_array_equal(weighted.predict_proba(X), threads.predict_proba(X))
    assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("value", ["evidence", "held-out"])
def test_weights_below_one_have_settings_of_their_own(value):
    X, y = clouds(30, wrong=0.1)  # of fewer, the evidence stays where its search begins
    weight = np.where(np.arange(30) % 3, 0.4, 1.5)
    clf = propagation(gamma=0.5, softness=value)  # "scale" would see the weights, too
    plain = clf.fit(X, y).softness_
    assert_usable(clf.fit(X, y, weight), X)
    assert abs(np.log(clf.softness_ / plain)) > 0.01
