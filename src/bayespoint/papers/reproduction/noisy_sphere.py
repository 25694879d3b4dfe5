"""KGS section 5: points on the sphere in three dimensions, with labels that are flipped at random.

The posterior of labels that are wrong with probability q is constant on the cells into which the
walls of the points cut the sphere of classifiers; ``local_maxima`` finds its peaks exactly.
"""

from dataclasses import dataclass

import numpy as np

from bayespoint._support.types import Array

# Radians. Beta(0.1, 0.1) puts points within rounding of one great circle, so that their walls meet
# in a point up to rounding. Edges so short have no safe order, and do not count; cells without an
# edge of the second length are no maxima.
SHORTEST = 1e-12
SMALLEST = 1e-6

# w*, the classifier that gives the labels before they are flipped: at the angles (pi/2, pi).
TRUTH = np.array([-1.0, 0.0, 0.0])


def sphere_set(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Array]:
    """Draw ``n`` points and their labels, flipped with probability ``noise``.

    The paper draws longitude and latitude from Beta(5, 5) and Beta(0.1, 0.1), and places w* at
    (pi/2, pi): so the first is taken from pole to pole, the second around, both times pi.
    """
    X, y = clean_set(rng, n)
    return X, np.where(rng.random(n) < noise, -y, y)


def clean_set(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw ``n`` points, and the labels that w* gives them."""
    a, b = np.pi * rng.beta(5, 5, n), np.pi * rng.beta(0.1, 0.1, n)
    X = np.column_stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)])
    return X, np.where(X @ TRUTH > 0, 1, -1)


@dataclass(frozen=True)
class Maxima:
    """Cells of the posterior that are higher than all their neighbours.

    Parameters
    ----------
    errors : ndarray of shape (n,)
        Training errors of classifiers in each, ascending.
    centres : ndarray of shape (n, 3)
        A unit vector within each.
    n_cells : int
        Number of all cells with as few errors as were asked for.
    """

    errors: np.ndarray
    centres: np.ndarray
    n_cells: int


def local_maxima(X: Array, y: Array, rng: np.random.Generator, within: int | None = None) -> Maxima:
    """Return the local maxima of the posterior, whatever the rate q < 1/2 is.

    Each edge between two cells lies on the wall of one point, which is right on one side and wrong
    on the other: neighbours differ by one error, and a cell is a local maximum if it is on the
    right side of all its edges. Around the circle of each wall, all edges are visited in order;
    cells are known by the exclusive or of random keys of the points that are wrong.

    Parameters
    ----------
    X : ndarray of shape (m, 3)
        Points.
    y : ndarray of shape (m,)
        Labels.
    rng : Generator
        For the keys.
    within : int, default=None
        Only cells with at most so many errors more than the best one; by default, all.
    """
    normals = y[:, None] * X / np.linalg.norm(X, axis=1)[:, None]
    m = len(normals)
    keys = rng.integers(0, 2**64, m, dtype=np.uint64)
    edges = [around(i, normals, keys) for i in range(m)]
    cells, errors, middles, lengths = (np.array(parts) for parts in zip(*edges, strict=True))
    counts = lengths > SHORTEST
    most = m if within is None else errors[counts].min() + within
    right, wrong = counts & (errors <= most), counts & (errors < most)
    wrong_side = np.unique((cells ^ keys[:, None])[wrong])
    right_side, first, owner = np.unique(cells[right], return_index=True, return_inverse=True)
    centres = np.zeros((len(right_side), 3))
    np.add.at(centres, owner, middles[right])  # the sum is within: cells are convex
    longest = np.zeros(len(right_side))
    np.maximum.at(longest, owner, lengths[right])
    top = np.isin(right_side, wrong_side, assume_unique=True, invert=True) & (longest > SMALLEST)
    centres, found = centres[top], errors[right][first[top]]
    order = np.lexsort((*centres.T, found))
    centres = centres[order] / np.linalg.norm(centres[order], axis=1)[:, None]
    return Maxima(found[order], centres, len(np.union1d(right_side, wrong_side)))


def around(i: int, normals: Array, keys: Array) -> tuple[Array, Array, Array, Array]:
    """Follow the circle of wall i; return cell, errors, middle and length of each edge.

    Cell and errors are those on the side where point i is right.
    """
    others, keys = np.delete(normals, i, axis=0), np.delete(keys, i)
    first, second = np.linalg.svd(normals[i, None])[2][1:]
    # Point j is right for |t - phase_j| < pi/2 on the circle.
    phase = np.arctan2(others @ second, others @ first)
    turns = np.concatenate([phase - np.pi / 2, phase + np.pi / 2]) % (2 * np.pi)
    order = np.argsort(turns)
    angles = turns[order]
    lengths = np.append(angles[1:], angles[0] + 2 * np.pi) - angles
    middles = angles + 0.5 * lengths
    vectors = np.cos(middles)[:, None] * first + np.sin(middles)[:, None] * second
    # Signs are safe to tell on the longest edge. Along the circle a point gets right at the first
    # of its two turns, and wrong at the second.
    known = np.argmax(lengths)
    wrong = others @ vectors[known] < 0
    errors = np.cumsum(np.repeat([-1, 1], len(others))[order])
    errors += np.sum(wrong) - errors[known]
    cells = np.bitwise_xor.accumulate(np.tile(keys, 2)[order])
    cells ^= np.bitwise_xor.reduce(keys[wrong], initial=np.uint64(0)) ^ cells[known]
    return cells, errors, vectors, lengths


def modes(maxima: Maxima, log_odds: float, least_ratio: float, apart: float) -> list[int]:
    """Return which local maxima count as modes, best first.

    Those do whose posterior is at least ``least_ratio`` of the highest, and that are farther than
    ``apart`` (radians) from all better ones that count.
    """
    counted: list[int] = []
    for k, errors in enumerate(maxima.errors):
        if (errors - maxima.errors[0]) * log_odds > -np.log(least_ratio):
            break
        cosines = maxima.centres[counted] @ maxima.centres[k]
        if np.all(cosines < np.cos(apart)):
            counted.append(k)
    return counted


def hills(heights: Array, least: float) -> int:
    """Return how many hills a map of the sphere shows: maxima that rise by ``least`` or more.

    Rows go from pole to pole, columns around. From the highest pixel down, each one is added to the
    hills beside it; where two hills meet, the lower one counts if it rises above that place by
    enough. The highest hill always counts.
    """
    n_rows, n_columns = heights.shape
    flat = heights.ravel().tolist()
    hill = [-1] * len(flat)
    count = 1
    for pixel in np.argsort(-heights.ravel(), kind="stable").tolist():
        row, column = divmod(pixel, n_columns)
        found = {_top(hill, k) for k in _beside(row, column, n_rows, n_columns) if hill[k] >= 0}
        tops = sorted(found, key=lambda k: (-flat[k], k))
        hill[pixel] = tops[0] if tops else pixel
        for lower in tops[1:]:
            count += flat[lower] - flat[pixel] >= least
            hill[lower] = tops[0]
    return count


def _top(hill: list[int], pixel: int) -> int:
    while hill[pixel] != pixel:
        pixel = hill[pixel]
    return pixel


def _beside(row: int, column: int, n_rows: int, n_columns: int) -> list[int]:
    """Return the pixels beside one; across a pole, too."""
    start = row * n_columns
    beside = [start + (column - 1) % n_columns, start + (column + 1) % n_columns]
    across = start + (column + n_columns // 2) % n_columns
    beside.append(across if row == 0 else start - n_columns + column)
    beside.append(across if row == n_rows - 1 else start + n_columns + column)
    return beside
