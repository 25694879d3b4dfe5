"""The compiled search for the next wall, and its random numbers, against plain NumPy and Python."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespoint._loops.billiard import CHUNK, CURSOR_SIZE, NOW, RANDOM, TOUCH, next_wall, uniform

# Fewer walls than a vector register holds, and around one chunk and several.
SIZES = (1, 2, 63, CHUNK - 1, CHUNK, CHUNK + 1, 1500)

# Chunks end between these walls.
EDGES = (0, CHUNK - 1, CHUNK, 2 * CHUNK - 1, 2 * CHUNK, 1499)


# ---------------------------------------------------------------------- the next wall


def make_walls(m, seed=0, moving_in=None):
    """Ball at angle 0.7 above all walls, about to add a row; moving towards all, none or some."""
    rng = np.random.default_rng([seed, m])
    walls = SimpleNamespace(cos=np.cos(0.7), sin=np.sin(0.7), to_p=0.3, to_q=-0.2)
    height = rng.uniform(0.01, 1.0, size=m)
    descent = rng.normal(size=m) if moving_in is None else rng.uniform(0.1, 1.0, size=m)
    if moving_in is False:
        descent = -descent
    length, sign = rng.uniform(0.1, 10.0, size=m), rng.choice([-1.0, 1.0], size=m)
    walls.side = sign / length
    walls.row = rng.normal(size=m)
    place(walls, height, descent)
    return walls


def place(walls, height, descent):
    """Put the ball where it will have these heights and descents once the row is added."""
    w, v = height / walls.side, -descent / walls.side
    row = walls.row.astype(np.float64)
    walls.P = w * walls.cos - v * walls.sin - walls.to_p * row
    walls.Q = w * walls.sin + v * walls.cos - walls.to_q * row
    walls.height, walls.descent = height, descent


def look(walls):
    """Next wall and its cotangent; whatever was in the buffer before."""
    buffer = np.full(CHUNK, np.nan)
    P, Q, row = walls.P.copy(), walls.Q.copy(), walls.row.astype(np.float64)
    result = next_wall(
        P, Q, walls.row, walls.to_p, walls.to_q, walls.cos, walls.sin, walls.side, buffer
    )
    assert_allclose(P, walls.P + walls.to_p * row, rtol=1e-12, atol=1e-14)
    assert_allclose(Q, walls.Q + walls.to_q * row, rtol=1e-12, atol=1e-14)
    return result


@pytest.mark.parametrize("m", SIZES)
def test_the_next_wall_has_the_largest_cotangent(m):
    for seed in range(18):
        moving_in = (True, False, None)[seed % 3]
        walls = make_walls(m, seed, moving_in)
        cotangents = walls.descent / walls.height
        wall, cotangent = look(walls)
        assert wall == np.argmax(cotangents)
        assert_allclose(cotangent, cotangents.max(), rtol=1e-9)
        if moving_in is not None:
            assert (cotangent > 0) == moving_in


@pytest.mark.parametrize("moving_in", [True, False], ids=["moving in", "moving out"])
def test_the_nearest_wall_is_found_at_the_edges_of_chunks(moving_in):
    for nearest in EDGES:
        walls = make_walls(1500, moving_in=moving_in)
        cotangents = walls.descent / walls.height
        descent = walls.descent.copy()
        descent[nearest] = walls.height[nearest] * (cotangents.max() + 0.05)
        place(walls, walls.height, descent)
        assert look(walls)[0] == nearest


def test_single_precision_rows_will_do():
    walls = make_walls(700)
    walls.row = walls.row.astype(np.float32)
    place(walls, walls.height, walls.descent)
    assert look(walls)[0] == np.argmax(walls.descent / walls.height)


@pytest.mark.parametrize("pair", [(3, 9), (5, 600), (0, 1499), (CHUNK - 1, CHUNK)], ids=str)
def test_of_two_equal_walls_the_first_is_met_first(pair):
    walls = make_walls(1500, moving_in=True)
    first, second = pair
    for values in (walls.P, walls.Q, walls.row, walls.side):
        values[second] = values[first]
    buffer, best = np.full(CHUNK, np.nan), []
    for chosen in ([first, second], [second, first]):
        index = np.array(chosen)
        parts = [values[index] for values in (walls.P, walls.Q, walls.row)]
        best.append(next_wall(*parts, 0.3, -0.2, walls.cos, walls.sin, walls.side[index], buffer))
    assert best[0] == best[1]
    assert best[0][0] == 0
    # Among all others, too.
    height, descent = walls.height.copy(), walls.descent.copy()
    height[[first, second]], descent[[first, second]] = 0.5, 1e3
    place(walls, height, descent)
    assert look(walls)[0] == first


@pytest.mark.parametrize("height", [0.5 * TOUCH, 1e-17, 0.0, -0.5 * TOUCH, -1e-9])
def test_a_touched_wall_is_met_now_or_not_at_all(height):
    for touched, moving_in in product((0, 77, CHUNK, 1499), (True, False)):
        # Positions are of order one, so heights are given exactly: nothing is added or turned.
        walls = make_walls(1500, moving_in=False)
        walls.cos, walls.sin, walls.to_p, walls.to_q = 1.0, 0.0, 0.0, 0.0
        walls.side[touched] = 1.0
        heights, descents = walls.height.copy(), walls.descent.copy()
        heights[touched], descents[touched] = height, (0.3 if moving_in else -0.3)
        place(walls, heights, descents)
        wall, cotangent = look(walls)
        others = np.delete(descents, touched) / np.delete(heights, touched)
        assert (wall == touched) == moving_in
        assert_allclose(cotangent, NOW if moving_in else others.max(), rtol=1e-12)


def test_a_wall_just_above_touch_is_a_wall_like_others():
    walls = make_walls(50, moving_in=True)
    walls.cos, walls.sin, walls.to_p, walls.to_q = 1.0, 0.0, 0.0, 0.0
    walls.side[7] = 1.0
    heights = walls.height.copy()
    heights[7] = 2 * TOUCH
    place(walls, heights, walls.descent)
    wall, cotangent = look(walls)
    assert wall == 7
    assert_allclose(cotangent, walls.descent[7] / (2 * TOUCH))


@pytest.mark.parametrize("m", [1, 600])
def test_where_every_wall_was_just_left_the_next_is_half_a_circle_away(m):
    walls = make_walls(m)
    walls.cos, walls.sin, walls.to_p, walls.to_q = 1.0, 0.0, 0.0, 0.0
    place(walls, np.zeros(m), np.full(m, -0.5))
    wall, cotangent = look(walls)
    assert 0 <= wall < m
    assert np.arctan2(1.0, cotangent) == np.pi


# ---------------------------------------------------------------------- random numbers


def split_mix(state):
    """SplitMix64 in Python's integers: the new state, and 64 bits."""
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    bits = state
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    return state, bits ^ (bits >> 31)


def uniforms(seed, n):
    cursor = np.zeros(CURSOR_SIZE, dtype=np.int64)
    cursor[RANDOM] = seed
    return np.array([uniform(cursor) for _ in range(n)]), cursor


@pytest.mark.parametrize("seed", [0, 1234567, 2**63 - 1, -1, -(2**63)])
def test_random_numbers_are_those_of_splitmix(seed):
    found, cursor = uniforms(seed, 100)
    state, expected = seed % 2**64, []
    for _ in range(100):
        state, bits = split_mix(state)
        expected.append((bits >> 11) * 2.0**-53)
    assert_array_equal(found, expected)
    assert int(cursor[RANDOM]) % 2**64 == state
    assert_array_equal(np.delete(cursor, RANDOM), 0)


def test_splitmix_is_the_published_one():
    state, found = 1234567, []
    for _ in range(3):
        state, bits = split_mix(state)
        found.append(bits)
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_random_numbers_are_uniform_and_differ_from_ball_to_ball():
    x, _ = uniforms(42, 20_000)
    assert np.all((x >= 0) & (x < 1))
    assert len(np.unique(x)) == 20_000
    # At 1e-6, 4.9 standard errors.
    assert abs(x.mean() - 1 / 2) < 4.9 * np.sqrt(1 / 12 / 20_000)
    assert abs((x**2).mean() - 1 / 3) < 4.9 * np.sqrt(4 / 45 / 20_000)
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 4.9 / np.sqrt(20_000)
    other, _ = uniforms(43, 20_000)
    assert abs(np.corrcoef(x, other)[0, 1]) < 4.9 / np.sqrt(20_000)
