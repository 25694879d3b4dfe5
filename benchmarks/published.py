"""The billiards as published beside the exact one, and what R&M left open, measured.

    python benchmarks/published.py [--part bias tol trap correlation closing] [--runs N]

- bias: centres of JMLR's algorithm 2 and of R&M's flipper beside true ones, where these are known.
- tol: what JMLR's stopping rule leaves.
- trap: ways into version space: light trap with and without refreshes, perceptron.
- correlation: R&M's correlation length, over the number of points (correlation.png).
- closing: R&M 18.7, "the billiard closes", sonar over the width of the kernel (closing.png).

Data sets come from the folder named in BAYESPOINT_DATA, pictures go to docs/_static.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import EmptyVersionSpaceError, VersionSpace, inference, papers
from bayespoint.displays.style import (
    BLACK,
    BLUE,
    COLOURS,
    DASHES,
    LABEL_SIZE,
    TEXT_SIZE,
    VERMILION,
    pyplot,
)
from bayespoint.inference import starts
from bayespoint.papers import datasets
from bayespoint.papers.reproduction.jmlr_table_1 import SOFTNESS, TABLE_1
from bayespoint.papers.reproduction.rm_kernel import flipper, sonar_angle, with_bias, wrong
from bayespoint.papers.reproduction.tools import split_of, stderr
from bayespoint.papers.reproduction.toys import Polygon

BOUNCES = 3000
MACHINES = [(m, d) for m in ("jmlr", "flipper") for d in ("coefficients", "isotropic")]
N_JOBS = 2

# Of JMLR's billiard, where its rule does not stop it before.
MAX_BOUNCES = 500_000

# Flights of a light trap.
TRAP_FLIGHTS = 10_000


# Distances of neighbouring trajectories in radians, pairs of them a problem, bounces of a pair.
DELTAS = (1e-4, 1e-5, 1e-6)
PAIRS = 16
MOST_BOUNCES = 20_000

SIZES = (25, 50, 100, 200, 400, 800)
LINEAR_4 = "linear, m / 4 dimensions"
FAMILIES = {
    LINEAR_4: SIZES,
    "linear, 25 dimensions": SIZES,
    "sonar (RBF)": SIZES[:4],
    "banana (RBF, softness 0.001)": SIZES,
    "waveform (RBF)": SIZES,
}

CLOSING_WIDTHS = np.geomspace(0.5, 50, 13)
CLOSING_TICKS = (0.5, 1, 2, 5, 10, 20, 50)

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "_static"
MARKERS = "osD^v*"


def map_runs(run, n_runs, *arguments):
    """``run(*arguments, seed)`` for seeds from 0, in two processes."""
    return Parallel(n_jobs=N_JOBS)(delayed(quietly)(run, *arguments, k) for k in range(n_runs))


def quietly(run, *arguments):
    """Without the warning of a run that is stopped on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return run(*arguments)


# ---------------------------------------------------------------------- problems, known centres


class Known(NamedTuple):
    """A version space whose centre of mass is known, up to an angle in degrees."""

    name: str
    space: VersionSpace
    centre: np.ndarray  # coefficients
    error: float = 0.0


def gram_of(space):
    return space.rows.store + np.diag(space.ridge)


def coordinates(space, coef):
    """Unit vectors in an orthonormal basis of feature space."""
    values, vectors = np.linalg.eigh(gram_of(space))
    return units(coef @ (vectors * np.sqrt(np.maximum(values, 0.0))))


def units(w):
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def angles(a, b):
    """Degrees between unit vectors."""
    return np.degrees(2 * np.arcsin(np.linalg.norm(a - b, axis=-1) / 2))


def polygon(name, Z, y):
    space = VersionSpace(Z @ Z.T, y)
    return Known(name, space, np.linalg.pinv(Z).T @ Polygon(units(y[:, None] * Z)).centre())


def equicorrelated(m):
    return Known(
        f"equicorrelation 1/2, m = {m}", VersionSpace(0.5 + 0.5 * np.eye(m), np.ones(m)), np.ones(m)
    )


def long_run(name, space, n_draws):
    """With the centre of a long exact run and its stated error."""
    post = inference.sample_billiard(
        space, n_draws, n_chains=8, travel=4.5 * np.pi, random_state=20010, n_jobs=N_JOBS
    )
    return Known(name, space, post.bayes_point(), np.degrees(post.bayes_point_error()))


def skewed_triangle():
    # Inward normals: one wide corner, two narrow ones.
    Z = np.array([[1.0, 0.05, 0.0], [-0.9, 0.2, 0.1], [0.2, -0.1, 0.5]])
    return polygon("skewed triangle, m = 3", Z, np.ones(3))


def points_in_space():
    rng = np.random.default_rng(6)
    X, teacher = rng.standard_normal((10, 3)), rng.standard_normal(3)
    return polygon("10 points in R^3", X, np.sign(X @ teacher))


def rbf_plane():
    rng = np.random.default_rng(20)
    X = rng.standard_normal((20, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    return long_run("RBF, m = 20", VersionSpace(rbf_kernel(X, gamma=0.5), y), 40_000)


def sonar_split():
    X, y, _, _ = split_of("sonar", 1)
    return long_run("sonar, RBF, m = 124", VersionSpace(rbf_kernel(X, gamma=0.5), y), 20_000)


# ---------------------------------------------------------------------- bias


def published_centres(space, machine, directions, n_bounces, seed):
    """Centres of one run: as published, and the vector mean over the same path."""
    if machine == "jmlr":
        post = papers.sample_jmlr_billiard(
            space, 1, tol=1e-12, max_bounces=n_bounces, directions=directions, random_state=seed
        )
    else:
        post = papers.sample_flipper(
            space, 1, n_bounces=n_bounces, directions=directions, random_state=seed
        )
    return post.bayes_point("published"), post.bayes_point("path")


def exact_centres(space, n_bounces, n_runs):
    """Centres of exact runs with about as many bounces, burn-in included; flights of a run."""
    trial = inference.sample_billiard(space, 400, random_state=0)
    n_flights = max(2, round(100 * n_bounces / trial.info["bounces"].mean()))
    burn_in = min(20, n_flights // 4)
    posts = [
        inference.sample_billiard(
            space, n_flights - burn_in, n_chains=1, burn_in=burn_in, random_state=seed
        )
        for seed in range(n_runs)
    ]
    return [post.bayes_point() for post in posts], n_flights


def bias_row(label, problem, coef):
    """Angle from the truth to the mean of many runs, its error, and the angle of one run."""
    truth, runs = (coordinates(problem.space, c) for c in (problem.centre, np.array(coef)))
    mean = units(runs.mean(axis=0))
    noise = np.sqrt(np.sum(np.var(runs, axis=0, ddof=1)) / len(runs))
    print(
        f"  {label:35s} {angles(mean, truth):6.2f} "
        f"({np.degrees(stderr(runs @ units(mean - truth))):.2f})    {np.degrees(noise):6.2f}       "
        f"  {rms(angles(runs, truth)):6.2f}",
        flush=True,
    )


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def bias(n_runs):
    n_runs = n_runs or 64
    print(f"\n{n_runs} runs of {BOUNCES:,} bounces: degrees from the true centre to the mean of "
          "the runs (stderr along\nthat line), what an unbiased machine would show by chance, and "
          "the root mean square angle of one run")  # fmt: skip
    print("  machine, directions, sum              bias           by chance      one run")
    for problem in (
        equicorrelated(10), equicorrelated(50), skewed_triangle(), points_in_space(), rbf_plane(),
        sonar_split(),
    ):  # fmt: skip
        print(f"{problem.name} (truth known to {problem.error:.3f} degrees)")
        for machine, directions in MACHINES:
            runs = map_runs(published_centres, n_runs, problem.space, machine, directions, BOUNCES)
            published, path = zip(*runs, strict=True)
            bias_row(f"{machine}, {directions}, published", problem, published)
            bias_row(f"{machine}, {directions}, path", problem, path)
        coef, n_flights = exact_centres(problem.space, BOUNCES, n_runs)
        bias_row(f"exact, {n_flights} flights", problem, coef)
    by_bounces((equicorrelated(10), points_in_space(), sonar_split()), max(2, n_runs // 4))


def by_bounces(problems, n_runs):
    lengths = (300, 3000, 30_000)
    print(f"\nroot mean square angle of one run in degrees, {n_runs} runs, after {lengths} bounces")
    for problem in problems:
        print(problem.name)
        space, truth = problem.space, coordinates(problem.space, problem.centre)
        for machine, directions in (*MACHINES, ("exact", "")):
            row = f"  {machine} {directions}".ljust(26)
            for n in lengths:
                if machine == "exact":
                    coef, _ = exact_centres(space, n, n_runs)
                else:
                    runs = map_runs(published_centres, n_runs, space, machine, directions, n)
                    coef = [published for published, _ in runs]
                row += f"  {rms(angles(coordinates(space, np.array(coef)), truth)):6.2f}"
            print(row, flush=True)


# ---------------------------------------------------------------------- JMLR's stopping rule


def stopped_run(space, tol, start, seed):
    if start == "direct":
        start = starts.direct_start(space, random_state=seed).coef
    post = papers.sample_jmlr_billiard(
        space, 1, tol=tol, max_bounces=MAX_BOUNCES, start=start, random_state=seed
    )
    info = post.info
    return post.bayes_point(), info["bounces"], info["escapes"], info["tol_reached"]


def tol_rows(problem, tols, n_runs, start=None):
    print(f"{problem.name} (truth known to {problem.error:.3f} degrees)")
    truth = coordinates(problem.space, problem.centre)
    for tol in tols:
        if tol < 1e-3:
            n_runs = max(2, n_runs // 4)
        runs = map_runs(stopped_run, n_runs, problem.space, tol, start)
        coef, bounces, escapes, reached = zip(*runs, strict=True)
        off = angles(coordinates(problem.space, np.array(coef)), truth)
        left = rms(off)
        error = stderr(off**2) / (2 * left)
        print(
            f"  {tol:7.0e}  {np.mean(bounces):9,.0f} ({stderr(bounces):5,.0f})  "
            f"{np.mean(escapes):9,.0f}  {left:6.2f} ({error:.2f})  {np.radians(left):8.4f}  "
            f"{np.radians(left) / tol:8.1f}   {sum(reached)} of {n_runs}",
            flush=True,
        )


def tol(n_runs):
    print(f"\nJMLR's stopping rule (at most {MAX_BOUNCES:,} bounces): bounces, escapes, and the "
          "root mean square\nangle left to the true centre")  # fmt: skip
    print(
        "      TOL    bounces (stderr)   escapes  degrees         radians   / TOL    stopped by TOL"
    )
    for problem in (skewed_triangle(), equicorrelated(10), rbf_plane(), sonar_split()):
        tol_rows(problem, (1e-1, 1e-2, 1e-3, 1e-4), n_runs or 32)
    for name, softness in (("waveform", 0.0), ("banana", SOFTNESS["banana"])):
        X, y, _, _ = split_of(name, 1)
        gamma = 1 / (2 * TABLE_1[name][0] ** 2)
        space = VersionSpace(rbf_kernel(X, gamma=gamma), y, softness=softness)
        problem = long_run(f"{name}, RBF, m = {len(y)}, softness {softness:g}", space, 4000)
        # The perceptron does not get there in its passes.
        tol_rows(problem, (1e-2, 1e-3, 1e-4), n_runs or 8, start="direct")


# ---------------------------------------------------------------------- light trap


def linear_problem(rng):
    m, dimension = int(rng.integers(20, 201)), int(rng.integers(2, 51))
    X = rng.standard_normal((m, dimension))
    bias = rng.random() < 0.5
    teacher, threshold = rng.standard_normal(dimension), bias * rng.standard_normal()
    y = np.where(X @ teacher + threshold > 0, 1.0, -1.0)
    return VersionSpace(X @ X.T + bias, y), None


def rbf_problem(rng):
    """Labels of a random function of the kernel, or random ones."""
    m, dimension = int(rng.integers(20, 201)), int(rng.integers(2, 51))
    X = rng.standard_normal((m, dimension))
    gamma = np.exp(rng.uniform(np.log(0.1), np.log(10))) / dimension
    K = rbf_kernel(X, gamma=gamma)
    drawn = rng.random() < 0.5
    y = np.where((rng.standard_normal(m) @ K if drawn else rng.standard_normal(m)) > 0, 1.0, -1.0)
    if not drawn and np.linalg.eigvalsh(K)[0] < 1e-8:  # may have no solution
        return rbf_problem(rng)
    return VersionSpace(K, y), None


def triangle_problem(rng):
    Z = rng.standard_normal((3, 3))
    return VersionSpace(Z @ Z.T, np.ones(3)), rng.standard_normal(3)


def mirror_problem(rng):
    """Walls whose reflections permute 11 coordinates: one of 11! equal cells."""
    K = np.eye(10) - 0.5 * (np.eye(10, k=1) + np.eye(10, k=-1))
    return VersionSpace(K, np.ones(10)), rng.standard_normal(10)


def tried(find):
    """What ``find`` took, or None if it did not get inside."""
    try:
        return find().info
    except EmptyVersionSpaceError:
        raise
    except ValueError:
        return None


def trap_run(make, seed):
    space, start = make(np.random.default_rng([18, seed]))
    begin = starts.class_means(space, None, None) if start is None else start
    options = {"start": start, "random_state": seed}
    travel = TRAP_FLIGHTS * np.pi / 2 + 0.1
    return (
        int(np.sum(space.margins(begin) <= 0)),
        tried(lambda: starts.light_trap_start(space, max_flights=TRAP_FLIGHTS, **options)),
        tried(lambda: starts.light_trap_start(space, travel=travel, max_flights=1, **options)),
        tried(lambda: starts.perceptron_start(space, max_time=60, random_state=seed)),
        len(space),
    )


def quantiles(values):
    return " ".join(f"{q:8,.0f}" for q in np.quantile(values, (0.1, 0.5, 0.9, 1.0)))


def trap(n_runs):
    n_runs = n_runs or 50
    print(f"\n{n_runs} separable problems a kind (linear, RBF: 20 to 200 points in 2 to 50 "
          "dimensions): ways into version space. Light\ntrap from the difference of the class "
          f"means, at most {TRAP_FLIGHTS:,} flights of pi / 2, or one flight of as many radians"
          )  # fmt: skip
    print("quantiles, of those that get inside        10 %     50 %     90 %    100 %")
    for name, make in (
        ("linear", linear_problem), ("RBF", rbf_problem),
        ("three walls in R^3, from anywhere", triangle_problem),
        ("kaleidoscope of 10 walls, from anywhere", mirror_problem),
    ):  # fmt: skip
        runs = map_runs(trap_run, n_runs, make)
        wrong, *ways, m = zip(*runs, strict=True)
        trapped, single, perceptron = ([info for info in way if info] for way in ways)
        print(f"{name}: inside at once {sum(w == 0 for w in wrong)} of {n_runs}, with refreshes "
              f"{len(trapped)}, in one flight {len(single)}, by perceptron {len(perceptron)}"
              )  # fmt: skip
        for label, values in (
            ("points", m), ("points wrong at the start", wrong),
            ("flights, with refreshes", [info["flights"] for info in trapped]),
            ("bounces and passes", [info["bounces"] + info["passes"] for info in trapped]),
            ("mistakes of the perceptron", [info["mistakes"] for info in perceptron]),
        ):  # fmt: skip
            print(f"  {label:34s} {quantiles(values)}", flush=True)


# ---------------------------------------------------------------------- correlation length


def family_problem(name, m, seed):
    """A version space of m points, and labels, of a family."""
    rng = np.random.default_rng([185, seed])
    if name.startswith("linear"):
        dimension = m // 4 if name == LINEAR_4 else 25
        X, teacher = rng.standard_normal((m, dimension)), rng.standard_normal(dimension)
        return VersionSpace(X @ X.T, np.where(X @ teacher > 0, 1.0, -1.0))
    name = name.split()[0]
    if name == "sonar":
        X, y = datasets.load(name)
    else:
        X, y, X_rest, y_rest = datasets.raetsch(name, 1)
        X, y = np.vstack([X, X_rest]), np.append(y, y_rest)
    chosen = rng.permutation(len(y))[:m]
    K = rbf_kernel(X[chosen], gamma=1 / (2 * TABLE_1[name][0] ** 2))
    return VersionSpace(K, y[chosen], softness=1e-3 if name == "banana" else 0.0)


def tangent(v, w):
    return units(v - np.sum(v * w, axis=-1, keepdims=True) * w)


def neighbours(F, w, v, delta, rng):
    """Positions and directions shifted by delta, inside the walls with inward normals F."""
    v_near = v + delta * tangent(rng.standard_normal(w.shape), w)
    near = np.full_like(w, np.nan)
    for _ in range(1000):
        out = ~np.all(near @ F.T > 0, axis=1)
        if not np.any(out):
            break
        shift = delta * tangent(rng.standard_normal(w.shape), w)
        near[out] = units(w + shift)[out]
    return near, tangent(v_near, near), np.all(near @ F.T > 0, axis=1)


def bounce(d, u, G):
    """Fly balls (rows: heights above walls, and speeds) to their next walls; walls and radians."""
    cotangent = -u / np.maximum(d, 1e-300)
    ball, wall = np.arange(len(d)), np.argmax(cotangent, axis=1)
    t = np.arctan2(1.0, cotangent[ball, wall])
    cos, sin = np.cos(t)[:, None], np.sin(t)[:, None]
    d, u = d * cos + u * sin, u * cos - d * sin
    d[ball, wall] = 0.0
    return d, u - 2 * u[ball, wall][:, None] * G[wall], wall, t


def correlation_run(name, m, seed):
    """For each delta: bounces, radians, and pairs that part; without pairs that cannot start."""
    space = family_problem(name, m, seed)
    rng = np.random.default_rng([186, seed])
    K = gram_of(space)
    scale = space.y / np.sqrt(K.diagonal())
    values, vectors = np.linalg.eigh(K * np.outer(scale, scale))
    kept = values > 1e-10 * values[-1]
    F = vectors[:, kept] * np.sqrt(values[kept])
    post = inference.sample_billiard(space, PAIRS, n_chains=PAIRS // 4, random_state=seed)
    w = np.tile(units((post.coef / scale) @ F), (len(DELTAS), 1))
    v = tangent(np.tile(rng.standard_normal((PAIRS, F.shape[1])), (len(DELTAS), 1)), w)
    delta = np.repeat(DELTAS, PAIRS)[:, None]
    near, v_near, able = neighbours(F, w, v, delta, rng)
    G = F @ F.T
    left = np.flatnonzero(able)
    bounces, radians, parted = (np.zeros(len(w)) for _ in range(3))
    d, u = np.stack([w[left], near[left]]) @ F.T, np.stack([v[left], v_near[left]]) @ F.T
    for _ in range(MOST_BOUNCES):
        n = len(left)
        d, u, wall, t = bounce(d.reshape(2 * n, m), u.reshape(2 * n, m), G)
        bounces[left] += 1
        radians[left] += t[:n]
        same = wall[:n] == wall[n:]
        parted[left[~same]] = 1
        d, u = d.reshape(2, n, m)[:, same], u.reshape(2, n, m)[:, same]
        left = left[same]
        if not len(left):
            break
    return [x.reshape(len(DELTAS), PAIRS).sum(axis=1) for x in (bounces, radians, parted)]


def ratio(values, counts):
    """Sum of values over sum of counts, and its standard error from the scatter of runs."""
    n, mean = len(values), values.sum() / counts.sum()
    residual = values - mean * counts
    return mean, np.sqrt(np.sum(residual**2) * n / (n - 1)) / counts.sum()


def correlation(n_runs):
    n_runs = n_runs or 8
    print(f"\nR&M's correlation length: bounces until two balls, positions and directions delta "
          f"apart, first meet different walls;\n{n_runs} problems of {PAIRS} pairs, at most "
          f"{MOST_BOUNCES:,} bounces (all bounces / pairs that part), stderr over problems.\n"
          "Unfolded at the walls both fly on great circles, whose distance does not grow: they "
          "part at corners only.")  # fmt: skip
    print("    m " + "".join(f"      delta = {delta:.0e}  " for delta in DELTAS)
          + "    bounces * delta           radians   bounces")  # fmt: skip
    print(" " * 96 + f"delta = {DELTAS[1]:.0e}   a radian")
    lengths = {}
    for name, sizes in FAMILIES.items():
        print(name)
        for m in sizes:
            runs = map_runs(correlation_run, n_runs, name, m)
            bounces, radians, parted = np.moveaxis(np.array(runs), (1, 2), (0, 1))
            few = parted.sum(axis=1) < PAIRS
            held = [
                (np.nan, np.nan) if few[k] else ratio(bounces[k], parted[k])
                for k in range(len(DELTAS))
            ]
            lengths[name, m] = held[1]
            line = "".join(
                f"{'few part':>19s}" if np.isnan(mean) else f"  {mean:8,.1f} ({error:6,.1f})"
                for mean, error in held
            )
            line += "   " + " ".join(
                f"{mean * delta:7.4f}" for (mean, _), delta in zip(held, DELTAS, strict=True)
            )
            turn, rate = radians[1].sum() / parted[1].sum(), bounces[1].sum() / radians[1].sum()
            print(f"{m:5d} {line}   {turn:10.4f}   {rate:8.1f}", flush=True)
        known = [(m, lengths[name, m][0]) for m in sizes if lengths[name, m][0] > 0]
        slope = np.polyfit(*np.log(known).T, 1)[0]
        print(f"      delta = {DELTAS[1]:.0e}: like m to the power {slope:.2f}")
    correlation_picture(lengths)


def correlation_picture(lengths):
    plt = pyplot("correlation")
    fig, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
    for k, (name, sizes) in enumerate(FAMILIES.items()):
        mean, error = np.array([lengths[name, m] for m in sizes]).T
        ax.errorbar(
            sizes, mean, 2 * error, label=name, color=COLOURS[k], linestyle=DASHES[k % 4],
            marker=MARKERS[k], markersize=8, linewidth=2, capsize=4,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xticks=FAMILIES[LINEAR_4])
    ax.set_xticks([], minor=True)
    ax.set_xticklabels(FAMILIES[LINEAR_4])
    ax.set_xlabel("training points m", fontsize=LABEL_SIZE)
    ax.set_ylabel(
        f"bounces until balls $10^{{{np.log10(DELTAS[1]):.0f}}}$ rad apart\nmeet different walls",
        fontsize=LABEL_SIZE,
    )
    finish(fig, "correlation.png")


def finish(fig, file):
    """Legends and numbers that can be read at half the size; save."""
    for ax in fig.axes:
        ax.tick_params(labelsize=TEXT_SIZE)
        ax.grid(alpha=0.3)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=TEXT_SIZE, frameon=False)
    fig.savefig(PICTURES / file, dpi=100, pil_kwargs={"optimize": True})


# ---------------------------------------------------------------------- sonar


def closing_run(n_bounces, seed):
    sigma = CLOSING_WIDTHS[seed]
    space, cross, y_test = with_bias(sonar_angle(), sigma)
    exact = inference.sample_billiard(space, 8000, random_state=seed)
    row = {
        "rate": exact.info["bounces"].sum() / exact.info["travel_time"] / 4,
        "exact": wrong(cross, y_test, exact.bayes_point()).sum(),
    }
    for directions in ("coefficients", "isotropic"):
        post = flipper(space, n_bounces, directions)
        ended = post.info["trajectories"][:-1]  # the last one is cut
        row[directions] = {
            "length": np.mean(ended),
            "error": stderr(ended),
            "at once": (post.info["escapes"] - len(ended)) / (post.info["escapes"] + 1),
            "wrong": wrong(cross, y_test, post.bayes_point()).sum(),
        }
    return row


def closing(_):
    n_bounces = 30_000
    print("\n\"the billiard closes\" (R&M 18.7): sonar, split by aspect angle, features "
          f"standardised, RBF with bias; flipper of\n{n_bounces:,} bounces: bounces from one "
          "escape to the next (stderr), as radians of the exact billiard, random directions\n"
          "that escape at once, test errors of 104. Unfolded at its walls a trajectory is one "
          "straight line, which turns through less\nthan pi as seen from the origin: each ends, "
          "within pi radians.")  # fmt: skip
    print("        exact billiard     coefficients                           isotropic\n"
          " sigma  a radian  errors   bounces         radians  at once  errors   "
          "bounces         radians  at once  errors")  # fmt: skip
    rows = map_runs(closing_run, len(CLOSING_WIDTHS), n_bounces)
    for sigma, row in zip(CLOSING_WIDTHS, rows, strict=True):
        line = f"{sigma:6.2f}  {row['rate']:8.1f}  {row['exact']:4d}   "
        for directions in ("coefficients", "isotropic"):
            part = row[directions]
            line += (
                f"  {part['length']:6.1f} ({part['error']:5.1f})  "
                f"{part['length'] / row['rate']:6.2f}  {part['at once']:7.1%}   "
                f"{part['wrong']:4d}   "
            )
        print(line)
    closing_picture(rows)


def closing_picture(rows):
    plt = pyplot("closing")
    fig, (above, below) = plt.subplots(2, 1, figsize=(8, 8), sharex=True, layout="constrained")
    rate = np.array([row["rate"] for row in rows])
    above.plot(
        CLOSING_WIDTHS, np.pi * rate, color=BLACK, linestyle="--", linewidth=2,
        label="exact billiard: bounces in π radians",
    )  # fmt: skip
    for (directions, label), colour, marker in zip(
        (("isotropic", "flipper, isotropic directions"),
         ("coefficients", "flipper, as published")),
        (BLUE, VERMILION), "os", strict=True,
    ):  # fmt: skip
        length, error = (
            np.array([row[directions][name] for row in rows]) for name in ("length", "error")
        )
        above.errorbar(
            CLOSING_WIDTHS, length, 2 * error, color=colour, marker=marker, markersize=7,
            linewidth=2, capsize=4, label=label,
        )  # fmt: skip
        below.plot(
            CLOSING_WIDTHS, [row[directions]["wrong"] for row in rows], color=colour,
            marker=marker, markersize=7, linewidth=2, label=label,
        )  # fmt: skip
    below.plot(
        CLOSING_WIDTHS, [row["exact"] for row in rows], color=BLACK, linestyle="--", marker="^",
        markersize=7, linewidth=2, label="exact billiard",
    )  # fmt: skip
    above.set(xscale="log", yscale="log")
    above.set_ylabel("bounces of a trajectory", fontsize=LABEL_SIZE)
    below.set_ylabel("test errors of 104", fontsize=LABEL_SIZE)
    below.set_xlabel("kernel width σ (standardised features)", fontsize=LABEL_SIZE)
    plain_ticks(below, CLOSING_TICKS)
    finish(fig, "closing.png")


def plain_ticks(ax, ticks):
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


PARTS = {
    "bias": bias, "tol": tol, "trap": trap, "correlation": correlation, "closing": closing,
}  # fmt: skip


def run_parts(parts, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--part", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--runs", type=int, help="fewer or more runs than by default")
    arguments = parser.parse_args()
    for part in arguments.part:
        begun = time.perf_counter()
        parts[part](arguments.runs)
        print(f"({part}: {time.perf_counter() - begun:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    run_parts(PARTS, __doc__.splitlines()[0])
