"""The evidence: how probable a model made the labels before it saw them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_choice,
    check_label_noise,
    check_positive_integer,
    check_run,
    entropy_of,
    warn,
)
from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array, ArrayLike, Seed
from bayespoint.evidence.bridge import ErrorCounts, draw_ladders, estimate
from bayespoint.evidence.certificates import Certificate, certify
from bayespoint.evidence.tilting import log_orthant_batches
from bayespoint.inference.ep.propagation import expectation_propagation
from bayespoint.space.decisions import label_odds
from bayespoint.space.factor import Factor
from bayespoint.space.version_space import EmptyVersionSpaceError, VersionSpace, check_space

METHODS = ("sampling", "bridge", "tilting", "ep")

# Draws by default: all together for tilting, of each level of each run for bridges.
TILTING_DRAWS = 50_000
BRIDGE_DRAWS = 1000

# One draw of tilting may have this share of all weight; if it has more, the error is not to trust.
LARGEST_SHARE = 0.1

# The halves of a run may differ by so many standard errors of their difference.
DRIFT = 4.0


@dataclass(frozen=True)
class Evidence:
    """Log evidence and its standard error.

    Attributes
    ----------
    value : float
        Natural logarithm of the probability of the labels.
    stderr : float
        Monte Carlo standard error from independent runs. It is itself known only to about 20 %, so
        deviations of 3 or 4 standard errors are less rare than for a Gaussian. NaN for "ep", which
        has no sampling error but a bias.
    method : {"bridge", "tilting", "ep"}
        Method used.
    n_runs : int
        Number of independent runs behind ``stderr``; 1 for "ep".
    divergence, divergence_error : float
        Kullback-Leibler divergence of the posterior from the prior, in nats, and its standard
        error.
    training_error, training_error_error : float
        Share of training labels that a draw of the posterior gets wrong, on average.
    n_points : int
        Number of training points.
    shape : {"log-concave", "gaussian", "any"}
        What is known about the density of the posterior.
    trusted : bool
        False if a check says that the standard error is wrong or, for "ep", the divergence, which
        is right whenever the sites define a distribution.
    info : dict
        For "bridge": ``levels`` (log-odds), ``log_z`` (the log evidence at these levels without
        sum log(1 - q)) and ``drift`` (difference between the halves of the run, in standard
        errors). For "tilting": ``largest_share``, the share of one draw in all weights. For "ep":
        ``posterior``.
    """

    value: float
    stderr: float
    method: str
    n_runs: int
    divergence: float
    divergence_error: float
    training_error: float
    training_error_error: float
    n_points: int
    shape: str
    trusted: bool = True
    info: dict[str, Any] = field(default_factory=dict, repr=False)

    def certificate(self, delta: float = 0.05, *, n_settings: int = 1) -> Certificate:
        """Bound the error on new points (PAC-Bayes).

        Parameters
        ----------
        delta : float, default=0.05
            Probability that the bounds do not hold.
        n_settings : int, default=1
            Number of settings (width, softness, rate, kernel) that were compared on these data;
            ``delta`` is divided among them.

        Returns
        -------
        Certificate
        """
        return certify(self, delta, n_settings)


def log_evidence(
    space: VersionSpace, *, label_noise: ArrayLike = 0.0, method: str = "sampling",
    n_draws: int | None = None, n_runs: int = 16, max_time: float | None = None,
    n_jobs: int | None = None, random_state: Seed = None, verbose: int = 0,
) -> Evidence:  # fmt: skip
    """Estimate the logarithm of the evidence.

    The evidence is the probability of the labels under the prior: the volume of version space or,
    with label noise, E[q^e (1 - q)^(m - e)], where e is the number of errors of a random
    classifier. It measures how well kernel, width, softness and noise rate fit the labels;
    differences of 3 or more in its logarithm matter.

    Parameters
    ----------
    space : VersionSpace
        Version space of any kernel.
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one per point.
    method : {"sampling", "tilting", "bridge", "ep"}, default="sampling"
        "tilting" (minimax tilting): independent weighted draws, without label noise and for a Gram
        matrix (with its softness) of full rank. "bridge": noisy billiards at a series of rates
        from 1/2 down to the given ones. "sampling": tilting if possible, otherwise bridges. "ep":
        expectation propagation, fast and without a sampling error, but biased; see
        `bayespoint.inference.expectation_propagation`.
    n_draws : int, optional
        For "tilting" the number of draws of all runs together, by default 50,000; for "bridge" the
        number of draws at each level of each run, by default 1,000.
    n_runs : int, default=16
        Number of independent runs, at least 2; they give the standard error.
    max_time : float, optional
        Seconds after which the draws made so far are used. The Gram matrix is factorised and levels
        or tilts are chosen first, whatever the limit.
    n_jobs : int, optional
        Number of threads, as in joblib.
    random_state : int, RandomState or None
    verbose : int, default=0
        Whether to show progress on standard error.

    Returns
    -------
    Evidence

    Warns
    -----
    ConvergenceWarning
        If the standard error cannot be trusted.

    Examples
    --------
    Equal angles between all walls: the evidence is 1/(m + 1).

    >>> import numpy as np
    >>> from bayespoint import VersionSpace, evidence
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(9), np.ones(9))
    >>> est = evidence.log_evidence(space, random_state=0)
    >>> round(float(np.exp(est.value)), 3)
    0.1
    >>> est.stderr < 0.01
    True
    """
    check_space(space)
    noise = check_label_noise(label_noise, len(space))
    _check_arguments(method, n_draws, n_runs, max_time, n_jobs, random_state, verbose)
    if method == "ep":
        return _by_propagation(space, noise, max_time)
    budget = Budget(max_time, "evidence" if verbose else None)
    entropy = entropy_of(random_state)
    with budget.catching_interrupts(), open_threads(effective_n_jobs(n_jobs)) as threads:
        factor = space.rows.factorise(space.softness, threads, lambda: budget.interrupted)
        possible = not np.any(noise) and factor.rank == len(space)
        if method == "tilting" and not possible:
            raise ValueError(
                f"method='tilting' needs label_noise=0 and a Gram matrix of full rank; got rates "
                f"up to {noise.max():g} and rank {factor.rank} of {len(space)}. Use 'bridge', or "
                f"set softness > 0."
            )
        if possible and method != "bridge":
            evidence = _by_tilting(space, n_draws or TILTING_DRAWS, n_runs, entropy, budget)
        else:
            evidence = _by_bridges(
                space, noise, factor, n_draws or BRIDGE_DRAWS, n_runs, entropy, budget, threads
            )
    budget.raise_if_interrupted()
    return evidence


def _check_arguments(
    method: str, n_draws: int | None, n_runs: int, max_time: float | None, n_jobs: int | None,
    random_state: Seed, verbose: int,
) -> None:  # fmt: skip
    check_choice("method", method, METHODS)
    if n_draws is not None:
        check_positive_integer("n_draws", n_draws)
    check_positive_integer("n_runs", n_runs)
    if n_runs < 2:
        raise ValueError("n_runs must be at least 2, or there is no standard error; got 1.")
    check_run(max_time=max_time, n_jobs=n_jobs, random_state=random_state, verbose=verbose)


def _by_tilting(
    space: VersionSpace, n_draws: int, n_runs: int, entropy: int, budget: Budget
) -> Evidence:
    G = space.rows.matrix()
    G[np.diag_indices_from(G)] += space.ridge
    G *= np.outer(space.y, space.y)
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(8,)))
    log_weights = log_orthant_batches(G, max(n_draws, 2 * n_runs), 2 * n_runs, rng, budget)
    largest = log_weights.max()
    weights = np.exp(log_weights - largest)
    runs = [part.mean() for part in np.array_split(weights, n_runs)]
    value, stderr = _jackknife(runs, lambda kept: np.log(np.mean(kept)))
    share = float(1 / weights.sum())
    if share > LARGEST_SHARE:
        warn(
            f"one of {len(weights)} draws has {share:.0%} of all weight, so the evidence and its "
            f"standard error cannot be trusted: version space is too narrow for "
            f"method='tilting'. Raise n_draws, set softness > 0, or try method='bridge'.",
            ConvergenceWarning,
        )
    value, stderr = float(value + largest), float(stderr)
    return Evidence(
        value, stderr, method="tilting", n_runs=n_runs, divergence=-value, divergence_error=stderr,
        training_error=0.0, training_error_error=0.0, n_points=len(space), shape="log-concave",
        trusted=share <= LARGEST_SHARE, info={"largest_share": share},
    )  # fmt: skip


def _by_bridges(
    space: VersionSpace, noise: Array, factor: Factor, n_draws: int, n_runs: int, entropy: int,
    budget: Budget, threads: Threads,
) -> Evidence:  # fmt: skip
    sure = bool(np.all(noise == 0))
    if sure:
        conflicting = space.conflict()
        if conflicting is not None:
            raise EmptyVersionSpaceError(conflicting)
    odds = label_odds(noise)
    draws = draw_ladders(space, odds, factor, n_runs, n_draws, entropy, budget, threads)
    runs = list(range(n_runs))

    def numbers(kept: list[int]) -> Array:
        one = estimate(draws, kept)
        return np.array([one.log_z, -one.log_z - one.mean_cost, one.mean_errors / len(space)])

    (log_z, divergence, training_error), errors = _jackknife(runs, numbers)
    drift = _drift(draws, runs)
    if abs(drift) > DRIFT:
        warn(
            f"the halves of the run differ by {drift:.1f} standard errors: the balls have not "
            f"converged, and the evidence cannot be trusted. Raise n_draws (now {n_draws}), set "
            f"softness > 0, or raise label_noise.",
            ConvergenceWarning,
        )
    constant = float(np.sum(np.log1p(-noise)))
    levels = estimate(draws, runs).level_log_z
    return Evidence(
        float(log_z + constant), float(errors[0]), method="bridge", n_runs=n_runs,
        divergence=float(divergence), divergence_error=float(errors[1]),
        training_error=float(training_error), training_error_error=float(errors[2]),
        n_points=len(space), shape="log-concave" if sure else "any", trusted=abs(drift) <= DRIFT,
        info={"levels": draws.levels, "log_z": levels, "drift": drift},
    )  # fmt: skip


def _drift(draws: ErrorCounts, runs: list[int]) -> float:
    """Difference of the estimates from the halves of the draws, in its standard errors."""
    first, second = draws.half(0), draws.half(1)
    value, error = _jackknife(
        runs, lambda kept: estimate(second, kept).log_z - estimate(first, kept).log_z
    )
    return float(value / error) if error > 0 else 0.0


def _jackknife(runs: list[Any], estimate_from: Callable[[list[Any]], Any]) -> tuple[Any, Any]:
    """Estimate from all runs, and its standard error from leaving out one at a time."""
    n = len(runs)
    left_out = np.array([estimate_from(runs[:i] + runs[i + 1 :]) for i in range(n)])
    deviation = left_out - left_out.mean(axis=0)
    return estimate_from(runs), np.sqrt((n - 1) / n * np.sum(deviation**2, axis=0))


def _by_propagation(space: VersionSpace, noise: Array, max_time: float | None) -> Evidence:
    posterior = expectation_propagation(space, label_noise=noise, max_time=max_time)
    divergence, training_error = posterior.divergence()
    return Evidence(
        posterior.log_evidence, np.nan, method="ep", n_runs=1, divergence=divergence,
        divergence_error=np.nan, training_error=training_error, training_error_error=np.nan,
        n_points=len(space), shape="gaussian", trusted=bool(np.isfinite(divergence)),
        info={"posterior": posterior},
    )  # fmt: skip
