"""Ways into version space: where a billiard ball begins."""

import numpy as np

from bayespoint.perceptrons import (
    MAX_PASSES,
    ZeroLengthError,
    conflict_check,
    perceptron_draws,
)

# Margins asked of direct solves are log-normal, alternately about equal and widely spread, so that
# balls begin near the middle and near the walls.
SPREADS = (0.5, 3.0)
SHRINK = (1.0, 0.3, 0.0)

# Visits of each point by a perceptron that need not get all of them right.
NOISY_PASSES = 50

# Solves of the linear system, each for what the last one left.
REFINEMENTS = 3


def direct_starts(space, factor, rngs):
    """Unit vectors with random positive margins, from linear solves; None for one that fails.

    It needs a Gram matrix that is not singular: y_i <w, phi(x_i)> = t_i then has a solution for
    any t > 0. Where rounding spoils it, less spread margins are tried.
    """
    starts: list = [None] * len(rngs)
    if not rngs or factor.rank < len(space):
        return starts
    logarithms = np.array([rng.standard_normal(len(space)) for rng in rngs])
    spreads = np.resize(SPREADS, len(rngs))[:, None]
    length = np.sqrt(space.rows.diagonal + space.ridge)
    left = np.arange(len(rngs))
    for shrink in SHRINK:
        wanted = space.y * np.exp(shrink * spreads[left] * logarithms[left]) * length
        coef = np.zeros_like(wanted)
        for _ in range(REFINEMENTS):
            coef += factor.coefficients(factor.white(wanted - space.outputs(coef)))
        squared = np.maximum(np.sum(coef * space.outputs(coef), axis=1), np.finfo(float).tiny)
        coef /= np.sqrt(squared)[:, None]
        inside = np.all(space.y * space.outputs(coef) > 0, axis=1)
        for ball, unit in zip(left[inside], coef[inside], strict=True):
            starts[ball] = unit
        left = left[~inside]
        if not len(left):
            break
    return starts


def perceptron_start(space, sure, rng, budget, check=None):
    """Unit vector from a kernel perceptron on the points in a random order.

    Where some labels are ``sure``, on these alone until all are right; otherwise on all points
    for a while; None if they cancel each other. Raises `EmptyVersionSpaceError` with points that
    contradict each other, if ``check`` (called with 0 and how often each point was added) finds
    some.
    """
    must = bool(np.any(sure))
    order = rng.permutation(np.flatnonzero(sure) if must else len(space)).astype(np.int32)
    check = check or conflict_check(lambda _: space)
    try:
        with budget.silent():
            (draw,) = perceptron_draws(
                space.rows, space.y.astype(np.int8)[None, :], space.ridge, range(1),
                lambda _: order, budget=budget, max_passes=MAX_PASSES if must else NOISY_PASSES,
                on_exhausted=check if must else None,
            )  # fmt: skip
    except ZeroLengthError:
        if must:
            raise
        return None
    if must and draw.violated[0]:
        if budget.stopped:
            raise KeyboardInterrupt
        raise ValueError(
            f"found no start inside version space: the Gram matrix is singular (or nearly so), and "
            f"the perceptron leaves {draw.violated[0]} training points on the wrong side. Raise "
            f"softness, set label_noise > 0, or raise max_time where it is set."
        )
    coef = np.zeros(len(space))
    coef[draw.coef[0][0]] = draw.coef[0][1]
    return coef


def random_start(factor, rng):
    """Unit vector in a random direction: a draw of the prior."""
    white = rng.standard_normal((1, factor.rank))
    return factor.coefficients(white / np.linalg.norm(white))[0]
