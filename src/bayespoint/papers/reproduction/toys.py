"""Toy problems in three dimensions (JMLR 4.1) and their version spaces, which have closed forms."""

from typing import NamedTuple

import numpy as np

from bayespoint._support.types import Array, ArrayLike
from bayespoint.displays.geometry import bounding_walls, corners, unit
from bayespoint.papers.reproduction.tools import max_margin

TRAINING_POINTS = 10
TEST_POINTS = 10_000


class Toy(NamedTuple):
    """Points in a cube with the labels of a plane through its middle."""

    X: np.ndarray
    y: np.ndarray
    teacher: np.ndarray

    @property
    def normals(self) -> Array:
        """Unit normals of the walls; version space is on their side."""
        return unit(self.y[:, None] * self.X)


def random_toy(rng: np.random.Generator, m: int = TRAINING_POINTS) -> Toy:
    """Draw m points uniformly from [-1, 1]^3 and a direction to label them by."""
    X = rng.uniform(-1, 1, (m, 3))
    teacher = unit(rng.standard_normal(3))
    return Toy(X, np.sign(X @ teacher), teacher)


def toy_errors(machines: ArrayLike, teacher: Array, rng: np.random.Generator) -> Array:
    """Errors in per cent of vectors, one per row, on fresh points labelled by the teacher."""
    X = rng.uniform(-1, 1, (TEST_POINTS, 3))
    return 100 * np.mean((X @ np.transpose(machines) > 0) != (X @ teacher > 0)[:, None], axis=0)


class Polygon:
    """A version space on the sphere: a polygon of great circles.

    Parameters
    ----------
    normals : ndarray of shape (m, 3)
        Inward unit normals of walls, at least three that span the space.

    Attributes
    ----------
    normals : ndarray of shape (m, 3)
    ball_centre : ndarray of shape (3,)
        Of the largest circle inside.
    walls : ndarray of int
        Those that bound it, in order around it.
    corners : ndarray of shape (n, 3)
        Corner k is where walls k and k + 1 meet.
    """

    def __init__(self, normals: Array) -> None:
        self.normals = normals
        self.ball_centre = max_margin(normals)
        self.walls = bounding_walls(normals, self.ball_centre)
        self.corners = corners(normals[self.walls])

    def edges(self) -> Array:
        """Angles that the edges subtend, edge k on wall k."""
        cosines = np.sum(self.corners * np.roll(self.corners, 1, axis=0), axis=1)
        return np.arccos(np.clip(cosines, -1, 1))

    def centre(self) -> Array:
        """Centre of mass: along the sum of inward normals, each times the angle of its edge."""
        return unit(self.edges() @ self.normals[self.walls])

    def area(self) -> float:
        """Area after Girard: what the angles exceed those of a plane polygon by."""
        normals = self.normals[self.walls]
        cosines = np.sum(normals * np.roll(normals, 1, axis=0), axis=1)
        angles = np.pi - np.arccos(np.clip(cosines, -1, 1))
        return float(np.sum(angles) - (len(angles) - 2) * np.pi)

    def radius(self) -> float:
        """Angular radius of the largest circle inside."""
        return float(np.arcsin(np.min(self.normals @ self.ball_centre)))

    def elongation(self) -> float:
        """Largest angle between two corners as a share of the diameter of the circle."""
        cosines = np.clip(self.corners @ self.corners.T, -1, 1)
        return float(np.max(np.arccos(cosines)) / (2 * self.radius()))


def space_positions(X: Array, outputs: ArrayLike) -> Array:
    """Positions on the sphere of vectors known by their outputs at the points, one per row."""
    return unit(np.linalg.lstsq(X, np.transpose(outputs), rcond=None)[0].T)
