"""The onion as published."""

import numpy as np

from bayespoint.inference.onion.table import Onion, check_depth
from bayespoint.papers.billiards import StraightRun
from bayespoint.papers.straight import ArcSum, angle

# Arcs not longer than this are rounding errors.
COINCIDING = 1e-12


def published_onion(
    space, depth=5, *, n_bounces=10_000, bias=0.0, tau_max=1e6, directions="coefficients",
    start=None, max_time=None, random_state=None, verbose=0,
):  # fmt: skip
    """Table of shells as published: flights of the flipper, continued beyond the first wall.

    For comparison; use `sample_onion`. Not centres of mass: a point outside version space counts
    by the solid angle of version space that is seen from it, and a flight tells nothing beyond its
    last wall. In 41 shells of six small problems the centres were up to 65 degrees off, half of
    them by more than 26 (14 with isotropic directions), and lengths of arcs were no volumes
    (``benchmarks/onion.py --part onion``).

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
    >>> from bayespoint import VersionSpace, onion
    >>> space = VersionSpace(0.5 + 0.5 * np.eye(4), [1, 1, -1, -1])
    >>> table = papers.published_onion(space, depth=1, n_bounces=500, random_state=0)
    >>> bool(np.all(space.margins(table.centres[0, 0]) > 0))
    True
    """
    depth = check_depth(depth)
    run = StraightRun(
        space, 1, n_bounces, tau_max, bias, directions, start, max_time, random_state, verbose,
        ("onion", "n_bounces"),
    )  # fmt: skip
    sums = [[ArcSum() for _ in range(depth[1] + 1)] for _ in range(depth[0] + 1)]
    counts = np.zeros(np.add(depth, 1), dtype=np.int64)
    with run.budget.catching_interrupts():
        for wall, time in run.flips(sums[0][0]):
            for cell, midpoint, length in _continued(run.ball, space.y, depth):
                sums[cell[0]][cell[1]].add(midpoint, length)
                counts[cell] += 1
            run.bounce(wall, time, angle)
    info = run.finish()
    run.warn_if_cut_short()
    means = np.full((*counts.shape, len(space)), np.nan)
    lengths = np.zeros(counts.shape)
    for cell in np.argwhere(counts):
        total = sums[cell[0]][cell[1]]
        means[tuple(cell)] = run.span.projected(total.centre.coordinates)[0]
        lengths[tuple(cell)] = total.total
    with np.errstate(divide="ignore"):
        log_volume = np.log(lengths / lengths.sum())
    return Onion(space, "published", means, counts, log_volume, info=info)


def _continued(ball, y, depth):
    """Arcs of a flight up to the depth: shell, midpoint and length of each."""
    times = ball.crossings()
    ahead = np.argsort(times, kind="stable")
    ahead = ahead[np.isfinite(times[ahead])]
    before, cell = ball.w, [0, 0]
    for wall in ahead:
        after = ball.at(times[wall])
        length = angle(before, after)
        if length > COINCIDING:  # between walls that coincide there is nothing
            yield tuple(cell), before.plus(1.0, after).unit(), length
        before = after
        cell[int(y[wall] > 0)] += 1
        if cell[0] > depth[0] or cell[1] > depth[1]:
            return
