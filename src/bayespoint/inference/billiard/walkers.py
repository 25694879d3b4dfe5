"""Chains of the kernel Gibbs sampler: each step draws a place on a random great circle."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bayespoint.inference.billiard.balls import EVENT_COST, EVENT_WORK, Balls

if TYPE_CHECKING:  # Numba takes a third of a second to import
    from bayespoint._loops.billiard import Course, Record

# A step of a chain costs about so many times the work of a bounce.
STEP_WORK = 40


class Walkers(Balls):
    """Positions of all chains; as `Balls`, but each flight is a Gibbs step of any length."""

    has_path = False

    def _mover(self, b: int, course: "Course", record: "Record") -> Callable[[], None]:
        from bayespoint._loops.billiard import walk

        with np.errstate(divide="ignore"):
            odds = -np.log(self.table.pass_rate[b])
        walls, ball = self._walls(b), self._ball(b)
        max_steps = max(1, int(EVENT_WORK / (STEP_WORK * self.P.shape[1] + EVENT_COST)))
        return lambda: walk(walls, odds, ball, course, record, max_steps)
