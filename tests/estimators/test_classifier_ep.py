"""What is particular to ``inference="ep"``: numbers by hand, evidence, weights, warm starts."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED, by_hand, flowers, signed_labels, softened_gram
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, VersionSpace, active
from bayespoint.inference import expectation_propagation
from bayespoint.space.decisions import combine_votes

# Sites of two runs that end at the same tolerance, and what follows from them.
TOL, SAME = 1e-9, 1e-6
# Probabilities of EP beside exact ones, at the points below.
APPROXIMATION = 0.05

may_move = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def classifier(**settings):
    return BayesPointClassifier(
        **{"inference": "ep", "n_draws": 8, "random_state": 0, "tol": TOL, **FIXED, **settings}
    )


def posteriors(clf, X, y, noise=0.0):
    """Of each machine, from the version space over the rows of X."""
    gram = by_hand(clf, X, X)[0]
    found = []
    for target in signed_labels(clf, y):
        n_others = len(clf.classes_) - 1
        rates = np.where(target > 0, noise, noise / n_others)
        space = VersionSpace(gram, target, clf.softness_)
        found.append(expectation_propagation(space, label_noise=rates, tol=TOL))
    return found


def with_wrong_labels(y, n_classes, rows):
    y = y.copy()
    y[rows] = (y[rows] + 1) % n_classes
    return y


# ---------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [(2, {}), (2, {"label_noise": 0.1}), (3, {"label_noise": 0.1}),
     (3, {"softness": 0.0, "gamma": 2.0}), (3, {"kernel": "poly", "degree": 2}),
     (2, {"normalize_kernel": False, "kernel": "linear", "softness": 0.5})],
    ids=str,
)  # fmt: skip
def test_probabilities_and_evidence_by_hand(n_classes, settings):
    X, y, new, labels = flowers(n_classes)
    noise = settings.get("label_noise", 0.0)
    if noise:  # with negative sites
        y = with_wrong_labels(y, n_classes, [5, 9])
    clf = classifier(decision="vote", **settings).fit(X, y)
    posts = posteriors(clf, X, y, noise)
    assert np.any([p.reducer()[1] < 0 for p in posts]) == (noise > 0)
    assert clf.log_evidence_ == pytest.approx(sum(p.log_evidence for p in posts), abs=SAME)
    assert_allclose(clf.diagnostics_["log_evidence"], [p.log_evidence for p in posts], atol=SAME)
    assert np.all(clf.diagnostics_["converged"])
    cross, length = by_hand(clf, new, X)
    yes = []
    for post in posts:
        mean, variance = post.latent(cross, length**2)
        yes.append(ndtr(mean / np.sqrt(variance + clf.softness_ * length**2)))
    votes = [1 - yes[0], yes[0]] if n_classes == 2 else yes
    p = np.exp(combine_votes(np.stack(votes, axis=-1), 0.0, noise))
    assert_allclose(clf.predict_proba(new), p, atol=SAME)
    assert clf.score(new, labels) > 0.85
    # The Bayes point is the mean, of unit length; the order of the rows is that of the support.
    gram = softened_gram(clf, X)
    for machine, post in enumerate(posts):
        coef = np.zeros(len(X))
        coef[clf.support_] = clf.dual_coef_[machine]
        assert coef @ gram @ coef == pytest.approx(1)
        assert coef @ gram @ post.bayes_point() == pytest.approx(1, abs=SAME)
    point = classifier(decision="bayes_point", **settings).fit(X, y)
    assert point.log_evidence_ == clf.log_evidence_


def test_the_covariance_of_queries_is_that_of_the_gaussians():
    X, y, new, _ = flowers(3)
    y = with_wrong_labels(y, 3, 5)
    clf = classifier(label_noise=0.1).fit(X, y)
    posts, (cross, _) = posteriors(clf, X, y, 0.1), by_hand(clf, new, X)
    expected = 3 * by_hand(clf, new, new)[0]
    for post in posts:
        P, sign = post.reducer()
        known = P @ cross.T
        expected -= (known.T * sign) @ known
    variance, column = clf.predictor_.covariance(clf.prepared(new))
    assert_allclose(variance, expected.diagonal(), atol=SAME)
    for i in (0, 7):
        assert_allclose(column(i), expected[i], atol=SAME)


@pytest.mark.parametrize(("strategy", "decision"), [("entropy", "bayes_point"), ("bald", "vote")])
def test_queries(strategy, decision):
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=40, decision=decision, label_noise=0.05).fit(X, y)
    pool = np.concatenate([new, new])
    chosen = active.query(clf, pool, 6, strategy=strategy, random_state=0)
    assert len(np.unique(chosen % len(new))) == 6
    values = active.utilities(clf, pool, strategy=strategy, random_state=0)
    assert np.all(np.isfinite(values))
    assert values[chosen[0]] == pytest.approx(values.max())


# ---------------------------------------------------------------------- what it approximates


@pytest.mark.parametrize("decision", ["vote", "calibrated"])
def test_votes_are_in_closed_form(decision):
    """Not those of the draws: as many as one likes change nothing."""
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=200, softness=0.3, decision=decision)
    p = clf.fit(X, y).predict_proba(new)
    if decision == "calibrated":  # which "auto" is
        auto = clone(clf).set_params(decision="auto").fit(X, y)
        assert auto.decision_ == "calibrated"
        assert_array_equal(auto.predict_proba(new), p)
    for settings in ({"n_draws": 50}, {"random_state": 7}):
        other = clone(clf).set_params(**settings).fit(X, y)
        assert_array_equal(other.predict_proba(new), p)
    spans = clone(clf).set_params(decision="span_vote", n_draws=50).fit(X, y)
    assert not np.allclose(spans.predict_proba(new), p, atol=0.01)
    members = clf.sample_proba(new, 200, random_state=0)
    assert np.ptp(members, axis=0).max() > 0.1
    assert_allclose(members.mean(axis=0), p, atol=0.1)  # members share what all know
    assert all(clf.posterior(k).info["converged"] for k in range(3))


@pytest.mark.parametrize(
    "label_noise", [0.1, pytest.param(0.0, marks=pytest.mark.slow)]
)  # fmt: skip
def test_it_agrees_with_the_billiard(label_noise):
    X, y, new, _ = flowers(2, step=6)
    settings = {"label_noise": label_noise, "gamma": 0.5, "softness": 0.3, "decision": "vote"}
    flown = classifier(**settings, inference="billiard", n_draws=2000, tol=0).fit(X, y)
    clf = classifier(**settings).fit(X, y)
    p, q = (one.predict_proba(new)[:, 1] for one in (flown, clf))
    assert np.abs(p - q).max() < APPROXIMATION
    assert np.abs(p - 0.5).max() > 5 * APPROXIMATION
    assert_allclose(clf.label_error_proba_, flown.label_error_proba_, atol=APPROXIMATION)


def test_layouts_of_the_same_kernel_agree():
    X, y, new, _ = flowers(3)
    settings = {"gamma": 0.4, "bias": 0.0}
    p = classifier(**settings).fit(X, y).predict_proba(new)
    sparse = classifier(**settings).fit(sp.csr_matrix(X), y)
    assert_allclose(sparse.predict_proba(sp.csr_matrix(new)), p, atol=SAME)
    given = classifier(**settings, kernel="precomputed").fit(rbf_kernel(X, gamma=0.4), y)
    assert_allclose(given.predict_proba(rbf_kernel(new, X, gamma=0.4)), p, atol=SAME)
    single = classifier(**settings).fit(X.astype(np.float32), y)
    assert_allclose(single.predict_proba(new.astype(np.float32)), p, atol=1e-4)


def test_evidence_is_for_settings_that_fit():
    """Of a teacher with one label of eight wrong: the width and the rate that are nearest."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] > 0) ^ (rng.random(80) < 0.15)
    clf = classifier(softness=0.05, tol=1e-4)
    settings = [{"gamma": g, "label_noise": q} for g in (0.2, 20.0) for q in (0.1, 0.4)]
    found = [clf.set_params(**one).fit(X, y).log_evidence_ for one in settings]
    assert np.argmax(found) == 0
    assert np.max(found[1:]) < found[0] - 3


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_weights_are_copies_for_evidence(label_noise):
    X, y, new, _ = flowers(3, step=6)
    weight = 1.0 + np.arange(len(y)) % 3
    weight[4] = 0.0
    settings = {"gamma": 0.3, "label_noise": label_noise}
    weighted = classifier(**settings).fit(X, y, weight)
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    copied = classifier(**settings).fit(X[copies], y[copies])
    assert_allclose(weighted.predict_proba(new), copied.predict_proba(new), atol=SAME)
    assert weighted.log_evidence_ == pytest.approx(copied.log_evidence_, abs=SAME)
    # Of copies one is left out, of a weight all of it.
    single = (weight == 1)[copies]
    found = weighted.label_error_proba_[copies] - copied.label_error_proba_
    assert_allclose(found[single], 0.0, atol=0.01)
    assert np.isnan(weighted.label_error_proba_[4])
    without = classifier(**settings).fit(X, y)
    assert not np.allclose(without.predict_proba(new), copied.predict_proba(new), atol=SAME)


@may_move
@pytest.mark.parametrize(("share", "softness"), [(0.5, 0.0), (0.1, 0.1), (0.9, 0.1), (0.5, 1.0)])
def test_parts_of_copies_count_for_less(share, softness):
    """Weights below one: between no label and one."""
    X, y, new, _ = flowers(2)
    one, part = (classifier(softness=softness, decision="vote").fit(X, y, w) for w in (1.0, share))
    for clf in (one, part):
        assert np.all(np.isfinite(clf.predict_proba(new)))
        assert clf.log_evidence_ < 0
    sure, less = (np.abs(clf.predict_proba(new)[:, 1] - 0.5) for clf in (one, part))
    if softness == 0:
        assert_allclose(less, sure, atol=1e-12)
    elif np.all(part.diagnostics_["converged"]):
        assert np.all(less < sure)
    little = classifier(gamma=1.0, softness=0.01).fit(X, y, 0.1)
    assert np.all(np.isfinite(little.predict_proba(X)))
    assert little.log_evidence_ < 0


def test_the_evidence_of_copies_with_noise_is_that_of_all_of_them():
    """A point twice, by hand: sites of both, or one of its weight."""
    X, y, *_ = flowers(2)
    X, y = np.append(X, X[:3], axis=0), np.append(y, y[:3])
    clf = classifier(gamma=0.3, softness=0.0, label_noise=0.1).fit(X, y)
    space = VersionSpace(by_hand(clf, X, X)[0], np.where(y == 1, 1, -1))
    apart = expectation_propagation(space, label_noise=0.1, tol=1e-6)
    # Two approximations of one model: their evidence is nearly the same.
    assert clf.log_evidence_ == pytest.approx(apart.log_evidence, abs=0.1)


@may_move
@pytest.mark.parametrize(
    ("seed", "label_noise", "decision"),
    [(0, 0.01, "vote"), (1, 0.05, "vote"),
     *(pytest.param(seed, rate, decision, marks=pytest.mark.slow) for seed in (1, 2, 3)
       for rate in (0.01, 0.05) for decision in ("vote", "bayes_point"))],
)  # fmt: skip
def test_labels_at_random_never_give_nan(seed, label_noise, decision):
    """Few features, no softness: hardly anything explains the labels."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)), rng.integers(2 + seed % 2, size=40)
    clf = classifier(
        kernel="linear", softness=0.0, label_noise=label_noise, decision=decision, tol=1e-4
    ).fit(X, y)
    for values in (clf.dual_coef_, clf.predict_proba(X), clf.label_error_proba_):
        assert np.all(np.isfinite(values))
    assert clf.log_evidence_ <= 0
    assert clf.diagnostics_["bounded"].shape == clf.diagnostics_["converged"].shape


# ---------------------------------------------------------------------- stops and warm starts


def test_sites_without_time_say_so_once(clock):
    X, y, *_ = flowers(3)
    clock.step = 1.0
    clf = classifier(max_time=1e-6)
    with pytest.warns(ConvergenceWarning, match=r"against the rest did not converge") as caught:
        clf.fit(X, y)
    assert ["for class 0" in str(one.message) for one in caught] == [True, False, False]
    assert not np.any(clf.diagnostics_["converged"])
    assert np.all(clf.diagnostics_["sweeps"] == 1)


def test_a_warm_start_takes_other_settings():
    X, y, new, _ = flowers(3)
    clf = classifier(warm_start=True, gamma=0.3, tol=1e-4).fit(X, y)
    sweeps = np.zeros(2, dtype=int)
    for change in ({"gamma": 0.33}, {"softness": 0.12}, {"label_noise": 0.05}, {"bias": 1.2}):
        clf.set_params(**change).fit(X, y)
        anew = clone(clf).set_params(warm_start=False).fit(X, y)
        assert_allclose(clf.predict_proba(new), anew.predict_proba(new), atol=1e-3)
        assert clf.log_evidence_ == pytest.approx(anew.log_evidence_, abs=1e-5)
        sweeps += [one.diagnostics_["sweeps"].sum() for one in (clf, anew)]
    assert sweeps[0] < sweeps[1]
    loaded = pickle.loads(pickle.dumps(clf))
    assert np.all(loaded.fit(X, y).diagnostics_["sweeps"] == 1)
    clf.set_params(n_draws=20).fit(X, y)
    assert clf.n_draws_ == clf.posterior(0).n_draws == 20
