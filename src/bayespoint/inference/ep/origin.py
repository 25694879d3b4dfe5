"""What Gaussian posteriors are made from, and how their matrices and draws are made again.

Sites are two numbers for each point and machine; the m × m matrices that predictions need follow
from them and from the kernel. They are made when they are needed and held beside a model, not in
it: a model never changes, and its files are about as large as its data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array
from bayespoint.inference.ep.sites import SiteGaussian, Sites, combined
from bayespoint.space.kernels import Kernel, Points
from bayespoint.space.rows import GramRows, Rows

# Draws between two looks at the clock: of a few thousand points they take seconds.
DRAWS_AT_ONCE = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Origin:
    """What the Gaussian posteriors of all machines are made from, beside points and kernel.

    Attributes
    ----------
    sites : ndarray of shape (n_machines, 2, n_points)
    copies : ndarray of shape (n_points,)
        That points count for.
    entropy : int
        Seed of the draws.
    n_draws : int
        Of each machine.
    """

    sites: Array
    copies: Array
    entropy: int
    n_draws: int

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what was made under a name, or make it; two threads may make it twice."""
        held = _MADE.setdefault(self, {})
        if name not in held:
            with open_threads(1):  # as in fits: more threads of BLAS would round otherwise
                held[name] = make()
        return held[name]


# What was made from origins that are still there.
_MADE: WeakKeyDictionary[Origin, dict[str, Any]] = WeakKeyDictionary()


class Remaking:
    """Makes matrices and draws of the Gaussian posteriors over some points again.

    Parameters
    ----------
    origin : Origin
    kernel : Kernel
    points : Points
        All training points, in the order of the sites.
    softness : float
    """

    def __init__(self, origin: Origin, kernel: Kernel, points: Points, softness: float) -> None:
        self._origin, self._softness = origin, softness / origin.copies
        n_bytes = points.X.dtype.itemsize * len(points) ** 2
        self._rows = GramRows(kernel, points, cache_bytes=n_bytes, threads=Threads(1))

    def reducers(self) -> list[tuple[Array, Array]]:
        """Matrix P and signs s of each machine: see `GaussianPosterior.reducer`."""
        return [gaussian.reducer() for gaussian in self._gaussians()]

    def whitener(self) -> Array:
        """Matrix that takes kernel values of a point to its coordinates in the span."""
        return self._factor().whitener()

    def draws(self) -> list[Array]:
        """Coefficients of the draws of each machine, (n_draws, n_points)."""
        origin, factor = self._origin, self._factor()
        ridge = self._softness * self._rows.diagonal
        found = []
        for machine, gaussian in enumerate(self._gaussians()):
            tau = origin.copies * origin.sites[machine, 0]
            rng = drawing(origin.entropy, machine)
            drawn = unit_draws(gaussian, self._rows, factor, ridge, tau, origin.n_draws, rng)
            found.append(drawn[0])
        return found

    def _factor(self) -> Any:
        return self._rows.factorise(self._softness, self._rows.threads)

    def _gaussians(self) -> list[SiteGaussian]:
        K, origin = self._rows.matrix(), self._origin
        found = [combined(K, Sites(*sites), origin.copies) for sites in origin.sites]
        known = [gaussian for gaussian in found if gaussian is not None]
        if len(known) < len(found):
            raise ValueError(
                "the sites of this model define no distribution of its points: it was changed "
                "after fit, or its file is damaged. Fit again."
            )
        return known


def drawing(entropy: Any, machine: int) -> np.random.Generator:
    """Return the random numbers of a machine's draws."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(2, machine)))


def unit_draws(
    gaussian: SiteGaussian, rows: Rows, factor: Any, ridge: Array, tau: Array, n_draws: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:  # fmt: skip
    """Coefficients and outputs, both (n_draws, m), of unit vectors drawn.

    Parameters
    ----------
    gaussian : SiteGaussian
    rows : Rows
    factor : Factor
        Of the softened Gram matrix.
    ridge : ndarray of shape (m,)
        What softness adds to the diagonal.
    tau : ndarray of shape (m,)
        Of all copies of a point together.
    n_draws : int
        Made some at a time: the first of more draws are the same.
    rng : Generator
    """
    found = np.empty((2, n_draws, len(tau)))
    for start in range(0, n_draws, DRAWS_AT_ONCE):
        part = found[:, start : start + DRAWS_AT_ONCE]
        white = rng.standard_normal((part.shape[1], factor.rank))
        noise = gaussian.noise(factor.coefficients(white), factor.outputs(white), ridge, tau, rng)
        part[0] = gaussian.coef + noise
        part[1] = rows.outputs(ridge, part[0])
        # In an orthonormal basis: products of large coefficients would lose all digits.
        part /= np.linalg.norm(factor.white(part[1]), axis=1)[:, None]
    return found[0], found[1]
