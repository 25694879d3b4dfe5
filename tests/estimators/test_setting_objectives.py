"""What a search for settings maximises: its gradient, its value by hand, and what it finds."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.clouds import clouds, propagation
from scipy.special import expit, ndtr
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace
from bayespoint.estimators import selection
from bayespoint.estimators.selection import (
    PRIORS,
    Candidate,
    EvidenceLoss,
    HeldOutLoss,
    choose,
    choose_held_out,
)
from bayespoint.inference import expectation_propagation
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.sites import held_out_scores, propagate
from bayespoint.space.kernels import Kernel

# Sites are followed to here where numbers are compared, and two ways to them agree to this.
PRECISE, SAME = 1e-9, 1e-6
# Central differences of a function known to 1e-9 or so: 1e-9 / STEP, and the square of STEP.
STEP, DIFFERENCE = 1e-3, 1e-4
# Nats that a search may miss of the best of a grid: far less than labels tell.
NEARLY = {"evidence": 0.1, "held-out": 0.3}
ALL = ("gamma", "bias", "softness", "label_noise")
SCALE = 0.5  # unit of gamma


@pytest.fixture
def precise(monkeypatch):
    monkeypatch.setattr(selection, "SITE_TOLERANCE", PRECISE)


class Given(NamedTuple):
    """Arguments of a search."""

    kernel: Kernel
    X: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    settings: Candidate

    def evidence(self, names):
        return EvidenceLoss(*self, names, SCALE, None)

    def held_out(self, names, noise, alone: Any = True):
        loss = HeldOutLoss(*self, names, SCALE, None)
        loss.noise, loss.alone = noise, alone
        return loss


def given(n_classes=2, *, weighted=False, kernel="rbf", settings=None, n=20, wrong=0.1, apart=1.0):
    X, label = clouds(n, n_classes, wrong=wrong, apart=apart)
    weight = 1.0 + np.arange(n) % 3 if weighted else np.ones(n)
    settings = settings or Candidate(0.7, 0.8, 0.3, 0.05)
    return Given(Kernel(kernel, degree=2), X, label, weight, settings)


@pytest.mark.parametrize(
    ("kernel", "names", "fixed", "n_classes", "weighted"),
    [
        ("rbf", ALL, Candidate(1.0, 1.0, 1.0, 0.0), 2, False),
        ("rbf", ALL, Candidate(1.0, 1.0, 1.0, 0.0), 3, True),
        ("poly", ("gamma", "bias"), Candidate(1.0, 1.0, 0.4, np.array([0.0, 0.1, 0.2])), 3, True),
        ("rbf", ("label_noise", "gamma"), Candidate(1.0, 0.5, 0.0, 0.0), 2, True),
        ("rbf", ("softness",), Candidate(0.3, 0.5, 1.0, 0.1), 3, False),
    ],
    ids=["all", "all-weighted", "rates", "hard", "softness"],
)
@pytest.mark.usefixtures("precise")
def test_gradients_are_those_of_differences(kernel, names, fixed, n_classes, weighted):
    # Without softness wrong labels would bound sites, and there would be no gradient.
    where = given(
        n_classes, weighted=weighted, kernel=kernel, settings=fixed, n=15,
        wrong=0.1 if fixed.softness else 0.0, apart=1.0 if fixed.softness else 2.0,
    )  # fmt: skip
    loss = where.evidence(names)
    point = np.array([PRIORS[name][0] for name in names]) + 0.3
    found = loss(point)[1]
    for i, name in enumerate(names):
        step = STEP * (np.arange(len(names)) == i)
        difference = (loss(point + step)[0] - loss(point - step)[0]) / (2 * STEP)
        assert found[i] == pytest.approx(difference, abs=DIFFERENCE), name
        assert abs(found[i]) > 10 * DIFFERENCE, name


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.usefixtures("precise")
def test_the_evidence_is_that_of_all_machines(n_classes):
    where = given(n_classes)
    loss = where.evidence(("gamma", "label_noise"))
    point = np.array([0.4, -2.0])
    chosen = loss.settings(point)
    assert chosen.gamma == pytest.approx(SCALE * np.exp(0.4))
    assert chosen.label_noise == pytest.approx(expit(-2.0))
    assert chosen[1:3] == where.settings[1:3]
    K = where.kernel.with_settings(chosen.gamma, chosen.bias)(where.X)
    total = 0.0
    for machine in [1] if n_classes == 2 else range(3):
        own = where.label == machine
        space = VersionSpace(K, np.where(own, 1, -1), chosen.softness)
        rates = np.where(own, 1, 1 / (n_classes - 1)) * chosen.label_noise
        total += expectation_propagation(space, label_noise=rates, tol=PRECISE).log_evidence
    away = [0.4 / 2.5, (-2.0 - PRIORS["label_noise"][0]) / 1.5]
    assert loss(point)[0] == pytest.approx(-total + 0.5 * np.dot(away, away), abs=SAME)
    assert loss.best_value == pytest.approx(total, abs=SAME)


def held_out_by_hand(where, settings, noise):
    """From dense matrices, and the best of a fine grid of steepness."""
    n_classes = where.label.max() + 1
    K = where.kernel.with_settings(settings.gamma, settings.bias)(where.X)
    scores = []
    for machine in [1] if n_classes == 2 else range(n_classes):
        own = where.label == machine
        rates = np.where(own, 1, 1 / (n_classes - 1)) * settings.label_noise
        space = VersionSpace(K, np.where(own, 1, -1), settings.softness)
        tau, nu = expectation_propagation(space, label_noise=rates, tol=PRECISE).sites
        covariance = np.linalg.solve(np.eye(len(K)) + K * tau, K)
        variance = 1 / (1 / covariance.diagonal() - tau)
        mean = variance * (covariance @ nu / covariance.diagonal() - nu)
        scores.append(mean / np.sqrt(variance + settings.softness * K.diagonal()))
    log_kappa = np.arange(-2, 2, 1e-3)[:, None]
    if n_classes == 2:
        odds = np.log(ndtr(scores[0]) / ndtr(-scores[0]))
        p = expit(np.exp(log_kappa) * np.where(where.label == 1, 1, -1) * odds)
    else:
        powers = ndtr(np.array(scores)) ** np.exp(log_kappa)[:, None]
        p = powers[:, where.label, np.arange(len(where.label))] / powers.sum(axis=1)
    p = (1 - noise) * p + noise / (n_classes - 1) * (1 - p)
    return np.max(np.log(p) @ where.weight - 0.5 * (log_kappa[:, 0] / 0.5) ** 2)


@pytest.mark.parametrize(("n_classes", "noise"), [(2, 0.0), (2, 0.05), (3, 0.05)])
@pytest.mark.usefixtures("precise")
def test_the_probability_of_held_out_labels_by_hand(n_classes, noise):
    where = given(n_classes, settings=Candidate(0.7, 0.8, 0.3, noise))
    loss = where.held_out(("gamma", "softness"), noise)
    point = np.array([-0.5, -0.7])
    expected = held_out_by_hand(where, loss.settings(point), noise)
    away = (point - [0.0, np.log(0.3)]) / 2.5
    assert loss(point) == pytest.approx(-expected + 0.5 * away @ away, abs=1e-5)
    assert loss.best_value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("kind", "n_classes"), [("evidence", 3), ("held-out", 2), ("held-out", 3)])
@pytest.mark.usefixtures("precise")
def test_weights_are_rows_written_out(kind, n_classes):
    weighted, plain = given(n_classes, weighted=True), given(n_classes)
    row = np.repeat(np.arange(20), weighted.weight.astype(int))
    written = weighted._replace(
        X=weighted.X[row], label=weighted.label[row], weight=np.ones(len(row))
    )
    if kind == "evidence":
        found = [one.evidence(ALL)(np.full(4, -0.5))[0] for one in (weighted, written, plain)]
    else:
        found = [  # one row is left out
            one.held_out(("gamma", "softness"), 0.05, alone=False)(np.full(2, -0.5))
            for one in (weighted, written, plain)
        ]
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert abs(found[2] - found[1]) > 0.1


@pytest.mark.parametrize(
    ("kind", "n_classes", "n", "grid"),
    [
        ("evidence", 2, 30, (-3, 0, 2)),
        ("held-out", 2, 30, (-3, 0, 2)),
        pytest.param("evidence", 3, 40, (-3, -1.5, 0, 1.5, 3), marks=pytest.mark.slow),
        pytest.param("held-out", 3, 40, (-3, -1.5, 0, 1.5, 3), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_chosen_settings_are_as_good_as_the_best_of_a_grid(kind, n_classes, n, grid):
    where, names = given(n_classes, n=n), ("gamma", "softness")
    if kind == "evidence":
        chosen = choose(*where, names, scale=SCALE)
        search = where.evidence(names)
        loss = lambda point: search(point)[0]  # noqa: E731
    else:
        chosen = choose_held_out(*where, names, scale=SCALE, noise=0.05)
        loss = search = where.held_out(names, 0.05)
    point = np.log([chosen.settings.gamma / SCALE, chosen.settings.softness])
    found, value = loss(point), search.best_value
    assert value == pytest.approx(chosen.log_evidence, abs=0.05)  # sites from elsewhere
    others = [loss(np.array([g, s - 1.0])) for g in grid for s in grid]
    assert found < min(others) + NEARLY[kind]
    assert max(others) > found + 2
    assert chosen.n_evaluations < 60


# ---------------------------------------------------------------------- copies


def test_copies_do_not_give_labels_away():
    """Where equal rows agree they are left out together, or copies make narrow kernels win."""
    X, y = make_moons(60, noise=0.25, random_state=0)
    once, twice = (
        propagation(gamma="held-out", softness=0.1).fit(*data)
        for data in ((X, y), (np.repeat(X, 2, axis=0), np.repeat(y, 2)))
    )
    ratio = np.mean(np.log(twice.gamma_)) - np.mean(np.log(once.gamma_))
    assert 0.2 < np.exp(ratio) < 8  # with one copy left out 40 to 100


def test_a_copy_that_stays_knows_the_label_of_the_one_left_out():
    """With a kernel that knows rows by heart, and all rows there twice."""
    X, y = make_moons(60, noise=0.25, random_state=0)
    target = np.where(y == 1, 1.0, -1.0)
    K = Kernel("rbf", gamma=1000.0, bias=1.0)(X)
    likelihood = Likelihood(
        target, np.full(60, 0.3), np.full(60, np.inf), np.zeros(60), np.full(60, 2.0)
    )
    sites = propagate(K, likelihood)
    one, both = (
        np.mean(held_out_scores(sites, likelihood, alone) * target < 0) for alone in (False, True)
    )
    assert one < 0.5 * both


def test_copies_of_contested_points_are_left_out_one_at_a_time():
    """Rows of a few values with both labels: their shares count, and a new row may be equal."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 1)).astype(float)
    y = (rng.random(200) < np.array([0.2, 0.5, 0.8])[X[:, 0].astype(int)]).astype(int)
    clf = propagation(gamma="held-out", softness="held-out", decision="calibrated").fit(X, y)
    shares = [y[X[:, 0] == value].mean() for value in range(3)]
    assert clf.predict_proba([[0.0], [1.0], [2.0]])[:, 1] == pytest.approx(shares, abs=0.1)


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


def recovered(gamma, softness, **options):
    found = []
    for seed in range(5):
        X, label = drawn(seed, gamma, softness, **options)
        start = Candidate(1.0, 0.0, 0.1, 0.0)
        names = ("gamma", "softness")
        chosen = choose(Kernel("rbf"), X, label, np.ones(len(X)), start, names, scale=0.5)
        found.append(chosen.settings)
    return np.median([s.gamma for s in found]), np.median([s.softness for s in found])


@pytest.mark.parametrize(
    ("gamma", "softness"),
    [
        (2.0, 0.1),
        pytest.param(0.5, 0.1, marks=pytest.mark.slow),
        pytest.param(0.5, 1.0, marks=pytest.mark.slow),
    ],
)
def test_the_evidence_finds_the_settings_that_labels_were_drawn_with(gamma, softness):
    found = recovered(gamma, softness)
    assert 1 / WITHIN < found[0] / gamma < WITHIN
    assert 1 / WITHIN < found[1] / softness < WITHIN


def test_labels_at_random_have_a_large_softness():
    """A negative control."""
    assert recovered(0.5, 0.1, shuffled=True)[1] > 10 * 0.1
