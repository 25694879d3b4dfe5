"""Balanced binary trees that divide rows into cells of rows that lie together.

At each node the rows of a sample are divided by two means, and all rows by a hyperplane that is
orthogonal to the difference of the two: equal parts, and a new row finds its cell by one product a
level. The sample is spread over the order given, which is that of the rows' hashes: whoever has the
rows builds the same tree.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.types import Array, Matrix
from bayespoint.space.merging import spread_over

# Rows of the sample that a tree is made from: so many for each cell, and no fewer in all.
SAMPLED_PER_CELL = 128
LEAST_SAMPLE = 50_000

# Two means are found from at most so many rows of a node, fewer where that is so much memory, by so
# many steps.
MEANS_SAMPLE, LEAST_MEANS_SAMPLE = 1_000, 32
MEANS_BYTES = 2**24
MEANS_STEPS = 5

# Rows, as a share of all, that a cut may be away from where it should be.
UNEVEN = 0.25

# A gap between projections, as a share of the largest, that rounding cannot close.
LEAST_GAP = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """Hyperplanes, and which cell lies on each side.

    Attributes
    ----------
    normals : ndarray of shape (n_nodes, n_features)
    cuts : ndarray of shape (n_nodes,)
        Rows with a larger product go to the right.
    children : ndarray of int, shape (n_nodes, 2)
        Nodes to the left and right, or minus one less the number of a cell.
    n_cells : int
    """

    normals: Array
    cuts: Array
    children: Array
    n_cells: int

    def route(self, X: Matrix) -> Array:
        """Return the number of the cell of each row."""
        root = 0 if len(self.cuts) else -1
        return route(X, root, self.normals, self.cuts, self.children)

    def with_cell_divided(self, cell: int, part: "Tree") -> "Tree":
        """Return the tree with a cell divided by another tree: its first cell has the number."""
        if part.n_cells == 1:
            return self
        number = np.append(cell, self.n_cells + np.arange(part.n_cells - 1))
        at = len(self.cuts)
        below = np.where(part.children < 0, -1 - number[-1 - np.minimum(part.children, -1)],
                         part.children + at)  # fmt: skip
        children = np.where(self.children == -1 - cell, at, self.children)
        return Tree(
            np.concatenate([self.normals, part.normals]), np.concatenate([self.cuts, part.cuts]),
            np.concatenate([children, below]), self.n_cells + part.n_cells - 1,
        )  # fmt: skip


def empty_tree(n_features: int) -> Tree:
    """Return one cell."""
    return Tree(np.empty((0, n_features)), np.empty(0), np.empty((0, 2), dtype=np.int64), 1)


NO_TREE = empty_tree(0)


def route(X: Matrix, root: int, normals: Array, cuts: Array, children: Array) -> Array:
    """Return the number of the cell of each row, from a node on: see `Tree`."""
    cell = np.full(X.shape[0], -1 - root, dtype=np.int64)
    waiting = [(root, np.arange(X.shape[0]))] if root >= 0 else []
    while waiting:
        node, rows = waiting.pop()
        right = _projections(X, rows, normals[node]) > cuts[node]
        for child, part in zip(children[node], (rows[~right], rows[right]), strict=True):
            if child < 0:
                cell[part] = -1 - child
            elif len(part):
                waiting.append((int(child), part))
    return cell


def grow(
    X: Matrix, cell_size: int, seed: np.random.SeedSequence, scale: Array | None = None,
    rows: Array | None = None,
) -> Tree:  # fmt: skip
    """Divide rows into cells of about ``cell_size``, and no more where rows can be told apart.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n_rows, n_features)
        Distinct rows, in the order of their hashes.
    cell_size : int
    seed : SeedSequence
        Of this tree: others are cut elsewhere.
    scale : ndarray of shape (n_features,), optional
        What columns are multiplied by before distances are taken.
    rows : ndarray of int, optional
        Which rows are divided, in order; all by default.
    """
    scale = np.ones(X.shape[1]) if scale is None else scale
    n_rows = X.shape[0] if rows is None else len(rows)
    n_cells = -(-n_rows // cell_size)
    n_sampled = max(LEAST_SAMPLE, SAMPLED_PER_CELL * n_cells)
    rng = np.random.default_rng(seed)
    normals: list[Array] = []
    cuts: list[float] = []
    children: list[list[int]] = []
    found = 0
    # Nodes to make: their rows of the sample, cells that they become, and where they hang.
    sampled = spread_over(n_rows, n_sampled)
    sampled = sampled if rows is None else rows[sampled]
    waiting: list[tuple[Array, int, Any]] = [(sampled, n_cells, None)]
    while waiting:
        here_rows, wanted, parent = waiting.pop()
        divided = min(wanted, len(here_rows)) > 1
        cut = _cut(X, here_rows, wanted, scale, rng) if divided else None
        if cut is None:
            here, found = -1 - found, found + 1
        else:
            here = len(cuts)
            normal, threshold, right = cut
            normals.append(normal)
            cuts.append(threshold)
            children.append([0, 0])
            for side, part in ((1, here_rows[right]), (0, here_rows[~right])):
                cells = max(1, round(wanted * len(part) / len(here_rows)))
                waiting.append((part, cells, (here, side)))
        if parent is not None:
            children[parent[0]][parent[1]] = here
    return Tree(
        np.array(normals).reshape(len(cuts), X.shape[1]), np.array(cuts),
        np.array(children, dtype=np.int64).reshape(len(cuts), 2), found,
    )  # fmt: skip


def _cut(
    X: Matrix, rows: Array, wanted: int, scale: Array, rng: np.random.Generator
) -> tuple[Array, float, Array] | None:
    """Normal, threshold, and which rows lie to the right; None if the rows are all alike."""
    normal = _difference_of_means(X, rows, scale, rng)
    if normal is None:
        return None
    left = len(rows) * (wanted // 2) / wanted
    found = _cut_across(X, rows, normal, left)
    if found is None or abs(np.sum(~found[2]) - left) > UNEVEN * len(rows):
        # Many rows have one projection, as indicators do: almost any other tells them apart.
        other = _cut_across(X, rows, _unit(scale * rng.standard_normal(X.shape[1])), left)
        cuts = [cut for cut in (found, other) if cut is not None]
        found = min(cuts, key=lambda cut: abs(np.sum(~cut[2]) - left), default=None)
    return found


def _cut_across(
    X: Matrix, rows: Array, normal: Array, left: float
) -> tuple[Array, float, Array] | None:
    """Cut with about so many rows to the left; None if rows have only one projection."""
    projection = _projections(X, rows, normal)
    values = np.sort(projection)
    wide = np.flatnonzero(np.diff(values) > LEAST_GAP * np.max(np.abs(values)))
    if not len(wide):
        return None
    at = wide[np.argmin(np.abs(wide + 1 - left))]
    threshold = 0.5 * (values[at] + values[at + 1])
    return normal, float(threshold), projection > threshold


def _difference_of_means(
    X: Matrix, rows: Array, scale: Array, rng: np.random.Generator
) -> Array | None:
    """Unit difference of two means of some rows, in scaled columns: for rows as they are."""
    most = min(MEANS_SAMPLE, max(MEANS_BYTES // (8 * X.shape[1]), LEAST_MEANS_SAMPLE))
    if len(rows) > most:
        rows = rows[np.sort(rng.choice(len(rows), most, replace=False))]
    Z = _dense(X, rows)
    Z = (Z - Z.mean(axis=0)) * scale  # products of large offsets would lose digits
    centres, total = Z[rng.choice(len(Z), 2, replace=False)], Z.sum(axis=0)
    for _ in range(MEANS_STEPS):
        normal = centres[1] - centres[0]
        right = Z @ normal > 0.5 * (centres[1] + centres[0]) @ normal
        n_right = np.count_nonzero(right)
        if n_right in (0, len(Z)):
            break
        of_right = right.astype(np.float64) @ Z
        centres = np.array([(total - of_right) / (len(Z) - n_right), of_right / n_right])
    normal = centres[1] - centres[0]
    length = np.linalg.norm(normal)
    if not length > 0:  # the two rows were equal: along the first row that differs
        away = np.argmax(np.sum(Z**2, axis=1))
        normal, length = Z[away], np.linalg.norm(Z[away])
    return _unit(scale * normal) if length > 0 else None


def _unit(vector: Array) -> Array:
    return vector / np.linalg.norm(vector)


def _projections(X: Matrix, rows: Array, normal: Array) -> Array:
    """Products of rows and a normal; of a row the same whatever rows are beside it, nearly."""
    return np.asarray(_some(X, rows) @ normal, dtype=np.float64).ravel()


def _dense(X: Matrix, rows: Array) -> Array:
    part = _some(X, rows)
    return np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64)


def _some(X: Any, rows: Array) -> Any:
    """Some rows: of arrays in half the time that indexing takes."""
    return X[rows] if sp.issparse(X) else X.take(rows, axis=0)
