"""Fits of methods that take all rows at once: on workers that can hold them."""

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint.distributed.blocks import Block, Facts
from bayespoint.distributed.ordering import stacked
from bayespoint.distributed.session import Session
from bayespoint.estimators.classifier import FIT_LESS
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.fitting import (
    Elsewhere,
    Fitted,
    data_of,
    fit,
    plan_with,
    problem_with,
)
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.settings import Settings
from bayespoint.inference.engines import place_of
from bayespoint.inference.perceptron.method import draws_numbered
from bayespoint.space.inputs import Inputs

# Copies of the rows that a worker has for a moment: pieces, all of them, the distinct ones.
COPIES = 3
# Arrays with a number for each pair of rows that a method has at most, and more for each class.
PAIRS, PAIRS_PER_CLASS = 8, 2


def fit_whole(
    session: Session, parameters: Parameters, blocks: list[Any], facts: Facts, settings: Settings
) -> Fitted:
    """Fit all rows on one worker; draws of perceptrons are spread over all."""
    from dask import delayed

    check_memory(session, parameters, facts, settings)
    task = delayed(data_of_blocks, pure=False)
    whole = task(blocks, parameters, dask_key_name=session.key("rows-together"))
    data = session.compute([whole])[0]
    drawn = None
    if settings.inference == "perceptron":
        n_tasks = min(max(1, sum(session.client.nthreads().values())), parameters.n_draws)
        ends = np.linspace(0, parameters.n_draws, n_tasks + 1).astype(int)
        numbers = [range(*pair) for pair in itertools.pairwise(ends)]
        same = session.hold("settings", (parameters, settings))
        drawn = session.map(
            "draw-perceptrons", drawn_perceptrons, numbers, data=data, told=same,
            seconds=_left(session.budget),
        )  # fmt: skip
        session.wait(drawn, partial(session.budget.show, detail="parts of all draws,"))
    left = _left(session.budget)
    last = session.submit("fit-all-rows", fit_rows, data, drawn, parameters, settings, left)
    return session.results(last)


def _left(budget: Budget) -> float | None:
    """Seconds that are left, or a moment; None where there is no limit."""
    return None if budget.max_time is None else max(budget.max_time - budget.elapsed(), 1.0)


def check_memory(
    session: Session, parameters: Parameters, facts: Facts, settings: Settings
) -> None:
    """Refuse rows that a worker cannot hold."""
    n_rows, n_classes = int(facts.offsets[-1]), len(facts.classes)
    pairs = 8 * n_rows**2 * (PAIRS + PAIRS_PER_CLASS * n_classes)
    rows, cache = COPIES * facts.n_bytes, min(parameters.cache_bytes, pairs)
    for worker in session.workers():
        tasks = worker["nthreads"] if settings.inference == "perceptron" else 1
        there, needed = worker["memory_limit"] or np.inf, rows + tasks * cache
        if needed > there:
            raise ValueError(
                f"inference={settings.inference!r} ({settings.inference_reason}) takes all rows "
                f"at once: worker {worker['name']} needs {needed / 1e6:.0f} MB ({COPIES} times "
                f"the rows, and {cache / 1e6:.0f} MB for each of {tasks} tasks, which cache_size "
                f"bounds), and has {there / 1e6:.0f} MB. Use inference='ep' with cells, lower "
                f"cache_size, or larger workers."
            )


def data_of_blocks(blocks: list[Block], parameters: Parameters) -> TrainingData:
    """Put the rows of all partitions together."""
    some = [block for block in blocks if len(block.y)]
    y, weight = (np.concatenate([getattr(b, name) for b in some]) for name in ("y", "weight"))
    return data_of(parameters, Inputs(stacked([block.X for block in some])), y, weight)


def _placed(data: TrainingData, parameters: Parameters) -> tuple[Any, TrainingData]:
    """Return where this worker computes, on a GPU or not, with the rows there."""
    place = place_of(parameters.device, n_jobs=1)
    return place, replace(data, inputs=place.inputs_of(data.inputs.matrix()))


def drawn_perceptrons(
    numbers: range, data: TrainingData, told: tuple[Parameters, Settings], seconds: float | None
) -> list[Any]:
    """Make the draws of some numbers, in so many seconds."""
    parameters, settings = told
    threads, budget = Threads(1), Budget(seconds)
    place, data = _placed(data, parameters)
    parameters = replace(parameters, kernel=settings.kernel_name)
    with place.computing(FIT_LESS):
        _, problem = problem_with(parameters, data, settings, threads)
        entropy = parameters.random_state
        plan = plan_with(parameters, data, settings, entropy, budget, threads)
        return list(draws_numbered(problem, plan, numbers))


def fit_rows(
    data: TrainingData, drawn: list[list[Any]] | None, parameters: Parameters, settings: Settings,
    seconds: float | None,
) -> Fitted:  # fmt: skip
    """Fit all rows, with draws that other workers have made."""
    draws = None if drawn is None else [draw for part in drawn for draw in part]
    place, data = _placed(data, parameters)
    with place.computing(FIT_LESS):
        return fit(parameters, place, data, Budget(seconds), None, Elsewhere(settings, draws))
