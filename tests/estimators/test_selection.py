"""Settings chosen from the training data: gradients, objectives by hand, recovery, and contract."""

import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, ndtr
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, VersionSpace
from bayespoint.estimators import calibration, selection
from bayespoint.estimators import settings as settling
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.selection import (
    PRIORS,
    Candidate,
    choose,
    choose_by_errors,
    choose_held_out,
)
from bayespoint.inference import expectation_propagation
from bayespoint.inference.ep.sites import Likelihood, held_out_scores, propagate
from bayespoint.space.decisions import combine_votes, fit_steepness, sharpen
from bayespoint.space.host import Host
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel, scale_gamma

# Sites are followed to here where numbers are compared, and two ways to them agree to this.
PRECISE, SAME = 1e-9, 1e-6
# Central differences of a function known to 1e-9 or so: 1e-9 / STEP, and the square of STEP.
STEP, DIFFERENCE = 1e-3, 1e-4
# Nats that a search may miss of the best of a grid: far less than labels tell.
NEARLY = {"evidence": 0.1, "held-out": 0.3}
# Values of the data that classes are drawn with.
FIXED = {"gamma": "scale", "softness": 0.1, "bias": 1.0}
ALL = ("gamma", "bias", "softness", "label_noise")


@pytest.fixture
def precise(monkeypatch):
    monkeypatch.setattr(selection, "SITE_TOLERANCE", PRECISE)


def clouds(n=30, n_classes=2, seed=0, apart=1.0, wrong=0.0):
    """Overlapping clouds in the plane; some labels at random."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % n_classes
    angle = 2 * np.pi * label / n_classes
    X = rng.normal(size=(n, 2)) + apart * np.column_stack([np.cos(angle), np.sin(angle)])
    random = rng.random(n) < wrong
    return X, np.where(random, rng.integers(n_classes, size=n), label)


def problem(
    n_classes=2, *, weighted=False, kernel="rbf", settings=None, n=24, wrong=0.1, apart=1.0
):  # fmt: skip
    """Arguments of a search but the names, and the unit of gamma."""
    X, label = clouds(n, n_classes, wrong=wrong, apart=apart)
    weight = 1.0 + np.arange(n) % 3 if weighted else np.ones(n)
    settings = settings or Candidate(0.7, 0.8, 0.3, 0.05)
    return SimpleNamespace(
        given=(Kernel(kernel, degree=2), X, label, weight, settings), scale=0.5,
    )  # fmt: skip


def search_of(kind, where, names, **options):
    search = kind(*where.given, names, where.scale, None)
    for name, value in options.items():
        setattr(search, name, value)
    return search


def classifier(**settings):
    return BayesPointClassifier(
        **{"inference": "ep", "n_draws": 4, "random_state": 0, **FIXED, **settings}
    )


def usable(clf, X):
    """Whether settings and predictions are numbers."""
    settings = [clf.gamma_, clf.bias_, clf.softness_, clf.label_noise_]
    assert np.all(np.isfinite(np.hstack(settings)))
    p = clf.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1)
    return np.all(p >= 0)


def settings_of(clf):
    return np.hstack([clf.gamma_, clf.bias_, clf.softness_, clf.label_noise_])


# ---------------------------------------------------------------------- objectives


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("kernel", "names", "fixed"),
    [
        ("rbf", ALL, Candidate(1.0, 1.0, 1.0, 0.0)),
        ("poly", ("gamma", "bias"), Candidate(1.0, 1.0, 0.4, np.array([0.0, 0.1, 0.2]))),
        ("rbf", ("label_noise", "gamma"), Candidate(1.0, 0.5, 0.0, 0.0)),
        ("rbf", ("softness",), Candidate(0.3, 0.5, 1.0, 0.1)),
    ],
    ids=str,
)
@pytest.mark.usefixtures("precise")
def test_gradients_are_those_of_differences(kernel, names, fixed, n_classes, weighted):
    if np.ndim(fixed.label_noise):
        fixed = fixed._replace(label_noise=fixed.label_noise[:n_classes])
    # Without softness wrong labels would bound sites, and there would be no gradient.
    where = problem(
        n_classes, weighted=weighted, kernel=kernel, settings=fixed, n=15,
        wrong=0.1 if fixed.softness else 0.0, apart=1.0 if fixed.softness else 2.0,
    )  # fmt: skip
    search = search_of(selection._Evidence, where, names)
    point = np.array([PRIORS[name][0] for name in names]) + 0.3
    found = search(point)[1]
    for i, name in enumerate(names):
        step = STEP * (np.arange(len(names)) == i)
        difference = (search(point + step)[0] - search(point - step)[0]) / (2 * STEP)
        assert found[i] == pytest.approx(difference, abs=DIFFERENCE), name
        assert abs(found[i]) > 10 * DIFFERENCE, name


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.usefixtures("precise")
def test_the_evidence_is_that_of_all_machines(n_classes):
    where = problem(n_classes)
    kernel, X, label, _, settings = where.given
    search = search_of(selection._Evidence, where, ("gamma", "label_noise"))
    point = np.array([0.4, -2.0])
    chosen = search.settings(point)
    assert chosen.gamma == pytest.approx(where.scale * np.exp(0.4))
    assert chosen.label_noise == pytest.approx(expit(-2.0))
    assert chosen[1:3] == settings[1:3]
    K = kernel.with_settings(chosen.gamma, chosen.bias)(X)
    total = 0.0
    for machine in [1] if n_classes == 2 else range(3):
        own = label == machine
        space = VersionSpace(K, np.where(own, 1, -1), chosen.softness)
        rates = np.where(own, 1, 1 / (n_classes - 1)) * chosen.label_noise
        total += expectation_propagation(space, label_noise=rates, tol=PRECISE).log_evidence
    assert search._log_evidence(chosen)[0] == pytest.approx(total, abs=SAME)
    away = [0.4 / 2.5, (-2.0 - PRIORS["label_noise"][0]) / 1.5]
    assert search(point)[0] == pytest.approx(-total + 0.5 * np.dot(away, away), abs=SAME)


def held_out_by_hand(where, settings, noise):
    """From dense matrices, and the best of a fine grid of steepness."""
    kernel, X, label, weight, _ = where.given
    n_classes = label.max() + 1
    K = kernel.with_settings(settings.gamma, settings.bias)(X)
    scores = []
    for machine in [1] if n_classes == 2 else range(n_classes):
        own = label == machine
        rates = np.where(own, 1, 1 / (n_classes - 1)) * settings.label_noise
        space = VersionSpace(K, np.where(own, 1, -1), settings.softness)
        tau, nu = expectation_propagation(space, label_noise=rates, tol=PRECISE).sites
        covariance = np.linalg.solve(np.eye(len(K)) + K * tau, K)
        variance = 1 / (1 / covariance.diagonal() - tau)
        mean = variance * (covariance @ nu / covariance.diagonal() - nu)
        scores.append(mean / np.sqrt(variance + settings.softness * K.diagonal()))
    values = []
    for log_kappa in np.arange(-2, 2, 1e-3):
        kappa = np.exp(log_kappa)
        if n_classes == 2:
            p = ndtr(kappa * np.where(label == 1, 1, -1) * scores[0])
        else:
            powers = ndtr(np.array(scores)) ** kappa
            p = powers[label, np.arange(len(label))] / powers.sum(axis=0)
        p = (1 - noise) * p + noise / (n_classes - 1) * (1 - p)
        values.append(weight @ np.log(p) - 0.5 * (log_kappa / 0.5) ** 2)
    return np.max(values)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.usefixtures("precise")
def test_the_probability_of_held_out_labels_by_hand(n_classes, noise):
    where = problem(n_classes, settings=Candidate(0.7, 0.8, 0.3, noise))
    search = search_of(selection._HeldOut, where, ("gamma", "softness"), noise=noise)
    point = np.array([-0.5, -0.7])
    expected = held_out_by_hand(where, search.settings(point), noise)
    assert search._log_probability(search.settings(point)) == pytest.approx(expected, abs=1e-5)
    away = (point - [0.0, np.log(0.3)]) / 2.5
    assert search(point) == pytest.approx(-expected + 0.5 * away @ away, abs=1e-5)
    assert search.best_value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["evidence", "held-out"])
@pytest.mark.usefixtures("precise")
def test_weights_are_rows_written_out(kind, n_classes):
    where = problem(n_classes, weighted=True)
    kernel, X, label, weight, settings = where.given
    row = np.repeat(np.arange(len(label)), weight.astype(int))
    written = SimpleNamespace(
        given=(kernel, X[row], label[row], np.ones(len(row)), settings), scale=where.scale
    )
    found = []
    for one in (where, written, problem(n_classes)):
        if kind == "evidence":
            found.append(search_of(selection._Evidence, one, ALL)(np.full(4, -0.5))[0])
        else:
            options = {"noise": 0.05, "alone": False}  # one row is left out
            search = search_of(selection._HeldOut, one, ("gamma", "softness"), **options)
            found.append(search(np.full(2, -0.5)))
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert abs(found[2] - found[1]) > 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["evidence", "held-out"])
def test_the_chosen_settings_are_as_good_as_the_best_of_a_grid(kind, n_classes):
    where, names = problem(n_classes, n=40), ("gamma", "softness")
    if kind == "evidence":
        chosen = choose(*where.given, names, scale=where.scale)
        search = search_of(selection._Evidence, where, names)
        loss = lambda point: search(point)[0]  # noqa: E731
    else:
        chosen = choose_held_out(*where.given, names, scale=where.scale, noise=0.05)
        loss = search = search_of(selection._HeldOut, where, names, noise=0.05)
    point = np.log([chosen.settings.gamma / where.scale, chosen.settings.softness])
    found, value = loss(point), search.best_value
    assert value == pytest.approx(chosen.log_evidence, abs=0.05)  # sites from elsewhere
    grid = [loss(np.array([g, s])) for g in (-3, -1.5, 0, 1.5, 3) for s in (-4, -2.5, -1, 0.5, 2)]
    assert found < min(grid) + NEARLY[kind]
    assert max(grid) > found + 2
    assert chosen.n_evaluations < 60


def test_copies_do_not_give_labels_away():
    """Where equal rows agree they are left out together, or copies make narrow kernels win."""
    X, y = make_moons(100, noise=0.25, random_state=0)
    once, twice, weighted = (
        classifier(gamma="held-out", softness="held-out", decision="calibrated").fit(*data)
        for data in ((X, y), (np.repeat(X, 2, axis=0), np.repeat(y, 2)), (X, y, np.full(100, 5.0)))
    )
    for clf in (twice, weighted):
        assert 0.2 < clf.gamma_ / once.gamma_ < 8  # with one copy left out 40 to 100
    one_copy = held_out_scores_of(twice, X, y, alone=False)
    assert np.mean(one_copy * np.where(y == 1, 1, -1) < 0) < 0.5 * np.mean(
        held_out_scores_of(twice, X, y, alone=True) * np.where(y == 1, 1, -1) < 0
    )


def held_out_scores_of(clf, X, y, alone):
    """Scores of rows that are there twice, with a kernel that knows rows by heart."""
    K = Kernel("rbf", gamma=1000.0, bias=1.0)(X)
    m = len(y)
    likelihood = Likelihood(
        np.where(y == 1, 1.0, -1.0), np.full(m, clf.softness_), np.full(m, np.inf), np.zeros(m),
        np.full(m, 2.0),
    )  # fmt: skip
    return held_out_scores(propagate(K, likelihood), likelihood, alone)


def test_copies_of_contested_points_are_left_out_one_at_a_time():
    """Rows of a few values with both labels: their shares count, and a new row may be equal."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 1)).astype(float)
    y = (rng.random(200) < np.array([0.2, 0.5, 0.8])[X[:, 0].astype(int)]).astype(int)
    p = classifier(gamma="held-out", softness="held-out", decision="calibrated").fit(X, y)
    shares = [y[X[:, 0] == value].mean() for value in range(3)]
    assert_allclose(p.predict_proba([[0.0], [1.0], [2.0]])[:, 1], shares, atol=0.1)


# ---------------------------------------------------------------------- recovery

# Chosen settings and true ones, in the median over a few draws of the data.
WITHIN = 2.5


def drawn(seed, gamma, softness, n=150, *, shuffled=False):
    """Labels from the model itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    K = rbf_kernel(X, gamma=gamma) + 1e-9 * np.eye(n)
    f = np.linalg.cholesky(K) @ rng.normal(size=n) + np.sqrt(softness) * rng.normal(size=n)
    label = (f > np.median(f)).astype(int)
    return X, rng.permutation(label) if shuffled else label


def recovered(search, gamma, softness, **options):
    found = []
    for seed in range(5):
        X, label = drawn(seed, gamma, softness, **options)
        chosen = search(
            Kernel("rbf"), X, label, np.ones(len(X)), Candidate(1.0, 0.0, 0.1, 0.0),
            ("gamma", "softness"), scale=0.5,
        )  # fmt: skip
        found.append(chosen.settings)
    return np.median([s.gamma for s in found]), np.median([s.softness for s in found])


@pytest.mark.parametrize(("gamma", "softness"), [(0.5, 0.1), (2.0, 0.1), (0.5, 1.0)])
def test_the_evidence_finds_the_settings_that_labels_were_drawn_with(gamma, softness):
    found = recovered(choose, gamma, softness)
    assert 1 / WITHIN < found[0] / gamma < WITHIN
    assert 1 / WITHIN < found[1] / softness < WITHIN


def test_labels_at_random_have_a_large_softness():
    """A negative control."""
    assert recovered(choose, 0.5, 0.1, shuffled=True)[1] > 10 * 0.1


# ---------------------------------------------------------------------- the classifier


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("names", [*((name,) for name in ALL), ALL], ids=str)
def test_settings_by_evidence(names, n_classes):
    X, y = clouds(40, n_classes, wrong=0.1)
    given = FIXED | {"label_noise": 0.05}
    clf = classifier(**given | dict.fromkeys(names, "evidence")).fit(X, y)
    assert usable(clf, X)
    for name in ALL:
        value = getattr(clf, f"{name}_")
        assert isinstance(value, float)
        usual = scale_gamma(2, X.var()) if name == "gamma" else given[name]
        assert (value == pytest.approx(usual, rel=1e-6)) == (name not in names)
    # Better than where the search begins; priors are 0 there.
    start = {
        "gamma": "scale", "bias": 1.0, "softness": 0.3, "label_noise": 0.02
    }  # fmt: skip
    plain = classifier(**given | {name: start[name] for name in names}).fit(X, y)
    assert clf.log_evidence_ > plain.log_evidence_
    again = classifier(**given | {name: getattr(clf, f"{name}_") for name in ALL}).fit(X, y)
    assert clf.log_evidence_ == pytest.approx(again.log_evidence_, abs=SAME)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_labels_at_random_have_a_rate_of_errors(seed, n_classes):
    """However little they have to do with the points, rates stay below one half."""
    X, y = clouds(30, n_classes, seed, wrong=1.0)
    clf = classifier(gamma=0.1, label_noise="evidence").fit(X, y)
    assert usable(clf, X)
    assert 0 < clf.label_noise_ < 0.5


def test_draws_added_later_have_the_settings_of_the_first():
    X, y = clouds(30, wrong=0.1)
    clf = classifier(
        inference="billiard", gamma="evidence", label_noise="evidence", warm_start=True
    ).fit(X, y)
    before, evidence = settings_of(clf), clf.log_evidence_
    clf.set_params(n_draws=8).fit(X, y)
    assert clf.n_draws_ == 8
    assert_array_equal(settings_of(clf), before)
    assert clf.log_evidence_ == evidence


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "names", [("gamma",), ("softness",), ("gamma", "softness")], ids=str
)  # fmt: skip
def test_settings_by_held_out_labels(names, n_classes):
    X, y = clouds(40, n_classes, wrong=0.1)
    clf = classifier(**dict.fromkeys(names, "held-out")).fit(X, y)
    assert usable(clf, X)
    assert (clf.gamma_ == pytest.approx(scale_gamma(2, X.var()))) == ("gamma" not in names)
    assert (clf.softness_ == 0.1) == ("softness" not in names)
    assert clf.bias_ == 1.0
    assert clf.label_noise_ == 0.0


def test_settings_by_evidence_and_by_held_out_labels():
    """What the evidence chooses takes no notice of what held-out labels choose later."""
    X, y = clouds(40, wrong=0.1)
    both = classifier(gamma="evidence", softness="evidence", label_noise="evidence").fit(X, y)
    mixed = classifier(gamma="evidence", softness="held-out", label_noise="evidence").fit(X, y)
    assert usable(mixed, X)
    assert_allclose(mixed.gamma_, both.gamma_, rtol=0.05)
    assert_allclose(mixed.label_noise_, both.label_noise_, rtol=0.05)
    assert mixed.softness_ != both.softness_
    other = classifier(gamma="held-out", softness="evidence", bias="evidence").fit(X, y)
    assert usable(other, X)
    assert other.bias_ != 1.0


@pytest.mark.parametrize("inference", ["billiard", "gibbs", "perceptron"])
def test_other_methods_take_settings_from_the_evidence(inference):
    X, y = clouds(30, apart=2.0)
    clf = classifier(inference=inference, gamma="evidence", softness="evidence").fit(X, y)
    by_ep = classifier(gamma="evidence", softness="evidence", tol=1e-6).fit(X, y)
    assert_allclose(settings_of(clf), settings_of(by_ep))
    assert clf.log_evidence_ == pytest.approx(by_ep.log_evidence_, abs=0.01)
    assert usable(clf, X)


def test_defaults():
    X, y = clouds(30, 3, apart=2.0)
    clf = BayesPointClassifier(random_state=0).fit(X, y)
    assert (clf.inference_, clf.decision_) == ("ep", "calibrated")
    assert clf.bias_ == 0.0  # each class has its own noise
    assert usable(clf, X)
    assert BayesPointClassifier(kernel="linear", random_state=0).fit(X, y).bias_ == 1.0
    assert BayesPointClassifier(random_state=0).fit(X, y == 1).bias_ == 1.0
    assert clf.score(X, y) > 0.8


# ---------------------------------------------------------------------- many points


def test_a_part_of_many_points_has_all_classes_in_proportion():
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat([0, 1, 2, 3], [3000, 1500, 497, 3]))
    chosen = selection.evidence_points(label, 7)
    assert len(np.unique(chosen)) == len(chosen) <= selection.EVIDENCE_POINTS + 1
    assert_array_equal(chosen, np.sort(chosen))
    assert_array_equal(np.bincount(label[chosen]), [300, 150, 49, 1])
    assert_array_equal(selection.evidence_points(label, 7), chosen)
    assert not np.array_equal(selection.evidence_points(label, 8), chosen)
    assert_array_equal(selection.evidence_points(label[:500], 7), np.arange(500))


@pytest.mark.parametrize("name", ["choose", "choose_held_out"])
def test_settings_are_those_of_a_part_of_the_points(name, monkeypatch):
    X, y = clouds(60, 3, apart=2.0)
    part = partial(selection.evidence_points, most=24)
    original, seen = getattr(settling, name), []

    def watched(kernel, X, label, weight, *arguments, **options):
        seen.append(label)
        assert X.shape[0] == len(label) == len(weight)
        return original(kernel, X, label, weight, *arguments, **options)

    monkeypatch.setattr(settling, "evidence_points", part)
    monkeypatch.setattr(settling, name, watched)
    value = "evidence" if name == "choose" else "held-out"
    found = [
        classifier(gamma=value, softness=value, random_state=seed).fit(X, y) for seed in (0, 0, 1)
    ]
    assert_array_equal(np.bincount(seen[0]), [8, 8, 8])
    assert_array_equal(settings_of(found[0]), settings_of(found[1]))
    assert found[0].gamma_ != found[2].gamma_


# ---------------------------------------------------------------------- unusual data


def unusual(name):
    rng = np.random.default_rng(0)
    X, y = clouds(24, apart=1.5)
    clf = partial(classifier, gamma="held-out", softness="held-out")
    chosen = {
        "constant columns": lambda: (np.column_stack([X, np.ones(24), np.zeros(24)]), y, {}),
        "duplicates": lambda: (np.repeat(X, 3, axis=0), np.repeat(y, 3), {}),
        "contradictory duplicates": lambda: (
            np.repeat(X, 2, axis=0),
            np.where(np.arange(48) < 6, np.arange(48) % 2, np.repeat(y, 2)), {},
        ),
        "one point of a class": lambda: (X, (np.arange(24) == 3).astype(int), {}),
        "one point of one class of three": lambda: (X, np.where(np.arange(24) == 3, 2, y), {}),
        "three points": lambda: (X[:3], y[:3], {}),
        "two points": lambda: (X[:2], y[:2], {}),
        "precomputed": lambda: (rbf_kernel(X), y, {"kernel": "precomputed"}),
        "callable": lambda: (X, y, {"kernel": rbf_kernel}),
        "linear": lambda: (X, y, {"kernel": "linear"}),
        "poly": lambda: (X, y, {"kernel": "poly", "degree": 2}),
        "laplacian": lambda: (X, y, {"kernel": "laplacian"}),
        "not normalised": lambda: (X, y, {"kernel": "poly", "normalize_kernel": False}),
        "sparse": lambda: (sp.csr_matrix(np.where(rng.random((24, 2)) < 0.7, X, 0.0)), y, {}),
        "float32": lambda: (X.astype(np.float32), y, {}),
        "labels at random": lambda: (X, rng.integers(2, size=24), {}),
        "equal points": lambda: (np.ones((24, 2)), y, {}),
        "strings": lambda: (X, np.array(["no", "yes"])[y], {}),
    }  # fmt: skip
    X, y, settings = chosen[name]()
    return partial(clf, **settings), X, y


UNUSUAL = [
    "constant columns", "duplicates", "contradictory duplicates", "one point of a class",
    "one point of one class of three", "three points", "two points", "precomputed", "callable",
    "linear", "poly", "laplacian", "not normalised", "sparse", "float32", "labels at random",
    "equal points", "strings",
]  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_data_have_settings(name):
    make, X, y = unusual(name)
    evidence = {"gamma": "evidence", "softness": "evidence", "bias": "evidence"}
    for settings in ({}, evidence, evidence | {"label_noise": "evidence"}):
        clf = make(**settings).fit(X, y)  # a warning would be an error
        assert usable(clf, X)
        assert clf.log_evidence_ < 0
        assert clf.softness_ > 0


@pytest.mark.parametrize("inference", ["perceptron", "billiard", "auto"])
@pytest.mark.parametrize("name", ["contradictory duplicates", "one point of a class",
                                  "three points", "precomputed", "linear", "sparse",
                                  "float32"])  # fmt: skip
def test_unusual_data_have_settings_for_other_methods(name, inference):
    make, X, y = unusual(name)
    assert usable(make(inference=inference).fit(X, y), X)


# ---------------------------------------------------------------------- stops, threads, weights


@pytest.mark.parametrize("inference", ["ep", "perceptron"])
@pytest.mark.parametrize("value", ["evidence", "held-out"])
def test_max_time_leaves_a_usable_fit(value, inference):
    X, y = clouds(40, 3, apart=2.0)
    clf = classifier(inference=inference, gamma=value, softness=value, max_time=1e-6)
    with pytest.warns(ConvergenceWarning):
        clf.fit(X, y)
    assert usable(clf, X)
    assert clf.score(X, y) > 0.5  # one of three would be chance


@pytest.mark.parametrize("inference", ["ep", "billiard", "gibbs"])
@pytest.mark.parametrize("value", ["evidence", "held-out"])
@pytest.mark.parametrize("call", [1, 12])
def test_ctrl_c_leaves_a_usable_fit(value, call, inference, monkeypatch):
    X, y = clouds(40, 3, apart=2.0)
    calls, propagate = [], selection.propagate

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return propagate(*arguments, **options)

    monkeypatch.setattr(selection, "propagate", interrupted)
    clf = classifier(inference=inference, gamma=value, softness=value)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert len(calls) <= call + 2  # the other machines
    assert usable(clf, X)
    assert clf.score(X, y) > 0.6


def test_ctrl_c_while_perceptrons_are_tried(monkeypatch):
    X, y = clouds(40, 3, apart=2.0)
    calls, original = [], calibration.out_of_fold

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return original(*arguments, **options)

    for module in (settling, calibration):  # for trials, and for the link
        monkeypatch.setattr(module, "out_of_fold", interrupted)
    clf = classifier(inference="perceptron", gamma="held-out", softness="held-out")
    with pytest.raises(KeyboardInterrupt), pytest.warns(ConvergenceWarning):
        clf.fit(X, y)
    assert len(calls) <= 3  # the last for the link
    assert usable(clf, X)


@pytest.mark.parametrize("inference", ["ep", "perceptron"])
@pytest.mark.parametrize("value", ["evidence", "held-out"])
def test_weights_as_copies_and_threads_change_nothing(value, inference):
    X, y = clouds(30, 3, apart=2.0)
    weight = 1.0 + np.arange(30) % 3
    row = np.repeat(np.arange(30), weight.astype(int))
    make = partial(classifier, inference=inference, gamma=value, softness=value)
    weighted = make().fit(X, y, weight)
    copied = make().fit(X[row], y[row])
    threads = make(n_jobs=2).fit(X, y, weight)
    assert_allclose(settings_of(weighted), settings_of(copied), rtol=1e-9)
    assert_array_equal(settings_of(weighted), settings_of(threads))
    assert_array_equal(weighted.predict_proba(X), threads.predict_proba(X))
    assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("value", ["evidence", "held-out"])
def test_weights_below_one_have_settings(value):
    X, y = clouds(30, apart=2.0)
    weight = np.where(np.arange(30) % 2, 0.4, 1.5)
    assert usable(classifier(gamma=value, softness=value).fit(X, y, weight), X)


# ---------------------------------------------------------------------- perceptrons


def never():
    return False


def test_widths_are_compared_by_their_errors():
    start, asked, dear = Candidate(9.0, 1.0, 0.1, 0.0), [], None

    def errors(settings):
        asked.append(settings)
        width = settings.gamma / 2.0
        loss = 5.0 if width == dear else 1.0
        return 0.1 + 0.02 * abs(np.log2(width)) - 0.05 * (settings.softness == 10.0), loss

    both = ("gamma", "softness")
    best = choose_by_errors(errors, start, both, scale=2.0, slack=0.0, stop=never)
    assert best == start._replace(gamma=2.0, softness=10.0)
    assert [s.gamma / 2.0 for s in asked[:7]] == list(selection.WIDTHS)
    assert [s.softness for s in asked[7:]] == [1.0, 10.0]  # 0.1 is known
    # Narrower where the difference is within the slack.
    for slack, width in [(0.021, 2.0), (0.041, 4.0), (1.0, 8.0)]:
        best = choose_by_errors(errors, start, ("gamma",), scale=2.0, slack=slack, stop=never)
        assert best == start._replace(gamma=2.0 * width)
    dear = 8.0  # unless its probabilities are far worse
    best = choose_by_errors(errors, start, ("gamma",), scale=2.0, slack=1.0, stop=never)
    assert best == start._replace(gamma=2.0 * 4.0)
    best = choose_by_errors(errors, start, ("softness",), scale=2.0, slack=0.0, stop=never)
    assert best == start._replace(softness=10.0)


@pytest.mark.parametrize("names", [("gamma",), ("softness",), ("gamma", "softness")], ids=str)
def test_without_time_one_setting_is_tried(names):
    asked = []
    start = Candidate(1.0, 1.0, 0.1, 0.0)

    def errors(settings):
        asked.append(settings)
        return 0.5, 1.0

    best = choose_by_errors(errors, start, names, scale=2.0, slack=0.0, stop=lambda: True)
    assert asked == [best]


def test_perceptrons_choose_a_width_that_fits():
    """Four clouds like a chessboard: far too wide a kernel makes errors."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(120, 2))
    y = (np.floor(X) % 2).sum(axis=1) == 1
    make = partial(classifier, inference="perceptron", n_draws=10)
    clf = make(gamma="held-out", softness="held-out").fit(X, y)
    scale = scale_gamma(2, X.var())
    assert np.any(np.isclose(clf.gamma_ / scale, selection.WIDTHS))
    assert clf.gamma_ > 2 * scale
    assert clf.softness_ in selection.SOFTNESS
    assert not hasattr(clf, "log_evidence_")
    X_new = rng.uniform(-2, 2, size=(300, 2))
    new = (np.floor(X_new) % 2).sum(axis=1) == 1
    assert clf.score(X_new, new) > make(gamma=0.25 * scale).fit(X, y).score(X_new, new) + 0.05


def test_the_narrower_width_is_for_parts_of_the_points(monkeypatch):
    X, y = clouds(60, apart=2.0)
    original, slacks = settling.choose_by_errors, []

    def watched(*arguments, slack, **options):
        slacks.append(slack)
        return original(*arguments, slack=slack, **options)

    monkeypatch.setattr(settling, "choose_by_errors", watched)
    make = partial(classifier, inference="perceptron", gamma="held-out")
    make().fit(X, y)
    monkeypatch.setattr(calibration, "LINK_POINTS", 20)
    assert usable(make().fit(X, y), X)
    assert slacks == [0.0, pytest.approx(settling.SLACK / np.sqrt(20))]


# ---------------------------------------------------------------------- which method


def method_of(n_points, n_classes, **settings):
    """Method that "auto" takes for so many points."""
    share = np.full(n_classes, 1 / n_classes)
    data = TrainingData(
        Inputs(np.zeros((n_points, 1))), None, np.arange(n_classes), share, 0 * share, n_points
    )
    parameters = BayesPointClassifier(**settings).checked_parameters()
    return settling.choose_method(parameters, data, Host()).inference


def test_the_method_is_chosen_by_size():
    assert method_of(500, 2) == "ep"
    assert method_of(2000, 2) == "ep"
    assert method_of(400, 10) == "ep"
    for n_points, n_classes in [(4000, 2), (700, 10), (10**6, 2)]:
        assert method_of(n_points, n_classes) == "perceptron"
    assert method_of(4000, 2, label_noise=[0.0, 0.1]) == "billiard"
    assert method_of(500, 2, label_noise=[0.0, 0.1]) == "ep"


@pytest.mark.parametrize(
    ("settings", "method", "decision"),
    [
        ({}, "ep", "calibrated"),
        ({"label_noise": 0.1}, "ep", "calibrated"),
        ({"cache_size": 0.04}, "perceptron", "bayes_point"),
        ({"cache_size": 0.04, "label_noise": 0.1}, "billiard", "vote"),
        ({"cache_size": 0.04, "label_noise": "evidence"}, "billiard", "vote"),
        ({"cache_size": 0.04, "decision": "bayes_point"}, "perceptron", "bayes_point"),
        ({"decision": "vote"}, "ep", "vote"),
        ({"inference": "ep"}, "ep", "vote"),
        ({"inference": "ep", "decision": "calibrated"}, "ep", "calibrated"),
    ],
    ids=str,
)
def test_what_auto_means(settings, method, decision):
    X, y = clouds(30, apart=2.0)
    clf = classifier(**{"inference": "auto"} | settings).fit(X, y)
    assert (clf.inference_, clf.decision_) == (method, decision)
    assert clf.inference_reason_ != "asked for" or "inference" in settings
    assert usable(clf, X)


@pytest.mark.parametrize(
    "settings",
    [
        {"inference": "perceptron"},
        {"inference": "billiard"},
        {"inference": "auto", "cache_size": 0.04},
    ],
    ids=str,
)
def test_calibration_needs_expectation_propagation(settings):
    X, y = clouds(30)
    with pytest.raises(ValueError, match=r"decision='calibrated' needs .* inference='ep'; got"):
        classifier(decision="calibrated", **settings).fit(X, y)


# ---------------------------------------------------------------------- steepness


@pytest.mark.parametrize("kappa", [0.2, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_steeper_votes_keep_the_order_of_the_classes(n_classes, kappa):
    rng = np.random.default_rng(0)
    votes = ndtr(3 * rng.normal(size=(200, n_classes)))
    votes[:4] = np.array([1e-320, 1e-17, 0.0, 0.999])[:, None]
    votes[:4, 1] = 1.0
    if n_classes == 2:
        votes[3:, 1] = rng.random(197)
        votes[:, 0] = 1 - votes[:, 1]
        votes[0] = 1e-300, 1.0
    found = sharpen(votes, kappa)
    assert np.all(np.isfinite(found))
    assert_array_equal(found.argmax(axis=1), votes.argmax(axis=1))
    ordered = np.take_along_axis(found, votes.argsort(axis=1), axis=1)
    assert np.all(np.diff(ordered, axis=1) >= 0)
    assert_allclose(np.exp(combine_votes(found, 0.0)).sum(axis=1), 1)
    plain, sharper = (np.exp(combine_votes(v, 0.0)).max(axis=1) for v in (votes, found))
    if kappa == 1:
        assert_allclose(sharper, plain, atol=1e-12)
    else:
        further = sharper - plain if kappa > 1 else plain - sharper
        assert np.all(further > -1e-12)
        assert further.max() > 0.1
    if n_classes == 2:
        assert_allclose(found.sum(axis=1), 1)
    # Of many draws at once.
    stacked = sharpen(np.stack([votes, votes[::-1]]), kappa)
    assert_array_equal(stacked[0], found)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("kappa", [0.5, 1.0, 2.5])
def test_the_steepness_is_that_of_the_labels(kappa, noise):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1, 4000))
    p = (1 - 2 * noise) * ndtr(kappa * scores[0]) + noise
    label = (rng.random(4000) < p).astype(int)
    found, value = fit_steepness(scores, label, np.ones(4000), noise)
    assert found == pytest.approx(kappa, rel=0.15)
    right = np.where(label == 1, p, 1 - p)
    assert value == pytest.approx(np.log(right).sum() - 2 * np.log(kappa) ** 2, abs=3)
    # Weights are copies.
    row = np.repeat(np.arange(40), 3)
    one = fit_steepness(scores[:, :40], label[:40], np.full(40, 3.0), noise)
    other = fit_steepness(scores[:, row], label[row], np.ones(120), noise)
    assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_that_are_too_flat_are_made_steeper(n_classes):
    X, y = clouds(90, n_classes, apart=3.0)
    new, labels = clouds(300, n_classes, seed=1, apart=3.0)
    flat, steep = (
        classifier(softness=5.0, decision=decision).fit(X, y) for decision in ("vote", "calibrated")
    )
    assert steep.predictor_.steepness > 1.2
    loss = [log_loss(labels, clf.predict_proba(new)) for clf in (flat, steep)]
    assert loss[1] < 0.8 * loss[0]
    assert_array_equal(flat.predict(new), steep.predict(new))
    p = steep.sample_proba(new, 5, random_state=0)
    assert_allclose(p.sum(axis=2), 1)


def test_votes_that_are_too_steep_are_made_flatter():
    """Labels at random, hardly any softness."""
    X, y = clouds(90, wrong=0.6)
    clf = classifier(gamma=5.0, softness=0.01, decision="calibrated").fit(X, y)
    assert clf.predictor_.steepness < 0.9
