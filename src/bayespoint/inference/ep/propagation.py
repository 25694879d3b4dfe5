"""Expectation propagation (Minka 2001; Opper & Winther 2000): the deterministic relative.

A Bayes point machine with softness is Gaussian-process classification with probit noise. EP
approximates its posterior by a Gaussian: the mean is the Bayes point, the variances give
probabilities, and the normalising constant is the evidence. The algorithm is in
`bayespoint.inference.ep.sites`.
"""

from typing import Any

import numpy as np

from bayespoint._support.checks import check_label_noise, check_number, check_positive_integer
from bayespoint.inference.ep.method import propagate_machines
from bayespoint.inference.ep.posterior import GaussianPosterior, warn_if_moving
from bayespoint.inference.ep.sites import Sites
from bayespoint.inference.sampling import sampling
from bayespoint.space.version_space import EmptyVersionSpaceError, VersionSpace

# Precise enough for every use: the evidence errs by the square of it.
TOLERANCE = 1e-4


def expectation_propagation(
    space: VersionSpace, *, label_noise: Any = 0.0, start: Any = None, tol: float = TOLERANCE,
    max_sweeps: int = 200, max_time: float | None = None, device: str = "cpu",
) -> GaussianPosterior:  # fmt: skip
    """Approximate the posterior of classifiers by a Gaussian.

    The result is deterministic but not exact. On sonar, heart and banana its mean was within 2
    degrees of the centre of mass, and its probabilities were within 0.04 of the exact ones. Its log
    evidence was too low, by 0.01 to 0.3 in most cases, and by 1 to 2 if walls are close together
    and softness is small (narrow kernels on banana, near-copies). ``benchmarks/evidence.py`` prints
    these figures. With label noise, contradictory labels and little softness, sites may converge
    only if they are bounded (in one of twelve cases: 10 degrees, 0.28, and 3.0 too low), or not at
    all. The result may then be far off, in either direction, and there is a warning.

    Parameters
    ----------
    space : VersionSpace
        Version space of any kernel; the Gram matrix may be singular.
    label_noise : float or array-like of shape (m,), default=0.0
        Probability that a label is wrong, in [0, 0.5): one rate, or one per point.
    start : GaussianPosterior or Sites, optional
        Result of a similar problem with the same points, for example with another width, softness
        or rate; it saves sweeps.
    tol : float, default=1e-4
        Sweeps end when one more would change no mean output by more than this many of its standard
        deviations, and no variance by more than this share.
    max_sweeps : int, default=200
        Largest number of sweeps; each takes 2/3 m³ operations.
    max_time : float, optional
        Seconds after which the result of the last sweep is returned.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute, in float64: "cuda" uses an NVIDIA GPU, "auto" uses a GPU if there is one.

    Returns
    -------
    GaussianPosterior

    Raises
    ------
    EmptyVersionSpaceError
        Without softness and label noise, if no classifier agrees with all labels.

    Warns
    -----
    ConvergenceWarning
        If sites did not converge, or only after they were bounded (in a second run of at most as
        many sweeps).

    Examples
    --------
    A start from the result for another softness saves sweeps:

    >>> import numpy as np
    >>> from bayespoint import VersionSpace, inference
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> K, y = (X @ X.T + 1) ** 2, np.sign(X[:, 0] + X[:, 1] ** 2 - 0.5)
    >>> one = inference.expectation_propagation(VersionSpace(K, y, 0.1))
    >>> two = inference.expectation_propagation(VersionSpace(K, y, 0.11), start=one)
    >>> two.sweeps < one.sweeps
    True
    """
    check_number("tol", tol, above=0)
    check_positive_integer("max_sweeps", max_sweeps)
    with sampling(
        space, "", 1, label_noise=label_noise, tol=tol, max_time=max_time, device=device,
        random_state=0,
    ) as (problem, plan):  # fmt: skip
        sites = _checked_start(start, len(space))
        (posterior,) = propagate_machines(
            problem, plan, None if sites is None else [sites], max_sweeps=max_sweeps
        )
    plan.budget.raise_if_interrupted()
    if not posterior.converged and not space.softness and not problem.noisy:
        conflicting = space.conflict()
        if conflicting is not None:
            raise EmptyVersionSpaceError(conflicting)
    posterior.space, posterior.label_noise = space, check_label_noise(label_noise, len(space))
    warn_if_moving(posterior)
    return posterior


def _checked_start(start: Any, m: int) -> Sites | None:
    if start is None:
        return None
    sites = start.sites if isinstance(start, GaussianPosterior) else start
    try:
        sites = Sites(*(np.array(values, dtype=np.float64) for values in sites))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"start must be a GaussianPosterior or its sites; got {type(start).__name__}."
        ) from error
    if any(values.shape != (m,) or not np.all(np.isfinite(values)) for values in sites):
        raise ValueError(
            f"start must hold finite sites of {m} points; got {[np.shape(v) for v in sites]}."
        )
    return sites
