"""The kernel Gibbs sampler: one step against plain NumPy, chains against exact draws, its stops."""

import pickle
import threading
import time
import warnings

import numpy as np
import pytest
from helpers.classifiers import FIXED, flowers
from helpers.spaces import make_space
from helpers.stops import PROMPT_SECONDS, can_press, interrupt, press_ctrl_c
from helpers.thresholds import compare_means, two_stage
from helpers.version_spaces import (
    N_CHAINS,
    against_exact_draws,
    assert_passes,
    billiard,
    coordinates,
    errors,
    exact_draws,
    margins_of,
    moments,
    on_a_line,
    orthogonal,
    skewed,
    with_both_labels,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayespoint import BayesPointClassifier, VersionSpace
from bayespoint._loops import billiard as billiard_loop
from bayespoint._loops.billiard import CURSOR_SIZE, RANDOM, crossing_angle
from bayespoint._support.budget import Budget
from bayespoint.inference import sample_billiard, sample_gibbs
from bayespoint.inference.billiard import balls as billiards
from bayespoint.inference.billiard import flights
from bayespoint.space.version_space import EmptyVersionSpaceError

# ---------------------------------------------------------------------- one step, in plain NumPy


class Circle:
    """Great circles w cos t + v sin t, -pi < t <= pi: their intervals and probabilities.

    P and Q are outputs of w and v, (..., m). Wrong variants for negative controls: ``lengths``,
    whether the lengths of intervals count; ``change``, what crossing a wall does to the energy:
    "raises" counts every crossing as a new error, also where the label was wrong; ``half``, only
    t > 0.
    """

    def __init__(self, P, Q, y, odds, lengths=True, change="by label", half=False):
        places = np.arctan2(-P, Q)[..., odds > 0]
        opposite = np.where(places > 0, places - np.pi, places + np.pi)
        ends = [np.full((*P.shape[:-1], 1), end) for end in (-np.pi, np.pi)]
        self.ends = np.sort(np.concatenate([*ends, places, opposite], axis=-1))
        if half:
            self.ends = np.maximum(self.ends, 0.0)
        length = np.diff(self.ends)
        t = (self.ends[..., :-1] + length / 2)[..., None]
        outputs = P[..., None, :] * np.cos(t) + Q[..., None, :] * np.sin(t)
        right = y if change == "by label" else np.sign(P)[..., None, :]
        cost = np.where(outputs * right < 0, odds, 0.0).sum(axis=-1)
        weight = (length if lengths else length > 0) * np.exp(cost.min(-1, keepdims=True) - cost)
        self.probability = weight / weight.sum(axis=-1, keepdims=True)

    def angle(self, which, where):
        """Place ``where``, a share, of the interval that the uniform number ``which`` chooses."""
        before = np.cumsum(self.probability, axis=-1) <= np.asarray(which)[..., None]
        k = np.count_nonzero(before, axis=-1)[..., None]
        low, high = (np.take_along_axis(self.ends, k + j, axis=-1)[..., 0] for j in (0, 1))
        return low + where * (high - low)


def make_circle(seed, m=6, sure=0, silent=0):
    """Outputs of w and v, labels and log-odds; sure labels are right."""
    rng = np.random.default_rng(seed)
    P, Q = rng.standard_normal((2, m))
    y = rng.choice([-1.0, 1.0], m)
    odds = rng.uniform(0.1, 3.0, m)
    odds[:sure] = np.inf
    y[:sure] = np.sign(P[:sure])
    odds[m - silent :] = 0.0
    return P, Q, y, odds


def compiled_angles(P, Q, y, odds, n, seed=0):
    cursor = np.zeros(CURSOR_SIZE, dtype=np.int64)
    cursor[RANDOM] = np.random.default_rng(seed).integers(2**62)
    places, changes = np.empty(2 * len(P)), np.empty(2 * len(P))
    return np.array(
        [crossing_angle(P, Q, y, odds, places, changes, cursor) for _ in range(n)]
    )  # fmt: skip


KINDS = {
    "noisy": {},
    "some labels sure": {"sure": 2},
    "all labels sure": {"sure": 6},
    "some labels that say nothing": {"silent": 2},
    "all kinds": {"sure": 1, "silent": 1},
    "one point": {"m": 1},
    "no label says anything": {"silent": 6},
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_uniform_number_leads_to_the_angle_it_has_to(monkeypatch, kind):
    """Exact, for a grid of numbers: intervals in their order, with weights of length and odds."""
    fed = []
    for name in ("_from_intervals", "_end"):
        monkeypatch.setattr(billiard_loop, name, getattr(billiard_loop, name).py_func)
    monkeypatch.setattr(billiard_loop, "uniform", lambda cursor: fed.pop(0))  # noqa: ARG005
    for seed in range(10):
        P, Q, y, odds = make_circle(seed, **KINDS[kind])
        circle = Circle(P, Q, y, odds)
        places, changes = np.empty(2 * len(P)), np.empty(2 * len(P))
        nothing_to_sort = np.all(np.isinf(odds) | (odds == 0))
        for which in np.arange(0.005, 1, 0.01):
            # Where there is nothing to sort, one number is enough.
            fed[:] = [which] if nothing_to_sort else [which, 0.25]
            angle = crossing_angle.py_func(P, Q, y, odds, places, changes, None)
            if nothing_to_sort:
                inside = np.flatnonzero(circle.probability)
                low, high = circle.ends[inside[0]], circle.ends[inside[-1] + 1]
                assert_allclose(angle, low + which * (high - low), atol=1e-12)
            else:
                assert_allclose(angle, circle.angle(which, 0.25), atol=1e-12)


def step_check(numbers, **variant):
    """Check the shares of the intervals, and the mean place in them, of compiled steps."""
    circle = Circle(*numbers, **variant)

    def check(length, seed):
        angles = compiled_angles(*numbers, N_CHAINS * length, seed)
        k = np.searchsorted(circle.ends, angles, side="right") - 1
        share = (angles - circle.ends[k]) / (circle.ends[k + 1] - circle.ends[k])
        inside = k[:, None] == np.flatnonzero(circle.probability > 1e-4)
        found = np.column_stack([inside, inside * (share - 0.5)[:, None]])
        expected = circle.probability[circle.probability > 1e-4]
        means = found.reshape(N_CHAINS, length, -1).mean(axis=1)
        return compare_means(means, np.append(expected, 0 * expected))

    return check


@pytest.mark.parametrize("kind", ["noisy", "some labels sure", "all kinds"])
def test_compiled_steps_choose_intervals_by_length_and_posterior(kind):
    check = step_check(make_circle(1, **KINDS[kind]))
    assert_passes(check, length=500, seed=0, detects=0.04)


WRONG = [{"lengths": False}, {"change": "raises"}, {"half": True}]


@pytest.mark.parametrize("variant", WRONG, ids=str)
def test_steps_with_other_weights_would_be_noticed(variant):
    assert not two_stage(step_check(make_circle(1), **variant), length=100, seed=0).passed


def test_a_step_with_all_labels_sure_stays_inside_and_is_uniform():
    P, Q, y, odds = make_circle(3, sure=6)
    angles = compiled_angles(P, Q, y, odds, 2_000)
    outputs = np.multiply.outer(np.cos(angles), P) + np.multiply.outer(np.sin(angles), Q)
    assert np.all(y * outputs > 0)
    circle = Circle(P, Q, y, odds)
    (inside,) = np.flatnonzero(circle.probability)
    low, high = circle.ends[inside : inside + 2]
    assert low < 0 < high
    assert np.min(angles) < low + 0.01 * (high - low)
    assert np.max(angles) > high - 0.01 * (high - low)


# ---------------------------------------------------------------------- against exact draws


def gibbs(problem, length, seed, **options):
    """Outputs of 32 chains, of shape (chains, length, points)."""
    post = sample_gibbs(
        problem.space, n_draws=N_CHAINS * length, n_chains=N_CHAINS, random_state=seed,
        label_noise=problem.noise, **options,
    )  # fmt: skip
    return post.outputs.reshape(N_CHAINS, length, -1)


PROBLEMS = {
    "all labels sure": skewed(5, 3),
    "all sure, in three dimensions": skewed(6, 4, dim=3),
    "all sure, coinciding walls": with_duplicates(1),
    "one rate": skewed(5, 1, noise=0.1),
    "one rate a point": skewed(5, 1, noise=np.array([0.02, 0.1, 0.2, 0.3, 0.45])),
    "some labels sure": skewed(5, 0, noise=np.array([0.0, 0.3, 0.0, 0.05, 0.2])),
    "two points": skewed(2, 2, noise=0.1),
    "six points in two dimensions": skewed(6, 2, dim=2, noise=0.2),
    "six points in three dimensions": skewed(6, 2, dim=3, noise=0.1),
    "coinciding walls": with_duplicates(1, np.array([0.1, 0.1, 0.2, 0.1, 0.3, 0.1, 0.1, 0.4])),
    "a sure label among copies": with_duplicates(1, np.array([0.1, 0, 0.2, 0.3, 0, 0.3, 0, 0.4])),
    "both labels, as likely": with_both_labels(1, 0, noise=0.1),
    "both labels, the other first": with_both_labels(1, 5, noise=0.1),
    "a sure label against another": with_both_labels(1, 0, np.array([0.3, 0.1, 0, 0.2, 0.1, 0])),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_moments_of_draws(name):
    """First and second moments of the margins, all pairs, against rejection sampling."""
    check = against_exact_draws(PROBLEMS[name], gibbs)
    assert_passes(check, length=400, seed=0, detects=0.08)


@pytest.mark.parametrize(("noise", "most"), [(0.05, 2), (0.3, 5)])
def test_numbers_of_errors(noise, most):
    """E[e] and P(e = k), e the number of errors."""
    check = against_exact_draws(
        skewed(6, 3, noise=noise), gibbs, statistics=lambda *args: errors(*args, most)
    )
    assert_passes(check, length=1_000, seed=0, detects=0.15)


def test_orthogonal_points():
    """Each margin is positive with probability 1 - q_i, independently."""
    noise = np.linspace(0.05, 0.45, 6)
    problem = orthogonal(6, noise)
    i, j = np.triu_indices(6, 1)
    expected = np.concatenate([1 - 2 * noise, (1 - 2 * noise[i]) * (1 - 2 * noise[j])])

    def check(length, seed):
        sign = np.sign(margins_of(problem, gibbs(problem, length, seed)))
        both = np.concatenate([sign, sign[..., i] * sign[..., j]], axis=-1)
        return compare_means(both.mean(axis=1), expected)

    assert_passes(check, length=1_000, seed=0, detects=0.12)


def test_points_on_a_line():
    """Two classifiers, whose odds are the product of the odds of all labels."""
    noise = np.array([0.3, 0.2, 0.1, 0.4])
    problem = on_a_line(noise)
    agrees = problem.y * problem.K[0] > 0
    odds = np.prod(np.where(agrees, (1 - noise) / noise, noise / (1 - noise)))

    def check(length, seed):
        positive = gibbs(problem, length, seed)[..., :1] > 0
        return compare_means(positive.mean(axis=1), odds / (1 + odds))

    assert_passes(check, length=500, seed=0, detects=0.04)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_the_billiard_has_the_same_posterior(noise):
    problem = skewed(6, 3, noise=noise)

    def check(length, seed):
        means = [moments(problem, f(problem, length, seed)).mean(axis=1) for f in (gibbs, billiard)]
        return compare_means(means[0] - means[1], 0.0)

    assert_passes(check, length=1_000, seed=0, detects=0.06)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("name", ["all labels sure", "some labels sure", "coinciding walls"])
def test_exact_draws_stay_exact(name, steps):
    """Stationarity: thousands of chains from exact draws; their last positions are compared."""
    problem = PROBLEMS[name]

    def statistics(outputs):
        wrong = np.count_nonzero(problem.y * outputs < 0, axis=-1)
        return np.column_stack([moments(problem, outputs), wrong])

    def check(length, seed):
        start = exact_draws(problem, length, np.random.default_rng(seed))
        post = sample_gibbs(
            problem.space, n_draws=length, n_chains=length, start=start, burn_in=steps - 1,
            label_noise=problem.noise, random_state=seed,
        )  # fmt: skip
        return compare_means(statistics(post.outputs) - statistics(start @ problem.K), 0.0)

    assert_passes(check, length=3_000, seed=0, detects=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_chains_from_one_corner_arrive(noise):
    """Convergence: all start where a single margin is not tiny, or with every label wrong."""
    problem = skewed(5, 3, noise=noise)
    target = np.array([1e-3, 1e-3, 1e-3, 1.0, 1e-3]) * problem.y * (1 if noise == 0 else -1)
    corner = np.linalg.solve(problem.K, target * np.sqrt(problem.K.diagonal()))

    def sampler(problem, length, seed):
        return gibbs(problem, length, seed, start=np.tile(corner, (N_CHAINS, 1)))

    assert_passes(against_exact_draws(problem, sampler), length=1_000, seed=0, detects=0.06)


# ---------------------------------------------------------------------- negative controls


def plain_gibbs(problem, length, seed, **variant):
    """Outputs of chains of plain steps that start from exact draws, (chains, length, points)."""
    rng = np.random.default_rng(seed)
    phi = coordinates(problem.K)
    noise = np.broadcast_to(problem.noise, len(phi))
    odds = np.log((1 - noise) / noise)
    w = exact_draws(problem, N_CHAINS, rng) @ phi
    outputs = np.empty((N_CHAINS, length, len(phi)))
    for step in range(length):
        v = rng.standard_normal(w.shape)
        v -= np.sum(v * w, axis=1, keepdims=True) * w
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        circle = Circle(w @ phi.T, v @ phi.T, problem.y, odds, **variant)
        t = circle.angle(*rng.random((2, N_CHAINS)))[:, None]
        w = w * np.cos(t) + v * np.sin(t)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        outputs[:, step] = w @ phi.T
    return outputs


@pytest.mark.parametrize("variant", [{}, *WRONG], ids=str)
def test_plain_steps_pass_and_their_wrong_variants_are_caught(variant):
    def sampler(*args):
        return plain_gibbs(*args, **variant)

    def statistics(*args):
        return errors(*args, 4)

    check = against_exact_draws(skewed(5, 1, noise=0.2), sampler, statistics)
    assert two_stage(check, length=120, seed=0).passed == (not variant)


@pytest.mark.parametrize(
    "changed",
    [
        {"noise": 0.3},  # another rate
        {"noise": np.array([0.2, 0.2, 0.2, 0.2, 0.0])},  # a label that is not sure
        {"y": skewed(5, 1).y * [1, 1, 1, 1, -1]},  # a label turned round
    ],
    ids=["rate", "sure", "label"],
)
def test_draws_of_another_posterior_are_caught(changed):
    problem = skewed(5, 1, noise=0.2)

    def sampler(_, length, seed):
        return gibbs(problem._replace(**changed), length, seed)

    check = against_exact_draws(problem, sampler, lambda *args: errors(*args, 3))
    assert not two_stage(check, length=100, seed=0).passed


@pytest.mark.filterwarnings("ignore:the chains of the Gibbs sampler do not agree")
def test_copies_taken_for_one_label_are_caught():
    """Two equal noisy labels say more than one."""
    problem = with_duplicates(1, 0.3)
    five = problem._replace(K=problem.K[:5, :5], y=problem.y[:5])

    def sampler(_, length, seed):
        outputs = gibbs(five, length, seed)
        coef = outputs @ np.linalg.pinv(five.K)
        return coef @ problem.K[:5]

    assert not two_stage(against_exact_draws(problem, sampler), length=150, seed=0).passed
    assert_passes(against_exact_draws(problem, gibbs), length=300, seed=0, detects=0.1)


# ---------------------------------------------------------------------- invariants


@pytest.mark.parametrize("few_dimensions", [0, 100])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_every_draw_is_a_unit_vector(noise, few_dimensions, monkeypatch):
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", few_dimensions)
    problem = with_duplicates(1)
    post = sample_gibbs(problem.space, n_draws=2_000, label_noise=noise, random_state=0)
    outputs = post.coef @ problem.K
    assert_allclose(np.einsum("dj,dj->d", post.coef, outputs), 1.0, atol=1e-9)
    assert_allclose(post.outputs, outputs, atol=1e-9 * np.sqrt(problem.K.diagonal().max()))
    wrong = np.count_nonzero(problem.y * outputs < 0, axis=1)
    assert_array_equal(post.info["errors"], wrong)
    assert np.any(wrong) == (noise > 0)
    assert post.info["restarts"] == 0
    assert post.info["drift"] < 1e-9


@pytest.mark.parametrize("name", ["one rate", "some labels sure", "all labels sure"])
def test_vectors_in_coordinates_and_as_sums_over_the_points_walk_alike(name, monkeypatch):
    problem = PROBLEMS[name]
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", 100)
    in_coordinates = gibbs(problem, 200, seed=0)
    monkeypatch.setattr(billiards, "FEW_DIMENSIONS", 0)
    sums = gibbs(problem, 200, seed=0)
    assert not np.array_equal(sums, in_coordinates)
    assert_allclose(sums, in_coordinates, atol=1e-8)


def test_labels_that_are_almost_sure_are_sure():
    problem = skewed(5, 3)
    start = exact_draws(problem, 4, np.random.default_rng(0))
    post = sample_gibbs(problem.space, 2_000, start=start, label_noise=1e-12, random_state=0)
    assert not np.any(post.info["errors"])


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("softness", [0.1, 2.0])
def test_softness_is_a_longer_diagonal(softness, noise):
    problem = skewed(8, 4, dim=3)
    softened = problem.K + softness * np.diag(problem.K.diagonal())
    soft, plain = (
        sample_gibbs(space, n_draws=32, burn_in=3, label_noise=noise, random_state=0)
        for space in (
            VersionSpace(problem.K, problem.y, softness),
            VersionSpace(softened, problem.y),
        )
    )
    assert_allclose(soft.coef, plain.coef, atol=1e-7)
    assert_allclose(soft.outputs, plain.outputs, atol=1e-7)


@pytest.mark.parametrize("y", [1, -1])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_single_point(y, noise):
    post = sample_gibbs(VersionSpace([[2.0]], [y]), 4_000, label_noise=noise, random_state=0)
    assert_allclose(np.abs(post.outputs), np.sqrt(2.0))
    right = np.mean(y * post.outputs > 0)
    assert abs(right - (1 - noise)) <= 5.5 * np.sqrt(noise * (1 - noise) / 4_000)


# ---------------------------------------------------------------------- seeds, threads, draws


@pytest.fixture
def silent():
    """A few draws need not agree from chain to chain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the chains of the Gibbs sampler do not agree")
        yield


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("m", [9, 300])
def test_same_seed_same_draws_whatever_the_threads(m, noise):
    space = make_space(m=m, softness=0.1)
    options = {"n_draws": 60, "n_chains": 5, "label_noise": noise, "burn_in": 3}
    one, again, two, all_, other = (
        sample_gibbs(space, **options, n_jobs=n_jobs, random_state=seed)
        for n_jobs, seed in [(1, 0), (1, 0), (2, 0), (-1, 0), (1, 1)]
    )
    for post in (again, two, all_):
        assert_array_equal(post.coef, one.coef)
        assert_array_equal(post.outputs, one.outputs)
        assert_array_equal(post.bayes_point(), one.bayes_point())
    assert not np.any(np.all(other.coef == one.coef, axis=1))
    assert len({chain.tobytes() for chain in one.draws()}) == 5


@pytest.mark.usefixtures("silent")
def test_a_random_state_moves_on():
    space = make_space(m=9)
    states = [np.random.RandomState(3) for _ in range(2)]
    one, two = (sample_gibbs(space, 40, random_state=state).coef for state in states)
    assert_array_equal(one, two)
    assert np.any(sample_gibbs(space, 40, random_state=states[0]).coef != one)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("n_draws", "n_chains", "n_per_chain"),
    [(1, 1, 1), (1, 4, 1), (10, 4, 3), (12, 4, 3), (3, 7, 1)],
)
def test_draws_are_rounded_up_to_the_same_number_for_each_chain(n_draws, n_chains, n_per_chain):
    post = sample_gibbs(make_space(m=9), n_draws, n_chains=n_chains, thin=2, random_state=0)
    assert post.draws().shape == (n_chains, n_per_chain, 9)
    assert post.info["errors"].shape == (post.n_draws,)
    assert {"rhat", "ess", "drift", "flight_seconds"} <= set(post.info)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_thinning_leaves_out_draws_and_burn_in_the_first(noise):
    """Steps of other lengths settle elsewhere, which moves roundings and nothing else."""
    space = make_space(m=9)
    options = {"n_chains": 1, "label_noise": noise, "random_state": 0}
    every = sample_gibbs(space, 30, burn_in=0, **options).coef
    thinned = sample_gibbs(space, 10, burn_in=0, thin=3, **options).coef
    assert_allclose(thinned, every[2::3], atol=1e-8)
    later = sample_gibbs(space, 20, burn_in=10, **options).coef
    assert_allclose(later, every[10:], atol=1e-8)


def test_the_bayes_point_comes_from_the_draws():
    problem = skewed(5, 3, noise=0.1)
    post = sample_gibbs(problem.space, 2_000, label_noise=0.1, random_state=0)
    mean = post.coef.mean(axis=0)
    assert_allclose(post.bayes_point(), mean / np.sqrt(mean @ problem.K @ mean), atol=1e-12)
    assert 0 < post.bayes_point_error() < 0.5
    for source in ("kicks", "path"):
        with pytest.raises(ValueError, match=rf"source must be .*'draws'.*got '{source}'"):
            post.bayes_point(source)


# ---------------------------------------------------------------------- stops


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Compile before the clock runs."""
    sample_gibbs(make_space(m=3), n_draws=4, random_state=0)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_max_time_returns_the_draws_made_so_far(noise):
    space = make_space(m=200)
    begun = time.perf_counter()
    post = sample_gibbs(space, 10**6, burn_in=5, label_noise=noise, max_time=0.3, random_state=0)
    assert 0.3 <= time.perf_counter() - begun < PROMPT_SECONDS
    assert 4 < post.n_draws < 10**6
    assert post.n_draws % 4 == 0
    assert_allclose(np.einsum("ij,ij->i", post.coef, post.outputs), 1.0, rtol=1e-8)
    assert_allclose(post.outputs, space.outputs(post.coef), atol=1e-8)
    if not noise:
        assert np.all(space.y * post.outputs > 0)


def test_without_time_the_starts_come_back_with_a_warning():
    with pytest.warns(ConvergenceWarning, match=r"time was up.*Gibbs sampler.*max_time"):
        post = sample_gibbs(make_space(m=50), 1000, max_time=1e-9, n_chains=5, random_state=0)
    assert post.n_draws == post.n_chains == 5


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("after", [0, 3])
def test_an_interrupt_from_inside_comes_out_and_leaves_everything_usable(
    n_jobs, after, monkeypatch
):
    space = make_space(m=60)
    expected = sample_gibbs(space, 40, random_state=0).coef
    n_threads = threading.active_count()
    with monkeypatch.context() as patch:
        interrupt(patch, Budget, "show", after)
        patch.setattr(flights, "MAX_FLIGHTS", 1)
        with pytest.raises(KeyboardInterrupt):
            sample_gibbs(space, 40, n_jobs=n_jobs, random_state=0)
    assert threading.active_count() == n_threads
    assert_array_equal(sample_gibbs(space, 40, random_state=0).coef, expected)


@can_press
@pytest.mark.parametrize(("n_jobs", "noise"), [(1, 0.1), (2, 0.0)])
def test_ctrl_c_acts_at_once(n_jobs, noise):
    space = make_space(m=60)
    n_threads = threading.active_count()
    sent = []

    def press():
        sent.append(time.perf_counter())
        press_ctrl_c()

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sample_gibbs(space, 10**7, n_jobs=n_jobs, label_noise=noise, thin=100)
    assert time.perf_counter() - sent[0] < PROMPT_SECONDS
    timer.join()
    assert threading.active_count() == n_threads


def test_progress_goes_to_standard_error_and_only_when_asked_for(capsys):
    space = make_space(m=5)
    sample_gibbs(space, 40, random_state=0)
    assert capsys.readouterr() == ("", "")
    sample_gibbs(space, 40, verbose=1, burn_in=7, random_state=0)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Gibbs" in err
    assert "17/17" in err


def xor():
    """Exclusive or in a plane: each classifier has at least one error; starts with each of them."""
    X = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    wrong = [np.linalg.solve(np.delete(X, i, axis=0), np.delete(y, i)) for i in range(4)]
    start = np.array([np.linalg.lstsq(X.T, w, rcond=None)[0] for w in wrong])
    return VersionSpace(X @ X.T, y), start


def test_chains_that_do_not_agree_are_warned_about():
    """100 points, as in sonar: from consistent and from random starts, a few hundred steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 10))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, 1, -1)
    space = VersionSpace(rbf_kernel(X, gamma=0.05), y)
    with pytest.warns(ConvergenceWarning, match=r"the chains of the Gibbs sampler.*n_draws"):
        post = sample_gibbs(space, 400, label_noise=0.05, random_state=0)
    assert post.info["rhat"] > 1.2
    # The billiard, with the same starts, is through with it.
    flown = sample_billiard(space, 400, thin=8, label_noise=0.05, random_state=0)
    assert flown.info["rhat"] < 1.2


def test_four_cells_far_apart_are_not_a_problem():
    """A great circle leads from one to the other, which flights do not find."""
    space, start = xor()
    post = sample_gibbs(space, 4_000, label_noise=0.01, start=start, random_state=0)
    assert post.info["rhat"] < 1.05
    wrong = space.y * post.outputs < 0
    assert np.all(np.any(wrong, axis=1))
    assert np.all(wrong.mean(axis=0) > 0.1)


# ---------------------------------------------------------------------- bad input

SPACE = make_space(m=6)
NOT_COUNTS = (0, -3, 1.5, "x", None, True, [3], np.nan)

ARGUMENTS = {
    "n_draws": (NOT_COUNTS, "n_draws must be a whole number >= 1"),
    "n_chains": (NOT_COUNTS, "n_chains must be a whole number >= 1"),
    "thin": (NOT_COUNTS, "thin must be a whole number >= 1"),
    "max_time": ((0, -1, np.nan, np.inf, "x", True), "max_time must be a finite number > 0"),
    "burn_in": ((-1, 1.5, np.nan, "x", True), "burn_in must be "),
    "n_jobs": ((0, 1.5, "x"), "n_jobs"),
    "verbose": ((-1, 1.5, "x", None), "verbose must be "),
    "random_state": (("x", -1, 1.5, [1]), "random_state must be None, a whole number"),
    "label_noise": (
        (-0.1, 0.5, 1, np.nan, "x", None, True, [0.1] * 5 + [0.5]),
        r"label_noise must lie in \[0, 0\.5\)",
    ),
    "label_noise shape": (
        ([0.1], np.full(7, 0.1), np.full((6, 1), 0.1), []),
        "label_noise must be one rate or one for each of 6 points",
    ),
    "start": (("x", b"random"), r"start must be an array, one of"),
    "start shape": ((np.ones(6), np.ones((3, 6)), 3, []), r"start must have one row of 6"),
    "start side": ((-SPACE.y * np.ones((4, 6)),), r"start must lie inside version space; chains"),
}
CASES = [
    pytest.param(name.split()[0], value, message, id=f"{name}-{k}")
    for name, (values, message) in ARGUMENTS.items()
    for k, value in enumerate(values)
]


@pytest.mark.parametrize(("name", "value", "message"), CASES)
def test_a_wrong_argument_is_one_error_that_names_it(name, value, message):
    with pytest.raises(ValueError, match=message):
        sample_gibbs(SPACE, **{"n_draws": 4, "random_state": 0, name: value})


@pytest.mark.parametrize("space", [np.eye(2), None, "x"], ids=["matrix", "none", "string"])
def test_what_is_no_version_space_is_refused(space):
    with pytest.raises((ValueError, TypeError), match=r"space must be a VersionSpace"):
        sample_gibbs(space)


def test_what_belongs_to_the_billiard_is_refused():
    for name in ("travel", "travel_time", "tol", "n_path"):
        with pytest.raises(TypeError, match=name):
            sample_gibbs(SPACE, **{name: 1})


def test_an_empty_version_space_names_its_points():
    problem = with_both_labels(1, 0, noise=0.0)
    with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 5\]") as caught:
        sample_gibbs(problem.space, 40, random_state=0)
    assert_array_equal(caught.value.points, [0, 5])
    for noise in (0.1, [0.1, 0, 0, 0, 0, 0]):
        assert sample_gibbs(problem.space, 40, label_noise=noise, random_state=0).n_draws == 40


# ---------------------------------------------------------------------- the classifier


def classifier(**settings):
    """Gibbs sampler with so few draws that there is no R-hat, which could warn."""
    return BayesPointClassifier(
        **{"inference": "gibbs", "n_draws": 8, "random_state": 0, **FIXED, **settings}
    )


@pytest.mark.parametrize(
    ("n_classes", "label_noise", "decision"),
    [
        (2, 0.0, "auto"),
        (2, 0.1, "bayes_point"),
        (2, 0.1, "span_vote"),
        (3, 0.1, "auto"),
        (3, 0.0, "bayes_point"),
    ],
)
def test_a_classifier_by_gibbs_steps(n_classes, label_noise, decision):
    X, y, new, labels = flowers(n_classes)
    settings = {"label_noise": label_noise, "decision": decision, "n_draws": 80}
    clf = classifier(**settings).fit(X, y)
    assert clf.inference_ == "gibbs"
    assert clf.inference_reason_ == "asked for"
    assert clf.n_draws_ == 80
    assert clf.score(new, labels) > 0.85
    p = clf.predict_proba(new)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(p.argmax(axis=1), clf.predict(new))
    n_machines = 1 if n_classes == 2 else n_classes
    assert clf.diagnostics_["rhat"].shape == (n_machines,)
    assert_array_equal(clf.diagnostics_["bounces"], 0)
    assert clf.dual_coef_.shape[0] == n_machines
    posterior = clf.posterior(0)
    assert posterior.n_chains == 4
    target = np.where(y == (1 if n_classes == 2 else 0), 1, -1)
    if not label_noise:
        assert np.all(target * posterior.outputs > 0)
    again = clone(clf).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(again.predict_proba(new), p)
    assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(new), p)
    other = clone(clf).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict_proba(new), p)


def test_auto_is_a_vote_and_never_gibbs():
    X, y, new, _ = flowers(3)
    by_default, vote = (classifier(decision=d).fit(X, y) for d in ("auto", "vote"))
    assert_array_equal(by_default.predict_proba(new), vote.predict_proba(new))
    settings = {"inference": "auto", "label_noise": 0.1}
    assert classifier(**settings).fit(X, y).inference_ == "ep"
    # Without room for EP.
    little = 40 * len(X) ** 2 / 1e6
    assert classifier(**settings, cache_size=little).fit(X, y).inference_ == "billiard"


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_the_classifier_agrees_with_the_billiard(label_noise):
    """Probabilities of 30 points, known to about 0.02; without labels they would be one half."""
    X, y = make_blobs(40, centers=[[0, 0], [1.5, 1.5]], random_state=0)
    settings = {"label_noise": label_noise, "gamma": 0.5, "softness": 0.5, "tol": 0}
    flown = classifier(**settings, inference="billiard", n_draws=2_000).fit(X[:10], y[:10])
    walked = classifier(**settings, n_draws=8_000).fit(X[:10], y[:10])
    p, q = (clf.predict_proba(X[10:])[:, 1] for clf in (flown, walked))
    assert np.abs(p - q).max() < 0.05
    assert np.abs(p - 0.5).max() > 0.15
    assert_allclose(flown.label_error_proba_, walked.label_error_proba_, atol=0.05)


@pytest.mark.parametrize("label_noise", [0.0, 0.1])
def test_a_warm_start_adds_draws(label_noise):
    X, y, new, _ = flowers(2)
    clf = classifier(warm_start=True, label_noise=label_noise).fit(X, y)
    first = clf.posterior(0).draws()
    clf.set_params(n_draws=20).fit(X, y)
    assert clf.n_draws_ == 20
    assert_array_equal(clf.posterior(0).draws()[:, :2], first)
    mean = clf.posterior(0).coef.mean(axis=0)
    found = clf.posterior(0).bayes_point()
    assert_allclose(found / np.linalg.norm(found), mean / np.linalg.norm(mean), atol=1e-9)
    proba, errors_ = clf.predict_proba(new), clf.label_error_proba_
    clf.set_params(n_draws=12).fit(X, y)  # none is taken away
    assert clf.n_draws_ == 20
    assert_array_equal(clf.predict_proba(new), proba)
    assert_allclose(clf.label_error_proba_, errors_, atol=1e-12)
    with pytest.raises(ValueError, match=r"warm_start=True.*inference"):
        clf.set_params(inference="billiard").fit(X, y)


def test_max_time_leaves_a_usable_fit():
    X, y, new, labels = flowers(3)
    clf = classifier(n_draws=10**6, tol=0, max_time=0.5, label_noise=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    assert 4 <= clf.n_draws_ < 10**6
    assert clf.score(new, labels) > 0.8
    assert clf.label_error_proba_.shape == y.shape


def test_the_classifier_warns_where_chains_do_not_agree():
    X, y = make_blobs(100, centers=[[0, 0], [1.5, 1.5]], random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"chains of the Gibbs sampler do not.*n_draws"):
        classifier(label_noise=0.05, n_draws=100).fit(X, y)
