"""The table of shells: mixtures, errors on new points, the best shell, and what it refuses."""

import numpy as np
import pytest
from helpers.onions import members
from helpers.refusals import assert_refused
from helpers.version_spaces import skewed, with_duplicates
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import Posterior, VersionSpace, onion, papers
from bayespoint.inference import sample_billiard, sample_perceptron
from bayespoint.inference.billiard.balls import wrong_labels
from bayespoint.inference.onion import Onion
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


def test_a_cell_is_a_pair_within_the_table(table):
    cells = (1, (1,), (1, 2, 3), (3, 0), (0, 4), (-1, 0), (0.0, 1.0), "ab", ("0", "0"))
    cases = [({"cell": cell}, r"cell must be a pair .* up to \(2, 3\); got") for cell in cells]
    for method in (table.posterior, table.density):
        assert_refused(method, cases)


def test_a_density_is_of_a_shell_or_of_noise_below_one_half(table):
    rates = (-0.1, 0.5, 1, np.nan, np.inf, "x", [0.1] * 3, [[0.1, 0.2]], (0.1, 0.5), [])
    cases = [({"label_noise": q}, r"label_noise must be in \[0, 0.5\)") for q in rates]
    both = {"cell": (0, 0), "label_noise": 0.1}
    cases += [(options, "give either cell or label_noise") for options in ({}, both)]
    assert_refused(table.density, cases)


def test_a_density_has_a_number_for_each_shell(table):
    message = r"density (must be .* \(3, 4\)|contains NaN)"
    shapes = 1.0, np.ones((2, 2)), np.ones((3, 4, 1)), -np.ones((3, 4)), np.full((3, 4), np.nan)
    cases = [({"density": density}, message) for density in shapes]
    for method in (table.combine, table.leave_one_out):
        assert_refused(method, cases)


def test_new_points_have_kernel_values_and_labels(table):
    cases = [
        ((2, 4), [1, -1], r"cross must have one column for each of 5 .*\(2, 4\)"),
        ((2, 5), [1], r"y one label for each row of cross; got shapes \(2, 5\) and \(1,\)"),
        ((2, 5), 1, "y one label for each row of cross"),
        ((2, 5), [0, 1], r"y must hold labels -1 or \+1; got \[0, 1\]"),
        ((2, 5), ["a", "b"], r"y must hold labels -1 or \+1"),
        ((2, 5), [1, np.nan], r"y must hold labels -1 or \+1"),
    ]
    assert_refused(
        table.errors, [({"cross": np.ones(shape), "y": y}, told) for shape, y, told in cases]
    )


def test_errors_have_the_shape_of_the_table(table):
    wrong = np.zeros((3, 4)), np.zeros((2, 2, 2)), 3
    message = r"errors must have shape \(3, 4, 2\); got"
    assert_refused(table.best_cell, [({"errors": errors}, message) for errors in wrong])


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
