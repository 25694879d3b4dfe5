"""What EP by cells is asked, how its cells are swept, and what a tree of them leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.threads import Threads
from bayespoint._support.types import Array, Matrix
from bayespoint.inference.ep.cells.memory import Memory
from bayespoint.inference.ep.cells.tree import Tree
from bayespoint.inference.ep.likelihood import Likelihood
from bayespoint.space.kernels import Kernel, Points

# Visits of a cell around landmarks, at most.
MOST_VISITS = 30


@dataclass(frozen=True, eq=False, repr=False)
class CellProblem:
    """Machines over rows, as cells take them.

    Attributes
    ----------
    kernel : Kernel
        Its layout is fitted.
    X : ndarray or csr_matrix of shape (m, n_features)
        Distinct rows, in the order of their hashes.
    targets : ndarray of int8, shape (n_machines, m)
    odds, log_right : ndarray of shape (n_machines, m)
        As in `Likelihood`.
    ridge : ndarray of shape (m,)
        Variance that softness adds to outputs.
    copies : ndarray of shape (m,)
    alone : ndarray of bool, shape (m,)
    own : ndarray of shape (m,)
        As for `held_out_scores`.
    sweeps : type
        `CellSweeps`, or what does the same on a GPU.
    tensor : tensor of shape (m, n_features), or None
        The rows there.
    """

    kernel: Kernel
    X: Matrix
    targets: Array
    odds: Array
    log_right: Array
    ridge: Array
    copies: Array
    alone: Array
    own: Array
    sweeps: Any
    tensor: Any = None

    def of_machines(self, machines: Sequence[int]) -> "CellProblem":
        """Return the problem of some of the machines."""
        each = (self.targets, self.odds, self.log_right)
        targets, odds, log_right = (values[list(machines)] for values in each)
        return replace(self, targets=targets, odds=odds, log_right=log_right)

    def points(self, rows: Array) -> Points:
        """Some rows, prepared for the kernel, in double precision."""
        return self.kernel.prepare(self.X[rows].astype(np.float64))

    def likelihood(self, machine: int, rows: Array) -> Likelihood:
        """Return the likelihood of the labels of some rows."""
        copies = self.copies[rows]
        return Likelihood(
            self.targets[machine, rows].astype(np.float64), self.ridge[rows],
            self.odds[machine, rows] / copies, self.log_right[machine, rows] / copies, copies,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class TreeFit:
    """What is known of all machines, with the rows divided by one tree.

    Attributes
    ----------
    tree : Tree
        One without nodes where cells were given.
    order : ndarray of int, shape (m,)
        Rows, cell after cell.
    begin : ndarray of int, shape (n_cells + 1,)
        Where cells begin in ``order``.
    tau, nu : ndarray of shape (n_machines, m)
        Sites, of one copy of each row.
    coef : ndarray of shape (n_machines, m)
        Of kernel values of the cell, in the mean of an output.
    scores : ndarray of shape (3, n_machines, m)
        Mean over standard deviation, softness added, of each output given all other labels: for
        the link (all copies of a row left out) and for people (one copy); the latter without
        softness, too.
    common_mean : ndarray of shape (n_machines, n_common)
        Mean of w.
    common_factor : ndarray of shape (n_machines, n_common, n_common)
        Cholesky factors of the precision of w.
    log_evidence : ndarray of shape (n_machines,)
    moving : int
        Cells, of all machines, whose sites have not converged.
    swept : ndarray of bool, shape (n_cells,)
        Cells that time allowed for.
    """

    tree: Tree
    order: Array
    begin: Array
    tau: Array
    nu: Array
    coef: Array
    scores: Array
    common_mean: Array
    common_factor: Array
    log_evidence: Array
    moving: int
    swept: Array

    def cell(self, number: int) -> Array:
        """Rows of a cell."""
        return self.order[self.begin[number] : self.begin[number + 1]]


class Sweeping(NamedTuple):
    """How cells are swept."""

    tol: float = 1e-2
    dtype: Any = np.float32
    visits: int = MOST_VISITS  # around landmarks, at most
    threads: Threads = Threads(1)
    memory: Memory = Memory()
    spare: bool = False  # whether there are other trees
    stop: Callable[[], bool] = lambda: False
    show: Callable[[int, int], None] = lambda *_: None
