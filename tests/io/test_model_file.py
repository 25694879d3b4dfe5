"""Model files: what is saved is loaded equal to the bit, what cannot be is refused."""

import errno
import io
import json
import os
import pickle
import stat
import zipfile
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.models import FIXED, assert_same, data, fitted
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.inference import engines
from bayespoint.io import model_file
from bayespoint.io.encoder import TableEncoder
from bayespoint.io.model_file import ModelFileError, files, layout
from bayespoint.io.model_file.fields import FIELDS
from bayespoint.io.tables import Table

METHODS = ("perceptron", "billiard", "gibbs", "ep")


def saved_and_loaded(clf, path, **others):
    model_file.save(path, clf, **others)
    return model_file.load(path).classifier


def assert_same_answers(clf, again, X):
    assert_same(clf.predict(X), again.predict(X))
    assert_same(clf.predict_proba(X), again.predict_proba(X))
    assert_same(clf.decision_function(X), again.decision_function(X))
    assert_same(clf.sample_proba(X, 5, 0), again.sample_proba(X, 5, 0))
    for i in range(len(clf.dual_coef_)):
        one, other = clf.posterior(i), again.posterior(i)
        assert_same(one.bayes_point(), other.bayes_point())
        assert_same(vars(one), vars(other), "posterior")
    if hasattr(clf, "label_error_proba_"):
        assert_same(clf.label_error_proba_, again.label_error_proba_)
    assert again.predictor_.committee is again.draws_.coef


# ---------------------------------------------------------------------- there and back


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_classifier_is_equal_to_the_bit(method, n_classes, tmp_path):
    X, y = data(n_classes)
    noise = 0.0 if method == "perceptron" else 0.05
    clf = fitted(X, y, inference=method, label_noise=noise)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same(clf, pickle.loads(pickle.dumps(again)))
    assert_same_answers(clf, again, X + 0.1)


@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_classifier_fits_on(method, tmp_path):
    X, y = data()
    clf = fitted(X, y, inference=method, warm_start=True)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    for one in (clf, again):
        one.set_params(n_draws=16).fit(X, y)
        one.draws_.info.pop("flight_seconds", None)
    assert_same(clf, again)


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2},
        {"kernel": "laplacian"},
        {"normalize_kernel": False, "bias": 0.5},
        {"decision": "bayes_point", "inference": "billiard"},
        {"decision": "span_vote", "inference": "billiard"},
        {"class_weight": {0: 2.0, 1: 1.0}, "label_noise": {0: 0.1}},
        {"class_weight": "balanced", "label_noise": np.array([0.1, 0.0])},
        {"random_state": np.random.RandomState(3)},
        {"gamma": np.float32(0.25), "n_draws": np.int64(6)},
        {"gamma": "held-out", "softness": "held-out", "inference": "auto"},
        {"gamma": "evidence", "softness": "evidence", "label_noise": "evidence"},
        {"max_time": 1e-4, "inference": "perceptron"},
    ],
    ids=lambda params: "-".join(params),
)
@pytest.mark.filterwarnings("ignore")
def test_other_settings(params, tmp_path):
    X, y = data()
    clf = fitted(X, y, **params)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same_answers(clf, again, X + 0.1)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_sparse_training_data(kind, kernel, tmp_path):
    X, y = data()
    X = kind(np.where(np.abs(X) > 1, X, 0))
    clf = fitted(X, y, kernel=kernel, inference="perceptron")
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same_answers(clf, again, X)


def test_dense_points_that_the_kernel_takes_as_sparse(tmp_path):
    X, y = data()
    X = np.where(np.abs(X) > 1.5, X, 0).astype(np.float32)
    clf = fitted(X, y)
    assert clf.predictor_.support.kernel.layout == "sparse"
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same_answers(clf, again, X)


@pytest.mark.filterwarnings("ignore:features are on")
def test_float32_points_taken_to_double(tmp_path):
    X, y = data()
    X = X.astype(np.float32) * 200
    clf = fitted(X, y)
    assert clf.predictor_.support.kernel.layout.endswith("double")
    assert_same(clf, saved_and_loaded(clf, tmp_path / "m.bpm"))


@pytest.mark.parametrize("method", ["perceptron", "billiard"])
def test_fitted_on_a_gpu(method, tmp_path, monkeypatch):
    """The CPU stands in for it."""
    cpu = pytest.importorskip("torch").device("cpu")
    monkeypatch.setattr(engines, "torch_device", lambda device: None if device == "cpu" else cpu)
    X, y = data()
    clf = fitted(X.astype(np.float32), y, inference=method, device="cuda")
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert again.device_ == "cuda"
    assert_same(clf, again)
    assert_same_answers(clf, again, X)


@pytest.mark.parametrize("method", ["perceptron", "ep"])
def test_precomputed_kernel(method, tmp_path):
    X, y = data()
    K = X @ X.T + 1
    clf = fitted(K, y, kernel="precomputed", inference=method)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same_answers(clf, again, K[:7])
    assert model_file.describe(tmp_path / "m.bpm")["training_rows_inside"] == 0


def test_names_of_features_and_weights_of_zero(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=["a", "b", "ç", "d\n", "\u202e"])
    clf = BayesPointClassifier(**FIXED).fit(frame, y, sample_weight=np.arange(len(y)) % 3)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same_answers(clf, again, frame)
    assert np.isnan(again.label_error_proba_).any()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]), np.array(["näh", "doch 語"], dtype=object),
        np.array([False, True]), np.array(["", " "]),
        np.array([3, 2**40]), np.array([3, 7], dtype=np.uint8), np.array([3, 7], dtype=">i4"),
        np.array([1.0, 2.0]),
    ],
    ids=repr,
)  # fmt: skip
def test_labels_keep_type_and_value(labels, tmp_path):
    X, y = data()
    clf = fitted(X, labels[y])
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same(clf.predict(X), again.predict(X))


def test_onion(tmp_path):
    X, y = data()
    clf = OnionClassifier(depth=2, n_draws=200, random_state=0).fit(X, y)
    for one in (clf, clf.with_shells((0, 1)), clf.compress(0.1)):
        again = saved_and_loaded(one, tmp_path / "m.bpm")
        assert_same(one, again)
        assert_same(one.predict_proba(X), again.predict_proba(X))
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf.with_shells("best"), again.with_shells("best"))
    assert_same(clf.error_table(X, y), again.error_table(X, y))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_compressed(n_classes, tmp_path):
    X, y = data(n_classes)
    small = fitted(X, y, inference="perceptron").compress(0.2)
    again = saved_and_loaded(small, tmp_path / "m.bpm")
    assert_same(small, again)
    assert_same(small.decision_function(X), again.decision_function(X))


@pytest.mark.parametrize("params", [{"coverage": 0.8}, {"max_risk": 0.4, "reject_label": -1}, {}])
@pytest.mark.filterwarnings("ignore")
def test_rejecting(params, tmp_path):
    X, y = data(3)
    clf = RejectingClassifier(BayesPointClassifier(**FIXED), cv=2, **params).fit(X, y)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
    assert_same(clf.predict(X), again.predict(X))
    assert_same(clf.reject(X), again.reject(X))


def test_a_classifier_fitted_before_it_was_wrapped_is_stored_once(tmp_path):
    X, y = data(n=120)
    clf = fitted(X[:60], y[:60])
    wrapped = RejectingClassifier(clf, cv="prefit", coverage=0.8).fit(X[60:], y[60:])
    again = saved_and_loaded(wrapped, tmp_path / "m.bpm")
    assert_same(wrapped, again)
    assert again.estimator is again.estimator_
    model_file.save(tmp_path / "one.bpm", clf)
    assert (tmp_path / "m.bpm").stat().st_size < 1.1 * (tmp_path / "one.bpm").stat().st_size


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
    X, y = load_iris(return_X_y=True)
    clf = RejectingClassifier(BayesPointClassifier(**FIXED), coverage=0.9, cv=2).fit(X, y)
    model_file.save(tmp_path / "m.bpm", clf, about={"title": "irises"})
    found = model_file.describe(tmp_path / "m.bpm")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["schema"] == 1
    assert found["training_rows"] == 150
    assert found["training_rows_inside"] == 149  # two are equal
    assert found["class"] == "BayesPointClassifier"
    assert found["rejection"]["coverage"] == 0.9
    assert found["about"] == {"title": "irises"}
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
    return [*(fitted(inference=method) for method in METHODS), *decisions, onion, rejecting]


def parts_of(value):
    """Dataclasses that a value holds, itself included."""
    values = vars(value).values() if is_dataclass(value) or hasattr(value, "fit") else ()
    found = {type(value)} if is_dataclass(value) else set()
    return found.union(*(parts_of(inner) for inner in values))


def test_the_table_describes_what_models_hold():
    """A new field of a dataclass, or a new attribute, that no one described is found here."""
    for kind, entries in FIELDS.items():
        if is_dataclass(kind):
            assert entries.keys() == {field.name for field in fields(kind)}, kind
    held = set()
    for clf in models_of_all_kinds():
        names = vars(clf).keys() - clf.get_params(deep=False).keys() - {"estimator_"}
        assert names == FIELDS[type(clf)].keys() - {"feature_names_in_"}, clf
        held |= parts_of(clf)
    assert held == {kind for kind in FIELDS if is_dataclass(kind)}


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
    clf = fitted()
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


@pytest.mark.parametrize("about", [{"x": np.nan}, {1: 2}, {"x": (1, 2)}, [1], {"x": np.ones(2)}])
def test_notes_must_be_plain(about, tmp_path):
    with pytest.raises(ModelFileError, match="about must be"):
        model_file.save(tmp_path / "m.bpm", fitted(), about=about)


# ---------------------------------------------------------------------- writing


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.bpm"
    model_file.save(path, fitted())
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        model_file.save(path, fitted(gamma=1.0))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.bpm"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_links_are_followed_and_folders_refused(tmp_path):
    (tmp_path / "link.bpm").symlink_to(tmp_path / "real.bpm")
    model_file.save(tmp_path / "link.bpm", fitted())
    assert (tmp_path / "link.bpm").is_symlink()
    assert (tmp_path / "real.bpm").is_file()
    (tmp_path / "folder").mkdir()
    for act in (lambda p: model_file.save(p, fitted()), model_file.load):
        with pytest.raises(ModelFileError, match="not a plain file"):
            act(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        model_file.save(tmp_path / "nowhere" / "m.bpm", fitted())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_only_plain_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "pipe", tmp_path / "folder", Path(os.devnull)):
        with pytest.raises(ModelFileError, match="not a plain file; give another name"):
            model_file.save(target, fitted())
        refused = pytest.raises(FileExistsError, match="not a plain file; give another name")
        with refused as caught, files.replacing(target) as stream:
            stream.write(b"x")
        assert caught.value.filename == str(target)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


@pytest.mark.skipif(os.name == "nt", reason="rights")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_that_is_replaced_keeps_its_rights(mode, tmp_path):
    path = tmp_path / "m.bpm"
    path.write_bytes(b"old")
    path.chmod(mode)
    with files.replacing(path) as stream:
        assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == mode
        stream.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name == "nt", reason="rights")
def test_a_new_file_has_the_rights_of_any_other(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    with files.replacing(tmp_path / "m.bpm") as stream:
        stream.write(b"new")
    assert (tmp_path / "m.bpm").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("letters", ["語" * 83, "ü" * 125 + "a", "a" * 251])
def test_long_names(letters, tmp_path):
    path = tmp_path / f"{letters}.bpm"
    with files.replacing(path) as stream:
        (temporary,) = tmp_path.iterdir()
        assert temporary.name.startswith(f".{letters[:20]}")
        stream.write(b"new")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="folders are not opened")
@pytest.mark.parametrize("code", ["EINVAL", "EACCES", "ENOTSUP", "EIO"])
def test_folders_that_cannot_be_brought_to_the_disk(code, tmp_path, monkeypatch):
    name = "open" if code == "EACCES" else "fsync"
    known = getattr(os, name)

    def no(target, *rest):
        if os.path.isdir(target):
            raise OSError(getattr(errno, code), code)
        return known(target, *rest)

    (tmp_path / "m.bpm").write_bytes(b"old")
    monkeypatch.setattr(files.os, name, no)
    refused = pytest.raises(OSError, match="EIO") if code == "EIO" else nullcontext()
    with refused, files.replacing(tmp_path / "m.bpm") as stream:
        stream.write(b"new")
    assert (tmp_path / "m.bpm").read_bytes() == b"new"  # it has its name already


def test_zeros_that_shrink_too_well_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "FREE_BYTES", 1000)
    monkeypatch.setattr(layout, "MAX_RATIO", 2)
    X, y = data()
    clf = fitted(np.hstack([X, np.zeros((60, 200))]), y, kernel="laplacian")
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf, again)
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
    clf = BayesPointClassifier(gamma=0.02, softness=0.1, inference="perceptron", random_state=0)
    model_file.save(tmp_path / "m.bpm", clf.fit(X, y))
    assert (tmp_path / "m.bpm").stat().st_size < 1.5 * X.nbytes
