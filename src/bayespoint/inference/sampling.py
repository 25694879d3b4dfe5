"""What functions that sample one version space begin with: checks, budget, place, threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from bayespoint._support.budget import Budget
from bayespoint._support.checks import (
    check_label_noise,
    check_positive_integer,
    check_run,
    entropy_of,
)
from bayespoint._support.threads import open_threads
from bayespoint._support.types import Seed
from bayespoint.inference.draws import Plan
from bayespoint.inference.engines import space_on
from bayespoint.inference.problem import Problem
from bayespoint.space.version_space import VersionSpace, check_space


@contextmanager
def sampling(
    space: VersionSpace, name: str, n_draws: int, *, label_noise: Any = 0.0,
    tol: float | None = None, max_time: float | None = None, device: str = "cpu",
    n_jobs: int | None = 1, random_state: Seed = None, verbose: int = 0,
) -> Iterator[tuple[Problem, Plan]]:  # fmt: skip
    """Check the arguments that samplers share; yield the problem of one machine, and a plan.

    Parameters
    ----------
    space : VersionSpace
    name : str
        Of the algorithm, for the progress line.
    n_draws : int
    label_noise : float or array-like of shape (m,)
    tol : float, optional
        Monte Carlo error of the Bayes point that is small enough; by default none is.
    max_time, device, n_jobs, random_state, verbose
        As samplers take them.
    """
    check_space(space)
    check_positive_integer("n_draws", n_draws)
    check_run(max_time=max_time, n_jobs=n_jobs, random_state=random_state, verbose=verbose)
    noise = check_label_noise(label_noise, len(space))
    budget = Budget(max_time, name if verbose else None)
    threads_of = open_threads(effective_n_jobs(n_jobs))
    with space_on(space, device) as placed, budget.catching_interrupts(), threads_of as threads:
        yield (
            Problem.of_space(placed, noise),
            Plan(
                n_draws, -np.inf if tol is None else tol, entropy_of(random_state), budget, threads
            ),
        )
