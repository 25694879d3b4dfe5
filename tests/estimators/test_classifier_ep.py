"""The classifier with inference="ep": probabilities by hand, warm starts, and its contract."""

import copy
import pickle
import signal

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.classifiers import FIXED, by_hand, flowers, signed_labels, softened_gram, unusual
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

from bayespoint import BayesPointClassifier, VersionSpace, active
from bayespoint.inference import expectation_propagation
from bayespoint.inference.ep import sites as gaussian_sites
from bayespoint.space.decisions import combine_votes

# Sites of two runs that end at the same tolerance, and what follows from them.
TOL, SAME = 1e-9, 1e-6
# Probabilities of EP beside exact ones, at the points below.
APPROXIMATION = 0.05


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


# ---------------------------------------------------------------------- by hand


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"label_noise": 0.1}, {"softness": 0.0, "gamma": 2.0}, {"kernel": "poly", "degree": 2},
     {"normalize_kernel": False, "kernel": "linear", "softness": 0.5}],
    ids=str,
)  # fmt: skip
def test_probabilities_and_evidence_by_hand(n_classes, settings):
    X, y, new, labels = flowers(n_classes)
    noise = settings.get("label_noise", 0.0)
    if noise:  # with negative sites
        y = y.copy()
        y[[5, 9]] = (y[[5, 9]] + 1) % n_classes
    clf = classifier(**settings).fit(X, y)
    assert (clf.inference_, clf.inference_reason_) == ("ep", "asked for")
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
    assert_array_equal(clf.predict_proba(new).argmax(axis=1), clf.predict(new))
    assert clf.score(new, labels) > 0.85
    # The Bayes point is the mean, of unit length; the order of the rows is that of the support.
    gram = softened_gram(clf, X)
    for machine, post in enumerate(posts):
        coef = np.zeros(len(X))
        coef[clf.support_] = clf.dual_coef_[machine]
        assert coef @ gram @ coef == pytest.approx(1)
        assert coef @ gram @ post.bayes_point() == pytest.approx(1, abs=SAME)
    assert_array_equal(clf.bayes_point_error_, 0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_the_bayes_point_decides_if_asked_to(n_classes, label_noise):
    X, y, new, labels = flowers(n_classes)
    clf = classifier(decision="bayes_point", label_noise=label_noise).fit(X, y)
    outputs = by_hand(clf, new, X[clf.support_])[0] @ clf.dual_coef_.T
    outputs = outputs[:, 0] if n_classes == 2 else outputs
    assert_allclose(clf.decision_function(new), outputs, atol=1e-9)
    p = clf.predict_proba(new)
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(p.argmax(axis=1), clf.predict(new))
    assert clf.score(new, labels) > 0.85
    vote = classifier(decision="vote", label_noise=label_noise).fit(X, y)
    assert np.mean(vote.predict(new) == clf.predict(new)) > 0.95
    assert clf.log_evidence_ == vote.log_evidence_
    small = clf.compress(tol=0.3)
    assert len(small.support_) < len(clf.support_)
    assert np.abs(small.decision_function(new) - clf.decision_function(new)).max() < 0.3


def test_auto_is_a_vote_in_closed_form():
    """Not that of the draws: as many as one likes change nothing."""
    X, y, new, _ = flowers(3)
    p = classifier().fit(X, y).predict_proba(new)
    assert_array_equal(classifier(decision="vote", n_draws=50).fit(X, y).predict_proba(new), p)
    assert_array_equal(classifier(random_state=7).fit(X, y).predict_proba(new), p)
    spans = classifier(decision="span_vote", n_draws=50).fit(X, y)
    assert_allclose(spans.predict_proba(new).sum(axis=1), 1)
    assert not np.allclose(spans.predict_proba(new), p, atol=0.01)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_it_agrees_with_the_billiard(label_noise):
    X, y, new, _ = flowers(2, step=6)
    settings = {"label_noise": label_noise, "gamma": 0.5, "softness": 0.3}
    flown = classifier(**settings, inference="billiard", n_draws=2000, tol=0).fit(X, y)
    clf = classifier(**settings).fit(X, y)
    p, q = (one.predict_proba(new)[:, 1] for one in (flown, clf))
    assert np.abs(p - q).max() < APPROXIMATION
    assert np.abs(p - 0.5).max() > 5 * APPROXIMATION
    assert_allclose(clf.label_error_proba_, flown.label_error_proba_, atol=APPROXIMATION)


def test_far_from_all_data_it_does_not_know():
    X, y, *_ = flowers(2)
    clf = classifier(bias=0.0).fit(X, y)
    assert_allclose(clf.predict_proba(np.full((1, 4), 50.0)), 0.5, atol=1e-12)


@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
def test_layouts_of_the_same_kernel_agree(decision):
    X, y, new, _ = flowers(3)
    settings = {"decision": decision, "gamma": 0.4, "bias": 0.0}
    p = classifier(**settings).fit(X, y).predict_proba(new)
    sparse = classifier(**settings).fit(sp.csr_matrix(X), y)
    assert_allclose(sparse.predict_proba(sp.csr_matrix(new)), p, atol=SAME)
    called = classifier(**settings, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.4)).fit(X, y)
    assert_allclose(called.predict_proba(new), p, atol=SAME)
    given = classifier(**settings, kernel="precomputed").fit(rbf_kernel(X, gamma=0.4), y)
    cross = rbf_kernel(new, X, gamma=0.4)
    # The link of the Bayes point is made of random folds, in the order of the points.
    error = SAME if decision == "vote" else 0.05
    assert_allclose(given.predict_proba(cross), p, atol=error)
    single = classifier(**settings).fit(X.astype(np.float32), y)
    error = 1e-4 if decision == "vote" else 0.05
    assert_allclose(single.predict_proba(new.astype(np.float32)), p, atol=error)


def test_class_weights_shift_the_probabilities():
    X, y, new, _ = flowers(3)
    plain = classifier().fit(X, y).predict_proba(new)
    weighted = classifier(class_weight={0: 1.0, 1: 1.0, 2: 5.0}).fit(X, y).predict_proba(new)
    expected = plain * [1.0, 1.0, 5.0]
    assert_allclose(weighted, expected / expected.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_weights_are_copies(label_noise):
    X, y, new, _ = flowers(3)
    weight = 1.0 + np.arange(len(y)) % 3
    weight[4] = 0.0
    settings = {"gamma": 0.3, "label_noise": label_noise}
    weighted = classifier(**settings).fit(X, y, weight)
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    copied = classifier(**settings).fit(X[copies], y[copies])
    assert_allclose(weighted.predict_proba(new), copied.predict_proba(new), atol=SAME)
    assert weighted.log_evidence_ == pytest.approx(copied.log_evidence_, abs=SAME)
    assert_allclose(weighted.label_error_proba_[copies], copied.label_error_proba_, atol=SAME)
    assert np.isnan(weighted.label_error_proba_[4])
    without = classifier(**settings).fit(X, y)
    assert np.allclose(without.predict_proba(new), copied.predict_proba(new), atol=SAME) == (
        label_noise == 0 and not np.any(weight == 0)
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("softness", [0.0, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_parts_of_copies_count_for_less(share, softness):
    """Weights below one: between no label and one."""
    X, y, new, _ = flowers(2)
    one, part = (classifier(softness=softness).fit(X, y, w) for w in (1.0, share))
    for clf in (one, part):
        assert np.all(np.isfinite(clf.predict_proba(new)))
        assert clf.log_evidence_ < 0
    sure, less = (np.abs(clf.predict_proba(new)[:, 1] - 0.5) for clf in (one, part))
    if softness == 0:
        assert_allclose(less, sure, atol=1e-12)
    elif np.all(part.diagnostics_["converged"]):
        assert np.all(less < sure)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_small_weights_and_little_softness_are_usable():
    X = np.random.default_rng(0).normal(size=(20, 2))
    clf = classifier(gamma=1.0, softness=0.01).fit(X, X[:, 0] > 0, 0.1)
    assert np.all(np.isfinite(clf.predict_proba(X)))
    assert clf.log_evidence_ < 0


def test_the_evidence_of_copies_with_noise_is_that_of_all_of_them():
    """A point twice, by hand: sites of both, or one of its weight."""
    X, y, *_ = flowers(2)
    X, y = np.append(X, X[:3], axis=0), np.append(y, y[:3])
    clf = classifier(gamma=0.3, softness=0.0, label_noise=0.1).fit(X, y)
    space = VersionSpace(by_hand(clf, X, X)[0], np.where(y == 1, 1, -1))
    apart = expectation_propagation(space, label_noise=0.1, tol=1e-6)
    # Two approximations of one model: their evidence is nearly the same.
    assert clf.log_evidence_ == pytest.approx(apart.log_evidence, abs=0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
@pytest.mark.parametrize("label_noise", [0.01, 0.05])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
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


def test_rates_of_classes():
    X, y, new, _ = flowers(3)
    one = classifier(label_noise=[0.0, 0.1, 0.2]).fit(X, y)
    other = classifier(label_noise={1: 0.1, 2: 0.2}).fit(X, y)
    assert_array_equal(one.predict_proba(new), other.predict_proba(new))
    assert_array_equal(one.label_noise_, [0.0, 0.1, 0.2])
    assert np.all(one.label_error_proba_ <= 1)


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


def test_other_methods_have_no_evidence():
    X, y, *_ = flowers(2)
    clf = classifier(inference="perceptron").fit(X, y)
    assert not hasattr(clf, "log_evidence_")
    assert hasattr(clf.set_params(inference="ep").fit(X, y), "log_evidence_")


# ---------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_warm_start_takes_other_settings(n_classes):
    X, y, new, _ = flowers(n_classes)
    clf = classifier(warm_start=True, gamma=0.3, tol=1e-4).fit(X, y)
    sweeps = np.zeros(2, dtype=int)
    for change in ({"gamma": 0.33}, {"softness": 0.12}, {"label_noise": 0.05}, {"bias": 1.2}):
        clf.set_params(**change).fit(X, y)
        anew = clone(clf).set_params(warm_start=False).fit(X, y)
        assert_allclose(clf.predict_proba(new), anew.predict_proba(new), atol=1e-3)
        assert clf.log_evidence_ == pytest.approx(anew.log_evidence_, abs=1e-5)
        sweeps += [one.diagnostics_["sweeps"].sum() for one in (clf, anew)]
    assert sweeps[0] < sweeps[1]
    assert np.all(clf.fit(X, y).diagnostics_["sweeps"] == 1)
    clf.set_params(n_draws=20).fit(X, y)
    assert clf.n_draws_ == 20
    assert clf.posterior(0).n_draws == 20


def test_a_warm_start_refuses_other_data_and_methods():
    X, y, new, _ = flowers(3)
    clf = classifier(warm_start=True).fit(X, y)
    p = clf.predict_proba(new)
    for X_other, y_other, weight in [(X + 1, y, None), (X, np.roll(y, 1), None), (X, y, 1.0 + y)]:
        with pytest.raises(ValueError, match=r"warm_start=True.*X, y or sample_weight"):
            clf.fit(X_other, y_other, weight)
    with pytest.raises(ValueError, match=r"warm_start=True.*inference"):
        clf.set_params(inference="billiard").fit(X, y)
    assert_array_equal(clf.predict_proba(new), p)
    perceptron = classifier(inference="perceptron", warm_start=True, tol=0).fit(X, y)
    with pytest.raises(ValueError, match=r"warm_start=True.*inference"):
        perceptron.set_params(inference="ep").fit(X, y)


# ---------------------------------------------------------------------- draws, labels, queries


@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_draws_and_samples(n_classes, decision):
    X, y, new, _ = flowers(n_classes)
    clf = classifier(n_draws=40, decision=decision, softness=0.3).fit(X, y)
    gram = softened_gram(clf, X)
    for machine in range(1 if n_classes == 2 else 3):
        posterior = clf.posterior(machine)
        assert (posterior.n_draws, posterior.n_chains) == (40, 1)
        assert_allclose(np.einsum("ij,jk,ik->i", posterior.coef, gram, posterior.coef), 1)
        assert_allclose(posterior.outputs, (posterior.coef @ gram)[:, posterior.points], atol=1e-8)
        assert posterior.info["converged"]
        centre = posterior.bayes_point()
        assert_allclose(centre[clf.support_], clf.dual_coef_[machine], atol=1e-12)
    p = clf.sample_proba(new, 200, random_state=0)
    assert p.shape == (200, len(new), n_classes)
    assert_allclose(p.sum(axis=2), 1)
    assert np.ptp(p, axis=0).max() > 0.1
    if decision == "vote":  # members share what all know
        assert_allclose(p.mean(axis=0), clf.predict_proba(new), atol=0.1)
    with pytest.raises(ValueError, match="i must be a whole number"):
        clf.posterior(5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_of_wrong_labels_by_hand(n_classes):
    X, y, *_ = flowers(n_classes)
    y = y.copy()
    y[5] = (y[5] + 1) % n_classes
    clf = classifier(label_noise=0.1).fit(X, y)
    yes = []
    for target, post in zip(signed_labels(clf, y), posteriors(clf, X, y, 0.1), strict=True):
        wrong = post.wrong_label_proba()
        yes.append(np.where(target > 0, 1 - wrong, wrong))
    votes = [1 - yes[0], yes[0]] if n_classes == 2 else yes
    p = np.exp(combine_votes(np.stack(votes, axis=-1), 0.0))
    expected = 1 - p[np.arange(len(y)), y]
    assert_allclose(clf.label_error_proba_, expected, atol=SAME)
    assert np.argmax(clf.label_error_proba_) == 5
    point = classifier(label_noise=0.1, decision="bayes_point").fit(X, y)
    assert_allclose(point.label_error_proba_, clf.label_error_proba_, atol=1e-12)


@pytest.mark.parametrize("strategy", ["entropy", "bald"])
@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
def test_queries(strategy, decision):
    X, y, new, _ = flowers(3)
    clf = classifier(n_draws=40, decision=decision, label_noise=0.05).fit(X, y)
    pool = np.concatenate([new, new])
    chosen = active.query(clf, pool, 6, strategy=strategy, random_state=0)
    assert len(np.unique(chosen % len(new))) == 6
    values = active.utilities(clf, pool, strategy=strategy, random_state=0)
    assert np.all(np.isfinite(values))
    assert values[chosen[0]] == pytest.approx(values.max())


def test_the_covariance_of_queries_is_that_of_the_gaussians():
    X, y, new, _ = flowers(3)
    y = np.where(np.arange(len(y)) == 5, (y + 1) % 3, y)
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


# ---------------------------------------------------------------------- limits and travel


@pytest.mark.parametrize(
    ("n_classes", "decision", "bytes_an_entry"),
    [(2, "vote", 64), (3, "vote", 96), (3, "bayes_point", 48)],
)
def test_too_little_memory_is_one_clear_error(n_classes, decision, bytes_an_entry):
    X, y, *_ = flowers(n_classes)
    enough = bytes_an_entry * len(X) ** 2 / 1e6
    message = r"inference='ep'.*needs .* MB.*cache_size=.*Raise cache_size, or use"
    with pytest.raises(ValueError, match=message):
        classifier(decision=decision, cache_size=0.99 * enough).fit(X, y)
    assert classifier(decision=decision, cache_size=1.001 * enough).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
def test_max_time_leaves_a_usable_fit(decision):
    X, y, new, labels = flowers(3)
    clf = classifier(max_time=1e-6, decision=decision)
    with pytest.warns(ConvergenceWarning, match=r"against the rest did not converge") as caught:
        clf.fit(X, y)
    assert ["for class 0" in str(one.message) for one in caught] == [True, False, False]
    assert not np.any(clf.diagnostics_["converged"])
    assert np.all(np.isfinite(clf.predict_proba(new)))
    assert clf.score(new, labels) > 0.7


@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
def test_ctrl_c_leaves_a_usable_fit(decision, monkeypatch):
    X, y, new, labels = flowers(3)
    look = gaussian_sites._look

    def interrupted(*arguments):
        monkeypatch.setattr(gaussian_sites, "_look", look)
        signal.raise_signal(signal.SIGINT)
        return look(*arguments)

    monkeypatch.setattr(gaussian_sites, "_look", interrupted)
    clf = classifier(decision=decision)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert np.all(clf.diagnostics_["sweeps"] == 1)
    assert np.all(np.isfinite(clf.predict_proba(new)))
    assert clf.score(new, labels) > 0.7


@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_threads_change_nothing(decision, label_noise):
    X, y, new, _ = flowers(3)
    one, two = (
        classifier(n_jobs=n, decision=decision, label_noise=label_noise).fit(X, y) for n in (1, 2)
    )
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert_array_equal(one.predict_proba(new), two.predict_proba(new))
    assert_array_equal(one.posterior(1).coef, two.posterior(1).coef)
    assert one.log_evidence_ == two.log_evidence_


@pytest.mark.parametrize("decision", ["vote", "bayes_point"])
def test_fitted_objects_are_plain_and_travel(decision):
    X, y, new, _ = flowers(3)
    clf = classifier(decision=decision, label_noise=[0.1, 0.0, 0.2]).fit(X, y)
    assert not unusual(vars(clf), "clf")
    for one in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):
        assert_array_equal(one.predict_proba(new), clf.predict_proba(new))
        assert_array_equal(one.posterior(1).coef, clf.posterior(1).coef)
        assert one.log_evidence_ == clf.log_evidence_
    before = joblib.hash(vars(clf))
    clf.predict(new), clf.posterior(0), clf.sample_proba(new), clf.label_error_proba_
    assert joblib.hash(vars(clf)) == before
    loaded = pickle.loads(pickle.dumps(clf)).set_params(warm_start=True).fit(X, y)
    assert np.all(loaded.diagnostics_["sweeps"] == 1)


def test_a_grid_of_settings():
    X, y, *_ = flowers(3)
    grid = {"inference": ["ep", "perceptron"], "softness": [0.1, 0.5]}
    search = GridSearchCV(classifier(tol=1e-3), grid, cv=2).fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] > 0.8)
