"""Points left out of the onion, and mixtures of shells, against draws without each of them."""

import numpy as np
import pytest
from helpers.onions import LEAST_SHARE, linear, prior_draws
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    N_CHAINS,
    Problem,
    across,
    assert_caught,
    assert_passes,
    coordinates,
    exact_draws,
    seeds_of,
    skewed,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace, onion
from bayespoint.inference import sample_billiard
from bayespoint.inference.onion import Onion
from bayespoint.inference.onion.leave_one_out import ShellDraws

SMALL = skewed(5, 1)  # labels + - + + -
EVERY_ERROR = (2, 3)

# Whole tables that are compared; most of their time does not depend on their length.
N_TABLES = 16


@pytest.fixture(scope="module")
def table():
    return onion.sample_onion(SMALL.space, EVERY_ERROR, 2_000, random_state=0)


def rbf(copied):
    """Points in the plane, some of them more than once, their labels mixed."""
    X = np.array([[0.0, 0], [1, 0.5], [-0.5, 1], [0.3, -1], [0.8, -0.4], [-1, -0.5]])[copied]
    y = np.array([1, 1, -1, 1, -1, -1])[copied]
    return Problem(np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2)), y)


LEFT_OUT = {  # problem, softness
    "six dimensions": (skewed(6, 3), 0.0),
    "a sphere": (linear(7, 3, 3), 0.0),
    "coinciding walls": (with_duplicates(1), 0.0),
    "a copy": (rbf([0, 1, 2, 3, 4, 5, 1]), 0.0),
    "softness": (linear(7, 3, 3, flipped=(2,)), 0.4),
}


def softened(problem, softness):
    return problem._replace(K=problem.K + softness * np.diag(problem.K.diagonal()))


def shells_without_each(problem, outputs):
    """Numbers of wrong labels -1 and +1 without each point: two arrays (draws, points)."""
    wrong = [(problem.y * outputs < 0) & (problem.y == label) for label in (-1, 1)]
    return [one.sum(axis=1, keepdims=True) - one for one in wrong]


def in_span_of_others(problem, i, w):
    """Coordinates of vectors, and of point i, in the span of the other points."""
    phi = coordinates(problem.K)
    _, lengths, basis = np.linalg.svd(np.delete(phi, i, axis=0))
    basis = basis[: np.count_nonzero(lengths > 1e-9)]
    return w @ basis.T, basis @ phi[i]


def exact_sums(problem, n, rng):
    """Of 32 batches of ``n`` draws: share of each shell without a point, and outputs at it.

    Two arrays (batches, shells, points). Unit vectors are those of the span of the others, but
    where the Gram matrix is singular those of all points: the directions of means do not differ.
    """
    phi = coordinates(problem.K)
    w = prior_draws(problem, N_CHAINS * n, rng) @ phi
    m, singular = len(phi), phi.shape[1] < len(phi)
    minus, plus = shells_without_each(problem, w @ phi.T)
    number = np.where((minus < 2) & (plus < 2), 2 * minus + plus, -1)
    shares, sums = np.empty((2, N_CHAINS, 4, m))
    for i in range(m):
        inside, at_point = in_span_of_others(problem, i, w)
        outputs = inside @ at_point
        if not singular:
            outputs /= np.linalg.norm(inside, axis=1)
        member = (number[:, i, None] == np.arange(4)).astype(float)
        shares[..., i] = member.reshape(N_CHAINS, n, 4).mean(axis=1)
        sums[..., i] = (member * outputs[:, None]).reshape(N_CHAINS, n, 4).mean(axis=1)
    return shares, sums


def compare_sums(problem, ours, theirs):
    """Volumes (relative) and mean outputs, by shell without a point, of weights and sums."""
    (W, U), (P, E) = ours, theirs
    volumes = W * P.sum(axis=1, keepdims=True) - P * W.sum(axis=1, keepdims=True)
    volume_scale = P.mean(axis=0) * W.mean(axis=0).sum(axis=0)
    outputs = (U * P - W * E) / np.sqrt(problem.K.diagonal())
    output_scale = P.mean(axis=0) * W.mean(axis=0)
    seen = P.mean(axis=0) > LEAST_SHARE
    both = volumes[:, seen] / volume_scale[seen], outputs[:, seen] / output_scale[seen]
    return compare_means(np.hstack(both), 0.0)


def sums_against_brute_force(problem, softness, sums_of):
    """Check of sums of 32 chains (length, seed), depth 1, against draws without each point."""

    def check(length, seed):
        ours = np.moveaxis(sums_of(length, seed), 1, 0).reshape(2, N_CHAINS, 4, -1)
        rng = np.random.default_rng(seed)
        theirs = exact_sums(softened(problem, softness), 6 * length, rng)
        return compare_sums(problem, ours, theirs)

    return check


def sums_by_chain(table):
    """Sums over the draws of each of 32 chains."""
    draws, sums = table.draws, []
    for chain in range(N_CHAINS):
        own = draws.chain == chain
        part = [x[own] for x in (draws.coef, draws.outputs, draws.cells, draws.chain)]
        part = ShellDraws(draws.y, *part, draws.log_weight, draws.factor)
        sums.append(part.sums(table.counts.shape))
    assert_allclose(np.sum(sums, axis=0), table.leave_one_out_sums(), rtol=1e-9)
    return np.array(sums)


def sums_of_one_run(name):
    """Sums of 32 chains of one run, as `sums_against_brute_force` asks for them."""
    problem, softness = LEFT_OUT[name]
    space = VersionSpace(problem.K, problem.y, softness)

    def sums_of(length, seed):
        n_draws = N_CHAINS * length
        return sums_by_chain(
            onion.sample_onion(space, 1, n_draws, n_chains=N_CHAINS, random_state=seed)
        )

    return sums_of


@pytest.mark.parametrize("name", LEFT_OUT)
def test_volumes_and_outputs_of_shells_without_a_point(name):
    """All from one run with all points, against draws without each of them."""
    check = sums_against_brute_force(*LEFT_OUT[name], sums_of_one_run(name))
    assert_passes(check, length=250, seed=0, detects=0.8)


@pytest.mark.slow
def test_shells_without_a_point_from_stratified_draws():
    problem, softness = LEFT_OUT["six dimensions"]

    def sums_of(length, seed):
        posts = [
            sample_billiard(problem.space, length, n_chains=1, label_noise=0.3, random_state=s)
            for s in seeds_of(seed)
        ]
        return np.array([onion.stratify(post, 1).leave_one_out_sums() for post in posts])

    check = sums_against_brute_force(problem, softness, sums_of)
    assert_passes(check, length=300, seed=0, detects=0.9)


def exact_outputs(problem, density, n, rng, n_batches=N_TABLES):
    """Outputs at each point of the unit centre of a mixture of shells without that point.

    Of batches of ``n`` draws, linear about those of all of them together.
    """
    phi = coordinates(problem.K)
    w = prior_draws(problem, n_batches * n, rng) @ phi
    numbers = shells_without_each(problem, w @ phi.T)
    weights = np.pad(density, (0, 1))[
        *(np.minimum(x, most) for x, most in zip(numbers, density.shape, strict=True))
    ]
    outputs = np.empty((n_batches, len(phi)))
    for i in range(len(phi)):
        inside, at_point = in_span_of_others(problem, i, w)
        batches = (weights[:, i, None] * inside).reshape(n_batches, n, -1).sum(axis=1)
        length = np.linalg.norm(batches.mean(axis=0))
        centre = batches.mean(axis=0) / length
        output = centre @ at_point
        outputs[:, i] = output + (batches @ at_point - output * (batches @ centre)) / length
    return outputs


def exact_centres(problem, noise, n, rng):
    """Centres of the posterior of noisy labels, of batches of ``n`` draws, and their direction."""
    noisy = problem._replace(noise=np.where(problem.y < 0, *noise))
    coef = exact_draws(noisy, N_TABLES * n, rng).reshape(N_TABLES, n, -1).mean(axis=1)
    length = problem.space.norm(coef.mean(axis=0))
    return coef / length, coef.mean(axis=0) / length


def mixtures_against_brute_force(problem, softness, depth, outputs_of=Onion.leave_one_out):
    """Check of mixtures of shells, of whole tables: outputs at points left out, and centres.

    Centres are compared where the table holds every error, and so the posterior of noisy labels.
    """
    space = VersionSpace(problem.K, problem.y, softness)
    whole = depth == (np.count_nonzero(problem.y < 0), np.count_nonzero(problem.y > 0))

    def check(length, seed):
        rng = np.random.default_rng(seed)
        tables = [
            onion.sample_onion(space, depth, length, random_state=s)
            for s in seeds_of(seed, N_TABLES)
        ]
        differences = []
        for noise in [(0.2, 0.2), (0.05, 0.3)]:
            density = tables[0].density(label_noise=noise)
            ours = np.array([outputs_of(table, density) for table in tables])
            theirs = exact_outputs(softened(problem, softness), density, 3 * length, rng)
            differences.append((ours - theirs) / np.sqrt(problem.K.diagonal()))
            if whole:
                ours = np.array([table.combine(density) for table in tables])
                theirs, centre = exact_centres(problem, noise, 4 * length, rng)
                differences.append(across(problem, ours, centre) - across(problem, theirs, centre))
        return compare_means(np.hstack(differences), 0.0)

    return check


def test_mixtures_of_all_shells_with_all_points_and_without_each():
    check = mixtures_against_brute_force(SMALL, 0.0, EVERY_ERROR)
    assert_passes(check, length=800, seed=0, detects=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["six dimensions", "a copy"])
def test_outputs_at_points_left_out(name):
    check = mixtures_against_brute_force(*LEFT_OUT[name], (1, 1))
    assert_passes(check, length=3_000, seed=0, detects=0.15)


@pytest.mark.slow
def test_outputs_at_points_that_are_not_left_out_are_caught():
    """Draws with weights 1 / g that stay in the shell they are in with the point."""

    def outputs_of(table, density):
        return table.space.outputs(table.combine(density))

    check = mixtures_against_brute_force(*LEFT_OUT["a sphere"], (1, 1), outputs_of)
    assert_caught(check, length=100, seed=0)


def test_weights_of_the_shell_without_the_point_alone_are_caught(monkeypatch):
    """The run came there with the point on its wrong side as well."""
    monkeypatch.setattr(
        "bayespoint.inference.onion.leave_one_out.draw_votes",
        lambda outputs, *_: (np.zeros_like(outputs), np.ones_like(outputs)),
    )
    check = sums_against_brute_force(*LEFT_OUT["six dimensions"], sums_of_one_run("six dimensions"))
    assert_caught(check, length=200, seed=0)


def test_errors_at_points_left_out_are_the_signs_of_the_outputs(table):
    errors = table.leave_one_out_errors()
    for cell in np.argwhere(table.counts):
        outputs = table.leave_one_out(table.density(cell=cell))
        wrong = ~(SMALL.y * outputs > 0)
        expected = [np.sum(wrong & (SMALL.y < 0)), np.sum(wrong & (SMALL.y > 0))]
        assert_array_equal(errors[tuple(cell)], expected)


def test_blocks_of_draws_give_the_same_outputs(table, monkeypatch):
    density = table.density(label_noise=0.1)
    at_once = table.leave_one_out(density), *table.leave_one_out_sums()
    monkeypatch.setattr("bayespoint.inference.onion.leave_one_out.BLOCK", 137)
    in_blocks = table.leave_one_out(density), *table.leave_one_out_sums()
    for one, other in zip(at_once, in_blocks, strict=True):
        assert_allclose(other, one, rtol=1e-10)


def test_no_draw_with_weight_has_no_output_at_points_left_out(table):
    assert np.all(np.isnan(table.leave_one_out(np.zeros((3, 4)))))
