"""A fit on a cluster: the walk of `estimators.fitting`, with rows and sweeps on the workers."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import clone

from bayespoint._support.budget import Budget
from bayespoint._support.threads import Threads, open_threads
from bayespoint._support.types import Array, Matrix
from bayespoint.distributed.blocks import Facts, as_seen, blocks_of, facts_of
from bayespoint.distributed.cells import Work
from bayespoint.distributed.inference import ClusterCells, ClusterInference
from bayespoint.distributed.inputs import ClusterInputs
from bayespoint.distributed.model import ClusterModel
from bayespoint.distributed.ordering import distinct_of, ordered
from bayespoint.distributed.parts import parted
from bayespoint.distributed.session import Session
from bayespoint.distributed.whole import fit_whole
from bayespoint.estimators.base import Trained
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.classifier import BayesPointClassifier, holding
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.fitting import begin, finish
from bayespoint.estimators.making import UNSEEN, votes_link
from bayespoint.estimators.parameters import Parameters, log_class_weights, on_cpu_only
from bayespoint.estimators.predictors import SupportPoints
from bayespoint.estimators.settings import Settings, choose_method, settle
from bayespoint.estimators.trials import mean_noise, problem_of
from bayespoint.inference.draws import Draws, Plan
from bayespoint.inference.engines import place_of
from bayespoint.inference.ep.cells.landmarks import landmarks_of
from bayespoint.inference.ep.cells.method import Cells, CellSettings, cell_tol, explained
from bayespoint.space.host import Host
from bayespoint.space.kernels import Kernel

# Share of the memory of all workers for messages of cells.
KEPT_SHARE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class ClusterFit:
    """What a fit on a cluster leaves.

    Attributes
    ----------
    parameters : Parameters
    settings : Settings
    trained : Trained
    model : ClusterModel
    """

    parameters: Parameters
    settings: Settings
    trained: Trained
    model: ClusterModel


def fit(
    session: Session, estimator: BayesPointClassifier, X: Any, y: Any, sample_weight: Any
) -> ClusterFit | BayesPointClassifier:
    """Fit rows of Dask collections; by cells on the cluster, or as a whole by some worker."""
    parameters = estimator.checked_parameters()
    if parameters.precomputed:
        raise ValueError("kernel='precomputed' needs one machine; name a kernel.")
    if parameters.warm_start:
        raise ValueError("warm_start=True needs one machine; use to_local() and go on there.")
    if cpu_only := on_cpu_only(parameters.kernel, parameters.inference):
        place_of(parameters.device, on_cpu_only=cpu_only)  # refuses "cuda"
        parameters = replace(parameters, device="cpu")
    blocks = blocks_of(X, y, sample_weight)
    facts = facts_of(session, blocks)
    blocks = as_seen(blocks, facts)
    parameters.groups(facts.n_features)  # refuses the wrong number
    data, chunks, sizes = _data(session, blocks, facts, parameters)
    place = Host(parameters.n_jobs)
    settings, rival = choose_method(parameters, data, place)
    _, trained = begin(parameters, data, settings, None)
    budget = session.budget
    with open_threads(effective_n_jobs(parameters.n_jobs)) as threads:
        settings = settle(
            parameters, data, settings, rival, entropy=trained.entropy, budget=budget,
            threads=threads,
        )  # fmt: skip
        if settings.cells is None:
            parameters = replace(parameters, random_state=trained.entropy, n_jobs=1)
            fitted = fit_whole(session, parameters, blocks, facts, settings)
            return holding(_checker(estimator, facts), fitted)
        parameters = replace(parameters, kernel=settings.kernel_name)
        kernel = data.inputs.fit_layout(parameters.kernel_with(settings.gamma, settings.bias))
        _check(data, settings, kernel)
        plan = Plan(0, parameters.tol, trained.entropy, budget, threads)
        found = _infer(session, data, settings, kernel, parameters, plan, chunks, sizes, facts)
    del chunks  # rows of cells are the ones that stay
    data = replace(data, inputs=Host().inputs_of(empty_rows(facts)))
    model = _model(session, estimator, data, settings, kernel, found, facts)
    return ClusterFit(parameters, settings, trained, model)


def _data(
    session: Session, blocks: list[Any], facts: Facts, parameters: Parameters
) -> tuple[TrainingData, list[Any], Array]:
    """Put all rows in order; what functions of a fit take, the chunks, and their sizes."""
    chunks = ordered(session, blocks, facts)
    distinct, sizes = distinct_of(session, chunks, int(facts.offsets[-1]))
    inputs = ClusterInputs(session, chunks, sizes, empty_rows(facts))
    totals = np.bincount(distinct.label, distinct.weight, minlength=len(facts.classes))
    log_weight = log_class_weights(parameters.class_weight, facts.classes, totals)
    data = TrainingData(
        inputs, distinct, facts.classes, totals / totals.sum(), log_weight, int(facts.offsets[-1])
    )
    return data, chunks, sizes


def empty_rows(facts: Facts) -> Matrix:
    """Return no rows, of the form that rows have."""
    empty = np.empty((0, facts.n_features), dtype=facts.dtype)
    return sp.csr_matrix(empty) if facts.sparse else empty


def _check(data: TrainingData, settings: Settings, kernel: Kernel) -> None:
    """Refuse rows that have no answer."""
    data.check_origin(data.inputs.lengths(kernel))
    if settings.softness == 0:
        data.check_consistent(settings.class_noise)


def _infer(
    session: Session, data: TrainingData, settings: Settings, kernel: Kernel,
    parameters: Parameters, plan: Plan, chunks: list[Any], sizes: Array, facts: Facts,
) -> ClusterCells:  # fmt: skip
    """Sweep cells on the cluster."""
    cells = settings.cells
    assert cells is not None
    landmarks = landmarks_of(kernel, data.inputs.matrix(), cells.n_landmarks)
    if landmarks is not None and data.inputs.X.sparse and not sp.issparse(landmarks.X):
        landmarks = landmarks._replace(X=sp.csr_matrix(landmarks.X))
    tol = cell_tol(cells, kernel, data.inputs.shape[1], plan.tol)
    keeps = parameters.device == "cpu" and _fits(session, data, cells)  # those of GPUs stay there
    work = Work(kernel, settings, data.classes.tolist(), parameters.device, tol, landmarks, keeps)
    inference = ClusterInference(
        session, chunks, data.inputs.matrix(), sizes, work, cells, plan, data.n_machines,
        facts.n_bytes,
    )  # fmt: skip
    with explained():
        return inference.infer()


def _fits(session: Session, data: TrainingData, cells: CellSettings) -> bool:
    """Whether there is room for the messages of all cells."""
    n_cells = 2 * data.inputs.shape[0] / cells.cell_size  # at most
    n_bytes = 8.0 * data.n_machines * n_cells * cells.n_landmarks**2
    return n_bytes <= KEPT_SHARE * session.room().total


def _model(
    session: Session, estimator: BayesPointClassifier, data: TrainingData, settings: Settings,
    kernel: Kernel, found: ClusterCells, facts: Facts,
) -> ClusterModel:  # fmt: skip
    """Return what answers, with the link that outputs left out ask for."""
    noise = mean_noise(settings, data)
    if settings.decision == "calibrated":
        noise = max(noise, UNSEEN / max(np.sum(data.distinct.weight), len(data.distinct.weight)))
    empty, n_machines = empty_rows(facts), data.n_machines
    none, nobody = np.empty((n_machines, 0)), np.empty(0, dtype=np.int64)
    support = SupportPoints(kernel, kernel.prepare(empty), None, None)
    nothing: Any = None  # cells are on the cluster
    predictor = CellsPredictor(
        support, none, None, nobody, data.log_weight, settings.softness, noise, nothing, empty
    )
    if settings.decision == "calibrated":
        draws = Draws([], none, none, none, none, 0)
        cells = Cells(draws, nothing, found.z[None], found.log_evidence)
        predictor = replace(predictor, link=votes_link(cells, data, noise).link)
    trees = parted(session, found, facts.n_bytes)
    return ClusterModel(trees, found, data, predictor, _checker(estimator, facts), empty)


def _checker(estimator: BayesPointClassifier, facts: Facts) -> BayesPointClassifier:
    """Return a classifier that is not fitted, and knows the columns."""
    checker: Any = clone(estimator)
    checker.n_features_in_ = facts.n_features
    if facts.names is not None:
        checker.feature_names_in_ = facts.names
    return checker


def settled(fitted: ClusterFit) -> BayesPointClassifier:
    """Return a classifier that is not fitted, with the numbers that a fit chose."""
    known = copy(fitted.model.checker)
    known.settings_, known.predictor_ = fitted.settings, fitted.model.predictor
    return known.settled()


def local(session: Session, fitted: ClusterFit) -> BayesPointClassifier:
    """Return the model as a fit on one machine would have left it."""
    parameters, settings, model = fitted.parameters, fitted.settings, fitted.model
    data, cells = model.inferred(session)
    kernel, threads = model.cells.work.kernel, Threads(1)
    problem = problem_of(
        kernel, data.inputs, data.distinct, settings, data.classes.tolist(), cache_bytes=0,
        threads=threads,
    )  # fmt: skip
    plan = Plan(0, parameters.tol, fitted.trained.entropy, Budget(), threads)
    done = finish(
        parameters, Host(parameters.n_jobs), data, settings, kernel, problem, plan, cells,
        fitted.trained,
    )  # fmt: skip
    given = data.inputs.X, data.classes[data.distinct.label], data.distinct.weight
    return holding(model.checker, replace(done, given=given))
