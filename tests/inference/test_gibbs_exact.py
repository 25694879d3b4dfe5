"""Chains of the kernel Gibbs sampler have the posterior of exact draws."""

import numpy as np
import pytest
from helpers.thresholds import compare_means, two_stage
from helpers.version_spaces import (
    N_CHAINS,
    against_exact_draws,
    assert_passes,
    billiard,
    errors,
    from_exact_draws,
    from_one_corner,
    margins_of,
    moments,
    on_a_line,
    orthogonal,
    skewed,
    with_both_labels,
    with_duplicates,
)

from bayespoint.inference import sample_gibbs

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


QUICK = (
    "all sure, in three dimensions", "one rate a point", "some labels sure",
    "six points in two dimensions", "coinciding walls", "both labels, the other first",
)  # fmt: skip
NAMES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in PROBLEMS]


@pytest.mark.parametrize("name", NAMES)
def test_moments_of_draws(name):
    """First and second moments of the margins, all pairs, against rejection sampling."""
    check = against_exact_draws(PROBLEMS[name], gibbs)
    assert_passes(check, length=300, seed=0, detects=0.1)


def test_numbers_of_errors():
    """E[e] and P(e = k), e the number of errors."""
    check = against_exact_draws(
        skewed(6, 3, noise=0.3), gibbs, statistics=lambda *args: errors(*args, 5)
    )
    assert_passes(check, length=500, seed=0, detects=0.15)


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

    assert_passes(check, length=500, seed=0, detects=0.16)


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


@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
def test_the_billiard_has_the_same_posterior(noise):
    problem = skewed(6, 3, noise=noise)

    def check(length, seed):
        means = [moments(problem, f(problem, length, seed)).mean(axis=1) for f in (gibbs, billiard)]
        return compare_means(means[0] - means[1], 0.0)

    assert_passes(check, length=500, seed=0, detects=0.09)


@pytest.mark.parametrize(
    ("name", "steps", "length"),
    [
        ("coinciding walls", 1, 1_000),
        *(
            pytest.param(name, steps, 3_000, marks=pytest.mark.slow)
            for name in ("all labels sure", "some labels sure", "coinciding walls")
            for steps in (1, 3)
        ),
    ],
)
def test_exact_draws_stay_exact(name, steps, length):
    """Stationarity: thousands of chains from exact draws; their last positions are compared."""
    check = from_exact_draws(PROBLEMS[name], steps, sample_gibbs)
    assert_passes(check, length, seed=0, detects=8 / np.sqrt(length))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_chains_from_one_corner_arrive(noise):
    """Convergence."""
    check = from_one_corner(skewed(5, 3, noise=noise), gibbs)
    assert_passes(check, length=400, seed=0, detects=0.1)


# ---------------------------------------------------------------------- negative controls


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
    assert not two_stage(check, length=40, seed=0).passed


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
    assert_passes(against_exact_draws(problem, gibbs), length=200, seed=0, detects=0.1)
