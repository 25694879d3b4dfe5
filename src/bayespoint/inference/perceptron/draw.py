"""What a run of permuted kernel perceptrons gives: one classifier for each machine."""

from typing import Any, NamedTuple

from bayespoint._support.types import Array


class Draw(NamedTuple):
    """One classifier for each machine, all from one order of the points."""

    number: int
    coef: list  # (indices, values) for each machine: unit vectors in the softened metric
    outputs: Array | None  # (n_machines, n_points), of the unit vectors; None on a GPU
    mistakes: Array  # (n_machines,)
    violated: Array  # (n_machines,): visited points left on the wrong side
    finished: bool = True  # whether every run converged or was given up, rather than cut short
    more: bool = False  # whether others are there already, drawn together with this one
    before: Any = None  # `Before`, or None: of this draw, or of others drawn together with it, too
