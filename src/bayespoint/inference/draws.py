"""What any inference method returns: draws of all machines, or Gaussians in closed form."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.inference.problem import Problem
from bayespoint.space.posterior import dense, unit_centre

# Draws of each machine for held-out outputs, at most.
HELD_OUT_DRAWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Unit classifiers of all machines, w = sum_j coef_j phi(x_j), and what they tell.

    Attributes
    ----------
    coef : list of ndarray or csr_matrix of shape (n_draws, n_points)
        One for each machine; rows are unit vectors in the softened metric, chain after chain.
    bayes_points : ndarray of shape (n_machines, n_points)
        Unit centres.
    angle_errors : ndarray of shape (n_machines,)
        Their Monte Carlo standard errors, angles in radians.
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
    left_out : ndarray of shape (n_machines, n_points) or None
        Outputs of the Bayes points at points that they have not seen, where the method has them
        at no cost; NaN where unknown. A model does not keep them.
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
    left_out: Array | None = None

    @classmethod
    def from_coef(cls, problem: Problem, coef: list[Matrix], **more: Any) -> "Draws":
        """Return independent draws, (n_draws, n_points) a machine, and what follows from them.

        They are brought to unit length in the softened metric; ``more`` are other fields.
        """
        units, centres, errors, norms = [], [], [], []
        for draws in map(dense, coef):
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


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian:
    """Posteriors in closed form, and a committee drawn from them.

    Attributes
    ----------
    draws : Draws
    posteriors : list of GaussianPosterior
        One for each machine.
    origin : Origin
        What a model keeps of them, from which the rest is made again.
    """

    draws: Draws
    posteriors: list[Any]
    origin: Any


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What a fit asks of a method beside the problem itself.

    Attributes
    ----------
    n_draws : int
        Of each machine.
    tol : float
        Monte Carlo error of the Bayes points, an angle, that is small enough.
    entropy : int or sequence of int
        Seed, for ``SeedSequence(entropy, spawn_key=...)``. Keys in use: (k,) the k-th perceptron,
        (0, ...) points that settings and link are chosen with, (1, ...) folds, (2, ...) flights
        and committees, (3, ...) and (4, ...) starts, (5, ...) and (6, ...) the onion.
    budget : Budget
    threads : Threads
    folds : ndarray of int, shape (n_points,), or None
        Equal parts of the points, for outputs at points that were left out (`Draws.left_out`).
    drawn : sequence, optional
        Draws that other machines have made, in order, for methods whose draws are independent.
    """

    n_draws: int
    tol: float
    entropy: Any
    budget: Budget
    threads: Threads
    folds: Array | None = None
    drawn: Sequence[Any] | None = None


class Method(ABC):
    """Inference for all machines of a problem at once, one class a value of ``inference=``.

    Attributes
    ----------
    name : str
        The value of ``inference=``.
    title : str
        What messages call it.
    resume : type
        Dataclass in `Draws.resume`.
    decision : str
        How classifiers decide by default.
    takes_noise : bool
        Whether it takes label noise into account.
    from_posterior : bool
        Whether draws are those of the posterior: votes tell which labels are wrong, and settings
        are chosen by expectation propagation. Otherwise settings are chosen by `held_out`.
    closed_form : bool
        Whether it gives a `Gaussian`; a warm start may then have other settings.
    independent : bool
        Whether draws are independent of each other, so that R-hat and ESS tell nothing.
    on_gpu : bool
        Whether it runs on a GPU.
    matrices_on_host : bool
        Whether it keeps m × m matrices in the memory of the host even there.
    """

    name: str
    title: str
    resume: type = type(None)
    decision = "bayes_point"
    takes_noise = False
    from_posterior = False
    closed_form = False
    independent = True
    on_gpu = False
    matrices_on_host = False

    def needed_bytes(self, n_points: int, itemsize: int, n_voting: int) -> int:  # noqa: ARG002
        """Memory for matrices over all points, where ``n_voting`` machines vote."""
        return 0

    @abstractmethod
    def infer(self, problem: Problem, plan: Plan, held: Draws | None) -> Draws | Gaussian:
        """Draw until there are ``plan.n_draws``, adding to those of an earlier fit."""

    @abstractmethod
    def held_out(self, problem: Problem, folds: dict[int, Array], plan: Plan) -> dict[int, Array]:
        """Outputs at *all* points of machines trained on some of them.

        Parameters
        ----------
        problem : Problem
        folds : dict of int to ndarray
            Points to *train on*, by the number of the fold that is left out.
        plan : Plan
            With the draws that are asked for, at most.

        Returns
        -------
        dict of int to ndarray of shape (n_machines, n_points)
            Outputs of the unit Bayes points, by fold; none for a fold that has no draw. What
            softness adds to outputs at training points does not matter: only those at points that
            were left out are looked at.
        """
