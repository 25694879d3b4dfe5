"""Evidence beside exact values and other estimators, and expectation propagation beside sampling.

    python benchmarks/evidence.py [--part exact agree methods repeat ep] [--runs N]

- exact: tilting, bridges and EP where the evidence is known; EP at strong correlations.
- agree: tilting beside bridges on sonar and heart, and a narrow version space.
- methods: seconds to a standard error of 0.1, by tilting, bridges, density of states and nested
  version spaces.
- repeat: stated standard errors beside the scatter of 50 repetitions.
- ep: EP and the direct Bayes point beside long runs of the billiard, and of the Gibbs sampler.

Data sets come from the folder named in BAYESPOINT_DATA.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np
from published import N_JOBS, angles, coordinates, equicorrelated, gram_of, quietly, rms, run_parts
from scipy.integrate import trapezoid
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import VersionSpace, inference, onion, papers
from bayespoint.evidence import log_evidence
from bayespoint.papers.reproduction.tools import split_of, stderr

# Set and gamma = 1 / (2 sigma²): sigma as in JMLR table 1 for sonar and banana.
WIDTHS = (("sonar", 0.5), ("heart", 0.05), ("heart", 0.1))
EP_WIDTHS = (("sonar", 0.5), ("heart", 0.05), ("banana", 2.0))
NARROW = ("heart", 0.005, 0.0)

METHOD_PROBLEMS = (("sonar", 0.5, 0.0), ("heart", 0.05, 0.1))
METHOD_NOISE = 0.05
BRIDGE_DRAWS = 200
STATES_DRAWS = 40_000
NESTED_DRAWS = 400

TRUTH_DRAWS = 2_000_000

EP_DRAWS = 12_000
EP_TEST_POINTS = 300
GIBBS_POINTS = 40


class Case(NamedTuple):
    """A version space and rate of label noise, and the evidence where it is known."""

    name: str
    space: VersionSpace
    noise: float = 0.0
    truth: float = np.nan


def problem(name, gamma, softness):
    """Version space of the first split, and kernel values and labels of its test points."""
    X, y, X_test, y_test = split_of(name, 1)
    space = VersionSpace(rbf_kernel(X, gamma=gamma), y, softness=softness)
    return space, rbf_kernel(X_test, X, gamma=gamma), y_test


def title(name, gamma, softness):
    return f"{name} gamma {gamma:g} softness {softness:g}"


def estimate(space, method, **settings):
    """Evidence, seconds, and whether there was a warning."""
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ConvergenceWarning)
        found = log_evidence(space, method=method, n_jobs=N_JOBS, **settings)
    return found, time.perf_counter() - begun, len(seen) > 0


def in_errors(difference, error):
    return f"{difference / error:+.1f}" if error > 1e-9 else "-"


# ---------------------------------------------------------------------- exact values


def of_gram(G):
    return VersionSpace(np.array(G), np.ones(len(G)))


def exact_cases():
    for m in (10, 50, 200):
        yield Case(f"correlation 1/2, m = {m}", equicorrelated(m).space, truth=-np.log(m + 1))
    for noise in (0.0, 0.1):
        yield Case(f"identity, m = 40, q = {noise:g}", of_gram(np.eye(40)), noise, -40 * np.log(2))
    two = of_gram([[1, -0.6], [-0.6, 1]])
    yield Case("m = 2", two, truth=np.log(0.25 + np.arcsin(-0.6) / (2 * np.pi)))
    three = of_gram([[1, 0.3, -0.2], [0.3, 1, 0.5], [-0.2, 0.5, 1]])
    wedge = np.sum(np.arcsin([0.3, -0.2, 0.5])) / (4 * np.pi)
    yield Case("m = 3", three, truth=np.log(0.125 + wedge))


def exact(_):
    print("\nlog evidence where it is known; z: less the truth, in stated standard errors")
    print(f"{'case':26}{'method':>9}{'value':>11}{'stderr':>9}{'truth':>11}{'z':>6}"
          f"{'seconds':>9}{'EP - truth':>12}")  # fmt: skip
    for case in exact_cases():
        ep = log_evidence(case.space, label_noise=case.noise, method="ep").value
        for method in ("tilting", "bridge") if case.noise == 0 else ("bridge",):
            settings = {"label_noise": case.noise, "random_state": 0}
            found, seconds, warned = estimate(case.space, method, **settings)
            z = in_errors(found.value - case.truth, found.stderr)
            print(f"{case.name:26}{method:>9}{found.value:11.4f}{found.stderr:9.4f}"
                  f"{case.truth:11.4f}{z:>6}{seconds:9.2f}{ep - case.truth:+12.4f}"
                  f"{'  warned' if warned else ''}", flush=True)  # fmt: skip
    strong_correlations(50)


def strong_correlations(m):
    print(f"\nEP at equal correlations, m = {m}, beside the exact integral")
    for rho in (0.5, 0.9, 0.99):
        ratio, z = np.sqrt(rho / (1 - rho)), np.linspace(-10, 10, 200_001)
        truth = np.log(trapezoid(norm.pdf(z) * norm.cdf(ratio * z) ** m, z))
        ep = inference.expectation_propagation(of_gram(rho + (1 - rho) * np.eye(m)))
        print(f"correlation {rho:<5g} truth {truth:8.4f}   EP {ep.log_evidence:8.4f}   difference "
              f"{ep.log_evidence - truth:+.4f}   sweeps {ep.sweeps}")  # fmt: skip


# ---------------------------------------------------------------------- estimators


def agree(_):
    print("\ntilting and bridges, default settings; z: bridge - tilting in standard errors of both")
    print(f"{'problem':32}{'m':>4}{'tilting (stderr)':>20}{'s':>6}{'bridge (stderr)':>20}{'s':>7}"
          f"{'z':>6}{'drift':>7}{'EP - tilting':>14}")  # fmt: skip
    problems = [(*width, softness) for width in WIDTHS for softness in (0.0, 0.1)]
    for settings in (*problems, ("banana", 2.0, 0.1), NARROW):
        space = problem(*settings)[0]
        tilting, quick, _ = estimate(space, "tilting", random_state=0)
        bridge, slow, warned = estimate(space, "bridge", random_state=0)
        ep = log_evidence(space, method="ep").value
        z = in_errors(bridge.value - tilting.value, np.hypot(bridge.stderr, tilting.stderr))
        print(f"{title(*settings):32}{len(space):4}{tilting.value:12.3f} ({tilting.stderr:.3f})"
              f"{quick:6.1f}{bridge.value:12.3f} ({bridge.stderr:.3f}){slow:7.1f}"
              f"{z:>6}{bridge.info['drift']:7.1f}{ep - tilting.value:+14.3f}"
              f"{'  bridge warned' if warned else ''}", flush=True)  # fmt: skip


def by_evidence(method, noise=0.0, n_draws=None):
    def run(space, seed):
        settings = {"label_noise": noise, "n_draws": n_draws, "random_state": seed}
        return [estimate(space, method, **settings)[0].value]

    return run


def by_states(space, seed):
    """Evidence at both rates from one flat-histogram run over the number of errors."""
    m = len(space)
    signed = of_gram(gram_of(space) * np.outer(space.y, space.y))
    shells = onion.sample_onion(signed, (0, m), STATES_DRAWS, random_state=seed, n_jobs=N_JOBS)
    log_volume, errors, q = shells.log_volume[0], np.arange(m + 1), METHOD_NOISE
    noisy = log_volume + errors * np.log(q) + (m - errors) * np.log1p(-q)
    return [log_volume[0], logsumexp(noisy)]


def by_nesting(space, seed):
    """Product over i of P(d_i > 0 | d_1, ..., d_(i-1) > 0) (Holmes, Diaconis, Ross)."""
    G, value = gram_of(space) * np.outer(space.y, space.y), np.log(0.5)
    for i in range(1, len(G)):
        settings = {"random_state": 1000 * seed + i, "n_jobs": N_JOBS}
        post = inference.sample_billiard(of_gram(G[:i, :i]), NESTED_DRAWS, **settings)
        value += np.log(post.predictive(G[i : i + 1, :i], G[i : i + 1, i])[0])
    return [value]


ESTIMATORS = {
    "tilting": ((0.0,), by_evidence("tilting")),
    "bridge": ((0.0,), by_evidence("bridge", 0.0, BRIDGE_DRAWS)),
    "nested": ((0.0,), by_nesting),
    "states": ((0.0, METHOD_NOISE), by_states),
    "bridge, noisy": ((METHOD_NOISE,), by_evidence("bridge", METHOD_NOISE, BRIDGE_DRAWS)),
}


def methods(n_runs):
    n_runs = n_runs or 5
    print(f"\nseconds until a standard error of 0.1: seconds x variance / 0.01, from {n_runs} "
          f"independent runs each\n(tilting 50,000 draws, bridge {BRIDGE_DRAWS} draws per level, "
          f"states {STATES_DRAWS} draws, nested {NESTED_DRAWS} draws per factor)")  # fmt: skip
    print(f"{'problem':32}{'method':>14}{'q':>6}{'mean (stderr)':>20}{'deviation':>11}"
          f"{'s a run':>9}{'s to 0.1':>10}")  # fmt: skip
    for settings in METHOD_PROBLEMS:
        space = problem(*settings)[0]
        for name, (rates, run) in ESTIMATORS.items():
            begun = time.perf_counter()
            values = np.array([quietly(run, space, 1 + seed) for seed in range(n_runs)])
            seconds = (time.perf_counter() - begun) / n_runs
            for rate, column in zip(rates, values.T, strict=True):
                deviation = np.std(column, ddof=1)
                print(f"{title(*settings):32}{name:>14}{rate:6g}{column.mean():12.3f} "
                      f"({stderr(column):.3f}){deviation:11.4f}{seconds:9.2f}"
                      f"{seconds * deviation**2 / 0.01:10.4f}", flush=True)  # fmt: skip


def moons_case():
    """Twenty points and noisy labels; the evidence by drawing one margin after the other."""
    X, y = make_moons(20, noise=0.2, random_state=0)
    space, q, n = VersionSpace(rbf_kernel(X, gamma=2.0), 2.0 * y - 1), 0.1, TRUTH_DRAWS
    L = np.linalg.cholesky(gram_of(space) * np.outer(space.y, space.y))
    rng, x, weight = np.random.default_rng(0), np.empty((20, n)), np.ones(n)
    for k in range(20):
        wrong, u = norm.cdf(-(L[k, :k] @ x[:k]) / L[k, k]), rng.random(n)
        each = 1 - q - (1 - 2 * q) * wrong
        right = rng.random(n) < (1 - q) * (1 - wrong) / each
        x[k] = norm.ppf(np.where(right, wrong + u * (1 - wrong), u * wrong))
        weight *= each
    truth, error = np.log(weight.mean()), stderr(weight) / weight.mean()
    return Case(f"moons, q = 0.1 ({error:.4f})", space, q, truth)


def repeat(n_runs):
    n_runs = n_runs or 50
    print(f"\n{n_runs} repetitions; ratio: standard deviation of the values / root mean square of "
          f"the stated errors (0.7 to 1.3);\nz: mean of (value - truth) / stated error (0 +- "
          f"{n_runs**-0.5:.2f}); in brackets the standard error of the truth, where it is "
          f"sampled")  # fmt: skip
    print(f"{'case':26}{'method':>9}{'truth':>10}{'mean':>10}{'deviation':>11}{'stated':>9}"
          f"{'ratio':>7}{'z':>7}{'largest |z|':>13}")  # fmt: skip
    small = Case("correlation 1/2, m = 10", equicorrelated(10).space, truth=-np.log(11))
    for case, method in ((small, "tilting"), (small, "bridge"), (moons_case(), "bridge")):
        settings = [{"label_noise": case.noise, "random_state": seed} for seed in range(n_runs)]
        found = [estimate(case.space, method, **each)[0] for each in settings]
        values, errors = np.array([[run.value, run.stderr] for run in found]).T
        deviation, z = np.std(values, ddof=1), (values - case.truth) / errors
        ratio = deviation / rms(errors)
        print(f"{case.name:26}{method:>9}{case.truth:10.4f}{values.mean():10.4f}{deviation:11.5f}"
              f"{rms(errors):9.5f}{ratio:7.2f}{z.mean():+7.2f}{np.abs(z).max():13.1f}"
              f"  {'holds' if 0.7 <= ratio <= 1.3 else 'FAILS'}", flush=True)  # fmt: skip


# ---------------------------------------------------------------------- expectation propagation


def ep_row(name, gamma, softness, noise):
    space, cross, y_test = problem(name, gamma, softness)
    common = {"label_noise": noise, "n_jobs": N_JOBS, "random_state": 0}
    post = inference.sample_billiard(space, EP_DRAWS, n_chains=8, travel=4.5 * np.pi, **common)
    ep = inference.expectation_propagation(space, label_noise=noise)
    points = [post, ep, papers.direct_bayes_point(space)]
    coef = np.array([point.bayes_point() for point in points])
    centre = coordinates(space, coef)
    wrong = 100 * np.mean(coef @ cross.T * y_test <= 0, axis=1)
    some = cross[:EP_TEST_POINTS]
    proba = [point.predictive(some, np.ones(len(some)), label=True) for point in points[:2]]
    gap = np.abs(proba[0] - proba[1])
    sampled = log_evidence(space, n_draws=BRIDGE_DRAWS if noise else None, **common)
    print(f"{title(name, gamma, softness):34}{len(space):4}{noise:6g}{ep.sweeps:7}"
          f"{np.degrees(post.bayes_point_error()):8.2f}{angles(centre[0], centre[1]):6.2f}"
          f"{angles(centre[0], centre[2]):8.2f}{gap.mean():9.4f}{gap.max():8.4f}"
          f"{ep.log_evidence - sampled.value:+9.3f} ({sampled.stderr:.3f})"
          f"{wrong[0]:8.2f}{wrong[1]:7.2f}{wrong[2]:8.2f}"
          f"{'' if ep.converged else '  EP not converged'}", flush=True)  # fmt: skip


def ep(_):
    print(f"\nEP beside {EP_DRAWS} long flights of the billiard: degrees from its Bayes point (and "
          f"its own standard error), differences of\nlabel probabilities at {EP_TEST_POINTS} test "
          f"points, of log evidence (stderr of sampling), and test errors in per cent")  # fmt: skip
    print(f"{'problem':34}{'m':>4}{'q':>6}{'sweeps':>7}{'error':>8}{'EP':>6}{'direct':>8}"
          f"{'p mean':>9}{'p max':>8}{'evidence':>17}{'bill.':>8}{'EP':>7}"
          f"{'direct':>8}")  # fmt: skip
    for name, gamma in EP_WIDTHS:
        for softness in (0.1, 0.01):
            for noise in (0.0, 0.05):
                quietly(ep_row, name, gamma, softness, noise)
    print(f"\nthe first {GIBBS_POINTS} points of sonar, softness 0.1: degrees between centres; "
          f"standard errors of the samplers' own in brackets")  # fmt: skip
    for noise in (0.0, 0.05):
        gibbs_row(noise)


def gibbs_row(noise):
    X, y = (part[:GIBBS_POINTS] for part in split_of("sonar", 1)[:2])
    space = VersionSpace(rbf_kernel(X, gamma=0.5), y, softness=0.1)
    common = {"label_noise": noise, "n_jobs": N_JOBS, "random_state": 0}
    gibbs = inference.sample_gibbs(space, 200_000, **common)
    billiard = inference.sample_billiard(space, EP_DRAWS, travel=4.5 * np.pi, **common)
    ep = inference.expectation_propagation(space, label_noise=noise)
    a, b, c = coordinates(space, np.array([p.bayes_point() for p in (gibbs, billiard, ep)]))
    own = [np.degrees(post.bayes_point_error()) for post in (gibbs, billiard)]
    print(f"q = {noise:<5g} Gibbs ({own[0]:.2f}) and billiard ({own[1]:.2f}): {angles(a, b):.2f}; "
          f"EP and Gibbs: {angles(a, c):.2f}; EP and billiard: {angles(b, c):.2f}; R-hat of Gibbs "
          f"{gibbs.info['rhat']:.3f}", flush=True)  # fmt: skip


PARTS = {
    "exact": exact, "agree": agree, "methods": methods, "repeat": repeat, "ep": ep,
}  # fmt: skip


if __name__ == "__main__":
    run_parts(PARTS, __doc__.splitlines()[0])
