"""Runs that estimate the evidence: what they hold, warn of and refuse, and how they stop."""

import signal

import numpy as np
import pytest
from helpers.evidences import CLOSED, assert_right, by, rbf
from helpers.refusals import assert_refused
from helpers.version_spaces import equicorrelated, labels, skewed, with_both_labels
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import EmptyVersionSpaceError, VersionSpace
from bayespoint.evidence import bridge, estimates, log_evidence, tilting
from bayespoint.inference import expectation_propagation

# ---------------------------------------------------------------------- what an estimate holds


def test_sampling_takes_tilting_where_it_can():
    full, singular = skewed(4, 0), skewed(5, 2, dim=2)
    default = log_evidence(full.space, random_state=0)
    assert (default.method, default.shape, default.n_runs) == ("tilting", "log-concave", 16)
    few = {"n_draws": 20, "n_runs": 2}
    noisy, sure = by("sampling", full.space, 0.1, **few), by("sampling", singular.space, **few)
    assert (noisy.method, noisy.shape) == ("bridge", "any")
    assert (sure.method, sure.shape) == ("bridge", "log-concave")
    # Softness fills the rank.
    softened = VersionSpace(singular.K, singular.y, 0.1)
    assert by("sampling", softened, n_draws=100).method == "tilting"
    assert by("ep", full.space, 0.1).shape == "gaussian"


def test_levels_lead_from_no_rate_to_that_wanted():
    estimate = by("bridge", skewed(6, 1).space, 0.05, n_draws=40, n_runs=8)
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
    space = rbf(5)
    one, same, other = (
        by(method, space, noise, seed, n_jobs=n_jobs, n_draws=20, n_runs=3)
        for seed, n_jobs in [(0, 1), (0, 2), (1, 1)]
    )
    assert (one.value, one.stderr, one.divergence) == (same.value, same.stderr, same.divergence)
    assert one.value != other.value
    assert by(method, space, noise, np.random.RandomState(3), n_draws=20, n_runs=3).stderr > 0
    assert one.n_runs == 3


def test_progress_is_shown_on_standard_error(capsys):
    for method in ("tilting", "bridge"):
        for verbose in (0, 1):
            assert capsys.readouterr() == ("", "")
            by(method, skewed(4, 1).space, n_draws=20, n_runs=2, verbose=verbose)
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
        by("bridge", skewed(4, 1).space, n_draws=20, n_runs=3)


def test_an_empty_version_space_has_no_evidence(monkeypatch):
    monkeypatch.setattr(bridge, "LARGEST_ODDS", 10.0)  # levels end sooner
    problem = with_both_labels(1, 0, noise=0.0)
    for method in ("bridge", "sampling"):
        with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 5\]"):
            by(method, problem.space, n_draws=40)
    # Two labels that are sure, others that are not.
    noise = np.array([0.0, 0.1, 0.1, 0.1, 0.1, 0.0])
    with pytest.raises(ValueError, match="no classifier that agrees with all labels without noise"):
        by("bridge", problem.space, noise, n_draws=40, n_runs=2)
    assert by("bridge", problem.space, 0.1, n_draws=20, n_runs=2).value < 0


def test_tilting_is_refused_where_it_cannot_be():
    with pytest.raises(ValueError, match=r"method='tilting' needs label_noise=0.*rates up to 0\.1"):
        by("tilting", skewed(4, 0).space, 0.1)
    with pytest.raises(ValueError, match=r"Gram matrix of full rank.*rank 2 of 6.*'bridge'"):
        by("tilting", skewed(6, 2, dim=2).space)


def test_time_that_is_up_leaves_what_was_drawn(clock, monkeypatch):
    space, clock.step = equicorrelated(50).space, 0.25
    monkeypatch.setattr(tilting, "BATCH_NUMBERS", 50 * 1_000)
    estimate = by("tilting", space, n_draws=10**9, max_time=1)
    assert_right(estimate, -np.log(51))
    # Bridges make two steps that count whatever the time, and however few draws were asked for.
    small, exact = CLOSED["three points"]
    for settings in ({"max_time": 1e-9}, {"n_draws": 1}):
        estimate = by("bridge", small.space, n_runs=32, **settings)
        assert estimate.stderr > 0
        assert_right(estimate, exact)
    # Some hundred looks of 16 ladders: after burn-in, long before so many draws.
    clock.step = 1e-3
    assert_right(by("bridge", small.space, n_draws=10**7, max_time=4), exact)


@pytest.mark.parametrize("look", [3, 12, 60])
def test_ctrl_c_during_bridges_is_raised(clock, look):
    """While levels are chosen, during burn-in, and after draws that count."""
    clock.events[look] = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        by("bridge", skewed(3, 2).space, n_draws=10**7, n_runs=2, verbose=1)
    assert look <= clock.looks < look + 4


REFUSED = {
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
    "space": ((np.eye(2),), "space must be a VersionSpace"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_one_error_that_names_it(name):
    values, message = REFUSED[name]
    cases = [({name.split()[0]: value}, message) for value in values]
    assert_refused(log_evidence, cases, space=skewed(4, 0).space, random_state=0)
