"""The exact kernel billiard (after JMLR 3.1 and R&M 18.5), for clean and for noisy labels.

A ball flies along great circles, w(t) = w cos t + v sin t, and is reflected where it meets a wall
y_i <w, phi(x_i)> = 0. Positions at fixed travel times are draws of the uniform distribution on
version space. With labels that are wrong with probability q_i a wall is passed: always from its
wrong side, with probability q_i / (1 - q_i) from the right one. The flux through each wall then
balances for the posterior prod_i q_i^(e_i) (1 - q_i)^(1 - e_i), e_i = 1 for an error at point i.

Along a flight dv = -w dt, so the integral of w is the sum of the kicks that the walls gave, and the
first less the last direction. The mean of these two is zero: the kicks alone are the Bayes point
too, with coefficients that are zero for walls never met and positive (times the label) for the
others, the Bayesian support vectors. But the noise of the directions does not shrink with version
space, so the mean over the path or of the draws, which never leaves it, is the better classifier.
"""

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from bayespoint import diagnostics
from bayespoint.billiards import TRAVEL, Balls, Table, coinciding_walls, run
from bayespoint.budget import Budget
from bayespoint.decisions import label_odds
from bayespoint.factor import factorise
from bayespoint.gram import outputs_of
from bayespoint.posterior import Posterior, draws_error, training_errors, unit_centre
from bayespoint.starts import (
    direct_starts,
    given_starts,
    light_traps,
    perceptron_vector,
    random_start,
    start_rng,
)
from bayespoint.threads import open_threads
from bayespoint.validation import (
    check_jobs,
    check_label_noise,
    check_natural_number,
    check_number,
    check_positive_integer,
    check_seed,
    check_verbose,
    entropy_of,
    warn,
)
from bayespoint.version_space import check_space

# Where balls begin, by name.
STARTS = ("consistent", "random", "light_trap")

# Flights this near to a multiple of pi, in units of pi, are refused.
RESONANCE = 0.02

# Numbers that differ by less than this share are equal but for rounding.
CONSTANT = 1e-9

# An R-hat above this tells chains that do not agree, if they have at least so many draws:
# independent ones exceed it in none of 20,000 trials (tests/test_diagnostics.py).
UNMIXED = 1.2
UNMIXED_DRAWS = 25

# Flights before the first draw: many times what draws depend on each other for (effective draws in
# benchmarks/samplers.py, and of training errors in benchmarks/billiard.py).
BURN_IN = 20
BURN_IN_NOISY = 100


def sample_billiard(
    space, n_draws=1000, *, label_noise=0.0, n_chains=4, travel=TRAVEL, thin=1, burn_in=None,
    travel_time=None, tol=None, max_time=None, start=None, n_path=0, n_jobs=None,
    random_state=None, verbose=0,
):  # fmt: skip
    """Draw classifiers uniformly from version space, or from the posterior of noisy labels.

    Exact: apart from the burn-in, draws have the stated distribution.

    Parameters
    ----------
    space : VersionSpace
        Any kernel; the Gram matrix may be singular.
    n_draws : int, default=1000
        Draws of all chains together, rounded up to a multiple of ``n_chains``.
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one a point.
    n_chains : int, default=4
        Balls, each from a start of its own.
    travel : float, default=pi / 2
        Radians between two refreshes of the direction. For the Bayes point alone long flights,
        9 pi / 2, are better; multiples of pi, where balls come back, are refused. Where the span
        of the points has only two dimensions, flights are of random length with this mean.
    thin : int, default=1
        Flights for each draw.
    burn_in : int, optional
        Flights before the first draw. Default: 20, or 100 with label noise.
    travel_time : float, optional
        Radians after which each ball stops, burn-in not counted.
    tol : float, optional
        Stop once the Monte-Carlo error of the Bayes point, an angle in radians, is below this.
    max_time : float, optional
        Seconds after which the draws made so far are returned. The Gram matrix is factorised and
        starts are found first, whatever the limit.
    start : array-like of shape (n_chains, m), {"consistent", "random", "light_trap"}, optional
        Coefficients where the balls start; or inside version space (with label noise, as far in
        as a perceptron finds); or anywhere (label noise only); or inside version space, where
        light traps lead from the class means (see `bayespoint.starts`). By default inside version
        space without label noise, else in turn inside and anywhere.
    n_path : int, default=0
        Number of walls and flight ends at which the position of the first ball is recorded.
    n_jobs : int, optional
        Threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
    verbose : int, default=0
        Show progress on standard error.

    Returns
    -------
    Posterior
        Its ``bayes_point()`` is the mean of the draws or over the path, whichever has the smaller
        error. ``info`` has ``bounces`` and ``passes`` (one number a chain), ``travel_time``
        (radians a chain), ``flight_seconds`` (in the compiled loop), ``drift`` (largest
        difference of an output, as a share of sqrt(k(x, x)), to one recomputed from
        coefficients), ``restarts`` (of balls that rounding led out of their
        cell), ``rhat`` and ``ess`` (of the mean margin and of the number of training errors, the
        worse of them), ``errors`` (training errors of each draw, chain after chain), ``path``
        (outputs of the first ball at its first walls and flight ends).

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.

    Examples
    --------
    Equal angles between all walls: all margins of the Bayes point are equal.

    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, 1, 1])
    >>> post = inference.sample_billiard(space, n_draws=4000, random_state=0)
    >>> space.margins(post.bayes_point()).round(1)
    array([0.8, 0.8, 0.8])
    """
    check_space(space)
    for name, value in (("n_draws", n_draws), ("n_chains", n_chains), ("thin", thin)):
        check_positive_integer(name, value)
    check_travel(travel)
    for name, value in (("tol", tol), ("max_time", max_time), ("travel_time", travel_time)):
        if value is not None:
            check_number(name, value, above=0)
    for name, value in (("burn_in", 0 if burn_in is None else burn_in), ("n_path", n_path)):
        check_natural_number(name, value)
    check_verbose(verbose)
    check_jobs(n_jobs)
    check_seed(random_state)
    noise = check_label_noise(label_noise, len(space))
    travel, thin = float(travel), int(thin)
    per_chain = -(-n_draws // n_chains)
    if travel_time is not None:
        per_chain = max(1, min(per_chain, int(travel_time / (travel * thin) + 1e-9)))
    if burn_in is None:
        burn_in = BURN_IN_NOISY if np.any(noise) else BURN_IN
    budget = Budget(max_time, "billiard" if verbose else None)
    entropy = entropy_of(random_state)
    with budget.catching_interrupts(), open_threads(effective_n_jobs(n_jobs)) as threads:
        factor = factorise(space.rows, space.softness, threads, lambda: budget.interrupted)
        coef = _starts(space, factor, noise, n_chains, start, entropy, budget, threads)
        walls = [np.tile(values, (n_chains, 1)) for values in pass_rates(space, label_odds(noise))]
        table = Table(space.rows, space.ridge, factor, *walls)
        balls = Balls(table, coef, np.random.SeedSequence(entropy, spawn_key=(2, 0)), n_path)
        flights = run(
            balls, per_chain, travel=travel, thin=thin, burn_in=int(burn_in), budget=budget,
            threads=threads, enough=None if tol is None else _precise(space, tol),
        )  # fmt: skip
    factor.release()
    if budget.interrupted:
        raise KeyboardInterrupt
    posterior = posterior_of(space, factor, balls, flights, noise)
    warn_if_unmixed(flights.n_draws, posterior.info["rhat"])
    return posterior


def check_travel(travel):
    """Refuse flights that end near where they began, or opposite."""
    check_number("travel", travel, above=0)
    turns = travel / np.pi
    if round(turns) and abs(turns - round(turns)) < RESONANCE:
        raise ValueError(
            f"travel must not be a multiple of pi, where balls come back; got {travel!r}. Take "
            f"pi / 2, or 9 pi / 2 for the Bayes point alone."
        )


def pass_rates(space, odds):
    """Labels of the walls, and the probabilities to pass them from the side of the label.

    A wall whose label has log-odds t is passed with probability exp(-t). Walls that coincide
    (points in the same or in opposite directions) act as one, with the sum of their log-odds; the
    others of them let everything pass.
    """
    label, odds = space.y.copy(), space.y * odds
    if np.all(np.isinf(odds)):
        return label, np.exp(-np.abs(odds))
    for i, same, sign in coinciding_walls(space):
        together = np.append(odds[i], sign * odds[same])
        sure = together[np.isinf(together)]  # what is sure outweighs all else
        odds[i] = sure[0] if len(sure) else together.sum()
        odds[same] = 0.0
    return np.where(odds == 0, label, np.sign(odds)), np.exp(-np.abs(odds))


def starts_of(space, factor, odds, rngs, budget, kind=None, check=None):
    """Coefficients of the unit vectors where the balls of a machine begin, one a generator.

    "consistent": with all labels right, if that can be; with noise, at least those that are sure.
    "random": anywhere. By default consistent, but every other ball anywhere if no label is sure.
    """
    sure = np.isinf(odds)
    starts: list = [None] * len(rngs)
    for ball, rng in enumerate(rngs):
        if kind == "random" or (kind is None and ball % 2 and not np.any(sure)):
            starts[ball] = random_start(factor, rng)
    inside = [ball for ball, start in enumerate(starts) if start is None]
    solved = direct_starts(space, factor, [rngs[ball] for ball in inside])
    for ball, start in zip(inside, solved, strict=True):
        starts[ball] = start
        if start is None:
            found = perceptron_vector(space, sure, rngs[ball], budget, check)
            # None if labels cancel each other and none of them is sure.
            starts[ball] = random_start(factor, rngs[ball]) if found is None else found.coef
    return np.array(starts)


def _starts(space, factor, noise, n_chains, start, entropy, budget, threads):
    if start is None or isinstance(start, str | bytes):
        if start not in (None, *STARTS):
            raise ValueError(f"start must be an array, one of {STARTS} or None; got {start!r}.")
        if start == "light_trap":
            with budget.unlimited():
                traps = light_traps(space, factor, n_chains, entropy, budget, threads)
            return np.array([trap.coef for trap in traps])
        if start == "random" and np.any(noise == 0):
            raise ValueError("start='random' needs label_noise > 0 for every point.")
        rngs = [start_rng(entropy, number) for number in range(n_chains)]
        return starts_of(space, factor, label_odds(noise), rngs, budget, start)
    return given_starts(space, start, n_chains, noise == 0)


def _precise(space, tol):
    def enough(flights):
        if draws_error(flights.coef, flights.outputs) <= tol:
            return True
        return centre_of(space, flights, slice(None), "path")[1] <= tol

    return enough


def centre_of(space, flights, balls, source):
    """Unit Bayes point from the "kicks" or the "path" of some balls, and its error, an angle."""
    means, weights = flights.batches(source, balls)
    return unit_centre(means, outputs_of(space.rows, space.ridge, means), weights)


def posterior_of(space, factor, balls, flights, noise):
    """Return the `Posterior` of balls that are all of one machine."""
    coef, outputs = flights.coef, flights.outputs
    n_chains, m = len(coef), coef.shape[2]
    errors = training_errors(space.y, outputs)
    rhat, ess = mixing(space.y, outputs, errors, balls.squared_length)
    info = balls.counts() | {
        "rhat": rhat,
        "ess": ess,
        "travel_time": float(sum(flights.radians)),
        "errors": errors.ravel(),
        "path": balls.recorded_path(),
    }
    sources = ["path"] if flights.path else []
    if np.any(flights.kicks):
        sources.append("kicks")
    centres = {source: centre_of(space, flights, slice(None), source) for source in sources}
    precise = sources and centres["path"][1] < draws_error(coef, outputs)
    return Posterior(
        coef.reshape(-1, m), n_chains=n_chains, outputs=outputs.reshape(-1, m), centres=centres,
        source="path" if precise else "draws", space=space, factor=factor, label_noise=noise,
        info=info,
    )  # fmt: skip


def mixing(target, outputs, errors, squared_length):
    """R-hat and ESS of the mean margin and of the number of training errors, the worse of them.

    ``outputs``: (n_chains, n_draws, m).
    """
    numbers = [outputs @ (target / np.sqrt(squared_length)), errors]
    varying = [x for x in numbers if np.ptp(x) > CONSTANT * np.max(np.abs(x))]
    if not varying:  # version space is a point
        return 1.0, float(errors.size)
    rhat = [diagnostics.rhat(x) for x in varying]
    ess = [diagnostics.ess(x) for x in varying]
    return float(np.max(rhat)), float(np.min(ess))


def warn_if_unmixed(n_draws, rhat):
    """Warn when there was no time for a draw of each ball, or when chains do not agree."""
    if not n_draws:
        warn(
            "the time was up before the first draw of the billiard: what it gives are its "
            "starting points. Raise max_time.",
            ConvergenceWarning,
        )
    elif n_draws >= UNMIXED_DRAWS and np.any(np.asarray(rhat) > UNMIXED):
        warn(
            f"the chains of the billiard do not agree yet (R-hat {np.nanmax(rhat):.2f}, should be "
            f"below {UNMIXED}): raise n_draws.",
            ConvergenceWarning,
        )
