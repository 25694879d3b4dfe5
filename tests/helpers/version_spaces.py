"""Small version spaces with exact answers, exact draws, and checks of samplers against them.

Closed forms are for G_ij = y_i y_j K_ij (mathematics: a Gaussian vector restricted to the positive
orthant has a direction that is uniform on version space and a length independent of it).
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import integrate
from scipy.special import gammaln
from scipy.stats import norm

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from helpers.thresholds import compare_means, fails_clearly, two_stage

N_CHAINS = 32

# Of the Bayes point.
SOURCES = ("kicks", "path", "draws")

# Exact draws for each draw of a chain: the comparison includes their error, which is then small.
EXACT_DRAWS = 2


class Problem(NamedTuple):
    """Training points: Gram matrix, labels, probability that a label is wrong."""

    K: np.ndarray
    y: np.ndarray
    noise: object = 0.0

    @property
    def space(self):
        return VersionSpace(self.K, self.y)

    @property
    def signed(self):
        """G_ij = y_i y_j K_ij."""
        return self.K * np.outer(self.y, self.y)


# ---------------------------------------------------------------------- problems


def labels(m, seed=0):
    """Labels of both kinds, without a pattern."""
    y = np.random.default_rng(seed).choice([-1, 1], m)
    y[:2] = (1, -1)[: min(m, 2)]
    return y


def features(m, dim, seed):
    """Vectors z_i = y_i phi(x_i) of unequal lengths, gathered about a direction.

    Gathered, so that rejection keeps some ten per cent.
    """
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((m, dim)) + np.sqrt(dim) * np.eye(dim)[0]
    return z * np.exp(0.7 * rng.standard_normal((m, 1)))


def skewed(m, seed, dim=None, noise=0.0):
    """A version space without symmetries: unequal angles and lengths, mixed labels."""
    y = labels(m, seed)
    phi = y[:, None] * features(m, dim or m, seed)
    return Problem(phi @ phi.T, y, noise)


def with_duplicates(seed, noise=0.0):
    """Eight points with coinciding walls: a copy, one turned round, one twice as long."""
    five = skewed(5, seed)
    copied = np.array([0, 1, 2, 3, 4, 0, 2, 2])
    times = np.array([1, 1, 1, 1, 1, 1, -1, 2])
    K = five.K[np.ix_(copied, copied)] * np.outer(times, times)
    return Problem(K, five.y[copied] * np.sign(times), noise)


def with_both_labels(seed, first, noise):
    """Six points, two of them equal with different labels; ``first``: which one comes first."""
    five = skewed(5, seed)
    copied = np.array([0, 1, 2, 3, 4, 0])
    y = np.append(five.y, -five.y[0])
    order = np.roll(np.arange(6), first)
    copied, y = copied[order], y[order]
    return Problem(five.K[np.ix_(copied, copied)], y, noise)


def on_a_line(noise):
    """Points in the same and in opposite directions: the sphere is two points."""
    phi = np.array([1.0, -2.0, 0.5, 1.5])
    return Problem(np.outer(phi, phi), np.array([1, -1, -1, 1]), noise)


def orthogonal(m, noise=0.0):
    """Walls at right angles, unequal lengths, mixed labels."""
    return Problem(np.diag(np.exp(np.random.default_rng(m).normal(0, 0.5, m))), labels(m), noise)


def equicorrelated(m, correlation=0.5):
    """Equal angles between all walls, unequal lengths, mixed labels."""
    y, length = labels(m), np.exp(np.random.default_rng(m).normal(0, 0.5, m))
    G = (correlation + (1 - correlation) * np.eye(m)) * np.outer(length, length)
    return Problem(G * np.outer(y, y), y)


# ---------------------------------------------------------------------- closed forms


def orthant_probability(covariance):
    """P(f > 0) for f ~ N(0, covariance) of at most three components."""
    scale = 1 / np.sqrt(np.diagonal(covariance))
    rho = covariance * np.outer(scale, scale)
    n = len(rho)
    pairs = np.arcsin(rho[np.triu_indices(n, 1)]).sum()
    return {0: 1.0, 1: 0.5, 2: 0.25 + pairs / (2 * np.pi), 3: 0.125 + pairs / (4 * np.pi)}[n]


def facets(G):
    """P(d_-i > 0 | d_i = 0) for each i: the share of each wall, at most four of them."""
    shares = []
    for i in range(len(G)):
        others = np.delete(np.arange(len(G)), i)
        given = G[np.ix_(others, others)] - np.outer(G[others, i], G[others, i]) / G[i, i]
        shares.append(orthant_probability(given))
    return np.array(shares)


def facet_centre(problem):
    """Coefficients of the unit centre of mass: y_i a_i sqrt(G_ii) proportional to facet i."""
    a = problem.y * facets(problem.signed) / np.sqrt(problem.signed.diagonal())
    return a / np.sqrt(a @ problem.K @ a)


def triangle_centre(problem):
    """Centre of a spherical triangle from its corners: edge angles times the edges' normals."""
    products = np.linalg.inv(problem.signed)  # of the corners, each off one wall only
    cosines = products / np.sqrt(np.outer(products.diagonal(), products.diagonal()))
    edges = np.arccos([cosines[1, 2], cosines[0, 2], cosines[0, 1]])
    a = problem.y * edges / 2 / np.sqrt(problem.signed.diagonal())
    return a / np.sqrt(a @ problem.K @ a)


def equicorrelated_centre(problem):
    """Centre of mass at equicorrelation 1/2: equal shares of every point."""
    m = len(problem.y)
    return problem.y / np.sqrt(problem.K.diagonal() * m * (m + 1) / 2)


def mean_length(rank):
    """Mean length of a standard Gaussian vector: the mean of chi with ``rank`` degrees."""
    return np.sqrt(2) * np.exp(gammaln((rank + 1) / 2) - gammaln(rank / 2))


def mean_margins(problem):
    """Mean margins of a uniform unit draw, at most three points (P(V) is closed up to there)."""
    G = problem.signed
    a = facets(G) / np.sqrt(2 * np.pi * G.diagonal()) / orthant_probability(G)
    return G @ a / mean_length(len(G))


def orthogonal_margin(m):
    """Mean margin, as a share of sqrt(G_ii), of a uniform unit draw where G is diagonal."""
    return np.sqrt(2 / np.pi) / mean_length(m)


def equicorrelated_margin(m):
    """The same at equicorrelation 1/2.

    d_i = (g_i - g_0) / sqrt(2) with independent g: all are positive where g_0 is the least of
    m + 1, and the mean of the others is then -E[least] / m.
    """
    greatest = integrate.quad(
        lambda x: (m + 1) * x * norm.pdf(x) * norm.cdf(x) ** m, -10, 10, epsabs=1e-13, limit=200
    )[0]
    return (1 + 1 / m) * greatest / np.sqrt(2) / mean_length(m)


# ---------------------------------------------------------------------- exact draws


def coordinates(K):
    """Rows are the phi(x_i) in an orthonormal basis of their span, from eigenvectors."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-10 * values[-1]
    phi = vectors[:, keep] * np.sqrt(values[keep])
    first_equal = np.argmax(np.all(K[:, None] == K, axis=2), axis=1)
    return phi[first_equal]  # to the last bit


def exact_draws(problem, n, rng):
    """Independent draws of the posterior by rejection from the prior: coefficients of unit vectors.

    A draw of the prior is kept with probability prod_i (q_i / (1 - q_i))^(e_i): for clean labels,
    if it makes no error.
    """
    phi = coordinates(problem.K)
    noise = np.broadcast_to(problem.noise, len(phi))
    with np.errstate(divide="ignore"):
        log_odds = np.maximum(np.log(noise / (1 - noise)), -1e300)
    held, n_held = [], 0
    while n_held < n:
        w = rng.standard_normal((20_000, phi.shape[1]))
        wrong = w @ (-problem.y[:, None] * phi).T > 0
        kept = w[wrong @ log_odds > -rng.standard_exponential(len(w))]
        held.append(kept)
        n_held += len(kept)
    w = np.concatenate(held)[:n]
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    return w @ np.linalg.pinv(phi)


# ---------------------------------------------------------------------- samplers and checks


def billiard(problem, length, seed, **options):
    """Outputs of 32 chains, of shape (chains, length, points)."""
    post = sample_billiard(
        problem.space, n_draws=N_CHAINS * length, n_chains=N_CHAINS, random_state=seed,
        label_noise=problem.noise, **options,
    )  # fmt: skip
    return post.outputs.reshape(N_CHAINS, length, -1)


def margins_of(problem, outputs):
    """Margins as shares of sqrt(k(x, x))."""
    return problem.y * outputs / np.sqrt(problem.K.diagonal())


def moments(problem, outputs):
    """First and second moments of the margins, all pairs."""
    d = margins_of(problem, outputs)
    i, j = np.triu_indices(d.shape[-1])
    return np.concatenate([d, d[..., i] * d[..., j]], axis=-1)


def errors(problem, outputs, most):
    """Margins, number of errors, and whether it is 0, 1, ..., ``most`` or more."""
    d = margins_of(problem, outputs)
    e = np.count_nonzero(d < 0, axis=-1)[..., None]
    classes = [e == k for k in range(most)] + [e >= most]
    return np.concatenate([d, e, *classes], axis=-1)


def outside(problem, outputs):
    """Whether a draw makes an error."""
    return np.any(problem.y * outputs < 0, axis=-1, keepdims=True)


def against_exact_draws(problem, sampler=billiard, statistics=moments):
    """Check of means over 32 chains against as many independent batches of exact draws."""

    def check(length, seed):
        chains_seed, exact_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        chains = statistics(problem, sampler(problem, length, chains_seed)).mean(axis=1)
        rng = np.random.default_rng(exact_seed)
        coef = exact_draws(problem, N_CHAINS * EXACT_DRAWS * length, rng)
        exact = statistics(problem, coef @ problem.K)
        exact = exact.reshape(N_CHAINS, EXACT_DRAWS * length, -1).mean(axis=1)
        return compare_means(chains - exact, 0.0)

    return check


def against_means(problem, expected, sampler=billiard):
    """Check of mean margins (as shares of sqrt(k(x, x))) against exact ones."""

    def check(length, seed):
        margins = margins_of(problem, sampler(problem, length, seed)).mean(axis=1)
        return compare_means(margins, np.broadcast_to(expected, margins.shape[1]))

    return check


def seeds_of(seed, n=N_CHAINS):
    return np.random.SeedSequence(seed).generate_state(n).tolist()


def across(problem, coef, centre):
    """Outputs of vectors less their part along the unit ``centre``: zero for its direction."""
    outputs = coef @ problem.K
    along = outputs @ centre
    return (outputs - np.multiply.outer(along, centre @ problem.K)) / np.sqrt(problem.K.diagonal())


def against_centre(problem, centre, n_runs=N_CHAINS, **options):
    """Check of all three Bayes points, from kicks, path and draws, of independent runs."""

    def check(length, seed):
        space = problem.space
        posts = [
            sample_billiard(space, n_draws=length, n_chains=1, random_state=s, **options)
            for s in seeds_of(seed, n_runs)
        ]
        points = [[post.bayes_point(source) for source in SOURCES] for post in posts]
        return compare_means(across(problem, np.array(points), centre), 0.0)

    return check


def from_one_corner(problem, sampler=billiard):
    """Check of chains that start where one margin is not tiny; with noise, all labels wrong."""
    margins = np.array([1e-3, 1e-3, 1e-3, 1.0, 1e-3]) * (-1 if np.any(problem.noise) else 1)
    target = margins * problem.y * np.sqrt(problem.K.diagonal())
    corner = np.tile(np.linalg.solve(problem.K, target), (N_CHAINS, 1))
    return against_exact_draws(problem, partial(sampler, start=corner))


def from_exact_draws(problem, moves, sampler=sample_billiard, **options):
    """Check that a few moves from exact draws change no moment; ``length`` chains."""

    def statistics(outputs):
        wrong = np.count_nonzero(problem.y * outputs < 0, axis=-1)
        return np.column_stack([moments(problem, outputs), wrong])

    def check(length, seed):
        start = exact_draws(problem, length, np.random.default_rng(seed))
        post = sampler(
            problem.space, n_draws=length, n_chains=length, start=start, burn_in=moves - 1,
            label_noise=problem.noise, random_state=seed, **options,
        )  # fmt: skip
        return compare_means(statistics(post.outputs) - statistics(start @ problem.K), 0.0)

    return check


def error_ratio(problem, centre, posts, source, stated=None):
    """Stated error of the Bayes point, as a share of its scatter over runs; root mean squares."""
    errors = [stated(post) if stated else post.bayes_point_error(source) for post in posts]
    cosine = np.array([post.bayes_point(source) @ problem.K @ centre for post in posts])
    scatter = np.sqrt(np.mean(np.arccos(np.minimum(cosine, 1.0)) ** 2))
    return np.sqrt(np.mean(np.square(errors))) / scatter


def assert_passes(check, length, seed, detects):
    """Pass by the rule; and the test is sharp enough: it detects an error of ``detects``."""
    result = two_stage(check, length, seed)
    assert result.passed, result
    assert result.detectable < detects, result


def assert_caught(check, length, seed):
    """Fail by the rule, or so clearly that the longer run is not needed: a negative control."""
    first = check(length, seeds_of(seed, 1)[0])
    if not fails_clearly(first):
        result = two_stage(check, length, seed)
        assert not result.passed, result
