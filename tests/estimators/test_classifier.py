"""What is particular to the classifier and its perceptrons: defaults, settings, threads, rows."""

import inspect
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import by_hand, classifier, flowers, iris, perceptrons, signed_labels
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController, threadpool_limits

from bayespoint import BayesPointClassifier
from bayespoint.estimators.selection import BIASES

SIGNATURE = {
    "kernel": "auto", "gamma": "held-out", "feature_groups": None, "degree": 3, "coef0": 1.0,
    "normalize_kernel": True, "bias": "auto", "inference": "auto", "n_draws": 100,
    "softness": "held-out", "label_noise": 0.0,
    "decision": "auto", "cell_size": "auto", "n_landmarks": "auto", "n_trees": "auto",
    "half_life": None, "class_weight": None, "cache_size": 2000, "max_time": None, "tol": 1e-3,
    "warm_start": False, "device": "cpu", "n_jobs": None, "random_state": None, "verbose": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    """Some hundred, of five kinds."""
    X, y = load_digits(return_X_y=True)
    return X[y < 5][:250], y[y < 5][:250]


def test_signature():
    parameters = inspect.signature(BayesPointClassifier).parameters
    assert {name: p.default for name, p in parameters.items()} == SIGNATURE
    assert list(parameters) == list(SIGNATURE)
    kinds = [p.kind for p in parameters.values()]
    assert kinds[0] is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert set(kinds[1:]) == {inspect.Parameter.KEYWORD_ONLY}
    fit = inspect.signature(BayesPointClassifier.fit).parameters
    assert list(fit)[1:] == ["X", "y", "sample_weight"]
    sample = inspect.signature(BayesPointClassifier.sample_proba).parameters
    assert (sample["n_samples"].default, sample["random_state"].default) == (10, None)


# ---------------------------------------------------------------------- what a fit chooses


# Memory (MB) for the billiard and votes of 25 flowers, and not for EP.
LITTLE = {"inference": "auto", "cache_size": 0.03}


@pytest.mark.parametrize(
    ("settings", "method", "decision", "reason"),
    [
        ({"label_noise": 0.1}, "ep", "calibrated", "few rows"),
        ({**LITTLE, "label_noise": [0.0, 0.0, 0.1]}, "billiard", "vote", "label_noise > 0"),
        ({**LITTLE, "label_noise": {1: 0.2}}, "billiard", "vote", "label_noise > 0"),
        ({**LITTLE, "label_noise": "evidence"}, "billiard", "vote", "label_noise > 0"),
        (LITTLE, "perceptron", "bayes_point", "perceptrons are the fastest"),
        ({**LITTLE, "label_noise": [0.0, 0, 0.0]}, "perceptron", "bayes_point", "the fastest"),
    ],
)
def test_what_auto_takes_and_why(settings, method, decision, reason):
    X, y, *_ = flowers(3, step=6)
    clf = classifier(**{"inference": "auto", **settings}).fit(X, y)
    assert (clf.inference_, clf.decision_) == (method, decision)
    assert reason in clf.inference_reason_
    by_name = classifier(**{"inference": "auto", **settings}, decision=decision).fit(X, y)
    assert_array_equal(clf.decision_function(X), by_name.decision_function(X))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "poly"])
def test_the_bias_of_each_kernel(kernel):
    for n_classes in (2, 3):
        X, y, *_ = flowers(n_classes, step=6)
        settings = {"kernel": kernel, "inference": "auto"}
        clf = classifier(**settings, bias="auto").fit(X, y)
        assert clf.bias_ in BIASES
        by_number = classifier(**settings, bias=clf.bias_).fit(X, y)
        assert_array_equal(clf.predict_proba(X), by_number.predict_proba(X))


def numbers_of(clf):
    return np.hstack([clf.gamma_, clf.bias_, clf.softness_])


@pytest.mark.parametrize("inference", ["auto", "perceptron"])
def test_defaults_choose_the_same_numbers_from_the_same_rows(inference):
    """On any number of threads; for rows with weights, copied, in another order, and sparse."""
    X, y, new, labels = flowers(3, step=6)
    settings = {"inference": inference, "n_draws": 4, "random_state": 0}
    weight = np.arange(len(y)) % 3
    one = BayesPointClassifier(**settings, n_jobs=1).fit(X, y, weight)
    assert np.all(np.isfinite(numbers_of(one)))
    assert np.all(one.gamma_ > 0)
    assert one.score(new, labels) > 0.85
    assert hasattr(one, "log_evidence_") == (inference == "auto")
    copies = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), weight))
    two = BayesPointClassifier(**settings, n_jobs=2).fit(X[copies], y[copies])
    assert numbers_of(one) == pytest.approx(numbers_of(two), rel=1e-9)
    assert_allclose(one.dual_coef_, two.dual_coef_, atol=1e-10)
    assert_allclose(one.predict_proba(new), two.predict_proba(new), atol=1e-9)
    sparse = BayesPointClassifier(**settings).fit(sp.csr_matrix(X), y, weight)
    assert numbers_of(sparse) == pytest.approx(numbers_of(one), rel=1e-4)
    assert_allclose(sparse.predict_proba(new), one.predict_proba(new), atol=2e-3)


@pytest.mark.parametrize("layout", ["float64", "float32", "csr", "far from 0"])
def test_gamma_scale_is_that_of_svc(layout):
    X, y = iris()
    expected = 1 / (X.shape[1] * X.var())
    layouts = {"float32": np.float32, "csr": sp.csr_matrix, "far from 0": lambda X: X + 1e6}
    X = layouts.get(layout, np.asarray)(X)
    assert perceptrons(n_draws=2).fit(X, y).gamma_ == pytest.approx(expected, rel=1e-6)
    assert perceptrons(n_draws=2, gamma=0.7).fit(X, y).gamma_ == 0.7


def test_a_grid_over_noise_and_methods():
    X, y, *_ = flowers(3)
    grid = [
        {"bayespointclassifier__label_noise": [0.0, [0.0, 0.1, 0.1]]},
        {"bayespointclassifier__inference": ["perceptron", "billiard"]},
    ]
    pipeline = make_pipeline(StandardScaler(), classifier(inference="auto"))
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] > -0.8)  # guessing has -1.1
    assert search.score(X, y) > -0.6


# ---------------------------------------------------------------------- perceptrons


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("linear", np.float32), ("poly", np.float64), ("rbf", np.float32), ("laplacian", np.float64)],
)
def test_every_draw_fits_every_label_at_softness_0(kernel, dtype):
    X, y, *_ = flowers(2 if kernel == "linear" else 3)
    X = X.astype(dtype)
    clf = perceptrons(kernel, gamma=1.0, softness=0, n_draws=10, random_state=0).fit(X, y)
    gram, _ = by_hand(clf, X, X)
    for machine, target in enumerate(signed_labels(clf, y)):
        assert np.all(target * (clf.posterior(machine).coef @ gram) > 0)


@pytest.mark.parametrize("layout", [np.float32, sp.csr_matrix], ids=["float32", "csr"])
def test_rows_that_do_not_fit_change_nothing(digits, layout):
    """Digits, with memory for all rows and for half of them."""
    X, y = layout(digits[0]), digits[1]
    settings = {"softness": 0, "n_draws": 4, "random_state": 0}
    one, other = (
        perceptrons(n_jobs=jobs, cache_size=size, **settings).fit(X, y)
        for jobs, size in [(1, 2000), (2, 0.13)]
    )
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert_array_equal(one.support_, other.support_)
    assert_array_equal(one.predict_proba(X[:100]), other.predict_proba(X[:100]))
    gram, _ = by_hand(one, digits[0], digits[0])
    for machine, target in enumerate(signed_labels(one, y)):
        assert np.all(target * (one.posterior(machine).coef @ gram) > 0)


# ---------------------------------------------------------------------- threads of others


def test_overlapping_predictions_leave_blas_threads_as_they_were():
    second_started, first_ended = threading.Event(), threading.Event()

    def kernel(A, B):
        name = threading.current_thread().name
        if name == "first" and len(A) != len(B):  # a block of rows, not k(x, x)
            second_started.wait(30)
        if name == "second" and len(A) != len(B):
            second_started.set()
            first_ended.wait(30)
        return A @ B.T

    X, y, *_ = flowers(3)
    clf = classifier(inference="auto", kernel=kernel, n_jobs=1).fit(X, y)
    threads = [
        threading.Thread(target=clf.predict, args=(X[:5],), name=name)
        for name in ("first", "second")
    ]
    pools = ThreadpoolController().select(user_api="blas")
    with threadpool_limits(2, user_api="blas"):
        before = pools.info()
        assert {one["num_threads"] for one in before} == {2}
        for thread in threads:
            thread.start()
        threads[0].join(30)
        first_ended.set()
        threads[1].join(30)
        assert pools.info() == before
