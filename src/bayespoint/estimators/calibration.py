"""Outputs at points that were left out, for the link and for the choice of settings."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.types import Array
from bayespoint.inference.draws import HELD_OUT_DRAWS, Method, Plan
from bayespoint.inference.problem import Problem
from bayespoint.space.decisions import fit_link
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel
from bayespoint.space.merging import of_each_class

# The link is fitted on held-out outputs of at most so many points, by so many folds.
LINK_POINTS = 2000
LINK_FOLDS = 5

# Share of max_time kept for the link, and the seconds it may take after Ctrl-C.
LINK_SHARE = 0.1
LINK_TIME_AFTER_INTERRUPT = 1.0


def link_points(label: Array, entropy: int) -> Array:
    """Choose at most `LINK_POINTS` points, every class in proportion and none left out."""
    seed = np.random.SeedSequence(entropy, spawn_key=(0, 1))
    return of_each_class(label, LINK_POINTS, seed)


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
    fold = np.empty(len(label), dtype=np.int64)
    fold[np.argsort(label, kind="stable")] = np.arange(len(label)) % LINK_FOLDS
    outputs = np.zeros(problem.targets.shape)
    folds = {k: np.flatnonzero(fold != k) for k in range(LINK_FOLDS) if np.any(fold == k)}
    folds = {k: visited for k, visited in folds.items() if len(visited)}
    found = method.held_out(problem, folds, plan)
    for k, of_fold in found.items():
        outputs[:, fold == k] = of_fold[:, fold == k]
    known = np.flatnonzero(np.isin(fold, list(found)))
    outputs = (outputs / np.sqrt(problem.rows.diagonal)).T[known]
    return known, outputs[:, 0] if len(problem.targets) == 1 else outputs


class LinkWork(NamedTuple):
    """What the steepness of the link is found from."""

    method: Method
    problem: Problem
    label: Array  # (n_points,), class numbers
    plan: Plan
    kernel: Kernel
    inputs: Inputs  # rows of the problem


def link_steepness(work: LinkWork) -> float:
    """Steepness of the link that suits outputs at points left out; some of them where many."""
    method, problem, label, plan, kernel, inputs = work
    weight = problem.weight
    if len(label) > LINK_POINTS:
        chosen = link_points(label, plan.entropy)
        rows = inputs.take(chosen).rows(kernel, problem.rows.cache_bytes, plan.threads)
        label, weight, problem = label[chosen], weight[chosen], problem.over(rows, chosen)
    known, outputs = out_of_fold(method, problem, label, plan)
    return fit_link(outputs, label[known], weight[known])


@contextmanager
def link_beside(place: Any, work: LinkWork, *, wanted: bool) -> Iterator[Future | None]:
    """Fit the link to other runs while the draws are made, where the host has time for that.

    Yields a future of its steepness, or None where the link comes later. ``wanted``: whether there
    will be a link at all.
    """
    plan = work.plan
    many = len(work.label) > LINK_POINTS and plan.n_draws >= HELD_OUT_DRAWS
    idle = work.problem.rows.leaves_host_idle and work.method.light_held_out
    if not (wanted and many and idle and plan.budget.max_time is None):
        yield None
        return
    own = Budget(parent=plan.budget)
    with place.beside(link_steepness, work._replace(plan=replace(plan, budget=own))) as link:
        try:
            yield link
        except BaseException:
            own.interrupt()  # nobody waits for it
            raise


def finish_link(found: Future | None, work: LinkWork, max_time: float | None) -> float:
    """Steepness of the link: as found beside the draws, or in the time that is left."""
    budget = work.plan.budget
    if found is not None and not budget.interrupted:
        return found.result()
    if len(work.label) > LINK_POINTS:
        work.problem.rows.release()  # its memory, before other rows take some
    time_left = None
    if max_time is not None:
        time_left = max(max_time - budget.elapsed(), LINK_SHARE * max_time)
    budget.label = None
    budget.renew(LINK_TIME_AFTER_INTERRUPT if budget.interrupted else time_left)
    return link_steepness(work)
