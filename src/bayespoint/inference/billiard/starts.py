"""Ways into version space: where a billiard ball begins.

`perceptron_start` works for any kernel and proves version space empty if it is. `light_trap_start`
(R&M 18.5.2) needs nothing but the billiard itself. `direct_start` is one linear solve, for Gram
matrices that are not singular.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.checks import check_number, check_positive_integer
from bayespoint._support.types import Array, Seed
from bayespoint.inference.billiard.balls import TRAVEL, Balls, Table, coinciding_walls
from bayespoint.inference.draws import Plan
from bayespoint.inference.perceptron.runs import (
    MAX_PASSES,
    ZeroLengthError,
    conflict_check,
    perceptron_draws,
)
from bayespoint.inference.sampling import sampling
from bayespoint.space.version_space import EmptyVersionSpaceError, VersionSpace

# Margins asked of direct solves are log-normal, alternately about equal and widely spread, so that
# balls begin near the middle and near the walls.
SPREADS = (0.5, 3.0)
SHRINK = (1.0, 0.3, 0.0)

# Visits of each point by a perceptron that need not get all of them right.
NOISY_PASSES = 50

# Solves of the linear system, each for what the last one left.
REFINEMENTS = 3

# Visits of each point by a perceptron once a first search for contradictions found none.
LONG_PASSES = 100_000

# Probability to leave a light trap through a wall: none, but walls still have two sides.
NEVER = 1e-300

# Flights in a light trap before it is checked whether version space is empty.
TRAP_CHECK = 100


class NoStartError(ValueError):
    """A perceptron did not get inside version space."""

    def __init__(self, violated: int) -> None:
        self.violated = int(violated)
        super().__init__(
            f"found no start inside version space: the Gram matrix is singular (or nearly so), and "
            f"the perceptron leaves {self.violated} training points on the wrong side. Raise "
            f"softness, set label_noise > 0, or raise max_time where it is set."
        )


class Start(NamedTuple):
    """A way into version space.

    Attributes
    ----------
    coef : ndarray of shape (m,)
        Coefficients of a unit vector.
    info : dict
        What it took: ``mistakes`` of the perceptron; ``flights``, ``bounces`` and ``passes`` of
        the light trap.
    """

    coef: np.ndarray
    info: dict


def perceptron_start(
    space: VersionSpace, *, max_time: float | None = None, random_state: Seed = None
) -> Start:
    """Find a vector inside version space with a kernel perceptron, the points in random order.

    Parameters
    ----------
    space : VersionSpace
    max_time : float, optional
        Seconds after which it is given up.
    random_state : int, RandomState or None

    Returns
    -------
    Start
        With ``info["mistakes"]``.

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.
    ValueError
        If no vector was found, and no contradiction either.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> from bayespoint.inference import starts
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, -1, 1])
    >>> bool(np.all(space.margins(starts.perceptron_start(space, random_state=0).coef) > 0))
    True
    """
    with sampling(space, "", 1, max_time=max_time, random_state=random_state) as (_, plan):
        rng = start_rng(plan.entropy, 0)
        everyone = np.ones(len(space), dtype=bool)
        try:
            try:
                found = perceptron_vector(space, everyone, rng, plan.budget)
            except NoStartError:  # no contradiction was found: go on for longer
                found = perceptron_vector(space, everyone, rng, plan.budget, max_passes=LONG_PASSES)
        except NoStartError as error:
            raise ValueError(
                f"the perceptron leaves {error.violated} training points on the wrong side after "
                f"{LONG_PASSES} passes, or when time was up. Raise max_time where it is set, use "
                f"direct_start or light_trap_start, or set softness > 0."
            ) from None
    plan.budget.raise_if_interrupted()
    return cast("Start", found)  # None only where no label is sure


def direct_start(
    space: VersionSpace, *, n_jobs: int | None = None, random_state: Seed = None
) -> Start:
    """Find a vector with random positive margins by a linear solve.

    Parameters
    ----------
    space : VersionSpace
        Its Gram matrix, softness included, must not be singular.
    n_jobs : int, optional
        Number of threads, as in joblib.
    random_state : int, RandomState or None

    Returns
    -------
    Start
        With empty ``info``.

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other.
    ValueError
        If the Gram matrix is singular, or so nearly that rounding spoils the solution.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> from bayespoint.inference import starts
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(3), [1, -1, 1])
    >>> bool(np.all(space.margins(starts.direct_start(space, random_state=0).coef) > 0))
    True
    """
    with sampling(space, "", 1, n_jobs=n_jobs, random_state=random_state) as (_, plan):
        factor = _factor(space, plan)
        (coef,) = direct_starts(space, factor, [start_rng(plan.entropy, 0)])
    plan.budget.raise_if_interrupted()
    if coef is None:
        _raise_if_empty(space)
        why = f"is singular (rank {factor.rank} of {len(space)})"
        if factor.rank == len(space):
            why = "is so nearly singular that rounding spoils the solution"
        raise ValueError(
            f"direct_start found no vector inside version space: the Gram matrix {why}. Use "
            f"perceptron_start or light_trap_start, or set softness > 0."
        )
    return Start(coef, {})


def light_trap_start(
    space: VersionSpace, *, start: Any = None, travel: float = TRAVEL, max_flights: int = 10_000,
    max_time: float | None = None, n_jobs: int | None = None, random_state: Seed = None,
) -> Start:  # fmt: skip
    """Fly a ball into version space: walls let it in but not out.

    This is the light trap of R&M 18.5.2: a ball passes walls from their wrong side and is
    reflected on their right side, so the number of errors never grows. Here the direction is drawn
    anew after each flight, which the paper does not do; otherwise a ball may visit the same places
    forever.

    Parameters
    ----------
    space : VersionSpace
    start : array-like of shape (m,), optional
        Coefficients to start from. Default: the difference of the class means in feature space
        (with ``info["flights"]`` = 0 if that is inside already).
    travel : float, default=pi / 2
        Radians of a flight.
    max_flights : int, default=10_000
        Flights after which it is given up.
    max_time : float, optional
        Seconds after which it is given up.
    n_jobs : int, optional
        Number of threads, as in joblib, for the factor of the Gram matrix.
    random_state : int, RandomState or None

    Returns
    -------
    Start
        With ``info``: ``flights``, ``bounces``, ``passes``.

    Raises
    ------
    EmptyVersionSpaceError
        With the points that contradict each other; the trap itself cannot know, so that is checked
        after 100 flights, and again at the end.
    ValueError
        If no vector was found, and no contradiction either.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> from bayespoint.inference import starts
    >>> X = np.random.default_rng(0).normal(size=(30, 5))
    >>> space = VersionSpace(X @ X.T, np.sign(X[:, 0]))
    >>> start = starts.light_trap_start(space, random_state=0)
    >>> bool(np.all(space.margins(start.coef) > 0))
    True
    """
    check_number("travel", travel, above=0)
    check_positive_integer("max_flights", max_flights)
    with sampling(space, "", 1, max_time=max_time, n_jobs=n_jobs, random_state=random_state) as (
        _,
        plan,
    ):
        first = None if start is None else given_starts(space, start, 1, must=False)
        (found,) = light_traps(
            space, _factor(space, plan), 1, plan, starts=first, travel=travel,
            max_flights=max_flights,
        )  # fmt: skip
    plan.budget.raise_if_interrupted()
    return found


def _factor(space: VersionSpace, plan: Plan) -> Any:
    return space.rows.factorise(space.softness, plan.threads, lambda: plan.budget.interrupted)


def start_rng(entropy: Any, ball: int) -> np.random.Generator:
    """Generator of the start of a ball."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(3, ball)))


def light_traps(
    space: VersionSpace, factor: Any, n_balls: int, plan: Plan, *, starts: Array | None = None,
    travel: float = TRAVEL, max_flights: int = 10_000,
) -> list[Start]:  # fmt: skip
    """Trap balls inside version space: a `Start` each."""
    if starts is None:
        starts = np.tile(class_means(space, factor, start_rng(plan.entropy, 0)), (n_balls, 1))
    walls = [np.tile(values, (n_balls, 1)) for values in _trap_walls(space)]
    table = Table(space.rows, space.ridge, factor, *walls)
    balls = Balls(table, starts, np.random.SeedSequence(plan.entropy, spawn_key=(4, 0)))
    found: list = [None] * n_balls
    place, outputs = starts, balls.P
    for flights in range(max_flights + 1):
        counts = balls.counts()
        for ball in np.flatnonzero(np.all(space.y * outputs > 0, axis=1)):
            if found[ball] is None:
                info = {name: int(counts[name][ball]) for name in ("bounces", "passes")}
                found[ball] = Start(place[ball].copy(), {"flights": flights} | info)
        if all(start is not None for start in found):
            return found
        if flights == TRAP_CHECK:
            _raise_if_empty(space)
        step = None
        if flights < max_flights and not plan.budget.spent():
            step = balls.step(1, 1, travel, plan.budget, plan.threads)
        if step is None:
            break
        place, outputs = step[0][:, 0], step[1][:, 0]
    if plan.budget.stopped:
        raise KeyboardInterrupt
    _raise_if_empty(space)
    least = int(np.min(np.count_nonzero(space.y * outputs <= 0, axis=1)))
    raise ValueError(
        f"the light trap found no way into version space in {flights} flights: {least} training "
        f"points are still on the wrong side. Raise max_flights or max_time, or set softness > 0."
    )


def _trap_walls(space: VersionSpace) -> tuple[Array, Array]:
    """Labels of the walls and the probabilities to pass them; walls that coincide act as one.

    Otherwise a ball that has passed one of two that contradict each other stays between them.
    """
    label, pass_rate = space.y.copy(), np.full(len(space), NEVER)
    for i, same, sign in coinciding_walls(space):
        majority = np.sign(label[i] + np.sum(sign * label[same]))
        label[i], pass_rate[i] = (majority, NEVER) if majority else (label[i], 1.0)
        pass_rate[same] = 1.0
    return label, pass_rate


def class_means(space: VersionSpace, factor: Any, rng: np.random.Generator) -> Array:
    """Unit vector along the difference of the class means; a random one if that is zero."""
    plus, minus = (max(1, int(np.sum(sign * space.y > 0))) for sign in (1, -1))
    coef = np.where(space.y > 0, 1 / plus, -1 / minus)
    length = space.norm(coef)
    # Rounding leaves this much of means that are equal.
    if length <= np.sqrt(len(space) * np.finfo(float).eps * np.max(space.rows.diagonal)):
        return random_start(factor, rng)
    return coef / length


def given_starts(space: VersionSpace, start: Any, n_balls: int, must: Any = True) -> Array:
    """Check coefficients, a row per ball, and bring them to unit length.

    ``must``: points that have to be on the right side already.
    """
    start = start.coef if isinstance(start, Start) else start
    try:
        coef = np.array(start, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        coef = np.empty(0)
    if n_balls == 1 and coef.ndim == 1 and coef.size:
        coef = coef[None]
    if coef.shape != (n_balls, len(space)) or not np.all(np.isfinite(coef)):
        raise ValueError(
            f"start must have one row of {len(space)} coefficients for each of {n_balls} chains, "
            f"all finite; got {np.shape(coef) if coef.size else type(start).__name__}."
        )
    outputs = space.outputs(coef)
    squared = np.sum(coef * outputs, axis=1)
    if not np.all(squared > 0):
        raise ValueError(
            f"start of chains {np.flatnonzero(~(squared > 0)).tolist()} has zero length."
        )
    outside = np.any((space.y * outputs < 0) & must, axis=1)
    if np.any(outside):
        raise ValueError(
            f"start must lie inside version space; chains {np.flatnonzero(outside).tolist()} do "
            f"not."
        )
    return coef / np.sqrt(squared)[:, None]


def _raise_if_empty(space: VersionSpace) -> None:
    conflict = space.conflict()
    if conflict is not None:
        raise EmptyVersionSpaceError(conflict)


def direct_starts(
    space: VersionSpace, factor: Any, rngs: Sequence[np.random.Generator]
) -> list[Array | None]:
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


def perceptron_vector(
    space: VersionSpace, sure: Array, rng: np.random.Generator, budget: Budget,
    check: Callable | None = None, max_passes: int = MAX_PASSES,
) -> Start | None:  # fmt: skip
    """`Start` from a kernel perceptron on the points in a random order.

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
                lambda _: order, budget=budget, max_passes=max_passes if must else NOISY_PASSES,
                on_exhausted=check if must else None,
            )  # fmt: skip
    except ZeroLengthError:
        if must:
            raise
        return None
    if must and draw.violated[0]:
        if budget.stopped:
            raise KeyboardInterrupt
        raise NoStartError(draw.violated[0])
    coef = np.zeros(len(space))
    coef[draw.coef[0][0]] = draw.coef[0][1]
    return Start(coef, {"mistakes": int(draw.mistakes[0])})


def random_start(factor: Any, rng: np.random.Generator) -> Array:
    """Unit vector in a random direction: a draw of the prior."""
    white = rng.standard_normal((1, factor.rank))
    return factor.coefficients(white / np.linalg.norm(white))[0]
