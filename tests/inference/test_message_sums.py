"""Sums of messages: the same to the last digit however cells are grouped, and which cells wait."""

import numpy as np
import pytest

from bayespoint.inference.ep.cells.cell import Message, TreeSum
from bayespoint.inference.ep.cells.memory import MOST_WAVES, WAVE, wave_of
from bayespoint.inference.ep.cells.problem import Sweeping
from bayespoint.inference.ep.cells.visits import Visits


def messages(n, seed=0):
    """Messages of very different sizes, whose sum depends on the order; some say nothing."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-8, 8, size=n)
    found = [Message(size * rng.normal(size=(3, 3)), rng.normal(size=3)) for size in sizes]
    return [None if k % 5 == 3 else message for k, message in enumerate(found)]


def total(parts):
    told = TreeSum()
    for part in parts:
        told.add(part)
    return told.total()


@pytest.mark.parametrize("n", [1, 2, 7, 8, 13, 64, 100])
@pytest.mark.parametrize("group", [1, 2, 4, 8, 16])
def test_groups_are_not_felt(n, group):
    parts = messages(n)
    grouped = [total(parts[k : k + group]) for k in range(0, n, group)]
    for found, wanted in zip(total(grouped), total(parts), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_groups_of_three_would_be_felt():
    parts = messages(100)
    grouped = total([total(parts[k : k + 3]) for k in range(0, 100, 3)])
    assert np.any(grouped.precision != total(parts).precision)
    np.testing.assert_allclose(grouped.precision, total(parts).precision, rtol=1e-9)


def test_nothing_said_is_nothing():
    assert total([]) is None
    assert total([None, None, None]) is None


@pytest.mark.parametrize("n_cells", [1, 8, 64, 65, 465, 5_000, 10**6])
def test_all_cells_are_visited_in_few_waves(n_cells):
    wave = wave_of(n_cells)
    assert wave >= WAVE
    assert wave & (wave - 1) == 0
    assert -(-n_cells // wave) <= MOST_WAVES
    visits = Visits(1, n_cells, Sweeping())
    assert visits.begin()
    numbers = [number for some in visits.waves() for number in (some.start, some.stop)]
    assert numbers[0] == 0
    assert numbers[-1] == n_cells
    assert numbers[1:-1:2] == numbers[2::2]
