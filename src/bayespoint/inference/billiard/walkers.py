"""Chains of the kernel Gibbs sampler: each step draws a place on a random great circle."""

import numpy as np

from bayespoint.inference.billiard.balls import EVENT_COST, EVENT_WORK, Balls

# A step of a chain costs about so many times the work of a bounce.
STEP_WORK = 40


class Walkers(Balls):
    """Positions of all chains; as `Balls`, but each flight is a Gibbs step of any length."""

    has_path = False

    def _mover(self, b, travels, directions, white, n_flights, thin, draws):  # noqa: ARG002
        from bayespoint._loops.billiard import walk

        m = self.P.shape[1]
        with np.errstate(divide="ignore"):
            odds = -np.log(self.table.pass_rate[b])
        places, changes = np.empty(2 * m), np.empty(2 * m)
        max_steps = max(1, int(EVENT_WORK / (STEP_WORK * m + EVENT_COST)))

        def advance():
            walk(
                self.basis, self.table.label[b], odds, n_flights, thin, max_steps, directions,
                white, self.side[b], self.P[b], self.Q[b], self.coef_p[b], self.coef_q[b],
                self.white_p[b], self.white_q[b], self.cursor[b], places, changes, *draws,
            )  # fmt: skip

        return advance
