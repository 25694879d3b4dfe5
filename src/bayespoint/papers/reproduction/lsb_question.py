"""LSB's closing question: are perceptrons like uniform draws from version space or not."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from bayespoint import Posterior, VersionSpace, inference
from bayespoint._support.types import Array
from bayespoint.displays.style import (
    BLUE,
    DASHES,
    GREEN,
    LABEL_SIZE,
    PURPLE,
    VERMILION,
    label_axes,
)
from bayespoint.papers import datasets
from bayespoint.papers.reproduction import digits
from bayespoint.papers.reproduction.item import ERRORS, Claim, Data, Item, Row, Run
from bayespoint.papers.reproduction.tools import error_rate, stderr
from bayespoint.space import diagnostics
from bayespoint.space.posterior import dense

N_PERCEPTRONS = 1000

# Exact draws, by billiard, and draws of a second billiard that takes the perceptrons' place.
N_EXACT, N_CHECK = 4000, 1000
THIN, BURN_IN = 5, 100

N_BINS = 20

# Laws differ where the test of ranks has a smaller p, and where it has at more test points.
LEVEL, MOST_POINTS = 0.01, 0.05

RELATED = 0.8

# Smaller probabilities are not told apart.
TINY = 1e-9

# JMLR's width for sonar; LSB and JMLR's sizes; JMLR figure 6's points in space.
SONAR_WIDTH = 1.0
SONAR_TRAIN = 104
TOY_POINTS, TOY_TEST, DIMENSION = 10, 200, 3
CONE_POINTS = 50

NAMES = {
    "digits": "digits 1 and 2",
    "sonar": "sonar",
    "toy": "10 points in space",
    "cone": "cone of equal angles",
}
FUNCTIONS = ("angle", "margin", "test")

# Of the picture: readable at half the size.
LEGEND_SIZE = 13


def measure(run: Run) -> Data:
    """Compare both kinds of draws on several sets of each problem."""
    n_sets = run.size(20, 3)
    mnist, sonar = digits.grey("mnist"), datasets.load("sonar")
    makers = {
        "digits": lambda rng: digits_set(mnist, rng),
        "sonar": lambda rng: sonar_set(sonar, rng),
        "toy": toy_set,
        "cone": lambda _: cone_set(),  # there is only one
    }
    keys = [(p, s) for p in makers for s in range(1 if p == "cone" else n_sets)]
    cases = [
        (makers[p](run.rng(list(makers).index(p), s, 0)),
         [run.integer(list(makers).index(p), s, k) for k in (1, 2, 3)])
        for p, s in keys
    ]  # fmt: skip
    results = run.map(measure_set, cases)
    return {p: pooled([r for (q, _), r in zip(keys, results, strict=True) if q == p])
            for p in makers}  # fmt: skip


# ---------------------------------------------------------------------- problems


class Problem(NamedTuple):
    """Training and test points, by their kernel values."""

    K: Array  # Gram matrix
    y: Array
    cross: Array  # kernel values of test points and training points
    y_test: Array
    centre: Array | None = None  # coefficients of the centre of mass, where it is known


def digits_set(data: datasets.Arrays, rng: np.random.Generator) -> Problem:
    """Digits as in figure 1."""
    X, y, X_test, y_test = digits.ones_and_twos(data, rng, 188, 453)
    return Problem(digits.kernel(X, X), y, digits.kernel(X_test, X), y_test)


def sonar_set(data: datasets.Arrays, rng: np.random.Generator) -> Problem:
    """Half of sonar against the other half, RBF kernel."""
    X, y = data
    order = rng.permutation(len(y))
    train, test = order[:SONAR_TRAIN], order[SONAR_TRAIN:]
    squared = ((X[:, None] - X[train]) ** 2).sum(axis=2)
    K = np.exp(-squared / (2 * SONAR_WIDTH**2))
    return Problem(K[train], y[train], K[test], y[test])


def toy_set(rng: np.random.Generator) -> Problem:
    """Ten points on the sphere, labelled by a teacher without bias."""
    X = rng.standard_normal((TOY_POINTS + TOY_TEST, DIMENSION))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.standard_normal(DIMENSION) > 0, 1, -1)
    train, test = X[:TOY_POINTS], X[TOY_POINTS:]
    return Problem(train @ train.T, y[:TOY_POINTS], test @ train.T, y[TOY_POINTS:])


def cone_set(m: int = CONE_POINTS) -> Problem:
    """Points at 60 degrees to each other, all of one class; no test points."""
    K = 0.5 + 0.5 * np.eye(m)
    # By symmetry all coefficients are equal; those of 1 have squared length m (m + 1) / 2.
    centre = np.full(m, 1 / np.sqrt(m * (m + 1) / 2))
    return Problem(K, np.ones(m, dtype=int), np.empty((0, m)), np.empty(0, dtype=int), centre)


# ---------------------------------------------------------------------- one set


def measure_set(problem: Problem, seeds: list[int]) -> Data:
    """Compare perceptrons, and a second billiard, with exact draws."""
    space = VersionSpace(problem.K, problem.y)
    settings: dict[str, Any] = {"thin": THIN, "burn_in": BURN_IN}
    exact = inference.sample_billiard(space, N_EXACT, random_state=seeds[0], **settings)
    draws = {
        "perceptron": inference.sample_perceptron(space, N_PERCEPTRONS, random_state=seeds[1]),
        "check": inference.sample_billiard(space, N_CHECK, random_state=seeds[2], **settings),
    }
    centre, centre_error = problem.centre, 0.0
    if centre is None:
        centre, centre_error = exact.bayes_point(), exact.bayes_point_error()
    reference = functions(exact, space, centre, problem)
    sizes = {f: effective(reference[f], exact) for f in FUNCTIONS}
    result = {"exact": summary(exact, reference, centre, problem)}
    for name, posterior in draws.items():
        found = functions(posterior, space, centre, problem)
        ranks = {
            f: rank_test(
                found[f], N_PERCEPTRONS if name == "perceptron" else effective(found[f], posterior),
                reference[f], sizes[f],
            )
            for f in FUNCTIONS
        }  # fmt: skip
        result[name] = summary(posterior, found, posterior.bayes_point(), problem) | ranks
        cosine = float(posterior.bayes_point() @ space.outputs(centre))
        result[name]["off"] = np.degrees(np.arccos(min(cosine, 1.0)))
        result[name]["off_error"] = np.degrees(
            np.hypot(posterior.bayes_point_error(), centre_error)
        )
    return result


def functions(
    posterior: Posterior, space: VersionSpace, centre: Array, problem: Problem
) -> dict[str, Array]:
    """Return angle to the centre, smallest margin and margins of test points, draw by draw."""
    lengths = np.sqrt(space.rows.diagonal)
    outputs = posterior.outputs
    cosines = np.clip(outputs @ centre, -1, 1)
    return {
        "angle": np.degrees(np.arccos(cosines))[:, None],
        "margin": (space.y * outputs / lengths).min(axis=1)[:, None],
        "test": np.asarray(posterior.coef @ problem.cross.T) * problem.y_test,
    }


def summary(posterior: Posterior, found: dict[str, Array], centre: Array, problem: Problem) -> Data:
    """Return what a sampler's draws are like."""
    coef = dense(posterior.coef)
    errors, centre_error = np.zeros(len(coef)), 0.0
    if len(problem.y_test):
        errors = 100 * np.mean(found["test"] <= 0, axis=1)
        centre_error = error_rate(problem.cross @ centre, problem.y_test)
    return {
        "angle_median": np.median(found["angle"]),
        "margin_median": np.median(found["margin"]),
        "nonzero": np.mean(coef != 0),
        "distinct": len(np.unique(coef.round(12), axis=0)) / len(coef),
        "error": errors.mean(),
        "error_sd": errors.std(),
        "centre_error": centre_error,
    }


def rank_test(values: Array, size: Any, reference: Array, reference_size: Array) -> Data:
    """Return histogram of ranks among exact draws, and how far from uniform it is.

    Under one law the statistic has a chi-square law with N_BINS - 1 degrees, once it is divided by
    the excess variance that finite, dependent samples have over independent draws of a known law:
    ``size`` and ``reference_size`` are effective numbers of draws.
    """
    n, n_points = values.shape
    if not n_points:
        return {"histogram": np.zeros(N_BINS), "excess": np.ones(1), "p": np.empty(0)}
    histogram = np.zeros((n_points, N_BINS))
    for j in range(n_points):
        edges = np.quantile(reference[:, j], np.linspace(0, 1, N_BINS + 1)[1:-1])
        # Ties with an edge are due to rounding of equal draws.
        histogram[j] = np.bincount(np.searchsorted(edges, values[:, j]), minlength=N_BINS)
    excess = n / size + n / reference_size
    statistic = ((histogram - n / N_BINS) ** 2).sum(axis=1) / (n / N_BINS) / excess
    p = chi2.sf(statistic, N_BINS - 1)
    return {"histogram": histogram.sum(axis=0), "excess": excess, "p": p}


def effective(values: Array, posterior: Posterior) -> Array:
    """Return effective numbers of draws, at most as many as there are."""
    if not values.size:
        return np.empty(0)
    chains = values.reshape(posterior.n_chains, -1, values.shape[1])
    return np.minimum(diagnostics.ess(chains), len(values))


# ---------------------------------------------------------------------- all sets


def pooled(results: list[Data]) -> Data:
    """Put the sets of a problem together: histograms summed, one number per set."""
    data: dict = {"n_sets": len(results)}
    for name, one in results[0].items():
        part = data[name] = {}
        for key in one:
            if key not in FUNCTIONS:
                part[key] = [r[name][key] for r in results]
            elif len(one[key]["p"]):
                part[key] = pooled_ranks([r[name][key] for r in results])
    return data


def pooled_ranks(tests: list[Data]) -> Data:
    """Add histograms of all sets; test their sum, or count test points that fail.

    Test points of one set share its draws, so that their sum has no such test.
    """
    histogram = np.sum([t["histogram"] for t in tests], axis=0)
    expected = histogram.sum() / N_BINS
    p = np.concatenate([t["p"] for t in tests])
    found = {"histogram": histogram / expected, "failing": np.mean(p < LEVEL)}
    if all(len(t["p"]) == 1 for t in tests):
        excess = np.mean([np.mean(t["excess"]) for t in tests])
        statistic = np.sum((histogram - expected) ** 2) / expected / excess
        found["p"] = chi2.sf(statistic, N_BINS - 1)
    return found


def compare(data: Data) -> list[Row]:
    """Answer the question, one hypothesis per row."""
    rows = [
        _law(data, "angle", "angles to the centre of mass", "°", 1),
        _law(data, "margin", "smallest margins (cosines)", "", 4),
        _test_margins(data),
        _means(data),
        _paired(data, "error", "single draws of both err as often"),
        _paired(data, "centre_error", "the means of both, as classifiers, err as often"),
        _related(data),
        _repeats(data),
    ]
    return [replace(row, ours=True) for row in rows]


def _law(data: Data, function: str, what: str, unit: str, digits_shown: int) -> Claim:
    fine = [p["perceptron"][function]["p"] >= LEVEL for p in data.values()]
    seen = []
    for problem, part in data.items():
        medians = [np.mean(part[s][f"{function}_median"]) for s in ("perceptron", "exact")]
        texts = [f"{m:.{digits_shown}f}{unit}" for m in medians]
        p, check = (part[s][function]["p"] for s in ("perceptron", "check"))
        seen.append(f"{NAMES[problem]}: medians {' and '.join(texts)}, {_p(p)} (check {_p(check)})")
    return Claim(
        f"perceptrons and uniform draws have the same {what} (ranks, p ≥ {LEVEL} in each problem)",
        all(fine), "; ".join(seen),
    )  # fmt: skip


def _p(value: float) -> str:
    return f"p = {value:.1g}" if value > TINY else f"p < {TINY:g}"


def _with_tests(data: Data) -> Data:
    return {problem: part for problem, part in data.items() if "test" in part["perceptron"]}


def _test_margins(data: Data) -> Claim:
    shares = {
        problem: [part[s]["test"]["failing"] for s in ("perceptron", "check")]
        for problem, part in _with_tests(data).items()
    }
    return Claim(
        "their outputs at a test point have the same law (ranks reject it at the 1 % level at no "
        f"more than {MOST_POINTS:.0%} of test points)",
        all(found <= MOST_POINTS for found, _ in shares.values()),
        "rejected at " + "; ".join(
            f"{found:.0%} of points, {NAMES[p]} (check {check:.0%})"
            for p, (found, check) in shares.items()
        ),
    )  # fmt: skip


def _means(data: Data) -> Claim:
    seen, fine = [], []
    for problem, part in data.items():
        off = np.mean(part["perceptron"]["off"])
        error = np.sqrt(np.mean(np.square(part["perceptron"]["off_error"])))
        fine.append(off <= ERRORS * error)
        seen.append(f"{NAMES[problem]} {off:.1f}° (chance {error:.1f}°)")
    return Claim(
        "their means agree: the mean of perceptrons is the centre of mass "
        "(angle within twice what chance makes of it, in each problem)",
        all(fine), "; ".join(seen),
    )  # fmt: skip


def _paired(data: Data, key: str, what: str) -> Claim:
    seen, fine = [], []
    for problem, part in _with_tests(data).items():
        ours, exact = (np.array(part[s][key]) for s in ("perceptron", "exact"))
        off = ours - exact
        fine.append(abs(off.mean()) <= ERRORS * stderr(off))
        seen.append(f"{NAMES[problem]} {ours.mean():.2f} and {exact.mean():.2f} %, difference "
                    f"{off.mean():.2f} ± {stderr(off):.2f}")  # fmt: skip
    return Claim(
        f"{what} (within two standard errors, paired over sets, in each problem)",
        all(fine), "; ".join(seen),
    )  # fmt: skip


def _related(data: Data) -> Claim:
    r = {
        problem: np.corrcoef(part["perceptron"]["error"], part["exact"]["error"])[0, 1]
        for problem, part in _with_tests(data).items()
    }
    return Claim(
        "errors of the two are related: from set to set the mean errors rise and fall together "
        f"(correlation at least {RELATED} in each problem)",
        all(value >= RELATED for value in r.values()),
        "; ".join(f"{NAMES[p]} {value:.2f}" for p, value in r.items()),
    )


def _repeats(data: Data) -> Claim:
    shares = {problem: np.mean(part["perceptron"]["distinct"]) for problem, part in data.items()}
    sparse = ", ".join(
        f"{NAMES[p]} {np.mean(part['perceptron']['nonzero']):.0%}" for p, part in data.items()
    )
    return Claim(
        "different orders often give the same classifier "
        f"(repeats among {N_PERCEPTRONS:,} orders in each problem)",
        all(share < 1 for share in shares.values()),
        "different: " + ", ".join(f"{NAMES[p]} {share:.0%}" for p, share in shares.items())
        + f"; points with a coefficient: {sparse}",
        unsaid="JMLR says of m! orders what 1,000 orders can show in small problems only",
    )  # fmt: skip


# ---------------------------------------------------------------------- picture

# Per cent; the axes are linear up to 1 and logarithmic from there.
TICKS, LIMITS = (0, 1, 2, 5, 10, 20), (-0.1, 32)
LOOKS = zip((BLUE, VERMILION, GREEN, PURPLE), DASHES, "os^D", strict=True)
STYLES = dict(zip(NAMES, LOOKS, strict=True))


def draw(data: Data, figure: Any) -> None:
    """Draw shares below quantiles of the margin (a second billiard in grey), and errors."""
    left, right = figure.subplots(1, 2)
    _draw_ranks(left, data)
    left.set_title("Their margins are not those of uniform draws", fontsize=LABEL_SIZE)
    _draw_errors(right, _with_tests(data))
    right.set_title("Their test errors are related", fontsize=LABEL_SIZE)
    both = [axes.get_legend_handles_labels() for axes in (left, right)]
    for axes, (handles, names), place in zip((left, right), both, ("upper left",) * 2, strict=True):
        axes.legend(handles, names, fontsize=LEGEND_SIZE, loc=place, frameon=False)


def _draw_ranks(axes: Any, data: Data) -> None:
    """Draw the share of perceptrons below each quantile of the exact draws."""
    axes.plot([0, 1], [0, 1], color="0.3", linewidth=1)
    for problem, part in data.items():
        colour, dashes, _ = STYLES[problem]
        for sampler, look in (
            ("check", {"color": "0.75", "linewidth": 1}),
            ("perceptron", {"color": colour, "linestyle": dashes, "linewidth": 2.5,
                            "label": NAMES[problem]}),
        ):  # fmt: skip
            ranks = np.array(part[sampler]["margin"]["histogram"])
            share = np.append(0, np.cumsum(ranks)) / ranks.sum()
            axes.plot(np.linspace(0, 1, len(share)), share, **look)
    axes.plot([], [], color="0.75", linewidth=2, label="other uniform draws")
    label_axes(axes, "share of uniform draws with a smaller margin", "share of perceptrons")


def _draw_errors(axes: Any, data: Data) -> None:
    for problem, part in data.items():
        colour, _, marker = STYLES[problem]
        axes.plot(part["exact"]["error"], part["perceptron"]["error"], marker, color=colour, ms=6,
                  label=NAMES[problem])  # fmt: skip
        axes.plot(part["exact"]["centre_error"], part["perceptron"]["centre_error"], marker,
                  mec=colour, mfc="none", ms=6)  # fmt: skip
    axes.axline((1, 1), slope=1, color="0.3", linestyle=":")
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("symlog", linthresh=1, linscale=0.5)
        axis.set_ticks(TICKS, [str(tick) for tick in TICKS])
        axis.set_ticks([], minor=True)
    axes.set_xlim(*LIMITS)
    axes.set_ylim(*LIMITS)
    axes.plot([], [], "o", mec="0.3", mfc="none", label="hollow: of the mean")
    label_axes(axes, "error of uniform draws (%)", "error of perceptrons (%)")


ITEM = Item(
    paper="LSB",
    place="question",
    title="Are perceptrons uniform draws from version space?",
    then="""LSB found the test errors of perceptrons on permuted training sets similar to those of
uniform draws from version space (figure 1), and asks at the end how much the two distributions are
related. It has no numbers: all rows below are our own hypotheses.""",
    now=f"""{N_PERCEPTRONS:,} perceptrons against {N_EXACT:,} exact draws by billiard, thinned so
that they are nearly independent, in four problems: 20 sets of digits as in figure 1; 20 random
halves of sonar (RBF, σ = 1 as in JMLR's table; they overlap, so standard errors over them are too
small); 20 sets of ten random points on the sphere in space with a linear teacher; and the cone of
50 points at 60° to each other, where the centre of mass is known. If the distributions are the
same, ranks of perceptrons among the exact draws are uniform; a chi-square test over {N_BINS} bins
counts effective draws. A second billiard of {N_CHECK:,} draws goes through the same tests as a
check (grey in the picture). Small run: three sets of each.""",
    measure=measure,
    compare=compare,
    draw=draw,
    alt="""Left: shares of perceptrons below the quantiles of the smallest margin of uniform draws,
far from the diagonal for all four problems. Right: test errors of both kinds of draws, set by set,
near the diagonal.""",
    finding="No: perceptrons lie in version space but are not uniform on it; their test "
    "errors are still related.",
    source="MNIST, sonar, and synthetic points",
    keys={
        "digits": "20 sets of digits as in figure 1",
        "sonar": "20 random halves of sonar",
        "toy": "20 sets of ten points in space",
        "cone": "50 points at 60° to each other. Each has `n_sets` and, for "
        "`perceptron`, `exact` (billiard) and `check` (a second billiard): "
        "medians, errors in %, shares of nonzero coefficients and of distinct "
        "classifiers per set, the angle of the mean to the centre of mass "
        "(`off`), and rank tests (`angle`, `margin`, `test`: histogram, p, "
        "share of test points that fail)",
    },
    thoughts="""Perceptrons differ from uniform draws in more than one way. On sonar and in the
cone all of them are nearer to the centre of mass than 95 % of the uniform draws: in many
dimensions almost all of the volume is far from the centre, and a sum of training points is not. On
the digits three in four are further out than 95 % of the uniform draws, we think because they make
few mistakes there (7 % of the points have a coefficient), so that the points visited first have
much weight. Their smallest margins are larger, twice on the digits and seven times on sonar
(medians): a uniform draw is nearly always close to some wall. Single perceptrons err less than
uniform draws on sonar and on the ten points in space, and more on the digits. Their means differ
by 0.1 points on the digits, where the mean of the perceptrons is 36° away from the centre of mass,
and are equal within chance elsewhere. Errors, which LSB asked about, are related: sets that are
hard for one are hard for the other. In the cone the mean is exact by symmetry, though there are
only 50 different perceptrons.""",
    size=(11.0, 5.2),
)
