"""The draws of several machines, with the running sums that give their Bayes points."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.inference.draws import Draws
from bayespoint.space.left_out import Before
from bayespoint.space.posterior import Posterior

TINY = np.finfo(float).tiny  # keeps quotients finite


@dataclass(frozen=True, eq=False, repr=False)
class PerceptronSums:
    """What further perceptrons are added to; draws themselves are in `Draws`."""

    sum_coef: Array  # (n_machines, n_points)
    sum_output: Array  # (n_machines, n_points)
    numbers: Array  # (n_draws,), of the draws
    violated: Array  # (n_draws, n_machines), visited points left on the wrong side
    finished: Array  # (n_draws,), bool: whether a draw was not cut short
    before: Before | None  # outputs of draws that had not yet seen all points


class Ensemble:
    """Unit classifiers of each machine over the same points, and their sums.

    Sums grow draw by draw, in order, so that adding draws later gives the same bits as drawing
    them all at once.

    Parameters
    ----------
    n_machines, n_points : int
    outputs_of : callable, optional
        From coefficients to outputs, where draws come without their outputs.
    held : Draws, optional
        To add to.
    ridge : ndarray of shape (n_points,), optional
        What softness adds to the diagonal.
    """

    def __init__(
        self, n_machines: int, n_points: int, *,
        outputs_of: Callable[[Array], Array] | None = None, held: Draws | None = None,
        ridge: Any = 0.0,
    ) -> None:  # fmt: skip
        self.sum_coef = np.zeros((n_machines, n_points))
        self._sum_output: Array | None = np.zeros((n_machines, n_points))
        self._outputs_of: Any = outputs_of
        self._ridge = ridge
        self.numbers = np.empty(0, dtype=np.int64)
        self.violated = np.empty((0, n_machines), dtype=np.int64)
        self.finished = np.empty(0, dtype=bool)
        self.before: Before | None = None
        self._parts: list[list] = [[] for _ in range(n_machines)]
        self._held: list[Matrix] = [sp.csr_matrix((0, n_points)) for _ in range(n_machines)]
        if held is not None:
            sums: PerceptronSums = held.resume
            self.sum_coef, self._sum_output = sums.sum_coef.copy(), sums.sum_output.copy()
            self.numbers, self.violated = sums.numbers, sums.violated
            self.finished, self._held = sums.finished, list(held.coef)
            self.before = sums.before

    def add(self, draw: Any) -> None:
        """Add one `Draw`."""
        for machine, (indices, values) in enumerate(draw.coef):
            self.sum_coef[machine, indices] += values
            self._parts[machine].append((indices, values))
        if draw.outputs is None:
            self._sum_output = None
        else:
            self._sum_output += draw.outputs
        if draw.before is not None:
            self.before = draw.before if self.before is None else self.before + draw.before
        self.numbers = np.append(self.numbers, draw.number)
        self.violated = np.vstack([self.violated, draw.violated])
        self.finished = np.append(self.finished, draw.finished)

    def draws(self) -> Draws:
        """Return the draws of all machines."""
        return Draws(
            coef=self.coef(), bayes_points=self.bayes_points(), angle_errors=self.angle_errors(),
            mean_norms=self.mean_norms(), used=self.sum_coef != 0, n_draws=self.n_draws,
            finished=bool(np.all(self.finished)),
            resume=PerceptronSums(
                self.sum_coef.copy(), self.sum_output.copy(), self.numbers, self.violated,
                self.finished, self.before,
            ),
            left_out=self.left_out(),
        )  # fmt: skip

    def left_out(self) -> Array | None:
        """Outputs of the Bayes points at points that they had not seen, NaN where unknown.

        Draws moved on after that: at points that they had seen before, outputs then and now tell
        how outputs did, by a line for each machine.
        """
        if self.before is None:
            return None
        seen, unseen, n_seen, n_unseen = self.before
        now = (self.sum_output - self._ridge * self.sum_coef) / self.n_draws
        known = n_seen > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            outputs = unseen / n_unseen
            then = seen[:, known] / n_seen[known]
        now, middle = now[:, known], then.mean(axis=1, keepdims=True)
        away = then - middle
        slope = np.sum(away * now, axis=1) / np.maximum(np.sum(away**2, axis=1), TINY)
        moved = now.mean(axis=1, keepdims=True) + slope[:, None] * (outputs - middle)
        return moved / self.mean_norms()[:, None]

    @property
    def sum_output(self) -> Array:
        """Sum of the outputs of the draws, (n_machines, n_points)."""
        if self._sum_output is None:
            self._sum_output = self._outputs_of(self.sum_coef)
        return self._sum_output

    def coef(self) -> list[Matrix]:
        """Draws of each machine: a list of CSR matrices (n_draws, n_points)."""
        n_points = self.sum_coef.shape[1]
        stacked = []
        for held, parts in zip(self._held, self._parts, strict=True):
            new = stack_coefficients(parts, n_points)
            stacked.append(sp.vstack([held, new], format="csr") if held.shape[0] else new)
        return stacked

    @property
    def n_draws(self) -> int:
        """Draws held for each machine."""
        return len(self.numbers)

    @property
    def next_number(self) -> int:
        """Number of the first draw not yet made."""
        return int(self.numbers[-1]) + 1 if self.n_draws else 0

    def mean_norms(self) -> Array:
        """Length of the mean of each machine's draws in feature space."""
        squared = np.einsum("ij,ij->i", self.sum_coef, self.sum_output)
        return np.sqrt(np.maximum(squared, 0.0)) / self.n_draws

    def angle_errors(self) -> Array:
        """Monte Carlo standard error of each Bayes point, as an angle in radians.

        The mean of n independent unit vectors has squared length R²; their scatter about it,
        (1 - R²)/(n - 1), seen from the origin at distance R, is the squared angle.
        """
        if self.n_draws < 2:
            return np.full(len(self.sum_coef), np.inf)
        squared = np.minimum(self.mean_norms() ** 2, 1.0)
        with np.errstate(divide="ignore"):
            return np.sqrt((1 - squared) / (squared * (self.n_draws - 1)))

    def bayes_points(self) -> Array:
        """Coefficients of the unit mean of each machine's draws, (n_machines, n_points)."""
        norms = self.mean_norms()
        if np.any(norms == 0):
            raise ValueError("the mean of the draws is zero and has no direction; raise n_draws.")
        return self.sum_coef / (self.n_draws * norms[:, None])

    def unit_mean_outputs(self) -> Array:
        """Outputs of the Bayes points at the points, (n_machines, n_points)."""
        return self.sum_output / (self.n_draws * self.mean_norms()[:, None])

    def posterior(self, machine: int, **info: Any) -> Posterior:
        """Return the `Posterior` of one machine."""
        return Posterior(self.coef()[machine], mean_norm=self.mean_norms()[machine], info=info)


def stack_coefficients(parts: list[tuple[Array, Array]], n_points: int) -> Matrix:
    """CSR matrix with one draw per row, from (indices, values) pairs."""
    indptr = np.cumsum([0, *(len(indices) for indices, _ in parts)])
    indices = np.concatenate([np.empty(0, np.int32), *(indices for indices, _ in parts)])
    values = np.concatenate([np.empty(0), *(values for _, values in parts)])
    return sp.csr_matrix((values, indices.astype(np.int32), indptr), shape=(len(parts), n_points))
