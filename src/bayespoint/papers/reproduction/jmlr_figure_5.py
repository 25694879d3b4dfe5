"""JMLR figure 5: softness makes parameter space a ball."""

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from bayespoint._support.types import Array
from bayespoint.displays.style import BLUE, LABEL_SIZE, ORANGE, SKY, VERMILION, label_axes
from bayespoint.papers.reproduction.item import Claim, Data, Item, Row, Run

M = 3
LAMBDAS = np.geomspace(1e-3, 1e2, 26)
SHOWN = (0.001, 0.1, 1.0, 100.0)

# Of the kernel of the other two-dimensional toy problem, JMLR figure 7: sigma = 1.
GAMMA = 0.5

# Largest over smallest axis: below the first a ball, above the second flat or long.
BALL, FAR_FROM_BALL = 1.05, 3.0

# Where the eigenvalues of a matrix count as zero, beside its largest.
ROUNDING = 1e-12


def measure(run: Run) -> Data:
    """Eigenvalues of the Gram matrices of random problems, with two kernels."""
    X = run.rng(0).uniform(-1, 1, (run.size(1000, 200), M, 2))
    rbf = [rbf_kernel(points, gamma=GAMMA) for points in X]
    linear = [linear_kernel(points) for points in X]
    cosines = np.array([np.max(np.abs(K[np.triu_indices(M, 1)])) for K in rbf])
    return {
        "n_problems": len(X),
        "lambdas": LAMBDAS,
        "shown": rbf[0],
        "shown_points": X[0],
        "rbf": _shapes(np.linalg.eigvalsh(rbf)),
        "linear": _shapes(np.maximum(np.linalg.eigvalsh(linear), 0)),
        "linear_rank": np.linalg.matrix_rank(np.array(linear), rtol=ROUNDING).max(),
        "cosine": [np.mean(cosines / (1 + softness)) for softness in LAMBDAS],
        "distances": [np.mean(_spread(rbf, softness)) for softness in LAMBDAS],
    }


def semi_axes(eigenvalues: Array, softness: float) -> Array:
    """Semi-axes of a' (G + softness I) a = 1, the shortest first, scaled to the unit ball's volume.

    They are 1 / sqrt(eigenvalue + softness) before that.
    """
    axes = 1 / np.sqrt(np.sort(eigenvalues, axis=-1)[..., ::-1] + softness)
    return axes / np.exp(np.mean(np.log(axes), axis=-1, keepdims=True))


def pancakes(axes: Array) -> Array:
    """Whether the middle axis is nearer to the longest than to the shortest, by ratio."""
    short, middle, long = np.moveaxis(np.log(axes), -1, 0)
    return middle - short > long - middle


def _shapes(eigenvalues: Array) -> Data:
    """Over softness: quartiles of the longest axis over the shortest, and share of pancakes."""
    axes = [semi_axes(eigenvalues, softness) for softness in LAMBDAS]
    ratios = np.array([one[:, -1] / one[:, 0] for one in axes])
    return {
        "ratio": np.quantile(ratios, (0.25, 0.5, 0.75), axis=1),
        "falls": np.mean(np.all(np.diff(ratios, axis=0) < 0, axis=0)),
        "pancakes": [np.mean(pancakes(one)) for one in axes],
    }


def _spread(grams: list[Array], softness: float) -> Array:
    """Largest over smallest squared distance of the points in feature space."""
    squared = np.array([2 * (1 + softness - K[np.triu_indices(M, 1)]) for K in grams])
    return squared.max(axis=1) / squared.min(axis=1)


def compare(data: Data) -> list[Row]:
    """Check what the text says about small and large softness."""
    rbf, linear, n = data["rbf"], data["linear"], data["n_problems"]
    median = rbf["ratio"][1]
    small, large = data["lambdas"][0], data["lambdas"][-1]
    flat = rbf["pancakes"][0]
    error = np.sqrt(flat * (1 - flat) / n)
    return [
        Claim(
            f"for small λ it is far from a ball: the longest axis at least {FAR_FROM_BALL:g} times "
            "the shortest (median)",
            median[0] >= FAR_FROM_BALL,
            f"λ = {small:g}: {median[0]:.1f} (linear: {linear['ratio'][1][0]:.0f})",
        ),
        Claim(
            "and a pancake, with two long axes, not a cigar: the middle one is nearer to the "
            "longest, by ratio, in most problems",
            bool(flat - 2 * error > 0.5),
            f"λ = {small:g}: {flat:.0%} ± {error:.0%} are pancakes (linear: "
            f"{linear['pancakes'][0]:.0%}), the others cigars; with inverse axes "
            f"{1 - flat:.0%} would be (linear: {1 - linear['pancakes'][0]:.0%})",
            unsaid="the paper gives neither its three points nor its kernel, nor which axes it "
            "drew",
        ),
        Claim(
            f"for large λ it becomes a ball: the ratio falls as λ grows, to less than {BALL:g}",
            rbf["falls"] == 1 and median[-1] < BALL,
            f"it falls throughout in {rbf['falls']:.0%} of {n} problems; {median[-1]:.4f} at "
            f"λ = {large:g} (linear: {linear['ratio'][1][-1]:.4f})",
            by_construction=True,
        ),
        Claim(
            "added to the diagonal, λ makes a singular Gram matrix one of full rank (linear "
            "kernel: three points in two dimensions)",
            data["linear_rank"] < M and linear["ratio"][2][0] < np.sqrt(1 + 2 * M / small),
            f"rank {data['linear_rank']} of {M} without; with λ = {small:g} all axes are finite, "
            f"upper quartile of the ratio {linear['ratio'][2][0]:.0f}",
            by_construction=True,
        ),
        Claim(
            "training examples become more and more orthogonal, and equidistant",
            bool(np.all(np.diff(data["cosine"]) < 0) and np.all(np.diff(data["distances"]) < 0)
                 and data["cosine"][-1] < BALL - 1 and data["distances"][-1] < BALL),
            f"largest cosine {data['cosine'][0]:.2f} to {data['cosine'][-1]:.3f}, largest over "
            f"smallest squared distance {data['distances'][0]:.1f} to {data['distances'][-1]:.3f}",
            by_construction=True,
        ),
    ]  # fmt: skip


def draw(data: Data, figure: Any) -> None:
    """Draw ellipsoids of one problem, and the ratio of axes over softness of all."""
    grid = figure.add_gridspec(2, len(SHOWN), height_ratios=(1, 1.05))
    values, vectors = np.linalg.eigh(np.array(data["shown"]))
    for column, softness in enumerate(SHOWN):
        axes = figure.add_subplot(grid[0, column], projection="3d")
        _draw_ellipsoid(axes, values, vectors, softness)
    axes = figure.add_subplot(grid[1, :])
    for kernel, colour, dashes in (("linear", ORANGE, "--"), ("rbf", BLUE, "-")):
        low, median, high = data[kernel]["ratio"]
        name = {"rbf": "RBF, σ = 1", "linear": "linear"}[kernel]
        axes.fill_between(data["lambdas"], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(data["lambdas"], median, color=colour, linestyle=dashes, linewidth=2,
                  label=f"{name}: median, quartiles")  # fmt: skip
    for softness in SHOWN:
        axes.axvline(softness, color="0.8", linewidth=1, zorder=0)
    axes.set(xscale="log", yscale="log", yticks=(1, 2, 5, 10, 20, 50))
    axes.set_yticklabels(("1", "2", "5", "10", "20", "50"))
    axes.set_yticks([], minor=True)
    label_axes(axes, "softness λ", "longest axis / shortest")
    axes.legend(frameon=False)


def _draw_ellipsoid(axes: Any, values: Array, vectors: Array, softness: float) -> None:
    """In the coordinates of the three coefficients."""
    turn, tilt = np.meshgrid(np.linspace(0, 2 * np.pi, 37), np.linspace(0, np.pi, 19))
    ball = np.array([np.cos(turn) * np.sin(tilt), np.sin(turn) * np.sin(tilt), np.cos(tilt)])
    lengths = semi_axes(values, softness)  # the shortest first: that of the largest eigenvalue
    surface = np.einsum("ij,j...->i...", vectors[:, ::-1] * lengths, ball)
    axes.plot_surface(*surface, color=SKY, edgecolor="0.35", linewidth=0.3, shade=True)
    axes.set_title(f"λ = {softness:g}\naxes 1 : {lengths[1] / lengths[0]:.1f} : "
                   f"{lengths[2] / lengths[0]:.1f}", fontsize=LABEL_SIZE)  # fmt: skip
    reach = np.max(np.abs(surface))
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    axes.set_box_aspect((1, 1, 1), zoom=1.25)
    axes.set(xticks=[0], yticks=[0], zticks=[0], xticklabels=[], yticklabels=[], zticklabels=[])
    for name, place in (("x", "α₁"), ("y", "α₂"), ("z", "α₃")):
        getattr(axes, f"set_{name}label")(place, labelpad=-12, color=VERMILION)


ITEM = Item(
    paper="JMLR",
    place="figure 5",
    title="Softness turns parameter space into a ball",
    then="""Adding λ to the diagonal of the Gram matrix G allows training errors. The coefficients
α of unit vectors then form the ellipsoid α′(G + λI)α = 1. For a toy problem in two dimensions with
three points the paper draws it for growing λ, with its axes scaled by the root of the product of
the eigenvalues: a pancake for small λ, nearly a ball for large ones.""",
    now="""1,000 problems of three points uniform in [−1, 1]², λ from 0.001 to 100. We take the
kernel of the paper's other toy problem in two dimensions (figure 7: RBF, σ = 1), and the linear
kernel beside it. The semi-axes are 1/√(eigenvalue + λ); each ellipsoid is scaled to the volume of
the unit ball, which keeps its shape. "Pancake" was one statement at first, longest axis and shape
together; it was split in two after the first run.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""Ellipsoids of one problem for four values of λ, long and thin at 0.001, round at 100;
below, the ratio of the longest to the shortest axis falls to one as λ grows, with both kernels.""",
    finding="Softness does turn the ellipsoid into a ball; for small softness it is "
    "more often a cigar than the pancake in the picture.",
    source="synthetic: three points in the plane; points and kernel are not given",
    keys={
        "n_problems": "problems",
        "lambdas": "values of λ",
        "shown": "the problem in the picture: semi-axes for some λ",
        "shown_points": "its points",
        "rbf": "with the RBF kernel, for each λ: quartiles of longest over shortest "
        "axis (`ratio`), share of pancakes, share of problems where the ratio "
        "falls throughout",
        "linear": "the same with the linear kernel",
        "linear_rank": "rank of the linear Gram matrix",
        "cosine": "largest cosine between two examples, for each λ",
        "distances": "largest over smallest squared distance, for each λ",
    },
    thoughts="""The text makes an axis long where an eigenvalue is small. Three points in two
dimensions have one eigenvalue that is zero (linear kernel) or smaller than both others (RBF): one
long axis and two short ones, a cigar, in two thirds of the problems with RBF and nine in ten with
the linear kernel. A pancake appears with axes √(eigenvalue + λ), that is, if one draws the unit
vectors Σαᵢxᵢ that come from |α| = 1. The paper may have drawn those, or a problem whose two
smaller eigenvalues are alike. What the figure is for, the way to the ball, does not
depend on it.""",
    size=(11.0, 7.0),
)
