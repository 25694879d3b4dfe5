"""The unit sphere in three dimensions: great circles, version space, and views from the front."""

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from bayespoint._support.types import Array

# Angle between two points of a curve, in radians: smooth at any size of the picture.
STEP = np.radians(0.5)

# Lengths below this are rounding errors of unit vectors.
TINY = 1e-9


def unit(vectors: Array) -> Array:
    """Vectors of length one, in the direction of those given."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def arc(begin: Array, end: Array) -> Array:
    """Points of the shortest great-circle arc from one unit vector to another, both included."""
    angle = np.arctan2(np.linalg.norm(np.cross(begin, end)), begin @ end)
    if angle < TINY:
        return np.array([begin, end])
    turned = np.linspace(0, angle, 2 + int(angle / STEP))[:, None]
    return (np.sin(angle - turned) * begin + np.sin(turned) * end) / np.sin(angle)


def bounding_walls(normals: Array, inside: Array) -> Array:
    """Walls that bound version space, in order around it.

    Parameters
    ----------
    normals : ndarray of shape (m, 3)
        Version space is where ``normals @ w > 0``. They span the space, so it has corners.
    inside : ndarray of shape (3,)
        A point of version space.

    Returns
    -------
    ndarray of int
    """
    # In the plane that touches the sphere at the point inside, version space is the polygon of
    # all u with 1 + <u, dual_i> > 0. Its edges are the corners of the hull of the duals.
    margins = normals @ inside
    if margins.min() > 0:
        try:
            return ConvexHull(normals @ tangents(inside).T / margins[:, None]).vertices
        except QhullError:
            pass
    raise ValueError("version space is narrower than rounding errors; use kind='trace'.")


def corners(normals: Array) -> Array:
    """Corners of version space, from the normals of the walls in order around it."""
    return unit(np.cross(normals, np.roll(normals, -1, axis=0)))


def outline(ring: Array) -> Array:
    """Points along the boundary of version space, from its corners in order around it."""
    return np.concatenate([arc(*ends) for ends in zip(np.roll(ring, 1, axis=0), ring, strict=True)])


def tangents(point: Array, spread: Array | None = None) -> Array:
    """Two unit vectors orthogonal to a unit ``point`` and to each other, right-handed with it.

    Along the first one the points ``spread``, if given, lie farthest apart.
    """
    spread = np.eye(3) if spread is None else spread
    first = np.linalg.svd(spread - np.outer(spread @ point, point), full_matrices=False)[2][0]
    first = unit(first - (first @ point) * point)
    first = first * np.sign(first[np.argmax(np.abs(first))])
    return np.array([first, np.cross(point, first)])


class View:
    """The half of the sphere in front.

    Parameters
    ----------
    frame : ndarray of shape (3, 3)
        Unit vectors to the right, up and towards the viewer.
    equal_area : bool, default=True
        Lambert's projection, in which uniform draws look uniform. Otherwise orthographic: as a
        globe looks from far away.
    """

    def __init__(self, frame: Array, equal_area: bool = True) -> None:
        self.frame = frame
        self.equal_area = equal_area
        self.radius = np.sqrt(2.0) if equal_area else 1.0

    def project(self, points: Array) -> Array:
        """Positions in the picture, of shape (n, 2); NaN for points behind."""
        x, y, depth = (points @ self.frame.T).T
        depth = np.where(depth > -TINY, depth, np.nan)
        scale = np.sqrt(2 / (1 + depth)) if self.equal_area else 1 + 0 * depth
        return np.column_stack([x * scale, y * scale])

    def lift(self, flat: Array) -> Array:
        """Points on the sphere at positions (..., 2) in the picture; NaN outside of its rim."""
        squared = np.sum(flat**2, axis=-1, keepdims=True)
        squared = np.where(squared <= self.radius**2, squared, np.nan)
        depth = 1 - squared / 2 if self.equal_area else np.sqrt(1 - squared)
        scale = np.sqrt((1 + depth) / 2) if self.equal_area else 1.0
        return np.concatenate([flat * scale, depth], axis=-1) @ self.frame

    def great_circle(self, normal: Array) -> Array:
        """Positions along the half in front of the great circle orthogonal to ``normal``."""
        towards = self.frame[2]
        rim = np.cross(towards, normal)
        if np.linalg.norm(rim) < TINY:  # the circle is the rim
            turn = np.linspace(0, 2 * np.pi, int(2 * np.pi / STEP))[:, None]
            return self.project(np.cos(turn) * self.frame[0] + np.sin(turn) * self.frame[1])
        rim = unit(rim)
        top = np.cross(normal, rim)
        top = unit(top if top @ towards > 0 else -top)
        turn = np.linspace(0, np.pi, int(np.pi / STEP))[:, None]
        return self.project(np.cos(turn) * rim + np.sin(turn) * top)
