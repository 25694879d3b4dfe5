"""The log evidence by tilting, bridges and expectation propagation.

Against closed forms, enumeration and each other; its standard error against what it states; and
that it says where it is not to be trusted.
"""

import signal
from itertools import product

import numpy as np
import pytest
from helpers.thresholds import t_bound
from helpers.version_spaces import (
    Problem,
    coordinates,
    equicorrelated,
    labels,
    on_a_line,
    orthant_probability,
    orthogonal,
    skewed,
    with_both_labels,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from bayespoint import EmptyVersionSpaceError, VersionSpace
from bayespoint.evidence import bridge, estimates, log_evidence
from bayespoint.inference import expectation_propagation
from bayespoint.papers import datasets

# Estimates with fixed seeds may be off by so many of the standard errors they state: 16 runs, so
# that about one of a thousand would be.
ERRORS = 4
# Of weights that are all equal: no sampling error is left.
ROUNDING = 1e-9
# Draws on each level of each run, where more would take long; the stated error is below SHARP then.
FEW_DRAWS = 200
SHARP = {"tilting": 0.02, "bridge": 0.1}


def assert_right(estimate, exact, sharp=None):
    """Within the stated error, and the stated error is small enough to tell."""
    sharp = SHARP[estimate.method] if sharp is None else sharp
    assert estimate.stderr < sharp, estimate
    assert abs(estimate.value - exact) <= ERRORS * estimate.stderr + ROUNDING, (estimate, exact)


def is_wrong(estimate, exact):
    return abs(estimate.value - exact) > ERRORS * estimate.stderr + ROUNDING


def by(method, space, label_noise=0.0, seed=0, **settings):
    if method == "bridge":
        settings = {"n_draws": FEW_DRAWS, **settings}
    return log_evidence(
        space, method=method, label_noise=label_noise, random_state=seed, **settings
    )


def turned(problem):
    """One label turned round."""
    y = problem.y.copy()
    y[0] *= -1
    return VersionSpace(problem.K, y)


# ---------------------------------------------------------------------- closed forms

CLOSED = {
    "equal angles, 10": (equicorrelated(10), -np.log(11)),
    "equal angles, 50": (equicorrelated(50), -np.log(51)),
    "two points": (skewed(2, 1), np.log(orthant_probability(skewed(2, 1).signed))),
    "three points": (skewed(3, 2), np.log(orthant_probability(skewed(3, 2).signed))),
}


@pytest.mark.parametrize("method", ["tilting", "bridge"])
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name, method):
    problem, exact = CLOSED[name]
    estimate = by(method, problem.space)
    assert estimate.method == method
    assert_right(estimate, exact)
    assert estimate.divergence == pytest.approx(-estimate.value, abs=1e-9)
    assert estimate.training_error == 0
    # A negative control: one wrong label.
    assert is_wrong(
        by(method, turned(problem), n_draws=1000 if method == "tilting" else 100), exact
    )


def test_many_equal_angles_by_tilting():
    assert_right(by("tilting", equicorrelated(200).space, n_draws=10_000), -np.log(201))


def test_independent_labels_by_tilting_are_exact():
    estimate = by("tilting", orthogonal(40).space)
    assert estimate.value == pytest.approx(-40 * np.log(2), abs=ROUNDING)
    assert estimate.stderr < ROUNDING


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_independent_labels_by_bridges(noise):
    """2^-m whatever the rate; a draw is wrong as often as labels are."""
    estimate = by("bridge", orthogonal(40).space, noise, n_draws=40)
    assert_right(estimate, -40 * np.log(2), sharp=0.3)
    if noise:
        error = ERRORS * estimate.training_error_error
        assert 0 < error < 0.04
        assert abs(estimate.training_error - noise) < error
    # It would tell an error of 1.5.
    assert is_wrong(estimate, -40 * np.log(2) + 1.5)


def enumerated(problem):
    """Log evidence, divergence and mean share of errors, of at most three points."""
    q, m = np.broadcast_to(problem.noise, len(problem.y)), len(problem.y)
    total, log_mean, errors = 0.0, 0.0, 0.0
    for signs in product([1, -1], repeat=m):
        right = np.array(signs) > 0
        p = orthant_probability(problem.signed * np.outer(signs, signs))
        likelihood = np.prod(np.where(right, 1 - q, q))
        total += p * likelihood
        log_mean += p * likelihood * (np.log(likelihood) if likelihood else 0.0)
        errors += p * likelihood * np.mean(~right)
    return np.log(total), log_mean / total - np.log(total), errors / total


@pytest.mark.parametrize("noise", [0.2, (0.05, 0.0, 0.3), (0.01, 0.4, 0.01)])
@pytest.mark.slow
def test_bridges_with_a_rate_a_point(noise):
    problem = skewed(3, 4)._replace(noise=np.array(noise))
    value, divergence, errors = enumerated(problem)
    estimate = by("bridge", problem.space, noise)
    assert_right(estimate, value)
    found = estimate.divergence, estimate.training_error
    error = np.array([estimate.divergence_error, estimate.training_error_error])
    assert np.all(error < 0.1)
    assert np.all(np.abs(np.subtract(found, (divergence, errors))) < ERRORS * error)
    assert is_wrong(by("bridge", turned(problem), noise), value)


def on_a_circle(problem):
    """Log evidence of points in a plane, from the arcs between their walls."""
    phi = coordinates(problem.K)
    assert phi.shape[1] == 2
    walls = np.arctan2(phi[:, 1], phi[:, 0]) + np.pi / 2
    edges = np.sort(np.concatenate([walls, walls + np.pi]) % (2 * np.pi))
    arcs = np.diff(np.append(edges, edges[0] + 2 * np.pi))
    middle = edges + arcs / 2
    right = problem.y * (np.column_stack([np.cos(middle), np.sin(middle)]) @ phi.T) > 0
    q = np.broadcast_to(problem.noise, len(problem.y))
    return np.log(np.prod(np.where(right, 1 - q, q), axis=1) @ arcs / (2 * np.pi))


@pytest.mark.parametrize("noise", [0.0, 0.1, np.linspace(0.0, 0.2, 7)])
def test_bridges_where_the_gram_matrix_is_singular(noise):
    problem = skewed(7, 2, dim=2)._replace(noise=noise)
    assert_right(by("bridge", problem.space, noise), on_a_circle(problem))
    if np.all(noise):  # else version space is empty
        assert is_wrong(by("bridge", turned(problem), noise), on_a_circle(problem))


def test_a_problem_is_what_its_closed_form_is_about():
    """The oracles agree with each other: enumeration, angles, closed forms."""
    problem = skewed(3, 2)
    assert enumerated(problem)[0] == pytest.approx(CLOSED["three points"][1])
    flat = skewed(2, 1)
    assert on_a_circle(flat) == pytest.approx(CLOSED["two points"][1])
    noisy = Problem(flat.K, flat.y, np.array([0.1, 0.3]))
    assert on_a_circle(noisy) == pytest.approx(enumerated(noisy)[0])


def rbf(m=30, seed=0, softness=0.2, turned=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.6, 1, -1) * np.where(rng.random(m) < turned, -1, 1)
    return VersionSpace(rbf_kernel(X, gamma=0.8), y, softness)


def test_the_two_samplers_agree():
    one, other = by("tilting", rbf()), by("bridge", rbf())
    error = np.hypot(one.stderr, other.stderr)
    assert error < 0.15
    assert abs(one.value - other.value) < ERRORS * error
    # Another softness is told apart.
    assert abs(by("tilting", rbf(softness=1.0)).value - other.value) > ERRORS * error
    # EP is near them.
    ep = by("ep", rbf())
    assert abs(ep.value - one.value) < 0.2


@pytest.mark.filterwarnings("ignore:the halves of the run")
def test_wrong_exchanges_would_be_noticed(monkeypatch):
    """Balls that always change places forget on which level they are."""
    problem, exact = CLOSED["equal angles, 10"]

    def always(self, errors):  # noqa: ARG001
        self.level[:] = self.level.shape[1] - 1 - self.level

    monkeypatch.setattr(bridge._Ladders, "_exchange", always)
    assert is_wrong(by("bridge", problem.space), exact)


@pytest.mark.filterwarnings("ignore:the halves of the run")
def test_wrong_spacing_of_levels_would_be_noticed(monkeypatch):
    """Draws taken for those of levels half as far apart."""
    problem, exact = CLOSED["equal angles, 10"]
    counted = bridge._counted
    monkeypatch.setattr(
        bridge, "_counted", lambda odds, levels, seen: counted(odds, levels / 2, seen)
    )
    assert is_wrong(by("bridge", problem.space), exact)


# ---------------------------------------------------------------------- what an estimate holds


def test_sampling_takes_tilting_where_it_can():
    assert by("sampling", skewed(4, 0).space).method == "tilting"
    assert by("sampling", skewed(4, 0).space, 0.1, n_draws=50).method == "bridge"
    assert by("sampling", skewed(5, 2, dim=2).space, n_draws=50).method == "bridge"
    # Softness fills the rank.
    singular = skewed(5, 2, dim=2)
    assert by("sampling", VersionSpace(singular.K, singular.y, 0.1)).method == "tilting"
    default = log_evidence(skewed(4, 0).space, random_state=0)
    assert default.method == "tilting"
    assert default.n_runs == 16


def test_shapes_of_posteriors():
    problem = skewed(4, 0)
    assert by("tilting", problem.space).shape == "log-concave"
    assert by("bridge", problem.space, n_draws=50).shape == "log-concave"
    assert by("bridge", problem.space, 0.1, n_draws=50).shape == "any"
    assert by("ep", problem.space, 0.1).shape == "gaussian"


def test_levels_lead_from_no_rate_to_that_wanted():
    estimate = by("bridge", skewed(6, 1).space, 0.05, n_draws=50)
    levels, log_z = estimate.info["levels"], estimate.info["log_z"]
    assert levels[0] == log_z[0] == 0
    assert levels[-1] == pytest.approx(np.log(0.95 / 0.05))
    assert np.all(np.diff(levels) > 0)
    assert np.all(np.diff(log_z) < 0)
    assert estimate.value == pytest.approx(log_z[-1] + 6 * np.log(0.95), abs=1e-6)
    assert abs(estimate.info["drift"]) < estimates.DRIFT


def test_by_expectation_propagation():
    problem = skewed(6, 1, noise=0.1)
    estimate = by("ep", problem.space, 0.1)
    post = expectation_propagation(problem.space, label_noise=0.1)
    assert estimate.value == post.log_evidence
    assert np.isnan(estimate.stderr)
    assert estimate.n_runs == 1
    assert (estimate.divergence, estimate.training_error) == post.divergence()
    assert estimate.info["posterior"].sweeps == post.sweeps
    assert estimate.n_points == 6


@pytest.mark.parametrize(("method", "noise"), [("tilting", 0.0), ("bridge", 0.1)])
def test_seeds_decide_and_threads_do_not(method, noise):
    space = rbf(8)
    one, same, other = (
        by(method, space, noise, seed, n_jobs=n_jobs, n_draws=64)
        for seed, n_jobs in [(0, 1), (0, 2), (1, 1)]
    )
    assert (one.value, one.stderr, one.divergence) == (same.value, same.stderr, same.divergence)
    assert one.value != other.value
    assert by(method, space, noise, np.random.RandomState(3), n_draws=64).stderr > 0


def test_runs_are_as_many_as_asked_for():
    for method in ("tilting", "bridge"):
        estimate = by(method, skewed(4, 1).space, n_runs=5, n_draws=40)
        assert estimate.n_runs == 5
        assert estimate.stderr > 0


def test_progress_is_shown_on_standard_error(capsys):
    for method in ("tilting", "bridge"):
        by(method, skewed(4, 1).space, n_draws=40)
        assert capsys.readouterr() == ("", "")
        by(method, skewed(4, 1).space, n_draws=40, verbose=1)
        out, err = capsys.readouterr()
        assert out == ""
        assert "evidence" in err


# ---------------------------------------------------------------------- warnings and errors


def test_one_draw_with_most_of_the_weight_is_warned_about():
    """Labels at random over points that are nearly the same, hardly any draws."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    space = VersionSpace(rbf_kernel(X, gamma=0.05), labels(60), 1e-4)
    with pytest.warns(ConvergenceWarning, match=r"one of 32 draws has \d+% of all weight"):
        estimate = by("tilting", space, n_draws=32)
    assert estimate.info["largest_share"] > estimates.LARGEST_SHARE
    assert by("tilting", rbf()).info["largest_share"] < 0.01


def test_halves_that_differ_are_warned_about(monkeypatch):
    monkeypatch.setattr(estimates, "DRIFT", 1e-9)
    with pytest.warns(ConvergenceWarning, match=r"halves of the run differ by .*Raise n_draws"):
        by("bridge", skewed(4, 1).space, n_draws=40)


def test_an_empty_version_space_has_no_evidence():
    problem = with_both_labels(1, 0, noise=0.0)
    for method in ("bridge", "sampling"):
        with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 5\]"):
            by(method, problem.space, n_draws=40)
    # Two labels that are sure, others that are not.
    noise = np.array([0.0, 0.1, 0.1, 0.1, 0.1, 0.0])
    with pytest.raises(ValueError, match="no classifier that agrees with all labels that are sure"):
        by("bridge", problem.space, noise, n_draws=40, n_runs=2)
    assert by("bridge", problem.space, 0.1, n_draws=40).value < 0


@pytest.mark.parametrize("noise", [0.2, (0.1, 0.2, 0.3, 0.4)])
def test_two_classifiers_are_all_there_are(noise):
    """Points on a line: the sphere is two points."""
    problem = on_a_line(np.array(noise))
    q = np.broadcast_to(noise, 4)
    phi = np.array([1.0, -2.0, 0.5, 1.5])
    each = [np.prod(np.where(problem.y * phi * s > 0, 1 - q, q)) for s in (1, -1)]
    assert_right(by("bridge", problem.space, noise), np.log(np.mean(each)))


def test_tilting_is_refused_where_it_cannot_be():
    with pytest.raises(ValueError, match=r"method='tilting' needs label_noise=0.*rates up to 0\.1"):
        by("tilting", skewed(4, 0).space, 0.1)
    with pytest.raises(ValueError, match=r"Gram matrix of full rank.*rank 2 of 6.*'bridge'"):
        by("tilting", skewed(6, 2, dim=2).space)


def test_time_that_is_up_leaves_what_was_drawn(monkeypatch):
    space = equicorrelated(50).space
    estimate = by("tilting", space, n_draws=10**9, max_time=0.05)
    assert_right(estimate, -np.log(51))
    # Bridges make two steps that count whatever the time, and however few draws were asked for.
    small, exact = CLOSED["three points"]
    for settings in ({"max_time": 1e-9}, {"n_draws": 1}):
        estimate = by("bridge", small.space, n_runs=32, **settings)
        assert estimate.stderr > 0
        assert_right(estimate, exact)
    # After so many steps in all, levels and burn-in included.
    steps, step = iter(range(300)), bridge._Ladders.step
    monkeypatch.setattr(
        bridge._Ladders,
        "step",
        lambda self, *arguments: None if next(steps, None) is None else step(self, *arguments),
    )
    flown = by("bridge", skewed(3, 2).space, n_draws=10**7)
    assert_right(flown, CLOSED["three points"][1])


@pytest.mark.parametrize("call", [1, 25, 200])
def test_ctrl_c_during_bridges_is_raised(monkeypatch, call):
    """While levels are chosen, during burn-in, and after draws that count."""
    calls, step = iter(range(1, 10**9)), bridge._Ladders.step

    def interrupted(self, *arguments):
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(bridge._Ladders, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        by("bridge", skewed(3, 2).space, n_draws=10**7)
    assert next(calls) == call + 1


ARGUMENTS = {
    "method": (("x", None, 1, ["ep"]), "method must be one of"),
    "n_draws": ((0, -3, 1.5, "x", True), "n_draws must be a whole number >= 1"),
    "n_runs": ((0, 1.5, None, True), "n_runs must be a whole number >= 1"),
    "n_runs one": ((1,), "n_runs must be at least 2, or there is no standard error"),
    "max_time": ((0, -1, np.nan, "x"), "max_time must be a finite number > 0"),
    "n_jobs": ((0, 1.5, "x"), "n_jobs"),
    "random_state": (("x", -1, 1.5), "random_state must be None, a whole number"),
    "verbose": ((-1, 1.5, "x", None), "verbose must be "),
    "label_noise": ((-0.1, 0.5, np.nan, "x"), r"label_noise must lie in \[0, 0\.5\)"),
    "label_noise shape": (([0.1], np.full(5, 0.1)), "one for each of 4 points"),
}
CASES = [
    pytest.param(name.split()[0], value, message, id=f"{name}-{k}")
    for name, (values, message) in ARGUMENTS.items()
    for k, value in enumerate(values)
]


@pytest.mark.parametrize(("name", "value", "message"), CASES)
def test_a_wrong_argument_is_one_error_that_names_it(name, value, message):
    with pytest.raises(ValueError, match=message):
        log_evidence(skewed(4, 0).space, **{"random_state": 0, name: value})


def test_what_is_no_version_space_is_refused():
    with pytest.raises((ValueError, TypeError), match="space must be a VersionSpace"):
        log_evidence(np.eye(2))


# ---------------------------------------------------------------------- on demand

REPETITIONS = 50


@pytest.mark.slow
def test_many_equal_angles_by_bridges():
    assert_right(by("bridge", equicorrelated(200).space, n_jobs=2), -np.log(201))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tilting", "bridge", "bridge, noise"])
def test_standard_errors_are_what_they_say(method):
    """Within 30 %: the deviation of 50 estimates is known to 10 %, that of 16 runs to 18 %."""
    if method == "bridge, noise":
        problem = skewed(3, 4)._replace(noise=0.1)
        exact = enumerated(problem)[0]
    else:
        problem, exact = CLOSED["equal angles, 10"]
    n_draws = 2000 if method == "tilting" else 100
    found = [
        by(method.split(",")[0], problem.space, problem.noise, seed, n_draws=n_draws)
        for seed in range(REPETITIONS)
    ]
    errors = np.array([estimate.value for estimate in found]) - exact
    stated = np.sqrt(np.mean([estimate.stderr**2 for estimate in found]))
    scatter = np.std(errors, ddof=1)
    assert 0.7 < stated / scatter < 1.3
    assert abs(errors.mean()) < t_bound(REPETITIONS) * scatter / np.sqrt(REPETITIONS)
    # And the bias is small beside a single error.
    assert abs(errors.mean()) < scatter


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["sonar", "heart"])
def test_samplers_agree_on_data(name):
    try:
        X, y = datasets.load(name)[:2]
    except datasets.DataNotFoundError as error:
        pytest.skip(str(error))
    X = scale(X)
    space = VersionSpace(rbf_kernel(X, gamma=1 / X.shape[1]), np.where(y > 0, 1, -1), 0.1)
    one = log_evidence(space, method="tilting", n_jobs=2, random_state=0)
    other = log_evidence(space, method="bridge", n_jobs=2, random_state=0)
    assert one.stderr <= 0.1
    assert other.stderr <= 0.1
    assert abs(one.value - other.value) <= ERRORS * np.hypot(one.stderr, other.stderr)
