"""What any inference method returns: draws of all machines, or Gaussians in closed form."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.inference.problem import Problem
from bayespoint.space.posterior import unit_centre

# Draws of each machine for held-out outputs, at most.
HELD_OUT_DRAWS = 10


@dataclass(frozen=True, eq=False)
class Draws:
    """Unit classifiers of all machines, w = sum_j coef_j phi(x_j), and what they tell.

    Attributes
    ----------
    coef : list of ndarray or csr_matrix of shape (n_draws, n_points)
        One for each machine; rows are unit vectors in the softened metric, chain after chain.
    bayes_points : ndarray of shape (n_machines, n_points)
        Unit centres.
    angle_errors : ndarray of shape (n_machines,)
        Their Monte-Carlo standard errors, angles in radians.
    mean_norms : ndarray of shape (n_machines,)
        Lengths of the means of the draws.
    used : ndarray of bool, shape (n_machines, n_points)
        Points with a coefficient in some draw.
    n_draws, n_chains : int
        Of each machine, all chains together.
    finished : bool
        Whether draws are complete, so that others can be added to them.
    info : dict
        What the run tells about itself, for people: ``diagnostics_`` of the classifier.
    centres : dict
        Bayes points that come from something else than the draws: from its name to (unit centres,
        standard errors), of all machines.
    resume : object
        A dataclass of arrays that this method needs to go on, or None.
    factor : Factor or None
        Of the softened Gram matrix, where it was computed; a model does not keep it.
    """

    coef: list[Matrix]
    bayes_points: Array
    angle_errors: Array
    mean_norms: Array
    used: Array
    n_draws: int
    n_chains: int = 1
    finished: bool = True
    info: Mapping[str, Any] = field(default_factory=dict)
    centres: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    resume: Any = None
    factor: Any = None

    @classmethod
    def from_coef(cls, problem: Problem, coef: list[Array], **more: Any) -> "Draws":
        """Return independent draws, each (n_draws, n_points), with what follows from them.

        They are brought to unit length in the softened metric; ``more`` are other fields.
        """
        units, centres, errors, norms = [], [], [], []
        for draws in coef:
            outputs = problem.outputs(draws)
            length = np.sqrt(np.sum(draws * outputs, axis=1))[:, None]
            units.append(draws / length)
            centre, error = unit_centre(units[-1], outputs / length)
            centres.append(centre)
            errors.append(error)
            mean = units[-1].mean(axis=0)
            norms.append(np.sqrt(mean @ (outputs / length).mean(axis=0)))
        return cls(
            coef=units, bayes_points=np.array(centres), angle_errors=np.array(errors),
            mean_norms=np.array(norms), used=np.array([np.any(u, axis=0) for u in units]),
            n_draws=len(units[0]), **more,
        )  # fmt: skip

    def without_draws(self) -> "Draws":
        """Return what is left for a model that keeps no draws."""
        none = np.empty((len(self.angle_errors), 0))
        return replace(
            self, coef=[], bayes_points=none, used=none.astype(bool), centres={}, resume=None
        )


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Posteriors in closed form, and a committee drawn from them.

    Attributes
    ----------
    draws : Draws
    posteriors : list of GaussianPosterior
        One for each machine.
    """

    draws: Draws
    posteriors: list[Any]


@dataclass(frozen=True, eq=False)
class Plan:
    """What a fit asks of a method beside the problem itself.

    Attributes
    ----------
    n_draws : int
        Of each machine.
    tol : float
        Monte-Carlo error of the Bayes points, an angle, that is small enough.
    entropy : int or sequence of int
        Seed.
    budget : Budget
    threads : Threads
    """

    n_draws: int
    tol: float
    entropy: Any
    budget: Budget
    threads: Threads


class Method(Protocol):
    """Inference for all machines of a problem at once, one class a value of ``inference=``.

    Attributes
    ----------
    name : str
        The value of ``inference=``.
    decision : str
        How classifiers decide by default.
    takes_noise : bool
        Whether it takes label noise into account.
    from_posterior : bool
        Whether draws are those of the posterior, so that votes tell which labels are wrong.
    on_gpu : bool
        Whether it runs on a GPU.
    matrices_on_host : bool
        Whether it keeps matrices in the memory of the host even there.
    light_held_out : bool
        Whether held-out outputs can be found beside the draws, where the host has time.
    """

    name: str
    decision: str
    takes_noise: bool
    from_posterior: bool
    on_gpu: bool
    matrices_on_host: bool
    light_held_out: bool

    def needed_bytes(self, n_points: int, itemsize: int, n_voting: int) -> int:
        """Memory for matrices over all points, where ``n_voting`` machines vote."""

    def infer(self, problem: Problem, plan: Plan, held: Draws | None) -> Draws | Gaussian:
        """Draw, adding to the draws of an earlier fit."""

    def held_out(self, problem: Problem, folds: dict[int, Array], plan: Plan) -> dict[int, Array]:
        """Outputs at all points of machines trained on the points of each fold.

        By the number of the fold; none for one that has no draw.
        """
