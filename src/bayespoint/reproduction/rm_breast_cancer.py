"""R&M section 18.6: Wisconsin breast cancer, leave-10-out errors."""

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace, datasets, inference
from bayespoint.displays.style import BLACK, BLUE, GREEN, LABEL_SIZE, VERMILION
from bayespoint.reproduction.item import ERRORS, Claim, Item, Quantity
from bayespoint.reproduction.rm_kernel import flipper, wrong
from bayespoint.reproduction.tools import max_margin_coef, stderr

SIGMA = 1.75
FOLD = 10
PUBLISHED = {"maximal margin": 25, "flipper": 23, "exact billiard": 23}
PUBLISHED_TESTS = 670
N_BOUNCES = 3000
N_FLIGHTS = 600
READINGS = {"with bias": 1.0, "without bias": 0.0}


def fold_run(bias, rows, k, n_bounces, n_flights):
    """Return the errors of each machine on the k-th ten of the rows, and how many are tested."""
    X, y = datasets.load("wbc")
    test = rows[FOLD * k : FOLD * (k + 1)]
    train = np.setdiff1d(rows, test)
    _, first = np.unique(np.column_stack([X[train], y[train]]), axis=0, return_index=True)
    train = train[first]  # equal rows with equal labels are one wall
    gamma = 1 / (2 * SIGMA**2)
    space = VersionSpace(rbf_kernel(X[train], gamma=gamma) + bias, y[train])
    cross = rbf_kernel(X[test], X[train], gamma=gamma) + bias
    centres = (
        max_margin_coef(space),
        flipper(space, n_bounces, bias=bias, random_state=k).bayes_point(),
        inference.sample_billiard(
            space, n_flights, travel=4.5 * np.pi, random_state=k
        ).bayes_point(),
    )
    return [int(wrong(cross, y[test], coef).sum()) for coef in centres] + [len(test)]


def measure(run):
    """Errors of all folds, in several random orders, with and without a bias dimension."""
    n_points = len(datasets.load("wbc")[1])
    n_orders, n_folds = run.size(5, 3), run.size(-(-n_points // FOLD), 5)
    sizes = run.size(N_BOUNCES, 500), run.size(N_FLIGHTS, 100)
    orders = [run.rng(k).permutation(n_points) for k in range(n_orders)]
    cases = [
        (bias, rows, k, *sizes)
        for bias in READINGS.values()
        for rows in orders
        for k in range(n_folds)
    ]
    counts = np.array(run.map(fold_run, cases)).reshape(len(READINGS), n_orders, n_folds, -1)
    totals = counts.sum(axis=2)
    return {
        "n_points": n_points,
        "tests": totals[0, :, -1],
        "errors": {
            reading: dict(zip(PUBLISHED, totals[k, :, :-1].T, strict=True))
            for k, reading in enumerate(READINGS)
        },
    }


def scaled(data, reading, machine):
    """Return the errors of each order, for as many tests as published."""
    return PUBLISHED_TESTS * np.array(data["errors"][reading][machine]) / np.array(data["tests"])


def compare(data):
    """Both readings beside the published counts."""
    rows = []
    for reading in READINGS:
        label = reading if reading == "with bias" else f"{reading} (found in hindsight)"
        rows += [
            _count(f"{label}, {machine}: errors of {PUBLISHED_TESTS}", published, data,
                   scaled(data, reading, machine))
            for machine, published in PUBLISHED.items()
        ]  # fmt: skip
        for machine in ("flipper", "exact billiard"):
            gain = scaled(data, reading, "maximal margin") - scaled(data, reading, machine)
            rows.append(
                Claim(
                    f"{label}: the {machine} errs less often than the maximal margin",
                    bool(gain.mean() > ERRORS * stderr(gain)),
                    f"fewer by {gain.mean():.1f} ± {stderr(gain):.1f}, mean of {len(gain)} orders",
                )
            )
    return rows


def _count(what, published, data, values):
    return Quantity(
        what, published, float(values.mean()), published_error=float(np.std(values, ddof=1)),
        measured_error=_error(data, values), digits=1,
    )  # fmt: skip


def _error(data, values):
    """Return the standard error over orders, and that of the points if not all are tested."""
    n_tested = float(np.mean(data["tests"]))
    rate = values.mean() / PUBLISHED_TESTS
    left_out = 1 - n_tested / data["n_points"]
    sampling = PUBLISHED_TESTS * np.sqrt(rate * (1 - rate) / n_tested * left_out / len(values))
    return float(np.hypot(stderr(values), sampling))


def draw(data, figure):
    """Draw the errors of each order by machine and reading."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, reading in zip(panels, READINGS, strict=True):
        for k, (machine, colour, marker) in enumerate(
            zip(PUBLISHED, (GREEN, VERMILION, BLUE), "^so", strict=True)
        ):
            values = scaled(data, reading, machine)
            spread = k + np.linspace(-0.15, 0.15, len(values))
            axes.plot(
                spread, values, color=colour, marker=marker, linestyle="none", markersize=8
            )  # fmt: skip
            axes.hlines(values.mean(), k - 0.3, k + 0.3, color=colour, linewidth=2)
            axes.plot(
                k + 0.38, PUBLISHED[machine], color=BLACK, marker="D", fillstyle="none",
                linestyle="none", markersize=9, markeredgewidth=1.8,
            )  # fmt: skip
        axes.set_xticks(range(len(PUBLISHED)), [name.replace(" ", "\n") for name in PUBLISHED])
        axes.set_xlim(-0.6, len(PUBLISHED) - 0.4)
        axes.set_title("with bias, as described" if READINGS[reading] else reading)
        axes.grid(alpha=0.3, axis="y")
    panels[0].set_ylabel(f"errors of {PUBLISHED_TESTS}", fontsize=LABEL_SIZE)
    panels[0].set_ylim(0, None)
    handles = [
        panels[0].plot([], [], marker=marker, color=BLACK, linestyle=line, fillstyle="none")[0]
        for marker, line in (("o", "none"), ("", "-"), ("D", "none"))
    ]
    panels[0].legend(handles, ["one order", "mean", "published"], loc="lower left")


ITEM = Item(
    paper="RM",
    place="breast cancer",
    title="Wisconsin breast cancer: leave-10-out errors of maximal margin and billiard",
    then="""The Wisconsin breast cancer data without incomplete records: 673 cases by the paper's
count, nine attributes, two classes. Gaussian kernel with σ = 1.75, ten cases left out at a time:
25 errors of 670 for the maximal margin SVM and 23 for the billiard. The order of the cases, the
scaling of the attributes and the length of the billiard are not given.""",
    now="""683 complete records, 449 of them distinct; equal rows with equal labels are one wall.
Attributes as they are (1 to 10), hard boundary, five random orders of the records, a flipper of
3,000 bounces and an exact billiard of 600 flights of 4.5 π. Errors are scaled to 670 tests. The
paper's method has a bias dimension, so *with bias* is the reading that counts; *without bias* was
found to fit afterwards, among some thirty settings tried on these data (attributes standardised or
not, several widths, bias 0, 1 and 10). The published count has the spread of one order.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""Errors of 670 by machine. With a bias dimension both billiards make more errors than the
maximal margin and than published, without one they make fewer, about as many as published.""",
    thoughts="""As described, with a bias dimension of the kernel's own size, they do not come out:
the billiard makes more errors than the maximal margin, not fewer. Without a bias both numbers
fit, and the billiard is ahead. Since that was found in hindsight, among many settings, it counts
for little; we have not found out what the paper did. Its 673 cases are not ours either: 683
records are complete.""",
    size=(10.0, 4.8),
)
