"""Model files of streams: what was loaded goes on learning as if it had never been saved."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.hostile import changed, changed_array, edited, refused, state
from helpers.models import FIXED, assert_same, data, fitted
from helpers.paths import DATA
from numpy.testing import assert_array_equal

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.io import model_file
from bayespoint.io.model_file import ModelFileError

EP = {**FIXED, "inference": "ep"}
CELLS = {"cell_size": 20, "n_trees": 2, "n_landmarks": 0}
KINDS = {
    "one cell": {}, "votes": {"decision": "vote"}, "cells": CELLS,
    "landmarks": CELLS | {"n_landmarks": 5},
    "rows dropped": CELLS | {"n_landmarks": 5, "half_life": 5.0},
}  # fmt: skip


def saved_and_loaded(clf, path):
    model_file.save(path, clf)
    return model_file.load(path).classifier


def fed(X, y, n_rows=60, step=20, **params):
    """A classifier that was given rows in parts."""
    clf = BayesPointClassifier(**EP | params)
    for first in range(0, n_rows, step):
        clf.partial_fit(X[first : first + step], y[first : first + step])
    return clf


def assert_goes_on(clf, again, X, y):
    """Both predict the same, and after more rows hold the same, to the bit."""
    for part in (slice(60, 62), slice(62, 90)):  # too few to join at once, and enough
        assert_same(clf.predict_proba(X), again.predict_proba(X))
        for one in (clf, again):
            one.partial_fit(X[part], y[part])
    for one in (clf, again):
        one.absorb()
    assert_same(clf, again)
    assert_same(clf.predict_proba(X), again.predict_proba(X))
    assert_array_equal(clf.log_predictive_, again.log_predictive_)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_stream_goes_on(kind, n_classes, tmp_path):
    X, y = data(n_classes, n=90)
    clf = fed(X, y, **KINDS[kind])
    assert (clf.stream_.dropped > 0) == (kind == "rows dropped")
    lost = clf.stream_.lost_precision
    assert np.any(lost) if kind == "rows dropped" else not np.any(lost)
    never_saved = pickle.loads(pickle.dumps(clf))
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_goes_on(never_saved, again, X, y)


@pytest.mark.parametrize("params", [{}, CELLS | {"n_landmarks": 5}], ids=["one cell", "cells"])
def test_a_loaded_fit_goes_on(params, tmp_path):
    X, y = data(n=90)
    clf = BayesPointClassifier(**EP | params).fit(X[:60], y[:60])
    assert_goes_on(clf, saved_and_loaded(clf, tmp_path / "m.bpm"), X, y)


@pytest.mark.parametrize("n_rows", [0, 1])
@pytest.mark.parametrize(
    "kind", ["one cell", "cells", pytest.param("landmarks", marks=pytest.mark.slow)]
)
def test_one_without_rows_goes_on_and_merges(kind, n_rows, tmp_path):
    X, y = data(3, n=90)
    clf = fed(X, y, **KINDS[kind])
    fresh = clf.fresh()
    if n_rows:
        fresh.partial_fit(X[:n_rows], y[:n_rows])
    again = saved_and_loaded(fresh, tmp_path / "m.bpm")
    assert model_file.describe(tmp_path / "m.bpm")["training_rows_inside"] == n_rows
    assert_goes_on(fresh, again, X, y)
    other = pickle.loads(pickle.dumps(clf))
    assert_same(clf.merge(fresh), other.merge(again))


def test_one_without_rows_straight_after_a_fit_by_cells(tmp_path):
    X, y = data(n=90)
    fresh = fitted(X[:60], y[:60], inference="ep", **CELLS).fresh()
    assert_goes_on(fresh, saved_and_loaded(fresh, tmp_path / "m.bpm"), X, y)


def test_sparse_rows_after_dense_ones(tmp_path):
    X, y = data(n=90)
    clf = fed(X, y, n_rows=40).partial_fit(sp.csr_matrix(X[40:60]), y[40:60])
    assert_goes_on(clf, saved_and_loaded(clf, tmp_path / "m.bpm"), X, y)


def test_one_class_so_far(tmp_path):
    X, y = data(n=90)
    first = np.flatnonzero(y == 1)[:3]
    clf = BayesPointClassifier(**EP).partial_fit(X[first], y[first], classes=[0, 1])
    assert_goes_on(clf, saved_and_loaded(clf, tmp_path / "m.bpm"), X, y)


def test_classes_that_turn_up_after_loading(tmp_path):
    X, y = data(3, n=90)
    names = np.array(["a", "b", "long name"])[y]
    two = np.flatnonzero(y < 2)
    clf = fed(X[two], names[two], n_rows=20, step=10)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_goes_on(clf, again, X, names)
    assert again.classes_.tolist() == ["a", "b", "long name"]


def test_sparse_rows_of_single_precision(tmp_path):
    X, y = data(n=90)
    X = sp.csr_matrix(np.where(np.abs(X) > 1, X, 0).astype(np.float32))
    clf = fed(X, y)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert again.support_vectors_.dtype == np.float32
    assert_goes_on(clf, again, X, y)


def test_settings_are_looked_at_again_after_loading(tmp_path):
    X, y = data(n=45)
    clf = BayesPointClassifier(**EP | {"softness": "held-out"}).partial_fit(X[:20], y[:20])
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    for one in (clf, again):
        one.partial_fit(X[20:], y[20:])
    assert_same(clf, again)
    assert again.held_out_proba_.shape == (45, 2)  # of a fit to all rows


# ---------------------------------------------------------------------- rows that wait


@pytest.mark.parametrize("params", [{}, CELLS], ids=["one cell", "cells"])
def test_rows_that_wait_are_learnt_before_saving(params, tmp_path):
    X, y = data(n=90)
    clf = fed(X, y, **params).partial_fit(X[60:62], y[60:62])
    assert clf.stream_.pending
    copied = pickle.loads(pickle.dumps(clf))  # which keeps them waiting
    assert copied.stream_.pending
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert clf.stream_.pending == again.stream_.pending == ()
    assert len(again.stream_.label) == 62
    assert_same(clf.predict_proba(X), again.predict_proba(X))
    assert_same(copied.predict_proba(X), again.predict_proba(X))
    assert_same(copied, again)


def test_rows_that_wait_inside_a_classifier_that_rejects(tmp_path):
    X, y = data(n=90)
    clf = fed(X, y)
    rejecting = RejectingClassifier(clf, cv="prefit", coverage=0.8).fit(X[60:], y[60:])
    clf.partial_fit(X[60:62], y[60:62])
    again = saved_and_loaded(rejecting, tmp_path / "m.bpm")
    assert again.estimator is again.estimator_
    assert len(again.estimator_.stream_.label) == 62
    assert_same(rejecting.predict_proba(X), again.predict_proba(X))


# ---------------------------------------------------------------------- older files, size


@pytest.mark.parametrize("path", sorted(DATA.glob("model-v1-*.bpm")), ids=lambda path: path.stem)
def test_files_from_before_streams(path):
    clf = model_file.load(path).classifier
    clf = getattr(clf, "estimator_", clf)
    assert clf.stream_ is None
    assert clf.half_life is None
    if hasattr(clf, "partial_fit"):  # by EP
        X, y = data(n=30)
        with pytest.raises(ValueError, match="partial_fit"):
            clf.partial_fit(X[:, :4], clf.classes_[y])
        clf.fit(X[:20, :4], y[:20]).partial_fit(X[20:, :4], y[20:])
        assert clf.stream_.seen == 30


def test_other_parameters_must_be_there(good, tmp_path):
    change = lambda d, _: d["classifier"]["parameters"].pop("gamma")  # noqa: E731
    refused(edited(good, tmp_path / "m.bpm", change), "parameters are not those of")


def test_files_of_those_who_never_stream_hardly_grow(tmp_path):
    X, y = data(n=2000)
    clf = fitted(X, y, inference="ep", cell_size=100, n_landmarks=0, n_trees=1)
    model_file.save(tmp_path / "m.bpm", clf)
    clf.stream_ = None
    model_file.save(tmp_path / "without.bpm", clf)
    size = (tmp_path / "m.bpm").stat().st_size
    assert size < 1.15 * (tmp_path / "without.bpm").stat().st_size


# ---------------------------------------------------------------------- hostile files


def first(value):
    """Return what puts a value first in an array."""

    def change(array):
        array.flat[0] = value
        return array

    return change


NAN = {"float": "nan"}
WRONG_ARRAYS = [
    ("label", first(3), "label goes from"), ("label", first(-1), "label goes from -1"),
    ("label", lambda a: a.astype(np.float64), "label is of float64"),
    ("label", lambda a: a[1:].copy(), "label has shape"),
    ("weight", first(0.0), "weight has rows that do not count"),
    ("weight", first(np.nan), "weight has values that are not finite"),
    ("weight", first(-1.0), "weight has values below 0"),
    ("number", first(-1), "number has values below 0"),
    ("number", first(60), "number is of rows that never came"),
    ("number", lambda a: a.astype(np.uint64), "number is of uint64"),
    ("waiting", lambda a: a[:1].copy(), "waiting has shape"),
    ("waiting", lambda a: a[:, 1:].copy(), "waiting has shape"),
    ("waiting", lambda a: a.astype(np.int8), "waiting is of int8"),
    ("z", first(np.inf), "z has values that are not finite"),
    ("z", lambda a: a[:1].copy(), "z has shape"),
    ("z", lambda a: a[:, 1:].copy(), "z_label has shape"),
    ("z_label", first(3), "z_label goes from"),
    ("z_weight", first(-1.0), "z_weight has values below 0"),
    ("lost_precision", first(np.nan), "lost_precision has values that are not finite"),
    ("lost_precision", lambda a: a[..., 1:].copy(), "lost_precision has shape"),
    ("lost_shift", lambda a: a[:1].copy(), "lost_shift has shape"),
    ("history", first(np.inf), "history is not of numbers of rows"),
    ("history", first(np.nan), "history is not of numbers of rows"),
    ("history", lambda a: a[:, :1].copy(), "history has shape"),
    ("history", lambda a: np.abs(a) + 1.0, "history is not of"),
]  # fmt: skip
WRONG_VALUES = [
    ("seen", -1, "seen is -1; it must be at least 0"),
    ("seen", 1, "never came"), ("seen", 2**60, "seen is .*; it must be at most"),
    ("seen", True, "seen is True"), ("seen", 10**400, "too large"),
    ("settled", NAN, "settled is nan"), ("anew", 61, "anew is 61, of 60 rows"),
    ("dropped", "x", "dropped is 'x'"), ("origin", 3, "origin is 3"), ("fresh", 1, "fresh is 1"),
    ("pending", {"tuple": [1]}, "pending has the wrong entries"),
    ("pending", [], r"pending is \[\]"), ("lost_shift", None, "one of lost_precision and lost_s"),
    ("unknown", 1, "stream_.'unknown' is not one"), ("label", None, "label is of NoneType"),
]  # fmt: skip


def test_wrong_streams_are_refused(tmp_path):
    good, path = tmp_path / "good.bpm", tmp_path / "m.bpm"
    model_file.save(good, fed(*data(3), **KINDS["rows dropped"]))
    model_file.load(changed_array(good, path, "stream_.label", lambda a: a))  # the control
    for name, change, reason in WRONG_ARRAYS:
        refused(changed_array(good, path, f"stream_.{name}", change), reason, name)
    for name, value, reason in WRONG_VALUES:
        refused(edited(good, path, changed(f"stream_.{name}", value)), reason, name)
    refused(edited(good, path, changed("stream_", {"Draws": {}})), "stream_ is .*Draws")
    missing = edited(good, path, lambda d, _: state(d)["stream_"]["Stream"].pop("seen"))
    refused(missing, "stream_.seen is missing")


def test_streams_that_do_not_suit_their_model_are_not_saved(tmp_path):
    ep, cells, few = fitted(inference="ep"), fed(*data(), **CELLS), fed(*data()).fresh()
    perceptrons = fitted(inference="perceptron")
    none = np.zeros((2, 1, 0, 0))
    lost = replace(cells.stream_, lost_precision=none, lost_shift=none.sum(axis=-1))
    two_trees = replace(ep.stream_, waiting=np.zeros((2, 60), dtype=bool))
    for clf, stream, reason in (
        (perceptrons, ep.stream_, "is there for a BayesPointPredictor"),
        (ep, two_trees, "waiting is of 2 trees, not 1"),
        (cells, lost, "without landmarks"),
        (few, None, "there are no points to decide by"),
    ):
        clf.stream_ = stream
        with pytest.raises(ModelFileError, match=reason):
            model_file.save(tmp_path / "m.bpm", clf)
    assert list(tmp_path.iterdir()) == []
