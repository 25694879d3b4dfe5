"""The table of shells: centres, volumes, and errors on new points or on points left out."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from bayespoint._support.checks import check_natural_number, check_positive_integer, check_seed
from bayespoint._support.types import Array, ArrayLike, Seed
from bayespoint.inference.onion.leave_one_out import ShellDraws
from bayespoint.space.given import numbers
from bayespoint.space.posterior import Posterior, angle_error
from bayespoint.space.version_space import VersionSpace

# Numbers of wrong labels -1 and +1.
Cell: TypeAlias = tuple[int, int]
# One number for both classes, or one for each.
Depth: TypeAlias = int | Sequence[int]

# Rates of label noise whose mixtures of shells `best_noise` compares.
NOISE_GRID = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3)


class Onion:
    """Table of classifiers by their numbers of training errors, (n_minus, n_plus).

    Made by `sample_onion`, `published_onion` and `stratify`.

    Attributes
    ----------
    space : VersionSpace
    method : {"exact", "published"}
    depth : tuple of int
        Largest numbers of wrong labels -1 and +1 in the table.
    centres : ndarray of shape (n_minus + 1, n_plus + 1, m)
        Coefficients of the unit mass centre of each shell; NaN where no draw fell.
    means : ndarray of shape (n_minus + 1, n_plus + 1, m)
        Mean of the unit vectors in each shell, not of unit length.
    centre_errors : ndarray of shape (n_minus + 1, n_plus + 1)
        Monte Carlo standard errors of the centres, angles in radians; NaN as published.
    counts : ndarray of shape (n_minus + 1, n_plus + 1)
        Draws, or arcs, in each shell.
    log_volume, log_volume_errors : ndarray of shape (n_minus + 1, n_plus + 1)
        Logarithm of the share of each shell in the volume of all in the table, and its standard
        error. As published: of the total length of arcs, which is not a volume.
    draws : ShellDraws or None
        What the table is made of, with chains and weights; None as published.
    info : dict

    Examples
    --------
    Three walls at right angles: each error leaves one of eight equal cells.

    >>> import numpy as np
    >>> from bayespoint import VersionSpace, onion
    >>> space = VersionSpace(np.eye(3), [1, 1, -1])
    >>> table = onion.sample_onion(space, depth=1, random_state=0)
    >>> (6 * np.exp(table.log_volume)).round()
    array([[1., 2.],
           [1., 2.]])
    """

    def __init__(
        self, space: VersionSpace, method: str, means: Array, counts: Array, log_volume: Array, *,
        centre_errors: Array | None = None, log_volume_errors: Array | None = None,
        draws: ShellDraws | None = None, info: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.space, self.method = space, method
        self.depth: Cell = (counts.shape[0] - 1, counts.shape[1] - 1)
        self.counts, self.log_volume, self.info = counts, log_volume, info or {}
        missing = np.full(counts.shape, np.nan)
        self.centre_errors = missing if centre_errors is None else centre_errors
        self.log_volume_errors = missing if log_volume_errors is None else log_volume_errors
        self.means, self.draws = means, draws
        self.centres = np.full_like(means, np.nan)
        for row, column in np.argwhere(counts):
            mean = means[row, column]
            self.centres[row, column] = mean / space.norm(mean)

    def __repr__(self) -> str:
        """Say what it holds."""
        return f"Onion({self.method}, depth {self.depth}, {int(self.counts.sum())} draws)"

    def posterior(self, cell: Sequence[int]) -> Posterior:
        """Draws in one shell.

        Parameters
        ----------
        cell : tuple of int
            (n_minus, n_plus).

        Returns
        -------
        Posterior
            Uniform on the shell. Chains differ in how often they visit it, so that its draws are
            given as one, and ``ess`` and ``rhat`` mean little: see ``centre_errors``.
        """
        cell, draws = self._checked_cell(cell), self._needed_draws("posterior")
        chosen = np.all(draws.cells == cell, axis=1)
        if not np.any(chosen):
            raise ValueError(f"no draw fell into shell {cell}; raise n_draws.")
        return self._posterior_of(chosen)

    def _posterior_of(self, chosen: Array) -> Posterior:
        draws = self._needed_draws("posterior")
        return Posterior(
            draws.coef[chosen], outputs=draws.outputs[chosen], space=self.space,
            factor=draws.factor,
        )  # fmt: skip

    def resample(self, density: ArrayLike, n_draws: int, random_state: Seed = None) -> Posterior:
        """Draws of a mixture of shells, with replacement.

        Parameters
        ----------
        density : array-like of shape (n_minus + 1, n_plus + 1)
            Weight per volume of each shell.
        n_draws : int
        random_state : int, RandomState or None

        Returns
        -------
        Posterior
        """
        weight = self.weights(density)
        if not np.any(weight):
            raise ValueError("density gives no weight to a shell that holds draws.")
        check_positive_integer("n_draws", n_draws)
        check_seed(random_state)
        rng = check_random_state(random_state)
        return self._posterior_of(rng.choice(len(weight), n_draws, p=weight / weight.sum()))

    def weights(self, density: ArrayLike) -> Array:
        """Weight of each draw for a density by shell, up to a factor."""
        return self._needed_draws("weights").weights(self._checked_density(density))

    def density(
        self, *, cell: Sequence[int] | None = None, label_noise: ArrayLike | None = None
    ) -> Array:
        """Table of weights per volume: of one shell, or of the posterior of noisy labels.

        Parameters
        ----------
        cell : tuple of int, optional
            (n_minus, n_plus) of the one shell that counts.
        label_noise : float or pair of float, optional
            Probability that a label is wrong, or that a label -1 and that a label +1 is. Errors
            beyond the depth of the table have no weight.

        Returns
        -------
        ndarray of shape (n_minus + 1, n_plus + 1)
        """
        if (cell is None) == (label_noise is None):
            raise ValueError("give either cell or label_noise.")
        if label_noise is not None:
            return noise_density(label_noise, self.counts.shape)
        density = np.zeros(self.counts.shape)
        density[self._checked_cell(cell)] = 1.0
        return density

    def combine(self, density: ArrayLike) -> Array:
        """Coefficients of the unit mass centre of several shells.

        Parameters
        ----------
        density : array-like of shape (n_minus + 1, n_plus + 1)
            Weight per volume of each shell, as from `density`.

        Returns
        -------
        ndarray of shape (m,)
        """
        weight = self._checked_density(density) * np.exp(self.log_volume)
        chosen = weight > 0
        if not np.any(chosen):
            raise ValueError("density gives no weight to a shell that holds draws.")
        mean = weight[chosen] @ self.means[chosen]
        return mean / self.space.norm(mean)

    def combine_error(self, density: ArrayLike) -> float:
        """Monte Carlo standard error of `combine`, an angle in radians, from the chains' scatter.

        Parameters
        ----------
        density : array-like of shape (n_minus + 1, n_plus + 1)

        Returns
        -------
        float
        """
        draws = self._needed_draws("combine_error")
        weight = draws.weights(self._checked_density(density))
        totals = np.bincount(draws.chain, weight)
        means, outputs = (
            np.array(
                [weight[draws.chain == c] @ x[draws.chain == c] for c in np.flatnonzero(totals)]
            )
            for x in (draws.coef, draws.outputs)
        )
        totals = totals[totals > 0]
        return angle_error(means / totals[:, None], outputs / totals[:, None], totals)

    def errors(self, cross: ArrayLike, y: ArrayLike) -> Array:
        """Table of errors on new points, as in R&M's table 18.1.

        Parameters
        ----------
        cross : array-like of shape (n, m)
            Kernel values of new points and training points.
        y : array-like of shape (n,)
            Their labels, -1 or +1.

        Returns
        -------
        ndarray of shape (n_minus + 1, n_plus + 1, 2)
            Errors among labels -1 and among labels +1; NaN where no draw fell.
        """
        cross, y = np.atleast_2d(numbers("cross", cross)), np.asarray(y)
        if cross.shape[1:] != (len(self.space),) or y.shape != cross.shape[:1]:
            raise ValueError(
                f"cross must have one column for each of {len(self.space)} training points and y "
                f"one label for each row of cross; got shapes {cross.shape} and {y.shape}."
            )
        if not np.all(np.isin(y, (-1, 1))):
            raise ValueError(f"y must hold labels -1 or +1; got {np.unique(y)[:5].tolist()}.")
        return error_table(self.centres @ cross.T, y)

    def leave_one_out(self, density: ArrayLike) -> Array:
        """Leave-one-out outputs of the centre of a mixture of shells, without sampling again.

        Parameters
        ----------
        density : array-like of shape (n_minus + 1, n_plus + 1)
            Weight per volume of each shell, as from `density`.

        Returns
        -------
        ndarray of shape (m,)
            Output of the unit centre at each training point, had that point been left out; NaN
            where no draw has weight.
        """
        draws = self._needed_draws("leave_one_out")
        return draws.outputs_of(self._checked_density(density))

    def leave_one_out_sums(self) -> tuple[Array, Array]:
        """Sums over draws by shell without a point: of weights, and of weighted outputs at it.

        From these come leave-one-out outputs of any mixture, up to the length of the centre.

        Returns
        -------
        weights, outputs : ndarray of shape (n_minus + 1, n_plus + 1, m)
        """
        return self._needed_draws("leave_one_out_sums").sums(self.counts.shape)

    def leave_one_out_errors(self) -> Array:
        """Table of leave-one-out errors on the training points, without sampling again.

        Returns
        -------
        ndarray of shape (n_minus + 1, n_plus + 1, 2)
            Errors among labels -1 and among labels +1; NaN where no draw fell.
        """
        _, outputs = self.leave_one_out_sums()
        return error_table(np.where(self.counts[..., None] > 0, outputs, np.nan), self.space.y)

    def best_cell(self, errors: ArrayLike | None = None) -> Cell:
        """Shell with the fewest errors; of equals the one with the fewest training errors.

        Parameters
        ----------
        errors : ndarray of shape (n_minus + 1, n_plus + 1, 2), optional
            From `errors` or `papers.cross_validate_onion`. Default: leave-one-out errors.

        Returns
        -------
        tuple of int
        """
        if errors is None:
            self._needed_draws("best_cell without errors")
            errors = self.leave_one_out_errors()
        errors = np.asarray(errors)
        if errors.shape != (*self.counts.shape, 2):
            raise ValueError(
                f"errors must have shape {(*self.counts.shape, 2)}; got {errors.shape}."
            )
        return best_cell(errors)

    def best_noise(self, rates: Sequence[float] = NOISE_GRID) -> float:
        """Rate of label noise whose mixture of shells has the fewest leave-one-out errors.

        Parameters
        ----------
        rates : sequence of float

        Returns
        -------
        float
            Of equals the smallest.
        """
        if not len(rates):
            raise ValueError("rates is empty; give some rates of label noise.")
        _, outputs = self.leave_one_out_sums()
        return best_noise(outputs, self.space.y, self.counts, rates)

    def _checked_cell(self, cell: Sequence[int] | None) -> Cell:
        pair = tuple(cell) if isinstance(cell, list | tuple | np.ndarray) else ()
        if len(pair) != 2 or not all(
            isinstance(n, int | np.integer) and 0 <= n <= most
            for n, most in zip(pair, self.depth, strict=True)
        ):
            raise ValueError(
                f"cell must be a pair (n_minus, n_plus) up to {self.depth}; got {cell!r}."
            )
        return int(pair[0]), int(pair[1])

    def _checked_density(self, density: ArrayLike) -> Array:
        table = numbers("density", density)
        if table.shape != self.counts.shape or not np.all(table >= 0):
            raise ValueError(
                f"density must be a table of numbers >= 0 of shape {self.counts.shape}; got "
                f"{table.tolist()!r:.80}."
            )
        return table

    def _needed_draws(self, name: str) -> ShellDraws:
        if self.draws is None:
            raise ValueError(
                f"{name} needs draws, which the published onion does not hold: give errors on new "
                f"points, or those of papers.cross_validate_onion(space, method='published')."
            )
        return self.draws


def check_depth(depth: Depth) -> Cell:
    """Return a depth as a pair of numbers of wrong labels -1 and +1."""
    pair: tuple[Any, ...] = (depth, depth)
    if isinstance(depth, list | tuple | np.ndarray) and np.ndim(depth) > 0:
        pair = tuple(depth)
    if len(pair) != 2:
        raise ValueError(f"depth must be a whole number or a pair of them; got {depth!r}.")
    for number in pair:
        check_natural_number("depth", number)
    return int(pair[0]), int(pair[1])


def clipped(depth: Cell, y: Array) -> Cell:
    """No more errors than there are labels -1 and +1."""
    return min(depth[0], int(np.sum(y < 0))), min(depth[1], int(np.sum(y > 0)))


def noise_density(label_noise: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Weight per volume of shells if labels are wrong with a rate, or with one for each class."""
    try:
        rates = np.broadcast_to(np.asarray(label_noise, dtype=np.float64), (2,))
    except (TypeError, ValueError):
        rates = np.array([np.nan])
    if not np.all((rates >= 0) & (rates < 0.5)):
        raise ValueError(f"label_noise must be in [0, 0.5), one or a pair; got {label_noise!r}.")
    odds = rates / (1 - rates)
    return np.outer(*(o ** np.arange(n) for o, n in zip(odds, shape, strict=True)))


def best_cell(errors: Array) -> Cell:
    """Shell with the fewest errors; of equals the one with the fewest training errors."""
    total = errors.sum(axis=-1)
    if np.all(np.isnan(total)):
        raise ValueError("no shell holds draws; raise n_draws.")
    cells = np.argwhere(total == np.nanmin(total))
    order = np.lexsort((np.abs(cells[:, 0] - cells[:, 1]), cells.sum(axis=1)))
    best = cells[order[0]]
    return int(best[0]), int(best[1])


def best_noise(
    outputs: Array, y: Array, counts: Array, rates: Sequence[float] = NOISE_GRID
) -> float:
    """Rate with the fewest errors, the smallest of equals, by leave-one-out outputs of shells.

    Rates whose shells hold no draws (``counts``) are no candidates.
    """
    best, fewest = 0.0, len(y) + 1
    for rate in sorted(rates):
        density = noise_density(rate, outputs.shape[:2])
        wrong = int(np.count_nonzero(~(y * np.tensordot(density, outputs) > 0)))
        if np.any(density * counts) and wrong < fewest:
            best, fewest = float(rate), wrong
    return best


def error_table(outputs: Array, y: Array) -> Array:
    """Errors among labels -1 and +1 (last axis) by outputs (..., n); NaN where outputs are."""
    wrong = ~(outputs * y > 0)
    table = np.stack([wrong[..., y < 0].sum(axis=-1), wrong[..., y > 0].sum(axis=-1)], axis=-1)
    return np.where(np.any(np.isnan(outputs), axis=-1, keepdims=True), np.nan, table)
