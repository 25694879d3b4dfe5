"""Fits that stop early or go on later, for every ``inference=``: time, Ctrl-C, more draws."""

import pickle
import signal
import threading
import warnings

import numpy as np
import pytest
from helpers.classifiers import (
    DECIDING,
    INFERENCES,
    classifier,
    flowers,
    noise_of,
    takes_noise,
)
from helpers.stops import can_press, press_ctrl_c
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from bayespoint import BayesPointClassifier
from bayespoint.inference.methods import METHODS

each_inference = pytest.mark.parametrize("inference", INFERENCES)
each_decision = pytest.mark.parametrize(("inference", "decision"), DECIDING)
DRAWN = [name for name, method in METHODS.items() if not method.closed_form]
each_drawn = pytest.mark.parametrize("inference", DRAWN)

X, Y, NEW, _ = flowers(3, step=6)
FEW_DRAWS = "ignore:the chains of the"  # do not agree yet

# So long that the limit itself never counts: with one, fits look at the clock.
LONG = 1e9


def assert_usable(clf):
    assert clf.n_draws_ >= 1
    assert clf.posterior(2).draws().reshape(-1, len(X)).shape == (clf.n_draws_, len(X))
    assert np.all(np.isfinite(clf.predict_proba(NEW)))
    assert clf.sample_proba(NEW[:2], 2, 0).shape == (2, 2, 3)
    assert clf.score(X, Y) > 0.6


def first_draws(clf, others):
    """Draws of each chain of all machines, as many as others have."""
    machines = range(len(clf.dual_coef_))
    return [clf.posterior(k).draws()[:, : others.posterior(k).draws().shape[1]] for k in machines]


# ---------------------------------------------------------------------- time


@each_decision
def test_no_time_at_all_leaves_a_usable_fit(inference, decision, clock):
    clock.step = 1.0
    settings = {"inference": inference, "decision": decision, "tol": 1e-9, "n_draws": 16}
    clf = classifier(max_time=1e-9, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, Y)
    assert {one.category for one in caught} <= {ConvergenceWarning}
    assert_usable(clf)
    closed = METHODS[clf.inference_].closed_form
    assert closed or clf.n_draws_ < 16
    # What was cut short is made anew or goes on: no trace of it is left.
    clf.set_params(warm_start=True, max_time=None).fit(X, Y)
    at_once = classifier(**settings).fit(X, Y)
    assert clf.n_draws_ == 16
    same = 1e-6 if closed else 0
    assert_allclose(clf.dual_coef_, at_once.dual_coef_, atol=same)
    if decision == "auto":  # the link of closed forms starts from folds
        assert_allclose(clf.predict_proba(NEW), at_once.predict_proba(NEW), atol=same)


@each_drawn
def test_time_that_is_up_leaves_the_draws_made_so_far(inference, clock):
    clock.step = 1.0 if inference == "perceptron" else 0.12  # each ball looks in each step
    clf = classifier(
        inference=inference, n_draws=20_000, tol=0, max_time=90, label_noise=noise_of(inference)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, Y)
        held, first = clf.n_draws_, first_draws(clf, clf)
        assert held < 20_000
        assert_usable(clf)
        # No time: those that it holds outlive the next fit.
        clf.set_params(warm_start=True, max_time=1e-9).fit(X, Y)
        assert held <= clf.n_draws_ < 20_000
        clf.set_params(max_time=None, n_draws=held + 8).fit(X, Y)
    assert {one.category for one in caught} <= {ConvergenceWarning}
    assert not any("starting points" in str(one.message) for one in caught)  # it has draws
    assert clf.n_draws_ == held + 8
    for old, new in zip(first, first_draws(clf, clf), strict=True):
        assert_array_equal(new[:, : old.shape[1]], old)


def test_a_perceptron_cut_short_is_made_anew(clock):
    rows, y = make_classification(600, 20, n_informative=10, random_state=0)
    settings = {"inference": "perceptron", "n_draws": 3, "gamma": 1.0, "softness": 0, "tol": 0}
    clf = classifier(max_time=1e-6, **settings)
    clock.step = 1.0
    with pytest.warns(ConvergenceWarning, match=r"runs.*max_time"):
        clf.fit(rows, y)
    assert clf.n_draws_ == 1
    clf.set_params(warm_start=True, max_time=None).fit(rows, y)
    at_once = classifier(**settings).fit(rows, y)
    assert_array_equal(clf.dual_coef_, at_once.dual_coef_)
    # Margins are zero but for rounding here, and the link may move the boundary.
    assert np.all(np.where(y == 1, 1, -1) * clf.cosines(rows) > -1e-12)


@each_drawn
def test_drawing_ends_where_tol_is_reached(inference):
    # Few points, so that all balls and orders say the same soon.
    rows, y = [[-1.0], [1.0]], [0, 1]
    settings = {"inference": inference, "n_draws": 4000}
    precise = classifier(tol=0.1, **settings).fit(rows, y)
    assert precise.n_draws_ < 4000
    assert precise.bayes_point_error_[0] < 0.3  # of four balls: known to a factor of two or so
    again = classifier(tol=0.1, inference=inference, warm_start=True).fit(rows, y)
    assert again.set_params(n_draws=4000).fit(rows, y).n_draws_ < 4000
    assert classifier(inference=inference, n_draws=40, tol=0).fit(X, Y).n_draws_ == 40


# ---------------------------------------------------------------------- Ctrl-C


def looks_of(clf, clock):
    """How often a fit looks at the clock."""
    clock.looks = 0
    clf.fit(X, Y)
    return clock.looks


def interrupted_at(look, clf, clock):
    """Press Ctrl-C at a look at the clock; it comes out, and nothing is left of its handler."""
    clock.looks, clock.events = 0, {look: press_ctrl_c}
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, Y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@can_press
@pytest.mark.filterwarnings(FEW_DRAWS)
@each_decision
def test_ctrl_c_comes_out_and_keeps_what_was_drawn(inference, decision, clock):
    settings = {
        "inference": inference, "decision": decision, "max_time": LONG, "tol": 1e-9,
        "n_draws": 24, "label_noise": noise_of(inference),
    }  # fmt: skip
    whole = classifier(**settings)
    n_looks = looks_of(whole, clock)
    closed = METHODS[whole.inference_].closed_form
    # Before the first draw, in the middle, and near the end (with Bayes points: of the link).
    for look in (3, n_looks // 2, n_looks - 2) if decision == "auto" else (n_looks - 2,):
        clf = classifier(**settings)
        interrupted_at(look, clf, clock)
        assert_usable(clf)
        if look == 3 and closed:
            assert not np.any(clf.diagnostics_["converged"])
        elif look == 3:
            assert clf.n_draws_ < 24
    held, finished = first_draws(clf, clf), clf.draws_.finished
    clf.set_params(warm_start=True).fit(X, Y)
    assert clf.n_draws_ == 24
    if finished and not closed:
        for old, new in zip(held, first_draws(clf, clf), strict=True):
            assert_array_equal(new[:, : old.shape[1]], old)


@can_press
@pytest.mark.parametrize("inference", ["auto", "perceptron"])
def test_ctrl_c_while_settings_are_chosen(inference, clock):
    clf = BayesPointClassifier(inference=inference, n_draws=4, random_state=0)
    interrupted_at(4, clf, clock)
    assert clock.looks < 40  # not one more trial
    assert_usable(clf)


@can_press
@each_drawn
@pytest.mark.parametrize(
    "delays", [[0.05], pytest.param([0.05 + 0.007 * k for k in range(8)], marks=pytest.mark.slow)],
    ids=["once", "often"],
)  # fmt: skip
def test_ctrl_c_in_the_middle_of_compiled_loops(inference, delays, clock):
    for delay in delays:
        timer = threading.Timer(delay, press_ctrl_c)
        clf = classifier(
            inference=inference, n_draws=10**6, tol=0, n_jobs=2, max_time=LONG,
            label_noise=noise_of(inference),
        )  # fmt: skip
        clock.looks, clock.events = 0, {2: timer.start}  # from where Ctrl-C is caught
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X, Y)
        timer.join()
        assert 1 <= clf.n_draws_ < 10**6
        assert_usable(clf)


# ---------------------------------------------------------------------- more draws


@pytest.mark.filterwarnings(FEW_DRAWS)
@each_inference
def test_more_draws_with_warm_start(inference):
    settings = {"inference": inference, "label_noise": noise_of(inference), "tol": 0}
    clf = classifier(warm_start=True, **settings).fit(X, Y)
    method, first = METHODS[clf.inference_], first_draws(clf, clf)
    stored = pickle.loads(pickle.dumps(clf))
    clf.set_params(n_draws=20).fit(X, Y)
    assert clf.n_draws_ == 20
    for k, (old, new) in enumerate(zip(first, first_draws(clf, clf), strict=True)):
        if method.from_posterior:
            assert len(np.unique(new.reshape(20, -1), axis=0)) == 20
        assert method.closed_form or np.array_equal(new[:, : old.shape[1]], old), k
    # The same from a file, and whatever random_state is by then.
    stored.set_params(n_draws=20, random_state=99).fit(X, Y)
    assert_array_equal(stored.predict_proba(NEW), clf.predict_proba(NEW))
    if method.independent:
        at_once = classifier(n_draws=20, **settings).fit(X, Y)
        assert_allclose(clf.dual_coef_, at_once.dual_coef_, atol=1e-6)
    if method.closed_form:
        return
    before = clf.predict_proba(NEW)
    assert clf.set_params(n_draws=5).fit(X, Y).n_draws_ == 20  # none is taken away
    assert_array_equal(clf.predict_proba(NEW), before)
    clf.set_params(decision="span_vote").fit(X, Y)  # needs no other draws
    assert_array_equal(first_draws(clf, stored)[1], first_draws(stored, stored)[1])


@each_inference
def test_warm_start_refuses_other_data_and_methods(inference):
    clf = classifier(inference=inference, warm_start=True).fit(X, Y)
    before, n_draws = clf.predict_proba(NEW), clf.n_draws_
    for other in [(X + 1, Y), (X, np.roll(Y, 1)), (X, Y, Y + 1.0), (X[:20], Y[:20])]:
        with pytest.raises(ValueError, match=r"warm_start.*X, y or sample_weight"):
            clf.fit(*other)
    changes = [{"inference": "perceptron" if clf.inference_ != "perceptron" else "ep"}]
    if not METHODS[clf.inference_].closed_form:
        changes += [{"gamma": 0.9}, {"softness": 0.5}, {"kernel": "linear"}, {"bias": 0.0}]
        if takes_noise(inference):
            changes += [{"label_noise": 0.2}, {"label_noise": [0.0, 0.1, 0.0]}]
    for settings in changes:
        usual = {name: clf.get_params()[name] for name in settings}
        with pytest.raises(ValueError, match=rf"warm_start.*{next(iter(settings))}"):
            clf.set_params(n_draws=40, **settings).fit(X, Y)
        clf.set_params(**usual)
        assert_array_equal(clf.predict_proba(NEW), before)
    assert clf.n_draws_ == n_draws
    assert clf.set_params(label_noise=[0.0, 0.0, 0.0], n_draws=12).fit(X, Y).n_draws_ == 12


@pytest.mark.parametrize("sizes", [(2000, 0.05), (0.05, 2000)], ids=["from ep", "to ep"])
def test_warm_start_refuses_another_method_of_auto(sizes):
    """With other memory "auto" takes another method, whose draws are none of this one."""
    clf = classifier(inference="auto", warm_start=True, cache_size=sizes[0]).fit(X, Y)
    method = clf.inference_
    with pytest.raises(ValueError, match=r"warm_start.*inference"):
        clf.set_params(cache_size=sizes[1]).fit(X, Y)
    assert clf.inference_ == method


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warm_start_keeps_the_settings_that_data_chose(clock):
    clf = BayesPointClassifier(inference="perceptron", n_draws=3, random_state=0, warm_start=True)
    chosen = clf.fit(X, Y).settings_
    # A search without time would choose others.
    clock.step = 1.0
    hasty = clone(clf).set_params(max_time=1e-9).fit(X, Y).settings_
    numbers = [np.hstack([one.gamma, one.bias, one.softness]) for one in (hasty, chosen)]
    assert not np.array_equal(*numbers)
    again = clf.set_params(n_draws=6, max_time=1e-9).fit(X, Y).settings_
    assert_array_equal(again.gamma, chosen.gamma)
    assert again.softness == chosen.softness


def test_warm_start_after_a_failed_fit_does_not_mix_draws():
    wrong = np.vstack([X, X[:1]]), np.append(Y, (Y[0] + 1) % 3)  # equal rows, unequal labels
    settings = {"inference": "perceptron", "softness": 0.0, "gamma": 1.0}
    clf = classifier(**settings).fit(X, Y)
    for warm_start, message in ((False, "version space is empty"), (True, "warm_start")):
        with pytest.raises(ValueError, match=message):
            clf.set_params(warm_start=warm_start).fit(*wrong)
    at_once = classifier(n_draws=12, **settings).fit(X, Y)
    assert_array_equal(clf.set_params(n_draws=12).fit(X, Y).dual_coef_, at_once.dual_coef_)


# ---------------------------------------------------------------------- progress


@each_inference
def test_progress_goes_to_standard_error_and_only_when_asked_for(inference, capfd, clock):
    clock.step = 20.0  # seconds, so that every line is drawn
    classifier(inference=inference).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    classifier(inference=inference, verbose=1).fit(X, Y)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("\rbayespoint [")
    assert shown.err.endswith("\n")
    last = shown.err.rstrip().rsplit("]", 1)[1].split()[0]
    assert len(set(last.split("/"))) == 1, last  # all of it was done
