"""A fit, from training data to what a classifier holds: settle, problem, infer, predictor, link.

Functions of parameters, a place to compute and data; `stream_steps` goes on with what they return.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from bayespoint._support.budget import Budget
from bayespoint._support.checks import entropy_of
from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array, Matrix
from bayespoint.estimators.base import Trained
from bayespoint.estimators.calibration import LinkWork, folds_of, link_of
from bayespoint.estimators.data import TrainingData, training_data
from bayespoint.estimators.label_errors import LabelErrors
from bayespoint.estimators.making import (
    Inferred,
    draws_of,
    held_out_proba,
    left_out_of,
    predictor_of,
    proba_left_out,
    scores_left_out,
    votes_link,
    wrong_labels,
)
from bayespoint.estimators.parameters import Parameters, by_evidence
from bayespoint.estimators.predictors import BayesPointPredictor, GaussianPredictor, Predictor
from bayespoint.estimators.settings import Settings, choose_method, settle
from bayespoint.estimators.streams import Stream, begun
from bayespoint.estimators.trials import problem_of
from bayespoint.inference.draws import Draws, Gaussian, Plan
from bayespoint.inference.ep.cells.method import Cells, HeldCells, cell_problem, infer_cells
from bayespoint.inference.ep.method import HeldSites
from bayespoint.inference.methods import METHODS
from bayespoint.inference.problem import Problem
from bayespoint.space.host import Place
from bayespoint.space.inputs import Inputs
from bayespoint.space.kernels import Kernel
from bayespoint.space.links import FittedLink
from bayespoint.space.merging import contested, last_of

# What else than parameters must not have changed, as messages call it.
SAME_DATA = "X, y or sample_weight"


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """What a fit leaves; a classifier holds each field under its name with an underscore.

    Attributes
    ----------
    device : str
        Where it was computed.
    classes : ndarray of shape (n_classes,)
    settings : Settings
    trained : Trained
    predictor : Predictor
    draws : Draws
    support : ndarray of shape (n_support,)
        Rows of X with a coefficient.
    support_vectors : ndarray or csr_matrix of shape (n_support, n_features)
    stream : Stream or None
        What `partial_fit` goes on with; None where it cannot.
    given : tuple or None
        X, y and weights that importances are computed from. No copy or file has them.
    """

    device: str
    classes: Array
    settings: Settings
    trained: Trained
    predictor: Predictor
    draws: Draws
    support: Array
    support_vectors: Matrix
    stream: Stream | None = None
    given: tuple[Any, Any, Any] | None = None


class Elsewhere(NamedTuple):
    """What other machines have found of a fit."""

    settings: Settings
    drawn: Sequence[Any] | None  # as in `Plan`


def data_of(parameters: Parameters, inputs: Inputs, y: Array, sample_weight: Any) -> TrainingData:
    """Merge equal rows and encode labels; refuse parameters that do not suit them."""
    data = training_data(
        inputs, y, sample_weight, class_weight=parameters.class_weight,
        precomputed=parameters.precomputed,
    )  # fmt: skip
    if not parameters.precomputed:
        parameters.groups(inputs.shape[1])  # refuses the wrong number
    return data


def fit(
    parameters: Parameters, place: Place, data: TrainingData, budget: Budget,
    before: Fitted | None = None, elsewhere: "Elsewhere | None" = None,
) -> Fitted:  # fmt: skip
    """Settle what parameters leave open, infer, and make what decides.

    Parameters
    ----------
    parameters : Parameters
    place : Host or Device
    data : TrainingData
    budget : Budget
        Its ``interrupted`` says whether Ctrl-C cut the fit short.
    before : Fitted, optional
        Of the fit that this one goes on with.
    elsewhere : Elsewhere, optional
        What other machines have found.
    """
    used = None if before is None else before.settings.inference
    settings, rival = choose_method(parameters, data, place, used)
    held, trained = begin(parameters, data, settings, before)
    with (
        budget.catching_interrupts(),
        open_threads(effective_n_jobs(parameters.n_jobs)) as threads,
    ):
        if before is not None and held is not None and not METHODS[settings.inference].closed_form:
            settings = _as_before(settings, before)
        elif elsewhere is not None:
            settings = elsewhere.settings
        else:
            settings = settle(
                parameters, data, settings, rival, entropy=trained.entropy, budget=budget,
                threads=threads,
            )  # fmt: skip
        parameters = replace(parameters, kernel=settings.kernel_name)
        kernel, problem = problem_with(parameters, data, settings, threads)
        plan = plan_with(parameters, data, settings, trained.entropy, budget, threads)
        plan = plan if elsewhere is None else replace(plan, drawn=elsewhere.drawn)
        inferred = _infer(parameters, data, settings, kernel, problem, plan, held)
        return finish(parameters, place, data, settings, kernel, problem, plan, inferred, trained)


def finish(
    parameters: Parameters, place: Place, data: TrainingData, settings: Settings, kernel: Kernel,
    problem: Problem, plan: Plan, inferred: Inferred, trained: Trained,
) -> Fitted:  # fmt: skip
    """Make what decides from what inference found, with its link, and what people may ask for."""
    predictor = predictor_of(inferred, problem, data, settings, kernel)
    links = _links(parameters, data, settings, problem, plan, inferred, predictor)
    if links is not None:
        predictor = replace(predictor, link=links.link)  # type: ignore[call-arg]
    left_out = proba_left_out(inferred, problem, data, predictor, links)
    held_out = held_out_proba(left_out, data, predictor)
    if plan.budget.interrupted and held_out is not None and np.any(np.isnan(held_out)):
        held_out = None  # the rest of it takes predictions
    errors = wrong_labels(
        inferred, problem, data, settings, predictor, left_out, place.most_label_points
    )
    trained = replace(
        remembering(trained, data, errors), held_out=held_out,
        drawn_with=trained.drawn_with | {"inference": settings.inference},
        n_wanted=_n_wanted(inferred, plan),
    )  # fmt: skip
    fitted = fitted_of(place, data, settings, inferred, predictor, trained)
    return replace(fitted, stream=_stream(data, settings, inferred, trained.entropy))


def _n_wanted(inferred: Inferred, plan: Plan) -> int | None:
    """Draws that were asked for, where time or Ctrl-C left fewer and their error is too large."""
    if not isinstance(inferred, Draws):  # closed forms draw when they are asked to
        return None
    enough = inferred.n_draws >= plan.n_draws or np.all(inferred.angle_errors <= plan.tol)
    return None if enough else int(plan.n_draws)


def remembering(trained: Trained, data: TrainingData, errors: LabelErrors | None) -> Trained:
    """Remember which labels may be wrong, for each row of X; NaN for rows of weight 0."""
    if errors is None:
        return trained
    member, none = data.distinct.member, np.full(len(data.classes), np.nan)
    return replace(
        trained, label_proba=np.vstack([errors.proba, none])[member],
        label=np.append(data.distinct.label, 0)[member], n_wrong=errors.number,
    )  # fmt: skip


def fitted_of(
    place: Place, data: TrainingData, settings: Settings, inferred: Inferred, predictor: Predictor,
    trained: Trained,
) -> Fitted:  # fmt: skip
    """Return what prediction, further draws and inspection need."""
    if isinstance(inferred, Gaussian):
        evidence = float(np.sum([p.log_evidence for p in inferred.posteriors]))
        settings = replace(settings, log_evidence=evidence)
    elif isinstance(inferred, Cells):
        evidence = float(np.sum(inferred.log_evidence))
        known = None if np.isnan(evidence) else evidence  # a stream does not
        settings = replace(settings, log_evidence=known)
    draws = replace(draws_of(inferred), factor=None, left_out=None)
    if isinstance(predictor, GaussianPredictor) and predictor.origin is not None:
        draws = replace(draws, coef=[])  # made again when they are asked for
    if data.inputs.diagonal() is None:
        trained = trained.knowing(data.inputs.hashes())
    return Fitted(
        place.name, data.classes, settings, trained, predictor, draws,
        data.distinct.row[predictor.used], data.inputs.support_vectors(predictor.used),
    )  # fmt: skip


def begin(
    parameters: Parameters, data: TrainingData, settings: Settings, before: Fitted | None
) -> tuple[Draws | None, Trained]:
    """Return the draws of the last fit to add to, or None, and what this fit remembers."""
    noise = parameters.label_noise
    drawn_with = parameters.asked | {
        "inference": settings.inference,
        "label_noise": noise if by_evidence(noise) else settings.class_noise.tolist(),
        SAME_DATA: data.distinct.fingerprint,
    }
    if before is None or not _can_go_on(before.draws):
        entropy = entropy_of(parameters.random_state)
        return None, Trained(data.n_samples, data.distinct.row, entropy, drawn_with)
    known = before.trained.drawn_with
    changed = [name for name in drawn_with if drawn_with[name] != known.get(name)]
    if METHODS[settings.inference].closed_form:  # sites of other settings are a start, too
        changed = [name for name in changed if name in ("inference", SAME_DATA)]
    if changed:
        raise ValueError(
            f"warm_start=True continues the last fit, but {changed} changed "
            f"since then. Set warm_start=False to start again."
        )
    trained = Trained(data.n_samples, data.distinct.row, before.trained.entropy, drawn_with)
    return before.draws if before.draws.finished else None, trained


def _can_go_on(draws: Draws) -> bool:
    """Whether a fit left draws, or sites of cells, for another one."""
    return bool(draws.coef) or isinstance(draws.resume, HeldCells | HeldSites)


def _as_before(settings: Settings, before: Fitted) -> Settings:
    """Numbers as they were when the held draws were made."""
    known = before.settings
    return replace(
        settings, kernel_name=before.predictor.support.kernel.name, gamma=known.gamma,
        bias=known.bias, softness=known.softness, class_noise=known.class_noise,
        log_evidence=known.log_evidence,
    )  # fmt: skip


def problem_with(
    parameters: Parameters, data: TrainingData, settings: Settings, threads: Threads
) -> tuple[Kernel, Problem]:
    """Return the kernel and the binary problems of all rows; refuse rows that have no answer."""
    kernel = data.inputs.fit_layout(parameters.kernel_with(settings.gamma, settings.bias))
    problem = problem_of(
        kernel, data.inputs, data.distinct, settings, data.classes.tolist(),
        cache_bytes=parameters.cache_bytes if settings.cells is None else 0, threads=threads,
    )  # fmt: skip
    data.check_origin(problem.rows.diagonal)
    if settings.softness == 0:
        data.check_consistent(settings.class_noise)
    return kernel, problem


def plan_with(
    parameters: Parameters, data: TrainingData, settings: Settings, entropy: int, budget: Budget,
    threads: Threads,
) -> Plan:  # fmt: skip
    """Return what is asked of the method: for a Bayes point, outputs at folds left out."""
    folds = None
    if settings.decision == "bayes_point":
        folds = folds_of(data.distinct.label, group=data.distinct.group)
    return Plan(parameters.n_draws, parameters.tol, entropy, budget, threads, folds)


def _infer(
    parameters: Parameters, data: TrainingData, settings: Settings, kernel: Kernel,
    problem: Problem, plan: Plan, held: Draws | None,
) -> Inferred:  # fmt: skip
    """Draw, or find the posterior in closed form, of all rows at once or by cells."""
    if settings.cells is None:
        return METHODS[settings.inference].infer(problem, plan, held)
    problem.rows.release()
    alone = ~contested(data.distinct)
    cells = cell_problem(problem, kernel, data.inputs, alone, data.own_copies)
    return infer_cells(cells, settings.cells, plan, parameters.cache_bytes, held)


def _links(
    parameters: Parameters, data: TrainingData, settings: Settings, problem: Problem, plan: Plan,
    inferred: Inferred, predictor: Predictor,
) -> FittedLink | None:  # fmt: skip
    """Links of outputs at rows left out; None where votes stay as they are."""
    if isinstance(predictor, BayesPointPredictor):
        plan = replace(plan, n_draws=draws_of(inferred).n_draws)
        method, kernel = METHODS[settings.inference], predictor.support.kernel
        work = LinkWork(method, problem, data.distinct.label, plan, kernel, data.inputs)
        return link_of(work, left_out_of(inferred, data), parameters.max_time)
    if settings.decision == "calibrated" and not isinstance(inferred, Draws):
        return votes_link(inferred, data, predictor.noise)
    return None


def _stream(
    data: TrainingData, settings: Settings, inferred: Inferred, entropy: int
) -> Stream | None:
    """Return what `partial_fit` goes on with; None where no rows can be added."""
    if not settings.votes or isinstance(inferred, Draws):
        return None
    distinct = data.distinct
    n_trees = len(inferred.model.roots) if isinstance(inferred, Cells) else 1
    scores = scores_left_out(inferred, data)
    stream = begun(distinct.label, distinct.weight, n_trees, scores, entropy, distinct.fingerprint)
    return replace(stream, number=last_of(distinct), seen=data.n_samples, anew=data.n_samples)
