"""Leave-one-out outputs of every shell from the draws of one run.

Without point i, the position is w without its part beyond the other points, w'. The run draws w'
with density g(right) p + g(wrong) (1 - p), where p is the probability, given w', that point i is on
its right side, and right and wrong are the shells of w in the two cases. Dividing by this, which
side the draw was on in fact does not matter, leaves the uniform density of the problem without i.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespoint._support.types import Array
from bayespoint.space.decisions import draw_votes
from bayespoint.space.factor import Factor

# Numbers (draws times points) looked at together.
BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class ShellDraws:
    """Draws of a run with density exp(log_weight[shell]).

    Parameters
    ----------
    y : ndarray of shape (m,)
    coef, outputs : ndarray of shape (n_draws, m)
    cells : ndarray of shape (n_draws, 2)
        Wrong labels -1 and +1 of each draw.
    chain : ndarray of shape (n_draws,)
        Number of the chain it comes from.
    log_weight : ndarray
        One deeper than the table.
    factor : Factor
        Of the (softened) Gram matrix.
    """

    y: Array
    coef: Array
    outputs: Array
    cells: Array
    chain: Array
    log_weight: Array
    factor: Factor

    @cached_property
    def precision(self) -> Array | None:
        """Diagonal of the inverse Gram matrix, or None if it is singular."""
        if self.factor.rank < len(self.y):
            return None
        return self.factor.precision()

    def weights(self, density: Array) -> Array:
        """Weight of each draw for a density by shell, up to a factor."""
        log_g = self.log_weight[tuple(self.cells.T)]
        return self._padded(density)[tuple(self.cells.T)] * np.exp(np.min(self.log_weight) - log_g)

    def sums(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Sums over draws, by shell without the point: of weights, and of weighted outputs at it.

        Two arrays of shape (*shape, m).
        """
        deep, m = self.log_weight.shape, len(self.y)
        weights, outputs = np.zeros((2, deep[0] * deep[1] * m))
        for part in self._parts():
            index = np.ravel_multi_index(tuple(np.moveaxis(part.cells, -1, 0)), deep)
            index = (index * m + np.arange(m)).ravel()
            values = part.weight * part.outputs
            weights += np.bincount(index, part.weight.ravel(), minlength=len(weights))
            outputs += np.bincount(index, values.ravel(), minlength=len(outputs))
        table = slice(shape[0]), slice(shape[1])
        return weights.reshape(*deep, m)[table], outputs.reshape(*deep, m)[table]

    def outputs_of(self, density: Array) -> Array:
        """Output of the unit centre at each point, left out, for a density by shell."""
        padded, m = self._padded(density), len(self.y)
        output, beyond = np.zeros(m), np.zeros(m)
        mean, mean_outputs = np.zeros((m, m)), np.zeros((m, m))
        for part in self._parts():
            weight = part.weight * padded[part.cells[..., 0], part.cells[..., 1]]
            output += np.sum(weight * part.outputs, axis=0)
            weight /= part.length
            mean += weight.T @ self.coef[part.draws]
            mean_outputs += weight.T @ self.outputs[part.draws]
            beyond += np.sum(weight * part.beyond, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return output / np.sqrt(np.sum(mean * mean_outputs, axis=1) - beyond**2)

    def _padded(self, density: Array) -> Array:
        padded = np.zeros(self.log_weight.shape)
        padded[: density.shape[0], : density.shape[1]] = density
        return padded

    def _parts(self) -> "Iterator[_Part]":
        n = max(1, BLOCK // len(self.y))
        for start in range(0, len(self.coef), n):
            yield _Part(self, slice(start, start + n))


class _Part:
    """Some draws, each without each of the points."""

    def __init__(self, all_draws: ShellDraws, draws: slice) -> None:
        self.draws = draws
        y, coef, outputs = all_draws.y, all_draws.coef[draws], all_draws.outputs[draws]
        wrong = outputs * y < 0
        kind = classes(y)
        self.cells = all_draws.cells[draws][:, None] - wrong[..., None] * kind
        if all_draws.precision is None:  # the other points tell all
            self.beyond, self.length, self.outputs = 0.0 * coef, np.ones(1), outputs
            p = np.where(wrong, 0.0, 1.0)
        else:
            deviation = 1 / np.sqrt(all_draws.precision)
            self.beyond = coef * deviation
            self.length = np.sqrt(np.maximum(1 - self.beyond**2, np.finfo(float).tiny))
            self.outputs = (outputs - self.beyond * deviation) / self.length
            _, p = draw_votes(y * self.outputs, deviation**2, len(y) - 1)
        log_g = all_draws.log_weight
        right = log_g[self.cells[..., 0], self.cells[..., 1]]
        deeper = np.minimum(self.cells + kind, np.subtract(log_g.shape, 1))
        beside = log_g[deeper[..., 0], deeper[..., 1]]
        least = np.min(log_g)
        density = np.exp(right - least) * p + np.exp(beside - least) * (1 - p)
        self.weight = 1 / density


def classes(y: Array) -> Array:
    """Rows (1, 0) for labels -1 and (0, 1) for labels +1."""
    return np.column_stack([y < 0, y > 0]).astype(np.int64)
