"""The draws of several machines, with the running sums that give their Bayes points."""

import numpy as np
import scipy.sparse as sp

from bayespoint.space.posterior import Posterior


class Ensemble:
    """Unit classifiers of each machine over the same points, and their sums.

    Sums grow draw by draw, in order, so that adding draws later gives the same bits as drawing
    them all at once.

    Parameters
    ----------
    n_machines, n_points : int
    outputs_of : callable, optional
        From coefficients to outputs, where draws come without their outputs.
    """

    def __init__(self, n_machines, n_points, *, outputs_of=None):
        self.sum_coef = np.zeros((n_machines, n_points))
        self._sum_output: np.ndarray | None = np.zeros((n_machines, n_points))
        self._outputs_of = outputs_of
        self.numbers = np.empty(0, dtype=np.int64)
        self.violated = np.empty((0, n_machines), dtype=np.int64)
        self.finished = np.empty(0, dtype=bool)
        self._parts: list[list] = [[] for _ in range(n_machines)]
        self._held = [sp.csr_matrix((0, n_points)) for _ in range(n_machines)]

    @classmethod
    def from_state(cls, state, outputs_of=None):
        """Rebuild from `state`."""
        ensemble = cls(*state["sum_coef"].shape, outputs_of=outputs_of)
        ensemble.sum_coef = state["sum_coef"].copy()
        ensemble._sum_output = state["sum_output"].copy()
        ensemble.numbers = state["numbers"]
        ensemble.violated = state["violated"]
        ensemble.finished = state["finished"]
        ensemble._held = list(state["coef"])
        return ensemble

    def state(self):
        """Return plain arrays that hold everything."""
        return {
            "coef": self.coef(),
            "sum_coef": self.sum_coef.copy(),
            "sum_output": self.sum_output.copy(),
            "numbers": self.numbers,
            "violated": self.violated,
            "finished": self.finished,
        }

    def add(self, draw):
        """Add one `Draw`."""
        for machine, (indices, values) in enumerate(draw.coef):
            self.sum_coef[machine, indices] += values
            self._parts[machine].append((indices, values))
        if draw.outputs is None:
            self._sum_output = None
        else:
            self._sum_output += draw.outputs
        self.numbers = np.append(self.numbers, draw.number)
        self.violated = np.vstack([self.violated, draw.violated])
        self.finished = np.append(self.finished, draw.finished)

    @property
    def sum_output(self):
        """Sum of the outputs of the draws, (n_machines, n_points)."""
        if self._sum_output is None:
            self._sum_output = self._outputs_of(self.sum_coef)
        return self._sum_output

    def coef(self):
        """Draws of each machine: a list of CSR matrices (n_draws, n_points)."""
        n_points = self.sum_coef.shape[1]
        stacked = []
        for held, parts in zip(self._held, self._parts, strict=True):
            new = stack_coefficients(parts, n_points)
            stacked.append(sp.vstack([held, new], format="csr") if held.shape[0] else new)
        return stacked

    @property
    def n_draws(self):
        """Draws held for each machine."""
        return len(self.numbers)

    @property
    def next_number(self):
        """Number of the first draw not yet made."""
        return int(self.numbers[-1]) + 1 if self.n_draws else 0

    def mean_norms(self):
        """Length of the mean of each machine's draws in feature space."""
        squared = np.einsum("ij,ij->i", self.sum_coef, self.sum_output)
        return np.sqrt(np.maximum(squared, 0.0)) / self.n_draws

    def angle_errors(self):
        """Monte-Carlo standard error of each Bayes point, as an angle in radians.

        The mean of n independent unit vectors has squared length R²; their scatter about it,
        (1 - R²)/(n - 1), seen from the origin at distance R, is the squared angle.
        """
        if self.n_draws < 2:
            return np.full(len(self.sum_coef), np.inf)
        squared = np.minimum(self.mean_norms() ** 2, 1.0)
        with np.errstate(divide="ignore"):
            return np.sqrt((1 - squared) / (squared * (self.n_draws - 1)))

    def bayes_points(self):
        """Coefficients of the unit mean of each machine's draws, (n_machines, n_points)."""
        norms = self.mean_norms()
        if np.any(norms == 0):
            raise ValueError("the mean of the draws is zero and has no direction; raise n_draws.")
        return self.sum_coef / (self.n_draws * norms[:, None])

    def unit_mean_outputs(self):
        """Outputs of the Bayes points at the points, (n_machines, n_points)."""
        return self.sum_output / (self.n_draws * self.mean_norms()[:, None])

    def posterior(self, machine, **info):
        """Return the `Posterior` of one machine."""
        return Posterior(self.coef()[machine], mean_norm=self.mean_norms()[machine], info=info)


def stack_coefficients(parts, n_points):
    """CSR matrix with one draw a row, from (indices, values) pairs."""
    indptr = np.cumsum([0, *(len(indices) for indices, _ in parts)])
    indices = np.concatenate([np.empty(0, np.int32), *(indices for indices, _ in parts)])
    values = np.concatenate([np.empty(0), *(values for _, values in parts)])
    return sp.csr_matrix((values, indices.astype(np.int32), indptr), shape=(len(parts), n_points))
