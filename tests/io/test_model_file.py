"""Model files: what is saved is loaded equal to the bit, predicts the same, and fits on."""

import pickle
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.models import FIXED, assert_same, data, fitted
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespoint import BayesPointClassifier, OnionClassifier, RejectingClassifier
from bayespoint.cli.fitted import facts_of
from bayespoint.io import model_file


def saved_and_loaded(clf, path, **others):
    model_file.save(path, clf, **others)
    return model_file.load(path).classifier


def as_stored(clf):
    """Copy of a classifier without what files do not hold: what its fit said of rows left out."""
    clf = copy(clf)
    if isinstance(clf, RejectingClassifier):
        inner = as_stored(clf.estimator_)
        clf.estimator = inner if clf.estimator is clf.estimator_ else clf.estimator
        clf.estimator_ = inner
    else:
        clf.trained_ = replace(clf.trained_, held_out=None)
    return clf


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
    assert again.predictor_.committee is (again.draws_.coef or None)


@pytest.mark.parametrize(
    ("method", "n_classes"),
    [("perceptron", 3), ("billiard", 2), ("gibbs", 3), ("ep", 2), ("ep", 3)],
)
def test_a_loaded_classifier_is_equal_to_the_bit_and_fits_on(method, n_classes, tmp_path):
    X, y = data(n_classes)
    noise = 0.0 if method == "perceptron" else 0.05
    clf = fitted(X, y, inference=method, label_noise=noise, warm_start=True)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same(as_stored(clf), pickle.loads(pickle.dumps(again)))
    assert_same_answers(clf, again, X + 0.1)
    before = clf.dual_coef_.copy()
    for one in (clf, again):
        one.set_params(n_draws=16).fit(X, y)
        one.draws_.info.pop("flight_seconds", None)
    assert_same(clf, again)  # what they say of rows left out, too
    if method != "ep":  # which has nothing to go on with
        assert not np.array_equal(clf.dual_coef_, before)


@pytest.mark.parametrize("method", ["perceptron", "ep"])
def test_what_the_fit_said_of_rows_left_out_is_not_stored(method, tmp_path):
    X, y = data()
    clf = fitted(X, y, inference=method, n_draws=20)
    assert clf.held_out_proba_.shape == (60, 2)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert clf.trained_.held_out is not None  # saving changes nothing
    assert again.trained_.held_out is None
    with pytest.raises(AttributeError, match="in model files saved with held_out=True"):
        again.held_out_proba_  # noqa: B018
    asked = saved_and_loaded(clf, tmp_path / "n.bpm", held_out=True)
    assert_array_equal(asked.held_out_proba_, clf.held_out_proba_)


def test_an_evidence_that_is_no_number_is_stored(tmp_path):
    """As where the sites of EP are far from converged: the model can be used all the same."""
    clf = fitted(inference="ep")
    clf.settings_ = replace(clf.settings_, log_evidence=np.nan)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert np.isnan(again.log_evidence_)
    assert "log_evidence" not in facts_of(again)  # which JSON could not hold


def test_a_pipeline_that_rejects_is_refused_with_a_reason(tmp_path):
    X, y = data()
    inner = make_pipeline(StandardScaler(), BayesPointClassifier(**FIXED))
    clf = RejectingClassifier(inner, coverage=0.9).fit(X, y)
    with pytest.raises(model_file.ModelFileError, match="For pipelines"):
        model_file.save(tmp_path / "m.bpm", clf)


SETTINGS = [
    {"kernel": "linear", "normalize_kernel": False, "bias": 0.5},
    {"kernel": "poly", "degree": 2, "random_state": np.random.RandomState(3)},
    {"kernel": "laplacian", "decision": "bayes_point", "inference": "billiard"},
    {"decision": "span_vote", "inference": "billiard", "n_draws": np.int64(6)},
    {"class_weight": {0: 2.0, 1: 1.0}, "label_noise": {0: 0.1}, "gamma": np.float32(0.25)},
    {"class_weight": "balanced", "label_noise": np.array([0.1, 0.0])},
    {"gamma": "held-out", "softness": "held-out", "bias": "auto", "inference": "auto"},
    {"gamma": "evidence", "softness": "evidence", "label_noise": "evidence"},
]


@pytest.mark.parametrize("params", SETTINGS, ids=lambda params: "-".join(params))
@pytest.mark.filterwarnings("ignore")
def test_other_settings(params, tmp_path):
    X, y = data(n=40)
    clf = fitted(X, y, **params)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, X + 0.1)


def test_a_fit_that_time_cut_short(tmp_path, clock):
    clock.step = 0.25
    X, y = data()
    clf = fitted(X, y, max_time=1.0, inference="perceptron", n_draws=10_000)
    assert clf.n_draws_ < 10_000
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, X)


@pytest.mark.parametrize(("kind", "kernel"), [(sp.csr_matrix, "laplacian"), (sp.csr_array, "rbf")])
def test_sparse_training_data(kind, kernel, tmp_path):
    X, y = data()
    X = kind(np.where(np.abs(X) > 1, X, 0))
    clf = fitted(X, y, kernel=kernel, inference="perceptron")
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, X)


def test_dense_points_that_the_kernel_takes_as_sparse(tmp_path):
    X, y = data()
    X = np.where(np.abs(X) > 1.5, X, 0).astype(np.float32)
    clf = fitted(X, y)
    assert clf.predictor_.support.kernel.layout == "sparse"
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, X)


@pytest.mark.filterwarnings("ignore:features are on")
def test_float32_points_taken_to_double(tmp_path):
    X, y = data()
    X = X.astype(np.float32) * 200
    clf = fitted(X, y)
    assert clf.predictor_.support.kernel.layout.endswith("double")
    assert_same(as_stored(clf), saved_and_loaded(clf, tmp_path / "m.bpm"))


@pytest.mark.parametrize("method", ["perceptron", "billiard"])
def test_fitted_on_a_gpu(method, tmp_path, monkeypatch):
    """The CPU stands in for it."""
    pytest.importorskip("torch")
    from helpers.stand_in import CPU, let_cuda_be

    let_cuda_be(monkeypatch, CPU)
    X, y = data()
    clf = fitted(X.astype(np.float32), y, inference=method, device="cuda")
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert again.device_ == "cuda"
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, X)


@pytest.mark.parametrize("method", ["perceptron", "ep"])
def test_precomputed_kernel(method, tmp_path):
    X, y = data()
    K = X @ X.T + 1
    clf = fitted(K, y, kernel="precomputed", inference=method)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, K[:7])
    assert model_file.describe(tmp_path / "m.bpm")["training_rows_inside"] == 0


def test_names_of_features_and_weights_of_zero(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=["a", "b", "ç", "d\n", "\u202e"])
    clf = BayesPointClassifier(**FIXED).fit(frame, y, sample_weight=np.arange(len(y)) % 3)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same_answers(clf, again, frame)
    assert np.isnan(again.label_error_proba_).any()


LABELS = [
    np.array(["no", "yes"]), np.array(["näh", "doch 語"], dtype=object),
    np.array([False, True]), np.array(["", " "]),
    np.array([3, 2**40]), np.array([3, 7], dtype=np.uint8), np.array([3, 7], dtype=">i4"),
    np.array([1.0, 2.0]),
]  # fmt: skip


def test_labels_keep_type_and_value(tmp_path):
    X, y = data(n=30)
    for labels in LABELS:
        clf = fitted(X, labels[y], inference="perceptron")
        again = saved_and_loaded(clf, tmp_path / "m.bpm")
        assert_same(as_stored(clf), again, repr(labels))
        assert_same(clf.predict(X), again.predict(X), repr(labels))


def test_onion(tmp_path):
    X, y = data()
    clf = OnionClassifier(depth=2, n_draws=100, random_state=0).fit(X, y)
    for one in (clf, clf.with_shells((0, 1)), clf.compress(0.1)):
        again = saved_and_loaded(one, tmp_path / "m.bpm")
        assert_same(one, again)
        assert_same(one.predict_proba(X), again.predict_proba(X))
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(clf.with_shells("best"), again.with_shells("best"))
    assert_same(clf.error_table(X, y), again.error_table(X, y))


def test_compressed(tmp_path):
    X, y = data(3)
    small = fitted(X, y, inference="perceptron").compress(0.2)
    again = saved_and_loaded(small, tmp_path / "m.bpm")
    assert_same(as_stored(small), again)
    assert_same(small.decision_function(X), again.decision_function(X))


@pytest.mark.parametrize(
    "params",
    [
        {"coverage": 0.8}, {"max_risk": 0.4, "reject_label": -1}, {},
        {"coverage": 0.8, "confidence": "vote"}, {"coverage": 0.8, "cv": "auto"},
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_rejecting(params, tmp_path):
    X, y = data(3)
    clf = RejectingClassifier(BayesPointClassifier(**FIXED), **{"cv": 2, **params}).fit(X, y)
    again = saved_and_loaded(clf, tmp_path / "m.bpm")
    assert_same(as_stored(clf), again)
    assert_same(clf.predict(X), again.predict(X))
    assert_same(clf.reject(X), again.reject(X))
    assert again.confidence_ == clf.confidence_


def test_a_classifier_fitted_before_it_was_wrapped_is_stored_once(tmp_path):
    X, y = data(n=120)
    clf = fitted(X[:60], y[:60])
    wrapped = RejectingClassifier(clf, cv="prefit", coverage=0.8).fit(X[60:], y[60:])
    again = saved_and_loaded(wrapped, tmp_path / "m.bpm")
    assert_same(as_stored(wrapped), again)
    assert again.estimator is again.estimator_
    model_file.save(tmp_path / "one.bpm", clf)
    assert (tmp_path / "m.bpm").stat().st_size < 1.1 * (tmp_path / "one.bpm").stat().st_size
