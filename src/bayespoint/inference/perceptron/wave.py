"""Runs of permuted kernel perceptrons on the host, side by side over one store of rows."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.space.kernels import aligned_empty
from bayespoint.space.left_out import Before
from bayespoint.space.rows import HostRows

# Runs that are in flight together: enough for wide products, few enough that an interrupted fit
# has finished some.
RUNS_IN_FLIGHT = 128

# Additions between two returns to Python, some 30 ms: Ctrl-C and max_time act at once.
UPDATE_WORK = 5e7
VISIT_WORK = 1e7


class Wave:
    """The runs in flight: run r is machine r % n_machines, order r // n_machines.

    Parameters
    ----------
    rows : HostRows
    targets : ndarray of int8, shape (n_machines, n_points)
    ridge, slack : ndarray of shape (n_points,)
    orders : list of ndarray
        Points to visit, for each draw.
    """

    def __init__(
        self, rows: HostRows, targets: Array, ridge: Array, slack: Array, orders: list[Array]
    ) -> None:
        from bayespoint._loops.perceptron import CURSOR_SIZE, PAUSED, WANTED, Runs

        self.rows, self.targets = rows, targets
        self.orders = np.array(orders, dtype=np.int32)
        n_runs, n_points = len(orders) * len(targets), targets.shape[1]
        outputs = aligned_empty((n_runs, n_points), np.float64)
        outputs[:] = 0
        counts = np.zeros((n_runs, n_points), dtype=np.int32)
        cursors = np.zeros((n_runs, CURSOR_SIZE), dtype=np.int64)
        cursors[:, WANTED] = PAUSED
        self._runs = Runs(targets, self.orders, ridge, slack, outputs, counts, cursors)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._runs.outputs)

    @property
    def state(self) -> Array:
        """Why each run does not go on: CONVERGED, PAUSED, EXHAUSTED or the row that it wants."""
        from bayespoint._loops.perceptron import WANTED

        return self._runs.cursors[:, WANTED]

    @property
    def mistakes(self) -> Array:
        """Mistakes of each run so far."""
        from bayespoint._loops.perceptron import MISTAKES

        return self._runs.cursors[:, MISTAKES]

    def counts(self, run: int) -> Array:
        """Return how often each point was added to the classifier of a run."""
        return self._runs.counts[run]

    def violated(self, runs: Sequence[int]) -> Array:
        """Numbers of visited points on the wrong side of the classifiers of some runs."""
        outputs, pairs = self._runs.outputs, [divmod(run, len(self.targets)) for run in runs]
        sides = [
            self.targets[machine][self.orders[order]] * outputs[run][self.orders[order]]
            for run, (order, machine) in zip(runs, pairs, strict=True)
        ]
        return np.array([np.count_nonzero(side <= 0) for side in sides])

    def classifiers(self, runs: Sequence[int]) -> tuple[list[tuple[Array, Array]], Array, Array]:
        """Points used by some runs and how often, one pair a run; their outputs and lengths."""
        counts = self._runs.counts
        used = [np.flatnonzero(counts[run]) for run in runs]
        pairs = [(index, counts[run][index]) for run, index in zip(runs, used, strict=True)]
        outputs = self._runs.outputs[list(runs)]
        squared = [
            float(
                (self.targets[run % len(self.targets)][index] * count.astype(np.float64))
                @ output[index]
            )
            for run, (index, count), output in zip(runs, pairs, outputs, strict=True)
        ]
        return pairs, outputs, np.array(squared)

    def advance(self, active: Array, max_visits: int, threads: Threads) -> None:
        """Advance some of the runs for some 30 ms, or until they want rows."""
        from bayespoint._loops.perceptron import Limits, Rows, advance

        parts = [part for part in np.array_split(active, threads.n_threads) if part.size]
        limits = Limits(
            updates=max(1, int(UPDATE_WORK / (self.targets.shape[1] * len(parts[0])))),
            visits=max(1, int(VISIT_WORK / len(parts[0]))),
            all_visits=max_visits,
        )
        held = self.rows
        rows = Rows(held.store, held.slot_of_row, held.last_used, held.clock)
        threads.each(lambda part: advance(part, self._runs, rows, limits), parts)

    def visit(self, orders: list[Array]) -> None:
        """Let all runs go on with these orders, from the classifiers that they have."""
        from bayespoint._loops.perceptron import MISTAKES, PAUSED, WANTED

        self.orders = np.array(orders, dtype=np.int32)
        self._runs = self._runs._replace(orders=self.orders)
        mistakes = self._runs.cursors[:, MISTAKES].copy()
        self._runs.cursors[:] = 0
        self._runs.cursors[:, MISTAKES] = mistakes
        self._runs.cursors[:, WANTED] = PAUSED

    def before(self, left_out: Array) -> list[Before]:
        """Outputs of the unit classifiers of each order, which leaves some points out."""
        n_machines, ridge, found = len(self.targets), self._runs.ridge, []
        for order, unseen in enumerate(left_out):
            runs = range(order * n_machines, (order + 1) * n_machines)
            _, outputs, squared = self.classifiers(runs)
            outputs -= ridge * self.targets * self._runs.counts[runs.start : runs.stop]
            outputs /= np.sqrt(squared)[:, None]
            found.append(
                Before(
                    np.where(unseen, 0.0, outputs), np.where(unseen, outputs, 0.0),
                    (~unseen).astype(np.int64), unseen.astype(np.int64),
                )
            )  # fmt: skip
        return found

    def settle(self) -> None:
        """Nothing is left to do when runs are left where they are."""

    def fetch(self, wanted: Array) -> None:
        """Have these rows computed; those that few runs need make room."""
        self.rows.ensure(wanted, self._needs)

    def _needs(self) -> Array:
        """How many runs would correct each point if they visited it now."""
        from bayespoint._loops.perceptron import count_needs

        def count(part: slice) -> Array:
            needs = np.zeros(self.targets.shape[1], dtype=np.int64)
            count_needs(part.start, part.stop, self._runs, needs)
            return needs

        return np.sum(self._shares(len(self), count), axis=0)

    def _shares(self, number: int, function: Callable[[slice], Any]) -> list[Any]:
        """What a function returns for equal parts of so many things, a part for each thread."""
        threads = self.rows.threads
        bounds = np.linspace(0, number, threads.n_threads + 1).astype(int)
        return threads.each(function, [slice(*pair) for pair in pairwise(bounds)])

    def likely(self, stalled: Array, n_each: int) -> Array:
        """Points that stalled runs may correct soon and whose rows are missing; else -1."""
        from bayespoint._loops.perceptron import look_ahead

        found = np.empty((len(stalled), n_each), dtype=np.int64)
        held = self.rows.slot_of_row
        self._shares(
            len(stalled), lambda part: look_ahead(stalled[part], self._runs, held, found[part])
        )
        return found
