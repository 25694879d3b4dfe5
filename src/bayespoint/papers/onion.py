"""The onion as published, and cross-validation of all shells of an onion."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bayespoint._support.checks import (
    check_choice,
    check_positive_integer,
    check_seed,
    entropy_of,
)
from bayespoint._support.types import Array, ArrayLike, Seed
from bayespoint.inference.billiard.starts import Start
from bayespoint.inference.onion.exact import sample_onion
from bayespoint.inference.onion.table import Depth, Onion, check_depth, clipped
from bayespoint.papers.runs import FlightSettings, StraightRun
from bayespoint.papers.straight import ArcSum, StraightBall, Vector, angle
from bayespoint.space.version_space import VersionSpace, check_space

# Arcs not longer than this are rounding errors.
COINCIDING = 1e-12


def published_onion(
    space: VersionSpace, depth: Depth = 5, *, n_bounces: int = 10_000, bias: float = 0.0,
    tau_max: float = 1e6, directions: str = "coefficients",
    start: ArrayLike | Start | None = None, max_time: float | None = None,
    random_state: Seed = None, verbose: int = 0,
) -> Onion:  # fmt: skip
    """Table of shells as published: flights of the flipper, continued beyond the first wall.

    This is for comparison; use `sample_onion` instead. Its centres are not centres of mass: a point
    outside version space counts by the solid angle of version space that is seen from it, and a
    flight tells nothing beyond its last wall. In 41 shells of six small problems the centres were
    up to 65 degrees off, half of them by more than 25 (14 with isotropic directions), and lengths
    of arcs were not volumes (``benchmarks/onion.py --part onion``).

    Parameters
    ----------
    space : VersionSpace
        It must not be empty.
    depth : int or pair of int, default=5
        Largest number of training errors of each class in the table.
    n_bounces : int, default=10_000
    bias, tau_max, directions, start, max_time, random_state, verbose
        As for `bayespoint.papers.sample_flipper`.

    Returns
    -------
    Onion
        Centres are sums by the rule (18.27), weights of arcs their lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, papers
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(4), [1, 1, -1, -1])
    >>> table = papers.published_onion(space, depth=1, n_bounces=500, random_state=0)
    >>> bool(np.all(space.margins(table.centres[0, 0]) > 0))
    True
    """
    deepest = check_depth(depth)
    settings = FlightSettings(tau_max, directions, start, max_time, random_state, verbose, bias)
    run = StraightRun("onion", space, 1, settings, ("n_bounces", n_bounces))
    counts = np.zeros(np.add(deepest, 1), dtype=np.int64)
    sums = {cell: ArcSum() for cell in np.ndindex(counts.shape)}
    with run.budget.catching_interrupts():
        for wall, time in run.flips(sums[0, 0]):
            for cell, midpoint, length in _continued(run.ball, space.y, deepest):
                sums[cell].add(midpoint, length)
                counts[cell] += 1
            run.bounce(wall, time, angle)
    info = run.finish()
    run.warn_if_cut_short()
    means = np.full((*counts.shape, len(space)), np.nan)
    lengths = np.zeros(counts.shape)
    for cell, total in sums.items():
        if total.centre is not None:
            means[cell] = run.span.projected(total.centre.coordinates)[0]
            lengths[cell] = total.total
    with np.errstate(divide="ignore"):
        log_volume = np.log(lengths / lengths.sum())
    return Onion(space, "published", means, counts, log_volume, info=info)


def cross_validate_onion(
    space: VersionSpace, depth: Depth = 5, *, cv: int = 10, method: str = "exact",
    random_state: Seed = None, **options: Any,
) -> Array:  # fmt: skip
    """Table of cross-validation errors, folds sampled one after the other.

    For the exact onion `Onion.leave_one_out_errors` needs no further sampling.

    Parameters
    ----------
    space : VersionSpace
    depth : int or pair of int, default=5
    cv : int, default=10
        Folds, each with its share of both classes.
    method : {"exact", "published"}, default="exact"
    random_state : int, RandomState or None
    **options
        For `sample_onion` or `published_onion`.

    Returns
    -------
    ndarray of shape (n_minus + 1, n_plus + 1, 2)
        Errors among labels -1 and among labels +1, summed over folds; NaN where some fold had no
        draw.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace, papers
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> space = VersionSpace(X @ X.T + 1, np.sign(X[:, 0]))
    >>> papers.cross_validate_onion(space, depth=1, cv=2, n_draws=500, random_state=0).shape
    (2, 2, 2)
    """
    check_space(space)
    check_seed(random_state)
    check_positive_integer("cv", cv)
    makers: dict[str, Callable[..., Onion]] = {"exact": sample_onion, "published": published_onion}
    check_choice("method", method, tuple(makers))
    fewest = int(min(np.sum(space.y < 0), np.sum(space.y > 0)))
    if not 2 <= cv <= fewest:
        raise ValueError(
            f"cv must be from 2 to {fewest}, the number of points of the smaller class; got {cv}."
        )
    deepest, entropy = clipped(check_depth(depth), space.y), entropy_of(random_state)
    folds = StratifiedKFold(int(cv), shuffle=True, random_state=entropy % 2**32)
    K = space.rows.submatrix(np.arange(len(space)))
    total = np.zeros((*np.add(deepest, 1), 2))
    for train, test in folds.split(space.y, space.y):
        part = VersionSpace(K[np.ix_(train, train)], space.y[train], space.softness)
        onion = makers[method](part, deepest, random_state=entropy % 2**32, **options)
        errors = onion.errors(K[np.ix_(test, train)], space.y[test])
        part_of = np.full(total.shape, np.nan)  # shells that the smaller problem does not have
        part_of[: errors.shape[0], : errors.shape[1]] = errors
        total += part_of
    return total


def _continued(
    ball: StraightBall, y: Array, depth: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], Vector, float]]:
    """Arcs of a flight up to the depth: shell, midpoint and length of each."""
    times = ball.crossings()
    ahead = np.argsort(times, kind="stable")
    ahead = ahead[np.isfinite(times[ahead])]
    before, cell = ball.w, [0, 0]
    for wall in ahead:
        after = ball.at(times[wall])
        length = angle(before, after)
        if length > COINCIDING:  # between walls that coincide there is nothing
            yield (cell[0], cell[1]), before.plus(1.0, after).unit(), length
        before = after
        cell[int(y[wall] > 0)] += 1
        if cell[0] > depth[0] or cell[1] > depth[1]:
            return
