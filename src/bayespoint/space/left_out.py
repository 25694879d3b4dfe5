"""Outputs of classifiers at points that they have seen, and at those they have not."""

from typing import NamedTuple

from bayespoint._support.types import Array


class Before(NamedTuple):
    """Outputs of unit classifiers before they went on to a fold, softness aside, summed over draws.

    Attributes
    ----------
    seen, unseen : ndarray of shape (n_machines, n_points)
        Over the draws that had seen a point, and over those that had not.
    n_seen, n_unseen : ndarray of shape (n_points,)
        How many these are.
    """

    seen: Array
    unseen: Array
    n_seen: Array
    n_unseen: Array

    def __add__(self, other: "Before") -> "Before":  # type: ignore[override]
        """Sums over the draws of both."""
        return Before(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))
