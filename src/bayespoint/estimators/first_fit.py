"""A fit on some rows, made before the fit on all, and kept unless that one is better.

A fit on many rows that time or Ctrl-C cuts short may know less than a fit on few that was finished.
The one on few rows is made where time is limited, or where somebody watches who may press Ctrl-C.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespoint._support.budget import Budget
from bayespoint._support.checks import entropy_of, warn
from bayespoint._support.types import Array
from bayespoint._support.watching import watcher
from bayespoint.estimators.calibration import LINK_SHARE
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.fitting import Fitted, fit
from bayespoint.estimators.parameters import Parameters, by_evidence
from bayespoint.estimators.settings import LITTLE_TIME, VOTING, Settings
from bayespoint.estimators.work import LONG, about_seconds, what_is_done
from bayespoint.inference.ep.cells.method import CellSettings
from bayespoint.space.host import Place
from bayespoint.space.merging import of_each_class

# Rows of the first fit, and how many times as many there must be: exact EP of these takes seconds.
FIRST_ROWS, MANY = 500, 2

# Share of max_time that it may take, and the most seconds.
FIRST_SHARE, FIRST_SECONDS = 0.3, 10.0

# Cells of all rows where there is not the time to choose settings for them: landmarks carry what
# rows have in common, and small cells take little.
QUICK = CellSettings(cell_size=100, n_landmarks=300, n_trees=1)

# Rows by whose labels the two fits are compared, and how many standard errors of the difference the
# first must be ahead: where both are as good, that on all rows is kept.
COMPARED_ROWS = 2000
CLEARLY = 2.0

# Between the reason for a method, and words on which fit was kept.
KEPT = "; this is the fit "
# What ``inference_reason_`` then says of a fit that time or Ctrl-C cut short.
ENDED = " ended the fit"

# Rows of X, times classes, up to which a first fit that is kept is asked for all of them.
MOST_ASKED = 100_000

# Methods that know what they say of each row without it.
COMPARABLE = ("auto", "ep", "perceptron")

# From a fit, and rows of X, to the probabilities of their classes.
Predict = Callable[[Fitted, Array], Array]


def fit_in_time(
    parameters: Parameters, place: Place, data: TrainingData, budget: Budget,
    before: Fitted | None, predict: Predict,
) -> Fitted:  # fmt: skip
    """Fit all rows; where that may be cut short, some rows first, and keep the better one.

    Parameters
    ----------
    parameters, place, data, budget, before
        As for `fit`.
    predict : callable
        For the comparison.

    Returns
    -------
    Fitted
        ``settings.inference_reason`` says which one was kept where all were not finished.
    """
    if before is not None and _is_first(before, data):
        before = None  # there is nothing of all rows to go on with
    comparable = (
        before is None
        and data.inputs.shape[0] >= MANY * FIRST_ROWS
        and parameters.inference in COMPARABLE
        and not parameters.precomputed
    )
    seconds = _announced(parameters, place, data, comparable)
    limit = _first_limit(parameters, seconds)
    if limit is None or not comparable:
        return fit(parameters, place, data, budget, before)
    parameters = replace(parameters, random_state=entropy_of(parameters.random_state))
    with budget.catching_interrupts():  # between the fits, too: none of them is lost
        first = _first(parameters, place, data, budget, limit)
        if budget.interrupted:
            n_all = data.inputs.shape[0]
            ended = f"on {len(first.rows):,} rows, as Ctrl-C came before all {n_all:,}"
            return _first_kept(first.fitted, ended, budget)
        whole = _whole(parameters, place, data, budget, seconds, first)
        if parameters.max_time is None and not budget.interrupted:
            return whole
        return _kept(first, whole, data, budget, predict)


def _whole(
    parameters: Parameters, place: Place, data: TrainingData, budget: Budget, seconds: float,
    first: "_First",
) -> Fitted:  # fmt: skip
    """Fit all rows in the time that is left; quickly where it is not enough."""
    left = _time_left(parameters, budget)
    quick = left is not None and seconds > left and _may_be_quick(parameters)
    of_all = replace(parameters, max_time=left)
    if quick:
        of_all = _quick(of_all, first.fitted.settings)
    budget.renew(_for_inference(left))
    whole = fit(of_all, place, data, budget)
    if not quick:
        return whole
    # People did not ask for it.
    reason = LITTLE_TIME if parameters.inference == "auto" else f"asked for, but {LITTLE_TIME}"
    return replace(whole, settings=replace(whole.settings, inference_reason=reason))


def _is_first(before: Fitted, data: TrainingData) -> bool:
    """Whether a fit is one on some rows that was kept."""
    fewer = len(before.trained.row) < len(data.distinct.row)
    _, kept, which = before.settings.inference_reason.partition(KEPT)
    return fewer and bool(kept) and not which.startswith("on all")


def _announced(parameters: Parameters, place: Place, data: TrainingData, comparable: bool) -> float:
    """Return about how long it takes, and say what will be done if that is long."""
    told, limit = watcher(), parameters.max_time
    if told is None and limit is None:
        return 0.0
    seconds = about_seconds(parameters, place, data)
    expected = seconds if limit is None else min(seconds, limit)
    if told is not None and expected > LONG:
        told(what_is_done(parameters, place, data, FIRST_ROWS if comparable else 0), expected)
    return seconds


def _may_be_quick(parameters: Parameters) -> bool:
    """Whether nobody asked for another way to fit all rows."""
    open_ = (parameters.cell_size, parameters.n_landmarks, parameters.n_trees)
    return (
        parameters.inference in ("auto", "ep")
        and parameters.decision in ("auto", *VOTING)
        and all(isinstance(value, str) for value in open_)
        and not by_evidence(parameters.label_noise)
    )


def _quick(parameters: Parameters, settings: Settings) -> Parameters:
    """Let all rows be fitted with settings of some, in cells that take little time."""
    return replace(
        parameters, kernel=settings.kernel_name, kernel_open=False, gamma=settings.gamma,
        softness=settings.softness, bias=settings.bias, inference="ep", **QUICK._asdict(),
    )  # fmt: skip


def _first_limit(parameters: Parameters, seconds: float) -> float | None:
    """Return the time for the first fit; None where none is wanted."""
    if parameters.max_time is not None:
        return min(FIRST_SHARE * parameters.max_time, FIRST_SECONDS)
    return FIRST_SECONDS if seconds > LONG else None


def _time_left(parameters: Parameters, budget: Budget) -> float | None:
    if parameters.max_time is None:
        return None
    return max(parameters.max_time - budget.elapsed(), (1 - FIRST_SHARE) / 2 * parameters.max_time)


def _for_inference(max_time: float | None) -> float | None:
    """Time without that of the link."""
    return None if max_time is None else (1 - LINK_SHARE) * max_time


class _First(NamedTuple):
    """The first fit, and its distinct rows."""

    fitted: Fitted
    rows: Array


def _first(
    parameters: Parameters, place: Place, data: TrainingData, budget: Budget, limit: float
) -> _First:
    """Fit some rows, every class in proportion."""
    seed = np.random.SeedSequence(parameters.random_state, spawn_key=(0, 11))
    rows = np.sort(of_each_class(data.distinct.label, FIRST_ROWS, seed))
    start, label = budget.start, budget.label
    # EP of few rows takes little, once their settings are chosen: it is not cut short.
    budget.max_time = None if parameters.inference != "perceptron" else _for_inference(limit)
    # One kernel: few rows hardly tell which is better, and each takes as long.
    given = replace(parameters, max_time=limit, kernel_open=False)
    fitted = fit(given, place, data.some(rows), budget)
    budget.start, budget.label = start, label  # the link may have changed them
    if fitted.stream is not None:
        number = np.argsort(np.argsort(fitted.stream.number))  # no other rows have come
        stream = replace(fitted.stream, number=number, seen=len(rows), anew=len(rows))
        fitted = replace(fitted, stream=stream)
    return _First(fitted, rows)


def _kept(
    first: _First, whole: Fitted, data: TrainingData, budget: Budget, predict: Predict
) -> Fitted:
    """Return the fit that tells labels better which it has not seen."""
    others = np.setdiff1d(np.arange(len(data.distinct.row)), first.rows)
    seed = np.random.SeedSequence(0, spawn_key=(0, 12))
    asked = others[of_each_class(data.distinct.label[others], COMPARED_ROWS, seed)]
    row, label = data.distinct.row[asked], data.distinct.label[asked]
    held_out = whole.trained.held_out
    n_all, n_first = data.inputs.shape[0], len(first.rows)
    why = f"{'Ctrl-C' if budget.interrupted else 'max_time'}{ENDED}"
    if held_out is None:
        ended = f"on {n_first:,} rows: {why} on all {n_all:,} before it could say anything"
        return _first_kept(first.fitted, ended, budget)
    known = np.isfinite(held_out[row, 0])
    if not known.any():  # all rows have copies: none is left out of the fit on all
        return whole
    row, label = row[known], label[known]
    losses = [_losses(p, label) for p in (predict(first.fitted, row), held_out[row])]
    gain = losses[1] - losses[0]
    error = gain.std() / np.sqrt(len(gain))
    figures = f"log-loss of rows not seen {losses[0].mean():.4f} and {losses[1].mean():.4f}"
    if gain.mean() > CLEARLY * error:
        ended = f"on {n_first:,} rows, as {why} on all {n_all:,} before it was better ({figures})"
        return _first_kept(first.fitted, ended, budget)
    how = "better" if gain.mean() < 0 else "not clearly worse"
    early = f", though {why} early" if budget.interrupted or budget.spent() else ""
    return _told(whole, f"on all {n_all:,} rows, {how} than on {n_first:,} ({figures}){early}")


def _losses(proba: Array, label: Array) -> Array:
    right = proba[np.arange(len(label)), label].astype(np.float64)
    return -np.log(np.maximum(right, np.finfo(np.float32).tiny))


def _first_kept(fitted: Fitted, what: str, budget: Budget) -> Fitted:
    if fitted.trained.n_samples * len(fitted.classes) > MOST_ASKED:  # all others take long
        fitted = replace(fitted, trained=replace(fitted.trained, held_out=None))
    if not budget.interrupted:
        warn(f"the model is the fit {what}. Raise max_time.", ConvergenceWarning)
    return _told(fitted, what)


def _told(fitted: Fitted, what: str) -> Fitted:
    """Return a fit whose reason says which one it is."""
    settings = fitted.settings
    reason = f"{settings.inference_reason}{KEPT}{what}"
    return replace(fitted, settings=replace(settings, inference_reason=reason))
