"""Cells in turn around landmarks: which are visited, how far they step, when none changes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg

from bayespoint._support.types import Array
from bayespoint.inference.ep.cells.cell import DAMPING, Message, united
from bayespoint.inference.ep.cells.landmarks import Landmarks
from bayespoint.inference.ep.cells.memory import wave_of
from bayespoint.inference.ep.cells.problem import Sweeping

# Visits of all cells before only those that change are visited; what changes by more than this
# share of the change before oscillates.
FULL_VISITS, SLOW = 4, 0.9

# Visits that are expected before the first two have shown how fast changes shrink.
USUAL_VISITS = 8


class Visits:
    """Which cells are visited around landmarks, how far they step, and when none changes.

    Attributes
    ----------
    moved : ndarray of shape (n_machines, n_cells)
        How far cells went when they were last visited; whoever visits them fills it in.
    active : ndarray of bool, shape (n_machines, n_cells)
        Which cells are visited now.
    damping : ndarray of shape (n_machines, n_cells)
        Share of a step that they take.
    """

    def __init__(self, n_machines: int, n_cells: int, how: Sweeping) -> None:
        self.moved = np.full((n_machines, n_cells), np.inf)
        self.damping = np.ones_like(self.moved)
        self._tol, self._most = how.tol, how.visits
        self._done, self._everywhere = 0, True
        self._expected = min(USUAL_VISITS, how.visits)

    def begin(self) -> bool:
        """Begin another visit of cells, if there may be one."""
        self._before = self.moved.copy()
        self.active = np.full_like(self.moved, self._everywhere, dtype=bool)
        self.active |= self.moved > self._tol
        self._done += 1
        return self._done <= self._most

    def waves(self) -> Iterator[range]:
        """Cells that are visited from the same state, in turn."""
        n_cells = self.moved.shape[1]
        together = wave_of(n_cells)
        for first in range(0, n_cells, together):
            yield range(first, min(first + together, n_cells))

    def at_rest(self) -> bool:
        """End a visit; whether all cells were visited and none has changed."""
        moved, before = self.moved, self._before
        resting = np.max(moved) <= self._tol
        if resting and self._everywhere:
            return True
        # Cells that oscillate take shorter steps; once few change, only they are visited,
        # and all of them again in the end.
        to_and_fro = self.active & (moved > SLOW * before) & (moved > self._tol)
        self.damping[to_and_fro] *= DAMPING
        self._everywhere = self._done < FULL_VISITS or bool(resting)
        left = self._visits_left(np.max(before), np.max(moved))
        self._expected = min(self._done + left, self._most)
        return False

    def progress(self, n_cells: int) -> tuple[int, int]:
        """Visits of single cells so far, so many of them in this visit, and as many as expected."""
        all_cells = self.moved.shape[1]
        return (self._done - 1) * all_cells + n_cells, self._expected * all_cells

    def _visits_left(self, before: float, now: float) -> int:
        """Visits until none changes, for progress: changes shrink by the same factor each time."""
        if not np.isfinite(before):
            return USUAL_VISITS
        if now >= before or self._tol <= 0:
            return self._most
        return math.ceil(math.log(now / self._tol) / math.log(before / now))


class Steps(NamedTuple):
    """What `Visits` says of some cells, (n_machines, n_cells)."""

    moved: Array
    active: Array
    damping: Array


class Sweeps(ABC):
    """Sweeps of all cells of a tree, wherever they are.

    Attributes
    ----------
    how : Sweeping
    n_machines, n_cells : int
    begun : bool
        Whether there are sites to begin with.
    change : ndarray of shape (n_machines, n_cells)
        Of sites, at the last sweep.
    """

    how: Sweeping
    n_machines: int
    n_cells: int
    begun: bool
    change: Array

    @abstractmethod
    def use(self, landmarks: Landmarks) -> None:
        """Have features that are common to all cells."""

    @abstractmethod
    def all_messages(self) -> Message:
        """What all cells say of w with the sites that they have, of all machines."""

    @abstractmethod
    def visited(
        self, numbers: range, visits: "Visits | Steps", known: Message
    ) -> tuple[Array, Message | None]:
        """Sweep some cells given precision and shift of w, as all cells know it.

        Returns
        -------
        moved : ndarray of shape (n_machines, n_numbers)
            How far they went.
        told : Message or None
            How the sum of their messages changes.
        """

    # What is known of w may be elsewhere, too: then messages are added there.

    def shared(self, known: Message) -> Message:
        """Put what is known of w where cells are."""
        return known

    def added(self, known: Message, told: Message | None) -> Message:
        """Add a message to what is known of w."""
        return united(known, told) or known

    def fetched(self, known: Message) -> Message:
        """Return what is known of w, here."""
        return known

    def around(self, landmarks: Landmarks, lost: Message | None = None) -> tuple[Array, Array]:
        """Visit cells in turn until none changes; precision and shift of w."""
        self.use(landmarks)
        prior = Message(*no_message(self.n_machines, landmarks.projection.shape[1]))
        known = self.shared(united(prior, lost) or prior)
        if self.begun:
            known = self.added(known, self.all_messages())
        visits = Visits(self.n_machines, self.n_cells, self.how)
        while visits.begin():
            for numbers in visits.waves():
                visits.moved[:, numbers], told = self.visited(numbers, visits, known)
                known = self.added(known, told)
                if self.how.stop():
                    break
                self.how.show(*visits.progress(numbers.stop))
            if self.how.stop() or visits.at_rest():
                break
        self.change = visits.moved
        precision, shift = self.fetched(known)
        return precision, shift


def no_message(n_machines: int, n_common: int) -> tuple[Array, Array]:
    """Precision and shift of w in the prior."""
    return np.tile(np.eye(n_common), (n_machines, 1, 1)), np.zeros((n_machines, n_common))


def posterior_of(precision: Array, shift: Array) -> tuple[Array, Array]:
    """Means of w, of all machines, and Cholesky factors of its precisions."""
    mean, factor = np.empty_like(shift), np.empty_like(precision)
    for machine in range(len(shift) if shift.size else 0):
        factor[machine] = np.linalg.cholesky(precision[machine])
        mean[machine] = scipy.linalg.cho_solve((factor[machine], True), shift[machine])
    return mean, factor
