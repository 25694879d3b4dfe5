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
from bayespoint.billiards import Balls, Table, run
from bayespoint.budget import Budget
from bayespoint.factor import Factor
from bayespoint.gram import outputs_of, submatrix
from bayespoint.perceptrons import entropy_of
from bayespoint.posterior import Posterior, angle_error, draws_error
from bayespoint.starts import direct_start, perceptron_start, random_start
from bayespoint.threads import open_threads
from bayespoint.validation import (
    check_label_noise,
    check_number,
    check_positive_integer,
    check_seed,
    warn,
)

# Travel between two refreshes of the direction: the most effective samples a second for 50 to
# 1,000 points. Multiples of pi are bad: the ball comes back.
TRAVEL = np.pi / 2

# Walls coincide when the cosine of their points is this close to 1 or -1.
PARALLEL = 1e-12

# Numbers that differ by less than this share are equal but for rounding.
CONSTANT = 1e-9

# Draws of chains that agree have an R-hat below this, but for one case in a hundred thousand.
UNMIXED = 1.2

# Flights before the first draw: at least so many, and this share of all.
BURN_IN = 20
BURN_IN_NOISY = 100
BURN_IN_SHARE = 0.1


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
        9 pi / 2, are better; multiples of pi are bad.
    thin : int, default=1
        Flights for each draw.
    burn_in : int, optional
        Flights before the first draw. Default: 20 (100 with label noise), or a tenth of the
        flights if that is more.
    travel_time : float, optional
        Radians after which each ball stops, burn-in not counted.
    tol : float, optional
        Stop once the Monte-Carlo error of the Bayes point, an angle in radians, is below this.
    max_time : float, optional
        Seconds after which the draws made so far are returned.
    start : array-like of shape (n_chains, m), {"consistent", "random"}, optional
        Coefficients where the balls start; or inside version space; or anywhere (label noise
        only). By default inside version space without label noise, else in turn inside and
        anywhere.
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
        cell), ``rhat`` and ``ess`` (of the training errors of draws, or of the mean margin where
        there are none), ``errors`` (training errors of each draw, chain after chain), ``path``
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
    check_positive_integer("n_draws", n_draws)
    check_positive_integer("n_chains", n_chains)
    check_positive_integer("thin", thin)
    check_number("travel", travel, above=0)
    for name, value in (("tol", tol), ("max_time", max_time), ("travel_time", travel_time)):
        if value is not None:
            check_number(name, value, above=0)
    if burn_in is not None:
        check_number("burn_in", burn_in, least=0)
    check_seed(random_state)
    noise = check_label_noise(label_noise, len(space))
    per_chain = -(-n_draws // n_chains)
    if travel_time is not None:
        per_chain = max(1, min(per_chain, int(travel_time / (travel * thin) + 1e-9)))
    if burn_in is None:
        burn_in = default_burn_in(per_chain * thin, bool(np.any(noise)))
    budget = Budget(max_time, "billiard" if verbose else None)
    entropy = entropy_of(random_state)
    with budget.catching_interrupts(), open_threads(effective_n_jobs(n_jobs)) as threads:
        factor = factorise(space.rows, space.ridge, threads, budget)
        coef = _starts(space, factor, noise, n_chains, start, entropy, budget)
        walls = [np.tile(values, (n_chains, 1)) for values in pass_rates(space, noise)]
        table = Table(space.rows, space.ridge, factor, *walls)
        balls = Balls(table, coef, np.random.SeedSequence(entropy, spawn_key=(2, 0)), n_path)
        flights = run(
            balls, per_chain, travel=travel, thin=thin, burn_in=int(burn_in), budget=budget,
            threads=threads, enough=None if tol is None else _precise(space, tol),
        )  # fmt: skip
    if budget.interrupted:
        raise KeyboardInterrupt
    posterior = posterior_of(space, factor, balls, flights, noise)
    warn_if_unmixed(bool(flights.n_draws), posterior.info["rhat"])
    return posterior


def default_burn_in(n_flights, noisy):
    """Flights before the first draw."""
    return max(BURN_IN_NOISY if noisy else BURN_IN, int(BURN_IN_SHARE * n_flights))


def factorise(rows, ridge, threads, budget):
    """Make all rows present, and factorise the softened Gram matrix."""
    if len(rows.store) < len(rows):
        needed = rows.store.itemsize * len(rows) ** 2 / 1e6
        raise ValueError(
            f"the billiard needs all rows of the Gram matrix at once: {needed:.0f} MB for "
            f"{len(rows)} points; the store holds {rows.store.nbytes / 1e6:.0f} MB. Raise "
            f"cache_size, or draw with perceptrons."
        )
    everyone = np.arange(len(rows))
    rows.ensure(everyone)
    K = submatrix(rows, everyone)
    K[np.diag_indices_from(K)] += ridge
    return Factor(K, rows.store.dtype, threads, lambda: budget.interrupted)


def pass_rates(space, noise):
    """Labels of the walls, and the probabilities to pass them from the side of the label.

    A point whose label is wrong with probability q has log-odds t = log((1 - q)/q), and its wall
    is passed with probability exp(-t). Walls that coincide (points in the same or in opposite
    directions) act as one, with the sum of their log-odds; the others of them let everything pass.
    """
    label = space.y.copy()
    if not np.any(noise) or space.softness > 0:  # softened points are never parallel
        return label, noise / (1 - noise)
    with np.errstate(divide="ignore"):
        odds = label * np.log((1 - noise) / noise)
    length = np.sqrt(space.rows.diagonal)
    seen = np.zeros(len(space), dtype=bool)
    for i in range(len(space)):
        if seen[i]:
            continue
        space.rows.ensure(np.array([i]))
        cosine = space.rows.store[space.rows.slot_of_row[i]] / (length * length[i])
        same = np.flatnonzero(np.abs(cosine) > 1 - PARALLEL)
        same = same[same > i]
        if len(same):
            odds[i] += np.sum(np.sign(cosine[same]) * odds[same])
            odds[same], seen[same] = 0.0, True
    return np.where(odds == 0, label, np.sign(odds)), np.exp(-np.abs(odds))


def start_of(space, factor, noise, number, rng, budget, kind=None, check=None):
    """Coefficients of the unit vector where ball ``number`` of a machine begins."""
    sure = noise == 0
    if kind is None:
        kind = "random" if number % 2 and not np.any(sure) else "consistent"
    if kind == "random":
        return random_start(factor, rng)
    coef = direct_start(space.rows, space.ridge, factor, space.y, number, rng)
    if coef is None:
        if not np.any(sure):  # no wall has to be obeyed
            return random_start(factor, rng)
        coef = perceptron_start(space, np.flatnonzero(sure), rng, budget, check)
    return coef


def _starts(space, factor, noise, n_chains, start, entropy, budget):
    if start is None or isinstance(start, str):
        if start not in (None, "consistent", "random"):
            raise ValueError(
                f"start must be an array, 'consistent', 'random' or None; got {start!r}."
            )
        if start == "random" and np.any(noise == 0):
            raise ValueError("start='random' needs label_noise > 0 for every point.")
        rngs = [start_rng(entropy, number) for number in range(n_chains)]
        return np.array([
            start_of(space, factor, noise, number, rng, budget, start)
            for number, rng in enumerate(rngs)
        ])  # fmt: skip
    coef = np.array(start, dtype=np.float64)
    if coef.shape != (n_chains, len(space)):
        raise ValueError(
            f"start must have one row of {len(space)} coefficients for each of {n_chains} chains; "
            f"got shape {coef.shape}."
        )
    outputs = space.outputs(coef)
    squared = np.einsum("cj,cj->c", coef, outputs)
    wrong = np.any((space.y * outputs < 0) & (noise == 0), axis=1)
    if not np.all(squared > 0) or np.any(wrong):
        raise ValueError(
            f"start must lie inside version space; chains {np.flatnonzero(wrong).tolist()} do not."
        )
    return coef / np.sqrt(squared)[:, None]


def start_rng(entropy, ball):
    """Generator of the start of a ball."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(3, ball)))


def _precise(space, tol):
    def enough(flights):
        if draws_error(flights.coef, flights.outputs) <= tol:
            return True
        return centre_of(space, flights, slice(None), "path")[1] <= tol

    return enough


def centre_of(space, flights, balls, source):
    """Unit Bayes point from the "kicks" or the "path" of some balls, and its error, an angle."""
    means, weights = flights.batches(source, balls)
    outputs = outputs_of(space.rows, space.ridge, means)
    shares = weights / weights.sum()
    centre, norm = shares @ means, np.sqrt((shares @ means) @ (shares @ outputs))
    return centre / norm, angle_error(means, outputs, weights)


def posterior_of(space, factor, balls, flights, noise):
    """Return the `Posterior` of balls that are all of one machine."""
    coef, outputs = flights.coef, flights.outputs
    n_chains, m = len(coef), coef.shape[2]
    rhat, ess = mixing(space.y, outputs, balls.squared_length)
    info = balls.counts() | {
        "rhat": rhat,
        "ess": ess,
        "travel_time": float(sum(flights.radians)),
        "errors": np.count_nonzero(space.y * outputs < 0, axis=2).ravel(),
        "path": balls.recorded_path(),
    }
    sources = ("path", "kicks") if flights.n_draws else ()
    centres = {source: centre_of(space, flights, slice(None), source) for source in sources}
    precise = sources and centres["path"][1] < draws_error(coef, outputs)
    return Posterior(
        coef.reshape(-1, m), n_chains=n_chains, outputs=outputs.reshape(-1, m), centres=centres,
        source="path" if precise else "draws", space=space, factor=factor, label_noise=noise,
        info=info,
    )  # fmt: skip


def mixing(targets, outputs, squared_length):
    """R-hat and ESS of one number a draw: training errors where there are some, else mean margin.

    ``outputs``: (n_chains, n_draws, m).
    """
    margins = targets * outputs
    errors = np.count_nonzero(margins < 0, axis=2)
    number = errors if np.any(errors) else np.mean(margins / np.sqrt(squared_length), axis=2)
    if np.ptp(number) <= CONSTANT * np.max(np.abs(number)):  # version space is a point
        return 1.0, float(number.size)
    return float(diagnostics.rhat(number)), float(diagnostics.ess(number))


def warn_if_unmixed(moved, rhat):
    """Warn when there was no time for a draw, or when chains do not agree."""
    if not moved:
        warn(
            "the time was up before the first draw of the billiard: what it gives are its "
            "starting points. Raise max_time.",
            ConvergenceWarning,
        )
    elif np.any(np.asarray(rhat) > UNMIXED):
        warn(
            f"the chains of the billiard do not agree yet (R-hat {np.nanmax(rhat):.2f}, should be "
            f"below {UNMIXED}): raise n_draws.",
            ConvergenceWarning,
        )
