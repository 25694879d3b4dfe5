"""Ways into version space: where a billiard ball begins."""

import numpy as np

from bayespoint.gram import outputs_of
from bayespoint.perceptrons import conflict_check, perceptron_draws

# Margins asked of direct solves are log-normal, alternately about equal and widely spread, so that
# balls begin near the middle and near the walls.
SPREADS = (0.5, 3.0)
SHRINK = (1.0, 0.3, 0.0)

# Solves of the linear system, each for what the last one left.
REFINEMENTS = 3


def direct_start(rows, ridge, factor, label, number, rng):
    """Unit vector with random positive margins, from a linear solve; None if it fails.

    It needs a Gram matrix that is not singular: y_i <w, phi(x_i)> = t_i then has a solution for
    any t > 0. Where rounding spoils it, less spread margins are tried.
    """
    if factor.rank < len(rows):
        return None
    logarithm = rng.standard_normal(len(rows))
    for shrink in SHRINK:
        spread = shrink * SPREADS[number % len(SPREADS)]
        wanted = label * np.exp(spread * logarithm) * np.sqrt(rows.diagonal + ridge)
        coef = np.zeros(len(rows))
        for _ in range(REFINEMENTS):
            missing = wanted - outputs_of(rows, ridge, coef)
            coef += factor.coefficients(factor.white(missing[None, :]))[0]
        squared = coef @ outputs_of(rows, ridge, coef)
        if squared > 0:
            coef /= np.sqrt(squared)
            if np.all(label * outputs_of(rows, ridge, coef) > 0):
                return coef
    return None


def perceptron_start(space, visited, rng, budget, check=None):
    """Unit vector from a kernel perceptron on the points ``visited``, in a random order.

    Raises `EmptyVersionSpaceError` with points that contradict each other, if ``check`` (called
    with 0 and how often each point was added) finds some.
    """
    order = rng.permutation(visited).astype(np.int32)
    with budget.silent():
        (draw,) = perceptron_draws(
            space.rows, space.y.astype(np.int8)[None, :], space.ridge, range(1), lambda _: order,
            budget=budget, on_exhausted=check or conflict_check(lambda _: space),
        )  # fmt: skip
    if budget.interrupted:
        raise KeyboardInterrupt
    if draw.violated[0]:
        raise ValueError(
            f"found no start inside version space: the Gram matrix is singular (or nearly so), and "
            f"the perceptron leaves {draw.violated[0]} training points on the wrong side. Set "
            f"softness > 0 or label_noise > 0, or raise max_time where it is set."
        )
    coef = np.zeros(len(space))
    coef[draw.coef[0][0]] = draw.coef[0][1]
    return coef


def random_start(factor, rng):
    """Unit vector in a random direction: a draw of the prior."""
    white = rng.standard_normal((1, factor.rank))
    return factor.coefficients(white / np.linalg.norm(white))[0]
