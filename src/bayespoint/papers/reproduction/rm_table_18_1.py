"""R&M table 18.1: test errors of the onion's shells on sonar."""

from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from bayespoint import onion, papers
from bayespoint._support.types import Array
from bayespoint.displays.style import LABEL_SIZE
from bayespoint.papers.reproduction.item import (
    ERRORS,
    Claim,
    Data,
    Item,
    Quantity,
    Row,
    Run,
    left_open,
)
from bayespoint.papers.reproduction.rm_kernel import sonar_angle, with_bias
from bayespoint.papers.reproduction.tools import stderr

SIGMA = 4.4
DEPTH = 5

# Test errors among labels -1 and +1; rows: training errors allowed on class -1, columns: on +1.
TABLE = np.array([
    [(3, 5), (1, 8), (1, 12), (1, 17), (0, 20), (0, 21)],
    [(5, 5), (2, 5), (1, 7), (1, 7), (1, 8), (1, 10)],
    [(5, 5), (3, 5), (2, 6), (1, 5), (1, 9), (1, 15)],
    [(5, 5), (4, 5), (3, 7), (1, 5), (1, 6), (1, 8)],
    [(7, 5), (5, 5), (4, 6), (3, 6), (1, 7), (1, 7)],
    [(8, 2), (5, 5), (4, 5), (4, 5), (3, 5), (1, 6)],
])  # fmt: skip

METHODS = {"published": "onion as published", "ours": "our onion"}
CORNERS = ((0, 0), (0, DEPTH), (DEPTH, 0), (DEPTH, DEPTH))

# Rank correlation from which on two tables count as having one pattern.
ALIKE = 0.8


def table_run(method: str, size: int, seed: int) -> Array:
    """Return test errors by shell and class of one run."""
    space, cross, y_test = with_bias(sonar_angle(), SIGMA)
    if method == "published":
        shells = papers.published_onion(space, DEPTH, n_bounces=size, bias=1.0, random_state=seed)
    else:
        shells = onion.sample_onion(space, DEPTH, size, random_state=seed)
    return shells.errors(cross, y_test)


def measure(run: Run) -> Data:
    """Tables of several runs of both onions."""
    n_runs = run.size(10, 3)
    sizes = {"published": run.size(20_000, 2000), "ours": run.size(160_000, 10_000)}
    cases = [
        (method, sizes[method], run.integer(k, repeat))
        for k, method in enumerate(METHODS)
        for repeat in range(n_runs)
    ]
    tables = np.array(run.map(table_run, cases)).reshape(len(METHODS), n_runs, *TABLE.shape)
    # One string per row of shells: the errors on both classes, cell by cell.
    return {
        method: [[_text(row) for row in table] for table in part]
        for method, part in zip(METHODS, tables, strict=True)
    }


def _text(row: Array) -> str:
    return " ".join("-" if np.isnan(minus) else f"{minus:.0f},{plus:.0f}" for minus, plus in row)


def _cell(text: str) -> tuple[float, ...]:
    return (np.nan, np.nan) if text == "-" else tuple(map(float, text.split(",")))


def tables(data: Data, method: str) -> Array:
    """Return the tables of all runs of a method, with a last axis of two classes."""
    return np.array([[[_cell(c) for c in row.split()] for row in t] for t in data[method]])


def mean_table(values: Array) -> Array:
    """Return the mean over runs, of those that reached a shell; NaN where none did."""
    reached = np.sum(~np.isnan(values), axis=0)
    return np.nansum(values, axis=0) / np.where(reached, reached, np.nan)


def compare(data: Data) -> list[Row]:
    """Corners, the best shell, the whole table and its pattern."""
    rows: list[Row] = []
    for method, name in METHODS.items():
        both = tables(data, method)
        totals, published = both.sum(axis=-1), TABLE.sum(axis=-1)
        # A corner is no machine that one would use: fewer errors there are not better.
        rows += [
            _errors(
                f"{name}, shell {cell}", published[cell], totals[:, cell[0], cell[1]],
                better=None,
            )
            for cell in CORNERS
        ]  # fmt: skip
        rows.append(_errors(f"{name}, best shell", published.min(), np.nanmin(totals, axis=(1, 2))))
        rows += [_as_alike_as_two_runs(name, totals, published), _pattern(name, both)]
    return left_open(
        "the paper gives neither the scaling of its features nor the length of its run", rows
    )


def _errors(what: str, published: float, values: Array, better: str | None = "lower") -> Quantity:
    return Quantity(
        f"{what}: test errors", float(published), float(np.mean(values)),
        published_error=float(np.std(values, ddof=1)), measured_error=float(stderr(values)),
        better=better, digits=1,
    )  # fmt: skip


def _apart(a: Array, b: Array) -> float:
    return np.nanmean(np.abs(a - b))


def _as_alike_as_two_runs(name: str, totals: Array, published: Array) -> Claim:
    """Whether the published table could be another run of ours."""
    among = [_apart(a, b) for a, b in combinations(totals, 2)]
    limit = np.mean(among) + ERRORS * np.std(among, ddof=1)
    off = np.mean([_apart(table, published) for table in totals])
    best = published == published.min()
    return Claim(
        f"{name}: no further from the published table than two runs from each other (mean over "
        "shells; two standard deviations allowed)",
        bool(off <= limit),
        f"{off:.2f} errors per shell, two runs {np.mean(among):.2f} ± {np.std(among, ddof=1):.2f}; "
        f"where the paper has {published.min()}: {np.nanmean(totals[:, best]):.1f}",
    )


def _pattern(name: str, both: Array) -> Claim:
    """Whether errors move between the classes as published."""
    skew = mean_table(both[..., 1] - both[..., 0])
    correlation = spearmanr(
        skew.ravel(), (TABLE[..., 1] - TABLE[..., 0]).ravel(), nan_policy="omit"
    )[0]
    return Claim(
        f"{name}: the more errors allowed on a class, the more are made on it, as published (rank "
        f"correlation of + less − errors over shells at least {ALIKE})",
        bool(correlation >= ALIKE),
        f"rank correlation {correlation:.2f}",
    )


def draw(data: Data, figure: Any) -> None:
    """Draw the published table and the mean of both onions."""
    panels = figure.subplots(1, 3, sharey=True)
    shown = {"R&M": TABLE.astype(float)} | {
        f"{name}, mean of {len(data[method])}": mean_table(tables(data, method))
        for method, name in METHODS.items()
    }
    for axes, (title, table) in zip(panels, shown.items(), strict=True):
        total = table.sum(axis=-1)
        image = axes.imshow(total, cmap="cividis", vmin=5, vmax=22)
        digits = 0 if np.array_equal(total, np.round(total)) else 1
        for i, j in np.ndindex(total.shape):
            minus, plus = table[i, j]
            axes.text(
                j, i, f"{total[i, j]:.{digits}f}\n({minus:.0f},{plus:.0f})", ha="center",
                va="center", fontsize=12, color="white" if total[i, j] < 13 else "black",
            )  # fmt: skip
        axes.set_title(title, fontsize=LABEL_SIZE)
        axes.set_xlabel("errors allowed on class +", fontsize=LABEL_SIZE)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    panels[0].set_ylabel("errors allowed on class −", fontsize=LABEL_SIZE)
    figure.colorbar(image, ax=panels, label="test errors of 104", shrink=0.9)


ITEM = Item(
    paper="RM",
    place="table 18.1",
    title="Sonar: test errors of the onion's shells",
    then="""A typical table of the soft billiard on the sonar data split by aspect angle, Gaussian
kernel, σ = 4.4: for each number of training errors allowed on each class, from none to five, the
centre of that shell, and its errors among 104 test examples, in all and by class. The centre of
version space makes 8, the best shells 6. It is one run.""",
    now="""Ten runs of the onion as published (20,000 bounces, a bias dimension), and ten of ours
(160,000 draws), whose shells are sampled uniformly. Features are standardised by the training set;
we decided this after an earlier run without it had 15 errors in version space. Of the table's 36
shells, the four corners and the best shell are rows; these and the other criteria were set when
tables of earlier runs were known. Fewer errors in a corner do not count as better; this rule was
set for three corners after a small run, and for (0, 0) after the full run, where it had counted as
better. The whole table is compared by the mean difference over shells, and by how
errors move from one class to the other.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""Three tables of 6 by 6 shells with test errors, published, onion as published and our
onion: all grow towards the corner with five errors allowed on class + and none on class −.""",
    finding="The pattern of the table is the published one, single shells are not; "
    "scaling, split and length of the run are not given.",
    source="sonar, split by aspect angle",
    keys={
        "published": "for each run of the onion as published, one string per row of shells: "
        "errors on class − and + of each shell, or `-` where none was reached",
        "ours": "the same for our onion",
    },
    thoughts="""Errors allowed on a class are made on it, and the best shells of the onion as
published make 6 errors, as printed. Single shells differ by 1.6 errors on average, where two runs
of ours differ by 0.6, so it is not the same table. The paper warns that several splits are in use.
Two runs of 2,000 bounces, as in our small run, differ from each other by as much as from the
published table; that was seen afterwards, and proves nothing. Shells that are sampled uniformly
make more errors where many are allowed on class + (11 at (5, 5), published 7): the published onion
weights points by how much of version space is seen from them, so its centres differ. The least of
36 shells, chosen by the test set, flatters either onion.""",
    size=(14.0, 5.0),
)
