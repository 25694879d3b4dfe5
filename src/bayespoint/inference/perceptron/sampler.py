"""Permuted kernel perceptrons as a sampler (LSB section 3; JMLR section 3.2, algorithm 1)."""

import numpy as np
from joblib import effective_n_jobs

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_positive_integer,
    check_seed,
    check_time,
    entropy_of,
)
from bayespoint._support.threads import open_threads
from bayespoint.inference.on_device import on_device
from bayespoint.inference.perceptron.ensemble import Ensemble
from bayespoint.inference.perceptron.runs import (
    MAX_PASSES,
    conflict_check,
    perceptron_draws,
    permutations,
    warn_if_violated,
)


def sample_perceptron(
    space, n_draws=100, *, max_passes=MAX_PASSES, max_time=None, device="cpu", n_jobs=None,
    random_state=None, verbose=0,
):  # fmt: skip
    """Draw classifiers from version space with permuted kernel perceptrons.

    The draws are independent and inside version space, but *not* uniform on it. In a trial before
    this library, on all of MNIST, the cosine between their mean and the centre of mass was 0.65 to
    0.92 per class, and as a classifier their mean was level with the centre of mass or better; no
    command here repeats that yet.

    Parameters
    ----------
    space : VersionSpace
    n_draws : int, default=100
        Number of orders of the points, one draw each.
    max_passes : int, default=1000
        Visits of each point after which a run is given up.
    max_time : float, optional
        Seconds after which the draws made so far are returned.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where runs are made: "cuda" on an NVIDIA GPU, "auto" there if there is one.
    n_jobs : int, optional
        Threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the orders.
    verbose : int, default=0
        Show progress on standard error.

    Returns
    -------
    Posterior
        With ``info["mistakes"]`` and ``info["violated"]``, one number a draw.

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.

    Warns
    -----
    ConvergenceWarning
        If runs were given up, with how many points they leave on the wrong side.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> X = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, -1.0]])
    >>> space = VersionSpace(X @ X.T, [1, 1, -1])
    >>> post = inference.sample_perceptron(space, n_draws=10, random_state=0)
    >>> bool(np.all(space.margins(post.bayes_point()) > 0))
    True
    """
    check_positive_integer("n_draws", n_draws)
    check_positive_integer("max_passes", max_passes)
    check_seed(random_state)
    check_time(max_time)
    budget = Budget(max_time, "perceptron" if verbose else None)
    targets = space.y.astype(np.int8)[None, :]
    order_of_draw = permutations(len(space), entropy_of(random_state))
    threads_of = open_threads(effective_n_jobs(n_jobs))
    with on_device(space, device) as placed, budget.catching_interrupts(), threads_of as threads:
        ensemble = Ensemble(1, len(space), outputs_of=placed.outputs)
        mistakes, outputs = [], []
        for draw in perceptron_draws(
            placed.rows, targets, space.ridge, range(n_draws), order_of_draw, budget=budget,
            threads=threads, max_passes=max_passes, on_exhausted=conflict_check(lambda _: placed),
        ):  # fmt: skip
            ensemble.add(draw)
            mistakes.append(draw.mistakes[0])
            if draw.outputs is not None:
                outputs.append(draw.outputs[0])
        if budget.interrupted:
            raise KeyboardInterrupt
        info = {"mistakes": np.array(mistakes), "violated": ensemble.violated[:, 0]}
        posterior = ensemble.posterior(0, **info)
        if not outputs:  # a GPU computes them together
            outputs = placed.outputs(posterior.coef.toarray())
    warn_if_violated(ensemble.violated)
    posterior.outputs, posterior.space = np.array(outputs), space
    return posterior
