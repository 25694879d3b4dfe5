"""`RiverClassifier` as river's own checks see it, and what it learns."""

import doctest
import inspect
import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("river", minversion="0.26")
pytest.importorskip("pandas")

import pandas as pd
from river import base, checks, compose, preprocessing

from bayespoint import BayesPointClassifier
from bayespoint.displays import PredictiveDisplay
from bayespoint.io import river as adapter
from bayespoint.io.river import RiverClassifier

NAMES = ["a", "b", "c"]


def settings(**given):
    return BayesPointClassifier(**{"gamma": 0.2, "softness": 0.1, "bias": 1.0, **given})


def model(**given):
    return RiverClassifier(settings(**given), seed=0)


def rows(n=60, n_classes=2, seed=0):
    """Features and labels, of three numbers and words."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    edges = np.linspace(-1, 1, n_classes + 1)[1:-1]
    y = np.array(["no", "yes", "perhaps"])[np.searchsorted(edges, X[:, 0])]
    return X, y.tolist()


def dicts(X, names=NAMES):
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def taught(X, y, **given):
    learner = model(**given)
    for x, label in zip(dicts(X), y, strict=True):
        learner.learn_one(x, label)
    return learner


# ---------------------------------------------------------------------- river's own checks


def shorter(check, n=45):
    """Cut the data of a check of river to its first rows."""
    data = getattr(check, "keywords", {}).get("dataset")
    if data is None:
        return check
    return lambda learner: check.func(learner, dataset=list(itertools.islice(data, n)))


CHECKS = list(checks.yield_checks(RiverClassifier(settings())))

# River's checks leave out features by chance, and with a numeric width, columns of its data sets
# (unscaled, as they come) then differ so much that the warning is right.
unscaled = pytest.mark.filterwarnings("ignore:features are on very different scales:UserWarning")


@unscaled
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_check_of_river_on_its_first_rows(check):
    shorter(check)(RiverClassifier(settings()))


@unscaled
@pytest.mark.slow
def test_all_checks_of_river():
    checks.check_estimator(RiverClassifier(settings()))


@pytest.mark.slow
def test_checks_of_river_with_settings_that_are_chosen():
    for check in checks.yield_checks(RiverClassifier()):
        shorter(check, n=30)(RiverClassifier())


def test_the_checks_are_those_of_mini_batches_and_several_classes():
    names = {check.__name__ for check in CHECKS}
    for part in ("emerging", "radically_disappearing", "shuffle", "learn_many_matches", "seeding"):
        assert any(part in name for name in names)
    assert isinstance(model(), base.MiniBatchClassifier)


def test_examples_of_the_docstring():
    assert doctest.testmod(adapter).failed == 0


# ---------------------------------------------------------------------- before two classes


def test_before_anything_is_learnt():
    learner, frame = model(), pd.DataFrame(np.zeros((2, 3)), columns=NAMES, index=[5, 9])
    assert learner.predict_proba_one({"a": 1.0}) == {}
    assert learner.predict_one({"a": 1.0}) is None
    assert learner.predict_proba_many(frame).empty
    assert learner.predict_many(frame).tolist() == [None, None]
    learner.absorb()
    assert not hasattr(learner.classifier_, "classes_")


def test_a_single_class_is_certain_until_there_is_another(monkeypatch):
    monkeypatch.setattr(adapter, "MOST_WAITING", 8)
    learner, X = model(), rows()[0]
    for x in dicts(X[:20]):
        learner.learn_one(x, 7)
        assert learner.predict_proba_one(x) == {7: 1.0}
        assert learner.predict_one({}) == 7
    frame = pd.DataFrame(X[:2], columns=NAMES)
    assert learner.predict_many(frame).tolist() == [7, 7]
    learner.learn_one(dicts(X)[20], 9)
    assert set(learner.predict_proba_one(dicts(X)[20])) == {7, 9}
    assert learner.classifier_.stream_.history[0, 0] == 9  # the newest eight have waited


def test_rows_without_features_wait_for_some():
    learner = model()
    learner.learn_one({}, True)
    learner.learn_one({}, False)
    assert learner.predict_proba_one({}) == {True: 0.5, False: 0.5}
    learner.learn_one({"a": 1.0}, True)
    assert learner.predict_proba_one({"a": 1.0})[True] > 0.5


# ---------------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_says_what_the_classifier_would(n_classes):
    X, y = rows(n_classes=n_classes)
    clf = settings(random_state=0).partial_fit(X, y)
    learner = taught(X, y)
    new = rows(seed=1)[0][:9]
    expected = clf.predict_proba(new)
    for x, proba in zip(dicts(new), expected, strict=True):
        said = learner.predict_proba_one(x)
        assert list(said) == clf.classes_.tolist()
        assert_allclose(list(said.values()), proba, atol=1e-10)
        assert learner.predict_one(x) == clf.classes_[np.argmax(proba)]
    frame = pd.DataFrame(new[:, ::-1], columns=NAMES[::-1], index=np.arange(9) + 5)
    many = learner.predict_proba_many(frame)
    assert_allclose(many.to_numpy(), expected, atol=1e-10)
    assert many.columns.tolist() == clf.classes_.tolist()
    labels = learner.predict_many(frame)
    assert labels.tolist() == clf.predict(new).tolist()
    assert_array_equal(labels.index, frame.index)


def test_many_rows_are_as_one_by_one(monkeypatch):
    monkeypatch.setattr(adapter, "MOST_WAITING", 16)
    X, y = rows()
    one, many = taught(X, y), model()
    many.learn_many(pd.DataFrame(X, columns=NAMES), pd.Series(y))
    assert_array_equal(one.classifier_.stream_.history, many.classifier_.stream_.history)
    assert_array_equal(many.classifier_.stream_.history[:, 0], [16, 16, 16])
    x = dicts(X)[0]
    assert one.predict_proba_one(x) == many.predict_proba_one(x)


def test_rows_wait_until_they_are_a_share_of_those_learnt():
    X, y = rows(n=60)
    learner = taught(X[:40], y[:40])
    x = dicts(X)[0]
    learner.predict_one(x)
    seen = []
    for new, label in zip(dicts(X[40:46]), y[40:46], strict=True):
        learner.learn_one(new, label)
        learner.predict_one(x)
        seen.append(int(np.sum(learner.classifier_.stream_.history[:, 0])))
    assert seen == [40, 42, 42, 42, 45, 45]  # 5 % of 40 are two rows, of 42 more than two
    learner.absorb()
    assert np.sum(learner.classifier_.stream_.history[:, 0]) == 46


def test_a_new_class_is_learnt_at_once():
    X, y = rows(n=60)
    learner = taught(X, y)
    learner.predict_one({})
    learner.learn_one({"a": 9.0, "b": 0.0, "c": 0.0}, "far")
    assert set(learner.predict_proba_one({"a": 9.0})) == {"far", "no", "yes"}


def test_old_rows_count_less_however_they_come():
    """A rule that turned over: with a half-life the new one wins, in one batch as well."""
    X, _ = rows(n=140)
    turned = np.where(np.arange(140) < 80, X[:, 0] > 0, X[:, 0] < 0).tolist()
    right = {}
    for half_life in (15.0, None):
        learner = taught(X, turned, half_life=half_life)
        new = rows(seed=1)[0]
        said = learner.predict_many(pd.DataFrame(new, columns=NAMES)).to_numpy()
        right[half_life] = np.mean(said == (new[:, 0] < 0))
    assert right[15.0] > 0.85
    assert right[None] < 0.6


def test_features_that_are_missing_count_as_0_and_new_ones_not_at_all():
    X, y = rows()
    X[:, 1] = 0.0
    learner = taught(X, y)
    for x in dicts(X[:5]):
        expected = learner.predict_proba_one(x)
        for other in ({"b": None}, {"b": np.nan}, {"new": 5.0}):
            assert learner.predict_proba_one(x | other) == expected
        assert learner.predict_proba_one({"c": x["c"], "a": x["a"]}) == expected
    frame = pd.DataFrame(X[:5], columns=NAMES).assign(b=np.nan, new=1.0)
    labels = [learner.predict_one(x) for x in dicts(X[:5])]
    assert learner.predict_many(frame).tolist() == labels
    learner.learn_one({"new": 3.0}, "no")
    learner.absorb()
    assert learner.classifier_.n_features_in_ == 3


@pytest.mark.parametrize("names", [["x", 3, ("y", 1)], [10, 9, 2]], ids=str)
def test_names_of_features_may_be_anything(names):
    X, y = rows()
    learner = model()
    for k, x in enumerate(dicts(X, names)):
        x = dict(reversed(x.items())) if k % 2 else x
        learner.learn_one(x, y[k])
    assert np.mean([learner.predict_one(x) == label
                    for x, label in zip(dicts(X, names), y, strict=True)]) > 0.9  # fmt: skip


@pytest.mark.parametrize("labels", [(False, True), (np.False_, np.True_), (3, 1), (0.0, 1.0)])
def test_labels_come_back_as_python_has_them(labels):
    X, y = rows()
    learner = taught(X, [labels[word == "yes"] for word in y])
    said = learner.predict_proba_one(dicts(X)[0])
    assert set(said) == set(labels)
    assert all(type(label) in (bool, int, float) for label in said)


def test_equal_rows_with_both_labels():
    learner = RiverClassifier(seed=0)
    for label in (True, False, True, False):
        learner.learn_one({"a": 1.0}, label)
        assert sum(learner.predict_proba_one({"a": 1.0}).values()) == pytest.approx(1)
    assert learner.predict_proba_one({"a": 1.0})[True] == pytest.approx(0.5, abs=0.2)


def test_a_pipeline_of_river_and_the_picture():
    X, y = rows(n=80)
    pipeline = compose.Pipeline(preprocessing.StandardScaler(), model())
    right = []
    for x, label in zip(dicts(X * [1, 100, 1]), y, strict=True):
        right.append(pipeline.predict_one(x) == label)
        pipeline.learn_one(x, label)
    assert np.mean(right[20:]) > 0.8
    shown = PredictiveDisplay(
        rows=pipeline["RiverClassifier"].classifier_.stream_.history[:, 0],
        log_predictive=pipeline["RiverClassifier"].classifier_.log_predictive_,
    )
    assert not len(shown.breaks_)


# ---------------------------------------------------------------------- as an object


def test_copies_and_pickles():
    X, y = rows()
    learner = taught(X, y)
    x = dicts(X)[0]
    waiting = pickle.loads(pickle.dumps(learner))  # before anything is learnt
    expected = learner.predict_proba_one(x)
    for other in (waiting, pickle.loads(pickle.dumps(learner))):
        assert other.predict_proba_one(x) == expected
    empty = learner.clone()
    assert empty.predict_proba_one(x) == {}
    assert empty.classifier.gamma == 0.2
    assert empty.clone({"seed": 5}).classifier_.random_state == 5
    assert learner.clone(include_attributes=True).predict_proba_one(x) == expected
    assert list(inspect.signature(RiverClassifier).parameters) == ["classifier", "seed"]


def test_the_classifier_given_stays_as_it_was():
    X, y = rows()
    given = settings().fit(X, y)
    before = given.predict_proba(X)
    learner = RiverClassifier(given)
    assert learner.predict_proba_one(dicts(X)[0]) == {}  # what it knew is not taken over
    learner.learn_many(pd.DataFrame(X, columns=NAMES), pd.Series(y[::-1]))
    learner.absorb()
    assert_array_equal(given.predict_proba(X), before)


# ---------------------------------------------------------------------- what is refused


def test_classifiers_that_cannot_learn_on_are_refused():
    with pytest.raises(TypeError, match="must be a BayesPointClassifier; got str"):
        RiverClassifier("ep")
    with pytest.raises(ValueError, match="inference='billiard'"):
        RiverClassifier(settings(inference="billiard"))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"a": "red"}, "no", "feature 'a' must be a number; got 'red'"),
        ({"a": [1.0]}, "no", "feature 'a' must be a number"),
        ({"a": np.inf}, "no", "feature 'a' must be finite; got inf"),
        ({"a": 1.0}, None, "y must be a bool, an int or a str; got None"),
        ({"a": 1.0}, 0.5, "y must be a bool, an int or a str; got 0.5"),
        ({"a": 1.0}, np.nan, "y must be a bool, an int or a str; got nan"),
        ({"a": 1.0}, 1, "y must be of the type of the labels before, as 'no'; got 1"),
    ],
)
def test_rows_that_are_refused_leave_the_model_as_it_was(x, y, message):
    learner = model()
    learner.learn_one({"a": 0.0}, "no")
    before = pickle.dumps(learner)
    with pytest.raises(ValueError, match=message):
        learner.learn_one(x, y)
    with pytest.raises(ValueError, match=message):
        learner.learn_many(pd.DataFrame([{"a": 0.0}, x]), pd.Series(["no", y], dtype=object))
    assert pickle.dumps(learner) == before


def test_frames_that_do_not_fit_are_refused():
    learner, frame = model(), pd.DataFrame(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        learner.learn_many(frame, pd.Series([1, 2]))
    with pytest.raises(ValueError, match="labels before, as 1; got 'b'"):
        learner.learn_many(frame, pd.Series([1, 2, "b"]))
    assert learner.predict_one({}) is None
