"""JMLR figure 2: a version space in three dimensions."""

from typing import Any

import numpy as np

from bayespoint import VersionSpace, inference
from bayespoint._support.types import Array
from bayespoint.displays.geometry import View, outline, tangents, unit
from bayespoint.displays.style import BLUE, LABEL_SIZE, SKY
from bayespoint.papers.reproduction.item import ERRORS, Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.toys import (
    TRAINING_POINTS,
    Polygon,
    random_toy,
    space_positions,
)

# Corners and edges lie on walls up to rounding.
ROUNDING = 1e-6

# Random classifiers to one call.
CHUNK = 1_000_000

# Share of the way from the front of the sphere at which version space is shown, so that the walls
# can be seen to bend.
ASIDE = 0.35


def measure(run: Run) -> Data:
    """Draw a toy problem; find its polygon, and what random classifiers and the billiard say."""
    toy = random_toy(run.rng(0))
    polygon = Polygon(toy.normals)
    space = VersionSpace(toy.X @ toy.X.T, toy.y)
    post = inference.sample_billiard(space, run.size(4000, 400), random_state=run.integer(1))
    draws = space_positions(toy.X, space.outputs(post.coef))
    halfway = unit(draws + np.roll(draws, 1, axis=0))
    n_random = run.size(10 * CHUNK, 50_000)
    starts = range(0, n_random, CHUNK)
    found = [random_labels(run.rng(2, k), min(CHUNK, n_random - k), toy.normals) for k in starts]
    counts = np.sum(found, axis=0)
    return {
        "normals": toy.normals,
        "walls": polygon.walls,
        "corners": polygon.corners,
        "centre": polygon.centre(),
        "area": polygon.area() / (4 * np.pi),
        "n_random": n_random,
        "consistent": counts[-1],
        "cells": np.count_nonzero(counts),
        "draws_margin": np.min(draws @ toy.normals.T),
        "halfway_margin": np.min(halfway @ toy.normals.T),
        "n_draws": len(draws),
        "draws": draws[:: max(1, len(draws) // 200)],
    }


def random_labels(rng: np.random.Generator, n: int, normals: Array) -> Array:
    """Return how many of n random classifiers have each labelling, all right in the last place."""
    right = rng.standard_normal((n, 3)) @ normals.T > 0
    return np.bincount(right @ (1 << np.arange(len(normals))), minlength=1 << len(normals))


def compare(data: Data) -> list[Row]:
    """Check that version space is convex and that training examples bound it."""
    normals, walls, ring = (np.array(data[name]) for name in ("normals", "walls", "corners"))
    margins = ring @ normals.T
    touched = np.sum(np.abs(margins) < ROUNDING, axis=1)
    share = data["consistent"] / data["n_random"]
    error = np.sqrt(data["area"] * (1 - data["area"]) / data["n_random"])
    m = len(normals)
    return [
        Claim(
            "version space is convex: halfway between two of its classifiers lies a third",
            min(data["halfway_margin"], data["draws_margin"]) > 0,
            f"{data['n_draws']} draws of the billiard: smallest margin {data['draws_margin']:.1e} "
            f"at the draws, {data['halfway_margin']:.1e} halfway between",
            by_construction=True,
        ),
        Claim(
            "it is a polyhedron bounded by the examples' hyperplanes: its corners lie on two of "
            "them each and on the right side of all others",
            bool(np.all(touched == 2) and margins.min() > -ROUNDING),
            f"{len(walls)} of {m} examples bound it; {len(ring)} corners, on "
            f"{touched.min()} to {touched.max()} hyperplanes each",
        ),
        Claim(
            "all consistent classifiers are in that one polyhedron: as many random classifiers "
            f"agree with all labels as its area says (within {ERRORS:g} standard errors)",
            abs(share - data["area"]) <= ERRORS * error,
            f"{100 * share:.3f} % of {data['n_random']:,} agree; the area is "
            f"{100 * data['area']:.3f} ± {100 * error:.3f} % of the sphere",
        ),
        Claim(
            "each of the other cells that the hyperplanes cut is the version space of other "
            f"labels: {m} planes make at most m (m − 1) + 2 = {m * (m - 1) + 2}",
            1 < data["cells"] <= m * (m - 1) + 2,
            f"{data['cells']} labellings among the random classifiers",
            by_construction=True,
        ),
    ]


def draw(data: Data, figure: Any) -> None:
    """Draw the sphere from outside, version space a little aside."""
    normals, ring = np.array(data["normals"]), np.array(data["corners"])
    centre, bounding = np.array(data["centre"]), set(data["walls"])
    view = View(_frame(centre, ring), equal_area=False)
    axes = figure.subplots()
    axes.set(aspect="equal", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    axes.set_axis_off()
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.fill(np.cos(turn), np.sin(turn), facecolor="0.97", edgecolor="0.45", linewidth=1.2)
    axes.fill(*view.project(outline(ring)).T, color=SKY, alpha=0.6, label="version space")
    for number, normal in enumerate(normals):
        edge = number in bounding
        axes.plot(
            *view.great_circle(normal).T, color="0.15" if edge else "0.65",
            linewidth=2.2 if edge else 1.2,
            label="walls that bound it" if number == data["walls"][0] else None,
        )  # fmt: skip
    axes.plot([], [], color="0.65", linewidth=1.2, label="walls that do not")
    axes.plot(*view.project(np.array(data["draws"])).T, ".", color=BLUE, markersize=3,
              label="draws of the billiard")  # fmt: skip
    axes.plot(*view.project(centre[None]).T, "o", color="black", markersize=9,
              label="centre of mass")  # fmt: skip
    figure.legend(loc="outside right center", frameon=False, fontsize=LABEL_SIZE)


def _frame(centre: Array, ring: Array) -> Array:
    """Axes of the picture: version space to the upper right of the middle."""
    right, up = tangents(centre, ring)
    front = unit(centre - ASIDE * (right + up))
    right = unit(right - (right @ front) * front)
    return np.array([right, np.cross(front, right), front])


def thoughts(data: Data) -> str:
    """Return what we make of it, with the numbers of the run."""
    share, m, n = data["consistent"] / data["n_random"], len(data["normals"]), len(data["walls"])
    error = np.sqrt(data["area"] * (1 - data["area"]) / data["n_random"])
    return f"""{n} of the {m} examples bound the cell, and the share of random classifiers inside
differs from its area by {(share - data["area"]) / error:+.1f} standard errors. The other {m - n}
examples could be left out and nothing would change."""


ITEM = Item(
    paper="JMLR",
    place="figure 2",
    title="A version space in three dimensions",
    then="""A sketch of a version space in a feature space of three dimensions: classifiers are
points of the unit sphere, every training example cuts the sphere along the plane orthogonal to it,
and the classifiers that agree with all labels are the convex piece with the black dot.""",
    now=f"""One toy problem of section 4.1 ({TRAINING_POINTS} points in [−1, 1]³ and a random
linear rule). The polygon comes from the normals alone: bounding walls by a convex hull of duals,
corners, the area by Girard's theorem. Two things that do not use it check it: draws of the
billiard, and ten million random classifiers. (An earlier run had a million of them, and three
standard errors where all other items have two: their share was 2.9 below the area.) That an
intersection of half-spaces is convex, and the largest number of cells, are theorems.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""A sphere cut by ten great circles; the cell that agrees with all labels is filled, with
its centre of mass as a black dot.""",
    finding="Version space is the convex polyhedron of the sketch: corners, area and "
    "random classifiers agree.",
    source="synthetic: ten points in space; the sketch's points are not given",
    keys={
        "normals": "y x of each example",
        "walls": "the examples that bound version space",
        "corners": "its corners",
        "centre": "its centre of mass",
        "area": "its share of the sphere",
        "n_random": "random classifiers",
        "consistent": "how many of them agree with all labels",
        "cells": "different labellings among them",
        "draws_margin": "smallest margin of the billiard's draws",
        "halfway_margin": "smallest margin halfway between two draws",
        "n_draws": "number of draws",
        "draws": "some of them, for the picture",
    },
    thoughts=thoughts,
    size=(8.5, 5.2),
)
