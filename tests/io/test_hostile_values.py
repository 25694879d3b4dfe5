"""Hostile values inside sound archives: every one is checked, and they must suit each other."""

import numpy as np
import pytest
from helpers.hostile import (
    array_of,
    changed,
    changed_array,
    edited,
    parameter,
    place,
    refused,
    replaced_array,
    state,
)
from helpers.models import assert_same, data, fitted

from bayespoint import OnionClassifier, RejectingClassifier
from bayespoint.io import model_file

# Arrays of other values that fit: beyond what can be squared, or none where there must be some.
OVERFLOWING = {
    "bayes points": ("predictor_.bayes_points", lambda a: np.full_like(a, 1e308), "beyond 1e"),
    "one of them": ("predictor_.bayes_points", lambda a: a - 1e308 * (a == a.max()), "beyond 1e"),
    "class weights": ("predictor_.log_weight", lambda a: np.full_like(a, 1e308), "beyond 1e"),
    "link": ("predictor_.link.weights", lambda a: np.full_like(a, 1e308), "beyond 1e"),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_arrays_whose_squares_overflow(name, good, tmp_path):
    where, change, message = OVERFLOWING[name]
    refused(changed_array(good, tmp_path / "m.bpm", where, change), message)


def test_an_empty_whitener(tmp_path):
    X, y = data()
    model_file.save(tmp_path / "good.bpm", fitted(X, y, inference="billiard", decision="vote"))
    bad = changed_array(
        tmp_path / "good.bpm", tmp_path / "m.bpm", "predictor_.whitener", lambda a: a[:0]
    )
    refused(bad, "the whitener: an array of them is empty")


NAN, INF = {"float": "nan"}, {"float": "inf"}
HUGE = 10**400
SOFT, KERNEL = "predictor_.softness", "predictor_.support.kernel"


def labels(*content):
    return changed("classes_", {"values": [*content]})


def moved(name, source):
    """Return what puts one value of the JSON in the place of another."""

    def change(document, members):
        *names, last = source.split(".")
        changed(name, place(document, *names)[last])(document, members)

    return change


NAMES = {
    "later schema": (lambda d, _: d.update(schema=2), "Upgrade: pip install"),
    "no schema": (lambda d, _: d.update(schema="1"), "schema version '1'"),
    "unknown class": (lambda d, _: d["classifier"].update({"class": "os.system"}), "class 'os.sys"),
    "callable": (parameter("kernel", "os.system"), "kernel"),
    "callable inside": (changed(f"{KERNEL}.name", "os.system"), "kernel.name is 'os.system'; it"),
    "unknown key": (lambda d, _: d.update(run="x"), "model.json has"),
    "unknown attribute": (changed("predict", 1), "'predict' is not one"),
    "unknown field": (changed("draws_.predict", 1), "draws_.'predict' is not one"),
    "missing attribute": (lambda d, _: state(d).pop("settings_"), "settings_ is missing"),
    "missing field": (lambda d, _: place(d, "draws_").pop("info"), "draws_.info is missing"),
    "what follows": (changed("predictor_.committee", None), "committee is there, and follows"),
    "points twice": (changed("predictor_.support.points.X", None), "points.X is there, and foll"),
    "unknown kind": (changed(SOFT, {"eval": "1"}), "unknown kind 'eval'"),
    "unknown part": (changed("draws_", {"Popen": {}}), r"draws_ is .*Popen.*one of \['Draws'\]"),
    "part of elsewhere": (moved("draws_", "trained_"), "draws_ is"),
    "two parts": (lambda d, _: state(d)["draws_"].update(Trained={}), "draws_ is"),
    "part as a value": (
        lambda d, m: parameter("class_weight", state(d)["trained_"])(d, m),
        "unknown kind 'Trained'",
    ),
    "no part": (changed("predictor_.support", None), "support is of type NoneType, none of"),
    "fields as a list": (changed("draws_", {"Draws": []}), r"draws_\. is \[\]"),
    "notes": (lambda d, _: d.update(about=[]), "notes"),
    "encoder": (lambda d, _: d.update(encoder={"columns": 3}), "damaged|encoder"),
}

NUMBERS = {
    "wrong type": (changed("settings_.gamma", "wide"), "settings_.gamma is 'wide'"),
    "truth": (changed("settings_.gamma", True), "settings_.gamma is True"),
    "negative": (changed("settings_.softness", -1.0), "settings_.softness is -1.0"),
    "not finite": (changed("settings_.gamma", NAN), "must be finite"),
    "NaN softness": (changed(SOFT, NAN), "predictor_.softness is nan; it must be finite"),
    "endless softness": (changed(SOFT, INF), "predictor_.softness is inf; it must be finite"),
    "negative softness": (changed(SOFT, -0.5), "predictor_.softness is -0.5"),
    "noise": (changed("predictor_.noise", 1.0), "noise is 1.0; it must be at most 0.5"),
    "negative noise": (changed("predictor_.noise", -0.1), "noise is -0.1"),
    "NaN noise": (changed("predictor_.noise", NAN), "noise is nan"),
    "class noise": (
        changed("settings_.class_noise", {"values": ["<f8", [2], [0.5, 0.0]]}),
        r"outside \[0, 0.5",
    ),
    "evidence": (changed("settings_.log_evidence", "high"), "log_evidence is 'high'"),
    "huge softness": (changed(SOFT, HUGE), "predictor_.softness is 10+.* too large"),
    "huge gamma": (changed("settings_.gamma", -HUGE), "gamma is -10+.* too large"),
    "huge entropy": (changed("trained_.entropy", HUGE), "entropy is 10+.* too large"),
    "groups of other columns": (parameter("feature_groups", ["a"]), "feature_groups must hold one"),
    "groups of odd labels": (parameter("feature_groups", [[0]] * 5), "feature_groups must be None"),
    "huge parameter": (parameter("gamma", HUGE), "parameters: "),
    "huge degree": (changed(f"{KERNEL}.degree", 1001), "degree is 1001; it must be at most"),
    "broken degree": (changed(f"{KERNEL}.degree", 2.5), "degree is 2.5"),
    "fewer labels": (labels("<i8", [1], [0]), "class_noise has shape"),
    "same class": (labels("<i8", [2], [0, 0]), "label twice"),
    "long text": (labels("<U1", [2], ["aa", "b"]), "2 characters"),
    "overflow": (labels("|i1", [2], [0, 999]), "OverflowError"),
}

CONTRADICTIONS = {
    "votes": (changed("settings_.decision", "vote"), "predictor_ is a BayesPointPredictor for"),
    "method": (changed("settings_.inference", "ep"), "draws_.resume is a PerceptronSums for 'ep'"),
    "no resume": (changed("draws_.resume", None), "draws_.resume is a NoneType for 'perceptron'"),
    "no link": (changed("predictor_.link", None), "link is of type NoneType, none of .'Link'"),
    "other outputs": (changed("draws_.left_out", 1), "draws_.left_out is 1"),
    "rows left out": (changed("trained_.held_out", 1), "trained_.held_out"),
    "onion": (changed("settings_.inference", "onion"), "is 'onion' for BayesPointClassifier"),
    "factor": (changed("draws_.factor", 1), "draws_.factor is 1"),
    "no draws": (changed("draws_.coef", []), "draws of"),
    "number of draws": (changed("draws_.n_draws", 9), "draws_.n_draws is 9; arrays have 8"),
    "chains": (changed("draws_.n_chains", 3), "n_draws is 8, of 3 chains"),
    "info": (changed("draws_.info", []), r"draws_.info is \[\]"),
    "centres": (changed("draws_.centres", {"dict": {"kicks": 3}}), "centres.'kicks'. is 3, of"),
    "drawn with": (changed("trained_.drawn_with", {"dict": {}}), "drawn_with is not what draws"),
    "labels alone": (
        moved("trained_.label", "trained_.row"),
        "one of label_proba and label only|trained_.label",
    ),
    "machines": (labels("<i8", [3], [0, 1, 2]), "class_noise has shape|machines"),
    "layout": (changed(f"{KERNEL}.layout", "dense"), "sparse, and its layout|center must be"),
    "no layout": (changed(f"{KERNEL}.layout", None), "layout is None"),
    "other kernel": (changed(f"{KERNEL}.name", "laplacian"), "layout is 'sparse' for 'laplacian'"),
    "given kernel": (changed(f"{KERNEL}.name", "precomputed"), "but fitted 'precomputed'"),
    "diagonal": (changed("predictor_.support.diagonal", 1.0), "for Gram matrices only"),
    "no scale": (changed("predictor_.support.points.scale", None), "points.scale does not suit"),
    "no norms": (changed("predictor_.support.points.squared_norm", None), "squared_norm does not"),
    "features": (changed("n_features_in_", 4), "support_vectors_ has shape"),
    "same array twice": (moved("support_", "predictor_.bayes_points"), "support_ is"),
    "unused array": (moved("draws_.angle_errors", "draws_.mean_norms"), "belongs to nothing"),
}


@pytest.mark.parametrize(
    "changes", [NAMES, NUMBERS, CONTRADICTIONS], ids=["names", "numbers", "contradictions"]
)
def test_changed_json_is_refused(changes, good, tmp_path):
    for name, (change, reason) in changes.items():
        refused(edited(good, tmp_path / "m.bpm", change), reason, name)


def one_class(document, members):
    """A model of one class throughout."""
    changed("classes_", {"values": ["<i8", [1], [0]]})(document, members)
    changed("settings_.class_noise", {"values": ["<f8", [1], [0.0]]})(document, members)
    number = place(document, "predictor_", "log_weight")["array"]
    replaced_array(members, document, number, np.zeros(1))


def test_one_class_is_refused(good, tmp_path):
    refused(edited(good, tmp_path / "m.bpm", one_class), "1 label")


def votes():
    return fitted(inference="ep", decision="vote")


def sampled():
    return fitted(inference="billiard")


def calibrated():
    return fitted(inference="ep")


def rejecting():
    return RejectingClassifier(fitted(), coverage=0.8, cv="prefit").fit(*data())


def shells():
    return OnionClassifier(depth=1, n_draws=100, random_state=0).fit(*data())


def gram():
    X, y = data()
    return fitted(X @ X.T, y, kernel="precomputed", inference="perceptron")


UNSUITED = {
    votes: [
        (changed("settings_.decision", "calibrated"), "link does not suit 'calibrated'"),
        (changed("settings_.inference", "billiard"), "is a GaussianPredictor for 'vote' by"),
        (changed("settings_.decision", "span_vote"), "is a GaussianPredictor for 'span_vot"),
        (changed("trained_.label", None), "one of label_proba and label only"),
        (changed(f"{KERNEL}.center", None), "center must be there for dense points"),
        (changed("predictor_.origin", None), "whitener must be there where predictor_.origin is"),
        (changed("draws_.n_draws", 7), "origin.n_draws is 8; arrays have 7"),
    ],
    sampled: [
        (changed("draws_.coef", []), "decision 'vote' needs draws"),
    ],
    calibrated: [
        (changed("settings_.decision", "vote"), "link does not suit 'vote'"),
        (changed("predictor_.link", None), "link does not suit 'calibrated'"),
    ],
    rejecting: [
        (changed("confidence_", "output"), "confidence_ is 'output' for confidence='auto'"),
        (changed("confidence_", "os.system"), "confidence_ is 'os.system'; it must be one of"),
        (changed("confidence_", None), "confidence_ is None"),
        (parameter("confidence", "gap"), "confidence_ is 'probability' for confidence='gap'"),
        (lambda d, _: state(d).pop("confidence_"), "confidence_ is missing"),
    ],
    shells: [
        (changed("settings_.inference", "ep"), "is 'ep' for OnionClassifier"),
        (changed("shells_", {"tuple": [2, 0]}), "shells_ is .2, 0., none of the table"),
        (changed("shells_", {"tuple": [0, 0, 0]}), "none of the table"),
        (moved("table_.products", "table_.log_volume"), "of 2 shells, not 4|belongs to nothing"),
    ],
    gram: [
        (changed("predictor_.support.columns", None), "for Gram matrices only"),
        (changed("predictor_.support.diagonal", None), "for Gram matrices only"),
        (parameter("kernel", "rbf"), "but fitted 'prec"),
        (changed("n_features_in_", 61), "not its size"),
    ],
}


@pytest.mark.parametrize("make", UNSUITED)
def test_parts_that_do_not_suit_each_other_are_refused(make, tmp_path):
    model_file.save(tmp_path / "good.bpm", make())
    model_file.load(tmp_path / "good.bpm")
    for change, reason in UNSUITED[make]:
        refused(edited(tmp_path / "good.bpm", tmp_path / "m.bpm", change), reason, reason)


WRONG_PARTS = [  # of a sparse matrix: 2 are its data, 3 indices, 4 starts of rows
    (3, lambda a: np.where(np.arange(len(a)) == 7, 5, a).astype(a.dtype)),
    (3, lambda a: np.where(np.arange(len(a)) == 7, -1, a).astype(a.dtype)),
    (3, lambda a: a[::-1].copy()),
    (3, lambda a: a.astype(np.int64)[:-1]),
    (3, lambda a: a.astype(np.float64)),
    (4, lambda a: a[::-1].copy()),
    (4, lambda a: a + np.arange(len(a), dtype=a.dtype)),
    (4, lambda a: a[:-1].copy()),
    (2, lambda a: a[:-1].copy()),
    (2, lambda a: a * np.nan),
    (2, lambda a: a.astype(np.int64)),
]


def test_sparse_points_with_wrong_indices_are_refused(good, tmp_path):
    for case, (part, change) in enumerate(WRONG_PARTS):

        def change_part(document, members, part=part, change=change):
            number = state(document)["support_vectors_"]["csr"][part]
            replaced_array(members, document, number, change(array_of(members, number)))

        path = edited(good, tmp_path / "m.bpm", change_part)
        refused(path, "sparse matrix|support_vectors_|support", f"case {case}")


@pytest.mark.parametrize("name", ["support_", "predictor_.used", "trained_.row"])
def test_indices_out_of_range_are_refused(name, good, tmp_path):
    for value in (-1, 60, 2**40):

        def change(array, value=value):
            array[3] = value
            return array

        path = changed_array(good, tmp_path / "m.bpm", name, change)
        refused(path, f"{name} goes from", value)


@pytest.mark.parametrize("name", ["support_", "predictor_.used", "trained_.row"])
def test_indices_that_contradict_each_other_are_refused(name, good, tmp_path):
    path = changed_array(good, tmp_path / "m.bpm", name, lambda array: array[::-1].copy())
    refused(path, "support_ is not where trained_.row and predictor_.used say")


@pytest.mark.parametrize("name", ["squared_norm", "scale", "length"])
def test_support_points_have_one_precision(name, good, tmp_path):
    name = f"predictor_.support.points.{name}"
    path = changed_array(good, tmp_path / "m.bpm", name, lambda a: a.astype(np.float32))
    refused(path, f"{name} has dtype float32, not that of points")


LINK, BEFORE = "predictor_.link", "draws_.resume.before"
WRONG_VALUES = [
    (f"{LINK}.weights", lambda a: a * np.nan, "weights has values that are not finite"),
    (f"{LINK}.weights", lambda a: a * np.inf, "weights has values that are not finite"),
    (f"{LINK}.weights", lambda a: -a, "weights is not positive"),
    (f"{LINK}.weights", lambda _: np.eye(2), "weights has shape .2, 2.; it must be .1, 1."),
    (f"{LINK}.offset", lambda a: a * np.nan + np.inf, "offset has values that are not finite"),
    (f"{LINK}.offset", lambda _: np.zeros(2), "offset has shape .2,.; it must be .1,."),
    (f"{BEFORE}.unseen", lambda a: a * np.nan, "unseen has values that are not finite"),
    (f"{BEFORE}.n_seen", lambda a: a * 1.0, "n_seen is of float64"),
    (f"{BEFORE}.n_unseen", lambda a: a[1:].copy(), "n_unseen has shape"),
]


@pytest.mark.parametrize(("name", "change", "reason"), WRONG_VALUES)
def test_wrong_links_and_sums_are_refused(name, change, reason, good, tmp_path):
    refused(changed_array(good, tmp_path / "m.bpm", name, change), reason)


@pytest.mark.parametrize(
    "part",
    ["draws_.resume.sum_coef", "draws_.bayes_points", "draws_.used", f"{BEFORE}.seen"],
)
def test_shapes_that_do_not_agree_are_refused(part, good, tmp_path):
    path = changed_array(good, tmp_path / "m.bpm", part, lambda array: array[:, :-1].copy())
    refused(path, "has shape .* it must be")


def first(value):
    """Return what puts a value first in an array."""

    def change(array):
        array.ravel()[0] = value
        return array

    return change


def second_leaf_as_first(children):
    """Let two branches end in the same cell."""
    leaves = np.flatnonzero(children.ravel() < 0)
    children.ravel()[leaves[0]] = children.ravel()[leaves[1]]
    return children


def leaves_of_trees_exchanged(children):
    leaves = np.flatnonzero(children.ravel() < 0)[[0, -1]]
    children.ravel()[leaves] = children.ravel()[leaves[::-1]]
    return children


MODEL = "predictor_.model"
WRONG_CELLS = [
    (f"{MODEL}.children", second_leaf_as_first, "do not hang at one place each"),
    (f"{MODEL}.children", leaves_of_trees_exchanged, "children lead to another tree"),
    (f"{MODEL}.begin", lambda a: a + (a == 60), "not where the rows of a tree begin"),
    (f"{MODEL}.order", lambda a: np.where(np.arange(120) == 0, a[1], a), "a row twice in a tree"),
    (f"{MODEL}.order", first(60), "order goes from"),
    (f"{MODEL}.order", lambda a: a[1:].copy(), "order|shape"),
    (f"{MODEL}.begin", first(1), "cells do not follow each other"),
    (f"{MODEL}.begin", lambda a: a[::-1].copy(), "cells do not follow each other"),
    (f"{MODEL}.children", first(0), "children lead back"),
    (f"{MODEL}.children", first(10**6), "nodes or cells that are not there"),
    (f"{MODEL}.children", first(-(10**6)), "nodes or cells that are not there"),
    (f"{MODEL}.roots", first(10**6), "nodes or cells that are not there"),
    (f"{MODEL}.roots", lambda a: a[:0].copy(), "roots|trees|shape"),
    (f"{MODEL}.tau", first(-1.0), "tau is negative"),
    (f"{MODEL}.coef", first(np.nan), "coef has values that are not finite"),
    (f"{MODEL}.normals", first(np.inf), "normals has values that are not finite"),
    (f"{MODEL}.common_factor", first(0.0), "not that of a precision"),
    (f"{MODEL}.landmarks", lambda a: a[:, :-1].copy(), "landmarks has shape"),
    (f"{MODEL}.projection", lambda a: a[:-1].copy(), "shape"),
]


def test_wrong_cells_are_refused(tmp_path):
    good, path = tmp_path / "good.bpm", tmp_path / "m.bpm"
    model_file.save(good, fitted(inference="ep", cell_size=20, n_landmarks=5, n_trees=2))
    model_file.load(changed_array(good, path, f"{MODEL}.tau", lambda a: a))  # the control
    for name, change, reason in WRONG_CELLS:
        refused(changed_array(good, path, name, change), reason, name)


def test_wrong_importances_are_refused(tmp_path):
    good, path, clf = tmp_path / "good.bpm", tmp_path / "m.bpm", fitted()
    assert clf.feature_importances_.shape == (5,)
    model_file.save(good, clf)
    where = "trained_.importances"
    model_file.load(changed_array(good, path, f"{where}.mean", lambda a: a))  # the control
    for name, change, reason in (
        ("mean", first(np.nan), "mean has values that are not finite"),
        ("mean", lambda a: a[1:].copy(), r"mean has shape \(4,\)"),
        ("error", first(-1.0), "error has values below 0"),
        ("error", lambda a: a.astype(int), "must be an array of kind 'f'"),
    ):
        refused(changed_array(good, path, f"{where}.{name}", change), reason, name)
    refused(edited(good, path, changed(where, {"Draws": {}})), "importances is .*Draws")


def test_an_unchanged_edit_loads(good, tmp_path):
    """The control: what the edits above do beside their change is harmless."""
    path = edited(good, tmp_path / "m.bpm", lambda _, __: None)
    assert_same(model_file.load(path).classifier, model_file.load(good).classifier)
