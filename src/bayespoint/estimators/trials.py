"""Comparison of settings by labels left out: of methods that draw, and of EP by cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.estimators.calibration import LINK_POINTS, link_points, out_of_fold
from bayespoint.estimators.cells import CellTrials, Division, some_cells
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.parameters import Parameters
from bayespoint.estimators.selection import Candidate, choose_by_loss
from bayespoint.inference.draws import Plan
from bayespoint.inference.methods import METHODS
from bayespoint.inference.problem import Problem
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel, LostDistancesError
from bayespoint.space.links import fit_link, probabilities
from bayespoint.space.merging import DistinctRows

if TYPE_CHECKING:
    from bayespoint.estimators.settings import Settings

# Draws of perceptrons that are tried, and points of the second look at what fewer chose.
TRIED_DRAWS = 10
SECOND_LOOK_DRAWN = 10_000


@dataclass(frozen=True, eq=False)
class CellSearch:
    """The search for settings of EP by cells."""

    parameters: Parameters
    data: TrainingData
    names: list[str]
    biases: Sequence[float]
    entropy: int
    threads: Threads
    late: Callable[[], bool]

    def best(self, settings: "Settings") -> "Settings":
        """Choose by labels left out, on some whole cells."""
        return self.trials(settings, self.division(settings)).best(
            settings, self.names, self.biases
        )

    def division(self, settings: "Settings", sample: Array | None = None) -> Division:
        """Return some whole cells of all rows, or of those of a sample."""
        assert settings.cells is not None
        scale = self.parameters.kernel_with(1.0, 0.0).column_scale
        return some_cells(settings.cells, self.data, scale, self.entropy, sample)

    def trials(
        self, settings: "Settings", division: Division, machines: Sequence[int] | None = None
    ) -> CellTrials:
        """Return what compares settings, on some cells, by all machines or some."""
        assert settings.cells is not None
        return CellTrials(
            settings.cells, self.data, self.problem_with, mean_noise(settings, self.data),
            self.threads, self.late, self.parameters.cache_bytes, division, machines,
        )  # fmt: skip

    def problem_with(self, settings: "Settings", chosen: Array) -> tuple[Kernel, Problem]:
        """Return the kernel and the binary problems of some rows."""
        parameters, inputs = self.parameters, self.data.inputs
        kernel = inputs.fit_layout(parameters.kernel_with(settings.gamma, settings.bias))
        problem = problem_of(
            kernel, inputs.take(chosen), self.data.distinct, settings,
            self.data.classes.tolist(), cache_bytes=0, threads=self.threads, chosen=chosen,
        )  # fmt: skip
        return kernel, problem


class Trials:
    """Compares settings by what the method itself says of points left out."""

    def __init__(
        self, parameters: Parameters, data: TrainingData, settings: "Settings", names: list[str],
        entropy: int, budget: Budget, threads: Threads,
    ) -> None:  # fmt: skip
        self._parameters, self._data, self._settings = parameters, data, settings
        self._names = names
        self._plan = Plan(TRIED_DRAWS, 0.0, entropy, budget, threads)

    def first_look(
        self, scale: float, late: Callable[[], bool], biases: Sequence[float]
    ) -> list[Candidate]:
        """Return the settings with the least log-loss on few points, and then narrower ones."""
        return choose_by_loss(
            partial(self.loss, most=LINK_POINTS), as_candidate(self._settings), self._names,
            scale=scale, stop=late, biases=biases,
        )  # fmt: skip

    def second_look(self, found: list[Candidate], late: Callable[[], bool]) -> "Settings":
        """Return the best settings on more points, which favour narrower kernels."""
        chosen = found[0]
        if len(found) > 1 and len(self._data.distinct.label) > LINK_POINTS and not late():
            least = self.loss(chosen, SECOND_LOOK_DRAWN)
            for candidate in found[1:]:
                loss = np.inf if late() else self.loss(candidate, SECOND_LOOK_DRAWN)
                if not loss < least:
                    break
                chosen, least = candidate, loss
        return taken(self._settings, chosen, self._names)

    def loss(self, candidate: Candidate, most: int, asked: Array | None = None) -> float:
        """Log-loss of labels that were left out of at most so many points; of those asked for."""
        label, weight = self._data.distinct.label, self._data.distinct.weight
        chosen = link_points(label, self._plan.entropy, most)
        settings, inputs = taken(self._settings, candidate, self._names), self._data.inputs
        try:
            kernel = inputs.fit_layout(self._parameters.kernel_with(settings.gamma, settings.bias))
        except LostDistancesError:
            return np.inf
        problem = problem_of(
            kernel, inputs.take(chosen), self._data.distinct, settings,
            self._data.classes.tolist(), cache_bytes=self._parameters.cache_bytes,
            threads=self._plan.threads, chosen=chosen,
        )  # fmt: skip
        with self._plan.budget.silent():
            method = METHODS[settings.inference]
            known, outputs = out_of_fold(method, problem, label[chosen], self._plan)
        if not len(known):  # no fold has a draw: as bad as can be
            return np.inf
        truth, copies = label[chosen][known], weight[chosen][known]
        proba = probabilities(fit_link(outputs, truth, copies).scores(outputs))
        right = np.maximum(proba[np.arange(len(truth)), truth], np.finfo(float).tiny)
        if asked is not None:
            copies = np.where(np.isin(chosen[known], asked), copies, 0.0)
        return float(-np.average(np.log(right), weights=copies))


def problem_of(
    kernel: Kernel, inputs: Inputs, distinct: DistinctRows, settings: "Settings",
    classes: list[Any], *, cache_bytes: int, threads: Threads, chosen: Any = slice(None),
) -> Problem:  # fmt: skip
    """Return the binary problems of these rows; ``chosen``: which of the distinct ones they are."""
    return Problem.of_classes(
        inputs.rows(kernel, cache_bytes, threads), distinct.label[chosen],
        distinct.weight[chosen], softness=settings.softness, noise=settings.class_noise,
        classes=classes, row=distinct.row[chosen],
    )  # fmt: skip


def mean_noise(settings: "Settings", data: TrainingData) -> float:
    """Return the share of wrong labels."""
    return float(np.average(settings.class_noise, weights=data.class_share))


def as_candidate(settings: "Settings") -> Candidate:
    """Return the numbers that a search changes."""
    return Candidate(settings.gamma, settings.bias, settings.softness, settings.class_noise)


def taken(settings: "Settings", found: Candidate, names: Sequence[str]) -> "Settings":
    """Return settings with the numbers that a search found."""
    settings = replace(settings, gamma=found.gamma, bias=found.bias, softness=found.softness)
    if "label_noise" in names:
        n_classes = len(settings.class_noise)
        rates = np.broadcast_to(np.asarray(found.label_noise, dtype=np.float64), n_classes).copy()
        settings = replace(settings, class_noise=rates)
    return settings
