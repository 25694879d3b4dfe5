"""A posterior over three dimensions, drawn on the sphere (after JMLR figure 6, KGS figure 1)."""

from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.displays.geometry import View, arc, bounding_walls, corners, outline, tangents, unit
from bayespoint.displays.style import BESIDE, BLUE, LABEL_SIZE, SKY, TEXT_SIZE, VERMILION
from bayespoint.space.posterior import Posterior

# Version space takes up this share of the width; in a square, a disc leaves room for the globe.
SHARE_OF_WIDTH = 0.74
GLOBE_SHARE = 0.25

# Where the picture would be wider than this share of the half sphere, it shows all of it.
WHOLE = 0.6

# With label noise some draws lie far out: the picture holds this share of them, side to side.
SHARE_OF_DRAWS = 0.98

# A position this near to a wall, an angle, is on it.
ON_WALL = 1e-6

# Pixels a side of the shading by posterior density.
PIXELS = 600

# Degrees that the scale may be long; at most this share of the width.
SCALES = [step * 10.0**k for k in range(-6, 1) for step in (1, 2, 5)] + [10.0, 20.0, 30.0]
SCALE_SHARE = 0.25

# Where the picture is narrower than this, a dot on the globe shows where it is.
SMALL = 0.3

# More walls than these are drawn thinner.
MANY = 40

# Front to back.
MARKS, DOTS, PATH, EDGES, WALLS, REGION = 6, 5, 4, 3, 2, 1

BAYES_POINTS: dict[str, dict[str, Any]] = {
    "kicks": {"marker": "D", "markersize": 15, "markerfacecolor": "white", "markeredgewidth": 2.2},
    "draws": {"marker": "+", "markersize": 14, "markeredgewidth": 2.6},
}


class Sphere:
    """What there is to draw: unit vectors in three dimensions, and the view of them.

    Parameters
    ----------
    post : Posterior
        Of rank 3.

    Attributes
    ----------
    normals : ndarray of shape (m, 3)
        Of the walls; the right side of wall i is where ``normals[i] @ w > 0``.
    draws : ndarray of shape (n_draws, 3)
    bayes_points : dict
        From source, "kicks" or "draws", to ndarray of shape (3,).
    path : ndarray of shape (n, 3)
    bounding : ndarray of int
        Walls that bound version space; none with label noise.
    outline : ndarray of shape (n, 3) or None
        Closed boundary of version space; None with label noise.
    """

    def __init__(self, post: Posterior) -> None:
        space = post.space
        noise = np.broadcast_to(np.asarray(post.label_noise, dtype=np.float64), len(space))
        with np.errstate(divide="ignore"):
            self._log_right, self._log_wrong = np.log1p(-noise), np.log(noise)
        points = post.coordinates(space.outputs(np.eye(len(space))))
        self.normals = unit(space.y[:, None] * points)
        self.draws = unit(post.coordinates(post.outputs))
        sources = ["kicks", "draws"] if "kicks" in post.centres else ["draws"]
        coef = np.array([post.bayes_point(source) for source in sources])
        centres = unit(post.coordinates(space.outputs(coef)))
        self.bayes_points = dict(zip(sources, centres, strict=True))
        self.path = np.zeros((0, 3))
        if len(post.info.get("path", ())):
            self.path = unit(post.coordinates(post.info["path"]))
        self.bounding = np.zeros(0, dtype=np.int64)
        self.outline: Array | None = None
        if not np.any(noise):
            self.bounding = bounding_walls(self.normals, unit(self.draws.mean(axis=0)))
            self.outline = outline(corners(self.normals[self.bounding]))
        # The mean of the draws is inside version space always; kicks may miss a narrow one.
        front = self.bayes_points["draws"]
        self.frame = np.vstack([tangents(front, self.draws), front])
        self.view = View(self.frame)

    def project(self, points: Array) -> Array:
        """Positions in the picture of vectors of any length."""
        return self.view.project(unit(points))

    def density(self, points: Array) -> Array:
        """Posterior density at points (..., 3), as a share of the largest among them."""
        right = points @ self.normals.T > 0
        logs = np.where(right, self._log_right, self._log_wrong).sum(axis=-1)
        logs[np.isnan(points[..., 0])] = -np.inf
        return np.exp(logs - logs.max())

    def way(self, n_path: int) -> Array:
        """Points along the path from wall to wall, (n, 3), NaN where it is not known.

        A wall is not met twice in a row: there the direction was refreshed in between.
        """
        path = self.path[:n_path]
        near = np.abs(path @ self.normals.T) < ON_WALL
        parts = [path[:1]]
        for k in range(1, len(path)):
            unknown = np.any(near[k - 1] & near[k])
            gap = np.vstack([np.full(3, np.nan), path[k]])
            parts.append(gap if unknown else arc(path[k - 1], path[k])[1:])
        return np.concatenate(parts)

    def box(self) -> tuple[Array, bool]:
        """Lower left and upper right corner of the picture, and whether it shows only a part."""
        if self.outline is not None:
            flat = self.view.project(self.outline)
            low, high = flat.min(axis=0), flat.max(axis=0)
        else:
            tail = (1 - SHARE_OF_DRAWS) / 2
            low, high = np.nanquantile(self.view.project(self.draws), [tail, 1 - tail], axis=0)
        half = np.max(high - low) / 2 / SHARE_OF_WIDTH
        if half < WHOLE * self.view.radius:
            middle = (low + high) / 2
            return np.array([middle - half, middle + half]), True
        return 1.02 * self.view.radius * np.array([[-1.0, -1.0], [1.0, 1.0]]), False


class Surface(NamedTuple):
    """What is drawn of the sphere itself."""

    region: Any
    bounding_walls: Any
    walls: Any


class Artists(NamedTuple):
    """What is drawn of a posterior."""

    surface: Surface
    path: Any
    draws: Any
    bayes_points: dict[str, Any]
    globe: Any


def draw_sphere(sphere: Sphere, ax: Any, *, n_path: int, n_dots: int, legend: bool) -> Artists:
    """Draw on ``ax``; return the artists."""
    box, zoomed = sphere.box()
    ax.set(xlim=box[:, 0], ylim=box[:, 1], aspect="equal", xticks=[], yticks=[])
    artists = Artists(
        _draw_surface(sphere, ax, sphere.view, box), _draw_path(sphere, ax, box, n_path),
        _draw_dots(sphere, ax, n_dots), _draw_bayes_points(sphere, ax, box),
        _draw_globe(sphere, ax, box) if zoomed else None,
    )  # fmt: skip
    _draw_scale(ax, box)
    ax.set_frame_on(zoomed)
    m, n_edges = len(sphere.normals), len(sphere.bounding)
    noisy = f"Posterior of {m} noisy labels"
    ax.set_title(f"Version space: {n_edges} of {m} walls bound it" if n_edges else noisy,
                 fontsize=LABEL_SIZE)  # fmt: skip
    if legend:
        _draw_legend(ax, artists.draws)
    return artists


def _draw_surface(
    sphere: Sphere, ax: Any, view: View, box: Array, thickness: float = 1.0
) -> Surface:
    """Version space or posterior density, the walls, and the rim of the half sphere."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    edge = np.isin(np.arange(len(sphere.normals)), sphere.bounding)
    thin = thickness * min(1.0, np.sqrt(MANY / len(edge)))
    circles = [view.great_circle(normal) for normal in sphere.normals]
    walls = LineCollection(
        [circle for circle, bounds in zip(circles, edge, strict=True) if not bounds],
        colors="0.68", linewidths=1.2 * thin, zorder=WALLS,
        label="other walls" if len(sphere.bounding) else "walls",
    )  # fmt: skip
    bounding = LineCollection(
        [circles[number] for number in sphere.bounding],
        colors="0.2", linewidths=2.2 * thickness, zorder=EDGES, label="walls that bound it",
    )  # fmt: skip
    rim = Circle((0, 0), view.radius, fill=False, edgecolor="0.45", linewidth=1.2, zorder=WALLS)
    ax.add_patch(rim)
    region = _draw_region(sphere, ax, view, box)
    for collection in (bounding, walls):
        if len(collection.get_segments()):
            ax.add_collection(collection, autolim=False)
    return Surface(region, bounding, walls)


def _draw_region(sphere: Sphere, ax: Any, view: View, box: Array) -> Any:
    edge = np.full((1, 2), np.nan) if sphere.outline is None else view.project(sphere.outline)
    if np.all(np.isfinite(edge)):  # and not partly behind
        return ax.fill(
            *edge.T, color=SKY, alpha=0.4, linewidth=0, zorder=REGION,
            label="version space",
        )[0]  # fmt: skip
    from matplotlib.colors import to_rgb

    pixel = (np.arange(PIXELS) + 0.5) / PIXELS
    flat = np.stack(np.meshgrid(*(box[0, k] + pixel * np.ptp(box[:, k]) for k in (0, 1))), axis=-1)
    shade = np.empty((PIXELS, PIXELS, 4))
    shade[..., :3] = to_rgb(SKY)
    hard = sphere.outline is not None
    alpha, label = (0.4, "version space") if hard else (0.8, "darker: more probable")
    shade[..., 3] = alpha * np.sqrt(sphere.density(view.lift(flat)))  # the root shows low ones, too
    ax.fill([], [], color=SKY, alpha=alpha, label=label)
    return ax.imshow(shade, extent=(*box[:, 0], *box[:, 1]), origin="lower", zorder=REGION)


def _draw_path(sphere: Sphere, ax: Any, box: Array, n_path: int) -> Any:
    if not n_path or len(sphere.path) < 2:
        return None
    flat = sphere.view.project(sphere.way(n_path))
    return ax.plot(
        *flat.T, color=VERMILION, linewidth=1.4, solid_joinstyle="round", zorder=PATH,
        label=f"path of a ball{_note(flat, box)}",
    )[0]  # fmt: skip


def _draw_dots(sphere: Sphere, ax: Any, n_dots: int) -> Any:
    if not n_dots:
        return None
    n_draws = len(sphere.draws)
    dots = sphere.draws[:: -(-n_draws // n_dots)]
    flat = sphere.view.project(dots)
    n_behind = np.count_nonzero(np.isnan(flat[:, 0]))
    label = f"{n_draws} draws" if len(dots) == n_draws else f"{len(dots)} of {n_draws} draws"
    return ax.plot(
        *flat.T, linestyle="none", marker="o", markersize=3, color=BLUE, alpha=0.7,
        markeredgewidth=0, zorder=DOTS, label=label + f" ({n_behind} behind)" * bool(n_behind),
    )[0]  # fmt: skip


def _draw_bayes_points(sphere: Sphere, ax: Any, box: Array) -> dict[str, Any]:
    marks = {}
    for source, point in sphere.bayes_points.items():
        flat = sphere.view.project(point[None])
        marks[source] = ax.plot(
            *flat.T, color="black", linestyle="none", zorder=MARKS,
            label=f"Bayes point ({source}){_note(flat, box)}", **BAYES_POINTS[source],
        )[0]  # fmt: skip
    return marks


def _note(flat: Array, box: Array) -> str:
    """What the legend says about things that do not show."""
    seen = np.any(np.all((flat > box[0]) & (flat < box[1]), axis=1))
    return "" if seen else ",\nout of view"


def _draw_scale(ax: Any, box: Array) -> None:
    from matplotlib.patheffects import withStroke

    width = box[1, 0] - box[0, 0]
    degrees = max([s for s in SCALES if np.radians(s) < SCALE_SHARE * width], default=SCALES[0])
    left, bottom = box[0] + 0.04 * width
    right = left + np.radians(degrees)
    halo = [withStroke(linewidth=5, foreground="white")]
    ax.plot([left, right], [bottom, bottom], color="black", linewidth=3, solid_capstyle="butt",
            zorder=MARKS, path_effects=halo)  # fmt: skip
    ax.text((left + right) / 2, bottom + 0.015 * width, f"{degrees:g}°", ha="center", va="bottom",
            fontsize=TEXT_SIZE, zorder=MARKS, path_effects=halo)  # fmt: skip


def _draw_globe(sphere: Sphere, ax: Any, box: Array) -> Any:
    """Where on the sphere the picture is, in the corner that is farthest from what it shows."""
    from matplotlib.patches import Circle

    shown = sphere.view.project(sphere.draws if sphere.outline is None else sphere.outline)
    shown = (shown - box[0]) / (box[1] - box[0])
    far = 1 - GLOBE_SHARE - 0.015
    corner = max(
        ((0.015, far), (far, far), (far, 0.015)),
        key=lambda c: np.nanmin(np.linalg.norm(shown - c - GLOBE_SHARE / 2, axis=1)),
    )
    globe = ax.inset_axes([*corner, GLOBE_SHARE, GLOBE_SHARE])
    globe.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal")
    globe.set_axis_off()
    globe.add_patch(Circle((0, 0), 1, color="white", zorder=0))
    whole = np.array([[-1.0, -1.0], [1.0, 1.0]])
    _draw_surface(sphere, globe, View(sphere.frame, equal_area=False), whole, thickness=0.5)
    if box[1, 0] - box[0, 0] < SMALL:
        globe.plot(0, 0, "o", markersize=7, color=SKY, markeredgecolor="0.2", zorder=MARKS)
    return globe


def _draw_legend(ax: Any, dots: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    legend = ax.legend(handles, labels, **BESIDE)
    if dots is not None:  # dots are too small to show their colour
        legend.legend_handles[handles.index(dots)].set_markersize(8)
