"""Balls that fly on straight lines, as in the papers, and the sums of unit vectors they use.

w + tau v, brought back to unit length, runs on the great circle through w and v and meets the same
walls, but never gets further than v: a ball that meets no wall before has escaped. Vectors live in
an orthonormal basis of the span of the training points and, with a bias dimension, of its axis:
sums over the points would lose all digits where the span has few dimensions.
"""

from typing import NamedTuple, Self

import numpy as np

from bayespoint._support.types import Array
from bayespoint.space.factor import Factor
from bayespoint.space.version_space import VersionSpace

# Angles below this are added as if the sphere was flat, with relative error of their square.
FLAT = 1e-6


class Vector(NamedTuple):
    """A vector: its coordinates, and its inner products with the spanning vectors."""

    coordinates: Array
    outputs: Array

    def dot(self, other: Self) -> float:
        """Inner product."""
        return float(self.coordinates @ other.coordinates)

    def times(self, factor: float) -> "Vector":
        """Return a multiple of the vector."""
        return Vector(factor * self.coordinates, factor * self.outputs)

    def plus(self, factor: float, other: Self) -> "Vector":
        """Sum with a multiple of another vector."""
        return Vector(
            self.coordinates + factor * other.coordinates,
            self.outputs + factor * other.outputs,
        )

    def unit(self) -> "Vector":
        """Return the vector of unit length with the same direction."""
        length = np.sqrt(self.dot(self))
        return Vector(self.coordinates / length, self.outputs / length)


class Span:
    """The span of the training points, with the axis of a bias dimension if there is one.

    Parameters
    ----------
    space : VersionSpace
    bias : float
        How much of each entry of the Gram matrix is due to a bias weight; 0 for none.
    isotropic : bool
        Whether random directions are isotropic; as published their coefficients are.
    """

    def __init__(self, space: VersionSpace, bias: float = 0.0, isotropic: bool = False) -> None:
        self.space, self.bias, self.isotropic = space, float(bias), isotropic
        gram = space.rows.submatrix(np.arange(len(space)))
        gram[np.diag_indices_from(gram)] += space.ridge
        if bias:
            side = np.full((len(gram), 1), np.sqrt(bias))
            gram = np.block([[gram, side], [side.T, np.ones((1, 1))]])
        self.gram = gram
        soft, precision = space.softness / (1 + space.softness), space.rows.dtype
        try:
            self.factor = Factor(gram.copy(), precision, 0.0 if bias else soft)
        except ValueError as error:
            if not bias:
                raise
            raise ValueError(
                f"bias={bias!r} is more than K holds of it; make the version space of K + bias."
            ) from error
        self.basis = self.factor.basis_coordinates()
        if self.factor.rank < 2:
            raise ValueError("all points lie on a line: nowhere to fly. Use sample_billiard.")
        self._points = self.factor
        if bias:
            self._points = Factor(gram[:-1, :-1].copy(), precision, soft)

    def vector(self, coef: Array) -> Vector:
        """Return the unit vector with these coefficients, up to scale."""
        coef = np.append(coef, np.zeros(len(self.gram) - len(coef)))
        return self.at(coef @ self.basis)

    def at(self, coordinates: Array) -> Vector:
        """Return the unit vector with these coordinates, up to scale."""
        coordinates = coordinates / np.linalg.norm(coordinates)
        return Vector(coordinates, self.basis @ coordinates)

    def random(self, rng: np.random.Generator) -> Vector:
        """Unit vector in a random direction."""
        if self.isotropic:
            return self.at(rng.standard_normal(self.factor.rank))
        coef = rng.standard_normal(len(self.gram))
        if self.bias:  # of the points without their bias, and of its axis
            coef[-1] -= np.sqrt(self.bias) * coef[:-1].sum()
        return self.vector(coef)

    def inside(self, coordinates: Array) -> Array:
        """Coefficients over the training points alone, without what is outside their span."""
        coordinates = np.atleast_2d(coordinates)
        if self.bias:
            outputs = (coordinates @ self.basis.T)[:, :-1]
            coordinates = self._points.white(outputs)
        return self._points.coefficients(coordinates)

    def projected(self, coordinates: Array) -> Array:
        """Do as `inside`, and bring to unit length."""
        coef = self.inside(coordinates)
        return coef / np.sqrt(np.sum(coef * self.space.outputs(coef), axis=1))[:, None]


class StraightBall:
    """Position and direction, both of unit length, of a ball inside version space."""

    def __init__(self, span: Span, position: Vector, direction: Vector) -> None:
        self.span, self.w, self.v = span, position, direction
        self.y = span.space.y
        self.bounces = 0

    def crossings(self) -> Array:
        """Flight times to all walls ahead, infinite for those that are not met."""
        m = len(self.y)
        height, speed = self.y * self.w.outputs[:m], self.y * self.v.outputs[:m]
        times = np.full(m, np.inf)
        # A wall just met may be left on its wrong side by rounding, moving away: not ahead.
        np.divide(np.maximum(height, 0.0), -speed, out=times, where=speed < 0)
        return times

    def at(self, time: float) -> Vector:
        """Unit vector at a flight time."""
        return self.span.at(self.w.coordinates + time * self.v.coordinates)

    def bounce(self, wall: int, time: float) -> None:
        """Move to a wall and reflect: v -= 2 <v, phi> phi / <phi, phi>."""
        self.w = self.at(time)
        gram = self.span.gram
        factor = 2.0 * self.v.outputs[wall] / gram[wall, wall]
        self.v = self.span.at(self.v.coordinates - factor * self.span.basis[wall])
        self.bounces += 1


def chord(a: Vector, b: Vector) -> float:
    """Distance of two vectors."""
    difference = a.plus(-1.0, b)
    return float(np.sqrt(max(difference.dot(difference), 0.0)))


def angle(a: Vector, b: Vector) -> float:
    """Angle between two unit vectors."""
    return float(2.0 * np.arcsin(min(chord(a, b) / 2.0, 1.0)))


def chord_weights(cosine: float, share: float) -> tuple[float, float]:
    """JMLR's rho_1 and rho_2: weights of two unit vectors in their sum on the sphere.

    The sum's distance to the second is ``share`` times the distance of the two.

    >>> from bayespoint.papers.straight import chord_weights
    >>> [round(float(rho), 3) for rho in chord_weights(1.0, 0.75)]
    [0.75, 0.25]
    """
    rho_1 = share * np.sqrt((2.0 - share**2 * (1.0 - cosine)) / (1.0 + cosine))
    rho_2 = 1.0 - share**2 * (1.0 - cosine) - rho_1 * cosine
    return rho_1, rho_2


class ChordSum:
    """JMLR's running centre of mass: unit vectors weighted by chords, added on the sphere."""

    def __init__(self) -> None:
        self.centre: Vector | None = None
        self.total = self.longest = 0.0
        self.least_cosine = 1.0

    def add(self, midpoint: Vector, length: float) -> None:
        """Add the midpoint of a chord."""
        if self.centre is None or self.total == 0:  # rho_1 = 0 and rho_2 = 1
            self.centre = midpoint
        else:
            cosine = min(self.centre.dot(midpoint), 1.0)
            rho_1, rho_2 = chord_weights(cosine, self.total / (self.total + length))
            self.centre = self.centre.times(rho_1).plus(rho_2, midpoint).unit()
            self.least_cosine = min(cosine, self.least_cosine)
        self.total += length
        self.longest = max(self.longest, length)

    def weight_of_next(self) -> float:
        """JMLR's bound on the weight of the next midpoint, which the stopping rule compares."""
        if self.total == 0:  # from a start on a wall, to that wall
            return 1.0
        return chord_weights(self.least_cosine, self.total / (self.total + self.longest))[1]


class ArcSum:
    """R&M's addition rule (18.27): on the arc between two vectors, divided by their weights."""

    def __init__(self) -> None:
        self.centre: Vector | None = None
        self.total = 0.0

    def add(self, midpoint: Vector, length: float) -> None:
        """Add the midpoint of an arc."""
        self.total += length
        if self.centre is None:
            self.centre = midpoint
        elif self.total > 0:
            between, share = angle(self.centre, midpoint), length / self.total
            a, b = 1.0 - share, share
            if between > FLAT:
                a, b = (np.sin(part * between) / np.sin(between) for part in (a, b))
            self.centre = self.centre.times(a).plus(b, midpoint).unit()
