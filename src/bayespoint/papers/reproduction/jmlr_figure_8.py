"""JMLR figure 8: soft boundaries of Bayes point machine and soft margins of SVM over softness."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayespoint import VersionSpace, inference
from bayespoint._support.types import Array
from bayespoint.displays.geometry import unit
from bayespoint.displays.style import BLUE, LABEL_SIZE, TEXT_SIZE, VERMILION
from bayespoint.papers.reproduction.item import Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.tools import (
    distinct,
    max_margin,
    max_margin_coef,
    means,
    origins,
    rbf,
    split_of,
)
from bayespoint.papers.reproduction.toys import TEST_POINTS, Polygon, random_toy

LAMBDAS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SIGMA = 3.0

# Points of error that are "close to, or just above".
JUST_ABOVE = 1.0

# Toy problems to one call, so that calls are worth their while.
CHUNK = 10

NAMES = {"toy": "toy problem, linear kernel", "heart": "heart, RBF, σ = 3"}


def measure(run: Run) -> Data:
    """Errors of both machines over softness, in toy problems and splits of heart."""
    n_draws = run.size(400, 100)
    chunks = np.array_split(np.arange(run.size(1000, 40)), run.size(1000, 40) // CHUNK)
    toys = [("toy", [run.entropy(0, k) for k in chunk], n_draws) for chunk in chunks]
    splits = range(1, 1 + run.size(100, 6))
    hearts = [("heart", [(split, run.integer(1, split))], n_draws) for split in splits]
    units = [("unit", keys, n_draws) for _, keys, _ in toys]
    found = run.map(solve, hearts + toys + units)
    parts = {
        "heart": found[: len(hearts)],
        "toy": found[len(hearts) : -len(units)],
        "unit": found[-len(units) :],
    }
    return {"lambdas": LAMBDAS, "n_draws": n_draws, "origins": origins(["heart"])} | {
        name: summary(np.concatenate(part)) for name, part in parts.items()
    }


def solve(name: str, keys: list[Any], n_draws: int) -> Array:
    """Return errors of SVM and Bayes point in per cent and where they differ, for some problems.

    The shape is (problem, softness, 3).
    """
    solvers: dict[str, Any] = {"toy": solve_toy, "heart": solve_heart, "unit": solve_unit}
    return np.array([solvers[name](key, n_draws) for key in keys])


def solve_unit(entropy: list[int], n_draws: int) -> list[list[float]]:
    """Return rows for the least and the largest softness of a toy problem with unit vectors."""
    return solve_toy(entropy, n_draws, LAMBDAS[:: len(LAMBDAS) - 1], unit_length=True)


def solve_toy(
    entropy: list[int], n_draws: int, lambdas: Sequence[float] = LAMBDAS, unit_length: bool = False
) -> list[list[float]]:
    """Return a row for every softness, of one toy problem."""
    rng = np.random.default_rng(entropy)
    toy = random_toy(rng)
    if unit_length:
        toy = toy._replace(X=unit(toy.X))
    X_test = rng.uniform(-1, 1, (TEST_POINTS, 3))
    y_test = np.sign(X_test @ toy.teacher)
    seed = int(rng.integers(2**31))
    rows = []
    for softness in lambdas:
        if softness == 0:  # closed forms: the Gram matrix has rank 3
            w = [max_margin(toy.y[:, None] * toy.X), Polygon(toy.normals).centre()]
        else:
            space = VersionSpace(toy.X @ toy.X.T, toy.y, softness=softness)
            w = machines(space, n_draws, seed) @ toy.X
        rows.append(row_of(np.array(w) @ X_test.T, y_test))
    return rows


def solve_heart(key: tuple[int, int], n_draws: int) -> list[list[float]]:
    """Return a row for every softness, of one split of heart."""
    split, seed = key
    X, y, X_test, y_test = split_of("heart", split)
    X, y = distinct(X, y)
    K, cross = rbf(X, X, SIGMA), rbf(X_test, X, SIGMA)
    return [
        row_of(machines(VersionSpace(K, y, softness=softness), n_draws, seed) @ cross.T, y_test)
        for softness in LAMBDAS
    ]


def machines(space: VersionSpace, n_draws: int, seed: int) -> Array:
    """Return coefficients of SVM and Bayes point, one per row: the same Gram matrix for both."""
    post = inference.sample_billiard(space, n_draws, random_state=seed)
    return np.array([max_margin_coef(space), post.bayes_point()])


def row_of(outputs: Array, y: Array) -> list[float]:
    """Return both errors and the share of points on which the machines differ, in per cent."""
    wrong = outputs * y <= 0
    return [*(100 * wrong.mean(axis=1)), 100 * np.mean(wrong[0] != wrong[1])]


def summary(table: Array) -> Data:
    """Return means over problems with standard errors, and paired differences of the minima."""
    svm, bpm, differ = np.moveaxis(table, 2, 0)
    lowest = int(np.argmin(svm.mean(axis=0)))
    soft = 1 + int(np.argmin(bpm[:, 1:].mean(axis=0)))
    return {
        "n_problems": len(table), "best": {"svm": lowest, "bpm": soft},
        "differ": differ.mean(axis=0),
        **means(
            svm=svm, bpm=bpm, gap=svm[:, lowest] - bpm[:, soft],
            helps=bpm[:, 0] - bpm[:, soft], nearer=differ[:, 0] - differ[:, -1],
        ),
    }  # fmt: skip


def compare(data: Data) -> list[Row]:
    """Check what the text says about the minima, and about the two machines (3.3)."""
    rows: list[Row] = [_minima(title, data[name], data["lambdas"]) for name, title in NAMES.items()]
    rows += [
        replace(_nearer(NAMES["toy"], data["toy"]), ours=True),
        _nearer("toy problem with points of unit length", data["unit"]),
        _nearer(NAMES["heart"], data["heart"]),
    ]
    one = data["heart"]
    rows.append(
        Claim(
            "heart: soft boundaries help the Bayes point (lowest error with λ > 0 below that of "
            "λ = 0 by 2 standard errors)",
            one["helps"] > 2 * one["helps_error"],
            f"by {one['helps']:.2f} ± {one['helps_error']:.2f} points; toy problem: "
            f"{data['toy']['helps']:.2f} ± {data['toy']['helps_error']:.2f}",
        )
    )
    return rows


def _minima(title: str, one: Data, lambdas: Sequence[float]) -> Claim:
    svm, bpm = one["best"]["svm"], one["best"]["bpm"]
    return Claim(
        f"{title}: the SVM's lowest error is close to, or just above, that of the Bayes point with "
        f"λ > 0 (at most {JUST_ABOVE:g} point above; not below by more than 2 standard errors)",
        -2 * one["gap_error"] <= one["gap"] <= JUST_ABOVE,
        f"SVM {one['svm'][svm]:.2f} % at λ = {lambdas[svm]:g}, Bayes point {one['bpm'][bpm]:.2f} % "
        f"at {lambdas[bpm]:g}: {one['gap']:+.2f} ± {one['gap_error']:.2f}",
    )


def _nearer(title: str, one: Data) -> Claim:
    return Claim(
        f"{title}: softness brings the machines together (they differ on fewer test points at the "
        "largest λ than at 0, by 2 standard errors)",
        one["nearer"] > 2 * one["nearer_error"],
        f"{_ends(one)} (by {one['nearer']:.1f} ± {one['nearer_error']:.1f} points)",
    )


def _ends(one: Data) -> str:
    return f"{one['differ'][0]:.1f} % at 0, {one['differ'][-1]:.1f} % at {LAMBDAS[-1]:g}"


def draw(data: Data, figure: Any) -> None:
    """Draw errors over softness, the hard machines at the left of a gap."""
    # On a logarithmic scale zero has no place: one step left of the others.
    lambdas = np.array(data["lambdas"])
    place = np.where(lambdas > 0, lambdas, lambdas[1] ** 2 / lambdas[2])
    for axes, name in zip(figure.subplots(1, 2), NAMES, strict=True):
        one = data[name]
        for machine, label, colour, marker, dashes in (
            ("svm", "SVM, soft margin", VERMILION, "s", "--"),
            ("bpm", "Bayes point, soft boundary", BLUE, "o", "-"),
        ):
            mean, error = np.array(one[machine]), np.array(one[f"{machine}_error"])
            style = {"color": colour, "marker": marker, "markersize": 7, "capsize": 4}
            axes.errorbar(place[1:], mean[1:], error[1:], linestyle=dashes, linewidth=2,
                          label=label, **style)  # fmt: skip
            axes.errorbar(place[:1], mean[:1], error[:1], markerfacecolor="white", **style)
        axes.set(xscale="log", xticks=place)
        axes.set_xticklabels([f"{value:g}" for value in lambdas])
        axes.set_xticks([], minor=True)
        axes.tick_params(axis="x", labelsize=TEXT_SIZE - 1)
        axes.set_xlabel("softness λ (hollow: none)", fontsize=LABEL_SIZE)
        axes.set_title(f"{NAMES[name]} ({one['n_problems']})", fontsize=LABEL_SIZE)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("test error, %", fontsize=LABEL_SIZE)
    figure.axes[0].legend(fontsize=TEXT_SIZE)


ITEM = Item(
    paper="JMLR",
    place="figure 8",
    title="Soft boundaries and soft margins",
    then="""Test error over λ, which multiplies the diagonal of the Gram matrix by 1 + λ, for the
Bayes point machine and for the SVM with the same Gram matrix (quadratic slack): the toy problem of
figure 6 with the linear kernel, and heart with an RBF kernel, σ = 3, split as for table 1. The
SVM's lowest error is close to or just above that of the Bayes point.""",
    now=f"""1,000 toy problems (the paper does not say how many) with {TEST_POINTS:,} test points
each, and the 100 splits of heart of table 1, which are fixed and overlap, so that standard errors
over them are too small. λ = 0 and nine values from 0.01 to 100: the paper's range is not in its
text, and up to 10, our first choice, heart's curves still fell. Billiard of 400 draws; closed
forms for the toy problem without softness. Differences are paired. The limit of one point for
"just above" is ours; when it was set is not on record. Section 3.3 says of points of unit length
that softness brings the machines together. The toy problem's points have other lengths: we asked
it of them as they are, and after that had failed also of the same points scaled to length one.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""Test error over softness λ of SVM and Bayes point machine, for toy problems at the left
and heart at the right.""",
    finding="Softness helps on heart, and the SVM's lowest error is close to the Bayes "
    "point's; softness brings the two machines together where points have unit "
    "length, the paper's condition, and not elsewhere.",
    source="synthetic, as the paper describes, and heart",
    keys={
        "lambdas": "values of λ",
        "n_draws": "draws of the billiard",
        "origins": "where the splits of heart come from",
        "heart": "on heart: errors of both machines in % for each λ (`svm`, `bpm`), "
        "share of test points on which they differ, paired differences of the "
        "lowest errors (`gap`), gain by softness (`helps`) and how much nearer "
        "they come (`nearer`)",
        "toy": "the same for the toy problem",
        "unit": "the same for the toy problem with points of unit length",
    },
    thoughts="""On heart both machines have their lowest error at λ = 10, equal within a tenth of
a point; for smaller λ the Bayes point has fewer errors. Beyond, both get worse, the Bayes point a
little more (6,000 draws in 20 splits gave the same). The toy problem has no wrong labels, so
softness does not help there; the SVM stays about a point above at every λ, within one standard
error of the limit of "just above", so that this row says little. The two do not meet there as λ
grows because the points have different lengths: in the limit the SVM weights them by 1/length²,
the Bayes point by 1/length.""",
    size=(12.0, 4.8),
)
