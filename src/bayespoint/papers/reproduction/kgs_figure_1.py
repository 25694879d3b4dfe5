"""KGS figure 1: log posterior of noisy labels on the sphere, for few and for many points."""

from typing import Any

import numpy as np

from bayespoint._support.types import Array
from bayespoint.papers import LogPosteriorDisplay
from bayespoint.papers.reproduction.item import ERRORS, Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.noisy_sphere import TRUTH, clean_set, hills, local_maxima, modes
from bayespoint.papers.reproduction.tools import degrees_between, means

NOISE = 0.2
FEW, MANY = 10, 1000
LOG_ODDS = float(np.log((1 - NOISE) / NOISE))

# A local maximum is a mode if it has this share of the highest posterior, and if it is so many
# degrees away from all better ones. The first allows for this many errors more.
LEAST_RATIO = 0.01
APART = 15.0
WITHIN = int(-np.log(LEAST_RATIO) / LOG_ODDS)

# The mode is near w* if it is within so many degrees.
NEAR = 15.0

# A hill shows in the picture if it rises by this share of all heights in it.
SHOWS = 0.05

# Pixels of the picture, around and from pole to pole.
COLUMNS, ROWS = 120, 60

# Of titles and legend: readable at half the size.
TITLE_SIZE = 16

BATCH = {FEW: 25, MANY: 1}


def measure(run: Run) -> Data:
    """Count modes over many data sets; map the posterior of one with few points, one with many."""
    sizes = {FEW: run.size(1000, 50), MANY: run.size(200, 3)}
    cases = [
        (run.entropy(m), m, list(range(start, start + BATCH[m])))
        for m, n in sizes.items()
        for start in range(0, n, BATCH[m])
    ]
    done = run.map(count_modes, cases)
    parts = {m: [part for part, case in zip(done, cases, strict=True) if case[1] == m]
             for m in sizes}  # fmt: skip
    data = {}
    for m, counts in parts.items():
        number, angle, clean, seen = np.concatenate(counts).T
        shown = int(np.argmax(number > 1)) if m == FEW else 0
        data[str(m)] = {
            "n": len(number),
            **means(
                modes=number, several=number > 1, near=angle < NEAR,
                one_near=(number == 1) & (angle < NEAR), angle=angle, one_hill=seen == 1,
            ),
            "most_clean": np.max(clean), "shown": shown, **picture(run.entropy(m), m, shown),
        }  # fmt: skip
    return data


def data_set(seed: list[int], m: int, k: int) -> tuple[Array, Array, Array, np.random.Generator]:
    """Return points, labels before and after flips, and the generator of data set k."""
    rng = np.random.default_rng([*seed, k])
    X, clean = clean_set(rng, m)
    return X, clean, np.where(rng.random(m) < NOISE, -clean, clean), rng


def count_modes(seed: list[int], m: int, sets: list[int]) -> Array:
    """Count for each data set; rows: modes, angle of the best, maxima without flips, hills."""
    rows = []
    for k in sets:
        X, clean, y, rng = data_set(seed, m, k)
        maxima = local_maxima(X, y, rng, WITHIN)
        number = len(modes(maxima, LOG_ODDS, LEAST_RATIO, np.radians(APART)))
        angle = degrees_between(maxima.centres[0], TRUTH)
        # For few points only: it takes all cells, a million for many.
        without = len(local_maxima(X, clean, rng).errors) if m == FEW else 1
        # Cells of many points are small: hills are what is seen of them.
        seen = hills_shown(X, y) if m == MANY else np.nan
        rows.append((number, angle, without, seen))
    return np.array(rows, dtype=float)


def hills_shown(X: Array, y: Array) -> int:
    """Return how many hills the picture of a data set shows."""
    errors = error_map(X, y)
    return hills(-errors, SHOWS * np.ptp(errors))


def error_map(X: Array, y: Array) -> Array:
    """Return numbers of training errors over longitude and latitude."""
    longitude, latitude = np.radians(np.meshgrid(*_pixels()))
    vectors = np.stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude),
         np.sin(latitude)], axis=-1,
    )  # fmt: skip
    return np.sum((vectors @ (y[:, None] * X).T) < 0, axis=-1)


def picture(seed: list[int], m: int, k: int) -> Data:
    """Return the map of errors of one data set, rows as text, and its modes."""
    X, _, y, rng = data_set(seed, m, k)
    maxima = local_maxima(X, y, rng, WITHIN)
    counted = maxima.centres[modes(maxima, LOG_ODDS, LEAST_RATIO, np.radians(APART))]
    places = np.column_stack(
        [np.degrees(np.arctan2(counted[:, 1], counted[:, 0])) % 360,
         np.degrees(np.arcsin(np.clip(counted[:, 2], -1, 1)))]
    )  # fmt: skip
    return {
        "errors": [" ".join(map(str, row)) for row in error_map(X, y)],
        "fewest": maxima.errors[0],
        "places": np.round(places, 2),
    }


def _pixels() -> tuple[Array, Array]:
    """Return longitudes and latitudes of the middles of the pixels, in degrees."""
    longitude = 360 * (np.arange(COLUMNS) + 0.5) / COLUMNS
    return longitude, 180 * (np.arange(ROWS) + 0.5) / ROWS - 90


def compare(data: Data) -> list[Row]:
    """Check that few noisy labels make several modes, and many leave one."""
    few, many = data[str(FEW)], data[str(MANY)]
    return [
        Claim(
            f"with {FEW} points the posterior is multi-modal (in most data sets)",
            few["several"] - ERRORS * few["several_error"] > 0.5,
            f"in {_share(few, 'several')} of {few['n']} sets; {few['modes']:.1f} modes on average",
        ),
        Claim(
            "that is due to the label noise: without flips there is one maximum",
            few["most_clean"] == 1,
            f"before labels are flipped, local maxima of {few['n']} sets: at most "
            f"{few['most_clean']:.0f} in each",
            by_construction=True,
        ),
        Claim(
            f"with {MANY} points the picture shows a single hill (in most data sets)",
            many["one_hill"] - ERRORS * many["one_hill_error"] > 0.5,
            f"in {_share(many, 'one_hill')} of {many['n']} sets no other hill rises by "
            f"{100 * SHOWS:.0f} % of the picture's range",
        ),
        Claim(
            f"with {MANY} points one mode is left, near w* (in most data sets)",
            many["one_near"] - ERRORS * many["one_near_error"] > 0.5,
            f"a single mode within {NEAR:.0f}° in {_share(many, 'one_near')} of {many['n']} sets; "
            f"{many['modes']:.1f} modes on average, the best one within {NEAR:.0f}° in "
            f"{_share(many, 'near')}",
            ours=True,
        ),
    ]


def _share(row: Data, key: str) -> str:
    return f"{100 * row[key]:.0f} ± {100 * row[f'{key}_error']:.0f} %"


def draw(data: Data, figure: Any) -> None:
    """Draw both maps, with marks at the modes."""
    panels = figure.subplots(1, 2)
    longitude, latitude = _pixels()
    for axes, m, said in zip(panels, (FEW, MANY), ("modes far apart", "one hill"), strict=True):
        one = data[str(m)]
        errors = np.array([row.split() for row in one["errors"]], dtype=float)
        display = LogPosteriorDisplay(
            longitude=longitude, latitude=latitude, log_posterior=-LOG_ODDS * errors,
            maximum=one["places"][0], truth=(180.0, 0.0), title=f"{m:,} points: {said}",
        ).plot(axes, legend=False)  # fmt: skip
        others = np.reshape(one["places"][1:], (-1, 2))
        (rings,) = axes.plot(
            *others.T, linestyle="none", marker="o", markersize=9, markerfacecolor="white",
            markeredgecolor="black", markeredgewidth=2, zorder=5, label="other modes",
        )  # fmt: skip
        display.maximum_.set_label("highest mode")
        display.truth_.set_label("w*, which made the labels")
        axes.set_title(axes.get_title(), fontsize=TITLE_SIZE)
    figure.legend(
        handles=[display.maximum_, rings, display.truth_], loc="outside lower center", ncols=3,
        frameon=False, fontsize=TITLE_SIZE, markerscale=0.9,
    )  # fmt: skip


def thoughts(data: Data) -> str:
    """Return what we make of it, with the numbers of the run."""
    few, many = data[str(FEW)], data[str(MANY)]
    factor = ((1 - NOISE) / NOISE) ** WITHIN
    return f"""With {FEW} points there are {few["modes"]:.1f} modes on average. Before labels are
flipped there is one, by a theorem: on the way to a classifier without errors each wall is crossed
once, from its wrong to its right side, so that the posterior rises all the way. Some modes are
slivers: in a trial that counted only cells of at least a thousandth of the sphere, 52 ± 3 % of 300
sets had more than one. With {MANY} points the picture is a single hill around w*. Its top has
{many["modes"]:.1f} modes on average; the highest is {many["angle"]:.1f} ±
{many["angle_error"]:.1f}° away from w*, within {NEAR:.0f}° in {100 * many["near"]:.0f} % of sets.
Label noise makes the number of errors a random walk from cell to cell, and the posterior turns a
difference of {WITHIN} errors among a thousand points into a factor of {factor:.0f}: more points
bring the modes closer to each other, and do not merge them. The caption only says that a small
sample has several modes."""


ITEM = Item(
    paper="KGS",
    place="figure 1",
    title="Log posterior of noisy labels on the sphere",
    then=f"""The figure draws the logarithm of the posterior over longitude and latitude of the
sphere of classifiers in three dimensions, at a label flip rate of 0.2, for {FEW} and for {MANY}
training points. For the small sample it has several modes, because of the label noise. The
classifier that gave the labels, w*, is at (π/2, π).""",
    now=f"""Data as in the paper's section 5: it draws the two angles from Beta(5, 5) and Beta(0.1,
0.1) and does not say what they are multiplied by; π for both is our reading. The posterior is
constant on the cells that the walls of the points cut out of the sphere: all cells that are higher
than their neighbours are found exactly, by following each wall. After a trial on a few sets, and
before the full run, we fixed that such a local maximum counts as a mode if it has
{100 * LEAST_RATIO:.0f} % of the highest posterior and is {APART:.0f}° away from all better ones;
that "near w*" means within {NEAR:.0f}°; and that a statement about a picture must hold in most of
the data sets: 1000 of {FEW} points, 200 of {MANY}. After a first look at the picture we added what
it shows at its own scale: hills that rise by {100 * SHOWS:.0f} % of the range of log posteriors.
The pictures show the first set of {FEW} points that has more than one mode, and the first one of
{MANY}.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="Two maps of the sphere. With 10 points, a patchwork with several modes far apart; with "
    "1000 points, a smooth hill whose top is near w*.",
    finding="With ten points the posterior has several modes because of label noise, as "
    "the paper says; with a thousand it looks like one hill, whose top still "
    "has two modes on average.",
    source="synthetic, as the paper describes; the scale of its angles is our reading",
    keys={
        "10": "1,000 sets of ten points",
        "1000": "200 sets of a thousand. Each has the number of sets (`n`), means of "
        "the number of modes, of the angle of the best one to w*, of shares "
        "(`several`, `near`, `one_near`, `one_hill`), the most maxima before "
        "labels are flipped (`most_clean`), and for the picture a map of "
        "training errors (`errors`), the fewest (`fewest`) and places of modes",
    },
    thoughts=thoughts,
    size=(11.0, 3.6),
)
