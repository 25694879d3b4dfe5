"""R&M figure 18.3: the centre of the largest circle inside a polygon, and its centre of mass."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.displays.style import BLACK, BLUE, GREEN, LABEL_SIZE, VERMILION, label_axes
from bayespoint.papers.reproduction import polygons
from bayespoint.papers.reproduction.item import ERRORS, Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.tools import bare_axes, stderr

DIRECTIONS = 180

# Corners of a random polygon are among so many points in a disc; then it is stretched.
POINTS = 12
STRETCHES = (1, 2, 4, 8)

# From here on a polygon counts as strongly elongated.
STRONG = 4

# "Definitely better" must hold for this share of polygons.
DEFINITELY = 0.9

# Polygons that one process does at a time.
BATCH = 25

CENTRES = ("circle", "ellipse", "mass")
LABELS = {"circle": "largest circle", "ellipse": "largest ellipse", "mass": "centre of mass"}
STYLES = {
    "circle": {"color": VERMILION, "marker": "o", "linestyle": "--"},
    "ellipse": {"color": GREEN, "marker": "s", "linestyle": "-."},
    "mass": {"color": BLACK, "marker": "X", "linestyle": "-"},
}


def measure(run: Run) -> Data:
    """Rate the centres of the polygon in the picture and of many random ones."""
    angles = polygons.directions(DIRECTIONS)
    n = run.size(1000, 50)
    jobs = [(k, start) for k in range(len(STRETCHES)) for start in range(0, n, BATCH)]
    cases = [(run.entropy(*job), STRETCHES[job[0]], BATCH) for job in jobs]
    rms, distance = np.transpose(run.map(rate_random, cases), (1, 0, 2, 3))
    rms, distance = (x.reshape(len(STRETCHES), n, len(CENTRES)) for x in (rms, distance))
    circle, radius = polygons.largest_circle(polygons.POLYGON)
    ellipse, matrix = polygons.largest_ellipse(polygons.POLYGON)
    shown = rate(polygons.POLYGON, angles)
    return {
        "polygon": polygons.POLYGON, "circle": circle, "radius": radius, "ellipse": ellipse,
        "matrix": matrix, "mass": polygons.centroid(polygons.POLYGON),
        "bayes": polygons.bayes_point(polygons.POLYGON, angles),
        "shown_rms": shown[0], "shown_distance": shown[1],
        "stretches": STRETCHES, "n": n,
        "rms": np.mean(rms, axis=1), "rms_error": stderr(rms, axis=1),
        "distance": np.mean(distance, axis=1),
        "mass_over_circle": duel(rms, "mass", "circle"),
        "mass_nearer_than_circle": duel(distance, "mass", "circle"),
        "ellipse_over_circle": duel(rms, "ellipse", "circle"),
        "mass_over_ellipse": duel(rms, "mass", "ellipse"),
    }  # fmt: skip


def rate_random(seed: list[int], stretch: float, n: int) -> Array:
    """Rate the centres of ``n`` random polygons; shape (2, n, 3)."""
    rng, angles = np.random.default_rng(seed), polygons.directions(DIRECTIONS)
    shapes = [polygons.random_polygon(rng, POINTS, stretch) for _ in range(n)]
    return np.transpose([rate(shape, angles) for shape in shapes], (1, 0, 2))


def rate(shape: Array, angles: Array) -> tuple[list[float], Array]:
    """Return root mean square area differences and distances to the Bayes point of all centres."""
    centres = np.array(
        [
            polygons.largest_circle(shape)[0],
            polygons.largest_ellipse(shape)[0],
            polygons.centroid(shape),
        ]
    )
    rms = [np.sqrt(polygons.mean_square(shape, centre, angles)) for centre in centres]
    off = np.linalg.norm(centres - polygons.bayes_point(shape, angles), axis=1)
    return rms, off / polygons.diameter(shape)


def duel(values: Array, first: str, second: str) -> Array:
    """Return, for each stretch, how often the first centre is better, and by how much on average.

    As a list of (share, its standard error, mean difference, its standard error).
    """
    difference = values[:, :, CENTRES.index(second)] - values[:, :, CENTRES.index(first)]
    wins = difference > 0
    columns = wins.mean(axis=1), stderr(wins, axis=1), difference.mean(axis=1)
    return np.column_stack([*columns, stderr(difference, axis=1)])


def compare(data: Data) -> list[Row]:
    """Compare centre of mass, circle and ellipse, in elongated polygons."""
    strong = data["stretches"].index(STRONG)
    rms, off = (
        dict(zip(CENTRES, data[key], strict=True)) for key in ("shown_rms", "shown_distance")
    )
    mass, near, ellipse = (
        data[key][strong]
        for key in ("mass_over_circle", "mass_nearer_than_circle", "ellipse_over_circle")
    )
    return [
        Claim(
            "in the polygon of the picture, the centre of mass is nearer to the Bayes point",
            off["mass"] < off["circle"] and rms["mass"] < rms["circle"],
            f"{100 * off['mass']:.1f} % of the diameter away, the circle's centre "
            f"{100 * off['circle']:.1f} %; rms difference of areas {100 * rms['mass']:.1f} % and "
            f"{100 * rms['circle']:.1f} %",
        ),
        Claim(
            "for strongly elongated polygons it is definitely better (in "
            f"{100 * DEFINITELY:.0f} % of them or more)",
            mass[0] - ERRORS * mass[1] > DEFINITELY and near[0] - ERRORS * near[1] > DEFINITELY,
            f"stretched by {STRONG}: smaller rms difference of areas in {_share(mass)}, nearer to "
            f"the Bayes point in {_share(near)} of {data['n']} polygons",
        ),
        Claim(
            "the centre of the largest ellipse is better than that of the circle (mean rms "
            "difference of areas)",
            ellipse[2] > ERRORS * ellipse[3],
            f"stretched by {STRONG}: smaller by {100 * ellipse[2]:.2f} ± {100 * ellipse[3]:.2f} "
            f"points, in {_share(ellipse)} of polygons",
        ),
    ]


def _share(row: Sequence[float]) -> str:
    return f"{100 * row[0]:.1f} ± {100 * row[1]:.1f} %"


def draw(data: Data, figure: Any) -> None:
    """Draw the polygon with its centres, and how good they are by elongation."""
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.5, 1]})
    bare_axes(left)
    left.fill(*np.transpose(data["polygon"]), facecolor="0.95", edgecolor="black", linewidth=2)
    circle = polygons.normals(np.linspace(0, 2 * np.pi, 200))
    outlines = {
        "circle": np.array(data["circle"]) + data["radius"] * circle,
        "ellipse": np.array(data["ellipse"]) + circle @ np.transpose(data["matrix"]),
    }
    for name, outline in outlines.items():
        style = {key: STYLES[name][key] for key in ("color", "linestyle")}
        left.plot(*outline.T, linewidth=2, **style)
    for name in CENTRES:
        look = {key: STYLES[name][key] for key in ("color", "marker")}
        left.plot(*data[name], **look, markersize=12, markeredgecolor="white", zorder=3)
    left.plot(
        *data["bayes"], linestyle="none", marker="*", markersize=24, color=BLUE, zorder=2,
        label="Bayes point",
    )  # fmt: skip
    left.legend(loc="upper right", bbox_to_anchor=(1.0, 0.22), frameon=False, fontsize=LABEL_SIZE)
    draw_curves(data, right)


def draw_curves(data: Data, axes: Any) -> None:
    """Draw the mean rms difference of areas against the stretch."""
    rms, errors = 100 * np.array(data["rms"]), 100 * np.array(data["rms_error"])
    stretches = data["stretches"]
    for k, name in enumerate(CENTRES):
        axes.errorbar(
            stretches, rms[:, k], errors[:, k], label=LABELS[name], linewidth=2, markersize=9,
            capsize=4, **STYLES[name],
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(stretches, [str(stretch) for stretch in stretches])
    axes.minorticks_off()
    axes.set_ylim(0, None)
    label_axes(axes, "stretch of random polygons", "rms difference of\nareas (% of area)")
    axes.legend(frameon=False)


def thoughts(data: Data) -> str:
    """Return what we make of it, with the numbers of the run."""
    circle, ellipse, mass = 100 * np.array(data["rms"]).T
    rounds = round(data["mass_over_circle"][0][0] * data["n"])
    return f"""The centre of mass beats that of the circle in round polygons, too ({rounds} of
{data["n"]}), and the gap grows with elongation: the root mean square difference of areas of the
circle's centre rises from {circle[0]:.1f} to {circle[-1]:.1f} %, that of the centre of mass stays
at {mass.min():.1f} to {mass.max():.2f} %, that of the ellipse at {ellipse.min():.1f} to
{ellipse.max():.1f} %. The circle touches few walls and can be anywhere along a long strip, while
centre of mass and ellipse move along with any linear map."""


ITEM = Item(
    paper="RM",
    place="figure 18.3",
    title="Centre of the largest circle and centre of mass",
    then="""The Bayes point is hard to compute. One may take the centre of the largest circle
inside the polygon instead, which is what a maximal margin amounts to, or better that of the
largest ellipse. For strongly elongated polygons the centre of mass is definitely better. The
figure shows circle and centre of mass in one polygon.""",
    now="""All three centres in our polygon and in random ones: hulls of 12 points drawn from a
disc, stretched along one axis by 1, 2, 4 and 8, 1000 of each. A centre is rated by what the Bayes
point minimises: the root mean square, over 180 directions, of the difference of areas beside a
line through it. Before the run we took "strongly elongated" to mean stretched by 4, and
"definitely" to mean 90 % of polygons.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Left: a polygon, its largest circle at the blunt end, its largest ellipse and centre of "
    "mass near the Bayes point. Right: the difference of areas of the circle's centre grows with "
    "elongation, those of ellipse and centre of mass stay small.",
    finding="The centre of mass is far nearer to the Bayes point than the centre of the "
    "largest circle, most of all in elongated polygons.",
    source="synthetic: random polygons; theirs is not given",
    keys={
        "polygon": "corners",
        "circle": "centre of the largest circle",
        "radius": "its radius",
        "ellipse": "centre of the largest ellipse",
        "matrix": "its axes",
        "mass": "centre of mass",
        "bayes": "Bayes point",
        "shown_rms": "root mean square differences of areas of circle, ellipse and mass in "
        "that polygon",
        "shown_distance": "their distances to the Bayes point, in diameters of the polygon",
        "stretches": "factors by which random polygons are stretched along one axis",
        "n": "random polygons for each stretch",
        "rms": "mean root mean square differences, by stretch and centre (circle, ellipse, mass)",
        "rms_error": "their standard errors",
        "distance": "mean distances to the Bayes point",
        "mass_over_circle": "by stretch: how often the centre of mass is better than the circle's, "
        "and by how much, each with its standard error",
        "mass_nearer_than_circle": "the same for distances",
        "ellipse_over_circle": "ellipse against circle",
        "mass_over_ellipse": "mass against ellipse",
    },
    thoughts=thoughts,
    size=(11.0, 4.2),
)
