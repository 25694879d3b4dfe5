"""Columns of numbers with long tails, which count by rank.

Kernels see distances: where one value is a thousand times the median, all others are the same.
Ranks of the training values keep their order and spread them evenly. Numbers are halved before they
are subtracted, as the difference of two finite ones may not be one.
"""

import math
from typing import Any

import numpy as np

from bayespoint._support.types import Array

# Times the usual distance from the median that the largest must exceed. Normal values reach 7 times
# it in a million rows, exponential ones 10 in some hundred: beyond, few values rule the scale.
LONG_TAIL = 10
# Knots of a column: steps of 1/64 of the rows are finer than a kernel needs.
N_KNOTS = 65
# Knots of all columns: as text in a model file they take 12 MB of the 32 MB there.
MOST_KNOTS = 300_000
# Knots of a column of very many: the ends and the middle.
FEWEST_KNOTS = 3


def knots_each(n_columns: int) -> int:
    """How many knots each of some columns may have."""
    return max(FEWEST_KNOTS, min(N_KNOTS, MOST_KNOTS // n_columns))


def has_long_tail(values: Array, median: float) -> bool:
    """Whether the largest distance from the median is more than `LONG_TAIL` times the usual one.

    The usual one is the median distance of those values that differ from the median. Two different
    values have no tail: their distances are the same, or one is 0.
    """
    distances = np.abs(values / 2 - median / 2)
    others = distances[distances > 0]
    if not others.size:
        return False
    # Halved again: medians add two numbers.
    return bool(distances.max() / (2 * LONG_TAIL) > np.median(others / 2))


def knots_of(values: Array, n_knots: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Some of the values, evenly spaced in their order, and their mean ranks, divided by n."""
    ordered = np.sort(values / 2)
    chosen = np.linspace(0, len(ordered) - 1, n_knots).round().astype(int)
    knots = np.unique(ordered[chosen])
    below, up_to = (np.searchsorted(ordered, knots, side=side) for side in ("left", "right"))
    places = (below + up_to) / (2 * len(ordered))
    return tuple((2 * knots).tolist()), tuple(places.tolist())


def placed(values: Array, knots: tuple[float, ...], places: tuple[float, ...]) -> Array:
    """Places of numbers by straight lines from knot to knot; beyond, along the overall slope."""
    x, k, p = values / 2, np.array(knots) / 2, np.array(places)
    inside = np.clip(x, k[0], k[-1])
    at = np.clip(np.searchsorted(k, inside, side="right") - 1, 0, len(k) - 2)
    between = (inside - k[at]) / (k[at + 1] - k[at]) * (p[at + 1] - p[at])
    with np.errstate(over="ignore"):
        beyond = (x - inside) / (k[-1] - k[0]) * (p[-1] - p[0])
    return p[at] + between + beyond


def are_sound(knots: Any, places: Any) -> bool:
    """Whether these are lists as `knots_of` makes them, or both empty."""
    lists = isinstance(knots, list) and isinstance(places, list)
    if not lists or len(knots) != len(places) or len(knots) == 1 or len(knots) > N_KNOTS:
        return False
    if not all(type(value) is float and math.isfinite(value) for value in (*knots, *places)):
        return False
    rising = all((np.diff(np.array(one) / 2) > 0).all() for one in (knots, places))
    return not knots or (rising and places[0] >= 0 and places[-1] <= 1)
