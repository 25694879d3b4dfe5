"""R&M figure 18.1: a convex polygon and the line of one direction that halves it."""

from typing import Any

import numpy as np

from bayespoint.displays.style import BLUE, TEXT_SIZE, VERMILION
from bayespoint.papers.reproduction import polygons
from bayespoint.papers.reproduction.item import Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.tools import bare_axes

# The direction that is drawn, in radians: one that is neither level nor upright.
SHOWN = 0.45

# Where on the line the arrow stands: beside the numbers.
ARROW = 0.2

LABEL: dict = {"facecolor": "white", "edgecolor": "none", "pad": 3}

# Difference of two areas, per area, that rounding may leave.
ROUNDING = 1e-10


def measure(run: Run) -> Data:
    """Halve the polygon in all directions; compute both areas again from the pieces."""
    shape = polygons.POLYGON
    angles = np.append(polygons.directions(run.size(3600, 360)), SHOWN)
    offsets = polygons.halving_offsets(shape, angles)
    towards = polygons.normals(angles)
    cuts = list(zip(towards, offsets, strict=True))
    upper = np.array([polygons.area(polygons.clip(shape, n, c)) for n, c in cuts])
    lower = np.array([polygons.area(polygons.clip(shape, -n, -c)) for n, c in cuts])
    ends = polygons.chords(shape, offsets[:, None] * towards, angles)
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    return {
        "polygon": shape,
        "area": polygons.area(shape),
        "n_directions": len(angles) - 1,
        "off": np.max(np.abs(upper - lower)) / polygons.area(shape),
        "lost": np.max(np.abs(upper + lower - polygons.area(shape))) / polygons.area(shape),
        "shortest": np.min(lengths),
        "normal": towards[-1],
        "offset": offsets[-1],
        "ends": ends[-1],
        "areas": [lower[-1], upper[-1]],
    }


def compare(data: Data) -> list[Row]:
    """Check that there is such a line, and one only, in every direction."""
    return [
        Claim(
            "a line in each direction divides the polygon into two parts of equal area",
            max(data["off"], data["lost"]) < ROUNDING,
            f"{data['n_directions']} directions: the areas of the two pieces differ by at most "
            f"{data['off']:.1e} of the whole",
        ),
        Claim(
            "there is one such line: it is *the* Bayes line of its direction",
            data["shortest"] > 0,
            "the area on one side falls strictly as the line moves: at the rate of the cut's "
            f"length, which is never below {data['shortest']:.2f}",
        ),
    ]


def draw(data: Data, figure: Any) -> None:
    """Draw the two halves, the line and its normal."""
    axes = bare_axes(figure.subplots())
    shape, normal, offset = np.array(data["polygon"]), np.array(data["normal"]), data["offset"]
    halves = (polygons.clip(shape, -normal, -offset), polygons.clip(shape, normal, offset))
    fills = ((BLUE, 0.35, None), (VERMILION, 0.2, "//"))
    for k, (half, (colour, alpha, hatch)) in enumerate(zip(halves, fills, strict=True)):
        axes.fill(*half.T, facecolor=colour, alpha=alpha, edgecolor="white", hatch=hatch, lw=0)
        axes.text(
            *polygons.centroid(half), f"$A_{k + 1}$ = {data['areas'][k]:.4f}", ha="center",
            va="center", fontsize=TEXT_SIZE + 3, bbox=LABEL,
        )  # fmt: skip
    axes.fill(*shape.T, facecolor="none", edgecolor="black", linewidth=2)
    begin, end = np.array(data["ends"])
    beyond = 0.1 * (end - begin)
    axes.plot(*np.array([begin - beyond, end + beyond]).T, color="black", lw=3)
    foot = begin + ARROW * (end - begin)
    style = {"arrowstyle": "-|>", "lw": 2.5, "color": "black", "mutation_scale": 22}
    axes.annotate("", foot + 0.7 * normal, foot, arrowprops=style)
    axes.text(*(foot + 0.8 * normal), "v", fontsize=18, fontweight="bold", va="center")


ITEM = Item(
    paper="RM",
    place="figure 18.1",
    title="A convex polygon, halved by its Bayes line",
    then="""The chapter explains its message in two dimensions: for a direction v there is a line
normal to it that divides a convex polygon into two parts of equal area, the Bayes line of v. The
figure shows one.""",
    now="""An irregular polygon of seven corners, about three times as long as wide. The line is
found by bisection for 3600 directions; then the polygon is cut along it, and the areas of the
pieces are computed from their corners, by another formula.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="A polygon with seven corners, cut by a slanting line into two parts of the same area; an "
    "arrow v stands on the line.",
    finding="Each direction has exactly one line that halves the polygon.",
    source="synthetic: a polygon of seven corners; theirs is not given",
    keys={
        "polygon": "corners",
        "area": "its area",
        "n_directions": "directions",
        "off": "largest difference of the two areas, as a share of the whole",
        "lost": "largest error of their sum",
        "shortest": "the shortest cut",
        "normal": "direction of the line in the picture",
        "offset": "its distance from the origin",
        "ends": "its ends",
        "areas": "areas on both sides of it",
    },
    thoughts="""The area on one side changes strictly as the line moves, so there is one such
line. For classifiers: a new input is a line across version space, and the side with the larger
area wins the vote. The Bayes line is where the vote is tied.""",
    size=(8.0, 3.6),
)
