"""Model files: what they hold and say of themselves, what is refused, how large they are."""

import io
import json
import zipfile
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from helpers.models import FIXED, assert_same, data, fitted
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.io import model_file
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import ModelFileError, layout
from bayespoint.io.model_file.fields import FIELDS
from bayespoint.io.tables import Table

METHODS = ("perceptron", "billiard", "gibbs", "ep")


def encoder_and_data():
    X, y = data()
    columns = (X[:, 0], np.array(["a", "b", "c"] * 20, dtype=object))
    table = Table(("height", "kind"), columns, None)
    encoder = TableEncoder().fit(table)
    return encoder, encoder.transform(table), y, table


def test_encoder_and_notes(tmp_path):
    encoder, X, y, table = encoder_and_data()
    about = {"title": "ünï", "score": 0.5, "list": [1, None, {"deep": True}]}
    model_file.save(tmp_path / "m.bpm", fitted(X, y), encoder=encoder, about=about)
    model = model_file.load(tmp_path / "m.bpm")
    assert model.about == about
    assert_same(model.encoder.transform(table), X)
    with pytest.raises(ModelFileError, match="encoder makes 4 features; the classifier takes 5"):
        model_file.save(tmp_path / "m.bpm", fitted(), encoder=encoder)


def test_the_same_model_makes_the_same_file(tmp_path):
    clf = fitted()
    model_file.save(tmp_path / "a.bpm", clf)
    model_file.save(tmp_path / "b.bpm", model_file.load(tmp_path / "a.bpm").classifier)
    assert (tmp_path / "a.bpm").read_bytes() == (tmp_path / "b.bpm").read_bytes()


def test_numpy_reads_the_arrays(tmp_path):
    clf = fitted()
    model_file.save(tmp_path / "m.bpm", clf)
    with zipfile.ZipFile(tmp_path / "m.bpm") as archive:
        arrays = [
            np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            for name in archive.namelist()
            if name != "model.json"
        ]
    assert any(np.array_equal(array, clf.support_vectors_) for array in arrays)


def test_description(tmp_path):
    X, y = data(3)
    X, y = np.vstack([X, X[:1]]), np.append(y, y[0])  # two rows are equal
    clf = RejectingClassifier(BayesPointClassifier(**FIXED), coverage=0.9, cv=2).fit(X, y)
    model_file.save(tmp_path / "m.bpm", clf, about={"title": "three"})
    found = model_file.describe(tmp_path / "m.bpm")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["schema"] == 1
    assert found["training_rows"] == 61
    assert found["training_rows_inside"] == 60
    assert found["class"] == "BayesPointClassifier"
    assert found["rejection"]["coverage"] == 0.9
    assert found["rejection"]["confidence_"] == clf.confidence_
    assert found["about"] == {"title": "three"}
    assert found["settings"]["gamma"] == 0.2
    names = ("inference", "inference_reason", "decision", "gamma", "bias", "softness",
             "label_noise", "n_draws", "log_evidence")  # fmt: skip
    assert [found[n] for n in names] == [getattr(clf.estimator_, f"{n}_") for n in names]
    assert found["bytes"] == (tmp_path / "m.bpm").stat().st_size
    noisy = fitted(X, y, inference="ep", label_noise=[0.1, 0.0, 0.0])
    model_file.save(tmp_path / "m.bpm", noisy)
    assert model_file.describe(tmp_path / "m.bpm")["label_noise"] == [0.1, 0.0, 0.0]


# ---------------------------------------------------------------------- the table of fields


def models_of_all_kinds():
    X, y = data()
    onion = OnionClassifier(depth=1, n_draws=100, random_state=0).fit(X, y)
    rejecting = RejectingClassifier(fitted(), coverage=0.8, cv="prefit").fit(X, y)
    decisions = [fitted(inference="billiard", decision=d) for d in ("vote", "span_vote")]
    cells = fitted(inference="ep", cell_size=20, n_landmarks=5)
    assert cells.feature_importances_.shape == (5,)  # which files hold once they were asked for
    return [*(fitted(inference=method) for method in METHODS), *decisions, cells, onion, rejecting]


def names_of(kind):
    """Names of the fields of a dataclass or named tuple; None of other classes."""
    if is_dataclass(kind):
        return {field.name for field in fields(kind)}
    return set(kind._fields) if hasattr(kind, "_fields") else None


def parts_of(value):
    """Dataclasses and named tuples that a value holds, itself included."""
    names = names_of(type(value))
    values = vars(value).values() if hasattr(value, "fit") else ()
    if names is not None:
        values = [getattr(value, name) for name in names]
    found = set() if names is None else {type(value)}
    return found.union(*(parts_of(inner) for inner in values))


def test_the_table_describes_what_models_hold():
    """A new field of a dataclass, or a new attribute, that no one described is found here."""
    for kind, entries in FIELDS.items():
        if names_of(kind) is not None:
            assert entries.keys() == names_of(kind), kind
    held = set()
    for clf in models_of_all_kinds():
        names = vars(clf).keys() - clf.get_params(deep=False).keys() - {"estimator_", "_given"}
        assert names == FIELDS[type(clf)].keys() - {"feature_names_in_"}, clf
        held |= parts_of(clf)
    assert held == {kind for kind in FIELDS if names_of(kind) is not None}


def test_what_is_not_described_is_not_saved(tmp_path, monkeypatch):
    clf = fitted()
    monkeypatch.delitem(FIELDS[type(clf.draws_)], "info")
    with pytest.raises(ModelFileError, match=r"attribute draws_\.'info' is not one that fit sets"):
        model_file.save(tmp_path / "m.bpm", clf)
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_models_share_are_stored_once(tmp_path):
    X, y = data()
    clf = fitted(X, y, kernel="laplacian", inference="billiard", decision="bayes_point")
    model_file.save(tmp_path / "m.bpm", clf)
    shapes = [
        m["shape"] for m in model_file.describe(tmp_path / "m.bpm")["members"] if "shape" in m
    ]
    assert shapes.count([8, 60]) == 1  # draws
    assert shapes.count([60, 5]) == 1  # support points


# ---------------------------------------------------------------------- what is not saved


class Colour(str):
    __slots__ = ()


COLOURS = np.array([Colour("r"), Colour("g")], dtype=object)


@pytest.mark.parametrize(
    ("clf", "reason"),
    [
        (lambda: fitted(kernel=lambda A, B: A @ B.T + 1), "kernel='<lambda>' is a function"),
        (lambda: LogisticRegression().fit(*data()), "of type LogisticRegression; a model file"),
        (
            lambda: RejectingClassifier(LogisticRegression(), coverage=0.9).fit(*data()),
            "of type LogisticRegression; a model file",
        ),
        (
            lambda: RejectingClassifier(
                fitted(), cv="prefit", coverage=0.9, confidence=lambda _, X: np.arange(len(X))
            ).fit(*data()),
            "confidence= is a function",
        ),
        (
            lambda: RejectingClassifier(
                BayesPointClassifier(**FIXED), cv=StratifiedKFold(2), coverage=0.9
            ).fit(*data()),
            "cv= is a value of type 'StratifiedKFold', which a model file cannot hold",
        ),
        (
            lambda: fitted(data()[0], COLOURS[data()[1]]),
            "classes_ holds a value of type 'Colour'",
        ),
    ],
)  # fmt: skip
def test_refused_with_the_reason(clf, reason, tmp_path):
    with pytest.raises(ModelFileError, match=reason) as caught:
        model_file.save(tmp_path / "m.bpm", clf())
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_unknown_attributes_and_changed_ones_are_not_saved(tmp_path):
    clf = fitted()
    clf.note = "mine"
    with pytest.raises(ModelFileError, match="attribute 'note' is not one that fit sets"):
        model_file.save(tmp_path / "m.bpm", clf)
    clf = fitted()
    clf.support_vectors_ = clf.support_vectors_ + 1
    with pytest.raises(ModelFileError, match="support_vectors_ were changed after fit"):
        model_file.save(tmp_path / "m.bpm", clf)
    clf = fitted(inference="perceptron")
    clf.draws_ = replace(clf.draws_, coef=[-part for part in clf.draws_.coef])
    with pytest.raises(ModelFileError, match="draws_ were changed after fit"):
        model_file.save(tmp_path / "m.bpm", clf)
    clf = fitted()
    clf.tol = "small"
    with pytest.raises(ModelFileError, match="parameters: tol must be a finite number"):
        model_file.save(tmp_path / "m.bpm", clf)
    with pytest.raises(ValueError, match="not fitted"):
        model_file.save(tmp_path / "m.bpm", BayesPointClassifier())
    assert list(tmp_path.iterdir()) == []


def test_notes_must_be_plain(tmp_path):
    clf = fitted()
    for about in ({"x": np.nan}, {1: 2}, {"x": (1, 2)}, [1], {"x": np.ones(2)}):
        with pytest.raises(ModelFileError, match="about must be"):
            model_file.save(tmp_path / "m.bpm", clf, about=about)


# ---------------------------------------------------------------------- size


def test_zeros_that_shrink_too_well_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "FREE_BYTES", 1000)
    monkeypatch.setattr(layout, "MAX_RATIO", 2)
    X, y = data()
    clf = fitted(np.hstack([X, np.zeros((60, 200))]), y, kernel="laplacian")
    model_file.save(tmp_path / "m.bpm", clf)
    clf.trained_ = replace(clf.trained_, held_out=None)  # which files do not hold
    assert_same(clf, model_file.load(tmp_path / "m.bpm").classifier)
    with zipfile.ZipFile(tmp_path / "m.bpm") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_too_large_models_are_refused_before_they_replace_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "MAX_BYTES", 1000)
    with pytest.raises(ModelFileError, match="more than 1000"):
        model_file.save(tmp_path / "m.bpm", fitted())
    assert list(tmp_path.iterdir()) == []


def test_breast_cancer_is_not_large(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    clf = BayesPointClassifier(
        gamma=0.02, softness=0.1, bias=1.0, inference="perceptron", random_state=0
    )
    model_file.save(tmp_path / "m.bpm", clf.fit(X, y))
    # Each row has a hash, and a probability of each class for its label.
    known = len(y) * 8 * (1 + 2)
    assert (tmp_path / "m.bpm").stat().st_size < 1.5 * X.nbytes + known
