"""Balls that fly on straight lines, as in the papers, and the sums of unit vectors they use.

w + tau v, brought back to unit length, runs on the great circle through w and v and meets the same
walls, but never gets further than v: a ball that meets no wall before has escaped. Vectors are sums
over the training points and, with a bias dimension, over its axis.
"""

from typing import NamedTuple

import numpy as np

from bayespoint.gram import submatrix

# Eigenvalues below this share of the largest one are rounding errors.
RANK_TOLERANCE = 1e-10

# Bounces after which outputs are computed anew from the coefficients.
RECOMPUTED = 500

# Angles below this are added as if the sphere was flat, with relative error of their square.
FLAT = 1e-6


class Vector(NamedTuple):
    """A vector: coefficients over the spanning vectors, and inner products with them."""

    coef: np.ndarray
    outputs: np.ndarray

    def dot(self, other):
        """Inner product."""
        return float(self.coef @ other.outputs)

    def plus(self, factor, other):
        """Sum with a multiple of another vector."""
        return Vector(self.coef + factor * other.coef, self.outputs + factor * other.outputs)

    def unit(self):
        """Return the vector of unit length with the same direction."""
        length = np.sqrt(self.dot(self))
        return Vector(self.coef / length, self.outputs / length)


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

    def __init__(self, space, bias=0.0, isotropic=False):
        self.space, self.bias, self.isotropic = space, float(bias), isotropic
        gram = submatrix(space.rows, np.arange(len(space))).astype(np.float64)
        gram[np.diag_indices_from(gram)] += space.ridge
        self.gram = gram
        self._whitener = self._axis = None
        if bias:
            side = np.full((len(gram), 1), np.sqrt(bias))
            self.gram = np.block([[gram, side], [side.T, np.ones((1, 1))]])
            self._axis = np.linalg.lstsq(gram, side[:, 0], rcond=RANK_TOLERANCE)[0]
        if isotropic:
            values, vectors = np.linalg.eigh(self.gram)
            kept = values > RANK_TOLERANCE * values[-1]
            self._whitener = vectors[:, kept] / np.sqrt(values[kept])

    def vector(self, coef):
        """Return the unit vector with these coefficients, up to scale."""
        coef = np.append(coef, np.zeros(len(self.gram) - len(coef)))
        return Vector(coef, self.gram @ coef).unit()

    def random(self, rng):
        """Unit vector in a random direction."""
        if self.isotropic:
            return self.vector(self._whitener @ rng.standard_normal(self._whitener.shape[1]))
        coef = rng.standard_normal(len(self.gram))
        if self.bias:  # of the points without their bias, and of its axis
            coef[-1] -= np.sqrt(self.bias) * coef[:-1].sum()
        return self.vector(coef)

    def inside(self, coef):
        """Coefficients over the training points alone, without what is outside their span."""
        coef = np.atleast_2d(coef)
        m = len(self.space)
        return coef[:, :m] + coef[:, m:] * self._axis if self.bias else coef

    def projected(self, coef):
        """Do as `inside`, and bring to unit length."""
        coef = self.inside(coef)
        return coef / np.sqrt(np.sum(coef * self.space.outputs(coef), axis=1))[:, None]


class StraightBall:
    """Position and direction, both of unit length, of a ball inside version space."""

    def __init__(self, span, position, direction):
        self.span, self.w, self.v = span, position, direction
        self.y = span.space.y
        self.bounces = 0

    def crossings(self):
        """Flight times to all walls ahead, infinite for those that are not met."""
        m = len(self.y)
        height, speed = self.y * self.w.outputs[:m], self.y * self.v.outputs[:m]
        times = np.full(m, np.inf)
        # A wall just met may be left on its wrong side by rounding, moving away: not ahead.
        np.divide(np.maximum(height, 0.0), -speed, out=times, where=speed < 0)
        return times

    def at(self, time):
        """Unit vector at a flight time."""
        return self.w.plus(time, self.v).unit()

    def bounce(self, wall, time):
        """Move to a wall and reflect: v -= 2 <v, phi> phi / <phi, phi>."""
        self.w = self.at(time)
        gram = self.span.gram
        factor = 2.0 * self.v.outputs[wall] / gram[wall, wall]
        self.v.coef[wall] -= factor
        self.v = Vector(self.v.coef, self.v.outputs - factor * gram[wall]).unit()
        self.bounces += 1
        if self.bounces % RECOMPUTED == 0:
            self.w, self.v = (self.span.vector(x.coef) for x in (self.w, self.v))


def chord(a, b):
    """Distance of two vectors."""
    difference = a.plus(-1.0, b)
    return float(np.sqrt(max(difference.dot(difference), 0.0)))


def angle(a, b):
    """Angle between two unit vectors."""
    return float(2.0 * np.arcsin(min(chord(a, b) / 2.0, 1.0)))


def chord_weights(cosine, share):
    """JMLR's rho_1 and rho_2: weights of two unit vectors in their sum on the sphere.

    The sum's distance to the second is ``share`` times the distance of the two.

    >>> from bayespoint.straight import chord_weights
    >>> [round(float(rho), 3) for rho in chord_weights(1.0, 0.75)]
    [0.75, 0.25]
    """
    rho_1 = share * np.sqrt((2.0 - share**2 * (1.0 - cosine)) / (1.0 + cosine))
    rho_2 = 1.0 - share**2 * (1.0 - cosine) - rho_1 * cosine
    return rho_1, rho_2


class ChordSum:
    """JMLR's running centre of mass: unit vectors weighted by chords, added on the sphere."""

    def __init__(self):
        self.centre = None
        self.total = self.longest = 0.0
        self.least_cosine = 1.0

    def add(self, midpoint, length):
        """Add the midpoint of a chord."""
        if self.centre is None:  # rho_1 = 0 and rho_2 = 1
            self.centre = midpoint
        else:
            cosine = min(self.centre.dot(midpoint), 1.0)
            rho_1, rho_2 = chord_weights(cosine, self.total / (self.total + length))
            centre = Vector(rho_1 * self.centre.coef, rho_1 * self.centre.outputs)
            self.centre = centre.plus(rho_2, midpoint).unit()
            self.least_cosine = min(cosine, self.least_cosine)
        self.total += length
        self.longest = max(self.longest, length)

    def weight_of_next(self):
        """JMLR's bound on the weight of the next midpoint, which the stopping rule compares."""
        return chord_weights(self.least_cosine, self.total / (self.total + self.longest))[1]


class ArcSum:
    """R&M's addition rule (18.27): on the arc between two vectors, divided by their weights."""

    def __init__(self):
        self.centre = None
        self.total = 0.0

    def add(self, midpoint, length):
        """Add the midpoint of an arc."""
        self.total += length
        if self.centre is None:
            self.centre = midpoint
        elif self.total > 0:
            between, share = angle(self.centre, midpoint), length / self.total
            a, b = 1.0 - share, share
            if between > FLAT:
                a, b = (np.sin(part * between) / np.sin(between) for part in (a, b))
            centre = Vector(a * self.centre.coef, a * self.centre.outputs)
            self.centre = centre.plus(b, midpoint).unit()
