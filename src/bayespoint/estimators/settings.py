"""What a fit decides before it infers: method, decision, width, bias, softness and label noise.

`settle` is a function of parameters and data; trials make settings of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespoint._support.budget import Budget
from bayespoint._support.checks import is_number
from bayespoint._support.threads import Threads
from bayespoint._support.types import Array
from bayespoint.estimators.calibration import link_points
from bayespoint.estimators.cells import (
    cells_wanted,
    check_cells,
    fits_cells,
)
from bayespoint.estimators.data import TrainingData
from bayespoint.estimators.parameters import (
    ARD,
    Parameters,
    by_evidence,
    by_held_out,
    check_fits,
    class_noise,
)
from bayespoint.estimators.selection import (
    BIASES,
    EVIDENCE_POINTS,
    SECOND_STEPS,
    SOFTNESS,
    Candidate,
    Chosen,
    choose,
    choose_held_out,
    evidence_points,
    look_again,
)
from bayespoint.estimators.trials import (
    SECOND_LOOK_DRAWN,
    CellSearch,
    Trials,
    as_candidate,
    mean_noise,
    taken,
)
from bayespoint.estimators.widths import Widths, WidthSearch, why_not
from bayespoint.inference.ep.cells.method import CellSettings
from bayespoint.inference.methods import METHODS
from bayespoint.space.inputs import warn_about_scales
from bayespoint.space.kernels import Kernel, scale_gamma
from bayespoint.space.merging import contested

# Why all rows were fitted with the settings of a fit on some of them.
LITTLE_TIME = "many rows and little time: small cells, with the settings of a fit on few rows"

# Settings that can be chosen from the data, and the share of max_time that may take.
CHOSEN_SETTINGS = ("gamma", "bias", "softness", "label_noise")
CHOOSING_SHARE = 0.3
EXACT_CHOOSING_SHARE = 0.6  # with exact EP, whose fit itself takes little

# Means of columns that differ add to the variance of all values, but not to distances. Searches
# find widths from a unit that is wrong by no more than this.
OFFSETS = 4.0

# Softness while it is not chosen yet.
FIRST_SOFTNESS = 0.1

# "auto" takes exact EP where its sweeps, those of the search for settings included, take at most so
# many operations: some seconds. The second look, on all points, takes about three times as many.
PROPAGATION_WORK = 6e10
FIT_SWEEPS, SEARCH_SWEEPS = 7, 85  # of 2/3 m³ and 2/3 min(m, EVIDENCE_POINTS)³ each

# Perceptrons are taken where their log-loss is below this share of that of cells. On a sample:
# noise, which keeps the two close, makes perceptrons very slow with more rows, and landmarks
# better. Where all rows were tried: cells of several trees are better than those of one.
AHEAD, AHEAD_OF_ALL = 0.9, 0.98

# Seconds without which they are not compared at all.
LEAST_COMPARING = 10.0
NO_TIME = "many rows, and too little time to compare cells with perceptrons"

# Cells whose log-loss, with the settings of perceptrons, is so many times theirs are not tried on.
HOPELESS = 1.5

# Points of the second look at what fewer chose.
SECOND_LOOK = 2000

# Decisions by the probability of the whole posterior.
VOTING = ("vote", "calibrated")

# Bytes per entry of the matrices that votes need: K, its factor, its inverse, and what that is
# solved from. Beside a GPU only the inverse comes to the host, in float32 and then in float64.
VOTE_BYTES = 4 * 8
VOTE_BYTES_BESIDE_GPU = 4 + 8


@dataclass(frozen=True, eq=False)
class Settings:
    """What a fit uses where its parameters leave a choice.

    Attributes
    ----------
    inference, inference_reason, decision : str
        Method, why, and how classifiers decide.
    kernel_name : str or callable
    gamma : float or ndarray of shape (n_features,)
        Width, or one per feature.
    bias, softness : float
    class_noise : ndarray of shape (n_classes,)
        Rates of wrong labels.
    log_evidence : float or None
        Of the points that settings were chosen with, by the evidence.
    cells : CellSettings or None
        Of EP; None for one cell with all rows.
    gamma_choice : dict or None
        What labels left out said of one width and of a width for each feature.
    """

    inference: str
    inference_reason: str
    decision: str
    kernel_name: Any = None
    gamma: float | Array = 1.0
    bias: float = 0.0
    softness: float = 0.0
    class_noise: Array = field(default_factory=lambda: np.zeros(2))
    log_evidence: float | None = None
    cells: CellSettings | None = None
    gamma_choice: dict[str, Any] | None = None

    @property
    def votes(self) -> bool:
        """Whether the whole posterior decides, what the training points leave open included."""
        return self.decision in VOTING


def choose_method(
    parameters: Parameters, data: TrainingData, place: Any, before: str | None = None
) -> tuple[Settings, Settings | None]:
    """Settle method and decision, and check that their memory is within ``cache_size``.

    Parameters
    ----------
    parameters : Parameters
    data : TrainingData
    place : Host or Device
    before : str, optional
        Method of the fit that this one goes on with.

    Returns
    -------
    settings, rival : Settings
        "auto" may leave two, EP by cells and perceptrons, for labels left out to choose from; else
        the second is None.
    """
    noise = 0.0 if by_evidence(parameters.label_noise) else parameters.label_noise
    rates = class_noise(noise, data.classes)
    suited = [(parameters.inference, "asked for")]
    if parameters.inference == "auto":
        suited = _suited(parameters, data, rates)
    going_on = [one for one in suited if one[0] == before]
    settings = [_settings_of(parameters, data, place, rates, *one) for one in going_on or suited]
    return settings[0], settings[1] if len(settings) > 1 else None


def _settings_of(
    parameters: Parameters, data: TrainingData, place: Any, rates: Array, inference: str,
    reason: str,
) -> Settings:  # fmt: skip
    """Settings of a method, which are checked."""
    decision = parameters.decision
    if decision == "auto":
        decision = METHODS[inference].decision
    if decision == "calibrated" and not METHODS[inference].closed_form:
        raise ValueError(
            f"decision='calibrated' needs the leave-one-out outputs of inference='ep'; got "
            f"inference={inference!r} ({reason}). Use decision='vote' or 'bayes_point'."
        )
    settings = Settings(inference, reason, decision, class_noise=rates)
    if inference == "ep":
        settings = replace(settings, cells=_cells(parameters, data, settings, place))
    _check_memory(parameters, data, settings, place)
    return settings


def _cells(
    parameters: Parameters, data: TrainingData, settings: Settings, place: Any
) -> CellSettings | None:
    """Cells of EP, or None."""
    cells = cells_wanted(parameters, data, _needed(data, settings, place))
    if cells is None:
        return None
    if parameters.precomputed:
        raise ValueError(
            "cell_size needs rows that kernels can be evaluated at; got kernel='precomputed'. "
            "Leave cell_size='auto', or name a kernel."
        )
    if not settings.votes:
        raise ValueError(
            f"decision={settings.decision!r} needs one Bayes point, which EP by cells does not "
            f"have ({data.inputs.shape[0]} distinct rows, cells of {cells.cell_size}). Use "
            f"decision='calibrated' or 'vote', or a larger cell_size."
        )
    for name in CHOSEN_SETTINGS:
        if by_evidence(getattr(parameters, name)):
            raise ValueError(
                f"{name}='evidence' is not available for EP by cells ({data.inputs.shape[0]} "
                f"distinct rows, cells of {cells.cell_size}); give a number, leave the default, or "
                f"a larger cell_size."
            )
    return cells


def _needed(data: TrainingData, settings: Settings, place: Any) -> float:
    """Memory of matrices over all points, in MB."""
    n_points, method = data.inputs.shape[0], METHODS[settings.inference]
    n_voting = data.n_machines if settings.votes else 0
    needed = method.needed_bytes(n_points, data.inputs.dtype.itemsize, n_voting)
    voting = VOTE_BYTES
    if place.own_memory and not method.matrices_on_host:
        needed, voting = 0, VOTE_BYTES_BESIDE_GPU
    return (max(needed, voting * n_points**2) if settings.votes else needed) / 1e6


def _suited(parameters: Parameters, data: TrainingData, rates: Array) -> list[tuple[str, str]]:
    """Methods for these data, and why: one, or two to choose from."""
    n_points = data.inputs.shape[0]
    needed = METHODS["ep"].needed_bytes(n_points, data.inputs.dtype.itemsize, data.n_machines) / 1e6
    fits = needed <= parameters.cache_size
    noisy = by_evidence(parameters.label_noise) or bool(np.any(rates))
    cells = cells_wanted(parameters, data, needed)
    cubes = FIT_SWEEPS * n_points**3 + SEARCH_SWEEPS * min(n_points, EVIDENCE_POINTS) ** 3
    if data.n_machines * cubes * 2 / 3 <= PROPAGATION_WORK and fits:
        return [("ep", "few rows: EP uses all of them at once")]
    why = "many rows" if data.n_machines == 1 else f"many rows for {data.n_machines} classes"
    why = why if fits else f"all rows at once would take {needed:,.0f} MB of memory"
    by_cells = (
        cells is not None
        and fits_cells(parameters, data, cells)
        and not (
            parameters.precomputed
            or parameters.decision not in ("auto", *VOTING)
            or any(by_evidence(getattr(parameters, name)) for name in CHOSEN_SETTINGS)
        )
    )
    found = []
    if by_cells:
        wrong = ", some with wrong labels (label_noise)" if noisy else ""
        found.append(("ep", f"{why}{wrong}: EP uses cells of neighbouring rows"))
    if not noisy and parameters.decision != "calibrated":
        found.append(("perceptron", f"{why}, for which perceptrons are the fastest"))
    reason = "and label_noise > 0, which perceptrons cannot take into account"
    return found or [("billiard" if noisy else "perceptron", f"{why}, {reason}")]


def _check_memory(
    parameters: Parameters, data: TrainingData, settings: Settings, place: Any
) -> None:
    if settings.cells is not None:
        check_cells(parameters, data, settings.cells)
        return
    n_points, needed = data.inputs.shape[0], _needed(data, settings, place)
    what = f"inference={settings.inference!r} ({settings.inference_reason})"
    remedy = "use inference='perceptron' with label_noise=0"
    if settings.votes:
        what = f"decision={settings.decision!r} with {what}"
        remedy = "use decision='bayes_point', or inference='perceptron' with label_noise=0"
    if settings.inference == "ep" and not parameters.precomputed:
        remedy = f"set a smaller cell_size, or {remedy}"
    if needed > parameters.cache_size:
        raise ValueError(
            f"{what} needs {needed:.1f} MB for {n_points} distinct training points; got "
            f"cache_size={parameters.cache_size}. Raise cache_size, or {remedy}."
        )


def settle(
    parameters: Parameters, data: TrainingData, settings: Settings,
    rival: Settings | None = None, *, entropy: int, budget: Budget, threads: Threads,
) -> Settings:  # fmt: skip
    """Set gamma, bias, softness and label noise, from the data if the parameters say so.

    Parameters
    ----------
    parameters : Parameters
    data : TrainingData
    settings, rival : Settings
        From `choose_method`.
    entropy : int
        Seed of the points that settings are chosen with.
    budget : Budget
    threads : Threads
    """
    exact = settings.inference == "ep" and settings.cells is None
    share = EXACT_CHOOSING_SHARE if exact else CHOOSING_SHARE
    late = _choosing_is_over(parameters.max_time, budget, share)
    scale = _unit_of_gamma(parameters, data)
    names = _open_settings(parameters)
    search = CellSearch(parameters, data, names[1], (), entropy, threads, late)
    widths = _widths(search, _first_settings(parameters, data, settings, scale), scale)
    parameters = replace(parameters, kernel=widths.kernel, relative=widths.relative)
    if widths.relative is not None or widths.kernel != search.parameters.kernel:
        scale = widths.gamma
    if widths.relative is None and not parameters.precomputed:
        warn_about_scales(data.inputs, parameters.column_names)
    search = replace(search, parameters=parameters)
    if rival is not None:
        rival = _first_settings(parameters, data, rival, scale)
    begin = _first_settings(parameters, data, settings, scale)
    cut_short = widths.figures is not None and not names[0] and late()
    if settings.cells is not None or cut_short:
        begin = replace(begin, gamma=widths.gamma, softness=widths.softness)
    found = begin
    if not (exact and cut_short):  # what was found so far is better than another beginning
        found = _settle(search, begin, rival, names[0], scale, budget)
    gamma = found.gamma if widths.relative is None else found.gamma * widths.relative
    return replace(found, kernel_name=widths.kernel, gamma=gamma, gamma_choice=widths.figures)


def settings_to_begin(parameters: Parameters, data: TrainingData) -> Settings:
    """Return settings of EP before anything can be chosen from the data."""
    noise = class_noise(
        0.0 if by_evidence(parameters.label_noise) else parameters.label_noise, data.classes
    )
    decision = "calibrated" if parameters.decision == "auto" else parameters.decision
    settings = Settings(
        "ep", "rows of one class so far", decision, parameters.kernel, class_noise=noise
    )
    settings = _first_settings(parameters, data, settings, _unit_of_gamma(parameters, data))
    if np.ndim(parameters.gamma):
        settings = replace(settings, gamma=_given_widths(parameters, data))
    return settings


def _given_widths(parameters: Parameters, data: TrainingData) -> Array:
    relative, n_features = np.asarray(parameters.gamma, dtype=np.float64), data.inputs.shape[1]
    if len(relative) != n_features:
        raise ValueError(
            f"gamma must hold one width for each of the {n_features} features; got "
            f"{len(relative)}. Give one for every column of X, or one number for all."
        )
    return relative


def _widths(search: CellSearch, settings: Settings, scale: float) -> Widths:
    """Widths that are given, or learnt where that is asked for; else one."""
    given, X, kernel = search.parameters.gamma, search.data.inputs, search.parameters.kernel
    if np.ndim(given):
        relative = _given_widths(search.parameters, search.data)
        return Widths(kernel, relative, 1.0, settings.softness, None)
    one = Widths(kernel, None, float(settings.gamma), settings.softness, None)
    if not by_held_out(given):
        return one
    reason = why_not(kernel, X.shape[1])
    if reason is None:
        widths = WidthSearch(search, settings, search.parameters.groups(X.shape[1]))
        return widths.chosen(scale, "full" if given == ARD else None)
    if given == ARD:
        raise ValueError(f"gamma='ard' gives each feature a width, but {reason}.")
    return one


def _settle(
    search: CellSearch, settings: Settings, rival: Settings | None, by_evidence_: list[str],
    scale: float, budget: Budget,
) -> Settings:  # fmt: skip
    """Set numbers, with widths of features as they are."""
    parameters, data, entropy = search.parameters, search.data, search.entropy
    by_held_out_, threads, late = search.names, search.threads, search.late
    open_cells = settings.cells is not None and settings.cells.n_landmarks < 0
    if not by_evidence_ and not by_held_out_ and not open_cells and rival is None:
        return settings
    kernel = data.inputs.fit_layout(parameters.kernel_with(settings.gamma, settings.bias))
    data.check_origin(data.inputs.lengths(kernel))
    biases = _biases(data, kernel) if "bias" in by_held_out_ else ()
    if settings.cells is not None:
        search = replace(search, biases=biases)
        if (
            rival is not None
            and parameters.max_time is not None
            and (CHOOSING_SHARE * parameters.max_time < LEAST_COMPARING)
        ):
            settings, rival = replace(settings, inference_reason=NO_TIME), None
        if rival is None:
            return search.best(settings)
        trials = Trials(parameters, data, rival, by_held_out_, entropy, budget, threads)
        return _settle_rivals(settings, search, trials, scale)
    chosen = evidence_points(data.distinct.label, entropy)
    if by_evidence_:
        # What held-out labels choose later is free, too.
        names = by_evidence_ + by_held_out_
        found = _search(choose, names, parameters, data, settings, chosen, scale, late)
        settings = taken(settings, found.settings, names)
        if not by_held_out_:  # with other settings it would be another
            settings = replace(settings, log_evidence=found.log_evidence)
    method = METHODS.get(settings.inference)  # none for the onion, whose posterior is EP's
    if by_held_out_ and (method is None or method.from_posterior):
        noise = mean_noise(settings, data)
        alone = ~contested(data.distinct)
        look = partial(choose_held_out, noise=noise, alone=alone[chosen], biases=biases)
        found = _search(look, by_held_out_, parameters, data, settings, chosen, scale, late)
        settings = taken(settings, found.settings, by_held_out_)
        if len(chosen) < data.inputs.shape[0] and set(by_held_out_) & set(SECOND_STEPS):
            chosen = evidence_points(data.distinct.label, entropy, SECOND_LOOK)
            look = partial(look_again, noise=noise, alone=alone[chosen])
            found = _search(look, by_held_out_, parameters, data, settings, chosen, scale, late)
            settings = taken(settings, found.settings, by_held_out_)
    elif by_held_out_:
        trials = Trials(parameters, data, settings, by_held_out_, entropy, budget, threads)
        settings = trials.second_look(trials.first_look(scale, late, biases), late)
    return settings


def _settle_rivals(settings: Settings, search: CellSearch, drawn: Trials, scale: float) -> Settings:
    """Settle EP by cells, or perceptrons where they tell labels left out better.

    Both are trained on the same sample, and asked for labels of the same rows of it, each also with
    the settings of the other.
    """
    found = drawn.first_look(scale, search.late, search.biases)
    label = search.data.distinct.label
    sample = link_points(label, search.entropy, SECOND_LOOK_DRAWN)
    of_sample = len(sample) < len(label)
    trials = search.trials(settings, search.division(settings, sample if of_sample else None))
    by_drawn = drawn.loss(found[0], SECOND_LOOK_DRAWN, trials.rows)
    both = (trials.as_they_are(one) for one in (settings, taken(settings, found[0], search.names)))
    best = begin = max(both, key=trials.value)
    # On a sample cells that are ahead as they are need no search to tell, nor any landmarks. Those
    # that are hopeless need none either.
    ahead = AHEAD if of_sample else AHEAD_OF_ALL
    enough = -by_drawn / ahead if of_sample else np.inf
    if trials.value(best) <= enough and -trials.value(best) < HOPELESS * by_drawn:
        best = trials.best(best, search.names, search.biases, enough)
        if not of_sample and not search.late():
            theirs = _not_too_hard(as_candidate(best), search.names)
            if theirs[:3] != found[0][:3]:
                loss = drawn.loss(theirs, SECOND_LOOK_DRAWN, trials.rows)
                by_drawn, found = min((by_drawn, found), (loss, [theirs]), key=lambda pair: pair[0])
    by_cells = -trials.value(best)
    figures = f"{by_cells:.4f} by EP in cells, {by_drawn:.4f} by perceptrons"
    rule = f"which are used if theirs is lower by {1 - ahead:.0%}"
    reason = f"many rows; log-loss of {len(trials.rows):,} held-out labels: {figures}, {rule}"
    if search.late():  # such figures say little
        return replace(begin, inference_reason=NO_TIME)
    if by_drawn <= ahead * by_cells:
        return replace(drawn.second_look(found, search.late), inference_reason=reason)
    if of_sample:  # whose settings suit fewer rows
        best = search.best(replace(begin, cells=settings.cells))
    return replace(best, inference_reason=reason)


def _not_too_hard(settings: Candidate, names: Sequence[str]) -> Candidate:
    """Settings of cells for perceptrons, which need long with little softness."""
    if "softness" not in names:
        return settings
    return settings._replace(softness=max(settings.softness, min(SOFTNESS)))


def _biases(data: TrainingData, kernel: Kernel) -> Sequence[float]:
    """Variances of the bias weight to try: without any, no row may lie at the origin."""
    lengths = data.inputs.lengths(replace(kernel, bias=0.0))
    return [bias for bias in BIASES if bias > 0 or np.all(lengths > 0)]


def _open_settings(parameters: Parameters) -> tuple[list[str], list[str]]:
    """Names of settings for the evidence and for held-out labels to choose."""
    given = {name: getattr(parameters, name) for name in CHOSEN_SETTINGS}
    found = [
        [name for name, value in given.items() if rule(value)]
        for rule in (by_evidence, by_held_out)
    ]
    if not _has_width(parameters):
        found = [[name for name in names if name != "gamma"] for names in found]
    return found[0], found[1]


def _has_width(parameters: Parameters) -> bool:
    kernel = parameters.kernel
    return isinstance(kernel, str) and kernel in ("rbf", "laplacian", "poly")


def _unit_of_gamma(parameters: Parameters, data: TrainingData) -> float:
    """Width of "scale", where the data are asked for it; columns of a search may have offsets."""
    named = isinstance(parameters.gamma, str)
    if not named or parameters.precomputed:
        return 1.0
    if parameters.gamma != "scale" and not _has_width(parameters):
        return 1.0
    variance = data.inputs.variance(data.distinct.weight)
    if parameters.gamma != "scale" and parameters.kernel in ("rbf", "laplacian"):
        within = float(np.mean(np.square(data.inputs.deviations())))
        variance = within if variance > OFFSETS * within > 0 else variance
    return scale_gamma(data.inputs.shape[1], variance)


def _first_settings(
    parameters: Parameters, data: TrainingData, settings: Settings, scale: float
) -> Settings:
    """What is given, and where a search begins."""
    number = is_number(parameters.gamma)
    gamma = float(parameters.gamma) if number else scale
    check_fits(gamma, "gamma", data.inputs.dtype)
    # A bias helps to tell two classes apart; one against the rest, each has its own noise, and
    # kernels that see distances do without.
    local = isinstance(parameters.kernel, str) and parameters.kernel in ("rbf", "laplacian")
    auto = 0.0 if local and len(data.classes) > 2 else 1.0
    bias = auto if isinstance(parameters.bias, str) else float(parameters.bias)
    named = isinstance(parameters.softness, str)
    softness = FIRST_SOFTNESS if named else float(parameters.softness)
    return replace(settings, gamma=gamma, bias=bias, softness=softness)


def _choosing_is_over(max_time: float | None, budget: Budget, share: float) -> Callable[[], bool]:
    """Return what says whether the share of time for choosing settings is over."""
    limit = np.inf if max_time is None else share * max_time

    def late() -> bool:
        budget.show(0, 1, "choosing settings,")
        return budget.interrupted or budget.elapsed() > limit

    return late


def _search(
    search: Callable, names: list[str], parameters: Parameters, data: TrainingData,
    settings: Settings, chosen: Array, scale: float, late: Callable[[], bool],
) -> Chosen:  # fmt: skip
    kernel = parameters.kernel_with(1.0, settings.bias)
    X = data.inputs.array(chosen)
    if kernel.column_scale is not None:  # one width then is the common one
        X = X.multiply(kernel.column_scale).tocsr() if sp.issparse(X) else X * kernel.column_scale
    return search(
        kernel.with_settings(settings.gamma, settings.bias), X,
        data.distinct.label[chosen], data.distinct.weight[chosen], as_candidate(settings), names,
        scale=scale, stop=late,
    )  # fmt: skip
