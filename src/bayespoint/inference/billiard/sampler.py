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

from typing import Any

import numpy as np

from bayespoint._support.checks import (
    check_label_noise,
    check_natural_number,
    check_number,
    check_positive_integer,
)
from bayespoint._support.types import Seed
from bayespoint.inference.billiard.balls import TRAVEL
from bayespoint.inference.billiard.chains import Moves, draws_per_chain, sample_chains
from bayespoint.inference.engines import engines_of
from bayespoint.inference.sampling import sampling
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import VersionSpace

# Flights this near to a multiple of pi, in units of pi, are refused.
RESONANCE = 0.02


def sample_billiard(
    space: VersionSpace, n_draws: int = 1000, *, label_noise: Any = 0.0, n_chains: int = 4,
    travel: float = TRAVEL, thin: int = 1, burn_in: int | None = None,
    travel_time: float | None = None, tol: float | None = None, max_time: float | None = None,
    start: Any = None, n_path: int = 0, device: str = "cpu", n_jobs: int | None = None,
    random_state: Seed = None, verbose: int = 0,
) -> Posterior:  # fmt: skip
    """Draw classifiers uniformly from version space, or from the posterior of noisy labels.

    Exact: apart from the burn-in, draws have the stated distribution.

    Parameters
    ----------
    space : VersionSpace
        Any kernel; the Gram matrix may be singular.
    n_draws : int, default=1000
        Draws of all chains together, rounded up to a multiple of ``n_chains``.
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one per point.
    n_chains : int, default=4
        Balls, each from its own start.
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
        light traps lead from the class means (see `bayespoint.inference.starts`). By
        default inside version space without label noise, otherwise inside and anywhere in turn.
    n_path : int, default=0
        Number of walls and flight ends at which the position of the first ball is recorded; on
        the CPU only.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where balls fly: "cuda" on an NVIDIA GPU, "auto" there if there is one. It moves a hundred
        balls (``n_chains``) at little more cost than four. Its factor needs full rank: softness, or
        a Gram matrix that is not singular.
    n_jobs : int, optional
        Threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
    verbose : int, default=0
        Show progress on standard error.

    Returns
    -------
    Posterior
        Its ``bayes_point()`` is the mean of the draws or over the path, whichever has the smaller
        error. ``info`` has ``bounces`` and ``passes`` (one number per chain), ``travel_time``
        (radians per chain), ``flight_seconds`` (in the compiled loop), ``drift`` (largest
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
    check_travel(travel)
    for name, value in (("tol", tol), ("travel_time", travel_time)):
        if value is not None:
            check_number(name, value, above=0)
    check_natural_number("n_path", n_path)
    check_positive_integer("thin", thin)
    travel = float(travel)
    most = np.inf if travel_time is None else int(travel_time / (travel * thin) + 1e-9)
    with sampling(
        space, "billiard", n_draws, label_noise=label_noise, tol=tol, max_time=max_time,
        device=device, n_jobs=n_jobs, random_state=random_state, verbose=verbose,
    ) as (problem, plan):  # fmt: skip
        if n_path and not engines_of(problem.rows).records_path:
            raise ValueError(
                f"n_path={n_path} records a path, which needs device='cpu'; got {device!r}."
            )
        moves = Moves(
            n_chains, draws_per_chain(n_draws, n_chains, most), travel=travel, thin=thin,
            burn_in=burn_in, start=start, n_path=n_path,
        )  # fmt: skip
        posterior = sample_chains(space, problem, plan, moves, "billiard")
    posterior.label_noise = check_label_noise(label_noise, len(space))
    return posterior


def check_travel(travel: float) -> None:
    """Refuse flights that end near where they began, or opposite."""
    check_number("travel", travel, above=0)
    turns = travel / np.pi
    if round(turns) and abs(turns - round(turns)) < RESONANCE:
        raise ValueError(
            f"travel must not be a multiple of pi, where balls come back; got {travel!r}. Take "
            f"pi / 2, or 9 pi / 2 for the Bayes point alone."
        )
