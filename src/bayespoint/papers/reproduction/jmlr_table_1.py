"""JMLR table 1: hard-margin SVM and Bayes point machine on seven data sets."""

from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from bayespoint import VersionSpace, inference
from bayespoint._support.types import Array
from bayespoint.displays.style import BLUE, LABEL_SIZE, TEXT_SIZE, VERMILION
from bayespoint.papers.reproduction.item import Claim, Data, Item, Quantity, Row, Run
from bayespoint.papers.reproduction.tools import (
    distinct,
    error_rate,
    max_margin_coef,
    means,
    origins,
    rbf,
    split_of,
)

# Kernel width, error of the SVM and of the BPM in per cent with standard errors, and what the paper
# calls p-value: one less the p-value.
TABLE_1 = {
    "heart": (10.0, 25.4, 0.40, 22.8, 0.34, 1.00),
    "thyroid": (3.0, 5.3, 0.24, 4.4, 0.21, 1.00),
    "diabetis": (5.0, 33.1, 0.24, 32.0, 0.25, 1.00),
    "waveform": (20.0, 13.0, 0.10, 12.1, 0.09, 1.00),
    "banana": (0.5, 16.2, 0.15, 15.1, 0.14, 1.00),
    "sonar": (1.0, 15.4, 0.37, 15.9, 0.38, 0.01),
    "ionosphere": (1.5, 11.9, 0.25, 11.5, 0.25, 0.99),
}

# Where the Gram matrix is singular to rounding, the least softness that separates the classes.
SOFTNESS = {"banana": 1e-8}

# Errors are printed with one digit after the point.
ROUNDING = 0.05

# One-sided, for "BPM is better than SVM" or the reverse.
LEVEL = 0.05

# Splits to one call, so that data sets are not read too often.
CHUNK = 5


def measure(run: Run) -> Data:
    """Errors of both machines on all splits."""
    n_splits, n_draws = run.size(100, 2), run.size(400, 40)
    parts = np.array_split(np.arange(1, 1 + n_splits), -(-n_splits // CHUNK))
    cases = [(name, part, n_draws) for name in TABLE_1 for part in parts]
    found, n = run.map(solve, cases), len(parts)
    tables = {name: found[k * n : (k + 1) * n] for k, name in enumerate(TABLE_1)}
    return {"n_splits": n_splits, "n_draws": n_draws, "origins": origins(TABLE_1)} | {
        "sets": {name: summary(np.concatenate(table)) for name, table in tables.items()}
    }


def solve(name: str, splits: Array, n_draws: int) -> list[list[float]]:
    """Return errors of SVM and Bayes point and the billiard's error, an angle, for some splits."""
    rows = []
    for split in splits:
        X, y, X_test, y_test = split_of(name, int(split))
        X, y = distinct(X, y)
        sigma = TABLE_1[name][0]
        cross = rbf(X_test, X, sigma)
        space = VersionSpace(rbf(X, X, sigma), y, softness=SOFTNESS.get(name, 0.0))
        post = inference.sample_billiard(space, n_draws, random_state=int(split))
        machines = max_margin_coef(space), post.bayes_point()
        errors = [error_rate(cross @ coef, y_test) for coef in machines]
        rows.append([*errors, post.bayes_point_error()])
    return rows


def summary(table: Array) -> Data:
    """Return means with standard errors, the paired difference, and one less its p-value."""
    svm, bpm, angles = table.T
    return {
        **means(svm=svm, bpm=bpm, gain=svm - bpm),
        "better": 1 - ttest_1samp(svm - bpm, 0, alternative="greater").pvalue,
        "angle_error": angles.mean(),
    }  # fmt: skip


def compare(data: Data) -> list[Row]:
    """Compare fourteen errors, and which machine is better on each set."""
    rows = []
    for name, (_, svm, svm_error, bpm, bpm_error, _) in TABLE_1.items():
        one = data["sets"][name]
        rows += [
            # An SVM that errs less than the paper's would be another machine, not a better one.
            Quantity(f"{name}: SVM, %", svm, one["svm"], svm_error, one["svm_error"],
                     tolerance=ROUNDING, better=None),
            Quantity(f"{name}: Bayes point, %", bpm, one["bpm"], bpm_error, one["bpm_error"],
                     tolerance=ROUNDING),
        ]  # fmt: skip
    return rows + [_better(name, data["sets"][name]) for name in TABLE_1]


def _better(name: str, one: Data) -> Claim:
    published = TABLE_1[name][-1]
    wins = published > 0.5
    chance = 1 - one["better"] if wins else one["better"]
    winner, loser = ("Bayes point", "SVM") if wins else ("SVM", "Bayes point")
    return Claim(
        f"{name}: the {winner} beats the {loser} (paired t-test, one-sided, p < {LEVEL:g}; the "
        f"paper prints {published:.2f} for 1 − p of the Bayes point)",
        chance < LEVEL,
        f"SVM − Bayes point {one['gain']:+.2f} ± {one['gain_error']:.2f}, 1 − p = "
        f"{one['better']:.3f}",
    )


def draw(data: Data, figure: Any) -> None:
    """Draw errors of both machines, published ones hollow, and paired differences."""
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1), sharey=True)
    rows = np.arange(len(TABLE_1))[::-1]
    for column, name, colour, marker, shift in (
        (1, "svm", VERMILION, "s", 0.18),
        (3, "bpm", BLUE, "o", -0.18),
    ):
        label = {"svm": "SVM", "bpm": "Bayes point"}[name]
        ours = np.array([[data["sets"][s][name], data["sets"][s][f"{name}_error"]]
                         for s in TABLE_1])  # fmt: skip
        theirs = np.array([published[column : column + 2] for published in TABLE_1.values()])
        for values, face, move, whose in ((theirs, "white", 0.09, "published"),
                                          (ours, colour, -0.09, "ours")):  # fmt: skip
            left.errorbar(values[:, 0], rows + shift + move, xerr=2 * values[:, 1], fmt=marker,
                          color=colour, markerfacecolor=face, markersize=8, capsize=3,
                          label=f"{label}, {whose}")  # fmt: skip
    _draw_gains(right, data, rows)
    left.set_yticks(rows, TABLE_1, fontsize=LABEL_SIZE)
    for row in rows[:-1]:
        left.axhline(row - 0.5, color="0.9", linewidth=1, zorder=0)
        right.axhline(row - 0.5, color="0.9", linewidth=1, zorder=0)
    left.set_xlabel("test error, % (± 2 standard errors)", fontsize=LABEL_SIZE)
    left.set_title(f"{data['n_splits']} splits", fontsize=LABEL_SIZE)
    left.legend(loc="lower right", fontsize=TEXT_SIZE)


def _draw_gains(axes: Any, data: Data, rows: Array) -> None:
    gains = np.array([[one["gain"], one["gain_error"]] for one in data["sets"].values()])
    theirs = [svm - bpm for _, svm, _, bpm, _, _ in TABLE_1.values()]
    axes.axvline(0, color="0.5", linewidth=1)
    axes.plot(theirs, rows + 0.12, "D", color="0.3", markerfacecolor="white", markersize=8,
              label="published")  # fmt: skip
    axes.errorbar(gains[:, 0], rows - 0.12, xerr=2 * gains[:, 1], fmt="D", color="0.15",
                  markersize=8, capsize=3, label="ours, paired")  # fmt: skip
    axes.set_xlabel("SVM − Bayes point, points", fontsize=LABEL_SIZE)
    axes.set_title("gain of the Bayes point", fontsize=LABEL_SIZE)
    axes.legend(loc="best", fontsize=TEXT_SIZE)


def thoughts(data: Data) -> str:
    """Return what we make of it, with our own error of the centre."""
    angles = [one["angle_error"] for one in data["sets"].values()]
    low, high = min(angles), max(angles)
    return f"""Kernels and the hard boundary are the same, so we think that the estimate of the
centre differs. We have not run theirs on these splits, and ours is not exact either: its own
estimate of its error is {low:.2f} to {high:.2f} radians, {np.degrees(low):.0f} to
{np.degrees(high):.0f} degrees. On one split of waveform and one of banana [the billiard as
published](../guides/published.md), stopped by its own rule at TOL = 10⁻³, was 7.7 and 22 degrees
off after 72,000 and 113,000 bounces; the paper reports about 1,000 for 400 points. On sonar the
SVM is ahead by less than half a point, which 10 splits do not show and 100 just do."""


ITEM = Item(
    paper="JMLR",
    place="table 1",
    title="Hard-margin SVM and Bayes point machine on seven data sets",
    then="""Seven data sets, 100 random splits 60:40, RBF kernel with the width that suits the SVM
best, hard margin and hard boundary, no bias. Mean test errors with standard errors, and one less
the p-value of a paired t-test of "BPM is better than SVM". The Bayes point machine wins on all
sets but sonar.""",
    now="""As many splits, widths as published. Five sets have Rätsch's sizes and scaling (mostly
not his very splits), which are not 60:40: 170 and 100 for heart, 140 and 75 for thyroid, 468 and
300 for diabetis, but 400 and 4,600 for waveform and 400 and 4,900 for banana. Sonar and ionosphere
are split 60:40. Splits and random numbers of the billiard are fixed: the seed changes nothing
here. The SVM is the classifier of largest margin without bias. Billiard of 400 draws, 4 balls.
Equal rows count once. The Gram matrix of banana is singular to rounding: there softness is 10⁻⁸.
Splits of one set overlap, so p-values are too small, theirs and ours; the paper says so
as well.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""Test errors of SVM and Bayes point machine on seven data sets, published and ours, and
their differences: the Bayes point machine is better on all but sonar.""",
    finding="All seven errors of the SVM agree; our Bayes point machine is as good as "
    "the paper's or better, and wins on the same six sets.",
    source="Rätsch's heart, thyroid, diabetis, waveform and banana; sonar and ionosphere",
    keys={
        "n_splits": "splits",
        "n_draws": "draws of the billiard",
        "origins": "for each set: where its splits come from",
        "sets": "for each set: mean errors in % of both machines and of their "
        "difference (`svm`, `bpm`, `gain`), one less the p-value (`better`), "
        "and the billiard's own estimate of its error in radians "
        "(`angle_error`)",
    },
    thoughts=thoughts,
    size=(12.0, 6.0),
)
