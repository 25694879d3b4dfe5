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

    After the burn-in, each draw has exactly this distribution; draws of a chain are correlated.

    Parameters
    ----------
    space : VersionSpace
        Version space of any kernel; the Gram matrix may be singular.
    n_draws : int, default=1000
        Number of draws of all chains together, rounded up to a multiple of ``n_chains``.
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one per point.
    n_chains : int, default=4
        Number of chains; each is one ball with its own start.
    travel : float, default=pi / 2
        Length of a flight in radians; then a new direction is drawn. If you need only the Bayes
        point, long flights of 9 pi / 2 are better. Multiples of pi are refused, because a ball
        that meets no wall would come back. If the span of the points has only two dimensions,
        flights have random lengths with this mean. In a narrow version space, where a ball would
        meet more than 500 times as many walls as there are points, flights are shorter (on the
        CPU).
    thin : int, default=1
        Number of flights per draw.
    burn_in : int, optional
        Number of flights before the first draw. Default: 20, or 100 with label noise.
    travel_time : float, optional
        Radians after which each ball stops, not counting the burn-in.
    tol : float, optional
        Stop once the Monte Carlo error of the Bayes point, an angle in radians, is below this.
    max_time : float, optional
        Seconds after which the draws made so far are returned. The Gram matrix is factorised and
        starts are found first, whatever the limit.
    start : array-like of shape (n_chains, m), {"consistent", "random", "light_trap"}, optional
        Where the balls start. An array has their coefficients. "consistent": inside version space
        (with label noise, as far inside as a perceptron gets). "random": anywhere (only with label
        noise). "light_trap": inside version space, reached from the class means by light traps
        (see `bayespoint.inference.starts`). Default: "consistent" without label noise, otherwise
        "consistent" and "random" in turn.
    n_path : int, default=0
        Number of walls and flight ends at which the position of the first ball is recorded (on
        the CPU only).
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute: "cuda" uses an NVIDIA GPU, "auto" uses a GPU if there is one. A GPU moves
        a hundred balls (``n_chains``) almost as fast as four. Its factor needs full rank: softness,
        or a Gram matrix that is not singular.
    n_jobs : int, optional
        Number of threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of all random numbers.
    verbose : int, default=0
        Whether to show progress on standard error.

    Returns
    -------
    Posterior
        Its ``bayes_point()`` is the mean of the draws or over the path, whichever has the smaller
        error. ``info`` has ``bounces`` and ``passes`` (one number per chain), ``travel_time``
        (radians per chain), ``flight_seconds`` (in the compiled loop), ``drift`` (largest
        difference between an output and the same one recomputed from coefficients, relative to
        sqrt(k(x, x))), ``restarts`` (how often rounding took a ball out of its cell), ``rhat`` and
        ``ess`` (the worse of two numbers, the mean margin and the number of training errors),
        ``errors`` (training errors of each draw, chain after chain) and ``path`` (outputs of the
        first ball at its first walls and flight ends).

    Raises
    ------
    EmptyVersionSpaceError
        If points contradict each other; the error names them.

    Examples
    --------
    If all walls meet at equal angles, all margins of the Bayes point are equal:

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
