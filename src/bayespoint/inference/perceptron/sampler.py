"""Permuted kernel perceptrons as a sampler (LSB section 3; JMLR section 3.2, algorithm 1)."""

import numpy as np

from bayespoint._support.checks import check_positive_integer
from bayespoint._support.types import Array, Seed
from bayespoint.inference.perceptron.method import draw_perceptrons
from bayespoint.inference.perceptron.runs import MAX_PASSES, Draw, warn_if_violated
from bayespoint.inference.sampling import sampling
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import VersionSpace


def sample_perceptron(
    space: VersionSpace, n_draws: int = 100, *, max_passes: int = MAX_PASSES,
    max_time: float | None = None, device: str = "cpu", n_jobs: int | None = None,
    random_state: Seed = None, verbose: int = 0,
) -> Posterior:  # fmt: skip
    """Draw classifiers from version space with permuted kernel perceptrons.

    The draws are independent and lie in version space, but they are *not* uniform on it:
    ``bayespoint reproduce lsb-question`` shows how they differ. As a classifier, their mean may be
    better than the centre of mass (``benchmarks/billiard.py``, part classifiers).

    Parameters
    ----------
    space : VersionSpace
        Version space of any kernel.
    n_draws : int, default=100
        Number of draws; each uses its own order of the points.
    max_passes : int, default=1000
        Number of passes over the points after which a run is given up.
    max_time : float, optional
        Seconds after which the draws made so far are returned.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute: "cuda" uses an NVIDIA GPU, "auto" uses a GPU if there is one.
    n_jobs : int, optional
        Number of threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the orders.
    verbose : int, default=0
        Whether to show progress on standard error.

    Returns
    -------
    Posterior
        Its ``info`` has ``mistakes`` (made during a run) and ``violated`` (points still on the
        wrong side), one number per draw.

    Raises
    ------
    EmptyVersionSpaceError
        If points contradict each other; the error names them.

    Warns
    -----
    ConvergenceWarning
        If runs were given up; it says how many points they leave on the wrong side.

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
    check_positive_integer("max_passes", max_passes)
    mistakes: list[int] = []
    outputs: list[Array] = []

    def keep(draw: Draw) -> None:
        mistakes.append(draw.mistakes[0])
        if draw.outputs is not None:  # a GPU computes them together
            outputs.append(draw.outputs[0])

    with sampling(
        space, "perceptron", n_draws, max_time=max_time, device=device, n_jobs=n_jobs,
        random_state=random_state, verbose=verbose,
    ) as (problem, plan):  # fmt: skip
        ensemble = draw_perceptrons(problem, plan, max_passes=max_passes, on_draw=keep)
        plan.budget.raise_if_interrupted()
        info = {"mistakes": np.array(mistakes), "violated": ensemble.violated[:, 0]}
        posterior = ensemble.posterior(0, **info)
        posterior.outputs = np.array(outputs or problem.outputs(posterior.coef.toarray()))
    warn_if_violated(ensemble.violated)
    posterior.space = space
    return posterior
