"""`partial_fit` with any rows and labels, and calls that are refused, fail or stop."""

import os
import pickle
import signal
import threading
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.stops import can_press, press_ctrl_c
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

from bayespoint import BayesPointClassifier
from bayespoint.estimators import classifier as module
from bayespoint.estimators import stream_steps

GIVEN = {"gamma": 2.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
CELLS = {"cell_size": 60, "n_landmarks": 0, "n_trees": 1}
X, Y = make_moons(180, noise=0.3, random_state=0)
NEW, LABELS = make_moons(200, noise=0.3, random_state=1)
LONG = 1e9  # so long that the limit itself never counts: with one, fits look at the clock


def moons(**settings):
    return BayesPointClassifier(**GIVEN | CELLS | settings)


def fed(clf, X=X, y=Y, size=60, **options):
    for first in range(0, len(y), size):
        clf.partial_fit(X[first : first + size], y[first : first + size], **options)
    return clf


def copy_of(clf):
    return pickle.loads(pickle.dumps(clf))


@cache
def stored():
    """A model that has learnt a hundred rows, and three that wait."""
    return pickle.dumps(moons().partial_fit(X[:100], Y[:100]).partial_fit(X[100:103], Y[100:103]))


def n_held(clf):
    return clf.absorb().support_vectors_.shape[0]


# ---------------------------------------------------------------------- who has it


def test_it_is_there_for_ep_and_its_votes():
    for inference, there in (("ep", True), ("auto", True), ("perceptron", False), ("gibbs", False)):
        assert hasattr(BayesPointClassifier(inference=inference), "partial_fit") == there
    assert not hasattr(BayesPointClassifier("precomputed"), "partial_fit")
    assert not hasattr(BayesPointClassifier(decision="bayes_point"), "partial_fit")


def test_perceptrons_are_refused_and_stay():
    clf = moons(inference="perceptron", n_draws=4, cell_size="auto").fit(X, Y)
    before = clf.predict_proba(NEW)
    clf.set_params(inference="auto")
    with pytest.raises(ValueError, match=r"used inference='perceptron'.*Set inference='ep'"):
        clf.partial_fit(X, Y)
    with pytest.raises(ValueError, match="inference='ep'"):
        clf.fresh()
    assert clf.absorb() is clf
    assert_array_equal(clf.predict_proba(NEW), before)
    with pytest.raises(NotFittedError):
        moons().absorb()


# ---------------------------------------------------------------------- classes


def test_classes_that_are_named_or_turn_up():
    y = np.where(X[:, 0] > 1.3, 2, Y)
    early, late = y < 2, y == 2
    wanted = moons().fit(X, y).predict(NEW)
    for classes in (None, [0, 1, 2], [2, 0, 1, 7]):
        clf = moons().partial_fit(X[early], y[early], classes=classes)
        p = clf.predict_proba(NEW)
        assert p.shape[1] == (2 if classes is None else len(classes))
        assert p[:, 2:].sum(axis=1).mean() < 0.08  # not one row of them
        clf.partial_fit(X[late], y[late])
        assert_array_equal(clf.classes_, sorted(classes or [0, 1, 2]))
        assert np.mean(clf.predict(NEW) == wanted) > 0.9
        assert clf.score(X[late], y[late]) > 0.7
    assert clf.log_predictive_[1] > np.log(1e-15)
    unnamed = moons().partial_fit(X[early], y[early]).partial_fit(X[late], y[late])
    assert np.isnan(unnamed.log_predictive_[1])  # nobody had heard of it


@pytest.mark.parametrize("n_landmarks", [0, 30])
def test_a_class_that_turns_up_starts_at_the_prior(n_landmarks):
    """Machines of the others stay what they were: two classes are mirror images."""
    given = {"n_landmarks": n_landmarks, "decision": "vote", "cell_size": 300}
    clf = fed(moons(**given))
    before = clf.cosines(NEW)
    clf.partial_fit(X[:1], [2])
    assert clf.cosines(NEW).shape == (len(NEW), 3)
    assert_allclose(clf.cosines(NEW)[:, 1], before, atol=0.2)
    assert_allclose(clf.cosines(NEW)[:, 0], -before, atol=0.2)
    y = np.append(Y, 2)
    at_once = moons(**given).fit(np.vstack([X, X[:1]]), y)
    assert_allclose(clf.predict_proba(NEW), at_once.predict_proba(NEW), atol=0.01)


def test_one_class_after_the_other():
    order = np.argsort(Y, kind="stable")
    clf = moons(decision="vote").partial_fit(X[order[:60]], Y[order[:60]], classes=[0, 1])
    assert np.all(clf.predict(NEW) == 0)
    fed(clf, X[order[60:]], Y[order[60:]])
    assert clf.score(NEW, LABELS) > 0.85
    with pytest.raises(ValueError, match=r"at least 2 classes.*classes="):
        moons().partial_fit(X[:5], np.zeros(5))
    chosen = BayesPointClassifier("rbf", bias=1.0, gamma="scale", random_state=0)
    before = chosen.partial_fit(X[order[:60]], Y[order[:60]], classes=[0, 1]).softness_
    fed(chosen, X[order[60:]], Y[order[60:]])
    assert chosen.softness_ != before  # which nothing could be said of
    assert chosen.score(NEW, LABELS) > 0.85


def test_class_weights_and_noise_of_classes_that_have_not_come():
    balanced = fed(moons(class_weight="balanced"), size=90, classes=[0, 1, 2])
    p = balanced.predict_proba(NEW)
    assert np.all(np.isfinite(p))
    assert np.mean(p[:, :2].argmax(axis=1) == LABELS) > 0.85
    plain, weights = (
        fed(moons(), size=90, classes=[0, 1, 2]).decision_function(NEW),
        {0: 1.0, 2: 5.0},
    )
    shifted = fed(moons(class_weight=weights), size=90, classes=[0, 1, 2]).decision_function(NEW)
    gain = (shifted - shifted[:, :1]) - (plain - plain[:, :1])
    assert_allclose(gain, np.tile([0, 0, np.log(5)], (len(NEW), 1)), atol=1e-6)
    for noise in ([0.1, 0.05, 0.2], {2: 0.2}):
        clf = fed(moons(label_noise=noise), size=90, classes=[0, 1, 2])
        assert clf.label_noise_[2] == 0.2
    for settings in ({"class_weight": {0: 1.0, 3: 5.0}}, {"label_noise": {3: 0.1}}):
        with pytest.raises(ValueError, match=rf"{next(iter(settings))} names \[3\]"):
            moons(**settings).partial_fit(X, Y, classes=[0, 1, 2])


@pytest.mark.parametrize(
    "words", [np.array(["no", "yes, really"]), np.array(["no", "yes, really"], dtype=object)]
)
def test_words_as_labels(words):
    clf = fed(moons(), y=words[Y])
    assert_array_equal(clf.predict(NEW), words[fed(moons()).predict(NEW)])
    clf.partial_fit(X[:1] + 9, ["a word that is longer than the others"])
    assert clf.predict(X[:1] + 9) == "a word that is longer than the others"
    assert set(clf.predict(NEW)) == set(words)
    with pytest.raises(ValueError, match="not of the type of the classes"):
        clf.partial_fit(X[:2], [0, 1])


# ---------------------------------------------------------------------- rows


def test_layouts_of_rows():
    wanted = fed(moons()).predict_proba(NEW)
    sparse = fed(moons(), sp.csr_matrix(X))
    assert_allclose(sparse.predict_proba(sp.csr_matrix(NEW)), wanted, atol=1e-4)
    mixed = fed(moons().partial_fit(X[:60], Y[:60]), sp.csr_matrix(X[60:]), Y[60:])
    assert_allclose(mixed.predict_proba(NEW), wanted, atol=1e-4)
    mixed = fed(moons().partial_fit(sp.csr_matrix(X[:60]), Y[:60]), X[60:], Y[60:])
    assert_allclose(mixed.predict_proba(NEW), wanted, atol=1e-4)
    lists = fed(moons(), X.tolist(), Y.tolist())
    assert_array_equal(lists.predict_proba(NEW), wanted)
    single = fed(moons(), np.float32(X))
    assert single.support_vectors_.dtype == np.float32
    assert np.mean(single.predict(NEW) == LABELS) > 0.85
    later = fed(moons().partial_fit(np.float32(X[:60]), Y[:60]), X[60:], Y[60:])
    assert_array_equal(later.predict_proba(NEW), single.predict_proba(NEW))


def test_names_of_columns_are_checked():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["width", "height"])
    clf = moons(gamma="scale", softness="held-out").partial_fit(frame[:60], pd.Series(Y[:60]))
    clf.partial_fit(frame[60:], pd.Series(Y[60:]))  # settings are chosen again
    assert_array_equal(clf.feature_names_in_, ["width", "height"])
    before = n_held(clf)
    with pytest.raises(ValueError, match="feature names"):
        clf.partial_fit(frame[["height", "width"]], Y)
    with pytest.warns(UserWarning, match="valid feature names"):
        clf.partial_fit(X[:1] + 5, Y[:1])
    assert_array_equal(clf.feature_names_in_, ["width", "height"])
    assert n_held(clf) == before + 1


def test_batches_of_one_row():
    clf = moons(decision="vote").partial_fit(X[:150], Y[:150])
    for row, label in zip(X[150:], Y[150:], strict=True):
        clf.partial_fit(row[None], [label])
    assert len(clf.log_predictive_) == 31
    assert np.all(clf.log_predictive_[1:] < 0)
    assert n_held(clf) == len(X)
    at_once = moons(decision="vote").partial_fit(X[:150], Y[:150]).partial_fit(X[150:], Y[150:])
    assert np.mean(clf.predict(NEW) == at_once.predict(NEW)) > 0.97


def test_contradictory_labels():
    clf = fed(moons(decision="vote")).partial_fit(X, 1 - Y)
    p = clf.predict_proba(X)[:, 1]
    assert n_held(clf) == 2 * len(X)
    assert np.all(np.abs(p - 0.5) < 0.1)
    hard = moons(softness=0.0).partial_fit(X, (X[:, 0] > 0.5).astype(int))
    before = hard.predict_proba(NEW)
    with pytest.raises(ValueError, match=r"version space is empty.*1 training points \[2\]"):
        hard.partial_fit(np.vstack([X[:2] + 9, X[:1]]), [0, 1, int(X[0, 0] <= 0.5)])
    assert_array_equal(hard.predict_proba(NEW), before)


def test_importances_are_of_the_rows_that_are_held():
    y = (X[:, 0] > 0.5).astype(int)
    for clf in (fed(moons(), y=y, size=180), fed(moons(), y=y, classes=[0, 1, 2])):
        assert clf.feature_importances_[0] > 10 * abs(clf.feature_importances_[1])


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("rows", "y", "options", "message"),
    [
        ([[np.nan, 1.0]], [0], {}, "NaN"),
        ([[np.inf, 1.0]], [0], {}, "infinity"),
        ([[1.0, 2.0, 3.0]], [0], {}, "3 features"),
        ([1.0, 2.0], [0, 1], {}, "1D array"),
        (np.empty((0, 2)), [], {}, "0 sample"),
        (X[:2], [0], {}, "inconsistent numbers"),
        (X[:2], [0.5, 1.7], {}, "continuous"),
        (X[:2], [np.nan, 1.0], {}, "y contains NaN"),
        (X[:2], [[0, 1], [1, 0]], {}, "1d array"),
        (X[:2], ["a", "b"], {}, "type of the classes"),
        (X[:2], [0, 1], {"classes": ["a"]}, "type of the classes"),
        (X[:2], [0, 1], {"sample_weight": [-1.0, 1.0]}, "sample_weight"),
        (X[:2], [0, 1], {"sample_weight": [1.0]}, "sample_weight"),
        (X[:2], [0, 1], {"sample_weight": [np.nan, 1.0]}, "sample_weight"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_call_that_is_refused_leaves_the_model(rows, y, options, message):
    clf, before = pickle.loads(stored()), pickle.loads(stored())
    with pytest.raises(ValueError, match=message):
        clf.partial_fit(rows, y, **options)
    assert clf.get_params() == before.get_params()
    assert_array_equal(clf.log_predictive_, before.log_predictive_)
    assert_array_equal(clf.predict_proba(NEW), before.predict_proba(NEW))
    assert n_held(clf) == 103
    if "features" not in message:  # the first call as well
        with pytest.raises(ValueError, match=message):
            moons().partial_fit(rows, y, **{"classes": [0, 1]} | options)


def test_rows_at_the_origin_are_refused_at_once():
    clf = BayesPointClassifier("linear", softness=0.1, bias=0.0, inference="ep")
    clf.partial_fit(X, (X[:, 0] > 0).astype(int))
    before = clf.predict_proba(NEW)
    with pytest.raises(ValueError, match=r"rows \[1\] \(counted from 0\) of X lie at the origin"):
        clf.partial_fit([[1.0, 1.0], [0.0, 0.0]], [1, 1])
    assert_array_equal(clf.predict_proba(NEW), before)


def test_rows_without_weight_are_left_out():
    clf = fed(moons())
    before = clf.predict_proba(NEW)
    clf.partial_fit(X[:3] + 1, [0, 1, 5], sample_weight=np.zeros(3))
    assert_array_equal(clf.classes_, [0, 1])
    assert_array_equal(clf.predict_proba(NEW), before)
    clf.partial_fit(X[:3] + 1, [0, 1, 5], sample_weight=[1.0, 1.0, 0.0])
    assert n_held(clf) == len(X) + 2
    with pytest.raises(ValueError, match="zero for every row"):
        moons().partial_fit(X, Y, sample_weight=np.zeros(len(X)), classes=[0, 1])


# ---------------------------------------------------------------------- stops, files, processes


@can_press
@pytest.mark.parametrize("n_landmarks", [0, 20])
def test_ctrl_c_leaves_the_model_as_it_was(n_landmarks, clock):
    given = {"n_landmarks": n_landmarks, "max_time": LONG, "cell_size": 40}
    clf = moons(**given).partial_fit(X[:100], Y[:100])
    clf.partial_fit(X[100:103], Y[100:103])  # which wait
    begun = copy_of(clf)
    for call in (lambda one: one.partial_fit(X[103:], Y[103:]), lambda one: one.absorb()):
        clock.looks = 0
        call(copy_of(clf))
        for look in (2, 1 + clock.looks // 2):
            clock.looks, clock.events = 0, {look: press_ctrl_c}
            with pytest.raises(KeyboardInterrupt):
                call(clf)
            assert_array_equal(clf.log_predictive_, begun.log_predictive_)
    first, clock.looks, clock.events = moons(**given), 0, {3: press_ctrl_c}
    with pytest.raises(KeyboardInterrupt):
        first.partial_fit(X, Y)
    assert not hasattr(first, "classes_")
    assert_array_equal(clf.predict_proba(NEW), begun.predict_proba(NEW))
    clf.partial_fit(X[103:], Y[103:])
    assert_array_equal(
        clf.predict_proba(NEW), begun.partial_fit(X[103:], Y[103:]).predict_proba(NEW)
    )


def test_an_error_inside_leaves_the_model_as_it_was(monkeypatch):
    clf, begun = pickle.loads(stored()), pickle.loads(stored())

    def fails(*_):
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(stream_steps, "absorbed", fails)
        for call in (lambda: clf.partial_fit(X[103:], Y[103:]), lambda: clf.predict(NEW)):
            with pytest.raises(MemoryError):
                call()
    assert_array_equal(clf.predict_proba(NEW), begun.predict_proba(NEW))
    assert n_held(clf) == 103


@pytest.mark.parametrize("n_landmarks", [0, 20])
def test_time_that_is_up_leaves_a_part_and_the_rest_comes_later(n_landmarks, clock):
    given = {"n_landmarks": n_landmarks, "cell_size": 25, "decision": "vote"}
    clf = moons(**given).partial_fit(X[:100], Y[:100])
    whole = copy_of(clf).partial_fit(X[100:], Y[100:])
    clock.step = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.set_params(max_time=0.5).partial_fit(X[100:], Y[100:])
        p = clf.predict_proba(NEW)
    assert np.mean(p.argmax(axis=1) == LABELS) > 0.75
    assert n_held(clf) == len(X)
    clock.step = 0.0
    clf.set_params(max_time=None)
    assert_allclose(clf.predict_proba(NEW), whole.predict_proba(NEW), atol=0.02)
    assert np.max(np.abs(p - whole.predict_proba(NEW))) > (1e-3 if n_landmarks else 0.02)


def test_copies_and_pickles_go_on_with_what_waits():
    clf = moons().partial_fit(X[:100], Y[:100]).partial_fit(X[100:103], Y[100:103])
    other = copy_of(clf)
    for one in (clf, other):
        one.partial_fit(X[103:], Y[103:])
    assert_array_equal(other.predict_proba(NEW), clf.predict_proba(NEW))
    assert_array_equal(other.log_predictive_, clf.log_predictive_)
    assert n_held(other) == len(X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_learning_goes_on_after_a_fork_while_a_thread_learns():
    clf, wanted = pickle.loads(stored()), pickle.loads(stored()).predict_proba(NEW)
    learning, forked = threading.Event(), threading.Event()

    def learn():
        with module.ABSORBING:
            learning.set()
            forked.wait()

    thread = threading.Thread(target=learn)
    thread.start()
    learning.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)  # rather than wait for ever
        os._exit(int(not np.array_equal(clf.predict_proba(NEW), wanted)))
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_widths_that_are_given_hold_from_one_class_on():
    clf = moons(gamma=[0.1, 5.0]).partial_fit(X[Y == 1], Y[Y == 1], classes=[0, 1])
    assert_array_equal(clf.partial_fit(X[Y == 0], Y[Y == 0]).gamma_, [0.1, 5.0])


def test_changed_parameters_are_refused():
    clf = moons().partial_fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match=r"\['softness'\] changed"):
        clf.set_params(softness=0.7).partial_fit(X[100:], Y[100:])


def test_a_model_is_merged_once():
    clf = moons().partial_fit(X[:100], Y[:100])
    other = clf.fresh().partial_fit(X[100:], Y[100:])
    clf.merge(other)
    with pytest.raises(ValueError, match="merged before"):
        clf.merge(other)
    assert n_held(clf) == len(X)
