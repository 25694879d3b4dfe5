"""The table of shells: mixtures, errors on new points and on points left out, what it refuses."""

import numpy as np
import pytest
from helpers.onions import LEAST_SHARE, assert_caught, linear, members, prior_draws
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    N_CHAINS,
    Problem,
    across,
    assert_passes,
    coordinates,
    exact_draws,
    seeds_of,
    skewed,
    with_duplicates,
)
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import Posterior, VersionSpace, onion, papers
from bayespoint.inference import sample_billiard, sample_perceptron
from bayespoint.inference.billiard.balls import wrong_labels
from bayespoint.inference.onion import Onion
from bayespoint.inference.onion.leave_one_out import ShellDraws
from bayespoint.inference.onion.table import NOISE_GRID
from bayespoint.papers import sample_flipper

SMALL = skewed(5, 1)  # labels + - + + -
EVERY_ERROR = (2, 3)


def sample(problem, depth=1, n_draws=400, seed=0, **options):
    return onion.sample_onion(problem.space, depth, n_draws, random_state=seed, **options)


@pytest.fixture(scope="module")
def table():
    return sample(SMALL, EVERY_ERROR, 2_000)


@pytest.fixture(scope="module")
def published():
    return papers.published_onion(SMALL.space, 1, n_bounces=300, random_state=0)


# ---------------------------------------------------------------------- densities and mixtures


def test_the_density_of_a_shell_is_one_there_and_zero_elsewhere(table):
    for cell in np.ndindex(3, 4):
        density = table.density(cell=cell)
        assert density.shape == (3, 4)
        assert density[cell] == density.sum() == 1
    assert_array_equal(table.density(cell=np.array([1, 2])), table.density(cell=[1, 2]))


def test_an_error_costs_the_odds_of_its_label(table):
    density = table.density(label_noise=(0.1, 0.2))
    assert_allclose(density, np.outer((1 / 9) ** np.arange(3), 0.25 ** np.arange(4)))
    assert_array_equal(table.density(label_noise=0.1), table.density(label_noise=[0.1, 0.1]))
    assert_array_equal(table.density(label_noise=0), table.density(cell=(0, 0)))


def test_a_mixture_of_one_shell_is_its_centre(table):
    for cell in np.argwhere(table.counts):
        centre = table.combine(7 * table.density(cell=cell))
        assert_allclose(centre, table.centres[tuple(cell)], atol=1e-12)


def test_a_mixture_weighs_shells_by_volume(table):
    density = np.arange(12.0).reshape(3, 4)
    weight = density * np.exp(table.log_volume)
    mean = np.einsum("ab,abi->i", weight, np.nan_to_num(table.means))
    assert_allclose(table.combine(density), mean / SMALL.space.norm(mean), atol=1e-12)
    assert_allclose(SMALL.space.norm(table.combine(density)), 1.0)


def test_all_shells_together_are_the_posterior_of_noisy_labels():
    """Where the table holds every error: mixtures against exact draws of that posterior."""
    rates = [(0.1, 0.1), (0.05, 0.3)]

    def check(length, seed):
        tables = [sample(SMALL, EVERY_ERROR, length, s) for s in seeds_of(seed)]
        n, rng = 4 * length, np.random.default_rng(seed)
        differences = []
        for noise in rates:
            ours = np.array([table.combine(table.density(label_noise=noise)) for table in tables])
            noisy = SMALL._replace(noise=np.where(SMALL.y < 0, *noise))
            coef = exact_draws(noisy, N_CHAINS * n, rng).reshape(N_CHAINS, n, -1).mean(axis=1)
            length_of_mean = SMALL.space.norm(coef.mean(axis=0))
            centre = coef.mean(axis=0) / length_of_mean
            theirs = across(SMALL, coef / length_of_mean, centre)
            differences.append(across(SMALL, ours, centre) - theirs)
        return compare_means(np.hstack(differences), 0.0)

    assert_passes(check, length=800, seed=0, detects=0.2)


def test_resampled_draws_have_the_weights_of_the_mixture(table):
    density = table.density(label_noise=0.2)
    post = table.resample(density, 20_000, 0)
    assert post.n_draws == 20_000
    cells = members(SMALL, post.outputs, (3, 4)).mean(axis=0)
    share = (density * np.exp(table.log_volume)).ravel()
    assert_allclose(cells, share / share.sum(), atol=0.02)  # six standard errors
    assert_allclose(post.coef @ SMALL.K, post.outputs, atol=1e-8)


# ---------------------------------------------------------------------- errors on new points


def test_errors_on_new_points_are_those_of_the_centres(table):
    rng = np.random.default_rng(0)
    cross, y = rng.standard_normal((50, 5)), rng.choice([-1, 1], 50)
    errors = table.errors(cross, y)
    assert errors.shape == (3, 4, 2)
    for cell in np.ndindex(3, 4):
        wrong = np.sign(cross @ table.centres[cell]) != y
        assert_array_equal(errors[cell], [np.sum(wrong & (y < 0)), np.sum(wrong & (y > 0))])
    assert_array_equal(table.errors(cross[0], y[:1]), table.errors(cross[:1], y[:1]))


def test_an_output_of_zero_is_an_error(table):
    errors = table.errors(np.zeros((3, 5)), [1, -1, 1])
    assert_array_equal(errors, np.broadcast_to([1, 2], (3, 4, 2)))


def test_centres_make_no_more_errors_on_their_points_than_their_shells():
    """Version space is convex, and so is the centre's shell (0, 0)."""
    problem = skewed(7, 2)
    table = sample(problem, 1, 2_000)
    assert_array_equal(table.errors(problem.K, problem.y)[0, 0], [0, 0])


def test_shells_without_draws_have_no_errors():
    table = sample(with_duplicates(1), (2, 2), 40, n_chains=1)
    empty = table.counts == 0
    assert np.any(empty)
    errors = table.errors(np.eye(8), with_duplicates(1).y)
    assert_array_equal(np.isnan(errors).all(axis=2), empty)
    assert_array_equal(np.isnan(table.leave_one_out_errors()).all(axis=2), empty)
    cell = tuple(np.argwhere(empty)[0].tolist())
    with pytest.raises(ValueError, match=r"no draw fell into shell \(.*raise n_draws"):
        table.posterior(cell)
    with pytest.raises(ValueError, match="density gives no weight to a shell that holds draws"):
        table.combine(table.density(cell=cell))
    with pytest.raises(ValueError, match="density gives no weight to a shell that holds draws"):
        table.resample(table.density(cell=cell), 5, 0)


# ---------------------------------------------------------------------- the best shell


def table_of(shape):
    """An onion whose shells hold one draw each; its errors do not matter."""
    means = np.ones((*shape, 2))
    return Onion(
        VersionSpace(np.eye(2), [1, -1]), "exact", means, np.ones(shape, int), np.zeros(shape)
    )


def test_the_best_shell_of_equals_has_the_fewest_training_errors():
    errors = np.full((3, 3, 2), 5.0)
    best = table_of((3, 3)).best_cell
    assert best(errors) == (0, 0)
    errors[2, 0] = errors[1, 1] = (1, 2)
    assert best(errors) == (1, 1)  # of equal sums the most even
    errors[0, 2] = (3, 0)
    errors[1, 1] = np.nan
    assert best(errors) == (0, 2)
    errors[2, 2] = (0, 2)
    assert best(errors) == (2, 2)  # fewer errors come first
    assert all(type(n) is int for n in best(errors))
    with pytest.raises(ValueError, match="no shell holds draws; raise n_draws"):
        best(np.full((3, 3, 2), np.nan))


def test_the_best_shell_and_rate_are_chosen_by_leave_one_out(table):
    errors = table.leave_one_out_errors()
    assert table.best_cell() == table.best_cell(errors)
    assert errors[table.best_cell()].sum() == np.nanmin(errors.sum(axis=2))
    wrong = [
        np.count_nonzero(~(SMALL.y * table.leave_one_out(table.density(label_noise=q)) > 0))
        for q in NOISE_GRID
    ]
    assert table.best_noise() == NOISE_GRID[np.argmin(wrong)]
    assert table.best_noise([0.2]) == 0.2


# ---------------------------------------------------------------------- leave one out


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
    draws, sums = table._draws, []
    for chain in range(N_CHAINS):
        own = draws.chain == chain
        part = [x[own] for x in (draws.coef, draws.outputs, draws.cells, draws.chain)]
        part = ShellDraws(draws.y, *part, draws.log_weight, draws.factor)
        sums.append(part.sums(table.counts.shape))
    assert_allclose(np.sum(sums, axis=0), table.leave_one_out_sums(), rtol=1e-9)
    return np.array(sums)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_volumes_and_outputs_of_shells_without_a_point(name):
    """All from one run with all points, against draws without each of them."""
    problem, softness = LEFT_OUT[name]
    space = VersionSpace(problem.K, problem.y, softness)

    def sums_of(length, seed):
        n_draws = N_CHAINS * length
        return sums_by_chain(
            onion.sample_onion(space, 1, n_draws, n_chains=N_CHAINS, random_state=seed)
        )

    check = sums_against_brute_force(problem, softness, sums_of)
    assert_passes(check, length=400, seed=0, detects=0.7)


def test_shells_without_a_point_from_stratified_draws():
    problem, softness = LEFT_OUT["six dimensions"]

    def sums_of(length, seed):
        posts = [
            sample_billiard(problem.space, length, n_chains=1, label_noise=0.3, random_state=s)
            for s in seeds_of(seed)
        ]
        return np.array([onion.stratify(post, 1).leave_one_out_sums() for post in posts])

    check = sums_against_brute_force(problem, softness, sums_of)
    assert_passes(check, length=600, seed=0, detects=0.7)


def exact_outputs(problem, density, n, rng):
    """Outputs at each point of the unit centre of a mixture of shells without that point.

    Of 32 batches of ``n`` draws, linear about those of all of them together.
    """
    phi = coordinates(problem.K)
    w = prior_draws(problem, N_CHAINS * n, rng) @ phi
    numbers = shells_without_each(problem, w @ phi.T)
    weights = np.pad(density, (0, 1))[
        *(np.minimum(x, most) for x, most in zip(numbers, density.shape, strict=True))
    ]
    outputs = np.empty((N_CHAINS, len(phi)))
    for i in range(len(phi)):
        inside, at_point = in_span_of_others(problem, i, w)
        batches = (weights[:, i, None] * inside).reshape(N_CHAINS, n, -1).sum(axis=1)
        length = np.linalg.norm(batches.mean(axis=0))
        centre = batches.mean(axis=0) / length
        output = centre @ at_point
        outputs[:, i] = output + (batches @ at_point - output * (batches @ centre)) / length
    return outputs


def against_brute_force(name, outputs_of=Onion.leave_one_out):
    """Check of outputs of a mixture, of 32 runs, against exact draws without each point."""
    problem, softness = LEFT_OUT[name]
    space = VersionSpace(problem.K, problem.y, softness)

    def check(length, seed):
        tables = [onion.sample_onion(space, 1, length, random_state=s) for s in seeds_of(seed)]
        density = tables[0].density(label_noise=0.2)
        ours = np.array([outputs_of(table, density) for table in tables])
        rng = np.random.default_rng(seed)
        theirs = exact_outputs(softened(problem, softness), density, 3 * length, rng)
        return compare_means((ours - theirs) / np.sqrt(problem.K.diagonal()), 0.0)

    return check


@pytest.mark.parametrize("name", ["six dimensions", pytest.param("a copy", marks=pytest.mark.slow)])
def test_outputs_at_points_left_out(name):
    assert_passes(against_brute_force(name), length=800, seed=0, detects=0.15)


@pytest.mark.slow
def test_outputs_at_points_that_are_not_left_out_are_caught():
    """Draws with weights 1 / g that stay in the shell they are in with the point."""

    def outputs_of(table, density):
        return table.space.outputs(table.combine(density))

    assert_caught(against_brute_force("a sphere", outputs_of), length=40, seed=0)


@pytest.mark.slow
def test_weights_of_the_shell_without_the_point_alone_are_caught(monkeypatch):
    """The run came there with the point on its wrong side as well."""
    monkeypatch.setattr(
        "bayespoint.inference.onion.leave_one_out.draw_votes",
        lambda outputs, *_: (np.zeros_like(outputs), np.ones_like(outputs)),
    )
    assert_caught(against_brute_force("six dimensions"), length=60, seed=0)


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


# ---------------------------------------------------------------------- stratified draws


def test_draws_of_the_noisy_billiard_are_sorted_by_errors():
    post = sample_billiard(SMALL.space, 2_000, label_noise=0.3, random_state=0)
    table = onion.stratify(post, (1, 3))
    cells = wrong_labels(SMALL.y, post.outputs)
    for cell in np.ndindex(2, 4):
        assert table.counts[cell] == np.count_nonzero(np.all(cells == cell, axis=1))
    a, b = np.indices((2, 4))
    volume = table.counts * (0.7 / 0.3) ** (a + b)
    assert_allclose(np.exp(table.log_volume), volume / volume.sum())
    assert table.method == "exact"
    assert table.depth == (1, 3)


@pytest.mark.parametrize(
    "sampler",
    [
        lambda space: sample_billiard(space, 40, random_state=0),
        lambda space: sample_billiard(
            space, 40, label_noise=[0.1, 0.2, 0.1, 0.1, 0.1], random_state=0
        ),
        lambda space: sample_flipper(space, n_bounces=20, random_state=0),
        lambda space: sample_perceptron(space, 5, random_state=0),
    ],
    ids=["no noise", "one rate a point", "as published", "perceptrons"],
)
def test_draws_without_one_rate_of_noise_are_not_sorted(sampler):
    with pytest.raises(ValueError, match="one rate label_noise > 0 for all points; got"):
        onion.stratify(sampler(SMALL.space))


def test_what_is_no_posterior_is_not_sorted():
    plain = Posterior(np.ones((2, 5)), outputs=np.ones((2, 5)), label_noise=0.1)
    for wrong in (None, "x", plain, plain.coef):
        with pytest.raises(ValueError, match="posterior must be a Posterior with a version space"):
            onion.stratify(wrong)


# ---------------------------------------------------------------------- refusals


def test_the_published_onion_holds_no_draws(published):
    density = published.density(cell=(0, 0))
    for call in (
        lambda: published.posterior((0, 0)),
        lambda: published.leave_one_out(density),
        lambda: published.leave_one_out_sums(),
        lambda: published.leave_one_out_errors(),
        lambda: published.best_cell(),
        lambda: published.best_noise(),
        lambda: published.resample(density, 1, 0),
    ):
        with pytest.raises(ValueError, match="needs draws, which the published onion does not"):
            call()


@pytest.mark.parametrize(
    "cell", [1, (1,), (1, 2, 3), (3, 0), (0, 4), (-1, 0), (0.0, 1.0), "ab", ("0", "0")], ids=str
)
def test_a_cell_is_a_pair_within_the_table(table, cell):
    for method in (table.posterior, lambda cell: table.density(cell=cell)):
        with pytest.raises(ValueError, match=r"cell must be a pair .* up to \(2, 3\); got"):
            method(cell)


@pytest.mark.parametrize(
    "noise", [-0.1, 0.5, 1, np.nan, np.inf, "x", [0.1] * 3, [[0.1, 0.2]], (0.1, 0.5), []], ids=str
)
def test_a_rate_of_noise_is_below_one_half(table, noise):
    with pytest.raises(ValueError, match=r"label_noise must be in \[0, 0.5\)"):
        table.density(label_noise=noise)


def test_a_density_is_of_a_shell_or_of_noise(table):
    for options in ({}, {"cell": (0, 0), "label_noise": 0.1}):
        with pytest.raises(ValueError, match="give either cell or label_noise"):
            table.density(**options)


@pytest.mark.parametrize(
    "density", [1.0, np.ones((2, 2)), np.ones((3, 4, 1)), -np.ones((3, 4)), np.full((3, 4), np.nan)]
)
def test_a_density_has_a_number_for_each_shell(table, density):
    for method in (table.combine, table.leave_one_out):
        with pytest.raises(ValueError, match=r"density (must be .* \(3, 4\)|contains NaN)"):
            method(density)


@pytest.mark.parametrize(
    ("shape", "y", "message"),
    [
        ((2, 4), [1, -1], r"cross must have one column for each of 5 .*\(2, 4\)"),
        ((2, 5), [1], r"y one label for each row of cross; got shapes \(2, 5\) and \(1,\)"),
        ((2, 5), 1, "y one label for each row of cross"),
        ((2, 5), [0, 1], r"y must hold labels -1 or \+1; got \[0, 1\]"),
        ((2, 5), ["a", "b"], r"y must hold labels -1 or \+1"),
        ((2, 5), [1, np.nan], r"y must hold labels -1 or \+1"),
    ],
)
def test_new_points_have_kernel_values_and_labels(table, shape, y, message):
    with pytest.raises(ValueError, match=message):
        table.errors(np.ones(shape), y)


def test_errors_have_the_shape_of_the_table(table):
    for errors in (np.zeros((3, 4)), np.zeros((2, 2, 2)), 3):
        with pytest.raises(ValueError, match=r"errors must have shape \(3, 4, 2\); got"):
            table.best_cell(errors)


def test_it_says_what_it_holds(table, published):
    assert repr(table) == f"Onion(exact, depth (2, 3), {table.counts.sum()} draws)"
    assert repr(published).startswith("Onion(published, depth (1, 1), ")


def test_the_table_works_on_when_the_threads_of_the_run_are_gone():
    """Found by a benchmark: the factor is used again for points left out."""
    space = VersionSpace(0.5 + 0.5 * np.eye(6), [1, 1, 1, -1, -1, -1])
    one, two = (
        onion.sample_onion(space, 1, 400, n_jobs=n, random_state=0).leave_one_out_errors()
        for n in (1, 2)
    )
    assert_array_equal(one, two)
