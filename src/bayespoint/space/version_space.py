"""Version space: the classifiers that agree with every training label."""

from typing import Any

import numpy as np
from scipy.optimize import nnls

from bayespoint._support.checks import check_number, is_number, shown_places
from bayespoint._support.devices import is_tensor
from bayespoint._support.types import Array, ArrayLike
from bayespoint.space.given import checked_gram, indefinite, unmasked
from bayespoint.space.rows import FullRows, Rows

# Gordan's certificate is accepted when the combination it names has this relative squared
# length: version space is then empty, or narrower than rounding errors.
GORDAN_TOLERANCE = 1e-12

# Points looked at for a certificate; the solve is cubic in them.
GORDAN_POINTS = 800


class EmptyVersionSpaceError(ValueError):
    """No classifier agrees with all labels.

    Attributes
    ----------
    points : ndarray
        Indices of training points that contradict each other.
    shown : str
        How the message names them.
    """

    def __init__(
        self, points: Array, problem: str = "",
        remedy: str = "use a richer kernel (larger gamma, bias > 0)",
    ) -> None:  # fmt: skip
        self._parts = points, problem, remedy
        points = self.points = np.sort(points)
        self.shown = shown_places(np.ones(len(points)), points, 20)
        super().__init__(
            f"version space is empty{problem}: no classifier with this kernel gives the "
            f"{len(points)} training points {self.shown} their labels at once (a positive "
            f"combination of them, signed by label, vanishes). Set softness > 0 (for example 0.1) "
            f"or, with the billiard, label_noise > 0, {remedy}, or correct the labels of these "
            f"points."
        )

    def __reduce__(self) -> Any:
        """Pickle it by its parts, as joblib does with errors of other processes."""
        return type(self), self._parts


class VersionSpace:
    """All unit vectors w in feature space with y_i <w, phi(x_i)> > 0 for every training point.

    Parameters
    ----------
    K : array-like of shape (m, m) or Rows
        Gram matrix of the training points.
    y : array-like of shape (m,)
        Labels, -1 or +1.
    softness : float, default=0.0
        Allows training errors: the diagonal of K is multiplied by ``1 + softness``. With
        ``softness > 0`` version space is never empty.

    Attributes
    ----------
    rows : Rows
        Rows of K, without the softness.
    y : ndarray of shape (m,)
        Labels.
    softness : float
        Softness.
    ridge : ndarray of shape (m,)
        What softness adds to the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespoint import VersionSpace
    >>> space = VersionSpace(np.array([[1.0, 0.5], [0.5, 1.0]]), [1, -1])
    >>> space.margins([1.0, -1.0])
    array([0.5, 0.5])
    >>> bool(space.norm([1.0, -1.0]) == 1.0)
    True
    """

    def __init__(self, K: Any, y: ArrayLike, softness: float = 0.0) -> None:
        self.rows: Rows = K if isinstance(K, Rows) else FullRows(_checked_gram(K))
        self.y = _checked_labels(y, len(self.rows))
        check_number("softness", softness, least=0)
        self.softness = float(softness)
        self.ridge = self.softness * self.rows.diagonal

    def __len__(self) -> int:
        """Return the number of training points."""
        return len(self.y)

    def outputs(self, coef: ArrayLike) -> Array:
        """Outputs <w, phi(x_i)> of w = sum_j coef_j phi(x_j), in the softened metric.

        ``coef``: one vector (m,), or one per row.
        """
        return self.rows.outputs(self.ridge, np.asarray(coef, dtype=np.float64))

    def margins(self, coef: ArrayLike) -> Array:
        """Margins y_i <w, phi(x_i)>: all positive inside version space."""
        return self.y * self.outputs(coef)

    def norm(self, coef: ArrayLike) -> float:
        """Length of w in the softened metric."""
        return float(np.sqrt(max(np.dot(coef, self.outputs(coef)), 0.0)))

    def conflict(self, candidates: ArrayLike | None = None) -> Array | None:
        """Find points that prove version space empty (Gordan's theorem), or None.

        Version space is empty if and only if some c >= 0, c != 0 has G c = 0, where
        G_ij = y_i y_j K_ij; the points with c_i > 0 contradict each other.

        Parameters
        ----------
        candidates : array-like of int, optional
            Points to search; at most 800. Default: the first 800.

        Returns
        -------
        ndarray of int or None
            None if no conflict was found among the candidates. This proves that version space is
            not empty only if the candidates are all points.
        """
        if candidates is None:
            candidates = np.arange(len(self))
        candidates = np.asarray(candidates, dtype=np.int64)[:GORDAN_POINTS]
        if not len(candidates):
            return None
        G = self._signed_gram(candidates)
        length = np.sqrt(G.diagonal())
        if np.any(length == 0):  # a point at the origin is on no side of anything
            return candidates[length == 0]
        G /= np.outer(length, length)
        tolerance = max(GORDAN_TOLERANCE, 32 * np.finfo(self.rows.dtype).eps)
        system = np.vstack([G, np.ones(len(G))])
        try:
            c, _ = nnls(system, np.append(np.zeros(len(G)), 1.0))
        except RuntimeError:  # the solver gave up
            return None
        if c @ G @ c < -tolerance * c.sum() ** 2:
            raise indefinite()
        if not c.sum() > 0.5 or c @ G @ c > tolerance * c.sum() ** 2:
            return None
        return np.sort(candidates[c > np.sqrt(tolerance) * c.max()])

    def _signed_gram(self, index: Array) -> Array:
        G = self.rows.submatrix(index)
        G[np.diag_indices_from(G)] += self.ridge[index]
        return G * np.outer(self.y[index], self.y[index])


def check_space(space: VersionSpace) -> None:
    """Refuse what is no version space, and points at the origin."""
    if not isinstance(space, VersionSpace):
        raise ValueError(
            f"space must be a VersionSpace; got {type(space).__name__}. Make one with "
            f"VersionSpace(K, y)."
        )
    at_origin = space.rows.diagonal == 0
    if np.any(at_origin):
        raise ValueError(
            f"points {shown_places(at_origin)} lie at the origin of feature space "
            f"(k(x, x) = 0), on no side of any classifier; leave them out."
        )


def _checked_gram(K: Any) -> Array:
    if is_tensor(K):
        raise ValueError("K is a PyTorch tensor; pass an array: K.cpu().numpy().")
    return checked_gram(K)


def _checked_labels(y: ArrayLike, n_points: int) -> Array:
    y = np.asarray(unmasked("y", y))
    if y.dtype.kind == "O" and all(is_number(label) for label in y.ravel()):
        y = y.astype(np.float64)
    numbers = y.dtype.kind in "biuf"
    if y.shape != (n_points,) or not numbers or not np.all(np.isin(y, (-1, 1))):
        raise ValueError(
            f"y must hold {n_points} labels -1 or +1, one per row of K; got shape {y.shape}, type "
            f"{y.dtype}, values {y.ravel()[:5].tolist()}."
        )
    return y.astype(np.float64)
