"""What a fitted classifier promises for every value of ``inference=``, from the registry.

A method in `METHODS` is tested here by being there; label noise is on where it takes some.
"""

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from helpers.classifiers import (
    DECIDING,
    INFERENCES,
    by_hand,
    classifier,
    columns,
    fitted,
    flowers,
    fresh_points,
    noise_of,
    signed_labels,
    softened_gram,
    unusual,
    votes_by_hand,
    with_noise,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit, softmax
from sklearn.base import clone

from bayespoint.inference.methods import METHODS

# Outputs are sums of some hundred terms, of coefficients that reach a hundred.
ROUNDING = 1e-9

DRAWN = [name for name, method in METHODS.items() if not method.closed_form]

each_inference = pytest.mark.parametrize("inference", INFERENCES)
each_decision = pytest.mark.parametrize(("inference", "decision"), DECIDING)


def data(n_classes=3):
    """What `fitted` was fitted to, and points near and far to ask about."""
    X, y, new, labels = flowers(n_classes, step=6)
    return X, y, np.vstack([new[::4], fresh_points(X, 40)]), (new[::4], labels[::4])


# ---------------------------------------------------------------------- what a fit tells


@each_inference
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_a_fit_says_of_itself(inference, n_classes):
    X, y, *_ = data(n_classes)
    clf = fitted(inference, n_classes)
    auto = inference == "auto"
    method = METHODS["ep" if auto else inference]
    n_machines = 1 if n_classes == 2 else n_classes
    assert clf.inference_ == method.name
    assert ("few rows" if auto else "asked for") in clf.inference_reason_
    assert clf.decision_ == ("calibrated" if auto else method.decision)
    assert (clf.softness_, clf.bias_, clf.label_noise_, clf.n_draws_) == (0.1, 1.0, 0.0, 8)
    assert_array_equal(clf.classes_, np.unique(y))
    assert clf.n_features_in_ == 4
    assert clf.dual_coef_.shape == (n_machines, len(clf.support_))
    assert_array_equal(clf.support_vectors_, X[clf.support_])
    assert clf.bayes_point_error_.shape == (n_machines,)
    assert not np.any(clf.bayes_point_error_) if method.closed_form else np.all(
        (clf.bayes_point_error_ > 0) & (clf.bayes_point_error_ < 1.5)
    )  # fmt: skip
    assert not unusual(clf.diagnostics_, "diagnostics_")
    assert hasattr(clf, "log_evidence_") == method.closed_form
    assert hasattr(clf, "label_error_proba_") == method.from_posterior


KINDS = [
    (2, False, {"softness": 0.0, "gamma": 1.0}),
    (3, True, {}),
    (2, True, {"kernel": "poly", "normalize_kernel": False}),
    (3, False, {"kernel": "laplacian", "bias": 0.0, "softness": 0.5}),
    (2, False, {"kernel": "linear", "softness": 1.0, "bias": 2.5, "normalize_kernel": False}),
]


@each_inference
@pytest.mark.parametrize(("n_classes", "noisy", "settings"), KINDS, ids=str)
def test_draws_and_bayes_points_by_hand(inference, n_classes, noisy, settings):
    X, y, new, _ = data(n_classes)
    noise = noise_of(inference) if noisy else 0.0
    clf = classifier(inference=inference, label_noise=noise, **settings).fit(X, y)
    method, K = METHODS[clf.inference_], softened_gram(clf, X)
    cross, length = by_hand(clf, new, X[clf.support_])
    cosines = columns(clf.cosines(new))
    assert_allclose(cosines, cross @ clf.dual_coef_.T / length[:, None], atol=ROUNDING)
    assert np.abs(cosines).max() <= 1 + ROUNDING
    for machine, target in enumerate(signed_labels(clf, y)):
        posterior = clf.posterior(machine)
        draws, centre = posterior.draws().reshape(-1, len(X)), posterior.bayes_point()
        assert draws.shape == (8, len(X))
        assert_allclose(np.einsum("ij,jk,ik->i", draws, K, draws), 1, atol=1e-8)
        assert centre @ K @ centre == pytest.approx(1, abs=1e-8)
        assert_array_equal(centre[clf.support_], clf.dual_coef_[machine])
        mean = draws.mean(axis=0)
        assert posterior.mean_norm == pytest.approx(np.sqrt(mean @ K @ mean), rel=1e-7)
        assert posterior.bayes_point_error() == clf.bayes_point_error_[machine]
        assert_allclose(posterior.outputs, (draws @ K)[:, posterior.points], atol=1e-8)
        if method.from_posterior and not method.closed_form and not noise:
            assert np.all(target * (draws @ K) > 0)  # inside version space, all of them
            assert np.all(target * (centre @ K) > 0)


# ---------------------------------------------------------------------- decisions


@pytest.mark.parametrize(
    ("inference", "n_classes", "decision"),
    [
        *((name, 3, "auto") for name in INFERENCES),
        *((name, 2, "bayes_point") for name in INFERENCES),
        ("ep", 2, "auto"), ("billiard", 2, "auto"), ("perceptron", 3, "vote"),
        ("ep", 3, "span_vote"), ("billiard", 3, "span_vote"),
    ],
)  # fmt: skip
def test_predict_is_the_argmax_of_both_and_class_weights_multiply(inference, n_classes, decision):
    X, y, new, (near, labels) = data(n_classes)
    X, y = X[4:], y[4:]  # unbalanced
    settings = {"inference": inference, "decision": decision, "label_noise": noise_of(inference)}
    plain, p_plain, counts = None, 1.0, np.bincount(y)
    for class_weight, weights in [
        (None, np.ones(n_classes)),
        ("balanced", len(y) / (n_classes * counts)),
        ({0: 1e-9, 1: 30.0}, np.array([1e-9, 30.0, 1.0])[:n_classes]),
    ]:
        clf = classifier(class_weight=class_weight, **settings).fit(X, y)
        outputs, p, predicted = (
            ask(new) for ask in (clf.decision_function, clf.predict_proba, clf.predict)
        )
        assert outputs.shape == ((len(new),) if n_classes == 2 else (len(new), n_classes))
        best = (outputs > 0).astype(int) if n_classes == 2 else outputs.argmax(axis=1)
        assert_array_equal(predicted, clf.classes_[best])
        assert_array_equal(predicted, clf.classes_[p.argmax(axis=1)])
        if class_weight is None:
            plain, p_plain = clf, p
            assert clf.score(near, labels) > 0.8
        assert_array_equal(clf.dual_coef_, plain.dual_coef_)
        expected = p_plain * weights
        assert_allclose(p, expected / expected.sum(axis=1, keepdims=True), atol=1e-9)
        assert_allclose(clf.predict_log_proba(new)[p > 0], np.log(p[p > 0]))
        if clf.decision_ in ("vote", "calibrated"):
            by_p = expit(outputs) if n_classes == 2 else np.exp(outputs)
            assert_allclose(by_p, p[:, 1] if n_classes == 2 else p, atol=1e-9)


@each_inference
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bayes_point_decides_through_an_increasing_link(inference, n_classes):
    _, _, new, _ = data(n_classes)
    clf = fitted(inference, n_classes, "bayes_point")
    f, scores, p = (ask(new) for ask in (clf.cosines, clf.decision_function, clf.predict_proba))
    link = clf.predictor_.link
    by_hand = columns(f) @ link.weights.T + link.offset
    assert_allclose(columns(scores), by_hand, rtol=1e-9, atol=1e-12)
    by_scores = expit(scores) if n_classes == 2 else softmax(scores, axis=1)
    assert_allclose(p[:, 1] if n_classes == 2 else p, by_scores, atol=1e-9)
    # Held-out outputs of iris do say something: each class gains most by its own output.
    assert np.all(link.weights.diagonal() > 1)
    assert_array_equal(link.weights.argmax(axis=1), np.arange(len(link.weights)))


@pytest.mark.parametrize("inference", DRAWN)
@pytest.mark.parametrize(
    ("n_classes", "rates", "settings", "dtype"),
    [
        (2, [0.0, 0.3], {}, np.float64),
        (3, [0.0, 0.3, 0.1], {}, np.float32),
        (3, 0.0, {"kernel": "laplacian", "softness": 0.0}, np.float64),
        (2, 0.1, {"kernel": "poly", "normalize_kernel": False}, np.float64),
    ],
    ids=["rates", "rates of three, float32", "clean, hard", "lengths"],
)
def test_votes_by_hand(inference, n_classes, rates, settings, dtype):
    X, y, new, _ = data(n_classes)
    X, new, noise = X.astype(dtype), new.astype(dtype), noise_of(inference, rates)
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    clf = classifier(inference=inference, decision="vote", label_noise=noise, **settings).fit(X, y)
    votes = votes_by_hand(clf, X, new)
    p = with_noise(votes.mean(axis=0), noise, y)
    assert_allclose(clf.predict_proba(new), p, atol=tolerance)
    sure = np.all(p > 1e-4, axis=1)
    log_p = logit(p[sure, 1]) if n_classes == 2 else np.log(p[sure])
    assert_allclose(clf.decision_function(new)[sure], log_p, atol=1e4 * tolerance)
    # The draws one by one, in any order.
    found = np.sort(clf.sample_proba(new, clf.n_draws_, random_state=0), axis=0)
    assert_allclose(found, np.sort(with_noise(votes, noise, y), axis=0), atol=tolerance)


@each_inference
def test_far_from_all_data_the_vote_does_not_know(inference):
    X, y, *_ = data()
    noise = noise_of(inference)
    clf = classifier(inference=inference, decision="vote", bias=0, label_noise=noise).fit(X, y)
    far = 1e4 * np.random.default_rng(0).normal(size=(20, X.shape[1]))
    assert_allclose(clf.predict_proba(far), 1 / 3, atol=1e-12)


@each_decision
def test_members_one_by_one(inference, decision):
    _, _, new, (near, _) = data()
    clf = fitted(inference, 3, decision)
    p = clf.sample_proba(new, n_samples=8, random_state=1)
    assert p.shape == (8, len(new), 3)
    assert_allclose(p.sum(axis=2), 1, atol=1e-12)
    assert len(np.unique(p, axis=0)) == 8  # without replacement
    assert_array_equal(p, clf.sample_proba(new, 8, random_state=1))
    assert clf.sample_proba(new[:2], 20, 0).shape == (20, 2, 3)  # more than it holds
    assert clf.sample_proba(new[:1]).shape == (10, 1, 3)
    together = clf.sample_proba(near, 8, 0).mean(axis=0)
    assert np.mean(together.argmax(axis=1) == clf.predict(near)) > 0.8
    assert fitted(inference, 2).sample_proba(new[:2], 3).shape == (3, 2, 2)


# ---------------------------------------------------------------------- the same again


@each_inference
def test_seeds(inference):
    X, y, new, _ = data()
    seeds = (0, 0, 1, np.random.RandomState(5), np.random.RandomState(5), None, None)
    fits = [classifier(inference=inference, random_state=seed).fit(X, y) for seed in seeds]
    p = [clf.sample_proba(new, 8, random_state=0) for clf in fits]
    assert_array_equal(p[0], p[1])
    assert_array_equal(p[3], p[4])
    assert len(np.unique(p, axis=0)) == 5


@each_decision
def test_threads_and_memory_change_nothing(inference, decision):
    X, y, new, _ = data()
    one, other = (
        classifier(
            inference=inference, decision=decision, label_noise=noise_of(inference),
            n_jobs=n_jobs, cache_size=cache_size,
        ).fit(X, y)
        for n_jobs, cache_size in ((1, 2000), (3, 0.2))
    )  # fmt: skip
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert_array_equal(one.posterior(2).draws(), other.posterior(2).draws())
    assert_array_equal(one.predict_proba(new), other.predict_proba(new))


@each_inference
@pytest.mark.parametrize(("decision", "rates"), [("auto", [0.1, 0.0, 0.2]), ("bayes_point", 0.0)])
def test_fitted_objects_are_plain_and_travel(inference, decision, rates):
    X, y, new, _ = data()
    y = np.array(["a", "b", "c"], dtype=object)[y]
    clf = classifier(
        inference=inference, decision=decision, label_noise=noise_of(inference, rates)
    ).fit(X, y)  # fmt: skip
    assert not unusual(vars(clf), "clf")
    stored = io.BytesIO()
    joblib.dump(clf, stored)
    stored.seek(0)
    for one in (pickle.loads(pickle.dumps(clf)), joblib.load(stored), copy.deepcopy(clf)):
        assert_array_equal(one.predict_proba(new), clf.predict_proba(new))
        assert_array_equal(one.posterior(1).draws(), clf.posterior(1).draws())
    again = clone(clf)
    assert not any(name.endswith("_") for name in vars(again))
    assert_array_equal(again.fit(X, y).dual_coef_, clf.dual_coef_)


@each_decision
def test_predicting_changes_nothing_and_threads_may_share(inference, decision):
    X, y, new, _ = data()
    clf = fitted(inference, 3, decision, n_jobs=2)
    before = joblib.hash(vars(clf))

    def answers(_):
        return clf.predict_proba(new), clf.decision_function(new), clf.sample_proba(new, 3, 0)

    expected = answers(0)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(answers, range(4)):
            for one, other in zip(expected, found, strict=True):
                assert_array_equal(one, other)
    clf.predict(new), clf.score(X, y), clf.posterior(0), clf.cosines(new), repr(clf)
    if decision == "bayes_point":
        clf.compress()
    assert joblib.hash(vars(clf)) == before
