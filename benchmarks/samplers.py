"""The billiard beside other samplers of version space, on one thread, in one run.

    pip install torch==2.13.0 && pip install botorch hopsy torch==2.13.0
    BAYESPOINT_DATA=folder python benchmarks/samplers.py

Version space is a cone: with G_ij = y_i y_j K_ij (softened) = L L^T, its directions are those of
x ~ N(0, I) given L x > 0. All samplers are compared on the unit margins L x / |x|, which do not
depend on the length of x, by the least bulk ESS over the m margins in a second.

Times are processor seconds of the whole process. In the time: for peers, the calls that draw, on
chains that are warm; making, tuning and warming them up (discarded draws) is set-up. For ours, the
whole call from Gram matrix to coefficients with its own warm-up, after compilation; so nothing is
left out in our favour, and set-up is what is not the flight. Not in the time of any: the product
that turns draws into unit margins.

All start from the same points at opposite ends: half in corners (margins proportional to
exp(3 N(0, 1))), half near the middle (all about equal). ``--part`` runs some parts only.

A peer can be fast and wrong: the law is checked by |x|^2, which has mean m, by the mean margin
where it is known, and against the other samplers. Hopsy's BilliardMALAProposal gets the length
wrong: its acceptance ratio unfolds the reflections on the way there, but not on the way back. In a
cone the direction does not suffer as long as nearly all is accepted, so it is a peer "of all".
"""

import argparse
import importlib.metadata
import math
import os
import platform
import sys
import time
import warnings
from typing import NamedTuple

import numpy as np
from mnist import machine
from scipy.integrate import quad
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import gammaln
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace, __version__, inference
from bayespoint.papers import datasets
from bayespoint.space import diagnostics

PARTS = ("peers", "bounce")
N_CHAINS = 4
BATCHED_CHAINS = 16  # of BoTorch, which moves them together
CONVERGED = 1.1  # largest split R-hat

# Two-sided false-alarm rate of 1e-6, the rule of tests/helpers/thresholds.py.
Z_LIMIT = 4.9

# Stored numbers a sampler: 160 MB. Draws beyond are thinned out.
MAX_STORED = 2e7
TUNING_STORED = 2e6

# Shares of the time budget, spent before the time that counts.
WARM_UP_SHARE = 0.25
TUNING_SHARE = 0.05  # for each step size tried

# Hopsy gives up a trajectory after 100 reflections, too few from 400 points on.
MAX_REFLECTIONS = 100_000
STEPS = (0.3, 1.0, 3.0, 10.0)
LANGEVIN_STEPS = (0.35, 0.5, 0.7, 0.85, 1.0)  # times sqrt(m), hopsy's unit

SYNTHETIC = {"n_features": 5, "width": 1.5, "softness": 1e-3}
# What Cholesky needs to draw labels from the prior: they are right to f = 0 ± 0.001.
PRIOR_JITTER = 1e-6

BOUNCE_SIZES = (100, 124, 400, 1000, 4000, 10_000)
BOUNCE_SECONDS = 1.0


def main():
    one_thread()
    options = parse()
    # R-hat is printed here, also that of short runs; ArviZ, which hopsy imports, announces its next
    # version.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
    print(
        f"machine: {machine()}; threads: 1; bayespoint {__version__}, "
        f"{versions('numpy', 'torch', 'botorch', 'hopsy')}, Python {platform.python_version()}"
    )
    for part in options.part:
        print(f"\n== {part}", flush=True)
        globals()[f"run_{part}"](options)


def one_thread():
    """Start again with settings that libraries read when they are loaded."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    settings = {f"{name}_NUM_THREADS": "1" for name in names}
    if not settings.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | settings)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="a sampler and problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=tuple(PROBLEMS))
    parser.add_argument("--sampler", nargs="+", choices=SAMPLERS, default=tuple(SAMPLERS))
    parser.add_argument("--max-points", type=int, default=10_000, help="of the part bounce")
    return parser.parse_args()


def versions(*packages):
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def timed(function, *arguments, **keywords):
    """Result and seconds of all threads together: other programs on the machine do not count."""
    start = time.process_time()
    result = function(*arguments, **keywords)
    return result, time.process_time() - start


# ---------------------------------------------------------------------- problems


class Problem(NamedTuple):
    name: str
    K: np.ndarray
    y: np.ndarray
    softness: float = 0.0
    mean: float | None = None  # of all unit margins, where it is known

    def softened(self):
        return self.K + self.softness * np.diag(self.K.diagonal())

    def root(self):
        """Lower triangular L with L L^T = G."""
        return cholesky(np.outer(self.y, self.y) * self.softened(), lower=True)


def equicorrelated():
    m = 50
    K = np.full((m, m), 0.5) + 0.5 * np.eye(m)
    return Problem(f"(a) equicorrelated 1/2, m = {m}", K, np.ones(m), mean=equicorrelated_mean(m))


def equicorrelated_mean(m):
    """Mean unit margin: f_i = (z_i - z_0) / sqrt(2), all positive when z_0 is the least of m + 1.

    All z have mean 0, so that the margins have the mean -E[least] (m + 1) / (m sqrt(2)); divided
    by the mean length of N(0, I_m).
    """
    n = m + 1
    most = quad(lambda z: z * n * norm.pdf(z) * norm.cdf(z) ** (n - 1), -10, 10)[0]
    length = math.sqrt(2) * math.exp(gammaln(n / 2) - gammaln(m / 2))
    return most * n / (m * math.sqrt(2)) / length


def sonar():
    X, y = datasets.load("sonar")
    train = np.random.default_rng(0).permutation(len(y))[:124]
    return Problem("(b) sonar, m = 124", rbf(X[train], width=1.0), y[train].astype(float))


def synthetic(m):
    """Normal inputs with labels from the prior: version space is not empty."""
    rng = np.random.default_rng(m)
    X = rng.standard_normal((m, SYNTHETIC["n_features"]))
    K = rbf(X, SYNTHETIC["width"])
    prior = cholesky(K + PRIOR_JITTER * np.eye(m), lower=True, overwrite_a=True)
    y = np.where(prior @ rng.standard_normal(m) > 0, 1.0, -1.0)
    letter = {400: "(c) ", 1000: "(d) "}.get(m, "")
    return Problem(f"{letter}synthetic, m = {m}", K, y, SYNTHETIC["softness"])


def rbf(X, width):
    K = cdist(X, X, "sqeuclidean")
    K *= -0.5 / width**2
    return np.exp(K, out=K)


PROBLEMS = {
    "a": equicorrelated,
    "b": sonar,
    "c": lambda: synthetic(400),
    "d": lambda: synthetic(1000),
}


def starts(L, n_starts, seed):
    """Points of the cone with the usual length, from corners and from the middle in turn."""
    rng = np.random.default_rng(seed)
    spread = np.resize([3.0, 0.1], n_starts)[:, None]
    margins = np.exp(spread * rng.standard_normal((n_starts, len(L))))
    x = solve_triangular(L, margins.T, lower=True).T
    x *= math.sqrt(len(L)) / np.linalg.norm(x, axis=1, keepdims=True)
    if not np.all(x @ L.T > 0):
        raise ValueError("a start left version space by rounding: G is too ill-conditioned.")
    return x


# ---------------------------------------------------------------------- samplers


class Run(NamedTuple):
    margins: np.ndarray  # unit margins, (n_chains, n_draws, m)
    seconds: float
    set_up: float
    thin: int = 1
    lengths: np.ndarray | None = None  # |x|^2, (n_chains, n_draws)
    note: str = ""


def billiard(problem, L, options):
    """Ours."""
    space = VersionSpace(problem.K, problem.y, problem.softness)
    points = starts(L, N_CHAINS, options.seed)
    start = problem.y * solve_triangular(L, points.T, lower=True, trans="T").T

    def sample(n_draws):
        return inference.sample_billiard(
            space, n_draws, n_chains=N_CHAINS, start=start, random_state=options.seed, n_jobs=1
        )

    sample(N_CHAINS)  # compiles
    max_draws = MAX_STORED / len(space)
    n_draws, seconds = N_CHAINS, 0.0
    while seconds < WARM_UP_SHARE * options.seconds and n_draws <= max_draws / 2:
        n_draws *= 2
        _, seconds = timed(sample, n_draws)
    n_draws = int(min(n_draws * options.seconds / seconds, max_draws))
    post, seconds = timed(sample, n_draws)
    margins = post.draws() @ problem.softened() * problem.y
    outside = max(seconds - post.info["flight_seconds"], 0.0)  # the latter is time on the clock
    yield "bayespoint billiard", Run(margins, seconds, outside, note="set-up is in the time")


def botorch(problem, L, options):  # noqa: ARG001
    """Elliptical slices along exact arcs: one chain, four times, and sixteen together."""
    try:
        import torch
        from botorch.utils.probability.lin_ess import LinearEllipticalSliceSampler
    except ImportError as error:
        print(f"BoTorch is left out: {error}")
        return
    torch.set_num_threads(1)
    constraints = torch.from_numpy(-L), torch.zeros(len(L), 1, dtype=torch.float64)

    def make(points):
        """One sampler for all rows of ``points``."""
        sampler = LinearEllipticalSliceSampler(
            constraints, interior_point=torch.from_numpy(points[0]), num_chains=len(points)
        )
        # Left alone, all chains start at the one interior point.
        sampler._z = torch.from_numpy(points.T.copy())
        return sampler

    def chains(points, groups):
        torch.manual_seed(options.seed)
        samplers = [make(group) for group in np.split(points, groups)]

        def draw(n_draws, thin):
            drawn = []
            for sampler in samplers:
                sampler.thinning = thin - 1
                drawn.append(sampler.draw(n_draws).numpy().reshape(n_draws, -1, len(L)))
            return np.concatenate(drawn, axis=1).swapaxes(0, 1)

        return draw

    points = starts(L, N_CHAINS, options.seed)
    yield "BoTorch LinearEllipticalSliceSampler", measure(chains, points, N_CHAINS, L, options)
    points = starts(L, BATCHED_CHAINS, options.seed)
    name = f"BoTorch the same, {BATCHED_CHAINS} chains together"
    yield name, measure(chains, points, 1, L, options)


def hopsy(problem, L, options):  # noqa: ARG001
    """Gibbs sampling, hit and run, and walks with reflections."""
    try:
        import hopsy
    except ImportError as error:
        print(f"hopsy is left out: {error}")
        return
    m = len(L)
    model = hopsy.Gaussian(np.zeros(m), np.eye(m))
    target = hopsy.Problem(-L, np.zeros(m), model)
    points = starts(L, N_CHAINS, options.seed)

    def chains(points, proposal, **settings):
        walkers = [
            hopsy.MarkovChain(target, proposal(target, starting_point=point, **settings))
            for point in points
        ]
        rngs = [hopsy.RandomNumberGenerator(options.seed, chain) for chain in range(len(points))]

        def draw(n_draws, thin):
            return hopsy.sample(walkers, rngs, n_draws, thinning=thin)[1]

        return draw

    reflecting = {"max_reflections": MAX_REFLECTIONS}
    for name, steps, settings in (
        ("TruncatedGaussianProposal", (), {}),
        ("GaussianHitAndRunProposal", STEPS, {}),
        ("GaussianCoordinateHitAndRunProposal", STEPS, {}),
        ("BilliardWalkProposal", STEPS, reflecting),
        ("BilliardMALAProposal", np.sqrt(m) * np.array(LANGEVIN_STEPS), reflecting),
    ):
        proposal = getattr(hopsy, name)
        tuning, note = 0.0, ""
        if len(steps):
            settings, tuning = timed(
                best_step, chains, points[-1:], proposal, steps, settings, options
            )
            note = f"step {settings['stepsize']:.3g}"
        run = measure(chains, points, proposal, L, options, **settings)
        yield f"hopsy {name}", run._replace(set_up=run.set_up + tuning, note=note)


SAMPLERS = {"ours": billiard, "botorch": botorch, "hopsy": hopsy}


def best_step(chains, points, proposal, steps, settings, options):
    """Step with the largest squared jump in direction, a second, of a chain from the middle."""
    speeds = []
    for step in steps:
        draw = chains(points, proposal, stepsize=step, **settings)
        x, seconds = draw_for(draw, TUNING_SHARE * options.seconds, TUNING_STORED / points.size)
        x = x[0] / np.linalg.norm(x[0], axis=1, keepdims=True)
        speeds.append(np.sum(np.diff(x, axis=0) ** 2) / seconds)
    return settings | {"stepsize": steps[int(np.argmax(speeds))]}


def draw_for(draw, seconds, max_draws):
    """Draw, more each time, until the time is spent; return the last draws and their time."""
    n_draws, spent = diagnostics.MIN_DRAWS, 0.0
    while True:
        x, last = timed(draw, n_draws, 1)
        spent += last
        if spent > seconds:
            return x, last
        n_draws = int(min(2 * n_draws, max_draws))


def measure(chains, points, how, L, options, **settings):
    """Make chains, warm them up and draw for the time given."""
    draw, making = timed(chains, points, how, **settings)
    max_draws = MAX_STORED / points.size
    (x, last), warming = timed(draw_for, draw, WARM_UP_SHARE * options.seconds, max_draws)
    n_steps = max(options.seconds / last * x.shape[1], diagnostics.MIN_DRAWS)
    thin = math.ceil(n_steps / max_draws)
    x, seconds = timed(draw, int(n_steps / thin), thin)
    margins, length = unit_margins(x, L)
    return Run(margins, seconds, making + warming, thin, length**2)


def unit_margins(x, L):
    length = np.linalg.norm(x, axis=2)
    return x / length[:, :, None] @ L.T, length


# ---------------------------------------------------------------------- peers


class Row(NamedTuple):
    name: str
    speed: float
    ess: float
    converged: bool
    right: bool
    mean: np.ndarray
    error: np.ndarray


def run_peers(options):
    """Effective draws per second, and whether the law is right."""
    print(f"least bulk ESS over the m unit margins; converged: R-hat <= {CONVERGED} for all")
    print("z: of the mean of |x|^2, which is m, and of the mean unit margin where it is known")
    for key in options.problem:
        problem = PROBLEMS[key]()
        L = problem.root()
        print(f"\n{problem.name}; condition number of G {np.linalg.cond(L) ** 2:.1e}")
        print(f"{'':42}{'ESS/s':>9}{'ESS':>9}{'draws':>9}{'thin':>6}{'s':>7}{'set-up':>8}"
              f"{'R-hat':>7}{'z |x|^2':>9}{'z margin':>9}")  # fmt: skip
        rows = []
        for sampler in options.sampler:
            for name, run in SAMPLERS[sampler](problem, L, options):
                rows.append(report(name, run, problem))
        compare(rows)


def report(name, run, problem):
    n_chains, n_draws, m = run.margins.shape
    ess = diagnostics.ess(run.margins).min()
    rhat = diagnostics.rhat(run.margins).max()
    converged = rhat <= CONVERGED
    z_length = z_margin = None
    if run.lengths is not None:
        z_length = (run.lengths.mean() - m) / diagnostics.mcse_mean(run.lengths)
    if problem.mean is not None:
        mean = run.margins.mean(axis=2)
        z_margin = (mean.mean() - problem.mean) / diagnostics.mcse_mean(mean)
    wrong = [
        what
        for what, z in (("length", z_length), ("direction", z_margin))
        if z is not None and abs(z) > Z_LIMIT
    ]
    if not converged:
        remark = f"not converged (R-hat {rhat:.2f})"
    else:
        remark = f"wrong law of the {' and '.join(wrong)}" if wrong else ""
    z_texts = ["-" if z is None else f"{z:.1f}" for z in (z_length, z_margin)]
    print(f"{name:42}{ess / run.seconds:9.1f}{ess:9.0f}{n_chains * n_draws:9}{run.thin:6}"
          f"{run.seconds:7.1f}{run.set_up:8.2f}{rhat:7.3f}{z_texts[0]:>9}{z_texts[1]:>9}  "
          f"{', '.join(filter(None, (run.note, remark)))}", flush=True)  # fmt: skip
    average = run.margins.mean(axis=(0, 1))
    error = diagnostics.mcse_mean(run.margins)
    return Row(name, ess / run.seconds, ess, converged, not wrong, average, error)


def compare(rows):
    """Print whether samplers agree, and how much faster ours is than the best of the others."""
    converged = [row for row in rows if row.converged]
    exact = [row for row in converged if row.right]
    if exact and len(converged) > 1:
        reference = max(exact, key=lambda row: row.ess)
        agreement = [
            f"{row.name} {root_mean_square_z(row, reference):.2f}"
            for row in converged
            if row is not reference
        ]
        print(f"means of the m margins against {reference.name}, root mean square z, 1 where laws "
              f"are equal: {', '.join(agreement)}")  # fmt: skip
    ours = [row for row in rows if row.name.startswith("bayespoint")]
    for kind, group in (("of all", converged), ("with the right law", exact)):
        peers = [row for row in group if row not in ours]
        if not peers:
            print(f"best converged peer {kind}: none")
            continue
        best = max(peers, key=lambda row: row.speed)
        ratio = f"; ours / peer = {row_ratio(ours[0], best)}" if ours else ""
        print(f"best converged peer {kind}: {best.name}, {best.speed:.3g} ESS/s{ratio}")


def root_mean_square_z(row, reference):
    z = (row.mean - reference.mean) / np.hypot(row.error, reference.error)
    return np.sqrt(np.mean(z**2))


def row_ratio(ours, peer):
    return f"{ours.speed / peer.speed:.3g}" if ours.converged else "none, ours did not converge"


# ---------------------------------------------------------------------- bounce


def run_bounce(options):
    """Time a bounce against the number of points, and the exponent of its growth."""
    sizes = [m for m in BOUNCE_SIZES if m <= options.max_points]
    time_of_bounces(synthetic(sizes[0]), options)  # compiles
    print(f"{'m':>7}{'bounces':>12}{'flight, s':>11}{'us/bounce':>13}")
    times = []
    for m in sizes:
        bounces, seconds = time_of_bounces(synthetic(m), options)
        times.append(1e6 * seconds / bounces)
        print(f"{m:7}{bounces:12}{seconds:11.2f}{times[-1]:13.3f}", flush=True)
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"time per bounce grows as m^{exponent:.2f} from m = {sizes[0]} to {sizes[-1]}")


def time_of_bounces(problem, options):
    """Bounces, and the time in the compiled loop that they took: at least a second."""
    space = VersionSpace(problem.K, problem.y, problem.softness)
    n_draws, seconds = 4, 0.0
    while seconds < BOUNCE_SECONDS:
        info = inference.sample_billiard(
            space, n_draws, n_chains=1, random_state=options.seed, n_jobs=1
        ).info
        seconds = info["flight_seconds"]
        n_draws *= 4
    return np.sum(info["bounces"]), seconds


if __name__ == "__main__":
    main()
