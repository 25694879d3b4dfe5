"""Outputs at points that were left out, for the link and for the choice of settings."""

from typing import NamedTuple

import numpy as np

from bayespoint._support.types import Array
from bayespoint.inference.draws import Method, Plan
from bayespoint.inference.engines import engines_of
from bayespoint.inference.problem import Problem
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel
from bayespoint.space.links import FittedLink, fit_links
from bayespoint.space.merging import of_each_class

# Folds that draws leave out in turn.
FOLDS = 10

# Folds where machines of their own are trained without each, and on how many points at most.
TRIED_FOLDS = 5
LINK_POINTS = 2000

# Points that the link is fitted to, at most: more change it little, and take time.
MOST_FITTED = 50_000

# Share of max_time kept for the link, and the seconds it may take after Ctrl-C.
LINK_SHARE = 0.1
LINK_TIME_AFTER_INTERRUPT = 1.0


def link_points(label: Array, entropy: int, most: int = LINK_POINTS) -> Array:
    """Choose some points, every class in proportion and none left out."""
    seed = np.random.SeedSequence(entropy, spawn_key=(0, 1))
    return of_each_class(label, most, seed)


def folds_of(label: Array, n_folds: int = FOLDS, group: Array | None = None) -> Array:
    """Numbers of equal folds, every class in proportion; those of a ``group`` share a fold."""
    if group is not None and len(distinct := np.unique(group, return_index=True)[1]) < len(group):
        return folds_of(label[distinct], n_folds)[np.searchsorted(group[distinct], group)]
    fold = np.empty(len(label), dtype=np.int64)
    fold[np.argsort(label, kind="stable")] = np.arange(len(label)) % n_folds
    return fold


def out_of_fold(method: Method, problem: Problem, label: Array, plan: Plan) -> tuple[Array, Array]:
    """Outputs at points of machines that were trained without them.

    Parameters
    ----------
    method : Method
    problem : Problem
    label : ndarray of shape (n_points,)
        Class numbers.
    plan : Plan

    Returns
    -------
    known : ndarray of shape (n_known,)
        Points of the folds that have outputs.
    outputs : ndarray of shape (n_known,) or (n_known, n_machines)
        Divided by the lengths of the points in feature space.
    """
    fold = folds_of(label, TRIED_FOLDS)
    outputs = np.full(problem.targets.shape, np.nan)
    folds = {k: np.flatnonzero(fold != k) for k in range(TRIED_FOLDS) if np.any(fold == k)}
    folds = {k: visited for k, visited in folds.items() if len(visited)}
    for k, of_fold in method.held_out(problem, folds, plan).items():
        outputs[:, fold == k] = of_fold[:, fold == k]
    return cosines_known(problem, outputs)


def cosines_known(problem: Problem, outputs: Array) -> tuple[Array, Array]:
    """Points that have outputs, and their cosines: of one machine, or one per class."""
    known = np.flatnonzero(np.all(np.isfinite(outputs), axis=0))
    cosines = (outputs / np.sqrt(problem.rows.diagonal)).T[known]
    return known, cosines[:, 0] if len(problem.targets) == 1 else cosines


class LinkWork(NamedTuple):
    """What the link is found from."""

    method: Method
    problem: Problem
    label: Array  # (n_points,), class numbers
    plan: Plan
    kernel: Kernel
    inputs: Inputs  # rows of the problem


def link_of(work: LinkWork, left_out: Array | None, max_time: float | None) -> FittedLink:
    """Link that suits outputs at points left out: those given, or of machines of their own.

    Parameters
    ----------
    work : LinkWork
    left_out : ndarray of shape (n_machines, n_points) or None
        Outputs of `inference.draws.Draws`, NaN where unknown.
    max_time : float or None
        Of the fit.
    """
    problem, label = work.problem, work.label
    if left_out is not None:
        known, outputs = cosines_known(problem, left_out)
        if len(np.unique(label[known])) == len(np.unique(label)):
            return _fitted(outputs, label, known, problem, work.plan.entropy)
    _limit_time(work, max_time)
    method, problem, label, plan, kernel, inputs = work
    if len(label) > LINK_POINTS:
        problem.rows.release()  # its memory, before other rows take some
        chosen = link_points(label, plan.entropy)
        rows = inputs.take(chosen).rows(kernel, problem.rows.cache_bytes, plan.threads)
        label, problem = label[chosen], problem.over(rows, chosen)
    known, outputs = out_of_fold(method, problem, label, plan)
    return _fitted(outputs, label, known, problem, plan.entropy)


def _fitted(
    outputs: Array, label: Array, known: Array, problem: Problem, entropy: int
) -> FittedLink:
    """Fit the link to outputs of known points of a problem, or to enough of them."""
    if len(known) > MOST_FITTED:
        chosen = link_points(label[known], entropy, MOST_FITTED)
        outputs, known = outputs[chosen], known[chosen]
    arrays = engines_of(problem.rows).arrays(problem.rows)
    return fit_links(outputs, label[known], problem.weight[known], arrays=arrays)


def _limit_time(work: LinkWork, max_time: float | None) -> None:
    """Give the link its own share of time."""
    budget = work.plan.budget
    left = None
    if max_time is not None:
        left = max(max_time - budget.elapsed(), LINK_SHARE * max_time)
    budget.label = None
    budget.renew(LINK_TIME_AFTER_INTERRUPT if budget.interrupted else left)
