"""What all samplers owe: clear errors, the same draws for the same seed, any layout or scale."""

import inspect
import re
from functools import partial

import numpy as np
import pytest
from helpers.samplers import SAMPLERS, arrays, assert_usable, those_that_take
from helpers.spaces import (
    contradict,
    make_problem,
    make_space,
    rows_space,
    separable,
    with_contradiction,
)
from helpers.version_spaces import skewed
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint import VersionSpace, inference, onion, papers
from bayespoint.inference import starts
from bayespoint.inference.onion import exact as onion_loop
from bayespoint.space.kernels import BLOCK_ROWS
from bayespoint.space.posterior import Posterior
from bayespoint.space.version_space import EmptyVersionSpaceError

SPACE = make_space(m=6)
NO_MATRIX = [[1.0, -0.9, -0.9], [-0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]]  # passes Cauchy-Schwarz


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Weights of the onion need not be even here."""
    monkeypatch.setattr(onion_loop, "MAX_ROUNDS", 5)


def test_every_sampler_is_held_to_the_contract():
    held = {sampler.function for sampler in SAMPLERS.values()}
    for room in (inference, onion, papers, starts):
        for name in dir(room):
            if re.fullmatch(r"sample_.*|(perceptron|direct|light_trap)_start", name):
                assert getattr(room, name) in held, name


# ---------------------------------------------------------------------- wrong arguments

NOT_COUNTS = (0, -3, 1.5, 2.0, "x", None, True, [3], np.nan)
NOT_POSITIVE = (0, -1, np.nan, np.inf, "x", True, [1.0], 1j, np.complex128(1.0))
MARGINS = np.random.default_rng(0).uniform(0.5, 1.5, (4, 6))
STARTS = np.linalg.solve(SPACE.rows.store, (SPACE.y * MARGINS).T).T  # inside version space
ONE = STARTS[0]

COMMON = {
    "space": [((SPACE.rows.store, None, "x", [[1.0]]), "space must be a VersionSpace")],
    "n_draws": [(NOT_COUNTS, "n_draws must be a whole number >= 1")],
    "n_chains": [(NOT_COUNTS, "n_chains must be a whole number >= 1")],
    "thin": [(NOT_COUNTS, "thin must be a whole number >= 1")],
    "max_passes": [(NOT_COUNTS, "max_passes must be a whole number >= 1")],
    "max_bounces": [(NOT_COUNTS, "max_bounces must be a whole number >= 1")],
    "n_bounces": [(NOT_COUNTS, "n_bounces must be a whole number >= 1")],
    "max_flights": [(NOT_COUNTS, "max_flights must be a whole number >= 1")],
    "burn_in": [((-1, 1.5, np.nan, np.inf, "x", True, [3]), "burn_in must be a whole number >= 0")],
    "n_path": [((-1, 1.5, np.nan, "x", None, True, [3]), "n_path must be a whole number >= 0")],
    "travel": [
        ((*NOT_POSITIVE, None), "travel must be a finite number > 0"),
        ((np.pi, 4 * np.pi + 0.01), "travel must not be a multiple of pi"),
    ],
    "travel_time": [(NOT_POSITIVE, "travel_time must be a finite number > 0")],
    "tol": [(NOT_POSITIVE, "tol must be a finite number > 0")],
    "tau_max": [((*NOT_POSITIVE, None), "tau_max must be a finite number > 0")],
    "bias": [
        ((-1, np.nan, np.inf, "x", True, [1.0], None), "bias must be a finite number >= 0"),
        ((5.0,), "bias=5.0 is more than K holds of it"),
    ],
    "max_time": [(NOT_POSITIVE, "max_time must be a finite number > 0")],
    "n_jobs": [((0, 1.5, "x", [1]), "n_jobs must be None or a whole number other than 0")],
    "verbose": [((-1, 1.5, "x", None), "verbose must be a whole number >= 0")],
    "device": [(("gpu", "", None, 3, ["cpu"]), "device must be ")],
    "random_state": [
        (
            ("x", -1, 1.5, 2**40, [1], np.random.default_rng(0)),
            "random_state must be None, a whole number",
        )
    ],
    "directions": [
        (("Isotropic", "", None, 3, ["isotropic"]), "directions must be one of"),
    ],
    "depth": [
        (
            (-1, 1.5, "x", None, True, np.nan, (1, -1), (1, 0.5), (1, None), [[1, 2], [3, 4]]),
            "depth must be a whole number >= 0",
        ),
        (((1,), (1, 2, 3), []), "depth must be a whole number or a pair of them"),
    ],
    "label_noise": [
        (
            (-0.1, 0.5, 1, np.nan, np.inf, "x", None, True, 1j, ["a"] * 6, [0.1] * 5 + [np.nan],
             [0.1] * 5 + [0.5], [0.1] * 5 + [None]),
            r"label_noise must lie in \[0, 0\.5\)",
        ),
        (
            ([0.1], np.full(5, 0.1), np.full(7, 0.1), np.full((6, 1), 0.1), np.full((1, 6), 0.1),
             [], [[0.1], [0.1, 0.2]], {1: 0.1}),
            "label_noise must be one rate or one for each of 6 points",
        ),
    ],
}  # fmt: skip

OF_CHAINS = {
    "start": [
        (("x", "Random", b"random"), "start must be an array, one of"),
        (
            (ONE, STARTS[:3], STARTS[:, :5], STARTS[None], 3, [], [[1.0], [1.0, 2.0]],
             [["a"] * 6] * 4, STARTS * np.nan, np.vstack([STARTS[:3], [[np.inf] * 6]])),
            "start must have one row of 6 coefficients for each of 4 chains, all finite",
        ),
        ((STARTS * [[1], [1], [0], [1]],), r"start of chains \[2\] has zero length"),
        ((STARTS * [[-1], [1], [1], [-1]],), r"inside version space; chains \[0, 3\] do not"),
        (("random",), "start='random' needs label_noise > 0 for every point"),
    ],
}  # fmt: skip
OF_ONE_BALL = {
    "start": [
        (
            ("x", 3, [], ONE[:5], STARTS[:2], ONE * np.nan, ["a"] * 6, [[1.0], [1.0, 2.0]]),
            "start must have one row of 6 coefficients",
        ),
        ((np.zeros(6),), r"start .* has zero length"),
    ],
}
OF_STRAIGHT_BALLS = {
    "start": [
        *OF_ONE_BALL["start"],
        ((-ONE, ONE * [1, 1, 1, 1, 1, -30]), "start must lie inside version space"),
    ],
}
NOT_NONE = {"tol": [((*NOT_POSITIVE, None), "tol must be a finite number > 0")]}
OWN = {
    "billiard": OF_CHAINS,
    "gibbs": OF_CHAINS,
    "jmlr": OF_STRAIGHT_BALLS | NOT_NONE,
    "flipper": OF_STRAIGHT_BALLS,
    "published onion": OF_STRAIGHT_BALLS,
    "light trap": OF_ONE_BALL | {"travel": COMMON["travel"][:1]},
}


def complaint(call, message):
    """What is wrong with the error of a call, or None."""
    try:
        call()
    except ValueError as error:
        return None if re.search(message, str(error)) else f"said {error}"
    except Exception as error:
        return f"raised {error!r}"
    return "raised nothing"


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_wrong_argument_is_one_error_that_names_it(name):
    sampler = SAMPLERS[name]
    cases = COMMON | OWN.get(name, {})
    found = {}
    for argument in inspect.signature(sampler.function).parameters:
        for values, message in cases[argument]:  # each argument has wrong values
            for number, value in enumerate(values):
                run = partial(sampler, **{"space": SPACE, argument: value})
                what = complaint(run, message)
                if what is not None:
                    found[argument, message, number] = f"{value!r} {what}"
    assert not found


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_no_gram_matrix_of_points_off_the_origin_is_refused(name):
    run = SAMPLERS[name]
    for softness in (0.0, 0.1):
        origin = VersionSpace(np.diag([1.0, 0.0, 2.0]), [1, 1, -1], softness)
        message = r"points \[1\] \(counted from 0\) lie at the origin.*leave them out"
        with pytest.raises(ValueError, match=message):
            run(origin)
    # A perceptron sees only what it adds up; the others look at the whole matrix.
    for y in ([1, 1, 1], [1, 1, -1])[: 1 if "perceptron" in name else 2]:
        with pytest.raises(ValueError, match="not positive semi-definite") as caught:
            run(VersionSpace(NO_MATRIX, y))
        assert not isinstance(caught.value, EmptyVersionSpaceError)


@pytest.mark.parametrize("name", those_that_take("n_jobs"))
def test_a_store_too_small_is_an_error_but_for_perceptrons(name):
    X, y = make_problem(m=BLOCK_ROWS + 20)
    space = rows_space(X, y)
    if name != "perceptron":
        with pytest.raises(ValueError, match=rf"all rows.*{len(X)} points.*cache_size"):
            SAMPLERS[name](space)
        return
    expected = SAMPLERS[name](rows_space(X, y, n_cached=len(X)))
    for n_jobs in (1, 2):
        assert_same(SAMPLERS[name](space, n_jobs=n_jobs), expected)


# ---------------------------------------------------------------------- empty version spaces

# The onion has shells of errors instead: see test_onion_runs.py.
SEPARATING = [name for name in SAMPLERS if name != "onion"]


@pytest.mark.parametrize("name", SEPARATING)
def test_labels_that_no_plane_separates_name_points_that_contradict_each_other(name):
    run, rng = SAMPLERS[name], np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.choice([-1, 1], 30)
    for dtype in (np.float64, np.float32):
        K = (X @ X.T).astype(dtype)
        with pytest.raises(EmptyVersionSpaceError) as caught:
            run(VersionSpace(K, y))
        assert contradict(X, y, caught.value.points)
        assert not contradict(X, np.sign(X[:, 0]), caught.value.points)  # negative control
        # The remedies that it names do help.
        soft = VersionSpace(K, y, softness=0.5)
        assert_usable(run(soft), soft, rtol=1e-6)
    if run.takes("label_noise"):
        assert run(VersionSpace(K, y), label_noise=0.1).n_draws == 12


@pytest.mark.parametrize("name", SEPARATING)
def test_one_point_with_both_labels_is_named_twice(name):
    with pytest.raises(EmptyVersionSpaceError, match=r"\[11, 60\]") as caught:
        SAMPLERS[name](with_contradiction())
    assert_array_equal(caught.value.points, [11, 60])


# ---------------------------------------------------------------------- the same draws


def assert_same(one, other):
    for left, right in zip(arrays(one), arrays(other), strict=True):
        assert_array_equal(left, right)


def differ(one, other):
    """Whether the centres, and all draws that are no perceptrons, differ."""
    if isinstance(one, Posterior) and one.n_chains > 1:
        assert not np.any(np.all(one.coef[:, None] == other.coef, axis=2))
    return np.any(centre(one) != centre(other))


def centre(result):
    return result.centres[0, 0] if isinstance(result, onion.Onion) else arrays(result)[-1]


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_seed_gives_the_same_draws_and_another_one_others(name):
    run, space = SAMPLERS[name], separable(0, "rbf", m=12)
    first = run(space, random_state=5)
    assert_same(run(space, random_state=np.int64(5)), first)
    assert differ(run(space, random_state=6), first)
    states = [np.random.RandomState(3) for _ in range(2)]
    one, two = (run(space, random_state=state) for state in states)
    assert_same(one, two)
    assert differ(run(space, random_state=states[0]), one)  # its state has moved on
    # Two perceptrons of twelve points are equal once in ninety: four are, once in 700,000.
    first_of_four, *others = (run(space, random_state=None) for _ in range(4))
    assert any(differ(other, first_of_four) for other in others)
    if run.takes("start"):  # from there on, too
        start = np.tile(centre(first), (4, 1)) if run.takes("n_chains") else centre(first)
        start = -start if name == "light trap" else start
        one, two = (run(space, start=start, random_state=seed) for seed in (5, 6))
        assert differ(one, two)
        if run.takes("n_chains"):  # each on a way of its own
            assert len({chain.tobytes() for chain in one.draws()}) == 4


THREADED = [(name, 0.0) for name in those_that_take("n_jobs")]
THREADED += [(name, 0.1) for name in those_that_take("n_jobs", "label_noise")]


@pytest.mark.parametrize(("name", "noise"), THREADED)
def test_the_number_of_threads_changes_no_bit(name, noise):
    """More points than are factorised together."""
    run, space = SAMPLERS[name], make_space(m=300, softness=0.1)
    settings = {"label_noise": noise} if noise else {}
    one, two, all_ = (run(space, n_jobs=n_jobs, **settings) for n_jobs in (1, 2, -1))
    assert_same(two, one)
    assert_same(all_, one)


@pytest.mark.parametrize("name", SAMPLERS)
def test_layout_and_types_change_nothing_and_nothing_given_is_changed(name):
    run, K, y = SAMPLERS[name], SPACE.rows.store, SPACE.y
    settings = dict(run.short)
    if run.takes("label_noise"):
        settings["label_noise"] = np.full(6, 0.125)
    if run.takes("start"):
        settings["start"] = (STARTS if run.takes("n_chains") else ONE).copy()
    expected = run(SPACE, **settings)
    fortran, given = np.array(K, order="F"), dict(settings)
    fortran.setflags(write=False)
    for key, value in settings.items():
        if isinstance(value, int):
            given[key] = np.int32(value)
        elif isinstance(value, np.ndarray):
            given[key] = np.array(value, order="F")
    assert_same(run(VersionSpace(fortran, y.astype(np.int8)), **given), expected)
    lists = {key: np.asarray(value).tolist() for key, value in settings.items()}
    assert_same(run(VersionSpace(K.tolist(), y.tolist()), **lists), expected)
    assert_array_equal(fortran, K)
    for key, value in settings.items():
        assert_array_equal(given[key], value)


@pytest.mark.parametrize("name", SAMPLERS)
def test_huge_and_tiny_kernels_give_the_same_classifiers(name):
    run, K = SAMPLERS[name], SPACE.rows.store
    plain = run(SPACE)
    for scale in (2.0**100, 2.0**-100):
        space = VersionSpace(scale * K, SPACE.y)
        found = run(space)
        assert_usable(found, space)
        assert_allclose(centre(found) * np.sqrt(scale), centre(plain), rtol=1e-6, atol=1e-9)


KINDS = {
    "soft": make_space(m=20, softness=0.3),
    "float32": make_space(m=20, dtype=np.float32),
    "one class": VersionSpace(0.5 + 0.5 * np.eye(5), -np.ones(5)),
    "linear": make_space(m=30, kernel="linear"),
    "linear, float32": make_space(m=30, kernel="linear", dtype=np.float32),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_comes_back_is_a_unit_vector_inside_version_space(name):
    for kind, space in KINDS.items():
        if name != "direct start" or "linear" not in kind:  # it needs a matrix of full rank
            assert_usable(SAMPLERS[name](space), space, rtol=1e-5 if "32" in kind else 1e-9)


@pytest.mark.parametrize("name", SAMPLERS)
def test_softness_is_a_longer_diagonal(name):
    """The same way as in the softened Gram matrix, but for rounding: short runs agree."""
    run, problem = SAMPLERS[name], skewed(8, 4, dim=3)
    for softness, noise in ((0.1, 0.1), (2.0, 0.0)):
        longer = problem.K + softness * np.diag(problem.K.diagonal())
        settings = {"label_noise": noise} if run.takes("label_noise") else {}
        soft, plain = (
            run(space, **settings)
            for space in (
                VersionSpace(problem.K, problem.y, softness),
                VersionSpace(longer, problem.y),
            )
        )
        for one, other in zip(arrays(soft), arrays(plain), strict=True):
            assert_allclose(one, other, atol=1e-9, err_msg=f"{softness}, {noise}")


COUNTS = [(1, 4, 1, 1), (10, 4, 3, 3), (12, 4, 3, 1), (17, 1, 17, 3), (3, 7, 1, 2)]


@pytest.mark.parametrize("name", those_that_take("n_draws", "n_chains"))
def test_draws_are_rounded_up_to_the_same_number_for_each_chain(name):
    run, space = SAMPLERS[name], make_space(m=9)
    own = {"travel": 0.7} if run.takes("travel") else {"depth": 9} if run.takes("depth") else {}
    for n_draws, n_chains, n_per_chain, thin in COUNTS:
        found = run(space, n_draws=n_draws, n_chains=n_chains, thin=thin, **own)
        told = found.info
        if name != "gibbs":
            assert told["bounces"].shape == told["passes"].shape == (n_chains,)
        assert told["drift"] < 1e-9
        if isinstance(found, onion.Onion):
            assert told["n_draws"] == n_per_chain
            assert 0 < found.counts.sum() <= n_chains * n_per_chain
            assert told["rounds"] > 0
            continue
        assert found.draws().shape == (n_chains, n_per_chain, 9)
        assert told["errors"].shape == (found.n_draws,)
        assert {"rhat", "ess", "flight_seconds"} <= set(told)
        assert_usable(found, space)
        if run.takes("travel"):
            assert_allclose(told["travel_time"], n_per_chain * thin * 0.7)
