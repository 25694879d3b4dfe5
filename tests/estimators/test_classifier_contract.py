"""What the interface promises beyond its numbers: types, weights, copies, threads."""

import copy
import inspect
import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED, unusual
from sklearn.base import clone
from sklearn.datasets import load_iris
from threadpoolctl import ThreadpoolController

from bayespoint import BayesPointClassifier

SIGNATURE = {
    "kernel": "rbf", "gamma": "held-out", "degree": 3, "coef0": 1.0, "normalize_kernel": True,
    "bias": "auto", "inference": "auto", "n_draws": 100, "softness": "held-out", "label_noise": 0.0,
    "decision": "auto", "class_weight": None, "cache_size": 2000, "max_time": None, "tol": 1e-3,
    "warm_start": False, "device": "cpu", "n_jobs": None, "random_state": None, "verbose": 0,
}  # fmt: skip


def by_default(**settings):
    return BayesPointClassifier(**{"n_draws": 5, "random_state": 0, **settings})


def perceptrons(**settings):
    return by_default(**{"inference": "perceptron", **FIXED, **settings})


@pytest.fixture(params=[by_default, perceptrons], ids=["defaults", "perceptrons"])
def classifier(request):
    return request.param


@pytest.fixture(scope="module")
def iris():
    """Every second flower."""
    return tuple(part[::2] for part in load_iris(return_X_y=True))


def test_signature():
    parameters = inspect.signature(BayesPointClassifier).parameters
    assert {name: p.default for name, p in parameters.items()} == SIGNATURE
    assert list(parameters) == list(SIGNATURE)
    kinds = [p.kind for p in parameters.values()]
    assert kinds[0] is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert set(kinds[1:]) == {inspect.Parameter.KEYWORD_ONLY}
    assert list(inspect.signature(BayesPointClassifier.fit).parameters)[1:] == [
        "X", "y", "sample_weight",
    ]  # fmt: skip
    sample = inspect.signature(BayesPointClassifier.sample_proba).parameters
    assert (sample["n_samples"].default, sample["random_state"].default) == (10, None)


def test_fitted_attributes(iris):
    clf = by_default(softness=0.3).fit(*iris)
    assert clf.inference_ == "ep"
    assert "few points" in clf.inference_reason_
    assert (clf.softness_, clf.bias_, clf.label_noise_, clf.n_draws_) == (0.3, 0.0, 0.0, 5)
    assert clf.dual_coef_.shape == (3, len(clf.support_))
    assert clf.n_features_in_ == 4
    chosen = by_default().fit(*iris)
    for value in (chosen.gamma_, chosen.bias_, chosen.softness_):
        assert isinstance(value, float)
    assert chosen.gamma_ > 0
    assert chosen.softness_ > 0
    assert np.isfinite(chosen.log_evidence_)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "poly"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bias_of_each_kernel(iris, kernel, n_classes):
    X, y = (part[iris[1] < n_classes] for part in iris)
    settings = {"kernel": kernel, "gamma": "scale", "softness": 0.3}
    without = n_classes > 2 and kernel in ("rbf", "laplacian")
    clf = by_default(**settings).fit(X, y)
    assert clf.bias_ == (0.0 if without else 1.0)
    by_number = by_default(**settings, bias=clf.bias_).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), by_number.predict_proba(X))
    assert by_default(**settings, bias=2.5).fit(X, y).bias_ == 2.5


def test_perceptrons_of_fixed_settings(iris):
    clf = perceptrons().fit(*iris)
    assert (clf.inference_, clf.inference_reason_) == ("perceptron", "asked for")
    assert (clf.softness_, clf.bias_, clf.label_noise_, clf.n_draws_) == (0.1, 1.0, 0.0, 5)
    assert not hasattr(clf, "log_evidence_")


LABELS = {
    "str": np.array(["no", "maybe", "yes"]),
    "bool": np.array([False, True]),
    "float": np.array([0.0, 2.0, 7.0]),
    "object": np.array(["b", "a", "c"], dtype=object),
    "negative": np.array([-5, -1, 3]),
    "int8": np.array([-1, 1], dtype=np.int8),
}


@pytest.mark.parametrize("names", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("container", [np.asarray, list, pd.Series, pd.Categorical])
def test_labels_of_any_type(classifier, iris, names, container):
    X, code = (part[iris[1] < len(names)][::2] for part in iris)
    y = names[code]
    clf = classifier().fit(X, container(y))
    np.testing.assert_array_equal(clf.classes_, np.unique(names))
    assert np.mean(clf.predict(X) == y) > 0.9
    assert clf.score(X, y) > 0.9
    weighted = classifier(class_weight={names.tolist()[0]: 1e12}).fit(X, container(y))
    assert np.all(weighted.predict(X) == names[0])


def test_data_frames_and_feature_names(classifier, iris):
    X, y = iris
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    clf = classifier().fit(frame, pd.Series(y))
    np.testing.assert_array_equal(clf.feature_names_in_, names)
    np.testing.assert_array_equal(clf.predict(frame), classifier().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c", "d"]])


def as_memmap(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def test_arrays_of_any_layout(classifier, iris, tmp_path):
    X, y = np.round(iris[0] * 10), iris[1]
    expected = classifier().fit(X, y).decision_function(X)
    inputs = [
        X.astype(np.int8), np.asfortranarray(X), read_only(X), as_memmap(X, tmp_path),
        X[::-1][::-1], X.tolist(), X.astype(object), X.astype(">f8"),
        sp.csr_matrix(X), sp.csc_matrix(X), sp.coo_matrix(X), sp.csr_array(X),
    ]  # fmt: skip
    for one in inputs:
        before = copy.deepcopy(one)
        clf = classifier().fit(one, read_only(y))
        np.testing.assert_allclose(clf.decision_function(one), expected, atol=1e-8)
        np.testing.assert_array_equal(_dense(one), _dense(before))  # left as it was


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_weights_are_copies(classifier, iris, decision):
    X, y = iris
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, size=len(y))
    order = rng.permutation(weight.sum())
    copies = np.repeat(np.arange(len(y)), weight)
    settings = {"decision": decision, "class_weight": "balanced"}
    weighted = classifier(**settings).fit(X, y, sample_weight=weight)
    repeated = classifier(**settings).fit(X[copies][order], y[copies][order])
    dropped = classifier(**settings).fit(X[weight > 0], y[weight > 0], weight[weight > 0])
    for other in (repeated, dropped):
        assert other.gamma_ == pytest.approx(weighted.gamma_, rel=1e-12)
        np.testing.assert_allclose(weighted.dual_coef_, other.dual_coef_, atol=1e-10)
        np.testing.assert_allclose(weighted.predict_proba(X), other.predict_proba(X), atol=1e-9)
    assert not set(weighted.support_) & set(np.flatnonzero(weight == 0))


def test_weights_may_be_small(classifier):
    """As those that sum to one, which AdaBoost gives."""
    X, y = load_iris(return_X_y=True)
    for weight in (np.full(len(y), 1 / len(y)), np.random.default_rng(0).random(len(y)) * 1e-4):
        clf = classifier().fit(X, y, sample_weight=weight)
        assert np.all(np.isfinite(clf.predict_proba(X)))
        assert clf.score(X, y) > 0.85


def test_order_of_rows_changes_nothing(classifier, iris):
    X, y = iris
    order = np.random.default_rng(0).permutation(len(y))
    one, other = classifier().fit(X, y), classifier().fit(X[order], y[order])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-12)
    np.testing.assert_array_equal(X[one.support_], X[order][other.support_])


def test_rows_of_weight_0_do_not_count_at_all(classifier, iris):
    X, y = iris
    clf = classifier().fit(X, y, sample_weight=y != 1)
    np.testing.assert_array_equal(clf.classes_, [0, 2])
    assert clf.decision_function(X).shape == (len(X),)
    wild = np.vstack([X, [[1e9, 0, 0, 0]]])  # would be a warning about scales
    weight = np.append(np.ones(len(y)), 0)
    other = classifier().fit(wild, np.append(y, 7), sample_weight=weight)
    np.testing.assert_array_equal(other.dual_coef_, classifier().fit(X, y).dual_coef_)


def test_precomputed_rows_of_weight_0(classifier, iris):
    X, y = iris
    K, weight = (X - X.mean(0)) @ (X - X.mean(0)).T, (np.arange(len(y)) % 3 > 0)
    clf = classifier(kernel="precomputed").fit(K, y, sample_weight=weight)
    other = classifier(kernel="precomputed").fit(K[np.ix_(weight, weight)], y[weight])
    np.testing.assert_allclose(
        clf.decision_function(K), other.decision_function(K[:, weight]), atol=1e-12
    )


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_fitted_objects_are_plain_and_travel(classifier, iris, decision, layout):
    X, y = layout(iris[0]), iris[1].astype(str).astype(object)
    clf = classifier(decision=decision, class_weight="balanced").fit(X, y)
    assert not unusual(vars(clf), "clf")
    stored = io.BytesIO()
    joblib.dump(clf, stored)
    stored.seek(0)
    copies = [pickle.loads(pickle.dumps(clf)), joblib.load(stored), copy.deepcopy(clf)]
    for one in copies:
        np.testing.assert_array_equal(one.predict_proba(X), clf.predict_proba(X))
    again = clone(clf)
    assert not any(name.endswith("_") for name in vars(again))
    np.testing.assert_array_equal(again.fit(X, y).dual_coef_, clf.dual_coef_)


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_predicting_changes_nothing_and_threads_may_share(classifier, iris, decision):
    X, y = iris
    clf = classifier(decision=decision, n_jobs=2).fit(X, y)
    before = joblib.hash(vars(clf))

    def answers(_):
        return clf.predict_proba(X), clf.decision_function(X), clf.sample_proba(X, 3, 0)

    expected = answers(0)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(answers, range(12)):
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, other)
    clf.predict(X), clf.score(X, y), clf.posterior(0), clf.sample_proba(X)
    if decision == "bayes_point":
        clf.compress()
    assert joblib.hash(vars(clf)) == before


def test_overlapping_predictions_leave_blas_threads_as_they_were(classifier, iris):
    pools = ThreadpoolController().select(user_api="blas")
    if all(one["num_threads"] == 1 for one in pools.info()):
        pytest.skip("BLAS has one thread only")
    second_started, first_ended = threading.Event(), threading.Event()

    def kernel(A, B):
        name = threading.current_thread().name
        if name == "first" and len(A) != len(B):  # a block of rows, not k(x, x)
            second_started.wait(30)
        if name == "second" and len(A) != len(B):
            second_started.set()
            first_ended.wait(30)
        return A @ B.T

    X, y = iris
    clf = classifier(kernel=kernel, n_jobs=1).fit(X, y)
    before = pools.info()
    threads = [
        threading.Thread(target=clf.predict, args=(X[:5],), name=name)
        for name in ("first", "second")
    ]
    for thread in threads:
        thread.start()
    threads[0].join(30)
    first_ended.set()
    threads[1].join(30)
    assert pools.info() == before


def test_draws_one_by_one(classifier, iris):
    X, y = iris
    clf = classifier(n_draws=6).fit(X, y)
    p = clf.sample_proba(X[:7], n_samples=4, random_state=1)
    assert p.shape == (4, 7, 3)
    np.testing.assert_allclose(p.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_array_equal(p, clf.sample_proba(X[:7], n_samples=4, random_state=1))
    assert clf.sample_proba(X[:7], 20, 0).shape == (20, 7, 3)  # more than it holds
    assert len(np.unique(clf.sample_proba(X[:7], 6, 0), axis=0)) == 6  # without replacement
    binary = classifier().fit(X[:50], y[:50])  # the first two kinds
    assert binary.sample_proba(X[:7]).shape == (10, 7, 2)
    posterior = binary.posterior(0)
    assert posterior.coef.shape == (5, 50)
    assert (posterior.n_chains, posterior.weights) == (1, None)


def test_progress_goes_to_standard_error(classifier, iris, capfd):
    classifier().fit(*iris)
    assert capfd.readouterr() == ("", "")
    classifier(verbose=1).fit(*iris)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "bayespoint" in shown.err
