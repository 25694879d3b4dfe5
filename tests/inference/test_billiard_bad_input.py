"""Odd input of the billiard: one precise error, or a right answer."""

import warnings

import numpy as np
import pytest
from helpers.spaces import make_space
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from bayespoint import VersionSpace
from bayespoint.inference import sample_billiard
from bayespoint.space.version_space import EmptyVersionSpaceError

SPACE = make_space(m=6)
START = sample_billiard(SPACE, 4, n_chains=4, random_state=0).coef

# Nothing here may take longer; what would hang comes back with its starts, and a warning.
MAX_TIME = 20


def sample(space, n_draws=40, **settings):
    """Run the billiard; a few draws need not agree from chain to chain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the chains of the billiard do not agree")
        return sample_billiard(
            space, n_draws, **{"random_state": 0, "max_time": MAX_TIME, **settings}
        )  # fmt: skip


def assert_inside(posterior, space, rtol=1e-9):
    """Draws are unit vectors on the right side of every wall."""
    length = np.sqrt(space.rows.diagonal + space.ridge)
    assert_allclose(posterior.outputs / length, space.outputs(posterior.coef) / length, atol=rtol)
    assert_allclose(np.einsum("ij,ij->i", posterior.coef, posterior.outputs), 1.0, rtol=rtol)
    assert np.all(space.y * posterior.outputs >= 0)


# ---------------------------------------------------------------------- arguments

NOT_COUNTS = (0, -3, 1.5, 2.0, "x", None, True, [3], np.nan)
NOT_NUMBERS = (0, -1, np.nan, np.inf, "x", True, [1.0], 1j, np.complex128(1.0))

ARGUMENTS = {
    "n_draws": (NOT_COUNTS, "n_draws must be a whole number >= 1"),
    "n_chains": (NOT_COUNTS, "n_chains must be a whole number >= 1"),
    "thin": (NOT_COUNTS, "thin must be a whole number >= 1"),
    "travel": ((*NOT_NUMBERS, None), "travel must be a finite number > 0"),
    "travel_time": (NOT_NUMBERS, "travel_time must be a finite number > 0"),
    "tol": (NOT_NUMBERS, "tol must be a finite number > 0"),
    "max_time": (NOT_NUMBERS, "max_time must be a finite number > 0"),
    "burn_in": ((-1, 1.5, np.nan, np.inf, "x", True, [3]), "burn_in must be "),
    "n_path": ((-1, 1.5, np.nan, "x", None, True, [3]), "n_path must be "),
    "n_jobs": ((0, 1.5, "x", [1]), "n_jobs"),
    "verbose": ((-1, 1.5, "x", None), "verbose must be "),
    "random_state": (
        ("x", -1, 1.5, 2**40, [1], np.random.default_rng(0)),
        "random_state must be None, a whole number",
    ),
    "label_noise": (
        (-0.1, 0.5, 1, np.nan, np.inf, "x", None, True, 1j, ["a"] * 6, [0.1] * 5 + [np.nan],
         [0.1] * 5 + [0.5], [0.1] * 5 + [None]),
        r"label_noise must lie in \[0, 0\.5\)",
    ),
    "label_noise shape": (
        ([0.1], np.full(5, 0.1), np.full(7, 0.1), np.full((6, 1), 0.1), np.full((1, 6), 0.1), [],
         [[0.1], [0.1, 0.2]]),
        "label_noise must be one rate or one for each of 6 points",
    ),
    "start": (
        ("x", "Random", b"random"), r"start must be an array, one of"
    ),
    "start shape": (
        (START[0], START[:3], START[:, :5], START[None], 3, [], [[1.0], [1.0, 2.0]]),
        r"start must have one row of 6 coefficients for each of 4 chains",
    ),
    "start values": (
        ([["a"] * 6] * 4, START * np.nan, START * np.inf, np.vstack([START[:3], [[np.nan] * 6]])),
        r"start must .*(numbers|finite|NaN)",
    ),
    "start length": (
        (np.zeros((4, 6)), START * [[1], [1], [0], [1]]), r"start .*(zero|length)"
    ),
}  # fmt: skip
CASES = [
    pytest.param(name.split()[0], value, message, id=f"{name}-{k}")
    for name, (values, message) in ARGUMENTS.items()
    for k, value in enumerate(values)
]


@pytest.mark.parametrize(("name", "value", "message"), CASES)
def test_a_wrong_argument_is_one_error_that_names_it(name, value, message):
    with pytest.raises(ValueError, match=message):
        sample(SPACE, **{name: value})


@pytest.mark.parametrize(("chains", "found"), [([2], r"\[2\]"), ([0, 3], r"\[0, 3\]")])
def test_a_start_outside_of_version_space_is_named(chains, found):
    start = START.copy()
    start[chains] *= -1
    with pytest.raises(ValueError, match=rf"start must lie inside version space; chains {found}"):
        sample(SPACE, start=start)
    # With noise at every point it may lie anywhere, and with noise at some, beyond those walls.
    assert sample(SPACE, start=start, label_noise=0.1).n_draws == 40
    with pytest.raises(ValueError, match=rf"inside version space; chains {found}"):
        sample(SPACE, start=start, label_noise=[0.1] * 5 + [0.0])


def test_a_chain_without_length_is_named():
    start = START * [[1], [1], [0], [1]]
    with pytest.raises(ValueError, match=r"\[2\]"):
        sample(SPACE, start=start)


def test_a_random_start_needs_noise_everywhere():
    for noise in (0.0, [0.1] * 5 + [0.0]):
        with pytest.raises(ValueError, match=r"start='random' needs label_noise > 0"):
            sample(SPACE, start="random", label_noise=noise)
    assert sample(SPACE, start="random", label_noise=0.1).n_draws == 40
    assert_inside(sample(SPACE, start="consistent"), SPACE)


@pytest.mark.parametrize(
    "space", [SPACE.rows.store, None, "x", [[1.0]]], ids=["matrix", "none", "string", "list"]
)
def test_what_is_no_version_space_is_refused(space):
    with pytest.raises((ValueError, TypeError), match=r"space must be a VersionSpace"):
        sample(space)


def test_integers_lists_and_arrays_of_any_kind_will_do():
    expected = sample(SPACE, label_noise=0.125, burn_in=7).coef
    for settings in (
        {"label_noise": np.full(6, 0.125)},
        {"label_noise": [0.125] * 6},
        {"label_noise": np.float32(0.125)},
        {"label_noise": np.array(0.125)},
        {"n_draws": np.int64(40), "n_chains": np.int8(4), "thin": np.uint8(1)},
        {"travel": np.float64(np.pi / 2)},
        {"burn_in": np.int32(7), "random_state": np.int64(0)},
    ):
        other = sample(SPACE, **{"label_noise": 0.125, "burn_in": 7, **settings}).coef
        assert_array_equal(other, expected)
    as_list = sample(SPACE, start=START.tolist()).coef
    assert_array_equal(as_list, sample(SPACE, start=START).coef)
    fortran = np.asfortranarray(START)
    fortran.flags.writeable = False
    assert_array_equal(sample(SPACE, start=fortran).coef, as_list)
    assert_array_equal(sample(SPACE, label_noise=0).coef, sample(SPACE, label_noise=0.0).coef)


def test_nothing_given_is_changed():
    K, y = SPACE.rows.store.copy(), SPACE.y.copy()
    start, noise = START.copy(), np.full(6, 0.1)
    space = VersionSpace(K, y, softness=0.2)
    sample(space, start=start, label_noise=noise)
    assert_array_equal(K, SPACE.rows.store)
    assert_array_equal(y, SPACE.y)
    assert_array_equal(start, START)
    assert_array_equal(noise, 0.1)


# ---------------------------------------------------------------------- few points


@pytest.mark.parametrize(
    ("K", "y", "softness"),
    [
        ([[2.0]], [-1], 0.0),
        ([[2.0]], [1], 0.5),
        (np.ones((4, 4)), [1, 1, 1, 1], 0.0),
        (np.outer([1.0, 2.0, -3.0], [1.0, 2.0, -3.0]), [1, 1, -1], 0.0),
    ],
    ids=["minus", "plus", "repeated", "on a line"],
)
def test_in_one_dimension_there_is_one_classifier(K, y, softness):
    space = VersionSpace(K, y, softness)
    posterior = sample(space)
    assert posterior.n_draws == 40
    assert_inside(posterior, space)
    only = space.y * np.sqrt(space.rows.diagonal + space.ridge)
    assert_allclose(posterior.outputs - only, 0.0, atol=1e-12)
    assert_allclose(space.outputs(posterior.bayes_point()), only)


def test_in_one_dimension_noise_makes_it_two_classifiers():
    posterior = sample(VersionSpace([[2.0]], [1]), 4000, label_noise=0.2)
    assert_allclose(np.abs(posterior.outputs), np.sqrt(2.0))
    # Each draw is right with probability 0.8; at worst one flight in a hundred is a fresh one.
    assert 0.5 < np.mean(posterior.outputs > 0) < 0.98


@pytest.mark.parametrize("y", [[1, 1], [1, -1]])
def test_two_walls_leave_an_arc_with_the_bayes_point_in_its_middle(y):
    space = VersionSpace([[2.0, 1.0], [1.0, 5.0]], y)
    posterior = sample(space, 4000)
    assert_inside(posterior, space, rtol=1e-6)
    heights = posterior.outputs * y / np.sqrt([2.0, 5.0])
    # Walls are met at angle 0 and at the other end: every draw in between.
    angles = np.arcsin(heights)
    opening = np.arccos(-y[0] * y[1] / np.sqrt(10.0))
    assert_allclose(np.ptp(angles[:, 0]), opening if opening < np.pi / 2 else np.pi / 2, rtol=0.1)
    middle = np.sin(opening / 2)
    for source in ("draws", "path"):
        centre = space.margins(posterior.bayes_point(source)) / np.sqrt([2.0, 5.0])
        assert_allclose(centre, middle, atol=6 * posterior.bayes_point_error(source))
        assert posterior.bayes_point_error(source) < 0.03


# ---------------------------------------------------------------------- matrices


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [2.0**40, 2.0**-40])
def test_powers_of_two_scale_draws_to_the_bit(scale, dtype):
    K = SPACE.rows.store.astype(dtype)
    # Without a time limit, which makes steps, and so roundings, depend on the clock.
    plain, scaled = (
        sample(VersionSpace(s * K, SPACE.y), 200, max_time=None) for s in (dtype(1), dtype(scale))
    )
    assert_array_equal(scaled.coef, plain.coef / np.sqrt(scale))
    assert_array_equal(scaled.outputs, plain.outputs * np.sqrt(scale))
    assert_array_equal(scaled.bayes_point(), plain.bayes_point() / np.sqrt(scale))
    assert scaled.bayes_point_error() == plain.bayes_point_error()
    assert_allclose(scaled.ess(), plain.ess())
    assert_allclose(scaled.rhat(), plain.rhat())
    assert scaled.info["drift"] == plain.info["drift"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e30, 1e-30])
def test_huge_and_tiny_kernels_give_the_same_classifiers(scale, noise, dtype):
    K = SPACE.rows.store
    plain = sample(VersionSpace(K, SPACE.y), 40, label_noise=noise, burn_in=5)
    space = VersionSpace((scale * K).astype(dtype), SPACE.y)
    scaled = sample(space, 40, label_noise=noise, burn_in=5)
    digits = 1e-3 if dtype is np.float32 else 1e-8
    assert_allclose(scaled.outputs / np.sqrt(scale), plain.outputs, atol=digits)
    cross, diagonal = scale * K[:3], scale * K.diagonal()[:3] * 1.5
    expected = plain.predictive(K[:3], K.diagonal()[:3] * 1.5)
    assert_allclose(scaled.predictive(cross, diagonal), expected, atol=digits)


@pytest.mark.parametrize("softness", [0.0, 0.3])
def test_single_precision_gives_nearly_the_same(softness):
    space = make_space(m=40, softness=softness)
    single = make_space(m=40, softness=softness, dtype=np.float32)
    posterior = sample(single, 40, burn_in=0, start=sample(space, 4).coef)
    expected = sample(space, 40, burn_in=0, start=sample(space, 4).coef)
    assert_inside(posterior, single, rtol=1e-6)
    first = np.arange(0, 40, 10)  # later ones go their own ways
    assert_allclose(posterior.outputs[first], expected.outputs[first], atol=1e-4)


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6, 1e-8])
def test_the_direction_of_a_point_counts_and_not_its_length(share):
    # Two walls at 45 degrees and one across; a short point is as good a wall as a long one.
    X = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, 0.2, 1.0]])
    lengths = np.array([1.0, share, share])
    space = VersionSpace((X * lengths[:, None]) @ (X * lengths[:, None]).T, [1, 1, -1])
    posterior = sample(space, 200)
    plain = sample(VersionSpace(X @ X.T, [1, 1, -1]), 200)
    assert_inside(posterior, space, rtol=1e-6)
    assert_allclose(posterior.outputs / lengths, plain.outputs, atol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("softness", [0.0, 0.1])
def test_a_point_at_the_origin_has_no_right_side(softness, noise):
    K = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"points \[2\] lie at the origin.*leave them out"):
        sample(VersionSpace(K, [1, -1, 1], softness), label_noise=noise)
    with pytest.raises(ValueError, match=r"points \[0, 1\] lie at the origin"):
        sample(VersionSpace(np.zeros((2, 2)), [1, 1], softness), label_noise=noise)


# ---------------------------------------------------------------------- contradictions


def repeated(y):
    """Three points, the first one twice."""
    K = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 2.0]])
    return VersionSpace(K, y)


def test_contradictory_points_are_named():
    with pytest.raises(EmptyVersionSpaceError, match=r"\[0, 1\]") as caught:
        sample(repeated([1, -1, 1]))
    assert_array_equal(caught.value.points, [0, 1])
    with pytest.raises(EmptyVersionSpaceError):
        sample(repeated([1, -1, 1]), label_noise=[0.0, 0.0, 0.1])


@pytest.mark.parametrize("noise", [0.1, [0.0, 0.1, 0.0], [0.1, 0.0, 0.1], [0.0, 1e-12, 0.0]])
def test_noise_reconciles_contradictory_points(noise):
    posterior = sample(repeated([1, -1, 1]), 400, label_noise=noise)
    assert posterior.n_draws == 400
    assert_allclose(posterior.outputs[:, 0], posterior.outputs[:, 1], atol=1e-9)
    sure = np.flatnonzero(np.broadcast_to(noise, 3) == 0)
    assert np.all(posterior.outputs[:, sure] * np.array([1, -1, 1])[sure] > 0)
    assert np.all(posterior.info["errors"] >= 1)


def test_softness_reconciles_contradictory_points():
    K = repeated([1, -1, 1]).rows.store
    space = VersionSpace(K, [1, -1, 1], softness=0.1)
    assert_inside(sample(space, 400), space)


def test_points_that_agree_may_be_repeated():
    space = repeated([1, 1, -1])
    posterior = sample(space, 400)
    assert_inside(posterior, space, rtol=1e-6)
    once = sample(VersionSpace(space.rows.store[1:, 1:], [1, -1]), 400)
    assert_allclose(posterior.outputs.mean(axis=0)[1:], once.outputs.mean(axis=0), atol=0.2)


# ---------------------------------------------------------------------- no Gram matrix


def indefinite(m, off_diagonal):
    K = np.full((m, m), off_diagonal)
    np.fill_diagonal(K, 1.0)
    return K


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("y", [[1, 1, 1], [1, 1, -1], [-1, 1, -1]], ids=str)
def test_an_indefinite_matrix_is_refused(y, noise):
    # It passes Cauchy-Schwarz, but 1'K1 < 0. Few draws may never come near that direction.
    space = VersionSpace(indefinite(3, -0.9), y)
    for n_draws in (4, 40, 400):
        with pytest.raises(ValueError, match="positive semi-definite") as caught:
            sample(space, n_draws, label_noise=noise)
        assert not isinstance(caught.value, EmptyVersionSpaceError)


def test_a_large_indefinite_matrix_is_refused():
    rng = np.random.default_rng(0)
    K = rng.uniform(-1, 1, size=(40, 40))
    K = 0.5 * (K + K.T)
    np.fill_diagonal(K, 1.0)
    assert np.linalg.eigvalsh(K)[0] < -1
    for noise in (0.0, 0.1):
        with pytest.raises(ValueError, match="positive semi-definite"):
            sample(VersionSpace(K, np.ones(40)), 100, label_noise=noise)
    # Enough softness makes it one.
    space = VersionSpace(K, np.ones(40), softness=10.0)
    assert_inside(sample(space, 100), space)


def test_rounding_does_not_make_a_matrix_indefinite():
    X = np.random.default_rng(0).normal(size=(60, 3))
    for K in (X @ X.T + 1.0, np.exp(-0.01 * ((X[:, None] - X) ** 2).sum(axis=2))):
        for dtype in (np.float64, np.float32):
            space = VersionSpace(K.astype(dtype), np.sign(X @ [1.0, -0.5, 0.3]))
            assert_inside(sample(space, 40), space, rtol=1e-3)


# ---------------------------------------------------------------------- a start that is not found


def test_a_start_that_is_not_found_is_an_error_with_remedies_that_help():
    angle = np.concatenate([np.linspace(1e-6, 3.0, 40), np.linspace(3.2, 2 * np.pi - 1e-6, 40)])
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    K, y = X @ X.T, np.sign(X[:, 1])
    with pytest.raises(ValueError, match=r"no start inside version space.*softness.*label_noise"):
        sample(VersionSpace(K, y), 40)
    soft = VersionSpace(K, y, softness=0.01)
    assert_inside(sample(soft, 40), soft, rtol=1e-6)
    assert sample(VersionSpace(K, y), 40, label_noise=0.01).n_draws == 40


def test_a_time_limit_too_short_for_anything_is_a_warning():
    with pytest.warns(ConvergenceWarning, match=r"time was up.*max_time"):
        posterior = sample(SPACE, max_time=1e-9)
    assert_inside(posterior, SPACE)
