"""The evidence: how probable a model made the labels before it saw them."""

from dataclasses import dataclass, field

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_jobs,
    check_label_noise,
    check_positive_integer,
    check_seed,
    check_time,
    check_verbose,
    entropy_of,
    warn,
)
from bayespoint._support.threads import open_threads
from bayespoint.evidence.bridge import draw_ladders, log_normalisers
from bayespoint.evidence.certificates import certify
from bayespoint.evidence.tilting import log_orthant_batches
from bayespoint.inference.ep.propagation import expectation_propagation
from bayespoint.space.decisions import label_odds
from bayespoint.space.factor import factorise
from bayespoint.space.rows import all_rows
from bayespoint.space.version_space import EmptyVersionSpaceError, check_space

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
        Monte-Carlo standard error from independent runs, itself right to some 20 % (so that errors
        of 3 or 4 of it are less rare than for a Gaussian); NaN for "ep", which has no sampling
        error but a bias.
    method : {"bridge", "tilting", "ep"}
        What was used.
    n_runs : int
        Independent runs that ``stderr`` is from; 1 for "ep".
    divergence, divergence_error : float
        Of the posterior from the prior (Kullback-Leibler, in nats).
    training_error, training_error_error : float
        Share of training labels that a draw of the posterior gets wrong, on average.
    n_points : int
    shape : {"log-concave", "gaussian", "any"}
        What is known of the posterior's density.
    trusted : bool
        Whether nothing spoke against the standard error, or against EP's divergence, which is right
        wherever its sites are a distribution.
    info : dict
        "bridge": ``levels`` (log-odds) and ``log_z``, the log evidence on them without
        sum log(1 - q), ``drift`` (difference of the halves of the run, in standard errors).
        "tilting": ``largest_share`` of the weight on one draw. "ep": ``posterior``.
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
    info: dict = field(default_factory=dict, repr=False)

    def certificate(self, delta=0.05, *, n_settings=1):
        """Bound the error of new points (PAC-Bayes).

        Parameters
        ----------
        delta : float, default=0.05
            Probability that the bounds do not hold.
        n_settings : int, default=1
            Number of settings (width, softness, rate, kernel) that were compared on these data;
            each has a share of ``delta``.

        Returns
        -------
        Certificate
        """
        return certify(self, delta, n_settings)


def log_evidence(
    space, *, label_noise=0.0, method="sampling", n_draws=None, n_runs=16, max_time=None,
    n_jobs=None, random_state=None, verbose=0,
):  # fmt: skip
    """Estimate the logarithm of the evidence.

    The probability of the labels under the prior: of version space, or with label noise
    E[q^e (1 - q)^(m - e)], e the number of errors of a random classifier. It measures how well
    kernel, width, softness and rate fit the labels; differences of 3 or more are telling.

    Parameters
    ----------
    space : VersionSpace
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one a point.
    method : {"sampling", "tilting", "bridge", "ep"}, default="sampling"
        "tilting" (minimax tilting): independent weighted draws, for sure labels and a Gram matrix
        (with its softness) of full rank. "bridge": the noisy billiard on a ladder of rates from
        1/2 to those wanted. "sampling": tilting where it can be, else bridges.
        "ep": expectation propagation, fast and without a sampling error, but biased; see
        `bayespoint.inference.ep.propagation`.
    n_draws : int, optional
        For "tilting" draws of all runs together, by default 50,000; for "bridge" draws on each
        level of each run, by default 1,000.
    n_runs : int, default=16
        Independent runs, at least 2; the standard error is from them.
    max_time : float, optional
        Seconds after which the draws made so far are used. The Gram matrix is factorised and levels
        or tilts are chosen first, whatever the limit.
    n_jobs : int, optional
        Threads, as in joblib.
    random_state : int, RandomState or None
    verbose : int, default=0
        Show progress on standard error.

    Returns
    -------
    Evidence

    Warns
    -----
    ConvergenceWarning
        If the standard error is not to be trusted.

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
        factor = factorise(space.rows, space.softness, threads, lambda: budget.interrupted)
        possible = not np.any(noise) and factor.rank == len(space)
        if method == "tilting" and not possible:
            raise ValueError(
                f"method='tilting' needs label_noise=0 and a Gram matrix of full rank; got rates "
                f"up to {noise.max():g} and rank {factor.rank} of {len(space)}. Use 'bridge', or "
                f"set softness > 0."
            )
        if possible and method != "bridge":
            estimate = _by_tilting(space, n_draws or TILTING_DRAWS, n_runs, entropy, budget)
        else:
            estimate = _by_bridges(
                space, noise, factor, n_draws or BRIDGE_DRAWS, n_runs, entropy, budget, threads
            )
    if budget.interrupted:
        raise KeyboardInterrupt
    return estimate


def _check_arguments(method, n_draws, n_runs, max_time, n_jobs, random_state, verbose):
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}; got {method!r}.")
    if n_draws is not None:
        check_positive_integer("n_draws", n_draws)
    check_positive_integer("n_runs", n_runs)
    if n_runs < 2:
        raise ValueError("n_runs must be at least 2, or there is no standard error; got 1.")
    check_time(max_time)
    check_jobs(n_jobs)
    check_seed(random_state)
    check_verbose(verbose)


def _by_tilting(space, n_draws, n_runs, entropy, budget):
    G = all_rows(space.rows)
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
            f"one of {len(weights)} draws has {share:.0%} of all weight, so that the evidence and "
            f"its standard error are not to be trusted: version space is too narrow for "
            f"method='tilting'. Raise n_draws, set softness > 0, or try method='bridge'.",
            ConvergenceWarning,
        )
    value, stderr = float(value + largest), float(stderr)
    return Evidence(
        value, stderr, "tilting", n_runs, -value, stderr, 0.0, 0.0, len(space), "log-concave",
        share <= LARGEST_SHARE, {"largest_share": share},
    )  # fmt: skip


def _by_bridges(space, noise, factor, n_draws, n_runs, entropy, budget, threads):
    odds = label_odds(noise)
    if np.all(noise == 0):
        conflicting = space.conflict()
        if conflicting is not None:
            raise EmptyVersionSpaceError(conflicting)
    draws = draw_ladders(space, odds, factor, n_runs, n_draws, entropy, budget, threads)
    runs = list(range(n_runs))
    estimates, errors = _jackknife(runs, lambda kept: np.array(log_normalisers(draws, kept)[:3]))
    log_z, mean_cost, mean_errors = estimates
    cost_error = _jackknife(
        runs, lambda kept: -np.sum(log_normalisers(draws, kept)[:2])
    )[1]  # fmt: skip
    drift = _drift(draws, runs)
    if abs(drift) > DRIFT:
        warn(
            f"the halves of the run differ by {drift:.1f} standard errors: the balls have not come "
            f"to rest, and the evidence is not to be trusted. Raise n_draws (now {n_draws}), set "
            f"softness > 0, or raise label_noise.",
            ConvergenceWarning,
        )
    constant = float(np.sum(np.log1p(-noise)))
    levels = log_normalisers(draws, runs)[3]
    info = {"levels": draws.levels, "log_z": levels, "drift": drift}
    shape = "log-concave" if np.all(noise == 0) else "any"
    return Evidence(
        float(log_z + constant), float(errors[0]), "bridge", n_runs, float(-log_z - mean_cost),
        float(cost_error), float(mean_errors / len(space)), float(errors[2] / len(space)),
        len(space), shape, abs(drift) <= DRIFT, info,
    )  # fmt: skip


def _drift(draws, runs):
    """Difference of the estimates from the halves of the draws, in its standard errors."""
    halves = draws.halves()

    def difference(kept):
        return log_normalisers(halves[1], kept)[0] - log_normalisers(halves[0], kept)[0]

    value, error = _jackknife(runs, difference)
    return float(value / error) if error > 0 else 0.0


def _jackknife(runs, estimate):
    """Estimate from all runs, and its standard error from leaving out one at a time."""
    n = len(runs)
    left_out = np.array([estimate(runs[:i] + runs[i + 1 :]) for i in range(n)])
    deviation = left_out - left_out.mean(axis=0)
    return estimate(runs), np.sqrt((n - 1) / n * np.sum(deviation**2, axis=0))


def _by_propagation(space, noise, max_time):
    posterior = expectation_propagation(
        space, label_noise=noise, max_time=max_time
    )  # fmt: skip
    divergence, training_error = posterior.divergence()
    return Evidence(
        posterior.log_evidence, np.nan, "ep", 1, divergence, np.nan, training_error, np.nan,
        len(space), "gaussian", bool(np.isfinite(divergence)), {"posterior": posterior},
    )  # fmt: skip
