"""Convex polygons in the plane: areas, lines that halve them, centres, billiards (R&M 18.2).

A polygon is an array of shape (n, 2), its corners in anticlockwise order. A line is given by the
angle of its unit normal and its offset: the points x with ⟨normal, x⟩ = offset.
"""

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.spatial import ConvexHull, QhullError

from bayespoint._support.types import Array

# R&M do not give their polygon: this one is irregular, and about three times as long as wide.
POLYGON = np.array(
    [[0.0, 1.1], [0.5, 0.2], [1.7, 0.0], [4.1, 0.7], [5.2, 1.35], [3.6, 1.85], [1.1, 1.9]]
)
TRIANGLE = np.array([[0.0, 0.0], [5.0, 0.4], [1.2, 2.0]])

# Halvings of an interval that exhaust double precision.
BISECTIONS = 60

# Gauss-Newton steps to the Bayes point, and the step, per diameter, after which it is reached.
STEPS = 50
SMALL_STEP = 1e-12


def cross(a: Array, b: Array) -> Array:
    """Return the cross product of plane vectors."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def normals(angles: Array) -> Array:
    """Return unit vectors at these angles."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def directions(n: int) -> Array:
    """Return ``n`` angles of normals that cover all lines evenly: half a turn."""
    return np.pi * np.arange(n) / n


def area(polygon: Array) -> float:
    """Return the area."""
    return 0.5 * float(np.sum(cross(polygon, np.roll(polygon, -1, axis=0))))


def centroid(polygon: Array) -> Array:
    """Return the centre of mass."""
    after = np.roll(polygon, -1, axis=0)
    weights = cross(polygon, after)
    return weights @ (polygon + after) / (3 * np.sum(weights))


def diameter(polygon: Array) -> float:
    """Return the largest distance of two corners."""
    return float(np.max(np.linalg.norm(polygon[:, None] - polygon, axis=-1)))


def walls(polygon: Array) -> tuple[Array, Array]:
    """Return unit normals that point inwards and offsets: inside, ⟨normal, x⟩ >= offset."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    inward = np.column_stack([-edges[:, 1], edges[:, 0]])
    inward /= np.linalg.norm(inward, axis=1)[:, None]
    return inward, np.sum(inward * polygon, axis=1)


def clip(polygon: Array, normal: Array, offset: float) -> Array:
    """Return the part of a polygon with ⟨normal, x⟩ >= offset."""
    corners = []
    heights = polygon @ normal - offset
    for k, here in enumerate(heights):
        before = heights[k - 1]
        if here * before < 0:
            corners.append(
                polygon[k - 1] + (polygon[k] - polygon[k - 1]) * before / (before - here)
            )
        if here >= 0:
            corners.append(polygon[k])
    return np.reshape(corners, (-1, 2))


def area_above(polygon: Array, points: Array, angles: Array) -> Array:
    """Return the area on the normal's side of lines through points, one per line.

    Seen from a point of the line, the cut spans no area: what counts are the shares of the edges
    that lie on that side.
    """
    from_point = polygon - points[:, None]
    after = np.roll(from_point, -1, axis=1)
    heights = np.sum(from_point * normals(angles)[:, None], axis=-1)
    heights_after = np.roll(heights, -1, axis=1)
    rise = heights_after - heights
    level = rise == 0
    share = np.maximum(heights_after, 0) - np.maximum(heights, 0)
    share = np.where(level, heights > 0, share / np.where(level, 1.0, rise))
    return 0.5 * np.sum(cross(from_point, after) * share, axis=1)


def halving_offsets(polygon: Array, angles: Array) -> Array:
    """Return the offsets of the Bayes lines: those that halve the area."""
    towards = normals(angles)
    heights = towards @ polygon.T
    low, high = heights.min(axis=1), heights.max(axis=1)
    half = 0.5 * area(polygon)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        above = area_above(polygon, middle[:, None] * towards, angles) > half
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return 0.5 * (low + high)


def chords(polygon: Array, points: Array, angles: Array) -> Array:
    """Return both ends of the lines through points within the polygon, shape (n, 2, 2)."""
    along = normals(angles + np.pi / 2)
    inward, offsets = walls(polygon)
    speed = along @ inward.T
    with np.errstate(divide="ignore"):
        time = (offsets - points @ inward.T) / speed
    begin = np.max(np.where(speed > 0, time, -np.inf), axis=1)
    end = np.min(np.where(speed < 0, time, np.inf), axis=1)
    return points[:, None] + np.stack([begin, end], axis=1)[:, :, None] * along[:, None]


def area_differences(polygon: Array, point: Array, angles: Array) -> Array:
    """Return the differences of the areas on both sides of lines through a point, per area."""
    points = np.broadcast_to(point, (len(angles), 2))
    return 2 * area_above(polygon, points, angles) / area(polygon) - 1


def mean_square(polygon: Array, point: Array, angles: Array) -> float:
    """Return the direction-averaged squared difference of areas, per squared area."""
    return float(np.mean(area_differences(polygon, point, angles) ** 2))


def bayes_point(polygon: Array, angles: Array) -> Array:
    """Return the point of least ``mean_square``, by Gauss and Newton from the centre of mass."""
    point, towards = centroid(polygon), normals(angles)
    for _ in range(STEPS):
        # When a line moves along its normal, the area above shrinks by the length of the chord.
        ends = chords(polygon, np.broadcast_to(point, towards.shape), angles)
        lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
        slopes = -2 * lengths[:, None] * towards / area(polygon)
        step = np.linalg.lstsq(slopes, area_differences(polygon, point, angles))[0]
        point = point - step
        if np.linalg.norm(step) < SMALL_STEP * diameter(polygon):
            break
    return point


def least_worst(polygon: Array, angles: Array) -> float:
    """Return the least value, over all points, of the largest difference of areas, per area."""

    def worst(point: Array) -> float:
        return float(np.max(np.abs(area_differences(polygon, point, angles))))

    start = bayes_point(polygon, angles)
    options = {"xatol": SMALL_STEP, "fatol": SMALL_STEP, "maxiter": 200}
    return float(minimize(worst, start, method="Nelder-Mead", options=options).fun)


def nearest_to_lines(angles: Array, offsets: Array) -> tuple[Array, float]:
    """Return the point whose largest distance to these lines is least, and that distance."""
    towards = normals(angles)
    ones = np.ones((len(angles), 1))
    bounds = np.vstack([np.hstack([towards, -ones]), np.hstack([-towards, -ones])])
    limits = np.concatenate([offsets, -offsets])
    found = linprog([0, 0, 1], A_ub=bounds, b_ub=limits, bounds=[(None, None)] * 2 + [(0, None)])
    return found.x[:2], float(found.x[2])


def largest_circle(polygon: Array) -> tuple[Array, float]:
    """Return centre and radius of the largest circle inside: the Chebyshev centre."""
    inward, offsets = walls(polygon)
    bounds = np.column_stack([-inward, np.ones(len(inward))])
    found = linprog([0, 0, -1], A_ub=bounds, b_ub=-offsets, bounds=[(None, None)] * 2 + [(0, None)])
    return found.x[:2], float(found.x[2])


def largest_ellipse(polygon: Array) -> tuple[Array, Array]:
    """Return centre c and matrix L of the largest ellipse inside: c + L u for unit vectors u.

    L is triangular with a positive diagonal; its logarithmic determinant is concave in it, and the
    distance to a wall, ⟨n, c⟩ - offset - |Lᵀ n|, is concave in both.
    """
    centre, radius = largest_circle(polygon)
    inward, offsets = walls(polygon)

    def slack(x: Array) -> Array:
        reach = np.hypot(x[2] * inward[:, 0] + x[3] * inward[:, 1], x[4] * inward[:, 1])
        return inward @ x[:2] - offsets - reach

    found = minimize(
        lambda x: -np.log(x[2]) - np.log(x[4]), [*centre, 0.99 * radius, 0.0, 0.99 * radius],
        jac=lambda x: np.array([0, 0, -1 / x[2], 0, -1 / x[4]]), method="SLSQP",
        constraints={"type": "ineq", "fun": slack}, options={"maxiter": 300, "ftol": 1e-12},
        bounds=[(None, None)] * 2 + [(1e-3 * radius, None), (None, None), (1e-3 * radius, None)],
    )  # fmt: skip
    x = found.x
    return x[:2], np.array([[x[2], 0.0], [x[3], x[4]]])


def random_polygon(rng: np.random.Generator, n_points: int, stretch: float = 1.0) -> Array:
    """Return the convex hull of points drawn from the unit disc, stretched along the first axis."""
    while True:
        radius, angle = np.sqrt(rng.random(n_points)), 2 * np.pi * rng.random(n_points)
        points = radius[:, None] * normals(angle)
        try:
            hull = points[ConvexHull(points).vertices]
        except QhullError:
            continue
        return hull * [stretch, 1.0]


def fly(polygon: Array, points: Array, velocities: Array, n_bounces: int) -> Array:
    """Return where billiard balls bounce, shape (n_bounces + 1, n_balls, 2), with the start first.

    Parameters
    ----------
    polygon : ndarray of shape (n, 2)
    points, velocities : ndarray of shape (n_balls, 2)
        Starts inside the polygon, and unit vectors.
    n_bounces : int
    """
    inward, offsets = walls(polygon)
    way = np.empty((n_bounces + 1, *np.shape(points)))
    way[0] = points
    velocities = np.array(velocities, dtype=float)
    balls = np.arange(len(velocities))
    for k in range(n_bounces):
        speed = velocities @ inward.T
        with np.errstate(divide="ignore", invalid="ignore"):
            # Rounding may leave a ball just behind the wall that it leaves.
            time = np.where(speed < 0, (offsets - way[k] @ inward.T) / speed, np.inf)
        wall = np.argmin(time, axis=1)
        way[k + 1] = way[k] + time[balls, wall][:, None] * velocities
        velocities -= 2 * speed[balls, wall][:, None] * inward[wall]
        velocities /= np.linalg.norm(velocities, axis=1)[:, None]
    return way


def random_chords(rng: np.random.Generator, polygon: Array, n: int) -> Array:
    """Return ends of random chords, shape (n, 2, 2): those of a ball that forgets all it did.

    It leaves a wall, uniform on the boundary, by Lambert's cosine law, as an ergodic billiard does
    on average; the points on such chords cover the polygon evenly.
    """
    edges = np.roll(polygon, -1, axis=0) - polygon
    lengths = np.linalg.norm(edges, axis=1)
    wall = rng.choice(len(polygon), size=n, p=lengths / lengths.sum())
    begin = polygon[wall] + rng.random((n, 1)) * edges[wall]
    sine = 2 * rng.random(n) - 1
    inward, offsets = walls(polygon)
    tangent = edges[wall] / lengths[wall][:, None]
    velocity = sine[:, None] * tangent + np.sqrt(1 - sine**2)[:, None] * inward[wall]
    speed = velocity @ inward.T
    speed[np.arange(n), wall] = 1.0  # it does not return to the wall that it leaves
    with np.errstate(divide="ignore"):
        time = np.where(speed < 0, (offsets - begin @ inward.T) / speed, np.inf)
    return np.stack([begin, begin + np.min(time, axis=1)[:, None] * velocity], axis=1)


class Cells:
    """A polygon cut into cells of equal area: upright strips, each cut level.

    Parameters
    ----------
    polygon : ndarray of shape (n, 2)
    n_strips : int
        Strips, and cells of each strip.
    """

    def __init__(self, polygon: Array, n_strips: int) -> None:
        self.n_strips = n_strips
        self.strips = equal_cuts(polygon, np.array([1.0, 0.0]), n_strips)
        self.levels = []
        rest = polygon
        for k in range(n_strips):
            strip = rest
            if k < n_strips - 1:
                strip = clip(rest, np.array([-1.0, 0.0]), -self.strips[k])
                rest = clip(rest, np.array([1.0, 0.0]), self.strips[k])
            self.levels.append(equal_cuts(strip, np.array([0.0, 1.0]), n_strips))

    def find(self, points: Array) -> Array:
        """Return the number of the cell in which each point lies."""
        strip = np.searchsorted(self.strips, points[:, 0])
        level = np.sum(points[:, 1, None] > np.array(self.levels)[strip], axis=1)
        return strip * self.n_strips + level


def equal_cuts(polygon: Array, normal: Array, n: int) -> Array:
    """Return the offsets of lines that cut a polygon into ``n`` parts of equal area."""
    heights = polygon @ normal
    low, high = np.full(n - 1, heights.min()), np.full(n - 1, heights.max())
    wanted = area(polygon) * (1 - np.arange(1, n) / n)
    angles = np.full(n - 1, np.arctan2(normal[1], normal[0]))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        above = area_above(polygon, middle[:, None] * normal, angles) > wanted
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return 0.5 * (low + high)
