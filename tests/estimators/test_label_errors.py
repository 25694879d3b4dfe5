"""Which of the training labels are wrong: against exact draws, by hand, row by row."""

import pickle
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import by_hand, classifier, flowers, unusual
from helpers.thresholds import compare_means, fails_clearly
from helpers.version_spaces import (
    EXACT_DRAWS,
    N_CHAINS,
    Problem,
    assert_passes,
    exact_draws,
    seeds_of,
    skewed,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import stdtr
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

SAMPLERS = ["billiard", "gibbs"]


# ---------------------------------------------------------------------- against exact draws


class Case(NamedTuple):
    """A small problem with noise and softness, and how it is sampled."""

    noise: float
    softness: float
    inference: str

    @property
    def problem(self):
        return skewed(4 if self.softness else 5, 1, noise=self.noise)


@cache
def fits(case, length, seed):
    """Classifiers of independent chains, fitted to a Gram matrix as it is."""
    problem = case.problem
    settings = {
        "kernel": "precomputed", "bias": 0.0, "normalize_kernel": False, "tol": 0,
        "softness": case.softness, "label_noise": {1: case.noise, -1: case.noise},
        "inference": case.inference, "n_draws": length,
    }  # fmt: skip
    return [
        classifier(random_state=s, **settings).fit(problem.K, problem.y) for s in seeds_of(seed)
    ]


def as_fitted(clf, case):  # noqa: ARG001
    return clf.label_error_proba_


def of_the_softened_output(clf, case):
    """Wrong: softness belongs to the label, not to the function."""
    K, y = case.problem.K, case.problem.y
    softened = K + case.softness * np.diag(K.diagonal())
    return np.mean(y * (clf.posterior(0).coef @ softened) < 0, axis=0)


def of_the_mean_output(clf, case):
    """Wrong: given the softened outputs, the others are not known."""
    return np.mean(case.problem.y * (clf.posterior(0).coef @ case.problem.K) < 0, axis=0)


def against_latent_draws(case, found=as_fitted):
    """Check against draws of latent outputs and softness together.

    The latent outputs are more points, whose labels say nothing: their rate is one half.
    """
    problem = case.problem
    K, m = problem.K, len(problem.y)
    joint = Problem(
        np.block([[K + case.softness * np.diag(K.diagonal()), K], [K, K]]), np.tile(problem.y, 2),
        np.repeat([problem.noise, 0.5], m),
    )  # fmt: skip

    def check(length, seed):
        proba = np.array([found(clf, case) for clf in fits(case, length, seed)])
        rng = np.random.default_rng(seed)
        latent = (exact_draws(joint, EXACT_DRAWS * N_CHAINS * length, rng) @ joint.K)[:, m:]
        wrong = (problem.y * latent < 0).reshape(N_CHAINS, EXACT_DRAWS * length, m)
        return compare_means(proba - wrong.mean(axis=1), 0.0)

    return check


SOFT = Case(0.1, 1.0, "billiard")


def test_probabilities_of_wrong_labels():
    """Sign of the output without softness, given the labels of the softened ones."""
    assert_passes(against_latent_draws(SOFT), length=100, seed=0, detects=0.09)


@pytest.mark.parametrize("wrong", [of_the_softened_output, of_the_mean_output])
def test_other_outputs_would_be_noticed(wrong):
    first, _ = np.random.SeedSequence(0).generate_state(2).tolist()  # the fits of the test above
    assert fails_clearly(against_latent_draws(SOFT, wrong)(100, first))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        SOFT,
        Case(0.3, 0.1, "billiard"),
        Case(0.0, 0.5, "billiard"),
        Case(0.1, 0.5, "gibbs"),
        Case(0.2, 0.0, "billiard"),
    ],
    ids=str,
)
def test_probabilities_of_wrong_labels_in_long_runs(case):
    assert_passes(against_latent_draws(case), length=150, seed=0, detects=0.07)


# ---------------------------------------------------------------------- by hand


def votes_at_training_points(clf, X):
    """Probability that each machine says yes at its own training points, softness left out."""
    K, length = by_hand(clf, X, X)
    ridge = clf.softness_ * length**2
    variance = ridge - ridge**2 * np.linalg.inv(K + np.diag(ridge)).diagonal()
    votes = []
    for machine in range(len(clf.dual_coef_)):
        outputs = clf.posterior(machine).coef @ K
        with np.errstate(divide="ignore"):
            t = np.sqrt(len(X)) * outputs / np.sqrt(variance)
        votes.append(stdtr(len(X), t).mean(axis=0))
    votes = np.stack([1 - votes[0], votes[0]] if len(votes) == 1 else votes, axis=-1)
    return votes / votes.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("n_classes", "inference", "settings"),
    [
        (2, "gibbs", {"label_noise": 0.1}),
        (2, "billiard", {"label_noise": [0.0, 0.2], "softness": 1.0, "normalize_kernel": False}),
        (2, "billiard", {"label_noise": 0.1, "decision": "bayes_point"}),
        (3, "billiard", {"label_noise": 0.1, "decision": "span_vote"}),
        (
            3,
            "gibbs",
            {"kernel": "poly", "normalize_kernel": False, "label_noise": [0.1, 0.0, 0.2]},
        ),
    ],
    ids=str,
)
def test_each_label_by_hand(n_classes, inference, settings):
    X, y, *_ = flowers(n_classes, step=6)
    clf = classifier(inference=inference, **settings).fit(X, y)
    p = votes_at_training_points(clf, X)
    assert_allclose(clf.label_error_proba_, 1 - p[np.arange(len(y)), y], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_softness_it_is_the_share_of_draws_with_the_wrong_sign(n_classes):
    X, y, *_ = flowers(n_classes, step=6)
    clf = classifier(softness=0.0, gamma=1.0, label_noise=0.2, n_draws=40).fit(X, y)
    K, _ = by_hand(clf, X, X)
    outputs = [clf.posterior(machine).coef @ K for machine in range(len(clf.dual_coef_))]
    if n_classes == 2:
        target = np.where(y == 1, 1, -1)
        expected = np.mean(target * outputs[0] < 0, axis=0)
    else:  # shares of yes, normalised over the classes
        yes = np.mean(np.array(outputs) > 0, axis=1)
        expected = 1 - yes[y, np.arange(len(y))] / yes.sum(axis=0)
    assert_allclose(clf.label_error_proba_, expected, atol=1e-12)
    assert 0 < expected.max() <= 1


@pytest.mark.parametrize("inference", SAMPLERS)
def test_labels_that_must_be_right_are(inference):
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference=inference, softness=0.0).fit(X, y)
    assert_allclose(clf.label_error_proba_, 0.0, atol=1e-12)
    soft = classifier(inference=inference, softness=0.5).fit(X, y)
    assert np.all(soft.label_error_proba_ > 0)
    # Labels of one class sure, of the other not.
    half = classifier(inference=inference, softness=0.0, label_noise=[0.0, 0.4], n_draws=80)
    half.fit(X, y)
    assert_allclose(half.label_error_proba_[y == 0], 0.0, atol=1e-12)
    assert half.label_error_proba_[y == 1].max() > 0


# ---------------------------------------------------------------------- rows


def noisy_rows(n_classes=3, seed=0):
    """Training rows with copies, some of them with another label, and weights, some of them 0."""
    X, y, *_ = flowers(n_classes, step=5)
    rng = np.random.default_rng(seed)
    copied = rng.choice(len(y), 12, replace=False)
    label = y[copied].copy()
    label[:4] = (label[:4] + 1) % n_classes
    X, y = np.vstack([X, X[copied]]), np.append(y, label)
    weight = np.ones(len(y))
    weight[[3, len(y) - 1]] = 0.0
    return X, y, weight, copied


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_number_for_each_row_in_its_order(n_classes):
    X, y, weight, copied = noisy_rows(n_classes)
    n = len(y) - len(copied)
    clf = classifier(label_noise=0.1, n_draws=40).fit(X, y, weight)
    wrong = clf.label_error_proba_
    assert wrong.shape == y.shape
    assert_array_equal(np.isnan(wrong), weight == 0)
    known = wrong[weight > 0]
    assert np.all((known >= 0) & (known <= 1))
    # Copies share a number; copies of two classes with both labels share out all there is.
    for row, original in zip(range(n, len(y)), copied, strict=True):
        if weight[row] * weight[original] == 0:
            continue
        if y[row] == y[original]:
            assert wrong[row] == wrong[original]
        elif n_classes == 2:
            assert wrong[row] + wrong[original] == pytest.approx(1.0, abs=1e-9)
        else:
            assert wrong[row] + wrong[original] >= 1.0 - 1e-9
    # Rows in another order, and without those of no weight.
    order = np.random.default_rng(1).permutation(len(y))
    turned = classifier(label_noise=0.1, n_draws=40).fit(X[order], y[order], weight[order])
    assert_array_equal(turned.label_error_proba_, wrong[order])
    kept = weight > 0
    less = classifier(label_noise=0.1, n_draws=40).fit(X[kept], y[kept])
    assert_array_equal(less.label_error_proba_, wrong[kept])


def test_copies_are_one_point_of_their_weight():
    X, y, *_ = flowers(2, step=6)
    twice = classifier(label_noise=0.1).fit(np.vstack([X, X]), np.append(y, y))
    weighted = classifier(label_noise=0.1).fit(X, y, np.full(len(y), 2.0))
    assert_array_equal(twice.label_error_proba_, np.tile(weighted.label_error_proba_, 2))
    assert not np.array_equal(
        weighted.label_error_proba_, classifier(label_noise=0.1).fit(X, y).label_error_proba_
    )


def test_gram_matrices_keep_the_order_of_their_rows():
    X, y, weight, _ = noisy_rows(2)
    K = rbf_kernel(X)
    settings = {"kernel": "precomputed", "label_noise": 0.1, "n_draws": 400}
    clf = classifier(**settings).fit(K, y, weight)
    wrong = clf.label_error_proba_
    assert_array_equal(np.isnan(wrong), weight == 0)
    gram = (K + 1) / 2  # with the bias, of unit length
    coef, target = clf.posterior(0).coef, np.where(y == 1, 1, -1)
    sign = np.mean(target * (coef @ gram) < 0, axis=0)[weight > 0]
    # The same but for the little that softness leaves open.
    assert np.abs(wrong[weight > 0] - sign).mean() < 0.1
    assert np.corrcoef(wrong[weight > 0], sign)[0, 1] > 0.9


def test_layouts():
    X, y, *_ = flowers(2, step=6)
    names = np.array(["no", "yes"])
    expected = classifier(label_noise=0.1, n_draws=400).fit(X, y).label_error_proba_
    for layout in (sp.csr_matrix, np.float32, list):
        clf = classifier(label_noise=0.1, n_draws=400).fit(layout(X), names[y])
        assert clf.label_error_proba_.shape == y.shape
        assert np.abs(clf.label_error_proba_ - expected).max() < 0.15


# ---------------------------------------------------------------------- finding flips


@pytest.mark.parametrize(("n_classes", "inference"), [(3, "billiard"), (2, "gibbs"), (3, "ep")])
@pytest.mark.filterwarnings("ignore:the chains of the gibbs.* do not agree")
def test_clear_flips_come_first(n_classes, inference):
    X, y = make_blobs(60, centers=[[0, 0], [6, 0], [0, 6]][:n_classes], random_state=0)
    flipped = np.arange(0, 60, 15)
    given = y.copy()
    given[flipped] = (given[flipped] + 1) % n_classes
    clf = classifier(inference=inference, label_noise=0.05, n_draws=100, gamma=0.2, softness=0.1)
    wrong = clf.fit(X, given).label_error_proba_
    worst = np.argsort(-wrong)[: len(flipped)]
    assert set(worst) == set(flipped)
    others = np.delete(wrong, flipped)
    assert wrong[flipped].min() > 0.5 > others.max()
    # A negative control: with flips that are not there, none is suspected.
    clean = clone(clf).fit(X, y).label_error_proba_
    assert clean.max() < 0.5


# ---------------------------------------------------------------------- as an attribute


@pytest.mark.parametrize("decision", ["bayes_point", "vote"])
def test_perceptrons_know_of_no_wrong_labels(decision):
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference="perceptron", decision=decision)
    for one in (clf, clf.fit(X, y)):  # not fitted, and fitted
        assert not hasattr(one, "label_error_proba_")
        with pytest.raises(AttributeError, match=r"'billiard', 'gibbs' or 'ep'.*label_noise"):
            one.label_error_proba_  # noqa: B018
    clf.set_params(inference="billiard").fit(X, y)
    assert hasattr(clf, "label_error_proba_")
    clf.set_params(inference="perceptron").fit(X, y)
    assert not hasattr(clf, "label_error_proba_")


@pytest.mark.parametrize("decision", ["bayes_point", "vote", "span_vote"])
def test_it_does_not_depend_on_the_decision_and_travels(decision):
    X, y, new, _ = flowers(3, step=6)
    clf = classifier(decision=decision, label_noise=0.1).fit(X, y)
    wrong = clf.label_error_proba_
    expected = classifier(decision="vote", label_noise=0.1).fit(X, y).label_error_proba_
    assert_allclose(wrong, expected, atol=1e-12)
    clf.predict_proba(new), clf.posterior(0), clf.sample_proba(new)
    assert_array_equal(clf.label_error_proba_, wrong)
    wrong[:] = 7.0  # of the caller
    assert_array_equal(pickle.loads(pickle.dumps(clf)).label_error_proba_, clf.label_error_proba_)
    assert clf.label_error_proba_.max() <= 1
    assert not unusual(vars(clf), "clf")
    with pytest.raises(AttributeError):
        clf.label_error_proba_ = wrong
    if decision == "bayes_point":
        small = clf.compress(tol=0.1)
        assert_array_equal(small.label_error_proba_, clf.label_error_proba_)


def test_class_weights_shift_decisions_and_not_what_is_wrong():
    X, y, *_ = flowers(3, step=6)
    plain, weighted = (
        classifier(label_noise=0.1, class_weight=w).fit(X, y) for w in (None, {0: 100.0})
    )
    assert_array_equal(plain.label_error_proba_, weighted.label_error_proba_)


@pytest.mark.parametrize("inference", SAMPLERS)
def test_a_warm_start_counts_all_draws(inference):
    X, y, *_ = flowers(2, step=6)
    clf = classifier(inference=inference, warm_start=True, label_noise=0.1).fit(X, y)
    before = clf.label_error_proba_
    clf.set_params(n_draws=24).fit(X, y)
    p = votes_at_training_points(clf, X)
    assert_allclose(clf.label_error_proba_, 1 - p[np.arange(len(y)), y], atol=1e-6)
    assert not np.array_equal(clf.label_error_proba_, before)
