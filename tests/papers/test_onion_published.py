"""The onion as published: its arcs, its bias, and cross-validation of both onions."""

import itertools
import warnings

import numpy as np
import pytest
from helpers.onions import linear, members, prior_draws
from helpers.refusals import assert_refused
from helpers.thresholds import compare_means
from helpers.version_spaces import (
    N_CHAINS,
    across,
    assert_caught,
    assert_passes,
    seeds_of,
    skewed,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace, onion, papers
from bayespoint.inference.billiard.balls import wrong_labels
from bayespoint.papers import onion as published
from bayespoint.papers import sample_flipper
from bayespoint.papers.straight import ArcSum
from bayespoint.space.version_space import EmptyVersionSpaceError

SPHERE = linear(12, 3, 5)
PROBLEMS = {"a sphere": (SPHERE, (2, 1)), "six dimensions": (skewed(6, 3), (1, 2))}


def play(problem, depth=1, n_bounces=120, **options):
    return papers.published_onion(
        problem.space, depth, n_bounces=n_bounces, **{"random_state": 0, **options}
    )


# ---------------------------------------------------------------------- arcs


def recorded(problem, depth, monkeypatch):
    """A table, and the arcs it was made from: shell, midpoint and length of each, in order."""
    arcs, cells = [], np.ndindex(*np.add(depth, 1))

    class Recording(ArcSum):
        def __init__(self):
            super().__init__()
            self.cell = next(cells)

        def add(self, midpoint, length):
            arcs.append((self.cell, midpoint, length))
            super().add(midpoint, length)

    monkeypatch.setattr(published, "ArcSum", Recording)  # one for each shell, in their order
    return play(problem, depth), arcs


@pytest.mark.parametrize("name", PROBLEMS)
def test_arcs_follow_each_other_from_shell_to_shell_and_the_table_sums_them(name, monkeypatch):
    problem, depth = PROBLEMS[name]
    table, arcs = recorded(problem, depth, monkeypatch)
    for cell, midpoint, length in arcs:  # its middle lies in the shell that an arc is booked to
        coef = np.linalg.lstsq(problem.K, midpoint.outputs, rcond=1e-10)[0]
        assert_allclose(problem.K @ coef, midpoint.outputs, atol=1e-8)
        assert_allclose(coef @ midpoint.outputs, 1.0, rtol=1e-8)
        assert tuple(wrong_labels(problem.y, midpoint.outputs)) == cell
        assert np.all(np.array(cell) <= table.depth)
        assert 0 < length < np.pi
    # On a great circle it is half of both arcs from one midpoint to the next, and one more error.
    n_pairs = 0
    for (cell, midpoint, length), (cell_2, midpoint_2, length_2) in itertools.pairwise(arcs):
        if cell_2 == (0, 0):
            continue
        assert sum(cell_2) == sum(cell) + 1
        between = np.arccos(np.clip(midpoint.dot(midpoint_2), -1, 1))
        assert_allclose(between, (length + length_2) / 2, atol=1e-6)
        n_pairs += 1
    assert n_pairs == table.counts.sum() - table.counts[0, 0] > 50
    total = sum(length for *_, length in arcs)
    for cell in np.ndindex(table.counts.shape):
        held = [arc[1:] for arc in arcs if arc[0] == cell]
        assert table.counts[cell] == len(held)
        if held:
            share = sum(length for _, length in held) / total
            assert_allclose(np.exp(table.log_volume[cell]), share)
            centre = ArcSum()
            for midpoint, length in held:
                centre.add(midpoint, length)
            assert_allclose(problem.K @ table.centres[cell], centre.centre.outputs, atol=1e-8)
        else:
            assert table.log_volume[cell] == -np.inf
            assert np.all(np.isnan(table.centres[cell]))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a sphere", {}),
        ("a sphere", {"bias": 1.0}),
        ("six dimensions", {"directions": "isotropic"}),
    ],
    ids=str,
)
def test_inside_version_space_it_is_the_flipper(name, options):
    problem, depth = PROBLEMS[name]
    if "bias" in options:
        problem = problem._replace(K=problem.K + options["bias"])
    table = play(problem, depth, **options)
    flipper = sample_flipper(problem.space, n_bounces=120, random_state=0, **options)
    assert_allclose(table.centres[0, 0], flipper.bayes_point(), atol=1e-7)
    assert table.counts[0, 0] == table.info["bounces"] == 120
    assert_array_equal(table.info["walls"], flipper.info["walls"])
    assert table.info["escapes"] == flipper.info["escapes"]


def test_a_start_of_ones_own_and_no_depth():
    coef = sample_flipper(SPHERE.space, n_bounces=50, random_state=1).bayes_point()
    table = play(SPHERE, 0, start=coef)
    assert table.centres.shape == (1, 1, 12)
    assert_allclose(table.log_volume, 0.0, atol=1e-12)
    assert table.method == "published"
    assert np.all(np.isnan(table.centre_errors))
    assert np.all(np.isnan(table.log_volume_errors))
    assert_array_equal(play(SPHERE, 0, start=coef).centres, table.centres)
    assert np.any(play(SPHERE, 0, start=coef, random_state=1).centres != table.centres)


# ---------------------------------------------------------------------- bias


def against_mass_centre(problem, cell, make):
    """Check of the centre of one shell, of 32 runs, against exact draws of that shell."""
    shape = np.add(cell, 1)

    def check(length, seed):
        ours = np.array([make(length, s).centres[cell] for s in seeds_of(seed)])
        assert np.all(np.isfinite(ours))
        coef = prior_draws(problem, 60_000, np.random.default_rng(seed))
        inside = members(problem, coef @ problem.K, shape)[:, -1]
        batches = np.array_split(coef[inside], N_CHAINS)
        theirs = np.array([batch.mean(axis=0) for batch in batches])
        middle = theirs.mean(axis=0)
        theirs /= problem.space.norm(middle)
        middle = middle / problem.space.norm(middle)
        return compare_means(across(problem, ours, middle) - across(problem, theirs, middle), 0.0)

    return check


@pytest.mark.slow
def test_centres_as_published_are_not_those_of_mass():
    """On the sphere by 14 degrees, with one error; the unbiased onion passes the same check."""
    cell = (0, 1)

    def as_published(length, seed):
        return play(SPHERE, cell, length, random_state=seed)

    def unbiased(length, seed):
        return onion.sample_onion(SPHERE.space, cell, length, random_state=seed)

    assert_passes(against_mass_centre(SPHERE, cell, unbiased), length=300, seed=0, detects=0.3)
    assert_caught(against_mass_centre(SPHERE, cell, as_published), length=30, seed=0)


@pytest.mark.slow
def test_even_with_isotropic_directions_they_are_not():
    """A point outside counts by the solid angle of version space that is seen from it."""
    cell = (1, 1)

    def as_published(length, seed):
        return play(SPHERE, cell, length, random_state=seed, directions="isotropic")

    assert_caught(against_mass_centre(SPHERE, cell, as_published), length=200, seed=0)


def test_arcs_are_no_volumes():
    coef = prior_draws(SPHERE, 20_000, np.random.default_rng(0))
    share = members(SPHERE, coef @ SPHERE.K, (2, 2)).sum(axis=0)
    share = share / share.sum()
    arcs = np.exp(play(SPHERE, 1, n_bounces=400).log_volume).ravel()
    assert arcs[0] > 1.7 * share[0]  # 0.63 and 0.27


# ---------------------------------------------------------------------- stops and bad input


def test_time_that_is_up_leaves_a_table(clock):
    clock.step = 0.1
    with pytest.warns(ConvergenceWarning, match=r"time was up after \d+ of 1000000 bounces"):
        table = play(SPHERE, 1, n_bounces=10**6, max_time=2)
    assert 5 < table.info["bounces"] == table.counts[0, 0] <= 20
    assert np.all(SPHERE.space.margins(table.centres[0, 0]) > 0)


def test_an_empty_version_space_has_no_flights():
    with pytest.raises(EmptyVersionSpaceError):
        play(linear(12, 3, 5, flipped=(0, 1)))


REFUSED = [
    ({"depth": -1}, "depth must be a whole number >= 0"),
    ({"depth": (1, 2, 3)}, "depth must be a whole number or a pair of them"),
    ({"n_bounces": 0}, "n_bounces must be a whole number >= 1"),
    ({"bias": -1.0}, "bias must be a finite number >= 0"),
    ({"tau_max": 0}, "tau_max must be a finite number > 0"),
    ({"directions": "x"}, "directions must be one of"),
    ({"start": np.ones(3)}, "start must have one row of 12 coefficients"),
    ({"max_time": 0}, "max_time must be a finite number > 0"),
    ({"random_state": "x"}, "random_state must be None, a whole number"),
    ({"verbose": -1}, "verbose must be"),
]


def test_a_wrong_argument_is_one_error_that_names_it():
    assert_refused(play, REFUSED, problem=SPHERE)
    for function in (papers.published_onion, onion.sample_onion, papers.cross_validate_onion):
        assert_refused(function, [({"space": SPHERE.K}, "space must be a VersionSpace; got nda")])


# ---------------------------------------------------------------------- cross-validation


OPTIONS = {"exact": {"n_draws": 100, "n_chains": 2}, "published": {"n_bounces": 60}}


@pytest.mark.parametrize("method", OPTIONS)
def test_every_point_is_left_out_once(method):
    """Points at right angles tell nothing about each other: all outputs are zero, and wrong."""
    y = np.array([1, 1, 1, 1, 1, -1, -1, -1, -1])
    space = VersionSpace(np.eye(9), y)
    errors = papers.cross_validate_onion(
        space, (0, 1), cv=3, method=method, random_state=0, **OPTIONS[method]
    )
    assert errors.shape == (1, 2, 2)
    assert_array_equal(errors, np.broadcast_to([4, 5], (1, 2, 2)))


@pytest.mark.parametrize("method", OPTIONS)
def test_classes_far_apart_are_told_apart(method):
    rng = np.random.default_rng(0)
    y = np.repeat([-1, 1], 6)
    X = np.column_stack([3.0 * y, *rng.standard_normal((2, 12))])
    space = VersionSpace(X @ X.T, y, 0.1)
    settings = {"cv": 2, "method": method, **OPTIONS[method]}
    errors = papers.cross_validate_onion(space, (1, 1), random_state=0, **settings)
    assert_array_equal(errors[0, 0], [0, 0])
    assert np.all(errors[~np.isnan(errors)] <= 6)
    again = papers.cross_validate_onion(space, (1, 1), random_state=0, **settings)
    assert_array_equal(again, errors)


def test_other_seeds_make_other_folds():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((24, 3)), np.tile([-1, 1], 12)
    space = VersionSpace(X @ X.T, y, 1.0)
    settings = {"cv": 2, "depth": 1, "method": "published", "n_bounces": 60}
    states = 0, 1, np.random.RandomState(5), np.random.RandomState(5)
    tables = [papers.cross_validate_onion(space, random_state=s, **settings) for s in states]
    assert len({table.tobytes() for table in tables}) > 1
    assert_array_equal(tables[2], tables[3])


def test_a_shell_that_some_fold_did_not_reach_has_no_errors():
    y = np.tile([1, -1], 3)
    space = VersionSpace(np.eye(6), y)
    errors = papers.cross_validate_onion(space, (3, 0), cv=3, random_state=0, n_draws=400)
    assert np.all(np.isnan(errors[3]))  # folds hold two points of each class
    assert_array_equal(errors[:3, 0].sum(axis=1), [6, 6, 6])


def test_cross_validation_names_a_wrong_argument():
    space = VersionSpace(np.eye(6), np.tile([1, -1], 3))
    cases = [
        ("cv", (0, -1, 2.0, "x", None, True), "cv must be a whole number"),
        ("cv", (1, 4), "cv must be from 2 to 3"),
        ("method", ("x", None, 1, ["exact"], b"exact"), r"method must be one of \('exact', 'publ"),
        ("depth", (-1, 1.5, None), "depth must be a whole number"),
        ("random_state", ("x", -1, 1.5), "random_state must be None"),
        ("n_draws", (0,), "n_draws must be a whole number >= 1"),
    ]
    for name, values, message in cases:
        refused = [({name: value}, message) for value in values]
        assert_refused(papers.cross_validate_onion, refused, **{"space": space, "cv": 2})


def test_warnings_of_a_fold_are_not_lost(clock):
    space, clock.step = SPHERE.space, 0.1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        papers.cross_validate_onion(
            space, 0, cv=2, method="published", n_bounces=10**6, max_time=1, random_state=0
        )
    assert [one.category for one in caught] == [ConvergenceWarning] * 2
