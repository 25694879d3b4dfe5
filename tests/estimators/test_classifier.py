"""The classifier's numbers, against kernels, draws and probabilities computed by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import (
    MAKERS,
    by_hand,
    columns,
    fresh_points,
    perceptrons,
    signed_labels,
)
from scipy.special import expit, log_ndtr, logit, stdtr
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from bayespoint import BayesPointClassifier

KERNELS = ["linear", "poly", "rbf", "laplacian"]
DECISIONS = ["bayes_point", "vote"]

# Outputs are sums of some hundred terms of size one: rounding is far below, an error far above.
ROUNDING = 1e-10


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.15, random_state=0)


@pytest.fixture(scope="module")
def digits():
    """Every second one."""
    return tuple(part[::2] for part in load_digits(return_X_y=True))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("bias", [0.0, 2.5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_coefficients_reproduce_the_outputs(iris, kernel, bias, normalize, n_classes):
    X, y = (part[iris[1] < n_classes] for part in iris)
    clf = perceptrons(kernel, bias=bias, normalize_kernel=normalize, n_draws=8, random_state=0).fit(
        X, y
    )
    new = fresh_points(X)
    K, length = by_hand(clf, new, X[clf.support_])
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    expected = K @ clf.dual_coef_.T / length[:, None]
    outputs = columns(clf.decision_function(new))
    np.testing.assert_allclose(outputs, expected, atol=ROUNDING)
    assert np.max(np.abs(outputs)) <= 1 + ROUNDING
    gram, length = by_hand(clf, X, X)
    softened = gram + clf.softness_ * np.diag(length**2)
    for machine, coef in enumerate(clf.dual_coef_):
        part = softened[np.ix_(clf.support_, clf.support_)]
        assert coef @ part @ coef == pytest.approx(1, abs=1e-9)
        posterior = clf.posterior(machine)
        draws = posterior.coef.toarray()
        lengths = np.einsum("ij,jk,ik->i", draws, softened, draws)
        np.testing.assert_allclose(lengths, 1, atol=1e-9)
        mean = draws.mean(axis=0)
        np.testing.assert_allclose(
            posterior.bayes_point(), mean / np.sqrt(mean @ softened @ mean), atol=ROUNDING
        )
        np.testing.assert_allclose(posterior.bayes_point()[clf.support_], coef, atol=ROUNDING)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_draw_fits_every_label_at_softness_0(iris, kernel, dtype):
    X, y = (part[(iris[1] < 2) if kernel == "linear" else slice(None)] for part in iris)
    X = X.astype(dtype)
    clf = perceptrons(kernel, gamma=1.0, softness=0, n_draws=10, random_state=0)
    clf.fit(X, y)
    gram, _ = by_hand(clf, X, X)
    for machine, target in enumerate(signed_labels(clf, y)):
        outputs = clf.posterior(machine).coef @ gram
        assert np.all(target * outputs > 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_draw_fits_all_digits_at_softness_0(digits, dtype):
    X, y = digits
    clf = perceptrons(softness=0, n_draws=5, random_state=0).fit(X.astype(dtype), y)
    gram, _ = by_hand(clf, X, X)
    for machine, target in enumerate(signed_labels(clf, y)):
        assert np.all(target * (clf.posterior(machine).coef @ gram) > 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_change_nothing_by_default(digits, n_classes):
    X, y = (part[digits[1] < n_classes][:200] for part in digits)
    one, two = (BayesPointClassifier(random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert (one.gamma_, one.bias_, one.softness_) == (two.gamma_, two.bias_, two.softness_)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_perceptrons_choose_the_same_settings_on_any_number_of_threads(digits):
    X, y = (part[:300] for part in digits)
    one, two = (
        BayesPointClassifier(inference="perceptron", n_draws=3, random_state=0, n_jobs=jobs)
        for jobs in (1, 2)
    )
    one.fit(X, y), two.fit(X, y)
    assert (one.gamma_, one.bias_, one.softness_) == (two.gamma_, two.bias_, two.softness_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("layout", ["float64", "float32", "csr"])
def test_threads_and_memory_change_nothing(digits, layout):
    X, y = digits
    X = {"float64": X, "float32": X.astype(np.float32), "csr": sp.csr_matrix(X)}[layout]
    fits = [
        perceptrons(n_draws=10, random_state=0, n_jobs=jobs, cache_size=size).fit(X, y)
        for jobs, size in [(1, 2000), (2, 2000), (2, 2)]
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(fits[0].support_, other.support_)
        np.testing.assert_array_equal(fits[0].predict_proba(X[:100]), other.predict_proba(X[:100]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("dtype", "density"), [(np.float64, 1.0), (np.float32, 0.2)])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_sparse_and_dense_agree(make, kernel, dtype, density):
    rng = np.random.default_rng(0)
    X = (rng.integers(-2, 3, size=(80, 6)) * (rng.random((80, 6)) < density)).astype(dtype)
    y = X[:, :3].sum(axis=1) > X[:, 3:].sum(axis=1)
    fits = [
        make(kernel, n_draws=20, random_state=0).fit(layout(X), y)
        for layout in (np.asarray, sp.csr_matrix)
    ]
    # Outputs of Bayes points are cosines; those of the defaults are logarithms of odds.
    outputs = "decision_function" if make is perceptrons else "predict_proba"
    expected = getattr(fits[0], outputs)(X)
    assert fits[0].score(X, y) > 0.85
    for clf in fits:
        assert clf.gamma_ == pytest.approx(fits[0].gamma_, rel=1e-4)
        assert clf.softness_ == pytest.approx(fits[0].softness_, rel=1e-4)
        assert clf.support_vectors_.dtype == dtype
        for new in (X, sp.csr_matrix(X), X.astype(np.float64), sp.csc_matrix(X, dtype=np.float32)):
            # Other layouts round otherwise, and a perceptron amplifies that a little.
            np.testing.assert_allclose(getattr(clf, outputs)(new), expected, atol=2e-3)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("softness", [0.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_vote_is_the_exact_predictive_probability(digits, n_classes, softness, dtype, tolerance):
    X, y = (part[digits[1] < n_classes] for part in digits)
    X, y, new = X[::3].astype(dtype), y[::3], X[1::3]
    clf = perceptrons(decision="vote", n_draws=8, softness=softness, random_state=0)
    clf.fit(X, y)
    gram, _ = by_hand(clf, X, X)
    cross, _ = by_hand(clf, new, X)
    K = gram + softness * np.eye(len(gram))
    unknown = 1 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
    p = []
    for machine in range(len(clf.dual_coef_)):
        outputs = clf.posterior(machine).coef @ cross.T
        t = np.sqrt(len(X)) * outputs / np.sqrt(unknown + softness)
        p.append(stdtr(len(X), t).mean(axis=0))
    p = np.array([1 - p[0], p[0]] if n_classes == 2 else p).T
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(new), p, atol=tolerance)
    sure = np.all(p > 1e-6, axis=1)
    log_p = logit(p[sure, 1]) if n_classes == 2 else np.log(p[sure])
    np.testing.assert_allclose(clf.decision_function(new)[sure], log_p, rtol=1e4 * tolerance)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_vote_far_from_all_data_does_not_know(make, iris, n_classes):
    X, y = (part[iris[1] < n_classes] for part in iris)
    clf = make(decision="vote", bias=0, n_draws=10, random_state=0).fit(X, y)
    far = 1e4 * np.random.default_rng(0).normal(size=(20, X.shape[1]))
    np.testing.assert_allclose(clf.predict_proba(far), 1 / n_classes, atol=1e-12)
    assert clf.predict_proba(X)[np.arange(len(y)), y].mean() > 0.6


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1e-9, 1: 30.0}])
def test_predict_is_the_argmax_of_both(make, iris, decision, n_classes, class_weight):
    X, y = (part[iris[1] < n_classes] for part in iris)
    clf = make(decision=decision, class_weight=class_weight, n_draws=10, random_state=0).fit(X, y)
    new = np.vstack([X, fresh_points(X)])
    outputs, p, predicted = clf.decision_function(new), clf.predict_proba(new), clf.predict(new)
    assert outputs.shape == ((len(new),) if n_classes == 2 else (len(new), n_classes))
    best = (outputs > 0).astype(int) if n_classes == 2 else outputs.argmax(axis=1)
    np.testing.assert_array_equal(predicted, clf.classes_[best])
    np.testing.assert_array_equal(predicted, clf.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert np.all((p >= 0) & (p <= 1))
    if class_weight is None:
        assert np.mean(predicted[: len(y)] == y) > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_an_increasing_link_of_the_outputs(iris, n_classes):
    X, y = (part[iris[1] < n_classes] for part in iris)
    clf = perceptrons(n_draws=10, random_state=0).fit(X, y)
    new = fresh_points(X)
    f, p = clf.decision_function(new), clf.predict_proba(new)
    if n_classes == 2:
        log_p = np.log(p)
        kappa = _slope_of_probit(f, log_p)
        np.testing.assert_allclose(log_p[:, 1], log_ndtr(kappa * f), atol=1e-6)
    else:
        differences = np.log(p[:, 1:] / p[:, :1]).ravel()
        steps = (f[:, 1:] - f[:, :1]).ravel()
        kappa = differences @ steps / (steps @ steps)
        np.testing.assert_allclose(differences, kappa * steps, atol=1e-6)
    assert kappa > 1  # the held-out outputs of iris do say something


def _slope_of_probit(f, log_p):
    from scipy.special import ndtri_exp

    scaled = np.where(f > 0, -ndtri_exp(log_p[:, 0]), ndtri_exp(log_p[:, 1]))
    return scaled @ f / (f @ f)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weight_multiplies_probabilities(make, iris, decision, n_classes):
    X, y = (part[(iris[1] < n_classes)][25:] for part in iris)  # unbalanced
    new = fresh_points(X)
    plain = make(decision=decision, n_draws=10, random_state=0).fit(X, y)
    counts = np.bincount(y)
    for class_weight, weights in [
        ({0: 4.0, 1: 0.5}, np.array([4.0, 0.5, 1.0])[:n_classes]),
        ("balanced", len(y) / (n_classes * counts)),
    ]:
        clf = make(decision=decision, class_weight=class_weight, n_draws=10, random_state=0).fit(
            X, y
        )
        expected = plain.predict_proba(new) * weights
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(clf.predict_proba(new), expected, atol=1e-9)
        if decision == "vote" and n_classes == 2:
            np.testing.assert_allclose(expit(clf.decision_function(new)), expected[:, 1])
        np.testing.assert_array_equal(clf.dual_coef_, plain.dual_coef_)


@pytest.mark.parametrize("layout", ["float64", "float32", "csr", "far from 0"])
def test_gamma_scale_is_that_of_svc(iris, layout):
    X, first = np.unique(iris[0], axis=0, return_index=True)
    y = iris[1][first]
    layouts = {"float32": np.float32, "csr": sp.csr_matrix, "far from 0": lambda X: X + 1e6}
    X = layouts.get(layout, np.asarray)(X)
    ours = perceptrons(n_draws=2).fit(X, y).gamma_
    assert ours == pytest.approx(SVC().fit(X, y)._gamma, rel=1e-6)
    assert perceptrons(n_draws=2, gamma=0.7).fit(X, y).gamma_ == 0.7


@pytest.mark.parametrize("decision", DECISIONS)
def test_precomputed_and_callable_equal_the_named_kernel(iris, decision):
    X, y = iris
    X, first = np.unique(X, axis=0, return_index=True)
    y = y[first]
    settings = {"n_draws": 60, "random_state": 0, "decision": decision}
    new = fresh_points(X)
    named = perceptrons(gamma=0.5, **settings).fit(X, y)
    called = perceptrons(lambda A, B: rbf_kernel(A, B, 0.5), **settings).fit(X, y)
    np.testing.assert_allclose(called.predict_proba(new), named.predict_proba(new), atol=1e-6)
    given = perceptrons("precomputed", **settings).fit(rbf_kernel(X, X, 0.5), y)
    K = rbf_kernel(new, X, 0.5)
    # Points of a Gram matrix keep their order, so that the draws are others: statistics only.
    assert np.mean(given.predict(K) == named.predict(new)) > 0.9
    K_support, _ = by_hand(named, new, X[given.support_])
    if decision == "bayes_point":
        np.testing.assert_allclose(
            given.decision_function(K), K_support @ given.dual_coef_.T, atol=ROUNDING
        )
