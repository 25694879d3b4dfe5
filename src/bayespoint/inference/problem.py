"""Labels, softness and label noise over rows of a Gram matrix: what inference is asked to solve."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.space.decisions import label_odds
from bayespoint.space.rows import Rows
from bayespoint.space.version_space import VersionSpace


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """The binary problems ("machines") of a classifier, over the same points.

    Attributes
    ----------
    rows : Rows
        Of the Gram matrix, without softness.
    targets : ndarray of int8, shape (n_machines, n_points)
        Labels +1 and -1.
    softness : float
    odds : ndarray of shape (n_machines, n_points)
        Log-odds of the targets, infinite where they are sure.
    log_right : ndarray of shape (n_machines, n_points)
        Log-probability of targets that are right.
    names : sequence of str
        Of the machines, for messages.
    row : ndarray of shape (n_points,)
        Rows of X that points stand for, for messages.
    weight : ndarray of shape (n_points,)
        Copies of the points.
    """

    rows: Rows
    targets: Array
    softness: float
    odds: Array
    log_right: Array
    names: Sequence[str]
    row: Array
    weight: Array

    @classmethod
    def of_classes(
        cls, rows: Rows, label: Array, weight: Array, *, softness: float, noise: Array,
        classes: list[Any], row: Array,
    ) -> "Problem":  # fmt: skip
        """Return the problem of two classes, or of each class against the rest.

        Parameters
        ----------
        rows : Rows
        label : ndarray of shape (n_points,)
            Numbers of the classes.
        weight : ndarray of shape (n_points,)
            Copies.
        softness : float
        noise : ndarray of shape (n_classes,)
            Rates of wrong labels.
        classes : list
            Names of the classes, for messages.
        row : ndarray of shape (n_points,)
        """
        own = label == np.array(machines_of(len(classes)))[:, None]
        odds, log_right = (np.broadcast_to(value, own.shape) for value in (np.inf, 0.0))
        if np.any(noise):
            # A wrong label is any of the others: of class c with this chance.
            rate = np.where(own, noise[label], noise[label] / (len(classes) - 1))
            odds, log_right = weight * label_odds(rate), weight * np.log1p(-rate)
        names = [f" for class {c!r} against the rest" for c in classes]
        return cls(
            rows, np.where(own, np.int8(1), np.int8(-1)), softness, odds, log_right,
            names if len(classes) > 2 else [""], row, weight,
        )  # fmt: skip

    @classmethod
    def of_space(cls, space: VersionSpace, noise: Array) -> "Problem":
        """Return the problem of one machine, the labels of a version space."""
        m = len(space)
        return cls(
            space.rows, space.y.astype(np.int8)[None], space.softness, label_odds(noise)[None],
            np.log1p(-noise)[None], [""], np.arange(m), np.ones(m),
        )  # fmt: skip

    @property
    def ridge(self) -> Array:
        """What softness adds to the diagonal."""
        return self.softness * self.rows.diagonal

    @property
    def noisy(self) -> bool:
        """Whether some labels may be wrong."""
        return not np.all(np.isinf(self.odds))

    def outputs(self, coef: Array) -> Array:
        """Outputs at the points of machines given by coefficients, one per row."""
        return self.rows.outputs(self.ridge, coef)

    def space(self, machine: int) -> VersionSpace:
        """Version space of one machine."""
        return VersionSpace(self.rows, self.targets[machine], self.softness)

    def over(self, rows: Rows, chosen: Array) -> "Problem":
        """Return the problem of some of the points, whose rows are given."""
        return replace(
            self, rows=rows, targets=self.targets[:, chosen], odds=self.odds[:, chosen],
            log_right=self.log_right[:, chosen], row=self.row[chosen], weight=self.weight[chosen],
        )  # fmt: skip

    def part(self, chosen: Array) -> "Problem":
        """Return the problem of some of the points, its Gram matrix computed."""
        return self.over(self.rows.part(chosen), chosen)


def machines_of(n_classes: int) -> range:
    """Classes that machines tell from the rest: the second of two, else each."""
    return range(1, 2) if n_classes == 2 else range(n_classes)
