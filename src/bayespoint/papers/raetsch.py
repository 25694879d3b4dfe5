"""Rätsch's benchmark sets and their splits: read, or made where nobody publishes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bayespoint._support.types import Array

# Returns X and y of a set.
Load: TypeAlias = Callable[[str], tuple[Array, ...]]

# Training rows of a split, of the sets that can be made again, and where their rows come from.
MADE = {
    "heart": (170, "UCI's heart.dat"), "thyroid": (140, "UCI's new-thyroid.data"),
    "diabetis": (468, "OpenML's data set 37 (Pima)"), "banana": (400, "OpenML's data set 1460"),
    "waveform": (400, "5,000 cases made by the recipe of Breiman et al. (1984)"),
}  # fmt: skip

# Split k of a set is a permutation with this seed plus k; rows of waveform have the seed itself.
SEED = 20010000

# Cases of waveform, and its three triangles: their peaks, and pairs that make the classes.
N_WAVEFORM = 5000
PEAKS, PAIRS = np.array([11.0, 15.0, 7.0]), ((0, 1), (0, 2), (1, 2))


def read_split(folder: Path, name: str, split: int) -> tuple[Array, ...] | None:
    """Return X and y of the training and of the test rows, from a file; None without one."""
    found = _packed(folder, name)
    if found is None:
        return None
    X, y, train, _ = found
    if split > len(train):
        raise ValueError(
            f"{folder / 'raetsch'} has {len(train)} splits of {name!r}; got split={split}."
        )
    rows = train[split - 1]
    if rows.min() < 0 or rows.max() >= len(y) or set(y) - {-1, 1}:
        raise ValueError(f"{folder / 'raetsch'} has no sound split {split} of {name!r}.")
    # The training rows have an order of their own; the others keep that of the set.
    return X[rows], y[rows], np.delete(X, rows, axis=0), np.delete(y, rows)


def _packed(folder: Path, name: str) -> tuple[Array, Array, Array, Array | None] | None:
    """Inputs, labels, training rows of the splits, and whether these are Rätsch's own, if known."""
    path = folder / "raetsch" / "raetsch.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as packed:
            if f"{name}.x" in packed:
                own = packed.get(f"{name}.original")
                X, y = packed[f"{name}.x"].astype(float), packed[f"{name}.t"].astype(np.int64)
                return X, y, packed[f"{name}.train"], own
    path = folder / "raetsch" / "benchmarks.mat"
    if path.exists():
        from scipy.io import loadmat

        key = name.replace("-", "_")
        found: Any = loadmat(path, variable_names=[key], simplify_cells=True)
        if key in found:
            X, y = np.asarray(found[key]["x"], float), np.asarray(found[key]["t"]).ravel()
            train = np.asarray(found[key]["train"]).astype(np.int64) - 1  # MATLAB counts from 1
            return X, y.astype(np.int64), train, np.ones(len(train), dtype=bool)
    return None


def made_split(name: str, split: int, load: Load) -> tuple[Array, ...]:
    """Return a split of Rätsch's sizes, made by a seed, of rows that are published.

    Parameters
    ----------
    name : str
        A key of ``MADE``.
    split : int
        From 1 on.
    load : callable
        Returns X and y of "heart", "thyroid", "pima" and "banana".
    """
    X, y = _rows(name, load)
    order = np.random.default_rng(SEED + split).permutation(len(y))
    train, test = np.split(order, [MADE[name][0]])
    return X[train], y[train], X[np.sort(test)], y[np.sort(test)]


def _rows(name: str, load: Load) -> tuple[Array, Array]:
    """Inputs as Rätsch's (mean 0, sample deviation 1 over all rows), and labels -1 and +1."""
    if name == "waveform":
        return _waveform()
    X, y = load({"diabetis": "pima"}.get(name, name))
    if name == "thyroid":
        y = np.where(y == 0, -1, 1)  # normal, or not
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1), y


def _waveform() -> tuple[Array, Array]:
    """Sums of two of three triangles with noise (Breiman et al.); one class against two."""
    rng = np.random.default_rng(SEED)
    triangles = np.maximum(6 - np.abs(np.arange(1, 22) - PEAKS[:, None]), 0)
    label, share = rng.integers(3, size=N_WAVEFORM), rng.random((N_WAVEFORM, 1))
    first, second = np.array(PAIRS)[label].T
    X = share * triangles[first] + (1 - share) * triangles[second]
    return X + rng.standard_normal(X.shape), np.where(label == 0, 1, -1)


def origin(folder: Path, name: str) -> str:
    """Say where the splits of a set come from."""
    found = _packed(folder, name)
    if found is None:
        if name not in MADE:
            return "no file of its splits is there"
        return f"rows from {MADE[name][1]}; splits of Rätsch's sizes made here by a seed"
    own = found[3]
    if own is None:
        return "splits as in the folder"
    if np.all(own):
        return "Rätsch's own splits"
    return f"{int(np.sum(own))} of {len(own)} splits are Rätsch's own, the others made by a seed"
