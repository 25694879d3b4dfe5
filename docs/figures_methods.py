"""Draw the pictures of "How it works": each from a run of the function it explains.

Usage: python docs/figures_methods.py [name ...]
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle
from scipy.optimize import nnls
from sklearn.datasets import make_moons

from bayespoint import BayesPointClassifier, VersionSpace, inference, onion
from bayespoint.displays.geometry import View, arc, bounding_walls, corners, tangents, unit
from bayespoint.displays.style import (
    BLACK,
    BLUE,
    GREEN,
    LABEL_SIZE,
    SKY,
    TEXT_SIZE,
    VERMILION,
    pyplot,
)
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.inference.ep.widths import WidthCell
from bayespoint.space.kernels import Kernel

STATIC = Path(__file__).resolve().parent / "_static"

# A position this near to a wall, an angle, is on it.
ON_WALL = 1e-6

# Pixels a side of shaded cells; colours in a file, enough for flat pictures.
PIXELS = 500
FILE_COLOURS = 128

# From no training error to four and more, light to dark; version space is the blue of all pictures.
SHELLS = ["#9fd3f2", "#fdf0d5", "#f6d08f", "#e0a050", "#b97333"]

# Half the width of the pictures, in the plane: of version space, and with what is around it.
ZOOM, WIDE = 0.54, 1.1

# Front to back.
MARKS, DOTS, PATH, EDGES, WALLS, REGION = 6, 5, 4, 3, 2, 1


class Toy(NamedTuple):
    """Ten points in three dimensions and their version space, seen from its centre of mass."""

    X: np.ndarray
    y: np.ndarray
    space: VersionSpace
    normals: np.ndarray
    bounding: np.ndarray
    outline: np.ndarray
    centre: np.ndarray
    view: View

    def vectors(self, coef):
        """Unit vectors of coefficients."""
        return unit(np.asarray(coef) @ self.X)

    def places(self, outputs):
        """Unit vectors of outputs at the training points."""
        return unit(np.linalg.lstsq(self.X, np.atleast_2d(outputs).T, rcond=None)[0].T)

    def project(self, vectors):
        return self.view.project(np.atleast_2d(vectors))

    def errors(self, vectors):
        """Training errors of unit vectors."""
        return np.count_nonzero(vectors @ self.normals.T < 0, axis=-1)


def make_toy():
    rng = np.random.default_rng(6)
    X = unit(rng.standard_normal((10, 3)))
    y = np.sign(X @ [1.0, 0.5, -0.5])
    space = VersionSpace(X @ X.T, y)
    normals = y[:, None] * X
    post = inference.sample_billiard(space, n_draws=20_000, random_state=0)
    centre = unit(post.bayes_point() @ X)
    bounding = bounding_walls(normals, centre)
    ring = corners(normals[bounding])
    edges = zip(ring, np.roll(ring, -1, axis=0), strict=True)
    outline = np.concatenate([arc(*edge) for edge in edges])
    frame = np.vstack([tangents(centre, post.coef @ X), centre])
    return Toy(X, y, space, normals, bounding, outline, centre, View(frame))


# -- what the pictures share -------------------------------------------------------------------


def surface(toy, ax, *, half, shade=None):
    """Walls, and version space or what ``shade`` says of errors; the view is ``2 half`` wide."""
    ax.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xticks=[], yticks=[])
    if shade is None:
        ax.fill(*toy.project(toy.outline).T, color=SKY, alpha=0.4, linewidth=0, zorder=REGION)
    else:
        pixel = half * (2 * (np.arange(PIXELS) + 0.5) / PIXELS - 1)
        lifted = toy.view.lift(np.stack(np.meshgrid(pixel, pixel), axis=-1))
        image = np.where(np.isnan(lifted[..., :1]), 1.0, shade(toy.errors(lifted)))
        ax.imshow(
            image, extent=(-half, half, -half, half), origin="lower", zorder=REGION,
            interpolation="nearest",
        )  # fmt: skip
    edge = np.isin(np.arange(len(toy.normals)), toy.bounding)
    circles = [toy.view.great_circle(normal) for normal in toy.normals]
    for chosen, colour, width, order in ((~edge, "0.6", 1.0, WALLS), (edge, "0.25", 1.8, EDGES)):
        lines = [circle for circle, wanted in zip(circles, chosen, strict=True) if wanted]
        ax.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=order))
    ax.add_patch(Circle((0, 0), toy.view.radius, fill=False, edgecolor="0.4", zorder=WALLS))


def by_posterior(rate):
    """Shade cells by their posterior density with label noise."""

    def shade(errors):
        dark = np.sqrt((rate / (1 - rate)) ** errors)[..., None]  # the root shows low ones, too
        return 1 - 0.75 * dark * (1 - np.array(to_rgb(SKY)))

    return shade


def by_errors(errors):
    """Shade cells by the number of training errors."""
    colours = np.array([to_rgb(colour) for colour in SHELLS])
    return colours[np.minimum(errors, len(SHELLS) - 1)]


def mark(toy, ax, vector, label, marker="+", colour=BLACK, size=15, **options):
    style = {"markeredgewidth": 2.6} | options
    ax.plot(
        *toy.project(vector).T, linestyle="none", marker=marker, color=colour, markersize=size,
        label=label, zorder=MARKS, **style,
    )  # fmt: skip


def dots(toy, ax, vectors, label, colour=BLUE, size=4, **options):
    style = {"alpha": 0.55, "markeredgewidth": 0, "zorder": DOTS} | options
    ax.plot(
        *toy.project(vectors).T, linestyle="none", marker="o", color=colour, markersize=size,
        label=label, **style,
    )  # fmt: skip


def title(ax, text):
    ax.set_title(text, fontsize=LABEL_SIZE)


def legend(figure, columns, where="outside lower center"):
    """One for all panels, each label once."""
    found = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    drawn = figure.legend(
        found.values(), found, loc=where, ncols=columns, fontsize=TEXT_SIZE, frameon=False,
        handletextpad=0.5, columnspacing=1.4,
    )  # fmt: skip
    for handle in drawn.legend_handles:  # small dots do not show their colour
        if hasattr(handle, "set_markersize"):
            handle.set(markersize=max(handle.get_markersize(), 7), alpha=1)


def panels(n, width=4.9, height=5.6):
    plt = pyplot("a picture of the docs")
    return plt.subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False)


# -- the pictures ------------------------------------------------------------------------------


def version_space(toy):
    """Walls, version space, its centre of mass, and the centre of the largest ball in it."""
    figure, ((ax,),) = panels(1, width=8.4, height=4.9)
    surface(toy, ax, half=1.45)
    # The point of least length in the hull of the normals is the direction of largest margin.
    hull = np.vstack([toy.normals.T, np.ones(len(toy.normals))])
    widest = unit(toy.normals.T @ nnls(hull, np.array([0.0, 0.0, 0.0, 1.0]))[0])
    margin = np.arcsin(np.min(toy.normals @ widest))
    along = tangents(widest)
    turn = np.linspace(0, 2 * np.pi, 200)[:, None]
    ball = np.cos(margin) * widest + np.sin(margin) * (
        np.cos(turn) * along[0] + np.sin(turn) * along[1]
    )
    ax.plot(*toy.project(ball).T, color=VERMILION, linewidth=1.8, zorder=PATH)
    mark(toy, ax, widest, "largest ball: support vector machine", "x", VERMILION, 11)
    mark(toy, ax, toy.centre, "centre of mass: Bayes point")
    ax.fill([], [], color=SKY, alpha=0.4, label="version space")
    ax.plot([], [], color="0.25", linewidth=1.8, label="walls that bound it")
    ax.plot([], [], color="0.6", linewidth=1.0, label="other walls")
    ax.set_axis_off()
    legend(figure, 1, "outside right center")
    return figure


def perceptron(toy):
    """A thousand orders of the points, and as many uniform draws."""
    orders = inference.sample_perceptron(toy.space, n_draws=1000, random_state=0)
    uniform = inference.sample_billiard(toy.space, n_draws=1000, random_state=1)
    found, count = np.unique(toy.places(orders.outputs).round(9), axis=0, return_counts=True)
    figure, ((left, right),) = panels(2)
    for ax in (left, right):
        surface(toy, ax, half=ZOOM)
    title(left, f"1,000 perceptrons: {len(found)} different")
    left.scatter(
        *toy.project(found).T, s=4 * count, color=BLUE, alpha=0.55, linewidths=0, zorder=DOTS
    )
    title(right, "1,000 uniform draws")
    dots(toy, right, toy.places(uniform.outputs), "a draw; left: the larger, the more often")
    for ax in (left, right):
        mark(toy, ax, toy.vectors(orders.bayes_point()), "mean of perceptrons", "x", VERMILION, 12)
        mark(toy, ax, toy.centre, "centre of mass")
    legend(figure, 3)
    return figure


def billiard(toy):
    """The path of a ball, its draws, and where many of them fall."""
    post = inference.sample_billiard(
        toy.space, n_draws=600, n_chains=1, n_path=22, random_state=5, burn_in=0
    )
    figure, ((left, right),) = panels(2)
    surface(toy, left, half=ZOOM)
    way = toy.places(post.info["path"])
    events(toy, left, way)
    title(left, "one ball: flights of π/2")
    surface(toy, right, half=ZOOM)
    dots(toy, right, toy.places(post.outputs), "600 draws")
    mark(toy, right, toy.centre, "centre of mass")
    title(right, "its draws are uniform")
    legend(figure, 4)
    return figure


def events(toy, ax, way, passing=None, colours=(VERMILION, BLUE), draws=True):
    """Draw a path through positions at walls and at ends of flights, in two colours."""
    colour, end_colour = colours
    walls = [np.flatnonzero(np.abs(toy.normals @ place) < ON_WALL) for place in way]
    parts = [arc(a, b) for a, b in pairwise(way)]
    for part in parts:
        ax.plot(*toy.project(part).T, color=colour, linewidth=1.6, zorder=PATH)
    ends = np.array([len(wall) == 0 for wall in walls])
    if passing is not None:
        dots(
            toy, ax, way[passing], "passed", colour="white", size=9, alpha=1.0,
            markeredgewidth=1.8, markeredgecolor=colour,
        )  # fmt: skip
        ends = ends & ~passing
    dots(toy, ax, way[~ends & (passing is None or ~passing)], "reflected", colour, 6, alpha=1.0)
    text = "end of a flight" + ": a draw" * draws
    dots(toy, ax, way[ends], text, end_colour, 9, alpha=1.0, zorder=MARKS)


def passed(toy, way):
    """Tell where on a path the next part lies on the other side of a wall."""
    middles = unit(way[:-1] + way[1:])
    found = np.zeros(len(way), dtype=bool)
    for k in range(1, len(way) - 1):
        for wall in np.flatnonzero(np.abs(toy.normals @ way[k]) < ON_WALL):
            before, after = toy.normals[wall] @ middles[k - 1 : k + 1].T
            found[k] |= before * after < 0
    return found


def noisy_billiard(toy, rate=0.2):
    """Walls that are passed: always from the wrong side, sometimes from the right one.

    The seed is one whose first flights stay in view.
    """
    post = inference.sample_billiard(
        toy.space, n_draws=600, n_chains=1, n_path=18, label_noise=rate, random_state=57, burn_in=0,
        start="consistent",
    )  # fmt: skip
    way = toy.places(post.info["path"])
    figure, ((left, right),) = panels(2)
    for ax in (left, right):
        surface(toy, ax, half=WIDE, shade=by_posterior(rate))
    events(toy, left, way[:-1], passed(toy, way)[:-1])
    title(left, f"one ball, label noise {rate}")
    dots(toy, right, toy.places(post.outputs), "600 draws")
    title(right, "darker: more probable")
    legend(figure, 4)
    return figure


def gibbs(toy, rate=0.1):
    """Steps on great circles; the seed is one whose first steps stay in view."""
    post = inference.sample_gibbs(
        toy.space, n_draws=600, n_chains=1, label_noise=rate, random_state=121, burn_in=0,
        start="consistent",
    )  # fmt: skip
    places = toy.places(post.outputs)
    figure, ((left, right),) = panels(2)
    for ax in (left, right):
        surface(toy, ax, half=WIDE, shade=by_posterior(rate))
    few = places[:6]
    for number, (a, b) in enumerate(pairwise(few)):
        normal = unit(np.cross(a, b))
        left.plot(
            *toy.view.great_circle(normal).T, color=GREEN, linewidth=1.2, linestyle=(0, (4, 3)),
            zorder=PATH, label=None if number else "great circle of a step",
        )  # fmt: skip
        left.plot(
            *toy.project(arc(a, b)).T, color=VERMILION, linewidth=2.2, zorder=PATH,
            label=None if number else "step",
        )  # fmt: skip
    dots(toy, left, few, "position", BLUE, 9, alpha=1.0, zorder=MARKS)
    title(left, "five steps of one chain")
    dots(toy, right, places, "600 positions")
    title(right, f"label noise {rate}; darker: more probable")
    legend(figure, 4)
    return figure


def expectation_propagation(_):
    """EP's Gaussian over exact posteriors, in the plane of two outputs."""
    figure, axes = panels(2, height=5.3)
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2, 2, 12))
    y = np.where(X > 0.3, 1, -1)
    near = np.argsort(np.abs(X - 0.3))[:2]
    cases = (
        ("two labels, no softness", np.array([[1.0, 0.4], [0.4, 1.0]]), [1, 1], 0.0, (0, 1)),
        ("two of twelve outputs", np.exp(-((X[:, None] - X) ** 2) / 2), y, 0.01, tuple(near)),
    )
    for ax, (name, K, labels, softness, pair) in zip(axes[0], cases, strict=True):
        space = VersionSpace(K, labels, softness)
        draws = exact_outputs(space, rng, pair)
        post = inference.expectation_propagation(space)
        mean, variance = post.marginals()
        # The covariance of two outputs, from the variance of their sum.
        cross = (K[pair[0]] + K[pair[1]])[None]
        both = K[np.ix_(pair, pair)].sum()
        _, of_sum = post.latent(cross, [both])
        pair = list(pair)
        covariance = (of_sum[0] - variance[pair].sum()) / 2
        matrix = np.array([[variance[pair[0]], covariance], [covariance, variance[pair[1]]]])
        ax.plot(
            *draws.T, linestyle="none", marker="o", markersize=2.6, color=BLUE, alpha=0.35,
            markeredgewidth=0, label="exact draws", zorder=DOTS - 1,
        )  # fmt: skip
        turn = np.linspace(0, 2 * np.pi, 200)
        circle = np.linalg.cholesky(matrix) @ np.array([np.cos(turn), np.sin(turn)])
        for share, dashes in ((0.5, "-"), (0.95, "--")):
            radius = np.sqrt(-2 * np.log(1 - share))
            ax.plot(
                *(mean[pair, None] + radius * circle), color=VERMILION, linewidth=2,
                linestyle=dashes, label=f"EP, {share:.0%}", zorder=DOTS,
            )  # fmt: skip
        ax.plot(*draws.mean(axis=0), "+", color=BLACK, markersize=15, markeredgewidth=2.6,
                label="exact mean", zorder=MARKS)  # fmt: skip
        ax.plot(*mean[pair], "x", color=VERMILION, markersize=11, markeredgewidth=2.6,
                label="EP's mean", zorder=MARKS)  # fmt: skip
        ax.axhline(0, color="0.25", linewidth=1.8, zorder=EDGES)
        ax.axvline(0, color="0.25", linewidth=1.8, zorder=EDGES)
        low, high = np.quantile(draws, [0.001, 0.999], axis=0)
        room = 0.22 * (high - low)
        low, high = low - room, high + room / 2
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.set_xlabel("output at one point", fontsize=LABEL_SIZE)
        ax.set_ylabel("output at another", fontsize=LABEL_SIZE)
        ax.tick_params(labelsize=TEXT_SIZE)
        title(ax, name)
    legend(figure, 5)
    return figure


def exact_outputs(space, rng, pair, n=1500):
    """Exact draws of two outputs, softness aside: uniform directions with Gaussian lengths."""
    post = inference.sample_billiard(space, n_draws=n, random_state=0)
    m = len(space)
    # Softened outputs f + e given, f alone is Gaussian: softness is noise of its own.
    K = space.outputs(np.eye(m))
    total = post.outputs * np.sqrt(rng.chisquare(m, size=(post.n_draws, 1)))
    if not space.softness:
        return total[:, list(pair)]
    plain = K - np.diag(space.ridge)
    gain = np.linalg.solve(K, plain)
    left = plain - plain @ gain
    noise = rng.multivariate_normal(np.zeros(m), left, size=len(total), method="eigh")
    return (total @ gain + noise)[:, list(pair)]


def shells(toy):
    """Classifiers by their number of training errors."""
    table = onion.sample_onion(toy.space, depth=2, n_draws=8000, random_state=0)
    figure, ((ax,),) = panels(1, width=8.4, height=4.9)
    surface(toy, ax, half=1.45, shade=by_errors)
    for n, colour in enumerate(SHELLS):
        more = " and more" if n == len(SHELLS) - 1 else ""
        ax.fill([], [], color=colour, label=f"{n} error{'s' * (n != 1)}{more}")
    looks = {(1, 0): ("o", BLUE), (0, 1): ("s", BLUE), (1, 1): ("D", VERMILION)}
    rim = {"markeredgewidth": 1.5, "markeredgecolor": "white"}
    mark(toy, ax, toy.vectors(table.centres[0, 0]), "centre of version space")
    for cell, (marker, colour) in looks.items():
        label = f"centre of shell ({cell[0]}, {cell[1]})"
        mark(toy, ax, toy.vectors(table.centres[cell]), label, marker, colour, 10, **rim)
    ax.set_axis_off()
    legend(figure, 1, "outside right center")
    return figure


def light_trap(toy):
    """The way of a ball from outside into version space: label noise that never lets it out."""
    outside = np.linalg.lstsq(toy.X.T, toy.view.lift(np.array([-0.8, 0.6])), rcond=None)[0]
    post = inference.sample_billiard(
        toy.space, n_draws=12, n_chains=1, n_path=13, label_noise=1e-12, start=outside[None],
        burn_in=0, random_state=26,
    )  # fmt: skip
    way = np.vstack([toy.vectors(outside), toy.places(post.info["path"])])
    figure, ((ax,),) = panels(1, width=8.0, height=4.9)
    surface(toy, ax, half=WIDE, shade=by_errors)
    events(toy, ax, way[:-1], passed(toy, way)[:-1], (BLUE, BLACK), draws=False)
    mark(toy, ax, way[0], "start", "s", BLACK, 9)
    for n, colour in enumerate(SHELLS):
        more = " and more" if n == len(SHELLS) - 1 else ""
        ax.fill([], [], color=colour, label=f"{n} error{'s' * (n != 1)}{more}")
    legend(figure, 1, "outside right center")
    return figure


def cells(_):
    """Rows in the plane divided by a tree, and what cells and landmarks make of them."""
    X, y = make_moons(700, noise=0.3, random_state=0)
    given = {"gamma": 4.0, "softness": 0.1, "bias": 1.0, "inference": "ep", "random_state": 0}
    fits = {
        "Cells of one tree, and landmarks": {"n_landmarks": 30, "n_trees": 1},
        "One tree, no landmarks": {"n_landmarks": 0, "n_trees": 1},
        "Four trees, no landmarks": {"n_landmarks": 0, "n_trees": 4},
        "One tree, landmarks": {"n_landmarks": 30, "n_trees": 1},
    }
    plt = pyplot("the picture of cells")
    figure, axes = plt.subplots(2, 2, figsize=(10, 8.2), layout="constrained")
    sides = [
        np.linspace(low - 0.3, high + 0.3, 220)
        for low, high in zip(X.min(0), X.max(0), strict=True)
    ]
    grid = np.stack(np.meshgrid(*sides), axis=-1)
    extent = [sides[0][0], sides[0][-1], sides[1][0], sides[1][-1]]
    for ax, (name, settings) in zip(axes.flat, fits.items(), strict=True):
        clf = BayesPointClassifier(**given, cell_size=50, **settings).fit(X, y)
        model = clf.predictor_.model
        cell = model.route(grid.reshape(-1, 2), 0).reshape(grid.shape[:2])
        p = clf.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(cell.shape)
        if ax is axes[0, 0]:
            for number in np.unique(cell):
                ax.contour(*sides, cell == number, levels=[0.5], colors="0.5", linewidths=1.5)
            ax.plot(*X[y == 0].T, "o", color=BLUE, ms=3, label="class 0")
            ax.plot(*X[y == 1].T, "s", color=VERMILION, ms=3, label="class 1")
            ax.plot(*model.landmarks.T, "*", color=BLACK, ms=11, mfc="white", label="landmarks")
        else:
            shown = ax.imshow(
                p, origin="lower", extent=extent, aspect="auto", cmap="RdBu_r", vmin=0, vmax=1
            )
            ax.contour(*sides, p, levels=[0.5], colors="k", linewidths=2)
        title(ax, name)
        ax.tick_params(labelsize=LABEL_SIZE)
        ax.set_xlabel("first feature", fontsize=LABEL_SIZE)
        ax.set_ylabel("second feature", fontsize=LABEL_SIZE)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  fontsize=LABEL_SIZE, markerscale=2)  # fmt: skip
    bar = figure.colorbar(shown, ax=axes, shrink=0.6)
    bar.set_label("probability of class 1", fontsize=LABEL_SIZE)
    bar.ax.tick_params(labelsize=LABEL_SIZE)
    return figure


def widths(_):
    """Log evidence against the width of one feature: of one that acts one way, both ways, not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = np.where(X[:, 0] + 1.5 * (np.abs(X[:, 1]) - 0.7) > 0, 1.0, -1.0)
    ones, kernel = np.ones(len(y)), Kernel("rbf", bias=1.0)
    labels = Likelihood(y, 0.1 * ones, np.inf * ones, 0 * ones, ones)
    begin = np.array([0.2, 0.2, *np.full(6, 1e-4)])
    plt = pyplot("the picture of widths")
    figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
    kinds = [(0, "acts one way", BLUE, "o"), (1, "acts both ways", VERMILION, "s"),
             (2, "does not matter", BLACK, "^")]  # fmt: skip
    tried = np.geomspace(1e-4, 10, 31)
    for j, name, colour, marker in kinds:
        values = []
        for width in (0.0, *tried):
            here = np.where(np.arange(8) == j, width, begin)
            values.append(WidthCell(X, [labels]).log_evidence(here, kernel))
        gain = np.subtract(values[1:], values[0])
        ax.plot(tried, gain, marker=marker, color=colour, ms=6, lw=2, label=name)
    ax.axhline(0, color="0.6", lw=1)
    ax.set(xscale="log")
    ax.set_xlabel(r"width $\gamma_j$ of the feature", fontsize=LABEL_SIZE)
    ax.set_ylabel("gain in log evidence (nats)", fontsize=LABEL_SIZE)
    ax.tick_params(labelsize=LABEL_SIZE)
    ax.legend(fontsize=LABEL_SIZE, title="a feature that", title_fontsize=LABEL_SIZE)
    return figure


PICTURES = {
    "theory_version_space.png": version_space,
    "theory_perceptron.png": perceptron,
    "theory_billiard.png": billiard,
    "theory_noisy_billiard.png": noisy_billiard,
    "theory_gibbs.png": gibbs,
    "theory_ep.png": expectation_propagation,
    "theory_cells.png": cells,
    "theory_widths.png": widths,
    "theory_onion.png": shells,
    "theory_light_trap.png": light_trap,
}


def save(figure, path):
    """Write a small file: flat pictures need few colours."""
    from PIL import Image

    figure.savefig(path, dpi=100)
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(FILE_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main(names):
    matplotlib.use("Agg")
    toy = make_toy()
    for file, draw in PICTURES.items():
        if not names or file in names or file.removesuffix(".png") in names:
            save(draw(toy), STATIC / file)


if __name__ == "__main__":
    main(sys.argv[1:])
