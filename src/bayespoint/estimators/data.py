"""From X and y to the distinct rows, labels and weights that a fit works with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.checks import PointsError, RowsError, shown_places
from bayespoint._support.types import Array
from bayespoint.estimators.parameters import log_class_weights
from bayespoint.space.given import checked_weights
from bayespoint.space.hashes import row_hashes
from bayespoint.space.inputs import Inputs
from bayespoint.space.merging import (
    MOST_MADE,
    DistinctRows,
    contradictions,
    encoded,
    merge_duplicates,
)
from bayespoint.space.version_space import EmptyVersionSpaceError


@dataclass(frozen=True, eq=False, repr=False)
class TrainingData:
    """What a fit was given, merged.

    Attributes
    ----------
    inputs : Inputs
        The distinct rows.
    distinct : DistinctRows
        Their labels, weights and places in X.
    classes : ndarray of shape (n_classes,)
    class_share : ndarray of shape (n_classes,)
        Shares of the classes, by weight.
    log_weight : ndarray of shape (n_classes,)
        Logarithms of ``class_weight``.
    n_samples : int
        Rows of X.
    """

    inputs: Inputs
    distinct: DistinctRows
    classes: Array
    class_share: Array
    log_weight: Array
    n_samples: int

    @property
    def n_machines(self) -> int:
        """Binary problems: one for two classes, else one per class."""
        return len(self.classes) if len(self.classes) > 2 else 1

    def some(self, chosen: Array) -> "TrainingData":
        """Return some of the distinct rows; others of X are as if their weight was 0."""
        place = np.full(len(self.distinct.row) + 1, -1)
        place[chosen] = np.arange(len(chosen))
        label, weight = self.distinct.label[chosen], self.distinct.weight[chosen]
        distinct = self.distinct._replace(
            row=self.distinct.row[chosen], label=label, weight=weight,
            group=self.distinct.group[chosen], member=place[self.distinct.member],
        )  # fmt: skip
        totals = np.bincount(label, weight, minlength=len(self.classes))
        return replace(
            self, inputs=self.inputs.take(chosen), distinct=distinct,
            class_share=totals / totals.sum(),
        )  # fmt: skip

    def largest_classes(self, most: int) -> list[int]:
        """Machines of the largest classes, for what is too slow with all of many."""
        largest = np.argsort(-self.class_share, kind="stable")[:most].tolist()
        return [1] if len(self.classes) == 2 else largest

    @cached_property
    def own_copies(self) -> Array:
        """Copies that one row of X is, on average, of each distinct one."""
        member = self.distinct.member
        rows = np.bincount(member[member >= 0], minlength=len(self.distinct.row))
        return self.distinct.weight / np.maximum(rows, 1)

    def check_origin(self, length: Array) -> None:
        """Refuse rows at the origin of feature space, given their lengths there."""
        if np.any(length == 0):
            raise origin_error(length == 0, self.distinct.row)

    def check_consistent(self, class_noise: Array) -> None:
        """Refuse equal rows with labels that are sure and differ."""
        conflicting = contradictions(self.distinct, class_noise[self.distinct.label] == 0)
        if len(conflicting):
            raise EmptyVersionSpaceError(
                conflicting, " (equal rows, unequal labels)", "leave them out"
            )


def origin_error(at_origin: Array, row: Array) -> ValueError:
    """Return what is said of rows at the origin; ``row``: their numbers."""
    return ValueError(
        f"rows {shown_places(at_origin, row)} of X lie at the origin of feature space "
        f"(k(x, x) = 0), where no classifier can decide: set bias > 0 or leave them out."
    )


def training_data(
    inputs: Inputs, y: Array, sample_weight: Any, *, class_weight: Any, precomputed: bool,
    merge: bool = True, most_made: int = MOST_MADE, classes: Array | None = None,
) -> TrainingData:  # fmt: skip
    """Merge equal rows, encode labels and check weights.

    Parameters
    ----------
    inputs : Inputs
        Checked rows.
    y : ndarray of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,) or None
    class_weight : dict, "balanced" or None
    precomputed : bool
        Whether the inputs are a Gram matrix.
    merge : bool, default=True
        Whether equal rows with equal labels become one.
    most_made : int
        Otherwise, the largest number of copies that may be made for weights.
    classes : ndarray of shape (n_classes,), optional
        Where they are known, of which some may be absent; ``y`` then holds their numbers.
    """
    weight = checked_weights(sample_weight, inputs.shape[0])
    kept = weight > 0
    if not np.any(kept):
        raise ValueError("sample_weight is zero for every row; give some rows weight > 0.")
    kept_label = y[kept]
    if classes is None:
        classes, kept_label = encoded(kept_label)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least 2 classes with positive weight; got "
            f"{len(classes)} class(es): {classes.tolist()}."
        )
    label = np.zeros(len(y), dtype=np.int64)
    label[kept] = kept_label
    distinct = merge_duplicates(
        inputs, label, weight, keep_order=precomputed, merge=merge, most_made=most_made
    )
    totals = np.bincount(distinct.label, distinct.weight, minlength=len(classes))
    log_weight = log_class_weights(class_weight, classes, totals)
    n_samples, inputs = inputs.shape[0], inputs.take(distinct.row)
    return TrainingData(inputs, distinct, classes, totals / totals.sum(), log_weight, n_samples)


@contextmanager
def naming_rows(data: TrainingData) -> Iterator[None]:
    """Let errors about points, which may be of some rows in any order, name rows of X."""
    try:
        yield
    except PointsError as error:
        raise error_of_rows(error, data.inputs, data.distinct.row) from None


def error_of_rows(error: PointsError, inputs: Inputs, row: Array | None = None) -> PointsError:
    """Return an error about points as one about rows of X, if some of them are.

    ``row``: rows of X that the inputs are, if not all in order.
    """
    if error.vectors is None:
        return error
    hashes, wanted = inputs.hashes(), row_hashes(error.vectors.astype(inputs.dtype))
    rows = np.concatenate([np.flatnonzero(hashes == one)[:1] for one in wanted])
    if not len(rows):
        return error
    rows = rows if row is None else row[rows]
    if others := len(wanted) - len(rows):  # such as the one that a new row is compared with
        which = "a point" if others == 1 else f"{others} points"
        return RowsError(error.before, rows, f" of X and {which} of the model{error.after}")
    more = np.full(len(error.points) - len(rows), -1)  # they are counted, not shown
    return RowsError(error.before, [*rows, *more], error.after)


def rows_of(X: Any, chosen: Array) -> Any:
    """Return some rows of what was given to fit."""
    if hasattr(X, "iloc"):
        return X.iloc[chosen]
    if sp.issparse(X):
        return X.tocsr()[chosen]
    return X[chosen] if hasattr(X, "shape") else [X[i] for i in chosen]
