"""From what inference found to a predictor, and to the probability of each training label."""

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from scipy.special import log_ndtr

from bayespoint._support.types import Array
from bayespoint.estimators.calibration import MOST_FITTED, cosines_known, link_points
from bayespoint.estimators.cell_predictor import CellsPredictor
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.label_errors import LabelErrors, label_errors, sampled_without
from bayespoint.estimators.predictors import (
    BayesPointPredictor,
    GaussianPredictor,
    Predictor,
    SpanVotePredictor,
    SupportPoints,
    VotePredictor,
)
from bayespoint.estimators.settings import Settings
from bayespoint.estimators.trials import mean_noise
from bayespoint.inference.draws import Draws, Gaussian
from bayespoint.inference.ep.cells.method import Cells
from bayespoint.inference.methods import METHODS
from bayespoint.inference.problem import Problem
from bayespoint.space.decisions import combine_votes
from bayespoint.space.kernels import Kernel
from bayespoint.space.links import (
    VOTES_USUAL,
    FittedLink,
    Link,
    Moves,
    fit_links,
    vote_outputs,
    votes_of,
)
from bayespoint.space.merging import contested

# Calibrated probabilities take labels for wrong at this rate over the number of rows at least: what
# never happened in so many may happen next.
UNSEEN = 0.1

# Means over standard deviations that are 0 but for rounding.
NOTHING = 1e-9

# What inference returns.
Inferred: TypeAlias = Draws | Gaussian | Cells


def draws_of(inferred: Inferred) -> Draws:
    """Return the draws, or those that come with a posterior in closed form."""
    return inferred if isinstance(inferred, Draws) else inferred.draws


def factor_of(inferred: Inferred, problem: Problem) -> Any:
    """Return the factor of the softened Gram matrix, computed where inference did without."""
    factor = draws_of(inferred).factor
    if factor is None:
        factor = problem.rows.factorise(problem.softness, problem.rows.threads)
    return factor


def predictor_of(
    inferred: Inferred, problem: Problem, data: TrainingData, settings: Settings,
    kernel: Kernel,
) -> Predictor:  # fmt: skip
    """Return what decides as the settings say; its link is still open."""
    draws = draws_of(inferred)
    used = np.flatnonzero(np.any(draws.used, axis=0))
    if settings.votes:
        used = np.arange(len(problem.row))
    diagonal = data.inputs.diagonal()
    support = SupportPoints(
        kernel, data.inputs.support(kernel, problem.rows, used),
        None if diagonal is None else data.distinct.row[used],
        None if diagonal is None else float(np.mean(diagonal)),
    )  # fmt: skip
    noise = mean_noise(settings, data)
    if settings.decision == "calibrated":
        noise = max(noise, UNSEEN / max(np.sum(data.distinct.weight), len(data.distinct.weight)))
    if isinstance(inferred, Cells):
        none = np.empty((len(problem.targets), 0))
        return CellsPredictor(
            support, none, None, used, data.log_weight, settings.softness, noise, inferred.model,
            data.inputs.matrix(),
        )  # fmt: skip
    common = (
        support, draws.bayes_points[:, used], draws.coef, used, data.log_weight,
        settings.softness, noise,
    )  # fmt: skip
    if settings.decision == "bayes_point":
        return BayesPointPredictor(*common, Link.plain(len(data.classes)))
    if settings.decision == "span_vote":
        return SpanVotePredictor(*common)
    if isinstance(inferred, Gaussian) and diagonal is None:
        return _made_from_sites(inferred, common)
    whitener = factor_of(inferred, problem).whitener()
    if not isinstance(inferred, Gaussian):
        return VotePredictor(*common, whitener)
    return GaussianPredictor(*common, whitener, *_closed_form(inferred))


def _made_from_sites(inferred: Gaussian, common: tuple[Any, ...]) -> GaussianPredictor:
    """Return a predictor that holds no matrices and draws; what is there need not be made."""
    origin, posteriors = inferred.origin, inferred.posteriors
    origin.once("reducers", lambda: [posterior.reducer() for posterior in posteriors])
    origin.once("draws", lambda: inferred.draws.coef)
    support, bayes_points, _, used, log_weight, softness, noise = common
    mean = np.array([posterior.coef for posterior in posteriors])
    return GaussianPredictor(
        support, bayes_points, None, used, log_weight, softness, noise, whitener=None, mean=mean,
        reducer=None, sign=None, origin=origin,
    )  # fmt: skip


def votes_link(inferred: Gaussian | Cells, data: TrainingData, noise: float) -> FittedLink:
    """Link of the votes of posteriors in closed form, fitted to labels left out."""
    z = scores_left_out(inferred, data)
    label, weight = data.distinct.label, data.distinct.weight
    # Cells that time did not allow for say nothing, and rows far from all others nothing either.
    told = np.flatnonzero(np.any(np.abs(z) > NOTHING, axis=0))
    told = told if len(told) else np.arange(len(label))
    if len(told) > MOST_FITTED:
        told = told[link_points(label[told], 0, MOST_FITTED)]
    outputs = vote_outputs(z[:, told])
    links = fit_links(
        outputs, label[told], weight[told], noise=noise, usual=VOTES_USUAL,
        by_outputs=data.inputs.diagonal() is not None,  # rows of a Gram matrix stay as given
        moves=_moves(inferred, data, z, told),
    )  # fmt: skip
    fold = np.full(len(label), -1)
    fold[told] = links.fold
    return links._replace(fold=fold)


def _moves(inferred: Gaussian | Cells, data: TrainingData, z: Array, told: Array) -> Moves:
    """Yield how the link's outputs at some points move where one of these points is left out.

    To second order: logarithms of so many probabilities would take long. Of cells nothing is known;
    they hold so many points that it matters little.
    """
    if isinstance(inferred, Cells):
        return
    alone, own = ~contested(data.distinct), data.own_copies
    for machine, posterior in enumerate(inferred.posteriors):
        before = z[machine, told]
        slope = np.exp(-0.5 * before**2 - log_ndtr(before)) / np.sqrt(2 * np.pi)  # of log_ndtr
        curvature = -slope * (slope + before)
        for rows, moves in posterior.moves_of_others(alone, own):
            kept = np.isin(rows, told)
            moved = moves[np.ix_(kept, told)]
            moved *= slope + curvature * moved / 2
            yield machine, np.searchsorted(told, rows[kept]), moved


def _closed_form(inferred: Gaussian) -> tuple[Array, Array, Array]:
    """Means, reducers and signs of the posteriors of all machines."""
    n, m = len(inferred.posteriors), len(inferred.posteriors[0].coef)
    mean, reducer, sign = np.empty((n, m)), np.empty((n, m, m)), np.empty((n, m))
    for i, posterior in enumerate(inferred.posteriors):
        mean[i] = posterior.coef
        reducer[i], sign[i] = posterior.reducer()
    return mean, reducer, sign


def scores_left_out(inferred: Any, data: TrainingData) -> Array:
    """Means over standard deviations at points left out, which the link is fitted to."""
    if isinstance(inferred, Cells):
        return inferred.scores[0]
    alone, own = ~contested(data.distinct), data.own_copies
    return np.array([p.held_out_scores(alone, own) for p in inferred.posteriors])


def scores_of_rows(inferred: Any, data: TrainingData) -> Array:
    """Means over standard deviations at each point without one row, as a new fit would say.

    By cells, the sites of other points stay as they are: cells hold so many that it matters little.
    """
    if isinstance(inferred, Cells):
        return inferred.scores[1]
    own = data.own_copies
    return np.array([p.left_out_scores(alone=False, own=own) for p in inferred.posteriors])


def _sureness(inferred: Gaussian | Cells, data: TrainingData) -> tuple[Array, Array]:
    """Means over standard deviations at each point without one row; without softness, and with."""
    if isinstance(inferred, Cells):
        return inferred.scores[2], inferred.scores[1]
    own, posteriors = data.own_copies, inferred.posteriors
    return (
        np.array([p.sureness(own) for p in posteriors]),
        np.array([p.held_out_scores(alone=False, own=own) for p in posteriors]),
    )


def left_out_of(inferred: Inferred, data: TrainingData) -> Array | None:
    """Outputs of the Bayes points at points that they have not seen, as in `Draws`."""
    if not isinstance(inferred, Gaussian):
        return draws_of(inferred).left_out
    alone, own = ~contested(data.distinct), data.own_copies
    return np.array([p.bayes_point_left_out(alone, own) for p in inferred.posteriors])


def _unseen(links: FittedLink | None) -> list[tuple[Array, Link]]:
    """Rows, and the link that has not seen them."""
    return [] if links is None else [(links.fold == k, one) for k, one in enumerate(links.without)]


def proba_left_out(
    inferred: Inferred, problem: Problem, data: TrainingData, predictor: Predictor,
    links: FittedLink | None,
) -> Array | None:  # fmt: skip
    """Probabilities of the classes of each distinct row without it; None where nothing has them.

    Without class weights, and of true classes where the predictor knows of wrong labels.
    """
    plain = replace(predictor, noise=0.0, log_weight=np.zeros_like(predictor.log_weight))
    if isinstance(plain, GaussianPredictor | CellsPredictor):
        z = scores_of_rows(inferred, data)
        proba = plain.proba_of_scores(z)
        for rows, link in _unseen(links):
            proba[rows] = replace(plain, link=link).proba_of_scores(z[:, rows])
        return proba
    left_out = left_out_of(inferred, data)
    if not isinstance(plain, BayesPointPredictor) or left_out is None:
        return None
    known, cosines = cosines_known(problem, left_out)
    if len(known) < len(problem.row):
        return None
    proba = plain.proba_of_cosines(cosines)
    for rows, link in _unseen(links):
        proba[rows] = replace(plain, link=link).proba_of_cosines(cosines[rows])
    return proba


def noise_inside(predictor: Any) -> float:
    """Share of wrong labels that is mixed into probabilities; the link of a Bayes point knows."""
    return 0.0 if isinstance(predictor, BayesPointPredictor) else getattr(predictor, "noise", 0.0)


def held_out_proba(
    left_out: Array | None, data: TrainingData, predictor: Predictor
) -> Array | None:
    """Probabilities of the labels of each row of X without it, from those of the distinct rows.

    Where rows are equal, one of them is left out. NaN for rows of weight 0, and for those that are
    still there where one is left out: the model says of them what it says of new ones.
    """
    if left_out is None:
        return None
    member, again = data.distinct.member, data.distinct.member < 0
    if isinstance(predictor, BayesPointPredictor):
        copies = np.bincount(member[member >= 0], minlength=len(left_out))
        again = again | (copies[member] > 1)
    proba = np.exp(combine_votes(left_out, predictor.log_weight, noise_inside(predictor)))
    proba = proba.astype(np.float32)[member]
    proba[again] = np.nan
    return proba


def wrong_labels(
    inferred: Inferred, problem: Problem, data: TrainingData, settings: Settings,
    predictor: Predictor, left_out: Array | None, most_points: float,
) -> LabelErrors | None:  # fmt: skip
    """How probable each true class of the distinct rows is, given their labels.

    None where nothing is known of rows left out, or where nothing else needs the inverse of a large
    Gram matrix (of more than ``most_points``), which would be most of the work.
    """
    softened: Array | None = None
    if isinstance(inferred, Draws) and METHODS[settings.inference].from_posterior:
        if len(problem.row) > most_points and not settings.votes:
            return None
        whitener = predictor.whitening() if isinstance(predictor, VotePredictor) else None
        factor = factor_of(inferred, problem)
        left_out, softened = sampled_without(problem, inferred.coef, factor, whitener)
    elif not isinstance(inferred, Draws):
        left_out, softened = (
            votes_of(vote_outputs(z), len(data.classes)) for z in _sureness(inferred, data)
        )
    if left_out is None:
        return None
    distinct = data.distinct
    return label_errors(left_out, distinct.label, distinct.weight, settings.class_noise, softened)
