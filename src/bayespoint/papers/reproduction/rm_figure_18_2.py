"""R&M figure 18.2: the Bayes lines of all directions do not meet in one point."""

from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.displays.style import BLACK, BLUE, LABEL_SIZE, VERMILION
from bayespoint.papers.reproduction import polygons
from bayespoint.papers.reproduction.item import Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.tools import bare_axes

# Lines in the picture.
DRAWN = 60

# Half the height of what is enlarged, per width of the polygon.
ENLARGED = 0.035
ENDS = np.array([-1, 1])

# What solvers leave of a distance (per diameter) or a difference (per area) that is zero.
ROUNDING = 1e-6

# A hexagon that a half turn maps onto itself: there, all Bayes lines meet in its centre.
SYMMETRIC = np.array([[2.0, -0.3], [1.4, 0.8], [-0.9, 1.1], [-2.0, 0.3], [-1.4, -0.8], [0.9, -1.1]])

SHAPES = {
    "polygon": polygons.POLYGON,
    "triangle": polygons.TRIANGLE,
    "symmetric hexagon": SYMMETRIC,
}


def measure(run: Run) -> Data:
    """Measure how far the lines are from meeting, in three polygons."""
    angles = polygons.directions(run.size(3600, 360))
    shapes = {name: meeting(shape, angles) for name, shape in SHAPES.items()}
    return {"n_directions": len(angles), "shapes": shapes}


def meeting(shape: Array, angles: Array) -> Data:
    """Return how far the Bayes lines of a polygon are from meeting in one point.

    ``miss`` is the least distance, over all points, of a point to the line farthest from it;
    ``least_worst`` is the same for the difference of the areas beside a line through the point.
    """
    offsets = polygons.halving_offsets(shape, angles)
    bayes = polygons.bayes_point(shape, angles)
    centre = polygons.centroid(shape)
    every = np.arange(0, len(angles), len(angles) // DRAWN)
    base = offsets[every, None] * polygons.normals(angles[every])
    span = polygons.diameter(shape)
    return {
        "corners": shape,
        "lines": np.round(polygons.chords(shape, base, angles[every]), 4),
        "miss": polygons.nearest_to_lines(angles, offsets)[1] / span,
        "least_worst": polygons.least_worst(shape, angles),
        "bayes": bayes,
        "centre": centre,
        "apart": np.linalg.norm(bayes - centre) / span,
        "bayes_rms": np.sqrt(polygons.mean_square(shape, bayes, angles)),
        "centre_rms": np.sqrt(polygons.mean_square(shape, centre, angles)),
    }


def compare(data: Data) -> list[Row]:
    """Check both statements; a symmetric hexagon shows that they can fail."""
    shown, symmetric = data["shapes"]["polygon"], data["shapes"]["symmetric hexagon"]
    return [
        Claim(
            "the Bayes lines of all directions do not meet in one point",
            shown["miss"] > ROUNDING,
            f"each point is {100 * shown['miss']:.2f} % of the diameter or more away from one of "
            f"{data['n_directions']} lines ({100 * symmetric['miss']:.1e} % in a hexagon with a "
            "centre of symmetry, where they meet)",
        ),
        Claim(
            "whichever point is chosen, some line through it does not halve the area",
            shown["least_worst"] > ROUNDING,
            f"at the best point areas still differ by up to {100 * shown['least_worst']:.1f} % "
            f"({100 * symmetric['least_worst']:.1e} % in that hexagon)",
        ),
    ]


def draw(data: Data, figure: Any) -> None:
    """Draw polygon and triangle with their lines, and what is near the Bayes points enlarged."""
    names = ("polygon", "triangle")
    panels = figure.subplots(2, 2, gridspec_kw={"height_ratios": [1, 1.1]})
    for (whole, near), name in zip(panels.T, names, strict=True):
        shape = data["shapes"][name]
        corners, centre = np.array(shape["corners"]), np.array(shape["bayes"])
        half = ENLARGED * np.ptp(corners[:, 0]) * np.array([2, 1])
        bare_axes(whole).set_title(
            f"{name.capitalize()} and {DRAWN} Bayes lines", fontsize=LABEL_SIZE
        )
        whole.fill(*corners.T, facecolor="none", edgecolor="black", linewidth=2)
        for axes, width in ((whole, 0.8), (near, 1.2)):
            for line in np.array(shape["lines"]):
                axes.plot(*line.T, color=BLUE, linewidth=width, alpha=0.8)
        marks = {"linestyle": "none", "markeredgecolor": "white", "markersize": 15, "zorder": 5}
        near.plot(*centre, marker="o", color=VERMILION, label="Bayes point", **marks)
        near.plot(*shape["centre"], marker="X", color=BLACK, label="centre of mass", **marks)
        near.set_aspect("equal")
        near.set(
            xlim=centre[0] + half[0] * ENDS, ylim=centre[1] + half[1] * ENDS, xticks=[], yticks=[]
        )
        near.spines[:].set_visible(True)
        whole.indicate_inset_zoom(near, edgecolor="black", alpha=1)
    handles = panels[1, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=LABEL_SIZE)


ITEM = Item(
    paper="RM",
    place="figure 18.2",
    title="Bayes lines of all directions do not meet in one point",
    then="""The figure draws the Bayes lines of a convex polygon in all directions. Unlike what
triangles lead one to expect, they do not meet in one point: whatever point is chosen, some lines
through it do not halve the area. So the Bayes point is defined as the one for which the squared
difference of areas, averaged over directions, is least.""",
    now="""Bayes lines of 3600 directions. A linear programme finds the point whose largest
distance to all lines is least; if they met, that distance would be zero. The same for a triangle,
which the text mentions, and for a hexagon with a centre of symmetry, where the lines must meet.
The Bayes point is found by Gauss-Newton steps.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Sixty lines that halve a polygon, and a triangle: they cross each other in a small region "
    "that curved lines bound; centre of mass and Bayes point lie in it, close to each other.",
    finding="Bayes lines do not meet in one point, as the chapter says, and not even in "
    "a triangle.",
    source="synthetic: a polygon, a triangle and a hexagon; their polygon is not given",
    keys={
        "n_directions": "directions",
        "shapes": "for each shape: `corners`, some `lines`, the least distance of a point "
        "to the farthest line (`miss`) and least largest difference of areas "
        "(`least_worst`), Bayes point and centre of mass (`bayes`, `centre`), "
        "how far `apart` they are, and their root mean square differences of "
        "areas; lengths are shares of the diameter",
    },
    thoughts="""The lines do not meet in a triangle either: only its three medians do, in the
centre of mass. A line parallel to a side halves the triangle at 1/√2 of the height, seen from the
opposite corner, while the centre of mass is at 2/3: there the parts are 4/9 and 5/9, the worst
case, and no point of a triangle does better than 11.1 %. In our polygon the best point still has a
line with a difference of 4.5 %. The Bayes point is close to the centre of mass: 0.8 % of the
diameter away in the polygon, 1.3 % in the triangle; the root mean square difference of areas is
3.1 % at the one and 3.6 % at the other in the polygon, 7.7 % and 8.5 % in the triangle.""",
    size=(11.0, 4.8),
)
