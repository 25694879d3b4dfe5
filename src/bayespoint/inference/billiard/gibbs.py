"""The kernel Gibbs sampler (KGS 3), for labels that are wrong with some probability.

From w a direction v, isotropic in the tangent space, spans a great circle w cos t + v sin t. The
posterior, prod_i q_i^(e_i) (1 - q_i)^(1 - e_i) with e_i = 1 for an error at point i, is constant
between the angles where an output changes sign, two for each point. A step sorts these angles,
chooses an interval by length and posterior, and a place in it. Where labels are sure (q_i = 0) the
arc between their nearest walls is all there is to choose from, and nothing is sorted.
"""

from typing import Any

import numpy as np

from bayespoint._support.checks import check_label_noise
from bayespoint._support.types import Seed
from bayespoint.inference.billiard.chains import Moves, draws_per_chain, sample_chains
from bayespoint.inference.billiard.walkers import Walkers
from bayespoint.inference.sampling import sampling
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import VersionSpace


def sample_gibbs(
    space: VersionSpace, n_draws: int = 1000, *, label_noise: Any = 0.0, n_chains: int = 4,
    thin: int = 1, burn_in: int | None = None, max_time: float | None = None, start: Any = None,
    n_jobs: int | None = None, random_state: Seed = None, verbose: int = 0,
) -> Posterior:  # fmt: skip
    """Draw classifiers from the posterior of noisy labels with the kernel Gibbs sampler.

    It is exact in the long run, but very slow: with more than some tens of points, nearly all of
    the posterior's mass on a random great circle is close to the current position. Use
    `sample_billiard` instead, which has the same posterior and makes about a thousand times as many
    effective draws per second, or more (``benchmarks/noise.py --part gibbs``).

    Parameters
    ----------
    space : VersionSpace
        Version space of any kernel; the Gram matrix may be singular.
    n_draws : int, default=1000
        Number of draws of all chains together, rounded up to a multiple of ``n_chains``.
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one per point.
    n_chains : int, default=4
        Number of chains, each with its own start.
    thin : int, default=1
        Number of steps per draw.
    burn_in : int, optional
        Number of steps before the first draw. Default: 20, or 100 with label noise. With more than
        a few points this is *not* enough to forget the start.
    max_time : float, optional
        Seconds after which the draws made so far are returned.
    start : array-like of shape (n_chains, m), {"consistent", "random", "light_trap"}, optional
        As for `sample_billiard`.
    n_jobs : int, optional
        Number of threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of all random numbers.
    verbose : int, default=0
        Whether to show progress on standard error.

    Returns
    -------
    Posterior
        Its ``info`` has ``rhat``, ``ess``, ``errors``, ``drift`` and ``flight_seconds``, as for
        `sample_billiard`.

    Raises
    ------
    EmptyVersionSpaceError
        If points contradict each other; the error names them.

    Warns
    -----
    ConvergenceWarning
        If the chains do not agree yet.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, 1, 1])
    >>> post = inference.sample_gibbs(space, n_draws=4000, label_noise=0.1, random_state=0)
    >>> bool(np.all(space.margins(post.bayes_point()) > 0))
    True
    """
    with sampling(
        space, "Gibbs sampler", n_draws, label_noise=label_noise, max_time=max_time, n_jobs=n_jobs,
        random_state=random_state, verbose=verbose,
    ) as (problem, plan):  # fmt: skip
        moves = Moves(
            n_chains, draws_per_chain(n_draws, n_chains), kind=Walkers, travel=np.pi, thin=thin,
            burn_in=burn_in, start=start,
        )  # fmt: skip
        posterior = sample_chains(space, problem, plan, moves, "Gibbs sampler")
    posterior.label_noise = check_label_noise(label_noise, len(space))
    return posterior
