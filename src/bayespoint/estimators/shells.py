"""Shells of an onion as a classifier needs them: drawn, chosen, and what is left without draws."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import warn
from bayespoint._support.types import Array
from bayespoint.inference.draws import Draws, Plan
from bayespoint.inference.onion.exact import draw_onion, warn_if_apart
from bayespoint.inference.onion.table import (
    Onion,
    best_cell,
    best_noise,
    clipped,
    error_table,
    noise_density,
)
from bayespoint.inference.problem import Problem

# Balls of a run, and draws kept of it.
CHAINS = 8
KEPT_DRAWS = 200


class DrawnShells(NamedTuple):
    """What a run found: draws of the deciding shells, the table, and which shells these are."""

    draws: Draws
    table: "Shells"
    shells: Any
    density: Array


def draw_shells(problem: Problem, plan: Plan, depth: tuple[int, int], shells: Any) -> DrawnShells:
    """Draw the table, choose shells, and keep some draws of these."""
    space, budget = problem.space(0), plan.budget
    depth = clipped(depth, space.y)
    onion = draw_onion(
        space, depth, -(-plan.n_draws // CHAINS), CHAINS, 1, plan.entropy, budget, plan.threads
    )
    if budget.interrupted and not np.any(onion.counts):
        raise KeyboardInterrupt
    table = Shells.of(onion, problem)
    chosen, density = _chosen(table, checked_shells(shells, depth), shells, budget)
    n_held = int(np.count_nonzero(onion.weights(density)))
    seed = int(np.random.SeedSequence(plan.entropy, spawn_key=(6, 0)).generate_state(1)[0])
    kept = onion.resample(density, min(KEPT_DRAWS, n_held), seed)
    if not budget.interrupted:
        warn_if_apart(onion)
    draws = Draws(
        coef=[kept.coef], bayes_points=onion.combine(density)[None],
        angle_errors=np.array([onion.combine_error(density)]),
        mean_norms=np.array([kept.mean_norm]), used=np.ones(problem.targets.shape, dtype=bool),
        n_draws=kept.n_draws, finished=bool(onion.info["n_draws"]), info=onion.info,
    )  # fmt: skip
    return DrawnShells(draws, table, chosen, density)


def _chosen(table: "Shells", shells: Any, given: Any, budget: Budget) -> tuple[Any, Array]:
    """Shells and their density; where time was up before one was reached, what there is."""
    shells, density = table.choose(shells)
    if np.any(density * table.counts):
        return shells, density
    held = [tuple(cell) for cell in np.argwhere(table.counts).tolist()]
    if not budget.spent():
        raise ValueError(
            f"shells={given!r}: no draw makes so few training errors or so many; the "
            f"shells that hold draws are {held[:10]}. Choose one of these, or raise n_draws."
        )
    warn(
        f"the time was up before a draw fell into shells={given!r}; shells {held[:10]} "
        f"decide instead. Raise max_time.",
        ConvergenceWarning,
    )
    return shells, (table.counts > 0).astype(float)


@dataclass(frozen=True, eq=False, repr=False)
class Shells:
    """What is left of an `Onion` once its draws are gone; compressed models keep less."""

    products: Array  # inner products of the means, shells in a row
    counts: Array  # (n_minus + 1, n_plus + 1)
    log_volume: Array  # (n_minus + 1, n_plus + 1)
    loo_errors: Array  # (n_minus + 1, n_plus + 1, 2), by class; NaN where no draw fell
    y: Any = None  # (m,)
    means: Any = None  # (n_minus + 1, n_plus + 1, m)
    loo_weights: Any = None  # (n_minus + 1, n_plus + 1, m)
    loo_sums: Any = None  # (n_minus + 1, n_plus + 1, m)
    label: Any = None  # (m,), class numbers
    weight: Any = None  # (m,)
    length: Any = None  # (m,), in feature space

    @classmethod
    def of(cls, onion: Onion, problem: Problem) -> "Shells":
        """Return what is left of an onion drawn for a problem."""
        y, means = onion.space.y, np.nan_to_num(onion.means)
        flat = means.reshape(-1, means.shape[-1])
        weights, sums = onion.leave_one_out_sums()
        errors = error_table(np.where(onion.counts[..., None] > 0, sums, np.nan), y)
        return cls(
            flat @ onion.space.outputs(flat).T, onion.counts, onion.log_volume, errors, y, means,
            weights, sums, (problem.targets[0] > 0).astype(np.int64), problem.weight,
            np.sqrt(problem.rows.diagonal),
        )  # fmt: skip

    def without_points(self) -> "Shells":
        """Return what a model keeps that has fewer support points."""
        return Shells(self.products, self.counts, self.log_volume, self.loo_errors)

    def choose(self, shells: Any) -> tuple[Any, Array]:
        """Shell or rate, and the weight per volume of each shell."""
        if isinstance(shells, str):
            if shells == "best":
                shells = best_cell(self.loo_errors)
            else:
                shells = best_noise(self.loo_sums, self.y, self.counts)
        return shells, self.density(shells)

    def density(self, shells: Any) -> Array:
        """Weight per volume of each shell, for a rate or for one shell."""
        if not isinstance(shells, tuple):
            return noise_density(shells, self.counts.shape)
        density = np.zeros(self.counts.shape)
        density[shells] = 1.0
        return density

    def edge_share(self, density: Array) -> float:
        """Share of a mixture in the deepest shells of the table."""
        weight = density * np.exp(self.log_volume)
        return float(1 - weight[:-1, :-1].sum() / weight.sum())

    def combine(self, density: Array) -> tuple[Array, float]:
        """Unit centre of a mixture, and the length of the mean it comes from."""
        weight = (density * np.exp(self.log_volume)).ravel()
        if not np.any(weight > 0):
            raise ValueError(
                "no draw fell into the shells asked for: raise n_draws, or choose others."
            )
        weight /= weight.sum()
        norm = np.sqrt(weight @ self.products @ weight)
        return weight @ self.means.reshape(len(weight), -1) / norm, norm

    def centres(self) -> Array:
        """Unit centres of the shells, (n_minus + 1, n_plus + 1, m); NaN where no draw fell."""
        with np.errstate(invalid="ignore"):
            length = np.sqrt(self.products.diagonal()).reshape(self.counts.shape)
            return np.where(self.counts[..., None] > 0, self.means / length[..., None], np.nan)

    def loo_outputs(self, density: Array) -> Array:
        """Mean output, over unit draws, at each point left out."""
        total = np.tensordot(density, self.loo_weights)
        return np.tensordot(density, self.loo_sums) / np.where(total > 0, total, 1.0)


def checked_shells(shells: Any, depth: tuple[int, ...]) -> Any:
    """Return "noise", "best", a rate or a pair of numbers of errors; refuse anything else."""
    if isinstance(shells, str) and shells in ("noise", "best"):
        return shells
    if np.ndim(shells) == 0 and isinstance(shells, int | float | np.number) and 0 <= shells < 0.5:
        return float(shells)
    whole = np.shape(shells) == (2,) and all(isinstance(n, int | np.integer) for n in shells)
    if whole and all(0 <= n <= most for n, most in zip(shells, depth, strict=True)):
        return int(shells[0]), int(shells[1])
    raise ValueError(
        f"shells must be 'noise', 'best', a pair (n_minus, n_plus) up to {depth} or a rate in "
        f"[0, 0.5); got {shells!r}."
    )
