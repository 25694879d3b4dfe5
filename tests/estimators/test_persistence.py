"""Fitted classifiers elsewhere: skops, joblib, many threads, forked processes, the command line."""

import hashlib
import io
import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import joblib
import numpy as np
import pytest
from helpers.paths import DATA, ROOT
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.io import model_file
from bayespoint.io.model_file.fields import FIELDS

FIXED = {"gamma": 0.2, "softness": 0.1, "bias": 1.0, "n_draws": 8, "random_state": 0}

# As in docs/guides/model-files.md.
TRUSTED = [
    "bayespoint.estimators.base.Trained",
    "bayespoint.estimators.cell_predictor.CellsPredictor",
    "bayespoint.estimators.classifier.BayesPointClassifier",
    "bayespoint.estimators.importances.Importances",
    "bayespoint.estimators.onion.OnionClassifier",
    "bayespoint.estimators.prediction_sets.PredictionSetClassifier",
    "bayespoint.estimators.predictors.BayesPointPredictor",
    "bayespoint.estimators.predictors.GaussianPredictor",
    "bayespoint.estimators.predictors.SpanVotePredictor",
    "bayespoint.estimators.predictors.SupportPoints",
    "bayespoint.estimators.predictors.VotePredictor",
    "bayespoint.estimators.rejection.RejectingClassifier",
    "bayespoint.estimators.settings.Settings",
    "bayespoint.estimators.shells.Shells",
    "bayespoint.estimators.streams.Batch",
    "bayespoint.estimators.streams.Stream",
    "bayespoint.inference.billiard.method.BallPaths",
    "bayespoint.inference.draws.Draws",
    "bayespoint.inference.ep.cells.method.CellSettings",
    "bayespoint.inference.ep.cells.method.HeldCells",
    "bayespoint.inference.ep.cells.prediction.CellModel",
    "bayespoint.inference.ep.method.HeldSites",
    "bayespoint.inference.ep.origin.Origin",
    "bayespoint.inference.perceptron.ensemble.PerceptronSums",
    "bayespoint.space.kernels.Kernel",
    "bayespoint.space.kernels.Points",
    "bayespoint.space.left_out.Before",
    "bayespoint.space.links.Link",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
]


@cache
def pipeline(method="ep", rejecting=False):
    """A fitted pipeline, and points: to look at, not to change."""
    clf = BayesPointClassifier(inference=method, **FIXED)
    if rejecting:
        clf = RejectingClassifier(clf, coverage=0.9, cv=2)
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    return make_pipeline(StandardScaler(), clf).fit(X, np.array(["a", "b", "c"])[y]), X


def stream():
    """A classifier with rows that wait, and more rows for it."""
    X, y = load_iris(return_X_y=True)
    X, y = X[np.argsort(np.arange(150) % 3)], y[np.argsort(np.arange(150) % 3)]
    clf = BayesPointClassifier(inference="ep", cell_size=20, n_landmarks=5, **FIXED)
    clf.partial_fit(X[:60], y[:60]).partial_fit(X[60:62], y[60:62])
    assert clf.stream_.pending
    return clf, X[62:90], y[62:90]


def assert_goes_on(X, y, clf, *others):
    """All learn the same, from rows that wait as well."""
    for one in (clf, *others):
        assert one.stream_.n_pending == 2
        one.partial_fit(X, y)
        assert np.array_equal(clf.predict_proba(X), one.predict_proba(X))
        assert np.array_equal(clf.log_predictive_, one.log_predictive_, equal_nan=True)


@pytest.mark.filterwarnings("ignore:the billiard")
def test_skops():
    """One test: skops takes seconds to import."""
    skops_io = pytest.importorskip("skops.io")
    for method, rejecting in [("perceptron", False), ("billiard", True), ("ep", False)]:
        clf, X = pipeline(method, rejecting)
        stored = skops_io.dumps(clf)
        assert set(skops_io.get_untrusted_types(data=stored)) <= set(TRUSTED)
        again = skops_io.loads(stored, trusted=TRUSTED)
        assert np.array_equal(clf.predict_proba(X), again.predict_proba(X)), method
        assert np.array_equal(clf.predict(X), again.predict(X)), method
        with pytest.raises(skops_io.exceptions.UntrustedTypesFoundException):
            skops_io.loads(stored, trusted=[])
    clf, X, y = stream()
    again = skops_io.loads(skops_io.dumps(clf), trusted=TRUSTED)
    assert_goes_on(X, y, clf, again)


def test_trusted_types_are_all_that_models_hold():
    assert {f"{kind.__module__}.{kind.__name__}" for kind in FIELDS} <= set(TRUSTED)


def test_the_guide_names_the_same_trusted_types():
    page = ROOT / "docs" / "guides" / "model-files.md"
    if not page.is_file():
        pytest.skip("docs are not here: not a checkout")
    text = page.read_text(encoding="utf-8")
    assert all(f'"{name}"' in text for name in TRUSTED)


@pytest.mark.parametrize("method", ["perceptron", "ep"])
def test_joblib(method):
    clf, X = pipeline(method)
    buffer = io.BytesIO()
    joblib.dump(clf, buffer)
    buffer.seek(0)
    assert np.array_equal(joblib.load(buffer).predict_proba(X), clf.predict_proba(X))


def test_streams_go_on_after_joblib_and_pickle():
    clf, X, y = stream()
    buffer = io.BytesIO()
    joblib.dump(clf, buffer)
    buffer.seek(0)
    assert_goes_on(X, y, clf, pickle.loads(pickle.dumps(clf)), joblib.load(buffer))


@pytest.mark.parametrize("path", sorted(DATA.glob("model-v1-*.bpm")), ids=lambda path: path.stem)
# Python from 3.12 on warns of forks beside threads.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_threads_and_forks_agree_with_one_thread(path):
    clf = model_file.load(path).classifier
    X = load_iris().data[::3]
    expected = clf.predict_proba(X).tobytes()
    for n_jobs in (None, 2):
        getattr(clf, "estimator_", clf).n_jobs = n_jobs
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: clf.predict_proba(X).tobytes(), range(8)))
        assert set(found) == {expected}
        if hasattr(os, "fork"):
            assert forked(lambda: clf.predict_proba(X)) == hashlib.sha256(expected).digest()


def forked(work):
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(send, hashlib.sha256(work().tobytes()).digest())
        finally:
            os._exit(0)
    os.close(send)
    with open(receive, "rb") as stream:
        digest = stream.read()
    os.waitpid(pid, 0)
    return digest


# ---------------------------------------------------------------------- info and export


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    X, y = load_iris(return_X_y=True)
    path = tmp_path_factory.mktemp("trained") / "m.bpm"
    model_file.save(
        path, BayesPointClassifier(**FIXED).fit(X, y), about={"ti\x1b[31mtle": "\u202e"}
    )
    return path


def test_info_says_that_training_rows_are_inside(trained, capsys):
    info = pytest.importorskip("bayespoint.cli.info")
    info.run_info(trained)
    printed = capsys.readouterr().out
    assert "Training rows are inside: 149 of 150" in printed
    assert "\x1b[31m" not in printed
    assert "\u202e" not in printed
    info.run_info(trained, json=True)
    assert json.loads(capsys.readouterr().out)["training_rows_inside"] == 149


def test_info_of_a_bad_file(tmp_path, capsys):
    typer = pytest.importorskip("typer")
    info = pytest.importorskip("bayespoint.cli.info")
    (tmp_path / "m.bpm").write_bytes(b"PK")
    with pytest.raises(typer.Exit) as caught:
        info.run_info(tmp_path / "m.bpm")
    assert caught.value.exit_code == 1
    assert "not a bayespoint model file" in capsys.readouterr().err


def test_export_to_skops(trained, tmp_path, capsys):
    skops_io = pytest.importorskip("skops.io")
    export = pytest.importorskip("bayespoint.cli.export")
    export.run_export(trained, tmp_path / "m.skops")
    assert "training rows are inside" in capsys.readouterr().out
    X, _ = load_iris(return_X_y=True)
    again = skops_io.load(tmp_path / "m.skops", trusted=TRUSTED)
    expected = model_file.load(trained).classifier.predict_proba(X)
    assert np.array_equal(again.predict_proba(X), expected)


def test_export_to_onnx(trained, tmp_path):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    export = pytest.importorskip("bayespoint.cli.export")
    export.run_export(trained, tmp_path / "m.onnx")
    X, _ = load_iris(return_X_y=True)
    session = runtime.InferenceSession(
        str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]
    )  # fmt: skip
    found = session.run(["probabilities"], {"X": X.astype(np.float32)})[0]
    expected = model_file.load(trained).classifier.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_export_by_suffix(trained, tmp_path, capsys):
    typer = pytest.importorskip("typer")
    export = pytest.importorskip("bayespoint.cli.export")
    with pytest.raises(typer.Exit) as caught:
        export.run_export(trained, tmp_path / "m.txt")
    assert caught.value.exit_code == 2
    assert "must end in .onnx or .skops" in capsys.readouterr().err
    assert not (tmp_path / "m.txt").exists()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_size_follows_the_data_and_copies_agree_to_the_bit(n_classes):
    """Neither m × m matrices nor draws are in a copy, which makes them again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 20))
    y = np.digitize(X[:, 0], [0.0] if n_classes == 2 else [-0.5, 0.5])
    clf = BayesPointClassifier(inference="ep", **FIXED).fit(X, y)
    before = vars(clf.predictor_).copy()
    stored = pickle.dumps(clf)
    assert len(stored) < 5 * X.nbytes  # one matrix alone is 12 times as large
    again, new = pickle.loads(stored), rng.normal(size=(30, 20))
    for ask in (
        lambda c: c.predict_proba(new),
        lambda c: c.sample_proba(new, 5, random_state=0),
        lambda c: c.posterior(0).coef,
        lambda c: c.posterior(0).bayes_point(),
    ):
        np.testing.assert_array_equal(ask(again), ask(clf))
    assert len(pickle.dumps(again)) < 5 * X.nbytes  # what was made is not in the model
    assert all(vars(clf.predictor_)[name] is value for name, value in before.items())
